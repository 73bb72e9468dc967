# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse ``baseline.toml``, and name the line of each key that is wrong."""

import re
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from baremetal_acc.model import pci_address, toml
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.card_setting import CardSetting, DpuMode, Sriov
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.waiver import LONGEST, LONGEST_TEXT, Waiver, moment
from baremetal_acc.policy import accounts, bmc_rules
from baremetal_acc.policy.baseline_rules import (
    DEFAULT_RULE,
    FUNCTION_PREFIX,
    STANDARD_CLASSES,
    Baseline,
    CardSettingDemand,
    Downgrade,
    DriftAction,
    Exposure,
    Match,
    Measure,
    Offering,
    OnLeave,
    OnMissing,
    Rule,
)

FORMAT = 1

_PART = re.compile(r'\[(?:!?\][^\]]*|(?:![^\]]|[^\]!])[^\]]*)\]|.', re.DOTALL)
"""One part of an fnmatch pattern: a character class, or one character."""

_WAIVER = 'waiver = { role = "RESPONSIBLE ROLE", reason = "WHY", expires = 2027-01-31, paths = ["host-bmc-ipmi"] }'
"""Example of a waiver, for hints."""

_HEX = '0123456789abcdef'

_IDS = ('0', 'x', *[_HEX] * 4, ':', '0', 'x', *[_HEX] * 4)
"""The characters allowed at each position of a pair of PCI ids."""

_TRAIT = re.compile(r'[A-Z][A-Z0-9_]{0,254}')
"""Source: placement, trait names: ``^[A-Z0-9_]+$``, at most 255; all of os-traits begin with a letter."""

_OTHER_NAMES = {'slot': 'location', 'serial_number': 'serial', 'address': 'pci_address'}
"""Wrong names of keys of ``match`` that authors may write, with the inventory's name for each."""

_CLASS = re.compile(rf'{"|".join(STANDARD_CLASSES)}|CUSTOM_[A-Z0-9_]{{1,248}}')
"""Source: placement 16.0.0, schemas/resource_class.py: ``^CUSTOM_[A-Z0-9_]+$``, at most 255."""


class Acceptable(StrEnum):
    """Lock states that a rule may accept. A deploy accepts only ``locked-verified``, whatever the rule says."""

    LOCKED_VERIFIED = 'locked-verified'
    LOCKED_REPORTED = 'locked-reported'


def parse(text: str, path: str, *, now: datetime | None = None) -> Baseline:
    """Parse a ``baseline.toml``.

    :param path: for messages.
    :param now: a waiver that would end too long after this time is an error. A waiver that has ended is none: it waives
        nothing.
    :raises DocumentError: the file is invalid; names file and line.
    """
    document = toml.read(text, path, format_version=FORMAT)
    serial, expires = document.serial(), document.moment('expires')
    rules: dict[str, Rule] = {}
    for number, table in enumerate(document.tables('rule')):
        rule = _rule(table, number, now)
        if rule.name in rules:
            raise table.error('name', f'two rules are called {rule.name!r}')
        rules[rule.name] = rule
    of_bmcs = bmc_rules.parse(document, frozenset(rules))
    document.finish()
    return Baseline(rules=tuple(rules.values()), bmc=of_bmcs, serial=serial, expires=expires)


def _rule(table: toml.Table, number: int, now: datetime | None) -> Rule:
    name = table.string('name') or f'rule-{number + 1}'
    if name == DEFAULT_RULE:
        raise table.error('name', f'{DEFAULT_RULE!r} is reserved for the defaults; choose another name')
    matched = table.table('match')
    match = Match(
        kind=matched.choice('kind', Kind),
        vendor=matched.string('vendor'),
        model=matched.string('model'),
        pci=matched.string('pci'),
        location=matched.string('location'),
        serial=matched.string('serial'),
        pci_address=_pci_address(matched),
        traits=frozenset(matched.strings('traits') or ()),
        resource_class=matched.string('resource_class'),
        owner=matched.string('owner'),
        exposure=matched.choice('exposure', Exposure),
    )
    for key, ours in _OTHER_NAMES.items():
        if matched.has(key):
            raise matched.error(key, 'no such key', f'write {ours}')
    matched.finish()
    if match.pci is not None and not _may_be_ids(match.pci):
        what = f'{match.pci!r} is neither a pair of vendor and device id like "0x10de:0x2330" nor a pattern that can match one'
        raise matched.error('pci', f'{what}: the rule would match no device')
    for trait in sorted(match.traits):
        if not _TRAIT.fullmatch(trait):
            what = f'{trait!r} is not a trait: capital letters, digits and underscores, no pattern'
            raise matched.error('traits', f'{what}: the rule would match no device')
    accept = table.choices('accept', Acceptable)
    if accept is not None and not accept:
        raise table.error('accept', 'is empty: no lock state would be accepted')
    on_missing = _on_missing(table)
    rule = Rule(
        name=name,
        match=match,
        firmware=table.mapping('firmware'),
        downgrade=table.choice('downgrade', Downgrade),
        revocations=table.strings('revocations'),
        functions=table.mapping('functions'),
        block=table.choices('block', WritePath),
        accept=None if accept is None else frozenset(LockState(state.value) for state in accept),
        on_missing=on_missing,
        waiver=_waiver(table, now) if on_missing is OnMissing.WAIVE else None,
        count=table.integer('count'),
        security_floor=table.integer('security_floor'),
        tenants_program=table.boolean('tenants_program'),
        on_drift=table.choices('on_drift', DriftAction),
        measure=table.choice('measure', Measure),
        custody=table.choice('custody', CustodyDemand),
        offer=table.choice('offer', Offering),
        offer_class=_offer_class(table),
        takes=table.strings('takes'),
        on_leave=table.choice('on_leave', OnLeave),
        bmc_users=_bmc_users(table),
        sriov=_setting(table, CardSetting.SRIOV, Sriov),
        dpu_mode=_setting(table, CardSetting.DPU_MODE, DpuMode),
    )
    table.finish()
    if rule.downgrade is not None and rule.firmware is None:
        raise table.error('downgrade', 'is only valid in a rule with firmware, whose versions it concerns')
    return rule


def _pci_address(table: toml.Table) -> str | None:
    text = table.string('pci_address')
    if text is None:
        return None
    found = pci_address.pattern(text)
    if found is None or not any(_may_be(found, places) for places in pci_address.PLACES):
        what = f'{text!r} is neither a PCI address nor a pattern that can match one: the rule would match no device'
        raise table.error('pci_address', what, 'write it as "0000:17:00.0" or "17:00.0", or a pattern such as "17:00.*"')
    return found


def _bmc_users(table: toml.Table) -> tuple[str, ...] | None:
    found = table.strings('bmc_users')
    for text in found or ():
        wrong = accounts.flaw(text)
        if wrong is not None:
            raise table.error('bmc_users', *wrong)
    try:
        accounts.limits(found or ())
    except ValueError as exc:
        raise table.error('bmc_users', str(exc)) from None
    return found


def _setting(table: toml.Table, setting: CardSetting, words: type[StrEnum]) -> CardSettingDemand | None:
    """Parse what a rule demands of a setting of a card: a word, or a table with the word and whether to restore it."""
    if not isinstance(table.data.get(setting), dict):
        found = table.choice(setting, words)
        return None if found is None else CardSettingDemand(setting=setting, expected=found.value)
    inner = table.table(setting)
    found, restores = inner.choice('expect', words), inner.boolean('restore')
    inner.finish()
    if found is None:
        example = f'{setting} = {{ expect = "{next(iter(words))}", restore = true }}'
        raise inner.error(None, 'expect is missing', f'for example {example}')
    return CardSettingDemand(setting=setting, expected=found.value, restores=restores is True)


def _offer_class(table: toml.Table) -> str | None:
    found = table.string('offer_class')
    if found is not None and not _CLASS.fullmatch(found):
        what = f'{found!r} is not a resource class that can be published'
        raise table.error(
            'offer_class',
            what,
            f'{", ".join(STANDARD_CLASSES)}, or CUSTOM_ followed by capital letters, digits and underscores',
        )
    if found is not None and found.startswith(FUNCTION_PREFIX):
        raise table.error('offer_class', f'{found!r} is the resource class of the function of that name', 'choose another name')
    how = table.choice('offer', Offering)
    if found is not None and how in (Offering.FUNCTION, Offering.NOTHING):
        what = 'the class is that of the function' if how is Offering.FUNCTION else 'nothing is published'
        raise table.error('offer_class', f'has no effect with offer = "{how}": {what}', 'remove it')
    return found


def _on_missing(table: toml.Table) -> OnMissing | None:
    if table.data.get('on_missing') == 'allow':
        # Earlier versions accepted "allow". The author now has to name who answers for the open path, and until when.
        what = '"allow" is no longer supported: an open path needs a responsible role and an expiry'
        raise table.error('on_missing', what, f'remove the path from block, or write on_missing = "waive" and {_WAIVER}')
    found = table.choice('on_missing', OnMissing)
    if found is OnMissing.WAIVE and not table.has('waiver'):
        table.not_misspelt('waiver')
        raise table.error('on_missing', '"waive" needs a waiver in the same rule', f'add {_WAIVER}')
    if found is not OnMissing.WAIVE and table.has('waiver'):
        table.not_misspelt('on_missing')
        raise table.error(
            'waiver', 'has no effect without on_missing = "waive" in the same rule', 'add that, or remove the waiver'
        )
    return found


def _waiver(rule: toml.Table, now: datetime | None) -> Waiver:
    table = rule.table('waiver')
    paths = table.choices('paths', WritePath)
    if not paths:
        table.not_misspelt('paths')
        hint = f'for example paths = ["host-bmc-ipmi"]; write paths are {", ".join(WritePath)}'
        raise table.error('paths' if table.has('paths') else None, 'paths must list the write paths that are waived', hint)
    found = Waiver(
        role=_bounded(table, 'role'), reason=_bounded(table, 'reason'), expires=table.end('expires'), paths=paths
    )  # fmt: skip
    table.finish()
    if now is not None and found.too_long(now):
        hint = f'a waiver may last {LONGEST.days} days; renew it after a review'
        raise table.error('expires', f'{moment(found.expires)} is too far in the future', hint)
    return found


def _bounded(table: toml.Table, key: str) -> str:
    text = table.required_string(key)
    if len(text) > LONGEST_TEXT:
        raise table.error(key, f'{len(text)} characters are too many; at most {LONGEST_TEXT} are allowed')
    return text


def _may_be_ids(pattern: str) -> bool:
    """Whether a shell pattern can match any pair of PCI ids, as devices report them."""
    return _may_be(pattern, _IDS)


def _may_be(pattern: str, characters: tuple[str, ...]) -> bool:
    """Whether a shell pattern can match any text with these characters, position by position."""
    # How many characters of the text the parts so far can have consumed.
    places = {0}
    for part in _PART.findall(pattern.casefold()):
        if part == '*':
            places = set(range(min(places), len(characters) + 1))
        else:
            places = {n + 1 for n in places if n < len(characters) and any(fnmatchcase(c, part) for c in characters[n])}
        if not places:
            return False
    return len(characters) in places

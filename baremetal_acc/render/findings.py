# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render the findings of a verdict: what a rule of the baseline expects, and what was found."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from baremetal_acc.model import finding as f
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.finding import Fact, FindingText
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import Coverage
from baremetal_acc.model.measurement import (
    COMPARED,
    Compared,
    Measurement,
    MeasurementComparison,
    MeasurementReading,
    MeasurementState,
)
from baremetal_acc.model.reference import ReferenceCompared, VersionReference
from baremetal_acc.model.refusal import Counted, MayHideDevices, NoAccelerators, RuleUndecided, SharedIdentity
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.model.waiver import moment
from baremetal_acc.planning import attestation, image_selection, waivers
from baremetal_acc.planning import reference_values as comparison
from baremetal_acc.render import bmc_settings, card_settings, custody, reference_values, similar
from baremetal_acc.render.words import counted

_SIGNED = 'measurements signed over our nonce, verified with a pinned root, and as the catalogue expects'
_NOT_ASKED = 'measurements were not requested in this inspection'
_NOT_COMPARED = 'the catalogue has nothing to compare it with'

_MOST_OPEN = 3
_MOST_COMPARED = 3
"""Limit of the parts that one text lists."""

_MOST_OF_A_VALUE = 120
"""Characters of a lock's value that a finding shows; inventories and certificates show more of it."""


def sentence(finding: Finding) -> str:
    """Name the device, the part of it, what was expected and what was found."""
    return f'{finding.label}, {finding.subject}: {clause(finding.fact, finding.rule)}'


def clause(fact: Fact, rule: str) -> str:
    """Say what was expected and what was found, and by which rule."""
    said = words(fact)
    return f'expected {said.expected}, found {said.found} (rule {rule})'


def recorded(verdict: Verdict) -> Verdict:
    """Return the verdict as jobs store it: with its facts as text."""
    return replace(verdict, findings=tuple(replace(one, fact=words(one.fact)) for one in verdict.findings))


def words(fact: Fact) -> FindingText:
    """Return what was expected and what was found, as text."""
    expected, found = _words(fact)
    return FindingText(expected=expected, found=found)


def _words(fact: Fact) -> tuple[str, str]:
    match fact:
        case FindingText():
            return fact.expected, fact.found
        case NoAccelerators():
            return 'accelerators', 'none'
        case SharedIdentity():
            return 'one card', f'{fact.times} devices with this identity'
        case f.CardMissing():
            return 'the card seen before', 'absent'
        case MayHideDevices():
            return 'readable', fact.gap.reason
        case Counted():
            return counted(fact.wanted, 'device'), f'{counted(number(fact), "device")}{unsure(fact)}'
        case f.RuleMatchesNothing():
            return 'the devices that it matches, if any', 'no device matches'
        case RuleUndecided():
            return f'the {" and the ".join(fact.hidden)} that the rule matches on', 'not shown by the BMC'
        case f.CardLeftOut():
            return 'a rule for this card as well, if it is meant to have one', left_out(fact)
        case f.VersionShown():
            expected = fact.expected if fact.revocation is None else f'{fact.expected} (revocation {fact.revocation})'
            unread = '' if fact.unread is None else f': {fact.unread.ref} {fact.unread.field}: {fact.unread.reason}'
            return expected, f'{"unknown" if fact.found is None else fact.found}{unread}{_with(fact.staged)}'
        case f.NoComponent():
            return fact.expected, 'absent'
        case f.Denied():
            when = ' staged for the next reset' if fact.is_staged else ''
            return 'a version that the catalogue does not deny', f'{fact.version}{when}, denied: {fact.denial}'
        case f.FunctionDenied():
            return 'a function that the catalogue does not deny', f'{fact.image}, denied: {fact.denial}'
        case f.NoRevocation():
            found = 'no component that the revocation fits' if fact.is_known else 'the catalogue has no such revocation'
            return f'revocation {fact.revocation}', found
        case f.SlotHolds():
            held = (
                'empty' if fact.held is None else ' '.join(filter(None, (image_selection.shown(fact.held), fact.held.version)))
            )
            none = '' if fact.has_image else f'; the catalogue has no image of {fact.function} for this slot'
            return fact.function, f'{held}{none}{_with(fact.staged)}'
        case f.FunctionWithoutSlot():
            return fact.function, 'no such slot'
        case f.BmcAccounts():
            hidden = () if fact.unread is None else (f'not all accounts could be read: {fact.unread}',)
            expected = f'no accounts but {", ".join(fact.expected)}' if fact.expected else 'no accounts'
            return expected, '; '.join((*fact.strange, *hidden)) or 'no other accounts'
        case f.BmcSettingFound():
            return bmc_settings.words(fact)
        case f.CardSettingFound():
            return card_settings.words(fact)
        case f.PathState():
            return ' or '.join(sorted(fact.accepted)) or 'an accepted lock state (the rule accepts none)', _path(fact)
        case f.LockVanished():
            return f'{fact.field} at {fact.ref}, as engaged', 'the BMC no longer shows it'
        case f.ChainOfCustody():
            return f'a valid chain of custody ({fact.demand})', custody.explain(fact.custody, fact.at)
        case _:
            return _SIGNED, _signed(fact)


def _with(staged: str | None) -> str:
    return '' if staged is None else f', with {staged} staged for the next reset'


def number(counted: Counted) -> str:
    """Say how many devices match a rule, as far as that is known."""
    return f'{counted.found} to {counted.found + counted.possible}' if counted.possible else f'{counted.found}'


def unsure(counted: Counted) -> str:
    """Say why the number is not known, for the end of a sentence."""
    return ': the BMC does not show every property that the rule matches on' if counted.possible else ''


def left_out(fact: f.CardLeftOut) -> str:
    """Say what no rule demands of a card while a rule demands it of an identical card."""
    card = f'an identical card with another {" or ".join(fact.differs)}'
    return f'no rule sets {", ".join(fact.keys)} for this card, but rule {fact.rule} does for {card}'


# -------------------------------------------------------------------------------------------------------------------- locks


def _path(fact: f.PathState) -> str:
    let = fact.waived
    if let is not None:
        return f'no mechanism, waived until {moment(let.expires)} by {let.role} (rule {let.rule}): {let.reason}'
    if not fact.open:
        return fact.state
    found = '; '.join(map(_open, fact.open[:_MOST_OPEN]))
    more = f'; and {len(fact.open) - _MOST_OPEN} more' if len(fact.open) > _MOST_OPEN else ''
    why = f'; {waivers.HIDDEN}' if fact.vanished else waivers.ended_text(fact.waivers)
    return f'{found}{more}{why}'


def open_parts(fact: f.PathState, most: int) -> tuple[str, ...]:
    """Return one text for the open parts of a write path that share a lock, and one for why no waiver covers them.

    :param most: limit of the texts about parts.
    """
    groups = similar.grouped(fact.open, _how)
    said = [f'{", ".join(str(one.subject) for one in group)} {_how(group[0])}' for group in groups]
    more = (f'and {len(said) - most} more',) if len(said) > most else ()
    why = (waivers.HIDDEN,) if fact.vanished else tuple(waivers.ended_text([one]).removeprefix('; ') for one in fact.waivers)
    return (*said[:most], *more, *why)


def _open(found: Coverage) -> str:
    return f'{found.subject} {_how(found)}'


def _how(found: Coverage) -> str:
    """Return the state of a part, and the lock that was read for it."""
    reading = found.reading
    if reading is None:
        return f'{found.state} (no mechanism blocks this path)'
    value = '' if reading.value is None else f' = {_short(_state_of(reading.value) if reading.reason else reading.value)}'
    reason = '' if reading.reason is None else f', {reading.reason}'
    return f'{found.state} ({reading.mechanism} at {reading.ref} {reading.field}{value}{reason})'


def _state_of(value: str) -> str:
    """Return the first element of a list, which is the state of a firewall: the reason lists everything that is open."""
    if not value.startswith('["'):
        return value
    try:
        return json.dumps(json.JSONDecoder().raw_decode(value, 1)[0])  # the list may have been cut
    except ValueError:
        return value


def _short(value: str) -> str:
    """Shorten the value of a lock for a sentence; a cut is marked."""
    return value if len(value) <= _MOST_OF_A_VALUE else f'{value[:_MOST_OF_A_VALUE]}...'


# ------------------------------------------------------------------------------------------------------------- measurements


def _signed(fact: f.Signed) -> str:
    match fact:
        case f.NotMeasured():
            return 'the BMC shows no root of trust that signs for this device' if fact.asked else _NOT_ASKED
        case f.NotProven():
            return f'{fact.reading.state}{_told(fact.reading)}'
        case f.KeyUnknown():
            return 'the key that signed them is unknown'
        case f.KeyShared():
            return f'the key that signed them is also that of {fact.label}'
        case f.RootShared():
            return f'the root of trust also signs for {_others(fact.others)}, and no other signs for this device alone'
        case f.Contradicted():
            return '; '.join(filter(None, (_all(fact.compared), reference_values.results(fact.references))))
        case f.Proven():
            also = f'; the same root of trust signs for {_others(fact.others)}' if fact.others else ''
            said = '; '.join(filter(None, (_all(fact.compared), reference_values.results(fact.references))))
            is_compared = fact.compared or any(isinstance(one, ReferenceCompared) for one in fact.references)
            compared = f'{"" if is_compared else f", and {_NOT_COMPARED}"}{f": {said}" if said else ""}'
            return f'proven{compared}{_told(fact.reading)}{also}'
        case _:
            assert_never(fact)


def _told(reading: MeasurementReading) -> str:
    return '' if reading.reason is None else f': {reading.reason}'


def _others(count: int) -> str:
    return f'{count} other device{"s" if count > 1 else ""}'


def _all(compared: tuple[Compared, ...]) -> str:
    return '; '.join(map(_compared, compared[:_MOST_COMPARED]))


def _compared(one: Compared) -> str:
    name, version = one.component.id, one.component.version
    if one.images:
        return f'{name} is {version}'
    says = f'{name} is reported as {version or "unknown"}'
    if one.index is None:
        return f'{says}, but its measurement is that of image {one.image}, version {one.image_version}'
    what = 'is missing' if one.measurement is None else f'is {_short_digest(one.measurement)}'
    return f'{says}, but measurement {one.index} {what}, not that of image {one.image}'


def _short_digest(found: Measurement) -> str:
    return f'{found.algorithm or ("raw" if found.raw else "digest")}:{found.value[:16]}...'


def with_measurements_compared(
    inventory: Inventory, catalogue: Iterable[Image], references: tuple[VersionReference, ...] = ()
) -> Inventory:
    """Return the inventory for a certificate: each proven measurement says what it was compared with, or that it was not."""
    known = tuple(i for i in catalogue if i.measurements)

    def said(device: Accelerator, reading: MeasurementReading) -> MeasurementReading:
        if reading.state is not MeasurementState.PROVEN:
            return reading
        found = attestation.all_compared(device, reading, known)
        results = comparison.compared(reading, references)
        said = [*map(_compared, found), *(reference_values.result(r) for r in results if isinstance(r, ReferenceCompared))]
        what = f'{COMPARED}{"; ".join(said)}' if said else _NOT_COMPARED
        return replace(
            reading,
            reason='; '.join(filter(None, (what, reading.reason))),
            comparison=MeasurementComparison.COMPARED if said else MeasurementComparison.NO_REFERENCE,
        )

    devices = (
        a if a.measurements is None else replace(a, measurements=tuple(said(a, one) for one in a.measurements))
        for a in inventory.accelerators
    )
    return replace(inventory, accelerators=tuple(devices))

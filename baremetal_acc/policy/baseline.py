# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse ``baseline.toml``, and name the line of each key that is wrong."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from baremetal_acc.model import pci_address, toml
from baremetal_acc.model.accelerator import Accelerator, Kind
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.refusal import Counted
from baremetal_acc.model.waiver import LONGEST, LONGEST_TEXT, Waiver, moment
from baremetal_acc.policy import accounts

FORMAT = 1

HOST_PATHS = frozenset({WritePath.HOST_DEVICE, WritePath.HOST_BMC_IPMI, WritePath.HOST_BMC_REDFISH})
"""Every path by which the host reaches a device or its BMC."""

DEFAULT_RULE = 'default'
"""Name of the default that holds where no rule decides."""

_PART = re.compile(r'\[(?:!?\][^\]]*|(?:![^\]]|[^\]!])[^\]]*)\]|.', re.DOTALL)
"""One part of an fnmatch pattern: a character class, or one character."""

_WAIVER = 'waiver = { role = "WHO ANSWERS FOR IT", reason = "WHY", expires = 2027-01-31, paths = ["host-bmc-ipmi"] }'
"""Example of a waiver, for hints."""

_HEX = '0123456789abcdef'

_IDS = ('0', 'x', *[_HEX] * 4, ':', '0', 'x', *[_HEX] * 4)
"""The characters allowed at each position of a pair of PCI ids."""

_TRAIT = re.compile(r'[A-Z][A-Z0-9_]{0,254}')
"""Source: placement, trait names: ``^[A-Z0-9_]+$``, at most 255; all of os-traits begin with a letter."""


STANDARD_CLASSES = ('FPGA', 'PGPU')
"""The standard resource classes that a device may be claimed as. The other classes of os-resource-classes are counted by other
services: processors, memory, disks, addresses, and devices of virtual machines.
"""

_OTHER_NAMES = {'slot': 'location', 'serial_number': 'serial', 'address': 'pci_address'}
"""Wrong names of keys of ``match`` that authors may write, with the inventory's name for each."""

FUNCTION_PREFIX = 'CUSTOM_ACC_FN_'
"""Prefix of the resource class and the trait of every function."""

_CLASS = re.compile(rf'{"|".join(STANDARD_CLASSES)}|CUSTOM_[A-Z0-9_]{{1,248}}')
"""Source: placement 16.0.0, schemas/resource_class.py: ``^CUSTOM_[A-Z0-9_]+$``, at most 255."""


class Exposure(StrEnum):
    """Whose code runs on the node: a tenant's, the operator's own, or nobody's."""

    TENANT = 'tenant'
    SERVICE = 'service'
    NONE = 'none'


class OnMissing(StrEnum):
    """What to do if no mechanism blocks a path that must be blocked: refuse, or apply the waiver of the same rule."""

    REFUSE = 'refuse'
    WAIVE = 'waive'


class Downgrade(StrEnum):
    """What to do if the demanded firmware has a lower security_version than the running firmware."""

    REFUSE = 'refuse'
    ALLOW = 'allow'


class DriftAction(StrEnum):
    """What to do if an active node differs from what was handed over. Every difference is logged and kept in the history, too.

    ``notify``: send a notification. ``reengage``: engage open locks again, where that needs no reset of the host.
    ``maintenance``: put the node into maintenance; its host keeps running.
    """

    NOTIFY = 'notify'
    REENGAGE = 'reengage'
    MAINTENANCE = 'maintenance'


ON_DRIFT = frozenset({DriftAction.NOTIFY, DriftAction.REENGAGE})
"""Default where no rule decides: engaging a lock opens no path."""


class Measure(StrEnum):
    """Whether devices have to sign measurements of what they run.

    ``where-present``: every root of trust that offers measurements has to prove them. ``required``: every device has a root of
    trust, and the catalogue holds reference measurements for it.
    """

    REQUIRED = 'required'
    WHERE_PRESENT = 'where-present'
    OFF = 'off'


class Offering(StrEnum):
    """How a device can be claimed in placement.

    ``device``: as a whole. ``together``: all devices of one make in a node are one inventory with their number as the total.
    ``function``: a slot is claimed as the function that it verifiably holds, and not at all without one. ``region``: a slot is
    claimed whatever it holds, and can be given another function for each tenant. ``nothing``: not at all.
    """

    DEVICE = 'device'
    TOGETHER = 'together'
    FUNCTION = 'function'
    REGION = 'region'
    NOTHING = 'nothing'


class OnLeave(StrEnum):
    """Whether the function of a slot stays available in placement after a tenant has left the machine.

    ``keep``: the verified function stays available. ``remove``: the slot offers nothing until it is programmed again. Applies
    to slots that are offered as their function.
    """

    KEEP = 'keep'
    REMOVE = 'remove'


class Acceptable(StrEnum):
    """Lock states that a rule may accept. A deploy accepts only ``locked-verified``, whatever the rule says."""

    LOCKED_VERIFIED = 'locked-verified'
    LOCKED_REPORTED = 'locked-reported'


class Hideable(StrEnum):
    """Properties of a device that a rule can match and that a BMC may not report, named as in messages."""

    VENDOR = 'vendor'
    MODEL = 'model'
    PCI = 'PCI ids'
    LOCATION = 'location'
    SERIAL = 'serial number'
    PCI_ADDRESS = 'PCI address'


class _Text(NamedTuple):
    what: Hideable
    shown: str | None
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The properties of a node that rules can match.

    :ivar name: for messages.
    :ivar owner: the project that owns the node, as Ironic knows it.
    """

    name: str
    resource_class: str | None = None
    owner: str | None = None
    traits: frozenset[str] = frozenset()
    exposure: Exposure = Exposure.TENANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The devices and nodes that a rule applies to. Fields that are None or empty match all.

    Texts are shell patterns; case is ignored.

    :ivar location: location of the slot, as the inventory shows it.
    :ivar pci_address: pattern over PCI addresses in normal form, as :func:`baremetal_acc.model.pci_address.pattern` makes it.
    :ivar ids: only these devices; for rules that a job adds, a baseline file cannot name them.
    """

    kind: Kind | None = None
    vendor: str | None = None
    model: str | None = None
    pci: str | None = None
    location: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    traits: frozenset[str] = frozenset()
    resource_class: str | None = None
    owner: str | None = None
    exposure: Exposure | None = None
    ids: frozenset[AcceleratorId] = frozenset()

    def node(self, node: NodeFacts) -> bool:
        """Whether the node part of the match holds."""
        return (
            (self.resource_class is None or _like(node.resource_class, self.resource_class))
            and (self.owner is None or _like(node.owner, self.owner))
            and (self.exposure is None or node.exposure is self.exposure)
        )  # fmt: skip

    def device(self, accelerator: Accelerator, node: NodeFacts) -> bool:
        """Whether the node part and the device part hold."""
        return self._definite(accelerator, node) and all(_like(t.shown, t.pattern) for t in self._texts(accelerator))

    def undecided(self, accelerator: Accelerator, node: NodeFacts) -> bool:
        """Whether the rule may apply to the device.

        The BMC does not report all properties that the rule matches, and those that it reports match.
        """
        return (
            self._definite(accelerator, node)
            and bool(self.hidden(accelerator))
            and all(t.shown is None or _like(t.shown, t.pattern) for t in self._texts(accelerator))
        )

    def hidden(self, accelerator: Accelerator) -> tuple[Hideable, ...]:
        """Return the properties that the rule matches and the BMC does not report of a device."""
        return tuple(t.what for t in self._texts(accelerator) if t.shown is None)

    def of_one_card(self) -> tuple[Hideable, ...]:
        """Return the matched properties that tell one card from another of its model."""
        keys = ((Hideable.LOCATION, self.location), (Hideable.SERIAL, self.serial), (Hideable.PCI_ADDRESS, self.pci_address))
        return tuple(what for what, pattern in keys if pattern is not None)

    def _definite(self, accelerator: Accelerator, node: NodeFacts) -> bool:
        """Whether every condition holds whose value is always known."""
        return (
            self.node(node)
            and (not self.ids or accelerator.id in self.ids)
            and (self.kind is None or accelerator.kind is self.kind)
            and self.traits <= (accelerator.traits | node.traits)
        )

    def _texts(self, accelerator: Accelerator) -> Iterator[_Text]:
        """Yield each text property that the rule matches, with the reported value (None if there is none) and the pattern."""
        pci = accelerator.pci
        ids = None if pci.vendor_id is None or pci.device_id is None else f'{pci.vendor_id}:{pci.device_id}'
        for what, shown, pattern in (
            (Hideable.VENDOR, accelerator.vendor, self.vendor),
            (Hideable.MODEL, accelerator.model, self.model),
            (Hideable.PCI, ids, self.pci),
            (Hideable.LOCATION, accelerator.location, self.location),
            (Hideable.SERIAL, accelerator.serial, self.serial),
            (Hideable.PCI_ADDRESS, pci.address, self.pci_address),
        ):
            if pattern is not None:
                yield _Text(what, shown, pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One ``[[rule]]`` of the baseline. A key that is None decides nothing and leaves the decision to later rules.

    :ivar firmware: pairs of a pattern over SoftwareInventory Ids and the version that must run.
    :ivar functions: pairs of a pattern over SlotIds and the name of the function that must be in the slot.
    :ivar block: write paths that must be blocked.
    :ivar count: how many devices of the node must match.
    :ivar security_floor: no image with a lower security_version is written.
    :ivar downgrade: whether the versions of this very rule may lower the security_version; None refuses.
    :ivar revocations: names of revocation images that must be in force.
    :ivar waiver: the paths that ``waive`` of this very rule leaves open.
    :ivar tenants_program: whether a tenant may have functions programmed into slots of the device; None: no.
    :ivar on_drift: what to do if the device differs from what was handed over, while a tenant has the node.
    :ivar measure: whether the device has to sign measurements of what it runs.
    :ivar custody: what is demanded of the custody chain of the device.
    :ivar offer: how the device can be claimed; ``offer_class`` as which resource class, None: the class of its kind.
    :ivar takes: names of the functions that its slots may be given for a tenant; None: every function that fits.
    :ivar on_leave: whether the functions of its slots stay offered after a tenant has left the machine; None: they do.
    :ivar bmc_users: the accounts that may log in to the BMCs that report the device, where the accounts of these BMCs are read
        (by IPMI), as :func:`~baremetal_acc.policy.accounts.limits` takes them; None: any account.
    """

    name: str
    match: Match
    firmware: tuple[tuple[str, str], ...] | None = None
    downgrade: Downgrade | None = None
    revocations: tuple[str, ...] | None = None
    functions: tuple[tuple[str, str], ...] | None = None
    block: frozenset[WritePath] | None = None
    accept: frozenset[LockState] | None = None
    on_missing: OnMissing | None = None
    waiver: Waiver | None = None
    count: int | None = None
    security_floor: int | None = None
    tenants_program: bool | None = None
    on_drift: frozenset[DriftAction] | None = None
    measure: Measure | None = None
    custody: CustodyDemand | None = None
    offer: Offering | None = None
    offer_class: str | None = None
    takes: tuple[str, ...] | None = None
    on_leave: OnLeave | None = None
    bmc_users: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All rules, in order.

    :ivar granted: rules that hold the waivers granted for the node in addition to the baseline: these waivers come before those
        of rules, and take none away.
    """

    rules: tuple[Rule, ...]
    granted: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A rule that would decide something for a device, if only it were known whether the rule applies to it.

    :ivar hidden: the properties that the rule matches and the BMC does not report.
    :ivar security_floor: the floor of the rule, if the rule would decide it.
    """

    rule: str
    hidden: tuple[Hideable, ...]
    security_floor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What the rules demand of one device; each ``*_rule`` names the rule that decided.

    :ivar downgrade: the rule that demands the firmware allows a lower security_version than that of the running firmware.
    :ivar waivers: the waivers that may cover a path, each with its rule; whether one is in force depends on the time.
    :ivar block: includes the paths of every undecided rule that may be the one that decides.
    :ivar undecided: rules that would have decided something, and of which nobody can tell whether they apply to this device.
    :ivar offer: None if no rule says how the device can be claimed.
    :ivar takes: None if every function that fits may be programmed into its slots.
    """

    firmware: tuple[tuple[str, str], ...]
    firmware_rule: str
    functions: tuple[tuple[str, str], ...]
    functions_rule: str
    block: frozenset[WritePath]
    block_rule: str
    accept: frozenset[LockState]
    accept_rule: str
    on_missing: OnMissing
    on_missing_rule: str
    security_floor: int
    security_floor_rule: str
    revocations: tuple[str, ...] = ()
    revocations_rule: str = DEFAULT_RULE
    tenants_program: bool = False
    tenants_program_rule: str = DEFAULT_RULE
    on_drift: frozenset[DriftAction] = ON_DRIFT
    on_drift_rule: str = DEFAULT_RULE
    measure: Measure = Measure.WHERE_PRESENT
    measure_rule: str = DEFAULT_RULE
    custody: CustodyDemand = CustodyDemand.REPORTED
    custody_rule: str = DEFAULT_RULE
    offer: Offering | None = None
    offer_rule: str = DEFAULT_RULE
    offer_class: str | None = None
    offer_class_rule: str = DEFAULT_RULE
    takes: tuple[str, ...] | None = None
    takes_rule: str = DEFAULT_RULE
    on_leave: OnLeave = OnLeave.KEEP
    on_leave_rule: str = DEFAULT_RULE
    bmc_users: tuple[str, ...] | None = None
    bmc_users_rule: str = DEFAULT_RULE
    downgrade: bool = False
    waivers: tuple[tuple[str, Waiver], ...] = ()
    undecided: tuple[Undecided, ...] = ()

    @property
    def highest_floor(self) -> int:
        """``security_floor``, or a higher floor of an undecided rule."""
        return max([self.security_floor, *(u.security_floor for u in self.undecided)])


def demands(baseline: Baseline, accelerator: Accelerator, node: NodeFacts) -> Demands:
    """Return what must hold for a device of a node. For each key, the first rule that matches and sets it decides.

    If no rule says what to block, a tenant's node must have every host path of every device blocked.
    """
    undecided: dict[str, Undecided] = {}
    may_block: set[WritePath] = set()
    open_to_tenants = node.exposure is Exposure.TENANT

    def first(key: str) -> tuple[object, str]:
        for rule in baseline.rules:
            value = getattr(rule, key)
            if value is None:
                continue
            if rule.match.device(accelerator, node):
                return value, rule.name
            if rule.match.undecided(accelerator, node):
                known = undecided.get(rule.name) or Undecided(rule=rule.name, hidden=rule.match.hidden(accelerator))
                if key == 'block':
                    may_block.update(rule.block or ())
                elif key == 'security_floor':
                    known = replace(known, security_floor=rule.security_floor or 0)
                undecided[rule.name] = known
        return None, DEFAULT_RULE

    firmware, firmware_rule = first('firmware')
    functions, functions_rule = first('functions')
    block, block_rule = first('block')
    accept, accept_rule = first('accept')
    on_missing, on_missing_rule = first('on_missing')
    floor, floor_rule = first('security_floor')
    revocations, revocations_rule = first('revocations')
    tenants_program, tenants_program_rule = first('tenants_program')
    on_drift, on_drift_rule = first('on_drift')
    measure, measure_rule = first('measure')
    custody, custody_rule = first('custody')
    offer, offer_rule = first('offer')
    offer_class, offer_class_rule = first('offer_class')
    takes, takes_rule = first('takes')
    on_leave, on_leave_rule = first('on_leave')
    bmc_users, bmc_users_rule = first('bmc_users')
    # Only the waivers of the rule that decides on_missing count.
    waivers = [
        (r.name, r.waiver)
        for r in baseline.rules
        if on_missing is OnMissing.WAIVE and r.name == on_missing_rule and r.waiver is not None
    ]
    blocked = block if isinstance(block, frozenset) else (HOST_PATHS if open_to_tenants else frozenset())
    blocked |= may_block
    return Demands(
        firmware=firmware if isinstance(firmware, tuple) else (),
        firmware_rule=firmware_rule,
        functions=functions if isinstance(functions, tuple) else (),
        functions_rule=functions_rule,
        block=blocked,
        block_rule=block_rule,
        accept=accept if isinstance(accept, frozenset) else frozenset({LockState.LOCKED_VERIFIED}),
        accept_rule=accept_rule,
        on_missing=on_missing if isinstance(on_missing, OnMissing) else OnMissing.REFUSE,
        on_missing_rule=on_missing_rule,
        security_floor=floor if isinstance(floor, int) else 0,
        security_floor_rule=floor_rule,
        revocations=revocations if isinstance(revocations, tuple) else (),
        revocations_rule=revocations_rule,
        tenants_program=tenants_program is True,
        tenants_program_rule=tenants_program_rule,
        on_drift=on_drift if isinstance(on_drift, frozenset) else ON_DRIFT,
        on_drift_rule=on_drift_rule,
        measure=measure if isinstance(measure, Measure) else Measure.WHERE_PRESENT,
        measure_rule=measure_rule,
        custody=custody if isinstance(custody, CustodyDemand) else default_custody(firmware, blocked),
        custody_rule=custody_rule,
        offer=offer if isinstance(offer, Offering) else None,
        offer_rule=offer_rule,
        offer_class=offer_class if isinstance(offer_class, str) else None,
        offer_class_rule=offer_class_rule,
        takes=takes if isinstance(takes, tuple) else None,
        takes_rule=takes_rule,
        on_leave=on_leave if isinstance(on_leave, OnLeave) else OnLeave.KEEP,
        on_leave_rule=on_leave_rule,
        bmc_users=bmc_users if isinstance(bmc_users, tuple) else None,
        bmc_users_rule=bmc_users_rule,
        # Another rule cannot decide this key: it applies to the firmware versions of the same rule.
        downgrade=any(
            r.firmware is firmware and r.name == firmware_rule and r.downgrade is Downgrade.ALLOW for r in baseline.rules
        ),
        waivers=(*_granted(baseline, accelerator, node), *waivers),
        undecided=tuple(undecided.values()),
    )


def default_custody(firmware: object, block: frozenset[WritePath]) -> CustodyDemand:
    """Return the custody demand that applies where no rule sets one.

    A rule that names firmware and blocks a host path implies that whoever uses the host must not write that firmware; then the
    version that a card reports does not prove what it runs, and custody is required. If no path has to be blocked, only a host
    that is known to be off would cover the time until the next hand-over, and most BMCs do not report that; then custody is
    only reported.
    """
    return CustodyDemand.REQUIRED if firmware and block & HOST_PATHS else CustodyDemand.REPORTED


def _granted(baseline: Baseline, accelerator: Accelerator, node: NodeFacts) -> Iterator[tuple[str, Waiver]]:
    for rule in baseline.granted:
        if rule.waiver is not None and rule.match.device(accelerator, node):
            yield rule.name, rule.waiver


def counts(baseline: Baseline, accelerators: Iterable[Accelerator], node: NodeFacts) -> Iterator[tuple[Rule, Counted]]:
    """Yield the rules that demand a number of devices of such a node, and how many there are."""
    seen = tuple(accelerators)
    for rule in baseline.rules:
        if rule.count is not None and rule.match.node(node):
            found = sum(1 for a in seen if rule.match.device(a, node))
            possible = sum(1 for a in seen if rule.match.undecided(a, node))
            yield rule, Counted(wanted=rule.count, found=found, possible=possible)


def idle(baseline: Baseline, accelerators: Iterable[Accelerator], node: NodeFacts) -> tuple[str, ...]:
    """Return the names of the rules that apply to nodes like this one, and certainly to none of its devices.

    Such a rule demands nothing here. That is no error, unless its author meant one of these devices.
    """
    seen = tuple(accelerators)
    return tuple(
        rule.name
        for rule in baseline.rules
        if rule.count is None
        and not rule.match.ids
        and rule.match.node(node)
        and not any(rule.match.device(a, node) or rule.match.undecided(a, node) for a in seen)
    )


def components(accelerator: Accelerator, pattern: str) -> tuple[Component, ...]:
    """Return the firmware components of a device whose SoftwareInventory Id matches a pattern."""
    return tuple(c for c in accelerator.firmware if c.id is not None and fnmatchcase(c.id.casefold(), pattern.casefold()))


def parse(text: str, path: str, *, now: datetime | None = None) -> Baseline:
    """Parse a ``baseline.toml``.

    :param path: for messages.
    :param now: a waiver that would end too long after this time is an error. A waiver that has ended is none: it waives
        nothing.
    :raises DocumentError: the file is invalid; names file and line.
    """
    document = toml.read(text, path, format_version=FORMAT)
    rules: dict[str, Rule] = {}
    for number, table in enumerate(document.tables('rule')):
        rule = _rule(table, number, now)
        if rule.name in rules:
            raise table.error('name', f'two rules are called {rule.name!r}')
        rules[rule.name] = rule
    document.finish()
    return Baseline(rules=tuple(rules.values()))


def _rule(table: toml.Table, number: int, now: datetime | None) -> Rule:
    name = table.string('name') or f'rule-{number + 1}'
    if name == DEFAULT_RULE:
        raise table.error('name', f'{DEFAULT_RULE!r} is what holds where no rule says anything; choose another name')
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
        what = f'{match.pci!r} is no pair of vendor and device id like "0x10de:0x2330", nor a pattern that one could match'
        raise matched.error('pci', f'{what}: the rule would be for no device')
    for trait in sorted(match.traits):
        if not _TRAIT.fullmatch(trait):
            what = f'{trait!r} is no trait: capital letters, digits and underlines, no pattern'
            raise matched.error('traits', f'{what}: the rule would be for no device')
    accept = table.choices('accept', Acceptable)
    if accept is not None and not accept:
        raise table.error('accept', 'is empty: nothing could ever be accepted')
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
    )
    table.finish()
    if rule.downgrade is not None and rule.firmware is None:
        raise table.error('downgrade', 'speaks of the versions that the same rule demands, and it has no firmware')
    return rule


def _pci_address(table: toml.Table) -> str | None:
    text = table.string('pci_address')
    if text is None:
        return None
    found = pci_address.pattern(text)
    if found is None or not any(_may_be(found, places) for places in pci_address.PLACES):
        what = f'{text!r} is no PCI address, nor a pattern that one could match: the rule would be for no device'
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


def _offer_class(table: toml.Table) -> str | None:
    found = table.string('offer_class')
    if found is not None and not _CLASS.fullmatch(found):
        what = f'{found!r} is no resource class that may be offered'
        raise table.error('offer_class', what, f'{", ".join(STANDARD_CLASSES)}, or CUSTOM_ and capitals, digits and underlines')
    if found is not None and found.startswith(FUNCTION_PREFIX):
        raise table.error('offer_class', f'{found!r} is what the function of that name is claimed as', 'choose another name')
    how = table.choice('offer', Offering)
    if found is not None and how in (Offering.FUNCTION, Offering.NOTHING):
        what = 'a slot is claimed as its function' if how is Offering.FUNCTION else 'nothing is offered'
        raise table.error('offer_class', f'says nothing beside offer = "{how}": {what}', 'take it out')
    return found


def _on_missing(table: toml.Table) -> OnMissing | None:
    if table.data.get('on_missing') == 'allow':
        # Earlier versions accepted "allow". The author now has to name who answers for the open path, and until when.
        what = '"allow" is no more: nobody answered for the open path, and it had no end'
        raise table.error('on_missing', what, f'take the path out of block, or write on_missing = "waive" and {_WAIVER}')
    found = table.choice('on_missing', OnMissing)
    if found is OnMissing.WAIVE and not table.has('waiver'):
        table.not_misspelt('waiver')
        raise table.error('on_missing', '"waive" needs a waiver in the same rule', f'add {_WAIVER}')
    if found is not OnMissing.WAIVE and table.has('waiver'):
        table.not_misspelt('on_missing')
        raise table.error('waiver', 'waives nothing without on_missing = "waive" in the same rule', 'add that, or take it out')
    return found


def _waiver(rule: toml.Table, now: datetime | None) -> Waiver:
    table = rule.table('waiver')
    paths = table.choices('paths', WritePath)
    if not paths:
        table.not_misspelt('paths')
        hint = f'such as paths = ["host-bmc-ipmi"]; there are {", ".join(WritePath)}'
        raise table.error('paths' if table.has('paths') else None, 'paths has to name the write paths that are waived', hint)
    found = Waiver(
        role=_bounded(table, 'role'), reason=_bounded(table, 'reason'), expires=table.end('expires'), paths=paths
    )  # fmt: skip
    table.finish()
    if now is not None and found.too_long(now):
        hint = f'let it end within {LONGEST.days} days, and look at it again then'
        raise table.error('expires', f'{moment(found.expires)} is too far away', hint)
    return found


def _bounded(table: toml.Table, key: str) -> str:
    text = table.required_string(key)
    if len(text) > LONGEST_TEXT:
        raise table.error(key, f'{len(text)} characters are too many, {LONGEST_TEXT} are taken')
    return text


def _like(text: str | None, pattern: str) -> bool:
    """Match a text against a pattern. A text with brackets also matches itself literally: slot labels contain brackets."""
    if text is None:
        return False
    shown, wanted = text.casefold(), pattern.casefold()
    return shown == wanted or fnmatchcase(shown, wanted)


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

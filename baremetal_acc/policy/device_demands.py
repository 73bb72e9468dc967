# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluate the rules of a baseline: what the operator demands of one device of one node."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.card_setting import CardSetting
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.refusal import Counted
from baremetal_acc.model.waiver import Waiver
from baremetal_acc.policy.baseline_rules import (
    DEFAULT_RULE,
    Baseline,
    CardSettingDemand,
    Downgrade,
    DriftAction,
    Exposure,
    Hideable,
    Measure,
    NodeFacts,
    Offering,
    OnLeave,
    OnMissing,
    Rule,
)

HOST_PATHS = frozenset({WritePath.HOST_DEVICE, WritePath.HOST_BMC_IPMI, WritePath.HOST_BMC_REDFISH})
"""Every path by which the host reaches a device or its BMC."""


ON_DRIFT = frozenset({DriftAction.NOTIFY, DriftAction.REENGAGE})
"""Default where no rule decides: engaging a lock opens no path."""


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
    sriov: CardSettingDemand | None = None
    sriov_rule: str = DEFAULT_RULE
    dpu_mode: CardSettingDemand | None = None
    dpu_mode_rule: str = DEFAULT_RULE
    downgrade: bool = False
    waivers: tuple[tuple[str, Waiver], ...] = ()
    undecided: tuple[Undecided, ...] = ()

    @property
    def settings(self) -> tuple[tuple[CardSettingDemand, str], ...]:
        """The demands on settings of the device, each with its rule."""
        found = ((self.sriov, self.sriov_rule), (self.dpu_mode, self.dpu_mode_rule))
        return tuple((demand, rule) for demand, rule in found if demand is not None)

    @property
    def highest_floor(self) -> int:
        """``security_floor``, or a higher floor of an undecided rule."""
        return max([self.security_floor, *(u.security_floor for u in self.undecided)])

    @property
    def highest_floor_rule(self) -> str:
        """The rule that sets ``highest_floor``."""
        higher = (u.rule for u in self.undecided if u.security_floor == self.highest_floor > self.security_floor)
        return next(higher, self.security_floor_rule)


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
    sriov, sriov_rule = first(CardSetting.SRIOV)
    dpu_mode, dpu_mode_rule = first(CardSetting.DPU_MODE)
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
        sriov=sriov if isinstance(sriov, CardSettingDemand) else None,
        sriov_rule=sriov_rule,
        dpu_mode=dpu_mode if isinstance(dpu_mode, CardSettingDemand) else None,
        dpu_mode_rule=dpu_mode_rule,
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

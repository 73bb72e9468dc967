# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Verify an inventory against the baseline, and return the findings: absent, unreadable and unknown are *not met*."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase

from baremetal_acc.model import subject
from baremetal_acc.model.accelerator import Accelerator, ReconfigurationSlot
from baremetal_acc.model.finding import (
    BmcAccounts,
    CardMissing,
    Denied,
    Fact,
    FunctionDenied,
    FunctionWithoutSlot,
    LockVanished,
    NoComponent,
    NoRevocation,
    PathState,
    RuleMatchesNothing,
    SlotHolds,
    VersionShown,
)
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, ImageKind
from baremetal_acc.model.inventory import Gap, Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Engagement, LockReading, LockState, Scope, Way, WritePath
from baremetal_acc.model.note import Note, ShownFromNextStart
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.reference import VersionReference
from baremetal_acc.model.refusal import MayHideDevices, NoAccelerators, RuleUndecided, SharedIdentity
from baremetal_acc.model.subject import Subject, SubjectKind
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.model.waiver import Waived
from baremetal_acc.planning import attestation, card_settings, image_selection, lock_evidence, waivers
from baremetal_acc.planning.identical_cards import left_out
from baremetal_acc.policy import accounts
from baremetal_acc.policy.baseline_rules import DEFAULT_RULE, Baseline, NodeFacts
from baremetal_acc.policy.device_demands import Demands, Undecided, components, counts, demands, idle

DEPLOY_ACCEPTS = frozenset({LockState.LOCKED_VERIFIED})
"""The only lock state with which a node is handed over to a tenant."""


def verify(
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    catalogue: Iterable[Image],
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    flow: Flow | None = None,
    known: frozenset[AcceleratorId] = frozenset(),
    blockable: waivers.Blockable = frozenset(),
    ways: frozenset[Way] = frozenset(),
    starting: Ref | None = None,
    measured: bool = True,
    references: tuple[VersionReference, ...] = (),
) -> Verdict:
    """Compare the inventory of a target with what the baseline demands.

    Waivers count that were in force when the inventory read began.

    :param engagements: our own records; only they make a reading ``locked-verified``.
    :param flow: demand that locks were engaged in this flow; a deploy also accepts nothing but ``locked-verified``.
    :param known: devices that were present before: one that has vanished is not met.
    :param blockable: what mechanisms that existed before could block: no waiver covers a mechanism that has vanished.
    :param ways: places of locks of whole machines that were reported before: one that has vanished is unknown.
    :param starting: as in :func:`~baremetal_acc.planning.lock_evidence.judge`.
    :param measured: judge the signed measurements; a quick verification next to a full one does not.
    :param references: what makers publish for versions, from the catalogue.
    """
    catalogue = tuple(catalogue)
    engagements = tuple(engagements)
    records = lock_evidence.Records(engagements)
    ours = _Engaged(e for e in engagements if e.lifecycle == lifecycle and (flow is None or e.flow == flow))
    findings: list[Finding] = list(_presence(inventory, baseline, node, known))
    waived: list[Waived] = []
    relaxed: list[tuple[Accelerator, Demands]] = []
    unread = {gap.ref: gap for gap in inventory.gaps if gap.field == 'Version'}
    for accelerator in inventory.accelerators:
        wanted = demands(baseline, accelerator, node)
        judged = tuple(
            lock_evidence.judge(r, records.at(r), lifecycle=lifecycle, flow=flow, starting=starting) for r in accelerator.locks
        ) + lock_evidence.vanished(accelerator, ways, inventory.at)
        accepted = wanted.accept & DEPLOY_ACCEPTS if flow is Flow.DEPLOY else wanted.accept
        findings += (_undecided(accelerator, unsure) for unsure in wanted.undecided)
        findings += _firmware(accelerator, wanted, unread)
        findings += denied(accelerator, catalogue)
        findings += _revocations(accelerator, wanted, catalogue)
        findings += _functions(accelerator, wanted, catalogue)
        findings += _users(accelerator, wanted, inventory)
        findings += card_settings.findings(accelerator, wanted)
        if measured:
            findings += attestation.findings(accelerator, inventory.accelerators, wanted, catalogue, references)
        relaxed.append((accelerator, wanted))
        for path in sorted(wanted.block):
            finding, let = _lock(accelerator, wanted, path, judged, accepted, inventory.at, blockable)
            findings.append(finding)
            waived += () if let is None else (let,)
        findings += _no_longer_shown(accelerator, wanted, ours.of(accelerator))
    return Verdict(
        target=inventory.target,
        findings=tuple(findings),
        waived=tuple(waived),
        relaxed=waivers.relaxations(node, relaxed),
    )


def judged(inventory: Inventory, engagements: Iterable[Engagement], *, lifecycle: int, flow: Flow | None = None) -> Inventory:
    """Return the inventory with every lock reading in the state that our records allow."""
    records = lock_evidence.Records(engagements)

    def all_of(locks: Iterable[LockReading]) -> tuple[LockReading, ...]:
        return tuple(lock_evidence.judge(r, records.at(r), lifecycle=lifecycle, flow=flow) for r in locks)

    return replace(
        inventory,
        accelerators=tuple(replace(a, locks=all_of(a.locks)) for a in inventory.accelerators),
        platform_locks=all_of(inventory.platform_locks),
    )


def functions_in_play(
    inventory: Inventory, verdict: Verdict, baseline: Baseline, node: NodeFacts, catalogue: Iterable[Image]
) -> dict[tuple[AcceleratorId, str], str]:
    """Return the function that each slot verifiably holds: reported by the BMC, and the demanded one if one is demanded.

    :returns: function names by device and SlotId; a device with an unmet demand has none.
    """
    catalogue = tuple(catalogue)
    unmet = {f.accelerator for f in verdict.unmet}
    found: dict[tuple[AcceleratorId, str], str] = {}
    for accelerator in inventory.accelerators:
        if accelerator.id in unmet:
            continue
        asked = set()
        for slot, function in slots_wanted(accelerator, demands(baseline, accelerator, node)):
            asked.add(slot)
            if slot is not None and any(
                image_selection.holds(slot, i) for i in image_selection.function_image(catalogue, accelerator, slot, function)
            ):
                found[accelerator.id, slot.slot_id] = function
        for slot in accelerator.slots:
            held = None if slot in asked else image_selection.held(catalogue, accelerator, slot)
            if held is not None:
                found[accelerator.id, slot.slot_id] = held
    return found


def components_wanted(accelerator: Accelerator, wanted: Demands) -> Iterator[tuple[Component | None, str, str]]:
    """Yield component, pattern and version that the rules demand; the first pattern that matches a component decides.

    None as component: no component of the device matches the pattern.
    """
    taken: set[Component] = set()  # not their refs: two differing reports of one resource are judged separately
    for pattern, version in wanted.firmware:
        matching = components(accelerator, pattern)
        if not matching:
            yield None, pattern, version
        for component in matching:
            if component not in taken:
                taken.add(component)
                yield component, pattern, version


def note_unseen_firmware(
    inventory: Inventory, baseline: Baseline, node: NodeFacts, only: frozenset[AcceleratorId] | None = None
) -> Iterator[Note]:
    """Yield a note for each demanded component whose version after the next host restart the BMC does not show.

    :param only: these devices; None for all.
    """
    hidden = {ref for bmc in inventory.bmcs if bmc.update is not None for ref in bmc.update.unseen}
    for accelerator in inventory.accelerators:
        if only is not None and accelerator.id not in only:
            continue
        for component, _, _ in components_wanted(accelerator, demands(baseline, accelerator, node)):
            if component is not None and component.ref in hidden:
                about = ShownFromNextStart(subject=subject.firmware(str(component.id)))
                yield Note(label=accelerator.label, content=about)


def slots_wanted(accelerator: Accelerator, wanted: Demands) -> Iterator[tuple[ReconfigurationSlot | None, str]]:
    """Yield pairs of slot and function that the rules demand; the first pattern that matches a slot decides.

    None as slot: no slot of the device matches the pattern.
    """
    taken: set[ReconfigurationSlot] = set()
    for pattern, function in wanted.functions:
        matching = [s for s in accelerator.slots if _slot_like(s, pattern)]
        if not matching:
            yield None, function
        for slot in matching:
            if slot not in taken:
                taken.add(slot)
                yield slot, function


def _slot_like(slot: ReconfigurationSlot, pattern: str) -> bool:
    return fnmatchcase(slot.slot_id.casefold(), pattern.casefold())


def _presence(inventory: Inventory, baseline: Baseline, node: NodeFacts, known: frozenset[AcceleratorId]) -> Iterator[Finding]:
    seen = {a.id for a in inventory.accelerators}

    def finding(
        label: str,
        fact: Fact,
        which: AcceleratorId | None = None,
        *,
        rule: str = DEFAULT_RULE,
        about: Subject = subject.PRESENT,
        met: bool = False,
    ) -> Finding:
        return Finding(accelerator=which, label=label, subject=about, fact=fact, met=Met.YES if met else Met.NO, rule=rule)

    if not inventory.accelerators:
        yield finding(node.name, NoAccelerators(host_is_off=False))
    for identity, times in Counter(a.id for a in inventory.accelerators).items():
        if times > 1:
            yield finding(str(identity), SharedIdentity(times=times), identity)
    for vanished in sorted(known - seen):
        yield finding(str(vanished), CardMissing(), vanished)
    for gap in inventory.gaps:
        if gap.hides:
            yield finding(str(gap.ref), MayHideDevices(gap=gap), gap.accelerator)
    for rule, counted in counts(baseline, inventory.accelerators, node):
        yield finding(node.name, counted, rule=rule.name, met=counted.met)
    for name in idle(baseline, inventory.accelerators, node) if inventory.accelerators else ():
        # No fault, since a baseline is for many machines; but a misspelt pattern shows here.
        yield finding(node.name, RuleMatchesNothing(rule=name), rule=name, about=subject.rule(name), met=True)
    for out in left_out(baseline, inventory.accelerators, node):
        rule_name = out.note.rule
        yield finding(out.label, out.note, out.accelerator, rule=rule_name, about=subject.rule(rule_name), met=True)


def _firmware(accelerator: Accelerator, wanted: Demands, unread: Mapping[Ref, Gap]) -> Iterator[Finding]:
    for component, pattern, version in components_wanted(accelerator, wanted):
        if component is None:
            yield _finding(accelerator, subject.firmware(pattern), NoComponent(expected=version), Met.NO, wanted.firmware_rule)
        else:
            fact = VersionShown(
                expected=version,
                found=component.version,
                unread=unread.get(component.ref) if component.version is None else None,
                staged=_other_staged(component, version),
            )
            yield _version(accelerator, component, fact, wanted.firmware_rule, is_shown=component.version is not None)


def _other_staged(component: Component, version: str) -> str | None:
    """Return the version that the next reset brings, if it is another one."""
    return None if image_selection.same_version(component.staged, version) else component.staged


def _version(accelerator: Accelerator, component: Component, fact: VersionShown, rule: str, *, is_shown: bool) -> Finding:
    met = Met.YES if fact.staged is None and image_selection.same_version(component.version, fact.expected) else Met.NO
    found = _finding(accelerator, subject.firmware(str(component.id)), fact, met, rule)
    return _written_otherwise(found) if is_shown else found


def denied(accelerator: Accelerator, catalogue: tuple[Image, ...]) -> Iterator[Finding]:
    """Yield versions and functions of a device that the catalogue denies, demanded or not: running, or after the next reset.

    :param catalogue: its denied images are enough.
    """
    for component in accelerator.firmware:
        name = 'of the device' if component.id is None else component.id
        for version, is_staged in ((component.version, False), (component.staged, True)):
            why = image_selection.denial(catalogue, accelerator, component, version)
            if version is not None and why is not None:
                fact = Denied(version=version, denial=why, is_staged=is_staged)
                yield _written_otherwise(_finding(accelerator, subject.firmware(name), fact, Met.NO, DEFAULT_RULE))
    for slot in accelerator.slots:
        for image in image_selection.denied_functions(catalogue, accelerator, slot):
            held = FunctionDenied(image=image.name, denial=image.denied)
            yield _written_otherwise(_finding(accelerator, subject.function(slot.slot_id), held, Met.NO, DEFAULT_RULE))


def _revocations(accelerator: Accelerator, wanted: Demands, catalogue: tuple[Image, ...]) -> Iterator[Finding]:
    """Yield whether each component that a demanded revocation applies to reports it."""
    for name in wanted.revocations:
        image = next((i for i in catalogue if i.name == name and i.kind is ImageKind.REVOCATION), None)
        found = (
            []
            if image is None
            else [c for c in accelerator.firmware if image_selection.meant_for(image, accelerator, c, image.kind)]
        )
        if image is None or not found:
            nothing = NoRevocation(revocation=name, is_known=image is not None)
            yield _written_otherwise(_finding(accelerator, subject.firmware(name), nothing, Met.NO, wanted.revocations_rule))
            continue
        for component in found:
            shown, staged = component.version or None, _other_staged(component, image.version)
            fact = VersionShown(expected=image.version, found=shown, staged=staged, revocation=name)
            yield _version(accelerator, component, fact, wanted.revocations_rule, is_shown=shown is not None)


def _functions(accelerator: Accelerator, wanted: Demands, catalogue: tuple[Image, ...]) -> Iterator[Finding]:
    for slot, function in slots_wanted(accelerator, wanted):
        if slot is None:
            yield _finding(
                accelerator, subject.ANY_FUNCTION, FunctionWithoutSlot(function=function), Met.NO, wanted.functions_rule
            )
            continue
        candidates = image_selection.function_image(catalogue, accelerator, slot, function)
        staged = slot.item.staged if slot.item is not None and image_selection.other_staged(slot, candidates) else None
        holds = any(image.denied is None and image_selection.holds(slot, image) for image in candidates)
        fact = SlotHolds(function=function, held=slot.function, has_image=bool(candidates), staged=staged)
        met = Met.YES if holds and staged is None else Met.NO
        found = _finding(accelerator, subject.function(slot.slot_id), fact, met, wanted.functions_rule)
        yield _written_otherwise(found)


def _users(accelerator: Accelerator, wanted: Demands, inventory: Inventory) -> Iterator[Finding]:
    """Yield a finding for each BMC of the device that reports accounts: root on the host may have created an account."""
    if wanted.bmc_users is None:
        return
    expected = tuple(sorted(wanted.bmc_users))
    for name, strange, unread in accounts.audit(accelerator, inventory, wanted.bmc_users):
        met = Met.YES if not strange and unread is None else Met.NO
        fact = BmcAccounts(expected=expected, strange=strange, unread=unread)
        yield _finding(accelerator, Subject(kind=SubjectKind.BMC_USERS, name=name), fact, met, wanted.bmc_users_rule)


def _lock(
    accelerator: Accelerator,
    wanted: Demands,
    path: WritePath,
    readings: tuple[LockReading, ...],
    accepted: frozenset[LockState],
    now: datetime,
    blockable: waivers.Blockable,
) -> tuple[Finding, Waived | None]:
    """Return the finding about a path; and the waiver, if the path may be open because of it."""
    covered = lock_evidence.coverage(accelerator, path, readings)
    open_ones = [c for c in covered if c.state not in accepted]
    if not open_ones:
        state = lock_evidence.weakest(covered).state
        return _path(accelerator, wanted, path, PathState(accepted=accepted, state=state), Met.YES), None
    missing = all(c.state is LockState.UNSUPPORTED for c in open_ones)
    parts = [str(c.subject) for c in open_ones]
    let = waivers.used(accelerator, path, parts, wanted.waivers, now) if missing else None
    if let is not None and not waivers.hidden(accelerator, path, blockable):
        return _path(
            accelerator, wanted, path, PathState(accepted=accepted, state=LockState.UNSUPPORTED, waived=let), Met.YES
        ), let
    fact = PathState(
        accepted=accepted,
        state=lock_evidence.weakest(open_ones).state,
        open=tuple(open_ones),
        vanished=let is not None,
        waivers=waivers.shortfall(wanted.waivers, path, now) if missing and let is None else (),
    )
    return _path(accelerator, wanted, path, fact, Met.NO), None


def _path(accelerator: Accelerator, wanted: Demands, path: WritePath, fact: PathState, met: Met) -> Finding:
    return _finding(accelerator, subject.lock_path(path), fact, met, wanted.block_rule, fact.state)


def _undecided(accelerator: Accelerator, unsure: Undecided) -> Finding:
    return _finding(accelerator, subject.rule(unsure.rule), RuleUndecided(hidden=unsure.hidden), Met.NO, unsure.rule)


class _Engaged:
    """Locks that we engaged, indexed by the device, or for whole machines by the BMC, that their records name."""

    def __init__(self, engagements: Iterable[Engagement]) -> None:
        self._in_order = tuple(engagements)
        self._by_name: dict[str, list[int]] = {}
        for number, e in enumerate(self._in_order):
            self._by_name.setdefault(f'bmc {e.ref.bmc}' if e.scope is Scope.BMC else f'card {e.accelerator}', []).append(number)

    def of(self, accelerator: Accelerator) -> list[Engagement]:
        """Return those that may protect a device, in their order."""
        names = {f'card {accelerator.id}', *(f'bmc {ref.bmc}' for ref in accelerator.refs)}
        return [self._in_order[n] for n in sorted(n for name in names for n in self._by_name.get(name, ()))]


def _no_longer_shown(accelerator: Accelerator, wanted: Demands, engagements: Iterable[Engagement]) -> Iterator[Finding]:
    """Yield locks that we engaged and that the BMC does not report any more: nobody knows whether they hold."""
    shown = {r.place for r in accelerator.locks}
    for e in engagements:
        if _rests_on(accelerator, wanted, e) and e.place not in shown:
            fact, about = LockVanished(field=e.field, ref=e.ref), subject.lock_mechanism(e.mechanism)
            yield _finding(accelerator, about, fact, Met.NO, wanted.block_rule, LockState.UNKNOWN)


def _rests_on(accelerator: Accelerator, wanted: Demands, engaged: Engagement) -> bool:
    """Whether the demands on a device depend on a lock that we engaged.

    The lock of a whole machine is recorded in the name of any one device: it protects all that its BMC reports.
    """
    if engaged.scope is not Scope.BMC:
        return bool(wanted.block) and engaged.accelerator == accelerator.id
    through = engaged.ref.bmc in {ref.bmc for ref in accelerator.refs}
    return through and bool(wanted.block & (engaged.blocks or wanted.block))


def _written_otherwise(finding: Finding) -> Finding:
    """Mark an unmet finding as one that only a write remedies."""
    return replace(finding, shows_another=finding.met is Met.NO)


def _finding(
    accelerator: Accelerator,
    about: Subject,
    fact: Fact,
    met: Met,
    rule: str,
    state: LockState | None = None,
) -> Finding:
    return Finding(
        accelerator=accelerator.id,
        label=accelerator.label,
        subject=about,
        fact=fact,
        met=met,
        rule=rule,
        state=state,
    )

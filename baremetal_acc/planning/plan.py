# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the actions that bring a target to its baseline: flash, program, lock, reset and publish, or why to refuse.

The plan lists actions in the order of their stages, refusals, and notes for the operator. A plan with refusals is not executed.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from baremetal_acc.model import note as n
from baremetal_acc.model import refusal as r
from baremetal_acc.model import subject as subjects
from baremetal_acc.model.accelerator import Accelerator, ReconfigurationSlot
from baremetal_acc.model.codec import encode
from baremetal_acc.model.finding import RuleMatchesNothing
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, ImageKind
from baremetal_acc.model.inventory import Inventory, PowerState, UploadWay
from baremetal_acc.model.job import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Plan,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    Withdraw,
    stage,
)
from baremetal_acc.model.lock import (
    LockReading,
    LockState,
    LockUndoRecord,
    ResetKind,
    Scope,
    WritablePart,
    WritePath,
    closed_by_us,
)
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.refusal import Refusal
from baremetal_acc.model.subject import Subject, SubjectKind
from baremetal_acc.model.waiver import Waived
from baremetal_acc.planning import activation, bundles, image_selection, known_later, lock_evidence, succession, unseen, waivers
from baremetal_acc.planning.identical_cards import left_out
from baremetal_acc.planning.verify import components_wanted, slots_wanted
from baremetal_acc.policy.baseline import Baseline, Demands, NodeFacts, counts, demands, idle
from baremetal_acc.scheduling.region_claims import changed
from baremetal_acc.scheduling.schedulable import single


class Part(StrEnum):
    """What a plan may touch. Firmware and functions are separate, with different rights."""

    FIRMWARE = 'firmware'
    FUNCTIONS = 'functions'
    LOCK = 'lock'
    UNLOCK = 'unlock'
    PUBLISH = 'publish'


EVERYTHING = frozenset({Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK, Part.PUBLISH})
"""All parts of a full reconcile: everything but unlocking."""


EQUAL, LOWER = n.ForceCause.EQUAL, n.ForceCause.LOWER


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """A planned write.

    :ivar step: how many writes to the same component precede it.
    """

    action: Flash | Program
    image: Image
    step: int = 0


@dataclass(slots=True)
class _Draft:
    """A plan under construction, for :func:`plan` alone."""

    inventory: Inventory
    catalogue: tuple[Image, ...]
    undos: tuple[LockUndoRecord, ...] = ()
    actions: list[Action] = field(default_factory=list)
    released: set[Release] = field(default_factory=set)
    again: frozenset[AcceleratorId] = frozenset()
    anew: frozenset[tuple[AcceleratorId, str]] = frozenset()
    opened: set[tuple[AcceleratorId, str, Ref, str]] = field(default_factory=set)
    kept: set[tuple[str, Ref, str]] = field(default_factory=set)
    writes: list[_Write] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    blockable: waivers.Blockable = frozenset()
    waived: list[Waived] = field(default_factory=list)
    resets: dict[Ref, tuple[ResetKind, list[str]]] = field(default_factory=dict)
    cycles: dict[Ref, tuple[ResetKind, list[str]]] = field(default_factory=dict)
    wanted: dict[AcceleratorId, Demands] = field(default_factory=dict)
    demanded: dict[bundles.Place, str] = field(default_factory=dict)

    @property
    def is_off(self) -> bool:
        """Whether the machine's own BMC reports that the host is off; of several hosts, that each of them is."""
        hosts = self.inventory.hosts
        return bool(hosts) and all(host.power is PowerState.OFF for host in hosts)

    def image(self, name: str | None) -> Image | None:
        return next((i for i in self.catalogue if i.name == name), None)

    def refuse(self, accelerator: Accelerator | None, subject: Subject, reason: r.Reason) -> None:
        label = accelerator.label if accelerator else self.inventory.target
        which = accelerator.id if accelerator else None
        self.refusals.append(Refusal(accelerator=which, label=label, subject=subject, reason=reason))

    def note(self, accelerator: Accelerator, content: n.Content) -> None:
        self.notes.append(Note(label=accelerator.label, content=content))

    def reset(self, system: Ref, kind: ResetKind, why: str) -> None:
        """Plan the reset of a System, together with all that need one of the same System, however a BMC writes its URI.

        A loss of standby power leaves the System off, so it is kept apart from the resets that start it.
        """
        resets = self.cycles if kind.is_standby else self.resets
        same = next((s for s in resets if _place(s) == _place(system)), system)
        known, reasons = resets.pop(same, (ResetKind.NONE, []))
        resets[min(same, system)] = (activation.strongest(known, kind), [*reasons, why])


def plan(
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    catalogue: Iterable[Image],
    *,
    parts: frozenset[Part] = EVERYTHING,
    hold: bool = False,
    only: frozenset[AcceleratorId] | None = None,
    again: frozenset[AcceleratorId] = frozenset(),
    anew: frozenset[tuple[AcceleratorId, str]] = frozenset(),
    spoilt: frozenset[AcceleratorId] = frozenset(),
    blockable: waivers.Blockable = frozenset(),
    undos: Iterable[LockUndoRecord] = (),
) -> Plan:
    """Plan the actions that bring a target from the read inventory to what the baseline demands.

    Equal values give equal plans, whatever the order of devices, their parts and the images. A plan with refusals is not
    executed.

    :param parts: what may be touched.
    :param hold: power off the host before anything is released or written, and give it back after everything is locked: for
        nodes on which a tenant's code can run. A host that is off, and that a reset would power on, is held, too.
    :param only: only these devices, None for all. If the host is held, the locks of the other devices are engaged, too.
    :param again: devices that are written whatever they report, because their reports are not trusted: the quarantined ones.
    :param anew: devices and SlotIds of slots that are programmed with the demanded function although they hold it already.
    :param spoilt: devices that nobody may use before they are written: the quarantined ones. A held host is not given back if
        the plan does not write one of them.
    :param blockable: what mechanisms that existed before could block: no waiver covers a mechanism that has vanished.
    :param undos: our records of what we have closed: a lock that needs such a record to be released is released only with one.
    """
    draft = _Draft(
        inventory=inventory,
        catalogue=tuple(catalogue),
        undos=tuple(undos),
        again=again,
        anew=anew,
        blockable=blockable,
    )
    chosen = [a for a in inventory.accelerators if only is None or a.id in only]
    _refuse_the_unseen(draft, baseline, node, chosen)
    if Part.FIRMWARE in parts and any(i.bundle is not None for i in draft.catalogue):
        _remember_demands(draft, baseline, node)
    for accelerator in chosen:
        wanted = demands(baseline, accelerator, node)
        for unsure in wanted.undecided if parts & {Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK} else ():
            draft.refuse(accelerator, subjects.rule(unsure.rule), r.RuleUndecided(hidden=tuple(unsure.hidden)))
        if Part.FIRMWARE in parts:
            _firmware(draft, accelerator, wanted)
        if Part.FUNCTIONS in parts:
            _functions(draft, accelerator, wanted)
        if Part.UNLOCK in parts:
            _release_all(draft, accelerator, wanted)
    _complete_bundles(draft, {a.id for a in chosen})
    if Part.UNLOCK not in parts and parts & {Part.LOCK, Part.FIRMWARE, Part.FUNCTIONS}:
        # A held host is given back only when every lock of every device is proven, so all of them are engaged.
        for accelerator in inventory.accelerators if hold else chosen:
            _engage(draft, accelerator, demands(baseline, accelerator, node))
    _lockdowns(draft, engage=Part.UNLOCK not in parts)
    if Part.UNLOCK in parts:
        draft.notes += (note for accelerator in chosen for note in _left_closed(draft, accelerator))
    if Part.FIRMWARE in parts:
        draft.notes += unseen.notes(inventory, baseline, node, only)
    draft.actions = list(_once_a_place(draft.actions, inventory))
    if parts & {Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK}:
        for name in idle(baseline, inventory.accelerators, node):
            draft.notes.append(Note(label=node.name, content=RuleMatchesNothing(rule=name)))
        draft.notes += (Note(label=out.label, content=out.note) for out in left_out(baseline, inventory.accelerators, node))
        relaxed = waivers.relaxations(node, ((a, demands(baseline, a, node)) for a in inventory.accelerators))
        draft.notes += waivers.told(inventory.target, draft.waived, relaxed, {a.id: a.label for a in inventory.accelerators})
    writes = _in_turn(draft.writes, inventory)
    draft.actions += writes
    releases = [a for a in draft.actions if isinstance(a, Release)]
    _refuse_wide_targets(draft, writes)
    _check_images(draft)
    held = hold and (bool(writes or releases) or _would_power_on(draft))
    left = spoilt.intersection(a.id for a in inventory.accelerators) - {a.accelerator for a in writes}
    draft.notes += known_later.notes(inventory, (*writes, *releases), _host_systems(draft) if held else ())
    _resets(draft, hold=held, give_back=Part.UNLOCK not in parts, left=left)
    _refuse_shared(draft)
    if Part.PUBLISH in parts:
        touched = tuple(sorted({a.accelerator for a in (*writes, *releases)}))
        if touched:
            # A function that somebody may have claimed must not change under its consumer: then the whole node is withdrawn.
            fixed = single(inventory, baseline, node, draft.catalogue)
            draft.actions.append(Withdraw(accelerators=touched, whole=bool(changed(writes, fixed))))
        draft.actions.append(Publish())
    return Plan(
        target=inventory.target,
        actions=tuple(sorted(draft.actions, key=_order)),
        parallel=tuple(sorted((b.name, b.update.parallel) for b in inventory.bmcs if b.update is not None)),
        refusals=tuple(sorted(dict.fromkeys(draft.refusals), key=_refusal_order)),
        notes=tuple(sorted(dict.fromkeys(draft.notes), key=lambda note: (note.label, repr(note.content)))),
    )


def _refusal_order(refusal: Refusal) -> tuple[str, str, str, str]:
    return (refusal.accelerator or '', str(refusal.subject), repr(refusal.reason), refusal.label)


def _order(action: Action) -> tuple[int, int, str]:
    """Sort key: stages in order; a lockdown is released first and engaged last; the host is given back last."""
    match action:
        case Flash() | Program():
            order = action.order
        case Release():
            order = int(not action.wraps)
        case Engage():
            order = int(action.wraps)
        case Reset():
            order = int(action.purpose is ResetPurpose.RESUME)
        case Withdraw() | CheckImage() | Publish():
            order = 0
    return (stage(action), order, json.dumps(encode(action)))


def _refuse_the_unseen(draft: _Draft, baseline: Baseline, node: NodeFacts, chosen: list[Accelerator]) -> None:
    if not chosen:
        is_hidden = not draft.inventory.accelerators and draft.is_off
        draft.refuse(None, subjects.ACCELERATORS, r.NoAccelerators(host_is_off=is_hidden))
    for identity, times in Counter(a.id for a in draft.inventory.accelerators).items():
        if times > 1:
            draft.refuse(None, Subject(kind=SubjectKind.DEVICE, name=identity), r.SharedIdentity(times=times))
    for gap in draft.inventory.gaps:
        if gap.hides:
            draft.refuse(None, Subject(kind=SubjectKind.RESOURCE, name=str(gap.ref)), r.MayHideDevices(gap=gap))
    for rule, counted in counts(baseline, draft.inventory.accelerators, node):
        if not counted.met:
            draft.refuse(None, subjects.rule(rule.name), counted)


def _firmware(draft: _Draft, accelerator: Accelerator, wanted: Demands) -> None:
    """Plan what the rules demand of the firmware of a device, then its revocations, and refuse denied versions."""
    asked: dict[Ref, str] = {}
    for component, pattern, version in components_wanted(accelerator, wanted):
        if component is None or component.id is None:
            _no_component(draft, accelerator, pattern)
            continue
        asked[component.ref] = version
        _flash(draft, accelerator, wanted, component, version)
    for name in wanted.revocations:
        asked |= _revoke(draft, accelerator, wanted, name, asked)
    for component in accelerator.firmware:
        for there in (component.version, component.staged):
            why = image_selection.denial(draft.catalogue, accelerator, component, there)
            if why is not None and component.ref not in asked:
                reason = r.DeniedVersionThere(version=str(there), denial=why)
                draft.refuse(accelerator, subjects.firmware(component.id or str(component.ref)), reason)


def _no_component(draft: _Draft, accelerator: Accelerator, pattern: str) -> None:
    facts = draft.inventory.bmc(accelerator.primary.bmc)
    takes_none = facts is not None and facts.update is None
    reason = r.TakesNoFirmware(bmc=accelerator.primary.bmc) if takes_none else r.NoSuchComponent()
    draft.refuse(accelerator, subjects.firmware(pattern), reason)


def _flash(draft: _Draft, accelerator: Accelerator, wanted: Demands, component: Component, version: str) -> None:
    subject = subjects.firmware(str(component.id))
    found = image_selection.firmware_image(draft.catalogue, accelerator, component, version)
    denied = image_selection.denial(draft.catalogue, accelerator, component, version)
    if denied is not None:
        draft.refuse(accelerator, subject, r.VersionDenied(version=version, denial=denied))
        return
    fits = image_selection.same_version(component.version, version) and not _other_staged(component, version)
    if fits and accelerator.id not in draft.again:
        return
    if len(found) > 1:
        bmc = component.ref.bmc
        found = bundles.without_contradiction(found, draft.catalogue, draft.inventory, draft.demanded, bmc)
    if len(found) != 1:
        reason = r.NoImage(
            rule=wanted.firmware_rule,
            version=version,
            for_others=tuple(
                sorted(i.name for i in image_selection.for_others(draft.catalogue, accelerator, component, version))
            ),
            meant=image_selection.written_otherwise(draft.catalogue, accelerator, component, version),
            host_is_off=draft.is_off,
        )
        several = r.SeveralImages(rule=wanted.firmware_rule, version=version, images=tuple(sorted(i.name for i in found)))
        draft.refuse(accelerator, subject, several if found else reason)
        return
    way = _way(draft, accelerator, component, found[0])
    if way is None:
        return
    draft.note(accelerator, n.Demanded(subject=subject, what=version, rule=wanted.firmware_rule))
    over = component.version
    for step, image in enumerate(way):
        if step + 1 < len(way):
            first = n.StepFirst(subject=subject, version=image.version, image=way[step + 1].name, over=over)
            draft.note(accelerator, first)
        _write(draft, accelerator, wanted, component, image, over=over, before=way[:step])
        over = image.version


def _way(draft: _Draft, accelerator: Accelerator, component: Component, image: Image) -> tuple[Image, ...] | None:
    """Return the images that bring a component to an image with no reset in between; None if that is refused."""
    if component.version is None:
        return (image,)  # every write to a component without a version is refused
    subject = subjects.firmware(str(component.id))
    way = image_selection.way(draft.catalogue, accelerator, component, image)
    if way is None:
        draft.refuse(accelerator, subject, r.NoWayToVersion(image=image.name, via=image.via, runs=component.version))
        return None
    first = next((i for i in way[:-1] if i.reset is not ResetKind.NONE), None)
    if first is not None:
        reason = r.StepNeedsReset(
            image=image.name,
            via=image.via,
            runs=component.version,
            step=first.name,
            step_version=first.version,
            reset=first.reset,
        )
        draft.refuse(accelerator, subject, reason)
        return None
    return way


def _revoke(draft: _Draft, accelerator: Accelerator, wanted: Demands, name: str, asked: dict[Ref, str]) -> dict[Ref, str]:
    """Plan a revocation. It cannot be undone, so it comes alone: when all firmware of the device is as demanded.

    :param asked: the demanded versions of components.
    :returns: the versions that the revocation demands.
    """
    subject = Subject(kind=SubjectKind.REVOCATION, name=name)
    image = draft.image(name)
    if image is None or image.kind is not ImageKind.REVOCATION:
        kind = None if image is None else image.kind
        draft.refuse(accelerator, subject, r.NoSuchRevocation(rule=wanted.revocations_rule, kind=kind))
        return {}
    components = [c for c in accelerator.firmware if image_selection.meant_for(image, accelerator, c, ImageKind.REVOCATION)]
    if not components:
        draft.refuse(accelerator, subject, r.RevocationFitsNothing(rule=wanted.revocations_rule))
    for component in components:
        if component.ref in asked and not image_selection.same_version(asked[component.ref], image.version):
            reason = r.OtherVersionDemanded(component=component.id, version=asked[component.ref])
            draft.refuse(accelerator, subject, reason)
        elif not image_selection.same_version(component.version, image.version) or _other_staged(component, image.version):
            _revoke_in(draft, accelerator, wanted, component, image)
    return {c.ref: image.version for c in components}


def _revoke_in(draft: _Draft, accelerator: Accelerator, wanted: Demands, component: Component, image: Image) -> None:
    subject = Subject(kind=SubjectKind.REVOCATION, name=image.name)
    late = {c.id or str(c.ref) for c in accelerator.firmware if c.staged is not None and c.ref != component.ref}
    ours = [w.action for w in draft.writes if w.action.accelerator == accelerator.id and w.image.kind is ImageKind.FIRMWARE]
    late |= {a.component for a in ours if isinstance(a, Flash)}
    if late:
        draft.refuse(accelerator, subject, r.RevocationTooEarly(rule=wanted.revocations_rule, late=tuple(sorted(late))))
        return
    draft.note(accelerator, n.Revoked(subject=subject, component=component.id, rule=wanted.revocations_rule))
    _write(draft, accelerator, wanted, component, image, over=component.version, before=())


def _other_staged(component: Component, version: str) -> bool:
    """Whether the next reset brings another version."""
    return component.staged is not None and not image_selection.same_version(component.staged, version)


def _write(
    draft: _Draft,
    accelerator: Accelerator,
    wanted: Demands,
    component: Component,
    image: Image,
    *,
    over: str | None,
    before: tuple[Image, ...],
) -> None:
    """Plan the write of one image to a component, and refuse it if it is not safe.

    :param over: the version that it is written over.
    :param before: images that are written to the component before it.
    """
    if component.id is None:
        raise ValueError(f'{component.ref} has no Id to be written by')
    subject = subjects.firmware(str(component.id))
    allowed = wanted.downgrade and image.kind is ImageKind.FIRMWARE
    running = image_selection.security_version(draft.catalogue, accelerator, component, component.version) or 0
    highest = max(running, *(i.security_version for i in before), 0)
    floor = wanted.security_floor if allowed else max(wanted.security_floor, highest)
    if allowed and image.security_version < highest:
        lowered = n.SecurityVersionLowered(
            subject=subject, before=highest, after=image.security_version, rule=wanted.firmware_rule
        )
        draft.note(accelerator, lowered)
    below = r.BelowFloor(image=image.name, security_version=image.security_version, floor=floor)
    if floor > wanted.security_floor and image.kind is ImageKind.FIRMWARE:
        cause = r.FloorCause.RUNNING if highest == running else r.FloorCause.WRITTEN_BEFORE
        below = replace(below, cause=cause, runs=component.version, rule=wanted.firmware_rule)
    unsafe = (*_unsafe_component(accelerator, component), *_unsafe_image(draft, accelerator, component, image, below))
    for reason in unsafe:
        draft.refuse(accelerator, subject, reason)
    why = image_selection.denial(draft.catalogue, accelerator, component, image.version)
    if why is not None:
        draft.refuse(accelerator, subject, r.VersionDenied(version=image.version, denial=why))
    restore = _restore(image, over)
    if restore is None and image.kind is ImageKind.FIRMWARE:
        draft.note(accelerator, n.NoRestoreImage(subject=subject, image=image.name))
    if restore is not None:
        for problem in _unsafe_restore(draft, accelerator, component, image, restore, floor):
            draft.refuse(accelerator, subject, r.NoWayBack(image=restore, problem=problem))
    put_back = draft.image(restore)
    is_lower = image.security_version < highest
    why_forced = EQUAL if image_selection.same_version(over, image.version) else LOWER if is_lower else None
    action = Flash(
        accelerator=accelerator.id,
        component=component.id,
        ref=component.ref,
        image=image.name,
        version=image.version,
        expects=over,
        reset=image.reset,
        order=max(i.order for i in (*before, image)),
        content=image.content,
        restore=restore,
        restore_content=None if put_back is None else put_back.content,
        staged=component.staged,
        installed=component.installed,
        goes_back=_goes_back(draft, accelerator, put_back, over),
        forced=_is_forced(draft, accelerator, component.ref, subject, why_forced),
        bundle=None if image.bundle is None else image.bundle.name,
        item=succession.identity(accelerator, component),
    )
    draft.writes.append(_Write(action=action, image=image, step=len(before)))
    if image.reset is not ResetKind.NONE:
        system = activation.reset_of(draft.inventory.bmc(component.ref.bmc), image.reset)
        if system is None:
            draft.refuse(accelerator, subject, r.NothingToReset(kind=image.reset))
        else:
            draft.reset(system, image.reset, f'{accelerator.label} {subject}')
    _release(draft, accelerator, WritablePart(scope=Scope.COMPONENT, part=component.id), component.ref)


def _remember_demands(draft: _Draft, baseline: Baseline, node: NodeFacts) -> None:
    """Record the demands on every device: a bundle is written to all devices that it fits."""
    for accelerator in draft.inventory.accelerators:
        wanted = draft.wanted[accelerator.id] = demands(baseline, accelerator, node)
        for component, _, version in components_wanted(accelerator, wanted):
            if component is not None:
                draft.demanded[accelerator.id, component.ref] = version


def _complete_bundles(draft: _Draft, chosen: set[AcceleratorId]) -> None:
    """Plan everything else that a bundle writes, demanded or not. The whole bundle is sent with force, or without."""
    uploads = sorted({a.upload for w in draft.writes if isinstance(a := w.action, Flash) and a.upload is not None})
    for name, bmc in uploads:
        found = bundles.reached(draft.catalogue, name, bmc, draft.inventory)
        if not _is_upload_forced(draft, (name, bmc)):
            for one in found:
                _complete(draft, (name, bmc), one, chosen, forced=False)
        if _is_upload_forced(draft, (name, bmc)):
            for one in found:
                _complete(draft, (name, bmc), one, chosen, forced=True)
            draft.writes = [_with_force(w, (name, bmc)) for w in draft.writes]
        _refuse_unsafe_bundle(draft, name, bmc)
        _tell_bundle(draft, name, bmc, found)


def _is_upload_forced(draft: _Draft, upload: tuple[str, BmcName]) -> bool:
    return any(isinstance(a := w.action, Flash) and a.upload == upload and a.forced for w in draft.writes)


def _with_force(write: _Write, upload: tuple[str, BmcName]) -> _Write:
    if not isinstance(write.action, Flash) or write.action.upload != upload:
        return write
    return replace(write, action=replace(write.action, forced=True))


def _complete(
    draft: _Draft, upload: tuple[str, BmcName], one: bundles.Reached, chosen: set[AcceleratorId], *, forced: bool
) -> None:
    """Plan the write of a bundle to one more component that it reaches, although no rule demands it.

    :param forced: a component that has the version already is written, too.
    """
    name, accelerator, component = upload[0], one.accelerator, one.component
    subject = subjects.firmware(str(component.id))
    others = [w.action for w in draft.writes if (w.action.accelerator, w.action.ref) == one.place]
    if any(isinstance(a, Flash) and a.upload == upload for a in others):
        return
    if len(one.images) > 1:
        reason = r.SeveralOfBundle(bundle=name, images=tuple(i.name for i in one.images))
        draft.refuse(accelerator, subject, reason)
        return
    image = one.images[0]
    if others:
        also = r.AlsoWritten(bundle=name, version=image.version, images=tuple(a.image for a in others))
        draft.refuse(accelerator, subject, also)
        return
    runs = image_selection.same_version(component.version, image.version) and not _other_staged(component, image.version)
    if runs and not forced:
        draft.note(accelerator, n.LeftByBundle(subject=subject, bundle=name, version=image.version))
        return
    demanded = draft.demanded.get(one.place)
    if accelerator.id not in chosen:
        draft.refuse(accelerator, subject, r.BundleReachesDevice(bundle=name))
        return
    if demanded is not None and not image_selection.same_version(demanded, image.version):
        rule = draft.wanted[accelerator.id].firmware_rule
        against = r.BundleAgainstRule(bundle=name, version=image.version, rule=rule, demanded=demanded)
        draft.refuse(accelerator, subject, against)
        return
    draft.note(accelerator, n.WrittenByBundle(subject=subject, bundle=name, version=image.version, again=runs))
    _write(draft, accelerator, draft.wanted[accelerator.id], component, image, over=component.version, before=())


def _refuse_unsafe_bundle(draft: _Draft, name: str, bmc: BmcName) -> None:
    """Refuse a bundle as a whole if its BMC serves several machines or takes one component at a time, or an image is denied."""
    if bmc in draft.inventory.several:
        draft.refuse(None, Subject(kind=SubjectKind.BUNDLE, name=name), r.BundleReachesMachines(bmc=bmc))
    facts = draft.inventory.bmc(bmc)
    sending = None if facts is None or facts.update is None else facts.update.sending
    if sending is not None and sending.way is UploadWay.HPM_1:
        draft.refuse(None, Subject(kind=SubjectKind.BUNDLE, name=name), r.OneComponentAtATime(bmc=bmc))
    for image in bundles.of(draft.catalogue, name):
        if image.denied is not None:
            denied = r.PartDenied(component=image.component, version=image.version, denial=image.denied)
            draft.refuse(None, Subject(kind=SubjectKind.BUNDLE, name=name), denied)


def _tell_bundle(draft: _Draft, name: str, bmc: BmcName, found: Iterable[bundles.Reached]) -> None:
    """Note what is sent where, which parts of the bundle are not shown here, and what happens if a part fails."""
    members = bundles.of(draft.catalogue, name)
    bundle = next((i.bundle for i in members if i.bundle is not None), None)
    if bundle is None:
        return
    found = tuple(found)
    flashes = [a for w in draft.writes if isinstance(a := w.action, Flash) and a.upload == (name, bmc)]
    again = sum(image_selection.same_version(a.expects, a.version) for a in flashes)
    shown = {image.name for one in found for image in one.images}
    unseen_ones = tuple((i.component, i.version) for i in members if i.name not in shown)
    older = next((o.bundle.name for i in members if (o := draft.image(i.restore)) is not None and o.bundle is not None), None)
    tell: list[n.Content] = [
        n.BundleSent(
            bundle=name,
            targets=bundle.targets,
            change=len(flashes) - again,
            again=again,
            left=len(found) - len(flashes),
        ),
        n.BundleIfItFails(bundle=name, alone=bool(bundle.component_targets), older=older),
    ]
    tell += [n.BundleHoldsMore(bundle=name, parts=unseen_ones)] if unseen_ones else ()
    by_name = [one for one in found if not any(image_selection.identified(i, one.component) for i in one.images)]
    if by_name:
        ids = tuple(sorted({one.component.id or '' for one in by_name}))
        tell.append(n.KnownByName(bundle=name, components=ids))
    draft.notes += (Note(label=draft.inventory.target, content=content) for content in tell)


def _is_forced(draft: _Draft, accelerator: Accelerator, ref: Ref, subject: Subject, why: n.ForceCause | None) -> bool:
    """Whether the BMC is told to write the image whatever version is present; if so, a note says it."""
    facts = draft.inventory.bmc(ref.bmc)
    if why is None or facts is None or facts.update is None or not facts.update.forces:
        return False
    draft.note(accelerator, n.Forced(subject=subject, cause=why))
    return True


def _goes_back(draft: _Draft, accelerator: Accelerator, put_back: Image | None, over: str | None) -> bool:
    """Whether the version that ran before, if the device keeps it, may be trusted to be the restore image.

    That version is the one of the restore image, and the device is not one whose reports are not trusted.
    """
    return put_back is not None and image_selection.same_version(over, put_back.version) and accelerator.id not in draft.again


def _restore(image: Image, over: str | None) -> str | None:
    """Return the name of the image to restore if this write fails; None if there is none.

    An image that runs already, and is only written again to replace something staged, is restored itself: to restore an older
    image would be the downgrade that an attacker who can make an update fail would wish for.
    """
    again = image.kind is ImageKind.FIRMWARE and image_selection.same_version(over, image.version)
    return image.name if again and image.restore is not None else image.restore


def _unsafe_restore(
    draft: _Draft, accelerator: Accelerator, component: Component, image: Image, name: str, floor: int
) -> Iterator[r.RestoreProblem]:
    """Yield why an image cannot be restored. Naming it as ``restore`` permits it over this image, whatever its ``via`` says."""
    restore = draft.image(name)
    if restore is None:
        yield r.NotInCatalogue()
        return
    if restore.kind is not image.kind or image.kind is ImageKind.REVOCATION:
        yield r.NotRestorable()
    denied = image_selection.denial(draft.catalogue, accelerator, component, restore.version) or restore.denied
    if denied is not None:
        yield r.RestoreDenied(denial=denied)
    if not image_selection.meant_for(restore, accelerator, component):
        yield r.DoesNotFit()
    elif image_selection.by_name_only(restore, accelerator, component):
        yield r.RestoreFitsByNameOnly()
    if restore.security_version < floor:
        yield r.RestoreBelowFloor(security_version=restore.security_version, floor=floor)
    facts = draft.inventory.bmc(component.ref.bmc)
    limit = None if facts is None or facts.update is None else facts.update.max_size
    if limit is not None and restore.size_bytes > limit:
        yield r.RestoreTooLarge(size_bytes=restore.size_bytes, max_bytes=limit)


def _functions(draft: _Draft, accelerator: Accelerator, wanted: Demands) -> None:
    """Plan what the rules demand of the slots of a device, and refuse denied functions."""
    asked = set()
    for slot, function in slots_wanted(accelerator, wanted):
        asked.add(slot)
        _program(draft, accelerator, wanted, slot, function)
    for slot in accelerator.slots:
        for image in image_selection.denied_functions(draft.catalogue, accelerator, slot) if slot not in asked else ():
            reason = r.DeniedFunctionThere(image=image.name, denial=image.denied)
            draft.refuse(accelerator, subjects.function(slot.slot_id), reason)


def _program(draft: _Draft, accelerator: Accelerator, wanted: Demands, slot: ReconfigurationSlot | None, function: str) -> None:
    if slot is None:
        draft.refuse(accelerator, subjects.function(function), r.NoSlot())
        return
    subject = subjects.function(slot.slot_id)
    found = image_selection.function_image(draft.catalogue, accelerator, slot, function)
    good = [i for i in found if i.denied is None]
    denied = image_selection.denied_functions(draft.catalogue, accelerator, slot)
    fits = any(image_selection.holds(slot, i) for i in good) and not denied and not image_selection.other_staged(slot, good)
    if fits and accelerator.id not in draft.again and (accelerator.id, slot.slot_id) not in draft.anew:
        return
    if len(good) != 1:
        draft.refuse(accelerator, subject, _not_one_function(found, good, function, wanted.functions_rule))
        return
    if slot.item is None:
        draft.refuse(accelerator, subject, r.SlotHasNoItem())
        return
    image = good[0]
    for twin in found:
        if twin.denied is not None and image_selection.same_version(twin.version, image.version):
            draft.refuse(accelerator, subject, r.VersionDenied(version=twin.version, denial=twin.denied))
    if sum(s.slot_id == slot.slot_id for s in accelerator.slots) > 1:
        draft.refuse(accelerator, subject, r.SeveralSlots(slot=slot.slot_id))
    below = r.BelowFloor(image=image.name, security_version=image.security_version, floor=wanted.security_floor)
    for reason in (*_unsafe_item(slot.item), *_unsafe_image(draft, accelerator, slot.item, image, below)):
        draft.refuse(accelerator, subject, reason)
    draft.note(accelerator, n.Demanded(subject=subject, what=function, rule=wanted.functions_rule))
    action = Program(
        accelerator=accelerator.id,
        slot=slot.slot_id,
        ref=slot.item.ref,
        image=image.name,
        function=function,
        version=image.version,
        expects=slot.item.version,
        order=image.order,
        content=image.content,
        staged=slot.item.staged,
        installed=slot.item.installed,
        forced=_is_forced(
            draft,
            accelerator,
            slot.item.ref,
            subject,
            EQUAL if image_selection.same_version(slot.item.version, image.version) else None,
        ),
    )
    draft.writes.append(_Write(action=action, image=image))
    _release(draft, accelerator, WritablePart(scope=Scope.SLOT, part=slot.slot_id), slot.item.ref)


def _not_one_function(found: Iterable[Image], good: Iterable[Image], function: str, rule: str) -> r.Reason:
    """Return why no image, or no single one, can be chosen.

    :param good: the images that are not denied.
    """
    names, denied = tuple(sorted(i.name for i in good)), tuple(sorted((i.name, i.denied) for i in found))
    if names:
        return r.SeveralImages(rule=rule, function=function, images=names)
    return r.ImagesDenied(images=denied) if denied else r.NoImage(rule=rule, function=function)


def _unsafe_component(accelerator: Accelerator, component: Component) -> Iterator[r.Reason]:
    if component.version is None:
        yield r.VersionUnknown()
    if sum(c.id == component.id for c in accelerator.firmware) > 1:
        yield r.SeveralItems(component=component.id)
    yield from _unsafe_item(component)


def _unsafe_item(component: Component) -> Iterator[r.Reason]:
    if not component.certain:
        yield r.ItemUncertain(component=component.id)
    if component.updateable is False:
        yield r.NotUpdateable()


def _unsafe_image(
    draft: _Draft, accelerator: Accelerator, item: Component, image: Image, below: r.BelowFloor
) -> Iterator[r.Reason]:
    """Yield why an image must not be written to an item.

    :param below: the reason to give if the security version of the image is below the floor.
    """
    if image.denied is not None:
        yield r.ImageDenied(image=image.name, denial=image.denied)
    if image_selection.by_name_only(image, accelerator, item):
        yield r.FitsByNameOnly(image=image.name)
    if image.security_version < below.floor:
        yield below
    yield from _unsafe_target(draft, item, image)


def _unsafe_target(draft: _Draft, item: Component, image: Image) -> Iterator[r.Reason]:
    facts = draft.inventory.bmc(item.ref.bmc)
    if facts is None:
        yield r.BmcNotRead(bmc=item.ref.bmc)
    elif facts.update is None:
        yield r.TakesNoFirmware(bmc=facts.name)
    elif not facts.update.push:
        yield r.OnlyFetches(bmc=facts.name) if facts.update.pull else r.NoWayToSend(bmc=facts.name)
    elif (
        facts.update.sending is not None
        and facts.update.sending.obstacle is not None
        and not (facts.update.untargeted and image.bundle is not None and not image.bundle.targets)
    ):
        yield r.TakesNoImage(bmc=facts.name, obstacle=facts.update.sending.obstacle)
    elif facts.update.max_size is not None and image.size_bytes > facts.update.max_size:
        yield r.ImageTooLarge(image=image.name, bmc=facts.name, size_bytes=image.size_bytes, max_bytes=facts.update.max_size)


def _release(draft: _Draft, accelerator: Accelerator, subject: WritablePart, ref: Ref) -> None:
    """Release the locks that also block our own write of this part."""
    for reading in accelerator.locks:
        if lock_evidence.in_the_way(reading, subject, ref):
            _add_release(draft, accelerator, reading)


def _release_all(draft: _Draft, accelerator: Accelerator, wanted: Demands) -> None:
    for reading in accelerator.locks:
        if reading.blocks & (wanted.block | {WritePath.HOST_DEVICE}) and reading.state is not LockState.UNLOCKED:
            _add_release(draft, accelerator, reading)
            if reading.place in draft.kept:
                continue
            if reading.needs is not ResetKind.NONE and reading.reset is not None:
                draft.reset(reading.reset, reading.needs, _whose(accelerator, reading))


def _left_closed(draft: _Draft, accelerator: Accelerator) -> Iterator[Note]:
    """Note the locks that an unlock leaves engaged.

    An unlock releases the locks that the rules want engaged, and those that block the card's own path to the host.
    """
    opened = {(mechanism, ref, field) for _, mechanism, ref, field in draft.opened}
    for reading in accelerator.locks:
        if reading.place in opened or reading.state in (LockState.UNLOCKED, LockState.UNSUPPORTED):
            continue
        if reading.place in draft.kept:
            if reading.state is LockState.PARTIAL:
                left = n.LockLeft(mechanism=reading.mechanism, ref=reading.ref, state=reading.state)
                yield Note(label=_protected(accelerator, reading), content=left)
            continue
        paths = tuple(sorted(reading.blocks))
        left = n.LockLeft(mechanism=reading.mechanism, ref=reading.ref, state=reading.state, paths=paths)
        yield Note(label=_protected(accelerator, reading), content=left)


def _lockdowns(draft: _Draft, *, engage: bool) -> None:
    """Release a lockdown before the other lock changes of its BMC, and engage it after them: it blocks all changes."""
    changed = {a.ref.bmc for a in draft.actions if isinstance(a, Release | Engage) and not a.wraps}
    for accelerator in draft.inventory.accelerators:
        for reading in accelerator.locks:
            if (
                reading.wraps
                and reading.ref.bmc in changed
                and reading.state not in (LockState.UNLOCKED, LockState.UNSUPPORTED)
            ):
                _add_release(draft, accelerator, reading)
                if engage:
                    _add_engage(draft, accelerator, reading)


def _once_a_place(actions: Iterable[Action], inventory: Inventory) -> Iterator[Action]:
    """Yield actions with each lock of a whole machine released and engaged once, in the name of one device."""
    shared = [(r.place, a.id) for a in inventory.accelerators for r in a.locks if r.scope is Scope.BMC]
    owners = dict(sorted(shared, reverse=True))
    done = set()
    for action in actions:
        if not isinstance(action, Release | Engage) or action.scope is not Scope.BMC:
            yield action
            continue
        place = (action.mechanism, action.ref, action.field)
        if (type(action), place) not in done:
            done.add((type(action), place))
            yield replace(action, accelerator=owners[place])


def _whose(accelerator: Accelerator, reading: LockReading) -> str:
    """Name a lock and what it protects, as the reason of a reset."""
    return f'{_protected(accelerator, reading)} {reading.mechanism}'


def _protected(accelerator: Accelerator, reading: LockReading) -> str:
    """Name what a lock protects: a device, or all that a BMC reports."""
    return f'BMC {reading.ref.bmc}' if reading.scope is Scope.BMC else accelerator.label


def _add_release(draft: _Draft, accelerator: Accelerator, reading: LockReading) -> None:
    """Plan the release of a lock; refuse it if the lock needs an undo record to be released and there is none."""
    if reading.closes is not None and not closed_by_us(draft.undos, reading.place):
        draft.kept.add(reading.place)
        # A partial lock leaves its path open: what is closed of it was closed by the vendor, or by somebody else.
        if reading.state is not LockState.PARTIAL:
            whole = reading.scope is Scope.BMC
            draft.refusals.append(
                Refusal(
                    accelerator=None if whole else accelerator.id,
                    label=_protected(accelerator, reading),
                    subject=subjects.lock_mechanism(reading.mechanism),
                    reason=r.NoRecord(ref=reading.ref, state=reading.state, why=reading.reason),
                )
            )
        return
    action = Release(
        accelerator=accelerator.id,
        mechanism=reading.mechanism,
        ref=reading.ref,
        field=reading.field,
        expects=reading.value,
        scope=reading.scope,
        wraps=reading.wraps,
    )
    if action not in draft.released:
        draft.released.add(action)
        draft.opened.add((accelerator.id, *reading.place))
        draft.actions.append(action)


def _add_engage(draft: _Draft, accelerator: Accelerator, reading: LockReading) -> None:
    needs = reading.needs if (accelerator.id, *reading.place) in draft.opened else reading.to_close
    draft.actions.append(
        Engage(
            accelerator=accelerator.id,
            mechanism=reading.mechanism,
            ref=reading.ref,
            field=reading.field,
            blocks=reading.blocks,
            needs=needs,
            scope=reading.scope,
            wraps=reading.wraps,
        )
    )
    if needs is ResetKind.NONE:
        return
    if reading.reset is None:
        draft.refuse(accelerator, subjects.lock_mechanism(reading.mechanism), r.NothingToResetForLock(needs=needs))
    else:
        draft.reset(reading.reset, needs, _whose(accelerator, reading))


def _engage(draft: _Draft, accelerator: Accelerator, wanted: Demands) -> None:
    released = draft.opened
    for reading in accelerator.locks:
        # A lock that is released for our own write is engaged again, whether or not the baseline demands it.
        if reading.blocks & wanted.block or (accelerator.id, *reading.place) in released:
            _add_engage(draft, accelerator, reading)
    for path in sorted(wanted.block):
        for left in _left_open(accelerator, path, wanted.block_rule):
            draft.refuse(accelerator, subjects.lock_path(path), left)
        uncovered = [
            c.subject for c in lock_evidence.coverage(accelerator, path, accelerator.locks) if c.state is LockState.UNSUPPORTED
        ]
        if not uncovered:
            continue
        now = draft.inventory.at
        let = waivers.used(accelerator, path, (str(s) for s in uncovered), wanted.waivers, now)
        if let is not None and not waivers.hidden(accelerator, path, draft.blockable):
            draft.waived.append(let)
            continue
        reason = r.NoMechanism(
            parts=tuple(sorted(str(s) for s in uncovered)),
            rule=wanted.block_rule,
            vanished=let is not None,
            waivers=() if let is not None else waivers.shortfall(wanted.waivers, path, now),
        )
        draft.refuse(accelerator, subjects.lock_path(path), reason)


def _left_open(accelerator: Accelerator, path: WritePath, rule: str) -> Iterator[r.CannotBeClosed]:
    """Yield what stays open on a path even if every lock were engaged, as the device itself reports."""
    engaged = (replace(r, state=LockState.LOCKED_REPORTED) if r.closable else r for r in accelerator.locks)
    for covered in lock_evidence.coverage(accelerator, path, engaged):
        best = covered.reading
        if best is not None and not best.closable:
            yield r.CannotBeClosed(
                part=str(covered.subject), mechanism=best.mechanism, ref=best.ref, why=best.reason, rule=rule
            )


def _in_turn(writes: Iterable[_Write], inventory: Inventory) -> list[Flash | Program]:
    """Return the writes with orders that also keep the steps of one component apart; without steps, orders stay as they are.

    Several hosts of a target may be those of one BMC, under several names. They are written one after the other, since a
    service that takes one update at a time takes one of all its hosts.
    """
    planned = list(writes)
    turns = {facts.name: turn for turn, facts in enumerate(inventory.hosts)} if len(inventory.hosts) > 1 else {}

    def key(write: _Write) -> tuple[int, int, int]:
        return (write.action.order, write.step, turns.get(write.action.ref.bmc, 0))

    orders: dict[tuple[int, int, int], int] = {}
    last = -1
    for one in sorted(set(map(key, planned))):
        last = orders[one] = max(last + 1, one[0])
    return [replace(w.action, order=orders[key(w)]) for w in planned]


def _refuse_wide_targets(draft: _Draft, writes: Iterable[Flash | Program]) -> None:
    """Refuse to write a resource that represents more than one part: nobody can tell what else gets the image."""
    parts: dict[tuple[str, str], set[str]] = {}
    for a in draft.inventory.accelerators:
        for ref in a.refs:
            parts.setdefault(_place(ref), set()).add(f'{a.label} ({a.id})')
        for c in a.firmware:
            parts.setdefault(_place(c.ref), set()).add(f'{c.id or "the device"} of {a.label} ({a.id})')
        for s in a.slots:
            if s.item is not None:
                parts.setdefault(_place(s.item.ref), set()).add(f'slot {s.slot_id} of {a.label} ({a.id})')
    places = sorted(parts)
    names = {place: sorted(found) for place, found in parts.items()}
    devices = {a.id: a for a in draft.inventory.accelerators}
    for action in writes:
        place = _place(action.ref)
        below = (place[0], f'{place[1]}/')
        first = bisect_left(places, below)
        found = [name for known in (place, *_starting(places[first : first + 2], below)) for name in names[known]]
        if len(found) > 1:
            draft.refuse(devices[action.accelerator], _part(action), r.WideTarget(ref=action.ref, parts=tuple(found)))


def _part(action: Flash | Program) -> Subject:
    """Return which part of a device an update writes."""
    return subjects.firmware(action.component) if isinstance(action, Flash) else subjects.function(action.slot)


def _refuse_shared(draft: _Draft) -> None:
    """Refuse to write, for one machine, what several machines share."""
    shared = set(draft.inventory.shared)
    if not shared:
        return
    devices = {a.id: a for a in draft.inventory.accelerators}
    whole = draft.inventory.shared_devices
    for action in draft.actions:
        match action:
            case Release() | Engage():
                device = devices[action.accelerator]
                if action.ref in shared or device.id in whole:
                    draft.refuse(device, subjects.lock_mechanism(action.mechanism), r.SharedResource(ref=action.ref))
            case Flash() | Program():
                device = devices[action.accelerator]
                if action.ref in shared or device.id in whole:
                    part = _part(action)
                    draft.refuse(device, part, r.SharedResource(ref=action.ref))
            case Reset():
                for ref in (action.system, action.by):
                    if ref is not None and ref in shared:
                        draft.refuse(None, subjects.HOST, r.SharedResource(ref=ref))
            case Withdraw() | CheckImage() | Publish():
                pass


def _starting(places: Iterable[tuple[str, str]], start: tuple[str, str]) -> Iterator[tuple[str, str]]:
    return (p for p in places if p[0] == start[0] and p[1].startswith(start[1]))


def _place(ref: Ref) -> tuple[str, str]:
    """Normalise a resource, however a BMC writes its URI."""
    return ref.bmc, ref.uri.rstrip('/').casefold()


def _check_images(draft: _Draft) -> None:
    """Plan the checks of the images that are written, and of those that may be restored."""
    back = [draft.image(w.action.restore if isinstance(w.action, Flash) else w.image.restore) for w in draft.writes]
    # The components of a bundle share one file, which is checked once.
    checked: dict[str, Image] = {}
    for image in filter(None, (*(w.image for w in draft.writes), *back)):
        checked.setdefault(image.file, image)
    places: dict[str, set[Ref]] = {name: set() for name in checked}
    for write, restore in zip(draft.writes, back, strict=True):
        facts = draft.inventory.bmc(write.action.ref.bmc)
        if facts is not None and facts.update is not None and facts.update.judges:
            for image in filter(None, (write.image, restore)):
                places[image.file].add(write.action.ref)
    draft.actions += (
        CheckImage(image=i.name, content=i.content, places=tuple(sorted(places[i.file]))) for i in checked.values()
    )


def _would_power_on(draft: _Draft) -> bool:
    """Whether a planned reset is of a host that is off."""
    off = {_place(host) for host in _host_systems(draft) if _power(draft, host) is PowerState.OFF}
    return any(_place(system) in off for system in draft.resets)


def _resets(draft: _Draft, *, hold: bool, give_back: bool, left: frozenset[AcceleratorId]) -> None:
    """Plan the resets; if the host is held, also power off each host of the target and give it back.

    :param left: quarantined devices that the plan does not write.
    """
    hosts = _host_systems(draft) if hold else ()
    if hold and not hosts:
        draft.refuse(None, subjects.HOST, r.NoHost())
    _refuse_missing_resets(draft, hosts)
    _cycles(draft, hosts)
    held = ('the host must not run while locks are open',)
    draft.actions += (Reset(system=host, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=held) for host in hosts)
    asked: dict[tuple[str, str], tuple[ResetKind, list[str]]] = {_place(host): (ResetKind.NONE, []) for host in hosts}
    for system, (kind, reasons) in draft.resets.items():
        if _place(system) in asked:
            asked[_place(system)] = (kind, reasons)
        else:
            draft.actions.append(Reset(system=system, purpose=ResetPurpose.ENFORCE, kind=kind, why=tuple(sorted(set(reasons)))))
    # After an unlock the host stays off: otherwise the tenant's code could reach open locks.
    for host in hosts if give_back else ():
        kind, reasons = asked[_place(host)]
        if _power(draft, host) is PowerState.OFF and not reasons:
            continue
        if left:
            _not_given_back(draft, left, reasons)
            continue
        why = ('give the host back', *sorted(set(reasons)))
        draft.actions.append(Reset(system=host, purpose=ResetPurpose.RESUME, kind=kind, why=why))


def _cycles(draft: _Draft, held: tuple[Ref, ...]) -> None:
    """Plan the losses of standby power, for all that need one; they also replace restarts of the same BMC."""
    managers = activation.covered({ref: kind for ref, (kind, _) in draft.resets.items()}, draft.cycles)
    for system, (kind, reasons) in sorted(draft.cycles.items()):
        mine = sorted(ref for ref in managers if ref.bmc == system.bmc)
        why = {*reasons, *(reason for ref in mine for reason in draft.resets.pop(ref)[1])}
        facts = draft.inventory.bmc(system.bmc)
        draft.actions.append(activation.cycle(facts, system, kind, tuple(sorted(why))))
        is_held = _place(system) in map(_place, held)
        for reason in () if facts is None else activation.not_offered(facts, system, kind, held=is_held):
            draft.refuse(None, subjects.HOST, reason)
        if kind is activation.BY_HAND:
            draft.notes.append(Note(label=draft.inventory.target, content=n.PowerCordPulled(system=system)))
        if (
            not is_held
            and _power(draft, system) is not PowerState.OFF
            and not any(_place(s) == _place(system) for s in draft.resets)
        ):
            draft.actions.append(activation.given_back(system))
    draft.actions += _closed_again(draft)


def _closed_again(draft: _Draft) -> Iterator[Engage]:
    """Yield the locks that a BMC may lose by its planned restart: they are engaged again after it."""
    restarted = {a.system.bmc for a in draft.actions if isinstance(a, Reset) and a.kind.restarts_bmc}
    restarted |= {ref.bmc for ref, (kind, _) in draft.resets.items() if kind.restarts_bmc}
    places = {r.place for a in draft.inventory.accelerators for r in a.locks if r.volatile and r.ref.bmc in restarted}
    for action in tuple(draft.actions):
        if isinstance(action, Engage) and (action.mechanism, action.ref, action.field) in places:
            yield replace(action, again=True)


def _refuse_missing_resets(draft: _Draft, held: tuple[Ref, ...]) -> None:
    """Refuse resets that a System does not offer, before an image is staged or the host is off."""
    wanted = {system: kind for system, (kind, _) in draft.resets.items() if kind is not ResetKind.BMC_RESET}
    wanted |= {system: ResetKind.NONE for system in draft.cycles if system not in wanted}
    wanted |= dict.fromkeys(held, ResetKind.NONE)
    if any(_power(draft, host) is PowerState.UNKNOWN for host in held):
        draft.refuse(None, subjects.HOST, r.PowerStateUnknown())
    for system, kind in sorted(wanted.items()):
        facts = draft.inventory.bmc(system.bmc)
        if facts is None or facts.resets is None or facts.system != system or kind in facts.resets:
            continue
        draft.refuse(None, subjects.HOST, r.ResetNotOffered(system=system, kind=kind))


def _not_given_back(draft: _Draft, left: frozenset[AcceleratorId], reasons: list[str]) -> None:
    """Keep a host with a quarantined device off; refuse what needs it to start."""
    cards = tuple((a.label, a.id) for a in draft.inventory.accelerators if a.id in left)
    if reasons:
        draft.refuse(None, subjects.HOST, r.QuarantinedNeedsStart(reasons=tuple(sorted(set(reasons))), cards=cards))
    else:
        draft.notes.append(Note(label=draft.inventory.target, content=n.LeftOff(cards=cards)))


def _host_systems(draft: _Draft) -> tuple[Ref, ...]:
    """Return the Systems of the target's hosts; none if one of them is not reported."""
    found = [facts.system for facts in draft.inventory.hosts]
    return () if None in found else tuple(system for system in found if system is not None)


def _power(draft: _Draft, system: Ref) -> PowerState:
    facts = draft.inventory.bmc(system.bmc)
    return PowerState.UNKNOWN if facts is None else facts.power

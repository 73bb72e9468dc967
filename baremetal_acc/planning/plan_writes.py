# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan firmware writes and function programming, and refuse those that are not safe."""

from collections.abc import Iterable, Iterator

from baremetal_acc.model import note as n
from baremetal_acc.model import refusal as r
from baremetal_acc.model import subject as subjects
from baremetal_acc.model.accelerator import Accelerator, ReconfigurationSlot
from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, ImageKind
from baremetal_acc.model.lock import ResetKind, Scope, WritablePart
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.subject import Subject, SubjectKind
from baremetal_acc.planning import activation, bundles, image_selection, succession
from baremetal_acc.planning.plan_draft import EQUAL, LOWER, PlanDraft, PlannedWrite
from baremetal_acc.planning.plan_locks import plan_release
from baremetal_acc.planning.verify import components_wanted, slots_wanted
from baremetal_acc.policy.device_demands import Demands


def plan_firmware(draft: PlanDraft, accelerator: Accelerator, wanted: Demands) -> None:
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


def _no_component(draft: PlanDraft, accelerator: Accelerator, pattern: str) -> None:
    facts = draft.inventory.bmc(accelerator.primary.bmc)
    takes_none = facts is not None and facts.update is None
    reason = r.TakesNoFirmware(bmc=accelerator.primary.bmc) if takes_none else r.NoSuchComponent()
    draft.refuse(accelerator, subjects.firmware(pattern), reason)


def _flash(draft: PlanDraft, accelerator: Accelerator, wanted: Demands, component: Component, version: str) -> None:
    subject = subjects.firmware(str(component.id))
    found = image_selection.firmware_image(draft.catalogue, accelerator, component, version)
    denied = image_selection.denial(draft.catalogue, accelerator, component, version)
    if denied is not None:
        draft.refuse(accelerator, subject, r.VersionDenied(version=version, denial=denied))
        return
    fits = image_selection.same_version(component.version, version) and not other_staged(component, version)
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
        plan_write(draft, accelerator, wanted, component, image, over=over, before=way[:step])
        over = image.version


def _way(draft: PlanDraft, accelerator: Accelerator, component: Component, image: Image) -> tuple[Image, ...] | None:
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


def _revoke(draft: PlanDraft, accelerator: Accelerator, wanted: Demands, name: str, asked: dict[Ref, str]) -> dict[Ref, str]:
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
        elif not image_selection.same_version(component.version, image.version) or other_staged(component, image.version):
            _revoke_in(draft, accelerator, wanted, component, image)
    return {c.ref: image.version for c in components}


def _revoke_in(draft: PlanDraft, accelerator: Accelerator, wanted: Demands, component: Component, image: Image) -> None:
    subject = Subject(kind=SubjectKind.REVOCATION, name=image.name)
    late = {c.id or str(c.ref) for c in accelerator.firmware if c.staged is not None and c.ref != component.ref}
    ours = [w.action for w in draft.writes if w.action.accelerator == accelerator.id and w.image.kind is ImageKind.FIRMWARE]
    late |= {a.component for a in ours if isinstance(a, Flash)}
    if late:
        draft.refuse(accelerator, subject, r.RevocationTooEarly(rule=wanted.revocations_rule, late=tuple(sorted(late))))
        return
    draft.note(accelerator, n.Revoked(subject=subject, component=component.id, rule=wanted.revocations_rule))
    plan_write(draft, accelerator, wanted, component, image, over=component.version, before=())


def other_staged(component: Component, version: str) -> bool:
    """Whether the next reset brings another version."""
    return component.staged is not None and not image_selection.same_version(component.staged, version)


def plan_write(
    draft: PlanDraft,
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
    origin = _by_rule(wanted)
    if floor > wanted.security_floor:
        # Nothing permits a lower revocation.
        rule = wanted.firmware_rule if image.kind is ImageKind.FIRMWARE else None
        origin = _floor_origin(draft, accelerator, component, before, rule, is_running=highest == running)
    below = r.BelowFloor(image=image.name, security_version=image.security_version, floor=floor, origin=origin)
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
        for problem in _unsafe_restore(draft, accelerator, component, image, restore, floor, origin):
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
    draft.writes.append(PlannedWrite(action=action, image=image, step=len(before)))
    if image.reset is not ResetKind.NONE:
        system = activation.reset_of(draft.inventory.bmc(component.ref.bmc), image.reset)
        if system is None:
            draft.refuse(accelerator, subject, r.NothingToReset(kind=image.reset))
        else:
            draft.reset(system, image.reset, f'{accelerator.label} {subject}')
    plan_release(draft, accelerator, WritablePart(scope=Scope.COMPONENT, part=component.id), component.ref)


def _by_rule(wanted: Demands) -> r.FloorOrigin:
    return r.FloorOrigin(cause=r.FloorCause.RULE, rule=wanted.security_floor_rule)


def _floor_origin(
    draft: PlanDraft,
    accelerator: Accelerator,
    component: Component,
    before: tuple[Image, ...],
    rule: str | None,
    *,
    is_running: bool,
) -> r.FloorOrigin:
    """Return what raises the floor above that of the rules: the running version, or an image that is written before."""
    if is_running:
        known = image_selection.most_secure(draft.catalogue, accelerator, component, component.version)
        name = None if known is None else known.name
        return r.FloorOrigin(cause=r.FloorCause.RUNNING, rule=rule, runs=component.version, image=name)
    highest = max(before, key=lambda one: one.security_version)
    return r.FloorOrigin(cause=r.FloorCause.WRITTEN_BEFORE, rule=rule, image=highest.name)


def _is_forced(draft: PlanDraft, accelerator: Accelerator, ref: Ref, subject: Subject, why: n.ForceCause | None) -> bool:
    """Whether the BMC is told to write the image whatever version is present; if so, a note says it."""
    facts = draft.inventory.bmc(ref.bmc)
    if why is None or facts is None or facts.update is None or not facts.update.forces:
        return False
    draft.note(accelerator, n.Forced(subject=subject, cause=why))
    return True


def _goes_back(draft: PlanDraft, accelerator: Accelerator, put_back: Image | None, over: str | None) -> bool:
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
    draft: PlanDraft,
    accelerator: Accelerator,
    component: Component,
    image: Image,
    name: str,
    floor: int,
    origin: r.FloorOrigin,
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
        yield r.RestoreBelowFloor(security_version=restore.security_version, floor=floor, origin=origin)
    facts = draft.inventory.bmc(component.ref.bmc)
    limit = None if facts is None or facts.update is None else facts.update.max_size
    if limit is not None and restore.size_bytes > limit:
        yield r.RestoreTooLarge(size_bytes=restore.size_bytes, max_bytes=limit)


def plan_functions(draft: PlanDraft, accelerator: Accelerator, wanted: Demands) -> None:
    """Plan what the rules demand of the slots of a device, and refuse denied functions."""
    asked = set()
    for slot, function in slots_wanted(accelerator, wanted):
        asked.add(slot)
        _program(draft, accelerator, wanted, slot, function)
    for slot in accelerator.slots:
        for image in image_selection.denied_functions(draft.catalogue, accelerator, slot) if slot not in asked else ():
            reason = r.DeniedFunctionThere(image=image.name, denial=image.denied)
            draft.refuse(accelerator, subjects.function(slot.slot_id), reason)


def _program(
    draft: PlanDraft, accelerator: Accelerator, wanted: Demands, slot: ReconfigurationSlot | None, function: str
) -> None:
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
    below = r.BelowFloor(
        image=image.name,
        security_version=image.security_version,
        floor=wanted.security_floor,
        origin=_by_rule(wanted),
    )
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
    draft.writes.append(PlannedWrite(action=action, image=image))
    plan_release(draft, accelerator, WritablePart(scope=Scope.SLOT, part=slot.slot_id), slot.item.ref)


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
    draft: PlanDraft, accelerator: Accelerator, item: Component, image: Image, below: r.BelowFloor
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


def _unsafe_target(draft: PlanDraft, item: Component, image: Image) -> Iterator[r.Reason]:
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

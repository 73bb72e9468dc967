# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Roll back failed firmware writes: add to a job the restore images, and the locks and resets that these need.

A flash that failed after it was started is rolled back once, to the restore image that its plan names. A failure that shows
while the writes run is rolled back before the locks are engaged. If only the final read shows the failure, the job goes through
its stages a second time for these devices alone: the host is held again, locks in the way are released, then the device is
written, locked and reset. There is no third time. :mod:`~baremetal_acc.planning.write_outcomes` judges what came of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Action, Engage, Flash, Release, Reset, ResetPurpose
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import LockReading, ResetKind, Scope, WritablePart
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.planning import activation, bundles, image_selection, lock_evidence, succession
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.job_items import given_up
from baremetal_acc.planning.written_places import WrittenPlace, component_at, place_of

LockPlace = tuple[str, Ref, str]


def due(job: Job, now: datetime) -> tuple[int, ...]:
    """Return the positions of flashes that have to be rolled back and were not yet: they failed after they were started.

    Past the deadline no rollback is started.
    """
    return tuple(position for position, _, _, _ in _due(job, now))


def _due(job: Job, now: datetime) -> list[tuple[int, Item, Flash, str]]:
    """Like :func:`due`, with the item, its flash and the name of the image to restore."""
    if now > job.deadline:
        return []
    tried = {place_of(i.action) for i in job.items if i.restoring and isinstance(i.action, Flash)}
    unknown = {a.ref.bmc for a in given_up(job)}
    found: dict[WrittenPlace, tuple[int, Item, Flash, str]] = {}
    for position, item in enumerate(job.items):
        action = item.action
        if not isinstance(action, Flash) or item.restoring or item.state is not ItemState.FAILED or item.untouched:
            continue
        if item.unsure or action.ref.bmc in unknown:
            continue  # its BMC may still carry out this write, or another one: nothing more is sent there
        name = action.restore if action.upload is None else _of_bundle(job, action)
        if name is not None and place_of(action) not in tried:
            found[place_of(action)] = (position, item, action, name)
    return sorted(found.values())


def _of_bundle(job: Job, failed: Flash) -> str | None:
    """Return the image to send to a failed part of a bundle; None if there is none, or while other parts are under way.

    If the bundle succeeded for other parts, the same image is sent once more; if it succeeded for none, the restore image.
    """
    others = [i for i in job.items if isinstance(i.action, Flash) and i.action.upload == failed.upload and not i.restoring]
    if not all(i.state.ended for i in others):
        return None
    return failed.image if any(i.state in (ItemState.DONE, ItemState.STAGED) for i in others) else failed.restore


def put_back(job: Job, inventory: Inventory, catalogue: Iterable[Image], now: datetime, settle: timedelta) -> Job:
    """Add everything to the job that the due rollbacks need; each device is rolled back once, from its present state.

    :param inventory: the present inventory: a lock in the way has to be read, not remembered.
    :param settle: a device that is not reported may come back within this time after its failure, and is waited for.
    """
    catalogue = tuple(catalogue)
    by_name = {image.name: image for image in catalogue}
    added: list[Item] = []
    written: list[tuple[Accelerator, Component, Flash]] = []
    reasons = list(job.reasons)
    for _, item, failed, name in _due(job, now):
        accelerator = inventory.accelerator(failed.accelerator)
        component = component_at(accelerator, failed.ref)
        if component is None and now - item.since <= settle:
            continue
        image = by_name.get(name)
        is_retry = failed.upload is not None and name == failed.image
        bundle = None if image is None else image.bundle
        action = replace(
            failed,
            image=name,
            version='' if image is None else image.version,
            expects=None if component is None else component.version,
            reset=ResetKind.NONE if image is None else image.reset,
            order=0 if image is None else image.order,
            content=failed.content if is_retry else failed.restore_content,
            restore=None,
            restore_content=None,
            staged=None if component is None else component.staged,
            installed=None if component is None else component.installed,
            forced=_is_forced(inventory, failed.ref),
            bundle=None if bundle is None else bundle.name,
            alone=bundle is not None and bundle.component_targets,
            retry=is_retry,
            item=failed.item if accelerator is None or component is None else succession.identity(accelerator, component),
        )
        why = _impossible(image, action, catalogue, accelerator, component, inventory)
        back = Item(action=action, since=now, restoring=True)
        if why is not None:
            back = replace(back.to(ItemState.FAILED, now, why), untouched=True)
            reasons.append(f'restore: {describe(action)}: {why}')
        elif accelerator is not None and component is not None:
            written.append((accelerator, component, action))
        added.append(back)
    beside = list(_beside(catalogue, [a for _, _, a in written], inventory))
    written += beside
    added += (Item(action=action, since=now, restoring=True) for _, _, action in beside)
    job = replace(job, items=(*job.items, *added), reasons=tuple(reasons))
    return _with_what_it_takes(job, inventory, written, now) if written else job


def _beside(
    catalogue: tuple[Image, ...], flashes: list[Flash], inventory: Inventory
) -> Iterator[tuple[Accelerator, Component, Flash]]:
    """Yield what a BMC also writes if a whole bundle is sent to it for some of its parts."""
    places = {place_of(flash) for flash in flashes}
    for name, bmc in sorted({flash.upload for flash in flashes if flash.upload is not None}):
        like = next(flash for flash in flashes if flash.upload == (name, bmc))
        for one in bundles.reached(catalogue, name, bmc, inventory):
            image, component = one.images[0], one.component
            if one.place in places or component.id is None:
                continue
            yield (
                one.accelerator,
                component,
                Flash(
                    accelerator=one.accelerator.id,
                    component=component.id,
                    ref=component.ref,
                    image=image.name,
                    version=image.version,
                    expects=component.version,
                    reset=image.reset,
                    order=image.order,
                    content=image.content,
                    staged=component.staged,
                    installed=component.installed,
                    item=succession.identity(one.accelerator, component),
                    forced=like.forced,
                    bundle=name,
                    retry=like.retry,
                ),
            )


def _is_forced(inventory: Inventory, ref: Ref) -> bool:
    """Whether the BMC can be told to write any version: a restore image is usually older, and some BMCs refuse that."""
    facts = inventory.bmc(ref.bmc)
    return facts is not None and facts.update is not None and facts.update.forces


def _impossible(
    image: Image | None,
    action: Flash,
    catalogue: tuple[Image, ...],
    accelerator: Accelerator | None,
    component: Component | None,
    inventory: Inventory,
) -> str | None:
    """Return why an image cannot be restored on a device, or None. The security floor is checked right before it is sent."""
    if image is None:
        return 'this image is no longer in the catalogue'
    if image.denied is not None:
        return f'the catalogue denies the image: {image.denied}'
    if accelerator is None:
        return 'the BMC no longer shows the card'
    if component is None:
        return 'the component no longer belongs to this card'
    why = image_selection.unfit(action, image, catalogue, accelerator, component, floor=0, back=True)
    if why is not None:
        return why
    if image.reset is not ResetKind.NONE and activation.reset_of(inventory.bmc(component.ref.bmc), image.reset) is None:
        return f'it {activation.nothing_to_reset(image.reset)}'
    facts = inventory.bmc(component.ref.bmc)
    if image.reset is ResetKind.AUX_POWER_CYCLE and facts is not None and facts.standby_reset is None:
        return f'the image needs an {image.reset}, but the BMC offers no action for that'
    return None


def _with_what_it_takes(
    job: Job, inventory: Inventory, written: list[tuple[Accelerator, Component, Flash]], now: datetime
) -> Job:
    """Add the lock releases, lock engagements and resets that the rollbacks need."""
    devices = {a.id for a, _, _ in written}
    releases = [
        _release(accelerator, reading)
        for accelerator, component, _ in written
        for reading in accelerator.locks
        if _in_the_way(reading, component)
    ]
    releases = list({_identity(r): r for r in releases}.values())
    opened = {_lock(r) for r in releases}
    engages = _engages(job, inventory, devices, opened)
    needs, cycles = _resets_needed(inventory, written, engages)
    wanted: list[Action] = [*releases, *engages]
    items = list(job.items)
    wanted += _cycles(items, cycles, devices, inventory)
    wanted += _resets(items, needs, devices)
    waiting = {_identity(i.action) for i in items if not i.state.ended}
    items += (Item(action=a, since=now, restoring=True) for a in wanted if _identity(a) not in waiting)
    # Evidence from before these devices are written again counts for nothing.
    # A lock of a whole machine does not belong to one of them, and engaging it again makes new evidence.
    kept = tuple(e for e in job.engagements if e.accelerator not in devices or e.scope is Scope.BMC)
    return replace(job, items=tuple(items), engagements=kept)


def _in_the_way(reading: LockReading, component: Component) -> bool:
    return lock_evidence.in_the_way(reading, WritablePart(scope=Scope.COMPONENT, part=component.id), component.ref)


def _release(accelerator: Accelerator, reading: LockReading) -> Release:
    return Release(
        accelerator=accelerator.id,
        mechanism=reading.mechanism,
        ref=reading.ref,
        field=reading.field,
        expects=reading.value,
        scope=reading.scope,
        wraps=reading.wraps,
    )


def _engages(job: Job, inventory: Inventory, devices: set[AcceleratorId], opened: set[LockPlace]) -> tuple[Engage, ...]:
    """Return the locks to engage: those that the job engages on these devices, and those that are released now.

    A lock that is released now is engaged for each of these devices that reports it, and for each device that the job engages
    it for.
    """
    found = {
        (_owner(a.scope, a.accelerator), *_lock(a)): a
        for i in job.items
        if isinstance(a := i.action, Engage) and (_lock(a) in opened or (a.accelerator in devices and a.scope is not Scope.BMC))
    }
    for accelerator in inventory.accelerators:
        for reading in accelerator.locks:
            if reading.place in opened and accelerator.id in devices:
                new = Engage(
                    accelerator=accelerator.id,
                    mechanism=reading.mechanism,
                    ref=reading.ref,
                    field=reading.field,
                    blocks=reading.blocks,
                    needs=reading.needs,
                    scope=reading.scope,
                    wraps=reading.wraps,
                )
                found.setdefault((_owner(new.scope, accelerator.id), *reading.place), new)
    return tuple(found.values())


def _resets_needed(
    inventory: Inventory, written: list[tuple[Accelerator, Component, Flash]], engages: Iterable[Engage]
) -> tuple[dict[Ref, ResetKind], dict[Ref, ResetKind]]:
    """Return what has to be reset, and separately which Systems have to lose standby power, which starts nothing."""
    needs: dict[Ref, ResetKind] = {}
    cycles: dict[Ref, ResetKind] = {}

    def need(system: Ref | None, kind: ResetKind) -> None:
        if system is not None and kind is not ResetKind.NONE:
            resets = cycles if kind.is_standby else needs
            resets[system] = activation.strongest(resets.get(system, kind), kind)

    for _, component, action in written:
        need(activation.reset_of(inventory.bmc(component.ref.bmc), action.reset), action.reset)
    for engage in engages:
        accelerator = inventory.accelerator(engage.accelerator)
        for reading in () if accelerator is None else accelerator.locks:
            if reading.place == _lock(engage):
                need(reading.reset, engage.needs)
    for ref in activation.covered(needs, cycles):
        del needs[ref]
    return needs, cycles


def _cycles(
    items: list[Item], cycles: Mapping[Ref, ResetKind], devices: set[AcceleratorId], inventory: Inventory
) -> Iterator[Reset]:
    """Yield the missing standby power cycles; a System that the job does not hold is started after its cycle."""
    for system, kind in cycles.items():
        if _served(items, system, ResetPurpose.ENFORCE, kind):
            continue
        facts = inventory.bmc(system.bmc)
        yield activation.cycle(facts, system, kind, _why(devices))
        was_on = facts is not None and facts.power is not PowerState.OFF
        if was_on and system != _host_of(items) and not _served(items, system, ResetPurpose.ENFORCE, ResetKind.POWER_CYCLE):
            yield activation.given_back(system)


def _why(devices: set[AcceleratorId]) -> tuple[str, ...]:
    return (f'restore {", ".join(sorted(devices))}',)


def _host_of(items: Iterable[Item]) -> Ref | None:
    """Return the System that a job holds off, or has held off."""
    return next((a.system for i in items if isinstance(a := i.action, Reset) and a.purpose is ResetPurpose.HOLD), None)


def _resets(items: list[Item], needs: Mapping[Ref, ResetKind], devices: set[AcceleratorId]) -> Iterator[Reset]:
    """Yield the missing resets. A reset that is still planned serves the rollback, too: there is no second one of a kind.

    A host that the job has held and given back is held again, and given back again.
    """
    why = _why(devices)
    host = _host_of(items)
    for system, kind in needs.items():
        if system != host and not _served(items, system, ResetPurpose.ENFORCE, kind):
            yield Reset(system=system, purpose=ResetPurpose.ENFORCE, kind=kind, why=why)
    if host is None:
        return
    kind = needs.get(host, ResetKind.NONE)
    if _served(items, host, ResetPurpose.RESUME, kind):
        return
    given_back = any(isinstance(i.action, Reset) and i.action.purpose is ResetPurpose.RESUME and i.state.begun for i in items)
    if given_back:
        yield Reset(system=host, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=why)
    if given_back or kind is not ResetKind.NONE:
        yield Reset(system=host, purpose=ResetPurpose.RESUME, kind=kind, why=why)


def _served(items: list[Item], system: Ref, purpose: ResetPurpose, kind: ResetKind) -> bool:
    """Whether such a reset is still planned; if so, it is made as strong as needed."""
    for position, item in enumerate(items):
        action = item.action
        if not isinstance(action, Reset) or item.state is not ItemState.PLANNED:
            continue
        if (action.system, action.purpose, action.kind.is_standby) == (system, purpose, kind.is_standby):
            strongest = activation.strongest(action.kind, kind)
            items[position] = replace(item, action=replace(action, kind=strongest))
            return True
    return False


def _lock(action: Release | Engage) -> LockPlace:
    return (action.mechanism, action.ref, action.field)


def _owner(scope: Scope, accelerator: AcceleratorId) -> AcceleratorId | None:
    """Return the device that a lock belongs to; a lock of a whole machine belongs to none."""
    return None if scope is Scope.BMC else accelerator


def _identity(action: Action) -> tuple[object, ...]:
    """Return a key that is equal for actions that do the same."""
    if isinstance(action, Release | Engage):
        return (type(action), _owner(action.scope, action.accelerator), *_lock(action))
    return (action,)


__all__ = ['due', 'put_back']

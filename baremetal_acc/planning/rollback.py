# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Roll back failed firmware writes, and judge after the final inventory read which devices are quarantined.

A flash that failed after it was started is rolled back once, to the restore image that its plan names. A failure that shows
while the writes run is rolled back before the locks are engaged. If only the final read shows the failure, the job goes through
its stages a second time for these devices alone: the host is held again, locks in the way are released, then the device is
written, locked and reset. There is no third time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, revokes
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import (
    Action,
    Engage,
    Flash,
    Item,
    ItemState,
    Job,
    Program,
    Release,
    Reset,
    ResetPurpose,
)
from baremetal_acc.model.lock import LockReading, ResetKind, Scope, WritablePart
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.planning import activation, bundles, image_selection, lock_evidence, succession
from baremetal_acc.planning.job_transitions import describe, given_up

Place = tuple[AcceleratorId, Ref]
"""A device, and the SoftwareInventory item of it that is written."""

LockPlace = tuple[str, Ref, str]

_MOST_PARTS = 6
"""How many firmware components of a card a sentence names at most."""


def due(job: Job, now: datetime) -> tuple[int, ...]:
    """Return the positions of flashes that have to be rolled back and were not yet: they failed after they were started.

    Past the deadline no rollback is started.
    """
    return tuple(position for position, _, _, _ in _due(job, now))


def _due(job: Job, now: datetime) -> list[tuple[int, Item, Flash, str]]:
    """Like :func:`due`, with the item, its flash and the name of the image to restore."""
    if now > job.deadline:
        return []
    tried = {_place(i.action) for i in job.items if i.restoring and isinstance(i.action, Flash)}
    unknown = {a.ref.bmc for a in given_up(job)}
    found: dict[Place, tuple[int, Item, Flash, str]] = {}
    for position, item in enumerate(job.items):
        action = item.action
        if not isinstance(action, Flash) or item.restoring or item.state is not ItemState.FAILED or item.untouched:
            continue
        if item.unsure or action.ref.bmc in unknown:
            continue  # its BMC may still carry out this write, or another one: nothing more is sent there
        name = action.restore if action.upload is None else _of_bundle(job, action)
        if name is not None and _place(action) not in tried:
            found[_place(action)] = (position, item, action, name)
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
        component = _component(accelerator, failed.ref)
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
            reasons.append(f'put back: {describe(action)}: {why}')
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
    places = {_place(flash) for flash in flashes}
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
        return 'this image is not in the catalogue any more'
    if image.denied is not None:
        return f'the catalogue denies it: {image.denied}'
    if accelerator is None:
        return 'the card is not there any more'
    if component is None:
        return 'the component does not belong to this card any more'
    why = image_selection.unfit(action, image, catalogue, accelerator, component, floor=0, back=True)
    if why is not None:
        return why
    if image.reset is not ResetKind.NONE and activation.reset_of(inventory.bmc(component.ref.bmc), image.reset) is None:
        return f'it {activation.nothing_to_reset(image.reset)}'
    facts = inventory.bmc(component.ref.bmc)
    if image.reset is ResetKind.AUX_POWER_CYCLE and facts is not None and facts.standby_reset is None:
        return f'it needs an {image.reset}, and the BMC offers no action for that'
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
    return (f'put back {", ".join(sorted(devices))}',)


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


def wrong(job: Job, inventory: Inventory) -> dict[int, str]:
    """Return the flashes that ended well and whose device now shows something else, with what it shows; includes rollbacks."""
    found = {}
    for place, written in _writes(job).items():
        position, item, action = written[-1]
        if activation.waits_for_cycle(job, item):
            continue
        if isinstance(action, Flash) and item.state in (ItemState.DONE, ItemState.STAGED):
            component = _component(inventory.accelerator(place[0]), place[1])
            if not _shows(component, action.version):
                found[position] = (
                    f'in the end it {found_in(inventory.accelerator(place[0]), component)}, expected {action.version}'
                )
    return found


def in_force(job: Job, inventory: Inventory) -> tuple[int, ...]:
    """Return the positions of flashes that waited for a reset, and whose devices now run what was written."""
    return tuple(
        position
        for position, item in enumerate(job.items)
        if isinstance(action := item.action, Flash)
        and item.state is ItemState.STAGED
        and _shows(_component(inventory.accelerator(action.accelerator), action.ref), action.version)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How the writes of a job have ended.

    :ivar restored: one sentence for each component that runs the restored image.
    :ivar unusable: devices that nobody may use, with one sentence for each component that makes them so.
    :ivar held: one sentence for each component that does not quarantine its device although its write has not ended well: it
        may still be written, waits for a standby power cycle, is proven intact, or could not be read in the end although its
        write is not known to have failed.
    """

    restored: tuple[str, ...]
    unusable: tuple[tuple[AcceleratorId, str], ...]
    held: tuple[str, ...] = ()

    @property
    def why(self) -> tuple[str, ...]:
        """The sentences about devices that nobody may use."""
        return tuple(sentence for _, sentence in self.unusable)

    @property
    def quarantined(self) -> tuple[AcceleratorId, ...]:
        """The devices that nobody may use."""
        return tuple(sorted({device for device, _ in self.unusable}))


def judge(job: Job, inventory: Inventory | None) -> End:
    """Decide which devices were restored, and which nobody may use because they do not show what was last written to them.

    :param inventory: the final inventory, None if there is none: then nothing that was written is known to be good.
    """
    restored, unusable, held = [], [], []
    for (identity, ref), written in _writes(job).items():
        _, last, action = written[-1]
        accelerator = None if inventory is None else inventory.accelerator(identity)
        component = None if accelerator is None else part_of(accelerator, ref)
        name = identity if accelerator is None else f'{accelerator.label} ({identity})'
        if _took(last, action, component, inventory):
            if last.restoring and not _is_retry(action):
                restored.append(f'{name}: {_part(action)} is restored to {action.version} (image {action.image})')
            continue
        if accelerator is not None and activation.waits_for_cycle(job, last):
            held.append(f'{name} is held: image {action.image} is written to {_part(action)}, and runs after {_cycle(action)}')
            continue
        if accelerator is not None and _may_be_written_to(last, action, component):
            held.append(
                f'{name} is held: {_unknown_end(last, action)}; in the end it {found_in(accelerator, component)}. {_GO_ON}'
            )
            continue
        if inventory is None and _is_unknown(last):
            unknown = (
                _unknown_end(last, action) if last.unsure else f'whether {_part(action)} is as it was written is not known'
            )
            held.append(f'{name} is held: {unknown}, as nobody could look at it in the end. {_GO_ON}')
            continue
        proof = _proof([i for _, i, _ in written], component)
        if accelerator is not None and proof is not None:
            held.append(
                f'{name} is held: {_part(action)} {found_in(accelerator, component)}{proof}; '
                f'{_not_restored(job, last, action)}. The next job writes it again'
            )
            continue
        shows = 'could not be looked at in the end' if inventory is None else found_in(accelerator, component)
        sentence = (
            f'{name} is quarantined: {_part(action)} {shows}; {_not_restored(job, last, action)}. '
            'Write a good image to it, or replace the card, before anybody uses it'
        )
        unusable.append((identity, sentence))
    return End(restored=tuple(restored), unusable=tuple(unusable), held=tuple(held))


def forgiven(job: Job, inventory: Inventory) -> Job:
    """Remove the failures of parts of a bundle that were sent once more, and that now run what was sent."""
    told: set[str] = set()
    for (identity, ref), written in _writes(job).items():
        _, last, action = written[-1]
        accelerator = inventory.accelerator(identity)
        component = None if accelerator is None else part_of(accelerator, ref)
        if _is_retry(action) and _took(last, action, component, inventory):
            told |= {f'{describe(a)}: ' for _, item, a in written if item.state is ItemState.FAILED}
    return replace(job, reasons=tuple(r for r in job.reasons if not any(map(r.startswith, told)))) if told else job


def _is_retry(action: Flash | Program) -> bool:
    return isinstance(action, Flash) and action.retry


_GO_ON = (
    'Nothing more is sent to it. To go on run apply --execute, or the step, again: that reads the card first, and writes once '
    'its BMC works on no update. Restart the BMC before that where it has forgotten the update or never ends it'
)
"""What to do with a card that may still be written to. A BMC that has restarted does not continue an earlier write."""


def _unknown_end(last: Item, action: Flash | Program) -> str:
    return f'whether the write of image {action.image} to {_part(action)} has ended is not known{_task_of(last)}'


def _is_unknown(last: Item) -> bool:
    """Whether the last write of a place is not known to have failed: it ended well as far as it was seen, or was given up."""
    return last.unsure or last.state in (ItemState.DONE, ItemState.STAGED)


def _may_be_written_to(last: Item, action: Flash | Program, component: Component | None) -> bool:
    """Whether the last write of a place was given up and may continue, and the place shows nothing wrong.

    It shows the version that it ran before, the version that it was sent, or none yet.
    """
    if not last.unsure:
        return False
    shown = () if component is None else (component.version, component.staged)
    known = (action.expects, action.version)
    return all(version is None or any(image_selection.same_version(version, one) for one in known) for version in shown)


def _proof(written: Iterable[Item], component: Component | None) -> str | None:
    """Return why the place of failed writes is intact, as its component shows; None if nothing proves it.

    The component is followed through the writes, from the version before the first to the version in the end. A write that
    failed by the report of its task has written nothing if the component is as before and no progress was seen; and it has
    written everything if the component shows what was sent, and did not before. A write that progressed in part proves nothing,
    whatever is shown: a version may be read from a part that was not written yet, or from one that was.
    """
    items = tuple(written)
    flashes = [i.action for i in items if isinstance(i.action, Flash)]
    if component is None or component.version is None or len(flashes) != len(items):
        return None
    if any(revokes(action.content) for action in flashes):
        return None
    after = [*((action.expects, action.staged) for action in flashes[1:]), (component.version, component.staged)]
    is_good, is_written = True, False
    for item, action, (version, staged) in zip(items, flashes, after, strict=True):
        if _same(version, action.expects) and _same(staged, action.staged) and _wrote_nothing(item):
            continue
        is_written = is_good = (
            _shown(version, staged, action.version) and not _same(action.expects, action.version) and _wrote_all(item)
        )
    if not is_good:
        return None
    if is_written:
        return ', which it did not before that was sent, although the BMC says that it failed'
    return ', as before, and nothing shows that anything was written'


def _wrote_nothing(item: Item) -> bool:
    """Whether no progress of a write was seen, and it was not started, or its task reported a failure."""
    if item.untouched or not item.state.begun:
        return True
    # The progress of the task of a bundle says nothing about one of its parts.
    is_part = isinstance(item.action, Flash) and item.action.upload is not None
    still = item.evidence is None and (is_part or not item.percent) and not item.strayed
    return still and item.state is ItemState.FAILED and item.task_failed and not item.unsure


def _wrote_all(item: Item) -> bool:
    """Whether a write failed only by the report of its task, and was not seen to end in the middle."""
    is_part = isinstance(item.action, Flash) and item.action.upload is not None
    seen_on_its_way = item.percent not in (None, 0, 100) or (item.evidence is not None and item.percent != 100)
    in_the_middle = seen_on_its_way and not is_part
    return item.state is ItemState.FAILED and item.task_failed and not item.unsure and not in_the_middle


def _same(one: str | None, other: str | None) -> bool:
    return one == other or image_selection.same_version(one, other)


def _shown(version: str | None, staged: str | None, wanted: str) -> bool:
    """Whether the wanted version runs, and no other one is staged."""
    return image_selection.same_version(version, wanted) and (staged is None or image_selection.same_version(staged, wanted))


def _task_of(item: Item) -> str:
    return '' if item.task is None else f' (task {item.task})'


def _took(last: Item, action: Flash | Program, component: Component | None, inventory: Inventory | None) -> bool:
    """Whether a place shows what was last written to it. What a slot holds is judged by the verdict."""
    good = last.state in (ItemState.DONE, ItemState.STAGED)
    return good and (_shows(component, action.version) if isinstance(action, Flash) else inventory is not None)


def lost(job: Job) -> tuple[AcceleratorId, ...]:
    """Return the devices whose last write failed, as the job knows before its final inventory read."""
    written = _writes(job).items()
    good = (ItemState.DONE, ItemState.STAGED)
    return tuple(sorted({identity for (identity, _), writes in written if writes[-1][1].state not in good}))


def _cycle(action: Flash | Program) -> str:
    """Return what a write waits for that comes at an unknown time."""
    kind = action.reset if isinstance(action, Flash) else ResetKind.NONE
    return f'an {kind}: ' + (
        'let somebody pull the power cord and plug it in again, and run this again'
        if kind is activation.BY_HAND
        else 'run this again, or let somebody pull the power cord and plug it in again'
    )


def _part(action: Flash | Program) -> str:
    return action.component if isinstance(action, Flash) else action.slot


def _not_restored(job: Job, last: Item, action: Flash | Program) -> str:
    """Return why the version from before the write was not restored."""
    if isinstance(action, Program):
        return f'{action.function} was to be programmed, and a function has no image to go back to'
    if action.retry:
        return f'image {action.image} was sent once more: {last.message or last.state}'
    if last.restoring:
        return f'image {action.image} was to be put back: {last.message or last.state}'
    if action.restore is None:
        return f'image {action.image} was written, and it has no image to go back to'
    if action.ref.bmc in {a.ref.bmc for a in given_up(job)}:
        return f'image {action.image} was written, and {action.restore} is not put back while its BMC may write another card'
    late = 'there was no time left' if not job.second else 'it was too late'
    return f'image {action.image} was written, and {late} to put {action.restore} back'


def standing(inventory: Inventory, places: Iterable[Ref]) -> frozenset[AcceleratorId]:
    """Return the devices that are written by way of these resources, whatever identity they report."""
    wanted = set(places)
    return frozenset(a.id for a in inventory.accelerators if not wanted.isdisjoint(_parts(a)))


def _parts(accelerator: Accelerator) -> Iterator[Ref]:
    """Yield the resources of a device that can be written."""
    yield from (c.ref for c in accelerator.firmware)
    yield from (s.item.ref for s in accelerator.slots if s.item is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoilt:
    """What a job has left on a device that nobody may use now.

    :ivar firmware: its firmware is not trusted; False: only the function of a slot is not.
    :ivar places: every resource that was written: whatever device is there later is not trusted, whatever its identity.
    :ivar anew: the resources that have to be written well before anybody may use the device: those that do not show what was
        written last. A revocation is not among them: it is never written together with firmware, and a device that is not
        trusted has all of its firmware written.
    """

    firmware: bool
    places: tuple[Ref, ...]
    anew: tuple[Ref, ...]

    def beside(self, places: Iterable[Ref], anew: Iterable[Ref]) -> Self:
        """Add what was spoilt before, and has not been written well since."""
        return replace(self, places=tuple(sorted({*self.places, *places})), anew=tuple(sorted({*self.anew, *anew})))


def spoilt(job: Job, device: AcceleratorId, inventory: Inventory | None) -> Spoilt:
    """Return what a job has written on a device that nobody may use now.

    :param inventory: the final inventory, None if there is none, or it is not stored.
    """
    actions = [i.action for i in job.items if isinstance(i.action, Flash | Program) and (i.restoring or i.state.begun)]
    mine = [a for a in actions if a.accelerator == device]
    accelerator = None if inventory is None else inventory.accelerator(device)
    bad = set()
    for (identity, ref), written in _writes(job).items():
        _, last, action = written[-1]
        component = None if accelerator is None else part_of(accelerator, ref)
        if identity == device and not revokes(action.content) and not _took(last, action, component, inventory):
            bad.add(ref)
    return Spoilt(
        firmware=any(isinstance(a, Flash) for a in mine),
        places=tuple(sorted({a.ref for a in mine})),
        anew=tuple(sorted(bad)),
    )


def still_to_write(anew: Iterable[Ref], job: Job, inventory: Inventory | None, *, firmware: bool) -> tuple[Ref, ...]:
    """Return what an earlier job has spoilt and this job, which has spoilt something else, has not written well.

    Slots that this job has written well are dropped: once they hold what they held before, no rule says what to write to them,
    so they would never be written again, and the device would stay quarantined.

    :param inventory: the final inventory, None if there is none: then nobody knows.
    :param firmware: firmware was spoilt: what was written by way of it is not known to be good.
    """
    if firmware:
        return tuple(anew)
    last = {place[1]: written[-1] for place, written in _writes(job).items()}
    well = {
        ref for ref, (_, item, action) in last.items() if isinstance(action, Program) and _took(item, action, None, inventory)
    }
    return tuple(ref for ref in anew if ref not in well)


def written_anew(
    job: Job,
    device: AcceleratorId,
    *,
    firmware: bool,
    places: Iterable[Ref],
    anew: Iterable[Ref] = (),
    inventory: Inventory | None = None,
) -> frozenset[AcceleratorId]:
    """Like :func:`mended`, by the writes of a job that ended well."""
    return mended(written_well(job), device, firmware=firmware, places=places, anew=anew, inventory=inventory)


def written_well(job: Job) -> tuple[Action, ...]:
    """Return the actions of a job that ended well. Rollbacks do not count."""
    good = (ItemState.DONE, ItemState.STAGED)
    return tuple(i.action for i in job.items if i.state in good and not i.restoring)


def mended(
    writes: Iterable[Action],
    device: AcceleratorId,
    *,
    firmware: bool,
    places: Iterable[Ref],
    anew: Iterable[Ref] = (),
    inventory: Inventory | None = None,
) -> frozenset[AcceleratorId]:
    """Return the devices that these good writes remedy, whatever identity they report now; empty if the writes are not enough.

    :param firmware: firmware was spoilt; then a function alone remedies nothing.
    :param anew: resources that have to be among the writes. A resource that the device does not report any more cannot be:
        firmware that is named after its version, or another card.
    :param inventory: the present inventory. The device, and every device in its place, all have to be written: their identities
        may have changed, and nobody can tell which is which. None: the machine was not read, and all of ``anew`` has to be
        among what one of them was written.
    """
    places, anew = frozenset(places), frozenset(anew)
    kinds = Flash if firmware else Flash | Program
    refs: dict[AcceleratorId, set[Ref]] = {}
    right: dict[AcceleratorId, set[Ref]] = {}
    for action in writes:
        if isinstance(action, Flash | Program):
            refs.setdefault(action.accelerator, set()).add(action.ref)
            if isinstance(action, kinds):
                right.setdefault(action.accelerator, set()).add(action.ref)
    if inventory is None:
        return frozenset(a for a in right if (a == device or not places.isdisjoint(right[a])) and anew <= refs[a])
    there = {a.id: frozenset(_parts(a)) for a in inventory.accelerators}
    suspects = (standing(inventory, places) | {device}).intersection(there)
    good = all(a in right and anew & there[a] <= refs[a] for a in suspects)
    return suspects if good else frozenset()


def _writes(job: Job) -> dict[Place, list[tuple[int, Item, Flash | Program]]]:
    """Return the writes that have reached a device, or may have, by place. Rollbacks always count."""
    found: dict[Place, list[tuple[int, Item, Flash | Program]]] = {}
    for position, item in enumerate(job.items):
        action = item.action
        if isinstance(action, Flash | Program) and (item.restoring or (item.state.begun and not item.untouched)):
            found.setdefault(_place(action), []).append((position, item, action))
    return found


def _shows(component: Component | None, version: str) -> bool:
    """Whether the component runs the version, and the next reset does not change that."""
    return component is not None and _shown(component.version, component.staged, version)


def found_in(accelerator: Accelerator | None, component: Component | None) -> str:
    """Describe in a few words what a component showed; if its card did not show it, what the card showed instead.

    The text is in the past tense because it is read much later: by then the component may run something else.
    """
    if component is None:
        return 'was not shown any more' if accelerator is None else f'was not shown any more; {_parts_of(accelerator)}'
    ran = 'did not tell its version' if component.version is None else f'ran {component.version}'
    return ran if component.staged is None else f'{ran}, with {component.staged} staged'


def _parts_of(accelerator: Accelerator) -> str:
    """List the firmware that a card shows, in the length of a sentence."""
    shown = sorted(f'{c.id or "the card itself":.60} {c.version or "without a version":.60}' for c in accelerator.firmware)
    more = f' and {len(shown) - _MOST_PARTS} more' if len(shown) > _MOST_PARTS else ''
    return f'the card showed {", ".join(shown[:_MOST_PARTS]) or "no firmware"}{more}'


def part_of(accelerator: Accelerator, ref: Ref) -> Component | None:
    """Return the firmware component, or the item of the slot, that an update of this SoftwareInventory writes."""
    slots = (s.item for s in accelerator.slots if s.item is not None)
    return next((c for c in (*accelerator.firmware, *slots) if c.ref == ref), None)


def _component(accelerator: Accelerator | None, ref: Ref) -> Component | None:
    """Return the firmware component of a device that an update of this SoftwareInventory writes."""
    return None if accelerator is None else next((c for c in accelerator.firmware if c.ref == ref), None)


def _place(action: Flash | Program) -> Place:
    """Return the place that an action writes."""
    return (action.accelerator, action.ref)


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


__all__ = [
    'End',
    'Spoilt',
    'due',
    'forgiven',
    'found_in',
    'in_force',
    'judge',
    'lost',
    'mended',
    'part_of',
    'put_back',
    'spoilt',
    'standing',
    'written_anew',
    'written_well',
    'wrong',
]

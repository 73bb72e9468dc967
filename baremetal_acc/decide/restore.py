# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Restore what ran before a write that has failed, and tell which devices nobody may use because that did not help.

A flash that failed after it was begun is put back once, to the image that its plan names. Where that shows while the writes go
on, it is done before the locks are engaged. Where only the final look shows it, the stages are gone through a second time, for
these devices alone: the host is held again, what stands in the way is released, then written, engaged and reset. There is no
third time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from baremetal_acc.decide import bundles, evidence, images
from baremetal_acc.decide.advance import describe, given_up
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
from baremetal_acc.planning import activation, succession

Place = tuple[AcceleratorId, Ref]
"""A device and the SoftwareInventory of it that is written."""

LockPlace = tuple[str, Ref, str]

_MOST_PARTS = 6
"""Of the firmware that a card shows; a sentence is no inventory."""


# --------------------------------------------------------------------------------------------------- what is to be put back


def due(job: Job, now: datetime) -> tuple[int, ...]:
    """Positions of flashes that are to be put back and have not been: they failed after they were begun.

    Past the deadline nothing more is begun.
    """
    return tuple(position for position, _, _, _ in _due(job, now))


def _due(job: Job, now: datetime) -> list[tuple[int, Item, Flash, str]]:
    """As :func:`due`, with the item, its flash and the name of the image that is to be put back."""
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
            continue  # it, or another one of its BMC, may still be written to: nothing more is sent there
        name = action.restore if action.upload is None else _of_bundle(job, action)
        if name is not None and _place(action) not in tried:
            found[_place(action)] = (position, item, action, name)
    return sorted(found.values())


def _of_bundle(job: Job, failed: Flash) -> str | None:
    """Which image is sent to a part of a bundle that has failed: once more the same one, where the bundle was good for others;
    what was there before, where it was good for none. None: there is none, or other parts are still under way.
    """
    others = [i for i in job.items if isinstance(i.action, Flash) and i.action.upload == failed.upload and not i.restoring]
    if not all(i.state.ended for i in others):
        return None
    return failed.image if any(i.state in (ItemState.DONE, ItemState.STAGED) for i in others) else failed.restore


def put_back(job: Job, inventory: Inventory, catalogue: Iterable[Image], now: datetime, settle: timedelta) -> Job:
    """The job with everything that it takes to put back what is due: each device as it is now, once.

    :param inventory: a look of now: what stands in the way has to be seen, not remembered.
    :param settle: a device that is not shown may come back within this time after its failure, and is waited for.
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
    """What a BMC writes, too, to which a whole bundle is sent for some of its parts."""
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
    """What is put back is as a rule older than what was sent, and some BMCs refuse that, unless they are told to write it."""
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
    """Why an image cannot be put back on a device, or None. Right before it is sent the security floor is asked for, too."""
    if image is None:
        return 'this image is not in the catalogue any more'
    if image.denied is not None:
        return f'the catalogue denies it: {image.denied}'
    if accelerator is None:
        return 'the card is not there any more'
    if component is None:
        return 'the component does not belong to this card any more'
    why = images.unfit(action, image, catalogue, accelerator, component, floor=0, back=True)
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
    """What is written needs its locks opened, closed with fresh evidence, and the reset that brings it in force."""
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
    # What was proven before these devices are written again counts for nothing.
    # A lock of a whole machine is none of theirs, and what closes it again makes new evidence.
    kept = tuple(e for e in job.engagements if e.accelerator not in devices or e.scope is Scope.BMC)
    return replace(job, items=tuple(items), engagements=kept)


def _in_the_way(reading: LockReading, component: Component) -> bool:
    return evidence.in_the_way(reading, WritablePart(scope=Scope.COMPONENT, part=component.id), component.ref)


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
    """Every lock that the job engages on these devices, every lock that is opened now, and whoever else shares such a one."""
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
    """What has to be reset, and of what the standby power has to go: that starts nothing."""
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
    """The losses of standby power that are missing; a System that is not held starts after them."""
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
    """The System that a job holds off, or has held off."""
    return next((a.system for i in items if isinstance(a := i.action, Reset) and a.purpose is ResetPurpose.HOLD), None)


def _resets(items: list[Item], needs: Mapping[Ref, ResetKind], devices: set[AcceleratorId]) -> Iterator[Reset]:
    """The resets that are missing. One that is still to come is made to serve this too: there is no more than one of a kind.

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
    """A reset that is still to come, made as strong as needed."""
    for position, item in enumerate(items):
        action = item.action
        if not isinstance(action, Reset) or item.state is not ItemState.PLANNED:
            continue
        if (action.system, action.purpose, action.kind.is_standby) == (system, purpose, kind.is_standby):
            strongest = activation.strongest(action.kind, kind)
            items[position] = replace(item, action=replace(action, kind=strongest))
            return True
    return False


# ------------------------------------------------------------------------------------------------------------- how it ended


def wrong(job: Job, inventory: Inventory) -> dict[int, str]:
    """Flashes that ended well and whose device shows something else now, with what it shows; what was put back among them."""
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
    """Positions of flashes that waited for a reset, and whose devices run what was written."""
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

    :ivar restored: one sentence for each component that runs what was put back.
    :ivar unusable: devices that nobody may use, with one sentence for each component that makes them so.
    :ivar held: one sentence for each component that may still be written to, or that nobody could look at in the end although
        its write is not known to have failed; their devices are not quarantined.
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
    """Which devices have been put back, and which nobody may use: their last write is not what they show.

    :param inventory: the final look, None when there was none: then nothing that was written is known to be good.
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
    """The job without the failures of parts of a bundle that were sent once more, and that run what was sent now."""
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
"""What to do with a card that may still be written to. A BMC that has restarted writes no more of what it wrote before."""


def _unknown_end(last: Item, action: Flash | Program) -> str:
    return f'whether the write of image {action.image} to {_part(action)} has ended is not known{_task_of(last)}'


def _is_unknown(last: Item) -> bool:
    """The last write of a place is not known to have failed: it has ended well as far as it was seen, or was given up."""
    return last.unsure or last.state in (ItemState.DONE, ItemState.STAGED)


def _may_be_written_to(last: Item, action: Flash | Program, component: Component | None) -> bool:
    """The last write of a place was given up and may go on, and what the place shows is not spoilt: what it ran before, what it
    was sent, or nothing yet.
    """
    if not last.unsure:
        return False
    shown = () if component is None else (component.version, component.staged)
    known = (action.expects, action.version)
    return all(version is None or any(images.same_version(version, one) for one in known) for version in shown)


def _proof(written: Iterable[Item], component: Component | None) -> str | None:
    """Why the place of writes that have failed is not spoilt, as its component shows; None: nothing proves it.

    The component is followed through the writes, from what it showed before the first to what it shows in the end. A write that
    has failed by the word of its task has written nothing, where the component is as before and nothing of it was seen to
    go on; and all of it, where the component shows what was sent and did not before. One that has gone on for a part proves
    nothing, whatever is shown: a version may be read from what was not written yet, or from what was.
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
    """Nothing of a write was seen to go on, and it was not begun, or its task said that it failed."""
    if item.untouched or not item.state.begun:
        return True
    # How far the task of a bundle is says nothing of one of its parts.
    is_part = isinstance(item.action, Flash) and item.action.upload is not None
    still = item.evidence is None and (is_part or not item.percent) and not item.strayed
    return still and item.state is ItemState.FAILED and item.task_failed and not item.unsure


def _wrote_all(item: Item) -> bool:
    """A write that has failed by its task alone: it was not seen to end in the middle."""
    is_part = isinstance(item.action, Flash) and item.action.upload is not None
    seen_on_its_way = item.percent not in (None, 0, 100) or (item.evidence is not None and item.percent != 100)
    in_the_middle = seen_on_its_way and not is_part
    return item.state is ItemState.FAILED and item.task_failed and not item.unsure and not in_the_middle


def _same(one: str | None, other: str | None) -> bool:
    return one == other or images.same_version(one, other)


def _shown(version: str | None, staged: str | None, wanted: str) -> bool:
    return images.same_version(version, wanted) and (staged is None or images.same_version(staged, wanted))


def _task_of(item: Item) -> str:
    return '' if item.task is None else f' (task {item.task})'


def _took(last: Item, action: Flash | Program, component: Component | None, inventory: Inventory | None) -> bool:
    """Whether the last write of a place is what the place shows. What a slot holds is the verdict's business."""
    good = last.state in (ItemState.DONE, ItemState.STAGED)
    return good and (_shows(component, action.version) if isinstance(action, Flash) else inventory is not None)


def lost(job: Job) -> tuple[AcceleratorId, ...]:
    """The devices of which a job knows, before it has looked in the end, that their last write failed."""
    written = _writes(job).items()
    good = (ItemState.DONE, ItemState.STAGED)
    return tuple(sorted({identity for (identity, _), writes in written if writes[-1][1].state not in good}))


def _cycle(action: Flash | Program) -> str:
    """What a write waits for, of which nobody knows when it comes."""
    kind = action.reset if isinstance(action, Flash) else ResetKind.NONE
    return f'an {kind}: ' + (
        'let somebody pull the power cord and plug it in again, and run this again'
        if kind is activation.BY_HAND
        else 'run this again, or let somebody pull the power cord and plug it in again'
    )


def _part(action: Flash | Program) -> str:
    return action.component if isinstance(action, Flash) else action.slot


def _not_restored(job: Job, last: Item, action: Flash | Program) -> str:
    """Why what was there before is not there again."""
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
    """The devices that are written by way of these resources, whatever identity they show."""
    wanted = set(places)
    return frozenset(a.id for a in inventory.accelerators if not wanted.isdisjoint(_parts(a)))


def _parts(accelerator: Accelerator) -> Iterator[Ref]:
    """What of a device can be written."""
    yield from (c.ref for c in accelerator.firmware)
    yield from (s.item.ref for s in accelerator.slots if s.item is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoilt:
    """What a job has left of a device that nobody may use now.

    :ivar firmware: its firmware is not to be trusted; False: only a slot's function is not.
    :ivar places: all that was written to: whatever stands there later is not to be trusted, however it calls itself.
    :ivar anew: what of it has to be written well before anybody may use the device: what does not show what was written last.
        A revocation is not among it: it is never written beside firmware, and a device that is not trusted has all of its
        firmware written.
    """

    firmware: bool
    places: tuple[Ref, ...]
    anew: tuple[Ref, ...]

    def beside(self, places: Iterable[Ref], anew: Iterable[Ref]) -> Self:
        """With what was spoilt before, and has not been mended since."""
        return replace(self, places=tuple(sorted({*self.places, *places})), anew=tuple(sorted({*self.anew, *anew})))


def spoilt(job: Job, device: AcceleratorId, inventory: Inventory | None) -> Spoilt:
    """What a job has written to of a device that nobody may use now.

    :param inventory: the final look, None when there was none, or when it is not remembered.
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
    """What was spoilt before a job that has spoilt something else, without the slots that it has written well.

    Nothing says what those are to be given, once they hold what they held before: they would never be written again.

    :param inventory: the final look, None when there was none: then nobody knows.
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
    """As :func:`mended`, by what a job has written well."""
    return mended(written_well(job), device, firmware=firmware, places=places, anew=anew, inventory=inventory)


def written_well(job: Job) -> tuple[Action, ...]:
    """What of a job has ended well. What was put back does not count."""
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
    """Who stands there, under whatever identity, if these writes, all of them good, mend what was spoilt; else nobody.

    :param firmware: firmware was spoilt, and a function alone mends nothing.
    :param anew: what has to be among it. What the device does not show any more cannot be: firmware that is called after its
        version, or another card.
    :param inventory: what is there now. The device, and whatever stands in its place, have all to be written: they may have
        changed their names, and nobody can tell which of them it is. None: nobody has looked, and all of ``anew`` has to be
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
    """Writes that have reached a device, or may have, by what they went to. What was to be put back counts in any case."""
    found: dict[Place, list[tuple[int, Item, Flash | Program]]] = {}
    for position, item in enumerate(job.items):
        action = item.action
        if isinstance(action, Flash | Program) and (item.restoring or (item.state.begun and not item.untouched)):
            found.setdefault(_place(action), []).append((position, item, action))
    return found


# ------------------------------------------------------------------------------------------------------------------- values


def _shows(component: Component | None, version: str) -> bool:
    """The component runs the version, and the next reset changes nothing about that."""
    return component is not None and _shown(component.version, component.staged, version)


def found_in(accelerator: Accelerator | None, component: Component | None) -> str:
    """What a component showed, in a few words; where its card showed no such one, what that showed in place of it.

    It is read long after: by then the component may run something else.
    """
    if component is None:
        return 'was not shown any more' if accelerator is None else f'was not shown any more; {_parts_of(accelerator)}'
    ran = 'did not tell its version' if component.version is None else f'ran {component.version}'
    return ran if component.staged is None else f'{ran}, with {component.staged} staged'


def _parts_of(accelerator: Accelerator) -> str:
    """The firmware that a card shows, as short as a sentence may be."""
    shown = sorted(f'{c.id or "the card itself":.60} {c.version or "without a version":.60}' for c in accelerator.firmware)
    more = f' and {len(shown) - _MOST_PARTS} more' if len(shown) > _MOST_PARTS else ''
    return f'the card showed {", ".join(shown[:_MOST_PARTS]) or "no firmware"}{more}'


def part_of(accelerator: Accelerator, ref: Ref) -> Component | None:
    """The firmware or the slot of a card that an update of this SoftwareInventory goes to."""
    slots = (s.item for s in accelerator.slots if s.item is not None)
    return next((c for c in (*accelerator.firmware, *slots) if c.ref == ref), None)


def _component(accelerator: Accelerator | None, ref: Ref) -> Component | None:
    return None if accelerator is None else next((c for c in accelerator.firmware if c.ref == ref), None)


def _place(action: Flash | Program) -> Place:
    return (action.accelerator, action.ref)


def _lock(action: Release | Engage) -> LockPlace:
    return (action.mechanism, action.ref, action.field)


def _owner(scope: Scope, accelerator: AcceleratorId) -> AcceleratorId | None:
    """Whose lock it is: of a whole machine, nobody's."""
    return None if scope is Scope.BMC else accelerator


def _identity(action: Action) -> tuple[object, ...]:
    """Two actions of one identity do the same."""
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

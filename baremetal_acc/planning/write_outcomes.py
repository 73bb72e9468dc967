# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Judge after the final inventory read how the writes of a job have ended, and which devices are quarantined.

A write has ended well only if its device shows what was last written to it. A device that does not is quarantined, unless the
write may still continue, waits for a standby power cycle, or is proven to have left the device intact.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import revokes
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning import activation, image_selection
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.job_items import given_up
from baremetal_acc.planning.written_places import (
    component_at,
    found_in,
    is_version_shown,
    part_of,
    shows_last_write,
    shows_version,
    writes_by_place,
)


def wrong(job: Job, inventory: Inventory) -> dict[int, str]:
    """Return the flashes that ended well and whose device now shows something else, with what it shows; includes rollbacks."""
    found = {}
    for place, written in writes_by_place(job).items():
        position, item, action = written[-1]
        if activation.waits_for_cycle(job, item):
            continue
        if isinstance(action, Flash) and item.state in (ItemState.DONE, ItemState.STAGED):
            component = component_at(inventory.accelerator(place[0]), place[1])
            if not shows_version(component, action.version):
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
        and shows_version(component_at(inventory.accelerator(action.accelerator), action.ref), action.version)
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
    for (identity, ref), written in writes_by_place(job).items():
        _, last, action = written[-1]
        accelerator = None if inventory is None else inventory.accelerator(identity)
        component = None if accelerator is None else part_of(accelerator, ref)
        name = identity if accelerator is None else f'{accelerator.label} ({identity})'
        if shows_last_write(last, action, component, inventory):
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
                _unknown_end(last, action)
                if last.unsure
                else f'whether {_part(action)} still is as it was written is not known'
            )
            held.append(f'{name} is held: {unknown}, as the final inspection failed. {_GO_ON}')
            continue
        proof = _proof([i for _, i, _ in written], component)
        if accelerator is not None and proof is not None:
            held.append(
                f'{name} is held: {_part(action)} {found_in(accelerator, component)}{proof}; '
                f'{_not_restored(job, last, action)}. The next job writes it again'
            )
            continue
        shows = 'could not be read in the end' if inventory is None else found_in(accelerator, component)
        sentence = (
            f'{name} is quarantined: {_part(action)} {shows}; {_not_restored(job, last, action)}. '
            'Write a good image to it, or replace the card, before the card is used'
        )
        unusable.append((identity, sentence))
    return End(restored=tuple(restored), unusable=tuple(unusable), held=tuple(held))


def forgiven(job: Job, inventory: Inventory) -> Job:
    """Remove the failures of parts of a bundle that were sent once more, and that now run what was sent."""
    told: set[str] = set()
    for (identity, ref), written in writes_by_place(job).items():
        _, last, action = written[-1]
        accelerator = inventory.accelerator(identity)
        component = None if accelerator is None else part_of(accelerator, ref)
        if _is_retry(action) and shows_last_write(last, action, component, inventory):
            told |= {f'{describe(a)}: ' for _, item, a in written if item.state is ItemState.FAILED}
    return replace(job, reasons=tuple(r for r in job.reasons if not any(map(r.startswith, told)))) if told else job


def _is_retry(action: Flash | Program) -> bool:
    return isinstance(action, Flash) and action.retry


_GO_ON = (
    'Nothing more is sent to it. To resume, run apply --execute, or the step, again: that reads the card first, and '
    'writes once its BMC works on no update. If the BMC no longer shows the update, or never ends it, restart the BMC '
    'before that'
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
            is_version_shown(version, staged, action.version) and not _same(action.expects, action.version) and _wrote_all(item)
        )
    if not is_good:
        return None
    if is_written:
        return ', as sent and unlike before, although the BMC says that the write failed'
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


def _task_of(item: Item) -> str:
    return '' if item.task is None else f' (task {item.task})'


def lost(job: Job) -> tuple[AcceleratorId, ...]:
    """Return the devices whose last write failed, as the job knows before its final inventory read."""
    written = writes_by_place(job).items()
    good = (ItemState.DONE, ItemState.STAGED)
    return tuple(sorted({identity for (identity, _), writes in written if writes[-1][1].state not in good}))


def _cycle(action: Flash | Program) -> str:
    """Return what a write waits for that comes at an unknown time."""
    kind = action.reset if isinstance(action, Flash) else ResetKind.NONE
    return f'an {kind}: ' + (
        'unplug the power cord, plug it in again, and run this again'
        if kind is activation.BY_HAND
        else 'run this again, or unplug the power cord and plug it in again'
    )


def _part(action: Flash | Program) -> str:
    return action.component if isinstance(action, Flash) else action.slot


def _not_restored(job: Job, last: Item, action: Flash | Program) -> str:
    """Return why the version from before the write was not restored."""
    if isinstance(action, Program):
        return f'{action.function} was to be programmed, and a function has no restore image'
    if action.retry:
        return f'image {action.image} was sent once more: {last.message or last.state}'
    if last.restoring:
        return f'image {action.image} was to be restored: {last.message or last.state}'
    if action.restore is None:
        return f'image {action.image} was written, and it has no restore image'
    if action.ref.bmc in {a.ref.bmc for a in given_up(job)}:
        return (
            f'image {action.image} was written, and {action.restore} is not restored while its BMC may still write another card'
        )
    late = 'there was no time left' if not job.second else 'it was too late'
    return f'image {action.image} was written, and {late} to restore {action.restore}'

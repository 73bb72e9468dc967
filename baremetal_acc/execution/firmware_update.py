# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send a firmware image or FPGA bitstream to a device, once it is checked that the device is still as planned."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from baremetal_acc.bmc.driver import Connection
from baremetal_acc.errors import (
    AccError,
    BmcBusy,
    BmcError,
    BmcUnreachable,
    ImageError,
    ImageMissing,
)
from baremetal_acc.execution.context import Tools, image_of
from baremetal_acc.execution.power import host_runs, host_woke
from baremetal_acc.execution.retry_policy import took_nothing
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, Upload, UploadProgress
from baremetal_acc.model.inventory import Inventory, Objection, PowerState, TaskReading
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState, WriteEvidence
from baremetal_acc.model.ref import HOST, BmcName
from baremetal_acc.planning import interference, known_later, succession
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.host_interference import host_may_program
from baremetal_acc.planning.image_selection import same_version, unfit
from baremetal_acc.planning.job_items import ended, sharing_upload
from baremetal_acc.policy.device_demands import demands

LOG = logging.getLogger(__name__)


def write(at: StepContext) -> Job:
    """Send an image once, to the very device that the plan saw.

    If it may have arrived although the BMC has not answered, a later turn reads the device and decides. A bundle is sent once
    for all of its parts, with the first of them, when nothing speaks against any part.
    """
    parts = sharing_upload(at.job, at.position)
    for part in parts:
        at = at.of(_ready(at.at(part)))
    items = at.job.items
    left = tuple(p for p in parts if items[p].state is ItemState.SENT)
    waiting = [p for p in parts if items[p].state is ItemState.PLANNED]
    refused = [p for p in parts if items[p].state is ItemState.FAILED and not _is_gone(items[p], at.inventory)]
    if refused and left:
        # The BMC would write the refused parts, too.
        why = f'part of the same bundle: {items[refused[0]].message}'
        for part in (*left, *waiting):
            at = at.of(at.at(part).failed(why, untouched=True))
        return at.job
    if waiting:
        first = items[waiting[0]]
        for part in left:
            put_off = replace(items[part].to(ItemState.PLANNED, at.now, first.message), waiting=first.waiting)
            at = at.of(at.at(part).with_item(put_off))
        return at.job
    return _send(at, left) if left else at.job


def _is_gone(item: Item, inventory: Inventory | None) -> bool:
    """Whether this is a part of a bundle whose card is not there: then the other parts are written all the same."""
    return (
        isinstance(item.action, Flash)
        and item.action.upload is not None
        and inventory is not None
        and inventory.accelerator(item.action.accelerator) is None
    )


def _ready(at: StepContext) -> Job:
    """Return the job with the item still as sent where an image may go to its device now; else as planned again, or failed."""
    job, item, inventory, now = at.job, at.item, at.inventory, at.now
    action = item.action
    if not isinstance(action, Flash | Program):
        return job
    moved = _moved(action, inventory) or host_runs(job, inventory)
    if moved is None and isinstance(action, Program) and inventory is not None:
        running = (facts for facts in inventory.hosts if facts.power is not PowerState.OFF)
        host, accelerator = next(running, inventory.bmc(HOST)), inventory.accelerator(action.accelerator)
        moved = host_may_program(job, action, at.target.node.exposure, host, accelerator)
    found = _found(action, inventory)
    # A BMC that stops answering during an inspection shows only a part of a card: no image can be judged by that.
    hidden = _hidden(action, inventory)
    if hidden is not None and now <= job.deadline:
        since = item.waiting or now
        by_hold = known_later.hidden_by_hold(job, inventory, action.accelerator) is not None
        # A card that is not restored is lost to everybody, so wait longer for it; but not for a card that the BMC hides while
        # the host is off: it comes back only with the host.
        limit = at.tools.patience.reset if item.restoring and not by_hold else at.tools.patience.settle
        if now - since <= limit:
            waits = f'{hidden}; waiting until {since + limit:%H:%M:%S}Z for the BMC to show all of it'
            if item.waiting is None:
                LOG.warning('%s: %s: %s', job.target, describe(action), waits)
            return at.with_item(replace(item.to(ItemState.PLANNED, now, waits), waiting=since))
        if not by_hold:
            gave_up = f'{hidden}; waited for {limit} for the BMC to show all of it, and nothing was written'
            return at.failed(gave_up, untouched=True)
    latest = _as_now(action, found, inventory)
    if latest != action and moved is None:
        # What the card shows now is no result of this write, and must not count as one: it is stored first.
        return at.with_item(replace(item, state=ItemState.PLANNED, action=latest))
    if item.restoring and found is not None and not _same(found.version, action.expects) and host_runs(job, inventory) is None:
        # What a failed write has left may still change: the restore starts from what is there now, which is stored first.
        now_there = replace(action, expects=found.version, staged=found.staged, installed=found.installed)
        return at.with_item(replace(item, state=ItemState.PLANNED, action=now_there))
    if moved is not None:
        if found is not None and not _same(found.version, action.expects):
            at = at.of(interference.another_version(job, action, found.version, now))
        hidden_by_hold = known_later.hidden_by_hold(at.job, inventory, action.accelerator)
        return at.failed(hidden_by_hold or moved, untouched=True)
    try:
        image = image_of(at.tools, action.image, action.content)
        why = _unfit(at, action, image)
    except AccError as exc:
        why = str(exc)
    return job if why is None else at.failed(why, untouched=True)


def _send(at: StepContext, parts: tuple[int, ...]) -> Job:
    """Send an image to its device, or a bundle to the devices of all its parts."""
    at = at.at(parts[0])
    item, tools, now = at.item, at.tools, at.now
    action = item.action
    if not isinstance(action, Flash | Program):
        return at.job

    def each(change: Callable[[StepContext], Job]) -> Job:
        changed = at
        for part in parts:
            changed = changed.of(change(changed.at(part)))
        return changed.job

    try:
        upload = _upload(item, action, tools)
    except AccError as exc:
        since, why = item.waiting or now, str(exc)
        if item.restoring and isinstance(exc, ImageMissing) and now - since <= tools.patience.settle and now <= at.job.deadline:
            # Its folder, server or disk may be back in a moment, and a card that is not restored is lost to everybody.
            return each(lambda one: one.with_item(replace(one.item.to(ItemState.PLANNED, now, why), waiting=since)))
        return each(lambda one: one.failed(why, untouched=True))
    try:
        bmc = at.bmcs[action.ref.bmc]
        at = at.of(_before_push(at, parts, bmc))
        answer = bmc.push(action.ref, upload)
    except BmcBusy as exc:
        busy = exc
        return each(lambda one: _put_off(one, busy))
    except ImageError as exc:
        # The image changed while it was sent: what has arrived is not what was checked.
        why = str(exc)
        return each(lambda one: one.failed(why))
    except AccError as exc:
        LOG.warning('%s: %s: %s', at.job.target, describe(action), exc)
        if isinstance(exc, BmcUnreachable) and not exc.sent:
            silent = exc
            return each(lambda one: _put_off(one, silent))
        why, said = str(exc), exc.message
        if took_nothing(exc):
            return each(lambda one: one.failed(why, untouched=True))
        # Whether it arrived is unknown: the item stays as sent, and the next turn decides.
        cut = isinstance(exc, BmcUnreachable) and exc.cut
        return each(lambda one: one.with_item(replace(one.item, message=said, cut=cut)))
    return each(lambda one: _accepted(one, answer))


def _upload(item: Item, action: Flash | Program, tools: Tools) -> Upload:
    """Return the checked bytes of an image, and how they are sent.

    :raises AccError: they cannot be read, or must not be written.
    """
    image = image_of(tools, action.image, action.content)
    upload = tools.images.open(image)
    if item.restoring and isinstance(action, Flash) and action.goes_back:
        upload = replace(upload, goes_back=True)
    if action.forced:
        upload = replace(upload, forced=True)
    if isinstance(action, Flash) and action.upload is not None and image.bundle is not None:
        targets = image.bundle.targets
        upload = replace(upload, targets=targets, untargeted=targets is None)
    return upload


def _before_push(at: StepContext, parts: tuple[int, ...], bmc: Connection) -> Job:
    """Store in the job, before an image is sent, what will show whether the BMC has restarted since."""
    try:
        managers = tuple(one for one in bmc.managers() if one.last_reset is not None)
    except BmcError as exc:
        LOG.info('%s', exc)
        managers = ()
    for one in map(at.at, parts):
        item = replace(one.item, pushed=at.now, managers=managers, told_busy=False, cut=False)
        at = at.of(at.at(one.position).with_item(item))
    at.tools.save(at.job)
    return at.job


def _accepted(at: StepContext, answer: TaskReading | Objection | UploadProgress | None) -> Job:
    """Return the job after the BMC has accepted an image, or as much of it as one turn sends."""
    item, now = replace(at.item, busy=None, waiting=None), at.now
    action = item.action
    if isinstance(answer, UploadProgress):
        return at.with_item(
            replace(item, state=ItemState.SENT, progress=answer, percent=answer.percent, since=now, moved=now, message=None)
        )
    task = answer.ref if isinstance(answer, TaskReading) else None
    objection = answer.objection if isinstance(answer, TaskReading) else answer
    LOG.info('%s: %s: sent, task %s', at.job.target, describe(action), task)
    if objection is not None:
        LOG.warning('%s: %s: the BMC accepted it with the message: %s', at.job.target, describe(action), objection.text)
    # The progress of an upload in turns is no progress of its task.
    moved = None if item.progress is not None else item.moved
    blocks = WriteEvidence.BLOCKS if item.progress is not None and item.progress.whole else item.evidence
    running = replace(
        item.to(ItemState.RUNNING, now), task=task, task_started=None, progress=None, moved=moved, evidence=blocks
    )
    # The last turn of an upload starts the update.
    started = item.started or item.progress is not None
    return at.with_item(replace(running, objection=objection, started=started))


def go_on(at: StepContext, action: Flash | Program, progress: UploadProgress) -> Job:
    """Take one more turn of an image that is sent in turns; it counts for all parts of a bundle."""
    parts = sharing_upload(at.job, at.position)
    at = at.of(_turn(at, action, progress))
    first = at.item
    job = at.job
    for part in parts:
        if part != at.position and first.state is ItemState.FAILED:
            job = ended(job, part, ItemState.FAILED, at.now, first.message, untouched=first.untouched, unsure=first.unsure)
        elif part != at.position:
            job = at.of(job).at(part).with_item(replace(first, action=job.items[part].action))
    return job


def _turn(at: StepContext, action: Flash | Program, progress: UploadProgress) -> Job:
    """Take one more turn of an image that is sent in turns.

    The card is not inspected meanwhile: while it takes firmware it need not say what it is. That it is the planned card was
    seen before the first turn, and the driver asks the controller that it began with.
    """
    item, patience = replace(at.item, progress=replace(progress, turning=False)), at.tools.patience
    at = at.of(at.with_item(item))
    try:
        woke = host_woke(at.job, at.bmcs)
        image = image_of(at.tools, action.image, action.content)
        why = woke or (image.denied and f'the catalogue denies the image: {image.denied}')
        if why:
            return at.failed(why)
        upload = at.tools.images.open(image)
    except AccError as exc:
        return _held_up(at, exc, patience.reset if isinstance(exc, BmcError) else patience.settle)
    try:
        answer = at.bmcs[action.ref.bmc].go_on(action.ref, upload, progress)
    except BmcBusy as exc:
        return _held_up(at, exc, patience.stall)
    except AccError as exc:
        LOG.warning('%s: %s: %s', at.job.target, describe(action), exc)
        if isinstance(exc, BmcUnreachable) and not exc.sent:
            # Nothing was under way, so the upload continues where it is; whether the device still has it is seen then.
            return _held_up(at, exc, patience.reset)
        if progress.whole and not took_nothing(exc):
            # Whether it was activated is unknown: the next turn decides.
            return at.with_item(replace(item, progress=None, message=exc.message))
        if isinstance(exc, BmcUnreachable):
            begun_anew = at.with_item(replace(item, progress=replace(progress, so_far=None, turning=False)))
            return _held_up(at.of(begun_anew), exc, patience.reset)
        return at.failed(str(exc))
    return _accepted(at, answer)


def _held_up(at: StepContext, exc: AccError, limit: timedelta) -> Job:
    """Retry a turn that could not be taken, up to a limit that is counted from the last one that was."""
    if at.now - (at.item.moved or at.item.since) > limit:
        return at.failed(str(exc))
    return at.with_item(replace(at.item, message=exc.message))


def _put_off(at: StepContext, exc: BmcBusy | BmcUnreachable) -> Job:
    """Send the image again later, as its BMC has accepted nothing; up to a limit, unless it is we who keep the BMC busy."""
    item, now, stall = at.item, at.now, at.tools.patience.stall
    if not isinstance(item.action, Flash | Program):
        return at.job
    bmc, upload = item.action.ref.bmc, _upload_of(item)
    others = (
        i
        for n, i in enumerate(at.job.items)
        if n != at.position and i.state in (ItemState.SENT, ItemState.RUNNING) and (upload is None or _upload_of(i) != upload)
    )
    ours = any(isinstance(i.action, Flash | Program) and i.action.ref.bmc == bmc for i in others)
    since = now if ours or item.busy is None else item.busy
    if now - since > stall:
        says = 'the BMC has only answered that it is busy' if isinstance(exc, BmcBusy) else 'the BMC could not be reached'
        return at.failed(f'{says} for {stall}: {exc.message}', untouched=True)
    return at.with_item(replace(item.to(ItemState.PLANNED, now, exc.message), busy=since))


def _upload_of(item: Item) -> tuple[str, BmcName] | None:
    return item.action.upload if isinstance(item.action, Flash) else None


def _unfit(at: StepContext, action: Flash | Program, image: Image) -> str | None:
    """Return why an image does not fit the device as it is now, or None. The catalogue may have changed since the plan."""
    accelerator = None if at.inventory is None else at.inventory.accelerator(action.accelerator)
    found = _found(action, at.inventory)
    if accelerator is None or found is None:
        return f'{action.ref} no longer belongs to this card'
    # What the plan saw may be hidden now, such as the location of a card whose host is off.
    wanted = demands(at.tools.baseline, accelerator, at.target.node)
    return unfit(
        action,
        image,
        at.tools.catalogue,
        accelerator,
        found,
        floor=wanted.highest_floor,
        floor_rule=wanted.highest_floor_rule,
        back=at.item.restoring,
    )


def _as_now(action: Flash | Program, found: Component | None, inventory: Inventory | None) -> Flash | Program:
    """Return a write with what its card shows right before it: what is staged, and how to recognise the item afterwards."""
    card = None if inventory is None else inventory.accelerator(action.accelerator)
    if found is None or card is None:
        return action
    if isinstance(action, Flash) and action.item is not None:
        return replace(action, staged=found.staged, item=succession.identity(card, found))
    return replace(action, staged=found.staged)


def _hidden(action: Flash | Program, inventory: Inventory | None) -> str | None:
    """Return why it cannot be told whether the device is there: parts of what its BMC shows could not be read just now."""
    gaps = () if inventory is None else inventory.gaps
    return next((g.reason for g in gaps if g.ref.bmc == action.ref.bmc and g.hides), None)


def _moved(action: Flash | Program, inventory: Inventory | None) -> str | None:
    """Return why the device is not what the plan saw, or None when it is."""
    if inventory is None or inventory.accelerator(action.accelerator) is None:
        return 'the BMC no longer shows the card'
    found = _found(action, inventory)
    if found is None:
        return f'{action.ref} no longer belongs to this card'
    if not _same(found.version, action.expects):
        return f'the plan was made with version {action.expects}, but the card now shows {found.version}'
    return None


def _found(action: Flash | Program, inventory: Inventory | None) -> Component | None:
    """Return the component that an action is for, as it is now."""
    accelerator = None if inventory is None else inventory.accelerator(action.accelerator)
    if accelerator is None:
        return None
    if isinstance(action, Flash):
        items = accelerator.firmware
    else:
        items = tuple(s.item for s in accelerator.slots if s.slot_id == action.slot and s.item is not None)
    return next((c for c in items if c.ref == action.ref), None)


def _same(one: str | None, other: str | None) -> bool:
    return one == other or same_version(one, other)

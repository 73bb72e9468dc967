# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""State table of one firmware or function write: its next state, from its current state and what the BMC shows.

The table is total. A write is started once. After that, the BMC is polled until it shows the version that was sent, reports a
failure, or has had the time to settle. A write is never sent again because nobody knows whether it arrived.
"""

from dataclasses import dataclass
from enum import StrEnum

from baremetal_acc.model.inventory import TaskReading, TaskState, UpdateActivity
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning.image_selection import same_version


class UpdateObservation(StrEnum):
    """What one poll of a component and of the task of its write shows.

    ``running``: the expected version runs. ``staged``: it waits for a reset. ``elsewhere``: another write keeps the BMC busy.
    ``working``: our task runs. ``awaits``: our task continues only after a restart of the host. ``succeeded``: our task reports
    success, and the version is not there (yet). ``failed``: our task reports a failure. ``stalled``: our task claims to run,
    has made no progress for long, and the version is not there. ``other``: our task reports success, and another version is
    staged. ``vanished``: the BMC has forgotten the task, the version is not there, and it is proven that nothing is written any
    more. ``forgotten``: the same, but nothing proves that the write has ended: it may continue after the service that had the
    task was restarted. ``nothing``: no task was ever seen, the BMC reports that it writes nothing, and the version is not
    there. ``unanswered``: nobody knows whether the BMC has accepted the image; it shows no task, and may have forgotten one.
    ``refused``: the same, and the BMC has answered the upload with a failure; the component is as it was. ``missing``: the BMC
    shows the card with the version under another name, and not the component. ``untold``: neither a task nor the update service
    nor the device reports whether the write has ended. ``unshown``: our task reports success, and the device reports no
    version. ``silent``: the BMC does not answer, or does not show the card.
    """

    RUNNING = 'running'
    STAGED = 'staged'
    ELSEWHERE = 'elsewhere'
    WORKING = 'working'
    AWAITS = 'awaits'
    SUCCEEDED = 'succeeded'
    FAILED = 'failed'
    STALLED = 'stalled'
    OTHER = 'other'
    VANISHED = 'vanished'
    FORGOTTEN = 'forgotten'
    NOTHING = 'nothing'
    UNANSWERED = 'unanswered'
    REFUSED = 'refused'
    MISSING = 'missing'
    UNTOLD = 'untold'
    UNSHOWN = 'unshown'
    SILENT = 'silent'


class Effect(StrEnum):
    """What to do after a poll.

    ``wait``: poll again. ``settle``: wait, but only as long as a device may take to report the version; then fail: the write
    has ended. ``ask``: wait, but no longer than the slowest write takes; then give up. ``give-up``: fail, and send nothing more
    to the device, because nobody knows whether the write has ended. ``end``: the write has ended well. ``fail``: the write has
    failed.
    """

    WAIT = 'wait'
    SETTLE = 'settle'
    ASK = 'ask'
    GIVE_UP = 'give-up'
    END = 'end'
    FAIL = 'fail'


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The next state of a write, what to do, and why (for failures)."""

    state: ItemState
    effect: Effect
    why: str | None = None


_S, _R = ItemState.SENT, ItemState.RUNNING


def _fail(why: str) -> Next:
    return Next(state=ItemState.FAILED, effect=Effect.FAIL, why=why)


def _settle(state: ItemState, why: str) -> Next:
    return Next(state=state, effect=Effect.SETTLE, why=why)


def _ask(state: ItemState, why: str) -> Next:
    return Next(state=state, effect=Effect.ASK, why=why)


_UNTOLD = 'neither a task nor the update service of the BMC says whether the write has ended, and the new version is not shown'
_UNSHOWN = 'the BMC says that the update succeeded, but shows no version'
_FORGOTTEN = 'the BMC no longer shows the update, nothing proves that its write has ended, and the new version is not shown'
_UNANSWERED = (
    'the image was sent, the BMC shows neither a task nor the new version, and nothing proves that it did not accept the image'
)
_MISSING = 'the card is shown, but not the item that was written'
_REFUSED = 'the BMC accepted the image, but its answer says that the update failed; nothing was written'
_STALLED = Next(
    state=ItemState.FAILED,
    effect=Effect.GIVE_UP,
    why='the update is reported as running, has made no progress for long, and the new version is not shown',
)

_DONE = Next(state=ItemState.DONE, effect=Effect.END)
_STAGED = Next(state=ItemState.STAGED, effect=Effect.END)

TABLE: dict[tuple[ItemState, UpdateObservation], Next] = {
    # Sent, and no answer seen: only the device can show whether the image arrived.
    (_S, UpdateObservation.RUNNING): _DONE,
    (_S, UpdateObservation.STAGED): _STAGED,
    (_S, UpdateObservation.ELSEWHERE): Next(state=_S, effect=Effect.WAIT),
    (_S, UpdateObservation.WORKING): Next(state=_R, effect=Effect.WAIT),
    (_S, UpdateObservation.AWAITS): Next(state=_R, effect=Effect.WAIT),
    (_S, UpdateObservation.SUCCEEDED): _settle(_S, 'the BMC says that the update succeeded, but the new version is not shown'),
    (_S, UpdateObservation.FAILED): _fail('the BMC says that the update failed'),
    (_S, UpdateObservation.STALLED): _STALLED,
    (_S, UpdateObservation.OTHER): _settle(_S, 'the BMC says that the update succeeded, but another version is staged'),
    (_S, UpdateObservation.VANISHED): _settle(_S, 'the BMC no longer shows the update, and the new version is not shown'),
    (_S, UpdateObservation.FORGOTTEN): _ask(_S, _FORGOTTEN),
    (_S, UpdateObservation.UNANSWERED): _ask(_S, _UNANSWERED),
    (_S, UpdateObservation.NOTHING): _settle(_S, 'the image was sent, but the BMC shows neither a task nor the new version'),
    (_S, UpdateObservation.REFUSED): _settle(_S, _REFUSED),
    (_S, UpdateObservation.MISSING): _settle(_S, _MISSING),
    (_S, UpdateObservation.UNTOLD): _ask(_S, _UNTOLD),
    (_S, UpdateObservation.UNSHOWN): _ask(_S, _UNSHOWN),
    (_S, UpdateObservation.SILENT): Next(state=_S, effect=Effect.WAIT),
    # The BMC has a task for it.
    (_R, UpdateObservation.RUNNING): _DONE,
    (_R, UpdateObservation.STAGED): _STAGED,
    (_R, UpdateObservation.ELSEWHERE): Next(state=_R, effect=Effect.WAIT),
    (_R, UpdateObservation.WORKING): Next(state=_R, effect=Effect.WAIT),
    (_R, UpdateObservation.AWAITS): Next(state=_R, effect=Effect.WAIT),
    (_R, UpdateObservation.SUCCEEDED): _settle(_R, 'the BMC says that the update succeeded, but the new version is not shown'),
    (_R, UpdateObservation.FAILED): _fail('the BMC says that the update failed'),
    (_R, UpdateObservation.STALLED): _STALLED,
    (_R, UpdateObservation.OTHER): _settle(_R, 'the BMC says that the update succeeded, but another version is staged'),
    (_R, UpdateObservation.VANISHED): _settle(_R, 'the BMC no longer shows the update, and the new version is not shown'),
    (_R, UpdateObservation.FORGOTTEN): _ask(_R, _FORGOTTEN),
    (_R, UpdateObservation.UNANSWERED): _ask(_R, _UNANSWERED),
    (_R, UpdateObservation.NOTHING): _settle(_R, 'the BMC shows neither a task nor the new version'),
    (_R, UpdateObservation.REFUSED): _settle(_R, _REFUSED),
    (_R, UpdateObservation.MISSING): _settle(_R, _MISSING),
    (_R, UpdateObservation.UNTOLD): _ask(_R, _UNTOLD),
    (_R, UpdateObservation.UNSHOWN): _ask(_R, _UNSHOWN),
    (_R, UpdateObservation.SILENT): Next(state=_R, effect=Effect.WAIT),
}
"""The next state for every state in which a write is polled, with everything that a poll can show.

A write that was not started is not polled: :func:`~baremetal_acc.planning.job_transitions.advance` starts it, and only if a
fresh read shows the very device that was planned. Nothing here starts a write.
"""


def following(state: ItemState, seen: UpdateObservation, reset: ResetKind) -> Next:
    """Return the next state of a write.

    A successful task ends the write only if the version needs a reset to run; it is verified after that reset. A task that
    waits for a restart of the host gets it if one is planned, and is polled to its end after that.
    """
    if seen in (UpdateObservation.SUCCEEDED, UpdateObservation.AWAITS) and reset is not ResetKind.NONE and state in (_S, _R):
        return _STAGED
    return TABLE[state, seen]


def classify(
    *,
    task: TaskReading | None,
    version: str | None,
    staged: str | None,
    wanted: str,
    service: UpdateActivity,
    before: str | None = None,
    staged_before: str | None = None,
    stalled: bool = False,
    answered: bool = True,
    cancelled: bool = False,
    restarts: bool = False,
    failed_at_once: bool = False,
    is_over: bool = False,
    cut: bool = False,
) -> UpdateObservation:
    """Classify what a poll of a write shows.

    Running, staged and wanted version are three things: if another version is staged, nothing has ended.

    :param task: our own task, None if none is known.
    :param service: what the BMC does besides our task. Busy may mean our write under another name, so nothing has vanished yet.
    :param before: the version before the write, and ``staged_before`` the version that was staged then. If one of them was
        already the wanted version, it proves nothing about the write: then the task has to report success.
    :param stalled: our task has made no progress for longer than anything takes, so the device decides and not the task.
    :param answered: the BMC has answered the upload. A BMC that shows its tasks, and has accepted an image without one, does
        not report its updates by tasks; a BMC whose answer was lost is assumed to report them so.
    :param is_over: it is proven that what was written when the image was sent is not written any more: the BMC itself has
        restarted since (:mod:`~baremetal_acc.planning.bmc_restart`), or without the task it reported that it writes, and does
        not report that any more. A task that is gone is no such proof, nor is a service that reports that it is idle after it
        has forgotten the task: both are the memory of a service that may have been restarted while the write continues.
    :param cut: the image was not sent to its end.
    :param restarts: the host is to be restarted after the write. A task that has not begun for longer than anything takes waits
        for that restart, though it does not say so.
    :param failed_at_once: the BMC has answered the upload with success, and reported in that answer that the update failed, and
        nothing was seen in progress since. Such an upload has no task, so a BMC that reports its updates by tasks, and shows
        none, writes nothing.
    :param cancelled: we have requested that the task be cancelled. That the task is gone since, or that its monitor reports a
        failure, is our own doing, and not the end of a write.
    """
    state = None if task is None else task.state
    busy = service is UpdateActivity.BUSY
    by_tasks = service is UpdateActivity.TOLD_BY_TASKS and (task is not None or not answered)
    deleted = cancelled and state is TaskState.GONE
    idle = service is UpdateActivity.IDLE or (by_tasks and not deleted)
    runs = state is TaskState.ACTIVE and not stalled
    if task is not None and runs and not task.opaque:
        return UpdateObservation.AWAITS if task.awaits_restart else UpdateObservation.WORKING
    if task is not None and state is TaskState.FAILED and not task.opaque:
        return UpdateObservation.FAILED
    other = staged is not None and not same_version(staged, wanted)
    # A monitor that has ended while the BMC writes is no proof of a version that was there before.
    succeeded = task is not None and state is TaskState.SUCCEEDED and not (task.opaque and busy)
    if same_version(version, wanted) and not other and (succeeded or not same_version(before, wanted)):
        return UpdateObservation.WORKING if runs and busy else UpdateObservation.RUNNING
    if runs:
        return UpdateObservation.WORKING
    if busy and state is not TaskState.ACTIVE:
        return UpdateObservation.ELSEWHERE
    if state is TaskState.FAILED and not cancelled:
        return UpdateObservation.FAILED
    if same_version(staged, wanted) and (succeeded or not same_version(staged_before, wanted)):
        return UpdateObservation.STAGED
    if state is TaskState.ACTIVE:
        return UpdateObservation.AWAITS if restarts and task is not None and task.unbegun else UpdateObservation.STALLED
    if version is None or state is TaskState.FAILED:
        return (
            UpdateObservation.UNSHOWN if succeeded else UpdateObservation.UNTOLD
        )  # a version that is not reported yet is not the earlier version
    if succeeded:
        return UpdateObservation.OTHER if other else UpdateObservation.SUCCEEDED
    no_task = failed_at_once and task is None
    if no_task and service in (UpdateActivity.IDLE, UpdateActivity.TOLD_BY_TASKS) and _same(version, before):
        return UpdateObservation.REFUSED if _same(staged, staged_before) else UpdateObservation.NOTHING
    if not idle and not is_over:
        return UpdateObservation.UNTOLD
    if task is not None and state is TaskState.GONE:
        # A service that reports itself, without a task, that no command runs is what writes, not a memory of it.
        told = is_over or (service is UpdateActivity.IDLE and not task.opaque)
        return UpdateObservation.VANISHED if told else UpdateObservation.FORGOTTEN
    return UpdateObservation.NOTHING if is_over or cut or service is UpdateActivity.IDLE else UpdateObservation.UNANSWERED


def _same(one: str | None, other: str | None) -> bool:
    return one == other or same_version(one, other)

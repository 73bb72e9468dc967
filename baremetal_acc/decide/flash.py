# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What one write to a device does next, given how far it is and what the BMC shows: a total table.

A write is begun once. After that the BMC is looked at until it shows the version that was sent, says that it failed, or has
been given the time to settle; never is a write sent again because nobody knows whether it arrived.
"""

from dataclasses import dataclass
from enum import StrEnum

from baremetal_acc.decide.images import same_version
from baremetal_acc.model.inventory import TaskReading, TaskState, UpdateActivity
from baremetal_acc.model.job import ItemState
from baremetal_acc.model.lock import ResetKind


class Seen(StrEnum):
    """What a look at a component and the task of its write shows.

    ``running``: the expected version runs. ``staged``: it waits for a reset. ``elsewhere``: another write keeps the BMC busy.
    ``working``: our task runs. ``awaits``: it goes on only once the host is restarted. ``succeeded``: our task says that it
    succeeded, and the version is not (yet) there. ``failed``: it says that it failed. ``stalled``: it claims to run, has not
    moved for long, and the version is not there. ``other``: it says that it succeeded, and another version is staged.
    ``vanished``: the BMC has forgotten the task, the version is not there, and it is proven that nothing is written any more.
    ``forgotten``: the same, and nothing proves that: what writes may go on after the service that had the task was restarted.
    ``nothing``: no task was ever seen, the BMC says
    that it writes nothing, and the version is not there. ``unanswered``: nobody knows whether the BMC has taken the image, it
    shows no task, and it may have forgotten one. ``refused``: the same, and the BMC has answered the upload with
    a failure; the component is as it was. ``missing``: the BMC shows the card with the version under another name, and not the
    component. ``untold``: neither a task nor the update service nor the device says whether the write has
    ended. ``unshown``: our task says that it succeeded, and the device shows no version. ``silent``: the BMC does not answer,
    or does not show the card.
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
    """What follows.

    ``settle``: wait, but only for the time that a device may take to show the truth; then fail: the write has ended. ``ask``:
    wait, but no longer than the slowest write takes; then give up. ``give-up``: fail, and nobody knows whether the write has
    ended, so nothing more is sent to its device.
    """

    WAIT = 'wait'
    SETTLE = 'settle'
    ASK = 'ask'
    GIVE_UP = 'give-up'
    END = 'end'
    FAIL = 'fail'


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The state to go to, what follows, and why (for failures)."""

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


_UNTOLD = 'neither a task nor the update service of the BMC says whether the write has ended, and the version is not there'
_UNSHOWN = 'the BMC says that the update succeeded, and shows no version'
_FORGOTTEN = 'the BMC has forgotten the update, nothing proves that its write has ended, and the version is not there'
_UNANSWERED = 'it was sent, the BMC shows neither a task nor the version, and nothing proves that it did not take the image'
_MISSING = 'the card is there, and what was written is not'
_REFUSED = 'the BMC took the image, and said in its answer that the update failed; nothing was written'
_STALLED = Next(
    state=ItemState.FAILED,
    effect=Effect.GIVE_UP,
    why='the update claims to run, has not moved for long, and the version is not there',
)

_DONE = Next(state=ItemState.DONE, effect=Effect.END)
_STAGED = Next(state=ItemState.STAGED, effect=Effect.END)

TABLE: dict[tuple[ItemState, Seen], Next] = {
    # Sent, and no answer seen: whether it arrived shows in the device or nowhere.
    (_S, Seen.RUNNING): _DONE,
    (_S, Seen.STAGED): _STAGED,
    (_S, Seen.ELSEWHERE): Next(state=_S, effect=Effect.WAIT),
    (_S, Seen.WORKING): Next(state=_R, effect=Effect.WAIT),
    (_S, Seen.AWAITS): Next(state=_R, effect=Effect.WAIT),
    (_S, Seen.SUCCEEDED): _settle(_S, 'the BMC says that the update succeeded, and the version is not there'),
    (_S, Seen.FAILED): _fail('the BMC says that the update failed'),
    (_S, Seen.STALLED): _STALLED,
    (_S, Seen.OTHER): _settle(_S, 'the BMC says that the update succeeded, and another version is staged'),
    (_S, Seen.VANISHED): _settle(_S, 'the BMC has forgotten the update, and the version is not there'),
    (_S, Seen.FORGOTTEN): _ask(_S, _FORGOTTEN),
    (_S, Seen.UNANSWERED): _ask(_S, _UNANSWERED),
    (_S, Seen.NOTHING): _settle(_S, 'it was sent, and the BMC shows neither a task nor the version'),
    (_S, Seen.REFUSED): _settle(_S, _REFUSED),
    (_S, Seen.MISSING): _settle(_S, _MISSING),
    (_S, Seen.UNTOLD): _ask(_S, _UNTOLD),
    (_S, Seen.UNSHOWN): _ask(_S, _UNSHOWN),
    (_S, Seen.SILENT): Next(state=_S, effect=Effect.WAIT),
    # The BMC has a task for it.
    (_R, Seen.RUNNING): _DONE,
    (_R, Seen.STAGED): _STAGED,
    (_R, Seen.ELSEWHERE): Next(state=_R, effect=Effect.WAIT),
    (_R, Seen.WORKING): Next(state=_R, effect=Effect.WAIT),
    (_R, Seen.AWAITS): Next(state=_R, effect=Effect.WAIT),
    (_R, Seen.SUCCEEDED): _settle(_R, 'the BMC says that the update succeeded, and the version is not there'),
    (_R, Seen.FAILED): _fail('the BMC says that the update failed'),
    (_R, Seen.STALLED): _STALLED,
    (_R, Seen.OTHER): _settle(_R, 'the BMC says that the update succeeded, and another version is staged'),
    (_R, Seen.VANISHED): _settle(_R, 'the BMC has forgotten the update, and the version is not there'),
    (_R, Seen.FORGOTTEN): _ask(_R, _FORGOTTEN),
    (_R, Seen.UNANSWERED): _ask(_R, _UNANSWERED),
    (_R, Seen.NOTHING): _settle(_R, 'the BMC shows neither a task nor the version'),
    (_R, Seen.REFUSED): _settle(_R, _REFUSED),
    (_R, Seen.MISSING): _settle(_R, _MISSING),
    (_R, Seen.UNTOLD): _ask(_R, _UNTOLD),
    (_R, Seen.UNSHOWN): _ask(_R, _UNSHOWN),
    (_R, Seen.SILENT): Next(state=_R, effect=Effect.WAIT),
}
"""Every state in which a write is looked at, with everything a look can show.

What was not begun is not looked at: it begins by :func:`~baremetal_acc.decide.advance.advance`, and only if a fresh look shows
the very device that the plan saw. Nothing here begins a write.
"""


def following(state: ItemState, seen: Seen, reset: ResetKind) -> Next:
    """What a write does next.

    A task that succeeded is an end only where the version needs a reset to show; it is verified after that. One that waits for
    a restart of the host gets it where one is planned, and is followed to its end after that.
    """
    if seen in (Seen.SUCCEEDED, Seen.AWAITS) and reset is not ResetKind.NONE and state in (_S, _R):
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
) -> Seen:
    """What a look shows. Running, staged and wanted version are three things: with another one staged nothing has ended.

    :param task: our own task, None when none is known.
    :param service: what the BMC is at besides our task. Busy may be ours under another name, so nothing has vanished yet.
    :param before: the version before the write, and ``staged_before`` what was staged then. Where one of them was the wanted
        one already it proves nothing of the write: then the task has to say that it succeeded.
    :param stalled: our task has not moved for longer than anything takes, so that the device is asked and not the task.
    :param answered: the BMC has answered the upload. One that shows its tasks, and has taken an image without one, does not
        tell of its updates by tasks; of one whose answer was lost it is believed that it does.
    :param is_over: it is proven that what was written when the image was sent is not written any more: the BMC itself has
        restarted since (:mod:`~baremetal_acc.planning.bmc_restart`), or without the task it said that it writes, and does not
        say so any more. A task that is gone is no such proof, nor is a service that says that it is idle after it has forgotten
        the task: both are the memory of a service that may have been restarted while what writes goes on.
    :param cut: the image was not sent to its end.
    :param restarts: the host is to be restarted after the write. A task that has not begun for longer than anything takes waits
        for just that, though it does not say so.
    :param failed_at_once: the BMC has answered the upload as a success, and said in that answer that it failed, and nothing was
        seen to go on since. Such an upload has no task, so that of a BMC that shows its tasks none is one that writes nothing.
    :param cancelled: we have asked for the task to be cancelled. That it is gone since, or that its monitor says no, is our own
        doing, and no end of a write.
    """
    state = None if task is None else task.state
    busy = service is UpdateActivity.BUSY
    by_tasks = service is UpdateActivity.TOLD_BY_TASKS and (task is not None or not answered)
    deleted = cancelled and state is TaskState.GONE
    idle = service is UpdateActivity.IDLE or (by_tasks and not deleted)
    runs = state is TaskState.ACTIVE and not stalled
    if task is not None and runs and not task.opaque:
        return Seen.AWAITS if task.awaits_restart else Seen.WORKING
    if task is not None and state is TaskState.FAILED and not task.opaque:
        return Seen.FAILED
    other = staged is not None and not same_version(staged, wanted)
    # A monitor that has ended while the BMC writes is no proof of a version that was there before.
    succeeded = task is not None and state is TaskState.SUCCEEDED and not (task.opaque and busy)
    if same_version(version, wanted) and not other and (succeeded or not same_version(before, wanted)):
        return Seen.WORKING if runs and busy else Seen.RUNNING
    if runs:
        return Seen.WORKING
    if busy and state is not TaskState.ACTIVE:
        return Seen.ELSEWHERE
    if state is TaskState.FAILED and not cancelled:
        return Seen.FAILED
    if same_version(staged, wanted) and (succeeded or not same_version(staged_before, wanted)):
        return Seen.STAGED
    if state is TaskState.ACTIVE:
        return Seen.AWAITS if restarts and task is not None and task.unbegun else Seen.STALLED
    if version is None or state is TaskState.FAILED:
        return Seen.UNSHOWN if succeeded else Seen.UNTOLD  # what is not shown yet is not what was there before
    if succeeded:
        return Seen.OTHER if other else Seen.SUCCEEDED
    no_task = failed_at_once and task is None
    if no_task and service in (UpdateActivity.IDLE, UpdateActivity.TOLD_BY_TASKS) and _same(version, before):
        return Seen.REFUSED if _same(staged, staged_before) else Seen.NOTHING
    if not idle and not is_over:
        return Seen.UNTOLD
    if task is not None and state is TaskState.GONE:
        # What tells of itself that no command runs in it is no memory of a service, but what writes.
        told = is_over or (service is UpdateActivity.IDLE and not task.opaque)
        return Seen.VANISHED if told else Seen.FORGOTTEN
    return Seen.NOTHING if is_over or cut or service is UpdateActivity.IDLE else Seen.UNANSWERED


def _same(one: str | None, other: str | None) -> bool:
    return one == other or same_version(one, other)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What one write to a device does next, given how far it is and what the BMC shows: a total table.

A write is begun once. After that the BMC is looked at until it shows the version that was sent, says that it failed, or has
been given the time to settle; never is a write sent again because nobody knows whether it arrived.
"""

from dataclasses import dataclass
from enum import StrEnum

from baremetal_acc.decide.images import same_version
from baremetal_acc.model.inventory import TaskState
from baremetal_acc.model.job import ItemState
from baremetal_acc.model.lock import ResetKind


class Seen(StrEnum):
    """What a look at a component and the task of its write shows.

    ``running``: the expected version runs. ``staged``: it waits for a reset. ``elsewhere``: another write keeps the BMC busy.
    ``working``: our task runs. ``succeeded``: our task says that it succeeded, and the version is not (yet) there. ``failed``:
    it says that it failed. ``stalled``: it claims to run, has not moved for long, and the version is not there. ``other``: it
    says that it succeeded, and another version is staged. ``vanished``: the BMC has forgotten the task, and the version is not
    there. ``nothing``: no task was ever seen, and the version is not there. ``missing``: the BMC shows the card, and not the
    component. ``silent``: the BMC does not answer, or does not show the card.
    """

    RUNNING = 'running'
    STAGED = 'staged'
    ELSEWHERE = 'elsewhere'
    WORKING = 'working'
    SUCCEEDED = 'succeeded'
    FAILED = 'failed'
    STALLED = 'stalled'
    OTHER = 'other'
    VANISHED = 'vanished'
    NOTHING = 'nothing'
    MISSING = 'missing'
    SILENT = 'silent'


class Effect(StrEnum):
    """What follows. ``settle``: wait, but only for the time that a device may take to show the truth; then fail."""

    WAIT = 'wait'
    SETTLE = 'settle'
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


_DONE = Next(state=ItemState.DONE, effect=Effect.END)
_STAGED = Next(state=ItemState.STAGED, effect=Effect.END)

TABLE: dict[tuple[ItemState, Seen], Next] = {
    # Sent, and no answer seen: whether it arrived shows in the device or nowhere.
    (_S, Seen.RUNNING): _DONE,
    (_S, Seen.STAGED): _STAGED,
    (_S, Seen.ELSEWHERE): Next(state=_S, effect=Effect.WAIT),
    (_S, Seen.WORKING): Next(state=_R, effect=Effect.WAIT),
    (_S, Seen.SUCCEEDED): _settle(_S, 'the BMC says that the update succeeded, and the version is not there'),
    (_S, Seen.FAILED): _fail('the BMC says that the update failed'),
    (_S, Seen.STALLED): _fail('the update claims to run, has not moved for long, and the version is not there'),
    (_S, Seen.OTHER): _settle(_S, 'the BMC says that the update succeeded, and another version is staged'),
    (_S, Seen.VANISHED): _settle(_S, 'the BMC has forgotten the update, and the version is not there'),
    (_S, Seen.NOTHING): _settle(_S, 'it was sent, and the BMC shows neither a task nor the version'),
    (_S, Seen.MISSING): _settle(_S, 'the card is there, and what was written is not'),
    (_S, Seen.SILENT): Next(state=_S, effect=Effect.WAIT),
    # The BMC has a task for it.
    (_R, Seen.RUNNING): _DONE,
    (_R, Seen.STAGED): _STAGED,
    (_R, Seen.ELSEWHERE): Next(state=_R, effect=Effect.WAIT),
    (_R, Seen.WORKING): Next(state=_R, effect=Effect.WAIT),
    (_R, Seen.SUCCEEDED): _settle(_R, 'the BMC says that the update succeeded, and the version is not there'),
    (_R, Seen.FAILED): _fail('the BMC says that the update failed'),
    (_R, Seen.STALLED): _fail('the update claims to run, has not moved for long, and the version is not there'),
    (_R, Seen.OTHER): _settle(_R, 'the BMC says that the update succeeded, and another version is staged'),
    (_R, Seen.VANISHED): _settle(_R, 'the BMC has forgotten the update, and the version is not there'),
    (_R, Seen.NOTHING): _settle(_R, 'the BMC shows neither a task nor the version'),
    (_R, Seen.MISSING): _settle(_R, 'the card is there, and what was written is not'),
    (_R, Seen.SILENT): Next(state=_R, effect=Effect.WAIT),
}
"""Every state in which a write is looked at, with everything a look can show.

What was not begun is not looked at: it begins by :func:`~baremetal_acc.decide.advance.advance`, and only if a fresh look shows
the very device that the plan saw. Nothing here begins a write.
"""


def following(state: ItemState, seen: Seen, reset: ResetKind) -> Next:
    """What a write does next.

    A task that succeeded is an end only where the version needs a reset to show; it is verified after that.
    """
    if seen is Seen.SUCCEEDED and reset is not ResetKind.NONE and state in (_S, _R):
        return _STAGED
    return TABLE[state, seen]


def classify(
    *,
    task: TaskState | None,
    version: str | None,
    staged: str | None,
    wanted: str,
    busy: bool,
    before: str | None = None,
    staged_before: str | None = None,
    stalled: bool = False,
) -> Seen:
    """What a look shows. Running, staged and wanted version are three things: with another one staged nothing has ended.

    :param task: of our own task, None when none is known.
    :param busy: another task keeps the BMC from taking more. It may be ours under another name, so nothing has vanished yet.
    :param before: the version before the write, and ``staged_before`` what was staged then. Where one of them was the wanted
        one already it proves nothing of the write: then the task has to say that it succeeded.
    :param stalled: our task has not moved for longer than anything takes, so that the device is asked and not the task.
    """
    if task is TaskState.ACTIVE and not stalled:
        return Seen.WORKING
    if task is TaskState.FAILED:
        return Seen.FAILED
    other = staged is not None and not same_version(staged, wanted)
    succeeded = task is TaskState.SUCCEEDED
    if same_version(version, wanted) and not other and (succeeded or not same_version(before, wanted)):
        return Seen.RUNNING
    if same_version(staged, wanted) and (succeeded or not same_version(staged_before, wanted)):
        return Seen.STAGED
    if task is TaskState.ACTIVE:
        return Seen.STALLED
    if busy:
        return Seen.ELSEWHERE
    if task is TaskState.SUCCEEDED:
        return Seen.OTHER if other else Seen.SUCCEEDED
    if task is TaskState.GONE:
        return Seen.VANISHED
    return Seen.NOTHING

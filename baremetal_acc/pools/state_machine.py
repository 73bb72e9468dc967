# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""State machine that takes a machine out of use to program its regions, and returns it to placement.

::

    WITHDRAW  withdraw the whole node from placement, all or nothing     claimed: CANCELLED, nothing was changed
    MANAGE    have Ironic make the node manageable                       claimed: RESTORE
    CLEAN     one cleaning with all programs                             claimed: RETURN; failed: FAILED, left alone
    PROVIDE   have Ironic make the node available again                  failed: FAILED, left alone
    VERIFY    wait until placement offers what was asked for             DONE

    RETURN    have Ironic make the unchanged node available again        then RESTORE
    RESTORE   offer again exactly what was offered before                CANCELLED; in maintenance: when that is over

A stage is stored before any of its work is done. A process that resumes the move of a killed process knows the stage, but not
how much of its work was done; it decides from the observed state. If Ironic still has the node available in an early stage
(:func:`resumed`), the move is undone; otherwise it continues.
"""

from dataclasses import dataclass
from enum import StrEnum, auto


class MoveStage(StrEnum):
    """The stage of a move; see the module docstring."""

    WITHDRAW = auto()
    MANAGE = auto()
    CLEAN = auto()
    PROVIDE = auto()
    VERIFY = auto()
    RETURN = auto()
    RESTORE = auto()


class MoveState(StrEnum):
    """The state of a node in Ironic, as far as a move needs it.

    ``BETWEEN``: on its way to manageable or available. ``FAILED``: its cleaning has failed. ``TAKEN``: somebody else uses it.
    ``GONE``: Ironic does not have it any more.
    """

    AVAILABLE = auto()
    MANAGEABLE = auto()
    BETWEEN = auto()
    FAILED = auto()
    TAKEN = auto()
    GONE = auto()


class Holds(StrEnum):
    """What the changed regions were last verified to hold: as before, as asked for, or neither."""

    BEFORE = auto()
    AFTER = auto()
    OTHER = auto()


class Act(StrEnum):
    """What to do now. The last four end the move.

    ``PUT_BACK``: offer again what was offered before. ``LEFT``: somebody else has moved the machine, and the move leaves it
    alone.
    """

    WITHDRAW = auto()
    MANAGE = auto()
    CLEAN = auto()
    PROVIDE = auto()
    PUT_BACK = auto()
    WAIT = auto()
    DONE = auto()
    CANCELLED = auto()
    FAILED = auto()
    LEFT = auto()

    @property
    def ends(self) -> bool:
        """Whether the move ends with this."""
        return self in (Act.DONE, Act.CANCELLED, Act.FAILED, Act.LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSighting:
    """What is observed of a machine.

    :ivar claimed: somebody has claimed the machine, or anything of it.
    :ivar offered: the changed regions offer in placement what they hold.
    :ivar maintenance: the node is in maintenance.
    :ivar kept: its conductor keeps it withdrawn from placement, and offers it again itself after it has read or cleaned it.
    """

    standing: MoveState
    holds: Holds
    claimed: bool = False
    offered: bool = False
    maintenance: bool = False
    kept: bool = False


def following(stage: MoveStage, seen: NodeSighting, *, done: bool) -> tuple[MoveStage, Act]:
    """Return the stage to store, and what to do then.

    :param done: this process has done the work of the stage, and no error came back. A withdrawal that was refused because of a
        claim ends the move; the caller decides that.
    """
    match stage:
        case MoveStage.WITHDRAW:
            if done:
                return following(MoveStage.MANAGE, seen, done=False)
            if seen.standing is not MoveState.AVAILABLE or seen.maintenance or seen.claimed:
                return following(MoveStage.RESTORE, seen, done=False)
            return stage, Act.WITHDRAW
        case MoveStage.MANAGE:
            return _managed(seen, done=done)
        case MoveStage.CLEAN:
            return _cleaned(seen, done=done)
        case MoveStage.PROVIDE:
            return _provided(seen, done=done)
        case MoveStage.VERIFY:
            return _verified(seen)
        case MoveStage.RETURN:
            return _returned(seen, done=done)
        case MoveStage.RESTORE:
            # If it does not hold what it offered before, the next inspection of the node offers what it holds.
            back = seen.standing is MoveState.AVAILABLE and seen.holds is Holds.BEFORE and not seen.kept and not done
            # Nothing of a machine in maintenance is available in placement.
            return stage, Act.CANCELLED if not back else Act.WAIT if seen.maintenance else Act.PUT_BACK


def resumed(stage: MoveStage, seen: NodeSighting) -> MoveStage:
    """Return the stage from which a move is resumed that another process has left."""
    if stage in (MoveStage.WITHDRAW, MoveStage.MANAGE) and seen.standing is MoveState.AVAILABLE:
        return MoveStage.RESTORE
    return stage


def _managed(seen: NodeSighting, *, done: bool) -> tuple[MoveStage, Act]:
    match seen.standing:
        case MoveState.AVAILABLE if done:
            return MoveStage.MANAGE, Act.WAIT
        case MoveState.AVAILABLE if seen.claimed or seen.maintenance:
            return following(MoveStage.RESTORE, seen, done=False)
        case MoveState.AVAILABLE:
            return MoveStage.MANAGE, Act.MANAGE
        case MoveState.MANAGEABLE:
            return _cleaned(seen, done=False)
        case MoveState.BETWEEN:
            return MoveStage.MANAGE, Act.WAIT
        case MoveState.FAILED | MoveState.TAKEN | MoveState.GONE:
            return MoveStage.MANAGE, Act.LEFT


def _cleaned(seen: NodeSighting, *, done: bool) -> tuple[MoveStage, Act]:
    match seen.standing:
        case MoveState.MANAGEABLE if done or seen.holds is Holds.AFTER:
            return _provided(seen, done=False)
        case MoveState.MANAGEABLE if seen.claimed:
            return _returned(seen, done=False)
        case MoveState.MANAGEABLE:
            return MoveStage.CLEAN, Act.LEFT if seen.maintenance else Act.CLEAN
        case MoveState.BETWEEN:
            return MoveStage.CLEAN, Act.WAIT
        case MoveState.FAILED:
            return MoveStage.CLEAN, Act.FAILED
        case MoveState.AVAILABLE:
            return following(MoveStage.RESTORE, seen, done=False)
        case MoveState.TAKEN | MoveState.GONE:
            return MoveStage.CLEAN, Act.LEFT


def _provided(seen: NodeSighting, *, done: bool) -> tuple[MoveStage, Act]:
    match seen.standing:
        case MoveState.MANAGEABLE if done:
            return MoveStage.PROVIDE, Act.WAIT
        case MoveState.MANAGEABLE:
            return MoveStage.PROVIDE, Act.LEFT if seen.maintenance else Act.PROVIDE
        case MoveState.BETWEEN:
            return MoveStage.PROVIDE, Act.WAIT
        case MoveState.FAILED:
            return MoveStage.PROVIDE, Act.FAILED
        case MoveState.AVAILABLE | MoveState.TAKEN:
            return _verified(seen)
        case MoveState.GONE:
            return MoveStage.PROVIDE, Act.LEFT


def _verified(seen: NodeSighting) -> tuple[MoveStage, Act]:
    match seen.standing:
        case MoveState.AVAILABLE if seen.holds is Holds.AFTER and (seen.offered or seen.claimed):
            return MoveStage.VERIFY, Act.DONE
        case MoveState.AVAILABLE:
            return MoveStage.VERIFY, Act.WAIT
        case MoveState.TAKEN if seen.holds is Holds.AFTER:
            return MoveStage.VERIFY, Act.DONE
        case MoveState.FAILED:
            return MoveStage.VERIFY, Act.FAILED
        case MoveState.TAKEN | MoveState.MANAGEABLE | MoveState.BETWEEN | MoveState.GONE:
            return MoveStage.VERIFY, Act.LEFT


def _returned(seen: NodeSighting, *, done: bool) -> tuple[MoveStage, Act]:
    match seen.standing:
        case MoveState.MANAGEABLE if done:
            return MoveStage.RETURN, Act.WAIT
        case MoveState.MANAGEABLE:
            return MoveStage.RETURN, Act.LEFT if seen.maintenance else Act.PROVIDE
        case MoveState.BETWEEN:
            return MoveStage.RETURN, Act.WAIT
        case MoveState.FAILED:
            return MoveStage.RETURN, Act.FAILED
        case MoveState.AVAILABLE:
            return following(MoveStage.RESTORE, seen, done=False)
        case MoveState.TAKEN | MoveState.GONE:
            return MoveStage.RETURN, Act.LEFT

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


class Stage(StrEnum):
    """The stage of a move; see the module docstring."""

    WITHDRAW = auto()
    MANAGE = auto()
    CLEAN = auto()
    PROVIDE = auto()
    VERIFY = auto()
    RETURN = auto()
    RESTORE = auto()


class Standing(StrEnum):
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
class Seen:
    """What is observed of a machine.

    :ivar claimed: somebody has claimed the machine, or anything of it.
    :ivar offered: the changed regions offer in placement what they hold.
    :ivar maintenance: the node is in maintenance.
    :ivar kept: its conductor keeps it withdrawn from placement, and offers it again itself after it has read or cleaned it.
    """

    standing: Standing
    holds: Holds
    claimed: bool = False
    offered: bool = False
    maintenance: bool = False
    kept: bool = False


def following(stage: Stage, seen: Seen, *, done: bool) -> tuple[Stage, Act]:
    """Return the stage to store, and what to do then.

    :param done: this process has done the work of the stage, and no error came back. A withdrawal that was refused because of a
        claim ends the move; the caller decides that.
    """
    match stage:
        case Stage.WITHDRAW:
            if done:
                return following(Stage.MANAGE, seen, done=False)
            if seen.standing is not Standing.AVAILABLE or seen.maintenance or seen.claimed:
                return following(Stage.RESTORE, seen, done=False)
            return stage, Act.WITHDRAW
        case Stage.MANAGE:
            return _managed(seen, done=done)
        case Stage.CLEAN:
            return _cleaned(seen, done=done)
        case Stage.PROVIDE:
            return _provided(seen, done=done)
        case Stage.VERIFY:
            return _verified(seen)
        case Stage.RETURN:
            return _returned(seen, done=done)
        case Stage.RESTORE:
            # If it does not hold what it offered before, the next inspection of the node offers what it holds.
            back = seen.standing is Standing.AVAILABLE and seen.holds is Holds.BEFORE and not seen.kept and not done
            # Nothing of a machine in maintenance is available in placement.
            return stage, Act.CANCELLED if not back else Act.WAIT if seen.maintenance else Act.PUT_BACK


def resumed(stage: Stage, seen: Seen) -> Stage:
    """Return the stage from which a move is resumed that another process has left."""
    if stage in (Stage.WITHDRAW, Stage.MANAGE) and seen.standing is Standing.AVAILABLE:
        return Stage.RESTORE
    return stage


def _managed(seen: Seen, *, done: bool) -> tuple[Stage, Act]:
    match seen.standing:
        case Standing.AVAILABLE if done:
            return Stage.MANAGE, Act.WAIT
        case Standing.AVAILABLE if seen.claimed or seen.maintenance:
            return following(Stage.RESTORE, seen, done=False)
        case Standing.AVAILABLE:
            return Stage.MANAGE, Act.MANAGE
        case Standing.MANAGEABLE:
            return _cleaned(seen, done=False)
        case Standing.BETWEEN:
            return Stage.MANAGE, Act.WAIT
        case Standing.FAILED | Standing.TAKEN | Standing.GONE:
            return Stage.MANAGE, Act.LEFT


def _cleaned(seen: Seen, *, done: bool) -> tuple[Stage, Act]:
    match seen.standing:
        case Standing.MANAGEABLE if done or seen.holds is Holds.AFTER:
            return _provided(seen, done=False)
        case Standing.MANAGEABLE if seen.claimed:
            return _returned(seen, done=False)
        case Standing.MANAGEABLE:
            return Stage.CLEAN, Act.LEFT if seen.maintenance else Act.CLEAN
        case Standing.BETWEEN:
            return Stage.CLEAN, Act.WAIT
        case Standing.FAILED:
            return Stage.CLEAN, Act.FAILED
        case Standing.AVAILABLE:
            return following(Stage.RESTORE, seen, done=False)
        case Standing.TAKEN | Standing.GONE:
            return Stage.CLEAN, Act.LEFT


def _provided(seen: Seen, *, done: bool) -> tuple[Stage, Act]:
    match seen.standing:
        case Standing.MANAGEABLE if done:
            return Stage.PROVIDE, Act.WAIT
        case Standing.MANAGEABLE:
            return Stage.PROVIDE, Act.LEFT if seen.maintenance else Act.PROVIDE
        case Standing.BETWEEN:
            return Stage.PROVIDE, Act.WAIT
        case Standing.FAILED:
            return Stage.PROVIDE, Act.FAILED
        case Standing.AVAILABLE | Standing.TAKEN:
            return _verified(seen)
        case Standing.GONE:
            return Stage.PROVIDE, Act.LEFT


def _verified(seen: Seen) -> tuple[Stage, Act]:
    match seen.standing:
        case Standing.AVAILABLE if seen.holds is Holds.AFTER and (seen.offered or seen.claimed):
            return Stage.VERIFY, Act.DONE
        case Standing.AVAILABLE:
            return Stage.VERIFY, Act.WAIT
        case Standing.TAKEN if seen.holds is Holds.AFTER:
            return Stage.VERIFY, Act.DONE
        case Standing.FAILED:
            return Stage.VERIFY, Act.FAILED
        case Standing.TAKEN | Standing.MANAGEABLE | Standing.BETWEEN | Standing.GONE:
            return Stage.VERIFY, Act.LEFT


def _returned(seen: Seen, *, done: bool) -> tuple[Stage, Act]:
    match seen.standing:
        case Standing.MANAGEABLE if done:
            return Stage.RETURN, Act.WAIT
        case Standing.MANAGEABLE:
            return Stage.RETURN, Act.LEFT if seen.maintenance else Act.PROVIDE
        case Standing.BETWEEN:
            return Stage.RETURN, Act.WAIT
        case Standing.FAILED:
            return Stage.RETURN, Act.FAILED
        case Standing.AVAILABLE:
            return following(Stage.RESTORE, seen, done=False)
        case Standing.TAKEN | Standing.GONE:
            return Stage.RETURN, Act.LEFT

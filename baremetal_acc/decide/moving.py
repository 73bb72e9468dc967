# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What comes next when a machine is taken off the shelf to have its regions programmed? By what is seen of it, each time anew.

::

    WITHDRAW  take all that it offers out of placement, all or nothing    claimed: CANCELLED, nothing was changed
    MANAGE    have Ironic take it out of use                              claimed: RESTORE
    CLEAN     one cleaning with all programs                              claimed: RETURN; failed: FAILED, left alone
    PROVIDE   have Ironic put it in use again                             failed: FAILED, left alone
    VERIFY    wait until what it offers is what was asked for             DONE

    RETURN    have Ironic put it in use again, as it was                  then RESTORE
    RESTORE   put back what was offered, exactly as it was                CANCELLED; in maintenance: when that is over

A stage is stored before anything of it is done. A process that takes a move up again, after another one was killed, knows the
stage and not whether anything of it was done: what is seen says so. What Ironic still has in use goes back, all else goes on.
"""

from dataclasses import dataclass
from enum import StrEnum, auto


class Stage(StrEnum):
    """How far a move has come."""

    WITHDRAW = auto()
    MANAGE = auto()
    CLEAN = auto()
    PROVIDE = auto()
    VERIFY = auto()
    RETURN = auto()
    RESTORE = auto()


class Standing(StrEnum):
    """How a node stands in Ironic.

    ``BETWEEN``: on its way to manageable or available. ``FAILED``: its cleaning has failed. ``TAKEN``: somebody else has it.
    """

    AVAILABLE = auto()
    MANAGEABLE = auto()
    BETWEEN = auto()
    FAILED = auto()
    TAKEN = auto()
    GONE = auto()


class Holds(StrEnum):
    """What the regions that are to be changed were last verified to hold: as before, as asked for, or neither."""

    BEFORE = auto()
    AFTER = auto()
    OTHER = auto()


class Act(StrEnum):
    """What to do now. The last four end the move.

    ``LEFT``: somebody else has moved the machine, and it is his.
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
        """Nothing comes after it."""
        return self in (Act.DONE, Act.CANCELLED, Act.FAILED, Act.LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is seen of a machine.

    :ivar claimed: somebody has it, or anything of it.
    :ivar offered: the regions that are to be changed offer what they hold.
    :ivar maintenance: somebody works on it.
    :ivar kept: its conductor keeps it off the shelf, and offers it itself when it has looked at it, or cleaned it.
    """

    standing: Standing
    holds: Holds
    claimed: bool = False
    offered: bool = False
    maintenance: bool = False
    kept: bool = False


def following(stage: Stage, seen: Seen, *, done: bool) -> tuple[Stage, Act]:
    """The stage to store, and what to do then.

    :param done: this process has done what the stage is for, and no error came back. A withdrawal that was refused because of a
        claim ends the move; that is for who asked.
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
            # What it holds is not what it offered: whoever looks at it next offers what it holds.
            back = seen.standing is Standing.AVAILABLE and seen.holds is Holds.BEFORE and not seen.kept and not done
            # Nothing of a machine in maintenance is on offer.
            return stage, Act.CANCELLED if not back else Act.WAIT if seen.maintenance else Act.PUT_BACK


def resumed(stage: Stage, seen: Seen) -> Stage:
    """The stage with which a move goes on that another process has left."""
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

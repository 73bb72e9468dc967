# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs that meet each habit of the emulator's zoo, alone, and how they end.

A job locks two GPUs, or also writes firmware: that of their roots of trust, which is in force at once, or their own, which
is in force after a restart. Or it unlocks what was locked, or programs a slot of an FPGA. What is asked of every job,
whatever the BMC is like, is asked of the machine and not of the job: it ends, no image goes to a card that is being written,
no power is cut under a write, no host runs beside an open lock, no session is left. ``REFUSED`` lists the habits with which a
job rightly does not end as done.
"""

import itertools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import requests

from baremetal_acc.emulator.habit import HABITS
from baremetal_acc.model.job import Done, Failed
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning.plan import Part
from baremetal_acc.policy.baseline_rules import Baseline, Match, Rule
from tests.faults.cases import Ending
from tests.faults.rig import CARDS, EROT, GPU, NEW, OLD, SLOT, Rig
from tests.faults.slots import FUNCTION, programmed, pushes

SESSIONS = '/redfish/v1/SessionService/Sessions'


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a job does.

    :ivar writes: whether it writes firmware or a function; ``hold``: whether it holds the host off for a tenant meanwhile.
    :ivar unlocks: whether it opens what a job before it has locked.
    """

    what: str = EROT
    writes: bool = True
    hold: bool = True
    unlocks: bool = False


LOCK, UNLOCK, FLASH, PROGRAM = 'lock', 'unlock', 'flash', 'program'
RESTART, FREE = 'flash-and-restart', 'flash-and-restart-not-held'
WORK = {
    LOCK: Work(writes=False),
    UNLOCK: Work(writes=False, unlocks=True),
    PROGRAM: Work(what=SLOT),
    FLASH: Work(),
    RESTART: Work(what=GPU),
    FREE: Work(what=GPU, hold=False),
}

# A BMC with no session free is used where the operator has allowed Basic authentication.
ADDRESS: dict[str, Any] = {'basic_auth': True}

MANY = (
    'location-elsewhere',
    'weak-etags-match-strong',
    'patch-later',
    'trailing-slash',
    'one-session',
    'no-restart',
    'version-null-after-update',
    'background-copy',
)
"""Habits that a BMC can have at once."""

End = tuple[Ending, str]
"""How a job ends, and words of its error."""

_WAITS: End = (Ending.UNTOUCHED, 'a restart of the host, which the catalogue does not plan')
_LOCKED_OUT: End = (Ending.UNTOUCHED, "which also blocks the BMC's own writes")
_HIDDEN: End = (Ending.UNTOUCHED, 'the BMC no longer shows the card')
_POWERED_ON: End = (Ending.HELD, 'somebody else may have written')

_FOR_RESTART = ('update-waits-for-restart', 'update-scheduled-for-restart', 'update-waits-unsaid')
_FOR_START = ('update-waits-unasked', 'update-waits-later')

REFUSED: dict[tuple[str, str], End] = {
    # The catalogue says that the image needs no restart, and nobody restarts a host for the asking of a BMC alone.
    **{(habit, work): _WAITS for habit in _FOR_RESTART for work in (FLASH, PROGRAM)},
    # WriteProtected is closed before the restart, since the host must not run beside an open lock.
    **{(habit, work): _LOCKED_OUT for habit in _FOR_RESTART for work in (RESTART, FREE)},
    # A host that is held off hides its cards: nothing can be changed there, and no lock be proven.
    **{('cards-hidden-while-off', work): _HIDDEN for work in (UNLOCK, FLASH, RESTART, PROGRAM)},
    # While the locks were open the host ran, of its own accord.
    **{('powers-host-on', work): _POWERED_ON for work in (FLASH, RESTART, PROGRAM)},
}
"""Jobs that cannot be done with a BMC like that."""

TELLS_NOTHING = ('no-task-updating', 'no-task-silent', 'monitor-only', 'monitor-vanishes')
"""Habits with which no task says what an update waits for."""


@pytest.mark.parametrize('work', WORK)
@pytest.mark.parametrize('habit', HABITS)
def test_a_job_that_meets_a_habit_ends(habit: str, work: str, rig: Callable[..., Rig]) -> None:
    """As done where the table says nothing else."""
    ending, says = REFUSED.get((habit, work), (Ending.DONE, ''))
    found = begun(rig, (habit,), WORK[work])
    found.turn()
    judge(found, unlocks=WORK[work].unlocks)
    assert is_ended(found, WORK[work]) is ending, found.reasons
    assert says in found.reasons


@pytest.mark.parametrize('work', WORK)
@pytest.mark.parametrize('told', ['monitor-only', 'no-task-updating'])
def test_a_job_that_meets_many_habits_at_once_ends(told: str, work: str, rig: Callable[..., Rig]) -> None:
    """As with the one of them that says how an update is told."""
    ending, _ = REFUSED.get((told, work), (Ending.DONE, ''))
    found = begun(rig, (told, *MANY), WORK[work])
    found.turn()
    judge(found, unlocks=WORK[work].unlocks)
    assert is_ended(found, WORK[work]) is ending, found.reasons


if os.environ.get('BAREMETAL_ACC_ZOO') == 'pairs':

    @pytest.mark.parametrize('work', WORK)
    @pytest.mark.parametrize('pair', itertools.combinations(HABITS, 2), ids='+'.join)
    def test_a_job_that_meets_two_habits_at_once_ends(pair: tuple[str, str], work: str, rig: Callable[..., Rig]) -> None:
        """As with one of them: as done where it is done with each, and nothing quarantines a card that did not before."""
        found = begun(rig, pair, WORK[work])
        found.turn()
        judge(found, unlocks=WORK[work].unlocks)
        alone = {REFUSED.get((habit, work), (Ending.DONE, ''))[0] for habit in pair}
        if pair[0] in TELLS_NOTHING and pair[1] in (*_FOR_RESTART, *_FOR_START):
            alone |= {Ending.UNKNOWN}  # an update that waits, and of which nothing says so
        ending = is_ended(found, WORK[work])
        assert ending in alone, found.reasons


def begun(rig: Callable[..., Rig], habits: tuple[str, ...], work: Work) -> Rig:
    """A rig whose machine has the habits, and whose job has begun."""
    address = ADDRESS if 'no-session' in habits else {}
    found = rig(what=work.what, hold=work.hold, machine={'habits': habits}, address=address)
    if not work.writes:
        found.tools = replace(found.tools, baseline=found.baseline(work.what, firmware=()))
    assert () == found.begin()
    if work.unlocks:
        assert isinstance(found.turn(), Done), found.reasons
        assert () == found.begin(parts=frozenset({Part.UNLOCK}))
        # What is unlocked on purpose is not judged by what the rules want closed.
        found.tools = replace(found.tools, baseline=Baseline(rules=(Rule(name='none', match=Match(), block=frozenset()),)))
    return found


def judge(rig: Rig, *, unlocks: bool = False) -> None:
    """What has to hold however the job ends. What unlocks leaves the host off, as its plan says."""
    assert rig.job.ended
    beside = [(e['path'], e['overlaps']) for e in rig.machine.log() if e['overlaps'] and e['received_bytes']]
    assert [] == beside, 'an image went to a card that was being written'
    truth = rig.machine.truth()
    assert [] == truth['cut_writes'], 'power changed under a card that was being written'
    assert [] == rig.was_open, 'the host ran while a way to a card was open'
    is_off = truth['systems']['host']['power'] == 'Off'
    assert is_off or not rig.open_locks(truth)
    assert is_off is (unlocks or 'powered off' in rig.reasons), 'the host is in a state that nobody told'
    assert 0 == sessions(rig), 'a session is left'


def sessions(rig: Rig) -> int:
    """How many sessions the BMC has."""
    bmc = rig.machine.bmcs['host']
    answer = requests.get(bmc.address + SESSIONS, auth=(bmc.username, bmc.password), timeout=5)
    return int(answer.json()['Members@odata.count'])


def is_ended(rig: Rig, work: Work) -> Ending:
    """How the job has ended."""
    if isinstance(rig.outcome, Done):
        assert is_done(rig, work)
        return Ending.DONE
    assert isinstance(rig.outcome, Failed)
    if rig.outcome.quarantined:
        return Ending.QUARANTINED
    if not pushes(rig) or not rig.outcome.wrote:
        return Ending.UNTOUCHED
    return Ending.UNKNOWN if 'is held: whether the write of' in rig.reasons else Ending.HELD


def is_done(rig: Rig, work: Work) -> bool:
    """Whether the machine is what the job was to make of it."""
    opened = rig.open_locks()
    if work.what == SLOT:
        return programmed(rig) == FUNCTION and not opened
    runs = {rig.version(card) for card in range(CARDS[work.what])}
    return runs == {(NEW if work.writes else OLD)[work.what]} and bool(opened) is work.unlocks


def test_every_row_is_of_a_habit_and_a_job_that_there_are() -> None:
    """And none quarantines a card."""
    assert set(REFUSED) <= {(habit, work) for habit in HABITS for work in WORK}
    assert Ending.QUARANTINED not in {ending for ending, _ in REFUSED.values()}


def test_the_page_lists_every_habit_and_those_that_do_not_end_as_done(tree: Path) -> None:
    """Who adds one says what a job does with it."""
    page = (tree / 'doc' / 'source' / 'reference' / 'habits.rst').read_text()
    rows = dict(re.findall(r'\* - ``([a-z-]+)``\n(.*?)(?=\n   \* -|\n\n)', page, re.DOTALL))
    assert list(HABITS) == list(rows)
    assert {name: one.source for name, one in HABITS.items()} == {
        name: ' '.join(rest.partition('     - ')[2].partition('\n     - ')[0].split()) for name, rest in rows.items()
    }
    ends = {name: rest.rpartition('     - ')[2] for name, rest in rows.items()}
    # One with no session free is used with the option that allows Basic authentication.
    others = {habit for habit, _ in REFUSED} | {'no-session'}
    assert others == {name for name, end in ends.items() if end != 'done'}


@pytest.mark.parametrize('habit', ['update-waits-for-restart', 'update-scheduled-for-restart'])
@pytest.mark.parametrize('hold', [True, False])
def test_an_update_that_waits_for_a_restart_is_restarted(habit: str, hold: bool, rig: Callable[..., Rig]) -> None:
    """The catalogue says that the image needs a power cycle, and no lock is on what is written."""
    found = rig(what=EROT, hold=hold, machine={'habits': (habit,)})
    for image in found.catalogue:
        found.offer(replace(image, reset=ResetKind.POWER_CYCLE))
    assert () == found.begin()
    found.turn()
    judge(found)
    assert isinstance(found.outcome, Done), found.reasons

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Inspections, locks and uploads end well at a BMC that answers IPMI as it likes. ``make soak-hostile-ipmi`` does more."""

import resource
import time

import pytest

from baremetal_acc.bmc.ipmi import discovery
from baremetal_acc.emulator.ipmi.controller import SYSTEM
from baremetal_acc.model.lock import LockState
from tests.hostile import ipmi
from tests.hostile.bmc import seeded

BLOCKS, RUNS = 4, 100
MOST_MEMORY = 128 * 1024
"""KiB that it may add to a process."""

MOST_SECONDS = 60.0
"""Far more than any of it takes; what hangs would take it all."""


@pytest.mark.parametrize('block', range(BLOCKS))
def test_everything_done_to_a_hostile_bmc_ends_well(block):
    """Looks, the lock, uploads: in a result that is true, or in an error of ours, after so many commands."""
    changed = 0
    for number in range(block * RUNS, (block + 1) * RUNS):
        ran = ipmi.run(0, number)
        again = f'.venv/bin/python -m tests.hostile.ipmi --seed 0 --only {number}'
        assert not ran.wrong, '\n'.join([*ran.wrong, f'again: {again}'])
        changed += sum(ran.hostile.used.values())
    assert changed > RUNS


@pytest.mark.parametrize('kind', ipmi.Kind)
def test_a_look_ends_well_whatever_single_thing_is_done_to_every_answer(kind):
    """Each kind of change alone, to every answer or to every other one, of every command or of some."""
    # What is so from now on is soon so for every answer, and takes the driver to its limit of commands.
    rates = (1.0,) if kind is ipmi.Kind.FOREVER else (1.0, 0.5)
    for number, (rate, aim) in enumerate((rate, aim) for rate in rates for aim in ipmi.AIMS[1:]):
        hostile = ipmi.Hostile(seeded('single', number), only=(kind,), rate=rate)
        hostile.aim = frozenset(aim)
        ran = ipmi.look(1, number, hostile)
        assert [] == ran.wrong, number


def test_an_honest_bmc_gets_what_is_asked_for():
    """What is held against hostile runs is not held against these, and they come to something."""
    for number, run in enumerate((ipmi.look, ipmi.wall, ipmi.upload) * 4):
        ran = run(2, number, ipmi.Hostile(seeded(2), rate=0.0))
        assert [] == ran.wrong
        assert ran.ended == {'look': 'look', 'wall': 'written', 'upload': 'SUCCEEDED'}[ran.name]


def test_who_judges_sees_a_lock_that_is_not_closed_and_a_device_that_is_not_there():
    """A judge that never says no judges nothing."""
    box = ipmi.Box()
    ran = ipmi.Ran(name='', hostile=box.hostile)
    ipmi.locked(ran, box, LockState.LOCKED_REPORTED, None)
    assert 'locked, and open are' in ran.wrong.pop()
    box.shut()
    ipmi.locked(ran, box, LockState.LOCKED_REPORTED, None)
    assert [] == ran.wrong
    box.wall.disabled[SYSTEM].pop()
    ipmi.locked(ran, box, LockState.LOCKED_REPORTED, None)
    assert 'locked, and open are' in ran.wrong.pop()
    ipmi.locked(ran, box, LockState.PARTIAL, 'no record')
    assert 'nobody could open again' in ran.wrong.pop()


def test_a_bmc_that_has_always_more_to_tell_is_asked_no_more_at_last():
    """Its records, controllers, memories and accounts have no end: commands, memory and time have."""
    box = ipmi.Endless()
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = ipmi.endless(box)
    assert any(f'the limit of {discovery.MOST_COMMANDS} commands was reached' in gap.reason and gap.hides for gap in seen.gaps)
    assert box.asked < 2 * discovery.MOST_COMMANDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY
    assert time.monotonic() - began < MOST_SECONDS

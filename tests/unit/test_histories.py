# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Random histories of a job: whatever BMCs, cards, power and shell do, it ends, writes nothing twice, claims nothing unproven.

A history is a machine, what goes wrong in it and when, where the shell dies, how time passes. Hypothesis chooses some and makes
those small that fail; many more are chosen by a seed each, which is quick. The clock is the world's own. ``HISTORIES=10000``
plays that many by seed, and a tenth of that by Hypothesis (``make soak``); ``HISTORIES_SEED`` names the first seed, else the
day does. Without it a few hundred are played, always the same ones.
"""

import logging
import os
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from baremetal_acc import execution
from baremetal_acc.model.action import Flash, ResetPurpose
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Done, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, Ref
from tests.unit.execution.world import AWAY, DPU, LOCKS, PATIENCE, PUSHES, RESETS, TASKS, TURNS, Card, Foreign, World
from tests.unit.planning import values as v

SLACK = 25 * PATIENCE.poll
"""For the ticks themselves: each waits for a poll at most."""

COUNT = int(os.environ.get('HISTORIES', '300'))

FIRST = int(os.environ.get('HISTORIES_SEED') or (f'{datetime.now(UTC):%Y%m%d}0000' if 'HISTORIES' in os.environ else '0'))

SECONDS = st.integers(1, 900).map(lambda n: timedelta(seconds=n))


class History(RuleBasedStateMachine):
    """One job on one machine, with what goes wrong."""

    @initialize(
        bmcs=st.lists(st.sampled_from([HOST, DPU]), min_size=1, max_size=3),
        parallel=st.integers(1, 3),
        hold=st.booleans(),
        protects_all=st.booleans(),
        closed=st.booleans(),
        reset_needed=st.booleans(),
        lock_needs=st.sampled_from([ResetKind.NONE, ResetKind.POWER_CYCLE]),
        has_restore=st.booleans(),
        turns=st.integers(0, 4),
        keeps=st.booleans(),
        tells=st.booleans(),
        off=st.booleans(),
        minutes=st.integers(20, 90),
    )
    def begin(self, bmcs, parallel, hold, closed, tells, off, minutes, **how):
        cards = [Card(number=n, bmc=bmc, closed=closed) for n, bmc in enumerate(bmcs)]
        self.world = World(cards=cards, parallel=parallel, **how)
        for system in self.world.systems.values():
            system.tells = tells
        if off:
            self.world.systems[HOST].power = PowerState.OFF
        self.powered_on_late = False
        self.job = self.world.job(hold=hold, timeout=timedelta(minutes=minutes))
        self.outcome = Wait(delay=timedelta(0), doing='')

    def running(self):
        return isinstance(self.outcome, Wait)

    @precondition(running)
    @rule(ticks=st.integers(1, 6))
    def turn(self, ticks):
        for _ in range(ticks):
            if isinstance(self.outcome, Wait):
                self.job, self.outcome = self.world.turn(self.job)

    @precondition(running)
    @rule(time=SECONDS)
    def time_passes(self, time):
        if self.world.now + time < self.job.deadline:
            self.world.go_on(time)

    @precondition(running)
    @rule(after=st.integers(0, 12), stored=st.booleans())
    def shell_dies(self, after, stored):
        """Right after it has stored what it is about to do, or right before."""
        self.world.crash_in, self.world.crash_stored = after, stored

    @precondition(running)
    @rule(how=st.sampled_from(PUSHES))
    def next_push(self, how):
        self.world.next_push.append(how)

    @precondition(running)
    @rule(how=st.sampled_from(TURNS))
    def next_turn(self, how):
        self.world.next_turn.append(how)

    @precondition(running)
    @rule(how=st.sampled_from(TASKS))
    def next_task(self, how):
        self.world.next_task.append(how)

    @precondition(running)
    @rule(how=st.sampled_from(RESETS))
    def next_reset(self, how):
        self.world.next_reset.append(how)

    @precondition(running)
    @rule(how=st.sampled_from(LOCKS))
    def next_lock(self, how):
        self.world.next_lock.append(how)

    @precondition(running)
    @rule(bmc=st.sampled_from([HOST, DPU]), how=st.sampled_from(sorted(AWAY)), time=SECONDS)
    def bmc_is_away(self, bmc, how, time):
        self.world.away[bmc] = (how, self.world.now + time)

    @precondition(running)
    @rule(bmc=st.sampled_from([HOST, DPU]), how=st.sampled_from(sorted(AWAY)))
    def bmc_dies(self, bmc, how):
        """For good."""
        self.world.away[bmc] = (how, self.world.now + timedelta(days=1))

    @precondition(running)
    @rule(bmc=st.sampled_from([HOST, DPU]), time=SECONDS)
    def somebody_elses_update(self, bmc, time):
        ref = Ref(bmc=bmc, uri=f'/tasks/of/others/{len(self.world.foreign)}')
        self.world.foreign.append(Foreign(ref=ref, began=self.world.now, ends=self.world.now + time))

    @precondition(running)
    @rule()
    def somebody_powers_the_host_on(self):
        self.world.power_on(HOST)
        # What comes after the last look, or after the host was seen off because of it, no job can know.
        self.powered_on_late = self.powered_on_late or self.job.verdict is not None

    @precondition(running)
    @rule(number=st.integers(0, 2))
    def card_vanishes(self, number):
        for card in self.world.cards[number : number + 1]:
            self.world.vanish(card, timedelta(minutes=2))

    @precondition(lambda self: not self.running())
    @rule()
    def nothing_happens(self):
        """It has ended."""

    def teardown(self):
        if not hasattr(self, 'job'):
            return
        world, job, outcome = self.world, self.job, self.outcome
        last = job.deadline + PATIENCE.reset + SLACK
        while isinstance(outcome, Wait):
            # No job without an end: by its deadline, and one reset after it.
            assert world.now <= last, job
            job, outcome = world.turn(job)
        assert [] == world.wrong
        self.judge(job, outcome)

    def judge(self, job, outcome):
        world = self.world
        restoring = [(i.action.accelerator, i.action.ref) for i in job.items if i.restoring and isinstance(i.action, Flash)]
        # What failed is put back once; no image goes twice to a card.
        assert len(restoring) == len(set(restoring))
        sent = [(p.card, p.image) for p in world.pushes]
        assert len(sent) == len(set(sent)), sent
        told = '\n'.join(job.reasons)
        for card in world.cards:
            quarantined = card.id in job.quarantined
            flash = next(i for i in job.items if isinstance(i.action, Flash) and i.action.accelerator == card.id)
            if isinstance(outcome, Done):
                # No success without the version, nothing else staged, and the lock.
                assert (v.NEW, None, True) == (card.version, card.staged, card.closed), world.log
                continue
            unseen = f'{card.id} is held' in told  # the card could not be read in the end, so that its name is all that is told
            held = unseen or f'({card.id}) is held' in told
            if held:
                # Whether its write has ended nobody could tell: nothing was sent to it after that, and it is no success.
                assert not quarantined, told
                writes = [i for i in job.items if isinstance(i.action, Flash) and i.action.accelerator == card.id]
                unsure = [i for i in writes if i.unsure]
                good = writes[-1].state in (ItemState.DONE, ItemState.STAGED)
                assert unsure == writes[-1:] or (unseen and good and unsure == []), told
            if card.touched and not quarantined and not held:
                # What was written has ended as it should, or what was there before is there again.
                good = flash.state in (ItemState.DONE, ItemState.STAGED)
                wanted = v.NEW if good and (card.id, card.item) not in restoring else v.OLD
                assert wanted == card.version, (world.log, told)
                assert card.staged in (None, wanted), (world.log, told)
                names = {f'GPU_{card.number}', card.name}  # an update may have given its item another name
                assert wanted == v.NEW or any(f'({card.id}): {name} is restored' in told for name in names), told
            if quarantined:
                assert any(card.id in r and 'is quarantined' in r for r in job.reasons), told
            if card.released and not card.closed:
                # What was opened and is not closed again is told.
                assert card.id in told or f'GPU_{card.number}, lock' in told, (world.log, told)
        if isinstance(outcome, Done):
            assert () == job.quarantined
            assert 'publish' == world.log[-1]
        else:
            assert job.reasons
            assert 'publish' != world.log[-1] or 'since the final inspection' in told
        held = any(getattr(i.action, 'purpose', None) is ResetPurpose.HOLD and i.state.begun for i in job.items)
        on = world.systems[HOST].power is PowerState.ON and not self.powered_on_late
        if held and on and (job.quarantined or any(c.released and not c.closed for c in world.cards)):
            # The host runs at a lock that we opened, or with a card that nobody may use, only where we could not help it.
            assert 'the host may run' in told or 'power off host' in told, (world.log, told)


def play(number):
    """The history of a seed."""
    r = random.Random(number)

    def seconds():
        return timedelta(seconds=r.randint(1, 900))

    history = History()
    history.begin(
        bmcs=[r.choice([HOST, DPU]) for _ in range(r.randint(1, 3))],
        parallel=r.randint(1, 3),
        hold=r.random() < 0.5,
        protects_all=r.random() < 0.5,
        closed=r.random() < 0.5,
        reset_needed=r.random() < 0.5,
        lock_needs=r.choice([ResetKind.NONE, ResetKind.POWER_CYCLE]),
        has_restore=r.random() < 0.7,
        turns=max(0, r.randint(-4, 4)),
        keeps=r.random() < 0.5,
        tells=r.random() < 0.7,
        off=r.random() < 0.3,
        minutes=r.randint(20, 90),
    )
    rules = [
        *3 * [lambda: history.turn(ticks=r.randint(1, 6))],
        lambda: history.time_passes(time=seconds()),
        lambda: history.shell_dies(after=r.randint(0, 12), stored=r.random() < 0.5),
        lambda: history.next_push(how=r.choice(PUSHES)),
        lambda: history.next_turn(how=r.choice(TURNS)),
        *2 * [lambda: history.next_task(how=r.choice(TASKS))],
        lambda: history.next_reset(how=r.choice(RESETS)),
        lambda: history.next_lock(how=r.choice(LOCKS)),
        lambda: r.random() < 0.3 and history.bmc_dies(bmc=r.choice([HOST, DPU]), how=r.choice(sorted(AWAY))),
        lambda: history.bmc_is_away(bmc=r.choice([HOST, DPU]), how=r.choice(sorted(AWAY)), time=seconds()),
        lambda: history.somebody_elses_update(bmc=r.choice([HOST, DPU]), time=seconds()),
        lambda: history.somebody_powers_the_host_on(),
        lambda: history.card_vanishes(number=r.randint(0, 2)),
    ]
    for _ in range(r.randint(1, 14)):
        if history.running():
            r.choice(rules)()
    history.teardown()
    return history


def ended_as(history):
    """How a history ended, in a word or two."""
    job, reasons = history.world.stored, ' '.join(history.world.stored.reasons)
    kinds = {
        'done': not reasons,
        'restored': 'is restored' in reasons,
        'restored at second': job.second and 'is restored' in reasons,
        'quarantined': bool(job.quarantined),
        'held': 'is held: whether' in reasons,
        'past the deadline': 'the deadline has passed' in reasons,
    }
    return [kind for kind, so in kinds.items() if so]


@pytest.fixture(autouse=True)
def silent(caplog):
    """What goes wrong on purpose is not logged."""
    caplog.set_level(logging.CRITICAL, execution.__name__)


def test_random_histories_end_and_claim_nothing_unproven():
    """No job without an end, no double write, no success without a version read back, no open lock without a word."""
    sys.stderr.write(f'{COUNT} histories, HISTORIES_SEED={FIRST}\n')
    kinds = Counter()
    for number in range(FIRST, FIRST + COUNT):
        try:
            kinds.update(ended_as(play(number)))
        except AssertionError as exc:
            exc.add_note(f'HISTORIES=1 HISTORIES_SEED={number}')
            raise
    sys.stderr.write(f'{dict(kinds)}\n')
    # The histories are worth playing: each of these ends is among them.
    assert COUNT < 100 or {'done', 'restored', 'restored at second', 'quarantined', 'held', 'past the deadline'} == set(kinds)


def test_histories_that_hypothesis_looks_for():
    """The same, and what fails is made small."""
    how = settings(
        max_examples=max(1, COUNT // 10) if 'HISTORIES' in os.environ else 60,
        stateful_step_count=14,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(seed(FIRST)(History), settings=how)

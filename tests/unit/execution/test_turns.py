# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image that is sent in turns: nothing is lost in between, nothing is brought in force twice, and none goes on for ever."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import ImageMissing
from baremetal_acc.model.action import Flash
from baremetal_acc.model.interference import InterferenceKind
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Done, Failed, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning import interference
from tests.unit.execution.world import PATIENCE, Card, World
from tests.unit.planning import values as v

DAY = timedelta(days=1)


def world(**how):
    """One card that takes images in three turns."""
    return World(cards=[Card(number=0, bmc=HOST)], **{'turns': 3, 'reset_needed': False, **how})


def to_its_end(machine, job, ticks=400):
    """The job and how it ended; whatever it does, it does not go on for ever."""
    for _ in range(ticks):
        job, outcome = machine.turn(job)
        if not isinstance(outcome, Wait):
            assert [] == machine.wrong
            return job, outcome
    raise AssertionError(job)


def played(machine, *, hold=False, timeout=timedelta(hours=2)):
    """A job of a world, to its end."""
    return to_its_end(machine, machine.job(hold=hold, timeout=timeout))


def up_to(machine, job, percent):
    """The job when so much of the image has arrived."""
    while True:
        job, _ = machine.turn(job)
        item = next(i for i in job.items if isinstance(i.action, Flash))
        if item.progress is not None and item.percent == percent:
            return job


def images(machine):
    """Which images were brought in force, in order."""
    return [push.image for push in machine.pushes]


def test_an_image_is_sent_turn_by_turn_and_brought_in_force_once():
    """Three turns, and one that activates; no time is lost between them."""
    machine = world()
    job = up_to(machine, machine.job(hold=True, timeout=timedelta(hours=2)), 0)
    begun = machine.now
    job = up_to(machine, job, 100)
    assert timedelta(seconds=5) > machine.now - begun
    assert [] == images(machine)
    _, outcome = to_its_end(machine, job)
    assert isinstance(outcome, Done)
    assert (['gpu-new'], 4, v.NEW) == (images(machine), machine.uploaded, machine.cards[0].version)


@pytest.mark.parametrize('stored', [True, False])
@pytest.mark.parametrize('saves', range(30))
def test_a_shell_that_dies_in_any_of_them_goes_on(saves, stored):
    """The image is begun anew or gone on with, and brought in force once."""
    machine = world()
    job = machine.job(hold=True, timeout=timedelta(hours=2))
    machine.crash_in, machine.crash_stored = saves, stored
    job, outcome = to_its_end(machine, job)
    # Who dies right before the first turn or the last one leaves what looks as if it had been lost: then it is put back.
    expected = ['gpu-new'] if isinstance(outcome, Done) else ['gpu-old']
    assert (expected, ()) == (images(machine), job.quarantined), job.reasons
    assert machine.cards[0].version == (v.NEW if isinstance(outcome, Done) else v.OLD)


@pytest.mark.parametrize('how', ['silent', 'silent, arrived'])
def test_a_bmc_that_falls_silent_gets_the_image_from_the_beginning(how):
    """What has arrived of it is not known."""
    machine = world()
    machine.next_turn.extend(['ok', how])
    _, outcome = played(machine)
    assert isinstance(outcome, Done)
    assert (['gpu-new'], 6) == (images(machine), machine.uploaded)


def test_a_login_that_fails_before_a_turn_loses_nothing_of_the_image():
    """Before the first one, between two, and before the one that brings it in force, which is taken once, with a login."""
    machine = world()
    machine.next_push.append('apart')
    machine.next_turn.extend(['ok', 'apart', 'apart'])
    job = up_to(machine, machine.job(hold=True, timeout=timedelta(hours=2)), 100)
    assert ([], 5, []) == (images(machine), machine.uploaded, list(machine.next_turn))
    machine.next_push.extend(['apart', 'apart'])
    _, outcome = to_its_end(machine, job)
    assert isinstance(outcome, Done)
    assert (['gpu-new'], 8) == (images(machine), machine.uploaded)


def test_a_bmc_that_is_busy_is_asked_again():
    """The turn is taken later, where the last one ended."""
    machine = world()
    machine.next_turn.extend(['ok', 'busy', 'busy'])
    _, outcome = played(machine)
    assert isinstance(outcome, Done)
    assert (['gpu-new'], 6) == (images(machine), machine.uploaded)


@pytest.mark.parametrize(
    ('hows', 'limit', 'told'),
    [(['busy'], PATIENCE.stall, 'busy'), (['silent'], PATIENCE.reset, 'silent')],
)
def test_what_never_comes_further_is_given_up(hows, limit, told):
    """Not at the deadline, which is a day away, but when nothing has moved for as long as the patience lasts; then put back."""
    machine = world()
    job = up_to(machine, machine.job(hold=False, timeout=DAY), 33)
    since = machine.now
    machine.next_turn.extend(hows * 200)
    while not job.reasons:
        job, _ = machine.turn(job)
    assert limit < machine.now - since < limit + 3 * PATIENCE.poll
    assert told in job.reasons[0]
    machine.next_turn.clear()
    _, outcome = to_its_end(machine, job)
    assert ['gpu-old'] == images(machine)
    assert () == outcome.quarantined


@pytest.mark.parametrize('how', ['fails', 'garbage'])
def test_an_upload_that_fails_is_put_back(how):
    """It may have spoilt what it was to replace, though nothing of it was in force."""
    machine = world()
    machine.next_turn.extend(['ok', how])
    job, outcome = played(machine)
    assert ['gpu-old'] == images(machine)
    assert isinstance(outcome, Failed)
    assert outcome.quarantined == ()
    assert any('is restored to 1.0 (image gpu-old)' in reason for reason in job.reasons)


@pytest.mark.parametrize('how', ['cut, arrived', 'cut, lost'])
def test_a_last_turn_whose_answer_is_lost_is_not_taken_again(how):
    """Whether it is in force shows in the card."""
    machine = world()
    machine.next_push.append(how)
    _, outcome = played(machine)
    arrived = how == 'cut, arrived'
    assert isinstance(outcome, Done if arrived else Failed)
    assert (1 if arrived else 0) == images(machine).count('gpu-new') - (0 if arrived else 1)
    assert (v.NEW if arrived else v.OLD) == machine.cards[0].version


def test_a_host_that_wakes_ends_the_upload():
    """It was powered off for the time that a lock is open; whatever it runs must not reach what is being written."""
    machine = world()
    job = up_to(machine, machine.job(hold=True, timeout=DAY), 33)
    machine.power_on(HOST)
    job, _ = machine.turn(job)
    assert [InterferenceKind.HOST_ON] == [one.kind for one in job.interferences]
    assert [] == images(machine)


def test_a_host_that_wakes_after_the_turn_has_read_its_power_gets_no_further_piece_written(monkeypatch):
    """The power is read again right before each piece."""
    machine = world()
    job = up_to(machine, machine.job(hold=True, timeout=DAY), 33)
    arrived = [card.arrived for card in machine.cards]
    running = interference.running

    def wakes_then(*asked):
        found = running(*asked)
        machine.power_on(HOST)
        return found

    monkeypatch.setattr(interference, 'running', wakes_then)
    job, _ = machine.turn(job)
    assert ([1], [1]) == (arrived, [card.arrived for card in machine.cards])
    assert 'the host was powered off, but is on now' in ' '.join(job.reasons).lower()


def test_a_host_that_nobody_can_ask_about_is_no_host_that_is_off():
    """The turn waits until its BMC answers."""
    machine = world()
    job = up_to(machine, machine.job(hold=True, timeout=DAY), 33)
    machine.away[HOST] = ('refused', machine.now + timedelta(minutes=3))
    job, outcome = to_its_end(machine, job)
    assert isinstance(outcome, Done), job.reasons
    assert ['gpu-new'] == images(machine)


def test_an_image_that_was_changed_or_denied_in_between_goes_no_further():
    """What arrives must be what was checked, and what the catalogue still lets be written."""
    for change, told in (
        ({'denied': 'it bricks cards'}, 'the catalogue denies the image: it bricks cards'),
        ({'security_version': 6}, 'gpu-new'),
    ):
        machine = world()
        job = up_to(machine, machine.job(hold=False, timeout=DAY), 66)
        new, old = machine.tools.catalogue
        machine.tools = replace(machine.tools, catalogue=(replace(new, **change), old))
        machine.now += 2 * PATIENCE.settle
        job, _ = machine.turn(job)
        item = next(i for i in job.items if isinstance(i.action, Flash))
        assert ItemState.FAILED is item.state
        assert told in job.reasons[0]
        assert [] == images(machine)


def test_an_image_that_is_away_for_a_moment_is_waited_for():
    """Its folder, server or disk may be back; not for ever."""
    machine = world()
    job = up_to(machine, machine.job(hold=False, timeout=DAY), 66)
    store, away = machine.tools.images, AwayFor(machine, machine.now + PATIENCE.settle / 2)
    machine.tools = replace(machine.tools, images=away)
    _, outcome = to_its_end(machine, job)
    assert isinstance(outcome, Done)
    machine = world()
    job = up_to(machine, machine.job(hold=False, timeout=DAY), 66)
    machine.tools = replace(machine.tools, images=AwayFor(machine, machine.now + 3 * PATIENCE.settle))
    while not job.reasons:
        job, _ = machine.turn(job)
    assert 'its folder is away' in job.reasons[0]
    assert store is not away


class AwayFor:
    """Images whose folder is away until a time."""

    def __init__(self, machine, until):
        self.machine, self.store, self.until = machine, machine.tools.images, until

    def open(self, image):
        if self.machine.now < self.until:
            raise ImageMissing(image=image.name, what='its folder is away')
        return self.store.open(image)


@pytest.mark.parametrize(('keeps', 'turns'), [(True, 4 + 1), (False, 4 + 4)])
def test_a_card_that_has_kept_what_it_ran_goes_back_to_it(keeps, turns):
    """One turn in place of the whole image; a card that has kept nothing gets the image."""
    machine = world(keeps=keeps)
    machine.next_task.append('fails, broken')
    job, outcome = played(machine)
    assert (['gpu-new', 'gpu-old'], turns) == (images(machine), machine.uploaded)
    assert v.OLD == machine.cards[0].version
    assert (True, ()) == (isinstance(outcome, Failed), outcome.quarantined)
    assert any('is restored to 1.0 (image gpu-old)' in reason for reason in job.reasons)


def test_the_host_is_asked_about_only_where_it_is_held():
    """A job that holds no host goes on while it runs."""
    machine = world()
    assert PowerState.ON is machine.systems[HOST].power
    _, outcome = played(machine, hold=False)
    assert isinstance(outcome, Done)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A write has ended only when evidence says so: nothing is sent to a device, or put back into it, before that."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from baremetal_acc.errors import BmcAnswerInvalid, BmcRefusalReason, BmcRefused
from baremetal_acc.model.action import Flash
from baremetal_acc.model.inventory import ManagerReading, Objection, PowerState, TaskReading, TaskState, UpdateActivity
from baremetal_acc.model.job import Done, Failed
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref
from tests.unit.execution.bench import Bench, Connection, Machine, restorable
from tests.unit.planning import values as v

TASK = Ref(bmc='host', uri='/redfish/v1/TaskService/Tasks/9')
MONITOR = replace(TASK, uri='/redfish/v1/async/9')
JOB = replace(TASK, uri='/redfish/v1/JobService/Jobs/9')


@dataclass
class Slow(Machine):
    """A machine whose writes take their time, and whose BMC tells of them as it likes.

    :ivar takes: from the answer to the upload to the version; None: the write never ends.
    :ivar becomes_new: the write ends well; else the card runs on what it ran.
    :ivar shows: what the answer to the upload names: a task, a monitor, or nothing.
    :ivar idle: what the update service says while it writes nothing; ``writes`` while it does.
    :ivar listed: the task is among those of the BMC. ``listed_after``: so long after the answer to the upload.
    :ivar hidden: for so long after the write the item is not shown.
    :ivar item_says: the item says that it is being written.
    :ivar objects: the answer to the upload is a success, and says that the update has failed.
    :ivar moves: its task tells how far it is.
    :ivar awaits: the task goes on only once the host is restarted. ``works_before``: it runs for so long before it says so.
    """

    takes: timedelta | None = timedelta(minutes=7)
    becomes_new: bool = True
    shows: Ref | None = None
    idle: UpdateActivity = UpdateActivity.UNKNOWN
    writes: UpdateActivity = UpdateActivity.UNKNOWN
    listed: bool = False
    listed_after: timedelta = timedelta(0)
    hidden: timedelta = timedelta(0)
    awaits: bool = False
    moves: bool = False
    item_says: bool = False
    objects: bool = False
    works_before: timedelta = timedelta(0)
    says: str = ''
    writes_began: list = field(default_factory=list)
    image: str = ''
    clock: object = None

    @property
    def now(self) -> datetime:
        return self.clock.now

    @property
    def waits(self) -> bool:
        """What was sent waits for a restart of the host."""
        return bool(self.writes_began) and self.writes_began[-1] > self.now

    @property
    def writing(self) -> bool:
        if not self.writes_began or self.waits:
            return False
        return self.takes is None or self.now - self.writes_began[-1] < self.takes

    def go_on(self) -> None:
        if self.image and self.writes_began and not self.writing and not self.waits:
            if self.becomes_new:
                self.version = self.image
            self.image = ''


class Tells(Connection):
    """A BMC that says of its writes what the machine lets it say."""

    def __init__(self, machine):
        super().__init__(machine)
        machine.go_on()

    def push(self, target, upload):
        machine = self.machine
        assert not machine.writing, 'a second image went to a card that was being written'
        machine.log.append(f'push {upload.file}')
        machine.cancelled.clear()
        machine.image = v.NEW if upload.file == 'gpu-new' else v.OLD
        machine.writes_began.append(machine.now if not machine.awaits else machine.now + timedelta(days=1))
        against = None if not machine.objects else Objection(text='wrong key', fails=True)
        return against if machine.shows is None else replace(self._reading(machine.shows), objection=against)

    def _reading(self, ref):
        machine = self.machine
        opaque = ref == MONITOR
        if machine.waits:
            works = machine.now - (machine.writes_began[-1] - timedelta(days=1)) < machine.works_before
            raw = 'Running' if works else 'Pending'
            awaits = not works and not opaque
            return TaskReading(ref=ref, state=TaskState.ACTIVE, raw=raw, awaits_restart=awaits, opaque=opaque)
        if machine.says == 'never' and not machine.waits:
            return TaskReading(ref=ref, state=TaskState.GONE, raw='HTTP 404', opaque=True)
        if machine.writing:
            minutes = int((machine.now - machine.writes_began[-1]).total_seconds() // 60) if machine.moves else None
            return TaskReading(ref=ref, state=TaskState.ACTIVE, raw='x', percent=minutes, opaque=opaque)
        if machine.says == 'gone' or (opaque and machine.says == '404'):
            return TaskReading(ref=ref, state=TaskState.GONE, raw='HTTP 404', opaque=True)
        state = TaskState.SUCCEEDED if machine.becomes_new else TaskState.FAILED
        return TaskReading(ref=ref, state=state, raw='x', opaque=opaque)

    def cancel(self, ref):
        super().cancel(ref)
        self.machine.writes_began.clear()
        self.machine.image = ''

    def task(self, ref):
        if ref in self.machine.cancelled:
            return super().task(ref)
        if self.machine.says == 'unreadable':
            raise BmcAnswerInvalid(bmc='host', what='is no Task')
        return self._reading(ref)

    def active_tasks(self):
        machine = self.machine
        if not machine.listed or not machine.writes_began:
            return []
        reading = self._reading(TASK)
        began = machine.writes_began[-1] - (timedelta(days=1) if machine.waits else timedelta(0))
        shown = reading.state is TaskState.ACTIVE and machine.now - began >= machine.listed_after
        return [reading] if shown else []

    def update_activity(self):
        return self.machine.writes if self.machine.writing else self.machine.idle

    def component(self, ref):
        machine = self.machine
        ended = machine.writes_began and not machine.writing and not machine.waits
        if ended and machine.takes and machine.now - machine.writes_began[-1] < machine.takes + machine.hidden:
            raise BmcRefused(bmc='host', what='no such resource', reason=BmcRefusalReason.NOT_FOUND)
        return replace(super().component(ref), is_updating=machine.item_says and machine.writing)

    def look(self, now):
        found = super().look(now)
        ended = self.machine.writes_began and not self.machine.writing
        if ended and self.machine.takes and now - self.machine.writes_began[-1] < self.machine.takes + self.machine.hidden:
            return replace(found, accelerators=(v.gpu(firmware=(), locks=()),))
        return found

    def _restarted(self):
        if self.machine.waits:
            self.machine.writes_began[-1] = self.machine.now

    def reset(self, system, kind):
        assert not self.machine.writing, 'the host was reset under a write'
        super().reset(system, kind)
        self._restarted()

    def set_power(self, system, wanted):
        starts = wanted is PowerState.ON and self.machine.power is not PowerState.ON
        assert not self.machine.writing or not starts, 'the host was started under a write'
        super().set_power(system, wanted)
        if starts:
            self._restarted()


def bench_of(machine: Slow, reset: ResetKind = ResetKind.NONE) -> Bench:
    """A bench with that machine."""
    bench = restorable(machine, reset=reset)
    machine.clock = bench
    bench.tools = replace(bench.tools, connect=lambda _: Tells(machine))
    return bench


def ended(machine: Slow, reset: ResetKind = ResetKind.NONE, **how):
    """How a job on it ends."""
    bench = bench_of(machine, reset)
    job, outcome = bench.run(bench.job(timeout=timedelta(hours=3), **how), ticks=3000)
    return bench, job, outcome


def pushes(machine: Slow) -> list[str]:
    """The images that were sent."""
    return [entry.split()[1] for entry in machine.log if entry.startswith('push')]


EVERY_WAY = {
    'nothing': {},
    'the state of its service': {'writes': UpdateActivity.BUSY, 'idle': UpdateActivity.IDLE},
    'the state of its service, while it writes': {'writes': UpdateActivity.BUSY},
    'a task': {'shows': TASK},
    'a task that is forgotten': {'shows': TASK, 'says': 'gone', 'idle': UpdateActivity.TOLD_BY_TASKS},
    'a task that nobody can read': {'shows': TASK, 'says': 'unreadable'},
    'a task that is only listed': {'listed': True, 'idle': UpdateActivity.TOLD_BY_TASKS},
    'a monitor': {'shows': MONITOR},
    'the state of its item': {'shows': MONITOR, 'says': 'never', 'item_says': True, 'idle': UpdateActivity.TOLD_BY_TASKS},
    'a monitor that nobody ever sees': {'shows': MONITOR, 'says': 'never', 'idle': UpdateActivity.TOLD_BY_TASKS},
    'a monitor that vanishes': {'shows': MONITOR, 'says': '404'},
}


@pytest.mark.parametrize('way', EVERY_WAY)
@pytest.mark.parametrize('takes', [timedelta(seconds=20), timedelta(minutes=9)])
def test_a_write_that_ends_well_is_done_however_the_bmc_tells_of_it(way, takes):
    """Also one that takes longer than ``settle_timeout``, and of which nothing tells but the card."""
    machine = Slow(takes=takes, **EVERY_WAY[way])
    _, _, outcome = ended(machine)
    assert isinstance(outcome, Done), outcome
    assert (v.NEW, ['gpu-new']) == (machine.version, pushes(machine))


@pytest.mark.parametrize('way', EVERY_WAY)
def test_what_was_there_is_put_back_only_once_the_write_is_known_to_have_ended(way):
    """Where nothing tells that, the card is held: its host is off, nothing more was sent, and the reasons say so."""
    machine = Slow(takes=timedelta(minutes=4), becomes_new=False, **EVERY_WAY[way])
    bench, _, outcome = ended(machine, hold=True)
    assert isinstance(outcome, Failed)
    by_tasks = ('a task', 'a monitor', 'a task that is only listed', 'the state of its item')
    known = way in (*by_tasks, 'the state of its service')
    assert (['gpu-new', 'gpu-old'] if known else ['gpu-new']) == pushes(machine)
    held = [r for r in outcome.reasons if 'is held: whether the write of image gpu-new to GPU_0 has ended is not known' in r]
    assert (not known) is bool(held), outcome.reasons
    if not known:
        assert (PowerState.OFF, ()) == (machine.power, outcome.quarantined)
        assert timedelta(minutes=10) < bench.now - v.NOW, 'it is asked for stall_timeout'


@pytest.mark.parametrize('idle', UpdateActivity)
@pytest.mark.parametrize('hold', [False, True])
def test_an_upload_that_is_answered_with_a_failure_has_written_nothing(idle, hold):
    """Nothing is put back, nobody is quarantined, and the reason is the BMC's; where nothing says idle it is held."""
    machine = Slow(takes=timedelta(0), becomes_new=False, objects=True, idle=idle)
    if idle is UpdateActivity.BUSY and hold:
        return  # no power is cut under it
    bench, _, outcome = ended(machine, hold=hold)
    assert isinstance(outcome, Failed)
    assert (['gpu-new'], (), v.OLD) == (pushes(machine), outcome.quarantined, machine.version)
    assert any('wrong key' in r for r in outcome.reasons), outcome.reasons
    refused = idle in (UpdateActivity.IDLE, UpdateActivity.TOLD_BY_TASKS)
    assert (not refused) is outcome.wrote
    if refused:
        assert bench.now - v.NOW < timedelta(minutes=10)


@pytest.mark.parametrize('way', EVERY_WAY)
@pytest.mark.parametrize('takes', [timedelta(seconds=20), timedelta(minutes=9)])
def test_an_upload_that_is_answered_with_a_failure_and_written_is_done(way, takes):
    """Whatever the answer said, its task is followed, its service waited for, and its card asked."""
    machine = Slow(takes=takes, objects=True, **EVERY_WAY[way])
    _, _, outcome = ended(machine)
    assert isinstance(outcome, Done), outcome
    assert (v.NEW, ['gpu-new']) == (machine.version, pushes(machine))


@pytest.mark.parametrize('way', ['the state of its service', 'a task', 'a task that is only listed', 'a monitor'])
def test_a_write_that_goes_on_after_it_was_answered_with_a_failure_has_written(way):
    """What was seen to run is put back once it has ended."""
    machine = Slow(takes=timedelta(minutes=4), becomes_new=False, objects=True, **EVERY_WAY[way])
    _, _, outcome = ended(machine)
    assert isinstance(outcome, Failed)
    assert ['gpu-new', 'gpu-old'] == pushes(machine)
    assert any('wrong key' in r for r in outcome.reasons), outcome.reasons


def test_a_task_of_another_kind_at_the_place_of_ours_says_nothing_of_our_write():
    """The BMC was restarted, and counts its tasks from the beginning again: a dump that has failed is no failed update."""

    class Restarted(Tells):
        def _reading(self, ref):
            found = super()._reading(ref)
            theirs = TaskReading(ref=ref, state=TaskState.FAILED, raw='Exception', may_write=False)
            return found if self.machine.writing else theirs

    machine = Slow(shows=TASK, idle=UpdateActivity.TOLD_BY_TASKS)
    bench = bench_of(machine)
    bench.tools = replace(bench.tools, connect=lambda _: Restarted(machine))
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3)), ticks=3000)
    assert isinstance(outcome, Done), outcome
    assert (v.NEW, ['gpu-new']) == (machine.version, pushes(machine))


def test_a_write_that_never_ends_is_not_written_into():
    """Whatever tells of it, or does not."""
    for way in EVERY_WAY.values():
        machine = Slow(takes=None, **way)
        _, _, outcome = ended(machine)
        assert isinstance(outcome, Failed)
        assert (['gpu-new'], ()) == (pushes(machine), outcome.quarantined), way
        assert any('is held' in r for r in outcome.reasons), way


def test_an_item_that_is_not_shown_for_minutes_after_its_update_is_waited_for():
    """BMCs rebuild their inventory; and nothing is put back into an item without a version."""
    machine = Slow(takes=timedelta(minutes=2), hidden=timedelta(minutes=8), shows=TASK, says='gone')
    _, _, outcome = ended(machine)
    assert isinstance(outcome, Done), outcome
    assert ['gpu-new'] == pushes(machine)


def test_what_a_wait_without_evidence_waits_for_is_said_with_its_end():
    """In the item, which every shell shows."""
    machine = Slow(takes=timedelta(minutes=9))
    bench = bench_of(machine)
    job = bench.job(timeout=timedelta(hours=3))
    while bench.now - v.NOW < timedelta(minutes=3):
        job, outcome = bench.turn(job)
        bench.now += max(outcome.delay, timedelta(seconds=1))
    (said,) = {i.message for i in job.items if i.message and 'waiting for it until' in i.message}
    assert said.startswith('neither a task nor the update service of the BMC says whether the write has ended')
    assert 1 == said.count('waiting for it until')


@pytest.mark.parametrize('hold', [False, True])
@pytest.mark.parametrize('says', ['', 'gone'])
def test_a_task_that_waits_for_the_restart_that_is_planned_gets_it_and_is_followed(hold, says):
    """Neither waits for the other, and nothing is judged before its end."""
    machine = Slow(awaits=True, shows=TASK, listed=True, takes=timedelta(minutes=4), says=says)
    bench, _, outcome = ended(machine, ResetKind.POWER_CYCLE, hold=hold)
    assert isinstance(outcome, Done), outcome
    assert (v.NEW, ['gpu-new'], 1) == (machine.version, pushes(machine), machine.resets)
    assert bench.now - v.NOW < timedelta(minutes=10)


@pytest.mark.parametrize('hold', [False, True])
@pytest.mark.parametrize(
    ('shows', 'listed_after'), [(JOB, 0), (MONITOR, 0), (MONITOR, 90), (None, 0), (None, 90)], ids=lambda one: str(one)
)
def test_a_restart_is_not_waited_for_by_a_write_that_its_bmc_lists_under_another_name(hold, shows, listed_after):
    """As a Job and as a Task, as a monitor that does not tell, or as a Task that the answer to the upload did not name."""
    late = timedelta(seconds=listed_after)
    machine = Slow(awaits=True, shows=shows, listed=True, listed_after=late, takes=timedelta(minutes=4))
    bench, _, outcome = ended(machine, ResetKind.POWER_CYCLE, hold=hold)
    assert isinstance(outcome, Done), outcome
    assert (v.NEW, ['gpu-new'], 1) == (machine.version, pushes(machine), machine.resets)
    assert bench.now - v.NOW < timedelta(minutes=10)


def test_a_task_that_fails_after_the_restart_is_put_back_once():
    """With the restart that this needs."""
    machine = Slow(awaits=True, shows=TASK, listed=True, takes=timedelta(minutes=4), becomes_new=False)
    _, _, outcome = ended(machine, ResetKind.POWER_CYCLE)
    assert isinstance(outcome, Failed)
    assert ['gpu-new', 'gpu-old'] == pushes(machine)
    assert any('the BMC says that the update failed after the restart of the host' in r for r in outcome.reasons)


def test_a_task_that_does_not_go_on_after_the_restart_is_given_up_and_its_card_held():
    """It may go on at any time."""
    machine = Slow(awaits=True, shows=TASK, listed=True, takes=None)
    _, _, outcome = ended(machine, ResetKind.POWER_CYCLE)
    assert isinstance(outcome, Failed)
    assert (['gpu-new'], ()) == (pushes(machine), outcome.quarantined)
    assert any('should have continued with the restart of the host, but made no progress' in r for r in outcome.reasons)
    assert any('is held' in r for r in outcome.reasons)


def test_the_next_job_writes_once_the_bmc_is_idle():
    """Nothing of the card is believed but what it shows then."""
    machine = Slow(takes=timedelta(minutes=25), becomes_new=False)
    bench, _, outcome = ended(machine)
    assert isinstance(outcome, Failed)
    bench.now += timedelta(minutes=20)
    machine.go_on()
    machine.becomes_new, machine.takes = True, timedelta(minutes=1)
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3)), ticks=3000)
    assert isinstance(outcome, Done), outcome
    assert ['gpu-new', 'gpu-new'] == pushes(machine)


def test_a_machine_without_a_power_cycle_is_powered_off_and_on():
    """Many BMCs offer On and ForceOff, and no PowerCycle."""

    class Seven(Tells):
        def offers_reset(self, system, kind):
            return False

        def reset(self, system, kind):
            raise AssertionError('it offers none')

    machine = Slow(shows=TASK, takes=timedelta(minutes=1))
    bench = bench_of(machine, ResetKind.POWER_CYCLE)
    bench.tools = replace(bench.tools, connect=lambda _: Seven(machine))
    _, outcome = bench.run(bench.job())
    assert isinstance(outcome, Done), outcome
    assert (PowerState.ON, 1) == (machine.power, machine.resets)
    assert ['power Off', 'power On'] == [entry for entry in machine.log if entry.startswith('power')]


def test_a_task_that_waits_for_a_restart_that_nobody_has_planned_is_given_up():
    """Long before the deadline; the catalogue says that the image needs none."""
    machine = Slow(awaits=True, shows=TASK, listed=True)
    bench, _, outcome = ended(machine)
    assert isinstance(outcome, Failed)
    assert (['gpu-new'], ()) == (pushes(machine), outcome.quarantined)
    assert any('a restart of the host, which the catalogue does not plan' in r for r in outcome.reasons)
    assert any('is held' in r for r in outcome.reasons), 'its task goes on'
    assert timedelta(minutes=10) < bench.now - v.NOW < timedelta(minutes=20)


@pytest.mark.parametrize('works_before', [timedelta(0), timedelta(minutes=3)])
def test_a_task_that_only_waited_until_it_was_cancelled_has_written_nothing(works_before):
    """Nothing is put back, the host is given back, and the card is as good as it was."""
    machine = Slow(awaits=True, shows=TASK, listed=True, cancels=TaskState.FAILED, works_before=works_before)
    _, _, outcome = ended(machine, hold=True)
    assert isinstance(outcome, Failed)
    assert (['gpu-new'], 1, v.OLD, PowerState.ON) == (
        pushes(machine),
        machine.log.count('cancel'),
        machine.version,
        machine.power,
    )
    assert (False, ()) == (outcome.wrote, outcome.quarantined)
    assert any('set apply.reset of its image (the BMC has cancelled it, and nothing was written)' in r for r in outcome.reasons)


@pytest.mark.parametrize('becomes', [v.NEW, None, 'spoilt'])
def test_a_card_that_shows_something_else_after_its_task_was_cancelled_was_written(becomes):
    """Whatever the task says."""
    machine = Slow(awaits=True, shows=TASK, listed=True, cancels=TaskState.FAILED)

    class Spoils(Tells):
        def cancel(self, ref):
            super().cancel(ref)
            machine.version = becomes

    bench = bench_of(machine)
    bench.tools = replace(bench.tools, connect=lambda _: Spoils(machine))
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3), hold=True), ticks=3000)
    assert isinstance(outcome, Failed)
    assert (True, 'gpu-old') == (outcome.wrote, pushes(machine)[1])
    told = [r for r in outcome.reasons if r.startswith('flash GPU_0')]
    assert told
    assert not any('nothing was written' in r for r in told)


def test_a_restart_that_comes_late_is_no_standstill_of_the_task_that_waits_for_it():
    """Other cards are written first, or nobody turns the job: its time begins with the first look after the restart."""
    machine = Slow(awaits=True, shows=TASK, listed=True, takes=timedelta(minutes=4), works_before=timedelta(minutes=1))
    bench = bench_of(machine, ResetKind.POWER_CYCLE)
    job = bench.job(timeout=timedelta(hours=3))
    while not any(item.follows for item in job.items):
        job, outcome = bench.turn(job)
        bench.now += outcome.delay
    bench.now += bench.tools.patience.stall + timedelta(minutes=1)
    _, outcome = bench.run(job, ticks=3000)
    assert isinstance(outcome, Done), outcome
    assert (v.NEW, ['gpu-new']) == (machine.version, pushes(machine))


@pytest.mark.parametrize('is_unbegun', [True, False])
def test_a_task_that_does_not_begin_waits_for_the_restart_though_it_does_not_say_so(is_unbegun):
    """Only one that says that it has not begun: what may be writing is not cut off."""
    machine = Slow(awaits=True, shows=TASK, listed=True, takes=timedelta(minutes=4))

    class Silent(Tells):
        def _reading(self, ref):
            found = super()._reading(ref)
            return replace(found, awaits_restart=False, unbegun=is_unbegun and found.awaits_restart)

    bench = bench_of(machine, ResetKind.POWER_CYCLE)
    bench.tools = replace(bench.tools, connect=lambda _: Silent(machine))
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3)), ticks=3000)
    assert (Done if is_unbegun else Failed) is type(outcome), outcome
    assert int(is_unbegun) == machine.resets
    assert ['gpu-new'] == pushes(machine)


STUCK = {'shows': TASK, 'takes': None, 'idle': UpdateActivity.TOLD_BY_TASKS}


def test_a_task_that_is_given_up_is_cancelled_and_what_was_there_is_put_back():
    """It says that it was cancelled: so its write has ended."""
    machine = Slow(cancels=TaskState.FAILED, **STUCK)
    _, _, outcome = ended(machine, hold=True)
    assert isinstance(outcome, Failed)
    assert (['gpu-new', 'gpu-old'], 2) == (pushes(machine)[:2], machine.log.count('cancel'))
    assert any('it was cancelled' in reason for reason in outcome.reasons)


def test_a_task_that_is_gone_once_it_was_cancelled_proves_nothing():
    """That may be all that the BMC has done, and the write may go on: the card is held."""
    machine = Slow(cancels=TaskState.GONE, says='gone', **STUCK)
    _, _, outcome = ended(machine, hold=True)
    assert isinstance(outcome, Failed)
    assert (['gpu-new'], 1, ()) == (pushes(machine), machine.log.count('cancel'), outcome.quarantined)
    assert any('is held' in reason for reason in outcome.reasons)


def test_a_task_that_cannot_be_cancelled_is_named():
    """It is asked once; nothing is put back, and the next job waits for it."""
    machine = Slow(**STUCK)
    _, _, outcome = ended(machine, hold=True)
    assert isinstance(outcome, Failed)
    assert (['gpu-new'], 1, ()) == (pushes(machine), machine.log.count('cancel'), outcome.quarantined)
    assert any(f'task {TASK} could not be cancelled' in reason for reason in outcome.reasons), outcome.reasons


def test_a_task_that_moves_is_not_cancelled():
    """However long it takes: a write that is cut off spoils the card. One that stands still is."""
    for moves, end, cancels in ((True, Done, 0), (False, Failed, 1)):
        machine = Slow(takes=timedelta(minutes=90), shows=TASK, moves=moves)
        _, _, outcome = ended(machine)
        assert isinstance(outcome, end), outcome
        assert cancels == machine.log.count('cancel')


def test_what_the_restart_has_brought_in_force_is_not_left_staged():
    """The end says what was done: staged is what still waits."""
    machine = Slow(shows=TASK, takes=timedelta(minutes=1), reset_needed=True)
    bench = restorable(machine, reset=ResetKind.POWER_CYCLE)
    machine.clock = bench
    states = []
    job, outcome = bench.job(timeout=timedelta(hours=3)), None
    while not isinstance(outcome, Done):
        job, outcome = bench.turn(job)
        bench.now += getattr(outcome, 'delay', timedelta(0))
        states += [i.state for i in job.items if isinstance(i.action, Flash)]
    assert [ItemState.PLANNED, ItemState.RUNNING, ItemState.STAGED, ItemState.DONE] == list(dict.fromkeys(states))


def test_nothing_is_begun_beside_a_task_that_an_earlier_job_has_given_up():
    """The host is not even powered off for it; once the task has ended the same job is done."""
    machine = Slow(listed=True, **STUCK)
    bench, _, _ = ended(machine, hold=True)
    machine.power, machine.log[:] = PowerState.ON, []
    began = bench.now
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3), hold=True), ticks=3000)
    assert isinstance(outcome, Failed)
    assert not outcome.wrote
    assert PowerState.ON is machine.power
    assert not any(entry.startswith(('push', 'power', 'release')) for entry in machine.log)
    assert any(f'task {TASK.uri} still runs' in reason for reason in outcome.reasons), outcome.reasons
    assert bench.tools.patience.stall < bench.now - began < 2 * bench.tools.patience.stall
    machine.takes = timedelta(0)
    machine.becomes_new = True
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3), hold=True), ticks=3000)
    assert isinstance(outcome, Done), outcome


RESET_BEFORE = '2026-11-01T00:00:00+00:00'


class Managed(Tells):
    """A BMC whose Manager tells of its restarts: the machine's ``restarted`` is when it was restarted last, or None."""

    def managers(self):
        at = getattr(self.machine, 'restarted', None)
        last = RESET_BEFORE if at is None else at.isoformat()
        return (ManagerReading(ref=v.ref('Managers/1'), last_reset=last, time=self.machine.now.isoformat()),)


FORGOTTEN = {'shows': TASK, 'says': 'gone', 'idle': UpdateActivity.TOLD_BY_TASKS, 'becomes_new': False}


@pytest.mark.parametrize('restarts', [False, True])
@pytest.mark.parametrize('idle', [UpdateActivity.TOLD_BY_TASKS, UpdateActivity.IDLE, UpdateActivity.UNKNOWN])
def test_a_forgotten_write_is_put_back_only_where_its_bmc_has_restarted(restarts, idle):
    """A service that was restarted alone knows nothing of what goes on; that it says idle is no more than that."""
    machine = Slow(takes=timedelta(minutes=2), **(FORGOTTEN | {'idle': idle}))

    class Restarts(Managed):
        def __init__(self, machine):
            super().__init__(machine)
            ended = machine.writes_began and not machine.writing
            if restarts and ended and getattr(machine, 'restarted', None) is None:
                machine.restarted = machine.now - timedelta(seconds=10)

    bench = bench_of(machine)
    bench.tools = replace(bench.tools, connect=lambda _: Restarts(machine))
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3)), ticks=3000)
    assert isinstance(outcome, Failed)
    assert (['gpu-new', 'gpu-old'] if restarts else ['gpu-new']) == pushes(machine)
    assert () == outcome.quarantined
    assert restarts is not any('is held: whether the write of image gpu-new' in r for r in outcome.reasons)


def test_a_forgotten_write_that_its_item_still_told_of_has_ended_when_it_does_not_any_more():
    """That is no memory of the service: the item says it by itself."""
    machine = Slow(takes=timedelta(minutes=4), item_says=True, **(FORGOTTEN | {'says': 'never', 'shows': MONITOR}))
    _, _, outcome = ended(machine)
    assert isinstance(outcome, Failed)
    assert ['gpu-new', 'gpu-old'] == pushes(machine)


def test_a_task_that_is_gone_after_the_restart_proves_no_end():
    """The service that had it may have been restarted under it: nothing is put back, and the card is held."""
    machine = Slow(awaits=True, shows=TASK, listed=True, takes=timedelta(minutes=4), becomes_new=False, says='gone')
    _, _, outcome = ended(machine, ResetKind.POWER_CYCLE)
    assert isinstance(outcome, Failed)
    assert (['gpu-new'], ()) == (pushes(machine), outcome.quarantined)
    assert any('is held: whether the write of image gpu-new' in r for r in outcome.reasons), outcome.reasons


@pytest.mark.parametrize('is_same', [True, False])
def test_a_task_of_somebody_else_under_the_uri_of_ours_says_nothing_of_our_write(is_same):
    """A service that was restarted alone counts its tasks anew; the image is not put back into a write that goes on."""
    machine = Slow(takes=timedelta(minutes=9), shows=TASK, becomes_new=is_same)

    class CountsAnew(Tells):
        def _reading(self, ref):
            found = super()._reading(ref)
            began = self.machine.writes_began[0]
            if is_same or self.machine.now - began < timedelta(minutes=3):
                return replace(found, started=began.isoformat())
            other = began + timedelta(minutes=2)
            return replace(found, state=TaskState.FAILED, raw='Exception', started=other.isoformat())

    bench = bench_of(machine)
    bench.tools = replace(bench.tools, connect=lambda _: CountsAnew(machine))
    _, outcome = bench.run(bench.job(timeout=timedelta(hours=3)), ticks=3000)
    assert ['gpu-new'] == pushes(machine)
    assert is_same is not isinstance(outcome, Failed)
    if not is_same:
        assert ((), True) == (outcome.quarantined, any('is held: whether the write' in r for r in outcome.reasons)), (
            outcome.reasons
        )

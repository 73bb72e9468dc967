# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Several cards behind one or two BMCs, in time: a machine in memory whose truth a history of a job can be judged by.

Nothing here sleeps. The world has a clock; what is under way (tasks, power) happens when the clock passes it. What goes wrong
is asked for beforehand (``next_push`` and the like): how the next write, task, reset or lock behaves. What was done is in
``pushes``, ``log`` and the cards, so that a job's own word is never needed to judge it.
"""

import io
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from baremetal_acc.bmc.driver import BmcAddress, Look
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcNotAuthorised,
    BmcRefusalReason,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
    ImageMismatch,
)
from baremetal_acc.execution import Target, Tools, observe, tick
from baremetal_acc.model.action import Flash
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.image import Upload, UploadProgress
from baremetal_acc.model.inventory import BmcFacts, HostReading, PowerState, TaskReading, TaskState, UpdateActivity, UpdateFacts
from baremetal_acc.model.job import Flow, Job, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.model.ref import HOST, AcceleratorId, BmcName, Ref
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.render.refusals import raise_if_unsafe
from tests.unit.planning import values as v

DPU = BmcName('dpu')

PATIENCE = RetryLimits(
    poll=timedelta(seconds=30), settle=timedelta(minutes=1), reset=timedelta(minutes=5), stall=timedelta(minutes=10)
)

WRITE_TIME = timedelta(seconds=90)

BROKEN = 'recovery'
"""The version of a card whose write went wrong."""

PUSHES = (
    'ok',
    'busy',
    'apart',
    'refused',
    'cut, arrived',
    'cut, lost',
    'error, arrived',
    'error, lost',
    'no task',
    'bad image',
)
"""How a BMC takes an image."""

TASKS = (
    'succeeds',
    'fails, unchanged',
    'fails, broken',
    'fails, written',
    'vanishes, written',
    'vanishes, unchanged',
    'vanishes, broken',
    'renamed, written',
    'renamed, broken',
    'stuck, written',
    'stuck, unchanged',
    'stuck, ends late',
    'succeeds, unchanged',
    'succeeds, broken',
    'succeeds, other staged',
    'succeeds, broken by reset',
    'succeeds, bricked',
    'succeeds, away for a while',
    'succeeds, under another id',
)
"""How a write goes on, once it was taken: what its task says, and what becomes of the card."""

TURNS = ('ok', 'busy', 'apart', 'silent', 'silent, arrived', 'fails', 'garbage')
"""How a BMC that takes images in turns takes one of them."""

RESETS = ('ok', 'answer lost', 'ignored', 'slow', 'refused', 'stays off')
"""How a System takes a reset or a change of power."""

LOCKS = ('ok', 'ignored', 'refused, done', 'refused, not done', 'cut, done', 'lost with the next reset')
"""How a lock takes a change."""

AWAY = {
    'refused': BmcUnreachable(bmc='x', what='connection refused'),
    '503': BmcBusy(bmc='x', what='come back later (HTTP 503)'),
    '401': BmcNotAuthorised(bmc='x', what='not logged in (HTTP 401)'),
    'garbage': BmcAnswerInvalid(bmc='x', what='no JSON'),
}
"""How a BMC that is away answers."""


@dataclass
class Card:
    """The truth of one card.

    :ivar kept: the version that it can go back to.
    :ivar arrived: turns of an image that have arrived; None: no upload was begun.
    :ivar pushed: when the last upload in turns was begun.
    """

    number: int
    bmc: BmcName
    version: str = v.OLD
    staged: str | None = None
    closed: bool = False
    present: bool = True
    spoilt_by_reset: bool = False
    loses_lock: bool = False
    touched: bool = False
    released: bool = False
    renamed: bool = False
    kept: str | None = None
    arrived: int | None = None
    pushed: datetime | None = None

    @property
    def id(self) -> AcceleratorId:
        """As a target has it: with the name of a further BMC."""
        return AcceleratorId(self.told if self.bmc == HOST else f'{self.told}@{self.bmc}')

    @property
    def told(self) -> AcceleratorId:
        """As its BMC has it."""
        return AcceleratorId(f'uuid:gpu-{self.number}')

    @property
    def item(self) -> Ref:
        return Ref(bmc=self.bmc, uri=f'/redfish/v1/UpdateService/FirmwareInventory/{self.name}')

    @property
    def name(self) -> str:
        return f'GPU_{self.number}_B' if self.renamed else f'GPU_{self.number}'

    @property
    def lock(self) -> Ref:
        return Ref(bmc=self.bmc, uri=f'/redfish/v1/Chassis/RoT_{self.number}')

    def component(self):
        return replace(v.component(self.name, self.version, staged=self.staged), ref=self.item)

    def seen(self):
        uri = Ref(bmc=self.bmc, uri=f'/redfish/v1/Systems/1/Processors/GPU_{self.number}')
        return v.gpu(id=self.told, primary=uri, refs=(uri,), firmware=(self.component(),), locks=())


@dataclass(frozen=True)
class Foreign:
    """An update of somebody else."""

    ref: Ref
    began: datetime
    ends: datetime


@dataclass
class System:
    """The truth of one System."""

    ref: Ref
    power: PowerState = PowerState.ON
    resets: int = 0
    tells: bool = True


@dataclass
class Task:
    """One write under way.

    :ivar ends: when the card is what it becomes; None: it never ends.
    """

    ref: Ref
    card: Card
    version: str
    how: str
    ends: datetime | None
    over: bool = False


@dataclass(frozen=True)
class Push:
    """One image that a BMC has taken, or may have."""

    card: AcceleratorId
    image: str
    at: datetime


class Crash(BaseException):
    """The shell dies."""


@dataclass
class World:
    """Everything, and a clock.

    :ivar turns: in how many an image is sent; 0: at once.
    :ivar keeps: a card keeps the version before, and can go back to it.
    :ivar crash_in: after how many more savings the shell dies; ``crash_stored`` whether that one is still stored.
    """

    cards: list[Card]
    parallel: int = 1
    protects_all: bool = False
    reset_needed: bool = True
    lock_needs: ResetKind = ResetKind.NONE
    has_restore: bool = True
    turns: int = 0
    keeps: bool = False
    now: datetime = v.NOW
    systems: dict = field(default_factory=dict)
    tasks: list = field(default_factory=list)
    foreign: list = field(default_factory=list)
    away: dict = field(default_factory=dict)
    later: list = field(default_factory=list)
    pushes: list = field(default_factory=list)
    log: list = field(default_factory=list)
    wrong: list = field(default_factory=list)
    stored: Job | None = None
    crash_in: int | None = None
    crash_stored: bool = True
    held: bool = False
    uploaded: int = 0
    sessions: itertools.count = field(default_factory=itertools.count)
    names: itertools.count = field(default_factory=itertools.count)
    next_push: deque = field(default_factory=deque)
    next_turn: deque = field(default_factory=deque)
    next_task: deque = field(default_factory=deque)
    next_reset: deque = field(default_factory=deque)
    next_lock: deque = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.bmcs = tuple(dict.fromkeys([HOST, *(c.bmc for c in self.cards)]))
        for bmc in self.bmcs:
            self.systems[bmc] = System(ref=Ref(bmc=bmc, uri='/redfish/v1/Systems/1'))
        reset = ResetKind.POWER_CYCLE if self.reset_needed else ResetKind.NONE
        old = v.image('gpu-old', version=v.OLD, reset=reset)
        new = v.image('gpu-new', version=v.NEW, reset=reset, restore='gpu-old' if self.has_restore else None)
        self.versions = {i.name: i.version for i in (old, new)}
        self.target = Target(
            name='node-1', node=v.NODE, bmcs=tuple(BmcAddress(name=b, address=f'https://{b}.example') for b in self.bmcs)
        )
        self.tools = Tools(
            connect=lambda address: Connection(self, address.name),
            mechanisms=(Mechanism(self),),
            baseline=v.baseline(),
            catalogue=(new, old),
            images=Images(self),
            placement=Placement(self),
            save=self.save,
            patience=PATIENCE,
        )

    def job(self, *, hold: bool, timeout: timedelta) -> Job:
        made = plan(observe(self.target, self.tools, self.now), v.baseline(), v.NODE, self.tools.catalogue, hold=hold)
        raise_if_unsafe(made)
        job = begin(
            made, identity='j', node='n', flow=Flow.CLEAN, step='s', lifecycle=v.LIFECYCLE, now=self.now, timeout=timeout
        )
        self.held = hold
        self.stored = job
        return job

    # ------------------------------------------------------------------------------------------------------------- shell

    def turn(self, job: Job):
        """One tick and the time after it; a shell that dies begins again with what was stored, in its stored form."""
        try:
            job, outcome = tick(job, self.target, self.tools, self.now)
        except Crash:
            job, outcome = decode(Job, encode(self.stored)), Wait(delay=PATIENCE.poll, doing='dead')
        if isinstance(outcome, Wait):
            self.go_on(max(outcome.delay, timedelta(seconds=1)))
        return job, outcome

    def save(self, job: Job) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.crash_in = None
                self.stored = job if self.crash_stored else self.stored
                raise Crash
        self.stored = job

    # -------------------------------------------------------------------------------------------------------------- time

    def go_on(self, time: timedelta) -> None:
        """Let time pass: everything that is under way happens when its time has come, in order."""
        end = self.now + time
        while True:
            events = [(t.ends, n, self._ender(t)) for n, t in enumerate(self.tasks) if t.ends is not None and not t.over]
            events += [(at, n, what) for n, (at, what) in enumerate(self.later)]
            due = min(events, default=None, key=lambda e: e[:2])
            if due is None or due[0] > end:
                break
            self.now = max(self.now, due[0])
            self.later = [e for e in self.later if e[1] is not due[2]]
            due[2]()
        self.now = end

    def vanish(self, card: Card, time: timedelta) -> None:
        """A card is not shown for a while."""
        card.present = False
        self.after(time, lambda: setattr(card, 'present', True))

    def after(self, time: timedelta, what: Callable[[], None]) -> None:
        self.later.append((self.now + time, what))

    def _ender(self, task: Task) -> Callable[[], None]:
        return lambda: self._ends(task)

    def _ends(self, task: Task) -> None:
        task.over = True
        card, what = task.card, task.how.partition(', ')[2]
        if self.keeps and not self.reset_needed and what != 'unchanged':
            card.kept = card.version
        match what:
            case 'unchanged':
                pass
            case 'broken':
                card.version, card.staged = BROKEN, None
            case 'bricked':
                card.present = False
            case 'other staged':
                card.staged = 'other'
            case _:
                if self.reset_needed:
                    card.staged = None if card.version == task.version and card.staged is None else task.version
                    card.spoilt_by_reset = what == 'broken by reset'
                else:
                    card.version, card.staged = task.version, None
                card.renamed = card.renamed or what == 'under another id'
                if what == 'away for a while':
                    self.vanish(card, timedelta(seconds=40))

    # ------------------------------------------------------------------------------------------------------------- power

    def power_on(self, bmc: BmcName) -> None:
        system = self.systems[bmc]
        if system.power is PowerState.ON:
            return
        system.power = PowerState.ON
        self.cycle(bmc)

    def cycle(self, bmc: BmcName) -> None:
        """What a System that starts does to its cards."""
        self.systems[bmc].resets += 1
        for card in (c for c in self.cards if c.bmc == bmc):
            if card.staged is not None:
                card.version, card.staged = card.staged, None
                if card.spoilt_by_reset:
                    card.version, card.spoilt_by_reset = BROKEN, False
            if card.loses_lock:
                card.closed, card.loses_lock = False, False

    def active(self, bmc: BmcName, *, but_for: datetime | None = None) -> list[Ref]:
        """The tasks that a BMC shows as running.

        :param but_for: without those of others that have begun since: nobody asks before each turn of an upload.
        """
        shown = []
        for task in self.tasks:
            says = task.how.partition(', ')[0]
            if task.ref.bmc != bmc or says in ('hidden', 'vanishes'):
                continue
            if says == 'stuck' and not (task.over and task.how == 'stuck, ends late'):
                shown.append(task.ref)
            elif says == 'renamed' and not task.over:
                shown.append(replace(task.ref, uri=task.ref.uri + '-b'))
            elif not task.over:
                shown.append(task.ref)
        theirs = [f for f in self.foreign if f.ref.bmc == bmc and f.ends > self.now]
        return shown + [f.ref for f in theirs if but_for is None or f.began <= but_for]


def _next(queue: deque) -> str:
    return queue.popleft() if queue else 'ok'


class Reader:
    accepted = unconditional = objections = ()

    def __init__(self, session: str, name: BmcName) -> None:
        self.session, self.name = session, name

    def peek(self, uri):
        return None


class Connection:
    """A session with one BMC of the world."""

    def __init__(self, world: World, bmc: BmcName) -> None:
        self.world, self.bmc = world, bmc
        how, until = world.away.get(bmc, ('', world.now))
        if until > world.now:
            raise AWAY[how]
        self.session = f's{next(world.sessions)}'
        self.system = world.systems[bmc]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        return None

    def look(self, now):
        facts = BmcFacts(
            name=self.bmc,
            address=f'https://{self.bmc}.example',
            session=self.session,
            update=UpdateFacts(push=True, pull=False, parallel=self.world.parallel),
            system=self.system.ref,
            power=self.system.power,
            last_reset=self.last_reset(self.system.ref),
        )
        cards = tuple(c.seen() for c in self.world.cards if c.bmc == self.bmc and c.present)
        reader = Reader(self.session, self.bmc)
        return Look(facts=facts, accelerators=cards, platform_devices=(), gaps=(), reader=reader)

    def writer(self):
        return Reader(self.session, self.bmc)

    def component(self, ref):
        return self._card(ref).component()

    def _card(self, ref):
        card = next((c for c in self.world.cards if c.item == ref and c.present), None)
        if card is None:
            raise BmcRefused(bmc=self.bmc, what='no such resource', reason=BmcRefusalReason.NOT_FOUND)
        return card

    def push(self, target, upload):
        world = self.world
        card = next(c for c in world.cards if c.item == target)
        if not world.turns:
            return self._take(card, upload)
        if world.next_push and world.next_push[0] in ('busy', 'apart', 'refused'):
            return self._take(card, upload)
        if card.closed and world.protects_all:
            raise BmcRefused(bmc=self.bmc, what='no', reason=BmcRefusalReason.INVALID_REQUEST)
        card.pushed = world.now
        self._must_be_free(card, upload)
        place = Ref(bmc=self.bmc, uri=f'/uploads/{card.number}')
        if upload.goes_back and card.kept == world.versions[upload.file] != card.version:
            return UploadProgress(task=place, so_far='back', whole=True, percent=100)
        return UploadProgress(task=place)

    def go_on(self, target, upload, progress):
        """One turn; only the last one changes what runs."""
        world = self.world
        card = next(c for c in world.cards if c.item == target)
        world.uploaded += 1
        if world.held and world.systems[HOST].power is not PowerState.OFF:
            world.wrong.append(f'{card.id}: {upload.file} goes on while the host is not off')
        if progress.so_far not in (None, 'back', f'{upload.file} {card.arrived}'):
            world.wrong.append(f'{card.id}: {progress.so_far} goes on where {card.arrived} turns have arrived')
        if progress.whole:
            card.arrived = card.arrived if world.next_push and world.next_push[0] in ('busy', 'apart') else None
            return self._take(card, upload)
        how = _next(world.next_turn)
        if how == 'busy':
            raise BmcBusy(bmc=self.bmc, what='busy')
        if how == 'apart':
            raise BmcUnreachable(bmc=self.bmc, what='no login', sent=False)
        card.touched = True
        if progress.so_far is None:
            card.arrived = 0
        if how != 'silent':
            card.arrived += 1
        if how.startswith('silent'):
            raise BmcUnreachable(bmc=self.bmc, what=how)
        if how in ('fails', 'garbage'):
            raise (BmcAnswerInvalid if how == 'garbage' else BmcRefused)(bmc=self.bmc, what=how)
        whole = card.arrived == world.turns
        so_far = f'{upload.file} {card.arrived}'
        return replace(progress, so_far=so_far, percent=100 * card.arrived // world.turns, whole=whole, turning=False)

    def _take(self, card, upload):
        """What is sent at once, or brought in force: a task of the BMC."""
        world = self.world
        how = _next(world.next_push)
        if how == 'busy':
            raise BmcBusy(bmc=self.bmc, what='busy')
        if how == 'apart':
            raise BmcUnreachable(bmc=self.bmc, what='no login', sent=False)
        if how == 'refused' or (card.closed and world.protects_all):
            raise BmcRefused(bmc=self.bmc, what='no', reason=BmcRefusalReason.INVALID_REQUEST)
        shown = self._must_be_free(card, upload)
        if any(t.card is card and (not t.over or t.ref in shown) for t in world.tasks):
            world.wrong.append(f'{card.id}: {upload.file} sent while it was written')
        if world.held and world.systems[HOST].power is not PowerState.OFF:
            world.wrong.append(f'{card.id}: {upload.file} sent while the host was not off')
        world.log.append(f'push {upload.file} to {card.id}: {how}')
        world.pushes.append(Push(card=card.id, image=upload.file, at=world.now))
        card.touched = True
        error = BmcUnreachable if how.startswith('cut') else BmcAnswerInvalid
        if how.endswith('lost'):
            raise error(bmc=self.bmc, what=how)
        ref = Ref(bmc=self.bmc, uri=f'/redfish/v1/TaskService/Tasks/{next(world.names)}')
        kind = _next(world.next_task).replace('ok', 'succeeds')
        if how == 'no task':
            kind = 'hidden, ' + kind.partition(', ')[2]
        ends = world.now + WRITE_TIME
        if kind.startswith(('vanishes', 'hidden')):
            # What a BMC does not show must be over by the time that a card may take to settle: nobody could know of it.
            ends = world.now + timedelta(seconds=20)
        elif kind == 'stuck, ends late':
            ends = world.now + timedelta(minutes=25)
        world.tasks.append(Task(ref=ref, card=card, version=world.versions[upload.file], how=kind, ends=ends))
        if how.endswith('arrived'):
            raise error(bmc=self.bmc, what=how)
        return None if how == 'no task' else TaskReading(ref=ref, state=TaskState.ACTIVE, raw='Running/OK')

    def _must_be_free(self, card, upload):
        """Nothing is sent to a BMC that has enough to do; gives what that is."""
        # A task that never ends is no life once its card shows that it has ended well.
        ended = {t.ref for t in self.world.tasks if t.how == 'stuck, written' and t.over}
        shown = [ref for ref in self.world.active(self.bmc, but_for=card.pushed) if ref not in ended]
        if len(shown) >= self.world.parallel:
            self.world.wrong.append(f'{card.id}: {upload.file} sent to a BMC that was busy')
        return shown

    def cancel(self, ref):
        raise BmcUnsupported(bmc=self.bmc, what='it cancels nothing')

    def task(self, ref):
        task = next((t for t in self.world.tasks if t.ref == ref), None)
        says = 'vanishes' if task is None else task.how.partition(', ')[0]
        if says in ('vanishes', 'renamed', 'hidden') or (says == 'lost'):
            return TaskReading(ref=ref, state=TaskState.GONE, raw='404')
        if ref in self.world.active(self.bmc):
            percent = 99 if says == 'stuck' else int(100 - (task.ends - self.world.now) / WRITE_TIME * 100)
            return TaskReading(ref=ref, state=TaskState.ACTIVE, raw='Running/OK', percent=percent)
        state = TaskState.FAILED if says == 'fails' else TaskState.SUCCEEDED
        return TaskReading(ref=ref, state=state, raw='x', message=says)

    def tasks(self):
        """Those that have ended are not kept."""
        return self.active_tasks()

    def active_tasks(self):
        return [TaskReading(ref=r, state=TaskState.ACTIVE, raw='Running/OK') for r in self.world.active(self.bmc)]

    def update_activity(self):
        """Its update service says no more than its tasks do; a controller that takes images in turns says what it is at."""
        return UpdateActivity.IDLE if self.world.turns else UpdateActivity.TOLD_BY_TASKS

    def power(self, system):
        return self.system.power

    def set_power(self, system, wanted):
        world, how = self.world, _next(self.world.next_reset)
        world.log.append(f'power {wanted} of {self.bmc}: {how}')
        if how == 'refused':
            raise BmcRefused(bmc=self.bmc, what='no', reason=BmcRefusalReason.INVALID_REQUEST)
        if wanted is PowerState.ON:
            self._at_open_locks()
            apply = lambda: world.power_on(self.bmc)  # noqa: E731
        else:
            apply = lambda: setattr(self.system, 'power', PowerState.OFF)  # noqa: E731
        if how == 'slow':
            world.after(timedelta(minutes=2), apply)
        elif how not in ('ignored', 'stays off'):
            apply()
        if how == 'answer lost':
            raise BmcUnreachable(bmc=self.bmc, what='connection cut')

    def _at_open_locks(self):
        """A held host is not given back at a lock that we have opened."""
        if self.world.held and self.bmc == HOST:
            for card in self.world.cards:
                if card.released and not card.closed and card.present:
                    self.world.wrong.append(f'{card.id}: the host was given back at its open lock')

    def offers_reset(self, system, kind):
        return True

    def reset(self, system, kind):
        world, how = self.world, _next(self.world.next_reset)
        world.log.append(f'reset {self.bmc}: {how}')
        if how == 'refused':
            raise BmcRefused(bmc=self.bmc, what='no', reason=BmcRefusalReason.INVALID_REQUEST)
        if how == 'slow':
            world.after(timedelta(minutes=2), lambda: world.cycle(self.bmc))
        elif how == 'stays off':
            self.system.power = PowerState.OFF
        elif how != 'ignored':
            world.cycle(self.bmc)
        if how == 'answer lost':
            raise BmcUnreachable(bmc=self.bmc, what='connection cut')

    def may_write(self):
        return None

    def ownership(self):
        return None

    def host(self, system):
        return HostReading(power=self.power(system), last_reset=self.last_reset(system))

    def last_reset(self, system):
        return str(self.system.resets) if self.system.tells else None

    def managers(self):
        return ()


class Mechanism:
    """One lock for each card."""

    name = 'rot'
    blocks = v.HOST_DEVICE

    def __init__(self, world: World) -> None:
        self.world = world

    def _card(self, ref: Ref) -> Card:
        return next(c for c in self.world.cards if c.lock == ref)

    def read(self, accelerator, readers, now):
        card = next(c for c in self.world.cards if c.id == accelerator.id)
        reader = next(r for r in readers if r.name == card.bmc)
        world = self.world
        found = v.reading(
            LockState.LOCKED_REPORTED if card.closed else LockState.UNLOCKED,
            accelerator=card.id,
            at=now,
            session=reader.session,
            blocks=v.ALL_PATHS if world.protects_all else v.HOST_DEVICE,
            needs=world.lock_needs,
            reset=world.systems[card.bmc].ref if world.lock_needs is not ResetKind.NONE else None,
        )
        return (replace(found, ref=card.lock, value='false' if card.closed else 'true'),)

    def engage(self, writer, reading):
        self._change(self._card(reading.ref), closed=True)

    def release(self, writer, reading):
        card = self._card(reading.ref)
        if self.world.held and self.world.systems[HOST].power is not PowerState.OFF:
            self.world.wrong.append(f'{card.id}: released while the host was not off')
        card.released = True
        self._change(card, closed=False)

    def _change(self, card: Card, *, closed: bool) -> None:
        how = _next(self.world.next_lock)
        self.world.log.append(f'{"engage" if closed else "release"} {card.id}: {how}')
        if how not in ('ignored', 'refused, not done'):
            card.closed = closed
        card.loses_lock = how == 'lost with the next reset'
        if how.startswith('refused'):
            raise BmcRefused(bmc=card.bmc, what='no', reason=BmcRefusalReason.INVALID_REQUEST)
        if how.startswith('cut'):
            raise BmcUnreachable(bmc=card.bmc, what='cut')


class Images:
    """Images that are what they say, unless the next push says otherwise."""

    def __init__(self, world: World) -> None:
        self.world = world

    def open(self, image):
        items = () if self.world.stored is None else self.world.stored.items
        writing = any(i.state is ItemState.SENT and isinstance(i.action, Flash) for i in items)
        if writing and self.world.next_push and self.world.next_push[0] == 'bad image':
            self.world.next_push.popleft()
            raise ImageMismatch(image=image.name, what='digest differs')
        return Upload(file=image.name, size_bytes=3, open=lambda: io.BytesIO(b'abc'))


class Placement:
    def __init__(self, world: World) -> None:
        self.world = world

    def withdraw(self, accelerators, *, alone=False):
        everything = 'withdraw the node' if alone else 'withdraw everything'
        self.world.log.append('withdraw' if accelerators is not None else everything)

    def publish(self, inventory, verdict, functions):
        self.world.log.append('publish')

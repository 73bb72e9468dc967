# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A machine in memory that answers the contracts of drivers, locks and images, for turning jobs with a clock of their own."""

import io
import itertools
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from baremetal_acc.bmc.driver import BmcAddress, Look
from baremetal_acc.errors import (
    BmcBusy,
    BmcNotAuthorised,
    BmcRefusalReason,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
    ImageMismatch,
)
from baremetal_acc.execution import Target, Tools, observe, tick
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.image import Upload
from baremetal_acc.model.inventory import (
    Accounts,
    BmcFacts,
    HostReading,
    PowerState,
    TaskReading,
    TaskState,
    UpdateActivity,
    UpdateFacts,
)
from baremetal_acc.model.job import Flow, Job, Wait
from baremetal_acc.model.lock import LockReading, LockState, ResetKind
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import EVERYTHING, plan
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.render.refusals import raise_if_unsafe
from tests.unit.planning import values as v

VERSIONS = {'gpu-new': v.NEW, 'gpu-old': v.OLD}
"""What the images become."""


@dataclass
class Machine:
    """The truth of one BMC with one GPU: version, staged version, lock, power, tasks; and switches for what goes wrong.

    :ivar task_ends: how tasks end; those that put something back end well, unless ``restores`` is off.
    :ivar operator: our account may not write.
    :ivar judges: it says beforehand what speaks against an image; ``speaks_against`` names those that it does not take.
    :ivar spoils: images that make the card run ``becomes``, at once or (``spoils_when_reset``) with the next reset.
    """

    version: str = v.OLD
    staged: str | None = None
    closed: bool = False
    protects_all: bool = False
    power: PowerState = PowerState.ON
    resets: int = 0
    tasks: dict = field(default_factory=dict)
    sent: dict = field(default_factory=dict)
    log: list = field(default_factory=list)
    sessions: itertools.count = field(default_factory=itertools.count)
    lock_ignored: bool = False
    lock_lost_on_reset: bool = False
    silent: int = 0
    busy: int = 0
    cut_upload: bool = False
    arrives: bool = True
    refuses: bool = False
    task_ends: TaskState = TaskState.SUCCEEDED
    present: bool = True
    image_is_good: bool = True
    lock_needs: ResetKind = ResetKind.NONE
    reset_needed: bool = True
    spoils: tuple[str, ...] = ()
    becomes: str = 'broken'
    spoils_when_reset: bool = False
    restores: bool = True
    judges: bool = False
    operator: bool = False
    accounts: Accounts | None = None
    cancels: TaskState | None = None
    cancelled: set = field(default_factory=set)
    speaks_against: tuple[str, ...] = ()

    def lock(self, session: str, now: datetime) -> LockReading:
        state = LockState.LOCKED_REPORTED if self.closed else LockState.UNLOCKED
        blocks = v.ALL_PATHS if self.protects_all else v.HOST_DEVICE
        value = 'false' if self.closed else 'true'
        reset = v.SYSTEM if self.lock_needs is not ResetKind.NONE else None
        found = v.reading(state, at=now, session=session, blocks=blocks, needs=self.lock_needs, reset=reset)
        return replace(found, value=value)

    def power_cycle(self) -> None:
        self.resets += 1
        if self.staged is not None:
            self.version, self.staged = self.staged, None
            if self.spoils_when_reset and self.version in self.spoils:
                self.version = self.becomes
        if self.lock_lost_on_reset:
            self.closed = False


class Mechanism:
    """The lock of the machine."""

    name = 'rot'
    blocks = v.HOST_DEVICE

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def read(self, accelerator, readers, now):
        (reader,) = readers
        return (self.machine.lock(reader.session, now),)

    def engage(self, writer, reading):
        self.machine.log.append('engage')
        if not self.machine.lock_ignored:
            self.machine.closed = True

    def release(self, writer, reading):
        self.machine.log.append('release')
        self.machine.closed = False


@dataclass
class Reader:
    session: str
    name: str = HOST
    accepted: tuple = ()
    unconditional: tuple = ()
    objections: tuple = ()

    def peek(self, uri):
        return None


class Connection:
    """A session with the machine."""

    def __init__(self, machine: Machine) -> None:
        if machine.silent:
            machine.silent -= 1
            raise BmcUnreachable(bmc='host', what='no answer')
        self.machine = machine
        self.session = f's{next(machine.sessions)}'

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        return None

    def look(self, now):
        component = v.component(version=self.machine.version, staged=self.machine.staged)
        devices = (v.gpu(firmware=(component,), locks=()),) if self.machine.present else ()
        facts = BmcFacts(
            name=HOST,
            address='https://192.0.2.1',
            session=self.session,
            update=UpdateFacts(push=True, pull=False, judges=self.machine.judges),
            system=v.SYSTEM,
            power=self.machine.power,
            accounts=self.machine.accounts,
            last_reset=self.last_reset(v.SYSTEM),
        )
        return Look(facts=facts, accelerators=devices, platform_devices=(), gaps=(), reader=Reader(self.session))

    def ownership(self):
        return None

    def may_write(self):
        if self.machine.operator:
            raise BmcNotAuthorised(bmc=HOST, what='the user may not be administrator')

    def judge(self, targets, image, upload):
        for target in targets:
            self.machine.log.append(f'judge {image.name} at {target}')
        if image.name in self.machine.speaks_against:
            raise BmcUnsupported(bmc=HOST, what=f'image {image.name} is for another controller')

    def writer(self):
        return Reader(self.session)

    def component(self, ref):
        return v.component(version=self.machine.version, staged=self.machine.staged)

    def push(self, target, upload):
        machine = self.machine
        if machine.busy:
            machine.busy -= 1
            raise BmcBusy(bmc='host', what='busy')
        if machine.refuses:
            raise BmcRefused(bmc='host', what='no', reason=BmcRefusalReason.INVALID_REQUEST)
        machine.log.append(f'push {upload.file} {"off" if machine.power is PowerState.OFF else "on"} '
                           f'{"closed" if machine.closed and machine.protects_all else "open"}')  # fmt: skip
        ref = Ref(bmc=HOST, uri=f'/redfish/v1/TaskService/Tasks/{len(machine.sent)}')
        machine.sent[ref] = VERSIONS[upload.file]
        if machine.arrives:
            machine.tasks[ref] = 4
        if machine.cut_upload:
            raise BmcUnreachable(bmc='host', what='connection cut')
        return TaskReading(ref=ref, state=TaskState.ACTIVE, raw='Running/OK')

    def cancel(self, ref):
        self.machine.log.append('cancel')
        if self.machine.cancels is None:
            raise BmcUnsupported(bmc='host', what='it cancels nothing')
        self.machine.tasks.pop(ref, None)
        if self.machine.cancels is not TaskState.GONE:
            self.machine.cancelled.add(ref)

    def task(self, ref):
        if ref in self.machine.cancelled:
            return TaskReading(
                ref=ref, state=TaskState.FAILED, raw='Cancelled/OK', message='it was cancelled', was_cancelled=True
            )
        left = self.machine.tasks.get(ref)
        if left is None:
            return TaskReading(ref=ref, state=TaskState.GONE, raw='404')
        self.machine.tasks[ref] = left = max(0, left - 1)
        if left:
            return TaskReading(ref=ref, state=TaskState.ACTIVE, raw='Running/OK', percent=50)
        self.finish(ref)
        return TaskReading(ref=ref, state=self.how_it_ends(ref), raw='x', message='as the BMC says')

    def how_it_ends(self, ref):
        machine = self.machine
        well = machine.restores and machine.sent.get(ref) == v.OLD
        return TaskState.SUCCEEDED if well else machine.task_ends

    def finish(self, ref):
        machine = self.machine
        ends, sent = self.how_it_ends(ref), machine.sent.get(ref, v.NEW)
        if ends is TaskState.GONE:
            machine.tasks.pop(ref, None)
        if machine.arrives and sent in machine.spoils and not machine.spoils_when_reset:
            machine.version = machine.becomes
        elif ends is TaskState.SUCCEEDED and machine.arrives:
            if machine.reset_needed:
                machine.staged = sent
            else:
                machine.version, machine.staged = sent, None

    def tasks(self):
        """Those that have ended are not kept."""
        return self.active_tasks()

    def active_tasks(self):
        """Time passes for tasks that nobody asks for, too."""
        active = []
        for ref, left in list(self.machine.tasks.items()):
            if left:
                active.append(TaskReading(ref=ref, state=TaskState.ACTIVE, raw='Running/OK'))
                self.machine.tasks[ref] = left - 1
                if left == 1:
                    self.finish(ref)
        return active

    def update_activity(self):
        """It tells when it writes."""
        return UpdateActivity.BUSY if any(self.machine.tasks.values()) else UpdateActivity.IDLE

    def power(self, system):
        return self.machine.power

    def set_power(self, system, wanted):
        self.machine.log.append(f'power {wanted}')
        if wanted is PowerState.ON and self.machine.power is not PowerState.ON:
            self.machine.power_cycle()
        self.machine.power = wanted

    def offers_reset(self, system, kind):
        return True

    def reset(self, system, kind):
        self.machine.log.append(f'reset {kind}')
        self.machine.power_cycle()

    def host(self, system):
        return HostReading(power=self.power(system), last_reset=self.last_reset(system))

    def last_reset(self, system):
        return str(self.machine.resets)

    def managers(self):
        return ()


class Images:
    """Images that are what they say, unless told otherwise."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def open(self, image):
        if not self.machine.image_is_good:
            raise ImageMismatch(image=image.name, what='digest differs')
        return Upload(file=image.name, size_bytes=3, open=lambda: io.BytesIO(b'abc'))


def restorable(machine: Machine, **changes) -> 'Bench':
    """A bench whose image can be put back to the one before it."""
    old = v.image('gpu-old', version=v.OLD, **changes)
    return Bench(machine=machine, image=v.image(restore='gpu-old', **changes), others=(old,))


class Placement:
    """Remembers what it was told."""

    def __init__(self, log: list) -> None:
        self.log = log

    def withdraw(self, accelerators, *, alone=False):
        everything = 'withdraw the node' if alone else 'withdraw everything'
        self.log.append('withdraw' if accelerators is not None else everything)

    def publish(self, inventory, verdict, functions):
        self.log.append('publish')


@dataclass
class Bench:
    """A machine with the tools to work on it, and a clock that moves only when told."""

    machine: Machine = field(default_factory=Machine)
    now: datetime = v.NOW
    saved: list = field(default_factory=list)
    baseline: object = field(default_factory=v.baseline)
    image: object = field(default_factory=v.image)
    others: tuple = ()

    def __post_init__(self):
        self.target = Target(name='node-1', node=v.NODE, bmcs=(BmcAddress(name=HOST, address='https://192.0.2.1'),))
        self.tools = Tools(
            connect=lambda address: Connection(self.machine),
            mechanisms=(Mechanism(self.machine),),
            baseline=self.baseline,
            catalogue=(self.image, *self.others),
            images=Images(self.machine),
            placement=Placement(self.machine.log),
            save=self.save,
            patience=RetryLimits(
                poll=timedelta(seconds=5),
                settle=timedelta(seconds=60),
                reset=timedelta(minutes=5),
                stall=timedelta(minutes=10),
            ),
        )

    def save(self, job: Job) -> None:
        self.saved.append((encode(job), len(self.machine.log)))

    def job(self, *, hold=False, flow=Flow.CLEAN, parts=EVERYTHING, timeout=timedelta(hours=1), undos=(), **how) -> Job:
        inventory = observe(self.target, self.tools, self.now)
        made = plan(inventory, self.baseline, v.NODE, self.tools.catalogue, hold=hold, parts=parts, undos=undos)
        raise_if_unsafe(made)
        job = begin(
            made,
            identity='j1',
            node='node-1',
            flow=flow,
            step='reconcile_accelerators',
            lifecycle=v.LIFECYCLE,
            now=self.now,
            timeout=timeout,
            **how,
        )
        return replace(job, undos=tuple(undos))

    def turn(self, job: Job):
        """One tick, a second later; the job goes through its stored form each time."""
        self.now += timedelta(seconds=1)
        return tick(decode(Job, encode(job)), self.target, self.tools, self.now)

    def run(self, job: Job, ticks: int = 500):
        """Turn a job until it ends."""
        for _ in range(ticks):
            job, outcome = self.turn(job)
            if not isinstance(outcome, Wait):
                return job, outcome
            self.now += outcome.delay
        raise AssertionError(f'job without an end: {job}')

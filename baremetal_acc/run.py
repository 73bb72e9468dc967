# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The straight path: observe, plan, act, observe again, verify, publish. One tick is one turn of it.

Three shells turn it: the command line sleeps between ticks, Ironic's periodic comes back later, tests feed a clock. Nothing
here sleeps. What a tick writes it has stored before (:attr:`Tools.save`), so that a shell that dies can look and go on. What
a write has broken is put back (:mod:`~baremetal_acc.decide.restore`).
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from baremetal_acc.bmc import wait
from baremetal_acc.bmc.api import BmcAddress, Connection, Look, Upload
from baremetal_acc.decide import restore
from baremetal_acc.decide.advance import (
    UNASKED,
    Move,
    Patience,
    Sight,
    WriteSight,
    advance,
    current,
    describe,
    ended,
    sent,
    stalls,
)
from baremetal_acc.decide.baseline import Baseline, NodeFacts
from baremetal_acc.decide.flash import Seen, classify
from baremetal_acc.decide.images import same_version
from baremetal_acc.decide.merge import merge
from baremetal_acc.decide.verify import functions_in_play, verify
from baremetal_acc.errors import (
    AccError,
    BmcAnswerInvalid,
    BmcBusy,
    BmcError,
    BmcNotAuthorised,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
    ImageError,
)
from baremetal_acc.locks.api import Mechanism
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Gap, Inventory, PowerState, TaskState
from baremetal_acc.model.job import (
    Action,
    CheckImage,
    Done,
    Engage,
    Failed,
    Finding,
    Flash,
    Flow,
    Item,
    ItemState,
    Job,
    Outcome,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    Stage,
    Verdict,
    Wait,
    Withdraw,
)
from baremetal_acc.model.lock import Engagement, LockReading, LockState
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref

LOG = logging.getLogger(__name__)

S = TypeVar('S')
T = TypeVar('T')

_NOW = timedelta(0)

_NOT_SHOWN = 'this card does not show this lock any more'


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A node's named set of BMCs, and what rules can ask about the node."""

    name: str
    node: NodeFacts
    bmcs: tuple[BmcAddress, ...]


class ImageStore(Protocol):
    """Where checked images come from."""

    def open(self, image: Image) -> Upload:
        """The bytes of an image, compared with its size and digest now.

        :raises ImageError: they cannot be read, or are not what the catalogue describes.
        """


class PlacementShell(Protocol):
    """What a job tells placement, bound to one node."""

    def withdraw(self, accelerators: Iterable[AcceleratorId] | None) -> None:
        """Take what is unclaimed of these devices out of service; None: of everything that the node ever offered.

        :raises PlacementError: somebody holds it, or placement did not do it.
        """

    def publish(self, inventory: Inventory, verdict: Verdict, functions: dict[tuple[AcceleratorId, str], str]) -> None:
        """Make placement agree.

        :raises PlacementError: it did not.
        """


def _nothing(*_: object) -> None:
    """What a hook does that nobody set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the straight path works with.

    :ivar connect: opens a session with a BMC.
    :ivar save: stores the job; called before every write and after it.
    :ivar observed: told every final look with its verdict.
    :ivar power_changed: told when the job has powered a System off or on.
    :ivar known: devices that were there before; one that has vanished is not met.
    :ivar placement: None where nothing is published.
    """

    connect: Callable[[BmcAddress], Connection]
    mechanisms: tuple[Mechanism, ...]
    baseline: Baseline
    catalogue: tuple[Image, ...]
    images: ImageStore
    placement: PlacementShell | None = None
    save: Callable[[Job], None] = _nothing
    observed: Callable[[Inventory, Verdict], None] = _nothing
    power_changed: Callable[[Ref, PowerState], None] = _nothing
    known: frozenset[AcceleratorId] = frozenset()
    patience: Patience = field(default_factory=Patience)


def observe(target: Target, tools: Tools, now: datetime, *, tasks: bool = False) -> Inventory:
    """Look at every BMC of a target at once, over sessions opened for this look, and read every lock.

    :param tasks: read which tasks the BMCs still run, too. Only who wants to write needs to know.
    :raises BmcError: a BMC cannot be spoken to at all. What fails in part is a gap of the inventory.
    """
    connections: list[tuple[BmcAddress, Connection]] = []

    def look(address: BmcAddress) -> tuple[Look, tuple[Gap, ...]]:
        connection = tools.connect(address)
        connections.append((address, connection))
        return _with_tasks(connection, connection.look(now)) if tasks else (connection.look(now), ())

    try:
        found = wait.together(look, target.bmcs)
        looks = [seen for seen, _ in found]
        accelerators = merge(a for seen in looks for a in seen.accelerators)
        locked = tuple(replace(a, locks=_read_locks(a, looks, tools.mechanisms, now)) for a in accelerators)
    finally:
        _leave(connections)
    return Inventory(
        target=target.name,
        at=now,
        bmcs=tuple(seen.facts for seen in looks),
        accelerators=locked,
        platform_devices=tuple(p for seen in looks for p in seen.platform_devices),
        gaps=tuple(g for seen, more in found for g in (*seen.gaps, *more)),
    )


def _with_tasks(connection: Connection, look: Look) -> tuple[Look, tuple[Gap, ...]]:
    """A look with the tasks that still run; a BMC that cannot tell them leaves a gap."""
    try:
        active = tuple(connection.active_tasks())
    except BmcError as exc:
        place = Ref(bmc=look.facts.name, uri=exc.uri or '/redfish/v1/TaskService')
        return look, (Gap(ref=place, reason=f'which tasks run could not be read: {exc.what}'),)
    return replace(look, facts=replace(look.facts, active_tasks=active)), ()


def _leave(connections: Iterable[tuple[BmcAddress, Connection]]) -> None:
    """Log out. Nobody has to wait for the answer to that, but a fleet, which has no threads to spare."""
    for address, connection in connections:
        if address.concurrency > 1:
            try:
                threading.Thread(target=connection.close, name='logout', daemon=False).start()
            except RuntimeError:  # the system gives us no thread
                connection.close()
        else:
            connection.close()


def check(
    target: Target,
    tools: Tools,
    engagements: Iterable[Engagement],
    now: datetime,
    *,
    lifecycle: int,
    flow: Flow | None = None,
) -> tuple[Inventory, Verdict]:
    """Look, and compare with the baseline. Writes nothing.

    :raises BmcError: a BMC cannot be spoken to.
    """
    inventory = observe(target, tools, now)
    verdict = verify(
        inventory,
        tools.baseline,
        target.node,
        tools.catalogue,
        engagements,
        lifecycle=lifecycle,
        flow=flow,
        known=tools.known,
    )
    return inventory, verdict


def tick(job: Job, target: Target, tools: Tools, now: datetime) -> tuple[Job, Outcome]:
    """One turn of a job: look at what is under way, decide, store, perform what is due.

    :returns: the job to store and to come back with, and whether to come back. A wait of no time means at once.
    """
    if job.ended:
        return job, _outcome(job)
    at = current(job)
    # What the plan was made for was there: a card that a write or a reset has lost is not met.
    tools = replace(tools, known=tools.known | job.devices)
    with _connections(target, tools) as bmcs:
        sight = _look(job, bmcs, now, tools.patience)
        move = _of_asked_bmcs(advance(job, sight, now, tools.patience), sight)
        job = move.job
        putting_back = bool(restore.due(job, now))
        if putting_back:
            # What failed comes first: nothing is closed or reset before it is known what has to be put back.
            move = Move(job=job)
        try:
            inventory = observe(target, tools, now) if putting_back or _needs_inventory(move) else None
        except AccError as exc:
            return _blind(job, move, exc, tools, now)
        if putting_back and inventory is not None:
            return _put_back(job, inventory, tools, now)
        job = sent(job, move.perform, now)
        tools.save(job)
        for position in move.perform:
            job = _perform(job, position, target, tools, bmcs, inventory, now)
            tools.save(job)
    # Never in the tick that saw the last reset come: a reading has to be younger than what it proves.
    if not move.perform and current(job) is Stage.VERIFY and at is Stage.VERIFY:
        job = _final_look(job, target, tools, now)
        tools.save(job)
    if current(job) is None:
        job = replace(job, ended=True)
        tools.save(job)
        return job, _outcome(job)
    return job, Wait(delay=_delay(job, at, move, tools.patience), doing=doing(job))


def doing(job: Job) -> str:
    """What a job is at, in one line for people."""
    at = current(job)
    if at is None:
        return 'ended'
    if at is Stage.VERIFY:
        return 'verifying'
    busy = [i for i in job.items if i.state in (ItemState.SENT, ItemState.RUNNING)]
    names = [describe(i.action) + (f' {i.percent} %' if i.percent is not None else '') for i in busy]
    return f'{at.name.lower()}: {", ".join(names)}' if names else at.name.lower()


def _put_back(job: Job, inventory: Inventory, tools: Tools, now: datetime) -> tuple[Job, Outcome]:
    """Plan what is to be put back, by what is there now. It is stored before anything of it is done."""
    job = restore.put_back(job, inventory, tools.catalogue, now, tools.patience.settle)
    tools.save(job)
    if restore.due(job, now):
        return job, Wait(delay=tools.patience.poll, doing='waiting for a card to be shown again, to put back what was there')
    return job, Wait(delay=_NOW, doing=doing(job))


# ------------------------------------------------------------------------------------------------------------- looking


class _Bmcs:
    """The sessions of one tick, opened when first needed."""

    def __init__(self, target: Target, tools: Tools, stack: ExitStack) -> None:
        self._addresses = {b.name: b for b in target.bmcs}
        self._tools = tools
        self._stack = stack
        self._open: dict[BmcName, Connection] = {}

    def __getitem__(self, name: BmcName) -> Connection:
        if name not in self._open:
            if name not in self._addresses:
                raise BmcError(bmc=name, what='the target has no BMC of that name any more')
            self._open[name] = self._stack.enter_context(self._tools.connect(self._addresses[name]))
        return self._open[name]


@contextmanager
def _connections(target: Target, tools: Tools) -> Iterator[_Bmcs]:
    with ExitStack() as stack:
        yield _Bmcs(target, tools, stack)


def _read_locks(
    accelerator: Accelerator, looks: Iterable[Look], mechanisms: Iterable[Mechanism], now: datetime
) -> tuple[LockReading, ...]:
    names = {ref.bmc for ref in accelerator.refs}
    readers = [look.reader for look in looks if look.facts.name in names]
    readings = [r for m in mechanisms for r in m.read(accelerator, readers, now)]
    return tuple(sorted(readings, key=lambda r: (r.mechanism, r.ref, r.field)))


def _look(job: Job, bmcs: _Bmcs, now: datetime, patience: Patience) -> Sight:
    writes: dict[int, WriteSight] = {}
    resets: dict[int, bool | None] = {}
    # What the job has given up may still run: then it keeps the BMC from everything else, as an update of others does.
    own_tasks = {i.task for i in job.items if i.task is not None and not i.state.ended} | _stuck(job)
    asked: set[BmcName] = set()
    foreign: dict[BmcName, int] = {}
    at = current(job)
    for position, item in enumerate(job.items):
        action = item.action
        if isinstance(action, Flash | Program) and at is Stage.WRITE and not item.state.ended:
            name = action.ref.bmc
            if name not in asked:
                asked.add(name)
                foreign[name] = _foreign(bmcs, name, own_tasks)
            if item.state is not ItemState.PLANNED:
                stalled = stalls(item, now, patience)
                writes[position] = _write_sight(item, action, bmcs, busy=foreign[name] > 0, stalled=stalled)
        elif isinstance(action, Reset) and item.state is ItemState.RUNNING:
            resets[position] = _reset_came(item, action, bmcs)
    return Sight(writes=writes, resets=resets, foreign=foreign)


def _of_asked_bmcs(move: Move, sight: Sight) -> Move:
    """The move without writes to BMCs that were not asked whether they are busy: their stage has begun with this very tick."""

    def asked(position: int) -> bool:
        action = move.job.items[position].action
        return not isinstance(action, Flash | Program) or action.ref.bmc in sight.foreign

    return replace(move, perform=tuple(p for p in move.perform if asked(p)))


def _stuck(job: Job) -> set[Ref]:
    """Tasks that claim to run for ever, of writes whose device shows that they have ended well."""
    good = (ItemState.STAGED, ItemState.DONE)
    return {i.task for i in job.items if i.task is not None and i.stalled and i.state in good}


def _foreign(bmcs: _Bmcs, name: BmcName, own: set[Ref]) -> int:
    """How many tasks run that are not ours. A BMC that cannot be asked counts as busy."""
    try:
        return sum(1 for t in bmcs[name].active_tasks() if t.ref not in own)
    except AccError as exc:
        LOG.info('%s', exc)
        return UNASKED


def _write_sight(item: Item, action: Flash | Program, bmcs: _Bmcs, *, busy: bool, stalled: bool) -> WriteSight:
    try:
        bmc = bmcs[action.ref.bmc]
        task = bmc.task(item.task) if item.task is not None else None
        runs = task is not None and task.state is TaskState.ACTIVE
        if task is not None and (task.state is TaskState.FAILED or (runs and not stalled)):
            seen = Seen.WORKING if runs else Seen.FAILED
            return WriteSight(seen=seen, percent=task.percent, message=task.message)
        component = bmc.component(action.ref)
    except AccError as exc:
        return WriteSight(seen=Seen.SILENT, message=exc.message)
    seen = classify(
        task=None if task is None else task.state,
        version=component.version,
        staged=component.staged,
        wanted=action.version,
        busy=busy,
        before=action.expects,
        stalled=stalled,
    )
    return WriteSight(seen=seen, message=None if task is None else task.message, stalled=runs)


def _reset_came(item: Item, action: Reset, bmcs: _Bmcs) -> bool | None:
    """Whether a reset came; None: the BMC is silent."""
    try:
        bmc = bmcs[action.system.bmc]
        power = bmc.power(action.system)
        if action.purpose is ResetPurpose.HOLD:
            return power is PowerState.OFF
        if power is not PowerState.ON:
            return False
        return item.before is None or bmc.last_reset(action.system) not in (None, item.before)
    except AccError as exc:
        LOG.info('%s', exc)
        return None


# ---------------------------------------------------------------------------------------------------------- performing


def _needs_inventory(move: Move) -> bool:
    return any(isinstance(move.job.items[p].action, Release | Flash | Program | Engage) for p in move.perform)


def _blind(job: Job, move: Move, exc: AccError, tools: Tools, now: datetime) -> tuple[Job, Outcome]:
    """What is due needs a look, and there is none: wait for the BMC up to the deadline, then give these actions up."""
    LOG.warning('%s: %s', job.target, exc)
    # Once something was opened or written, there is no way but through: what fails for now may pass, up to the deadline.
    passes = exc.waiting_helps or (job.opened and isinstance(exc, BmcError))
    if not passes or now > job.deadline:
        for position in move.perform:
            job = ended(job, position, ItemState.FAILED, now, str(exc))
    tools.save(job)
    return job, Wait(delay=tools.patience.poll, doing=f'waiting: {exc.message}')


def _perform(
    job: Job, position: int, target: Target, tools: Tools, bmcs: _Bmcs, inventory: Inventory | None, now: datetime
) -> Job:
    """Do one action that was stored as about to be done."""
    item = job.items[position]
    try:
        match item.action:
            case Withdraw() as action:
                if tools.placement is not None:
                    tools.placement.withdraw(action.accelerators)
            case CheckImage() as action:
                tools.images.open(_image(tools, action.image))
            case Release() as action:
                return _release(job, position, action, tools, bmcs, inventory, now)
            case Engage() as action:
                return _engage(job, position, action, tools, bmcs, inventory, now)
            case Flash() | Program() as action:
                return _write(job, position, action, tools, bmcs, inventory, now)
            case Reset() as action:
                return _reset(job, position, action, target, tools, bmcs, now)
            case Publish():
                return _publish(job, position, target, tools, now)
    except AccError as exc:
        return _not_performed(job, position, exc, tools.patience, now)
    return ended(job, position, ItemState.DONE, now)


def _not_performed(job: Job, position: int, exc: AccError, patience: Patience, now: datetime) -> Job:
    """An action that can be repeated without harm is tried again while waiting can help; else it has failed."""
    item = job.items[position]
    LOG.warning('%s: %s: %s', job.target, describe(item.action), exc)
    repeats = not isinstance(item.action, Flash | Program) and _passes(item.action, exc)
    # A BMC that says what it is busy with is waited for as long as that may take; one that is away up to the deadline.
    away = isinstance(exc, BmcUnreachable | BmcNotAuthorised | BmcAnswerInvalid) and job.opened
    if repeats and (away or now - item.since <= patience.reset) and now <= job.deadline:
        return _with(job, position, replace(item, message=str(exc)))
    return ended(job, position, ItemState.FAILED, now, str(exc))


def _passes(action: Action, exc: AccError) -> bool:
    """What fails now may succeed later. A BMC that restarts refuses logins, or what it is asked for, for a while."""
    if exc.waiting_helps or isinstance(exc, BmcNotAuthorised | BmcAnswerInvalid):
        return True
    return isinstance(action, Engage) and isinstance(exc, BmcError) and not isinstance(exc, BmcUnsupported)


def _reading_at(
    action: Release | Engage, tools: Tools, inventory: Inventory | None
) -> tuple[Mechanism | None, LockReading | None]:
    """The mechanism and the present reading of the very place and card that an action is for."""
    mechanism = next((m for m in tools.mechanisms if m.name == action.mechanism), None)
    accelerator = None if inventory is None else inventory.accelerator(action.accelerator)
    readings = () if accelerator is None else accelerator.locks
    wanted = (action.mechanism, action.ref, action.field)
    return mechanism, next((r for r in readings if r.place == wanted), None)


def _release(
    job: Job, position: int, action: Release, tools: Tools, bmcs: _Bmcs, inventory: Inventory | None, now: datetime
) -> Job:
    mechanism, reading = _reading_at(action, tools, inventory)
    if mechanism is None or reading is None:
        return ended(job, position, ItemState.FAILED, now, _NOT_SHOWN)
    running = _host_runs(job, inventory)
    if running is not None:
        return ended(job, position, ItemState.FAILED, now, running)
    if reading.value != action.expects and reading.state is not LockState.UNLOCKED:
        found = f'{action.expects} was planned with, {reading.value} is there now'
        return ended(job, position, ItemState.FAILED, now, found)
    # Whatever we proved before is void from here on, also if we die before the answer.
    job = replace(job, engagements=tuple(e for e in job.engagements if e.place != reading.place))
    tools.save(job)
    try:
        mechanism.release(bmcs[action.ref.bmc].writer(), reading)
    except AccError as exc:
        return _not_performed(job, position, exc, tools.patience, now)
    return ended(job, position, ItemState.DONE, now)


def _engage(
    job: Job, position: int, action: Engage, tools: Tools, bmcs: _Bmcs, inventory: Inventory | None, now: datetime
) -> Job:
    mechanism, reading = _reading_at(action, tools, inventory)
    if reading is None and mechanism is not None and now <= job.deadline:
        item = job.items[position]
        if now - item.since <= tools.patience.settle:
            # A card that has just been written, or a BMC that has just started, takes its time to show itself again.
            return _with(job, position, replace(item, message=_NOT_SHOWN))
    if mechanism is None or reading is None:
        # Where the baseline allows what no mechanism blocks, the verdict would not notice.
        job = replace(job, reasons=(*job.reasons, f'{describe(action)}: {_NOT_SHOWN}'))
        return ended(job, position, ItemState.FAILED, now, _NOT_SHOWN)
    writer = bmcs[action.ref.bmc].writer()
    mechanism.engage(writer, reading)
    record = Engagement(
        mechanism=action.mechanism,
        accelerator=action.accelerator,
        ref=action.ref,
        field=action.field,
        lifecycle=job.lifecycle,
        flow=job.flow,
        session=writer.session,
        at=now,
        part=reading.part,
        needs=action.needs,
        reset=reading.reset,
    )
    # One lock may protect several devices: each has a record of its own.
    others = tuple(e for e in job.engagements if (e.place, e.accelerator) != (record.place, record.accelerator))
    return ended(replace(job, engagements=(*others, record)), position, ItemState.DONE, now)


def _write(
    job: Job,
    position: int,
    action: Flash | Program,
    tools: Tools,
    bmcs: _Bmcs,
    inventory: Inventory | None,
    now: datetime,
) -> Job:
    moved = _moved(action, inventory) or _host_runs(job, inventory)
    item = job.items[position]
    found = _found(action, inventory)
    if item.restoring and found is not None and not _same(found.version, action.expects) and _host_runs(job, inventory) is None:
        # What a failed write has left may still change: it is put back from what is there now, and that is stored first.
        return _with(job, position, replace(item, state=ItemState.PLANNED, action=replace(action, expects=found.version)))
    hidden = _hidden(action, inventory) if found is None else None
    if hidden is not None and now <= job.deadline:
        return _with(job, position, replace(item.to(ItemState.PLANNED, now), message=hidden))
    if moved is not None:
        return ended(job, position, ItemState.FAILED, now, moved, untouched=True)
    try:
        upload = tools.images.open(_image(tools, action.image))
    except AccError as exc:
        return ended(job, position, ItemState.FAILED, now, str(exc), untouched=True)
    try:
        task = bmcs[action.ref.bmc].push(action.ref, upload)
    except BmcBusy as exc:
        return _with(job, position, item.to(ItemState.PLANNED, now, exc.message))
    except ImageError as exc:
        # It changed while it was sent: what has arrived is not what was checked.
        return ended(job, position, ItemState.FAILED, now, str(exc))
    except AccError as exc:
        LOG.warning('%s: %s: %s', job.target, describe(action), exc)
        if _took_nothing(exc):
            return ended(job, position, ItemState.FAILED, now, str(exc), untouched=True)
        # Whether it arrived is unknown: it stays as sent, and the next look decides.
        return _with(job, position, replace(item, message=exc.message))
    LOG.info('%s: %s: sent, task %s', job.target, describe(action), None if task is None else task.ref)
    running = replace(item.to(ItemState.RUNNING, now), task=None if task is None else task.ref)
    return _with(job, position, running)


def _hidden(action: Flash | Program, inventory: Inventory | None) -> str | None:
    """Why nobody can tell whether the device is there: parts of what its BMC shows could not be read just now."""
    gaps = () if inventory is None else inventory.gaps
    return next((g.reason for g in gaps if g.ref.bmc == action.ref.bmc and g.hides), None)


def _took_nothing(exc: AccError) -> bool:
    """The BMC has said that it does not want the image, or was never sent it."""
    if isinstance(exc, BmcRefused):
        return exc.status is None or exc.status < 500
    return not isinstance(exc, BmcUnreachable | BmcAnswerInvalid)


def _host_runs(job: Job, inventory: Inventory | None) -> str | None:
    """Why nothing may be opened or written: a host that this job powered off is on again. None when it is off, or not held."""
    for item in job.items:
        if isinstance(item.action, Reset) and item.action.purpose is ResetPurpose.HOLD:
            facts = None if inventory is None else inventory.bmc(item.action.system.bmc)
            if facts is None or facts.system != item.action.system or facts.power is not PowerState.OFF:
                return f'the host was powered off, and is {"unknown" if facts is None else facts.power} now'
    return None


def _moved(action: Flash | Program, inventory: Inventory | None) -> str | None:
    """Why the device is not what the plan saw, or None when it is."""
    if inventory is None or inventory.accelerator(action.accelerator) is None:
        return 'the card is not there any more'
    found = _found(action, inventory)
    if found is None:
        return f'{action.ref} does not belong to this card any more'
    if not _same(found.version, action.expects):
        return f'version {action.expects} was planned with, {found.version} is there now'
    return None


def _found(action: Flash | Program, inventory: Inventory | None) -> Component | None:
    """What an action is for, as it is now."""
    accelerator = None if inventory is None else inventory.accelerator(action.accelerator)
    if accelerator is None:
        return None
    if isinstance(action, Flash):
        items = accelerator.firmware
    else:
        items = tuple(s.item for s in accelerator.slots if s.slot_id == action.slot and s.item is not None)
    return next((c for c in items if c.ref == action.ref), None)


def _same(one: str | None, other: str | None) -> bool:
    return one == other or same_version(one, other)


def _reset(job: Job, position: int, action: Reset, target: Target, tools: Tools, bmcs: _Bmcs, now: datetime) -> Job:
    item = job.items[position]
    bmc = bmcs[action.system.bmc]
    match action.purpose:
        case ResetPurpose.HOLD:
            _wait_for_updates(bmc, action, _stuck(job))
            _power(bmc, action, PowerState.OFF, tools)
        case ResetPurpose.RESUME:
            still_open = _open_locks(job, target, tools, now)
            if still_open:
                if job.opened and bmc.power(action.system) is not PowerState.OFF:
                    _power(bmc, action, PowerState.OFF, tools)
                reason = 'the host stays powered off: ' + '; '.join(str(f) for f in still_open)
                return ended(job, position, ItemState.FAILED, now, reason)
            _wait_for_updates(bmc, action, _stuck(job))
            _power(bmc, action, PowerState.ON, tools)
        case ResetPurpose.ENFORCE if bmc.power(action.system) is PowerState.OFF:
            _power(bmc, action, PowerState.ON, tools)
        case ResetPurpose.ENFORCE if item.before is None:
            _wait_for_updates(bmc, action, _stuck(job))
            last = bmc.last_reset(action.system)
            if last is None:
                # Nothing would show that a reset came, so the System is seen off and then on.
                if now - item.since > tools.patience.reset or now > job.deadline + tools.patience.reset:
                    return ended(job, position, ItemState.FAILED, now, f'did not power off within {tools.patience.reset}')
                if bmc.power(action.system) is not PowerState.POWERING_OFF:
                    _power(bmc, action, PowerState.OFF, tools)
                return job
            item = replace(item, before=last)
            tools.save(_with(job, position, item))
            try:
                bmc.reset(action.system, action.kind)
            except BmcUnreachable as exc:
                # Whether it arrived shows in LastResetTime; a second reset could meet a card that applies its firmware.
                LOG.warning('%s: %s: %s', job.target, describe(action), exc)
    return _with(job, position, item.to(ItemState.RUNNING, now))


def _power(bmc: Connection, action: Reset, wanted: PowerState, tools: Tools) -> None:
    bmc.set_power(action.system, wanted)
    tools.power_changed(action.system, wanted)


def _wait_for_updates(bmc: Connection, action: Reset, stuck: set[Ref]) -> None:
    """No power is cut while the BMC writes to something, be it ours or another's.

    :param stuck: tasks that claim to run, and whose devices show that they have ended.
    :raises BmcBusy: it does.
    """
    active = [t for t in bmc.active_tasks() if t.ref not in stuck]
    if active:
        what = f'task {active[0].ref.uri} still runs ({active[0].raw}): {action.system.uri} is not reset under it'
        raise BmcBusy(bmc=action.system.bmc, what=what)


def _open_locks(job: Job, target: Target, tools: Tools, now: datetime) -> tuple[Finding, ...]:
    """The locks that do not hold, read over fresh sessions: with one of them open the host must not run."""
    _, verdict = check(target, tools, job.engagements, now + timedelta(microseconds=1), lifecycle=job.lifecycle)
    return unprotected(verdict)


def unprotected(verdict: Verdict) -> tuple[Finding, ...]:
    """Locks that do not hold, and devices that nobody could ask: whoever is not seen is not locked."""
    return tuple(f for f in verdict.unmet if f.subject == 'present' or f.subject.startswith(('lock ', 'rule ')))


def _publish(job: Job, position: int, target: Target, tools: Tools, now: datetime) -> Job:
    if tools.placement is None:
        return ended(job, position, ItemState.DONE, now)
    if job.reasons:
        return _offer_nothing(job, position, tools.placement, now)
    inventory, verdict = check(target, tools, job.engagements, now, lifecycle=job.lifecycle, flow=_strict(job))
    functions = functions_in_play(inventory, verdict, tools.baseline, target.node, tools.catalogue)
    tools.placement.publish(inventory, verdict, functions)
    if job.demands_met and verdict.unmet:
        unmet = '; '.join(str(f) for f in verdict.unmet)
        return ended(job, position, ItemState.FAILED, now, f'since the final look something has changed: {unmet}')
    return ended(job, position, ItemState.DONE, now)


def _offer_nothing(job: Job, position: int, placement: PlacementShell, now: datetime) -> Job:
    """After a failure nothing of the node is offered: not the cards that failed, nor those that have vanished since."""
    try:
        placement.withdraw(None)
    except AccError as exc:
        return ended(job, position, ItemState.FAILED, now, str(exc))
    return ended(job, position, ItemState.DONE, now)


def _final_look(job: Job, target: Target, tools: Tools, now: datetime) -> Job:
    """The verdict of a job. A device that has just been written may take its time to show itself again.

    What shows something else than was written is put back, if that can be done and was not done before: then there is no
    verdict yet.
    """
    last = max((i.since for i in job.items), default=job.created)
    patient = now - last <= tools.patience.settle and now <= job.deadline
    try:
        inventory, verdict = check(target, tools, job.engagements, now, lifecycle=job.lifecycle, flow=_strict(job))
    except AccError as exc:
        ride_out = job.writing and isinstance(exc, BmcError) and now <= job.deadline
        if ride_out or (patient and exc.waiting_helps):
            return job
        return _unseen(job, exc)
    wrote = any(isinstance(i.action, Flash | Program | Reset) and i.state is not ItemState.SKIPPED for i in job.items)
    still_open = unprotected(verdict)
    # Why it failed is known; what is still open besides must be known too, the rest would only repeat the cause.
    unmet = verdict.unmet if not job.reasons else still_open if job.writing else ()
    wrong = restore.wrong(job, inventory)
    if patient and wrote and (wrong or any(_may_settle(f) for f in unmet)):
        return job
    for position, found in wrong.items():
        job = ended(job, position, ItemState.FAILED, now, found)
    if wrong and not job.second and restore.due(job, now):
        return replace(job, second=True)
    tools.observed(inventory, verdict)
    reasons = [str(f) for f in unmet] if job.demands_met else []
    reasons += _left_open(job, inventory, still_open if job.demands_met else ())
    if still_open:
        reasons += _taken_back(job, target, tools)
    end = restore.judge(job, inventory)
    return replace(
        job,
        verdict=verdict,
        reasons=tuple(dict.fromkeys((*job.reasons, *reasons, *end.restored, *end.why))),
        quarantined=end.quarantined,
    )


def _unseen(job: Job, exc: AccError) -> Job:
    """The verdict where nothing can be looked at: nothing that was written or opened is known to be as it should."""
    end = restore.judge(job, None)
    open_ones = [f'{describe(a)}: nobody could see whether it is closed again' for a in _to_be_closed(job)]
    reasons = (*job.reasons, f'the final look failed: {exc}', *open_ones, *end.why)
    lost = Verdict(target=job.target, findings=())
    return replace(job, verdict=lost, reasons=tuple(dict.fromkeys(reasons)), quarantined=end.quarantined)


def _to_be_closed(job: Job) -> tuple[Release, ...]:
    """Locks that this job released, or may have, and was to engage again: also those that the baseline does not ask for."""
    engaged = {(a.mechanism, a.ref, a.field) for i in job.items if isinstance(a := i.action, Engage)}
    released = (i.action for i in job.items if isinstance(i.action, Release) and i.state.begun)
    return tuple(dict.fromkeys(a for a in released if (a.mechanism, a.ref, a.field) in engaged))


def _left_open(job: Job, inventory: Inventory, told: Iterable[Finding]) -> Iterator[str]:
    """Locks that this job released, was to engage again and left open.

    :param told: what the reasons say of open locks anyway.
    """
    known = {f.accelerator for f in told}
    for action in _to_be_closed(job):
        if action.accelerator in known:
            continue
        place = (action.mechanism, action.ref, action.field)
        accelerator = inventory.accelerator(action.accelerator)
        states = {r.state for r in accelerator.locks if r.place == place} if accelerator is not None else set()
        if states != {LockState.LOCKED_REPORTED}:
            yield f'{describe(action)}: it is not closed again: {", ".join(sorted(states)) or "not shown any more"}'


def _taken_back(job: Job, target: Target, tools: Tools) -> Iterator[str]:
    """A host that was given back, and lost a lock by that, is powered off again: its code must not meet what we opened."""
    given = [
        i.action
        for i in job.items
        if isinstance(i.action, Reset) and i.action.purpose is ResetPurpose.RESUME and i.state is ItemState.DONE
    ]
    for action in given if job.opened else ():
        try:
            with _connections(target, tools) as bmcs:
                _power(bmcs[action.system.bmc], action, PowerState.OFF, tools)
        except AccError as exc:
            yield f'the host runs, and could not be powered off again: {exc}'
        else:
            yield 'the host was powered off again'


def _may_settle(finding: Finding) -> bool:
    """The truth may still change by itself: a version or a card that is not back yet, a lock that could not be read."""
    return finding.state in (None, LockState.UNKNOWN, LockState.UNSUPPORTED)


def _strict(job: Job) -> Flow | None:
    """A deploy takes only evidence of its own flow."""
    return Flow.DEPLOY if job.flow is Flow.DEPLOY else None


def _outcome(job: Job) -> Outcome:
    if job.reasons:
        wrote = any(i.state.begun and not i.untouched and isinstance(i.action, Flash | Program) for i in job.items)
        return Failed(reasons=job.reasons, wrote=wrote, verdict=job.verdict, quarantined=job.quarantined)
    return Done(verdict=job.verdict)


def _delay(job: Job, before: Stage | None, move: Move, patience: Patience) -> timedelta:
    """No time when something can be done at once: nothing is under way, and this tick did something or changed the stage."""
    under_way = any(i.state in (ItemState.SENT, ItemState.RUNNING) for i in job.items)
    did = any(job.items[p].state.ended for p in move.perform)
    return _NOW if (did or current(job) is not before) and not under_way else patience.poll


def _with(job: Job, position: int, item: Item) -> Job:
    return replace(job, items=(*job.items[:position], item, *job.items[position + 1 :]))


def _image(tools: Tools, name: str) -> Image:
    found = next((i for i in tools.catalogue if i.name == name), None)
    if found is None:
        raise AccError(f'image {name} is not in the catalogue any more')
    return found

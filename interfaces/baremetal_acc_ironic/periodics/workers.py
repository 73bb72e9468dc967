# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Share the conductor's workers among the turns of our jobs and watch rounds: periodics hand out turns, workers run them.

A periodic that asked one BMC after the other would let a silent one delay all nodes of a conductor. So a periodic asks none:
each turn goes to a worker of Ironic's pool, at most our share of the workers at a time, and nodes that have waited longest come
first. A node whose turn still runs gets no second one. Where no worker is free, the turn comes with the next round. Within a
turn no further read waits for a BMC that was silent once.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from ironic.common import exception
from ironic.conductor import task_manager
from oslo_log import log

from baremetal_acc.bmc.driver import BmcAddress, Connection
from baremetal_acc.config.options import GROUP
from baremetal_acc.errors import BmcUnreachable
from baremetal_acc_ironic import opts, settings
from baremetal_acc_ironic.state import node_store

LOG = log.getLogger(__name__)

FORGOTTEN = 3600.0
"""Seconds after which a node's last turn no longer counts: a node that has waited that long comes first anyway."""

T = TypeVar('T')

Turn = Callable[[Any], None]


class Workers:
    """The workers of one conductor that run our turns."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._busy: dict[str, bool] = {}
        self._turned: dict[str, float] = {}
        self._leader: type | None = None

    def led_by(self, interface: Any) -> bool:
        """Whether the periodics of this interface hand out the turns of all our interfaces: those of the first caller do.

        Each enabled interface has its own periodics. If each handed out turns for its own nodes, those of the interface that
        always comes second would find no worker while the other one has enough to do.
        """
        with self._guard:
            self._leader = self._leader or type(interface)
            return self._leader is type(interface)

    def hand_out(
        self,
        manager: Any,
        context: Any,
        nodes: Iterable[str],
        turn: Turn,
        purpose: str,
        *,
        watching: bool = False,
    ) -> None:
        """Begin the turns of nodes that have one of our firmware interfaces, as far as there are workers.

        :param watching: the turns usually only read: they share the node's lock, and have a smaller share of the workers.
        """
        waiting = self._in_order(nodes)
        for uuid in waiting:
            if uuid in self._busy:
                continue
            if watching and sum(self._busy.copy().values()) >= share_of_watch():
                LOG.info('Nodes that wait for a worker for %s: %d ([%s] watch_share is in use)', purpose, len(waiting), GROUP)
                return
            if len(self._busy) >= share():
                LOG.info('Nodes that wait for a worker for %s: %d ([%s] worker_share is in use)', purpose, len(waiting), GROUP)
                return
            try:
                self._begin(manager, context, uuid, turn, purpose, watching=watching)
            except exception.NodeNotFound:
                LOG.info('Node %s was deleted before %s', uuid, purpose)
            except exception.NodeLocked:
                LOG.debug('Node %s is locked: %s waits', uuid, purpose)
            except exception.NoFreeConductorWorker:
                LOG.warning('No worker of Ironic is free for %s: the next round retries', purpose)
                return
            except exception.IronicException:
                # One node whose driver cannot be loaded must not end the round for the others.
                LOG.exception('Node %s: %s could not begin', uuid, purpose)

    def _in_order(self, nodes: Iterable[str]) -> list[str]:
        """Return the nodes that have waited longest first."""
        now = time.monotonic()
        with self._guard:
            self._turned = {uuid: at for uuid, at in self._turned.items() if now - at < FORGOTTEN}
            return sorted(nodes, key=lambda uuid: self._turned.get(uuid, float('-inf')))

    def _begin(self, manager: Any, context: Any, uuid: str, turn: Turn, purpose: str, *, watching: bool) -> None:
        marked = begun = False
        try:
            with task_manager.acquire(context, uuid, purpose=purpose, shared=True) as task:
                if task.node.firmware_interface not in opts.HARDWARE_TYPES:
                    return
                if not watching:
                    # Do not wait for a locked node: the others would wait, too.
                    task.upgrade_lock(retry=False)
                with self._guard:
                    self._busy[uuid] = watching
                    self._turned[uuid] = time.monotonic()
                marked = True
                task.spawn_after(manager._spawn_worker, self._take, uuid, turn, task, _allow_reserved_pool=False)
            begun = True
        finally:
            if marked and not begun:  # else another turn of the node may run, and the mark belongs to that one
                self._leave(uuid)

    def _take(self, uuid: str, turn: Turn, task: Any) -> None:
        """Run a turn; this is what the worker calls."""
        try:
            turn(task)
        except exception.NodeLocked as exc:
            LOG.warning('Node %s was taken over by another conductor while its turn stalled here: %s', uuid, exc)
        finally:
            self._leave(uuid)

    def _leave(self, uuid: str) -> None:
        with self._guard:
            self._busy.pop(uuid, None)


_CONDUCTORS: 'WeakKeyDictionary[Any, Workers]' = WeakKeyDictionary()


def workers(manager: Any) -> Workers:
    """Return the workers of one conductor; all our periodics share them."""
    return _CONDUCTORS.setdefault(manager, Workers())


def share() -> int:
    """Return how many workers may run our turns at a time."""
    return max(1, int(settings.ironic().workers_pool_size * settings.guest().worker_share))


def share_of_watch() -> int:
    """Return how many of them may run rounds of the watch at a time."""
    return max(1, int(settings.ironic().workers_pool_size * settings.guest().watch_share))


def with_jobs(manager: Any, provision_states: Iterable[str]) -> list[str]:
    """Return this conductor's nodes in these states that are not locked, and that have a job of ours."""
    filters = {'reserved': False, 'provision_state_in': list(provision_states)}
    found = manager.iter_nodes(filters=filters, fields=['driver_internal_info'])
    return [uuid for uuid, _driver, _group, info in found if node_store.busy(info)]


# ------------------------------------------------------------------------------------------------------ a turn's deadline


class TurnClock:
    """The time limit of a turn, the BMCs that were silent in it, and whether this conductor still holds the node.

    Past the limit no further tick is begun, and reads get no more time than one answer may take. What must be done at once,
    such as powering off a host whose locks are open, is still tried: to forbid it would be worse than a turn that is late.

    :param limit: how long the turn may take.
    :param held: raises once this conductor does not hold the node any more; called before every write.
    """

    def __init__(self, limit: timedelta, held: Callable[[], None] = lambda: None) -> None:
        self._held = held
        self._one_asks = threading.Lock()
        self._end = time.monotonic() + limit.total_seconds()
        self._silent: dict[str, BmcUnreachable] = {}

    @property
    def over(self) -> bool:
        """Whether the turn has used up its time: the job continues with the next one."""
        return time.monotonic() >= self._end

    def held(self) -> None:
        """Raise if this conductor does not hold the node any more.

        Several BMCs of a node are asked in parallel, and a node's database session is for one thread at a time.
        """
        with self._one_asks:
            self._held()

    def connecting(self, connect: Callable[[BmcAddress], Connection]) -> Callable[[BmcAddress], Connection]:
        """Wrap ``connect`` for this turn: no further connection or read waits for a BMC that was silent once."""

        def bounded(address: BmcAddress) -> Connection:
            left = timedelta(seconds=self._end - time.monotonic())
            short = replace(address, budget=min(address.budget, max(left, address.timeout)))
            connection = self.ask(address, lambda: connect(short))
            return cast(Connection, _Bounded(connection, address, self))

        return bounded

    def ask(self, address: BmcAddress, question: Callable[[], T]) -> T:
        """Return the answer; once a BMC was silent, that error is raised at once from then on.

        :raises BmcError: there is no answer.
        """
        if address.name in self._silent:
            raise self._silent[address.name]
        try:
            return question()
        except BmcUnreachable as exc:
            self._silent[address.name] = exc
            raise


def clock_of(task: Any) -> TurnClock:
    """Return the clock of a turn that begins now, for the node of a task."""
    return TurnClock(settings.guest().turn_timeout, held=lambda: node_store.held(task.node))


_READS = frozenset(
    {
        'look',
        'ownership',
        'glance',
        'read_ahead',
        'deferred',
        'component',
        'task',
        'active_tasks',
        'tasks',
        'update_activity',
        'power',
        'offers_reset',
        'host',
        'last_reset',
        'managers',
    }
)

_NEITHER = frozenset({'address', 'session', 'close'})
"""Neither reads nor writes; everything else writes."""


class _Bounded:
    """A connection that remembers its BMC's silence, and writes only while this conductor holds the node.

    A remembered silence never answers a write: one that was not sent must not look like one that was.
    """

    def __init__(self, connection: Connection, address: BmcAddress, clock: TurnClock) -> None:
        self._connection = connection
        self._address = address
        self._clock = clock

    def __enter__(self) -> '_Bounded':
        self._connection.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.__exit__(*exc)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name in _NEITHER:
            return found
        if name not in _READS:
            return lambda *arguments, **named: self._write(lambda: found(*arguments, **named))
        return lambda *arguments, **named: self._clock.ask(self._address, lambda: found(*arguments, **named))

    def _write(self, write: Callable[[], Any]) -> Any:
        self._clock.held()
        return write()

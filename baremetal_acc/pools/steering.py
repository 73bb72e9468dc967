# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep the pools filled: read the nodes, plan moves and execute them, once or round after round.

An error ends only its own round: it is reported, and the next round comes a little later.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from baremetal_acc.errors import AccError
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal
from baremetal_acc.pools.ironic import IronicApi
from baremetal_acc.pools.journal import Entry, MoveJournal
from baremetal_acc.pools.moves import Ended, Mover
from baremetal_acc.pools.nodes import fleet
from baremetal_acc.pools.state_machine import Act
from baremetal_acc.scheduling.pool_plan import plan
from baremetal_acc.scheduling.pools import Demand, PoolMachine, PoolPlan, Pools, RegionMove

Source = Callable[[Sequence[PoolMachine], datetime, timedelta], Iterable[Demand]]
"""Returns the demands that wait, by the present machines: arguments are the machines, the time, and how long a demand waits."""

TRIED = timedelta(minutes=10)
"""How long a machine is left alone after a move of it that was not done."""

MOST_BACKED_OFF = 8
"""After failed rounds the interval is multiplied by the number of failures in a row, up to this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReading:
    """The machines that a round read, and the plan for them."""

    machines: tuple[PoolMachine, ...]
    plan: PoolPlan
    at: datetime


@dataclass(slots=True, kw_only=True)
class Steering:
    """Steers the pools of one fleet.

    :ivar pools: reads the pool file, in each round again: a changed file takes effect with the next round.
    :ivar sources: return the waiting demands.
    :ivar called: tells whether a demand was submitted since the last round.
    :ivar say: is called with a line for each event; ``warn`` with a line for each that needs attention.
    """

    ironic: IronicApi
    shelf: NodeWithdrawal
    journal: MoveJournal
    pools: Callable[[], Pools]
    say: Callable[[str], None]
    warn: Callable[[str], None]
    sources: Sequence[Source] = ()
    called: Callable[[], bool] = lambda: False
    poll: timedelta = timedelta(seconds=2)
    settles: timedelta = timedelta(minutes=2)
    stop: threading.Event = field(default_factory=threading.Event)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _tried: dict[str, tuple[datetime, str]] = field(default_factory=dict)

    def look(self) -> PoolReading:
        """Read the machines and plan moves. Writes nothing.

        :raises AccError: Ironic, placement, the journal or a file cannot be read.
        """
        pools = self.pools()
        moves = {e.move.machine: e.move for e in self.journal.read()}
        return self._plan(pools, fleet(self.ironic, self.shelf.busy, moves))

    def _plan(self, pools: Pools, machines: tuple[PoolMachine, ...]) -> PoolReading:
        at = self.now()
        demands = [d for source in self.sources for d in source(machines, at, pools.demand_lasts)]
        return PoolReading(machines=machines, plan=plan(machines, pools, demands, at), at=at)

    def apply(self) -> tuple[PoolReading, tuple[Ended, ...]]:
        """Resume the moves that another process has left, then execute one plan to its end.

        :raises Refused: another process moves machines.
        :raises AccError: as for :meth:`look`; no new move was begun then.
        """
        with self.journal.alone():
            pools = self.pools()
            entries = self.journal.read()
            mover = self._mover(pools)
            with ThreadPoolExecutor(max_workers=max(1, len(entries))) as workers:
                left = self._heard(workers.map(mover.resume, entries))
            look = self.look()
            with ThreadPoolExecutor(max_workers=max(1, len(look.plan.moves))) as workers:
                done = self._heard(workers.map(mover.begin, look.plan.moves))
            return look, (*left, *done)

    def _heard(self, results: Iterator[Ended]) -> tuple[Ended, ...]:
        """Return the results of moves in their order. On Ctrl-C the moves stop where they are, and stay stored."""
        found = []
        try:
            for ended in results:
                self.say(str(ended))
                found.append(ended)
        except BaseException:
            self.stop.set()
            raise
        return tuple(found)

    def watch(self, interval: timedelta) -> None:
        """Plan and move, round after round, until :attr:`stop` is set. Moves that are under way stay stored for a later call.

        :raises Refused: another process moves machines.
        :raises AccError: the journal or the pool file cannot be read at the start.
        """
        with self.journal.alone():
            pools = self.pools()
            running: dict[str, Future[Ended]] = {}
            moves: dict[str, RegionMove] = {}
            with ThreadPoolExecutor(max_workers=256) as workers:
                mover = self._mover(pools)
                for entry in self.journal.read():
                    self._begin(workers, running, moves, mover, entry)
                failed, told = 0, frozenset[str]()
                while not self.stop.is_set():
                    try:
                        told = self._round(workers, running, moves, told)
                        failed = 0
                    except AccError as exc:
                        failed = min(failed + 1, MOST_BACKED_OFF)
                        self.warn(f'this round failed: {exc}')
                    self._rest(interval * max(1, failed), running)
            for name in sorted(m.name for m in moves.values()):
                self.say(f'{name}: still under way, the next pool apply --execute or pool watch resumes it')

    def _round(
        self, workers: ThreadPoolExecutor, running: dict[str, Future[Ended]], moves: dict[str, RegionMove], told: frozenset[str]
    ) -> frozenset[str]:
        """Execute one round: collect the moves that ended, plan, and begin new moves.

        :returns: the goals that are not reached, as they were reported.
        """
        for uuid in [u for u, f in running.items() if f.done()]:
            ended = running.pop(uuid).result()
            del moves[uuid]
            if ended.act is not Act.DONE:
                self._tried[uuid] = (self.now(), ended.why)
            (self.say if ended.act is not None else self.warn)(str(ended))
        self._tried = {uuid: (at, why) for uuid, (at, why) in self._tried.items() if self.now() - at < TRIED}
        pools = self.pools()
        mover = self._mover(pools)
        for entry in self.journal.read():
            # A move that is not done, and that its call has given up waiting for.
            if entry.move.machine not in moves and entry.move.machine not in self._tried:
                self._begin(workers, running, moves, mover, entry)
        look = self._plan(pools, tuple(self._rested(m) for m in fleet(self.ironic, self.shelf.busy, dict(moves))))
        short = frozenset(map(str, look.plan.short))
        for line in sorted(short - told):
            self.say(line)
        for move in look.plan.moves:
            if not self.stop.is_set():
                self._begin(workers, running, moves, mover, move)
        return short

    def _rested(self, machine: PoolMachine) -> PoolMachine:
        """Mark a machine as busy whose last move was not done, so that it is not retried at once; its functions still count."""
        if machine.busy is not None or machine.uuid not in self._tried:
            return machine
        return replace(machine, busy=f'last move of it did not succeed: {self._tried[machine.uuid][1]}', passing=True)

    def _begin(
        self,
        workers: ThreadPoolExecutor,
        running: dict[str, Future[Ended]],
        moves: dict[str, RegionMove],
        mover: Mover,
        what: Entry | RegionMove,
    ) -> None:
        move = what.move if isinstance(what, Entry) else what
        for change in move.changes:
            was = change.was or 'no known function'
            self.say(f'{move.name}: {change.slot_id} gets {change.function} instead of {was}, for {change.why}')
        moves[move.machine] = move
        running[move.machine] = (
            workers.submit(mover.resume, what) if isinstance(what, Entry) else workers.submit(mover.begin, what)
        )

    def _rest(self, interval: timedelta, running: dict[str, Future[Ended]]) -> None:
        """Wait until the next round is due, or until a move has ended or a demand was submitted."""
        end = self.now() + interval
        while not (self.stop.is_set() or self.now() >= end or self.called() or any(f.done() for f in running.values())):
            self.stop.wait(min(interval.total_seconds(), 0.5))

    def _mover(self, pools: Pools) -> Mover:
        return Mover(
            self.ironic,
            self.shelf,
            self.journal,
            say=self.say,
            lasts=pools.move_lasts,
            stop=self.stop,
            poll=self.poll,
            settles=self.settles,
            now=self.now,
        )

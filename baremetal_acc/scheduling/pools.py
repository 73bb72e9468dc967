# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Types of the FPGA pool planner (machines, regions, pools, demands, plans), and the parser of the pool file.

A pool says how many regions with a function should be free to claim. A demand is a request for a function that found none. To
program a region, its whole machine is withdrawn from placement for a while; so a plan lists machines, each with all changes to
it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from baremetal_acc.model import toml
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.scheduling.reshape import node_class

FORMAT = 1

REST = timedelta(hours=1)
"""How long a region is left alone after a change, if the file does not say."""

DEMAND_LASTS = timedelta(minutes=15)
"""How long a demand counts, if the file does not say."""

MOVE_LASTS = timedelta(hours=4)
"""How long a move may take, if the file does not say: one cleaning, and another one that restores the machine."""

AT_A_TIME = 4
"""How many machines may be withdrawn from placement at a time, if the file does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How many regions with one function should be free.

    :ivar free: the goal.
    :ivar spare: how many more regions it keeps before it gives any to another pool.
    :ivar resource_class: of the machines that count, a shell pattern, case ignored; None: all.
    :ivar owner: of the machines that count, likewise.
    :ivar at_a_time: how many machines may be withdrawn from placement for the pool at a time; None: as many as for all.
    """

    name: str
    function: str
    free: int
    spare: int = 0
    resource_class: str | None = None
    owner: str | None = None
    at_a_time: int | None = None

    def counts(self, machine: 'PoolMachine') -> bool:
        """Whether the regions of this machine belong to the pool."""
        return _like(machine.resource_class, self.resource_class) and _like(machine.owner, self.owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The contents of a pool file.

    :ivar rest: how long a region is left alone after it was changed.
    :ivar demand_lasts: how long a demand counts.
    :ivar at_a_time: how many machines may be withdrawn from placement at a time.
    :ivar move_lasts: how long a move may take before the planner no longer waits for it, and reports that it is not done.
    """

    pools: tuple[Pool, ...]
    rest: timedelta = REST
    demand_lasts: timedelta = DEMAND_LASTS
    at_a_time: int = AT_A_TIME
    move_lasts: timedelta = MOVE_LASTS


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRegion:
    """One slot of one card.

    :ivar provider: its UUID in placement.
    :ivar function: the function that it verifiably holds; None: none.
    :ivar takes: the functions that it can be given.
    :ivar changed: when a pool or a demand last had it changed; None: never, or not recorded.
    :ivar coming: the function that it is being given now.
    """

    provider: str
    accelerator: AcceleratorId
    slot_id: str
    function: str | None = None
    takes: frozenset[str] = frozenset()
    changed: datetime | None = None
    coming: str | None = None

    @property
    def will_hold(self) -> str | None:
        """The function that it holds, or will hold after the change under way."""
        return self.coming or self.function


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMachine:
    """One node.

    :ivar busy: why it cannot be changed, for people: claimed, in maintenance, not available; None: it can be.
    :ivar passing: it is busy only for a moment, and what it holds still counts as free.
    """

    uuid: str
    name: str
    regions: tuple[PoolRegion, ...]
    resource_class: str | None = None
    owner: str | None = None
    busy: str | None = None
    passing: bool = False

    @property
    def under_way(self) -> bool:
        """Whether any region of it is being given a function."""
        return any(r.coming is not None for r in self.regions)

    @property
    def ready(self) -> bool:
        """Whether it can be changed, or claimed, now."""
        return self.busy is None and not self.under_way


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A request for a function that found none.

    :ivar id: id of the request; a request that is reported twice is one demand.
    :ivar resource_class: of the machines that are suitable; None: any.
    :ivar of: how many functions the request asks for. If there are several, the id of each demand is that of the request, and a
        number: ``req/1``, ``req/2``.
    :ivar held: the region that serves the demand, or will after it is programmed; only for a plan, and not stored.
    """

    id: str
    function: str
    at: datetime
    resource_class: str | None = None
    of: int = 1
    held: str | None = None

    @property
    def request(self) -> tuple[str, bool]:
        """A key that is the same for all demands that one machine has to serve."""
        return (self.id.rpartition('/')[0], True) if self.of > 1 else (self.id, False)

    @property
    def classes(self) -> frozenset[str] | None:
        """Resource classes of suitable machines, as placement names them; None: any.

        The demand may name the class as Ironic does, too: gold for CUSTOM_GOLD.
        """
        asked = self.resource_class
        return None if asked is None else frozenset(c for c in (asked.upper(), node_class(asked)) if c is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionChange:
    """Give a region another function.

    :ivar why: name of the pool, or the demand, that it is for.
    """

    provider: str
    accelerator: AcceleratorId
    slot_id: str
    was: str | None
    function: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionMove:
    """All changes to one machine, which is withdrawn from placement meanwhile."""

    machine: str
    name: str
    changes: tuple[RegionChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Short:
    """A goal that the plan does not reach.

    :ivar function: its name, or those that one machine has to have.
    :ivar missing: how many regions are missing, or machines with all of the functions.
    :ivar why: for people.
    """

    who: str
    function: str
    missing: int
    why: str

    def __str__(self) -> str:
        return f'{self.who}: {self.missing} {self.function} missing: {self.why}'


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What to do now, and which goals cannot be reached now."""

    moves: tuple[RegionMove, ...] = ()
    short: tuple[Short, ...] = ()


# -------------------------------------------------------------------------------------------------------------------- file


def parse(text: str, path: str) -> Pools:
    """Parse a pool file.

    :param path: for messages.
    :raises DocumentError: the file is invalid; names file and line.
    """
    document = toml.read(text, path, format_version=FORMAT)
    pools: dict[str, Pool] = {}
    for number, table in enumerate(document.tables('pool')):
        pool = _pool(table, number)
        if pool.name in pools:
            raise table.error('name', f'two pools are named {pool.name!r}')
        pools[pool.name] = pool
    found = Pools(
        pools=tuple(pools.values()),
        rest=_seconds(document, 'rest_seconds', REST),
        demand_lasts=_seconds(document, 'demand_seconds', DEMAND_LASTS),
        at_a_time=document.integer('machines_at_a_time', minimum=1) or AT_A_TIME,
        move_lasts=_seconds(document, 'move_seconds', MOVE_LASTS),
    )
    document.finish()
    return found


def _pool(table: toml.Table, number: int) -> Pool:
    found = Pool(
        name=table.string('name') or f'pool-{number + 1}',
        function=table.required_string('function'),
        free=table.integer('free', required=True) or 0,
        spare=table.integer('spare') or 0,
        resource_class=table.string('resource_class'),
        owner=table.string('owner'),
        at_a_time=table.integer('machines_at_a_time', minimum=1),
    )
    table.finish()
    return found


def _seconds(document: toml.Table, key: str, usual: timedelta) -> timedelta:
    value = document.integer(key)
    return usual if value is None else timedelta(seconds=value)


def _like(text: str | None, pattern: str | None) -> bool:
    return pattern is None or (text is not None and fnmatchcase(text.casefold(), pattern.casefold()))

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The lower bound of the time that an inventory of one BMC takes, by the delay of each request and the number of slots.

The requests that are needed stand in files (``needed/*.txt``), one on a line, with the request whose answer names it. From them
follow the floor, ``max(depth x delay, requests x delay / slots)``, and the best schedule: what greedy scheduling of these
requests on these slots takes, since the first and the last requests cannot overlap with others.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NEEDED = Path(__file__).parent / 'needed'

BASE = 'base'
"""Counts always. Lines of another group count when the client read one of them: lock places of mechanisms it may not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that is needed.

    :ivar after: number of the request whose answer names it; 0 for the first. The last of a list waits for all others.
    :ivar members: how many members its answer has put in by $expand.
    :ivar why: what it is needed for.
    """

    number: int
    after: int
    group: str
    members: int
    method: str
    target: str
    why: str

    @property
    def path(self) -> str:
        """The resource, without query."""
        return bare(self.target)

    def line(self) -> str:
        """As it stands in a file."""
        return (
            f'{self.number:>3} {self.after:>3} {self.group:<4} {self.members:>3} {self.method:<6} {self.target}  # {self.why}'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a BMC takes for a request: seconds, seconds more for each expanded member, and how many requests at a time."""

    delay: float
    slots: int
    member_delay: float = 0.0

    def of(self, request: Request) -> float:
        """Seconds of one request."""
        return self.delay + request.members * self.member_delay


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """The requests of one inventory, from the service root to the logout."""

    requests: tuple[Request, ...]

    @property
    def depth(self) -> int:
        """Requests that must follow one another."""
        return len(self._chain())

    def counting(self, asked: frozenset[str]) -> 'Needed':
        """The list without lock places that a client did not read: they must not raise the floor it is measured by."""
        return Needed(requests=tuple(r for r in self.requests if r.group == BASE or r.path in asked))

    @property
    def again(self) -> int:
        """Requests of a second inventory over the same connection: no root, no login, no logout."""
        return len(self.requests) - 3

    @property
    def paths(self) -> frozenset[str]:
        """Resources that are read, without query."""
        return frozenset(r.path for r in self.requests if r.method == 'GET')

    def floor(self, cost: Cost, *, logout: bool = True) -> float:
        """Seconds below which nobody can be: the longest chain, or all the work on all the slots.

        :param logout: until the logout was answered; else until everything is in hand.
        """
        end = len(self.requests) if logout else -1
        chain = sum(cost.of(r) for r in self._chain(cost)[:end])
        return max(chain, sum(map(cost.of, self.requests[:end])) / cost.slots)

    def schedule(self, cost: Cost) -> float:
        """Seconds of a client that asks for each at once when it knows of it, the longest remaining chain first.

        Where the login follows nothing, all that follows it waits for the service root too.
        """
        below: dict[int, list[Request]] = {}
        for request in self.requests[:-1]:
            below.setdefault(request.after, []).append(request)
        remaining: dict[int, float] = {}
        for request in reversed(self.requests[:-1]):
            remaining[request.number] = cost.of(request) + max(
                (remaining[child.number] for child in below.get(request.number, ())), default=0.0
            )
        ready: list[tuple[float, int, Request]] = []
        busy: list[tuple[float, int, Request]] = []
        now = 0.0

        gate = {r.number for r in self.requests[:2]} if self.requests[1].after == 0 else set()
        shut = set(gate)

        def release(after: int) -> None:
            shut.discard(after)
            if after in gate:
                if not shut:
                    for number in gate:
                        open_up(number)
                return
            open_up(after)

        def open_up(after: int) -> None:
            for child in below.get(after, ()):
                heapq.heappush(ready, (-remaining[child.number], child.number, child))

        release(0)
        while ready or busy:
            while ready and len(busy) < cost.slots:
                _, number, request = heapq.heappop(ready)
                heapq.heappush(busy, (now + cost.of(request), number, request))
            now, number, _ = heapq.heappop(busy)
            release(number)
        return now + cost.of(self.requests[-1])

    def _chain(self, cost: Cost | None = None) -> list[Request]:
        """The longest chain from the first request to the last, in requests or in seconds."""
        by_number = {r.number: r for r in self.requests}
        best: list[Request] = []
        length = -1.0
        for request in self.requests[:-1]:
            chain = [request]
            while chain[-1].after in by_number:
                chain.append(by_number[chain[-1].after])
            taken = sum(cost.of(r) for r in chain) if cost is not None else float(len(chain))
            if taken > length:
                best, length = chain, taken
        return [*reversed(best), *self.requests[-1:]]


def bare(target: str) -> str:
    """A target without query and without a slash at its end."""
    return target.partition('?')[0].rstrip('/')


def better(needed: Iterable[Needed], cost: Cost) -> float:
    """The floor of the better of several ways."""
    return min(way.floor(cost) for way in needed)


def parse(text: str) -> Needed:
    """The list of a file.

    :raises ValueError: a line is none, or its parent does not come before it.
    """
    found: list[Request] = []
    seen = {0}
    for position, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith('#'):
            continue
        stated, _, why = line.partition('  # ')
        fields = stated.split()
        if len(fields) != 6 or not why:
            raise ValueError(f'line {position}: NUMBER AFTER GROUP MEMBERS METHOD TARGET  # WHY expected')
        number, after, members = int(fields[0]), int(fields[1]), int(fields[3])
        if after not in seen or number in seen:
            raise ValueError(f'line {position}: request {number} after {after}: out of order')
        seen.add(number)
        found.append(
            Request(
                number=number,
                after=after,
                group=fields[2],
                members=members,
                method=fields[4],
                target=fields[5],
                why=why.strip(),
            )
        )
    if len(found) < 2 or found[-1].method != 'DELETE':
        raise ValueError('the last request of an inventory is its logout')
    return Needed(requests=tuple(found))


def load(recording: str, *, expand: bool) -> Needed:
    """The list of a recording, such as ``supermicro/hgx-h100-8gpu``."""
    way = 'expand' if expand else 'plain'
    return parse((NEEDED / f'{recording.replace("/", "-")}.{way}.txt').read_text(encoding='utf-8'))

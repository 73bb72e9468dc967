# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the true state of placement from its database, by SQL, without code of the product."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy

from tests.race.proxy import Proxy
from tests.race.world import Machine, Place

PROVIDERS = """
SELECT p.id, p.uuid, p.generation, r.uuid, q.uuid FROM resource_providers p
JOIN resource_providers r ON r.id = p.root_provider_id LEFT JOIN resource_providers q ON q.id = p.parent_provider_id
"""
INVENTORIES = """
SELECT i.resource_provider_id, c.name, i.total, i.reserved, i.min_unit, i.allocation_ratio FROM inventories i
JOIN resource_classes c ON c.id = i.resource_class_id
"""
ALLOCATIONS = """
SELECT a.resource_provider_id, c.name, a.consumer_id, a.used FROM allocations a
JOIN resource_classes c ON c.id = a.resource_class_id
"""
LOST = 'FROM allocations WHERE consumer_id NOT IN (SELECT uuid FROM consumers)'
TRAITS = """
SELECT t.resource_provider_id, n.name FROM resource_provider_traits t JOIN traits n ON n.id = t.trait_id
"""


@dataclass(slots=True)
class Snapshot:
    """Everything, at one moment between ``begun`` and ``ended``.

    :ivar providers: generation, root and parent by UUID.
    :ivar stocks: total, reserved and least claim by place.
    :ivar held: amounts by consumer and place.
    """

    begun: float
    ended: float
    providers: dict[str, tuple[int, str, str | None]]
    stocks: dict[Place, tuple[int, int, int]]
    held: dict[str, dict[Place, int]]
    traits: dict[str, frozenset[str]]

    def used(self) -> dict[Place, int]:
        found: dict[Place, int] = {}
        for own in self.held.values():
            for place, amount in own.items():
                found[place] = found.get(place, 0) + amount
        return found

    def free(self) -> dict[Place, int]:
        """What of each place could be claimed if nobody held any of it."""
        return {
            place: total - reserved
            for place, (total, reserved, least) in self.stocks.items()
            if total > reserved and least <= total
        }


class Oracle:
    """Looks again and again, and says what is wrong of each look by itself."""

    def __init__(self, url: str, machines: list[Machine], proxy: Proxy) -> None:
        sqlite: dict[str, Any] = {'connect_args': {'timeout': 20}}
        options = sqlite if url.startswith('sqlite') else {'isolation_level': 'REPEATABLE READ'}
        self._engine = sqlalchemy.create_engine(url, **options)
        self._machines = {m.root: m for m in machines}
        self._of = {p: m for m in machines for p in (m.root, *m.ours)}
        self._proxy = proxy
        self.snapshots: list[Snapshot] = []
        self.looks = 0
        self.compared = 0
        self.kept = 0
        self.wrong: list[tuple[float, int | None, str]] = []
        self._suspects: dict[str, Any] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self, *, traits: bool = False) -> Snapshot:
        """One moment, in one transaction."""
        begun = time.monotonic()
        with self._engine.connect() as connection:
            rows = [connection.execute(sqlalchemy.text(q)).all() for q in (PROVIDERS, INVENTORIES, ALLOCATIONS)]
            having = connection.execute(sqlalchemy.text(TRAITS)).all() if traits else []
        names = {i: u for i, u, *_ in rows[0]}
        held: dict[str, dict[Place, int]] = {}
        for provider, name, consumer, used in rows[2]:
            own = held.setdefault(consumer, {})
            place = (names[provider], name)
            own[place] = own.get(place, 0) + used
        found: dict[str, set[str]] = {}
        for provider, name in having:
            found.setdefault(names[provider], set()).add(name)
        return Snapshot(
            begun=begun,
            ended=time.monotonic(),
            providers={u: (g, root, parent) for _, u, g, root, parent in rows[0]},
            stocks={(names[i], c): (total, reserved, least) for i, c, total, reserved, least, _ in rows[1]},
            held=held,
            traits={p: frozenset(t) for p, t in found.items()},
        )

    def free_lost(self) -> int:
        """Delete claims whose consumers placement has lost, as an operator would.

        It deletes a claim and its consumer in two transactions, and a reshape in between has made other rows.

        :returns: how many there were.
        """
        with self._engine.begin() as connection:
            found = connection.execute(sqlalchemy.text(f'SELECT id {LOST}')).all()
            if found:
                connection.execute(sqlalchemy.text(f'DELETE {LOST}'))
        return len(found)

    def start(self, interval: float) -> None:
        """Look in a thread."""
        self._stop.clear()

        def run() -> None:
            while not self._stop.wait(interval):
                try:
                    self.check()
                except sqlalchemy.exc.OperationalError:
                    continue  # SQLite: somebody writes
                except Exception as exc:  # noqa: BLE001 - told by the judge
                    self.wrong.append((time.monotonic(), None, f'the oracle: {exc!r}'))
                    return

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> Snapshot:
        """Look, and compare with what consumers have by placement's own answers."""
        before = {c: (h.version, h.busy) for c, h in list(self._proxy.ledger.items())}
        snapshot = self.look()
        self.snapshots.append(snapshot)
        self.looks += 1
        self._capacity(snapshot)
        self._claims(snapshot, before)
        return snapshot

    def _say(self, snapshot: Snapshot, machine: int | None, text: str) -> None:
        self.wrong.append((snapshot.begun, machine, text))

    def _capacity(self, snapshot: Snapshot) -> None:
        """No claim without inventory, none above it, no hardware promised twice."""
        used = snapshot.used()
        by_machine: dict[int, dict[Place, int]] = {}
        for place, amount in used.items():
            machine = self._of.get(place[0])
            if machine is None:
                self._say(snapshot, None, f'somebody holds {place}, which is of no machine')
                continue
            by_machine.setdefault(machine.number, {})[place] = amount
            stock = snapshot.stocks.get(place)
            where = f'{machine.told(place[0])} {place[1]}'
            if stock is None:
                self._say(snapshot, machine.number, f'{where}: {amount} are held, and there is no inventory')
            elif amount > stock[0] and place[0] != machine.several:  # the sound ones of several can become fewer
                self._say(snapshot, machine.number, f'{where}: {amount} are held of {stock[0]}')
        for machine in self._machines.values():
            for text in machine.promised_twice(by_machine.get(machine.number, {})):
                self._say(snapshot, machine.number, text)

    def _claims(self, snapshot: Snapshot, before: Mapping[str, tuple[int, int]]) -> None:
        """What nobody changed while we looked is as it was left."""
        ledger, moving = self._proxy.ledger, self._moving()
        for consumer in {*before, *snapshot.held}:
            holding = ledger.get(consumer)
            has = snapshot.held.get(consumer, {})
            if holding is None:
                self._say(snapshot, None, f'consumer {consumer} holds {has}, and nobody claimed that')
                continue
            if before.get(consumer) != (holding.version, 0) or holding.busy or holding.unknown:
                continue
            if consumer in moving:
                continue
            self.compared += 1
            if not holding.claims and has and self._moved(consumer):
                # Placement 16.0.0 deletes what it found of a consumer by row, and a reshape in between has made other rows.
                self.kept += 1
                holding.unknown = True
                continue
            if self._said(has) != self._said(holding.claims):
                text = f'consumer {consumer} holds {self._told(has)}; by its own calls it has {self._told(holding.claims)}'
                machine = next((self._of[p].number for p, _ in {**has, **holding.claims} if p in self._of), None)
                self._say(snapshot, machine, text)
                holding.unknown = True  # once is enough

    def _moved(self, consumer: str) -> bool:
        """A reshape of this round has named it."""
        notes = list(self._proxy.deliveries)
        return any(n.path == '/reshaper' and n.status == 204 and consumer in n.body['allocations'] for n in notes)

    def _moving(self) -> set[str]:
        """Those whom a reshape names that is at placement now; by a later look it has been answered."""
        there = [n for n in list(self._proxy.deliveries) if n.path == '/reshaper' and n.answered is None]
        return {consumer for n in there for consumer in n.body['allocations']}

    def _said(self, claims: Mapping[Place, int]) -> dict[Place, int]:
        """Claims as they can be compared: a reshape moves them within a flat machine."""
        found: dict[Place, int] = {}
        for (provider, name), amount in claims.items():
            machine = self._of.get(provider)
            key = (machine.root if machine is not None and machine.flat else provider, name)
            found[key] = found.get(key, 0) + amount
        return found

    def _told(self, claims: Mapping[Place, int]) -> str:
        return (
            ', '.join(f'{n} {c} of {self._of[p].told(p) if p in self._of else p}' for (p, c), n in claims.items()) or 'nothing'
        )

    def wait(self, right: Callable[[Snapshot], list[str]], seconds: float) -> tuple[float, list[str]]:
        """Look until nothing is wrong. :returns: how long that took, and what was wrong at last."""
        begun = time.monotonic()
        while True:
            lacks = right(self.look(traits=True))
            took = time.monotonic() - begun
            if not lacks or took > seconds:
                return took, lacks
            time.sleep(0.1)

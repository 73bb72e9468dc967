# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The claimers of the race: tenants who use placement as Nova does, at 1.36, through the same faults."""

import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import requests

from tests.race.publishers import Shared
from tests.race.world import CLASSES, NODE_CLASS, Machine

MICROVERSION = 'placement 1.36'
HOLD = 0.5
PAUSE = 0.1


class Claimer:
    """One tenant: holds nothing, or what one consumer has.

    :ivar consumer: whose; None: nobody's. What it has is in the proxy's ledger.
    :param count: told what became of each act.
    """

    def __init__(self, number: int, shared: Shared, url: str, seed: int, count: Callable[[str], None]) -> None:
        self.who = f'c{number:02}'
        self.shared = shared
        self.rng = random.Random(f'{seed}:{self.who}')
        self.consumer: str | None = None
        self._machine: Machine | None = None
        self._url = url
        self._count = count
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update(
            {'X-Auth-Token': 'admin', 'X-Race': self.who, 'OpenStack-API-Version': MICROVERSION, 'Accept': 'application/json'}
        )

    def play(self) -> None:
        """Act until no operations are left."""
        while self.shared.take(self.who):
            while self.shared.ahead():
                time.sleep(0.02)
            if self.consumer is None:
                self._claim()
                time.sleep(self.rng.random() * (HOLD if self.consumer else PAUSE))
            elif self.rng.random() < 0.15:
                self._move()
                time.sleep(self.rng.random() * PAUSE)
            else:
                self.free()
                time.sleep(self.rng.random() * PAUSE)

    def ask(self, method: str, path: str, body: Any = None) -> requests.Response | None:
        """None: no answer came."""
        try:
            return self._session.request(method, self._url + path, json=body, timeout=60)
        except requests.RequestException:
            return None

    # ----------------------------------------------------------------------------------------------------------------- acts

    def _claim(self) -> None:
        machine = self.rng.choice(self.shared.machines)
        chance = self.rng.random()
        # Most were told of it before, and do not ask: what is not on offer any more has to be refused.
        wish = self._candidate(machine) if chance < 0.08 else self._blind(machine, whole=chance < 0.30)
        if wish is None:
            self._count('found nothing')
            return
        consumer = str(uuid.UUID(int=self.rng.getrandbits(128)))
        got = self._put(consumer, wish, None)
        self._count('claimed' if got else 'not claimed')
        if got:
            self.consumer, self._machine = consumer, machine
            if machine.root in wish:
                self.shared.deploy(machine.number, consumer)

    def _candidate(self, machine: Machine) -> dict[str, Any] | None:
        """As the scheduler asks, for a machine with an accelerator or for an accelerator alone."""
        name = 'PGPU' if machine.flat else self.rng.choice(CLASSES)
        query = f'limit=5&resources_ACC={name}:1&in_tree_ACC={machine.root}'
        if self.rng.random() < 0.4:
            query += f'&resources={NODE_CLASS}:1'
        answer = self.ask('GET', f'/allocation_candidates?{query}')
        if answer is None or not answer.ok or not answer.json()['allocation_requests']:
            return None
        found: dict[str, Any] = self.rng.choice(answer.json()['allocation_requests'])['allocations']
        return found

    def _blind(self, machine: Machine, *, whole: bool) -> dict[str, Any]:
        place, name = self.rng.choice(machine.places())
        amount = 2 if place == machine.several and self.rng.random() < 0.2 else 1
        wish: dict[str, Any] = {place: {'resources': {name: amount}}}
        if whole:
            wish.setdefault(machine.root, {'resources': {}})['resources'][NODE_CLASS] = 1
        return wish

    def _put(self, consumer: str, wish: dict[str, Any], generation: int | None) -> bool:
        """Claim. What became of it is asked where no answer came; a refusal is believed, though it may have been done."""
        body = {
            'allocations': {p: {'resources': own['resources']} for p, own in wish.items()},
            'project_id': 'tenant',
            'user_id': self.who,
            'consumer_generation': generation,
        }
        answer = self.ask('PUT', f'/allocations/{consumer}', body)
        if answer is not None and answer.status_code < 500:
            return answer.ok
        return bool(self._holds(consumer))

    def _holds(self, consumer: str) -> dict[str, Any]:
        for _ in range(20):
            answer = self.ask('GET', f'/allocations/{consumer}')
            if answer is not None and answer.ok:
                found: dict[str, Any] = answer.json()
                return found if found['allocations'] else {}
        return {}

    def _move(self) -> None:
        """Claim something else in its place, in one step, as a migration does."""
        assert self.consumer is not None
        assert self._machine is not None
        now = self._holds(self.consumer)
        if not now:
            self._gone()
            self._count('lost what it had')
            return
        keeps = {p: a for p, a in now['allocations'].items() if p == self._machine.root and not self._machine.flat}
        machine = self._machine if keeps else self.rng.choice(self.shared.machines)
        moved = self._put(self.consumer, keeps | self._blind(machine, whole=False), now['consumer_generation'])
        self._machine = machine
        self._count('moved' if moved else 'not moved')

    def free(self) -> None:
        """As Nova does when an instance is deleted, or when its build failed: until placement says that it is so."""
        assert self.consumer is not None
        for _ in range(20):
            answer = self.ask('DELETE', f'/allocations/{self.consumer}')
            if answer is not None and answer.status_code in (204, 404):
                break
        self._gone()
        self._count('freed')

    def _gone(self) -> None:
        for machine in self.shared.machines:
            if self.consumer is not None and self.shared.instance(machine.number) == self.consumer:
                self.shared.deploy(machine.number, None)
        self.consumer = None


def guarded(act: Callable[[], None], failed: list[str]) -> threading.Thread:
    """A thread whose error is told."""

    def run() -> None:
        try:
            act()
        except Exception as exc:  # noqa: BLE001 - told by the runner
            failed.append(repr(exc))

    return threading.Thread(target=run, daemon=True)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Eight tenants hammer a flat node while it is reshaped, and reshaped back: all or nothing, no claim lost, nothing held twice.

    python -m tests.race.hammer [--database mariadb] [--times 10] [--faults 0.3] [--seed N]

Half of the times the reshape goes through the proxy with its faults, and is given again until it is done, as its message says.
At every look at the database the root has all eight and the cards none, or each card has one and the root none.
"""
# ruff: noqa: T201

import argparse
import random
import sys
import time
from collections.abc import Sequence
from threading import Event, Thread
from typing import Any

import sqlalchemy

from baremetal_acc.demo.service_process import interrupt_on_signals
from baremetal_acc.errors import PlacementUnreachable
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.placement.reshape import Reshaper, Wish
from tests.race.oracle import Oracle, Snapshot
from tests.race.proxy import Proxy
from tests.race.publishers import connect
from tests.race.site import DATABASES, Site
from tests.wire.test_reshape import Claimers, FlatCloud, back, card, forth, usages

COUNT = 8
TRIES = 40

LEAST_LOOKS = 20
"""There is one every 0.03 s, and a second and a half that nobody reshapes in."""


class Watch:
    """Looks at the database all the time."""

    def __init__(self, database: str, root: str) -> None:
        self._oracle = Oracle(database, [], Proxy([], 0, 0.0))
        self._root = root
        self._cards = [card(root, n) for n in range(COUNT)]
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self.looks = 0
        self.seen: set[str] = set()
        self.wrong: list[str] = []

    def __enter__(self) -> 'Watch':
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.03):
            try:
                self.check(self._oracle.look())
            except sqlalchemy.exc.OperationalError:
                continue  # SQLite: somebody writes
            self.looks += 1

    def check(self, snapshot: Snapshot) -> None:
        """One moment."""
        totals = {p: total for (p, name), (total, _, _) in snapshot.stocks.items() if name == 'PGPU'}
        flat, nested = totals.get(self._root, 0), [totals.get(p, 0) for p in self._cards]
        if (flat, sum(nested)) not in ((COUNT, 0), (0, COUNT)):
            self.wrong.append(f'the root has {flat}, and the cards have {nested}')
        self.seen.add('flat' if flat else 'nested')
        used = {p: n for (p, name), n in snapshot.used().items() if name == 'PGPU' and p in (self._root, *self._cards)}
        for provider, amount in used.items():
            if amount > totals.get(provider, 0):
                self.wrong.append(f'{amount} are held of {totals.get(provider, 0)} of {provider}')


def persist(reshaper: Reshaper, wish: Wish) -> int:
    """The same command again until it is done. :returns: how often."""
    for n in range(TRIES):
        try:
            reshaper.apply(wish)
        except PlacementUnreachable:
            continue
        return n + 1
    raise AssertionError(f'not done after {TRIES} times')


def too_little(watch: Watch, claimers: Claimers) -> list[str]:
    """Where nobody claims, or nobody looks, nothing can be seen to go wrong."""
    found = []
    if claimers.claims <= COUNT:
        found.append(f'too few claims: {claimers.claims}')
    if watch.looks < LEAST_LOOKS or watch.seen != {'flat', 'nested'}:
        found.append(f'too few looks: {watch.looks}, at {sorted(watch.seen)}')
    return found


def once(site: Site, proxy: Proxy, *, faults: bool) -> tuple[list[str], dict[str, Any]]:
    """Flat to nested, back and forth. :returns: what was wrong, and figures."""
    direct = f'http://127.0.0.1:{site.ports[0]}'
    cloud = FlatCloud(direct)
    cloud.adapter.additional_headers['X-Roles'] = 'admin,service'
    root, other = cloud.flat(PGPU=COUNT), cloud.flat(VGPU=1000)
    # Role service, and no other: it has to do for all.
    client = PlacementClient(connect(f'http://127.0.0.1:{proxy.port}' if faults else direct, 'p00', roles='service'))
    reshaper = Reshaper(client, Publisher(client))
    wrong: list[str] = []
    commands = 0
    begun = time.monotonic()
    with Watch(site.database, root) as watch, Claimers(direct, root, other, COUNT) as claimers:
        for wish in (forth(root, COUNT), back(root), forth(root, COUNT)):
            time.sleep(0.5)
            commands += persist(reshaper, wish)
    for number, consumer in claimers.held.items():
        claimers.check(cloud, consumer, number)
    wrong += too_little(watch, claimers)
    # A card has no provider until the first reshape makes it.
    wrong += watch.wrong + [text for text in claimers.errors if text != "{(400, 'placement.undefined_code')}"]
    # Who is deleted in the moment in which a reshape moves him may keep what he had: placement 16.0.0 deletes by row.
    looks = Oracle(site.database, [], proxy)
    cards = {root, *(card(root, n) for n in range(COUNT))}
    theirs = set(claimers.held.values())
    kept = [c for c, own in looks.look().held.items() if c not in theirs and any(p in cards for p, _ in own)]
    for consumer in kept:
        cloud.free(consumer)
    used = usages(cloud, root)
    if len(claimers.held) != sum(used.values()):
        wrong.append(f'{len(claimers.held)} hold one, and {used} is held')
    for consumer in claimers.held.values():
        cloud.free(consumer)
    took = time.monotonic() - begun
    return wrong, {
        'looks': watch.looks,
        'claims': claimers.claims,
        'commands': commands,
        'kept while deleted': len(kept),
        'seconds': round(took, 1),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """The command. :returns: 0: nothing was wrong."""
    parser = argparse.ArgumentParser(prog='python -m tests.race.hammer', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--database', choices=DATABASES, default='mariadb')
    parser.add_argument('--times', type=int, default=10)
    parser.add_argument('--faults', type=float, default=0.3)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args(argv)
    interrupt_on_signals()
    bad = 0
    with Site(given.database) as site:
        proxy = Proxy(site.ports, given.seed, given.faults)
        proxy.start()
        for n in range(given.times):
            faults = n % 2 == 1
            wrong, figures = once(site, proxy, faults=faults)
            told = ', '.join(f'{value} {name}' for name, value in figures.items())
            print(f'{given.database}, seed {given.seed}, {"with" if faults else "without"} faults: {told}, {len(wrong)} wrong')
            for text in wrong[:5]:
                print(f'    {text}')
            sys.stdout.flush()
            bad += len(wrong)
        proxy.stop()
    print(f'{bad} wrong')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())

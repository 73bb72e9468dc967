# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Race publishers and claimers for placement, with a fault in every third request: no ghost, nothing promised twice.

    python -m tests.race.soak [--database mariadb] [--operations 100000] [--seed N] [--faults 0.3] [--break DEFECT]

An operation is one call of a publisher (publish, withdraw, prepare, reshape) or one act of a claimer (claim, move, free). The
race is run in rounds. At the end of each the faults stop, everybody frees what he has, and placement has to agree with what is
true of the machines within five seconds; then everything that was written down of the round is judged.
"""
# ruff: noqa: T201

import argparse
import os
import platform
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import requests

from baremetal_acc.demo.service_process import interrupt_on_signals
from baremetal_acc.scheduling.provider_names import RESERVES_NOTHING
from tests.race import broken, judge, publishers
from tests.race.claimers import Claimer, guarded
from tests.race.oracle import Oracle, Snapshot
from tests.race.proxy import Proxy
from tests.race.publishers import Op, Shared
from tests.race.site import DATABASES, Site
from tests.race.world import CLASSES, FLAT_GPUS, NODE_CLASS, machines

AGREES_SECONDS = 5.0
LOOK_SECONDS = 0.25
A_THOUSAND = {
    'publishers: publish, ok': 60,
    'publishers: withdraw, ok': 20,
    'publishers: shelve, ok': 1,
    'publishers: forth, ok': 2,
    'publishers: back, ok': 2,
    'claimers: claimed': 25,
    'judged: claims that were taken': 12,
    'judged: looks at machines of which all is known': 12,
    'judged: writes of publishers': 150,
}
"""How much of each there has to be for a thousand operations: at most a third of what there was in 100,000, or in 5,000."""
OWNER = 'CUSTOM_OWNER_BAREMETAL_ACC'
SHOWN = 5


class Race:
    """All of it, from the first provider to the last word."""

    def __init__(self, given: argparse.Namespace, site: Site) -> None:
        self.given = given
        self.machines = machines(given.machines, given.flat, given.seed)
        self.shared = Shared(self.machines)
        self.proxy = Proxy(site.ports, given.seed, given.faults)
        self.url = f'http://127.0.0.1:{self.proxy.port}'
        self.processes = publishers.start(
            self.shared, given.processes, given.publishers, self.url, given.seed, given.defect
        )  # before any thread
        self.proxy.start()
        self.direct = Proxy(site.ports, given.seed, 0.0)
        self.direct.ledger = self.proxy.ledger
        self.direct.start()
        self.oracle = Oracle(site.database, self.machines, self.proxy)
        self.figures: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._guard = threading.Lock()
        self.claimers = [Claimer(n, self.shared, self.url, given.seed, self._count) for n in range(given.claimers)]
        self.first: dict[int, dict[Any, int]] = {}
        self.slowest = 0.0
        self.ops: list[Op] = []
        self.begun = 0.0

    def _count(self, what: str) -> None:
        with self._guard:
            self.figures[f'claimers: {what}'] += 1

    def ask(self, method: str, path: str, body: Any = None) -> None:
        """As Nova, without faults."""
        headers = {'X-Auth-Token': 'admin', 'X-Race': 'nova', 'OpenStack-API-Version': 'placement 1.36'}
        answer = requests.request(method, f'http://127.0.0.1:{self.direct.port}{path}', json=body, headers=headers, timeout=60)
        assert answer.ok or answer.status_code == 404, answer.text

    def prepare(self) -> None:
        """The roots, as Nova makes them."""
        self.ask('PUT', f'/resource_classes/{NODE_CLASS}')
        for name in CLASSES:
            if name.startswith('CUSTOM_'):
                self.ask('PUT', f'/resource_classes/{name}')
        for machine in self.machines:
            self.ask('POST', '/resource_providers', {'uuid': machine.root, 'name': machine.root})
            stocks = {NODE_CLASS: {'total': 1}} | ({'PGPU': {'total': FLAT_GPUS}} if machine.flat else {})
            body = {'resource_provider_generation': 0, 'inventories': stocks}
            self.ask('PUT', f'/resource_providers/{machine.root}/inventories', body)

    def say(self, word: str) -> list[str]:
        """Let all publishers act. :returns: what failed."""
        for _, pipe in self.processes:
            pipe.send(word)
        failed: list[str] = []
        for _, pipe in self.processes:
            ops, own = pipe.recv()
            self.ops += ops
            failed += own
        return failed

    def agrees(self, snapshot: Snapshot) -> list[str]:
        """What in placement is not as it is true of the machines."""
        lacks = []
        free, used = snapshot.free(), snapshot.used()
        for machine in self.machines:
            wanted = machine.offers(self.shared.truth(machine.number))
            found = {p: n for p, n in free.items() if p[0] in machine.ours}
            if found != wanted:
                lacks.append(f'machine {machine.number}: {found} is on offer, and {wanted} is true')
            if machine.flat and (machine.root, 'PGPU') in snapshot.stocks:
                lacks.append(f'machine {machine.number}: its root offers GPUs still')
            strangers = {p for p, (_, root, _) in snapshot.providers.items() if root == machine.root}
            strangers -= {machine.root, *machine.ours}
            if strangers:
                lacks.append(f'machine {machine.number}: {strangers} is nobody')
            bare = {p for p, _ in wanted if OWNER not in snapshot.traits.get(p, ())}
            lacks += [f'machine {machine.number}: {machine.told(p)} lacks our trait' for p in bare]
            tree = machine.tree(self.shared.truth(machine.number))
            for p in tree.providers:
                mark = set() if p.reserves else {RESERVES_NOTHING}
                if snapshot.traits.get(p.uuid, frozenset()) != p.traits | mark:
                    lacks.append(f'machine {machine.number}: traits of {machine.told(p.uuid)}')
                if snapshot.providers.get(p.uuid, (0, '', ''))[2] != p.parent_uuid:
                    lacks.append(f'machine {machine.number}: {machine.told(p.uuid)} lies below another one')
        if used:
            lacks.append(f'{used} is held still')
        return lacks

    def settle(self) -> tuple[float, list[str]]:
        """The faults stop, all is freed, and every machine's truth is said once more."""
        self.proxy.share = 0.0
        failed: list[str] = []
        for claimer in self.claimers:
            if claimer.consumer is not None:
                claimer.free()
        self.proxy.drain()
        for consumer, holding in list(self.proxy.ledger.items()):
            if holding.claims or holding.unknown:
                # A claim that arrived when its sender had given up: Nova's audit finds and deletes it.
                self.figures['claims that nobody knew of, deleted'] += 1
                self.ask('DELETE', f'/allocations/{consumer}')
        self._free_lost()
        begun = time.monotonic()
        failed += self.say('finish')
        took, lacks = self.oracle.wait(self.agrees, self.given.agrees)
        took = time.monotonic() - begun
        return took, failed + lacks

    def round(self, operations: int) -> list[tuple[float, int | None, str]]:
        """So many operations, the end, and the judgement."""
        begun = self.begun = time.monotonic()
        own = round(operations * self.given.share)
        self.shared.begin(own, operations - own)
        self.proxy.share = self.given.faults
        self.oracle.start(LOOK_SECONDS)
        failed: list[str] = []
        threads = [guarded(c.play, failed) for c in self.claimers]
        threads += [guarded(self._janitor, failed)]
        for thread in threads:
            thread.start()
        failed += self.say('play')
        for thread in threads:
            thread.join()
        took, lacks = self.settle()
        self.oracle.stop()
        ended = time.monotonic()
        self.slowest = max(self.slowest, took)
        deliveries = sorted([*self.proxy.deliveries, *self.direct.deliveries], key=lambda d: d.sent)
        found = judge.judge(self.machines, self.ops, deliveries, self.oracle.snapshots, begun, ended, self.first)
        for name, number in found.checked.items():
            self.figures[f'judged: {name}'] += number
        wrong = [*self.oracle.wrong, *found.wrong]
        wrong += [(ended, None, f'failed: {text}') for text in failed]
        wrong += [(ended, _number(text), f'at the end: {text}') for text in lacks]
        if took > self.given.agrees:
            wrong.append((ended, None, f'at the end placement agreed after {took:.1f} s'))
        for op in self.ops:
            self.figures[f'publishers: {op.kind.split()[0].rstrip(",")}, {op.outcome}'] += 1
            if op.outcome == 'refused':
                self.refusals[re.sub('[0-9a-f]{8}-[0-9a-f-]{27}(_ACC_[0-9a-f]{12})?', 'UUID', op.text)[:200]] += 1
        self._tell(wrong, deliveries)
        self.first = {m.number: m.offers(self.shared.truth(m.number)) for m in self.machines}
        for notes in (self.ops, self.proxy.deliveries, self.direct.deliveries, self.oracle.snapshots, self.oracle.wrong):
            notes.clear()
        for consumer, holding in list(self.proxy.ledger.items()):
            if not holding.claims and not holding.unknown:
                del self.proxy.ledger[consumer]
        return wrong

    def _free_lost(self) -> None:
        if self.given.database != 'sqlite':  # it has one writer, so nothing comes in between
            self.figures['claims whose consumers placement had lost, deleted'] += self.oracle.free_lost()

    def _janitor(self) -> None:
        """Claims that arrived when their sender had given up are deleted after a while, as Nova's audit does."""
        while any(left.value > 0 for left in self.shared.left.values()):
            time.sleep(1.0)
            theirs = {c.consumer for c in self.claimers}
            old = [c for c, h in list(self.proxy.ledger.items()) if h.claims and c not in theirs]
            time.sleep(1.0)
            theirs |= {c.consumer for c in self.claimers}
            for consumer in old:
                if consumer not in theirs:
                    self.ask('DELETE', f'/allocations/{consumer}')
                    self._count('claimed without their knowledge, deleted')
            self._free_lost()

    def _tell(self, wrong: list[tuple[float, int | None, str]], deliveries: list[Any]) -> None:
        for at, number, text in sorted(wrong, key=lambda one: one[0])[:SHOWN]:
            machine = None if number is None else self.machines[number]
            print(f'WRONG, seed {self.given.seed}, machine {number} at {at:.3f}: {text}')
            for line in judge.story(at, machine, self.ops, deliveries):
                print(f'    {line}')
        sys.stdout.flush()

    def end(self) -> None:
        """Let all processes go."""
        for process, pipe in self.processes:
            pipe.send('end')
            process.join(10)
            if process.is_alive():
                process.kill()
        self.proxy.stop()
        self.direct.stop()


def _number(text: str) -> int | None:
    words = text.split()
    return int(words[1].rstrip(':')) if words[0] == 'machine' else None


def main(argv: Sequence[str] | None = None) -> int:
    """The command. :returns: 0: nothing was wrong."""
    parser = argparse.ArgumentParser(prog='python -m tests.race.soak', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--database', choices=DATABASES, default='mariadb')
    parser.add_argument('--operations', type=int, default=100_000)
    parser.add_argument('--round', type=int, default=2_500, help='operations of one round')
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument('--faults', type=float, default=0.3, help='share of the requests that meet one')
    parser.add_argument('--share', type=float, default=0.25, help='of the operations those of the publishers')
    parser.add_argument(
        '--agrees', type=float, default=AGREES_SECONDS, help='seconds in which placement has to agree at the end of a round'
    )
    parser.add_argument('--publishers', type=int, default=16)
    parser.add_argument('--claimers', type=int, default=16)
    parser.add_argument('--machines', type=int, default=10)
    parser.add_argument('--flat', type=int, default=2, help='how many of them are reshaped')
    parser.add_argument('--processes', type=int, default=4, help='of the publishers')
    parser.add_argument('--retries', type=int, default=1, help='[placement] allocation_conflict_retry_count (its default: 10)')
    parser.add_argument('--break', dest='defect', choices=broken.DEFECTS, help='a defect to put into the publishers')
    given = parser.parse_args(argv)
    interrupt_on_signals()
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False).stdout.strip()
    print(f'commit {commit or "?"}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}')
    print(
        f'{given.operations} operations on {given.database} from seed {given.seed}, {given.publishers} publishers, '
        f'{given.claimers} claimers, {given.machines} machines, {100 * given.faults:.0f} % faults',
        flush=True,
    )
    wrong = done = 0
    began = time.monotonic()
    with Site(given.database, given.retries) as site:
        race = Race(given, site)
        try:
            race.prepare()
            race.first = {m.number: {} for m in race.machines}
            while done < given.operations:
                found = race.round(min(given.round, given.operations - done))
                done += min(given.round, given.operations - done)
                wrong += len(found)
                rate = done / (time.monotonic() - began)
                print(f'{done} operations, {rate:.0f} a second, {wrong} wrong, slowest end {race.slowest:.1f} s', flush=True)
                if given.defect is not None and found:
                    break
        finally:
            race.end()
    race.figures['claims that a reshape kept while they were deleted'] = race.oracle.kept
    for name, number in sorted({**race.figures, **{f'fault: {k}': n for k, n in race.proxy.faults.items()}}.items()):
        print(f'{number:10,} {name}')
    for text, number in race.refusals.most_common(8):
        print(f'{number:10,} refused: {text}')
    requests_made = sum(race.proxy.requests.values())
    faults = sum(race.proxy.faults.values())
    print(
        f'{time.monotonic() - began:.0f} s; {requests_made:,} requests, {faults:,} met a fault; '
        f'{race.oracle.looks:,} looks at the database, {race.oracle.compared:,} claims compared; '
        f'at the end of a round placement agreed within {race.slowest:.1f} s'
    )
    print(f'{wrong} wrong')
    thin = too_little(race.figures, given.operations) if given.defect is None else []
    for text in thin:
        print(f'too little to judge by: {text}')
    return 1 if wrong or thin else 0


def too_little(figures: Mapping[str, int], operations: int) -> list[str]:
    """What there was too little of to say that nothing is wrong. A short race says nothing about that; its caller may."""
    thousands = operations // 1000
    wanted = {name: each * thousands for name, each in A_THOUSAND.items()}
    return [f'{figures.get(name, 0)} {name}, wanted {least}' for name, least in wanted.items() if figures.get(name, 0) < least]


if __name__ == '__main__':
    sys.exit(main())

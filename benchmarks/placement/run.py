# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmark the calls and the time to publish accelerators in placement: ours, Cyborg's conductor and Nova's client.

All clients take turns in one run on one real placement, each in a process of its own. Placement itself counts the requests.
Time is measured by the client from the first call to the last, without the start of Python and its imports.
"""

import argparse
import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import urllib.parse
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from baremetal_acc.demo.service_files import PLACEMENT_CONF
from benchmarks.inventory import harness, peers
from benchmarks.inventory.harness import TOP, Bars
from benchmarks.inventory.peers import Peer
from benchmarks.placement.served import COUNTS

CLIENTS = Path(__file__).with_name('clients')

OURS, CYBORG, SAME, NOVA = 'ours', 'Cyborg', 'Cyborg, our traits', 'Nova'

CYBORG_PEER = Peer(name=CYBORG, client='cyborg_conductor', needs=('cyborg.conductor.manager',))
NOVA_PEER = Peer(name=NOVA, client='nova_report', needs=('nova.scheduler.client.report',))

DEVICES, NODES = 8, 16

SELDOM = 5
"""Sixteen nodes at once take longer than all else together, so that they are published in one of so many rounds."""

OUR_TRAITS = (
    'CUSTOM_OWNER_BAREMETAL_ACC',
    'CUSTOM_ACC_GPU',
    'CUSTOM_ACC_GPU_NVIDIA',
    'CUSTOM_ACC_GPU_NVIDIA_H100_80GB_HBM3',
    'CUSTOM_ACC_PCI_10DE_2330',
)
CYBORG_TRAITS = ('OWNER_CYBORG', 'CUSTOM_NVIDIA_2330')
"""What Cyborg's own GPU driver gives a device: fewer names are fewer calls, since it asks for each."""

FIRST, NEW, UNCHANGED, COLD, CHANGED, WITHDRAWN, ALL = (
    'first publish',
    'first of a new process',
    'unchanged',
    'unchanged, new process',
    'one reprogrammed',
    'one withdrawn',
    f'{NODES} nodes at once',
)
CASES = (FIRST, NEW, UNCHANGED, COLD, CHANGED, WITHDRAWN, ALL)

CALLS = {FIRST: 19, UNCHANGED: 1, CHANGED: 4}
"""How many calls ours may take, at most, with eight devices."""

TIMES = {FIRST: 0.6, CHANGED: 0.75, ALL: 0.6}
"""How much of Cyborg's processor time ours may take. An unchanged node is one call for both, a withdrawn device two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One case of one client.

    :ivar asked: how often placement was asked for what.
    :ivar cpu: seconds of a processor, the client's and placement's.
    """

    client: str
    case: str
    seconds: float
    calls: int
    cpu: float
    asked: dict[str, int]
    failed: dict[str, int]


class Placement:
    """A real placement in a process of its own."""

    def __init__(self, folder: Path, *, database: str | None, threads: int) -> None:
        conf = PLACEMENT_CONF.format(state=folder)
        if database is not None:
            conf = '\n'.join(
                f'connection = {database}' if line.startswith('connection') else line for line in conf.splitlines()
            )
            conf = conf.replace('sqlite_synchronous = false', '')
        (folder / 'placement.conf').write_text(conf, encoding='utf-8')
        port = _free_port()
        self.url = f'http://127.0.0.1:{port}'
        waitress = str(Path(sys.executable).with_name('waitress-serve'))
        self._log = open(folder / 'placement.log', 'wb')  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [waitress, f'--listen=127.0.0.1:{port}', f'--threads={threads}', 'benchmarks.placement.served:application'],
            cwd=TOP,
            env=os.environ | {'OS_PLACEMENT_CONFIG_DIR': str(folder), 'PYTHONPATH': str(TOP)},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for us
        )
        self._wait(folder)

    def _wait(self, folder: Path) -> None:
        for _ in range(600):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask('GET', '/').get('versions'):
                    return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)
        self._process.kill()
        raise SystemExit(f'placement did not start: {(folder / "placement.log").read_text(errors="replace")[-2000:]}')

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request, as everybody else's."""
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=120)
        headers = {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.37', 'Content-Type': 'application/json'}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 400:
            raise RuntimeError(f'{method} {path}: {answer.status} {text[:300]!r}')
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def counts(self) -> dict[str, Any]:
        """What was asked since the last time."""
        return self.ask('GET', COUNTS)

    def root(self) -> str:
        """A root as Nova makes it: named like the node, with its class."""
        root = str(uuid.uuid4())
        self.ask('POST', '/resource_providers', {'uuid': root, 'name': root})
        self.ask('PUT', '/resource_classes/CUSTOM_BAREMETAL')
        body = {'resource_provider_generation': 0, 'inventories': {'CUSTOM_BAREMETAL': {'total': 1}}}
        self.ask('PUT', f'/resource_providers/{root}/inventories', body)
        return root

    def offers(self, root: str) -> list[str]:
        """The classes that are on offer below a root, by provider: what a client did is looked at, and not what it says."""
        found = []
        for provider in self.ask('GET', f'/resource_providers?in_tree={root}')['resource_providers']:
            if provider['uuid'] != root:
                offers = self.ask('GET', f'/resource_providers/{provider["uuid"]}/inventories')['inventories']
                found += [name for name, offer in offers.items() if offer['reserved'] < offer['total']]
        return sorted(found)

    def __enter__(self) -> 'Placement':
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._log.close()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        port: int = one.getsockname()[1]
        return port


class Client:
    """A client in a process of its own.

    :ivar traits: of each device.
    """

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.traits = CYBORG_TRAITS if name == CYBORG else OUR_TRAITS
        self._url = url
        environ = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'} | {'PYTHONWARNINGS': 'ignore'}
        environ |= {'OS_NOVA_DISABLE_EVENTLET_PATCHING': 'true', 'NO_PROXY': '127.0.0.1'}
        self._process = subprocess.Popen(
            _command(name),
            cwd=TOP,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.begin()

    def begin(self) -> None:
        """As if the process had just started. What a client keeps in a database it still knows."""
        self.do('begin', url=self._url)

    def do(self, verb: str, **more: Any) -> tuple[float, float]:
        """Let it do something; the seconds that it took, and those of a processor.

        :raises RuntimeError: it failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({'do': verb, **more}) + '\n')
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f'{self.name} ended with {self._process.wait(60)}')
        found = json.loads(line)
        if 'error' in found:
            raise RuntimeError(f'{self.name}, {verb}: {found["error"]}')
        return found.get('seconds', 0.0), found.get('cpu', 0.0)

    def devices(self, *, function: str = 'GZIP') -> list[dict[str, Any]]:
        """Seven GPUs and a slot with a function, of a new node."""
        found = []
        for number in range(DEVICES):
            own = str(uuid.uuid4())
            resource_class, traits = 'PGPU', [*self.traits]
            if number == DEVICES - 1:
                resource_class, traits = _function(function, self.traits)
            found.append({'uuid': own, 'name': f'acc-{own}', 'resource_class': resource_class, 'traits': traits})
        return found

    def reprogrammed(self, devices: Sequence[Mapping[str, Any]], function: str) -> list[dict[str, Any]]:
        """The same with another function in the slot."""
        resource_class, traits = _function(function, self.traits)
        return [*map(dict, devices[:-1]), {**devices[-1], 'resource_class': resource_class, 'traits': traits}]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None
        self._process.communicate(timeout=60)


def _function(function: str, traits: Sequence[str]) -> tuple[str, list[str]]:
    return f'CUSTOM_ACC_FN_{function}', [*traits, f'CUSTOM_ACC_HOLDS_{function}']


def _command(name: str) -> list[str]:
    if name == OURS:
        return [sys.executable, '-m', 'benchmarks.placement.clients.ours']
    peer = NOVA_PEER if name == NOVA else CYBORG_PEER
    return [str(peers.PYTHON), str(CLIENTS / f'{peer.client}.py')]


def measure(client: Client, placement: Placement, *, nodes: int = NODES) -> Iterator[Found]:
    """All cases, one after the other, on trees of its own.

    :param nodes: that are published at once; 0 leaves that out.
    :raises RuntimeError: it failed, or placement does not have what it should.
    """

    def case(name: str, verb: str, expected: dict[str, list[str]], **more: Any) -> Found:
        placement.counts()
        seconds, cpu = client.do(verb, **more)
        counted = placement.counts()
        for root, offers in expected.items():
            found = placement.offers(root)
            if found != offers:
                raise RuntimeError(f'{client.name}, {name}: placement offers {found}, and not {offers}')
        placement.counts()
        asked = counted['asked']
        return Found(
            client=client.name,
            case=name,
            seconds=seconds,
            calls=sum(asked.values()),
            cpu=cpu + counted['cpu'],
            asked=asked,
            failed=counted['failed'],
        )

    gpus = ['PGPU'] * (DEVICES - 1)
    with_gzip, with_aes = sorted([*gpus, 'CUSTOM_ACC_FN_GZIP']), sorted([*gpus, 'CUSTOM_ACC_FN_AES'])
    client.begin()
    old, its = placement.root(), client.devices()
    yield case(NEW, 'tell', {old: with_gzip}, root=old, devices=its)
    its = client.reprogrammed(its, 'AES')
    client.do('tell', root=old, devices=its)  # from now on the process has met every name
    root, devices = placement.root(), client.devices()
    other = client.reprogrammed(devices, 'AES')
    yield case(FIRST, 'tell', {root: with_gzip}, root=root, devices=devices)
    yield case(UNCHANGED, 'tell', {root: with_gzip}, root=root, devices=devices)
    yield case(CHANGED, 'tell', {root: with_aes}, root=root, devices=other)
    yield case(WITHDRAWN, 'withdraw', {root: gpus}, root=root, devices=other, number=DEVICES - 1)
    if nodes:
        many = [{'root': placement.root(), 'devices': client.devices()} for _ in range(nodes)]
        yield case(ALL, 'nodes', {n['root']: with_gzip for n in many}, nodes=many)
    client.begin()
    yield case(COLD, 'tell', {old: with_aes}, root=old, devices=its)


class Results:
    """What was found, by client and case."""

    def __init__(self, found: Sequence[Found]) -> None:
        self._by: dict[tuple[str, str], list[Found]] = defaultdict(list)
        for one in found:
            self._by[one.client, one.case].append(one)
        self.clients = list(dict.fromkeys(one.client for one in found))

    def seconds(self, client: str, case: str) -> float | None:
        """The median."""
        return statistics.median(f.seconds for f in self._by[client, case]) if self._by[client, case] else None

    def cpu(self, client: str, case: str) -> float | None:
        """The median."""
        return statistics.median(f.cpu for f in self._by[client, case]) if self._by[client, case] else None

    def calls(self, client: str, case: str) -> float | None:
        """The most of all rounds: a bar is not met by a good one."""
        return float(max(f.calls for f in self._by[client, case])) if self._by[client, case] else None

    def over(self, case: str, peer: str) -> float | None:
        """Our processor time over a peer's, that of placement included: a busy machine leaves it as it is."""
        return _ratio(self.cpu(OURS, case), self.cpu(peer, case))

    def rows(self) -> Iterator[tuple[object, ...]]:
        """For the table."""
        for case in CASES:
            for client in self.clients:
                found = self._by[client, case]
                if found:
                    yield (
                        f'{case}, {client}',
                        max(f.calls for f in found),
                        1000 * statistics.median(f.seconds for f in found),
                        1000 * statistics.median(f.cpu for f in found),
                        _ratio(self.calls(client, case), self.calls(OURS, case)) if client != OURS else None,
                        _ratio(self.seconds(client, case), self.seconds(OURS, case)) if client != OURS else None,
                        _ratio(self.cpu(client, case), self.cpu(OURS, case)) if client != OURS else None,
                        sum(sum(f.failed.values()) for f in found) or None,
                    )


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


TITLES = ('case, client', 'calls', 'ms', 'CPU ms', 'calls/ours', 'ms/ours', 'CPU/ours', '5xx')


def judge(results: Results) -> Bars:
    """What has to hold. Where Cyborg could not be installed there is nothing to compare with, which the output says."""
    bars = Bars()
    for case, limit in CALLS.items():
        bars.at_most(f'{_word(case)}-calls', results.calls(OURS, case), limit)
    for case, ratio in TIMES.items() if CYBORG in results.clients else ():
        bars.at_most(f'{_word(case)}-time-over-cyborg', results.over(case, CYBORG), ratio)
    return bars


def _word(case: str) -> str:
    return case.replace(',', '').replace(' ', '-')


def run(names: Sequence[str], rounds: int, *, database: str | None, threads: int) -> list[Found]:
    """Let clients take turns. In each round another one is the first. Ctrl-C ends it, and what was found is kept."""
    found: list[Found] = []
    with (
        tempfile.TemporaryDirectory(prefix='bench-placement-') as folder,
        Placement(Path(folder), database=database, threads=threads) as placement,
        contextlib.ExitStack() as stack,
        contextlib.suppress(KeyboardInterrupt),
    ):
        clients = []
        for name in names:
            clients.append(Client(name, placement.url))
            stack.callback(clients[-1].close)
        for client in clients:
            list(measure(client, placement, nodes=0))  # so that all names are there, and all modules imported
        for number in range(rounds):
            turn = number % len(clients)
            for client in (*clients[turn:], *clients[:turn]):
                seldom = number % SELDOM == min(1, rounds - 1) and client.name != SAME
                found.extend(measure(client, placement, nodes=NODES if seldom else 0))
            print(f'  round {number + 1} of {rounds}', file=sys.stderr)
    return found


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=15, help='number of rounds; medians are printed')
    parser.add_argument('--database', metavar='FILE', type=Path, help='holds the URL of an empty database; without it SQLite')
    parser.add_argument('--threads', type=int, default=None, help='of placement; 1 with SQLite, else 8')
    parser.add_argument('--without-peers', action='store_true', help='ours alone')
    arguments = parser.parse_args()
    names = [OURS]
    why: dict[str, str] = {}
    if not arguments.without_peers:
        peers.install()
        why = peers.missing([CYBORG_PEER, NOVA_PEER])
        names += [name for name in (CYBORG, SAME) if CYBORG not in why] + [name for name in (NOVA,) if NOVA not in why]
    place = harness.where()
    print(harness.header(place))
    print(''.join(f'{name}: not run: {reason}\n' for name, reason in why.items()), end='')
    # In a file, since it has a password.
    database = None if arguments.database is None else arguments.database.read_text(encoding='utf-8').strip()
    threads = arguments.threads or (1 if database is None else 8)
    kind = 'SQLite' if database is None else database.partition(':')[0]
    print(f'{DEVICES} devices a node; placement with {kind}, threads: {threads}\n')
    found = run(names, arguments.rounds, database=database, threads=threads)
    results = Results(found)
    print(harness.table(TITLES, results.rows()))
    bars = judge(results)
    record = {
        'where': place,
        'arguments': {name: str(value) for name, value in vars(arguments).items()},
        'peers': peers.versions() if len(names) > 1 else {},
        'not run': why,
        'runs': [asdict(one) for one in found],
        'bars': bars.lines(),
    }
    kept = harness.keep('placement', record)
    print(f'\nkept in {kept.relative_to(TOP)}')
    print('\n'.join(bars.lines()))
    sys.exit(0 if bars.all_met() else 1)


if __name__ == '__main__':
    main()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmark firmware updates of 1 node, of 100 nodes and of a tray, against the slowest device and Ironic's own update.

For one node our job is driven as the command line does it, for a hundred by our periodic in Ironic's workers. Ironic's own
update writes the same images to the same emulated machines in the same run. For a tray, one bundle is compared with one upload
for each of its components. What is computed and sent takes its real time. Client and machines skip pauses together, so that
hours pass in minutes and CPU time still counts. A device counts as flashed when the machine itself says so afterwards, never
because a client says so.
"""

import argparse
import hashlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from baremetal_acc.emulator.image import build_image
from benchmarks.flash import machine, tray
from benchmarks.inventory import harness, peers
from benchmarks.inventory.harness import TOP, Bars

CLIENTS = Path(__file__).with_name('clients')
OURS, IRONIC = 'ours', 'Ironic'
BUNDLE, ALONE = 'ours, bundle', 'ours, one upload per component'
"""Two ways of ours to flash a tray."""

BASELINE = """\
format = 1

[[rule]]
name = "cards"
match = {{ kind = "GPU" }}
firmware = {{ "{items}" = "{version}" }}
block = ["host-device"]
custody = "reported"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is flashed.

    :ivar is_tray: a tray that takes packages, one update at a time; else servers that take as many as they have cards.
    """

    name: str
    nodes: int
    cards: int
    is_tray: bool = False


CASES = {
    'one': Case(name='8 cards', nodes=1, cards=8),
    'fleet': Case(name='fleet', nodes=0, cards=1),
    'tray': Case(name='tray', nodes=1, cards=8, is_tray=True),
}
"""By the name that ``--only`` has for them; nodes 0: so many as are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One run of one client.

    :ivar flashed: nodes whose every card runs the new version, by the machine's own account; the host is on again.
    :ivar locked: nodes with the host's ways to every card closed.
    :ivar uploads: what has arrived, by the machines' own journals; ``starts`` of hosts; ``written`` are components, each time.
    :ivar slowest: seconds from the arrival of an upload to the end of the write of its slowest component, in that journal.
    :ivar restart: seconds that a machine takes to power off and on.
    :ivar ended: when each node was over, in the seconds that the machines lived through.
    :ivar told: whatever else the client told.
    """

    case: Case
    client: str
    flashed: int
    locked: int
    uploads: int
    starts: int
    written: int
    slowest: float
    restart: float
    ended: list[float]
    requests: int
    connections: int
    server_cpu: float
    real: float
    told: dict[str, Any]

    @property
    def last(self) -> float:
        """When the last node was over."""
        return max(self.ended)

    @property
    def whole(self) -> bool:
        """Every node was flashed, and the client says so too."""
        return self.flashed == self.case.nodes and not self.told['failures']

    @property
    def is_ours(self) -> bool:
        """It is a run of our client."""
        return self.client != IRONIC

    @property
    def is_one_upload(self) -> bool:
        """A whole run in which one upload and one start of the host wrote every component once."""
        once = (self.uploads, self.starts, self.written) == (1, 1, self.case.cards)
        return self.whole and self.locked == self.case.nodes and once

    @property
    def over_floor(self) -> float:
        """The time that it took, as a multiple of its slowest component's write and one restart."""
        return self.last / (self.slowest + self.restart)


class Machines:
    """Emulated machines in a process of their own."""

    def __init__(self, images: Path, case: Case, arguments: argparse.Namespace, *, locked: bool) -> None:
        command = [sys.executable, '-m', 'benchmarks.flash.served', str(images)]
        command += ['--count', str(case.nodes), '--cards', str(case.cards)]
        for name in ('flash_seconds', 'reset_seconds', 'delay', 'slots'):
            command += [f'--{name.replace("_", "-")}', str(getattr(arguments, name))]
        command += ['--locked'] if locked else []
        command += ['--tray'] if case.is_tray else []
        self._process = subprocess.Popen(command, cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.line = self._process.stdout.readline()
        if not self.line:
            raise SystemExit(f'the machines did not start: {" ".join(command)}')
        self._told = json.loads(self.line)

    def ask(self, path: str) -> Any:
        """What their control answers."""
        return _get(f'http://127.0.0.1:{self._told["control"]}{path}')

    def counters(self) -> list[dict[str, Any]]:
        """What was asked of each BMC."""
        return [_get(url)[machine.BMC] for url in self._told['counters']]

    def __enter__(self) -> 'Machines':
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def _get(url: str) -> Any:
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request('GET', parts.path)
    found = json.load(connection.getresponse())
    connection.close()
    return found


def write_documents(folder: Path, client: str, cards: int) -> None:
    """Baseline, catalogue and what is written."""
    (folder / 'images').mkdir()
    is_tray = client in (BUNDLE, ALONE)
    items, version = (tray.ITEMS, tray.NEW) if is_tray else (machine.item_pattern(), machine.NEW)
    (folder / 'baseline.toml').write_text(BASELINE.format(items=items, version=version), encoding='utf-8')
    if client == BUNDLE:
        tray.write_bundle(folder, cards)
    elif client == ALONE:
        tray.write_packages(folder, cards)
    else:
        _write_images(folder, cards)


def _write_images(folder: Path, cards: int) -> None:
    """Catalogue and one image for each card of a server."""
    entries = ['format = 1']
    for number in range(cards):
        image = build_image(model=machine.IMAGE_MODEL, component=machine.component(number), version=machine.NEW)
        name = machine.item(number)
        (folder / 'images' / f'{name}.img').write_bytes(image)
        entries += [
            '[[image]]',
            f'name = "card-{number}"',
            'kind = "firmware"',
            'fits = [{ pci = "0x10de:0x2330" }]',
            f'component = "{name}"',
            f'version = "{machine.NEW}"',
            'security_version = 1',
            f'source = "images/{name}.img"',
            f'size = {len(image)}',
            f'digest = "sha256:{hashlib.sha256(image).hexdigest()}"',
            'apply = { reset = "system-reset" }',
            'restore = "none"',
        ]
    (folder / 'catalogue.toml').write_text('\n'.join(entries) + '\n', encoding='utf-8')


def command_of(client: str, case: Case, folder: Path, arguments: argparse.Namespace) -> list[str]:
    """How a client is started."""
    if client == IRONIC:
        images = [machine.item(number) for number in range(case.cards)]
        return [str(peers.PYTHON), str(CLIENTS / 'ironic_firmware.py'), '--images', *images]
    module = 'ours' if case.nodes == 1 else 'ours_in_ironic'
    command = [sys.executable, '-m', f'benchmarks.flash.clients.{module}', str(folder)]
    parallel = 1 if case.is_tray else case.cards
    return [*command, '--parallel', str(parallel), '--poll', str(arguments.poll)]


def measure(client: str, case: Case, arguments: argparse.Namespace) -> Found:
    """One run, with machines of its own.

    :raises RuntimeError: the client failed; says why.
    """
    with tempfile.TemporaryDirectory(prefix='bench-flash-') as temporary:
        folder = Path(temporary)
        write_documents(folder, client, case.cards)
        # Ironic knows no locks, and a closed one would stop its update.
        with Machines(folder / 'images', case, arguments, locked=client != IRONIC) as machines:
            environ = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'} | {'PYTHONWARNINGS': 'ignore'}
            began = time.monotonic()
            done = subprocess.run(
                command_of(client, case, folder, arguments),
                cwd=TOP if client != IRONIC else folder,
                env=environ,
                input=machines.line,
                capture_output=True,
                text=True,
                timeout=arguments.limit,
                check=False,
            )
            real = time.monotonic() - began
            if done.returncode:
                raise RuntimeError((done.stderr.strip().splitlines() or [f'ended with {done.returncode}'])[-1][:300])
            told = json.loads(done.stdout.strip().splitlines()[-1])
            truth, counters = machines.ask('/truth'), machines.counters()
            return Found(
                case=case,
                client=client,
                flashed=sum(1 for one in truth if one['new'] == one['cards'] and one['on']),
                locked=sum(1 for one in truth if one['closed'] == one['cards']),
                uploads=sum(one['uploads'] for one in truth),
                starts=sum(one['starts'] for one in truth),
                written=sum(one['written'] for one in truth),
                slowest=max(one['slowest'] for one in truth),
                restart=max(one['restart'] for one in truth),
                ended=told.pop('ended'),
                requests=sum(one['total'] for one in counters),
                connections=sum(one['connections'] for one in counters),
                server_cpu=machines.ask('/cpu'),
                real=real,
                told=told,
            )


def row(found: Found, flash: float) -> tuple[object, ...]:
    """One line of the table."""
    nodes = found.case.nodes
    return (
        f'{found.case.name}, {found.client}',
        nodes,
        found.flashed,
        found.locked if found.is_ours else None,
        found.last,
        statistics.fmean(found.ended),
        found.last / flash,
        found.uploads / nodes,
        found.starts / nodes,
        found.written / nodes,
        found.slowest,
        found.requests / nodes,
        found.connections / nodes,
        found.told['cpu'] / nodes,
        found.told.get('derivations', 0) / nodes,
        found.told.get('longest'),
        found.real,
    )


TITLES = (
    'run',
    'nodes',
    'flashed',
    'locked',
    'last s',
    'mean s',
    'last/T',
    'uploads',
    'starts',
    'written',
    'slowest s',
    'req',
    'conn',
    'CPU s',
    'PBKDF2',
    'longest round',
    'real s',
)


def judge(cases: Sequence[Case], found: Sequence[Found], flash: float, reboot: float) -> Bars:
    """What has to hold: the worst of all rounds counts, and a node that was not flashed or not locked counts as not run.

    Nor does a bundle count that was not one upload, one start of the host and one write of each component.
    """
    bars = Bars()
    for case in cases:
        if case.is_tray:
            bundles = [f for f in found if f.client == BUNDLE and f.case == case]
            once = bool(bundles) and all(f.is_one_upload for f in bundles)
            bars.at_most('bundle', max(f.over_floor for f in bundles) if once else None, 1.1)
            continue
        ours = [f for f in found if f.client == OURS and f.case == case]
        whole = bool(ours) and all(f.whole and f.locked == case.nodes for f in ours)
        slowest = max((f.last for f in ours), default=0.0)
        if case.nodes == 1:
            bars.at_most('flash-one-node', (slowest - reboot) / flash if whole else None, 1.2)
        else:
            bars.at_most('flash-fleet', slowest / flash if whole else None, 1.3)
    return bars


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--nodes', type=int, default=100, help='nodes of the fleet')
    parser.add_argument(
        '--flash-seconds', type=float, default=300.0, metavar='T', help='seconds that the update of one device takes'
    )
    parser.add_argument('--reset-seconds', type=float, default=15.0, help='to power off, and again to power on')
    parser.add_argument('--poll', type=float, default=5.0, help='our poll_interval')
    parser.add_argument('--delay', type=float, default=0.0, help='seconds that every answer of a BMC takes')
    parser.add_argument('--slots', type=int, default=4, help='answers of a BMC in progress at a time')
    parser.add_argument('--limit', type=float, default=1800.0, help='real seconds after which a client is stopped')
    parser.add_argument('--only', choices=tuple(CASES), help='run this case only')
    parser.add_argument('--without-peers', action='store_true', help='ours alone')
    arguments = parser.parse_args()
    cases = [
        replace(case, nodes=case.nodes or arguments.nodes) for name, case in CASES.items() if arguments.only in (None, name)
    ]
    clients = [OURS]
    if not arguments.without_peers:
        peers.install()
        why = peers.missing([peers.IRONIC])
        print('\n'.join(f'{name}: not run: {reason}' for name, reason in why.items()), end='')
        clients += [] if why else [IRONIC]
    place = harness.where()
    reboot = 2 * arguments.reset_seconds
    print(harness.header(place))
    print(f'T = {arguments.flash_seconds:g} s a device, {reboot:g} s a restart of the host; pauses are skipped\n')
    found: list[Found] = []
    for _ in range(arguments.rounds):
        for case in cases:
            for client in (BUNDLE, ALONE) if case.is_tray else clients:
                try:
                    found.append(measure(client, case, arguments))
                except (RuntimeError, subprocess.TimeoutExpired) as exc:
                    print(f'{case.name}, {client}: not run: {exc}')
                else:
                    print(f'  {case.name}, {client}: {found[-1].last:.0f} s', file=sys.stderr)
    print(harness.table(TITLES, [row(one, arguments.flash_seconds) for one in found]))
    print(
        '\nuploads, starts, written, req, conn, CPU s and PBKDF2 are for one node. flashed, locked, uploads, starts and written'
    )
    print('are counted by the emulated machines; slowest s is the longest time from an upload to the end of its write.')
    for one in found:
        if one.client == BUNDLE and not one.is_one_upload:
            print(f'{one.case.name}, {one.client}: not counted: expected 1 upload, 1 start and {one.case.cards} written')
    for one in found:
        for reason in one.told['failed'][:3]:
            print(f'{one.case.name}, {one.client}: {one.told["failures"]} failed, for example: {reason[:200]}')
        if one.told.get('quiet'):
            print(f'{one.case.name}, {one.client}: {one.told["quiet"]} nodes were left alone for longer than Ironic allows')
    bars = judge(cases, found, arguments.flash_seconds, reboot)
    record = {
        'where': place,
        'arguments': vars(arguments),
        'peers': peers.versions() if len(clients) > 1 else {},
        'runs': [asdict(one) for one in found],
        'bars': bars.lines(),
    }
    kept = harness.keep('flash', record)
    print(f'\nkept in {kept.relative_to(TOP)}')
    print('\n'.join(bars.lines()))
    sys.exit(0 if bars.all_met() else 1)


if __name__ == '__main__':
    main()

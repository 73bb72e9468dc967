# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Measure how many BMCs a second one ``baremetal-acc inventory`` reads, its memory, and whether broken BMCs slow the others.

A thousand BMCs over HTTPS, verified against a CA of the benchmark, with login and locks, served by a process of their own. Our
side is the command as users run it. Its start is counted. Each run has a peer of the same requests beside it, by asyncio and
httptools, that makes nothing of the answers (:mod:`benchmarks.inventory.asyncio_fleet`): the bars are ratios to it.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from baremetal_acc.emulator.tls import make_certificate
from benchmarks.inventory import harness
from benchmarks.inventory.harness import Bars, Served
from benchmarks.inventory.served import PASSWORD, USER

TWO_GPUS = 'hpe/dl380a-gen11-2xh100nvl'
COMMAND = Path(sys.executable).with_name('baremetal-acc')

PEERS = {'expand': 0.5, 'plain': 0.75}
"""Runs that have a peer beside them, and the share of its BMCs a second that ours reaches at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One run.

    :ivar wall: seconds from the start of the command to its end.
    :ivar healthy_wall: seconds until the last healthy BMC was told.
    """

    name: str
    bmcs: int
    healthy: int
    right: int
    wall: float
    healthy_wall: float
    cpu: float
    rss: int
    requests: int
    connections: int
    repeated: int
    left: int
    peak: int
    server_cpu: float
    late: float
    errors: str
    asked: dict[str, int]

    @property
    def rate(self) -> float:
        """Healthy BMCs a second that were read right."""
        return self.right / self.healthy_wall if self.healthy_wall else 0.0


def measure(
    name: str,
    recording: str,
    *,
    count: int,
    expand: bool,
    delay: float,
    slots: int,
    broken: int = 0,
    timeout: float = 900,
    targets: Sequence[str] = (),
    processes: int = 1,
) -> Fleet:
    """Read a fleet once.

    :param targets: what the peer asks each BMC for; none: our command does it, with so many processes.
    """
    folder = harness.recording(recording)
    expected = yaml.safe_load((folder / 'expected.yaml').read_text(encoding='utf-8'))
    wanted = len(expected['accelerators'])
    third = broken // 3
    with tempfile.TemporaryDirectory(prefix='baremetal-acc-bench-') as temporary:
        certificate = make_certificate(Path(temporary), 'bench')
        with Served(
            folder,
            count=count,
            silent=broken - 2 * third,
            refusing=third,
            dripping=third,
            delay=delay,
            slots=slots,
            expand=expand,
            certificate=str(certificate.chain),
        ) as served:
            kinds = _spread(list(zip(served.ports, served.kinds, strict=True)))
            listing = Path(temporary) / 'bmcs.yaml'
            listing.write_text(_listing(kinds, certificate.ca), encoding='utf-8')
            listing.chmod(0o600)
            environ = {
                **os.environ,
                'BENCH_PASSWORD': PASSWORD,
                'XDG_STATE_HOME': f'{temporary}/state',
                'XDG_CONFIG_HOME': f'{temporary}/config',
            }
            healthy = {f'bmc-{port}' for port, kind in kinds if kind == 'healthy'}
            seen: set[str] = set()
            at: list[float] = []
            started = time.monotonic()

            def on_line(line: bytes) -> bool:
                # The name comes first in each line; the rest is parsed when nothing is measured any more.
                target = line.partition(b'"target": "')[2].partition(b'"')[0].decode()
                if target in healthy:
                    seen.add(target)
                    at.append(time.monotonic() - started)
                return bool(broken) and len(seen) == len(healthy)

            conf = Path(temporary) / 'acc.conf'
            conf.write_text(f'[baremetal_acc]\nfleet_processes = {processes}\n', encoding='utf-8')
            command = [str(COMMAND), 'inventory', '--config-file', str(conf), '--bmcs', str(listing), '--stream']
            if targets:
                asked = Path(temporary) / 'asked.json'
                told = {'ca': str(certificate.ca), 'ports': served.ports, 'targets': list(targets)}
                asked.write_text(json.dumps(told), encoding='utf-8')
                command = [sys.executable, '-m', 'benchmarks.inventory.asyncio_fleet', str(asked)]
            done = harness.run(
                command,
                environ=environ,
                on_line=on_line,
                timeout=timeout,
            )
            wall = time.monotonic() - started
            counts = served.counts()
    bodies = [json.loads(line) for line in done.lines]

    def is_right(body: dict[str, Any]) -> bool:
        return bool(targets) or (not body['error'] and len(body['accelerators']) == wanted and _locks_read(body))

    right = sum(1 for b in bodies if b['target'] in healthy and is_right(b))
    return Fleet(
        name=name,
        bmcs=count,
        healthy=len(healthy),
        right=right,
        wall=wall,
        healthy_wall=at[-1] if broken and at else wall,
        cpu=done.seconds,
        rss=done.rss,
        requests=counts['requests'],
        connections=counts['connections'],
        repeated=counts['repeated'],
        left=counts['left'],
        peak=counts['peak'],
        server_cpu=counts['cpu'],
        late=counts['late'],
        errors=done.errors,
        asked=counts['asked'],
    )


def _locks_read(body: dict[str, Any]) -> bool:
    return all(a['device_lock'] in ('none', 'locked', 'unlocked', 'unknown') for a in body['accelerators'])


def _spread(kinds: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Broken BMCs evenly among the others, as in a real list."""
    broken = [one for one in kinds if one[1] != 'healthy']
    healthy = [one for one in kinds if one[1] == 'healthy']
    if not broken:
        return healthy
    every = max(1, len(kinds) // len(broken))
    found: list[tuple[int, str]] = []
    while healthy or broken:
        if broken and (len(found) % every == 0 or not healthy):
            found.append(broken.pop(0))
        else:
            found.append(healthy.pop(0))
    return found


def _listing(kinds: list[tuple[int, str]], ca: Path) -> str:
    return 'format: 1\ntargets:\n' + ''.join(
        f'  bmc-{port}:\n    bmcs:\n      host: {{address: "https://127.0.0.1:{port}", username: {USER}, '
        f'password_env: BENCH_PASSWORD, verify_ca: {ca}}}\n'
        for port, _ in kinds
    )


def _row(one: Fleet, alone: Fleet) -> list[object]:
    extra = one.rss - alone.rss
    return [
        one.name,
        one.bmcs,
        one.right,
        one.wall,
        one.rate,
        one.cpu / one.bmcs,
        one.rss / 2**20,
        extra / one.bmcs / 1024,
        one.requests / one.bmcs,
        one.connections / one.bmcs,
        one.peak,
        one.server_cpu / one.wall,
        one.late * 1000,
    ]


def _peer(name: str) -> str:
    return f'{name} (asyncio)'


def _shared(name: str) -> str:
    return f'{name} (2 processes)'


def main() -> None:
    """Measure, print, and end with 1 when a bar is short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=1000, help='BMCs')
    parser.add_argument('--delay', type=float, default=0.05, help='seconds for a request')
    parser.add_argument('--slots', type=int, default=4, help='requests at a time, for each BMC')
    parser.add_argument('--rounds', type=int, default=1, help='number of runs of each kind; medians are printed')
    parser.add_argument('--only', action='append', default=[], metavar='NAME', help='expand, plain, broken or gh200')
    arguments = parser.parse_args()
    place = harness.where()
    print(f'Fleet: {harness.header(place)}')
    cost = f'{arguments.delay * 1000:.0f} ms a request, {arguments.slots} slots each'
    print(f'{arguments.count} BMCs, {cost}, HTTPS verified, login on\n')
    common = {'delay': arguments.delay, 'slots': arguments.slots}
    alone = measure('one BMC', TWO_GPUS, count=1, expand=True, **common)
    wanted: dict[str, dict[str, Any]] = {
        'expand': {'recording': TWO_GPUS, 'expand': True},
        'plain': {'recording': TWO_GPUS, 'expand': False},
        'broken': {'recording': TWO_GPUS, 'expand': True, 'broken': arguments.count // 20},
        'gh200': {'recording': 'nvidia/gh200', 'expand': True},
    }
    chosen = [name for name in wanted if not arguments.only or name in arguments.only]
    runs: dict[str, list[Fleet]] = {}
    for name in chosen:
        if name in PEERS:
            asked = measure(name, count=1, **wanted[name], **common).asked
            gets = [one.partition(' ')[2] for one in asked if one.startswith('GET ')]
            wanted[_peer(name)] = wanted[name] | {'targets': gets}
            wanted[_shared(name)] = wanted[name] | {'processes': 2}
    for _ in range(arguments.rounds):
        for name in (kind for one in chosen for kind in (one, _peer(one), _shared(one)) if kind in wanted):
            found = measure(name, count=arguments.count, **wanted[name], **common)
            runs.setdefault(name, []).append(found)
            print(f'  {name}: {found.rate:.1f} BMC/s', file=sys.stderr)
    middle = {name: sorted(found, key=lambda one: one.rate)[len(found) // 2] for name, found in runs.items()}
    titles = (
        'run',
        'BMCs',
        'right',
        'wall s',
        'BMC/s',
        'CPU s/BMC',
        'peak MiB',
        'KiB/BMC',
        'req/BMC',
        'conn/BMC',
        'peak req',
        'server CPU',
        'late ms',
    )
    print(harness.table(titles, [_row(one, alone) for one in (alone, *middle.values())]))
    print('\nbroken: one in 20 takes connections and never answers, refuses them, or answers a byte a second; BMC/s counts')
    print(
        'the healthy ones, until the last of them was reported. server CPU: cores used by the server; near 1, it is the limit.'
    )
    for one in middle.values():
        if one.right < one.healthy:
            print(
                f'{one.name}: {one.healthy - one.right} of {one.healthy} healthy BMCs were read wrongly: {one.errors[-1000:]}'
            )
    bars = Bars()
    rates = {name: statistics.median(one.rate for one in found) for name, found in runs.items()}
    whole = {name: all(one.right == one.healthy for one in found) for name, found in runs.items()}
    for name, limit in PEERS.items():
        both = name in runs and whole[name] and whole[_peer(name)]
        pairs = zip(runs[name], runs[_peer(name)], strict=True) if both else ()
        ratios = [ours.rate / peer.rate for ours, peer in pairs]
        bars.at_least(f'fleet-{name}', statistics.median(ratios) if ratios else None, limit)
    rss = [one.rss / 2**20 for name in ('expand', 'plain', 'broken') if whole.get(name) for one in runs[name]]
    bars.at_most('fleet-memory', max(rss) if rss else None, 400)
    isolated = rates['broken'] / rates['expand'] if whole.get('broken') and whole.get('expand') else None
    bars.at_least('fleet-isolation', isolated, 0.8)
    figures = {
        name: [{k: getattr(one, k) for k in Fleet.__slots__} | {'rate': one.rate} for one in found]
        for name, found in runs.items()
    }
    kept = harness.keep('fleet', {'where': place, 'arguments': vars(arguments), 'runs': figures, 'bars': bars.lines()})
    print(f'\nkept in {kept.relative_to(harness.TOP)}')
    print('\n'.join(bars.lines()))
    sys.exit(0 if bars.all_met() else 1)


if __name__ == '__main__':
    main()

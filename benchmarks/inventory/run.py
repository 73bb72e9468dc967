# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the inventory of one BMC with the physical limit and with other clients, on the same served trees.

Every client is a process of its own and is measured from its first request to its last; the server does the counting. Clients
take turns in every round. Medians are printed next to the floor of ``floor.py``.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.inventory import harness, larger, many, peers
from benchmarks.inventory.floor import Cost, Needed, bare, better, load
from benchmarks.inventory.harness import Bars, Served
from benchmarks.inventory.served import PASSWORD, USER

HGX = 'supermicro/hgx-h100-8gpu'
OTHERS = (
    'hpe/dl380a-gen11-2xh100nvl',
    'nvidia/gh200',
    'nvidia/bluefield3',
    'dell/r750-h100-bluefield2',
    'lenovo/sr670v2-8xl40-bluefield2',
    'dmtf/smartnic',
    'dmtf/rackmount',
)
SYSTEMS = dict.fromkeys((HGX, larger.NAME, many.NAME), '/redfish/v1/Systems/1')
CLIENTS = Path(__file__).with_name('clients')
OURS, AGAIN = 'ours', 'ours again'
SECTIONS = ('grid', 'peers', 'larger', 'costly', 'connection', 'repeat', 'recordings')


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One kind of BMC."""

    section: str
    tree: str
    expand: bool
    delay: float = 0.05
    slots: int = 4
    member_delay: float = 0.0
    connection_delay: float = 0.0
    clients: tuple[str, ...] = (OURS,)

    @property
    def label(self) -> str:
        """For people."""
        parts = [self.tree.rpartition('/')[2], f'{self.delay * 1000:.0f} ms', f'{self.slots} slots']
        parts.append('$expand' if self.expand else 'no $expand')
        if self.member_delay:
            parts.append(f'{self.member_delay * 1000:.0f} ms a member')
        if self.connection_delay:
            parts.append(f'{self.connection_delay * 1000:.0f} ms a connection')
        return ', '.join(parts)

    @property
    def cost(self) -> Cost:
        """What a request costs here."""
        return Cost(delay=self.delay, slots=self.slots, member_delay=self.member_delay)


@dataclass(slots=True)
class Results:
    """All runs of one client in one cell."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    failed: str | None = None

    def median(self, name: str) -> float | None:
        """Of a figure; None when there is none."""
        return statistics.median(run[name] for run in self.runs) if self.runs else None

    @property
    def asked(self) -> frozenset[str]:
        """Resources that were read in any run."""
        return frozenset(bare(t.removeprefix('GET ')) for run in self.runs for t in run['asked'] if t.startswith('GET '))


def cells(chosen: Iterable[str], *, full: bool) -> list[Cell]:
    """What is measured."""
    everybody = (OURS, *(p.name for p in peers.PEERS))
    found = []
    for section in chosen:
        for expand in (True, False):
            match section:
                case 'grid':
                    found += [
                        Cell(section=section, tree=HGX, expand=expand, delay=d, slots=s, clients=everybody if full else (OURS,))
                        for d in (0.01, 0.05, 0.2)
                        for s in (1, 2, 4, 8)
                    ]
                case 'peers':
                    found.append(Cell(section=section, tree=HGX, expand=expand, clients=everybody))
                case 'larger':
                    found.append(
                        Cell(section=section, tree=larger.NAME, expand=expand, clients=everybody if expand or full else (OURS,))
                    )
                case 'costly':
                    costs = (0.005, 0.025, 0.05) if expand else ()
                    found += [Cell(section=section, tree=HGX, expand=True, member_delay=cost) for cost in costs]
                case 'connection':
                    clients = (OURS, 'sushy') if full or expand else (OURS,)
                    found.append(Cell(section=section, tree=HGX, expand=expand, connection_delay=0.1, clients=clients))
                case 'repeat':
                    found += [Cell(section=section, tree=t, expand=expand, clients=(AGAIN,)) for t in (HGX, larger.NAME)]
                case 'recordings':
                    found += [Cell(section=section, tree=tree, expand=expand) for tree in (*OTHERS, many.NAME)]
    return found


def folder(tree: str) -> Path:
    """Where a tree lies; the larger one is made first."""
    made = {larger.NAME: larger.make, many.NAME: many.make}
    return made[tree](harness.WORK / 'trees' / tree) if tree in made else harness.recording(tree)


def measure(cell: Cell, client: str, served: Served, temporary: str) -> dict[str, Any]:
    """One run.

    :raises RuntimeError: the client failed; says why.
    """
    where = [f'http://127.0.0.1:{served.ports[0]}', USER, PASSWORD]
    system = ['--system', SYSTEMS[cell.tree]] if cell.tree in SYSTEMS else []
    if client in (OURS, AGAIN):
        command = [sys.executable, str(CLIENTS / 'ours.py'), *where, *system, '--slots', str(cell.slots)]
        command += ['--repeat', str(served.control)] if client == AGAIN else ['--document', f'{temporary}/document.json']
    else:
        peer = next(p for p in peers.PEERS if p.name == client)
        command = [str(peers.PYTHON), str(CLIENTS / f'{peer.client}.py'), *where, *(system if peer.named_system else ())]
    environ = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH' or client in (OURS, AGAIN)}
    environ |= {'XDG_STATE_HOME': f'{temporary}/state', 'XDG_CACHE_HOME': f'{temporary}/cache', 'PYTHONWARNINGS': 'ignore'}
    served.counts()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900, check=False)
    counts = served.counts()
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f'ended with {done.returncode}'])[-1][:200])
    told = json.loads(done.stdout.strip().splitlines()[-1])
    counts |= {k: v for k, v in told.pop('counts', {}).items() if k != 'left'}
    return {**counts, 'server_cpu': counts.pop('cpu'), **told}


def right(tree: str, temporary: str) -> str:
    """Whether our last inventory of a tree is what its truth says."""
    compare = harness.recording(HGX).parents[1] / 'compare.py'
    expected = folder(tree) / 'expected.yaml'
    command = [sys.executable, str(compare), str(expected), f'{temporary}/document.json']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else done.stderr.strip()[-200:]


def floor_of(cell: Cell, results: Results | None) -> float | None:
    """Seconds below which nobody can be, of the way that the BMC offers, or of the better one where $expand costs."""
    ways = lists(cell, results)
    return better(ways, cell.cost) if ways else None


def lists(cell: Cell, results: Results | None) -> list[Needed]:
    """What is needed in a cell, as far as locks go that our client reads."""
    asked = results.asked if results is not None else frozenset()
    try:
        ways = [load(cell.tree, expand=cell.expand)]
        if cell.member_delay:
            ways.append(load(cell.tree, expand=False))
    except FileNotFoundError:
        return []
    return [way.counting(asked) for way in ways]


def row(cell: Cell, client: str, results: Results, ours: Results | None) -> list[object]:
    """One line of the table."""
    wall, cpu = results.median('wall'), results.median('cpu')
    base_wall = ours.median('wall') if ours is not None else None
    base_cpu = ours.median('cpu') if ours is not None else None
    limit = floor_of(cell, ours)
    if client == AGAIN:
        limit = flat(cell, results)
    return [
        cell.label,
        client,
        _whole(results.median('requests')),
        _whole(results.median('repeated')),
        _whole(results.median('connections')),
        _whole(results.median('peak')),
        wall,
        wall / base_wall if wall and base_wall else None,
        cpu,
        cpu / base_cpu if cpu and base_cpu else None,
        limit,
        wall / limit if wall and limit else None,
        results.failed or delivered(results),
    ]


def flat(cell: Cell, results: Results) -> float | None:
    """Seconds of a second look whose requests run all at once: requests x delay / slots."""
    asked = results.median('requests')
    ways = lists(cell, results)
    return min(asked, ways[0].again) * cell.delay / cell.slots if asked and ways else None


def delivered(results: Results) -> str:
    """What a client had found in the end."""
    known = {'accelerators', 'processors', 'pcie_functions', 'pci_devices', 'adapters', 'devices', 'firmware', 'locks', 'read'}
    last = results.runs[-1] if results.runs else {}
    return ', '.join(f'{last[name]} {name}' for name in last if name in known)


def _whole(value: float | None) -> str | None:
    return None if value is None else f'{value:.0f}'


def bars_of(found: dict[tuple[Cell, str], Results], section: str, tree: str) -> dict[str, float | None]:
    """The figures that bars are about, for one tree at 50 ms and 4 slots."""

    def results(client: str, *, expand: bool, part: str = section, member_delay: float = 0.0) -> tuple[Cell, Results] | None:
        for (cell, name), runs in found.items():
            same = (cell.section, cell.tree, cell.expand, cell.delay, cell.slots, cell.member_delay)
            if name == client and same == (part, tree, expand, 0.05, 4, member_delay) and runs.runs:
                return cell, runs
        return None

    def over_floor(one: tuple[Cell, Results] | None) -> float | None:
        return _ratio(one[1].median('wall'), floor_of(*one)) if one else None

    def in_hand(one: tuple[Cell, Results] | None) -> float | None:
        ways = lists(*one) if one else []
        limit = min((way.floor(one[0].cost, logout=False) for way in ways), default=None) if one else None
        return _ratio(one[1].median('in_hand'), limit) if one else None

    def against(name: str, one: tuple[Cell, Results] | None, other: tuple[Cell, Results] | None) -> float | None:
        return _ratio(one[1].median(name), other[1].median(name)) if one and other else None

    def over_flat(one: tuple[Cell, Results] | None) -> float | None:
        return _ratio(one[1].median('wall'), flat(*one)) if one else None

    def over_rounds(one: tuple[Cell, Results] | None) -> float | None:
        limit = flat(*one) if one else None
        if one is None or limit is None:
            return None
        return _ratio(one[1].median('wall'), math.ceil(round(limit / one[0].delay, 6)) * one[0].delay)

    ours = {expand: results(OURS, expand=expand) for expand in (True, False)}
    ironic = {expand: results(peers.IRONIC.name, expand=expand) or results(peers.IRONIC.name, expand=True) for expand in ours}
    return {
        'wall-over-floor-expand': over_floor(ours[True]),
        'wall-over-floor-plain': over_floor(ours[False]),
        'in-hand-over-floor-expand': in_hand(ours[True]),
        'in-hand-over-floor-plain': in_hand(ours[False]),
        'wall-over-floor-costly-expand': over_floor(results(OURS, expand=True, part='costly', member_delay=0.025)),
        'ironic-wall-ratio-expand': against('wall', ironic[True], ours[True]),
        'ironic-requests-ratio-expand': against('requests', ours[True], ironic[True]),
        'ironic-wall-ratio-plain': against('wall', ironic[False], ours[False]),
        'repeated-over-rounds-expand': over_rounds(results(AGAIN, expand=True, part='repeat')),
        'repeated-over-rounds-plain': over_rounds(results(AGAIN, expand=False, part='repeat')),
        'repeated-over-flat-expand': over_flat(results(AGAIN, expand=True, part='repeat')),
        'repeated-over-flat-plain': over_flat(results(AGAIN, expand=False, part='repeat')),
    }


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


ALL = ('peers', 'larger', 'recordings')
"""Parts that hold each tree once, at 50 ms and 4 slots."""


def over_schedules(found: dict[tuple[Cell, str], Results]) -> dict[tuple[str, bool], float]:
    """How many times as long as the best schedule ours took, by tree and whether $expand is offered."""
    ratios = {}
    for (cell, client), results in found.items():
        ways = lists(cell, results) if client == OURS and cell.section in ALL else []
        ratio = _ratio(results.median('wall'), min((way.schedule(cell.cost) for way in ways), default=None))
        if ratio is not None:
            ratios[cell.tree, cell.expand] = ratio
    return ratios


def _worst(ratios: dict[tuple[str, bool], float], *, expand: bool) -> float | None:
    return max((ratio for (_, way), ratio in ratios.items() if way is expand), default=None)


LIMITS = {
    'wall-over-schedule-expand': ('<=', 1.1),
    'wall-over-schedule-plain': ('<=', 1.1),
    'wall-over-floor-costly-expand': ('<=', 1.2),
    'repeated-over-rounds-expand': ('<=', 1.1),
    'repeated-over-rounds-plain': ('<=', 1.1),
}


def main() -> None:
    """Measure, print, and end with 1 when a bar is short."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--full', action='store_true', help='all peers on the whole grid; takes hours')
    parser.add_argument('--only', action='append', default=[], choices=SECTIONS, help='run this part only; can be repeated')
    parser.add_argument('--ours', action='store_true', help='no peers')
    arguments = parser.parse_args()
    place = harness.where()
    print(f'Inventory of one BMC: {harness.header(place)}')
    absent: dict[str, str] = {p.name: 'left out (--ours)' for p in peers.PEERS}
    if not arguments.ours:
        peers.install()
        absent = peers.missing()
        print('peers: ' + ', '.join(f'{name} {version}' for name, version in sorted(peers.versions().items())))
    for name, reason in absent.items():
        print(f'{name}: not run: {reason}')
    found: dict[tuple[Cell, str], Results] = {}
    agreed: dict[str, str] = {}
    chosen = cells(arguments.only or SECTIONS, full=arguments.full)
    with tempfile.TemporaryDirectory(prefix='baremetal-acc-bench-') as temporary:
        try:
            for number in range(arguments.rounds):
                for cell in chosen:
                    print(f'  round {number + 1}: {cell.label}', file=sys.stderr)
                    one_round(cell, found, absent, agreed, temporary)
        except KeyboardInterrupt:
            print('interrupted: the results until then follow', file=sys.stderr)
    report(found, agreed)
    figures = bars_of(found, 'peers', HGX)
    if not any(cell.section == 'peers' for cell, _ in found):
        figures = bars_of(found, 'grid', HGX)
    ratios = over_schedules(found)
    figures |= {f'wall-over-schedule-{way}': _worst(ratios, expand=way == 'expand') for way in ('expand', 'plain')}
    bars = Bars()
    for name, (sign, limit) in LIMITS.items():
        (bars.at_most if sign == '<=' else bars.at_least)(name, figures[name], limit)
    rows = {name: figure for name, figure in figures.items() if name not in LIMITS}
    rows |= {f'larger-{name}': figure for name, figure in bars_of(found, 'larger', larger.NAME).items()}
    rows |= {f'{tree}-wall-over-schedule-{"expand" if way else "plain"}': ratio for (tree, way), ratio in ratios.items()}
    for name, figure in rows.items():
        if figure is not None:
            print(f'row {name}: {figure:.2f}')
    kept = harness.keep('inventory', {'where': place, 'runs': _record(found), 'agreed': agreed, 'bars': bars.lines()})
    print(f'\nkept in {kept.relative_to(harness.TOP)}')
    print('\n'.join(bars.lines()))
    sys.exit(0 if bars.all_met() else 1)


def one_round(
    cell: Cell, found: dict[tuple[Cell, str], Results], absent: dict[str, str], agreed: dict[str, str], temporary: str
) -> None:
    """Every client once, on one fresh server."""
    clients = [client for client in cell.clients if client not in absent]
    with Served(
        folder(cell.tree),
        fill=True,
        expand=cell.expand,
        delay=cell.delay,
        slots=cell.slots,
        member_delay=cell.member_delay,
        connection_delay=cell.connection_delay,
    ) as served:
        for client in clients:
            results = found.setdefault((cell, client), Results())
            try:
                results.runs.append(measure(cell, client, served, temporary))
            except (RuntimeError, subprocess.TimeoutExpired) as exc:
                results.failed = f'failed: {exc}'
                continue
            if client == OURS:
                agreed[f'{cell.tree}, {"$expand" if cell.expand else "no $expand"}'] = right(cell.tree, temporary)


def report(found: dict[tuple[Cell, str], Results], agreed: dict[str, str]) -> None:
    """The tables."""
    titles = (
        'BMC',
        'client',
        'req',
        'repeated',
        'conn',
        'peak',
        'wall s',
        'x ours',
        'CPU s',
        'x ours',
        'floor s',
        'x floor',
        'delivers',
    )
    for section in SECTIONS:
        rows = [
            row(cell, client, results, found.get((cell, OURS)))
            for (cell, client), results in found.items()
            if cell.section == section
        ]
        if rows:
            print(f'\n{section}\n{harness.table(titles, rows)}')
    print('\nfloor: max(depth x delay, requests x delay / slots) of needed/*.txt; for "ours again": requests x delay / slots.')
    late = [run['late'] for results in found.values() for run in results.runs if 'late' in run]
    if late:
        mean, worst = statistics.mean(late) * 1000, max(late) * 1000
        print(f'answers of the server came {mean:.1f} ms late on average, {worst:.1f} in the worst run')
    for name, told in sorted(agreed.items()):
        print(f'our record of {name}: {told}')
    left = sum(run['left'] for (_, client), results in found.items() for run in results.runs if client in (OURS, AGAIN))
    if left:
        print(f'our client has left {left} sessions open on BMCs')
    for (cell, client), results in found.items():
        if client == OURS and cell.section in ('peers', 'larger', 'recordings') and results.runs:
            for way in lists(cell, results)[:1]:
                beyond, left_out = results.asked - way.paths, way.paths - results.asked
                cost = f'best schedule {way.schedule(cell.cost):.3f} s, depth {way.depth}'
                print(f'{cell.label}: {len(beyond)} requests not in the list, {len(left_out)} of the list not sent; {cost}')


def _record(found: dict[tuple[Cell, str], Results]) -> list[dict[str, Any]]:
    """What is kept: figures without the targets."""
    return [
        {
            'cell': cell.label,
            'section': cell.section,
            'client': client,
            'failed': results.failed,
            'floor': floor_of(cell, found.get((cell, OURS))),
            'runs': [{k: v for k, v in run.items() if k != 'asked'} for run in results.runs],
        }
        for (cell, client), results in found.items()
    ]


if __name__ == '__main__':
    main()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Explore what anybody can do with a node: pairs of a state and a request, the pure model, and random sequences on real Ironic.

    python -m tests.exploration.soak [--folder DIR] [--seconds 3600] [--sequences 1000] [--seed N] [--processes 2] [--only ITEM]

Each finished item is stored in the folder, so that an interrupted soak resumes there. ``--only sequence:7`` repeats one item
and prints what was wrong.
"""
# ruff: noqa: T201

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.exploration import model
from tests.exploration.paths import Search

GIVEN = 'BAREMETAL_ACC_EXPLORATION'
HERE = Path(__file__).parent
STORY = 60
"""Lines of the story of a violation that are told, at most."""


def done(folder: Path) -> list[dict[str, Any]]:
    """What was done in a folder before."""
    return [json.loads(line) for path in sorted(folder.glob('done-*.jsonl')) for line in path.read_text().splitlines()]


def pairs() -> list[str]:
    """The items of all pairs, from a process that loads Ironic."""
    code = (
        'import ironic.tests.unit; from tests.exploration import pairs, verbs; '
        'print("\\n".join(f"pairs:{s}/{v.name}" for s in pairs.STATES for v in verbs.REQUESTS))'
    )
    found = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if line.startswith('pairs:')]


def run(items: Iterable[str], folder: Path, seconds: float, processes: int) -> int:
    """Play items in several processes; how many of these failed."""
    left, began = list(items), []
    for number in range(processes):
        given = {
            'items': left[number::processes],
            'seconds': seconds,
            'file': str(folder / f'done-{number}.jsonl'),
        }
        log = (folder / f'log-{number}.txt').open('w')
        command = [sys.executable, '-m', 'pytest', '-q', '-x', '-p', 'no:cacheprovider', str(HERE / 'soaking.py')]
        began.append(
            subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ | {GIVEN: json.dumps(given)})
        )
    return sum(process.wait() != 0 for process in began)


def edges(folder: Path, until: float, processes: int) -> tuple[Search, int]:
    """Expand all states that can be reached, level by level; how many processes failed.

    :param until: after which nothing more is begun, in seconds of the monotonic clock.
    """
    search, failed = Search(), 0
    while search.level:
        items = {f'edges:{path}': path for path in search.level}
        known = {one['item'] for one in done(folder)}
        left = [item for item in items if item not in known]
        if left:
            failed += run(left, folder, until - time.monotonic(), processes)
        found = {items[one['item']]: one['found'] for one in done(folder) if one['item'] in items}
        if failed or len(found) < len(items):
            break
        search.expanded({path: what for path, what in found.items() if what is not None})
        print(f'{len(search.reached):,} states, {len(search.edges):,} edges, {len(search.level)} to expand', flush=True)
    return search, failed


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog='python -m tests.exploration.soak', description=__doc__.splitlines()[0])
    parser.add_argument('--folder', type=Path, default=Path('/tmp/baremetal-acc-exploration'))
    parser.add_argument('--seconds', type=float, default=3400.0, help='after which nothing more is begun')
    parser.add_argument('--sequences', type=int, default=1000)
    parser.add_argument('--model', type=int, default=100_000, metavar='N', help='sequences on the pure model')
    parser.add_argument('--seed', type=int, default=1, help='of the first sequence')
    parser.add_argument('--processes', type=int, default=2)
    parser.add_argument('--only', metavar='ITEM', help='play this alone: sequence:SEED, pairs:STATE/REQUEST or edges:PATH')
    given = parser.parse_args(argv)
    given.folder.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False).stdout.strip()
    print(f'commit {commit or "?"}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}')
    if given.only is not None:
        only = given.folder / 'only'
        only.mkdir(exist_ok=True)
        (only / 'done-0.jsonl').unlink(missing_ok=True)
        failed = run([given.only], only, given.seconds, 1)
        wrong = [one['wrong'] for one in done(only) if one['wrong']]
        print('\n'.join(wrong) or 'nothing was wrong')
        return 1 if failed or wrong else 0
    began = time.monotonic()
    states = model.soak(given.model, given.seed)
    print(f'{given.model:,} sequences on the model, {states:,} states of it, {time.monotonic() - began:.0f} s', flush=True)
    known = {one['item'] for one in done(given.folder)}
    items = pairs()
    items += [f'sequence:{seed}' for seed in range(given.seed, given.seed + given.sequences)]
    left = [item for item in items if item not in known]
    print(f'{len(items) - len(left)} of {len(items)} things were done before, in {given.folder}', flush=True)
    failed = run(left, given.folder, given.seconds, given.processes)
    search, more = edges(given.folder, began + given.seconds, given.processes)
    failed += more
    asked = set(items)
    found = [one for one in done(given.folder) if one['item'] in asked or one['item'].startswith('edges:')]
    figures: Counter[str] = Counter()
    for one in found:
        figures += Counter(one['figures'])
    for name, number in sorted(figures.items()):
        print(f'{number:10,} {name}')
    wrong = [one for one in found if one['wrong']]
    for one in wrong:
        print(f'WRONG in {one["item"]}: ' + '\n'.join(one['wrong'].splitlines()[:STORY]))
    print(
        f'{len(search.edges):,} edges between {len(search.reached):,} states, {len(search.level)} of which are left to expand; '
        f'{search.strayed} paths led elsewhere when they were gone again'
    )
    left_over = len(asked - {one['item'] for one in found})
    print(f'{time.monotonic() - began:.0f} s; {left_over} other things are left; {len(wrong)} went wrong')
    return 1 if wrong or failed else 0


if __name__ == '__main__':
    sys.exit(main())

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Damage every link and member of each recorded tree in every way, one at a time, and inspect it: ``make soak-trees``.

    python -m tests.damaged_trees.soak [--folder DIR] [--looks 50000] [--seconds N] [--processes N] [--tree NAME] [--only N]

The result of each inspection is stored in the folder, with the commit: an interrupted soak resumes there, and on another commit
it starts again. ``--tree NAME --only NUMBER`` repeats one inspection and prints what was wrong.
"""
# ruff: noqa: T201

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.damaged_trees.damage import KINDS, Damage, damages
from tests.damaged_trees.oracle import Known, Result, judge
from tests.damaged_trees.tree import Tree, folders

FIGURES = ('looks', 'hidden', 'unknowable', 'refused', 'limit', 'wrong')
"""Of each kind. Hidden: devices are not seen, and a gap says so. Unknowable: nothing that the BMC still shows says that they
are there. Refused: the look ended in an error. Limit: not noticed, and known (:data:`tests.damaged_trees.oracle.LIMITS`)."""

LOOKS = 50_000


def candidates(known: Known) -> list[tuple[int, Callable[[], Damage | None]]]:
    """All that can be damaged of a tree, numbered, in an order that a part of which is a fair sample."""
    found = list(enumerate(damages(known.tree, known.asked)))
    random.Random(known.tree.name).shuffle(found)
    return found


def commit() -> str:
    """Of the checkout, with a mark where files differ from it."""
    said = subprocess.run(['git', 'describe', '--always', '--dirty'], capture_output=True, text=True, check=False)
    return said.stdout.strip() or '?'


def tried(known: Known, number: int, make: Callable[[], Damage | None]) -> tuple[Damage, Result] | None:
    """One look; None where the kind does not apply. Every third BMC expands collections."""
    damage = make()
    return None if damage is None else (damage, judge(known, damage, expands=number % 3 == 0))


def noted(path: Path, mark: str) -> dict[int, dict[str, object]]:
    """What came of the looks that an earlier run has done, by number; the last line may have been cut off."""
    found: dict[int, dict[str, object]] = {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if one['commit'] == mark:
            found[one['number']] = one
    return found


def play(folder: Path, mark: str, tree: Path, most: int, until: float) -> None:
    """Look at one tree, damaged in up to so many ways, until a time of the monotonic clock."""
    known = Known.of(Tree.of(tree))
    path = folder / f'{known.tree.name.replace("/", "-")}.jsonl'
    done = noted(path, mark)
    with path.open('a') as file:
        file.write('\n')  # the last line may have been cut off
        for number, make in candidates(known)[:most]:
            if time.monotonic() > until:
                break
            if number in done:
                continue
            came = tried(known, number, make)
            one: dict[str, object] = {'commit': mark, 'tree': known.tree.name, 'number': number, 'kind': None}
            if came is not None:
                damage, result = came
                one |= {
                    'kind': damage.kind,
                    'hidden': result.hidden,
                    'unknowable': result.unknowable,
                    'refused': result.refused,
                }
                one |= {'limit': result.limit, 'wrong': result.wrong, 'what': damage.what if result.wrong else None}
            file.write(json.dumps(one) + '\n')
            file.flush()


def told(found: Sequence[dict[str, object]]) -> tuple[str, int]:
    """The figures of looks, kind by kind, and how many were wrong."""
    counted: Counter[tuple[str, str]] = Counter()
    for one in found:
        if one['kind'] is not None:
            for name in FIGURES:
                counted[str(one['kind']), name] += name == 'looks' or bool(one[name])
    width = max(map(len, KINDS))
    lines = [' ' * width + ''.join(f'{name:>12}' for name in FIGURES)]
    lines += [f'{kind:{width}}' + ''.join(f'{counted[kind, name]:12,}' for name in FIGURES) for kind in KINDS]
    total = {name: sum(counted[kind, name] for kind in KINDS) for name in FIGURES}
    lines.append(f'{"all":{width}}' + ''.join(f'{total[name]:12,}' for name in FIGURES))
    return '\n'.join(lines), total['wrong']


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog='python -m tests.damaged_trees.soak', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--folder', type=Path, default=Path('/tmp/baremetal-acc-trees'))
    parser.add_argument('--looks', type=int, default=LOOKS, help='at most, the same share of each tree')
    parser.add_argument('--seconds', type=float, default=7200.0, help='after which no look is begun')
    parser.add_argument('--tree', help='one tree alone, by a part of its name')
    parser.add_argument('--processes', type=int, default=1)
    parser.add_argument('--part', type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument('--only', type=int, help='the damage of that number alone; needs --tree')
    given = parser.parse_args(argv)
    given.folder.mkdir(parents=True, exist_ok=True)
    mark, began = commit(), time.monotonic()
    chosen = [folder for folder in folders() if given.tree is None or given.tree in str(folder)]
    if not chosen:
        print('no such tree, or no shared folder (BAREMETAL_ACC_SHARED)')
        return 2
    if given.only is not None:
        known = Known.of(Tree.of(chosen[0]))
        came = tried(known, given.only, dict(enumerate(damages(known.tree, known.asked)))[given.only])
        print('it does not apply' if came is None else '\n'.join((came[0].what, *came[1].wrong)))
        return 1 if came is not None and came[1].wrong else 0
    if given.part == 0:
        print(
            f'commit {mark}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}', flush=True
        )
    others = [
        subprocess.Popen([sys.executable, '-m', 'tests.damaged_trees.soak', *(argv or sys.argv[1:]), '--part', str(number)])
        for number in range(1, given.processes)
        if given.part == 0
    ]
    known_trees = [Known.of(Tree.of(folder)) for folder in chosen]
    sizes = {known.tree.name: len(list(damages(known.tree, known.asked))) for known in known_trees}
    share = min(1.0, given.looks / sum(sizes.values()))
    for n, (folder, known) in enumerate(zip(chosen, known_trees, strict=True)):
        if n % given.processes == given.part:
            play(given.folder, mark, folder, round(share * sizes[known.tree.name]) or 1, began + given.seconds)
    if given.part:
        return 0
    for process in others:
        process.wait()
    names = {known.tree.name.replace('/', '-') for known in known_trees}
    found = [one for name in sorted(names) for one in noted(given.folder / f'{name}.jsonl', mark).values()]
    for one in found:
        if one.get('wrong'):
            print(f'WRONG in {one["tree"]} --only {one["number"]}: {one["what"]}\n  ' + '\n  '.join(map(str, one['wrong'])))
    table, wrong = told(found)
    print(table)
    print(f'{len(found):,} of {sum(sizes.values()):,} damages tried, {len(chosen)} trees; {time.monotonic() - began:.0f} s')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())

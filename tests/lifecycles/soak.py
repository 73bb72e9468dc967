# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Play random lifecycles of machines, each by a seed: no hand-over without fresh proof, hardly a refusal without a cause.

    python -m tests.lifecycles.soak [--lifecycles 100000] [--seed N] [--processes 2] [--only SEED]

A life has one to three lifecycles: a cleaning, a deployment, a tenant. ``--only`` plays one and prints its events.
"""
# ruff: noqa: T201

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from tests.lifecycles.life import TROUBLES, UnprovenHandOver, play

ALLOWED = 0.001
"""Share of refusals where the truth is safe and nothing is wrong: of deployments, and of lives in which nothing ever was."""

CALM = 'lives in which nothing was wrong'

REFUSED = f'{CALM}, refused'

FALSE = frozenset({'false refusals', 'false failures of cleaning', 'false alarms', REFUSED})

STORIES = 20
"""Of lives that went wrong, at most."""


def work(first: int, step: int, lifecycles: int) -> dict[str, object]:
    """Play lives until so many lifecycles are over."""
    figures: Counter[str] = Counter()
    wrong: list[list[object]] = []
    false: list[int] = []
    began, early = time.process_time(), 0
    seed = first
    while figures['deployments'] + figures['given up'] < lifecycles:
        try:
            life = play(seed)
        except AssertionError as exc:
            figures['lives'] += 1
            figures['lives that went wrong'] += 1
            figures['unproven hand-overs'] += isinstance(exc, UnprovenHandOver)
            figures['deployments'] += 1
            if len(wrong) < STORIES:
                wrong.append([seed, str(exc)])
        else:
            figures += life.figures
            if life.figures.keys() & FALSE:
                false.append(seed)
        seed += step
        if early == 0 and figures['lives'] >= 200:
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        'figures': dict(figures),
        'wrong': wrong,
        'false': false[:STORIES],
        'seconds': time.process_time() - began,
        'early': early,
        'most': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def spread(first: int, processes: int, lifecycles: int) -> list[dict[str, object]]:
    """The same in several processes."""
    pipes = []
    for n in range(processes):
        reading, writing = os.pipe()
        if os.fork() == 0:
            status = 1
            try:
                os.close(reading)
                with os.fdopen(writing, 'w') as stream:
                    json.dump(work(first + n, processes, -(-lifecycles // processes)), stream)
                status = 0
            except Exception:  # noqa: BLE001 -- the parent sees nothing of it but that there is no result
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writing)
        pipes.append(reading)
    found = []
    for reading in pipes:
        with os.fdopen(reading) as stream:
            found.append(json.load(stream))
    for _ in pipes:
        os.wait()
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog='python -m tests.lifecycles.soak', description=__doc__.splitlines()[0])
    parser.add_argument('--lifecycles', type=int, default=100_000)
    parser.add_argument('--seed', type=int, default=int(f'{datetime.now(UTC):%Y%m%d}') * 1_000_000, help='of the first life')
    parser.add_argument('--processes', type=int, default=2)
    parser.add_argument('--only', type=int, metavar='SEED', help='play this life alone, and tell its story')
    given = parser.parse_args(argv)
    if given.only is not None:
        life = play(given.only)
        print('\n'.join(life.told))
        return 0
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False).stdout.strip()
    print(f'commit {commit or "?"}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}')
    print(f'{given.lifecycles} lifecycles from seed {given.seed}, {given.processes} processes', flush=True)
    began = time.monotonic()
    found = spread(given.seed, given.processes, given.lifecycles)
    figures: Counter[str] = Counter()
    for one in found:
        figures += Counter(one['figures'])
    for name, number in sorted(figures.items()):
        print(f'{number:10,} {name}')
    print(
        f'{time.monotonic() - began:.0f} s, {sum(one["seconds"] for one in found):.0f} s of CPU; memory of a process after its'
    )
    memory = [f'{one["early"] // 1024} and {one["most"] // 1024} MiB' for one in found]
    print(f'first 200 lives and at most: {", ".join(memory)}')
    never = [name for name in TROUBLES if not figures[f'fault {name}']]
    if never:
        print(f'never came: {", ".join(never)}')
    for one in found:
        for seed, why in one['wrong']:
            print(f'WRONG: {why} (--only {seed})')
        for seed in one['false']:
            print(f'without a cause: --only {seed}')
    asked, bad = figures['deployments with nothing wrong'], figures['lives that went wrong']
    share = figures['false refusals'] / asked if asked else 1.0
    print(f'{bad} lives went wrong; {100 * share:.3f} % of {asked:,} deployments were refused without a cause')
    calm, refused = figures[CALM], figures[REFUSED]
    of_lives = refused / calm if calm else 1.0
    unproven = figures['unproven hand-overs']
    print(f'{unproven} unproven hand-overs; {refused} of {calm:,} lives in which nothing was wrong were refused')
    return 1 if bad or share >= ALLOWED or of_lives >= ALLOWED else 0


if __name__ == '__main__':
    sys.exit(main())

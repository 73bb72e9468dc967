# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Inspect a hostile BMC until it has sent 100,000 changed answers, and check that every inspection ends well.

``make soak-hostile`` runs it. ``--seed N --only NUMBER`` repeats one inspection, and prints what was done to which answer.
"""

# ruff: noqa: T201

import argparse
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.hostile.bmc import HostileBmc
from tests.hostile.look import case, judge
from tests.hostile.operate import operate

OPERATES = 5
"""After each look of that number, tasks, power, writes and a push are tried too."""


def main() -> int:
    """Soak, and print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument('--answers', type=int, default=100_000, help='changed answers to send at least')
    parser.add_argument('--seconds', type=float, default=1800.0, help='give up after that')
    parser.add_argument('--faults', type=int, default=20, help='stop after that many looks at fault')
    parser.add_argument('--processes', type=int, default=1)
    parser.add_argument('--first', type=int, default=0, help='number of the first look')
    parser.add_argument('--every', type=int, default=1, help='do only every such look')
    parser.add_argument('--only', type=int, help='one look, with all that was done to it')
    arguments = parser.parse_args()
    if arguments.processes > 1 and arguments.only is None:
        return _several(arguments)
    with tempfile.TemporaryDirectory() as folder, HostileBmc(Path(folder)) as bmc:
        if arguments.only is not None:
            return _once(bmc, arguments.seed, arguments.only)
        return _soak(bmc, arguments)


def _several(arguments: argparse.Namespace) -> int:
    """The same in several processes, each with a part of the looks."""
    number = arguments.processes
    print(f'seed {arguments.seed}, {number} processes, Python {platform.python_version()}, {os.cpu_count()} cores', flush=True)
    command = [sys.executable, '-m', 'tests.hostile.soak', f'--seed={arguments.seed}', f'--seconds={arguments.seconds}']
    command += [f'--answers={-(-arguments.answers // number)}', f'--faults={arguments.faults}', f'--every={number}']
    running = [subprocess.Popen([*command, f'--first={n}']) for n in range(number)]
    try:
        return max(process.wait() for process in running)
    finally:
        for process in running:
            process.kill()


def _once(bmc: HostileBmc, seed: int, number: int) -> int:
    made = case(seed, number, bmc.stranger)
    seen, found = judge(bmc, made)
    logs = [script.log for script in made.scripts]
    if number % OPERATES == 0:
        script, more = operate(bmc, seed, number)
        logs.append(script.log)
        found += more
    print(f'{made.name} ({made.variant}), {len(made.scripts)} BMCs, tls {made.tls}, expand {made.script.expand}')
    for sent in (sent for log in logs for sent in log):
        if sent.mutations:
            print(f'  {sent.method} {sent.target[:150]}: {", ".join(sent.mutations)}; {[b[:300] for b in sent.bodies]}')
    if seen.inventory is not None:
        print(f'{len(seen.inventory.accelerators)} accelerators, {len(seen.inventory.gaps)} gaps')
    print(f'{seen.seconds:.2f} s, {seen.error}')
    for text in found:
        print('FAULT', text)
    return 1 if found else 0


def _soak(bmc: HostileBmc, arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    answers = sent = looks = wrong = 0
    slowest = (0.0, 0)
    used: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    number = arguments.first
    print(f'seed {arguments.seed}, from look {arguments.first} on, every {arguments.every}', flush=True)
    while answers < arguments.answers and time.monotonic() - started < arguments.seconds:
        made = case(arguments.seed, number, bmc.stranger)
        seen, found = judge(bmc, made)
        scripts = made.scripts
        if number % OPERATES == 0:
            script, more = operate(bmc, arguments.seed, number)
            scripts.append(script)
            found += more
        looks += 1
        for script in scripts:
            answers += script.mutated
            sent += len(script.log)
            used.update(script.used)
        ends[
            type(seen.error).__name__ if seen.error is not None else 'Inventory' if seen.inventory is not None else 'crash'
        ] += 1
        slowest = max(slowest, (seen.seconds, number))
        if found:
            wrong += 1
            print(f'FAULT in look {number} ({made.name}, {made.variant}); again: --seed {arguments.seed} --only {number}')
            for text in found[:5]:
                print('  ', text[:1500].replace('\n', '\n   '), flush=True)
            kinds.update(text.strip().splitlines()[-1][:60] for text in found)
            if wrong >= arguments.faults:
                break
        number += arguments.every
    took = time.monotonic() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f'{answers} changed answers of {sent}, {looks} looks, {wrong} at fault, {took:.0f} s\n'
        f'{memory:.0f} MiB at most, client and BMC together; slowest look {slowest[0]:.1f} s (number {slowest[1]})\n'
        f'ended in: {_list(ends)}\nchanges: {_list(used)}' + (f'\nfaults: {_list(kinds)}' if kinds else ''),
        flush=True,
    )
    return 1 if wrong or answers < arguments.answers else 0


def _list(counted: Counter[str]) -> str:
    return ', '.join(f'{name} {count}' for name, count in counted.most_common())


if __name__ == '__main__':
    sys.exit(main())

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run every verb of the command line in every condition, and with every wrong value of every option.

``make soak-verbs`` runs it. ``--only 'VERB: CONDITION'`` repeats one case, and prints what it says.
"""

# ruff: noqa: T201

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.pytest_plugin import EmulatedMachine
from baremetal_acc.emulator.remote import Remote
from baremetal_acc.emulator.server import Emulator, EmulatorThread, Serving
from tests.conditions import cases, runs


@contextmanager
def machine() -> Iterator[EmulatedMachine]:
    """An emulated machine that all cases read."""
    thread = EmulatorThread(Emulator(Serving(tls=False), product=build('fpga-server', Parameters())))
    thread.start()
    try:
        yield EmulatedMachine(thread, Remote(thread.emulator.door, thread.emulator.control))
    finally:
        thread.stop()


def every() -> Iterator[tuple[str, str, cases.Condition]]:
    """Every case: the verb, the name of the condition, and the condition."""
    for verb in cases.VERBS:
        for name, condition in cases.of_verb(verb):
            yield verb, name, condition


def main() -> int:
    """Run the cases, and print those with faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--verbs', default='', help='only verbs that match this expression')
    parser.add_argument('--conditions', default='', help='only conditions that match this expression')
    parser.add_argument('--only', help='one case: VERB: CONDITION')
    parser.add_argument('--processes', type=int, default=1)
    parser.add_argument('--first', type=int, default=0, help='number of the first case')
    parser.add_argument('--every', type=int, default=1, help='only every such case')
    arguments = parser.parse_args()
    if arguments.processes > 1 and arguments.only is None:
        return _several(arguments)
    wanted = [
        (verb, name, condition)
        for verb, name, condition in every()
        if (arguments.only is None or arguments.only == f'{verb}: {name}')
        and re.search(arguments.verbs, verb)
        and re.search(arguments.conditions, name)
    ][arguments.first :: arguments.every]
    begin, faults, codes = time.monotonic(), 0, Counter[int]()
    slowest: tuple[float, str] = (0.0, '')
    with machine() as served, runs.Runs(served) as run:
        for verb, name, condition in wanted:
            case, ended = run.run(verb, condition)
            found = runs.judge(verb, case, ended)
            codes.update(ended.codes)
            slowest = max(slowest, (ended.seconds, f'{verb}: {name}'))
            if found:
                faults += 1
                print(f'FAULT {verb}: {name}: {"; ".join(found)}', flush=True)
            if arguments.only is not None:
                _show(case, ended)
    took = time.monotonic() - begin
    print(f'{len(wanted)} cases in {took:.0f} s, {faults} with faults; codes {dict(sorted(codes.items()))}; slowest {slowest}')
    return 1 if faults or not wanted else 0


def _show(case: Any, ended: Any) -> None:
    print(case.arguments, ended.codes, f'{ended.seconds:.2f} s')
    for name in ('out', 'err', 'shown'):
        print(f'--- {name}\n{getattr(ended, name)[:5000]!s}')


def _several(arguments: argparse.Namespace) -> int:
    number = arguments.processes
    print(f'{number} processes, Python {platform.python_version()}, {os.cpu_count()} cores', flush=True)
    command = [sys.executable, '-m', 'tests.conditions.soak', f'--every={number}']
    command += [f'--verbs={arguments.verbs}', f'--conditions={arguments.conditions}']
    running = [subprocess.Popen([*command, f'--first={n}']) for n in range(number)]
    try:
        return max(process.wait() for process in running)
    finally:
        for process in running:
            process.kill()


if __name__ == '__main__':
    sys.exit(main())

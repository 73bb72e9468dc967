# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmark commands, an inventory and an HPM.1 upload over RMCP+: ours, ipmitool and python-ipmi at the same BMCs.

All clients take turns in one run, each in a process of its own, with cipher suite 17 (python-ipmi: 3), and with BMCs that
answer at once and after 2 ms. The BMCs count the requests. Time is measured from the first packet to the last; for ipmitool,
which does not report it, the time of its processes is used, which start in some milliseconds. Whether the uploaded version runs
is checked after the time was taken.

The speed of two clients is compared in each round, where they run one after the other, and the median of these ratios counts: a
machine that is busy for a while slows both. python-ipmi, for which there is no bar, takes minutes, and runs in the first rounds
only.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.inventory import harness, peers
from benchmarks.inventory.harness import TOP, Bars
from benchmarks.inventory.peers import Peer
from benchmarks.ipmi.served import CARDS, LARGE, PASSWORD, SMALL, TOLD, USER, write_image

CLIENTS = Path(__file__).with_name('clients')
OURS, IPMITOOL, PYTHON_IPMI = 'ours', 'ipmitool', 'python-ipmi'
PEER = Peer(name=PYTHON_IPMI, client='python_ipmi', needs=('pyipmi', 'cryptography'))

DELAYS = {'0 ms': 0.0, '2 ms': 0.002}
COMMANDS = {'0 ms': 4000, '2 ms': 400}
IMAGE_BYTES = {'0 ms': 256 * 1024, '2 ms': 64 * 1024}
"""An upload in blocks of 36 bytes takes thousands of answers."""

AS_FAST, FASTER, TOLD_LIMIT = 1.0, 10.0, 1.2
"""Ours over ipmitool: with blocks of one size at least as fast; where only trying finds larger ones, ten times; and of the time
that it takes where both are told the size."""

ROUNDS, PEER_ROUNDS = 11, 3
"""Of ours and ipmitool, and of those that python-ipmi is there in."""

SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One case of one client.

    :ivar figure: commands per second of ``commands``, else seconds.
    :ivar asked: commands that the BMC answered.
    :ivar turn: in which round.
    """

    client: str
    case: str
    delay: str
    figure: float
    asked: int
    turn: int


class Served(harness.Server):
    """The BMCs, in a process of their own."""

    def __init__(self, delay: float) -> None:
        super().__init__([sys.executable, '-m', 'benchmarks.ipmi.served', '--delay', str(delay)])
        self.ports: dict[str, int] = self.told
        self.counts()

    def counts(self) -> dict[str, dict[str, int]]:
        """Commands by BMC, since the last time."""
        assert self._process.stdin is not None
        self._process.stdin.write('\n')
        self._process.stdin.flush()
        found: dict[str, dict[str, int]] = self._line()['counts']
        return found


class Desk:
    """Files that clients need: a password, and images of two versions, of which each upload takes the one that is not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.password = folder / 'password'
        self.password.touch(mode=0o600)
        self.password.write_text(PASSWORD)
        self._versions = (f'{major}.{minor}' for major in range(1, 100) for minor in range(11, 100))

    def image(self, size_bytes: int) -> tuple[Path, str]:
        """A new image, with its version."""
        version = next(self._versions)
        path = self.folder / 'image.hpm'
        write_image(path, version, size_bytes)
        return path, version


def python_client(desk: Desk, python: str, client: str, what: str, port: int, *more: str) -> dict[str, Any]:
    """What a client of ``clients/`` says."""
    command = [python, str(CLIENTS / f'{client}.py'), what, str(port), USER, str(desk.password), *more]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f'{client} {what}: {done.stderr.strip()[-600:]}')
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ipmitool(desk: Desk, port: int, *words: str) -> tuple[float, str]:
    """Seconds of one run, and what it printed."""
    command = [
        'ipmitool',
        '-I',
        'lanplus',
        '-C',
        '17',
        '-H',
        '127.0.0.1',
        '-p',
        str(port),
        '-U',
        USER,
        '-f',
        str(desk.password),
    ]
    began = time.monotonic()
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise RuntimeError(f'ipmitool {" ".join(words)}: {(done.stderr or done.stdout).strip()[-600:]}')
    return time.monotonic() - began, done.stdout


def commands(client: str, desk: Desk, served: Served, delay: str) -> float:
    """A second, of two short ones in turn."""
    number, port = COMMANDS[delay], served.ports[TOLD]
    if client == IPMITOOL:
        script = desk.folder / 'script'
        script.write_text('raw 0x06 0x01\nraw 0x06 0x37\n' * (number // 2))
        taken, printed = ipmitool(desk, port, 'exec', str(script))
        assert printed.count('\n') >= number
        return number / taken
    found = _client(client, desk, 'commands', port, '--number', str(number))
    assert number == found['good'], found
    return float(found['rate'])


def inventory(client: str, desk: Desk, served: Served, delay: str) -> float:
    """Seconds, for the BMC, its locators, all boards, and what HPM.1 says. Ours also asks for the firewall and for accounts."""
    port = served.ports[TOLD]
    if client == IPMITOOL:
        runs = [ipmitool(desk, port, *words) for words in (('mc', 'info'), ('fru', 'print'), ('hpm', 'check'))]
        assert CARDS == runs[1][1].count('Alveo U250\n') // 2, runs[1][1]
        return sum(taken for taken, _ in runs)
    found = _client(client, desk, 'inventory', port)
    assert CARDS == found['cards'], found
    return float(found['wall'])


def upload(client: str, desk: Desk, served: Served, delay: str, kind: str) -> float:
    """Seconds, until the version runs."""
    path, version = desk.image(IMAGE_BYTES[delay])
    port = served.ports[kind]
    if client == IPMITOOL:
        taken, _ = ipmitool(desk, port, 'hpm', 'upgrade', str(path), 'force', 'activate')
        assert version.partition('.')[2] in ipmitool(desk, port, 'hpm', 'check')[1]
        return taken
    found = _client(client, desk, 'upload', port, '--image', str(path), '--version', version)
    assert version in str(found['version']), (version, found)
    return float(found['wall'])


def _client(client: str, desk: Desk, what: str, port: int, *more: str) -> dict[str, Any]:
    python = sys.executable if client == OURS else str(peers.PYTHON)
    return python_client(desk, python, 'ours' if client == OURS else 'python_ipmi', what, port, *more)


CASES = ('commands', 'inventory', *(f'upload, {kind}' for kind in (SMALL, LARGE, TOLD)))


def measure(case: str, client: str, desk: Desk, served: Served, delay: str) -> float:
    """One case of one client."""
    if case == 'commands':
        return commands(client, desk, served, delay)
    if case == 'inventory':
        return inventory(client, desk, served, delay)
    return upload(client, desk, served, delay, case.partition(', ')[2])


def rounds(number: int, clients: Sequence[str], desk: Desk) -> list[Found]:
    """All of it, in turns."""
    found = []
    for delay, seconds in DELAYS.items():
        with Served(seconds) as served:
            for turn in range(number):
                print(f'  {delay}: round {turn + 1} of {number}', file=sys.stderr)
                there = [client for client in clients if client != PYTHON_IPMI or turn < PEER_ROUNDS]
                for case in CASES:
                    for client in there[turn % len(there) :] + there[: turn % len(there)]:
                        served.counts()
                        try:
                            figure = measure(case, client, desk, served, delay)
                        except RuntimeError as exc:
                            if client != PYTHON_IPMI:
                                raise
                            print(f'  {client}, {case}: failed: {exc}', file=sys.stderr)
                            continue
                        asked = sum(sum(one.values()) for one in served.counts().values())
                        found.append(Found(client=client, case=case, delay=delay, figure=figure, asked=asked, turn=turn))
    return found


def medians(found: Sequence[Found]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Figure and number of commands, by delay, case and client."""
    groups: defaultdict[tuple[str, str, str], list[Found]] = defaultdict(list)
    for one in found:
        groups[one.delay, one.case, one.client].append(one)
    return {
        key: (statistics.median(o.figure for o in many), statistics.median(o.asked for o in many))
        for key, many in groups.items()
    }


def faster(found: Sequence[Found], delay: str, case: str, client: str) -> float | None:
    """How many times as fast as another one ours is: the median of the rounds that both were there in; None: of none."""
    figures = {
        who: {one.turn: one.figure for one in found if (one.delay, one.case, one.client) == (delay, case, who)}
        for who in (OURS, client)
    }
    ours, theirs = figures[OURS], figures[client]
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return None
    return statistics.median(ours[turn] / theirs[turn] if case == 'commands' else theirs[turn] / ours[turn] for turn in both)


def table(found: Sequence[Found]) -> str:
    """For people: how much faster ours is than each."""
    rows = []
    for (delay, case, client), (figure, asked) in medians(found).items():
        unit = 'commands/s' if case == 'commands' else 'ms'
        ratio = None if client == OURS else faster(found, delay, case, client)
        rows.append((f'{delay}, {case}, {client}', figure if unit != 'ms' else 1000 * figure, unit, int(asked), ratio))
    return harness.table(('delay, case, client', 'figure', 'of', 'commands', 'ours is faster'), rows)


def bars(found: Sequence[Found]) -> Bars:
    """What has to hold against ipmitool."""
    wanted = Bars()
    for delay in DELAYS:
        name = delay.replace(' ', '')
        over = {case: faster(found, delay, case, IPMITOOL) for case in CASES}
        wanted.at_least(f'{name}-commands-over-ipmitool', over['commands'], AS_FAST)
        wanted.at_least(f'{name}-same-blocks-faster-than-ipmitool', over[f'upload, {SMALL}'], AS_FAST)
        wanted.at_least(f'{name}-larger-blocks-faster-than-ipmitool', over[f'upload, {LARGE}'], FASTER)
        told = over[f'upload, {TOLD}']
        wanted.at_most(f'{name}-hpm-2-time-over-ipmitool', None if told is None else 1 / told, TOLD_LIMIT)
    return wanted


def main() -> int:
    """The command. :returns: 0: every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=ROUNDS)
    arguments = parser.parse_args()
    if shutil.which('ipmitool') is None:
        raise SystemExit('ipmitool is not installed: run tests/tools/programs.sh ipmitool')
    peers.install()
    missing = peers.missing([PEER])
    for name, why in missing.items():
        print(f'{name}: not run: {why}')
    clients = tuple(c for c in (OURS, IPMITOOL, PYTHON_IPMI) if c not in missing)
    where = harness.where()
    print(harness.header(where))
    with tempfile.TemporaryDirectory() as folder:
        found = rounds(arguments.rounds, clients, Desk(Path(folder)))
    print(table(found))
    print(f'\nkept in {harness.keep("ipmi", {"where": where, "found": [asdict(one) for one in found]}).relative_to(TOP)}')
    wanted = bars(found)
    print('\n'.join(wanted.lines()))
    return 0 if wanted.all_met() else 1


if __name__ == '__main__':
    sys.exit(main())

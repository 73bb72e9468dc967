# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Code that both benchmarks share: starting served BMCs and measured processes, tables, bars, and a record of each run."""

import datetime
import http.client
import json
import os
import platform
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

TOP = Path(__file__).resolve().parents[2]
WORK = TOP / '.bench'
"""Environments, generated trees and records. Git ignores it."""

_BEAT = 0.25
"""Seconds between two looks at the memory of several processes."""

SERVED = Path(__file__).with_name('served.py')


def recording(name: str) -> Path:
    """The folder of a recording: in ``BAREMETAL_ACC_SHARED``, else in ``../shared``.

    :raises SystemExit: it is not there.
    """
    shared = Path(os.environ.get('BAREMETAL_ACC_SHARED') or TOP.parent / 'shared')
    folder = shared / 'recordings' / name
    if not folder.is_dir():
        raise SystemExit(f'{folder} does not exist; set BAREMETAL_ACC_SHARED to the folder with the recordings')
    return folder


class Server:
    """A server in a process of its own, which tells in a line of JSON where it is, and ends with its input.

    :ivar told: that line.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        """Start it.

        :raises SystemExit: it did not.
        """
        self._process = subprocess.Popen(arguments, cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._command = ' '.join(arguments)
        self.told: dict[str, Any] = self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f'the server did not start: {self._command}')
        found: dict[str, Any] = json.loads(line)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Served(Server):
    """BMCs served by a process of their own."""

    def __init__(self, tree: Path, **options: float | str | bool) -> None:
        """Start it.

        :param options: of ``served.py``; a flag that is False is left out.
        """
        arguments = [sys.executable, str(SERVED), str(tree.resolve())]
        for name, value in options.items():
            option = f'--{name.replace("_", "-")}'
            if value is True:
                arguments.append(option)
            elif value is not False:
                arguments += [option, str(value)]
        super().__init__(arguments)
        self.ports: list[int] = self.told['ports']
        self.kinds: list[str] = self.told['kinds']
        self.control: int = self.told['control']
        self._cpu = 0.0
        self.counts()

    def counts(self) -> dict[str, Any]:
        """What was asked since the last time, and the CPU seconds that the server took."""
        connection = http.client.HTTPConnection('127.0.0.1', self.control, timeout=60)
        connection.request('GET', '/counts')
        found: dict[str, Any] = json.load(connection.getresponse())
        connection.close()
        total = found['cpu']
        found['cpu'], self._cpu = total - self._cpu, total
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A measured process.

    :ivar seconds: CPU, user and system.
    :ivar rss: bytes at the peak.
    """

    code: int
    lines: list[bytes]
    errors: str
    seconds: float
    rss: int


def run(
    arguments: Sequence[str],
    *,
    environ: dict[str, str],
    on_line: Callable[[bytes], bool],
    timeout: float,
) -> Ended:
    """Run a process to its end, or until it has said enough.

    :param on_line: told each line of output as it comes; True ends the process.
    :param timeout: seconds after which it is ended.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    process = subprocess.Popen(arguments, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[bytes] = []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()), daemon=True)
    reader.start()
    late = threading.Timer(timeout, process.kill)
    late.start()
    ended = threading.Event()
    shared = [0]
    watch = threading.Thread(target=lambda: _watch(process.pid, ended, shared), daemon=True)
    watch.start()
    lines: list[bytes] = []
    for line in process.stdout:
        lines.append(line)
        if on_line(line):
            process.kill()
            break
    _, status, usage = os.wait4(process.pid, 0)
    late.cancel()
    ended.set()
    watch.join(10)
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join(10)
    process.stdout.close()
    process.stderr.close()
    return Ended(
        code=process.returncode,
        lines=lines,
        errors=b''.join(errors).decode('utf-8', 'replace'),
        seconds=usage.ru_utime + usage.ru_stime,
        rss=max(usage.ru_maxrss * 1024, shared[0]),
    )


def _watch(pid: int, ended: threading.Event, most: list[int]) -> None:
    """Where a process has started others: what all of them have in memory at the peak, and what they share once."""
    while not ended.wait(_BEAT):
        try:
            children = [int(one) for one in Path(f'/proc/{pid}/task/{pid}/children').read_text(encoding='ascii').split()]
            if children:
                most[0] = max(most[0], sum(map(_proportional, (pid, *children))))
        except (OSError, ValueError):
            continue


def _proportional(pid: int) -> int:
    """Bytes in memory, those that several processes share in equal parts."""
    lines = Path(f'/proc/{pid}/smaps_rollup').read_text(encoding='ascii').splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith('Pss:'))


@dataclass(slots=True)
class Bars:
    """What has to hold, and whether it does."""

    found: list[tuple[str, float | None, str, float]] = field(default_factory=list)

    def at_most(self, name: str, figure: float | None, limit: float) -> None:
        """A figure that should be small; None was not measured, which is short."""
        self.found.append((name, figure, '<=', limit))

    def at_least(self, name: str, figure: float | None, limit: float) -> None:
        """A figure that should be large."""
        self.found.append((name, figure, '>=', limit))

    def lines(self) -> list[str]:
        """One line for each."""
        return [
            f'bar {name}: {"not run" if figure is None else f"{figure:.2f}"}, wanted {sign} {limit:g}: '
            f'{"met" if met(figure, sign, limit) else "short"}'
            for name, figure, sign, limit in self.found
        ]

    def all_met(self) -> bool:
        """Nothing is short."""
        return all(met(figure, sign, limit) for _, figure, sign, limit in self.found)


def met(figure: float | None, sign: str, limit: float) -> bool:
    """Whether a figure is on the right side, as exactly as it was measured."""
    return figure is not None and (figure <= limit if sign == '<=' else figure >= limit)


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns for people: the first to the left, figures to the right."""
    cells = [tuple(titles), *(tuple(cell(v) for v in row) for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(titles))]
    return '\n'.join(
        '  '.join(
            text.ljust(w) if n == 0 else text.rjust(w) for n, (text, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def cell(value: object) -> str:
    """A figure with as many digits as mean something."""
    if value is None:
        return '-'
    if isinstance(value, float):
        return f'{value:.0f}' if abs(value) >= 100 else f'{value:.1f}' if abs(value) >= 10 else f'{value:.3f}'
    return str(value)


def where() -> dict[str, Any]:
    """Commit, machine and time of a run."""

    def git(*arguments: str) -> str:
        done = subprocess.run(['git', '-C', str(TOP), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return {
        'commit': git('rev-parse', '--short=12', 'HEAD') or 'unknown',
        'changed': bool(git('status', '--porcelain', '--', 'baremetal_acc', 'benchmarks')),
        'machine': f'{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}',
        'load': [round(one, 1) for one in os.getloadavg()],
        'date': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
    }


def header(found: dict[str, Any]) -> str:
    """The same in one line."""
    changed = ' with changes' if found['changed'] else ''
    return f'commit {found["commit"]}{changed}; {found["machine"]}; load {found["load"][0]} before; {found["date"]}'


def keep(what: str, found: dict[str, Any]) -> Path:
    """Write a run's record to ``.bench/results``, named by commit and time."""
    folder = WORK / 'results'
    folder.mkdir(parents=True, exist_ok=True)
    stamp = found['where']['date'].replace(':', '').partition('+')[0]
    path = folder / f'{what}-{found["where"]["commit"]}-{stamp}.json'
    path.write_text(json.dumps(found, indent=1) + '\n', encoding='utf-8')
    return path

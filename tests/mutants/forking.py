# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest some hundred times, and imports but once what all of these runs import of others.

A process of its own, begun by :class:`Runs`, forks for each run: it has no threads, and has imported nothing of the product
or of its tests. Each line that it reads is a JSON list: the folder to run in, folders that are looked into first, and the
arguments of pytest. Each line that it writes is one: exit code, and what was printed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

SECONDS = 1200
"""For one run."""


class Runs:
    """Runs of pytest. Use it as a context manager."""

    def __enter__(self) -> 'Runs':
        environment = {name: value for name, value in os.environ.items() if name != 'BAREMETAL_ACC_NO_SKIPS'}
        environment.setdefault('BAREMETAL_ACC_SHARED', str(Path(__file__).parents[3] / 'shared'))
        command = [sys.executable, '-B', '-P', __file__]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd='/'
        )
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)

    def __call__(self, folder: Path, first: Sequence[Path], arguments: Sequence[str]) -> tuple[int, str]:
        """Run it. :returns: its exit code, and what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([str(folder), [str(one) for one in first], list(arguments)]), file=self._process.stdin, flush=True)
        code, printed = json.loads(self._process.stdout.readline())
        return code, printed


def serve(asked: IO[str], answers: IO[str]) -> None:
    """Fork for each line."""
    import hypothesis.strategies  # noqa: F401
    import oslo_config.cfg  # noqa: F401
    import oslo_service.backend  # noqa: F401
    import pytest  # noqa: F401
    import requests_mock  # noqa: F401
    import stevedore  # noqa: F401
    import sushy  # noqa: F401
    import tenacity  # noqa: F401

    mine = [name for name in sys.modules if name.partition('.')[0] in ('baremetal_acc', 'baremetal_acc_ironic', 'tests')]
    assert not mine, mine
    for line in asked:
        folder, first, arguments = json.loads(line)
        with tempfile.TemporaryFile('w+', encoding='utf-8', errors='replace') as printed:
            child = os.fork()
            if child == 0:
                _run(folder, first, arguments, printed.fileno())
            code = _ended(child)
            printed.seek(0)
            print(json.dumps([code, printed.read()]), file=answers, flush=True)


def _run(folder: str, first: list[str], arguments: list[str], printed: int) -> None:
    """In the child: it never returns."""
    code = 3
    try:
        os.setpgid(0, 0)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.chdir(folder)
        sys.path[:0] = [folder, *first]
        os.environ['PYTHONPATH'] = os.pathsep.join([str(folder), *first])
        import pytest

        code = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ended(child: int) -> int:
    until = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.killpg(child, 9)
        time.sleep(0.01)


if __name__ == '__main__':
    serve(sys.stdin, sys.stdout)

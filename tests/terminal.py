# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A terminal in which tests run the commands of a page, and another one in which what the page starts keeps running."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended.

    :ivar out: what it printed on standard output.
    """

    code: int
    out: str
    err: str


def free_port() -> str:
    """A port that no BMC has, for TCP and UDP."""
    with socket.create_server(('127.0.0.1', 0)) as bound:
        return str(bound.getsockname()[1])


class Terminal:
    """A shell with a working directory. What a command exports or where it changes to is gone with the command.

    :param folder: the working directory, the home, and the place of the state of ``baremetal-acc``.
    :param further: more variables of its environment.
    """

    def __init__(self, folder: Path, further: Mapping[str, str] | None = None) -> None:
        path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'
        self.environ = {'PATH': path, 'HOME': str(folder), 'XDG_STATE_HOME': str(folder / 'state'), 'COLUMNS': '200'}
        self.environ |= {name: os.environ[name] for name in ('PYTHONPATH',) if name in os.environ} | dict(further or {})
        self.folder = folder

    def say(self, words: str, *, seconds: float = SECONDS) -> Said:
        """Run a command to its end."""
        done = subprocess.run(
            ['bash', '-c', words],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Said(code=done.returncode, out=done.stdout, err=done.stderr)

    def must(self, words: str, *, code: int = 0, seconds: float = SECONDS) -> str:
        """Run a command that has to end with an exit code, and return what it printed."""
        said = self.say(words, seconds=seconds)
        assert code == said.code, f'{words}: exit code {said.code}\n{said.out}\n{said.err}'
        return said.out

    @contextlib.contextmanager
    def running(self, words: str, is_ready: Callable[[], bool], *, seconds: float = SECONDS) -> Iterator[None]:
        """Run a command in a terminal of its own while the block runs, and press Ctrl-C there at its end.

        Its standard output is in the file ``running.out`` of the working directory.
        """
        with open(self.folder / 'running.out', 'wb') as output:
            process = subprocess.Popen(
                ['bash', '-c', f'exec {words}'],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                start_new_session=True,
            )
        try:
            end = time.monotonic() + seconds
            while not is_ready():
                assert process.poll() is None, f'has ended: {words}'
                assert time.monotonic() < end, f'not ready: {words}'
                time.sleep(0.05)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(90)
        assert 0 == code, f'{words}: exit code {code} after Ctrl-C'

    @contextlib.contextmanager
    def emulating(self, words: str) -> Iterator[None]:
        """Run ``baremetal-acc emulate ... --ready-file ready.json`` while the block runs."""
        with self.running(words, (self.folder / 'ready.json').exists):
            yield

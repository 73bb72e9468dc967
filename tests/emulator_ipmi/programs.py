# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run Debian's IPMI clients against an emulated BMC. They share no code with it, nor with our own client."""

import itertools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGES = 'ipmitool freeipmi-tools openipmi'
SECONDS = 60
_NUMBERS = itertools.count()

_PATH = os.pathsep.join([os.environ.get('PATH', ''), '/usr/sbin', '/usr/bin'])


def program(name: str) -> str:
    """Where it is; without it the test is skipped."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        pytest.skip(f'{name} is not on this machine: apt-get install {PACKAGES}, or tests/tools/programs.sh ipmitool')
    return found


@dataclass(frozen=True)
class Said:
    """What a program said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def fields(self) -> dict[str, str]:
        """The lines ``name : value``, the first of each name."""
        pairs = [line.split(':', 1) for line in self.out.splitlines() if ':' in line]
        return {name.strip(): value.strip() for name, value in reversed(pairs)}


def run(*command: str) -> Said:
    """One run of a program."""
    # freeipmi keeps what it has learnt of a BMC in the home folder; these BMCs are new each time.
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


def lanplus(port: int, user: str, file: Path) -> list[str]:
    """How ipmitool is told of a BMC, a user, and the file with his password. It finds a cipher suite by itself."""
    return [program('ipmitool'), '-I', 'lanplus', '-H', '127.0.0.1', '-p', str(port), '-U', user, '-f', str(file)]


class Ipmitool:
    """ipmitool, as a user who logs in by a file with the password.

    :param folder: for that file.
    """

    def __init__(self, port: int, folder: Path, *, user: str = 'admin', password: str, suite: int = 17) -> None:
        self.file = folder / f'password-{next(_NUMBERS)}'
        self.file.touch(mode=0o600)
        self.file.write_text(password)
        self._command = [*lanplus(port, user, self.file), '-C', str(suite)]

    def __call__(self, *words: str, level: str = 'ADMINISTRATOR', tries: tuple[str, str] = ('4', '1')) -> Said:
        """Run it.

        :param tries: how often a request is sent, and how many seconds an answer may take.
        """
        return run(*self._command, '-L', level, '-R', tries[0], '-N', tries[1], *words)

    def right(self, *words: str, level: str = 'ADMINISTRATOR') -> Said:
        """Run it; it has to succeed."""
        said = self(*words, level=level)
        assert 0 == said.code, said
        return said

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Apply a newcomer's patch to a copy of the tree, whole and without one of its files, and run the checks that concern it.

A patch in ``patches/`` is what somebody sends who adds one thing, or renames one. How many files it touches is how much they
need to know; what nothing misses when it is left out is what they forget. A check that fails says what is missing.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATCHES = Path(__file__).parent / 'patches'

PARTS = ('baremetal_acc', 'interfaces', 'etc', 'tests', 'doc', 'setup.cfg', 'README.rst', 'LICENSE', '.mypy_cache')
"""What checks need of the tree. With the cache of ``make lint``, if there is one, mypy reads only what a patch changes."""

METADATA = 'setup.cfg'
"""Where entry points are declared."""

MOST_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a newcomer runs.

    :ivar arguments: of Python, in the copy.
    :ivar said: what the lines begin with by which it says what is wrong.
    """

    name: str
    arguments: tuple[str, ...]
    said: re.Pattern[str]


def these_tests(*nodes: str) -> Check:
    """Tests of the copy, such as ``tests/unit/config``; it stops at the first that fails."""
    options = ('-q', '-x', '-p', 'no:cacheprovider', '-p', 'no:warnings', '--tb=short')
    return Check(name=' '.join(nodes), arguments=('-m', 'pytest', *options, *nodes), said=re.compile(r'^E +(?=\S)'))


MYPY = Check(name='mypy', arguments=('-m', 'mypy', '--no-error-summary'), said=re.compile(r'^(?=.*: error: )'))


class Copy:
    """A copy of the tree that patches are applied to.

    :param tree: the top of the checkout.
    :param folder: an empty one.
    """

    def __init__(self, tree: Path, folder: Path, parts: Iterable[str] = PARTS) -> None:
        self.root = folder
        for part in parts:
            source = tree / part
            if source.is_dir():
                shutil.copytree(source, folder / part, symlinks=True, ignore=shutil.ignore_patterns('__pycache__'))
            elif source.exists():
                shutil.copy2(source, folder / part)
        self._describe()

    @contextmanager
    def patched(self, patch: str, without: str | None = None) -> Iterator[None]:
        """The copy with a patch of ``patches/``, which is taken back.

        :param without: leave this file as it is.
        """
        self._git(patch, without)
        try:
            yield
        finally:
            self._git(patch, without, '--reverse')

    def complaint(self, checks: Iterable[Check]) -> str | None:
        """What the first check says that fails; None if all of them pass."""
        for check in checks:
            ran = self.run(check.arguments)
            if ran.returncode:
                said = [line for line in ran.stdout.splitlines() if check.said.search(line)]
                return f'{check.name}: ' + ('\n'.join(said) or f'{ran.stdout}{ran.stderr}')
        return None

    def run(self, arguments: Iterable[str]) -> subprocess.CompletedProcess[str]:
        """Run Python on the copy."""
        # The copy comes first, with its entry points: what is installed is the tree that the tests run in.
        paths = os.pathsep.join((str(self.root), str(self.root / 'interfaces')))
        environ = os.environ | {'PYTHONPATH': paths, 'PYTHONWARNINGS': 'ignore', 'PYTHONDONTWRITEBYTECODE': '1'}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environ,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )

    def _git(self, patch: str, without: str | None, *options: str) -> None:
        # -C1: what others have changed beside the lines of a patch does not keep it from being applied.
        left_out = [] if without is None else [f'--exclude={without}']
        ran = subprocess.run(
            ['git', 'apply', '-C1', *options, *left_out, str(PATCHES / patch)],
            cwd=self.root,
            env=os.environ | {'GIT_CEILING_DIRECTORIES': str(self.root.parent)},
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        if ran.returncode:
            raise AssertionError(f'tests/newcomer/patches/{patch} has to be made again, for the tree has changed: {ran.stderr}')
        if METADATA in files_of(patch) and without != METADATA:
            self._describe()

    def _describe(self) -> None:
        """Write the metadata by which Python finds entry points."""
        ran = self.run(['-c', 'import setuptools; setuptools.setup()', '--quiet', 'egg_info'])
        if ran.returncode:
            raise AssertionError(f'the metadata of the copy cannot be written: {ran.stderr}')


def files_of(patch: str) -> tuple[str, ...]:
    """The files that a patch changes, adds or removes, in its order."""
    lines = (PATCHES / patch).read_text(encoding='utf-8').splitlines()
    found = (re.match(r'diff --git a/(\S+) b/(\S+)', line) for line in lines)
    return tuple(dict.fromkeys(name for match in found if match for name in match.groups()))

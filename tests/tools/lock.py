# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write the lock files: exact versions, with the hashes of their files, that make and .ci/run install.

``python -m tests.tools.lock`` resolves each set of requirements by uv, for every Python that is supported:

* ``core.txt``, ``demo.txt``, ``test.txt``, ``cloud.txt`` and ``bench.txt`` of ``requirements/`` with the versions of
  ``constraints.txt``. Each one includes the one before.
* ``tests/constraints/lowest.txt`` with the lower bounds that setup.cfg declares for the core and the emulator, and what their
  unit tests need.

pip verifies hashes only of what a requirement file names (``pip install --require-hashes -r FILE``); Debian 12's pip refuses
hashes that stand in a file of constraints. ``nox -s constraints`` runs this after it has chosen the versions.
"""
# ruff: noqa: T201

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.tools import bounds

ROOT = bounds.ROOT

CONSTRAINTS = ROOT / 'constraints.txt'

FOLDER = ROOT / 'requirements'

LOWEST = ROOT / 'tests' / 'constraints' / 'lowest.txt'

OLDEST = '3.11.2'
"""The oldest Python that is supported, of Debian 12. Some projects have dependencies only there."""

BUILD = ('setuptools', 'wheel')
"""What the build of our own package needs, without an isolated environment."""

SETS: Mapping[str, tuple[str, ...]] = {
    'core': (bounds.CORE,),
    'demo': (bounds.CORE, 'demo'),
    'test': (bounds.CORE, 'demo', 'test', 'docs'),
    'cloud': (bounds.CORE, 'demo', 'test', 'docs', 'cloud'),
    'bench': (bounds.CORE, 'demo', 'test', 'docs', 'cloud', 'bench'),
}
"""The core and the extras of each lock file. Each set contains the one before."""

LOWEST_SET = (bounds.CORE, 'emulator')

TOOLS = ('hypothesis', 'jsonschema', 'packaging', 'pytest', 'pytest-xdist', 'requests-mock')
"""What unit tests need. The extra ``test`` has more: linters, services and their clients."""


def compiled(requirements: Iterable[str], constraints: Path | None = None) -> dict[str, str]:
    """The lines of a lock file for what these requirements install, with hashes, by the name of the project.

    :raises subprocess.CalledProcessError: no versions meet the requirements and the constraints.
    """
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as wanted:
        wanted.write('\n'.join(requirements))
        wanted.flush()
        options = ['--quiet', '--no-header', '--no-annotate', '--generate-hashes', '--universal', '--python-version', OLDEST]
        if constraints is not None:
            options += ['--constraint', str(constraints)]
        command = [sys.executable, '-m', 'uv', 'pip', 'compile', *options, wanted.name]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, str] = {}
    for entry in re.split(r'\n(?=\S)', text.strip()):
        name = canonicalize_name(entry.partition('==')[0])
        found[name] = f'{found[name]}\n{entry}' if name in found else entry
    return found


def write(path: Path, comment: Iterable[str], entries: Mapping[str, str], *, below: str | None = None) -> None:
    """One lock file: a comment, the file that it includes, and its entries, sorted."""
    head = [*(f'# {line}' for line in comment), *([f'-r {below}'] if below else [])]
    path.write_text('\n'.join([*head, *(entries[name] for name in sorted(entries))]) + '\n', encoding='utf-8')
    print(f'{path.relative_to(ROOT)}: {len(entries)} projects')


def main() -> int:
    """The command."""
    FOLDER.mkdir(exist_ok=True)
    names = {name: compiled([*map(str, bounds.required(parts)), *BUILD], CONSTRAINTS) for name, parts in SETS.items()}
    every = names[max(names, key=lambda name: len(names[name]))]  # the same markers in each set
    included: set[str] = set()
    below: str | None = None
    for name, parts in SETS.items():
        extras = ','.join(part for part in parts if part != bounds.CORE)
        what = f'baremetal-acc[{extras}]' if extras else 'baremetal-acc'
        comment = (f'The versions of constraints.txt for {what}, with hashes.', 'Written by nox -s constraints.')
        write(FOLDER / f'{name}.txt', comment, {n: every[n] for n in names[name].keys() - included}, below=below)
        included, below = {*names[name]}, f'{name}.txt'
    pins = [f'{name}=={version}' for name, version in bounds.lowest(LOWEST_SET).items()]
    comment = (
        'The lower bounds of setup.cfg for baremetal-acc[emulator], and what unit tests of the core need, with hashes.',
        'Written by nox -s constraints.',
    )
    write(LOWEST, comment, compiled([*pins, *BUILD, *TOOLS]))
    return 0


if __name__ == '__main__':
    sys.exit(main())

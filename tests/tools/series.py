# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep the upper constraints of each OpenStack series that concern baremetal-acc, in a file for each in tests/constraints.

``python -m tests.tools.series CHECKOUT`` reads a checkout of openstack/requirements. For each series it resolves the package
with its extras under ``upper-constraints.txt`` of the branch, by uv (``pip install uv``), and keeps the lines of what was
chosen, with the commit. It fails if the series and the declared bounds contradict each other.
"""
# ruff: noqa: T201

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

FOLDER = ROOT / 'tests' / 'constraints'

BRANCHES = {'2025.2': 'stable/2025.2', '2026.1': 'stable/2026.1', '2026.2': 'master'}
"""The branch of each series. When 2026.2 has a branch of its own, that takes the place of master."""

EXTRAS = ('demand', 'emulator', 'fleet')
"""The extra ``ironic`` is not among them: it requires Ironic 39, and none of these constraints allows that."""


def normal(name: str) -> str:
    """The name of a project as indexes compare it (Python packaging specification, "Names and normalization")."""
    return re.sub(r'[-_.]+', '-', name).lower()


def lines_of(constraints: str, names: Iterable[str]) -> list[str]:
    """The lines of a file of constraints that are about these projects, sorted."""
    wanted = {normal(name) for name in names}
    found = [line for line in constraints.splitlines() if normal(line.partition('===')[0].strip()) in wanted]
    return sorted(found, key=str.lower)


def resolved(constraints: str, python: str = '3.11') -> list[str]:
    """The names of all projects that an installation under these constraints has.

    :raises subprocess.CalledProcessError: no versions meet both the constraints and the declared bounds.
    """
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as file:
        file.write(constraints.replace('===', '=='))
        file.flush()
        extras = [argument for extra in EXTRAS for argument in ('--extra', extra)]
        command = ['uv', 'pip', 'compile', '--quiet', '--no-header', '--no-annotate', '--python-version', python, *extras]
        done = subprocess.run(
            [*command, '--constraint', file.name, 'setup.cfg'], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        )
    return [line.partition('==')[0].partition('[')[0] for line in done.stdout.splitlines() if '==' in line]


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog='python -m tests.tools.series', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('checkout', type=Path, help='checkout, or git directory, of openstack/requirements')
    given = parser.parse_args(argv)
    if shutil.which('uv') is None:
        parser.error('uv is not installed: pip install uv')
    for series, branch in BRANCHES.items():
        git = ['git', '-C', str(given.checkout)]
        text = subprocess.run([*git, 'show', f'{branch}:upper-constraints.txt'], check=True, stdout=subprocess.PIPE, text=True)
        commit = subprocess.run(
            [*git, 'log', '-1', '--format=%H of %cs', branch], check=True, stdout=subprocess.PIPE, text=True
        )
        kept = lines_of(text.stdout, resolved(text.stdout))
        head = (
            f'# Upper constraints of OpenStack {series} for what baremetal-acc[{",".join(EXTRAS)}] installs.\n'
            f'# openstack/requirements, {branch}, commit {commit.stdout.strip()}. Written by tests/tools/series.py.\n'
        )
        (FOLDER / f'{series}.txt').write_text(head + '\n'.join(kept) + '\n', encoding='utf-8')
        print(f'{series}: {len(kept)} lines')
    return 0


if __name__ == '__main__':
    sys.exit(main())

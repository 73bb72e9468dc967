# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep the upper constraints of each OpenStack series that concern baremetal-acc, in a file for each in tests/constraints.

``python -m tests.tools.series CHECKOUT`` reads a checkout of openstack/requirements. For each series it resolves the package
with its extras and with the series' own Ironic under ``upper-constraints.txt`` of the branch, by uv (``pip install uv``), and
keeps the lines of what was chosen, with the commit. It fails if the series and the declared bounds contradict each other.
"""
# ruff: noqa: T201

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).parents[2]

FOLDER = ROOT / 'tests' / 'constraints'

EXTRAS = ('demand', 'emulator', 'fleet', 'ironic')


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A series of OpenStack that baremetal-acc supports.

    Upper constraints name libraries and no services, so the versions of Ironic, placement and Nova are named here
    (openstack/releases, deliverables). ``replaced`` has the constraints that the services of this series contradict, with the
    version that the service requires at least.
    """

    branch: str
    ironic: str
    placement: str
    nova: str
    replaced: Mapping[str, str] = field(default_factory=dict)


SERIES = {
    '2025.2': Series(branch='stable/2025.2', ironic='32', placement='14', nova='32'),
    '2026.1': Series(branch='stable/2026.1', ironic='35', placement='15', nova='33'),
    '2026.2': Series(
        branch='master',
        ironic='39',
        placement='16',
        nova='34',
        replaced={'keystoneauth1': '5.17.0', 'oslo.versionedobjects': '3.12.0'},
    ),
}
"""Each supported series.

When 2026.2 has a branch of its own, that takes the place of master, and nothing should be replaced.
"""


def normal(name: str) -> str:
    """The name of a project as indexes compare it (Python packaging specification, "Names and normalization")."""
    return re.sub(r'[-_.]+', '-', name).lower()


def lines_of(constraints: str, names: Iterable[str]) -> list[str]:
    """The lines of a file of constraints that are about these projects, sorted."""
    wanted = {normal(name) for name in names}
    found = [line for line in constraints.splitlines() if normal(line.partition('===')[0].strip()) in wanted]
    return sorted(found, key=str.lower)


def with_replaced(constraints: str, replaced: Mapping[str, str]) -> str:
    """The constraints with the versions that the series' own services need.

    :raises ValueError: a version is not newer in the table than in the constraints, so it no longer belongs in the table.
    """
    lines = []
    for line in constraints.splitlines():
        name, _, version = line.partition('===')
        needed = next((v for n, v in replaced.items() if normal(n) == normal(name)), None)
        if needed is not None and Version(version) >= Version(needed):
            raise ValueError(f'{line} allows {needed}: take {name} out of the replaced constraints')
        lines.append(line if needed is None else f'{name}==={needed}')
    return '\n'.join(lines) + '\n'


def resolved(constraints: str, ironic: str, python: str = '3.11') -> dict[str, str]:
    """The version of each project that an installation with this major version of Ironic has under these constraints.

    :raises subprocess.CalledProcessError: no versions meet both the constraints and the declared bounds.
    """
    with tempfile.TemporaryDirectory() as folder:
        upper, wanted = Path(folder) / 'upper.txt', Path(folder) / 'wanted.txt'
        upper.write_text(constraints.replace('===', '=='), encoding='utf-8')
        wanted.write_text(f'ironic=={ironic}.*\n', encoding='utf-8')
        extras = [argument for extra in EXTRAS for argument in ('--extra', extra)]
        command = ['uv', 'pip', 'compile', '--quiet', '--no-header', '--no-annotate', '--python-version', python, *extras]
        done = subprocess.run(
            [*command, '--constraint', str(upper), 'setup.cfg', str(wanted)],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    pins = (line.partition(';')[0].partition('==') for line in done.stdout.splitlines() if '==' in line)
    return {name.partition('[')[0]: version.strip() for name, _, version in pins}


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog='python -m tests.tools.series', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('checkout', type=Path, help='checkout, or git directory, of openstack/requirements')
    given = parser.parse_args(argv)
    if shutil.which('uv') is None:
        parser.error('uv is not installed: pip install uv')
    for name, series in SERIES.items():
        git = ['git', '-C', str(given.checkout)]
        shown = [*git, 'show', f'{series.branch}:upper-constraints.txt']
        log = [*git, 'log', '-1', '--format=%H of %cs', series.branch]
        text = subprocess.run(shown, check=True, stdout=subprocess.PIPE, text=True).stdout
        commit = subprocess.run(log, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        constraints = with_replaced(text, series.replaced)
        versions = resolved(constraints, series.ironic)
        head = [
            f'# Upper constraints of OpenStack {name} for what baremetal-acc[{",".join(EXTRAS)}] installs'
            f' with Ironic {versions["ironic"]}.',
            f'# openstack/requirements, {series.branch}, commit {commit}. Written by tests/tools/series.py.',
            *(
                f'# Ironic {series.ironic} requires {n} {v}, which this commit does not allow.'
                for n, v in series.replaced.items()
            ),
        ]
        kept = lines_of(constraints, versions)
        (FOLDER / f'{name}.txt').write_text('\n'.join([*head, *kept]) + '\n', encoding='utf-8')
        print(f'{name}: {len(kept)} lines, Ironic {versions["ironic"]}')
    return 0


if __name__ == '__main__':
    sys.exit(main())

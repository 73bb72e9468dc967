# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run the unit tests with each supported Python and the libraries of each supported series of OpenStack.

``make soak-matrix``, or ``python -m tests.tools.matrix``. Each row of the matrix has an environment of its own: the wheel of
the tree with its extras, in the versions that uv resolves. ``lowest`` has the lower bounds of setup.cfg, each series its
upper constraints and its own Ironic and placement, and ``newest`` what is newest today. ``--ironic`` also runs the tests with
Ironic. The result is written to ``doc/source/matrix.json``, of which the page ``reference/matrix`` is made; rows that did not
run keep what was there. Exit code 1: a row failed.
"""
# ruff: noqa: T201

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from doc.matrix import RESULTS, Outcome, Row, read, rendered, written
from tests.tools import bounds, series

ROOT = bounds.ROOT

PYTHONS = ('3.11', '3.12', '3.13')

CONSTRAINTS = ('lowest', *series.SERIES, 'newest')

CELLS = tuple((python, constraints) for python in PYTHONS for constraints in CONSTRAINTS)

PARTS = (bounds.CORE, 'demand', 'emulator', 'fleet', 'ironic', 'demo')
"""What is installed of setup.cfg: the core and the extras that somebody runs."""

TOOLS = (
    *('WebTest', 'ddt', 'fixtures', 'hypothesis', 'in-toto-attestation', 'jsonschema', 'oslotest', 'packaging', 'PyMySQL'),
    *('pytest', 'pytest-xdist', 'python-ironicclient', 'requests-mock', 'securesystemslib', 'setuptools', 'testtools'),
)
"""What the tests import beside that, always in the newest version that the rest allows."""

SOURCES = frozenset(
    f'tests/unit/test_{name}.py'
    for name in (
        'benchmarks',
        'citations',
        'facts',
        'files',
        'floors',
        'house',
        'licence',
        'packaging',
        'release_notes',
        'series',
    )
) | {'tests/unit/test_size.py', 'tests/unit/test_matrix.py', 'tests/unit/test_lock.py', 'tests/unit/test_sbom.py'}
"""Tests of the source tree and of its lock files, which say nothing about installed libraries."""

UV_TIMEOUT = 1200
TESTS_TIMEOUT = 7200


class CannotInstall(Exception):
    """No environment for a row: what uv says about it."""


def unit_tests() -> list[str]:
    """The files and folders of ``tests/unit`` that a row runs."""
    found = sorted(path for path in (ROOT / 'tests' / 'unit').iterdir() if path.is_dir() or path.name.startswith('test_'))
    names = [path.relative_to(ROOT).as_posix() for path in found if path.name != '__pycache__']
    return [name for name in names if name not in SOURCES]


def find_python(version: str, folders: Iterable[Path]) -> Path | None:
    """The first interpreter of this version that runs. One that pyenv only has a shim for does not.

    A folder is one of PATH, or ``bin`` of a version that pyenv has installed.
    """
    for folder in folders:
        path = folder / f'python{version}'
        if path.is_file() and os.access(path, os.X_OK):
            done = subprocess.run(
                [path, '-c', 'import sys, venv; print("%d.%d" % sys.version_info[:2])'],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0 and done.stdout.strip() == version:
                return path
    return None


def folders_of_python() -> Iterator[Path]:
    """The folders of PATH, then those of pyenv with the newest version first."""
    yield from (Path(name) for name in os.environ.get('PATH', '').split(os.pathsep) if name)
    root = Path(os.environ.get('PYENV_ROOT') or Path.home() / '.pyenv') / 'versions'
    yield from (folder / 'bin' for folder in sorted(root.glob('3.*'), reverse=True))


def wanted(constraints: str) -> list[str]:
    """The requirements of a row, as lines for uv."""
    lines = [*map(str, bounds.required(PARTS)), *TOOLS]
    if constraints == 'lowest':
        lines += [f'{name}=={version}' for name, version in bounds.lowest(PARTS).items()]
    elif constraints in series.SERIES:
        of = series.SERIES[constraints]
        lines += [f'ironic=={of.ironic}.*', f'openstack-placement=={of.placement}.*', f'nova=={of.nova}.*']
    return lines


def pins(constraints: str) -> str:
    """The upper constraints of a row, in the form that uv reads."""
    path = series.FOLDER / f'{constraints}.txt'
    return path.read_text(encoding='utf-8').replace('===', '==') if constraints in series.SERIES else ''


def run_uv(*arguments: str | Path) -> str:
    """Run the uv of this environment.

    :raises CannotInstall: it failed.
    """
    command = [sys.executable, '-m', 'uv', *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=UV_TIMEOUT, cwd=ROOT)
    if done.returncode:
        raise CannotInstall(done.stderr.strip())
    return done.stdout


def copied(folder: Path) -> Path:
    """A copy of the files that git tracks or would track: a build leaves its traces next to setup.cfg."""
    command = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode().split('\0')
    copy = folder / 'tree'
    shutil.rmtree(copy, ignore_errors=True)
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def install(python: Path, constraints: str, wheel: Path, copy: Path, environment: Path) -> dict[str, str]:
    """Make the environment of a row, and return the version of each project in it.

    The tests import ``tests`` and ``doc`` from the copy, which comes behind site-packages, and our packages from the wheel.

    :raises CannotInstall: there are no such versions, or one of them cannot be installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        lines, upper, lock = (Path(folder) / name for name in ('wanted.txt', 'upper.txt', 'lock.txt'))
        lines.write_text('\n'.join(wanted(constraints)), encoding='utf-8')
        upper.write_text(pins(constraints), encoding='utf-8')
        compile_ = ('pip', 'compile', '--quiet', '--no-header', '--no-annotate', '--python', python)
        run_uv(*compile_, '--constraint', upper, '--output-file', lock, lines)
        run_uv('venv', '--quiet', '--clear', '--python', python, environment)
        inside = environment / 'bin' / 'python'
        run_uv('pip', 'install', '--quiet', '--python', inside, '--requirement', lock)
        run_uv('pip', 'install', '--quiet', '--python', inside, '--no-deps', '--reinstall', wheel)
    (packages,) = (environment / 'lib').glob('python3.*/site-packages')
    (packages / 'tests-of-the-matrix.pth').write_text(f'{copy}\n', encoding='utf-8')
    where = subprocess.run(
        [inside, '-P', '-c', 'import baremetal_acc, baremetal_acc_ironic as g; print(baremetal_acc.__file__, g.__file__)'],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=copy,
    ).stdout.split()
    if not all(Path(path).is_relative_to(packages) for path in where):
        raise CannotInstall(f'the tests would not run with the wheel, but with {" and ".join(where)}')
    return {d.metadata['Name'].lower(): d.version for d in importlib.metadata.distributions(path=[str(packages)])}


def run_tests(environment: Path, copy: Path, tests: Sequence[str], processes: int, log: Path) -> Mapping[str, object]:
    """Run tests of the copy in an environment, and return what a row says about them."""
    report = log.with_suffix('.xml')
    report.unlink(missing_ok=True)
    left_out = ('PYTHON', 'VIRTUAL_ENV', 'BAREMETAL_ACC_NO_SKIPS')  # older libraries lack what some tests are about
    environ = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environ.setdefault('BAREMETAL_ACC_SHARED', str(ROOT.parent / 'shared'))
    environ |= {'PYTHONWARNINGS': 'ignore', 'CI': '1', 'PATH': f'{environment / "bin"}{os.pathsep}{environ.get("PATH", "")}'}
    options = [
        '-v',
        '--tb=short',
        '-p',
        'no:cacheprovider',
        '-p',
        'no:warnings',
        '--override-ini',
        'pythonpath=',
        f'--junitxml={report}',
    ]
    if processes > 1:
        options += ['--numprocesses', str(processes), '--dist', 'loadfile']
    with log.open('w', encoding='utf-8') as file:
        try:
            done = subprocess.run(
                [environment / 'bin' / 'pytest', *options, *tests],
                cwd=copy,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=TESTS_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return {'outcome': Outcome.FAILED, 'note': f'stopped after {TESTS_TIMEOUT} s'}
    return counted(report, done.returncode)


def counted(report: Path, code: int) -> Mapping[str, object]:
    """What a JUnit report of pytest says, with its exit code: only 0 is a pass, and 5 says that no test was found."""
    if not report.is_file():
        return {'outcome': Outcome.FAILED, 'note': f'pytest ended with {code} and wrote no report'}
    (suite,) = ElementTree.parse(report).getroot().iter('testsuite')
    number = {name: int(suite.get(name, 0)) for name in ('tests', 'failures', 'errors', 'skipped')}
    broken = [
        f'{case.get("classname")}::{case.get("name")}'
        for case in suite.iter('testcase')
        if case.find('failure') is not None or case.find('error') is not None
    ]
    failed = number['failures'] + number['errors']
    return {
        'outcome': Outcome.PASSED if code == 0 and not failed else Outcome.FAILED,
        'passed': number['tests'] - failed - number['skipped'],
        'failed': failed,
        'skipped': number['skipped'],
        'seconds': round(float(suite.get('time', 0))),
        'note': ' '.join(broken[:3]),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = _parser()
    given = parser.parse_args(argv)
    if importlib.util.find_spec('uv') is None:
        parser.error('uv is not installed: make .venv/.installed-test installs it')
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    copy = copied(folder)
    shutil.rmtree(folder / 'wheel', ignore_errors=True)
    run_uv(
        'build', '--quiet', '--wheel', '--no-build-isolation', '--python', sys.executable, '--out-dir', folder / 'wheel', copy
    )
    (wheel,) = (folder / 'wheel').glob('*.whl')
    kinds = {'unit': unit_tests(), **({'ironic': ['tests/ironic']} if given.ironic else {})}
    rows = []
    for cell in given.only or CELLS:
        for row in run_cell(cell, wheel, copy, folder, kinds, given.processes):
            rows.append(row)
            print(
                ' '.join(f'{word:<10}' for word in (row.python, row.constraints, row.tests, row.outcome, row.numbers, row.note))
            )
            sys.stdout.flush()
        RESULTS.write_text(written(merged(read(), rows)), encoding='utf-8')
    print('', *rendered(rows), '', f'written to {RESULTS.relative_to(ROOT)}', sep='\n')
    return int(any(row.outcome in {Outcome.FAILED, Outcome.NOT_INSTALLED} for row in rows))


def run_cell(
    cell: tuple[str, str], wheel: Path, copy: Path, folder: Path, kinds: Mapping[str, Sequence[str]], processes: int
) -> Iterator[Row]:
    """Install and test one Python with one set of constraints: a row for each kind of tests."""
    version, constraints = cell
    head = Row(python=version, constraints=constraints, tests='', outcome=Outcome.NOT_RUN, **_where())
    python = find_python(version, folders_of_python())
    if python is None:
        yield from (replace(head, tests=kind, note=f'Python {version} is not installed') for kind in kinds)
        return
    environment = folder / f'{version}-{constraints}'
    try:
        versions = install(python, constraints, wheel, copy, environment)
    except CannotInstall as exc:
        (folder / f'{version}-{constraints}.txt').write_text(f'{exc}\n', encoding='utf-8')
        yield from (replace(head, tests=k, outcome=Outcome.NOT_INSTALLED, note=str(exc).splitlines()[0][:200]) for k in kinds)
        return
    full = subprocess.run(
        [python, '-c', 'import platform; print(platform.python_version())'], stdout=subprocess.PIPE, text=True
    )
    head = replace(head, python_full=full.stdout.strip(), ironic=versions['ironic'])
    for kind, tests in kinds.items():
        result = run_tests(environment, copy, tests, processes, folder / f'{version}-{constraints}-{kind}.txt')
        yield replace(head, tests=kind, **result)
    shutil.rmtree(environment)


def merged(before: Iterable[Row], rows: Iterable[Row]) -> list[Row]:
    """All rows in the order of the matrix: what ran now takes the place of what was there, unless it did not run."""
    found = {(row.python, row.constraints, row.tests): row for row in before}
    for row in rows:
        key = (row.python, row.constraints, row.tests)
        if row.outcome is not Outcome.NOT_RUN or key not in found:
            found[key] = row
    places = {cell: place for place, cell in enumerate(CELLS)}
    return sorted(found.values(), key=lambda row: (row.tests != 'unit', places[row.python, row.constraints]))


def _where() -> dict[str, str]:
    """The commit, with ``+`` if files differ from it, the day and the machine."""
    git = ['git', '-C', str(ROOT)]
    commit = subprocess.run(
        [*git, 'rev-parse', '--short=8', 'HEAD'], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    changed = subprocess.run([*git, 'status', '--porcelain'], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    cores = os.cpu_count()
    return {
        'commit': commit + ('+' if changed else ''),
        'date': f'{datetime.now(UTC):%Y-%m-%d}',
        'machine': f'{platform.system()} {re.split("[-+]", platform.release())[0]}, {platform.machine()}, {cores} cores',
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='python -m tests.tools.matrix', description=(__doc__ or '').splitlines()[0])
    parser.add_argument(
        '--only',
        type=_cells,
        action='extend',
        metavar='PYTHON/CONSTRAINTS',
        help=f'one row, or 3.11/all or all/newest (of {", ".join(PYTHONS)} and {", ".join(CONSTRAINTS)}); repeatable',
    )
    parser.add_argument('--ironic', action='store_true', help='also run tests/ironic: a quarter of an hour for each row')
    parser.add_argument('--processes', type=int, default=1, metavar='N', help='processes of pytest (1)')
    parser.add_argument(
        '--folder',
        type=Path,
        default=Path(tempfile.gettempdir()) / 'baremetal-acc-matrix',
        help='for environments, which are removed when their tests have run, and logs (%(default)s)',
    )
    return parser


def _cells(text: str) -> list[tuple[str, str]]:
    python, _, constraints = text.partition('/')
    found = [cell for cell in CELLS if python in {cell[0], 'all'} and constraints in {cell[1], 'all'}]
    if not found:
        raise argparse.ArgumentTypeError(f'{text} is no row: {", ".join(map("/".join, CELLS))}')
    return found


if __name__ == '__main__':
    sys.exit(main())

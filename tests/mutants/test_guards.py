# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The loss of any one guard is noticed: each is taken out of a copy of the product, and its tests must fail there."""

import compileall
import shutil
from collections.abc import Iterator
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from tests.mutants.forking import Runs
from tests.mutants.guards import GUARDS, Guard
from tests.mutants.left_out import chosen

PARTS = ('baremetal_acc', 'interfaces', 'tests', 'setup.cfg')


@pytest.fixture(scope='module')
def copy(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product and its tests, for changing."""
    folder = tmp_path_factory.mktemp('mutants')
    for part in PARTS:
        source = tree / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns('__pycache__'))
        else:
            shutil.copy(source, folder / part)
    # Each of some hundred processes would compile all of it anew; by its hash, not by its time, what is changed is noticed.
    for part in PARTS[:3]:
        compileall.compile_dir(folder / part, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return folder


@pytest.fixture(scope='module')
def runs() -> Iterator[Runs]:
    """Runs pytest."""
    with Runs() as made:
        yield made


def run_tests(runs: Runs, folder: Path, tests: str) -> tuple[int, str]:
    """Run some tests in the copy; the copy's own packages come before those that are installed."""
    # The package under interfaces/ is installed from the tree: the copy has to come before it.
    return runs(folder, [folder / 'interfaces'], ['-x', '-q', '-p', 'no:cacheprovider', *tests.split()])


@pytest.mark.parametrize('guard', GUARDS, ids=lambda guard: guard.name)
def test_a_guard_stands_where_it_is_said_to_stand(tree: Path, guard: Guard) -> None:
    """Once: those that are left out for want of time, too."""
    assert 1 == (tree / guard.file).read_text().count(guard.guard)


@pytest.mark.slow
def test_the_tests_pass_on_the_copy_as_it_is(copy: Path, runs: Runs) -> None:
    """Otherwise a failure would prove nothing. And the copy is what they test.

    The tests of all guards only where all are taken out: else they are run for themselves, in the tree that was copied.
    """
    every = sorted({name for guard in chosen() for name in guard.tests.split()})
    tests = every if len(chosen()) == len(GUARDS) else every[:3]
    probe = copy / 'tests' / 'mutants' / 'test_probe.py'
    probe.write_text(
        'import baremetal_acc\nimport baremetal_acc_ironic.hardware\n\ndef test_it_is_the_copy():\n'
        f'    assert baremetal_acc.__file__.startswith({str(copy)!r})\n'
        f'    assert baremetal_acc_ironic.hardware.__file__.startswith({str(copy)!r})\n'
    )
    code, printed = run_tests(runs, copy, ' '.join([*tests, 'tests/mutants/test_probe.py']))
    assert 0 == code, printed[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize('guard', chosen(), ids=lambda guard: guard.name)
def test_the_loss_of_a_guard_shows(copy: Path, runs: Runs, guard: Guard) -> None:
    """The edit finds its place once, and a test fails (pytest's 1: an error in collecting would be another number)."""
    path = copy / guard.file
    text = path.read_text()
    assert 1 == text.count(guard.guard), f'{guard.file} does not hold this guard once: {guard.guard!r}'
    path.write_text(text.replace(guard.guard, guard.gone))
    try:
        code, printed = run_tests(runs, copy, guard.tests)
    finally:
        path.write_text(text)
    assert 1 == code, f'nothing noticed:\n{printed[-3000:]}'
    assert 'error' not in printed.splitlines()[-1].lower()

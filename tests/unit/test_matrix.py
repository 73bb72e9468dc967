# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The matrix of Pythons and libraries: what a row installs, which interpreter it takes, how its result is kept."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from doc.matrix import Outcome, Row, read, rendered, written
from tests.tools import bounds, lock, matrix, series

ROW = Row(python='3.11', constraints='newest', tests='unit', outcome=Outcome.PASSED, commit='a', date='2026-01-01', machine='m')


def test_a_row_asks_for_its_own_versions():
    """The lowest versions exactly, or the services of a series; the newest row only for what setup.cfg says."""
    newest = matrix.wanted('newest')
    assert 'sushy>=5.7.2' in newest
    lowest = matrix.wanted('lowest')
    declared = {f'{name}=={version}' for name, version in bounds.lowest(matrix.PARTS).items()}
    assert declared == {*lowest} - {*newest}
    assert {'sushy==5.7.2', 'ironic==32.0.0'} <= declared
    of = series.SERIES['2026.1']
    own = {f'ironic=={of.ironic}.*', f'openstack-placement=={of.placement}.*', f'nova=={of.nova}.*'}
    assert own == {*matrix.wanted('2026.1')} - {*newest}


def test_only_a_series_has_constraints():
    """In the form that uv reads."""
    assert ('', '') == (matrix.pins('lowest'), matrix.pins('newest'))
    assert '\nsushy==' in matrix.pins('2026.1')
    assert '===' not in matrix.pins('2026.1')


def test_every_requirement_has_a_lower_bound_or_is_a_tool():
    """What has none is installed in the newest version in the row ``lowest``, which then proves nothing about it."""
    assert len(bounds.required(matrix.PARTS)) == len(bounds.lowest(matrix.PARTS))


def test_the_higher_of_two_bounds_counts(tmp_path):
    """Versions are compared by their numbers; an extra may name another one."""
    path = tmp_path / 'setup.cfg'
    path.write_text(
        '[options]\ninstall_requires =\n    a>=9.0\n    # why\n    b\n'
        '[options.extras_require]\nx =\n    a>=10.0,<11\ny =\n    baremetal-acc[x]\n    c-d>=1\n'
    )
    assert ['a>=9.0', 'b'] == [str(need) for need in bounds.required(['core'], path)]
    assert {'a': '10.0', 'c-d': '1'} == bounds.lowest(['core', 'y'], path)


def test_the_unit_tests_are_those_of_the_product():
    """Tests of the source tree are left out by name, so a new file of tests runs."""
    tests = matrix.unit_tests()
    assert {'tests/unit/bmc', 'tests/unit/cli', 'tests/unit/test_state_file.py'} <= {*tests}
    assert 'tests/unit/test_house.py' not in tests
    assert [] == [name for name in matrix.SOURCES if not (matrix.ROOT / name).is_file()]


def test_only_an_interpreter_of_that_version_that_runs_is_taken(tmp_path):
    """pyenv has a shim for each version that it knows, which fails unless that version is chosen."""
    version = '{}.{}'.format(*sys.version_info)
    for name, text in (
        ('shim', 'exit 127'),
        ('other', 'echo 3.9'),
        ('right', f'echo {version}'),
    ):
        (tmp_path / name).mkdir()
        path = tmp_path / name / f'python{version}'
        path.write_text(f'#!/bin/sh\n{text}\n')
        path.chmod(0o755)
    (tmp_path / 'plain').mkdir()
    (tmp_path / 'plain' / f'python{version}').write_text('')
    folders = [tmp_path / name for name in ('none', 'plain', 'shim', 'other', 'right')]
    assert tmp_path / 'right' / f'python{version}' == matrix.find_python(version, folders)
    assert None is matrix.find_python(version, folders[:-1])


@pytest.mark.parametrize(
    ('code', 'failures', 'errors', 'outcome', 'passed'),
    [
        (0, 0, 0, Outcome.PASSED, 8),
        (1, 1, 0, Outcome.FAILED, 7),
        (2, 0, 1, Outcome.FAILED, 7),
        (3, 0, 0, Outcome.FAILED, 8),
        (5, 0, 0, Outcome.FAILED, 8),
    ],
)
def test_only_exit_code_0_without_failures_is_a_pass(tmp_path, code, failures, errors, outcome, passed):
    """An internal error, or no test at all, leaves a report without a failure."""
    report = tmp_path / 'report.xml'
    cases = '<testcase classname="a" name="b"><failure/></testcase>' * failures + '<testcase classname="c" name="d"/>'
    numbers = f'tests="10" failures="{failures}" errors="{errors}" skipped="2" time="3.4"'
    report.write_text(f'<testsuites><testsuite {numbers}>{cases}</testsuite></testsuites>')
    found = matrix.counted(report, code)
    assert (outcome, passed, 2, 3) == (found['outcome'], found['passed'], found['skipped'], found['seconds'])
    assert ('a::b' if failures else '') == found['note']


def test_without_a_report_a_row_failed(tmp_path):
    """pytest was killed, or could not start."""
    assert Outcome.FAILED is matrix.counted(tmp_path / 'none.xml', -9)['outcome']


def test_rows_that_did_not_run_keep_their_result(tmp_path):
    """On a machine without Python 3.13 the last result of another machine stays."""
    other = replace(ROW, constraints='2026.1', outcome=Outcome.FAILED, failed=1)
    before = [ROW, replace(ROW, python='3.13'), other]
    away = replace(ROW, python='3.13', outcome=Outcome.NOT_RUN)
    never = replace(ROW, python='3.12', outcome=Outcome.NOT_RUN)
    again = replace(other, outcome=Outcome.PASSED, failed=0, commit='b')
    rows = matrix.merged(before, [away, never, again])
    assert [again, ROW, never, replace(ROW, python='3.13')] == rows
    path = tmp_path / 'matrix.json'
    path.write_text(written(rows))
    assert rows == read(path)
    assert [] == read(tmp_path / 'none.json')


def test_the_page_shows_what_is_kept():
    """A failed row stands out; what did not run has no numbers."""
    text = '\n'.join(
        rendered([replace(ROW, outcome=Outcome.FAILED, failed=2, passed=3, note='a_b::c'), replace(ROW, python_full='3.11.2')])
    )
    assert '**failed**' in text
    assert '3 passed, 2 failed: a\\_b::c' in text
    assert '3.11.2' in text
    assert '' == replace(ROW, outcome=Outcome.NOT_INSTALLED).numbers


def test_the_committed_rows_are_rows_of_the_matrix():
    """What really ran, each row once."""
    rows = read()
    keys = [(row.python, row.constraints, row.tests) for row in rows]
    assert len({*keys}) == len(keys)
    assert {(python, constraints) for python, constraints, _ in keys} <= {*matrix.CELLS}
    assert rows
    assert [] == [row for row in rows if row.outcome is Outcome.PASSED and (not row.passed or row.failed)]


def test_rows_are_chosen_by_name():
    """One row, one Python or one set of constraints; an unknown one is refused with the list."""
    assert [('3.11', '2026.1')] == matrix._cells('3.11/2026.1')
    assert [(python, 'newest') for python in matrix.PYTHONS] == matrix._cells('all/newest')
    assert len(matrix.CONSTRAINTS) == len(matrix._cells('3.12/all'))
    with pytest.raises(argparse.ArgumentTypeError, match=r'3\.10/newest is no row: 3\.11/lowest'):
        matrix._cells('3.10/newest')


def test_the_tools_of_the_lowest_lock_are_tools_of_the_matrix():
    """Both run unit tests."""
    assert {*lock.TOOLS} <= {*matrix.TOOLS}
    assert Path('tests/unit') == Path(matrix.unit_tests()[0]).parent

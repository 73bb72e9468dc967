# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The support matrix says what the tests say of themselves."""

from pathlib import Path

from baremetal_acc.locks.registry import mechanisms
from doc.support import HOW, NOT_FOR, VERBS, Shown, page, tried
from tests.support.matrix import Passed, marked, note


def test_what_was_tried_is_what_the_tests_say_they_show() -> None:
    """A test that is gone, renamed or says something else shows nothing any more; one that never passed is not noted."""
    _, shown = tried()
    assert [] == [s for s in shown if s not in marked()]
    assert [] == [s for s in marked() if s not in shown]


def test_no_test_shows_what_the_page_has_no_place_for() -> None:
    """Every word is one of the page's."""
    assert [] == [(one.test, one.wrong()) for one in marked() if one.wrong()]
    assert ['fly', 'spoon'] == Shown(test='t', verbs=('fly',), hardware=('spoon',)).wrong()


def test_a_cell_says_where_it_was_tried_and_nothing_more() -> None:
    """What is not shown is not tried; who asks matters for what is written, and not for what a recording shows."""
    about = {'commit': 'abc', 'date': '2026-11-22'}
    shown = [
        Shown(test='a', verbs=('flash',), hardware=('fpga',), how='cli'),
        Shown(test='b', verbs=('inventory',), hardware=('fpga',), on='recording', mechanisms=('host_interface',)),
    ]
    text = page(about, shown, mechanisms())
    rows = text.split('   * - FPGA cards with reconfiguration slots\n')
    cells = [[line.strip(' -') for line in row.splitlines()[: len(VERBS)]] for row in rows[1:]]
    assert [['recording', 'emulator', *['not tried'] * 4]] == cells
    assert 'Standalone Ironic\n-----------------\n\nNot tried' in text
    assert {'program'} == {verb for verb, _ in NOT_FOR}
    assert {'ironic', 'nova', 'cli', 'core'} == set(HOW)
    at = text.index('``host_interface``\n   :Hardware')
    assert ':Tried on: recording' in text[at : text.index('Source', at)]
    assert 1 == text.count('Tried on: recording')


def test_a_mark_is_read_from_the_file_that_it_stands_in(tmp_path: Path, monkeypatch) -> None:
    """Functions and methods, with several marks."""
    from tests.support import matrix

    monkeypatch.setattr(matrix, 'TREE', tmp_path)
    (tmp_path / 'test_one.py').write_text(
        'import pytest\n\n\n'
        '@pytest.mark.slow\n'
        "@pytest.mark.shows('flash', hardware=('fpga',), how='cli')\n"
        "@pytest.mark.shows('verify', hardware=('drive',), on='recording')\n"
        'def test_it(): ...\n\n\n'
        'class Case:\n'
        "    @pytest.mark.shows(mechanisms=('write_protected',))\n"
        '    def test_too(self): ...\n'
    )
    assert (
        Shown(test='test_one.py::Case::test_too', mechanisms=('write_protected',)),
        Shown(test='test_one.py::test_it', verbs=('flash',), hardware=('fpga',), how='cli'),
        Shown(test='test_one.py::test_it', verbs=('verify',), hardware=('drive',), on='recording'),
    ) == matrix.marked(tmp_path)


def test_only_what_passed_in_all_its_variants_is_noted() -> None:
    """One variant that failed or was skipped takes the whole test away."""

    class Report:
        def __init__(self, nodeid: str, outcome: str, when: str = 'call') -> None:
            self.nodeid, self.outcome, self.when = nodeid, outcome, when

    seen = Passed()
    for report in (
        Report('a[1]', 'passed'),
        Report('a[2]', 'skipped', 'setup'),
        Report('b', 'passed', 'setup'),
        Report('b', 'passed'),
    ):
        seen.pytest_runtest_logreport(report)  # type: ignore[arg-type]
    assert {'b'} == seen.passed - seen.not_passed
    assert '"test": "b"' in note([Shown(test='b')], 'abc', '2026-11-22')

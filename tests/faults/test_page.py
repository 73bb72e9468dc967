# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The page about faults lists the tests that there are, with their ends, and a run reports what it omitted."""

import ast
import re
from pathlib import Path

import pytest

from tests.faults.cases import CASES
from tests.faults.left_out import VARIABLE, chosen, left_out

HERE = Path(__file__).parent
ROW = re.compile(r'(F\d+) +``([a-z0-9_-]+)``( \\\*)? +(.+?)  +(.+)')


@pytest.fixture(scope='module')
def rows(tree: Path) -> dict[str, tuple[str, bool, str]]:
    """The rows of the page by their tests: number, whether it takes long, end."""
    lines = (tree / 'doc' / 'source' / 'contributor' / 'faults.rst').read_text().splitlines()
    found = [match for line in lines if (match := ROW.fullmatch(line))]
    assert len({m[2] for m in found}) == len(found), 'a row stands twice'
    return {m[2]: (m[1], m[3] is not None, m[5]) for m in found}


def functions(*files: str) -> set[str]:
    """The tests of modules."""
    trees = [ast.parse((HERE / file).read_text()) for file in files]
    return {n.name for t in trees for n in t.body if isinstance(n, ast.FunctionDef) and n.name.startswith('test_')}


def test_the_page_lists_every_test_and_no_other(rows: dict[str, tuple[str, bool, str]]) -> None:
    """A fault that was met and is not listed helps nobody; one that is listed and was not met would be a lie."""
    assert {*CASES, *functions('test_images.py', 'test_lies.py')} == set(rows)


def test_the_page_says_how_each_job_ends(rows: dict[str, tuple[str, bool, str]]) -> None:
    """What the row says is what the test asks for."""
    assert {name: (case.number, case.slow, case.ends.value) for name, case in CASES.items()} == {
        name: row for name, row in rows.items() if name in CASES
    }


def test_every_number_of_the_list_that_concerns_bmc_power_images_and_lies_is_there(
    rows: dict[str, tuple[str, bool, str]],
) -> None:
    """F21 to F25 and F37 to F42 concern services of ours: they have tests elsewhere."""
    wanted = {f'F{n}' for n in (*range(1, 21), *range(26, 37), 43)}
    assert wanted == {number for number, _, _ in rows.values()}


def test_what_takes_long_is_left_out_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out, and not skipped: CI takes a skip for a failure."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert [name for name, case in CASES.items() if case.slow] == left_out(CASES)
    monkeypatch.setenv(VARIABLE, 'all')
    assert (list(CASES), []) == (chosen(CASES), left_out(CASES))

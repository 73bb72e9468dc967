# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The page ``matrix``: with which Python and which libraries the tests ran, as ``make soak-matrix`` noted it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from doc.rst import plain, table

RESULTS = Path(__file__).parent / 'source' / 'matrix.json'


class Outcome(StrEnum):
    """How a row ended."""

    PASSED = 'passed'
    FAILED = 'failed'
    NOT_INSTALLED = 'not installed'
    """No versions meet the bounds and the constraints, or one of them could not be installed."""
    NOT_RUN = 'not run'
    """The machine does not have this Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One Python with one set of constraints and one kind of tests.

    :ivar python: the minor version, such as ``3.11``. ``python_full`` is the version that ran.
    :ivar tests: ``unit`` or ``ironic``.
    :ivar commit: the commit whose wheel was tested, with ``+`` if files differed from it.
    """

    python: str
    constraints: str
    tests: str
    outcome: Outcome
    commit: str
    date: str
    machine: str
    python_full: str = ''
    ironic: str = ''
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: int = 0
    note: str = ''

    @property
    def numbers(self) -> str:
        """How many tests passed, failed and were skipped."""
        if self.outcome not in {Outcome.PASSED, Outcome.FAILED}:
            return ''
        named = ((self.passed, 'passed'), (self.failed, 'failed'), (self.skipped, 'skipped'))
        return ', '.join(f'{number} {word}' for number, word in named if number or word == 'passed')


def read(path: Path = RESULTS) -> list[Row]:
    """The rows of the file; none if there is no file."""
    if not path.exists():
        return []
    return [Row(**{**row, 'outcome': Outcome(row['outcome'])}) for row in json.loads(path.read_text(encoding='utf-8'))['rows']]


def written(rows: Iterable[Row]) -> str:
    """The text of the file."""
    return json.dumps({'rows': [asdict(row) for row in rows]}, indent=1) + '\n'


def rendered(rows: Iterable[Row]) -> Iterator[str]:
    """The table of the page."""
    cells = (
        (
            row.python_full or row.python,
            row.constraints,
            row.ironic,
            row.tests,
            f'**{row.outcome}**' if row.outcome is Outcome.FAILED else str(row.outcome),
            plain(': '.join(word for word in (row.numbers, row.note) if word)),
            f'{row.commit}, {row.date}',
        )
        for row in rows
    )
    yield from table(
        ('Python', 'constraints', 'Ironic', 'tests', 'outcome', 'numbers', 'commit, date'), cells, (9, 11, 9, 9, 12, 32, 18)
    )


def page() -> Iterator[str]:
    """The table, and the machine of its rows."""
    rows = read()
    if not rows:
        yield 'No row has run yet.'
        return
    yield from rendered(rows)
    yield ''
    yield f'Machines: {"; ".join(sorted({row.machine for row in rows}))}.'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The table of refused writes: which writes of a host its BMC refused while a lock was closed, by ``make soak-guest``."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from baremetal_acc.locks.harmless_write import HarmlessWrite, IpmiRequest, SystemProperty
from doc.rst import plain, table

RESULTS = Path(__file__).parent / 'source' / 'refused.json'


class Outcome(StrEnum):
    """What became of a write."""

    DONE = 'done'
    REFUSED = 'refused'
    NOT_TRIED = 'not tried'
    """No harmless write is declared for the path."""
    CONTRADICTORY = 'contradictory'
    """The answer and the state that the operator reads do not agree, or the answer is neither a success nor a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedWrite:
    """One path that a mechanism blocks.

    :ivar path: a write path of the host.
    :ivar write: the declared write; empty if there is none.
    :ivar before: its outcome before the lock was closed; ``locked`` while it was closed; ``after`` when it was open again.
    """

    mechanism: str
    path: str
    write: str
    before: Outcome
    locked: Outcome
    after: Outcome

    @property
    def is_right(self) -> bool:
        """Whether the write was refused by the lock, and by nothing else; or there is none."""
        expected = (Outcome.DONE, Outcome.REFUSED, Outcome.DONE) if self.write else (Outcome.NOT_TRIED,) * 3
        return expected == (self.before, self.locked, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All rows of one run.

    :ivar commit: the commit that was tested, with ``+`` if files differed from it.
    """

    commit: str
    date: str
    machine: str
    rows: tuple[RefusedWrite, ...]


def described(write: HarmlessWrite) -> str:
    """The request of a write, as a person would send it."""
    match write.request:
        case IpmiRequest(netfn=netfn, command=command, data=data):
            return ' '.join(('ipmitool raw', *(f'{byte:#04x}' for byte in (netfn, command, *data))))
        case SystemProperty(name=name, value=None):
            return f'PATCH of the System: {name}, unchanged'
        case SystemProperty(name=name, value=value):
            return f'PATCH of the System: {name}, {json.dumps(value)}'


def read(path: Path = RESULTS) -> Run:
    """The run in the file."""
    found = json.loads(path.read_text(encoding='utf-8'))
    rows = (
        RefusedWrite(**{**row, **{when: Outcome(row[when]) for when in ('before', 'locked', 'after')}}) for row in found['rows']
    )
    return Run(**{**found, 'rows': tuple(rows)})


def written(run: Run) -> str:
    """The text of the file."""
    return json.dumps(asdict(run), indent=1) + '\n'


def rendered(run: Run) -> Iterator[str]:
    """The table of the page."""
    yield f'Run on {run.date} with commit {plain(run.commit)}, on {plain(run.machine)}.'
    yield ''
    yield from table(('mechanism', 'path', 'write', 'open', 'locked', 'open again'), _cells(run.rows), (22, 16, 32, 10, 10, 10))


def _cells(rows: Iterable[RefusedWrite]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        outcomes = (row.before, row.locked, row.after)
        shown = (str(one) if row.is_right else f'**{one}**' for one in outcomes)
        yield f'``{row.mechanism}``', row.path, f'``{row.write}``' if row.write else '', *shown


def page() -> Iterator[str]:
    """The table of the last run."""
    yield from rendered(read())


def declared(writes: Iterable[HarmlessWrite]) -> Iterator[str]:
    """The declared writes, with what each changes and its source."""
    rows = ((f'``{described(one)}``', one.path, f'{plain(one.effect)}. Source: {plain(one.source)}') for one in writes)
    yield from table(('write', 'path', 'what it changes'), rows, (34, 16, 50))

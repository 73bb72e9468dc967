# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the pages that are written from the code, so that nothing is listed twice.

A page says ``.. from-code:: NAME`` where ``make docs`` inserts the table of that name (``doc/source/conf.py``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from baremetal_acc.decide.providers import CLASSES, PREFIX
from baremetal_acc.emulator.fault import NAMES
from baremetal_acc.emulator.habit import HABITS
from baremetal_acc.model.accelerator import Kind


def faults() -> Iterator[str]:
    """The faults of the emulator, with their parameters."""
    rows = ((f'``{name}``', ', '.join(parameters), plain(what)) for name, (parameters, what) in NAMES.items())
    yield from table((26, 22, 52), ('name', 'parameters', 'what happens'), rows)


def habits() -> Iterator[str]:
    """The habits of emulated Redfish services, with who tells of each."""
    rows = ((f'``{habit.name}``', f'{plain(habit.what)}. Source: {plain(habit.source)}') for habit in HABITS.values())
    yield from table((28, 72), ('name', 'what the BMC does, and who tells of it'), rows)


def kinds() -> Iterator[str]:
    """The kinds of accelerators, with what placement has of a whole one."""
    rows = ((f'``{kind}``', plain(kind.means), f'``{CLASSES[kind]}``', f'``{PREFIX}{kind}``') for kind in Kind)
    yield from table((12, 48, 20, 20), ('kind', 'what it is', 'resource class', 'trait'), rows)


def table(widths: Sequence[int], header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in reST."""
    yield from ('.. list-table::', '   :header-rows: 1', f'   :widths: {" ".join(map(str, widths))}', '')
    for row in (header, *rows):
        for n, cell in enumerate(row):
            yield f'   {"*" if n == 0 else " "} - {cell}'.rstrip()
    yield ''


def plain(text: str) -> str:
    """Text in which no character means anything to reST."""
    return ''.join('\\' + c if c in '*`_|\\' else c for c in text)


TABLES: Mapping[str, Callable[[], Iterable[str]]] = {'faults': faults, 'habits': habits, 'kinds': kinds}
"""What ``.. from-code::`` knows."""

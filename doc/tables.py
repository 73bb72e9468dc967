# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the pages that are written from the code, so that nothing is listed twice.

A page says ``.. from-code:: NAME`` where ``make docs`` inserts the table of that name (``doc/source/conf.py``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from baremetal_acc.emulator.fault import NAMES
from baremetal_acc.emulator.habit import HABITS
from baremetal_acc.locks.mechanism import Mechanism
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.lock import ResetKind, Scope
from baremetal_acc.scheduling.provider_names import CLASSES, PREFIX
from doc import manual, matrix, refused, support
from doc.rst import plain, table

IN_FORCE = {
    ResetKind.NONE: 'at once',
    ResetKind.BMC_RESET: 'after a restart of the BMC',
    ResetKind.SYSTEM_RESET: 'with the next start of the host',
    ResetKind.POWER_CYCLE: 'after a power cycle',
    ResetKind.AUX_POWER_CYCLE: 'after a cycle of the standby power',
    ResetKind.AC_POWER_CYCLE: 'after the cord was pulled',
}
"""When a lock holds that was closed."""


def faults() -> Iterator[str]:
    """The faults of the emulator, with their parameters."""
    rows = ((f'``{name}``', ', '.join(parameters), plain(what)) for name, (parameters, what) in NAMES.items())
    yield from table(('name', 'parameters', 'what happens'), rows, (26, 22, 52))


def habits() -> Iterator[str]:
    """The habits of emulated Redfish services, with who tells of each."""
    rows = ((f'``{habit.name}``', f'{plain(habit.what)}. Source: {plain(habit.source)}') for habit in HABITS.values())
    yield from table(('name', 'what the BMC does, and who tells of it'), rows, (28, 72))


def card_locks() -> Iterator[str]:
    """The locks of cards."""
    rows = (
        (*_said(m), ', '.join(support.SCOPES[scope] for scope in sorted(m.about.protects)), IN_FORCE[m.about.needs])
        for m in mechanisms()
        if m.about.protects != {Scope.BMC}
    )
    yield from table(('mechanism', 'where it is read', 'blocks', 'protects', 'in force'), rows, (22, 34, 14, 16, 14))


def machine_locks() -> Iterator[str]:
    """The locks of whole machines."""
    rows = (
        (*_said(m), IN_FORCE[m.about.needs], plain(m.about.licence or ''))
        for m in mechanisms()
        if m.about.protects == {Scope.BMC}
    )
    yield from table(('mechanism', 'where it is read', 'blocks', 'in force', 'licence'), rows, (22, 34, 14, 14, 16))


def _said(mechanism: Mechanism) -> tuple[str, str, str]:
    about = mechanism.about
    return f'``{mechanism.name}``', plain(about.read_back), ', '.join(sorted(about.blocks))


def support_matrix() -> Iterator[str]:
    """The page ``support``, below its title."""
    about, shown = support.tried()
    yield from support.page(about, shown, mechanisms()).splitlines()


def harmless_writes() -> Iterator[str]:
    """The harmless writes that mechanisms declare."""
    found = dict.fromkeys(write for m in mechanisms() for write in m.about.harmless)
    yield from refused.declared(found)


def kinds() -> Iterator[str]:
    """The kinds of accelerators, with what placement has of a whole one."""
    rows = ((f'``{kind}``', plain(kind.means), f'``{CLASSES[kind]}``', f'``{PREFIX}{kind}``') for kind in Kind)
    yield from table(('kind', 'what it is', 'resource class', 'trait'), rows, (12, 48, 20, 20))


TABLES: Mapping[str, Callable[[], Iterable[str]]] = {
    'card-locks': card_locks,
    'faults': faults,
    'habits': habits,
    'harmless-writes': harmless_writes,
    'kinds': kinds,
    'machine-locks': machine_locks,
    'manual-commands': manual.command_list,
    'manual-common': manual.common_options,
    'manual-global': manual.global_options,
    'matrix': matrix.page,
    'refused-writes': refused.page,
    'support': support_matrix,
}
"""What ``.. from-code::`` knows."""

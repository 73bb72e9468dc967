# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Locks of whole machines that are one property: what a BMC shows, from which everything else that tries them is made.

Each has a module of its own here, with a :class:`BooleanPropertyMechanism` called ``SWITCH``. From it follow the reading of
each value and what is written (``tests/unit/locks/test_switches.py``), a job that locks an emulated machine, with its lies
(``tests/faults``), what a hostile BMC has to have sent (``tests/hostile``), and what recorded BMCs say
(``tests/wire/test_recordings.py``).
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baremetal_acc.emulator.hw.parameters import MachineMaker
from baremetal_acc.emulator.redfish.resource import Resource
from baremetal_acc.emulator.redfish.view import View
from baremetal_acc.model.lock import LockState, WritePath

HERE = Path(__file__)


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One such lock. Written from what its vendor says of it, and not from our code.

    :ivar kind: the mechanism.
    :ivar shown: what its BMC shows, given the URI of its Manager and a value of the property: bodies by URI, the Manager's too.
    :ivar at: the URI of the resource that has the property, given that of the Manager.
    :ivar field: the property within it, with ``/`` between names.
    :ivar closed: its values, of which the first is written; ``open`` likewise.
    :ivar way: of the host that it closes, as the emulator has it (``kcs``, ``redfish``); another word is a way that it brings.
    :ivar feature: of the product lock-server that has it, '' where it always has; None: it is emulated from ``shown``.
    :ivar recorded: what recorded BMCs say of it.
    """

    kind: Any
    shown: Callable[[str, Any], Mapping[str, Any]]
    at: Callable[[str], str]
    field: str
    blocks: WritePath
    closed: tuple[Any, ...]
    open: tuple[Any, ...]
    way: str
    feature: str | None = None
    recorded: Mapping[str, LockState] = field(default_factory=dict)

    def emulate(self, maker: MachineMaker, view: View, manager: str) -> str:
        """Add it to an emulated BMC; the key of the lock."""
        machine, uri = maker.machine, self.at(manager)
        key = f'{uri}/{self.field}'
        machine.add_lock(key, self.open[0], locked=self.closed[0], open=self.open[0], bmc=view.name, uri=uri)

        def writable() -> Any:
            inner: Any = view.setting(key, (type(self.closed[0]),), (self.closed[0], self.open[0]))
            for name in reversed(self.field.split('/')):
                inner = {name: inner}
            return inner

        for place in self.shown(manager, self.open[0]):
            said = functools.partial(self._said, machine, key, manager, place)
            if view.tree.has(place):
                view.tree.extend(place, said, writable if place == uri else None)
            else:
                name = place.rpartition('/')[2]
                named = functools.partial(lambda name, said: {'Id': name, 'Name': name, **said()}, name, said)
                able = writable if place == uri else dict
                resource = Resource(
                    uri=place, type='#Oem.v1_0_0.Oem', render=named, writable=able, privilege='ConfigureManager'
                )
                view.tree.add(resource)
        return key

    def _said(self, machine: Any, key: str, manager: str, place: str) -> Any:
        return self.shown(manager, machine.shown(key))[place]


@functools.cache
def switches() -> Mapping[str, Switch]:
    """All of them, by their mechanisms' names."""
    modules = sorted(path.stem for path in HERE.parent.glob('*.py') if path != HERE)
    found = [importlib.import_module(f'tests.mechanisms.{name}').SWITCH for name in modules]
    return {one.kind.name: one for one in found}

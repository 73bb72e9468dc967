# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep how a world stands, and bring it back: the machine, the node as the database has it, and what the world itself knows."""

import copy
from dataclasses import dataclass, fields
from typing import Any

from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc_ironic.periodics import watch
from tests.exploration.machine import TrueSite
from tests.exploration.world import World
from tests.lifecycles.site import START

_PARTS = ('systems', 'bmcs', 'components', 'settings')
_OF_SITE = ('hostile', 'keeps_time', 'accepted', 'open_since', 'foul', 'evil', 'away', 'cut', 'deaf')
_OF_WORLD = ('given', '_due', 'starts', 'offered')
_NEVER = frozenset(
    {'id', 'uuid', 'created_at', 'updated_at', 'traits', 'tags', 'version', 'chassis_id', 'allocation_id', 'conductor_affinity'}
)


@dataclass(frozen=True)
class Snapshot:
    """How a world stood."""

    at: float
    parts: dict[str, dict[str, dict[str, Any]]]
    events: list[Any]
    site: dict[str, Any]
    world: dict[str, Any]
    node: dict[str, Any]


def _fields(part: Any) -> dict[str, Any]:
    return {f.name: copy.deepcopy(getattr(part, f.name)) for f in fields(part)}


def take(world: World) -> Snapshot:
    """How it stands now."""
    place, machine = world.site, world.site.machine
    world.node.refresh()
    return Snapshot(
        at=machine.clock.now(),
        parts={kind: {name: _fields(part) for name, part in getattr(machine, kind).items()} for kind in _PARTS},
        events=list(machine.events),
        site={name: copy.deepcopy(getattr(place, name)) for name in _OF_SITE},
        world={name: copy.deepcopy(getattr(world, name)) for name in _OF_WORLD},
        node={k: copy.deepcopy(world.node[k]) for k in world.node.fields if k not in _NEVER and world.node.obj_attr_is_set(k)},
    )


def bring_back(world: World, snapshot: Snapshot) -> None:
    """As it stood then. The conductor knows nothing of it but what the database has."""
    place, machine = world.site, world.site.machine
    _machine(place, snapshot)
    for name, value in snapshot.site.items():
        setattr(place, name, copy.deepcopy(value))
    for name, value in snapshot.world.items():
        setattr(world, name, copy.deepcopy(value))
    world.dbapi.update_node(world.node.id, copy.deepcopy(snapshot.node) | {'reservation': None})
    world.node.refresh()
    world.node.obj_reset_changes()
    watch._CONDUCTORS.pop(world.service, None)
    world.service.power_state_sync_count.clear()
    world.violations.clear()
    world.story[:] = [f'brought back as it stood at {snapshot.at:.0f}']
    machine.faults.remove()


def _machine(place: TrueSite, snapshot: Snapshot) -> None:
    machine = place.machine
    clock = EmulatedClock(virtual=True, start=START)
    clock._offset = snapshot.at
    machine.clock = clock
    for kind, parts in snapshot.parts.items():
        for name, values in parts.items():
            part = getattr(machine, kind)[name]
            for field, value in values.items():
                setattr(part, field, copy.deepcopy(value))
    machine.events[:] = snapshot.events
    machine.cut_writes.clear()


__all__ = ['Snapshot', 'bring_back', 'take']

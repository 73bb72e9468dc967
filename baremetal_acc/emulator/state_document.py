# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The stored state of an emulated machine as a JSON document: dump it and load it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from baremetal_acc.emulator.image import EmulatedImage, ImageFormat
from baremetal_acc.emulator.machine_state import ELSEWHERE, MachineState
from baremetal_acc.emulator.parts import Bank, Cause, ComponentWrite, EmulatedTaskState, Power, Start, Task, WriteResult
from baremetal_acc.emulator.update_tasks import UpdateTasks


def dump_machine(machine: MachineState) -> dict[str, Any]:
    """The state as JSON. Image bytes are left out; their digests and versions are included. Times are relative to now."""
    now = machine.clock.now()

    def task_document(task: Task) -> dict[str, Any]:
        document = asdict(task)
        for key in ('created', 'starts', 'ends', 'ended'):
            document[key] = None if document[key] is None else document[key] - now
        return document

    return {
        'format': 1,
        'product': machine.product,
        'components': {
            key: {
                bank: asdict(held) if (held := getattr(component, bank)) is not None else None
                for bank in ('active', 'staged', 'previous', 'sent', 'held')
            }
            for key, component in machine.components.items()
        },
        'settings': {key: [setting.value, setting.in_force] for key, setting in machine.settings.items()},
        'systems': {
            name: {
                'power': system.power.value,
                'booting': system.booting,
                'last_reset': system.last_reset - now,
                'resets': system.resets,
                'state_since': system.state_since - now,
                'on_since': None if system.on_since is None else system.on_since - now,
                'on_seconds': system.on_seconds,
                'starts': [[one.cause.value, one.channel] for one in (system.asked, system.start, system.power_on)],
                'logged': system.logged,
                'logged_at': system.logged_at - now,
            }
            for name, system in machine.systems.items()
        },
        'bmcs': {
            name: {
                'next_task': bmc.next_task,
                'life': bmc.life,
                'last_reset': bmc.last_reset - now,
                'down_for': None if bmc.down_until is None else bmc.down_until - now,
                'tasks': [task_document(task) for task in bmc.tasks.values()],
            }
            for name, bmc in machine.bmcs.items()
        },
        'events': [[event.due - now, event.kind, event.subject, event.detail] for event in sorted(machine.events)],
        'kept': machine.kept(),
    }


def load_machine(machine: MachineState, tasks: UpdateTasks, document: Mapping[str, Any]) -> None:
    """Restore the state that :func:`dump_machine` returned.

    A task whose image had not arrived completely has failed. Events of :meth:`MachineState.later` are dropped.

    :raises ValueError: the document is of another product or another format.
    """
    if document.get('format') != 1 or document.get('product') != machine.product:
        raise ValueError(
            f'the stored state is for {document.get("product")!r} (format {document.get("format")!r}), '
            f'this machine is {machine.product!r} (format 1)'
        )
    now = machine.clock.now()

    def bank(stored: Mapping[str, Any] | None) -> Bank | None:
        return None if stored is None else Bank(**stored)

    for key, banks in document['components'].items():
        if (component := machine.components.get(key)) is not None:
            for name in ('active', 'staged', 'previous', 'sent', 'held'):
                setattr(component, name, bank(banks.get(name)))
    for key, (value, in_force) in document['settings'].items():
        if (setting := machine.settings.get(key)) is not None:
            setting.value, setting.in_force = value, in_force
    for name, stored in document['systems'].items():
        if (system := machine.systems.get(name)) is not None:
            system.power = Power(stored['power'])
            system.booting = stored['booting']
            system.last_reset = now + stored['last_reset']
            system.resets = stored['resets']
            if 'state_since' in stored:  # absent in states that were stored by older versions
                system.state_since = now + stored['state_since']
                system.on_since = None if stored['on_since'] is None else now + stored['on_since']
                system.on_seconds = stored['on_seconds']
                starts = [Start(cause=Cause(cause), channel=channel) for cause, channel in stored['starts']]
                system.asked, system.start, system.power_on = starts
                system.logged, system.logged_at = stored['logged'], now + stored['logged_at']
            elif system.power is Power.OFF:
                system.on_since = None
    for name, stored in document['bmcs'].items():
        if (bmc := machine.bmcs.get(name)) is not None:
            bmc.next_task = stored['next_task']
            bmc.life = stored['life']
            bmc.last_reset = now + stored['last_reset']
            bmc.down_until = None if stored['down_for'] is None else now + stored['down_for']
            bmc.tasks = {}
            for item in stored['tasks']:
                task = stored_task(item, now)
                if all(target in machine.components for target in task.targets):
                    bmc.tasks[task.id] = task
    machine.events = []
    for due, kind, subject, detail in document['events']:
        if kind != ELSEWHERE:
            machine.schedule(due, kind, subject, detail)
    machine.unclaimed = dict(document.get('kept', {}))
    for name, keeper in machine.keepers.items():
        if name in machine.unclaimed:
            keeper.load(machine.unclaimed.pop(name))
    for bmc in machine.bmcs.values():
        for task in bmc.tasks.values():
            if task.state is EmulatedTaskState.NEW:
                tasks.fail(task, 'interrupted', 'The BMC restarted before the image had arrived.', now)
    machine.revision += 1


def stored_task(stored: Mapping[str, Any], now: float) -> Task:
    fields = dict(stored)
    for key in ('created', 'starts', 'ends', 'ended'):
        fields[key] = None if fields[key] is None else now + fields[key]
    fields['state'] = EmulatedTaskState(fields['state'])
    fields['targets'] = tuple(fields['targets'])
    # A state that was stored before packages were supported has one image for all targets.
    alone = fields.pop('image', None)
    fields.pop('bank', None)
    whole = [{'key': key, 'image': alone, 'version': alone['version']} for key in fields['targets']] if alone else []
    fields['writes'] = [stored_write(one) for one in fields.get('writes', whole)]
    return Task(**fields)


def stored_write(stored: Mapping[str, Any]) -> ComponentWrite:
    image, result = stored['image'], stored.get('result')
    image = None if image is None else EmulatedImage(**{**image, 'kind': ImageFormat(image['kind'])})
    return ComponentWrite(**{**stored, 'image': image, 'result': None if result is None else WriteResult(result)})

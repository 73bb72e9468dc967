# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The true state of an emulated machine as a document for test assertions."""

from dataclasses import asdict
from typing import Any

from baremetal_acc.emulator.host_writes import tenant_hosts
from baremetal_acc.emulator.machine_state import MachineState
from baremetal_acc.emulator.setting_values import SettingValues
from baremetal_acc.emulator.update_tasks import percent_at


def describe_truth(machine: MachineState, values: SettingValues) -> dict[str, Any]:
    """The true state for test assertions, whatever the BMCs report."""
    return {
        'product': machine.product,
        'time': machine.clock.now(),
        'systems': {
            name: {'power': system.power.value, 'resets': system.resets, 'booting': system.booting}
            for name, system in machine.systems.items()
        },
        'components': {
            key: {
                'uri': component.uri,
                'bmc': component.bmc,
                'device': component.device,
                'kind': component.kind.value,
                'model': component.model,
                'component': component.component,
                'active': asdict(component.active) if component.active else None,
                'staged': asdict(component.staged) if component.staged else None,
                'previous': asdict(component.previous) if component.previous else None,
            }
            | ({'held': asdict(component.held)} if component.held else {})
            for key, component in machine.components.items()
        },
        'locks': {
            key: {
                'uri': setting.uri,
                'bmc': setting.bmc,
                'device': setting.device,
                'configured': setting.value,
                'in_force': setting.in_force,
                'locked': setting.locked,
                'closed': values.is_closed(key),
            }
            for key, setting in machine.settings.items()
            if setting.is_lock
        },
        'ways': [
            {
                'device': way.device,
                'component': way.component,
                'slot': way.slot,
                'path': way.path,
                'target': way.target,
                **({'host': way.host} if len(tenant_hosts(machine)) > 1 else {}),
                'open': not any(values.is_closed(key) for key in way.locks),
            }
            for way in machine.ways
        ],
        'bmcs': {
            name: {
                'up': bmc.down_until is None,
                'uploads': sorted(bmc.reserved),
                'tasks': {
                    str(task.id): {
                        'state': task.state.value,
                        'percent': percent_at(task, machine.clock.now()),
                        'targets': list(task.targets),
                    }
                    for task in bmc.tasks.values()
                },
            }
            for name, bmc in machine.bmcs.items()
        },
        'fetches': list(machine.fetches),
        'cut_writes': list(machine.cut_writes),
        'history': list(machine.history),
        **{what: {name: tell() for name, tell in tellers.items()} for what, tellers in machine.also.items()},
    }

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's node: what Ironic says of it, what the machine truly is, and checks of both."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from baremetal_acc.demo import documents
from baremetal_acc.demo.api import DemoIronic, DemoMachine, Json
from baremetal_acc.demo.request_log import is_upload
from baremetal_acc.demo.screen import ClaimFailed, Screen

GPUS = ('GPU_0', 'GPU_1')
LIAR = 'GPU_1'
"""The card whose BMC will report a lock that it has not set."""

FPGA = 'FPGA1'
DPU = 'DPU'

HOST_DEVICE = 'host-device'
"""The one write path that the baseline wants blocked."""

CONTAINER = 'baremetal_acc'
"""Key of our data in Ironic's inspection store and in ``driver_internal_info``."""


def _name(function: Json | None) -> str:
    """The function in a slot, for people."""
    return 'empty' if function is None else f'{function["name"] or function["id"]} {function["version"]}'


class DemoNode:
    """The demo's node: what Ironic says of it, what the machine truly is, and checks of both.

    :ivar uuid: empty until the node is enrolled.
    """

    def __init__(self, screen: Screen, ironic: DemoIronic, machine: DemoMachine) -> None:
        self._screen = screen
        self._ironic = ironic
        self._machine = machine
        self._told = 0
        self.uuid = ''

    def accelerators(self) -> list[Json]:
        """The accelerators in Ironic's inspection store."""
        data = self._ironic.get(f'/v1/nodes/{self.uuid}/inventory')['plugin_data']
        found: list[Json] = data[CONTAINER]['inventory']['accelerators']
        return found

    def listed_versions(self) -> dict[str, str]:
        """The versions in Ironic's firmware list, by SoftwareInventory Id, for the components that the baseline names."""
        rows = self._ironic.get(f'/v1/nodes/{self.uuid}/firmware')['firmware']
        known = {row['component'].split(':', 1)[-1].split('@')[0]: row['current_version'] for row in rows}
        return {name: known.get(name, 'absent') for name in self.new_versions()}

    def show_cards(self, accelerators: Iterable[Json]) -> None:
        """Print the cards with their slots, locks and firmware."""
        rows = []
        for card in accelerators:
            firmware = ', '.join(f'{c["id"]} {c["version"]}' for c in card['firmware'] if self._is_named(str(c['id'])))
            slots = ', '.join(f'{s["slot_id"]}: {_name(s["function"])}' for s in card['slots'])
            states = sorted({reading['state'] for reading in card['locks']})
            rows.append((card['kind'], card['model'] or '-', card['serial'] or '-', slots or '-', ', '.join(states), firmware))
        self._screen.table(('kind', 'model', 'serial', 'slots', 'locks', 'firmware'), rows)

    def _is_named(self, component: str) -> bool:
        return component in self.new_versions()

    def show_history(self) -> None:
        """Print the entries of our steps in the node's history since the last call."""
        rows = self._ironic.get(f'/v1/nodes/{self.uuid}/history?detail=True')['history']
        told = [row for row in rows if row['event_type'] == 'accelerator'][self._told :]
        self._told += len(told)
        if told:
            self._screen.say('History of the node in Ironic:')
        for row in told:
            self._screen.detail(row['event'])

    def set_power(self, target: str, power: str) -> Json:
        """Power the host on (or off) by Ironic, as a tenant does, and return the node."""
        if self._machine.truth()['systems']['host']['power'] != power:
            self._ironic.put(f'/v1/nodes/{self.uuid}/states/power', {'target': target})
        for _ in range(80):
            found: Json = self._ironic.wait(self.uuid, 'active')
            if found['power_state'] == target:
                return found
            time.sleep(0.25)
        raise ClaimFailed('Ironic reports the requested power state of the host', target, found['power_state'])

    def switch_power(self, asking: DemoIronic, target: str, power: str, *, tries: int = 40) -> None:
        """Change the power state of the host by Ironic, and wait until the machine itself has changed.

        :raises ServiceRefused: Ironic refused each try.
        :raises ClaimFailed: the power state has not changed in time.
        """
        asking.put(f'/v1/nodes/{self.uuid}/states/power', {'target': target}, tries=tries)
        for _ in range(200):
            found = self._machine.truth()['systems']['host']['power']
            if found == power and self._ironic.get(f'/v1/nodes/{self.uuid}?fields=reservation')['reservation'] is None:
                return
            time.sleep(0.1)
        raise ClaimFailed(f'{target} takes effect on the host', power, found)

    def cycle_power(self) -> None:
        """Power cycle the host by its power button, and wait until it is on."""
        before = self._machine.truth()['systems']['host']
        self._machine.press('PowerCycle' if before['power'] == 'On' else 'On')
        for _ in range(100):
            host = self._machine.truth()['systems']['host']
            if host['resets'] > before['resets'] and host['power'] == 'On':
                return
            time.sleep(0.1)
        raise ClaimFailed('the host is on again after its power cycle', 'On', host['power'])

    def ways(self) -> list[Json]:
        """The host's in-band ways to its cards, as the machine truly has them."""
        found: list[Json] = self._machine.truth()['ways']
        return found

    def held(self) -> dict[str, Any]:
        """The true content of every firmware bank and slot of every card: active and staged."""
        return {key: (c['active'], c['staged']) for key, c in self._machine.truth()['components'].items()}

    def slots(self) -> dict[str, str | None]:
        """The function that each slot of the FPGA truly holds."""
        found = {}
        for key, component in self._machine.truth()['components'].items():
            if component['kind'] == 'function':
                active = component['active']
                found[key.rsplit('_', 1)[-1]] = f'{active["function"]} {active["version"]}' if active else None
        return found

    def versions(self, gpu: str, fpga: str, dpu: str) -> dict[str, str]:
        """These versions of the main firmware, by SoftwareInventory Id."""
        by_part = {'gpu': gpu, 'fpga': fpga, 'nic': dpu}
        components = self._machine.truth()['components']
        named = {key: by_part[c['component']] for key, c in components.items() if c['component'] in by_part}
        return {key.split('/', 1)[1]: version for key, version in sorted(named.items())}

    def new_versions(self, *, fpga: str = documents.FPGA_NEW) -> dict[str, str]:
        """The versions that the baseline wants."""
        return self.versions(documents.GPU_NEW, fpga, documents.DPU_NEW)

    def expect_firmware(self, what: str, wanted: Mapping[str, str]) -> None:
        """Check the versions that really run, whatever the BMCs report."""
        components = self._machine.truth()['components']
        found = {key.split('/', 1)[1]: c['active']['version'] for key, c in sorted(components.items()) if c['active']}
        self._screen.expect(what, dict(wanted), {name: found.get(name) for name in wanted})

    def running(self, device: str) -> Json:
        """Version and digest of the main firmware that a card really runs."""
        found: Json = self._machine.truth()['components'][self.main_firmware(device)]['active']
        return found

    def main_firmware(self, device: str) -> str:
        """The key of a card's main firmware in the machine's true state."""
        (key,) = (k for k in self._machine.truth()['components'] if k.startswith('host/') and k.endswith(f'_FW_{device}'))
        return str(key)

    def expect_locked(self, what: str) -> None:
        """Check that no in-band way to a card is open."""
        self._screen.expect(what, [], [f'{way["device"]} over {way["path"]}' for way in self.ways() if way['open']])

    def lock_writes(self, entries: Iterable[Json]) -> list[Json]:
        """The requests that write a lock of a card."""
        return [e for e in entries if e['bmc'] != 'door' and self.device_of(e) is not None and not is_upload(e)]

    def device_of(self, entry: Json) -> str | None:
        """The card whose lock a request writes, None if it writes none. A Redfish action belongs to its resource."""
        for lock in self._machine.truth()['locks'].values():
            base = lock['uri']
            path = entry['path'].removesuffix('/Settings')
            if entry['bmc'] == lock['bmc'] and lock['device'] and (path == base or path.startswith(f'{base}/Actions/')):
                return str(lock['device'])
        return None

    def uri(self, component: str) -> str:
        """The URI of a component's SoftwareInventory."""
        return str(self._machine.truth()['components'][component]['uri'])

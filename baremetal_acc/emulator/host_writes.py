# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""In-band writes to an emulated machine by a tenant who is root on one of its hosts."""

from baremetal_acc.emulator.firmware_banks import FirmwareBanks
from baremetal_acc.emulator.image import BadImage, EmulatedImage
from baremetal_acc.emulator.machine_state import MachineState
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Power, WriteRefused
from baremetal_acc.emulator.setting_values import SettingValues


def tenant_hosts(machine: MachineState) -> tuple[str, ...]:
    """The systems on which a tenant may be root: those that have an in-band path to a card."""
    return tuple(dict.fromkeys(way.host for way in machine.ways)) or ('host',)


class HostWrites:
    """In-band writes of a tenant who is root on a host."""

    def __init__(self, machine: MachineState, values: SettingValues, banks: FirmwareBanks) -> None:
        self._machine = machine
        self._values = values
        self._banks = banks

    def host_is_up(self, name: str = 'host') -> bool:
        """Whether code of a tenant can run on the host: it is on and not restarting."""
        host = self._machine.systems[name]
        return host.power is Power.ON and not host.booting

    def is_powered(self, device: str) -> bool:
        """Whether the system of a card is on."""
        parts = [one for one in self._machine.components.values() if device and one.device == device]
        return all(self._machine.systems[one.system].power is Power.ON for one in parts)

    def write_from_host(
        self,
        device: str,
        image: EmulatedImage | BadImage,
        *,
        path: str,
        component: str | None = None,
        slot: int | None = None,
        host: str | None = None,
    ) -> EmulatedComponent:
        """Write an image in band, as a tenant who is root on the host. It is in force at once: root may also reset the card.

        :param host: the host, where the machine has several; None: any host that has a path to the card.
        :raises WriteRefused: ``host-off``, ``no-such-way``, ``locked``, ``bad-image``, ``wrong-...``.
        """
        reaching = [way for way in self._machine.ways if way.device == device and host in (None, way.host)]
        asked = {way.host for way in reaching} or ({*tenant_hosts(self._machine)} if host is None else {host})
        up = {name for name in asked if self.host_is_up(name)}
        if not up:
            raise WriteRefused('host-off', 'the host is off, so it cannot write to its cards')
        ways = [
            way
            for way in reaching
            if way.host in up and way.path == path and way.slot == slot and component in (None, way.component)
        ]
        if not ways or self._machine.is_gone(device):
            place = f'slot {slot}' if slot is not None else component or 'firmware'
            raise WriteRefused('no-such-way', f'the host has no path {path} to {place} of {device}')
        way = ways[0]
        for key in way.locks:
            if self._values.is_closed(key):
                raise WriteRefused('locked', f'{key} blocks the path {path} to {device}')
        if isinstance(image, BadImage):
            raise WriteRefused('bad-image', str(image))
        target = self._machine.components[way.target]
        self._banks.check_image(target, image)
        self._machine.note_part('written', target.key, task=None, version=image.version, digest=image.digest, writer='host')
        self._banks.activate(target, Bank.of(image, 'host'))
        self._machine.revision += 1
        return target

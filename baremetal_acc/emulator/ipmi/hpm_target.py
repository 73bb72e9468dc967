# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Map the HPM.1 components of an emulated controller to the firmware of the emulated machine, and answer their properties."""

import math
from collections.abc import Iterable, Mapping

from baremetal_acc.emulator.fault import Fault
from baremetal_acc.emulator.ipmi.controller import GROUP, CommandRefusal
from baremetal_acc.emulator.ipmi.hpm_ability import Ability, HpmPart, Times
from baremetal_acc.emulator.ipmi.hpm_commands import OEM_FROM
from baremetal_acc.emulator.ipmi.upgrade_image import MOST_COMPONENTS, NO_VERSION, version_bytes
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Bank, EmulatedComponent

UNIT_SECONDS = 5
NAME_BYTES = 12

_VERSION = 0
_UNKNOWN_COMPONENT, _UNKNOWN_SELECTOR = 0x82, 0x83


class UpgradeTarget:
    """The components of an HPM.1 controller in their machine, with what the controller is able to do.

    :param parts: its components, by number.
    :raises ValueError: a part is not a component of the machine, or has a version or a name that HPM.1 cannot express.
    :ivar name: the name by which the machine knows what is due later.
    """

    def __init__(self, machine: Machine, parts: Mapping[int, HpmPart], times: Times, ability: Ability) -> None:
        for number, part in parts.items():
            if not 0 <= number < MOST_COMPONENTS or part.key not in machine.components:
                raise ValueError(
                    f'component {number} ({part.key!r}): number 0 to {MOST_COMPONENTS - 1} and a key of the machine required'
                )
            if not part.name.isascii() or len(part.name) >= NAME_BYTES:
                raise ValueError(
                    f'component {number}: the name {part.name!r} must have at most {NAME_BYTES - 1} ASCII characters'
                )
            for bank in (machine.components[part.key].active, machine.components[part.key].previous):
                if bank is not None:
                    version_bytes(bank.version)
        self.machine = machine
        self.parts = dict(parts)
        self.times = times
        self.ability = ability
        self.name = f'hpm/{"/".join(part.key for part in self.parts.values())}'

    def component(self, number: int) -> EmulatedComponent:
        """The component of the machine with that number."""
        return self.machine.components[self.parts[number].key]

    def defers(self, part: HpmPart) -> bool:
        """Whether a component keeps an uploaded image over restarts until it is activated."""
        return part.deferred and not self.ability.activates_at_finish

    def drop_held(self) -> None:
        """Drop held images, as a restart of the controller does, except those of components with deferred activation."""
        for part in self.parts.values():
            if not self.defers(part):
                self.machine.drop_held(part.key)

    def find_fault(self, name: str, component: EmulatedComponent, command: int, *, use: bool = False) -> Fault | None:
        """The fault rule of that name for a component and a command."""
        return self.machine.faults.find(
            name,
            bmc=component.bmc,
            device=component.device,
            uri=component.uri,
            method=f'{GROUP:02X}/{command:02X}',
            use=use,
        )

    def capabilities(self) -> bytes:
        """The answer to Get Target Upgrade Capabilities."""
        can, times = self.ability, self.times
        bits = (
            can.self_test,
            can.automatic_rollback,
            can.manual_rollback,
            can.services_affected,
            any(self.defers(part) for part in self.parts.values()),
            can.degraded,
            can.override,
            can.undesirable,
        )
        upgrade = max(times.back_up, times.erase, times.block, times.finish, times.activate)
        units = (_units(upgrade), _units(times.self_test), _units(times.roll_back), _units(times.activate))
        return bytes((_VERSION, mask_of(n for n, bit in enumerate(bits) if bit), *units, mask_of(self.parts)))

    def component_property(self, number: int, selector: int) -> bytes:
        """The answer to Get Component Properties.

        :raises CommandRefusal: there is no such component, or it has no such property.
        """
        if number not in self.parts:
            raise CommandRefusal(_UNKNOWN_COMPONENT)
        part, component = self.parts[number], self.component(number)
        match selector:
            case 0:
                payload = component.activates is not None
                bits = part.prepares << 2 | part.compares << 3 | self.defers(part) << 4 | payload << 5
                return bytes((part.backup | bits,))
            case 1:
                return _told(self.machine.shown_version(part.key))
            case 2:
                return part.name.encode('ascii').ljust(NAME_BYTES, b'\0')
            case 3 if part.backup:
                return _told(_version(component.previous))
            case 4 if self.defers(part):
                return _told(_version(component.held or component.staged))
            case _ if selector >= OEM_FROM and selector in part.oem:
                return part.oem[selector]
        raise CommandRefusal(_UNKNOWN_SELECTOR)


def _version(bank: Bank | None) -> str:
    return bank.version if bank is not None else ''


def _told(version: str) -> bytes:
    """The version bytes that the controller reports; FFh bytes where HPM.1 cannot express the version."""
    try:
        return version_bytes(version)
    except ValueError:
        return NO_VERSION


def _units(seconds: float) -> int:
    return min(0xFF, max(1, math.ceil(seconds / UNIT_SECONDS)))


def mask_of(numbers: Iterable[int]) -> int:
    """The bits of component numbers."""
    return sum(1 << number for number in set(numbers))


def numbers_of(mask: int) -> tuple[int, ...]:
    """The component numbers of bits."""
    return tuple(number for number in range(MOST_COMPONENTS) if mask >> number & 1)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The IPMI site of one BMC of an emulated machine: the parts of this package, joined over the state of the machine.

Power, versions and restarts are the same over IPMI and Redfish. A card with a board of its own is a controller behind the BMC,
with its FRU inventory, its firmware and its firewall. A component that HPM.1 cannot express, such as one whose version has
letters, is not shown.

The accounts start as copies of the Redfish accounts and are separate afterwards: a change through one protocol does not show in
the other.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from baremetal_acc.emulator.access import CurrentUser
from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.ipmi.chassis import Control, EmulatedChassis, History
from baremetal_acc.emulator.ipmi.cipher_suites import SUITES
from baremetal_acc.emulator.ipmi.controller import (
    APP,
    IPMB,
    LAN,
    SECOND_LAN,
    SYSTEM,
    Around,
    CommandAnswer,
    CommandRefusal,
    CommandRequest,
    ControllerIdentity,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.event_log import EventLog
from baremetal_acc.emulator.ipmi.firewall import EmulatedFirewall
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea, FruDevices, inventory
from baremetal_acc.emulator.ipmi.hpm import Upgrades
from baremetal_acc.emulator.ipmi.hpm2_lan import ExtendedLan
from baremetal_acc.emulator.ipmi.hpm_ability import Ability, HpmPart, Times
from baremetal_acc.emulator.ipmi.i2c import Buses, Device, Eeprom
from baremetal_acc.emulator.ipmi.inventory_habits import InventoryHabits
from baremetal_acc.emulator.ipmi.lan import LOOPBACK, LanLine, listen
from baremetal_acc.emulator.ipmi.messaging import Messages
from baremetal_acc.emulator.ipmi.presence import Presence
from baremetal_acc.emulator.ipmi.sdr import EmulatedControllerLocator, EmulatedFruLocator, PlainRecord, Repository
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.system import Signal, SystemDoor, SystemInterface
from baremetal_acc.emulator.ipmi.upgrade_image import MOST_COMPONENTS, version_bytes
from baremetal_acc.emulator.ipmi.users import Users
from baremetal_acc.emulator.ipmi.wire import EmulatedWire
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.machine_state import Keeper
from baremetal_acc.emulator.parts import Cause, Power, WriteRefused

BMC_BOARD = ''
"""The key of the BMC's own board among the boards of a machine; the others are those of cards, by device."""

LONGEST_PASSWORD = 20

_FIRST_CARD = 0x72
_FIRST_INSTANCE = 0x61
_SYSTEM_BOARD = 0x07
_NAME_BYTES = 11
_MAKERS_NETFN, _MAKERS_COMMANDS = 0x32, (0x01, 0x81)
_OWN_BUS, _EEPROM_BUS, _EEPROM = 0x01, 0x03, 0xA0
_DEVICE_ID, _CARD_DEVICE_ID, _CARD_SUPPORT = 0x20, 0x31, 0x08
_KEEPS_A_LOG = 0x04

_PRIVILEGES = {
    'Administrator': EmulatedPrivilege.ADMINISTRATOR,
    'Operator': EmulatedPrivilege.OPERATOR,
    'ReadOnly': EmulatedPrivilege.USER,
}

_RESETS = {
    Control.OFF: 'ForceOff',
    Control.ON: 'On',
    Control.CYCLE: 'PowerCycle',
    Control.RESET: 'ForceRestart',
    Control.SOFT_OFF: 'GracefulShutdown',
}

_SIGNALS = {
    'ForceOff': Signal.POWER_OFF,
    'GracefulShutdown': Signal.SHUT_DOWN,
    'ForceRestart': Signal.RESET,
    'GracefulRestart': Signal.RESET,
    'PowerCycle': Signal.RESET,
}
"""The signals to a machine at the system interface, by the ResetType of a reset, over IPMI or Redfish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IpmiOptions:
    """The IPMI abilities of a BMC.

    :param suites: cipher suites that it offers.
    :param hpm: the BMC, and its cards, take firmware over HPM.1.
    :param firewall: they have a firmware firewall; the five options after it describe it, see :class:`EmulatedFirewall`. With
        the last the BMC has commands of its manufacturer, which do nothing.
    :param host_history: the BMC of a host reports the cause of its last start, its power-on hours, and the number of log
        entries.
    :param minutes_per_count: the unit of the power-on hours counter.
    :param inbound_bytes: the longest payload that HPM.2 allows; None: there is no HPM.2.
    :param times: how long actions of HPM.1 take; None: a quarter of the machine's time of writing for erase and Finish each,
        and half of it for the activation.
    :param tags_refusals: a refusal of a login has the message tag of its request; else zeros, as OpenBMC sends it.
    :param second_lan: it has another LAN, channel 8h, with privileges and parameters of its own. Nothing listens there.
    :param inventory_habits: habits of FRUs and sensor data records, by names of
        :data:`baremetal_acc.emulator.ipmi.inventory_habits.HABITS`.
    :param line: the transmission faults of its datagrams.
    """

    suites: tuple[int, ...] = tuple(SUITES)
    hpm: bool = True
    firewall: bool = True
    firewall_survives_reset: bool = True
    firewall_applies_in_part: bool = False
    firewall_needs_qualifier: bool = True
    firewall_reads_qualifier: bool = True
    firewall_makers_qualifier: bytes = b''
    host_history: bool = True
    minutes_per_count: int = 60
    inbound_bytes: int | None = 1024
    times: Times | None = None
    ability: Ability = field(default_factory=Ability)
    idle_seconds: float = 60.0
    tags_refusals: bool = True
    second_lan: bool = False
    inventory_habits: tuple[str, ...] = ()
    line: LanLine = field(default_factory=LanLine)


class _Keeps(Protocol):
    """A part of a BMC whose state is stored with that of the machine."""

    def dump(self) -> Any:
        """The state as JSON."""

    def load(self, stored: Any) -> None:
        """Restore the state."""


class IpmiSite:
    """One BMC of a machine, over IPMI.

    :param users: accounts; those with a password that is too long for IPMI are left out.
    :param boards: the contents of the FRU inventories, by device; :data:`BMC_BOARD` for the BMC's own.
    :param changed: called after each command, before it is answered, so that the state can be stored.
    :ivar cards: the controllers behind the BMC, by device, and ``firewalls`` and ``upgrades`` by device or :data:`BMC_BOARD`.
    :ivar wire: its LAN side, with the faults of datagrams.
    :ivar port: UDP port of the LAN, and ``system_port`` TCP port of the system interface; 0 until they are served.
    """

    def __init__(
        self,
        machine: Machine,
        bmc: str,
        *,
        users: Iterable[CurrentUser],
        boards: Mapping[str, EmulatedBoardArea],
        options: IpmiOptions | None = None,
        changed: Callable[[], None] | None = None,
    ) -> None:
        self._machine = machine
        self._bmc = bmc
        self.options = options or IpmiOptions()
        lans = (LAN, SECOND_LAN) if self.options.second_lan else (LAN,)
        guid = _guid(machine, bmc, boards)
        self.controller = EmulatedController(
            identity=ControllerIdentity(device_id=_DEVICE_ID), guid=guid, channels=(IPMB, *lans, SYSTEM)
        )
        self.users = Users()
        for number, user in enumerate((one for one in users if len(one.password.encode()) <= LONGEST_PASSWORD), 2):
            self.users.put(number, user.name, user.password.encode(), _PRIVILEGES[user.role])
        self.users.join(self.controller)
        self._changed = changed
        self._keeps: dict[str, _Keeps] = {'users': self.users}
        self.firewalls: dict[str, EmulatedFirewall] = {}
        self.upgrades: dict[str, Upgrades] = {}
        self.cards: dict[str, EmulatedController] = {}
        self.messages = Messages()
        self.messages.join(self.controller)
        interface = SystemInterface(
            self.controller, self.messages, on_host_reset=self._host_was_reset, privilege=self._privilege_of_host
        )
        self.door = SystemDoor(interface, self.messages)
        self._host_resets = False
        self.endpoint = SessionEndpoint(
            self.controller,
            self.users,
            clock=machine.clock,
            suites=self.options.suites,
            idle_seconds=self.options.idle_seconds,
            reset_seconds=0,
            tags_refusals=self.options.tags_refusals,
        )
        self._keeps['lan'] = self.endpoint.channel
        if self.endpoint.second is not None:
            self._keeps['second lan'] = self.endpoint.second
        self.wire = EmulatedWire(self.endpoint, machine, bmc)
        self.controller.add(APP, 0x01, lambda _: self._identity().encoded(), privilege=EmulatedPrivilege.USER)
        self._system = next((system.name for system in machine.systems.values() if system.bmc == bmc), '')
        self._chassis = EmulatedChassis(
            lambda: machine.systems[self._system].power in (Power.ON, Power.POWERING_OFF),
            self._control,
            self._history if self.options.host_history else None,
            self.options.minutes_per_count,
            now=machine.clock.now,
        )
        if self._system:
            self._chassis.join(self.controller)
            machine.on_system_reset.append(self._tell_host)
            if self.options.host_history:
                EventLog(lambda: machine.systems[self._system].logged, self._logged_at).join(self.controller)
                own = self.controller.identity
                self.controller.identity = replace(own, support=own.support | _KEEPS_A_LOG)
        self._add_inventory(boards)
        self._furnish(self.controller, BMC_BOARD)
        machine.also.setdefault('ipmi', {})[bmc] = self.describe
        machine.keepers[f'ipmi of {bmc}'] = Keeper(self._dump, self._load)
        self._transport: asyncio.DatagramTransport | None = None
        self.port = self.system_port = 0

    # -- parts of the BMC ---------------------------------------------------------------------------------------------

    def _add_inventory(self, boards: Mapping[str, EmulatedBoardArea]) -> None:
        """Add FRU devices and locators. Each card is a controller of its own, whose EEPROM the BMC also reaches by I2C."""
        locators: list[EmulatedFruLocator | EmulatedControllerLocator | PlainRecord] = []
        habits = InventoryHabits(self.options.inventory_habits)
        buses: dict[tuple[int, int], Device] = {}
        if BMC_BOARD in boards:
            own = FruDevices({0: inventory(board=boards[BMC_BOARD])} | habits.frus)
            own.join(self.controller)
            self._keeps['frus'] = own
            buses[_OWN_BUS, _EEPROM] = Eeprom(own.contents[0])
            locators.append(EmulatedFruLocator(name='System board', fru_id=0, entity=_SYSTEM_BOARD, instance=1))
        for number, (device, board) in enumerate((device, board) for device, board in boards.items() if device != BMC_BOARD):
            address = _FIRST_CARD + 2 * number
            card = EmulatedController(
                identity=ControllerIdentity(device_id=_CARD_DEVICE_ID, support=_CARD_SUPPORT),
                guid=hashlib.sha256(f'{board.serial}/{device}'.encode()).digest()[:16],
                address=address,
                channels=(IPMB,),
            )
            devices = FruDevices({0: inventory(board=board)}, longest=20)
            devices.join(card)
            self._keeps[f'frus of {device}'] = devices
            eeprom = Eeprom(devices.contents[0])
            Buses({(_EEPROM_BUS, _EEPROM): eeprom}).join(card)
            buses[_EEPROM_BUS, _EEPROM + 2 * number] = eeprom
            self.controller.behind[IPMB, address] = self.cards[device] = card
            self._furnish(card, device)
            locators.append(EmulatedControllerLocator(name=device[:16], address=address, instance=_FIRST_INSTANCE + number))
        Buses(buses).join(self.controller)
        records = Repository((*locators, *habits.records), writable=True, wraps=habits.wraps)
        records.join(self.controller)
        habits.join(self.controller, lambda: max(records.raw, default=0))
        self._keeps['records'] = records

    def _furnish(self, controller: EmulatedController, device: str) -> None:
        """Add what the BMC and a card have in common: presence, HPM.1 firmware upgrade and firmware firewall."""
        machine, options = self._machine, self.options
        presence = Presence(controller, machine, self._bmc, device or None)
        parts = self._parts(device)
        if options.hpm and parts:
            seconds = machine.flash_seconds
            times = options.times or Times(erase=seconds / 4, finish=seconds / 4, activate=seconds / 2)
            ability = options.ability
            if device == BMC_BOARD and options.inbound_bytes is not None:
                extended = ExtendedLan(self.endpoint.channel, inbound_bytes=options.inbound_bytes)
                extended.join(controller)
                ability = replace(ability, block_bytes={**ability.block_bytes, LAN: extended.block_bytes})
            self.upgrades[device] = Upgrades(machine, parts, presence, times=times, ability=ability)
            self.upgrades[device].join(controller)
        if options.firewall:
            self.firewalls[device] = EmulatedFirewall(
                controller,
                machine,
                self._bmc,
                device or None,
                survives_reset=options.firewall_survives_reset,
                applies_in_part=options.firewall_applies_in_part,
                needs_qualifier=options.firewall_needs_qualifier,
                reads_qualifier=options.firewall_reads_qualifier,
                makers_qualifier=options.firewall_makers_qualifier,
            )
            if options.firewall_makers_qualifier and device == BMC_BOARD:
                for command in _MAKERS_COMMANDS:
                    controller.add(_MAKERS_NETFN, command, lambda _: b'', privilege=EmulatedPrivilege.ADMINISTRATOR)
            self.firewalls[device].join()
            self._keeps[f'firewall of {device}' if device else 'firewall'] = self.firewalls[device]
        if self._changed is not None:
            controller.around = _storing(controller.around, self._changed)

    def _parts(self, device: str) -> dict[int, HpmPart]:
        found = []
        for component in self._machine.components.values():
            is_its = (component.bmc, component.device, component.kind) == (self._bmc, device, ImageFormat.FIRMWARE)
            if not is_its or not component.updateable or component.active is None:
                continue
            try:
                version_bytes(component.active.version)
            except ValueError:
                continue
            name = component.key.rsplit('/', 1)[-1][:_NAME_BYTES]
            found.append(HpmPart(key=component.key, name=name, restarts=component.component == 'bmc'))
        return dict(enumerate(found[:MOST_COMPONENTS]))

    def _identity(self) -> ControllerIdentity:
        """The identity with the present firmware version, that of the BMC's own component."""
        for component in self._machine.components.values():
            if (component.bmc, component.device, component.component) != (self._bmc, BMC_BOARD, 'bmc'):
                continue
            try:
                major, minor, *_ = version_bytes(self._machine.shown_version(component.key))
            except ValueError:
                break
            return replace(self.controller.identity, firmware=(major, (minor >> 4) * 10 + (minor & 0xF)))
        return self.controller.identity

    def _privilege_of_host(self) -> EmulatedPrivilege | None:
        """The privilege of the host at the system interface; None: a lock has switched the interface off."""
        bmc = self._machine.bmcs[self._bmc]
        found = EmulatedPrivilege.ADMINISTRATOR
        for key in bmc.host_paths.get('kcs', ()):
            setting = self._machine.settings[key]
            is_closed = self._machine.is_closed(key)
            if key in bmc.host_limits and (is_closed or setting.in_force != setting.locked):
                found = min(found, EmulatedPrivilege[str(setting.in_force).upper()])
            elif is_closed:
                return None
        return found

    # -- power of the host --------------------------------------------------------------------------------------------

    def _control(self, wanted: Control) -> None:
        """Carry out Chassis Control.

        :raises Refusal: D5h: the power is already changing.
        """
        if wanted is Control.DIAGNOSE:
            self.door.signal(Signal.DIAGNOSE)
            return
        try:
            self._machine.reset_system(self._system, _RESETS[wanted], cause=Cause.COMMAND, channel=self._chassis.channel)
        except WriteRefused as why:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE) from why

    def _history(self) -> History:
        system = self._machine.systems[self._system]
        return History(
            cause=system.start.cause,
            channel=system.start.channel or 0,
            on_by_command=system.power_on.channel is not None,
            on_seconds=system.on_for(self._machine.clock.now()),
        )

    def _logged_at(self) -> int:
        """The time of the last log entry by the BMC's clock, in seconds since 1970."""
        at = self._machine.systems[self._system].logged_at
        return int(datetime.fromisoformat(self._machine.clock.wall(at)).timestamp())

    def _tell_host(self, system: str, reset_type: str) -> None:
        """Signal a reset of the host, also one over Redfish, to the machine at the system interface."""
        if system == self._system and reset_type in _SIGNALS and not self._host_resets:
            self.door.signal(_SIGNALS[reset_type])

    def _host_was_reset(self) -> None:
        """Record a restart of the machine at the system interface. A restart that the BMC signalled is already under way."""
        if not self._system:
            return
        self._host_resets = True
        try:
            with contextlib.suppress(WriteRefused):
                self._machine.reset_system(self._system, 'ForceRestart', cause=Cause.SOFT_RESET)
        finally:
            self._host_resets = False

    # -- stored state -------------------------------------------------------------------------------------------------

    def _dump(self) -> dict[str, Any]:
        return {name: part.dump() for name, part in self._keeps.items()}

    def _load(self, stored: Mapping[str, Any]) -> None:
        for name, part in self._keeps.items():
            if name in stored:
                part.load(stored[name])

    # -- true state for tests -----------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """The true state for test assertions: open sessions, disabled commands, and counts of activations and rollbacks."""
        return {
            'sessions': self.endpoint.sessions,
            'disabled': {
                device or self._bmc: {
                    f'{channel:X}': sorted(f'{place.netfn:02X}/{place.command:02X}' for place in places)
                    for channel, places in wall.disabled.items()
                }
                for device, wall in self.firewalls.items()
            },
            'upgrades': {
                device or self._bmc: {
                    'activations': one.activations,
                    'rollbacks': one.rollbacks,
                    'repeated_blocks': one.repeated,
                    'components': {str(number): part.key for number, part in one.parts.items()},
                }
                for device, one in self.upgrades.items()
            },
        }

    # -- the network --------------------------------------------------------------------------------------------------

    async def start(self, host: str = LOOPBACK, port: int = 0) -> None:
        """Serve the LAN, and the system interface on loopback.

        :param port: UDP port of the LAN; 0: a free one.
        :raises OSError: the port is taken.
        """
        self._transport, self.port = await listen(self.wire, host, port, self.options.line)
        self.system_port = await self.door.listen()

    async def stop(self) -> None:
        """Stop serving."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        await self.door.close()


def _storing(around: Around | None, changed: Callable[[], None]) -> Around:
    """Wrap a controller so that the state is stored before each answer."""

    def answered(request: CommandRequest, execute: Callable[[CommandRequest], CommandAnswer]) -> CommandAnswer:
        answer = execute(request) if around is None else around(request, execute)
        changed()
        return answer

    return answered


def _guid(machine: Machine, bmc: str, boards: Mapping[str, EmulatedBoardArea]) -> bytes:
    """A GUID that is the same for the same machine."""
    serial = boards[BMC_BOARD].serial if BMC_BOARD in boards else ''
    return hashlib.sha256(f'{machine.product}/{bmc}/{serial}'.encode()).digest()[:16]

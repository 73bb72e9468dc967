# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The firmware firewall of an emulated controller: which commands it takes through which channel (06/09 to 0D and 06/60 to 64).

A command that is disabled on a channel is refused there with D4h, and a disabled sub-function with D6h, before its privilege
and length are checked. A write that asks for a change that is not possible is refused with 80h and changes nothing; some
controllers have changed a part by then, and some require no qualifier, ignore it, or require one where the standard has none.

Faults of the machine: ``lock-ignored`` (a bit of Set Command Enables stays as it was), ``lock-reports-locked`` (a command reads
as disabled and is executed) and ``lock-lost-on-bmc-reset``; their ``method`` is ``06/60`` or ``06/61``, and ``uri`` the
command, such as ``2C/31``.

Source: IPMI 2.0 revision 1.1, chapter 21, in the layouts of doc/source/reference/ipmi_notes.rst, "Commands of the firmware
firewall".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from baremetal_acc.emulator.ipmi.controller import (
    APP,
    CHASSIS,
    GROUP,
    OEM,
    QUALIFIER_BYTES,
    CommandHandler,
    CommandRefusal,
    CommandRequest,
    ControllerPlace,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.machine import Machine

GET_SUPPORT, GET_SUB_SUPPORT, GET_CONFIGURABLE, GET_SUB_CONFIGURABLE = 0x0A, 0x0B, 0x0C, 0x0D
SET_ENABLES, GET_ENABLES, SET_SUB_ENABLES, GET_SUB_ENABLES, GET_OEM = 0x60, 0x61, 0x62, 0x63, 0x64
NETFN_SUPPORT = 0x09

ALWAYS_ON = frozenset(
    (APP, command)
    for command in (0x01, 0x08, *range(0x09, 0x0E), 0x37, 0x38, 0x3B, 0x3C, 0x54, GET_ENABLES, GET_SUB_ENABLES, GET_OEM)
)
"""Commands that cannot be disabled: those that report the controller and the firewall, and those of a login."""

_MAKERS = range(0x30, 0x40, 2)
_MASK_BYTES = 16
_PER_MASK = 128
_SUB_MASK_BYTES = 4
_CANNOT = 0x80
_SPECIFICATION = bytes((0x00, 0x20, 0x11))
_LAST = 0x80
_RESTRICTED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SubFunctions:
    """The sub-functions of a command.

    :ivar numbers: the existing sub-functions; below 32.
    :ivar of: returns which of them a request uses; None: none of them.
    """

    numbers: frozenset[int]
    of: Callable[[CommandRequest], int | None]


def _byte(place: int, mask: int) -> Callable[[CommandRequest], int | None]:
    return lambda request: request.data[place] & mask if len(request.data) > place else None


USUAL = {
    ControllerPlace(CHASSIS, 0, b'', 0x02): SubFunctions(numbers=frozenset(range(6)), of=_byte(0, 0x0F)),
    ControllerPlace(APP, 0, b'', 0x47): SubFunctions(numbers=frozenset(range(4)), of=_byte(1, 0x03)),
}
"""The sub-functions of Chassis Control and of Set User Password: their operations."""


class EmulatedFirewall:
    """The firewall of one controller.

    :param device: the card of the controller; None: the controller is the BMC itself.
    :param fixed: NetFn and command of the commands that cannot be disabled.
    :param survives_reset: disabled commands stay disabled when the controller restarts.
    :param applies_in_part: a refused write has changed the bits before the one that it is refused for.
    :param needs_qualifier: the body code, or the IANA number, is required; else the first existing one is assumed.
    :param reads_qualifier: False: one table serves all body codes of a NetFn.
    :param makers_qualifier: a qualifier of one or three bytes that is required for NetFns 30h to 3Eh, whose commands have none.
    :ivar disabled: the disabled commands by channel; ``disabled_parts`` the same for sub-functions.
    """

    def __init__(
        self,
        controller: EmulatedController,
        machine: Machine,
        bmc: str,
        device: str | None = None,
        *,
        fixed: Iterable[tuple[int, int]] = ALWAYS_ON,
        sub_functions: Mapping[ControllerPlace, SubFunctions] = USUAL,
        survives_reset: bool = True,
        applies_in_part: bool = False,
        needs_qualifier: bool = True,
        reads_qualifier: bool = True,
        makers_qualifier: bytes = b'',
    ) -> None:
        self._controller = controller
        self._machine = machine
        self._bmc = bmc
        self._device = device
        self.fixed = frozenset(fixed)
        self.sub_functions = sub_functions
        self.survives_reset = survives_reset
        self.applies_in_part = applies_in_part
        self.needs_qualifier = needs_qualifier
        self.reads_qualifier = reads_qualifier
        self.makers_qualifier = makers_qualifier
        self.disabled: dict[int, set[ControllerPlace]] = {channel: set() for channel in controller.channels}
        self.disabled_parts: dict[int, set[tuple[ControllerPlace, int]]] = {channel: set() for channel in controller.channels}

    def join(self) -> None:
        """Register the firewall commands at the controller, and enforce the firewall there."""
        user, administrator = EmulatedPrivilege.USER, EmulatedPrivilege.ADMINISTRATOR
        controller = self._controller
        controller.guards.append(self._refuses)
        controller.on_reset.append(self._restarted)
        support = controller.commands[ControllerPlace(APP, 0, b'', NETFN_SUPPORT)]
        controller.add(APP, NETFN_SUPPORT, lambda request: self._netfn_support(support, request), privilege=user, least=1)

        def add(command: int, serve: Callable[[CommandRequest], bytes], privilege: EmulatedPrivilege, least: int) -> None:
            most = least + max(QUALIFIER_BYTES.values())
            controller.add(APP, command, serve, privilege=privilege, least=least, most=most)

        add(GET_SUPPORT, self._support, user, 3)
        add(GET_SUB_SUPPORT, self._sub_support, user, 4)
        add(GET_CONFIGURABLE, self._configurable, user, 3)
        add(GET_SUB_CONFIGURABLE, self._sub_configurable, user, 4)
        add(SET_ENABLES, self._set_enables, administrator, 3 + _MASK_BYTES)
        add(GET_ENABLES, self._enables, user, 3)
        add(SET_SUB_ENABLES, self._set_sub_enables, administrator, 4 + _SUB_MASK_BYTES)
        add(GET_SUB_ENABLES, self._sub_enables, user, 4)
        controller.add(APP, GET_OEM, self._oem, privilege=user, least=3)

    # -- stored state -------------------------------------------------------------------------------------------------

    def dump(self) -> Any:
        """The disabled commands and sub-functions, by channel, as JSON."""

        def told(place: ControllerPlace) -> list[Any]:
            return [place.netfn, place.lun, place.qualifier.hex(), place.command]

        return {
            'commands': {f'{channel:X}': sorted(map(told, places)) for channel, places in self.disabled.items()},
            'parts': {
                f'{channel:X}': sorted([told(place), number] for place, number in parts)
                for channel, parts in self.disabled_parts.items()
            },
        }

    def load(self, stored: Any) -> None:
        """Restore the stored state.

        :raises ValueError: the stored state is of other channels, or not valid.
        """

        def place(told: Any) -> ControllerPlace:
            netfn, lun, qualifier, command = told
            return ControllerPlace(int(netfn), int(lun), bytes.fromhex(qualifier), int(command))

        commands = {int(channel, 16): set(map(place, told)) for channel, told in stored['commands'].items()}
        parts = {int(c, 16): {(place(one), int(number)) for one, number in told} for c, told in stored['parts'].items()}
        if not set(commands) == set(parts) == set(self.disabled):
            raise ValueError('the stored IPMI firewall is for other channels')
        self.disabled, self.disabled_parts = commands, parts

    # -- enforcement --------------------------------------------------------------------------------------------------

    def _refuses(self, request: CommandRequest) -> int | None:
        place = self._key(ControllerPlace(request.netfn, request.lun, request.qualifier, request.command))
        if place in self.disabled.get(request.channel, ()) and not self._stands_open(place):
            return EmulatedCode.PRIVILEGE
        parts = self.sub_functions.get(place)
        if parts is not None and (place, parts.of(request)) in self.disabled_parts.get(request.channel, ()):
            return EmulatedCode.SUB_FUNCTION
        return None

    def _restarted(self) -> None:
        lost = self._machine.faults.find('lock-lost-on-bmc-reset', bmc=self._bmc, device=self._device, method='06/60')
        if not self.survives_reset or lost is not None:
            for channel in self.disabled:
                self.disabled[channel].clear()
                self.disabled_parts[channel].clear()

    # -- command keys and masks ---------------------------------------------------------------------------------------

    def _key(self, place: ControllerPlace) -> ControllerPlace:
        """The key of a command; one key for all body codes, where the controller ignores them."""
        if self.reads_qualifier or not place.qualifier:
            return place
        return place._replace(qualifier=self._first_qualifier(place.netfn, place.lun))

    def _first_qualifier(self, netfn: int, lun: int) -> bytes:
        return min(
            (place.qualifier for place in self._controller.commands if (place.netfn, place.lun) == (netfn, lun)), default=b''
        )

    def _where(self, netfn: int, lun: int, qualifier: bytes) -> ControllerPlace:
        """The key of a group of commands, by NetFn, LUN and qualifier; its command number is 0.

        :raises Refusal: the qualifier has a wrong length or value, or there are no such commands.
        """
        if self.makers_qualifier and netfn in _MAKERS:
            if len(qualifier) != len(self.makers_qualifier):
                raise CommandRefusal(EmulatedCode.LENGTH_INVALID)
            if qualifier != self.makers_qualifier:
                raise CommandRefusal(EmulatedCode.NOT_PRESENT)
            qualifier = b''
        wanted = QUALIFIER_BYTES.get(netfn, 0)
        if not qualifier and wanted and not self.needs_qualifier:
            qualifier = self._first_qualifier(netfn, lun)
        if len(qualifier) != wanted:
            raise CommandRefusal(EmulatedCode.LENGTH_INVALID)
        where = self._key(ControllerPlace(netfn, lun, qualifier, 0))
        if not any(self._key(place)[:3] == where[:3] for place in self._controller.commands):
            raise CommandRefusal(EmulatedCode.NOT_PRESENT)
        return where

    def _range(self, request: CommandRequest, qualifier: bytes) -> tuple[int, tuple[ControllerPlace, ...]]:
        """The channel, and the 128 commands that the bits of a mask stand for.

        :raises Refusal: the channel, operation, LUN or NetFn does not exist.
        """
        channel = self._controller.channel(request, request.data[0] & 0xF)
        upper, netfn, lun = request.data[1] >> 6, request.data[1] & 0x3F, request.data[2]
        if request.data[0] >> 4 or upper > 1 or netfn & 1 or lun >> 2:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        where = self._where(netfn, lun, qualifier)
        start = upper * _PER_MASK
        return channel, tuple(where._replace(command=number) for number in range(start, start + _PER_MASK))

    def _is_there(self, place: ControllerPlace) -> bool:
        return any(self._key(one) == place for one in self._same(place))

    def _same(self, place: ControllerPlace) -> Iterator[ControllerPlace]:
        """The commands that a key may stand for: the command itself, or those of all body codes."""
        if self.reads_qualifier:
            if place in self._controller.commands:
                yield place
            return
        for one in self._controller.commands:
            if (one.netfn, one.lun, one.command) == (place.netfn, place.lun, place.command):
                yield one

    def _can_change(self, place: ControllerPlace) -> bool:
        return self._is_there(place) and (place.netfn, place.command) not in self.fixed

    def _is_enabled(self, channel: int, place: ControllerPlace) -> bool:
        if not self._is_there(place) or place in self.disabled[channel]:
            return False
        return not self._stands_open(place)

    def _stands_open(self, place: ControllerPlace) -> bool:
        """Whether a fault makes the controller report a command as disabled and execute it."""
        return self._fault('lock-reports-locked', GET_ENABLES, place, use=False)

    def _fault(self, name: str, command: int, place: ControllerPlace, *, use: bool) -> bool:
        rule = self._machine.faults.find(
            name,
            bmc=self._bmc,
            device=self._device,
            uri=f'{place.netfn:02X}/{place.command:02X}',
            method=f'{APP:02X}/{command:02X}',
            use=use,
        )
        return rule is not None

    # -- commands -----------------------------------------------------------------------------------------------------

    def _netfn_support(self, support: CommandHandler, request: CommandRequest) -> bytes:
        """As without a firewall, but each LUN that has commands is reported as possibly restricted."""
        answer = support.serve(request)
        assert isinstance(answer, bytes)  # noqa: S101 it is the controller's own
        luns = sum(_RESTRICTED << 2 * lun for lun in range(4) if answer[0] >> 2 * lun & 3)
        return bytes((luns,)) + answer[1:]

    def _support(self, request: CommandRequest) -> bytes:
        _, places = self._range(request, request.data[3:])
        return _mask(not self._is_there(place) for place in places)

    def _configurable(self, request: CommandRequest) -> bytes:
        _, places = self._range(request, request.data[3:])
        return _mask(self._can_change(place) for place in places)

    def _enables(self, request: CommandRequest) -> bytes:
        channel, places = self._range(request, request.data[3:])
        return _mask(self._is_enabled(channel, place) for place in places)

    def _set_enables(self, request: CommandRequest) -> bytes:
        channel, places = self._range(request, request.data[3 + _MASK_BYTES :])
        bits = int.from_bytes(request.data[3 : 3 + _MASK_BYTES], 'little')
        wanted = {place: bool(bits >> number & 1) for number, place in enumerate(places)}
        wrong = [
            place for place, enable in wanted.items() if not self._can_change(place) and enable is not self._is_there(place)
        ]
        for place, enable in wanted.items():
            if wrong and (place == wrong[0] or not self.applies_in_part):
                raise CommandRefusal(_CANNOT)
            changes = self._can_change(place) and enable is (place in self.disabled[channel])
            if not changes or self._fault('lock-ignored', SET_ENABLES, place, use=True):
                continue
            if enable:
                self.disabled[channel].remove(place)
            else:
                self.disabled[channel].add(place)
        return b''

    # -- sub-functions ------------------------------------------------------------------------------------------------

    def _part(self, request: CommandRequest, qualifier: bytes) -> tuple[int, ControllerPlace, frozenset[int]]:
        """The channel, the command, and the numbers of its sub-functions."""
        channel = self._controller.channel(request, request.data[0] & 0xF)
        netfn, lun, command = request.data[1:4]
        if request.data[0] >> 4 or netfn >> 6 or netfn & 1 or lun >> 2:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        place = self._where(netfn, lun, qualifier)._replace(command=command)
        if not self._is_there(place):
            raise CommandRefusal(EmulatedCode.NOT_PRESENT)
        parts = self.sub_functions.get(place)
        return channel, place, parts.numbers if parts is not None else frozenset()

    def _sub_support(self, request: CommandRequest) -> bytes:
        _, _, numbers = self._part(request, request.data[4:])
        return _SPECIFICATION + _sub_mask(number not in numbers for number in range(_SUB_MASK_BYTES * 8))

    def _sub_configurable(self, request: CommandRequest) -> bytes:
        _, place, numbers = self._part(request, request.data[4:])
        can = self._can_change(place)
        return _sub_mask(can and number in numbers for number in range(_SUB_MASK_BYTES * 8))

    def _sub_enables(self, request: CommandRequest) -> bytes:
        channel, place, numbers = self._part(request, request.data[4:])
        off = {number for one, number in self.disabled_parts[channel] if one == place}
        return _sub_mask(number in numbers - off for number in range(_SUB_MASK_BYTES * 8))

    def _set_sub_enables(self, request: CommandRequest) -> bytes:
        channel, place, numbers = self._part(request, request.data[4:-_SUB_MASK_BYTES])
        bits = int.from_bytes(request.data[-_SUB_MASK_BYTES:], 'little')
        wanted = {number for number in range(_SUB_MASK_BYTES * 8) if bits >> number & 1}
        if wanted - numbers or (not self._can_change(place) and wanted != numbers):
            raise CommandRefusal(_CANNOT)
        kept = {(one, number) for one, number in self.disabled_parts[channel] if one != place}
        self.disabled_parts[channel] = kept | {(place, number) for number in numbers - wanted}
        return b''

    def _oem(self, request: CommandRequest) -> bytes:
        """Get OEM NetFn IANA Support: the qualifiers under 2Ch and 2Eh, one by one, and under 30h to 3Eh.

        For 30h to 3Eh only where the firewall requires a qualifier.
        """
        self._controller.channel(request, request.data[0] & 0xF)
        netfn, index = request.data[1] & 0x3F, request.data[2] & 0x3F
        if netfn in _MAKERS and self.makers_qualifier:
            return self._makers(netfn, index)
        if netfn not in (GROUP, OEM):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        whose = sorted({place.qualifier for place in self._controller.commands if place.netfn == netfn})
        if index >= len(whose):
            raise CommandRefusal(EmulatedCode.OUT_OF_RANGE)
        luns = {place.lun for place in self._controller.commands if (place.netfn, place.qualifier) == (netfn, whose[index])}
        last = _LAST if index == len(whose) - 1 else 0
        return bytes((last, sum(_RESTRICTED << 2 * lun for lun in luns))) + whose[index]

    def _makers(self, netfn: int, index: int) -> bytes:
        luns = {place.lun for place in self._controller.commands if place.netfn == netfn}
        if index or not luns:
            raise CommandRefusal(EmulatedCode.OUT_OF_RANGE)
        return bytes((_LAST, sum(_RESTRICTED << 2 * lun for lun in luns))) + self.makers_qualifier


def _mask(bits: Iterable[bool]) -> bytes:
    return sum(1 << number for number, bit in enumerate(bits) if bit).to_bytes(_MASK_BYTES, 'little')


def _sub_mask(bits: Iterable[bool]) -> bytes:
    return sum(1 << number for number, bit in enumerate(bits) if bit).to_bytes(_SUB_MASK_BYTES, 'little')

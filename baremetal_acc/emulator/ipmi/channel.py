# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The LAN channel of an emulated BMC: channel access, security keys and LAN configuration (06/40, 41 and 56; 0C/01 and 02).

Settings take effect: a disabled channel does not answer, the privilege limits of the channel and of cipher suites bound logins,
and a new K_G changes every login. IPMI 1.5 sessions are not supported, so parameter 2 (authentication type enables) has no
effect.

Source: IPMI 2.0 revision 1.1, sections 22.22, 22.23, 22.25, 23.1 and 23.2.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from baremetal_acc.emulator.ipmi.controller import (
    APP,
    LAN,
    MANY,
    TRANSPORT,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)

KEY_BYTES = 20
SUITE_LIMITS = 24

_ALWAYS, _SHARED = 2, 3
_STORED, _VOLATILE = 1, 2
_NO_SESSIONS, _NO_MODE = 0x82, 0x83
_LOCKED, _UNLOCKED = 1, 2
_READ, _SET, _LOCK = range(3)
_KEY_LOCKED, _KEY_SHORT, _KEY_LONG, _NO_SUCH_KEY = 0x80, 0x81, 0x82, 0x84
_K_G = 1
_NO_PARAMETER, _READ_ONLY = 0x80, 0x82
_REVISION = 0x11
_REVISION_ONLY = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelAccess:
    """Channel access: the access mode with the bits that disable alerts and authentication, and the privilege limit."""

    bits: int = _ALWAYS
    limit: EmulatedPrivilege = EmulatedPrivilege.ADMINISTRATOR


class LanChannel:
    """The state of a LAN channel.

    :param kg: the key K_G of the BMC; empty or all zeros: the user's password is used instead.
    :param suites: cipher suites; each initially allows Administrator privilege.
    :ivar parameters: LAN configuration parameters, by number; those in ``read_only`` cannot be set.
    """

    def __init__(self, kg: bytes = b'', suites: Iterable[int] = ()) -> None:
        if len(kg) > KEY_BYTES:
            raise ValueError(f'K_G must have at most {KEY_BYTES} bytes')
        self.kg = kg
        self.kg_locked = False
        self.suites = tuple(sorted(suites))
        levels = [EmulatedPrivilege.ADMINISTRATOR] * len(self.suites) + [0] * (16 - len(self.suites))
        self.stored = self.now = ChannelAccess()
        self.parameters: dict[int, bytes] = {
            0: b'\0',
            1: b'\0',
            2: bytes(5),
            3: bytes((127, 0, 0, 1)),
            4: b'\1',
            5: bytes((2, 0, 0, 0, 0, 1)),
            6: bytes((255, 0, 0, 0)),
            12: bytes(4),
            13: bytes(6),
            22: bytes((len(self.suites),)),
            23: b'\0' + bytes(self.suites).ljust(16, b'\0'),
            SUITE_LIMITS: b'\0' + bytes(low | high << 4 for low, high in zip(levels[::2], levels[1::2], strict=True)),
        }
        self.read_only = {1, 22, 23}

    @property
    def is_open(self) -> bool:
        """Whether the channel answers."""
        return self.now.bits & 7 in (_ALWAYS, _SHARED)

    @property
    def has_key(self) -> bool:
        """Whether a K_G is set."""
        return any(self.kg)

    def suite_limit(self, suite: int) -> int:
        """The privilege limit of a cipher suite; 0: the suite is disabled."""
        at = self.suites.index(suite)
        return self.parameters[SUITE_LIMITS][1 + at // 2] >> 4 * (at % 2) & 0xF

    def restart(self) -> None:
        """Replace the volatile channel access by the stored one."""
        self.now = self.stored

    def dump(self) -> Any:
        """The stored state, as JSON."""
        return {
            'kg': self.kg.hex(),
            'kg_locked': self.kg_locked,
            'suites': list(self.suites),
            'access': [[access.bits, access.limit] for access in (self.stored, self.now)],
            'parameters': {str(n): data.hex() for n, data in self.parameters.items() if n not in self.read_only},
        }

    def load(self, stored: Any) -> None:
        """Restore the stored state.

        :raises ValueError: the stored state is not valid.
        """
        kg = bytes.fromhex(stored['kg'])
        parameters = {int(number): bytes.fromhex(data) for number, data in stored['parameters'].items()}
        if len(kg) > KEY_BYTES or any(len(data) != len(self.parameters[number]) for number, data in parameters.items()):
            raise ValueError('the stored state of the IPMI LAN channel is not valid')
        if stored.get('suites') != list(self.suites):
            parameters.pop(SUITE_LIMITS, None)  # they were the limits of other suites
        self.stored, self.now = (
            ChannelAccess(bits=int(bits), limit=EmulatedPrivilege(limit)) for bits, limit in stored['access']
        )
        self.kg, self.kg_locked = kg, bool(stored['kg_locked'])
        self.parameters |= parameters

    def join(self, controller: EmulatedController, others: 'Mapping[int, LanChannel] | None' = None) -> None:
        """Register the commands of this channel, and of other channels by their numbers, at a controller."""
        places = {LAN: self} | dict(others or {})
        operator, administrator = EmulatedPrivilege.OPERATOR, EmulatedPrivilege.ADMINISTRATOR

        def of_the_lan(serve: 'Callable[[LanChannel, CommandRequest], bytes]') -> Callable[[CommandRequest], bytes]:
            def served(request: CommandRequest) -> bytes:
                place = places.get(controller.channel(request, request.data[0] & 0xF))
                if place is None:
                    raise CommandRefusal(_NO_SESSIONS)
                return serve(place, request)

            return served

        controller.add(APP, 0x40, of_the_lan(LanChannel._set_access), privilege=administrator, least=3)
        controller.add(APP, 0x41, of_the_lan(LanChannel._get_access), privilege=EmulatedPrivilege.USER, least=2)
        controller.add(APP, 0x56, of_the_lan(LanChannel._key), privilege=administrator, least=3, most=MANY)
        controller.add(TRANSPORT, 0x01, of_the_lan(LanChannel._set_parameter), privilege=administrator, least=3, most=MANY)
        controller.add(TRANSPORT, 0x02, of_the_lan(LanChannel._get_parameter), privilege=operator, least=4)
        controller.on_reset += [place.restart for place in places.values()]

    def _set_access(self, request: CommandRequest) -> bytes:
        _, bits, limit = request.data
        if bits & 7 > _SHARED:
            raise CommandRefusal(_NO_MODE)
        if bits >> 6 == 3 or limit >> 6 == 3 or (limit >> 6 and limit & 0xF not in tuple(EmulatedPrivilege)):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        for way in (_STORED, _VOLATILE):
            access = self._of(way)
            if bits >> 6 == way:
                access = replace(access, bits=bits & 0x3F)
            if limit >> 6 == way:
                access = replace(access, limit=EmulatedPrivilege(limit & 0xF))
            if way == _STORED:
                self.stored = access
            else:
                self.now = access
        return b''

    def _of(self, way: int) -> ChannelAccess:
        return self.stored if way == _STORED else self.now

    def _get_access(self, request: CommandRequest) -> bytes:
        way = request.data[1] >> 6
        if way not in (_STORED, _VOLATILE):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        access = self._of(way)
        return bytes((access.bits, access.limit))

    def _key(self, request: CommandRequest) -> bytes:
        operation, which, key = request.data[1] & 3, request.data[2], request.data[3:]
        if operation > _LOCK:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if which != _K_G:
            raise CommandRefusal(_NO_SUCH_KEY)
        if self.kg_locked and operation != _READ:
            raise CommandRefusal(_KEY_LOCKED)
        if operation == _SET:
            if len(key) != KEY_BYTES:
                raise CommandRefusal(_KEY_SHORT if len(key) < KEY_BYTES else _KEY_LONG)
            self.kg = key
        if operation == _LOCK:
            self.kg_locked = True
        state = bytes((_LOCKED if self.kg_locked else _UNLOCKED,))
        return state + (self.kg.ljust(KEY_BYTES, b'\0') if operation == _READ and not self.kg_locked else b'')

    def _set_parameter(self, request: CommandRequest) -> bytes:
        number, data = request.data[1], request.data[2:]
        kept = self.parameters.get(number)
        if kept is None:
            raise CommandRefusal(_NO_PARAMETER)
        if number in self.read_only:
            raise CommandRefusal(_READ_ONLY)
        if len(data) != len(kept):
            raise CommandRefusal(EmulatedCode.LENGTH_INVALID)
        self.parameters[number] = data
        return b''

    def _get_parameter(self, request: CommandRequest) -> bytes:
        if request.data[0] & _REVISION_ONLY:
            return bytes((_REVISION,))
        kept = self.parameters.get(request.data[1])
        if kept is None:
            raise CommandRefusal(_NO_PARAMETER)
        return bytes((_REVISION,)) + kept

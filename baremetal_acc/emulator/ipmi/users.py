# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The IPMI users of an emulated BMC, with names, passwords and privilege limits, and the commands 06/43 to 06/47.

All interfaces share one table: a tenant who sets a password over the system interface can use it over the LAN.

Source: IPMI 2.0 revision 1.1, sections 22.26 to 22.30.
"""

import hmac
from dataclasses import dataclass, field
from typing import Any

from baremetal_acc.emulator.ipmi.controller import (
    APP,
    LAN,
    SECOND_LAN,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)

CAPACITY = 10
NAME_BYTES = 16
NO_ACCESS = 0xF

_SHORT, _LONG = 16, 20
_DISABLE, _ENABLE, _SET, _TEST = range(4)
_TEST_FAILED, _TEST_SIZE = 0x80, 0x81
_MESSAGING = 0x10
_ACCESS_BITS = 0x70


@dataclass(slots=True, kw_only=True)
class UserTable:
    """One entry of the user table.

    :ivar password: padded with zeros to 16 or 20 bytes; clients can test which of the two it is.
    :ivar access: bits 4 to 6 of Get User Access: call-in, link authentication, messaging.
    :ivar limit: a privilege, or ``NO_ACCESS``.
    :ivar second: the same two values on the second LAN, if there is one.
    """

    name: bytes = b''
    password: bytes = field(default=bytes(_SHORT), repr=False)
    enabled: bool = False
    access: int = 0
    limit: int = NO_ACCESS
    second: tuple[int, int] = (0, NO_ACCESS)


class Users:
    """The users of one BMC, numbered from 1. User 1 has no name, and cannot be given one."""

    def __init__(self) -> None:
        self._users = {number: UserTable() for number in range(1, CAPACITY + 1)}
        self._begun = self._table()

    def put(self, number: int, name: str, password: bytes, privilege: EmulatedPrivilege) -> None:
        """Set a user who can log in.

        :raises ValueError: the number, name or password is outside the limits of IPMI.
        """
        named = name.encode()
        if not 1 < number <= CAPACITY or len(named) > NAME_BYTES or len(password) > _LONG or 0 in named + password:
            raise ValueError(
                f'IPMI user {number}: number 2 to {CAPACITY}, name of at most {NAME_BYTES} bytes, password of at most {_LONG}'
            )
        size = _SHORT if len(password) <= _SHORT else _LONG
        self._users[number] = UserTable(
            name=named, password=password.ljust(size, b'\0'), enabled=True, access=_MESSAGING, limit=privilege
        )

    def find(self, name: bytes) -> UserTable | None:
        """The user who may open sessions under this name, or None."""
        for user in self._users.values():
            if user.name == name and user.enabled and user.access & _MESSAGING and user.limit != NO_ACCESS:
                return user
        return None

    @property
    def has_names(self) -> bool:
        """Whether an enabled user has a name."""
        return any(user.enabled and user.name for user in self._users.values())

    # -- stored state -------------------------------------------------------------------------------------------------

    def _table(self) -> list[list[Any]]:
        return [
            [number, user.name.hex(), user.password.hex(), user.enabled, user.access, user.limit]
            for number, user in self._users.items()
        ]

    def dump(self) -> Any:
        """The table as JSON, and the initial table."""
        second = [[number, *user.second] for number, user in self._users.items()]
        return {'begun': self._begun, 'now': self._table(), 'second': second}

    def load(self, stored: Any) -> None:
        """Restore a table if its initial table is the present one: where other accounts are given now, these count.

        :raises ValueError: the stored table is not valid.
        """
        if stored['begun'] != self._begun:
            return
        users = {}
        for number, name, password, enabled, access, limit in stored['now']:
            user = UserTable(
                name=bytes.fromhex(name), password=bytes.fromhex(password), enabled=bool(enabled), access=access, limit=limit
            )
            known = number in self._users and limit in (*EmulatedPrivilege, NO_ACCESS) and access & ~_ACCESS_BITS == 0
            if not known or len(user.name) > NAME_BYTES or len(user.password) not in (_SHORT, _LONG):
                raise ValueError(f'the stored IPMI user {number} is not valid')
            users[number] = user
        for number, access, limit in stored.get('second', ()):
            if limit not in (*EmulatedPrivilege, NO_ACCESS) or access & ~_ACCESS_BITS:
                raise ValueError(f'the stored IPMI user {number} is not valid')
            users[number].second = access, limit
        self._users |= users

    # -- commands -----------------------------------------------------------------------------------------------------

    def join(self, controller: EmulatedController) -> None:
        """Register the user commands at a controller. The present table becomes the initial one."""
        self._begun = self._table()
        operator, administrator = EmulatedPrivilege.OPERATOR, EmulatedPrivilege.ADMINISTRATOR
        controller.add(
            APP, 0x43, lambda request: self._set_access(controller, request), privilege=administrator, least=3, most=4
        )
        controller.add(APP, 0x44, lambda request: self._get_access(controller, request), privilege=operator, least=2)
        controller.add(APP, 0x45, self._set_name, privilege=administrator, least=1 + NAME_BYTES)
        controller.add(APP, 0x46, self._get_name, privilege=operator, least=1)
        controller.add(APP, 0x47, self._password, privilege=administrator, least=2, most=2 + _LONG)

    def _user(self, number: int) -> UserTable:
        user = self._users.get(number & 0x3F)
        if user is None:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        return user

    def _is_second(self, controller: EmulatedController, request: CommandRequest) -> bool:
        """Whether the request is about the second LAN. Only LANs have users."""
        channel = controller.channel(request, request.data[0] & 0xF)
        if channel not in (LAN, SECOND_LAN):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        return channel == SECOND_LAN

    def _set_access(self, controller: EmulatedController, request: CommandRequest) -> bytes:
        second = self._is_second(controller, request)
        bits, number, limit = request.data[:3]
        user = self._user(number)
        if limit & 0xF not in (*EmulatedPrivilege, NO_ACCESS):
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        access, _ = user.second if second else (user.access, user.limit)
        now = bits & _ACCESS_BITS if bits & 0x80 else access, limit & 0xF
        if second:
            user.second = now
        else:
            user.access, user.limit = now
        return b''

    def _get_access(self, controller: EmulatedController, request: CommandRequest) -> bytes:
        second = self._is_second(controller, request)
        user = self._user(request.data[1])
        access, limit = user.second if second else (user.access, user.limit)
        enabled = sum(one.enabled for one in self._users.values())
        return bytes((CAPACITY, enabled | (0x40 if user.enabled else 0x80), 1, access | limit))

    def _set_name(self, request: CommandRequest) -> bytes:
        if request.data[0] & 0x3F == 1:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        self._user(request.data[0]).name = request.data[1:].rstrip(b'\0')
        return b''

    def _get_name(self, request: CommandRequest) -> bytes:
        return self._user(request.data[0]).name.ljust(NAME_BYTES, b'\0')

    def _password(self, request: CommandRequest) -> bytes:
        number, operation, password = request.data[0], request.data[1] & 3, request.data[2:]
        user = self._user(number)
        size = _LONG if number & 0x80 else _SHORT
        if operation in (_DISABLE, _ENABLE):
            user.enabled = operation == _ENABLE
            return b''
        if len(password) != size:
            raise CommandRefusal(EmulatedCode.LENGTH_INVALID)
        if operation == _SET:
            user.password = password
        elif len(user.password) != size:
            raise CommandRefusal(_TEST_SIZE)
        elif not hmac.compare_digest(user.password, password):
            raise CommandRefusal(_TEST_FAILED)
        return b''

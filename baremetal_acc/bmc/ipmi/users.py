# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which accounts of a BMC may log in over IPMI, and how does one get in without any?

Whoever was root on the host may have made himself one over the system interface, enabled or raised one that was there, or let
everybody in. Passwords cannot be read: that of an account which is expected may be another one than the operator thinks.

Source: IPMI 2.0 revision 1.1, sections 22.27 (Get User Access) and 22.29 (Get User Name).
"""

from baremetal_acc.bmc.ipmi import channels, device
from baremetal_acc.bmc.ipmi.channels import Channel
from baremetal_acc.bmc.ipmi.wire import Code, CommandRefused, NetFn, Raw, ask
from baremetal_acc.errors import BmcError
from baremetal_acc.model.inventory import PRIVILEGES, Accounts, BmcUser

_GET_ACCESS, _GET_NAME = 0x44, 0x46
_ENABLED, _DISABLED = 0x40, 0x80
_NO_ACCESS = 0x0F
_NO_SUCH_NUMBER = frozenset({Code.OUT_OF_RANGE, Code.INVALID_FIELD})
"""Of a number that the BMC counts among those that it could have."""

_NO_NAME = frozenset({Code.OUT_OF_RANGE, Code.NOT_PRESENT, Code.INVALID_FIELD})
"""Of an account that is there: some BMCs have none of these for an empty name (FreeIPMI, ipmi-config)."""

_NAMES = {_NO_ACCESS: PRIVILEGES[0], **dict(enumerate(PRIVILEGES[1:], 1))}


def read(raw: Raw, username: str) -> Accounts:
    """The accounts that may log in, with the most that each may be on any channel. What cannot be read is told, and no error.

    One counts that is enabled, on whatever channel; and of a BMC that does not say so, one that has access on one.

    :param username: with which we have logged in: without that the list is not to be believed.
    :raises BmcError: it can be spoken to no more.
    """
    table = _Table(raw)
    unguarded: list[str] = []
    unread = None
    try:
        there = channels.with_sessions(raw)
        for channel in there:
            table.ask(channel)
        for channel in there:
            unguarded += channels.without_password(raw, channel)
        if username.encode() not in table.names.values():
            unread = f'{username!r}, as which we have logged in, is not among them'
    except BmcError as exc:
        device.check(raw, exc)
        unread = exc.what
    return Accounts(users=table.users, unread=unread, unguarded=tuple(unguarded))


class _Table:
    """Accounts as they are found, channel by channel. Whether one is enabled is the same on all of them, and so is its name.

    :ivar names: of those that may log in, by their numbers.
    """

    def __init__(self, raw: Raw) -> None:
        self.names: dict[int, bytes] = {}
        self._raw = raw
        self._most = 1
        self._left: set[int] = set()
        self._there: set[int] = set()
        self._highest: dict[int, tuple[int, int, Channel]] = {}

    def ask(self, channel: Channel) -> None:
        """What each may be on a channel.

        :raises BmcError: of one that is not known.
        """
        number = 1
        while number <= self._most:
            if number not in self._left:
                self._ask(channel, number)
            number += 1

    def _ask(self, channel: Channel, number: int) -> None:
        what = f'Get User Access of number {number} on {channel}'
        try:
            data = ask(self._raw, NetFn.APP, _GET_ACCESS, bytes([channel.number, number]), what=what, least=4)
        except CommandRefused as exc:
            if number > 1 and number not in self._there and exc.code in _NO_SUCH_NUMBER:
                self._left.add(number)
                return
            raise
        self._most = max(self._most, data[0] & 0x3F)
        self._there.add(number)
        state, privilege = data[1] & 0xC0, data[3] & 0x0F
        if state == _DISABLED:
            self._left.add(number)
        elif state == _ENABLED or privilege not in (0, _NO_ACCESS):
            self._found(channel, number, privilege)

    def _found(self, channel: Channel, number: int, privilege: int) -> None:
        if number not in self.names:
            self.names[number] = self._name(number)
        height = 0 if privilege == _NO_ACCESS else privilege if privilege in _NAMES else _NO_ACCESS
        if number not in self._highest or height > self._highest[number][0]:
            self._highest[number] = height, privilege, channel

    def _name(self, number: int) -> bytes:
        """Without the zeros at its end; none: it is the anonymous one."""
        try:
            data = ask(self._raw, NetFn.APP, _GET_NAME, bytes([number]), what='Get User Name', least=1)
        except CommandRefused as exc:
            if exc.code in _NO_NAME:
                return b''
            raise
        return data[:16].rstrip(b'\0')

    @property
    def users(self) -> tuple[BmcUser, ...]:
        """Those that may log in."""
        return tuple(
            BmcUser(
                number=number,
                name=_text(self.names[number]),
                privilege=_NAMES.get(privilege, f'privilege {privilege:X}h'),
                channel=None if channel.is_ours else channel.known,
            )
            for number, (_, privilege, channel) in sorted(self._highest.items())
        )


def _text(name: bytes) -> str:
    """A name; with what stands behind the zero that ends it, if anything does: such a one only looks like another."""
    return name.replace(b'\0', b'\\0').decode('latin-1')

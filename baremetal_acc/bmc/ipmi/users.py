# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the IPMI user accounts that may log in to a BMC, and the ways to log in without a password.

A tenant who was root on the host may have created an account over the system interface, enabled one or raised its privilege, or
opened the BMC to everybody. Passwords cannot be read: an expected account may have another password than the operator thinks.

Source: IPMI 2.0 revision 1.1, sections 22.27 (Get User Access) and 22.29 (Get User Name).
"""

from baremetal_acc.bmc.ipmi import channels, device
from baremetal_acc.bmc.ipmi.channels import Channel
from baremetal_acc.bmc.ipmi.command import CommandRefused, CompletionCode, NetFn, Raw, ask
from baremetal_acc.errors import BmcError
from baremetal_acc.model.inventory import PRIVILEGES, Accounts, BmcUser

_GET_ACCESS, _GET_NAME = 0x44, 0x46
_ENABLED, _DISABLED = 0x40, 0x80
_NO_ACCESS = 0x0F
_NO_SUCH_NUMBER = frozenset({CompletionCode.OUT_OF_RANGE, CompletionCode.INVALID_FIELD})
"""Completion codes for a user id within the BMC's range that it does not have."""

_NO_NAME = frozenset({CompletionCode.OUT_OF_RANGE, CompletionCode.NOT_PRESENT, CompletionCode.INVALID_FIELD})
"""Completion codes of Get User Name for an account with an empty name, on some BMCs (FreeIPMI, ipmi-config)."""

_NAMES = {_NO_ACCESS: PRIVILEGES[0], **dict(enumerate(PRIVILEGES[1:], 1))}


def read(raw: Raw, username: str) -> Accounts:
    """Read the accounts that may log in, each with its highest privilege on any channel. Failures are reported in ``unread``.

    An account counts if it is enabled on any channel; on a BMC that does not report this, if it has a privilege on any channel.

    :param username: of our session; if it is not in the list, the list cannot be right.
    :raises BmcError: the BMC no longer answers.
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
            unread = f'the user of our own session, {username!r}, is not listed'
    except BmcError as exc:
        device.check(raw, exc)
        unread = exc.what
    return Accounts(users=table.users, unread=unread, unguarded=tuple(unguarded))


class _Table:
    """Accounts that were found, channel by channel. Name and enabled state of an account are the same on all channels.

    :ivar names: names of those that may log in, by user id.
    """

    def __init__(self, raw: Raw) -> None:
        self.names: dict[int, bytes] = {}
        self._raw = raw
        self._most = 1
        self._left: set[int] = set()
        self._there: set[int] = set()
        self._highest: dict[int, tuple[int, int, Channel]] = {}

    def ask(self, channel: Channel) -> None:
        """Read the privilege of each account on a channel.

        :raises BmcError: an account could not be read.
        """
        number = 1
        while number <= self._most:
            if number not in self._left:
                self._ask(channel, number)
            number += 1

    def _ask(self, channel: Channel, number: int) -> None:
        what = f'Get User Access of user id {number} on {channel}'
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
        """The name without padding; empty: the anonymous account."""
        try:
            data = ask(self._raw, NetFn.APP, _GET_NAME, bytes([number]), what='Get User Name', least=1)
        except CommandRefused as exc:
            if exc.code in _NO_NAME:
                return b''
            raise
        return data[:16].rstrip(b'\0')

    @property
    def users(self) -> tuple[BmcUser, ...]:
        """The accounts that may log in."""
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
    """A name for messages, with any bytes after its terminating zero: without them it would look like another name."""
    return name.replace(b'\0', b'\\0').decode('latin-1')

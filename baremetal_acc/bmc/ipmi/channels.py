# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""On which channels of a BMC can somebody log in?

Whoever was root on the host can have set that up over the system interface, on a channel that nobody uses.

Source: IPMI 2.0 revision 1.1, section 22.24 (Get Channel Info), table 6-3.
"""

from dataclasses import dataclass

from baremetal_acc.bmc.ipmi.wire import Code, NetFn, Raw, ask
from baremetal_acc.errors import BmcRefused, BmcUnsupported

_GET_INFO = 0x42
_OURS = 0x0E
_NUMBERS = range(0x1, 0xC)
"""Of channels that the maker of a BMC can give a medium; 0 is the IPMB, and Fh the system interface."""

_MEDIA = frozenset({0x04, 0x05, 0x06})
"""802.3, serial or modem, and another LAN. Source: table 6-3."""

_NO_SUCH_CHANNEL = frozenset({Code.OUT_OF_RANGE, Code.NOT_PRESENT, Code.INVALID_FIELD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One that has sessions.

    :ivar number: by which it is asked for.
    :ivar known: its own number; None: ours, and the BMC does not say which that is.
    """

    number: int = _OURS
    known: int | None = None

    @property
    def is_ours(self) -> bool:
        """What we log in by."""
        return self.number == _OURS

    def __str__(self) -> str:
        return 'our channel' if self.known is None else f'channel {self.known:X}h'


def with_sessions(raw: Raw) -> tuple[Channel, ...]:
    """The channels that somebody can log in by, ours first; ours alone of a BMC that does not tell of channels.

    :raises BmcError: they could not be asked for.
    """
    try:
        own = _info(raw, _OURS)[0] & 0x0F
    except BmcUnsupported:
        return (Channel(),)
    found = [Channel(known=own)]
    for number in _NUMBERS:
        if number == own:
            continue
        try:
            _, medium, _, sessions = _info(raw, number)[:4]
        except BmcRefused as exc:
            if exc.status in _NO_SUCH_CHANNEL:
                continue
            raise
        if medium & 0x7F in _MEDIA or sessions & 0xC0:
            found.append(Channel(number=number, known=number))
    return tuple(found)


def _info(raw: Raw, number: int) -> bytes:
    """Channel, medium, protocol, sessions, and what is of no matter here."""
    return ask(raw, NetFn.APP, _GET_INFO, bytes([number]), what=f'Get Channel Info of channel {number:X}h', least=4)

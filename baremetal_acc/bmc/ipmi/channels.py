# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the IPMI channels of a BMC that accept sessions, and those that accept a login without a password.

A tenant who was root on the host can have configured such a login over the system interface, on a channel that nobody uses.

Source: IPMI 2.0 revision 1.1, sections 22.24 (Get Channel Info) and 23.2 (Get LAN Configuration Parameters), tables 6-3, 22-20
and 23-4.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from baremetal_acc.bmc.ipmi.command import NOT_THERE, CommandRefused, CompletionCode, NetFn, Raw, ask, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcUnsupported
from baremetal_acc.model.inventory import PRIVILEGES

_GET_INFO, _GET_LAN = 0x42, 0x02
_OURS = 0x0E
_NUMBERS = range(0x1, 0xC)
"""Channel numbers that the manufacturer of a BMC assigns to a medium; 0 is the IPMB, and Fh the system interface."""

_LAN = frozenset({0x04, 0x06})
_SERIAL = 0x05
"""Channel medium types: LAN (802.3), other LAN, and serial/modem. Source: table 6-3."""

_NO_SUCH_CHANNEL = frozenset({CompletionCode.OUT_OF_RANGE, CompletionCode.NOT_PRESENT, CompletionCode.INVALID_FIELD})
_NO_SUCH_PARAMETER = (
    frozenset({0x80, CompletionCode.OUT_OF_RANGE, CompletionCode.NOT_PRESENT, CompletionCode.INVALID_FIELD}) | NOT_THERE
)
"""Completion codes of a BMC that does not have a LAN parameter. 80h is the standard one; some BMCs return
the others instead.
"""

_TYPES, _SUITE_COUNT, _SUITES, _SUITE_LIMITS = 2, 22, 23, 24
_TYPE_NONE = 0x01
_WITH_PASSWORD = range(1, 20)
"""Standard cipher suites that authenticate by a key: all but 0. Whether an OEM cipher suite does is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel that supports sessions.

    :ivar number: the number by which the BMC is asked for it.
    :ivar known: its own number; None: it is the channel of our session, and the BMC does not report its number.
    :ivar is_lan: it is configured by LAN configuration parameters.
    """

    number: int = _OURS
    known: int | None = None
    is_lan: bool = True

    @property
    def is_ours(self) -> bool:
        """Whether it is the channel of our session."""
        return self.number == _OURS

    def __str__(self) -> str:
        return 'our channel' if self.known is None else f'channel {self.known:X}h'


def with_sessions(raw: Raw) -> tuple[Channel, ...]:
    """The channels that accept logins, the channel of our session first; only that one if the BMC lacks Get Channel Info.

    :raises BmcError: they could not be read.
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
        except CommandRefused as exc:
            if exc.code in _NO_SUCH_CHANNEL:
                continue
            raise
        is_lan = medium & 0x7F in _LAN
        if is_lan or medium & 0x7F == _SERIAL or sessions & 0xC0:
            found.append(Channel(number=number, known=number, is_lan=is_lan))
    return tuple(found)


def _info(raw: Raw, number: int) -> bytes:
    """Get Channel Info: channel number, medium, protocol, sessions, and further bytes that are not used here."""
    return ask(raw, NetFn.APP, _GET_INFO, bytes([number]), what=f'Get Channel Info of channel {number:X}h', least=4)


def without_password(raw: Raw, channel: Channel) -> Iterator[str]:
    """Each way to log in on a channel without a password, with the setting that closes it.

    What the BMC does not report is taken for absent: such a BMC cannot be configured by that parameter.

    :raises BmcError: a parameter could not be read.
    """
    if not channel.is_lan:
        return
    types = _parameter(raw, channel, _TYPES, 4)
    if types is not None:
        to = [name for name, enabled in zip(PRIVILEGES[1:], types, strict=False) if enabled & _TYPE_NONE]
        if to:
            yield (
                f'{channel} accepts IPMI 1.5 logins without a password (authentication type NONE) as {", ".join(to)}: '
                f'clear bit 0 of each byte of LAN parameter {_TYPES}'
            )
    for suite, limit in _suites(raw, channel):
        if limit and suite not in _WITH_PASSWORD:
            why = 'which requires no password' if suite == 0 else 'which may require no password'
            role = PRIVILEGES[limit] if limit < len(PRIVILEGES) else f'privilege {limit:X}h'
            yield (
                f'{channel} accepts cipher suite {suite}, {why}, up to {role}: set its privilege to 0 in LAN parameter '
                f'{_SUITE_LIMITS}'
            )


def _suites(raw: Raw, channel: Channel) -> Iterator[tuple[int, int]]:
    """Cipher suites, each with its maximum privilege (0: not usable); the highest one where no limits are reported."""
    count = _parameter(raw, channel, _SUITE_COUNT, 1)
    if count is None or not count[0] & 0x1F:
        return
    most = min(count[0] & 0x1F, 16)
    suites = _parameter(raw, channel, _SUITES, 1 + most)
    if suites is None:
        raise BmcAnswerInvalid(
            bmc=raw.label, what=f'{channel} reports the number of its cipher suites ({most}), but not which they are'
        )
    limits = _parameter(raw, channel, _SUITE_LIMITS, 1 + (most + 1) // 2)
    for at, suite in enumerate(suites[1 : 1 + most]):
        yield suite, len(PRIVILEGES) - 1 if limits is None else limits[1 + at // 2] >> 4 * (at % 2) & 0x0F


def _parameter(raw: Raw, channel: Channel, number: int, least: int) -> bytes | None:
    """A LAN configuration parameter, without its revision byte; None: the BMC does not have it.

    :param least: minimum number of bytes of the parameter.
    """
    what = f'LAN parameter {number} of {channel}'
    reply = raw(NetFn.TRANSPORT, _GET_LAN, bytes([channel.number, number, 0, 0]))
    if reply.code in _NO_SUCH_PARAMETER:
        return None
    if not reply.ok:
        raise refusal(raw, what, reply)
    if len(reply.data) <= least:
        raise BmcAnswerInvalid(bmc=raw.label, what=f'{what}: too short (length {len(reply.data)}, minimum {least + 1} bytes)')
    return reply.data[1:]

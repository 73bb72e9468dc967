# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is a controller asked that stands behind another one?

The nearer one is given the whole message by Send Message, with the request to see to its answer. That answer comes

* in the answer to Send Message (carriers of AMCs do so), or
* as a message of its own. A transport that hears such messages hands one on as in the first case: as the data of its answer
  to the Send Message. It is the transport that has to look at the sequence number: some BMCs give back that of the carried
  message, others that of the Send Message, which only the transport knows (OpenIPMI's ipmi_sim 2.0.33 does so). Ours gives both
  the same, and tells it; or
* into a queue of the nearer controller, from which Get Message takes it.

Two levels are a bridge over a bridge. There the answer has to come by the first or the third way.

Source: IPMI 2.0 revision 1.1, sections 6.13, 22.6 (Get Message), 22.7 (Send Message); IPMB 1.0, section 2.11;
facts/ipmi.md, section 4.
"""

import itertools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from baremetal_acc import wait
from baremetal_acc.bmc.ipmi.wire import Code, NetFn, Raw, Reply, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnreachable

BMC = 0x20
"""Address of a BMC, and of whoever sends by it."""

WITHIN = timedelta(seconds=5)
"""How long a controller behind a slow bus may take to answer."""

LONGEST = 25
"""Bytes of data in a request. Source: IPMB 1.0: a message has at most 32 bytes, and seven are not data."""

MOST_STRANGE = 64
"""Messages for others that may lie in the queue before ours."""

_SEND_MESSAGE, _GET_MESSAGE = 0x34, 0x33
_TRACKED = 0x40
_AROUND = 8
"""Bytes of Send Message that are not data of what it carries: the channel, and seven of the message."""

_LOST_ARBITRATION, _BUS_ERROR, _NO_ACKNOWLEDGE = 0x81, 0x82, 0x83
_UNDELIVERED = frozenset({_LOST_ARBITRATION, _BUS_ERROR, _NO_ACKNOWLEDGE, Code.DESTINATION_UNAVAILABLE})
"""Of Send Message: it did not get there. Source: IPMI 2.0 revision 1.1, table 22-10."""

_LATER = frozenset({Code.BUSY, Code.TIMEOUT})
"""Of Send Message: not now. They mean the same to whoever asked."""

_EMPTY = 0x80
"""Of Get Message: there is none. Source: IPMI 2.0 revision 1.1, table 22-9."""

_POLL_FIRST, _POLL_LAST = 0.01, 0.1
"""Seconds between two looks into the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A message to a controller.

    :ivar netfn: without the LUN.
    """

    to: int
    netfn: int
    command: int
    sequence: int
    data: bytes = b''
    lun: int = 0
    sender: int = BMC

    def encode(self) -> bytes:
        """The bytes of it, with both checksums."""
        head = bytes([self.to, self.netfn << 2 | self.lun])
        tail = bytes([self.sender, self.sequence << 2, self.command]) + self.data
        return head + _checksum(head) + tail + _checksum(tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The answer to a :class:`Request`."""

    sender: int
    netfn: int
    command: int
    sequence: int
    code: int
    data: bytes

    def answers(self, request: Request) -> bool:
        """It is the answer to such a one, by its sequence number or another one."""
        return (request.to, request.netfn | 1, request.command) == (self.sender, self.netfn, self.command)


def decode(message: bytes) -> Response:
    """An answer from its bytes.

    :raises ValueError: it is too short, or a checksum is wrong.
    """
    if len(message) < 8:
        raise ValueError(f'it has {len(message)} bytes, and 8 are needed')
    if sum(message[:3]) & 0xFF:
        raise ValueError('the checksum of its header is wrong')
    if sum(message[3:]) & 0xFF:
        raise ValueError('its checksum is wrong')
    return Response(
        sender=message[3],
        netfn=message[1] >> 2,
        command=message[5],
        sequence=message[4] >> 2,
        code=message[6],
        data=message[7:-1],
    )


def _checksum(data: bytes) -> bytes:
    return bytes([-sum(data) & 0xFF])


class Bridge:
    """A :class:`~baremetal_acc.bmc.ipmi.wire.Raw` to a controller behind another one.

    A controller that is absent, or restarts, answers with D3h (destination unavailable), since the bridge could not deliver.

    :param raw: to the nearer controller.
    :param address: of the farther one, in the eight-bit form.
    :param channel: of the nearer one, on which the farther one is.
    """

    def __init__(
        self,
        raw: Raw,
        *,
        address: int,
        channel: int = 0,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = wait.sleep,
    ) -> None:
        self.label = f'{raw.label}, controller {address:02X}h on channel {channel}'
        self.longest = max(0, min(LONGEST, raw.longest - _AROUND))
        self._raw = raw
        self._address = address
        self._channel = channel
        self._now = now
        self._sleep = sleep
        # Another bridge to the same controller may have been used a moment ago: it must not take ours for repetitions.
        self._sequences = itertools.count(secrets.randbelow(64))

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> Reply:
        """Send a command over the bridge and wait for the answer.

        :raises BmcUnreachable: no answer came.
        :raises BmcUnsupported: the nearer controller is no bridge.
        :raises BmcError: it refuses to be one, or what came is no answer.
        """
        if len(data) > self.longest:
            return Reply(Code.LENGTH_EXCEEDED)
        sequence = next(self._sequences) % 64
        request = Request(to=self._address, netfn=netfn, command=command, sequence=sequence, data=data, lun=lun)
        within = WITHIN if within is None else within
        until = self._now() + within.total_seconds()
        carrier = bytes([_TRACKED | self._channel]) + request.encode()
        sent = self._raw(NetFn.APP, _SEND_MESSAGE, carrier, once=once, within=within)
        if sent.code in _UNDELIVERED:
            return Reply(Code.DESTINATION_UNAVAILABLE)
        if sent.code in _LATER:
            return Reply(sent.code)
        if not sent.ok:
            raise refusal(self._raw, f'Send Message to controller {self._address:02X}h on channel {self._channel}', sent)
        if sent.number is not None:
            request = replace(request, sequence=sent.number)
        answer = self._heard(sent.data, request) if sent.data else self._fetched(request, until)
        return Reply(answer.code, answer.data, sent.again)

    def _heard(self, message: bytes, request: Request) -> Response:
        """The answer that came with the answer to Send Message."""
        try:
            answer = decode(message)
        except ValueError as exc:
            raise BmcAnswerInvalid(bmc=self.label, what=f'{_named(request)}: its answer is damaged: {exc}') from exc
        if not answer.answers(request):
            raise BmcAnswerInvalid(bmc=self.label, what=f'{_named(request)}: what came answers something else')
        return answer

    def _fetched(self, request: Request, until: float) -> Response:
        """The answer from the queue. What is not ours, or is damaged, is dropped.

        :raises BmcUnreachable: it was not there in time.
        """
        pause, strange = _POLL_FIRST, 0
        while strange < MOST_STRANGE:
            reply = self._raw(NetFn.APP, _GET_MESSAGE)
            if reply.ok:
                try:
                    # The address of who asked is not in the queue, and the first checksum covers it.
                    answer = decode(bytes([BMC]) + reply.data[1:])
                except ValueError:
                    answer = None
                if answer is not None and self._is_ours(reply.data[0] & 0x0F, answer, request):
                    return answer
                strange += 1
            elif reply.code != _EMPTY:
                raise self._lost(request, refusal(self._raw, 'Get Message', reply))
            if self._now() >= until:
                break
            if not reply.ok:
                self._sleep(pause)
                pause = min(2 * pause, _POLL_LAST)
        raise self._lost(request, None)

    def _is_ours(self, channel: int, answer: Response, request: Request) -> bool:
        """Nobody but us has looked whether a message of the queue is the answer."""
        return channel == self._channel and answer.sequence == request.sequence and answer.answers(request)

    def _lost(self, request: Request, cause: BmcError | None) -> BmcUnreachable:
        why = 'no answer came over the bridge' if cause is None else f'its answer cannot be fetched: {cause.what}'
        return BmcUnreachable(bmc=self.label, what=f'{_named(request)}: {why}')


def _named(request: Request) -> str:
    return f'command {request.netfn:02X}h/{request.command:02X}h'

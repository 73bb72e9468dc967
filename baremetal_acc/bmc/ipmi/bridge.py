# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Bridge IPMI commands to a controller behind another controller, by Send Message and Get Message.

The nearer controller gets the whole message by Send Message, with tracking of the request. The answer comes

* in the response to Send Message (AMC carriers do so), or
* as a message of its own. A transport that receives such messages returns one as in the first case: as the data of its reply to
  the Send Message. The transport has to check the sequence number: some BMCs return that of the carried message, others that of
  the Send Message, which only the transport knows (OpenIPMI's ipmi_sim 2.0.33 does so). Our transport gives both messages the
  same number, and returns it in the reply; or
* in the message queue of the nearer controller, from which Get Message reads it.

Two levels of bridging are a bridge over a bridge. The answer then has to come in the first or the third way.

Source: IPMI 2.0 revision 1.1, sections 6.13, 22.6 (Get Message), 22.7 (Send Message); IPMB 1.0, section 2.11;
doc/source/reference/ipmi_notes.rst, "Cards: locators, FRUs and bridging".
"""

import itertools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from baremetal_acc import wait
from baremetal_acc.bmc.ipmi.command import CommandReply, CompletionCode, NetFn, Raw, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnreachable

BMC = 0x20
"""Slave address of a BMC, and of the software that sends through it."""

WITHIN = timedelta(seconds=5)
"""Timeout for the answer of a controller behind a slow bus."""

LONGEST = 25
"""Maximum bytes of data in a bridged request. Source: IPMB 1.0: a message has at most 32 bytes, and seven are not data."""

MOST_STRANGE = 64
"""Maximum number of foreign messages that are taken from the queue before ours."""

_SEND_MESSAGE, _GET_MESSAGE = 0x34, 0x33
_TRACKED = 0x40
_AROUND = 8
"""Overhead of Send Message: its channel byte, and seven bytes of the carried message."""

_LOST_ARBITRATION, _BUS_ERROR, _NO_ACKNOWLEDGE = 0x81, 0x82, 0x83
_UNDELIVERED = frozenset({_LOST_ARBITRATION, _BUS_ERROR, _NO_ACKNOWLEDGE, CompletionCode.DESTINATION_UNAVAILABLE})
"""Completion codes of Send Message: the message was not delivered. Source: IPMI 2.0 revision 1.1, table 22-10."""

_LATER = frozenset({CompletionCode.BUSY, CompletionCode.TIMEOUT})
"""Completion codes of Send Message that mean "retry later"; the caller gets them as the answer of the controller."""

_EMPTY = 0x80
"""Completion code of Get Message: the queue is empty. Source: IPMI 2.0 revision 1.1, table 22-9."""

_POLL_FIRST, _POLL_LAST = 0.01, 0.1
"""First and longest pause, in seconds, between two polls of the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgedRequest:
    """An IPMB request to a controller.

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
        """The bytes of the message, with both checksums."""
        head = bytes([self.to, self.netfn << 2 | self.lun])
        tail = bytes([self.sender, self.sequence << 2, self.command]) + self.data
        return head + _checksum(head) + tail + _checksum(tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgedResponse:
    """The answer to a :class:`BridgedRequest`."""

    sender: int
    netfn: int
    command: int
    sequence: int
    code: int
    data: bytes

    def answers(self, request: BridgedRequest) -> bool:
        """Whether this is a response to that request, whatever its sequence number."""
        return (request.to, request.netfn | 1, request.command) == (self.sender, self.netfn, self.command)


def decode(message: bytes) -> BridgedResponse:
    """Decode an IPMB response.

    :raises ValueError: it is too short, or a checksum is wrong.
    """
    if len(message) < 8:
        raise ValueError(f'too short (length {len(message)}, minimum 8 bytes)')
    if sum(message[:3]) & 0xFF:
        raise ValueError('header checksum is wrong')
    if sum(message[3:]) & 0xFF:
        raise ValueError('checksum is wrong')
    return BridgedResponse(
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
    """A :class:`~baremetal_acc.bmc.ipmi.command.Raw` to a controller behind another controller.

    For a controller that is absent, or that restarts, the reply has code D3h (destination unavailable), since the nearer
    controller could not deliver the message.

    :param raw: to the nearer controller.
    :param address: slave address of the farther controller, in the eight-bit form.
    :param channel: channel of the nearer controller on which the farther one is.
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
        # Another bridge to the same controller may just have been used: our requests must not look like its retransmissions.
        self._sequences = itertools.count(secrets.randbelow(64))

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command over the bridge and wait for the answer.

        :raises BmcUnreachable: no answer came.
        :raises BmcUnsupported: the nearer controller has no Send Message.
        :raises BmcError: the nearer controller refuses Send Message, or the answer is invalid.
        """
        if len(data) > self.longest:
            return CommandReply(CompletionCode.LENGTH_EXCEEDED)
        sequence = next(self._sequences) % 64
        request = BridgedRequest(to=self._address, netfn=netfn, command=command, sequence=sequence, data=data, lun=lun)
        within = WITHIN if within is None else within
        until = self._now() + within.total_seconds()
        carrier = bytes([_TRACKED | self._channel]) + request.encode()
        sent = self._raw(NetFn.APP, _SEND_MESSAGE, carrier, once=once, within=within)
        if sent.code in _UNDELIVERED:
            return CommandReply(CompletionCode.DESTINATION_UNAVAILABLE)
        if sent.code in _LATER:
            return CommandReply(sent.code)
        if not sent.ok:
            raise refusal(self._raw, f'Send Message to controller {self._address:02X}h on channel {self._channel}', sent)
        if sent.number is not None:
            request = replace(request, sequence=sent.number)
        answer = self._heard(sent.data, request) if sent.data else self._fetched(request, until)
        return CommandReply(answer.code, answer.data, sent.again)

    def _heard(self, message: bytes, request: BridgedRequest) -> BridgedResponse:
        """Decode the answer that came in the response to Send Message."""
        try:
            answer = decode(message)
        except ValueError as exc:
            raise BmcAnswerInvalid(bmc=self.label, what=f'{_named(request)}: the answer is damaged: {exc}') from exc
        if not answer.answers(request):
            raise BmcAnswerInvalid(bmc=self.label, what=f'{_named(request)}: the answer is for another command')
        return answer

    def _fetched(self, request: BridgedRequest, until: float) -> BridgedResponse:
        """Poll the message queue for the answer. Damaged messages, and those for others, are dropped.

        :raises BmcUnreachable: the answer did not come in time.
        """
        pause, strange = _POLL_FIRST, 0
        while strange < MOST_STRANGE:
            reply = self._raw(NetFn.APP, _GET_MESSAGE)
            if reply.ok:
                try:
                    # The queue leaves out the requester's address, which the first checksum covers.
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

    def _is_ours(self, channel: int, answer: BridgedResponse, request: BridgedRequest) -> bool:
        """Whether a message from the queue is the answer. Here nothing below the bridge has compared the sequence number."""
        return channel == self._channel and answer.sequence == request.sequence and answer.answers(request)

    def _lost(self, request: BridgedRequest, cause: BmcError | None) -> BmcUnreachable:
        why = 'no answer came over the bridge' if cause is None else f'the answer could not be fetched: {cause.what}'
        return BmcUnreachable(bmc=self.label, what=f'{_named(request)}: {why}')


def _named(request: BridgedRequest) -> str:
    return f'command {request.netfn:02X}h/{request.command:02X}h'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Faults of the IPMI datagrams of one emulated BMC: lost datagrams and malformed answers.

Faults of the machine: ``ipmi-lost``, and ``ipmi-malformed`` with ``how``, one of :data:`MALFORMED`. Their ``method`` is
``login`` for the messages before a session and those that open it, ``session`` for messages in a session. With
``password-rotated`` the BMC proves another password than before, and ends its sessions. With ``slow`` answers before a session
wait, too; commands in a session are delayed where they are executed.
"""

import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace

from baremetal_acc.emulator.ipmi.message import Message, late, lateness
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.machine import Machine

FLOOD = 2000
"""The number of garbage datagrams that replace one answer."""

_FAULTS = ('ipmi-lost', 'ipmi-malformed', 'password-rotated', 'slow')
_RMCP_BYTES, _HEAD_BYTES = 4, 16
_KIND, _SESSION, _SIZE = 5, slice(6, 10), slice(14, 16)
_IN_SESSION, _RAKP2 = 0xC0, 0x13
_BEFORE_PROOF, _SHA1_BYTES = 40, 20

Malformed = Callable[[bytes], list[bytes]]


def _is_proof(answer: bytes) -> bool:
    """Whether the answer is RAKP 2, in which the BMC proves that it knows the password."""
    return answer[_KIND] == _RAKP2


def _integrity(answer: bytes) -> list[bytes]:
    return [answer[:-1] + bytes((answer[-1] ^ 1,))]


def _truncated(answer: bytes) -> list[bytes]:
    return [answer[:count] for count in range(len(answer))]


def _lengths(answer: bytes) -> list[bytes]:
    sizes = (0, 1, 15, 17, 0xFFFF)
    return [answer[: _SIZE.start] + struct.pack('<H', size) + answer[_SIZE.stop :] for size in sizes]


def _sha1(answer: bytes) -> list[bytes]:
    """RAKP 2 with a proof of the length of SHA-1; any other answer unchanged."""
    if not _is_proof(answer):
        return [answer]
    size = _BEFORE_PROOF + _SHA1_BYTES
    return [answer[: _SIZE.start] + struct.pack('<H', size) + answer[_HEAD_BYTES : _HEAD_BYTES + size]]


def _session(answer: bytes) -> list[bytes]:
    return [answer[: _SESSION.start] + b'\1\2\3\4' + answer[_SESSION.stop :]]


def _plain(answer: bytes) -> list[bytes]:
    """A message that is neither encrypted nor authenticated."""
    message = bytes((0x81, 0x1C, 0x63, 0x20, 0x04, 0x01, 0x00, 0xDB))
    head = answer[:_KIND] + b'\0' + answer[_SESSION.start : _SIZE.start]
    return [head + struct.pack('<H', len(message)) + message]


def _huge(answer: bytes) -> list[bytes]:
    return [answer + bytes(60_000)]


def _garbage(answer: bytes) -> list[bytes]:
    chance = random.Random(len(answer))  # noqa: S311 no secret
    return [answer[:_RMCP_BYTES] + chance.randbytes(chance.randrange(1, 80)) for _ in range(FLOOD)]


def _as_it_was(answer: bytes) -> list[bytes]:
    return [answer]


MALFORMED: Mapping[str, Malformed] = {
    'integrity': _integrity,
    'truncated': _truncated,
    'lengths': _lengths,
    'sha1': _sha1,
    'session': _session,
    'plain': _plain,
    'huge': _huge,
    'garbage': _garbage,
    'sequence': _as_it_was,
}
"""Functions that malform an answer, by ``how``. With ``sequence`` the answer is well formed, and answers another request."""


class EmulatedWire:
    """Applies the datagram faults between the network and the LAN side of one BMC."""

    def __init__(self, endpoint: SessionEndpoint, machine: Machine, bmc: str) -> None:
        self._endpoint = endpoint
        self._machine = machine
        self._bmc = bmc
        self._chances: dict[int, random.Random] = {}
        endpoint.said = self._said

    def receive(self, datagram: bytes) -> list[bytes]:
        """The answers to a datagram."""
        faults = self._machine.faults
        if not any(map(faults.any, _FAULTS)):
            return self._endpoint.receive(datagram)
        method = 'session' if datagram[_KIND : _KIND + 1] == bytes((_IN_SESSION,)) else 'login'
        if self._is_lost(method):
            return []
        is_rotated = faults.find('password-rotated', bmc=self._bmc, method=method) is not None
        if is_rotated:
            self._endpoint.forget_sessions()
        answers = [answer for answer in self._endpoint.receive(datagram) if not self._is_lost(method)]
        if is_rotated:
            answers = [bad for answer in answers for bad in (_integrity(answer) if _is_proof(answer) else [answer])]
        rule = faults.find('ipmi-malformed', bmc=self._bmc, method=method) if answers else None
        if rule is not None:
            spoil = MALFORMED[rule.parameters['how']]
            answers = [late(bad, lateness(answer)) for answer in answers for bad in spoil(answer)]
        if method == 'login' and answers and not any(map(lateness, answers)):
            slow = faults.find('slow', bmc=self._bmc, method=method)
            answers = answers if slow is None else [late(answer, float(slow.parameters['seconds'])) for answer in answers]
        return answers

    def _is_lost(self, method: str) -> bool:
        rule = self._machine.faults.find('ipmi-lost', bmc=self._bmc, method=method, use=False)
        if rule is None:
            return False
        chance = self._chances.setdefault(rule.id, random.Random(int(rule.parameters['seed'])))  # noqa: S311 no secret
        if chance.random() >= float(rule.parameters['share']):
            return False
        return self._machine.faults.find('ipmi-lost', bmc=self._bmc, method=method) is not None

    def _said(self, message: Message) -> Message:
        """Apply the fault to a message of a session, before it is encrypted."""
        rule = self._machine.faults.find('ipmi-malformed', bmc=self._bmc, method='session', use=False)
        if rule is None or rule.parameters['how'] != 'sequence':
            return message
        return replace(message, sequence=(message.sequence + 1) % 64)

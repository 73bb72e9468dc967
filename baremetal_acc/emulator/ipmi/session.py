# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""RMCP, ASF ping and RMCP+ sessions of an emulated BMC: from a datagram that it receives to the datagrams that it answers.

This module has no sockets. Of IPMI 1.5 it answers only the first request of a client: Get Channel Authentication Capabilities.
A datagram that is not valid (checksum, integrity code, sequence number, unknown session) is not answered.

Source: IPMI 2.0 revision 1.1, sections 6.12, 13 and 22.13 to 22.20; ASF 2.0, section 3.2.
"""

import hmac
import secrets
import struct
from collections import OrderedDict
from collections.abc import Callable

from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.ipmi.channel import LanChannel
from baremetal_acc.emulator.ipmi.cipher_suites import SUITES, decrypt_payload, encrypt_payload
from baremetal_acc.emulator.ipmi.controller import (
    APP,
    IPMB,
    LAN,
    PRESENT,
    SECOND_LAN,
    SYSTEM,
    CommandRefusal,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
    Reach,
)
from baremetal_acc.emulator.ipmi.message import BMC, Message, late
from baremetal_acc.emulator.ipmi.session_state import AnsweredRequest, OpenSession, SessionHandshake
from baremetal_acc.emulator.ipmi.users import NAME_BYTES, Users, UserTable

_RMCP = bytes((6, 0, 0xFF))
_ASF, _IPMI = 6, 7
_ASF_IANA = bytes((0, 0, 0x11, 0xBE))
_PING, _PONG = 0x80, 0x40

_NONE, _RMCP_PLUS = 0x00, 0x06
_ENCRYPTED, _AUTHENTICATED = 0x80, 0x40
_NEXT_HEADER = 7

_MESSAGE, _OPEN, _OPENED, _RAKP1, _RAKP2, _RAKP3, _RAKP4 = 0x00, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15

_OK, _NO_RESOURCES, _UNKNOWN_SESSION, _NO_SUITE = 0x00, 0x01, 0x02, 0x11
_NO_ROLE, _NO_PRIVILEGE, _NAME_LENGTH, _NO_USER, _BAD_CHECK = 0x09, 0x0A, 0x0C, 0x0D, 0x0F
"""Status codes of RMCP+. Source: table 13-15."""

_MEDIA = {IPMB: (0x01, 0x01), LAN: (0x04, 0x01), SECOND_LAN: (0x04, 0x01), SYSTEM: (0x0C, 0x05)}
"""Medium and protocol of the channels: I2C and IPMB, 802.3 and IPMB, system interface and KCS. Source: tables 6-2 and 6-3."""

_IPMI_FORUM = (7154).to_bytes(3, 'little')

_BEFORE_A_SESSION = {(APP, 0x37), (APP, 0x38), (APP, 0x54)}

_HEAD = 16
_ADMINISTRATOR_ANYWHERE = 0x0F
_ROLE = 0x0F
_KEY_BYTES = 20
"""Length of the constants of K1 and K2, with every suite. Source: section 13.32."""

SESSIONS = 16
HANDSHAKES = 32
HANDSHAKE_SECONDS = 60.0
DUPLICATES = 4
"""The number of requests whose answers are kept: rqSeq has six bits, and is soon used for another request."""

DUPLICATE_SECONDS = 5.0

_UNTAGGED = {_OPENED: 36, _RAKP2: 40, _RAKP4: 8}
"""Lengths of untagged refusals, by message type: all zeros but the status, as OpenBMC's phosphor-net-ipmid sends them."""


class SessionEndpoint:
    """The LAN side of one BMC.

    :param suites: cipher suites that it accepts, the preferred one first.
    :param kg: the key K_G of the BMC; empty: the user's password is used instead.
    :param idle_seconds: an unused session ends after this time.
    :param reset_seconds: how long it is silent after a restart command; sessions do not survive a restart.
    :param tags_refusals: a refusal in a handshake has the message tag and the session id of the console; else zeros.
    :ivar said: transforms a message of a session before it is encrypted.
    :ivar second: another LAN channel, if the controller has one. Nothing listens there: it can only be configured and read.
    """

    def __init__(
        self,
        controller: EmulatedController,
        users: Users,
        *,
        clock: EmulatedClock | None = None,
        suites: tuple[int, ...] = (17, 3),
        kg: bytes = b'',
        idle_seconds: float = 60.0,
        reset_seconds: float = 0.5,
        tags_refusals: bool = True,
    ) -> None:
        self.controller = controller
        self.users = users
        self.suites = tuple(SUITES[number] for number in suites)
        self.channel = LanChannel(kg, suites)
        self.second = LanChannel(kg, suites) if SECOND_LAN in controller.channels else None
        self.channel.join(controller, {} if self.second is None else {SECOND_LAN: self.second})
        self.idle_seconds = idle_seconds
        self.reset_seconds = reset_seconds
        self.tags_refusals = tags_refusals
        self.said: Callable[[Message], Message] = lambda message: message
        self._clock = clock or EmulatedClock()
        self._handshakes: OrderedDict[int, SessionHandshake] = OrderedDict()
        self._active: dict[int, OpenSession] = {}
        self._silent_until = 0.0
        self._serve: dict[int, Callable[[bytes], tuple[int, bytes] | None]] = {
            _OPEN: self._open,
            _RAKP1: self._rakp1,
            _RAKP3: self._rakp3,
        }
        controller.on_reset.append(self._restart)
        controller.add(APP, 0x38, self._capabilities, privilege=EmulatedPrivilege.CALLBACK, least=2)
        controller.add(APP, 0x3B, self._set_privilege, privilege=EmulatedPrivilege.CALLBACK, least=1)
        controller.add(APP, 0x3C, self._close, privilege=EmulatedPrivilege.CALLBACK, least=4, most=5)
        controller.add(APP, 0x42, self._channel_info, privilege=EmulatedPrivilege.USER, least=1)
        controller.add(APP, 0x54, self._cipher_suites, privilege=EmulatedPrivilege.CALLBACK, least=3)

    @property
    def sessions(self) -> int:
        """The number of open sessions."""
        self._expire()
        return len(self._active)

    def close(self, session_id: int) -> bool:
        """End a session; False when there is no session of that id."""
        return self._active.pop(session_id, None) is not None

    def forget_sessions(self) -> None:
        """Drop all sessions without an answer."""
        self._active.clear()

    def receive(self, datagram: bytes) -> list[bytes]:
        """The answers to a datagram; mostly one, none where the BMC stays silent."""
        if not self.channel.is_open or self._clock.now() < self._silent_until or len(datagram) < 4 or datagram[:3] != _RMCP:
            return []
        if self.controller.is_away:
            return []
        self._expire()
        kind, rest = datagram[3], datagram[4:]
        if kind == _ASF:
            return _pong(rest)
        if kind != _IPMI or not rest:
            return []
        if rest[0] == _NONE:
            return self._before(rest)
        return self._plus(rest) if rest[0] == _RMCP_PLUS else []

    def _expire(self) -> None:
        now = self._clock.now()
        for number in [number for number, one in self._active.items() if now - one.used >= self.idle_seconds]:
            del self._active[number]
        for number in [number for number, one in self._handshakes.items() if now - one.since >= HANDSHAKE_SECONDS]:
            del self._handshakes[number]

    def _restart(self) -> None:
        self._active.clear()
        self._handshakes.clear()
        self._silent_until = self._clock.now() + self.reset_seconds

    # -- packets ------------------------------------------------------------------------------------------------------

    def _before(self, packet: bytes) -> list[bytes]:
        """Answer a packet of IPMI 1.5 without a session."""
        if len(packet) < 10 or any(packet[1:9]) or len(packet) - 10 < packet[9]:
            return []
        answers, seconds = self._sessionless(packet[10 : 10 + packet[9]])
        head = _RMCP + bytes((_IPMI, _NONE)) + bytes(8)
        return [late(head + bytes((len(one),)) + one, seconds) for one in answers]

    def _plus(self, packet: bytes) -> list[bytes]:
        if len(packet) < 12:
            return []
        _, kind, number, sequence, size = struct.unpack_from('<BBIIH', packet)
        if len(packet) - 12 < size:
            return []
        payload = packet[12 : 12 + size]
        if number:
            return self._inside(packet, kind, number, sequence, payload)
        if kind == _MESSAGE:
            answers, seconds = self._sessionless(payload)
            return [late(_plain(_MESSAGE, one), seconds) for one in answers]
        serve = self._serve.get(kind)
        answered = serve(payload) if serve is not None else None
        if answered is None:
            return []
        said, message = answered
        if message[1] and not self.tags_refusals:
            message = bytes((0, message[1])).ljust(_UNTAGGED[said], b'\0')
        return [_plain(said, message)]

    def _sessionless(self, raw: bytes) -> tuple[list[bytes], float]:
        """The answers to a message outside of sessions, and how many seconds they wait."""
        message = Message.parse(raw)
        if message is None or (message.netfn, message.command) not in _BEFORE_A_SESSION or message.to != BMC:
            return [], 0.0
        answer = self.controller.answer(
            CommandRequest(channel=LAN, netfn=message.netfn, command=message.command, data=message.data, lun=message.to_lun)
        )
        return [message.response(answer.wire).encoded()] if answer.reach is Reach.ANSWERED else [], answer.late

    def _inside(self, packet: bytes, kind: int, number: int, sequence: int, payload: bytes) -> list[bytes]:
        active = self._active.get(number)
        if active is None or kind != _ENCRYPTED | _AUTHENTICATED | _MESSAGE:
            return []
        suite = active.handshake.suite
        checked, check = packet[: -suite.check_bytes], packet[-suite.check_bytes :]
        if not hmac.compare_digest(suite.mac(active.k1, checked)[: suite.check_bytes], check):
            return []
        padding = checked[12 + len(payload) :]
        if (
            len(padding) < 2
            or len(checked) % 4
            or padding != b'\xff' * (len(padding) - 2) + bytes((len(padding) - 2, _NEXT_HEADER))
        ):
            return []
        plain = decrypt_payload(active.k2, payload)
        message = Message.parse(plain) if plain is not None else None
        if message is None or message.netfn & 1 or message.to != BMC or not active.takes(sequence):
            return []
        active.used = self._clock.now()
        answers, seconds = self._answers(active, message)
        return [late(self._wrapped(active, answer), seconds) for answer in answers]

    def _answers(self, active: OpenSession, message: Message) -> tuple[tuple[Message, ...], float]:
        """The answers to a request, and how many seconds they wait.

        One of the last requests that is repeated gets its answers again. While they still wait, the repetition gets them at the
        same time: it does not make an answer come sooner.
        """
        now = self._clock.now()
        done = active.done.get(message.sequence)
        if done is not None and done.request == message and now - done.at < DUPLICATE_SECONDS:
            return done.answers, max(0.0, done.at - now)
        answer = self.controller.answer(
            CommandRequest(
                channel=LAN,
                netfn=message.netfn,
                command=message.command,
                data=message.data,
                lun=message.to_lun,
                privilege=active.privilege,
                session=active,
            )
        )
        if answer.reach is Reach.UNHEARD:
            return (), 0.0
        answers: tuple[Message, ...] = (message.response(answer.wire),)
        if answer.then is not None:
            further = answer.then
            answers += (
                Message(
                    to=message.sender,
                    to_lun=message.sender_lun,
                    netfn=further.netfn,
                    sender=further.sender,
                    sender_lun=further.sender_lun,
                    sequence=further.sequence,
                    command=further.command,
                    data=further.data,
                ),
            )
        active.done.pop(message.sequence, None)
        active.done[message.sequence] = AnsweredRequest(message, now + answer.late, answers)
        if len(active.done) > DUPLICATES:
            active.done.popitem(last=False)
        return answers if answer.reach is Reach.ANSWERED else (), answer.late

    def _wrapped(self, active: OpenSession, message: Message) -> bytes:
        active.sent += 1
        payload = encrypt_payload(active.k2, self.said(message).encoded())
        head = struct.pack(
            '<BB4sIH', _RMCP_PLUS, _ENCRYPTED | _AUTHENTICATED, active.handshake.console, active.sent, len(payload)
        )
        pad = -(len(head) + len(payload) + 2) % 4
        checked = head + payload + b'\xff' * pad + bytes((pad, _NEXT_HEADER))
        suite = active.handshake.suite
        return _RMCP + bytes((_IPMI,)) + checked + suite.mac(active.k1, checked)[: suite.check_bytes]

    # -- RMCP+ handshake ----------------------------------------------------------------------------------------------

    def _number(self) -> int:
        while True:
            number = secrets.randbits(32)
            if number and number not in self._active and number not in self._handshakes:
                return number

    def _open(self, payload: bytes) -> tuple[int, bytes] | None:
        if len(payload) != 32:
            return None
        tag, role, console = payload[0], payload[1] & _ROLE, payload[4:8]
        for handshake in self._handshakes.values():
            if handshake.asked == payload:
                return _OPENED, handshake.answered
        wanted = payload[12], payload[20], payload[28]
        suite = next((suite for suite in self.suites if suite.algorithms == wanted), None)
        if suite is None:
            return _OPENED, bytes((tag, _NO_SUITE, 0, 0)) + console
        if role > EmulatedPrivilege.OEM:
            return _OPENED, bytes((tag, _NO_ROLE, 0, 0)) + console
        if len(self._active) >= SESSIONS:
            return _OPENED, bytes((tag, _NO_RESOURCES, 0, 0)) + console
        most = self.channel.suite_limit(suite.number)
        if not most:
            return _OPENED, bytes((tag, _NO_SUITE, 0, 0)) + console
        limit = EmulatedPrivilege(min(role or EmulatedPrivilege.ADMINISTRATOR, most, EmulatedPrivilege.OEM))
        handshake = SessionHandshake(id=self._number(), console=console, suite=suite, limit=limit, since=self._clock.now())
        handshake.asked = payload
        handshake.answered = bytes((tag, _OK, limit, 0)) + console + handshake.id.to_bytes(4, 'little') + payload[8:32]
        self._handshakes[handshake.id] = handshake
        if len(self._handshakes) > HANDSHAKES:
            self._handshakes.popitem(last=False)
        return _OPENED, handshake.answered

    def _rakp1(self, payload: bytes) -> tuple[int, bytes] | None:
        if len(payload) < 28 or len(payload) != 28 + payload[27]:
            return None
        tag, number, role, name = payload[0], int.from_bytes(payload[4:8], 'little'), payload[24], payload[28:]
        handshake = self._handshakes.get(number)
        if handshake is None:
            return _RAKP2, bytes((tag, _UNKNOWN_SESSION, 0, 0)) + bytes(4)
        if handshake.asked == payload:
            return _RAKP2, handshake.answered
        user = self.users.find(name)
        refused = _refused(name, user, role & _ROLE, min(handshake.limit, self.channel.now.limit))
        if user is None or refused:
            del self._handshakes[number]
            return _RAKP2, bytes((tag, refused, 0, 0)) + handshake.console
        handshake.user = user
        handshake.role = EmulatedPrivilege(role & _ROLE or EmulatedPrivilege.ADMINISTRATOR)
        handshake.first = payload[8:24]
        handshake.second = secrets.token_bytes(_HEAD)
        handshake.tail = bytes((role, len(name))) + name
        ids = handshake.console + payload[4:8]
        proof = ids + handshake.first + handshake.second + self.controller.guid + handshake.tail
        handshake.asked = payload
        handshake.answered = (
            bytes((tag, _OK, 0, 0))
            + handshake.console
            + handshake.second
            + self.controller.guid
            + handshake.suite.mac(user.password, proof)
        )
        return _RAKP2, handshake.answered

    def _rakp3(self, payload: bytes) -> tuple[int, bytes] | None:
        if len(payload) < 8:
            return None
        tag, status, number = payload[0], payload[1], int.from_bytes(payload[4:8], 'little')
        opened = self._active.get(number)
        if opened is not None:
            return (_RAKP4, opened.handshake.answered) if opened.handshake.asked == payload else None
        handshake = self._handshakes.pop(number, None)
        if status:
            return None
        if handshake is None or handshake.user is None:
            return _RAKP4, bytes((tag, _UNKNOWN_SESSION, 0, 0)) + (handshake.console if handshake is not None else bytes(4))
        suite, user, tail = handshake.suite, handshake.user, handshake.tail
        proof = suite.mac(user.password, handshake.second + handshake.console + tail)
        if not hmac.compare_digest(proof, payload[8:]):
            return _RAKP4, bytes((tag, _BAD_CHECK, 0, 0)) + handshake.console
        key = suite.mac(self.channel.kg if self.channel.has_key else user.password, handshake.first + handshake.second + tail)
        limit = min(handshake.role, handshake.limit)
        self._active[number] = OpenSession(
            handshake=handshake,
            end=self.close,
            k1=suite.mac(key, b'\1' * _KEY_BYTES),
            k2=suite.mac(key, b'\2' * _KEY_BYTES)[:16],
            user=user,
            limit=limit,
            privilege=min(limit, EmulatedPrivilege.USER),
            used=self._clock.now(),
        )
        check = suite.mac(key, handshake.first + payload[4:8] + self.controller.guid)[: suite.check_bytes]
        handshake.asked = payload
        handshake.answered = bytes((tag, _OK, 0, 0)) + handshake.console + check
        return _RAKP4, handshake.answered

    # -- session commands ---------------------------------------------------------------------------------------------

    def _capabilities(self, request: CommandRequest) -> bytes:
        channel = self.controller.channel(request, request.data[0] & 0xF)
        if channel != LAN or not EmulatedPrivilege.CALLBACK <= request.data[1] & 0xF <= EmulatedPrivilege.OEM:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        extended = bool(request.data[0] & 0x80)
        status = 0x04 if self.users.has_names else 0
        version = (0x80, 0x02) if extended else (0, 0)
        return bytes((channel, version[0], status | (0x20 if self.channel.has_key else 0), version[1])) + bytes(4)

    def _set_privilege(self, request: CommandRequest) -> bytes:
        session, wanted = request.session, request.data[0] & 0xF
        if session is None:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        if wanted > EmulatedPrivilege.OEM:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        if wanted == EmulatedPrivilege.CALLBACK:
            raise CommandRefusal(0x80)
        if wanted > session.limit:
            raise CommandRefusal(0x81)
        if wanted:
            session.privilege = EmulatedPrivilege(wanted)
        return bytes((session.privilege,))

    def _close(self, request: CommandRequest) -> bytes:
        session = request.session
        if session is None:
            raise CommandRefusal(EmulatedCode.NOT_IN_STATE)
        number = int.from_bytes(request.data[:4], 'little')
        own = self._active.get(number)
        if own is not None and request.privilege < EmulatedPrivilege.ADMINISTRATOR and own is not session:
            raise CommandRefusal(EmulatedCode.PRIVILEGE)
        if not session.close(number):
            raise CommandRefusal(0x87)
        return b''

    def _channel_info(self, request: CommandRequest) -> bytes:
        channel = self.controller.channel(request, request.data[0] & 0xF)
        sessions = {LAN: 0x80 | len(self._active), SECOND_LAN: 0x80}.get(channel, 0)
        return bytes((channel, *_MEDIA[channel], sessions)) + _IPMI_FORUM + bytes(2)

    def _cipher_suites(self, request: CommandRequest) -> bytes:
        channel = request.data[0] & 0xF
        channel = LAN if channel == PRESENT else channel
        if channel != LAN:
            raise CommandRefusal(EmulatedCode.INVALID_FIELD)
        start = (request.data[2] & 0x3F) * 16
        return (
            bytes((channel,))
            + b''.join(suite.record for suite in sorted(self.suites, key=lambda one: one.number))[start : start + 16]
        )


def _refused(name: bytes, user: UserTable | None, role: int, limit: EmulatedPrivilege) -> int:
    """The status with which RAKP 1 is refused, or 0. Role 0 means the highest privilege."""
    if len(name) > NAME_BYTES:
        return _NAME_LENGTH
    if role > EmulatedPrivilege.OEM:
        return _NO_ROLE
    if user is None:
        return _NO_USER
    return _NO_PRIVILEGE if (role or EmulatedPrivilege.ADMINISTRATOR) > min(user.limit, limit) else _OK


def _pong(packet: bytes) -> list[bytes]:
    if len(packet) < 8 or packet[:4] != _ASF_IANA or packet[4] != _PING:
        return []
    body = _ASF_IANA + bytes(4) + bytes((0x81, 0)) + bytes(6)
    return [_RMCP + bytes((_ASF,)) + _ASF_IANA + bytes((_PONG, packet[5], 0, len(body))) + body]


def _plain(kind: int, payload: bytes) -> bytes:
    return _RMCP + bytes((_IPMI,)) + struct.pack('<BBIIH', _RMCP_PLUS, kind, 0, 0, len(payload)) + payload

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Encode and decode RMCP+ packets: the handshake by pyghmi's session code, packets within a session by our own.

Only the session code of pyghmi is used, because all its sessions share one state in a process. This is the only module that
imports pyghmi. Faults of pyghmi, and what this module does instead:

* Its sockets, thread and session tables serve all BMCs, and each waiting thread handles the packets of all sessions. So an
  answer is noticed up to a second late, and a bad packet of one BMC fails the login to another. This module neither waits nor
  sends; :mod:`baremetal_acc.bmc.ipmi.session` does.
* It logs in again by itself and sends unanswered commands again: an Activate Firmware was executed three times.
* It falls back to cipher suite 3 when a BMC refuses 17, and does not check what the BMC agreed to. Here the caller chooses the
  suite.
* It parses without checking lengths, accepts answers that are not encrypted, and accepts a packet twice. Here the size of a
  datagram is checked first, and an invalid datagram is dropped. Packets within a session are encoded and decoded without
  pyghmi: when its code did that, with these checks around it, a command took a third longer than with ipmitool.
* It ignores a response to Send Message whose last byte is 00. It has one level of bridging of its own, which makes the session
  unusable when the target is absent. Here Send Message is a command like any other.
* It returns errors as texts, prints to stdout, and keeps passwords as ``str``. Here passwords are bytes, and errors are those
  of :mod:`baremetal_acc.errors`.

Source: IPMI 2.0 revision 1.1, sections 13 and 22.13 to 22.20;
doc/source/reference/ipmi_notes.rst, "Sessions of pyghmi".
"""

import hmac
import os
import secrets
import struct
from collections import deque
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from pyghmi.ipmi.private import session as pyghmi

from baremetal_acc.bmc.driver import Setting
from baremetal_acc.bmc.ipmi.command import CompletionCode, NetFn
from baremetal_acc.bmc.ipmi.endpoint import Endpoint, LoginPrivilege
from baremetal_acc.bmc.ipmi.packet_hmac import Mac
from baremetal_acc.bmc.ipmi.response_message import SHORTEST_RESPONSE, parsed, sound
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNoLogin, BmcNotAuthorised

_WINDOW = 32
"""Size of the window behind the highest sequence number that is still accepted. Source: section 6.12.13 (at least 8)."""

_RMCP = b'\x06\x00\xff\x07'
_VERSION_1_5, _VERSION_2_0 = 0x00, 0x06
_OPENED, _RAKP2, _RAKP4 = 0x11, 0x13, 0x15
_IN_SESSION = 0xC0
"""Payload type of an encrypted and authenticated IPMI message; within a session all other payload types are dropped."""

_BMC, _CONSOLE = 0x20, 0x81
_HEADER = struct.Struct('<BBIIH')
"""Header of a packet after the RMCP header: version, payload type, session id, sequence number, payload length."""

_NUMBERS = struct.Struct('<IH')
"""The last two of these fields. The fields before them are the same in each packet of a session."""

_AHEAD = len(_RMCP) + _HEADER.size
"""Bytes before the payload."""

_BLOCK = 16
"""Block size of AES, in bytes."""

_PADS = tuple(bytes(range(1, count + 1)) + bytes((count,)) for count in range(16))
"""Confidentiality padding of a message to whole AES blocks: 1, 2, 3 and so on, and the number of these bytes."""

_FILL = tuple(b'\xff' * count + bytes((count, 0x07)) for count in range(4))
"""Integrity padding of a packet to a multiple of four bytes: FFh bytes, their number, and the next header 07h."""

_STAGES = {
    _OPENED: ('Open Session', 'OPENSESSION'),
    _RAKP2: ('RAKP 2', 'EXPECTINGRAKP2'),
    _RAKP4: ('RAKP 4', 'EXPECTINGRAKP4'),
}
"""Name of each handshake response, and the state of pyghmi's session in which it is awaited."""

_FORGOTTEN = frozenset({0x02, 0x08})
_NO_ROOM = frozenset({0x01, 0x0B})
_NO_SUITE = frozenset({0x04, 0x05, 0x06, 0x07, 0x10, 0x11})
_NO_PRIVILEGE = frozenset({0x09, 0x0A})
_NO_SUCH_USER = frozenset({0x0C, 0x0D})
_BAD_CHECK = 0x0F
"""RMCP+ status codes, here and above. Source: table 13-15."""

_OTHER_SUITE = {
    17: 'cipher suite 3 (SHA-1) can be chosen for this BMC by {}',
    3: 'leave out {} to use cipher suite 17; all others are too weak',
}


class _Packet(NamedTuple):
    """An encoded command.

    :ivar asked: network function, command, data and LUN.
    :ivar sequence: of the message.
    :ivar awaited: the first bytes of its response.
    """

    asked: tuple[int, int, bytes, int]
    sequence: int
    message: bytes
    awaited: bytes
    packet: bytes


def below(label: str, what: str, privilege: int) -> BmcError:
    """The error for a user who lacks the wanted privilege."""
    role = LoginPrivilege(privilege).name.lower()
    return BmcNotAuthorised(
        bmc=label,
        what=f'{what}: the user lacks the privilege {role}',
        hint=f'grant the user the privilege {role} on the LAN channel',
    )


class PacketCodec(pyghmi.Session):
    """Handshake by pyghmi's session code, without its sockets, thread, clock and tables; packets in a session by our own.

    No method waits or sends.

    :ivar outgoing: the packet to send next.
    :ivar established: the handshake is complete, and both sides have proven that they know the password.
    :ivar failure: why no session can be opened.
    :ivar stale: the BMC has forgotten this handshake; a new one may succeed.
    :ivar odd: what was wrong with the first answer that was dropped; None while none was.
    """

    def __new__(cls, *_: object) -> 'PacketCodec':
        """A new object for each session; pyghmi would return an older one with the same credentials."""
        return object.__new__(cls)

    def __init__(self, there: Endpoint, privilege: LoginPrivilege) -> None:
        # pyghmi's __init__ would open a socket and start a thread; the attributes that its methods need are set here.
        self._there = there
        self._suite = there.suite
        self.bmc = there.label
        self.userid = there.username
        self.password = there.password
        self.kg = there.password if there.key is None else there.key
        self.privlevel = int(privilege)
        self.autopriv = False
        self.nameonly = 0x10
        self.servermode = False
        self.logontries = 0
        self.maxtimeout = 2
        self.onlogpayload = None
        self.pendingpayloads: deque[object] = deque()
        self.request_entry: list[object] = []
        self._customkeepalives = None
        self.netpacket = b''
        self.outgoing = b''
        self.failure: BmcError | None = None
        self.odd: str | None = None
        self.seqlun = secrets.randbelow(64)  # or a controller behind takes it for one of the last session
        self._message = self._awaited = b''
        self._ready: _Packet | None = None
        self._untagged: tuple[str, bytearray] | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._initsession()
        # pyghmi's ids and tags are the same in each session of each process. It increments before use: none is ever 0.
        self.localsid = secrets.randbelow(0xFFFFFFFE)
        self.rmcptag = secrets.randbelow(0xF0)
        self.attemptedhash = self._suite.hash
        self.established = False
        self.stale = False
        self._key_wanted = False
        self._highest = 0
        self._seen = 1
        self._ready = None

    # -- methods that pyghmi calls ------------------------------------------------------------------------------------

    def _xmit_packet(self, retry: bool = True, delay_xmit: object = None, timeout: object = None) -> None:
        """pyghmi calls this to send a packet: keep it for the caller to send."""
        self.outgoing = bytes(self.netpacket)
        self._untagged = None

    def onlogon(self, parameter: dict[str, object]) -> None:
        """pyghmi calls this when a check has failed. The method that passed the message to pyghmi reports what failed."""

    def _req_priv_level(self) -> None:
        """pyghmi calls this after a valid RAKP 4, to send a command: set up the session's keys."""
        cipher = Cipher(AES(self.aeskey), CBC(bytes(16)))
        self._encryptor, self._decryptor = cipher.encryptor(), cipher.decryptor()
        self._mac = Mac(self.k1, self._suite.digest_name)
        self._ours = _RMCP[2:] + bytes((_VERSION_2_0, _IN_SESSION)) + self._own_id()
        self.established = True

    # -- the handshake ------------------------------------------------------------------------------------------------

    def begin(self) -> bytes:
        """The first packet of a new handshake: Get Channel Authentication Capabilities. An earlier handshake is abandoned."""
        self._begin_anew()
        self._get_channel_auth_cap()
        return self.outgoing

    def repeated(self) -> bytes:
        """The last packet, for retransmission; within a session with a new sequence number."""
        if self.established:
            self._ready = None  # its sequence number is lower than the retransmission's: BMCs may drop it
            self.outgoing = self._framed(self._message)
        return self.outgoing

    def hear(self, datagram: bytes) -> bool:
        """Process an answer of the handshake. True: there is a new packet or a failure, or it is complete or stale."""
        before = self.outgoing
        self._listen(datagram)
        return self.outgoing is not before or self.established or self.stale or self.failure is not None

    def _listen(self, datagram: bytes) -> None:
        if len(datagram) < 14 or datagram[0] != _RMCP[0] or datagram[2:4] != _RMCP[2:]:
            self._drop('not an RMCP message')
        elif datagram[4] == _VERSION_1_5 and self.sessioncontext is None:
            self._able(datagram[14 : 14 + datagram[13]], datagram[5:13])
        elif datagram[4] == _VERSION_2_0 and len(datagram) >= 16:
            number, sequence, size = struct.unpack_from('<IIH', datagram, 6)
            payload = bytearray(datagram[16 : 16 + size])
            hear = {_OPENED: self._opened, _RAKP2: self._challenged, _RAKP4: self._proven}.get(datagram[5])
            where, awaited = _STAGES.get(datagram[5], ('', None))
            if hear is None or number or sequence or len(payload) != size or size < 2:
                self._drop('a message of the handshake is damaged')
            elif payload[0] == self.rmcptag:
                hear(payload)
            elif not payload[0] and payload[1] and self.sessioncontext == awaited and not any(payload[4:8]):
                self._untagged = where, payload

    def settle(self) -> None:
        """Accept a refusal without tag and session id as that of this handshake, if no better answer has come.

        Some BMCs send refusals in which tag and session id are 0. Anybody who guesses our port could forge one, so a proper
        answer that arrives before the next retransmission takes precedence. A retransmission instead would be another failed
        login, and BMCs lock users out after a few of these.
        """
        refused, self._untagged = self._untagged, None
        if refused is not None:
            self._refused(*refused)

    def _drop(self, why: str) -> None:
        self.odd = self.odd or why

    def _able(self, message: bytes, outside: bytes) -> None:
        """Process Get Channel Authentication Capabilities. An error response is ignored, and the handshake continues."""
        answer = parsed(message) if sound(message) else None
        if answer is None or any(outside) or (answer.netfn, answer.command) != (NetFn.APP | 1, 0x38):
            self._drop('the answer to Get Channel Authentication Capabilities is damaged')
            return
        if answer.code == CompletionCode.OK and len(answer.data) >= 4:
            self._key_wanted = bool(answer.data[2] & 0x20)
            if not answer.data[1] & 0x80 or not answer.data[3] & 0x02:
                self.failure = BmcNoLogin(bmc=self.bmc, what='the BMC supports IPMI 1.5 only, which has no encryption')
                return
        self.ipmiversion = 2.0
        self._open_rmcpplus_request()

    def _opened(self, message: bytearray) -> None:
        if not self._goes_on(_OPENED, message):
            return
        if len(message) < 36 or not any(message[8:12]):
            self._drop(f'Open Session Response is too short (length {len(message)}, minimum 36 bytes)')
            return
        if message[4:8] != self._own_id():
            return
        agreed = message[16], message[24], message[32]
        if agreed != self._suite.algorithms:
            said = ', '.join(map(str, agreed))
            told = f'the BMC chose algorithms {said}, which are not those of cipher suite {self._suite.number}'
            self.failure = BmcAnswerInvalid(bmc=self.bmc, what=told)
            return
        self._got_rmcp_response(message)

    def _challenged(self, message: bytearray) -> None:
        if not self._goes_on(_RAKP2, message):
            return
        if message[4:8] != self._own_id():
            return
        check = len(message) - 40
        if check < self._suite.digest:
            size = f'length {max(0, check)}, minimum {self._suite.digest} bytes for cipher suite {self._suite.number}'
            told = f'the key exchange authentication code of RAKP 2 is too short ({size})'
            self.failure = BmcAnswerInvalid(bmc=self.bmc, what=told)
            return
        self._got_rakp2(message)
        if self.sessioncontext == 'FAILED':
            self.failure = BmcNotAuthorised(
                bmc=self.bmc,
                what='the password is wrong (RAKP 2)',
                hint='check username and password; a BMC that needs the FreeIPMI workaround opensesspriv is not supported',
            )

    def _proven(self, message: bytearray) -> None:
        if not self._goes_on(_RAKP4, message):
            return
        if message[4:8] != self._own_id():
            return
        if len(message) < 8 + self._suite.check:
            self._drop(f'RAKP 4 is too short (length {len(message)}, minimum {8 + self._suite.check} bytes)')
            return
        self._got_rakp4(message)
        if not self.established:
            self.failure = self._key_is_wrong('the integrity check value of RAKP 4 is wrong')

    def _goes_on(self, kind: int, message: bytearray) -> bool:
        """Whether the message is awaited in this state, and no refusal."""
        where, awaited = _STAGES[kind]
        return self.sessioncontext == awaited and not self._refused(where, message)

    def _own_id(self) -> bytes:
        return struct.pack('<I', self.localsid)

    def _refused(self, where: str, message: bytearray) -> bool:
        status = message[1]
        if not status:
            return len(message) < 8
        what = f'{where}: refused with status {status:02X}h'
        if status in _FORGOTTEN:
            self.stale = True
            self._drop(f'{what}: the BMC does not know the session that is being opened')
        elif status in _NO_ROOM:
            self.failure = BmcBusy(bmc=self.bmc, what=f'{what}: no session is free')
        elif status in _NO_SUITE:
            number = self._suite.number
            told = f'{what}: the BMC does not support cipher suite {number}'
            hint = _OTHER_SUITE[number].format(self._there.set_by[Setting.CIPHER_SUITE])
            self.failure = BmcNoLogin(bmc=self.bmc, what=told, hint=hint)
        elif status in _NO_SUCH_USER:
            told = f'{what}: the user does not exist, or may not log in'
            self.failure = BmcNotAuthorised(
                bmc=self.bmc, what=told, hint='check username, and whether that user may log in on the LAN channel'
            )
        elif status in _NO_PRIVILEGE:
            self.failure = below(self.bmc, what, self.privlevel)
        elif status == _BAD_CHECK:
            self.failure = self._key_is_wrong(what)
        else:
            self.failure = BmcAnswerInvalid(bmc=self.bmc, what=what)
        return True

    def _key_is_wrong(self, what: str) -> BmcError:
        """The BMC has proven that it knows the password: what does not match is K_G."""
        has = 'the BMC has a key (K_G)' if self._key_wanted else 'the BMC may have a key (K_G)'
        where = self._there.set_by[Setting.KEY]
        if self._there.key is None:
            told, hint = f'{has}, but none was given', f'set the K_G of the BMC: {where}'
        else:
            told, hint = f'{has}, but not the one that was given', f'check the K_G of the BMC: {where}'
        return BmcNotAuthorised(bmc=self.bmc, what=f'{what}: {told}', hint=hint)

    # -- in a session -------------------------------------------------------------------------------------------------

    def encode(self, netfn: int, command: int, data: bytes, lun: int) -> bytes:
        """Encode the packet of a command, with the next sequence numbers."""
        asked = netfn, command, data, lun
        ready, self._ready = self._ready, None
        if ready is None or ready.asked != asked:
            ready = self._made(asked)
        _, self.seqlun, self._message, self._awaited, self.outgoing = ready
        return self.outgoing

    @property
    def following(self) -> int:
        """Sequence number of the message that is encoded next."""
        return (self.seqlun + 1) & 0x3F

    def prepare(self, netfn: int, command: int, data: bytes, lun: int) -> None:
        """Encode the packet of the command that probably comes next, while an answer is waited for.

        :meth:`encode` uses it if that command is the next one sent, and drops it otherwise: the packet's session sequence
        number is then skipped, as if the packet were lost.
        """
        self._ready = self._made((netfn, command, data, lun))

    def _made(self, asked: tuple[int, int, bytes, int]) -> '_Packet':
        netfn, command, data, lun = asked
        sequence = self.following
        there, back = netfn << 2 | lun, (netfn | 1) << 2
        body = bytes((_CONSOLE, sequence << 2, command)) + data
        message = bytes((_BMC, there, -_BMC - there & 0xFF)) + body + bytes((-sum(body) & 0xFF,))
        awaited = bytes((_CONSOLE, back, -_CONSOLE - back & 0xFF, _BMC, sequence << 2 | lun, command))
        return _Packet(asked, sequence, message, awaited, self._framed(message))

    def answers(self, message: bytes) -> bool:
        """Whether a message is the answer to the last command, in the form of nearly all BMCs; the others are decoded by
        :func:`~baremetal_acc.bmc.ipmi.response_message.parsed`.

        Comparing the bytes before the completion code takes 3 microseconds less than creating an
        :class:`~baremetal_acc.bmc.ipmi.response_message.RmcpAnswer`.
        """
        return message[:6] == self._awaited and len(message) >= SHORTEST_RESPONSE

    def _framed(self, message: bytes) -> bytes:
        """A packet of the session. Source: tables 13-8 and 13-20, and section 13.28.4."""
        payload = self._encrypted(message)
        packet = _HEADER.pack(_VERSION_2_0, _IN_SESSION, self.sessionid, self.sequencenumber, len(payload)) + payload
        packet += _FILL[-(len(packet) + 2) % 4]
        self.sequencenumber += 1
        return _RMCP + packet + self._check(packet)

    def _encrypted(self, message: bytes) -> bytes:
        """Initialisation vector and encrypted message. One AES context for all packets saves 11 microseconds per command.

        CBC chains from the block before: the first block of plaintext is random bytes, and its ciphertext is the initialisation
        vector. The vector is as random as they are, since AES maps each block to another one; nobody can predict it.
        """
        return self._encryptor.update(os.urandom(_BLOCK) + message + _PADS[-(len(message) + 1) % _BLOCK])

    def _decrypted(self, payload: bytes) -> bytes:
        """The message and its padding, without the first block: that is the decrypted initialisation vector, which has no
        meaning.
        """
        return self._decryptor.update(payload)[_BLOCK:]

    def _check(self, packet: bytes) -> bytes:
        return self._mac.digest(packet)[: self._suite.check]

    def opened(self, datagram: bytes) -> bytes:
        """Decode a packet of the session: the bytes of the message; empty if the packet is invalid or was received before.

        The layout is checked first, then the sequence number, then the integrity check value; only then is the packet
        decrypted.
        """
        if len(datagram) < _AHEAD or datagram[0] != _RMCP[0] or datagram[2:10] != self._ours:
            return b''
        sequence, size = _NUMBERS.unpack_from(datagram, 10)
        check = self._suite.check
        if size < 2 * _BLOCK or size % _BLOCK or not 2 <= len(datagram) - _AHEAD - size - check <= 17:
            return b''
        ahead = sequence - self._highest
        if not sequence or ahead <= -_WINDOW or (ahead <= 0 and self._seen >> -ahead & 1):
            return b''
        if not hmac.compare_digest(datagram[-check:], self._check(datagram[4:-check])):
            return b''
        plain = self._decrypted(datagram[_AHEAD : _AHEAD + size])
        if ahead > 0:
            self._highest = sequence
            self._seen = (self._seen << ahead | 1) & (1 << _WINDOW) - 1 if ahead < _WINDOW else 1
        else:
            self._seen |= 1 << -ahead
        return plain[: -1 - plain[-1]]

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is a session with one BMC opened, kept and closed? RMCP+ as pyghmi writes it, with a socket and a loop of our own.

pyghmi does the arithmetic: handshake, keys, encryption, framing. Nothing else of it runs, because all of it is shared by the
whole process. This is the only module that knows it; what it would do wrong, and what is done here instead:

* Its sockets, its thread and its tables of sessions are for all BMCs, and whoever waits takes the packets of others: an answer
  is noticed up to a second late, and a bad one raises in the login to another BMC. Here a session has a socket, connected to
  its BMC, and reads it in the thread (or the greenlet of :mod:`baremetal_acc.bmc.wait`) that asked.
* It logs in again by itself, and sends again what was not answered: an activation ran three times. Here nothing that was sent
  ever gets into another session, and a command that is to be sent once is.
* It takes cipher suite 3 when a BMC refuses 17, and does not look at what the BMC agreed to. Here the suite is the caller's.
* It parses without looking at lengths, takes answers that are not encrypted, and takes a packet twice. Here a datagram is
  measured before pyghmi sees it, and what does not fit is dropped.
* It takes an answer to Send Message for no answer when its last byte is 00, and has one level of bridging of its own that costs
  the session when the target is absent. Here Send Message is a command like others, and its second answer is waited for.
* It gives texts for errors, prints, and keeps ``str`` passwords. Here they are bytes, and the tree of errors is ours.

Source: IPMI 2.0 revision 1.1, sections 6.12, 6.13, 13 and 22.13 to 22.20; facts/ipmi.md, section 5.
"""

import logging
import secrets
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum

from pyghmi.ipmi.private import session as pyghmi

from baremetal_acc.bmc import wait
from baremetal_acc.bmc.ipmi import bridge
from baremetal_acc.bmc.ipmi.wire import Code, NetFn, Reply, refusal
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcError,
    BmcNotAuthorised,
    BmcUnreachable,
    BmcUnsupported,
    UsageError,
)

LOG = logging.getLogger(__name__)

PORT = 623
NAME_BYTES, PASSWORD_BYTES, KEY_BYTES = 16, 20, 20
"""At most. A longer password would be cut short by some BMCs, and then what is cut off protects nothing."""

ANSWER = timedelta(seconds=10)
"""For one command. Real BMCs take seconds to read the EEPROM of a card over a bus that others use."""

LOGIN = timedelta(seconds=15)
"""For a login: three messages, each of which may be lost several times."""

IDLE = 20.0
"""Seconds after which a session is not used again: BMCs end those that idle after 30 to 60 s, and say nothing."""

LONGEST = 1400
"""Bytes of data in a request: as many as one Ethernet frame takes, since fragments get lost in firewalls.

1500, less IPv4 and UDP (28), RMCP (4), the header (12), filling, next header and a check of 16 bytes (at most 21): 1435 for the
encrypted part, which is 16 bytes of its start and blocks of 16: 1408, less one for its padding, less 7 of the message.
"""

MOST_STRANGE = 1000
"""Datagrams that answer nothing, during one command: checking them takes about 20 ms."""

_LARGEST = 8192
"""Bytes of a datagram that is looked at. The largest answer there is takes a tenth of it, but for HPM.2."""

_FIRST_PAUSE, _SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 0.1, 2.0
"""Seconds before something is sent again: at first; when the BMC is known to be fast; and when it was sent often."""

_BRIDGE_PAUSE = 1.0
"""Seconds before Send Message is sent again once the BMC has passed it on: the bus behind it is slow."""

_SLICE = 0.25
"""Seconds after which whoever waits looks whether it was told to stop."""

_GOODBYE, _SHORT_GOODBYE = timedelta(seconds=1), timedelta(seconds=0.3)
"""For closing a session, and one of a BMC that has fallen silent."""

_REPEATS = 2
"""How often a message of the handshake is sent again before another handshake is begun."""

_WINDOW = 32
"""Sequence numbers behind the highest one that are still taken. Source: section 6.12.13 (at least 8 are to be)."""

_REFUSALS = 2
"""ICMP errors after which nobody is there."""

_RMCP = b'\x06\x00\xff\x07'
_VERSION_1_5, _VERSION_2_0 = 0x00, 0x06
_OPENED, _RAKP2, _RAKP4 = 0x11, 0x13, 0x15
_IN_SESSION = 0xC0
"""Payload type of an IPMI message that is encrypted and authenticated; all others are dropped in a session."""

_ABOVE_LIMIT = frozenset({0x80, 0x81, 0x82, Code.PRIVILEGE})
"""Of Set Session Privilege Level. Source: section 22.18."""

_CONSOLE = 0x81
_SET_PRIVILEGE, _CLOSE, _SEND_MESSAGE = 0x3B, 0x3C, 0x34
_HINT = 'check address, network and power of the BMC'


class Privilege(IntEnum):
    """What a session may. Source: IPMI 2.0 revision 1.1, section 6.8."""

    OPERATOR = 3
    ADMINISTRATOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A cipher suite that may be used.

    :ivar algorithms: authentication, integrity, confidentiality. Source: tables 13-17 to 13-19.
    :ivar digest: bytes of the check in RAKP 2; ``check`` of those in RAKP 4 and in each packet.
    :ivar hash: how pyghmi calls it.
    """

    number: int
    algorithms: tuple[int, int, int]
    digest: int
    check: int
    hash: int


SUITES = {
    17: Suite(number=17, algorithms=(3, 4, 1), digest=32, check=16, hash=256),
    3: Suite(number=3, algorithms=(1, 1, 1), digest=20, check=12, hash=1),
}
"""All others have no encryption, no check, or a broken one. 3 (SHA-1) is for BMCs that have nothing better, if told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a BMC is, and how to log in there. Made by :func:`place`.

    :ivar label: for messages.
    :ivar answer: for a command that says nothing else.
    :ivar key: K_G, the key of the BMC; None: the password serves for it.
    """

    label: str
    host: str
    port: int
    username: bytes
    password: bytes = field(repr=False)
    suite: Suite
    key: bytes | None = field(default=None, repr=False)
    answer: timedelta = ANSWER
    login: timedelta = LOGIN


def place(
    label: str,
    host: str,
    *,
    port: int = PORT,
    username: str | bytes,
    password: str | bytes,
    suite: int = 17,
    key: bytes | None = None,
    answer: timedelta = ANSWER,
    login: timedelta = LOGIN,
) -> Place:
    """Where a BMC is, checked.

    :raises UsageError: no session could be opened with that.
    """
    named, secret = (text.encode() if isinstance(text, str) else text for text in (username, password))
    found = SUITES.get(suite)
    if found is None:
        told = f'BMC {label}, cipher suite'
        raise UsageError(
            argument=told, what=f'{suite} is not used', hint='17, or 3 for a BMC that has nothing better; all others are weak'
        )
    for what, given, most in (('username', named, NAME_BYTES), ('password', secret, PASSWORD_BYTES)):
        told = f'BMC {label}, {what}'
        if not given:
            raise UsageError(argument=told, what='it is empty', hint='IPMI without a named user and a password is not used')
        if len(given) > most or 0 in given:
            raise UsageError(
                argument=told, what=f'it has more than {most} bytes, or a zero among them', hint='IPMI takes no other'
            )
    if key is not None and not (0 < len(key) <= KEY_BYTES and any(key)):
        raise UsageError(
            argument=f'BMC {label}, K_G', what=f'1 to {KEY_BYTES} bytes expected', hint='leave it out if there is none'
        )
    return Place(
        label=label,
        host=host,
        port=port,
        username=named,
        password=secret,
        suite=found,
        key=key,
        answer=answer,
        login=login,
    )


# --------------------------------------------------------------------------------------------------------- packets, by pyghmi


class _Codec(pyghmi.Session):
    """pyghmi's handshake and framing without its sockets, thread, clock and tables. Nothing in here waits or sends.

    :ivar outgoing: the packet to send next.
    :ivar established: the handshake is over, and both sides have proven that they know the password.
    :ivar failure: why there will be no session.
    :ivar stale: the BMC has forgotten this handshake; another one may do.
    :ivar odd: what was wrong with an answer that was dropped, None while none was.
    """

    def __new__(cls, *_: object) -> '_Codec':
        """One for each session; pyghmi would give an older one that has the same credentials."""
        return object.__new__(cls)

    def __init__(self, there: Place, privilege: Privilege) -> None:
        # pyghmi's own would open a socket and begin a thread: what its methods need is set here.
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
        self.seqlun = 0
        self._plain: bytes | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._initsession()
        # pyghmi's ids and tags are the same in each session of each process.
        self.localsid = secrets.randbelow(0xFFFFFFFE)
        self.rmcptag = secrets.randbelow(0xF0)
        self.attemptedhash = self._suite.hash
        self.established = False
        self.stale = False
        self._key_wanted = False
        self._highest = 0
        self._seen: set[int] = set()

    # -- what pyghmi calls, and what became of it ---------------------------------------------------------------------

    def _xmit_packet(self, retry: bool = True, delay_xmit: object = None, timeout: object = None) -> None:
        """A packet is made: pyghmi would send it now."""
        self.outgoing = bytes(self.netpacket)
        if self.sequencenumber:
            self.sequencenumber += 1

    def onlogon(self, parameter: dict[str, object]) -> None:
        """A check did not come out right. Whoever fed it with a message tells what that means."""

    def _req_priv_level(self) -> None:
        """The last message was right: pyghmi would send a command now."""
        self.established = True

    def _parse_ipmi_payload(self, payload: bytearray) -> None:
        """A message in a packet that was right."""
        self._plain = bytes(payload)

    # -- the handshake ------------------------------------------------------------------------------------------------

    def begin(self) -> bytes:
        """The first packet of a handshake: does it speak IPMI 2.0? Another one may be under way already."""
        self._begin_anew()
        self._get_channel_auth_cap()
        return self.outgoing

    def repeated(self) -> bytes:
        """What was sent last, for sending it again: in a session with a sequence number of its own."""
        if self.established:
            self.send_payload()
        return self.outgoing

    def hear(self, datagram: bytes) -> bool:
        """Take an answer of the handshake; whether there is something new to send, to say, or to be done."""
        before = self.outgoing
        self._listen(datagram)
        return self.outgoing is not before or self.established or self.stale or self.failure is not None

    def _listen(self, datagram: bytes) -> None:
        if len(datagram) < 14 or datagram[0] != _RMCP[0] or datagram[2:4] != _RMCP[2:]:
            self._drop('it is no RMCP')
        elif datagram[4] == _VERSION_1_5 and self.sessioncontext is None:
            self._able(datagram[14 : 14 + datagram[13]], datagram[5:13])
        elif datagram[4] == _VERSION_2_0 and len(datagram) >= 16:
            number, sequence, size = struct.unpack_from('<IIH', datagram, 6)
            payload = bytearray(datagram[16 : 16 + size])
            hear = {_OPENED: self._opened, _RAKP2: self._challenged, _RAKP4: self._proven}.get(datagram[5])
            if hear is None or number or sequence or len(payload) != size or size < 2:
                self._drop('a message of the handshake is damaged')
            elif payload[0] == self.rmcptag:
                hear(payload)

    def _drop(self, why: str) -> None:
        self.odd = self.odd or why

    def _able(self, message: bytes, outside: bytes) -> None:
        """Get Channel Authentication Capabilities. An answer that is an error does not matter: we see what it can."""
        answer = _parsed(message)
        if answer is None or any(outside) or (answer.netfn, answer.command) != (NetFn.APP | 1, 0x38):
            self._drop('the answer to Get Channel Authentication Capabilities is damaged')
            return
        if answer.code == Code.OK and len(answer.data) >= 4:
            self._key_wanted = bool(answer.data[2] & 0x20)
            if not answer.data[1] & 0x80 or not answer.data[3] & 0x02:
                self.failure = BmcUnsupported(bmc=self.bmc, what='it speaks IPMI 1.5 only, which protects nothing')
                return
        self.ipmiversion = 2.0
        self._open_rmcpplus_request()

    def _opened(self, message: bytearray) -> None:
        if self.sessioncontext != 'OPENSESSION' or self._refused('Open Session', message):
            return
        if len(message) < 36 or not any(message[8:12]):
            self._drop(f'its Open Session Response has {len(message)} bytes, and 36 are needed')
            return
        if message[4:8] != self._own_id():
            return
        agreed = message[16], message[24], message[32]
        if agreed != self._suite.algorithms:
            said = ', '.join(map(str, agreed))
            told = f'it opened a session with algorithms {said}, which are not those of cipher suite {self._suite.number}'
            self.failure = BmcAnswerInvalid(bmc=self.bmc, what=told)
            return
        self._got_rmcp_response(message)

    def _challenged(self, message: bytearray) -> None:
        if self.sessioncontext != 'EXPECTINGRAKP2' or self._refused('RAKP 2', message):
            return
        if message[4:8] != self._own_id():
            return
        check = len(message) - 40
        if check < self._suite.digest:
            told = f'its proof (RAKP 2) has {max(0, check)} bytes, and {self._suite.digest} are needed by cipher suite '
            self.failure = BmcAnswerInvalid(bmc=self.bmc, what=f'{told}{self._suite.number}')
            return
        self._got_rakp2(message)
        if self.sessioncontext == 'FAILED':
            self.failure = BmcNotAuthorised(
                bmc=self.bmc, what='the password is wrong (RAKP 2)', hint='check username and password'
            )

    def _proven(self, message: bytearray) -> None:
        if self.sessioncontext != 'EXPECTINGRAKP4' or self._refused('RAKP 4', message):
            return
        if message[4:8] != self._own_id():
            return
        if len(message) < 8 + self._suite.check:
            self._drop(f'its RAKP 4 has {len(message)} bytes, and {8 + self._suite.check} are needed')
            return
        self._got_rakp4(message)
        if not self.established:
            self.failure = self._key_is_wrong('its proof (RAKP 4) does not fit')

    def _own_id(self) -> bytes:
        return struct.pack('<I', self.localsid)

    def _refused(self, where: str, message: bytearray) -> bool:
        status = message[1]
        if not status:
            return len(message) < 8
        what = f'{where}: refused with status {status:02X}h'
        if status in _FORGOTTEN:
            self.stale = True
            self._drop(f'{what}: it does not know the session that is being opened')
        elif status in _NO_ROOM:
            self.failure = BmcBusy(bmc=self.bmc, what=f'{what}: it has no room for another session')
        elif status in _NO_SUITE:
            number = self._suite.number
            told = f'{what}: it does not offer cipher suite {number}'
            hint = 'cipher suite 3 (SHA-1) can be chosen for this BMC' if number == 17 else None
            self.failure = BmcUnsupported(bmc=self.bmc, what=told, hint=hint)
        elif status in _NO_SUCH_USER:
            told = f'{what}: it knows no such user, or he may not log in'
            self.failure = BmcNotAuthorised(bmc=self.bmc, what=told, hint='check username, and the access of that user by LAN')
        elif status in _NO_PRIVILEGE:
            self.failure = _below(self.bmc, what, self.privlevel)
        elif status == _BAD_CHECK:
            self.failure = self._key_is_wrong(what)
        else:
            self.failure = BmcAnswerInvalid(bmc=self.bmc, what=what)
        return True

    def _key_is_wrong(self, what: str) -> BmcError:
        """The password was proven to us before: what does not fit is the other key."""
        wanted = (
            'it has a key of its own (K_G)'
            if self._key_wanted
            else 'its key (K_G), if it has one, is not the one that was given'
        )
        return BmcNotAuthorised(bmc=self.bmc, what=f'{what}: {wanted}', hint='check the K_G of the BMC')

    # -- in a session -------------------------------------------------------------------------------------------------

    def encode(self, netfn: int, command: int, data: bytes, lun: int) -> bytes:
        """The packet of a command, with the next sequence numbers."""
        self.seqlun = (self.seqlun + 1) & 0x3F
        self.lastpayload = None
        self.request_entry.clear()
        self._send_ipmi_net_payload(netfn, command, data, rslun=lun)
        return self.outgoing

    def decode(self, datagram: bytes) -> '_Answer | None':
        """The message in a packet of the session; None: it is none, or it came before.

        The shape of it is looked at first, and what pyghmi does with it cannot fail then.
        """
        if len(datagram) < 16 or datagram[0] != _RMCP[0] or datagram[2:4] != _RMCP[2:]:
            return None
        version, kind, number, sequence, size = struct.unpack_from('<BBIIH', datagram, 4)
        tail = len(datagram) - 16 - size - self._suite.check
        if (
            (version, kind, number) != (_VERSION_2_0, _IN_SESSION, self.localsid)
            or size < 32
            or size % 16
            or not 2 <= tail <= 17
        ):
            return None
        if sequence <= self._highest - _WINDOW or sequence in self._seen or not sequence:
            return None
        self.remseqnumber = None  # pyghmi's own check would refuse what overtook another
        plain = self._decrypted(datagram)
        if plain is None:
            return None
        self._highest = max(self._highest, sequence)
        self._seen = {known for known in self._seen if known > self._highest - _WINDOW} | {sequence}
        return _parsed(plain)

    def _decrypted(self, datagram: bytes) -> bytes | None:
        self._plain = None
        self._handle_ipmi2_packet(bytearray(datagram))
        return self._plain


_FORGOTTEN = frozenset({0x02, 0x08})
_NO_ROOM = frozenset({0x01, 0x0B})
_NO_SUITE = frozenset({0x04, 0x05, 0x06, 0x07, 0x10, 0x11})
_NO_PRIVILEGE = frozenset({0x09, 0x0A})
_NO_SUCH_USER = frozenset({0x0C, 0x0D})
_BAD_CHECK = 0x0F
"""Status codes of RMCP+. Source: table 13-15."""


def _below(label: str, what: str, privilege: int) -> BmcError:
    role = Privilege(privilege).name.lower()
    return BmcNotAuthorised(
        bmc=label, what=f'{what}: the user may not be {role}', hint=f'let the BMC give that user the privilege {role} by LAN'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """A message that came.

    :ivar whole: all its bytes.
    """

    to: int
    netfn: int
    sender: int
    sequence: int
    command: int
    code: int
    data: bytes
    whole: bytes


def _parsed(message: bytes) -> _Answer | None:
    """The message in these bytes; None when it is too short, or a checksum is wrong."""
    if len(message) < 8 or sum(message[:3]) & 0xFF or sum(message[3:]) & 0xFF:
        return None
    return _Answer(
        to=message[0],
        netfn=message[1] >> 2,
        sender=message[3],
        sequence=message[4] >> 2,
        command=message[5],
        code=message[6],
        data=message[7:-1],
        whole=message,
    )


# ------------------------------------------------------------------------------------------------------------- the session


class Session:
    """A :class:`~baremetal_acc.bmc.ipmi.wire.Raw` over one session. Use it as a context manager: leaving it logs out.

    Different sessions may be used by different threads; one is used by one at a time, and others wait.

    :ivar idle_since: when the BMC answered last, by the clock.
    :ivar until: when the session may be used no longer, by the clock.
    :ivar stopped: whoever waits is to give up. It may be set by any thread.
    """

    longest = LONGEST

    def __init__(
        self,
        there: Place,
        privilege: Privilege = Privilege.OPERATOR,
        *,
        budget: timedelta | None = None,
        clock: Callable[[], float] = time.monotonic,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Log in.

        :param budget: for all of the session, the login included; None: as long as the BMC keeps it.
        :raises BmcUnreachable: no answer, or no such host.
        :raises BmcNotAuthorised: wrong credentials, or the user may not be what is wanted.
        :raises BmcUnsupported: it does not offer the cipher suite, or no IPMI 2.0.
        :raises BmcBusy: it has no room for another session.
        :raises BmcAnswerInvalid: what answers is no such BMC.
        """
        self.label = there.label
        self._there = there
        self._clock = clock
        self._stopped = stopped
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self._refusals = 0
        self._rtt: float | None = None
        self._silent = False
        self.idle_since = clock()
        self.until = float('inf') if budget is None else clock() + budget.total_seconds()
        self._codec = _Codec(there, privilege)
        try:
            self._log_in()
            self._be(privilege)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> 'Session':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> Reply:
        """Send a command and wait for the answer.

        Of Send Message the data of the answer is what the controller behind answered, whole, where that comes by itself.

        :raises BmcUnreachable: no answer came. Of a command that was to be sent once nobody knows whether it was done.
        :raises BmcAnswerInvalid: too much came that answers nothing.
        """
        if len(data) > self.longest:
            return Reply(Code.LENGTH_EXCEEDED)
        with self._lock:
            within = self._there.answer if within is None else within
            reply = self._asked(_Asked(netfn, command, bytes(data), lun), once, within)
        LOG.debug('%s: %02Xh/%02Xh: %02Xh', self.label, netfn, command, reply.code)
        return reply

    def close(self) -> None:
        """Log out. Never fails: the BMC ends sessions by itself, too."""
        with self._lock:
            if self._socket is None:
                return
            self.until, self._stopped = float('inf'), lambda: False
            number = struct.pack('<I', self._codec.sessionid)
            if self._codec.established:
                with suppress(BmcError):
                    self._asked(_Asked(NetFn.APP, _CLOSE, number, 0), False, _SHORT_GOODBYE if self._silent else _GOODBYE)
            self._socket.close()
            self._socket = None

    # -- login --------------------------------------------------------------------------------------------------------

    def _log_in(self) -> None:
        """The handshake, with each address that the host has, in turn."""
        places = self._resolved()
        until = min(self.until, self._clock() + self._there.login.total_seconds())
        for left, (family, address) in zip(range(len(places), 0, -1), places, strict=True):
            share = self._clock() + (until - self._clock()) / left
            try:
                self._connect(family, address)
                self._shake_hands(share)
                return
            except BmcUnreachable:
                if left == 1:
                    raise

    def _resolved(self) -> list[tuple[int, tuple[object, ...]]]:
        host, port = self._there.host, self._there.port

        def ask(flags: int = 0) -> list[tuple[int, tuple[object, ...]]]:
            found = socket.getaddrinfo(host, port, 0, socket.SOCK_DGRAM, 0, flags)
            return list(dict.fromkeys((family, address) for family, _, _, _, address in found))

        with suppress(OSError, UnicodeError):
            return ask(socket.AI_NUMERICHOST)
        hub = wait.hub()
        try:
            return ask() if hub is None else hub.in_thread(ask)
        except (OSError, UnicodeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else exc
            raise BmcUnreachable(bmc=self.label, what=f'its address cannot be found: {why}', hint=_HINT) from exc

    def _connect(self, family: int, address: tuple[object, ...]) -> None:
        if self._socket is not None:
            self._socket.close()
        self._refusals = 0
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._socket.connect(address)  # from now on the kernel drops what comes from elsewhere
        except OSError as exc:
            raise self._gone(f'it cannot be reached: {exc.strerror}') from exc

    def _shake_hands(self, until: float) -> None:
        """The messages of the handshake. What is not answered is sent again, and in the end a new one begun."""
        codec = self._codec
        self._send(codec.begin())
        pace = _Pace(self._clock(), _FIRST_PAUSE)
        repeats = strange = 0
        for datagram in self._heard(until, pace):
            strange += datagram is not None
            if strange > MOST_STRANGE:
                told = f'more than {MOST_STRANGE} datagrams came that are no answer to the login'
                raise BmcAnswerInvalid(bmc=self.label, what=told)
            if datagram is not None and codec.hear(datagram):
                if codec.failure is not None:
                    raise codec.failure
                if codec.established:
                    return
                if not codec.stale:  # a handshake that was forgotten is begun again when it is time
                    self._send(codec.outgoing)
                    pace.anew(self._clock())
                    repeats = 0
            elif self._clock() >= pace.due:
                repeats += 1
                self._send(codec.begin() if codec.stale or repeats > _REPEATS else codec.repeated())
                repeats %= _REPEATS + 1
                pace.sent(self._clock())
        if self._stopped() or self._clock() >= self.until:
            self._give_up()
        if codec.odd is not None:
            raise BmcAnswerInvalid(
                bmc=self.label, what=f'the login is not answered as it should be: {codec.odd}', hint='check the address'
            )
        raise self._gone(f'no answer to the login in {self._there.login.total_seconds():.0f} s')

    def _be(self, privilege: Privilege) -> None:
        """A session begins as that of a user, whatever was asked for."""
        reply = self(NetFn.APP, _SET_PRIVILEGE, bytes([privilege]))
        what = 'Set Session Privilege Level'
        if reply.code in _ABOVE_LIMIT:
            raise _below(self.label, f'{what}: refused ({reply.code:02X}h)', privilege)
        if not reply.ok:
            raise refusal(self, what, reply)
        if not reply.data or reply.data[0] & 0x0F != privilege:
            raise _below(self.label, f'{what}: it gave another one', privilege)

    # -- commands -----------------------------------------------------------------------------------------------------

    def _asked(self, asked: '_Asked', once: bool, within: timedelta) -> Reply:
        """Send a command, and again where that may be, until it is answered."""
        began = self._clock()
        if self._socket is None:
            raise BmcUnreachable(bmc=self.label, what=f'{asked}: the session is closed')
        if self._stopped() or began >= self.until:
            self._give_up()
        until = min(began + within.total_seconds(), self.until)
        self._refusals = 0
        self._send(self._codec.encode(asked.netfn, asked.command, asked.data, asked.lun))
        sequence, sends, passed_on, strange = self._codec.seqlun, 1, False, 0
        pace = _Pace(began, _FIRST_PAUSE if self._rtt is None else max(_SHORTEST_PAUSE, min(4 * self._rtt, _FIRST_PAUSE)))
        if once:
            pace.due = until
        for datagram in self._heard(until, pace):
            now = self._clock()
            if datagram is not None:
                answer = self._codec.decode(datagram)
                if answer is not None:
                    self.idle_since = now
                reply = None if answer is None else asked.answered(answer, sequence)
                if reply is None:
                    strange += 1
                    if strange > MOST_STRANGE:
                        told = f'{asked}: more than {MOST_STRANGE} datagrams came that answer nothing'
                        raise BmcAnswerInvalid(bmc=self.label, what=told + _unsure(once))
                elif reply.ok and not reply.data and asked.carried is not None:
                    passed_on = True  # what the controller behind answers is a message of its own
                    pace.slow(now)
                else:
                    self._learn(now - began if sends == 1 and asked.carried is None else None)
                    return reply
            if now >= pace.due and not once:
                self._send(self._codec.repeated())
                sends += 1
                pace.sent(now)
        if passed_on:
            return Reply(Code.OK)
        self._silent = True
        if self._stopped() or self._clock() >= self.until:
            self._give_up(once)
        raise self._gone(f'{asked}: no answer in {within.total_seconds():g} s{_unsure(once)}')

    def _learn(self, taken: float | None) -> None:
        """How fast it answers. Of what was sent twice nobody knows which one was answered."""
        self._silent = False
        if taken is not None:
            self._rtt = taken if self._rtt is None else 0.875 * self._rtt + 0.125 * taken

    # -- datagrams ----------------------------------------------------------------------------------------------------

    def _send(self, packet: bytes) -> None:
        assert self._socket is not None  # noqa: S101 - nobody sends before _connect or after close
        for _ in range(_REFUSALS):
            try:
                self._socket.send(packet)
                return
            except BlockingIOError:
                return  # as if it were lost on its way
            except OSError as exc:
                self._unreached(exc)  # it was not sent: what is told here may be about an earlier one

    def _heard(self, until: float, pace: '_Pace') -> Iterator[bytes | None]:
        """What comes until then, and None whenever something is to be sent again."""
        while not self._stopped():
            now = self._clock()
            if now >= until:
                return
            datagram = self._received()
            if datagram is not None or now >= pace.due:
                yield datagram
            else:
                self._wait(min(until, pace.due) - now)

    def _received(self) -> bytes | None:
        """A datagram that is there already."""
        assert self._socket is not None  # noqa: S101 - as in _send
        try:
            return self._socket.recv(_LARGEST)
        except BlockingIOError:
            return None
        except OSError as exc:
            self._unreached(exc)
            return None

    def _wait(self, seconds: float) -> None:
        assert self._socket is not None  # noqa: S101 - as in _send
        seconds = min(max(seconds, 0.0005), _SLICE)
        hub = wait.hub()
        if hub is not None:
            hub.for_socket(self._socket.fileno(), wait.READ, seconds)
        else:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            poll.poll(seconds * 1000)

    def _unreached(self, exc: OSError) -> None:
        """The network says that nobody is there. It may be wrong once.

        :raises BmcUnreachable: it says so again.
        """
        self._refusals += 1
        if self._refusals >= _REFUSALS:
            self._silent = True
            raise self._gone(f'it cannot be reached: {exc.strerror}') from exc

    def _gone(self, what: str) -> BmcUnreachable:
        return BmcUnreachable(bmc=self.label, what=what, hint=_HINT)

    def _give_up(self, once: bool = False) -> None:
        """:raises BmcUnreachable: nobody wants to wait any longer."""
        why = 'the run was stopped' if self._stopped() else 'the time for one look is used up'
        raise BmcUnreachable(bmc=self.label, what=f'not asked any more: {why}{_unsure(once)}')


class _Pace:
    """When something is sent again.

    :ivar due: then, by the clock.
    """

    def __init__(self, now: float, pause: float) -> None:
        self._pause = pause
        self.due = now + pause

    def sent(self, now: float) -> None:
        """It was sent again: the next pause is longer."""
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self.due = now + self._pause

    def slow(self, now: float) -> None:
        """It has arrived, and the answer takes its time."""
        self._pause = max(self._pause, _BRIDGE_PAUSE)
        self.due = max(self.due, now + self._pause)

    def anew(self, now: float) -> None:
        """Something else is sent."""
        self._pause = _FIRST_PAUSE
        self.due = now + self._pause


def _unsure(once: bool) -> str:
    return '; it was sent once, and whether it was done is not known' if once else ''


@dataclass(frozen=True, slots=True)
class _Asked:
    """A command that was sent."""

    netfn: int
    command: int
    data: bytes
    lun: int

    def __str__(self) -> str:
        return f'command {self.netfn:02X}h/{self.command:02X}h'

    @property
    def carried(self) -> bytes | None:
        """Of Send Message with the request to see to the answer: the message to the controller behind."""
        tracked = (self.netfn, self.command) == (NetFn.APP, _SEND_MESSAGE) and self.data[:1] and self.data[0] & 0xC0 == 0x40
        return self.data[1:] if tracked and len(self.data) >= 8 else None

    def answered(self, answer: _Answer, sequence: int) -> Reply | None:
        """What a message says to it; None: it is about something else."""
        inner = self.carried
        if answer.sender == bridge.BMC:
            mine = (answer.netfn, answer.command, answer.sequence) == (self.netfn | 1, self.command, sequence)
            return Reply(answer.code, answer.data) if mine and answer.to == _CONSOLE else None
        if inner is None or (answer.sender, answer.netfn, answer.command) != (inner[0], inner[1] >> 2 | 1, inner[5]):
            return None
        # Some BMCs give back the sequence number of what was carried, others that of what carried it; and some leave the
        # address on it that it had on the bus (OpenIPMI's ipmi_sim 2.0.33).
        mine = answer.to in (_CONSOLE, inner[3]) and answer.sequence in (inner[4] >> 2, sequence)
        return Reply(Code.OK, answer.whole) if mine else None


# ------------------------------------------------------------------------------------------------- as many as it takes


class Sessions:
    """A :class:`~baremetal_acc.bmc.ipmi.wire.Raw` that logs in when there is something to send and no session to send it in.

    That is so at first, when the session has idled, and after silence, which is all that is left of a session when a BMC has
    restarted. Between two sessions nothing is sent again.

    :ivar stopped: whoever waits is to give up. It may be set by any thread.
    """

    longest = LONGEST

    def __init__(
        self, there: Place, privilege: Privilege = Privilege.OPERATOR, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.label = there.label
        self.stopped = False
        self._there = there
        self._privilege = privilege
        self._clock = clock
        self._lock = threading.RLock()
        self._session: Session | None = None
        self._until = float('inf')
        self._refused: BmcNotAuthorised | None = None

    def __enter__(self) -> 'Sessions':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> Reply:
        """Send a command and wait for the answer.

        :raises BmcError: as by :class:`Session`, by its making too.
        """
        with self._lock:
            session = self.ready()
            try:
                return session(netfn, command, data, lun=lun, once=once, within=within)
            except (BmcUnreachable, BmcAnswerInvalid):
                self.close()
                raise

    def ready(self) -> Session:
        """The session, after a login where that is needed.

        :raises BmcError: it cannot be opened. Credentials that were refused are not tried again: it locks users out.
        """
        with self._lock:
            if self._refused is not None:
                raise self._refused
            if self._session is not None and self._clock() - self._session.idle_since > IDLE:
                self.close()
            if self._session is None:
                left = self._until - self._clock()
                budget = None if left == float('inf') else timedelta(seconds=max(0.0, left))
                try:
                    self._session = Session(
                        self._there, self._privilege, budget=budget, clock=self._clock, stopped=lambda: self.stopped
                    )
                except BmcNotAuthorised as exc:
                    self._refused = exc
                    raise
            self._session.until = self._until
            return self._session

    @contextmanager
    def limited(self, budget: timedelta) -> Iterator[None]:
        """Use no more than this time for what is done within."""
        before, self._until = self._until, self._clock() + budget.total_seconds()
        try:
            yield
        finally:
            self._until = before

    def close(self) -> None:
        """Log out. Never fails; another command would log in again."""
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None

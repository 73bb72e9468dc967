# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""IPMI sessions over LAN (RMCP+): log in, send commands, retransmit, and close, with a socket and loop of our own.

A session has a socket that is connected to its BMC, and reads it in the calling thread (or greenlet of
:mod:`baremetal_acc.wait`). No command is carried over into another session, and a command that may be sent only once is sent
only once. Send Message is a command like any other, whose second answer is waited for.

Source: IPMI 2.0 revision 1.1, sections 6.12, 6.13 and 22.13 to 22.20;
doc/source/reference/ipmi_notes.rst, "Sessions of pyghmi".
"""

import itertools
import logging
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from baremetal_acc import wait
from baremetal_acc.bmc import pending
from baremetal_acc.bmc.ipmi.command import CommandReply, CompletionCode, NetFn, refusal
from baremetal_acc.bmc.ipmi.endpoint import Endpoint, LoginPrivilege
from baremetal_acc.bmc.ipmi.response_message import parsed
from baremetal_acc.bmc.ipmi.rmcp import PacketCodec, below
from baremetal_acc.bmc.ipmi.session_command import SEND_MESSAGE, SessionCommand
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnreachable

LOG = logging.getLogger(__name__)

LONGEST = 1400
"""Maximum bytes of data in a request: as many as one Ethernet frame takes, since firewalls drop fragments.

1500, less IPv4 and UDP (28), RMCP (4), the header (12), padding, next header and a check value of 16 bytes (at most 21): 1435
for the encrypted part, which is an initialisation vector of 16 bytes and blocks of 16: 1408, less one for its padding, less 7
of the message.
"""

MOST_STRANGE = 1000
"""Maximum number of datagrams during one command that are no answer to it: checking them takes about 20 ms. Anybody may have
sent them, so the error is that the BMC cannot be reached, not that its answer is invalid.
"""

_LARGEST = 8192
"""Maximum bytes of a datagram that are read. Except with HPM.2, the largest answer has a tenth of this."""

_MOMENT = 0.001
"""Resolution of waiting, in seconds."""

_FIRST_PAUSE, _SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 0.1, 2.0
"""Seconds before a retransmission: initially; the minimum, for a BMC known to be fast; and the maximum
after several of them.
"""

_BRIDGE_PAUSE = 1.0
"""Seconds before Send Message is retransmitted once the BMC has forwarded it: the bus behind is slow."""

_SLICE = 0.25
"""Seconds after which a wait checks whether it was stopped."""

_GOODBYE, _SHORT_GOODBYE = 1.0, 0.3
"""Timeouts for Close Session, in seconds: normally, and for a BMC that no longer answers."""

_ENDED = 63.0
"""Seconds of idling after which the BMC has ended the session itself, and does not answer Close Session. Source: IPMI 2.0
revision 1.1, section 6.12.15: 60 s, give or take 3.
"""

_REPEATS = 2
"""How often a message of the handshake is retransmitted before a new handshake is begun."""

_REFUSALS = 2
"""Number of ICMP errors after which the address counts as unreachable."""

_ABOVE_LIMIT = frozenset({0x80, 0x81, 0x82, CompletionCode.PRIVILEGE})
"""Completion codes of Set Session Privilege Level. Source: section 22.18."""
_SET_PRIVILEGE, _CLOSE = 0x3B, 0x3C
_HINT = 'check address, network and power of the BMC'


class RmcpSession:
    """A :class:`~baremetal_acc.bmc.ipmi.command.Raw` over one session. Use it as a context manager: leaving it logs out.

    Different sessions may be used by different threads. A session is used by one thread at a time; others wait.

    :ivar idle_since: when the BMC answered last, by ``clock``.
    :ivar until: when the session may no longer be used, by ``clock``.
    """

    longest = LONGEST

    def __init__(
        self,
        there: Endpoint,
        privilege: LoginPrivilege = LoginPrivilege.OPERATOR,
        *,
        budget: timedelta | None = None,
        clock: Callable[[], float] = time.monotonic,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Log in.

        :param budget: for the whole session, including the login; None: no limit.
        :param stopped: whether pending commands have to give up; asked again at least every :data:`_SLICE` seconds of a wait.
        :raises BmcUnreachable: no answer, or no such host.
        :raises BmcNotAuthorised: wrong credentials, or the user lacks the wanted privilege.
        :raises BmcUnsupported: the BMC does not offer the cipher suite, or no IPMI 2.0.
        :raises BmcBusy: the BMC has no free session.
        :raises BmcAnswerInvalid: what answers is no such BMC.
        """
        self.label = there.label
        self._there = there
        self._clock = clock
        self._stopped = stopped
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        self._refusals = 0
        self._rtt: float | None = None
        self._silent = False
        self.idle_since = clock()
        self.until = float('inf') if budget is None else clock() + budget.total_seconds()
        self._codec = PacketCodec(there, privilege)
        try:
            self._log_in()
            self._be(privilege)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> 'RmcpSession':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command and wait for the answer.

        For Send Message, the data of the reply is the whole answer of the controller behind, if that arrives as a message of
        its own.

        :raises BmcUnreachable: no answer came, or more than :data:`MOST_STRANGE` datagrams that are no answer. Whether a
            command with ``once`` was executed is not known.
        """
        if len(data) > self.longest:
            return CommandReply(CompletionCode.LENGTH_EXCEEDED)
        with self._lock:
            within = self._there.answer if within is None else within
            asked = SessionCommand(netfn, command, bytes(data), lun, once, within.total_seconds())
            if asked.carried is None:
                reply = self._asked(asked)
            else:
                number = self._codec.following
                reply = replace(self._asked(asked.numbered(number)), number=number)
        LOG.debug('%s: %02Xh/%02Xh: %02Xh', self.label, netfn, command, reply.code)
        return reply

    def series(
        self, netfn: int, command: int, requests: Iterable[bytes], taken: Callable[[CommandReply], bool]
    ) -> CommandReply | None:
        """As :func:`~baremetal_acc.bmc.ipmi.command.series`: the next packet is encoded while the answer to the last is
        awaited.

        :raises BmcError: as by a call.
        """
        left = iter(requests)
        data = next(left, None)

        def meanwhile() -> None:
            nonlocal data
            data = next(left, None)
            if data is not None and len(data) <= self.longest:
                self._codec.prepare(netfn, command, data, 0)

        with self._lock:
            within = self._there.answer.total_seconds()
            while data is not None:
                if len(data) > self.longest:
                    return CommandReply(CompletionCode.LENGTH_EXCEEDED)
                reply = self._asked(SessionCommand(netfn, command, data, 0, False, within), meanwhile)
                LOG.debug('%s: %02Xh/%02Xh: %02Xh', self.label, netfn, command, reply.code)
                if not taken(reply):
                    return reply
        return None

    def close(self) -> None:
        """Log out. Never fails: the BMC also ends sessions by itself."""
        with self._lock:
            if self._socket is None:
                return
            self.until, self._stopped = float('inf'), lambda: False
            number = struct.pack('<I', self._codec.sessionid)
            if self._codec.established and self._clock() - self.idle_since < _ENDED:
                with suppress(BmcError):
                    self._asked(
                        SessionCommand(NetFn.APP, _CLOSE, number, 0, False, _SHORT_GOODBYE if self._silent else _GOODBYE)
                    )
            self._socket.close()
            self._socket = None

    # -- login --------------------------------------------------------------------------------------------------------

    def _log_in(self) -> None:
        """Do the handshake, with each address of the host in turn."""
        places = self._resolved()
        until = min(self.until, self._clock() + self._there.login.total_seconds())
        for left, (family, address) in zip(range(len(places), 0, -1), places, strict=True):
            share = self._clock() + (until - self._clock()) / left
            try:
                self._connect(family, address)
                with pending.waiting(self.label, 'the login', share - self._clock()):
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
            raise BmcUnreachable(bmc=self.label, what=f'the host name cannot be resolved: {why}', hint=_HINT) from exc

    def _connect(self, family: int, address: tuple[object, ...]) -> None:
        if self._socket is not None:
            self._socket.close()
        self._refusals = 0
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._socket.connect(address)  # from now on the kernel drops datagrams from other addresses
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
        except OSError as exc:
            raise self._gone(f'not reachable: {exc.strerror}') from exc

    def _shake_hands(self, until: float) -> None:
        """Exchange the messages of the handshake: retransmit unanswered ones, and after some retransmissions begin a new
        handshake.
        """
        codec = self._codec
        self._send(codec.begin())
        pace = _Pace(self._clock(), _FIRST_PAUSE)
        repeats = strange = 0
        for datagram in self._heard(until, pace):
            strange += datagram is not None
            if strange > MOST_STRANGE:
                raise self._gone(f'more than {MOST_STRANGE} datagrams received that do not answer the login')
            if datagram is not None and codec.hear(datagram):
                if codec.failure is not None:
                    raise codec.failure
                if codec.established:
                    return
                if not codec.stale:  # a stale handshake is restarted when the next retransmission is due
                    self._send(codec.outgoing)
                    pace.anew(self._clock())
                    repeats = 0
            elif self._clock() >= pace.due:
                self._settle()
                repeats += 1
                self._send(codec.begin() if codec.stale or repeats > _REPEATS else codec.repeated())
                repeats %= _REPEATS + 1
                pace.sent(self._clock())
        if self._stopped() or self._clock() >= self.until:
            self._give_up()
        self._settle()
        if codec.odd is not None:
            raise BmcAnswerInvalid(bmc=self.label, what=f'invalid answer to the login: {codec.odd}', hint='check the address')
        raise self._gone(f'no answer to the login in {self._there.login.total_seconds():g} s')

    def _settle(self) -> None:
        """:raises BmcError: the only answer was a refusal."""
        self._codec.settle()
        if self._codec.failure is not None:
            raise self._codec.failure

    def _be(self, privilege: LoginPrivilege) -> None:
        """Set the session's privilege level. A session begins with the level User, whatever was requested."""
        reply = self(NetFn.APP, _SET_PRIVILEGE, bytes([privilege]))
        what = 'Set Session Privilege Level'
        if reply.code in _ABOVE_LIMIT:
            raise below(self.label, f'{what}: refused ({reply.code:02X}h)', privilege)
        if not reply.ok:
            raise refusal(self, what, reply)
        if not reply.data or reply.data[0] & 0x0F != privilege:
            raise below(self.label, f'{what}: the BMC set another level', privilege)

    # -- commands -----------------------------------------------------------------------------------------------------

    def _asked(self, asked: SessionCommand, meanwhile: Callable[[], None] | None = None) -> CommandReply:
        """Send a command, and retransmit it where that is allowed, until it is answered.

        :param meanwhile: called about half-way through the expected answer time: a process that has just run has warm processor
            caches when the answer comes.
        """
        began = self._clock()
        if self._socket is None:
            raise BmcUnreachable(bmc=self.label, what=f'{asked}: the session is closed', sent=False)
        if self._stopped() or began >= self.until:
            self._give_up(sent=False)
        until = min(began + asked.within, self.until)
        self._refusals = 0
        self._send(self._codec.encode(asked.netfn, asked.command, asked.data, asked.lun))
        pace = _Pace(began, _FIRST_PAUSE if self._rtt is None else max(_SHORTEST_PAUSE, min(4 * self._rtt, _FIRST_PAUSE)))
        if asked.once:
            pace.due = until
        if meanwhile is not None:
            if self._rtt is not None and self._rtt >= 2 * _MOMENT:
                self._wait(self._rtt / 2)
            meanwhile()
        # The answer is nearly always the first datagram; it is then returned without the loop, which costs 10 microseconds.
        # (The message that Send Message carries is answered by a message of its own.)
        first = self._first(min(until, pace.due) - self._clock())
        if first and self._codec.answers(first) and asked.command != SEND_MESSAGE:
            self.idle_since = self._clock()
            self._learn(self.idle_since - began)
            return CommandReply(first[6], first[7:-1])
        with pending.waiting(self.label, f'{asked}', until - began):
            return self._waited_for(asked, began, until, pace, first)

    def _first(self, seconds: float) -> bytes | None:
        """The message in the first datagram, b'' if it holds none; None: nothing has arrived yet."""
        datagram = self._received() if self._wait(seconds) else None
        return None if datagram is None else self._codec.opened(datagram)

    def _waited_for(
        self, asked: SessionCommand, began: float, until: float, pace: '_Pace', first: bytes | None
    ) -> CommandReply:
        """Wait for the answer, when it is not plainly the first message that arrived."""
        codec, sends, passed_on, strange = self._codec, 1, False, 0
        sequence = codec.seqlun
        further = (None if datagram is None else codec.opened(datagram) for datagram in self._heard(until, pace))
        for message in further if first is None else itertools.chain((first,), further):
            now = self._clock()
            if message is not None:
                answer = parsed(message)
                if answer is not None:
                    self.idle_since = now
                reply = None if answer is None else asked.answered(answer, sequence)
                if reply is None:
                    strange += 1
                    if strange > MOST_STRANGE:
                        told = f'{asked}: more than {MOST_STRANGE} datagrams received that do not answer the command'
                        raise self._gone(told + _unsure(asked.once))
                elif reply.ok and not reply.data and asked.carried is not None:
                    passed_on = True  # the answer of the controller behind is a message of its own
                    pace.slow(now)
                else:
                    self._learn(now - began if sends == 1 and asked.carried is None else None)
                    return reply if sends == 1 else replace(reply, again=True)
            if now >= pace.due and not asked.once:
                self._send(codec.repeated())
                sends += 1
                pace.sent(now)
        if passed_on:
            return CommandReply(CompletionCode.OK)
        self._silent = True
        if self._stopped() or self._clock() >= self.until:
            self._give_up(asked.once)
        raise self._gone(f'{asked}: no answer in {asked.within:g} s{_unsure(asked.once)}')

    def _learn(self, taken: float | None) -> None:
        """Update the round-trip time. After a retransmission it is unknown, since nobody knows which copy was answered."""
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
                return  # treated like a lost packet
            except OSError as exc:
                self._unreached(exc)  # not sent: the error may be about an earlier packet, so try again

    def _heard(self, until: float, pace: '_Pace') -> Iterator[bytes | None]:
        """Datagrams that arrive until then, and None (or a datagram) whenever a retransmission is due."""
        while not self._stopped():
            now = self._clock()
            if now >= until:
                return
            if now >= pace.due:
                yield self._received()
            elif self._wait(min(until, pace.due) - now):
                datagram = self._received()
                if datagram is not None:
                    yield datagram

    def _received(self) -> bytes | None:
        """A datagram that has already arrived, or None."""
        assert self._socket is not None  # noqa: S101 - as in _send
        try:
            return self._socket.recv(_LARGEST)
        except BlockingIOError:
            return None
        except OSError as exc:
            self._unreached(exc)
            return None

    def _wait(self, seconds: float) -> bool:
        """Wait for a datagram; False: none has arrived."""
        assert self._socket is not None  # noqa: S101 - as in _send
        seconds = min(max(seconds, 0.0005), _SLICE)
        hub = wait.hub()
        if hub is None:
            return bool(self._poll.poll(seconds * 1000))
        hub.for_socket(self._socket.fileno(), wait.READ, seconds)
        return True

    def _unreached(self, exc: OSError) -> None:
        """Count an ICMP error of the network. The first one is ignored, since it may be wrong.

        :raises BmcUnreachable: it was reported again.
        """
        self._refusals += 1
        if self._refusals >= _REFUSALS:
            self._silent = True
            raise self._gone(f'not reachable: {exc.strerror}') from exc

    def _gone(self, what: str) -> BmcUnreachable:
        return BmcUnreachable(bmc=self.label, what=what, hint=_HINT)

    def _give_up(self, once: bool = False, sent: bool = True) -> None:
        """:raises BmcUnreachable: the session was stopped, or its time is used up."""
        why = 'the run was stopped' if self._stopped() else 'the time for the inspection is used up'
        raise BmcUnreachable(bmc=self.label, what=f'{"no answer" if sent else "not sent"}: {why}{_unsure(once)}', sent=sent)


class _Pace:
    """Schedule of retransmissions.

    :ivar due: when the next one is due, by the clock.
    """

    def __init__(self, now: float, pause: float) -> None:
        self._pause = pause
        self.due = now + pause

    def sent(self, now: float) -> None:
        """A retransmission was sent: the next pause is longer."""
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self.due = now + self._pause

    def slow(self, now: float) -> None:
        """The BMC has forwarded the message, and the answer will take longer."""
        self._pause = max(self._pause, _BRIDGE_PAUSE)
        self.due = max(self.due, now + self._pause)

    def anew(self, now: float) -> None:
        """Another message is sent: start with the first pause."""
        self._pause = _FIRST_PAUSE
        self.due = now + self._pause


def _unsure(once: bool) -> str:
    return '; the command was sent once, and whether it was executed is unknown' if once else ''

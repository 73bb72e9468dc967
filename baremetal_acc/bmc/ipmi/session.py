# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is a session with one BMC opened, kept and closed? RMCP+ with a socket and a loop of our own.

A session has a socket, connected to its BMC, and reads it in the thread (or the greenlet of :mod:`baremetal_acc.wait`)
that asked. Nothing that was sent ever gets into another session, and a command that is to be sent once is. Send Message is a
command like others, whose second answer is waited for.

Source: IPMI 2.0 revision 1.1, sections 6.12, 6.13 and 22.13 to 22.20; facts/ipmi.md, section 5.
"""

import itertools
import logging
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from baremetal_acc import wait
from baremetal_acc.bmc import pending
from baremetal_acc.bmc.ipmi import bridge
from baremetal_acc.bmc.ipmi.place import Place, Privilege
from baremetal_acc.bmc.ipmi.rmcp import Answer, Codec, below, parsed, sound
from baremetal_acc.bmc.ipmi.wire import Code, NetFn, Reply, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcNotAuthorised, BmcUnreachable

LOG = logging.getLogger(__name__)

IDLE = 20.0
"""Seconds after which a session is not used again: BMCs end those that idle after 30 to 60 s, and say nothing."""

LONGEST = 1400
"""Bytes of data in a request: as many as one Ethernet frame takes, since fragments get lost in firewalls.

1500, less IPv4 and UDP (28), RMCP (4), the header (12), filling, next header and a check of 16 bytes (at most 21): 1435 for the
encrypted part, which is 16 bytes of its start and blocks of 16: 1408, less one for its padding, less 7 of the message.
"""

MOST_STRANGE = 1000
"""Datagrams that answer nothing, during one command: checking them takes about 20 ms. Anybody may have sent them: the BMC
cannot be heard among them, and has said nothing wrong.
"""

_LARGEST = 8192
"""Bytes of a datagram that is looked at. The largest answer there is takes a tenth of it, but for HPM.2."""

_MOMENT = 0.001
"""Seconds: waiting knows no less."""

_FIRST_PAUSE, _SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 0.1, 2.0
"""Seconds before something is sent again: at first; when the BMC is known to be fast; and when it was sent often."""

_BRIDGE_PAUSE = 1.0
"""Seconds before Send Message is sent again once the BMC has passed it on: the bus behind it is slow."""

_SLICE = 0.25
"""Seconds after which whoever waits looks whether it was told to stop."""

_GOODBYE, _SHORT_GOODBYE = 1.0, 0.3
"""Seconds for closing a session, and one of a BMC that has fallen silent."""

_ENDED = 63.0
"""Seconds of idling after which the BMC has ended the session itself: it answers no goodbye. Source: IPMI 2.0 revision 1.1,
section 6.12.15: 60 s, give or take 3."""

_REPEATS = 2
"""How often a message of the handshake is sent again before another handshake is begun."""

_REFUSALS = 2
"""ICMP errors after which nobody is there."""

_ABOVE_LIMIT = frozenset({0x80, 0x81, 0x82, Code.PRIVILEGE})
"""Of Set Session Privilege Level. Source: section 22.18."""

_CONSOLE = 0x81
_SET_PRIVILEGE, _CLOSE, _SEND_MESSAGE = 0x3B, 0x3C, 0x34
_HINT = 'check address, network and power of the BMC'


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
        self._poll = select.poll()
        self._refusals = 0
        self._rtt: float | None = None
        self._silent = False
        self.idle_since = clock()
        self.until = float('inf') if budget is None else clock() + budget.total_seconds()
        self._codec = Codec(there, privilege)
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
            asked = _Asked(netfn, command, bytes(data), lun, once, within.total_seconds())
            if asked.carried is None:
                reply = self._asked(asked)
            else:
                number = self._codec.following
                reply = replace(self._asked(asked.numbered(number)), number=number)
        LOG.debug('%s: %02Xh/%02Xh: %02Xh', self.label, netfn, command, reply.code)
        return reply

    def series(self, netfn: int, command: int, requests: Iterable[bytes], taken: Callable[[Reply], bool]) -> Reply | None:
        """As :func:`~baremetal_acc.bmc.ipmi.wire.series`: the next packet is made while the answer to the last is waited for.

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
                    return Reply(Code.LENGTH_EXCEEDED)
                reply = self._asked(_Asked(netfn, command, data, 0, False, within), meanwhile)
                LOG.debug('%s: %02Xh/%02Xh: %02Xh', self.label, netfn, command, reply.code)
                if not taken(reply):
                    return reply
        return None

    def close(self) -> None:
        """Log out. Never fails: the BMC ends sessions by itself, too."""
        with self._lock:
            if self._socket is None:
                return
            self.until, self._stopped = float('inf'), lambda: False
            number = struct.pack('<I', self._codec.sessionid)
            if self._codec.established and self._clock() - self.idle_since < _ENDED:
                with suppress(BmcError):
                    self._asked(_Asked(NetFn.APP, _CLOSE, number, 0, False, _SHORT_GOODBYE if self._silent else _GOODBYE))
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
            raise BmcUnreachable(bmc=self.label, what=f'its address cannot be found: {why}', hint=_HINT) from exc

    def _connect(self, family: int, address: tuple[object, ...]) -> None:
        if self._socket is not None:
            self._socket.close()
        self._refusals = 0
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._socket.connect(address)  # from now on the kernel drops what comes from elsewhere
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
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
                raise self._gone(f'more than {MOST_STRANGE} datagrams came that are no answer to the login')
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
                self._settle()
                repeats += 1
                self._send(codec.begin() if codec.stale or repeats > _REPEATS else codec.repeated())
                repeats %= _REPEATS + 1
                pace.sent(self._clock())
        if self._stopped() or self._clock() >= self.until:
            self._give_up()
        self._settle()
        if codec.odd is not None:
            raise BmcAnswerInvalid(
                bmc=self.label, what=f'the login is not answered as it should be: {codec.odd}', hint='check the address'
            )
        raise self._gone(f'no answer to the login in {self._there.login.total_seconds():g} s')

    def _settle(self) -> None:
        """:raises BmcError: all that came is a refusal."""
        self._codec.settle()
        if self._codec.failure is not None:
            raise self._codec.failure

    def _be(self, privilege: Privilege) -> None:
        """A session begins as that of a user, whatever was asked for."""
        reply = self(NetFn.APP, _SET_PRIVILEGE, bytes([privilege]))
        what = 'Set Session Privilege Level'
        if reply.code in _ABOVE_LIMIT:
            raise below(self.label, f'{what}: refused ({reply.code:02X}h)', privilege)
        if not reply.ok:
            raise refusal(self, what, reply)
        if not reply.data or reply.data[0] & 0x0F != privilege:
            raise below(self.label, f'{what}: it gave another one', privilege)

    # -- commands -----------------------------------------------------------------------------------------------------

    def _asked(self, asked: '_Asked', meanwhile: Callable[[], None] | None = None) -> Reply:
        """Send a command, and again where that may be, until it is answered.

        :param meanwhile: done half-way to the answer, as long as the BMC usually takes: of a process that has just been awake
            the processor's caches know more when the answer comes.
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
        # It is nearly always what comes first, and is then taken without the loop, which costs 10 microseconds.
        # (What Send Message carries is answered by a message of its own.)
        first = self._first(min(until, pace.due) - self._clock())
        if first and self._codec.answers(first) and asked.command != _SEND_MESSAGE:
            self.idle_since = self._clock()
            self._learn(self.idle_since - began)
            return Reply(first[6], first[7:-1])
        with pending.waiting(self.label, f'{asked}', until - began):
            return self._waited_for(asked, began, until, pace, first)

    def _first(self, seconds: float) -> bytes | None:
        """The message in the first datagram, b'' where that is none; None: nothing has come yet."""
        datagram = self._received() if self._wait(seconds) else None
        return None if datagram is None else self._codec.opened(datagram)

    def _waited_for(self, asked: '_Asked', began: float, until: float, pace: '_Pace', first: bytes | None) -> Reply:
        """The answer, when it is not plainly the first message that came."""
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
                        told = f'{asked}: more than {MOST_STRANGE} datagrams came that answer nothing'
                        raise self._gone(told + _unsure(asked.once))
                elif reply.ok and not reply.data and asked.carried is not None:
                    passed_on = True  # what the controller behind answers is a message of its own
                    pace.slow(now)
                else:
                    self._learn(now - began if sends == 1 and asked.carried is None else None)
                    return reply if sends == 1 else replace(reply, again=True)
            if now >= pace.due and not asked.once:
                self._send(codec.repeated())
                sends += 1
                pace.sent(now)
        if passed_on:
            return Reply(Code.OK)
        self._silent = True
        if self._stopped() or self._clock() >= self.until:
            self._give_up(asked.once)
        raise self._gone(f'{asked}: no answer in {asked.within:g} s{_unsure(asked.once)}')

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
            if now >= pace.due:
                yield self._received()
            elif self._wait(min(until, pace.due) - now):
                datagram = self._received()
                if datagram is not None:
                    yield datagram

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

    def _wait(self, seconds: float) -> bool:
        """Wait for a datagram; whether there may be one."""
        assert self._socket is not None  # noqa: S101 - as in _send
        seconds = min(max(seconds, 0.0005), _SLICE)
        hub = wait.hub()
        if hub is None:
            return bool(self._poll.poll(seconds * 1000))
        hub.for_socket(self._socket.fileno(), wait.READ, seconds)
        return True

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

    def _give_up(self, once: bool = False, sent: bool = True) -> None:
        """:raises BmcUnreachable: nobody wants to wait any longer."""
        why = 'the run was stopped' if self._stopped() else 'the time for one look is used up'
        raise BmcUnreachable(bmc=self.label, what=f'not asked any more: {why}{_unsure(once)}', sent=sent)


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


class _Asked(NamedTuple):
    """A command that was sent. There is one for each packet, and this kind is made in a third of the time.

    :ivar once: it may not be sent again.
    :ivar within: seconds that it is given.
    """

    netfn: int
    command: int
    data: bytes
    lun: int
    once: bool
    within: float

    def __str__(self) -> str:
        return f'command {self.netfn:02X}h/{self.command:02X}h'

    @property
    def carried(self) -> bytes | None:
        """Of Send Message with the request to see to the answer: the message to the controller behind."""
        tracked = (self.netfn, self.command) == (NetFn.APP, _SEND_MESSAGE) and self.data[:1] and self.data[0] & 0xC0 == 0x40
        return self.data[1:] if tracked and len(self.data) >= 8 else None

    def numbered(self, sequence: int) -> '_Asked':
        """What is carried gets the sequence number of what carries it.

        Some BMCs give back the one, others the other. Were they two, a late answer to the command before could have the number
        that this one is known by; and two bridges to one controller may have begun with the same.
        """
        inner = self.data[4:-1]
        inner = inner[:1] + bytes((sequence << 2 | inner[1] & 0x03,)) + inner[2:]
        return self._replace(data=self.data[:4] + inner + bytes((-sum(inner) & 0xFF,)))

    def answered(self, answer: Answer, sequence: int) -> Reply | None:
        """What a message says to it; None: it is about something else."""
        inner = self.carried
        if answer.sender == bridge.BMC:
            mine = (answer.netfn, answer.command, answer.sequence) == (self.netfn | 1, self.command, sequence)
            return Reply(answer.code, answer.data) if mine and answer.to == _CONSOLE else None
        # Nor does the BMC speak for a controller behind, though other clients take that by sequence number and command: a late
        # answer of its own, such as its Device ID, has one of 64 numbers too, and would be taken for that of a card.
        if inner is None or (answer.sender, answer.netfn, answer.command) != (inner[0], inner[1] >> 2 | 1, inner[5]):
            return None
        # Some leave the address on it that it had on the bus (OpenIPMI's ipmi_sim 2.0.33).
        mine = answer.to in (_CONSOLE, inner[3]) and answer.sequence == sequence
        return Reply(Code.OK, answer.whole) if mine and sound(answer.whole) else None


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

    def series(self, netfn: int, command: int, requests: Iterable[bytes], taken: Callable[[Reply], bool]) -> Reply | None:
        """As :func:`~baremetal_acc.bmc.ipmi.wire.series`, all of it in one session.

        :raises BmcError: as by :class:`Session`, by its making too.
        """
        with self._lock:
            session = self.ready()
            try:
                return session.series(netfn, command, requests, taken)
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
                except BmcUnreachable as exc:
                    exc.sent = False
                    raise
            self._session.until = self._until
            return self._session

    @contextmanager
    def limited(self, budget: timedelta) -> Iterator[None]:
        """Use no more than this time for what is done within, nor more than was left before."""
        before, self._until = self._until, min(self._until, self._clock() + budget.total_seconds())
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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions with emulated BMCs over UDP: good ones, slow ones, hostile ones. What pyghmi would do wrong is shown beside it.

The BMC is our emulator, which shares no code with the client, and which ipmitool and FreeIPMI speak to as well.
"""

import concurrent.futures
import hmac
import itertools
import logging
import re
import struct
import subprocess
import sys
import threading
import time
from datetime import timedelta
from operator import xor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from pyghmi.ipmi.private import session as pyghmi

from baremetal_acc import wait
from baremetal_acc.bmc import pending
from baremetal_acc.bmc.ipmi import bridge, packet_hmac, response_message, rmcp
from baremetal_acc.bmc.ipmi import endpoint as places
from baremetal_acc.bmc.ipmi import session as sessions
from baremetal_acc.bmc.ipmi.bridge import Bridge
from baremetal_acc.bmc.ipmi.command import CommandReply, CompletionCode, NetFn
from baremetal_acc.bmc.ipmi.device import identify
from baremetal_acc.bmc.ipmi.endpoint import LoginPrivilege, place
from baremetal_acc.bmc.ipmi.session import RmcpSession
from baremetal_acc.bmc.ipmi.session_renewal import RmcpSessions
from baremetal_acc.emulator.ipmi import controller as emulated
from baremetal_acc.emulator.ipmi.cipher_suites import SUITES
from baremetal_acc.emulator.ipmi.controller import IPMB, ControllerIdentity, EmulatedController
from baremetal_acc.emulator.ipmi.lan import LanLine, LanThread
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcError,
    BmcNoLogin,
    BmcNotAuthorised,
    BmcUnreachable,
    UsageError,
)

USER, PASSWORD = 'admin', 'Sixteen is it 16'
ODD = (0x30, 0x01)
"""A command of the emulated BMC that is not the same when it is done twice."""


class Site:
    """One emulated BMC on a port of its own.

    :ivar done: the data of each :data:`ODD` that was executed; ``then`` is called after each.
    :ivar meddle: what becomes of the answers to a datagram.
    """

    def __init__(self, lan, number=0, **more):
        self.line = LanLine(seed=11)
        self.users = Users()
        self.users.put(2, USER, PASSWORD.encode(), emulated.EmulatedPrivilege.ADMINISTRATOR)
        self.users.put(3, 'oper', b'the operator', emulated.EmulatedPrivilege.OPERATOR)
        self.users.put(4, 'user', b'a mere user', emulated.EmulatedPrivilege.USER)
        self.controller = EmulatedController(
            identity=ControllerIdentity(device_id=0x21, firmware=(2, 15)), guid=bytes(15) + bytes((number,))
        )
        self.controller.add(*ODD, self.odd, privilege=emulated.EmulatedPrivilege.USER, most=emulated.MANY)
        self.done, self.then = [], lambda: None
        self.endpoint = SessionEndpoint(self.controller, self.users, **more)
        self.meddle = lambda datagram, answers: answers
        self.port = lan.add(self, line=self.line)

    def odd(self, request):
        self.done.append(request.data)
        self.then()
        return bytes((len(self.done) % 256,)) + request.data

    def receive(self, datagram):
        return self.meddle(datagram, self.endpoint.receive(datagram))

    def place(self, **more):
        """For a login."""
        given = {'username': USER, 'password': PASSWORD, 'answer': timedelta(seconds=5)} | more
        return place('host (ipmi://127.0.0.1)', '127.0.0.1', port=self.port, **given)

    def login(self, privilege=LoginPrivilege.ADMINISTRATOR, *, budget=None, stopped=lambda: False, **more):
        """A session."""
        return RmcpSession(self.place(**more), privilege, budget=budget, stopped=stopped)


@pytest.fixture
def lan():
    """What serves the BMCs."""
    with LanThread() as thread:
        yield thread


@pytest.fixture
def site(lan):
    """A good BMC."""
    return Site(lan)


def in_session(datagram):
    """It is a packet of a session."""
    return datagram[5] == 0xC0


# ---------------------------------------------------------------------------------------------------------- login and logout


@pytest.mark.parametrize('suite', [17, 3])
@pytest.mark.parametrize(
    ('privilege', 'user'),
    [(LoginPrivilege.OPERATOR, ('oper', 'the operator')), (LoginPrivilege.ADMINISTRATOR, (USER, PASSWORD))],
)
def test_a_session_is_opened_used_and_closed(site, suite, privilege, user):
    """With both suites, as what was wanted and not more; afterwards the BMC has no session left."""
    username, password = user
    with site.login(privilege, suite=suite, username=username, password=password) as session:
        assert '2.15' == identify(session).firmware
        assert 1 == site.endpoint.sessions
        (active,) = site.endpoint._active.values()
        assert (privilege, suite) == (active.privilege, active.handshake.suite.number)
    assert 0 == site.endpoint.sessions


def test_a_session_is_closed_in_every_way_out(site):
    """An error inside, a privilege that the BMC does not give, closing twice."""
    opened = []

    def fails():
        with site.login() as session:
            opened.append((session, site.endpoint.sessions))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    ((session, count),) = opened
    assert 1 == count
    session.close()
    assert 0 == site.endpoint.sessions
    with pytest.raises(BmcUnreachable, match=r'command 06h/01h: the session is closed'):
        identify(session)
    site.controller.add(0x06, 0x3B, lambda _: b'\x02', privilege=emulated.EmulatedPrivilege.CALLBACK, least=1)
    with pytest.raises(BmcNotAuthorised, match='the BMC set another level: the user lacks the privilege administrator'):
        site.login()
    assert 0 == site.endpoint.sessions


def test_a_session_whose_bmc_fell_silent_is_closed_quickly(site):
    """Logging out is tried, and never raises."""
    session = site.login()
    site.line.silent = True
    with pytest.raises(BmcUnreachable):
        session(0x06, 0x01, within=timedelta(seconds=0.3))
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ('given', 'privilege', 'error', 'text'),
    [
        (
            {'password': 'wrong'},
            4,
            BmcNotAuthorised,
            'the password is wrong (RAKP 2) (check username and password; a BMC that needs',
        ),
        ({'username': 'nobody'}, 4, BmcNotAuthorised, 'RAKP 2: refused with status 0Dh: the user does not exist'),
        (
            {'username': 'oper', 'password': 'the operator'},
            4,
            BmcNotAuthorised,
            'RAKP 2: refused with status 0Ah: the user lacks the privilege administrator (grant the user the privilege',
        ),
        ({'username': 'user', 'password': 'a mere user'}, 3, BmcNotAuthorised, 'the user lacks the privilege operator'),
        (
            {'key': b'another'},
            4,
            BmcNotAuthorised,
            'the integrity check value of RAKP 4 is wrong: the BMC may have a key (K_G), but not',
        ),
    ],
)
def test_who_may_not_is_told_so_at_once(site, given, privilege, error, text):
    """Each by what the BMC said, with what to do; and no session is left behind."""
    began = time.monotonic()
    with pytest.raises(error) as caught:
        site.login(LoginPrivilege(privilege), **given)
    assert str(caught.value).startswith('BMC host (ipmi://127.0.0.1): ')
    assert text in str(caught.value)
    assert time.monotonic() - began < 12
    # With another K_G only the BMC takes the session for opened, and nobody has the keys to close it.
    assert ('key' in given) == site.endpoint.sessions


def test_a_bmc_with_a_key_of_its_own_wants_it(lan):
    """With K_G the session works; without it the message says which key is missing."""
    site = Site(lan, kg=b'key of the BMC')
    with site.login(key=b'key of the BMC') as session:
        identify(session)
    for key, told in (
        (None, 'the BMC has a key (K_G), but none was given (set the K_G of the BMC: '),
        (b'another', 'the BMC has a key (K_G), but not the one that was given (check the K_G of the '),
    ):
        with pytest.raises(BmcNotAuthorised) as caught:
            site.login(key=key)
        assert told in str(caught.value)
        assert caught.value.hint.endswith('of the BMC: secret_hex_kg_key')


def test_a_bmc_without_room_is_busy(site):
    """The seventeenth session; waiting can help."""
    held = [site.login() for _ in range(16)]
    with pytest.raises(BmcBusy, match='01h: no session is free') as caught:
        site.login()
    assert caught.value.waiting_helps
    for session in held:
        session.close()
    site.login().close()


@pytest.mark.parametrize(
    ('given', 'more', 'error', 'text', 'last'),
    [
        ({'username': 'nobody'}, {}, BmcNotAuthorised, 'RAKP 2: refused with status 0Dh: the user does not exist', 0x12),
        (
            {'username': 'user', 'password': 'a mere user'},
            {},
            BmcNotAuthorised,
            'the user lacks the privilege administrator',
            0x12,
        ),
        ({}, {'suites': (3,)}, BmcNoLogin, 'Open Session: refused with status 11h: the BMC does not support', 0x10),
        ({'key': b'another'}, {}, BmcNotAuthorised, 'RAKP 4: refused with status 0Fh: the BMC may have a key', 0x14),
    ],
)
def test_a_refusal_that_names_no_handshake_is_one(lan, given, more, error, text, last):
    """OpenBMC refuses with tag and session 0. It was taken for no answer, and one login became four that failed: a lock-out."""
    site, asked = Site(lan, tags_refusals=False, **more), []
    if last == 0x14:  # as OpenBMC would say it of what does not fit; ours lets the console find out
        site.endpoint._rakp3 = site.endpoint._serve[last] = lambda payload: (0x15, bytes((payload[0], 0x0F)) + payload[2:8])
    site.meddle = lambda datagram, answers: asked.append(datagram[5]) or answers
    with RmcpSessions(site.place(**given), LoginPrivilege.ADMINISTRATOR) as raw:
        for _ in range(3):
            with pytest.raises(error) as caught:
                raw.ready()
            assert text in str(caught.value)
    assert (1 if error is BmcNotAuthorised else 3) == asked.count(last)


@pytest.mark.parametrize('first', ['the refusal', 'the answer'])
def test_an_answer_counts_more_than_a_refusal_that_names_no_handshake(site, first):
    """Whoever guesses the port of a login can send such a one, and not what the login awaits. It is not acted upon."""

    def both(datagram, answers):
        forged = [a[:16] + bytes((0, 0x0D)) + bytes(38) for a in answers if a[5] in (0x11, 0x13, 0x15)]
        return forged + answers if first == 'the refusal' else answers + forged

    site.meddle = both
    site.login().close()


@pytest.mark.parametrize('changed', [(5, 0x13), (5, 0x15), (16, 0xFF), (17, 0), (20, 1)])
def test_what_is_no_refusal_of_what_is_awaited_is_dropped(changed):
    """It is about another stage, another tag, no refusal, or of another console."""
    codec, answer = talk(1)
    refusal = bytearray(answer[:5] + b'\x11' + bytes(8) + struct.pack('<H', 36) + b'\0\x11' + bytes(34))
    codec.hear(bytes(refusal))
    assert codec.failure is None
    codec.settle()
    assert '11h' in str(codec.failure)
    codec, answer = talk(1)
    place_of, value = changed
    refusal[place_of] = value
    codec.hear(bytes(refusal))
    codec.settle()
    assert codec.failure is None


def test_no_tag_is_that_of_a_refusal_without_one(monkeypatch):
    """Of what OpenBMC refuses the tag is 0."""
    monkeypatch.setattr(rmcp.secrets, 'randbelow', lambda most: 0)
    codec, _ = talk(1)
    assert codec.outgoing[16]


@pytest.mark.parametrize('suite', [0, 1, 2, 6, 7, 8, 11, 12, 15, 16, 18])
def test_weak_suites_are_refused_before_anything_is_sent(suite):
    """Also those that nobody knows."""
    with pytest.raises(UsageError, match=f'cipher suite: {suite} is not supported'):
        place('x', '127.0.0.1', username='a', password='b', suite=suite)


@pytest.mark.parametrize(
    'given',
    [
        {'password': 'x' * 21},
        {'password': ''},
        {'password': 'a\0b'},
        {'username': ''},
        {'username': 'x' * 17},
        {'key': b''},
        {'key': bytes(20)},
        {'key': bytes(21)},
    ],
)
def test_credentials_that_ipmi_cannot_carry_are_refused(given):
    """They would be cut short, and what is cut off protects nothing; the message does not repeat them."""
    with pytest.raises(UsageError) as caught:
        place('x', '127.0.0.1', **({'username': 'a', 'password': 'b'} | given))
    assert 'xxxx' not in str(caught.value)


def test_twenty_bytes_of_password_and_sixteen_of_name_are_taken(lan):
    """The most there is."""
    site = Site(lan)
    site.users.put(5, 'n' * 16, b'p' * 20, emulated.EmulatedPrivilege.ADMINISTRATOR)
    for suite in (17, 3):
        with site.login(username='n' * 16, password='p' * 20, suite=suite) as session:
            assert '2.15' == identify(session).firmware
            (active,) = site.endpoint._active.values()
            assert (b'n' * 16, suite) == (active.user.name, active.handshake.suite.number)
        with pytest.raises(BmcNotAuthorised):
            site.login(username='n' * 16, password='p' * 19, suite=suite)
    assert 0 == site.endpoint.sessions


def test_credentials_are_never_shown(site, caplog):
    """Not in what is logged at any level, not in a representation, not in errors and what they came from."""
    caplog.set_level(logging.DEBUG)
    key = b'K of the BMC'
    with site.login() as session:
        identify(session)
    with pytest.raises(BmcError) as wrong:
        site.login(password='Wrong and secret')
    with pytest.raises(BmcError) as keyed:
        site.login(key=key)
    shown = [
        caplog.text,
        repr(site.place(key=key)),
        repr(session),
        repr(session._codec),
        str(RmcpSessions(site.place()).__dict__),
    ]
    shown += [repr(e.value) + str(e.value) + repr(e.value.__cause__) for e in (wrong, keyed)]
    for text in shown:
        for secret in (PASSWORD, 'Wrong and secret', key.decode()):
            assert secret not in text
    assert '06h/01h: 00h' in caplog.text


# ------------------------------------------------------------------------------------------------------ which suite was agreed


def test_a_bmc_without_the_suite_is_refused_and_never_spoken_to_with_less(lan):
    """pyghmi goes on with suite 3. Here 3 has to be asked for."""
    site = Site(lan, suites=(3,))
    with pytest.raises(BmcNoLogin) as caught:
        site.login()
    assert 'the BMC does not support cipher suite 17 (cipher suite 3 (SHA-1) can be chosen for this BMC by ' in str(
        caught.value
    )
    assert caught.value.hint.endswith('this BMC by cipher_suite')
    with pytest.raises(
        BmcNoLogin, match=r'the BMC does not support cipher suite 3 \(leave out cipher_suite to use cipher suite 17; '
    ):
        Site(lan, suites=(17,)).login(suite=3)
    assert 'connected suite 1' in stock(site, "s = login(); print('connected suite', s.integrityalgo)")
    site.login(suite=3).close()


@pytest.mark.parametrize('place_of', [16, 24, 32])
def test_a_bmc_that_opens_with_other_algorithms_is_refused(site, place_of):
    """It says success, and means SHA-1, or no encryption at all."""

    def weaker(datagram, answers):
        changed = [bytearray(answer) for answer in answers]
        for answer in changed:
            if answer[5] == 0x11:
                answer[16 + place_of] = 0
        return [bytes(answer) for answer in changed]

    site.meddle = weaker
    with pytest.raises(BmcAnswerInvalid, match='which are not those of cipher suite 17'):
        site.login()


def test_a_bmc_of_ipmi_1_5_is_refused(site):
    """It does not offer 2.0; and one that does not know the question is asked to open a session anyway."""
    said = emulated.EmulatedPrivilege.CALLBACK
    site.controller.add(0x06, 0x38, lambda _: bytes((1, 0x04, 0x04, 0, 0, 0, 0, 0)), privilege=said, least=2)
    with pytest.raises(BmcNoLogin, match=r'the BMC supports IPMI 1\.5 only, which has no encryption'):
        site.login()
    site.controller.commands = {place: one for place, one in site.controller.commands.items() if place.command != 0x38}
    site.login().close()


def test_sha_1_lengths_after_sha_256_are_an_error_of_that_bmc_alone(lan):
    """pyghmi raises struct.error in whoever happens to read the packet."""
    bad, good = Site(lan), Site(lan, 1)
    bad.meddle = lambda _, answers: [shorter(a) if a[5] == 0x13 else a for a in answers]
    with good.login() as session:
        with pytest.raises(BmcAnswerInvalid) as caught:
            bad.login()
        assert 'RAKP 2 is too short (length 20, minimum 32 bytes for cipher suite 17)' in str(caught.value)
        identify(session)
    said = stock(bad, 'login()')
    assert 'struct.error' in said


def shorter(answer):
    """RAKP 2 with a proof of 20 bytes."""
    return answer[:14] + struct.pack('<H', 60) + answer[16:76]


# ---------------------------------------------------------------------------------------------------------- one after another


def tapped(site, meddle=lambda datagram, answers: answers):
    """Packets of a session that the BMC gets from now on."""
    packets = []

    def tap(datagram, answers):
        if in_session(datagram):
            packets.append(datagram)
        return meddle(datagram, answers)

    site.meddle = tap
    return packets


def numbers(packets):
    """Their sequence numbers."""
    return [int.from_bytes(packet[10:14], 'little') for packet in packets]


@pytest.mark.parametrize('delay', [0.0, 0.01])
@pytest.mark.parametrize('make', [Site.login, lambda site: RmcpSessions(site.place(), LoginPrivilege.ADMINISTRATOR)])
def test_a_series_is_as_one_after_another(site, make, delay):
    """Each is sent when the one before was answered, and only one is asked for ahead of that."""
    site.line.delay_seconds = delay
    with make(site) as raw:
        raw(*ODD, b'first')
        packets, heard, given = tapped(site), [], []

        def requests():
            for number in range(100):
                given.append(len(heard))
                yield bytes((number,))

        assert raw.series(*ODD, requests(), lambda reply: heard.append(reply.data) or True) is None
        assert [bytes((number + 2, number)) for number in range(100)] == heard
        assert [0, *range(99)] == given
        sent = numbers(packets)
        assert [*range(sent[0], sent[0] + 100)] == sent
        assert raw.series(*ODD, iter(()), None) is None


def test_a_series_ends_with_what_is_not_taken(site):
    """The next one was made already, and is never sent: not by another command, by the same one, nor by a repetition."""
    with site.login() as session:
        packets = tapped(site)
        data = [bytes((number,)) for number in range(5)]
        stopped = session.series(*ODD, data, lambda reply: reply.data[1] != 2)
        assert (CommandReply(0, b'\x03\x02'), data[:3]) == (stopped, site.done)
        assert data[3] == session._codec._ready.asked[2]
        assert '2.15' == identify(session).firmware
        assert b'\x04\x03' == session(*ODD, data[3]).data
        assert 5 == len(set(numbers(packets))) == len(packets)
        assert sorted(numbers(packets)) == numbers(packets)


def test_what_a_series_has_made_is_sent_after_what_it_repeats(site):
    """Every third answer is lost. BMCs may drop a packet whose number is behind one that they have had."""
    lost = iter(range(1000))
    with site.login(answer=timedelta(seconds=20)) as session:
        session._rtt = 0.001
        packets = tapped(site, lambda datagram, answers: answers if next(lost) % 3 else [])
        heard = []
        assert (
            session.series(*ODD, [bytes((number,)) for number in range(12)], lambda reply: heard.append(reply) or True) is None
        )
        assert [CommandReply(0, bytes((number + 1, number))) for number in range(12)] == heard
        assert len(packets) > 12
        assert sorted(set(numbers(packets))) == numbers(packets)
    assert 12 == len(site.done)


def test_a_series_whose_bmc_falls_silent_has_taken_what_came_before(site):
    """And a session of several that has fallen silent is not supported again."""
    with RmcpSessions(site.place(answer=timedelta(seconds=1)), LoginPrivilege.ADMINISTRATOR) as raw:
        heard = []
        site.then = lambda: setattr(site.line, 'silent', len(site.done) == 3)
        with pytest.raises(BmcUnreachable, match='command 30h/01h: no answer in 1 s'):
            raw.series(*ODD, [b'a', b'b', b'c', b'd'], lambda reply: heard.append(reply.data) or True)
        assert ([b'\x01a', b'\x02b'], [b'a', b'b', b'c']) == (heard, site.done)
        site.line.silent, site.then = False, lambda: None
        before = raw._session
        assert raw.series(*ODD, [b'd'], lambda reply: heard.append(reply.data) or True) is None
        assert b'\x04d' == heard[-1]
        assert before is None


def test_what_is_too_long_for_a_frame_ends_a_series(site):
    """It is not sent, and what was before it is."""
    with site.login() as session:
        long = bytes(70_000)
        assert [CommandReply(CompletionCode.LENGTH_EXCEEDED)] * 2 == [
            session(*ODD, bytes(session.longest + 1)),
            session(*ODD, long),
        ]
        assert CommandReply(CompletionCode.LENGTH_EXCEEDED) == session.series(*ODD, [b'a', long, b'b'], lambda reply: True)
        assert CommandReply(CompletionCode.LENGTH_EXCEEDED) == session.series(*ODD, [long], lambda reply: True)
        assert [b'a'] == site.done


def test_a_packet_that_was_made_is_for_that_command_alone():
    """Each part of it is compared, and it goes out once."""
    codec, _ = talk(4)
    for other in ((0x0A, 0x11, b'x', 1), (0x06, 0x12, b'x', 1), (0x06, 0x11, b'y', 1), (0x06, 0x11, b'x', 0)):
        codec.prepare(0x06, 0x11, b'x', 1)
        made = codec._ready.packet
        assert made != codec.encode(*other) == codec.outgoing
        assert made != codec.encode(0x06, 0x11, b'x', 1)
    codec.prepare(0x06, 0x11, b'x', 1)
    made, before = codec._ready.packet, codec.seqlun
    assert made == codec.encode(0x06, 0x11, b'x', 1) == codec.outgoing
    assert (before + 1) % 64 == codec.seqlun
    assert made != codec.repeated()
    assert made != codec.encode(0x06, 0x11, b'x', 1)
    codec.prepare(0x06, 0x11, b'x', 1)
    codec.begin()
    assert codec._ready is None, 'it is of a session that is over'


# --------------------------------------------------------------------------------------------------------------- lost and late


def test_what_is_lost_is_sent_again_and_done_once(site):
    """A fifth of all datagrams is lost, each way; the BMC has the answers of before, and commands are done once each."""
    site.line.loss = 0.2
    with site.login(answer=timedelta(seconds=20)) as session:
        session._rtt = 0.01  # as after some commands
        for number in range(20):
            assert CommandReply(0, bytes((number + 1, number))) == session(*ODD, bytes((number,)))
    assert [bytes((number,)) for number in range(20)] == site.done


def test_what_comes_twice_or_late_is_not_taken_for_another_answer(site):
    """Each answer comes again with the next one, and 64 commands later ahead of the right one, whose number it has."""
    kept = []

    def again(datagram, answers):
        kept.extend(answers)
        return [*kept[-65:-64], *answers, *kept[-3:-1]] if in_session(datagram) else answers

    site.meddle = again
    with site.login() as session:
        for number in range(200):
            assert number == session(*ODD, bytes((number,))).data[1]
    assert 200 == len(site.done)


def test_garbled_answers_are_dropped(site):
    """A bit is turned in every third datagram; nothing wrong is ever believed."""
    with site.login(answer=timedelta(seconds=20)) as session:
        session._rtt = 0.01
        site.line.garbled = 0.3
        for number in range(40):
            assert bytes((number,)) == session(*ODD, bytes((number,))).data[1:]
    assert 40 == len(site.done)


def test_an_answer_that_is_there_already_is_not_waited_for(site, monkeypatch):
    """pyghmi notices it up to a second late. Here nobody waits when there is something to read."""
    with site.login() as session:
        send = session._send

        def send_and_let_it_come(packet):
            send(packet)
            wait_for(lambda: readable(session._socket))

        monkeypatch.setattr(session, '_send', send_and_let_it_come)
        wait, waited = session._wait, []
        monkeypatch.setattr(session, '_wait', lambda seconds: waited.append(wait(seconds)) or waited[-1])
        monkeypatch.setattr(session, '_waited_for', None)  # what comes plainly and first needs no loop
        for _ in range(50):
            identify(session)
        assert [True] * 50 == waited, 'the first look at the socket finds it'


def readable(endpoint):
    """Something has come."""
    poll = sessions.select.poll()
    poll.register(endpoint, sessions.select.POLLIN)
    return poll.poll(0)


def wait_for(what, seconds=10):
    """Until it is so."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_a_slow_bmc_is_waited_for(site):
    """Each answer comes 0.3 s late: it is neither lost nor asked for a second time once that is known."""
    site.line.delay_seconds = 0.3
    with site.login() as session:
        for number in range(3):
            assert 1 + number == session(*ODD).data[0]
    assert 3 == len(site.done)


@pytest.mark.parametrize('once', [False, True])
def test_a_silent_bmc_costs_no_more_than_the_time_given(site, once):
    """The error says what was asked for, how long, and of what was sent once, that nobody knows."""
    session = site.login()
    site.then = lambda: setattr(site.line, 'silent', True)
    began = time.monotonic()
    with pytest.raises(BmcUnreachable) as caught:
        session(*ODD, b'x', once=once, within=timedelta(seconds=0.8))
    assert 0.8 <= time.monotonic() - began < 10
    unsure = '; the command was sent once, and whether it was executed is unknown' if once else ''
    expected = f'command 30h/01h: no answer in 0.8 s{unsure} (check address, network and power of the BMC)'
    assert f'BMC host (ipmi://127.0.0.1): {expected}' == str(caught.value)
    assert [b'x'] == site.done


def test_what_is_to_be_sent_once_is_sent_once(site):
    """Its answer is lost: pyghmi would send it again, and after another login again."""
    datagrams = []
    with site.login() as session:
        site.meddle = lambda datagram, answers: datagrams.append(datagram) or []
        with pytest.raises(BmcUnreachable):
            session(*ODD, once=True, within=timedelta(seconds=2))
        assert (1, 1) == (len(datagrams), len(site.done))
        del datagrams[:]
        with pytest.raises(BmcUnreachable):
            session(*ODD, within=timedelta(seconds=2))
        assert len(datagrams) > 2, 'what may be sent again is sent again'


def test_nothing_is_replayed_into_another_session(site):
    """The BMC restarts while it does the command. The next command logs in; the one before is not done again."""
    with RmcpSessions(site.place(), LoginPrivilege.ADMINISTRATOR) as raw:
        assert 1 == raw(*ODD).data[0]
        site.then, site.meddle = site.endpoint._restart, lambda datagram, answers: []
        with pytest.raises(BmcUnreachable, match='whether it was executed is unknown'):
            raw(*ODD, once=True, within=timedelta(seconds=1))
        site.meddle = lambda datagram, answers: answers
        for _ in range(20):
            assert '2.15' == identify(raw).firmware
        assert 2 == len(site.done)
    assert 0 == site.endpoint.sessions


def test_a_session_that_idled_is_not_used_again(lan):
    """The BMC has ended it and says nothing. By the clock we know, and log in first: nothing is lost, nothing waited for."""
    site = Site(lan, idle_seconds=2)
    now = [100.0]
    there = site.place(answer=timedelta(seconds=60))
    with RmcpSessions(there, LoginPrivilege.ADMINISTRATOR, clock=lambda: now[0] + time.monotonic()) as raw:
        identify(raw)
        time.sleep(2.1)
        now[0] += 28  # BMCs end sessions that idle after 30 s
        began = time.monotonic()
        assert 1 == raw(*ODD, once=True).data[0]
        assert time.monotonic() - began < 40


@pytest.mark.parametrize(('idled', 'goodbyes'), [(60.0, 1), (64.0, 0)])
def test_nobody_says_goodbye_to_a_session_that_the_bmc_has_ended(site, idled, goodbyes):
    """It ends those that idle for a minute, and answers nothing in them: the second for a goodbye would be waited in vain."""
    now, sent = [0.0], []
    site.meddle = lambda datagram, answers: sent.append(datagram) or answers
    raw = RmcpSessions(site.place(), clock=lambda: now[0] + time.monotonic())
    identify(raw)
    del sent[:]
    now[0] += idled
    raw.close()
    assert goodbyes == len(sent)


def test_credentials_that_were_refused_are_not_tried_again(site):
    """A BMC locks users out after a few attempts."""
    asked = []
    site.meddle = lambda datagram, answers: asked.append(datagram) or answers
    with RmcpSessions(site.place(password='wrong')) as raw:
        for _ in range(5):
            with pytest.raises(BmcNotAuthorised):
                identify(raw)
    assert 1 == len([d for d in asked if d[5] == 0x12])


def test_nobody_there_is_found_out_quickly(lan):
    """A closed port says so; a silent host does not; a name that is none has no address."""
    site = Site(lan)
    port, site.port = site.port, 1
    began = time.monotonic()
    with pytest.raises(BmcUnreachable, match='not reachable: Connection refused'):
        site.login()
    assert time.monotonic() - began < 12
    site.port, site.line.silent = port, True
    began = time.monotonic()
    with pytest.raises(BmcUnreachable, match='no answer to the login in 1 s'):
        site.login(login=timedelta(seconds=1))
    assert 1 <= time.monotonic() - began < 10
    with pytest.raises(BmcUnreachable, match='the host name cannot be resolved'):
        RmcpSession(place('x', 'no such host', username='a', password='b'))


def test_all_addresses_of_a_name_are_tried(site):
    """localhost is ::1 first, where nobody listens."""
    there = place('x', 'localhost', port=site.port, username=USER, password=PASSWORD)
    with RmcpSession(there) as session:
        assert '2.15' == identify(session).firmware
        assert ('127.0.0.1', site.port) == session._socket.getpeername()[:2]
        assert 1 == site.endpoint.sessions
    assert 0 == site.endpoint.sessions


@pytest.mark.parametrize('lost', [0x10, 0x12, 0x14])
def test_a_handshake_outlives_lost_messages(site, lost):
    """The first answer of a kind is lost; then, the answers to what is sent again too, so that it begins anew."""
    for often in (1, 3):
        count = []

        def lose(datagram, answers, count=count, often=often):
            if datagram[5] == lost:
                count.append(datagram)
                return [] if len(count) <= often else answers
            return answers

        site.meddle = lose
        site.login(login=timedelta(seconds=30)).close()
        assert len(count) > often


def test_a_handshake_that_the_bmc_has_forgotten_is_begun_anew(site):
    """It says so by its status; what it does not know is not sent to it again."""
    asked = []

    def forget(datagram):
        asked.append(datagram[5])
        if asked.count(0x12) == 1:
            site.endpoint._handshakes.clear()
        return site.endpoint.receive(datagram)

    site.meddle = lambda datagram, answers: answers
    site.receive = forget
    site.login().close()
    assert [0x10, 0x12, 0x10, 0x12, 0x14] == [kind for kind in asked if kind in (0x10, 0x12, 0x14)]


def test_the_budget_of_a_session_ends_it(site):
    """All of it, whatever a single command is given; closing still works."""
    with site.login(budget=timedelta(seconds=0.5)) as session:
        site.line.silent = True
        with pytest.raises(BmcUnreachable, match='no answer: the time for the inspection is used up'):
            session(0x06, 0x01, within=timedelta(seconds=30))
        with pytest.raises(BmcUnreachable, match='the time for the inspection is used up'):
            session(0x06, 0x01)
        site.line.silent = False
    assert 0 == site.endpoint.sessions
    with RmcpSessions(site.place()) as raw:
        with raw.limited(timedelta(0)), pytest.raises(BmcUnreachable, match='the time for the inspection is used up'):
            identify(raw)
        identify(raw)


def test_whoever_waits_stops_when_told_so(site):
    """From another thread, within a second."""
    raw = RmcpSessions(site.place(), LoginPrivilege.ADMINISTRATOR)
    raw.ready()
    site.line.silent = True
    threading.Timer(0.3, lambda: setattr(raw, 'stopped', True)).start()
    began = time.monotonic()
    with pytest.raises(BmcUnreachable, match='no answer: the run was stopped'):
        raw(0x06, 0x01, within=timedelta(seconds=30))
    assert time.monotonic() - began < 15


@pytest.mark.parametrize('logged_in', [True, False])
def test_what_is_not_answered_is_known_to_wait(site, logged_in):
    """So that a command line can say what it waits for, and until when."""
    raw = RmcpSessions(site.place(), LoginPrivilege.ADMINISTRATOR)
    if logged_in:
        raw.ready()
    site.line.silent = True
    threading.Timer(1, lambda: setattr(raw, 'stopped', True)).start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(raw, 0x06, 0x01, within=timedelta(seconds=30))
        time.sleep(0.5)
        [one] = pending.requests()
        assert isinstance(asked.exception(timeout=30), BmcUnreachable)
    assert ('command 06h/01h' if logged_in else 'the login') == one.what
    assert 'ipmi://127.0.0.1' in one.bmc
    assert () == pending.requests()
    assert one.since < one.until


# ---------------------------------------------------------------------------------------------------------------- how long


def test_a_request_as_long_as_promised_fits_into_one_frame(site):
    """With both suites; one byte more is refused as a BMC would."""
    sent = []
    site.meddle = lambda datagram, answers: sent.append(len(datagram)) or answers
    for suite in (17, 3):
        with site.login(suite=suite) as session:
            data = bytes(range(250)) * 6
            assert data[: session.longest] == session(*ODD, data[: session.longest]).data[1:]
            assert CommandReply(CompletionCode.LENGTH_EXCEEDED) == session(*ODD, data[: session.longest + 1])
    assert 1472 - 16 < max(sent) <= 1472
    assert 2 == len(site.done)


# -------------------------------------------------------------------------------------------------------------- Send Message


@pytest.fixture
def behind(site):
    """A controller at 72h on channel 0, and one behind it."""
    near = EmulatedController(identity=ControllerIdentity(device_id=0x11), address=0x72)
    far = EmulatedController(identity=ControllerIdentity(device_id=0x13), address=0x74)
    near.behind[7, 0x74] = far
    near.add(*ODD, lambda request: request.data + b'\0', privilege=emulated.EmulatedPrivilege.USER, most=20)
    site.controller.behind[IPMB, 0x72] = near
    return near


def test_controllers_behind_are_asked(site, behind):
    """One level and two. pyghmi has one, and takes the answer to Send Message for none where it ends in 00."""
    with site.login() as session:
        near = Bridge(session, address=0x72)
        assert 0x11 == identify(near).device
        assert CommandReply(0, b'\1\0') == near(*ODD, b'\1')
        assert 0x13 == identify(Bridge(near, address=0x74, channel=7)).device
    ask = "print('answered', login().raw_command(netfn=6, command=0x34, data={}))"
    request = bytes([0x40, 0x72, 0x18, 0x76, 0x20, 0x04, 0x01, 0xDB])
    assert 'answered' not in stock(site, ask.format(list(request)), seconds=4)


def test_a_controller_that_is_absent_costs_nothing(site, behind):
    """With pyghmi's own bridging it costs 36 s and the session."""
    with site.login() as session:
        began = time.monotonic()
        assert CommandReply(CompletionCode.DESTINATION_UNAVAILABLE) == Bridge(session, address=0x76)(NetFn.APP, 0x01)
        assert time.monotonic() - began < 20
        identify(session)


class Bmc:
    """Takes the answers to Send Message apart, and sends others: it has the keys of the emulated BMC."""

    def __init__(self, site):
        self.site = site
        self.change = lambda messages: messages
        site.endpoint._wrapped = self._wrapped
        self._wrap = SessionEndpoint._wrapped

    def _wrapped(self, active, message):
        return message

    def receive(self, datagram, answers):
        """Messages become packets again."""
        messages = self.change(answers)
        (active,) = [*self.site.endpoint._active.values()][:1] or (None,)
        return [a if isinstance(a, bytes) else self._wrap(self.site.endpoint, active, a) for a in messages]


@pytest.fixture
def bmc(site, behind):
    """A BMC whose messages a test can change."""
    found = Bmc(site)
    site.meddle = found.receive
    return found


@pytest.mark.parametrize('order', ['as sent', 'turned round', 'the first is lost'])
@pytest.mark.parametrize('number', ['its own', 'that of Send Message'])
@pytest.mark.parametrize('to', [0x81, 0x20])
def test_the_answer_of_a_controller_behind_is_known_by_its_number(site, bmc, order, number, to, monkeypatch):
    """BMCs give back the one or the other sequence number and address; datagrams overtake each other."""
    monkeypatch.setattr(bridge, 'WITHIN', timedelta(seconds=60))
    sent = []

    def change(messages):
        if len(messages) == 2:
            first, second = messages
            named = first.sequence if number != 'its own' else second.sequence
            second = emulated.Message(**{**fields(second), 'sequence': named, 'to': to})
            sent.append(messages)
            return {'as sent': [first, second], 'turned round': [second, first], 'the first is lost': [second]}[order]
        return messages

    bmc.change = change
    with site.login() as session:
        near = Bridge(session, address=0x72)
        began = time.monotonic()
        for _ in range(3):
            assert 0x11 == identify(near).device
        assert time.monotonic() - began < 50
    assert 3 == len(sent)


def fields(message):
    """Of a message."""
    return {name: getattr(message, name) for name in message.__dataclass_fields__}


@pytest.mark.parametrize('field', ['sequence', 'command', 'netfn', 'sender', 'to'])
def test_a_message_that_answers_something_else_is_not_the_answer(site, bmc, field):
    """It comes between Send Message and the answer; whatever of it is wrong, the right one is taken."""

    def change(messages):
        if len(messages) < 2:
            return messages
        wrong = {**fields(messages[1]), 'data': b'\0\x66' + bytes(20)}
        wrong[field] = wrong[field] ^ (0x10 if field != 'netfn' else 0x08)
        return [messages[0], emulated.Message(**wrong), messages[1]]

    bmc.change = change
    with site.login() as session:
        assert 0x11 == identify(Bridge(session, address=0x72)).device


@pytest.mark.parametrize('number', ['its own', 'that of Send Message'])
def test_a_late_answer_to_the_command_before_is_none_to_the_next(site, bmc, number):
    """It comes twice where Send Message was sent twice. Whatever number a bridge begins with, it is not the number of the next.

    Before, one of 64 beginnings made it that: a part of one FRU was read into another place of it.
    """
    late = []

    def change(messages):
        if len(messages) < 2:
            return messages
        named = messages[0].sequence if number != 'its own' else messages[1].sequence
        answer = emulated.Message(**{**fields(messages[1]), 'sequence': named})
        before, late[:] = list(late), [answer]
        return [messages[0], *before, answer]

    with site.login() as session:
        near = Bridge(session, address=0x72)
        bmc.change = change
        for begin in range(64):
            near._sequences = itertools.count(begin)
            for n in (2 * begin, 2 * begin + 1):
                assert CommandReply(0, bytes([n, 0])) == near(*ODD, bytes([n]))
        bmc.change = lambda messages: messages


class Damaged:
    """A message with a wrong checksum."""

    def __init__(self, message, place_of):
        self.raw = bytearray(message.encoded())
        self.raw[place_of] ^= 1

    def encoded(self):
        return bytes(self.raw)


@pytest.mark.parametrize('place_of', [2, -1])
def test_a_message_from_behind_whose_checksum_is_wrong_is_dropped(site, bmc, place_of):
    """The BMC has passed on what was damaged on the bus, where nothing else protects it."""

    def change(messages):
        wrong = [emulated.Message(**{**fields(message), 'data': b'\0' + bytes(15)}) for message in messages[1:]]
        return [messages[0], *(Damaged(message, place_of) for message in wrong), *messages[1:]]

    with site.login() as session:
        bmc.change = change
        assert 0x11 == identify(Bridge(session, address=0x72)).device
        bmc.change = lambda messages: messages


@pytest.mark.parametrize('place_of', [2, -1])
def test_a_bmc_may_make_wrong_checksums_in_a_session(site, bmc, place_of):
    """The check of the packet protects what it says. Some boards make them wrong: no answer of theirs was ever taken."""
    with site.login(answer=timedelta(seconds=2)) as session:
        bmc.change = lambda messages: [Damaged(messages[0], place_of), *messages[1:]]
        assert 0x21 == identify(session).device
        assert 1 == session(*ODD, once=True).data[0]
        assert 0x11 == identify(Bridge(session, address=0x72)).device
        bmc.change = lambda messages: messages


@pytest.mark.parametrize('place_of', [2, -1])
def test_before_a_session_checksums_are_all_there_is(place_of):
    """What a BMC can is not taken from a message that is damaged."""
    codec, answer = talk(0)
    damaged = bytearray(answer)
    damaged[14 + place_of if place_of > 0 else place_of] ^= 1
    assert not codec.hear(bytes(damaged))
    assert codec.hear(answer)


def test_an_answer_that_does_not_come_is_looked_for_in_the_queue(site, bmc):
    """Send Message is answered, and nothing follows: the bridge is told, and asks by Get Message."""
    bmc.change = lambda messages: messages[:1]
    asked = []
    site.controller.add(0x06, 0x33, lambda _: asked.append(1) or b'', privilege=emulated.EmulatedPrivilege.USER)
    with site.login() as session:
        began = time.monotonic()
        with pytest.raises(BmcError):
            Bridge(session, address=0x72)(NetFn.APP, 0x01, once=True, within=timedelta(seconds=0.5))
        assert time.monotonic() - began < 20
        assert asked
        identify(session)


# ------------------------------------------------------------------------------------------------------------------- hostile


def flood(datagram, answers):
    """Two thousand datagrams that answer nothing, and nothing else."""
    return [b'\x06\x00\xff\x07' + bytes(40)] * 2000


def test_a_flood_is_named(site):
    """Not more than a thousand are looked at for one command."""
    session = site.login()
    site.meddle = flood
    with pytest.raises(BmcUnreachable) as caught:
        session(0x06, 0x01)
    assert 'command 06h/01h: more than 1000 datagrams received that do not answer the command' in str(caught.value)


def talk(stage):
    """A codec that has come so far in a login with a BMC, and what the BMC answers to its last packet."""
    users = Users()
    users.put(2, USER, PASSWORD.encode(), emulated.EmulatedPrivilege.ADMINISTRATOR)
    endpoint = SessionEndpoint(EmulatedController(), users)
    codec = rmcp.PacketCodec(place('x', '127.0.0.1', username=USER, password=PASSWORD), LoginPrivilege.ADMINISTRATOR)
    (answer,) = endpoint.receive(codec.begin())
    for _ in range(min(stage, 3)):
        assert codec.hear(answer)
        (answer,) = endpoint.receive(codec.outgoing)
    if stage == 4:
        assert codec.hear(answer)
        assert codec.established
        (answer,) = endpoint.receive(codec.encode(0x06, 0x3B, b'\4', 0))
    return codec, answer


@settings(max_examples=100, deadline=None)
@given(size=st.integers(0, 70), lies=st.integers(-20, 20), kind=st.sampled_from([0xC0, 0xC1, 0x40, 0x00]), data=st.data())
def test_a_bmc_that_has_the_keys_can_send_any_shape(size, lies, kind, data):
    """Checked by the key of the session, and with no sense in it: it answers nothing, and the right one is taken afterwards."""
    codec, answer = talk(4)
    payload = data.draw(st.binary(min_size=size, max_size=size))
    packet = struct.pack('<BBIIH', 6, kind, codec.localsid, 9, max(0, size + lies)) + payload
    pad = -(len(packet) + 2) % 4
    packet += b'\xff' * pad + bytes((pad, 7))
    check = hmac.new(codec.k1, packet, 'sha256').digest()[:16]
    assert not codec.answers(codec.opened(b'\x06\x00\xff\x07' + packet + check))
    message = codec.opened(answer)
    assert codec.answers(message)
    assert 0x3B == response_message.parsed(message).command
    assert not codec.opened(answer), 'it came before'


@pytest.mark.parametrize('stage', range(5))
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_datagram_does_harm(stage, data):
    """Cut, stretched, with other bytes in it, at each stage: it is dropped, or an error of that BMC; nothing else is raised."""
    codec, answer = talk(stage)
    answer = bytearray(answer)
    for _ in range(data.draw(st.integers(0, 4))):
        answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(answer)))
    answer = bytes(answer[:cut]) + data.draw(st.binary(max_size=20)) if data.draw(st.booleans()) else bytes(answer)
    if codec.established:
        response_message.parsed(codec.opened(answer))
    else:
        codec.hear(answer)
        assert codec.failure is None or isinstance(codec.failure, BmcError)


def test_what_is_not_encrypted_is_no_answer():
    """Right in all else, checked by the key of the session. (pyghmi 1.6.19 takes it.)"""
    codec, answer = talk(4)
    told = {**fields(emulated.Message.parse(codec.opened(answer))), 'data': bytes(41)}
    message = emulated.Message(**told).encoded()
    assert 48 == len(message), 'as long as an encrypted one may be'
    packet = struct.pack('<BBIIH', 6, 0x40, codec.localsid, 9, len(message)) + message
    pad = -(len(packet) + 2) % 4
    packet += b'\xff' * pad + bytes((pad, 7))
    datagram = b'\x06\x00\xff\x07' + packet + hmac.new(codec.k1, packet, 'sha256').digest()[:16]
    assert not codec.opened(datagram)


@given(st.binary(max_size=64), st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_packets_are_checked_by_hmac(key, packets):
    """Each by itself, whatever was checked before with the same key."""
    for name in {suite.digest_name for suite in places.SUITES.values()}:
        mac = packet_hmac.Mac(key, name)
        assert [hmac.digest(key, packet, name) for packet in packets] == [mac.digest(packet) for packet in packets]


def test_each_packet_has_a_vector_of_its_own(monkeypatch):
    """One context of AES serves a session: a vector is what AES makes of 16 fresh random bytes and the block before.

    A BMC that makes a context for each packet reads them all.
    """
    codec, answer = talk(4)
    drawn, vectors, before = [], [], payload_of(codec.outgoing)[-16:]
    urandom = rmcp.os.urandom
    monkeypatch.setattr(rmcp.os, 'urandom', lambda count: drawn.append(urandom(count)) or drawn[-1])
    for number in range(100):
        payload = payload_of(codec.encode(0x06, 0x01, bytes(number % 40), 0))
        vectors.append(payload[:16])
        assert opened(codec, modes.CBC(payload[:16]), payload[16:]).startswith(codec._message)
        assert bytes(map(xor, drawn[-1], before)) == opened(codec, modes.ECB(), payload[:16])
        before = payload[-16:]
    assert ([16] * 100, 100) == ([len(one) for one in drawn], len(set(vectors)))
    assert 0x3B == response_message.parsed(codec.opened(answer)).command, (
        'what was encrypted meanwhile is nothing to what is decrypted'
    )


def payload_of(packet):
    """Vector and encrypted message."""
    return packet[16 : 16 + int.from_bytes(packet[14:16], 'little')]


def opened(codec, mode, data):
    """As who has the keys decrypts it."""
    cipher = Cipher(algorithms.AES(codec.aeskey), mode).decryptor()
    return cipher.update(data) + cipher.finalize()


def test_garbage_says_what_is_wrong(site):
    """Something else answers on that port."""
    site.meddle = lambda datagram, answers: [b'HTTP/1.1 400 Bad Request\r\n\r\n']
    with pytest.raises(BmcAnswerInvalid, match=r'invalid answer to the login: not an RMCP message \(check the address\)'):
        site.login(login=timedelta(seconds=1))


# ---------------------------------------------------------------------------------------------------------------- side by side


def test_a_hundred_sessions_live_side_by_side(lan):
    """Each thread gets the answers of its own BMC; equal credentials and equal BMCs are no reason to mix them."""
    places = [Site(lan, number) for number in range(100)]
    opened = [site.login(LoginPrivilege.OPERATOR) for site in places]

    def guids(number):
        return {opened[number](0x06, 0x37).data[-1] for _ in range(5)}

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert [{number} for number in range(100)] == list(pool.map(guids, range(100)))
    for session in opened:
        session.close()
    assert {0} == {site.endpoint.sessions for site in places}


def test_one_session_may_be_used_by_many_threads(site):
    """One command at a time; each gets its own answer."""
    with site.login() as session, concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: session(*ODD, bytes((n,))).data[1], range(200)))
    assert list(range(200)) == answers


def test_nothing_of_pyghmi_is_shared(site):
    """None of its sockets, threads and tables is in use, whatever was done in this process."""
    with site.login() as session:
        identify(session)
        assert [{}] * 5 == [
            pyghmi.Session.bmc_handlers,
            pyghmi.Session.waiting_sessions,
            pyghmi.Session.initting_sessions,
            pyghmi.Session.keepalive_sessions,
            pyghmi.Session.socketpool,
        ]
        assert ([], None) == (pyghmi.iosockets, pyghmi.iothread)


def test_sessions_give_way_in_a_hub(lan):
    """Thirty BMCs that answer 50 ms late, in one thread: together they take little longer than one."""
    places = [Site(lan, number) for number in range(30)]
    for site in places:
        site.line.delay_seconds = 0.05
    seen = []

    def look(site):
        with site.login(LoginPrivilege.OPERATOR) as session:
            seen.append(session(0x06, 0x37).data[-1])

    hub = wait.Hub()
    began = time.monotonic()
    for site in places:
        hub.spawn(lambda site=site: look(site))
    hub.run(lambda: len(seen) == 30 and not any(site.endpoint._active for site in places))
    hub.close()
    assert list(range(30)) == sorted(seen)
    assert time.monotonic() - began < 30 * 7 * 0.05


# ------------------------------------------------------------------------------------------------------------- pyghmi as it is

STOCK = """
import sys, threading
from pyghmi.ipmi.private.session import Session
def login():
    return Session('127.0.0.1', b'admin', b'{password}', port={port})
{code}
"""


def stock(site, code, seconds=20):
    """What pyghmi's own session does, in a process of its own; what it has said when the time is over, if it does not end."""
    script = STOCK.format(password=PASSWORD, port=site.port, code=code)
    with subprocess.Popen(
        [sys.executable, '-u', '-c', script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
    return said


def test_what_the_containment_uses_of_pyghmi_is_there():
    """Its module is private: another version may have other methods, and would then be found out here first."""
    used = set(re.findall(r'self\.(_[a-z0-9_]+|send_payload)\(', Path(rmcp.__file__).read_text()))
    own = set(vars(rmcp.PacketCodec)) - {'_xmit_packet', '_req_priv_level', '_parse_ipmi_payload'}
    missing = {name for name in used - own if not hasattr(pyghmi.Session, name)}
    assert set() == missing
    assert {17: 256, 3: 1} == {number: suite.hash for number, suite in places.SUITES.items()}
    assert {n: s.algorithms for n, s in SUITES.items()} == {n: s.algorithms for n, s in places.SUITES.items()}

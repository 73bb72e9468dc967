# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulated BMC opens sessions by RMCP+ as the standard says, and says nothing to whoever does not add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.ipmi.controller import APP, EmulatedController, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.session import SESSIONS, SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users
from tests.unit.emulator.ipmi.console import RMCP, Console, checksummed, message, plain

GUID = bytes(range(0x80, 0x90))


@pytest.fixture
def clock():
    return EmulatedClock(virtual=True)


@pytest.fixture
def users():
    made = Users()
    made.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
    made.put(3, 'oper', b'secret-of-the-oper18', EmulatedPrivilege.OPERATOR)
    return made


@pytest.fixture
def bmc(clock, users):
    controller = EmulatedController(guid=GUID)
    users.join(controller)
    return SessionEndpoint(controller, users, clock=clock)


@pytest.mark.parametrize('suite', [3, 17])
@pytest.mark.parametrize('kg', [b'', b'key of the BMC'])
def test_a_session_opens_by_the_keys_of_its_suite(clock, users, suite, kg):
    """The console computes every HMAC by itself; with K_G the session key comes from it."""
    bmc = SessionEndpoint(EmulatedController(guid=GUID), users, clock=clock, kg=kg)
    console = Console(bmc, suite=suite, kg=kg).login()
    assert b'\0' + GUID == console.command(APP, 0x37)
    assert 1 == bmc.sessions


def test_ping_is_answered():
    """ASF: presence pong tells that IPMI is spoken here."""
    bmc = SessionEndpoint(EmulatedController(), Users())
    pong = bytes.fromhex('0600ff06 000011be 40 2a 00 10 000011be 00000000 81 00 000000000000')
    assert [pong] == bmc.receive(bytes.fromhex('0600ff06 000011be 80 2a 00 00'))
    assert [] == bmc.receive(bytes.fromhex('0600ff06 000011bf 80 2a 00 00'))


def test_a_client_learns_before_a_session_what_is_spoken(bmc):
    """By IPMI 1.5 and by RMCP+: extended capabilities, users with names, RMCP+."""
    asked = message(APP, 0x38, b'\x8e\x04')
    answer = bytes.fromhex('81 1c 63 20 04 38') + bytes.fromhex('00 01 80 04 02 00 00 00 00')
    answer = answer[:3] + checksummed(answer[3:])
    old = RMCP + bytes(9)
    assert [old + bytes((len(answer),)) + answer] == bmc.receive(old + bytes((len(asked),)) + asked)
    assert [plain(0, answer)] == bmc.receive(plain(0, asked))


@pytest.mark.parametrize(
    ('suites', 'records'), [((17, 3), 'c003014181c011034481'), ((17,), 'c011034481'), ((3,), 'c003014181')]
)
def test_suites_on_offer_are_listed(users, suites, records):
    """Get Channel Cipher Suites, list index 0; index 1 is beyond the end."""
    bmc = SessionEndpoint(EmulatedController(), users, suites=suites)
    (answer,) = bmc.receive(plain(0, message(APP, 0x54, b'\x0e\x00\x80')))
    assert '0001' + records == answer[16 + 6 : -1].hex()
    (answer,) = bmc.receive(plain(0, message(APP, 0x54, b'\x0e\x00\x81')))
    assert '0001' == answer[16 + 6 : -1].hex()


def test_a_suite_that_is_not_offered_is_refused(users):
    """Status 11h; nothing is opened."""
    assert 0x11 == Console(SessionEndpoint(EmulatedController(), users, suites=(17,)), suite=3).open()
    assert 0x11 == Console(SessionEndpoint(EmulatedController(), users, suites=(3,)), suite=17).open()


def test_without_a_session_nothing_else_is_answered(bmc):
    """Get Device ID needs a session."""
    assert [] == bmc.receive(plain(0, message(APP, 0x01)))


@pytest.mark.parametrize('suite', [3, 17])
def test_a_wrong_password_ends_the_attempt(bmc, suite):
    """The BMC's proof does not fit at the console, and the console's not at the BMC: 0Fh."""
    console = Console(bmc, suite=suite, password=b'Secret')
    assert 0 == console.open()
    assert (0, 0x0F) == console.rakp()
    assert not console.proof_right
    assert 0 == bmc.sessions


def test_who_is_not_there_or_asks_too_much_is_refused(bmc, users):
    """In RAKP 2. 0Dh: no such user, or disabled; 0Ah: above the limit; 09h: no such role; 0Ch: a name too long."""
    console = Console(bmc, name=b'nobody')
    assert (0, (0x0D, None)) == (console.open(), console.rakp())
    console = Console(bmc, name=b'oper', password=b'secret-of-the-oper18', role=0x14)
    assert (0, (0x0A, None)) == (console.open(), console.rakp())
    assert 0x09 == Console(bmc, role=0x16).open()
    console = Console(bmc, role=0x14)
    console.open()
    console.role = 0x16
    assert (0x09, None) == console.rakp()
    console = Console(bmc, name=b'n' * 17)
    assert (0, (0x0C, None)) == (console.open(), console.rakp())
    users.find(b'oper').enabled = False
    console = Console(bmc, name=b'oper', password=b'secret-of-the-oper18', role=0x13)
    assert (0, (0x0D, None)) == (console.open(), console.rakp())


def test_an_unknown_session_is_refused_in_the_handshake(bmc):
    """02h, for RAKP 1 and 3."""
    console = Console(bmc)
    console.bmc = b'\1\2\3\4'
    assert (2, None) == console.rakp()
    assert 2 == console.ask(0x14, bytes((9, 0, 0, 0)) + console.bmc + bytes(32))[1]


def test_a_lost_answer_of_the_handshake_comes_again(bmc):
    """The very same one, random number included; one session is opened."""
    console = Console(bmc)
    console.open()
    assert console.opened == console.ask(0x10, console.open_request())
    assert console.ask(0x12, console.rakp1()) == console.ask(0x12, console.rakp1())
    assert (0, 0) == console.rakp()
    assert 0 == console.ask(0x14, console.third)[1]
    assert 1 == bmc.sessions


def test_a_password_that_is_set_is_the_one_of_the_next_login(bmc):
    """Set User Password really changes what RAKP takes, and the open session lives on."""
    console = Console(bmc).login()
    assert b'\0' == console.command(APP, 0x3B, b'\4')[:1]
    assert b'\0' == console.command(APP, 0x47, b'\2\2' + b'new'.ljust(16, b'\0'))
    again = Console(bmc)
    assert (0, (0, 0x0F)) == (again.open(), again.rakp())
    Console(bmc, password=b'new').login()
    assert b'\0' == console.command(APP, 0x47, b'\x82\2' + b'twenty bytes of it!!')
    Console(bmc, password=b'twenty bytes of it!!').login()


def test_privilege_begins_at_user_and_ends_at_the_limit(bmc):
    """3Bh: 0 asks, above the limit is 81h, callback 80h, what does not exist CCh. A command above it is D4h."""
    console = Console(bmc, name=b'oper', password=b'secret-of-the-oper18', role=0x13).login()
    assert bytes((0, 2)) == console.command(APP, 0x3B, b'\0')
    assert b'\xd4' == console.command(APP, 0x44, b'\1\2')
    assert b'\x81' == console.command(APP, 0x3B, b'\4')
    assert b'\x80' == console.command(APP, 0x3B, b'\1')
    assert b'\xcc' == console.command(APP, 0x3B, b'\6')
    assert bytes((0, 3)) == console.command(APP, 0x3B, b'\3')
    assert bytes((0, 10, 2 | 0x40, 1, 0x14)) == console.command(APP, 0x44, b'\1\2')
    assert b'\xd4' == console.command(APP, 0x02)


def test_a_closed_session_is_silent(bmc):
    """3Ch is answered, what comes after it is not. Another's session is for administrators, an unknown one is 87h."""
    operator = Console(bmc, name=b'oper', password=b'secret-of-the-oper18', role=0x13).login()
    console = Console(bmc).login()
    assert b'\xd4' == operator.command(APP, 0x3C, console.bmc)
    assert b'\x87' == console.command(APP, 0x3C, b'\0\0\0\0')
    assert b'\0' == console.command(APP, 0x3C, console.bmc)
    assert [] == console.raw(APP, 0x01)
    assert 1 == bmc.sessions


def test_an_idle_session_expires(bmc, clock):
    """Each command begins the time anew."""
    console = Console(bmc).login()
    clock.advance(59)
    assert 1 == len(console.raw(APP, 0x01))
    clock.advance(59.9)
    assert 1 == len(console.raw(APP, 0x01))
    clock.advance(60)
    assert [] == console.raw(APP, 0x01)
    assert 0 == bmc.sessions


def test_sessions_are_limited(bmc):
    """One more is refused by 01h, until one closes."""
    first, *_ = [Console(bmc).login() for _ in range(SESSIONS)]
    assert 1 == Console(bmc).open()
    first.command(APP, 0x3C, first.bmc)
    Console(bmc).login()


def counting(bmc):
    """A command that counts how often it is executed."""
    calls = []

    def serve(request):
        calls.append(request.data)
        return bytes((len(calls),))

    bmc.controller.add(0x30, 0x01, serve, privilege=EmulatedPrivilege.USER, least=0, most=9)
    return calls


def test_a_duplicate_is_answered_but_not_executed(bmc, clock):
    """Same rqSeq and same request within 5 s; another body, or later, is another request."""
    calls = counting(bmc)
    console = Console(bmc).login()
    first = console.raw(0x30, 1, b'a', rq=7)
    assert first == console.raw(0x30, 1, b'a', rq=7)
    assert [b'a'] == calls
    assert first != console.raw(0x30, 1, b'b', rq=7)
    clock.advance(5)
    console.raw(0x30, 1, b'b', rq=7)
    assert [b'a', b'b', b'b'] == calls


def test_only_the_last_few_requests_are_remembered(bmc):
    """rqSeq comes round after 64 requests, and a fast poller must not be given an old answer."""
    calls = counting(bmc)
    console = Console(bmc).login()
    for number in (1, 2, 3, 4, 5, 1):
        console.raw(0x30, 1, b'a', rq=number)
    assert 6 == len(calls)


def test_a_replayed_packet_is_dropped(bmc):
    """Sequence numbers count once, from 15 below the highest to 16 above it; 0 never."""
    calls = counting(bmc)
    console = Console(bmc).login()
    packet = console.packet(message(0x30, 1), 10)
    assert [1, 0] == [len(bmc.receive(packet)), len(bmc.receive(packet))]
    taken = [
        number
        for number in (0, 9, 26, 43, 42, 27, 26, 28)
        if bmc.receive(console.packet(message(0x30, 1, b'', number), number))
    ]
    assert [9, 26, 42, 27, 28] == taken
    assert 6 == len(calls)


def test_the_first_number_is_the_client_s(bmc):
    """ipmitool has counted the packets of its handshake by then, however many it sent again; 0 is none."""
    counting(bmc)
    console = Console(bmc).login()
    taken = [number for number in (0, 400, 384, 385, 417) if bmc.receive(console.packet(message(0x30, 1, b'', 1), number))]
    assert [400, 385] == taken


def test_what_is_forged_is_dropped_and_harms_nothing(bmc):
    """One changed bit anywhere in a packet, and there is no answer; the session lives on."""
    calls = counting(bmc)
    console = Console(bmc).login()
    packet = console.packet(message(0x30, 1))
    for place in range(len(packet) * 8):
        forged = bytearray(packet)
        forged[place // 8] ^= 1 << place % 8
        assert [] == bmc.receive(bytes(forged)), place
    assert [] == calls
    assert 1 == len(bmc.receive(packet))


@pytest.mark.parametrize(
    'inner',
    [
        b'',
        message(0x30, 1)[:-1],
        message(0x30, 1)[:-1] + b'\0',
        message(0x31, 1),
        message(0x30, 1, to=0x72),
    ],
)
def test_no_message_is_no_answer(bmc, inner):
    """Too short, a wrong checksum, a response, another's address."""
    counting(bmc)
    console = Console(bmc).login()
    assert [] == bmc.receive(console.packet(inner))


def test_a_payload_without_encryption_is_dropped(bmc):
    """Both suites encrypt and sign."""
    console = Console(bmc).login()
    inner = message(APP, 1)
    body = bytes((6, 0x40)) + console.bmc + b'\1\0\0\0' + bytes((len(inner), 0)) + inner
    body += b'\xff\xff\2\7' if len(body) % 4 == 0 else b'\xff' * (-(len(body) + 2) % 4) + bytes((-(len(body) + 2) % 4, 7))
    assert [] == bmc.receive(RMCP + body + console.mac(console.k1, body)[:16])
    assert [] == bmc.receive(plain(0, b'')[:6] + console.bmc + b'\1\0\0\0' + bytes((len(inner), 0)) + inner)


def test_a_reset_forgets_sessions_and_is_silent_for_a_while(bmc, clock):
    """It is answered still; then nothing, until the BMC is back."""
    console = Console(bmc).login()
    console.command(APP, 0x3B, b'\4')
    assert b'\0' == console.command(APP, 0x02)
    ping = bytes.fromhex('0600ff06 000011be 80 2a 00 00')
    assert ([], 0) == (bmc.receive(ping), bmc.sessions)
    clock.advance(0.5)
    assert 1 == len(bmc.receive(ping))
    assert [] == console.raw(APP, 1)


def test_a_bridged_request_is_answered_twice(bmc):
    """First 34h, then what the controller behind said, with its address, to the console."""
    bmc.controller.behind[0, 0x72] = EmulatedController(guid=b'G' * 16, address=0x72)
    console = Console(bmc).login()
    first, then = console.raw(APP, 0x34, b'\x40' + message(APP, 0x37, sequence=9, to=0x72, sender=0x20), rq=9)
    assert bytes.fromhex('811c63202434 00') == first[:7]
    assert checksummed(bytes.fromhex('811c')) + checksummed(bytes.fromhex('72243700') + b'G' * 16) == then
    (absent,) = console.raw(APP, 0x34, b'\x40' + message(APP, 0x37, to=0x74, sender=0x20))
    assert 0x83 == absent[6]


@given(datagram=st.binary(max_size=120))
def test_any_datagram_is_survived(datagram):
    """Whatever comes, from nobody."""
    users = Users()
    users.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
    bmc = SessionEndpoint(EmulatedController(guid=GUID), users)
    for packet in (
        datagram,
        RMCP + datagram,
        *(plain(kind, datagram) for kind in (0, 0x10, 0x12, 0x14)),
        plain(0, datagram)[:14] + datagram,
    ):
        for answer in bmc.receive(packet):
            assert answer[:3] == RMCP[:3]


@given(netfn=st.integers(0, 31), command=st.integers(0, 255), data=st.binary(max_size=60))
def test_any_command_of_an_administrator_is_answered(netfn, command, data):
    """Once, or twice when it was bridged, and with a completion code."""
    users = Users()
    users.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
    controller = EmulatedController(guid=GUID)
    users.join(controller)
    console = Console(SessionEndpoint(controller, users)).login()
    console.command(APP, 0x3B, b'\4')
    assert console.raw(netfn * 2, command, data)[0][6] in {
        0,
        0x80,
        0x81,
        0x82,
        0x83,
        0x84,
        0x87,
        0xC1,
        0xC2,
        0xC7,
        0xCC,
        0xD4,
        0xD5,
    }

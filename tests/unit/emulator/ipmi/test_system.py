# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The host's root reaches the BMC as QEMU lets him: bytes over a real socket, written by hand.

The protocol is that of doc/source/reference/ipmi_notes.rst, "The system interface of a QEMU guest".
"""

import socket
import stat
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.emulator.ipmi.controller import APP, LAN, SYSTEM
from baremetal_acc.emulator.ipmi.fru import FruDevices
from baremetal_acc.emulator.ipmi.i2c import Buses, Eeprom
from baremetal_acc.emulator.ipmi.lan import LanThread
from baremetal_acc.emulator.ipmi.messaging import Messages
from baremetal_acc.emulator.ipmi.sdr import Repository
from baremetal_acc.emulator.ipmi.system import LONGEST, Frame, Signal, SystemCodec, SystemDoor, SystemInterface, encoded
from tests.unit.emulator.ipmi.console import message
from tests.unit.emulator.ipmi.machines import BMC_KEY, ask, image
from tests.unit.emulator.ipmi.test_firewall import GROUP, HPM, Walled, mask

SECONDS = 10


def escaped(raw):
    return b''.join(bytes((0xAA, byte | 0x10)) if byte in (0xA0, 0xA1, 0xAA) else bytes((byte,)) for byte in raw)


class Host:
    """The other end of the socket: one request at a time, as KCS has it."""

    def __init__(self, connected):
        self.socket = connected
        self.socket.settimeout(SECONDS)
        self.sequence = 0x9E
        self.commands = []
        self.rest = b''

    def frame(self):
        """The next message or command, without escapes."""
        while not any(end in self.rest for end in (b'\xa0', b'\xa1')):
            more = self.socket.recv(4096)
            assert more, 'the BMC hung up'
            self.rest += more
        place = next(number for number, byte in enumerate(self.rest) if byte in (0xA0, 0xA1))
        raw, end, self.rest = self.rest[:place], self.rest[place], self.rest[place + 1 :]
        parts = raw.split(b'\xaa')
        return end, parts[0] + b''.join(bytes((part[0] & ~0x10,)) + part[1:] for part in parts[1:])

    def packet(self, netfn, command, data=b''):
        self.sequence = (self.sequence + 1) & 0xFF
        body = bytes((self.sequence, netfn << 2, command)) + data
        return escaped(body + bytes((-sum(body) & 0xFF,))) + b'\xa0'

    def ask(self, netfn, command, data=b''):
        """Completion code and data; what the BMC commands meanwhile is noted."""
        self.socket.sendall(self.packet(netfn, command, data))
        while True:
            end, raw = self.frame()
            if end == 0xA1:
                self.commands.append(raw)
                continue
            assert 0 == sum(raw) & 0xFF
            assert bytes((self.sequence, netfn << 2 | 4, command)) == raw[:3]
            return raw[3:-1]

    def hpm(self, command, data=b''):
        answer = self.ask(GROUP, command, b'\0' + data)
        assert b'\0' == answer[1:2]
        return answer[:1] + answer[2:]


@pytest.fixture
def rig():
    one = Walled()
    one.resets = []
    one.messages = Messages()
    one.messages.join(one.bmc)
    one.card = bytearray(b'FRU of the card'.ljust(256, b'\xff'))
    devices = FruDevices({0: bytes(one.card)})
    devices.contents[0] = one.card
    devices.join(one.bmc)
    Buses({(0x02, 0xA0): Eeprom(one.card), (0x02, 0xA2): Eeprom(bytearray(256), address_bytes=1)}).join(one.bmc)
    Repository((), writable=True).join(one.bmc)
    one.interface = SystemInterface(one.bmc, one.messages, on_host_reset=lambda: one.resets.append(1))
    one.door = SystemDoor(one.interface, one.messages)
    return one


@pytest.fixture(params=['tcp', 'unix'])
def host(rig, request, tmp_path):
    """Connected, and greeted."""
    with LanThread() as lan:
        if request.param == 'tcp':
            connected = socket.create_connection(('127.0.0.1', lan.add_door(rig.door)), SECONDS)
        else:
            path = tmp_path / 'bmc'
            lan.add_door(rig.door, path)
            assert 0o600 == stat.S_IMODE(path.stat().st_mode)
            connected = socket.socket(socket.AF_UNIX)
            connected.connect(str(path))
        with connected:
            one = Host(connected)
            assert (0xA1, b'\xff\1') == one.frame()
            connected.sendall(b'\xff\x01\xa1\x08\x1f\xa1')
            assert (0xA1, b'\6') == one.frame()
            yield one


def test_the_host_is_answered_as_channel_15(rig, host):
    """Get Device ID, Get Channel Info of the present one; a whole byte range goes through the escapes."""
    assert bytes.fromhex('00 21 01 01 04 02 8a f21b00 ad0b 00000000') == host.ask(APP, 0x01)
    seen = []
    rig.bmc.guards.append(lambda request: seen.append(request.channel))
    every = bytes(range(256))
    rig.bmc.add(0x30, 0xAA, lambda request: request.data[::-1], privilege=4, most=256)
    assert b'\0' + every[::-1] == host.ask(0x30, 0xAA, every)
    assert [SYSTEM] == seen


def test_the_host_waits_for_an_answer_that_is_slow(rig, host):
    """The fault, for the one command that it names."""
    rig.machine.add_fault({'name': 'slow', 'method': '06/08', 'seconds': 0.4})
    began = time.monotonic()
    assert 0 == host.ask(APP, 0x01)[0]
    assert time.monotonic() - began < 0.4
    assert 0 == host.ask(APP, 0x08)[0]
    assert time.monotonic() - began >= 0.4


def test_root_on_the_host_flashes_the_bmc_unless_it_is_forbidden(rig, host):
    """Unlocked: erase, upload, Finish, by the host. Locked over the LAN: D4h for all of it, reading goes on; then unlocked."""
    data = image('1.5', model='es2000', component='bmc')

    def attack():
        codes = [host.hpm(0x31, b'\1\1')[:1], host.hpm(0x31, b'\1\2')[:1]]
        for count, start in enumerate(range(0, len(data), 64)):
            codes.append(host.hpm(0x32, bytes((count & 0xFF,)) + data[start : start + 64])[:1])
        return {*codes, host.hpm(0x33, b'\0' + len(data).to_bytes(4, 'little'))[:1]}

    assert {b'\0'} == attack()
    assert ('1.5', 'host') == (rig.machine.components[BMC_KEY].held.version, rig.machine.components[BMC_KEY].held.writer)
    rig.machine.drop_held(BMC_KEY)
    writing = {0x30, 0x31, 0x32, 0x33, 0x35, 0x38}
    assert b'\0' == rig.put(HPM - writing, GROUP, b'\0')
    assert {b'\xd4'} == attack()
    assert (b'\0', None) == (host.hpm(0x2E)[:1], rig.machine.components[BMC_KEY].held)
    assert b'\0' == rig.put(HPM, GROUP, b'\0')
    assert {b'\0'} == attack()


def test_root_on_the_host_undoes_the_firewall_unless_that_is_forbidden_too(rig, host):
    """Set Command Enables from the host, of the present channel; with 60 off it is D4h."""
    rig.put(HPM - {0x31}, GROUP, b'\0')
    undo = bytes((0x0E, GROUP, 0)) + mask(HPM) + b'\0'
    assert (b'\0', b'\0') == (host.ask(APP, 0x60, undo), host.hpm(0x31, b'\1\1'))
    rig.put(HPM - {0x31}, GROUP, b'\0')
    on = rig.get(0x61, APP)
    rig.put(on - {0x47, 0x52, 0x60, 0x62}, APP)
    codes = [host.ask(APP, 0x60, undo), host.hpm(0x31, b'\1\1'), host.ask(APP, 0x47, b'\2\2' + bytes(16))]
    assert [b'\xd4'] * 4 == [*codes, host.ask(APP, 0x52, b'\2\xa0\1')]
    assert b'\0' == ask(rig.bmc, APP, 0x60, undo, channel=LAN)


def test_root_on_the_host_sets_the_password_of_the_lan(rig, host):
    """It is really another one."""
    assert b'\0' == host.ask(APP, 0x47, b'\2\2' + b'of the tenant'.ljust(16, b'\0'))
    assert b'of the tenant' == rig.users.find(b'admin').password.rstrip(b'\0')


def test_root_on_the_host_writes_a_card_past_its_fru(rig, host):
    """Master Write-Read and Write FRU Data meet in the same bytes."""
    assert b'\0FRU of' == host.ask(APP, 0x52, b'\2\xa0\6\0\0')
    assert b'\0' == host.ask(APP, 0x52, b'\2\xa0\0\0\7the tenant')
    assert b'\x0a' + b'the tenant' == host.ask(0x0A, 0x11, b'\0\7\0\x0a')[1:]
    assert b'\0\3' == host.ask(0x0A, 0x12, b'\0\0\0fru')
    assert b'\0fru' == host.ask(APP, 0x52, b'\2\xa0\3\0\0')


def test_what_a_card_answers_is_fetched_from_the_queue(rig, host):
    """Send Message without tracking, as Linux does; attention, flag, message from its NetFn on, and quiet again."""
    bridged = message(APP, 1, to=0x72, sender=0x20, lun=0, sequence=5)
    assert (b'\0', b'\0\0') == (host.ask(APP, 0x34, b'\0' + bridged), host.ask(APP, 0x31)[:1] + b'\0')
    assert [b'\1'] == host.commands
    assert b'\0\1' == host.ask(APP, 0x31)
    answer = host.ask(APP, 0x33)
    assert (
        message(APP + 1, 1, bytes.fromhex('00 11 01 01 00 02 08 5a3100 4200 00000000'), 5, to=0x20, sender=0x72)[1:]
        == answer[2:]
    )
    assert b'\0\0' == answer[:2]
    assert (b'\0\0', b'\x80') == (host.ask(APP, 0x31), host.ask(APP, 0x33))
    assert [b'\1', b'\0'] == host.commands
    assert b'\x83' == host.ask(APP, 0x34, b'\0' + message(APP, 1, to=0x74, sender=0x20))


def test_attention_comes_by_interrupt_where_the_host_wants_that(rig, host):
    """Global enables; Clear Message Flags empties the queue."""
    assert (b'\0\x08', b'\0', b'\xcc') == (host.ask(APP, 0x2F), host.ask(APP, 0x2E, b'\x09'), host.ask(APP, 0x2E, b'\x10'))
    host.ask(APP, 0x34, b'\x40' + message(APP, 1, to=0x72, sender=0x20))
    assert (b'\0\1', 1) == (host.ask(APP, 0x31), rig.messages.waiting)
    assert b'\0' == host.ask(APP, 0x30, b'\1')
    assert (b'\0\0', 0, [b'\2', b'\0']) == (host.ask(APP, 0x31), rig.messages.waiting, host.commands)
    assert b'\x80' == host.ask(APP, 0x35)
    assert [b'\xc1', b'\xc1'] == [ask(rig.bmc, APP, command, data) for command, data in ((0x30, b'\1'), (0x33, b''))]


def test_the_queue_has_an_end_and_a_reset_empties_it(rig, host):
    """32 wait; Manufacturing Test On is forgotten as well."""
    for _ in range(40):
        host.ask(APP, 0x34, b'\0' + message(APP, 1, to=0x72, sender=0x20))
    assert b'\0' == host.ask(APP, 0x05, b'any')
    assert (32, True) == (rig.messages.waiting, rig.messages.manufacturing)
    rig.bmc.restarted()
    assert (0, False) == (rig.messages.waiting, rig.messages.manufacturing)


def test_what_is_damaged_or_no_request_is_not_answered(rig, host):
    """A wrong checksum, too short, too long, an escape at the end, a response: silence, and the next one is answered."""
    good = host.packet(APP, 1)
    wrong = bytes((good[0], good[1], good[2], good[3] ^ 1, 0xA0))
    response = bytes((1, (APP | 1) << 2, 1))
    response += bytes((-sum(response) & 0xFF, 0xA0))
    host.socket.sendall(wrong + b'\1\2\xa0' + bytes(LONGEST + 1) + b'\xa0' + b'\1\xaa\xa0' + b'\xa0\xa1' + response)
    assert b'\0' == host.ask(APP, 0x01)[:1]


def test_a_bmc_that_is_away_is_silent(rig, host):
    """QEMU tells the guest C3h after 4 s by itself; afterwards it is answered again, without a new connection."""
    rig.machine.reset_bmc('host', 30)
    host.socket.sendall(host.packet(APP, 1))
    host.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        host.frame()
    host.socket.settimeout(SECONDS)
    rig.clock.advance(30)
    assert b'\0' == host.ask(APP, 0x01)[:1]


def test_a_lost_answer_is_none(rig, host):
    """The fault hang, for this way in too."""
    rig.machine.add_fault({'name': 'hang', 'method': '06/08', 'count': 1})
    host.socket.sendall(host.packet(APP, 8))
    assert b'\0' == host.ask(APP, 0x01)[:1]
    assert b'\0' == host.ask(APP, 0x08)[:1]


def test_resets_go_both_ways(rig, host):
    """The machine tells that it was reset; the BMC resets it, or takes its power."""
    host.socket.sendall(b'\x04\xa1')
    host.ask(APP, 1)
    assert [1] == rig.resets
    assert [True] * 3 == [rig.door.signal(what) for what in (Signal.RESET, Signal.POWER_OFF, Signal.SHUT_DOWN)]
    assert [(0xA1, b'\4'), (0xA1, b'\3'), (0xA1, b'\x09')] == [host.frame() for _ in range(3)]


def test_a_machine_that_connects_anew_takes_the_place_of_the_old(rig):
    """As after a restart of QEMU, of which the BMC has not heard."""
    with LanThread() as lan:
        port = lan.add_door(rig.door)
        with socket.create_connection(('127.0.0.1', port), SECONDS) as first:
            assert (0xA1, b'\xff\1') == Host(first).frame()
            with socket.create_connection(('127.0.0.1', port), SECONDS) as second:
                new = Host(second)
                assert (0xA1, b'\xff\1') == new.frame()
                first.settimeout(SECONDS)
                assert b'' == first.recv(10)
                assert b'\0' == new.ask(APP, 1)[:1]
                assert rig.door.signal(Signal.RESET)
    assert not SystemDoor(rig.interface, rig.messages).signal(Signal.RESET)


@given(content=st.binary(min_size=1, max_size=LONGEST), is_command=st.booleans(), cut=st.integers(0, 700))
def test_frames_come_back_as_they_went_however_they_are_cut(content, is_command, cut):
    """Escapes round-trip; the end of a frame is the end of it."""
    raw = encoded(Frame(content, is_command))
    codec = SystemCodec()
    assert [Frame(content, is_command)] == codec.feed(raw[:cut]) + codec.feed(raw[cut:])
    assert raw[:-1] == escaped(content)


@given(data=st.binary(max_size=900))
def test_no_bytes_bring_a_frame_that_is_too_long(data):
    """Or an empty one."""
    assert all(0 < len(frame.content) <= LONGEST for frame in SystemCodec().feed(data + b'\xa0'))

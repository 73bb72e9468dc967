# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a tenant could do to the operator's channel really happens: it is shut, its key is another, its address changes."""

import pytest

from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.ipmi.controller import (
    APP,
    IPMB,
    LAN,
    SECOND_LAN,
    SYSTEM,
    TRANSPORT,
    CommandRequest,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users
from tests.unit.emulator.ipmi.console import Console


@pytest.fixture
def clock():
    return EmulatedClock(virtual=True)


@pytest.fixture
def bmc(clock):
    users = Users()
    users.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
    return SessionEndpoint(EmulatedController(), users, clock=clock)


def ask(bmc, netfn, command, data, **more):
    """Completion code and data, as the tenant gets them over the system interface."""
    return bmc.controller.answer(
        CommandRequest(channel=more.pop('channel', SYSTEM), netfn=netfn, command=command, data=data, **more)
    ).wire


def test_a_channel_that_is_disabled_is_silent_until_what_is_stored_comes_back(bmc, clock):
    """Volatile: disabled; stored: always available. A reset brings the stored one back."""
    console = Console(bmc).login()
    assert bytes((0, 0x02, 4)) == ask(bmc, APP, 0x41, b'\1\x80')
    assert b'\0' == ask(bmc, APP, 0x40, b'\1\x80\0')
    assert bytes((0, 0x00, 4)) == ask(bmc, APP, 0x41, b'\1\x80')
    assert bytes((0, 0x02, 4)) == ask(bmc, APP, 0x41, b'\1\x40')
    assert [] == console.raw(APP, 1)
    ask(bmc, APP, 0x02, b'')
    clock.advance(1)
    Console(bmc).login()


def test_the_limit_of_the_channel_bounds_whoever_logs_in(bmc):
    """0Ah above it; what is stored alone changes nothing yet."""
    assert b'\0' == ask(bmc, APP, 0x40, b'\1\0\x43')
    Console(bmc).login()
    assert b'\0' == ask(bmc, APP, 0x40, b'\1\0\x83')
    console = Console(bmc)
    assert (0, (0x0A, None)) == (console.open(), console.rakp())
    Console(bmc, role=0x13).login()


@pytest.mark.parametrize('suite', [3, 17])
def test_a_key_that_is_set_is_needed_from_then_on(bmc, suite):
    """K_G: read, set, locked; with all zeros passwords serve again."""
    key = b'k' * 20
    assert bytes((0, 2)) + bytes(20) == ask(bmc, APP, 0x56, b'\1\0\1')
    assert bytes((0, 2)) == ask(bmc, APP, 0x56, b'\1\1\1' + key)
    console = Console(bmc, suite=suite)
    assert (0, (0, 0)) == (console.open(), console.rakp())
    assert not console.icv_right
    Console(bmc, suite=suite, kg=key).login()
    assert bytes((0, 2)) == ask(bmc, APP, 0x56, b'\1\1\1' + bytes(20))
    Console(bmc, suite=suite).login()
    assert bytes((0, 1)) == ask(bmc, APP, 0x56, b'\1\2\1')
    assert bytes((0, 1)) == ask(bmc, APP, 0x56, b'\1\0\1')
    assert b'\x80' == ask(bmc, APP, 0x56, b'\1\1\1' + key)


def test_parameters_of_the_lan_are_read_and_set(bmc):
    """Revision 11h, then the value; an address has four bytes."""
    assert bytes((0, 0x11, 127, 0, 0, 1)) == ask(bmc, TRANSPORT, 0x02, b'\1\3\0\0')
    assert b'\0' == ask(bmc, TRANSPORT, 0x01, b'\1\3\x0a\1\2\3')
    assert bytes((0, 0x11, 10, 1, 2, 3)) == ask(bmc, TRANSPORT, 0x02, b'\1\3\0\0')
    assert b'\0\x11' == ask(bmc, TRANSPORT, 0x02, b'\x81\3\0\0')


@pytest.mark.parametrize(
    ('netfn', 'command', 'data', 'code'),
    [
        (TRANSPORT, 0x02, b'\1\xf0\0\0', 0x80),
        (TRANSPORT, 0x01, b'\1\xf0\0', 0x80),
        (TRANSPORT, 0x01, b'\1\1\0', 0x82),
        (TRANSPORT, 0x01, b'\1\x16\0', 0x82),
        (TRANSPORT, 0x01, b'\1\x17' + bytes(17), 0x82),
        (TRANSPORT, 0x01, b'\1\3\0\0\0', 0xC7),
        (TRANSPORT, 0x01, b'\0\3\0\0\0\0', 0x82),
        (APP, 0x40, b'\1\x84\0', 0x83),
        (APP, 0x40, b'\1\xc0\0', 0xCC),
        (APP, 0x40, b'\1\0\x86', 0xCC),
        (APP, 0x40, b'\x0f\0\0', 0x82),
        (APP, 0x40, b'\7\0\0', 0xCC),
        (APP, 0x41, b'\1\0', 0xCC),
        (APP, 0x56, b'\1\3\1', 0xCC),
        (APP, 0x56, b'\1\0\0', 0x84),
        (APP, 0x56, b'\1\1\1' + bytes(19), 0x81),
        (APP, 0x56, b'\1\1\1' + bytes(21), 0x82),
    ],
)
def test_what_cannot_be_set_is_refused(bmc, netfn, command, data, code):
    """Each by its own completion code, and nothing changes."""
    before = bmc.channel.stored, bmc.channel.now, bmc.channel.kg, dict(bmc.channel.parameters)
    assert bytes((code,)) == ask(bmc, netfn, command, data)
    assert before == (bmc.channel.stored, bmc.channel.now, bmc.channel.kg, bmc.channel.parameters)


def test_a_cipher_suite_has_a_limit(bmc):
    """By the place that it has among those on offer; 0: it is off."""
    assert b'\0\x11\2' == ask(bmc, TRANSPORT, 0x02, b'\1\x16\0\0')
    assert b'\0\x11\0\3\x11' + bytes(14) == ask(bmc, TRANSPORT, 0x02, b'\1\x17\0\0')
    assert b'\0\x11\0\x44' + bytes(7) == ask(bmc, TRANSPORT, 0x02, b'\1\x18\0\0')
    assert b'\0' == ask(bmc, TRANSPORT, 0x01, b'\1\x18\0\x30' + bytes(7))
    assert 0x11 == Console(bmc, suite=3).open()
    console = Console(bmc, suite=17)
    assert (0, (0x0A, None)) == (console.open(), console.rakp())
    Console(bmc, suite=17, role=0x13).login()


def test_limits_of_suites_are_those_of_the_suites_that_there_were():
    """Where others are offered now, each may be an administrator's again."""
    was = SessionEndpoint(EmulatedController(), Users(), suites=(3,)).channel
    was.parameters[24] = bytes(9)
    for suites, limits in (((3,), bytes(9)), ((3, 17), b'\0\x44' + bytes(7))):
        now = SessionEndpoint(EmulatedController(), Users(), suites=suites).channel
        now.load(was.dump())
        assert limits == now.parameters[24]


def test_a_second_lan_is_set_up_for_itself():
    """Its parameters, and what accounts may be there; what is set there changes nothing here."""
    users = Users()
    users.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
    controller = EmulatedController(channels=(IPMB, LAN, SECOND_LAN, SYSTEM))
    users.join(controller)
    bmc = SessionEndpoint(controller, users)
    assert bytes((0, 8, 4, 1, 0x80)) == ask(bmc, APP, 0x42, b'\x08')[:5]
    assert b'\0' == ask(bmc, TRANSPORT, 0x01, b'\x08\2' + b'\1' * 5)
    for channel, types in ((1, bytes(5)), (8, b'\1' * 5)):
        assert b'\0\x11' + types == ask(bmc, TRANSPORT, 0x02, bytes((channel, 2, 0, 0)))
    assert bytes((0, 10, 0x41, 1, 0x0F)) == ask(bmc, APP, 0x44, b'\x08\2')
    assert b'\0' == ask(bmc, APP, 0x43, b'\x98\2\3')
    assert bytes((0, 10, 0x41, 1, 0x13)) == ask(bmc, APP, 0x44, b'\x08\2')
    assert bytes((0, 10, 0x41, 1, 0x14)) == ask(bmc, APP, 0x44, b'\1\2')
    again = Users()
    again.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
    again.join(EmulatedController())
    again.load(users.dump())
    assert (0x10, 3) == again.find(b'admin').second


def test_who_may_not_write_it_may_not(bmc):
    """Set Channel Access, keys and LAN configuration are for administrators."""
    for netfn, command, data in ((APP, 0x40, b'\1\x80\0'), (APP, 0x56, b'\1\1\1' + bytes(20)), (TRANSPORT, 0x01, b'\1\3abcd')):
        assert b'\xd4' == ask(bmc, netfn, command, data, channel=LAN, privilege=EmulatedPrivilege.OPERATOR)


def test_a_key_is_not_longer_than_the_bmc_keeps():
    """A mistake of whoever sets the emulator up."""
    with pytest.raises(ValueError, match='20 bytes'):
        SessionEndpoint(EmulatedController(), Users(), kg=bytes(21))

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that is away answers no datagram, whoever made it restart; an answer that is lost is not lost twice."""

import pytest

from baremetal_acc.emulator.ipmi.controller import APP, SYSTEM, CommandRequest, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.message import lateness
from baremetal_acc.emulator.ipmi.session import DUPLICATE_SECONDS, SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users
from tests.unit.emulator.ipmi.console import Console, message
from tests.unit.emulator.ipmi.machines import Rig


@pytest.fixture
def rig():
    """With an endpoint."""
    one = Rig()
    users = Users()
    users.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
    one.endpoint = SessionEndpoint(one.bmc, users, clock=one.clock, reset_seconds=0)
    return one


@pytest.mark.parametrize('by', ['ipmi', 'redfish'])
def test_a_bmc_that_restarts_is_silent_and_forgets_its_sessions(rig, by):
    """Cold Reset over IPMI is answered, Manager.Reset comes from elsewhere: both are one restart of one BMC."""
    console = Console(rig.endpoint).login()
    assert b'\0\4' == console.command(APP, 0x3B, b'\4')
    if by == 'ipmi':
        assert b'\0' == console.command(APP, 0x02)
    else:
        rig.machine.reset_bmc('host')
    assert (True, []) == (rig.machine.is_bmc_down('host'), console.raw(APP, 0x01))
    rig.clock.advance(rig.machine.bmc_reset_seconds)
    assert [] == console.raw(APP, 0x01)
    assert 0 == Console(rig.endpoint).login().command(APP, 0x01)[0]


def test_what_was_carried_out_is_answered_when_it_is_sent_again(rig):
    """hang with after: executed once, silent once, and then the answer of that one execution."""
    calls = []
    rig.bmc.add(0x30, 1, lambda _: bytes((calls.append(1) or len(calls),)), privilege=EmulatedPrivilege.USER)
    rig.machine.add_fault({'name': 'hang', 'method': '30/01', 'count': 1, 'after': True})
    console = Console(rig.endpoint).login()
    answers = [[one[6:-1] for one in console.raw(0x30, 1, rq=9)] for _ in range(2)]
    assert ([[], [b'\0\1']], [1]) == (answers, calls)


def test_what_was_not_heard_is_executed_when_it_is_sent_again(rig):
    """hang without after."""
    calls = []
    rig.bmc.add(0x30, 1, lambda _: bytes((calls.append(1) or len(calls),)), privilege=EmulatedPrivilege.USER)
    rig.machine.add_fault({'name': 'hang', 'method': '30/01', 'count': 1})
    console = Console(rig.endpoint).login()
    assert ([], []) == (console.raw(0x30, 1, rq=9), calls)
    assert [b'\0\1'] == [one[6:-1] for one in console.raw(0x30, 1, rq=9)]


def test_what_is_asked_before_a_session_can_be_lost_too(rig):
    """Get Channel Authentication Capabilities, whatever comes after it."""
    rig.machine.add_fault({'name': 'hang', 'method': '06/38', 'count': 1})
    packet = bytes.fromhex('0600ff07 00 00000000 00000000 09 2018c8 8100388e04b5')
    assert [0, 1] == [len(rig.endpoint.receive(packet)) for _ in range(2)]


def test_an_answer_that_waits_comes_no_sooner_when_it_is_asked_for_again(rig):
    """slow: executed once; what is sent again meanwhile is answered when the first one is, and at once later on."""
    calls = []
    rig.bmc.add(0x30, 1, lambda _: bytes((calls.append(1) or len(calls),)), privilege=EmulatedPrivilege.USER)
    rig.machine.add_fault({'name': 'slow', 'method': '30/01', 'count': 1, 'seconds': 8})
    console = Console(rig.endpoint).login()
    waits = []
    for seconds in (0, DUPLICATE_SECONDS, 1, 3):
        rig.clock.advance(seconds)
        (packet,) = rig.endpoint.receive(console.packet(message(0x30, 1, sequence=9)))
        assert b'\0\1' == console.unpacked(packet)[6:-1]
        waits.append(lateness(packet))
    assert ([8, 3, 2, 0], [1]) == (waits, calls)
    assert [0] == [lateness(packet) for packet in rig.endpoint.receive(console.packet(message(0x30, 1, sequence=10)))]


def test_an_answer_waits_for_each_controller_that_is_slow(rig):
    """By the command, by the data, by the card; over the bridge, from the host, and before a session."""
    for seconds, rule in enumerate(
        ({'method': '06/01', 'device': 'AMC_1'}, {'method': '06/34'}, {'method': '06/38', 'uri': '8e *'}, {'method': 'GET'}), 1
    ):
        rig.machine.add_fault({'name': 'slow', 'seconds': 10**seconds, **rule})
    bridged = b'\x40' + message(APP, 1, to=0x72, sender=0x20)
    answers = [
        rig.bmc.answer(CommandRequest(channel=SYSTEM, netfn=APP, command=command, data=data))
        for command, data in ((1, b''), (0x34, bridged), (0x38, b'\x0e\4'), (0x38, b'\x8e\4'))
    ]
    assert [0, 110, 0, 1000] == [answer.late for answer in answers]
    packet = bytes.fromhex('0600ff07 00 00000000 00000000 09 2018c8 8100388e04b5')
    assert [1000] == [lateness(one) for one in rig.endpoint.receive(packet)]

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that is away answers no datagram, whoever made it restart; an answer that is lost is not lost twice."""

import pytest

from baremetal_acc.emulator.ipmi.controller import APP, Privilege
from baremetal_acc.emulator.ipmi.session import Endpoint
from baremetal_acc.emulator.ipmi.users import Users
from tests.unit.emulator.ipmi.console import Console
from tests.unit.emulator.ipmi.machines import Rig


@pytest.fixture
def rig():
    """With an endpoint."""
    one = Rig()
    users = Users()
    users.put(2, 'admin', b'secret', Privilege.ADMINISTRATOR)
    one.endpoint = Endpoint(one.bmc, users, clock=one.clock, reset_seconds=0)
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
    rig.bmc.add(0x30, 1, lambda _: bytes((calls.append(1) or len(calls),)), privilege=Privilege.USER)
    rig.machine.add_fault({'name': 'hang', 'method': '30/01', 'count': 1, 'after': True})
    console = Console(rig.endpoint).login()
    answers = [[one[6:-1] for one in console.raw(0x30, 1, rq=9)] for _ in range(2)]
    assert ([[], [b'\0\1']], [1]) == (answers, calls)


def test_what_was_not_heard_is_executed_when_it_is_sent_again(rig):
    """hang without after."""
    calls = []
    rig.bmc.add(0x30, 1, lambda _: bytes((calls.append(1) or len(calls),)), privilege=Privilege.USER)
    rig.machine.add_fault({'name': 'hang', 'method': '30/01', 'count': 1})
    console = Console(rig.endpoint).login()
    assert ([], []) == (console.raw(0x30, 1, rq=9), calls)
    assert [b'\0\1'] == [one[6:-1] for one in console.raw(0x30, 1, rq=9)]


def test_what_is_asked_before_a_session_can_be_lost_too(rig):
    """Get Channel Authentication Capabilities, whatever comes after it."""
    rig.machine.add_fault({'name': 'hang', 'method': '06/38', 'count': 1})
    packet = bytes.fromhex('0600ff07 00 00000000 00000000 09 2018c8 8100388e04b5')
    assert [0, 1] == [len(rig.endpoint.receive(packet)) for _ in range(2)]

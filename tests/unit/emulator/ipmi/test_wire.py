# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the faults of a machine do to the datagrams of its BMC: the share that is lost, and each way to be malformed."""

import struct

import pytest

from baremetal_acc.bmc.ipmi.endpoint import LoginPrivilege as Wanted
from baremetal_acc.bmc.ipmi.endpoint import place
from baremetal_acc.bmc.ipmi.rmcp import PacketCodec
from baremetal_acc.emulator import fault
from baremetal_acc.emulator.ipmi.controller import EmulatedPrivilege
from baremetal_acc.emulator.ipmi.message import lateness
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users
from baremetal_acc.emulator.ipmi.wire import FLOOD, MALFORMED, EmulatedWire
from baremetal_acc.errors import BmcNotAuthorised
from tests.unit.emulator.ipmi.machines import Rig

PASSWORD = 'Sixteen is it 16'
PING = bytes.fromhex('0600ff06 000011be 80 2a 00 00')


class Talk:
    """A client, and a BMC behind its wire."""

    def __init__(self):
        self.rig = Rig()
        users = Users()
        users.put(2, 'admin', PASSWORD.encode(), EmulatedPrivilege.ADMINISTRATOR)
        self.endpoint = SessionEndpoint(self.rig.bmc, users, clock=self.rig.clock)
        self.wire = EmulatedWire(self.endpoint, self.rig.machine, 'host')
        self.codec = PacketCodec(place('x', '127.0.0.1', username='admin', password=PASSWORD), Wanted.ADMINISTRATOR)

    def fault(self, name, **more):
        self.rig.machine.add_fault({'name': name, **more})

    def log_in(self):
        """Whether it succeeds."""
        packet = self.codec.begin()
        while not self.codec.established and self.codec.failure is None:
            (answer,) = self.wire.receive(packet)
            assert self.codec.hear(answer)
            packet = self.codec.outgoing
        return self.codec.established

    def ask(self):
        """Get Device ID: the packets of the answer."""
        return self.wire.receive(self.codec.encode(0x06, 0x01, b'', 0))


def test_the_faults_that_can_be_set_are_those_that_there_are():
    """No name without a meaning."""
    assert set(MALFORMED) == fault.MALFORMED


def test_without_faults_nothing_is_changed():
    """The answer is taken."""
    talk = Talk()
    assert talk.log_in()
    (answer,) = talk.ask()
    assert talk.codec.answers(talk.codec.opened(answer))


@pytest.mark.parametrize('how', sorted(MALFORMED))
def test_what_is_malformed_is_no_answer(how):
    """Of a session, as long as the fault is in force; what comes after it is taken."""
    talk = Talk()
    assert talk.log_in()
    talk.fault('ipmi-malformed', how=how, method='session', count=1)
    answers = talk.ask()
    assert {'truncated': len, 'lengths': lambda _: 5, 'garbage': lambda _: FLOOD}.get(how, lambda _: 1)(answers) == len(answers)
    taken = [one for one in map(talk.codec.opened, answers) if talk.codec.answers(one)]
    assert (how == 'sha1') == bool(taken)
    (answer,) = talk.ask()
    assert talk.codec.answers(talk.codec.opened(answer))


def test_a_proof_is_as_short_as_that_of_sha_1():
    """All else of RAKP 2 is as it was; the client is told what it is."""
    talk = Talk()
    talk.fault('ipmi-malformed', how='sha1', method='login')
    assert not talk.log_in()
    assert 'length 20, minimum 32 bytes' in str(talk.codec.failure)


def test_a_share_of_the_datagrams_is_lost_each_way_and_the_same_again():
    """By its seed; of a session only, where the rule says so."""
    found = []
    for _ in range(2):
        talk = Talk()
        talk.fault('ipmi-lost', share=0.1, seed=4, method='session')
        assert talk.log_in()
        found.append([len(talk.ask()) for _ in range(500)])
    assert found[0] == found[1]
    assert 60 < found[0].count(0) < 130


def test_another_password_is_proven_once_it_was_changed():
    """Sessions end, and the login says that the password is wrong, until the fault is taken away."""
    talk = Talk()
    assert talk.log_in()
    talk.fault('password-rotated')
    assert [] == talk.ask()
    assert 0 == talk.endpoint.sessions
    assert not talk.log_in()
    assert isinstance(talk.codec.failure, BmcNotAuthorised)
    talk.rig.machine.faults.remove()
    assert Talk().log_in()


def test_a_session_is_lost_with_the_command_that_was_named():
    """It is not answered, nor is any after it; another login is."""
    talk = Talk()
    assert talk.log_in()
    talk.fault('ipmi-session-lost', method='06/01', count=1)
    assert ([], []) == (talk.ask(), talk.ask())
    assert talk.log_in()
    assert 1 == len(talk.ask())


def test_what_is_no_rmcp_is_no_session():
    """A ping, and less than a header."""
    talk = Talk()
    talk.fault('ipmi-lost', share=1.0, method='session')
    assert 1 == len(talk.wire.receive(PING))
    assert [] == talk.wire.receive(b'')
    assert [] == talk.wire.receive(struct.pack('<B', 6))


def test_what_opens_a_session_waits_as_well():
    """slow, with method login: its four answers, not a command; not twice, and not by a rule for Redfish."""
    talk = Talk()
    talk.fault('slow', seconds=9, uri='/redfish/*')
    talk.fault('slow', seconds=3, method='06/38')
    talk.fault('slow', seconds=2, method='login')
    packet, waits = talk.codec.begin(), []
    while not talk.codec.established:
        (answer,) = talk.wire.receive(packet)
        waits.append(lateness(answer))
        assert talk.codec.hear(answer)
        packet = talk.codec.outgoing
    assert ([3, 2, 2, 2], [0]) == (waits, [lateness(one) for one in talk.ask()])


def test_an_answer_that_is_malformed_waits_no_less():
    """Both faults at once."""
    talk = Talk()
    assert talk.log_in()
    talk.fault('slow', seconds=2, method='06/01')
    talk.fault('ipmi-malformed', how='integrity')
    (answer,) = talk.ask()
    assert (2, None) == (lateness(answer), talk.codec.opened(answer) or None)

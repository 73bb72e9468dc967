# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A controller behind another one is asked as if it were near, and only its own answer counts."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.bmc.ipmi.bridge import Bridge, BridgedRequest, decode
from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.errors import BmcAnswerInvalid, BmcNotAuthorised, BmcRefused, BmcUnreachable, BmcUnsupported
from tests.unit.bmc.ipmi.cards import Fake


class Time:
    """Goes on when somebody sleeps."""

    def __init__(self):
        self.at = 0.0
        self.slept = []

    def now(self):
        return self.at

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.at += seconds


def machine(answers_by='embedded'):
    """A BMC, an AMC at 72h, and what stands behind that on its channel 7."""
    far = Fake(address=0x82, firmware=9, longest=25)
    amc = Fake(address=0x72, firmware=5, behind={(7, 0x82): far}, longest=25)
    bmc = Fake(behind={(0, 0x72): amc}, longest=40)
    bmc.answers_by = answers_by
    return bmc, amc, far


def over(raw, time=None, **kwargs):
    """A bridge to 72h."""
    time = time or Time()
    return Bridge(raw, **{'address': 0x72, 'now': time.now, 'sleep': time.sleep, **kwargs})


def test_a_request_has_the_bytes_of_the_bus():
    """Get Device ID to 72h, sequence 5: 72 18 76, then 20 14 01 CB; each part sums up to 0."""
    request = BridgedRequest(to=0x72, netfn=0x06, command=0x01, sequence=5)
    assert bytes.fromhex('72 18 76 20 14 01 cb') == request.encode()
    lun = BridgedRequest(to=0x72, netfn=0x0A, command=0x11, sequence=63, data=b'\0\0\0\x08', lun=2)
    assert bytes.fromhex('72 2a 64 20 fc 11 00 00 00 08 cb') == lun.encode()


def test_an_answer_is_read_by_its_bytes():
    """The answer to the first request above, completion code C1h and nothing else."""
    answer = decode(bytes.fromhex('20 1c c4 72 14 01 c1 b8'))
    assert (0x72, 7, 1, 5, 0xC1, b'') == (
        answer.sender,
        answer.netfn,
        answer.command,
        answer.sequence,
        answer.code,
        answer.data,
    )
    assert answer.answers(BridgedRequest(to=0x72, netfn=0x06, command=0x01, sequence=5))
    for other in ({'to': 0x74}, {'netfn': 0x04}, {'command': 2}):
        assert not answer.answers(BridgedRequest(**{'to': 0x72, 'netfn': 0x06, 'command': 0x01, 'sequence': 5, **other}))


@pytest.mark.parametrize(
    ('message', 'told'),
    [
        ('20 1c c4 72 14 01 c1', r'too short \(length 7, minimum 8 bytes\)'),
        ('20 1c c5 72 14 01 c1 b8', 'header checksum is wrong'),
        ('20 1c c4 72 14 01 c2 b8', 'checksum is wrong'),
    ],
)
def test_a_damaged_answer_is_none(message, told):
    """Both checksums count."""
    with pytest.raises(ValueError, match=told):
        decode(bytes.fromhex(message))


@pytest.mark.parametrize('answers_by', ['embedded', 'queue'])
def test_the_far_controller_answers_not_the_near_one(answers_by):
    """Wherever its answer comes."""
    bmc, amc, _ = machine(answers_by)
    bridge = over(bmc)
    assert CommandReply(0, amc.device_id()) == bridge(6, 1)
    assert amc.device_id() != bmc.device_id()
    assert ('fake 20h, controller 72h on channel 0', 25) == (bridge.label, bridge.longest)


def test_two_bridges_reach_further_and_each_takes_eight_bytes():
    """The BMC takes 40, the bus 25."""
    bmc, _, far = machine()
    bridge = Bridge(over(bmc), address=0x82, channel=7)
    assert CommandReply(0, far.device_id()) == bridge(6, 1)
    assert ('fake 20h, controller 72h on channel 0, controller 82h on channel 7', 17) == (bridge.label, bridge.longest)
    assert 12 == Bridge(Fake(longest=20), address=0x72).longest


def test_lun_and_once_go_with_the_command():
    """The LUN to the far controller, the care to the near one."""
    bmc, amc, _ = machine()
    over(bmc)(0x0A, 0x10, b'\0', lun=3, once=True)
    assert (0x0A, 0x10, b'\0', 3, False) == amc.asked[-1]
    over(bmc)(0x0A, 0x10, b'\0', once=True)
    assert (0x0A, 0x10, b'\0', 0, False) == amc.asked[-1]
    assert [(6, 0x34, 0, True)] * 2 == [(netfn, command, lun, once) for netfn, command, _, lun, once in bmc.asked]


def test_each_command_has_the_next_sequence_number_of_64():
    """So that a late answer is not taken for another one."""
    bmc, amc, _ = machine()
    bridge = over(bmc)
    for _ in range(130):
        bridge(6, 1)
    first = amc.sequences[0]
    assert [(first + n) % 64 for n in range(130)] == amc.sequences


@pytest.mark.parametrize(
    ('code', 'given'), [(0x83, 0xD3), (0x81, 0xD3), (0x82, 0xD3), (0xD3, 0xD3), (0xC0, 0xC0), (0xC3, 0xC3)]
)
def test_an_absent_controller_answers_that_it_cannot_be_reached(code, given):
    """At once: nothing is waited for. Busy stays busy."""
    bmc, _, _ = machine()
    bmc.codes = {(6, 0x34): code}
    assert CommandReply(given) == over(bmc)(6, 1)
    assert 1 == len(bmc.asked)


@pytest.mark.parametrize(('code', 'error'), [(0xC1, BmcUnsupported), (0xD4, BmcNotAuthorised), (0xCC, BmcRefused)])
def test_a_near_controller_that_is_no_bridge_says_so(code, error):
    """An ordinary answer."""
    bmc, _, _ = machine()
    bmc.codes = {(6, 0x34): code}
    with pytest.raises(error, match='Send Message to controller 72h on channel 0'):
        over(bmc)(6, 1)


def test_a_request_that_the_bus_does_not_take_is_not_sent():
    """It gets the code that a controller gives, so that blocks are made shorter."""
    bmc, _, _ = machine()
    assert CommandReply(0xC8) == over(bmc)(0x2C, 0x32, bytes(26))
    assert [] == bmc.asked


class Garbled(Fake):
    """Hands on what a test says."""

    message = b''

    def send(self, data):
        return b'\0' + self.message


@pytest.mark.parametrize(
    ('message', 'told'),
    [(b'\x20', 'the answer is damaged'), (bytes.fromhex('20 1c c4 74 14 01 c1 b6'), 'the answer is for another command')],
)
def test_what_is_no_answer_is_an_error(message, told):
    """Damaged, or of another controller."""
    bmc = Garbled()
    bmc.message = message
    with pytest.raises(BmcAnswerInvalid, match=told):
        over(bmc)(6, 1)


class Elsewhere(Fake):
    """Puts its answers into the queue as if they were of this channel, with a privilege in the upper half of the byte."""

    channel = 0x40

    def send(self, data):
        code = super().send(data)
        self.queue = [bytes([self.channel]) + message[1:] for message in self.queue]
        return code


@pytest.mark.parametrize(('channel', 'taken'), [(0x00, True), (0x40, True), (0x01, False), (0x47, False)])
def test_an_answer_in_the_queue_is_of_the_channel_that_was_asked(channel, taken):
    """Controllers of two channels may have the same address."""
    amc = Fake(address=0x72)
    bmc = Elsewhere(behind={(0, 0x72): amc})
    bmc.answers_by, bmc.channel = 'queue', channel
    if taken:
        assert CommandReply(0, amc.device_id()) == over(bmc)(6, 1)
    else:
        with pytest.raises(BmcUnreachable):
            over(bmc)(6, 1)


def test_a_bmc_may_give_back_its_own_sequence_number():
    """As OpenIPMI's ipmi_sim 2.0.33 answered Get Device ID of 72h: with the number of the Send Message, to 20h."""
    bmc = Garbled()
    bmc.message = bytes.fromhex('20 1c c4 72 38 01 00 01 02 01 03 02 0d 5a 31 00 34 12 00 00 00 00 6e')
    for _ in range(2):
        assert CommandReply(0, bmc.message[7:-1]) == over(bmc)(6, 1)


def test_an_answer_in_the_queue_to_an_earlier_request_is_passed_over():
    """The same command to the same controller, as when a memory is read."""
    bmc, amc, _ = machine('queue')
    bridge = over(bmc)
    bridge(6, 1)
    old = (amc.sequences[0] - 1) % 64 << 2
    bmc.queue = [b'\0' + bytes.fromhex('1c c4') + bytes([0x72, old, 1, 0xC1, -(0x72 + old + 1 + 0xC1) & 0xFF])]
    assert CommandReply(0, amc.device_id()) == bridge(6, 1)
    assert [] == bmc.queue


def test_messages_for_others_in_the_queue_are_passed_over():
    """A late answer, one of another channel, and noise."""
    bmc, amc, _ = machine('queue')
    late = bytes.fromhex('1c c4 74 14 01 c1 b6')
    bmc.queue = [b'\0' + late, b'\7' + late, b'', b'\0\1\2']
    assert CommandReply(0, amc.device_id()) == over(bmc)(6, 1)


def test_an_answer_that_does_not_come_is_waited_for_as_long_as_was_said():
    """With longer and longer pauses, up to a tenth of a second."""
    bmc, _, _ = machine('nothing')
    time = Time()
    with pytest.raises(BmcUnreachable, match='command 06h/01h: no answer came over the bridge'):
        over(bmc, time)(6, 1, within=timedelta(seconds=2))
    assert 2 <= time.at <= 2.1
    assert [0.01, 0.02, 0.04, 0.08, 0.1, 0.1] == time.slept[:6]


def test_a_queue_that_is_not_to_be_read_is_no_way():
    """Over LAN it seldom is."""
    bmc, _, _ = machine('nothing')
    bmc.codes = {(6, 0x33): 0xD4}
    with pytest.raises(BmcUnreachable, match='the answer could not be fetched: Get Message: refused'):
        over(bmc)(6, 1)


def test_a_queue_of_strange_messages_has_an_end():
    """A hostile controller has always one more."""
    bmc, _, _ = machine('nothing')
    bmc.queue = [b'\0\1\2'] * 1000
    with pytest.raises(BmcUnreachable):
        over(bmc)(6, 1)
    assert 936 == len(bmc.queue)


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(data):
    """No other error comes out."""
    try:
        answer = decode(data)
    except ValueError:
        return
    assert len(data) == 8 + len(answer.data)


@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_that_come_back_are_an_answer_or_an_error(data):
    """No other error comes out."""
    bmc = Garbled()
    bmc.message = data
    try:
        over(bmc)(6, 1)
    except BmcAnswerInvalid:
        return

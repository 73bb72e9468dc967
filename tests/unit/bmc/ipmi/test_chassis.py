# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a BMC says over IPMI of the power of its machine and of its last start is read, and what it does not say is None."""

import pytest

from baremetal_acc.bmc.ipmi import chassis
from baremetal_acc.bmc.ipmi.command import CommandReply, NetFn
from baremetal_acc.errors import BmcBusy, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import HostReading, PowerEvent, PowerState

WHO = CommandReply(0, bytes((0x20, 1, 1, 0, 2, 0x8E, 0, 0, 0, 0, 0)))


class Controller:
    """Answers one command so, says what it is, and knows no other."""

    label = 'host (ipmi://192.0.2.1)'
    longest = 38

    def __init__(self, command, *replies):
        self.replies = {command: list(replies), (NetFn.APP, 0x01): [WHO]}
        self.asked = []

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        self.asked.append((netfn, command))
        replies = self.replies.get((netfn, command), [CommandReply(0xC1)])
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


CAUSE, HOURS, LOG = (NetFn.CHASSIS, 0x07), (NetFn.CHASSIS, 0x0F), (NetFn.STORAGE, 0x40)
READ = {CAUSE: chassis.restart_cause, HOURS: chassis.power_on_hours, LOG: chassis.log_mark}


@pytest.mark.parametrize(
    ('data', 'power', 'events'),
    [
        (b'\x61\x00\x00', PowerState.ON, set()),
        (b'\x60\x10\x00', PowerState.OFF, {PowerEvent.ON_BY_COMMAND}),
        (b'\x00\x01\x00', PowerState.OFF, {PowerEvent.MAINS_LOST}),
        (b'\x00\xff\x00\x00', PowerState.OFF, set(PowerEvent)),
        (b'\x00\xe0\x00', PowerState.OFF, set()),
    ],
)
def test_the_status_of_the_chassis_tells_the_last_change_of_power_too(data, power, events):
    """In the one answer; reserved bits are none."""
    controller = Controller((NetFn.CHASSIS, 0x01), CommandReply(0, data))
    assert HostReading(power=power, power_event=frozenset(events)) == chassis.status(controller)
    assert [(NetFn.CHASSIS, 0x01)] == controller.asked


def test_a_status_that_cannot_be_read_is_an_error():
    """The power has to be known."""
    for reply, error in ((CommandReply(0xC1), BmcUnsupported), (CommandReply(0xC0), BmcBusy)):
        with pytest.raises(error):
            chassis.status(Controller((NetFn.CHASSIS, 0x01), reply))


@pytest.mark.parametrize(
    ('data', 'said'),
    [
        (b'\x00\x00', None),
        (b'\xf0\x01', None),
        (b'\x01\x01', 'Chassis Control, channel 1h'),
        (b'\x01\xff', 'Chassis Control, channel Fh'),
        (b'\x01', 'Chassis Control'),
        (b'\x03\x01', 'power button'),
        (b'\xfb\x00', 'clock alarm'),
        (b'\x0f\x00', 'cause Fh'),
        (b'', None),
    ],
)
def test_the_cause_of_the_last_start(data, said):
    """With the channel where a command was the cause. That it is unknown is nothing that could be compared."""
    assert said == chassis.restart_cause(Controller(CAUSE, CommandReply(0, data)))


def test_every_cause_is_another_text():
    """So that two of them differ."""
    said = {chassis.restart_cause(Controller(CAUSE, CommandReply(0, bytes((cause, 0))))) for cause in range(16)}
    assert 16 == len(said)


@pytest.mark.parametrize(
    ('data', 'minutes'),
    [
        (b'\x3c\x02\x01\x00\x00', 60 * 258),
        (b'\x01\x00\x00\x00\x00\x99', 0),
        (b'\xff\xff\xff\xff\xff', 255 * 0xFFFFFFFF),
        (b'\x00\x02\x01\x00\x00', None),
        (b'\x3c\x02\x01\x00', None),
    ],
)
def test_the_time_that_the_machine_was_on(data, minutes):
    """Steps times their length; a step of no length, or a short answer, says nothing."""
    assert minutes == chassis.power_on_hours(Controller(HOURS, CommandReply(0, data)))


@pytest.mark.parametrize(
    ('data', 'mark'),
    [
        (b'\x51\x02\x01\xff\xff\x01\x00\x00\x00\x09\x09\x09\x09\x02', '258 entries, the last at 1'),
        (b'\x51\x00\x00\xff\xff\xff\xff\xff\xff', '0 entries, the last at 4294967295'),
        (b'\x51\x00\x00\xff\xff\xff\xff\xff', None),
    ],
)
def test_the_mark_of_the_log(data, mark):
    """How many entries, and when the last one was added."""
    assert mark == chassis.log_mark(Controller(LOG, CommandReply(0, data)))


@pytest.mark.parametrize('command', list(READ))
@pytest.mark.parametrize('code', [0xC0, 0xC1, 0xC2, 0xC7, 0xCC, 0xD4, 0xD5, 0xFF])
def test_what_a_bmc_lacks_or_refuses_it_does_not_say(command, code):
    """Asked once: a poll is not held up by it."""
    controller = Controller(command, CommandReply(code))
    assert READ[command](controller) is None
    assert [command] == controller.asked


@pytest.mark.parametrize('command', list(READ))
def test_a_bmc_that_is_silent_is_not_taken_for_one_that_does_not_say(command):
    """It is asked what it is: one that answers that lacks the command, and one that does not is not reached."""
    gone = BmcUnreachable(bmc='host', what='no answer')
    assert READ[command](Controller(command, gone)) is None
    controller = Controller(command, gone)
    controller.replies[NetFn.APP, 0x01] = [gone]
    with pytest.raises(BmcUnreachable):
        READ[command](controller)

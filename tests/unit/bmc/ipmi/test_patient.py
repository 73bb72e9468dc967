# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Whoever is busy while it is read is asked again; not for ever, and nothing that is to be sent once."""

from datetime import timedelta

import pytest

from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.bmc.ipmi.node_busy_retry import NodeBusyRetry, RetryingCommands


class Controller:
    """Answers with these codes, the last one for ever."""

    label, longest = 'host', 40

    def __init__(self, *codes):
        self.codes, self.asked = list(codes), []

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        self.asked.append((netfn, command, data, lun, once, within))
        return CommandReply(self.codes.pop(0) if len(self.codes) > 1 else self.codes[0], data)


class Time:
    """Passes by sleeping."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(round(seconds, 3))
        self.now += seconds

    def patience(self, seconds=10):
        return NodeBusyRetry(timedelta(seconds=seconds), clock=self.clock, sleep=self.sleep)


@pytest.mark.parametrize('code', [0xC0, 0xC3])
def test_a_controller_that_was_busy_is_asked_the_same_again(code):
    """With pauses that double, up to a second."""
    controller, time = Controller(*[code] * 6, 0), Time()
    patient = RetryingCommands(controller, time.patience())
    assert ('host', 40) == (patient.label, patient.longest)
    assert CommandReply(0, b'x') == patient(6, 1, b'x', lun=2, within=timedelta(seconds=3))
    assert [(6, 1, b'x', 2, False, timedelta(seconds=3))] * 7 == controller.asked
    assert [0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == time.slept


@pytest.mark.parametrize(
    ('code', 'once'), [(0xC0, True), (0xC3, True), (0xC1, False), (0xD3, False), (0x80, False), (0, False)]
)
def test_nothing_else_is_asked_again(code, once):
    """Neither what is to be sent once, nor what was answered otherwise."""
    controller, time = Controller(code), Time()
    assert code == RetryingCommands(controller, time.patience())(6, 1, once=once).code
    assert (1, []) == (len(controller.asked), time.slept)


def test_all_who_read_in_one_look_have_one_patience():
    """A controller that is busy for ever is believed in the end, and the others are not waited for then."""
    time = Time()
    patience = time.patience(3)
    one, other = Controller(0xC0), Controller(0xC0)
    assert 0xC0 == RetryingCommands(one, patience)(6, 1).code
    assert 3.0 == pytest.approx(time.now)
    assert 0xC0 == RetryingCommands(other, patience)(6, 1).code
    assert (3.0, 1) == (pytest.approx(time.now), len(other.asked))
    assert patience.left <= 0


def test_a_clock_that_stands_still_does_not_make_it_wait_for_ever():
    """Each pause counts at least a little."""
    controller = Controller(0xC0)
    RetryingCommands(controller, NodeBusyRetry(timedelta(seconds=0.01), clock=lambda: 0.0, sleep=lambda _: None))(6, 1)
    assert 11 == len(controller.asked)

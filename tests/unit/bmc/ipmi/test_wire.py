# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Completion codes of IPMI become errors that say what the caller has to do about them."""

import pytest

from baremetal_acc.bmc.ipmi.command import CommandRefused, CommandReply, NetFn, ask, series
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcNotAuthorised, BmcUnsupported


class Controller:
    """Gives one answer, and remembers what it was asked."""

    label = 'host (ipmi://192.0.2.1)'
    longest = 38

    def __init__(self, reply: CommandReply) -> None:
        self.reply = reply
        self.asked = []

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        self.asked.append((netfn, command, data, once))
        return self.reply


def test_what_comes_after_the_completion_code_is_given():
    """And the request goes out as it is."""
    controller = Controller(CommandReply(0, b'\x20\x01'))
    assert b'\x20\x01' == ask(controller, NetFn.APP, 1, b'\xff', what='Get Device ID', least=2, once=True)
    assert [(6, 1, b'\xff', True)] == controller.asked


@pytest.mark.parametrize(
    ('code', 'error', 'text'),
    [
        (0xC0, BmcBusy, 'the controller is busy'),
        (0xC1, BmcUnsupported, 'the command is not supported'),
        (0xC2, BmcUnsupported, 'the command is not supported'),
        (0xD4, BmcNotAuthorised, 'refused'),
        (0xC7, CommandRefused, 'refused with completion code'),
        (0x81, CommandRefused, 'refused with completion code'),
    ],
)
def test_a_refusal_names_the_controller_the_command_and_the_code(code, error, text):
    """Each kind is an error of its own: whoever calls does something else about it."""
    with pytest.raises(error) as caught:
        ask(Controller(CommandReply(code)), NetFn.APP, 1, what='Get Device ID')
    assert type(caught.value) is error
    assert str(caught.value).startswith('BMC host (ipmi://192.0.2.1): Get Device ID: ')
    assert text in str(caught.value)
    assert f'{code:02X}h' in str(caught.value)


def test_an_answer_that_is_cut_short_is_none():
    """A hostile or a broken controller."""
    with pytest.raises(BmcAnswerInvalid, match=r'Get Device ID: the answer is too short \(length 1, minimum 11 bytes\)'):
        ask(Controller(CommandReply(0, b'\x20')), NetFn.APP, 1, what='Get Device ID', least=11)


def test_a_series_is_sent_one_at_a_time_where_nothing_is_faster():
    """It ends with the first answer that is not taken, or with the last request."""
    controller, heard = Controller(CommandReply(0, b'a')), []

    def taken(reply):
        heard.append(reply)
        return len(heard) < 3

    assert controller.reply == series(controller, 6, 1, [b'1', b'2', b'3', b'4'], taken)
    assert ([(6, 1, data, False) for data in (b'1', b'2', b'3')], 3) == (controller.asked, len(heard))
    assert series(controller, 6, 1, [b'5', b'6'], lambda reply: True) is None
    assert [b'5', b'6'] == [data for _, _, data, _ in controller.asked[3:]]


def test_a_series_is_left_to_whoever_knows_more_of_it():
    """With all that was given."""

    class Faster(Controller):
        def series(self, *given):
            self.asked.append(given)
            return self.reply

    controller, requests = Faster(CommandReply(0xC0)), []
    assert CommandReply(0xC0) == series(controller, 6, 1, requests, len)
    assert [(6, 1, requests, len)] == controller.asked

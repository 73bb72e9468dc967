# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What do completion codes mean to whoever has to do something about them?"""

import pytest

from baremetal_acc.bmc.ipmi.wire import NetFn, Reply, ask
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcNotAuthorised, BmcRefused, BmcUnsupported


class Controller:
    """Gives one answer, and remembers what it was asked."""

    label = 'host (ipmi://192.0.2.1)'
    longest = 38

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked = []

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        self.asked.append((netfn, command, data, once))
        return self.reply


def test_what_comes_after_the_completion_code_is_given():
    """And the request goes out as it is."""
    controller = Controller(Reply(0, b'\x20\x01'))
    assert b'\x20\x01' == ask(controller, NetFn.APP, 1, b'\xff', what='Get Device ID', least=2, once=True)
    assert [(6, 1, b'\xff', True)] == controller.asked


@pytest.mark.parametrize(
    ('code', 'error', 'text'),
    [
        (0xC0, BmcBusy, 'it is busy'),
        (0xC1, BmcUnsupported, 'it has no such command'),
        (0xC2, BmcUnsupported, 'it has no such command'),
        (0xD4, BmcNotAuthorised, 'refused'),
        (0xC7, BmcRefused, 'refused with completion code'),
        (0x81, BmcRefused, 'refused with completion code'),
    ],
)
def test_a_refusal_names_the_controller_the_command_and_the_code(code, error, text):
    """Each kind is an error of its own: whoever calls does something else about it."""
    with pytest.raises(error) as caught:
        ask(Controller(Reply(code)), NetFn.APP, 1, what='Get Device ID')
    assert type(caught.value) is error
    assert str(caught.value).startswith('BMC host (ipmi://192.0.2.1): Get Device ID: ')
    assert text in str(caught.value)
    assert f'{code:02X}h' in str(caught.value)


def test_an_answer_that_is_cut_short_is_none():
    """A hostile or a broken controller."""
    with pytest.raises(BmcAnswerInvalid, match='Get Device ID: the answer has 1 bytes, and 11 are needed'):
        ask(Controller(Reply(0, b'\x20')), NetFn.APP, 1, what='Get Device ID', least=11)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an operator is refused is asked as an administrator: he is refused each kind of command once, and no write goes so."""

import pytest

from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.bmc.ipmi.privileged import Privileged
from baremetal_acc.errors import BmcNotAuthorised


class Controller:
    """Answers by command with a code, or raises; what is not named is done."""

    label, longest = 'host', 40

    def __init__(self, **codes):
        self.codes, self.asked = codes, []

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        self.asked.append((command, data, lun))
        answer = self.codes.get(f'c{command:02x}', 0)
        if isinstance(answer, Exception):
            raise answer
        return CommandReply(answer, b'x' if not answer else b'')


def test_only_what_is_refused_is_asked_as_an_administrator():
    """Once refused, always: the second time nobody asks as an operator."""
    operator, administrator = Controller(c23=0xD4, c11=0xC9), Controller()
    both = Privileged(operator, administrator)
    assert ('host', 40) == (both.label, both.longest)
    assert [0, 0, 0, 0xC9] == [both(10, command, b'y', lun=1).code for command in (0x23, 0x23, 0x10, 0x11)]
    assert [0x23, 0x10, 0x11] == [command for command, *_ in operator.asked]
    assert [(0x23, b'y', 1)] * 2 == administrator.asked


@pytest.mark.parametrize('answer', [0xD4, BmcNotAuthorised(bmc='host', what='no administrator')])
def test_an_account_that_may_not_be_one_is_told_what_the_operator_was_told(answer):
    """Refused, or no such session: D4h it was."""
    both = Privileged(Controller(c23=0xD4), Controller(c23=answer))
    assert [0xD4, 0xD4] == [both(10, 0x23).code, both(10, 0x23).code]


def test_a_bridge_that_is_refused_to_an_operator_is_taken_as_an_administrator():
    """The refusal of Send Message is raised; where both are refused it is the operator's that is."""
    refused = BmcNotAuthorised(bmc='host', what='Send Message')
    assert 0 == Privileged(Controller(c01=refused), Controller())(6, 1).code
    other = BmcNotAuthorised(bmc='host', what='another one')
    with pytest.raises(BmcNotAuthorised, match='Send Message'):
        Privileged(Controller(c01=refused), Controller(c01=other))(6, 1)


@pytest.mark.parametrize('answer', [0xD4, BmcNotAuthorised(bmc='host', what='Send Message')])
def test_what_is_sent_once_is_sent_once(answer):
    """By the operator."""
    administrator = Controller()
    both = Privileged(Controller(c02=answer), administrator)
    if isinstance(answer, int):
        assert 0xD4 == both(0, 2, once=True).code
    else:
        with pytest.raises(BmcNotAuthorised):
            both(0, 2, once=True)
    assert [] == administrator.asked

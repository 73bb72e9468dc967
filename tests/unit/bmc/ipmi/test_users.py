# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Accounts of a BMC, from answers as IPMI 2.0 revision 1.1 has them (sections 22.27 and 22.29)."""

import pytest

from baremetal_acc.bmc.ipmi import users
from baremetal_acc.bmc.ipmi.wire import Reply
from baremetal_acc.errors import BmcUnreachable
from baremetal_acc.model.inventory import Accounts, BmcUser

ENABLED, DISABLED, UNSAID = 0x40, 0x80, 0x00


class Bmc:
    """Accounts by number: state, privilege, name."""

    label = 'host (192.0.2.1)'
    longest = 1400

    def __init__(self, accounts, most=4, **refused):
        self.accounts, self.most, self.refused, self.asked = accounts, most, refused, []

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        assert (0x06, False) == (netfn, once)
        if self.refused.get('silent') == 'for all':
            raise BmcUnreachable(bmc=self.label, what='no answer')
        if command == 0x01:
            return Reply(0, bytes(15))
        self.asked.append((command, bytes(data)))
        number = data[-1]
        if command == 0x44:
            assert 0x0E == data[0]
            if number in self.refused.get('numbers', {}):
                return Reply(self.refused['numbers'][number])
            state, privilege, _ = self.accounts.get(number, (DISABLED, 0x0F, ''))
            return Reply(self.refused.get('access', 0), bytes([self.most, state | 1, 1, 0x10 | privilege]))
        if 'silent' in self.refused:
            raise BmcUnreachable(bmc=self.label, what='no answer')
        assert 0x46 == command
        return Reply(self.refused.get('name', 0), self.accounts[number][2].encode('latin-1').ljust(16, b'\0'))


def test_those_that_may_log_in_are_told():
    """Enabled on whatever channel, or with access where nothing is said; disabled, or without access, they are not."""
    bmc = Bmc(
        {
            1: (DISABLED, 4, ''),
            2: (ENABLED, 4, 'admin'),
            3: (UNSAID, 3, 'oper'),
            4: (UNSAID, 0x0F, 'nobody'),
            5: (ENABLED, 0x0F, 'elsewhere'),
            6: (ENABLED, 7, 'x' * 16),
            7: (ENABLED, 4, 'beyond'),
        },
        most=6,
    )
    expected = (
        BmcUser(number=2, name='admin', privilege='administrator'),
        BmcUser(number=3, name='oper', privilege='operator'),
        BmcUser(number=5, name='elsewhere', privilege='no access'),
        BmcUser(number=6, name='x' * 16, privilege='privilege 7h'),
    )
    assert Accounts(users=expected) == users.read(bmc)
    assert "'admin' (number 2, administrator)" == str(expected[0])


def test_a_number_without_an_account_is_none_and_another_refusal_is_told():
    """What else is refused could be anybody."""
    accounts = {2: (ENABLED, 4, 'admin'), 4: (ENABLED, 4, 'mallory')}
    for code in (0xC9, 0xCC):
        found = users.read(Bmc(accounts, numbers={3: code}))
        assert ([2, 4], None) == ([u.number for u in found.users], found.unread)
    assert 'D4h' in users.read(Bmc(accounts, numbers={3: 0xD4})).unread


@pytest.mark.parametrize(('name', 'told'), [('admin\0 x', 'admin\\0 x'), ('\0root', '\\0root'), ('admin\0\0', 'admin')])
def test_what_stands_behind_the_end_of_a_name_is_told(name, told):
    """It is not the account that it looks like."""
    [user] = users.read(Bmc({2: (ENABLED, 4, name)})).users
    assert told == user.name


def test_the_anonymous_one_counts():
    """Its name is empty."""
    found = users.read(Bmc({1: (ENABLED, 2, '')}))
    assert [(1, '', 'user')] == [(u.number, u.name, u.privilege) for u in found.users]


@pytest.mark.parametrize(('refused', 'what'), [({'access': 0xD4}, 'Get User Access'), ({'name': 0xCC}, 'Get User Name')])
def test_what_cannot_be_read_is_told_and_fails_no_look(refused, what):
    """Who may be there nobody knows."""
    found = users.read(Bmc({2: (ENABLED, 4, 'admin')}, **refused))
    assert () == found.users
    assert what in found.unread


def test_a_bmc_that_has_gone_is_no_bmc_without_accounts():
    """The look ends as any other."""
    with pytest.raises(BmcUnreachable):
        users.read(Bmc({2: (ENABLED, 4, 'admin')}, silent='for all'))


def test_a_bmc_that_leaves_one_command_unanswered_fails_no_look():
    """It answers what every BMC does: then it is there, and who else may log in is what nobody knows."""
    found = users.read(Bmc({2: (ENABLED, 4, 'admin')}, silent='for names'))
    assert Accounts(users=(), unread='no answer') == found

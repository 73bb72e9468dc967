# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Accounts of BMCs against those that the rules name."""

from dataclasses import replace

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.inventory import Accounts, BmcUser
from baremetal_acc.model.verdict import Met
from baremetal_acc.planning import watch, watch_alarms
from baremetal_acc.planning.watch_alarms import TroubleKind
from baremetal_acc.policy import baseline
from baremetal_acc.policy.accounts import limits, strange
from tests.unit.planning import trouble_words as said
from tests.unit.planning import values as v
from tests.unit.planning.finding_words import verify

ADMIN = BmcUser(number=2, name='admin', privilege='administrator')
STRANGER = BmcUser(number=5, name='mallory', privilege='administrator')


def found(accounts, rule='bmc_users = ["oper", "admin"]'):
    """Findings about users."""
    inventory = v.inventory(v.gpu())
    inventory = replace(inventory, bmcs=tuple(replace(b, accounts=accounts) for b in inventory.bmcs))
    rules = baseline.parse(f'format = 1\n[[rule]]\nname = "r"\nblock = []\n{rule}\n', 'baseline.toml')
    verdict = verify(inventory, rules, v.NODE, (), (), lifecycle=1)
    return [f for f in verdict.findings if str(f.subject).startswith('users')]


@pytest.mark.parametrize(
    ('accounts', 'met', 'says'),
    [
        (Accounts(users=(ADMIN,)), Met.YES, 'no other accounts'),
        (Accounts(users=()), Met.YES, 'no other accounts'),
        (Accounts(users=(ADMIN, STRANGER)), Met.NO, "'mallory' (number 5, administrator)"),
        (Accounts(users=(replace(ADMIN, name='Admin'),)), Met.NO, "'Admin' (number 2, administrator)"),
        (Accounts(users=(ADMIN,), unread='no'), Met.NO, 'not all accounts could be read: no'),
        (Accounts(users=(ADMIN,), unguarded=('channel 8h takes all', 'and so on')), Met.NO, 'channel 8h takes all; and so on'),
        (Accounts(users=(STRANGER,), unread='no'), Met.NO, '(number 5, administrator); not all accounts could be read: no'),
    ],
)
def test_an_account_that_nobody_named_is_not_met(accounts, met, says):
    """Nor is what could not be read."""
    [one] = found(accounts)
    assert (met, 'no accounts but admin, oper', 'r') == (one.met, one.fact.expected, one.rule)
    assert one.fact.found.endswith(says)
    assert 'users of BMC host' == str(one.subject)


def wrong(accounts, rule='bmc_users = ["admin"]', before=()):
    """What a round of the watch makes of them, and of what was known before."""
    inventory = v.inventory(v.gpu(), v.fpga())
    inventory = replace(inventory, bmcs=tuple(replace(b, accounts=accounts) for b in inventory.bmcs))
    rules = baseline.parse(f'format = 1\n[[rule]]\nname = "r"\nblock = []\n{rule}\n', 'baseline.toml')
    return watch_alarms.next_round(before, said.accounts(inventory, rules, v.NODE), v.NOW, patience=3)


def test_the_watch_tells_an_account_once_and_that_it_is_gone():
    """One that came with the tenant, or behind our back. It is of the BMC, however many cards that shows."""
    came = wrong(Accounts(users=(ADMIN, STRANGER)))
    (alarm,) = came.begun
    assert (TroubleKind.ACCOUNT, None, True) == (alarm.trouble.kind, alarm.trouble.device, alarm.trouble.certain)
    assert "account 'mallory' (number 5, administrator) of BMC host: no rule expects it" == alarm.trouble.fact.text
    assert frozenset() == watch.exposed([alarm.trouble])
    again = wrong(Accounts(users=(ADMIN, STRANGER)), before=came.alarms)
    assert ((), ()) == (again.begun, again.ended)
    over = wrong(Accounts(users=(ADMIN,)), before=again.alarms)
    assert ((), (), ['account']) == (over.alarms, over.begun, [a.trouble.kind for a in over.ended])


def test_accounts_that_cannot_be_read_end_no_alarm_and_are_one_when_it_stays():
    """As of all that nobody can see."""
    known = wrong(Accounts(users=(ADMIN, STRANGER))).alarms
    for told in ([], [], ['unreadable']):
        came = wrong(Accounts(users=(ADMIN,), unread='no answer'), before=known)
        known = came.alarms
        assert (told, ()) == ([a.trouble.kind for a in came.begun], came.ended)
    assert ['unreadable', 'account'] == [a.trouble.kind for a in known]


def test_the_watch_says_nothing_where_no_rule_asks_or_the_driver_does_not():
    """As verification."""
    assert () == wrong(Accounts(users=(STRANGER,)), rule='').alarms
    assert () == wrong(None).alarms


def test_where_no_rule_asks_or_the_driver_does_not_nothing_is_said():
    """Redfish is not asked."""
    assert [] == found(Accounts(users=(STRANGER,)), rule='')
    assert [] == found(None)


def test_nobody_may_be_asked_for():
    """An empty list is one."""
    [one] = found(Accounts(users=(ADMIN,)), rule='bmc_users = []')
    assert ('no accounts', Met.NO) == (one.fact.expected, one.met)


@pytest.mark.parametrize(
    ('privilege', 'expected', 'says'),
    [
        ('user', 'admin=user', []),
        ('callback', 'admin=user', []),
        ('no access', 'admin=callback', []),
        ('administrator', 'admin=administrator', []),
        ('OEM', 'admin=OEM', []),
        ('OEM', 'admin', []),
        ('operator', 'admin=user', ["'admin' (number 2, operator): allowed privilege is at most user"]),
        ('OEM', 'admin=administrator', ["'admin' (number 2, OEM): allowed privilege is at most administrator"]),
        ('privilege 6h', 'admin=OEM', ["'admin' (number 2, privilege 6h): allowed privilege is at most OEM"]),
    ],
)
def test_an_account_may_be_no_more_than_it_was_given(privilege, expected, says):
    """Root on the host can raise one that was to look only. A name that holds the sign has its privilege behind."""
    assert says == strange([replace(ADMIN, privilege=privilege)], [expected])


def test_of_two_accounts_with_one_name_neither_is_the_expected_one():
    """Nobody can tell which of them is."""
    twice = [ADMIN, replace(ADMIN, number=5)]
    assert [
        "'admin' (number 2, administrator): one of 2 accounts with this name",
        "'admin' (number 5, administrator): one of 2 accounts with this name",
    ] == strange(twice, ['admin'])
    [one] = found(Accounts(users=tuple(twice)))
    assert Met.NO is one.met


def test_limits_stand_behind_the_last_sign():
    """The anonymous account has no name."""
    assert {'a=b': 'user', 'admin': None, '': 'callback'} == limits(['a=b=user', 'admin', '=callback'])


@pytest.mark.parametrize(
    ('name', 'told'),
    [
        ('admin=foo', "'foo' is not a privilege (privileges are no access, callback, user, operator, administrator, OEM"),
        ('admin=Operator', "'Operator' is not a privilege (did you mean operator?"),
        ('admin = operator', "'admin = operator' has blanks next to the '=' (write 'admin=operator')"),
        ('admin =operator', "'admin =operator' has blanks next to the '=' (write 'admin=operator')"),
        ('admin= operator', "'admin= operator' has blanks next to the '=' (write 'admin=operator')"),
        ('admin=oem', 'did you mean OEM?'),
        ('admin=', "a privilege is missing after the '=' (privileges are"),
        ('=', "a privilege is missing after the '='"),
        ('a=b', "for an account of the name 'a=b' write 'a=b=administrator', or its highest allowed privilege)"),
        ('seventeen-letters', "'seventeen-letters' has 17 bytes; the name of an IPMI account has at most 16"),
        ('seventeen-letters=user', "'seventeen-letters' has 17 bytes"),
        ('\u20ac23456789012345', 'has 17 bytes'),
    ],
)
def test_what_could_mean_no_account_is_an_error_of_the_rule(name, told):
    """With its line: it was a name that no account has, so that the expected one was a stranger, or an administrator let be."""
    with pytest.raises(DocumentError) as caught:
        found(None, rule=f'bmc_users = [\n"oper",\n"{name}"]')
    assert str(caught.value).startswith('baseline.toml, line 5: rule[0].bmc_users: ')
    assert told in str(caught.value)


@pytest.mark.parametrize(
    'name', ['=user', 'a=b=user', '==user', 'admin=OEM', 'sixteen--letters', 'sixteen--letters=user', 'two words']
)
def test_what_can_mean_an_account_is_none(name):
    """The anonymous one, and one whose name holds the sign."""
    assert Met.YES is found(Accounts(users=()), rule=f'bmc_users = ["{name}"]')[0].met


@pytest.mark.parametrize('names', ['"admin", "admin"', '"admin=user", "admin"'])
def test_an_account_that_is_named_twice_is_an_error_of_the_rule(names):
    """One of them would say more than the other."""
    with pytest.raises(DocumentError, match=r"bmc_users: 'admin' is named twice"):
        found(None, rule=f'bmc_users = [{names}]')

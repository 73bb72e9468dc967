# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Accounts of a BMC, from answers as IPMI 2.0 revision 1.1 has them (sections 22.27 and 22.29)."""

import pytest

from baremetal_acc.bmc.ipmi import users
from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.errors import BmcUnreachable
from baremetal_acc.model.inventory import Accounts, BmcUser

ENABLED, DISABLED, UNSAID = 0x40, 0x80, 0x00


class Bmc:
    """Accounts by number: state, privilege, name. The privilege is that on channel 1, ours, or one for each channel.

    :ivar channels: medium and sessions of each; None: it does not tell of channels.
    :ivar parameters: of LANs, by channel and number.
    :ivar refused: completion codes, by command and the data that it came with, or the beginning of it.
    """

    label = 'host (192.0.2.1)'
    longest = 1400

    def __init__(self, accounts, most=4, *, channels=None, parameters=None, refused=None, silent=None):
        self.accounts, self.most, self.silent, self.asked = accounts, most, silent, []
        self.channels = {0: (1, 0), 1: (4, 0x80), 0xF: (12, 0)} if channels is None else channels
        self.parameters, self.refused = parameters or {}, refused or {}

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        assert not once
        if self.silent == 'for all':
            raise BmcUnreachable(bmc=self.label, what='no answer')
        if (netfn, command) == (0x06, 0x01):
            return CommandReply(0, bytes(15))
        self.asked.append((command, bytes(data)))
        for (refused, begun), code in self.refused.items():
            if (command, data[: len(begun)]) == (refused, begun):
                return CommandReply(code)
        channel = 1 if data[0] == 0x0E else data[0]
        match netfn, command:
            case 0x06, 0x42:
                medium, sessions = self.channels.get(channel, (None, 0))
                return (
                    CommandReply(0xCC) if medium is None else CommandReply(0, bytes((channel, medium, 1, sessions)) + bytes(5))
                )
            case 0x06, 0x44:
                assert self.channels == {} or self.channels[channel][0] not in (1, 12)
                state, privilege, _ = self.accounts.get(data[1], (DISABLED, 0x0F, ''))
                if isinstance(privilege, dict):
                    privilege = privilege.get(channel, 0x0F)
                elif channel != 1:
                    privilege = 0x0F
                most = self.most.get(channel) if isinstance(self.most, dict) else self.most
                return CommandReply(0, bytes([most, state | 1, 1, 0x10 | privilege]))
            case 0x06, 0x46:
                if self.silent == 'for names':
                    raise BmcUnreachable(bmc=self.label, what='no answer')
                return CommandReply(0, self.accounts[data[0]][2].encode('latin-1').ljust(16, b'\0'))
            case 0x0C, 0x02:
                kept = self.parameters.get((channel, data[1]))
                return CommandReply(0x80) if kept is None else CommandReply(0, b'\x11' + kept)
        raise AssertionError((netfn, command))


def read(bmc):
    """As admin."""
    return users.read(bmc, 'admin')


ADMIN = {2: (ENABLED, 4, 'admin')}


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
    assert Accounts(users=expected) == read(bmc)
    assert "'admin' (number 2, administrator)" == str(expected[0])


def test_a_number_without_an_account_is_none_and_another_refusal_is_told():
    """What else is refused could be anybody."""
    accounts = {2: (ENABLED, 4, 'admin'), 4: (ENABLED, 4, 'mallory')}
    for code in (0xC9, 0xCC):
        found = read(Bmc(accounts, refused={(0x44, b'\x0e\3'): code}))
        assert ([2, 4], None) == ([u.number for u in found.users], found.unread)
    assert 'D4h' in read(Bmc(accounts, refused={(0x44, b'\x0e\3'): 0xD4})).unread


@pytest.mark.parametrize('own', ['admin', 'admin\0 x', '\0root'])
@pytest.mark.parametrize(('name', 'told'), [('admin\0 x', 'admin\\0 x'), ('\0root', '\\0root'), ('admin\0\0', 'admin')])
def test_what_stands_behind_the_end_of_a_name_is_told(name, told, own):
    """It is not the account that it looks like, nor that with which we have logged in."""
    found = users.read(Bmc({2: (ENABLED, 4, name)}), own)
    assert [told] == [user.name for user in found.users]
    assert (name.rstrip('\0') == own) == (found.unread is None)


def test_the_anonymous_one_counts():
    """Its name is empty."""
    found = read(Bmc({1: (ENABLED, 2, '')} | ADMIN))
    assert [(1, '', 'user'), (2, 'admin', 'administrator')] == [(u.number, u.name, u.privilege) for u in found.users]


@pytest.mark.parametrize('code', [0xC9, 0xCB, 0xCC])
def test_an_account_whose_name_some_boards_do_not_have_is_the_anonymous_one(code):
    """They have no name to give, and it is one that may log in; it made all accounts unread."""
    found = read(Bmc({1: (ENABLED, 4, '')} | ADMIN, refused={(0x46, b'\1'): code}))
    assert [(1, ''), (2, 'admin')] == [(u.number, u.name) for u in found.users]
    assert found.unread is None


@pytest.mark.parametrize(('command', 'what'), [(0x44, 'Get User Access'), (0x46, 'Get User Name')])
def test_what_cannot_be_read_is_told_and_fails_no_look(command, what):
    """Who may be there nobody knows."""
    found = read(Bmc(ADMIN, refused={(command, b''): 0xD4}))
    assert () == found.users
    assert what in found.unread


@pytest.mark.parametrize('most', [0, 4])
def test_a_list_without_the_account_that_we_use_is_not_believed(most):
    """The BMC keeps others back, too, perhaps."""
    found = read(Bmc({1: (DISABLED, 0x0F, ''), 2: (DISABLED, 4, 'admin'), 3: (ENABLED, 4, 'other')}, most=most))
    assert "the user of our own session, 'admin', is not listed" == found.unread


def test_a_bmc_that_has_gone_is_no_bmc_without_accounts():
    """The look ends as any other."""
    with pytest.raises(BmcUnreachable):
        read(Bmc(ADMIN, silent='for all'))


def test_a_bmc_that_leaves_one_command_unanswered_fails_no_look():
    """It answers what every BMC does: then it is there, and who else may log in is what nobody knows."""
    found = read(Bmc(ADMIN, silent='for names'))
    assert Accounts(users=(), unread='no answer') == found


# ---------------------------------------------------------------------------------------------------------- other channels

TWO = {1: (4, 0x80), 8: (4, 0x80)}
NOBODY = 0x0F


def test_what_an_account_may_be_on_another_channel_counts():
    """Root on the host raised an account there that only looks on ours, and gave one access there that has none on ours."""
    bmc = Bmc(
        {
            2: (ENABLED, {1: 4, 8: 4}, 'admin'),
            3: (ENABLED, {1: 2, 8: 4}, 'monitor'),
            4: (UNSAID, {1: NOBODY, 8: 4}, 'mallory'),
            5: (ENABLED, {1: NOBODY, 8: 6}, 'odd'),
            6: (UNSAID, {1: 0, 8: 0}, 'nobody'),
        },
        most=6,
        channels=TWO,
    )
    found = read(bmc)
    assert (
        BmcUser(number=2, name='admin', privilege='administrator'),
        BmcUser(number=3, name='monitor', privilege='administrator', channel=8),
        BmcUser(number=4, name='mallory', privilege='administrator', channel=8),
        BmcUser(number=5, name='odd', privilege='privilege 6h', channel=8),
    ) == found.users
    assert found.unread is None
    assert "'mallory' (number 4, administrator on channel 8h)" == str(found.users[2])


def test_another_channel_may_have_more_accounts():
    """They are asked for, too."""
    found = read(Bmc(ADMIN | {7: (ENABLED, {8: 4}, 'far')}, most={1: 4, 8: 7}, channels=TWO))
    assert [2, 7] == [u.number for u in found.users]


@pytest.mark.parametrize(
    ('medium', 'sessions', 'counts'),
    [(4, 0x80, True), (6, 0, True), (5, 0, True), (0x84, 0, True), (0x60, 0xC0, True), (1, 0, False), (0x0C, 0, False)],
)
def test_a_channel_counts_by_which_somebody_can_log_in(medium, sessions, counts):
    """LANs, serial lines, and what says that it has sessions; no bus."""
    bmc = Bmc({2: (ENABLED, {1: 2, 0xB: 4}, 'admin')}, channels={1: (4, 0x80), 0xB: (medium, sessions)})
    [admin] = read(bmc).users
    assert ('administrator' if counts else 'user') == admin.privilege


@pytest.mark.parametrize(
    'refused',
    [
        {(0x42, b'\5'): 0xD4},
        {(0x42, b'\5'): 0xC1},
        {(0x42, b'\5'): 0xFF},
        {(0x42, b'\x0e'): 0xD4},
        {(0x42, b'\x0e'): 0xCC},
        {(0x44, b'\x08\1'): 0xCC},
        {(0x44, b'\x08\2'): 0xCC},
        {(0x44, b'\x08'): 0xC1},
    ],
)
def test_a_channel_that_cannot_be_read_is_told(refused):
    """Who may log in by it nobody knows. An account that is there is not one of a number without any."""
    found = read(Bmc({1: (UNSAID, 0, '')} | ADMIN, channels=TWO, refused=refused))
    [((command, _), _)] = refused.items()
    assert {0x42: 'Get Channel Info', 0x44: 'Get User Access'}[command] in found.unread


@pytest.mark.parametrize('code', [0xC1, 0xC2])
def test_of_a_bmc_that_tells_of_no_channels_ours_is_asked(code):
    """What else it has is not known to it either."""
    bmc = Bmc(ADMIN, channels={}, refused={(0x42, b''): code}, parameters={(1, 2): b'\0\0\0\1\0'})
    found = read(bmc)
    assert ([2], None) == ([u.number for u in found.users], found.unread)
    assert ['our channel accepts IPMI 1.5 logins'] == [text[:35] for text in found.unguarded]
    assert 1 == sum(command == 0x42 for command, _ in bmc.asked)


def test_no_more_is_asked_than_matters():
    """Of other channels only who is not disabled; each name once; our own channel under one number."""
    bmc = Bmc({2: (ENABLED, {1: 4, 8: 4}, 'admin'), 4: (ENABLED, {1: 2, 8: 2}, 'monitor')}, most=10, channels=TWO)
    read(bmc)
    asked = [data for command, data in bmc.asked if command == 0x44]
    assert [bytes((0x0E, n)) for n in range(1, 11)] + [b'\x08\2', b'\x08\4'] == asked
    assert [b'\2', b'\4'] == [data for command, data in bmc.asked if command == 0x46]
    assert 11 == sum(command == 0x42 for command, _ in bmc.asked)


# ------------------------------------------------------------------------------------------------------- without a password


def lan(channel=1, *, types=bytes(5), suites=(3, 17), limits=b'\x44' + bytes(7)):
    """Parameters of a LAN."""
    listed = {22: bytes((len(suites),)), 23: b'\0' + bytes(suites).ljust(16, b'\0'), 24: b'\0' + limits}
    return {(channel, number): data for number, data in ({2: types} | listed).items()}


def test_a_lan_that_asks_for_passwords_is_no_way_in():
    """MD5 and passwords in the clear are weak, and no login without a password; unused places of the list are zeros."""
    for given in (lan(), lan(types=b'\x16' * 5), lan(suites=(0, 1, 2, 3, 17), limits=b'\x40\x44\x04' + bytes(5)), {}):
        assert ((), None) == ((found := read(Bmc(ADMIN, parameters=given))).unguarded, found.unread)


@pytest.mark.parametrize('channel', [1, 8])
def test_authentication_by_nothing_is_a_way_in(channel):
    """Whoever names an account is let in, of whatever channel."""
    found = read(Bmc(ADMIN, channels=TWO, parameters=lan(channel, types=bytes((0, 0, 0x15, 0x05, 0)))))
    told = (
        f'channel {channel}h accepts IPMI 1.5 logins without a password (authentication type NONE) as operator, '
        'administrator: clear bit 0 of each byte of LAN parameter 2'
    )
    assert ((told,), None) == (found.unguarded, found.unread)


@pytest.mark.parametrize(
    ('suites', 'limits', 'told'),
    [
        ((0, 3, 17), b'\x44\x04', ['suite 0, which requires no password, up to administrator: set']),
        ((3, 17, 0), b'\x44\x01', ['suite 0, which requires no password, up to callback: set']),
        ((3, 0), b'\xf4', ['suite 0, which requires no password, up to privilege Fh: set']),
        ((3, 0x80), b'\x54', ['suite 128, which may require no password, up to OEM: set']),
        ((3, 0x80), b'\x04', []),
        (tuple(range(16)), b'\x41' + b'\x44' * 7, ['suite 0, which requires no password, up to callback: set']),
    ],
)
def test_a_suite_without_authentication_is_a_way_in(suites, limits, told):
    """The privilege of each stands in half a byte, in the order of the list."""
    found = read(Bmc(ADMIN, parameters=lan(suites=suites, limits=limits.ljust(8, b'\0'))))
    assert [f'channel 1h accepts cipher {one} its privilege to 0 in LAN parameter 24' for one in told] == list(found.unguarded)
    assert found.unread is None


def test_what_has_no_limit_is_anything():
    """A BMC that lists suite 0 and knows no limits lets it be the most."""
    parameters = lan(suites=(0, 3))
    del parameters[1, 24]
    assert 'up to OEM' in read(Bmc(ADMIN, parameters=parameters)).unguarded[0]


@pytest.mark.parametrize(
    ('parameters', 'refused', 'told'),
    [
        (lan(types=b''), {}, 'LAN parameter 2 of channel 1h: too short (length 1, minimum 5 bytes)'),
        (lan(limits=b''), {}, 'LAN parameter 24 of channel 1h: too short (length 2, minimum 3 bytes)'),
        (lan() | {(1, 23): b'\0\3'}, {}, 'LAN parameter 23 of channel 1h: too short (length 3, minimum 4 bytes)'),
        (lan(), {(0x02, b'\x0e\x17'): 0x80}, 'channel 1h reports the number of its cipher suites (2), but not which they are'),
        (lan(), {(0x02, b'\x0e\x02'): 0xD4}, 'LAN parameter 2 of channel 1h: refused (D4h)'),
        (lan(), {(0x02, b'\x0e\x18'): 0xFF}, 'LAN parameter 24 of channel 1h: refused with completion code FFh'),
    ],
)
def test_a_way_in_that_cannot_be_read_is_told(parameters, refused, told):
    """Whether there is one nobody knows; who has an account is told all the same."""
    found = read(Bmc(ADMIN, parameters=parameters, refused=refused))
    assert [2] == [u.number for u in found.users]
    assert told == found.unread


@pytest.mark.parametrize('code', [0x80, 0xC1, 0xC9, 0xCB, 0xCC])
def test_a_bmc_without_such_parameters_has_none_that_could_be_set(code):
    """It is set up by another way, if by any."""
    found = read(Bmc(ADMIN, refused={(0x02, b''): code}))
    assert ((), None) == (found.unguarded, found.unread)


def test_a_serial_line_has_no_parameters_of_a_lan():
    """It is not asked for them."""
    bmc = Bmc(ADMIN, channels={1: (4, 0x80), 2: (5, 0x40)})
    read(bmc)
    assert {0x0E} == {data[0] for command, data in bmc.asked if command == 0x02}

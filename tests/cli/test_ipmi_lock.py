# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The IPMI firmware firewall of an emulated machine is closed and opened over the LAN; its host shows the effect."""

import socket
import time
from contextlib import contextmanager

import pytest

from baremetal_acc.emulator.ipmi.site import IpmiOptions
from tests.cli.desk import CONF
from tests.emulator_ipmi.programs import Ipmitool
from tests.unit.emulator.ipmi.test_system import Host

APP, STORAGE, GROUP = 0x06, 0x0A, 0x2C
REFUSED, UNKNOWN = b'\xd4', b'\xc1'
LOCK = 'ipmi_firmware_firewall'
BASELINE = 'format = 1\n[[rule]]\nblock = ["host-bmc-ipmi"]\n'


@contextmanager
def host_of(machine):
    """A program of the tenant, at the system interface."""
    with socket.create_connection(('127.0.0.1', machine.bmcs['host'].system_interface_port), 10) as connected:
        host = Host(connected)
        host.frame()
        yield host


def closed(machine):
    """What the host may not say, as the machine knows it."""
    return machine.truth()['ipmi']['host']['disabled']['host']['F']


def code(host, netfn, command, data=b''):
    """How a command of the host ends."""
    return host.ask(netfn, command, data)[:1]


@pytest.fixture
def rented(desk, emulated_machine):
    """A machine that is spoken to by IPMI alone."""

    def make(**options):
        machine = emulated_machine('fpga-server', ipmi=IpmiOptions(**options))
        bmc = machine.bmcs['host']
        keys = {'address': f'ipmi://127.0.0.1:{bmc.ipmi_port}', 'username': bmc.username, 'password': bmc.password}
        desk.bmcs({'node-1': {'resource_class': 'gold', 'bmcs': {'host': keys}}})
        desk.write('baseline.toml', BASELINE)
        desk.write('acc.conf', CONF)
        desk.images()
        return machine

    return make


def locks(desk):
    """Of the whole machine."""
    found = desk.run('inventory', '-f', 'json', *desk.options[:2])
    assert 0 == found.code, found.err
    return found.document['targets'][0]['platform_locks']


@pytest.mark.shows('lock BMC path', 'verify', hardware=('fpga',), how='cli', mechanisms=('ipmi_firmware_firewall',))
def test_locked_the_host_is_refused_and_unlocked_everything_is_as_it_was(desk, rented):
    """Upgrade, rollback, FRU, bridging, users and the firewall itself; reading goes on, and so does the operator's LAN."""
    machine = rented()
    writes = (
        (GROUP, 0x31, b'\0\1\1'),
        (GROUP, 0x38, b'\0'),
        (APP, 0x34, b'\0\x72\x18\x76\x20\4\1\xdb'),
        (APP, 0x47, b'\2\1'),
        (APP, 0x60, b'\x0f\6\0' + b'\xff' * 16),
        (STORAGE, 0x12, b'\0\0\0\1'),
    )
    with host_of(machine) as host:
        assert not {REFUSED, UNKNOWN} & {code(host, *write) for write in writes}
    before = closed(machine)
    assert [] == before
    found = locks(desk)
    assert {(LOCK, 'unlocked')} == {(one['mechanism'], one['state']) for one in found}

    dry = desk.run('lock', *desk.options)
    assert 3 == dry.code, dry.err
    assert LOCK in dry.out
    assert [] == closed(machine)
    done = desk.run('lock', '--execute', *desk.options)
    assert 0 == done.code, done.err
    with host_of(machine) as host:
        assert [REFUSED] * len(writes) == [code(host, *write) for write in writes]
        assert b'\0' == code(host, APP, 0x01)
        assert b'\0' == code(host, GROUP, 0x2E, b'\0')
    assert {(LOCK, 'locked-verified')} == {(one['mechanism'], one['state']) for one in locks(desk)}
    assert 0 == desk.run('verify', *desk.options).code

    opened = desk.run('unlock', '--execute', *desk.options)
    assert 0 == opened.code, opened.err
    assert before == closed(machine)
    with host_of(machine) as host:
        assert not {REFUSED, UNKNOWN} & {code(host, *write) for write in writes}
    assert 3 == desk.run('verify', *desk.options).code


def test_commands_of_the_maker_are_closed_though_their_masks_want_a_qualifier(desk, rented):
    """One firmware wants a byte for its own NetFn, and refuses the length without: the lock was never more than partial."""
    machine = rented(firewall_makers_qualifier=b'\x01')
    locked = desk.run('lock', '--execute', *desk.options)
    assert 0 == locked.code, locked.err
    assert {'32/01', '32/81', '2C/31'} <= set(closed(machine))
    with host_of(machine) as host:
        assert [REFUSED] * 2 == [code(host, 0x32, command) for command in (0x01, 0x81)]
    opened = desk.run('unlock', '--execute', *desk.options)
    assert (0, []) == (opened.code, closed(machine)), opened.err


def test_what_the_vendor_has_closed_stays_closed(desk, rented):
    """It is none of ours to open, however often we lock and in whatever lifecycle."""
    machine = rented()
    with host_of(machine) as host:
        enabled = host.ask(APP, 0x61, b'\x0f\x06\0')[1:]
        mask = bytearray(enabled)
        for command in (0x02, 0x47):
            mask[command // 8] &= ~(1 << command % 8)
        assert b'\0' == code(host, APP, 0x60, b'\x0f\x06\0' + bytes(mask))
    before = closed(machine)
    assert ['06/02', '06/47'] == before
    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    assert before == closed(machine)
    for verb in (('lock',), ('apply', '--new-lifecycle')):
        done = desk.run(*verb, '--execute', *desk.options)
        assert 0 == done.code, done.err
        assert {'06/02', '06/47', '06/60', '0A/12', '2C/31'} <= set(closed(machine))
    for _ in range(2):
        assert 0 == desk.run('unlock', '--execute', *desk.options).code
        assert before == closed(machine)


def test_where_nobody_remembers_what_was_closed_unlock_refuses_and_leaves_the_host_alone(desk, rented):
    """The record was moved away: nothing could be opened in the end, so the host is not powered off for it."""
    machine = rented()
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    before = closed(machine)
    away = desk.database.rename(desk.folder / 'state.sqlite.away')
    for more in ((), ('--execute',)):
        refused = desk.run('unlock', *more, *desk.options)
        assert 4 == refused.code, refused.err
        assert 'no record of what we engaged' in refused.err
        assert 'the record is kept where the lock was engaged' in refused.err
        assert 'will be released' not in refused.err
        assert (before, 'On') == (closed(machine), machine.truth()['systems']['host']['power'])
    assert 'unlocked on purpose' not in desk.run('verify', *desk.options).out
    # To lock again makes the proof anew, but no record: that was of what the first lock found open.
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    assert 4 == desk.run('unlock', *desk.options).code
    away.rename(desk.database)
    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    assert [] == closed(machine)


def test_a_bmc_without_one_blocks_nothing_and_fails_nothing(desk, rented):
    """An ordinary answer: the look has no gap for it, and the rule that demands the path refuses by name."""
    rented(firewall=False)
    found = desk.run('inventory', '-f', 'json', *desk.options[:2])
    assert (0, []) == (found.code, found.document['targets'][0]['platform_locks'])
    assert [] == [gap for gap in found.document['targets'][0]['gaps'] if 'firewall' in gap['uri']]
    refused = desk.run('lock', *desk.options)
    assert 4 == refused.code
    assert 'no mechanism' in refused.err
    assert 'Traceback' not in refused.err


def test_after_the_bmc_forgot_it_the_machine_is_not_met_and_is_locked_again(desk, rented):
    """A restart of the BMC: what is in memory only is open. Then what was open before the first lock is opened in the end."""
    machine = rented(firewall_survives_reset=False)
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    assert 0 == desk.run('verify', *desk.options).code
    bmc = machine.bmcs['host']
    ipmitool = Ipmitool(bmc.ipmi_port, desk.folder, user=bmc.username, password=bmc.password)
    ipmitool.right('mc', 'reset', 'cold')
    end = time.monotonic() + 20
    while closed(machine) or ipmitool('mc', 'info', tries=('1', '1')).code:
        assert time.monotonic() < end
    lost = desk.run('verify', *desk.options)
    assert 3 == lost.code, lost.err
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    assert 0 == desk.run('verify', *desk.options).code
    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    assert [] == closed(machine)


def make_account(machine):
    """The host makes an administrator of its own."""
    with host_of(machine) as host:
        for command, data in (
            (0x45, b'\x09' + b'mallory'.ljust(16, b'\0')),
            (0x47, b'\x09\2' + b'let me in again!'),
            (0x47, b'\x09\1'),
            (0x43, b'\x91\x09\4'),
        ):
            assert b'\0' == code(host, APP, command, data), hex(command)


def test_a_proven_lock_is_not_engaged_again_for_an_account_and_the_plan_names_it(desk, rented):
    """It was, for ever: the plan offered what could not help, and did not say what was wrong."""
    machine = rented()
    make_account(machine)
    name = machine.bmcs['host'].username
    desk.write('baseline.toml', f'{BASELINE}name = "hosts"\nbmc_users = ["{name}"]\n')
    told = 'no action fixes users of BMC host: expected no accounts but'
    first = desk.run('plan', '-f', 'json', *desk.options)
    (target,) = first.document['targets']
    assert (3, 'planned', ['engage']) == (first.code, target['outcome'], [a['action'] for a in target['actions']])
    assert any(told in n['text'] and 'mallory' in n['text'] and '(rule hosts)' in n['text'] for n in target['notes'])
    engaged = desk.run('apply', '--execute', *desk.options)
    assert 3 == engaged.code, engaged.err

    before = desk.stored()
    for verb in (('plan',), ('apply',), ('apply', '--execute'), ('lock',), ('lock', '--execute')):
        after = desk.run(*verb, '-f', 'json', *desk.options)
        (target,) = after.document['targets']
        assert (3, 'not-met', []) == (after.code, target['outcome'], target['actions']), verb
        (note,) = (n['text'] for n in target['notes'] if told in n['text'])
        assert 'mallory' in note
        assert 'mallory' in after.err
    table = desk.run('plan', *desk.options)
    assert (3, True) == (table.code, 'mallory' in table.err)
    assert before == desk.stored()


def test_an_account_does_not_keep_an_unlock_from_being_undone(desk, rented):
    """What was unlocked on purpose is locked again: that does not hold only because of somebody else's account."""
    machine = rented()
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    make_account(machine)
    name = machine.bmcs['host'].username
    desk.write('baseline.toml', f'{BASELINE}bmc_users = ["{name}"]\n')
    for _ in range(2):
        assert 3 == desk.run('lock', '--execute', *desk.options).code
    verified = desk.run('verify', *desk.options)
    assert 'mallory' in verified.out
    assert 'unlocked on purpose' not in verified.out


def test_an_account_that_the_tenant_has_made_is_found_after_the_machine_was_locked(desk, rented):
    """The lock does not take it away; who is expected is named by the rule."""
    machine = rented()
    name = machine.bmcs['host'].username
    desk.write('baseline.toml', f'{BASELINE}bmc_users = ["{name}"]\n')
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    before = desk.run('verify', *desk.options)
    assert 0 == before.code, before.out + before.err
    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    make_account(machine)
    locked = desk.run('lock', '--execute', *desk.options)
    verified = desk.run('verify', *desk.options)
    assert 3 == verified.code, locked.err + verified.err
    assert 'mallory' in verified.out
    # Over IPMI the host is not powered on for this account either.
    machine.power('ForceOff')
    refused = desk.run('power', 'on', '--execute', *desk.options)
    assert (4, 'Off') == (refused.code, machine.truth()['systems']['host']['power']), refused.err
    assert 'mallory' in refused.errors[0]
    assert 'remove the accounts from the BMC' in refused.errors[0]
    desk.write('baseline.toml', BASELINE)
    assert 0 == desk.run('power', 'on', '--execute', *desk.options).code
    assert 'On' == machine.truth()['systems']['host']['power']


@pytest.mark.parametrize(
    ('netfn', 'command', 'data', 'told', 'undone'),
    [
        (
            APP,
            0x43,
            b'\x98\3\4',
            'administrator on channel 8h): allowed privilege is at most operator',
            ['channel setaccess 8 3 privilege=15'],
        ),
        (
            0x0C,
            0x01,
            b'\x08\2\1\1\1\1\0',
            'channel 8h accepts IPMI 1.5 logins without a password',
            [f'lan set 8 auth {level} MD5' for level in ('CALLBACK', 'USER', 'OPERATOR', 'ADMIN')],
        ),
    ],
)
def test_what_the_tenant_has_left_on_another_lan_is_found(desk, rented, netfn, command, data, told, undone):
    """Nobody of us uses it; an expected account may be more there, or anybody may log in. It is undone as the docs say."""
    machine = rented(second_lan=True)
    bmc = machine.bmcs['host']
    with host_of(machine) as host:
        for setting in (b'\3' + b'monitor'.ljust(16, b'\0'), b'\3\1'):
            assert b'\0' == code(host, APP, 0x45 if len(setting) > 2 else 0x47, setting)
        assert b'\0' == code(host, APP, 0x43, b'\x91\3\3')
        assert b'\0' == code(host, netfn, command, data)
    desk.write('baseline.toml', f'{BASELINE}bmc_users = ["{bmc.username}", "monitor=operator"]\n')
    locked = desk.run('lock', '--execute', *desk.options)
    assert (3, True) == (locked.code, told in locked.out + locked.err), locked
    found = desk.run('verify', '-f', 'json', *desk.options)
    assert 3 == found.code, found.err
    assert told in found.out
    ipmitool = Ipmitool(bmc.ipmi_port, desk.folder, user=bmc.username, password=bmc.password)
    for words in undone:
        ipmitool.right(*words.split())
    after = desk.run('verify', *desk.options)
    assert 0 == after.code, after.out + after.err

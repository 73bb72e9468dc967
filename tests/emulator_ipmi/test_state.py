# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is written over IPMI outlives the emulator where Redfish's does: in one file, written at once, that may be spoilt."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

from baremetal_acc.bmc.ipmi.bridge import Bridge
from baremetal_acc.bmc.ipmi.endpoint import LoginPrivilege, place
from baremetal_acc.bmc.ipmi.session import RmcpSession
from baremetal_acc.emulator.access import CurrentUser
from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.ipmi.controller import IPMB, CommandRequest
from baremetal_acc.emulator.ipmi.hpm_ability import Times
from baremetal_acc.emulator.ipmi.site import IpmiOptions, IpmiSite
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.remote import Remote
from baremetal_acc.emulator.store import BadState, MachineStore
from baremetal_acc.errors import BmcNotAuthorised
from tests.unit.emulator.ipmi.test_system import Host

APP, STORAGE, TRANSPORT, GROUP = 0x06, 0x0A, 0x0C, 0x2C
PASSWORD = 'Sixteen is it 16'
MALLORY, LET_IN = 'mallory', 'let me in again!'
ADMINS = {'*': (CurrentUser(name='admin', password=PASSWORD),)}
ITEM = 'host/FPGA1_FW'


class Running:
    """An emulator in a process of its own, with a state."""

    def __init__(self, folder, *more):
        self.ready = folder / f'ready-{time.monotonic_ns()}.json'
        command = ['-m', 'baremetal_acc.emulator', 'fpga-server', '--state', str(folder / 'state'), *more]
        self.process = subprocess.Popen(
            [sys.executable, *command, '--ready-file', str(self.ready)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        until = time.monotonic() + 30
        while not self.ready.exists() and self.process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.02)

    @property
    def bmc(self):
        return json.loads(self.ready.read_text())['bmcs']['host']

    def truth(self):
        told = json.loads(self.ready.read_text())
        return Remote(told['door'], told['control']).truth()

    def login(self, name=None, password=None):
        bmc = self.bmc
        there = place(
            'host', '127.0.0.1', port=bmc['ipmi_port'], username=name or bmc['username'], password=password or bmc['password']
        )
        return RmcpSession(there, LoginPrivilege.ADMINISTRATOR)

    def host(self):
        """A program of the tenant."""
        connected = socket.create_connection(('127.0.0.1', self.bmc['system_interface_port']), 10)
        host = Host(connected)
        host.frame()
        return host

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.communicate(timeout=20)
        return self.process.returncode


@pytest.fixture
def started(tmp_path):
    """Starts the emulator, again and again."""
    running = []

    def start(*more):
        running.append(Running(tmp_path, *more))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.end()


def right(raw, netfn, command, data=b''):
    """A command that has to succeed: what it gives."""
    reply = raw(netfn, command, data)
    assert 0 == reply.code, (hex(netfn), hex(command), reply)
    return reply.data


def test_what_was_written_over_ipmi_is_there_after_a_hard_end(started, tmp_path):
    """An account of the tenant, a firewall, an FRU, a record, a key, firmware that waits: each as it was, and in force."""
    first = started('--ipmi')
    host = first.host()
    for command, data in (
        (0x45, b'\x09' + MALLORY.encode().ljust(16, b'\0')),
        (0x47, b'\x09\2' + LET_IN.encode()),
        (0x47, b'\x09\1'),
        (0x43, b'\x91\x09\4'),
    ):
        assert b'\0' == host.ask(APP, command, data)[:1]
    with first.login(MALLORY, LET_IN) as raw:
        card = Bridge(raw, address=0x72)
        serial = right(card, STORAGE, 0x11, b'\0\x20\0\x08')
        right(card, STORAGE, 0x12, b'\0\x20\0' + b'STATE')
        mask = bytearray(right(raw, APP, 0x61, b'\x0f\x06\0'))
        mask[0x52 // 8] &= ~(1 << 0x52 % 8)
        right(raw, APP, 0x60, b'\x0f\x06\0' + bytes(mask))
        count = right(raw, STORAGE, 0x20)[1]
        right(raw, STORAGE, 0x24, b'\0\0\x51\xc0\x03\0\0\0')
        right(raw, TRANSPORT, 0x01, b'\1\x0c\x0a\0\0\7')
        content = build_image(model='d5005', component='fpga', version='2.9.0', size_bytes=60)
        right(card, GROUP, 0x30, b'\0')
        card(GROUP, 0x31, b'\0\1\1')
        wait(lambda: b'\x31\0' == right(card, GROUP, 0x34, b'\0')[1:3])
        right(card, GROUP, 0x31, b'\0\1\2')
        for number, start in enumerate(range(0, len(content), 20)):
            right(card, GROUP, 0x32, bytes((0, number)) + content[start : start + 20])
        card(GROUP, 0x33, b'\0\0' + len(content).to_bytes(4, 'little'))
        wait(lambda: b'\x33\0' == right(card, GROUP, 0x34, b'\0')[1:3])
        # With a key from here on, nobody logs in without it.
        right(raw, APP, 0x56, b'\1\1\1' + b'key of the tenant'.ljust(20, b'\0'))
    before = first.truth()
    first.end()
    for file in (tmp_path / 'state').iterdir():
        assert 0o600 == stat.S_IMODE(file.stat().st_mode), file

    again = started('--ipmi')
    after = again.truth()
    assert before['components'] == after['components']
    assert '2.9.0' == after['components'][ITEM]['held']['version']
    assert before['ipmi']['host']['disabled'] == after['ipmi']['host']['disabled']
    assert ['06/52'] == after['ipmi']['host']['disabled']['host']['F']
    assert b'\xd4' == again.host().ask(APP, 0x52, b'\1\xa0\1\0')[:1]
    with pytest.raises(BmcNotAuthorised, match='K_G'):
        again.login(MALLORY, LET_IN)
    bmc = again.bmc
    there = place(
        'host', '127.0.0.1', port=bmc['ipmi_port'], username=MALLORY, password=LET_IN, key=b'key of the tenant'.ljust(20, b'\0')
    )
    with RmcpSession(there, LoginPrivilege.ADMINISTRATOR) as raw:
        card = Bridge(raw, address=0x72)
        assert b'STATE' + serial[6:] == right(card, STORAGE, 0x11, b'\0\x20\0\x08')[1:]
        assert count + 1 == right(raw, STORAGE, 0x20)[1]
        assert b'\x11\x0a\0\0\7' == right(raw, TRANSPORT, 0x02, b'\1\x0c\0\0')
        assert card(GROUP, 0x35, b'\0').code in (0x00, 0x80)
    wait(lambda: '2.9.0' == (again.truth()['components'][ITEM]['staged'] or {}).get('version'))
    assert 0 == again.end(signal.SIGTERM)


def wait(told, seconds=20):
    """Until it is so."""
    until = time.monotonic() + seconds
    while not told():
        assert time.monotonic() < until
        time.sleep(0.05)


# ---------------------------------------------------------------------------------------------------------- without a network


def life(folder, *, ipmi=True, users=ADMINS, **more):
    """A machine with what was stored there, as the emulator puts it together: site, machine and store."""
    product = build('fpga-server', Parameters(users=users, virtual_clock=True, **more))
    view = product.views['host']
    accounts = [CurrentUser(name=one.name, password=one.secret, role=one.role) for one in view.access.accounts.values()]
    options = IpmiOptions(times=Times(erase=5))
    site = None
    if ipmi:
        site = IpmiSite(product.machine, 'host', users=accounts, boards=product.boards['host'], options=options)
    store = MachineStore(folder, product.machine)
    store.load()
    return site, product.machine, store


def test_versions_are_the_same_for_both_after_a_restart(tmp_path):
    """Redfish writes one that HPM.1 cannot tell, and another one over it: HPM.1 has the same components as before."""
    site, machine, store = life(tmp_path)
    parts = {device: one.parts for device, one in site.upgrades.items()}
    bank = machine.components[ITEM].active
    for version in ('2.1-rc', '2.2.0'):
        machine.components[ITEM].previous = machine.components[ITEM].active
        machine.components[ITEM].active = type(bank)(version=version, digest=bank.digest)
    machine.revision += 1
    store.save()
    site, machine, _ = life(tmp_path)
    assert parts == {device: one.parts for device, one in site.upgrades.items()}
    assert ('2.2.0', '2.1-rc') == (machine.components[ITEM].active.version, machine.components[ITEM].previous.version)


def test_a_life_without_ipmi_forgets_nothing_of_it(tmp_path):
    """What nobody claims is kept as it is."""
    site, _, store = life(tmp_path)
    site.users.find(b'admin').limit = LoginPrivilege.OPERATOR
    store.save()
    _, machine, store = life(tmp_path, ipmi=False)
    machine.revision += 1
    store.save()
    site, _, _ = life(tmp_path)
    assert LoginPrivilege.OPERATOR == site.users.find(b'admin').limit


def test_other_accounts_that_are_given_count(tmp_path):
    """Who says by a file who may log in is obeyed; all else is as it was."""
    site, _, store = life(tmp_path)
    site.users.find(b'admin').password = b'of the tenant'.ljust(16, b'\0')
    site.endpoint.channel.kg = b'key'
    store.save()
    site, _, _ = life(tmp_path, users={'*': (CurrentUser(name='admin', password='another one'),)})
    assert b'another one'.ljust(16, b'\0') == site.users.find(b'admin').password
    assert b'key' == site.endpoint.channel.kg
    site, _, _ = life(tmp_path)
    assert b'of the tenant'.ljust(16, b'\0') == site.users.find(b'admin').password


def test_what_was_going_on_ends_with_the_emulator(tmp_path):
    """An erase of 5 s is cut short after 1 s; what was to end it then does not end the next one, which takes its own time."""
    site, machine, store = life(tmp_path)
    request = lambda site, data: site.cards['FPGA1'].answer(hpm(data)).wire  # noqa: E731
    assert b'\x80\0' == request(site, b'\0\1\1')
    machine.clock.advance(1)
    machine.settle()
    store.save()
    site, machine, _ = life(tmp_path)
    assert b'\x80\0' == request(site, b'\0\1\1')
    machine.clock.advance(4.5)
    machine.settle()
    assert b'\xc0\0' == request(site, b'\0\1\2'), 'busy'
    machine.clock.advance(1)
    machine.settle()
    assert b'\0\0' == request(site, b'\0\1\2')


def hpm(data):
    """Initiate Upgrade Action, over the bus."""
    return CommandRequest(channel=IPMB, netfn=GROUP, command=0x31, data=data)


def spoil(document, path, value):
    """Put something else there; None: take it away."""
    *way, last = path
    for step in way:
        document = document[step]
    if value is None:
        del document[last]
    else:
        document[last] = value


IPMI = ('kept', 'ipmi of host')


@pytest.mark.parametrize(
    ('path', 'value', 'told'),
    [
        (('kept',), 'nothing', 'dictionary'),
        ((*IPMI, 'users', 'now'), None, "'now' is missing, or unknown to this machine"),
        ((*IPMI, 'users', 'now', 1, 2), 'zz', 'non-hexadecimal number'),
        ((*IPMI, 'users', 'now', 1, 2), '00', 'the stored IPMI user 2 is not valid'),
        ((*IPMI, 'users', 'now', 1, 5), 9, 'the stored IPMI user 2 is not valid'),
        ((*IPMI, 'users', 'second', 1, 2), 9, 'the stored IPMI user 2 is not valid'),
        ((*IPMI, 'lan', 'parameters', '99'), '00', '99 is missing, or unknown to this machine'),
        ((*IPMI, 'lan', 'access'), [[2, 4]], 'not enough values'),
        ((*IPMI, 'frus', '0'), '00', 'differ in number or size'),
        ((*IPMI, 'records', 'raw', '1'), '', 'the stored sensor data records are not valid'),
        ((*IPMI, 'firewall', 'commands', 'F'), None, 'the stored IPMI firewall is for other channels'),
        ((*IPMI, 'firewall', 'commands', 'F'), [[6, 0, '']], 'not enough values'),
    ],
)
def test_a_spoilt_state_is_named_and_not_taken(tmp_path, path, value, told):
    """The file, what is wrong, and what to do; nothing is started with half of it."""
    store = life(tmp_path)[2]
    store.save()
    file = tmp_path / 'machine.json'
    document = json.loads(file.read_text())
    spoil(document, path, value)
    file.write_text(json.dumps(document))
    with pytest.raises(BadState) as caught:
        life(tmp_path)
    assert str(caught.value).startswith(f'{file}: ')
    assert told in str(caught.value)
    assert str(caught.value).endswith('(use another directory, or remove the file)')


def test_the_program_ends_with_a_line_where_its_state_is_spoilt(started, tmp_path):
    """Exit code 1, no trace; the file is left as it is."""
    assert 0 == started('--ipmi').end(signal.SIGTERM)
    file = tmp_path / 'state' / 'machine.json'
    document = json.loads(file.read_text())
    spoil(document, (*IPMI, 'users', 'now', 1, 2), '00')
    file.write_text(json.dumps(document))
    process = started('--ipmi').process
    _, err = process.communicate(timeout=20)
    assert 1 == process.returncode
    assert f'emulate: cannot serve: {file}: the stored IPMI user 2 is not valid (use another directory' in err.decode()
    assert 1 == len(err.decode().splitlines())
    assert document == json.loads(file.read_text())


def test_nothing_is_stored_again_that_has_not_changed(tmp_path):
    """Twenty times a second somebody asks whether there is something to store."""
    site, _, store = life(tmp_path)
    store.save()
    file = tmp_path / 'machine.json'
    made = os.stat(file).st_ino
    store.save()
    assert made == os.stat(file).st_ino
    site.endpoint.channel.kg = b'key'
    store.save()
    assert b'key'.hex() in file.read_text()


def test_a_machine_without_keepers_keeps_nothing_more():
    """Its document has the place for it."""
    assert {} == Machine(product='x').dump()['kept']

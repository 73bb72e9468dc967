# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Two hosts behind one BMC, each a target: no request and no change for one of them reaches the other.

The emulated machine is the oracle. Each target logs in as a user of its own, so that the machine's log shows which target has
sent a request, and the names of the machine's parts show which host they belong to: no code of the product is used for that.
"""

import os
import random
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cli.desk import CONF, NEW_FPGA, NEW_GPU, Desk, Done
from tests.cli.test_publish import call

NODES = ('node0', 'node1')
SYSTEMS = {'node0': 'Node0', 'node1': 'Node1'}
ROOTS = {name: str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in NODES}
PASSWORD = 'a-Password-of-two'
SHARED = 'shared'

ITEMS = '/redfish/v1/UpdateService/FirmwareInventory'
CARD = f'{ITEMS}/SharedFPGA_FW'

OWN = f"""
format = 1

[[rule]]
name = "gpus"
match = {{ kind = "GPU" }}
firmware = {{ "HGX_FW_GPU_*" = "{NEW_GPU}" }}
block = ["host-device"]
custody = "reported"
"""

APART = f"""{OWN}
[[rule]]
name = "shared"
match = {{ kind = "FPGA" }}
block = []
custody = "reported"
"""
"""What is done to the cards of one host; the card of both is let alone."""


def owner(name: str) -> str:
    """Whose something is, by a name or URI of the emulated machine with one GPU in each host."""
    found = re.search(r'(?:Node|node|GPU_|UEFI_|HGX_Baseboard_|HGX_Chassis_|HGX_BMC_|HGX_FW_BMC_)([01])(?!\d)', name)
    return SHARED if found is None else f'node{found[1]}'


def told(value: Any) -> list[str]:
    """All texts in a body: what it names may be anywhere."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in told(one)]
    if isinstance(value, list):
        return [text for one in value for text in told(one)]
    return [value] if isinstance(value, str) else []


def aimed_at(entry: dict[str, Any]) -> set[str]:
    """Whose resources a request reaches or names."""
    if entry['path'].endswith('/update-multipart'):
        targets = entry['body']['Targets']
        assert targets, entry
        return {owner(uri) for uri in targets}
    return {owner(entry['path']), *(owner(text) for text in told(entry['body']) if text.startswith('/'))}


def state(machine: Any) -> dict[str, Any]:
    """All that is true of the machine and can be changed: banks, locks, power."""
    truth = machine.truth()
    banks = ('active', 'staged', 'previous', 'held')
    found: dict[str, Any] = {f'component {key}': [c.get(bank) for bank in banks] for key, c in truth['components'].items()}
    found |= {f'lock {key}': (lock['configured'], lock['in_force']) for key, lock in truth['locks'].items()}
    return found | {f'power {name}': system for name, system in truth['systems'].items()}


def provided(placement: str, name: str) -> Any:
    """What placement has below the node of a target."""
    found = call(placement, 'GET', f'/resource_providers?in_tree={ROOTS[name]}').json()['resource_providers']
    below = [p['uuid'] for p in found if p['uuid'] != ROOTS[name]]
    return {p: call(placement, 'GET', f'/resource_providers/{p}/inventories').json() for p in sorted(below)}


@dataclass(kw_only=True)
class Twins:
    """The machine with its two targets, and an operator's desk.

    :ivar did: how often each verb has changed something, by user.
    """

    desk: Desk
    machine: Any
    placement: str | None = None
    did: list[tuple[str, str]] = field(default_factory=list)

    def prepare(self, spelling: str = '{}', baseline: str = APART) -> None:
        """All files: by default the target of each host has its own System, and its own user."""
        self.desk.bmcs({name: self.target(name, spelling.format(SYSTEMS[name])) for name in NODES})
        self.desk.images()
        self.desk.write('baseline.toml', baseline)
        more = '' if self.placement is None else f'auth_type = admin_token\nendpoint = {self.placement}\ntoken = admin\n'
        self.desk.write('acc.conf', CONF + (f'\n[placement]\n{more}' if more else ''))

    def target(self, user: str, *systems: str) -> dict[str, Any]:
        """A target of bmcs.yaml with these Systems of the one BMC."""
        bmc = self.machine.bmcs['host']
        own = {'address': bmc.address, 'username': user, 'password': PASSWORD, 'verify_ca': bmc.verify_ca}
        named = {'host' if not n else f'host{n}': own | {'system': system} for n, system in enumerate(systems)}
        return {'node': ROOTS.get(user, ROOTS['node0']), 'resource_class': 'gold', 'bmcs': named}

    def arguments(self, verb: str) -> tuple[str, ...]:
        """A verb with the documents that it reads."""
        return (*verb.split(), *(self.desk.options[:2] if verb.startswith('inventory') else self.desk.options))

    def at_once(self, verbs: dict[str, str]) -> dict[str, Done]:
        """Run a verb for each target, all at the same time, and look at what became of it."""
        before = state(self.machine)
        offers = {name: provided(self.placement, name) for name in NODES} if self.placement else {}
        self.machine.reset_log()
        running = {name: self.desk.start(*self.arguments(verb), '--target', name) for name, verb in verbs.items()}
        done = {}
        for name, process in running.items():
            out, err = process.communicate(timeout=120)
            done[name] = Done(code=process.returncode, out=out, err=err)
        self._settled()
        log = self.machine.log()
        assert not [e for e in log if aimed_at(e) != {e['user']}]
        assert {e['user'] for e in log} <= set(verbs)
        after = state(self.machine)
        changed = {key for key in before if before[key] != after[key]}
        assert before.keys() == after.keys()
        assert {owner(key) for key in changed} <= set(verbs), changed
        for name in set(offers) - set(verbs):
            assert offers[name] == provided(self.placement or '', name)
        self.did += [(e['user'], verbs[e['user']].split()[0]) for e in log]
        return done

    def shared_image(self) -> None:
        """Let the image of the FPGA be one of the card of both."""
        catalogue = (self.desk.folder / 'catalogue.toml').read_text()
        self.desk.write('catalogue.toml', catalogue.replace('component = "FPGA1_FW"', 'component = "SharedFPGA_FW"'))

    def _settled(self) -> None:
        """The machine has done what it was told."""
        end = time.monotonic() + 20
        while any(s['power'] not in ('On', 'Off') or s['booting'] for s in self.machine.truth()['systems'].values()):
            assert time.monotonic() < end
            time.sleep(0.05)

    def power_on(self, name: str) -> None:
        """Somebody switches a host on."""
        self.machine.power('On', system=name)
        self._settled()

    def closed(self, name: str) -> set[bool]:
        """Whether the locks of a host's cards are closed."""
        locks = self.machine.truth()['locks'].items()
        return {lock['closed'] for key, lock in locks if lock['device'] is not None and owner(key) == name}


@pytest.fixture
def twins(desk, emulated_machine) -> Twins:
    """A machine of two hosts with one GPU each, and nothing prepared."""
    from baremetal_acc.emulator.access import CurrentUser

    users = tuple(CurrentUser(name=name, password=PASSWORD) for name in NODES)
    machine = emulated_machine('twin-server', gpus=1, flash_seconds=0.2, users={'host': users})
    return Twins(desk=desk, machine=machine)


def make_roots(placement: str) -> None:
    """As Nova does it."""
    for root in ROOTS.values():
        assert call(placement, 'POST', '/resource_providers', {'uuid': root, 'name': root}).status_code in (200, 409)


def test_both_hosts_are_flashed_opened_locked_and_published_at_once(twins, placement):
    """Each step is done for both at the same time, and to each by its own target alone; the card of both is offered by none."""
    make_roots(placement)
    twins.placement = placement
    twins.prepare()
    read = twins.at_once(dict.fromkeys(NODES, 'inventory -f json'))
    for name, done in read.items():
        cards = done.document['targets'][0]['accelerators']
        assert ['FPGA', 'GPU'] == sorted(card['kind'] for card in cards)
        assert {name} == {owner(card['primary_uri']) for card in cards if card['kind'] == 'GPU'}
    for verb, locked, power in (
        ('apply --execute', True, 'On'),
        ('unlock --execute', False, 'Off'),
        ('lock --execute', True, 'Off'),
    ):
        done = twins.at_once(dict.fromkeys(NODES, verb))
        assert {0} == {one.code for one in done.values()}, done
        assert [{locked}, {locked}] == [twins.closed(name) for name in NODES]
        truth = twins.machine.truth()
        assert [power, power, 'On'] == [truth['systems'][name]['power'] for name in (*NODES, 'shelf')]
        assert {NEW_GPU} == {truth['components'][f'host/HGX_FW_GPU_{n}']['active']['version'].strip() for n in range(2)}
    for name in NODES:
        twins.power_on(name)
    done = twins.at_once(dict.fromkeys(NODES, 'publish --execute -f json'))
    assert {0} == {one.code for one in done.values()}, done
    for name in NODES:
        classes = [set(p['inventories']) for p in provided(placement, name).values()]
        assert [set(), {'PGPU'}] == sorted(classes, key=len)
        (card,) = [d for d in done[name].document['targets'][0]['devices'] if 'FPGA' in d['device']]
        assert 'another machine of its BMC also shows it' in card['why']
    verbs = ('apply', 'unlock', 'lock')
    assert {(name, verb) for name in NODES for verb in verbs} <= set(twins.did)


@pytest.mark.parametrize('seed', range(40 if os.environ.get('BAREMETAL_ACC_SOAK') else 2))
def test_whatever_is_done_in_whatever_order_to_whichever_host_stays_with_it(twins, placement, seed):
    """Verbs at random, for the one host, the other or both at once, with Systems named in any of the ways."""
    chance = random.Random(seed)
    make_roots(placement)
    twins.placement = placement
    twins.prepare(chance.choice(('{}', '/redfish/v1/Systems/{}', '/redfish/v1/Systems/{}/', 'redfish/v1/Systems/{}')))
    verbs = ('inventory', 'verify', 'apply --execute', 'unlock --execute', 'lock --execute', 'publish --execute')
    for _ in range(3):
        names = chance.sample(NODES, chance.choice((1, 1, 2)))
        done = twins.at_once({name: chance.choice(verbs) for name in names})
        # Refused, not met: as it may be in that state. No defect, and no BMC that nobody can talk to.
        assert {one.code for one in done.values()} <= {0, 3, 4}, done
        for name in NODES:
            if twins.closed(name) == {True} and chance.random() < 0.5:
                twins.power_on(name)
    # Nothing was in vain: the other one can still be brought to its baseline.
    done = twins.at_once({chance.choice(NODES): 'apply --execute'})
    assert {0} == {one.code for one in done.values()}, done


def test_unlock_of_one_system_opens_no_lock_of_the_other_which_runs(twins):
    """As it was reported: by arguments, of a machine that is in no list. What names the other's card is not found."""
    twins.prepare()
    assert {0} == {one.code for one in twins.at_once(dict.fromkeys(NODES, 'lock --execute')).values()}
    bmc = twins.machine.bmcs['host']
    twins.desk.write('password', PASSWORD)
    login = ('--address', bmc.address, '--username', 'node0', '--password-file', 'password', '--verify-ca', bmc.verify_ca)
    other = twins.desk.run('inventory', '-f', 'json', '--target', 'node1').document['targets'][0]['accelerators']
    foreign = next(card['id'] for card in other if card['kind'] == 'GPU')
    before = state(twins.machine)
    twins.machine.reset_log()
    unlock = ('unlock', '--execute', *login, '--system', 'Node0')
    refused = twins.desk.run(*unlock, '--device', foreign, *twins.desk.options)
    assert 2 == refused.code, refused.err
    assert (before, []) == (state(twins.machine), twins.machine.log())
    done = twins.desk.run(*unlock, *twins.desk.options)
    assert 0 == done.code, done.err
    assert [{False}, {True}] == [twins.closed(name) for name in NODES]
    after = state(twins.machine)
    assert {'node0'} == {owner(key) for key in before if before[key] != after[key]}
    assert not [e for e in twins.machine.log() if aimed_at(e) != {'node0'}]


LOCKED_CARD = f"""{OWN}
[[rule]]
match = {{ kind = "FPGA" }}
block = ["host-device"]
custody = "reported"
"""

FLASHED_CARD = f'''{OWN}
[[rule]]
match = {{ kind = "FPGA" }}
firmware = {{ SharedFPGA_FW = "{NEW_FPGA}" }}
block = []
custody = "reported"
'''

LOCKED_BMC = APART.replace('["host-device"]', '["host-device", "host-bmc-redfish"]')


@pytest.mark.parametrize(
    ('baseline', 'verb', 'name', 'place'),
    [
        (LOCKED_CARD, 'lock', 'node0', CARD),
        (LOCKED_CARD, 'apply', 'node1', CARD),
        (FLASHED_CARD, 'apply', 'node0', CARD),
        (LOCKED_BMC, 'lock', 'node1', '/redfish/v1/Managers/BMC_0/HostInterfaces/hostusb0'),
    ],
    ids=['lock-card', 'apply-card', 'flash-card', 'lock-bmc'],
)
def test_what_both_have_is_not_written_for_one_of_them(twins, baseline, verb, name, place):
    """The lock and the firmware of the shared card, and the host interface of the BMC: refused before anything is done."""
    twins.prepare(baseline=baseline)
    twins.shared_image()
    before = state(twins.machine)
    (done,) = twins.at_once({name: f'{verb} --execute'}).values()
    assert 4 == done.code, done.err
    assert f'{place} also belongs to another machine' in done.err
    assert (before, []) == (state(twins.machine), twins.machine.log())


def test_a_target_of_both_systems_writes_what_both_have(twins):
    """Each card is listed once and written once, both hosts are off while anything is open, and are given back locked."""
    baseline = FLASHED_CARD.replace('block = []\ncustody = "reported"\n', 'block = ["host-device"]\n')
    twins.prepare(
        baseline=baseline.replace('custody = "reported"\n', '').replace('"host-device"', '"host-device", "host-bmc-redfish"')
    )
    twins.shared_image()
    twins.desk.bmcs({'both': twins.target('node0', 'Node0', 'Node1')})
    listed = twins.desk.run('inventory', '-f', 'json').document['targets'][0]['accelerators']
    assert [*NODES, SHARED] == sorted(owner(card['primary_uri']) for card in listed)
    done = twins.desk.run('apply', '--execute', *twins.desk.options)
    assert 0 == done.code, done.err
    history = twins.machine.history()
    written = [one['component'] for one in history if one['what'] == 'written']
    assert ['host/HGX_FW_GPU_0', 'host/HGX_FW_GPU_1', 'host/SharedFPGA_FW'] == sorted(written)
    log = [e for e in twins.machine.log() if e['method'] == 'POST' or e['path'] == CARD]
    sent = [e['path'].rsplit('/', 1)[-1] for e in log if owner(e['path']) == SHARED]
    assert ['update-multipart'] * 3 + ['SharedFPGA_FW'] == sent
    resets = [(owner(e['path']), e['body']['ResetType']) for e in log if e['path'].endswith('.Reset')]
    assert [(name, how) for how in ('ForceOff', 'On') for name in NODES] == resets
    numbers = [e['number'] for e in log if not e['path'].endswith('.Reset')]
    off = max(e['number'] for e in log if e['path'].endswith('.Reset') and e['body']['ResetType'] == 'ForceOff')
    on = min(e['number'] for e in log if e['path'].endswith('.Reset') and e['body']['ResetType'] == 'On')
    assert off < min(numbers) <= max(numbers) < on
    assert [{True}] * 3 == [twins.closed(name) for name in (*NODES, SHARED)]
    truth = twins.machine.truth()
    assert ['On', 'On'] == [truth['systems'][name]['power'] for name in NODES]
    assert NEW_FPGA == truth['components']['host/SharedFPGA_FW']['active']['version']
    twins.machine.reset_log()
    assert 0 == twins.desk.run('verify', *twins.desk.options).code
    opened = twins.desk.run('unlock', '--execute', *twins.desk.options)
    assert 0 == opened.code, opened.err
    first = [(e['method'], owner(e['path'])) for e in twins.machine.log()][:2]
    assert [('POST', 'node0'), ('POST', 'node1')] == first
    assert [{False}] * 3 == [twins.closed(name) for name in (*NODES, SHARED)]
    assert ['Off', 'Off'] == [twins.machine.truth()['systems'][name]['power'] for name in NODES]

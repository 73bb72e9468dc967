# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at emulated machines over IPMI: their boards, the firmware behind bridges, gaps, power, and the command line."""

import concurrent.futures
import json
import re
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest

from baremetal_acc.bmc import registry
from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.ipmi import bridge, endpoint, resource
from baremetal_acc.bmc.ipmi.bridge import Bridge
from baremetal_acc.bmc.ipmi.command import CompletionCode, NetFn
from baremetal_acc.bmc.ipmi.controller_path import Hop
from baremetal_acc.bmc.ipmi.driver import IpmiDriver, place_of
from baremetal_acc.bmc.ipmi.hpm.upgrade_target import read_capabilities
from baremetal_acc.bmc.ipmi.resource import ControllerAddress, MachinePart
from baremetal_acc.bmc.ipmi.session import RmcpSession
from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.ipmi.chassis import Control, EmulatedChassis
from baremetal_acc.emulator.ipmi.controller import (
    CommandAnswer,
    CommandRefusal,
    ControllerIdentity,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea, EmulatedProductArea, FruDevices, inventory
from baremetal_acc.emulator.ipmi.hpm_ability import HpmPart as HpmPart
from baremetal_acc.emulator.ipmi.hpm_ability import Times
from baremetal_acc.emulator.ipmi.lan import LanLine, LanThread
from baremetal_acc.emulator.ipmi.sdr import EmulatedControllerLocator, EmulatedFruLocator, Repository
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users
from baremetal_acc.errors import (
    BmcBusy,
    BmcNotAuthorised,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
    UsageError,
)
from baremetal_acc.execution import Target, Tools, observe
from baremetal_acc.execution.observation import _with_tasks
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.accelerator import IdentitySource, Kind
from baremetal_acc.model.inventory import PowerState, TaskState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, NodeFacts
from tests.cli.desk import Desk
from tests.emulator_ipmi.programs import program
from tests.unit.emulator.ipmi.machines import BMC_KEY, FPGA_PART, LATER_PART, Rig, hpm

NOW = datetime(2026, 11, 23, 7, 0, tzinfo=UTC)
PASSWORD = 'Sixteen is it 16'
SCHEMAS = Path(__file__).parents[2] / 'doc' / 'source' / 'schemas'
ADD_IN = 0x0B


def board(name, serial, **more):
    """An FRU with a board and a product area."""
    return inventory(
        board=EmulatedBoardArea(manufacturer='Maker', name=name, serial=f'B{serial}', part_number='BP-1'),
        product=EmulatedProductArea(manufacturer='Xilinx', name=name, part_number='PN-1', version='R1', serial=serial, **more),
    )


class Site(Rig):
    """A server: a card on the BMC, an unknown one, an AMC with two components of firmware, and an empty slot for another."""

    def __init__(self, lan, **more):
        super().__init__(virtual=False, **more)
        self.line = LanLine()
        self.on, self.controls = True, []
        users = Users()
        users.put(2, 'oper', PASSWORD.encode(), EmulatedPrivilege.OPERATOR)
        users.put(3, 'admin', PASSWORD.encode(), EmulatedPrivilege.ADMINISTRATOR)
        users.join(self.bmc)
        EmulatedChassis(lambda: self.on, lambda wanted: self.control(wanted)).join(self.bmc)
        self.frus = FruDevices({0: board('Server 9', 'S-1'), 3: board('Alveo U250', 'A-1'), 4: board('Mystery 9', 'M-1')})
        self.frus.join(self.bmc)
        self.amc_frus = FruDevices({0: board('Alveo U50', 'A-2')}, longest=20)
        self.amc_frus.join(self.amc)
        self.repository = Repository(
            (
                EmulatedFruLocator(name='Card 3', fru_id=3, entity=ADD_IN, instance=1),
                EmulatedFruLocator(name='Card 4', fru_id=4, entity=ADD_IN, instance=2),
                EmulatedControllerLocator(name='AMC 1', address=0x72, instance=0x61),
                EmulatedControllerLocator(name='AMC 2', address=0x74, instance=0x62),
            ),
            longest=20,
        )
        self.repository.join(self.bmc)
        self.endpoint = SessionEndpoint(self.bmc, users, clock=self.clock, reset_seconds=0, suites=(17, 3))
        self.port = lan.add(self.endpoint, line=self.line)

    def control(self, wanted):
        self.controls.append(wanted)
        self.on = wanted is not Control.OFF

    def address(self, **more):
        given = {'username': 'oper', 'password': PASSWORD, 'timeout': timedelta(seconds=5)} | more
        return BmcAddress(name=HOST, address=f'ipmi://127.0.0.1:{self.port}', **given)

    def connect(self, **more):
        return registry.for_address(self.address(**more)).connect(self.address(**more))

    def look(self):
        with self.connect() as connection:
            return connection.look(NOW)


@pytest.fixture
def lan():
    """What serves the BMCs."""
    with LanThread() as thread:
        yield thread


@pytest.fixture
def site(lan):
    """A server."""
    return Site(lan)


def ref(uri):
    """On the host's BMC."""
    return Ref(bmc=HOST, uri=uri)


def test_the_driver_is_found_by_the_scheme():
    """And it speaks IPMI."""
    address = BmcAddress(name=HOST, address='ipmi://192.0.2.1')
    assert isinstance(registry.for_address(address), IpmiDriver)


def test_a_look_shows_the_cards_where_they_are(site):
    """FRU 0 of the AMC is the AMC's; what is in no table is told of; an empty slot is nothing."""
    look = site.look()
    amc, card = look.accelerators[1], look.accelerators[0]
    assert (['serial:A-1', 'serial:A-2'], {Kind.FPGA}) == (
        [a.id for a in look.accelerators],
        {a.kind for a in look.accelerators},
    )
    assert ('A-1', 'PN-1', 'Card 3', IdentitySource.SERIAL) == (card.serial, card.part_number, card.location, card.identity)
    assert ((ref('/ipmi/fru/3'),), ref('/ipmi/chassis')) == (card.refs, card.system)
    assert ('Alveo U50', 'AMC 1', ref('/ipmi/0-72/fru/0')) == (amc.model, amc.location, amc.primary)
    assert 'AMD' in amc.vendor or 'Xilinx' in amc.vendor
    assert [
        (
            ref('/ipmi/fru/4'),
            'Mystery 9: this card is not in the device table, and is not treated as an accelerator '
            '(a file in [baremetal_acc] devices can list it)',
        )
    ] == [(gap.ref, gap.reason) for gap in look.gaps]
    assert 0 == site.endpoint.sessions


def test_firmware_is_that_of_the_board_with_the_controller(site):
    """The AMC's two components are the AMC's, as it tells them; the BMC's own is the platform's."""
    hpm(site.amc, 0x31, b'\2\2', channel=0)
    look = site.look()
    (amc,) = [a for a in look.accelerators if a.serial == 'A-2']
    shown = [(c.id, c.version, c.staged, c.updateable, c.certain, c.ref.uri) for c in amc.firmware]
    assert [
        ('FPGA', '1.02.00070000', None, True, True, '/ipmi/0-72/hpm/0'),
        ('FPGA 1', '1.02.00070000', None, True, True, '/ipmi/0-72/hpm/1'),
    ] == shown
    (device,) = look.platform_devices
    assert ('firmware', 'BMC', ref('/ipmi/hpm/0')) == (device.kind, device.model, device.ref)
    assert 'version 1.04 of HPM.1 component 0' in device.reason
    assert ('1.04', 'Server 9', PowerState.ON, ref('/ipmi/chassis')) == (
        look.facts.firmware_version,
        look.facts.product,
        look.facts.power,
        look.facts.system,
    )
    assert (True, False, 1) == (look.facts.update.push, look.facts.update.pull, look.facts.update.parallel)
    # What waits for a cold reset of its payload, once it is activated, HPM.1 does not tell.
    assert (ref('/ipmi/0-72/hpm/1'),) == look.facts.update.unseen


def test_a_component_of_the_bmc_that_is_called_as_one_card_is_that_cards(lan):
    """Not certain: IPMI does not say so."""
    site = Site(lan, bmc_parts={0: HpmPart(key=BMC_KEY, name='Alveo U250'), 1: HpmPart(key=BMC_KEY, name='Mystery')})
    look = site.look()
    (card,) = [a for a in look.accelerators if a.serial == 'A-1']
    assert [('Alveo U250', False)] == [(c.id, c.certain) for c in card.firmware]
    assert ['Mystery'] == [p.model for p in look.platform_devices]


def test_two_components_with_one_name_have_two_ids(lan):
    """And two looks at one machine have equal ones."""
    site = Site(lan, amc_parts={0: HpmPart(key=FPGA_PART.key, name='X'), 5: HpmPart(key=LATER_PART.key, name='X')})
    for _ in range(2):
        (amc,) = [a for a in site.look().accelerators if a.serial == 'A-2']
        assert ['X-0', 'X-5'] == [c.id for c in amc.firmware]


def test_equal_serial_numbers_identify_nothing(lan):
    """Each card keeps its own identity, by its place; and it is told."""
    site = Site(lan)
    site.amc_frus.contents[0] = bytearray(board('Alveo U50', 'A-1'))
    look = site.look()
    assert ['serial:A-1@AMC 1', 'serial:A-1@Card 3'] == [a.id for a in look.accelerators]
    assert 2 == len(
        [gap for gap in look.gaps if 'they may be the same board, found twice' in gap.reason and gap.accelerator is not None]
    )


def test_what_cannot_be_read_is_a_gap_that_hides(lan):
    """An FRU that refuses may be any card; a controller that is silent may have one. The rest is seen."""
    site = Site(lan)
    site.bmc.guards.append(
        lambda request: 0xFF if (request.netfn, request.command, request.data[:1]) == (0x0A, 0x11, b'\3') else None
    )
    look = site.look()
    assert ['serial:A-2'] == [a.id for a in look.accelerators]
    (gap,) = [gap for gap in look.gaps if gap.ref == ref('/ipmi/fru/3')]
    assert gap.hides
    assert 'completion code FFh' in gap.reason
    site.amc.guards.append(lambda request: 0xC0 if request.netfn == 0x2C else None)
    gaps = [gap for gap in site.look().gaps if gap.ref == ref('/ipmi/0-72/hpm')]
    assert ['the controller is busy (C0h)'] == [gap.reason.partition(': ')[2] for gap in gaps]


def test_a_damaged_fru_is_believed_where_its_sums_fit(lan):
    """The board area is damaged, the product area is not: the card is there, with a gap that names it."""
    site = Site(lan)
    content = bytearray(board('Alveo U250', 'A-1'))
    content[8 + 10] ^= 0xFF
    site.frus.contents[3] = content
    look = site.look()
    (card,) = [a for a in look.accelerators if a.serial == 'A-1']
    assert [card.id] == [gap.accelerator for gap in look.gaps if gap.ref == ref('/ipmi/fru/3')]


def test_two_who_look_at_once_do_not_keep_each_other_from_it(site):
    """Each reservation of the SDRs cancels that of the other. Both come to an end, with all of it."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        looks = list(pool.map(lambda _: site.look(), range(6)))
    assert [(2, [ref('/ipmi/fru/4')])] * 6 == [(len(look.accelerators), [gap.ref for gap in look.gaps]) for look in looks]


def test_a_look_ends_with_its_budget(site):
    """Every answer is late: the error says so, in time, and the BMC has no session left."""
    site.line.delay_seconds = 0.05
    began = time.monotonic()
    with site.connect(budget=timedelta(seconds=0.5)) as connection:
        with pytest.raises(BmcUnreachable, match='the time for the inspection is used up'):
            connection.look(NOW)
        assert time.monotonic() - began < 15
    assert 0 == site.endpoint.sessions


def test_a_look_can_be_stopped(site):
    """From another thread."""
    site.line.delay_seconds = 0.1
    connection = site.connect()
    threading.Timer(0.3, connection.stop).start()
    with pytest.raises(BmcUnreachable, match='the run was stopped'):
        connection.look(NOW)
    connection.close()


@pytest.mark.parametrize(
    ('more', 'error', 'text'),
    [
        ({'password': 'wrong'}, BmcNotAuthorised, 'the password is wrong'),
        ({'password': None}, UsageError, 'password: must not be empty'),
        ({'username': None}, UsageError, 'username: must not be empty'),
        ({'cipher_suite': 2}, UsageError, 'cipher suite: 2 is not supported'),
        ({'key': b'k'}, BmcNotAuthorised, 'K_G'),
    ],
)
def test_no_connection_without_the_right_credentials(site, more, error, text):
    """Each names the BMC as the operator calls it."""
    with pytest.raises(error, match=re.escape(text)) as caught:
        site.connect(**more)
    assert 'host (ipmi://127.0.0.1' in str(caught.value)


@pytest.mark.parametrize('text', ['ipmi://', 'ipmi://host/path', 'ipmi://host:99999'])
def test_an_address_that_is_none_is_refused(text):
    """With the form that is expected."""
    with pytest.raises(UsageError, match=r'write it as ipmi://HOST\[:PORT\]'):
        IpmiDriver().connect(BmcAddress(name=HOST, address=text, username='a', password='b'))


def test_suite_3_is_used_where_it_was_chosen(lan):
    """And only there."""
    site = Site(lan)
    site.endpoint.suites = tuple(one for one in site.endpoint.suites if one.number == 3)
    with pytest.raises(BmcUnsupported, match=r'cipher suite 3 \(SHA-1\) can be chosen'):
        site.connect()
    with site.connect(cipher_suite=3) as connection:
        assert 2 == len(connection.look(NOW).accelerators)


# ------------------------------------------------------------------------------------------------------------- single places


PLACES = {
    '/ipmi': ControllerAddress(),
    '/ipmi/chassis': ControllerAddress(part=MachinePart.CHASSIS),
    '/ipmi/0-72': ControllerAddress(path=(Hop(channel=0, address=0x72),)),
    '/ipmi/0-72/7-74/hpm': ControllerAddress(
        path=(Hop(channel=0, address=0x72), Hop(channel=7, address=0x74)), part=MachinePart.HPM
    ),
    '/ipmi/fru/255': ControllerAddress(part=MachinePart.FRU, number=255),
    '/ipmi/fru/3-1': ControllerAddress(part=MachinePart.FRU, number=3, lun=1),
    '/ipmi/f-fe/hpm/7': ControllerAddress(path=(Hop(channel=15, address=0xFE),), part=MachinePart.HPM, number=7),
}


def test_uris_name_places():
    """Both ways; what could not be is none."""
    assert PLACES == {uri: resource.place(uri) for uri in PLACES}
    assert list(PLACES) == [place.uri for place in PLACES.values()]
    wrong = (
        '/redfish/v1',
        '/ipmi/',
        '/ipmi/0-72/chassis',
        '/ipmi/fru/256',
        '/ipmi/fru',
        '/ipmi/hpm/8',
        '/ipmi/0-72/0-74/0-76',
        '/ipmi/٣',
    )
    assert dict.fromkeys(wrong) == {uri: resource.place(uri) for uri in wrong}


def test_a_glance_says_what_the_look_said(site):
    """To the letter, as long as nothing has changed; and each failure is one of that place."""
    with site.connect() as connection:
        look = connection.look(NOW)
        uris = ['/ipmi', '/ipmi/0-72', '/ipmi/fru/3', '/ipmi/0-72/fru/0', '/ipmi/0-72/hpm/1']
        again = connection.glance([*uris, '/ipmi/fru/9', '/ipmi/chassis', '/redfish/v1'], timedelta(seconds=30))
        assert [look.reader.peek(uri) for uri in uris] == [again[uri] for uri in uris]
        assert {'PowerState': 'On'} == again['/ipmi/chassis'].body
        assert [True, True] == [isinstance(again[uri], BmcRefused) for uri in ('/ipmi/fru/9', '/redfish/v1')]
        site.amc_frus.contents[0] = bytearray(board('Alveo U50', 'A-7'))
        changed = connection.glance(uris, timedelta(seconds=30))
        assert ['/ipmi/0-72/fru/0'] == [uri for uri in uris if changed[uri] != look.reader.peek(uri)]
        over = connection.glance(uris, timedelta(0))
        assert {BmcUnreachable} == {type(one) for one in over.values()}


def test_a_component_is_read_now(site):
    """As the look has shown it; one that there is not is refused."""
    with site.connect() as connection:
        look = connection.look(NOW)
        for accelerator in look.accelerators:
            for item in accelerator.firmware:
                assert item == connection.component(item.ref)
        with pytest.raises(BmcRefused, match='the component no longer exists') as caught:
            connection.component(ref('/ipmi/0-72/hpm/5'))
        assert caught.value.gone, 'as over Redfish: the card is looked at instead'
        with pytest.raises(BmcRefused, match='no such resource'):
            connection.component(ref('/ipmi/fru/3'))


def test_the_power_is_told_and_changed(site):
    """Each order is sent once, as an operator; power cycles and restarts too."""
    system = ref('/ipmi/chassis')
    with site.connect() as connection:
        for wanted in (PowerState.OFF, PowerState.ON):
            connection.set_power(system, wanted)
            assert wanted is connection.power(system)
        connection.reset(system, ResetKind.SYSTEM_RESET)
        connection.reset(system, ResetKind.POWER_CYCLE)
        assert [Control.OFF, Control.ON, Control.RESET, Control.CYCLE] == site.controls
        for wrong in (PowerState.PAUSED,):
            with pytest.raises(BmcUnsupported, match='cannot be requested over IPMI'):
                connection.set_power(system, wrong)
        with pytest.raises(BmcRefused, match='no such resource'):
            connection.power(ref('/ipmi'))
        assert connection.last_reset(system) is None


def test_an_order_whose_answer_is_lost_may_have_arrived(site):
    """It is sent once, and the error says that nobody knows; where there is no session it was not sent."""
    system = ref('/ipmi/chassis')
    with site.connect(timeout=timedelta(seconds=1)) as connection:
        connection.power(system)
        site.line.silent = True
        with pytest.raises(BmcUnreachable, match=r'; Chassis Control \(Off\) may have arrived'):
            connection.set_power(system, PowerState.OFF)
        with pytest.raises(BmcUnreachable) as caught:
            connection.set_power(system, PowerState.OFF)
        assert not caught.value.sent
        assert 'may have arrived' not in str(caught.value)
    assert [] == site.controls


def test_an_order_that_its_power_does_not_allow_now_is_asked_for_later(site):
    """BMCs answer D5h while a host is just going on or off; any other code is a refusal."""
    system = ref('/ipmi/chassis')
    code = CompletionCode.NOT_IN_STATE

    def control(_):
        raise CommandRefusal(code)

    site.control = control
    with site.connect() as connection:
        with pytest.raises(BmcBusy, match='the power state does not allow Off now'):
            connection.set_power(system, PowerState.OFF)
        code = CompletionCode.INVALID_FIELD
        with pytest.raises(BmcRefused):
            connection.set_power(system, PowerState.OFF)


def test_only_an_administrator_restarts_the_bmc(site):
    """An operator is refused, and nothing restarts; the session of an administrator is closed again."""
    resets = []
    site.bmc.on_reset.append(lambda: resets.append(1))
    with site.connect() as connection, pytest.raises(BmcNotAuthorised, match='the user lacks the privilege administrator'):
        connection.reset(ref('/ipmi'), ResetKind.BMC_RESET)
    assert [] == resets
    with site.connect(username='admin') as connection:
        connection.reset(ref('/ipmi'), ResetKind.BMC_RESET)
    assert [1] == resets


def test_commands_that_run_are_tasks(lan):
    """While an activation runs; and what has ended is gone."""
    site = Site(lan, amc_more={'times': Times(erase=30)})
    with site.connect() as connection:
        connection.look(NOW)
        assert () == connection.active_tasks()
        place = ref('/ipmi/0-72/hpm')
        assert TaskState.GONE is connection.task(place).state
        assert b'\x80' == hpm(site.amc, 0x31, b'\1\1', channel=0)[:1]
        (task,) = connection.active_tasks()
        assert (place, TaskState.ACTIVE, 'command 31h/80h') == (task.ref, task.state, task.raw)
        assert TaskState.ACTIVE is connection.task(place).state


def test_who_may_only_operate_is_found_out_by_one_login(lan):
    """Before anything is written; a session for that is left again."""
    site = Site(lan)
    with site.connect(username='admin') as connection:
        connection.may_write()
        assert 1 == site.endpoint.sessions
    with site.connect() as connection, pytest.raises(BmcNotAuthorised, match='the user lacks the privilege administrator'):
        connection.may_write()


def test_a_controller_that_does_not_tell_what_it_is_at_is_named(lan):
    """By its own place, and not by one of Redfish."""
    site = Site(lan)
    with site.connect() as connection:
        look = connection.look(NOW)
        site.amc.guards.append(lambda request: 0xC0 if request.command == 0x34 else None)
        _, (gap,) = _with_tasks(connection, look)
    assert ref('/ipmi/0-72/hpm') == gap.ref
    assert 'the running tasks could not be read: Get Upgrade Status: the controller is busy' in gap.reason


def test_nothing_is_written_by_uri(site):
    """There is nothing to patch or to post; and no place but a component takes an image."""
    with site.connect() as connection:
        writer = connection.writer()
        document = Document(ref=ref('/ipmi'), body={})
        for attempt in (
            lambda: writer.fresh('/ipmi'),
            lambda: writer.patch(document, {}),
            lambda: writer.post('/ipmi', {}),
        ):
            with pytest.raises(BmcRefused, match='no such resource: this BMC is accessed over IPMI'):
                attempt()
        for uri in ('/ipmi/0-72/hpm', '/ipmi/0-72/fru/0', '/ipmi', '/redfish/v1'):
            with pytest.raises(BmcUnsupported, match='not a component that takes an image over IPMI'):
                connection.push(ref(uri), None)
        assert () == connection.measure([], NOW)


def test_locks_of_other_bmcs_find_nothing_and_do_not_fail(site):
    """Every installed mechanism is asked; none applies, and none of them takes a refusal for a lock that cannot be read."""
    node = NodeFacts(name='node', resource_class=None, owner=None, traits=frozenset(), exposure=Exposure.TENANT)
    found = mechanisms()
    tools = Tools(
        connect=lambda address: IpmiDriver().connect(address),
        mechanisms=found,
        baseline=Baseline(rules=()),
        catalogue=(),
        images=None,
    )
    seen = observe(Target(name='node', node=node, bmcs=(site.address(),)), tools, NOW, tasks=True)
    assert len(found) > 10
    assert ['serial:A-1', 'serial:A-2'] == [a.id for a in seen.accelerators]
    assert [(), ()] == [a.locks for a in seen.accelerators]
    assert () == seen.platform_locks


# --------------------------------------------------------------------------------------------------------- the command line


def test_inventory_by_the_keys_of_ironic(lan, site, tmp_path):
    """ipmi_address, ipmi_port and the rest, to the letter; the document is the one of the schema."""
    other = Site(lan)
    desk = Desk(folder=tmp_path, environ={'PW': PASSWORD})
    desk.bmcs(
        {
            'node-1': {
                'ipmi_address': '127.0.0.1',
                'ipmi_port': str(site.port),
                'ipmi_username': 'oper',
                'ipmi_password_env': 'PW',
                'ipmi_cipher_suite': '3',
            },
            'node-2': {
                'bmcs': {'host': {'address': f'ipmi://localhost:{other.port}', 'username': 'oper', 'password_env': 'PW'}}
            },
        }
    )
    done = desk.run('inventory', '-f', 'json')
    assert 0 == done.code, done
    jsonschema.validate(done.document, json.loads((SCHEMAS / 'inventory.json').read_text()))
    for target in done.document['targets']:
        assert ['A-1', 'A-2'] == [a['serial'] for a in target['accelerators']]
        assert ['FPGA', 'FPGA 1'] == [c['id'] for c in target['accelerators'][1]['firmware']]
        assert ['none', 'none'] == [a['device_lock'] for a in target['accelerators']]
    assert PASSWORD not in done.out + done.err
    wrong = desk.run('inventory', '--address', f'ipmi://127.0.0.1:{site.port}', '--username', 'nobody', '-f', 'json')
    assert 2 == wrong.code, 'nobody can be asked for the password'


def test_many_targets_at_once(lan, tmp_path):
    """In one thread, as a fleet is read."""
    places = [Site(lan) for _ in range(6)]
    desk = Desk(folder=tmp_path, environ={'PW': PASSWORD})
    desk.bmcs(
        {
            f'node-{n}': {
                'bmcs': {'host': {'address': f'ipmi://127.0.0.1:{site.port}', 'username': 'oper', 'password_env': 'PW'}}
            }
            for n, site in enumerate(places)
        }
    )
    done = desk.run('inventory', '-f', 'json')
    assert 0 == done.code, done
    assert [2] * 6 == [len(target['accelerators']) for target in done.document['targets']]
    assert {0} == {site.endpoint.sessions for site in places}


class OneOfMany:
    """A server of a model of which there are many: the same identity and the same dates, and as many cards as it was given."""

    def __init__(self, lan, number):
        self.serials = [f'N{number}-C{card}' for card in range(2 + number % 3)]
        bmc, users = EmulatedController(identity=ControllerIdentity(device_id=0x21, firmware=(1, 4))), Users()
        users.put(2, 'oper', PASSWORD.encode(), EmulatedPrivilege.OPERATOR)
        users.join(bmc)
        cards = {3 + n: board('Alveo U250', serial) for n, serial in enumerate(self.serials)}
        FruDevices({0: board('Server 9', f'S-{number}')} | cards).join(bmc)
        locators = (EmulatedFruLocator(name=f'Card {n}', fru_id=n, entity=ADD_IN, instance=n) for n in cards)
        Repository(tuple(locators), longest=64).join(bmc)
        self.endpoint = SessionEndpoint(bmc, users, clock=EmulatedClock(virtual=False), reset_seconds=0)
        self.port = lan.add(self.endpoint)


def test_each_of_a_hundred_bmcs_of_one_model_gets_its_own_cards(lan, tmp_path):
    """Two, three or four: nothing that was read of one is taken for another. All sessions are closed."""
    places = [OneOfMany(lan, number) for number in range(100)]
    desk = Desk(folder=tmp_path, environ={'PW': PASSWORD})
    login = {'username': 'oper', 'password_env': 'PW'}
    desk.bmcs(
        {f'n{n}': {'bmcs': {'host': {'address': f'ipmi://127.0.0.1:{one.port}'} | login}} for n, one in enumerate(places)}
    )
    done = desk.run('inventory', '-f', 'json')
    assert 0 == done.code, done.err
    found = {target['target']: [a['serial'] for a in target['accelerators']] for target in done.document['targets']}
    assert {f'n{n}': one.serials for n, one in enumerate(places)} == found
    assert {0} == {one.endpoint.sessions for one in places}


# -------------------------------------------------------------------------------------------------------- OpenIPMI's ipmi_sim


SIM_PASSWORD = 'of-the-sim'
SIM = """
name "sim"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_callback none md2 md5 straight
  allowed_auths_user none md2 md5 straight
  allowed_auths_operator none md2 md5 straight
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
user 1 true "" "" user 10 none md2 md5 straight
user 2 true "oper" "of-the-sim" operator 10 none md2 md5 straight
user 3 true "admin" "of-the-sim" admin 10 none md2 md5 straight
"""

COMMANDS = """
mc_setbmc 0x20
mc_add 0x20 0 has-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_add_fru_data 0x20 0 {size} data {host}
mc_add 0x72 0 has-device-sdrs 0x23 9 8 0x08 0x1291 0xf03
mc_add_fru_data 0x72 0 {size} data {card}
main_sdr_add 0x20 {locator}
mc_enable 0x20
mc_enable 0x72
"""


@pytest.fixture
def sim(tmp_path):
    """A BMC by another hand: suite 3 only, no HPM.1, no firewall; a controller with a card at 72h. Its port."""
    binary = program('ipmi_sim')
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    hexed = lambda data: ' '.join(f'0x{b:02x}' for b in data.ljust(512, b'\xff'))  # noqa: E731
    name = b'AMC 1'
    locator = bytes((0x01, 0x00, 0x51, 0x12, 11 + len(name), 0x72, 0, 0, 0x29, 0, 0, 0, 0xC1, 0x61, 0, 0xC0 | len(name))) + name
    commands = COMMANDS.format(
        size=512,
        host=hexed(board('Server 9', 'S-1')),
        card=hexed(board('Alveo U50', 'A-2')),
        locator=' '.join(f'0x{b:02x}' for b in locator),
    )
    (tmp_path / 'lan.conf').write_text(SIM.format(port=port))
    (tmp_path / 'sim.emu').write_text(commands)
    log = (tmp_path / 'log').open('w')
    with (
        log,
        subprocess.Popen(
            [binary, '-c', 'lan.conf', '-f', 'sim.emu', '-s', str(tmp_path / 'state'), '-n'],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        ) as process,
    ):
        yield port
        process.terminate()


def of_sim(port, **more):
    """Its address."""
    given = {'username': 'oper', 'password': SIM_PASSWORD, 'cipher_suite': 3, 'timeout': timedelta(seconds=8)} | more
    return BmcAddress(name=HOST, address=f'ipmi://127.0.0.1:{port}', **given)


def until_it_listens(port):
    """It takes a moment."""
    until = time.monotonic() + 20
    while True:
        try:
            return IpmiDriver().connect(of_sim(port))
        except BmcUnreachable:
            assert time.monotonic() < until
            time.sleep(0.2)


def test_a_look_at_ipmi_sim(sim, monkeypatch):
    """The card behind the bridge is found, at once, with what it says; and suite 17 is refused in words."""
    monkeypatch.setattr(bridge, 'WITHIN', timedelta(seconds=60))
    with until_it_listens(sim) as connection:
        began = time.monotonic()
        look = connection.look(NOW)
        assert time.monotonic() - began < 50
        assert [('serial:A-2', 'Alveo U50', 'AMC 1')] == [(a.id, a.model, a.location) for a in look.accelerators]
        assert ('9.08', 'Server 9', PowerState.OFF) == (look.facts.firmware_version, look.facts.product, look.facts.power)
        # It refuses what it does not know to all but administrators: as such a one we are told that there is no such command.
        assert ((), None, None) == (look.gaps, look.facts.update, look.reader.peek('/ipmi/firewall/f'))
    with pytest.raises(BmcUnsupported, match='does not support cipher suite 17'):
        IpmiDriver().connect(of_sim(sim, cipher_suite=17))
    with pytest.raises(BmcNotAuthorised, match='the password is wrong'):
        IpmiDriver().connect(of_sim(sim, password='wrong'))


def test_what_an_operator_is_refused_is_asked_as_an_administrator_and_never_by_one_who_may_not_be_that(site):
    """A BMC refuses an operator what it does not have like a command that he may not give."""

    def unknown(request):
        raise CommandRefusal(0xC1)

    def refuse(request):
        is_upgrades = (request.netfn, request.command) == (0x2C, 0x2E)
        return 0xD4 if is_upgrades and request.privilege < EmulatedPrivilege.ADMINISTRATOR else None

    site.bmc.add(0x06, 0x61, unknown, privilege=EmulatedPrivilege.ADMINISTRATOR, most=20)
    site.bmc.guards.append(refuse)
    logins = []
    real = site.endpoint.receive
    site.endpoint.receive = lambda datagram: (logins.append(datagram[5:6] == b'\x12'), real(datagram))[1]
    with site.connect(username='admin') as connection:
        look = connection.look(NOW)
        assert [] == [gap for gap in look.gaps if gap.ref.uri == '/ipmi/hpm']
        assert look.reader.peek('/ipmi/firewall/f') is None
        assert '1.04' == connection.component(ref('/ipmi/hpm/0')).version
    assert 0 == site.endpoint.sessions
    del logins[:]
    with site.connect() as connection:
        look = connection.look(NOW)
        told = [gap.reason for gap in look.gaps if gap.ref.uri == '/ipmi/hpm']
        assert ['Get Target Upgrade Capabilities: refused (D4h)'] == told
        assert 'unknown' == look.reader.peek('/ipmi/firewall/f').body['State']
        connection.look(NOW)
    assert 2 == sum(logins)


@pytest.mark.parametrize('code', [0xC0, 0xC3])
def test_who_is_busy_for_a_moment_hides_nothing(site, code):
    """Each kind of command is answered so once, by the BMC and by the controller behind it: the look is the same."""
    plain = site.look()
    seen = set()

    def busy_once(request, execute):
        first = (request.netfn, request.command) not in seen
        seen.add((request.netfn, request.command))
        return CommandAnswer(code, request.data[:1] if request.netfn == 0x2C else b'') if first else execute(request)

    def busy(request, execute):
        told = {(0x06, 0x3B), (0x06, 0x3C), (0x06, 0x34), (0x06, 0x38), (0x06, 0x54)}
        return execute(request) if (request.netfn, request.command) in told else busy_once(request, execute)

    site.bmc.around = busy
    look = site.look()
    assert (plain.accelerators, plain.gaps) == (look.accelerators, look.gaps)
    assert (plain.facts.accounts, plain.facts.power) == (look.facts.accounts, look.facts.power)
    assert {(0x0A, 0x11), (0x0A, 0x23), (0x06, 0x01), (0x06, 0x44), (0x2C, 0x2E), (0x2C, 0x2F), (0x00, 0x01)} <= seen


def test_ipmi_sim_has_neither_hpm_1_nor_a_firewall(sim):
    """Both are ordinary answers, to an administrator, direct and over the bridge."""
    until_it_listens(sim).close()
    with RmcpSession(place_of(of_sim(sim, username='admin')), endpoint.LoginPrivilege.ADMINISTRATOR) as raw:
        for there in (raw, Bridge(raw, address=0x72)):
            assert read_capabilities(there) is None
            assert CompletionCode.INVALID_COMMAND == there(NetFn.APP, 0x61, b'\x0f\x06\0').code

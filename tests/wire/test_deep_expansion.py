# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""PCIe devices and their functions come in one request where a BMC expands three levels; one that does it wrong hides none."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from baremetal_acc.bmc.driver import BmcAddress, Look
from baremetal_acc.bmc.redfish.collection_pages import expand_query
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.model.ref import HOST
from tests.wire.recorded import DEEP, EXPAND, bodies, expanded, inventory_of

from .conftest import ADDRESS, NOW

pytestmark = pytest.mark.usefixtures('steady')

DEVICES = '/redfish/v1/Chassis/1/PCIeDevices'
NAMES = ('A', 'B', 'C')


def _plain(bmc: Any) -> dict[str, Any]:
    """A Chassis of three cards with two functions each."""
    bmc.collection('/redfish/v1/Chassis', '1')
    bmc.put('/redfish/v1/Chassis/1', ChassisType='RackMount', PCIeDevices={'@odata.id': DEVICES})
    bmc.collection(DEVICES, *NAMES)
    for name in NAMES:
        functions = f'{DEVICES}/{name}/PCIeFunctions'
        bmc.put(f'{DEVICES}/{name}', SerialNumber=f'S{name}', PCIeFunctions={'@odata.id': functions})
        bmc.collection(functions, '0', '1')
        for number in '01':
            ids = {'VendorId': '0x10de', 'DeviceId': '0x2331', 'ClassCode': '0x030200'}
            bmc.put(f'{functions}/{number}', **ids, FunctionId=int(number))
    for uri, body in bmc.tree.items():
        body['@odata.type'] = '#X.v1_0_0.X'
        body['@odata.id'] = uri
    return bmc.tree


@pytest.fixture
def deep(bmc: Any) -> Any:
    """It, by a BMC that expands three levels."""
    bmc.tree = expanded(_plain(bmc), levels=3)
    return bmc


def _connect(bmc: Any, remembered: RememberedBmc) -> Any:
    driver = bmc.driver(remembered)
    return driver.connect(BmcAddress(name=HOST, address=ADDRESS, concurrency=1))


def _look(bmc: Any, remembered: RememberedBmc | None = None) -> Look:
    with _connect(bmc, remembered or RememberedBmc()) as connection:
        return connection.look(NOW)


def _below(bmc: Any) -> list[str]:
    """What was asked for below the Chassis, without the part that all have."""
    return [uri.removeprefix(DEVICES) for _, uri in bmc.seen if uri.startswith(DEVICES)]


def _is_all_there(look: Look) -> bool:
    found = {a.serial: (a.pci.device_id, len([r for r in a.refs if '/PCIeFunctions/' in r.uri])) for a in look.accelerators}
    return found == {f'S{name}': ('0x2331', 2) for name in NAMES} and not look.gaps


def test_devices_with_their_functions_are_one_request(deep: Any) -> None:
    """Three cards with two functions each."""
    assert _is_all_there(_look(deep))
    assert [DEEP] == _below(deep)


def test_a_device_is_kept_as_it_is_when_it_is_read_by_itself(deep: Any) -> None:
    """What is below it is a link again, so that it compares equal with what a plain read brings."""
    reader = _look(deep).reader
    for place in (f'{DEVICES}/A', f'{DEVICES}/A/PCIeFunctions/1'):
        assert deep.tree[place] == reader.get(place).body
    assert [DEEP] == _below(deep)


def test_the_next_look_asks_for_all_of_it_at_once_again(deep: Any) -> None:
    """What was needed last time is remembered with its query."""
    remembered = RememberedBmc()
    for _ in range(2):
        assert _is_all_there(_look(deep, remembered))
    assert [DEEP, DEEP] == _below(deep)


@pytest.mark.parametrize('code', [400, 406, 414, 500, 501])
def test_three_levels_that_are_refused_are_one_level_from_then_on(deep: Any, reply: Callable[..., Any], code: int) -> None:
    """In that look, and in those that follow."""
    deep.replies['GET', DEVICES + DEEP] = reply(code)
    remembered = RememberedBmc()
    for _ in range(2):
        assert _is_all_there(_look(deep, remembered))
    functions = [f'/{name}/PCIeFunctions{EXPAND}' for name in NAMES]
    asked = _below(deep)
    assert [EXPAND, *functions, EXPAND, *functions] == [target for target in asked if target != DEEP]
    assert {DEEP} == set(asked[: -2 * len([EXPAND, *functions])])  # a read that fails with 500 may be repeated


def test_three_levels_that_do_not_come_in_time_are_one_level_from_then_on(deep: Any) -> None:
    """Putting in all functions of all devices may take longer than anybody waits."""
    deep.replies['GET', DEVICES + DEEP] = [requests.ReadTimeout()] * 9
    remembered = RememberedBmc()
    assert _is_all_there(_look(deep, remembered))
    asked = deep.count('GET', DEVICES + DEEP)
    assert _is_all_there(_look(deep, remembered))
    assert (asked, 2) == (deep.count('GET', DEVICES + DEEP), deep.count('GET', DEVICES + EXPAND))


@pytest.mark.parametrize('text', ['no json', '[]', '{"error": {}}', '{"Members": 7}'])
def test_three_levels_that_are_no_collection_are_one_level(deep: Any, text: str) -> None:
    """What comes with the query says nothing of what comes without it."""
    deep.tree[DEVICES + DEEP] = text
    assert _is_all_there(_look(deep))
    assert [DEEP, EXPAND] == _below(deep)[:2]


def test_three_levels_that_are_ignored_are_one_level(deep: Any) -> None:
    """The BMC takes the query, and answers with links."""
    deep.tree[DEVICES + DEEP] = deep.tree[DEVICES]
    assert _is_all_there(_look(deep))
    assert [DEEP, EXPAND] == _below(deep)[:2]


def test_all_that_is_ignored_is_read_singly(deep: Any) -> None:
    """A BMC that ignores the query whatever it says, here only."""
    for query in (DEEP, EXPAND):
        deep.tree[DEVICES + query] = deep.tree[DEVICES]
    assert _is_all_there(_look(deep))


def _members(bmc: Any) -> list[Any]:
    found = copy.deepcopy(bmc.tree[DEVICES + DEEP])
    bmc.tree[DEVICES + DEEP] = found
    members: list[Any] = found['Members']
    return members


@pytest.mark.parametrize('lost', [{'Id': 'B', 'Name': 'B'}, None, 7])
def test_a_member_without_its_uri_is_found_at_one_level(deep: Any, lost: Any) -> None:
    """Nobody could tell which member it is."""
    _members(deep)[1] = lost
    assert _is_all_there(_look(deep))
    assert [DEEP, EXPAND] == _below(deep)[:2]


def test_members_that_are_cut_off_are_found_at_one_level(deep: Any) -> None:
    """An answer that grows too long for a BMC may end early; it says how many there are."""
    deep.tree[DEVICES]['Members@odata.count'] = 3
    deep.tree[DEVICES + DEEP] = deep.tree[DEVICES + DEEP] | {'Members@odata.count': 3}
    del _members(deep)[2]
    assert _is_all_there(_look(deep))
    assert [DEEP, EXPAND] == _below(deep)[:2]


def test_one_level_in_place_of_three_costs_nothing(bmc: Any) -> None:
    """The devices are taken, their functions asked for; the next collection is asked for one level at once."""
    other = '/redfish/v1/Chassis/2/PCIeDevices'
    tree = _plain(bmc)
    bmc.collection('/redfish/v1/Chassis', '1', '2')
    bmc.put('/redfish/v1/Chassis/2', ChassisType='RackMount', PCIeDevices={'@odata.id': other})
    bmc.collection(other)
    bmc.tree = expanded(tree, levels=3)
    bmc.tree[DEVICES + DEEP] = bmc.tree[DEVICES + EXPAND]
    assert _is_all_there(_look(bmc))
    assert [DEEP, *(f'/{name}/PCIeFunctions{EXPAND}' for name in NAMES)] == _below(bmc)
    assert [other + EXPAND] == [uri for _, uri in bmc.seen if uri.startswith(other)]


FUNCTIONS = f'{DEVICES}/B/PCIeFunctions'

BROKEN: dict[str, Any] = {
    'link': {'@odata.id': FUNCTIONS},
    'none': {'@odata.id': FUNCTIONS, '@odata.type': '#X.X', 'Members': []},
    'null': {'@odata.id': FUNCTIONS, '@odata.type': '#X.X', 'Members': None},
    'links': {'@odata.id': FUNCTIONS, '@odata.type': '#X.X', 'Members': [{'@odata.id': f'{FUNCTIONS}/0'}]},
    'no list': {'@odata.id': FUNCTIONS, '@odata.type': '#X.X', 'Members': 'x'},
    'count': {'Members@odata.count': 3},
    'page': {'Members@odata.nextLink': f'{FUNCTIONS}?$skip=1'},
    'elsewhere': {'@odata.id': f'{DEVICES}/A/PCIeFunctions'},
    'off': {'@odata.id': 'https://192.0.2.99/x'},
    'no link': {'Members': [{'Id': '0', 'Name': '0'}]},
    'error': {'error': {}, 'Members': None},
}


@pytest.mark.parametrize('kind', sorted(BROKEN))
def test_functions_that_did_not_come_whole_are_asked_for_by_themselves(deep: Any, kind: str) -> None:
    """The rules of one level hold for what is below it: what may be half is not taken for all."""
    if kind in ('elsewhere', 'off'):
        deep.tree[f'{DEVICES}/B']['PCIeFunctions'] = {'@odata.id': FUNCTIONS}
    member = _members(deep)[1]
    member['PCIeFunctions'] = (
        BROKEN[kind] if len(BROKEN[kind]) > 2 or kind == 'link' else member['PCIeFunctions'] | BROKEN[kind]
    )
    look = _look(deep)
    if kind in ('elsewhere', 'off'):  # the device itself says where its functions are
        assert {'SA', 'SC'} <= {a.serial for a in look.accelerators}
        assert 2 == len([uri for uri in look.reader.documents if '/A/PCIeFunctions/' in uri])
        return
    assert _is_all_there(look)
    assert [DEEP, f'/B/PCIeFunctions{EXPAND}'] == _below(deep)


@pytest.mark.parametrize('lost', ['Id', 'Name'])
def test_a_function_that_is_incomplete_is_read_singly(deep: Any, lost: str) -> None:
    """Its neighbours are not."""
    del _members(deep)[1]['PCIeFunctions']['Members'][0][lost]
    assert _is_all_there(_look(deep))
    assert [DEEP, '/B/PCIeFunctions/0'] == _below(deep)


@pytest.mark.parametrize('lost', ['Id', 'Name'])
def test_what_is_below_an_incomplete_device_is_not_taken(deep: Any, lost: str) -> None:
    """The device is read singly, and what it leads to then."""
    del _members(deep)[1][lost]
    assert _is_all_there(_look(deep))
    assert [DEEP, '/B', f'/B/PCIeFunctions{EXPAND}'] == _below(deep)


def test_a_function_does_not_speak_for_one_of_another_device(deep: Any) -> None:
    """A card that shows a function of its neighbour lends it its ids."""
    lie = _members(deep)[0]['PCIeFunctions']['Members'][1]
    lie |= {'@odata.id': f'{FUNCTIONS}/1', 'DeviceId': '0xdead'}
    reader = _look(deep).reader
    assert '0x2331' == reader.get(f'{FUNCTIONS}/1').body['DeviceId']


def test_a_device_does_not_speak_for_the_functions_of_another_one(deep: Any) -> None:
    """A card that says its functions were its neighbour's lends it other ids."""
    lie = _members(deep)[0]['PCIeFunctions']
    lie['@odata.id'] = FUNCTIONS
    for number, function in enumerate(lie['Members']):
        function |= {'@odata.id': f'{FUNCTIONS}/{number}', 'DeviceId': '0xdead'}
    reader = _look(deep).reader
    assert ['0x2331', '0x2331'] == [reader.get(f'{FUNCTIONS}/{number}').body['DeviceId'] for number in (0, 1)]


@pytest.mark.parametrize(
    ('features', 'query'),
    [
        ({'NoLinks': True, 'Levels': True, 'MaxLevels': 3}, DEEP),
        ({'NoLinks': True, 'Levels': True, 'MaxLevels': 6}, DEEP),
        ({'NoLinks': True, 'Levels': True, 'MaxLevels': 2}, None),
        ({'NoLinks': True, 'Levels': True, 'MaxLevels': 'many'}, None),
        ({'NoLinks': True, 'Levels': True}, None),
        ({'NoLinks': True, 'Levels': False, 'MaxLevels': 6}, None),
        ({'ExpandAll': True, 'Levels': True, 'MaxLevels': 6}, None),
        ({}, None),
    ],
)
def test_three_levels_are_asked_for_where_the_bmc_says_that_it_can(features: Any, query: str | None) -> None:
    """And never together with what Links lead to: that is the whole machine."""
    assert query == expand_query({'ExpandQuery': features}, levels=3)


RECORDED = {
    'supermicro/hgx-h100-8gpu': (23, 14),
    'lenovo/sr670v2-8xl40-bluefield2': (27, 11),
    'dell/r750-h100-bluefield2': (29, 17),
    'hpe/dl380a-gen11-2xh100nvl': (15, 13),
    'nvidia/gh200': (34, 32),
    'nvidia/bluefield3': (18, 18),
    'dmtf/rackmount': (10, 10),
    'dmtf/smartnic': (12, 12),
}


@pytest.mark.parametrize('name', sorted(RECORDED))
def test_what_is_found_at_three_levels_is_what_is_found_at_one(bmc: Any, shared: Path, name: str) -> None:
    """Requests of a recorded machine at one level and, as if it could do it, at three; root included, no login."""
    found, asked = [], []
    for levels in (1, 3):
        bmc.tree = bodies(shared / 'recordings' / name, expand=True, levels=levels)
        bmc.seen.clear()
        seen = inventory_of(bmc)
        parts = (seen.accelerators, seen.gaps, seen.platform_locks, seen.platform_devices)
        found.append([re.sub("session='[^']*'", '', repr(part)) for part in parts])
        asked.append(len(bmc.seen))
    assert RECORDED[name] == tuple(asked)
    assert found[0] == found[1]

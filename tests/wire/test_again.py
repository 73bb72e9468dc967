# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that was read before is read again: every lock, version and state; nothing that is reported as unchanged."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.errors import BmcAnswerInvalid, BmcUnreachable
from baremetal_acc.model.ref import HOST

from .conftest import ADDRESS, NOW

DEVICES = '/redfish/v1/Chassis/1/PCIeDevices'
FUNCTION = f'{DEVICES}/GPU/PCIeFunctions/0'
ITEM = '/redfish/v1/UpdateService/FirmwareInventory/GPU'


@pytest.fixture
def card(bmc: Any) -> Any:
    """A GPU with a function, an item, and ETags on everything."""
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    bmc.put('/redfish/v1/UpdateService', FirmwareInventory={'@odata.id': ITEM.rpartition('/')[0]})
    bmc.collection(ITEM.rpartition('/')[0], 'GPU')
    bmc.put(ITEM, Version='1', WriteProtected=True, RelatedItem=[{'@odata.id': f'{DEVICES}/GPU'}])
    bmc.collection('/redfish/v1/Chassis', '1')
    bmc.put('/redfish/v1/Chassis/1', ChassisType='RackMount', PCIeDevices={'@odata.id': DEVICES})
    bmc.collection(DEVICES, 'GPU')
    bmc.put(
        f'{DEVICES}/GPU', Model='NVIDIA H100', SerialNumber='7', PCIeFunctions={'@odata.id': f'{DEVICES}/GPU/PCIeFunctions'}
    )
    bmc.collection(f'{DEVICES}/GPU/PCIeFunctions', '0')
    bmc.put(FUNCTION, VendorId='0x10de', DeviceId='0x2331', ClassCode='0x030200')
    kinds = {FUNCTION: 'PCIeFunction.v1_2_3.PCIeFunction', ITEM: 'SoftwareInventory.v1_3_0.SoftwareInventory'}
    for uri, body in bmc.tree.items():
        kind = kinds.get(uri, 'SomeCollection.SomeCollection' if 'Members' in body else 'Other.v1_0_0.Other')
        body['@odata.type'] = f'#{kind}'
        bmc.etags[uri] = '"same for all"'
    return bmc


def conditional(bmc: Any) -> set[str]:
    """What was asked for with If-None-Match."""
    return {'/' + r.url.split('://', 1)[1].partition('/')[2] for r in bmc.requests if 'If-None-Match' in r.headers}


def test_only_what_holds_no_lock_version_or_state_may_be_left_unsent(card: Any, reply: Callable[..., Any]) -> None:
    """Many resources of one real BMC share one ETag: a lock is read anew, whatever its ETag says."""
    with card.connect() as connection:
        first = connection.look(NOW)
        card.seen.clear()
        card.requests.clear()
        card.replies['GET', FUNCTION] = reply(304)
        second = connection.look(NOW)
    assert first.accelerators == second.accelerators
    asked = conditional(card)
    assert FUNCTION in asked
    assert ITEM not in asked
    assert all('Members' in card.tree[uri] for uri in asked - {FUNCTION})


def test_a_version_that_changed_is_seen_although_its_etag_did_not(card: Any) -> None:
    """Over one connection, and over another one."""
    with card.connect() as connection:
        connection.look(NOW)
        card.tree[ITEM]['Version'] = '2'
        (gpu,) = connection.look(NOW).accelerators
    assert ['2'] == [c.version for c in gpu.firmware]


def test_nothing_is_left_unsent_over_a_new_connection(card: Any) -> None:
    """Evidence is read over a fresh session, and whole."""
    card.look()
    card.requests.clear()
    card.look()
    assert set() == conditional(card)


def test_an_unasked_not_modified_is_no_answer(card: Any, reply: Callable[..., Any]) -> None:
    """There is nothing that it could stand for."""
    card.replies['GET', ITEM] = reply(304)
    with card.connect() as connection, pytest.raises(BmcAnswerInvalid, match='HTTP 304'):
        connection.writer().fresh(ITEM)


def test_a_second_look_asks_for_the_same_and_for_nothing_twice(card: Any) -> None:
    """All of it at once, since it is known what is needed; what is gone by then is no gap of its own."""
    driver = card.driver()
    counts = []
    for _ in range(3):
        card.seen.clear()
        with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
            connection.look(NOW)
        counts.append(Counter(card.seen))
    assert counts[0] == counts[1] == counts[2]
    assert {1} == set(counts[1].values())


def test_what_is_gone_since_is_neither_a_device_nor_a_gap(card: Any) -> None:
    """It was asked for because it was needed last time; nothing leads there now."""
    driver = card.driver()
    with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
        assert 1 == len(connection.look(NOW).accelerators)
    for uri in [u for u in card.tree if u.startswith(f'{DEVICES}/GPU')]:
        del card.tree[uri]
    card.tree[DEVICES]['Members'] = []
    card.tree['/redfish/v1/UpdateService/FirmwareInventory']['Members'] = []
    with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
        look = connection.look(NOW)
    assert ((), ()) == (look.accelerators, look.gaps)


def test_what_is_new_since_is_found(card: Any) -> None:
    """What was needed last time is where the walk begins, not where it ends."""
    driver = card.driver()
    with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
        connection.look(NOW)
    card.collection(DEVICES, 'GPU', 'GPU2')
    card.put(f'{DEVICES}/GPU2', Model='NVIDIA H100', SerialNumber='8')
    with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
        assert ['7', '8'] == sorted(str(a.serial) for a in connection.look(NOW).accelerators)


def test_a_bmc_that_pushes_back_is_asked_less_at_a_time_from_then_on(card: Any, reply: Callable[..., Any]) -> None:
    """Also in the next look of this process."""
    driver = card.driver()
    card.replies['GET', ITEM] = [reply(503)]
    with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
        connection.look(NOW)
    with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
        assert 2 == connection._habits.pace.limit


def test_what_locks_needed_is_asked_for_with_the_rest(card: Any) -> None:
    """A lock may lie in resources of its own, which only its mechanism knows."""
    bios = '/redfish/v1/Systems/1/Bios'
    card.put(bios, Attributes={})
    with card.connect() as connection:
        connection.look(NOW).reader.get(bios)
        card.seen.clear()
        connection.look(NOW)
    assert 1 == card.count('GET', bios)


def test_a_stopped_connection_reads_nothing_and_logs_out(card: Any, reply: Callable[..., Any]) -> None:
    """Ctrl-C during a fleet leaves no sessions on the BMCs."""
    place = '/redfish/v1/SessionService/Sessions'
    card.replies['POST', place] = reply(201, {}, X_Auth_Token='t', Location=f'{place}/1')
    with card.connect(username='admin', password='p') as connection:
        connection.stop()
        before = card.count('GET')
        with pytest.raises(BmcUnreachable, match='stopped'):
            connection.look(NOW)
        assert before == card.count('GET')
    assert ('DELETE', f'{place}/1') == card.seen[-1]


@pytest.mark.parametrize('place', ['/redfish/v1/Chassis', DEVICES, ITEM.rpartition('/')[0]])
@pytest.mark.parametrize('members', [None, 'x', [{'@odata.id': f'{DEVICES}/{n}'} for n in range(2001)]])
def test_what_is_no_collection_any_more_hides_devices(card: Any, place: str, members: Any) -> None:
    """It is read ahead like any other resource; that it tells no members must not pass for there being none."""
    driver = card.driver()
    with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
        connection.look(NOW)
        card.tree[place] = {name: value for name, value in card.tree[place].items() if name != 'Members'}
        if members is not None:
            card.tree[place]['Members'] = members
        look = connection.look(NOW)
    assert [place] == [g.ref.uri for g in look.gaps if g.hides]


def test_what_nobody_wants_any_more_is_forgotten(card: Any) -> None:
    """It answers still, and nothing leads there: the look after the next one does not ask for it."""
    driver = card.driver()
    asked = []
    for _ in range(3):
        with driver.connect(BmcAddress(name=HOST, address=ADDRESS)) as connection:
            connection.look(NOW)
        asked.append(card.count('GET', f'{DEVICES}/GPU'))
        card.tree[DEVICES]['Members'] = []
        card.tree[ITEM]['RelatedItem'] = []
    assert [1, 2, 2] == asked


ADAPTERS = '/redfish/v1/Chassis/1/NetworkAdapters'
INTERFACES = '/redfish/v1/Systems/1/NetworkInterfaces'


@pytest.fixture
def dpu(card: Any) -> Any:
    """A DPU beside the GPU, and the interface that says which System uses it."""
    card.tree['/redfish/v1/Chassis/1']['NetworkAdapters'] = {'@odata.id': ADAPTERS}
    card.collection(ADAPTERS, 'A')
    card.put(f'{ADAPTERS}/A', Model='BlueField-3', SerialNumber='9')
    card.tree['/redfish/v1/Systems/1']['NetworkInterfaces'] = {'@odata.id': INTERFACES}
    card.collection(INTERFACES, 'A')
    card.put(f'{INTERFACES}/A', Links={'NetworkAdapter': {'@odata.id': f'{ADAPTERS}/A'}})
    for uri, kind in {
        '/redfish/v1/Systems/1': 'ComputerSystem.v1_20_0.ComputerSystem',
        f'{ADAPTERS}/A': 'NetworkAdapter.v1_11_0.NetworkAdapter',
        INTERFACES: 'NetworkInterfaceCollection.NetworkInterfaceCollection',
        f'{INTERFACES}/A': 'NetworkInterface.v1_2_0.NetworkInterface',
    }.items():
        card.tree[uri]['@odata.type'] = f'#{kind}'
    return card


def uris(look: Any) -> set[str]:
    """All resources of the DPU."""
    return {ref.uri for a in look.accelerators if a.serial == '9' for ref in a.refs}


def test_which_system_uses_an_adapter_is_asked_once_while_the_adapters_stay(dpu: Any) -> None:
    """It is neither lock nor version, function or identity. Looks after the second do not ask either."""
    with dpu.connect() as connection:
        first = connection.look(NOW)
        asked = dpu.count('GET', INTERFACES)
        later = [connection.look(NOW) for _ in range(3)]
    assert f'{INTERFACES}/A' in uris(first)
    assert [uris(first)] * 3 == [uris(look) for look in later]
    assert 1 == asked == dpu.count('GET', INTERFACES)


def test_it_is_asked_again_over_a_new_connection(dpu: Any) -> None:
    """Nothing of what a BMC said outlives the connection."""
    for _ in range(2):
        assert f'{INTERFACES}/A' in uris(dpu.look())
    assert 2 == dpu.count('GET', INTERFACES)


@pytest.mark.parametrize('change', ['swapped', 'more', 'gone'])
def test_it_is_asked_again_when_the_adapters_changed(dpu: Any, change: str) -> None:
    """Another card in the same slot may be another System's."""
    with dpu.connect() as connection:
        connection.look(NOW)
        if change == 'swapped':
            dpu.tree[f'{ADAPTERS}/A']['SerialNumber'] = '10'
        elif change == 'more':
            dpu.collection(ADAPTERS, 'A', 'B')
            dpu.put(f'{ADAPTERS}/B', Model='BlueField-3', SerialNumber='11')
        else:
            dpu.collection(ADAPTERS)
        connection.look(NOW)
    assert 2 == dpu.count('GET', INTERFACES)


def test_an_adapter_that_nothing_else_leads_to_is_found_by_the_interface(bmc: Any) -> None:
    """Also where a machine shows nothing else at all that would have to be read for its links."""
    bmc.tree['/redfish/v1/Systems/1']['NetworkInterfaces'] = {'@odata.id': INTERFACES}
    bmc.collection(INTERFACES, 'A')
    bmc.put(f'{INTERFACES}/A', Links={'NetworkAdapter': {'@odata.id': '/redfish/v1/Chassis/2/NetworkAdapters/A'}})
    bmc.put('/redfish/v1/Chassis/2/NetworkAdapters/A', Model='BlueField-3', SerialNumber='9')
    assert '/redfish/v1/Chassis/2/NetworkAdapters/A' in uris(bmc.look())

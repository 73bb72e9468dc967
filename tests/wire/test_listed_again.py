# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A PCIeDevice that a System lists and a Chassis too is read once, where the BMC says that it is one, and has both URIs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.wire.recorded import bodies, observe

ABOVE = '/redfish/v1/Systems/1/PCIeDevices'
BELOW = '/redfish/v1/Chassis/1/PCIeDevices'
IDS = {'VendorId': '0x10de', 'DeviceId': '0x2331', 'ClassCode': '0x030200'}


def _list(bmc: Any, top: str, name: str, functions_of: str, **body: Any) -> None:
    """A device with a collection of one function, which links to the function below another URI of it."""
    links = {'PCIeFunctions': [{'@odata.id': f'{functions_of}/{name}/PCIeFunctions/0'}]}
    bmc.put(f'{top}/{name}', Links=links, PCIeFunctions={'@odata.id': f'{top}/{name}/PCIeFunctions'}, **body)
    bmc.collection(f'{top}/{name}/PCIeFunctions', '0')
    bmc.put(f'{top}/{name}/PCIeFunctions/0', **IDS)


@pytest.fixture
def twice(bmc: Any) -> Any:
    """A card and a bridge, listed by the System one by one, and by the Chassis in a collection."""
    bmc.tree['/redfish/v1/Systems/1']['PCIeDevices'] = [{'@odata.id': f'{ABOVE}/{n}'} for n in ('23-0', '0-1')]
    bmc.collection('/redfish/v1/Chassis', '1')
    bmc.put('/redfish/v1/Chassis/1', ChassisType='RackMount', PCIeDevices={'@odata.id': BELOW})
    bmc.collection(BELOW, '23-0', '0-1')
    for top in (ABOVE, BELOW):
        for name in ('23-0', '0-1'):
            _list(bmc, top, name, ABOVE, SerialNumber='S1' if name == '23-0' else None)
        bmc.tree[f'{top}/0-1/PCIeFunctions/0'] |= {'VendorId': '0x8086', 'DeviceId': '0x1', 'ClassCode': '0x060400'}
    return bmc


def _asked_above(bmc: Any) -> list[str]:
    return sorted(uri for _, uri in bmc.seen if uri.startswith(ABOVE))


def _uris(bmc: Any) -> list[list[str]]:
    return [[ref.uri for ref in a.refs] for a in observe(bmc)]


def test_a_device_that_is_listed_twice_is_read_once_and_has_both_uris(twice: Any) -> None:
    """Below the System's URI nothing is read but the functions of what may be an accelerator."""
    functions = [f'{top}/23-0/PCIeFunctions/0' for top in (BELOW, ABOVE)]
    assert [sorted([f'{BELOW}/23-0', f'{ABOVE}/23-0', *functions])] == _uris(twice)
    assert [f'{ABOVE}/23-0/PCIeFunctions/0'] == _asked_above(twice)


def test_firmware_that_names_the_other_uri_is_the_devices(twice: Any) -> None:
    """RelatedItem leads to what was not read."""
    items = '/redfish/v1/UpdateService/FirmwareInventory'
    twice.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    twice.put('/redfish/v1/UpdateService', FirmwareInventory={'@odata.id': items})
    twice.collection(items, 'A')
    twice.put(f'{items}/A', Version='7', RelatedItem=[{'@odata.id': f'{ABOVE}/23-0'}])
    assert [['7']] == [[c.version for c in a.firmware] for a in observe(twice)]


def test_what_the_system_alone_lists_is_read(twice: Any) -> None:
    """A third device, of which the Chassis says nothing."""
    twice.tree['/redfish/v1/Systems/1']['PCIeDevices'].append({'@odata.id': f'{ABOVE}/9'})
    _list(twice, ABOVE, '9', ABOVE, SerialNumber='S9')
    assert {'S1', 'S9'} == {a.serial for a in observe(twice)}


@pytest.mark.parametrize('functions_of', [BELOW, '/redfish/v1/Systems/2/PCIeDevices', None])
def test_what_no_link_of_the_chassis_says_to_be_one_is_read(twice: Any, functions_of: str | None) -> None:
    """The same Id alone says nothing: two machines have a device 23-0 each."""
    links = {'PCIeFunctions': [{'@odata.id': f'{functions_of}/23-0/PCIeFunctions/0'}]} if functions_of else {}
    twice.tree[f'{BELOW}/23-0']['Links'] = links
    observe(twice)
    assert 1 == twice.count('GET', f'{ABOVE}/23-0')


def test_what_two_devices_claim_is_read(twice: Any) -> None:
    """Two Chassis show a 23-0 whose function lies below the System's: nobody can tell which is which."""
    other = '/redfish/v1/Chassis/2/PCIeDevices'
    twice.collection('/redfish/v1/Chassis', '1', '2')
    twice.put('/redfish/v1/Chassis/2', ChassisType='RackMount', PCIeDevices={'@odata.id': other})
    twice.collection(other, '23-0')
    _list(twice, other, '23-0', ABOVE)
    observe(twice)
    assert 1 == twice.count('GET', f'{ABOVE}/23-0')


@pytest.mark.parametrize('broken', [BELOW, f'{BELOW}/23-0', '/redfish/v1/Chassis/1', '/redfish/v1/Chassis'])
def test_what_the_chassis_cannot_show_is_read_at_the_system(twice: Any, reply: Callable[..., Any], broken: str) -> None:
    """No device goes unseen because the one that it is said to be could not be read."""
    twice.replies['GET', broken] = reply(500)
    assert ['S1'] == [a.serial for a in observe(twice)]
    assert 1 == twice.count('GET', f'{ABOVE}/23-0')


@pytest.mark.usefixtures('steady')
@pytest.mark.parametrize(('expand', 'most'), [(True, 29), (False, 104)])
def test_a_recorded_machine_that_lists_all_twice_costs_fewer_requests(bmc: Any, shared: Path, expand: bool, most: int) -> None:
    """57 with $expand and 132 without, as long as each was read twice. Two are for the functions of its accelerators."""
    bmc.tree = bodies(shared / 'recordings' / 'dell' / 'r750-h100-bluefield2', expand=expand)
    observe(bmc)
    assert most == len(bmc.seen)

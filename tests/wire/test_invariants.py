# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that contradicts itself about what exists hides a device, by whichever of its words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.bmc.redfish.invariants import INVARIANTS
from tests.wire.recorded import bodies, inventory_of

ROOT = '/redfish/v1'
BASEBOARD = f'{ROOT}/Systems/HGX_Baseboard_0'

Tree = dict[str, dict[str, Any]]


def fewer_members(tree: Tree) -> str:
    """A collection loses a member, and goes on counting it."""
    uri = f'{BASEBOARD}/Processors'
    tree[uri]['Members'] = [m for m in tree[uri]['Members'] if 'GPU_1' not in m['@odata.id']]
    return uri


def fewer_links(tree: Tree) -> str:
    """An array has fewer links than are counted next to it."""
    uri = f'{ROOT}/Systems/System_0'
    tree[uri]['PCIeDevices'] = tree[uri].get('PCIeDevices') if isinstance(tree[uri].get('PCIeDevices'), list) else []
    tree[uri]['PCIeDevices@odata.count'] = len(tree[uri]['PCIeDevices']) + 1
    return uri


def fewer_processors(tree: Tree) -> str:
    """A System counts more processors than it lists."""
    uri = f'{ROOT}/Systems/System_0'
    tree[uri]['ProcessorSummary'] = {'Count': 99}
    return uri


def without_a_type(tree: Tree) -> str:
    """A GPU says no longer what it is."""
    uri = f'{BASEBOARD}/Processors/GPU_1'
    tree[uri] = {'@odata.id': uri, 'Id': 'GPU_1', 'Name': 'Processor'}
    return uri


def without_a_numbered_device(tree: Tree) -> str:
    """A GPU is gone from all lists, and its firmware is not."""
    for uri in [uri for uri in tree if 'GPU_1' in uri and 'FirmwareInventory' not in uri and 'ERoT' not in uri]:
        del tree[uri]
    for body in tree.values():
        if isinstance(body.get('Members'), list) and 'FirmwareInventory' not in body['@odata.id']:
            gone = [m for m in body['Members'] if 'GPU_1' in m['@odata.id'] and 'ERoT' not in m['@odata.id']]
            body['Members'] = [m for m in body['Members'] if m not in gone]
            body['Members@odata.count'] = len(body['Members'])
        body.pop('RelatedItem', None)
    return f'{ROOT}/UpdateService/FirmwareInventory/HGX_FW_GPU_0'


def of_nobody(tree: Tree) -> str:
    """An item has the name of an FPGA, and there is none."""
    items = f'{ROOT}/UpdateService/FirmwareInventory'
    tree[items]['Members'].append({'@odata.id': f'{items}/Own'})
    tree[items]['Members@odata.count'] += 1
    tree[f'{items}/Own'] = {'@odata.id': f'{items}/Own', 'Id': 'Own', 'Name': 'Xilinx Alveo U250', 'Version': '1'}
    return f'{items}/Own'


def of_a_root_alone(tree: Tree) -> str:
    """A root of trust has the name of a GPU that is nowhere."""
    uri = f'{ROOT}/Chassis/HGX_ERoT_GPU_9'
    tree[f'{ROOT}/Chassis']['Members'].append({'@odata.id': uri})
    tree[f'{ROOT}/Chassis']['Members@odata.count'] += 1
    tree[uri] = {'@odata.id': uri, 'Id': 'HGX_ERoT_GPU_9', 'Name': 'ERoT', 'ChassisType': 'Component'}
    return uri


def of_modules(tree: Tree) -> str:
    """More chassis are GPUs than GPUs are there."""
    for n in range(3):
        uri = f'{ROOT}/Chassis/Card{n}'
        tree[f'{ROOT}/Chassis']['Members'].append({'@odata.id': uri})
        tree[f'{ROOT}/Chassis']['Members@odata.count'] += 1
        tree[uri] = {'@odata.id': uri, 'Id': f'Card{n}', 'Name': f'Card{n}', 'ChassisType': 'Card', 'Model': 'NVIDIA H100 PCIe'}
    return f'{ROOT}/Chassis/Card0'


def as_another(tree: Tree) -> str:
    """A GPU gives itself the URI of the other one."""
    uri = f'{BASEBOARD}/Processors'
    tree[f'{uri}/GPU_1']['@odata.id'] = f'{uri}/GPU_0'
    return uri


def without_its_image(tree: Tree) -> str:
    """A System says which image it runs, and no such item is there."""
    uri = f'{ROOT}/Systems/System_0'
    link = {'@odata.id': f'{ROOT}/UpdateService/FirmwareInventory/Gone'}
    tree[uri]['Links'] = tree[uri].get('Links', {}) | {'SoftwareImages': [link]}
    return uri


def absent_and_there(tree: Tree) -> str:
    """A processor is absent, and an extension of the maker shows a device of its number."""
    place, uri = f'{ROOT}/Chassis/HGX_BMC_0/Devices', f'{BASEBOARD}/Processors/GPU_1'
    tree[uri] |= {'SerialNumber': 'S7', 'Status': {'State': 'Absent'}}
    tree[ROOT] |= {'Vendor': 'HPE', 'Oem': {'Hpe': {}}}
    chassis = tree[f'{ROOT}/Chassis/HGX_BMC_0']
    chassis['Oem'] = {'Hpe': {'Links': {'Devices': {'@odata.id': place}}}}
    tree[place] = {'@odata.id': place, 'Name': 'Devices', 'Members': [{'@odata.id': f'{place}/1'}]}
    tree[f'{place}/1'] = {'@odata.id': f'{place}/1', 'Id': '1', 'Name': 'GPU', 'SerialNumber': 'S7'}
    return uri


def put_in_as_another(tree: Tree) -> str:
    """A list has its members with their contents, and one of them says that it is another one, which is there, too."""
    uri = f'{ROOT}/UpdateService/FirmwareInventory'
    links = [member['@odata.id'] for member in tree[uri]['Members']]
    tree[uri]['Members'] = [dict(tree[link]) for link in links]
    other = next(link for link in links if link != links[0])
    tree[uri]['Members'][0]['@odata.id'] = other
    return uri


CASES: dict[str, Callable[[Tree], str]] = {
    'themselves': as_another,
    'put in twice': put_in_as_another,
    'images': without_its_image,
    'absent': absent_and_there,
    'members': fewer_members,
    'arrays': fewer_links,
    'processors': fewer_processors,
    'untyped': without_a_type,
    'numbered': without_a_numbered_device,
    'unowned': of_nobody,
    'roots': of_a_root_alone,
    'modules': of_modules,
}


@pytest.mark.parametrize('name', [i.name for i in INVARIANTS])
def test_a_contradiction_hides(name: str, bmc: Any, recording: Callable[[str], Any]) -> None:
    """Each row of the table by itself, on a machine that does not contradict itself otherwise."""
    bmc = recording('nvidia/gh200')
    bmc.tree = {uri: json.loads(text) for uri, text in bmc.tree.items()}
    uri = CASES[name](bmc.tree)
    assert uri in {gap.ref.uri for gap in inventory_of(bmc).gaps if gap.hides}


def test_the_same_member_twice_is_one(bmc: Any, recording: Callable[[str], Any]) -> None:
    """Real BMCs list and put in firmware items twice."""
    bmc = recording('nvidia/gh200')
    bmc.tree = {uri: json.loads(text) for uri, text in bmc.tree.items()}
    before = hidden(bmc)
    uri = f'{ROOT}/UpdateService/FirmwareInventory'
    listed = [dict(bmc.tree[member['@odata.id']]) for member in bmc.tree[uri]['Members']]
    bmc.tree[uri]['Members'] = [*listed, listed[0] | {'@odata.etag': '"2"'}]
    assert before == hidden(bmc)


@pytest.mark.parametrize('below', ['Reports', 'FirmwareInventory'])
def test_a_list_that_is_another_one_hides_what_was_to_be_in_it(below: str, bmc: Any, recording: Callable[[str], Any]) -> None:
    """It gives itself another URI, which nobody reads, and all its members lie there; a wrong URI alone hides nothing."""
    bmc = recording('nvidia/gh200')
    bmc.tree = {uri: json.loads(text) for uri, text in bmc.tree.items()}
    service = f'{ROOT}/UpdateService'
    items = bmc.tree[f'{service}/FirmwareInventory']
    items['@odata.id'] = f'{service}/Reports'
    if below == 'Reports':
        report = f'{service}/Reports/1'
        items |= {'Members': [{'@odata.id': report}], 'Members@odata.count': 1}
        bmc.tree[report] = {'@odata.id': report, 'Id': '1', 'Name': 'Report'}
    assert (below == 'Reports') == (service in hidden(bmc))


def test_the_docs_show_the_whole_table(tree: Path) -> None:
    """Word by word as it stands in the code."""
    page = (tree / 'doc' / 'source' / 'reference' / 'inventory.rst').read_text()
    for invariant in INVARIANTS:
        assert f'   * - {invariant.says}\n     - {invariant.other}\n' in page


def hidden(bmc: Any) -> set[str]:
    """Where something may be that is not seen."""
    return {gap.ref.uri for gap in inventory_of(bmc).gaps if gap.hides}


@pytest.mark.parametrize(
    ('at', 'name', 'to'),
    [
        (ROOT, 'Systems', f'{ROOT}/Chassis'),
        (ROOT, 'UpdateService', f'{ROOT}/TaskService'),
        (f'{BASEBOARD}', 'Processors', f'{ROOT}/Chassis'),
    ],
)
def test_a_link_that_leads_to_another_kind_hides(
    at: str, name: str, to: str, bmc: Any, recording: Callable[[str], Any]
) -> None:
    """What was to be there is nowhere, and nothing of another kind is taken for it."""
    bmc = recording('nvidia/gh200')
    bmc.tree = {uri: json.loads(text) for uri, text in bmc.tree.items()}
    bmc.tree.setdefault(to, {'@odata.id': to, '@odata.type': '#TaskService.v1_0_0.TaskService', 'Id': 'T', 'Name': 'T'})
    bmc.tree[at][name] = {'@odata.id': to}
    assert to in hidden(bmc)


def test_a_list_is_no_update_service_whatever_it_calls_itself(bmc: Any, recording: Callable[[str], Any]) -> None:
    """Its kind is one that nobody knows, and no firmware was seen."""
    bmc = recording('nvidia/gh200')
    bmc.tree = {uri: json.loads(text) for uri, text in bmc.tree.items()}
    bmc.tree[f'{ROOT}/Chassis']['@odata.type'] = '#Collection.Collection'
    assert f'{ROOT}/Chassis' not in hidden(bmc)
    bmc.tree[ROOT]['UpdateService'] = {'@odata.id': f'{ROOT}/Chassis'}
    assert f'{ROOT}/Chassis' in hidden(bmc)


@pytest.mark.parametrize(('at', 'name'), [(ROOT, 'UpdateService'), (f'{ROOT}/UpdateService', 'FirmwareInventory')])
def test_firmware_that_is_not_linked_is_looked_for_where_it_is_usual(
    at: str, name: str, bmc: Any, recording: Callable[[str], Any]
) -> None:
    """It is found there; where nothing is, there is none, and nothing hides."""
    bmc = recording('nvidia/gh200')
    bmc.tree = {uri: json.loads(text) for uri, text in bmc.tree.items()}
    whole = inventory_of(bmc)
    del bmc.tree[at][name]
    assert [a.firmware for a in whole.accelerators] == [a.firmware for a in inventory_of(bmc).accelerators]
    bmc.tree = {uri: body for uri, body in bmc.tree.items() if '/UpdateService/' not in uri and '/Bios' not in uri}
    if at == ROOT:
        del bmc.tree[f'{ROOT}/UpdateService']
    assert f'{ROOT}/UpdateService' not in hidden(bmc)
    assert f'{ROOT}/UpdateService/FirmwareInventory' not in hidden(bmc)


def test_a_system_that_no_list_has_is_read_where_its_chassis_says_it(bmc: Any, recording: Callable[[str], Any]) -> None:
    """A BMC that counts one System less hides none of its devices."""
    bmc = recording('dmtf/rackmount')
    bmc.tree = {uri: json.loads(text) for uri, text in bmc.tree.items()}
    bmc.tree[f'{ROOT}/Systems'] |= {'Members': [], 'Members@odata.count': 0}
    assert 1 == len(inventory_of(bmc).accelerators)


@pytest.mark.parametrize('lost', ['', '/7'])
def test_what_is_only_in_an_oem_list_is_hidden_where_the_list_cannot_be_read(bmc: Any, shared: Path, lost: str) -> None:
    """The list of an iLO 5, or one card in it, is not there any more: with it the card would be gone without a word."""
    bmc.tree = {u: json.loads(t) for u, t in bodies(shared / 'cases' / 'trees' / 'hpe-ilo5-gpu-in-oem-only').items()}
    uri = f'{ROOT}/Chassis/1/Devices{lost}'
    assert uri not in hidden(bmc)
    before = len(inventory_of(bmc).accelerators)
    del bmc.tree[uri]
    assert len(inventory_of(bmc).accelerators) < before
    assert uri in hidden(bmc)


def test_one_pci_function_of_two_cards_hides_one(bmc: Any, shared: Path) -> None:
    """A vendor's extension says of two cards that they are one."""
    bmc.tree = {u: json.loads(t) for u, t in bodies(shared / 'cases' / 'trees' / 'hpe-ilo5-gpu-in-oem-only').items()}
    one, other = f'{ROOT}/Chassis/1/Devices/7', f'{ROOT}/Chassis/1/Devices/8'
    bmc.tree[other]['DeviceInstances'] = bmc.tree[one]['DeviceInstances']
    assert other in hidden(bmc)


def test_a_card_in_two_lists_of_which_one_shows_no_functions_is_one_by_its_links(bmc: Any, shared: Path) -> None:
    """The functions that the one of the chassis links are those of the other, whatever the collection of that one says."""
    bmc.tree = {u: json.loads(t) for u, t in bodies(shared / 'cases' / 'trees' / 'cisco-card-in-two-lists').items()}
    again = f'{ROOT}/Systems/SN1/PCIeDevices/3'
    before = [a.id for a in inventory_of(bmc).accelerators]
    bmc.tree[f'{again}/PCIeFunctions'] |= {'Members': [], 'Members@odata.count': 0}
    assert before == [a.id for a in inventory_of(bmc).accelerators]
    assert again not in hidden(bmc)


def test_an_empty_socket_makes_a_machine(bmc: Any, shared: Path) -> None:
    """A System whose CPU is absent is no baseboard of another one: its GPU is not that one's."""
    bmc.tree = {u: json.loads(t) for u, t in bodies(shared / 'cases' / 'trees' / 'two-nodes-one-bmc-with-locks').items()}
    cpu = f'{ROOT}/Systems/Node1/Processors/CPU0'
    bmc.tree[cpu] = bmc.tree[cpu] | {'Status': {'State': 'Absent'}}
    seen = inventory_of(bmc, system='Node0')
    assert not [a for a in seen.accelerators if 'Node1' in a.primary.uri]
    place = f'{ROOT}/Systems/Node1/Processors'
    bmc.tree[place]['Members'] = [m for m in bmc.tree[place]['Members'] if m['@odata.id'] != cpu]
    bmc.tree[place]['Members@odata.count'] = len(bmc.tree[place]['Members'])
    seen = inventory_of(bmc, system='Node0')
    assert not [a for a in seen.accelerators if 'Node1' in a.primary.uri], 'it is called as the other one, but for its number'
    assert not any('treated as a part of another machine' in gap.reason for gap in seen.gaps)


def test_a_system_without_a_cpu_and_of_another_name_is_a_part(bmc: Any, shared: Path) -> None:
    """As a baseboard that can be reset. That it was taken for one is told."""
    texts = bodies(shared / 'cases' / 'trees' / 'two-nodes-one-bmc-with-locks')
    old, new = '/Systems/Node1', '/Systems/Baseboard_1'
    bmc.tree = {u.replace(old, new): json.loads(t.replace(old, new)) for u, t in texts.items()}
    place = f'{ROOT}/Systems/Baseboard_1/Processors'
    bmc.tree[place]['Members'] = [m for m in bmc.tree[place]['Members'] if 'CPU' not in m['@odata.id']]
    bmc.tree[place]['Members@odata.count'] = len(bmc.tree[place]['Members'])
    seen = inventory_of(bmc, system='Node0')
    assert any('treated as a part of another machine' in gap.reason for gap in seen.gaps)

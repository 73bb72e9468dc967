# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One card is one card, however many lists show it; what is none is none; and what only a vendor's extension shows is there."""

import json
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.model.accelerator import Kind
from tests.wire.recorded import bodies, inventory_of

ROOT = '/redfish/v1'

Tree = dict[str, Any]


def tree_of(shared: Path, name: str) -> Tree:
    """A case, to be changed."""
    return {uri: json.loads(text) for uri, text in bodies(shared / 'cases' / 'trees' / name).items()}


def listed(tree: Tree, collection: str, name: str, body: dict[str, Any]) -> None:
    """One more member of a collection."""
    uri = f'{collection}/{name}'
    tree[collection]['Members'].append({'@odata.id': uri})
    tree[collection]['Members@odata.count'] = len(tree[collection]['Members'])
    tree[uri] = {'@odata.id': uri, 'Id': name, 'Name': name} | body


def moved(tree: Tree, old: str, new: str) -> Tree:
    """Resources of a path again at another one, links within them included."""
    return {u.replace(old, new): json.loads(json.dumps(b).replace(old, new)) for u, b in tree.items() if u.startswith(old)}


CARD = f'{ROOT}/Chassis/1/PCIeDevices/3'
AGAIN = f'{ROOT}/Systems/SN1/PCIeDevices/3'


@pytest.mark.parametrize(
    ('where', 'what'),
    [
        (AGAIN, {'SerialNumber': 'A'}),
        (f'{AGAIN}/PCIeFunctions/0', {'SubsystemId': '0x1234'}),
        (f'{AGAIN}/PCIeFunctions/0', {'SubsystemId': None}),
        (f'{AGAIN}/PCIeFunctions/0', {'BusNumber': 64, 'DeviceNumber': 0, 'FunctionNumber': 0}),
    ],
    ids=['serial', 'other-ids', 'ids-missing', 'address'],
)
def test_two_lists_are_one_card_only_where_nothing_speaks_against_it(
    where: str, what: dict[str, Any], bmc: Any, shared: Path
) -> None:
    """Evidence that contradicts itself, or is not whole, leaves two."""
    bmc.tree = tree_of(shared, 'cisco-card-in-two-lists')
    assert 1 == len(inventory_of(bmc).accelerators)
    bmc.tree[where] |= what
    if where != AGAIN or 'SerialNumber' in what:
        bmc.tree[CARD] |= {'SerialNumber': 'B'}
    if 'BusNumber' in what:
        bmc.tree[f'{CARD}/PCIeFunctions/0'] |= {'BusNumber': 65, 'DeviceNumber': 0, 'FunctionNumber': 0}
    assert 1 + (where == AGAIN or 'BusNumber' in what or 'SubsystemId' in what) == len(inventory_of(bmc).accelerators)


def test_a_card_that_two_chassis_and_a_system_list_is_nobodys_guess(bmc: Any, shared: Path) -> None:
    """Which of the two the System means cannot be told: three stay, with a gap that hides."""
    bmc.tree = tree_of(shared, 'cisco-card-in-two-lists')
    bmc.tree |= moved(bmc.tree, f'{ROOT}/Chassis/1', f'{ROOT}/Chassis/2')
    bmc.tree[f'{ROOT}/Chassis']['Members'].append({'@odata.id': f'{ROOT}/Chassis/2'})
    seen = inventory_of(bmc)
    assert (3, 1) == (len(seen.accelerators), sum('may be the same card' in gap.reason for gap in seen.gaps if gap.hides))


def test_the_host_into_which_a_card_is_plugged_is_no_card(bmc: Any, shared: Path) -> None:
    """Its System may be linked from the card's chassis, too; its number, or where it lies, says that it is another thing."""
    tree = tree_of(shared, 'bluefield-system-without-model')
    host = f'{ROOT}/Systems/Host'
    listed(tree, f'{ROOT}/Systems', 'Host', {'SystemType': 'Physical', 'SerialNumber': 'HOST1', 'Links': {'Chassis': []}})
    tree[f'{ROOT}/Chassis/Card1']['Links']['ComputerSystems'].append({'@odata.id': host})
    bmc.tree = tree
    for serial in ('HOST1', ''):
        tree[host]['SerialNumber'] = serial
        (card,) = inventory_of(bmc).accelerators
        assert (Kind.DPU, False) == (card.kind, host in {ref.uri for ref in card.refs})


@pytest.mark.parametrize('kept', ['Contains', 'ContainedBy'])
def test_a_chassis_that_only_says_itself_that_a_card_contains_it_is_the_card(kept: str, bmc: Any, shared: Path) -> None:
    """Its firmware is the card's. Either end of the link counts."""
    bmc.tree = tree_of(shared, 'bluefield-system-without-model')
    (whole,) = inventory_of(bmc).accelerators
    for uri, body in bmc.tree.items():
        if uri.startswith(f'{ROOT}/Chassis/'):
            body['Links'] = {name: to for name, to in body['Links'].items() if name not in {'Contains', 'ContainedBy'} - {kept}}
    (card,) = inventory_of(bmc).accelerators
    assert (whole.refs, whole.firmware, whole.merged_by) == (card.refs, card.firmware, card.merged_by)
    assert 'BMC_Firmware' in {c.id for c in card.firmware}


DEVICES = f'{ROOT}/Chassis/1/Devices'


@pytest.mark.parametrize(
    ('body', 'devices', 'hides'),
    [
        ({'Name': 'NVSwitch', 'DeviceType': 'GPU', 'Location': 'Embedded'}, 2, False),
        ({'Name': 'GPU Baseboard', 'DeviceType': 'GPU', 'Location': 'Embedded'}, 2, False),
        ({'Name': 'Eight GPUs', 'DeviceType': 'GPU', 'Location': 'GPU Baseboard'}, 2, False),
        ({'Name': 'Eight GPUs', 'DeviceType': 'GPU', 'Location': {'Info': 'Baseboard'}}, 2, True),
        ({'Name': 'Something', 'DeviceType': 'GPU', 'Location': 'PCI-E Slot 5'}, 2, True),
        ({'Name': 'Something', 'DeviceType': 'NIC', 'Location': 'PCI-E Slot 5'}, 2, False),
        ({'Name': 'NVIDIA A40', 'DeviceType': 'GPU', 'Location': 'PCI-E Slot 5', 'SerialNumber': 'X'}, 3, False),
        ({'Name': 'NVIDIA A40', 'DeviceType': 'Unknown', 'Location': 'PCI-E Slot 5', 'SerialNumber': 'X'}, 3, False),
        ({'Name': 'NVIDIA A40', 'DeviceType': 'GPU', 'Status': {'State': 'Absent'}}, 2, False),
    ],
    ids=[
        'switch',
        'baseboard',
        'on-the-baseboard',
        'a-place-that-is-no-text',
        'unknown',
        'nic',
        'known',
        'known-by-name',
        'absent',
    ],
)
def test_what_an_extension_calls_a_gpu_is_what_else_it_says(
    body: dict[str, Any], devices: int, hides: bool, bmc: Any, shared: Path
) -> None:
    """The type alone says nothing; a model or PCI ids that are known do."""
    bmc.tree = tree_of(shared, 'hpe-ilo5-gpu-in-oem-only')
    listed(bmc.tree, DEVICES, '99', body)
    seen = inventory_of(bmc)
    assert (devices, hides) == (len(seen.accelerators), any(g.hides for g in seen.gaps if g.ref.uri == f'{DEVICES}/99'))


@pytest.mark.parametrize(
    ('one', 'other', 'hides'),
    [
        ('Two ports QL41232HLCU', 'MCX512A-ACAT', False),
        ('Two ports QL41232HLCU', 'Some adapter', True),
        ('Some adapter', 'MCX512A-ACAT', True),
        ('NVIDIA A40', 'MCX512A-ACAT', True),
    ],
    ids=['both-known-for-none', 'one-unknown', 'the-other-unknown', 'an-accelerator'],
)
def test_a_function_of_two_extensions_hides_where_one_may_be_an_accelerator(
    one: str, other: str, hides: bool, bmc: Any, shared: Path
) -> None:
    """It is told in any case; two plain adapters whose functions a BMC mixes up hide nothing."""
    bmc.tree = tree_of(shared, 'hpe-ilo5-gpu-in-oem-only')
    place = f'{ROOT}/Systems/1/PCIDevices/99'
    bmc.tree[place] = {'@odata.id': place, 'Id': '99', 'Name': '99'}
    for number, name in (('98', one), ('99', other)):
        body = {'Name': name, 'SerialNumber': number, 'DeviceInstances': [{'@odata.id': place}]}
        listed(bmc.tree, DEVICES, number, body)
    told = [gap.hides for gap in inventory_of(bmc).gaps if gap.field == 'DeviceInstances']
    assert [hides] == told


@pytest.mark.parametrize(
    ('ids', 'kept'),
    [({'VendorID': 0x102B, 'DeviceID': 0x0538}, False), ({'VendorID': 0x10DE, 'DeviceID': 0x2235}, True)],
    ids=['video-chip', 'another-gpu'],
)
def test_functions_that_an_extension_gives_a_card_make_it_no_less_a_card(
    ids: dict[str, int], kept: bool, bmc: Any, shared: Path
) -> None:
    """The extension has its number, and names the function of something that is no accelerator: that hides."""
    bmc.tree = tree_of(shared, 'hpe-ilo7-pci-ids-in-oem')
    bmc.tree[f'{ROOT}/Systems/1/PCIDevices/5'] |= ids
    seen = inventory_of(bmc)
    (card,) = seen.accelerators
    assert (Kind.GPU, kept) == (card.kind, f'{ROOT}/Systems/1/PCIDevices/5' in {ref.uri for ref in card.refs})
    assert kept is not any(gap.hides for gap in seen.gaps if gap.field == 'DeviceInstances')


def test_the_place_of_a_card_that_only_an_extension_shows_is_a_text(bmc: Any, shared: Path) -> None:
    """That is how extensions have it, and not odd."""
    bmc.tree = tree_of(shared, 'hpe-ilo5-gpu-in-oem-only')
    seen = inventory_of(bmc)
    assert {'PCI-E Slot 1', 'PCI-E Slot 2'} == {a.location for a in seen.accelerators}
    assert not [gap for gap in seen.gaps if gap.field == 'Location']


def test_an_extension_in_the_slot_of_a_card_is_that_card(bmc: Any, shared: Path) -> None:
    """It has no serial number there, and the place is the same; where a card of its kind shows no place, nobody knows."""
    bmc.tree = tree_of(shared, 'hpe-ilo7-pci-ids-in-oem')
    listed(bmc.tree, DEVICES, '9', {'Name': 'NVIDIA H200 NVL', 'DeviceType': 'GPU', 'Location': 'PCI-E Slot 13'})
    assert 1 == len(inventory_of(bmc).accelerators)
    gpu = bmc.tree[f'{ROOT}/Systems/1/Processors/3']
    gpu['SerialNumber'] = None
    seen = inventory_of(bmc)
    assert 1 == len(seen.accelerators)
    assert any('show neither serial number nor location' in gap.reason for gap in seen.gaps if gap.hides)


def test_two_modules_that_label_their_places_alike_have_no_card_in_common(bmc: Any, shared: Path) -> None:
    """A chassis at the place of two processors is neither's; at that of one it is that one."""
    bmc.tree = tree_of(shared, 'gb200-chassis-and-places')
    for uri, body in bmc.tree.items():
        if 'GPU_' in uri:
            body.get('Location', {}).pop('PartLocationContext', None)
    seen = inventory_of(bmc)
    assert 4 == len(seen.accelerators)
    assert all(not any('/Chassis/' in ref.uri for ref in a.refs) for a in seen.accelerators)

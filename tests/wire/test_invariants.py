# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that contradicts itself about what exists hides a device, by whichever of its words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.bmc.redfish.invariants import INVARIANTS
from tests.wire.recorded import inventory_of

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


CASES: dict[str, Callable[[Tree], str]] = {
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


def test_the_docs_show_the_whole_table(tree: Path) -> None:
    """Word by word as it stands in the code."""
    page = (tree / 'doc' / 'source' / 'inventory.rst').read_text()
    for invariant in INVARIANTS:
        assert f'   * - {invariant.says}\n     - {invariant.other}\n' in page

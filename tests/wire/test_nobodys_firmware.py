# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware of accelerators that no link assigns is assigned by its Id, or a gap says that nobody knows whose it is."""

from typing import Any

import pytest

from baremetal_acc.model.accelerator import Accelerator
from tests.wire.recorded import looked

ROOT = '/redfish/v1'
ITEMS = f'{ROOT}/UpdateService/FirmwareInventory'


def nodes(bmc: Any, **items: dict[str, Any]) -> None:
    """Two Systems behind a BMC that says nothing of its maker, each with two GPUs, and firmware items."""
    names = [name.replace('__', '.') for name in items]
    bmc.collection(f'{ROOT}/Systems', 'Node0', 'Node1')
    for node in ('Node0', 'Node1'):
        place = f'{ROOT}/Systems/{node}'
        bmc.put(place, SystemType='Physical', PowerState='On', Processors={'@odata.id': f'{place}/Processors'})
        bmc.collection(f'{place}/Processors', 'GPU0', 'GPU1')
        for gpu in ('GPU0', 'GPU1'):
            bmc.put(f'{place}/Processors/{gpu}', ProcessorType='GPU', SerialNumber=f'{node}{gpu}')
    bmc.tree[ROOT]['UpdateService'] = {'@odata.id': f'{ROOT}/UpdateService'}
    bmc.put(f'{ROOT}/UpdateService', FirmwareInventory={'@odata.id': ITEMS})
    bmc.collection(ITEMS, *names)
    for name, body in zip(names, items.values(), strict=True):
        bmc.put(f'{ITEMS}/{name}', Version='1.2', **body)


def firmware(found: tuple[Accelerator, ...]) -> dict[str | None, list[str]]:
    """Ids of the items of each device, by its serial number."""
    return {a.serial: [c.id for c in a.firmware if c.id is not None] for a in found}


def test_an_id_that_names_a_system_and_a_number_is_that_devices_whoever_made_the_bmc(bmc: Any) -> None:
    """Only the System and the processor that it names have to be there: a BMC need not say who made it."""
    nodes(bmc, Node0__Acc0__VBIOS={}, Node1__Acc1__VBIOS={}, Node1__Acc7__VBIOS={}, Node7__Acc0__VBIOS={})
    want = {'Node0GPU0': ['Node0.Acc0.VBIOS'], 'Node0GPU1': [], 'Node1GPU0': [], 'Node1GPU1': ['Node1.Acc1.VBIOS']}
    assert want == firmware(looked(bmc)[0])


@pytest.mark.parametrize(
    ('body', 'said'),
    [
        ({'Description': 'vBIOS of the GPUs'}, True),
        ({'Name': 'GPU firmware'}, True),
        ({'Description': 'vBIOS of the GPUs', 'RelatedItem': []}, True),
        ({'Description': 'Of an FPGA'}, False),
        ({'Description': 'GPU baseboard controller'}, False),
        ({'Description': 'GPUDirect library'}, False),
        ({'Description': 7}, False),
    ],
    ids=['description', 'name', 'no-related', 'another-kind', 'a-carrier', 'another-word', 'no-text'],
)
def test_an_item_that_may_be_that_of_cards_without_firmware_is_a_gap(body: dict[str, Any], said: bool, bmc: Any) -> None:
    """Its words do not make it theirs; but that they have none, and it is there, is told. No device is hidden by it."""
    nodes(bmc, Shared=body)
    found, gaps = looked(bmc, system='Node0')
    assert {'Node0GPU0': [], 'Node0GPU1': []} == firmware(found)
    assert [(False, True)] * said == [
        (g.hides, 'may be the firmware of' in g.reason) for g in gaps if g.ref.uri == f'{ITEMS}/Shared'
    ]


def test_an_item_of_nobody_is_no_gap_where_all_cards_have_theirs(bmc: Any) -> None:
    """There is nothing that it would be missing from."""
    each = {f'{node}__Acc{n}__VBIOS': {} for node in ('Node0', 'Node1') for n in (0, 1)}
    nodes(bmc, Shared={'Description': 'vBIOS of the GPUs'}, **each)
    found, gaps = looked(bmc)
    assert all(firmware(found).values())
    assert not [gap for gap in gaps if gap.ref.uri == f'{ITEMS}/Shared']

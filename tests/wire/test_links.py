# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is firmware found whose link to its card is written in another way than the card's own URI?"""

from datetime import UTC, datetime
from typing import Any

import pytest

DEVICES = '/redfish/v1/Chassis/Node_A/PCIeDevices'
ITEMS = '/redfish/v1/UpdateService/FirmwareInventory'
NOW = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.fixture
def cards(bmc: Any) -> Any:
    """Two cards, GPU_a and GPU_A, whose URIs differ in their case alone, and a third one; each has an item."""
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    bmc.put('/redfish/v1/UpdateService', FirmwareInventory={'@odata.id': ITEMS})
    names = ('GPU_a', 'GPU_A', 'GPU_C')
    bmc.collection(ITEMS, *names)
    bmc.collection('/redfish/v1/Chassis', 'Node_A')
    bmc.put('/redfish/v1/Chassis/Node_A', ChassisType='RackMount', PCIeDevices={'@odata.id': DEVICES})
    bmc.collection(DEVICES, *names)
    for number, name in enumerate(names):
        bmc.put(f'{ITEMS}/{name}', Version=f'1.{number}', RelatedItem=[{'@odata.id': f'{DEVICES}/{name}'}])
        functions = f'{DEVICES}/{name}/PCIeFunctions'
        bmc.put(f'{DEVICES}/{name}', Model='NVIDIA H100', SerialNumber=f'S{number}', PCIeFunctions={'@odata.id': functions})
        bmc.collection(functions, '0')
        bmc.put(f'{functions}/0', VendorId='0x10de', DeviceId='0x2331', ClassCode='0x030200')
    return bmc


def _versions(bmc: Any) -> dict[str | None, list[str | None]]:
    """What each card runs, by serial number."""
    with bmc.connect() as connection:
        return {a.serial: [c.version for c in a.firmware] for a in connection.look(NOW).accelerators}


def test_cards_whose_uris_differ_in_their_case_alone_have_their_own_firmware(cards: Any) -> None:
    """Paths of URIs are told apart by their case (RFC 3986, section 6.2.2.1)."""
    assert {'S0': ['1.0'], 'S1': ['1.1'], 'S2': ['1.2']} == _versions(cards)


@pytest.mark.parametrize('below', ['', '/PCIeFunctions/0', '/Oem/Firmware'])
def test_a_link_in_another_case_leads_to_the_only_card_that_it_can_mean(cards: Any, below: str) -> None:
    """Seen: HPE, links in lower case. Without it a version that the catalogue denies goes unseen."""
    cards.tree[f'{ITEMS}/GPU_C']['RelatedItem'] = [{'@odata.id': f'{DEVICES}/GPU_C{below}'.lower()}]
    assert ['1.2'] == _versions(cards)['S2']


def test_a_link_that_can_mean_two_cards_leads_to_none(cards: Any) -> None:
    """Neither of them gets firmware of the other."""
    cards.tree[f'{ITEMS}/GPU_a']['RelatedItem'] = [{'@odata.id': f'{DEVICES}/gpu_A'}]
    found = _versions(cards)
    assert ([], ['1.1']) == (found['S0'], found['S1'])

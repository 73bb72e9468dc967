# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Links are followed in whatever form they are written; one that leads to nothing hides what it would have shown."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.wire.recorded import inventory_of

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


@pytest.mark.parametrize('extra', [0, 1], ids=['of-one', 'of-two'])
def test_an_array_of_one_link_is_that_link(cards: Any, extra: int) -> None:
    """A BMC has arrays where the schema has one link: the place of that one is known, that of several is not."""
    place = '/redfish/v1/Systems/1/Processors'
    cards.put('/redfish/v1/Systems/1', SystemType='Physical', Processors={'@odata.id': place})
    cards.collection(place, 'P')
    links = [{'@odata.id': f'{DEVICES}/{name}'} for name in ('GPU_C', 'GPU_a')]
    cards.put(f'{place}/P', ProcessorType='GPU', Model='NVIDIA H100', Links={'PCIeDevice': links[: 1 + extra]})
    with cards.connect() as connection:
        look = connection.look(NOW)
    assert 3 + extra == len(look.accelerators)
    assert [f'{place}/P'] == [gap.ref.uri for gap in look.gaps if gap.field == 'Links/PCIeDevice']


def test_an_action_info_that_is_not_there_hides_nothing(cards: Any) -> None:
    """What the action takes is not known then; no device and no lock stands in it."""
    action = {'target': '/redfish/v1/Systems/1/Actions/Reset', '@Redfish.ActionInfo': '/redfish/v1/Systems/1/ResetInfo'}
    cards.put('/redfish/v1/Systems/1', SystemType='Physical', PowerState='On', Actions={'#ComputerSystem.Reset': action})
    gaps = {gap.ref.uri: gap.hides for gap in inventory_of(cards).gaps}
    assert gaps['/redfish/v1/Systems/1/ResetInfo'] is False


@pytest.mark.parametrize('as_written', [str, lambda path: [path]], ids=['text', 'array-of-text'])
def test_a_path_in_the_place_of_a_link_is_that_link(cards: Any, as_written: Any) -> None:
    """Seen: UCS C240 M5, CIMC 4.1 (akaliwod/iserver): RelatedItem is a text. That is odd, and hides nothing."""
    cards.tree[f'{ITEMS}/GPU_C']['RelatedItem'] = as_written(f'{DEVICES}/GPU_C')
    assert ['1.2'] == _versions(cards)['S2']
    gaps = inventory_of(cards).gaps
    assert [False] == [gap.hides for gap in gaps if gap.ref.uri == f'{ITEMS}/GPU_C']


@pytest.mark.parametrize('text', ['N/A', 'GPU_C', '', 'https://192.0.2.9/redfish/v1/Chassis'])
def test_any_other_text_in_the_place_of_a_link_hides_the_card(cards: Any, text: str) -> None:
    """It may be firmware of a device, and nobody can tell of which."""
    cards.tree[f'{ITEMS}/GPU_C'] |= {'RelatedItem': text, 'Id': 'Other'}
    assert any(gap.hides for gap in inventory_of(cards).gaps if gap.ref.uri == f'{ITEMS}/GPU_C')

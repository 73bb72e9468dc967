# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which resources are one device, which are two, and which are none."""

import json
from typing import Any

import pytest

from baremetal_acc.errors import BmcAnswerInvalid
from baremetal_acc.model.accelerator import IdentitySource, Kind

PROCESSORS = '/redfish/v1/Systems/1/Processors'
DEVICES = '/redfish/v1/Chassis/1/PCIeDevices'


def _gpu(bmc: Any, name: str, **more: Any) -> None:
    system = bmc.tree['/redfish/v1/Systems/1']
    if 'Processors' not in system:
        system['Processors'] = {'@odata.id': PROCESSORS}
        bmc.collection(PROCESSORS)
    bmc.tree[PROCESSORS]['Members'].append({'@odata.id': f'{PROCESSORS}/{name}'})
    bmc.put(f'{PROCESSORS}/{name}', **{'ProcessorType': 'GPU', 'Model': 'NVIDIA H100 NVL', **more})


def _card(bmc: Any, name: str, function: dict[str, Any] | None = None, **more: Any) -> None:
    if '/redfish/v1/Chassis/1' not in bmc.tree:
        bmc.collection('/redfish/v1/Chassis', '1')
        bmc.put('/redfish/v1/Chassis/1', ChassisType='RackMount', PCIeDevices={'@odata.id': DEVICES})
        bmc.collection(DEVICES)
    bmc.tree[DEVICES]['Members'].append({'@odata.id': f'{DEVICES}/{name}'})
    functions = f'{DEVICES}/{name}/PCIeFunctions'
    bmc.put(f'{DEVICES}/{name}', **{'PCIeFunctions': {'@odata.id': functions}, **more})
    bmc.collection(functions, *(['0'] if function is not None else []))
    if function is not None:
        bmc.put(f'{functions}/0', **function)


def test_two_gpus_with_one_serial_number_are_two(bmc: Any) -> None:
    """Seen on real machines; their UUIDs differ, so these identify them."""
    for n in range(2):
        _gpu(bmc, f'GPU{n}', SerialNumber='SAME', UUID=f'0000000{n}-1111-4222-8333-444455556666')
    found = bmc.look().accelerators
    assert [IdentitySource.UUID] * 2 == [a.identity for a in found]


def test_a_repeated_serial_number_identifies_nothing(bmc: Any) -> None:
    """Without UUIDs only the places tell the two apart."""
    for n in range(2):
        _gpu(bmc, f'GPU{n}', SerialNumber='SAME')
    found = bmc.look().accelerators
    assert [f'uri:host:{PROCESSORS}/GPU{n}' for n in range(2)] == [a.id for a in found]


def test_a_repeated_uuid_identifies_nothing(bmc: Any) -> None:
    """A constant of the product; the serial numbers tell them apart."""
    for n in range(2):
        _gpu(bmc, f'GPU{n}', SerialNumber=f'S{n}', UUID='f72d6f70-5675-11ed-9b6a-0242ac120002')
    assert ['serial:S0', 'serial:S1'] == [a.id for a in bmc.look().accelerators]


@pytest.mark.parametrize('serial', ['', '   ', 'N/A', 'None', '00000000', None, 7.5, ['x']])
def test_a_sentinel_is_no_serial_number(bmc: Any, serial: Any) -> None:
    """What BMCs write for none."""
    _gpu(bmc, 'GPU0', SerialNumber=serial)
    (found,) = bmc.look().accelerators
    assert (None, IdentitySource.URI) == (found.serial, found.identity)


@pytest.mark.parametrize(
    'uuid', ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'no uuid', '', 7]
)
def test_a_constant_is_no_uuid(bmc: Any, uuid: Any) -> None:
    """All zero, as in DMTF's rack server; or no UUID at all."""
    _gpu(bmc, 'GPU0', UUID=uuid, SerialNumber='S1')
    (found,) = bmc.look().accelerators
    assert (None, 'serial:S1') == (found.uuid, found.id)


def test_a_processor_and_a_card_without_links_are_joined_by_serial_and_model(bmc: Any) -> None:
    """HPE links nothing; the serial number, padded in one place, and the part number are the same."""
    _gpu(bmc, 'GPU0', SerialNumber='S1', PartNumber='900-1')
    _card(bmc, '244', {'VendorId': '0X10DE', 'DeviceId': '0X2321'}, SerialNumber='S1      ', PartNumber='900-1', Model='900-1')
    (found,) = bmc.look().accelerators
    assert ('NVIDIA H100 NVL', '0x10de', '0x2321') == (found.model, found.pci.vendor_id, found.pci.device_id)
    assert f'{DEVICES}/244' in [ref.uri for ref in found.refs]


def test_a_serial_number_that_two_of_each_share_names_no_card(bmc: Any) -> None:
    """Which card belongs to which processor cannot be told: there are two of them, and gaps say what was guessed."""
    for n in range(2):
        _gpu(bmc, f'GPU{n}', SerialNumber='SAME')
        _card(
            bmc,
            f'{n}',
            {'VendorId': '0x10de', 'DeviceId': '0x2321', 'ClassCode': '0x030200'},
            SerialNumber='SAME',
            Model='NVIDIA H100 NVL',
        )
    look = bmc.look()
    assert [f'uri:host:{PROCESSORS}/GPU{n}' for n in range(2)] == [a.id for a in look.accelerators]
    assert 1 == sum('treated as different devices' in gap.reason for gap in look.gaps)
    assert 2 == sum('by order' in gap.reason for gap in look.gaps)


@pytest.mark.parametrize(
    ('function', 'kind'),
    [
        ({'VendorId': '0x10de', 'DeviceId': '0x2330'}, Kind.GPU),
        ({'VendorId': '4318', 'DeviceId': '9008'}, Kind.GPU),
        ({'VendorId': '0x10de', 'DeviceId': '0x9999', 'ClassCode': '0x030200'}, Kind.GPU),
        ({'VendorId': '0x10de', 'DeviceId': '0x22a3', 'ClassCode': '0x068000'}, None),
        ({'VendorId': '0x102b', 'DeviceId': '0x0536', 'DeviceClass': 'DisplayController'}, None),
        ({'VendorId': '0x1a03', 'DeviceId': '0x2000', 'ClassCode': '0x030000'}, None),
        ({'VendorId': '0x15b3', 'DeviceId': '0x1021', 'ClassCode': '0x020000'}, None),
        ({'VendorId': '0x15b3', 'DeviceId': '0xa2dc', 'ClassCode': '0x020000'}, Kind.DPU),
        ({'VendorId': '0x10ee', 'DeviceId': '0x5004'}, Kind.FPGA),
        ({'VendorId': '0x1fff', 'DeviceId': '0x0001', 'ClassCode': '0x120000'}, Kind.ASIC),
        (
            {'VendorId': '0x1fff', 'DeviceId': '0x0001', 'DeviceClass': 'ProcessingAccelerators', 'ClassCode': '0x000000'},
            Kind.ASIC,
        ),
        ({'VendorId': '0x0000', 'DeviceId': '0x0000', 'DeviceClass': 'DisplayController'}, None),
        ({'VendorId': None, 'DeviceId': [], 'ClassCode': {}}, None),
    ],
)
def test_a_card_is_what_its_ids_and_class_say(bmc: Any, function: dict[str, Any], kind: Kind | None) -> None:
    """BMC video, plain NICs and switches are no accelerators, whatever their class."""
    _card(bmc, 'x', function)
    assert ([kind] if kind else []) == [a.kind for a in bmc.look().accelerators]


def test_an_unknown_display_controller_is_a_gap(bmc: Any) -> None:
    """It may be a GPU that nobody has put into the table yet; a known video chip is no gap."""
    _card(bmc, 'x', {'VendorId': '0x0000', 'DeviceId': '0x0000', 'DeviceClass': 'DisplayController'})
    _card(bmc, 'y', {'VendorId': '0x1a03', 'DeviceId': '0x2000', 'DeviceClass': 'DisplayController'})
    assert [f'{DEVICES}/x'] == [gap.ref.uri for gap in bmc.look().gaps]


@pytest.mark.parametrize(
    ('processor_type', 'kind'),
    [('GPU', Kind.GPU), ('DSP', Kind.ASIC), ('Accelerator', Kind.ASIC), ('CPU', None), ('Odd', None)],
)
def test_a_processor_is_what_its_type_says(bmc: Any, processor_type: str, kind: Kind | None) -> None:
    """CPUs and unknown types are no accelerators."""
    _gpu(bmc, 'P', ProcessorType=processor_type, Model='Contoso X')
    assert ([kind] if kind else []) == [a.kind for a in bmc.look().accelerators]


def test_an_absent_processor_is_no_device(bmc: Any) -> None:
    """An empty socket is listed with State Absent."""
    _gpu(bmc, 'GPU0', Status={'State': 'Absent'})
    assert () == bmc.look().accelerators


@pytest.mark.parametrize(
    'shown', [{'Model': 'Contoso F1'}, {'FPGA': {'ReconfigurationSlots': []}}, {'FPGA': {'ProgrammableFromHost': False}}]
)
def test_an_fpga_that_shows_anything_to_use_is_an_accelerator(bmc: Any, shown: dict[str, Any]) -> None:
    """Only one that shows nothing but its type manages the baseboard."""
    _gpu(bmc, 'FPGA_0', **{'ProcessorType': 'FPGA', 'Model': None, 'FPGA': {'FpgaType': 'Discrete'}, **shown})
    assert [Kind.FPGA] == [a.kind for a in bmc.look().accelerators]


def test_an_fpga_that_shows_nothing_is_a_platform_device(bmc: Any) -> None:
    """As on the GH200."""
    _gpu(bmc, 'FPGA_0', ProcessorType='FPGA', Model=None, FPGA={'FpgaType': 'Discrete'})
    look = bmc.look()
    assert ((), [f'{PROCESSORS}/FPGA_0']) == (look.accelerators, [p.ref.uri for p in look.platform_devices])


def _fpga(bmc: Any) -> str:
    uri = f'{PROCESSORS}/FPGA1'
    functions = f'{uri}/AccelerationFunctions'
    slots = [
        {'SlotId': 'S0', 'ProgrammableFromHost': True, 'AccelerationFunction': {'@odata.id': f'{functions}/Gzip'}},
        {'SlotId': 'S1', 'ProgrammableFromHost': None},
    ]
    fpga = {'ProgrammableFromHost': True, 'ReconfigurationSlots': slots}
    _gpu(bmc, 'FPGA1', ProcessorType='FPGA', Model='F1', FPGA=fpga, AccelerationFunctions={'@odata.id': functions})
    bmc.collection(functions, 'Gzip')
    bmc.put(
        f'{functions}/Gzip', AccelerationFunctionType='Compression', Version='1.2 ', UUID='11111111-1111-4222-8333-444455556666'
    )
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    items = '/redfish/v1/UpdateService/SoftwareInventory'
    bmc.put('/redfish/v1/UpdateService', SoftwareInventory={'@odata.id': items})
    bmc.collection(items, 'Shell', 'Slot0', 'Slot1')
    bmc.put(f'{items}/Shell', Version='2.0  ', RelatedItem=[{'@odata.id': uri}])
    bmc.put(f'{items}/Slot0', Version='1.2', RelatedItem=[{'@odata.id': f'{functions}/Gzip'}])
    bmc.put(f'{items}/Slot1', Version='', RelatedItem=[{'@odata.id': f'{uri}#/FPGA/ReconfigurationSlots/1'}])
    return uri


def test_a_slots_item_is_the_slots_and_no_firmware(bmc: Any) -> None:
    """Firmware and function are two things: an item of a slot is found by a pointer to it, or by the function in it."""
    _fpga(bmc)
    (found,) = bmc.look().accelerators
    assert [('Shell', '2.0')] == [(c.id, c.version) for c in found.firmware]
    assert ['Slot0', 'Slot1'] == [s.item.id for s in found.slots]
    assert [('S0', 0, True), ('S1', 1, None)] == [(s.slot_id, s.index, s.programmable_from_host) for s in found.slots]
    assert ('Gzip', 'Compression', '1.2') == (
        found.slots[0].function.id,
        found.slots[0].function.type,
        found.slots[0].function.version,
    )
    assert (None, None) == (found.slots[1].function, found.slots[1].item.version)


def test_an_item_of_nobody_belongs_to_nobody(bmc: Any) -> None:
    """A BMC's own image, without RelatedItem, is no accelerator's firmware."""
    _fpga(bmc)
    items = '/redfish/v1/UpdateService/SoftwareInventory'
    bmc.tree[items]['Members'].append({'@odata.id': f'{items}/BMC'})
    bmc.put(f'{items}/BMC', Version='1', RelatedItem=[])
    (found,) = bmc.look().accelerators
    assert ['Shell'] == [c.id for c in found.firmware]


def test_a_staged_item_is_the_version_to_come(bmc: Any) -> None:
    """Active false and Staged true: the version of its twin after a reset."""
    uri = _fpga(bmc)
    items = '/redfish/v1/UpdateService/SoftwareInventory'
    bmc.tree[f'{items}/Shell'] |= {'SoftwareId': 'shell', 'Active': True}
    bmc.tree[items]['Members'].append({'@odata.id': f'{items}/ShellNext'})
    bmc.put(
        f'{items}/ShellNext', SoftwareId='shell', Version='3.0', Active=False, Staged=True, RelatedItem=[{'@odata.id': uri}]
    )
    (found,) = bmc.look().accelerators
    assert [('Shell', '2.0', '3.0')] == [(c.id, c.version, c.staged) for c in found.firmware]


def test_several_systems_that_may_be_meant_are_a_gap(bmc: Any) -> None:
    """Nobody guesses which one a tenant gets."""
    bmc.collection('/redfish/v1/Systems', '1', '2')
    bmc.put('/redfish/v1/Systems/2', SystemType='Physical')
    look = bmc.look()
    assert look.facts.system is None
    assert any('set system (Ironic: redfish_system_id)' in gap.reason for gap in look.gaps)


def test_the_operator_names_the_system(bmc: Any) -> None:
    """By its URI; one that is not there is an error that names those that are, and one that cannot be read is a gap."""
    bmc.collection('/redfish/v1/Systems', '1', '2')
    bmc.put('/redfish/v1/Systems/2', SystemType='Physical')
    assert '/redfish/v1/Systems/2' == bmc.look(system='/redfish/v1/Systems/2/').facts.system.uri
    with pytest.raises(BmcAnswerInvalid) as caught:
        bmc.look(system='/redfish/v1/Systems/9')
    there = 'found: /redfish/v1/Systems/1 (Id 1), /redfish/v1/Systems/2 (Id 2)'
    assert ('/redfish/v1/Systems/9', True) == (caught.value.uri, there in caught.value.what)
    bmc.tree['/redfish/v1/Systems/2'] = 'no JSON'
    assert any('could not be read' in gap.reason for gap in bmc.look(system='/redfish/v1/Systems/2').gaps if gap.hides)


def test_the_operator_names_the_system_by_its_id(bmc: Any) -> None:
    """As the BMC says it, or as its URI ends; what is none or several is an error that names those that there are."""
    place = '/redfish/v1/Systems'
    bmc.collection(place, '1', '2', '3')
    bmc.put(f'{place}/2', SystemType='Physical', Id='Blade Two')
    bmc.put(f'{place}/3', SystemType='Physical')
    by_name = [bmc.look(system=name).facts.system.uri for name in ('1', 'Blade Two', '2', '3')]
    assert [f'{place}/1', f'{place}/2', f'{place}/2', f'{place}/3'] == by_name
    there = f'found: {place}/1 (Id 1), {place}/2 (Id Blade Two), {place}/3 (Id 3)'
    for name in ('9', '', 'blade two'):
        with pytest.raises(BmcAnswerInvalid, match='no System matches') as caught:
            bmc.look(system=name)
        assert (place, True, 'to the URI of one of them' in str(caught.value)) == (
            caught.value.uri,
            there in caught.value.what,
            True,
        )
    bmc.tree[f'{place}/3']['Id'] = '1'
    with pytest.raises(BmcAnswerInvalid, match=r'several Systems match 1; found: .*/1 \(Id 1\), .*/3 \(Id 1\)'):
        bmc.look(system='1')
    assert f'{place}/1' == bmc.look(system=f'{place}/1').facts.system.uri


def test_a_named_system_that_cannot_be_read_is_a_gap_by_its_id_too(bmc: Any) -> None:
    """Its URI ends in it; where no list of Systems could be read, nobody knows which one it is."""
    place = '/redfish/v1/Systems'
    bmc.collection(place, '1', '2')
    bmc.tree[f'{place}/2'] = 'no JSON'
    look = bmc.look(system='2')
    assert f'{place}/2' == look.facts.system.uri
    assert any('could not be read' in gap.reason for gap in look.gaps if gap.hides)
    bmc.tree[place] = 'no JSON'
    look = bmc.look(system='2')
    assert look.facts.system is None
    assert any('configured System could not be read' in gap.reason for gap in look.gaps if gap.hides)


def test_two_looks_at_one_machine_are_equal_but_for_the_session(bmc: Any) -> None:
    """So that a difference is a difference of the machine."""
    _fpga(bmc)
    one, other = bmc.look(), bmc.look()
    assert (one.accelerators, one.gaps) == (other.accelerators, other.gaps)
    assert one.facts.session != other.facts.session


def test_one_component_is_read_now(bmc: Any) -> None:
    """An item, and the version that a device itself shows."""
    _fpga(bmc)
    _card(bmc, 'x', {}, FirmwareVersion='9.9 ', **{'@odata.type': '#PCIeDevice.v1_5_0.PCIeDevice'})
    (found,) = bmc.look().accelerators
    with bmc.connect() as connection:
        assert '2.0' == connection.component(found.firmware[0].ref).version
        own = type(found.primary)(bmc=found.primary.bmc, uri=f'{DEVICES}/x')
        assert (None, '9.9') == (connection.component(own).id, connection.component(own).version)


def test_a_function_that_is_linked_and_not_there_leaves_no_empty_slot(bmc: Any) -> None:
    """What could not be read is not taken for nothing."""
    uri = _fpga(bmc)
    del bmc.tree[f'{uri}/AccelerationFunctions/Gzip']
    bmc.tree[uri]['FPGA']['ReconfigurationSlots'][1]['AccelerationFunction'] = 'odd'
    (found,) = bmc.look().accelerators
    assert [('Gzip', None), ('?', None)] == [(s.function.id, s.function.version) for s in found.slots]


def test_a_slot_that_is_no_object_hides_something(bmc: Any) -> None:
    """Its neighbours keep their positions."""
    uri = _fpga(bmc)
    bmc.tree[uri]['FPGA']['ReconfigurationSlots'][0] = None
    look = bmc.look()
    assert [('S1', 1)] == [(s.slot_id, s.index) for s in look.accelerators[0].slots]
    assert [('FPGA/ReconfigurationSlots/0', True)] == [(gap.field, gap.hides) for gap in look.gaps]


@pytest.mark.parametrize('place', ['FirmwareInventory/X', 'FirmwareInventory', ''])
def test_firmware_that_cannot_be_read_hides_something(bmc: Any, reply: Any, place: str) -> None:
    """It may be a device's, and nobody would see that it is not protected."""
    _gpu(bmc, 'GPU0')
    service = '/redfish/v1/UpdateService'
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': service}
    bmc.put(service, FirmwareInventory={'@odata.id': f'{service}/FirmwareInventory'})
    bmc.collection(f'{service}/FirmwareInventory', 'X')
    broken = f'{service}/{place}'.rstrip('/')
    bmc.replies['GET', broken] = reply(500)
    assert [(broken, True)] == [(gap.ref.uri, gap.hides) for gap in bmc.look().gaps]


def test_ids_that_cannot_be_read_hide_a_device(bmc: Any, reply: Any) -> None:
    """Without its functions a card is nothing known, and may be an accelerator."""
    _card(bmc, 'x', {'VendorId': '0x10de', 'DeviceId': '0x2330'})
    bmc.replies['GET', f'{DEVICES}/x/PCIeFunctions/0'] = reply(500)
    look = bmc.look()
    assert ((), [True]) == (look.accelerators, [gap.hides for gap in look.gaps])


def test_a_body_that_says_not_found_is_a_dangling_link(bmc: Any) -> None:
    """With status 200, as on a real BMC. It is listed, so that a device may be hidden."""
    _gpu(bmc, 'GPU0')
    bmc.tree[f'{PROCESSORS}/GPU0'] = {'error': {'@Message.ExtendedInfo': [{'MessageId': 'Base.1.15.0.ResourceNotFound'}]}}
    look = bmc.look()
    assert ((), [True]) == (look.accelerators, [gap.hides for gap in look.gaps])


def test_an_item_of_two_devices_is_said_to_be_so(bmc: Any) -> None:
    """It counts for one of them, and a gap says that it is both's."""
    uri = _fpga(bmc)
    _gpu(bmc, 'GPU0')
    item = bmc.tree['/redfish/v1/UpdateService/SoftwareInventory/Shell']
    item['RelatedItem'] = [{'@odata.id': uri}, {'@odata.id': f'{PROCESSORS}/GPU0'}]
    assert [('RelatedItem', False)] == [(gap.field, gap.hides) for gap in bmc.look().gaps]


@pytest.mark.parametrize(('model', 'asked'), [('MCX75310AAS-NEAT', 0), ('MBF2H332A-AEEOT', 1), (None, 1)])
def test_functions_are_read_of_what_no_name_makes_plain(bmc: Any, model: str | None, asked: int) -> None:
    """A name that the table knows for no accelerator says enough; one that it does not know says nothing."""
    functions = f'{DEVICES}/Card/PCIeFunctions'
    bmc.collection('/redfish/v1/Chassis', '1')
    bmc.put('/redfish/v1/Chassis/1', PCIeDevices={'@odata.id': DEVICES})
    bmc.collection(DEVICES, 'Card')
    bmc.put(f'{DEVICES}/Card', Model=model, PCIeFunctions={'@odata.id': functions})
    bmc.collection(functions)
    bmc.look()
    assert asked == bmc.count('GET', functions)


def test_chassis_that_lead_on_and_on_hide_what_is_behind_them(bmc: Any) -> None:
    """Each contains the next one, and no collection lists them."""
    bmc.collection('/redfish/v1/Chassis', '0')
    for n in range(20):
        bmc.put(f'/redfish/v1/Chassis/{n}', Links={'Contains': [{'@odata.id': f'/redfish/v1/Chassis/{n + 1}'}]})
    assert any(g.hides and 'there are further links' in g.reason for g in bmc.look().gaps)


@pytest.mark.parametrize('field', ['SerialNumber', 'PartNumber', 'FirmwareVersion', 'Manufacturer', 'Model'])
def test_bytes_that_are_no_text_cost_their_field(bmc: Any, field: str) -> None:
    """And nothing else: the gap has the place, and what is left of a name still tells the product."""
    uri = f'{PROCESSORS}/GPU0'
    said = {'SerialNumber': 'SN1', 'PartNumber': 'P1', 'FirmwareVersion': '1', 'Manufacturer': 'NVIDIA', 'Model': 'NVIDIA H100'}
    _gpu(bmc, 'GPU0')
    bmc.tree[uri] |= said | {field: said[field] + '@'}
    bmc.tree[uri] = json.dumps(bmc.tree[uri]).encode().replace(b'@"', b'\xae"')
    look = bmc.look()
    (found,) = look.accelerators
    seen = {'SerialNumber': found.serial, 'PartNumber': found.part_number}
    seen['FirmwareVersion'] = next((c.version for c in found.firmware), None)
    assert {k: None if k == field else said[k] for k in seen} == seen
    assert ('CUSTOM_GPU_NVIDIA_H100' in found.traits, [(uri, field)]) == (True, [(g.ref.uri, g.field) for g in look.gaps])

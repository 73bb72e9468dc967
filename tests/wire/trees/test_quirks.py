# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A property that a BMC writes oddly is read as it is meant; one that cannot be read has a gap with resource, field, reason."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from baremetal_acc.bmc.device_ids import shipped
from baremetal_acc.bmc.quirks import Quirks
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree
from baremetal_acc.bmc.redfish.firmware import assign
from baremetal_acc.bmc.redfish.identify import attributed, identify, identities
from baremetal_acc.bmc.redfish.parse import Gaps, ResourceView
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import HOST, Ref
from tests.wire.trees.build import H100, ROOT, SERVICE, Machine, ids, link, links


def gpu(machine: Machine, **body: Any) -> str:
    """A GPU as Processor."""
    return machine.processor(machine.host, 'GPU0', **{'Model': 'NVIDIA H100 PCIe', 'SerialNumber': 'S0', **body})


def told(look: Any) -> list[tuple[str, str | None, str | None]]:
    """Resource, field and device of each gap."""
    return [(g.ref.uri, g.field, g.accelerator) for g in attributed(look.gaps, look.accelerators)]


# ------------------------------------------------------------------------------------------------------ odd is told

PROCESSOR = [
    ('Model', []),
    ('SerialNumber', {}),
    ('PartNumber', 1.5),
    ('UUID', 'no uuid'),
    ('UUID', []),
    ('FirmwareVersion', 7),
    ('Status', 'Enabled'),
    ('Links', ['x']),
    ('Links/PCIeDevice', 'x'),
    ('Location', 'Slot 1'),
    ('FPGA', 'x'),
    ('AccelerationFunctions', 7),
]

FUNCTION = [
    ('VendorId', []),
    ('DeviceId', 'xyz'),
    ('SubsystemVendorId', 1.5),
    ('SubsystemId', '0x12345'),
    ('ClassCode', 'display'),
    ('ClassCode', True),
    ('BusNumber', 'one'),
    ('DeviceNumber', 77),
    ('FunctionNumber', -1),
    ('SegmentNumber', {}),
]

ITEM = [
    ('Version', 7),
    ('Version', ['1.0']),
    ('Version', '1.\u200b0'),
    ('Version', '1' * 300),
    ('WriteProtected', 'true'),
    ('WriteProtected', 1),
    ('Updateable', 'yes'),
    ('LowestSupportedVersion', []),
    ('SoftwareId', {}),
    ('Active', 1),
    ('Staged', 'x'),
    ('RelatedItem/1', None),
]


def spoil(body: dict[str, Any], field: str, value: Any) -> None:
    """Put an odd value into a resource."""
    *above, name = field.split('/')
    for step in above:
        body = body.setdefault(step, {}) if isinstance(body, dict) else body
    if isinstance(body, list):
        body.insert(int(name), value)
    else:
        body[name] = value


@pytest.mark.parametrize(('field', 'value'), PROCESSOR)
def test_an_odd_field_of_a_processor_is_a_gap_of_its_device(machine: Machine, field: str, value: Any) -> None:
    """The device is there all the same."""
    uri = gpu(machine)
    spoil(machine.tree[uri], field, value)
    look = machine.look()
    assert [(uri, field, look.accelerators[0].id)] == told(look)
    assert all(g.reason for g in look.gaps)


@pytest.mark.parametrize(('field', 'value'), FUNCTION)
def test_an_odd_id_is_a_gap_of_its_device(machine: Machine, field: str, value: Any) -> None:
    """Ids of a wrong type or form are not silently unknown."""
    chassis = machine.chassis('1')
    uri = gpu(machine, Links={'PCIeDevice': link(f'{chassis}/PCIeDevices/x')})
    card = machine.card(chassis, 'x', {**H100, 'BusNumber': 5, 'DeviceNumber': 0, 'FunctionNumber': 0})
    machine.tree[f'{card}/PCIeFunctions/0'][field] = value
    look = machine.look()
    assert [(f'{card}/PCIeFunctions/0', field, look.accelerators[0].id)] == told(look)
    assert uri == look.accelerators[0].primary.uri


@pytest.mark.parametrize(('field', 'value'), ITEM)
def test_an_odd_field_of_firmware_is_a_gap_of_its_device(machine: Machine, field: str, value: Any) -> None:
    """It is what decides: a version, or whether it can be written."""
    item = machine.item('FW', gpu(machine))
    spoil(machine.tree[item], field, value)
    look = machine.look()
    (found,) = look.accelerators
    assert [(item, field, found.id)] == told(look)
    (component,) = found.firmware
    assert field != 'Version' or component.version != '1.0'
    assert field != 'WriteProtected' or component.write_protected is None


def test_an_item_of_which_nobody_knows_whose_it_is_hides_something(machine: Machine) -> None:
    """RelatedItem is there and says nothing."""
    gpu(machine)
    item = machine.item('FW', RelatedItem='GPU0')
    assert {(item, 'RelatedItem', False), (item, 'RelatedItem', True)} == {
        (g.ref.uri, g.field, g.hides) for g in machine.look().gaps
    }


@pytest.mark.parametrize(
    ('fpga', 'field'),
    [
        ('x', 'FPGA'),
        ({'ReconfigurationSlots': {}}, 'FPGA/ReconfigurationSlots'),
        ({'ReconfigurationSlots': 'S0'}, 'FPGA/ReconfigurationSlots'),
    ],
)
def test_slots_that_cannot_be_read_hide_something(machine: Machine, fpga: Any, field: str) -> None:
    """A slot that nobody sees is one that nobody closes."""
    uri = machine.processor(machine.host, 'F', 'FPGA', Model='Contoso F1', FPGA=fpga)
    assert (uri, field) in {(g.ref.uri, g.field) for g in machine.look().gaps if g.hides}


def test_a_function_may_name_its_slot_itself(machine: Machine) -> None:
    """Where the slot does not name it; what it says in another form is a gap."""
    uri = machine.processor(
        machine.host, 'F', 'FPGA', Model='F1', FPGA={'ReconfigurationSlots': [{'SlotId': 'S0'}, {'SlotId': 'S1'}]}
    )
    gzip = machine.below(uri, 'AccelerationFunctions', 'gzip', FpgaReconfigurationSlots=['S1 '])
    assert [None, 'gzip'] == [s.function and s.function.id for s in machine.look().accelerators[0].slots]
    machine.tree[gzip]['FpgaReconfigurationSlots'] = 'S1'
    look = machine.look()
    assert [None, None] == [s.function for s in look.accelerators[0].slots]
    assert [(gzip, 'FpgaReconfigurationSlots')] == [(g.ref.uri, g.field) for g in look.gaps]


def test_sentinels_are_no_gaps(machine: Machine) -> None:
    """What BMCs write for none is none."""
    chassis = machine.chassis('1')
    uri = gpu(machine, UUID='', PartNumber='N/A', FirmwareVersion='N/A', Links={'PCIeDevice': link(f'{chassis}/PCIeDevices/x')})
    machine.card(
        chassis, 'x', {'VendorId': '0x0000', 'DeviceId': '0xffff', 'SubsystemId': '', 'ClassCode': 'N/A', 'BusNumber': '0xFF'}
    )
    machine.item('FW', uri, Version='version not available', LowestSupportedVersion=None)
    look = machine.look()
    assert ((), [None]) == (look.gaps, [c.version for c in look.accelerators[0].firmware])


def test_what_is_invisible_makes_no_version_equal(machine: Machine) -> None:
    """A version with a character in it that is not shown is another version."""
    uri = gpu(machine)
    for n, version in enumerate(('1.0', '1.0\u200b', '1.0\x00\x00', ' 1.0 ')):
        machine.item(f'FW{n}', uri, Version=version)
    versions = [c.version for c in machine.look().accelerators[0].firmware]
    assert ['1.0', '1.0', '1.0'] == [versions[0], versions[2], versions[3]]
    assert '1.0' != versions[1]


def test_a_long_array_of_links_is_read_in_part_and_told(machine: Machine) -> None:
    """Millions of them would be an attack."""
    uri = gpu(machine)
    item = machine.item('FW', uri)
    machine.tree[item]['RelatedItem'] *= 5000
    look = machine.look()
    assert [(item, 'RelatedItem')] == [(g.ref.uri, g.field) for g in look.gaps]
    assert ['FW'] == [c.id for c in look.accelerators[0].firmware]


def test_no_serial_number_passes_for_another_one_with_its_place(machine: Machine) -> None:
    """However a BMC writes them: two devices never have one identity."""
    place = {'PartLocation': {'ServiceLabel': 'Slot 1'}}
    for n, serial in enumerate(('S', 'S', 'S@Slot 1')):
        more = {'Location': place} if n == 0 else {}
        machine.processor(machine.host, f'GPU{n}', Model='NVIDIA H100 PCIe', SerialNumber=serial, **more)
    assert 3 == len({a.id for a in machine.look().accelerators})


# ------------------------------------------------------------------------------------------------- odd, and understood


@pytest.mark.parametrize(
    ('function', 'found'),
    [
        ({'VendorId': '4318', 'DeviceId': '9008'}, '0x10de:0x2330'),
        ({'VendorId': 4318, 'DeviceId': 9008}, '0x10de:0x2330'),
        ({'VendorId': '0X10DE', 'DeviceId': '0X2330'}, '0x10de:0x2330'),
        ({'VendorId': '10DE', 'DeviceId': '2330'}, '0x10de:0x2330'),
        ({'VendorId': '10deh', 'DeviceId': '2330h'}, '0x10de:0x2330'),
        ({'VendorId': '8086', 'DeviceId': '0b30'}, '0x8086:0x0b30'),
        ({'VendorId': '8086', 'DeviceId': '5600'}, '0x8086:0x5600'),
        ({'VendorId': '1002', 'DeviceId': '7408'}, '0x1002:0x7408'),
        ({'VendorId': '32902', 'DeviceId': '2864'}, '0x8086:0x0b30'),
        ({'VendorId': '5555', 'DeviceId': '41692'}, '0x15b3:0xa2dc'),
    ],
)
def test_ids_are_read_however_they_are_written(machine: Machine, function: dict[str, Any], found: str) -> None:
    """Decimal, with X, without prefix: letters in one id of a function tell the base of the others."""
    chassis = machine.chassis('1')
    gpu(machine, Links={'PCIeDevice': link(f'{chassis}/PCIeDevices/x')})
    machine.card(chassis, 'x', {**function, 'ClassCode': '0x030200'})
    pci = machine.look().accelerators[0].pci
    assert found == f'{pci.vendor_id}:{pci.device_id}'


@pytest.mark.parametrize(
    ('code', 'kind'),
    [
        ('0x120000', Kind.ASIC),
        ('0x000012', Kind.ASIC),
        ('120000', Kind.ASIC),
        (0x120000, Kind.ASIC),
        ('0x1200', Kind.ASIC),
        ('0x030200', Kind.GPU),
        ('0x000203', Kind.GPU),
        ('0x0302', Kind.GPU),
        ('0X030200', Kind.GPU),
        ('0x020000', None),
        ('0x060400', None),
        ('0x000104', None),
    ],
)
def test_a_class_is_read_whatever_the_order_of_its_bytes(machine: Machine, code: Any, kind: Kind | None) -> None:
    """Of a maker that no table knows."""
    machine.card(machine.chassis('1'), 'x', {'VendorId': '0x1fff', 'DeviceId': '0x0001', 'ClassCode': code})
    look = machine.look()
    assert ([kind] if kind else [], ()) == ([a.kind for a in look.accelerators], look.gaps)


@pytest.mark.parametrize('code', ['0x000003', '0x030000'])
def test_a_display_controller_whose_maker_is_known_for_gpus_is_one(machine: Machine, code: str) -> None:
    """With its bytes in the wrong order too; the video chip of a BMC never is."""
    chassis = machine.chassis('1')
    machine.card(chassis, 'x', ids('0x10de', '0xfff0', code))
    machine.card(chassis, 'y', ids('0x102b', '0x0538', code))
    machine.card(chassis, 'z', ids('0x1a03', '0x2000', code), Model='NVIDIA H100')
    assert [Kind.GPU] == [a.kind for a in machine.look().accelerators]


def test_an_address_of_nothing_but_zeros_is_none(machine: Machine) -> None:
    """The host bridge stands there: it joins no two cards."""
    for n in range(2):
        machine.card(machine.chassis(f'{n}', 'Drawer'), 'x', ids('0x10de', '0x2330', '0x030200', bus=0))
    assert [None, None] == [a.pci.address for a in machine.look().accelerators]


@pytest.mark.parametrize(
    ('related', 'firmware'),
    [
        ('{gpu}', True),
        ('{gpu}/', True),
        ('{gpu}#/Model', True),
        ('{chassis}', True),
        ('{chassis}/PCIeDevices/x', True),
        ('{chassis}/PCIeDevices/x/PCIeFunctions/0', True),
        ('{gpu}/SubProcessors/1', True),
        ('{trust}', True),
        ('{trust}/TrustedComponents/1', True),
        ('{host}', False),
        ('{host}/Bios', False),
        ('/redfish/v1/Managers/1', False),
        ('https://198.51.100.7{gpu}', False),
    ],
)
def test_firmware_is_its_devices_by_what_it_is_related_to(machine: Machine, related: str, firmware: bool) -> None:
    """The device, something of it or below it, its root of trust; not the System it is in, and nothing on another host."""
    chassis = machine.chassis('G0', 'Component', SerialNumber='S0')
    uri = gpu(machine, Links={'Chassis': link(chassis), 'PCIeDevice': link(f'{chassis}/PCIeDevices/x')})
    machine.card(chassis, 'x', H100, SerialNumber='S0')
    trust = machine.chassis('RoT', 'Component', Links={'Oem': {'Contoso': {'ComponentsProtected': links(uri)}}})
    machine.item('FW', related.format(gpu=uri, chassis=chassis, trust=trust, host=machine.host))
    assert (['FW'] if firmware else []) == [c.id for c in machine.look().accelerators[0].firmware]


def test_an_adapters_images_are_its_firmware(machine: Machine) -> None:
    """Where an adapter names them and they name nobody."""
    chassis = machine.chassis('1')
    controller = {
        'Links': {
            'ActiveSoftwareImage': link(f'{SERVICE}/FirmwareInventory/N'),
            'PCIeDevices': links(f'{chassis}/PCIeDevices/x'),
        }
    }
    machine.card(chassis, 'x', ids('0x15b3', '0xa2dc', '0x020000'))
    machine.below(chassis, 'NetworkAdapters', 'N1', Controllers=[controller])
    machine.item('N', Version='24')
    assert [('N', '24')] == [(c.id, c.version) for c in machine.look().accelerators[0].firmware]


def test_an_image_that_waits_is_never_the_version_that_runs(machine: Machine) -> None:
    """Staged and not active, without a twin: what runs is unknown."""
    machine.item('NEXT', gpu(machine), Version='2', Active=False, Staged=True)
    assert [('NEXT', None, '2')] == [(c.id, c.version, c.staged) for c in machine.look().accelerators[0].firmware]


@pytest.mark.parametrize(
    ('running', 'components'), [('1.0', [('FW', '1.0', '2.0')]), ('1.1', [(None, '1.1', '2.0'), ('FW', '1.0', None)])]
)
def test_what_a_card_says_is_staged_belongs_to_what_it_runs(machine: Machine, running: str, components: list[Any]) -> None:
    """PCIeDevice.StagedVersion is of the image that FirmwareVersion is of; else it is a component of its own."""
    card = machine.card(machine.chassis('1'), 'x', H100, FirmwareVersion=running, StagedVersion='2.0')
    machine.item('FW', card, Version='1.0')
    assert components == [(c.id, c.version, c.staged) for c in machine.look().accelerators[0].firmware]


def test_the_lowest_version_that_can_go_on_it_is_kept(machine: Machine) -> None:
    """LowestSupportedVersion."""
    machine.item('FW', gpu(machine), LowestSupportedVersion='0.9 ')
    assert ['0.9'] == [c.lowest_supported for c in machine.look().accelerators[0].firmware]


def test_links_to_other_hosts_are_nobodys(machine: Machine) -> None:
    """They are not followed, and join nothing."""
    gpu(machine, Links={'PCIeDevice': link('https://198.51.100.7/redfish/v1/Chassis/1/PCIeDevices/x')})
    machine.card(machine.chassis('1'), 'x', ids('0x10ee', '0x5004', '0x120000'))
    assert [1, 1] == sorted(len([r for r in a.refs if 'Functions' not in r.uri]) for a in machine.look().accelerators)


# -------------------------------------------------------------------------------------------------------- bounded work


class Walked:
    """What identify asks of a walk, without a BMC."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.gaps = tree.gaps

    @staticmethod
    def place(uri: str) -> str:
        """A URI as the tree's keys are."""
        return uri.rstrip('/')

    settled = place

    def promise(self, *_: object) -> None:
        """All that is linked is there."""


def view(uri: str, gaps: list[Gap], **body: Any) -> ResourceView:
    """A resource."""
    return ResourceView(Ref(bmc=HOST, uri=uri), {'@odata.id': uri, 'Id': uri.rsplit('/', 1)[-1], **body}, gaps)


def _chain(n: int, gaps: list[Gap]) -> dict[str, Any]:
    """Each in a chassis of its own, all with one UUID and one serial number."""
    uris = [f'{ROOT}/Chassis/{i}/PCIeDevices/x' for i in range(n)]
    same = {'UUID': 'f72d6f70-5675-41ed-9b6a-0242ac120002', 'SerialNumber': 'S', 'Model': 'NVIDIA H100'}
    return {'pcie_devices': {uri: view(uri, gaps, **same) for uri in uris}}


def _siblings(n: int, gaps: list[Gap]) -> dict[str, Any]:
    """All in one collection, with one UUID, one slot, one number, and links to one processor."""
    uris = [f'{ROOT}/Chassis/1/PCIeDevices/GPU_{i % 7}_x{i}' for i in range(n)]
    gpu = f'{ROOT}/Systems/1/Processors/GPU0'
    same = {
        'UUID': 'f72d6f70-5675-41ed-9b6a-0242ac120002',
        'SerialNumber': 'S',
        'Model': 'NVIDIA H100',
        'Slot': {'Location': {'PartLocation': {'ServiceLabel': '1'}}},
        'Links': {'Processors': links(gpu)},
    }
    return {
        'pcie_devices': {uri: view(uri, gaps, **same) for uri in uris},
        'processors': {gpu: view(gpu, gaps, ProcessorType='GPU')},
    }


def _modules(n: int, gaps: list[Gap]) -> dict[str, Any]:
    """Modules that all say they contain all others, each with a manager, and all of them DPUs."""
    uris = [f'{ROOT}/Chassis/{i}' for i in range(n)]
    body = {'ChassisType': 'Module', 'Model': 'BlueField-3', 'Links': {'Contains': links(*uris[:20])}}
    managers = {f'{ROOT}/Managers/{i}': {'Links': {'ManagerInChassis': link(uri)}} for i, uri in enumerate(uris)}
    return {
        'chassis': {uri: view(uri, gaps, **body) for uri in uris},
        'managers': {uri: view(uri, gaps, **b) for uri, b in managers.items()},
    }


def _calls(shape: Callable[[int, list[Gap]], dict[str, Any]], n: int) -> int:
    """How many functions are called to make sense of a tree of that size."""
    gaps = Gaps()
    tables = shape(n, gaps)
    functions = {}
    for uri in tables.get('pcie_devices', {}):
        place = f'{uri}/PCIeFunctions/0'
        functions[uri] = (view(place, gaps, **H100),)
    places = [f'{SERVICE}/FirmwareInventory/GPU_{i}' for i in range(n)]
    items = {uri: view(uri, gaps, RelatedItem=links(f'{ROOT}/Nowhere/{i}/deep/down')) for i, uri in enumerate(places)}
    walk: Any = Walked(DiscoveredTree(gaps=gaps, root=view(ROOT, gaps), functions=functions, items=items, **tables))
    count = 0

    def counted(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ('call', 'c_call')

    sys.setprofile(counted)
    try:
        found, _ = identify(walk, shipped())
        identities(found, HOST)
        assign(walk, found, Quirks())
    finally:
        sys.setprofile(None)
    assert found
    return count


@pytest.mark.parametrize('shape', [_chain, _siblings, _modules])
def test_ten_times_the_devices_take_ten_times_the_work(shape: Callable[[int, list[Gap]], dict[str, Any]]) -> None:
    """A BMC that lists thousands of devices, all alike, does not hold up the fleet: the work does not grow by the square."""
    assert 14 > _calls(shape, 1500) / _calls(shape, 150)

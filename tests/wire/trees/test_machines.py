# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every accelerator of a machine is found once, whatever shape its tree has. Invented trees in the shapes of known machines."""

from datetime import UTC, datetime
from typing import Any

import pytest

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.registry import known_devices
from baremetal_acc.model.accelerator import COMPUTATIONAL_STORAGE, IdentitySource, Kind
from baremetal_acc.model.ref import HOST
from tests.wire.trees.build import H100, ROOT, Machine, ids, link, links

UUID = '11111111-2222-4333-8444-00000000000{}'


def uris(accelerator: Any) -> set[str]:
    """All resources of a device."""
    return {ref.uri for ref in accelerator.refs}


# ------------------------------------------------------------------------------------------------ machines, one by one


def test_cards_of_an_openbmc_host_are_listed_below_system_and_chassis(machine: Machine) -> None:
    """CPUs are the only Processors; each GPU is a PCIeDevice twice, under two URIs without links between them."""
    machine.processor(machine.host, 'cpu0', 'CPU', Model='EPYC', SerialNumber='C1')
    chassis = machine.chassis('board')
    listed = []
    for n in range(2):
        machine.card(chassis, f'pcie{n}', ids('0x1002', '0x74a1', '0x120000', bus=0x21 + n), Model='MI300X')
        uri = machine.put(
            f'{machine.host}/PCIeDevices/drive{n}', PCIeFunctions=link(f'{machine.host}/PCIeDevices/drive{n}/PCIeFunctions')
        )
        machine.bmc.collection(f'{uri}/PCIeFunctions', '0')
        machine.put(f'{uri}/PCIeFunctions/0', **ids('0x1002', '0x74a1', '0x120000', bus=0x21 + n))
        listed.append(uri)
    machine.tree[machine.host]['PCIeDevices'] = links(*listed)
    found = machine.look().accelerators
    assert [Kind.GPU] * 2 == [a.kind for a in found]
    assert ['0000:21:00.0', '0000:22:00.0'] == sorted(a.pci.address for a in found)
    assert [1, 1] == [len([u for u in uris(a) if u in listed]) for a in found]


def test_gpus_of_a_baseboard_hang_under_a_system_of_their_own(machine: Machine) -> None:
    """Eight GPUs, their modules and roots of trust; the host's System knows CPUs only, which are modules too."""
    board = machine.system('HGX_Baseboard_0')
    for n in range(2):
        module = machine.chassis(f'HGX_CPU_{n}', 'Module', Model='Grace', SerialNumber=f'CPU{n}')
        machine.processor(machine.host, f'CPU_{n}', 'CPU', SerialNumber=f'CPU{n}', Links={'Chassis': link(module)})
        machine.processor(board, f'CPU_{n}', 'CPU', SerialNumber=f'CPU{n}', Links={'Chassis': link(module)})
    for n in range(8):
        chassis = machine.chassis(f'HGX_GPU_SXM_{n}', 'Component', Model='NVIDIA GB200', SerialNumber=f'G{n}')
        gpu = machine.processor(
            board, f'GPU_SXM_{n}', Model='NVIDIA GB200', SerialNumber=f'G{n}', UUID=UUID.format(n), FirmwareVersion='97.00',
            Links={'Chassis': link(chassis), 'PCIeDevice': link(f'{chassis}/PCIeDevices/GPU_SXM_{n}')},
        )  # fmt: skip
        machine.card(chassis, f'GPU_SXM_{n}', ids('0x10de', '0x2941'), SerialNumber=f'G{n}')
        trust = machine.chassis(
            f'HGX_IRoT_GPU_SXM_{n}',
            'Component',
            UUID=UUID.format(9),
            Links={'Oem': {'Contoso': {'ComponentsProtected': links(gpu)}}},
        )
        machine.item(f'HGX_FW_GPU_SXM_{n}', chassis, Version='97.00  ')
        machine.item(f'HGX_FW_IRoT_GPU_SXM_{n}', trust)
    look = machine.look()
    assert [f'uuid:{UUID.format(n)}' for n in range(8)] == [a.id for a in look.accelerators]
    assert {('HGX_FW_GPU_SXM_3', '97.00'), ('HGX_FW_IRoT_GPU_SXM_3', '1.0')} == {
        (c.id, c.version) for c in look.accelerators[3].firmware
    }
    assert {f'{ROOT}/Chassis/HGX_GPU_SXM_3', f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_SXM_3'} <= uris(
        look.accelerators[3]
    )
    assert machine.host == look.facts.system.uri


def test_partitions_of_a_gpu_are_no_gpus(machine: Machine) -> None:
    """Beside it in one collection, or below it; that they link the same card takes the card from nobody."""
    chassis = machine.chassis('1')
    card = machine.card(chassis, 'oam0', ids('0x1002', '0x74a1', '0x120000'))
    below = {'Links': {'PCIeDevice': link(card)}, 'Model': 'AMD Instinct MI300X'}
    machine.processor(machine.host, 'A_part0', 'Partition', **below)
    gpu = machine.processor(machine.host, 'GPU0', **below)
    machine.below(gpu, 'SubProcessors', 'MIG0', ProcessorType='GPU', Model='AMD Instinct MI300X')
    machine.processor(machine.host, 'core0', 'Core', **below)
    (found,) = machine.look().accelerators
    assert {gpu, card} <= uris(found)


def test_eight_oam_modules_without_serial_numbers_are_eight(machine: Machine) -> None:
    """Nothing but their places tells them apart."""
    tray = machine.system('UBB')
    for n in range(8):
        machine.processor(tray, f'GPU{n}', Manufacturer='AMD', Model='AMD Instinct MI300X OAM', SerialNumber='', UUID='')
    found = machine.look().accelerators
    assert [(IdentitySource.URI, 'AMD')] * 8 == [(a.identity, a.vendor) for a in found]


@pytest.mark.parametrize('kind', ['Accelerator', 'OEM', 'NPU'])
def test_an_ai_chip_is_known_by_its_model_or_its_type(machine: Machine, kind: str) -> None:
    """Whatever word the BMC uses for its type."""
    chassis = machine.chassis('1')
    card = machine.card(chassis, 'hl', ids('0x1da3', '0x1060', '0x120000'), Manufacturer='Habana Labs')
    machine.processor(machine.host, 'hl', kind, Model='HL-325L', Links={'PCIeDevice': link(card)})
    (found,) = machine.look().accelerators
    assert (Kind.ASIC, 'HL-325L') == (found.kind, found.model)


def test_a_gpu_that_is_called_an_accelerator_is_a_gpu(machine: Machine) -> None:
    """The standard's word for all of them: the model says which."""
    maker = 'Advanced Micro Devices, Inc. [AMD/ATI]'
    machine.processor(machine.host, 'ProcAccelerator.Slot.21-1', 'Accelerator', Manufacturer=maker, Model='AMD Instinct MI300X')
    (found,) = machine.look().accelerators
    assert (Kind.GPU, 'AMD', 'Slot 21') == (found.kind, found.vendor, found.location)


@pytest.mark.parametrize(
    ('maker', 'model', 'kind'),
    [('NVIDIA', 'A100', 'GPU'), ('NVIDIA Corporation', 'B200', 'GPU'), ('NVIDIA', 'B3220', None), ('Contoso', 'A100', None)],
)
def test_a_short_model_counts_with_its_maker(machine: Machine, maker: str, model: str, kind: str | None) -> None:
    """Some BMCs write the maker beside the model only."""
    machine.below(machine.host, 'GraphicsControllers', '1', Manufacturer=maker, Model=model)
    machine.card(machine.chassis('1'), 'x', Manufacturer=maker, Model=model)
    assert {kind} - {None} == set(machine.kinds())


def test_a_processor_of_an_unknown_type_may_hide_an_accelerator(machine: Machine) -> None:
    """It is said, and nobody passes a machine on in which something may be that nobody looked at."""
    machine.processor(machine.host, 'npu', 'NPU', Model='Contoso 1')
    look = machine.look()
    assert ((), [('ProcessorType', True)]) == (look.accelerators, [(g.field, g.hides) for g in look.gaps])


def test_a_processor_that_shows_nothing_at_all_hides(machine: Machine) -> None:
    """Whole accelerators were seen that show no more (modules of the form OAM that have no type)."""
    machine.processor(machine.host, 'P1', None)
    assert [('ProcessorType', True)] == [(g.field, g.hides) for g in machine.look().gaps]


def test_the_operator_takes_out_what_nobody_knows(machine: Machine, tmp_path: Any) -> None:
    """A row of kind none by the model: no accelerator, and no gap any more."""
    machine.processor(machine.host, 'npu', 'NPU', Model='Contoso 1')
    (tmp_path / 'own.toml').write_text('format = 1\n[[device]]\nkind = "none"\nnames = ["contoso *"]\n')
    driver = RedfishDriver(known_devices(tmp_path), dial=machine.bmc.dial)
    with driver.connect(BmcAddress(name=HOST, address='https://192.0.2.1')) as connection:
        look = connection.look(datetime(2026, 11, 21, tzinfo=UTC))
    assert ((), ()) == (look.accelerators, look.gaps)


def test_an_fpga_card_has_slots_and_functions_with_their_state(machine: Machine) -> None:
    """Intel's PAC in the standard's words: Processor with FPGA, and the card with its network function beside it."""
    chassis = machine.chassis('1')
    card = machine.card(
        chassis,
        'pac',
        ids('0x8086', '0x0cf8', '0x020000', bus=3),
        ids('0x8086', '0x0b30', '0x120000', bus=4),
        Model='PAC N3000',
    )
    uri = f'{machine.host}/Processors/FPGA1'
    slots = [
        {'SlotId': 'AFU0', 'AccelerationFunction': link(f'{uri}/AccelerationFunctions/gzip'), 'ProgrammableFromHost': False}
    ]
    machine.processor(
        machine.host,
        'FPGA1',
        'FPGA',
        FPGA={'FpgaType': 'Discrete', 'ReconfigurationSlots': slots},
        Links={'PCIeDevice': link(card)},
    )
    machine.below(
        uri,
        'AccelerationFunctions',
        'gzip',
        AccelerationFunctionType='Compression',
        Version='2',
        Status={'State': 'Disabled', 'Health': 'Warning'},
    )
    (found,) = machine.look().accelerators
    assert (Kind.FPGA, '0x0b30', '0000:04:00.0') == (found.kind, found.pci.device_id, found.pci.address)
    assert ('gzip', '2', 'Disabled', 'Warning') == (
        found.slots[0].function.id, found.slots[0].function.version, found.functions[0].state, found.functions[0].health,
    )  # fmt: skip


def test_an_fpga_card_that_is_a_network_adapter_too_is_one(machine: Machine) -> None:
    """An Alveo U250 that a BMC lists as card and as adapter; a plain NIC beside it is nothing."""
    chassis = machine.chassis('1')
    card = machine.card(
        chassis, 'slot4', ids('0x10ee', '0x5004', '0x120000'), ids('0x10ee', '0x5005', '0x120000'), SerialNumber='XFL1'
    )
    adapter = machine.below(
        chassis, 'NetworkAdapters', 'slot-4', Model='Alveo U250', Controllers=[{'Links': {'PCIeDevices': links(card)}}]
    )
    machine.card(chassis, 'slot5', ids('0x8086', '0x1593', '0x020000'), SerialNumber='N1', Model='E810')
    machine.below(chassis, 'NetworkAdapters', 'slot-5', Model='E810', SerialNumber='N1')
    (found,) = machine.look().accelerators
    assert (Kind.FPGA, 'serial:XFL1', 'Alveo U250') == (found.kind, found.id, found.model)
    assert {card, adapter} <= uris(found)


def test_a_smartnic_is_an_adapter_with_processors(machine: Machine) -> None:
    """An FPGA below it makes it an FPGA; cores of which nobody shows a System make it an accelerating NIC."""
    chassis = machine.chassis('1')
    for name, kind in (('A', 'FPGA'), ('B', 'CPU')):
        adapter = machine.below(chassis, 'NetworkAdapters', name, Model=f'Contoso {name}', SerialNumber=name)
        machine.processor(adapter, 'P1', kind)
    found = {a.serial: a.kind for a in machine.look().accelerators}
    assert {'A': Kind.FPGA, 'B': Kind.NIC} == found


def test_a_dpu_in_nic_mode_is_a_dpu(machine: Machine) -> None:
    """The card is what it is; its UUID is empty in this mode."""
    chassis = machine.chassis('1')
    machine.card(
        chassis,
        'slot1',
        ids('0x15b3', '0xa2dc', '0x020000'),
        ids('0x15b3', '0xc2d5', '0x080100'),
        UUID='',
        SerialNumber='MT1  ',
    )
    (found,) = machine.look().accelerators
    assert (Kind.DPU, None, 'serial:MT1') == (found.kind, found.uuid, found.id)


def test_a_dpus_own_system_in_the_hosts_tree_is_the_card(machine: Machine) -> None:
    """SystemType DPU; the host that is handed out stays the host."""
    card = machine.chassis('Card1', 'Card', Model='Contoso DPU', SerialNumber='D1')
    machine.system('SoC', SystemType='DPU', UUID=UUID.format(1), Links={'Chassis': links(card)})
    machine.below(card, 'NetworkAdapters', '1', SerialNumber='ELSE')
    look = machine.look()
    (found,) = look.accelerators
    assert (Kind.DPU, f'uuid:{UUID.format(1)}', machine.host) == (found.kind, found.id, look.facts.system.uri)
    assert {card, f'{card}/NetworkAdapters/1', f'{ROOT}/Systems/SoC'} <= uris(found)


def test_a_computational_drive_is_an_fpga_that_stores(machine: Machine) -> None:
    """A drive and an FPGA on one card: kind by what computes, a trait for the rest; a plain NVMe drive is nothing."""
    chassis = machine.chassis('1')
    drive = f'{machine.host}/Storage/1/Drives/1'
    nvme = ids('0x144d', '0xa824', '0x010802', Links={'Drives': links(drive)})
    card = machine.card(chassis, 'bay1', nvme, ids('0x10ee', '0x6987', '0x120000'), Model='SmartSSD', SerialNumber='S1')
    machine.card(chassis, 'bay2', ids('0x144d', '0xa824', '0x010802'), Model='PM1733', SerialNumber='S2')
    machine.item('drive1', drive, Version='3.1')
    (found,) = machine.look().accelerators
    assert (Kind.FPGA, '0x6987') == (found.kind, found.pci.device_id)
    assert COMPUTATIONAL_STORAGE in found.traits
    assert {card, drive} <= uris(found)
    assert [('drive1', '3.1')] == [(c.id, c.version) for c in found.firmware]


def test_a_computational_drive_of_an_unknown_maker_is_found_by_its_class(machine: Machine) -> None:
    """A storage function and a processing accelerator beside it, or a processor that links the drive's function."""
    chassis = machine.chassis('1')
    machine.card(chassis, 'a', ids('0x1fff', '0x0001', '0x010802'), ids('0x1fff', '0x0002', '0x120000'))
    card = machine.card(chassis, 'b', ids('0x1fff', '0x0003', '0x010802'))
    machine.processor(machine.host, 'csp', 'Accelerator', Links={'PCIeFunctions': links(f'{card}/PCIeFunctions/0')})
    found = machine.look().accelerators
    assert [(Kind.ASIC, True)] * 2 == [(a.kind, COMPUTATIONAL_STORAGE in a.traits) for a in found]


def test_a_graphics_controller_is_a_view_of_its_gpu(machine: Machine) -> None:
    """By its links; the version of its BIOS counts where nothing else shows one."""
    chassis = machine.chassis('1')
    card = machine.card(chassis, 'g', H100, SerialNumber='G1')
    seen = machine.below(machine.host, 'GraphicsControllers', 'VGA1', BiosVersion='90.1', Links={'PCIeDevice': link(card)})
    (found,) = machine.look().accelerators
    assert {card, seen} <= uris(found)
    assert [(None, '90.1')] == [(c.id, c.version) for c in found.firmware]


def test_a_gpu_that_only_a_graphics_controller_shows_is_found_by_its_model(machine: Machine) -> None:
    """One that no table knows is said and not taken for one."""
    machine.below(machine.host, 'GraphicsControllers', 'G1', Model='NVIDIA A40', SerialNumber='G1')
    machine.below(machine.host, 'GraphicsControllers', 'G2', Model='Contoso VGA')
    look = machine.look()
    assert [(Kind.GPU, 'serial:G1')] == [(a.kind, a.id) for a in look.accelerators]
    assert [f'{machine.host}/GraphicsControllers/G2'] == [g.ref.uri for g in look.gaps]


def test_a_gpu_that_only_a_chassis_shows_is_found(machine: Machine) -> None:
    """A module with the name of a GPU; beside a GPU that is shown properly such a module adds none."""
    machine.chassis('OAM_0', 'Module', Model='AMD Instinct MI300X', SerialNumber='M0')
    machine.chassis('OAM_1', 'Module', Model='AMD Instinct MI300X', SerialNumber='M1', Status={'State': 'Absent'})
    assert ['serial:M0'] == [a.id for a in machine.look().accelerators]
    machine.processor(machine.host, 'GPU0', Model='AMD Instinct MI300X', SerialNumber='M7')
    assert ['serial:M7'] == [a.id for a in machine.look().accelerators]


def test_a_root_without_links_is_guessed(machine: Machine) -> None:
    """Seen on AMI's service until its BMC is reset."""
    gpu = machine.processor(machine.host, 'GPU0', Model='NVIDIA H100 PCIe', SerialNumber='1')
    machine.item('GPU0_FW', gpu, Version='9')
    machine.tree[ROOT] = {'@odata.id': ROOT, 'RedfishVersion': '1.15.0', 'Id': 'Root', 'Name': 'Root'}
    (found,) = machine.look().accelerators
    assert [('GPU0_FW', '9')] == [(c.id, c.version) for c in found.firmware]


def test_a_gpu_in_an_enclosure_beside_the_server_is_found(machine: Machine) -> None:
    """Reached by Links.Contains and by the enclosure's own list of processors; neither is in a collection of the root."""
    machine.chassis('1', Links={'Contains': links(f'{ROOT}/Chassis/JBOG')})
    box = machine.put(f'{ROOT}/Chassis/JBOG', ChassisType='Expansion')
    machine.card(box, 'g0', H100, SerialNumber='E0')
    machine.processor(box, 'pool0', Model='NVIDIA H100 PCIe', SerialNumber='E1')
    assert ['serial:E0', 'serial:E1'] == [a.id for a in machine.look().accelerators]


def test_a_composed_system_lists_its_processors_once_more(machine: Machine) -> None:
    """The same URI, or another one for the same card."""
    gpu = machine.processor(machine.host, 'GPU0', Model='NVIDIA H100 PCIe', UUID=UUID.format(1), SerialNumber='1')
    composed = machine.system('composed', SystemType='Composed')
    machine.tree[composed]['Processors'] = links(gpu)
    virtual = machine.system('virtual', SystemType='Virtual')
    again = machine.processor(virtual, 'G', Model='H100', UUID=UUID.format(1).upper(), SerialNumber='1')
    (found,) = machine.look().accelerators
    assert {gpu, again} <= uris(found)


# ----------------------------------------------------------------------------------------------- one card, one resource


def test_a_riser_is_no_part_of_the_card_in_it(machine: Machine) -> None:
    """Nor does its serial number identify the card."""
    riser = machine.chassis('Riser2', 'Card', Name='PCIe Riser 2', SerialNumber='R2', PartNumber='RP')
    machine.card(riser, 'gpu', H100)
    (found,) = machine.look().accelerators
    assert (None, None, False) == (found.serial, found.part_number, riser in uris(found))


def test_a_carrier_with_another_serial_number_is_no_part_of_the_card_in_it(machine: Machine) -> None:
    """Whatever it is called."""
    carrier = machine.chassis('Slot7', 'Module', SerialNumber='K7')
    gpu = machine.processor(machine.host, 'GPU0', Model='NVIDIA A30', SerialNumber='G0', Links={'Chassis': link(carrier)})
    (found,) = machine.look().accelerators
    assert ('G0', True, False) == (found.serial, gpu in uris(found), carrier in uris(found))


def test_one_chassis_with_two_gpus_is_neither(machine: Machine) -> None:
    """It would join them."""
    tray = machine.chassis('M1', 'Module', SerialNumber='T')
    for n in range(2):
        machine.processor(machine.host, f'GPU{n}', Model='NVIDIA A30', Links={'Chassis': link(tray)})
    assert [IdentitySource.URI] * 2 == [a.identity for a in machine.look().accelerators]


def test_a_board_with_two_gpus_has_two(machine: Machine) -> None:
    """One PCIeDevice, two processors: each has the functions that name it."""
    chassis = machine.chassis('1')
    gpus = [f'{machine.host}/Processors/GPU{n}' for n in range(2)]
    functions = [ids('0x10de', '0x13f2', '0x030200', bus=5 + n, Links={'Processor': link(gpus[n])}) for n in range(2)]
    card = machine.card(chassis, 'm60', *functions, Links={'Processors': links(*gpus)})
    for n in range(2):
        machine.processor(machine.host, f'GPU{n}', Model='Tesla M60', Links={'PCIeDevice': link(card)})
    found = machine.look().accelerators
    assert {gpus[0]: '0000:05:00.0', gpus[1]: '0000:06:00.0'} == {a.primary.uri: a.pci.address for a in found}


def test_functions_of_one_card_do_not_count(machine: Machine) -> None:
    """Sound, USB and a bridge beside the GPU: the card is shown with the ids of what computes."""
    chassis = machine.chassis('1')
    sound, serial = ids('0x10de', '0x10f0', '0x040300'), ids('0x10de', '0x1ad9', '0x0c8000')
    machine.card(chassis, 'x', sound, ids('0x10de', '0x1eb8', '0x030200'), serial)
    (found,) = machine.look().accelerators
    assert ('0x1eb8', '0x030200') == (found.pci.device_id, found.pci.class_code)


@pytest.mark.parametrize('shown', [{'Links': {'Switch': link('/redfish/v1/Fabrics/P/Switches/1')}}, {'PCIeFunctions': None}])
def test_a_switch_is_no_gpu_whatever_its_name(machine: Machine, shown: dict[str, Any]) -> None:
    """A switch board is named after the cards that it carries."""
    chassis = machine.chassis('1')
    functions = [ids('0x10b5', '0x8796', '0x060400')] if 'Links' not in shown else []
    machine.card(chassis, 'sw', *functions, Model='NVIDIA A100 PCIe switch', **({} if functions else shown))
    assert [] == machine.kinds()


def test_a_processor_and_a_card_of_one_slot_are_one(machine: Machine) -> None:
    """No link, no serial number; both say what is printed at the slot."""
    chassis = machine.chassis('1')
    for n in (3, 5):
        place = {'Location': {'PartLocation': {'ServiceLabel': f'Slot {n}'}}}
        machine.card(chassis, f'{n}-0', H100, Slot=place)
        machine.processor(machine.host, f'P{9 - n}', Model='NVIDIA H100 PCIe', **place)
    found = machine.look().accelerators
    assert {('P6', '3-0'), ('P4', '5-0')} == {
        tuple(u.rsplit('/', 1)[-1] for u in sorted(uris(a), reverse=True) if 'Functions' not in u) for a in found
    }


def test_equal_labels_in_two_trays_are_two_places(machine: Machine) -> None:
    """Slot 1 of one enclosure is not slot 1 of another."""
    for tray in ('A', 'B'):
        chassis = machine.chassis(tray, 'Drawer')
        machine.card(chassis, 'gpu', H100, Slot={'Location': {'PartLocation': {'ServiceLabel': 'Slot 1'}}})
    assert ['GPU', 'GPU'] == machine.kinds()


def test_a_processor_and_a_card_of_one_number_are_one(machine: Machine) -> None:
    """GPU2 is GPU2, where nothing says otherwise."""
    chassis = machine.chassis('1')
    for n in (1, 2):
        machine.card(chassis, f'GPU{n}', H100)
        machine.processor(machine.host, f'GPU_{n}', Model='NVIDIA H100 PCIe')
    assert [2, 2] == [len([u for u in uris(a) if 'Functions' not in u]) for a in machine.look().accelerators]


def test_processors_and_cards_that_nothing_tells_apart_are_counted_once(machine: Machine) -> None:
    """Two cards without any identity: two accelerators, and gaps that say what was guessed."""
    chassis = machine.chassis('1')
    for n in range(2):
        machine.card(chassis, f'0-{n}', H100)
        machine.processor(machine.host, f'P{n}', Manufacturer='NVIDIA', Model='NVIDIA H100 PCIe')
    look = machine.look()
    assert (2, 2) == (len(look.accelerators), sum('by order' in g.reason for g in look.gaps))


def test_what_a_bios_hands_over_is_no_second_set_of_cards(machine: Machine) -> None:
    """A baseboard shows eight GPUs with all they are; the host's System lists their cards once more, nameless."""
    board = machine.system('HGX_Baseboard_0')
    for n in range(8):
        chassis = machine.chassis(f'HGX_GPU_SXM_{n}', 'Module', SerialNumber=f'G{n}')
        card = machine.card(chassis, f'GPU_SXM_{n}', ids('0x10de', '0x2330'), SerialNumber=f'G{n}')
        machine.processor(board, f'GPU_SXM_{n}', Model='H100', SerialNumber=f'G{n}', Links={'PCIeDevice': link(card)})
        machine.card(machine.host, f'0000_{9 - n}b_00', ids('0x10DE', '0x2330', '0x030200', bus=0x9B - 16 * n))
    look = machine.look()
    assert [f'serial:G{n}' for n in range(8)] == [a.id for a in look.accelerators]
    assert {None} == {a.pci.address for a in look.accelerators}
    assert 8 == sum('by order' in g.reason for g in look.gaps)


def test_a_card_that_shows_no_serial_number_beside_one_that_does_is_a_second_card(machine: Machine) -> None:
    """One list of cards, no processors: nothing says that they are one."""
    for n, more in enumerate(({'SerialNumber': 'G0'}, {})):
        machine.card(machine.chassis(f'D{n}', 'Drawer'), 'gpu', H100, **more)
    assert ['GPU', 'GPU'] == machine.kinds()


def test_a_card_with_an_identity_of_its_own_is_no_nameless_view(machine: Machine) -> None:
    """One GPU with its card, and beside it a card that says who it is: two."""
    chassis = machine.chassis('1')
    inner = machine.card(chassis, 'a', ids('0x10de', '0x2330'))
    machine.processor(machine.host, 'P', Model='H100', UUID=UUID.format(1), Links={'PCIeDevice': link(inner)})
    machine.card(machine.host, 'b', ids('0x10de', '0x2330', '0x030200'), SerialNumber='OWN')
    assert ['serial:OWN', f'uuid:{UUID.format(1)}'] == [a.id for a in machine.look().accelerators]


def test_an_adapter_and_a_card_of_one_dpu_are_one(machine: Machine) -> None:
    """One DPU of its model, listed as adapter and as PCIe device; nothing links them."""
    chassis = machine.chassis('1')
    adapter = machine.below(chassis, 'NetworkAdapters', 'A', Model='BlueField-3 B3220', SerialNumber='MT1')
    card = machine.card(chassis, '17-0', ids('0x15b3', '0xa2dc', '0x020000'))
    (found,) = machine.look().accelerators
    assert {adapter, card} <= uris(found)
    assert ('serial:MT1', '0xa2dc') == (found.id, found.pci.device_id)


def test_more_cards_than_processors_stay_apart(machine: Machine) -> None:
    """Nobody knows which of them is the one: rather one too many than one too few."""
    chassis = machine.chassis('1')
    for n in range(2):
        machine.card(chassis, f'0-{n}', H100)
    machine.processor(machine.host, 'P0', Model='NVIDIA H100 PCIe')
    assert 3 == len(machine.look().accelerators)


def test_two_cards_of_one_list_are_two_though_one_has_a_processor_and_the_other_nothing(machine: Machine) -> None:
    """As many cards were left as processors, and it was taken for a second view: a GPU was lost, with a gap that hid none."""
    chassis = machine.chassis('1')
    cards = [machine.card(chassis, f'C{n}', H100) for n in range(2)]
    machine.processor(machine.host, 'P', Model='NVIDIA H100 PCIe', Links={'PCIeDevice': link(cards[0])})
    assert sorted([{cards[0]}, {cards[1]}], key=str) == sorted(
        (uris(a) & {*cards} for a in machine.look().accelerators), key=str
    )


def test_one_serial_number_in_two_trays_is_two_cards_if_their_uuids_differ(machine: Machine) -> None:
    """Serial numbers repeat; a second UUID of the same sort of resource is a second card."""
    for n, tray in enumerate('AB'):
        machine.card(
            machine.chassis(tray, 'Drawer'), 'gpu', H100, SerialNumber='SAME', Model='NVIDIA H100', UUID=UUID.format(n)
        )
    look = machine.look()
    assert [f'uuid:{UUID.format(n)}' for n in range(2)] == [a.id for a in look.accelerators]
    assert any('treated as different devices' in g.reason for g in look.gaps)


def test_a_repeated_serial_number_with_its_place_identifies(machine: Machine) -> None:
    """Serial number and location, where the serial number alone is that of two."""
    for n in range(2):
        place = {'PartLocation': {'ServiceLabel': f'Slot {n}'}}
        machine.processor(machine.host, f'GPU{n}', Model='NVIDIA H100 PCIe', SerialNumber='SAME', Location=place)
    found = machine.look().accelerators
    assert ['serial:SAME@Slot 0', 'serial:SAME@Slot 1'] == [a.id for a in found]
    assert {IdentitySource.SERIAL} == {a.identity for a in found}


def test_a_place_without_a_label_has_a_type_and_a_number(machine: Machine) -> None:
    """As the standard has it."""
    place = {'PartLocation': {'LocationType': 'Slot', 'LocationOrdinalValue': 4}}
    machine.processor(machine.host, 'GPU0', Model='NVIDIA H100 PCIe', Location=place)
    assert ['Slot 4'] == [a.location for a in machine.look().accelerators]


@pytest.mark.parametrize(
    ('name', 'location'), [('Video.Slot.2-1', 'Slot 2'), ('slot_15', 'Slot 15'), ('GPU1', None), ('Slots1', None)]
)
def test_an_id_that_names_the_slot_says_the_place(machine: Machine, name: str, location: str | None) -> None:
    """Where nothing else does."""
    machine.card(machine.chassis('1'), name, H100)
    assert [location] == [a.location for a in machine.look().accelerators]


def test_a_cpu_with_the_serial_number_of_a_gpu_is_not_that_gpu(machine: Machine) -> None:
    """A module of both: they have one number, and are members of two collections."""
    board = machine.system('board')
    cpu = machine.processor(machine.host, 'CPU0', 'CPU', Model='NVIDIA GH200', SerialNumber='M1', PartNumber='P')
    machine.processor(board, 'GPU0', Model='NVIDIA GH200', SerialNumber='M1', PartNumber='P')
    (found,) = machine.look().accelerators
    assert cpu not in uris(found)


@pytest.mark.parametrize(
    ('state', 'there'), [('Absent', 0), ('Disabled', 1), ('StandbyOffline', 1), ('UnavailableOffline', 1), (None, 1)]
)
@pytest.mark.parametrize('where', ['processor', 'card', 'graphics'])
def test_a_slot_is_empty_only_where_it_says_absent(machine: Machine, where: str, state: str | None, there: int) -> None:
    """A card that is switched off is there, and can be written."""
    status = {'Status': {'State': state}, 'Model': 'NVIDIA H100 PCIe'}
    match where:
        case 'processor':
            machine.processor(machine.host, 'GPU0', **status)
        case 'card':
            machine.card(machine.chassis('1'), 'x', H100, **status)
        case _:
            machine.below(machine.host, 'GraphicsControllers', 'x', **status)
    found = machine.look().accelerators
    assert [state] * there == [a.state for a in found]


def test_health_is_that_of_the_card_and_of_what_is_below_it(machine: Machine) -> None:
    """Two properties of the standard, each as it is given."""
    machine.processor(
        machine.host, 'GPU0', Model='NVIDIA H100', Status={'State': 'Enabled', 'Health': 'OK', 'HealthRollup': 'Critical'}
    )
    (found,) = machine.look().accelerators
    assert ('OK', 'Critical', 'Enabled') == (found.health, found.health_rollup, found.state)


def test_the_worst_health_of_a_cards_resources_is_the_cards(machine: Machine) -> None:
    """A processor may have no Status at all, or say OK while its card does not."""
    chassis = machine.chassis('1')
    for n, status in enumerate(({}, {'Status': {'State': 'Enabled', 'Health': 'OK'}})):
        card = machine.card(chassis, f'c{n}', H100, Status={'State': 'StandbyOffline', 'Health': 'Critical'})
        machine.processor(machine.host, f'P{n}', Model='NVIDIA H100', Links={'PCIeDevice': link(card)}, **status)
    found = machine.look().accelerators
    assert [('Critical', 'StandbyOffline'), ('Critical', 'Enabled')] == [(a.health, a.state) for a in found]

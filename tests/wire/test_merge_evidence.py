# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Why several resources are one device is written down; where evidence contradicts they stay two, with a gap."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.model.accelerator import Accelerator, MergeBasis
from tests.wire.recorded import bodies, inventory_of
from tests.wire.trees.build import H100, Machine, ids, link, links

ROOT = '/redfish/v1'

_SHARED = Path(os.environ.get('BAREMETAL_ACC_SHARED', Path(__file__).parents[3] / 'shared'))

TREES = sorted(
    str(path.parent.relative_to(_SHARED))
    for kind in ('recordings/*/*', 'cases/trees/*')
    for path in _SHARED.glob(f'{kind}/expected.yaml')
)

VIEW = re.compile(r'/(Processors|PCIeDevices|NetworkAdapters|GraphicsControllers|Chassis|Systems|Managers)/[^/]+$')
"""A resource that is a device, and not only a part of one."""

UUID = '0000000{}-1111-4222-8333-444455556666'

Said = set[tuple[str, tuple[str, ...]]]


@pytest.fixture
def machine(bmc: Any) -> Machine:
    """A machine with one System and nothing in it."""
    return Machine(bmc)


def evidence_of(one: Accelerator) -> Said:
    """Each basis with the URIs that say it."""
    return {(by.basis.value, tuple(ref.uri.removeprefix(ROOT) for ref in by.refs)) for by in one.merged_by}


def reached(one: Accelerator) -> set[str]:
    """What evidence connects with the resource that is shown."""
    found, grows = {one.primary}, True
    while grows:
        more = {ref for by in one.merged_by if not found.isdisjoint(by.refs) for ref in by.refs}
        grows = not more <= found
        found |= more
    return {ref.uri for ref in found}


@pytest.mark.parametrize('name', TREES)
def test_every_view_of_a_device_is_there_for_a_reason(name: str, bmc: Any, shared: Path) -> None:
    """Evidence names resources of the device alone, and leads from the one that is shown to every other that is a device."""
    bmc.tree = bodies(shared / name)
    for one in inventory_of(bmc, **({'system': '/redfish/v1/Systems/Node0'} if 'two-nodes' in name else {})).accelerators:
        refs = {ref.uri for ref in one.refs}
        said = {ref.uri for by in one.merged_by for ref in by.refs}
        assert said <= refs
        assert {uri for uri in refs if VIEW.search(uri)} | said <= reached(one), one.label


@pytest.mark.parametrize(
    ('name', 'primary', 'expected'),
    [
        (
            'cases/trees/cisco-card-in-two-lists',
            '/Chassis/1/PCIeDevices/3',
            {('id-and-pci-ids', ('/Chassis/1/PCIeDevices/3', '/Systems/SN1/PCIeDevices/3'))},
        ),
        (
            'cases/trees/gb200-chassis-and-places',
            '/Systems/HGX_Baseboard_0/Processors/GPU_2',
            {('location', ('/Chassis/HGX_GPU_2', '/Systems/HGX_Baseboard_0/Processors/GPU_2'))},
        ),
        (
            'cases/trees/bluefield-system-without-model',
            '/Chassis/Card1',
            {
                ('link', ('/Chassis/Bluefield_BMC', '/Chassis/Card1')),
                ('link', ('/Chassis/Bluefield_ERoT', '/Chassis/Card1')),
                ('link', ('/Chassis/Card1', '/Managers/Bluefield_BMC')),
                ('link', ('/Chassis/Card1', '/Systems/Bluefield')),
            },
        ),
        (
            'recordings/nvidia/gh200',
            '/Systems/HGX_Baseboard_0/Processors/GPU_0',
            {
                ('link', ('/Chassis/HGX_GPU_0/PCIeDevices/GPU_0', '/Systems/HGX_Baseboard_0/Processors/GPU_0')),
                ('chassis', ('/Chassis/HGX_GPU_0', '/Systems/HGX_Baseboard_0/Processors/GPU_0')),
            },
        ),
        (
            'recordings/hpe/dl380a-gen11-2xh100nvl',
            '/Systems/1/Processors/3',
            {
                ('serial', ('/Chassis/1/PCIeDevices/244', '/Systems/1/Processors/3')),
                ('serial', ('/Chassis/1/Devices/9', '/Systems/1/Processors/3')),
            },
        ),
        (
            'recordings/dell/r750-h100-bluefield2',
            '/Chassis/System.Embedded.1/PCIeDevices/177-0',
            {
                (
                    'pci-functions',
                    ('/Chassis/System.Embedded.1/PCIeDevices/177-0', '/Systems/System.Embedded.1/PCIeDevices/177-0'),
                ),
                (
                    'serial',
                    (
                        '/Chassis/System.Embedded.1/NetworkAdapters/NIC.Slot.5',
                        '/Chassis/System.Embedded.1/PCIeDevices/177-0',
                    ),
                ),
            },
        ),
        ('recordings/dmtf/rackmount', '/Systems/437XR1138R2/Processors/FPGA1', set()),
    ],
)
def test_a_recorded_device_says_what_made_it_one(name: str, primary: str, expected: Said, bmc: Any, shared: Path) -> None:
    """HGX modules and their chassis, the card chassis of a DPU, a card in two lists, numbers alone; and one resource alone."""
    bmc.tree = bodies(shared / name)
    (one,) = (a for a in inventory_of(bmc).accelerators if a.primary.uri == ROOT + primary)
    assert expected == evidence_of(one)


def _by_uuid(machine: Machine, chassis: str) -> None:
    machine.processor(machine.host, 'P', Model='H100', UUID=UUID.format(1))
    machine.card(chassis, 'C', H100, UUID=UUID.format(1))


def _by_serial(machine: Machine, chassis: str) -> None:
    machine.processor(machine.host, 'P', Model='NVIDIA H100 PCIe', SerialNumber='S1', PartNumber='900-1')
    machine.card(chassis, 'C', H100, SerialNumber='s1 ', Model='900-1')


def _by_address(machine: Machine, chassis: str) -> None:
    machine.processor(machine.host, 'P', Model='NVIDIA H100 PCIe', Links={'PCIeDevice': link(f'{chassis}/PCIeDevices/B')})
    machine.card(chassis, 'B', ids('0x10de', '0x2330', '0x030200', bus=0x17))
    machine.card(machine.host, 'C', ids('0x10de', '0x2330', '0x030200', bus=0x17))


def _by_location(machine: Machine, chassis: str) -> None:
    place = {'PartLocation': {'ServiceLabel': 'Slot 7'}}
    machine.processor(machine.host, 'P', Model='NVIDIA H100 PCIe', Location=place)
    machine.card(chassis, 'C', H100, Slot={'Location': place})


def _by_number(machine: Machine, chassis: str) -> None:
    machine.processor(machine.host, 'GPU3', Model='NVIDIA H100 PCIe')
    machine.card(chassis, 'GPU_3', H100)


def _by_order(machine: Machine, chassis: str) -> None:
    machine.processor(machine.host, 'P', Model='NVIDIA H100 PCIe')
    machine.card(chassis, 'C', H100)


def _by_functions(machine: Machine, chassis: str) -> None:
    card = machine.card(chassis, 'C', H100)
    machine.card(machine.host, 'D', Links={'PCIeFunctions': links(f'{card}/PCIeFunctions/0')})


@pytest.mark.parametrize(
    ('build', 'basis', 'uris'),
    [
        (_by_uuid, MergeBasis.UUID, ('/Chassis/1/PCIeDevices/C', '/Systems/1/Processors/P')),
        (_by_serial, MergeBasis.SERIAL, ('/Chassis/1/PCIeDevices/C', '/Systems/1/Processors/P')),
        (
            _by_address,
            MergeBasis.PCI_ADDRESS,
            ('/Chassis/1/PCIeDevices/B/PCIeFunctions/0', '/Systems/1/PCIeDevices/C/PCIeFunctions/0'),
        ),
        (_by_location, MergeBasis.LOCATION, ('/Chassis/1/PCIeDevices/C', '/Systems/1/Processors/P')),
        (_by_number, MergeBasis.NUMBER, ('/Chassis/1/PCIeDevices/GPU_3', '/Systems/1/Processors/GPU3')),
        (_by_order, MergeBasis.ORDER, ('/Chassis/1/PCIeDevices/C', '/Systems/1/Processors/P')),
        (_by_functions, MergeBasis.PCI_FUNCTIONS, ('/Chassis/1/PCIeDevices/C', '/Systems/1/PCIeDevices/D')),
    ],
)
def test_each_reason_is_told_with_the_resources_that_say_it(
    build: Callable[[Machine, str], None], basis: MergeBasis, uris: tuple[str, ...], machine: Machine
) -> None:
    """One device each time; a guess has a gap, too."""
    build(machine, machine.chassis('1'))
    seen = machine.look()
    (one,) = seen.accelerators
    assert (basis.value, uris) in evidence_of(one)
    assert (basis is MergeBasis.ORDER) == any('by order' in gap.reason for gap in seen.gaps)


def test_functions_that_two_lists_share_are_no_evidence_against_two_serial_numbers(machine: Machine) -> None:
    """One of the two cards was not seen: links made them one, whatever their numbers said."""
    _by_functions(machine, machine.chassis('1'))
    one, other = f'{ROOT}/Chassis/1/PCIeDevices/C', f'{machine.host}/PCIeDevices/D'
    machine.tree[one]['SerialNumber'], machine.tree[other]['SerialNumber'] = 'A1', 'A1'
    assert 1 == len(machine.look().accelerators)
    machine.tree[other] |= {'SerialNumber': 'B2', 'Model': 'NVIDIA H100 PCIe'}
    seen = machine.look()
    assert {'serial:A1', 'serial:B2'} == {a.id for a in seen.accelerators}
    assert [()] * 2 == [a.merged_by for a in seen.accelerators]
    (gap,) = (gap for gap in seen.gaps if 'a link joins' in gap.reason)
    assert (True, True) == (one in gap.reason, other in gap.reason)


def _two_processors(machine: Machine, **second: Any) -> str:
    """Two GPUs that both link the first of two cards."""
    chassis = machine.chassis('1')
    cards = [machine.card(chassis, f'C{n}', H100) for n in range(2)]
    for n in range(2):
        machine.processor(machine.host, f'P{n}', Model='NVIDIA H100 PCIe', Links={'PCIeDevice': link(cards[0])})
    machine.tree[cards[0]]['Links'] = {'Processors': links(f'{machine.host}/Processors/P0')}
    return cards[0]


def test_a_processor_that_links_the_card_of_another_is_a_contradiction(machine: Machine) -> None:
    """The card says whose it is: the link is refused, and a gap names both."""
    card = _two_processors(machine)
    seen = machine.look()
    (gap,) = (gap for gap in seen.gaps if 'a link joins' in gap.reason)
    assert (f'{machine.host}/Processors/P1', True) == (gap.ref.uri, card in gap.reason)
    (first,) = (a for a in seen.accelerators if a.primary.uri.endswith('/P0'))
    assert {('link', ('/Chassis/1/PCIeDevices/C0', '/Systems/1/Processors/P0'))} == evidence_of(first)


def test_a_card_with_two_processors_is_no_contradiction(machine: Machine) -> None:
    """It names both of them, or its functions do."""
    card = _two_processors(machine)
    both = [f'{machine.host}/Processors/P{n}' for n in range(2)]
    machine.tree[card]['Links'] = {'Processors': links(*both)}
    assert not [gap for gap in machine.look().gaps if 'a link joins' in gap.reason]
    machine.tree[card]['Links'] = {}
    assert not [gap for gap in machine.look().gaps if 'a link joins' in gap.reason]


def test_a_processor_with_two_cards_of_one_list_has_one_and_a_gap(machine: Machine) -> None:
    """Rather one too many than one too few, and not in silence."""
    chassis = machine.chassis('1')
    cards = [machine.card(chassis, f'C{n}', H100) for n in range(2)]
    machine.processor(machine.host, 'P', Model='NVIDIA H100 PCIe', Links={'PCIeDevice': link(cards[0])})
    machine.tree[cards[1]]['Links'] = {'Processors': links(f'{machine.host}/Processors/P')}
    seen = machine.look()
    assert (2, 1) == (len(seen.accelerators), sum('a link joins' in gap.reason for gap in seen.gaps))


def test_what_is_no_accelerator_may_contradict_itself(machine: Machine) -> None:
    """Whether two halves of a plain NIC belong together is nobody's question."""
    chassis = machine.chassis('1')
    cards = [machine.card(chassis, f'N{n}', ids('0x8086', '0x1572', '0x020000')) for n in range(2)]
    adapter = machine.below(chassis, 'NetworkAdapters', 'A', Controllers=[{'Links': {'PCIeDevices': links(*cards)}}])
    machine.processor(machine.host, 'P', Model='NVIDIA H100 PCIe')
    assert adapter in machine.tree
    assert not [gap for gap in machine.look().gaps if 'different devices' in gap.reason]


@pytest.mark.parametrize(('name', 'one', 'other'), [('SerialNumber', 'A', 'B'), ('UUID', UUID.format(1), UUID.format(2))])
def test_a_card_in_two_lists_with_two_numbers_is_two_and_a_gap(name: str, one: str, other: str, bmc: Any, shared: Path) -> None:
    """Id and all PCI ids are the same, and one number is not."""
    bmc.tree = {u: json.loads(t) for u, t in bodies(shared / 'cases' / 'trees' / 'cisco-card-in-two-lists').items()}
    card, again = f'{ROOT}/Chassis/1/PCIeDevices/3', f'{ROOT}/Systems/SN1/PCIeDevices/3'
    bmc.tree[card][name], bmc.tree[again][name] = one, other
    seen = inventory_of(bmc)
    assert [()] * 2 == [a.merged_by for a in seen.accelerators]
    (gap,) = (gap for gap in seen.gaps if 'different devices' in gap.reason)
    assert (again, True) == (gap.ref.uri, card in gap.reason)

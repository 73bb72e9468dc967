# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A look asks for each resource as soon as something names it: how many requests follow one another is counted, not timed."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.inventory.floor import Cost, bare, load
from tests.wire.recorded import bodies, inventory_of
from tests.wire.rounds import Rounds

pytestmark = pytest.mark.usefixtures('steady')

ROUNDS = {
    'supermicro/hgx-h100-8gpu': (8, 50),
    'lenovo/sr670v2-8xl40-bluefield2': (9, 29),
    'dell/r750-h100-bluefield2': (9, 28),
    'hpe/dl380a-gen11-2xh100nvl': (6, 23),
    'nvidia/gh200': (11, 25),
    'nvidia/bluefield3': (7, 12),
    'dmtf/rackmount': (5, 8),
    'dmtf/smartnic': (6, 9),
}
"""With $expand and without, four requests at a time, from the service root to the logout."""

BAR = 1.1

SYSTEMS = '/redfish/v1/Systems'
PROCESSORS = f'{SYSTEMS}/1/Processors'
CHASSIS = '/redfish/v1/Chassis'
MANAGERS = '/redfish/v1/Managers'
INTERFACES = f'{MANAGERS}/BMC/HostInterfaces'


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    """Of the looks of the test."""
    return Rounds.of(monkeypatch)


@pytest.mark.parametrize('expand', [True, False])
@pytest.mark.parametrize('name', sorted(ROUNDS))
def test_a_recorded_machine_takes_so_many_rounds(bmc: Any, shared: Path, rounds: Rounds, name: str, expand: bool) -> None:
    """What a machine takes that answers each request in the same time."""
    bmc.tree = bodies(shared / 'recordings' / name, expand=expand)
    inventory_of(bmc)
    assert ROUNDS[name][not expand] == rounds.total


@pytest.mark.parametrize('expand', [True, False])
@pytest.mark.parametrize('name', sorted(ROUNDS))
def test_a_recorded_machine_takes_little_more_than_the_best_schedule(
    bmc: Any, shared: Path, rounds: Rounds, name: str, expand: bool
) -> None:
    """The bar of ``make bench-inventory``, without the time that the client computes."""
    bmc.tree = bodies(shared / 'recordings' / name, expand=expand)
    inventory_of(bmc)
    needed = load(name, expand=expand).counting(frozenset(bare(target) for _, target in bmc.seen))
    assert rounds.total <= BAR * needed.schedule(Cost(delay=1.0, slots=4)) + 1e-9


@pytest.fixture
def machine(bmc: Any) -> Any:
    """A machine with a GPU, and a Manager with a host interface."""
    bmc.tree[f'{SYSTEMS}/1'] |= {
        'Processors': {'@odata.id': PROCESSORS},
        'Links': {'ManagedBy': [{'@odata.id': f'{MANAGERS}/BMC'}]},
    }
    bmc.collection(PROCESSORS, 'CPU1', 'CPU2', 'CPU3', 'CPU4', 'GPU')
    for number in range(1, 5):
        bmc.put(f'{PROCESSORS}/CPU{number}', ProcessorType='CPU')
    bmc.put(f'{PROCESSORS}/GPU', ProcessorType='GPU', Model='NVIDIA H100 PCIe', SerialNumber='S1')
    bmc.collection(MANAGERS, 'BMC')
    bmc.put(f'{MANAGERS}/BMC', HostInterfaces={'@odata.id': INTERFACES})
    bmc.collection(INTERFACES, '1')
    bmc.put(f'{INTERFACES}/1', InterfaceEnabled=False)
    return bmc


def _of(rounds: Rounds, uri: str) -> int:
    """In which round something was answered, which is once."""
    (found,) = (number for number, target in rounds.asked if target == uri)
    return found


def test_managers_are_read_beside_systems_and_locks_right_after_the_accelerator_is_seen(machine: Any, rounds: Rounds) -> None:
    """The accelerator is seen in round 5: by then the Manager is there that has the host interfaces."""
    inventory_of(machine)
    assert {2, 4} == {_of(rounds, MANAGERS), _of(rounds, f'{MANAGERS}/BMC')}
    assert (5, 6, 7) == tuple(_of(rounds, uri) for uri in (f'{PROCESSORS}/GPU', INTERFACES, f'{INTERFACES}/1'))


def test_the_manager_of_the_service_waits_for_no_system(machine: Any, rounds: Rounds) -> None:
    """The service root names it."""
    machine.tree['/redfish/v1']['Links'] = {'ManagerProvidingService': {'@odata.id': f'{MANAGERS}/BMC'}}
    inventory_of(machine)
    assert 3 == _of(rounds, f'{MANAGERS}/BMC')


def test_places_of_locks_go_before_what_nothing_follows_from(machine: Any, rounds: Rounds) -> None:
    """Firmware items fill the rounds in which locks follow one another."""
    machine.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    items = '/redfish/v1/UpdateService/FirmwareInventory'
    machine.put('/redfish/v1/UpdateService', FirmwareInventory={'@odata.id': items})
    machine.collection(items, *map(str, range(40)))
    for number in range(40):
        machine.put(f'{items}/{number}', Version='1')
    inventory_of(machine)
    in_round = Counter(number for number, _ in rounds.asked)
    last = rounds.asked[-1][0]
    assert {4} == {in_round[number] for number in range(4, last)}
    assert last > _of(rounds, INTERFACES) + 1


def test_a_processor_that_is_no_cpu_by_its_name_is_read_first(machine: Any, rounds: Rounds) -> None:
    """More may follow from it. Nothing is decided by the name."""
    inventory_of(machine)
    assert {5, 6} == {_of(rounds, f'{PROCESSORS}/CPU{number}') for number in range(1, 5)}
    assert 5 == _of(rounds, f'{PROCESSORS}/GPU')


def test_a_chassis_that_only_another_one_names_is_read_once_that_one_and_the_systems_have_come(
    bmc: Any, rounds: Rounds
) -> None:
    """It does not wait for all else, such as other chassis."""
    others = [f'{number:02}' for number in range(20)]
    bmc.collection(CHASSIS, 'Rack', *others)
    for name in others:
        bmc.put(f'{CHASSIS}/{name}')
    bmc.put(f'{CHASSIS}/Rack', Links={'Contains': [{'@odata.id': f'{CHASSIS}/Card'}, {'@odata.id': f'{CHASSIS}/19'}]})
    bmc.put(f'{CHASSIS}/Card', NetworkAdapters={'@odata.id': f'{CHASSIS}/Card/NetworkAdapters'})
    bmc.collection(f'{CHASSIS}/Card/NetworkAdapters')
    inventory_of(bmc)
    found = tuple(_of(rounds, f'{CHASSIS}/{name}') for name in ('Rack', 'Card', 'Card/NetworkAdapters'))
    assert (3, 4, 5) == found
    assert {3, 4, 5, 6, 7, 8, 9} >= {_of(rounds, f'{CHASSIS}/{name}') for name in others} > {3, 4, 5, 6}


def test_where_a_system_lists_its_devices_one_by_one_chassis_that_are_only_linked_come_last(bmc: Any, rounds: Rounds) -> None:
    """What such a chassis shows may be one of them: which is read first must not be chance."""
    devices = f'{SYSTEMS}/1/PCIeDevices'
    bmc.tree[f'{SYSTEMS}/1']['PCIeDevices'] = [{'@odata.id': f'{devices}/A'}]
    bmc.put(f'{devices}/A')
    bmc.collection(CHASSIS, 'Rack')
    bmc.put(f'{CHASSIS}/Rack', Links={'Contains': [{'@odata.id': f'{CHASSIS}/Card'}]})
    bmc.put(f'{CHASSIS}/Card')
    inventory_of(bmc)
    assert _of(rounds, f'{devices}/A') < _of(rounds, f'{CHASSIS}/Card') == rounds.asked[-1][0]


def test_what_says_how_standby_power_is_reset_is_read_beside_the_devices(machine: Any, rounds: Rounds) -> None:
    """Whose it is is known once all Systems and Chassis are there."""
    info = f'{CHASSIS}/Box/ResetActionInfo'
    machine.tree[f'{SYSTEMS}/1']['Links']['Chassis'] = [{'@odata.id': f'{CHASSIS}/Box'}]
    machine.collection(CHASSIS, 'Box')
    action = {'target': f'{CHASSIS}/Box/Actions/Chassis.Reset', '@Redfish.ActionInfo': info}
    machine.put(f'{CHASSIS}/Box', Actions={'#Chassis.Reset': action})
    machine.put(info, Parameters=[{'Name': 'ResetType', 'AllowableValues': ['FullPowerCycle']}])
    found = inventory_of(machine)
    assert found.bmcs[0].standby_reset is not None
    assert _of(rounds, info) < _of(rounds, f'{INTERFACES}/1') == rounds.asked[-1][0]


def test_places_of_a_card_are_read_beside_its_devices(bmc: Any, shared: Path, rounds: Rounds) -> None:
    """One by one after them they took five rounds more."""
    bmc.tree = bodies(shared / 'recordings' / 'nvidia/bluefield3', expand=True)
    inventory_of(bmc)
    places = ('Bios', 'Oem/Nvidia', 'Bios/Settings', 'Oem/Nvidia/Connectx/ExternalHostPrivileges')
    *_, last = (number for number, _ in rounds.asked)
    assert all(_of(rounds, f'{SYSTEMS}/Bluefield/{place}') <= last for place in places)
    assert _of(rounds, f'{SYSTEMS}/Bluefield/{places[1]}') <= 5

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The features of emulated cards block the right writers, and are honest where they are a second source. Without HTTP."""

from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.emulator.hw import bluefield as dpu
from baremetal_acc.emulator.hw import build, csd, gpu_root_of_trust, hgx_board
from baremetal_acc.emulator.hw.parameters import BadParameter, Parameters, ProductParameters
from baremetal_acc.emulator.image import EmulatedImage, build_image, read_image
from baremetal_acc.emulator.parts import EmulatedTaskState, WriteRefused

PAGE = Path(__file__).parents[3] / 'doc' / 'source' / 'howto' / 'emulator.rst'
POLICY = 'HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'
EROT = '/redfish/v1/Chassis/HGX_ERoT_GPU_0'
PARTS = f'{EROT}/{gpu_root_of_trust.COMPONENTS}'

FEATURES = {
    'gpu-server': ('rot-protected-components', 'write-protect-domains'),
    'twin-server': ('rot-protected-components', 'write-protect-domains'),
    'dpu': ('external-host-privileges', 'host-privilege-config', 'no-host-privilege-level', 'sriov'),
    'csd-server': ('open-lockdown', 'unlocked-fpga'),
}


def made(product: str, *features: str) -> ProductParameters:
    """A product with these features, on a virtual clock."""
    return build(product, Parameters(virtual_clock=True, flash_seconds=10.0, reset_seconds=2.0, features=frozenset(features)))


def shown(product: ProductParameters, uri: str, bmc: str = 'host') -> Any:
    """What a BMC shows of a resource."""
    return product.views[bmc].tree.snapshot()[uri].render()


def image(model: str, component: str) -> EmulatedImage:
    return read_image(build_image(model=model, component=component, version='6.6', size_bytes=64))


def writes(product: ProductParameters, device: str, model: str, component: str, path: str) -> bool:
    """Whether the tenant gets an image in by that path."""
    try:
        product.machine.write_from_host(device, image(model, component), path=path, component=component)
    except WriteRefused as why:
        if why.reason != 'locked':
            raise
        return False
    return True


def restart(product: ProductParameters, system: str, how: str) -> None:
    product.machine.reset_system(system, how)
    product.machine.clock.advance(5)
    product.machine.settle()


@pytest.mark.parametrize(('product', 'feature'), [(p, f) for p, several in FEATURES.items() for f in several])
def test_every_feature_can_be_shown_and_stands_on_the_page(product: str, feature: str) -> None:
    """What cannot be rendered, or is not known, is of no use."""
    machine = made(product, feature)
    assert all(resource.render() is not None for view in machine.views.values() for resource in view.tree.snapshot().values())
    assert f'``{feature}``' in PAGE.read_text()


@pytest.mark.parametrize('gpus', [1, 2, 3])
def test_domains_of_two_baseboards_are_apart(gpus: int) -> None:
    """Each affects GPUs of its own board, all of them stand in one, and no lock is of both."""
    product = build('twin-server', Parameters(gpus=gpus, features=frozenset({'write-protect-domains'})))
    for number in range(2):
        board = hgx_board.Baseboard(number=number)
        uris = [uri for uri in product.views['host'].tree.snapshot() if uri.startswith(f'{board.domains}/')]
        affected = [one['@odata.id'] for uri in uris for one in shown(product, uri)['AffectedComponents']]
        assert [f'{board.system}/Processors/GPU_{number * gpus + n}' for n in range(gpus)] == affected
    domains = [key for key in product.machine.settings if key.startswith('HGX_Domain_')]
    product.machine.configure(domains[0], True)
    assert [True] + [False] * (len(domains) - 1) == [product.machine.is_closed(key) for key in domains]
    assert 2 * -(-gpus // 2) == len(domains)


def test_a_feature_that_a_product_cannot_have_is_refused() -> None:
    """It names those that it can have; a spelling mistake would make a test of something else."""
    with pytest.raises(BadParameter, match=r'open-lock.*open-lockdown'):
        made('csd-server', 'open-lock')
    with pytest.raises(BadParameter, match='fpga-server has no feature'):
        made('fpga-server', 'open-lockdown')


def test_components_and_slots_tell_the_policy_that_is_in_force_whatever_the_root_shows() -> None:
    """That is what makes them a second source."""
    product = made('gpu-server', 'rot-protected-components')
    assert {'@odata.id': PARTS} == shown(product, EROT)['Oem']['Nvidia']['RoTProtectedComponents']
    product.machine.add_fault({'name': 'lock-reports-locked', 'device': 'GPU_0'})
    assert False is shown(product, EROT)['Oem']['Nvidia']['InbandUpdatePolicyEnabled']
    for part in ('Self', 'AP'):
        assert True is shown(product, f'{PARTS}/{part}')['InbandUpdatePolicyEnabled']
        assert False is shown(product, f'{PARTS}/{part}/ImageSlots/1')['WriteProtected']
    product.machine.faults.remove()
    product.machine.configure(POLICY, False)
    assert False is shown(product, f'{PARTS}/AP')['InbandUpdatePolicyEnabled']
    assert True is shown(product, f'{PARTS}/AP/ImageSlots/0')['WriteProtected']


def test_a_root_of_trust_that_does_not_answer_reads_closed_and_stands_as_it_is() -> None:
    """As in_band.hpp of NVIDIA's bmcweb has it; nothing else of it is shown then."""
    product = made('gpu-server')
    product.machine.add_fault({'name': 'lock-read-error', 'device': 'GPU_0'})
    told = shown(product, EROT)['Oem']['Nvidia']
    assert False is told['InbandUpdatePolicyEnabled']
    assert {'@odata.type', 'InbandUpdatePolicyEnabled'} == set(told)
    assert writes(product, 'GPU_0', 'h100', 'erot', 'pcie')
    assert 'BackgroundCopyStatus' in shown(product, EROT.replace('GPU_0', 'GPU_1'))['Oem']['Nvidia']


def test_a_domain_protects_the_images_of_two_cards_on_every_way_and_no_root_of_trust() -> None:
    """Their WriteProtected follows it and cannot be written; a third card has a domain of its own."""
    product = made('gpu-server', 'write-protect-domains')
    machine, tree = product.machine, product.views['host'].tree
    machine.configure('HGX_Domain_0/WriteProtected', True)
    items = [tree.snapshot()[f'/redfish/v1/UpdateService/FirmwareInventory/HGX_FW_GPU_{n}'] for n in range(3)]
    assert [True, True, False] == [item.render()['WriteProtected'] for item in items]
    assert [{}, {}, {}] == [item.writable() for item in items if item.writable is not None]
    assert [False, False, True] == [writes(product, f'GPU_{n}', 'h100', 'gpu', 'pcie') for n in range(3)]
    assert writes(product, 'GPU_0', 'h100', 'erot', 'pcie')
    task = machine.begin_update('host', ['host/HGX_FW_GPU_1'])
    machine.image_arrived(task, image('h100', 'gpu'))
    assert EmulatedTaskState.EXCEPTION is task.state
    affected = shown(product, f'{hgx_board.DOMAINS}/0')['AffectedComponents']
    assert [f'{hgx_board.SYSTEM}/Processors/GPU_{n}' for n in range(2)] == [one['@odata.id'] for one in affected]


def test_each_explicit_privilege_closes_its_way_after_a_restart_of_the_dpu() -> None:
    """Shown at once, in force later; the console port is a way on its own."""
    product = made('dpu', 'external-host-privileges', 'no-host-privilege-level')
    assert 'HostPrivilegeLevel' not in shown(product, f'{dpu.SYSTEM}/Bios', 'dpu')['Attributes']
    for name, path in (('HostPrivFwUpdate', 'pcie'), ('HostPrivFlashAccess', 'flash')):
        product.machine.configure(f'Bluefield/{name}', 'Disabled')
        assert 'Disabled' == shown(product, dpu.PRIVILEGES, 'dpu')['ExternalHostPrivilege'][name]
        assert writes(product, 'DPU', 'bluefield3', 'nic', path)
        restart(product, 'dpu', 'ForceRestart')
        assert not writes(product, 'DPU', 'bluefield3', 'nic', path)
    assert writes(product, 'DPU', 'bluefield3', 'nic', 'rshim')


def test_the_preset_waits_in_its_settings_and_its_single_settings_do_not_lie_for_it() -> None:
    """A BMC that says Restricted of a card that is open still shows what the card says."""
    product = made('dpu', 'host-privilege-config', 'no-host-privilege-level')
    product.machine.configure(dpu.MODE, 'Restricted')
    assert 'Privileged' == shown(product, dpu.CONFIG, 'dpu')['PrivilegeMode']
    assert 'Restricted' == shown(product, f'{dpu.CONFIG}/Settings', 'dpu')['PrivilegeMode']
    assert writes(product, 'DPU', 'bluefield3', 'nic', 'pcie')
    restart(product, 'dpu', 'ForceRestart')
    assert 'Restricted' == shown(product, dpu.CONFIG, 'dpu')['PrivilegeMode']
    assert [False, False] == [writes(product, 'DPU', 'bluefield3', 'nic', path) for path in ('pcie', 'flash')]
    lies = made('dpu', 'host-privilege-config')
    lies.machine.add_fault({'name': 'lock-reports-locked'})
    told = shown(lies, dpu.CONFIG, 'dpu')
    assert ('Restricted', 'Enabled') == (told['PrivilegeMode'], told['PrivilegeSettings']['FirmwareUpdate'])


@pytest.mark.parametrize('open_', [False, True])
def test_a_drive_is_closed_unless_its_host_may_lift_the_lock(open_: bool) -> None:
    """The commands show which of them it is; the FPGA beside it has a lock of its own."""
    product = made('csd-server', *(('open-lockdown',) if open_ else ()))
    product.machine.configure(csd.LOCK, 'Enabled')
    told = shown(product, csd.DRIVE)
    state = told['NVMe']['ConfigurationLockState']
    assert ('Enabled', 'Locked') == (told['ConfigurationLock'], state['FirmwareCommit'])
    assert ('LockdownUnsupported' if open_ else 'Locked') == state['Lockdown']
    assert open_ is writes(product, 'CSD_0', 'csd100', 'drive', 'nvme')
    assert writes(product, 'CSD_0', 'csd100', 'fpga', 'pcie')


def test_a_drive_does_not_lie_about_its_commands() -> None:
    """Only the BMC's word for the lock is invented."""
    product = made('csd-server')
    product.machine.add_fault({'name': 'lock-reports-locked'})
    told = shown(product, csd.DRIVE)
    assert ('Enabled', 'Unlocked') == (told['ConfigurationLock'], told['NVMe']['ConfigurationLockState']['FirmwareCommit'])

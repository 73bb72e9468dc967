# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The external root of trust (ERoT) of an emulated GPU: its policy, its protected components and its measurements."""

import hashlib
from collections.abc import Callable

from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import EmulatedComponent
from baremetal_acc.emulator.redfish.resource import Body, Resource, Writables, collection, ref
from baremetal_acc.emulator.redfish.view import View
from baremetal_acc.emulator.spdm import FIRMWARE as MUTABLE_FIRMWARE
from baremetal_acc.emulator.spdm import HARDWARE, ROM, MeasurementBlock, opaque_version

COMPONENTS = 'Oem/NvidiaRoT/RoTProtectedComponents'


def add_protected_components(view: View, root: str, device: str, policy: str) -> None:
    """Add the RoTProtectedComponents of a root of trust, which show the policy in force, whatever its Chassis shows."""
    machine = view.machine
    base = f'{root}/{COMPONENTS}'
    parts = {'Self': 'Self', 'AP': 'AP'}

    def component(name: str, kind: str) -> Callable[[], Body]:
        return lambda: {
            'Id': name,
            'Name': f'RoT protected component {name}',
            'RoTProtectedComponentType': kind,
            'InbandUpdatePolicyEnabled': not machine.is_closed(policy),
            'AutomaticBackgroundCopyEnabled': True,
            'BackgroundCopyStatus': _copy_state(machine, device),
            'ImageSlots': ref(f'{base}/{name}/ImageSlots'),
        }

    def slot(number: int) -> Callable[[], Body]:
        return lambda: {
            'Id': str(number),
            'Name': f'Image slot {number}',
            'SlotId': number,
            'WriteProtected': machine.is_closed(policy),
        }

    view.tree.add(collection(base, 'NvidiaRoTProtectedComponent', [f'{base}/{name}' for name in parts], device=device))
    for name, kind in parts.items():
        slots = [f'{base}/{name}/ImageSlots/{number}' for number in range(2)]
        view.tree.add(
            Resource(
                uri=f'{base}/{name}',
                type='#NvidiaRoTProtectedComponent.v1_0_0.NvidiaRoTProtectedComponent',
                render=component(name, kind),
                device=device,
            ),
            collection(f'{base}/{name}/ImageSlots', 'NvidiaRoTImageSlot', slots, device=device),
            *(
                Resource(uri=uri, type='#NvidiaRoTImageSlot.v1_0_0.NvidiaRoTImageSlot', render=slot(number), device=device)
                for number, uri in enumerate(slots)
            ),
        )


def measured(gpu: EmulatedComponent, erot: EmulatedComponent) -> tuple[MeasurementBlock, ...]:
    """The measurement blocks of a root of trust: its ROM, the firmware of its GPU, its own firmware, the hardware straps."""
    return (
        MeasurementBlock(index=1, kind=ROM, value=hashlib.sha256(b'rom of an emulated root of trust').digest()),
        MeasurementBlock(index=2, kind=MUTABLE_FIRMWARE, value=measurement(gpu)),
        MeasurementBlock(index=3, kind=MUTABLE_FIRMWARE, value=measurement(erot)),
        MeasurementBlock(index=4, kind=HARDWARE, value=hashlib.sha256(b'straps').digest()),
    )


def named_version(gpu: EmulatedComponent) -> bytes:
    """The opaque data that a root of trust signs with its measurements: the version of the GPU's firmware."""
    return opaque_version(gpu.active.version if gpu.active is not None else '')


def measurement(component: EmulatedComponent) -> bytes:
    """The digest of the image in the active bank, or a digest that stands for the factory image."""
    bank = component.active
    if bank is not None and bank.digest is not None:
        return bytes.fromhex(bank.digest.removeprefix('sha256:'))
    version = bank.version if bank is not None else ''
    return hashlib.sha256(f'factory {component.model} {component.component} {version}'.encode()).digest()


def root_oem(view: View, policy: str, *, components: str | None = None) -> Callable[[], Body]:
    """A function that renders the Oem object of an ERoT Chassis.

    With the fault ``lock-read-error`` it shows a closed lock, and nothing about the background copy.
    """

    def render() -> Body:
        lock = view.machine.settings[policy]
        mute = view.machine.faults.find('lock-read-error', bmc=lock.bmc, device=lock.device, uri=lock.uri, use=False)
        return {
            'Nvidia': {
                '@odata.type': '#NvidiaChassis.v1_0_0.NvidiaChassis',
                **(_copy(view.machine, lock.device or '') if mute is None else {}),
                'InbandUpdatePolicyEnabled': view.machine.shown(policy) if mute is None else lock.locked,
                **({'RoTProtectedComponents': ref(components)} if components is not None else {}),
            }
        }

    return render


def copy_oem(machine: Machine, device: str) -> Callable[[], Body]:
    """A function that renders the Oem object of a root-of-trust Chassis whose part the host has no path to."""
    return lambda: {'Nvidia': {'@odata.type': '#NvidiaChassis.v1_0_0.NvidiaChassis', **_copy(machine, device)}}


def _copy(machine: Machine, device: str) -> Body:
    state = _copy_state(machine, device)
    return {'AutomaticBackgroundCopyEnabled': True, 'BackgroundCopyStatus': state, 'ManualBootModeEnabled': False}


def _copy_state(machine: Machine, device: str) -> str:
    """The BackgroundCopyStatus of the root of trust of a card."""
    return 'InProgress' if machine.copy_seconds(device) else 'Completed'


def root_writable(view: View, policy: str) -> Callable[[], Writables]:
    """The writable properties of an ERoT Chassis."""
    return lambda: {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': view.setting(policy, (bool,))}}}

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Values that tests of decisions are made from: one GPU, one FPGA with two slots, and what belongs to them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from baremetal_acc.model.accelerator import Accelerator, Function, IdentitySource, Kind, PciIds, ReconfigurationSlot
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, Image, ImageKind
from baremetal_acc.model.inventory import BmcFacts, Inventory, PowerState, UpdateFacts
from baremetal_acc.model.lock import Engagement, LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from baremetal_acc.model.waiver import Waiver
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, Match, NodeFacts, OnMissing, Rule

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(minutes=1)
LIFECYCLE = 7
GPU = AcceleratorId('uuid:gpu-0')
FPGA = AcceleratorId('uuid:fpga-1')
OLD, NEW = '1.0', '2.0'
HOST_DEVICE = frozenset({WritePath.HOST_DEVICE})
ALL_PATHS = frozenset(WritePath)
NODE = NodeFacts(name='node-1', resource_class='gold', exposure=Exposure.TENANT)
SYSTEM = Ref(bmc=HOST, uri='/redfish/v1/Systems/1')
NO_FIRMWARE = (
    'BMC host accepts no firmware: it has no UpdateService (Redfish), or no controller that speaks HPM.1 (IPMI); '
    'update the device in another way, and remove its firmware from the rules of the baseline'
)
SLOT_UUID = '11111111-2222-3333-4444-555555555555'


def ref(uri: str) -> Ref:
    return Ref(bmc=HOST, uri=f'/redfish/v1/{uri}')


def component(name: str = 'GPU_0', version: str | None = OLD, **other) -> Component:
    values = {'updateable': True, 'software_id': '0x0020'} | other
    return Component(id=name, ref=ref(f'UpdateService/FirmwareInventory/{name}'), version=version, **values)


def reading(
    state: LockState = LockState.LOCKED_REPORTED,
    *,
    mechanism: str = 'rot',
    accelerator: AcceleratorId = GPU,
    blocks: frozenset[WritePath] = HOST_DEVICE,
    at: datetime = NOW,
    session: str = 'reading-session',
    place: str = 'Chassis/RoT_0',
    **other,
) -> LockReading:
    return LockReading(
        mechanism=mechanism,
        accelerator=accelerator,
        blocks=blocks,
        ref=ref(place),
        field='Closed',
        value='false',
        state=state,
        at=at,
        session=session,
        **other,
    )


def engagement(of: LockReading | None = None, **changes) -> Engagement:
    of = of or reading()
    record = Engagement(
        mechanism=of.mechanism,
        accelerator=of.accelerator,
        ref=of.ref,
        field=of.field,
        lifecycle=LIFECYCLE,
        flow='deploy',
        session='writing-session',
        at=EARLIER,
        part=of.part,
        blocks=of.blocks,
        needs=of.needs,
        reset=of.reset,
        reset_at=EARLIER + timedelta(seconds=30) if of.needs is not ResetKind.NONE else None,
    )
    return replace(record, **changes)


def gpu(**changes) -> Accelerator:
    values = {
        'id': GPU,
        'kind': Kind.GPU,
        'identity': IdentitySource.UUID,
        'primary': ref('Systems/1/Processors/GPU_0'),
        'refs': (ref('Systems/1/Processors/GPU_0'),),
        'vendor': 'NVIDIA',
        'model': 'H100',
        'pci': PciIds(vendor_id='0x10de', device_id='0x2330'),
        'firmware': (component(),),
        'locks': (reading(),),
    }
    return Accelerator(**(values | changes))


def slot(number: int = 0, function: str | None = 'gzip', version: str | None = NEW) -> ReconfigurationSlot:
    holds = None
    if function is not None:
        uri = f'Systems/1/Processors/FPGA1/AccelerationFunctions/{function}'
        holds = Function(ref=ref(uri), id=function, version=version, uuid=SLOT_UUID)
    item = Component(id=f'Slot{number}', ref=ref(f'UpdateService/SoftwareInventory/Slot{number}'), version=version)
    return ReconfigurationSlot(slot_id=f'Slot{number}', index=number, function=holds, item=item)


def fpga(**changes) -> Accelerator:
    values = {
        'id': FPGA,
        'kind': Kind.FPGA,
        'model': 'Stratix',
        'vendor': 'Intel',
        'primary': ref('Systems/1/Processors/FPGA1'),
        'refs': (ref('Systems/1/Processors/FPGA1'),),
        'pci': PciIds(vendor_id='0x8086', device_id='0x09c4'),
        'firmware': (component('FPGA1', NEW),),
        'slots': (slot(0), slot(1, None, None)),
        'locks': (
            reading(mechanism='fpga', accelerator=FPGA, place='Processors/FPGA1', scope=Scope.FIRMWARE),
            reading(mechanism='fpga', accelerator=FPGA, place='Processors/FPGA1/0', scope=Scope.SLOT, part='Slot0'),
            reading(mechanism='fpga', accelerator=FPGA, place='Processors/FPGA1/1', scope=Scope.SLOT, part='Slot1'),
        ),
    }
    return gpu(**(values | changes))


def facts(**changes) -> BmcFacts:
    values = {
        'name': HOST,
        'address': 'https://192.0.2.1',
        'session': 's',
        'update': UpdateFacts(push=True, pull=True),
        'system': SYSTEM,
        'power': PowerState.ON,
    }
    return BmcFacts(**(values | changes))


def inventory(*accelerators: Accelerator, **changes) -> Inventory:
    values = {'target': 'node-1', 'at': NOW, 'bmcs': (facts(),), 'accelerators': accelerators or (gpu(),)}
    return Inventory(**(values | changes))


def image(name: str = 'gpu-new', **changes) -> Image:
    values = {
        'kind': ImageKind.FIRMWARE,
        'fits': (Fit(vendor='NVIDIA', model='H100', pci='0x10de:0x2330'),),
        'component': 'GPU_*',
        'version': NEW,
        'security_version': 5,
        'source': f'/images/{name}',
        'size_bytes': 1000,
        'digest': Digest(algorithm=DigestAlgorithm.SHA256, value='0' * 64),
        'reset': ResetKind.POWER_CYCLE,
    }
    return Image(name=name, **(values | changes))


def function_image(name: str = 'gzip-2', **changes) -> Image:
    values = {
        'kind': ImageKind.FUNCTION,
        'fits': (Fit(model='Stratix', pci='0x8086:0x09c4'),),
        'component': 'Slot*',
        'reset': ResetKind.NONE,
        'function': 'gzip',
        'uuid': SLOT_UUID,
    }
    return image(name, **(values | changes))


def baseline(**changes) -> Baseline:
    """One rule for all; what it makes of custody is the subject of its own tests."""
    values = {
        'name': 'all',
        'match': Match(),
        'firmware': (('GPU_*', NEW),),
        'block': HOST_DEVICE,
        'custody': CustodyDemand.REPORTED,
    }
    return Baseline(rules=(Rule(**(values | changes)),))


def waiver(*paths: WritePath, **changes) -> Waiver:
    values = {'role': 'security', 'reason': 'the rack is locked', 'expires': NOW + timedelta(days=30)}
    return Waiver(**(values | {'paths': frozenset(paths or (WritePath.HOST_DEVICE,))} | changes))


def waiving(*paths: WritePath, **changes) -> Baseline:
    return baseline(**({'on_missing': OnMissing.WAIVE, 'waiver': waiver(*paths)} | changes))

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The trees of machines that were read wrongly once agree with what was worked out by hand, with $expand and without.

They lie in ``BAREMETAL_ACC_SHARED/cases/trees``, in the form of the recordings. compare.py compares what it compares of the
recordings; here are also compared locations, identities, traits, locks of the whole machine and the gaps that have to hide.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Gap
from tests.wire.recorded import bodies, compared, looked

_SHARED = Path(os.environ.get('BAREMETAL_ACC_SHARED', Path(__file__).parents[3] / 'shared'))

TREES = sorted(path.parent.name for path in (_SHARED / 'cases' / 'trees').glob('*/expected.yaml'))

DIFFERENCES: dict[str, tuple[str, ...]] = {
    'bluefield-system-without-model': (
        "Card1: model 'BlueField-3' expected, 'Bluefield 3 SmartNIC Main Card' reported",
        'Card1: resources not merged: /redfish/v1/systems/bluefield',
        'Card1: firmware DPU_NIC not reported',
        'Card1: firmware DPU_UEFI not reported',
        'Card1: firmware DPU_ATF not reported',
        'Card1: device_lock unknown expected, unlocked reported',
    ),
    'cisco-card-in-two-lists': (
        'GPU: 1 expected, 2 reported',
        'slot 3: reported 2 times, its resources were not merged',
        'slot 3: resources not merged: /redfish/v1/systems/sn1/pciedevices/3',
    ),
    'cray-two-nodes-one-bmc': ('Node0 GPU0: firmware Node0.Acc0.VBIOS not reported',),
    'dgx-kcs-attribute': ('ami_kcs Attributes/KcsInterfaceDisable: None',),
    'functions-below-the-system': (
        'DPU: 0 expected, 1 reported',
        'DPU /redfish/v1/Systems/1: invented',
    ),
    # Its expected.yaml takes a gap that hides for each of them instead: nothing that the BMC says tells what they are.
    'gaudi3-oam-without-type': ('ASIC: 8 expected, 0 reported',),
    'gb200-chassis-and-places': (
        'GPU_0: resources not merged: /redfish/v1/chassis/hgx_gpu_0',
        'GPU_1: resources not merged: /redfish/v1/chassis/hgx_gpu_1',
        'GPU_2: resources not merged: /redfish/v1/chassis/hgx_gpu_2',
        'GPU_3: resources not merged: /redfish/v1/chassis/hgx_gpu_3',
        "GPU_0: location 'HGX_Chassis_0/ProcessorModule_0, GPU_0', not 'GPU_0'",
        "GPU_1: location 'HGX_Chassis_0/ProcessorModule_0, GPU_1', not 'GPU_1'",
        "GPU_2: location 'HGX_Chassis_0/ProcessorModule_1, GPU_0', not 'GPU_0'",
        "GPU_3: location 'HGX_Chassis_0/ProcessorModule_1, GPU_1', not 'GPU_1'",
    ),
    'hpe-ilo5-gpu-in-oem-beside-a-dpu': (
        'GPU: 2 expected, 0 reported',
        'slot 1: not reported',
        'slot 2: not reported',
    ),
    'hpe-ilo5-gpu-in-oem-only': (
        'GPU: 2 expected, 0 reported',
        'slot 1: not reported',
        'slot 2: not reported',
    ),
    'hpe-ilo7-pci-ids-in-oem': (
        "Processor 3: pci vendor_id '0x10de' expected, None reported",
        "Processor 3: pci device_id '0x233b' expected, None reported",
        "Processor 3: pci subsystem_vendor_id '0x10de' expected, None reported",
        "Processor 3: pci subsystem_id '0x1996' expected, None reported",
    ),
    'names-as-bmcs-write-them': (
        "GPU1: vendor 'NVIDIA' expected, 'Nvidia(R) Corporation' reported",
        "GPU1: lacks ['CUSTOM_GPU_NVIDIA_A100']",
    ),
}
"""What is missing, line by line; all other trees agree."""


@pytest.mark.parametrize('expand', [False, True], ids=['plain', 'expand'])
@pytest.mark.parametrize('name', TREES)
def test_a_tree_that_was_read_wrongly_is_reported_as_it_is(name: str, expand: bool, bmc: Any, shared: Path) -> None:
    """Devices, fields, firmware and locks agree with expected.yaml but for the differences that are listed."""
    folder = shared / 'cases' / 'trees' / name
    expected = yaml.safe_load((folder / 'expected.yaml').read_text())
    bmc.tree = bodies(folder, expand=expand)
    found, gaps = looked(bmc, **({'system': expected['system']} if 'system' in expected else {}))
    said = (*compared(shared, folder, found), *_more(expected, found, gaps))
    assert DIFFERENCES.get(name, ()) == said, [g for g in gaps if g.hides]


def _more(expected: dict[str, Any], found: Iterable[Accelerator], gaps: Iterable[Gap]) -> Iterator[str]:
    """What compare.py does not compare."""
    by_uri = {ref.uri: a for a in found for ref in a.refs}
    for want in expected.get('accelerators', ()):
        got = by_uri.get(want['primary_uri'])
        if got is None:
            continue
        said = {'location': got.location, 'identity': got.identity.value, 'primary_uri': got.primary.uri}
        yield from (f'{want["label"]}: {k} {want[k]!r}, not {v!r}' for k, v in said.items() if k in want and want[k] != v)
        missing = set(want.get('traits', ())) - got.traits
        if missing:
            yield f'{want["label"]}: lacks {sorted(missing)}'
    hidden = {gap.ref.uri for gap in gaps if gap.hides}
    for one in expected.get('ambiguous', ()):
        if one['uri'] not in by_uri and one['uri'] not in hidden:
            yield f'{one["uri"]}: neither a device nor a gap that hides'
    readings = {(r.mechanism, r.ref.uri, r.field): r for a in found for r in a.locks}
    for lock in expected.get('platform_locks', ()):
        reading = readings.get((lock['mechanism'], lock['uri'], lock['field']))
        if reading is None or (reading.value or '').strip('"') != lock['value'] or reading.state.value != lock['state']:
            yield f'{lock["mechanism"]} {lock["field"]}: {reading}'

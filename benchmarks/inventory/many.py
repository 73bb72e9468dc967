# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A machine of 134 PCIe devices, as a server of eight GPUs has when its BMC shows bridges and root ports too.

Made from the recording supermicro/hgx-h100-8gpu, whose truth is its truth: what is added are bridges of one function each.
"""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.inventory import harness
from benchmarks.inventory.needed import ROOT, Tree

HOST = 'supermicro/hgx-h100-8gpu'
NAME = 'many-134-devices'
DEVICES = 134
COLLECTION = f'{ROOT}/Chassis/1/PCIeDevices'


def make(folder: Path) -> Path:
    """Write the tree and its truth into a folder, anew.

    :returns: the folder.
    """
    recording = harness.recording(HOST)
    shutil.rmtree(folder, ignore_errors=True)
    for uri, document in build(Tree(recording).documents).items():
        path = folder / uri.strip('/') / 'index.json'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1), encoding='utf-8')
    shutil.copy(recording / 'expected.yaml', folder / 'expected.yaml')
    return folder


def build(host: dict[str, Any]) -> dict[str, Any]:
    """The documents by URI."""
    found = copy.deepcopy(host)
    devices = found[COLLECTION]
    for number in range(DEVICES - len(devices['Members'])):
        device = f'{COLLECTION}/Bridge{number}'
        devices['Members'].append({'@odata.id': device})
        found[device] = _resource(
            device, 'PCIeDevice.v1_5_0.PCIeDevice', DeviceType='SingleFunction', PCIeFunctions=_link(f'{device}/PCIeFunctions')
        )
        found[f'{device}/PCIeFunctions'] = _resource(
            f'{device}/PCIeFunctions',
            'PCIeFunctionCollection.PCIeFunctionCollection',
            Members=[_link(f'{device}/PCIeFunctions/0')],
        )
        found[f'{device}/PCIeFunctions/0'] = _resource(
            f'{device}/PCIeFunctions/0',
            'PCIeFunction.v1_2_3.PCIeFunction',
            FunctionId=0,
            VendorId='0x1000',
            DeviceId='0xc030',
            ClassCode='0x060400',
            DeviceClass='Bridge',
        )
    devices['Members@odata.count'] = len(devices['Members'])
    features = found[ROOT].setdefault('ProtocolFeaturesSupported', {})
    features['OnlyMemberQuery'] = True
    features.setdefault('ExpandQuery', {})['MaxLevels'] = 6
    return found


def _link(uri: str) -> dict[str, str]:
    return {'@odata.id': uri}


def _resource(uri: str, kind: str, **more: Any) -> dict[str, Any]:
    name = uri.rpartition('/')[2]
    return {'@odata.id': uri, '@odata.type': f'#{kind}', 'Id': name, 'Name': name, **more}


if __name__ == '__main__':
    print(make(harness.WORK / 'trees' / NAME))

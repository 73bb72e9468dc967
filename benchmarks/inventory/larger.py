# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A larger tree than any recording: a host with its cards, and eight GPUs with roots of trust in a second System.

Made from two recordings: the host, its NICs, NVMe drives and its DPU from supermicro/hgx-h100-8gpu, the baseboard from
nvidia/gh200, whose second GPU is repeated with serial numbers and UUIDs of its own. Its truth comes from theirs.
"""

import copy
import hashlib
import json
import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import yaml

from benchmarks.inventory import harness
from benchmarks.inventory.needed import ROOT, Tree

HOST, BASEBOARD = 'supermicro/hgx-h100-8gpu', 'nvidia/gh200'
NAME = 'larger-8gpu'
GPUS = 8
SWITCHES = 4
RETIMERS = 8


def make(folder: Path) -> Path:
    """Write the tree and its truth into a folder, anew.

    :returns: the folder.
    """
    documents, truth = build(Tree(harness.recording(HOST)).documents, Tree(harness.recording(BASEBOARD)).documents)
    shutil.rmtree(folder, ignore_errors=True)
    for uri, document in documents.items():
        path = folder / uri.strip('/') / 'index.json'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1), encoding='utf-8')
    (folder / 'expected.yaml').write_text(yaml.safe_dump(truth, sort_keys=False), encoding='utf-8')
    return folder


def build(host: dict[str, Any], baseboard: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The documents by URI, and the truth."""
    found = {
        uri: copy.deepcopy(body) for uri, body in host.items() if not re.search(r'/(GPU\d|HGX_(FW|InfoROM|FW_ERoT)_GPU)', uri)
    }
    for uri, body in baseboard.items():
        if re.match(rf'{ROOT}/(Systems/HGX_|Managers/HGX_|Chassis/HGX_|ComponentIntegrity)', uri) or re.match(
            rf'{ROOT}/UpdateService/(FirmwareInventory/HGX_|SoftwareInventory)', uri
        ):
            found[uri] = copy.deepcopy(body)
    for number in range(2, GPUS):
        found |= repeated(found, 'GPU_1', f'GPU_{number}')
    for number in range(SWITCHES):
        found |= repeated(found, 'HGX_CPLD_0', f'HGX_NVSwitch_{number}', only='/Chassis/')
        found |= repeated(found, 'HGX_ERoT_FPGA_0', f'HGX_ERoT_NVSwitch_{number}', only='/Chassis/')
    for number in range(RETIMERS):
        found |= repeated(found, 'HGX_CPLD_0', f'HGX_PCIeRetimer_{number}', only='/Chassis/')
        for uri in [uri for uri in found if uri.startswith(f'{ROOT}/Chassis/HGX_PCIeRetimer_{number}/PCIeDevices')]:
            del found[uri]
        found[f'{ROOT}/Chassis/HGX_PCIeRetimer_{number}'].pop('PCIeDevices', None)
    for uri, body in found.items():
        if isinstance(body, dict) and isinstance(body.get('Members'), list):
            _collect(uri, body, found)
    devices = [uri for uri in found if re.fullmatch(rf'{ROOT}/Chassis/[^/]+/PCIeDevices/[^/]+', uri)]
    found[f'{ROOT}/Systems/1']['PCIeDevices'] = [{'@odata.id': uri} for uri in sorted(devices)]
    found[ROOT]['ComponentIntegrity'] = {'@odata.id': f'{ROOT}/ComponentIntegrity'}
    found[f'{ROOT}/UpdateService']['SoftwareInventory'] = {'@odata.id': f'{ROOT}/UpdateService/SoftwareInventory'}
    return found, _truth()


def repeated(documents: dict[str, Any], old: str, new: str, *, only: str = '') -> dict[str, Any]:
    """The documents of one thing again, under another name."""
    return {
        uri.replace(old, new): _renamed(body, old, new)
        for uri, body in documents.items()
        if only in uri and any(part in (old, f'HGX_{old}') or part.endswith(f'_{old}') for part in uri.split('/'))
    }


def _renamed(value: Any, old: str, new: str, name: str = '') -> Any:
    """A value with another name in it; serial numbers and UUIDs become those of another unit."""
    if isinstance(value, dict):
        return {key.replace(old, new): _renamed(inner, old, new, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, old, new, name) for inner in value]
    if not isinstance(value, str):
        return value
    if name.lower() == 'uuid' and re.fullmatch(r'[0-9a-f-]{36}', value):
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f'{value}/{new}'))
    if name.lower() in ('serialnumber', 'serial') and value.isdigit():
        return str(int(hashlib.sha256(f'{value}/{new}'.encode()).hexdigest(), 16))[: len(value)]
    return value.replace(old, new)


def _collect(uri: str, body: dict[str, Any], found: dict[str, Any]) -> None:
    """A collection lists what lies below it now, what it has always listed first."""
    below = [other for other in found if other.rpartition('/')[0] == uri and isinstance(found[other], dict)]
    listed = [m['@odata.id'] for m in body['Members'] if m.get('@odata.id', '').rstrip('/') in found]
    if uri == f'{ROOT}/Chassis':
        below = [other for other in below if 'StorageBackplane' not in other]
    whole = list(dict.fromkeys([*listed, *sorted(below)]))
    body['Members'] = [{'@odata.id': link} for link in whole]
    body['Members@odata.count'] = len(whole)


def _truth() -> dict[str, Any]:
    """What a correct client reports of it."""
    host = yaml.safe_load((harness.recording(HOST) / 'expected.yaml').read_text(encoding='utf-8'))
    board = yaml.safe_load((harness.recording(BASEBOARD) / 'expected.yaml').read_text(encoding='utf-8'))
    first, second = (one for one in board['accelerators'] if one['kind'] == 'GPU')
    gpus = [first, second, *(_renamed(second, 'GPU_1', f'GPU_{number}') for number in range(2, GPUS))]
    return {
        'format': 1,
        'recording': NAME,
        'summary': {'GPU': GPUS, 'FPGA': 0, 'DPU': 1, 'NIC': 0, 'ASIC': 0},
        'accelerators': [*gpus, *(one for one in host['accelerators'] if one['kind'] != 'GPU')],
        'platform_devices': [*(host.get('platform_devices') or ()), *(board.get('platform_devices') or ())],
        'not_accelerators': [*(host.get('not_accelerators') or ()), *(board.get('not_accelerators') or ())],
        'platform_locks': [*(host.get('platform_locks') or ()), *(board.get('platform_locks') or ())],
    }


if __name__ == '__main__':
    print(make(harness.WORK / 'trees' / NAME))

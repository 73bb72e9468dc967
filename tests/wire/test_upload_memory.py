# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The memory that a large image takes: checked, copied and pushed over HTTPS by a process that does nothing else.

This file is also the program of that process. Its peak is VmHWM of /proc/self/status: ``ru_maxrss`` begins with what its parent
had when it was started (Linux keeps it over exec), and a parent as large as pytest would hide everything. proc(5).
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

IMAGE_BYTES = 300 * 2**20
LIMIT_BYTES = 32 * 2**20
TARGET = '/redfish/v1/UpdateService/FirmwareInventory/HGX_FW_GPU_0'
TOP = Path(__file__).resolve().parents[2]


def peak() -> int:
    """The most that this process has had resident, in bytes."""
    lines = Path('/proc/self/status').read_text(encoding='ascii').splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmHWM:'))


def main() -> None:
    """Log in, look at what is there, then check and push, or only hold the image. Standard input says what."""
    from baremetal_acc.bmc.driver import BmcAddress
    from baremetal_acc.bmc.registry import for_address
    from baremetal_acc.images.store import FileStore
    from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, Image, ImageKind
    from baremetal_acc.model.ref import HOST, Ref

    given = json.load(sys.stdin)
    address = BmcAddress(name=HOST, **given['bmc'])
    target = Ref(bmc=HOST, uri=TARGET)
    image = Image(
        name='large',
        kind=ImageKind.FIRMWARE,
        fits=(Fit(vendor='NVIDIA'),),
        component='HGX_FW_GPU_*',
        version='1',
        security_version=1,
        source=given['file'],
        size_bytes=IMAGE_BYTES,
        digest=Digest(algorithm=DigestAlgorithm.SHA256, value=given['digest']),
    )
    with for_address(address).connect(address) as connection:
        connection.component(target)
        connection.active_tasks()
        idle = peak()
        if given['held']:
            sent = IMAGE_BYTES == len(Path(given['file']).read_bytes())
        else:
            sent = connection.push(target, FileStore(folders=(Path(given['file']).parent,)).open(image)) is not None
        sys.stdout.write(json.dumps({'idle': idle, 'peak': peak(), 'sent': sent}))


@pytest.fixture
def sparse(tmp_path: Path) -> tuple[Path, str]:
    """An image of zeros that takes no room on the disk, and its digest."""
    path = tmp_path / 'large.bin'
    with path.open('wb') as file:
        file.truncate(IMAGE_BYTES)
    digest = hashlib.sha256()
    for _ in range(IMAGE_BYTES // 2**20):
        digest.update(bytes(2**20))
    return path, digest.hexdigest()


def pushed(machine: Any, image: tuple[Path, str], tmp_path: Path, *, held: bool) -> dict[str, Any]:
    """What a process of its own tells that pushes the image."""
    bmc = machine.bmcs['host']
    known = {name: getattr(bmc, name) for name in ('address', 'username', 'password', 'verify_ca')}
    given = {'bmc': known, 'file': str(image[0]), 'digest': image[1], 'held': held}
    # The copy that is checked lies in the temporary folder: the test's own, which goes away with it.
    environ = {'PATH': os.environ.get('PATH', ''), 'PYTHONPATH': str(TOP), 'TMPDIR': str(tmp_path)}
    command = [sys.executable, '-m', 'tests.wire.test_upload_memory']
    done = subprocess.run(
        command, cwd=TOP, env=environ, input=json.dumps(given), capture_output=True, text=True, timeout=120, check=False
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='the peak of a process is read from /proc')
def test_an_image_of_300_mib_costs_less_than_32_mib(
    emulated_machine: Callable[..., Any], sparse: tuple[Path, str], tmp_path: Path
) -> None:
    """Size and digest are checked, a private copy is made, and all of it arrives; none of this holds the image."""
    machine = emulated_machine('gpu-server', gpus=1, flash_seconds=0.05)
    told = pushed(machine, sparse, tmp_path, held=False)
    (upload,) = (e for e in machine.log() if e['received_bytes'] is not None)
    assert (IMAGE_BYTES, f'sha256:{sparse[1]}') == (upload['received_bytes'], upload['digest'])
    assert told['sent']
    assert LIMIT_BYTES > told['peak'] - told['idle']


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='the peak of a process is read from /proc')
def test_an_image_that_is_held_is_noticed(
    emulated_machine: Callable[..., Any], sparse: tuple[Path, str], tmp_path: Path
) -> None:
    """A process that only reads the image whole: else the measurement would prove nothing."""
    machine = emulated_machine('gpu-server', gpus=1, flash_seconds=0.05)
    told = pushed(machine, sparse, tmp_path, held=True)
    assert 8 * LIMIT_BYTES < told['peak'] - told['idle']


if __name__ == '__main__':
    main()

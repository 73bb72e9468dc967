# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write the documents of the demo's operator: firmware images, their catalogue with digests, a baseline, Ironic's options.

The emulator's own tool makes the images, as a process: only the emulator knows which images its cards accept.
"""

import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """One image: the input of the emulator's image tool, and the fields of its catalogue entry.

    :ivar part: the part of a card that the image is for, as the emulator calls it; the machine tells the model of the card.
    :ivar fits: the ids in the catalogue entry, as ``{key: value}``.
    :ivar component: pattern over SoftwareInventory Ids, or over SlotIds for a function.
    :ivar reset: the reset that activates the image.
    :ivar restore: name of the restore image.
    """

    name: str
    part: str
    version: str
    fits: Mapping[str, str]
    component: str
    reset: str = 'none'
    restore: str = 'none'
    function: str | None = None
    security_version: int = 1
    size: str = '64KiB'


GPU_FITS = {'pci': '0x10de:0x2330'}
FPGA_FITS = {'pci': '0x8086:0x0b2b'}
DPU_FITS = {'part_number': '900-9D3B6-00CV-AA0'}

GPU_OLD, GPU_NEW = '96.00.30.00.01', '96.00.74.00.01'
FPGA_OLD, FPGA_NEW, FPGA_NEXT = '2.0.0', '2.1.0', '2.2.0'
DPU_OLD, DPU_NEW = '32.39.2048', '32.43.1014'
TENANT = '6.6.6'
"""The version of the images that a tenant tries to write."""

GPU = ImageFile(name='gpu-old', part='gpu', version=GPU_OLD, fits=GPU_FITS, component='*_FW_GPU_*')
FPGA = ImageFile(name='fpga-old', part='fpga', version=FPGA_OLD, fits=FPGA_FITS, component='FPGA1_FW')
DPU = ImageFile(name='dpu-old', part='nic', version=DPU_OLD, fits=DPU_FITS, component='DPU_NIC')
SLOT = ImageFile(name='slot', part='slot', version='1.0', fits=FPGA_FITS, component='Slot*')

_NEW = {'reset': 'system-reset', 'security_version': 2, 'size': '300KiB'}

CATALOGUE = (
    replace(GPU, reset='system-reset'),
    replace(GPU, name='gpu-new', version=GPU_NEW, restore='gpu-old', **_NEW),  # type: ignore[arg-type]
    replace(FPGA, reset='system-reset'),
    replace(FPGA, name='fpga-new', version=FPGA_NEW, restore='fpga-old', **_NEW),  # type: ignore[arg-type]
    replace(FPGA, name='fpga-next', version=FPGA_NEXT, restore='fpga-new', **_NEW),  # type: ignore[arg-type]
    replace(DPU, reset='system-reset'),
    replace(DPU, name='dpu-new', version=DPU_NEW, restore='dpu-old', **_NEW),  # type: ignore[arg-type]
    replace(SLOT, name='function-gzip', function='gzip', version='1.4'),
    replace(SLOT, name='function-aes', function='aes', version='2.0'),
)
"""The images of the operator."""

TENANTS = (
    replace(GPU, name='tenant-gpu', version=TENANT),
    replace(FPGA, name='tenant-fpga', version=TENANT),
    replace(DPU, name='tenant-dpu', version=TENANT),
    replace(SLOT, name='tenant-function', function='miner', version=TENANT),
    replace(GPU, name='tenant-twin', version=GPU_NEW, security_version=2, size='65KiB'),
)
"""The images of a tenant: each is one that its card would accept. The last one shows the operator's own version string."""

BASELINE = """\
format = 1

[[rule]]
name = "gpus"
match = {{ kind = "GPU" }}
count = 2
firmware = {{ "*_FW_GPU_*" = "{gpu}" }}

[[rule]]
name = "fpga"
match = {{ kind = "FPGA" }}
count = 1
firmware = {{ "FPGA1_FW" = "{fpga}" }}
functions = {{ "Slot0" = "gzip", "Slot1" = "aes" }}

[[rule]]
name = "dpu"
match = {{ kind = "DPU" }}
count = 1
firmware = {{ "DPU_NIC" = "{dpu}" }}

[[rule]]
name = "every card of a tenant"
match = {{ exposure = "tenant" }}
block = ["host-device"]
accept = ["locked-verified"]
custody = "required"
"""

IRONIC_CONF = """\
[baremetal_acc]
baseline = {folder}/baseline.toml
catalogue = {folder}/catalogue.toml
# Emulated cards are fast; real ones need the defaults.
poll_interval = 0.5
settle_timeout = 10
reset_timeout = 60
job_timeout = 180
bmc_timeout = 20
[conductor]
# Each read takes 0.4 s of CPU time for the password of an emulated BMC, and the demo reads the power state itself.
enable_health_monitoring = false
sync_power_state_interval = 300
"""


def write_conf(folder: Path) -> Path:
    """Write the options for Ironic, as a file in ``ironic.conf.d`` would hold them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / 'baremetal_acc.conf'
    path.write_text(IRONIC_CONF.format(folder=folder))
    return path


def write_trust(folder: Path) -> Path:
    """Write a configuration for the command line with which it trusts the certificates that this Ironic signs."""
    path = folder / 'verify.conf'
    path.write_text(f'[baremetal_acc]\ncertificate_key = {folder.parent / "certificate.pem"}\n')
    return path


def write_baseline(folder: Path, *, gpu: str = GPU_NEW, fpga: str = FPGA_NEW, dpu: str = DPU_NEW) -> Path:
    """Write the baseline. The file is written next to it and renamed, because a step may be reading the baseline."""
    path = folder / 'baseline.toml'
    beside = folder / '.baseline.toml'
    beside.write_text(BASELINE.format(gpu=gpu, fpga=fpga, dpu=dpu))
    beside.replace(path)
    return path


def write_images(folder: Path, images: Sequence[ImageFile], models: Mapping[str, str]) -> dict[str, Path]:
    """Make image files, two at a time.

    :param models: part of a card -> model of the card, as the emulated machine has them.
    :returns: name of an image -> its path.
    :raises subprocess.CalledProcessError: the emulator's tool failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = {image.name: folder / f'{image.name}.img' for image in images}
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda image: _make(image, models[image.part], paths[image.name]), images))
    return paths


def write_catalogue(folder: Path, images: Sequence[ImageFile], paths: Mapping[str, Path]) -> Path:
    """Write the catalogue of images, with their digests."""
    path = folder / 'catalogue.toml'
    path.write_text('format = 1\n' + ''.join(_entry(image, paths[image.name]) for image in images))
    return path


def _make(image: ImageFile, model: str, path: Path) -> None:
    command = [sys.executable, '-m', 'baremetal_acc.emulator.image', 'build', '--out', str(path)]
    command += ['--model', model, '--component', image.part, '--version', image.version]
    command += ['--security-version', str(image.security_version), '--size', image.size]
    if image.function is not None:
        command += ['--kind', 'function', '--function', image.function]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _entry(image: ImageFile, path: Path) -> str:
    data = path.read_bytes()
    fits = ', '.join(f'{key} = "{value}"' for key, value in image.fits.items())
    lines = [
        '[[image]]',
        f'name = "{image.name}"',
        f'kind = "{"firmware" if image.function is None else "function"}"',
        f'fits = [{{ {fits} }}]',
        f'component = "{image.component}"',
        f'version = "{image.version}"',
        f'security_version = {image.security_version}',
        f'source = "{path.name}"',
        f'size = {len(data)}',
        f'digest = "sha256:{hashlib.sha256(data).hexdigest()}"',
        f'apply = {{ reset = "{image.reset}" }}',
        f'restore = "{image.restore}"' if image.function is None else f'function = "{image.function}"',
    ]
    return '\n' + '\n'.join(lines) + '\n'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A tray of eight GPUs whose firmware comes as one bundle, or as one package for each of them.

The machine is the emulated product ``hgx-tray``: its BMC takes packages, one update at a time, and their firmware comes into
force when the host was off and is on again. It writes all components of a package in the time that one of them takes.
"""

import hashlib
from pathlib import Path

from baremetal_acc.emulator import hw
from baremetal_acc.emulator.hw.parameters import Parameters, ProductParameters
from baremetal_acc.emulator.parts import Value
from baremetal_acc.emulator.redfish.view import Options
from baremetal_acc.emulator.tray_package import tray_package
from benchmarks.flash.machine import Hardware

PRODUCT = 'hgx-tray'
NEW = '97.00.82.00.20'
TARGET = '/redfish/v1/UpdateService/FirmwareInventory/HGX_0'
"""What the BMC is told for the whole baseboard."""

ITEMS = 'HGX_FW_GPU_*'
IDENTIFIER = 0x20
"""ComponentIdentifier of the firmware of a GPU."""

FITS = 'fits = [{ pci = "0x10de:0x2901" }]'
APPLY = 'apply = { reset = "power-cycle" }'


def item(number: int) -> str:
    """The Id of a card's firmware item."""
    return f'HGX_FW_GPU_{number}'


def locks(number: int, closed: bool) -> dict[str, Value]:
    """The locks of a card: of its image, and of the host's way to it."""
    return {f'{item(number)}/WriteProtected': closed, f'HGX_ERoT_GPU_{number}/InbandUpdatePolicyEnabled': not closed}


def build(parameters: Parameters, cards: int) -> ProductParameters:
    """The product."""
    assert cards == parameters.gpus
    return hw.build(PRODUCT, parameters)


TRAY = Hardware(build=build, item=item, locks=locks, new=NEW, options=Options())


def write_bundle(folder: Path, cards: int) -> None:
    """A catalogue of one bundle for all cards."""
    package = tray_package(PRODUCT, {ITEMS: NEW}, version='bundle', parameters=Parameters(gpus=cards))
    entries = [
        '[[bundle]]',
        'name = "tray"',
        *_file(folder, 'tray', package),
        f'targets = ["{TARGET}"]',
        FITS,
        'security_version = 1',
        APPLY,
        'restore = "none"',
        '[[bundle.component]]',
        'name = "gpu"',
        f'component = "{ITEMS}"',
        f'identifier = {IDENTIFIER}',
        f'version = "{NEW}"',
    ]
    _write_catalogue(folder, entries)


def write_packages(folder: Path, cards: int) -> None:
    """A catalogue of one image for each card: a package for that card's item alone."""
    entries = []
    for number in range(cards):
        name = item(number)
        package = tray_package(PRODUCT, {name: NEW}, version=f'only {name}', parameters=Parameters(gpus=cards))
        entries += [
            '[[image]]',
            f'name = "gpu-{number}"',
            'kind = "firmware"',
            *_file(folder, name, package),
            FITS,
            f'component = "{name}"',
            f'version = "{NEW}"',
            'security_version = 1',
            APPLY,
            'restore = "none"',
        ]
    _write_catalogue(folder, entries)


def _file(folder: Path, name: str, package: bytes) -> list[str]:
    """Write a package; the keys of the catalogue that say so."""
    path = folder / 'images' / f'{name}.fwpkg'
    path.write_bytes(package)
    digest = hashlib.sha256(package).hexdigest()
    return [f'source = "images/{path.name}"', f'size = {len(package)}', f'digest = "sha256:{digest}"']


def _write_catalogue(folder: Path, entries: list[str]) -> None:
    (folder / 'catalogue.toml').write_text('\n'.join(['format = 1', *entries]) + '\n', encoding='utf-8')

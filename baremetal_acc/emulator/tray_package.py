# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build PLDM firmware update packages for emulated trays: small images for components of a product, in given versions.

``python -m baremetal_acc.emulator.tray_package hgx-tray --set 'HGX_FW_GPU_*=97.00.82.00.20' --out FILE`` writes a package; in
Python :func:`tray_package` returns its bytes. Equal components share one image and one record, as in the packages of
manufacturers.
"""

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from baremetal_acc.emulator.hw import PRODUCTS, build
from baremetal_acc.emulator.hw.parameters import BadParameter, Parameters
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.parts import EmulatedComponent, Restart
from baremetal_acc.emulator.pldm import (
    AC_POWER_CYCLE,
    DC_POWER_CYCLE,
    UUID_DESCRIPTOR,
    Descriptor,
    PartToBuild,
    RecordToBuild,
    build_package,
)

T = TypeVar('T')

SIZE_BYTES = 2048

ACTIVATIONS = {None: 1, Restart.WARM: 1 << 3, Restart.COLD: DC_POWER_CYCLE, Restart.MAINS: AC_POWER_CYCLE}
"""RequestedComponentActivationMethod. Source: DSP0267 1.3.0, table 6."""


def tray_package(
    product: str,
    versions: Mapping[str, str],
    *,
    version: str = 'emulated-bundle',
    parameters: Parameters | None = None,
    stamps: Mapping[str, int] | None = None,
    images: Mapping[str, bytes] | None = None,
    forced: bool = False,
    continues: bool = True,
    size_bytes: int = SIZE_BYTES,
) -> bytes:
    """Build a package for a tray; the same arguments give the same bytes.

    :param versions: by the Id of a component's inventory item, or a glob of such Ids: ``{'HGX_FW_GPU_*': '97.00.82.00.20'}``.
        Components that match no glob are left out of the package; of several matching globs the first counts.
    :param stamps: comparison stamps, by the same keys; without a stamp versions are compared.
    :param images: bytes to use instead of a valid image, by the same keys.
    :param forced: the package itself requests a forced update of each component.
    :param continues: a device writes its other components when one has failed.
    :raises BadParameter: there is no such product, or a glob matches no component that a package can contain.
    """
    machine = build(product, parameters or Parameters()).machine
    known = [one for one in machine.components.values() if one.identity is not None and one.updateable]
    for glob in (*versions, *(stamps or {}), *(images or {})):
        if not any(fnmatchcase(one.item, glob) for one in known):
            what = f'{product} has no item {glob!r} that a package can update'
            raise BadParameter(what, hint=f'it has {", ".join(one.item for one in known)}')
    parts: list[PartToBuild] = []
    records: dict[frozenset[Descriptor], set[int]] = {}
    for component in known:
        wanted = _of(versions, component)
        if wanted is None or component.identity is None:
            continue
        image = build_image(model=component.model, component=component.component, version=wanted, size_bytes=size_bytes)
        part = PartToBuild(
            number=component.identity.number,
            classification=component.identity.classification,
            version=wanted,
            image=_of(images or {}, component) or image,
            stamp=_of(stamps or {}, component),
            forced=forced,
            activation=ACTIVATIONS[component.activates],
        )
        if part not in parts:
            parts.append(part)
        records.setdefault(component.identity.descriptors, set()).add(parts.index(part))
    found = [
        RecordToBuild(descriptors=_told(descriptors), parts=frozenset(positions), version=version, continues=continues)
        for descriptors, positions in records.items()
    ]
    return build_package(version, found, parts)


def _of(rules: Mapping[str, T], component: EmulatedComponent) -> T | None:
    return next((value for glob, value in rules.items() if fnmatchcase(component.item, glob)), None)


def _told(descriptors: frozenset[Descriptor]) -> tuple[Descriptor, ...]:
    """Order the descriptors of a record: the UUID first, then the others."""
    return tuple(sorted(descriptors, key=lambda one: (one[0] != UUID_DESCRIPTOR, *one)))


def main(argv: Sequence[str] | None = None) -> int:
    """Write a package. Exit code 2 when the arguments are not valid."""
    parser = argparse.ArgumentParser(
        prog='python -m baremetal_acc.emulator.tray_package', description='Write a PLDM package for an emulated tray'
    )
    parser.add_argument('product', help=f'a product that accepts packages, one of {", ".join(PRODUCTS)}')
    parser.add_argument(
        '--set',
        action='append',
        required=True,
        metavar='ITEM=VERSION',
        help='version of an item, or of all items that match a glob',
    )
    parser.add_argument('--version', default='emulated-bundle', help='version of the package')
    parser.add_argument('--gpus', type=int, help='number of GPUs of the machine')
    parser.add_argument('--force', action='store_true', help='the package requests a forced update of each component')
    parser.add_argument('--out', type=Path, required=True)
    arguments = parser.parse_args(argv)
    versions = dict(one.partition('=')[::2] for one in arguments.set)
    try:
        data = tray_package(
            arguments.product,
            versions,
            version=arguments.version,
            parameters=Parameters(gpus=arguments.gpus),
            forced=arguments.force,
        )
    except (BadParameter, ValueError) as exc:
        parser.error(str(exc))
    arguments.out.write_bytes(data)
    sys.stdout.write(f'sha256:{hashlib.sha256(data).hexdigest()}  {arguments.out}\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())

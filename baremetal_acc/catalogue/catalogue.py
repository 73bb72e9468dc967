# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which images the operator has: the catalogue, read key by key."""

import re
import uuid
from pathlib import Path

from baremetal_acc.model import toml
from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, Image, ImageKind
from baremetal_acc.model.lock import ResetKind

FORMAT = 1

NO_RESTORE = 'none'
"""What ``restore`` says when there is no image to go back to, and the operator knows it."""

_HEX_DIGITS = {DigestAlgorithm.SHA256: 64, DigestAlgorithm.SHA512: 128}

_PCI = re.compile(r'0x[0-9a-f]{4}:0x[0-9a-f]{4}')

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,99}')


def parse(text: str, path: str) -> tuple[Image, ...]:
    """The images of a ``catalogue.toml``, in its order.

    :param path: for messages; sources are relative to its folder.
    :raises DocumentError: it is wrong; names file and line.
    """
    document = toml.read(text, path, format_version=FORMAT)
    tables = document.tables('image')
    document.finish()
    images = tuple(_image(table, Path(path).parent) for table in tables)
    by_name = {}
    for image, table in zip(images, tables, strict=True):
        if image.name in by_name:
            raise table.error('name', f'two images are called {image.name!r}')
        by_name[image.name] = image
    for image, table in zip(images, tables, strict=True):
        if image.restore is None:
            continue
        restore = by_name.get(image.restore)
        if restore is None:
            raise table.error('restore', f'no image is called {image.restore!r}', toml.did_you_mean(image.restore, by_name))
        if restore.kind is not image.kind or restore.name == image.name:
            raise table.error('restore', f'{image.restore!r} is no other {image.kind} image')
    return images


def _image(table: toml.Table, folder: Path) -> Image:
    name = table.required_string('name')
    if not _NAME.fullmatch(name):
        raise table.error('name', f'{name!r} is no name: letters, digits, dot, dash and underline, at most 100')
    kind = table.choice('kind', ImageKind, required=True) or ImageKind.FIRMWARE
    apply = table.table('apply')
    reset = apply.choice('reset', ResetKind) or ResetKind.NONE
    order = apply.integer('order', 0) or 0
    apply.finish()
    restore = table.string('restore')
    if restore is None and kind is ImageKind.FIRMWARE:
        raise table.error(None, f'restore is missing: name the image to go back to, or "{NO_RESTORE}" if there is none')
    image = Image(
        name=name,
        kind=kind,
        fits=_fits(table),
        component=table.required_string('component'),
        version=table.required_string('version'),
        security_version=table.required_integer('security_version'),
        source=_source(table, folder),
        size_bytes=table.required_integer('size', minimum=1),
        digest=_digest(table),
        reset=reset,
        order=order,
        restore=None if restore == NO_RESTORE else restore,
        function=table.string('function'),
        uuid=_uuid(table),
    )
    if kind is ImageKind.FUNCTION and image.function is None:
        raise table.error(None, 'function is missing: an image of kind "function" names the function')
    if kind is ImageKind.FIRMWARE and (image.function is not None or image.uuid is not None):
        raise table.error('function' if image.function else 'uuid', 'is for images of kind "function" only')
    table.finish()
    return image


def _fits(table: toml.Table) -> tuple[Fit, ...]:
    found = []
    for fit in table.tables('fits'):
        pci = fit.string('pci')
        if pci is not None and not _PCI.fullmatch(pci.lower()):
            raise fit.error('pci', f'{pci!r} is no pair of vendor and device id like "0x10de:0x2330"')
        found.append(
            Fit(
                vendor=fit.string('vendor'),
                model=fit.string('model'),
                part_number=fit.string('part_number'),
                pci=None if pci is None else pci.lower(),
                software_id=fit.string('software_id'),
            )
        )
        fit.finish()
        if found[-1] == Fit():
            raise fit.error(None, 'names no id: it would fit every device')
    if not found:
        raise table.error('fits' if table.has('fits') else None, 'fits is missing: name the devices that the image is for')
    return tuple(found)


def _digest(table: toml.Table) -> Digest:
    text = table.required_string('digest')
    name, colon, value = text.partition(':')
    if not colon:
        raise table.error('digest', 'names no algorithm', 'write it as "sha256:..." or "sha512:..."')
    try:
        algorithm = DigestAlgorithm(name.lower())
    except ValueError:
        words = ', '.join(DigestAlgorithm)
        raise table.error('digest', f'{name!r} is none of {words}', toml.did_you_mean(name, DigestAlgorithm)) from None
    if not re.fullmatch(r'[0-9a-f]+', value.lower()) or len(value) != _HEX_DIGITS[algorithm]:
        raise table.error('digest', f'{_HEX_DIGITS[algorithm]} hexadecimal digits expected for {algorithm}')
    return Digest(algorithm=algorithm, value=value.lower())


def _source(table: toml.Table, folder: Path) -> str:
    source = table.required_string('source')
    if '://' in source:
        raise table.error('source', f'{source.split("://")[0]}:// cannot be read; name a file beside the catalogue')
    return str(folder / source)


def _uuid(table: toml.Table) -> str | None:
    text = table.string('uuid')
    if text is None:
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise table.error('uuid', f'{text!r} is no UUID') from None

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which images the operator has: the catalogue, read key by key."""

import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from baremetal_acc.catalogue import address, deny
from baremetal_acc.catalogue.deny import Denial
from baremetal_acc.decide.images import same_version
from baremetal_acc.model import toml
from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, Image, ImageKind, Reference
from baremetal_acc.model.lock import ResetKind

FORMAT = 1

NO_RESTORE = 'none'
"""What ``restore`` says when there is no image to go back to, and the operator knows it."""

_HEX_DIGITS = {DigestAlgorithm.SHA256: 64, DigestAlgorithm.SHA512: 128}

_PCI = re.compile(r'0x[0-9a-f]{4}:0x[0-9a-f]{4}')

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,99}')

_LONGEST_PATTERN = 200
"""Characters of a pattern over Ids. The longest Id of all recordings has 63."""

_LARGEST = 2**63 - 1
"""Of a size: what others can store as an integer."""

_MEASURED = {'sha256': 64, 'sha384': 96, 'sha512': 128, 'sha3_256': 64, 'sha3_384': 96, 'sha3_512': 128}
"""Hexadecimal digits of a measurement, by its algorithm. Source: DSP0274 1.2.3, MeasurementHashAlgo."""

_LONGEST_RAW = 128
"""Hexadecimal digits of a measurement that is no digest."""

_LAST_INDEX = 254
"""Source: DSP0274 1.2.3, measurement index: 0xFF asks for all."""

_HIGHEST_SERIAL = 2**53
"""JSON keeps whole numbers up to here as they are (RFC 8259, section 6). Nobody counts that far, so whoever comes near wants to
lock out all who count on: as many seconds are 285 million years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What a ``catalogue.toml`` says.

    :ivar path: where it lies, for messages.
    :ivar serial: a number that goes up with every change; None where the operator counts none.
    :ivar expires: after which no image of it is written any more; None: never.
    """

    path: str
    images: tuple[Image, ...]
    serial: int | None = None
    expires: datetime | None = None
    denials: tuple[Denial, ...] = ()


def parse(text: str, path: str) -> tuple[Image, ...]:
    """The images of a ``catalogue.toml``, in its order.

    :param path: for messages; sources are relative to its folder.
    :raises DocumentError: it is wrong; names file and line.
    """
    return read(text, path).images


def read(text: str, path: str) -> Catalogue:
    """Everything that a ``catalogue.toml`` says. Whose it is, and whether it is still good, is not asked here.

    :param path: for messages; sources are relative to its folder.
    :raises DocumentError: it is wrong; names file and line.
    """
    document = toml.read(text, path, format_version=FORMAT)
    serial = document.integer('serial')
    expires = document.moment('expires')
    denials = tuple(_denial(table) for table in document.tables('deny'))
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
    return Catalogue(
        path=path,
        images=deny.marked(images, denials),
        serial=None if serial is None else _bounded(document, 'serial', serial, _HIGHEST_SERIAL),
        expires=expires,
        denials=denials,
    )


def _image(table: toml.Table, folder: Path) -> Image:
    name = table.required_string('name')
    if not _NAME.fullmatch(name):
        raise table.error('name', f'{name!r} is no name: letters, digits, dot, dash and underline, at most 100')
    kind = table.choice('kind', ImageKind, required=True) or ImageKind.FIRMWARE
    apply = table.table('apply')
    reset = apply.choice('reset', ResetKind) or ResetKind.NONE
    order = apply.integer('order', 0) or 0
    via = apply.strings('via') or ()
    apply.finish()
    restore = table.string('restore')
    if restore is None and kind is not ImageKind.FUNCTION:
        raise table.error(None, f'restore is missing: name the image to go back to, or "{NO_RESTORE}" if there is none')
    signature = table.string('signature')
    image = Image(
        name=name,
        kind=kind,
        fits=_fits(table),
        component=_component(table, table.required_string('component')),
        version=table.required_string('version'),
        security_version=table.required_integer('security_version'),
        source=_place(table, 'source', table.required_string('source'), folder),
        size_bytes=_bounded(table, 'size', table.required_integer('size', minimum=1)),
        digest=_digest(table, table.required_string('digest')),
        reset=reset,
        order=order,
        restore=None if restore == NO_RESTORE else restore,
        via=via,
        signature=None if signature is None else _place(table, 'signature', signature, folder),
        function=table.string('function'),
        uuid=_uuid(table),
        measurements=_references(table),
    )
    if kind is ImageKind.FUNCTION and image.function is None:
        raise table.error(None, 'function is missing: an image of kind "function" names the function')
    if kind is not ImageKind.FUNCTION and (image.function is not None or image.uuid is not None):
        raise table.error('function' if image.function else 'uuid', 'is for images of kind "function" only')
    if image.measurements and kind is not ImageKind.FIRMWARE:
        raise table.error('measurements', 'is for images of kind "firmware" only')
    if kind is ImageKind.REVOCATION and image.restore is not None:
        raise table.error('restore', f'nothing undoes a revocation: write restore = "{NO_RESTORE}"')
    if via and kind is not ImageKind.FIRMWARE:
        raise table.error('apply', 'via is for images of kind "firmware" only')
    if any(same_version(image.version, over) for over in via):
        raise table.error('apply', f'via holds {image.version!r}, the version of the image itself')
    table.finish()
    return image


def _denial(table: toml.Table) -> Denial:
    component, digest = table.string('component'), table.string('digest')
    denial = Denial(
        reason=table.required_string('reason'),
        fits=_fit_tables(table),
        component=None if component is None else _component(table, component),
        version=table.string('version'),
        digest=None if digest is None else _digest(table, digest),
    )
    table.finish()
    if denial.version is None and denial.digest is None:
        raise table.error(None, 'names neither version nor digest: what is denied?')
    if denial.digest is None and denial.component is None and not denial.fits:
        raise table.error('version', 'would be denied of everything: name component or fits as well')
    return denial


def _fits(table: toml.Table) -> tuple[Fit, ...]:
    found = _fit_tables(table)
    if not found:
        raise table.error('fits' if table.has('fits') else None, 'fits is missing: name the devices that the image is for')
    return found


def _fit_tables(table: toml.Table) -> tuple[Fit, ...]:
    found = []
    for fit in table.tables('fits'):
        ids = {key: fit.string(key) for key in ('pci', 'subsystem')}
        for key, pair in ids.items():
            if pair is not None and not _PCI.fullmatch(pair.lower()):
                raise fit.error(key, f'{pair!r} is no pair of vendor and device id like "0x10de:0x2330"')
        found.append(
            Fit(
                vendor=fit.string('vendor'),
                model=fit.string('model'),
                part_number=fit.string('part_number'),
                software_id=fit.string('software_id'),
                **{key: None if pair is None else pair.lower() for key, pair in ids.items()},
            )
        )
        fit.finish()
        if found[-1] == Fit():
            raise fit.error(None, 'names no id: it would fit every device')
    return tuple(found)


def _component(table: toml.Table, text: str) -> str:
    if len(text) > _LONGEST_PATTERN:
        raise table.error('component', f'longer than {_LONGEST_PATTERN} characters')
    return text


def _bounded(table: toml.Table, key: str, value: int, most: int = _LARGEST) -> int:
    if value > most:
        raise table.error(key, f'more than {most}')
    return value


def _digest(table: toml.Table, text: str) -> Digest:
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


def _references(table: toml.Table) -> tuple[Reference, ...]:
    """What a device measures that runs the image: ``"HGX_ERoT_GPU_*/2" = "sha384:..."``, or a list of values."""
    found = []
    listed = table.table('measurements')
    for key, value in listed.data.items():
        pattern, slash, number = key.rpartition('/')
        if not number.isascii() or not number.isdigit() or not 1 <= int(number[:9]) <= _LAST_INDEX or (slash and not pattern):
            hint = 'write "INDEX", or "PATTERN/INDEX" with a pattern over the Ids of ComponentIntegrity; indices are 1 to 254'
            raise listed.error(key, f'{key!r} is no place of a measurement', hint)
        texts = listed.strings(key) if isinstance(value, list) else (listed.required_string(key),)
        if not texts:
            raise listed.error(key, 'is empty: nothing could ever be measured right')
        values = tuple(_measured(listed, key, text) for text in texts)
        if len(pattern) > _LONGEST_PATTERN:
            raise listed.error(key, f'longer than {_LONGEST_PATTERN} characters')
        found.append(Reference(integrity=pattern or '*', index=int(number), values=values))
    listed.finish()
    return tuple(found)


def _measured(table: toml.Table, key: str, text: str) -> tuple[str, str]:
    name, colon, value = text.lower().partition(':')
    if not colon:
        raise table.error(key, 'names no algorithm', 'write it as "sha384:...", or as "raw:..." for what is no digest')
    if name != 'raw' and name not in _MEASURED:
        words = (*_MEASURED, 'raw')
        raise table.error(key, f'{name[:40]!r} is none of {", ".join(words)}', toml.did_you_mean(name, words))
    digits = re.fullmatch(r'[0-9a-f]+', value) is not None and len(value) % 2 == 0
    if name == 'raw' and (not digits or len(value) > _LONGEST_RAW):
        raise table.error(key, f'hexadecimal digits expected, an even number of them and at most {_LONGEST_RAW}')
    if name != 'raw' and (not digits or len(value) != _MEASURED[name]):
        raise table.error(key, f'{_MEASURED[name]} hexadecimal digits expected for {name}')
    return name, value


def _place(table: toml.Table, key: str, text: str, folder: Path) -> str:
    """Where something lies: a URL as it is, a path against the catalogue's folder."""
    if '://' not in text:
        return str(folder / text)
    try:
        return address.parse(text).url
    except ValueError as exc:
        scheme = text.split('://')[0].lower()
        if scheme not in address.PORTS:
            what = f'{scheme[:20]!r} cannot be read; name a file beside the catalogue, or a URL of http or https'
            raise table.error(key, what) from None
        raise table.error(key, str(exc)) from None


def _uuid(table: toml.Table) -> str | None:
    text = table.string('uuid')
    if text is None:
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise table.error('uuid', f'{text!r} is no UUID') from None

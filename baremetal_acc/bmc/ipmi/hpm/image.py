# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse an HPM.1 upgrade image, check its integrity, and check that it is for a given controller.

Checksums and MD5 detect damage, not forgery: that the bytes are those the operator meant is proven by the catalogue's digest
and signature, which are checked before this. The image is still not trusted: a length beyond its end, a record of an unknown
kind or a surplus byte makes :func:`parse` refuse it.

Source: PICMG HPM.1 R1.0, section 4, as ipmitool 1.8.19 and python-ipmi 0.6.1 read it; doc/source/reference/ipmi_notes.rst, "The
HPM.1 upgrade image".
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Flag, IntEnum
from typing import BinaryIO, Protocol, overload

from baremetal_acc.bmc.ipmi.device import DeviceId
from baremetal_acc.bmc.ipmi.text import clean
from baremetal_acc.errors import ImageError

SIGNATURE = b'PICMGFWU'

MOST_BYTES = 512 * 1024 * 1024
"""Maximum size of an image. The largest FPGA configurations have about 130 MB. An image is read from its file, not held in
memory.
"""

MOST_RECORDS = 64
"""Maximum number of action records. Eight components with backup, prepare and upload need 24."""

UNIT = timedelta(seconds=5)
"""Unit of the timeouts in images and in the answers of controllers."""

_FIXED = 34
"""Length of the header before the OEM data, in bytes."""

_DIGEST = 16

_RECORD = 3
"""Bytes of every action record; an upload record has 31 more before its firmware."""

_UPLOAD = 34

_DESCRIPTION = slice(9, 30)

_AT_ONCE = 1024 * 1024
"""Bytes of an image that are read at a time."""


class Content(Protocol):
    """A sequence of bytes: ``bytes``, or :class:`StreamedImage`."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, key: int, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...


class StreamedImage:
    """Bytes of an open stream, read on access. Whoever holds it, or a part of it, keeps the stream open.

    :param size_bytes: number of bytes from ``begin`` on.
    """

    def __init__(self, stream: BinaryIO, size_bytes: int, name: str, *, begin: int = 0) -> None:
        self._stream = stream
        self._size = size_bytes
        self._name = name
        self._begin = begin

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...

    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...

    def __getitem__(self, key: int | slice, /) -> int | bytes:
        """A byte, or a slice without step.

        :raises ImageError: the stream ends before them.
        """
        if isinstance(key, int):
            return self[key : key + 1][0]
        start, stop, _ = key.indices(self._size)
        self._stream.seek(self._begin + start)
        found = self._stream.read(max(0, stop - start))
        if len(found) != max(0, stop - start):
            raise ImageError(image=self._name, what='is shorter than when it was checked')
        return found

    def part(self, at: int, size_bytes: int) -> 'StreamedImage':
        """A part of these bytes, also read on access."""
        return StreamedImage(self._stream, size_bytes, self._name, begin=self._begin + at)


class ActionKind(IntEnum):
    """Kind of an action record."""

    BACKUP = 0
    PREPARE = 1
    UPLOAD = 2


class ImageFeature(Flag):
    """Capability bits in the header of an image, for display only: the capabilities that the target reports take precedence.

    Known from one lineage of sources only; the order of the bits is the reverse of the target's capabilities.
    """

    SERVICES_AFFECTED = 0x10
    MANUAL_ROLLBACK = 0x20
    AUTO_ROLLBACK = 0x40
    SELF_TEST = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Firmware version of a component. Versions are compared for equality only.

    :ivar minor: two BCD digits in one byte.
    :ivar aux: four vendor-specific bytes.
    """

    major: int
    minor: int
    aux: bytes = bytes(4)

    @property
    def text(self) -> str:
        """As the catalogue writes it: ``1.05``, followed by the auxiliary bytes where they are not zero: ``1.05.0000002A``."""
        text = f'{self.major}.{self.minor:02X}'
        return f'{text}.{self.aux.hex().upper()}' if any(self.aux) else text


def version(raw: bytes) -> Version | None:
    """Parse a version of six bytes; None where they mean that there is none (all FFh, or 7Fh and FFh)."""
    if raw[0] in (0x7F, 0xFF) and raw[1] == 0xFF:
        return None
    return Version(major=raw[0] & 0x7F, minor=raw[1], aux=raw[2:6])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUpload:
    """New firmware of one component.

    :ivar described: description by the image's maker.
    """

    component: int
    version: Version | None
    described: str
    firmware: Content = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeAction:
    """One action record: an action on some components.

    :ivar upload: the firmware to upload; None with the other kinds.
    """

    kind: ActionKind
    components: frozenset[int]
    upload: ImageUpload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HpmImage:
    """A parsed HPM.1 image.

    :ivar name: the catalogue's name, for messages.
    :ivar made: build time in its header.
    :ivar components: numbers of the components that it is for.
    :ivar self_test: timeout of the self-test after activation.
    :ivar rollback: timeout of a rollback.
    :ivar inaccessible: how long the controller may be inaccessible after activation.
    :ivar earliest: oldest firmware revision (major, minor) of the controller on which it can be installed.
    :ivar firmware: firmware revision of the controller after the update.
    """

    name: str
    device_id: int
    manufacturer: int
    product: int
    made: datetime
    features: ImageFeature
    components: frozenset[int]
    self_test: timedelta
    rollback: timedelta
    inaccessible: timedelta
    earliest: tuple[int, int]
    firmware: Version | None
    oem: bytes
    actions: tuple[UpgradeAction, ...]

    @property
    def uploads(self) -> tuple[ImageUpload, ...]:
        """The firmware of its upload actions, in order."""
        return tuple(action.upload for action in self.actions if action.upload is not None)

    def asks(self, kind: ActionKind, component: int) -> bool:
        """Whether it has an action of this kind for this component."""
        return any(action.kind is kind and component in action.components for action in self.actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDevice:
    """Values of a controller that an image is compared with, from Get Device ID and Get Target Upgrade Capabilities.

    :ivar revision: firmware revision: major (without the update-in-progress bit), and minor as a BCD byte.
    :ivar components: numbers of its components; None where they were not read.
    """

    device_id: int
    manufacturer: int
    product: int
    revision: tuple[int, int]
    components: frozenset[int] | None = None


def device(found: DeviceId, components: frozenset[int] | None = None) -> ImageDevice:
    """The values that an image is compared with, from a controller's device id."""
    major, minor = found.firmware.split('.')
    return ImageDevice(
        device_id=found.device,
        manufacturer=found.manufacturer,
        product=found.product,
        revision=(int(major), int(minor, 16)),
        components=components,
    )


def bits(mask: int) -> frozenset[int]:
    """Numbers of the bits that are set in a byte."""
    return frozenset(n for n in range(8) if mask >> n & 1)


def parse(content: Content, name: str) -> HpmImage:
    """Check every byte of an image and parse it.

    :param name: the catalogue's name, for messages.
    :raises ImageError: it is no HPM.1 image, is damaged, or holds invalid values.
    """

    def wrong(what: str) -> ImageError:
        return ImageError(image=name, what=what, hint='nothing was written; download the image again, or ask its vendor')

    if content[: len(SIGNATURE)] != SIGNATURE:
        raise wrong(f'is not an HPM.1 image: it does not begin with {SIGNATURE.decode()}')
    if len(content) > MOST_BYTES:
        raise wrong(f'has {len(content)} bytes, but at most {MOST_BYTES} are supported')
    if len(content) < _FIXED + 1 + _DIGEST:
        raise wrong(f'ends within its header (length {len(content)} bytes)')
    if content[8] != 0:
        raise wrong(f'has HPM.1 image format {content[8]}, but only format 0 is supported')
    end = len(content) - _DIGEST
    header = _FIXED + _number(content, 32, 2) + 1
    if header > end:
        raise wrong(f'the length of the OEM data in the header is {header - _FIXED - 1} bytes, more than the image contains')
    if sum(content[:header]) & 0xFF:
        raise wrong('the header checksum is wrong')
    digest = hashlib.md5(usedforsecurity=False)
    for at in range(0, end, _AT_ONCE):
        digest.update(content[at : min(at + _AT_ONCE, end)])
    if digest.digest() != content[end:]:
        raise wrong('the MD5 digest at the end is wrong')
    components = bits(content[20])
    actions = tuple(_actions(content, header, end, components, wrong))
    uploaded = [action.upload.component for action in actions if action.upload is not None]
    if not uploaded:
        raise wrong('contains no firmware: no action record is an upload')
    if len(uploaded) != len(set(uploaded)):
        raise wrong('contains firmware for one component twice')
    return HpmImage(
        name=name,
        device_id=content[9],
        manufacturer=_number(content, 10, 3) & 0x0FFFFF,
        product=_number(content, 13, 2),
        made=datetime.fromtimestamp(_number(content, 15, 4), UTC),
        features=ImageFeature(content[19] & 0xF0),
        components=components,
        self_test=content[21] * UNIT,
        rollback=content[22] * UNIT,
        inaccessible=content[23] * UNIT,
        earliest=(content[24] & 0x7F, content[25]),
        firmware=version(content[26:32]),
        oem=content[_FIXED : header - 1],
        actions=actions,
    )


def fits(image: HpmImage, target: ImageDevice) -> tuple[str, ...]:
    """Why an image is not compatible with a controller, one sentence for each difference; empty where it is compatible.

    Revisions are ordered here only because the image itself demands a minimum revision.
    """
    found = []
    for what, ours, its, digits in (
        ('device id', image.device_id, target.device_id, 2),
        ('manufacturer', image.manufacturer, target.manufacturer, 6),
        ('product', image.product, target.product, 4),
    ):
        if ours != its:
            found.append(f'image {image.name} is for {what} {ours:0{digits}X}h, but the controller has {its:0{digits}X}h')
    if target.revision < image.earliest:
        found.append(
            f'image {image.name} needs firmware {_revision(image.earliest)} or later on the controller, '
            f'which has {_revision(target.revision)}'
        )
    if target.components is not None and (lacks := image.components - target.components):
        found.append(f'image {image.name} is for component {listed(lacks)}, which the controller does not have')
    return tuple(found)


def _actions(
    content: Content, at: int, end: int, components: frozenset[int], wrong: Callable[[str], ImageError]
) -> Iterator[UpgradeAction]:
    """Parse the action records between the header and the MD5 digest."""
    count = 0
    while at < end:
        count += 1
        where = f'action record {count} at byte {at}'
        if count > MOST_RECORDS:
            raise wrong(f'has more than {MOST_RECORDS} action records')
        if content[at] not in tuple(ActionKind):
            raise wrong(f'{where} has unknown type {content[at]}')
        kind = ActionKind(content[at])
        size = _UPLOAD if kind is ActionKind.UPLOAD else _RECORD
        if at + size > end:
            raise wrong(f'{where} is truncated by the end of the image')
        record = content[at : at + size]
        if sum(record[:_RECORD]) & 0xFF and (kind is not ActionKind.UPLOAD or sum(record) & 0xFF):
            raise wrong(f'the checksum of {where} is wrong')
        named = bits(record[1])
        if not named:
            raise wrong(f'{where} names no component')
        if foreign := named - components:
            raise wrong(f'{where} is for component {listed(foreign)}, which the header does not name')
        at += size
        if kind is not ActionKind.UPLOAD:
            yield UpgradeAction(kind=kind, components=named)
            continue
        if len(named) > 1:
            raise wrong(f'{where} uploads to more than one component: {listed(named)}')
        length = _number(record, 30, 4)
        if length == 0:
            raise wrong(f'{where} contains no firmware')
        if at + length > end:
            raise wrong(f'{where} announces firmware of length {length}, but only {end - at} bytes are left')
        upload = ImageUpload(
            component=min(named),
            version=version(record[3:9]),
            described=text(record[_DESCRIPTION]),
            firmware=content.part(at, length) if isinstance(content, StreamedImage) else content[at : at + length],
        )
        at += length
        yield UpgradeAction(kind=kind, components=named, upload=upload)


def text(raw: bytes) -> str:
    """Decode a text that is padded with zeros."""
    return clean(raw.split(b'\0', 1)[0].decode('latin-1'))


def _number(content: Content, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], 'little')


def _revision(revision: tuple[int, int]) -> str:
    return f'{revision[0]}.{revision[1]:02X}'


def listed(components: frozenset[int]) -> str:
    """Component numbers, for messages."""
    return ', '.join(str(n) for n in sorted(components))

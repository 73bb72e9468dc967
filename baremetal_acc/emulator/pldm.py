# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""PLDM firmware update packages (DSP0267 1.0 to 1.3): a reader, as an emulated BMC reads them, and a builder.

The client has a reader of its own that shares no code with this one, so that an error of one is not repeated by the other. A
BMC needs less of a package than a client shows, so only this is kept: records with their descriptors, components with their
versions, and the images, each an image of :mod:`baremetal_acc.emulator.image`.

Only the package header is held in memory (65,535 bytes at most); images are checked as they arrive. Table numbers are those of
DSP0267 1.3.0.
"""

import hashlib
import struct
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from baremetal_acc.emulator.image import BadImage, EmulatedImage, ImageReader

IDENTIFIERS = {
    uuid.UUID('f018878c-cb7d-4943-9800-a02f059aca02').bytes: 1,
    uuid.UUID('1244d264-8d7d-4718-a030-fc8a56587d5a').bytes: 2,
    uuid.UUID('3119ce2f-e80a-4a99-af6d-46f8b121f6bf').bytes: 3,
    uuid.UUID('7b291c99-6db6-4208-801b-02026e463c78').bytes: 4,
}
"""PackageHeaderIdentifier and its PackageHeaderFormatRevision: 1 for DSP0267 1.0 to 4 for 1.3."""

IDENTIFIER_BYTES = 16
UUID_DESCRIPTOR = 0x0002
VENDOR_DESCRIPTOR = 0xFFFF
FIRMWARE = 0x000A
"""ComponentClassification, table 32."""
DC_POWER_CYCLE, AC_POWER_CYCLE = 1 << 4, 1 << 5
"""Bits of RequestedComponentActivationMethod, table 6."""

# More components than any tray has. The limit keeps the reading time proportional to the bytes of the header.
MOST_COMPONENTS = 1024

_FIXED = 19
_SUM = 4
_ACTIVATIONS = ('Automatic', 'Self-Contained', 'Medium-specific reset', 'System reboot', 'DC power cycle', 'AC power cycle')
_ENCODINGS = ('ascii', 'ascii', 'utf-8', 'utf-16', 'utf-16-le', 'utf-16-be')

Descriptor = tuple[int, bytes]
"""DescriptorType and its data, as in the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageDeviceRecord:
    """A firmware device ID record, for each device that has all of these descriptors.

    :ivar parts: positions of components.
    :ivar continues: the other components are written when one of them fails.
    """

    descriptors: frozenset[Descriptor]
    parts: frozenset[int]
    version: str = ''
    continues: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePart:
    """A component of a package.

    :ivar stamp: its comparison stamp; None where its options do not enable it.
    :ivar image: the image at its place in the package.
    """

    number: int
    version: str
    image: EmulatedImage | BadImage
    classification: int = FIRMWARE
    stamp: int | None = None
    forced: bool = False
    activation: int = DC_POWER_CYCLE

    @property
    def activated_by(self) -> str:
        """What brings the image in force, in the words of openbmc/pldm, fw-update/update_manager.cpp."""
        return ' or '.join(text for bit, text in enumerate(_ACTIVATIONS) if self.activation >> bit & 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageMaker:
    """The content of a package whose checksums are right."""

    version: str
    records: tuple[PackageDeviceRecord, ...]
    parts: tuple[PackagePart, ...]
    digest: str


def is_package(begin: bytes) -> bool:
    """Whether a file that begins with these bytes is a package, valid or not."""
    return begin[:IDENTIFIER_BYTES] in IDENTIFIERS


# ----------------------------------------------------------------------------------------------------------------- reading


class _Fields:
    """Reads little-endian numbers and strings from a range of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        if length > self.left:
            raise BadImage('a field of the package exceeds the available bytes')
        found = self._data[self._at : self._at + length]
        self._at += length
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), 'little')

    def text(self, kind: int, length: int) -> str:
        raw = self.take(length)
        if kind >= len(_ENCODINGS):
            raise BadImage(f'the package has a string of unknown type {kind}')
        try:
            return raw.decode(_ENCODINGS[kind]).rstrip('\0')
        except UnicodeDecodeError as exc:
            raise BadImage('a string of the package cannot be decoded') from exc


@dataclass(slots=True)
class _Place:
    """The place of an image in the package, and its reader."""

    start: int
    end: int
    reader: ImageReader = field(default_factory=ImageReader)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A component as listed in the component table."""

    number: int
    classification: int
    stamp: int
    options: int
    activation: int
    start: int
    size: int
    version: str


class PackageReader:
    """Reads a package as it arrives, in constant memory: ``feed`` the chunks, then ``finish``.

    ``feed`` never raises, since a BMC receives all bytes before it checks them.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._header = b''
        self._size: int | None = None
        self._wrong: BadImage | None = None
        self._records: tuple[PackageDeviceRecord, ...] = ()
        self._entries: tuple[_Entry, ...] = ()
        self._version = ''
        self._places: dict[tuple[int, int], _Place] = {}
        self._queue: list[_Place] = []
        self._payload_sum = 0
        self._sum_of_images = 0
        self._images_end = 0
        self._said_sum: int | None = None
        self.received_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        at = self.received_bytes
        self.received_bytes += len(chunk)
        self._hash.update(chunk)
        if self._wrong is not None:
            return
        try:
            if self._size is None or len(self._header) < self._size:
                chunk = self._feed_header(chunk)
                at = self.received_bytes - len(chunk)
            if chunk:
                self._feed_payload(chunk, at)
        except BadImage as exc:
            self._wrong = exc
            self._places, self._queue = {}, []

    def digest(self) -> str:
        """Return the SHA-256 of all bytes so far, as ``sha256:...``."""
        return f'sha256:{self._hash.hexdigest()}'

    def finish(self) -> PackageMaker:
        """Return the package.

        :raises BadImage: the package violates the specification, ends too early, or has a wrong checksum.
        """
        if self._wrong is not None:
            raise self._wrong
        if self._size is None or len(self._header) < self._size or self.received_bytes < self._images_end:
            raise BadImage('the package is shorter than its header says')
        if self._said_sum not in (None, self._payload_sum, self._sum_of_images):
            raise BadImage('the checksum of the payload is wrong')
        judged: dict[tuple[int, int], EmulatedImage | BadImage] = {}
        for where, place in self._places.items():
            try:
                judged[where] = place.reader.finish()
            except BadImage as exc:
                judged[where] = exc
        parts = tuple(
            PackagePart(
                number=one.number,
                classification=one.classification,
                version=one.version,
                stamp=one.stamp if one.options & 2 else None,
                forced=bool(one.options & 1),
                activation=one.activation,
                image=judged[one.start, one.start + one.size],
            )
            for one in self._entries
        )
        return PackageMaker(version=self._version, records=self._records, parts=parts, digest=self.digest())

    def _feed_header(self, chunk: bytes) -> bytes:
        """Take the bytes that belong to the header, and return the rest."""
        if self._size is None:
            missing = max(0, _FIXED - len(self._header))
            self._header += chunk[:missing]
            chunk = chunk[missing:]
            if len(self._header) < _FIXED:
                return b''
            self._size = int.from_bytes(self._header[17:19], 'little')
        missing = max(0, self._size - len(self._header))
        self._header += chunk[:missing]
        if len(self._header) >= self._size:
            self._read_header(self._size)
        return chunk[missing:]

    def _read_header(self, size: int) -> None:
        fields = _Fields(self._header)
        revision = IDENTIFIERS.get(fields.take(IDENTIFIER_BYTES))
        if revision is None or fields.number(1) != revision:
            raise BadImage('the header identifier of the package is unknown, or does not match its header revision')
        sums = _SUM * (2 if revision >= 4 else 1)
        if size < _FIXED + sums:
            raise BadImage('the header of the package is too short')
        said = int.from_bytes(self._header[size - sums : size - sums + _SUM], 'little')
        if said != zlib.crc32(self._header[: size - sums]):
            raise BadImage('the checksum of the header is wrong')
        self._said_sum = int.from_bytes(self._header[size - _SUM : size], 'little') if revision >= 4 else None
        fields = _Fields(self._header[_FIXED : size - sums])
        fields.take(13)  # PackageReleaseDateTime
        width = fields.number(2)
        kind = fields.number(1)
        self._version = fields.text(kind, fields.number(1))
        if width % 8:
            raise BadImage('the bit length of the component bitmap is not a multiple of 8')
        self._records = tuple(_record(fields, revision, width // 8) for _ in range(fields.number(1)))
        if revision >= 2:
            for _ in range(fields.number(1)):
                fields.take(max(0, fields.number(2) - 2))  # a downstream device record: none of these BMCs has such devices
        count = fields.number(2)
        if not 0 < count <= min(width, MOST_COMPONENTS):
            raise BadImage(f'the package says that it has {count} components, which is not possible')
        self._entries = tuple(_entry(fields, revision) for _ in range(count))
        if fields.left:
            raise BadImage('the header of the package is longer than its contents')
        if any(max(record.parts, default=0) >= count for record in self._records):
            raise BadImage('a device record names a component that does not exist')
        self._place(size)

    def _place(self, size: int) -> None:
        """Place the images behind the header, each in a range of its own or in exactly the range of another one."""
        for one in self._entries:
            if one.start < size:
                raise BadImage('an image begins inside the header of the package')
            where = (one.start, one.start + one.size)
            self._places.setdefault(where, _Place(*where))
        self._queue = sorted(self._places.values(), key=lambda place: (place.start, place.end))
        for before, after in zip(self._queue, self._queue[1:], strict=False):
            if after.start < before.end:
                raise BadImage('two images of the package overlap')
        self._images_end = max(place.end for place in self._queue)

    def _feed_payload(self, chunk: bytes, at: int) -> None:
        end = at + len(chunk)
        inner = max(0, min(end, self._images_end) - at)
        self._sum_of_images = zlib.crc32(chunk[:inner], self._payload_sum) if at <= self._images_end else self._sum_of_images
        self._payload_sum = zlib.crc32(chunk, self._payload_sum)
        while self._queue and self._queue[0].start < end:
            place = self._queue[0]
            place.reader.feed(chunk[max(0, place.start - at) : place.end - at])
            if place.end > end:
                return
            self._queue.pop(0)


def _record(fields: _Fields, revision: int, width: int) -> PackageDeviceRecord:
    """Read a firmware device ID record (table 4)."""
    record = _Fields(fields.take(max(0, fields.number(2) - 2)))
    count = record.number(1)
    options = record.number(4)
    kind, length, data = record.number(1), record.number(1), record.number(2)
    manifest = record.number(4) if revision >= 4 else 0
    bits = int.from_bytes(record.take(width), 'little')
    if bits.bit_length() > MOST_COMPONENTS:
        raise BadImage('a device record names a component that does not exist')
    version = record.text(kind, length)
    descriptors = []
    for _ in range(count):
        what = record.number(2)
        descriptors.append((what, record.take(record.number(2))))
    record.take(data)
    record.take(manifest)
    if record.left or not descriptors:
        raise BadImage('a device record of the package has a wrong length')
    return PackageDeviceRecord(
        descriptors=frozenset(descriptors),
        parts=frozenset(at for at in range(bits.bit_length()) if bits >> at & 1),
        version=version,
        continues=bool(options & 1),
    )


def _entry(fields: _Fields, revision: int) -> _Entry:
    """Read a component entry (table 6)."""
    classification, number, stamp = fields.number(2), fields.number(2), fields.number(4)
    options, activation = fields.number(2), fields.number(2)
    start, size = fields.number(4), fields.number(4)
    kind = fields.number(1)
    version = fields.text(kind, fields.number(1))
    if revision >= 3:
        fields.take(fields.number(4))
    return _Entry(
        number=number,
        classification=classification,
        stamp=stamp,
        options=options,
        activation=activation,
        start=start,
        size=size,
        version=version,
    )


# ---------------------------------------------------------------------------------------------------------------- building


def vendor_descriptor(title: str, data: bytes) -> Descriptor:
    """Build a vendor-defined descriptor (table 7): its title as ASCII, then the data."""
    raw = title.encode('ascii')
    return VENDOR_DESCRIPTOR, bytes((1, len(raw))) + raw + data


@dataclass(frozen=True, slots=True, kw_only=True)
class PartToBuild:
    """A component of a package to build. ``stamp`` None: the comparison stamp is not used."""

    number: int
    version: str
    image: bytes
    classification: int = FIRMWARE
    stamp: int | None = None
    forced: bool = False
    activation: int = DC_POWER_CYCLE


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordToBuild:
    """A firmware device ID record of a package to build; ``parts`` are positions of components.

    The initial descriptor is the first one.
    """

    descriptors: tuple[Descriptor, ...]
    parts: frozenset[int]
    version: str = ''
    continues: bool = True


def build_package(version: str, records: Sequence[RecordToBuild], parts: Sequence[PartToBuild]) -> bytes:
    """Build a package of DSP0267 1.0. Equal images are stored once.

    :raises ValueError: a value does not fit its field.
    """
    width = -(-len(parts) // 8)
    places: dict[bytes, int] = {}
    payload = b''
    for one in parts:
        if one.image not in places:
            places[one.image] = len(payload)
            payload += one.image
    try:
        middle = bytes(13) + struct.pack('<H', 8 * width) + _string(version) + struct.pack('<B', len(records))
        middle += b''.join(_record_bytes(record, width) for record in records) + struct.pack('<H', len(parts))
        size = _FIXED + len(middle) + sum(20 + len(_string(one.version)) for one in parts) + _SUM
        middle += b''.join(_part_bytes(one, size + places[one.image]) for one in parts)
        header = next(iter(IDENTIFIERS)) + struct.pack('<BH', 1, size) + middle
    except struct.error as exc:
        raise ValueError(f'a value is too large for its field in the package: {exc}') from exc
    return header + struct.pack('<I', zlib.crc32(header)) + payload


def _string(text: str) -> bytes:
    raw = text.encode('ascii')
    return struct.pack('<BB', 1, len(raw)) + raw


def _record_bytes(record: RecordToBuild, width: int) -> bytes:
    version = record.version.encode('ascii')
    body = struct.pack('<BIBBH', len(record.descriptors), int(record.continues), 1, len(version), 0)
    body += sum(1 << at for at in record.parts).to_bytes(width, 'little') + version
    body += b''.join(struct.pack('<HH', what, len(data)) + data for what, data in record.descriptors)
    return struct.pack('<H', 2 + len(body)) + body


def _part_bytes(part: PartToBuild, offset: int) -> bytes:
    options = int(part.forced) | (0 if part.stamp is None else 2)
    stamp = 0xFFFFFFFF if part.stamp is None else part.stamp
    numbers = (part.classification, part.number, stamp, options, part.activation, offset, len(part.image))
    return struct.pack('<HHIHHII', *numbers) + _string(part.version)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware and function images of the emulator: their file format, a builder and a streaming reader.

An image is one file::

    BMC-EMU-IMAGE 1\\n           the magic line
    {"kind": ..., ...}\\n        the header: one line of JSON
    payload                     ``payload_bytes`` bytes, pseudo-random, the same for the same header and seed
    trailer                     32 bytes: SHA-256 of everything before it

The header has ``kind`` (``firmware`` or ``function``), ``device`` (the model that the image is for), ``component``,
``version``, ``security_version`` and ``payload_bytes``; a function also has ``function`` (its name), ``uuid`` and ``type`` (an
AccelerationFunctionType). Build an image with :func:`build_image` or with
``python -m baremetal_acc.emulator.image build --kind firmware --model h100 --component gpu --version 2.0.0 --out FILE``; with
``--hpm`` the image is put into an HPM.1 upgrade image, which a controller takes over IPMI.
"""

import argparse
import hashlib
import json
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from baremetal_acc.emulator.ipmi.upgrade_image import MOST_COMPONENTS, UploadAction, build_upgrade_image, told_version

MAGIC = b'BMC-EMU-IMAGE 1\n'
TRAILER_BYTES = 32
# A header has a few hundred bytes; a file without a line end in 4 KiB is not an image, and the reader stops there.
MAX_HEADER_BYTES = 4096
DEFAULT_PAYLOAD_BYTES = 64 * 1024
FUNCTION_TYPES = (
    'Encryption',
    'Compression',
    'PacketInspection',
    'PacketSwitch',
    'Scheduler',
    'AudioProcessing',
    'VideoProcessing',
    'OEM',
)


class ImageFormat(StrEnum):
    """The kind of an image: firmware belongs to the operator, a function to a tenant. No image is both."""

    FIRMWARE = 'firmware'
    FUNCTION = 'function'


class BadImage(Exception):
    """These bytes are not an image, or not a whole one. The text says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedImage:
    """The header of an image whose trailer was right, with the digest of the whole image."""

    kind: ImageFormat
    device: str
    component: str
    version: str
    security_version: int
    payload_bytes: int
    digest: str
    function: str | None = None
    function_uuid: str | None = None
    function_type: str | None = None


def _payload(seed: str, size_bytes: int) -> bytes:
    return hashlib.shake_128(seed.encode()).digest(size_bytes)


def build_image(
    *,
    kind: ImageFormat | str = ImageFormat.FIRMWARE,
    model: str,
    component: str,
    version: str,
    security_version: int = 1,
    size_bytes: int = DEFAULT_PAYLOAD_BYTES,
    function: str | None = None,
    function_type: str | None = None,
    seed: str = '',
) -> bytes:
    """Build an image; the same arguments give the same bytes.

    :param model: the model of the device that the image is for, such as ``h100``.
    :param component: the component of the device (``gpu``, ``erot``, ``bmc``, ...), or ``slot`` for a function.
    :param function: name of the function; required for a function image, not allowed for firmware.
    :param seed: another seed gives another payload.
    :raises ValueError: the arguments contradict one another.
    """
    kind = ImageFormat(kind)
    header: dict[str, object] = {
        'kind': kind.value,
        'device': model,
        'component': component,
        'version': version,
        'security_version': security_version,
        'payload_bytes': size_bytes,
    }
    if kind is ImageFormat.FUNCTION:
        if not function:
            raise ValueError('a function image requires the name of its function')
        if function_type is not None and function_type not in FUNCTION_TYPES:
            raise ValueError(f'unknown function type {function_type!r}; the types are {", ".join(FUNCTION_TYPES)}')
        header['function'] = function
        header['uuid'] = str(uuid.uuid5(uuid.NAMESPACE_URL, f'{model}/{function}/{version}'))
        header['type'] = function_type or 'OEM'
    elif function or function_type:
        raise ValueError('a firmware image has no function and no function type')
    head = json.dumps(header, sort_keys=True).encode() + b'\n'
    whole = MAGIC + head + _payload(head.decode() + seed, size_bytes)
    return whole + hashlib.sha256(whole).digest()


class ImageReader:
    """Reads an image as it arrives, in constant memory: ``feed`` the chunks, then ``finish``.

    ``feed`` never raises, since a BMC receives all bytes before it checks them.
    """

    def __init__(self) -> None:
        self._head = b''
        self._head_done = False
        self._tail = b''
        self._hash = hashlib.sha256()
        self.received_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.received_bytes += len(chunk)
        if not self._head_done:
            self._head += chunk
            self._head_done = self._head.count(b'\n') >= 2 or len(self._head) > MAX_HEADER_BYTES
        window = self._tail + chunk
        keep = window[-TRAILER_BYTES:]
        self._hash.update(window[: len(window) - len(keep)])
        self._tail = keep

    def digest(self) -> str:
        """Return the SHA-256 of all bytes so far, as ``sha256:...``."""
        whole = self._hash.copy()
        whole.update(self._tail)
        return f'sha256:{whole.hexdigest()}'

    def finish(self) -> EmulatedImage:
        """Check and return the image.

        :raises BadImage: no magic line, an unreadable header, a wrong trailer, or a payload of another length.
        """
        if not self._head.startswith(MAGIC):
            raise BadImage('the file does not begin with the magic line of an image')
        line, found, _ = self._head[len(MAGIC) :].partition(b'\n')
        if not found or len(line) > MAX_HEADER_BYTES:
            raise BadImage('the header of the image has no end: it is too long or truncated')
        if self._hash.digest() != self._tail:
            raise BadImage('the trailer (SHA-256) of the image is wrong: the image was truncated or changed')
        image = _header(line, self.digest())
        expected = len(MAGIC) + len(line) + 1 + image.payload_bytes + TRAILER_BYTES
        if expected != self.received_bytes:
            raise BadImage(f'the image has {self.received_bytes} bytes, but its header says {expected}')
        return image


def _header(line: bytes, digest: str) -> EmulatedImage:
    try:
        header = json.loads(line)
        kind = ImageFormat(header['kind'])
        is_function = kind is ImageFormat.FUNCTION
        return EmulatedImage(
            kind=kind,
            device=str(header['device']),
            component=str(header['component']),
            version=str(header['version']),
            security_version=int(header['security_version']),
            payload_bytes=int(header['payload_bytes']),
            digest=digest,
            function=str(header['function']) if is_function else None,
            function_uuid=str(header['uuid']) if is_function else None,
            function_type=str(header['type']) if is_function else None,
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise BadImage(f'the header of the image cannot be read ({type(exc).__name__}: {exc})') from exc


def read_image(data: bytes) -> EmulatedImage:
    """Read the image in ``data``.

    :raises BadImage: see :meth:`ImageReader.finish`.
    """
    reader = ImageReader()
    reader.feed(data)
    return reader.finish()


def size_in_bytes(text: str) -> int:
    """Parse ``300KiB``, ``2MiB``, ``1GiB`` or a plain number of bytes.

    :raises ValueError: the text is something else.
    """
    units = {'KiB': 1024, 'MiB': 1024**2, 'GiB': 1024**3}
    for unit, factor in units.items():
        if text.endswith(unit):
            return int(text[: -len(unit)]) * factor
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``build``, which writes an image, or ``show``, which prints the header of one.

    Exit code 1 when the file is no image.
    """
    parser = argparse.ArgumentParser(
        prog='python -m baremetal_acc.emulator.image',
        description='Build an image for the emulator, or show the header of an image',
    )
    verbs = parser.add_subparsers(dest='verb', required=True)
    build = verbs.add_parser('build', help='write an image')
    build.add_argument('--kind', choices=[kind.value for kind in ImageFormat], default=ImageFormat.FIRMWARE.value)
    build.add_argument('--model', required=True, help='model of the device, such as h100')
    build.add_argument('--component', required=True, help='component of the device, such as gpu, erot, bmc, fpga or slot')
    build.add_argument('--version', required=True)
    build.add_argument('--security-version', type=int, default=1)
    build.add_argument('--size', type=size_in_bytes, default=DEFAULT_PAYLOAD_BYTES, help='size of the payload, such as 300KiB')
    build.add_argument('--function', help='name of the function (function images only)')
    build.add_argument('--function-type', choices=FUNCTION_TYPES)
    build.add_argument('--seed', default='', help='seed of the payload; other seeds give other payloads')
    build.add_argument('--out', type=Path, required=True)
    build.add_argument('--hpm', action='store_true', help='wrap the image in an HPM.1 upgrade image, for IPMI')
    numbers = (
        ('--device-id', 0x31, 0xFF, 'device id of the controller: 0x31 for a card (default), 0x20 for the BMC'),
        ('--manufacturer', 0, 0xFFFFFF, 'manufacturer id of the controller (default: 0, that of all emulated controllers)'),
        ('--product', 0, 0xFFFF, 'product id of the controller (default: 0, that of all emulated controllers)'),
        ('--number', 0, MOST_COMPONENTS - 1, 'number of the component in the controller (default: 0)'),
    )
    for name, default, most, text in numbers:
        build.add_argument(name, type=_up_to(most), default=default, metavar='N', help=f'--hpm: {text}')
    show = verbs.add_parser('show', help='check a file and print its header')
    show.add_argument('file', type=Path)
    arguments = parser.parse_args(argv)
    if arguments.verb == 'show':
        try:
            image = read_image(arguments.file.read_bytes())
        except (BadImage, OSError) as exc:
            sys.stderr.write(f'{arguments.file}: {exc}\n')
            return 1
        sys.stdout.write(json.dumps({name: getattr(image, name) for name in image.__slots__}, indent=1) + '\n')
        return 0
    try:
        data = build_image(
            kind=arguments.kind,
            model=arguments.model,
            component=arguments.component,
            version=arguments.version,
            security_version=arguments.security_version,
            size_bytes=arguments.size,
            function=arguments.function,
            function_type=arguments.function_type,
            seed=arguments.seed,
        )
        if arguments.hpm:
            data = _upgrade_image(data, arguments)
    except ValueError as exc:
        parser.error(str(exc))
    arguments.out.write_bytes(data)
    sys.stdout.write(f'sha256:{hashlib.sha256(data).hexdigest()}  {arguments.out}\n')
    if arguments.hpm:
        of = f'component {arguments.number} of device {arguments.device_id:02X}h'
        sys.stdout.write(f'size {len(data)}, for {of}, version over IPMI {told_version(arguments.version)}\n')
    return 0


def _up_to(most: int) -> Callable[[str], int]:
    """An argument type for a number from 0 to ``most``, decimal or with 0x."""

    def number(text: str) -> int:
        try:
            found = int(text, 0)
        except ValueError:
            found = -1
        if not 0 <= found <= most:
            raise argparse.ArgumentTypeError(f'{text} is not a number from 0 to {most}')
        return found

    return number


def _upgrade_image(data: bytes, arguments: argparse.Namespace) -> bytes:
    """Wrap the image in an HPM.1 upgrade image.

    :raises ValueError: HPM.1 cannot express the version.
    """
    description = arguments.component.upper()[:20]
    return build_upgrade_image(
        [UploadAction(component=arguments.number, version=arguments.version, data=data, description=description)],
        device_id=arguments.device_id,
        manufacturer=arguments.manufacturer,
        product=arguments.product,
    )


if __name__ == '__main__':
    sys.exit(main())

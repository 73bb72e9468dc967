# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build HPM.1 upgrade images: a header, the upgrade actions in order, and an MD5 over the whole file; and HPM.1 version bytes.

The uploaded data is an image of :mod:`baremetal_acc.emulator.image`. The emulated controller checks that image and never sees
the HPM.1 file around it.

Source: PICMG HPM.1 R1.0, section 4; doc/source/reference/ipmi_notes.rst, "The HPM.1 upgrade image".
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from baremetal_acc.emulator.ipmi.message import checksum

SIGNATURE = b'PICMGFWU'
NO_VERSION = b'\xff' * 6
MOST_COMPONENTS = 8

_FORMAT = 0
_BACK_UP, _PREPARE, _UPLOAD = range(3)
_DESCRIPTION_BYTES = 21
_LARGEST_MAJOR, _LARGEST_MINOR = 0x7E, 99


def version_bytes(version: str) -> bytes:
    """Encode a version for HPM.1: major, minor in BCD, four auxiliary bytes.

    :param version: two to six numbers separated by dots, such as ``2.15`` or ``96.00.61.00.01``; missing numbers are 0.
    :raises ValueError: HPM.1 cannot express the version.
    """
    parts = version.split('.')
    if not 2 <= len(parts) <= len(NO_VERSION) or not all(part.isascii() and part.isdecimal() for part in parts):
        raise ValueError(f'{version!r} is not an HPM.1 version: two to six numbers, separated by dots')
    major, minor, *auxiliary = (int(part) for part in parts)
    if major > _LARGEST_MAJOR or minor > _LARGEST_MINOR or any(part > 0xFF for part in auxiliary):
        raise ValueError(
            f'{version!r} is not an HPM.1 version: the largest numbers: {_LARGEST_MAJOR}, {_LARGEST_MINOR} and four times 255'
        )
    return bytes((major, minor // 10 << 4 | minor % 10, *auxiliary)).ljust(len(NO_VERSION), b'\0')


def told_version(version: str) -> str:
    """A version as HPM.1 clients show it: minor with two digits, the auxiliary bytes only if one of them is not zero.

    :raises ValueError: HPM.1 cannot express the version.
    """
    major, minor, *auxiliary = version_bytes(version)
    return f'{major}.{minor:02X}' + (f'.{bytes(auxiliary).hex().upper()}' if any(auxiliary) else '')


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadAction:
    """The upload to one component."""

    component: int
    version: str
    data: bytes
    description: str = ''


def build_upgrade_image(
    uploads: Sequence[UploadAction],
    *,
    device_id: int,
    manufacturer: int,
    product: int,
    back_up: int = 0,
    prepare: int | None = None,
    version: str | None = None,
    earliest: tuple[int, int] = (0, 0),
    capabilities: int = 0,
    timeouts: tuple[int, int, int] = (0, 0, 0),
    built: int = 0,
    oem: bytes = b'',
    long_checksum: bool = False,
) -> bytes:
    """Build an upgrade image; the same arguments give the same bytes.

    :param back_up: mask of the components that are backed up first.
    :param prepare: mask of those that are erased before the uploads; None: all of them, 0: none.
    :param version: of the whole image; that of the first upload when None.
    :param timeouts: of self test, rollback and inaccessibility, in units of 5 s.
    :param built: seconds since 1970.
    :param long_checksum: the checksum of an upload covers its whole header of 34 bytes, not the first 3 only.
    :raises ValueError: there is no upload, or a component, a version or a text cannot be expressed.
    """
    if not uploads:
        raise ValueError('an upgrade image requires at least one upload')
    if any(not 0 <= one.component < MOST_COMPONENTS for one in uploads):
        raise ValueError(f'the number of a component must be 0 to {MOST_COMPONENTS - 1}')
    mask = sum(1 << number for number in {one.component for one in uploads})
    head = (
        SIGNATURE
        + bytes((_FORMAT, device_id))
        + manufacturer.to_bytes(3, 'little')
        + product.to_bytes(2, 'little')
        + built.to_bytes(4, 'little')
        + bytes((capabilities, mask, *timeouts, *earliest))
        + version_bytes(version or uploads[0].version)
        + len(oem).to_bytes(2, 'little')
        + oem
    )
    whole = head + bytes((checksum(head),))
    for kind, wanted in ((_BACK_UP, back_up), (_PREPARE, mask if prepare is None else prepare)):
        if wanted:
            whole += bytes((kind, wanted, checksum(bytes((kind, wanted)))))
    for one in uploads:
        described = one.description.encode('ascii')
        if len(described) >= _DESCRIPTION_BYTES:
            raise ValueError(f'the description {one.description!r} is longer than {_DESCRIPTION_BYTES - 1} bytes')
        start = bytes((_UPLOAD, 1 << one.component))
        more = version_bytes(one.version) + described.ljust(_DESCRIPTION_BYTES, b'\0') + len(one.data).to_bytes(4, 'little')
        whole += start + bytes((checksum(start + more if long_checksum else start),)) + more + one.data
    return whole + hashlib.md5(whole, usedforsecurity=False).digest()

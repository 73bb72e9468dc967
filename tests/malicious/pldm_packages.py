# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Check that every damaged or forged PLDM package is accepted, or refused with an error that names a field: ``make soak-pldm``.

Most changed packages get valid checksums again, as a forger would write them: otherwise nothing after the first checksum
would be tested. What is accepted is judged by checksums that are computed here, and has to be written again as
the same bytes.

``--seed N --only NUMBER`` tests one package, and prints how it was changed.
"""

# ruff: noqa: T201

import argparse
import binascii
import os
import platform
import random
import struct
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone

from baremetal_acc.errors import PackageMalformed
from baremetal_acc.images import pldm, pldm_encoding, pldm_package
from baremetal_acc.images.pldm import PldmPackage, PldmString, Revision, StringType

SIZE_AT = 17
"""Where PackageHeaderSize is."""

WITH_PAYLOAD_SUM = 4
"""From which format revision on the payload has a checksum."""

SLOW = 1.0
"""Seconds for a package of some hundred bytes that would be a fault of ours."""

_NUMBERS = (0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFE, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF)


class Fault(AssertionError):
    """Something was accepted that should not be."""


def built(rng: random.Random) -> bytes:
    """A package that is right."""
    revision = rng.choice(tuple(Revision))
    count = rng.randint(1, 9)
    package = PldmPackage(
        revision=revision,
        released=rng.choice(
            (
                None,
                pldm.ReleaseTime(moment=datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC), resolution=rng.randrange(256)),
                pldm.ReleaseTime(moment=datetime(2020, 2, 29, tzinfo=timezone(timedelta(minutes=-330)))),
            )
        ),
        version=_string(rng),
        bitmap_bits=8 * rng.randint(-(-count // 8), 3),
        devices=tuple(_device(rng, revision, count) for _ in range(rng.randint(1, 3))),
        downstream_devices=tuple(
            _downstream(rng, revision, count) for _ in range(rng.randint(0, 2) * revision.has_downstream_devices)
        ),
        components=tuple(
            pldm.PackageComponent(
                classification=pldm.Classification.FIRMWARE,
                identifier=rng.randrange(0x10000),
                options=pldm.ComponentOption(rng.randrange(8)),
                activation=pldm.Activation(rng.randrange(64)),
                offset=0,
                size_bytes=0,
                version=_string(rng),
                opaque_data=rng.randbytes(rng.randint(0, 9) * revision.has_opaque_data),
            )
            for _ in range(count)
        ),
    )
    images = [rng.randbytes(rng.randint(0, 20)) for _ in range(count)]
    behind = rng.randbytes(rng.choice((0, 0, 7)))
    return pldm_encoding.encode(pldm_encoding.placed(package, map(len, images)), b''.join(images) + behind)


def _string(rng: random.Random) -> PldmString:
    kind = rng.choice(tuple(StringType))
    text = rng.choice(('', '1.0', '96.00.5E.00.01', 'VersionString1'))
    return PldmString(
        type=kind, raw=text.encode('utf-16-le' if kind is StringType.UTF_16LE else 'utf-8' if kind < 3 else 'utf-16-be')
    )


def _descriptors(rng: random.Random) -> tuple[pldm.AnyDescriptor, ...]:
    found: list[pldm.AnyDescriptor] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(tuple(pldm.DescriptorType))
        found.append(pldm.Descriptor(type=kind, data=rng.randbytes(pldm.DESCRIPTOR_BYTES[kind])))
    if rng.random() < 0.4:
        found.append(pldm.VendorDescriptor(title=_string(rng), data=rng.randbytes(rng.randint(0, 8))))
    if rng.random() < 0.2:
        found.append(pldm.Descriptor(type=0x4321, data=rng.randbytes(rng.randint(0, 8))))
    return tuple(found)


def _device(rng: random.Random, revision: Revision, count: int) -> pldm.DeviceRecord:
    return pldm.DeviceRecord(
        options=pldm.DeviceUpdateOption(rng.randrange(4)),
        image_set_version=_string(rng),
        components=frozenset(rng.sample(range(count), rng.randint(0, count))),
        descriptors=_descriptors(rng),
        package_data=rng.randbytes(rng.randint(0, 9)),
        reference_manifest=rng.randbytes(rng.randint(0, 9) * revision.has_manifests),
    )


def _downstream(rng: random.Random, revision: Revision, count: int) -> pldm.DownstreamRecord:
    options = pldm.DownstreamUpdateOption(rng.randrange(2))
    return pldm.DownstreamRecord(
        options=options,
        min_version=_string(rng),
        min_version_stamp=rng.randrange(1 << 32) if options else None,
        components=frozenset(rng.sample(range(count), rng.randint(0, count))),
        descriptors=_descriptors(rng),
        package_data=rng.randbytes(rng.randint(0, 9)),
        reference_manifest=rng.randbytes(rng.randint(0, 9) * revision.has_manifests),
    )


def changed(rng: random.Random, package: bytes) -> tuple[bytes, list[str]]:
    """A package after up to three changes, with what was done to it."""
    data, done = bytearray(package), []
    for _ in range(rng.randint(1, 3)):
        if not data:
            break
        header = min(len(data), struct.unpack_from('<H', data + bytes(19), SIZE_AT)[0]) or 1
        at = rng.randrange(header if rng.random() < 0.9 else len(data))
        match rng.choices(range(7), (4, 4, 4, 1, 3, 3, 1))[0]:
            case 0:
                data[at] ^= 1 << rng.randrange(8)
                done.append(f'bit of byte {at}')
            case 1:
                data[at] = rng.randrange(256)
                done.append(f'byte {at}')
            case 2:
                width, number = rng.choice((1, 2, 4)), rng.choice(_NUMBERS)
                data[at : at + width] = (number & ((1 << 8 * width) - 1)).to_bytes(width, 'little')
                done.append(f'{width} bytes at {at} are {number:#x}')
            case 3:
                del data[at:]
                done.append(f'cut at {at}')
            case 4:
                length = rng.randint(1, 40)
                del data[at : at + length]
                done.append(f'{length} bytes at {at} are gone')
                _resize(rng, data, -length)
            case 5:
                more = rng.randbytes(rng.randint(1, 40)) if rng.random() < 0.5 else bytes(data[at : at + 40])
                data[at:at] = more
                done.append(f'{len(more)} bytes at {at} are new')
                _resize(rng, data, len(more))
            case _:
                data[SIZE_AT : SIZE_AT + 2] = rng.randrange(0x10000).to_bytes(2, 'little')
                done.append('PackageHeaderSize')
    if rng.random() < 0.8:
        seal(data)
        done.append('header checksum again')
    if rng.random() < 0.8:
        seal_payload(data)
        seal(data)
        done.append('both checksums again')
    return bytes(data), done


def _resize(rng: random.Random, data: bytearray, by: int) -> None:
    """Mostly, PackageHeaderSize says how long the header is after a change."""
    if len(data) >= SIZE_AT + 2 and rng.random() < 0.7:
        size = struct.unpack_from('<H', data, SIZE_AT)[0] + by
        struct.pack_into('<H', data, SIZE_AT, size & 0xFFFF)


def _sums(data: bytes) -> tuple[int, int] | None:
    """Where the header's checksum is, and where the header ends; None where that is nowhere."""
    if len(data) < SIZE_AT + 2:
        return None
    end = struct.unpack_from('<H', data, SIZE_AT)[0]
    at = end - (8 if data[16] >= WITH_PAYLOAD_SUM else 4)
    return (at, end) if SIZE_AT + 2 <= at and end <= len(data) else None


def seal(data: bytearray) -> None:
    """Give the header the checksum that it should have."""
    if (where := _sums(data)) is not None:
        struct.pack_into('<I', data, where[0], binascii.crc32(data[: where[0]]))


def seal_payload(data: bytearray) -> None:
    """Give the payload the checksum that it should have."""
    if (where := _sums(data)) is not None and data[16] >= WITH_PAYLOAD_SUM:
        struct.pack_into('<I', data, where[0] + 4, binascii.crc32(data[where[1] :]))


def judged(data: bytes) -> str:
    """What became of a package: the field that refused it without numbers, or ``accepted``.

    :raises Fault: it was accepted, and should not have been. Anything else that is raised is a crash.
    """
    try:
        package = pldm_package.parse(data, 'a package')
    except PackageMalformed as exc:
        if not exc.field or not 0 <= exc.offset <= len(data) or len(str(exc)) > 600 or not str(exc).isprintable():
            raise Fault(f'no good error: {exc!r}') from exc
        return ''.join(c for c in exc.field if not c.isdigit())
    where = _sums(data)
    if where is None or struct.unpack_from('<I', data, where[0])[0] != binascii.crc32(data[: where[0]]):
        raise Fault('accepted with a wrong header checksum')
    at, end = where
    if data[16] >= WITH_PAYLOAD_SUM:
        right = {binascii.crc32(data[end:]), binascii.crc32(data[end : package.images_end])}
        if struct.unpack_from('<I', data, at + 4)[0] not in right:
            raise Fault('accepted with a wrong payload checksum')
    if any(not end <= one.offset <= one.offset + one.size_bytes <= len(data) for one in package.components):
        raise Fault('accepted with an image that lies outside of the payload')
    again = pldm_encoding.encode(package, data[end:])
    if again[: at + 4] != data[: at + 4] or again[end:] != data[end:]:
        raise Fault('accepted, and written again as other bytes')
    return 'accepted'


def one(seed: int, number: int) -> tuple[bytes, list[str]]:
    """The package of that number."""
    rng = random.Random(f'{seed}/{number}')
    return changed(rng, built(rng))


def main() -> int:
    """Soak, and print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument('--packages', type=int, default=1_000_000)
    parser.add_argument('--faults', type=int, default=20, help='stop after this number of faults')
    parser.add_argument('--only', type=int, help='test one package, and print all changes to it')
    arguments = parser.parse_args()
    numbers = range(arguments.packages) if arguments.only is None else range(arguments.only, arguments.only + 1)
    print(f'seed {arguments.seed}, Python {platform.python_version()}, {os.cpu_count()} cores', flush=True)
    begin, slowest, faults = time.monotonic(), 0.0, 0
    results: Counter[str] = Counter()
    for number in numbers:
        data, done = one(arguments.seed, number)
        before = time.monotonic()
        try:
            result = judged(data)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is a fault
            faults += 1
            print(f'package {number}: {type(exc).__name__}: {exc}; {", ".join(done)}', flush=True)
            result = 'fault'
        took = time.monotonic() - before
        slowest = max(slowest, took)
        if took > SLOW:
            faults += 1
            print(f'package {number}: {took:.1f} s', flush=True)
        results[result] += 1
        if arguments.only is not None:
            print(f'{result}: {", ".join(done)}\n{data.hex()}')
        if faults >= arguments.faults:
            break
    total = sum(results.values())
    refused = total - results['accepted'] - results['fault']
    fields = len(set(results) - {'accepted', 'fault'})
    print(
        f'{total} packages in {time.monotonic() - begin:.0f} s: {refused} refused by {fields} kinds of '
        f'fields, {results["accepted"]} accepted, {faults} with a fault of ours; slowest {slowest * 1000:.1f} ms'
    )
    for field, count in results.most_common(12):
        print(f'{count:9} {field}')
    return 1 if faults else 0


if __name__ == '__main__':
    sys.exit(main())

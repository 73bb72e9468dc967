# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A PLDM package is read only where every byte of its header is where DSP0267 has it, and both of its checksums are right.

The vectors are written by hand from the tables of DSP0267, field by field: the numbers of tables are those of 1.3.0, as
libpldm cites them. Their checksums are those that gzip writes behind the same bytes.
"""

import binascii
import io
import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.errors import ImageError, PackageMalformed
from baremetal_acc.images import pldm, pldm_encoding, pldm_package
from baremetal_acc.images.pldm import (
    Activation,
    Classification,
    ComponentOption,
    Descriptor,
    DescriptorType,
    DeviceRecord,
    DeviceUpdateOption,
    DownstreamRecord,
    DownstreamUpdateOption,
    PackageComponent,
    PldmPackage,
    PldmString,
    ReleaseTime,
    Revision,
    StringType,
    VendorDescriptor,
)
from tests.malicious import pldm_packages

CREATOR = os.environ.get('BAREMETAL_ACC_PLDM_CREATOR')
"""Folder of OpenBMC's ``tools/fw-update``, where it is there."""

CREATOR_PYTHON = os.environ.get('BAREMETAL_ACC_PLDM_CREATOR_PYTHON', sys.executable)
"""A Python with bitarray, which it needs."""


def vector(text: str) -> bytes:
    """Bytes in hexadecimal digits, with comments."""
    return bytes.fromhex(''.join(line.partition('#')[0] for line in text.splitlines()))


V1_0 = vector("""
    # Table 3, package header information
    f018878ccb7d49439800a02f059aca02  # PackageHeaderIdentifier
    01                                # PackageHeaderFormatRevision
    7f00                              # PackageHeaderSize: 36 + 3 + 1 + 31 + 2 + 24 + 26 + 4 = 127
    3c00 40e201 3b 2d 0d 1e 06 e907 00  # PackageReleaseDateTime: UTC+60 min, 123456 us, 13:45:59, 30.6.2025, resolution
    0800                              # ComponentBitmapBitLength
    01 03 312e30                      # PackageVersionStringType ASCII, -Length, "1.0"
    # Table 4, firmware device identification area
    01                                # DeviceIDRecordCount
    1f00                              # RecordLength: 2 + 1 + 4 + 1 + 1 + 2 + 1 + 5 + 6 + 6 + 2 = 31
    02                                # DescriptorCount
    01000000                          # DeviceUpdateOptionFlags: bit 0
    01 05                             # ComponentImageSetVersionStringType, -Length
    0200                              # FirmwareDevicePackageDataLength
    03                                # ApplicableComponents: 0 and 1
    7365742d31                        # ComponentImageSetVersionString "set-1"
    0000 0200 cdab                    # Table 7, initial descriptor: PCI vendor ID 0xabcd
    0001 0200 3412                    # Table 7, additional descriptor: PCI device ID 0x1234
    beef                              # FirmwareDevicePackageData
    # Table 6, component image information area
    0200                              # ComponentImageCount
    0a00 6400 ffffffff 0000 0800      # classification, identifier, comparison stamp, options, activation: bit 3
    7f000000 04000000                 # ComponentLocationOffset 127, ComponentSize 4
    02 02 7631                        # ComponentVersionStringType UTF-8, -Length, "v1"
    0100 c800 05000000 0300 1000
    83000000 03000000                 # 131, 3
    05 04 00760032                    # UTF-16BE, "v2"
    918534a0                          # PackageHeaderChecksum
    aabbccdd eeff00                   # component images
""")

V1_1 = vector("""
    1244d2648d7d4718a030fc8a56587d5a 02
    8100                              # PackageHeaderSize: 36 + 3 + 1 + 32 + 1 + 27 + 2 + 23 + 4 = 129
    0000 000000 00 00 00 00 00 0000 00  # PackageReleaseDateTime: not said
    1000                              # ComponentBitmapBitLength
    02 03 322e30                      # "2.0"
    01                                # DeviceIDRecordCount
    2000                              # RecordLength: 2 + 1 + 4 + 1 + 1 + 2 + 2 + 0 + 19 = 32
    01 00000000 00 00 0000
    0100                              # ApplicableComponents
    0800 0f00 000102030405060708090a0b0c0d0e  # a descriptor of a type that nobody knows: length 15
    # Table 5, downstream device identification area: from 1.1 on
    01                                # DownstreamDeviceIDRecordCount
    1b00                              # DownstreamDeviceRecordLength: 2 + 1 + 4 + 1 + 1 + 2 + 2 + 1 + 4 + 8 + 1 = 27
    01                                # DownstreamDeviceDescriptorCount
    01000000                          # DownstreamDeviceUpdateOptionFlags: bit 0
    01 01                             # DownstreamDeviceSelfContainedActivationMinVersionStringType, -Length
    0100                              # DownstreamDevicePackageDataLength
    0100                              # DownstreamDeviceApplicableComponents
    37                                # DownstreamDeviceSelfContainedActivationMinVersionString "7"
    07000000                          # DownstreamDeviceSelfContainedActivationMinVersionComparisonStamp: as bit 0 says
    0100 0400 47160000                # IANA enterprise ID 5703
    5a                                # DownstreamDevicePackageData
    0100                              # ComponentImageCount
    ffff 0100 07000000 0200 0100
    81000000 02000000 01 01 76
    75ae7090                          # PackageHeaderChecksum
    0102
""")

V1_2 = vector("""
    3119ce2fe80a4a99af6d46f8b121f6bf 03
    6d00                              # PackageHeaderSize: 36 + 3 + 1 + 31 + 1 + 2 + 31 + 4 = 109
    c4ff 000000 00 00 00 01 01 d007 21  # UTC-60 min, 1.1.2000
    0800
    01 03 332e30                      # "3.0"
    01                                # DeviceIDRecordCount
    1f00                              # RecordLength: 2 + 1 + 4 + 1 + 1 + 2 + 1 + 0 + 8 + 11 = 31
    02 00000000 01 00 0000
    01                                # ApplicableComponents
    0100 0400 47160000                # IANA enterprise ID
    ffff 0700 01 03 534b55 0102       # Table 7, vendor-defined: title type, title length, "SKU", data
    00                                # DownstreamDeviceIDRecordCount
    0100                              # ComponentImageCount
    0a00 0200 ffffffff 0100 3f00
    6d000000 01000000 01 02 7631
    03000000 0a0b0c                   # from 1.2 on: ComponentOpaqueDataLength, ComponentOpaqueData
    ac672eed                          # PackageHeaderChecksum
    ff
""")

V1_3 = vector("""
    7b291c996db64208801b02026e463c78 04
    8000                              # PackageHeaderSize: 36 + 3 + 1 + 24 + 1 + 25 + 2 + 28 + 4 + 4 = 128
    0000 000000 00 00 00 0d 0c e707 00
    0800
    01 03 342e30                      # "4.0"
    01                                # DeviceIDRecordCount
    1800                              # RecordLength: 2 + 1 + 4 + 1 + 1 + 2 + 4 + 1 + 0 + 6 + 0 + 2 = 24
    01 02000000 00 00 0000
    02000000                          # from 1.3 on: ReferenceManifestLength
    01
    0000 0200 cdab
    a1a2                              # ReferenceManifestData
    01                                # DownstreamDeviceIDRecordCount
    1900                              # DownstreamDeviceRecordLength: 2 + 1 + 4 + 1 + 1 + 2 + 4 + 1 + 0 + 6 + 0 + 3 = 25
    01 00000000 00 00 0000
    03000000                          # from 1.3 on: DownstreamDeviceReferenceManifestLength
    00
    0001 0200 3412
    b1b2b3                            # DownstreamDeviceReferenceManifestData
    0100                              # ComponentImageCount
    0a00 0300 ffffffff 0000 2000
    80000000 03000000 01 02 7631
    00000000                          # ComponentOpaqueDataLength
    4f4200ce                          # PackageHeaderChecksum
    1d80bc55                          # from 1.3 on: PackagePayloadChecksum
    010203
""")

VECTORS = {'1.0': V1_0, '1.1': V1_1, '1.2': V1_2, '1.3': V1_3}


def string(text: str, kind: StringType = StringType.ASCII) -> PldmString:
    return PldmString(type=kind, raw=text.encode('utf-16-be' if kind is StringType.UTF_16BE else 'utf-8'))


NOTHING = PldmString(type=StringType.UNKNOWN, raw=b'')

PCI_VENDOR = Descriptor(type=DescriptorType.PCI_VENDOR_ID, data=b'\xcd\xab')
PCI_DEVICE = Descriptor(type=DescriptorType.PCI_DEVICE_ID, data=b'\x34\x12')
IANA = Descriptor(type=DescriptorType.IANA_ENTERPRISE_ID, data=b'\x47\x16\0\0')

EXPECTED = {
    '1.0': PldmPackage(
        revision=Revision.V1_0,
        released=ReleaseTime(moment=datetime(2025, 6, 30, 13, 45, 59, 123456, tzinfo=timezone(timedelta(hours=1)))),
        version=string('1.0'),
        bitmap_bits=8,
        devices=(
            DeviceRecord(
                options=DeviceUpdateOption.CONTINUE_AFTER_FAILURE,
                image_set_version=string('set-1'),
                components=frozenset({0, 1}),
                descriptors=(PCI_VENDOR, PCI_DEVICE),
                package_data=b'\xbe\xef',
            ),
        ),
        components=(
            PackageComponent(
                classification=Classification.FIRMWARE,
                identifier=100,
                activation=Activation.SYSTEM_REBOOT,
                offset=127,
                size_bytes=4,
                version=string('v1', StringType.UTF_8),
            ),
            PackageComponent(
                classification=Classification.OTHER,
                identifier=200,
                comparison_stamp=5,
                options=ComponentOption.FORCE_UPDATE | ComponentOption.USE_COMPARISON_STAMP,
                activation=Activation.DC_POWER_CYCLE,
                offset=131,
                size_bytes=3,
                version=string('v2', StringType.UTF_16BE),
            ),
        ),
    ),
    '1.1': PldmPackage(
        revision=Revision.V1_1,
        version=string('2.0', StringType.UTF_8),
        bitmap_bits=16,
        devices=(
            DeviceRecord(
                image_set_version=NOTHING,
                components=frozenset({0}),
                descriptors=(Descriptor(type=8, data=bytes(range(15))),),
            ),
        ),
        downstream_devices=(
            DownstreamRecord(
                options=DownstreamUpdateOption.SELF_CONTAINED_ACTIVATION_MIN_VERSION,
                min_version=string('7'),
                min_version_stamp=7,
                components=frozenset({0}),
                descriptors=(IANA,),
                package_data=b'Z',
            ),
        ),
        components=(
            PackageComponent(
                classification=Classification.DOWNSTREAM_DEVICE,
                identifier=1,
                comparison_stamp=7,
                options=ComponentOption.USE_COMPARISON_STAMP,
                activation=Activation.AUTOMATIC,
                offset=129,
                size_bytes=2,
                version=string('v'),
            ),
        ),
    ),
    '1.2': PldmPackage(
        revision=Revision.V1_2,
        released=ReleaseTime(moment=datetime(2000, 1, 1, tzinfo=timezone(timedelta(hours=-1))), resolution=0x21),
        version=string('3.0'),
        bitmap_bits=8,
        devices=(
            DeviceRecord(
                image_set_version=string(''),
                components=frozenset({0}),
                descriptors=(IANA, VendorDescriptor(title=string('SKU'), data=b'\1\2')),
            ),
        ),
        components=(
            PackageComponent(
                classification=Classification.FIRMWARE,
                identifier=2,
                options=ComponentOption.FORCE_UPDATE,
                activation=Activation(0x3F),
                offset=109,
                size_bytes=1,
                version=string('v1'),
                opaque_data=b'\x0a\x0b\x0c',
            ),
        ),
    ),
    '1.3': PldmPackage(
        revision=Revision.V1_3,
        released=ReleaseTime(moment=datetime(2023, 12, 13, tzinfo=UTC)),
        version=string('4.0'),
        bitmap_bits=8,
        devices=(
            DeviceRecord(
                options=DeviceUpdateOption.FLASHLESS_BOOT,
                image_set_version=NOTHING,
                components=frozenset({0}),
                descriptors=(PCI_VENDOR,),
                reference_manifest=b'\xa1\xa2',
            ),
        ),
        downstream_devices=(
            DownstreamRecord(
                min_version=NOTHING,
                components=frozenset(),
                descriptors=(PCI_DEVICE,),
                reference_manifest=b'\xb1\xb2\xb3',
            ),
        ),
        components=(
            PackageComponent(
                classification=Classification.FIRMWARE,
                identifier=3,
                activation=Activation.AC_POWER_CYCLE,
                offset=128,
                size_bytes=3,
                version=string('v1'),
            ),
        ),
    ),
}


def size_of(package: bytes) -> int:
    """PackageHeaderSize."""
    return int(struct.unpack_from('<H', package, 17)[0])


def sealed(package: bytes) -> bytes:
    """With the checksums that fit what was changed."""
    data = bytearray(package)
    pldm_packages.seal(data)
    pldm_packages.seal_payload(data)
    return bytes(data)


def refused(package: bytes) -> PackageMalformed:
    with pytest.raises(PackageMalformed) as caught:
        pldm_package.parse(package, 'tray.fwpkg')
    assert isinstance(caught.value, ImageError)
    assert str(caught.value).startswith(f'image tray.fwpkg: {caught.value.field} at byte {caught.value.offset}: ')
    return caught.value


@pytest.mark.parametrize('revision', VECTORS)
def test_a_package_of_each_revision_is_read_field_by_field(revision):
    """From bytes and from a stream, and written again as the same bytes."""
    data, expected = VECTORS[revision], EXPECTED[revision]
    assert expected == pldm_package.parse(data, 'x')
    assert expected == pldm_package.parse(io.BytesIO(data), 'x')
    assert data == pldm_encoding.encode(expected, data[size_of(data) :])
    assert size_of(data) == pldm_encoding.header_size(expected)
    assert len(data) == expected.images_end


@pytest.mark.parametrize('revision', VECTORS)
def test_only_the_header_is_held_in_memory(revision):
    """Images of a tray are gigabytes: what is behind the header is read for its checksum alone, in pieces, or not at all."""

    class Counting(io.BytesIO):
        most = 0

        def read(self, size=-1, /):
            assert size is not None
            assert 0 <= size <= 1024 * 1024
            found = super().read(size)
            self.most = max(self.most, self.tell())
            return found

    package = replace(EXPECTED[revision], components=EXPECTED[revision].components[:1], devices=EXPECTED[revision].devices)
    package = replace(package, devices=tuple(replace(d, components=frozenset({0})) for d in package.devices))
    package = pldm_encoding.placed(package, [5_000_000])
    stream = Counting(pldm_encoding.encode(package, bytes(5_000_000)))
    assert package == pldm_package.parse(stream, 'x')
    assert (package.images_end if revision == '1.3' else pldm_encoding.header_size(package)) == stream.most


@pytest.mark.parametrize('revision', VECTORS)
def test_whatever_is_cut_off_is_told(revision):
    """A file that ends early is refused at each of its bytes; so is a header that ends early by its own word."""
    data = VECTORS[revision]
    size = size_of(data)
    sums = 8 if revision == '1.3' else 4
    fields = set()
    for end in range(len(data)):
        assert refused(data[:end]).field
    for end in range(39, size - sums):
        short = data[:17] + struct.pack('<H', end + sums) + data[19:end] + bytes(sums) + data[size:]
        fields.add(re.sub(r'\d+', '', refused(sealed(short)).field))
    assert len(fields) >= 10, fields


@pytest.mark.parametrize('revision', VECTORS)
def test_a_flipped_bit_is_found_by_a_checksum(revision):
    """Each bit of the header in its turn, and of the payload where it has a checksum."""
    data = VECTORS[revision]
    for at in range(len(data) if revision == '1.3' else size_of(data)):
        for bit in range(8):
            broken = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            field = refused(broken).field
            if 19 <= at < size_of(data) - (8 if revision == '1.3' else 4):
                assert 'PackageHeaderChecksum' == field
            if at >= size_of(data):
                assert 'PackagePayloadChecksum' == field


@pytest.mark.parametrize(
    ('revision', 'at', 'new', 'field', 'expected'),
    [
        ('1.0', 0, 'ff', 'PackageHeaderIdentifier', 'a known one'),
        ('1.0', 16, '04', 'PackageHeaderFormatRevision', '1, which goes with the identifier of DSP0267 1.0,'),
        ('1.3', 16, '03', 'PackageHeaderFormatRevision', '4, which goes with the identifier of DSP0267 1.3,'),
        ('1.0', 17, '2a00', 'PackageHeaderSize', 'at least 43'),
        ('1.3', 17, '2f00', 'PackageHeaderSize', 'at least 48'),
        ('1.0', 17, 'ff00', 'PackageHeaderSize', 'no more than the 134 bytes that the package has'),
        ('1.0', 28, '0d', 'PackageReleaseDateTime', 'a valid date and time'),
        ('1.0', 19, 'ff7f', 'PackageReleaseDateTime', 'a valid date and time'),
        ('1.0', 32, '0900', 'ComponentBitmapBitLength', 'a multiple of 8'),
        ('1.0', 34, '06', 'PackageVersionStringType', 'a number from 0 to 5'),
        ('1.0', 36, 'ff', 'PackageVersionString', 'valid ASCII text'),
        ('1.1', 36, 'ff', 'PackageVersionString', 'valid UTF_8 text'),
        ('1.0', 40, '0200', 'FirmwareDeviceIDRecords[0].RecordLength', 'at least 3, for RecordLength and DescriptorCount,'),
        ('1.0', 40, 'ffff', 'FirmwareDeviceIDRecords[0].RecordLength', '65533 bytes'),
        ('1.0', 40, '2000', 'FirmwareDeviceIDRecords[0].RecordLength', '31, where its last field ends,'),
        ('1.0', 42, '00', 'FirmwareDeviceIDRecords[0].DescriptorCount', 'an initial descriptor'),
        ('1.0', 42, '03', 'FirmwareDeviceIDRecords[0].RecordDescriptors[2].DescriptorLength', '2 bytes'),
        ('1.0', 47, '09', 'FirmwareDeviceIDRecords[0].ComponentImageSetVersionStringType', 'a number from 0 to 5'),
        ('1.0', 48, 'ff', 'FirmwareDeviceIDRecords[0].ComponentImageSetVersionString', '255 bytes'),
        ('1.0', 49, '0300', 'FirmwareDeviceIDRecords[0].FirmwareDevicePackageData', '3 bytes'),
        ('1.0', 51, '04', 'FirmwareDeviceIDRecords[0].ApplicableComponents', 'a bit of an existing component'),
        ('1.0', 59, '0300', 'FirmwareDeviceIDRecords[0].RecordDescriptors[0].DescriptorLength', '2 for PCI_VENDOR_ID'),
        ('1.0', 59, 'ffff', 'FirmwareDeviceIDRecords[0].RecordDescriptors[0].DescriptorData', '65535 bytes'),
        ('1.2', 62, '0101', 'FirmwareDeviceIDRecords[0].RecordDescriptors[1].DescriptorData', '257 bytes'),
        (
            '1.2',
            64,
            '07',
            'FirmwareDeviceIDRecords[0].RecordDescriptors[1].VendorDefinedDescriptorTitleStringType',
            'a number from 0 to 5',
        ),
        ('1.2', 65, '06', 'FirmwareDeviceIDRecords[0].RecordDescriptors[1].VendorDefinedDescriptorTitleString', '6 bytes'),
        ('1.3', 51, 'ffffffff', 'FirmwareDeviceIDRecords[0].ReferenceManifestData', '4294967295 bytes'),
        ('1.1', 73, '0100', 'DownstreamDeviceIDRecords[0].RecordLength', 'at least 3, for RecordLength and DescriptorCount,'),
        (
            '1.1',
            80,
            '08',
            'DownstreamDeviceIDRecords[0].DownstreamDeviceSelfContainedActivationMinVersionStringType',
            'a number from 0 to 5',
        ),
        ('1.1', 82, '0200', 'DownstreamDeviceIDRecords[0].DownstreamDevicePackageData', '2 bytes'),
        ('1.1', 84, '0080', 'DownstreamDeviceIDRecords[0].ApplicableComponents', 'a bit of an existing component'),
        ('1.0', 71, '0000', 'ComponentImageCount', '1 to 8, which is ComponentBitmapBitLength,'),
        ('1.0', 71, '0900', 'ComponentImageCount', '1 to 8, which is ComponentBitmapBitLength,'),
        ('1.0', 71, '0300', 'ComponentImageInformation[2].ComponentClassification', '2 bytes'),
        ('1.0', 85, '7e000000', 'ComponentImageInformation[0].ComponentLocationOffset', '127 to 134, after the header'),
        ('1.0', 85, 'ffffffff', 'ComponentImageInformation[0].ComponentLocationOffset', '127 to 134, after the header'),
        ('1.0', 89, '08000000', 'ComponentImageInformation[0].ComponentSize', 'at most the 7 bytes'),
        ('1.0', 93, '06', 'ComponentImageInformation[0].ComponentVersionStringType', 'a number from 0 to 5'),
        ('1.0', 119, 'd800', 'ComponentImageInformation[1].ComponentVersionString', 'valid UTF_16BE text'),
        ('1.2', 98, 'ffffffff', 'ComponentImageInformation[0].ComponentOpaqueData', '4294967295 bytes'),
    ],
)
def test_a_field_that_is_wrong_is_named(revision, at, new, field, expected):
    """With its offset and what was expected, though both checksums were made to fit."""
    data = VECTORS[revision]
    change = bytes.fromhex(new)
    error = refused(sealed(data[:at] + change + data[at + len(change) :]))
    assert field == error.field
    assert expected in error.expected
    assert error.offset <= len(data)


def test_bytes_between_the_last_field_and_the_checksum_are_refused():
    """They would be covered by the checksum, and nobody knows what they mean."""
    package = EXPECTED['1.3']
    moved = replace(package, components=(replace(package.components[0], offset=131),))
    data = pldm_encoding.encode(moved, b'\1\2\3')
    data = data[:17] + struct.pack('<H', 131) + data[19:120] + b'\0\0\0' + data[120:]
    error = refused(sealed(data))
    expected = ('PackageHeaderSize', 17, '131', '128, where the last field ends,')
    assert expected == (error.field, error.offset, error.found, error.expected)


def test_a_package_for_nobody_is_refused():
    """A header without a device says nothing that could be compared."""
    data = V1_0[:39] + b'\0' + V1_0[71:]
    assert 'DeviceIDRecordCount' == refused(sealed(data[:17] + struct.pack('<H', 96) + data[19:])).field
    assert 'PackageHeaderIdentifier' == refused(b'').field
    assert 'PackageHeaderIdentifier' == refused(b'format = 1\n').field


def test_what_lies_behind_the_images_may_be_covered_or_not():
    """A signature that a maker has put behind the payload is left as it is; a checksum over anything else is refused."""
    header, payload, signature = V1_3[: size_of(V1_3)], V1_3[size_of(V1_3) :], b'a signature'
    assert EXPECTED['1.3'] == pldm_package.parse(header + payload + signature, 'x')
    covered = header[:-4] + struct.pack('<I', binascii.crc32(payload + signature))
    assert EXPECTED['1.3'] == pldm_package.parse(covered + payload + signature, 'x')
    partly = header[:-4] + struct.pack('<I', binascii.crc32(payload + signature[:4]))
    assert 'PackagePayloadChecksum' == refused(partly + payload + signature).field
    assert EXPECTED['1.3'].images_end == len(V1_3)


def test_two_components_may_have_one_image():
    """As where one image is for two kinds of a card."""
    package = EXPECTED['1.0']
    both = replace(package, components=tuple(replace(one, offset=127, size_bytes=7) for one in package.components))
    assert both == pldm_package.parse(pldm_encoding.encode(both, bytes(7)), 'x')


def test_ids_are_shown_as_people_write_them():
    """PCI ids low byte first, UUIDs high byte first, texts as texts where they are such."""
    for kind, data, value in (
        (DescriptorType.PCI_VENDOR_ID, b'\xde\x10', '0x10de'),
        (DescriptorType.PCI_REVISION_ID, b'\xa1', '0xa1'),
        (DescriptorType.IANA_ENTERPRISE_ID, b'\x47\x16\0\0', '0x00001647'),
        (DescriptorType.UUID, bytes(range(16)), '00010203-0405-0607-0809-0a0b0c0d0e0f'),
        (DescriptorType.ASCII_MODEL_NUMBER_SHORT, b'X100\0\0\0\0\0\0', 'X100'),
        (DescriptorType.PNP_VENDOR_ID, b'\x1b[m', '1b5b6d'),
        (DescriptorType.ASCII_MODEL_NUMBER_SHORT, bytes(10), '00' * 10),
        (DescriptorType.IEEE_ASSIGNED_COMPANY_ID, b'\0\x1b\x21', '001b21'),
        (0x4321, b'\1\2', '0102'),
    ):
        assert value == Descriptor(type=kind, data=data).value
    assert set(DescriptorType) == set(pldm.DESCRIPTOR_BYTES)


def test_texts_are_read_by_their_type():
    """UTF-16 by its mark, else high byte first; what has no type as far as it is ASCII."""
    for kind, raw, text in (
        (StringType.UNKNOWN, b'1\xff', '1\\xff'),
        (StringType.UTF_16, b'\xff\xfe1\0', '1'),
        (StringType.UTF_16, b'\0' + b'1', '1'),
        (StringType.UTF_16LE, b'1\0', '1'),
        (StringType.ASCII, b'1.0\0\0', '1.0'),
    ):
        assert text == PldmString(type=kind, raw=raw).text


def test_what_has_no_room_is_not_written():
    """The encoder refuses it, too."""
    package = EXPECTED['1.0']
    for wrong in (
        replace(package, version=string('x' * 256)),
        replace(package, bitmap_bits=8, devices=(replace(package.devices[0], components=frozenset({8})),)),
        replace(package, devices=package.devices * 256),
        replace(package, devices=(replace(package.devices[0], package_data=bytes(0xFFFF)),)),
    ):
        with pytest.raises(ValueError, match='does not fit its field'):
            pldm_encoding.encode(wrong, b'')


def test_the_largest_header_takes_no_time():
    """Thousands of descriptors and components in 64 KiB: in proportion to the bytes, not to their square."""
    device = DeviceRecord(
        image_set_version=string(''),
        components=frozenset(range(64)),
        descriptors=(PCI_VENDOR,) * 35,
    )
    component = PackageComponent(classification=9999, identifier=1, offset=0, size_bytes=0, version=string(''))
    package = replace(EXPECTED['1.0'], bitmap_bits=2000, devices=(device,) * 50, components=(component,) * 1700)
    package = pldm_encoding.placed(package, [0] * 1700)
    assert package == pldm_package.parse(pldm_encoding.encode(package, b''), 'x')


texts = st.builds(
    lambda kind, text: PldmString(
        type=kind, raw=text.encode('utf-16-le' if kind is StringType.UTF_16LE else 'utf-8' if kind < 3 else 'utf-16-be')
    ),
    st.sampled_from(StringType),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
)
descriptors = st.lists(
    st.sampled_from(DescriptorType).flatmap(
        lambda kind: st.builds(
            Descriptor,
            type=st.just(kind),
            data=st.binary(min_size=pldm.DESCRIPTOR_BYTES[kind], max_size=pldm.DESCRIPTOR_BYTES[kind]),
        )
    )
    | st.builds(VendorDescriptor, title=texts, data=st.binary(max_size=20))
    | st.builds(Descriptor, type=st.integers(0x200, 0xFFFE), data=st.binary(max_size=20)),
    min_size=1,
    max_size=5,
).map(tuple)


@st.composite
def packages(draw: st.DrawFn) -> tuple[PldmPackage, bytes]:
    """A package with its payload."""
    revision = draw(st.sampled_from(Revision))
    images = draw(st.lists(st.binary(max_size=30), min_size=1, max_size=20))
    applicable = st.frozensets(st.integers(0, len(images) - 1))
    manifests = st.binary(max_size=20 * revision.has_manifests)
    devices = st.builds(
        DeviceRecord,
        options=st.integers(0, 2**32 - 1).map(DeviceUpdateOption),
        image_set_version=texts,
        components=applicable,
        descriptors=descriptors,
        package_data=st.binary(max_size=20),
        reference_manifest=manifests,
    )
    downstream = st.builds(
        DownstreamRecord,
        options=st.integers(0, 2**31 - 1).map(lambda bits: DownstreamUpdateOption(bits << 1)),
        min_version=texts,
        components=applicable,
        descriptors=descriptors,
        package_data=st.binary(max_size=20),
        reference_manifest=manifests,
    ) | st.builds(
        DownstreamRecord,
        options=st.just(DownstreamUpdateOption.SELF_CONTAINED_ACTIVATION_MIN_VERSION),
        min_version=texts,
        min_version_stamp=st.integers(0, 2**32 - 1),
        components=applicable,
        descriptors=descriptors,
    )
    components = st.builds(
        PackageComponent,
        classification=st.integers(0, 0xFFFF).map(
            lambda number: Classification(number) if number in set(Classification) else number
        ),
        identifier=st.integers(0, 0xFFFF),
        comparison_stamp=st.integers(0, 2**32 - 1),
        options=st.integers(0, 0xFFFF).map(ComponentOption),
        activation=st.integers(0, 0xFFFF).map(Activation),
        offset=st.just(0),
        size_bytes=st.just(0),
        version=texts,
        opaque_data=st.binary(max_size=20 * revision.has_opaque_data),
    )
    zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
    package = PldmPackage(
        revision=revision,
        released=draw(st.none() | st.builds(ReleaseTime, moment=st.datetimes(timezones=zones), resolution=st.integers(0, 255))),
        version=draw(texts),
        bitmap_bits=8 * draw(st.integers(-(-len(images) // 8), 5)),
        devices=tuple(draw(st.lists(devices, min_size=1, max_size=3))),
        downstream_devices=tuple(draw(st.lists(downstream, max_size=2 * revision.has_downstream_devices))),
        components=tuple(draw(components) for _ in images),
    )
    return pldm_encoding.placed(package, map(len, images)), b''.join(images)


@settings(max_examples=150, deadline=None)
@given(packages())
def test_what_is_written_is_read_again(made):
    """Every package that there can be, up to its size."""
    package, payload = made
    assert package == pldm_package.parse(pldm_encoding.encode(package, payload), 'x')


def test_changed_packages_end_well():
    """A package, or an error that names a field; no wrong checksum is accepted. ``make soak-pldm`` tries a million."""
    results = [pldm_packages.judged(pldm_packages.one(0, number)[0]) for number in range(5000)]
    assert len(set(results)) > 30
    assert 200 < results.count('accepted') < 2500


if CREATOR is not None:  # a folder of the creator of OpenBMC, which is not ours to ship

    @pytest.mark.parametrize('revision', VECTORS)
    def test_packages_of_another_hand_are_read(revision, tmp_path):
        """What OpenBMC's creator makes of its own metadata is read as that metadata."""
        metadata_file = Path(CREATOR or '') / f'metadate-example{revision}.0.json'
        metadata = json.loads(metadata_file.read_text())
        images = []
        for number, _ in enumerate(metadata['ComponentImageInformationArea']):
            images.append(tmp_path / f'image-{number}')
            images[-1].write_bytes(os.urandom(1000 + number))
        made = tmp_path / 'made.fwpkg'
        creator = Path(CREATOR or '') / 'pldm_fwup_pkg_creator.py'
        subprocess.run([CREATOR_PYTHON, creator, made, metadata_file, *images], check=True)
        data = made.read_bytes()
        package = pldm_package.parse(data, 'x')
        assert data == pldm_encoding.encode(package, data[pldm_encoding.header_size(package) :])
        header = metadata['PackageHeaderInformation']
        assert header['PackageHeaderIdentifier'].lower() == package.revision.identifier.hex
        assert (header['PackageHeaderFormatVersion'], revision) == (package.revision.number, package.revision.version)
        assert header['PackageVersionString'] == package.version.text
        assert package.released is not None
        assert header['PackageReleaseDateTime'] in (
            f'{package.released.moment:%Y-%m-%d %H:%M:%S}',
            f'{package.released.moment:%d/%m/%Y %H:%M:%S}',
        )
        areas = [('FirmwareDeviceIdentificationArea', 'DeviceUpdateOptionFlags', 'ReferenceManifestData', package.devices)]
        if 'DownstreamDeviceIdentificationArea' in metadata:
            flags, manifest = 'DownstreamDeviceUpdateOptionFlags', 'DownstreamDeviceReferenceManifestData'
            areas.append(('DownstreamDeviceIdentificationArea', flags, manifest, package.downstream_devices))
        for area, flags, manifest, records in areas:
            for told, record in zip(metadata[area], records, strict=True):
                assert sum(1 << bit for bit in told[flags]) == record.options
                assert set(told['ApplicableComponents']) == record.components
                assert told.get(manifest, '').lower() == record.reference_manifest.hex()
                for ids, descriptor in zip(told['Descriptors'], record.descriptors, strict=True):
                    if isinstance(descriptor, VendorDescriptor):
                        title, hexadecimal = descriptor.title.text, descriptor.data.hex()
                        assert (ids['VendorDefinedDescriptorTitleString'], ids['VendorDefinedDescriptorData']) == (
                            title,
                            hexadecimal,
                        )
                    else:
                        assert (ids['DescriptorType'], ids['DescriptorData'].lower()) == (
                            descriptor.type,
                            descriptor.data.hex(),
                        )
        for told, record in zip(metadata['FirmwareDeviceIdentificationArea'], package.devices, strict=True):
            assert told['ComponentImageSetVersionString'] == record.image_set_version.text
        for told, component, image in zip(metadata['ComponentImageInformationArea'], package.components, images, strict=True):
            assert told['ComponentClassification'] == component.classification
            assert told['ComponentIdentifier'] == component.identifier
            assert told['ComponentVersionString'] == component.version.text
            assert sum(1 << bit for bit in told['ComponentOptions']) == component.options
            assert sum(1 << bit for bit in told['RequestedComponentActivationMethod']) == component.activation
            stamp = int(told['ComponentComparisonStamp'], 16) if 1 in told['ComponentOptions'] else pldm.NO_COMPARISON_STAMP
            assert stamp == component.comparison_stamp
            assert image.read_bytes() == data[component.offset : component.offset + component.size_bytes]

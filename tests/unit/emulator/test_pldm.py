# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulator's own reader of PLDM packages, held against the reader and the encoder of the client."""

import random
import time
import uuid
import zlib
from dataclasses import replace

import pytest

from baremetal_acc.emulator.image import BadImage, EmulatedImage, build_image
from baremetal_acc.emulator.pldm import (
    AC_POWER_CYCLE,
    DC_POWER_CYCLE,
    MOST_COMPONENTS,
    UUID_DESCRIPTOR,
    PackageReader,
    PartToBuild,
    RecordToBuild,
    build_package,
    is_package,
    vendor_descriptor,
)
from baremetal_acc.errors import PackageMalformed
from baremetal_acc.images import pldm, pldm_encoding, pldm_package

ONE = uuid.UUID('12345678-1234-5678-1234-567812345678')
SKU = vendor_descriptor('APSKU', b'\x4a\x35\x36\x81')


def image(version='2.0.0', component='gpu', size=300):
    """A small image."""
    return build_image(model='h100', component=component, version=version, size_bytes=size)


def built():
    """A package with two records, which share a component."""
    parts = (
        PartToBuild(number=0x20, version='97.1', image=image('97.1'), stamp=7),
        PartToBuild(number=0xFF00, version='01.3', image=image('01.3', 'erot'), activation=AC_POWER_CYCLE),
        PartToBuild(number=0x20, version='97.1', image=image('97.1'), forced=True),
    )
    records = (
        RecordToBuild(descriptors=((UUID_DESCRIPTOR, ONE.bytes), SKU), parts=frozenset({0, 1}), version='a tray'),
        RecordToBuild(descriptors=((UUID_DESCRIPTOR, bytes(16)),), parts=frozenset({1, 2}), continues=False),
    )
    return build_package('bundle 1', records, parts)


def read(data, pieces=1000):
    """What the emulator reads, from pieces of that size."""
    reader = PackageReader()
    for at in range(0, len(data), pieces):
        reader.feed(data[at : at + pieces])
    return reader.finish()


@pytest.mark.parametrize('pieces', [1, 17, 64, 10**6])
def test_a_package_is_read_as_it_was_built_however_it_arrives(pieces):
    """Records, descriptors, stamps, options; an image that lies there once is the image of both of its components."""
    package = read(built(), pieces)
    assert 'bundle 1' == package.version
    assert [frozenset({0, 1}), frozenset({1, 2})] == [one.parts for one in package.records]
    assert frozenset({(UUID_DESCRIPTOR, ONE.bytes), SKU}) == package.records[0].descriptors
    assert [True, False] == [one.continues for one in package.records]
    assert [(0x20, '97.1', 7, False), (0xFF00, '01.3', None, False), (0x20, '97.1', None, True)] == [
        (one.number, one.version, one.stamp, one.forced) for one in package.parts
    ]
    assert ['DC power cycle', 'AC power cycle', 'DC power cycle'] == [one.activated_by for one in package.parts]
    assert ['97.1', '01.3', '97.1'] == [one.image.version for one in package.parts if isinstance(one.image, EmulatedImage)]
    assert package.parts[0].image == package.parts[2].image


def test_the_client_reads_what_the_emulator_builds():
    """Two implementations that share nothing agree."""
    found = pldm_package.parse(built(), 'x')
    assert ['97.1', '01.3', '97.1'] == [one.version.text for one in found.components]
    assert [0x20, 0xFF00, 0x20] == [one.identifier for one in found.components]
    assert [pldm.Activation.DC_POWER_CYCLE, pldm.Activation.AC_POWER_CYCLE] == [one.activation for one in found.components][:2]
    assert [frozenset({0, 1}), frozenset({1, 2})] == [one.components for one in found.devices]
    assert str(ONE) == found.devices[0].descriptors[0].value
    assert 'APSKU' == found.devices[0].descriptors[1].title.text


@pytest.mark.parametrize('revision', pldm.Revision)
def test_the_emulator_reads_what_the_client_encodes(revision):
    """Of every revision, with downstream devices, opaque data, manifests and both checksums where there are such."""
    mine = pldm_package.parse(built(), 'x')
    images = image('97.1'), image('01.3', 'erot'), image('97.1')
    record = pldm.DownstreamRecord(
        min_version=pldm.PldmString(type=pldm.StringType.ASCII, raw=b'1'),
        components=frozenset({0}),
        descriptors=mine.devices[0].descriptors,
    )
    package = replace(
        mine,
        revision=revision,
        downstream_devices=(record,) if revision.has_downstream_devices else (),
        components=tuple(replace(one, opaque_data=b'x' if revision.has_opaque_data else b'') for one in mine.components),
        devices=tuple(replace(one, reference_manifest=b'm' if revision.has_manifests else b'') for one in mine.devices),
    )
    placed = pldm_encoding.placed(package, [len(one) for one in images])
    found = read(pldm_encoding.encode(placed, b''.join(images)) + (b'' if revision.has_manifests else b'a signature'))
    assert ['97.1', '01.3', '97.1'] == [one.image.version for one in found.parts if isinstance(one.image, EmulatedImage)]
    assert [frozenset({0, 1}), frozenset({1, 2})] == [one.parts for one in found.records]


def test_only_what_begins_as_a_package_is_one():
    """By the identifier."""
    assert is_package(built())
    assert not is_package(image())


def test_an_image_that_was_damaged_in_a_package_without_a_checksum_of_it_is_found_by_its_device():
    """The package is whole, one of its images is not."""
    data = bytearray(built())
    data[-1] ^= 1
    found = read(bytes(data))
    assert [EmulatedImage, BadImage] == [type(one.image) for one in found.parts][:2]


def with_sum(data, size=None):
    """The same header with the checksum that it should have."""
    size = int.from_bytes(data[17:19], 'little') if size is None else size
    return data[: size - 4] + zlib.crc32(data[: size - 4]).to_bytes(4, 'little') + data[size:]


@pytest.mark.parametrize(
    'change',
    [
        lambda data: data[:15],
        lambda data: data[:100],
        lambda data: data[:-1],
        lambda data: data[:16] + b'\x02' + data[17:],
        lambda data: data[:17] + b'\x05\x00' + data[19:],
        lambda data: data[:17] + b'\xff\xff' + data[19:],
        lambda data: data[:40] + b'\xff' + data[41:],
        lambda data: with_sum(data[:32] + b'\x07\x00' + data[34:]),
        lambda data: with_sum(data[:32] + b'\xf8\xff' + data[34:]),
        lambda data: with_sum(data[:34] + b'\x09' + data[35:]),
    ],
)
def test_a_package_that_is_not_right_is_a_bad_image_and_nothing_worse(change):
    """Cut, of another revision, with a wrong checksum, a wrong bitmap, a wrong type of a string."""
    with pytest.raises(BadImage):
        read(change(built()))


def said_of(data):
    """What the client's reader has against a package."""
    try:
        pldm_package.parse(data, 'x')
    except PackageMalformed as exc:
        return str(exc)
    return ''


def encoded(components, payload):
    """A package of the client's encoder, with components where they are told to lie: (offset in the payload, size)."""
    mine = pldm_package.parse(built(), 'x')
    many = tuple(replace(mine.components[0], offset=0, size_bytes=size) for _, size in components)
    package = replace(mine, bitmap_bits=-(-len(many) // 8) * 8, components=many)
    start = pldm_encoding.header_size(package)
    placed = replace(
        package,
        components=tuple(replace(one, offset=start + at) for one, (at, _) in zip(many, components, strict=True)),
    )
    return pldm_encoding.encode(placed, payload)


def test_images_that_lie_upon_each_other_are_refused():
    """Else each of them would cost as much to read as all of the payload."""
    with pytest.raises(BadImage, match='overlap'):
        read(encoded([(0, 50), (49, 50), (100, 1)], bytes(200)))


def test_a_package_of_very_many_components_is_refused_in_no_time():
    """Reading takes time in proportion to the bytes."""
    begun = time.monotonic()
    with pytest.raises(BadImage, match='components'):
        read(encoded([(0, 1)] * (MOST_COMPONENTS + 1), bytes(1)))
    assert time.monotonic() - begun < 2


def test_ten_thousand_changed_packages_neither_crash_nor_differ_from_what_the_client_says_of_their_checksums():
    """Whatever is changed: an answer, and never one that the client's reader would call a wrong checksum."""
    dice = random.Random(25)
    whole = built()
    for _ in range(10000):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(min(len(data), 500))] = dice.randrange(256)
        changed = bytes(data)
        if dice.random() < 0.7:
            changed = with_sum(changed, int.from_bytes(whole[17:19], 'little'))
        try:
            read(changed, 4096)
        except BadImage:
            continue
        assert 'Checksum' not in said_of(changed)


def test_what_has_no_room_cannot_be_built():
    """A version of 300 letters."""
    with pytest.raises(ValueError, match='too large for its field'):
        build_package('x' * 300, (), ())


def test_the_methods_of_activation_are_told_in_words():
    """Several are told together."""
    part = PartToBuild(number=1, version='1', image=image(), activation=DC_POWER_CYCLE | AC_POWER_CYCLE)
    record = RecordToBuild(descriptors=(SKU,), parts=frozenset({0}))
    assert 'DC power cycle or AC power cycle' == read(build_package('1', (record,), (part,))).parts[0].activated_by

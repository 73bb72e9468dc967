# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What goes where, and what a device has against it, as tables."""

import pytest

from baremetal_acc.emulator.bundle import EQUAL, LOWER, assign, objection
from baremetal_acc.emulator.image import BadImage, EmulatedImage, ImageFormat, build_image, read_image
from baremetal_acc.emulator.parts import Bank, ComponentWrite, DeviceIdentity, EmulatedComponent, WriteResult
from baremetal_acc.emulator.pldm import PackageDeviceRecord, PackageMaker, PackagePart

UUID, SKU, OTHER = (2, b'u' * 16), (0xFFFF, b'sku'), (0xFFFF, b'other')


def image(version: str = '2') -> EmulatedImage:
    return read_image(build_image(model='m', component='c', version=version, size_bytes=8))


def component(key: str, descriptors: frozenset[tuple[int, bytes]] | None, number: int = 1) -> EmulatedComponent:
    return EmulatedComponent(
        key=key,
        bmc='host',
        uri=f'/{key}',
        device=key,
        kind=ImageFormat.FIRMWARE,
        model='m',
        component='c',
        active=Bank(version='1'),
        identity=None if descriptors is None else DeviceIdentity(endpoint=key, descriptors=descriptors, number=number),
    )


def package(*records: PackageDeviceRecord, parts: tuple[PackagePart, ...] = ()) -> PackageMaker:
    given = parts or (PackagePart(number=1, version='2', image=image()), PackagePart(number=9, version='3', image=image('3')))
    return PackageMaker(version='p', records=records, parts=given, digest='sha256:0')


def record(*descriptors: tuple[int, bytes], parts: tuple[int, ...] = (0,)) -> PackageDeviceRecord:
    return PackageDeviceRecord(descriptors=frozenset(descriptors), parts=frozenset(parts))


DEVICE = frozenset({UUID, SKU})


@pytest.mark.parametrize(
    ('descriptors', 'number', 'given', 'version'),
    [
        (DEVICE, 1, record(UUID, SKU), '2'),
        (DEVICE, 1, record(UUID), '2'),
        (DEVICE, 1, record(UUID, OTHER), None),
        (DEVICE, 1, record(UUID, SKU, OTHER), None),
        (DEVICE, 9, record(UUID, SKU), None),
        (DEVICE, 9, record(UUID, SKU, parts=(0, 1)), '3'),
        (DEVICE, 1, record(UUID, SKU, parts=()), None),
        (None, 1, record(UUID), None),
    ],
)
def test_a_device_gets_what_its_record_has_for_its_component(
    descriptors: frozenset[tuple[int, bytes]] | None, number: int, given: PackageDeviceRecord, version: str | None
) -> None:
    """All descriptors of the record are among those of the device; then the identifier decides."""
    found = assign(package(given), [component('x', descriptors, number)], force=False)
    assert ([] if version is None else [version]) == [one.version for one in found]


def test_equal_devices_get_the_same_image() -> None:
    """One record for all of them."""
    found = assign(package(record(UUID)), [component('a', DEVICE), component('b', DEVICE)], force=True)
    assert [('a', True), ('b', True)] == [(one.key, one.forced) for one in found]
    assert found[0].image == found[1].image


def test_the_first_record_that_fits_counts() -> None:
    """Two that fit are a mistake of the maker's."""
    found = assign(package(record(UUID), record(SKU, parts=(1,))), [component('a', DEVICE)], force=False)
    assert ['2'] == [one.version for one in found]


@pytest.mark.parametrize(
    ('version', 'runs', 'expected'),
    [
        ('2', '2', EQUAL),
        ('2', '2  ', EQUAL),
        ('2', '1', None),
        ('1', '2', LOWER),
        ('10', '9', None),
        ('96.10.7A.00.01', '96.10.69.00.01', None),
        ('97.00.0C.00.00', '97.00.0D.00.00', LOWER),
        ('97.00.10.00.00', '97.00.0D.00.00', None),
        ('01.03.0183.0000_n04', '01.04.0008.0000_n04', LOWER),
        ('gb200nvl-24.08-2', 'GB200Nvl-24.08-2', EQUAL),
        ('1.0', '1', None),
        ('1', '1.0', LOWER),
    ],
)
def test_versions_are_compared_where_there_are_no_stamps(version: str, runs: str, expected: object) -> None:
    """Equal is skipped, lower refused."""
    write = ComponentWrite(key='x', image=image(version), version=version)
    assert expected == objection(write, Bank(version=runs))


@pytest.mark.parametrize(
    ('stamp', 'runs', 'expected'),
    [(7, 7, EQUAL), (6, 7, LOWER), (8, 7, None), (None, 7, None), (7, None, None), (0, 1, LOWER)],
)
def test_stamps_are_compared_where_both_have_one(stamp: int | None, runs: int | None, expected: object) -> None:
    """The version, which is higher in all of these, does not matter then."""
    assert expected == objection(
        ComponentWrite(key='x', image=image(), version='2', stamp=stamp), Bank(version='1', stamp=runs)
    )


def test_what_is_forced_meets_no_objection_by_its_version_and_a_wrong_image_always_does() -> None:
    """Force is for what is equal or lower, not for what is wrong."""
    lower = ComponentWrite(key='x', image=image('1'), version='1', forced=True)
    assert objection(lower, Bank(version='2')) is None
    assert objection(ComponentWrite(key='x', image=image('1'), version='1'), None) is None
    for write in (
        ComponentWrite(key='x', image=None, version='1', defect='cut', forced=True),
        ComponentWrite(key='x', image=image(), version='3'),
    ):
        found = objection(write, None)
        assert found is not None
        assert (WriteResult.FAILED, 'verify') == (found.result, found.failure)


def test_a_component_whose_image_is_not_whole_says_so() -> None:
    """It is a pair all the same: its device finds it wrong."""
    parts = (PackagePart(number=1, version='2', image=BadImage('cut')),)
    (found,) = assign(package(record(UUID), parts=parts), [component('a', DEVICE)], force=False)
    assert (None, 'cut') == (found.image, found.defect)

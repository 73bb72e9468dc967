# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image that is a PLDM package is not given where its header and the catalogue contradict each other."""

import gc
from dataclasses import replace
from pathlib import Path

import pytest

from baremetal_acc.errors import ImageMismatch, PackageMalformed
from baremetal_acc.images import pldm_encoding
from baremetal_acc.images.pldm import PldmPackage, PldmString, Revision, StringType
from baremetal_acc.images.store import FileStore, ImageFiles
from baremetal_acc.model.image import Fit, ImageKind
from tests.unit.images import images
from tests.unit.images.test_draft import PACKAGE, component, device, pci

GPU = Fit(pci='0x10de:0x2330')


def given(folder: Path, data: bytes, version: str, *fits: Fit, kind: ImageKind = ImageKind.FIRMWARE):
    """What the store says to an image with these bytes, of which a catalogue says that."""
    path = folder / 'tray.fwpkg'
    path.write_bytes(data)
    image = replace(images.image(path, data=data), version=version, fits=fits or (GPU,), kind=kind)
    return ImageFiles(files=FileStore(folders=(folder,))).open(image)


def encoded(package: PldmPackage) -> bytes:
    return pldm_encoding.encode(
        pldm_encoding.placed(package, [3] * len(package.components)), bytes(3 * len(package.components))
    )


@pytest.mark.parametrize('version', ['96.00.5E', '96.00.5e ', 'v96.00.5E', 'set', 'tray-1'])
def test_a_version_that_the_header_says_is_given(tmp_path, version):
    """Of a component, of the components of a device together, or of the package; compared as versions are everywhere."""
    data = encoded(PACKAGE)
    assert data == given(tmp_path, data, version).open().read()


def test_a_version_that_the_header_does_not_say_is_refused(tmp_path):
    """One of the two means another image. The message names a few of thousands, and no text of a package as it is."""
    with pytest.raises(
        ImageMismatch, match=r'its header says "96.00.5E", "set", "tray-1", and the catalogue says version 96.00.5F'
    ):
        given(tmp_path, encoded(PACKAGE), '96.00.5F')
    many = replace(PACKAGE, bitmap_bits=96, components=tuple(component(one, f'{one}\x1b[2J') for one in range(96)))
    with pytest.raises(ImageMismatch) as caught:
        given(tmp_path, encoded(many), '1')
    assert 'and 93 more' in str(caught.value)
    assert str(caught.value).isprintable()
    empty = PldmString(type=StringType.UNKNOWN, raw=b'')
    nothing = replace(PACKAGE, version=empty, components=(component(version=''),), devices=PACKAGE.devices[:1])
    nothing = replace(nothing, devices=(replace(nothing.devices[0], image_set_version=empty),))
    with pytest.raises(ImageMismatch, match='its header says nothing'):
        given(tmp_path, encoded(nothing), '1')


def test_a_package_for_other_devices_is_refused(tmp_path):
    """Where both sides name PCI ids of all devices. Where one of them names others, only the card can tell."""
    data = encoded(PACKAGE)
    with pytest.raises(ImageMismatch, match=r'is for PCI devices "0x10de:0x2330", .*, and the catalogue says "0x10de:0x9999"'):
        given(tmp_path, data, 'tray-1', Fit(pci='0x10de:0x9999'))
    assert given(tmp_path, data, 'tray-1', Fit(pci='0x10de:0x9999'), GPU)
    assert given(tmp_path, data, 'tray-1', Fit(pci='0x10de:0x9999'), Fit(software_id='x'))
    ids = pci(0x10DE, 0x2330)
    some = replace(PACKAGE, devices=(device(*ids), device(ids[0])))
    assert given(tmp_path, encoded(some), 'tray-1', Fit(pci='0x10de:0x9999'))


def test_a_package_that_breaks_its_specification_is_refused(tmp_path):
    """Whatever signature the catalogue has: the device would not take it, or take something else for it."""
    data = encoded(replace(PACKAGE, revision=Revision.V1_3))
    with pytest.raises(PackageMalformed, match='PackagePayloadChecksum'):
        given(tmp_path, data[:-1] + b'?', 'tray-1')
    with pytest.raises(PackageMalformed, match=r'image .*: PackageHeaderSize at byte 17'):
        given(tmp_path, data[:100], 'tray-1')


def test_other_images_are_their_bytes(tmp_path):
    """Nothing is asked of what is no package, nor of a function."""
    assert given(tmp_path, b'no package', 'anything')
    assert given(tmp_path, encoded(PACKAGE), 'anything', kind=ImageKind.FUNCTION)


def test_a_refused_package_leaves_no_copy(tmp_path, monkeypatch):
    """As long as somebody has the error, the disk is not held by it."""
    monkeypatch.setenv('TMPDIR', str(tmp_path))
    before = _open_files()
    errors = []
    for version, data in (('1', encoded(PACKAGE)), ('tray-1', encoded(PACKAGE)[:50])):
        with pytest.raises((ImageMismatch, PackageMalformed)) as caught:
            given(tmp_path, data, version)
        errors.append(caught.value)
    assert before == _open_files()
    assert 2 == len(errors)


def _open_files() -> int:
    gc.collect()  # what other tests have left open, too
    return sum(1 for _ in Path('/proc/self/fd').iterdir())

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An HPM.1 image is read only when every byte of it is where it has to be; what fits it says by a sentence for each difference.

The encoder is of the tests alone, written from the layout.
"""

import hashlib
import io
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.bmc.ipmi import device as identity
from baremetal_acc.bmc.ipmi.hpm import image as hpm_image
from baremetal_acc.bmc.ipmi.hpm.image import (
    ActionKind,
    ImageDevice,
    ImageFeature,
    ImageUpload,
    StreamedImage,
    UpgradeAction,
    Version,
    fits,
    parse,
)
from baremetal_acc.errors import ImageError

FIRMWARE = bytes(range(200)) * 5


def summed(data):
    """The data with a byte behind that makes the sum zero."""
    return data + bytes([-sum(data) & 0xFF])


def backup(mask):
    return summed(bytes([0, mask]))


def prepare(mask):
    return summed(bytes([1, mask]))


def upload(mask, firmware, *, version=(1, 5, 0, 0, 0, 42), described=b'PYLD FPGA', length=None, over=3):
    """An upload record with its data; its checksum covers 3 bytes, or 34."""
    tail = bytes(version) + described.ljust(21, b'\0') + struct.pack('<I', len(firmware) if length is None else length)
    head = bytes([2, mask])
    check = -sum(head) if over == 3 else -sum(head + tail)
    return head + bytes([check & 0xFF]) + tail + firmware


def header(*, components=0x07, oem=b'', signature=b'PICMGFWU', form=0, earliest=(1, 0x02), oem_length=None, check=0):
    raw = signature + bytes([form, 0x35])
    raw += (0x00A2B7).to_bytes(3, 'little') + (0x1234).to_bytes(2, 'little')
    raw += struct.pack('<I', 1_700_000_000) + bytes([0xE0, components, 2, 3, 12])
    raw += bytes(earliest) + bytes([1, 0x05, 0, 0, 0, 42])
    raw += struct.pack('<H', len(oem) if oem_length is None else oem_length) + oem
    raw = summed(raw)
    return raw[:-1] + bytes([(raw[-1] + check) & 0xFF])


def image(*records, **kwargs):
    raw = header(**kwargs) + b''.join(records)
    return raw + hashlib.md5(raw).digest()


WHOLE = image(backup(1), prepare(4), upload(4, FIRMWARE), oem=b'vendor')
DEVICE = ImageDevice(
    device_id=0x35, manufacturer=0xA2B7, product=0x1234, revision=(1, 0x02), components=frozenset({0, 1, 2, 3})
)


def test_an_image_says_what_it_is_and_what_it_brings():
    """Every field of the header and of the records, from the layout of PICMG HPM.1 R1.0, section 4."""
    found = parse(WHOLE, 'fpga')
    assert (0x35, 0xA2B7, 0x1234) == (found.device_id, found.manufacturer, found.product)
    assert datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC) == found.made
    assert ImageFeature.SELF_TEST | ImageFeature.AUTO_ROLLBACK | ImageFeature.MANUAL_ROLLBACK == found.features
    assert frozenset({0, 1, 2}) == found.components
    seconds = tuple(timedelta(seconds=n) for n in (10, 15, 60))
    assert seconds == (found.self_test, found.rollback, found.inaccessible)
    assert ((1, 2), b'vendor') == (found.earliest, found.oem)
    assert found.firmware is not None
    assert '1.05.0000002A' == found.firmware.text
    version = Version(major=1, minor=5, aux=b'\0\0\0\x2a')
    brought = ImageUpload(component=2, version=version, described='PYLD FPGA', firmware=FIRMWARE)
    assert (brought,) == found.uploads
    assert (
        UpgradeAction(kind=ActionKind.BACKUP, components=frozenset({0})),
        UpgradeAction(kind=ActionKind.PREPARE, components=frozenset({2})),
        UpgradeAction(kind=ActionKind.UPLOAD, components=frozenset({2}), upload=brought),
    ) == found.actions
    assert found.asks(ActionKind.PREPARE, 2)
    assert not found.asks(ActionKind.BACKUP, 2)


def test_the_checksum_of_an_upload_may_cover_34_bytes():
    """ipmitool takes both."""
    assert FIRMWARE == parse(image(upload(4, FIRMWARE, over=34)), 'fpga').uploads[0].firmware


def test_the_upper_bit_of_the_earliest_revision_is_no_part_of_it():
    """As in the answer to Get Device ID, where it tells of an update."""
    assert (1, 2) == parse(image(upload(4, FIRMWARE), earliest=(0x81, 2)), 'fpga').earliest


def test_versions_are_written_as_the_catalogue_does():
    """The minor revision is two decimal digits; the vendor's bytes are shown where there are any; FFh is none."""
    assert '1.05' == Version(major=1, minor=5).text
    assert '12.40.DEADBEEF' == Version(major=12, minor=0x40, aux=bytes.fromhex('deadbeef')).text
    assert hpm_image.version(b'\xff' * 6) is None
    assert hpm_image.version(b'\x7f' + b'\xff' * 5) is None
    assert Version(major=0x7F, minor=0x10) == hpm_image.version(b'\x7f\x10\0\0\0\0')


BROKEN = {
    'nothing': (b'', 'is not an HPM.1 image'),
    'another file': (b'\x7fELF' + bytes(100), 'is not an HPM.1 image'),
    'signature only': (b'PICMGFWU', 'ends within its header (length 8 bytes)'),
    'another format': (image(upload(4, FIRMWARE), form=1), 'has HPM.1 image format 1'),
    'OEM data that is not there': (
        image(upload(4, b'x'), oem_length=0xFFFF),
        'OEM data in the header is 65535 bytes, more than',
    ),
    'header sum': (image(upload(4, FIRMWARE), check=1), 'the header checksum is wrong'),
    'one bit of firmware': (WHOLE[:200] + bytes([WHOLE[200] ^ 1]) + WHOLE[201:], 'the MD5 digest at the end is wrong'),
    'cut': (WHOLE[:-1], 'the MD5 digest at the end is wrong'),
    'a byte behind': (WHOLE + b'\0', 'the MD5 digest at the end is wrong'),
    'no actions': (image(), 'contains no firmware: no action record'),
    'no upload': (image(prepare(4)), 'contains no firmware: no action record'),
    'unknown action': (image(summed(b'\x03\x04')), 'action record 1 at byte 35 has unknown type 3'),
    'action cut': (image(upload(4, FIRMWARE), b'\0\1'), 'action record 2 at byte 1069 is truncated'),
    'upload cut': (image(summed(b'\x02\x04') + bytes(10)), 'action record 1 at byte 35 is truncated'),
    'action sum': (image(b'\x01\x04\x00', upload(4, FIRMWARE)), 'the checksum of action record 1 at byte 35 is wrong'),
    'upload sum': (image(b'\x02\x04\x00' + upload(4, FIRMWARE)[3:]), 'the checksum of action record 1'),
    'no component': (image(upload(0, FIRMWARE)), 'names no component'),
    'two components': (image(upload(6, FIRMWARE)), 'uploads to more than one component: 1, 2'),
    'a component beside the header': (image(upload(8, FIRMWARE)), 'is for component 3, which the header does not name'),
    'no firmware': (image(upload(4, b'')), 'contains no firmware'),
    'more firmware than there is': (image(upload(4, b'abc', length=4)), 'announces firmware of length 4, but only 3 bytes'),
    'far more': (image(upload(4, b'abc', length=0xFFFFFFFF)), 'announces firmware of length 4294967295, but only 3 bytes'),
    'less firmware than there is': (image(upload(4, b'abc\xff', length=3)), 'has unknown type 255'),
    'one component twice': (image(upload(4, b'abc'), upload(4, b'abd')), 'contains firmware for one component twice'),
    'records without end': (image(*[prepare(4)] * 65, upload(4, b'abc')), 'has more than 64 action records'),
}


@pytest.mark.parametrize(('content', 'says'), BROKEN.values(), ids=BROKEN)
def test_an_image_that_is_not_whole_is_refused_with_the_reason(content, says):
    """Whatever is wrong is named, with the place, and nothing is written."""
    with pytest.raises(ImageError) as caught:
        parse(content, 'fpga')
    assert says in str(caught.value)
    assert 'image fpga: ' in str(caught.value)


def test_an_image_that_is_too_large_is_refused_before_it_is_summed(monkeypatch):
    """It is held in memory."""
    monkeypatch.setattr(hpm_image, 'MOST_BYTES', len(WHOLE) - 1)
    with pytest.raises(ImageError, match=r'has 1\d\d\d bytes, but at most 1\d\d\d are supported'):
        parse(WHOLE, 'fpga')


def test_an_image_fits_the_controller_that_it_is_for():
    """Device, manufacturer, product, revision, components."""
    found = parse(WHOLE, 'fpga')
    assert () == fits(found, DEVICE)
    assert () == fits(found, replace(DEVICE, revision=(2, 0), components=None))


def test_what_a_controller_says_of_itself_is_compared():
    """Get Device ID, written by hand: device 35h, firmware 1.02 during an update, manufacturer 00A2B7h, product 1234h."""
    found = identity.parse(bytes.fromhex('35 81 81 02 02 29 b7a200 3412'))
    assert DEVICE == hpm_image.device(found, frozenset({0, 1, 2, 3}))
    assert replace(DEVICE, revision=(1, 0x99), components=None) == hpm_image.device(replace(found, firmware='1.99'))


DIFFERENT = {
    'device': (replace(DEVICE, device_id=0x20), 'is for device id 35h, but the controller has 20h'),
    'manufacturer': (replace(DEVICE, manufacturer=0x57), 'is for manufacturer 00A2B7h, but the controller has 000057h'),
    'product': (replace(DEVICE, product=1), 'is for product 1234h, but the controller has 0001h'),
    'minor': (replace(DEVICE, revision=(1, 1)), 'needs firmware 1.02 or later on the controller, which has 1.01'),
    'major': (replace(DEVICE, revision=(0, 0x99)), 'needs firmware 1.02 or later on the controller, which has 0.99'),
    'components': (replace(DEVICE, components=frozenset({2})), 'is for component 0, 1, which the controller does not have'),
}


@pytest.mark.parametrize(('device', 'says'), DIFFERENT.values(), ids=DIFFERENT)
def test_each_difference_is_a_sentence(device, says):
    """One for each, and no other."""
    (sentence,) = fits(parse(WHOLE, 'fpga'), device)
    assert f'image fpga {says}' == sentence


def test_all_differences_are_told_at_once():
    """Who repairs one finds no second."""
    other = ImageDevice(device_id=0, manufacturer=0, product=0, revision=(0, 0), components=frozenset())
    assert 5 == len(fits(parse(WHOLE, 'fpga'), other))


@given(st.binary(max_size=300))
def test_any_bytes_are_an_image_or_an_error(content):
    """Nothing but ImageError comes out, with sums that fit, too."""
    for raw in (content, b'PICMGFWU' + content, image(content, oem=content[:40])):
        try:
            found = parse(raw, 'hostile')
        except ImageError:
            continue
        assert sum(len(u.firmware) for u in found.uploads) < len(raw)


@given(st.data())
def test_a_changed_byte_is_always_noticed(data):
    """The MD5 covers all of it."""
    at = data.draw(st.integers(0, len(WHOLE) - 1))
    other = data.draw(st.integers(1, 255))
    with pytest.raises(ImageError):
        parse(WHOLE[:at] + bytes([WHOLE[at] ^ other]) + WHOLE[at + 1 :], 'fpga')


@given(
    oem=st.binary(max_size=40),
    firmware=st.binary(min_size=1, max_size=90),
    described=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=21),
    over=st.sampled_from([3, 34]),
)
def test_what_was_written_is_read(oem, firmware, described, over):
    """The tests' encoder and the parser are inverse."""
    found = parse(image(prepare(2), upload(2, firmware, described=described.encode(), over=over), oem=oem), 'x')
    assert (oem, described, firmware) == (found.oem, found.uploads[0].described, found.uploads[0].firmware)


def test_a_description_cannot_speak_to_the_terminal():
    """Its bytes are the image maker's."""
    assert '\ufffd[2Jevil' == parse(image(upload(4, b'x', described=b'\x1b[2Jevil\0rest')), 'x').uploads[0].described


class Watched(io.BytesIO):
    """How many bytes are read at a time."""

    most = 0

    def read(self, size=-1, /):
        found = super().read(size)
        self.most = max(self.most, len(found))
        return found


def test_an_image_is_read_where_it_lies():
    """Never more than a megabyte of it at a time, and of its firmware what is asked for: a conductor writes many at once."""
    firmware = bytes(range(256)) * 20_000
    content = image(upload(4, firmware))
    stream = Watched(content)
    found = parse(StreamedImage(stream, len(content), 'fpga'), 'fpga')
    assert 1024 * 1024 == stream.most
    (part,) = found.uploads
    whole = parse(content, 'fpga')
    assert replace(found, actions=()) == replace(whole, actions=())
    stream.most = 0
    assert (len(firmware), firmware[5000:5036], firmware[-7:]) == (
        len(part.firmware),
        part.firmware[5000:5036],
        part.firmware[-7:],
    )
    assert (36, firmware[255], b'') == (stream.most, part.firmware[255], part.firmware[9:3])


def test_an_image_that_becomes_shorter_is_told_by_its_name():
    """Its copy is ours alone; what reads less than it has is not sent all the same."""
    content = image(upload(4, FIRMWARE))
    stream = io.BytesIO(content)
    found = parse(StreamedImage(stream, len(content), 'fpga'), 'fpga')
    stream.truncate(len(content) - 40)
    with pytest.raises(ImageError, match='image fpga: is shorter than when it was checked'):
        found.uploads[0].firmware[:]

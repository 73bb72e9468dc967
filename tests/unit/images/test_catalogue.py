# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a catalogue says, key by key, and what is told when it is wrong."""

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.images import catalogue
from baremetal_acc.model.image import DigestAlgorithm, Fit, ImageKind
from baremetal_acc.model.lock import ResetKind

FIRMWARE = f"""\
format = 1
[[image]]
name = "gpu-2"
kind = "firmware"
fits = [{{ pci = "0x10DE:0x2330" }}, {{ vendor = "NVIDIA", model = "H200", part_number = "9", software_id = "0x20" }}]
component = "HGX_FW_GPU_*"
version = "96.00"
security_version = 3
source = "images/gpu.bin"
size = 1000
digest = "SHA256:{'A1' * 32}"
apply = {{ reset = "power-cycle", order = 10 }}
restore = "none"
"""

FUNCTION = f"""\
[[image]]
name = "gzip-3"
kind = "function"
fits = [{{ model = "D5005" }}]
component = "Slot*"
version = "3"
security_version = 0
source = "/images/gzip.gbs"
size = 1
digest = "sha512:{'b2' * 64}"
function = "gzip"
uuid = "3D2F7A1C-7D0E-5B52-9D52-3F1F0B8A8F11"
"""


def parse(text: str):
    return catalogue.parse(text, '/etc/x/catalogue.toml')


@pytest.mark.parametrize('reset', ['bmc-reset', 'system-reset', 'aux-power-cycle', 'ac-power-cycle'])
def test_an_image_comes_in_force_as_its_maker_says(reset):
    """Also by a restart of the BMC, and by the loss of standby power."""
    (image,) = parse(FIRMWARE.replace('"power-cycle"', f'"{reset}"'))
    assert ResetKind(reset) is image.reset


def test_every_key_is_understood():
    """Sources are relative to the catalogue, hexadecimal is lower case, and what is left out has its default."""
    firmware, function = parse(FIRMWARE + FUNCTION)
    assert (ImageKind.FIRMWARE, 'gpu-2', 'HGX_FW_GPU_*', '96.00', 3, '/etc/x/images/gpu.bin', 1000) == (
        firmware.kind,
        firmware.name,
        firmware.component,
        firmware.version,
        firmware.security_version,
        firmware.source,
        firmware.size_bytes,
    )
    assert (Fit(pci='0x10de:0x2330'), Fit(vendor='NVIDIA', model='H200', part_number='9', software_id='0x20')) == firmware.fits
    assert f'sha256:{"a1" * 32}' == str(firmware.digest)
    assert (ResetKind.POWER_CYCLE, 10, None) == (firmware.reset, firmware.order, firmware.restore)
    assert ('gzip', '3d2f7a1c-7d0e-5b52-9d52-3f1f0b8a8f11') == (function.function, function.uuid)
    assert DigestAlgorithm.SHA512 is function.digest.algorithm
    assert (ResetKind.NONE, 0, '/images/gzip.gbs') == (function.reset, function.order, function.source)


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'says'),
    [
        ('security_version', 'securty_version', 8, 'image[0].securty_version: no such key (did you mean security_version?)'),
        ('digest = "SHA256:', 'digest = "', 11, 'names no algorithm (write it as "sha256:..." or "sha512:...")'),
        ('digest = "SHA256:', 'digest = "md5:', 11, "'md5' is none of sha256, sha512"),
        ('digest = "SHA256:', 'digest = "sha512:', 11, '128 hexadecimal digits expected for sha512'),
        ('A1A1"', 'A1AZ"', 11, '64 hexadecimal digits expected for sha256'),
        ('kind = "firmware"', 'kind = "function"', 2, 'function is missing'),
        ('restore = "none"', '', 2, 'restore is missing: name the image to restore, or write "none"'),
        ('restore = "none"', 'restore = "gpu-1"', 13, "no image is called 'gpu-1' (did you mean gpu-2?)"),
        ('restore = "none"', 'restore = "gpu-2"', 13, "'gpu-2' is not another firmware image"),
        ('restore = "none"', 'restore = "none"\nfunction = "x"', 14, 'is for images of kind "function" only'),
        ('fits = [', 'fits = [{}, ', 5, 'has no id: the image would fit every device'),
        ('pci = "0x10DE:0x2330"', 'pci = "10de:2330"', 5, "'10de:2330' is not a pair of vendor and device id"),
        ('pci = "0x10DE:0x2330"', 'subsystem = "16c1"', 5, "subsystem: '16c1' is not a pair of vendor and device id"),
        ('size = 1000', 'size = 0', 10, '0 is less than 1'),
        (
            'source = "images',
            'source = "ftp://x',
            9,
            "URL scheme 'ftp' is not supported: name a file, or a URL of http",
        ),
        ('source = "images', 'source = "https://u:geheim@x', 9, 'is not a plain URL like https://HOST[:PORT]/PATH'),
        ('source = "images', 'source = "https://x:99999', 9, 'has an invalid host or port'),
        ('size = 1000', 'size = 9223372036854775808', 10, 'more than 9223372036854775807'),
        ('HGX_FW_GPU_*', 'G' * 201, 6, 'longer than 200 characters'),
        ('kind = "firmware"', 'kind = "revocation"\nfunction = "x"', 5, 'is for images of kind "function" only'),
        ('order = 10 }', 'via = ["96.00"] }', 12, "via contains '96.00', the version of the image itself"),
        ('order = 10 }', 'via = [""] }', 12, 'list of texts expected'),
        ('format = 1', 'format = 1\nserial = -1', 2, '-1 is less than 0'),
        ('format = 1', 'format = 1\nserial = 9007199254740993', 2, 'more than 9007199254740992'),
        ('format = 1', 'format = 1\nexpires = "2027-01-31"', 2, 'date and time of UTC expected (write it without quotes, as'),
        ('format = 1', 'format = 1\nexpires = 2027-01-31', 2, 'date and time of UTC expected'),
        ('format = 1', 'format = 1\nexpires = 2027-01-31T00:00:00', 2, 'date and time of UTC expected'),
        ('format = 1', 'format = 1\nexpires = 0001-01-01T00:00:00+01:00', 2, 'is out of range'),
        ('format = 1', 'format = 1\nexpire = 2027-01-31T00:00:00Z', 2, 'expire: no such key (did you mean expires?)'),
        ('reset = "power-cycle"', 'reset = "reboot"', 12, "'reboot' is none of none, bmc-reset, system-reset, power-cycle"),
        ('name = "gpu-2"', 'name = "../gpu"', 3, "'../gpu' is not a valid name"),
        ('size = 1000', '', 2, 'size is missing'),
        ('version = "96.00"', '', 2, 'version is missing'),
    ],
)
def test_what_is_wrong_is_told_by_line(old, new, line, says):
    """File, line, place, and the nearest word where one was misspelt; a forgotten key is told at its image."""
    assert 1 == FIRMWARE.count(old)
    with pytest.raises(DocumentError) as caught:
        parse(FIRMWARE.replace(old, new))
    assert says in str(caught.value)
    assert line == caught.value.line


def test_fits_is_never_left_out():
    """An image that fits nothing in particular could be written to anything."""
    lines = [line for line in FIRMWARE.splitlines() if not line.startswith('fits')]
    with pytest.raises(DocumentError, match='fits is missing'):
        parse('\n'.join(lines))


def test_names_are_unique():
    """A plan that names an image means one."""
    with pytest.raises(DocumentError, match="two images are called 'gpu-2'"):
        parse(FIRMWARE + FIRMWARE.removeprefix('format = 1\n'))


def test_a_function_is_no_way_back_for_firmware():
    """The two kinds never mix."""
    with pytest.raises(DocumentError, match="'gzip-3' is not another firmware image"):
        parse(FIRMWARE.replace('"none"', '"gzip-3"') + FUNCTION)


def test_a_uuid_is_one():
    """Else nothing would ever be in play."""
    with pytest.raises(DocumentError, match="'3D2F' is not a UUID"):
        parse(FIRMWARE + FUNCTION.replace('3D2F7A1C-7D0E-5B52-9D52-3F1F0B8A8F11', '3D2F'))


@pytest.mark.parametrize(
    ('old', 'new', 'says'),
    [
        ('name = "gpu-2"', f'name = "{"a" * 5000}"', 'at most 100'),
        ('kind = "firmware"', f'kind = "{"a" * 5000}"', 'is none of firmware, function, revocation'),
        ('size = 1000', f'size = 1000\n{"a" * 5000} = 1', 'no such key'),
        ('pci = "0x10DE:0x2330"', f'pci = "{"a" * 5000}"', 'is not a pair of vendor and device id'),
    ],
)
def test_a_message_is_never_as_long_as_what_is_wrong(old, new, says):
    """It goes into logs and into a node's last_error; how it ends is what the reader needs."""
    with pytest.raises(DocumentError, match=says) as caught:
        parse(FIRMWARE.replace(old, new))
    assert len(str(caught.value)) < 1000


def test_a_serial_that_nobody_could_follow_is_no_serial():
    """Who signed it once, with a key that was withdrawn since, would lock out all that count on from where they were."""
    assert 2**53 == catalogue.read(FIRMWARE.replace('format = 1\n', f'format = 1\nserial = {2**53}\n'), 'c.toml').serial
    with pytest.raises(DocumentError, match='serial: more than 9007199254740992'):
        catalogue.read(FIRMWARE.replace('format = 1\n', f'format = 1\nserial = {2**53 + 1}\n'), 'c.toml')

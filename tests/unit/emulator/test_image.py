# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image of the emulator is checked for integrity, and for the model and component that it is for."""

import hashlib

import pytest

from baremetal_acc.emulator.image import (
    BadImage,
    ImageFormat,
    ImageReader,
    build_image,
    main,
    read_image,
    size_in_bytes,
)
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction, build_upgrade_image


def gpu_image(**changes: object) -> bytes:
    given = {'model': 'h100', 'component': 'gpu', 'version': '2.0.0', 'size_bytes': 1000} | changes
    return build_image(**given)  # type: ignore[arg-type]


def test_what_is_built_is_read_again():
    """encode and parse are a pair, for both kinds of image."""
    data = gpu_image(security_version=7)
    image = read_image(data)
    assert (ImageFormat.FIRMWARE, 'h100', 'gpu', '2.0.0', 7) == (
        image.kind,
        image.device,
        image.component,
        image.version,
        image.security_version,
    )
    assert f'sha256:{hashlib.sha256(data).hexdigest()}' == image.digest

    function = read_image(
        build_image(kind='function', model='d5005', component='slot', version='1.4', function='aes', function_type='Encryption')
    )
    assert (ImageFormat.FUNCTION, 'aes', 'Encryption') == (function.kind, function.function, function.function_type)


def test_the_same_arguments_give_the_same_bytes_and_another_seed_gives_others():
    """A catalogue can hold the digest of an image that is built when it is needed."""
    assert gpu_image() == gpu_image()
    assert gpu_image() != gpu_image(seed='another')


def test_an_image_is_read_the_same_in_chunks_of_any_size():
    """The BMC streams: what a chunk is must not matter."""
    data = gpu_image()
    for size in (1, 7, 32, 33, 999):
        reader = ImageReader()
        for start in range(0, len(data), size):
            reader.feed(data[start : start + size])
        assert read_image(data) == reader.finish(), size


@pytest.mark.parametrize(
    ('damage', 'words'),
    [
        (lambda data: b'PK\x03\x04' + data, 'magic line'),
        (lambda data: data[:-1], 'trailer'),
        (lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:], 'trailer'),
        (lambda data: b'', 'magic line'),
        (lambda data: data[:20], 'no end'),
        (lambda data: data[:16] + b'x' * 10000, 'no end'),
    ],
)
def test_a_damaged_image_is_refused_and_says_why(damage, words):
    """Wrong magic, cut, one bit changed, empty, no header."""
    with pytest.raises(BadImage, match=words):
        read_image(damage(gpu_image()))


def test_a_header_that_lies_about_its_length_is_refused():
    """A right trailer does not excuse a payload of another length."""
    data = gpu_image().replace(b'"payload_bytes": 1000', b'"payload_bytes": 1001')
    body = data[:-32]
    with pytest.raises(BadImage, match='says'):
        read_image(body + hashlib.sha256(body).digest())


def test_a_firmware_image_carries_no_function_and_a_function_image_needs_one():
    """Firmware and function are two things."""
    with pytest.raises(ValueError, match='no function'):
        gpu_image(function='aes')
    with pytest.raises(ValueError, match='name of its function'):
        build_image(kind='function', model='d5005', component='slot', version='1')
    with pytest.raises(ValueError, match='unknown function type'):
        build_image(kind='function', model='d5005', component='slot', version='1', function='x', function_type='Magic')


def test_sizes_have_units():
    """300KiB is 300 times 1024."""
    assert [307200, 2097152, 5] == [size_in_bytes('300KiB'), size_in_bytes('2MiB'), size_in_bytes('5')]
    with pytest.raises(ValueError):
        size_in_bytes('300KB')


def test_the_command_line_builds_an_image_and_shows_it(tmp_path, capsys):
    """build writes the file and prints its digest; show prints the header; a file that is no image gives exit code 1."""
    out = tmp_path / 'gpu.img'
    arguments = ['build', '--model', 'h100', '--component', 'gpu', '--version', '2.0.0', '--size', '1KiB', '--out', str(out)]
    assert 0 == main(arguments)
    assert read_image(out.read_bytes()).digest in capsys.readouterr().out
    assert 0 == main(['show', str(out)])
    assert '"version": "2.0.0"' in capsys.readouterr().out
    out.write_bytes(b'no image')
    assert 1 == main(['show', str(out)])
    assert 'magic line' in capsys.readouterr().err


def test_the_command_line_builds_an_upgrade_image_of_hpm(tmp_path, capsys):
    """The same image inside; it is for the given controller, and the version is told as HPM.1 tells it."""
    out = tmp_path / 'fpga.hpm'
    words = [
        'build',
        '--model',
        'd5005',
        '--component',
        'fpga',
        '--version',
        '2.1.4',
        '--size',
        '1KiB',
        '--out',
        str(out),
        '--hpm',
    ]
    assert 0 == main([*words, '--device-id', '0x21', '--manufacturer', '7154', '--product', '0xBAD', '--number', '3'])
    data = build_image(model='d5005', component='fpga', version='2.1.4', size_bytes=1024)
    inside = UploadAction(component=3, version='2.1.4', data=data, description='FPGA')
    assert build_upgrade_image([inside], device_id=0x21, manufacturer=7154, product=0xBAD) == out.read_bytes()
    said = capsys.readouterr().out
    assert f'size {len(out.read_bytes())}, for component 3 of device 21h, version over IPMI 2.01.04000000' in said


@pytest.mark.parametrize(
    ('words', 'reason'),
    [
        (['--version', '2.x'], "'2.x' is not an HPM.1 version"),
        (['--version', '2.0', '--device-id', '256'], '256 is not a number from 0 to 255'),
        (['--version', '2.0', '--number', 'one'], 'one is not a number from 0 to 7'),
    ],
)
def test_no_upgrade_image_is_built_of_what_hpm_cannot_tell(tmp_path, capsys, words, reason):
    """Exit code 2, what is wrong, and no file."""
    out = tmp_path / 'x'
    with pytest.raises(SystemExit, match='2'):
        main(['build', '--model', 'd5005', '--component', 'fpga', '--hpm', '--out', str(out), *words])
    assert (True, False) == (reason in capsys.readouterr().err, out.exists())

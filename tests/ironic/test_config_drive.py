# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The tenant finds the certificate in the config drive, where the operator wants that; the rest of the drive stays as it is."""

import base64
import gzip
import io
import json
import resource
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pycdlib
import pytest

from baremetal_acc_ironic.state import config_drive, config_drive_image

FILE = '/openstack/latest/vendor_data2.json'
GENUINE = (Path(__file__).parent / 'config_drives' / 'genisoimage.b64').read_text().replace('\n', '')
"""Made by genisoimage 1.1.11 with the arguments that Nova gives it (nova/virt/configdrive.py)."""


def packed(image: bytes) -> str:
    """As Nova sends it to Ironic."""
    return base64.b64encode(gzip.compress(image)).decode()


def image_of(files: dict[str, bytes], *, rock_ridge: str | None = '1.09', joliet: int | None = 3) -> str:
    """A config drive with these files in openstack/latest."""
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=4, rock_ridge=rock_ridge, joliet=joliet, vol_ident='config-2')
    for folder in ('/openstack', '/openstack/latest'):
        names = {'rr_name': folder.rpartition('/')[2]} if rock_ridge else {}
        iso.add_directory(folder, **names, **({'joliet_path': folder} if joliet else {}))
    for name, data in files.items():
        path = f'/openstack/latest/{name}'
        names = {'rr_name': name} if rock_ridge else {}
        iso.add_fp(io.BytesIO(data), len(data), path, **names, **({'joliet_path': path} if joliet else {}))
    made = io.BytesIO()
    iso.write_fp(made)
    iso.close()
    return packed(made.getvalue())


def files_of(drive: str, names: str = 'rr_path') -> dict[str, bytes]:
    """The files of a config drive, by their Rock Ridge or Joliet names."""
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(gzip.decompress(base64.b64decode(drive))))
    assert b'config-2' == iso.pvd.volume_identifier.strip()
    found = {}
    for folder, _, files in iso.walk(**{names: '/'}):
        for name in files:
            path, out = f'{folder.rstrip("/")}/{name}', io.BytesIO()
            iso.get_file_from_iso_fp(out, **{names: path})
            found[path] = out.getvalue()
    iso.close()
    return found


@pytest.mark.parametrize('names', ['rr_path', 'joliet_path'])
@pytest.mark.parametrize(
    'drive',
    [
        GENUINE,
        image_of({'meta_data.json': b'{"uuid": "x"}'}),
        image_of({'vendor_data2.json': b'{"cloud-init": {"a": 1}}', 'user_data': b'#!/bin/sh\n'}),
    ],
    ids=['genisoimage', 'without vendor data', 'with vendor data'],
)
def test_the_certificate_is_in_the_vendor_data_and_all_other_files_are_as_before(drive, names):
    """Under both kinds of names; the next certificate takes the place of the one before."""
    before = files_of(drive, names)
    vendor_data = json.loads(before.pop(FILE, b'{}'))
    for text in (b'first', b'second' * 1000):
        drive = config_drive.with_certificate(drive, text)
        after = files_of(drive, names)
        assert {**vendor_data, 'baremetal_acc': {'certificate': text.decode()}} == json.loads(after.pop(FILE))
        assert before == after


def test_an_image_without_joliet_names_gets_it():
    """Linux reads Rock Ridge names."""
    drive = config_drive.with_certificate(image_of({'vendor_data2.json': b'{}'}, joliet=None), b'text')
    assert b'{"baremetal_acc": {"certificate": "text"}}' == files_of(drive)[FILE]


def test_an_object_of_which_ironic_builds_the_drive_gets_it():
    """With what the vendor data had; the object that was given stays as it was."""
    for given in ({}, {'vendor_data': None}, {'meta_data': {'a': 1}, 'vendor_data': {'b': 2}}):
        before = json.loads(json.dumps(given))
        found = config_drive.with_certificate(given, b'text')
        assert before == given
        entry = {**(given.get('vendor_data') or {}), 'baremetal_acc': {'certificate': 'text'}}
        assert {**given, 'vendor_data': entry} == found


def _cut(image: bytes, length: int) -> str:
    return packed(image[:length])


WHOLE = gzip.decompress(base64.b64decode(GENUINE))

HOSTILE: dict[str, Any] = {
    'a URL': 'https://swift/configdrive',
    'a number': 7,
    'a list': [],
    'no base64': '!',
    'no ASCII': 'é',
    'no gzip': base64.b64encode(WHOLE[:100]).decode(),
    'cut gzip': base64.b64encode(gzip.compress(WHOLE)[:-200]).decode(),
    'nothing in gzip': packed(b''),
    'zeros': packed(bytes(400_000)),
    'more than is read': packed(bytes(config_drive_image.MAX_ISO + 1)),
    'a FAT image': packed(b'\xeb\x3c\x90mkfs.fat' + bytes(100_000)),
    'an image that ends in its header': _cut(WHOLE, 33_000),
    'an image that ends in its folders': _cut(WHOLE, 50_000),
    'no Rock Ridge names': image_of({'VENDOR_D.;1': b'{}'}, rock_ridge=None),
    'vendor data that is a list': image_of({'vendor_data2.json': b'[]'}),
    'vendor data that is no JSON': image_of({'vendor_data2.json': b'{'}),
    'vendor data that is no UTF-8': image_of({'vendor_data2.json': b'{"a": "\xff"}'}),
    'vendor data that is deep': image_of({'vendor_data2.json': b'[' * 100_000}),
    'vendor data that is long': image_of({'vendor_data2.json': b'{"a": "' + b'x' * 5_000_000 + b'"}'}),
    'another file with our name': image_of({'BMACCVD2.JSN;1': b'x'}),
    'vendor data of an object that is a list': {'vendor_data': ['x']},
}


@pytest.mark.parametrize('drive', HOSTILE.values(), ids=HOSTILE)
def test_what_cannot_be_read_stays_as_it_is(drive):
    """The drive is the tenant's: a reason without any content of it."""
    with pytest.raises(config_drive.NotChanged) as caught:
        config_drive.with_certificate(drive, b'text')
    assert str(caught.value).startswith(('it is', 'it has', 'its vendor_data2.json is', 'what was read back'))
    assert len(str(caught.value)) < 100


def test_no_flipped_bit_of_an_image_raises_anything_else():
    """A sample of the bytes of its headers, folders and path tables: where sizes and places of everything are."""
    for position in range(32_768, 60_000, 1_361):
        changed = bytearray(WHOLE)
        changed[position] ^= 0x5A
        try:
            found = config_drive_image.changed(bytes(changed), {'certificate': 'text'})
        except config_drive.NotChanged:
            continue
        assert isinstance(found, bytes)


def test_an_image_that_claims_to_be_huge_fills_no_memory():
    """The size of its volume: 4 bytes at 80 of the primary volume descriptor, in both orders of bytes."""
    changed = bytearray(WHOLE)
    at = 16 * 2048 + 80
    changed[at : at + 8] = (2**31).to_bytes(4, 'little') + (2**31).to_bytes(4, 'big')
    with pytest.raises(config_drive.NotChanged, match='too large'):
        config_drive.with_certificate(packed(bytes(changed)), b'text')


def both_orders(number: int) -> bytes:
    """As numbers are in ISO 9660 (ECMA-119, 7.3.3)."""
    return number.to_bytes(4, 'little') + number.to_bytes(4, 'big')


def crowded(files: int) -> bytes:
    """An image whose root has so many empty files."""

    def record(name: bytes, flags: int = 0, size: int = 0) -> bytes:
        body = both_orders(at) + both_orders(size) + bytes(7) + bytes([flags, 0, 0, 1, 0, 0, 1, len(name)]) + name
        body += bytes(len(body) % 2)
        return bytes([len(body) + 2, 0]) + body

    at = -(-len(WHOLE) // 2048)
    records = [record(b'\0', 2, 2048), record(b'\1', 2, 2048), *(record(b'F%07d.;1' % n) for n in range(files))]
    each = 2048 // len(records[-1])
    folder = b''.join(b''.join(records[n : n + each]).ljust(2048, b'\0') for n in range(0, len(records), each))
    image = bytearray(WHOLE.ljust(at * 2048, b'\0') + folder)
    root = 16 * 2048 + 156
    image[root + 2 : root + 18] = both_orders(at) + both_orders(len(folder))
    return bytes(image)


def test_an_image_that_is_made_to_be_read_for_minutes_is_given_up(monkeypatch):
    """It has more files than can be read in that time, and gzip makes next to nothing of them.

    The conductor waits for a process with a limit, and does not read it itself.
    """
    monkeypatch.setattr(config_drive, 'CPU_SECONDS', 1)
    before, spent = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with pytest.raises(config_drive.NotChanged, match='it takes more than 1 s to read'):
        config_drive.with_certificate(packed(crowded(250_000)), b'text')
    assert time.process_time() - before < 3
    assert 0.5 < resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - spent < 3


def test_an_image_that_needs_more_memory_than_allowed_is_given_up(monkeypatch):
    """An honest one stands for it: the conductor keeps its memory."""
    monkeypatch.setattr(config_drive, 'MEMORY_BYTES', 110 * 1024 * 1024)
    with pytest.raises(config_drive.NotChanged, match='it takes too much memory to read'):
        config_drive.with_certificate(image_of({'user_data': bytes(60_000_000)}), b'text')


def test_the_largest_honest_image_is_changed_within_the_limits():
    """A config drive of Ironic's agent has at most 64 MiB."""
    drive = image_of({'user_data': bytes(60_000_000)})
    assert b'text' in files_of(config_drive.with_certificate(drive, b'text'))[FILE]


def test_where_the_program_cannot_be_run_the_drive_stays_as_it_is(monkeypatch):
    """Such as in a service that may start no processes."""
    monkeypatch.setattr(config_drive.processutils, 'execute', mock.Mock(side_effect=PermissionError(13, 'Permission denied')))
    with pytest.raises(config_drive.NotChanged, match=r'the program that changes it cannot be run \(Permission denied\)'):
        config_drive.with_certificate(GENUINE, b'text')
    monkeypatch.undo()
    monkeypatch.setattr(config_drive.sys, 'executable', '/bin/false')
    with pytest.raises(config_drive.NotChanged, match='the program that changes it has failed with exit code 1'):
        config_drive.with_certificate(GENUINE, b'text')


class _Node:
    """As much of a node as is needed."""

    uuid = '1be26c0b-03f2-4d2e-ae87-c02d7f33c123'
    reservation = None
    saved = 0

    def __init__(self, drive: Any) -> None:
        self.instance_info = {'image_source': 'x', 'configdrive': drive}

    def save(self) -> None:
        """Count it."""
        self.saved += 1


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The option is set; what the history of the node is told."""
    told: list[str] = []
    monkeypatch.setattr(config_drive.settings, 'guest', lambda: SimpleNamespace(certificate_config_drive=True))
    monkeypatch.setattr(config_drive.provision_state, 'told', lambda node, event: told.append(event))
    return told


def test_a_node_gets_it_into_the_drive_that_it_has(wanted):
    """And keeps whatever else its instance has; test_certificate.py deploys one."""
    node = _Node({'meta_data': {}})
    config_drive.hand_over(node, b'text')
    drive = {'meta_data': {}, 'vendor_data': {'baremetal_acc': {'certificate': 'text'}}}
    assert (1, {'image_source': 'x', 'configdrive': drive}) == (node.saved, node.instance_info)
    assert [] == wanted


@pytest.mark.parametrize('drive', [None, '', {}])
def test_a_node_without_a_drive_gets_none(wanted, drive):
    """A partition more on its disk would be a change that nobody has asked for."""
    node = _Node(drive)
    config_drive.hand_over(node, b'text')
    assert (0, drive, []) == (node.saved, node.instance_info['configdrive'], wanted)


def test_a_drive_that_cannot_be_changed_is_told_of(wanted):
    """The deploy goes on."""
    node = _Node('https://swift/x')
    config_drive.hand_over(node, b'text')
    assert (0, 'https://swift/x') == (node.saved, node.instance_info['configdrive'])
    why = 'it is stored in an object store'
    assert [f'the hand-over certificate is not in the config drive, which stays as it is: {why}'] == wanted


def test_without_the_option_no_drive_is_changed(wanted, monkeypatch):
    """It is off by default."""
    monkeypatch.setattr(config_drive.settings, 'guest', lambda: SimpleNamespace(certificate_config_drive=False))
    node = _Node(GENUINE)
    config_drive.hand_over(node, b'text')
    assert (0, GENUINE, []) == (node.saved, node.instance_info['configdrive'], wanted)

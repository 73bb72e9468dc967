# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A PLDM package is shown as its header says, in a document of its schema; a draft is printed, or written into a new file."""

import hashlib
import io
import json
import os
import random
from types import SimpleNamespace

import jsonschema
import pytest

from baremetal_acc.cli.commands import package
from baremetal_acc.errors import DocumentError, PackageMalformed, UsageError
from baremetal_acc.images import catalogue, pldm_package
from tests.malicious import pldm_packages
from tests.unit.images.test_draft import FILLED
from tests.unit.images.test_pldm_package import V1_0, V1_1, VECTORS


@pytest.fixture
def add():
    """Run the command, and return what it prints."""

    def run(*arguments: str) -> str:
        out = io.StringIO()
        command = package.CatalogueAddCommand(SimpleNamespace(stdout=out), None)
        assert 0 == command.take_action(command.get_parser('add').parse_args(list(arguments)))
        return out.getvalue()

    return run


def test_every_package_is_shown_in_a_document_of_its_schema(tree, tmp_path):
    """Each vector, and random ones: no key too many, none too few, and the digest of the very file."""
    schema = json.loads((tree / 'doc/source/schemas/package.json').read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    path = tmp_path / 'tray.fwpkg'
    for data in (*VECTORS.values(), *(pldm_packages.built(random.Random(number)) for number in range(30))):
        path.write_bytes(data)
        report = package.report(path)
        jsonschema.Draft202012Validator(_closed(schema)).validate(report.document)
        assert report.document is not None
        assert f'sha256:{hashlib.sha256(data).hexdigest()}' == report.document['package']['digest']
        parts = ('devices', 'downstream_devices', 'components')
        assert 1 + sum(len(report.document[part]) for part in parts) == len(report.rows)
        assert all(len(report.columns) == len(row) for row in report.rows)


def _closed(schema):
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _closed(value) for key, value in schema.items()}
    return inner | {'additionalProperties': False} if 'properties' in inner and inner.get('type') == 'object' else inner


def test_what_is_shown_is_what_the_header_says(tmp_path):
    """Ids, options and sizes by their words."""
    path = tmp_path / 'tray.fwpkg'
    path.write_bytes(V1_0 + b'signature')
    document = package.report(path).document
    assert document is not None
    whole = document['package']
    assert ('1.0', '1.0', '2025-06-30T13:45:59.123456+01:00', 9) == (
        whole['specification'],
        whole['version'],
        whole['released'],
        whole['bytes_behind_images'],
    )
    (device,) = document['devices']
    ids = [(one['type'], one['value']) for one in device['descriptors']]
    assert [('pci-vendor-id', '0xabcd'), ('pci-device-id', '0x1234')] == ids
    assert (['continue-after-failure'], [0, 1], 2) == (device['options'], device['components'], device['package_data'])
    second = document['components'][1]
    assert (200, 'v2', 'other', 5) == tuple(second[k] for k in ('identifier', 'version', 'classification', 'comparison_stamp'))
    assert (['force-update', 'use-comparison-stamp'], ['dc-power-cycle']) == (second['options'], second['activation'])
    path.write_bytes(V1_1)
    document = package.report(path).document
    assert document is not None
    assert [{'type': '0x0008', 'title': None, 'value': bytes(range(15)).hex()}] == document['devices'][0]['descriptors']
    assert ('7', 7) == tuple(document['downstream_devices'][0][key] for key in ('min_version', 'min_version_stamp'))


def test_a_package_is_known_by_its_name_or_its_first_bytes(tmp_path):
    """A catalogue stays a catalogue, and what cannot be read is told by whoever reads it."""
    (tmp_path / 'a.bin').write_bytes(V1_0)
    (tmp_path / 'catalogue.toml').write_text('format = 1\n')
    os.mkfifo(tmp_path / 'pipe')
    assert package.is_one(tmp_path / 'a.bin')
    assert package.is_one(tmp_path / 'nothing.fwpkg')
    for name in ('catalogue.toml', 'pipe', 'nothing', '.'):
        assert not package.is_one(tmp_path / name)
    assert not pldm_package.begins_as_one(b'')


def test_what_is_no_package_is_refused(tmp_path):
    """By what is wrong with it; a pipe holds nobody."""
    path = tmp_path / 'tray.fwpkg'
    with pytest.raises(DocumentError, match='cannot be read: No such file'):
        package.report(path)
    os.mkfifo(path)
    with pytest.raises(DocumentError, match='is not a regular file'):
        package.report(path)
    path.unlink()
    path.write_bytes(V1_0[:100])
    with pytest.raises(PackageMalformed, match='PackageHeaderSize at byte 17: 127'):
        package.report(path)


def test_drafts_are_printed(tmp_path, add, capsys):
    """A bundle of all components, or an image of the one that is named; and what signs them."""
    path = tmp_path / 'tray.fwpkg'
    path.write_bytes(V1_0)
    printed = add(str(path))
    for old, new in FILLED:
        printed = printed.replace(old, new)
    images = catalogue.parse('format = 1\n' + printed, str(tmp_path / 'catalogue.toml'))
    assert [('tray.0x0064', 'v1', 100), ('tray.0x00c8', 'v2', 200)] == [(i.name, i.version, i.identifier) for i in images]
    assert 1 == len({image.bundle for image in images})
    assert {str(path)} == {image.source for image in images}
    assert 'baremetal-acc catalogue sign catalogue.toml --key FILE' in capsys.readouterr().err
    assert ['name = "tray-200"'] == [x for x in add(str(path), '--component', '200').splitlines() if x.startswith('name')]
    assert 'source = "images/x.fwpkg"' in add(str(path), '--source', 'images/x.fwpkg')
    with pytest.raises(UsageError, match=r'has no component 7 \(100, 200\)'):
        add(str(path), '--component', '7')


def test_a_catalogue_that_is_there_is_never_changed(tmp_path, add):
    """A new file is written whole; one that is there, or a link to nowhere, is refused and stays as it is."""
    path, new, link = tmp_path / 'tray.fwpkg', tmp_path / 'new.toml', tmp_path / 'link.toml'
    path.write_bytes(V1_0)
    assert '' == add(str(path), '--output', str(new))
    before = new.read_bytes()
    assert before.startswith(b'format = 1\n')
    link.symlink_to(tmp_path / 'nowhere')
    for there in (new, link):
        with pytest.raises(UsageError, match=r'exists already \(name a new file'):
            add(str(path), '--output', str(there))
    assert before == new.read_bytes()
    with pytest.raises(UsageError, match='cannot be written: No such file'):
        add(str(path), '--output', str(tmp_path / 'nowhere' / 'x'))

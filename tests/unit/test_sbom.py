# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The SBOM is valid CycloneDX 1.6 and says what the lock files say; the wheel and the sdist have it (test_packaging.py)."""

import configparser
import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tools import bounds, lock, sbom


@pytest.fixture(scope='module')
def document():
    """The file of the tree."""
    return json.loads(sbom.SBOM.read_text(encoding='utf-8'))


def components(document):
    """The components by name."""
    found = {one['name']: one for one in document['components']}
    assert len(found) == len(document['components'])
    return found


def test_it_is_valid():
    """By the schema of CycloneDX 1.6, which refuses unknown members."""
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    text = sbom.SBOM.read_text(encoding='utf-8')
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"type": "library"', '"type": "libary"', 1)) is not None


def test_it_is_what_the_tool_writes():
    """For what is installed here; it has no time and no random number, so that equal dependencies give an equal file."""
    assert sbom.document() == sbom.SBOM.read_text(encoding='utf-8'), 'nox -s sbom'


def test_it_is_about_this_version(document, tree):
    """The component that it describes."""
    config = configparser.ConfigParser()
    config.read(tree / 'setup.cfg', encoding='utf-8')
    version = config['metadata']['version']
    said = document['metadata']['component']
    assert ('baremetal-acc', version, f'pkg:pypi/baremetal-acc@{version}') == (said['name'], said['version'], said['purl'])


def test_each_component_is_as_locked(document):
    """Name, version, package URL and hashes, read from the lock files without the code that wrote the SBOM."""
    text = ''.join((lock.FOLDER / f'{name}.txt').read_text(encoding='utf-8') for name in ('core', 'demo'))
    found = components(document)
    assert len(found) > 100
    for name, one in found.items():
        version = one['version']
        (entry,) = (part for part in text.split('\n') if part.startswith(f'{name}=='))
        assert version == entry.removeprefix(f'{name}==').split()[0]
        assert PackageURL('pypi', name=name, version=version) == PackageURL.from_string(one['purl'])
        after = text[text.index(f'\n{name}==') + 1 :].split('\n')[1:]
        hashes = []
        for line in after:
            if not line.startswith('    --hash=sha256:'):
                break
            hashes.append(line.removeprefix('    --hash=sha256:').removesuffix(' \\'))
        (files,) = one['externalReferences']
        assert 'distribution' == files['type']
        assert sorted(hashes) == sorted(each['content'] for each in files['hashes']) != []
        assert {'SHA-256'} == {each['alg'] for each in files['hashes']}


def test_nothing_that_is_required_is_missing(document):
    """What setup.cfg names, and each reference from one component to another."""
    found = components(document)
    needs = {canonicalize_name(need.name) for need in bounds.required(lock.SETS['demo'])}
    assert needs <= {*found}
    references = {one['bom-ref']: one['name'] for one in found.values()}
    graph = {one['ref']: one.get('dependsOn', []) for one in document['dependencies']}
    root = document['metadata']['component']['bom-ref']
    assert {*graph} == {root, *references}
    assert needs == {references[one] for one in graph[root]}
    assert set() == {ref for inner in graph.values() for ref in inner} - {*references}


def test_what_the_core_needs_is_required_and_the_rest_is_optional(document):
    """A scanner of an installation without Ironic can leave out what is optional."""
    text = (lock.FOLDER / 'core.txt').read_text(encoding='utf-8')
    core = {canonicalize_name(Requirement(line.split(' ')[0]).name) for line in text.split('\n') if '==' in line}
    found = components(document)
    required = {name for name, one in found.items() if one['scope'] == 'required'}
    assert {'sushy', 'cliff', 'cryptography'} <= required <= core
    assert 'optional' == found['ironic']['scope']
    assert core - {*lock.BUILD, 'packaging'} <= required, 'wheel alone needs packaging'

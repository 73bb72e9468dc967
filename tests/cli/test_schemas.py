# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The command's output validates against the JSON schemas of the documentation, and has no key that they do not name."""

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest

from baremetal_acc.model.inventory import UploadWay
from tests.cli.desk import RECORDINGS, Desk, target_of


def closed(schema: Any) -> Any:
    """The schema with no further keys allowed anywhere."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return inner | {'additionalProperties': False} if 'properties' in inner and inner.get('type') == 'object' else inner


@pytest.fixture
def validate(tree):
    """Check a document against the schema of that name."""

    def check(name: str, document: Any) -> None:
        schema = closed(json.loads((tree / 'doc/source/schemas' / f'{name}.json').read_text()))
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(document)

    return check


def test_documents_validate(desk: Desk, emulated_machine, validate):
    """Before, during and after the job, for targets that answer and for one that does not."""
    machine = emulated_machine('acc-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.bmcs({'node-1': target_of(machine), 'gone': target_of(machine, address='https://127.0.0.1:9')})

    def printed(*arguments: str) -> Any:
        return desk.run(*arguments, '-f', 'json').document

    validate('inventory', printed('inventory'))
    validate('verify', printed('verify', *desk.options))
    validate('custody', printed('custody', 'show', *desk.options))
    validate('plan', printed('plan', *desk.options))
    validate('plan', printed('program', 'node-1', '--slot', 'Slot0=gzip', *desk.options))
    validate('plan', printed('lock', 'node-1', *desk.options))
    validate('plan', printed('unlock', 'node-1', *desk.options))
    validate('plan', printed('apply', 'node-1', '--execute', *desk.options))
    validate('plan', printed('plan', 'node-1', *desk.options))
    validate('plan', printed('unlock', 'node-1', *desk.options))
    validate('verify', printed('verify', 'node-1', *desk.options))
    validate('custody', printed('custody', 'show', 'node-1', *desk.options))
    validate('inventory', printed('inventory', 'node-1'))
    for line in desk.run('inventory', 'node-1', '--stream').out.splitlines():
        validate('inventory', {'format': 1, 'targets': [json.loads(line)]})


def test_the_schema_has_every_way(tree):
    """And that none is told."""
    schema = json.loads((tree / 'doc/source/schemas/plan.json').read_text())
    found = schema['properties']['targets']['items']['properties']['actions']['items']['properties']['way']['enum']
    assert {*UploadWay, None} == set(found)


def test_a_schema_can_fail(validate):
    """A key too many, a key too few, and a word that is none."""
    for target in (
        {'target': 'a', 'met': True, 'findings': [], 'error': None, 'more': 1},
        {'target': 'a', 'met': True, 'findings': []},
        {'target': 'a', 'met': 'yes', 'findings': [], 'error': None},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate('verify', {'format': 1, 'targets': [target]})


@pytest.mark.parametrize('name', RECORDINGS)
def test_a_recorded_machine_agrees_with_the_truth(name, desk: Desk, emulated_recording, shared, validate):
    """The inventory of a served recording validates, and is what compare.py of the recordings expects, locks included."""
    site = emulated_recording(shared / 'recordings' / name, needs_login=False)
    bmc = site.bmcs['recording']
    done = desk.run('inventory', '--address', bmc.address, '--verify-ca', str(bmc.verify_ca), '-f', 'json')
    assert 0 == done.code, done.err
    validate('inventory', done.document)
    actual = desk.write('actual.json', done.out)
    compare = shared / 'recordings' / 'compare.py'
    expected = shared / 'recordings' / name / 'expected.yaml'
    told = subprocess.run([sys.executable, compare, expected, actual], capture_output=True, text=True, check=False)
    assert (0, 'agrees\n') == (told.returncode, told.stdout)

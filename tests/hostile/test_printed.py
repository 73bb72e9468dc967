# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every document of an inventory can be written in every output format of the command line."""

import json

import yaml

from baremetal_acc.cli.output import documents
from tests.hostile.look import known_of


def test_a_machine_with_locks_is_written_as_yaml_as_it_is_as_json(bmc):
    """What tools read is made of text, numbers, true, false, null, lists and objects alone."""
    known = known_of(bmc, 'nvidia/bluefield3', 'open')
    body = documents.inventory('hostile', known.inventory)
    assert any(a['locks'] for a in body['accelerators'])
    assert json.loads(json.dumps(body)) == yaml.safe_load(yaml.safe_dump(body))

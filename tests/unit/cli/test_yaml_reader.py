# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""TOML, YAML and JSON are read by the same accessors, and what is hostile in YAML stays small."""

import pytest

from baremetal_acc.cli import bmcs
from baremetal_acc.cli.yaml_reader import read_json, read_yaml
from baremetal_acc.errors import DocumentError
from baremetal_acc.model import toml
from baremetal_acc.policy.baseline_rules import Exposure

TOML = 'format = 1\nexposure = "service"\ntraits = ["A", "B"]\n\n[host]\naddress = "x"\nparallel = 2\n'
YAML = 'format: 1\nexposure: service\ntraits: [A, "B"]\n\nhost:\n  address: x\n  parallel: 2\n'
JSON = '{"format": 1, "exposure": "service", "traits": ["A", "B"], "host": {"address": "x", "parallel": 2}}'

DOCUMENTS = {
    'toml': toml.read(TOML, 'd', format_version=1),
    'yaml': read_yaml(YAML, 'd'),
    'json': read_json(JSON, 'd', 7),
}


@pytest.mark.parametrize('language', DOCUMENTS)
def test_a_document_reads_the_same_in_each_language(language):
    """Types, names of what is below, and what is not there."""
    document = DOCUMENTS[language]
    assert (1, Exposure.SERVICE, ('A', 'B')) == (
        document.integer('format'),
        document.choice('exposure', Exposure),
        document.strings('traits'),
    )
    host = document.table('host')
    assert ('host', 'x', 2, None) == (host.name, host.string('address'), host.integer('parallel'), host.string('owner'))
    assert {} == document.table('none').data


@pytest.mark.parametrize(('language', 'line'), [('toml', 7), ('yaml', 7), ('json', 7)])
def test_what_is_wrong_is_told_in_the_same_words(language, line):
    """By the line of its key, which for JSON is that of all of it."""
    with pytest.raises(DocumentError) as caught:
        DOCUMENTS[language].table('host').integer('parallel', minimum=3)
    assert f'd, line {line}: host.parallel: 2 is less than 3' == str(caught.value)


def test_numbers_are_taken_as_they_are_written():
    """YAML would read 017 as 15, 1_0 as 10 and 1e5 as text; none of them is meant."""
    document = read_yaml('a: 017\nb: 1_0\nc: 0x10\nd: 2024-01-01\ne: 12345678901\nf: -1\n', 'd')
    assert 17 == document.integer('a')
    for key in 'bcdef':
        with pytest.raises(DocumentError, match=rf'{key}: whole number expected, a number or a date found'):
            document.integer(key)


LAUGHS = 'a0: &a0 [x, x]\n' + ''.join(f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 10)}]\n' for n in range(1, 16))


@pytest.mark.parametrize(
    ('text', 'says'),
    [
        (LAUGHS, 'd, line 1: a0: no such key'),
        (f'{LAUGHS}format: 1\ntargets: *a15\n', 'd, line 1: a0: no such key'),
        (
            'format: 1\ntargets: &t\n  a: {traits: &l [*l, *t], redfish_address: "https://192.0.2.1"}\n',
            'list of texts expected',
        ),
        ('format: 1\ntargets:\n  a: &a {bmcs: *a}\n', 'line 3: targets.a.bmcs.bmcs.bmcs: no such key'),
        ('format: 1\ntargets:\n  a: {<<: {owner: x}}\n', 'targets.a.<<: no such key'),
        ('format: 1\ntargets:\n  a: !!python/object:os.system {}\n', 'no BMC'),
        ('format: 1\ntargets:\n  a: !!python/name:os.system\n', 'a number or a date found'),
        ('format: 1\n? [a]\n: b\n', 'line 2: a key must be a plain text'),
        (
            'format: 1\ntargets:\n  a: {owner: "hunter2\\a", redfish_address: "https://192.0.2.1"}\n',
            'line 3: targets.a.owner: holds characters that cannot be printed',
        ),
    ],
)
def test_aliases_tags_and_odd_keys_are_bounded_and_refused(text, says):
    """Unfolded, fifteen levels of ten would be more than there is memory; a tag makes no object, and no value is repeated."""
    with pytest.raises(DocumentError) as caught:
        bmcs.parse(text, 'd')
    assert says in str(caught.value)
    assert 'hunter2' not in str(caught.value)

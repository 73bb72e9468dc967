# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The help of each command ends with examples that its own parser takes. ``make soak-verbs`` runs them, too."""

import shlex
from configparser import ConfigParser

import pytest

from baremetal_acc.cli.examples import EXAMPLES
from tests.conditions.cases import parser_of

ALL = [(verb, said, words) for verb, examples in EXAMPLES.items() for said, words in examples]


def test_each_command_has_an_example(tree):
    """As setup.cfg lists the commands."""
    setup = ConfigParser()
    setup.read(tree / 'setup.cfg')
    listed = setup['options.entry_points']['baremetal_acc.cli'].strip().splitlines()
    assert {line.partition(' = ')[0] for line in listed} == set(EXAMPLES)
    assert all(EXAMPLES.values())


@pytest.mark.parametrize(('verb', 'said', 'words'), ALL, ids=[words for _, _, words in ALL])
def test_an_example_is_taken_by_its_command(verb, said, words):
    """With the real parser, which refuses what it does not know; and it is said what the example does."""
    assert words.startswith(verb)
    parser_of(verb).parse_args(shlex.split(words)[len(verb.split()) :])
    assert said[0].isupper()
    assert not said.endswith(('.', ':'))


@pytest.mark.parametrize('verb', EXAMPLES)
def test_the_help_prints_each_example_on_a_line_of_its_own(verb, monkeypatch):
    """Also on a narrow terminal: who copies a line gets the whole command."""
    monkeypatch.setenv('COLUMNS', '60')
    lines = parser_of(verb).format_help().splitlines()
    assert 'examples:' in lines
    for said, words in EXAMPLES[verb]:
        assert f'  {said}:' in lines
        assert f'    baremetal-acc {words}' in lines

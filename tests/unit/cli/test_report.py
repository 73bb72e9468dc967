# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A document is the same in every format, whatever it holds; and what was done is told, whatever becomes of its report."""

import io
import json
import math
from enum import IntEnum, StrEnum

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import report
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import AcceleratorId


class Number(IntEnum):
    """An enum whose words are numbers."""

    ONE = 1


def same(document):
    """The document in YAML, after it was seen to be what JSON is."""
    printed = json.loads(json.dumps(report.plain(document), indent=2))
    for loader in (yaml.SafeLoader, getattr(yaml, 'CSafeLoader', yaml.SafeLoader)):
        assert printed == yaml.load(report.as_yaml(document), loader)
    return printed


@pytest.mark.parametrize('word', [LockState.LOCKED_VERIFIED, Number.ONE, StrEnum('Word', ['A']).A, AcceleratorId('x')])
def test_words_of_enums_are_plain_values(word):
    """Values and keys; RepresenterError was what a locked machine gave."""
    assert {'found': [word.value if hasattr(word, 'value') else word]} == same({'found': (word,)})
    assert [str(getattr(word, 'value', word))] == list(same({word: None}))


@pytest.mark.parametrize('text', ['\ud800', 'a\udfffb', '\ud83d\ude00 \ud83d', '\x85\u2028\ufeff\x00\x1b', '=', '12:30', '1e3'])
def test_strange_texts_are_the_same_in_both(text):
    """Half a character has no UTF-8: it would be no text for whoever reads the document."""
    [found] = same([text])
    assert found.encode().decode() == found
    assert found == text or '\ufffd' in found


def test_a_part_that_is_there_twice_is_written_twice():
    """No anchors: what reads JSON knows none, and a person who copies a part loses nothing."""
    part = ['a']
    assert '&' not in report.as_yaml({'one': part, 'two': part})


PARTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.sampled_from(list(LockState)) | st.sampled_from(list(Number)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(PARTS)
def test_whatever_a_document_holds_is_the_same_in_both(part):
    """As loaded again."""
    found = same({'part': part})['part']
    assert not isinstance(found, float) or math.isfinite(found)


class Verb(report.ReportCommand):
    """Writes, and has a report that cannot be printed."""

    told = True

    def add_arguments(self, parser):
        """None."""

    def columns(self, arguments):
        """One."""
        return ('Target',)

    def work(self, arguments):
        """Done already."""
        self.worked = True
        done = ('node-1: apply has ended: failed',) if self.told else ()
        return report.Report(
            document={'x': object()},
            columns=('Target',),
            rows=(('n\u00e9-1 \ud800\x1b[m',),),
            code=Exit.WRITE_FAILED,
            done=done,
        )


@pytest.fixture
def running(monkeypatch):
    """The command in its application."""
    from baremetal_acc.cli import application, main

    def run(*arguments, told=True):
        made = []

        def find(self, argv):
            def factory(app, options, cmd_name=None):
                made.append(Verb(app, options, cmd_name))
                made[0].told = told
                return made[0]

            return factory, 'verb', argv[1:]

        monkeypatch.setattr(application._Verbs, 'find_command', find)
        return main.main(['verb', *arguments]), made[0]

    return run


@pytest.mark.parametrize('form', ['json', 'yaml'])
def test_a_report_that_cannot_be_printed_hides_nothing(running, capsys, form):
    """The outcome is told, and the code is that of the write: a defect in printing was the end of it."""
    code, _ = running('-f', form)
    assert Exit.WRITE_FAILED == code
    told = capsys.readouterr().err
    assert 'baremetal-acc: node-1: apply has ended: failed\n' in told
    assert 'internal error: TypeError' in told


def test_where_nothing_was_done_only_the_failure_is_told(running, capsys):
    """Who only read reads again."""
    code, _ = running('-f', 'yaml', told=False)
    assert Exit.OUR_FAULT == code
    assert 'has ended' not in capsys.readouterr().err


@pytest.mark.parametrize('option', ['--column', '--sort-column'])
def test_a_column_that_there_is_not_is_told_before_anything_is_done(running, capsys, option):
    """It was told after the cards had been written, with the code of a wrong argument; one to sort by was ignored."""
    code, verb = running(option, 'tarjet')
    assert Exit.USAGE == code
    assert not hasattr(verb, 'worked')
    assert f'{option}: there is no' in (said := capsys.readouterr().err)
    assert 'did you mean target?' in said


def test_a_column_is_found_whatever_its_case(running, capsys):
    """As in other clients of OpenStack, with an underscore for a space, in both options."""
    code, _ = running('-f', 'csv', '-c', 'TARGET', '--sort-column', ' target')
    assert Exit.WRITE_FAILED == code
    assert '"Target"' == capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize('form', ['table', 'csv', 'value'])
def test_a_terminal_that_lacks_a_letter_gets_the_rest(running, monkeypatch, form):
    """An ASCII terminal and a card whose maker has an accent in its name: UnicodeEncodeError instead of the outcome."""
    got = io.BytesIO()
    monkeypatch.setattr('sys.stdout', io.TextIOWrapper(got, 'ascii'))
    code, _ = running('-f', form)
    assert Exit.WRITE_FAILED == code
    assert b'n\\xe9-1 ??[m' in got.getvalue()

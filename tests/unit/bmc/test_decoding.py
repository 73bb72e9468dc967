# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The fast decoder of answers gives the same result as the slow one, and an answer has a limited number of levels."""

import json
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.bmc.redfish.resource_document import MAX_DEPTH, _Ambiguous, _decoded, document
from baremetal_acc.errors import BmcAnswerInvalid

NAMES = st.sampled_from(['a', 'b', '"', '\\', 'ä', '\u2028', 'Id'])
TEXTS = st.text(st.sampled_from('ab"\\\n\u00e9\U0001f600/'), max_size=4)
LEAVES = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS


def _text(value: str, hidden: bool) -> str:
    """A string as JSON, its quotes as numbers or with a backslash."""
    if not hidden:
        return json.dumps(value, ensure_ascii=False)
    return '"' + ''.join('\\u0022' if c == '"' else json.dumps(c)[1:-1] for c in value) + '"'


@st.composite
def documents(draw: st.DrawFn, depth: int = 3) -> str:
    """JSON in which names may repeat, with the same value or another."""
    shape = draw(st.sampled_from(['leaf', 'array', 'object'] if depth else ['leaf']))
    if shape == 'leaf':
        leaf = draw(LEAVES)
        return _text(leaf, draw(st.booleans())) if isinstance(leaf, str) else json.dumps(leaf)
    items = draw(st.lists(documents(depth - 1), max_size=3))
    blank = draw(st.sampled_from(['', ' ', '\n\t']))
    if shape == 'array':
        return '[' + f',{blank}'.join(items) + ']'
    return '{' + f',{blank}'.join(f'{_text(draw(NAMES), draw(st.booleans()))}:{blank}{item}' for item in items) + '}'


def _plainly(text: str) -> object:
    """The value of JSON; an error where one name has two values, whatever became of them later."""

    def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, value in pairs:
            if name in found and found[name] != value:
                raise _Ambiguous(name)
            found[name] = value
        return found

    return json.loads(text, object_pairs_hook=distinct)


@given(documents())
@example('{"a": 1, "a": 2, "b": "\\u0022\\u0022"}')
@example('{"a": 1, "a": 1}')
@example('{"a": {"b": 1}, "a": {"b": 2}}')
@example('[{"a": "x", "a": "y"}]')
@example('{"a": 123456789012345678901234567890}')
def test_both_decoders_say_the_same(text: str) -> None:
    """Also of names that come twice, and of quotes that are written so that they cannot be counted."""
    try:
        wanted = _plainly(text)
    except _Ambiguous:
        with pytest.raises(_Ambiguous):
            _decoded(text.encode())
    else:
        assert wanted == _decoded(text.encode())


@pytest.mark.parametrize(
    'content',
    [b'', b'{', b'{} x', b'[' * 100_000, b'{"a":}', b"{'a': 1}", b'\xff\xfe', b'{"a": 01}'],
    ids=['empty', 'open', 'more', 'deep', 'no value', 'apostrophes', 'only a mark', 'leading zero'],
)
def test_what_is_no_json_is_an_error(content: bytes) -> None:
    """One of the two that callers expect."""
    with pytest.raises((ValueError, RecursionError)):
        _decoded(content)


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig', 'utf-16', 'utf-32-be'])
def test_json_in_any_encoding_of_unicode_is_read(encoding: str) -> None:
    """Older BMCs write a byte order mark."""
    assert {'Name': 'Größe'} == _decoded('{"Name": "Größe"}'.encode(encoding))


@pytest.mark.parametrize('inner', ['1', '"]}]{[["', '{"b": []}'], ids=['value', 'brackets in a text', 'objects'])
@pytest.mark.parametrize(('begin', 'end'), [('{"a": ', '}'), ('[', ']')], ids=['objects', 'arrays'])
def test_an_answer_has_a_limited_number_of_levels(begin: str, end: str, inner: str) -> None:
    """What reads a resource recurses, and Python 3.12 and later parse thousands of levels."""
    more = {'1': 0, '"]}]{[["': 0, '{"b": []}': 2}[inner]

    def read(levels: int) -> Document:
        nested = levels - 1 - more
        content = f'{{"@odata.id": "/redfish/v1/x", "x": {begin * nested}{inner}{end * nested}}}'.encode()
        answer = RedfishAnswer(status=200, headers={}, content=content, url='https://bmc/redfish/v1/x')
        return document(answer, 'host', cast(Connector, SimpleNamespace(label='BMC host')))

    assert 'x' in read(MAX_DEPTH).body
    for levels in (MAX_DEPTH + 1, MAX_DEPTH + 2, 3 * MAX_DEPTH):
        with pytest.raises(BmcAnswerInvalid, match=f'nested deeper than {MAX_DEPTH} levels'):
            read(levels)

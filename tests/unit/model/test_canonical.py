# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One document has one form, and bytes in any other form are none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.model.canonical import DEPTH, LARGEST, NotCanonical, encode, parse

LIMIT = 1000

TEXT = st.text(st.characters(exclude_categories=('Cs',)), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def test_the_example_of_the_standard():
    """RFC 8785, section 3.2.2 (without its fractions) and 3.2.3: short escapes, no others, keys by UTF-16 code units."""
    assert (
        b'{"literals":[null,true,false],"numbers":[333333333,4],"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    ) == encode({'numbers': [333333333, 4], 'string': '\u20ac$\u000f\nA\'B"\\\\"/', 'literals': [None, True, False]})
    keys = ['\u20ac', '\r', '\ufb33', '1', '\U0001f600', '\u0080', '\u00f6']
    given_back = list(parse(encode(dict.fromkeys(keys, 0)), limit=LIMIT))
    assert ['\r', '1', '\u0080', '\u00f6', '\u20ac', '\U0001f600', '\ufb33'] == given_back


@given(VALUES)
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_again(value):
    """And gives the same bytes."""
    data = encode(value)
    assert value == parse(data, limit=100_000)
    assert data == encode(parse(data, limit=100_000))


@pytest.mark.parametrize(
    ('data', 'why'),
    [
        (b'', 'not JSON'),
        (b'{"a":1', 'not JSON'),
        (b'{} {}', 'not JSON'),
        (b' {}', 'not canonical JSON'),
        (b'{}\n', 'not canonical JSON'),
        (b'{"a": 1}', 'not canonical JSON'),
        (b'{"b":1,"a":2}', 'not canonical JSON'),
        (b'{"a":-0}', 'not canonical JSON'),
        (b'{"\\u0061":1}', 'not canonical JSON'),
        (b'"\\/"', 'not canonical JSON'),
        (b'"\\u000A"', 'not canonical JSON'),
        (b'{"a":1,"a":1}', 'a key twice'),
        (b'{"a":1,"\\u0061":2}', 'a key twice'),
        (b'1.0', 'not whole'),
        (b'1e2', 'not whole'),
        (b'NaN', 'not whole'),
        (b'-Infinity', 'not whole'),
        (b'9007199254740992', 'beyond'),
        (b'-9007199254740992', 'beyond'),
        (b'9' * 900, 'beyond'),
        (b'"\xff"', 'not UTF-8'),
        (b'"\xc0\xaf"', 'not UTF-8'),
        (b'"\xed\xa0\x80"', 'not UTF-8'),
        (b'"\\ud800"', 'lone surrogate'),
        (b'\xef\xbb\xbf{}', 'not JSON'),
        (b'[' * (DEPTH + 1) + b']' * (DEPTH + 1), 'nested more than'),
        (b'[' * 1000, 'nested more than'),
        (b'"' + b'a' * LIMIT + b'"', f'longer than {LIMIT} bytes'),
    ],
)
def test_another_form_is_refused(data, why):
    """Two readers of it could read two things."""
    with pytest.raises(NotCanonical, match=why):
        parse(data, limit=LIMIT)


def test_brackets_in_texts_do_not_count():
    """Neither do those behind a quote that is escaped."""
    value = ['"' + '[' * 50, '\\', '{' * 50]
    assert value == parse(encode(value), limit=LIMIT)


@pytest.mark.parametrize('value', [1.0, b'a', {1: 'a'}, {'a'}, LARGEST + 1, '\ud800', {'\ud800': 1}, object()])
def test_what_has_no_form_is_not_written(value):
    """Nothing of ours holds it."""
    with pytest.raises(NotCanonical):
        encode({'a': value})

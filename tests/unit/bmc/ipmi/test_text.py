# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fields of FRUs and SDRs are text as their writers meant it: with any filling, in any language, in any coding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.bmc.ipmi.text import Coding, clean, said

NAME = 'Alveo U250'


@pytest.mark.parametrize('wide', [False, True])
@pytest.mark.parametrize(
    ('data', 'text'),
    [
        (b'Alveo U250', NAME),
        (b'Alveo U250\0\0', NAME),
        (b'Alveo U250\0', NAME),
        (b'Alveo U250\xff\xff', NAME),
        (b'\0\0Alveo U250\0\0\0\0', NAME),
        (b'Alveo U250      ', NAME),
        (b'Alveo U250\r\n', NAME),
        (b'Alveo U250\xa0\xa0', NAME),
        (b'Alveo U250\0\x17\x8a\0', NAME),
        (b'Alveo U250\0rubbish', NAME),
        (NAME.encode('utf-16-le'), NAME),
        (NAME.encode('utf-16-le') + bytes(6), NAME),
        (NAME.encode('utf-16-le') + b'\xff' * 6, NAME),
        (b'M\xfcller', 'Müller'),
        (b'M\xfcller AG', 'Müller AG'),
        (bytes(8), None),
        (b'\xff' * 8, None),
        (b' ' * 8, None),
        (b'', None),
    ],
)
def test_filling_and_language_do_not_change_a_text(data, text, wide):
    """A name that ended with zeros, in a language other than English, was read as Chinese, and its card lost."""
    assert text == said(Coding.EIGHT_BIT, data, wide=wide)


@pytest.mark.parametrize('filling', [b'', b'\0\0', b'\xff\xff'])
@pytest.mark.parametrize('text', ['計算機', '华为技术有限公司', 'Ускоритель', '가속기'])
def test_a_text_of_another_script_is_read_where_the_language_says_so(text, filling):
    """Two bytes a character, the lower one first."""
    assert text == said(Coding.EIGHT_BIT, text.encode('utf-16-le') + filling, wide=True)


@pytest.mark.parametrize(
    ('coding', 'data', 'text'),
    [
        (Coding.BINARY, b'Alveo U250', NAME),
        (Coding.BINARY, b'\x12\x34', '1234'),
        (Coding.BINARY, b'123', '313233'),
        (Coding.BINARY, b'\x01ABCDE', '014142434445'),
        (Coding.BCD_PLUS, bytes.fromhex('12 34 56'), '123456'),
        (Coding.BCD_PLUS, bytes.fromhex('12 ab c4'), '12 -.4'),
        (Coding.BCD_PLUS, bytes.fromhex('12 34 ff ff'), '1234'),
        (Coding.BCD_PLUS, bytes.fromhex('00 12'), '0012'),
        (Coding.BCD_PLUS, bytes.fromhex('00 00'), '0000'),
        (Coding.SIX_BIT, bytes.fromhex('29 dc a6'), 'IPMI'),
        (Coding.SIX_BIT, bytes.fromhex('29 dc'), 'IP'),
        (Coding.SIX_BIT, bytes(3), None),
    ],
)
def test_each_coding_is_read_by_its_table(coding, data, text):
    """A text that is said to be binary is a text; filled memory behind digits is none of them."""
    assert text == said(coding, data)


@given(st.sampled_from(Coding), st.binary(max_size=63), st.booleans())
def test_any_bytes_are_one_line_that_can_be_shown(coding, data, wide):
    """Or nothing."""
    text = said(coding, data, wide=wide)
    assert text is None or (text.isprintable() and text == clean(text) and text)


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40), st.booleans(), st.booleans())
def test_any_ascii_is_itself_in_any_language(text, wide, padded):
    """With or without zeros behind it."""
    assert text == said(Coding.EIGHT_BIT, text.encode() + bytes(padded * (1 + len(text) % 3)), wide=wide)

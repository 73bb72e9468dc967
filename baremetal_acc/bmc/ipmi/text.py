# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a text in an FRU or an SDR.

Whoever wrote the EEPROM of a card chose the bytes, so what comes out of here never holds what a terminal would obey.
"""

from enum import IntEnum


class Coding(IntEnum):
    """How a field is written: the two upper bits of its type/length byte.

    Source: Platform Management FRU Information Storage Definition 1.0 revision 1.3, section 13; IPMI 2.0 revision 1.1,
    section 43.15.
    """

    BINARY = 0
    BCD_PLUS = 1
    SIX_BIT = 2
    EIGHT_BIT = 3


_BCD_PLUS = '0123456789 -.\ufffd\ufffd\ufffd'
"""Of the sixteen digits the last three are reserved."""

_FILLING = b'\0\xff'
"""What is left of memory that nobody wrote, behind a text or around it."""


def said(coding: Coding, data: bytes, *, wide: bool = False) -> str | None:
    """The text of a field; None where it says nothing. What is binary is given as hexadecimal digits, unless it is a text.

    :param wide: the language is not English: then the specification wants two bytes for each character. Many who write an
        EEPROM leave the language as it comes and write ASCII or Latin-1, since the common tools ignore it: what reads as such
        a text is taken for one. It is serial numbers and names of products that are at stake.
    """
    match coding:
        case Coding.BINARY if _reads_as_ascii(data):
            text = data.decode('ascii')
        case Coding.BINARY:
            text = data.hex()
        case Coding.BCD_PLUS:
            text = ''.join(_BCD_PLUS[byte >> 4] + _BCD_PLUS[byte & 0x0F] for byte in data.rstrip(b'\xff'))
        case Coding.SIX_BIT:
            bits = int.from_bytes(data, 'little')
            text = ''.join(chr(0x20 + (bits >> 6 * n & 0x3F)) for n in range(len(data) * 8 // 6))
        case Coding.EIGHT_BIT:
            text = _eight_bit(data, wide)
    return clean(text) or None


def _reads_as_ascii(data: bytes) -> bool:
    """Four bytes or more, all of them letters, digits and what goes with them: no number looks so."""
    return len(data) >= 4 and all(0x20 <= byte <= 0x7E for byte in data)


def _eight_bit(data: bytes, wide: bool) -> str:
    """Text of one or of two bytes a character, without the filling; a text of one byte ends with the first zero."""
    filled = data.strip(_FILLING + b'\t\r\n')
    if len(filled) > 1 and not any(filled[1::2]) and all(filled[::2]):
        return filled[::2].decode('latin-1')  # Latin letters, two bytes each, whatever the language is said to be
    narrow = filled.split(b'\0', 1)[0]
    latin = narrow == filled and all(0x20 <= byte <= 0x7E or byte >= 0xA0 for byte in narrow)
    if not wide or len(data) % 2 or latin or _reads_as_ascii(narrow):
        return narrow.decode('latin-1')
    return data.decode('utf-16-le', 'replace').rstrip('\uffff')


def clean(text: str) -> str:
    """A text in one line, without what a terminal would not show or would obey, and without the filling around it."""
    text = text.strip('\0 \t\r\n\xa0')
    return ''.join(c if c.isprintable() else '\ufffd' for c in text).strip()

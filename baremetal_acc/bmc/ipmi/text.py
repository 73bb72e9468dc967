# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does a text in an FRU or an SDR say?

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


def said(coding: Coding, data: bytes, *, wide: bool = False) -> str | None:
    """The text of a field; None where it says nothing. What is binary is given as hexadecimal digits.

    :param wide: eight-bit text is of two bytes a character, the lower one first, since its language is not English. Bytes that
        are all printable ASCII are taken for that nevertheless: the common tools ignore the language, and so do many who write
        an EEPROM and look at it with them. It is serial numbers that are at stake.
    """
    match coding:
        case Coding.BINARY:
            text = data.hex()
        case Coding.BCD_PLUS:
            text = ''.join(_BCD_PLUS[byte >> 4] + _BCD_PLUS[byte & 0x0F] for byte in data)
        case Coding.SIX_BIT:
            bits = int.from_bytes(data, 'little')
            text = ''.join(chr(0x20 + (bits >> 6 * n & 0x3F)) for n in range(len(data) * 8 // 6))
        case Coding.EIGHT_BIT:
            narrow = not wide or len(data) % 2 or all(0x20 <= byte <= 0x7E for byte in data)
            text = data.decode('latin-1') if narrow else data.decode('utf-16-le', 'replace')
    return clean(text) or None


def clean(text: str) -> str:
    """A text in one line, without what a terminal would not show or would obey, and without the filling around it."""
    text = text.strip('\0 ')
    return ''.join(c if c.isprintable() else '\ufffd' for c in text).strip()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decode the text fields of FRU data and SDR records.

Whoever wrote a card's EEPROM chose the bytes: the decoded texts therefore never hold terminal control characters.
"""

from enum import IntEnum


class Coding(IntEnum):
    """Encoding of a field: the two upper bits of its type/length byte.

    Source: Platform Management FRU Information Storage Definition 1.0 revision 1.3, section 13; IPMI 2.0 revision 1.1, section
    43.15.
    """

    BINARY = 0
    BCD_PLUS = 1
    SIX_BIT = 2
    EIGHT_BIT = 3


_BCD_PLUS = '0123456789 -.\ufffd\ufffd\ufffd'
"""Characters of the sixteen BCD plus digits; the last three are reserved."""

_FILLING = b'\0\xff'
"""Bytes of memory that was never written, which pad a text."""


def said(coding: Coding, data: bytes, *, wide: bool = False) -> str | None:
    """The text of a field; None where it is empty. Binary data becomes hexadecimal digits, unless it is ASCII text.

    :param wide: the language is not English, for which the specification demands two bytes per character. Many EEPROMs have
        such a language code by default and hold ASCII or Latin-1, since the common tools ignore the code: data that is valid as
        such text is decoded as such. Otherwise serial numbers and product names would be wrong.
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
    """Whether data is text: at least four bytes, all of them printable ASCII. Binary numbers do not look like this."""
    return len(data) >= 4 and all(0x20 <= byte <= 0x7E for byte in data)


def _eight_bit(data: bytes, wide: bool) -> str:
    """Decode text of one or two bytes per character, without the padding; one-byte text ends with the first zero."""
    filled = data.strip(_FILLING + b'\t\r\n')
    if len(filled) > 1 and not any(filled[1::2]) and all(filled[::2]):
        return filled[::2].decode('latin-1')  # Latin letters in two bytes each, whatever the language code
    narrow = filled.split(b'\0', 1)[0]
    latin = narrow == filled and all(0x20 <= byte <= 0x7E or byte >= 0xA0 for byte in narrow)
    if not wide or len(data) % 2 or latin or _reads_as_ascii(narrow):
        return narrow.decode('latin-1')
    return data.decode('utf-16-le', 'replace').rstrip('\uffff')


def clean(text: str) -> str:
    """Strip the padding of a text, and replace each control or other unprintable character by U+FFFD."""
    text = text.strip('\0 \t\r\n\xa0')
    return ''.join(c if c.isprintable() else '\ufffd' for c in text).strip()

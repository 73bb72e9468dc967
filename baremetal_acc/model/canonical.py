# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON (RFC 8785) of hand-over certificates: the bytes over which a certificate is signed.

The JSON Canonicalization Scheme, for the part of JSON that certificates use: objects, arrays, strings, whole numbers, booleans
and null. There are no fractions, so their number format needs no rule. Keys are sorted by their UTF-16 code units, there is no
whitespace between tokens, and a string is written with as few escapes as JSON allows.

Source: RFC 8785, sections 3.2.2 and 3.2.3; RFC 7493 (I-JSON), section 2.2 and 2.3, for numbers and duplicate keys.
"""

import json
from typing import Any

Json = Any
"""None, bool, int, str, a list of these, or a dict of strings to these."""

LARGEST = 2**53 - 1
"""Largest absolute value of a whole number: readers that store numbers as doubles change larger ones. RFC 7493, 2.2."""

DEPTH = 16
"""Deepest nesting of objects and arrays. A certificate has six levels."""

_DIGITS = len(str(LARGEST))


class NotCanonical(ValueError):
    """The bytes are no document in canonical form, or the value has no canonical form. The text says why."""


def encode(value: Json) -> bytes:
    """Return the canonical bytes of a document.

    :raises NotCanonical: the value contains something that has no canonical form.
    """
    # Python escapes control characters as RFC 8785 does: with the short forms, and with lower-case digits otherwise.
    text = json.dumps(_sorted(value, 0), ensure_ascii=False, separators=(',', ':'), allow_nan=False)
    try:
        return text.encode('utf-8')
    except UnicodeEncodeError:
        raise NotCanonical('a text contains a lone surrogate') from None


def parse(data: bytes, *, limit: int) -> Json:
    """Return the document of canonical bytes. :func:`encode` returns these very bytes for it.

    :param limit: the most bytes that the document may have.
    :raises NotCanonical: the bytes are a document in another form, or no document.
    """
    if len(data) > limit:
        raise NotCanonical(f'the document is longer than {limit} bytes')
    try:
        text = data.decode('utf-8')
    except UnicodeDecodeError as exc:
        raise NotCanonical(f'the document is not UTF-8, at byte {exc.start}') from None
    if _depth(text) > DEPTH:
        raise NotCanonical(f'objects and arrays are nested more than {DEPTH} deep')
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_float=_fraction, parse_int=_whole, parse_constant=_fraction)
    except json.JSONDecodeError as exc:
        raise NotCanonical(f'the document is not JSON: {exc.msg} at character {exc.pos}') from None
    if encode(value) != data:
        raise NotCanonical('the document is not canonical JSON (RFC 8785): keys not sorted, whitespace, or unneeded escapes')
    return value


def _sorted(value: Json, depth: int) -> Json:
    if depth > DEPTH:
        raise NotCanonical(f'objects and arrays are nested more than {DEPTH} deep')
    match value:
        case None | bool() | str():
            return value
        case int():
            if abs(value) > LARGEST:
                raise NotCanonical(f'the number {value} is beyond {LARGEST}')
            return value
        case list() | tuple():
            return [_sorted(item, depth + 1) for item in value]
        case dict():
            if not all(type(key) is str for key in value):
                raise NotCanonical('a key is not a text')
            return {key: _sorted(value[key], depth + 1) for key in sorted(value, key=_code_units)}
        case _:
            raise NotCanonical(f'a value is a {type(value).__name__}')


def _code_units(key: str) -> bytes:
    """Return the sort key of an object key. A lone surrogate sorts like any other; :func:`encode` refuses it later."""
    return key.encode('utf-16-be', 'surrogatepass')


def _depth(text: str) -> int:
    """Count how deep objects and arrays are nested, without recursion: Python's JSON reader is recursive."""
    deepest = depth = 0
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == '\\' and not escaped
        elif character == '"':
            quoted = True
        elif character in '[{':
            depth += 1
            deepest = max(deepest, depth)
        elif character in ']}':
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotCanonical('an object has a key twice')
    return found


def _fraction(text: str) -> Json:
    raise NotCanonical(f'the number {text[:40]} is not whole')


def _whole(text: str) -> int:
    # The digits are counted first: reading a number of a million digits takes minutes.
    if len(text) > _DIGITS + 1 or abs(int(text)) > LARGEST:
        raise NotCanonical(f'a number is beyond {LARGEST}')
    return int(text)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the JSON of an answer into the document of a resource."""

import contextlib
import json

import msgspec

from baremetal_acc.bmc.driver import Document, JsonObject
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.extended_info import said
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.errors import BmcAnswerInvalid, BmcRefusalReason, BmcRefused
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.uri import normal

GONE = frozenset({'ResourceNotFound', 'ResourceMissingAtURI'})
"""MessageIds of a body that means 404 but comes with status 200, as seen on a real BMC. Source: DMTF Base registry."""

MAX_VALUES = 400_000
"""Values in one answer, counted by their separators: parsed JSON takes up to twenty times its bytes."""


MAX_DEPTH = 100
"""Levels of objects and arrays in one answer: what reads a resource may recurse. Expanded resources have some twenty."""

_NO_BRACKETS = bytes(set(range(256)).difference(b'[]{}'))


def resource_type(body: JsonObject) -> str:
    """The type of a resource without its version: ``PCIeFunction``; empty if it has none."""
    name = body.get('@odata.type')
    return name.lstrip('#').partition('.')[0] if isinstance(name, str) else ''


def identity_of(body: JsonObject) -> tuple[object, ...]:
    """Properties that tell whether a URI still has the same resource."""
    return tuple(body.get(name) for name in ('Id', 'UUID', 'SerialNumber', 'Model', 'PartNumber'))


def fresh(connector: Connector, name: BmcName, uri: str) -> Document:
    """Read a resource now, without any cache.

    :raises BmcError: the read failed.
    """
    return document(connector.read(uri.partition('#')[0]), name, connector)


def document(answer: RedfishAnswer, name: BmcName, connector: Connector, place: str | None = None) -> Document:
    """Parse the resource in an answer.

    :param place: its URI in normal form, if known.
    :raises BmcAnswerInvalid: the body is no JSON object, has too many values or levels, or is an error message.
    :raises BmcRefused: the body says that the resource does not exist.
    """
    if count_values(answer.content) > MAX_VALUES:
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what=f'the answer has more than {MAX_VALUES} values')
    try:
        body = _decoded(answer.content)
    except _Ambiguous as exc:
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what=str(exc)) from None
    except (ValueError, RecursionError):
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what='the answer is not JSON') from None
    if not isinstance(body, dict):
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what='the answer is not a JSON object')
    if not _is_flat(answer.content) and not _is_within(body, MAX_DEPTH):
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what=f'the answer is nested deeper than {MAX_DEPTH} levels')
    if 'error' in body and '@odata.id' not in body:
        if said(body).ids & GONE:
            told = 'the answer says that the resource does not exist'
            raise BmcRefused(bmc=connector.label, uri=answer.url, reason=BmcRefusalReason.NOT_FOUND, what=told)
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what='the answer is an error message with a success status')
    header = answer.headers.get('ETag')
    inner = body.get('@odata.etag')
    etag = header if header else inner if isinstance(inner, str) and inner else None
    return Document(ref=Ref(bmc=name, uri=place if place is not None else normal(answer.url)), body=body, etag=etag)


class _Ambiguous(ValueError):
    """A JSON object has one name twice, with different values."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose names are unique. Source: RFC 8259, section 4: otherwise its meaning is unpredictable."""
    found = dict(pairs)
    if len(found) != len(pairs):
        for name, value in pairs:
            if found[name] != value:
                raise _Ambiguous(f'the answer contains {name[:40]!r} twice, with different values')
    return found


_SMALL = 32 * 1024

_JSON = json.JSONDecoder(object_pairs_hook=_object, strict=False)
"""Accepts control characters in texts, which BMCs send although RFC 8259, section 7, does not allow them."""

_ESCAPED_QUOTE = b'\\u0022'

_QUICK, _BACK = msgspec.json.Decoder(), msgspec.json.Encoder()


def _decoded(content: bytes) -> object:
    """Parse JSON in which no name has two different values.

    Nearly all answers are well-formed, so a fast decoder that keeps the last of two values comes first. A lost value takes the
    quotes of its name with it, so that the result, encoded again, has fewer quotes. Quotes that are escaped as numbers could
    hide that. If the counts differ, the slow decoder runs and reports the cause.

    :raises ValueError: it is no JSON, or ambiguous. ``RecursionError``: it is nested too deep.
    """
    # DecodeError is a ValueError since msgspec 0.21 only.
    with contextlib.suppress(ValueError, msgspec.DecodeError, TypeError, OverflowError, RecursionError):
        body: object = _QUICK.decode(content)
        if _ESCAPED_QUOTE not in content and _BACK.encode(body).count(b'"') == content.count(b'"'):
            return body
    return _JSON.decode(text_of(content))


def _is_flat(content: bytes) -> bool:
    """Whether JSON surely has no more than :data:`MAX_DEPTH` levels: quick, and enough for nearly all answers.

    Each turn removes one or two levels. Brackets within texts may be left over.
    """
    left = content.translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH // 2):
        if not left:
            break
        left = left.replace(b'{}', b'').replace(b'[]', b'')
    return not left


def _is_within(body: dict[str, object], levels: int) -> bool:
    """Whether a JSON object has no more than so many levels of objects and arrays, itself included."""
    level: list[dict[str, object] | list[object]] = [body]
    for _ in range(levels):
        inner = (value for one in level for value in (one.values() if isinstance(one, dict) else one))
        level = [value for value in inner if isinstance(value, dict | list)]
        if not level:
            return True
    return False


def text_of(content: bytes) -> str:
    """The text of an answer. Undecodable bytes, which BMCs copy from a device's own strings, are replaced by U+FFFD.

    Source: RFC 8259, section 8.1; Unicode 16, section 5.22.
    """
    encoding = json.detect_encoding(content)
    try:
        return content.decode(encoding, 'surrogatepass')
    except UnicodeDecodeError:
        return content.decode(encoding, 'replace')


def count_values(content: bytes) -> int:
    """An upper bound of the values in JSON, as each begins with, or follows, a separator; an estimate for small answers."""
    if len(content) < _SMALL:
        return len(content) // 4
    return content.count(b',') + content.count(b'[') + content.count(b'{')

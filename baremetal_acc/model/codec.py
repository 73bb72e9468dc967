# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Convert the dataclasses of the model to JSON and back, with one pair of functions: :func:`encode` and :func:`decode`.

A dataclass becomes an object with its fields; where a field may hold one of several dataclasses, the object names its class in
``"type"``. A class with a text form (``from_text``) becomes its text. Tuples become arrays, frozensets sorted arrays, times ISO
8601 in UTC, timedeltas seconds. A field with :func:`stored_as` is replaced by the fields of that class.
"""

import types
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, Union, cast

from baremetal_acc.errors import StaleJob

T = TypeVar('T')

_TAG = 'type'

_STORED_AS = 'stored as'

SPARSE = MappingProxyType({'sparse': True})
"""Metadata of a field that is left out where it has its default value: the size of what is stored is limited."""


def stored_as(kind: type) -> Mapping[str, type]:
    """Return the metadata of a field that is stored in words: the fields of the given class are stored in its place."""
    return MappingProxyType({_STORED_AS: kind})


def encode(value: object) -> Any:
    """Return the JSON value of a model object.

    :raises TypeError: the value has no JSON form, or contains a fact that was not put into words; a bug of ours.
    """
    if value is None or isinstance(value, bool | int | float) or type(value) is str:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, frozenset):
        return sorted((encode(item) for item in value), key=str)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if hasattr(value, 'from_text'):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        body = _body(value)
        if _TAG not in body:
            body = {_TAG: _stored_name(type(value)), **body}
        return body
    raise TypeError(f'{type(value).__name__} has no JSON form')


def _stored_name(kind: type) -> str:
    """Return the name that the stored form gives a class: its own, or what it was called when that form was defined."""
    return str(vars(kind).get('STORED_NAME', kind.__name__))


def _body(value: Any) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for f in fields(value):
        held, kind = getattr(value, f.name), f.metadata.get(_STORED_AS)
        if kind is not None and not isinstance(held, kind):
            raise TypeError(f'{type(held).__name__} was not put into words')
        if kind is not None:
            body |= _body(held)
        elif not is_left_out(f, held):
            body[f.name] = encode(held)
    return body


def is_left_out(field: Field[Any], value: object) -> bool:
    """Whether a field is left out of what is stored: it is :data:`SPARSE`, and has its default value."""
    return 'sparse' in field.metadata and value == field.default


def decode(kind: type[T], data: object) -> T:
    """Return the model object that :func:`encode` made the JSON from.

    :raises StaleJob: the JSON does not have that shape: another version wrote it, or somebody changed it.
    """
    try:
        return cast('T', _decoder(cast('Hashable', kind))(data))
    except (KeyError, ValueError, TypeError, OverflowError) as exc:
        raise StaleJob(f'{kind.__name__}: the stored form cannot be read: {exc}') from exc


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """Return the decoder of a type, made once for each type: a conductor reads the state of its nodes at every turn."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, typing.NewType):
        return _decoder(kind.__supertype__)
    if origin in (Union, types.UnionType):
        return _union_decoder(args)
    if origin is tuple:
        return _tuple_decoder(args)
    if origin is frozenset:
        item = _decoder(args[0])
        return lambda data: frozenset(map(item, _list(data)))
    if hasattr(kind, 'from_text'):
        return lambda data: kind.from_text(_scalar(str, data))
    if is_dataclass(kind):
        return partial(_decode_dataclass, cast('type', kind))
    if kind is datetime:
        return _time
    if kind is timedelta:
        return lambda data: timedelta(seconds=data)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if kind is Any:
        return lambda data: data
    if kind in (str, int, bool, float):
        return partial(_scalar, kind)
    raise TypeError(f'{kind} has no JSON form')


def _scalar(kind: type, data: Any) -> Any:
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise TypeError(f'{kind.__name__} expected, {type(data).__name__} found')
    return data


def _time(data: Any) -> datetime:
    at = datetime.fromisoformat(data)
    if at.tzinfo is None:
        raise ValueError(f'{data} names no time zone')
    return at


def _list(data: object) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f'array expected, {type(data).__name__} found')
    return data


def _tuple_decoder(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    if len(args) == 2 and args[1] is Ellipsis:
        item = _decoder(args[0])
        return lambda data: tuple(map(item, _list(data)))
    items = tuple(map(_decoder, args))

    def decoded(data: Any) -> Any:
        if len(items) != len(_list(data)):
            raise ValueError(f'{len(items)} items expected, {len(data)} found')
        return tuple(item(value) for item, value in zip(items, data, strict=True))

    return decoded


def _union_decoder(args: tuple[Any, ...]) -> Callable[[Any], Any]:
    rest = [a for a in args if a is not type(None)]
    only = _decoder(rest[0]) if len(rest) == 1 else None
    by_class = {_stored_name(cast('type', a)): _decoder(cast('Hashable', a)) for a in rest if is_dataclass(a)}

    def decoded(data: Any) -> Any:
        if data is None:
            if len(rest) < len(args):
                return None
            raise TypeError('null found')
        if only is not None:
            return only(data)
        if isinstance(data, dict) and data.get(_TAG) in by_class:
            return by_class[data[_TAG]](data)
        if type(data) in (bool, str) and type(data) in rest:
            return data
        raise TypeError(f'none of {", ".join(getattr(a, "__name__", str(a)) for a in rest)} found')

    return decoded


class _Shape(NamedTuple):
    """The fields of a dataclass, the decoder of each, and the classes whose fields replace a field (:func:`stored_as`)."""

    fields: tuple[Field[Any], ...]
    decoders: Mapping[str, Callable[[Any], Any]]
    inner: Mapping[str, type]
    known: frozenset[str]


@cache
def _shape(kind: type) -> _Shape:
    hints = typing.get_type_hints(kind)
    inner = {f.name: f.metadata[_STORED_AS] for f in fields(kind) if _STORED_AS in f.metadata}
    known = {f.name for one in (kind, *inner.values()) for f in fields(one)} - inner.keys()
    decoders = {f.name: _decoder(hints[f.name]) for f in fields(kind) if f.name not in inner}
    return _Shape(fields(kind), decoders, inner, frozenset(known))


def _decode_dataclass(kind: type, data: Any) -> Any:
    if not isinstance(data, dict):
        raise TypeError(f'object expected for {kind.__name__}, {type(data).__name__} found')
    shape = _shape(kind)
    unknown = data.keys() - shape.known - {_TAG}
    if unknown:
        raise ValueError(f'{kind.__name__} has no field {", ".join(sorted(unknown))}')
    values = {}
    for f in shape.fields:
        if f.name in shape.inner:
            parts = {part.name for part in fields(shape.inner[f.name])}
            values[f.name] = _decode_dataclass(shape.inner[f.name], {name: data[name] for name in parts & data.keys()})
        elif f.name in data:
            values[f.name] = shape.decoders[f.name](data[f.name])
        elif f.default is MISSING and f.default_factory is MISSING:
            raise KeyError(f'{kind.__name__}.{f.name} is missing')
    return kind(**values)

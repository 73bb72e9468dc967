# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the keys of ``instance_info`` in a request body that would select which code of Ironic works on the node.

A document is what a body decodes to: a node, or a JSON Patch of one (RFC 6902). Pointers are decoded as in RFC 6901, section 4.
The parser does not know the node, so what it cannot tell counts as written: the source of a ``copy`` or ``move``, an operation
that it does not know, an ``instance_info`` that is no object.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

INSTANCE_INFO = 'instance_info'
DEPLOY_INTERFACE = 'deploy_interface'

_WRITES = ('add', 'replace')
"""Operations whose value is in the operation itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceOverride:
    """A key that Ironic would take before the node's own field of that name."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownContent:
    """All of ``instance_info`` is written, and the document does not say which keys."""


Finding = InterfaceOverride | UnknownContent


def find_overrides(document: object, *, interfaces: Collection[str], choosable: Collection[str] = ()) -> tuple[Finding, ...]:
    """Find what must not be written, in the order of the document and each once. Removing a key is no finding.

    :param interfaces: keys of ``instance_info`` that select code, such as ``firmware_interface``.
    :param choosable: values of ``deploy_interface`` that anybody may write.
    """
    keys, values = frozenset(interfaces), frozenset(choosable)
    found = _of_patch(document, keys, values) if isinstance(document, list) else _of_node(document, keys, values)
    return tuple(dict.fromkeys(found))


def _of_patch(operations: list[object], keys: frozenset[str], values: frozenset[str]) -> Iterator[Finding]:
    for operation in operations:
        match operation:
            # What has no operation or no pointer is refused by Ironic's schema, and by any library for JSON Patch.
            case {'op': str(verb), 'path': str(pointer), **others}:
                yield from _of_operation(verb, _parts(pointer), others.get('value'), keys, values)


def _of_operation(
    verb: str, parts: tuple[str, ...], value: object, keys: frozenset[str], values: frozenset[str]
) -> Iterator[Finding]:
    match parts:
        case _ if verb == 'test':
            return
        # A removal below an interface's key changes its value; a removal of the key or above leaves Ironic nothing to take.
        case () | (_,) | (_, _) if verb == 'remove':
            return
        case ():
            yield from _of_node(value, keys, values) if verb in _WRITES else (UnknownContent(),)
        case (field,) if field == INSTANCE_INFO:
            yield from _of_instance_info(value, keys, values) if verb in _WRITES else (UnknownContent(),)
        case (field, key) if field == INSTANCE_INFO and key in keys:
            if verb not in _WRITES or not _may_choose(key, value, values):
                yield InterfaceOverride(key=key)
        case (field, key, *_) if field == INSTANCE_INFO and key in keys:
            yield InterfaceOverride(key=key)


def _of_node(node: object, keys: frozenset[str], values: frozenset[str]) -> Iterator[Finding]:
    if isinstance(node, dict) and INSTANCE_INFO in node:
        yield from _of_instance_info(node[INSTANCE_INFO], keys, values)


def _of_instance_info(value: object, keys: frozenset[str], values: frozenset[str]) -> Iterator[Finding]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield UnknownContent()  # Ironic's FlexibleDictField also turns a string into a dictionary
        return
    yield from (InterfaceOverride(key=k) for k, v in value.items() if k in keys and not _may_choose(k, v, values))


def _may_choose(key: str, value: object, values: frozenset[str]) -> bool:
    return key == DEPLOY_INTERFACE and isinstance(value, str) and value in values


def _parts(pointer: str) -> tuple[str, ...]:
    """Return the reference tokens of a pointer; none for the whole document."""
    return tuple(token.replace('~1', '/').replace('~0', '~') for token in pointer.split('/')[1:])

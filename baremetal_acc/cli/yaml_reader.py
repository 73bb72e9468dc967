# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a YAML document, or a line of JSON, by the same typed :class:`~baremetal_acc.model.document.Table` as TOML.

Every value stays text until a caller asks for its type; so no YAML tag creates an object, and no alias is expanded.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.document import Lined, Table, Unquoted, did_you_mean, kind

MAX_DEPTH = 20
"""Levels of nesting. A list of targets has six. The loader in C is recursive: without a bound it can crash the process."""

_LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
"""The loader in C where PyYAML was built with it: ten times as fast, which a list of thousands of targets needs."""

_STR, _BOOL, _NULL = (f'tag:yaml.org,2002:{name}' for name in ('str', 'bool', 'null'))

_KINDS = {_BOOL: 'true or false', _NULL: 'nothing'}

_NUMBER = 'a number or a date'


class Map(Table):
    """A mapping of YAML or JSON, with the readers that TOML documents do not need."""

    noun: ClassVar[str] = 'mapping'
    __slots__ = ()

    def secret(self, key: str) -> str | None:
        """A secret text, unchanged. No message contains it."""
        value = self.data.get(key)
        if isinstance(value, str) and value:
            return value
        return self.string(key)

    def word(self, key: str) -> str | None:
        """A value as it is written, also where YAML reads another type, as a number for 2.0 or false for no."""
        value = self.data.get(key)
        text = value.text if isinstance(value, Unquoted) else value
        if text is not None and (not isinstance(text, str) or not text or not text.isprintable()):
            raise self.error(key, f'one word expected, {kind(value)} found')
        return text if text is None else text.strip()

    def boolean_or_text(self, key: str) -> bool | str | None:
        """True, false or text."""
        value = self.data.get(key)
        if isinstance(value, Unquoted) and value.kind == _KINDS[_BOOL]:
            return value.text.lower() in ('true', 'yes', 'on')
        return self.string(key)

    def only(self, *keys: str) -> None:
        """Refuse every other key: it is probably misspelt."""
        for key in self.data:
            if key not in keys:
                raise self.error(key, 'no such key', did_you_mean(key, keys) or f'the keys are {", ".join(keys)}')


def read_yaml(text: str, path: str) -> Map:
    """Parse a YAML text as a mapping.

    :raises DocumentError: the text is no YAML or no mapping; the error names file and line, never a value.
    """
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                line = None if event.start_mark is None else event.start_mark.line + 1
                raise DocumentError(path=path, line=line, what='nested too deeply')
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as exc:
        line = None if exc.problem_mark is None else exc.problem_mark.line + 1
        raise DocumentError(path=path, line=line, what=f'not valid YAML: {_harmless(exc.problem)}') from None
    except (yaml.YAMLError, UnicodeError):
        raise DocumentError(
            path=path, what='not valid YAML: a character that YAML does not allow', hint='check that it is the right file'
        ) from None
    except RecursionError:
        raise DocumentError(path=path, what='nested too deeply', hint='check that it is the right file') from None
    if root is None:
        raise DocumentError(path=path, what='is empty', hint='it has to list the targets')
    return _root(root, path, 1)


def read_json(text: str, path: str, line: int) -> Map:
    """Parse a line of JSON as a mapping.

    :raises DocumentError: the line is no JSON or no mapping.
    """
    hint = 'one target per line'
    try:
        return _root(json.loads(text, object_pairs_hook=_Pairs), path, line, hint)
    except RecursionError:
        raise DocumentError(path=path, line=line, what='nested too deeply') from None
    except ValueError as exc:
        what = exc.msg if isinstance(exc, json.JSONDecodeError) else 'a number that is too long'
        raise DocumentError(path=path, line=line, what=f'not valid JSON: {what}', hint=hint) from None


def _harmless(problem: str | None) -> str:
    """The parser's message, unless it may repeat a password: one that begins with * or & looks like an alias or an anchor."""
    if problem is None or any(word in problem for word in ('alias', 'anchor', 'tag', 'escape')):
        return 'put text that begins with a special character in quotes'
    return problem


def _root(root: object, path: str, line: int, hint: str | None = None) -> Map:
    value = _Values(path, line).of(root, '')
    if not isinstance(value, Lined):
        raise DocumentError(path=path, line=line, what=f'mapping expected, {kind(value)} found', hint=hint)
    return Map(path, '', line, value)


class _Pairs(list[tuple[str, object]]):
    """The pairs of a JSON object, duplicate keys included."""


@dataclass(slots=True)
class _Values:
    """Converts YAML nodes, and JSON values, to plain values with line numbers.

    :ivar line: the line of a JSON document, all of which is on one line.
    :ivar seen: values by the id of their node: the node of an alias is converted once, and may contain itself.
    """

    path: str
    line: int
    seen: dict[int, Any] = field(default_factory=dict)

    def of(self, node: object, name: str) -> Any:
        """The value of a node: text, :class:`Unquoted`, a list or a :class:`Lined`."""
        match node:
            case yaml.ScalarNode():
                return node.value if node.tag == _STR else Unquoted(node.value, _KINDS.get(node.tag, _NUMBER))
            case str():
                return node
            case bool():
                return Unquoted('true' if node else 'false', _KINDS[_BOOL])
            case None:
                return Unquoted('', _KINDS[_NULL])
            case int() | float():
                return Unquoted(str(node), _NUMBER)
        if id(node) not in self.seen:
            match node:
                case yaml.MappingNode():
                    self._fill(self._new(node, Lined()), ((k, k.start_mark.line + 1, v) for k, v in node.value), name)
                case _Pairs():
                    self._fill(self._new(node, Lined()), ((key, self.line, value) for key, value in node), name)
                case yaml.SequenceNode() | list():
                    items = self._new(node, [])
                    items += [self.of(item, name) for item in (node if isinstance(node, list) else node.value)]
        return self.seen[id(node)]

    def _new(self, node: object, empty: Any) -> Any:
        return self.seen.setdefault(id(node), empty)

    def _fill(self, found: Lined, pairs: Iterable[tuple[Any, int, object]], name: str) -> None:
        """Fill a mapping.

        :raises DocumentError: a key is not a text, or occurs twice.
        """
        for key, line, value in pairs:
            text = key.value if isinstance(key, yaml.ScalarNode) else key
            where = f'{name}.{text}' if name else text
            if not isinstance(text, str):
                what = f'{name}: a key must be a plain text'.removeprefix(': ')
                raise DocumentError(path=self.path, line=line, what=what)
            if text in found:
                what = f'{where}: occurs twice, first in line {found.lines[text]}'
                raise DocumentError(path=self.path, line=line, what=what)
            found.lines[text] = line
            found[text] = self.of(value, where)

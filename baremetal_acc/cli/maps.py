# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is a mapping of YAML or JSON read so that whatever is wrong in it can be told with its line, and no password is?

Every accessor of :class:`Map` gives None, or nothing, for a key that is not there, and raises
:class:`~baremetal_acc.errors.DocumentError` for a value of another kind.
"""

import json
import re
from dataclasses import dataclass

import yaml

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.toml import did_you_mean

MAX_DEPTH = 20
"""Levels. A list of targets has six. The loader in C is recursive: without a bound it takes the whole process with it."""

_STR, _INT, _BOOL, _NULL = (f'tag:yaml.org,2002:{name}' for name in ('str', 'int', 'bool', 'null'))

_LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
"""In C where PyYAML was built with it: ten times as fast, which a list of thousands of targets needs."""


@dataclass(slots=True)
class Lines:
    """What the reading noticed on its way: the line of the first literal password."""

    password: int | None = None


@dataclass(slots=True)
class Map:
    """One mapping of the document, its keys with their lines."""

    path: str
    name: str
    line: int
    nodes: dict[str, tuple[int, yaml.Node]]
    lines: Lines

    def error(self, key: str | None, what: str, hint: str | None = None) -> DocumentError:
        """What is wrong with a key, or with the whole, and where that stands."""
        line = self.nodes[key][0] if key in self.nodes else self.line
        where = '.'.join(filter(None, (self.name, key)))
        return DocumentError(path=self.path, line=line, what=f'{where}: {what}' if where else what, hint=hint)

    def names(self) -> tuple[str, ...]:
        """Its keys, in their order."""
        return tuple(self.nodes)

    def has(self, *keys: str) -> bool:
        """Whether one of them is there."""
        return any(key in self.nodes for key in keys)

    def string(self, key: str) -> str | None:
        """Text that is not empty; a number has to be quoted, since YAML reads 0123 and 1e5 in its own way."""
        node = self._ask(key)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STR:
            raise self.error(key, f'text expected, {kind(node)} found', 'put it in quotes')
        if not node.value.strip():
            raise self.error(key, 'text expected, nothing found')
        return str(node.value).strip()

    def secret(self, key: str) -> str | None:
        """Text to the letter."""
        node = self._ask(key)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STR or not node.value:
            raise self.error(key, f'text expected, {kind(node)} found', 'put it in quotes')
        if self.lines.password is None:
            self.lines.password = self.nodes[key][0]
        return str(node.value)

    def word(self, key: str) -> str | None:
        """A value as it is written, whatever YAML takes it for: 2.0 for a number, and no for false."""
        node = self._ask(key)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL or not node.value.isprintable():
            raise self.error(key, f'one word expected, {kind(node)} found')
        return str(node.value).strip()

    def integer(self, key: str, *, minimum: int) -> int | None:
        """A whole number."""
        node = self._ask(key)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag != _INT or not re.fullmatch(r'[0-9]{1,9}', node.value):
            raise self.error(key, f'whole number expected, {kind(node)} found')
        value = int(node.value)
        if value < minimum:
            raise self.error(key, f'{value} is less than {minimum}')
        return value

    def boolean_or_path(self, key: str) -> bool | str | None:
        """True, false or text."""
        node = self._ask(key)
        if node is None:
            return None
        if isinstance(node, yaml.ScalarNode) and node.tag == _BOOL:
            return node.value.lower() in ('true', 'yes', 'on')
        return self.string(key)

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of texts, none of them empty."""
        node = self._ask(key)
        if node is None:
            return ()
        items = node.value if isinstance(node, yaml.SequenceNode) else [None]
        texts = [i.value for i in items if isinstance(i, yaml.ScalarNode) and i.tag == _STR and i.value.strip()]
        if len(texts) != len(items):
            raise self.error(key, 'list of texts expected')
        return tuple(text.strip() for text in texts)

    def mapping(self, key: str) -> 'Map':
        """The mapping below a key; an empty one where there is none."""
        node = self._ask(key)
        name = '.'.join(filter(None, (self.name, key)))
        if node is None:
            return Map(self.path, name, self.line, {}, self.lines)
        if not isinstance(node, yaml.MappingNode):
            raise self.error(key, f'mapping expected, {kind(node)} found')
        return map_of(node, self.path, name, self.nodes[key][0], self.lines)

    def only(self, *keys: str) -> None:
        """Refuse every other key: probably misspelt."""
        for key in self.nodes:
            if key not in keys:
                raise self.error(key, 'no such key', did_you_mean(key, keys) or f'there are {", ".join(keys)}')

    def _ask(self, key: str) -> yaml.Node | None:
        return self.nodes[key][1] if key in self.nodes else None


def read_yaml(text: str, path: str) -> Map:
    """The mapping that a text is.

    :raises DocumentError: it is none, or no YAML; names file and line, never a value.
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
        raise DocumentError(path=path, line=line, what=f'no valid YAML: {_harmless(exc.problem)}') from None
    except (yaml.YAMLError, UnicodeError):
        raise DocumentError(path=path, what='no valid YAML: a character that YAML does not allow') from None
    except RecursionError:
        raise DocumentError(path=path, what='nested too deeply') from None
    if root is None:
        raise DocumentError(path=path, what='is empty')
    if not isinstance(root, yaml.MappingNode):
        raise DocumentError(path=path, line=1, what=f'mapping expected, {kind(root)} found')
    return map_of(root, path, '', 1, Lines())


def _harmless(problem: str | None) -> str:
    """The parser's own words, unless they may repeat a password: one that begins with * or & looks like an alias."""
    if problem is None or any(word in problem for word in ('alias', 'anchor', 'tag', 'escape')):
        return 'put texts that begin with a special character in quotes'
    return problem


def map_of(node: yaml.MappingNode, path: str, name: str, line: int, lines: Lines) -> Map:
    """A mapping with the lines of its keys.

    :raises DocumentError: a key is no text, or is there twice.
    """
    found: dict[str, tuple[int, yaml.Node]] = {}
    for key, value in node.value:
        at = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError(path=path, line=at, what=f'{name}: a key must be a plain text'.removeprefix(': '))
        if key.value in found:
            where = '.'.join(filter(None, (name, key.value)))
            raise DocumentError(path=path, line=at, what=f'{where}: is there twice, first in line {found[key.value][0]}')
        found[key.value] = (at, value)
    return Map(path, name, line, found, lines)


def from_json(text: str, line: int) -> yaml.Node:
    """JSON as the reader of YAML would give it, every key in that line.

    :raises ValueError: it is none.
    :raises RecursionError: it is nested too deeply.
    """
    return _node(json.loads(text, object_pairs_hook=_Pairs), line)


class _Pairs(list[tuple[str, object]]):
    """A JSON object with all that it says, keys that are there twice included."""


def _node(value: object, line: int) -> yaml.Node:
    mark = yaml.Mark('', 0, line - 1, 0, None, 0)
    match value:
        case _Pairs():
            pairs = [(yaml.ScalarNode(_STR, key, mark, mark), _node(inner, line)) for key, inner in value]
            return yaml.MappingNode('tag:yaml.org,2002:map', pairs, mark, mark)
        case list():
            return yaml.SequenceNode('tag:yaml.org,2002:seq', [_node(inner, line) for inner in value], mark, mark)
        case bool():
            return yaml.ScalarNode(_BOOL, 'true' if value else 'false', mark, mark)
        case None:
            return yaml.ScalarNode(_NULL, '', mark, mark)
        case int():
            return yaml.ScalarNode(_INT, str(value), mark, mark)
        case float():
            return yaml.ScalarNode('tag:yaml.org,2002:float', str(value), mark, mark)
        case _:
            return yaml.ScalarNode(_STR, str(value), mark, mark)


def kind(node: yaml.Node | None) -> str:
    """What a node is, in words for messages."""
    match node:
        case yaml.MappingNode():
            return 'a mapping'
        case yaml.SequenceNode():
            return 'a list'
        case yaml.ScalarNode(tag=tag) if tag in (_NULL, _STR):
            return 'nothing' if tag == _NULL else 'text'
        case yaml.ScalarNode(tag=tag) if tag == _BOOL:
            return 'true or false'
        case _:
            return 'a number or a date'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read an operator's TOML, YAML or JSON document key by key, with type checks and errors that name the line."""

import difflib
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar

from baremetal_acc.errors import DocumentError

E = TypeVar('E', bound=StrEnum)

_DIGITS = re.compile('[0-9]{1,9}')

_HIGHEST_SERIAL = 2**53
"""The highest serial: JSON keeps whole numbers exact up to here (RFC 8259, section 6).

No operator counts that far (as many seconds are 285 million years), so a serial near it is meant to lock out all later ones.
"""

_LONGEST = 400
"""Most characters of a part of a message. The longest of our own texts have half of that."""


class Lined(dict[str, Any]):
    """A mapping that knows the line of each key: YAML and JSON have no headers by which the line could be found.

    :ivar lines: the line of each key.
    """

    __slots__ = ('lines',)

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Unquoted:
    """A YAML or JSON value that is not text, with its spelling: YAML changes 0123, 1e5 or no into something that was not meant.

    :ivar kind: the kind of value, in words for messages.
    """

    text: str
    kind: str


@dataclass(slots=True)
class Table:
    """One table of a document.

    Read its keys, then call :meth:`finish`: keys that nobody read are errors.

    :ivar line: line of the table's header; 1 for the document itself.
    :ivar text: text of the document, where ``data`` does not know its lines.
    """

    path: str
    name: str
    line: int
    data: dict[str, Any]
    text: str = field(default='', repr=False)
    noun: ClassVar[str] = 'table'
    _asked: set[str] = field(default_factory=set)

    def error(self, key: str | None, what: str, hint: str | None = None) -> DocumentError:
        """Return an error at a key of this table."""
        where = self._below(key)
        said = f'{_short(where)}: {_short(what)}' if where else _short(what)
        return DocumentError(path=self.path, line=self.line_of(key), what=said, hint=hint)

    def has(self, key: str) -> bool:
        """Tell whether the table has the key."""
        return key in self.data

    def not_misspelt(self, key: str) -> None:
        """Check that a missing required key was forgotten and not misspelt.

        :raises DocumentError: there is a key of nearly that name; the error names its line.
        """
        # A high cutoff, since another key is no typo.
        others = [name for name in self.data if name not in self._asked]
        near = difflib.get_close_matches(key, others, n=1, cutoff=0.7)
        if key not in self.data and near:
            raise self.error(near[0], 'no such key', f'did you mean {key}?')

    def string(self, key: str, default: str | None = None, *, required: bool = False) -> str | None:
        """Return a text that is not empty."""
        value = self._get(key, required=required)
        if value is None:
            return default
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f'text expected, {kind(value)} found', _quotes(value))
        return self._printable(key, value)

    def required_string(self, key: str) -> str:
        """Return a text that has to be there."""
        value = self.string(key, required=True)
        if value is None:
            raise self.error(key, 'is missing')
        return value

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0, required: bool = False) -> int | None:
        """Return a whole number."""
        value = self._get(key, required=required)
        if value is None:
            return default
        if isinstance(value, Unquoted) and _DIGITS.fullmatch(value.text):
            value = int(value.text)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f'whole number expected, {kind(value)} found')
        if value < minimum:
            raise self.error(key, f'{value} is less than {minimum}')
        return value

    def required_integer(self, key: str, *, minimum: int = 0) -> int:
        """Return a whole number that has to be there."""
        value = self.integer(key, minimum=minimum, required=True)
        if value is None:
            raise self.error(key, 'is missing')
        return value

    def boolean(self, key: str) -> bool | None:
        """Return true or false; None when the key is absent."""
        value = self._get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self.error(key, f'true or false expected, {kind(value)} found', 'write it without quotes')

    def end(self, key: str) -> datetime:
        """Return when something ends, UTC: a time as :meth:`moment` reads it, or a date, which means the beginning of that day.

        The key has to be there.
        """
        value = self._get(key, required=True)
        if type(value) is date:
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime) or value.tzinfo is None:
            hint = 'write it without quotes, as 2027-01-31 (it ends as that day begins, UTC) or 2027-01-31T18:00:00Z'
            raise self.error(key, 'date expected, or date and time of UTC', hint)
        return self._utc(key, value)

    def serial(self) -> int | None:
        """Return the serial of a document; None when it has none.

        :raises DocumentError: it is no serial, or is so high that no other could follow.
        """
        value = self.integer('serial')
        if value is not None and value > _HIGHEST_SERIAL:
            raise self.error('serial', f'more than {_HIGHEST_SERIAL}')
        return value

    def moment(self, key: str) -> datetime | None:
        """Return a date with a time and its offset from UTC, converted to UTC; None when the key is absent."""
        value = self._get(key)
        if value is None:
            return None
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise self.error(key, 'date and time of UTC expected', 'write it without quotes, as 2027-01-31T00:00:00Z')
        return self._utc(key, value)

    def _utc(self, key: str, value: datetime) -> datetime:
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise self.error(key, f'{value} is out of range') from None

    def choice(
        self, key: str, kind: type[E], default: E | None = None, *, required: bool = False, none: str | None = None
    ) -> E | None:
        """Return one word of an enumeration.

        :param none: a further word, which means the default.
        """
        value = self.string(key, required=required)
        if value is None or value == none:
            return default
        return self._word(key, kind, value, none)

    def choices(self, key: str, kind: type[E]) -> frozenset[E] | None:
        """Return a set of words of an enumeration; None when the key is absent."""
        values = self.strings(key)
        return None if values is None else frozenset(self._word(key, kind, value) for value in values)

    def strings(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts; None when the key is absent."""
        value = self._get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise self.error(key, 'list of texts expected')
        return tuple(self._printable(key, item) for item in value)

    def mapping(self, key: str) -> tuple[tuple[str, str], ...] | None:
        """Return a table of texts; None when the key is absent."""
        value = self._get(key)
        if value is None:
            return None
        if not isinstance(value, dict) or not all(isinstance(item, str) and item.strip() for item in value.values()):
            raise self.error(key, 'table of texts expected')
        return tuple((self._printable(key, name), self._printable(key, item)) for name, item in value.items())

    def table(self, key: str) -> Self:
        """Return a table within this one; an empty one when the key is absent."""
        value = self._get(key)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.error(key, f'{self.noun} expected, {kind(value)} found')
        return type(self)(self.path, self._below(key), self.line_of(key), value, self.text)

    def tables(self, key: str) -> tuple['Table', ...]:
        """Return the tables of ``[[key]]``, or of a list of inline tables."""
        value = self._get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.error(key, f'tables [[{key}]] expected')
        within = re.sub(r'\[\d+\]', '', self.name)
        headers = [line for line in _headers(self.text, f'{within}.{key}' if within else key) if not within or line > self.line]
        return tuple(
            Table(
                self.path,
                f'{self.name}.{key}[{n}]' if self.name else f'{key}[{n}]',
                headers[n] if n < len(headers) else self.line_of(key),
                item,
                self.text,
            )
            for n, item in enumerate(value)
        )

    def finish(self) -> None:
        """Check that every key of the table was read.

        :raises DocumentError: a key was not read: it is probably misspelt.
        """
        for key in self.data:
            if key not in self._asked:
                raise self.error(key, 'no such key', did_you_mean(key, self._asked))

    def _printable(self, key: str, text: str) -> str:
        """Check that a text is printable. It appears in messages, logs and file names: one line, with nothing hidden in it."""
        text = text.strip()
        if not text.isprintable():
            raise self.error(key, 'holds characters that cannot be printed')
        return text

    def _word(self, key: str, kind: type[E], value: str, none: str | None = None) -> E:
        try:
            return kind(value)
        except ValueError:
            words = [*(word.value for word in kind), *filter(None, (none,))]
            raise self.error(key, f'{value!r} is none of {", ".join(words)}', did_you_mean(value, words)) from None

    def _get(self, key: str, *, required: bool = False) -> Any:
        self._asked.add(key)
        value = self.data.get(key)
        if value is None and required:
            self.not_misspelt(key)
            raise self.error(None, f'{key} is missing')
        return value

    def _below(self, key: str | None) -> str:
        return '.'.join(filter(None, (self.name, key)))

    def line_of(self, key: str | None) -> int:
        """Return the line of a key; the line of this table for None, and for a key that cannot be found."""
        if key is None:
            return self.line
        if isinstance(self.data, Lined):
            return self.data.lines.get(key, self.line)
        wanted = re.compile(rf'^\s*(?:\[+\s*)?["\']?{re.escape(key)}["\']?\s*[=.\]]')
        lines = _lines(self.text)
        for number in range(self.line, len(lines) + 1):
            text = lines[number - 1]
            if number > self.line and self.name and text.lstrip().startswith('[['):
                break
            if wanted.match(text):
                return number
        return self.line


def did_you_mean(word: str, words: Iterable[str], before: str = '') -> str | None:
    """Return a hint that names the word nearest to a misspelt one; None where no word is near.

    :param before: text before each of the words.
    """
    near = difflib.get_close_matches(word, sorted(words), n=1)
    return f'did you mean {before}{near[0]}?' if near else None


def _short(text: str) -> str:
    """Shorten a text for a message: keys and values may be as long as the document, and the error is at the end of the text."""
    return text if len(text) <= _LONGEST else f'{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}'


def _quotes(value: object) -> str | None:
    return 'put it in quotes' if isinstance(value, Unquoted) else None


def _headers(text: str, key: str) -> list[int]:
    wanted = re.compile(rf'^\s*\[\[\s*{re.escape(key)}\s*\]\]')
    return [number for number, line in enumerate(_lines(text), 1) if wanted.match(line)]


@functools.lru_cache(maxsize=4)
def _lines(text: str) -> tuple[str, ...]:
    """Return the lines of a document, cached: each of its tables asks for them."""
    return tuple(text.splitlines())


def kind(value: object) -> str:
    """Describe the type of a value, in words for messages."""
    match value:
        case Unquoted():
            return value.kind
        case Lined():
            return 'a mapping'
        case bool():
            return 'a boolean'
        case str():
            return 'empty text' if not value.strip() else 'text'
        case int() | float():
            return 'a number'
        case list():
            return 'a list'
        case dict():
            return 'a table'
        case _:
            return type(value).__name__

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices are accelerators, of what kind and by whom? A table by PCI ids and by model names.

The shipped table is ``data/devices.toml``; files of the operator are read before it, so that their rows win.
"""

import functools
import importlib.resources
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from pathlib import Path
from typing import Generic, TypeVar

from baremetal_acc.errors import DocumentError
from baremetal_acc.model import toml
from baremetal_acc.model.accelerator import Kind

FORMAT = 1

PCI = re.compile(r'(?:\*|0x(?:[0-9a-f?]{4}|[0-9a-f?]{0,3}\*)):(?:\*|0x(?:[0-9a-f?]{4}|[0-9a-f?]{0,3}\*))', re.ASCII)
"""A pattern for PCI ids, as they are written here: always four digits, with ``*`` and ``?`` for any."""

TRAIT = re.compile(r'(?:CUSTOM|HW|STORAGE)_[A-Z0-9_]{1,247}', re.ASCII)
"""A trait of an operator's own, or a standard one that says what hardware is. Source: placement API, traits: at most 255
characters; os-traits 3.9.0.
"""

DEVICE = '{device}'
"""In a trait that is for many devices: the PCI device id of each, four capital digits."""

_ID = re.compile(r'0x([0-9a-f]{4})', re.ASCII)

REMEMBERED = 4096
"""Answers that a table keeps. Machines have few products; a hostile one may invent names without end."""

T = TypeVar('T')


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the table says of a device.

    :ivar kind: None: known, and no accelerator, such as the video chip of a BMC.
    :ivar pci: ``0xVVVV:0xDDDD`` patterns; empty for rows by name.
    :ivar names: patterns over model names, compared without case.
    :ivar display: the row counts only for devices with a display or processing class.
    :ivar vendor: normalised name. ``model``: normalised name; None to keep the BMC's own text.
    """

    kind: Kind | None
    pci: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    display: bool = False
    vendor: str | None = None
    model: str | None = None
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Traits for all devices of a kind and of certain PCI ids, whatever row says what they are."""

    kind: Kind
    pci: tuple[str, ...]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """A normalised vendor name, and the texts by which BMCs write it."""

    name: str
    texts: tuple[str, ...]


class _Patterns(Generic[T]):
    """The first of several things one of whose patterns matches. Answers are remembered: one table serves a fleet.

    :param form: the form of a text in which it is compared.
    """

    def __init__(self, rows: Sequence[tuple[tuple[str, ...], T]], form: Callable[[str], str] = str) -> None:
        self._form = form
        self._rows = [(_compiled(patterns), found) for patterns, found in rows if patterns]
        self._any = _compiled(p for patterns, _ in rows for p in patterns)
        self._known: dict[str, T | None] = {}

    def first(self, text: str) -> T | None:
        """The first that matches, or None."""
        if text in self._known:
            return self._known[text]
        found, meant = None, self._form(text)
        if self._any(meant):
            found = next((found for matches, found in self._rows if matches(meant)), None)
        if len(self._known) < REMEMBERED:
            self._known[text] = found
        return found


def plain(name: str) -> str:
    """A name in the form in which names are compared: BMCs write blanks, hyphens and underscores for each other, and (R)."""
    return ' '.join(_BETWEEN.sub(' ', name.casefold()).split())


_BETWEEN = re.compile(r'[\s_\-]|\((?:r|tm|c)\)|[\u00ae\u2122\u00a9\ufffd]')

_SET = re.compile(r'(\[[^\]]*\])')


def _plain_pattern(pattern: str) -> str:
    """A pattern over such names. A set of characters stays, but for one of what is written between words."""
    parts = (_between(p) if not p.startswith('[') else p.casefold() if plain(p[1:-1]) else ' ' for p in _SET.split(pattern))
    return re.sub(' +', ' ', ''.join(parts)).strip()


def _between(part: str) -> str:
    return _BETWEEN.sub(' ', part.casefold())


def _compiled(patterns: Iterable[str]) -> Callable[[str], object]:
    """Whether a text matches one of several patterns. No pattern matches nothing."""
    return re.compile('|'.join(f'(?:{translate(p)})' for p in patterns) or r'(?!)').match


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The table. Earlier rows win; of namings each counts."""

    rows: tuple[Row, ...]
    makers: tuple[Maker, ...]
    namings: tuple[Naming, ...] = ()
    _ids: _Patterns[Row] = field(init=False, repr=False, compare=False)
    _compute_ids: _Patterns[Row] = field(init=False, repr=False, compare=False)
    _names: _Patterns[Row] = field(init=False, repr=False, compare=False)
    _texts: _Patterns[Maker] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = {
            '_ids': _Patterns([(row.pci, row) for row in self.rows if not row.display]),
            '_compute_ids': _Patterns([(row.pci, row) for row in self.rows]),
            '_names': _Patterns([(tuple(map(_plain_pattern, row.names)), row) for row in self.rows], plain),
            '_texts': _Patterns([(tuple(map(_plain_pattern, maker.texts)), maker) for maker in self.makers], plain),
        }
        for name, patterns in found.items():
            object.__setattr__(self, name, patterns)

    def by_pci(self, vendor_id: str | None, device_id: str | None, *, display: bool) -> Row | None:
        """The row for PCI ids.

        :param vendor_id: ``0x10de``; ``device_id`` alike.
        :param display: the device has a display or processing class.
        """
        if vendor_id is None or device_id is None:
            return None
        return (self._compute_ids if display else self._ids).first(f'{vendor_id}:{device_id}')

    def by_name(self, name: str | None) -> Row | None:
        """The row for a model name."""
        return None if name is None else self._names.first(name)

    def traits(self, kind: Kind, vendor_id: str | None, device_id: str | None) -> frozenset[str]:
        """The traits of all namings that are for a device. One whose ids its BMC does not show has none.

        :param vendor_id: ``0x10de``; ``device_id`` alike.
        """
        device = _ID.fullmatch(device_id or '')
        if vendor_id is None or device is None:
            return frozenset()
        ids = f'{vendor_id}:{device_id}'
        mine = (n for n in self.namings if n.kind is kind and any(fnmatchcase(ids, p) for p in n.pci))
        return frozenset(t.replace(DEVICE, device[1].upper()) for n in mine for t in n.traits)

    def vendor(self, text: str | None) -> str | None:
        """The normalised name of a vendor; the text itself when the table does not know it."""
        if text is None:
            return None
        maker = self._texts.first(text)
        return text if maker is None else maker.name


@functools.cache
def shipped() -> Devices:
    """The table that comes with the package.

    :raises DocumentError: the installation is damaged.
    """
    source = importlib.resources.files('baremetal_acc.data').joinpath('devices.toml')
    return _read(source.read_text('utf-8'), 'baremetal_acc/data/devices.toml')


def load(paths: Iterable[Path] = ()) -> Devices:
    """The shipped table with files of the operator before it; what editors leave behind (hidden files) is no table.

    :raises DocumentError: a file cannot be read, or is wrong.
    """
    files = []
    for path in paths:
        if path.name.startswith('.'):
            continue
        try:
            files.append((str(path), path.read_text('utf-8')))
        except (OSError, UnicodeDecodeError) as exc:
            raise DocumentError(path=str(path), what=f'cannot be read: {exc}') from exc
    return _merged(tuple(files)) if files else shipped()


@functools.lru_cache(maxsize=4)
def _merged(files: tuple[tuple[str, str], ...]) -> Devices:
    """The shipped table with the rows of files before it. Jobs ask for it at every turn, and files hardly ever change."""
    tables = [*(_read(text, path) for path, text in files), shipped()]
    return Devices(
        rows=tuple(row for table in tables for row in table.rows),
        makers=tuple(maker for table in tables for maker in table.makers),
        namings=tuple(naming for table in tables for naming in table.namings),
    )


def _read(text: str, path: str) -> Devices:
    document = toml.read(text, path, format_version=FORMAT)
    seen: dict[tuple[str, bool], int] = {}
    rows = tuple(_row(table, seen) for table in document.tables('device'))
    makers = tuple(_maker(table) for table in document.tables('vendor'))
    namings = tuple(_naming(table) for table in document.tables('trait'))
    document.finish()
    return Devices(rows=rows, makers=makers, namings=namings)


def _row(table: toml.Table, seen: dict[tuple[str, bool], int]) -> Row:
    """One row.

    :param seen: patterns of the rows before it, and their lines: a pattern that stands twice would count once.
    """
    kind = table.choice('kind', Kind, required=True, none='none')
    pci = table.strings('pci') or ()
    names = table.strings('names') or ()
    display = table.choice('only', Only)
    row = Row(
        kind=kind,
        pci=tuple(p.lower() for p in pci),
        names=names,
        display=display is Only.DISPLAY,
        vendor=table.string('vendor'),
        model=table.string('model'),
        traits=frozenset(table.strings('traits') or ()),
    )
    table.finish()
    if not row.pci and not row.names:
        raise table.error(None, 'needs pci or names', 'pci = ["0xVVVV:0xDDDD"], or names = ["Model *"]')
    _check_pci(table, row.pci)
    for pattern in row.names:
        if not any(c.isalnum() for c in pattern):
            raise table.error('names', f'{pattern!r} would match every device', 'name the beginning of the model')
    _check_traits(table, row.traits)
    for key, patterns in (('pci', row.pci), ('names', tuple(n.casefold() for n in row.names))):
        for pattern in patterns:
            line = seen.setdefault((pattern, row.display), table.line)
            if line != table.line:
                hint = f'the row of line {line} has it already, and the first one counts'
                raise table.error(key, f'{pattern!r} stands twice', hint)
    return row


def _naming(table: toml.Table) -> Naming:
    kind = table.choice('kind', Kind, required=True)
    pci = tuple(p.lower() for p in table.strings('pci') or ())
    traits = frozenset(table.strings('traits') or ())
    table.finish()
    if kind is None or not pci or not traits:
        raise table.error(None, 'needs kind, pci and traits', 'traits that depend on nothing else stand in a row [[device]]')
    _check_pci(table, pci)
    _check_traits(table, {t.replace(DEVICE, '0000') for t in traits})
    return Naming(kind=kind, pci=pci, traits=traits)


def _check_pci(table: toml.Table, patterns: Iterable[str]) -> None:
    for pattern in patterns:
        if PCI.fullmatch(pattern) is None:
            hint = 'write four digits each, * and ? for any: "0x10de:0x2330", "0x1da3:*"'
            raise table.error('pci', f'{pattern!r} is no 0xVVVV:0xDDDD', hint)


def _check_traits(table: toml.Table, traits: Iterable[str]) -> None:
    for trait in sorted(traits):
        if TRAIT.fullmatch(trait) is None:
            hint = 'CUSTOM_ and then A to Z, 0 to 9 and _; or a standard one: HW_... or STORAGE_...'
            raise table.error('traits', f'{trait!r} is no trait', hint)


def _maker(table: toml.Table) -> Maker:
    maker = Maker(name=table.required_string('name'), texts=table.strings('texts') or ())
    table.finish()
    return maker


class Only(StrEnum):
    """``only = "display"``: the row is for devices of a display or processing class, not for the vendor's switches."""

    DISPLAY = 'display'

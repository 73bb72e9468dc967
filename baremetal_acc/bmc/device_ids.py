# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Table that identifies accelerators: it maps PCI ids and model names to kind, vendor, model and traits.

The shipped table is ``data/devices.toml``. Files of the operator are read before it, so that their rows take precedence.
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

from baremetal_acc import input_file
from baremetal_acc.errors import DocumentError
from baremetal_acc.model import toml
from baremetal_acc.model.accelerator import Kind

FORMAT = 1

PCI = re.compile(r'(?:\*|0x(?:[0-9a-f?]{4}|[0-9a-f?]{0,3}\*)):(?:\*|0x(?:[0-9a-f?]{4}|[0-9a-f?]{0,3}\*))', re.ASCII)
"""A pattern for PCI ids: always ``0x`` and four lower-case digits, with ``*`` and ``?`` as wildcards."""

TRAIT = re.compile(r'(?:CUSTOM|HW|STORAGE)_[A-Z0-9_]{1,247}', re.ASCII)
"""A custom trait, or a standard one that describes hardware. Source: placement API, traits: at most 255 characters; os-traits
3.9.0.
"""

DEVICE = '{device}'
"""Placeholder in a trait that is for many devices: replaced by the PCI device id of each, as four capital digits."""

_ID = re.compile(r'0x([0-9a-f]{4})', re.ASCII)

REMEMBERED = 4096
"""Maximum number of cached answers of a table. Machines have few products, but a hostile BMC may invent names without end."""

T = TypeVar('T')


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One row of the table.

    :ivar kind: None: a known device that is no accelerator, such as the video chip of a BMC.
    :ivar pci: ``0xVVVV:0xDDDD`` patterns; empty for rows by name.
    :ivar names: patterns for model names, compared without case.
    :ivar display: the row matches only devices with a display or processing class.
    :ivar vendor: normalised name.
    :ivar model: normalised name; None to keep the BMC's own text.
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
    """Traits for all devices of a kind and of certain PCI ids, independent of the row that identifies them."""

    kind: Kind
    pci: tuple[str, ...]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMaker:
    """A normalised vendor name, and the texts by which BMCs write it."""

    name: str
    texts: tuple[str, ...]


class _Patterns(Generic[T]):
    """Finds the first of several items that has a matching pattern. Answers are cached: one table serves a whole fleet.

    :param form: normalises a text before it is compared.
    """

    def __init__(self, rows: Sequence[tuple[tuple[str, ...], T]], form: Callable[[str], str] = str) -> None:
        self._form = form
        self._rows = [(_compiled(patterns), found) for patterns, found in rows if patterns]
        self._any = _compiled(p for patterns, _ in rows for p in patterns)
        self._known: dict[str, T | None] = {}

    def first(self, text: str) -> T | None:
        """The first item with a matching pattern, or None."""
        if text in self._known:
            return self._known[text]
        found, meant = None, self._form(text)
        if self._any(meant):
            found = next((found for matches, found in self._rows if matches(meant)), None)
        if len(self._known) < REMEMBERED:
            self._known[text] = found
        return found


def plain(name: str) -> str:
    """Normalise a name for comparison: BMCs interchange blanks, hyphens and underscores, and may add (R), (TM) or (C)."""
    return ' '.join(_BETWEEN.sub(' ', name.casefold()).split())


_BETWEEN = re.compile(r'[\s_\-]|\((?:r|tm|c)\)|[\u00ae\u2122\u00a9\ufffd]')

_SET = re.compile(r'(\[[^\]]*\])')


def _plain_pattern(pattern: str) -> str:
    """Normalise a pattern for such names. A character set is kept, except a set of word separators, which becomes a blank."""
    parts = (_between(p) if not p.startswith('[') else p.casefold() if plain(p[1:-1]) else ' ' for p in _SET.split(pattern))
    return re.sub(' +', ' ', ''.join(parts)).strip()


def _between(part: str) -> str:
    return _BETWEEN.sub(' ', part.casefold())


def _compiled(patterns: Iterable[str]) -> Callable[[str], object]:
    """A function that tests whether a text matches one of several patterns. Without patterns nothing matches."""
    return re.compile('|'.join(f'(?:{translate(p)})' for p in patterns) or r'(?!)').match


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The device table. The first matching row takes precedence; the traits of all matching namings are added up."""

    rows: tuple[DeviceRow, ...]
    makers: tuple[DeviceMaker, ...]
    namings: tuple[Naming, ...] = ()
    _ids: _Patterns[DeviceRow] = field(init=False, repr=False, compare=False)
    _compute_ids: _Patterns[DeviceRow] = field(init=False, repr=False, compare=False)
    _names: _Patterns[DeviceRow] = field(init=False, repr=False, compare=False)
    _texts: _Patterns[DeviceMaker] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = {
            '_ids': _Patterns([(row.pci, row) for row in self.rows if not row.display]),
            '_compute_ids': _Patterns([(row.pci, row) for row in self.rows]),
            '_names': _Patterns([(tuple(map(_plain_pattern, row.names)), row) for row in self.rows], plain),
            '_texts': _Patterns([(tuple(map(_plain_pattern, maker.texts)), maker) for maker in self.makers], plain),
        }
        for name, patterns in found.items():
            object.__setattr__(self, name, patterns)

    def by_pci(self, vendor_id: str | None, device_id: str | None, *, display: bool) -> DeviceRow | None:
        """The row for PCI ids.

        :param vendor_id: such as ``0x10de``.
        :param device_id: in the same form.
        :param display: the device has a display or processing class.
        """
        if vendor_id is None or device_id is None:
            return None
        return (self._compute_ids if display else self._ids).first(f'{vendor_id}:{device_id}')

    def by_name(self, name: str | None) -> DeviceRow | None:
        """The row for a model name."""
        return None if name is None else self._names.first(name)

    def traits(self, kind: Kind, vendor_id: str | None, device_id: str | None) -> frozenset[str]:
        """The traits of all namings that match a device. A device whose PCI ids the BMC does not show has none.

        :param vendor_id: such as ``0x10de``.
        :param device_id: in the same form.
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
    """The shipped table with the operator's files before it. Hidden files, which editors leave behind, are skipped.

    :raises DocumentError: a file cannot be read, or is wrong.
    """
    files = []
    for path in paths:
        if path.name.startswith('.'):
            continue
        try:
            files.append((str(path), input_file.read(path, toml.MAX_SIZE * 4).decode('utf-8')))
        except (OSError, UnicodeDecodeError) as exc:
            raise DocumentError(path=str(path), what=f'cannot be read: {exc}') from exc
    return _merged(tuple(files)) if files else shipped()


@functools.lru_cache(maxsize=4)
def _merged(files: tuple[tuple[str, str], ...]) -> Devices:
    """The shipped table with the rows of files before it. It is cached: each turn of a job needs it, and
    files rarely change.
    """
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


def _row(table: toml.Table, seen: dict[tuple[str, bool], int]) -> DeviceRow:
    """Parse one row.

    :param seen: patterns of the rows before it, with their lines: of a repeated pattern only the first would count.
    """
    kind = table.choice('kind', Kind, required=True, none='none')
    pci = table.strings('pci') or ()
    names = table.strings('names') or ()
    display = table.choice('only', Only)
    row = DeviceRow(
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
            raise table.error('names', f'{pattern!r} would match every device', 'give the beginning of the model')
    _check_traits(table, row.traits)
    for key, patterns in (('pci', row.pci), ('names', tuple(n.casefold() for n in row.names))):
        for pattern in patterns:
            line = seen.setdefault((pattern, row.display), table.line)
            if line != table.line:
                hint = f'line {line} lists it already, and only the first row counts'
                raise table.error(key, f'{pattern!r} is listed twice', hint)
    return row


def _naming(table: toml.Table) -> Naming:
    kind = table.choice('kind', Kind, required=True)
    pci = tuple(p.lower() for p in table.strings('pci') or ())
    traits = frozenset(table.strings('traits') or ())
    table.finish()
    if kind is None or not pci or not traits:
        raise table.error(
            None, 'needs kind, pci and traits', 'traits that do not depend on the PCI ids belong in a [[device]] row'
        )
    _check_pci(table, pci)
    _check_traits(table, {t.replace(DEVICE, '0000') for t in traits})
    return Naming(kind=kind, pci=pci, traits=traits)


def _check_pci(table: toml.Table, patterns: Iterable[str]) -> None:
    for pattern in patterns:
        if PCI.fullmatch(pattern) is None:
            hint = 'write four digits each, * and ? for any: "0x10de:0x2330", "0x1da3:*"'
            raise table.error('pci', f'{pattern!r} does not have the form 0xVVVV:0xDDDD', hint)


def _check_traits(table: toml.Table, traits: Iterable[str]) -> None:
    for trait in sorted(traits):
        if TRAIT.fullmatch(trait) is None:
            hint = 'write CUSTOM_ and then A to Z, 0 to 9 and _; or a standard trait: HW_... or STORAGE_...'
            raise table.error('traits', f'{trait!r} is not a trait name', hint)


def _maker(table: toml.Table) -> DeviceMaker:
    maker = DeviceMaker(name=table.required_string('name'), texts=table.strings('texts') or ())
    table.finish()
    return maker


class Only(StrEnum):
    """``only = "display"``: the row matches devices of a display or processing class, not the same vendor's switches."""

    DISPLAY = 'display'

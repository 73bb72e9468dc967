# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices are accelerators, of what kind and by whom? A table by PCI ids and by model names.

The shipped table is ``data/devices.toml``; files of the operator are read before it, so that their rows win.
"""

import functools
import importlib.resources
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from baremetal_acc.errors import DocumentError
from baremetal_acc.model import toml
from baremetal_acc.model.accelerator import Kind

FORMAT = 1


class Class(StrEnum):
    """A Kind, or ``none``: known, and no accelerator (the video chip of a BMC)."""

    GPU = 'GPU'
    FPGA = 'FPGA'
    DPU = 'DPU'
    NIC = 'NIC'
    ASIC = 'ASIC'
    NONE = 'none'

    def kind(self) -> Kind | None:
        """As a Kind; None for ``none``."""
        return None if self is Class.NONE else Kind(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the table says of a device.

    :ivar pci: ``0xVVVV:0xDDDD`` patterns; empty for rows by name.
    :ivar names: patterns over model names, compared without case.
    :ivar display: the row counts only for devices with a display or processing class.
    :ivar vendor: normalised name. ``model``: normalised name; None to keep the BMC's own text.
    """

    kind: Class
    pci: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    display: bool = False
    vendor: str | None = None
    model: str | None = None
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """A normalised vendor name, and the texts by which BMCs write it."""

    name: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The table. Earlier rows win."""

    rows: tuple[Row, ...]
    makers: tuple[Maker, ...]

    def by_pci(self, vendor_id: str | None, device_id: str | None, *, display: bool) -> Row | None:
        """The row for PCI ids.

        :param vendor_id: ``0x10de``; ``device_id`` alike.
        :param display: the device has a display or processing class.
        """
        if vendor_id is None or device_id is None:
            return None
        ids = f'{vendor_id}:{device_id}'
        return next(
            (row for row in self.rows if (display or not row.display) and any(fnmatchcase(ids, p) for p in row.pci)), None
        )

    def by_name(self, name: str | None) -> Row | None:
        """The row for a model name."""
        if name is None:
            return None
        text = name.casefold()
        return next((row for row in self.rows if any(fnmatchcase(text, p.casefold()) for p in row.names)), None)

    def vendor(self, text: str | None) -> str | None:
        """The normalised name of a vendor; the text itself when the table does not know it."""
        if text is None:
            return None
        low = text.casefold()
        return next((m.name for m in self.makers if any(fnmatchcase(low, p.casefold()) for p in m.texts)), text)


@functools.cache
def shipped() -> Devices:
    """The table that comes with the package.

    :raises DocumentError: the installation is damaged.
    """
    source = importlib.resources.files('baremetal_acc.data').joinpath('devices.toml')
    return _read(source.read_text('utf-8'), 'baremetal_acc/data/devices.toml')


def load(paths: Iterable[Path] = ()) -> Devices:
    """The shipped table with files of the operator before it.

    :raises DocumentError: a file cannot be read, or is wrong.
    """
    tables = []
    for path in paths:
        try:
            text = path.read_text('utf-8')
        except (OSError, UnicodeDecodeError) as exc:
            raise DocumentError(path=str(path), what=f'cannot be read: {exc}') from exc
        tables.append(_read(text, str(path)))
    tables.append(shipped())
    return Devices(
        rows=tuple(row for table in tables for row in table.rows),
        makers=tuple(maker for table in tables for maker in table.makers),
    )


def _read(text: str, path: str) -> Devices:
    document = toml.read(text, path, format_version=FORMAT)
    rows = tuple(_row(table) for table in document.tables('device'))
    makers = tuple(_maker(table) for table in document.tables('vendor'))
    document.finish()
    return Devices(rows=rows, makers=makers)


def _row(table: toml.Table) -> Row:
    kind = table.choice('kind', Class, required=True)
    pci = table.strings('pci') or ()
    names = table.strings('names') or ()
    display = table.choice('only', Only)
    row = Row(
        kind=kind or Class.NONE,
        pci=tuple(p.lower() for p in pci),
        names=names,
        display=display is Only.DISPLAY,
        vendor=table.string('vendor'),
        model=table.string('model'),
        traits=frozenset(table.strings('traits') or ()),
    )
    if not row.pci and not row.names:
        raise table.error(None, 'needs pci or names')
    for pattern in row.pci:
        if pattern.count(':') != 1:
            raise table.error('pci', f'{pattern!r} is no 0xVVVV:0xDDDD')
    table.finish()
    return row


def _maker(table: toml.Table) -> Maker:
    maker = Maker(name=table.required_string('name'), texts=table.strings('texts') or ())
    table.finish()
    return maker


class Only(StrEnum):
    """``only = "display"``: the row is for devices of a display or processing class, not for the vendor's switches."""

    DISPLAY = 'display'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Remember the highest serial of each catalogue and baseline, so that an older one is refused although its signature is good.

For every such document, by its path, the database holds the highest serial of a signed version and the highest one of an
unsigned version. A signed document is compared with signed ones alone: else anybody who could write the file once, where
signatures are optional, could lock out the operator's own document with a serial that is too high to follow.
"""

import json
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from baremetal_acc.errors import StateError
from baremetal_acc.images.refused import REFUSALS
from baremetal_acc.model.image import SignedKind
from baremetal_acc.state_file import Earlier, StateFile

_TABLES = """
CREATE TABLE serial (
    catalogue TEXT NOT NULL, signed INTEGER NOT NULL, serial INTEGER NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (catalogue, signed)
)
"""
_UNNOTICED = 'an older catalogue is then not detected'
_OF_CATALOGUE = 'SELECT signed, serial, digest FROM serial WHERE catalogue = ?'
_REMEMBER = 'INSERT OR REPLACE INTO serial (catalogue, signed, serial, digest) VALUES (?, ?, ?, ?)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Serials:
    """The database of serials.

    :ivar path: the configured path; the database has its name with the suffix ``.sqlite``. Earlier releases kept a JSON file at
        the path itself.
    """

    path: Path

    def accept(
        self,
        document: Path,
        serial: int | None,
        digest: str,
        *,
        signed: bool,
        kind: SignedKind = SignedKind.CATALOGUE,
    ) -> None:
        """Store the serial of a document, unless it is lower than one that was seen.

        :param digest: digest of the document's bytes. A signed document has one content for each serial.
        :raises DocumentRefused: the serial is lower, or another content with the same serial was seen.
        :raises StateError: the database cannot be used.
        """
        # One name for each spelling. Links are not resolved, so that a link cannot be changed to lead to an older file.
        name = _key(os.path.normpath(document.absolute()))
        file = self._file()
        if self._is_known(file.select(_OF_CATALOGUE, name), name, serial, digest, signed=signed, kind=kind):
            return
        with file.writing() as db:
            # Another process may have seen a newer one in between.
            if not self._is_known(db.execute(_OF_CATALOGUE, (name,)), name, serial, digest, signed=signed, kind=kind):
                db.execute(_REMEMBER, (name, signed, serial, digest))
                if signed:
                    db.execute('DELETE FROM serial WHERE catalogue = ? AND NOT signed', (name,))

    def _is_known(
        self, found: Iterable[Any], name: str, serial: int | None, digest: str, *, signed: bool, kind: SignedKind
    ) -> bool:
        """Tell whether this serial is stored already.

        :param found: the rows of this document.
        :raises DocumentRefused: the document must not be used.
        """
        rows = {bool(row[0]): row[1:] for row in found}
        ours, others = rows.get(True), rows.get(False)
        before = [one for one in (ours, None if signed else others) if one is not None]
        seen = max((one[0] for one in before), default=-1)
        refusal = REFUSALS[kind]
        hint = f'if the older {kind} is intended, delete its row from {self._file().path} (table serial)'
        if serial is None and before:
            raise refusal(path=name, what=f'has no serial, but was seen before with serial {seen}', hint=hint)
        if serial is None:
            return True
        if serial < seen:
            raise refusal(path=name, what=f'has serial {serial}, but was seen before with serial {seen}', hint=hint)
        this = (serial, digest)
        if signed and serial == seen and this != ours:
            what = f'has serial {serial}, which it had before with other content'
            raise refusal(path=name, what=what, hint='increase the serial with every change')
        return this == ours and others is None if signed else this == others

    def _file(self) -> StateFile:
        path, old = self.path.with_suffix('.sqlite'), self.path
        if old == path:
            old = path.with_suffix('.json')
        return StateFile(
            path=path,
            tables=_TABLES,
            risk='have an older catalogue accepted',
            lost=f'restore it, or move {path} away to start again; {_UNNOTICED}',
            elsewhere='set option [baremetal_acc] catalogue_serial_file (default of the command line: below XDG_STATE_HOME)',
            earlier=Earlier(at=old, documents=(escape(old.name),), locks=f'{escape(old.name)}.lock', take=_take),
        )


def _key(path: str) -> str:
    """Return a path as text for SQLite: bytes that are no UTF-8 are escaped."""
    return path.encode('utf-8', 'backslashreplace').decode()


def _take(db: sqlite3.Connection, path: Path, data: bytes) -> None:
    """Take over the JSON file of an earlier release.

    :raises StateError: the file does not contain serials.
    """
    try:
        raw: Any = json.loads(data)
        rows = [(_key(name), signed, one['serial'], one['digest']) for key, signed in _KEYS for name, one in raw[key].items()]
        if raw['format'] != 1 or not all(type(row[2]) is int and isinstance(row[3], str) for row in rows):
            raise ValueError
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        hint = f'move {path} away to start again; {_UNNOTICED}'
        raise StateError(f'{path}: cannot be used: it is not a file of catalogue serials', hint=hint) from None
    db.executemany(_REMEMBER, rows)


_KEYS = (('catalogues', True), ('unsigned', False))
"""The keys of the JSON file that hold serials, and whether these were signed."""

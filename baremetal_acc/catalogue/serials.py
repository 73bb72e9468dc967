# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which is the newest catalogue that we have seen? An older one, though rightly signed, must not come back.

One small JSON file, written atomically, for every catalogue by its path: the highest serial, and what it stood for.
"""

import fcntl
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baremetal_acc.catalogue.refused import CatalogueRefused
from baremetal_acc.errors import AccError

FORMAT = 1

MAX_SIZE = 1024 * 1024
"""Bytes. An entry takes some two hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serials:
    """The file of serials.

    :ivar path: of it; its folder is made where it is missing.
    """

    path: Path

    def accept(self, catalogue: Path, serial: int | None, digest: str, *, signed: bool) -> None:
        """Remember the serial of a catalogue, unless it is older than what was seen.

        :param digest: of its bytes. One serial stands for one content where the catalogue is signed.
        :raises CatalogueRefused: it is older, or another one of the same serial.
        :raises AccError: the file of serials cannot be used.
        """
        # One name however it is spelt; a link stays one, so that it cannot be turned back to an older file.
        name = os.path.normpath(catalogue.absolute())
        if not self._newer(self._read(), name, serial, digest, signed=signed):
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = self.path.with_name(f'{self.path.name}.lock')
            with open(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), 'rb') as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                # Read again: another process may have seen a newer one in between.
                known = self._read()
                if self._newer(known, name, serial, digest, signed=signed):
                    self._write({**known, name: {'serial': serial, 'digest': digest, 'signed': signed}})
        except OSError as exc:
            what = f'{self.path}: cannot be written: {exc.strerror}, so that an older catalogue could not be told from a newer'
            raise AccError(what, hint='option [baremetal_acc] catalogue_serial_file names it') from exc

    def _newer(self, known: dict[str, Any], name: str, serial: int | None, digest: str, *, signed: bool) -> bool:
        """Whether there is something to remember.

        :raises CatalogueRefused: it must not be used.
        """
        entry = known.get(name)
        if entry is None:
            return serial is not None
        seen, hint = entry['serial'], f'if that is right, remove its entry from {self.path}'
        if serial is None:
            raise CatalogueRefused(path=name, what=f'has no serial, and serial {seen} was seen before', hint=hint)
        if serial < seen:
            raise CatalogueRefused(path=name, what=f'has serial {serial}, and serial {seen} was seen before', hint=hint)
        if serial == seen and signed and entry['signed'] and digest != entry['digest']:
            what = f'has serial {serial} as another one that was seen before'
            raise CatalogueRefused(path=name, what=what, hint='raise the serial with every change')
        return (serial, digest, signed) != (seen, entry['digest'], entry['signed'])

    def _read(self) -> dict[str, Any]:
        try:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(self.path, flags), 'rb') as stream:
                found = os.fstat(stream.fileno())
                data = stream.read(MAX_SIZE + 1) if stat.S_ISREG(found.st_mode) else b''
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise AccError(f'{self.path}: cannot be read: {exc.strerror}') from exc
        hint = f'move {self.path} away to begin anew; a catalogue that is older than the last one is then not noticed'
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid not in (0, os.geteuid()):
            raise AccError(f'{self.path}: others may write it, and could bring back an older catalogue', hint=hint)
        try:
            raw = json.loads(data) if len(data) <= MAX_SIZE else None
        except (ValueError, RecursionError):
            raw = None
        known = raw.get('catalogues') if isinstance(raw, dict) and raw.get('format') == FORMAT else None
        if not isinstance(known, dict) or not all(_entry(one) for one in known.values()):
            raise AccError(f'{self.path}: cannot be used: it is no file of serials', hint=hint)
        return known

    def _write(self, known: dict[str, Any]) -> None:
        temporary = self.path.with_name(f'.{self.path.name}.{os.getpid()}')
        with suppress(FileNotFoundError):
            temporary.unlink()
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), 'wb') as stream:
            stream.write(json.dumps({'format': FORMAT, 'catalogues': known}, indent=1).encode())
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self.path)


def _entry(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and type(one.get('serial')) is int
        and isinstance(one.get('digest'), str)
        and isinstance(one.get('signed'), bool)
    )

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which is the newest catalogue that we have seen? An older one, though rightly signed, must not come back.

One small JSON file, written atomically, for every catalogue by its path: the highest serial that was signed, and the highest
one that was not. A signed catalogue is compared with signed ones alone: else whoever may write the file once, where signatures
are optional, could lock out the operator's own with a serial that is too high to follow.
"""

import fcntl
import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from baremetal_acc.catalogue.refused import CatalogueRefused
from baremetal_acc.errors import AccError

FORMAT = 1

MAX_SIZE = 1024 * 1024
"""Bytes. An entry takes some two hundred."""

PATIENCE = 10.0
"""Seconds to wait for another process that writes the file; ``PAUSE`` between two tries."""

PAUSE = 0.05

_SIGNED, _UNSIGNED = 'catalogues', 'unsigned'

Known = dict[str, dict[str, Any]]
"""For signed and for unsigned catalogues: serial and digest, by path."""


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
        self._check_folder()
        if self._grown(self._read(), name, serial, digest, signed=signed) is None:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            beside = self.path.with_name(f'{self.path.name}.lock')
            with open(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), 'rb') as lock:
                _take(lock, beside)
                # Read again: another process may have seen a newer one in between.
                grown = self._grown(self._read(), name, serial, digest, signed=signed)
                if grown is not None:
                    self._write(grown)
        except OSError as exc:
            what = f'{self.path}: cannot be written: {exc.strerror}, so that an older catalogue could not be told from a newer'
            raise AccError(what, hint='option [baremetal_acc] catalogue_serial_file names it') from exc

    def _grown(self, known: Known, name: str, serial: int | None, digest: str, *, signed: bool) -> Known | None:
        """What is to be remembered from now on; None where that is what is remembered already.

        :raises CatalogueRefused: it must not be used.
        """
        ours, others = known[_SIGNED].get(name), known[_UNSIGNED].get(name)
        before = [one for one in (ours, None if signed else others) if one is not None]
        seen, hint = max((one['serial'] for one in before), default=-1), f'if that is right, remove its entry from {self.path}'
        if serial is None and before:
            raise CatalogueRefused(path=name, what=f'has no serial, and serial {seen} was seen before', hint=hint)
        if serial is None:
            return None
        if serial < seen:
            raise CatalogueRefused(path=name, what=f'has serial {serial}, and serial {seen} was seen before', hint=hint)
        this = {'serial': serial, 'digest': digest}
        if signed and serial == seen and this != ours:
            what = f'has serial {serial} as another one that was seen before'
            raise CatalogueRefused(path=name, what=what, hint='raise the serial with every change')
        if not signed:
            return None if this == others else {**known, _UNSIGNED: {**known[_UNSIGNED], name: this}}
        rest = {key: one for key, one in known[_UNSIGNED].items() if key != name}
        return None if this == ours and others is None else {_SIGNED: {**known[_SIGNED], name: this}, _UNSIGNED: rest}

    def _check_folder(self) -> None:
        """Who may write the folder may take the file away, and with it what was seen.

        :raises AccError: others may.
        """
        folder = self.path.parent
        try:
            found = folder.stat()
        except FileNotFoundError:
            return
        except OSError as exc:
            raise AccError(f'{folder}: cannot be read: {exc.strerror}') from exc
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            what = f'{folder}: others may write there, and could bring back an older catalogue'
            raise AccError(what, hint=f'chmod go-w {folder}, or name another file by [baremetal_acc] catalogue_serial_file')

    def _read(self) -> Known:
        try:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(self.path, flags), 'rb') as stream:
                found = os.fstat(stream.fileno())
                data = stream.read(MAX_SIZE + 1) if stat.S_ISREG(found.st_mode) else b''
        except FileNotFoundError:
            return {_SIGNED: {}, _UNSIGNED: {}}
        except OSError as exc:
            raise AccError(f'{self.path}: cannot be read: {exc.strerror}') from exc
        hint = f'move {self.path} away to begin anew; a catalogue that is older than the last one is then not noticed'
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid not in (0, os.geteuid()):
            raise AccError(f'{self.path}: others may write it, and could bring back an older catalogue', hint=hint)
        try:
            raw = json.loads(data) if len(data) <= MAX_SIZE else None
        except (ValueError, RecursionError):
            raw = None
        if not isinstance(raw, dict) or raw.pop('format', None) != FORMAT or not _is_known(raw):
            raise AccError(f'{self.path}: cannot be used: it is no file of serials', hint=hint)
        return raw

    def _write(self, known: Known) -> None:
        temporary = self.path.with_name(f'.{self.path.name}.{os.getpid()}')
        with suppress(FileNotFoundError):
            temporary.unlink()
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), 'wb') as stream:
            try:
                stream.write(json.dumps({'format': FORMAT, **known}, indent=1).encode())
                stream.flush()
                os.fsync(stream.fileno())
            except OSError:
                temporary.unlink()
                raise
        temporary.replace(self.path)


def _take(lock: BinaryIO, path: Path) -> None:
    """Wait for the lock, but not for ever: nobody holds it for longer than a file takes to be written.

    :raises AccError: somebody does.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                what = f'{path}: another process has held it for more than {PATIENCE:.0f} seconds'
                raise AccError(what, hint='see which one (fuser), and end it') from None
            time.sleep(PAUSE)
        else:
            return


def _is_known(raw: dict[str, Any]) -> bool:
    return set(raw) == {_SIGNED, _UNSIGNED} and all(
        isinstance(part, dict) and all(_is_entry(one) for one in part.values()) for part in raw.values()
    )


def _is_entry(one: Any) -> bool:
    return isinstance(one, dict) and type(one.get('serial')) is int and isinstance(one.get('digest'), str)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which moves have been begun? A small file for each machine, so that a killed process leaves nothing withdrawn for ever.

::

    moves/NODE.json    written before each act, for the owner's eyes only; deleted when the move has ended
    lock               held by the one process that moves machines; it holds its number
"""

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from baremetal_acc import files
from baremetal_acc.decide.moving import Stage
from baremetal_acc.decide.pool import Move
from baremetal_acc.errors import Refused, StaleJob, StateError
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.placement.shelf import Offered

FORMAT = 1

MAX_SIZE = 1024 * 1024
"""Bytes. A machine with a hundred regions takes 60 KiB."""

_NAME = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json')


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A move, as it is stored.

    :ivar stage: what was to be done when it was stored.
    :ivar offered: what the machine offered before.
    :ivar why: why it is undone; None: it is not.
    """

    move: Move
    stage: Stage
    begun: datetime
    offered: tuple[Offered, ...] = ()
    why: str | None = None
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The moves of one folder.

    :ivar root: made when it is needed, for its owner alone.
    """

    root: Path

    def read(self) -> tuple[Entry, ...]:
        """All, by node.

        :raises StateError: the folder or a file of it cannot be used.
        :raises StaleJob: a file was written by another version, or by somebody else.
        """
        folder = self.root / 'moves'
        with _told(folder):
            if not folder.exists():
                return ()
            _check(folder.stat(), folder)
            names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
        return tuple(self._read(folder / name) for name in names)

    def _read(self, path: Path) -> Entry:
        with _told(path):
            at = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(at, 'rb') as stream:
                _check(os.fstat(at), path)
                data = stream.read(MAX_SIZE + 1)
        try:
            raw = json.loads(data) if len(data) <= MAX_SIZE else None
            if not isinstance(raw, dict) or raw.get('format') != FORMAT:
                raise StaleJob('another format')
            entry = decode(Entry, raw)
            if f'{entry.move.machine}.json' != path.name:
                raise StaleJob('it is about another node')
        except (ValueError, RecursionError, StaleJob) as exc:
            hint = 'see that the node is available and offers what it holds (clean it), then delete the file'
            raise StaleJob(f'{path}: cannot be used: {exc}', hint=hint) from None
        return entry

    def write(self, entry: Entry) -> None:
        """Store it, so that whoever reads sees the old state or the new one, whatever happens to us.

        :raises StateError: it could not be stored; then nothing may be done either.
        """
        path = self._path(entry)
        data = json.dumps(encode(entry), indent=1).encode()
        with _told(path):
            self._make(path.parent)
            files.write(path, data)

    def drop(self, entry: Entry) -> None:
        """The move has ended.

        :raises StateError: its file could not be deleted.
        """
        path = self._path(entry)
        with _told(path), suppress(FileNotFoundError):
            path.unlink()
            files.sync(path.parent)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process moves machines meanwhile. The system frees it with the process, however that ends.

        :raises Refused: another one does.
        """
        path = self.root / 'lock'
        with ExitStack() as stack:
            with _told(path):
                self._make(self.root)
                try:
                    stack.enter_context(files.alone(path))
                except files.Held as exc:
                    raise Refused([f'{exc.who} moves machines of the pools'], hint='wait until it has ended') from None
            yield

    def _path(self, entry: Entry) -> Path:
        name = f'{entry.move.machine}.json'
        if not _NAME.fullmatch(name):
            raise StateError(f'{self.root}: {entry.move.machine!r} is no UUID of a node')
        return self.root / 'moves' / name

    def _make(self, folder: Path) -> None:
        for each in (self.root, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check(each.stat(), each)


def _check(found: os.stat_result, path: Path) -> None:
    if files.others_may_write(found):
        raise StateError(
            f'{path}: others may write it, and could have machines moved', hint=f'see who did, then chmod go-w {path}'
        )


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the system refuses becomes an error that says where."""
    try:
        yield
    except OSError as exc:
        what = 'is a link' if exc.errno == errno.ELOOP else f'cannot be used: {exc.strerror}'
        hint = 'set XDG_STATE_HOME, or [baremetal_acc] state_dir, to a folder of yours, or see to that'
        raise StateError(f'{path}: {what}', hint=hint) from exc

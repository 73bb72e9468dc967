# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep state in a SQLite database that its owner alone may write, and migrate the files of earlier releases into it.

- It has a rollback journal and no write-ahead log: a write-ahead log needs shared memory, which NFS does not have, and readers
  that may write.
- ``synchronous=EXTRA``: what was committed is there after a power failure. ``FULL`` does not sync the folder.
- A connection lasts for one transaction: none is shared by threads, or carried through a fork.
- The file is put in place complete, with its tables, so that an empty file is always a damaged one.
- Only SQLite opens it: the first file descriptor on it that this process closes would end the POSIX locks of all its threads.
"""

import errno
import fcntl
import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from baremetal_acc import atomic_file
from baremetal_acc.errors import Refused, StateError

VERSION = 1
"""Version of the tables of each store, in ``PRAGMA user_version``."""

LARGEST = 4 * 1024 * 1024
"""Limit of a value, and of a row, in bytes. The job of a machine with sixteen cards takes about 100 KiB."""

BUSY_SECONDS = 30.0
"""Seconds to wait for other processes: each holds the database for some milliseconds."""

AGAIN = 'fix the cause, then run the same command again'

_ELSEWHERE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP}
_UNUSABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOLFS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The files in which earlier releases kept the state.

    :ivar at: their file or folder. It becomes a link to the database: an earlier release finds no file of its own there, and
        stops.
    :ivar documents: the files, as patterns within the folder of the database. They are kept, as ``NAME.migrated``.
    :ivar locks: a pattern of the files that an earlier release locks while it works.
    :ivar take: writes the content of one file into the database.
    """

    at: Path
    documents: tuple[str, ...]
    locks: str
    take: Callable[[sqlite3.Connection, Path, bytes], object]

    def is_retired(self, database: Path) -> bool:
        """Whether the link to the database has replaced the earlier file or folder."""
        return self.at.is_symlink() and os.readlink(self.at) == database.name

    def left(self, database: Path) -> list[Path]:
        """Return the files that were not migrated yet."""
        if self.is_retired(database):
            return []
        if self.at.is_dir():
            os.scandir(self.at).close()  # raises where the folder may not be read; glob would find it empty
        return sorted(path for pattern in self.documents for path in database.parent.glob(pattern))

    def retire(self, database: Path) -> None:
        """Rename the files, and put the link in their place.

        :raises StateError: an earlier release has worked here again after the files were migrated.
        """
        if self.is_retired(database):
            return
        whole = self.at.is_dir() and not self.at.is_symlink()
        for path in [self.at] if whole else self.left(database):
            kept = path.with_name(f'{path.name}.migrated')
            if lstat(kept) is not None:
                what = f'{path}: an earlier release has stored state here that {database}, made before, does not contain'
                raise StateError(what, hint=f'decide which state is valid, then move {path} away, or {database} and {kept}')
            path.rename(kept)
        temporary = database.with_name(f'.{database.name}.link')
        with suppress(FileNotFoundError):
            temporary.unlink()
        temporary.symlink_to(database.name)
        temporary.replace(self.at)
        atomic_file.sync(self.at.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """The database of one store.

    :ivar path: of the database; it and its folder are made by the first transaction that writes.
    :ivar tables: SQL that creates its tables.
    :ivar risk: what somebody could do who may write the database, for messages.
    :ivar lost: what to do where it is damaged, for hints.
    :ivar elsewhere: what sets its path, for hints where it cannot be written at all.
    """

    path: Path
    tables: str
    risk: str
    lost: str
    elsewhere: str
    earlier: Earlier

    def select(self, sql: str, *values: object) -> list[Any]:
        """Return the rows of a query; none where there is no database yet.

        :raises StateError: the database cannot be read.
        """
        if not self.prepare():
            return []
        with self._transaction('DEFERRED') as db:
            return db.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction that writes, one at a time. When it ends, all that it wrote is on the disk, or nothing of it.

        :raises StateError: the database cannot be written.
        """
        self.prepare(make=True)
        with self._transaction('IMMEDIATE') as db:
            yield db

    def prepare(self, *, make: bool = False) -> bool:
        """Migrate what an earlier release has left, if that was not done yet. Call it before a lock of such a release is taken.

        :param make: make the database in any case.
        :returns: whether there is a database.
        :raises StateError: others may write it, or it cannot be made.
        """
        with self.explained():
            if make:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                self.check_folder(self.path.parent)
            found = lstat(self.path)
            if found is not None:
                self._check(found)
                if not self.earlier.is_retired(self.path):
                    self._retire()
                return True
            try:
                if not make and not self.earlier.left(self.path):
                    # Nothing is left, either, where another process has migrated it in between.
                    return lstat(self.path) is not None and self.prepare()
                with self._nobody_of_an_earlier_release():
                    self._make()
                    self._retire()
            except OSError as exc:
                # Another process may have migrated it in between: a file is gone, or a link by now.
                if exc.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) or lstat(self.path) is None:
                    raise
            return True

    def check_folder(self, folder: Path) -> None:
        """Refuse a folder in which somebody else may remove or replace files.

        :raises StateError: others may write there.
        :raises OSError: there is no such folder, or its status cannot be read.
        """
        if atomic_file.others_may_write(folder.stat()):
            hint = f'chmod 700 {folder}, as its owner; or {self.elsewhere}'
            raise StateError(f'{folder}: other users may write there, and could {self.risk}', hint=hint)

    @contextmanager
    def alone(self, lock: Path, refusal: str) -> Iterator[None]:
        """Hold a lock file for as long as a job takes; the system frees it with the process, however that ends.

        :param refusal: the message where another process has the lock, with a placeholder for that process.
        :raises Refused: another process has it.
        """
        self.prepare()
        with ExitStack() as stack:
            with self.explained():
                for folder in (self.path.parent, lock.parent):
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self.check_folder(folder)
                try:
                    stack.enter_context(atomic_file.alone(lock))
                except atomic_file.HeldLock as exc:
                    raise Refused([refusal.format(exc.who)], hint='wait until it has ended') from None
            yield

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise errors of the operating system or of SQLite as :class:`StateError`, with the file and what to do.

        :raises StateError: there was one.
        """
        try:
            yield
        except OSError as exc:
            hint = self.elsewhere if exc.errno in _ELSEWHERE else AGAIN
            raise StateError(f'{exc.filename or self.path}: cannot be used: {exc.strerror}', hint=hint) from exc
        except sqlite3.Error as exc:
            raise self._refusal(exc) from exc

    def _refusal(self, exc: sqlite3.Error) -> StateError:
        kind = getattr(exc, 'sqlite_errorcode', sqlite3.SQLITE_CORRUPT) & 0xFF
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            what = f'another process has locked it for more than {BUSY_SECONDS:.0f} seconds'
            return StateError(f'{self.path}: {what}', hint='find that process with fuser, and end it')
        if kind in _UNUSABLE:
            return StateError(f'{self.path}: cannot be written: {exc}', hint=self.elsewhere)
        if kind in _NO_ROOM:
            return StateError(f'{self.path}: cannot be written: {exc}', hint=AGAIN)
        if kind == sqlite3.SQLITE_TOOBIG:
            return StateError(f'{self.path}: a row has more than {LARGEST} bytes: {exc}')
        return StateError(f'{self.path}: cannot be used: {exc}', hint=self.lost)

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            what = 'is a link' if stat.S_ISLNK(found.st_mode) else 'is not a regular file'
            raise StateError(f'{self.path}: {what}', hint=self.lost)
        if atomic_file.others_may_write(found):
            what = f'{self.path}: other users may write it, and could {self.risk}'
            raise StateError(
                what, hint=f'find out whether anyone did, then chmod 600 {self.path}, as its owner; or {self.lost}'
            )
        if found.st_size == 0:
            raise StateError(f'{self.path}: cannot be used: it is empty', hint=self.lost)

    def _connect(self, path: Path) -> sqlite3.Connection:
        uri = f'file:{quote(os.fsencode(path.absolute()))}?mode=rw'
        db = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)
        db.execute('PRAGMA synchronous = EXTRA')
        return db

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """Run a transaction. It is rolled back where the body raises: the connection is closed then."""
        with self.explained(), closing(self._connect(self.path)) as db:
            db.execute(f'BEGIN {kind}')
            [version] = db.execute('PRAGMA user_version').fetchone()
            if version > VERSION:
                what = f'a newer version of baremetal-acc wrote it (version {version}, this one reads {VERSION})'
                raise StateError(f'{self.path}: cannot be used: {what}', hint='use that version; do not move the file away')
            if version < 1:
                raise StateError(f'{self.path}: cannot be used: it has no tables of baremetal-acc', hint=self.lost)
            yield db
            db.execute('COMMIT')

    @contextmanager
    def _nobody_of_an_earlier_release(self) -> Iterator[None]:
        """Hold the locks of earlier releases, so that none of their processes works with the files that are migrated.

        :raises StateError: such a process still runs after :data:`BUSY_SECONDS`.
        """
        until = time.monotonic() + BUSY_SECONDS
        with ExitStack() as stack:
            while self.earlier.left(self.path):
                try:
                    for path in sorted(self.path.parent.glob(self.earlier.locks)):
                        at = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                        stack.callback(os.close, at)
                        fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    stack.close()
                    if time.monotonic() > until:
                        what = f'{path}: a process of an earlier release has locked it, so that its state cannot be migrated'
                        raise StateError(what, hint='wait until that process has ended (fuser shows it)') from None
                    time.sleep(0.05)
            yield

    def _make(self) -> None:
        """Put the database in place with everything that an earlier release has left. Another process may do so first."""
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix='.', suffix='.new')
        os.close(handle)
        try:
            with closing(self._connect(Path(name))) as db:
                db.executescript(f'BEGIN; {self.tables}; PRAGMA user_version = {VERSION}')
                for path in self.earlier.left(self.path):
                    self.check_folder(path.parent)
                    self.earlier.take(db, path, read_document(path))
                db.execute('COMMIT')
            with suppress(FileExistsError):
                os.link(name, self.path)
        finally:
            os.unlink(name)
        atomic_file.sync(self.path.parent)

    def _retire(self) -> None:
        with self._transaction('IMMEDIATE'):
            self.earlier.retire(self.path)


def lstat(path: Path) -> os.stat_result | None:
    """Return the status of what is at a path, without following links; None where there is nothing.

    :raises OSError: it cannot be read, which does not mean that there is nothing.
    """
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def read_document(path: Path) -> bytes:
    """Read a file that an earlier release wrote.

    :raises StateError: others may have written it, or it is too long.
    :raises OSError: it cannot be read.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or atomic_file.others_may_write(found):
            raise StateError(
                f'{path}: is not a file of this user, or other users may write it',
                hint=f'find out who wrote it, then move {path} away',
            )
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise StateError(f'{path}: longer than {LARGEST} bytes', hint=f'find out who wrote it, then move {path} away')
    return data

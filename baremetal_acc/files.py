# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is a file kept that has to be right whatever happens? As a whole or not at all, by one process at a time, by nobody else.

What the system refuses stays an ``OSError`` here: whoever keeps the file says which one it is and what to do.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Held(Exception):
    """Another process has the lock.

    :ivar who: that process, for people.
    """

    def __init__(self, who: str) -> None:
        self.who = who
        super().__init__(who)


def write(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """It is on the disk when this returns: whoever reads sees what was there before, or all of this.

    :param mode: who may read it, less what the umask takes away; as it is, the owner alone.
    :raises OSError: it could not be written, or nobody knows whether it lasts; there is what was there before, or all of this.
    """
    temporary = path.with_name(f'.{path.name}.{os.getpid()}')
    with suppress(FileNotFoundError):
        temporary.unlink()
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), 'wb') as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync(path.parent)


def sync(folder: Path) -> None:
    """What was written, replaced or deleted there is so after a power failure, too.

    :raises OSError: nobody knows.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(at)
    finally:
        os.close(at)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """No other process has this lock meanwhile. The system frees it with the process, however that ends.

    :raises Held: another process has it.
    :raises OSError: the file cannot be opened, or its folder knows no locks.
    """
    at = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(at, 20, 0).decode('ascii', 'replace').strip()
            raise Held(f'process {pid}' if pid.isdigit() else 'another process') from None
        # Who holds it is told to whoever comes second; the lock is good without, on a disk that is full.
        with suppress(OSError):
            os.ftruncate(at, 0)
            os.pwrite(at, f'{os.getpid()}\n'.encode(), 0)
        yield
        with suppress(OSError):
            os.ftruncate(at, 0)
    finally:
        os.close(at)


def others_may_write(found: os.stat_result) -> bool:
    """Somebody else than root and the user who runs this owns the file or folder, or may write it."""
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))

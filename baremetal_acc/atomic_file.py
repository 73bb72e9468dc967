# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write files atomically and durably, and lock a file for one process (flock).

Errors of the operating system are raised as ``OSError``; the caller knows which file it is and what to do.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class HeldLock(Exception):
    """Another process has the lock.

    :ivar who: that process, as text for people.
    """

    def __init__(self, who: str) -> None:
        self.who = who
        super().__init__(who)


def write(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file atomically and durably: a reader sees the old content or all of the new.

    :param mode: the permissions, less the umask; by default for the owner alone.
    :raises OSError: it could not be written, or whether it survives a power failure is unknown; the file has its old content,
        or all of the new. Or it is no regular file, such as a device, which is not replaced.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EEXIST, 'it is not a regular file', str(path))  # root would replace /dev/null
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
    """Make what was written, replaced or deleted in a folder survive a power failure.

    :raises OSError: whether it does is unknown.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(at)
    finally:
        os.close(at)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock file that no other process holds. The system frees it with the process, however that ends.

    :raises HeldLock: another process holds it.
    :raises OSError: the file cannot be opened, or its file system has no locks.
    """
    at = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(at, 20, 0).decode('ascii', 'replace').strip()
            raise HeldLock(f'process {pid}' if pid.isdigit() else 'another process') from None
        # The pid is for the message of the next process; on a full disk the lock holds without it.
        with suppress(OSError):
            os.ftruncate(at, 0)
            os.pwrite(at, f'{os.getpid()}\n'.encode(), 0)
        yield
        with suppress(OSError):
            os.ftruncate(at, 0)
    finally:
        os.close(at)


def others_may_write(found: os.stat_result) -> bool:
    """Whether somebody else than root and the user who runs this owns the file or folder, or may write it."""
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Open files that an operator names, without waiting for a named pipe (FIFO) that no process writes to.

Errors of the operating system are raised as ``OSError``; the caller knows which file it is and what to do.
"""

import os
import stat
from os import PathLike
from typing import BinaryIO


def opened(path: str | PathLike[str]) -> BinaryIO:
    """Open a file, a pipe or a device for reading.

    A FIFO that no process has open for writing is at its end at once. The pipe of a shell's process substitution is read until
    its writer closes it.

    :raises OSError: it cannot be opened.
    """
    stream = open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC))  # noqa: SIM115
    os.set_blocking(stream.fileno(), True)
    return stream


def read(path: str | PathLike[str], limit: int) -> bytes:
    """Read a file or a pipe.

    :param limit: most bytes of the content; one byte more is returned where the content is longer.
    :raises OSError: it cannot be read.
    """
    with opened(path) as stream:
        return stream.read(limit + 1)


def is_regular(path: str | PathLike[str]) -> bool:
    """Whether a path names a regular file, or the null device, which stands for an empty one.

    :raises OSError: its status cannot be read.
    """
    found = os.stat(path)
    return stat.S_ISREG(found.st_mode) or (stat.S_ISCHR(found.st_mode) and os.path.samestat(found, os.stat(os.devnull)))

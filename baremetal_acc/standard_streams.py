# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The standard streams of a program that somebody started with a closed one, or whose reader or disk has gone."""

import os
import sys
from typing import TextIO


def open_closed() -> None:
    """Open the null device for each standard stream that was closed.

    Otherwise the next file that is opened, such as the state of the targets, gets its descriptor, and messages are written into
    that file.
    """
    for number, name in enumerate(('stdin', 'stdout', 'stderr')):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor, which is this one
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, 'w' if number else 'r', encoding='utf-8', closefd=False))  # noqa: SIM115


def discard(stream: TextIO) -> None:
    """Send what a stream still holds to the null device: Python would report the failure again when it ends."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):  # no descriptor is left, or the stream has none
        pass

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The requests of this process that BMCs have not answered yet: who has to wait long inside one of them can say so."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One request.

    :ivar bmc: name and address. ``what``: method and path.
    :ivar since: when it was begun, by the monotonic clock; ``until``: when it is given up.
    """

    bmc: str
    what: str
    since: float
    until: float


_open: dict[int, Pending] = {}
_numbers = itertools.count()


@contextmanager
def waiting(bmc: str, what: str, seconds: float) -> Iterator[None]:
    """While this lasts, a request waits for its answer.

    :param seconds: after which it is given up.
    """
    number, now = next(_numbers), time.monotonic()
    _open[number] = Pending(bmc=bmc, what=what, since=now, until=now + seconds)
    try:
        yield
    finally:
        del _open[number]


def requests() -> tuple[Pending, ...]:
    """Those that wait now. From any thread."""
    return tuple(_open.copy().values())

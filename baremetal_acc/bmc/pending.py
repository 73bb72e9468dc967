# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of this process that BMCs have not answered yet, so that a long wait can be reported to the user."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One request that is not answered yet.

    :ivar bmc: name and address.
    :ivar what: the request: method and path, or the IPMI command.
    :ivar since: when it was begun, by the monotonic clock.
    :ivar until: when it times out, by the monotonic clock.
    """

    bmc: str
    what: str
    since: float
    until: float


_open: dict[int, Pending] = {}
_numbers = itertools.count()


@contextmanager
def waiting(bmc: str, what: str, seconds: float) -> Iterator[None]:
    """Context in which a request counts as pending.

    :param seconds: after which the request times out.
    """
    number, now = next(_numbers), time.monotonic()
    _open[number] = Pending(bmc=bmc, what=what, since=now, until=now + seconds)
    try:
        yield
    finally:
        del _open[number]


def requests() -> tuple[Pending, ...]:
    """The requests that are pending now. May be called from any thread."""
    return tuple(_open.copy().values())

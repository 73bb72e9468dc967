# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Rights of an account on a BMC, and a BMC that refuses our credentials."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from baremetal_acc.model.ref import BmcName


class Right(StrEnum):
    """A right of an account on a BMC: log in and read; write; switch power and restart."""

    READ = 'read'
    WRITE = 'write'
    POWER = 'power'


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRefusal:
    """A BMC that refuses our credentials.

    :ivar right: the right that was refused.
    :ivar times: how often in a row the BMC has refused.
    :ivar at: when the BMC refused last, UTC.
    :ivar what: the BMC's message; ``hint`` is a remedy.
    """

    STORED_NAME: ClassVar = 'TurnedAway'

    bmc: BmcName
    right: Right
    times: int
    at: datetime
    what: str
    hint: str | None = None

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Waivers, with who answers for them and until when, and what a rule relaxes: data that is told and signed."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.ref import AcceleratorId

LONGEST = timedelta(days=366)
"""A year, whichever: who answers for an open path looks at it again at least that often."""

LONGEST_TEXT = 500
"""Characters of a role or a reason: they are told in every plan, verdict and certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """Leave to hand a machine over though no mechanism blocks a write path. It never covers a mechanism that is open.

    :ivar role: the role or the person that answers for it.
    :ivar expires: from then on it is none, UTC.
    """

    role: str
    reason: str
    expires: datetime
    paths: frozenset[WritePath]

    def ended(self, now: datetime) -> bool:
        """It covers nothing any more."""
        return now >= self.expires

    def too_long(self, now: datetime) -> bool:
        """It would hold for longer than any may, so it covers nothing: nobody would look at it again soon enough."""
        return self.expires - now > LONGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Waived:
    """A waiver in use: this path of this device is open, and somebody answers for it.

    :ivar parts: what of the device is open by that path, by name.
    :ivar rule: the rule that demands the path and has the waiver, or what stands for it.
    """

    accelerator: AcceleratorId
    label: str
    path: WritePath
    parts: tuple[str, ...]
    rule: str
    role: str
    reason: str
    expires: datetime


class Relaxed(StrEnum):
    """What a rule, or the node, asks less of than the default for a tenant's machine does."""

    PATHS = 'paths'
    ACCEPT = 'accept'
    EXPOSURE = 'exposure'
    DOWNGRADE = 'downgrade'
    TENANTS_PROGRAM = 'tenants-program'
    MEASURE = 'measure'
    CUSTODY = 'custody'
    ON_DRIFT = 'on-drift'


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """One thing that is asked less of.

    :ivar accelerators: the devices that it is for; empty: all of the node.
    :ivar rule: whose it is; ``default`` where no rule says so.
    :ivar text: what it lets go, as the end of a sentence that begins with the rule.
    """

    kind: Relaxed
    rule: str
    text: str
    accelerators: tuple[AcceleratorId, ...] = ()


END_HINT = 'as 2027-01-31 (it ends as that day begins, UTC) or 2027-01-31T18:00:00Z'
"""How an end is written, for hints."""

_DATE = re.compile(r'\d{4}-\d{2}-\d{2}')


def read_end(text: str) -> datetime | None:
    """The moment that a text means, UTC: the beginning of a day in UTC, or a time with its offset; None: it means none."""
    try:
        found = datetime.fromisoformat(text)
        if _DATE.fullmatch(text):
            return found.replace(tzinfo=UTC)
        return found.astimezone(UTC) if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def end_flaw(end: datetime, now: datetime) -> str | None:
    """Why nobody may answer for anything until then; None: he may."""
    if now < end <= now + LONGEST:
        return None
    return f'{moment(end)} is {"over" if end <= now else "too far ahead"}'


END_LIMIT = f'at most {LONGEST.days} days from now'
"""How far ahead an end may be, for hints."""


def moment(at: datetime) -> str:
    """A time, for people."""
    return f'{at:%Y-%m-%d %H:%M:%S} UTC'

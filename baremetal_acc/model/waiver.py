# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Waivers of open write paths, each with the person who answers for it and its end, and relaxations of a rule.

Both are reported in plans and verdicts, and are signed with the certificate.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.ref import AcceleratorId

LONGEST = timedelta(days=366)
"""The longest term of a waiver or an acceptance: whoever answers for an open path has to decide again at least once a year."""

LONGEST_TEXT = 500
"""Most characters of a role or a reason: they are printed in every plan, verdict and certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """Permission to hand a machine over although no mechanism blocks a write path. It never covers a mechanism that is open.

    :ivar role: the role or the person that answers for the open path.
    :ivar expires: when the waiver ends, UTC.
    """

    role: str
    reason: str
    expires: datetime
    paths: frozenset[WritePath]

    def ended(self, now: datetime) -> bool:
        """Tell whether the waiver has ended."""
        return now >= self.expires

    def too_long(self, now: datetime) -> bool:
        """Tell whether the waiver lasts longer than any may: then it covers nothing, for nobody would review it soon enough."""
        return self.expires - now > LONGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Waived:
    """A waiver in use: this path of this device is open, and somebody answers for it.

    :ivar parts: names of the parts of the device that are open by that path.
    :ivar rule: the rule that demands the path and has the waiver, or what takes its place.
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
    """A demand for which a rule, or the node, asks less than the default for a tenant's machine."""

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
    """One demand that is weaker than the default.

    :ivar accelerators: the devices that it is for; empty for the whole node.
    :ivar rule: the rule that relaxes the demand; ``default`` where no rule does.
    :ivar text: the effect of the relaxation, as the end of a sentence that begins with the rule.
    """

    kind: Relaxed
    rule: str
    text: str
    accelerators: tuple[AcceleratorId, ...] = ()


END_HINT = 'as 2027-01-31 (it ends as that day begins, UTC) or 2027-01-31T18:00:00Z'
"""The format of an end, for hints."""

_DATE = re.compile(r'\d{4}-\d{2}-\d{2}')


def read_end(text: str) -> datetime | None:
    """Return the time that a text means, UTC; None where the text is no date and no time with an offset.

    A date is the beginning of that day in UTC.
    """
    try:
        found = datetime.fromisoformat(text)
        if _DATE.fullmatch(text):
            return found.replace(tzinfo=UTC)
        return found.astimezone(UTC) if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def end_flaw(end: datetime, now: datetime) -> str | None:
    """Return why nobody may answer for anything until that time; None where somebody may."""
    if now < end <= now + LONGEST:
        return None
    return f'{moment(end)} is {"over" if end <= now else "too far ahead"}'


END_LIMIT = f'at most {LONGEST.days} days from now'
"""The longest term until an end, for hints."""


def moment(at: datetime) -> str:
    """Format a time for people."""
    return f'{at:%Y-%m-%d %H:%M:%S} UTC'

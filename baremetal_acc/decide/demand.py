# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Who waits for which function, and is there one for him now?

A demand waits, then a region is being given its function, then one is schedulable: it can be claimed, by whoever comes first.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from baremetal_acc.decide.pool import Demand


class Progress(StrEnum):
    """How far it has come with a demand."""

    WAITING = 'waiting'
    PROGRAMMING = 'programming'
    SCHEDULABLE = 'schedulable'


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A demand, and how far it has come with it.

    :ivar source: who told it: file, http or nova.
    :ivar since: when its progress became what it is; of one that waits, when it was told.
    """

    demand: Demand
    source: str
    since: datetime
    progress: Progress = Progress.WAITING

    @property
    def took(self) -> timedelta | None:
        """From when it was told until its function was schedulable; None: it is not yet."""
        return self.since - self.demand.at if self.progress is Progress.SCHEDULABLE else None

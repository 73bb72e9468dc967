# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One action that is due in a turn of a job, with all that it is done with."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from baremetal_acc.decide.advance import ended, with_item
from baremetal_acc.errors import AccError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Item, ItemState, Job
from baremetal_acc.run.looking import Bmcs
from baremetal_acc.run.patience import not_performed
from baremetal_acc.run.tools import Target, Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """One action that is due, and was stored as about to be done. What becomes of it is the job with its item changed.

    :ivar position: of its item in the job.
    :ivar inventory: a look of this turn; None where the action needs none.
    """

    job: Job
    position: int
    target: Target
    tools: Tools
    bmcs: Bmcs
    inventory: Inventory | None
    now: datetime

    @property
    def item(self) -> Item:
        """The item of the action."""
        return self.job.items[self.position]

    def of(self, job: Job) -> Self:
        """The same action of a job that has changed."""
        return replace(self, job=job)

    def at(self, position: int) -> Self:
        """Another action of the same job."""
        return replace(self, position=position)

    def with_item(self, item: Item) -> Job:
        """The job with the item changed."""
        return with_item(self.job, self.position, item)

    def done(self, message: str | None = None) -> Job:
        """The job after the action was done."""
        return ended(self.job, self.position, ItemState.DONE, self.now, message)

    def failed(self, why: str | None, *, untouched: bool = False) -> Job:
        """The job after the action has failed.

        :param untouched: nothing has reached the device.
        """
        return ended(self.job, self.position, ItemState.FAILED, self.now, why, untouched=untouched)

    def not_performed(self, exc: AccError) -> Job:
        """As :func:`~baremetal_acc.run.patience.not_performed`."""
        return not_performed(self.job, self.position, exc, self.tools.patience, self.now)

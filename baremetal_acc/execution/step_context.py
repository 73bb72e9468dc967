# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Hold one due action of a job together with what it is performed with (:class:`StepContext`)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from baremetal_acc.errors import AccError
from baremetal_acc.execution.context import Target, Tools
from baremetal_acc.execution.observation import Bmcs
from baremetal_acc.execution.retry_policy import not_performed
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.planning.job_items import ended, with_item


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """One action that is due, and was stored as about to be performed.

    The result of an action is the job with its item changed.

    :ivar position: of its item in the job.
    :ivar inventory: an inspection of this turn; None where the action needs none.
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
        """Return the same action, in a job that has changed."""
        return replace(self, job=job)

    def at(self, position: int) -> Self:
        """Return another action of the same job."""
        return replace(self, position=position)

    def with_item(self, item: Item) -> Job:
        """Return the job with the item changed."""
        return with_item(self.job, self.position, item)

    def done(self, message: str | None = None) -> Job:
        """Return the job with the action done."""
        return ended(self.job, self.position, ItemState.DONE, self.now, message)

    def failed(self, why: str | None, *, untouched: bool = False) -> Job:
        """Return the job with the action failed.

        :param untouched: nothing has reached the device.
        """
        return ended(self.job, self.position, ItemState.FAILED, self.now, why, untouched=untouched)

    def not_performed(self, exc: AccError) -> Job:
        """As :func:`~baremetal_acc.execution.retry_policy.not_performed`."""
        return not_performed(self.job, self.position, exc, self.tools.patience, self.now)

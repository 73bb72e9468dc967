# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Define the interface of attach drivers (:class:`AttachDriver`), and the values that they are given and return.

A driver only decides: it does not read or write BMCs, never sleeps, and keeps nothing between calls. It returns what has to be
done, and a job does that: with locks, checked images and a final inspection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.attach import (
    Attached,
    AttachHandle,
    Attachment,
    AttachState,
    Claim,
    FunctionAssignment,
    HandleType,
    Place,
)
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.scheduling.schedulable import Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a driver gets to know of the instance and its machine.

    :ivar instance: UUID of the instance.
    :ivar inventory: the present inventory of the machine.
    :ivar supply: how its devices can be claimed, by the rules, and what their slots verifiably hold by them.
    :ivar holds: the function of the catalogue that each slot holds, whatever the rules say of it.
    :ivar asked: functions that the flavor of the instance requires by its traits.
    """

    instance: str
    inventory: Inventory
    supply: Supply
    holds: Mapping[Place, str]
    asked: tuple[str, ...] = ()

    def accelerator(self, claim: Claim | Attachment) -> Accelerator | None:
        """Return the device of a claim or attachment, if the machine shows it."""
        return self.inventory.accelerator(claim.accelerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedAttachment:
    """What the devices of some attachments need.

    :ivar attachments: as they will be.
    :ivar gives: functions to program. A slot that holds its function already may be among them: it is not written again.
    """

    attachments: tuple[Attachment, ...]
    gives: tuple[FunctionAssignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachUndo:
    """What has to be done to restore the devices of some attachments.

    :ivar gives: functions to program for that, in this order.
    :ivar kept: by provider, why a device or slot stays as it is, which harms nobody.
    """

    gives: tuple[FunctionAssignment, ...] = ()
    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class AttachDriver(Protocol):
    """A driver of the entry point group ``baremetal_acc.attach``. Each method is called once for all attachments of the driver.

    An exception of a method fails what it was called for, with the name of the driver; the attachments of other drivers are
    restored as if this driver were not there.
    """

    name: str
    """The same as its entry point."""

    def can_handle(self, claim: Claim) -> bool:
        """Whether the driver takes such a claim. The first driver that does gets it: those of other packages before ours."""

    def get_devices(self, claims: Sequence[Claim], around: Around) -> tuple[Attachment, ...]:
        """Return the attachments of an instance: one for each claim, with its handle."""

    def prepare(self, attachments: Sequence[Attachment], around: Around) -> PreparedAttachment:
        """Return what the attachments will be, and what has to be done for that.

        :raises AccError: it cannot be done; names which attachment, and why.
        """

    def post_plug(self, attachments: Sequence[Attachment], around: Around) -> tuple[str, ...]:
        """Return what is not as promised right before the machine is handed over, a sentence for each; none if all is well."""

    def unprepare(self, attachments: Sequence[Attachment], around: Around) -> AttachUndo:
        """Return what restores the devices of attachments, in the reverse order of their preparation.

        Each device was written to for the instance, or may have been. The instance may be gone, and so may the device.
        """


__all__ = [
    'Around',
    'AttachDriver',
    'AttachHandle',
    'AttachState',
    'AttachUndo',
    'Attached',
    'Attachment',
    'Claim',
    'FunctionAssignment',
    'HandleType',
    'Place',
    'PreparedAttachment',
    'Supply',
]

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an attach driver has to offer.

A driver decides and does nothing itself: it reads no BMC and writes to none, sleeps never, and keeps nothing between calls.
What it wants done it returns, and the one job machinery does it: with locks, images that are checked, and a look at the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from baremetal_acc.decide.offer import Supply
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.attach import Attached, AttachHandle, Attachment, AttachState, Claim, Give, HandleType, Place
from baremetal_acc.model.inventory import Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a driver may know.

    :ivar instance: UUID of the instance.
    :ivar inventory: a look at the machine of now.
    :ivar supply: how its devices can be claimed, by the rules, and what their slots verifiably hold by them.
    :ivar holds: the function of the catalogue that each slot holds, whatever the rules say of it.
    :ivar asked: functions that the flavor of the instance asks for by its traits.
    """

    instance: str
    inventory: Inventory
    supply: Supply
    holds: Mapping[Place, str]
    asked: tuple[str, ...] = ()

    def accelerator(self, claim: Claim | Attachment) -> Accelerator | None:
        """The device, if the machine shows it."""
        return self.inventory.accelerator(claim.accelerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the device half of some attachments takes.

    :ivar attachments: as they will be.
    :ivar gives: what has to be done for that. What is so already may be among it: it is not written again.
    """

    attachments: tuple[Attachment, ...]
    gives: tuple[Give, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What brings some attachments back.

    :ivar gives: what has to be done for that, in this order.
    :ivar kept: by provider why it stays as it is, which harms nobody.
    """

    gives: tuple[Give, ...] = ()
    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class AttachDriver(Protocol):
    """An entry point of the group ``baremetal_acc.attach``. Each method is called once for all that it is asked of.

    An exception of a method fails what it was called for, with the name of the driver; the attachments of other drivers are
    brought back as if it were not there.
    """

    name: str
    """The same as its entry point."""

    def can_handle(self, claim: Claim) -> bool:
        """Whether it looks after such a claim. The first driver that says so gets it: others' before those that we ship."""

    def get_devices(self, claims: Sequence[Claim], around: Around) -> tuple[Attachment, ...]:
        """The attachments of an instance: one for each claim, with its handle."""

    def prepare(self, attachments: Sequence[Attachment], around: Around) -> Prepared:
        """What they will be, and what has to be done for it.

        :raises AccError: it cannot be done; names which one, and why.
        """

    def post_plug(self, attachments: Sequence[Attachment], around: Around) -> tuple[str, ...]:
        """What is not as it was promised, right before the machine is handed over: a sentence for each; none if all is."""

    def unprepare(self, attachments: Sequence[Attachment], around: Around) -> Undo:
        """What brings them back, the last that was prepared first.

        Each of these was written to for the instance, or may have been. The instance may be gone, and so may the device.
        """


__all__ = [
    'Around',
    'AttachDriver',
    'AttachHandle',
    'AttachState',
    'Attached',
    'Attachment',
    'Claim',
    'Give',
    'HandleType',
    'Place',
    'Prepared',
    'Supply',
    'Undo',
]

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The changes that a comparison of two inventories reports."""

from dataclasses import dataclass
from enum import StrEnum

from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.subject import Subject


class ChangeKind(StrEnum):
    """Kinds of changes.

    ``swapped``: another card at the same place. ``moved``: the same card at another place. ``identity``: a card at the same
    place with another identity than before, and nothing says that it is another card. ``device``: kind, model or ids of a card
    changed. ``write-path``: how well a write path is blocked changed. ``not-seen`` and ``unreadable`` are gaps.
    """

    GONE = 'gone'
    SWAPPED = 'swapped'
    MOVED = 'moved'
    NEW = 'new'
    IDENTITY = 'identity'
    DEVICE = 'device'
    FIRMWARE = 'firmware'
    FUNCTION = 'function'
    LOCK = 'lock'
    PATH = 'write-path'
    NOT_SEEN = 'not-seen'
    UNREADABLE = 'unreadable'


@dataclass(frozen=True, slots=True, kw_only=True)
class CardNamed:
    """A card, by its label and identity."""

    label: str
    id: AcceleratorId


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSaying:
    """A card of the same identity, by the properties that differed: names and earlier values."""

    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A version, and another version that takes effect at the next reset."""

    version: str | None
    staged: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotContent:
    """What a slot holds: Id, version and UUID of its function, as far as they are reported; no parts if the slot is empty."""

    parts: tuple[str, ...] = ()


Value = str | bool | CardNamed | CardSaying | Staged | SlotContent
"""A compared value: a text of the BMC; of a slot, also whether the host may program it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcsNotAsked:
    """A card could not be seen, because none of its BMCs was asked."""

    names: tuple[BmcName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindGap:
    """A card may be hidden by a resource that could not be read."""

    gap: Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class WasHidden:
    """A new card may have been present before, but hidden."""

    by: BmcsNotAsked | BehindGap


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownByUri:
    """A card is identified only by its URI: another card of its kind at the same place would not be noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameCard:
    """Why two identities are those of one card; ``proof`` None: nobody can tell whether they are."""

    proof: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """A value could not be read."""

    gap: Gap


Reason = BmcsNotAsked | BehindGap | WasHidden | KnownByUri | SameCard | NotRead


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between two inventories. :mod:`baremetal_acc.render.changes` renders the sentence.

    :ivar accelerator: the device; of a swapped card, the card that is there now.
    :ivar subject: its name is shortened by :func:`~baremetal_acc.planning.drift.shown`.
    :ivar was: the earlier value; None if there was none.
    :ivar found: the value in the later inventory; None if there is none.
    :ivar ref: the resource that reports it, or did; or None.
    :ivar reason: why it could not be read, or what else an operator has to know.
    """

    kind: ChangeKind
    accelerator: AcceleratorId
    label: str
    subject: Subject
    was: Value | None
    found: Value | None
    ref: Ref | None = None
    reason: Reason | None = None

    @property
    def certain(self) -> bool:
        """Whether something has changed; False if it only could not be read."""
        return self.kind not in (ChangeKind.NOT_SEEN, ChangeKind.UNREADABLE)

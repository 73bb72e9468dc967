# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What was a demand let go for, by whom and until when? Waivers, and what a rule relaxes, as data that is told and signed."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.ref import AcceleratorId


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

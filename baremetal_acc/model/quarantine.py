# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The mark of a device that nobody may use."""

from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.model.ref import AcceleratorId, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A device that nobody may use: a write to it failed, and what was there before could not be put back.

    :ivar since: UTC.
    :ivar why: what it shows, and what was tried.
    :ivar firmware: its firmware is not to be trusted; False: only a slot's function is not.
    :ivar refs: what was written to: whatever stands there later is quarantined, too, however it calls itself.
    :ivar anew: what of it has to be written well, if the device shows it still.
    """

    device: AcceleratorId
    since: datetime
    why: str
    firmware: bool = True
    refs: tuple[Ref, ...] = ()
    anew: tuple[Ref, ...] = ()

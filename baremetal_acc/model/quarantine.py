# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The quarantine mark of a device that nobody may use after a failed write."""

from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.model.ref import AcceleratorId, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A device that nobody may use: a write to it failed, and the earlier firmware or function could not be restored.

    :ivar since: when the quarantine began, UTC.
    :ivar why: the state of the device, and what was tried.
    :ivar firmware: its firmware is not to be trusted; False where only the function of a slot is not.
    :ivar refs: the resources that were written: any device that has one of them later is quarantined, too, whatever its
        identity is then.
    :ivar anew: the resources that have to be written successfully, of those that the device still shows.
    """

    device: AcceleratorId
    since: datetime
    why: str
    firmware: bool = True
    refs: tuple[Ref, ...] = ()
    anew: tuple[Ref, ...] = ()

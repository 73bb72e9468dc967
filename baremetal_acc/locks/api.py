# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a lock mechanism has to offer."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from baremetal_acc.bmc.api import Reader, Writer
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, WritePath


class Mechanism(Protocol):
    """An entry point of the group ``baremetal_acc.locks``.

    A mechanism only ever reports ``locked-reported``, ``pending-reset``, ``partial``, ``unlocked`` or ``unknown``; a device it
    does not apply to gives no reading at all. ``locked-verified`` is said by :mod:`baremetal_acc.decide.evidence` alone.
    """

    name: str
    """The same as its entry point."""

    blocks: frozenset[WritePath]
    """The paths it blocks when it holds."""

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Read every place at which this mechanism protects this device.

        A place that exists and cannot be read gives a reading ``unknown`` with the reason; it never raises for that.

        :param readers: those of all BMCs on which the device has resources.
        """

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """Close the lock at the place of a reading. Whether it holds is seen by reading again, over another session.

        :raises BmcError: it was not accepted.
        """

    def release(self, writer: Writer, reading: LockReading) -> None:
        """Open the lock at the place of a reading.

        :raises BmcError: it was not accepted.
        """

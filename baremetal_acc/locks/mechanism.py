# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Define the interface of lock mechanisms (:class:`Mechanism`), and what each says of itself (:class:`MechanismInfo`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from baremetal_acc.bmc.driver import CardLead, Lead, Reader, Writer
from baremetal_acc.locks.harmless_write import HarmlessWrite
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, ResetKind, Scope, WritePath


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismInfo:
    """The facts about a mechanism. The support matrix of the docs is made from this, so every mechanism states all of them.

    :ivar hardware: on what it is found, in one line.
    :ivar blocks: the write paths that it blocks when it holds.
    :ivar protects: what a reading of it may be for: one card, its firmware, one item, one slot, or ``bmc``: every device of the
        machine, as far as it is reached through that BMC.
    :ivar needs: the reset that a change needs before it is in effect.
    :ivar wraps: while it holds the BMC refuses to change any other setting, so it is released first and engaged last.
    :ivar volatile: a restart of its BMC, also by the loss of standby power, may release it: it is engaged once more after that.
    :ivar licence: without which the BMC refuses it; None: no licence is known to be needed.
    :ivar read_back: where its state is read.
    :ivar cannot_prove: what a reading leaves open.
    :ivar source: of these facts: specification and section, or the code and recordings that show it.
    :ivar harmless: writes of the host by which the lock can be tried, at most one for each path that it blocks; a path without
        one cannot be tried without writing firmware or a setting that matters, or no source says what the lock does to a write.
    """

    hardware: str
    blocks: frozenset[WritePath]
    protects: frozenset[Scope]
    read_back: str
    cannot_prove: str
    source: str
    needs: ResetKind = ResetKind.NONE
    wraps: bool = False
    volatile: bool = False
    licence: str | None = None
    harmless: tuple[HarmlessWrite, ...] = ()


class Mechanism(Protocol):
    """A lock mechanism of the entry point group ``baremetal_acc.locks``.

    A mechanism only ever reports ``locked-reported``, ``pending-reset``, ``partial``, ``unlocked`` or ``unknown``; for a device
    that it does not apply to it gives no reading at all. ``locked-verified`` is decided by
    :mod:`baremetal_acc.planning.lock_evidence` alone.
    """

    name: str
    """The same as its entry point."""

    about: MechanismInfo

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Read every lock by which this mechanism protects this device.

        A lock that exists and cannot be read gives a reading ``unknown`` with the reason; this never raises an error.

        :param readers: those of all BMCs on which the device has resources.
        """

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """Engage the lock of a reading. Whether it holds is seen by reading again, over another session.

        :raises BmcError: it was not accepted.
        """

    def release(self, writer: Writer, reading: LockReading) -> None:
        """Release the lock of a reading.

        :raises BmcError: it was not accepted.
        """


@runtime_checkable
class Leading(Protocol):
    """A mechanism that names the resources of its locks, so that they are read together with the devices and not after them."""

    leads: tuple[Lead | CardLead, ...]
    """What :meth:`Mechanism.read` reads on a BMC that has the mechanism; nothing that it does not read."""


@runtime_checkable
class StatefulMechanism(Mechanism, Protocol):
    """A mechanism that can only release what we have closed, from our records: it has no single open state.

    Its readings say what engaging would close (:attr:`LockReading.closes`), which is stored before it is engaged. All of its
    readings do, if only by an empty text: a plan that would have to release a lock without a record is refused.
    """

    def engage(self, writer: Writer, reading: LockReading, closed: Iterable[str] = ()) -> None:
        """Engage the lock.

        :param closed: ``closes`` of the readings with which it was engaged, now and before.
        :raises BmcError: it was not accepted; or something that was closed before is open, and cannot be closed any more.
        """

    def reopen(self, writer: Writer, reading: LockReading, closed: Iterable[str]) -> None:
        """Open what was closed; used instead of :meth:`release`.

        :param closed: ``closes`` of the readings with which it was engaged; empty where there is no record.
        :raises BmcError: it was not accepted, or it is not known what to open.
        """

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a lock mechanism has to offer."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from baremetal_acc.bmc.api import CardLead, Lead, Reader, Writer
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, ResetKind, Scope, WritePath


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a mechanism says of itself. The support matrix of the docs is made from this, so every mechanism says all of it.

    :ivar hardware: on what it is found, in one line.
    :ivar blocks: the write paths that it blocks when it holds.
    :ivar protects: what a reading of it may be for: one card, its firmware, one item, one slot, or ``bmc``: every device of the
        machine, as far as it is reached through that BMC.
    :ivar needs: the reset that a change needs before it is in force.
    :ivar wraps: while it holds the BMC refuses to change any other setting, so it is opened first and closed last.
    :ivar volatile: a restart of its BMC may open it, be it by the loss of standby power: it is closed once more after that.
    :ivar licence: without which the BMC refuses it; None: no licence is known to be needed.
    :ivar read_back: where its state is read.
    :ivar cannot_prove: what a reading leaves open.
    :ivar source: of these facts: specification and section, or the code and recordings that show it.
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


class Mechanism(Protocol):
    """An entry point of the group ``baremetal_acc.locks``.

    A mechanism only ever reports ``locked-reported``, ``pending-reset``, ``partial``, ``unlocked`` or ``unknown``; a device it
    does not apply to gives no reading at all. ``locked-verified`` is said by :mod:`baremetal_acc.decide.evidence` alone.
    """

    name: str
    """The same as its entry point."""

    about: About

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


@runtime_checkable
class Leading(Protocol):
    """A mechanism that names the places of its locks, so that they are read beside the devices and not after them."""

    leads: tuple[Lead | CardLead, ...]
    """What :meth:`Mechanism.read` asks for on a BMC that has the mechanism; nothing that it does not ask for."""


@runtime_checkable
class Remembering(Mechanism, Protocol):
    """A mechanism of which releasing is to open what we have closed, and nothing else: there is no one open state.

    Its readings say what engaging would close (:attr:`LockReading.closes`), which is stored before it is engaged. All of them
    do, by an empty word if by no other: a plan that would have to open one of them is refused where nobody remembers.
    """

    def engage(self, writer: Writer, reading: LockReading, closed: Iterable[str] = ()) -> None:
        """Close it.

        :param closed: ``closes`` of the readings with which it was engaged, now and before.
        :raises BmcError: it was not accepted; or something that was closed before is open, and cannot be closed any more.
        """

    def reopen(self, writer: Writer, reading: LockReading, closed: Iterable[str]) -> None:
        """Open what was closed; used instead of :meth:`release`.

        :param closed: ``closes`` of the readings with which it was engaged; empty where nobody remembers.
        :raises BmcError: it was not accepted, or nobody knows what to open.
        """

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Limit what is shown and written to the resources of the machine (the Redfish System) that the target names.

A BMC may serve several machines, each with its own tenant. Resources of another machine are not shown. Resources of the target
and of another machine are shared: they are read, and never written. A device that the BMC attributes to no machine may be the
target's, so it is reported as a gap that may hide a device. If the target names no machine, everything of a BMC with several
machines is shared.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Gap, PlatformDevice
from baremetal_acc.model.lock import LockReading
from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.ref import BmcName, Ref

UNATTRIBUTED = 'belongs to one of several machines of this BMC, and the BMC does not say to which: it may belong to this target'

CANNOT_LIMIT = 'the target names a System, but this BMC does not distinguish Systems: it is unknown what belongs to the target'


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLimit:
    """The part of one BMC that belongs to the target.

    :ivar named: URIs of the Systems of this BMC that the target names.
    :ivar ownership: which machines own a resource, as the BMC reports; None if its protocol knows only one machine.
    :ivar own: the System that this entry of the target names; ``before`` those that earlier entries name. A target may name the
        BMC once for each of its Systems: each entry shows the resources of its System, and what several Systems share is shown
        by the first.
    """

    bmc: BmcName
    named: frozenset[str]
    ownership: Ownership | None
    own: str | None = None
    before: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether all of the BMC belongs to the target."""
        if self.ownership is None:
            return not self.named
        # A named System that does not exist is no machine: then nothing belongs to the target.
        return len(self.ownership.machines) < 2 and self.named <= self.ownership.machines

    @property
    def of_several(self) -> bool:
        """Whether the BMC serves several machines."""
        return self.ownership is not None and len(self.ownership.machines) > 1

    @property
    def has_all(self) -> bool:
        """Whether the BMC serves no machine outside the target."""
        return self.is_whole or (self.ownership is not None and self.of_several and self.ownership.machines <= self.named)

    def may_write(self, uri: str) -> bool:
        """Whether the resource belongs only to the target."""
        return self.is_whole or (self.ownership is not None and bool(of := self.ownership.of(uri)) and of <= self.named)

    def is_foreign(self, uri: str) -> bool:
        """Whether the resource belongs only to other machines."""
        if self.is_whole or self.ownership is None or not self.named:
            return False
        of = self.ownership.of(uri)
        return bool(of) and of.isdisjoint(self.named)

    def is_shown_elsewhere(self, uri: str) -> bool:
        """Whether another entry of the target, for another System of this BMC, shows the resource."""
        if self.ownership is None or self.own is None or not self.of_several:
            return False
        of = self.ownership.of(uri) & self.named
        return bool(of) and (self.own not in of or not of.isdisjoint(self.before))

    def others(self, uri: str) -> tuple[str, ...]:
        """Return the machines outside the target that own a resource; all others if the BMC does not say."""
        if self.ownership is None:
            return ()
        return tuple(sorted((self.ownership.of(uri) or self.ownership.machines) - self.named))

    def _is_unattributed(self, uri: str) -> bool:
        return not self.is_whole and bool(self.named) and (self.ownership is None or not self.ownership.of(uri))

    def accelerators(self, found: Iterable[Accelerator]) -> tuple[tuple[Accelerator, ...], tuple[Gap, ...]]:
        """Return the devices to show, and a gap for each device whose machine nobody knows."""
        shown, gaps = [], []
        for a in found:
            if self._is_unattributed(a.primary.uri):
                gaps.append(Gap(ref=a.primary, reason=UNATTRIBUTED, hides=True))
            elif not self.is_foreign(a.primary.uri) and not self.is_shown_elsewhere(a.primary.uri):
                shown.append(a)
        return tuple(shown), tuple(gaps)

    def platform_devices(self, found: Iterable[PlatformDevice]) -> tuple[PlatformDevice, ...]:
        """Return the baseboard parts that do not belong to another machine."""
        return tuple(p for p in found if not self.is_foreign(p.ref.uri) and not self.is_shown_elsewhere(p.ref.uri))

    def gaps(self, found: Iterable[Gap], shown: Iterable[Accelerator]) -> tuple[Gap, ...]:
        """Return the gaps that do not belong to another machine, without the identities of devices that are not shown."""
        ids = {a.id for a in shown}
        mine = (g for g in found if not self.is_foreign(g.ref.uri) and not self.is_shown_elsewhere(g.ref.uri))
        kept = [g if g.accelerator is None or g.accelerator in ids else replace(g, accelerator=None) for g in mine]
        if self.ownership is None and self.named:
            kept.append(Gap(ref=Ref(bmc=self.bmc, uri=min(self.named)), reason=CANNOT_LIMIT, hides=True))
        return tuple(kept)

    def readings(self, found: Iterable[LockReading]) -> tuple[LockReading, ...]:
        """Return the lock readings at places that do not belong to another machine. Readings of other BMCs are not limited."""
        return tuple(r for r in found if r.ref.bmc != self.bmc or not self.is_foreign(r.ref.uri))

    def shared(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        """Return those resources of the BMC that do not belong to the target alone."""
        if self.is_whole:
            return frozenset()
        return frozenset(ref for ref in refs if ref.bmc == self.bmc and not self.may_write(ref.uri))


def written_places(accelerator: Accelerator) -> tuple[Ref, ...]:
    """Return every resource that may be written for a device, or that is reset for it."""
    items = (s.item.ref for s in accelerator.slots if s.item is not None)
    locks = (ref for r in accelerator.locks for ref in (r.ref, r.reset) if ref is not None)
    return (*accelerator.refs, *(c.ref for c in accelerator.firmware), *items, *locks)

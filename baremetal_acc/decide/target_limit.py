# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Limit what is seen and what may be written to the machine that the target names.

A BMC may serve several machines, each with a tenant of its own. What belongs to another machine is not shown. What belongs to
the target's and to another one is shared: it is read, and never written. What the BMC attributes to none may be the target's,
so that it is a gap that hides. Where no machine is named, all of a BMC with several is shared.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Gap, PlatformDevice
from baremetal_acc.model.lock import LockReading
from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.ref import BmcName, Ref

UNATTRIBUTED = 'belongs to one of several machines of this BMC, and nothing says to which: it may be one of this target'

CANNOT_LIMIT = 'a System is named, and this BMC tells none from another: nobody can tell what belongs to the target'


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLimit:
    """What of one BMC is the target's.

    :ivar named: URIs of the Systems of this BMC that the target names.
    :ivar ownership: what the BMC says of whose its resources are; None where its protocol knows one machine only.
    :ivar own: the one of them that this entry of the target names; ``before`` those that entries before it name. A target may
        name the BMC once for each of its Systems: each entry shows what is its System's, and the first what several have.
    """

    bmc: BmcName
    named: frozenset[str]
    ownership: Ownership | None
    own: str | None = None
    before: frozenset[str] = frozenset()

    @property
    def is_whole(self) -> bool:
        """All of the BMC is the target's."""
        if self.ownership is None:
            return not self.named
        # What is named and is not there is no machine: then nothing is the target's.
        return len(self.ownership.machines) < 2 and self.named <= self.ownership.machines

    @property
    def of_several(self) -> bool:
        """The BMC serves several machines."""
        return self.ownership is not None and len(self.ownership.machines) > 1

    @property
    def has_all(self) -> bool:
        """The BMC serves no machine that is not the target's."""
        return self.is_whole or (self.ownership is not None and self.of_several and self.ownership.machines <= self.named)

    def may_write(self, uri: str) -> bool:
        """The resource belongs to the target and to nobody else."""
        return self.is_whole or (self.ownership is not None and bool(of := self.ownership.of(uri)) and of <= self.named)

    def is_foreign(self, uri: str) -> bool:
        """The resource belongs to other machines only."""
        if self.is_whole or self.ownership is None or not self.named:
            return False
        of = self.ownership.of(uri)
        return bool(of) and of.isdisjoint(self.named)

    def is_shown_elsewhere(self, uri: str) -> bool:
        """Another entry of the target, for another System of this BMC, shows the resource."""
        if self.ownership is None or self.own is None or not self.of_several:
            return False
        of = self.ownership.of(uri) & self.named
        return bool(of) and (self.own not in of or not of.isdisjoint(self.before))

    def others(self, uri: str) -> tuple[str, ...]:
        """The machines that a resource belongs to besides the target's; all others where the BMC does not say."""
        if self.ownership is None:
            return ()
        return tuple(sorted((self.ownership.of(uri) or self.ownership.machines) - self.named))

    def _is_unattributed(self, uri: str) -> bool:
        return not self.is_whole and bool(self.named) and (self.ownership is None or not self.ownership.of(uri))

    def accelerators(self, found: Iterable[Accelerator]) -> tuple[tuple[Accelerator, ...], tuple[Gap, ...]]:
        """The devices that are shown, and a gap for each of which nobody knows whose it is."""
        shown, gaps = [], []
        for a in found:
            if self._is_unattributed(a.primary.uri):
                gaps.append(Gap(ref=a.primary, reason=UNATTRIBUTED, hides=True))
            elif not self.is_foreign(a.primary.uri) and not self.is_shown_elsewhere(a.primary.uri):
                shown.append(a)
        return tuple(shown), tuple(gaps)

    def platform_devices(self, found: Iterable[PlatformDevice]) -> tuple[PlatformDevice, ...]:
        """Parts of the baseboard that are not another machine's."""
        return tuple(p for p in found if not self.is_foreign(p.ref.uri) and not self.is_shown_elsewhere(p.ref.uri))

    def gaps(self, found: Iterable[Gap], shown: Iterable[Accelerator]) -> tuple[Gap, ...]:
        """Gaps of what is not another machine's; without the identity of a device that is not shown."""
        ids = {a.id for a in shown}
        mine = (g for g in found if not self.is_foreign(g.ref.uri) and not self.is_shown_elsewhere(g.ref.uri))
        kept = [g if g.accelerator is None or g.accelerator in ids else replace(g, accelerator=None) for g in mine]
        if self.ownership is None and self.named:
            kept.append(Gap(ref=Ref(bmc=self.bmc, uri=min(self.named)), reason=CANNOT_LIMIT, hides=True))
        return tuple(kept)

    def readings(self, found: Iterable[LockReading]) -> tuple[LockReading, ...]:
        """Readings at places that are not another machine's. What another BMC has is not limited here."""
        return tuple(r for r in found if r.ref.bmc != self.bmc or not self.is_foreign(r.ref.uri))

    def shared(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        """Those of a BMC's resources that are not the target's alone."""
        if self.is_whole:
            return frozenset()
        return frozenset(ref for ref in refs if ref.bmc == self.bmc and not self.may_write(ref.uri))


def written_places(accelerator: Accelerator) -> tuple[Ref, ...]:
    """Every resource at which something of a device may be written, or that is reset for it."""
    items = (s.item.ref for s in accelerator.slots if s.item is not None)
    locks = (ref for r in accelerator.locks for ref in (r.ref, r.reset) if ref is not None)
    return (*accelerator.refs, *(c.ref for c in accelerator.firmware), *items, *locks)

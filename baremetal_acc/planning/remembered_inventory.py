# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep what the next comparison needs of an inventory, with the last known values of what could not be read."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from baremetal_acc.model.accelerator import Accelerator, Function, ReconfigurationSlot
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import BmcFacts, Gap, Inventory
from baremetal_acc.model.lock import LockReading, LockState
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning.device_pairs import (
    CARD_PROPERTIES,
    PCI_IDS,
    find_what_hides,
    is_another_card,
    key_components,
    key_locks,
    key_slots,
    pair_devices,
)


def remembered(before: Inventory | None, now: Inventory) -> Inventory:
    """Return what to compare the next inventory with: this one, with the last known values of what it could not read.

    The result holds only what a comparison needs, and what tells which images a device runs.
    """
    known = []
    if before is not None:
        met = pair_devices(before, now)
        known = [_lean(a) for a in met.missing if find_what_hides(a, now) is not None]
        carried = {new.id: carry_known_values(old, new, now.gaps) for old, new in met.pairs if not is_another_card(old, new)}
    else:
        carried = {}
    devices = (*(_lean(carried.get(a.id, a)) for a in now.accelerators), *known)
    return Inventory(
        target=now.target,
        at=now.at,
        bmcs=tuple(_bmc(b) for b in now.bmcs),
        accelerators=tuple(sorted(devices, key=lambda a: a.id)),
        gaps=tuple(g for g in now.gaps if g.hides),
    )


def as_read(whole: Inventory, look: Inventory) -> Inventory:
    """Return a stored inventory as it was read, so that it can be verified again without a BMC.

    An inventory is stored with its locks judged, at a place where others may write. So the state of a lock is that of the
    remembered inventory, and signed measurements, which nothing else proves, are left out.

    :param whole: the full inventory; ``look``: what :func:`remembered` has kept of the same read.
    """
    known = {(a.id, r.place): r for a in look.accelerators for r in a.locks}

    def state(a: Accelerator, r: LockReading) -> LockState:
        read = known.get((a.id, r.place))
        return LockState.UNKNOWN if read is None or read.value != r.value else read.state

    return replace(
        whole,
        accelerators=tuple(
            replace(a, locks=tuple(replace(r, state=state(a, r)) for r in a.locks), measurements=None)
            for a in whole.accelerators
        ),
    )


def _bmc(facts: BmcFacts) -> BmcFacts:
    """Keep the facts about a BMC that do not change by themselves."""
    return BmcFacts(
        name=facts.name,
        address=facts.address,
        session='',
        product=facts.product,
        firmware_version=facts.firmware_version,
        system=facts.system,
        power=facts.power,
        accounts=facts.accounts,
    )


def _unread(gaps: Iterable[Gap], ref: Ref) -> Gap | None:
    """Return the gap that hides a resource: a gap of the resource, or of one above it that could not be read as a whole."""
    for gap in gaps:
        above = gap.field is None and ref.uri.startswith(gap.ref.uri.rstrip('/') + '/')
        if gap.ref.bmc == ref.bmc and (gap.ref.uri == ref.uri or above):
            return gap
    return None


def find_hiding_gap(gaps: Iterable[Gap], ref: Ref) -> Gap | None:
    """Return why a missing resource may still exist: it could not be read, or the link from its device could not.

    A BMC states in many resources what belongs to a device: if a root of trust does not answer, its firmware has no device.
    """
    gaps = tuple(gaps)
    return _unread(gaps, ref) or next((g for g in gaps if g.hides and g.ref.bmc == ref.bmc), None)


def carry_known_values(old: Accelerator, new: Accelerator, gaps: tuple[Gap, ...]) -> Accelerator:
    """Return the later device, with the last known value of everything that could not be read this time."""
    facts: dict[str, Any] = {name: getattr(old, name) for name in (*CARD_PROPERTIES, 'location') if getattr(new, name) is None}
    ids: dict[str, Any] = {name: getattr(old.pci, name) for name in PCI_IDS if getattr(new.pci, name) is None}
    return replace(
        new,
        **facts,
        pci=replace(new.pci, **ids),
        firmware=_carried_components(old.firmware, new.firmware, gaps),
        slots=_carried_slots(old, new, gaps),
        locks=_carried_locks(old, new, gaps),
    )


def _carried_components(old: Iterable[Component], new: Iterable[Component], gaps: tuple[Gap, ...]) -> tuple[Component, ...]:
    was, found = key_components(old), key_components(new)
    kept = (c for key, c in was.items() if key not in found and find_hiding_gap(gaps, c.ref) is not None)
    return (*(_carried_component(was.get(key), c) for key, c in found.items()), *kept)


def _carried_component(old: Component | None, new: Component) -> Component:
    if old is None or new.version is not None:
        return new
    return replace(new, version=old.version, staged=new.staged or old.staged)


def _carried_slots(old: Accelerator, new: Accelerator, gaps: tuple[Gap, ...]) -> tuple[ReconfigurationSlot, ...]:
    was, found = key_slots(old.slots), key_slots(new.slots)
    kept = (s for key, s in was.items() if key not in found and any(find_hiding_gap(gaps, r) for r in (old.primary, *old.refs)))
    return (*(_carried_slot(was.get(key), s, gaps) for key, s in found.items()), *kept)


def _carried_slot(old: ReconfigurationSlot | None, new: ReconfigurationSlot, gaps: tuple[Gap, ...]) -> ReconfigurationSlot:
    if old is None:
        return new
    function: Function | None = new.function
    if function is None and old.function is not None and _unread(gaps, old.function.ref) is not None:
        function = old.function  # a slot counts as empty only if the BMC says so
    function = complete_function(function, old.function)
    item = new.item
    if item is not None and old.item is not None:
        item = _carried_component(old.item, item)
    elif old.item is not None and find_hiding_gap(gaps, old.item.ref) is not None:
        item = old.item
    host = old.programmable_from_host if new.programmable_from_host is None else new.programmable_from_host
    return replace(new, function=function, item=item, programmable_from_host=host)


def complete_function(one: Function | None, other: Function | None) -> Function | None:
    """Return a function; if the other one is the same function, with its version or UUID where those are missing."""
    if one is None or other is None or one.id != other.id:
        return one
    return replace(one, version=one.version or other.version, uuid=one.uuid or other.uuid)


def _carried_locks(old: Accelerator, new: Accelerator, gaps: tuple[Gap, ...]) -> tuple[LockReading, ...]:
    was, found = key_locks(old.locks), key_locks(new.locks)
    kept = (r for key, r in was.items() if key not in found and find_hiding_gap(gaps, r.ref) is not None)
    both = (was[key] if key in was and r.value is None and was[key].value is not None else r for key, r in found.items())
    return (*both, *kept)


def _lean(a: Accelerator) -> Accelerator:
    """Drop what no comparison needs from a device."""
    return replace(
        a,
        firmware=tuple(_lean_component(c) for c in a.firmware),
        slots=tuple(
            replace(
                s,
                function=None if s.function is None else _lean_function(s.function),
                item=None if s.item is None else _lean_component(s.item),
            )
            for s in a.slots
        ),
        functions=(),
        locks=tuple(replace(r, session='', reason=None) for r in a.locks),
        traits=frozenset(),
        system=None,
        health=None,
        health_rollup=None,
        state=None,
        measurements=None,
        merged_by=(),
        settings=None,
    )


def _lean_function(f: Function) -> Function:
    return Function(ref=f.ref, id=f.id, name=f.name, uuid=f.uuid, version=f.version)


def _lean_component(c: Component) -> Component:
    return Component(id=c.id, ref=c.ref, version=c.version, staged=c.staged, software_id=c.software_id)

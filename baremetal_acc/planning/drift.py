# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare two inventories of a target, report the changes, and keep what the next comparison needs.

A value that could not be read is not a change: a device that is missing while devices may be hidden is *not seen*, a version
that could not be read is *unreadable*. Both keep the last known values (:func:`remembered`), so that a change behind a gap is
reported as soon as the gap is gone. PCI addresses and health are not compared, because they change by themselves.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from baremetal_acc.model.accelerator import Accelerator, Function, IdentitySource, ReconfigurationSlot
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import BmcFacts, Gap, Inventory
from baremetal_acc.model.job import Action, Engage, Flash, Program, Release
from baremetal_acc.model.lock import LockReading, LockState, WritePath
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.subject import Subject, SubjectKind, firmware, function
from baremetal_acc.planning import lock_evidence

CHARACTERS = 120
"""Maximum length of one value of a BMC in a text."""


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
    :ivar subject: its name is shortened by :func:`shown`.
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


_ORDER = tuple(ChangeKind)


def drift(before: Inventory, now: Inventory) -> tuple[Change, ...]:
    """Return the changes between two inventories, the gravest kind first, then by device.

    :param before: what :func:`remembered` returned, or an earlier inventory.
    """
    met = _meet(before, now)
    found = [_gone(a, now) for a in met.missing]
    found += (_new(a, before) for a in met.fresh)
    for old, new in met.pairs:
        found += _between(old, new, before, now)
    return tuple(sorted(found, key=lambda c: (_ORDER.index(c.kind), c.accelerator, str(c.subject), str(c.ref))))


def remembered(before: Inventory | None, now: Inventory) -> Inventory:
    """Return what to compare the next inventory with: this one, with the last known values of what it could not read.

    The result holds only what a comparison needs.
    """
    known = []
    if before is not None:
        met = _meet(before, now)
        known = [_lean(a) for a in met.missing if _hidden(a, now) is not None]
        carried = {new.id: _carried(old, new, now.gaps) for old, new in met.pairs if not _is_another(old, new)}
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


def beyond(changes: Iterable[Change], actions: Iterable[Action]) -> tuple[Change, ...]:
    """Return the changes that our own actions do not explain.

    :param actions: the actions that were started.
    """
    ours = tuple(actions)
    return tuple(c for c in changes if not any(_accounts_for(action, c) for action in ours))


def _accounts_for(action: Action, change: Change) -> bool:
    match action:
        case Flash():
            return change.kind is ChangeKind.FIRMWARE and (change.accelerator, change.ref) == (action.accelerator, action.ref)
        case Program():
            written = change.subject.kind in (SubjectKind.FUNCTION, SubjectKind.SLOT_IMAGE)
            return change.accelerator == action.accelerator and written and change.subject.name == shown(action.slot)
        case Release() | Engage():
            lock = Subject(kind=SubjectKind.LOCK_READING, name=shown(f'{action.mechanism} {action.field}'))
            effect = change.kind is ChangeKind.PATH or change.subject.kind is SubjectKind.HOST_ACCESS
            return change.accelerator == action.accelerator and (effect or (change.subject, change.ref) == (lock, action.ref))
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Met:
    """Devices of two inventories: pairs that correspond to each other, and the rest."""

    pairs: tuple[tuple[Accelerator, Accelerator], ...]
    missing: tuple[Accelerator, ...]
    fresh: tuple[Accelerator, ...]


def _meet(before: Inventory, now: Inventory) -> _Met:
    """Pair the devices by identity, and the remaining ones by place."""
    old, new = {a.id: a for a in before.accelerators}, {a.id: a for a in now.accelerators}
    pairs = [(old[i], new[i]) for i in sorted(old.keys() & new.keys())]
    missing = [old[i] for i in sorted(old.keys() - new.keys())]
    fresh = [new[i] for i in sorted(new.keys() - old.keys())]
    was_at, is_at = _locations(before), _locations(now)
    ranked = sorted(
        (rank, a.id, b.id) for a in missing for b in fresh if (rank := _same_place(a, b, was_at, is_at)) is not None
    )
    for _, left, come in ranked:
        a, b = old[left], new[come]
        if a in missing and b in fresh:
            pairs.append((a, b))
            missing.remove(a)
            fresh.remove(b)
    return _Met(pairs=tuple(pairs), missing=tuple(missing), fresh=tuple(fresh))


def _locations(inventory: Inventory) -> Mapping[AcceleratorId, tuple[str, str]]:
    """Return the locations that tell devices apart: real machines give one location to many devices."""
    times = Counter((a.primary.bmc, a.location) for a in inventory.accelerators)
    return {
        a.id: (a.primary.bmc, a.location)
        for a in inventory.accelerators
        if a.location and times[a.primary.bmc, a.location] == 1
    }


def _same_place(
    old: Accelerator,
    new: Accelerator,
    was_at: Mapping[AcceleratorId, tuple[str, str]],
    is_at: Mapping[AcceleratorId, tuple[str, str]],
) -> int | None:
    """Rank how surely two devices are at one place, 0 is best; None if they are not."""
    was, here = was_at.get(old.id), is_at.get(new.id)
    if was is not None and here is not None:
        return 0 if was == here else None
    if old.primary == new.primary:
        return 1
    return 2 if set(old.refs) & set(new.refs) else None


_FACTS = ('kind', 'vendor', 'model', 'part_number', 'serial', 'uuid')
_IDS = ('vendor_id', 'device_id', 'subsystem_vendor_id', 'subsystem_id')


def _facts(a: Accelerator) -> dict[str, str | None]:
    """Return the properties that a card reports of itself, by name."""
    facts = {name.replace('_', ' '): getattr(a, name) for name in _FACTS}
    return facts | {f'PCI {name.replace("_", " ")}': getattr(a.pci, name) for name in _IDS}


def _is_another(old: Accelerator, new: Accelerator) -> bool:
    """Whether two paired devices are two cards, because they report different properties.

    A card that is identified by a UUID or a serial number may change its other properties, for example with new firmware.
    """
    if old.id == new.id and new.identity is not IdentitySource.URI:
        return False
    was, found = _facts(old), _facts(new)
    return any(_differ(was[name], found[name]) for name in was if name != 'vendor')


def _differ(was: str | None, found: str | None) -> bool:
    """Whether two values are known and differ, upper and lower case apart."""
    return was is not None and found is not None and was.casefold() != found.casefold()


def _at(a: Accelerator) -> str:
    return a.location or str(a.primary)


def _gone(a: Accelerator, now: Inventory) -> Change:
    hidden = _hidden(a, now)
    kind = ChangeKind.GONE if hidden is None else ChangeKind.NOT_SEEN
    return _card(kind, a, was=_at(a), reason=hidden if hidden is not None else _weakness(a))


def _new(a: Accelerator, before: Inventory) -> Change:
    hidden = _hidden(a, before)
    return _card(ChangeKind.NEW, a, found=_at(a), reason=_weakness(a) if hidden is None else WasHidden(by=hidden))


def _card(
    kind: ChangeKind, a: Accelerator, *, was: str | None = None, found: str | None = None, reason: Reason | None = None
) -> Change:
    return Change(
        kind=kind,
        accelerator=a.id,
        label=shown(a.label),
        subject=Subject(kind=SubjectKind.CARD),
        was=None if was is None else shown(was),
        found=None if found is None else shown(found),
        ref=a.primary,
        reason=reason,
    )


def _weakness(a: Accelerator) -> KnownByUri | None:
    """Return what an operator has to know about the identity of a card."""
    return KnownByUri() if a.identity is IdentitySource.URI else None


def _hidden(a: Accelerator, look: Inventory) -> BmcsNotAsked | BehindGap | None:
    """Return why an inventory cannot say that a device is absent; None if it can."""
    bmcs = {ref.bmc for ref in (a.primary, *a.refs)}
    if not bmcs & {b.name for b in look.bmcs}:
        return BmcsNotAsked(names=tuple(sorted(bmcs)))
    gap = next((g for g in look.gaps if g.hides and g.ref.bmc in bmcs), None)
    return None if gap is None else BehindGap(gap=gap)


def _between(old: Accelerator, new: Accelerator, before: Inventory, now: Inventory) -> Iterator[Change]:
    """Yield the changes between two paired devices."""
    if _is_another(old, new):
        other = CardNamed(label=shown(old.label), id=old.id) if old.id != new.id else _saying(old, new)
        yield replace(_card(ChangeKind.SWAPPED, new, found=_at(new), reason=_weakness(new)), was=other)
        return
    carried = _carried(old, new, now.gaps)
    if old.id != new.id:
        proof = next((name for name in ('uuid', 'serial') if _facts(new)[name] and _facts(old)[name]), None)
        yield _card(ChangeKind.IDENTITY, new, was=old.id, found=new.id, reason=SameCard(proof=proof))
    if old.id == new.id and new.identity is not IdentitySource.URI and _has_moved(old, new):
        yield _card(ChangeKind.MOVED, new, was=_at(old), found=_at(new))
    for kind, subject, ref, was, found in _differences(_completed(old, carried), carried):
        if was is None and any(g.hides and g.ref.bmc == ref.bmc for g in before.gaps):
            continue  # it may have been present before, hidden by a gap
        yield Change(kind=kind, accelerator=new.id, label=shown(new.label), subject=subject, was=was, found=found, ref=ref)
    for _, subject, ref, known, _nothing in _differences(carried, new):
        if subject.kind is SubjectKind.WRITE_PATH:
            continue  # the lock that could not be read is reported instead
        yield Change(
            kind=ChangeKind.UNREADABLE,
            accelerator=new.id,
            label=shown(new.label),
            subject=subject,
            was=known,
            found=None,
            ref=ref,
            reason=None if (gap := _unseen(now.gaps, ref)) is None else NotRead(gap=gap),
        )


def _saying(old: Accelerator, new: Accelerator) -> CardSaying:
    """Two cards with one identity: return the properties of the earlier card that differ."""
    was, found = _facts(old), _facts(new)
    return CardSaying(facts=tuple((name, shown(str(was[name]))) for name in was if _differ(was[name], found[name])))


def _has_moved(old: Accelerator, new: Accelerator) -> bool:
    if old.location and new.location:
        return old.location != new.location
    return not {old.primary, *old.refs} & {new.primary, *new.refs}


_Difference = tuple[ChangeKind, Subject, Ref, Value | None, Value | None]


def _differences(old: Accelerator, new: Accelerator) -> Iterator[_Difference]:
    """Yield kind, subject, resource and the two values of everything that differs."""
    pairs: list[tuple[ChangeKind, Mapping[str, _Shown], Mapping[str, _Shown]]] = [
        (ChangeKind.DEVICE, _properties(old), _properties(new)),
        (ChangeKind.FIRMWARE, _versions(old), _versions(new)),
        (ChangeKind.FUNCTION, _slots(old), _slots(new)),
        (ChangeKind.LOCK, _locks(old), _locks(new)),
        (ChangeKind.PATH, _paths(old), _paths(new)),
    ]
    for kind, was, found in pairs:
        for key in sorted(was.keys() | found.keys()):
            named = was[key] if key in was else found[key]
            never_known = key in was and named.value is None
            one, other = (values[key].value if key in values else None for values in (was, found))
            if one != other and not never_known:
                yield kind, named.subject, named.ref, one, other


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One value to compare: its subject, the value (None if unknown), and the resource that reports it."""

    subject: Subject
    value: Value | None
    ref: Ref


def _properties(a: Accelerator) -> dict[str, _Shown]:
    return {
        n: _Shown(subject=_about(SubjectKind.PROPERTY, n), value=None if v is None else shown(v), ref=a.primary)
        for n, v in _facts(a).items()
    }


def _component_keys(components: Iterable[Component]) -> dict[str, Component]:
    """Index components by BMC and Id; by URI if they have no Id, or share one."""
    found: dict[str, Component] = {}
    for c in components:
        key = f'{c.ref.bmc}:{c.id}' if c.id is not None else str(c.ref)
        found[key if key not in found else f'{key} {c.ref}'] = c
    return found


def _versions(a: Accelerator) -> dict[str, _Shown]:
    found = {}
    for key, c in _component_keys(a.firmware).items():
        found[key] = _Shown(subject=firmware(shown(c.id or 'of the device')), value=_version(c), ref=c.ref)
    return found


def _version(c: Component) -> str | Staged | None:
    version = None if c.version is None else shown(c.version)
    return version if c.staged is None else Staged(version=version, staged=shown(c.staged))


def _slot_keys(slots: Iterable[ReconfigurationSlot]) -> dict[str, ReconfigurationSlot]:
    """Index slots by SlotId, and by position if they share one."""
    found: dict[str, ReconfigurationSlot] = {}
    for s in slots:
        found[s.slot_id if s.slot_id not in found else f'{s.slot_id} {s.index}'] = s
    return found


def _slots(a: Accelerator) -> dict[str, _Shown]:
    found = {}
    for key, s in _slot_keys(a.slots).items():
        name, holds = shown(s.slot_id), s.function
        held = SlotContent() if holds is None else SlotContent(parts=tuple(filter(None, (holds.id, holds.version, holds.uuid))))
        found[key] = _Shown(subject=function(name), value=held, ref=a.primary if holds is None else holds.ref)
        access = _about(SubjectKind.HOST_ACCESS, name)
        found[f'{key} host access'] = _Shown(subject=access, value=s.programmable_from_host, ref=a.primary)
        if s.item is not None:
            image = _about(SubjectKind.SLOT_IMAGE, name)
            found[f'{key} image'] = _Shown(subject=image, value=_version(s.item), ref=s.item.ref)
    return found


def _lock_keys(locks: Iterable[LockReading]) -> dict[str, LockReading]:
    """Index lock readings by mechanism, resource and field."""
    return {f'{r.mechanism} {r.ref} {r.field}': r for r in locks}


def _locks(a: Accelerator) -> dict[str, _Shown]:
    def read(r: LockReading) -> _Shown:
        lock = _about(SubjectKind.LOCK_READING, shown(f'{r.mechanism} {r.field}'))
        return _Shown(subject=lock, value=None if r.value is None else shown(r.value), ref=r.ref)

    return {key: read(r) for key, r in _lock_keys(a.locks).items()}


_AS_READ = {LockState.LOCKED_VERIFIED: 'locked', LockState.LOCKED_REPORTED: 'locked'}
"""Which of the two states it is depends on our own records, and an expired record changes nothing on the card."""


def _paths(a: Accelerator) -> dict[str, _Shown]:
    locks = tuple(replace(r, accelerator=a.id) for r in a.locks)
    states = {path: lock_evidence.weakest(lock_evidence.coverage(a, path, locks)).state for path in WritePath}
    return {
        path: _Shown(subject=_about(SubjectKind.WRITE_PATH, path), value=str(_AS_READ.get(state, state)), ref=a.primary)
        for path, state in states.items()
    }


def _about(kind: SubjectKind, name: str) -> Subject:
    return Subject(kind=kind, name=name)


def _unread(gaps: Iterable[Gap], ref: Ref) -> Gap | None:
    """Return the gap that hides a resource: a gap of the resource, or of one above it that could not be read as a whole."""
    for gap in gaps:
        above = gap.field is None and ref.uri.startswith(gap.ref.uri.rstrip('/') + '/')
        if gap.ref.bmc == ref.bmc and (gap.ref.uri == ref.uri or above):
            return gap
    return None


def _unseen(gaps: Iterable[Gap], ref: Ref) -> Gap | None:
    """Return why a missing resource may still exist: it could not be read, or the link from its device could not.

    A BMC states in many resources what belongs to a device: if a root of trust does not answer, its firmware has no device.
    """
    gaps = tuple(gaps)
    return _unread(gaps, ref) or next((g for g in gaps if g.hides and g.ref.bmc == ref.bmc), None)


def _carried(old: Accelerator, new: Accelerator, gaps: tuple[Gap, ...]) -> Accelerator:
    """Return the later device, with the last known value of everything that could not be read this time."""
    facts: dict[str, Any] = {name: getattr(old, name) for name in (*_FACTS, 'location') if getattr(new, name) is None}
    ids: dict[str, Any] = {name: getattr(old.pci, name) for name in _IDS if getattr(new.pci, name) is None}
    return replace(
        new,
        **facts,
        pci=replace(new.pci, **ids),
        firmware=_carried_components(old.firmware, new.firmware, gaps),
        slots=_carried_slots(old, new, gaps),
        locks=_carried_locks(old, new, gaps),
    )


def _carried_components(old: Iterable[Component], new: Iterable[Component], gaps: tuple[Gap, ...]) -> tuple[Component, ...]:
    was, found = _component_keys(old), _component_keys(new)
    kept = (c for key, c in was.items() if key not in found and _unseen(gaps, c.ref) is not None)
    return (*(_carried_component(was.get(key), c) for key, c in found.items()), *kept)


def _carried_component(old: Component | None, new: Component) -> Component:
    if old is None or new.version is not None:
        return new
    return replace(new, version=old.version, staged=new.staged or old.staged)


def _carried_slots(old: Accelerator, new: Accelerator, gaps: tuple[Gap, ...]) -> tuple[ReconfigurationSlot, ...]:
    was, found = _slot_keys(old.slots), _slot_keys(new.slots)
    kept = (s for key, s in was.items() if key not in found and any(_unseen(gaps, r) for r in (old.primary, *old.refs)))
    return (*(_carried_slot(was.get(key), s, gaps) for key, s in found.items()), *kept)


def _carried_slot(old: ReconfigurationSlot | None, new: ReconfigurationSlot, gaps: tuple[Gap, ...]) -> ReconfigurationSlot:
    if old is None:
        return new
    function: Function | None = new.function
    if function is None and old.function is not None and _unread(gaps, old.function.ref) is not None:
        function = old.function  # a slot counts as empty only if the BMC says so
    function = _same_function(function, old.function)
    item = new.item
    if item is not None and old.item is not None:
        item = _carried_component(old.item, item)
    elif old.item is not None and _unseen(gaps, old.item.ref) is not None:
        item = old.item
    host = old.programmable_from_host if new.programmable_from_host is None else new.programmable_from_host
    return replace(new, function=function, item=item, programmable_from_host=host)


def _completed(old: Accelerator, new: Accelerator) -> Accelerator:
    """Return the earlier device, with what only the later inventory reports of an unchanged function: that is no change."""
    found = _slot_keys(new.slots)
    slots = (
        replace(s, function=_same_function(s.function, found[key].function)) if key in found else s
        for key, s in _slot_keys(old.slots).items()
    )
    return replace(old, slots=tuple(slots))


def _same_function(one: Function | None, other: Function | None) -> Function | None:
    """Return a function; if the other one is the same function, with its version or UUID where those are missing."""
    if one is None or other is None or one.id != other.id:
        return one
    return replace(one, version=one.version or other.version, uuid=one.uuid or other.uuid)


def _carried_locks(old: Accelerator, new: Accelerator, gaps: tuple[Gap, ...]) -> tuple[LockReading, ...]:
    was, found = _lock_keys(old.locks), _lock_keys(new.locks)
    kept = (r for key, r in was.items() if key not in found and _unseen(gaps, r.ref) is not None)
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
    )


def _lean_function(f: Function) -> Function:
    return Function(ref=f.ref, id=f.id, uuid=f.uuid, version=f.version)


def _lean_component(c: Component) -> Component:
    return Component(id=c.id, ref=c.ref, version=c.version, staged=c.staged)


def shown(text: str, limit: int = CHARACTERS) -> str:
    """Make a value of a BMC fit for a log line: printable, on one line, and not too long."""
    clean = ''.join(c if c.isprintable() else '?' for c in text)
    return clean if len(clean) <= limit else clean[: limit - 3] + '...'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What has changed between two looks at a target, and what is remembered of it for the next comparison?

What could not be read is no change: a device that is missing while devices may be hidden is *not seen*, a version that does
not come is *unreadable*, and both keep what was known of them (:func:`remembered`), so that a change behind a gap is told as
soon as the gap is gone. Not compared: PCI addresses and health, which change by themselves.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from baremetal_acc.decide import evidence
from baremetal_acc.model.accelerator import Accelerator, Function, IdentitySource, ReconfigurationSlot
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import BmcFacts, Gap, Inventory
from baremetal_acc.model.job import Action, Engage, Flash, Program, Release
from baremetal_acc.model.lock import LockReading, LockState, WritePath
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.subject import Subject, SubjectKind, firmware, function

CHARACTERS = 120
"""Of one value of a BMC in a text."""


class ChangeKind(StrEnum):
    """What kind of change it is.

    ``swapped``: another card at the same place. ``moved``: the same card at another place. ``identity``: a card that is known
    by another identity than before, at the same place, and nothing says that it is another one. ``device``: kind, model or
    ids of a card changed. ``write-path``: how well a write path is blocked changed. ``not-seen`` and ``unreadable`` are gaps.
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
    """Another card, by its label and identity."""

    label: str
    id: AcceleratorId


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSaying:
    """Another card of the same identity, by what it said of itself: names and values."""

    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A version, and another one that comes in force with the next reset."""

    version: str | None
    staged: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotContent:
    """What a slot holds: Id, version and UUID of its function, as far as they are shown; nothing of an empty one."""

    parts: tuple[str, ...] = ()


Value = str | bool | CardNamed | CardSaying | Staged | SlotContent
"""What is compared: a text of the BMC; of a slot also whether the host may program it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcsNotAsked:
    """A card could not be seen, since its BMCs were not asked."""

    names: tuple[BmcName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindGap:
    """A card may be behind what could not be read."""

    gap: Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class WasHidden:
    """A card that is new may have been there, and hidden."""

    by: BmcsNotAsked | BehindGap


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownByUri:
    """A card is known by its URI only: another one of its kind in its place would not be noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameCard:
    """Why two identities are of one card; ``proof`` None: nobody can tell whether they are."""

    proof: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """A value could not be read."""

    gap: Gap


Reason = BmcsNotAsked | BehindGap | WasHidden | KnownByUri | SameCard | NotRead


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between two looks. :mod:`baremetal_acc.render.changes` makes the sentence.

    :ivar accelerator: the device; of one that was swapped, the card that is there now.
    :ivar subject: its name is shortened as :func:`shown` does it.
    :ivar was: what was known of it, None for nothing.
    :ivar found: what the later look shows, None for nothing.
    :ivar ref: the resource that shows it, or did, or None.
    :ivar reason: why it could not be seen, or what else has to be known.
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
        """Something has changed, as opposed to: could not be seen."""
        return self.kind not in (ChangeKind.NOT_SEEN, ChangeKind.UNREADABLE)


_ORDER = tuple(ChangeKind)


def drift(before: Inventory, now: Inventory) -> tuple[Change, ...]:
    """What has changed between two looks, the gravest kind first, then by device.

    :param before: what :func:`remembered` gave, or an earlier look.
    """
    met = _meet(before, now)
    found = [_gone(a, now) for a in met.missing]
    found += (_new(a, before) for a in met.fresh)
    for old, new in met.pairs:
        found += _between(old, new, before, now)
    return tuple(sorted(found, key=lambda c: (_ORDER.index(c.kind), c.accelerator, str(c.subject), str(c.ref))))


def remembered(before: Inventory | None, now: Inventory) -> Inventory:
    """What the next look is compared with: this one, and what of the earlier ones it could not see.

    It holds nothing but what a comparison needs.
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
    """What was learnt of a BMC, without what changes by itself."""
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
    """The changes that our own actions do not account for.

    :param actions: those that were begun.
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


# ------------------------------------------------------------------------------------------------------ which is which


@dataclass(frozen=True, slots=True, kw_only=True)
class _Met:
    """Devices of two looks: those that stand for one another, and the rest."""

    pairs: tuple[tuple[Accelerator, Accelerator], ...]
    missing: tuple[Accelerator, ...]
    fresh: tuple[Accelerator, ...]


def _meet(before: Inventory, now: Inventory) -> _Met:
    """By identity; what is left, by place."""
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
    """Locations that tell devices apart: real machines give one text to many of them."""
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
    """How surely two devices stand at one place, 0 for best; None when they do not."""
    was, here = was_at.get(old.id), is_at.get(new.id)
    if was is not None and here is not None:
        return 0 if was == here else None
    if old.primary == new.primary:
        return 1
    return 2 if set(old.refs) & set(new.refs) else None


_FACTS = ('kind', 'vendor', 'model', 'part_number', 'serial', 'uuid')
_IDS = ('vendor_id', 'device_id', 'subsystem_vendor_id', 'subsystem_id')


def _facts(a: Accelerator) -> dict[str, str | None]:
    """What a card says of itself, by name."""
    facts = {name.replace('_', ' '): getattr(a, name) for name in _FACTS}
    return facts | {f'PCI {name.replace("_", " ")}': getattr(a.pci, name) for name in _IDS}


def _is_another(old: Accelerator, new: Accelerator) -> bool:
    """Two devices that stand for one another are two cards, because they say different things of themselves.

    A card that a UUID or a serial number identifies may change its other properties, with new firmware for one.
    """
    if old.id == new.id and new.identity is not IdentitySource.URI:
        return False
    was, found = _facts(old), _facts(new)
    return any(_differ(was[name], found[name]) for name in was if name != 'vendor')


def _differ(was: str | None, found: str | None) -> bool:
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
    """What an operator has to know of the identity."""
    return KnownByUri() if a.identity is IdentitySource.URI else None


def _hidden(a: Accelerator, look: Inventory) -> BmcsNotAsked | BehindGap | None:
    """Why a look cannot say that a device is not there; None when it can."""
    bmcs = {ref.bmc for ref in (a.primary, *a.refs)}
    if not bmcs & {b.name for b in look.bmcs}:
        return BmcsNotAsked(names=tuple(sorted(bmcs)))
    gap = next((g for g in look.gaps if g.hides and g.ref.bmc in bmcs), None)
    return None if gap is None else BehindGap(gap=gap)


# ---------------------------------------------------------------------------------------------------- within one device


def _between(old: Accelerator, new: Accelerator, before: Inventory, now: Inventory) -> Iterator[Change]:
    """Two devices that stand for one another."""
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
            continue  # it may have been there, unseen
        yield Change(kind=kind, accelerator=new.id, label=shown(new.label), subject=subject, was=was, found=found, ref=ref)
    for _, subject, ref, known, _nothing in _differences(carried, new):
        if subject.kind is SubjectKind.WRITE_PATH:
            continue  # the lock that could not be read is told
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
    """One identity, two cards: what the card before said of itself."""
    was, found = _facts(old), _facts(new)
    return CardSaying(facts=tuple((name, shown(str(was[name]))) for name in was if _differ(was[name], found[name])))


def _has_moved(old: Accelerator, new: Accelerator) -> bool:
    if old.location and new.location:
        return old.location != new.location
    return not {old.primary, *old.refs} & {new.primary, *new.refs}


_Difference = tuple[ChangeKind, Subject, Ref, Value | None, Value | None]


def _differences(old: Accelerator, new: Accelerator) -> Iterator[_Difference]:
    """Kind, subject, resource and the two values of everything that differs."""
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
    """One comparable thing: what operators call it, what it is (None if that is not known), and which resource shows it."""

    subject: Subject
    value: Value | None
    ref: Ref


def _properties(a: Accelerator) -> dict[str, _Shown]:
    return {
        n: _Shown(subject=_about(SubjectKind.PROPERTY, n), value=None if v is None else shown(v), ref=a.primary)
        for n, v in _facts(a).items()
    }


def _component_keys(components: Iterable[Component]) -> dict[str, Component]:
    """Components by BMC and Id; by URI where they have none, or share one."""
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
    """Slots by SlotId, and by position where they share one."""
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
    return {f'{r.mechanism} {r.ref} {r.field}': r for r in locks}


def _locks(a: Accelerator) -> dict[str, _Shown]:
    def read(r: LockReading) -> _Shown:
        lock = _about(SubjectKind.LOCK_READING, shown(f'{r.mechanism} {r.field}'))
        return _Shown(subject=lock, value=None if r.value is None else shown(r.value), ref=r.ref)

    return {key: read(r) for key, r in _lock_keys(a.locks).items()}


_AS_READ = {LockState.LOCKED_VERIFIED: 'locked', LockState.LOCKED_REPORTED: 'locked'}
"""Which of the two it is depends on our own records, and one that has expired has changed nothing on the card."""


def _paths(a: Accelerator) -> dict[str, _Shown]:
    locks = tuple(replace(r, accelerator=a.id) for r in a.locks)
    states = {path: evidence.weakest(evidence.coverage(a, path, locks)).state for path in WritePath}
    return {
        path: _Shown(subject=_about(SubjectKind.WRITE_PATH, path), value=str(_AS_READ.get(state, state)), ref=a.primary)
        for path, state in states.items()
    }


def _about(kind: SubjectKind, name: str) -> Subject:
    return Subject(kind=kind, name=name)


# --------------------------------------------------------------------------------------------- what could not be read


def _unread(gaps: Iterable[Gap], ref: Ref) -> Gap | None:
    """The gap that a resource lies behind: of itself, or of a resource above that could not be read as a whole."""
    for gap in gaps:
        above = gap.field is None and ref.uri.startswith(gap.ref.uri.rstrip('/') + '/')
        if gap.ref.bmc == ref.bmc and (gap.ref.uri == ref.uri or above):
            return gap
    return None


def _unseen(gaps: Iterable[Gap], ref: Ref) -> Gap | None:
    """Why something that is missing may still be there: it is unread, or what links it to its device may be.

    A BMC says by many resources what belongs to a device: a root of trust that does not answer leaves its firmware without one.
    """
    gaps = tuple(gaps)
    return _unread(gaps, ref) or next((g for g in gaps if g.hides and g.ref.bmc == ref.bmc), None)


def _carried(old: Accelerator, new: Accelerator, gaps: tuple[Gap, ...]) -> Accelerator:
    """The later device, with what was known of everything that could not be read this time."""
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
        function = old.function  # a slot is empty when the BMC says so, whatever else it does not say
    function = _same_function(function, old.function)
    item = new.item
    if item is not None and old.item is not None:
        item = _carried_component(old.item, item)
    elif old.item is not None and _unseen(gaps, old.item.ref) is not None:
        item = old.item
    host = old.programmable_from_host if new.programmable_from_host is None else new.programmable_from_host
    return replace(new, function=function, item=item, programmable_from_host=host)


def _completed(old: Accelerator, new: Accelerator) -> Accelerator:
    """The earlier device, with what only the later look tells of a function that has stayed: nothing of that has changed."""
    found = _slot_keys(new.slots)
    slots = (
        replace(s, function=_same_function(s.function, found[key].function)) if key in found else s
        for key, s in _slot_keys(old.slots).items()
    )
    return replace(old, slots=tuple(slots))


def _same_function(one: Function | None, other: Function | None) -> Function | None:
    """A function, and where it lacks version or UUID those of the other, if that is the same one."""
    if one is None or other is None or one.id != other.id:
        return one
    return replace(one, version=one.version or other.version, uuid=one.uuid or other.uuid)


def _carried_locks(old: Accelerator, new: Accelerator, gaps: tuple[Gap, ...]) -> tuple[LockReading, ...]:
    was, found = _lock_keys(old.locks), _lock_keys(new.locks)
    kept = (r for key, r in was.items() if key not in found and _unseen(gaps, r.ref) is not None)
    both = (was[key] if key in was and r.value is None and was[key].value is not None else r for key, r in found.items())
    return (*both, *kept)


# ------------------------------------------------------------------------------------------------------------- small parts


def _lean(a: Accelerator) -> Accelerator:
    """A device without what no comparison needs."""
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
    """A value of a BMC as it may stand in a log line: printable, of one line, and not too long."""
    clean = ''.join(c if c.isprintable() else '?' for c in text)
    return clean if len(clean) <= limit else clean[: limit - 3] + '...'

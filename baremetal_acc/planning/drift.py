# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare two inventories of a target, and report the changes.

A value that could not be read is not a change: a device that is missing while devices may be hidden is *not seen*, a version
that could not be read is *unreadable*. Both keep the last known values
(:mod:`~baremetal_acc.planning.remembered_inventory`), so that a change behind a gap is reported as soon as the gap is gone.
PCI addresses and health are not compared, because they change by themselves.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from baremetal_acc.model.accelerator import Accelerator, IdentitySource
from baremetal_acc.model.action import Action, Engage, Flash, Program, Release
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.inventory_change import (
    CardNamed,
    CardSaying,
    Change,
    ChangeKind,
    KnownByUri,
    NotRead,
    Reason,
    SameCard,
    SlotContent,
    Staged,
    Value,
    WasHidden,
)
from baremetal_acc.model.lock import LockReading, LockState, WritePath
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.subject import Subject, SubjectKind, firmware, function
from baremetal_acc.planning import lock_evidence
from baremetal_acc.planning.device_pairs import (
    card_properties,
    find_what_hides,
    is_another_card,
    is_different,
    key_components,
    key_locks,
    key_slots,
    pair_devices,
)
from baremetal_acc.planning.remembered_inventory import carry_known_values, complete_function, find_hiding_gap

CHARACTERS = 120
"""Maximum length of one value of a BMC in a text."""


_ORDER = tuple(ChangeKind)


def drift(before: Inventory, now: Inventory) -> tuple[Change, ...]:
    """Return the changes between two inventories, the gravest kind first, then by device.

    :param before: what :func:`~baremetal_acc.planning.remembered_inventory.remembered` returned, or an earlier inventory.
    """
    met = pair_devices(before, now)
    found = [_gone(a, now) for a in met.missing]
    found += (_new(a, before) for a in met.fresh)
    for old, new in met.pairs:
        found += _between(old, new, before, now)
    return tuple(sorted(found, key=lambda c: (_ORDER.index(c.kind), c.accelerator, str(c.subject), str(c.ref))))


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


def _at(a: Accelerator) -> str:
    return a.location or str(a.primary)


def _gone(a: Accelerator, now: Inventory) -> Change:
    hidden = find_what_hides(a, now)
    kind = ChangeKind.GONE if hidden is None else ChangeKind.NOT_SEEN
    return _card(kind, a, was=_at(a), reason=hidden if hidden is not None else _weakness(a))


def _new(a: Accelerator, before: Inventory) -> Change:
    hidden = find_what_hides(a, before)
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


def _between(old: Accelerator, new: Accelerator, before: Inventory, now: Inventory) -> Iterator[Change]:
    """Yield the changes between two paired devices."""
    if is_another_card(old, new):
        other = CardNamed(label=shown(old.label), id=old.id) if old.id != new.id else _saying(old, new)
        yield replace(_card(ChangeKind.SWAPPED, new, found=_at(new), reason=_weakness(new)), was=other)
        return
    carried = carry_known_values(old, new, now.gaps)
    if old.id != new.id:
        proof = next((name for name in ('uuid', 'serial') if card_properties(new)[name] and card_properties(old)[name]), None)
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
            reason=None if (gap := find_hiding_gap(now.gaps, ref)) is None else NotRead(gap=gap),
        )


def _saying(old: Accelerator, new: Accelerator) -> CardSaying:
    """Two cards with one identity: return the properties of the earlier card that differ."""
    was, found = card_properties(old), card_properties(new)
    return CardSaying(facts=tuple((name, shown(str(was[name]))) for name in was if is_different(was[name], found[name])))


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
        for n, v in card_properties(a).items()
    }


def _versions(a: Accelerator) -> dict[str, _Shown]:
    found = {}
    for key, c in key_components(a.firmware).items():
        found[key] = _Shown(subject=firmware(shown(c.id or 'of the device')), value=_version(c), ref=c.ref)
    return found


def _version(c: Component) -> str | Staged | None:
    version = None if c.version is None else shown(c.version)
    return version if c.staged is None else Staged(version=version, staged=shown(c.staged))


def _slots(a: Accelerator) -> dict[str, _Shown]:
    found = {}
    for key, s in key_slots(a.slots).items():
        name, holds = shown(s.slot_id), s.function
        held = SlotContent() if holds is None else SlotContent(parts=tuple(filter(None, (holds.id, holds.version, holds.uuid))))
        found[key] = _Shown(subject=function(name), value=held, ref=a.primary if holds is None else holds.ref)
        access = _about(SubjectKind.HOST_ACCESS, name)
        found[f'{key} host access'] = _Shown(subject=access, value=s.programmable_from_host, ref=a.primary)
        if s.item is not None:
            image = _about(SubjectKind.SLOT_IMAGE, name)
            found[f'{key} image'] = _Shown(subject=image, value=_version(s.item), ref=s.item.ref)
    return found


def _locks(a: Accelerator) -> dict[str, _Shown]:
    def read(r: LockReading) -> _Shown:
        lock = _about(SubjectKind.LOCK_READING, shown(f'{r.mechanism} {r.field}'))
        return _Shown(subject=lock, value=None if r.value is None else shown(r.value), ref=r.ref)

    return {key: read(r) for key, r in key_locks(a.locks).items()}


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


def _completed(old: Accelerator, new: Accelerator) -> Accelerator:
    """Return the earlier device, with what only the later inventory reports of an unchanged function: that is no change."""
    found = key_slots(new.slots)
    slots = (
        replace(s, function=complete_function(s.function, found[key].function)) if key in found else s
        for key, s in key_slots(old.slots).items()
    )
    return replace(old, slots=tuple(slots))


def shown(text: str, limit: int = CHARACTERS) -> str:
    """Make a value of a BMC fit for a log line: printable, on one line, and not too long."""
    clean = ''.join(c if c.isprintable() else '?' for c in text)
    return clean if len(clean) <= limit else clean[: limit - 3] + '...'

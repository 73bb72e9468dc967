# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare an active node with its state at hand-over, and decide which differences to report and what to do.

While a tenant has the node, each inventory read is compared with what was handed over: cards, firmware, functions,
configuration, and every lock that was closed then (:func:`troubles`); and the accounts of its BMCs are compared with those that
the rules expect (:func:`accounts`). A difference is reported once, and once more when it is over
(:func:`~baremetal_acc.planning.watch_alarms.next_round`). A value that could not be read is neither a difference nor OK: it is
reported when it stays unreadable. The rules say what is done about a difference (:func:`reactions`). A lock is closed again
only if that needs no reset of the tenant's host; otherwise it is only reported (:func:`closable`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Action
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Gap, Inventory
from baremetal_acc.model.inventory_change import CardNamed, Change, ChangeKind
from baremetal_acc.model.lock import Coverage, Engagement, LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import SubjectKind
from baremetal_acc.planning import drift, image_selection, lock_evidence, remembered_inventory
from baremetal_acc.planning.drift import shown
from baremetal_acc.planning.trouble import (
    AccountsUnread,
    LockChanged,
    LockGone,
    LockNotShown,
    LockOpen,
    LocksOpened,
    NeedsReset,
    NoCertificate,
    NotClosed,
    NotExpected,
    NotHandedOver,
    PathOpened,
    Unloadable,
    Unreadable,
)
from baremetal_acc.planning.verify import components_wanted
from baremetal_acc.planning.watch_alarms import TroubleKind, WatchTrouble
from baremetal_acc.policy.accounts import audit
from baremetal_acc.policy.baseline_rules import Baseline, DriftAction, NodeFacts
from baremetal_acc.policy.device_demands import HOST_PATHS, ON_DRIFT, demands

CLOSED = frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED})


EXPOSING = frozenset({TroubleKind.LOCK, TroubleKind.FIRMWARE, TroubleKind.CARD, TroubleKind.CONFIGURATION})
"""After these, nobody can say what a card runs, whatever version it reports."""


# ---------------------------------------------------------------------------------------------------------------- troubles


def troubles(
    handed: Inventory, seen: Inventory, engagements: Iterable[Engagement] | None, *, lifecycle: int
) -> tuple[WatchTrouble, ...]:
    """Return what differs from what was handed over.

    :param handed: the inventory at hand-over, with its locks judged.
    :param seen: a complete inventory.
    :param engagements: our own records, of that lifecycle: a lock that reads closed counts only for the card it was engaged on.
        None: there are none any more, because nobody has the node now; then a lock that reads closed is as it was.
    """
    found = [t for c in drift.drift(handed, seen) for t in _changed(c, handed)]
    records = None if engagements is None else lock_evidence.Records(engagements)
    for old in handed.accelerators:
        new = seen.accelerator(old.id)
        if new is not None:
            found += _locks(old, new, records, seen.gaps, lifecycle)
            found += _ways(old, new, records, seen.gaps, lifecycle)
    return _once(found)


def _once(found: Iterable[WatchTrouble]) -> tuple[WatchTrouble, ...]:
    """Return each trouble once: every device of a machine reports the locks of the whole machine."""
    known: dict[tuple[TroubleKind, AcceleratorId | None, str], WatchTrouble] = {}
    for trouble in found:
        other = known.get(trouble.key)
        known[trouble.key] = trouble if other is None else replace(other, of=other.of | trouble.of)
    return tuple(known.values())


_KINDS = {
    ChangeKind.GONE: TroubleKind.CARD,
    ChangeKind.SWAPPED: TroubleKind.CARD,
    ChangeKind.MOVED: TroubleKind.CARD,
    ChangeKind.NEW: TroubleKind.CARD,
    ChangeKind.IDENTITY: TroubleKind.CARD,
    ChangeKind.DEVICE: TroubleKind.CONFIGURATION,
    ChangeKind.FIRMWARE: TroubleKind.FIRMWARE,
    ChangeKind.FUNCTION: TroubleKind.FUNCTION,
    ChangeKind.LOCK: None,
    ChangeKind.PATH: None,
    ChangeKind.NOT_SEEN: TroubleKind.UNREADABLE,
    ChangeKind.UNREADABLE: TroubleKind.UNREADABLE,
}
"""None: locks are compared one by one, by what they prove and not by what they report."""


def _changed(change: Change, handed: Inventory) -> Iterator[WatchTrouble]:
    kind = _KINDS[change.kind]
    if kind is None or (kind is TroubleKind.FUNCTION and _may_change(change, handed)):
        return
    if kind is TroubleKind.UNREADABLE and change.subject.kind is SubjectKind.LOCK_READING:
        return  # the trouble of the lock itself reports it
    yield WatchTrouble(kind=kind, device=change.accelerator, subject=str(change.subject), fact=change, certain=change.certain)


def _may_change(change: Change, handed: Inventory) -> bool:
    """Whether the host may change this: a slot handed over for the host to program, and its host access (judged as a lock)."""
    if change.subject.kind is SubjectKind.HOST_ACCESS:
        return True
    old = handed.accelerator(change.accelerator)
    slots = () if old is None else old.slots
    return any(s.programmable_from_host for s in slots if change.subject.name == shown(s.slot_id))


def _locks(
    old: Accelerator, new: Accelerator, records: lock_evidence.Records | None, gaps: tuple[Gap, ...], lifecycle: int
) -> Iterator[WatchTrouble]:
    """Yield the troubles of the locks that were closed when the device was handed over."""
    now = {r.place: r for r in new.locks}
    for was in old.locks:
        if was.state not in CLOSED:
            continue
        found = now.get(was.place)
        subject = shown(f'lock {was.mechanism} {was.ref} {was.field}', 2 * drift.CHARACTERS)
        whole = was.scope is Scope.BMC
        gap = next((g for g in gaps if g.hides or g.ref == was.ref), None)
        gone = WatchTrouble(
            kind=TroubleKind.LOCK,
            device=None if whole else old.id,
            subject=subject,
            fact=LockGone(card=_card(new), was=was, gap=gap),
            lock=was.place,
            of=frozenset({old.id}) if whole else frozenset(),
        )
        if found is None:
            yield gone if gap is None else replace(gone, kind=TroubleKind.UNREADABLE, certain=False)
            continue
        judged = found if records is None else lock_evidence.judge(found, records.at(found), lifecycle=lifecycle)
        if holds(was, found, judged) or (records is None and found.state is LockState.LOCKED_REPORTED):
            continue
        changed = replace(gone, fact=LockChanged(card=_card(new), was=was, found=judged))
        if found.state is LockState.UNKNOWN:
            yield replace(changed, kind=TroubleKind.UNREADABLE, certain=False)
        else:
            # A lock that takes effect with the start of the host may be read before the host has started.
            yield replace(changed, certain=found.state is not LockState.PENDING_RESET)


def _ways(
    old: Accelerator, new: Accelerator, records: lock_evidence.Records | None, gaps: tuple[Gap, ...], lifecycle: int
) -> Iterator[WatchTrouble]:
    """Yield the paths of a host that were closed at hand-over and are open now because of something that is new.

    Changes of the locks from hand-over are reported for each of them, so here these locks count as they were.
    """
    before = {r.place: r for r in old.locks if r.state in CLOSED}
    judged = {r.place: r if records is None else lock_evidence.judge(r, records.at(r), lifecycle=lifecycle) for r in new.locks}
    shown_now = judged | {place: replace(judged.get(place, r), state=r.state) for place, r in before.items()}
    told = set()
    for path in sorted(HOST_PATHS):
        if lock_evidence.weakest(lock_evidence.coverage(old, path, old.locks)).state not in CLOSED:
            continue
        while (found := lock_evidence.weakest(lock_evidence.coverage(new, path, shown_now.values()))).state not in CLOSED:
            by = found.reading
            if by is not None and by.place in told:
                break
            yield _way(new, path, found, gaps)
            if by is None:
                break
            told.add(by.place)
            shown_now[by.place] = replace(by, state=LockState.LOCKED_REPORTED)


def _way(a: Accelerator, path: WritePath, found: Coverage, gaps: tuple[Gap, ...]) -> WatchTrouble:
    by = found.reading
    whole = by is not None and by.scope is Scope.BMC
    hidden = found.state is LockState.UNKNOWN or (by is None and bool(gaps))
    place = '' if by is None else f' lock {by.mechanism} {by.ref} {by.field}'
    return WatchTrouble(
        kind=TroubleKind.UNREADABLE if hidden else TroubleKind.LOCK,
        device=None if whole else a.id,
        subject=shown(f'write path {path}{place}', 2 * drift.CHARACTERS),
        fact=PathOpened(card=_card(a), path=path, by=found),
        certain=not hidden and found.state is not LockState.PENDING_RESET,
        lock=None if by is None else by.place,
        of=frozenset({a.id}) if whole else frozenset(),
    )


def _card(a: Accelerator) -> CardNamed:
    return CardNamed(label=shown(a.label), id=a.id)


def holds(was: LockReading, found: LockReading, judged: LockReading) -> bool:
    """Whether a lock is closed as it was handed over.

    A lock that took effect with the start of the host has no reset in our records. For such a lock it counts that its BMC
    reports it in force, and that the record is of this very card. A value that only says what is set does not prove that.
    """
    if judged.state is LockState.LOCKED_VERIFIED or (was.state, judged.state) == (LockState.LOCKED_REPORTED,) * 2:
        return True
    return found.state is LockState.LOCKED_REPORTED and judged.state is LockState.PENDING_RESET and found.in_force


def accounts(seen: Inventory, baseline: Baseline, node: NodeFacts) -> tuple[WatchTrouble, ...]:
    """Return the unexpected accounts that may log in to a BMC, by the present rules, not by the state at hand-over."""
    return _once(_accounts(seen, baseline, node))


def _accounts(seen: Inventory, baseline: Baseline, node: NodeFacts) -> Iterator[WatchTrouble]:
    for a in seen.accelerators:
        expected = demands(baseline, a, node).bmc_users
        if expected is None:
            continue
        for bmc, strange, unread in audit(a, seen, expected):
            for said in strange:
                what = shown(f'account {said} of BMC {bmc}', 2 * drift.CHARACTERS)
                yield WatchTrouble(kind=TroubleKind.ACCOUNT, device=None, subject=what, fact=NotExpected())
            if unread is not None:
                what, fact = f'accounts of BMC {bmc}', AccountsUnread(error=unread)
                yield WatchTrouble(kind=TroubleKind.UNREADABLE, device=None, subject=what, fact=fact, certain=False)


def open_locks(seen: Inventory, baseline: Baseline, node: NodeFacts) -> tuple[WatchTrouble, ...]:
    """Return the demanded locks that do not read closed, of a machine whose state at hand-over is unknown."""
    return _once(_open_locks(seen, baseline, node))


def _open_locks(seen: Inventory, baseline: Baseline, node: NodeFacts) -> Iterator[WatchTrouble]:
    for a in seen.accelerators:
        for r in a.locks:
            if r.blocks & demands(baseline, a, node).block and r.state not in CLOSED:
                subject = shown(f'lock {r.mechanism} {r.ref} {r.field}', 2 * drift.CHARACTERS)
                known = r.state is not LockState.UNKNOWN
                whole = r.scope is Scope.BMC
                yield WatchTrouble(
                    kind=TroubleKind.LOCK if known else TroubleKind.UNREADABLE,
                    device=None if whole else a.id,
                    subject=subject,
                    fact=LockOpen(card=_card(a), found=r),
                    certain=known,
                    lock=r.place,
                    of=frozenset({a.id}) if whole else frozenset(),
                )


def unreadable(error: Exception) -> WatchTrouble:
    """Return the trouble that a BMC could not be read."""
    return WatchTrouble(kind=TroubleKind.UNREADABLE, device=None, subject='all', fact=Unreadable(error=error), certain=False)


def unloadable(error: Exception) -> WatchTrouble:
    """Return the trouble that a node cannot be watched, whatever its BMC reports."""
    return WatchTrouble(kind=TroubleKind.UNLOADABLE, device=None, subject='node', fact=Unloadable(error=error))


def unproven(fact: NotHandedOver | NoCertificate, subject: str = 'hand-over') -> WatchTrouble:
    """Return the trouble that somebody has a node that was not handed over."""
    return WatchTrouble(kind=TroubleKind.UNPROVEN, device=None, subject=subject, fact=fact)


def opened(since: datetime, by: str) -> WatchTrouble:
    """Return the trouble that a step of ours has released locks."""
    return WatchTrouble(kind=TroubleKind.OPENED, device=None, subject='locks', fact=LocksOpened(since=since, by=by))


def unlocked(handed: Inventory) -> frozenset[AcceleratorId]:
    """Return the devices that were handed over with an open host path, as rules or waivers permit."""
    return frozenset(
        a.id
        for a in handed.accelerators
        if lock_evidence.weakest(lock_evidence.coverage(a, WritePath.HOST_DEVICE, a.locks)).state not in CLOSED
    )


def rewritable(
    seen: Inventory, devices: Iterable[AcceleratorId], baseline: Baseline, node: NodeFacts, catalogue: Iterable[Image]
) -> frozenset[AcceleratorId]:
    """Return those of these devices for which the catalogue has images of all demanded firmware."""
    known = tuple(catalogue)
    wanted = frozenset(devices)

    def there(a: Accelerator) -> bool:
        asked = list(components_wanted(a, demands(baseline, a, node)))
        found = [c is not None and len(image_selection.firmware_image(known, a, c, version)) == 1 for c, _, version in asked]
        return bool(found) and all(found)

    return frozenset(a.id for a in seen.accelerators if a.id in wanted and there(a))


def exposed(found: Iterable[WatchTrouble], *, opened: bool = False) -> frozenset[AcceleratorId]:
    """Return the devices to write again once the node is free, whatever version they report then: versions can be false.

    :param opened: we have released the locks ourselves, with the host held off: open locks expose nothing then.
    """
    kinds = EXPOSING - {TroubleKind.LOCK} if opened else EXPOSING
    certain = [t for t in found if t.kind in kinds and t.certain]
    return frozenset(t.device for t in certain if t.device is not None).union(*(t.of for t in certain))


# ------------------------------------------------------------------------------------------------------------ reactions


def reactions(baseline: Baseline, node: NodeFacts, known: Inventory | None, trouble: WatchTrouble) -> frozenset[DriftAction]:
    """Return what the rules say to do about a trouble: the rules for its device, or for all devices of the node.

    :param known: the inventory to look up the devices in; the default applies if it has none of them.
    """
    devices = () if known is None else known.accelerators
    asked = [demands(baseline, a, node).on_drift for a in devices if trouble.device in (None, a.id)]
    return frozenset().union(*asked) if asked else ON_DRIFT


def closable(found: Iterable[WatchTrouble], seen: Inventory) -> tuple[tuple[LockReading, ...], tuple[NotClosed, ...]]:
    """Return the locks that can be engaged again now, in order; and why the others cannot.

    A lockdown comes last: under it a BMC accepts no other change.
    """
    readings = []
    why: list[NotClosed] = []
    for trouble in found:
        if trouble.kind is not TroubleKind.LOCK or trouble.lock is None:
            continue
        shown_by = [a for a in seen.accelerators if trouble.device in (None, a.id)]
        match next(((a, r) for a in shown_by for r in a.locks if r.place == trouble.lock), None):
            case None:
                why.append(LockNotShown(device=trouble.device, mechanism=trouble.lock[0]))
            case device, reading if reading.needs is not ResetKind.NONE:
                why.append(NeedsReset(card=_card(device), lock=reading))
            case _, reading:
                readings.append(reading)
    once = {r.place: r for r in readings}
    return tuple(sorted(once.values(), key=lambda r: (r.wraps, r.place))), tuple(why)


# --------------------------------------------------------------------------------------------- accepting changes of our own


def accepted(handed: Inventory | None, seen: Inventory, actions: Iterable[Action]) -> Inventory | None:
    """Return what to compare later inventories with, after a job of ours on a machine that somebody has.

    What the job did itself counts as handed over; of a device with any other change, nothing does. A lock that was closed at
    hand-over has to be engaged again, whatever the job has released. A lock that is new and open does not count as handed over,
    so it is reported as a new way in.

    :param seen: a complete inventory, with its locks judged.
    :param actions: the actions that were started.
    """
    if handed is None:
        return None
    known = {a.id: a for a in remembered_inventory.remembered(handed, seen).accelerators}
    beside = drift.beyond(drift.drift(handed, seen), actions)
    # A value that could not be read is no change, and stays as it was.
    others = {c.accelerator for c in beside if _KINDS[c.kind] not in (None, TroubleKind.UNREADABLE)}
    devices = []
    for old in handed.accelerators:
        judged = seen.accelerator(old.id)
        if judged is None or old.id in others:
            devices.append(old)
            continue
        places = {r.place: r for r in old.locks}
        locks = {
            **places,
            **{
                r.place: r
                for r in judged.locks
                if r.state is LockState.LOCKED_VERIFIED or (r.place not in places and r.state in CLOSED)
            },
        }
        devices.append(replace(known[old.id], locks=tuple(replace(r, session='', reason=None) for r in locks.values())))
    return replace(handed, accelerators=tuple(devices))

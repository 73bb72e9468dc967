# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the releases and engagements of locks around the writes of a plan."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from baremetal_acc.model import note as n
from baremetal_acc.model import refusal as r
from baremetal_acc.model import subject as subjects
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Action, Engage, Release, RestoreSetting, SetCardSetting
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritablePart, WritePath, closed_by_us
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.refusal import Refusal
from baremetal_acc.planning import lock_evidence, waivers
from baremetal_acc.planning.plan_draft import PlanDraft
from baremetal_acc.policy.device_demands import Demands


def plan_release(draft: PlanDraft, accelerator: Accelerator, subject: WritablePart, ref: Ref) -> None:
    """Release the locks that also block our own write of this part."""
    for reading in accelerator.locks:
        if lock_evidence.in_the_way(reading, subject, ref):
            _add_release(draft, accelerator, reading)


def release_all_locks(draft: PlanDraft, accelerator: Accelerator, wanted: Demands) -> None:
    for reading in accelerator.locks:
        if reading.blocks & (wanted.block | {WritePath.HOST_DEVICE}) and reading.state is not LockState.UNLOCKED:
            _add_release(draft, accelerator, reading)
            if reading.place in draft.kept:
                continue
            if reading.needs is not ResetKind.NONE and reading.reset is not None:
                draft.reset(reading.reset, reading.needs, _whose(accelerator, reading))


def locks_left_closed(draft: PlanDraft, accelerator: Accelerator) -> Iterator[Note]:
    """Note the locks that an unlock leaves engaged.

    An unlock releases the locks that the rules want engaged, and those that block the card's own path to the host.
    """
    opened = {(mechanism, ref, field) for _, mechanism, ref, field in draft.opened}
    for reading in accelerator.locks:
        if reading.place in opened or reading.state in (LockState.UNLOCKED, LockState.UNSUPPORTED):
            continue
        if reading.place in draft.kept:
            if reading.state is LockState.PARTIAL:
                left = n.LockLeft(mechanism=reading.mechanism, ref=reading.ref, state=reading.state)
                yield Note(label=_protected(accelerator, reading), content=left)
            continue
        paths = tuple(sorted(reading.blocks))
        left = n.LockLeft(mechanism=reading.mechanism, ref=reading.ref, state=reading.state, paths=paths)
        yield Note(label=_protected(accelerator, reading), content=left)


def plan_lockdowns(draft: PlanDraft, *, engage: bool) -> None:
    """Release a lockdown before the other changes of its BMC, and engage it after them: it blocks changes of all settings."""
    changed = {a.ref.bmc for a in draft.actions if isinstance(a, RestoreSetting | SetCardSetting)}
    changed |= {a.ref.bmc for a in draft.actions if isinstance(a, Release | Engage) and not a.wraps}
    for accelerator in draft.inventory.accelerators:
        for reading in accelerator.locks:
            if (
                reading.wraps
                and reading.ref.bmc in changed
                and reading.state not in (LockState.UNLOCKED, LockState.UNSUPPORTED)
            ):
                _add_release(draft, accelerator, reading)
                if engage:
                    _add_engage(draft, accelerator, reading)


def once_each_place(actions: Iterable[Action], inventory: Inventory) -> Iterator[Action]:
    """Yield actions with each lock of a whole machine released and engaged once, in the name of one device."""
    shared = [(r.place, a.id) for a in inventory.accelerators for r in a.locks if r.scope is Scope.BMC]
    owners = dict(sorted(shared, reverse=True))
    done = set()
    for action in actions:
        if not isinstance(action, Release | Engage) or action.scope is not Scope.BMC:
            yield action
            continue
        place = (action.mechanism, action.ref, action.field)
        if (type(action), place) not in done:
            done.add((type(action), place))
            yield replace(action, accelerator=owners[place])


def _whose(accelerator: Accelerator, reading: LockReading) -> str:
    """Name a lock and what it protects, as the reason of a reset."""
    return f'{_protected(accelerator, reading)} {reading.mechanism}'


def _protected(accelerator: Accelerator, reading: LockReading) -> str:
    """Name what a lock protects: a device, or all that a BMC reports."""
    return f'BMC {reading.ref.bmc}' if reading.scope is Scope.BMC else accelerator.label


def _add_release(draft: PlanDraft, accelerator: Accelerator, reading: LockReading) -> None:
    """Plan the release of a lock; refuse it if the lock needs an undo record to be released and there is none."""
    if reading.closes is not None and not closed_by_us(draft.undos, reading.place):
        draft.kept.add(reading.place)
        # A partial lock leaves its path open: what is closed of it was closed by the vendor, or by somebody else.
        if reading.state is not LockState.PARTIAL:
            whole = reading.scope is Scope.BMC
            draft.refusals.append(
                Refusal(
                    accelerator=None if whole else accelerator.id,
                    label=_protected(accelerator, reading),
                    subject=subjects.lock_mechanism(reading.mechanism),
                    reason=r.NoRecord(ref=reading.ref, state=reading.state, why=reading.reason),
                )
            )
        return
    action = Release(
        accelerator=accelerator.id,
        mechanism=reading.mechanism,
        ref=reading.ref,
        field=reading.field,
        expects=reading.value,
        scope=reading.scope,
        wraps=reading.wraps,
    )
    if action not in draft.released:
        draft.released.add(action)
        draft.opened.add((accelerator.id, *reading.place))
        draft.actions.append(action)


def _add_engage(draft: PlanDraft, accelerator: Accelerator, reading: LockReading) -> None:
    needs = reading.needs if (accelerator.id, *reading.place) in draft.opened else reading.to_close
    draft.actions.append(
        Engage(
            accelerator=accelerator.id,
            mechanism=reading.mechanism,
            ref=reading.ref,
            field=reading.field,
            blocks=reading.blocks,
            needs=needs,
            scope=reading.scope,
            wraps=reading.wraps,
        )
    )
    if needs is ResetKind.NONE:
        return
    if reading.reset is None:
        draft.refuse(accelerator, subjects.lock_mechanism(reading.mechanism), r.NothingToResetForLock(needs=needs))
    else:
        draft.reset(reading.reset, needs, _whose(accelerator, reading))


def plan_engagements(draft: PlanDraft, accelerator: Accelerator, wanted: Demands) -> None:
    released = draft.opened
    for reading in accelerator.locks:
        # A lock that is released for our own write is engaged again, whether or not the baseline demands it.
        if reading.blocks & wanted.block or (accelerator.id, *reading.place) in released:
            _add_engage(draft, accelerator, reading)
    for path in sorted(wanted.block):
        for left in _left_open(accelerator, path, wanted.block_rule):
            draft.refuse(accelerator, subjects.lock_path(path), left)
        uncovered = [
            c.subject for c in lock_evidence.coverage(accelerator, path, accelerator.locks) if c.state is LockState.UNSUPPORTED
        ]
        if not uncovered:
            continue
        now = draft.inventory.at
        let = waivers.used(accelerator, path, (str(s) for s in uncovered), wanted.waivers, now)
        if let is not None and not waivers.hidden(accelerator, path, draft.blockable):
            draft.waived.append(let)
            continue
        reason = r.NoMechanism(
            parts=tuple(sorted(str(s) for s in uncovered)),
            rule=wanted.block_rule,
            vanished=let is not None,
            waivers=() if let is not None else waivers.shortfall(wanted.waivers, path, now),
        )
        draft.refuse(accelerator, subjects.lock_path(path), reason)


def _left_open(accelerator: Accelerator, path: WritePath, rule: str) -> Iterator[r.CannotBeClosed]:
    """Yield what stays open on a path even if every lock were engaged, as the device itself reports."""
    engaged = (replace(r, state=LockState.LOCKED_REPORTED) if r.closable else r for r in accelerator.locks)
    for covered in lock_evidence.coverage(accelerator, path, engaged):
        best = covered.reading
        if best is not None and not best.closable:
            yield r.CannotBeClosed(
                part=str(covered.subject), mechanism=best.mechanism, ref=best.ref, why=best.reason, rule=rule
            )

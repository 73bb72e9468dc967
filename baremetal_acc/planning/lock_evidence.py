# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Judge lock readings: the state that our own records of engaged locks allow, and how write paths are covered.

A lock that was found closed is ``locked-reported``; only a lock that we engaged ourselves and that still holds is
``locked-verified``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import (
    AtPlace,
    Coverage,
    Engagement,
    LockReading,
    LockState,
    ResetKind,
    Scope,
    Way,
    WritablePart,
    WritePath,
)
from baremetal_acc.model.ref import BmcName, Ref

_RANK = {
    LockState.LOCKED_VERIFIED: 6,
    LockState.LOCKED_REPORTED: 5,
    LockState.PENDING_RESET: 4,
    LockState.PARTIAL: 3,
    LockState.UNLOCKED: 2,
    LockState.UNKNOWN: 1,
    LockState.UNSUPPORTED: 0,
}

_OF_ALTERNATIVES = _RANK | {LockState.UNKNOWN: 2.5}
"""One mechanism that blocks is enough: if one is open and another is unknown, the state of the path is unknown."""

WHERE_GONE = 'if it is gone for good, inspect the node, or run apply --forget-vanished'
"""What to do about something that was reported before."""

GONE = f'it was shown before, but no longer is ({WHERE_GONE})'
"""Reason of an unknown state: the path was reported before, and is not any more."""

_MESSAGES = '@Message.ExtendedInfo'


class Records:
    """Our own records of locks, indexed by the place where they were engaged, because there are as many records as locks."""

    def __init__(self, engagements: Iterable[Engagement]) -> None:
        self._by_place: dict[tuple[str, Ref, str], list[Engagement]] = {}
        for engagement in engagements:
            self._by_place.setdefault(engagement.place, []).append(engagement)

    def at(self, lock: AtPlace) -> tuple[Engagement, ...]:
        """Return the records of the place of a lock, in their order."""
        return tuple(self._by_place.get(lock.place, ()))


def judge(
    reading: LockReading,
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    flow: Flow | None = None,
    starting: Ref | None = None,
) -> LockReading:
    """Return the reading with the state that our own records allow.

    Only a reading that a mechanism reports as ``locked-reported`` can become ``locked-verified``, and only by an engagement of
    the same place, of the same card, in this lifecycle (and flow, where one is given). That engagement has to be older than the
    reading, to have used another session, to have left open what is left open now, and to have been followed by the reset that
    it needs.

    :param starting: a System that is about to be started: a lock of ours that is set, and that takes effect with that start
        before any code of the host runs, counts as in force.
    """
    if reading.state is LockState.LOCKED_VERIFIED:
        return replace(
            reading, state=LockState.UNKNOWN, reason='a lock mechanism reported itself as verified, which it must not'
        )
    comes = starting is not None and reading.state is LockState.PENDING_RESET and reading.with_start == starting
    if reading.state is not LockState.LOCKED_REPORTED and not comes:
        return reading
    ours = [e for e in engagements if e.place == reading.place]
    if not ours:
        return replace(reading, reason='found locked, but not engaged by us')
    # A lock of a whole machine is engaged once for all of its devices: it belongs to the BMC, which the place names.
    whole = reading.scope is Scope.BMC
    same_card = [e for e in ours if whole or e.accelerator == reading.accelerator]
    if not same_card:
        return replace(reading, reason='engaged on another card')
    same_card = [e for e in same_card if e.part == reading.part]
    if not same_card:
        return replace(reading, reason='engaged for another part of this card')
    current = [e for e in same_card if e.lifecycle == lifecycle]
    if not current:
        return replace(reading, reason='engaged in an earlier lifecycle of the node')
    in_flow = [e for e in current if flow is None or e.flow == flow]
    if not in_flow:
        return replace(reading, reason=f'not engaged in this {flow}')
    record = max(in_flow, key=lambda e: e.at)
    if reading.at <= record.at:
        return replace(reading, reason='read before it was engaged')
    if reading.session == record.session:
        return replace(reading, reason='read over the session that engaged it')
    if record.leaves is not None and reading.leaves != record.leaves:
        why = 'the parts that its BMC cannot lock differ from those when it was engaged: a part that was locked may be open'
        return replace(reading, state=LockState.PARTIAL, reason=why)
    if comes:
        return replace(reading, state=LockState.LOCKED_VERIFIED, reason='takes effect with the start of the host')
    if record.needs is not ResetKind.NONE and (record.reset_at is None or reading.at <= record.reset_at):
        return replace(reading, state=LockState.PENDING_RESET, reason=f'in effect only after a {record.needs}')
    return replace(reading, state=LockState.LOCKED_VERIFIED, reason=None)


def trouble(body: Mapping[str, object], field: str = '') -> str | None:
    """Return the error that the BMC reports next to a resource or one of its properties; None if it reports none.

    The error is a message whose severity is not OK: the BMC answered, and part of the answer is wrong. Some code takes a value
    that it could not read for closed (NVIDIA/bmcweb in_band.hpp). The message may be next to the property, in any object that
    contains the property, or next to such an object.

    :param field: the property, a path of names and positions joined with ``/``. What follows the property itself, to
        distinguish places that the property represents, leads to nothing.

    Source: DSP0266, section "Error responses": ``@Message.ExtendedInfo`` of an object and of a property.
    """
    said = [body.get(_MESSAGES)]
    around: object = body
    for name in field.split('/'):
        said.append(_at(around, name + _MESSAGES))
        around = _at(around, name)
        said.append(_at(around, _MESSAGES))
    for found in said:
        for one in found if isinstance(found, list) else ():
            message = one if isinstance(one, Mapping) else {}
            severity = message.get('MessageSeverity') or message.get('Severity') or 'unknown severity'
            if severity != 'OK':
                return f'the BMC reports an error next to it ({severity}: {str(message.get("MessageId"))[:80]})'
    return None


def _at(value: object, name: str) -> object:
    """Return the member of an object with that name, or the element of an array at that position; None if there is none."""
    if isinstance(value, list):
        return value[int(name)] if name.isdecimal() and len(name) < 10 and int(name) < len(value) else None
    return value.get(name) if isinstance(value, Mapping) else None


def doubted(reading: LockReading, body: Mapping[str, object]) -> LockReading:
    """Turn a reading that says closed into unknown if the resource reports an error next to it.

    :param body: of the resource that the reading was taken from.
    """
    why = trouble(body, reading.field) if reading.state is LockState.LOCKED_REPORTED else None
    return reading if why is None else replace(reading, state=LockState.UNKNOWN, reason=why)


def subjects(accelerator: Accelerator) -> tuple[WritablePart, ...]:
    """Return every part of a device that has to be protected."""
    parts = [WritablePart(scope=Scope.COMPONENT, part=c.id) for c in accelerator.firmware if c.id is not None]
    parts += [WritablePart(scope=Scope.SLOT, part=s.slot_id) for s in accelerator.slots]
    if all(part.scope is Scope.SLOT for part in parts):
        parts.insert(0, WritablePart(scope=Scope.FIRMWARE))
    return tuple(parts)


def covers(reading: LockReading, subject: WritablePart) -> bool:
    """Whether the mechanism of the reading protects that part, if its lock holds."""
    match reading.scope:
        case Scope.DEVICE:
            return True
        case Scope.FIRMWARE:
            return subject.scope in (Scope.FIRMWARE, Scope.COMPONENT)
        case Scope.COMPONENT:
            return subject.scope is Scope.COMPONENT and subject.part == reading.part
        case Scope.SLOT:
            return subject.scope is Scope.SLOT and subject.part == reading.part
        case Scope.BMC:
            return subject.scope is Scope.BMC and subject.part == reading.ref.bmc


def in_the_way(reading: LockReading, subject: WritablePart, ref: Ref) -> bool:
    """Whether the lock also prevents our own write of that part by way of that resource."""
    if WritePath.BMC_NETWORK not in reading.blocks or reading.state in (LockState.UNLOCKED, LockState.UNSUPPORTED):
        return False
    return reading.ref.bmc == ref.bmc if reading.scope is Scope.BMC else covers(reading, subject)


def coverage(accelerator: Accelerator, path: WritePath, readings: Iterable[LockReading]) -> tuple[Coverage, ...]:
    """Return how a write path is blocked, for each writable part.

    One mechanism of the card that blocks a part is enough. If one mechanism reports several places, each of them may be a way
    in, so the worst one counts. If locks of whole machines are reported, each BMC that reports the device is a way to it: the
    parts that the card's own mechanisms protect no better than the locks of that BMC count as one subject for that BMC. Locks
    of whole machines never close the card's own path to the host.

    :param readings: of this device, already judged.
    """
    relevant = [r for r in readings if path in r.blocks and r.accelerator == accelerator.id]
    whole = [r for r in relevant if r.scope is Scope.BMC]
    found = _by_subject(accelerator, [r for r in relevant if r.scope is not Scope.BMC])
    if path is WritePath.HOST_DEVICE or not whole:
        return found
    ways: list[Coverage] = []
    for bmc in sorted({ref.bmc for ref in accelerator.refs}):
        through = _by_way_of(bmc, [r for r in whole if r.ref.bmc == bmc])
        weaker = [c for c in found if _RANK[c.state] <= _RANK[through.state]]
        ways += [through] if weaker else []
        ways += (c for c in found if c not in weaker and c not in ways)
    return tuple(ways)


def ways(accelerators: Iterable[Accelerator]) -> frozenset[Way]:
    """Return the places of locks of whole machines that are reported now. A place that could not be read may be none."""
    return frozenset(
        Way(mechanism=r.mechanism, ref=r.ref, field=r.field, blocks=tuple(sorted(r.blocks)))
        for a in accelerators
        for r in a.locks
        if r.scope is Scope.BMC and r.value is not None and r.state is not LockState.UNSUPPORTED
    )


def vanished(accelerator: Accelerator, before: Iterable[Way], now: datetime) -> tuple[LockReading, ...]:
    """Return unknown readings for the places of locks of whole machines that a device's BMCs do not report any more.

    These places may be open, and the BMC may have been made to hide them.

    :param before: the places that were reported at some time.
    :param now: when the inventory read began that does not report them.
    """
    shown = {r.place for r in accelerator.locks}
    bmcs = {ref.bmc for ref in accelerator.refs}
    return tuple(
        LockReading(
            mechanism=way.mechanism,
            accelerator=accelerator.id,
            blocks=frozenset(way.blocks),
            ref=way.ref,
            field=way.field,
            value=None,
            state=LockState.UNKNOWN,
            at=now,
            session='',
            scope=Scope.BMC,
            reason=GONE,
        )
        for way in sorted(before)
        if way.ref.bmc in bmcs and way.place not in shown
    )


def _by_way_of(bmc: BmcName, readings: list[LockReading]) -> Coverage:
    """Return how one BMC protects all of a device: by a lockdown, or because each way of the host to the BMC is closed.

    A BMC has several ways in, and every mechanism closes one of them: each has to be closed. A lockdown closes all that it
    declares.
    """
    subject = WritablePart(scope=Scope.BMC, part=bmc)
    ways = [r for r in readings if not r.wraps]
    lockdowns: dict[str, list[LockReading]] = {}
    for reading in readings:
        if reading.wraps:
            lockdowns.setdefault(reading.mechanism, []).append(reading)
    alternatives = [*lockdowns.values(), *([ways] if ways else [])]
    if not alternatives:
        return Coverage(subject=subject, state=LockState.UNSUPPORTED, reading=None)
    worst = [min(places, key=lambda r: _RANK[r.state]) for places in alternatives]
    best = max(worst, key=lambda r: _RANK[r.state])
    return Coverage(subject=subject, state=best.state, reading=best)


def _by_subject(accelerator: Accelerator, relevant: list[LockReading]) -> tuple[Coverage, ...]:
    """Return how the mechanisms of the card protect each of its parts."""
    parts = subjects(accelerator)
    times = Counter(parts)

    def best(subject: WritablePart) -> Coverage:
        worst: dict[str, LockReading] = {}
        for reading in relevant:
            if not covers(reading, subject):
                continue
            if reading.part is not None and times[subject] > 1:
                reason = f'the BMC shows several parts of the device with the id {reading.part}'
                reading = replace(reading, state=LockState.UNKNOWN, reason=reason)
            known = worst.get(reading.mechanism)
            if known is None or _RANK[reading.state] < _RANK[known.state]:
                worst[reading.mechanism] = reading
        if not worst:
            return Coverage(subject=subject, state=LockState.UNSUPPORTED, reading=None)
        strongest = max(worst.values(), key=lambda r: _OF_ALTERNATIVES[r.state])
        return Coverage(subject=subject, state=strongest.state, reading=strongest)

    return tuple(best(subject) for subject in parts)


def weakest(found: Iterable[Coverage]) -> Coverage:
    """Return the part that is protected worst. There has to be at least one."""
    return min(found, key=lambda c: _RANK[c.state])

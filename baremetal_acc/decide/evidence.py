# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a lock reading proves: a setting that was found closed, or one that we closed and that holds."""

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
"""One mechanism that blocks is enough: where one is open and of another one nobody knows, nobody knows of the path."""

WHERE_GONE = 'where it is gone for good, have the node inspected, or apply --forget-vanished'
"""What to do about something that was shown before."""

GONE = f'it was shown before, and is not shown any more ({WHERE_GONE})'
"""Why nobody knows of a way whether it is closed."""

_MESSAGES = '@Message.ExtendedInfo'


class Records:
    """Our own records of locks, found by the place at which they were engaged: there are as many of them as there are locks."""

    def __init__(self, engagements: Iterable[Engagement]) -> None:
        self._by_place: dict[tuple[str, Ref, str], list[Engagement]] = {}
        for engagement in engagements:
            self._by_place.setdefault(engagement.place, []).append(engagement)

    def at(self, lock: AtPlace) -> tuple[Engagement, ...]:
        """Those of the place of a lock, in their order."""
        return tuple(self._by_place.get(lock.place, ()))


def judge(
    reading: LockReading,
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    flow: Flow | None = None,
    starting: Ref | None = None,
) -> LockReading:
    """The reading with the state that our own records allow it.

    Only a reading that a mechanism calls ``locked-reported`` can become ``locked-verified``, and only by an engagement of the
    same place, of the same card, in this lifecycle (and flow, where one is asked for), that is older than the reading, went
    over another session, left open what is left open now, and was followed by the reset that it needs.

    :param starting: a System that is about to be started: what is set, and comes in force with that start, before any code of
        its host runs, counts as being in force if it is our own.
    """
    if reading.state is LockState.LOCKED_VERIFIED:
        return replace(reading, state=LockState.UNKNOWN, reason='a mechanism may not call itself verified')
    comes = starting is not None and reading.state is LockState.PENDING_RESET and reading.with_start == starting
    if reading.state is not LockState.LOCKED_REPORTED and not comes:
        return reading
    ours = [e for e in engagements if e.place == reading.place]
    if not ours:
        return replace(reading, reason='found closed, not engaged by us')
    # A lock of a whole machine is engaged once for all of its devices: what it is bound to is the BMC, which the place names.
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
        why = (
            'what its BMC does not let be closed is not what it was when it was engaged: something may be open that was closed'
        )
        return replace(reading, state=LockState.PARTIAL, reason=why)
    if comes:
        return replace(reading, state=LockState.LOCKED_VERIFIED, reason='comes in force with the start of the host')
    if record.needs is not ResetKind.NONE and (record.reset_at is None or reading.at <= record.reset_at):
        return replace(reading, state=LockState.PENDING_RESET, reason=f'in force after a {record.needs} only')
    return replace(reading, state=LockState.LOCKED_VERIFIED, reason=None)


def trouble(body: Mapping[str, object], field: str = '') -> str | None:
    """What the BMC says beside a resource, or beside one of its properties, that went wrong; None where it says nothing.

    A message that is more than information: the BMC answered, and something of the answer is not so. Some code takes what it
    could not read for closed (facts/redfish.md, section 6.1). It may stand beside the property, or in any object that the
    property is part of, or beside that.

    :param field: the property, a path of names and positions joined with ``/``. What comes after the property itself, to tell
        places apart that it stands for, leads nowhere.
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
                return f'the BMC says beside it that something went wrong ({severity}: {str(message.get("MessageId"))[:80]})'
    return None


def _at(value: object, name: str) -> object:
    """What an object has by that name, or an array at that position; None where it has nothing there."""
    if isinstance(value, list):
        return value[int(name)] if name.isdecimal() and len(name) < 10 and int(name) < len(value) else None
    return value.get(name) if isinstance(value, Mapping) else None


def doubted(reading: LockReading, body: Mapping[str, object]) -> LockReading:
    """A reading that says closed, unless the resource says beside it that something went wrong: then it says nothing.

    :param body: of the resource that the reading was taken from.
    """
    why = trouble(body, reading.field) if reading.state is LockState.LOCKED_REPORTED else None
    return reading if why is None else replace(reading, state=LockState.UNKNOWN, reason=why)


def subjects(accelerator: Accelerator) -> tuple[WritablePart, ...]:
    """Everything of a device that has to be protected."""
    parts = [WritablePart(scope=Scope.COMPONENT, part=c.id) for c in accelerator.firmware if c.id is not None]
    parts += [WritablePart(scope=Scope.SLOT, part=s.slot_id) for s in accelerator.slots]
    if all(part.scope is Scope.SLOT for part in parts):
        parts.insert(0, WritablePart(scope=Scope.FIRMWARE))
    return tuple(parts)


def covers(reading: LockReading, subject: WritablePart) -> bool:
    """The reading's mechanism protects that subject, if it holds."""
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
    """The reading's mechanism keeps us, too, from writing that subject by way of that resource."""
    if WritePath.BMC_NETWORK not in reading.blocks or reading.state in (LockState.UNLOCKED, LockState.UNSUPPORTED):
        return False
    return reading.ref.bmc == ref.bmc if reading.scope is Scope.BMC else covers(reading, subject)


def coverage(accelerator: Accelerator, path: WritePath, readings: Iterable[LockReading]) -> tuple[Coverage, ...]:
    """How a write path is blocked, subject by subject.

    One mechanism of the card that blocks it is enough. Where one mechanism says something at several places, each of them may
    be a way in, so the worst of them counts. Where locks of whole machines are shown, each BMC that shows the device is a way
    to it: what no mechanism of the card protects as well is one subject for each of these BMCs. They never close the card's
    own way to the host.

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
    """The ways to the BMCs of a machine that locks of whole machines show now. What could not be read may be none."""
    return frozenset(
        Way(mechanism=r.mechanism, ref=r.ref, field=r.field, blocks=tuple(sorted(r.blocks)))
        for a in accelerators
        for r in a.locks
        if r.scope is Scope.BMC and r.value is not None and r.state is not LockState.UNSUPPORTED
    )


def vanished(accelerator: Accelerator, before: Iterable[Way], now: datetime) -> tuple[LockReading, ...]:
    """What is to be read of ways to a device that are not shown any more: they may be open, and the BMC be made to hide them.

    :param before: the ways that were shown at some time.
    :param now: when the look began that does not show them.
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
    """How all of a device is protected on one BMC: by a lockdown, or because each way of the host to it is closed.

    A BMC has several ways, and every mechanism is for one of them: each has to be closed. A lockdown closes all it declares.
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
    """How the mechanisms of the card protect each of its parts."""
    parts = subjects(accelerator)
    times = Counter(parts)

    def best(subject: WritablePart) -> Coverage:
        worst: dict[str, LockReading] = {}
        for reading in relevant:
            if not covers(reading, subject):
                continue
            if reading.part is not None and times[subject] > 1:
                reason = f'the BMC calls several parts of the device {reading.part}'
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
    """The subject that is protected worst. At least one is needed."""
    return min(found, key=lambda c: _RANK[c.state])

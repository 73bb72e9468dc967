# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide whether a waiver covers a write path that no mechanism blocks, and list what rules relax from the default.

A waiver is for a path that cannot be blocked. It never covers a mechanism that exists and is open, unreadable or not yet in
force.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritablePart, WritePath
from baremetal_acc.model.note import LeftOpen, LessThanDefault, Note
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.refusal import WaiverEnded
from baremetal_acc.model.waiver import LONGEST, Relaxation, Relaxed, Waived, Waiver, moment
from baremetal_acc.planning import lock_evidence
from baremetal_acc.policy.baseline_rules import DEFAULT_RULE, Exposure, Measure, NodeFacts
from baremetal_acc.policy.device_demands import HOST_PATHS, ON_DRIFT, Demands, default_custody

HIDDEN = f'a lock mechanism for it was shown before, so no waiver covers it ({lock_evidence.WHERE_GONE})'
"""Why a waiver does not cover a path that it names and that nothing blocks."""


def in_force(waivers: Iterable[tuple[str, Waiver]], path: WritePath, now: datetime) -> tuple[str, Waiver] | None:
    """Return the first waiver that covers a path now, with its rule; None if none does."""
    return next(((rule, w) for rule, w in waivers if path in w.paths and not w.ended(now) and not w.too_long(now)), None)


def shortfall(waivers: Iterable[tuple[str, Waiver]], path: WritePath, now: datetime) -> tuple[WaiverEnded, ...]:
    """Return the waivers that name a path and do not cover it now."""
    return tuple(
        WaiverEnded(rule=rule, role=waiver.role, expires=waiver.expires, too_long=not waiver.ended(now))
        for rule, waiver in waivers
        if path in waiver.paths and (waiver.ended(now) or waiver.too_long(now))
    )


def ended_text(waivers: Iterable[WaiverEnded]) -> str:
    """Return why waivers do not cover a path now, as the end of a sentence; empty if there are none."""
    return ''.join(f'; {_ended(one)}' for one in waivers)


def _ended(one: WaiverEnded) -> str:
    who = f'the waiver of rule {one.rule} by {one.role}'
    if one.too_long:
        return f'{who} runs until {moment(one.expires)}, but no waiver may run for more than {LONGEST.days} days'
    return f'{who} expired {moment(one.expires)}'


Blockable = frozenset[tuple[AcceleratorId, WritePath, str]]
"""What a mechanism could block: device, path, and name of a part of the device, or of a BMC that is a way to it."""


def blockable(accelerators: Iterable[Accelerator]) -> Blockable:
    """Return what the mechanisms that are reported now could block. If one is hidden later, no waiver covers its path."""
    return frozenset((a.id, path, name) for a in accelerators for path in WritePath for name in _blockable(a, path))


def hidden(accelerator: Accelerator, path: WritePath, before: Blockable) -> bool:
    """Whether a mechanism that is not reported any more could block this path to an existing part of the device."""
    gone = {str(s) for s in _reached(accelerator)} - _blockable(accelerator, path)
    return any((accelerator.id, path, name) in before for name in gone)


def _blockable(accelerator: Accelerator, path: WritePath) -> frozenset[str]:
    """Return the parts of a device that mechanisms could block on a path.

    Parts and BMCs are listed separately: how :func:`~baremetal_acc.planning.lock_evidence.coverage` combines them depends on
    what is reported.
    """
    readings = [
        r
        for r in accelerator.locks
        if path in r.blocks and r.accelerator == accelerator.id and r.state is not LockState.UNSUPPORTED
    ]
    return frozenset(str(s) for s in _reached(accelerator) if any(_protects(r, s, path) for r in readings))


def _protects(reading: LockReading, subject: WritablePart, path: WritePath) -> bool:
    if reading.scope is not Scope.BMC:
        return subject.scope is not Scope.BMC and lock_evidence.covers(reading, subject)
    return path is not WritePath.HOST_DEVICE and lock_evidence.covers(reading, subject)


def _reached(accelerator: Accelerator) -> tuple[WritablePart, ...]:
    """Return every part of a device that can be written, and each BMC by way of which it can."""
    bmcs = sorted({ref.bmc for ref in accelerator.refs})
    return (*lock_evidence.subjects(accelerator), *(WritablePart(scope=Scope.BMC, part=bmc) for bmc in bmcs))


def used(
    accelerator: Accelerator, path: WritePath, parts: Iterable[str], waivers: Iterable[tuple[str, Waiver]], now: datetime
) -> Waived | None:
    """Return the waiver that leaves a path of a device open now, as it is reported; None if no waiver covers the path.

    :param parts: names of the parts of the device that are open because of it.
    """
    found = in_force(waivers, path, now)
    if found is None:
        return None
    rule, waiver = found
    return Waived(
        accelerator=accelerator.id,
        label=accelerator.label,
        path=path,
        parts=tuple(sorted(set(parts))),
        rule=rule,
        role=waiver.role,
        reason=waiver.reason,
        expires=waiver.expires,
    )


def relaxations(node: NodeFacts, wanted: Iterable[tuple[Accelerator, Demands]]) -> tuple[Relaxation, ...]:
    """Return where the rules, or the node's exposure, demand less than the default for a tenant's machine.

    :param wanted: the devices of the node, with the demands on each.
    """
    found: dict[tuple[Relaxed, str, str], set[AcceleratorId]] = {}
    for accelerator, of_device in wanted:
        for kind, rule, text in _relaxed(of_device):
            found.setdefault((kind, rule, text), set()).add(accelerator.id)
    by_rule = (
        Relaxation(kind=kind, rule=rule, text=text, accelerators=tuple(sorted(found[kind, rule, text])))
        for kind, rule, text in sorted(found)
    )
    return (*_exposed(node), *by_rule)


def _exposed(node: NodeFacts) -> Iterator[Relaxation]:
    match node.exposure:
        case Exposure.TENANT:
            return
        case Exposure.SERVICE:
            whose = "the operator's own code"
        case Exposure.NONE:
            whose = 'no code'
    text = (
        f'exposure {node.exposure}: {whose} is declared to run on the host, so no path has to be blocked unless a rule says so'
    )
    yield Relaxation(kind=Relaxed.EXPOSURE, rule=DEFAULT_RULE, text=text)


def _relaxed(wanted: Demands) -> Iterator[tuple[Relaxed, str, str]]:
    left = HOST_PATHS - wanted.block
    if left and wanted.block_rule != DEFAULT_RULE:
        yield Relaxed.PATHS, wanted.block_rule, f'{_listed(left)} need not be blocked'
    more = wanted.accept - {LockState.LOCKED_VERIFIED}
    if more:
        yield Relaxed.ACCEPT, wanted.accept_rule, f'outside of a deploy {_listed(more)} is accepted'
    if wanted.downgrade:
        text = 'versions with a lower security_version than the running one may be written'
        yield Relaxed.DOWNGRADE, wanted.firmware_rule, text
    if wanted.tenants_program:
        yield Relaxed.TENANTS_PROGRAM, wanted.tenants_program_rule, 'the lessee of the node may program its functions'
    if wanted.measure is Measure.OFF:
        yield Relaxed.MEASURE, wanted.measure_rule, 'its devices are not asked to sign measurements (measure = "off")'
    if wanted.custody is CustodyDemand.REPORTED and default_custody(wanted.firmware, wanted.block) is not wanted.custody:
        text = 'no chain of custody is required of its devices (custody = "reported")'
        yield Relaxed.CUSTODY, wanted.custody_rule, text
    less = ON_DRIFT - wanted.on_drift
    if less:
        text = f'without {_listed(less)} when an active node differs from its state at hand-over'
        yield Relaxed.ON_DRIFT, wanted.on_drift_rule, text


def _listed(words: Iterable[str]) -> str:
    return ', '.join(sorted(words))


def told(
    target: str, waived: Iterable[Waived], relaxed: Iterable[Relaxation], labels: Mapping[AcceleratorId, str]
) -> tuple[Note, ...]:
    """Return waivers and relaxations as notes for people, for every report of a plan or a verdict.

    :param labels: of all devices of the target.
    """
    notes = [Note(label=w.label, content=LeftOpen(waived=w)) for w in waived]
    for r in relaxed:
        which = sorted(labels.get(i, str(i)) for i in r.accelerators)
        cards = tuple(which) if len(which) < len(labels) else ()
        notes.append(Note(label=target, content=LessThanDefault(relaxation=r, cards=cards)))
    return tuple(notes)


def open_by(waived: Waived) -> str:
    """Say that a path is open, who has waived it, and until when."""
    return (
        f'{waived.path} of {", ".join(waived.parts)} stays open: no mechanism blocks it, waived until {moment(waived.expires)} '
        f'by {waived.role} (rule {waived.rule}): {waived.reason}'
    )


def summary(waived: Iterable[Waived]) -> tuple[str, ...]:
    """Summarise the waivers in use: one line for each path and waiver, however many devices it covers."""
    devices: dict[tuple[WritePath, str, str, str, datetime], list[str]] = {}
    for w in waived:
        devices.setdefault((w.path, w.rule, w.role, w.reason, w.expires), []).append(w.label)
    lines = []
    for (path, rule, role, reason, expires), labels in sorted(devices.items()):
        which = labels[0] if len(labels) == 1 else f'{len(labels)} devices'
        lines.append(f'{path} of {which} is open until {moment(expires)} by a waiver of {role} (rule {rule}): {reason}')
    return tuple(lines)

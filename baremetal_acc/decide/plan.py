# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be done, in which order, and why it must not be done: a plan of actions and refusals."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from baremetal_acc.decide import evidence, images
from baremetal_acc.decide.baseline import Baseline, Demands, NodeFacts, OnMissing, demands
from baremetal_acc.decide.verify import components_wanted, slots_wanted
from baremetal_acc.errors import Refused
from baremetal_acc.model.accelerator import Accelerator, ReconfigurationSlot
from baremetal_acc.model.codec import encode
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Note,
    Plan,
    Program,
    Publish,
    Refusal,
    Release,
    Reset,
    ResetPurpose,
    Withdraw,
    stage,
)
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref


class Part(StrEnum):
    """What a plan may touch. Firmware and functions are two things, with different rights."""

    FIRMWARE = 'firmware'
    FUNCTIONS = 'functions'
    LOCK = 'lock'
    UNLOCK = 'unlock'
    PUBLISH = 'publish'


EVERYTHING = frozenset({Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK, Part.PUBLISH})
"""The whole straight path."""

_SEVERITY = {ResetKind.NONE: 0, ResetKind.SYSTEM_RESET: 1, ResetKind.POWER_CYCLE: 2}


@dataclass(slots=True)
class _Draft:
    """A plan in the making, for :func:`plan` alone."""

    inventory: Inventory
    catalogue: tuple[Image, ...]
    actions: list[Action] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    resets: dict[Ref, tuple[ResetKind, list[str]]] = field(default_factory=dict)

    def refuse(self, accelerator: Accelerator | None, subject: str, reason: str) -> None:
        label = accelerator.label if accelerator else self.inventory.target
        which = accelerator.id if accelerator else None
        self.refusals.append(Refusal(accelerator=which, label=label, subject=subject, reason=reason))

    def reset(self, system: Ref, kind: ResetKind, why: str) -> None:
        known, reasons = self.resets.get(system, (ResetKind.NONE, []))
        self.resets[system] = (max(known, kind, key=_SEVERITY.__getitem__), [*reasons, why])


def plan(
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    catalogue: Iterable[Image],
    *,
    parts: frozenset[Part] = EVERYTHING,
    hold: bool = False,
    only: frozenset[AcceleratorId] | None = None,
) -> Plan:
    """Bring a target from what was seen to what the baseline demands.

    The same values give the same plan. A plan with refusals is not executed (:func:`raise_if_unsafe`).

    :param parts: what may be touched.
    :param hold: the host is powered off before anything is released or written and given back after everything is locked: for
        nodes on which a tenant's code can run.
    :param only: only these devices, None for all. Where the host is held, the locks of the others are engaged too.
    """
    draft = _Draft(inventory=inventory, catalogue=tuple(catalogue))
    chosen = [a for a in inventory.accelerators if only is None or a.id in only]
    _refuse_the_unseen(draft, baseline, node, chosen)
    for accelerator in chosen:
        wanted = demands(baseline, accelerator, node)
        for rule in wanted.undecided if parts & {Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK} else ():
            reason = 'the BMC does not show the vendor, the model or the PCI ids that it asks for, so it may be for this device'
            draft.refuse(accelerator, f'rule {rule}', reason)
        if Part.FIRMWARE in parts:
            for component, pattern, version in components_wanted(accelerator, wanted):
                _flash(draft, accelerator, wanted, component, pattern, version)
        if Part.FUNCTIONS in parts:
            for slot, function in slots_wanted(accelerator, wanted):
                _program(draft, accelerator, wanted, slot, function)
        if Part.UNLOCK in parts:
            _release_all(draft, accelerator, wanted)
    if Part.UNLOCK not in parts and parts & {Part.LOCK, Part.FIRMWARE, Part.FUNCTIONS}:
        # A host that is held is given back only when every lock of every device is proven, so all of them are engaged.
        for accelerator in inventory.accelerators if hold else chosen:
            _engage(draft, accelerator, demands(baseline, accelerator, node))
    writes = [a for a in draft.actions if isinstance(a, Flash | Program)]
    releases = [a for a in draft.actions if isinstance(a, Release)]
    _check_images(draft, writes)
    _resets(draft, hold=hold and bool(writes or releases), give_back=Part.UNLOCK not in parts)
    if Part.PUBLISH in parts:
        touched = tuple(sorted({a.accelerator for a in (*writes, *releases)}))
        if touched:
            draft.actions.append(Withdraw(accelerators=touched))
        draft.actions.append(Publish())
    return Plan(
        target=inventory.target,
        actions=tuple(sorted(draft.actions, key=_order)),
        parallel=tuple((b.name, b.update.parallel) for b in inventory.bmcs if b.update is not None),
        refusals=tuple(draft.refusals),
        notes=tuple(draft.notes),
    )


def raise_if_unsafe(made: Plan) -> None:
    """Let only a plan without refusals pass.

    :raises Refused: it has some; the error holds them all.
    """
    if made.refusals:
        raise Refused(str(r) for r in made.refusals)


def _order(action: Action) -> tuple[int, int, str]:
    """Stages in their order; within the resets those that enforce come before the one that gives the host back."""
    late = 1 if isinstance(action, Reset) and action.purpose is ResetPurpose.RESUME else 0
    order = action.order if isinstance(action, Flash | Program) else 0
    return (stage(action), late or order, json.dumps(encode(action)))


def _refuse_the_unseen(draft: _Draft, baseline: Baseline, node: NodeFacts, chosen: list[Accelerator]) -> None:
    if not chosen:
        draft.refuse(None, 'accelerators', 'none was found')
    for gap in draft.inventory.gaps:
        if gap.hides:
            draft.refuse(None, str(gap.ref), f'devices may lie behind what could not be read: {gap.reason}')
    for rule in baseline.rules:
        if rule.count is not None and rule.match.node(node):
            count = sum(1 for a in draft.inventory.accelerators if rule.match.device(a, node))
            if count != rule.count:
                draft.refuse(None, f'rule {rule.name}', f'{rule.count} devices must match, {count} do')


def _flash(
    draft: _Draft, accelerator: Accelerator, wanted: Demands, component: Component | None, pattern: str, version: str
) -> None:
    if component is None or component.id is None:
        facts = draft.inventory.bmc(accelerator.primary.bmc)
        reason = 'the BMC reports no such component'
        if facts is not None and facts.update is None:
            reason = f'BMC {facts.name} has no UpdateService'
        draft.refuse(accelerator, f'firmware {pattern}', reason)
        return
    subject = f'firmware {component.id}'
    if component.version == version and component.staged in (None, version):
        return
    found = images.firmware_image(draft.catalogue, accelerator, component, version)
    if len(found) != 1:
        draft.refuse(accelerator, subject, _not_one(found, f'version {version}', wanted.firmware_rule))
        return
    image = found[0]
    for reason in _unsafe_image(draft, accelerator, component, image, wanted):
        draft.refuse(accelerator, subject, reason)
    draft.notes.append(Note(label=accelerator.label, text=f'{subject} to {version}: rule {wanted.firmware_rule}'))
    draft.actions.append(
        Flash(
            accelerator=accelerator.id,
            component=component.id,
            ref=component.ref,
            image=image.name,
            version=version,
            expects=component.version,
            reset=image.reset,
            order=image.order,
        )
    )
    if image.reset is not ResetKind.NONE:
        system = _system_of(draft, component.ref)
        if system is None:
            draft.refuse(accelerator, subject, f'needs a {image.reset}, and the BMC shows no System to reset')
        else:
            draft.reset(system, image.reset, f'{accelerator.label} {subject}')
    _release(draft, accelerator, evidence.Subject(scope=Scope.COMPONENT, part=component.id))


def _program(draft: _Draft, accelerator: Accelerator, wanted: Demands, slot: ReconfigurationSlot | None, function: str) -> None:
    if slot is None:
        draft.refuse(accelerator, f'function {function}', 'no slot of the device matches')
        return
    subject = f'function {slot.slot_id}'
    found = images.function_image(draft.catalogue, accelerator, slot, function)
    if any(images.holds(slot, image) for image in found) and not images.other_staged(slot, found):
        return
    if len(found) != 1:
        draft.refuse(accelerator, subject, _not_one(found, function, wanted.functions_rule))
        return
    if slot.item is None:
        draft.refuse(accelerator, subject, 'the BMC offers no SoftwareInventory by which the slot could be programmed')
        return
    image = found[0]
    if sum(s.slot_id == slot.slot_id for s in accelerator.slots) > 1:
        draft.refuse(accelerator, subject, f'the BMC calls several slots of the device {slot.slot_id}')
    for reason in _unsafe_target(draft, slot.item, image):
        draft.refuse(accelerator, subject, reason)
    draft.notes.append(Note(label=accelerator.label, text=f'{subject} to {function}: rule {wanted.functions_rule}'))
    draft.actions.append(
        Program(
            accelerator=accelerator.id,
            slot=slot.slot_id,
            ref=slot.item.ref,
            image=image.name,
            function=function,
            version=image.version,
            expects=slot.item.version,
            order=image.order,
        )
    )
    _release(draft, accelerator, evidence.Subject(scope=Scope.SLOT, part=slot.slot_id))


def _not_one(found: tuple[Image, ...], what: str, rule: str) -> str:
    if not found:
        return f'the catalogue has no image of {what} that fits (rule {rule})'
    return f'several images of the catalogue fit {what}: {", ".join(i.name for i in found)} (rule {rule})'


def _unsafe_image(
    draft: _Draft, accelerator: Accelerator, component: Component, image: Image, wanted: Demands
) -> Iterator[str]:
    if component.version is None:
        yield 'its version could not be read, so nobody can tell what would be overwritten'
    if sum(c.id == component.id for c in accelerator.firmware) > 1:
        yield f'the BMC calls several items of the device {component.id}'
    if not component.certain:
        yield f'the BMC does not say that {component.id} belongs to this device'
    if component.updateable is False:
        yield 'the BMC says that it is not updateable'
    running = images.security_version(draft.catalogue, accelerator, component)
    floor = max(wanted.security_floor, running if running is not None else 0)
    if image.security_version < floor:
        yield f'image {image.name} has security version {image.security_version}, the floor is {floor}'
    if image.restore is not None:
        restore = next((i for i in draft.catalogue if i.name == image.restore), None)
        if restore is None:
            yield f'restore image {image.restore} is not in the catalogue'
        elif not images.fits(restore, accelerator, component):
            yield f'restore image {image.restore} does not fit this device'
    yield from _unsafe_target(draft, component, image)


def _unsafe_target(draft: _Draft, item: Component, image: Image) -> Iterator[str]:
    facts = draft.inventory.bmc(item.ref.bmc)
    if facts is None:
        yield f'its BMC {item.ref.bmc} was not read'
    elif facts.update is None:
        yield f'BMC {facts.name} has no UpdateService'
    elif not facts.update.push:
        offer = 'can only fetch images itself (SimpleUpdate)' if facts.update.pull else 'offers no way to send an image'
        yield f'BMC {facts.name} {offer}; images are pushed (MultipartHttpPushUri)'
    elif facts.update.max_size is not None and image.size_bytes > facts.update.max_size:
        yield f'image {image.name} has {image.size_bytes} bytes, BMC {facts.name} takes {facts.update.max_size}'


def _release(draft: _Draft, accelerator: Accelerator, subject: evidence.Subject) -> None:
    """Open what also blocks our own way to a subject that is written."""
    for reading in accelerator.locks:
        ours = WritePath.BMC_NETWORK in reading.blocks and evidence.covers(reading, subject)
        if ours and reading.state not in (LockState.UNLOCKED, LockState.UNSUPPORTED):
            _add_release(draft, accelerator, reading)


def _release_all(draft: _Draft, accelerator: Accelerator, wanted: Demands) -> None:
    for reading in accelerator.locks:
        if reading.blocks & (wanted.block | {WritePath.HOST_DEVICE}) and reading.state is not LockState.UNLOCKED:
            _add_release(draft, accelerator, reading)
            if reading.needs is not ResetKind.NONE and reading.reset is not None:
                draft.reset(reading.reset, reading.needs, f'{accelerator.label} {reading.mechanism}')


def _add_release(draft: _Draft, accelerator: Accelerator, reading: LockReading) -> None:
    action = Release(
        accelerator=accelerator.id,
        mechanism=reading.mechanism,
        ref=reading.ref,
        field=reading.field,
        expects=reading.value,
    )
    if action not in draft.actions:
        draft.actions.append(action)


def _engage(draft: _Draft, accelerator: Accelerator, wanted: Demands) -> None:
    released = {(a.accelerator, a.mechanism, a.ref, a.field) for a in draft.actions if isinstance(a, Release)}
    for reading in accelerator.locks:
        # What is released for our own write is closed again, whether or not the baseline asks for it.
        if not reading.blocks & wanted.block and (accelerator.id, *reading.place) not in released:
            continue
        draft.actions.append(
            Engage(
                accelerator=accelerator.id,
                mechanism=reading.mechanism,
                ref=reading.ref,
                field=reading.field,
                blocks=reading.blocks,
                needs=reading.needs,
            )
        )
        if reading.needs is not ResetKind.NONE:
            if reading.reset is None:
                draft.refuse(accelerator, f'lock {reading.mechanism}', f'needs a {reading.needs}, and nothing says of what')
            else:
                draft.reset(reading.reset, reading.needs, f'{accelerator.label} {reading.mechanism}')
    for path in sorted(wanted.block):
        uncovered = [
            c.subject for c in evidence.coverage(accelerator, path, accelerator.locks) if c.state is LockState.UNSUPPORTED
        ]
        if not uncovered:
            continue
        what = ', '.join(str(s) for s in uncovered)
        if wanted.on_missing is OnMissing.ALLOW:
            text = f'{path} of {what} stays open: no mechanism blocks it, and rule {wanted.on_missing_rule} allows that'
            draft.notes.append(Note(label=accelerator.label, text=text))
        else:
            reason = f'no mechanism blocks this path for {what} (rule {wanted.block_rule} demands it)'
            draft.refuse(accelerator, f'lock {path}', reason)


def _check_images(draft: _Draft, writes: list[Flash | Program]) -> None:
    by_name = {image.name: image for image in draft.catalogue}
    names = {a.image for a in writes}
    names |= {r for name in names if (r := by_name[name].restore) is not None and r in by_name}
    draft.actions += (CheckImage(image=name) for name in sorted(names))


def _resets(draft: _Draft, *, hold: bool, give_back: bool) -> None:
    host = _host_system(draft) if hold else None
    if hold and host is None:
        draft.refuse(None, 'host', 'must be powered off first, and its BMC shows no System to power off')
    was_off = host is not None and _power(draft, host) is PowerState.OFF
    if host is not None:
        held = ('the host must not run while locks are open',)
        draft.actions.append(Reset(system=host, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=held))
    for system, (kind, reasons) in draft.resets.items():
        if system != host:
            draft.actions.append(Reset(system=system, purpose=ResetPurpose.ENFORCE, kind=kind, why=tuple(sorted(set(reasons)))))
    # What is unlocked on purpose stays off: giving the host back would let the tenant's code at open locks.
    if host is not None and give_back and (not was_off or host in draft.resets):
        kind, reasons = draft.resets.get(host, (ResetKind.NONE, []))
        why = ('give the host back', *sorted(set(reasons)))
        draft.actions.append(Reset(system=host, purpose=ResetPurpose.RESUME, kind=kind, why=why))


def _host_system(draft: _Draft) -> Ref | None:
    facts = draft.inventory.bmc(HOST)
    return None if facts is None else facts.system


def _system_of(draft: _Draft, ref: Ref) -> Ref | None:
    facts = draft.inventory.bmc(ref.bmc)
    return None if facts is None else facts.system


def _power(draft: _Draft, system: Ref) -> PowerState:
    facts = draft.inventory.bmc(system.bmc)
    return PowerState.UNKNOWN if facts is None else facts.power

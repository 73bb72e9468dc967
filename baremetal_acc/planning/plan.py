# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the actions that bring a target to its baseline: flash, program, lock, reset and publish, or why to refuse.

The plan lists actions in the order of their stages, refusals, and notes for the operator. A plan with refusals is not executed.
"""

import json
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum

from baremetal_acc.model import refusal as r
from baremetal_acc.model import subject as subjects
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    RestoreSetting,
    SetCardSetting,
    Withdraw,
    stage,
)
from baremetal_acc.model.codec import encode
from baremetal_acc.model.finding import RuleMatchesNothing
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import LockUndoRecord
from baremetal_acc.model.note import Note
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.refusal import Refusal
from baremetal_acc.model.subject import Subject, SubjectKind
from baremetal_acc.planning import card_settings, known_later, waivers
from baremetal_acc.planning.identical_cards import left_out
from baremetal_acc.planning.plan_bundles import complete_bundles, remember_demands
from baremetal_acc.planning.plan_draft import PlanDraft, PlannedWrite, normal_place
from baremetal_acc.planning.plan_locks import (
    locks_left_closed,
    once_each_place,
    plan_engagements,
    plan_lockdowns,
    release_all_locks,
)
from baremetal_acc.planning.plan_resets import host_systems, plan_resets, would_power_on
from baremetal_acc.planning.plan_settings import plan_settings
from baremetal_acc.planning.plan_writes import plan_firmware, plan_functions
from baremetal_acc.planning.verify import note_unseen_firmware
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.policy.device_demands import Demands, counts, demands, idle
from baremetal_acc.scheduling.region_claims import changed
from baremetal_acc.scheduling.schedulable import single


class Part(StrEnum):
    """What a plan may touch. Firmware and functions are separate, with different rights. ``settings``: those of cards."""

    FIRMWARE = 'firmware'
    FUNCTIONS = 'functions'
    LOCK = 'lock'
    SETTINGS = 'settings'
    UNLOCK = 'unlock'
    PUBLISH = 'publish'


EVERYTHING = frozenset({Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK, Part.SETTINGS, Part.PUBLISH})
"""All parts of a full reconcile: everything but unlocking."""


def plan(
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    catalogue: Iterable[Image],
    *,
    parts: frozenset[Part] = EVERYTHING,
    hold: bool = False,
    only: frozenset[AcceleratorId] | None = None,
    again: frozenset[AcceleratorId] = frozenset(),
    anew: frozenset[tuple[AcceleratorId, str]] = frozenset(),
    spoilt: frozenset[AcceleratorId] = frozenset(),
    blockable: waivers.Blockable = frozenset(),
    undos: Iterable[LockUndoRecord] = (),
    ramdisk: bool = False,
) -> Plan:
    """Plan the actions that bring a target from the read inventory to what the baseline demands.

    Equal values give equal plans, whatever the order of devices, their parts and the images. A plan with refusals is not
    executed.

    :param parts: what may be touched.
    :param hold: power off the host before anything is released or written, and give it back after everything is locked: for
        nodes on which a tenant's code can run. A host that is off, and that a reset would power on, is held, too.
    :param only: only these devices, None for all. If the host is held, the locks of the other devices are engaged, too.
    :param again: devices that are written whatever they report, because their reports are not trusted: the quarantined ones.
    :param anew: devices and SlotIds of slots that are programmed with the demanded function although they hold it already.
    :param spoilt: devices that nobody may use before they are written: the quarantined ones. A held host is not given back if
        the plan does not write one of them.
    :param blockable: what mechanisms that existed before could block: no waiver covers a mechanism that has vanished.
    :param undos: our records of what we have closed: a lock that needs such a record to be released is released only with one.
    :param ramdisk: a ramdisk was or may be started on the host: the settings of BMCs that may start it are not restored.
    """
    draft = PlanDraft(
        inventory=inventory,
        catalogue=tuple(catalogue),
        undos=tuple(undos),
        again=again,
        anew=anew,
        blockable=blockable,
    )
    chosen = [a for a in inventory.accelerators if only is None or a.id in only]
    _refuse_the_unseen(draft, baseline, node, chosen)
    if Part.FIRMWARE in parts and any(i.bundle is not None for i in draft.catalogue):
        remember_demands(draft, baseline, node)
    for accelerator in chosen:
        wanted = demands(baseline, accelerator, node)
        for unsure in wanted.undecided if parts & {Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK} else ():
            draft.refuse(accelerator, subjects.rule(unsure.rule), r.RuleUndecided(hidden=tuple(unsure.hidden)))
        if Part.FIRMWARE in parts:
            plan_firmware(draft, accelerator, wanted)
        if Part.FUNCTIONS in parts:
            plan_functions(draft, accelerator, wanted)
        if Part.SETTINGS in parts:
            _plan_card_settings(draft, accelerator, wanted)
        if Part.UNLOCK in parts:
            release_all_locks(draft, accelerator, wanted)
    complete_bundles(draft, {a.id for a in chosen})
    if Part.UNLOCK not in parts and parts & {Part.LOCK, Part.FIRMWARE, Part.FUNCTIONS}:
        # A held host is given back only when every lock of every device is proven, so all of them are engaged.
        for accelerator in inventory.accelerators if hold else chosen:
            plan_engagements(draft, accelerator, demands(baseline, accelerator, node))
    if Part.SETTINGS in parts and only is None:
        plan_settings(draft, baseline, node, ramdisk=ramdisk)
    plan_lockdowns(draft, engage=Part.UNLOCK not in parts)
    if Part.UNLOCK in parts:
        draft.notes += (note for accelerator in chosen for note in locks_left_closed(draft, accelerator))
    if Part.FIRMWARE in parts:
        draft.notes += note_unseen_firmware(inventory, baseline, node, only)
    draft.actions = list(once_each_place(draft.actions, inventory))
    if parts & {Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK}:
        for name in idle(baseline, inventory.accelerators, node):
            draft.notes.append(Note(label=node.name, content=RuleMatchesNothing(rule=name)))
        draft.notes += (Note(label=out.label, content=out.note) for out in left_out(baseline, inventory.accelerators, node))
        relaxed = waivers.relaxations(node, ((a, demands(baseline, a, node)) for a in inventory.accelerators))
        draft.notes += waivers.told(inventory.target, draft.waived, relaxed, {a.id: a.label for a in inventory.accelerators})
    writes = _in_turn(draft.writes, inventory)
    draft.actions += writes
    releases = [a for a in draft.actions if isinstance(a, Release)]
    _refuse_wide_targets(draft, writes)
    _check_images(draft)
    settings = [a for a in draft.actions if isinstance(a, SetCardSetting)]
    held = hold and (bool(writes or releases or settings) or would_power_on(draft))
    left = spoilt.intersection(a.id for a in inventory.accelerators) - {a.accelerator for a in writes}
    draft.notes += known_later.notes(inventory, (*writes, *releases), host_systems(draft) if held else ())
    plan_resets(draft, hold=held, give_back=Part.UNLOCK not in parts, left=left)
    _refuse_shared(draft)
    if Part.PUBLISH in parts:
        touched = tuple(sorted({a.accelerator for a in (*writes, *releases, *settings)}))
        if touched:
            # A function that somebody may have claimed must not change under its consumer: then the whole node is withdrawn.
            fixed = single(inventory, baseline, node, draft.catalogue)
            draft.actions.append(Withdraw(accelerators=touched, whole=bool(changed(writes, fixed))))
        draft.actions.append(Publish())
    return Plan(
        target=inventory.target,
        actions=tuple(sorted(draft.actions, key=_order)),
        parallel=tuple(sorted((b.name, b.update.parallel) for b in inventory.bmcs if b.update is not None)),
        refusals=tuple(sorted(dict.fromkeys(draft.refusals), key=_refusal_order)),
        notes=tuple(sorted(dict.fromkeys(draft.notes), key=lambda note: (note.label, repr(note.content)))),
    )


def _refusal_order(refusal: Refusal) -> tuple[str, str, str, str]:
    return (refusal.accelerator or '', str(refusal.subject), repr(refusal.reason), refusal.label)


def _order(action: Action) -> tuple[int, int, str]:
    """Sort key: stages in order; a lockdown is released first and engaged last; the host is given back last."""
    match action:
        case Flash() | Program():
            order = action.order
        case Release():
            order = int(not action.wraps)
        case Engage():
            order = int(action.wraps)
        case Reset():
            order = int(action.purpose is ResetPurpose.RESUME)
        case SetCardSetting():
            order = sys.maxsize  # after all images
        case Withdraw() | CheckImage() | RestoreSetting() | Publish():
            order = 0
    return (stage(action), order, json.dumps(encode(action)))


def _refuse_the_unseen(draft: PlanDraft, baseline: Baseline, node: NodeFacts, chosen: list[Accelerator]) -> None:
    if not chosen:
        is_hidden = not draft.inventory.accelerators and draft.is_off
        draft.refuse(None, subjects.ACCELERATORS, r.NoAccelerators(host_is_off=is_hidden))
    for identity, times in Counter(a.id for a in draft.inventory.accelerators).items():
        if times > 1:
            draft.refuse(None, Subject(kind=SubjectKind.DEVICE, name=identity), r.SharedIdentity(times=times))
    for gap in draft.inventory.gaps:
        if gap.hides:
            draft.refuse(None, Subject(kind=SubjectKind.RESOURCE, name=str(gap.ref)), r.MayHideDevices(gap=gap))
    for rule, counted in counts(baseline, draft.inventory.accelerators, node):
        if not counted.met:
            draft.refuse(None, subjects.rule(rule.name), counted)


def _plan_card_settings(draft: PlanDraft, accelerator: Accelerator, wanted: Demands) -> None:
    """Plan the settings of a device that rules want set back, and the resets with which they take effect."""
    for action, reading in card_settings.changes(accelerator, wanted):
        draft.actions.append(action)
        if reading.reset is not None:
            draft.reset(reading.reset, reading.needs, f'{accelerator.label} {action.setting}')


def _in_turn(writes: Iterable[PlannedWrite], inventory: Inventory) -> list[Flash | Program]:
    """Return the writes with orders that also keep the steps of one component apart; without steps, orders stay as they are.

    Several hosts of a target may be those of one BMC, under several names. They are written one after the other, since a
    service that takes one update at a time takes one of all its hosts.
    """
    planned = list(writes)
    turns = {facts.name: turn for turn, facts in enumerate(inventory.hosts)} if len(inventory.hosts) > 1 else {}

    def key(write: PlannedWrite) -> tuple[int, int, int]:
        return (write.action.order, write.step, turns.get(write.action.ref.bmc, 0))

    orders: dict[tuple[int, int, int], int] = {}
    last = -1
    for one in sorted(set(map(key, planned))):
        last = orders[one] = max(last + 1, one[0])
    return [replace(w.action, order=orders[key(w)]) for w in planned]


def _refuse_wide_targets(draft: PlanDraft, writes: Iterable[Flash | Program]) -> None:
    """Refuse to write a resource that represents more than one part: nobody can tell what else gets the image."""
    parts: dict[tuple[str, str], set[str]] = {}
    for a in draft.inventory.accelerators:
        for ref in a.refs:
            parts.setdefault(normal_place(ref), set()).add(f'{a.label} ({a.id})')
        for c in a.firmware:
            parts.setdefault(normal_place(c.ref), set()).add(f'{c.id or "the device"} of {a.label} ({a.id})')
        for s in a.slots:
            if s.item is not None:
                parts.setdefault(normal_place(s.item.ref), set()).add(f'slot {s.slot_id} of {a.label} ({a.id})')
    places = sorted(parts)
    names = {place: sorted(found) for place, found in parts.items()}
    devices = {a.id: a for a in draft.inventory.accelerators}
    for action in writes:
        place = normal_place(action.ref)
        below = (place[0], f'{place[1]}/')
        first = bisect_left(places, below)
        found = [name for known in (place, *_starting(places[first : first + 2], below)) for name in names[known]]
        if len(found) > 1:
            draft.refuse(devices[action.accelerator], _part(action), r.WideTarget(ref=action.ref, parts=tuple(found)))


def _part(action: Flash | Program) -> Subject:
    """Return which part of a device an update writes."""
    return subjects.firmware(action.component) if isinstance(action, Flash) else subjects.function(action.slot)


def _refuse_shared(draft: PlanDraft) -> None:
    """Refuse to write, for one machine, what several machines share."""
    shared = set(draft.inventory.shared)
    if not shared:
        return
    devices = {a.id: a for a in draft.inventory.accelerators}
    whole = draft.inventory.shared_devices
    for action in draft.actions:
        match action:
            case Release() | Engage():
                device = devices[action.accelerator]
                if action.ref in shared or device.id in whole:
                    draft.refuse(device, subjects.lock_mechanism(action.mechanism), r.SharedResource(ref=action.ref))
            case Flash() | Program():
                device = devices[action.accelerator]
                if action.ref in shared or device.id in whole:
                    part = _part(action)
                    draft.refuse(device, part, r.SharedResource(ref=action.ref))
            case SetCardSetting():
                device = devices[action.accelerator]
                if action.ref in shared or device.id in whole:
                    draft.refuse(device, subjects.card_setting(action.setting), r.SharedResource(ref=action.ref))
            case Reset():
                for ref in (action.system, action.by):
                    if ref is not None and ref in shared:
                        draft.refuse(None, subjects.HOST, r.SharedResource(ref=ref))
            case Withdraw() | CheckImage() | RestoreSetting() | Publish():
                pass


def _starting(places: Iterable[tuple[str, str]], start: tuple[str, str]) -> Iterator[tuple[str, str]]:
    return (p for p in places if p[0] == start[0] and p[1].startswith(start[1]))


def _check_images(draft: PlanDraft) -> None:
    """Plan the checks of the images that are written, and of those that may be restored."""
    back = [draft.image(w.action.restore if isinstance(w.action, Flash) else w.image.restore) for w in draft.writes]
    # The components of a bundle share one file, which is checked once.
    checked: dict[str, Image] = {}
    for image in filter(None, (*(w.image for w in draft.writes), *back)):
        checked.setdefault(image.file, image)
    places: dict[str, set[Ref]] = {name: set() for name in checked}
    for write, restore in zip(draft.writes, back, strict=True):
        facts = draft.inventory.bmc(write.action.ref.bmc)
        if facts is not None and facts.update is not None and facts.update.judges:
            for image in filter(None, (write.image, restore)):
                places[image.file].add(write.action.ref)
    draft.actions += (
        CheckImage(image=i.name, content=i.content, places=tuple(sorted(places[i.file]))) for i in checked.values()
    )

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Prepare the accelerators that a node's instance has claimed in placement, all of them together, and restore them afterwards.

One job of the deploy prepares everything that the instance has claimed. If that fails, a second job of the same step restores
what was written before the step fails. The deploy's verification checks all claimed accelerators. Cleaning restores what is
left, whether or not the instance is still known. The jobs carry out what the attach drivers ask for
(:mod:`baremetal_acc_ironic.steps.runner`).
"""

import glob
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from baremetal_acc.attach import drive
from baremetal_acc.attach.api import Around
from baremetal_acc.attach.find import drivers
from baremetal_acc.config.options import GROUP
from baremetal_acc.errors import UsageError
from baremetal_acc.execution import Tools
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.attach import Attached, AttachEvent, Attachment, AttachState, FunctionAssignment, Place
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import attach as attachment
from baremetal_acc.planning import image_selection, write_outcomes
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.quarantine import joined
from baremetal_acc.policy.baseline_rules import OnLeave
from baremetal_acc.policy.device_demands import demands
from baremetal_acc.render import refusals
from baremetal_acc.scheduling import region_claims
from baremetal_acc.scheduling.schedulable import supply
from baremetal_acc_ironic import placement
from baremetal_acc_ironic.state import provision_state, quarantine
from baremetal_acc_ironic.state.node_state import NodeState, Override
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps.job_context import tools as tools_of

# --------------------------------------------------------------------------------------------------------- in a deploy


def prepare(task: Any, state: NodeState, inventory: Inventory) -> NodeState:
    """Return the node state with all that the instance has claimed, and with the functions that its slots are to get.

    :raises UsageError: there is no instance, nothing is published, or what it has claimed cannot be prepared.
    :raises PlacementError: placement cannot be asked.
    :raises AccError: a driver cannot prepare it. None of the drivers has changed anything.
    """
    instance = task.node.instance_uuid
    if not placement.is_wanted() or instance is None:
        why = 'the node has no instance' if instance is None else f'[{GROUP}] publish is false'
        raise UsageError(
            argument='argument claimed', what=f'{why}, so nothing is claimed', hint="name the slots by the argument 'functions'"
        )
    # What an earlier attempt has asked for does not count now.
    state = _without_overrides(state, state.attached)
    around = _around(task, state, inventory, instance)
    found, missing = _claimed(task, inventory, around)
    if missing:
        raise UsageError(
            argument='the claims of the instance',
            what='; '.join(missing),
            hint='if the device was replaced, undeploy the node; its cleaning publishes what is there now',
        )
    if around.asked and all(one.slot is None for one in found):
        region_claims.assign((), around.asked, around.supply)
    if not found:
        raise UsageError(
            argument='argument claimed',
            what='the instance has claimed no accelerator of this node',
            hint='its flavor requests this step by a trait, but no resource class of an accelerator: add one to the flavor',
        )
    attached = attachment.planned(instance, found, state.attached)
    made = drive.prepare(drivers(), attached.items, around)
    attached = replace(attached, items=made.attachments)
    return _asking(task, replace(state, attached=attached), inventory, made.gives, baseline_too=True)


def going_back(task: Any, state: NodeState, inventory: Inventory) -> tuple[NodeState, tuple[FunctionAssignment, ...]]:
    """Return the node state, and the function assignments, in their order, that restore the accelerators of the instance."""
    before = state.attached
    if before is None:
        return state, ()
    state = _without_overrides(state, before)
    there = {a.id for a in inventory.accelerators}
    # A card may be missing for a while, and then return with its contents.
    away = {a.provider: _AWAY for a in attachment.in_reverse(before) if a.accelerator not in there}
    which = tuple(a for a in attachment.in_reverse(before) if a.provider not in away)
    attached, gives = _way_back(task, state, inventory, before, which, failed=away)
    state = _withheld(replace(state, attached=attached), inventory)
    return _asking(task, state, inventory, gives, baseline_too=False), gives


def without_refused(
    state: NodeState, made: Plan, gives: tuple[FunctionAssignment, ...], inventory: Inventory
) -> tuple[NodeState, Plan, tuple[FunctionAssignment, ...]]:
    """Leave out the devices of which the plan refuses something, since these cannot be restored.

    :returns: node state, plan and assignments without them.
    """
    made, why = attachment.without_refused(made, gives)
    attached = state.attached
    if attached is None or not why:
        return state, made, gives
    gives = tuple(g for g in gives if g.accelerator not in why)
    told = {device: '; '.join(map(refusals.sentence, of_it)) for device, of_it in why.items()}
    failed = {a.provider: told[a.accelerator] for a in attachment.in_reverse(attached) if a.accelerator in why}
    state = _withheld(replace(state, attached=attachment.returned(attached, gives, failed=failed)), inventory)
    theirs = tuple(o for o in state.overrides if o.device not in why)
    return replace(state, overrides=theirs), made, gives


def is_going_back(state: NodeState) -> bool:
    """Whether the job that has just begun restores the accelerators of an instance."""
    attached, job = state.attached, state.job
    return attached is not None and job is not None and attached.job == job.id and bool(attachment.in_reverse(attached))


def devices(state: NodeState) -> frozenset[AcceleratorId]:
    """Return the devices of which the instance has a whole card or a slot."""
    return frozenset() if state.attached is None else frozenset(a.accelerator for a in state.attached.items)


def begun(state: NodeState, made: Plan, job: Job) -> NodeState:
    """Return the node state as the job begins that prepares the claimed accelerators."""
    return state if state.attached is None else replace(state, attached=attachment.begun(state.attached, made, job.id))


def worked_on(state: NodeState, job: Job) -> NodeState:
    """Return the node state as a job begins that restores them."""
    return state if state.attached is None else replace(state, attached=replace(state.attached, job=job.id))


def plugged(task: Any, state: NodeState, inventory: Inventory, verdict: Verdict) -> tuple[NodeState, tuple[str, ...]]:
    """Return the node state with all that the instance has claimed, and what of it is not as promised.

    Accelerators that need no preparing step are recorded here for the first time.

    :raises PlacementError: placement cannot be asked.
    :raises AccError: a driver cannot say what the instance has got.
    """
    instance = task.node.instance_uuid
    if not placement.is_wanted() or instance is None:
        return state, ()
    around = _around(task, state, inventory, instance, verdict)
    found, missing = _claimed(task, inventory, around)
    places = [(a.accelerator, a.slot) for a in found if a.slot is not None]
    missing = (*missing, *region_claims.unkept(task.node.instance_info.get('traits') or (), places, around.supply))
    if not found and state.attached is None:
        return state, missing
    before = {} if state.attached is None else {(a.provider, a.accelerator): a for a in state.attached.items}
    same = state.attached is not None and state.attached.instance == instance
    items = [before.get((a.provider, a.accelerator), a) if same else a for a in found]
    unready = tuple(
        f'{a} is {a.state} for the instance: {a.why or "it was not prepared"}'
        for a in items
        if a.state not in (AttachState.PLANNED, AttachState.PREPARED, AttachState.PLUGGED)
    )
    # What needed no preparing is ready as it is.
    items = [attachment.after(attachment.after(a, _BEGIN), _READY) if a.state is AttachState.PLANNED else a for a in items]
    named = {(a.provider, a.accelerator) for a in items}
    others = [a for key, a in before.items() if a.written and key not in named]
    wrong = (*missing, *unready, *drive.post_plug(drivers(), items, around))
    attached = attachment.plugged(Attached(instance=instance, items=tuple(items)))
    attached = replace(attached, items=(*attached.items, *others))
    return state if wrong else replace(state, attached=attached), wrong


def tell(task: Any, state: NodeState) -> None:
    """Record in the node's history which accelerators the instance has got, and by which handle it finds them."""
    attached = state.attached
    there = () if attached is None else tuple(a for a in attached.items if a.state is AttachState.PLUGGED)
    if attached is None or not there:
        return
    texts = [f'{a}, {a.handle}' + (f', with {a.function}' if a.function else '') for a in there]
    more = f'; and {len(texts) - _TOLD} more' if len(texts) > _TOLD else ''
    provision_state.told(task.node, f'attached to instance {attached.instance}: {"; ".join(texts[:_TOLD])}{more}')


# ------------------------------------------------------------------------------------------------------------ cleaning


def left(task: Any, state: NodeState, inventory: Inventory) -> NodeState:
    """Return the node state with assignments that restore what the last instance has left; for the reconciling of a cleaning.

    Doubtful slots are restored in any case; slots with known contents only where the rules say so (``on_leave``).
    """
    before = state.attached
    if before is None:
        return state
    state = _without_overrides(state, before)
    attached = attachment.going_back(before, ())
    open_ones = attachment.in_reverse(attached)
    goes = tuple(a for a in open_ones if a.doubtful or _goes(task, state, inventory, a))
    kept = {a.provider: 'the rules keep what an instance leaves (on_leave)' for a in open_ones if a not in goes}
    attached, gives = _way_back(task, state, inventory, attached, goes, kept)
    state = _withheld(replace(state, attached=attached), inventory)
    return _asking(task, state, inventory, gives, baseline_too=True, first=False)


def doubtful(state: NodeState) -> frozenset[Place]:
    """Return the slots that are written whatever they report, since their contents are unknown."""
    there = () if state.attached is None else state.attached.items
    return frozenset(a.place for a in there if a.doubtful and a.place is not None)


def _goes(task: Any, state: NodeState, inventory: Inventory, one: Attachment) -> bool:
    """Whether the rules want nothing of an instance to stay in the device."""
    accelerator = inventory.accelerator(one.accelerator)
    if accelerator is None:
        return True
    wanted = demands(tools_of(task, state).baseline, accelerator, target_of(task).node)
    return wanted.on_leave is OnLeave.REMOVE


# ------------------------------------------------------------------------------------------------------ when a job ends


def ended(
    task: Any, state: NodeState, job: Job, inventory: Inventory | None, reasons: tuple[str, ...]
) -> tuple[NodeState, tuple[str, ...]]:
    """Update the node state when a job on an instance's accelerators has ended.

    Where the job was to prepare the accelerators and has failed, what it has written has to be restored: :func:`must_go_back`.

    :returns: the node state, and the job's reasons with those of the instance.
    """
    attached = state.attached
    if attached is None or attached.job != job.id:
        return state, reasons
    if job.flow is Flow.CLEAN:
        return _cleaned(task, state, attached, reasons)
    if not attached.reasons:
        attached = attachment.prepared(attached, job, reasons)
        if reasons:
            # What the restoring job is about to repair is no reason any more: a spoilt card, and the host kept off for it.
            passing = {*write_outcomes.judge(job, inventory).why, *_not_given_back(job)}
            attached = attachment.going_back(attached, [r for r in reasons if r not in passing] or reasons)
        return replace(state, attached=attached), reasons
    attached = attachment.brought_back(attached, job, None if inventory is None else _holds(task, state, inventory))
    if attachment.in_reverse(attached):
        return replace(state, attached=attached), reasons  # the rest is restored by a further job
    state = _without_overrides(replace(state, attached=attached), attached)
    if inventory is not None:
        state = _withheld(state, inventory)
    spoilt = {a.accelerator for a in attachment.stuck(attached)}
    if spoilt:
        quarantine.maintain(task.node, [q for q in state.quarantined if q.device in spoilt], job.flow)
    first, *rest = attached.reasons or ('the job was interrupted',)
    return state, tuple(dict.fromkeys((first, *attachment.told(attached), *rest, *reasons)))


def _not_given_back(job: Job) -> Iterator[str]:
    """Yield why a job has left the host powered off, as the job's reasons say it."""
    for item in job.items:
        if isinstance(item.action, Reset) and item.action.purpose is ResetPurpose.RESUME and item.state is ItemState.FAILED:
            yield f'{describe(item.action)}: {item.message}'


def must_go_back(state: NodeState, job: Job) -> bool:
    """Whether a deployment has failed, and accelerators of its instance have to be restored by a further job."""
    attached = state.attached
    return job.flow is Flow.DEPLOY and attached is not None and attached.job is None and bool(attachment.in_reverse(attached))


def unsaid(state: NodeState, job: Job) -> tuple[str, ...]:
    """Return what a deploy job leaves unrestored if it can neither continue nor restore anything: cleaning restores it."""
    attached = state.attached
    if attached is None or attached.job != job.id or job.flow is not Flow.DEPLOY:
        return ()
    return tuple(
        f'{a} was not rolled back: the job could not continue; cleaning does that, and it is not published before'
        for a in reversed(attached.items)
        if a.state in (AttachState.PREPARING, AttachState.UNPREPARING)
    )


def _cleaned(task: Any, state: NodeState, attached: Attached, reasons: tuple[str, ...]) -> tuple[NodeState, tuple[str, ...]]:
    """Return the node state after the whole path of a cleaning; without the attachment once all of it has ended well."""
    bad = attachment.stuck(attached)
    if reasons or bad:
        said = tuple(f'{a} could not be restored after instance {attached.instance}: {a.why}' for a in bad)
        return replace(state, attached=replace(attached, job=None)), tuple(dict.fromkeys((*said, *reasons)))
    done = [f'{a} holds {a.back}' if a.back else f'{a} stays as it is' for a in reversed(attached.items) if a.back or a.why]
    if done:
        provision_state.told(task.node, f'accelerators of instance {attached.instance} are restored: {"; ".join(done[:_TOLD])}')
    return _without_overrides(replace(state, attached=None), attached), reasons


# -------------------------------------------------------------------------------------------------------------- helpers

_TOLD = 20
_AWAY = 'its BMC does not show the card any more'
_BEGIN, _READY = AttachEvent.BEGIN, AttachEvent.READY


def _claimed(task: Any, inventory: Inventory, around: Around) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
    """Return what the instance has claimed, as the drivers see it, and the claims that the machine does not show.

    :raises UsageError: the instance has claimed more than can be stored.
    """
    held = placement.claims(around.instance)
    all_of_it = region_claims.everything(held, task.node.uuid, inventory)
    if len(all_of_it) > attachment.MOST:
        what = f'the instance has claimed {len(all_of_it)} accelerators and slots, at most {attachment.MOST} are allowed'
        raise UsageError(argument='the claims of the instance', what=what)
    found = drive.devices(drivers(), all_of_it, around)
    return found, tuple(region_claims.not_shown(held, task.node.uuid, all_of_it, around.supply))


def _around(task: Any, state: NodeState, inventory: Inventory, instance: str, verdict: Verdict | None = None) -> Around:
    tools = tools_of(task, state)
    verdict = verdict or Verdict(target=inventory.target, findings=())
    made = supply(inventory, verdict, tools.baseline, target_of(task).node, tools.catalogue)
    return Around(
        instance=instance,
        inventory=inventory,
        supply=made,
        holds=_held(tools, inventory),
        asked=region_claims.asked(task.node.instance_info.get('traits') or (), made),
    )


def _holds(task: Any, state: NodeState, inventory: Inventory) -> dict[Place, str]:
    return _held(tools_of(task, state), inventory)


def _held(tools: Tools, inventory: Inventory) -> dict[Place, str]:
    """Return the function of the catalogue that each slot holds."""
    catalogue = tuple(tools.catalogue)
    return {
        (a.id, s.slot_id): name
        for a in inventory.accelerators
        for s in a.slots
        if (name := image_selection.held(catalogue, a, s)) is not None
    }


def _way_back(
    task: Any,
    state: NodeState,
    inventory: Inventory,
    attached: Attached,
    which: tuple[Attachment, ...],
    kept: dict[str, str] | None = None,
    failed: dict[str, str] | None = None,
) -> tuple[Attached, tuple[FunctionAssignment, ...]]:
    """Ask the drivers how some attachments are restored; the others stay as they are."""
    way = drive.unprepare(drivers(), which, _around(task, state, inventory, attached.instance))
    for driver in sorted({a.driver for a in which if a.provider in way.failed}):
        provision_state.told(
            task.node, next(way.failed[a.provider] for a in which if a.driver == driver and a.provider in way.failed)
        )
    kept, failed = {**(kept or {}), **way.undo.kept}, {**(failed or {}), **way.failed}
    return attachment.returned(attached, way.undo.gives, kept, failed), way.undo.gives


def _asking(
    task: Any,
    state: NodeState,
    inventory: Inventory,
    gives: Iterable[FunctionAssignment],
    *,
    baseline_too: bool,
    first: bool = True,
) -> NodeState:
    """Return the node state with the functions that slots are to get, as demands on their devices.

    :param baseline_too: what the rules ask of the other slots of the devices counts, too.
    :param first: the assignments come before the rules; else they are for slots of which the rules say nothing.
    """
    gives = tuple(gives)
    tools, node = tools_of(task, state), target_of(task).node
    overrides = []
    for a in inventory.accelerators:
        # Functions are asked for by patterns of slots.
        ours = tuple((glob.escape(g.slot), g.function) for g in gives if g.accelerator == a.id)
        rules = demands(tools.baseline, a, node).functions if baseline_too else ()
        if ours:
            overrides.append(Override(device=a.id, functions=(*ours, *rules) if first else (*rules, *ours)))
    others = tuple(o for o in state.overrides if o.device not in {new.device for new in overrides})
    return replace(state, overrides=(*overrides, *others))


def _without_overrides(state: NodeState, attached: Attached | None) -> NodeState:
    """Return the node state without the functions that were asked for on devices that an instance has."""
    theirs = set() if attached is None else {a.accelerator for a in attached.items if a.slot is not None}
    return replace(state, overrides=tuple(o for o in state.overrides if o.device not in theirs))


def _withheld(state: NodeState, inventory: Inventory) -> NodeState:
    """Return the node state with the devices quarantined of which something could not be restored: they are not published."""
    stuck = attachment.stuck(state.attached)
    new = []
    for device in dict.fromkeys(one.accelerator for one in stuck):
        theirs = [one for one in stuck if one.accelerator == device]
        accelerator = inventory.accelerator(device)
        slots = () if accelerator is None else accelerator.slots
        ours = {one.slot for one in theirs}
        refs = tuple(sorted(s.item.ref for s in slots if s.item is not None and s.slot_id in ours))
        if any(q.device == device and (not refs or (not q.firmware and set(refs) <= set(q.anew))) for q in state.quarantined):
            continue
        why = ' '.join(f'{device} is quarantined: {one} could not be restored: {one.why}' for one in theirs)
        new.append(Quarantine(device=device, since=inventory.at, why=why, firmware=False, refs=refs, anew=refs))
    return replace(state, quarantined=joined(state.quarantined, new))


__all__ = [
    'begun',
    'devices',
    'doubtful',
    'ended',
    'going_back',
    'is_going_back',
    'left',
    'must_go_back',
    'plugged',
    'prepare',
    'tell',
    'unsaid',
    'without_refused',
    'worked_on',
]

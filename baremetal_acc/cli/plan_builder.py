# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build the plan of a verb for a target, and the verdict on a target, from one inventory each. Writes nothing to a BMC."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from baremetal_acc import execution
from baremetal_acc.cli.device_selection import requested_devices
from baremetal_acc.cli.plan_request import PARTS, PlanRequest, Verb
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.state import TargetState
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.cli.target_verdict import custody_of, judge, labels, relevant
from baremetal_acc.errors import BmcBusy, BmcError, BmcUnsupported, ImageError, UsageError
from baremetal_acc.execution import Target, Tools, lifecycle
from baremetal_acc.execution.observation import Bmcs
from baremetal_acc.model.action import CheckImage, Engage, Flash, Program, Publish, Release, RestoreSetting, SetCardSetting
from baremetal_acc.model.custody import Custody
from baremetal_acc.model.image import ImageKind
from baremetal_acc.model.inventory import Inventory, Sending, UploadWay
from baremetal_acc.model.job import Job
from baremetal_acc.model.note import FoundOpen, Note, NothingToDo, QuarantinedSince, WaitsForUpdate
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId, BmcName
from baremetal_acc.model.refusal import ImageUnusable, Refusal
from baremetal_acc.model.subject import JOB, QUARANTINE, Subject, SubjectKind
from baremetal_acc.model.toml import did_you_mean
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.planning import bmc_settings, custody_rules, interference, quarantine, remediation, waivers, watch
from baremetal_acc.planning.plan import Part
from baremetal_acc.planning.verify import note_unseen_firmware
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, Match, Measure, Rule
from baremetal_acc.policy.device_demands import demands

LOG = logging.getLogger(__name__)

Sendings = Mapping[BmcName, Sending]
"""How an image is sent to each BMC that takes one."""

COMMAND_LINE_RULE = 'command line'
"""Name of the rule that is made of ``program --slot``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPlan:
    """The inventory of a target, and the plan that was made from it.

    :ivar state: the stored state of the target, updated by this inventory.
    :ivar devices: the devices that are meant, None for all.
    :ivar unmet: the findings that are not met and that concern the verb. Where the plan has no actions, nothing remedies them.
    :ivar made: the plan; without actions when nothing has to be done.
    :ivar custody: the custody of the cards after this inventory.
    """

    entry: TargetEntry
    target: Target
    tools: Tools
    state: TargetState
    inventory: Inventory
    verdict: Verdict
    devices: frozenset[AcceleratorId] | None
    unmet: tuple[Finding, ...]
    made: Plan
    custody: Custody

    @property
    def labels(self) -> dict[AcceleratorId, str]:
        """Labels of the devices, by id."""
        return labels(self.inventory)


def look(
    using: Session, entry: TargetEntry, tools: Tools, state: TargetState, request: PlanRequest, target: Target | None = None
) -> PreparedPlan:
    """Read the inventory of a target, and plan what has to be done.

    :param tools: with the baseline as the operator wrote it.
    :param target: the target where its passwords are known already.
    :raises BmcError: a BMC cannot be reached or read. ``UsageError``: a device, slot or function does not exist, or images
        cannot be served as the options say.
    """
    target = using.target(entry) if target is None else target
    signing: list[bool] = []
    restores = request.verb is Verb.APPLY and bmc_settings.has_restores(tools.baseline)
    inventory = execution.observe(
        target,
        tools,
        datetime.now(UTC),
        tasks=request.verb is Verb.APPLY,
        settings=restores,
        looked=lambda looks, _: signing.extend(seen.measures for seen in looks),
    )
    state = meanwhile(state, inventory)
    if request.new_lifecycle:
        state = replace(state, lifecycle=state.lifecycle + 1)
    if request.forget_vanished:
        left = quarantine.still_there(state.quarantined, inventory)
        state = replace(state.without_shown(), quarantined=left, anew=state.anew & {a.id for a in inventory.accelerators})
    devices = requested_devices(inventory, request)
    if request.verb is Verb.PROGRAM:
        devices = _with_slots(inventory, devices, request.functions)
        _functions_exist(tools, request.functions)
        tools = replace(tools, baseline=programming(tools.baseline, devices, request.functions))
    tools = state.tools(tools)
    # SPDM measurements are read only where nothing is to be done: a plan does not change them, and its job reads them last.
    chains = custody_of(inventory, target, tools, state)
    verdict = judge(inventory, chains, target, tools, state, measured=False, settings=restores)
    unmet = relevant(request.verb, verdict, devices, tuple(slot for slot, _ in request.functions))
    parts = PARTS[request.verb] | ({Part.PUBLISH} if tools.placement is not None else frozenset())
    anew = watch.rewritable(inventory, state.anew, tools.baseline, target.node, tools.catalogue)
    proposal = lifecycle.propose(
        state,
        chains,
        inventory,
        target,
        tools,
        state.undos,
        parts=parts,
        # A tenant's host that is off is kept off, too; an action that needs it to start powers it on once all locks are proven.
        hold=target.node.exposure is Exposure.TENANT if request.hold is None else request.hold,
        only=devices,
        again=anew,
    )
    made = proposal.made
    _check_serving(made, target, sendings(inventory))
    if request.verb is Verb.UNLOCK:
        nothing = not any(isinstance(a, Release) for a in made.actions) and not made.refusals
    else:
        # A proven lock is not engaged again because something else is not met.
        mends = bool(remediation.mendable(unmet, made)) or (bool(unmet) and bool(made.refusals))
        nothing = not mends and not any(isinstance(a, Flash | Program | RestoreSetting) for a in made.actions)
    if nothing:
        let = waivers.told(inventory.target, verdict.waived, verdict.relaxed, labels(inventory))
        # The notes of an unlock name the locks that stay closed.
        kept = made.notes if request.verb is Verb.UNLOCK else ()
        if request.verb is Verb.APPLY:
            kept = tuple(note_unseen_firmware(inventory, tools.baseline, target.node, devices))
            # An operator takes "nothing to do" for "everything holds", so the target is verified as verify does.
            if _has_to_sign(inventory, target, tools, offered=any(signing)) or _has_settings(inventory, target, tools):
                inventory = execution.observe(target, tools, datetime.now(UTC), measure=True, tasks=True, settings=True)
                chains = custody_of(inventory, target, tools, state)
                verdict = judge(inventory, chains, target, tools, state)
            unmet = (*relevant(Verb.APPLY, verdict, devices), *(f for f in verdict.unmet if f.subject == JOB))
        nothing_to_do = Note(label=target.name, content=NothingToDo(unmet=bool(unmet)))
        # Placement is updated when something is not met.
        told = tuple(a for a in made.actions if isinstance(a, Publish)) if unmet else ()
        made = Plan(target=made.target, actions=told, notes=(nothing_to_do, *let, *kept))
    made = replace(made, notes=(*made.notes, *remediation.left(_for_somebody_else(unmet), made)))
    why = custody_rules.reasons_to_write(proposal.doubted, made, chains, inventory, inventory.at)
    written = {a.accelerator for a in made.actions if isinstance(a, Flash)}
    opened = opened_notes((anew - proposal.doubted - proposal.suspects) & written, inventory)
    made = replace(made, notes=(*made.notes, *_quarantine_notes(state, inventory, made), *why, *opened))
    return PreparedPlan(
        entry=entry,
        target=target,
        tools=tools,
        state=state,
        inventory=inventory,
        verdict=verdict,
        devices=devices,
        unmet=unmet,
        made=_with_images_checked(made, target, tools),
        custody=chains,
    )


def _for_somebody_else(unmet: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that a plan remedies, or notes that it does not. Quarantines and unfinished jobs have notes of their own."""
    return tuple(f for f in unmet if f.subject not in (QUARANTINE, JOB))


def _has_to_sign(inventory: Inventory, target: Target, tools: Tools, *, offered: bool) -> bool:
    """Whether a rule of the baseline wants a device of the target to sign its SPDM measurements.

    :param offered: a BMC of the target has roots of trust that may sign.
    """
    asked = {demands(tools.baseline, a, target.node).measure for a in inventory.accelerators}
    return Measure.REQUIRED in asked or (offered and Measure.WHERE_PRESENT in asked)


def _has_settings(inventory: Inventory, target: Target, tools: Tools) -> bool:
    """Whether a rule of the baseline names a setting of a BMC of the target."""
    return any(bmc_settings.demanded(tools.baseline, bmc, target.node) for bmc in inventory.bmcs)


def sendings(inventory: Inventory) -> Sendings:
    """How an image is sent to each BMC that takes one."""
    found = ((b.name, b.update.sending) for b in inventory.bmcs if b.update is not None)
    return {name: how for name, how in found if how is not None}


def _check_serving(made: Plan, target: Target, hows: Sendings) -> None:
    """Check that images can be served to BMCs that fetch them, before the host is powered off.

    :raises UsageError: an option has a value that cannot work.
    """
    from baremetal_acc.bmc.redfish import image_server

    written = {a.ref.bmc for a in made.actions if isinstance(a, Flash | Program)}
    for address in target.bmcs:
        how = hows.get(address.name)
        if address.name in written and address.images is not None and how is not None and how.way is UploadWay.PULL:
            image_server.check(address.images)


def _quarantine_notes(state: TargetState, inventory: Inventory, made: Plan) -> Iterator[Note]:
    """Notes on quarantined devices, which nobody may use, and on whether the plan ends the quarantine by writing them."""
    names = labels(inventory)
    for mark in state.quarantined:
        is_ended = quarantine.mended(mark, made.actions, inventory)
        content = QuarantinedSince(at=mark.since, ended=bool(is_ended), firmware=bool(mark.firmware))
        for device in sorted(quarantine.suspects([mark], inventory).intersection(names)):
            yield Note(label=names[device], content=content)


def opened_notes(anew: frozenset[AcceleratorId], inventory: Inventory) -> Iterator[Note]:
    """Notes on cards that are written although they may show the right version, because their locks were found open."""
    for accelerator in inventory.accelerators:
        if accelerator.id in anew:
            yield Note(label=accelerator.label, content=FoundOpen())


def meanwhile(state: TargetState, inventory: Inventory) -> TargetState:
    """The stored state, updated by what an inventory shows of the time since the last job.

    Cards that were left unlocked are quarantined if their host, which was left off, has run. Cards whose locks we had engaged
    and that are found open have to be written again. Nothing is updated while a job is unfinished.
    """
    if state.unfinished is not None:
        return state
    state = replace(state, anew=state.anew | lifecycle.stood_open(state.engagements, state.lifecycle, inventory))
    left = frozenset(mark.accelerator for mark in state.unlocked)
    if state.job is None or not left:
        return state
    ran = interference.ran_meanwhile(state.job.held_off, left, inventory)
    if not ran:
        return state
    # The next job records again how it leaves the host off.
    marks = quarantine.with_interferences(state.quarantined, ran)
    return replace(state, quarantined=marks, job=replace(state.job, held_off=()))


def programming(
    baseline: Baseline, devices: frozenset[AcceleratorId] | None, functions: tuple[tuple[str, str], ...]
) -> Baseline:
    """The baseline with a first rule that demands these functions of these devices."""
    rule = Rule(name=COMMAND_LINE_RULE, match=Match(ids=devices or frozenset()), functions=functions)
    return replace(baseline, rules=(rule, *baseline.rules))


def resumed(job: Job, tools: Tools) -> tuple[Tools, frozenset[AcceleratorId] | None, tuple[str, ...]]:
    """The tools, devices and slots that a stored job was begun with, derived from the job."""
    writes = [i.action for i in job.items if isinstance(i.action, Program)]
    touched = frozenset(
        i.action.accelerator for i in job.items if isinstance(i.action, Flash | Program | SetCardSetting | Engage | Release)
    )
    if job.step == Verb.PROGRAM:
        pairs = tuple((a.slot, a.function) for a in writes)
        devices = frozenset(a.accelerator for a in writes)
        return (
            replace(tools, baseline=programming(tools.baseline, devices, pairs)),
            devices,
            tuple(slot for slot, _ in pairs),
        )
    return tools, None if job.demands_met else touched, ()


def _with_slots(
    inventory: Inventory, devices: frozenset[AcceleratorId] | None, functions: tuple[tuple[str, str], ...]
) -> frozenset[AcceleratorId]:
    """The devices that have a slot to be programmed."""
    chosen = [a for a in inventory.accelerators if devices is None or a.id in devices]
    slots = {(a.id, s.slot_id) for a in chosen for s in a.slots}
    for pattern, _ in functions:
        if not any(fnmatchcase(slot.casefold(), pattern.casefold()) for _, slot in slots):
            known = sorted({slot for _, slot in slots})
            hint = f'the slots are {", ".join(known)}' if known else 'no device has slots'
            raise UsageError(argument='--slot', what=f'{inventory.target} has no slot {pattern!r}', hint=hint)
    return frozenset(a for a, s in slots if any(fnmatchcase(s.casefold(), p.casefold()) for p, _ in functions))


def _functions_exist(tools: Tools, functions: tuple[tuple[str, str], ...]) -> None:
    known = {i.function for i in tools.catalogue if i.kind is ImageKind.FUNCTION and i.function is not None}
    for _, function in functions:
        if function not in known:
            firmware = {i.name for i in tools.catalogue if i.kind is ImageKind.FIRMWARE}
            what = (
                f'{function!r} is a firmware image' if function in firmware else f'the catalogue has no function {function!r}'
            )
            hint = did_you_mean(function, known) or f'the functions of the catalogue are {", ".join(sorted(known)) or "none"}'
            raise UsageError(argument='--slot', what=what, hint=hint)


def _with_images_checked(made: Plan, target: Target, tools: Tools) -> Plan:
    """The plan with a refusal for each image that its job would refuse before it changes anything, so that a dry run shows it.

    No image of a plan that is refused already is opened: that would only take time.
    """
    if made.refusals:
        return made
    refusals = []
    with execution.sessions(target, tools) as bmcs:
        for action in made.actions:
            if isinstance(action, CheckImage):
                try:
                    execution.check_image(action, tools, bmcs)
                except (ImageError, BmcUnsupported) as exc:
                    subject = Subject(kind=SubjectKind.IMAGE, name=action.image)
                    refusals.append(
                        Refusal(
                            accelerator=None,
                            label=made.target,
                            subject=subject,
                            reason=ImageUnusable(image=action.image, error=exc),
                        )
                    )
        busy = tuple(_busy((a for a in made.actions if isinstance(a, CheckImage)), made.target, bmcs))
    return replace(made, refusals=(*made.refusals, *refusals), notes=(*made.notes, *busy))


def _busy(checks: Iterable[CheckImage], target: str, bmcs: Bmcs) -> Iterator[Note]:
    """A note if a BMC works on an update already: the job waits for that update before it changes anything."""
    try:
        execution.check_idle(checks, bmcs)
    except BmcBusy as exc:
        yield Note(label=target, content=WaitsForUpdate(message=exc.message))
    except BmcError as exc:
        LOG.info('%s', exc)

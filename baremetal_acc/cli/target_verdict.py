# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Judge a target by one inventory: the verdict, its custody, quarantines and unfinished jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from baremetal_acc import execution
from baremetal_acc.cli.output import text
from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.state import TargetState
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, Refused
from baremetal_acc.execution import Target, Tools, custody_feed, lifecycle
from baremetal_acc.model.custody import Custody
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.subject import JOB, QUARANTINE, RELOCK, SubjectKind
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.planning import custody, quarantine, relevance

MENDING = 'apply --execute writes it again; if only a slot is affected, program --execute does so, too'
"""The commands that end a quarantine, for messages."""

_CONCERNS: Mapping[Verb, frozenset[SubjectKind] | None] = {
    Verb.APPLY: None,
    Verb.PROGRAM: relevance.FUNCTIONS,
    Verb.LOCK: relevance.LOCKING,
    Verb.UNLOCK: frozenset(),
}
"""The kinds of findings that make each verb fail; None for all kinds."""


def labels(inventory: Inventory) -> dict[AcceleratorId, str]:
    """Labels of the devices of an inventory, by id."""
    return {a.id: a.label for a in inventory.accelerators}


def judge(
    inventory: Inventory,
    chains: Custody,
    target: Target,
    tools: Tools,
    state: TargetState,
    *,
    measured: bool = True,
    settings: bool = True,
) -> Verdict:
    """Compare an inventory with the baseline and with the stored state, explicit unlocks and quarantines included.

    :param chains: the custody of the cards after that inventory.
    :param settings: the inventory has the settings of the BMCs, too.
    """
    found = execution.compare(
        inventory, target, tools, state.engagements, lifecycle=state.lifecycle, measured=measured, settings=settings
    )
    found = custody_feed.judged(found, chains, inventory, target, tools, inventory.at)
    return marked(found, inventory, state)


def custody_of(
    inventory: Inventory, target: Target, tools: Tools, state: TargetState, *, starting: Ref | None = None
) -> Custody:
    """The custody of the target's cards after an inventory. Only a job stores it: the next inventory finds the same again.

    :param starting: a System that is about to be started: locks that take effect with its start count.
    """
    return custody_feed.looked(
        state.custody,
        inventory,
        target,
        tools,
        state.engagements,
        lifecycle=state.lifecycle,
        by=datetime.now(UTC),
        starting=starting,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTarget:
    """The inventory of a target, SPDM measurements included, and the verdict on it.

    :ivar tools: with the devices that were there when the baseline was met last.
    :ivar state: the stored state of the target.
    :ivar custody: the custody of its cards after this inventory.
    """

    target: Target
    tools: Tools
    state: TargetState
    inventory: Inventory
    verdict: Verdict
    custody: Custody


def judged(using: Session, entry: TargetEntry, tools: Tools, target: Target | AccError) -> JudgedTarget:
    """Read the inventory of a target, and compare it with the baseline.

    :param target: the target, or the error that its passwords or files gave.
    :raises AccError: that error, or the target could not be read.
    """
    if isinstance(target, AccError):
        raise target
    state = using.store.read(entry.name)
    tools = state.tools(tools)
    inventory = execution.observe(target, tools, datetime.now(UTC), measure=True, tasks=True, settings=True)
    kept = custody_of(inventory, target, tools, state)
    verdict = judge(inventory, kept, target, tools, state)
    opened = lifecycle.stood_open(state.engagements, state.lifecycle, inventory)
    if custody.breaks(state.custody, kept) or not opened <= state.anew:
        _keep_breaks(using, entry, kept, opened)
    state = replace(state, anew=state.anew | opened)
    return JudgedTarget(target=target, tools=tools, state=state, inventory=inventory, verdict=verdict, custody=kept)


def _keep_breaks(using: Session, entry: TargetEntry, kept: Custody, anew: frozenset[AcceleratorId]) -> None:
    """Store that a chain of custody was found broken, and which locks were found open.

    The next reading might not show it: somebody may have closed the locks by then. Nothing is stored while another process
    works on the target, or while a job is unfinished: that process, or that job, reads the target itself.
    """
    try:
        with using.store.alone(entry.name):
            state = using.store.read(entry.name)
            if state.unfinished is None:
                kept = kept if custody.breaks(state.custody, kept) else state.custody
                using.store.write(replace(state.with_custody(kept), anew=state.anew | anew))
    except Refused as exc:
        text.note(f'{entry.name}: the chains of custody that were read are not stored: {exc}')


def marked(verdict: Verdict, inventory: Inventory, state: TargetState) -> Verdict:
    """The verdict with a further unmet finding for each device that was unlocked on purpose and not locked again, that is
    quarantined, or that an unfinished job works on.
    """
    names = labels(inventory)
    marks = tuple(
        Finding(
            accelerator=mark.accelerator,
            label=names.get(mark.accelerator, mark.accelerator),
            subject=RELOCK,
            fact=FindingText(
                expected='locked again after the unlock', found=f'unlocked on purpose at {mark.at:%Y-%m-%d %H:%M:%S}Z'
            ),
            met=Met.NO,
            rule='default',
        )
        for mark in state.unlocked
    )
    quarantines = tuple(
        Finding(
            accelerator=device,
            label=names.get(device, device),
            subject=QUARANTINE,
            fact=FindingText(
                expected='none',
                found=f'quarantined since {mark.since:%Y-%m-%d %H:%M:%S}Z, until {_mending(mark)} has written it: {mark.why}',
            ),
            met=Met.NO,
            rule='default',
        )
        for mark in state.quarantined
        for device in sorted(quarantine.suspects([mark], inventory))
    )
    job = state.unfinished
    under_way = (
        ()
        if job is None
        else tuple(
            Finding(
                accelerator=device,
                label=verdict.target if device is None else names.get(device, device),
                subject=JOB,
                fact=FindingText(expected='no unfinished job', found=f'{unfinished(job)}; {goes_on(job)}'),
                met=Met.NO,
                rule='default',
            )
            for device in sorted(job.devices) or (None,)
        )
    )
    return replace(verdict, findings=(*verdict.findings, *marks, *quarantines, *under_way))


def _mending(mark: Quarantine) -> str:
    """The commands that can write the quarantined component again."""
    return 'apply --execute' if mark.firmware else 'apply or program --execute'


def quarantined(state: TargetState, inventory: Inventory) -> tuple[str, ...]:
    """Labels of the quarantined devices of an inventory."""
    names = labels(inventory)
    return tuple(names[device] for device in sorted(quarantine.suspects(state.quarantined, inventory).intersection(names)))


def unfinished(job: Job) -> str:
    """What an interrupted job was doing, for people."""
    return f'the {job.step} job of {job.created:%Y-%m-%d %H:%M:%S}Z is unfinished ({execution.doing(job)})'


def goes_on(job: Job, target: str | None = None) -> str:
    """The command that ends an interrupted job, as a clause. An interrupted unlock is not completed: ``lock`` closes its locks.

    :param target: the present name of the target, where it may have changed.
    """
    how = f'--execute --target {target or job.target}'
    return f'lock {how} engages the locks that it has released' if job.step == Verb.UNLOCK else f'apply {how} resumes it'


def relevant(
    verb: Verb, verdict: Verdict, devices: frozenset[AcceleratorId] | None, slots: Iterable[str] = ()
) -> tuple[Finding, ...]:
    """The unmet findings that concern a verb.

    :param devices: the devices that are meant, None for all.
    :param slots: patterns over SlotIds, for ``program``.
    """
    # The finding of an unfinished job concerns no verb: such a job is resumed.
    unmet = (f for f in verdict.unmet if f.subject != JOB)
    return relevance.relevant(unmet, _CONCERNS[verb], devices, slots)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Execute plans: run the job of each target until it ends; the job is stored before every write to a BMC.

A run that is killed leaves its job behind: the next ``apply --execute`` reads the BMC and resumes the job.
"""

import getpass
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from baremetal_acc import execution
from baremetal_acc.cli import history, interruption, plan_builder, publisher, target_verdict
from baremetal_acc.cli.address_match import resolved
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.host_power import find_host_power, note_host_power
from baremetal_acc.cli.job_outcome import find_locked_again, judge_job
from baremetal_acc.cli.output import blocks, documents, text
from baremetal_acc.cli.output.progress import JobProgress
from baremetal_acc.cli.output.report import each, failed
from baremetal_acc.cli.output.results import (
    CommandResult,
    actions,
    failure,
    long_table,
    planned,
    warn_of_unlock,
    warn_of_waivers,
)
from baremetal_acc.cli.plan_builder import PreparedPlan, Sendings
from baremetal_acc.cli.plan_request import PlanRequest, Verb
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.state import TargetState, Unlocked
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, NotMet, Refused, StaleJob, StateError, WriteFailed
from baremetal_acc.execution import Target, Tools, lifecycle
from baremetal_acc.images.store import holding
from baremetal_acc.model.action import Flash, Program, Release
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Done, Flow, Job, Outcome, Wait
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from baremetal_acc.model.subject import QUARANTINE
from baremetal_acc.model.uri import system_id
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.planning import lock_changes, quarantine, quarantine_writes
from baremetal_acc.planning.job_transitions import begin


class Placements:
    """Placement for the targets that have an Ironic node, where placement is configured and ``--no-publish`` is not given."""

    def __init__(self, using: Session, *, wanted: bool) -> None:
        self._publisher: Publisher | None = None
        self._wanted = wanted and using.settings.publish and any(e.node for e in using.entries)
        if self._wanted and publisher.configured(using.conf):
            self._publisher = publisher.connect(using.conf)

    def of(self, entry: TargetEntry) -> publisher.NodePlacement | None:
        """Placement bound to the node of a target; None where nothing is published for the target."""
        if self._publisher is None or entry.node is None:
            return None
        return publisher.NodePlacement(publisher=self._publisher, root=entry.node)


@dataclass(slots=True)
class _Running:
    """One target while its job runs.

    :ivar due: when the next tick is due, by the monotonic clock.
    :ivar last: the inventory and the verdict of the last final verification.
    :ivar power: the power state of the host, as it was read or set last.
    """

    entry: TargetEntry
    target: Target
    tools: Tools
    state: TargetState
    verb: Verb
    devices: frozenset[AcceleratorId] | None
    slots: tuple[str, ...]
    labels: dict[AcceleratorId, str]
    sendings: Sendings
    made: Plan | None = None
    due: float = 0.0
    last: tuple[Inventory, Verdict] | None = None
    power: PowerState | None = None
    job: Job = field(init=False)

    def save(self, job: Job) -> None:
        """Take the job over into the state. The state is not written to the store here."""
        self.job = job
        self.state = replace(self.state, job=job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporting:
    """How the results are printed.

    :ivar for_people: people read the report, which has the waivers: they are no warnings as well.
    :ivar long: the table has all rows and URIs.
    """

    for_people: bool = False
    long: bool = False


class Execution:
    """Runs the jobs of all targets of a command in one thread: while one job waits for its BMC, others get their ticks.

    :param without: the error for which there are no images; a job that needs an image does not begin.
    """

    def __init__(
        self,
        using: Session,
        tools: Tools,
        request: PlanRequest,
        placements: Placements,
        progress: JobProgress,
        how: Reporting,
        without: AccError | None = None,
    ) -> None:
        self._using = using
        self._without = without
        self._tools = tools
        self._request = request
        self._placements = placements
        self._progress = progress
        self._how = how
        self._results: dict[str, CommandResult] = {}
        self._targets: dict[str, Target] = {}

    def run(self) -> list[CommandResult]:
        """Run the jobs to their ends. A failure of one target does not stop the others.

        :raises KeyboardInterrupt: the command was interrupted; the jobs are stored and can be resumed, which was reported.
        """
        with ExitStack() as stack:
            stack.enter_context(self._progress.watching())
            ready = []
            for entry in self._using.entries:
                try:
                    # Passwords are asked for one after another, before targets are read concurrently.
                    self._targets[entry.name] = self._using.target(entry)
                    ready.append(entry)
                except AccError as exc:
                    self._results[entry.name] = failure(entry, exc)
            for entry, found in each(ready, lambda e: places(self._targets[e.name])):
                try:
                    if isinstance(found, AccError):
                        raise found
                    stack.enter_context(self._using.store.alone(entry.name))
                    stack.enter_context(self._using.store.alone_at(entry.name, found))
                except AccError as exc:
                    self._results[entry.name] = failure(entry, exc)
                    ready.remove(entry)
            running = []
            with holding():
                all_begun = each(ready, self._begin)
            for entry, begun in all_begun:
                if isinstance(begun, AccError):
                    self._results[entry.name] = failure(entry, begun)
                elif begun is not None:
                    running.append(begun)

            def left() -> Iterator[str]:
                with suppress(RuntimeError):  # the interrupted code was drawing the progress
                    self._progress.clear()
                yield from (f'{o.entry.name}: {_interrupted(o)}' for o in running if o.entry.name not in self._results)

            with interruption.saying(left):
                self._turn(running)
        return [self._results[e.name] for e in self._using.entries]

    def _begin(self, entry: TargetEntry) -> _Running | None:
        """Resume the stored job of a target, or begin a job for a new plan. None when there is nothing to execute."""
        state = self._using.store.read(entry.name)
        tools = replace(self._tools, placement=self._placements.of(entry))
        found = state.unfinished
        if found is not None:
            self._is_here(entry, found)
            if self._goes_on_with(found):
                return self._resume(entry, state, tools, found)
        if self._without is not None and self._request.verb not in (Verb.LOCK, Verb.UNLOCK):
            raise self._without
        prepared = plan_builder.look(self._using, entry, tools, state, self._request, self._targets[entry.name])
        if self._request.verb is Verb.UNLOCK:
            warn_of_unlock(prepared)
        shown = planned(prepared, self._request.verb, None, long=self._how.long)
        outcome = shown.document['outcome']
        if outcome in ('holds', 'not-met'):
            spoilt = target_verdict.quarantined(prepared.state, prepared.inventory)
            note_host_power(entry, find_host_power(prepared.inventory), self._request.verb, spoilt, good=outcome == 'holds')
            self._remember(prepared, good=outcome == 'holds')
        if outcome != 'planned':
            self._results[entry.name] = shown
            return None
        return self._start(prepared)

    def _remember(self, prepared: PreparedPlan, *, good: bool) -> None:
        """Store the new state of a target for which there is nothing to do, such as a new lifecycle.

        :param good: the baseline is met, so the cards that are there now are expected from now on.
        """
        state = prepared.state
        if good and self._request.verb is Verb.APPLY and prepared.devices is None:
            there = prepared.inventory.accelerators
            state = replace(state, known=state.known | {a.id for a in there}).shown(there)
        if state != self._using.store.read(state.target):
            self._using.store.write(state)

    def _goes_on_with(self, found: Job) -> bool:
        """Whether the stored job is resumed. An interrupted unlock is superseded by a verb that locks again.

        :raises Refused: the verb neither resumes nor supersedes the job, and would lose track of what the job has begun.
        """
        if found.step == Verb.UNLOCK and self._request.verb in (Verb.APPLY, Verb.LOCK):
            return False
        plain = not self._request.devices and not self._request.new_lifecycle
        # Without images the job can write nothing more: resuming it closes its locks, so LOCK resumes it, too.
        closes = self._request.verb is Verb.LOCK and self._without is not None
        if (self._request.verb is Verb.APPLY or closes) and plain:
            return True
        hint = f'apply --execute --target {found.target}, with the same files as then and no other options, resumes it'
        if found.step == Verb.UNLOCK:
            hint = f'{target_verdict.goes_on(found)}; after that, run unlock again'
        raise Refused([f'{found.target}: {target_verdict.unfinished(found)}'], hint=hint)

    def _is_here(self, entry: TargetEntry, found: Job) -> None:
        """Check that the target is the machine on which the job was begun, before anything is sent to it.

        :raises StaleJob: the name belongs to another machine now.
        """
        try:
            execution.bound(found, self._targets[entry.name])
        except StaleJob as exc:
            hint = (
                f'write the old address into the list again, then {target_verdict.goes_on(found, entry.name)}; if that machine '
                f'is gone for good, delete its stored state: {self._using.store.forgetting(entry.name)}'
            )
            raise StaleJob(exc.message, hint=hint) from None

    def _resume(self, entry: TargetEntry, state: TargetState, tools: Tools, found: Job) -> _Running:
        text.note(f'{entry.name}: {target_verdict.unfinished(found)}; reading its progress from the BMC')
        if self._without is not None:
            text.warn(f'{entry.name}: without a catalogue no image is written or restored; every lock is engaged')
        tools, devices, slots = plan_builder.resumed(found, state.tools(tools))
        target = self._targets[entry.name]
        inventory = execution.observe(target, tools, datetime.now(UTC))
        one = _Running(
            entry=entry,
            target=target,
            tools=tools,
            state=state,
            verb=Verb(found.step),
            devices=devices,
            slots=slots,
            labels=target_verdict.labels(inventory),
            sendings=plan_builder.sendings(inventory),
        )
        one.job = found
        one.power = find_host_power(inventory)
        return self._hooked(one)

    def _start(self, prepared: PreparedPlan) -> _Running:
        request, state = self._request, prepared.state
        now = datetime.now(UTC)
        whole = request.verb is Verb.APPLY and prepared.devices is None
        job = begin(
            prepared.made,
            identity=uuid.uuid4().hex,
            node=prepared.entry.node or prepared.entry.name,
            flow=Flow.CLI,
            step=request.verb,
            lifecycle=state.lifecycle,
            now=now,
            timeout=self._using.job_timeout,
            requester=getpass.getuser(),
            demands_met=whole,
        )
        kept = tuple(e for e in state.engagements if e.lifecycle == state.lifecycle)
        opened = {a.accelerator for a in prepared.made.actions if isinstance(a, Release)}
        marks = state.unlocked
        if request.verb is Verb.UNLOCK:
            marks = (
                *(m for m in marks if m.accelerator not in opened),
                *(Unlocked(accelerator=a, at=now) for a in sorted(opened)),
            )
        one = _Running(
            entry=prepared.entry,
            target=prepared.target,
            tools=prepared.tools,
            state=replace(state, unlocked=marks),
            verb=request.verb,
            devices=prepared.devices,
            slots=tuple(slot for slot, _ in request.functions),
            labels=prepared.labels,
            sendings=plan_builder.sendings(prepared.inventory),
            made=prepared.made,
            power=find_host_power(prepared.inventory),
        )
        # A host that was left off with open locks is compared with the state in which it was left.
        held_off = state.job.held_off if state.job is not None and state.unlocked else ()
        job = replace(job, engagements=kept, undos=state.undos, held_off=tuple(mark for mark in held_off if not mark.once))
        job = lifecycle.begun(job, prepared.custody, prepared.made, prepared.inventory, prepared.target, prepared.tools)
        one.save(execution.bound(job, prepared.target))
        self._using.store.write(one.state)
        return self._hooked(one)

    def _hooked(self, one: _Running) -> _Running:
        def save(job: Job) -> None:
            one.save(job)
            self._using.store.write(one.state)
            self._progress.show(job, execution.doing(job))

        def observed(inventory: Inventory, verdict: Verdict) -> None:
            one.last = (inventory, verdict)
            one.power = find_host_power(inventory)

        def power_changed(system: Ref, power: PowerState) -> None:
            if system.bmc == HOST:
                one.power = power
            self._progress.clear()
            text.note(f'{one.entry.name}: {system}: power {power.lower()} was requested')

        def unusable(job: Job, inventory: Inventory) -> frozenset[AcceleratorId]:
            return quarantine.unmended(one.state.quarantined, job, inventory)

        one.tools = replace(one.tools, save=save, observed=observed, power_changed=power_changed, unusable=unusable)
        self._progress.labels(one.labels)
        return one

    def _turn(self, running: Sequence[_Running]) -> None:
        left = list(running)
        while left:
            one = min(left, key=lambda r: r.due)
            time.sleep(max(0.0, one.due - time.monotonic()))
            try:
                # An image that is sent to several cards in one tick is copied once.
                with holding():
                    job, outcome = execution.tick(one.job, one.target, one.tools, datetime.now(UTC))
                one.save(job)
                if isinstance(outcome, Wait):
                    self._progress.show(job, outcome.doing)
                    one.due = time.monotonic() + outcome.delay / timedelta(seconds=1)
                    continue
                self._progress.show(job)
                self._progress.clear()
                result = self._end(one, outcome)
            except AccError as exc:
                self._progress.clear()
                result = failure(one.entry, _cut_off(one, exc))
            left.remove(one)
            self._results[one.entry.name] = result

    def _end(self, one: _Running, outcome: Outcome) -> CommandResult:
        """Store what the job has proven, and make the result of its target."""
        verdict = one.job.verdict
        if one.last is None:
            one.last = execution.look_again(one.job, one.target, one.tools, datetime.now(UTC))
        inventory = None if one.last is None else one.last[0]
        unmet = () if verdict is None else target_verdict.relevant(one.verb, verdict, one.devices, one.slots)
        good = isinstance(outcome, Done) and not unmet
        if one.verb is not Verb.UNLOCK:
            locked = find_locked_again(one.job, good=good)
            one.state = replace(one.state, unlocked=tuple(m for m in one.state.unlocked if m.accelerator not in locked))
        whole = good and one.verb is Verb.APPLY and one.devices is None
        one.state = one.state.after(one.job, inventory, datetime.now(UTC), met=good, whole=whole)
        if good and inventory is not None:
            written = {a.accelerator for a in quarantine_writes.written_well(one.job) if isinstance(a, Flash)}
            one.state = replace(one.state, anew=one.state.anew - written)
        marks = quarantine.with_interferences(one.state.quarantined, one.job.interferences)
        one.state = replace(one.state, quarantined=marks)
        if good and one.verb is Verb.APPLY and verdict is not None and inventory is not None:
            # A card of which no rule demands anything was not written, and is still quarantined.
            marked = target_verdict.marked(replace(verdict, findings=()), inventory, replace(one.state, job=None))
            unmet = tuple(f for f in target_verdict.relevant(one.verb, marked, one.devices) if f.subject == QUARANTINE)
        said = tuple(lock_changes.objected(one.job, inventory)) if unmet else ()
        code, word, error = judge_job(one.job, outcome, unmet, said)
        entry = history.of_job(
            one.job,
            word,
            datetime.now(UTC),
            labels=one.labels,
            reasons=error.reasons if isinstance(error, NotMet | Refused | WriteFailed) else (),
            verified=None if inventory is None else inventory.at,
        )
        self._using.store.write(one.state, entry)
        if error is not None:
            failed(one.entry.name, error)
        spoilt = () if inventory is None else target_verdict.quarantined(one.state, inventory)
        if verdict is not None and not self._how.for_people:
            warn_of_waivers(one.entry, verdict)
        note_host_power(one.entry, one.power, one.verb, spoilt, good=code is Exit.HOLDS)
        document = {
            'target': one.entry.name,
            'verb': one.verb.value,
            'executed': True,
            'outcome': word,
            **actions(one.job, one.made, one.labels, one.sendings),
            'verdict': None if verdict is None else documents.verdict(verdict),
            'quarantined': list(dict.fromkeys((*one.job.quarantined, *sorted(one.job.suspect)))),
            'error': documents.failure(error),
        }
        ended = blocks.EndedJob(
            job=one.job,
            verb=one.verb,
            outcome=word,
            labels=one.labels,
            verdict=verdict if one.last is None else one.last[1],
            power=one.power,
            took=None if one.made is None else datetime.now(UTC) - one.job.created,
            made=one.made,
            notes=tuple(note['text'] for note in documents.against_others(one.job, one.labels)),
            is_whole=one.devices is None,
        )
        block = blocks.of_job(ended, one.entry.name, long_table(document) if self._how.long else None)
        return CommandResult(document=document, code=code, block=block)


def any_unfinished(using: Session) -> bool:
    """Whether one of the targets has an unfinished job. A state that cannot be read is reported later, for its target."""

    def has(entry: TargetEntry) -> bool:
        try:
            return using.store.read(entry.name).unfinished is not None
        except AccError:
            return False

    return any(has(entry) for entry in using.entries)


def places(target: Target) -> dict[str, str]:
    """The endpoints of a target's BMCs, each with the BMC's address, so that the same BMC is recognised under another name.

    An endpoint is what the address resolves to, with the System where the entry names one.
    """
    return {
        place if bmc.system is None else f'{place}/{system_id(bmc.system)}': execution.origin(bmc)
        for bmc in target.bmcs
        for place in sorted(resolved(bmc.address))
    }


_UNDER_WAY = frozenset({ItemState.SENT, ItemState.RUNNING})
"""States of a write that may not have ended."""


def _interrupted(one: _Running) -> str:
    """What an interruption leaves, and what to do. A host that is off, or may be off, is mentioned."""
    left, until = target_verdict.unfinished(one.job), ''
    if any(i.state in _UNDER_WAY and isinstance(i.action, Flash | Program) for i in one.job.items):
        left += '; the BMC may continue to write the image that it was sent'
    if one.job.writing:
        left += f'; locks may be open{_host_is(one.power)}'
        until = '' if one.power is PowerState.ON else '; leave the host off until then'
    return f'interrupted: {left}; {target_verdict.goes_on(one.job, one.entry.name)}{until}'


def _host_is(power: PowerState | None) -> str:
    """The end of a sentence about what a job has left: the host's power state, unless the host is on."""
    return '' if power is PowerState.ON else ', and the host is off' if power is PowerState.OFF else ', and the host may be off'


def _cut_off(one: _Running, exc: AccError) -> AccError:
    """The error of a job that was cut off; where the job has begun to write, with what is left and what to do."""
    if not one.job.writing and not (one.job.ended and isinstance(exc, StateError)):
        return exc
    if isinstance(exc, StaleJob):
        return exc
    left = (
        'the end of the job is not stored'
        if one.job.ended
        else f'{target_verdict.unfinished(one.job)}; locks may be open{_host_is(one.power)}'
    )
    first = 'make the state folder usable again' if isinstance(exc, StateError) else 'fix the cause'
    hint = f'{first}, then {target_verdict.goes_on(one.job, one.entry.name)}; do not delete the state folder'
    return WriteFailed([exc.message, left], hint=hint)

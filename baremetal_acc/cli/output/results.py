# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a command that plans or writes, for one target: its plan, what its job did, or why there is no plan."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from baremetal_acc.cli import plan_builder
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import blocks, documents, text
from baremetal_acc.cli.output.layout import Block
from baremetal_acc.cli.output.report import failed
from baremetal_acc.cli.plan_builder import PreparedPlan, Sendings
from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, NotMet, Refused
from baremetal_acc.model.action import Release, Reset, ResetPurpose
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.refusal import NoHost, NoMechanism
from baremetal_acc.model.subject import SubjectKind
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import waivers
from baremetal_acc.render import findings, refusals
from baremetal_acc.render import notes as notes_in_words

COLUMNS = ('Target', 'Device', 'Action', 'What', 'Change', 'State')


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command did to one target, or would do, as a document, and the exit code.

    :ivar block: the same for people.
    """

    document: dict[str, Any]
    code: Exit
    block: Block


def done(result: CommandResult) -> str:
    """The outcome for a target in one line. The reasons have been printed already."""
    body = result.document
    return f'{body["target"]}: {body["verb"]} has ended: {body["outcome"]}'


def planned(prepared: PreparedPlan, verb: Verb, lasts: timedelta | None, *, long: bool) -> CommandResult:
    """The result of a dry run: planned, refused, not met, or nothing to do. Its error is printed.

    :param lasts: how long the same plan has taken before; None where that is unknown.
    :param long: people read the table with all rows and URIs.
    """
    error: AccError | None = None
    word, code = 'planned', Exit.NOT_MET
    if prepared.made.refusals:
        word, error = 'refused', Refused(map(refusals.sentence, prepared.made.refusals), hint=_hint(prepared))
    elif not prepared.made.actions and prepared.unmet:
        word, error = 'not-met', NotMet(map(findings.sentence, prepared.unmet))
    elif not prepared.made.actions:
        word, code = 'holds', Exit.HOLDS
    document = _document(prepared, word, error)
    return CommandResult(
        document=document,
        code=code if error is None else failed(prepared.entry.name, error),
        block=blocks.of_plan(prepared, verb, lasts, long_table(document) if long else None),
    )


def warn_of_unlock(prepared: PreparedPlan) -> None:
    """Warn of the write paths that an unlock will open. A refused plan opens none."""
    if prepared.made.refusals:
        return
    held = any(isinstance(a, Reset) and a.purpose is ResetPurpose.HOLD for a in prepared.made.actions)
    then = '; the host is left powered off' if held else ''
    for accelerator in prepared.inventory.accelerators:
        places = {(a.mechanism, a.ref, a.field) for a in prepared.made.actions if isinstance(a, Release)}
        opened = sorted({path for r in accelerator.locks if r.place in places for path in r.blocks})
        if opened:
            text.warn(
                f'{prepared.entry.name}: {accelerator.label}: the locks of {", ".join(opened)} will be released: whoever '
                f'controls the host can write the card until it is locked again{then}'
            )


def warn_of_waivers(entry: TargetEntry, verdict: Verdict) -> None:
    """Warn of the write paths that are open by a waiver, and name who answers for each waiver."""
    for line in waivers.summary(verdict.waived):
        text.warn(f'{entry.name}: {line}')


def tell_what_is_relaxed(entry: TargetEntry, verdict: Verdict) -> None:
    """Note the rules that demand less than the default: a met verdict proves no more than what was demanded."""
    names = {f.accelerator: f.label for f in verdict.findings if f.accelerator is not None}
    for note in waivers.told(verdict.target, (), verdict.relaxed, names):
        text.note(f'{entry.name}: {notes_in_words.text(note.content)}')


def _hint(prepared: PreparedPlan) -> str | None:
    """Alternatives to a refused plan: where the host cannot be powered off, where it is unclear whether a rule applies to a
    device, and where a lock mechanism or the record of a lock is missing.
    """
    hints = []
    if any(isinstance(r.reason, NoHost) for r in prepared.made.refusals):
        hints.append("use --keep-host-running if the host runs nothing but the operator's own code")
    rules = sorted({str(r.subject) for r in prepared.made.refusals if r.subject.kind is SubjectKind.RULE})
    if rules:
        hints.append(f'{", ".join(rules)}: match by properties that inventory shows of the device, such as its kind')
    open_ = sorted({str(r.subject) for r in prepared.made.refusals if isinstance(r.reason, NoMechanism)})
    if open_:
        hints.append(f'{", ".join(open_)}: a rule can leave the path out of block, or waive it with on_missing and waiver')
    if refusals.is_unrecorded(prepared.made):
        hints.append(refusals.NO_RECORD_HINT)
    return '; '.join(hints) or None


def _document(prepared: PreparedPlan, word: str, error: AccError | None = None) -> dict[str, Any]:
    return {
        'target': prepared.entry.name,
        'verb': '',
        'executed': False,
        'outcome': word,
        **_states(documents.plan(prepared.made, prepared.labels, plan_builder.sendings(prepared.inventory))),
        'verdict': documents.verdict(prepared.verdict),
        'quarantined': [],
        'error': documents.failure(error),
    }


def failure(entry: TargetEntry, error: AccError) -> CommandResult:
    """The result of a target that failed before it had a plan. Its error is printed."""
    document = {
        'target': entry.name,
        'verb': '',
        'executed': False,
        'outcome': 'error',
        'actions': [],
        'refusals': [],
        'notes': [],
        'verdict': None,
        'quarantined': [],
        'error': documents.failure(error),
    }
    return CommandResult(document=document, code=failed(entry.name, error), block=Block())


def _states(body: dict[str, Any]) -> dict[str, Any]:
    planned = {'state': ItemState.PLANNED.value, 'message': None, 'restoring': False}
    return {**body, 'actions': [{**a, **planned} for a in body['actions']]}


def total(results: Sequence[CommandResult]) -> tuple[Block, ...]:
    """A line that counts the outcomes of several targets; none for one target."""
    if len(results) < 2:
        return ()
    counts = Counter(str(result.document['outcome']) for result in results)
    said = ', '.join(f'{number} {_OUTCOMES.get(outcome, outcome)}' for outcome, number in sorted(counts.items()))
    return (Block(after=(f'{len(results)} targets: {said}',)),)


_OUTCOMES = {'holds': 'with nothing to do', 'not-met': 'not met', 'error': 'with an error'}
"""Outcomes that people read in other words."""

NOT_DONE = 'not done'
"""The state that tables show for the actions of a refused plan."""


def actions(job: Job, made: Plan | None, labels: Mapping[AcceleratorId, str], sendings: Sendings) -> dict[str, Any]:
    """The actions of a job with their states; the notes are those of its plan, and on other parts of bundles."""
    notes = [] if made is None else documents.plan(made, labels)['notes']
    notes += documents.against_others(job, labels)
    done = [
        {
            **documents.action(i.action, labels, sendings),
            'state': i.state.value,
            'message': i.message,
            'restoring': i.restoring,
        }
        for i in job.items
    ]
    return {'actions': done, 'refusals': [], 'notes': notes}


def long_table(body: dict[str, Any]) -> blocks.LongTable:
    """The rows of the table without the notes, which people read below it."""
    return blocks.LongTable(columns=COLUMNS, rows=tuple(rows_of({**body, 'notes': []})))


def rows_of(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of the table."""
    rows: list[tuple[Any, ...]] = []
    for a in body['actions']:
        word = NOT_DONE if body['refusals'] and a['state'] == ItemState.PLANNED else a['state']
        state = (word, a['message']) if a['message'] else word
        action = 'restore' if a['restoring'] and a['action'] == 'flash' else a['action']
        rows.append((body['target'], a['device'], action, _what(a), _change(a), state))
    rows += [(body['target'], r['device'], 'refuse', r['subject'], r['reason'], 'refused') for r in body['refusals']]
    rows += [(body['target'], n['device'], 'note', None, n['text'], None) for n in body['notes']]
    return rows


def _what(a: dict[str, Any]) -> tuple[str, ...]:
    """The subject of an action, where it is written, and its image: one item for each line of the cell."""
    place = ' '.join(filter(None, (a['bmc'], a['uri'])))
    image = f'image {a["image"]}' if a['subject'] and a['image'] else a['image']
    bundle = f'of bundle {a["bundle"]}' if a['bundle'] else None
    return tuple(filter(None, (a['subject'], place, a['field'], image, bundle)))


def _change(a: dict[str, Any]) -> tuple[str, ...]:
    """The change that an action makes, how, and when: one item for each line of the cell."""
    change = ' -> '.join(_plain(x) for x in (a['from'], a['to']) if x is not None)
    lines = [change]
    needs = None if a['reset'] in (None, 'none') else a['reset']
    if a['action'] in ('flash', 'program'):
        lines += [f'by {", ".join(filter(None, (a["way"], a["apply_time"])))}' if a['way'] else '', f'order {a["order"]}']
        lines += ['forced'] if a['forced'] else []
    if a['action'] == 'flash' and not a['restoring']:
        lines.append(f'restore image {a["restore"]}' if a['restore'] else 'no restore image')
    if needs:
        lines.append((f'by {needs}' + (f' of {a["by"]}' if a['by'] else '')) if a['action'] == 'reset' else f'then {needs}')
    return tuple(filter(None, (*lines, *(f'why: {why}' for why in a['why']))))


def _plain(value: Any) -> str:
    """A version unchanged, and the value of a lock as JSON, as the BMC writes it."""
    return value if isinstance(value, str) else json.dumps(value)

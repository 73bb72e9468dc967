# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The reports for people on a plan and on a job that has ended: a table of actions, notes, marks, and a line that sums up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from baremetal_acc.cli.output.layout import INDENT, Block
from baremetal_acc.cli.plan_builder import PreparedPlan
from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Job
from baremetal_acc.model.note import LeftOff, LockLeft, QuarantinedSince, ShownFromNextStart
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.render import action_rows, marks, plan_lines, verdict_lines

PLANNED = ('Device', 'Action', 'What', 'Rule')
ENDED = ('Device', 'Action', 'What', 'State')

_LEFT = (LeftOff, LockLeft, QuarantinedSince, ShownFromNextStart)
"""Notes of a plan that are true of what its job leaves, too."""

LONG_HINT = '--long shows every action, and where it is written'


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTable:
    """The table of ``--long``: that of ``-f csv``, without the notes, which are lines below it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def of_plan(prepared: PreparedPlan, verb: Verb, lasts: timedelta | None, long: LongTable | None) -> Block:
    """The block of a plan.

    :param lasts: how long the same plan has taken before; None where that is unknown.
    """
    made, target = prepared.made, prepared.entry.name
    does = bool(made.actions) and not made.refusals
    rows = action_rows.of_plan(made, prepared.labels, prepared.verdict) if does else ()
    notes = plan_lines.noted(made.notes, target, long=long is not None, with_unmet=bool(made.actions))
    return Block(
        columns=PLANNED if long is None else long.columns,
        rows=tuple(row.cells for row in rows) if long is None else long.rows,
        after=(
            *(f'{INDENT}{line}' for line in (*notes, *marks.of_verdict(prepared.verdict, prepared.labels))),
            f'{target}: {_planned(prepared, verb, lasts)}',
        ),
    )


def _planned(prepared: PreparedPlan, verb: Verb, lasts: timedelta | None) -> str:
    """The line that sums up a plan."""
    made = prepared.made
    counts = action_rows.counts(made.actions)
    if made.refusals:
        return f'refused, so nothing is done ({counts} planned; {LONG_HINT})'
    if made.actions:
        return f'{counts}; {action_rows.host(made.actions)}; {action_rows.about(lasts)}'
    if prepared.unmet:
        return f'nothing to do, but {verdict_lines.not_wanted(len(prepared.unmet))}'
    return f'nothing to do: {_holds(verb, of_some=prepared.devices is not None)}'


def _holds(verb: Verb, *, of_some: bool) -> str:
    match verb:
        case Verb.APPLY:
            return f'the named devices are {verdict_lines.AS_WANTED}' if of_some else verdict_lines.AS_WANTED
        case Verb.PROGRAM:
            return 'the slots hold these functions already'
        case Verb.LOCK:
            return 'every lock that the baseline demands is engaged'
        case Verb.UNLOCK:
            return 'no lock is engaged that would be released'
        case _:
            assert_never(verb)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """A job that has ended, with what people want to know of it.

    :ivar outcome: ``done``, ``not-met``, ``refused`` or ``failed``.
    :ivar verdict: the last verdict; None where the job ended before it was made.
    :ivar power: the power of the host, as it was read or set last.
    :ivar took: how long the job ran; None where it was interrupted and resumed.
    :ivar made: the plan of the job; None where it was resumed.
    :ivar notes: what BMCs report about parts of bundles that no action names.
    """

    job: Job
    verb: Verb
    outcome: str
    labels: Mapping[AcceleratorId, str]
    verdict: Verdict | None
    power: PowerState | None
    took: timedelta | None
    made: Plan | None
    notes: tuple[str, ...]
    is_whole: bool


def of_job(ended: EndedJob, target: str, long: LongTable | None) -> Block:
    """The block of a job that has ended. Its progress, and its error, were printed already."""
    rows = action_rows.of_job(ended.job.items, ended.labels)
    left = () if ended.made is None else [n for n in ended.made.notes if isinstance(n.content, _LEFT)]
    weaker = () if ended.verdict is None else marks.of_verdict(ended.verdict, ended.labels)
    return Block(
        columns=ENDED if long is None else long.columns,
        rows=tuple(row.cells for row in rows) if long is None else long.rows,
        after=(
            *(f'{INDENT}{line}' for line in plan_lines.noted(left, target, long=long is not None, with_unmet=False)),
            *(f'{INDENT}note: {line}' for line in ended.notes),
            *(f'{INDENT}{line}' for line in weaker),
            f'{target}: {_ended(ended)}',
        ),
    )


def _ended(ended: EndedJob) -> str:
    """The line that sums up a job."""
    parts = [f'{ended.outcome.replace("-", " ")}: {action_rows.counts_done(ended.job.items)}']
    if ended.power is not None:
        parts.append(f'host {ended.power.lower()}')
    if ended.took is not None:
        parts.append(f'took {action_rows.lasted(ended.took)}')
    if ended.outcome == 'done' and ended.verb is Verb.APPLY:
        parts.append(_holds(Verb.APPLY, of_some=not ended.is_whole))
    return '; '.join(parts)

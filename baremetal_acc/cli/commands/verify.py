# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc verify``: compare the firmware, functions and locks of targets with the baseline, read-only."""

import argparse
from dataclasses import dataclass
from typing import Any

from baremetal_acc.cli import exits, plan_builder, session, target_verdict
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.output.layout import INDENT, Block
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed, is_for_people
from baremetal_acc.cli.output.results import tell_what_is_relaxed, warn_of_waivers
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, NotMet
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning.verify import note_unseen_firmware
from baremetal_acc.render import findings, marks, plan_lines, verdict_lines
from baremetal_acc.render import notes as notes_in_words

COLUMNS = ('Target', 'Device', 'Subject', 'Expected', 'Found', 'Met', 'Rule')


class VerifyCommand(ReportCommand):
    """Check targets against the baseline: firmware, functions, locks, and vanished cards. Writes nothing to a BMC.

    Exit code 0: every demand is met; 3: a demand is not met, or could not be checked.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets and output."""
        session.add_arguments(parser, writes=False)
        parser.add_argument('--long', action='store_true', help='print also the demands that are met (table)')
        parser.add_argument('--unmet', action='store_true', help='print only findings that are not met (table, csv and value)')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Verify every target."""
        using = session.begin(arguments, writes=False)
        tools = using.tools()
        targets = {e.name: using.attempt(e) for e in using.entries}

        def one(entry: TargetEntry) -> _Verified:
            found = target_verdict.judged(using, entry, tools, targets[entry.name])
            opened = plan_builder.opened_notes(found.state.anew, found.inventory)
            notes = (*opened, *note_unseen_firmware(found.inventory, tools.baseline, found.target.node))
            return _Verified(verdict=found.verdict, labels=target_verdict.labels(found.inventory), notes=notes)

        bodies, codes, blocks = [], [], []
        for entry, found in each(using.entries, one):
            if isinstance(found, AccError):
                bodies.append({'target': entry.name, **documents.NO_VERDICT, 'error': documents.failure(found)})
                codes.append(failed(entry.name, found))
                continue
            body = {'target': entry.name, **documents.verdict(found.verdict), 'error': None}
            bodies.append(body)
            codes.append(Exit.HOLDS if found.verdict.met else Exit.NOT_MET)
            if is_for_people(arguments):
                rows = _rows(body, unmet=arguments.unmet) if arguments.long else []
                blocks.append(_block(entry.name, found, tuple(row[1:] for row in rows), long=arguments.long))
            else:
                _say(entry, found, in_table=arguments.unmet)
        if is_for_people(arguments) and len(bodies) > 1:
            blocks.append(Block(after=(_total(bodies),)))
        return Report(
            document=documents.document(bodies),
            columns=COLUMNS,
            rows=tuple(row for body in bodies for row in _rows(body, unmet=arguments.unmet)),
            code=exits.worst(codes),
            blocks=tuple(blocks),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verified:
    """The verdict on a target, the labels of its devices, and notes."""

    verdict: Verdict
    labels: dict[AcceleratorId, str]
    notes: tuple[Note, ...]


def _block(target: str, found: _Verified, rows: tuple[tuple[Any, ...], ...], *, long: bool) -> Block:
    """The report for people: the result, each finding that is not met, what is marked, and notes.

    :param rows: the demands in a table, for ``--long``.
    """
    unmet = (
        f'{INDENT * depth}{line}'
        for sentence, parts in verdict_lines.unmet(found.verdict.unmet)
        for depth, line in ((1, sentence), *((2, part) for part in parts))
    )
    notes = plan_lines.noted(found.notes, target, long=long, with_unmet=True)
    more = (*marks.of_verdict(found.verdict, found.labels), *notes)
    return Block(
        before=(f'{target}: {verdict_lines.result(found.verdict)}', *unmet, *(f'{INDENT}{line}' for line in more)),
        columns=COLUMNS[1:],
        rows=rows,
    )


def _total(bodies: list[dict[str, Any]]) -> str:
    """The line that counts the results of several targets."""
    met, failed_ones = sum(body['met'] for body in bodies), sum(body['error'] is not None for body in bodies)
    parts = (f'{met} {verdict_lines.AS_WANTED}', f'{len(bodies) - met - failed_ones} not', f'{failed_ones} with an error')
    return f'{len(bodies)} targets: {", ".join(parts)}'


def _say(entry: TargetEntry, found: _Verified, *, in_table: bool) -> None:
    """Print on standard error what people want to know next to rows or a document for tools."""
    if not found.verdict.met:
        failed(entry.name, _not_met(found.verdict, in_table=in_table))
    warn_of_waivers(entry, found.verdict)
    tell_what_is_relaxed(entry, found.verdict)
    for note in found.notes:
        text.note(f'{entry.name}: {note.label}: {notes_in_words.text(note.content)}')


def _not_met(verdict: Verdict, *, in_table: bool) -> NotMet:
    """The error for a verdict that is not met.

    :param in_table: the table prints only what is not met, so the message names the first finding and the number of findings.
    """
    reasons = [findings.sentence(f) for f in verdict.unmet]
    if in_table and len(reasons) > 1:
        reasons = [f'{len(reasons)} findings; the first: {reasons[0]}']
    return NotMet(reasons)


def _rows(body: dict[str, Any], *, unmet: bool) -> list[tuple[Any, ...]]:
    return [
        (body['target'], f['device'], f['subject'], f['expected'], f['found'], 'yes' if f['met'] else 'NO', f['rule'])
        for f in body['findings']
        if not (unmet and f['met'])
    ]

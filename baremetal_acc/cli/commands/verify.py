# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc verify``: compare the firmware, functions and locks of targets with the baseline, read-only."""

import argparse
from typing import Any

from baremetal_acc.cli import exits, plan_builder, session, target_verdict
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed
from baremetal_acc.cli.output.results import tell_what_is_relaxed, warn_of_waivers
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, NotMet
from baremetal_acc.model.note import Note
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning.verify import note_unseen_firmware
from baremetal_acc.render import findings
from baremetal_acc.render import notes as notes_in_words

COLUMNS = ('Target', 'Device', 'Subject', 'Expected', 'Found', 'Met', 'Rule')


class VerifyCommand(ReportCommand):
    """Check targets against the baseline: firmware, functions, locks, and vanished cards. Writes nothing to a BMC.

    Exit code 0: every demand is met; 3: a demand is not met, or could not be checked.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets and output."""
        session.add_arguments(parser, writes=False)
        parser.add_argument('--unmet', action='store_true', help='print only findings that are not met (table, csv and value)')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Verify every target."""
        using = session.begin(arguments, writes=False)
        tools = using.tools()
        targets = {e.name: using.attempt(e) for e in using.entries}

        def one(entry: TargetEntry) -> tuple[Verdict, tuple[Note, ...]]:
            found = target_verdict.judged(using, entry, tools, targets[entry.name])
            opened = plan_builder.opened_notes(found.state.anew, found.inventory)
            return found.verdict, (*opened, *note_unseen_firmware(found.inventory, tools.baseline, found.target.node))

        bodies, codes = [], []
        for entry, found in each(using.entries, one):
            if isinstance(found, AccError):
                bodies.append({'target': entry.name, **documents.NO_VERDICT, 'error': documents.failure(found)})
                codes.append(failed(entry.name, found))
            else:
                verdict, notes = found
                bodies.append({'target': entry.name, **documents.verdict(verdict), 'error': None})
                codes.append(Exit.HOLDS if verdict.met else failed(entry.name, _not_met(verdict, in_table=arguments.unmet)))
                warn_of_waivers(entry, verdict)
                tell_what_is_relaxed(entry, verdict)
                for note in notes:
                    text.note(f'{entry.name}: {note.label}: {notes_in_words.text(note.content)}')
        return Report(
            document=documents.document(bodies),
            columns=COLUMNS,
            rows=tuple(row for body in bodies for row in _rows(body, unmet=arguments.unmet)),
            code=exits.worst(codes),
        )


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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc history``: print what was done to targets, when, by whom and with which result. Contacts no BMC."""

import argparse
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from baremetal_acc.cli import exits, session
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.history import MOST, HistoryAction, HistoryEntry
from baremetal_acc.cli.output import documents, stored_blocks
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed, is_for_people
from baremetal_acc.cli.output.stored_blocks import shown
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, UsageError

COLUMNS = ('Target', 'Begun', 'Ended', 'Command', 'By', 'Result', 'What')

_MOST_LINES = 4
"""Lines of a cell of the table: the document has all actions and reasons."""


class HistoryCommand(ReportCommand):
    """Print what was done to targets, when, by whom, and with which result, the newest first. Contacts no BMC.

    Prints one entry for each job that has ended, and for each power on, power off and custody accept. The entries are stored on
    this machine, the last 200 of each target. Exit code 0: printed.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets and the number of entries."""
        session.add_arguments(parser, writes=False, documents=False)
        parser.add_argument(
            '--last', type=int, metavar='NUMBER', help=f'only that many entries of each target (default: all, at most {MOST})'
        )

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read the histories, and print them."""
        last = arguments.last
        if last is not None and last < 1:
            raise UsageError(argument='--last', what='must be 1 or more', hint='say how many entries to print')
        using = session.begin(arguments, writes=False)

        def one(entry: TargetEntry) -> tuple[HistoryEntry, ...]:
            return using.store.history(entry.name)[::-1][:last]

        bodies, codes = [], []
        for entry, found in each(using.entries, one):
            error = found if isinstance(found, AccError) else None
            entries = () if isinstance(found, AccError) else found
            bodies.append({'target': entry.name, 'entries': [document(e) for e in entries], 'error': documents.failure(error)})
            codes.append(Exit.HOLDS if error is None else failed(entry.name, error))
        return Report(
            document=documents.document(bodies),
            columns=COLUMNS,
            rows=tuple(row for body in bodies for row in _rows(body)),
            code=exits.worst(codes),
            blocks=tuple(stored_blocks.of_history(body, named=len(bodies) > 1) for body in bodies)
            if is_for_people(arguments)
            else None,
        )


def document(entry: HistoryEntry) -> dict[str, Any]:
    """An entry as it is printed in a document."""
    return {
        'id': entry.id,
        'command': entry.command,
        'by': entry.by,
        'begun': entry.begun.isoformat(),
        'ended': _time(entry.ended),
        'outcome': entry.outcome,
        'verified': _time(entry.verified),
        'met': entry.met,
        'reasons': list(entry.reasons),
        'actions': [_action(a) for a in entry.actions],
        'more': entry.more,
    }


def _action(action: HistoryAction) -> dict[str, Any]:
    return {
        'action': action.kind,
        'device': action.device,
        'subject': action.subject,
        'from': action.before,
        'to': action.after,
        'state': action.state,
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _rows(body: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
    for entry in body['entries']:
        lines = [*entry['reasons'], *(_line(a) for a in entry['actions'])]
        left = len(lines) - _MOST_LINES + entry['more']
        if left > 0:
            lines = [*lines[:_MOST_LINES], f'and {left} more, in -f json']
        yield (
            body['target'],
            shown(entry['begun']),
            shown(entry['ended']),
            entry['command'],
            entry['by'],
            entry['outcome'],
            tuple(lines),
        )


def _line(action: dict[str, Any]) -> str:
    change = ' -> '.join(filter(None, (action['from'], action['to'])))
    words = ' '.join(filter(None, (action['action'], action['subject'])))
    of = '' if action['device'] is None else f' of {action["device"]}'
    return f'{words}{of}{": " if change else ""}{change} ({action["state"]})'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc status``: print what is stored of targets: jobs, quarantines, open locks, custody. Contacts no BMC."""

import argparse
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from baremetal_acc import execution
from baremetal_acc.cli import exits, session, target_verdict
from baremetal_acc.cli.commands import history
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.history import HistoryEntry
from baremetal_acc.cli.output import documents, stored_blocks, text
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed, is_for_people
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.state import TargetState
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, StateError
from baremetal_acc.model.action import Engage, Release
from baremetal_acc.model.custody import CardCustody, Origin
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.planning import custody
from baremetal_acc.render import custody as custody_words
from baremetal_acc.render import findings

COLUMNS = ('Target', 'What', 'Device', 'Is', 'Since', 'Until')

Json = dict[str, Any]

_NOTHING: Json = {
    'lifecycle': None,
    'job': None,
    'quarantined': [],
    'open_locks': [],
    'custody': [],
    'waivers': [],
    'verified': None,
    'last': None,
}


class StatusCommand(ReportCommand):
    """Print what is stored of targets: unfinished jobs, quarantined cards, open locks, custody, waivers. Contacts no BMC.

    The facts are those of the last commands that read the target; verify reads it now. Exit code 0: nothing needs attention; 3:
    a job is unfinished, a card is quarantined, or locks were left open.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets."""
        session.add_arguments(parser, writes=False, documents=False)

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read the stored states, and print them."""
        using = session.begin(arguments, writes=False)
        now = datetime.now(UTC)

        def one(entry: TargetEntry) -> Json:
            return document(using.store.read(entry.name), using.store.history(entry.name), now)

        bodies, codes = [], []
        for entry, found in each(using.entries, one):
            if isinstance(found, AccError):
                bodies.append({'target': entry.name, **_NOTHING, 'error': documents.failure(found)})
                codes.append(failed(entry.name, found))
            else:
                bodies.append({'target': entry.name, **found, 'error': None})
                wanting = found['job'] or found['quarantined'] or found['open_locks']
                codes.append(Exit.NOT_MET if wanting else Exit.HOLDS)
        if not arguments.names and not arguments.target and not arguments.address:
            _note_others(using)
        return Report(
            document=documents.document(bodies),
            columns=COLUMNS,
            rows=tuple((body['target'], *row) for body in bodies for row in _rows(body)),
            code=exits.worst(codes),
            blocks=tuple(map(stored_blocks.of_status, bodies)) if is_for_people(arguments) else None,
        )


def _note_others(using: Session) -> None:
    """Name the targets of which a state is stored, and which the list does not have."""
    try:
        others = sorted(set(using.store.names()) - {e.name for e in using.entries})
    except StateError:
        return  # the error of each target says so
    if others:
        text.note(f'the state of targets that the list does not have is stored, too: {", ".join(others)}')


def document(state: TargetState, entries: tuple[HistoryEntry, ...], now: datetime) -> Json:
    """What is stored of a target, as it is printed in a document.

    :param entries: its history, the oldest entry first.
    """
    job = state.unfinished
    verified = next((e for e in reversed(entries) if e.met is not None), None)
    return {
        'lifecycle': state.lifecycle,
        'job': None if job is None else _job(job),
        'quarantined': [
            {'accelerator': mark.device, 'since': mark.since.isoformat(), 'why': mark.why, 'firmware': mark.firmware}
            for mark in state.quarantined
        ],
        'open_locks': [*_unlocked(state), *_open(state)],
        'custody': [_card(card, now) for card in state.custody.cards],
        'waivers': list(_waivers(state, now)),
        'verified': None
        if verified is None
        else {'at': None if verified.verified is None else verified.verified.isoformat(), 'met': verified.met},
        'last': history.document(entries[-1]) if entries else None,
    }


def _job(job: Job) -> Json:
    return {
        'id': job.id,
        'command': job.step,
        'stage': execution.doing(job),
        'since': job.created.isoformat(),
        'deadline': job.deadline.isoformat(),
        'by': job.requester,
        'next': target_verdict.goes_on(job),
    }


def _unlocked(state: TargetState) -> Iterator[Json]:
    for mark in state.unlocked:
        yield {'accelerator': mark.accelerator, 'since': mark.at.isoformat(), 'what': 'unlocked on purpose'}


def _open(state: TargetState) -> Iterator[Json]:
    """The locks that the last job has left open, or that an unfinished job has released and not engaged yet."""
    job = state.job
    if job is None or job.step == 'unlock':
        return  # an unlock has marks of its own
    if job.ended:
        since = max((card.seen.at for card in job.custody.cards if card.seen is not None), default=None)
        for finding in () if job.verdict is None else execution.unprotected(job.verdict):
            yield {
                'accelerator': finding.accelerator,
                'since': None if since is None else since.isoformat(),
                'what': findings.sentence(finding),
            }
        return
    closed = {(i.action.ref, i.action.field) for i in job.items if isinstance(i.action, Engage) and i.state is ItemState.DONE}
    for item in job.items:
        action = item.action
        if isinstance(action, Release) and item.state.begun and (action.ref, action.field) not in closed:
            what = f'{action.mechanism} at {action.ref} was released by the unfinished job'
            yield {'accelerator': action.accelerator, 'since': item.since.isoformat(), 'what': what}


def _card(card: CardCustody, now: datetime) -> Json:
    chain = card.chain
    holds = custody.holds(card, now)
    broken = None if chain is None else chain.broken
    accepted = chain is not None and chain.origin is Origin.ACCEPTED
    return {
        'accelerator': card.accelerator,
        'custody': 'in' if holds else 'unknown' if chain is None and card.writing is None else 'out',
        'origin': None if chain is None else chain.origin.value,
        'begun': None if chain is None else chain.begun.isoformat(),
        'reaches': None if chain is None else chain.reaches.isoformat(),
        'broken': None if broken is None else broken.cause.value,
        'accepted_by': ', '.join(chain.by) if chain is not None and accepted else None,
        'until': None if chain is None or chain.until is None else chain.until.isoformat(),
        'reason': None if chain is None else chain.reason,
        'text': custody_words.explain(card, now),
    }


def _waivers(state: TargetState, now: datetime) -> Iterator[Json]:
    """The waivers that the last verification of a job used, and that have not ended."""
    verdict = None if state.job is None else state.job.verdict
    for waived in () if verdict is None else verdict.waived:
        if now < waived.expires:
            yield {
                'accelerator': waived.accelerator,
                'device': waived.label,
                'path': waived.path.value,
                'rule': waived.rule,
                'by': waived.role,
                'reason': waived.reason,
                'until': waived.expires.isoformat(),
            }


def _rows(body: Json) -> Iterable[tuple[Any, ...]]:
    shown = stored_blocks.shown
    job, verified, last = body['job'], body['verified'], body['last']
    if job is not None:
        yield 'unfinished job', None, (f'{job["command"]}: {job["stage"]}', job['next']), shown(job['since']), None
    for mark in body['quarantined']:
        yield 'quarantine', mark['accelerator'], mark['why'], shown(mark['since']), None
    for lock in body['open_locks']:
        yield 'open lock', lock['accelerator'], lock['what'], shown(lock['since']), None
    for waiver in body['waivers']:
        what = f'{waiver["path"]}: {waiver["by"]} ({waiver["reason"]})'
        yield 'waiver', waiver['device'], what, None, shown(waiver['until'])
    for card in body['custody']:
        yield 'custody', card['accelerator'], f'{card["custody"]}: {card["text"]}', shown(card['begun']), shown(card['until'])
    if verified is not None:
        yield 'last verification', None, 'met' if verified['met'] else 'not met', shown(verified['at']), None
    if last is not None:
        yield 'last command', None, f'{last["command"]}: {last["outcome"]}', shown(last['begun']), shown(last['ended'])

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The history of a target: one entry for each job that ended, and for each other command that changed the target.

Entries have a limited size. Of each target the last :data:`MOST` are stored, by
:class:`~baremetal_acc.cli.state.TargetStore`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.cli.output import documents
from baremetal_acc.model.action import Engage, Flash, Program, Release, Reset, RestoreSetting, SetCardSetting
from baremetal_acc.model.job import Job
from baremetal_acc.model.ref import AcceleratorId

FORMAT = 1

MOST = 200
"""Entries that are stored of each target. With one job a day that is half a year."""

_MOST_ACTIONS = 100
_MOST_REASONS = 10
_CHARACTERS = 300
"""Limits of one entry: the texts come from BMCs."""

LONGEST_ENTRY = 4000
"""Most characters of the reason of an entry that has no other texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAction:
    """One change of a job.

    :ivar kind: the word for the action in the documents of ``apply``, such as ``flash``.
    :ivar device: label of the device, or ``BMC NAME`` for a lock of a whole machine; None for a reset.
    :ivar subject: the component, slot, lock mechanism or purpose of the reset.
    :ivar before: the version or value that was there; ``after`` the one that was to be there.
    :ivar state: the state of the action at the end of the job.
    """

    kind: str
    device: str | None
    subject: str | None
    before: str | None
    after: str | None
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """What was done to a target, when, by whom, and with which result.

    :ivar id: id of the job; unique for each entry.
    :ivar command: the command that began it, such as ``apply``.
    :ivar by: the user who began it, as far as it is known.
    :ivar ended: None where a release before this history existed ended the job: it stored no time.
    :ivar outcome: as in the document of the command: ``done``, ``not-met``, ``refused`` or ``failed``.
    :ivar verified: time of the final verification, UTC; None if there was none.
    :ivar met: whether that verification met every demand.
    :ivar reasons: why the result is not ``done``; or the reason that an operator gave.
    :ivar more: how many further actions and reasons the entry has no room for.
    """

    id: str
    target: str
    command: str
    begun: datetime
    ended: datetime | None
    outcome: str
    by: str | None = None
    verified: datetime | None = None
    met: bool | None = None
    reasons: tuple[str, ...] = ()
    actions: tuple[HistoryAction, ...] = ()
    more: int = 0
    format: int = FORMAT


def of_job(
    job: Job,
    outcome: str,
    ended: datetime | None,
    *,
    labels: Mapping[AcceleratorId, str],
    reasons: tuple[str, ...] = (),
    verified: datetime | None = None,
) -> HistoryEntry:
    """The entry of a job that has ended.

    :param labels: labels of the devices, by id.
    :param verified: time of the final verification.
    """
    changes = [
        i
        for i in job.items
        if isinstance(i.action, Engage | Flash | Program | Release | Reset | RestoreSetting | SetCardSetting)
    ]
    shown = [(i, documents.action(i.action, labels)) for i in changes[:_MOST_ACTIONS]]
    return HistoryEntry(
        id=job.id,
        target=job.target,
        command=job.step,
        begun=job.created,
        ended=ended,
        outcome=outcome,
        by=job.requester,
        verified=verified,
        met=None if job.verdict is None else job.verdict.met,
        reasons=tuple(_short(reason) for reason in reasons[:_MOST_REASONS]),
        actions=tuple(
            HistoryAction(
                kind=body['action'],
                device=body['device'] or body['accelerator'],
                subject=body['subject'],
                before=None if body['from'] is None else _short(str(body['from'])),
                after=None if body['to'] is None else _short(str(body['to'])),
                state=i.state.value,
            )
            for i, body in shown
        ),
        more=max(0, len(changes) - _MOST_ACTIONS) + max(0, len(reasons) - _MOST_REASONS),
    )


def of_stored(job: Job) -> HistoryEntry:
    """The entry of a job that a release before this history existed has ended, from what it stored."""
    is_met = job.verdict is None or job.verdict.met
    outcome = 'failed' if job.reasons else 'done' if is_met else 'not-met'
    readings = [card.seen.at for card in job.custody.cards if card.seen is not None]
    verified = max(readings, default=None) if job.verdict is not None else None
    return of_job(job, outcome, None, labels={}, reasons=job.reasons, verified=verified)


def _short(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f'{text[:_CHARACTERS]}...'

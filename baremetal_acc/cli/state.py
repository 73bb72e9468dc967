# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The state of each target that the command line stores between runs, in SQLite: its job, engaged locks and custody."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from baremetal_acc.cli.history import FORMAT as HISTORY_FORMAT
from baremetal_acc.cli.history import MOST, HistoryEntry, of_stored
from baremetal_acc.errors import StaleJob
from baremetal_acc.execution.lifecycle import Remembered
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import NO_CUSTODY, Custody
from baremetal_acc.model.job import FORMAT as JOB_FORMAT
from baremetal_acc.model.job import Job
from baremetal_acc.model.lock import Engagement, LockUndoRecord
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.state_file import Earlier, StateFile

FORMAT = 1

_STORED_AS = {'device': 'accelerator', 'since': 'at'}
"""Fields of a quarantine that have other names in the stored document."""

_TABLES = 'CREATE TABLE target (name TEXT PRIMARY KEY, state BLOB NOT NULL)'
_REMEMBER = 'INSERT OR REPLACE INTO target (name, state) VALUES (?, ?)'

_HISTORY = 'CREATE TABLE IF NOT EXISTS history (id TEXT PRIMARY KEY, target TEXT NOT NULL, entry BLOB NOT NULL)'
"""Made with the first entry, so that releases without a history still read the database: they ignore the table."""

_HAS_HISTORY = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'history'"
_OLD = (
    'DELETE FROM history WHERE target = ? AND rowid NOT IN '
    '(SELECT rowid FROM history WHERE target = ? ORDER BY rowid DESC LIMIT ?)'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlocked:
    """The mark of a device that was unlocked on purpose: verification is not met until we have locked the device again."""

    accelerator: AcceleratorId
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState(Remembered):
    """The stored state of one target, as the command line keeps it.

    :class:`~baremetal_acc.execution.lifecycle.Remembered` has the fields that are stored for Ironic's nodes, too.
    ``--new-lifecycle`` increments the lifecycle.

    :ivar unlocked: devices that were unlocked on purpose.
    :ivar accepted: custody of the cards before there is a job; afterwards the job holds it.
    """

    target: str
    format: int = FORMAT
    unlocked: tuple[Unlocked, ...] = ()
    accepted: Custody = NO_CUSTODY

    @property
    def engagements(self) -> tuple[Engagement, ...]:
        """The locks that we engaged, in any lifecycle; each job takes over those of the job before it."""
        return () if self.job is None else self.job.engagements

    @property
    def undos(self) -> tuple[LockUndoRecord, ...]:
        """The records of what we closed and have not opened again; each job takes over those of the job before it."""
        return () if self.job is None else self.job.undos

    @property
    def custody(self) -> Custody:
        """The custody of the target's cards up to the last reading; each job continues that of the job before it."""
        return self.accepted if self.job is None else self.job.custody

    def with_custody(self, kept: Custody) -> 'TargetState':
        """The state with another custody. Only for a target without an unfinished job."""
        return replace(self, accepted=kept) if self.job is None else replace(self, job=replace(self.job, custody=kept))

    @property
    def unfinished(self) -> Job | None:
        """The job that a killed run left behind, or None."""
        return self.job if self.job is not None and not self.job.ended else None


def folder(environ: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/baremetal-acc``. Source: XDG Base Directory Specification 0.8."""
    named = environ.get('XDG_STATE_HOME', '')
    base = Path(named) if named.startswith('/') else Path(environ.get('HOME') or '/') / '.local' / 'state'
    return base / 'baremetal-acc'


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStore:
    """The stored states of targets: an SQLite database in one folder, next to the lock files of targets and BMCs."""

    root: Path

    def check(self) -> None:
        """Check that no other user may write the database, if there is one.

        :raises StateError: other users may.
        """
        self._file().prepare()

    def read(self, target: str) -> TargetState:
        """The stored state of a target; an empty state for a new target.

        :raises StaleJob: the stored state is of another version, of another target, or damaged.
        :raises StateError: the database cannot be read.
        """
        rows = self._file().select('SELECT state FROM target WHERE name = ?', target)
        return self._decoded(rows[0][0], target) if rows else TargetState(target=target)

    def jobs(self, most: int) -> Iterator[Job]:
        """The stored jobs of all targets, as far as they can be read, those of the targets that were written last first.

        :param most: limit of the jobs.
        :raises StateError: the database cannot be read.
        """
        for name, data in self._file().select('SELECT name, state FROM target ORDER BY rowid DESC LIMIT ?', most):
            try:
                job = self._decoded(data, name).job
            except StaleJob:
                continue
            if job is not None:
                yield job

    def write(self, state: TargetState, entry: HistoryEntry | None = None) -> None:
        """Store a state atomically: a reader sees the old state or the new one, also if this process dies.

        :param entry: is added to the history of the target in the same transaction.
        :raises StateError: the state could not be stored; then nothing may be written to a BMC either.
        """
        raw = encode(state)
        raw['quarantined'] = [{_STORED_AS.get(name, name): held for name, held in one.items()} for one in raw['quarantined']]
        data = json.dumps(raw).encode()
        with self._file().writing() as db:
            db.execute(_REMEMBER, (state.target, data))
            if entry is not None:
                db.execute(_HISTORY)
                db.execute('INSERT OR REPLACE INTO history VALUES (?, ?, ?)', _row(entry))
                db.execute(_OLD, (state.target, state.target, MOST))

    def history(self, target: str) -> tuple[HistoryEntry, ...]:
        """The history of a target, the oldest entry first; of a state without one, the job that was stored last.

        :raises StaleJob: an entry, or the stored state, is of another version, or damaged.
        :raises StateError: the database cannot be read.
        """
        file = self._file()
        select = 'SELECT id, entry FROM history WHERE target = ? ORDER BY rowid'
        rows = file.select(select, target) if file.select(_HAS_HISTORY) else []
        entries = tuple(self._entry(target, name, data) for name, data in rows)
        job = self.read(target).job
        if job is None or not job.ended or any(e.id == job.id for e in entries):
            return entries
        return (*(e for e in entries if e.begun < job.created), of_stored(job), *(e for e in entries if e.begun >= job.created))

    def names(self) -> tuple[str, ...]:
        """The targets of which a state is stored, sorted.

        :raises StateError: the database cannot be read.
        """
        return tuple(name for (name,) in self._file().select('SELECT name FROM target ORDER BY name'))

    def alone(self, target: str) -> AbstractContextManager[None]:
        """Hold the lock of a target, so that no other process works on it. The system frees the lock when the process ends.

        :raises Refused: another process holds it, when the context is entered.
        """
        return self._held(target, f'{target}: {{}} is working on it')

    @contextmanager
    def alone_at(self, target: str, places: Mapping[str, str]) -> Iterator[None]:
        """Hold the locks of BMCs, so that no other process works on them under another name of the target or the BMC.

        :param places: the endpoints of the BMCs, which are the same for the same BMC, each with the address that messages name.
        :raises Refused: another process holds one.
        """
        with ExitStack() as stack:
            for place, address in sorted(places.items()):
                name = f'bmc-{hashlib.sha256(place.encode()).hexdigest()[:32]}'
                stack.enter_context(self._held(name, f'{target}: {{}} is working on its BMC {address} under another name'))
            yield

    def _entry(self, target: str, name: str, data: bytes) -> HistoryEntry:
        what = f'{self._path}: entry {name} of the history of {target} cannot be used'
        hint = f'delete it: sqlite3 {self._path} "DELETE FROM history WHERE id = \'{name}\'"'  # noqa: S608 - for people
        try:
            raw = json.loads(data)
            if not isinstance(raw, dict) or raw.get('format') != HISTORY_FORMAT:
                raise StaleJob('unknown format')
            return decode(HistoryEntry, raw)
        except (ValueError, TypeError, AttributeError, RecursionError, StaleJob) as exc:
            raise StaleJob(f'{what}: {exc}', hint=f'if a newer version wrote it, use that version; otherwise {hint}') from None

    def forgetting(self, target: str) -> str:
        """The command that deletes the stored state of a target, for people."""
        return f'sqlite3 {self._path} "DELETE FROM target WHERE name = \'{target}\'"'  # noqa: S608

    @property
    def _path(self) -> Path:
        return self.root / 'state.sqlite'

    def _held(self, name: str, refusal: str) -> AbstractContextManager[None]:
        return self._file().alone(self.root / 'locks' / f'{name}.lock', refusal)

    def _file(self) -> StateFile:
        return StateFile(
            path=self._path,
            tables=_TABLES,
            risk='forge the evidence in it',
            lost=_lost(str(self._path)),
            elsewhere='set XDG_STATE_HOME to a folder that only you may write to',
            earlier=Earlier(
                at=self.root / 'jobs',
                documents=('jobs/*.json',),
                locks='locks/*.lock',
                # Taken over unread: the document is checked when its target is read.
                take=lambda db, path, data: db.execute(_REMEMBER, (path.stem, data)),
            ),
        )

    def _decoded(self, data: bytes, target: str) -> TargetState:
        """Decode the stored state of a target.

        :raises StaleJob: the document is of a newer version, of another target, or damaged.
        """
        what = f'{self._path}: the stored state of {target} cannot be used'
        lost = _lost(f'the state of {target}', f'delete it ({self.forgetting(target)})')
        try:
            raw = json.loads(data)
        except (ValueError, RecursionError) as exc:
            found = 'it is empty' if not data.strip() else f'it is not complete JSON: {exc}'
            raise StaleJob(f'{what}: {found}', hint=lost) from None
        newer = _newer(raw)
        if newer is not None:
            hint = 'use that version; do not delete it, an interrupted job may be in it'
            raise StaleJob(f'{what}: a newer version of baremetal-acc wrote it ({newer})', hint=hint)
        if not isinstance(raw, dict) or raw.get('format') != FORMAT:
            raise StaleJob(f'{what}: its format is not {FORMAT}', hint=lost)
        names = {stored: name for name, stored in _STORED_AS.items()}
        try:
            marks = [{names.get(name, name): held for name, held in one.items()} for one in raw.get('quarantined', ())]
            state = decode(TargetState, {**raw, 'quarantined': marks})
        except (ValueError, TypeError, AttributeError, RecursionError, StaleJob) as exc:
            hint = f'if a newer version of baremetal-acc wrote it, use that version; otherwise {lost}'
            raise StaleJob(f'{what}: {exc}', hint=hint) from None
        if state.target != target or (state.job is not None and state.job.format != JOB_FORMAT):
            raise StaleJob(f'{what}: it belongs to another target or version', hint=lost)
        return state


def _row(entry: HistoryEntry) -> tuple[str, str, bytes]:
    return entry.id, entry.target, json.dumps(encode(entry)).encode()


def _lost(what: str, away: str = 'move it away') -> str:
    return (
        f'restore {what} from a backup, or make sure that the BMC is not running an update (an interrupted job may have been '
        f'in it) and {away}; locks then count as verified only after they were engaged again, and every chain of custody '
        'begins again'
    )


def _newer(raw: object) -> str | None:
    """The format of a document, in words, where it is newer than ours; else None."""
    job = raw.get('job') if isinstance(raw, dict) else None
    for name, held, ours in (('format', raw, FORMAT), ('format of the job', job, JOB_FORMAT)):
        found = held.get('format') if isinstance(held, dict) else None
        if isinstance(found, int) and not isinstance(found, bool) and found > ours:
            return f'{name} {found}, this version reads {ours}'
    return None

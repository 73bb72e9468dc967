# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The state of a target that the command line keeps from one run to the next: its job, and what that proved."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from baremetal_acc import files
from baremetal_acc.errors import Refused, StaleJob, StateError
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import NO_CUSTODY, Custody
from baremetal_acc.model.job import FORMAT as JOB_FORMAT
from baremetal_acc.model.job import Job
from baremetal_acc.model.lock import Engagement, Undo
from baremetal_acc.model.ref import AcceleratorId, Ref

FORMAT = 1

MAX_SIZE = 4 * 1024 * 1024
"""Bytes. The job of a machine with sixteen cards takes about 100 KiB."""


ELSEWHERE = 'set XDG_STATE_HOME to a folder of yours'


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlocked:
    """The mark that an explicit unlock leaves: verification fails until we have locked the device again."""

    accelerator: AcceleratorId
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """The mark of a device that could not be put back: not met, and not offered, until ``apply`` has written it well.

    :ivar why: device, what it showed and what to do, as the job said it.
    :ivar firmware: its firmware is not to be trusted; False: only a slot's function is not.
    :ivar refs: what was written to: whatever stands there later is quarantined, too, however it calls itself.
    :ivar anew: what of it has to be written well, if the device shows it still.
    """

    accelerator: AcceleratorId
    at: datetime
    why: str
    firmware: bool = True
    refs: tuple[Ref, ...] = ()
    anew: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """What is remembered of one target.

    :ivar lifecycle: raised by ``--new-lifecycle``: what was proven in an earlier one counts for nothing.
    :ivar known: devices that were there when everything held last; one that has vanished is not met.
    :ivar unlocked: devices that were unlocked on purpose.
    :ivar quarantined: devices that nobody may use.
    :ivar job: the last job, ended or not.
    :ivar accepted: custody that was accepted before there was a job.
    """

    target: str
    format: int = FORMAT
    lifecycle: int = 1
    known: tuple[AcceleratorId, ...] = ()
    unlocked: tuple[Unlocked, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    job: Job | None = None
    accepted: Custody = NO_CUSTODY

    @property
    def engagements(self) -> tuple[Engagement, ...]:
        """The locks that we engaged, in any lifecycle; a job takes over those of the job before it."""
        return () if self.job is None else self.job.engagements

    @property
    def undos(self) -> tuple[Undo, ...]:
        """What we have closed and not opened again; a job takes that over from the job before it, too."""
        return () if self.job is None else self.job.undos

    @property
    def custody(self) -> Custody:
        """That of the target's cards, as far as it reaches; a job goes on with that of the job before it."""
        return self.accepted if self.job is None else self.job.custody

    def with_custody(self, kept: Custody) -> 'TargetState':
        """The state with another custody, while no job works."""
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
class Store:
    """Files of one folder, one for each target: written atomically, for the owner's eyes only."""

    JOBS: ClassVar[str] = 'jobs'
    LOCKS: ClassVar[str] = 'locks'

    root: Path

    def check(self) -> None:
        """Nobody else may write what is remembered; there may be nothing yet.

        :raises StateError: others may.
        """
        try:
            _check_folders(self.root)
        except FileNotFoundError:
            return
        except OSError as exc:
            raise StateError(f'{self.root}: cannot be read: {exc.strerror}', hint=hint_of(exc)) from exc

    def read(self, target: str) -> TargetState:
        """What is remembered of a target; a fresh state when it is new.

        :raises StaleJob: the file was written by another version, or by somebody else.
        """
        path = self.path(target)
        try:
            _check_folders(self.root, path.parent)
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as stream:
                found = os.fstat(stream.fileno())
                data = stream.read(MAX_SIZE + 1) if stat.S_ISREG(found.st_mode) else b''
        except FileNotFoundError:
            return TargetState(target=target)
        except OSError as exc:
            what = 'is a link' if exc.errno == errno.ELOOP else f'cannot be read: {exc.strerror}'
            raise StateError(f'{path}: {what}', hint=hint_of(exc)) from exc
        if files.others_may_write(found):
            hint = f'see who did, then move {path} away'
            raise StateError(f'{path}: others may write it, and could forge what was proven', hint=hint)
        return _decoded(path, data, target)

    def write(self, state: TargetState) -> None:
        """Store it so that a reader sees the old state or the new one, whatever happens to us.

        :raises StateError: it could not be stored; then nothing may be written to a BMC either.
        """
        path = self.path(state.target)
        data = json.dumps(encode(state), indent=1).encode()
        try:
            self._folder(path.parent)
            files.write(path, data)
        except OSError as exc:
            raise StateError(f'{path}: cannot be written: {exc.strerror}', hint=hint_of(exc)) from exc

    @contextmanager
    def alone(self, target: str) -> Iterator[None]:
        """Nobody else works on the target meanwhile. The system frees it with the process, however that ends.

        :raises Refused: somebody does.
        """
        with self._held(target, f'{target}: {{}} works on it'):
            yield

    @contextmanager
    def alone_at(self, target: str, places: Mapping[str, str]) -> Iterator[None]:
        """Nobody else works on these BMCs meanwhile, by whatever name he calls the target, or the BMC.

        :param places: all that a BMC may be called, the same for the same one, with the address that is told.
        :raises Refused: somebody does.
        """
        with ExitStack() as stack:
            for place, address in sorted(places.items()):
                name = f'bmc-{hashlib.sha256(place.encode()).hexdigest()[:32]}'
                stack.enter_context(self._held(name, f'{target}: {{}} works on its BMC {address} by another name of it'))
            yield

    @contextmanager
    def _held(self, name: str, refusal: str) -> Iterator[None]:
        path = self.root / self.LOCKS / f'{name}.lock'
        with ExitStack() as stack:
            try:
                self._folder(path.parent)
                stack.enter_context(files.alone(path))
            except files.Held as exc:
                raise Refused([refusal.format(exc.who)], hint='wait until it has ended') from None
            except OSError as exc:
                raise StateError(f'{path}: cannot be opened: {exc.strerror}', hint=hint_of(exc)) from exc
            yield

    def path(self, target: str) -> Path:
        """The file of a target."""
        return self.root / self.JOBS / f'{target}.json'

    def _folder(self, path: Path) -> None:
        for each in (self.root, path):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_folders(each)


def _decoded(path: Path, data: bytes, target: str) -> TargetState:
    """What a file says.

    :raises StaleJob: it is of a newer version, of another target, or no whole file of ours.
    """
    lost = (
        f'restore {path} from a backup, or see that the BMC works on no update (an interrupted job may have been in it) and '
        'move it away; locks then count as verified only after they were engaged again, and every chain of custody begins again'
    )
    try:
        raw = json.loads(data) if len(data) <= MAX_SIZE else None
    except (ValueError, RecursionError) as exc:
        what = 'it is empty' if not data.strip() else f'it is no whole JSON: {exc}'
        raise StaleJob(f'{path}: cannot be used: {what}', hint=lost) from None
    newer = _newer(raw)
    if newer is not None:
        hint = 'use that version; do not move the file away, an interrupted job may be in it'
        raise StaleJob(f'{path}: cannot be used: a newer version of baremetal-acc wrote it ({newer})', hint=hint)
    if not isinstance(raw, dict) or raw.get('format') != FORMAT:
        raise StaleJob(f'{path}: cannot be used: it has not the format {FORMAT}', hint=lost)
    try:
        state = decode(TargetState, raw)
    except (ValueError, RecursionError, StaleJob) as exc:
        raise StaleJob(f'{path}: cannot be used: {exc}', hint=lost) from None
    if state.target != target or (state.job is not None and state.job.format != JOB_FORMAT):
        raise StaleJob(f'{path}: belongs to another target or version', hint=lost)
    return state


def _newer(raw: object) -> str | None:
    """Which newer format than ours a file has, if it has one."""
    job = raw.get('job') if isinstance(raw, dict) else None
    for name, held, ours in (('format', raw, FORMAT), ('format of the job', job, JOB_FORMAT)):
        found = held.get('format') if isinstance(held, dict) else None
        if isinstance(found, int) and not isinstance(found, bool) and found > ours:
            return f'{name} {found}, this version reads {ours}'
    return None


def _check_folders(*folders: Path) -> None:
    """What stands there is ours alone.

    :raises StateError: others may write there.
    :raises OSError: there is none, or it cannot be asked for.
    """
    for folder in folders:
        if files.others_may_write(folder.stat()):
            hint = f'chmod 700 {folder}, or set XDG_STATE_HOME to a folder of yours'
            raise StateError(f'{folder}: others may write there, and could forge what was proven', hint=hint)


def hint_of(exc: OSError) -> str:
    """What to do about what cannot be written."""
    if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP):
        return ELSEWHERE
    # Another folder would begin with an empty memory, beside a job that may be writing.
    return 'see to that, then give the same command again'

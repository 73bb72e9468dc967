# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which demands lie in this folder? A small file for each, so that several processes can tell them and one can read them.

::

    FUNCTION-ASKER-ID.json   as digests: no id leads out of the folder, and to count them needs no reading
    .lock                    held by whoever writes; it holds how many demands were refused because there were too many

The same id told twice is one demand, and keeps its first time; once its function was schedulable, it can be told anew. When
the folder is full a new one is refused: none that lies there is lost. Those of one request are kept all or none; some of them
alone are no demand: what a writer has left that died, and what is left when one of them is dropped. Only files of the user who
runs this are read, and only those that nobody else may write.
"""

import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from baremetal_acc import files
from baremetal_acc.decide.demand import MOST_OF_A_REQUEST
from baremetal_acc.decide.pool import Demand
from baremetal_acc.decide.progress import Progress, Told, in_placement
from baremetal_acc.errors import DemandDiffers, DemandRefused, StaleJob, StateError, UsageError
from baremetal_acc.model.codec import decode, encode

LOG = logging.getLogger(__name__)

FORMAT = 1

MOST = 4000
"""Demands at a time. Reading as many takes a third of a second."""

MOST_OF_ONE = 2000
"""Demands for one function at a time, so that those for others find room."""

MOST_OF_AN_ASKER = 16
"""Demands of one asker for one function at a time. Whoever boots again each time that it fails tells a new one each time."""

LONGEST = 255
"""Characters of an id, of a function's name and of a resource class: what placement and Ironic take for a name."""

MAX_SIZE = 16384
"""Bytes of a file: four texts of 255 characters, each of twelve bytes as JSON escapes them, take 12 KiB."""

PROGRAMMING_LASTS = timedelta(hours=2)
"""How long a demand is remembered beyond its time while its function is being programmed, so that its end is reported. It is
what a job may take ([baremetal_acc] job_timeout)."""

FOREVER = timedelta(days=36500)
"""As how long somebody is taken to wait: nothing is forgotten."""

LOCK_SECONDS = 10.0
"""How long a writer waits for the others: each holds the lock for some milliseconds."""

_NAME = re.compile(r'(?P<function>[0-9a-f]{16})-(?P<asker>[0-9a-f]{16})-(?P<id>[0-9a-f]{32})\.json')
_LOCK = '.lock'
_NEW = '.new'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What a file holds."""

    format: int
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """A folder of demands.

    :ivar root: made when it is needed, for its owner alone.
    :ivar most: how many demands it takes at a time.
    :ivar most_of_one: how many of those for one function.
    :ivar most_of_an_asker: how many of those on behalf of one asker.
    """

    root: Path
    most: int = MOST
    most_of_one: int = MOST_OF_ONE
    most_of_an_asker: int = MOST_OF_AN_ASKER
    _reported: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _known: dict[str, tuple[tuple[int, ...], Told]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def put(self, demand: Demand, source: str = 'file', asker: str | None = None) -> bool:
        """Keep a demand.

        :param source: who told it.
        :param asker: on whose behalf: a project. None: the operator's, who may tell any number.
        :returns: whether it is new.
        :raises AccError: as :meth:`put_all`.
        """
        return self.put_all((demand,), source, asker)[1]

    def put_all(
        self, demands: Sequence[Demand], source: str = 'file', asker: str | None = None
    ) -> tuple[tuple[Demand, ...], bool]:
        """Keep all demands of one request, or none.

        :param demands: one at least.
        :returns: what is kept, and whether it is new. A request that waits stays as it is.
        :raises UsageError: one of their texts is no name, or they are more than are ever taken.
        :raises DemandRefused: there are too many.
        :raises DemandDiffers: their id is known as that of another request.
        :raises StateError: they could not be kept.
        """
        for demand in demands:
            _check_texts(demand, asker)
        new = [Told(demand=demand, source=source, since=demand.at, asker=asker) for demand in demands]
        if self._too_many(new, ()) is not None:
            raise UsageError(
                argument='id',
                what=f'{demands[0].request[0]}: asks for more at once than are ever taken',
                hint=f'{self.most} in all, {self.most_of_one} for one function, {self.most_of_an_asker} of one project for one',
            )
        with self._explained(), self._alone() as lock:
            names = self._names(orphans=True)
            known = self._known_as(demands, names)
            found = [t for t in known.values() if not _left(t, known, demands[0].request[0])]
            if not all(_over_before(t, demands[0].at) for t in found):
                kept = {t.demand.id: t.demand for t in found}
                if not _alike(kept.values(), demands):
                    raise _differs(demands[0], tuple(kept.values()))
                return tuple(kept[d.id] for d in demands), False
            there = [_parts(name) for name in names if name not in known]
            what = self._too_many(new, there)
            if what is None:
                for name in known:
                    (self.root / name).unlink(missing_ok=True)
                self._write_all(new)
                return tuple(demands), True
            _count(lock, len(new))
        raise DemandRefused(
            f'{self.root}: there are {what} already, and '
            + ('no more are taken' if len(new) == 1 else f'{len(new)} more, all or none, find no room'),
            hint='tell it again later; those that are not served are forgotten after demand_seconds of the pool file',
        )

    def _too_many(self, new: Sequence[Told], there: Sequence[Mapping[str, str]]) -> str | None:
        """How many there are of what there would be too many of with these; None: all find room.

        :param there: of the names of their files.
        """
        asker = new[0].asker
        for function, more in Counter(t.demand.function for t in new).items():
            same = [parts for parts in there if parts['function'] == _digest(function, 16)]
            if asker is not None:
                of_asker = sum(parts['asker'] == _digest(asker, 16) for parts in same)
                if of_asker + more > self.most_of_an_asker:
                    return f'{of_asker} of {asker} for {function}'
            if len(same) + more > self.most_of_one:
                return f'{len(same)} for {function}'
        return f'{len(there)}' if len(there) + len(new) > self.most else None

    def _known_as(self, demands: Sequence[Demand], names: Iterable[str]) -> dict[str, Told]:
        """What lies here under the id of a request, or of one of its demands, by its file.

        :raises StateError: what does cannot be read.
        """
        request = demands[0].request[0]
        own = {_digest(d.id, 32) for d in demands}
        all_of_it = (request, *(f'{request}/{n + 1}' for n in range(MOST_OF_A_REQUEST)))
        looked_at = own | {_digest(name, 32) for name in all_of_it}
        found = {}
        for name in names:
            identity = _parts(name)['id']
            if identity not in looked_at:
                continue
            told = self._read(name)
            if told is not None and (identity in own or told.demand.request[0] == request):
                found[name] = told
            elif told is None and identity in own:
                raise StateError(
                    f'{self.root / name}: a demand of that id lies there, and cannot be read',
                    hint='the log says why; pool demand drop, with the id, deletes it',
                )
        return found

    def told(self, now: datetime, lasts: timedelta) -> tuple[Told, ...]:
        """All that count, the oldest first. Those whose time is over are deleted.

        What lies in the future was stamped by a clock that goes wrong, and counts as of now.

        :param lasts: how long somebody is taken to wait, and how long what he waits for is kept for him.
        :raises StateError: the folder cannot be read.
        """
        if not self.root.exists():
            return ()
        found = []
        with self._explained():
            self._check_root()
            names = self._names(foreign=True)
        there = set(names)
        # A copy: other threads read, too.
        for name in list(self._known):
            if name not in there:
                self._known.pop(name, None)
        for name in names:
            one = self._read(name)
            if one is None:
                continue
            if one.demand.at > now or one.since > now:
                one = replace(one, demand=replace(one.demand, at=min(one.demand.at, now)), since=min(one.since, now))
                self._rewrite(name, one)
            if over(one, now, lasts):
                self._delete(name)
                LOG.info('demand %s for %s: forgotten, %s', one.demand.id, one.demand.function, one.progress)
            else:
                found.append(one)
        return tuple(sorted(whole(found), key=lambda t: (t.demand.at, t.demand.id)))

    def read(self, now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
        """Like :meth:`told`, without how far it has come with them."""
        return tuple(t.demand for t in self.told(now, lasts))

    def mark(self, told: Told) -> bool:
        """Keep how far it has come with a demand that lies here.

        :returns: whether it does; one that was dropped meanwhile does not come back.
        :raises StateError: it could not be kept.
        """
        return self._rewrite(_name(told), told)

    def drop(self, demand_id: str) -> bool:
        """Forget a demand.

        :returns: whether there was one.
        :raises StateError: it could not be deleted.
        """
        if not self.root.exists():
            return False
        with self._explained(), self._alone():
            own = _digest(demand_id, 32)
            found = [name for name in self._names() if _parts(name)['id'] == own]
            for name in found:
                (self.root / name).unlink(missing_ok=True)
        return bool(found)

    def refused(self) -> int:
        """How many demands were refused since the folder was made, because there were too many."""
        try:
            return _counted((self.root / _LOCK).read_bytes()[:20])
        except OSError:
            return 0

    def names(self) -> frozenset[str]:
        """The files of all demands, read or not: cheap to ask for."""
        try:
            return frozenset(self._names())
        except OSError:
            return frozenset()

    def _names(self, *, foreign: bool = False, orphans: bool = False) -> list[str]:
        """The files of demands.

        :param foreign: report the others.
        :param orphans: delete what a writer that was killed has left: only for who has the lock.
        """
        found: list[str] = []
        others: list[str] = []
        with os.scandir(self.root) as entries:
            for entry in entries:
                (found if _NAME.fullmatch(entry.name) else others).append(entry.name)
        for name in others:
            if name.startswith('.') and name.endswith(_NEW):
                if orphans:
                    (self.root / name).unlink(missing_ok=True)
            elif foreign and name != _LOCK:
                self._report(name, 'is not the file of a demand')
        return sorted(found)

    def _read(self, name: str) -> Told | None:
        """What a file holds; None: it has gone, or nobody can tell, which is reported."""
        path = self.root / name
        known = self._known.get(name)
        try:
            if known is not None and known[0] == _state(path.lstat()):
                return known[1]
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as stream:
                found = os.fstat(stream.fileno())
                if not stat.S_ISREG(found.st_mode) or files.others_may_write(found):
                    self._report(name, 'is no file of this user, or others may write it')
                    return None
                data = stream.read(MAX_SIZE + 1)
        except FileNotFoundError:
            return None
        except OSError as exc:
            self._report(name, 'is a link' if exc.errno == errno.ELOOP else f'cannot be read: {exc.strerror}')
            return None
        try:
            if len(data) > MAX_SIZE:
                raise StaleJob(f'longer than {MAX_SIZE} bytes')
            kept = decode(_Kept, json.loads(data))
            _check_texts(kept.told.demand, kept.told.asker)
            if kept.format != FORMAT or _name(kept.told) != name:
                raise StaleJob('of another version, or under the name of another demand')
        except (ValueError, RecursionError, StaleJob, UsageError) as exc:
            self._report(name, f'cannot be used: {exc}')
            return None
        self._reported.discard(name)
        self._known[name] = (_state(found), kept.told)
        return kept.told

    def _report(self, name: str, what: str) -> None:
        if name not in self._reported and len(self._reported) < self.most:
            self._reported.add(name)
            LOG.warning('%s: %s; it is left as it is', ascii(str(self.root / name)), what)

    def _rewrite(self, name: str, told: Told) -> bool:
        with self._explained(), self._alone():
            if not (self.root / name).exists():
                return False
            self._write(told)
        return True

    def _delete(self, name: str) -> None:
        with self._explained(), self._alone():
            (self.root / name).unlink(missing_ok=True)

    def _write_all(self, several: Iterable[Told]) -> None:
        """All or none, unless this process ends in between: what it leaves then is no demand (:func:`whole`)."""
        written = []
        try:
            for told in several:
                self._write(told)
                written.append(told)
        except BaseException:
            for told in written:
                with suppress(OSError):
                    (self.root / _name(told)).unlink()
            raise

    def _write(self, told: Told) -> None:
        """As a whole or not at all, and on the disk when this returns: no empty file is found after a power failure."""
        data = json.dumps(encode(_Kept(format=FORMAT, told=told))).encode()
        handle, name = tempfile.mkstemp(dir=self.root, prefix='.', suffix=_NEW)
        try:
            with open(handle, 'wb') as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, self.root / _name(told))
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """Nobody else writes meanwhile. The system frees it with the process, however that ends."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_root()
        at = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            until = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise StateError(f'{self.root}: another process has held it for {LOCK_SECONDS:.0f} s') from None
                    time.sleep(0.005)
            yield at
        finally:
            os.close(at)

    def _check_root(self) -> None:
        found = self.root.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise StateError(f'{self.root}: is no folder')
        if files.others_may_write(found):
            raise StateError(f'{self.root}: others may write there', hint=f'chmod 700 {self.root}, as its owner')

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What the system says becomes an error of ours.

        :raises StateError: it does.
        """
        try:
            yield
        except OSError as exc:
            hint = 'option [baremetal_acc_demand] folder names it; see that there is room, and that this user may write there'
            raise StateError(f'{self.root}: demands cannot be kept there: {exc.strerror}', hint=hint) from exc


def whole(told: Iterable[Told]) -> tuple[Told, ...]:
    """Without those of a request of which not all are there: nobody asked for these alone."""
    told = tuple(told)
    there = Counter(t.demand.request for t in told)
    return tuple(t for t in told if there[t.demand.request] >= t.demand.of)


def over(told: Told, now: datetime, lasts: timedelta) -> bool:
    """Its time is over. What is kept for somebody is kept as long as he would have waited for it."""
    match told.progress:
        case Progress.WAITING:
            return now - told.demand.at >= lasts
        case Progress.PROGRAMMING:
            return now - told.demand.at >= lasts + PROGRAMMING_LASTS
        case Progress.SCHEDULABLE | Progress.TAKEN:
            return now - told.since >= lasts


def _over_before(told: Told, at: datetime) -> bool:
    """Its function was schedulable before this time: whoever asks then has not got it, and waits anew."""
    return told.progress in (Progress.SCHEDULABLE, Progress.TAKEN) and told.since < at


def _left(told: Told, known: Mapping[str, Told], request: str) -> bool:
    """It is of this very request, and the others of it are not there."""
    there = sum(t.demand.request == told.demand.request for t in known.values())
    return told.demand.request[0] == request and there < told.demand.of


def _alike(known: Iterable[Demand], told: Iterable[Demand]) -> bool:
    """They ask for the same, under the same ids."""
    asked, again = ({(d.id, d.function, in_placement(d.resource_class), d.of) for d in several} for several in (known, told))
    return asked == again


def _differs(told: Demand, known: Sequence[Demand]) -> DemandDiffers:
    functions = ', '.join(sorted(d.function for d in known))
    of_class = '' if known[0].resource_class is None else f' on machines of class {known[0].resource_class}'
    return DemandDiffers(
        f'{told.request[0]}: is known already as the id of a demand for {functions}{of_class}, which stays',
        hint='tell another demand under an id of its own, or drop that one before',
    )


def _check_texts(demand: Demand, asker: str | None) -> None:
    texts = {'id': demand.id, 'function': demand.function, 'resource_class': demand.resource_class, 'asker': asker}
    for key, text in texts.items():
        _check(key, text)


def _check(key: str, text: str | None) -> None:
    if text is not None and not (0 < len(text) <= LONGEST and text.isprintable()):
        raise UsageError(
            argument=key, what=f'{text[:40]!a}: is no name', hint=f'1 to {LONGEST} characters, all of them printable'
        )


def _name(told: Told) -> str:
    return f'{_digest(told.demand.function, 16)}-{_digest(told.asker or "", 16)}-{_digest(told.demand.id, 32)}.json'


def _parts(name: str) -> dict[str, str]:
    match = _NAME.fullmatch(name)
    return {} if match is None else match.groupdict()


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:length]


def _count(lock: int, number: int) -> None:
    """So many more were refused."""
    os.pwrite(lock, f'{_counted(os.pread(lock, 20, 0)) + number}\n'.encode(), 0)


def _counted(data: bytes) -> int:
    word = data.strip()
    return int(word) if word.isdigit() else 0


def _state(found: os.stat_result) -> tuple[int, ...]:
    """What is another one when a file is: one that is as it was is not read again."""
    return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid, found.st_ctime_ns

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The demands that were told and are not over: a database, so that several processes can tell them and one can read them.

The same id told twice is one demand, and keeps its first time; once its function was schedulable, it can be told again. When
there are too many a new one is refused: none that is there is lost. Those of one request are kept all or none; some of them
alone are no demand: what is left when one of them is dropped.
"""

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from baremetal_acc.decide.pool import Demand
from baremetal_acc.decide.progress import Progress, Told, in_placement
from baremetal_acc.errors import DemandDiffers, DemandRefused, StaleJob, StateError, UsageError
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.state_file import Earlier, StateFile

LOG = logging.getLogger(__name__)

MOST = 4000
"""Demands at a time. Reading as many takes a third of a second."""

MOST_OF_ONE = 2000
"""Demands for one function at a time, so that those for others find room."""

MOST_OF_AN_ASKER = 16
"""Demands of one asker for one function at a time. Whoever boots again each time that it fails tells a new one each time."""

LONGEST = 255
"""Characters of an id, of a function's name and of a resource class: what placement and Ironic take for a name."""

PROGRAMMING_LASTS = timedelta(hours=2)
"""How long a demand is remembered beyond its time while its function is being programmed, so that its end is reported. It is
what a job may take ([baremetal_acc] job_timeout)."""

FOREVER = timedelta(days=36500)
"""As how long somebody is taken to wait: nothing is forgotten."""

_TABLES = """
CREATE TABLE demand (id TEXT PRIMARY KEY, request TEXT NOT NULL, function TEXT NOT NULL, asker TEXT, told BLOB NOT NULL);
CREATE INDEX demand_request ON demand (request);
CREATE TABLE refused (number INTEGER NOT NULL);
INSERT INTO refused VALUES (0)
"""
_REMEMBER = 'INSERT OR IGNORE INTO demand (id, request, function, asker, told) VALUES (?, ?, ?, ?, ?)'


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
        request = demands[0].request[0]
        with self._file().writing() as db:
            known = self._known_as(db, request, [d.id for d in demands])
            found = [t for t in known if not _left(t, known, request)]
            if not all(_over_before(t, demands[0].at) for t in found):
                kept = {t.demand.id: t.demand for t in found}
                if not _alike(kept.values(), demands):
                    raise _differs(demands[0], tuple(kept.values()))
                return tuple(kept[d.id] for d in demands), False
            db.execute('SAVEPOINT before')
            db.executemany('DELETE FROM demand WHERE id = ?', [(t.demand.id,) for t in known])
            what = self._too_many(new, db.execute('SELECT function, asker, COUNT(*) FROM demand GROUP BY function, asker'))
            if what is None:
                db.executemany(_REMEMBER, map(_row, new))
                return tuple(demands), True
            db.execute('ROLLBACK TO before')
            db.execute('UPDATE refused SET number = number + ?', (len(new),))
        raise DemandRefused(
            f'{self.root}: there are {what} already, and '
            + ('no more are taken' if len(new) == 1 else f'{len(new)} more, all or none, find no room'),
            hint='tell it again later; those that are not served are forgotten after demand_seconds of the pool file',
        )

    def _too_many(self, new: Sequence[Told], there: Iterable[tuple[str, str | None, int]]) -> str | None:
        """How many there are of what there would be too many of with these; None: all find room.

        :param there: how many of each function and asker.
        """
        asker = new[0].asker
        by_both = {(function, of): number for function, of, number in there}
        for function, more in Counter(t.demand.function for t in new).items():
            of_asker = by_both.get((function, asker), 0)
            if asker is not None and of_asker + more > self.most_of_an_asker:
                return f'{of_asker} of {asker} for {function}'
            same = sum(number for (name, _), number in by_both.items() if name == function)
            if same + more > self.most_of_one:
                return f'{same} for {function}'
        number = sum(by_both.values())
        return f'{number}' if number + len(new) > self.most else None

    def _known_as(self, db: sqlite3.Connection, request: str, own: Sequence[str]) -> list[Told]:
        """What is known under the id of a request, or of one of its demands.

        :raises StateError: what is cannot be read.
        """
        rows: dict[str, bytes] = dict(db.execute('SELECT id, told FROM demand WHERE request = ?', (request,)))
        for name in own:
            rows.update(db.execute('SELECT id, told FROM demand WHERE id = ?', (name,)))
        known = {name: self._read(name, data) for name, data in rows.items()}
        for name in own:
            if name in known and known[name] is None:
                raise StateError(
                    f'{self._path}: a demand of the id {name} is there, and cannot be read',
                    hint='the log says why; pool demand drop, with the id, deletes it',
                )
        return [told for told in known.values() if told is not None]

    def told(self, now: datetime, lasts: timedelta) -> tuple[Told, ...]:
        """All that count, the oldest first. Those whose time is over are deleted.

        What lies in the future was stamped by a clock that goes wrong, and counts as of now.

        :param lasts: how long somebody is taken to wait, and how long what he waits for is kept for him.
        :raises StateError: they cannot be read.
        """
        found: list[Told] = []
        stamped: list[tuple[bytes, str, bytes]] = []
        gone: dict[tuple[str, bytes], Told] = {}
        for name, data in self._file().select('SELECT id, told FROM demand'):
            one = self._read(name, data)
            if one is None:
                continue
            if one.demand.at > now or one.since > now:
                one = replace(one, demand=replace(one.demand, at=min(one.demand.at, now)), since=min(one.since, now))
                stamped.append((_encoded(one), name, data))
            if over(one, now, lasts):
                gone[name, data] = one
            else:
                found.append(one)
        if stamped or gone:
            # What another process has changed since stays.
            with self._file().writing() as db:
                db.executemany('DELETE FROM demand WHERE id = ? AND told = ?', gone)
                db.executemany('UPDATE demand SET told = ? WHERE id = ? AND told = ?', stamped)
        for one in gone.values():
            LOG.info('demand %s for %s: forgotten, %s', one.demand.id, one.demand.function, one.progress)
        return tuple(sorted(whole(found), key=lambda t: (t.demand.at, t.demand.id)))

    def read(self, now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
        """Like :meth:`told`, without how far it has come with them."""
        return tuple(t.demand for t in self.told(now, lasts))

    def mark(self, told: Told) -> bool:
        """Keep how far it has come with a demand that is known.

        :returns: whether it is; one that was dropped meanwhile does not come back.
        :raises StateError: it could not be kept.
        """
        same = (_encoded(told), told.demand.id, told.demand.function, told.asker)
        with self._file().writing() as db:
            return db.execute('UPDATE demand SET told = ? WHERE id = ? AND function = ? AND asker IS ?', same).rowcount > 0

    def drop(self, demand_id: str) -> bool:
        """Forget a demand.

        :returns: whether there was one.
        :raises StateError: it could not be deleted.
        """
        if not _is_name(demand_id) or not self._file().prepare():
            return False
        with self._file().writing() as db:
            return db.execute('DELETE FROM demand WHERE id = ?', (demand_id,)).rowcount > 0

    def refused(self) -> int:
        """How many demands were refused since the database was made, because there were too many."""
        return sum(row[0] for row in self._file().select('SELECT number FROM refused'))

    def names(self) -> frozenset[str]:
        """The ids of all demands, read or not: cheap to ask for. None where they cannot be read: the next turn says so."""
        with suppress(StateError):
            return frozenset(row[0] for row in self._file().select('SELECT id FROM demand'))
        return frozenset()

    def _read(self, name: str, data: bytes) -> Told | None:
        """What a row holds; None: nobody can tell, which is reported once."""
        try:
            told = _decoded(data)
            if told.demand.id != name:
                raise StaleJob('it is under the id of another demand')
        except (ValueError, RecursionError, StaleJob, UsageError) as exc:
            if name not in self._reported and len(self._reported) < self.most:
                self._reported.add(name)
                LOG.warning('%s: the demand %s cannot be used: %s; it is left as it is', self._path, ascii(name), exc)
            return None
        return told

    @property
    def _path(self) -> Path:
        return self.root / 'demands.sqlite'

    def _file(self) -> StateFile:
        return StateFile(
            path=self._path,
            tables=_TABLES,
            risk='have the fleet programmed',
            lost=f'move {self._path} away, and tell the demands again',
            elsewhere='option [baremetal_acc_demand] folder names it; see that this user may write there',
            earlier=Earlier(at=self.root / '.lock', documents=('*.json', '.lock'), locks='.lock', take=_take),
        )


def _take(db: sqlite3.Connection, path: Path, data: bytes) -> None:
    """Take over a demand, or how many were refused, which is in the lock. What cannot be used is told, and kept as all is."""
    if path.name == '.lock':
        word = data.strip()
        db.execute('UPDATE refused SET number = ?', (int(word) if word.isdigit() else 0,))
        return
    try:
        raw = json.loads(data)
        if not isinstance(raw, dict) or raw.get('format') != 1:
            raise StaleJob('of another version')
        told = _decoded(json.dumps(raw.get('told')).encode())
    except (ValueError, RecursionError, StaleJob, UsageError) as exc:
        LOG.warning('%s: cannot be used: %s; it is not taken over', ascii(str(path)), exc)
    else:
        db.execute(_REMEMBER, _row(told))


def _row(told: Told) -> tuple[str, str, str, str | None, bytes]:
    return told.demand.id, told.demand.request[0], told.demand.function, told.asker, _encoded(told)


def _encoded(told: Told) -> bytes:
    return json.dumps(encode(told)).encode()


@lru_cache(maxsize=2 * MOST)
def _decoded(data: bytes) -> Told:
    """What a row holds: one that is as it was is not decoded again.

    :raises ValueError: it is no JSON. ``StaleJob``, ``UsageError``: it is no demand.
    """
    told = decode(Told, json.loads(data))
    _check_texts(told.demand, told.asker)
    return told


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


def _left(told: Told, known: Iterable[Told], request: str) -> bool:
    """It is of this very request, and the others of it are not there."""
    there = sum(t.demand.request == told.demand.request for t in known)
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
    if text is not None and not _is_name(text):
        raise UsageError(
            argument=key, what=f'{text[:40]!a}: is no name', hint=f'1 to {LONGEST} characters, all of them printable'
        )


def _is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST and text.isprintable()

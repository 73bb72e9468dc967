# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Store the demands that are not over in an SQLite database, which several processes write and one reads.

The same id submitted twice is one demand, and keeps its first time; once its function was schedulable, it can be submitted
again. When there are too many a new demand is refused; a stored one is never dropped for it. The demands of one request are
kept all or none: where one of them was dropped, the others do not count.
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

from baremetal_acc.errors import DemandDiffers, DemandRefused, StaleJob, StateError, UsageError
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.scheduling.demand_status import DemandProgress, StoredDemand, in_placement
from baremetal_acc.scheduling.pools import Demand
from baremetal_acc.state_file import Earlier, StateFile

LOG = logging.getLogger(__name__)

MOST = 4000
"""Most demands at a time. Reading as many takes a third of a second."""

MOST_OF_ONE = 2000
"""Most demands for one function at a time, so that those for others find room."""

MOST_OF_AN_ASKER = 16
"""Most demands of one asker for one function at a time. A client that retries failed boots submits a demand each time."""

LONGEST = 255
"""Most characters of an id, a function's name or a resource class: what placement and Ironic accept as a name."""

PROGRAMMING_LASTS = timedelta(hours=2)
"""How long a demand is kept beyond its time while its function is being programmed, so that the result is reported.

A job may take as long ([baremetal_acc] job_timeout).
"""

FOREVER = timedelta(days=36500)
"""A waiting time with which no demand is over."""

_TABLES = """
CREATE TABLE demand (id TEXT PRIMARY KEY, request TEXT NOT NULL, function TEXT NOT NULL, asker TEXT, told BLOB NOT NULL);
CREATE INDEX demand_request ON demand (request);
CREATE TABLE refused (number INTEGER NOT NULL);
INSERT INTO refused VALUES (0)
"""
_REMEMBER = 'INSERT OR IGNORE INTO demand (id, request, function, asker, told) VALUES (?, ?, ?, ?, ?)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """A folder with the database of demands.

    :ivar root: the folder, created when it is needed, for its owner alone.
    :ivar most: most demands at a time.
    :ivar most_of_one: most demands for one function.
    :ivar most_of_an_asker: most demands of one asker for one function.
    """

    root: Path
    most: int = MOST
    most_of_one: int = MOST_OF_ONE
    most_of_an_asker: int = MOST_OF_AN_ASKER
    _reported: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def put(self, demand: Demand, source: str = 'file', asker: str | None = None) -> bool:
        """Store a demand.

        :param source: where the demand comes from: ``file`` or ``nova``.
        :param asker: the project that the demand is for; None for the operator, who has no limit of their own.
        :returns: whether the demand is new.
        :raises AccError: as :meth:`put_all`.
        """
        return self.put_all((demand,), source, asker)[1]

    def put_all(
        self, demands: Sequence[Demand], source: str = 'file', asker: str | None = None
    ) -> tuple[tuple[Demand, ...], bool]:
        """Store all demands of one request, or none.

        :param demands: at least one.
        :returns: the stored demands, and whether they are new. A request that waits stays as it is.
        :raises UsageError: a text of a demand is no valid name, or the request asks for more than the spool ever takes.
        :raises DemandRefused: there are too many demands.
        :raises DemandDiffers: another request is known under this id.
        :raises StateError: the demands could not be stored.
        """
        for demand in demands:
            _check_texts(demand, asker)
        new = [StoredDemand(demand=demand, source=source, since=demand.at, asker=asker) for demand in demands]
        if self._too_many(new, ()) is not None:
            raise UsageError(
                argument='id',
                what=f'{demands[0].request[0]}: the request has more demands than can be stored at all',
                hint=f'limits: {self.most} in all, {self.most_of_one} for a function, {self.most_of_an_asker} of one project',
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
            f'{self.root}: too many demands: {what} stored already'
            + ('' if len(new) == 1 else f', no room for all {len(new)} of the request'),
            hint='submit the request again later; demands expire after demand_seconds of the pool file',
        )

    def _too_many(self, new: Sequence[StoredDemand], there: Iterable[tuple[str, str | None, int]]) -> str | None:
        """Return which limit the new demands exceed, as the number that there is already; None where all find room.

        :param there: number of demands of each function and asker.
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

    def _known_as(self, db: sqlite3.Connection, request: str, own: Sequence[str]) -> list[StoredDemand]:
        """Return the stored demands under the id of a request, or of one of its demands.

        :raises StateError: a stored demand cannot be read.
        """
        rows: dict[str, bytes] = dict(db.execute('SELECT id, told FROM demand WHERE request = ?', (request,)))
        for name in own:
            rows.update(db.execute('SELECT id, told FROM demand WHERE id = ?', (name,)))
        known = {name: self._read(name, data) for name, data in rows.items()}
        for name in own:
            if name in known and known[name] is None:
                raise StateError(
                    f'{self._path}: stored demand {name} cannot be read',
                    hint='the log says why; baremetal-acc pool demand drop ID deletes it',
                )
        return [told for told in known.values() if told is not None]

    def told(self, now: datetime, lasts: timedelta) -> tuple[StoredDemand, ...]:
        """Return all demands that are not over, the oldest first, and delete those that are.

        A time in the future comes from a clock that is wrong, and is set to now.

        :param lasts: how long somebody is taken to wait, and how long a schedulable function is held for a demand.
        :raises StateError: the demands cannot be read.
        """
        found: list[StoredDemand] = []
        stamped: list[tuple[bytes, str, bytes]] = []
        gone: dict[tuple[str, bytes], StoredDemand] = {}
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
            # A row that another process has changed since is left as it is.
            with self._file().writing() as db:
                db.executemany('DELETE FROM demand WHERE id = ? AND told = ?', gone)
                db.executemany('UPDATE demand SET told = ? WHERE id = ? AND told = ?', stamped)
        for one in gone.values():
            LOG.info('demand %s for %s: expired in state %s', one.demand.id, one.demand.function, one.progress)
        return tuple(sorted(whole(found), key=lambda t: (t.demand.at, t.demand.id)))

    def read(self, now: datetime, lasts: timedelta) -> tuple[Demand, ...]:
        """Return the demands as :meth:`told` does, without their progress."""
        return tuple(t.demand for t in self.told(now, lasts))

    def mark(self, told: StoredDemand) -> bool:
        """Store the progress of a demand that is known.

        :returns: whether the demand is known; a demand that was dropped meanwhile is not stored again.
        :raises StateError: the progress could not be stored.
        """
        same = (_encoded(told), told.demand.id, told.demand.function, told.asker)
        with self._file().writing() as db:
            return db.execute('UPDATE demand SET told = ? WHERE id = ? AND function = ? AND asker IS ?', same).rowcount > 0

    def drop(self, demand_id: str) -> bool:
        """Delete a demand.

        :returns: whether there was such a demand.
        :raises StateError: the demand could not be deleted.
        """
        if not _is_name(demand_id) or not self._file().prepare():
            return False
        with self._file().writing() as db:
            return db.execute('DELETE FROM demand WHERE id = ?', (demand_id,)).rowcount > 0

    def refused(self) -> int:
        """Return how many demands were refused since the database was created, because there were too many."""
        return sum(row[0] for row in self._file().select('SELECT number FROM refused'))

    def names(self) -> frozenset[str]:
        """Return the ids of all demands, readable or not. Empty where the database cannot be read; the next turn reports it."""
        with suppress(StateError):
            return frozenset(row[0] for row in self._file().select('SELECT id FROM demand'))
        return frozenset()

    def _read(self, name: str, data: bytes) -> StoredDemand | None:
        """Return the demand of a row; None where it cannot be read, which is reported once."""
        try:
            told = _decoded(data)
            if told.demand.id != name:
                raise StaleJob('it is stored under the id of another demand')
        except (ValueError, RecursionError, StaleJob, UsageError) as exc:
            if name not in self._reported and len(self._reported) < self.most:
                self._reported.add(name)
                LOG.warning('%s: stored demand %s cannot be read: %s; it is kept unchanged', self._path, ascii(name), exc)
            return None
        return told

    @property
    def _path(self) -> Path:
        return self.root / 'demands.sqlite'

    def _file(self) -> StateFile:
        return StateFile(
            path=self._path,
            tables=_TABLES,
            risk='have nodes reprogrammed',
            lost=f'move {self._path} away, and submit the demands again',
            elsewhere='set [baremetal_acc_demand] folder to a folder that this user may write',
            earlier=Earlier(at=self.root / '.lock', documents=('*.json', '.lock'), locks='.lock', take=_take),
        )


def _take(db: sqlite3.Connection, path: Path, data: bytes) -> None:
    """Take over a demand of an earlier release, or its number of refused demands. A bad file is logged and kept."""
    if path.name == '.lock':
        word = data.strip()
        db.execute('UPDATE refused SET number = ?', (int(word) if word.isdigit() else 0,))
        return
    try:
        raw = json.loads(data)
        if not isinstance(raw, dict) or raw.get('format') != 1:
            raise StaleJob('unknown format')
        told = _decoded(json.dumps(raw.get('told')).encode())
    except (ValueError, RecursionError, StaleJob, UsageError) as exc:
        LOG.warning('%s: demand of an earlier release cannot be read: %s; it is not imported', ascii(str(path)), exc)
    else:
        db.execute(_REMEMBER, _row(told))


def _row(told: StoredDemand) -> tuple[str, str, str, str | None, bytes]:
    return told.demand.id, told.demand.request[0], told.demand.function, told.asker, _encoded(told)


def _encoded(told: StoredDemand) -> bytes:
    return json.dumps(encode(told)).encode()


@lru_cache(maxsize=2 * MOST)
def _decoded(data: bytes) -> StoredDemand:
    """Return the demand of a row, cached by the bytes of the row.

    :raises ValueError: the bytes are no JSON. ``StaleJob``, ``UsageError``: they are no demand.
    """
    told = decode(StoredDemand, json.loads(data))
    _check_texts(told.demand, told.asker)
    return told


def whole(told: Iterable[StoredDemand]) -> tuple[StoredDemand, ...]:
    """Leave out the demands of requests that are not complete: nobody asked for a part of a request alone."""
    told = tuple(told)
    there = Counter(t.demand.request for t in told)
    return tuple(t for t in told if there[t.demand.request] >= t.demand.of)


def over(told: StoredDemand, now: datetime, lasts: timedelta) -> bool:
    """Tell whether the time of a demand is over. A function is held as long as the asker would have waited for it."""
    match told.progress:
        case DemandProgress.WAITING:
            return now - told.demand.at >= lasts
        case DemandProgress.PROGRAMMING:
            return now - told.demand.at >= lasts + PROGRAMMING_LASTS
        case DemandProgress.SCHEDULABLE | DemandProgress.TAKEN:
            return now - told.since >= lasts


def _over_before(told: StoredDemand, at: datetime) -> bool:
    """Tell whether the function was schedulable before this time: a later demand did not get it, and waits again."""
    return told.progress in (DemandProgress.SCHEDULABLE, DemandProgress.TAKEN) and told.since < at


def _left(told: StoredDemand, known: Iterable[StoredDemand], request: str) -> bool:
    """Tell whether a demand belongs to this request, and others of the request are missing."""
    there = sum(t.demand.request == told.demand.request for t in known)
    return told.demand.request[0] == request and there < told.demand.of


def _alike(known: Iterable[Demand], told: Iterable[Demand]) -> bool:
    """Tell whether demands ask for the same functions under the same ids."""
    asked, again = ({(d.id, d.function, in_placement(d.resource_class), d.of) for d in several} for several in (known, told))
    return asked == again


def _differs(told: Demand, known: Sequence[Demand]) -> DemandDiffers:
    functions = ', '.join(sorted(d.function for d in known))
    of_class = '' if known[0].resource_class is None else f' on nodes of class {known[0].resource_class}'
    return DemandDiffers(
        f'{told.request[0]}: this id belongs to a stored demand for {functions}{of_class}',
        hint='use another id, or drop the stored demand first',
    )


def _check_texts(demand: Demand, asker: str | None) -> None:
    texts = {'id': demand.id, 'function': demand.function, 'resource_class': demand.resource_class, 'asker': asker}
    for key, text in texts.items():
        _check(key, text)


def _check(key: str, text: str | None) -> None:
    if text is not None and not _is_name(text):
        raise UsageError(
            argument=key, what=f'{text[:40]!a} is not a valid name', hint=f'use 1 to {LONGEST} printable characters'
        )


def _is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST and text.isprintable()

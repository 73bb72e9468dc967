# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A folder of demands keeps what it was given, forgets what is over, and cannot be filled or tricked."""

import json
import logging
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.errors import DemandDiffers, DemandRefused, StateError, UsageError
from baremetal_acc.pools.spool import PROGRAMMING_LASTS, Spool
from baremetal_acc.scheduling.demand import AskedFunctions
from baremetal_acc.scheduling.demand_status import DemandProgress, StoredDemand
from baremetal_acc.scheduling.pools import Demand
from baremetal_acc.state_file import StateFile

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
LASTS = timedelta(minutes=15)
SECOND = timedelta(seconds=1)


def demand(name: str = 'req-1', function: str = 'aes', at: datetime = NOW, resource_class: str | None = None) -> Demand:
    """Somebody who waits."""
    return Demand(id=name, function=function, at=at, resource_class=resource_class)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """An empty one, whose folder is not there yet."""
    return Spool(root=tmp_path / 'state' / 'demands')


def execute(spool: Spool, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Look into the database, or change it behind its owner's back."""
    with closing(sqlite3.connect(spool.root / 'demands.sqlite')) as db:
        found = db.execute(sql, values).fetchall()
        db.commit()
        return found


def rows(spool: Spool) -> list[tuple[Any, ...]]:
    """The demands as they are stored."""
    return execute(spool, 'SELECT id, told FROM demand ORDER BY id')


def test_what_was_told_is_read_by_another_one(spool: Spool) -> None:
    """What one writer puts another reader finds, whole, the oldest first."""
    second = demand('b', resource_class='Gold', at=NOW - SECOND)
    assert spool.put(demand('a'))
    assert spool.put(second, 'nova')
    other = Spool(root=spool.root)
    assert (second, demand('a')) == other.read(NOW, LASTS)
    assert ['nova', 'file'] == [t.source for t in other.told(NOW, LASTS)]
    assert {DemandProgress.WAITING} == {t.progress for t in other.told(NOW, LASTS)}


def test_a_folder_that_is_not_there_holds_none(spool: Spool) -> None:
    """Nobody has told anything, and reading makes no folder."""
    assert () == spool.read(NOW, LASTS)
    assert not spool.drop('req-1')
    assert (0, frozenset()) == (spool.refused(), spool.names())
    assert not spool.root.exists()


def test_only_the_user_sees_them(spool: Spool) -> None:
    """The folder is 0700 and each file 0600, whatever the umask lets through."""
    before = os.umask(0)
    try:
        spool.put(demand())
    finally:
        os.umask(before)
    assert 0o700 == stat.S_IMODE(spool.root.stat().st_mode)
    assert {('demands.sqlite', 0o600), ('.lock', 0o600)} == {
        (p.name, stat.S_IMODE(p.stat().st_mode)) for p in spool.root.iterdir()
    }


def test_one_id_is_one_demand_and_keeps_its_first_time(spool: Spool) -> None:
    """Who asks again does not move himself to the end, and cannot turn his demand into another one."""
    assert spool.put(demand(at=NOW - SECOND))
    assert not spool.put(demand())
    assert (demand(at=NOW - SECOND),) == spool.read(NOW, LASTS)


BOTH = (('aes', 'gzip'), 'req-1')


def several(functions: tuple[str, ...], name: str, at: datetime = NOW, resource_class: str | None = None) -> tuple[Demand, ...]:
    """The demands of one request."""
    return AskedFunctions(functions=functions, resource_class=resource_class).demands(name, at)


@pytest.mark.parametrize(
    ('known', 'told'),
    [
        ((('aes',), 'req-1'), (('gzip',), 'req-1')),
        (BOTH, (('aes', 'zip'), 'req-1')),
        (BOTH, (('gzip', 'aes'), 'req-1')),
        (BOTH, (('aes',), 'req-1')),
        ((('aes',), 'req-1'), BOTH),
        (BOTH, (('aes', 'gzip', 'gzip'), 'req-1')),
        ((('aes', 'gzip', 'gzip'), 'req-1'), BOTH),
        (BOTH, (('aes',), 'req-1/1')),
        ((('gzip',), 'req-1/2'), BOTH),
    ],
)
def test_what_is_known_as_another_one_is_refused_and_stays(
    spool: Spool, known: tuple[tuple[str, ...], str], told: tuple[tuple[str, ...], str]
) -> None:
    """Whoever tells it would take the answer for his own: by function, by number, and under the id of one of several."""
    there = several(*known, at=NOW - SECOND)
    assert (there, True) == spool.put_all(there)
    with pytest.raises(DemandDiffers, match=r'this id belongs to a stored demand for '):
        spool.put_all(several(*told))
    assert there == spool.read(NOW, LASTS)
    assert 0 == spool.refused()


def test_the_class_of_the_machines_matters_and_not_how_it_is_said(spool: Spool) -> None:
    """What is kept is given back."""
    kept = demand(resource_class='gold', at=NOW - SECOND)
    spool.put(kept)
    assert ((kept,), False) == spool.put_all([demand(resource_class='CUSTOM_GOLD')])
    for other in ('silver', None):
        with pytest.raises(DemandDiffers, match='for aes on nodes of class gold'):
            spool.put(demand(resource_class=other))
    spool.put(demand('none'))
    with pytest.raises(DemandDiffers):
        spool.put(demand('none', resource_class='gold'))
    assert spool.put(demand('req-1/1', 'gzip')), 'that is another id'


def test_of_a_request_half_of_which_is_schedulable_nothing_changes(spool: Spool) -> None:
    """Its demands are marked one after the other: who tells it again in between has told it."""
    there = several(*BOTH)
    spool.put_all(there)
    served = StoredDemand(
        demand=there[0], source='file', progress=DemandProgress.SCHEDULABLE, since=NOW + SECOND, provider='region'
    )
    spool.mark(served)
    again = several(*BOTH, at=NOW + 2 * SECOND)
    assert (there, False) == spool.put_all(again)
    spool.mark(replace(served, demand=there[1]))
    assert (again, True) == spool.put_all(again)
    spool.mark(replace(served, demand=again[0], since=again[0].at + SECOND))
    spool.mark(replace(served, demand=again[1], since=again[0].at + SECOND))
    other = several(('zip',), 'req-1', at=NOW + 4 * SECOND)
    assert (other, True) == spool.put_all(other)
    assert other == spool.read(NOW + 4 * SECOND, LASTS)


@pytest.mark.parametrize(
    ('bounds', 'said'),
    [
        ({'most': 4}, 'too many demands: 3 stored already, no room for all 2 of the request'),
        ({'most_of_one': 3}, 'too many demands: 3 for aes stored already'),
        ({'most_of_an_asker': 3}, 'too many demands: 3 of p for aes stored already'),
    ],
)
@pytest.mark.parametrize('functions', [('gzip', 'aes'), ('aes', 'gzip')])
def test_a_request_is_kept_as_a_whole_or_not_at_all(
    tmp_path: Path, bounds: dict[str, int], said: str, functions: tuple[str, ...]
) -> None:
    """Half of it would have a region programmed that is of no use to who asked."""
    spool = Spool(root=tmp_path / 'demands', **bounds)
    there = tuple(demand(f'own-{n}') for n in range(3))
    for one in there:
        spool.put(one, asker='p')
    with pytest.raises(DemandRefused, match=said):
        spool.put_all(several(functions, 'two'), asker='p')
    assert (there, 2) == (spool.read(NOW, LASTS), spool.refused())
    assert 3 == len(rows(spool))
    assert spool.drop('own-1')
    assert spool.put_all(several(functions, 'two'), asker='p')[1]
    assert 4 == len(spool.read(NOW, LASTS))


def test_more_than_is_ever_taken_is_said(tmp_path: Path) -> None:
    """To come back later would not help."""
    spool = Spool(root=tmp_path / 'demands', most_of_an_asker=2)
    with pytest.raises(UsageError, match='id: r: the request has more demands than can be stored at all'):
        spool.put_all(several(('aes',) * 3, 'r'), asker='p')
    assert () == spool.read(NOW, LASTS)
    assert spool.put_all(several(('aes',) * 3, 'r'))[1], 'the operator may'


def test_a_disk_that_is_full_in_the_middle_keeps_none(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What of it was written goes again, and what it would have taken the place of stays."""
    spool.put(demand('other', at=NOW - SECOND))
    connect = StateFile._connect

    def full(file: StateFile, path: Path) -> sqlite3.Connection:
        found = connect(file, path)
        found.execute('PRAGMA max_page_count = 1')
        return found

    monkeypatch.setattr(StateFile, '_connect', full)
    long = tuple(demand(f'{n}{"x" * 240}', at=NOW) for n in range(200))
    with pytest.raises(StateError, match=r'demands\.sqlite: cannot be written: database or disk is full .fix the cause'):
        spool.put_all(long)
    monkeypatch.undo()
    assert (demand('other', at=NOW - SECOND),) == spool.read(NOW, LASTS)
    assert 1 == len(rows(spool))


def test_what_is_left_of_a_request_is_no_demand(spool: Spool) -> None:
    """Who tells it again, or something else under its id, tells it as a whole."""
    spool.put_all(several(*BOTH))
    assert spool.drop('req-1/2')
    assert () == spool.read(NOW, LASTS)
    again = several(*BOTH, at=NOW + SECOND)
    assert (again, True) == spool.put_all(again)
    assert again == spool.read(NOW + SECOND, LASTS)
    assert spool.drop('req-1/1')
    assert () == spool.read(NOW + SECOND, LASTS)
    assert spool.put(demand(function='zip'))
    assert ['req-1'] == [row[0] for row in rows(spool)]


def test_who_tells_what_cannot_be_read_hears_of_it(spool: Spool) -> None:
    """He is not told that it is kept, and what is there stays."""
    spool.put(demand())
    execute(spool, 'UPDATE demand SET told = ?', b'{')
    with pytest.raises(StateError, match='stored demand req-1 cannot be read'):
        spool.put(demand())
    assert [('req-1', b'{')] == rows(spool)
    assert spool.drop('req-1')
    assert spool.put(demand())


@pytest.mark.parametrize(
    'name', ['../../etc/passwd', '/etc/passwd', '.lock', '-', 'a/b\\c', 'ü' * 255, '*.json', "x' OR 'a' = 'a"]
)
def test_no_id_is_more_than_a_text(spool: Spool, name: str) -> None:
    """What an id says matters to nobody's file system, and to no query."""
    spool.put(demand(name))
    assert [name] == [d.id for d in spool.read(NOW, LASTS)]
    assert ['.lock', 'demands.sqlite'] == sorted(p.name for p in spool.root.iterdir())
    assert spool.drop(name)


@pytest.mark.parametrize(
    'wrong',
    [
        demand(''),
        demand('x' * 256),
        demand('a\nb'),
        demand('\ud800'),
        demand(function=''),
        demand(function='f' * 256),
        demand(resource_class='\x1b[31m'),
        demand(resource_class=''),
    ],
)
def test_what_is_no_name_is_refused(spool: Spool, wrong: Demand) -> None:
    """Texts that are empty, too long, or would move a terminal's cursor are refused, and nothing is written."""
    with pytest.raises(UsageError, match='is not a valid name'):
        spool.put(wrong)
    assert not spool.drop(wrong.id)
    assert not spool.root.exists()


def test_the_longest_names_are_read_again(spool: Spool) -> None:
    """What is taken is never too long to be read."""
    long = demand('\U0001f600' * 255, '\U0001f600' * 255, resource_class='\U0001f600' * 255)
    spool.put(long)
    assert (long,) == spool.read(NOW, LASTS)


@pytest.mark.parametrize(
    ('progress', 'lasts'),
    [
        (DemandProgress.WAITING, LASTS),
        (DemandProgress.PROGRAMMING, LASTS + PROGRAMMING_LASTS),
    ],
)
def test_who_waits_is_forgotten_when_his_time_is_over(spool: Spool, progress: DemandProgress, lasts: timedelta) -> None:
    """A demand ends on time; one whose function is being programmed is kept longer, so that somebody hears of it."""
    spool.put(demand())
    spool.mark(StoredDemand(demand=demand(), source='file', progress=progress, since=NOW))
    assert (demand(),) == spool.read(NOW + lasts - SECOND, LASTS)
    assert () == spool.read(NOW + lasts, LASTS)
    assert [] == rows(spool)


def test_what_is_schedulable_is_kept_as_long_as_one_waits(spool: Spool) -> None:
    """Its time begins anew when its function can be claimed."""
    spool.put(demand())
    served = StoredDemand(
        demand=demand(), source='file', progress=DemandProgress.SCHEDULABLE, since=NOW + 2 * LASTS, provider='r', took=2 * LASTS
    )
    assert spool.mark(served)
    assert (served,) == spool.told(NOW + 3 * LASTS - SECOND, LASTS)
    assert () == spool.told(NOW + 3 * LASTS, LASTS)


def test_what_was_dropped_does_not_come_back(spool: Spool) -> None:
    """Whoever marks a demand that somebody drops at the same time leaves it dropped."""
    spool.put(demand())
    (told,) = spool.told(NOW, LASTS)
    assert spool.drop('req-1')
    assert not spool.drop('req-1')
    assert not spool.mark(replace(told, progress=DemandProgress.PROGRAMMING))
    assert () == spool.told(NOW, LASTS)


def test_a_time_to_come_counts_as_now_and_ends(spool: Spool) -> None:
    """A clock that goes wrong makes no demand that lasts for ever."""
    spool.put(demand(at=NOW + timedelta(days=365)))
    assert (demand(),) == spool.read(NOW, LASTS)
    assert (demand(),) == spool.read(NOW + LASTS - SECOND, LASTS)
    assert () == spool.read(NOW + LASTS, LASTS)


def test_a_full_folder_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """New ones are refused, by number and by function, and counted; all that lies there stays."""
    spool = Spool(root=tmp_path / 'demands', most=4, most_of_one=3)
    first = tuple(demand(f'aes-{n}', at=NOW + n * SECOND) for n in range(3))
    for each in first:
        spool.put(each)
    with pytest.raises(DemandRefused, match='too many demands: 3 for aes stored already') as caught:
        spool.put(demand('aes-3'))
    assert caught.value.waiting_helps
    assert spool.put(demand('gzip-0', 'gzip', at=NOW + 3 * SECOND))
    with pytest.raises(DemandRefused, match='too many demands: 4 stored already'):
        spool.put(demand('gzip-1', 'gzip'))
    assert not spool.put(demand('aes-0')), 'one that is there is no new one'
    later = NOW + 10 * SECOND
    assert (*first, demand('gzip-0', 'gzip', at=NOW + 3 * SECOND)) == spool.read(later, LASTS)
    assert 2 == spool.refused()
    assert spool.drop('aes-1')
    assert spool.put(demand('aes-3', at=later))


def test_one_asker_cannot_fill_it(tmp_path: Path) -> None:
    """A project that boots again each time that it fails has so many demands at most; others are not hindered."""
    spool = Spool(root=tmp_path / 'demands', most_of_an_asker=2)
    for n in range(2):
        spool.put(demand(f'a-{n}'), 'nova', 'project-a')
    with pytest.raises(DemandRefused, match='too many demands: 2 of project-a for aes stored already'):
        spool.put(demand('a-2'), 'nova', 'project-a')
    assert spool.put(demand('a-3', 'gzip'), 'nova', 'project-a')
    assert spool.put(demand('b-0'), 'nova', 'project-b')
    for n in range(3):
        assert spool.put(demand(f'own-{n}'))
    assert 7 == len(spool.read(NOW, LASTS))


@pytest.mark.parametrize('progress', [DemandProgress.SCHEDULABLE, DemandProgress.TAKEN])
def test_what_was_schedulable_can_be_told_anew(spool: Spool, progress: DemandProgress) -> None:
    """Who asks again after his function was there has not got it. The same telling that only comes twice changes nothing."""
    spool.put(demand())
    over = StoredDemand(demand=demand(), source='file', progress=progress, since=NOW + SECOND, provider='region')
    spool.mark(over)
    assert not spool.put(demand())
    assert (over,) == spool.told(NOW + SECOND, LASTS)
    again = demand(at=NOW + 2 * SECOND)
    assert spool.put(again, 'nova')
    assert (StoredDemand(demand=again, source='nova', since=again.at),) == spool.told(again.at, LASTS)


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    """Four processes tell forty demands each, ten of them the same: none is lost or there twice, and no bound is passed."""
    root = tmp_path / 'demands'
    code = (
        'import sys\n'
        'from datetime import datetime, UTC\n'
        'from pathlib import Path\n'
        'from baremetal_acc.scheduling.pools import Demand\n'
        'from baremetal_acc.errors import DemandRefused\n'
        'from baremetal_acc.pools.spool import Spool\n'
        'spool = Spool(root=Path(sys.argv[1]), most=100)\n'
        'taken = refused = 0\n'
        'for n in range(40):\n'
        '    name = f"same-{n}" if n < 10 else f"{sys.argv[2]}-{n}"\n'
        '    try:\n'
        '        taken += spool.put(Demand(id=name, function="aes", at=datetime(2026, 11, 22, 12, tzinfo=UTC)))\n'
        '    except DemandRefused:\n'
        '        refused += 1\n'
        'print(taken, refused)\n'
    )
    running = [subprocess.Popen([sys.executable, '-c', code, str(root), str(n)], stdout=subprocess.PIPE) for n in range(4)]
    said = [tuple(map(int, one.communicate(timeout=120)[0].split())) for one in running]
    assert [0] * 4 == [one.returncode for one in running]
    there = Spool(root=root).read(NOW, LASTS)
    assert (100, 30) == (sum(taken for taken, _ in said), sum(refused for _, refused in said))
    assert 100 == len({d.id for d in there}) == len(there)
    assert 30 == Spool(root=root).refused()


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'{',
        b'[]',
        b'\xff\xfe',
        b'[' * 5000,
        b'{"demand": {"id": 1, "function": "aes", "at": "2026-11-22T12:00:00+00:00"}}',
    ],
)
def test_what_cannot_be_read_is_reported_once_and_left(spool: Spool, caplog: pytest.LogCaptureFixture, content: bytes) -> None:
    """A damaged row stops nobody: it is named in the log once, stays, and all others count."""
    spool.put(demand('good'))
    spool.put(demand('bad'))
    execute(spool, "UPDATE demand SET told = ? WHERE id = 'bad'", content)
    with caplog.at_level(logging.WARNING):
        assert ('good',) == tuple(d.id for d in spool.read(NOW, LASTS))
        assert ('good',) == tuple(d.id for d in spool.read(NOW, LASTS))
    assert 1 == len(caplog.records)
    assert f"{spool.root / 'demands.sqlite'}: stored demand 'bad' cannot be read" in caplog.text
    assert ('bad', content) == rows(spool)[0]


def test_what_is_over_is_forgotten_though_another_version_spelt_it(spool: Spool) -> None:
    """And a time to come is put right there."""
    spool.put(demand('old', at=NOW - LASTS))
    spool.put(demand('to come', at=NOW + LASTS))
    for name, data in rows(spool):
        execute(spool, 'UPDATE demand SET told = ? WHERE id = ?', json.dumps(json.loads(data), indent=3).encode(), name)
    assert (demand('to come'),) == spool.read(NOW, LASTS)
    assert ['to come'] == [row[0] for row in rows(spool)]
    assert (demand('to come'),) == spool.read(NOW + LASTS - SECOND, LASTS)


def test_one_under_the_id_of_another_is_left(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody has copied it."""
    spool.put(demand('a'))
    execute(spool, "UPDATE demand SET id = 'b'")
    with caplog.at_level(logging.WARNING):
        assert () == spool.read(NOW, LASTS)
    assert 'it is stored under the id of another demand' in caplog.text


def test_a_folder_that_others_may_write_is_refused(spool: Spool) -> None:
    """Whoever may write there could have the fleet programmed."""
    spool.put(demand())
    spool.root.chmod(0o770)
    for use in (lambda: spool.put(demand('b')), lambda: spool.read(NOW, LASTS), lambda: spool.drop('a')):
        with pytest.raises(StateError, match='other users may write there'):
            use()


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    """The error names the folder and the option."""
    (tmp_path / 'demands').write_text('')
    with pytest.raises(StateError, match='demands: cannot be used: File exists') as caught:
        Spool(root=tmp_path / 'demands').put(demand())
    assert 'folder' in (caught.value.hint or '')


def test_a_watcher_sees_that_something_came(spool: Spool) -> None:
    """What is cheap to ask for grows when a demand comes, so that nobody has to wait for the next turn."""
    spool.put(demand('a'))
    before = spool.names()
    spool.put(demand('b'))
    assert before < spool.names()

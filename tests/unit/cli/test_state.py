# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is remembered from run to run: it comes back as it was, is nobody else's business, and is never half written."""

import errno
import json
import os
import re
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from baremetal_acc.cli.history import HistoryEntry, of_job
from baremetal_acc.cli.state import TargetState, TargetStore, Unlocked, folder
from baremetal_acc.errors import Refused, StaleJob, StateError
from baremetal_acc.model.codec import encode
from baremetal_acc.model.job import Flow
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from baremetal_acc.state_file import StateFile
from tests.unit.planning import values as v

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def state() -> TargetState:
    made = plan(v.inventory(), v.baseline(), v.NODE, [v.image()])
    job = begin(
        made, identity='1', node='node-1', flow=Flow.CLI, step='apply', lifecycle=3, now=NOW, timeout=timedelta(hours=1)
    )
    return TargetState(
        target='node-1',
        lifecycle=3,
        known=frozenset({AcceleratorId('uuid:1')}),
        unlocked=(Unlocked(accelerator=AcceleratorId('uuid:1'), at=NOW),),
        job=job,
    )


@pytest.fixture
def store(tmp_path) -> TargetStore:
    return TargetStore(root=tmp_path / 'state')


def test_a_state_comes_back_as_it_was(store):
    """Job, lifecycle, known devices and marks; a target that is new has a fresh one."""
    assert TargetState(target='node-1') == store.read('node-1')
    store.write(state())
    assert state() == store.read('node-1')
    assert state().job == store.read('node-1').unfinished


def stored(store, content: bytes | None = None) -> bytes:
    """What the database has of node-1.

    :param content: it is given this.
    """
    with closing(sqlite3.connect(store.root / 'state.sqlite')) as db:
        if content is not None:
            db.execute("INSERT OR REPLACE INTO target VALUES ('node-1', ?)", (content,))
            db.commit()
        return db.execute("SELECT state FROM target WHERE name = 'node-1'").fetchone()[0]


def test_only_the_owner_can_read_it(store):
    """Folders 0700, files 0600, whatever the umask."""
    old = os.umask(0)
    try:
        store.write(state())
        with store.alone('node-1'):
            pass
    finally:
        os.umask(old)
    assert 0o600 == stat.S_IMODE((store.root / 'state.sqlite').stat().st_mode)
    assert {0o700} == {stat.S_IMODE(p.stat().st_mode) for p in (store.root, store.root / 'locks')}


def test_nothing_is_left_beside_it(store):
    """No journal, and nothing of how it was made; what stands where earlier releases kept jobs leads to it."""
    for _ in range(2):
        store.write(state())
        assert ['jobs', 'state.sqlite'] == sorted(p.name for p in store.root.iterdir())
    assert Path('state.sqlite') == (store.root / 'jobs').readlink()


def test_reading_makes_nothing(store):
    """Not even the folder."""
    store.check()
    assert TargetState(target='node-1') == store.read('node-1')
    assert not store.root.exists()


def test_a_folder_where_others_may_write_is_refused(store):
    """Proof that others can forge proves nothing."""
    store.root.mkdir(mode=0o700)
    store.root.chmod(0o777)
    with pytest.raises(StateError, match=r'could forge the evidence in it.*chmod 700'):
        store.write(state())


@pytest.mark.parametrize('place', ['', 'state.sqlite'])
def test_what_others_may_write_is_not_believed(store, place):
    """Neither a verdict nor what is published rests on it; reading it is an error, not a fresh start."""
    store.write(state())
    (store.root / place).chmod(0o770)
    for use in (lambda: store.read('node-1'), store.check):
        with pytest.raises(StateError, match=r'other users may write .*, and could forge the evidence in it'):
            use()


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can give a file to somebody else')
def test_what_somebody_else_owns_is_not_believed(store):
    """Whatever its mode: its owner can change it."""
    store.write(state())
    os.chown(store.root / 'state.sqlite', 65534, 65534)
    with pytest.raises(StateError, match='other users may write it'):
        store.read('node-1')


def test_a_link_is_not_followed_and_a_pipe_not_waited_for(store, tmp_path):
    """Nothing of ours makes either."""
    store.write(state())
    path = store.root / 'state.sqlite'
    path.rename(tmp_path / 'elsewhere')
    path.symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(StateError, match='is a link'):
        store.read('node-1')
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(StateError, match='is not a regular file'):
        store.read('node-1')


@pytest.mark.parametrize(
    ('pragma', 'says'),
    [
        ('max_page_count = 1', 'database or disk is full .fix the cause, then run the same command again'),
        ('query_only = ON', 'attempt to write a readonly database .set XDG_STATE_HOME to a folder that only you'),
    ],
)
def test_a_state_that_cannot_be_written_leaves_the_old_one(store, monkeypatch, pragma, says):
    """And nothing beside it. Who has no room is not sent to another folder: a job that may be writing would be forgotten."""
    store.write(state())
    connect = StateFile._connect

    def limited(file: StateFile, path: Path) -> sqlite3.Connection:
        found = connect(file, path)
        found.execute(f'PRAGMA {pragma}')
        return found

    monkeypatch.setattr(StateFile, '_connect', limited)
    long = frozenset(AcceleratorId(f'uuid:{n}') for n in range(10_000))
    with pytest.raises(StateError, match=f'state.sqlite: cannot be written: {says}'):
        store.write(replace(state(), known=long))
    monkeypatch.undo()
    assert state() == store.read('node-1')
    assert ['jobs', 'state.sqlite'] == sorted(p.name for p in store.root.iterdir())


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'\xff',
        b'[]',
        b'{"format": 0}',
        b'{"format": true}',
        b'{"format": 1, "target": "node-1"',
        b'{"format": 1, "target": "node-2"}',
        b'{"format": 1, "target": "node-1", "job": 5}',
        b'[' * 100_000,
    ],
)
def test_a_state_that_cannot_be_used_is_an_error(store, content):
    """It says which one, and what forgetting it means; it is never taken for a fresh start, and no other is touched."""
    store.write(state())
    store.write(replace(state(), target='node-2'))
    stored(store, content)
    says = r'state\.sqlite: the stored state of node-1 cannot be used.*delete it .sqlite3 .*DELETE FROM'
    with pytest.raises(StaleJob, match=says) as caught:
        store.read('node-1')
    assert replace(state(), target='node-2') == store.read('node-2')
    command = re.search(r'sqlite3 (\S+) "(.*?)"', caught.value.hint)
    assert command is not None
    with closing(sqlite3.connect(command[1])) as db:
        db.execute(command[2])
        db.commit()
    assert TargetState(target='node-1') == store.read('node-1')


@pytest.mark.parametrize('where', ['state', 'job'])
def test_what_a_newer_version_wrote_is_left_to_that_version(store, where):
    """An interrupted job may be in it: nobody is told to delete it."""
    store.write(state())
    raw = json.loads(stored(store))
    (raw if where == 'state' else raw['job'])['format'] = 99
    stored(store, json.dumps(raw).encode())
    with pytest.raises(StaleJob, match=r'a newer version of baremetal-acc wrote it .*99, this version reads 1.*do not delete'):
        store.read('node-1')


def test_a_cut_or_empty_state_may_have_held_an_interrupted_job(store):
    """That is said before anybody forgets it."""
    store.write(state())
    whole = stored(store)
    for content, what in ((b'', 'it is empty'), (whole[: len(whole) // 2], 'it is not complete JSON')):
        stored(store, content)
        with pytest.raises(StaleJob, match=rf'{what}.*an interrupted job may have been in it'):
            store.read('node-1')


def entry(number: int, target: str = 'node-1') -> HistoryEntry:
    return HistoryEntry(
        id=f'{target}-{number}', target=target, command='apply', begun=NOW, ended=NOW, outcome='done', by='root', met=True
    )


def test_a_history_is_kept_with_the_state_and_limited_for_each_target(store, monkeypatch):
    """The last ones, the oldest first; another target has its own."""
    monkeypatch.setattr('baremetal_acc.cli.state.MOST', 4)
    empty = TargetState(target='node-1')
    store.write(TargetState(target='other'), entry(0, 'other'))
    for number in range(7):
        store.write(empty, entry(number))
    assert [entry(n) for n in range(3, 7)] == list(store.history('node-1'))
    assert (entry(0, 'other'),) == store.history('other')
    assert ('node-1', 'other') == store.names()
    assert empty == store.read('node-1')


def test_a_database_without_a_history_shows_the_last_job(store):
    """As an earlier release has left it: no time of its end, and the result that it stored. Reading adds no table."""
    assert () == store.history('node-1')
    kept = state()
    store.write(kept)
    assert () == store.history('node-1'), 'the job has not ended'
    ended = replace(kept, job=replace(kept.job, ended=True, reasons=('it burns',), requester='root'))
    store.write(ended)
    [found] = store.history('node-1')
    assert ('1', 'apply', 'root', None, 'failed', ('it burns',)) == (
        found.id,
        found.command,
        found.by,
        found.ended,
        found.outcome,
        found.reasons,
    )
    with closing(sqlite3.connect(store.root / 'state.sqlite')) as db:
        assert [('target',)] == db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    store.write(ended, of_job(ended.job, 'failed', NOW, labels={}, reasons=('it burns',)))
    [now] = store.history('node-1')
    assert replace(found, ended=NOW) == now, 'the job is not told twice'


def test_an_entry_has_a_limited_size(store):
    """What BMCs say may be long; how much is left out is kept."""
    job = replace(state().job, ended=True)
    made = of_job(job, 'failed', NOW, labels={}, reasons=('x' * 10_000,) * 50)
    assert (10, 303, 40) == (len(made.reasons), len(made.reasons[0]), made.more)
    assert len(json.dumps(encode(made))) < 10_000


def test_an_entry_of_another_version_names_what_deletes_it(store):
    """It is not guessed at."""
    store.write(TargetState(target='node-1'), replace(entry(1), format=2))
    with pytest.raises(
        StaleJob, match=r"entry node-1-1 of the history .*unknown format.*DELETE FROM history WHERE id = 'node-1-1'"
    ):
        store.history('node-1')


def test_one_at_a_time(store):
    """A second one is refused with the process that works on the target; another target is free; afterwards it is free."""
    with store.alone('node-1'):
        with store.alone('node-2'):
            pass
        with pytest.raises(Refused, match=f'node-1: process {os.getpid()} is working on it'), store.alone('node-1'):
            pass
    with store.alone('node-1'):
        pass


def test_one_at_a_time_by_whatever_name(store):
    """Two names of one BMC are one BMC; another one is free."""
    one, other = {'192.0.2.1:443': 'https://bmc1'}, {'192.0.2.2:443': 'https://bmc2'}
    with store.alone_at('a', one):
        with store.alone_at('b', other):
            pass
        who = f'b: process {os.getpid()} is working on its BMC https://bmc1 under another name'
        with pytest.raises(Refused, match=who), store.alone_at('b', one | other):
            pass
    with store.alone_at('b', one | other):
        pass


def test_who_works_on_a_target_is_not_told_on_a_full_disk(store, monkeypatch):
    """The lock is the file, not what stands in it."""

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, 'pwrite', fails)
    with store.alone('node-1'), pytest.raises(Refused, match='another process is working on it'), store.alone('node-1'):
        pass


@pytest.mark.parametrize(
    ('environ', 'expected'),
    [
        ({'XDG_STATE_HOME': '/var/s', 'HOME': '/home/x'}, '/var/s/baremetal-acc'),
        ({'XDG_STATE_HOME': 'relative', 'HOME': '/home/x'}, '/home/x/.local/state/baremetal-acc'),
        ({'HOME': '/home/x'}, '/home/x/.local/state/baremetal-acc'),
    ],
)
def test_the_folder_is_where_the_specification_says(environ, expected):
    """A relative XDG_STATE_HOME counts for nothing. Source: XDG Base Directory Specification 0.8."""
    assert expected == str(folder(environ))

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A state database keeps what was committed whatever ends its writer, and takes over once what earlier releases left.

``tests/unit/earlier`` was written by the last commit that kept files (765531e4).
"""

import fcntl
import logging
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from baremetal_acc import atomic_file, state_file
from baremetal_acc.cli.state import TargetState, TargetStore
from baremetal_acc.errors import DemandRefused, Refused, StateError
from baremetal_acc.images.refused import CatalogueRefused
from baremetal_acc.images.serials import Serials
from baremetal_acc.pools.journal import MoveJournal
from baremetal_acc.pools.spool import Spool
from baremetal_acc.scheduling.demand_status import DemandProgress
from tests.unit.cli.test_state import state
from tests.unit.pools.test_journal import ENTRY, NODE
from tests.unit.pools.test_spool import NOW, demand

EARLIER = Path(__file__).with_name('earlier')


@pytest.fixture
def store(tmp_path: Path) -> TargetStore:
    """A state folder as the last release that kept files has left it."""
    root = tmp_path / 'state'
    shutil.copytree(EARLIER / 'state', root)
    for path in (root, *root.rglob('*')):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return TargetStore(root=root)


def run(code: str, *arguments: str, **more: object) -> subprocess.Popen[str]:
    """A process of its own that knows the store ``store`` and the state ``state``."""
    head = (
        'import os, sys, time\nfrom pathlib import Path\nfrom baremetal_acc.cli.state import TargetState, TargetStore\n'
        'from tests.unit.cli.test_state import state\nstore = TargetStore(root=Path(sys.argv[1]))\n'
    )
    return subprocess.Popen([sys.executable, '-c', head + code, *arguments], stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload, no-any-return]


def targets(store: TargetStore) -> list[str]:
    """Those that the database has."""
    with closing(sqlite3.connect(store.root / 'state.sqlite')) as db:
        return [row[0] for row in db.execute('SELECT name FROM target ORDER BY name')]


# ------------------------------------------------------------------------------------------------------------- a database


def test_a_writer_that_is_killed_in_the_middle_leaves_what_was_committed(tmp_path: Path) -> None:
    """Also where some of it has reached the file: the next one rolls it back."""
    store = TargetStore(root=tmp_path / 'state')
    store.write(state())
    code = (
        'with store._file().writing() as db:\n'
        '    db.execute("PRAGMA cache_size = 1")\n'
        '    db.execute("UPDATE target SET state = zeroblob(3000000)")\n'
        '    print("written", flush=True)\n'
        '    time.sleep(60)\n'
    )
    process = run(code, str(store.root))
    assert process.stdout is not None
    assert 'written\n' == process.stdout.readline()
    process.kill()
    process.communicate()
    assert (store.root / 'state.sqlite-journal').stat().st_size > 0
    assert state() == store.read('node-1')
    assert 0o600 == stat.S_IMODE((store.root / 'state.sqlite').stat().st_mode)


def test_a_disk_that_is_full_leaves_what_was_committed(tmp_path: Path) -> None:
    """The error names the file and what to do."""
    store = TargetStore(root=tmp_path / 'state')
    store.write(state())
    process = run(
        'try:\n    store.write(TargetState(target="node-1"))\nexcept Exception as exc:\n    print(type(exc).__name__, exc)\n',
        str(store.root),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    said = process.communicate()[0]
    assert said.startswith(f'StateError {store.root / "state.sqlite"}: cannot be written: disk I/O error (fix the cause, then')
    assert state() == store.read('node-1')


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    """The first ones make it; none is lost."""
    store = TargetStore(root=tmp_path / 'state')
    code = 'for n in range(8):\n    store.write(TargetState(target=f"{sys.argv[2]}-{n}"))\n'
    running = [run(code, str(store.root), str(n)) for n in range(4)]
    assert [0] * 4 == [one.wait(timeout=120) for one in running]
    for one in running:
        one.communicate()
    assert sorted(f'{p}-{n}' for p in range(4) for n in range(8)) == targets(store)


def test_a_process_that_was_forked_in_a_transaction_spoils_nothing(tmp_path: Path) -> None:
    """It has no connection of its own, and the end of it is no end of ours."""
    store = TargetStore(root=tmp_path / 'state')
    store.write(state())
    with store._file().writing() as db:
        db.execute('UPDATE target SET state = ?', (b'{}',))
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        other = sqlite3.connect(store.root / 'state.sqlite', timeout=0, isolation_level=None)
        with closing(other), pytest.raises(sqlite3.OperationalError, match='locked'):
            other.execute('BEGIN IMMEDIATE')
    assert [(b'{}',)] == store._file().select('SELECT state FROM target')


@pytest.mark.parametrize(
    ('spoil', 'says'),
    [
        (lambda path: os.truncate(path, 0), 'cannot be used: it is empty .restore'),
        (lambda path: path.write_bytes(b'{"format": 1}'), 'cannot be used: file is not a database .restore'),
        (lambda path: path.write_bytes(path.read_bytes()[:4096] + b'\xff' * 4096), 'cannot be used: .* malformed .restore'),
        (lambda path: os.truncate(path, 4096), 'cannot be used: .* malformed .restore'),
        (lambda path: execute(path, 'DROP TABLE target'), 'cannot be used: no such table: target .restore'),
        (lambda path: execute(path, 'PRAGMA user_version = 0'), 'cannot be used: it has no tables of baremetal-acc .restore'),
        (
            lambda path: execute(path, 'PRAGMA user_version = 2'),
            '.* a newer version .* wrote it .version 2, this one reads 1. .use',
        ),
    ],
)
def test_a_damaged_database_is_told_and_never_begun_anew(tmp_path: Path, spoil, says: str) -> None:
    """An interrupted job may have been in it; neither reading nor writing passes over it."""
    store = TargetStore(root=tmp_path / 'state')
    store.write(state())
    spoil(store.root / 'state.sqlite')
    for use in (lambda: store.read('node-1'), lambda: store.write(state())):
        with pytest.raises(StateError, match=rf'state\.sqlite: {says}'):
            use()


def execute(path: Path, sql: str) -> None:
    """Change a database behind its owner's back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(sql)
        db.commit()


def test_what_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: nobody has a row read that fills the memory."""
    store = TargetStore(root=tmp_path / 'state')
    store.write(state())
    monkeypatch.setattr(state_file, 'LARGEST', 2000)
    for use in (lambda: store.read('node-1'), lambda: store.write(state())):
        with pytest.raises(StateError, match='a row has more than 2000 bytes'):
            use()


# ------------------------------------------------------------------------------------------------------- earlier releases


def test_jobs_of_an_earlier_release_are_taken_over(store: TargetStore) -> None:
    """All at once, at the first look; the files are kept beside, and a link stands in their place."""
    before = {p.name: p.read_bytes() for p in (store.root / 'jobs').iterdir()}
    assert (state(), TargetState(target='node-3')) == (store.read('node-1'), store.read('node-3'))
    assert ('node-2', 3, None) == ((two := store.read('node-2')).target, two.lifecycle, two.job)
    assert before == {p.name: p.read_bytes() for p in (store.root / 'jobs.migrated').iterdir()}
    assert Path('state.sqlite') == (store.root / 'jobs').readlink()
    store.write(TargetState(target='node-1'))
    assert TargetState(target='node-1') == store.read('node-1')


def test_serials_of_an_earlier_release_are_taken_over(store: TargetStore) -> None:
    """Signed and unsigned ones; what was older then is older now."""
    serials = Serials(path=store.root / 'serials.sqlite')
    for name, serial, signed in (('a', 6, True), ('a', 8, False), ('b', 2**53 - 1, False)):
        with pytest.raises(CatalogueRefused, match='was seen before'):
            serials.accept(Path(f'/etc/{name}.toml'), serial, 'sha256:x', signed=signed)
    serials.accept(Path('/etc/a.toml'), 7, 'sha256:7', signed=True)
    with pytest.raises(CatalogueRefused, match='has serial 7, which it had before'):
        serials.accept(Path('/etc/a.toml'), 7, 'sha256:8', signed=True)
    assert (EARLIER / 'state' / 'serials.json').read_bytes() == (store.root / 'serials.json.migrated').read_bytes()
    assert Path('serials.sqlite') == (store.root / 'serials.json').readlink()


def test_moves_of_an_earlier_release_are_taken_over(store: TargetStore) -> None:
    """By ``pool plan``, too, which moves nothing; and before the lock of who moves machines is taken."""
    journal = MoveJournal(root=store.root / 'pool')
    with journal.alone():
        undone, going = journal.read()
    assert (ENTRY, (f'{NODE[:-1]}4', None)) == (undone, (going.move.machine, going.why))
    journal.drop(undone)
    assert (going,) == journal.read()
    assert Path('moves.sqlite') == (journal.root / 'moves').readlink()
    assert 2 == len(list((journal.root / 'moves.migrated').iterdir()))


def test_moves_are_not_taken_from_whom_moves_machines(store: TargetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``pool watch`` of an earlier release goes on."""
    monkeypatch.setattr(state_file, 'BUSY_SECONDS', 0.2)
    journal = MoveJournal(root=store.root / 'pool')
    with (
        atomic_file.alone(journal.root / 'lock'),
        pytest.raises(StateError, match='process of an earlier release has locked it'),
    ):
        journal.read()
    assert (journal.root / 'moves').is_dir()
    assert 2 == len(journal.read())


def test_demands_of_an_earlier_release_are_taken_over(store: TargetStore, caplog: pytest.LogCaptureFixture) -> None:
    """With how far it has come with them, how many were refused, and their bounds; what cannot be used is told and left."""
    root = store.root / 'demands'
    (root / f'{"1" * 16}-{"1" * 16}-{"1" * 32}.json').write_text('{}')
    spool = Spool(root=root, most_of_an_asker=2)
    with caplog.at_level(logging.WARNING):
        told = spool.told(NOW + timedelta(minutes=2), timedelta(minutes=15))
    assert ['b', 'c', 'req-1/1', 'req-1/2'] == [t.demand.id for t in told]
    assert (DemandProgress.WAITING, DemandProgress.SCHEDULABLE) == (told[0].progress, told[1].progress)
    assert (('nova', 'project'), 'r', timedelta(minutes=1)) == ((told[1].source, told[1].asker), told[1].provider, told[1].took)
    assert 1 == spool.refused()
    assert (1, True) == (len(caplog.records), 'unknown format; it is not imported' in caplog.text)
    assert ['.lock', 'demands.sqlite'] == sorted(p.name for p in root.iterdir() if p.suffix != '.migrated')
    with pytest.raises(DemandRefused, match='too many demands: 2 of project for aes stored already'):
        spool.put(demand('d'), 'nova', 'project')
    assert not spool.put(demand('b', resource_class='Gold'), 'nova', 'project')
    with pytest.raises(OSError, match='Too many levels of symbolic links'):
        os.open(root / '.lock', os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


@pytest.mark.parametrize('number', range(5))
def test_a_takeover_of_demands_that_breaks_off_is_gone_on_with(
    store: TargetStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Each of its files is renamed by itself: whichever was the last one, each demand is there once."""
    root, rename, left = store.root / 'demands', os.rename, iter(range(number))

    def breaks_off(*names: Path) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        rename(*names)

    monkeypatch.setattr(os, 'rename', breaks_off)
    with pytest.raises(KeyboardInterrupt):
        Spool(root=root).names()
    monkeypatch.undo()
    spool = Spool(root=root)
    assert ({'b', 'c', 'req-1/1', 'req-1/2'}, 1) == (spool.names(), spool.refused())
    assert spool.drop('b')
    assert {'c', 'req-1/1', 'req-1/2'} == Spool(root=root).names()
    assert 5 == len(list(root.glob('*.migrated')))


def test_where_all_demands_were_served_the_refused_ones_count_on(store: TargetStore) -> None:
    """There is nothing else to be taken over."""
    root = store.root / 'demands'
    for path in root.glob('*.json'):
        path.unlink()
    assert (1, ()) == (Spool(root=root).refused(), Spool(root=root).read(NOW, timedelta(minutes=15)))


def test_a_database_that_was_moved_away_is_begun_anew(store: TargetStore) -> None:
    """That is what the operator does; what was taken over before does not come back."""
    spool, journal, serials = (
        Spool(root=store.root / 'demands'),
        MoveJournal(root=store.root / 'pool'),
        store.root / 'serials.sqlite',
    )
    assert (2, 4) == (len(journal.read()), len(spool.names()))
    store.read('node-1')
    Serials(path=serials).accept(Path('/etc/a.toml'), 7, 'sha256:7', signed=True)
    for path in (store.root / 'state.sqlite', serials, spool.root / 'demands.sqlite', journal.root / 'moves.sqlite'):
        path.rename(path.with_suffix('.away'))
    assert TargetState(target='node-1') == store.read('node-1')
    store.write(TargetState(target='node-1'))
    Serials(path=serials).accept(Path('/etc/a.toml'), 1, 'sha256:1', signed=True)
    assert ((), True, 0) == (journal.read(), spool.put(demand('b')), spool.refused())
    journal.write(ENTRY)
    assert (ENTRY,) == journal.read()


def test_what_an_earlier_release_left_and_is_damaged_is_judged_by_target(store: TargetStore) -> None:
    """As it was then: one that cannot be read is told, and the others are."""
    (store.root / 'jobs' / 'node-2.json').write_bytes(b'\xff')
    assert state() == store.read('node-1')
    with pytest.raises(Exception, match='the stored state of node-2 cannot be used: it is not complete JSON'):
        store.read('node-2')


@pytest.mark.parametrize(
    ('spoil', 'says'),
    [
        (lambda path: path.chmod(0o622), r'node-1\.json: is not a file of this user, or other users may write it'),
        (lambda path: path.parent.chmod(0o777), 'jobs: other users may write there, and could forge the evidence in it'),
        (
            lambda path: (path.rename(path.with_suffix('.x')), path.symlink_to('node-1.x')),
            r'node-1\.json: cannot be used: Too many',
        ),
        (lambda path: (path.unlink(), os.mkfifo(path, 0o600)), r'node-1\.json: is not a file of this user'),
        (lambda path: os.truncate(path, 1 << 40), r'node-1\.json: longer than'),
    ],
)
def test_what_others_may_have_forged_is_not_taken_over(store: TargetStore, spoil, says: str) -> None:
    """Nothing is: it stays as it was, and no database is made."""
    spoil(store.root / 'jobs' / 'node-1.json')
    for _ in range(2):
        with pytest.raises(StateError, match=says):
            store.read('node-2')
    assert not (store.root / 'state.sqlite').exists()
    assert (store.root / 'jobs' / 'node-2.json').is_file()


@pytest.mark.parametrize('dies_at', ['sqlite3.connect', 'os.link', 'os.rename', 'os.symlink', 'os.replace'])
def test_a_takeover_that_is_killed_anywhere_is_gone_on_with(store: TargetStore, dies_at: str) -> None:
    """Nothing is lost, and nothing is there twice, wherever it was killed; and so before and after that call."""
    for after in (False, True):
        root = store.root.with_name(f'{dies_at}-{after}')
        shutil.copytree(store.root, root)
        module, _, name = dies_at.partition('.')
        code = (
            f'import {module}\nreal = {dies_at}\ndef dying(*a, **k):\n'
            f'    {"real(*a, **k)" if after else "pass"}\n    os.kill(os.getpid(), 9)\n'
            f'{dies_at} = dying\nstore.read("node-1")\n'
        )
        killed = run(code, str(root))
        killed.communicate()
        assert -signal.SIGKILL == killed.returncode, name
        found = TargetStore(root=root)
        assert state() == found.read('node-1')
        assert ['node-1', 'node-2'] == targets(found)
        assert {'node-1.json', 'node-2.json'} == {p.name for p in (root / 'jobs.migrated').iterdir()}
        assert (root / 'jobs').is_symlink()


def test_several_processes_take_over_at_once(store: TargetStore) -> None:
    """Each finds all of it, and what one of them writes stays."""
    code = 'found = store.read("node-1") == state()\nstore.write(TargetState(target=sys.argv[2]))\nprint(found)\n'
    running = [run(code, str(store.root), f'new-{n}') for n in range(6)]
    assert ['True\n'] * 6 == [one.communicate(timeout=120)[0] for one in running]
    assert sorted(['node-1', 'node-2', *(f'new-{n}' for n in range(6))]) == targets(store)


def test_a_reader_finds_all_though_another_process_takes_over_at_that_moment(
    store: TargetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has found no database yet, and finds no file of an earlier release any more."""
    real = state_file.Earlier.left

    def left(self: state_file.Earlier, database: Path) -> list[Path]:
        monkeypatch.setattr(state_file.Earlier, 'left', real)
        assert 'True\n' == run('print(store.read("node-1") == state())', str(store.root)).communicate(timeout=120)[0]
        return real(self, database)

    monkeypatch.setattr(state_file.Earlier, 'left', left)
    assert state() == store.read('node-1')


def test_nothing_is_taken_from_a_process_of_an_earlier_release(store: TargetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on writing where nobody reads it any more: it is waited for, but not for ever."""
    monkeypatch.setattr(state_file, 'BUSY_SECONDS', 0.2)
    with (store.root / 'locks' / 'node-1.lock').open('r+') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for use in (lambda: store.read('node-2'), lambda: store.alone('node-2').__enter__()):
            with pytest.raises(
                StateError,
                match=r'node-1\.lock: a process of an earlier release has locked it.*wait until that process has',
            ):
                use()
    with store.alone('node-1'):
        assert state() == store.read('node-1')
        with pytest.raises(Refused, match='is working on it'), store.alone('node-1'):
            pass


def test_an_earlier_release_stops_where_it_finds_the_link(store: TargetStore) -> None:
    """It would begin with an empty memory: it asks for a file in that folder, and makes the folder."""
    store.read('node-1')
    with pytest.raises(NotADirectoryError):
        os.open(store.root / 'jobs' / 'node-1.json', os.O_RDONLY | os.O_NOFOLLOW)
    with pytest.raises(FileExistsError):
        (store.root / 'jobs').mkdir(exist_ok=True)


def test_what_an_earlier_release_did_in_between_is_not_passed_over(store: TargetStore) -> None:
    """Somebody has made its folder again for it: which of the two counts, the operator says."""
    store.read('node-1')
    (store.root / 'jobs').unlink()
    (store.root / 'jobs').mkdir(mode=0o700)
    (store.root / 'jobs' / 'node-1.json').write_text('{}')
    for use in (lambda: store.read('node-1'), lambda: store.write(state()), store.check):
        with pytest.raises(StateError, match=r'jobs: an earlier release has stored state here that .*decide which state is'):
            use()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The inventory of many BMCs is bounded, streamed, not delayed by single BMCs, stoppable, and complete in its report."""

import gc
import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from baremetal_acc.cli.application import App
from baremetal_acc.cli.commands import inventory
from tests.cli.desk import Desk
from tests.cli.rack import PASSWORD, Rack


@pytest.fixture
def rack() -> Iterator[Rack]:
    """A rack full of BMCs."""
    made = Rack()
    try:
        yield made
    finally:
        made.close()


def names(count: int) -> list[str]:
    return [f'node-{number:03}' for number in range(count)]


def test_no_more_bmcs_are_spoken_to_at_a_time_than_the_option_says(desk: Desk, rack: Rack):
    """Sessions that were open at a time, as the BMCs saw it: three of thirty, and all were closed."""
    rack.meet = threading.Barrier(3)
    done = desk.run('inventory', '--stream', *rack.list(desk, names(30), 'max_parallel_targets = 3'))
    assert 0 == done.code, done.err
    assert 30 == len(done.out.splitlines())
    assert (3, {}) == (rack.peak, rack.open)
    assert dict.fromkeys(names(30), 1) == rack.logins


def test_the_document_has_all_targets_in_the_order_of_the_list(desk: Desk, rack: Rack):
    """Whatever the order in which they answered; JSON and YAML say the same, and the last line on stderr counts them."""
    listed = [*names(9), 'aaa'][::-1]
    arguments = rack.list(desk, listed)
    done = desk.run('inventory', '-f', 'json', *arguments)
    assert (0, 'baremetal-acc: 10 read, 0 with gaps, 0 failed\n') == (done.code, done.err)
    assert listed == [t['target'] for t in done.document['targets']]
    assert json.dumps(done.document, indent=2) + '\n' == done.out
    assert done.document == yaml.safe_load(desk.run('inventory', '-f', 'yaml', *arguments).out)


def test_bmcs_that_do_not_answer_hold_up_nobody(desk: Desk, rack: Rack):
    """Four that are silent stand first in the list; the others' results are there while they still are."""
    listed = names(24)
    rack.silent = frozenset(listed[:4])
    process = desk.start('inventory', '--stream', *rack.list(desk, listed))
    assert process.stdout is not None
    first = {json.loads(process.stdout.readline())['target'] for _ in range(20)}
    assert set(listed[4:]) == first
    assert process.poll() is None
    rack.released.set()
    out, err = process.communicate(timeout=60)
    assert set(listed[:4]) == {json.loads(line)['target'] for line in out.splitlines()}
    assert (0, {}) == (process.returncode, rack.open), err


def test_what_fails_for_some_is_told_and_counted(desk: Desk, rack: Rack):
    """The worst code of all, one line for each that failed, and the document names the error."""
    targets = {name: rack.target(name) for name in names(6)}
    targets['node-001']['bmcs']['host']['password'] = 'wrong'
    targets['node-003']['bmcs']['host']['address'] = 'http://127.0.0.1:9'
    targets['node-004']['bmcs']['host']['password_env'] = 'NOT_THERE'
    del targets['node-004']['bmcs']['host']['password']
    targets['node-005']['bmcs']['host']['system'] = '/redfish/v1/Systems/none'
    desk.bmcs(targets)
    done = desk.run('inventory', '-f', 'json')
    assert 5 == done.code
    errors = {t['target']: t['error'] and t['error']['type'] for t in done.document['targets']}
    assert {
        'node-000': None,
        'node-001': 'BmcNotAuthorised',
        'node-002': None,
        'node-003': 'BmcUnreachable',
        'node-004': 'UsageError',
        'node-005': 'BmcAnswerInvalid',
    } == errors
    assert ['node-001', 'node-003', 'node-004', 'node-005'] == sorted(line.split()[2].rstrip(':') for line in done.errors)
    assert 'baremetal-acc: 2 read, 0 with gaps, 4 failed' == done.err.splitlines()[-1]
    assert PASSWORD not in done.out + done.err


def test_a_defect_that_one_machine_brings_to_light_costs_no_other(desk: Desk, rack: Rack, monkeypatch, capsys):
    """It is our own fault and says so, with its code; the other targets are read."""
    real = inventory.look

    def look(target: Any, *rest: Any, **how: Any) -> Any:
        if target.name == 'node-001':
            raise KeyError('a defect')
        return real(target, *rest)

    monkeypatch.setattr(inventory, 'look', look)
    monkeypatch.chdir(desk.folder)
    app = App()
    app.stdout = io.StringIO()
    assert 1 == app.run(['inventory', '-f', 'json', *rack.list(desk, names(3))])
    errors = [t['error'] for t in json.loads(app.stdout.getvalue())['targets']]
    assert [None, None] == [errors[0], errors[2]]
    assert "internal error: KeyError: 'a defect'" in errors[1]['message']
    assert 'baremetal-acc: 2 read, 0 with gaps, 1 failed\n' in capsys.readouterr().err


def test_a_stream_keeps_nothing(desk: Desk, rack: Rack, monkeypatch, capsys):
    """What was printed is gone: of fifteen results only those of targets that were in progress are in memory. -q is quiet."""
    alive: list[int] = []

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            gc.collect()
            alive.append(sum(isinstance(o, inventory.FoundTarget) for o in gc.get_objects()))
            return super().write(text)

    monkeypatch.chdir(desk.folder)
    app = App()
    app.stdout = Out()
    assert 0 == app.run(['-q', 'inventory', '--stream', *rack.list(desk, names(15), 'max_parallel_targets = 2')])
    assert 15 == len(alive)
    assert max(alive) <= 4
    assert '' == capsys.readouterr().err


def started_and_silent(desk: Desk, rack: Rack, *arguments: str) -> subprocess.Popen[str]:
    """A run over ten targets that has come to where two of them are silent and two more were read."""
    listed = names(10)
    rack.silent = frozenset((listed[0], listed[2]))
    process = desk.start('inventory', *arguments, *rack.list(desk, listed, 'max_parallel_targets = 2', 'bmc_timeout = 600'))
    rack.waited_for.acquire()
    rack.waited_for.acquire()
    return process


def test_ctrl_c_ends_it_and_says_how_far_it_came(desk: Desk, rack: Rack):
    """Nothing more is begun, what was read is printed, the document says of the others that nobody asked them."""
    process = started_and_silent(desk, rack, '-f', 'json')
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert 130 == process.returncode
    said, _, summary = err.partition('\n')
    assert 'baremetal-acc: interrupted: closing the sessions of BMCs, for 5 s at most' == said
    assert 'baremetal-acc: interrupted: 9 of 10 targets were not read; 1 read, 0 with gaps, 0 failed\n' == summary
    targets = json.loads(out)['targets']
    assert names(10) == [t['target'] for t in targets]
    assert [1] == [number for number, t in enumerate(targets) if t['error'] is None]
    assert {'not read: the run was interrupted'} == {t['error']['message'] for t in targets if t['error'] is not None}
    assert sorted(names(3)) == sorted(rack.logins)


def test_ctrl_c_leaves_no_sessions_where_bmcs_still_answer(desk: Desk, rack: Rack):
    """Those in progress have a moment to log out; the lines of a stream are whole."""
    process = started_and_silent(desk, rack, '--stream')
    process.send_signal(signal.SIGINT)
    rack.released.set()
    out, err = process.communicate(timeout=60)
    assert 130 == process.returncode, err
    assert {} == rack.open
    assert len([json.loads(line) for line in out.splitlines()]) >= 1
    assert 'Traceback' not in err
    assert sum(rack.logins.values()) <= 4


def test_what_stopping_itself_has_broken_off_is_no_failure(desk: Desk, rack: Rack, monkeypatch, capsys):
    """A target whose connection we refused to open was not read; nobody shall look for a fault at its BMC."""
    real = inventory.look

    def look(target: Any, store: Any, tools: Any, warn: Any, **how: Any) -> Any:
        if target.name == 'node-001':
            os.kill(os.getpid(), signal.SIGINT)
            while True:  # until that has arrived
                tools.connect(target.bmcs[0]).close()
        return real(target, store, tools, warn)

    monkeypatch.setattr(inventory, 'look', look)
    monkeypatch.chdir(desk.folder)
    app = App()
    app.stdout = io.StringIO()
    assert 130 == app.run(['inventory', '-f', 'json', *rack.list(desk, names(4), 'max_parallel_targets = 1')])
    errors = [t['error'] for t in json.loads(app.stdout.getvalue())['targets']]
    assert errors[0] is None
    assert ['not read: the run was interrupted'] * 3 == [e['message'] for e in errors[1:]]
    said, _, summary = capsys.readouterr().err.partition('\n')
    assert 'baremetal-acc: interrupted: closing the sessions of BMCs, for 5 s at most' == said
    assert 'baremetal-acc: interrupted: 3 of 4 targets were not read; 1 read, 0 with gaps, 0 failed\n' == summary
    assert {} == rack.open


def test_two_ctrl_c_end_it_at_once(desk: Desk, rack: Rack):
    """Nobody waits for BMCs any more, and still there is no traceback."""
    process = started_and_silent(desk, rack, '--stream')
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert 'Traceback' not in err


def test_a_reader_that_goes_away_stops_the_work(desk: Desk, rack: Rack):
    """As with ``| head -1``: quietly, with its sessions closed, and the rest of the fleet is not asked."""
    process = desk.start('inventory', '--stream', *rack.list(desk, names(200), 'max_parallel_targets = 2'))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    process.wait(60)
    assert ('', 0) == (process.stderr.read(), process.returncode)
    assert {} == rack.open
    assert sum(rack.logins.values()) < 200


TWO = 'fleet_processes = 2'


@pytest.mark.parametrize('form', ['json', 'stream'])
def test_two_processes_tell_the_same_as_one(desk: Desk, rack: Rack, form: str):
    """Each target is read once, what fails is told alike, and no session is left, however long a BMC takes to close it."""
    rack.logout_seconds = 0.5
    targets = {name: rack.target(name) for name in names(40)}
    targets['node-007']['bmcs']['host']['password'] = 'wrong'
    said = []
    for more in ((), (TWO,)):
        rack.logins.clear()
        arguments = rack.list(desk, names(40), *more)
        desk.bmcs(targets)
        done = desk.run('inventory', *(('--stream',) if form == 'stream' else ('-f', 'json')), *arguments)
        assert {} == rack.open
        assert dict.fromkeys(set(names(40)) - {'node-007'}, 1) == rack.logins
        bodies = list(map(json.loads, done.out.splitlines())) if form == 'stream' else done.document['targets']
        for body in bodies:
            body.pop('at', None)
        said.append((done.code, done.err, sorted(bodies, key=lambda b: b['target'])))
    assert said[0] == said[1]
    assert 40 == len(said[1][2])
    assert '39 read, 0 with gaps, 1 failed' in said[1][1]


def test_ctrl_c_ends_both_processes(desk: Desk, rack: Rack):
    """Sessions are closed where BMCs still answer, what was read is told, and the rest says that it was not."""
    listed = names(40)
    rack.silent = frozenset((listed[0], listed[1]))
    process = desk.start(
        'inventory', '-f', 'json', *rack.list(desk, listed, TWO, 'max_parallel_targets = 2', 'bmc_timeout = 600')
    )
    rack.waited_for.acquire()
    rack.waited_for.acquire()
    process.send_signal(signal.SIGINT)
    rack.released.set()
    out, err = process.communicate(timeout=60)
    assert 130 == process.returncode, err
    assert {} == rack.open
    assert 'Traceback' not in err
    assert err.startswith('baremetal-acc: interrupted: closing the sessions of BMCs, for 5 s at most\n')
    targets = json.loads(out)['targets']
    assert listed == [t['target'] for t in targets]
    assert {'not read: the run was interrupted'} == {t['error']['message'] for t in targets if t['error'] is not None}


LINE = '{{"target": "{name}", "bmcs": {{"host": {{"address": "{address}", "username": "{name}", "password_env": "PW"}}}}}}\n'


@pytest.mark.parametrize('form', ['yaml', 'lines'])
def test_targets_come_from_standard_input(desk: Desk, rack: Rack, form):
    """As the same YAML, or as one target per line; names choose among them as they do in a file."""
    desk.environ['PW'] = PASSWORD
    targets = {name: rack.target(name) for name in names(3)}
    for name in targets:
        targets[name]['bmcs']['host'] |= {'password_env': 'PW'}
        del targets[name]['bmcs']['host']['password']
    text = ''.join(LINE.format(name=name, address=rack.address) for name in names(3))
    if form == 'yaml':
        text = yaml.safe_dump({'format': 1, 'targets': targets})
    process = desk.start('inventory', '--stream', '--bmcs', '-', 'node-000', 'node-002')
    out, err = process.communicate(text, timeout=60)
    assert 0 == process.returncode, err
    assert {'node-000', 'node-002'} == {json.loads(line)['target'] for line in out.splitlines()}


def test_what_is_wrong_on_standard_input_is_told_by_line(desk: Desk):
    """Nothing is asked of anybody before the whole list was understood."""
    good = LINE.format(name='node-1', address='https://127.0.0.1:9')
    process = desk.start('inventory', '--bmcs', '-')
    out, err = process.communicate(good + good, timeout=60)
    assert (2, '') == (process.returncode, out)
    assert "baremetal-acc: error: standard input, line 2: target: 'node-1' occurs twice, first in line 1\n" == err


def test_a_file_of_a_password_is_read_once_for_all(desk: Desk, rack: Rack):
    """Here it is a pipe, which gives what it holds only once."""
    path = desk.folder / 'pw'
    os.mkfifo(path, 0o600)
    targets = {name: rack.target(name) for name in names(5)}
    for name in targets:
        targets[name]['bmcs']['host'] |= {'password_file': 'pw'}
        del targets[name]['bmcs']['host']['password']
    desk.bmcs(targets)
    process = desk.start('inventory', '--stream')
    path.write_text(f'{PASSWORD}\n')
    out, err = process.communicate(timeout=60)
    assert (0, 5) == (process.returncode, len(out.splitlines())), err


def on_a_terminal(desk: Desk, *arguments: str) -> tuple[str, str]:
    """Standard output, and what a terminal got on standard error."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, '-m', 'baremetal_acc.cli.main', *arguments],
        cwd=desk.folder,
        env=os.environ | {'HOME': str(desk.folder), 'XDG_STATE_HOME': str(desk.folder), 'COLUMNS': '200', 'TERM': 'xterm'},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
    )
    os.close(slave)
    shown = b''
    try:
        while piece := os.read(master, 4096):
            shown += piece
    except OSError:
        pass  # the terminal is gone with its last process
    finally:
        os.close(master)
    out, _ = process.communicate(timeout=60)
    return out, shown.decode()


def test_a_terminal_shows_how_far_it_is(desk: Desk, rack: Rack):
    """A line that is drawn over and removed in the end; standard output has none of it, and --no-progress does without."""
    arguments = ('inventory', '--stream', *rack.list(desk, names(5)))
    out, shown = on_a_terminal(desk, *arguments)
    assert 5 == len([json.loads(line) for line in out.splitlines()])
    assert ' of 5 done, 0 failed' in shown
    assert '\x1b[2Kbaremetal-acc: 5 read, 0 with gaps, 0 failed' in shown.replace('\r', '')
    _, plain = on_a_terminal(desk, *arguments, '--no-progress')
    assert 'baremetal-acc: 5 read, 0 with gaps, 0 failed' == plain.strip()
    _, one = on_a_terminal(desk, *arguments, 'node-001')
    assert '' == one


def test_a_state_of_another_version_is_told_once(desk: Desk, rack: Rack):
    """The look goes on without what was remembered. All take it over from an earlier release at once."""
    jobs = Path(desk.folder, 'state', 'baremetal-acc', 'jobs')
    jobs.mkdir(parents=True)
    (jobs / 'node-001.json').write_text('{"format": 99}')
    done = desk.run('inventory', '-f', 'json', *rack.list(desk, names(3)))
    assert 0 == done.code
    assert [f'baremetal-acc: warning: {desk.database}: the stored state of node-001'] == [
        line.partition(' cannot be used')[0] for line in done.err.splitlines()[:-1]
    ]

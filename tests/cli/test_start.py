# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The command starts and ends cleanly, whatever is installed and wherever its output goes."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.desk import Desk, target_of


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An operator's desk where Python starts for each command."""
    return Desk(folder=tmp_path, fresh=True)


WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
from baremetal_acc.cli.main import main
sys.exit(main({arguments!r}))
"""


def without(names: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as if these packages were not installed."""
    code = WITHOUT.format(names=names, arguments=list(arguments))
    return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False)


EXTRAS = ('ironic', 'placement', 'waitress', 'aiohttp', 'cryptography')


def test_the_core_alone_is_enough_for_help():
    """Without Ironic, placement and the emulator's libraries verbs are listed; tests/unit/test_packaging.py has them all."""
    told = without(EXTRAS, '--help')
    assert (0, '') == (told.returncode, told.stderr)
    for verb in ('inventory', 'emulate', 'demo', 'reshape plan'):
        assert re.search(rf'^  {verb} ', told.stdout, re.MULTILINE), verb
    assert (0, '') == ((shown := without(EXTRAS, 'reshape', 'plan', '--help')).returncode, shown.stderr)


@pytest.mark.parametrize(('verb', 'missing'), [('emulate', 'emulator'), ('demo', 'demo')])
def test_a_missing_extra_is_named(verb, missing):
    """One line that says what to install."""
    told = without(EXTRAS, verb)
    assert 2 == told.returncode
    assert 1 == len(told.stderr.splitlines())
    assert f"pip install 'baremetal-acc[{missing}]'" in told.stderr


def test_without_a_command_the_usage_is_shown(desk: Desk):
    """And the code is that of a wrong argument."""
    done = desk.run()
    assert (2, '') == (done.code, done.out)
    assert done.err.startswith('usage: baremetal-acc')


def test_debug_shows_where_it_failed(desk: Desk):
    """A traceback with --debug, wherever it stands, and none without."""
    assert 'Traceback' in desk.run('inventory', '--debug').err
    assert 'Traceback' not in desk.run('inventory').err


def test_a_reader_that_goes_away_is_no_failure(desk: Desk, served):
    """As with ``baremetal-acc inventory | head -0``."""
    desk.bmcs({'node-1': target_of(served)})
    process = desk.start('inventory', '-f', 'json')
    assert process.stdout is not None
    process.stdout.close()
    process.wait(60)
    assert process.stderr is not None
    assert '' == process.stderr.read()


def test_logs_hold_no_secrets(desk: Desk, served):
    """Neither -vv nor a log file shows passwords or tokens."""
    desk.bmcs({'node-1': target_of(served)})
    done = desk.run('-vv', '--log-file', 'log', 'inventory')
    assert 0 == done.code
    text = done.err + (desk.folder / 'log').read_text()
    for bmc in served.bmcs.values():
        assert bmc.password not in text
    assert 'X-Auth-Token' not in text


def at_a_terminal(desk, typed: bytes, *arguments: str) -> tuple[int, str, bytes]:
    """The command at a terminal, where somebody types that when a password is asked for: code, output, and what was shown."""
    master, slave = pty.openpty()
    environ = os.environ | {'HOME': str(desk.folder), 'XDG_STATE_HOME': str(desk.folder)}
    process = subprocess.Popen(
        [sys.executable, '-m', 'baremetal_acc.cli.main', *arguments],
        cwd=desk.folder,
        env=environ,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
        start_new_session=True,
    )
    os.close(slave)
    shown = b''
    while b'Password of' not in shown:
        shown += os.read(master, 1024)
    os.write(master, typed)
    out, _ = process.communicate(timeout=60)
    try:
        while chunk := os.read(master, 1024):
            shown += chunk
    except OSError:
        pass  # the terminal is gone with its last process
    finally:
        os.close(master)
    return process.returncode, out, shown


def test_a_password_is_asked_for_at_a_terminal(desk: Desk, served):
    """It is not echoed, and it works; bars of progress need a terminal too, so this runs in one."""
    target = target_of(served)
    del target['bmcs']['dpu']
    password = target['bmcs']['host'].pop('password')
    desk.bmcs({'node-1': target})
    code, out, shown = at_a_terminal(desk, f'{password}\n'.encode(), 'inventory', '-f', 'json')
    assert 0 == code, shown
    assert b'Password of admin at BMC host of node-1' in shown
    assert password.encode() not in shown
    assert 3 == len(json.loads(out)['targets'][0]['accelerators'])


@pytest.mark.parametrize('utf8', ['0', '1'])
@pytest.mark.parametrize(
    ('typed', 'says'),
    [(b'hunter2\xff\n', b'the input is not UTF-8'), (b'\x04', b'there was no input')],
    ids=['bytes', 'end'],
)
def test_what_is_typed_and_is_no_password_is_a_wrong_argument(desk: Desk, monkeypatch, typed, says, utf8):
    """A letter of a Latin-1 terminal, and Ctrl-D: they were internal errors."""
    monkeypatch.setenv('PYTHONUTF8', utf8)
    target = {'bmcs': {'host': {'address': 'https://127.0.0.1:9', 'username': 'admin'}}}
    desk.bmcs({'node-1': target})
    code, _, shown = at_a_terminal(desk, typed, 'inventory')
    assert 2 == code, shown
    assert b'error: node-1: Password of admin at BMC host of node-1 (https://127.0.0.1:9): ' + says in shown
    assert b'hunter2' not in shown
    assert b'internal' not in shown


@pytest.mark.parametrize(
    ('verb', 'arguments'),
    [
        ('verify', ('verify', '--help')),
        ('verify', ('verify', '--bmcs', 'x', '--target', 'a', '--help')),
        ('verify', ('verify', 'node-1', '-f', 'json', '-h')),
        ('catalogue sign', ('catalogue', 'sign', '--key', 'k', '--help')),
        ('emulate', ('emulate', 'acc-server', '--port', '1', '--help')),
        ('pool demand add', ('-v', 'pool', 'demand', 'add', 'gzip', '--id', '1', '--help')),
    ],
)
def test_help_anywhere_behind_a_verb_is_that_of_the_verb(desk: Desk, verb, arguments):
    """It was an unrecognized argument of help."""
    done = desk.run(*arguments)
    assert (0, '') == (done.code, done.err)
    assert done.out.startswith(f'usage: baremetal-acc {verb} ')


def test_help_for_several_verbs_lists_them_and_for_none_says_so(desk: Desk):
    """As ``help`` does; a verb that is misspelt was an internal error."""
    several = desk.run('pool', '--help')
    assert 0 == several.code
    assert 'pool demand add' in several.out
    wrong = desk.run('verfy', '--bmcs', 'x', '--help')
    assert (2, '') == (wrong.code, wrong.out)
    assert 'did you mean verify?' in wrong.err

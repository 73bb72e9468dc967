# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``status`` and ``history``: what is stored of a target is printed, and no BMC is asked."""

import getpass
import json

import jsonschema
import pytest

from tests.cli.desk import target_of
from tests.cli.test_bad_luck import killed_in_a_flash
from tests.cli.test_failures import LOCK_ONLY
from tests.cli.test_schemas import closed

FLASH = LOCK_ONLY + 'match = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n'


@pytest.fixture
def ask(desk, tree):
    """Run ``status`` or ``history`` with JSON, check it against its schema, and return the code and the first target."""

    def asked(verb, *arguments):
        schema = json.loads((tree / f'doc/source/schemas/{verb}.json').read_text())
        done = desk.run(verb, *arguments, '-f', 'json')
        jsonschema.Draft202012Validator(closed(schema)).validate(done.document)
        return done.code, done.document['targets'][0]

    return asked


def test_the_life_of_a_target_is_told_without_its_bmc(desk, emulated_machine, ask):
    """A flash that fails, one that ends well, and an unlock; the BMC cannot be reached when they are asked for."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1, reset_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', FLASH)
    machine.fault('task-fails')
    assert 6 == desk.run('apply', '--execute', *desk.options).code
    code, spoilt = ask('status')
    assert (3, 'failed', False) == (code, spoilt['last']['outcome'], spoilt['verified']['met'])
    [mark] = spoilt['quarantined']
    assert 'FPGA1_FW' in mark['why']
    [card] = spoilt['custody']
    assert (mark['accelerator'], 'unknown') == (card['accelerator'], card['custody'])

    machine.clear_faults()
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    desk.bmcs({'node-1': target_of(machine, address='https://127.0.0.1:9')})
    code, opened = ask('status')
    assert (3, []) == (code, opened['quarantined'])
    assert ['unlocked on purpose'] == [lock['what'] for lock in opened['open_locks']]
    assert ['in'] == [card['custody'] for card in opened['custody']]
    code, told = ask('history')
    entries = told['entries']
    assert (0, ['unlock', 'apply', 'apply']) == (code, [e['command'] for e in entries])
    assert ['done', 'done', 'failed'] == [e['outcome'] for e in entries]
    assert {getpass.getuser()} == {e['by'] for e in entries}
    assert all(e['begun'] < e['ended'] for e in entries)
    assert 'The device refused the image.' in ' '.join(entries[2]['reasons'])
    [flash] = [a for a in entries[1]['actions'] if a['action'] == 'flash']
    assert ('FPGA1_FW', '2.1.4', 'done') == (flash['subject'], flash['to'], flash['state'])
    assert (True, True) == (entries[1]['met'], entries[1]['begun'] < entries[1]['verified'] <= entries[1]['ended'])
    table = desk.run('history', '--last', '1')
    assert (0, True, False) == (table.code, 'unlock' in table.out, 'apply' in table.out), table.err


def test_a_job_that_was_cut_off_is_told_with_what_ends_it(desk, emulated_machine, ask):
    """What it was doing, since when, who began it, and which locks it has released; it has no entry in the history."""
    machine = emulated_machine('fpga-server', flash_seconds=30)
    desk.prepare(machine)
    desk.write('baseline.toml', FLASH)
    killed_in_a_flash(desk, machine)
    code, found = ask('status')
    assert (3, None) == (code, found['last'])
    job = found['job']
    assert ('apply', getpass.getuser()) == (job['command'], job['by'])
    assert 'flash FPGA1_FW' in job['stage']
    assert 'apply --execute --target node-1 resumes it' == job['next']


def test_a_state_that_cannot_be_read_fails_its_target_alone(desk, served):
    """The other target is printed, and a target of which the list knows nothing is named."""
    desk.bmcs({'node-1': target_of(served), 'node-2': target_of(served, address='https://127.0.0.1:9')})
    jobs = desk.database.parent / 'jobs'
    jobs.mkdir(parents=True, mode=0o700)
    for folder in (jobs.parent, jobs.parent.parent):
        folder.chmod(0o700)
    for name in ('node-1', 'node-3'):
        path = jobs / f'{name}.json'
        path.write_text('{"format": 99}')
        path.chmod(0o600)
    done = desk.run('status', '-f', 'json')
    assert 4 == done.code, done.err
    assert ['StaleJob', None] == [(t['error'] or {}).get('type') for t in done.document['targets']]
    assert 'targets that the list does not have is stored, too: node-3' in done.err
    table = desk.run('status', 'node-2')
    assert (0, '') == (table.code, table.err), table.err
    assert 2 == desk.run('history', '--last', '0').code


def test_a_database_that_cannot_be_used_is_told_once_for_each_target(desk, served):
    """The document is printed."""
    desk.bmcs({'node-1': target_of(served)})
    desk.database.parent.mkdir(parents=True, mode=0o700)
    desk.database.write_text('no database')
    for path, mode in ((desk.database.parent.parent, 0o700), (desk.database.parent, 0o700), (desk.database, 0o600)):
        path.chmod(mode)
    done = desk.run('status', '-f', 'json')
    assert (2, 1) == (done.code, len(done.errors)), done.err
    assert 'file is not a database' in done.document['targets'][0]['error']['message']


def test_people_read_lines_and_a_row_for_each_command(desk, emulated_machine):
    """What needs attention comes first; the actions of a job are counted."""
    desk.prepare(emulated_machine('fpga-server', flash_seconds=0.1, reset_seconds=0.1))
    desk.write('baseline.toml', FLASH)
    first = desk.run('status').out.splitlines()
    assert ['node-1: nothing needs attention', '  no command has been recorded for this target'] == first
    assert 'node-1: no command has been recorded\n' == desk.run('history').out
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    assert 'node-1: nothing needs attention' == desk.run('status').out.splitlines()[0]
    allowed = desk.run('power', 'status', *desk.options)
    assert ['  power on is allowed'] == allowed.out.splitlines()[1:]
    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    opened = desk.run('status').out.splitlines()
    assert 'node-1: 1 open lock' == opened[0]
    assert opened[1].startswith('  open lock: uuid:')
    assert opened[1].endswith(': unlocked on purpose')
    assert opened[2].startswith('  custody in: uuid:')
    assert any(line.startswith('  last verification: not met, ') for line in opened)
    assert any(line.startswith(f'  last command: unlock by {getpass.getuser()}, ') for line in opened)
    rows = [line for line in desk.run('history').out.splitlines() if '| done' in line]
    assert ['4 unlock', '1 flash, 4 lock'] == [line.strip('| ').rpartition('| ')[2] for line in rows]
    refused = desk.run('power', 'status', *desk.options).out.splitlines()
    assert refused[0].endswith(': off')
    assert refused[1].startswith('  power on is refused: ')
    assert any('found unlocked on purpose' in line for line in refused[2:])

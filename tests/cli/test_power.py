# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``power on``, ``power off`` and ``power status``: a host runs only if nothing of its machine is open, spoilt or in doubt."""

import json

import jsonschema
import pytest

from tests.cli.desk import target_of
from tests.cli.test_bad_luck import killed_in_a_flash
from tests.cli.test_failures import LOCK_ONLY, power, wait_for_power
from tests.cli.test_schemas import closed


@pytest.fixture
def run(desk, tree):
    """Run ``power ...`` with JSON, and check the document against its schema."""
    schema = jsonschema.Draft202012Validator(closed(json.loads((tree / 'doc/source/schemas/power.json').read_text())))

    def ran(*arguments):
        done = desk.run('power', *arguments, '-f', 'json', *desk.options)
        schema.validate(done.document)
        return done

    return ran


def resets(machine):
    """The resets that were requested of it."""
    return [e for e in machine.log() if 'ComputerSystem.Reset' in e['path']]


def test_a_host_is_powered_on_only_while_nothing_of_it_is_open_or_spoilt(desk, emulated_machine, run):
    """Not before its locks are proven, with a quarantined card, or after an unlock; and only with --execute.

    The chain of custody and the proof of the locks outlast a power-off and a power-on.
    """
    machine = emulated_machine('fpga-server', flash_seconds=0.1, reset_seconds=0.1)
    desk.prepare(machine)
    rule = 'match = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\ncustody = "required"\n'
    desk.write('baseline.toml', LOCK_ONLY + rule)
    machine.power('ForceOff')
    wait_for_power(machine, 'Off')

    def refused():
        before = len(resets(machine))
        done = run('on', '--execute')
        assert (4, 'Off', before) == (done.code, power(machine), len(resets(machine))), done.err
        assert [None] == [t['may_start'] for t in done.document['targets']]
        return done.errors[0]

    unproven = refused()
    assert 'the host must not run: ' in unproven
    assert 'lock --execute engages the locks and reads them back; after that, power on' in unproven

    machine.fault('task-fails')
    assert 6 == desk.run('apply', '--execute', *desk.options).code
    spoilt = refused()
    assert 'quarantined since' in spoilt
    assert 'apply --execute writes it again' in spoilt
    machine.clear_faults()
    assert 0 == desk.run('apply', '--execute', *desk.options).code

    machine.reset_log()
    for verb, before, after, sent in (('off', 'On', 'Off', 1), ('on', 'Off', 'On', 2)):
        dry = run(verb)
        assert (3, before, sent - 1) == (dry.code, power(machine), len(resets(machine))), dry.err
        assert 'dry run: nothing was written; --execute does it' in dry.err
        done = run(verb, '--execute')
        assert (0, after, sent) == (done.code, power(machine), len(resets(machine))), done.err
        (target,) = done.document['targets']
        assert (True, [(after, True)]) == (target['executed'], [(h['power'], h['requested']) for h in target['hosts']])
    found = desk.run('verify', *desk.options)
    assert 0 == found.code, found.err

    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    assert 'unlocked on purpose at' in refused()


def test_neither_on_nor_off_while_a_write_may_run(desk, emulated_machine, run):
    """A job that was cut off is named with the command that ends it; and the BMC's own task counts where nothing is stored."""
    machine = emulated_machine('fpga-server', flash_seconds=30)
    desk.prepare(machine)
    desk.write('baseline.toml', LOCK_ONLY + 'match = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n')
    killed_in_a_flash(desk, machine)
    before = len(resets(machine))
    on = run('on', '--execute')
    assert (4, before, 'Off') == (on.code, len(resets(machine)), power(machine)), on.err
    assert 'apply --execute --target node-1 resumes it; after that, power on' in on.errors[0]
    machine.power('On')
    off = run('off', '--execute')
    assert (4, before) == (off.code, len(resets(machine))), off.err
    assert 'is unfinished' in off.errors[0]
    desk.environ['XDG_STATE_HOME'] = str(desk.folder / 'other')
    busy = run('off', '--execute')
    assert (4, before) == (busy.code, len(resets(machine))), busy.err
    assert 'still runs' in busy.errors[0]
    assert 'run the same command again when it has ended' in busy.errors[0]


def test_a_host_that_does_not_change_in_time_and_one_that_does_not_answer(desk, emulated_machine, run):
    """Code 3 and what is missing; code 5, and the other target is printed all the same."""
    machine = emulated_machine('fpga-server', reset_seconds=60)
    desk.prepare(machine)
    desk.bmcs({'node-1': target_of(machine), 'gone': target_of(machine, address='https://127.0.0.1:9')})
    desk.write('acc.conf', (desk.folder / 'acc.conf').read_text().replace('reset_timeout = 20', 'reset_timeout = 1'))
    desk.write('baseline.toml', LOCK_ONLY)
    late = run('off', '--execute', 'node-1')
    assert 3 == late.code, late.err
    assert 'power off was requested, but host:' in late.errors[0]
    both = run('status')
    assert 5 == both.code, both.err
    assert {'node-1': False, 'gone': None} == {t['target']: t['may_start'] for t in both.document['targets']}

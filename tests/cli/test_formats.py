# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A verb prints the same content in every format; if the report cannot be printed, the outcome is."""

import json

import pytest
import yaml

from baremetal_acc.emulator.ipmi.site import IpmiOptions
from tests.cli.desk import CONF

LOCK = 'format = 1\n[[rule]]\nblock = ["host-bmc-ipmi"]\n'

READING = (
    ('inventory',),
    ('verify',),
    ('plan',),
    ('apply',),
    ('lock',),
    ('unlock',),
)


def by_ipmi(desk, emulated_machine, **options):
    """A machine that is spoken to by IPMI alone."""
    machine = emulated_machine('fpga-server', ipmi=IpmiOptions(**options))
    bmc = machine.bmcs['host']
    keys = {'address': f'ipmi://127.0.0.1:{bmc.ipmi_port}', 'username': bmc.username, 'password': bmc.password}
    desk.bmcs({'node-1': {'resource_class': 'gold', 'bmcs': {'host': keys}}})
    desk.write('baseline.toml', LOCK)
    desk.write('acc.conf', CONF)
    desk.images()
    return machine


def both(desk, *verb):
    """What a verb that changes nothing prints, in both formats."""
    options = desk.options[:2] if verb[0] == 'inventory' else desk.options
    as_json, as_yaml = (desk.run(*verb, '-f', form, *options) for form in ('json', 'yaml'))
    assert as_json.code == as_yaml.code, as_yaml.err
    loaded = yaml.safe_load(as_yaml.out)
    assert as_json.document == loaded
    return loaded


@pytest.mark.parametrize('how', ['ipmi', 'redfish'])
def test_every_verb_prints_the_same_in_yaml_as_in_json(desk, emulated_machine, how):
    """Before, while and after a machine is locked-verified: its state ended every verb with a RepresenterError."""
    if how == 'ipmi':
        by_ipmi(desk, emulated_machine)
    else:
        machine = emulated_machine('acc-server', flash_seconds=0.1)
        desk.prepare(machine)
        assert 3 == desk.run('program', '--slot', 'Slot0=gzip', '-f', 'yaml', *desk.options).code
    both(desk, 'plan')
    done = desk.run('apply', '--execute', '-f', 'yaml', *desk.options)
    assert 0 == done.code, done.err
    [target] = yaml.safe_load(done.out)['targets']
    assert ('done', True) == (target['outcome'], target['verdict']['met'])
    verdicts = [both(desk, *verb) for verb in READING]
    assert 'locked-verified' in json.dumps(verdicts[1])
    lines = [json.loads(line) for line in desk.run('inventory', '--stream', *desk.options[:2]).out.splitlines()]
    assert ['node-1'] == [line['target'] for line in lines]
    for verb, state in (('unlock', 'done'), ('lock', 'done'), ('lock', 'holds')):
        done = desk.run(verb, '--execute', '-f', 'yaml', *desk.options)
        assert 0 == done.code, done.err
        assert [state] == [t['outcome'] for t in yaml.safe_load(done.out)['targets']]


@pytest.mark.parametrize(('full', 'code'), [(True, 2), (False, 0)])
def test_the_outcome_is_told_where_the_report_cannot_be_written(desk, emulated_machine, full, code):
    """A full disk, and a reader that has gone: what was done is said on standard error."""
    by_ipmi(desk, emulated_machine)
    with open('/dev/full', 'w') as disk:
        process = desk.start('lock', '--execute', '-f', 'json', *desk.options, **({'out': disk} if full else {}))
    if process.stdout is not None:
        process.stdout.close()
        process.stdout = None
    _, err = process.communicate(timeout=60)
    assert 'baremetal-acc: node-1: lock has ended: done\n' in err
    assert 'Traceback' not in err
    assert code == process.returncode, err
    assert 'locked-verified' in desk.run('inventory', '-f', 'json', *desk.options[:2]).out


def test_a_reader_that_goes_away_does_not_make_a_failure_good(desk, emulated_machine):
    """``lock --execute | head -0`` ended with 0, whatever had become of the lock."""
    by_ipmi(desk, emulated_machine, firewall=False)
    process = desk.start('lock', '--execute', '-f', 'json', *desk.options)
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert 4 == process.returncode, err


def test_a_wrong_column_is_told_before_anything_is_done(desk, emulated_machine):
    """It was told after the write, with the code of a wrong argument."""
    by_ipmi(desk, emulated_machine)
    wrong = desk.run('lock', '--execute', '-c', 'tarjet', *desk.options)
    assert 2 == wrong.code
    assert 'did you mean target?' in wrong.err
    assert 'locked' not in desk.run('inventory', '-f', 'json', *desk.options[:2]).out.replace('unlocked', '')

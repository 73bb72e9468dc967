# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The machine does not do what it is told: the exit code, the messages, and the state that is left."""

import re
import time

import pytest

from tests.cli.desk import target_of

LOCK_ONLY = 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\n'


def test_a_flash_that_fails_is_code_six_and_ends_locked(desk, emulated_machine):
    """The BMC's own words are passed on; what was opened is shut again."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write(
        'baseline.toml',
        LOCK_ONLY + 'match = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n',
    )
    machine.fault('task-fails')
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 6 == done.code, done.err
    assert ('failed', 'WriteFailed') == (
        done.document['targets'][0]['outcome'],
        done.document['targets'][0]['error']['type'],
    )
    assert 1 == len(done.errors)
    assert 'flash FPGA1_FW' in done.errors[0]
    assert 'Traceback' not in done.err
    locks = desk.run('inventory', '-f', 'json').document['targets'][0]['accelerators']
    assert ['locked'] == [a['device_lock'] for a in locks]
    machine.clear_faults()
    assert 0 == desk.run('apply', '--execute', *desk.options).code


def test_a_device_that_could_not_be_put_back_stays_quarantined_until_an_apply_ends_well(desk, emulated_machine):
    """The catalogue has no image to go back to: the document and verify name the device, also once the BMC is well again."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    rule = 'match = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n'
    desk.write('baseline.toml', LOCK_ONLY + rule)
    machine.fault('task-fails')
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    machine.clear_faults()
    (device,) = done.document['targets'][0]['quarantined']
    assert f'({device}) is quarantined: FPGA1_FW ran' in done.errors[0]
    desk.write('baseline.toml', LOCK_ONLY)
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    found = desk.run('verify', *desk.options)
    assert 3 == found.code
    assert re.search('quarantined since .* FPGA1_FW ran', found.out), 'what it ran then, whatever it runs now'
    unruled = desk.run('apply', '--execute', *desk.options)
    assert (3, 1) == (unruled.code, len(pushes(machine))), 'nothing says what it has to run, so nothing is written'
    assert 'until apply --execute has written it' in unruled.err
    desk.write('baseline.toml', LOCK_ONLY + rule)
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    assert 2 == len(pushes(machine))
    assert 0 == desk.run('verify', *desk.options).code


def test_a_slot_that_program_has_spoilt_is_mended_by_program(desk, emulated_machine):
    """No rule names it, so no apply writes it. Another slot mends nothing, and what the slot shows is believed by nobody."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', LOCK_ONLY)

    def program(slot):
        return desk.run('program', '--slot', f'{slot}=gzip', '--execute', *desk.options)

    def quarantined():
        return 'quarantined since' in desk.run('verify', *desk.options).out

    assert 0 == program('Slot0').code
    machine.fault('task-fails', uri='*_Slot0', count=1)
    assert 6 == desk.run('program', '--slot', 'Slot0=aes', '--execute', *desk.options).code
    found = desk.run('verify', *desk.options)
    assert (3, True) == (found.code, 'until apply or program --execute has written it' in found.out), found.out
    unruled = desk.run('apply', '--execute', *desk.options)
    assert (3, 2) == (unruled.code, len(pushes(machine))), unruled.err
    assert (
        'this does not end the quarantine, but apply or program --execute that writes the damaged parts again does'
        in unruled.out
    )
    other = program('Slot1')
    assert (0, True) == (other.code, quarantined()), other.err
    mended = program('Slot0')
    assert (0, 4, False) == (mended.code, len(pushes(machine)), quarantined()), mended.err
    assert 'the card is written again, whatever it shows' in mended.out
    again = program('Slot0')
    assert (0, 4) == (again.code, len(pushes(machine))), 'it is believed again'


@pytest.mark.parametrize('renamed', [False, True])
def test_a_quarantined_device_is_written_anew_whatever_it_shows(desk, emulated_machine, renamed):
    """It shows the wanted version, and perhaps another serial number: nobody believes it."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write(
        'baseline.toml', LOCK_ONLY + 'match = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\ncustody = "reported"\n'
    )
    machine.fault('task-fails')
    assert 6 == desk.run('apply', '--execute', *desk.options).code
    machine.clear_faults()
    machine.fault('version-lies', device='FPGA1', version='2.1.4')
    if renamed:
        machine.fault('card-exchanged', device='FPGA1')
    options = ('--forget-vanished', *desk.options)
    assert 3 == desk.run('verify', *desk.options).code
    assert 'flash' in desk.run('plan', *desk.options).out
    done = desk.run('apply', '--execute', *options)
    assert (0, 2) == (done.code, len(pushes(machine))), done.err
    assert '2.1.4' == machine.truth()['components']['host/FPGA1_FW']['active']['version']
    assert 0 == desk.run('verify', *desk.options).code


def test_a_quarantined_device_that_was_taken_out_is_forgotten(desk, emulated_machine):
    """Where the operator says that what is there is all that ought to be there."""
    machine = emulated_machine('acc-server', flash_seconds=0.1)
    desk.prepare(machine)
    rule = '\n[[rule]]\nname = "fpga"\nmatch = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n'
    desk.write('baseline.toml', LOCK_ONLY + rule)
    machine.fault('task-fails', device='FPGA1')
    assert 6 == desk.run('apply', '--execute', *desk.options).code
    machine.fault('device-absent', device='FPGA1')
    assert 3 == desk.run('apply', '--execute', *desk.options).code
    assert 0 == desk.run('apply', '--execute', '--forget-vanished', *desk.options).code
    assert 0 == desk.run('verify', *desk.options).code


def test_a_host_that_was_found_off_is_not_given_back_with_a_spoilt_card(desk, emulated_machine):
    """Neither by the job that spoilt it nor by one for another card; whoever locks or unlocks it meanwhile is told why."""
    machine = emulated_machine('gpu-server', gpus=2, flash_seconds=0.1, reset_seconds=0.1)
    desk.prepare(machine)
    rule = 'match = { kind = "GPU" }\nfirmware = { "HGX_FW_GPU_*" = "96.00.74.00.0D" }\n'
    desk.write('baseline.toml', LOCK_ONLY + rule)
    machine.power('ForceOff')
    wait_for_power(machine, 'Off')
    machine.fault('task-fails', device='GPU_0')
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    (spoilt,) = done.document['targets'][0]['quarantined']
    assert (6, 'Off') == (done.code, power(machine)), done.err
    assert f'the host stays powered off: {spoilt} could be neither written nor restored' in done.err
    assert 'has to stay off while' in done.err
    machine.clear_faults()
    other = next(
        a['id'] for a in desk.run('inventory', '-f', 'json').document['targets'][0]['accelerators'] if a['id'] != spoilt
    )
    machine.fault('version-lies', device='GPU_1', version='1.0')
    refused = desk.run('apply', '--execute', '--device', other, *desk.options)
    assert (4, 'Off') == (refused.code, power(machine)), refused.err
    assert f'({spoilt}) is quarantined: write the quarantined cards in the same job' in refused.err
    machine.clear_faults()
    for verb in ('unlock', 'lock'):
        told = desk.run(verb, '--execute', *desk.options)
        assert (0, 'Off') == (told.code, power(machine)), told.err
        assert 'has to stay off while' in told.err
        assert 'quarantined since' in told.out
    assert 'the card is written again, whatever it shows' in desk.run('plan', *desk.options).out
    mended = desk.run('apply', '--execute', *desk.options)
    assert (0, 'On') == (mended.code, power(machine)), mended.err


def wait_for_power(machine, wanted):
    """It takes its time."""
    end = time.monotonic() + 30
    while power(machine) != wanted:
        assert time.monotonic() < end
        time.sleep(0.02)


def power(machine):
    """Of the host."""
    return machine.truth()['systems']['host']['power']


def pushes(machine):
    """Images that were sent."""
    return [e for e in machine.log() if e['method'] == 'POST' and 'multipart' in e['path'].lower()]


def test_a_lock_that_is_ignored_is_not_met(desk, emulated_machine):
    """The BMC answers well and leaves it open: code 3, naming card, way and mechanism."""
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    desk.write('baseline.toml', LOCK_ONLY)
    machine.fault('lock-ignored')
    done = desk.run('lock', '--execute', *desk.options)
    assert 3 == done.code, done.err
    assert 1 == len(done.errors)
    for text in ('H100', 'lock host-device', 'unlocked', 'rule all'):
        assert text in done.errors[0]


def test_all_targets_are_worked_on_together(desk, emulated_machine):
    """One that fails stops no other; the worst code is the command's."""
    good, bad = (emulated_machine('fpga-server', flash_seconds=0.1, seed=s) for s in ('1', '2'))
    desk.prepare(good)
    desk.write(
        'baseline.toml',
        LOCK_ONLY + 'match = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n',
    )
    bad.fault('task-fails')
    desk.bmcs({'bad': target_of(bad), 'good': target_of(good)})
    done = desk.run('apply', '--all', '--execute', '-f', 'json', *desk.options)
    assert 6 == done.code, done.err
    assert {'bad': 'failed', 'good': 'done'} == {t['target']: t['outcome'] for t in done.document['targets']}
    assert 0 == desk.run('verify', 'good', *desk.options).code


def test_a_vanished_card_is_not_met(desk, emulated_machine):
    """After everything held once, a card that is gone fails the verdict, until it is forgotten on purpose."""
    machine = emulated_machine('gpu-server', gpus=2)
    desk.prepare(machine)
    desk.write('baseline.toml', LOCK_ONLY)
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    machine.fault('device-absent', device='GPU_1')
    found = desk.run('verify', *desk.options)
    assert 3 == found.code, found.err
    assert 'the card seen before' in found.out
    assert 0 == desk.run('apply', '--execute', '--forget-vanished', *desk.options).code
    assert 0 == desk.run('verify', *desk.options).code

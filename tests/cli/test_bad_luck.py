# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A killed run and then no catalogue, another machine of that name, a full disk: what is left, and what the command advises."""

import resource
import subprocess
import time

import pytest

from tests.cli.desk import Done, target_of

LOCK_ONLY = 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\n'


FPGA = LOCK_ONLY + 'match = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n'


def prepare(desk, machine) -> None:
    """One machine with an FPGA, which is to get new firmware and be locked."""
    desk.prepare(machine)
    desk.write('baseline.toml', FPGA)


def upload(machine, process: subprocess.Popen[str]) -> None:
    """Wait until the first image was sent."""
    deadline = time.monotonic() + 60
    while not any('multipart' in e['path'].lower() for e in machine.log()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def killed_in_a_flash(desk, machine) -> None:
    """An apply that ends by SIGKILL once an image was sent: locks are open, the host is off."""
    process = desk.start('apply', '--execute', *desk.options)
    upload(machine, process)
    desk.until_told(process)
    process.kill()
    process.communicate()


def locked(desk) -> bool:
    """Every lock of the FPGA that stands in the host's way."""
    cards = desk.run('inventory', '-f', 'json').document['targets'][0]['accelerators']
    return ['locked'] == [a['device_lock'] for a in cards]


@pytest.mark.parametrize('verb', ['lock', 'apply'])
@pytest.mark.parametrize('how', ['broken', 'refused'])
def test_a_catalogue_that_cannot_be_used_keeps_no_lock_open_after_a_killed_apply(desk, emulated_machine, verb, how):
    """Going on with the job closes them: what was sent is judged, what was not is given up."""
    machine = emulated_machine('fpga-server', flash_seconds=0.5)
    prepare(desk, machine)
    killed_in_a_flash(desk, machine)
    assert not locked(desk)
    if how == 'broken':
        desk.write('catalogue.toml', (desk.folder / 'catalogue.toml').read_text() + '\nx')
    else:
        desk.write('acc.conf', (desk.folder / 'acc.conf').read_text() + 'catalogue_signature = required\n')
    pushes = [e for e in machine.log() if 'multipart' in e['path'].lower()]
    done = desk.run(verb, '--execute', *desk.options)
    assert locked(desk), done.err
    assert pushes == [e for e in machine.log() if 'multipart' in e['path'].lower()]
    assert 'catalogue.toml' in done.err
    assert 'without a catalogue no image is written or restored; every lock is engaged' in done.err
    assert 'Traceback' not in done.err
    assert desk.stored()['job']['ended']


def test_without_a_job_to_end_an_apply_needs_its_catalogue(desk, emulated_machine):
    """Nothing is begun, and the host is not asked for anything."""
    machine = emulated_machine('fpga-server')
    prepare(desk, machine)
    desk.write('catalogue.toml', 'x')
    done = desk.run('apply', '--execute', *desk.options)
    assert 2 == done.code
    assert 'catalogue.toml: not valid TOML' in done.errors[0]
    assert [] == machine.log()


def test_a_job_is_not_gone_on_with_at_another_machine_of_that_name(desk, emulated_machine):
    """A replaced server, or an address copied from the line above: nothing is asked of it, and both addresses are named."""
    machine, other = (emulated_machine('fpga-server', flash_seconds=0.5, seed=s) for s in ('1', '2'))
    prepare(desk, machine)
    killed_in_a_flash(desk, machine)
    desk.bmcs({'node-1': target_of(other)})
    for verb in ('apply', 'lock'):
        done = desk.run(verb, '--execute', *desk.options)
        assert 4 == done.code, done.err
        (error,) = done.errors
        assert (
            f'was begun on BMC host at {machine.bmcs["host"].address}, but its address is now {other.bmcs["host"].address}'
            in error
        )
        assert 'write the old address into the list again' in error
    assert [] == other.log()
    assert 'On' == other.truth()['systems']['host']['power']
    desk.bmcs({'node-1': target_of(machine)})
    assert 0 == desk.run('apply', '--execute', *desk.options).code


def test_a_disk_that_is_full_in_the_middle_of_a_job_leaves_it_to_be_gone_on_with(desk, emulated_machine):
    """It says that the job has not ended, what is open, and what to do; the same command then ends it well."""
    machine = emulated_machine('fpga-server', flash_seconds=1)
    prepare(desk, machine)
    process = desk.start('apply', '--execute', *desk.options)
    upload(machine, process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
    _, err = process.communicate(timeout=60)
    assert 6 == process.returncode, err
    (error,) = Done(code=process.returncode, out='', err=err).errors
    for said in (
        'state.sqlite: cannot be written: disk I/O error',
        'the apply job of ',
        'is unfinished',
        'locks may be open, and the host is off',
        'make the state folder usable again',
        'then apply --execute --target node-1 resumes it',
    ):
        assert said in error
    assert 'XDG_STATE_HOME' not in error
    assert {'jobs', 'locks', 'state.sqlite'} == {p.name for p in desk.database.parent.iterdir()}
    done = desk.run('apply', '--execute', *desk.options)
    assert 0 == done.code, done.err
    assert locked(desk)


@pytest.mark.parametrize('place', ['/dev/null', '/proc'])
@pytest.mark.parametrize('verb', ['verify', 'apply'])
def test_a_state_folder_that_cannot_be_used_is_a_wrong_environment(desk, served, place, verb):
    """It is no fault of ours, and what names the folder is named."""
    desk.prepare(served)
    desk.write('baseline.toml', LOCK_ONLY)
    desk.environ['XDG_STATE_HOME'] = place
    if (verb, place) == ('verify', '/proc'):
        desk.write('catalogue.toml', 'serial = 1\n' + (desk.folder / 'catalogue.toml').read_text())
    done = desk.run(verb, *(('--execute',) if verb == 'apply' else ()), *desk.options)
    assert 2 == done.code, done.err
    assert 'XDG_STATE_HOME' in done.errors[0]
    assert 'internal error' not in done.err
    assert [] == served.log()


def test_a_host_that_is_left_off_is_told_of(desk, emulated_machine):
    """After an unlock, the lock that follows, and where there was nothing to do: what a command has not taken it leaves."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', LOCK_ONLY)
    locked = desk.run('lock', '--execute', *desk.options)
    assert 0 == locked.code
    assert 'the host is off' not in locked.err
    opened = desk.run('unlock', '--execute', *desk.options)
    assert 'node-1: the host is off and stays off while its cards are unlocked: run lock --execute' in opened.err
    closed = desk.run('lock', '--execute', *desk.options)
    assert 0 == closed.code
    left = 'baremetal-acc: node-1: the host was found off and stays off; when it is needed: power on --execute --target node-1'
    assert 1 == closed.err.splitlines().count(left), closed.err
    nothing = desk.run('apply', '--execute', *desk.options)
    assert 0 == nothing.code
    assert 1 == nothing.err.splitlines().count(left), nothing.err


def test_a_host_that_an_open_lock_keeps_off_is_told_of_once_it_is_closed(desk, emulated_machine):
    """The command that failed says what to do then, and the one that ends well says that it is still off."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    prepare(desk, machine)
    rule = '[[rule]]\nname = "all"\nmatch = { kind = "FPGA" }\nblock = ["host-device"]\nfunctions = { Slot1 = "aes" }\n'
    desk.write('baseline.toml', f'format = 1\n{rule}')
    machine.fault('lock-ignored')
    failed = desk.run('apply', '--execute', *desk.options)
    assert 'Off' == machine.truth()['systems']['host']['power']
    assert (
        'the host is off and stays off: fix what failed and run the same command again, then power on --execute' in failed.err
    )
    machine.clear_faults()
    done = desk.run('lock', '--execute', *desk.options)
    assert 0 == done.code, done.err
    assert 'node-1: the host was found off and stays off' in done.err


def test_one_bmc_is_not_worked_on_by_two_names(desk, emulated_machine):
    """Two lists, or --address beside a list: the second command is refused, as with one name."""
    # Long enough for two commands on a machine that is busy.
    machine = emulated_machine('fpga-server', flash_seconds=10)
    prepare(desk, machine)
    process = desk.start('apply', '--execute', *desk.options)
    upload(machine, process)
    for address in (machine.bmcs['host'].address, machine.bmcs['host'].address.replace('127.0.0.1', 'localhost')):
        desk.bmcs({'node-2': target_of(machine, address=address)})
        done = desk.run('lock', '--execute', *desk.options)
        assert 4 == done.code, done.err
        assert f'node-2: process {process.pid} is working on its BMC {address}' in done.errors[0]
    process.communicate(timeout=60)
    assert 0 == process.returncode


def test_a_bmc_that_is_busy_says_so_once_and_is_not_waited_for_for_ever(desk, emulated_machine):
    """One line with what it says, not one at each poll; the cause stands in the error."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    prepare(desk, machine)
    desk.write('acc.conf', (desk.folder / 'acc.conf').read_text() + 'stall_timeout = 4\n')
    machine.fault('update-503', retry_after=3600)
    done = desk.run('apply', '--execute', *desk.options)
    assert 4 == done.code, done.err
    for said in (
        'the BMC has only answered that it is busy for 0:00:04: BMC host',
        'busy, retry in 3600 s (HTTP 503)',
    ):
        assert said in done.errors[0]
    planned = [line for line in done.err.splitlines() if ': planned' in line]
    assert planned
    assert len(planned) == len({*planned}), planned
    assert all('busy, retry in 3600 s' in line for line in planned)
    assert locked(desk)

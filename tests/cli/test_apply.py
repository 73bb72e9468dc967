# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The main job from the command line, against an emulated machine over HTTPS."""

import os
import signal
import time

import pytest

from tests.cli.desk import NEW_FPGA, NEW_GPU


def writes(machine) -> list[str]:
    """Method and path of everything that was written to a BMC, sessions left out."""
    return [f'{e["method"]} {e["path"]}' for e in machine.log()]


def versions(machine) -> dict[str, str]:
    """What really runs."""
    return {name: c['active']['version'].strip() for name, c in machine.truth()['components'].items() if c['active']}


@pytest.mark.shows('inventory', 'flash', 'lock host path', 'verify', hardware=('hgx-gpu', 'fpga'), how='cli')
def test_plan_apply_verify_lock_and_unlock(desk, emulated_machine):
    """A machine is brought to its baseline, proven, opened and closed again, each step with its exit code."""
    machine = emulated_machine('acc-server', flash_seconds=0.3)
    desk.prepare(machine)

    before = desk.run('verify', '-f', 'json', *desk.options)
    assert 3 == before.code
    planned = desk.run('plan', '-f', 'json', *desk.options)
    assert 3 == planned.code, planned.err
    dry = desk.run('apply', '-f', 'json', *desk.options)
    assert 3 == dry.code
    assert 'dry run: nothing was written' in dry.err
    assert planned.document['targets'][0]['actions'] == dry.document['targets'][0]['actions']
    assert [] == writes(machine)

    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    target = done.document['targets'][0]
    assert 'done' == target['outcome']
    assert target['verdict']['met']
    identical = ('action', 'accelerator', 'subject', 'bmc', 'uri', 'field', 'image', 'from', 'to', 'reset')
    assert [[a[k] for k in identical] for a in dry.document['targets'][0]['actions']] == [
        [a[k] for k in identical] for a in target['actions']
    ]
    now = versions(machine)
    assert {NEW_GPU} == {now['host/HGX_FW_GPU_0'], now['host/HGX_FW_GPU_1']}
    assert NEW_FPGA == now['host/FPGA1_FW']

    verified = desk.run('verify', '-f', 'json', *desk.options)
    assert 0 == verified.code, verified.err
    assert 'locked-verified' in {f['state'] for f in verified.document['targets'][0]['findings']}
    locks = desk.run('inventory', '-f', 'json').document['targets'][0]['accelerators']
    assert {'locked'} == {a['device_lock'] for a in locks}

    machine.reset_log()
    again = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == again.code
    assert 'holds' == again.document['targets'][0]['outcome']
    assert [] == writes(machine)

    opened = desk.run('unlock', '--execute', '--device', 'FPGA PAC D5005 FPGA1', *desk.options)
    assert 0 == opened.code, opened.err
    assert 'FPGA PAC D5005 FPGA1: the locks of bmc-network, ' in opened.err
    assert 'Off' == machine.truth()['systems']['host']['power']
    found = desk.run('verify', *desk.options)
    assert 3 == found.code
    assert 'unlocked on purpose at' in found.out

    closed = desk.run('lock', '--execute', *desk.options)
    assert 0 == closed.code, closed.err
    assert 0 == desk.run('verify', *desk.options).code


def test_a_tenants_write_succeeds_before_and_fails_after(desk, emulated_machine):
    """What apply calls locked is refused by the machine itself."""
    machine = emulated_machine('acc-server', flash_seconds=0.1)
    desk.prepare(machine)
    image = (desk.folder / 'gpu-new.img').read_bytes()
    assert machine.tenant_write('GPU_0', image)['written']
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    assert not machine.tenant_write('GPU_0', image)['written']


def keeps_a_tenant_out(desk, machine, rules, device, model, component, paths):
    """By every way that the rules want closed: before the lock it is written, after it nothing is; and verify says so."""
    from baremetal_acc.emulator.image import build_image

    desk.prepare(machine)
    desk.write('baseline.toml', f'format = 1\n{rules}')
    image = build_image(model=model, component=component, version='6.6.6', size_bytes=20_000)

    def kept_out() -> list[str | None]:
        return [machine.tenant_write(device, image, path=path).get('code') for path in paths]

    assert [None] * len(paths) == kept_out()
    assert 3 == desk.run('verify', *desk.options).code
    done = desk.run('lock', '--execute', *desk.options)
    assert 0 == done.code, done.err
    assert 0 == desk.run('verify', *desk.options).code
    machine.power('PowerCycle')
    end = time.monotonic() + 20
    while 'host-off' in kept_out():
        assert time.monotonic() < end
        time.sleep(0.1)
    assert ['locked'] * len(paths) == kept_out()
    assert 0 == desk.run('verify', *desk.options).code


@pytest.mark.shows('lock host path', 'lock BMC path', 'verify', hardware=('hgx-gpu',), how='cli')
def test_locks_of_a_machine_keep_a_tenant_out(desk, emulated_machine):
    """From the card, and from the BMC by both of its ways."""
    machine = emulated_machine('lock-server', features=frozenset({'lenovo-kcs', 'dell-system-lockdown'}))
    keeps_a_tenant_out(desk, machine, '', 'GPU_0', 'h100', 'gpu', ('pcie', 'kcs', 'redfish'))


@pytest.mark.shows('lock host path', 'verify', hardware=('drive',), how='cli')
def test_locks_of_a_drive_keep_a_tenant_out(desk, emulated_machine):
    """From the drive's own commands."""
    rules = '[[rule]]\nblock = ["host-device"]\n'
    keeps_a_tenant_out(desk, emulated_machine('csd-server'), rules, 'CSD_0', 'csd100', 'drive', ('nvme',))


@pytest.mark.shows('lock host path', 'verify', hardware=('bluefield',), how='cli')
def test_locks_of_a_dpu_keep_a_tenant_out(desk, emulated_machine):
    """From PCIe and from the console port to the host."""
    rules = '[[rule]]\nblock = ["host-device"]\n'
    keeps_a_tenant_out(desk, emulated_machine('dpu'), rules, 'DPU', 'bluefield3', 'nic', ('pcie', 'rshim'))


@pytest.mark.shows('program', hardware=('fpga',), how='cli')
def test_program_writes_functions_only(desk, emulated_machine):
    """The other cards keep their firmware, and a second time there is nothing to do."""
    machine = emulated_machine('acc-server', flash_seconds=0.1)
    desk.prepare(machine)
    before = versions(machine)
    arguments = ('program', 'node-1', '--slot', 'Slot1=gzip', '-f', 'json', *desk.options)
    dry = desk.run(*arguments)
    assert 3 == dry.code, dry.err
    assert ['Slot1'] == [a['subject'] for a in dry.document['targets'][0]['actions'] if a['action'] == 'program']
    done = desk.run(*arguments, '--execute')
    assert 0 == done.code, done.err
    after = versions(machine)
    assert '3.1' == after.pop('host/FPGA1_Slot1')
    assert {k: v for k, v in before.items() if k != 'host/FPGA1_Slot1'} == after
    machine.reset_log()
    again = desk.run(*arguments, '--execute')
    assert 0 == again.code, again.err
    assert [] == writes(machine)


def test_an_unproven_lifecycle_locks_again(desk, emulated_machine):
    """--new-lifecycle makes earlier proof count for nothing: the plan engages every lock, and flashes nothing."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nblock = ["host-device"]\n')
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    assert 0 == desk.run('plan', *desk.options).code
    fresh = desk.run('plan', '--new-lifecycle', '-f', 'json', *desk.options)
    assert 3 == fresh.code
    assert {'engage', 'reset'} >= {a['action'] for a in fresh.document['targets'][0]['actions']}
    assert 0 == desk.run('apply', '--execute', '--new-lifecycle', *desk.options).code
    assert 2 == desk.stored()['lifecycle']


def test_a_killed_apply_is_looked_at_and_finished(desk, emulated_machine):
    """Killed in the middle of a flash, the next apply sends nothing twice and ends well."""
    machine = emulated_machine('acc-server', flash_seconds=1.5)
    desk.prepare(machine)
    process = desk.start('apply', '--execute', *desk.options)
    deadline = time.monotonic() + 60
    while not any(e['path'].endswith('/update-multipart') or 'multipart' in e['path'].lower() for e in machine.log()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    desk.until_told(process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    warned = desk.run('plan', *desk.options)
    assert 'is unfinished' in warned.err
    judged = desk.run('verify', *desk.options)
    assert 3 == judged.code
    assert 'job: expected no unfinished job, found the apply job of ' in judged.out
    refused = desk.run('lock', '--execute', *desk.options)
    assert 4 == refused.code
    assert 'apply --execute --target node-1' in refused.errors[0]

    done = desk.run('apply', '--execute', *desk.options)
    assert 0 == done.code, done.err
    assert 'reading its progress from the BMC' in done.err
    pushes = [e for e in machine.log() if e['method'] == 'POST' and 'multipart' in e['path'].lower()]
    assert 5 == len(pushes), [e['path'] for e in pushes]
    assert 0 == desk.run('verify', *desk.options).code


def test_two_applies_never_run_at_once(desk, emulated_machine):
    """The second is refused and says which process works on the target."""
    machine = emulated_machine('acc-server', flash_seconds=1.5)
    desk.prepare(machine)
    first = desk.start('apply', '--execute', *desk.options)
    deadline = time.monotonic() + 60
    while not writes(machine):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    second = desk.run('apply', '--execute', *desk.options)
    assert 4 == second.code
    assert f'node-1: refused: node-1: process {first.pid} is working on it' in second.err
    first.communicate(timeout=60)
    assert 0 == first.returncode


def test_ctrl_c_says_how_to_go_on(desk, emulated_machine):
    """Interrupted, the job stays, and the command says what continues it."""
    machine = emulated_machine('acc-server', flash_seconds=3)
    desk.prepare(machine)
    process = desk.start('apply', '--execute', *desk.options)
    deadline = time.monotonic() + 60
    while not writes(machine):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert 130 == process.returncode
    assert 'apply --execute --target node-1 resumes it; leave the host off until then' in err
    assert 'locks may be open, and the host is off' in err
    assert 'Traceback' not in err


def test_ctrl_c_during_a_write_says_that_the_bmc_may_go_on_with_it(desk, emulated_machine):
    """It has the image: nothing that ends here ends that."""
    machine = emulated_machine('acc-server', flash_seconds=5)
    desk.prepare(machine)
    process = desk.start('apply', '--execute', *desk.options)
    desk.until_told(process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 6.5
    assert 130 == process.returncode
    assert 'the BMC may continue to write the image that it was sent' in err


def test_state_is_for_the_owners_eyes(desk, emulated_machine):
    """Folders 0700, files 0600, and no password in them."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nblock = ["host-device"]\n')
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    root = desk.folder / 'state' / 'baremetal-acc'
    for path in (root, *root.rglob('*')):
        assert (0o700 if path.is_dir() else 0o600) == path.stat().st_mode & 0o777, path
    assert machine.bmcs['host'].password.encode() not in desk.database.read_bytes()


def test_an_unlock_that_was_cut_off_is_superseded_by_a_lock(desk, emulated_machine):
    """Other verbs that write are refused meanwhile: they would lose sight of what is open. All messages name what ends it."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nblock = ["host-device"]\n')
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    state = desk.stored()
    state['job'] |= {'ended': False, 'verdict': None}
    desk.store(state)
    refused = desk.run('program', '--slot', 'Slot0=gzip', '--execute', *desk.options)
    assert 4 == refused.code
    assert 'the unlock job of' in refused.errors[0]
    again = desk.run('unlock', '--execute', *desk.options)
    assert 4 == again.code
    for told in (
        refused.errors[0],
        again.errors[0],
        desk.run('plan', *desk.options).err,
        desk.run('verify', *desk.options).out,
    ):
        assert 'lock --execute --target node-1 engages the locks that it has released' in told
        assert 'apply --execute' not in told
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    assert 0 == desk.run('verify', *desk.options).code

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware is activated as its maker says: by a standby power cycle, a restart of the BMC, or a person."""

import hashlib
import json
import time

import pytest

from baremetal_acc.emulator.tray_package import tray_package
from tests.cli.desk import target_of

NEW = '97.00.82.00.20'

CONF = """
[baremetal_acc]
poll_interval = 0.2
settle_timeout = 2
reset_timeout = 30
person_timeout = {person}
job_timeout = 60
"""

BASELINE = """
format = 1
[[rule]]
name = "gpus"
match = {{ kind = "GPU" }}
firmware = {{ "HGX_FW_GPU_*" = "{version}" }}
block = [{block}]
custody = "reported"
"""


def prepare(desk, machine, reset, *, product='gb200-tray', block='', person=60, fits='0x10de:0x2941', exposure='tenant'):
    """A desk for a tray of one GPU whose firmware comes in force with a reset."""
    from baremetal_acc.emulator.hw.parameters import Parameters

    data = tray_package(product, {'HGX_FW_GPU_*': NEW}, parameters=Parameters(gpus=1))
    (desk.folder / 'gpu.fwpkg').write_bytes(data)
    desk.bmcs({'node-1': target_of(machine) | {'exposure': exposure}})
    desk.write(
        'catalogue.toml',
        f"""
format = 1
[[image]]
name = "gpu"
kind = "firmware"
fits = [{{ pci = "{fits}" }}]
component = "HGX_FW_GPU_*"
version = "{NEW}"
security_version = 1
source = "gpu.fwpkg"
size = {len(data)}
digest = "sha256:{hashlib.sha256(data).hexdigest()}"
apply = {{ reset = "{reset}" }}
restore = "none"
""",
    )
    desk.write('baseline.toml', BASELINE.format(version=NEW, block=block))
    desk.write('acc.conf', CONF.format(person=person))


def runs(machine):
    """What the GPU really runs."""
    return machine.truth()['components']['host/HGX_FW_GPU_0']['active']['version'].strip()


def posted(machine, end):
    """Bodies of what was posted to an action."""
    return [
        json.loads(e['body']) if isinstance(e['body'], str) else e['body'] for e in machine.log() if e['path'].endswith(end)
    ]


@pytest.mark.parametrize(('held', 'block'), [(True, ''), (False, ''), (True, '"host-device"')], ids=['held', 'free', 'locked'])
def test_standby_power_is_cycled_once_with_the_host_off(desk, emulated_machine, held, block):
    """Its BMC restarts with it; then the host is on as before, and what the rules want closed is proven closed."""
    machine = emulated_machine('gb200-tray', gpus=1, flash_seconds=0.3, reset_seconds=0.5, bmc_reset_seconds=2)
    prepare(desk, machine, 'aux-power-cycle', exposure='tenant' if held else 'service', block=block)
    dry = desk.run('plan', '-f', 'json', *desk.options)
    assert 3 == dry.code, dry.err
    (cycle,) = [
        a for a in dry.document['targets'][0]['actions'] if a.get('reset') == 'aux-power-cycle' and a['action'] == 'reset'
    ]
    assert '/redfish/v1/Chassis/BMC_0' == cycle['by']
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    assert NEW == runs(machine)
    assert 'On' == machine.truth()['systems']['host']['power']
    assert ['AuxPowerCycle'] == [body['ResetType'] for body in posted(machine, 'NvidiaChassis.AuxPowerReset')]
    assert ['ForceOff', 'On'] == [body['ResetType'] for body in posted(machine, 'ComputerSystem.Reset')]
    locks = [a for a in dry.document['targets'][0]['actions'] if a['action'] == 'engage']
    assert bool(block) is bool(locks)
    assert 0 == desk.run('verify', *desk.options).code


def test_a_bmc_is_restarted_for_an_image_that_comes_in_force_with_it(desk, emulated_machine):
    """The host is left as it is, the job goes on over a new session, and what the rules want closed is proven closed."""
    machine = emulated_machine('gb200-tray', gpus=1, flash_seconds=0.3, reset_seconds=0.5, bmc_reset_seconds=2)
    prepare(desk, machine, 'bmc-reset', exposure='service', block='"host-device"')
    machine.fault('activates-with-bmc', device='GPU_0')
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    assert NEW == runs(machine)
    assert 1 == len(posted(machine, 'Manager.Reset'))
    assert [] == posted(machine, 'NvidiaChassis.AuxPowerReset')
    assert 0 == desk.run('verify', *desk.options).code
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    assert (1, 1) == (len(posted(machine, 'Manager.Reset')), len(machine.history('upload')))


ROOT = '01.04.0001'


def wait(holds, seconds):
    """Until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def prepare_root(desk, machine, reset, *, person, exposure='tenant'):
    """A desk for a tray whose root of trust comes in force once standby power was away."""
    prepare(desk, machine, reset, product='hgx-tray', person=person, fits='0x10de:0x2901', exposure=exposure)
    from baremetal_acc.emulator.hw.parameters import Parameters

    data = tray_package('hgx-tray', {'HGX_FW_ERoT_GPU_*': ROOT}, parameters=Parameters(gpus=1))
    (desk.folder / 'gpu.fwpkg').write_bytes(data)
    catalogue = (desk.folder / 'catalogue.toml').read_text()
    lines = [
        f'size = {len(data)}'
        if line.startswith('size')
        else f'digest = "sha256:{hashlib.sha256(data).hexdigest()}"'
        if line.startswith('digest')
        else line.replace('HGX_FW_GPU_*', 'HGX_FW_ERoT_GPU_*').replace(NEW, ROOT)
        for line in catalogue.splitlines()
    ]
    desk.write('catalogue.toml', '\n'.join(lines))
    desk.write('baseline.toml', BASELINE.format(version=ROOT, block='').replace('HGX_FW_GPU_*', 'HGX_FW_ERoT_GPU_*'))


def root_of(machine):
    """What the root of trust of the GPU really runs."""
    return machine.truth()['components']['host/HGX_FW_ERoT_GPU_0']['active']['version'].strip()


def stored(desk):
    """The items of the job as it is stored, by kind of reset."""
    items = desk.stored_items()
    return {i['action'].get('kind'): i for i in items if i['action']['type'] == 'Reset'}


def test_a_person_is_waited_for_by_name_and_noticed(desk, emulated_machine):
    """No action cuts the mains: the host is off, what is waited for and until when is told, and the job goes on by itself."""
    machine = emulated_machine('hgx-tray', gpus=1, flash_seconds=0.3, reset_seconds=0.5, bmc_reset_seconds=2)
    prepare_root(desk, machine, 'ac-power-cycle', person=60)
    process = desk.start('apply', '--execute', '-f', 'json', *desk.options)
    try:
        wait(lambda: stored(desk).get('ac-power-cycle', {}).get('state') == 'running', seconds=60)
        item = stored(desk)['ac-power-cycle']
        assert item['message'].startswith('until 20')
        assert 'Off' == machine.truth()['systems']['host']['power']
        time.sleep(1.5)
        assert process.poll() is None
        machine.power('FullPowerCycle')
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert 0 == process.returncode, err
    asks = 'node-1: wait for a person to unplug and replug the power cord of host:/redfish/v1/Systems/System_0: running'
    assert f'{asks} (until 20' in err
    assert (ROOT, 'On') == (root_of(machine), machine.truth()['systems']['host']['power'])
    assert json.loads(out)['targets'][0]['verdict']['met']


def test_where_nobody_comes_it_fails_without_a_quarantine_and_says_what_is_left_to_do(desk, emulated_machine):
    """What is written stays written, and the host is given back. Whoever pulls the cord later brings it in force."""
    machine = emulated_machine('hgx-tray', gpus=1, flash_seconds=0.3, reset_seconds=0.5, bmc_reset_seconds=2)
    prepare_root(desk, machine, 'ac-power-cycle', person=2)
    before = root_of(machine)
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 6 == done.code, done.err
    (target,) = done.document['targets']
    assert [] == target['quarantined']
    assert 'not done by' in done.err
    assert 'HGX_FW_ERoT_GPU_0' in done.err
    assert 'is held: image gpu is written to HGX_FW_ERoT_GPU_0, and runs after an ac-power-cycle' in done.err
    assert (before, 'On') == (root_of(machine), machine.truth()['systems']['host']['power'])
    assert 1 == len(machine.history('upload'))
    machine.power('FullPowerCycle')
    wait(lambda: machine.truth()['bmcs']['host']['up'], seconds=30)
    wait(lambda: 0 == desk.run('verify', *desk.options).code, seconds=60)


def test_what_the_bmc_does_not_offer_is_refused_before_anything_is_touched(desk, emulated_machine):
    """And what to write for somebody to do it."""
    machine = emulated_machine('hgx-tray', gpus=1)
    prepare_root(desk, machine, 'aux-power-cycle', person=2)
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 4 == done.code
    assert 'has to do an aux-power-cycle, and its BMC offers no action for that' in done.err
    assert 'apply.reset = "ac-power-cycle"' in done.err
    assert [] == [e for e in machine.log() if e['method'] != 'GET' and 'Session' not in e['path']]


def prepare_with_the_way_back(desk, machine, **more):
    """As :func:`prepare`, with the package of what runs to go back to. Returns its version."""
    from baremetal_acc.emulator.hw.parameters import Parameters

    prepare(desk, machine, 'aux-power-cycle', **more)
    old = runs(machine)
    data = tray_package('gb200-tray', {'HGX_FW_GPU_*': old}, parameters=Parameters(gpus=1))
    (desk.folder / 'old.fwpkg').write_bytes(data)
    text = (desk.folder / 'catalogue.toml').read_text()
    own = {
        'name': '"old"',
        'version': f'"{old}"',
        'source': '"old.fwpkg"',
        'size': str(len(data)),
        'digest': f'"sha256:{hashlib.sha256(data).hexdigest()}"',
    }
    older = []
    for line in text[text.index('[[image]]') :].splitlines():
        key = line.partition(' =')[0]
        older.append(f'{key} = {own[key]}' if key in own else line)
    desk.write('catalogue.toml', text.replace('restore = "none"', 'restore = "old"') + '\n'.join(['', *older, '']))
    return old


@pytest.mark.parametrize('held', [True, False], ids=['held', 'free'])
def test_what_is_put_back_after_a_loss_of_standby_power_gets_a_second_one(desk, emulated_machine, held):
    """The card wakes with neither version: the old image is written, and standby power goes again, with the host off."""
    machine = emulated_machine('gb200-tray', gpus=1, flash_seconds=0.3, reset_seconds=0.5, bmc_reset_seconds=2)
    old = prepare_with_the_way_back(desk, machine, exposure='tenant' if held else 'service')
    machine.fault('activation-refused', device='GPU_0', leaves='97.00.66.00.00', count=1)
    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 6 == done.code, done.err
    assert f'in the end it ran 97.00.66.00.00, expected {NEW}' in done.err
    assert f'HGX_FW_GPU_0 is restored to {old} (image old)' in done.err
    assert [] == done.document['targets'][0]['quarantined']
    assert (old, 'On') == (runs(machine), machine.truth()['systems']['host']['power'])
    assert ['AuxPowerCycle'] * 2 == [body['ResetType'] for body in posted(machine, 'NvidiaChassis.AuxPowerReset')]
    assert ['ForceOff', 'On'] * 2 == [body['ResetType'] for body in posted(machine, 'ComputerSystem.Reset')]
    assert [NEW, old] == [one['version'] for one in machine.history('written')]
    # Nothing was cut under a write, and what was put back came in force by the second loss, not by the first.
    seen = [one['what'] for one in machine.truth()['history'] if one['what'] in ('written', 'activated', 'bmc-restarted')]
    assert ['written', 'activated', 'bmc-restarted'] * 2 == seen

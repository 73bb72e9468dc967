# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A tray is brought to the versions of a bundle: one upload for all of its parts, each of which is verified alone."""

import hashlib

import pytest

from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.tray_package import tray_package
from tests.cli.desk import CONF, target_of

OLD, NEW = '97.00.82.00.18', '97.00.82.00.20'
SWITCH_OLD, SWITCH_NEW = '96.10.69.00.01', '96.10.7A.00.01'
ITEMS = '/redfish/v1/UpdateService/FirmwareInventory'
BASEBOARD = f'"{ITEMS}/HGX_0"'
GPUS = 8

PARTS = (('gpu', 'HGX_FW_GPU_*', 0x20), ('switch', 'HGX_FW_NVSwitch_*', 0x70), ('root', 'HGX_FW_ERoT_GPU_*', 0xFF00))

ROOT_OLD, ROOT_NEW = '01.03.0183.0000_n04', '01.04.0001'


def prepare(desk, machine, *, by_component=True, wanted=NEW, listed=('gpu', 'switch'), parts=('gpu', 'switch')):
    """A tray, its old and its new bundle, and a rule that wants a version of its GPUs.

    :param listed: the parts that the catalogue lists; ``parts`` those that the packages hold.
    """
    desk.bmcs({'node-1': target_of(machine) | {'exposure': 'service'}})
    desk.write('acc.conf', CONF)
    entries = ['format = 1']
    for name, versions in (('old', (OLD, SWITCH_OLD, ROOT_OLD)), ('new', (NEW, SWITCH_NEW, ROOT_NEW))):
        of_parts = dict(zip(('gpu', 'switch', 'root'), versions, strict=True))
        held = {glob: of_parts[own] for own, glob, _ in PARTS if own in parts}
        package = tray_package('hgx-tray', held, version=f'bundle {name}', parameters=Parameters(gpus=GPUS))
        (desk.folder / f'{name}.fwpkg').write_bytes(package)
        entries += [
            '[[bundle]]',
            f'name = "tray-{name}"',
            f'source = "{name}.fwpkg"',
            f'size = {len(package)}',
            f'digest = "sha256:{hashlib.sha256(package).hexdigest()}"',
            f'targets = [{BASEBOARD}]',
            f'component_targets = {str(by_component).lower()}',
            'restore = "tray-old"' if name == 'new' else 'restore = "none"',
            'security_version = 1',
            'fits = [{ pci = "0x10de:0x2901" }]',
            'apply = { reset = "power-cycle" }',
        ]
        for own, glob, number in PARTS:
            if own in listed:
                entries += [
                    '[[bundle.component]]',
                    f'name = "{own}"',
                    f'component = "{glob}"',
                    f'identifier = {number}',
                    f'version = "{of_parts[own]}"',
                ]
    desk.write('catalogue.toml', '\n'.join(entries) + '\n')
    want(desk, wanted)


def want(desk, wanted, more=''):
    """The rule."""
    firmware = f'firmware = {{ "HGX_FW_GPU_*" = "{wanted}" }}'
    rule = ['format = 1', '[[rule]]', 'name = "gpus"', 'match = { kind = "GPU" }', firmware, 'block = []', more]
    desk.write('baseline.toml', '\n'.join(rule) + '\n')


def count(machine, *what):
    """How often something has happened, by the journal of the machine."""
    return tuple(len(machine.history(one)) for one in what)


def versions(machine, pattern='HGX_FW_GPU_'):
    """What really runs."""
    found = machine.truth()['components'].items()
    return [one['active']['version'] for key, one in sorted(found) if key.startswith(f'host/{pattern}')]


def uploads(machine):
    """The Targets and the force of each upload."""
    sent = [one['body'] for one in machine.log() if one['path'].endswith('update-multipart')]
    return [([uri.rsplit('/', 1)[-1] for uri in one['Targets']], one.get('ForceUpdate', False)) for one in sent]


def apply(desk, *more):
    """Apply, and what came of it."""
    return desk.run('apply', '--execute', '--no-publish', '-f', 'json', *desk.options, *more)


@pytest.mark.shows('inventory', 'flash', 'verify', hardware=('tray',), how='cli')
def test_one_upload_and_one_restart_bring_all_to_the_versions_of_a_bundle(desk, emulated_machine):
    """By the journal of the machine. The plan tells what is sent where; a second time nothing is; all goes back, forced."""
    machine = emulated_machine('hgx-tray', gpus=GPUS, flash_seconds=0.3, reset_seconds=0.1)
    prepare(desk, machine)
    planned = desk.run('plan', '--no-publish', '-f', 'json', *desk.options)
    assert 3 == planned.code, planned.err
    told = planned.document['targets'][0]
    flashes = [a for a in told['actions'] if a['action'] == 'flash']
    assert {(f'HGX_FW_GPU_{n}', 'tray-new', False) for n in range(GPUS)} == {
        (a['subject'], a['bundle'], a['forced']) for a in flashes
    }
    assert {'tray-new.gpu', 'tray-old.gpu'} == {a['image'] for a in told['actions'] if a['action'] == 'check-image'}
    notes = '\n'.join(n['text'] for n in told['notes'])
    assert f'bundle tray-new is sent once, with Targets [{BASEBOARD}]: {GPUS} changed, 0 written again' in notes
    assert f'bundle tray-new also holds HGX_FW_NVSwitch_* {SWITCH_NEW}, which belong to no card that is shown' in notes
    assert (
        'what fails is sent once more, to that component alone, with ForceUpdate; if all of it fails, bundle tray-old' in notes
    )
    assert [] == machine.log()

    done = apply(desk)
    assert 0 == done.code, done.err
    assert (1, GPUS + 2, 1) == count(machine, 'upload', 'written', 'restarted')
    assert [NEW] * GPUS == versions(machine)
    assert [(['HGX_0'], False)] == uploads(machine)
    assert 0 == apply(desk).code
    assert (1,) == count(machine, 'upload')
    assert 0 == desk.run('verify', *desk.options).code

    want(desk, OLD, 'downgrade = "allow"')
    text = (desk.folder / 'catalogue.toml').read_text()
    new = text.index('"tray-new"')
    desk.write('catalogue.toml', text[:new] + text[new:].replace('security_version = 1', 'security_version = 2'))
    machine.reset_log()
    done = apply(desk)
    assert 0 == done.code, done.err
    assert [OLD] * GPUS == versions(machine)
    assert [(['HGX_0'], True)] == uploads(machine)
    assert [SWITCH_OLD] * 2 == versions(machine, 'HGX_FW_NVSwitch_')


@pytest.mark.parametrize(('by_component', 'again'), [(True, (['HGX_FW_GPU_1'], True)), (False, (['HGX_0'], True))])
def test_a_part_that_fails_is_sent_once_more_and_costs_the_others_nothing(desk, emulated_machine, by_component, again):
    """Alone where the BMC takes that, else with all the others. Then everything holds, and nobody is told of a failure."""
    machine = emulated_machine('hgx-tray', gpus=GPUS, flash_seconds=0.2, reset_seconds=0.1)
    prepare(desk, machine, by_component=by_component)
    machine.fault('component-fails', device='GPU_1', count=1)
    done = apply(desk)
    assert 0 == done.code, done.err
    assert 'HGX_FW_GPU_1 of NVIDIA B200 GPU_1 with tray-new.gpu: failed' in done.err
    assert 'The device could not write the image' in done.err
    assert [(['HGX_0'], False), again] == uploads(machine)
    assert [NEW] * GPUS == versions(machine)
    assert ['GPU_1'] == [one['device'] for one in machine.history('failed')]


def test_a_part_that_fails_twice_is_left_and_the_others_stay_new(desk, emulated_machine):
    """Nobody uses the card before it is written well; the other seven are new. The next job sends the bundle again."""
    machine = emulated_machine('hgx-tray', gpus=GPUS, flash_seconds=0.2, reset_seconds=0.1)
    prepare(desk, machine)
    machine.fault('component-fails', device='GPU_1')
    done = apply(desk)
    assert 6 == done.code, done.err
    assert [NEW, OLD, *[NEW] * (GPUS - 2)] == versions(machine)
    assert 'sent once more: flash HGX_FW_GPU_1' in done.err
    machine.clear_faults()
    machine.reset_log()
    assert 0 == apply(desk).code
    assert [NEW] * GPUS == versions(machine)
    assert [(['HGX_0'], False)] == uploads(machine)


def test_what_fails_beside_the_cards_of_a_bundle_is_said(desk, emulated_machine):
    """No rule demands a switch, so that the job is done; that the bundle was written in part nobody has to find out."""
    machine = emulated_machine('hgx-tray', gpus=GPUS, flash_seconds=0.2, reset_seconds=0.1)
    prepare(desk, machine)
    machine.fault('component-fails', device='NVSwitch_0')
    done = apply(desk)
    assert 0 == done.code, done.err
    assert ([NEW] * GPUS, [SWITCH_OLD, SWITCH_NEW]) == (versions(machine), versions(machine, 'HGX_FW_NVSwitch_'))
    notes = [n['text'] for n in done.document['targets'][0]['notes'] if 'problems with other parts' in n['text']]
    said = 'The image 96.10.7A.00.01 could not be written to HGX_FW_NVSwitch_0.'
    assert f'bundle tray-new: the BMC reports problems with other parts of it: {said}' in notes
    assert all('HGX_FW_NVSwitch_0' in note for note in notes)
    shown = [n['text'] for n in done.document['targets'][0]['notes'] if 'NVSwitch' in n['text'] and 'problems' not in n['text']]
    assert (
        f'bundle tray-new: the parts that belong to no card show the versions of the bundle: HGX_FW_NVSwitch_1 {SWITCH_NEW}'
        in shown
    )
    wrong = f'bundle tray-new: HGX_FW_NVSwitch_0 shows {SWITCH_OLD}, but the bundle has {SWITCH_NEW}: it was not written, or is'
    (line,) = [text for text in shown if text.startswith(wrong)]
    assert f'read host:{ITEMS}/HGX_FW_NVSwitch_0 again' in line
    assert 1 == done.err.count('the BMC reports problems with other parts of its bundle: ')


def test_a_bundle_that_none_takes_goes_back_as_a_whole(desk, emulated_machine):
    """The older bundle, forced: it is not sent to one alone, where the BMC takes that only for all."""
    machine = emulated_machine('hgx-tray', gpus=GPUS, flash_seconds=0.2, reset_seconds=0.1)
    prepare(desk, machine, by_component=False)
    machine.fault('package-refused', count=1)
    done = apply(desk)
    assert 6 == done.code, done.err
    assert [(['HGX_0'], False), (['HGX_0'], True)] == uploads(machine)
    assert [OLD] * GPUS == versions(machine)
    assert 'is restored to' in done.err
    assert 'quarantined' not in done.err


def test_what_a_plan_cannot_answer_for_is_refused_before_anything_is_sent(desk, emulated_machine):
    """A component that the catalogue does not list; a part that a rule wants otherwise; a device that was left out."""
    machine = emulated_machine('hgx-tray', gpus=GPUS)
    prepare(desk, machine, parts=('gpu', 'switch', 'root'))
    unlisted = apply(desk)
    assert 0 != unlisted.code
    assert f'its header has components that the catalogue does not list: "0xff00 {ROOT_NEW}"' in unlisted.err
    prepare(desk, machine, listed=('gpu', 'switch', 'root'))
    missing = apply(desk)
    assert 0 != missing.code
    assert f'the catalogue lists components that its header does not have: "HGX_FW_ERoT_GPU_* {ROOT_NEW}"' in missing.err
    prepare(desk, machine)
    one = apply(desk, '--device', 'NVIDIA B200 GPU_1')
    assert 4 == one.code
    assert 'bundle tray-new is also written to this device: name this device as well, or all devices' in one.err
    desk.write(
        'baseline.toml',
        (desk.folder / 'baseline.toml').read_text().replace('"HGX_FW_GPU_*"', 'HGX_FW_GPU_0')
        + f'[[rule]]\nname = "others"\nmatch = {{ kind = "GPU" }}\nfirmware = {{ HGX_FW_GPU_1 = "{OLD}" }}\n',
    )
    other = apply(desk)
    assert 4 == other.code
    assert [] == machine.log()

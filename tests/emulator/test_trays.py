# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A tray is flashed by one package, over real HTTP: what goes where, is skipped, fails or waits, and what the journal tells."""

import hashlib
import http.server
import json
import threading

import pytest

from baremetal_acc.emulator import tray_package as command
from baremetal_acc.emulator.fault import BadFault, Faults
from baremetal_acc.emulator.hw.parameters import BadParameter
from baremetal_acc.emulator.redfish.view import Options
from baremetal_acc.emulator.tray_package import tray_package
from baremetal_acc.images import pldm_package

ROOT = '/redfish/v1'
SERVICE = f'{ROOT}/UpdateService'
ITEMS = f'{SERVICE}/FirmwareInventory'
HGX = f'{ITEMS}/HGX_0'
BASEBOARD = f'{ROOT}/Chassis/HGX_Chassis_0'
HOST = f'{ROOT}/Systems/System_0'
AUX = f'{ROOT}/Chassis/BMC_0/Actions/Oem/NvidiaChassis.AuxPowerReset'
OLD, NEW, OLDER = '97.00.82.00.18', '97.00.82.00.20', '97.00.52.00.02'
GPUS = [f'HGX_FW_GPU_{number}' for number in range(8)]
BUNDLE = {'HGX_FW_GPU_*': NEW, 'HGX_FW_NVSwitch_*': '96.10.7A.00.01', 'HGX_FW_FPGA_0': '2.55'}
WRITTEN = 11


@pytest.fixture
def tray(fast, client):
    """A tray and a client of it."""

    def start(product='hgx-tray', **more):
        machine = fast(product, **more)
        return machine, client(machine.bmcs['host'])

    return start


def target(uri=HGX, **more):
    """UpdateParameters for one target."""
    return {'Targets': [uri], **more}


def version(bmc, item):
    """What an item shows."""
    return bmc.get(f'{ITEMS}/{item}')['Version']


def said(task):
    """The messages of a task: id without its registry's version, and its arguments."""
    return [(one['MessageId'].rsplit('.', 1)[-1], *one['MessageArgs']) for one in task['Messages']]


def counted(machine):
    """What the machine's own journal counts."""
    return {what: len(machine.history(what)) for what in ('upload', 'written', 'skipped', 'failed', 'restarted', 'activated')}


# ------------------------------------------------------------------------------------------------- the tray and its items


def test_the_items_of_a_tray_are_what_public_trees_show(tray):
    """Ids, SoftwareIds and related items of the recordings; the tray has an item of its own; InfoROMs cannot be updated."""
    _, bmc = tray()
    ids = {one['@odata.id'].rsplit('/', 1)[-1] for one in bmc.get(ITEMS)['Members']}
    assert {*GPUS, 'HGX_0', 'HGX_FW_BMC_0', 'HGX_FW_ERoT_GPU_7', 'HGX_FW_NVSwitch_1', 'HGX_FW_ERoT_NVSwitch_0'} < ids
    assert {'HGX_FW_FPGA_0', 'HGX_FW_CPLD_0', 'HGX_FW_PCIeRetimer_7', 'HGX_InfoROM_GPU_0', 'HGX_FW_ERoT_BMC_0'} < ids
    shown = {name: bmc.get(f'{ITEMS}/{name}') for name in ('HGX_FW_GPU_3', 'HGX_FW_ERoT_FPGA_0', 'HGX_InfoROM_GPU_0')}
    assert ['0x0020', '0xFF00', ''] == [one['SoftwareId'] for one in shown.values()]
    assert [True, True, False] == [one['Updateable'] for one in shown.values()]
    for one in shown.values():
        assert 200 == bmc.call('GET', one['RelatedItem'][0]['@odata.id']).status_code
    assert [{'@odata.id': BASEBOARD}] == bmc.get(HGX)['RelatedItem']


@pytest.mark.parametrize(('given', 'items'), [({}, 8), ({'gpus': 2}, 2)])
def test_the_number_of_gpus_is_a_parameter(tray, given, items):
    """Eight, unless told otherwise."""
    _, bmc = tray(**given)
    ids = [one['@odata.id'] for one in bmc.get(ITEMS)['Members']]
    assert items == sum('HGX_FW_GPU_' in one for one in ids)


# --------------------------------------------------------------------------------------------------------- a whole bundle


def test_one_upload_one_restart_and_every_component_is_written(tray):
    """By the journal of the machine: one upload, eleven components written, one restart; old versions until then."""
    machine, bmc = tray(flash_seconds=0.5)
    package = tray_package('hgx-tray', BUNDLE)
    answer = bmc.push(None, package, target())
    assert 'Running' == answer.json()['TaskState']
    task = bmc.finished(answer)
    assert ('Completed', 'OK', 100) == (task['TaskState'], task['TaskStatus'], task['PercentComplete'])
    assert [OLD] * 8 == [version(bmc, item) for item in GPUS]
    assert {'upload': 1, 'written': WRITTEN, 'skipped': 0, 'failed': 0, 'restarted': 0, 'activated': 0} == counted(machine)
    bmc.reset(HOST, 'GracefulRestart')
    assert [OLD] * 8 == [version(bmc, item) for item in GPUS]
    machine.reset_log()
    bmc.reset(HOST, 'PowerCycle')
    assert [NEW] * 8 == [version(bmc, item) for item in GPUS]
    assert ['96.10.7A.00.01', '2.55'] == [version(bmc, item) for item in ('HGX_FW_NVSwitch_1', 'HGX_FW_FPGA_0')]
    assert (1, WRITTEN) == (counted(machine)['restarted'], counted(machine)['activated'])


def test_the_journal_tells_which_component_of_which_device_was_written_with_what(tray):
    """Equal cards get the same image, each with its digest; the upload has that of the package."""
    machine, bmc = tray()
    package = tray_package('hgx-tray', BUNDLE, version='bundle 7')
    bmc.finished(bmc.push(None, package, target()))
    (upload,) = machine.history('upload')
    assert (f'sha256:{hashlib.sha256(package).hexdigest()}', 'bundle 7') == (upload['digest'], upload['package'])
    gpus = [one for one in machine.history('written') if one['device'].startswith('GPU_')]
    assert {(f'host/HGX_FW_GPU_{number}', f'GPU_{number}', NEW) for number in range(8)} == {
        (one['component'], one['device'], one['version']) for one in gpus
    }
    assert 1 == len({one['digest'] for one in gpus})
    staged = machine.truth()['components']['host/HGX_FW_GPU_5']['staged']
    assert gpus[0]['digest'] == staged['digest']


def test_the_messages_of_a_task_tell_of_each_component_in_the_order_of_its_arguments(tray):
    """As openbmc/pldm has them: the component first in some, the image first in others; the resolution is what activates it."""
    _, bmc = tray()
    task = bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW, 'HGX_FW_CPLD_0': '0.30'}), target()))
    about = [one for one in said(task) if 'HGX_FW_GPU_4' in one]
    assert [
        ('TargetDetermined', 'HGX_FW_GPU_4', NEW),
        ('TransferringToComponent', NEW, 'HGX_FW_GPU_4'),
        ('VerifyingAtComponent', NEW, 'HGX_FW_GPU_4'),
        ('ApplyingOnComponent', NEW, 'HGX_FW_GPU_4'),
        ('UpdateSuccessful', 'HGX_FW_GPU_4', NEW),
        ('AwaitToActivate', NEW, 'HGX_FW_GPU_4'),
    ] == about
    waits = {
        one['MessageArgs'][1]: one['Resolution'] for one in task['Messages'] if one['MessageId'].endswith('AwaitToActivate')
    }
    assert ('DC power cycle', 'AC power cycle') == (waits['HGX_FW_GPU_4'], waits['HGX_FW_CPLD_0'])


def test_a_card_and_its_root_of_trust_are_two_components_of_one_device(tray, wait):
    """The identifiers say which is which; the root waits for the standby power to go."""
    machine, bmc = tray()
    bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW, 'HGX_FW_ERoT_GPU_*': '01.04.0001'}), target()))
    assert 16 == counted(machine)['written']
    bmc.reset(HOST, 'PowerCycle')
    assert (NEW, '01.03.0183.0000_n04') == (version(bmc, GPUS[0]), version(bmc, 'HGX_FW_ERoT_GPU_0'))
    machine.power('FullPowerCycle')
    wait(lambda: 'mains' == machine.history('restarted')[-1]['depth'] and machine.truth()['bmcs']['host']['up'])
    assert '01.04.0001' == version(bmc, 'HGX_FW_ERoT_GPU_0')


def test_pulling_the_plug_restarts_the_bmc_and_brings_everything_in_force(tray, wait):
    """The one way there is where the BMC has no action for it; a host that was off stays off."""
    machine, bmc = tray()
    bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_ERoT_*': '01.04.0001'}), target()))
    bmc.reset(HOST, 'ForceOff')
    machine.power('FullPowerCycle')
    wait(lambda: machine.truth()['bmcs']['host']['up'])
    assert '01.04.0001' == version(bmc, 'HGX_FW_ERoT_NVSwitch_1')
    assert 'Off' == bmc.get(HOST)['PowerState']
    assert [] == bmc.get(f'{ROOT}/TaskService/Tasks')['Members']


# ---------------------------------------------------------------------------------------- equal, lower, forced, by stamps


def test_what_is_equal_is_skipped_and_written_when_forced(tray):
    """The task says so for each; nothing is written. With ForceUpdate all of it is."""
    machine, bmc = tray()
    package = tray_package('hgx-tray', {'HGX_FW_GPU_*': OLD, 'HGX_FW_FPGA_0': '2.55'})
    task = bmc.finished(bmc.push(None, package, target()))
    assert 'Completed' == task['TaskState']
    assert (1, 8) == (counted(machine)['written'], counted(machine)['skipped'])
    skipped = [one for one in task['Messages'] if one['MessageId'].startswith('NvidiaUpdate.1.0.ComponentUpdateSkipped')]
    assert GPUS == [one['MessageArgs'][0] for one in skipped]
    machine.reset_log()
    task = bmc.finished(bmc.push(None, package, target(ForceUpdate=True)))
    assert ('Completed', 9, 0) == (task['TaskState'], counted(machine)['written'], counted(machine)['skipped'])


def test_a_package_of_which_all_is_skipped_is_completed_at_once(tray):
    """And nothing was written: who wants it rewritten has to look."""
    machine, bmc = tray(flash_seconds=60)
    task = bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': OLD}), target()))
    assert ('Completed', 'OK', 0) == (task['TaskState'], task['TaskStatus'], counted(machine)['written'])


def test_what_is_lower_is_refused_by_its_device_and_written_when_forced(tray):
    """A downgrade is a failure of that component, and the others are written."""
    machine, bmc = tray()
    package = tray_package('hgx-tray', {'HGX_FW_GPU_*': OLDER, 'HGX_FW_FPGA_0': '2.55'})
    task = bmc.finished(bmc.push(None, package, target()))
    assert ('Exception', 'Warning') == (task['TaskState'], task['TaskStatus'])
    assert (1, 8) == (counted(machine)['written'], counted(machine)['failed'])
    wrong = [one for one in task['Messages'] if one['MessageId'] == 'ResourceEvent.1.0.ResourceErrorsDetected']
    assert GPUS == [one['MessageArgs'][0] for one in wrong]
    assert all('lower' in one['MessageArgs'][1] and 'ForceUpdate' in one['Resolution'] for one in wrong)
    assert 'TaskAborted' == said(task)[-1][0]
    bmc.finished(bmc.push(None, package, target(ForceUpdate=True)))
    bmc.reset(HOST, 'PowerCycle')
    assert [OLDER] * 8 == [version(bmc, item) for item in GPUS]


def test_the_package_itself_can_say_that_it_is_to_be_written(tray):
    """Bit 0 of the options of its components."""
    machine, bmc = tray()
    bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': OLD}, forced=True), target()))
    assert 8 == counted(machine)['written']


@pytest.mark.parametrize(('stamp', 'what'), [(7, 'skipped'), (6, 'failed'), (8, 'written')])
def test_comparison_stamps_count_more_than_versions(tray, stamp, what):
    """Once what runs came with a stamp, the stamps are compared and not the versions."""
    machine, bmc = tray(gpus=1)
    bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW}, stamps={'HGX_FW_GPU_*': 7}), target()))
    bmc.reset(HOST, 'PowerCycle')
    machine.reset_log()
    bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': '97.0'}, stamps={'HGX_FW_GPU_*': stamp}), target()))
    assert 1 == counted(machine)[what]


# ---------------------------------------------------------------------------------------------------------------- targets


@pytest.mark.parametrize('parameters', [{}, {'Targets': []}])
def test_without_targets_it_is_the_other_tray(tray, parameters):
    """The BMC and the UEFI of the server: the baseboard gets nothing, even where the package has something for it."""
    machine, bmc = tray()
    package = tray_package('hgx-tray', {'FW_BMC_0': '1.05', 'UEFI': '1.3.0', 'HGX_FW_GPU_*': NEW})
    assert 'Completed' == bmc.finished(bmc.push(None, package, parameters))['TaskState']
    assert {'host/FW_BMC_0', 'host/UEFI'} == {one['component'] for one in machine.history('written')}
    bmc.reset(HOST, 'PowerCycle')
    assert ('1.05', '1.3.0', OLD) == (version(bmc, 'FW_BMC_0'), version(bmc, 'UEFI'), version(bmc, GPUS[0]))


def test_a_single_component_is_written_alone(tray):
    """How one that has failed is tried again: the same package, one target; or two."""
    machine, bmc = tray()
    package = tray_package('hgx-tray', BUNDLE)
    bmc.finished(bmc.push(None, package, target(f'{ITEMS}/HGX_FW_GPU_3')))
    assert ['host/HGX_FW_GPU_3'] == [one['component'] for one in machine.history('written')]
    bmc.finished(bmc.push(None, package, {'Targets': [f'{ITEMS}/HGX_FW_GPU_5', f'{ITEMS}/HGX_FW_FPGA_0']}))
    assert ['GPU_3', 'GPU_5', 'FPGA_0'] == [one['device'] for one in machine.history('written')]


@pytest.mark.parametrize(
    'wrong',
    [BASEBOARD, f'{ITEMS}/NOTHING', f'{ITEMS}/HGX_InfoROM_GPU_0', HOST, 'HGX_0', 7, None, 'x' * 5000],
)
def test_a_wrong_target_is_refused_and_named(tray, wrong):
    """By the message of this BMC; nothing is uploaded, and no task begins."""
    machine, bmc = tray()
    answer = bmc.push(None, tray_package('hgx-tray', BUNDLE), {'Targets': [wrong]})
    assert 400 == answer.status_code
    error = answer.json()['error']['@Message.ExtendedInfo'][0]
    assert 'NvidiaUpdate.1.2.FirmwareUpdateTargetInvalid' == error['MessageId']
    assert [str(wrong)[:2048]] == error['MessageArgs']
    assert [] == bmc.get(f'{ROOT}/TaskService/Tasks')['Members']
    assert 0 == counted(machine)['upload']


def test_targets_of_two_trays_contradict_each_other(tray):
    """Two BMCs would have to carry it out."""
    _, bmc = tray()
    answer = bmc.push(None, tray_package('hgx-tray', BUNDLE), {'Targets': [f'{ITEMS}/FW_BMC_0', HGX]})
    assert 400 == answer.status_code
    assert answer.json()['error']['code'].endswith('ActionParameterValueConflict')


def test_a_package_for_another_tray_or_for_nothing_that_was_named_is_refused_as_a_whole(tray):
    """Its descriptors are those of no device here; or it has nothing for the targets."""
    machine, bmc = tray()
    for package, parameters in (
        (tray_package('gb200-tray', {'HGX_FW_CPU_*': '9'}), target()),
        (tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW}), target(f'{ITEMS}/HGX_FW_FPGA_0')),
        (tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW}), {}),
    ):
        task = bmc.finished(bmc.push(None, package, parameters))
        assert ('Exception', 'Warning') == (task['TaskState'], task['TaskStatus'])
        assert ('ResourceErrorsDetected', 'Firmware Update Service') == said(task)[0][:2]
    assert (0, 3) == (counted(machine)['written'], len(machine.history('refused')))


def test_a_gb200_is_named_by_its_chassis_and_its_tasks_are_those_of_its_own_bmc(tray):
    """No other target stands for it; Ids of tasks begin with HGX."""
    machine, bmc = tray('gb200-tray')
    package = tray_package('gb200-tray', {'HGX_FW_BMC_0': 'GB200Nvl-25.01-1', 'HGX_FW_*': '99.1'})
    assert 400 == bmc.push(None, package, target()).status_code
    task = bmc.finished(bmc.push(None, package, target(BASEBOARD)))
    assert ('HGX_0', 'Completed') == (task['Id'], task['TaskState'])
    assert {'GPU_0', 'GPU_3', 'CPU_1', 'FPGA_1', 'CPLD_0', ''} < {one['device'] for one in machine.history('written')}


def test_the_standby_power_of_a_gb200_is_cycled_by_an_action(tray, wait):
    """Without force the host has to be off. A power cycle of the host brings nothing in force."""
    machine, bmc = tray('gb200-tray')
    shown = bmc.get(f'{ROOT}/Chassis/BMC_0')['Actions']['Oem']['#NvidiaChassis.AuxPowerReset']
    assert AUX == shown['target']
    bmc.finished(bmc.push(None, tray_package('gb200-tray', {'HGX_FW_GPU_*': '97.10'}), target(BASEBOARD)))
    bmc.reset(HOST, 'PowerCycle')
    assert '97.00.0C.00.00' == version(bmc, 'HGX_FW_GPU_0')
    assert 409 == bmc.post(AUX, {'ResetType': 'AuxPowerCycle'}).status_code
    assert 400 == bmc.post(AUX, {'ResetType': 'Sideways'}).status_code
    assert 204 == bmc.post(AUX, {'ResetType': 'AuxPowerCycleForce'}).status_code
    wait(lambda: machine.truth()['bmcs']['host']['up'] and machine.history('activated'))
    assert '97.10' == version(bmc, 'HGX_FW_GPU_0')
    assert ['cold', 'mains'] == [one['depth'] for one in machine.history('restarted')]


# ----------------------------------------------------------------------------------------------------- other ways to push


class _Packages(http.server.BaseHTTPRequestHandler):
    package = b''

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.package)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def packages():
    """An image server on loopback."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Packages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f'http://127.0.0.1:{server.server_address[1]}'
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_the_features_there_is_one_way(tray):
    """Multipart alone, as on the recorded tree."""
    _, bmc = tray()
    shown = bmc.get(SERVICE)
    assert ('HttpPushUri' in shown, 'Actions' in shown) == (False, False)
    assert 404 == bmc.call('POST', f'{SERVICE}/update', data=b'x').status_code


def test_a_plain_push_goes_to_the_targets_that_were_set_with_the_options_that_were_set(tray):
    """HttpPushUriTargets and HttpPushUriOptions are patched before, and count for what comes then."""
    machine, bmc = tray(features=frozenset({'http-push-uri'}))
    shown = bmc.get(SERVICE)
    assert (f'{SERVICE}/update', [], False) == (
        shown['HttpPushUri'],
        shown['HttpPushUriTargets'],
        shown['HttpPushUriOptions']['ForceUpdate'],
    )
    options = {'HttpPushUriTargets': [HGX], 'HttpPushUriOptions': {'ForceUpdate': True}}
    assert 204 == bmc.patch(SERVICE, options).status_code
    assert [HGX] == bmc.get(SERVICE)['HttpPushUriTargets']
    octets = {'Content-Type': 'application/octet-stream'}
    package = tray_package('hgx-tray', {'HGX_FW_GPU_*': OLD})
    task = bmc.finished(bmc.call('POST', shown['HttpPushUri'], data=package, headers=octets))
    assert ('Completed', 8) == (task['TaskState'], counted(machine)['written'])
    assert 204 == bmc.patch(SERVICE, {'HttpPushUriTargets': ['/redfish/v1/nonsense']}).status_code
    assert 400 == bmc.call('POST', shown['HttpPushUri'], data=package, headers=octets).status_code
    for wrong in ({'HttpPushUriTargets': [7]}, {'HttpPushUriTargets': 'x'}, {'HttpPushUriOptions': {'ForceUpdate': 'yes'}}):
        assert 400 == bmc.patch(SERVICE, wrong).status_code


def test_simple_update_fetches_a_package(tray, packages):
    """With Targets and ForceUpdate as parameters of the action."""
    machine, bmc = tray(features=frozenset({'simple-update'}))
    _Packages.package = tray_package('hgx-tray', {'HGX_FW_GPU_*': OLD})
    action = bmc.get(SERVICE)['Actions']['#UpdateService.SimpleUpdate']['target']
    body = {'ImageURI': f'{packages}/x.fwpkg', 'TransferProtocol': 'HTTP', 'Targets': [HGX], 'ForceUpdate': True}
    assert 'Completed' == bmc.finished(bmc.post(action, body))['TaskState']
    assert 8 == counted(machine)['written']


def test_a_server_that_is_no_tray_takes_no_package_and_a_tray_no_single_image(fast, tray, client, gpu_image):
    """Each says so in its task, and nothing is written."""
    server = fast('gpu-server')
    other = client(server.bmcs['host'])
    task = other.finished(other.push(f'{ITEMS}/HGX_FW_GPU_0', tray_package('hgx-tray', BUNDLE)))
    assert ('Exception', True) == (task['TaskState'], 'package' in task['Messages'][-1]['Message'])
    machine, bmc = tray()
    task = bmc.finished(bmc.push(f'{ITEMS}/HGX_FW_GPU_0', gpu_image(model='b200')))
    assert ('Exception', ['bad-package']) == (task['TaskState'], [one['reason'] for one in machine.history('refused')])
    assert (0, 0) == (counted(server)['written'], counted(machine)['written'])
    loose = fast('gpu-server', options={'*': Options(strict_targets=False)})
    assert 400 == client(loose.bmcs['host']).push(None, tray_package('hgx-tray', BUNDLE), {}).status_code


@pytest.mark.parametrize('cut', [10, 60, 5000])
def test_a_package_that_is_cut_is_refused_as_a_whole(tray, cut):
    """In the identifier, in the header, in an image."""
    machine, bmc = tray()
    task = bmc.finished(bmc.push(None, tray_package('hgx-tray', BUNDLE)[:cut], target()))
    assert 'Exception' == task['TaskState']
    assert (0, ['bad-package']) == (counted(machine)['written'], [one['reason'] for one in machine.history('refused')])


def test_one_update_at_a_time(tray):
    """Another one is answered 503 with Retry-After until the first has ended."""
    _, bmc = tray(flash_seconds=0.5)
    package = tray_package('hgx-tray', BUNDLE)
    first = bmc.push(None, package, target())
    busy = bmc.push(None, package, {})
    assert (503, True) == (busy.status_code, int(busy.headers['Retry-After']) >= 1)
    bmc.finished(first)
    assert 202 == bmc.push(None, package, {}).status_code


# ----------------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ('stage', 'message'), [('transfer', 'TransferFailed'), ('verify', 'VerificationFailed'), ('apply', 'ApplyFailed')]
)
def test_a_gpu_that_fails_does_not_cost_the_other_seven(tray, stage, message):
    """In part: seven are written and come in force, the task is an Exception that names the eighth."""
    machine, bmc = tray()
    machine.fault('component-fails', device='GPU_3', stage=stage)
    package = tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW})
    task = bmc.finished(bmc.push(None, package, target()))
    assert ('Exception', 'Warning') == (task['TaskState'], task['TaskStatus'])
    assert (7, ['GPU_3']) == (counted(machine)['written'], [one['device'] for one in machine.history('failed')])
    assert (message, NEW, 'HGX_FW_GPU_3') in said(task)
    bmc.reset(HOST, 'PowerCycle')
    assert [OLD if item.endswith('_3') else NEW for item in GPUS] == [version(bmc, item) for item in GPUS]
    machine.clear_faults()
    bmc.finished(bmc.push(None, package, target(f'{ITEMS}/HGX_FW_GPU_3')))
    bmc.reset(HOST, 'PowerCycle')
    assert NEW == version(bmc, 'HGX_FW_GPU_3')


@pytest.mark.parametrize(('continues', 'written'), [(True, 1), (False, 0)])
def test_a_device_goes_on_with_its_other_components_when_its_record_says_so(tray, continues, written):
    """Bit 0 of DeviceUpdateOptionFlags."""
    machine, bmc = tray(gpus=1)
    machine.fault('component-fails', uri=f'{ITEMS}/HGX_FW_GPU_0')
    parts = {'HGX_FW_GPU_*': NEW, 'HGX_FW_ERoT_GPU_*': '01.04.0001'}
    bmc.finished(bmc.push(None, tray_package('hgx-tray', parts, continues=continues), target()))
    assert (written, 2 - written) == (counted(machine)['written'], counted(machine)['failed'])


def test_an_image_in_a_package_that_its_device_finds_wrong(tray):
    """Not whole, of another version than the package says, or refused by the device: that component alone."""
    machine, bmc = tray()
    machine.fault('image-refused', device='GPU_1')
    other = tray_package('hgx-tray', {'HGX_FW_FPGA_0': '2.60'})
    package = tray_package('hgx-tray', BUNDLE, images={'HGX_FW_NVSwitch_*': b'nonsense', 'HGX_FW_FPGA_0': other})
    task = bmc.finished(bmc.push(None, package, target()))
    assert 'Exception' == task['TaskState']
    assert 7 == counted(machine)['written']
    assert {'GPU_1': 'image-refused', 'NVSwitch_0': 'bad-image', 'NVSwitch_1': 'bad-image', 'FPGA_0': 'bad-image'} == {
        one['device']: one['reason'] for one in machine.history('failed')
    }


def test_a_package_that_is_refused_as_a_whole(tray):
    """Its signature is wrong, for one: nothing is written."""
    machine, bmc = tray()
    machine.fault('package-refused', message='It was signed by nobody.')
    task = bmc.finished(bmc.push(None, tray_package('hgx-tray', BUNDLE), target()))
    assert ('Exception', 'It was signed by nobody.') == (task['TaskState'], said(task)[0][2])
    assert (0, 1) == (counted(machine)['written'], len(machine.history('refused')))


def test_a_target_that_is_refused_today(tray):
    """As if it were not there."""
    machine, bmc = tray()
    machine.fault('target-refused', uri=HGX)
    assert 400 == bmc.push(None, tray_package('hgx-tray', BUNDLE), target()).status_code
    assert 202 == bmc.push(None, tray_package('hgx-tray', BUNDLE), target(f'{ITEMS}/HGX_FW_GPU_0')).status_code


def test_an_item_that_vanishes_for_a_while(tray):
    """That of a component that was written; it is there again later, and the others never went."""
    machine, bmc = tray(virtual_clock=True, flash_seconds=10)
    machine.fault('item-late', device='GPU_2', seconds=30, missing=True)
    bmc.push(None, tray_package('hgx-tray', BUNDLE), target())
    machine.advance(10)
    assert [404, 200] == [bmc.call('GET', f'{ITEMS}/{item}').status_code for item in ('HGX_FW_GPU_2', 'HGX_FW_GPU_3')]
    machine.advance(30)
    assert OLD == version(bmc, 'HGX_FW_GPU_2')


def test_a_card_that_is_gone_gets_nothing_and_the_others_do(tray):
    """Its component is not among those of the task."""
    machine, bmc = tray()
    machine.fault('device-absent', device='GPU_6')
    task = bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW}), target()))
    assert ('Completed', 7) == (task['TaskState'], counted(machine)['written'])
    assert not [one for one in said(task) if 'HGX_FW_GPU_6' in one]


def test_a_lock_stops_one_component(tray):
    """WriteProtected of one GPU: the seven others are written."""
    machine, bmc = tray()
    assert 204 == bmc.patch(f'{ITEMS}/HGX_FW_GPU_4', {'WriteProtected': True}).status_code
    bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW}), target()))
    assert (7, [('GPU_4', 'write-protected')]) == (
        counted(machine)['written'],
        [(one['device'], one['reason']) for one in machine.history('failed')],
    )


@pytest.mark.parametrize(
    ('form', 'ids'),
    [
        ('none', set()),
        ('results', {'Update.1.0.UpdateSuccessful', 'NvidiaUpdate.1.0.ComponentUpdateSkipped'}),
        (
            'older',
            {
                *('Update.1.0.TargetDetermined', 'Update.1.0.TransferringToComponent', 'Update.1.0.VerifyingAtComponent'),
                *('Update.1.0.ApplyingOnComponent', 'Update.1.0.UpdateSuccessful', 'Update.1.0.AwaitToActivate'),
                'OpenBMC.0.4.ComponentUpdateSkipped',
            },
        ),
    ],
)
def test_tasks_say_more_or_less(tray, form, ids):
    """What a task tells of its components differs from firmware to firmware."""
    machine, bmc = tray()
    machine.fault('task-messages', form=form)
    task = bmc.finished(bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': OLD, 'HGX_FW_FPGA_0': '3'}), target()))
    assert ids == {one['MessageId'] for one in task['Messages']}


@pytest.mark.parametrize(('fault', 'key'), [('component-fails', 'stage'), ('task-messages', 'form')])
def test_a_fault_that_cannot_be_is_refused(fault, key):
    """It names what there is."""
    with pytest.raises(BadFault, match='must be one of'):
        Faults().add({'name': fault, key: 'nonsense'})


@pytest.mark.parametrize(
    ('fault', 'state', 'written'),
    [
        ({'name': 'task-fails'}, 'Exception', WRITTEN // 2),
        ({'name': 'task-fails', 'at_percent': 0}, 'Exception', 0),
        ({'name': 'task-fails', 'completes': True}, 'Exception', WRITTEN),
        ({'name': 'task-completed-version-unchanged'}, 'Completed', 0),
        ({'name': 'task-completed-critical', 'completes': True}, 'Completed', WRITTEN),
    ],
)
def test_the_faults_of_tasks_are_those_of_any_other_update(tray, fault, state, written):
    """They are of the package as a whole."""
    machine, bmc = tray()
    machine.fault(**fault)
    task = bmc.finished(bmc.push(None, tray_package('hgx-tray', BUNDLE), target()))
    assert (state, written) == (task['TaskState'], counted(machine)['written'])


@pytest.mark.parametrize(('percent', 'written'), [(0, 0), (30, 2), (90, 7)])
@pytest.mark.parametrize('name', ['task-vanishes', 'bmc-restart', 'task-stuck', 'power-lost', 'task-id-reused'])
def test_what_ends_a_task_in_the_middle_leaves_the_package_written_in_part(tray, name, percent, written):
    """Components are written one after the other; those that were are in force after the restart, and the others are not."""
    machine, bmc = tray(virtual_clock=True, flash_seconds=100, reset_seconds=1, bmc_reset_seconds=1)
    machine.fault(name, at_percent=percent)
    bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW}), target())
    machine.advance(200)
    machine.advance(2)
    assert [f'GPU_{number}' for number in range(written)] == [one['device'] for one in machine.history('written')]
    machine.power('PowerCycle')
    machine.advance(2)
    assert [NEW] * written + [OLD] * (8 - written) == [version(bmc, item) for item in GPUS]


def test_a_task_tells_of_components_as_they_are_written(tray):
    """PercentComplete grows with the clock, and so do the messages."""
    machine, bmc = tray(virtual_clock=True, flash_seconds=80)
    task = bmc.push(None, tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW}), target()).json()['@odata.id']
    machine.advance(41)
    shown = bmc.get(task)
    assert ('Running', 51, 4) == (
        shown['TaskState'],
        shown['PercentComplete'],
        sum(one[0] == 'UpdateSuccessful' for one in said(shown)),
    )


def test_a_package_that_waits_for_a_restart_is_written_with_it(tray):
    """And what it wrote is in force then."""
    machine, bmc = tray()
    machine.fault('task-waits-for-restart', count=1)
    answer = bmc.push(None, tray_package('hgx-tray', BUNDLE), target())
    assert ('Pending', 0) == (bmc.get(answer.json()['@odata.id'])['TaskState'], counted(machine)['written'])
    bmc.reset(HOST, 'PowerCycle')
    assert 'Completed' == bmc.finished(answer)['TaskState']
    assert NEW == version(bmc, GPUS[0])


def test_an_upload_that_is_cut_leaves_the_tray_free(tray):
    """Nothing was written, and the next one is taken."""
    machine, bmc = tray(tls=False)
    machine.fault('upload-cut', count=1)
    package = tray_package('hgx-tray', BUNDLE, size_bytes=30000)
    with pytest.raises(OSError, match=r'.'):
        bmc.push(None, package, target())
    assert 0 == counted(machine)['upload']
    assert 202 == bmc.push(None, package, target()).status_code


# -------------------------------------------------------------------------------------------------------- background copy


def test_roots_of_trust_copy_after_the_activation_and_refuse_until_they_have(tray):
    """Not while what was written waits; then for a minute. A component that comes meanwhile has failed."""
    machine, bmc = tray(virtual_clock=True, flash_seconds=10, reset_seconds=1, habits=('background-copy',))
    gpu, switch = f'{ROOT}/Chassis/HGX_ERoT_GPU_0', f'{ROOT}/Chassis/HGX_ERoT_NVSwitch_0'

    def states():
        return [bmc.get(uri)['Oem']['Nvidia']['BackgroundCopyStatus'] for uri in (gpu, switch)]

    package = tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW})
    bmc.push(None, package, target())
    machine.advance(10)
    assert ['Completed', 'Completed'] == states()
    bmc.post(f'{HOST}/Actions/ComputerSystem.Reset', {'ResetType': 'PowerCycle'})
    machine.advance(2)
    assert ['InProgress', 'Completed'] == states()
    machine.reset_log()
    both = tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW, 'HGX_FW_NVSwitch_*': '97'})
    answer = bmc.push(None, both, target(ForceUpdate=True))
    machine.advance(10)
    task = bmc.get(answer.json()['@odata.id'])
    assert ('Exception', 2, 8) == (task['TaskState'], counted(machine)['written'], counted(machine)['failed'])
    assert {'copying'} == {one['reason'] for one in machine.history('failed')}
    machine.advance(60)
    assert ['Completed', 'InProgress'][:1] == states()[:1]
    answer = bmc.push(None, package, target(ForceUpdate=True))
    machine.advance(10)
    assert 'Completed' == bmc.get(answer.json()['@odata.id'])['TaskState']


# -------------------------------------------------------------------------------------------- what outlives, and packages


def test_a_package_that_is_being_written_goes_on_after_a_restart_of_the_emulator(fast, client, tmp_path):
    """Each component with its image, and the comparison stamp that it came with."""
    machine = fast('hgx-tray', state=tmp_path, flash_seconds=1.5)
    bmc = client(machine.bmcs['host'])
    package = tray_package('hgx-tray', BUNDLE, stamps={'HGX_FW_GPU_*': 9})
    task = bmc.push(None, package, target()).json()['@odata.id']
    machine.stop()
    machine = fast('hgx-tray', state=tmp_path, flash_seconds=1.5)
    bmc = client(machine.bmcs['host'])
    bmc.base = machine.bmcs['host'].address
    assert 'Completed' == _ended(bmc, task)['TaskState']
    staged = machine.truth()['components']['host/HGX_FW_GPU_7']['staged']
    assert (NEW, 9) == (staged['version'], staged['stamp'])


def _ended(bmc, uri):
    found = bmc.get(uri)
    while found['TaskState'] == 'Running':
        found = bmc.get(uri)
    return found


def test_a_package_can_be_made_from_the_command_line(tmp_path, capsys):
    """The same bytes as in Python; what is not there is named."""
    out = tmp_path / 'x.fwpkg'
    given = ['hgx-tray', '--set', f'HGX_FW_GPU_*={NEW}', '--version', '1', '--out', str(out)]
    assert 0 == command.main(given)
    assert tray_package('hgx-tray', {'HGX_FW_GPU_*': NEW}, version='1') == out.read_bytes()
    assert hashlib.sha256(out.read_bytes()).hexdigest() in capsys.readouterr().out
    for wrong in (['dpu', '--set', 'x=1'], ['hgx-tray', '--set', 'NOTHING=1'], ['nonsense', '--set', 'x=1']):
        with pytest.raises(SystemExit) as stopped:
            command.main([*wrong, '--out', str(out)])
        assert 2 == stopped.value.code


def test_a_package_for_what_is_not_there_cannot_be_made():
    """It names what there is."""
    with pytest.raises(BadParameter, match='HGX_FW_GPU_0'):
        tray_package('hgx-tray', {'HGX_InfoROM_GPU_0': '1'})


def test_the_truth_is_json(tray):
    """All of it, with what a package has left there."""
    machine, bmc = tray()
    bmc.finished(bmc.push(None, tray_package('hgx-tray', BUNDLE, images={'HGX_FW_FPGA_0': b'x'}), target()))
    assert json.loads(json.dumps(machine.truth()))['history']


@pytest.mark.parametrize(
    ('product', 'globs'), [('hgx-tray', BUNDLE), ('gb200-tray', {'HGX_FW_*': '9', 'FW_BMC_0': '8', 'UEFI': '7'})]
)
def test_the_reader_of_the_client_finds_in_such_a_package_what_was_asked_for(product, globs):
    """Versions and identifiers; equal cards are one record, and their image is one component."""
    found = pldm_package.parse(tray_package(product, globs, version='b 1'), 'x')
    assert 'b 1' == found.version.text
    assert set(globs.values()) == {one.version.text for one in found.components}
    gpus = [one for one in found.components if one.identifier == 0x20]
    assert 1 == len(gpus)
    at = found.components.index(gpus[0])
    assert 1 == sum(at in one.components for one in found.devices)

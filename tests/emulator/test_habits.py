# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each habit, over HTTP and for a client that is not ours, makes the BMC behave as it says; without it the BMC does not."""

import pytest

from baremetal_acc.emulator import main
from baremetal_acc.emulator.fault import BadFault, Faults
from baremetal_acc.emulator.habit import HABITS, UnknownHabit, find_habit
from baremetal_acc.emulator.hw import PRODUCTS, build
from baremetal_acc.emulator.hw.parameters import BadParameter, Parameters

ROOT = '/redfish/v1'
SERVICE = f'{ROOT}/UpdateService'
ITEMS = f'{SERVICE}/FirmwareInventory'
ITEM = f'{ITEMS}/HGX_FW_ERoT_GPU_0'
GPU_ITEM = f'{ITEMS}/HGX_FW_GPU_0'
EROT = f'{ROOT}/Chassis/HGX_ERoT_GPU_0'
GPU = f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_0'
HOST = f'{ROOT}/Systems/System_0'
RESET = f'{HOST}/Actions/ComputerSystem.Reset'
TASKS = f'{ROOT}/TaskService/Tasks'
SESSIONS = f'{ROOT}/SessionService/Sessions'
OLD, NEW = '01.02.0060.0000_n00', '2.0.0'
FLASH = 10


@pytest.fixture
def pair(fast, client):
    """A machine with habits, whose clock only the test moves, and a client of it."""

    def start(*habits):
        machine = fast('gpu-server', gpus=2, virtual_clock=True, flash_seconds=FLASH, bmc_reset_seconds=10, habits=habits)
        return machine, client(machine.bmcs['host'])

    return start


@pytest.fixture
def pushed(pair, gpu_image):
    """A machine with habits that has got an image for the root of trust, a client of it, and what it answered."""

    def start(*habits):
        machine, bmc = pair(*habits)
        return machine, bmc, bmc.push(ITEM, gpu_image(component='erot'))

    return start


def version(machine, item='HGX_FW_ERoT_GPU_0'):
    """What the item really runs."""
    return machine.truth()['components'][f'host/{item}']['active']['version']


def power(machine, bmc, reset_type):
    """Change the power of the host, and let it happen."""
    assert 204 == bmc.post(RESET, {'ResetType': reset_type}).status_code
    machine.advance(1)


# ------------------------------------------------------------------------------------------------------- how an update is told


@pytest.mark.parametrize(('habit', 'state'), [('no-task-updating', 'Updating'), ('no-task-silent', 'Enabled')])
def test_an_update_has_no_task(pushed, gpu_image, habit, state):
    """200 without body or Location; no task is shown, ever; the target is busy meanwhile, and the image is written."""
    machine, bmc, answer = pushed(habit)
    assert (200, b'', None) == (answer.status_code, answer.content, answer.headers.get('Location'))
    assert (state, []) == (bmc.get(SERVICE)['Status']['State'], bmc.get(TASKS)['Members'])
    assert 404 == bmc.call('GET', f'{TASKS}/0').status_code
    assert 404 == bmc.call('GET', f'{ROOT}/TaskService/TaskMonitors/0').status_code
    assert (503, OLD) == (bmc.push(ITEM, gpu_image(component='erot')).status_code, version(machine))
    machine.advance(FLASH)
    assert ('Enabled', NEW, []) == (bmc.get(SERVICE)['Status']['State'], version(machine), bmc.get(TASKS)['Members'])


def test_without_a_habit_an_update_has_a_task_and_a_monitor(pushed):
    """202 with both, UpdateService is Enabled, and Location is a path."""
    machine, bmc, answer = pushed()
    task, monitor = f'{TASKS}/0', f'{ROOT}/TaskService/TaskMonitors/0'
    assert (202, task, monitor) == (answer.status_code, answer.json()['@odata.id'], answer.headers['Location'])
    assert (202, 'Enabled') == (bmc.call('GET', monitor).status_code, bmc.get(SERVICE)['Status']['State'])
    assert 'Running' == bmc.get(task)['TaskState']
    machine.advance(FLASH)
    assert (200, NEW) == (bmc.call('GET', monitor).status_code, bmc.get(ITEM)['Version'].strip())


@pytest.mark.parametrize(('habit', 'end'), [('monitor-only', 204), ('monitor-vanishes', 404)])
def test_an_update_has_a_monitor_alone(pushed, habit, end):
    """202 without a body while it is written; no Task says anything."""
    machine, bmc, answer = pushed(habit)
    monitor = f'{SERVICE}/Monitors/0'
    assert (202, b'', monitor) == (answer.status_code, answer.content, answer.headers['Location'])
    told = bmc.call('GET', monitor)
    assert (202, b'', monitor) == (told.status_code, told.content, told.headers['Location'])
    assert ([], 404) == (bmc.get(TASKS)['Members'], bmc.call('GET', f'{TASKS}/0').status_code)
    machine.advance(FLASH)
    told = bmc.call('GET', monitor)
    assert (end, NEW) == (told.status_code, version(machine))
    assert (b'' == told.content) is (end == 204)


def test_a_monitor_alone_tells_of_a_failure_and_can_be_deleted(pushed, gpu_image):
    """An error says why the image was not written; DELETE cancels the update."""
    machine, bmc, _ = pushed('monitor-only')
    assert 204 == bmc.call('DELETE', f'{SERVICE}/Monitors/0').status_code
    machine.fault('task-fails', message='The flash is worn out.')
    assert 202 == bmc.push(ITEM, gpu_image(component='erot')).status_code
    machine.advance(FLASH)
    told = bmc.call('GET', f'{SERVICE}/Monitors/1')
    assert (400, OLD) == (told.status_code, version(machine))
    assert 'The flash is worn out.' in told.json()['error']['message']


def test_location_names_another_authority(pushed):
    """Of tasks and of sessions; what stands in the path there is right."""
    _, bmc, answer = pushed('location-elsewhere')
    elsewhere = 'https://bmc.internal.example'
    assert f'{elsewhere}{ROOT}/TaskService/TaskMonitors/0' == answer.headers['Location']
    assert 202 == bmc.call('GET', answer.headers['Location'].removeprefix(elsewhere)).status_code
    login = bmc.post(SESSIONS, {'UserName': bmc.http.auth[0], 'Password': bmc.http.auth[1]})
    assert login.headers['Location'].startswith(f'{elsewhere}{SESSIONS}/')


START = f'{SERVICE}/Actions/UpdateService.StartUpdate'
SUPPORT = 'MultipartHttpPushUri@Redfish.OperationApplyTimeSupport'
ON_START = {'Targets': [ITEM], '@Redfish.OperationApplyTime': 'OnStartUpdateRequest'}


def test_without_a_habit_there_is_nothing_to_start(pair):
    """No action is shown, and none taken."""
    _, bmc = pair()
    shown = bmc.get(SERVICE)
    assert (['Immediate', 'OnReset'], False) == (
        shown[SUPPORT]['SupportedValues'],
        '#UpdateService.StartUpdate' in shown['Actions'],
    )
    assert 404 == bmc.post(START, {}).status_code


def test_an_image_waits_for_start_update_and_its_task_goes_on(pair, gpu_image):
    """No other time is taken. A restart of the host starts nothing, a second start finds nothing."""
    machine, bmc = pair('update-waits-for-start')
    shown = bmc.get(SERVICE)
    assert (['OnStartUpdateRequest'], START) == (
        shown[SUPPORT]['SupportedValues'],
        shown['Actions']['#UpdateService.StartUpdate']['target'],
    )
    image = gpu_image(component='erot')
    assert 400 == bmc.push(ITEM, image).status_code
    task = bmc.push(None, image, ON_START).json()['@odata.id']
    machine.advance(FLASH)
    power(machine, bmc, 'ForceRestart')
    waiting = bmc.get(task)
    assert ('Pending', 0, OLD) == (waiting['TaskState'], waiting['PercentComplete'], version(machine))
    assert 'Update.1.2.AwaitToUpdate' == waiting['Messages'][-1]['MessageId']
    assert 503 == bmc.push(None, image, ON_START).status_code
    answer = bmc.post(START, {})
    assert (202, task, 'Running') == (answer.status_code, answer.json()['@odata.id'], bmc.get(task)['TaskState'])
    assert 400 == bmc.post(START, {}).status_code
    machine.advance(FLASH)
    assert ('Completed', NEW) == (bmc.get(task)['TaskState'], version(machine))


def test_start_update_begins_another_task(pair, gpu_image):
    """That of the upload has ended well, and nothing was written by it."""
    machine, bmc = pair('update-starts-anew')
    first = bmc.push(None, gpu_image(component='erot'), ON_START).json()
    assert ('Completed', OLD) == (first['TaskState'], version(machine))
    second = bmc.post(START, {}).json()
    assert ('Running', True) == (second['TaskState'], second['@odata.id'] != first['@odata.id'])
    machine.advance(FLASH)
    assert ('Completed', NEW) == (bmc.get(second['@odata.id'])['TaskState'], version(machine))
    assert 400 == bmc.post(START, {}).status_code


def test_an_image_waits_for_start_update_though_it_was_to_be_applied_at_once(pushed):
    """The task says that it waits for an action; the action is shown."""
    machine, bmc, answer = pushed('update-waits-unasked')
    assert ('Pending', 'Update.1.2.AwaitToUpdate') == (answer.json()['TaskState'], answer.json()['Messages'][-1]['MessageId'])
    assert 202 == bmc.post(START, {}).status_code
    machine.advance(FLASH)
    assert NEW == version(machine)


def test_an_image_waits_for_start_update_only_once_it_was_checked(pushed):
    """The task runs first, and nothing waits to be started."""
    machine, bmc, answer = pushed('update-waits-later')
    task = answer.json()['@odata.id']
    assert 'Running' == answer.json()['TaskState']
    assert 400 == bmc.post(START, {}).status_code
    machine.advance(2.1)
    found = bmc.get(task)
    assert ('Pending', 'Update.1.2.AwaitToUpdate') == (found['TaskState'], found['Messages'][-1]['MessageId'])
    assert 202 == bmc.post(START, {}).status_code
    machine.advance(FLASH)
    assert ('Completed', NEW) == (bmc.get(task)['TaskState'], version(machine))


@pytest.mark.parametrize(
    ('habit', 'state'), [('update-waits-for-restart', 'Pending'), ('update-scheduled-for-restart', 'Scheduled')]
)
@pytest.mark.parametrize('resets', [('ForceRestart',), ('ForceOff', 'On')])
def test_an_update_waits_for_a_restart_of_the_host(pushed, habit, state, resets):
    """However long; its task says what it waits for, and runs once the host is up again."""
    machine, bmc, answer = pushed(habit)
    task = answer.json()['@odata.id']
    machine.advance(3600)
    shown = bmc.get(task)
    assert (state, 0) == (shown['TaskState'], shown['PercentComplete'])
    assert 'Update.1.2.AwaitToActivate' == shown['Messages'][-1]['MessageId']
    assert 'Restart the host' in shown['Messages'][-1]['Message']
    for reset_type in resets:
        power(machine, bmc, reset_type)
        assert [] == machine.truth()['cut_writes']
    assert ('Running', OLD) == (bmc.get(task)['TaskState'], version(machine))
    machine.advance(FLASH)
    assert ('Completed', NEW) == (bmc.get(task)['TaskState'], version(machine))


def test_an_update_may_wait_without_a_word(pushed):
    """It has not begun, as far as anybody is told."""
    machine, bmc, answer = pushed('update-waits-unsaid')
    machine.advance(3600)
    shown = bmc.get(answer.json()['@odata.id'])
    assert ('New', 0) == (shown['TaskState'], shown['PercentComplete'])
    assert not [m for m in shown['Messages'] if 'estart' in m['Message'] or 'Await' in m['MessageId']]
    power(machine, bmc, 'ForceRestart')
    machine.advance(FLASH)
    assert NEW == version(machine)


def test_what_has_waited_for_a_restart_needs_no_other_one(pair, gpu_image):
    """Firmware that else is in force after a restart is in force once it is written in one."""
    for habits, runs in ((('update-waits-for-restart',), NEW), ((), '96.00.30.00.01')):
        machine, bmc = pair(*habits)
        assert 202 == bmc.push(GPU_ITEM, gpu_image()).status_code
        if habits:
            power(machine, bmc, 'ForceRestart')
        machine.advance(FLASH)
        assert runs == version(machine, 'HGX_FW_GPU_0')


def test_an_update_that_waits_can_be_cancelled(pushed):
    """And is not written by the next restart; until then its target is busy."""
    machine, bmc, answer = pushed('update-waits-for-restart')
    assert 204 == bmc.call('DELETE', answer.json()['@odata.id']).status_code
    power(machine, bmc, 'ForceRestart')
    machine.advance(FLASH)
    assert OLD == version(machine)


# ------------------------------------------------------------------------------------------------------------ how it is written


def closed(machine):
    """Whether the lock of the first GPU holds."""
    return machine.truth()['locks']['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']['closed']


def close(bmc, **more):
    """Close it."""
    return bmc.patch(EROT, {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}}, **more)


@pytest.mark.parametrize(
    ('habit', 'given', 'status'),
    [
        (None, 'shown', 204),
        ('weak-etags', 'shown', 412),
        ('weak-etags', 'strong', 412),
        ('weak-etags', None, 204),
        ('weak-etags-match-strong', 'strong', 204),
        ('needs-if-match', None, 428),
        ('needs-if-match', 'shown', 204),
        ('needs-if-match-hides-etag', None, 428),
        ('needs-if-match-hides-etag', '*', 204),
    ],
)
def test_a_bmc_has_its_own_mind_about_etags(pair, habit, given, status):
    """What a PATCH with that If-Match is answered; it is carried out when it is answered so, and else not."""
    machine, bmc = pair(*filter(None, [habit]))
    etag = bmc.call('GET', EROT).headers.get('ETag')
    assert ((etag or '').startswith('W/'), etag is None) == ('weak' in (habit or ''), 'hides' in (habit or ''))
    tags = {'shown': etag, 'strong': (etag or '').removeprefix('W/'), '*': '*'}
    headers = {} if given is None else {'If-Match': tags[given]}
    assert status == close(bmc, headers=headers).status_code
    assert closed(machine) is (status == 204)


def test_who_logs_out_needs_no_condition(pair):
    """It is the PATCH that is refused without If-Match: a session can be deleted."""
    _, bmc = pair('needs-if-match-hides-etag')
    login = bmc.post(SESSIONS, {'UserName': bmc.http.auth[0], 'Password': bmc.http.auth[1]})
    assert 204 == bmc.call('DELETE', login.headers['Location']).status_code
    assert [] == bmc.get(SESSIONS)['Members']


@pytest.mark.parametrize(('habit', 'there'), [('patch-later', 202), ('patch-later-no-monitor', 404)])
def test_a_patch_is_carried_out_later(pair, habit, there):
    """202; the monitor is there or not; another PATCH is refused until the first has been carried out."""
    machine, bmc = pair(habit)
    answer = close(bmc)
    assert (202, there) == (answer.status_code, bmc.call('GET', answer.headers['Location']).status_code)
    assert (False, 400) == (closed(machine), close(bmc).status_code)
    machine.advance(3)
    assert closed(machine)


def test_a_patch_is_shown_later(pair):
    """It is answered as if it were done, and others are taken meanwhile."""
    machine, bmc = pair('patch-shown-later')
    assert [(204, False), (204, False)] == [(close(bmc).status_code, closed(machine)) for _ in range(2)]
    machine.advance(3)
    assert closed(machine)


def test_a_write_is_sent_to_the_uri_with_a_slash(pair, gpu_image):
    """308 and nothing is done; a read is answered, and so is a write to a URI with the slash."""
    machine, bmc = pair('trailing-slash')
    answer = close(bmc, allow_redirects=False)
    assert (308, f'{EROT}/', False) == (answer.status_code, answer.headers['Location'], closed(machine))
    assert (204, True) == (close(bmc).status_code, closed(machine))
    answer = bmc.post(RESET, {'ResetType': 'ForceOff'}, allow_redirects=False)
    assert (308, 'On') == (answer.status_code, bmc.get(HOST)['PowerState'])
    assert 308 == bmc.push(ITEM, gpu_image(component='erot'), allow_redirects=False).status_code
    assert {} == machine.truth()['bmcs']['host']['tasks']
    assert 204 == bmc.post(f'{RESET}/', {'ResetType': 'ForceOff'}, allow_redirects=False).status_code


def test_without_a_habit_a_slash_is_neither_here_nor_there(pair):
    """Both are answered at once."""
    _, bmc = pair()
    for uri in (EROT, f'{EROT}/'):
        answer = bmc.patch(uri, {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}}, allow_redirects=False)
        assert 204 == answer.status_code


# --------------------------------------------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize(('habits', 'free'), [((), 3), (('one-session',), 1), (('no-session',), 0)])
def test_there_are_few_sessions(pair, habits, free):
    """A login beyond them is refused, and ends no other session; who ends one has one free; Basic works all the same."""
    _, bmc = pair(*habits)
    login = {'UserName': bmc.http.auth[0], 'Password': bmc.http.auth[1]}
    answers = [bmc.post(SESSIONS, login) for _ in range(3)]
    assert [201] * free + [503] * (3 - free) == [answer.status_code for answer in answers]
    assert 401 == bmc.post(SESSIONS, login | {'Password': 'another-one'}).status_code
    assert (200, free) == (bmc.call('GET', HOST).status_code, len(bmc.get(SESSIONS)['Members']))
    if free < 3:
        assert 'Base.1.19.SessionLimitExceeded' == answers[-1].json()['error']['code']
    if free == 1:
        bmc.call('DELETE', answers[0].headers['Location'])
        assert 201 == bmc.post(SESSIONS, login).status_code


# ------------------------------------------------------------------------------------------------------------------------ power


@pytest.mark.parametrize(
    ('habits', 'types'),
    [
        ((), ['On', 'ForceOff', 'GracefulShutdown', 'GracefulRestart', 'ForceRestart', 'PowerCycle']),
        (('no-power-cycle',), ['On', 'ForceOff', 'GracefulShutdown', 'GracefulRestart', 'ForceRestart']),
        (('no-restart',), ['On', 'ForceOff', 'GracefulShutdown']),
    ],
)
def test_a_system_lacks_types_of_reset(pair, habits, types):
    """They are neither shown nor taken; off and on can always be had."""
    machine, bmc = pair(*habits)
    assert types == bmc.get(HOST)['Actions']['#ComputerSystem.Reset']['ResetType@Redfish.AllowableValues']
    answer = bmc.post(RESET, {'ResetType': 'PowerCycle'})
    assert (204 if 'PowerCycle' in types else 400) == answer.status_code
    machine.advance(1)
    power(machine, bmc, 'ForceOff')
    power(machine, bmc, 'On')
    assert 'On' == bmc.get(HOST)['PowerState']


@pytest.mark.parametrize(('habits', 'seen'), [((), 200), (('cards-hidden-while-off',), 404)])
def test_cards_are_shown_only_while_their_host_is_on(pair, gpu_image, habits, seen):
    """Processor, PCIe device, item and root of trust, alone and in their collections; an image for them is refused."""
    machine, bmc = pair(*habits)
    uris = (GPU, f'{ROOT}/Chassis/HGX_GPU_0/PCIeDevices/GPU_0', ITEM, EROT)
    assert [200] * 4 == [bmc.call('GET', uri).status_code for uri in uris]
    power(machine, bmc, 'ForceOff')
    assert [seen] * 4 == [bmc.call('GET', uri).status_code for uri in uris]
    assert (ITEM in str(bmc.get(ITEMS)['Members'])) is (seen == 200)
    assert 200 == bmc.call('GET', f'{ITEMS}/FW_BMC_0').status_code
    assert (202 if seen == 200 else 400) == bmc.push(ITEM, gpu_image(component='erot')).status_code
    machine.advance(FLASH)
    power(machine, bmc, 'On')
    assert [200] * 4 == [bmc.call('GET', uri).status_code for uri in uris]


@pytest.mark.parametrize(('habits', 'after'), [((), 'Off'), (('powers-host-on',), 'On')])
def test_an_update_powers_the_host_on(pair, gpu_image, habits, after):
    """At its end, and not before; nobody has asked for it."""
    machine, bmc = pair(*habits)
    power(machine, bmc, 'ForceOff')
    bmc.push(ITEM, gpu_image(component='erot'))
    machine.advance(FLASH - 1)
    assert 'Off' == bmc.get(HOST)['PowerState']
    machine.advance(2)
    assert (after, NEW) == (bmc.get(HOST)['PowerState'], version(machine))
    assert ['ForceOff'] == [entry['body']['ResetType'] for entry in machine.log() if entry['path'] == RESET]


# -------------------------------------------------------------------------------------------------------------- after an update


def test_an_item_shows_no_version_after_an_update(pushed):
    """Null for a minute, then what was written; other items are as they were."""
    machine, bmc, _ = pushed('version-null-after-update')
    assert OLD == bmc.get(ITEM)['Version'].strip()
    machine.advance(FLASH)
    assert (None, NEW) == (bmc.get(ITEM)['Version'], version(machine))
    assert OLD == bmc.get(ITEM.replace('GPU_0', 'GPU_1'))['Version'].strip()
    machine.advance(59)
    assert bmc.get(ITEM)['Version'] is None
    machine.advance(1)
    assert NEW == bmc.get(ITEM)['Version'].strip()


def test_an_item_is_missing_after_an_update(pushed):
    """404 for a minute, and no member of its collection."""
    machine, bmc, _ = pushed('item-missing-after-update')
    assert 200 == bmc.call('GET', ITEM).status_code
    machine.advance(FLASH)
    assert (404, False) == (bmc.call('GET', ITEM).status_code, ITEM in str(bmc.get(ITEMS)['Members']))
    assert 200 == bmc.call('GET', ITEM.replace('GPU_0', 'GPU_1')).status_code
    machine.advance(60)
    assert NEW == bmc.get(ITEM)['Version'].strip()


@pytest.mark.parametrize(('habits', 'status', 'state'), [((), 202, 'Completed'), (('background-copy',), 400, 'InProgress')])
def test_a_root_of_trust_copies_after_an_update(pushed, gpu_image, habits, status, state):
    """For a minute; until then it refuses an image for its card, and that of another card takes one."""
    machine, bmc, _ = pushed(*habits)
    machine.advance(FLASH)
    other = EROT.replace('GPU_0', 'GPU_1')
    shown = [bmc.get(uri)['Oem']['Nvidia']['BackgroundCopyStatus'] for uri in (EROT, other)]
    assert [state, 'Completed'] == shown
    assert status == bmc.push(GPU_ITEM, gpu_image()).status_code
    assert 202 == bmc.push(ITEM.replace('GPU_0', 'GPU_1'), gpu_image(component='erot')).status_code
    assert 202 == bmc.push(f'{ITEMS}/FW_BMC_0', gpu_image(model='es2000', component='bmc')).status_code
    machine.advance(60)
    assert 'Completed' == bmc.get(EROT)['Oem']['Nvidia']['BackgroundCopyStatus']
    assert 202 == bmc.push(ITEM, gpu_image(component='erot')).status_code


# ------------------------------------------------------------------------------------------------------------ habits as a whole


def test_habits_can_be_combined_and_outlive_all_faults(pushed):
    """Faults are taken away, habits stay."""
    machine, bmc, answer = pushed('monitor-only', 'location-elsewhere', 'no-restart', 'one-session')
    machine.fault('http-status', uri=HOST)
    assert 500 == bmc.call('GET', HOST).status_code
    machine.clear_faults()
    names = ['task-monitor-only', 'location-elsewhere', 'reset-types-missing', 'session-limit']
    assert names == [rule['name'] for rule in machine.faults()]
    assert f'https://bmc.internal.example{SERVICE}/Monitors/0' == answer.headers['Location']
    assert 3 == len(bmc.get(HOST)['Actions']['#ComputerSystem.Reset']['ResetType@Redfish.AllowableValues'])


def test_every_habit_suits_every_product():
    """Alone, all at once, and twice."""
    for product in PRODUCTS:
        for habits in (*((name,) for name in HABITS), tuple(HABITS), ('no-restart', 'no-restart')):
            rules = build(product, Parameters(habits=habits)).machine.faults.describe()
            assert len(set(habits)) == len(rules)


def test_an_unknown_habit_is_refused_with_those_that_there_are(tmp_path, capsys):
    """In Python and on the command line; a recorded tree has none."""
    with pytest.raises(UnknownHabit, match=r"unknown habit 'no-tsk'; the habits are no-task-updating, .*, powers-host-on"):
        find_habit('no-tsk')
    with pytest.raises(BadParameter, match="dpu cannot have the habit 'no-tsk': unknown habit"):
        build('dpu', Parameters(habits=('no-tsk',)))
    assert 2 == run('gpu-server', '--habit', 'no-restart', '--habit', 'no-tsk')
    assert (
        "emulate: gpu-server cannot have the habit 'no-tsk': unknown habit 'no-tsk'; the habits are" in capsys.readouterr().err
    )
    (tmp_path / 'index.json').write_text('{}')
    assert 2 == run('--recording', str(tmp_path), '--habit', 'no-restart')
    assert 'a recorded tree has no habits' in capsys.readouterr().err


def test_the_option_can_be_given_several_times():
    """Each of them counts."""
    parser = main.argparse.ArgumentParser()
    main.add_arguments(parser)
    emulator = main._emulator(parser.parse_args(['gpu-server', '--habit', 'no-restart', '--habit', 'one-session']))
    assert ['reset-types-missing', 'session-limit'] == [one['name'] for one in emulator.product.machine.faults.describe()]


@pytest.mark.parametrize(
    ('rule', 'words'),
    [
        ({'name': 'task-waits-for-restart', 'state': 'Running'}, 'state must be one of New, Pending, Scheduled'),
        ({'name': 'reset-types-missing', 'types': 'PowerCycle,Powercycle'}, 'types must be one of ForceOff, '),
        ({'name': 'session-limit', 'most': 'few'}, 'most must be a number'),
    ],
)
def test_a_rule_that_cannot_be_is_refused(rule, words):
    """A state in which no task waits for a restart, a type of reset that is none."""
    with pytest.raises(BadFault, match=words):
        Faults().add(rule)


def run(*words):
    """Exit code of the emulator."""
    parser = main.argparse.ArgumentParser()
    main.add_arguments(parser)
    return main.run(parser.parse_args(list(words)))


def test_an_update_that_waits_outlives_the_emulator(fast, client, gpu_image, tmp_path):
    """With --state: the image is written in the restart that comes after that of the emulator."""
    how = {'gpus': 2, 'state': tmp_path, 'habits': ('update-waits-for-restart',)}
    machine = fast('gpu-server', **how)
    task = client(machine.bmcs['host']).push(ITEM, gpu_image(component='erot')).json()['@odata.id']
    machine.stop()
    machine = fast('gpu-server', **how)
    bmc = client(machine.bmcs['host'])
    assert ('Pending', OLD) == (bmc.get(task)['TaskState'], version(machine))
    bmc.reset(HOST, 'ForceRestart')
    machine.advance(FLASH)
    assert ('Completed', NEW) == (bmc.get(task)['TaskState'], version(machine))

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulator starts from a shell, is found by a script, stops cleanly, and keeps its state. Real processes."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest

from baremetal_acc.emulator.remote import Remote

ROOT = '/redfish/v1'
EROT = f'{ROOT}/Chassis/HGX_ERoT_GPU_0'


class Bmc:
    """One BMC of the ready file, as the client wants it."""

    def __init__(self, document):
        self.__dict__.update(document)


@pytest.fixture
def emulate(tmp_path, wait):
    """Start the emulator as a process; all that were started are stopped."""
    running = []

    def start(*arguments):
        ready = tmp_path / f'ready-{len(running)}.json'
        process = subprocess.Popen(
            [sys.executable, '-m', 'baremetal_acc.emulator', *map(str, arguments), '--ready-file', str(ready)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        wait(lambda: ready.exists() or process.poll() is not None)
        return process, ready

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_script_finds_everything_in_the_ready_file(emulate, client):
    """Addresses, accounts, authorities, door, control and pid; for its owner only; no password on stdout or in argv."""
    process, ready = emulate('acc-server')
    assert 0o600 == stat.S_IMODE(ready.stat().st_mode)
    document = json.loads(ready.read_text())
    assert ('acc-server', process.pid, {'host', 'dpu'}) == (document['product'], document['pid'], set(document['bmcs']))
    for bmc in document['bmcs'].values():
        assert client(Bmc(bmc)).get(bmc['system'])['PowerState'] == 'On'
    assert Remote(document['door'], document['control']).devices()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert (0, '') == (process.returncode, err)
    assert 3 == len(out.splitlines())
    for bmc in document['bmcs'].values():
        assert bmc['address'] in out
        assert bmc['password'] not in out
        assert not os.path.exists(bmc['verify_ca'])


def test_the_commands_read_the_list_of_targets(emulate, tmp_path):
    """--bmcs-file: a target with the name of the product and both BMCs, which load as any list does; for its owner only."""
    from baremetal_acc.cli.bmcs import load

    path = tmp_path / 'bmcs.yaml'
    _, ready = emulate('acc-server', '--bmcs-file', path)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    told = json.loads(ready.read_text())['bmcs']
    [target] = load(path)
    found = {bmc.name: (bmc.address, bmc.username, bmc.secret.text, bmc.verify_ca, bmc.system) for bmc in target.bmcs}
    keys = ('address', 'username', 'password', 'verify_ca', 'system')
    assert {name: tuple(bmc[key] for key in keys) for name, bmc in told.items()} == found
    assert {'host', 'dpu'} == set(found)
    assert 'acc-server' == target.name


@pytest.mark.parametrize('option', ['--ready-file', '--bmcs-file'])
def test_a_file_that_cannot_be_written_is_named(option, tmp_path):
    """With its option and the reason, and exit code 2; nothing is served."""
    path = tmp_path / 'missing' / 'file'
    done = subprocess.run(
        [sys.executable, '-m', 'baremetal_acc.emulator', 'dpu', option, str(path)], capture_output=True, text=True, check=False
    )
    assert (2, '') == (done.returncode, done.stdout)
    what = f'{option}: {path}: cannot be written: No such file or directory'
    assert f'emulate: {what} (name a file in a folder in which you may write)\n' == done.stderr


@pytest.mark.parametrize('path', ['/', '.'])
def test_a_folder_is_no_file_to_write(path, tmp_path):
    """It was an internal error."""
    command = [sys.executable, '-m', 'baremetal_acc.emulator', 'dpu', '--bmcs-file', path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = f'emulate: --bmcs-file: {path}: is a directory, not a file (name a file in a folder in which you may write)\n'
    assert (2, said) == (done.returncode, done.stderr)


def test_the_machine_outlives_the_emulator(emulate, client, gpu_image):
    """Killed hard and started again with --state: versions, locks, power, accounts and authorities are as they were."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        process, ready = emulate('acc-server', '--state', folder, '--flash-seconds', 0.1)
        document = json.loads(ready.read_text())
        bmc = client(Bmc(document['bmcs']['host']))
        remote = Remote(document['door'], document['control'])
        bmc.patch(EROT, {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}})
        bmc.finished(bmc.push(f'{ROOT}/UpdateService/FirmwareInventory/HGX_FW_ERoT_GPU_0', gpu_image(component='erot')))
        assert remote.tenant_write('GPU_1', gpu_image('6.6.6'))['written']
        bmc.reset(document['bmcs']['host']['system'], 'ForceOff')
        before = remote.truth()
        process.kill()
        process.wait()
        for name in os.listdir(folder):
            assert 0o600 == stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode), name

        process, ready = emulate('acc-server', '--state', folder)
        again = json.loads(ready.read_text())
        after = Remote(again['door'], again['control']).truth()
        for key in ('components', 'locks', 'systems'):
            assert before[key] == after[key], key
        for name, one in document['bmcs'].items():
            assert (one['password'], one['verify_ca']) == (again['bmcs'][name]['password'], again['bmcs'][name]['verify_ca'])
        assert 'Off' == client(Bmc(again['bmcs']['host'])).get(again['bmcs']['host']['system'])['PowerState']
        tasks = client(Bmc(again['bmcs']['host'])).get(f'{ROOT}/TaskService/Tasks?$expand=.')['Members']
        assert ['Completed'] == [task['TaskState'] for task in tasks]
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(timeout=20)

        process, _ = emulate('dpu', '--state', folder)
        assert (1, True) == (process.wait(timeout=20), "'acc-server'" in process.stderr.read())


def test_accounts_come_from_a_file(emulate, client, tmp_path):
    """Never from argv; a file that cannot be read is named."""
    users = tmp_path / 'users.json'
    users.write_text(json.dumps({'*': [{'username': 'me', 'password': 'my-own-password'}]}))
    _, ready = emulate('dpu', '--users', users, '--http')
    bmc = json.loads(ready.read_text())['bmcs']['dpu']
    assert ('me', 'my-own-password', True) == (bmc['username'], bmc['password'], bmc['address'].startswith('http://'))
    assert client(Bmc(bmc)).get(bmc['system'])
    users.write_text('{"*": [{"username": "me"}]}')
    process, _ = emulate('dpu', '--users', users)
    assert (2, True) == (process.wait(timeout=20), str(users) in process.stderr.read())


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (('toaster',), "unknown product 'toaster'"),
        (('--recording', '/nonexistent'), 'is not a recorded tree'),
        (('--recording', 'odd\nname'), 'odd\\nname is not a recorded tree'),
        (('acc-server', '--listen', 'x' * 70), 'is neither an address nor a host name (give an address of this machine)'),
        (('acc-server', '--gpus', '0'), 'argument --gpus: 0 is not a whole number from 1 to 1000'),
        (('acc-server', '--gpus', 'eight'), 'argument --gpus: eight is not a whole number'),
        (('acc-server', '--flash-seconds', '-1'), 'argument --flash-seconds: -1 is not a number of seconds'),
        (('acc-server', '--delay', 'nan'), 'argument --delay: nan is not a number of seconds'),
        (('acc-server', '--port', '99999'), 'argument --port: 99999 is not a port from 0 to 65535'),
    ],
)
def test_what_cannot_be_started_says_why(emulate, arguments, words):
    """Exit code 2, one line (below the usage, where it is an argument), no traceback."""
    process, _ = emulate(*arguments)
    _, err = process.communicate(timeout=20)
    assert (2, 1) == (process.returncode, len([line for line in err.splitlines() if 'usage' not in line and line[:1] != ' ']))
    assert words in err


def test_a_recording_is_served_from_the_shell(emulate, client, shared):
    """--recording DIR, with one BMC called recording."""
    _, ready = emulate('--recording', shared / 'recordings' / 'nvidia' / 'gh200')
    bmc = client(Bmc(json.loads(ready.read_text())['bmcs']['recording']))
    assert 'GPU' == bmc.get(f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_0')['ProcessorType']


def test_the_pytest_plugin_loads_nothing_of_the_emulator_before_it_is_used():
    """aiohttp and cryptography would slow every test run of every user."""
    code = (
        'import sys, baremetal_acc.emulator.pytest_plugin; '
        'print([m for m in sys.modules if m in ("aiohttp", "cryptography") or m.startswith("baremetal_acc.emulator.")])'
    )
    out = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout
    assert "['baremetal_acc.emulator.pytest_plugin']" == out.strip()


def test_a_parameter_that_does_not_exist_is_refused_by_name(emulated_machine):
    """A misspelt parameter must not be ignored."""
    with pytest.raises(TypeError, match='flash_secs'):
        emulated_machine('dpu', flash_secs=1)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's services start, end and fail as they should. Real processes: a double of them would prove nothing."""

import configparser
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.demo import service_files, services
from baremetal_acc.errors import UsageError

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the program with a state directory of its own; what still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, '-m', 'baremetal_acc.demo.services', '--state', str(tmp_path / 'state'), *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=90)


def group_is_gone(pid: int) -> bool:
    """Whether no process is left of the session that a service was."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def line_of(process: subprocess.Popen[str]) -> Any:
    """The line of JSON that it prints when all answer."""
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line else pytest.fail(process.communicate()[1])


def status(url: str, *, token: str, roles: str | None = None) -> int:
    """The HTTP status of a reshape that changes nothing, which only the role service may send."""
    headers = {'X-Auth-Token': token, 'Content-Type': 'application/json', 'OpenStack-API-Version': 'placement 1.37'}
    headers |= {'X-Roles': roles} if roles else {}
    root = '00000000-0000-0000-0000-000000000001'
    body = {'inventories': {root: {'resource_provider_generation': 0, 'inventories': {}}}, 'allocations': {}}
    request = urllib.request.Request(f'{url}/reshaper', data=json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_services_end_with_their_standard_input(start: Start) -> None:
    """A test that dies closes the pipe, and nothing of the services outlives it."""
    process = start('--placement')
    pid = line_of(process)['pids']['placement']
    process.communicate(timeout=90)
    assert 0 == process.returncode
    assert group_is_gone(pid)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_services(start: Start, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end the services and the program, without a traceback."""
    process = start('--placement')
    pid = line_of(process)['pids']['placement']
    process.send_signal(number)
    _, errors = process.communicate(timeout=90)
    assert (0, '') == (process.returncode, errors)
    assert group_is_gone(pid)


def test_placement_knows_the_roles_of_the_demos_operator(start: Start) -> None:
    """The token admin may reshape (400: the provider is missing, so the policy let it pass); other tokens and roles may not."""
    url = line_of(start('--placement'))['placement']
    assert 400 == status(url, token='admin')
    assert 403 == status(url, token='admin', roles='admin')
    assert 403 == status(url, token='somebody')


def test_the_state_is_for_its_owner_only(start: Start, tmp_path: Path) -> None:
    """Ironic keeps the passwords of BMCs in its database, so neither directory nor files are open to others."""
    line_of(start('--placement'))
    modes = {path.name: path.stat().st_mode & 0o077 for path in [tmp_path / 'state', *(tmp_path / 'state').rglob('*')]}
    assert 'placement.sqlite' in modes
    assert {0} == set(modes.values()), modes


def test_an_emulated_machine_is_started_with_the_services(start: Start) -> None:
    """The file that names its BMCs holds their passwords: its owner alone can read it."""
    process = start('--emulate', 'acc-server')
    told = line_of(process)
    ready = Path(told['emulator'])
    assert {'host', 'dpu'} == set(json.loads(ready.read_text())['bmcs'])
    assert 0o600 == ready.stat().st_mode & 0o777
    process.communicate(timeout=90)
    assert group_is_gone(told['pids']['emulator'])


def test_a_service_that_dies_ends_all_and_shows_its_log(start: Start) -> None:
    """Exit code 1, the name of the service and where its log is."""
    process = start('--placement')
    os.kill(line_of(process)['pids']['placement'], signal.SIGKILL)
    process.wait(timeout=90)
    _, errors = process.communicate()
    assert 1 == process.returncode
    assert 'placement: ended with exit code -9' in errors
    assert 'placement.log' in errors


def test_an_ironic_that_cannot_start_says_why(start: Start, tmp_path: Path) -> None:
    """Ironic forks a dying worker for ever; that is seen at once, the reason is shown, and placement is stopped too."""
    extra = tmp_path / 'extra.conf'
    extra.write_text('[DEFAULT]\nenabled_hardware_types = no-such-type\n')
    process = start('--placement', '--ironic', '--ironic-conf-extra', str(extra))
    output, errors = process.communicate(timeout=120)
    assert (1, '') == (process.returncode, output)
    assert 'no-such-type' in errors
    assert 'ironic: its worker process died during the start' in errors
    assert '' == left_over(tmp_path)


def left_over(tmp_path: Path) -> str:
    """The command lines of all processes that name this test's directory."""
    found = []
    for file in Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):  # it ended while we looked
            found.append(file.read_bytes().replace(b'\0', b' ').decode(errors='replace'))
    return '\n'.join(line for line in found if str(tmp_path) in line)


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        ((), 'nothing to start'),
        (('--ironic', '--ironic-conf-extra', '/nowhere.conf'), '/nowhere.conf is not a file'),
        (('--ironic', '--env', 'NAME'), 'expected K=V'),
    ],
)
def test_wrong_arguments_are_named(start: Start, arguments: tuple[str, ...], reason: str) -> None:
    """Exit code 2 and what is wrong, before anything is started."""
    process = start(*arguments)
    _, errors = process.communicate(timeout=90)
    assert 2 == process.returncode
    assert reason in errors
    assert 'Traceback' not in errors


def test_a_state_directory_that_a_database_url_cannot_hold_is_refused() -> None:
    """A question mark would end the path and begin the parameters."""
    with pytest.raises(UsageError, match='--state'):
        services.Services(state=Path('/tmp/what?')).start()


@pytest.mark.parametrize('is_old', [False, True])
def test_the_configuration_is_for_what_the_installed_ironic_can_do(
    is_old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ironic 32 has no deploy interface noop, and its API takes no middleware: what that leaves open is accepted by name."""
    options = tmp_path / 'ironic' / 'conf' / 'api.py'
    options.parent.mkdir(parents=True)
    options.write_text("cfg.StrOpt('host_ip')\n" if is_old else "cfg.ListOpt('middleware')\n")
    (tmp_path / 'ironic' / '__init__.py').write_text("raise AssertionError('imported')\n")
    monkeypatch.setattr(service_files, 'find_spec', lambda name: PathFinder.find_spec(name, [str(tmp_path)]))
    names = ['direct', 'fake'] if is_old else ['direct', 'fake', 'noop']
    group = 'ironic.hardware.interfaces.deploy'
    installed = EntryPoints(EntryPoint(name, 'a:b', group) for name in names)
    monkeypatch.setattr(service_files, 'entry_points', lambda **select: installed.select(**select))
    conf = configparser.ConfigParser()
    conf.read_string(service_files.ironic_conf(state=tmp_path, port=6385))
    found = (
        conf['DEFAULT']['enabled_deploy_interfaces'],
        conf['api'].get('middleware'),
        conf['baremetal_acc'].get('accepted_misconfigurations'),
    )
    assert found == (('fake,direct', None, 'no_api_guard') if is_old else ('noop,direct', 'baremetal-acc-policy', None))


def test_a_state_directory_keeps_its_ports(tmp_path: Path) -> None:
    """A restarted Ironic has the address that it had, as long as nobody took it."""
    remembered = tmp_path / 'ports.json'
    ports = service_files.choose_ports(remembered, ('ironic', 'placement'))
    assert ports == service_files.choose_ports(remembered, ('ironic', 'placement'))
    with socket.socket() as other:
        other.bind(('127.0.0.1', ports['ironic']))
        other.listen()
        again = service_files.choose_ports(remembered, ('ironic', 'placement'))
    assert ports['ironic'] != again['ironic']
    assert ports['placement'] == again['placement']

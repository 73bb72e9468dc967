# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Start a real placement and a real Ironic on one machine, and stop them.

Each service is a process of its own, from the same virtual environment, on a free port of 127.0.0.1, with SQLite files,
configuration and logs in one state directory. In Python::

    with Services(state=Path('state'), placement=True, ironic=True) as services:
        services.addresses.ironic

As a program, for tests and for exploring by hand::

    python -m baremetal_acc.demo.services --state DIR --placement --ironic [--ironic-conf-extra FILE]... [--env K=V]...

The program prints one line of JSON when both services answer::

    {"ironic": "http://127.0.0.1:21001", "placement": "http://127.0.0.1:21002", "emulator": null,
     "ironic_conf": "DIR/ironic.conf", "logs": {"ironic": "DIR/ironic.log", "placement": "DIR/placement.log"},
     "pids": {"ironic": 71, "placement": 70}}

The services run until SIGTERM, SIGINT, SIGHUP or the end of the program's standard input (if that is a pipe or a socket, so
that the services end with the test that started them). If a service dies by itself, the program stops all services, prints the
tail of its log and exits with code 1.

``--emulate PRODUCT`` starts an emulated machine too; ``emulator`` is then the path of a file (mode 0600) with the addresses of
the machine's BMCs, its host agent API (``door``) and its control API, and with the passwords of the BMCs.

A state directory can be used again: databases and, if they are still free, ports stay, so that a restarted Ironic finds
its nodes and jobs. ``auth_strategy`` of Ironic is ``noauth``, which switches its policy off; an extra configuration
file comes last on Ironic's command line and overrides what is written here. Placement accepts the token ``admin``
(:mod:`baremetal_acc.demo.placement_app`).
"""

import argparse
import base64
import contextlib
import dataclasses
import http.client
import json
import os
import random
import re
import secrets
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from baremetal_acc.errors import AccError, UsageError

HARDWARE_TYPE = 'redfish-acc'

START_SECONDS = 180.0
"""The longest time until a service answers after its start. Measured 3 s on an idle machine; a busy CI machine took 40 s."""

STOP_SECONDS = 60.0
"""The longest time for a service to stop before it is killed. Ironic waits for running steps: 32 s and 63 s were measured."""

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

PORTS = range(20000, 32000)
"""Below Linux's ephemeral ports (32768-60999): no outgoing connection takes one before the service listens on it."""

PLACEMENT_CONF = """\
[DEFAULT]
log_options = false
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{state}/placement.sqlite
sqlite_synchronous = false
sync_on_startup = true
"""

IRONIC_CONF = """\
[DEFAULT]
auth_strategy = noauth
rpc_transport = none
host = conductor
my_ip = 127.0.0.1
state_path = {state}
tempdir = {state}/tmp
log_file = {state}/ironic.log
enabled_hardware_types = redfish-acc,redfish
enabled_bios_interfaces = no-bios,redfish
enabled_boot_interfaces = fake,redfish-virtual-media
enabled_console_interfaces = no-console
enabled_deploy_interfaces = noop,direct
enabled_firmware_interfaces = redfish-acc,redfish
enabled_inspect_interfaces = redfish-acc,redfish,no-inspect
enabled_management_interfaces = redfish,noop
enabled_network_interfaces = noop
enabled_power_interfaces = redfish-acc,redfish
enabled_raid_interfaces = no-raid,agent
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor,redfish
default_network_interface = noop
[api]
host_ip = 127.0.0.1
port = {port}
middleware = baremetal-acc-policy
[baremetal_acc]
certificate_key = {state}/certificate.pem
certificate_folder = {state}/certificates
[conductor]
# Fewer than 28 and the worker dies and is forked again for ever (ironic/conductor/base_manager.py).
workers_pool_size = 40
heartbeat_interval = 2
check_provision_state_interval = 3
sync_power_state_interval = 30
[database]
connection = sqlite:///{state}/ironic.sqlite
[dhcp]
dhcp_provider = none
[deploy]
http_root = {state}/http
[oslo_concurrency]
lock_path = {state}/lock
[sensor_data]
send_sensor_data = false
"""

IRONIC_PLACEMENT_CONF = """\
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
endpoint_override = {placement}
"""


_ED25519 = bytes.fromhex('302e020100300506032b657004220420')
"""OneAsymmetricKey of version 0 with algorithm 1.3.101.112, up to the key itself. Source: RFC 8410, section 10.3."""


class ServiceFailed(AccError):
    """A service did not start, or ended by itself.

    :ivar service: its name.
    :ivar tail: the last lines of its log.
    """

    def __init__(self, *, service: str, what: str, log: Path) -> None:
        self.service = service
        self.tail = _tail(log)
        super().__init__(f'{service}: {what}', hint=f'the whole log is {log}')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses, logs and pids of the services. A service that was not requested is None and has no log and no pid.

    :ivar emulator: the file with the addresses of the emulated machine.
    """

    ironic: str | None
    placement: str | None
    emulator: str | None
    ironic_conf: str | None
    logs: Mapping[str, str]
    pids: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """One service process: the leader of its own session, so that all its children are found by the process group.

    :ivar log_start: size of the log when the process was started.
    """

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    log_start: int


class Services:
    """Runs the real services, from :meth:`start` to :meth:`stop`; as a context manager, for the time of the block.

    :param state: directory for all files of the services; created with mode 0700, because Ironic's database holds passwords.
    :param placement: start placement.
    :param ironic: start Ironic, API and conductor in one service; it uses placement, if that is started too.
    :param emulate: the product that the emulator emulates; None: no emulator.
    :param emulator_arguments: further arguments of the emulator; never a secret.
    :param ironic_conf_extra: further configuration files for Ironic; a later one overrides an earlier one.
    :param env: further environment variables for the services.
    :param ironic_token: sent as X-Auth-Token while waiting for Ironic, for a configuration that requires a token.
    """

    def __init__(
        self,
        *,
        state: Path,
        placement: bool = True,
        ironic: bool = True,
        emulate: str | None = None,
        emulator_arguments: Sequence[str] = (),
        ironic_conf_extra: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        ironic_token: str | None = None,
    ) -> None:
        self._state = state.absolute()
        self._wants_placement = placement
        self._wants_ironic = ironic
        self._product = emulate
        self._emulator_arguments = tuple(emulator_arguments)
        self._ironic_conf_extra = tuple(path.absolute() for path in ironic_conf_extra)
        self._ironic_token = ironic_token
        self._env = _environment(env or {})
        self._processes: list[_Process] = []
        self._ports: dict[str, int] = {}
        self._addresses: Addresses | None = None

    @property
    def addresses(self) -> Addresses:
        """The addresses of the services.

        :raises RuntimeError: the services are not started.
        """
        if self._addresses is None:
            raise RuntimeError('the services are not started')
        return self._addresses

    def start(self) -> Addresses:
        """Start the requested services, and wait until they answer. If that fails, or is interrupted, all are stopped.

        :raises ServiceFailed: a service ended or did not answer in time.
        :raises UsageError: the state directory or an extra file cannot be used.
        """
        try:
            return self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all services, Ironic first: it finishes running steps, and may need the other services for that.

        A signal that would end this program meanwhile is handled afterwards.
        """
        with _signals_later():
            for process in reversed(self._processes):
                _stop(process)
            self._processes.clear()
            self._addresses = None

    def check(self) -> None:
        """Check that every service still runs.

        :raises ServiceFailed: a service has ended.
        """
        for process in self._processes:
            code = process.popen.poll()
            if code is not None:
                raise ServiceFailed(service=process.name, what=f'ended with exit code {code}', log=process.log)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _start(self) -> Addresses:
        self._prepare_state()
        emulator = self._start_emulator(self._product) if self._product is not None else None
        ironic_conf = self._state / 'ironic.conf'
        placement = f'http://127.0.0.1:{self._ports["placement"]}' if self._wants_placement else None
        schema = self._start_schema(ironic_conf, placement) if self._wants_ironic else None
        if placement is not None:
            self._start_placement(placement)
        ironic = self._start_ironic(ironic_conf, schema) if self._wants_ironic else None
        self._addresses = Addresses(
            ironic=ironic,
            placement=placement,
            emulator=emulator,
            ironic_conf=str(ironic_conf) if ironic else None,
            logs={process.name: str(process.log) for process in self._processes},
            pids={process.name: process.popen.pid for process in self._processes},
        )
        return self._addresses

    def _prepare_state(self) -> None:
        for path in self._ironic_conf_extra:
            if not path.is_file():
                raise UsageError(argument='--ironic-conf-extra', what=f'{path} is no file')
        if any(character in str(self._state) for character in '$%?#\n'):
            raise UsageError(argument='--state', what=f'{self._state} holds a character that has a meaning in a database URL')
        try:
            self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in ('http', 'lock', 'placement', 'tmp'):
                (self._state / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as exc:
            raise UsageError(argument='--state', what=f'{self._state} cannot be used: {exc.strerror}') from exc
        self._ports = _choose_ports(self._state / 'ports.json', ('ironic', 'placement'))

    def _start_emulator(self, product: str) -> str:
        ready = self._state / 'emulator.json'
        ready.unlink(missing_ok=True)
        files = ['--state', str(self._state / 'emulator'), '--ready-file', str(ready)]
        process = self._run(
            'emulator',
            [sys.executable, '-m', 'baremetal_acc.emulator', product, *files, *self._emulator_arguments],
            log=self._state / 'emulator.log',
        )
        _wait(process, ready.exists, f'{ready} is not written')
        return str(ready)

    def _start_placement(self, url: str) -> None:
        _write_private(self._state / 'placement' / 'placement.conf', PLACEMENT_CONF.format(state=self._state))
        process = self._run(
            'placement',
            # SQLite means one thread: with more, placement answers 500 "database is locked".
            [
                _program('waitress-serve'),
                f'--listen={urlsplit(url).netloc}',
                '--threads=1',
                'baremetal_acc.demo.placement_app:application',
            ],
            log=self._state / 'placement.log',
            env={'OS_PLACEMENT_CONFIG_DIR': str(self._state / 'placement')},
        )
        _wait(process, lambda: bool(_get(url, '/')), 'GET / is not answered')

    def _start_schema(self, conf: Path, placement: str | None) -> _Process | None:
        """Write Ironic's configuration and begin to create its database, while other services start; None if it exists."""
        text = IRONIC_CONF.format(state=self._state, port=self._ports['ironic'])
        if placement is not None:
            text += IRONIC_PLACEMENT_CONF.format(placement=placement)
        _write_private(conf, text)
        write_certificate_key(self._state)
        if (self._state / 'ironic.sqlite').exists():
            return None
        # Without a verb it would migrate, which SQLite cannot do.
        command = [_program('ironic-dbsync'), *self._ironic_files(conf), 'create_schema']
        return self._run('ironic-dbsync', command, log=self._state / 'ironic.log')

    def _start_ironic(self, conf: Path, schema: _Process | None) -> str:
        if schema is not None:
            _wait_for_end(schema)
            self._processes.remove(schema)
        process = self._run('ironic', [_program('ironic'), *self._ironic_files(conf)], log=self._state / 'ironic.log')
        url = f'http://127.0.0.1:{self._ports["ironic"]}'
        _wait(process, lambda: _has_driver(url, self._ironic_token), f'GET /v1/drivers does not list {HARDWARE_TYPE}')
        return url

    def _ironic_files(self, conf: Path) -> list[str]:
        return [f'--config-file={path}' for path in (conf, *self._ironic_conf_extra)]

    def _run(self, name: str, command: list[str], *, log: Path, env: Mapping[str, str] | None = None) -> _Process:
        """Start a process, and register it in the same step, so that :meth:`stop` always stops it."""
        with _signals_later(), open(log, 'ab', opener=_private) as output:
            log_start = output.tell()
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._state,
                env=self._env | dict(env or {}),
                start_new_session=True,
                umask=0o077,
            )
            process = _Process(name=name, popen=popen, log=log, log_start=log_start)
            self._processes.append(process)
        return process


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Within this context, delay the signals that end this program, so that no started process is left running."""
    if threading.current_thread() is not threading.main_thread():  # signals never arrive elsewhere
        yield
        return
    held: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _frame: held.append(number)) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for caught in held:
        signal.raise_signal(caught)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of the services: without proxies, without a user's cloud (``OS_*``), without Python warnings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith('OS_') and not key.lower().endswith('_proxy')}
    return kept | {'PYTHONWARNINGS': 'ignore', 'PYTHONUNBUFFERED': '1'} | dict(extra)


def _program(name: str) -> str:
    """The path of a script next to the running Python, else on the PATH.

    :raises UsageError: the script is not installed.
    """
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise UsageError(argument=name, what='is not installed', hint="pip install 'baremetal-acc[demo]'")
    return found


def _choose_ports(remembered: Path, names: Sequence[str]) -> dict[str, int]:
    """A port for each name: that of an earlier run in the same state directory if it is free, else a random one."""
    earlier = json.loads(remembered.read_text()) if remembered.exists() else {}
    ports: dict[str, int] = {}
    for name in names:
        candidates = [earlier[name]] if name in earlier else []
        candidates += random.sample(PORTS, 100)
        ports[name] = next(port for port in candidates if port not in ports.values() and _is_free(port))
    _write_private(remembered, json.dumps(ports))
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else our own last connections hold it for a minute
        try:
            probe.bind(('127.0.0.1', port))
        except OSError:
            return False
    return True


def _private(path: str, flags: int) -> int:
    """An opener of files that only their owner can read."""
    return os.open(path, flags, 0o600)


def write_certificate_key(state: Path) -> Path:
    """Write a private key for signing hand-over certificates; the key of an earlier start stays.

    An Ed25519 key in PEM is 32 random bytes after 16 constant ones (RFC 8410, section 7). It is made without ``openssl``, which
    an operator would use, so that ``openssl`` need not be installed.
    """
    path = state / 'certificate.pem'
    if not path.exists():
        lines = base64.b64encode(_ED25519 + secrets.token_bytes(32)).decode()
        _write_private(path, f'-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n')
    return path


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    with open(path, 'w', opener=_private) as file:
        file.write(text)


def _get(url: str, path: str, headers: Mapping[str, str] | None = None) -> bytes | None:
    """The body of a 200 answer, None if there is no answer or another status. No proxy is used."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request('GET', path, headers=dict(headers or {}))
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if answer.status == 200 else None


def _has_driver(url: str, token: str | None) -> bool:
    """Whether a conductor offers our hardware type. The API alone answers earlier, even if the conductor keeps dying."""
    headers = {'X-OpenStack-Ironic-API-Version': 'latest'} | ({'X-Auth-Token': token} if token else {})
    body = _get(url, '/v1/drivers', headers)
    if body is None:
        return False
    return any(driver['name'] == HARDWARE_TYPE and driver['hosts'] for driver in json.loads(body)['drivers'])


def _ticks(seconds: float) -> Iterator[None]:
    """Yield every tenth of a second until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.1)


def _wait(process: _Process, answers: Callable[[], bool], otherwise: str) -> None:
    for _ in _ticks(START_SECONDS):
        code = process.popen.poll()
        if code is not None:
            raise ServiceFailed(service=process.name, what=f'ended at its start with exit code {code}', log=process.log)
        if answers():
            return
        if _worker_died(process):
            raise ServiceFailed(service=process.name, what='its worker died at its start', log=process.log)
    raise ServiceFailed(service=process.name, what=f'{otherwise} after {START_SECONDS:.0f} s', log=process.log)


def _worker_died(process: _Process) -> bool:
    """Whether the log says that Ironic's worker died. Its master forks workers again for ever, so waiting would not help."""
    with process.log.open('rb') as file:
        file.seek(process.log_start)
        return re.search(rb'Child \d+ exited with status [1-9]', file.read()) is not None


def _wait_for_end(process: _Process) -> None:
    for _ in _ticks(START_SECONDS):
        code = process.popen.poll()
        if code == 0:
            return
        if code is not None:
            raise ServiceFailed(service=process.name, what=f'exit code {code}', log=process.log)
    raise ServiceFailed(service=process.name, what=f'has not ended after {START_SECONDS:.0f} s', log=process.log)


def _stop(process: _Process) -> None:
    """Terminate the process, then kill what is left of its process group, such as children that outlived it."""
    if process.popen.poll() is None:
        process.popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.popen.wait(timeout=STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.popen.pid, signal.SIGKILL)
    process.popen.wait()


def _tail(log: Path, lines: int = 40) -> str:
    """The last lines of a log, at most 16 KiB."""
    try:
        with log.open('rb') as file:
            file.seek(max(0, log.stat().st_size - 16384))
            text = file.read().decode(errors='replace')
    except OSError as exc:
        return f'(no log: {exc.strerror})'
    return '\n'.join(text.splitlines()[-lines:])


def _serve(services: Services) -> None:
    """Check the services until standard input ends, if it is a pipe or a socket.

    :raises ServiceFailed: a service has ended.
    """
    mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin else 0
    watched = [sys.stdin.fileno()] if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else []
    while True:
        readable, _, _ = select.select(watched, [], [], 0.5)
        if readable and not os.read(readable[0], 4096):
            return
        services.check()


def interrupt_on_signals() -> None:
    """Let SIGTERM and SIGHUP end this program as Ctrl-C does: by one KeyboardInterrupt, on which all services are stopped.

    Later signals are ignored: stopping takes seconds, and a second Ctrl-C must not leave it half done.
    """

    def interrupt(_number: int, _frame: object) -> None:
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ENDING_SIGNALS:
        signal.signal(number, interrupt)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m baremetal_acc.demo.services', description=(__doc__ or '').split('\n')[0])
    parser.add_argument('--state', type=Path, required=True, metavar='DIR', help='where everything that they write goes')
    parser.add_argument('--placement', action='store_true', help='start placement')
    parser.add_argument('--ironic', action='store_true', help='start Ironic')
    parser.add_argument('--emulate', metavar='PRODUCT', help='start this emulated machine, such as acc-server')
    parser.add_argument(
        '--ironic-conf-extra',
        type=Path,
        action='append',
        default=[],
        metavar='FILE',
        help='a further configuration file',
    )
    parser.add_argument('--env', action='append', default=[], metavar='K=V', help='a variable for the services')
    parser.add_argument('--ironic-token', help='for waiting, if Ironic asks for a token (a test one: others can read it)')
    arguments = parser.parse_args(argv)
    if not arguments.placement and not arguments.ironic and arguments.emulate is None:
        parser.error('nothing to start: give --placement, --ironic, --emulate or several of them')
    if bad := [pair for pair in arguments.env if '=' not in pair]:
        parser.error(f'--env {bad[0]}: K=V is expected')
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Start the services, print their addresses, wait, and stop them.

    :returns: 0 after a signal or the end of standard input, 1 when a service failed, 2 for wrong arguments.
    """
    arguments = _arguments(argv)
    interrupt_on_signals()
    services = Services(
        state=arguments.state,
        placement=arguments.placement,
        ironic=arguments.ironic,
        emulate=arguments.emulate,
        ironic_conf_extra=arguments.ironic_conf_extra,
        env=dict(pair.split('=', 1) for pair in arguments.env),
        ironic_token=arguments.ironic_token,
    )
    try:
        with services:
            print(json.dumps(dataclasses.asdict(services.addresses)), flush=True)
            _serve(services)
    except KeyboardInterrupt:
        return 0
    except UsageError as exc:
        print(exc, file=sys.stderr)
        return 2
    except ServiceFailed as exc:
        print(f'{exc.tail}\n{exc}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())

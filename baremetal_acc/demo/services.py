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
the machine's BMCs, its host agent API (``door``) and its control API, and with the passwords of the BMCs. ``nodes.json``, next
to it, describes the node of the machine for ``baremetal create``.

A state directory can be used again: databases and, if they are still free, ports stay, so that a restarted Ironic finds
its nodes and jobs. ``auth_strategy`` of Ironic is ``noauth``, which switches its policy off; an extra configuration
file comes last on Ironic's command line and overrides what is written here. Placement accepts the token ``admin``
(:mod:`baremetal_acc.demo.placement_app`).
"""

import argparse
import dataclasses
import http.client
import json
import os
import select
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from baremetal_acc.demo.enrolment import write_nodes
from baremetal_acc.demo.service_files import (
    IRONIC_PLACEMENT_CONF,
    PLACEMENT_CONF,
    choose_ports,
    ironic_conf,
    open_private,
    write_certificate_key,
    write_private,
)
from baremetal_acc.demo.service_process import (
    ServiceFailed,
    ServiceProcess,
    delay_signals,
    interrupt_on_signals,
    stop_process,
    wait_for_answer,
    wait_for_end,
)
from baremetal_acc.errors import UsageError

HARDWARE_TYPE = 'redfish-acc'


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
        self._processes: list[ServiceProcess] = []
        self._ports: dict[str, int] = {}
        self._addresses: Addresses | None = None

    @property
    def addresses(self) -> Addresses:
        """The addresses of the services.

        :raises RuntimeError: the services are not started.
        """
        if self._addresses is None:
            raise RuntimeError('the services have not been started')
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
        with delay_signals():
            for process in reversed(self._processes):
                stop_process(process)
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
                raise UsageError(
                    argument='--ironic-conf-extra', what=f'{path} is not a file', hint='name a file of ironic.conf.d'
                )
        if any(character in str(self._state) for character in '$%?#\n'):
            raise UsageError(
                argument='--state',
                what=f'{self._state} contains a character that a database URL does not allow ($ % ? # or a newline)',
                hint='name another folder',
            )
        try:
            self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in ('http', 'lock', 'placement', 'tmp'):
                (self._state / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as exc:
            what = f'{self._state} cannot be used: {exc.strerror}'
            raise UsageError(argument='--state', what=what, hint='name another folder') from exc
        self._ports = choose_ports(self._state / 'ports.json', ('ironic', 'placement'))

    def _start_emulator(self, product: str) -> str:
        ready = self._state / 'emulator.json'
        ready.unlink(missing_ok=True)
        files = ['--state', str(self._state / 'emulator'), '--ready-file', str(ready)]
        process = self._run(
            'emulator',
            [sys.executable, '-m', 'baremetal_acc.emulator', product, *files, *self._emulator_arguments],
            log=self._state / 'emulator.log',
        )
        wait_for_answer(process, ready.exists, f'has not written {ready}')
        write_nodes(ready)
        return str(ready)

    def _start_placement(self, url: str) -> None:
        write_private(self._state / 'placement' / 'placement.conf', PLACEMENT_CONF.format(state=self._state))
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
        wait_for_answer(process, lambda: bool(_get(url, '/')), 'has not answered GET /')

    def _start_schema(self, conf: Path, placement: str | None) -> ServiceProcess | None:
        """Write Ironic's configuration and begin to create its database, while other services start; None if it exists."""
        text = ironic_conf(state=self._state, port=self._ports['ironic'])
        if placement is not None:
            text += IRONIC_PLACEMENT_CONF.format(placement=placement)
        write_private(conf, text)
        write_certificate_key(self._state)
        if (self._state / 'ironic.sqlite').exists():
            return None
        # Without a verb it would migrate, which SQLite cannot do.
        command = [_program('ironic-dbsync'), *self._ironic_files(conf), 'create_schema']
        return self._run('ironic-dbsync', command, log=self._state / 'ironic.log')

    def _start_ironic(self, conf: Path, schema: ServiceProcess | None) -> str:
        if schema is not None:
            wait_for_end(schema)
            self._processes.remove(schema)
        process = self._run('ironic', [_program('ironic'), *self._ironic_files(conf)], log=self._state / 'ironic.log')
        url = f'http://127.0.0.1:{self._ports["ironic"]}'
        wait_for_answer(
            process, lambda: _has_driver(url, self._ironic_token), f'has no conductor for {HARDWARE_TYPE} in GET /v1/drivers'
        )
        return url

    def _ironic_files(self, conf: Path) -> list[str]:
        return [f'--config-file={path}' for path in (conf, *self._ironic_conf_extra)]

    def _run(self, name: str, command: list[str], *, log: Path, env: Mapping[str, str] | None = None) -> ServiceProcess:
        """Start a process, and register it in the same step, so that :meth:`stop` always stops it."""
        with delay_signals(), open(log, 'ab', opener=open_private) as output:
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
            process = ServiceProcess(name=name, popen=popen, log=log, log_start=log_start)
            self._processes.append(process)
        return process


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


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m baremetal_acc.demo.services', description=(__doc__ or '').split('\n')[0])
    parser.add_argument('--state', type=Path, required=True, metavar='DIR', help='folder for all files of the services')
    parser.add_argument('--placement', action='store_true', help='start placement')
    parser.add_argument('--ironic', action='store_true', help='start Ironic')
    parser.add_argument('--emulate', metavar='PRODUCT', help='start this emulated machine, such as acc-server')
    parser.add_argument(
        '--ironic-conf-extra',
        type=Path,
        action='append',
        default=[],
        metavar='FILE',
        help='further configuration file of Ironic; can be repeated',
    )
    parser.add_argument(
        '--env', action='append', default=[], metavar='K=V', help='environment variable for the services; can be repeated'
    )
    parser.add_argument(
        '--ironic-token', help='token to send while waiting for Ironic, if it requires one; other users can read it'
    )
    arguments = parser.parse_args(argv)
    if not arguments.placement and not arguments.ironic and arguments.emulate is None:
        parser.error('nothing to start: give --placement, --ironic or --emulate')
    if bad := [pair for pair in arguments.env if '=' not in pair]:
        parser.error(f'--env {bad[0]}: expected K=V')
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

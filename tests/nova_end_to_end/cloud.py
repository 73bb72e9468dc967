# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run a whole cloud for bare metal: Nova's services, Keystone, placement and Ironic, with MariaDB and RabbitMQ of Debian.

::

    python -m tests.nova_end_to_end.cloud --state DIR --conf FILE

This program starts MariaDB, RabbitMQ, Keystone, placement, Ironic with the plugin, nova-api, nova-conductor, nova-scheduler and
nova-compute with Nova's Ironic driver, and a stand-in for Glance and Neutron. All listen on loopback addresses, on ports of
their own. When all answer it prints one line of JSON, passwords included. ``--conf`` is a further configuration file of Ironic.

All services end with the standard input, so that a test run that is killed leaves nothing behind; if this program itself is
killed, the kernel ends what it started.
"""

import argparse
import ctypes
import json
import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from grp import getgrgid
from importlib.metadata import version
from pathlib import Path
from pwd import getpwuid
from subprocess import DEVNULL, STDOUT, Popen
from typing import Any

import requests

from baremetal_acc.demo.service_files import open_private, write_private
from baremetal_acc.demo.service_process import (
    ServiceFailed,
    ServiceProcess,
    interrupt_on_signals,
    wait_for_answer,
    wait_for_end,
)
from baremetal_acc.demo.services import Services
from tests.conftest import TREE
from tests.journey.mariadb import MariaDb
from tests.nova_end_to_end import configuration
from tests.nova_end_to_end.image_and_network import image_and_network
from tests.nova_end_to_end.rabbitmq import RabbitMq
from tests.race.site import end_with_parent, free_ports

REGION = 'RegionOne'
SERVICES = {'compute': 'nova', 'placement': 'placement', 'baremetal': 'ironic'}
"""The types of the services that have a user, and the names of the users."""

SCHEMA = ('api_db sync', 'cell_v2 map_cell0', 'db sync', 'cell_v2 create_cell --name cell1')
"""What nova-manage does, in this order. The cells get what nova.conf says; cell0 has the name of the database with _cell0."""

_PR_SET_CHILD_SUBREAPER = 36


class Cloud:
    """All processes; they end with :meth:`stop`.

    :param conf: a further configuration file of Ironic.
    :cvar DATABASES: besides Ironic's.
    """

    DATABASES: Sequence[str] = configuration.DATABASES

    def __init__(self, state: Path, conf: Path) -> None:
        self._state = state
        self._conf = conf
        kept = {k: v for k, v in os.environ.items() if not k.startswith('OS_') and not k.lower().endswith('_proxy')}
        self._env = kept | {'PYTHONWARNINGS': 'ignore', 'PYTHONUNBUFFERED': '1', 'PYTHONPATH': str(TREE)}
        self._processes: list[ServiceProcess] = []
        self._passwords = {name: secrets.token_urlsafe(24) for name in ('admin', 'tenant', *SERVICES.values())}
        mariadb, *rabbitmq, keystone, placement, nova = free_ports(7)
        self._mariadb = MariaDb(state / 'mariadb', mariadb, further=self.DATABASES)
        self._rabbitmq = RabbitMq(state / 'rabbitmq', (rabbitmq[0], rabbitmq[1], rabbitmq[2]))
        self._keystone = f'http://127.0.0.1:{keystone}/v3'
        self._placement = f'http://127.0.0.1:{placement}'
        self._nova = f'http://127.0.0.1:{nova}/v2.1'
        self._ironic: Services | None = None
        self._ends = ExitStack()

    def start(self) -> dict[str, Any]:
        """Start all of it.

        :returns: where it is, and who may log in.
        :raises ServiceFailed: a service ended, or did not answer in time.
        """
        begun = time.monotonic()
        for name in (
            'http',
            'lock',
            'tmp',
            'nova',
            'nova/lock',
            'nova/instances',
            'keystone',
            'fernet',
            'credential',
            'placement',
        ):
            (self._state / name).mkdir(mode=0o700)
        database = self._run('mariadb', self._mariadb.prepare())
        broker = self._start_rabbitmq()
        keystone = self._start_keystone()
        wait_for_answer(database, self._mariadb.answers, 'does not answer')
        self._write_nova()
        schema = self._run('nova-manage', ['sh', '-c', ' && '.join(map(self._nova_manage, SCHEMA))])
        wait_for_answer(keystone, lambda: _answers(self._keystone), 'does not answer')
        others = self._ends.enter_context(image_and_network())
        token = self._fill_keystone(others)
        placement = self._start_placement()
        wait_for_answer(broker, self._rabbitmq.answers, 'does not answer')
        wait_for_answer(placement, lambda: _answers(self._placement), 'does not answer')
        ironic = self._start_ironic(token)
        wait_for_end(schema)
        self._start_nova()
        return {
            'ironic': ironic,
            'keystone': self._keystone,
            'placement': self._placement,
            'nova': self._nova,
            'bus': self._rabbitmq.url,
            'passwords': self._passwords,
            'logs': {process.name: str(process.log) for process in self._processes}
            | {'ironic': str(self._state / 'ironic.log')},
            'pids': {process.name: process.popen.pid for process in self._processes if process.popen.poll() is None},
            'versions': self._versions(),
            'took': time.monotonic() - begun,
        }

    # ---------------------------------------------------------------------------------------------------- the services

    def _start_rabbitmq(self) -> ServiceProcess:
        mapper, broker, environment = self._rabbitmq.prepare()
        process = self._run('epmd', mapper, environment)
        wait_for_answer(process, self._rabbitmq.mapper_answers, 'does not answer')
        return self._run('rabbitmq', broker, environment)

    def _start_keystone(self) -> ServiceProcess:
        write_private(self._state / 'keystone' / 'keystone.conf', configuration.KEYSTONE.format(state=self._state))
        environment = {'OS_KEYSTONE_CONFIG_DIR': str(self._state / 'keystone')}
        files = f'--config-file={self._state}/keystone/keystone.conf'
        for arguments in (
            ('db_sync',),
            (
                'fernet_setup',
                '--keystone-user',
                getpwuid(os.getuid()).pw_name,
                '--keystone-group',
                getgrgid(os.getgid()).gr_name,
            ),
            (
                'bootstrap',
                *('--bootstrap-service-name', 'keystone', '--bootstrap-region-id', REGION),
                *('--bootstrap-public-url', self._keystone),
            ),
        ):
            secret = {'OS_BOOTSTRAP_PASSWORD': self._passwords['admin']}
            wait_for_end(
                self._run('keystone-manage', [self._script('keystone-manage'), files, *arguments], environment | secret)
            )
        return self._run('keystone', self._serve(self._keystone, 'keystone.wsgi.api:application', threads=1), environment)

    def _start_placement(self) -> ServiceProcess:
        text = configuration.PLACEMENT.format(database=self._mariadb.url_of('placement')) + self._tokens('placement')
        write_private(self._state / 'placement' / 'placement.conf', text)
        environment = {'OS_PLACEMENT_CONFIG_DIR': str(self._state / 'placement')}
        return self._run('placement', self._serve(self._placement, 'placement.wsgi.api:application', threads=4), environment)

    def _start_ironic(self, token: str) -> str:
        (self._state / 'policy.d').mkdir(mode=0o700)
        path = self._state / 'ironic-keystone.conf'
        text = configuration.IRONIC.format(state=self._state, database=self._mariadb.url) + self._tokens('ironic')
        text += ''.join(f'[{section}]\n{self._login("ironic")}' for section in ('placement', 'glance', 'service_catalog'))
        write_private(path, text)
        self._ironic = Services(
            state=self._state,
            placement=False,
            ironic_conf_extra=[self._conf, path],
            env=self._env,
            ironic_token=token,
        )
        address = self._ironic.start().ironic
        assert address is not None
        self._endpoint('baremetal', address)
        return address

    def _write_nova(self) -> None:
        urls = {'api': self._mariadb.url_of('nova_api'), 'cell': self._mariadb.url_of('nova'), 'bus': self._rabbitmq.url}
        text = configuration.NOVA.format(state=self._state, **urls) + self._tokens('nova')
        sections = {'ironic': configuration.NOVA_IRONIC, 'placement': '', 'neutron': '', 'service_user': ''}
        text += ''.join(f'[{section}]\n{self._login("nova")}{more}' for section, more in sections.items())
        write_private(self._state / 'nova' / 'nova.conf', text)

    def _start_nova(self) -> None:
        api = {
            'OS_NOVA_CONFIG_DIR': str(self._state / 'nova'),
            'OS_NOVA_CONFIG_FILES': f'{Path(sys.prefix) / "etc/nova/api-paste.ini"};nova.conf',
        }
        for name in ('nova-conductor', 'nova-scheduler', 'nova-compute'):
            self._run(name, self._nova_script(name))
        process = self._run('nova-api', self._serve(self._nova, 'nova.wsgi.osapi_compute:application', threads=4), api)
        wait_for_answer(process, lambda: _answers(self._nova.rpartition('/')[0]), 'does not answer')
        # The scheduler takes nova-compute for a host only once a cell is known for it.
        loop = f'until {self._nova_manage("cell_v2 discover_hosts --by-service --strict")}; do sleep 1; done'
        wait_for_end(self._run('nova-manage', ['sh', '-c', loop]))

    def _versions(self) -> dict[str, str]:
        found = {name: version(name) for name in ('nova', 'keystone', 'ironic', 'openstack-placement', 'oslo.messaging')}
        return found | {'MariaDB': self._mariadb.version, 'RabbitMQ': self._rabbitmq.version}

    # ---------------------------------------------------------------------------------------------------- in Keystone

    def _fill_keystone(self, others: str) -> str:
        """Make users, projects and the catalogue.

        :returns: a token of an administrator of the system.
        """
        user = {'name': 'admin', 'password': self._passwords['admin'], 'domain': {'name': 'Default'}}
        identity = {'methods': ['password'], 'password': {'user': user}}
        body = {'auth': {'identity': identity, 'scope': {'system': {'all': True}}}}
        answer = requests.post(f'{self._keystone}/auth/tokens', json=body, timeout=60)
        answer.raise_for_status()
        self._session = requests.Session()
        self._session.trust_env = False
        token = self._session.headers['X-Auth-Token'] = answer.headers['X-Subject-Token']
        roles = {role['name']: role['id'] for role in self._take('GET', 'roles')['roles']}
        projects = {name: self._make('project', name=name, domain_id='default') for name in ('service', 'tenant')}
        for name in (*SERVICES.values(), 'tenant'):
            made = self._make('user', name=name, password=self._passwords[name], domain_id='default')
            project, role = ('tenant', 'member') if name == 'tenant' else ('service', 'service')
            self._take('PUT', f'projects/{projects[project]}/users/{made}/roles/{roles[role]}')
        self._services = {name: self._make('service', type=name, name=name) for name in (*SERVICES, 'image', 'network')}
        for name, address in {
            'image': f'{others}/image',
            'network': f'{others}/network',
            'placement': self._placement,
            'compute': self._nova,
        }.items():
            self._endpoint(name, address)
        return str(token)

    def _endpoint(self, service: str, address: str) -> None:
        self._make('endpoint', service_id=self._services[service], interface='public', url=address, region_id=REGION)

    def _make(self, kind: str, **fields: str) -> str:
        return str(self._take('POST', f'{kind}s', {kind: fields})[kind]['id'])

    def _take(self, method: str, path: str, body: object = None) -> Any:
        answer = self._session.request(method, f'{self._keystone}/{path}', json=body, timeout=60)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def _login(self, user: str) -> str:
        return configuration.LOGIN.format(keystone=self._keystone, user=user, password=self._passwords[user])

    def _tokens(self, user: str) -> str:
        return configuration.TOKENS.format(keystone=self._keystone) + self._login(user)

    # ---------------------------------------------------------------------------------------------------- processes

    @staticmethod
    def _script(name: str) -> str:
        return str(Path(sys.executable).with_name(name))

    def _nova_script(self, name: str, *arguments: str) -> list[str]:
        return [self._script(name), f'--config-file={self._state}/nova/nova.conf', *arguments]

    def _nova_manage(self, arguments: str) -> str:
        return shlex.join(self._nova_script('nova-manage', *arguments.split()))

    @staticmethod
    def _serve(address: str, application: str, *, threads: int) -> list[str]:
        port = address.removeprefix('http://127.0.0.1:').partition('/')[0]
        return [sys.executable, '-m', 'tests.nova_end_to_end.serve', port, str(threads), application]

    def _run(self, name: str, command: list[str], env: Mapping[str, str] | None = None) -> ServiceProcess:
        log = self._state / f'{name}.log'
        with open(log, 'ab', opener=open_private) as output:
            start = output.tell()
            popen = Popen(
                command,
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                cwd=self._state,
                env=self._env | dict(env or {}),
                start_new_session=True,
                preexec_fn=end_with_parent,
                umask=0o077,
            )
        process = ServiceProcess(name=name, popen=popen, log=log, log_start=start)
        self._processes.append(process)
        return process

    def stop(self) -> None:
        """End everything, what others need last."""
        if self._ironic is not None:
            self._ironic.stop()
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                os.killpg(process.popen.pid, signal.SIGKILL)
            process.popen.wait()
        self._ends.close()
        _end_children()


def _end_children() -> None:
    """End and bury whom our children have left us: we are their subreaper."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for pid in Path(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _answers(address: str) -> bool:
    try:
        return requests.get(address, timeout=10).status_code < 500
    except requests.RequestException:
        return False


def main(kind: type[Cloud] = Cloud) -> int:
    """Start, print where, wait, stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--state', type=Path, required=True)
    parser.add_argument('--conf', type=Path, required=True)
    arguments = parser.parse_args()
    interrupt_on_signals()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    arguments.state.mkdir(mode=0o700)
    cloud = kind(arguments.state, arguments.conf)
    try:
        sys.stdout.write(json.dumps(cloud.start()) + '\n')
        sys.stdout.flush()
        sys.stdin.read()
    except KeyboardInterrupt:
        return 0
    except ServiceFailed as exc:
        sys.stderr.write(f'{exc.tail}\n{exc}\n')
        return 1
    finally:
        cloud.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())

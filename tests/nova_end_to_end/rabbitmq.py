# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run a real RabbitMQ for one test, in a folder of its own and on loopback only.

It is independent of any other RabbitMQ on the machine, and of the port mapper of Erlang (epmd) that may run there. Its one user
has a random password, which is in a file of mode 0600 and in no command line.
"""

import os
import secrets
import shutil
import socket
from pathlib import Path

import amqp

PACKAGES = 'rabbitmq-server'
"""Of Debian. Where systemd runs the package starts a server of its own; ``tests/tools/programs.sh`` prevents that."""

_SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server'
"""The server's own script. The one of /usr/sbin changes to the user rabbitmq first, who cannot write our folder."""


class BrokerNotInstalled(Exception):
    """RabbitMQ is not on this machine."""


def look_for() -> None:
    """See that it can be run.

    :raises BrokerNotInstalled: it cannot; says what to install.
    """
    if not os.access(_SERVER, os.X_OK) or shutil.which('epmd') is None:
        raise BrokerNotInstalled(f'{_SERVER} is not here: apt-get install {PACKAGES}, or tests/tools/programs.sh rabbitmq')


class RabbitMq:
    """One broker with one virtual host, ``/``.

    :param folder: for all of it; made with mode 0700.
    :param ports: of AMQP, of the distribution of Erlang, and of its port mapper.
    """

    def __init__(self, folder: Path, ports: tuple[int, int, int]) -> None:
        self._folder = folder
        self._port, self._distribution, self._mapper = ports
        self._password = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """For oslo.messaging, password included: for files of mode 0600 only."""
        return f'rabbit://openstack:{self._password}@127.0.0.1:{self._port}/'

    def prepare(self) -> tuple[list[str], list[str], dict[str, str]]:
        """Make its files.

        :returns: the command of the port mapper, that of the broker, and the environment of both.
        """
        self._folder.mkdir(mode=0o700)
        for name in ('data', 'log'):
            (self._folder / name).mkdir()
        (self._folder / 'plugins').write_text('[].\n')
        (self._folder / 'environment').write_text('')
        settings = {
            'listeners.tcp.1': f'127.0.0.1:{self._port}',
            'default_user': 'openstack',
            'default_pass': self._password,
            'disk_free_limit.absolute': '50MB',
            'log.console': 'true',
            'log.file': 'false',
        }
        with open(self._folder / 'rabbitmq.conf', 'w', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.writelines(f'{key} = {value}\n' for key, value in settings.items())
        environment = {
            'HOME': str(self._folder),
            'PATH': os.environ.get('PATH', '/usr/bin:/bin'),
            'ERL_EPMD_ADDRESS': '127.0.0.1',
            'ERL_EPMD_PORT': str(self._mapper),
            'RABBITMQ_CONF_ENV_FILE': str(self._folder / 'environment'),
            'RABBITMQ_CONFIG_FILE': str(self._folder / 'rabbitmq'),
            'RABBITMQ_DIST_PORT': str(self._distribution),
            'RABBITMQ_ENABLED_PLUGINS_FILE': str(self._folder / 'plugins'),
            'RABBITMQ_LOG_BASE': str(self._folder / 'log'),
            'RABBITMQ_MNESIA_BASE': str(self._folder / 'data'),
            'RABBITMQ_NODENAME': 'rabbit@localhost',
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': '-kernel inet_dist_use_interface {127,0,0,1}',
        }
        return [shutil.which('epmd') or 'epmd', '-port', str(self._mapper)], [_SERVER], environment

    def mapper_answers(self) -> bool:
        """The port mapper listens. Without it, the broker starts one that outlives it."""
        return _listens(self._mapper)

    def answers(self) -> bool:
        """The broker listens, which it does when it has started."""
        return _listens(self._port)

    @property
    def version(self) -> str:
        """Of the broker that runs."""
        with amqp.Connection(f'127.0.0.1:{self._port}', userid='openstack', password=self._password) as connection:
            return str(connection.server_properties['version'])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(('127.0.0.1', port)) == 0

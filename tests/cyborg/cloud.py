# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run Ironic with the plugin, placement, and Cyborg's conductor, with MariaDB and RabbitMQ of Debian.

::

    python -m tests.cyborg.cloud --state DIR --conf FILE

All listen on loopback addresses. When all answer it prints one line of JSON. ``--conf`` is a further configuration file of
Ironic. Ironic and placement are those of the demo: without Keystone. No agent of Cyborg runs: ``tests.cyborg.agent`` is one
report of an agent. All services end with the standard input.
"""

import sys
import time
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from baremetal_acc.demo.service_files import write_private
from baremetal_acc.demo.service_process import wait_for_answer, wait_for_end
from baremetal_acc.demo.services import Services
from tests.nova_end_to_end.cloud import Cloud, main

CYBORG = """\
[DEFAULT]
host = cyborg
state_path = {state}/cyborg
transport_url = {bus}
log_options = false
[database]
connection = {database}
[oslo_concurrency]
lock_path = {state}/cyborg
[placement]
auth_type = admin_token
endpoint = {placement}
endpoint_override = {placement}
token = admin
"""


class CyborgCloud(Cloud):
    """Of a cloud only what Cyborg's conductor and the plugin need. ``cyborg_conf`` is Cyborg's configuration file."""

    DATABASES = ('cyborg',)

    def start(self) -> dict[str, Any]:
        """Start all of it.

        :raises ServiceFailed: a service ended, or did not answer in time.
        """
        begun = time.monotonic()
        (self._state / 'cyborg').mkdir(mode=0o700)
        database = self._run('mariadb', self._mariadb.prepare())
        broker = self._start_rabbitmq()
        self._ironic = Services(state=self._state / 'services', ironic_conf_extra=[self._conf], env=self._env)
        found = self._ironic.start()
        conf = self._state / 'cyborg' / 'cyborg.conf'
        urls = {'bus': self._rabbitmq.url, 'database': self._mariadb.url_of('cyborg'), 'placement': found.placement}
        write_private(conf, CYBORG.format(state=self._state, **urls))
        files = f'--config-file={conf}'
        wait_for_answer(database, self._mariadb.answers, 'does not answer')
        wait_for_end(self._run('cyborg-dbsync', [self._script('cyborg-dbsync'), files, 'upgrade']))
        wait_for_answer(broker, self._rabbitmq.answers, 'does not answer')
        conductor = self._run('cyborg-conductor', [self._script('cyborg-conductor'), files])
        wait_for_answer(conductor, lambda: b'Created RPC server' in conductor.log.read_bytes(), 'does not listen')
        names = ('openstack-cyborg', 'ironic', 'openstack-placement', 'oslo.messaging')
        return asdict(found) | {
            'cyborg_conf': str(conf),
            'cyborg_log': str(conductor.log),
            'versions': {name: version(name) for name in names}
            | {'MariaDB': self._mariadb.version, 'RabbitMQ': self._rabbitmq.version},
            'took': time.monotonic() - begun,
        }


if __name__ == '__main__':
    sys.exit(main(CyborgCloud))

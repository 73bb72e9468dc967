# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run two real conductors on one database and one API.

::

    python -m tests.journey.cluster --state DIR --conf FILE [--env K=V]...

This program starts MariaDB, placement, Ironic's API and the conductors ``a`` and ``b`` (json-rpc), and prints one line of JSON
when all answer. On ``start a`` or ``start b`` from its standard input that conductor starts again, and its new pid is printed.
All services end with the standard input, so that a test run that is killed leaves nothing behind; if this program itself is
killed, the kernel ends what it started.

With json-rpc a conductor's host name is its address. Ironic 39 adds a port that is not 8089 to the name under which a
conductor registers (``ironic/conductor/base_manager.py``, prepare_host), but reserves nodes under the name without it
(``ironic/conductor/task_manager.py``): the nodes that such a conductor had reserved when it died stay reserved. So both listen
on port 8089, each on a loopback address of its own.
"""

import argparse
import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from baremetal_acc.demo.service_files import IRONIC_PLACEMENT_CONF, PORTS, ironic_conf, write_certificate_key
from baremetal_acc.demo.service_process import interrupt_on_signals
from baremetal_acc.demo.services import Services
from tests.journey.mariadb import MariaDb

CONDUCTORS = ('a', 'b')

JSON_RPC_PORT = 8089
"""Ironic's default; see above."""

START_SECONDS = 180.0

HEARTBEAT_TIMEOUT = 6
"""Seconds after which a silent conductor counts as gone; 60 by default."""

CONF = """\
[DEFAULT]
rpc_transport = json-rpc
log_file = {state}/{name}.log
host = {host}
hash_ring_reset_interval = 2
[api]
api_workers = 1
[json_rpc]
auth_strategy = noauth
host_ip = {host}
[database]
connection = {database}
[conductor]
heartbeat_interval = 1
heartbeat_timeout = {timeout}
check_provision_state_interval = 1
sync_local_state_interval = 5
"""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """In the child: the kernel kills it when this program is gone, however it went."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _until(holds: Callable[[], bool], popen: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while not holds():
        late = time.monotonic() > end
        if late or popen.poll() is not None:
            tail = log.read_text(errors='replace')[-4000:] if log.exists() else '(no log)'
            raise SystemExit(f'{tail}\n{popen.args}: {"does not answer" if late else f"ended with {popen.returncode}"}')
        time.sleep(0.1)


def _free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _address() -> str:
    """A loopback address of which nobody has the port of json-rpc."""
    addresses = (f'127.{random.randint(1, 254)}.{random.randint(1, 254)}.{random.randint(1, 254)}' for _ in range(100))
    return next(address for address in addresses if _free(address, JSON_RPC_PORT))


class Cluster:
    """All processes; they end with :meth:`stop`."""

    def __init__(self, state: Path, conf: Path, env: dict[str, str]) -> None:
        self._state = state
        self._conf = conf
        kept = {k: v for k, v in os.environ.items() if not k.startswith('OS_') and not k.lower().endswith('_proxy')}
        self._env = kept | {'PYTHONWARNINGS': 'ignore', 'PYTHONUNBUFFERED': '1'} | env
        self._popens: dict[str, subprocess.Popen[bytes]] = {}
        self._port, database_port = random.sample([p for p in random.sample(PORTS, 100) if _free('127.0.0.1', p)], 2)
        self._mariadb = MariaDb(state / 'mariadb', database_port)
        self._hosts = {name: _address() for name in CONDUCTORS}

    def start(self) -> dict[str, Any]:
        """Start all of it.

        :returns: where it is.
        """
        for name in ('http', 'lock', 'tmp'):
            (self._state / name).mkdir(mode=0o700)
        command = self._mariadb.prepare()
        database = self._run('mariadb', command)
        _until(self._mariadb.answers, database, self._log('mariadb'))
        with self._placement() as placement:
            text = ironic_conf(state=self._state, port=self._port) + IRONIC_PLACEMENT_CONF.format(placement=placement)
            self._write('ironic', text)
            write_certificate_key(self._state)
            for name, host in {'api': '127.0.0.1', **self._hosts}.items():
                values = {'state': self._state, 'database': self._mariadb.url, 'timeout': HEARTBEAT_TIMEOUT}
                self._write(name, CONF.format(name=name, host=host, **values))
            schema = self._run('api', [self._script('ironic-dbsync'), *self._files('api'), 'upgrade'])
            if schema.wait(START_SECONDS):
                raise SystemExit(self._log('api').read_text()[-4000:])
            api = self._run('api', [self._script('ironic-api'), *self._files('api')])
            conductors = [self.conductor(name, wait=False) for name in CONDUCTORS]
            _until(lambda: not _free('127.0.0.1', self._port), api, self._log('api'))
            for name, (popen, start) in zip(CONDUCTORS, conductors, strict=True):
                self._until_up(name, popen, start)
            return {
                'ironic': f'http://127.0.0.1:{self._port}',
                'placement': placement,
                'logs': {name: str(self._log(name)) for name in self._popens},
                'pids': {name: popen.pid for name, popen in self._popens.items()},
                'hosts': self._hosts,
            }

    @contextmanager
    def _placement(self) -> Iterator[str]:
        self._services = Services(state=self._state / 'placement', ironic=False, env=self._env)
        address = self._services.start().placement
        assert address is not None
        yield address

    def conductor(self, name: str, *, wait: bool = True) -> tuple[subprocess.Popen[bytes], int]:
        """Start a conductor, again if it ran before."""
        if name in self._popens:
            self._kill(self._popens[name])
        start = self._log(name).stat().st_size if self._log(name).exists() else 0
        popen = self._run(name, [self._script('ironic-conductor'), *self._files(name)])
        if wait:
            self._until_up(name, popen, start)
        return popen, start

    def _until_up(self, name: str, popen: subprocess.Popen[bytes], start: int) -> None:
        """Until it says that it is there, later in its log than ``start``."""
        _until(lambda: b'Created RPC server with' in self._log(name).read_bytes()[start:], popen, self._log(name))

    def stop(self) -> None:
        """End everything, the database last."""
        for name in ('api', *CONDUCTORS):
            if name in self._popens:
                self._kill(self._popens[name])
        if hasattr(self, '_services'):
            self._services.stop()
        if 'mariadb' in self._popens:
            self._popens['mariadb'].terminate()
            with suppress(subprocess.TimeoutExpired):
                self._popens['mariadb'].wait(20)
            self._kill(self._popens['mariadb'])

        # Workers whose master was killed are ours to bury.
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)

    @staticmethod
    def _kill(popen: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()

    def _log(self, name: str) -> Path:
        return self._state / f'{name}.log'

    def _files(self, name: str) -> list[str]:
        return [f'--config-file={path}' for path in (self._state / 'ironic.conf', self._conf, self._state / f'{name}.conf')]

    @staticmethod
    def _script(name: str) -> str:
        return str(Path(sys.executable).with_name(name))

    def _write(self, name: str, text: str) -> None:
        with open(self._state / f'{name}.conf', 'w', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text)

    def _run(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with self._log(name).open('ab') as output:
            self._popens[name] = popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._state,
                env=self._env,
                start_new_session=True,
                preexec_fn=_end_with_parent,
                umask=0o077,
            )
        return popen


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + '\n')
    sys.stdout.flush()


def main() -> int:
    """Start, print where, obey, stop."""
    parser = argparse.ArgumentParser(prog='python -m tests.journey.cluster')
    parser.add_argument('--state', type=Path, required=True)
    parser.add_argument('--conf', type=Path, required=True)
    parser.add_argument('--env', action='append', default=[])
    arguments = parser.parse_args()
    interrupt_on_signals()
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    arguments.state.mkdir(mode=0o700)
    cluster = Cluster(arguments.state, arguments.conf, dict(pair.split('=', 1) for pair in arguments.env))
    try:
        _say(cluster.start())
        for line in sys.stdin:
            name = line.split()[1]
            popen, _ = cluster.conductor(name)
            _say({name: popen.pid})
    except KeyboardInterrupt:
        return 0
    finally:
        cluster.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())

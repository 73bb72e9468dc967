# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The services of a race: a real placement with real policy, and MariaDB, PostgreSQL or SQLite behind it."""

import ctypes
import http.client
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.journey.mariadb import MariaDb
from tests.race.postgresql import PostgreSql

DATABASES = ('sqlite', 'mariadb', 'postgresql')

PORTS = range(20000, 32000)
START_SECONDS = 180.0
PROCESSES = 3
"""Of placement. SQLite takes one, with one thread: with more it answers 500 "database is locked"."""
THREADS = 6
"""Of each process of placement."""

CONF = """\
[DEFAULT]
log_options = false
[placement]
allocation_conflict_retry_count = {retries}
[api]
auth_strategy = noauth2
[placement_database]
connection = {connection}
sqlite_synchronous = false
sync_on_startup = {sync}
"""

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """In the child: the kernel kills it when we are gone, however we went."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """So many ports of 127.0.0.1 that nobody listens on."""
    found: list[int] = []
    for port in random.sample(PORTS, 500):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(('127.0.0.1', port))
                found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError('no free port')


class Site:
    """All services, from :meth:`start` to :meth:`stop`; a context manager.

    :param retries: how often placement tries a claim before it says that somebody else was quicker. More than once, and 16.0.0
        takes claims that have no room: what its first try wrote counts as held when the second one looks.
    :ivar database: URL for SQLAlchemy, password included.
    :ivar ports: of the processes of placement, on 127.0.0.1.
    """

    def __init__(self, kind: str, retries: int = 1) -> None:
        self.kind = kind
        self.retries = retries
        self.database = ''
        self.ports: list[int] = []
        self._folder = Path(tempfile.mkdtemp(prefix='race-'))
        self._popens: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all, and wait until it answers."""
        self._folder.chmod(0o711)  # PostgreSQL's user has to get through
        port, *ports = free_ports(1 + (1 if self.kind == 'sqlite' else PROCESSES))
        match self.kind:
            case 'mariadb':
                mariadb = MariaDb(self._folder / 'mariadb', port, 'placement')
                self._run(mariadb.prepare(), 'mariadb', mariadb.answers)
                self.database = mariadb.url
            case 'postgresql':
                postgresql = PostgreSql(self._folder / 'postgresql', port)
                self._run(postgresql.prepare(), 'postgresql', postgresql.answers, user=postgresql.user)
                self.database = postgresql.url
            case _:
                self.database = f'sqlite:///{self._folder}/placement.sqlite'
        for number, own in enumerate(ports):
            self._placement(own, sync=number == 0)
        self.ports = ports
        if self.kind == 'sqlite':
            # Whoever only looks keeps nobody from writing then.
            with sqlite3.connect(f'{self._folder}/placement.sqlite') as database:
                database.execute('PRAGMA journal_mode=WAL')
            database.close()

    def _placement(self, port: int, *, sync: bool) -> None:
        conf = self._folder / f'placement-{port}'
        conf.mkdir(mode=0o700)
        text = CONF.format(connection=self.database, sync=str(sync).lower(), retries=self.retries)
        with open(conf / 'placement.conf', 'w', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text)
        threads = 1 if self.kind == 'sqlite' else THREADS
        command = [
            str(Path(sys.executable).with_name('waitress-serve')),
            f'--listen=127.0.0.1:{port}',
            f'--threads={threads}',
            'placement.wsgi.api:application',
        ]
        self._run(command, f'placement-{port}', lambda: _answers(port), env={'OS_PLACEMENT_CONFIG_DIR': str(conf)})

    def _run(
        self,
        command: list[str],
        name: str,
        answers: Callable[[], bool],
        *,
        user: str | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        log = self._folder / f'{name}.log'
        kept = {k: v for k, v in os.environ.items() if not k.startswith('OS_') and not k.lower().endswith('_proxy')}
        with log.open('ab') as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=kept | {'PYTHONWARNINGS': 'ignore'} | (env or {}),
                user=user if user is not None and os.getuid() == 0 else None,
                preexec_fn=end_with_parent,
                umask=0o077,
            )
        self._popens.append(popen)
        end = time.monotonic() + START_SECONDS
        while not answers():
            if popen.poll() is not None or time.monotonic() > end:
                raise SystemExit(f'{log.read_text(errors="replace")[-4000:]}\n{name} does not answer')
            time.sleep(0.1)

    def log(self) -> str:
        """What the processes of placement wrote, the end of it."""
        return '\n'.join(path.read_text(errors='replace')[-3000:] for path in sorted(self._folder.glob('placement-*.log')))

    def stop(self) -> None:
        """End everything, the database last."""
        for popen in reversed(self._popens):
            popen.terminate()
            try:
                popen.wait(20)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
        self._popens.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=10)
    try:
        connection.request('GET', '/')
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run a real MariaDB server for one test, in a folder of its own and on loopback only.

It is independent of any other MariaDB on the machine. Its one user may connect from 127.0.0.1 only and has a random password,
which is in files of mode 0600 and in no command line.
"""

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pymysql

PACKAGES = 'mariadb-server-core mariadb-client-core'
"""Of Debian; mariadb-server holds both, and starts a server of its own where systemd runs."""

_PATH = os.pathsep.join([os.environ.get('PATH', ''), '/usr/sbin', '/usr/bin'])


class NotInstalled(Exception):
    """MariaDB's server is not on this machine."""


def _program(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    if found is None:
        raise NotInstalled(f'{name} is not on this machine: apt-get install {PACKAGES}, or tests/tools/programs.sh mariadb')
    return found


def look_for() -> None:
    """See that it can be run.

    :raises NotInstalled: it cannot; says what to install.
    """
    for name in ('mariadb-install-db', 'mariadbd'):
        _program(name)


class MariaDb:
    """One server with one empty database, or more.

    :param folder: for all of it; made with mode 0700.
    :param name: of database and user.
    :param further: names of further databases of the same user.
    """

    def __init__(self, folder: Path, port: int, name: str = 'ironic', further: Sequence[str] = ()) -> None:
        self._folder = folder
        self._port = port
        self._name = name
        self._further = tuple(further)
        self._password = secrets.token_urlsafe(24)
        self._first = folder / 'first.sql'

    @property
    def url(self) -> str:
        """For SQLAlchemy, password included: for files of mode 0600 only."""
        return self.url_of(self._name)

    def url_of(self, database: str) -> str:
        """The same for one of the further databases."""
        return f'mysql+pymysql://{self._name}:{self._password}@127.0.0.1:{self._port}/{database}?charset=utf8mb3'

    def prepare(self) -> list[str]:
        """Make its files.

        :returns: the command that runs it.
        """
        self._folder.mkdir(mode=0o700)
        user = pwd.getpwuid(os.getuid()).pw_name
        data = self._folder / 'data'
        made = subprocess.run(
            [_program('mariadb-install-db'), '--no-defaults', f'--user={user}', f'--datadir={data}', '--skip-test-db'],
            capture_output=True,
            text=True,
        )
        assert 0 == made.returncode, made.stdout + made.stderr
        text = f"CREATE USER '{self._name}'@'127.0.0.1' IDENTIFIED BY '{self._password}';\n"
        for database in (self._name, *self._further):
            text += f'CREATE DATABASE {database} CHARACTER SET utf8mb3;\n'
            text += f"GRANT ALL PRIVILEGES ON {database}.* TO '{self._name}'@'127.0.0.1';\n"
        with open(self._first, 'w', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text)
        return [
            _program('mariadbd'),
            '--no-defaults',
            f'--user={user}',
            f'--datadir={data}',
            f'--tmpdir={self._folder}',
            f'--socket={self._folder}/socket',
            f'--pid-file={self._folder}/pid',
            f'--init-file={self._first}',
            '--bind-address=127.0.0.1',
            f'--port={self._port}',
            '--skip-name-resolve',
            '--skip-log-bin',
            '--max-connections=400',
            # Nothing of it has to outlive the machine.
            '--innodb-flush-log-at-trx-commit=0',
            '--innodb-buffer-pool-size=32M',
        ]

    def answers(self) -> bool:
        """Our user can log in. The file with its password is gone then."""
        try:
            login = {'user': self._name, 'password': self._password, 'database': self._name}
            with pymysql.connect(host='127.0.0.1', port=self._port, **login):
                pass
        except pymysql.Error:
            return False
        self._first.unlink(missing_ok=True)
        return True

    @property
    def version(self) -> str:
        """Of the server that runs."""
        with pymysql.connect(host='127.0.0.1', port=self._port, user=self._name, password=self._password) as connection:
            return str(connection.get_server_info())

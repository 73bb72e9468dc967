# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run a real PostgreSQL for one test, next to any other on this machine: in a folder of its own, on loopback only.

It refuses to run as root, and runs as ``postgres`` or ``nobody`` then. Its one user has a random password, which is in files of
mode 0600 and in no command line.
"""

import glob
import os
import pwd
import secrets
import shutil
import subprocess
from pathlib import Path

import psycopg2

PACKAGES = 'postgresql-15'
"""Of Debian. ``tests/tools/programs.sh postgresql`` installs it without the cluster that it would make and start otherwise."""

FOLDERS = '/usr/lib/postgresql/*/bin'
"""Debian keeps its programs there."""


class NotInstalled(Exception):
    """PostgreSQL's server is not on this machine."""


def _program(name: str) -> str:
    path = os.pathsep.join([*sorted(glob.glob(FOLDERS), reverse=True), os.environ.get('PATH', '')])
    found = shutil.which(name, path=path)
    if found is None:
        raise NotInstalled(f'{name} is not on this machine: apt-get install {PACKAGES}, or tests/tools/programs.sh postgresql')
    return found


def look_for() -> None:
    """See that it can be run.

    :raises NotInstalled: it cannot; says what to install.
    """
    for name in ('initdb', 'postgres'):
        _program(name)


def user() -> str:
    """Whom it runs as."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid()).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    return 'postgres' if 'postgres' in known else 'nobody'


class PostgreSql:
    """One server with one empty database.

    :param folder: for all of it; made with mode 0700. Those above it must let others through.
    """

    def __init__(self, folder: Path, port: int, name: str = 'placement') -> None:
        self._folder = folder
        self._port = port
        self._name = name
        self._password = secrets.token_urlsafe(24)
        self.user = user()

    @property
    def url(self) -> str:
        """For SQLAlchemy, password included: for files of mode 0600 only."""
        return f'postgresql+psycopg2://{self._name}:{self._password}@127.0.0.1:{self._port}/{self._name}'

    def prepare(self) -> list[str]:
        """Make its files.

        :returns: the command that runs it, as :attr:`user`.
        """
        own = pwd.getpwnam(self.user)
        self._folder.mkdir(mode=0o700)
        secret = self._folder / 'password'
        with open(secret, 'w', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(self._password)
        for path in (self._folder, secret):
            os.chown(path, own.pw_uid, own.pw_gid)
        data = self._folder / 'data'
        made = subprocess.run(
            [
                _program('initdb'),
                f'--pgdata={data}',
                f'--username={self._name}',
                f'--pwfile={secret}',
                '--auth=scram-sha-256',
                '--encoding=UTF8',
                '--locale=C',
                '--no-sync',
            ],
            capture_output=True,
            text=True,
            user=self.user if os.getuid() == 0 else None,
            cwd=self._folder,
        )
        assert 0 == made.returncode, made.stdout + made.stderr
        secret.unlink()
        settings = {
            'listen_addresses': '127.0.0.1',
            'port': self._port,
            'unix_socket_directories': '',
            'max_connections': 200,
            # Nothing of it has to outlive the machine.
            'fsync': 'off',
            'synchronous_commit': 'off',
            'full_page_writes': 'off',
        }
        return [_program('postgres'), '-D', str(data), *(f'--{key}={value}' for key, value in settings.items())]

    def answers(self) -> bool:
        """Our user can log in. The database is made, then."""
        login = {'host': '127.0.0.1', 'port': self._port, 'user': self._name, 'password': self._password}
        try:
            connection = psycopg2.connect(**login, dbname='postgres')
        except psycopg2.Error:
            return False
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f'CREATE DATABASE {self._name}')
        except psycopg2.errors.DuplicateDatabase:
            pass
        finally:
            connection.close()
        return True

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The first Ctrl-C is reported at once, and ends the command in time with closed sessions, whatever the BMC does."""

import contextlib
import itertools
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.desk import Desk

ROOT = '/redfish/v1'
SESSIONS = f'{ROOT}/SessionService/Sessions'
LATE = 1.5
"""Seconds within which something was said: 0.5, and as much for a machine that is busy with other tests, and its pipes."""

TIME = 6.5
"""Seconds within which a command has ended: 2, 3 for closing sessions, and some for a busy machine."""


class Bmc:
    """Takes logins; what ``hangs`` says is not answered.

    :ivar reached: something was not answered.
    """

    def __init__(self, hangs: Callable[[str, str], bool]) -> None:
        self.sessions: set[str] = set()
        self.numbers = itertools.count()
        self.reached = threading.Event()
        self.over = threading.Event()
        bmc = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get('Content-Length') or 0))
                if hangs(self.command, self.path):
                    bmc.reached.set()
                    bmc.over.wait(60)
                headers, body = bmc.serve(self.command, self.path)
                content = json.dumps(body).encode()
                self.send_response(200)
                for name, value in {'Content-Length': str(len(content)), **headers}.items():
                    self.send_header(name, value)
                with contextlib.suppress(ConnectionError):  # nobody waits for it any more
                    self.end_headers()
                    self.wfile.write(content)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815

            def log_message(self, *arguments: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def serve(self, method: str, path: str) -> tuple[dict[str, str], object]:
        if method == 'POST':
            name = str(next(self.numbers))
            self.sessions.add(name)
            return {'X-Auth-Token': f'token-{name}', 'Location': f'{SESSIONS}/{name}'}, {'Id': name}
        if method == 'DELETE':
            self.sessions.discard(path.rpartition('/')[2])
        links = {name: {'@odata.id': f'{ROOT}/{name}'} for name in ('Systems', 'Chassis', 'Managers')}
        root = {'RedfishVersion': '1.15.0', 'Links': {'Sessions': {'@odata.id': SESSIONS}}, **links}
        return {}, root if path.rstrip('/') == ROOT else {'@odata.id': path, 'Members': []}

    def targets(self, desk: Desk, *names: str) -> tuple[str, ...]:
        """All files, for targets that are all this BMC."""
        address = f'http://127.0.0.1:{self.server.server_address[1]}'
        login = {'address': address, 'username': 'admin', 'password_file': 'password'}
        desk.write('password', 'secret of the BMC\n')
        desk.bmcs({name: {'bmcs': {'host': {**login, 'system': f'{ROOT}/Systems/{name}'}}} for name in names})
        desk.write('baseline.toml', 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\n')
        desk.write('catalogue.toml', 'format = 1\n')
        desk.write('acc.conf', '[baremetal_acc]\nbmc_timeout = 60\npublish = false\n')
        return ('--bmcs', 'bmcs.yaml', '--config-file', 'acc.conf')


@pytest.fixture
def silent() -> Iterator[Callable[[Callable[[str, str], bool]], Bmc]]:
    made: list[Bmc] = []

    def make(hangs: Callable[[str, str], bool]) -> Bmc:
        made.append(Bmc(hangs))
        return made[-1]

    yield make
    for bmc in made:
        bmc.over.set()
        bmc.server.shutdown()
        bmc.server.server_close()


class Stolen:
    """How long a process that wants to run was kept from it by others on this machine, while this lasts.

    A thread wakes up every few milliseconds: what it is late by is what a busy machine takes from the command, too, which is
    given that much more time. On a machine that does nothing else it is next to none.

    :ivar seconds: until now.
    """

    _NAP = 0.005

    def __init__(self) -> None:
        self.seconds = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> 'Stolen':
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            time.sleep(self._NAP)
            self.seconds += max(0.0, time.monotonic() - began - 2 * self._NAP)


def interrupted(process: subprocess.Popen[str], bmc: Bmc) -> tuple[float, float, str]:
    """Seconds until the first word, and until the end, after Ctrl-C, without what others have taken; and all that was said."""
    assert bmc.reached.wait(30), process.communicate(timeout=60)
    with Stolen() as stolen:
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        first = process.stderr.readline()
        said = time.monotonic() - began - stolen.seconds
        _, rest = process.communicate(timeout=60)
        ended = time.monotonic() - began - stolen.seconds
    return said, ended, first + rest


VERBS = {
    'inventory': ('inventory',),
    'plan': ('plan', '--baseline', 'baseline.toml', '--catalogue', 'catalogue.toml'),
    'verify': ('verify', '--baseline', 'baseline.toml', '--catalogue', 'catalogue.toml'),
    'apply': ('apply', '--execute', '--all', '--baseline', 'baseline.toml', '--catalogue', 'catalogue.toml'),
}


@pytest.mark.parametrize('names', [('node-1',), ('node-1', 'node-2', 'node-3')], ids=['one', 'three'])
@pytest.mark.parametrize('verb', VERBS)
def test_a_bmc_that_is_silent_holds_nobody_up(desk: Desk, silent, verb: str, names: tuple[str, ...]) -> None:
    """What waits for its answer is broken off, and the sessions are closed."""
    bmc = silent(lambda method, path: path.endswith('/Systems'))
    process = desk.start(*VERBS[verb], *bmc.targets(desk, *names))
    said, ended, err = interrupted(process, bmc)
    assert 130 == process.returncode, err
    assert said < LATE, err
    assert ended < TIME, err
    assert 'interrupted' in err
    assert 'Traceback' not in err
    assert set() == bmc.sessions


@pytest.mark.parametrize('verb', VERBS)
def test_a_session_that_cannot_be_closed_is_left_to_the_bmc(desk: Desk, silent, verb: str) -> None:
    """Its own timeout ends it: nobody waits for it longer than three seconds."""
    bmc = silent(lambda method, path: method == 'DELETE' or path.endswith('/Systems'))
    process = desk.start(*VERBS[verb], *bmc.targets(desk, 'node-1'))
    said, ended, err = interrupted(process, bmc)
    assert 130 == process.returncode, err
    assert (said < LATE, ended < TIME) == (True, True), err
    assert 'Traceback' not in err


def test_a_bmc_that_does_not_even_show_its_root_holds_nobody_up(desk: Desk, silent) -> None:
    """Nobody is logged in yet, or is just being."""
    bmc = silent(lambda method, path: True)
    process = desk.start(*VERBS['plan'], *bmc.targets(desk, 'node-1'))
    said, ended, err = interrupted(process, bmc)
    assert 130 == process.returncode, err
    assert (said < LATE, ended < TIME) == (True, True), err


def test_a_command_that_was_started_in_the_background_ignores_it(desk: Desk, silent) -> None:
    """A shell without job control starts such commands with the signal ignored."""
    bmc = silent(lambda method, path: path.endswith('/Systems'))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        desk.fresh = True
        process = desk.start(*VERBS['plan'], *bmc.targets(desk, 'node-1'))
    finally:
        signal.signal(signal.SIGINT, before)
    assert bmc.reached.wait(60)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    bmc.over.set()
    process.communicate(timeout=60)
    assert 130 != process.returncode

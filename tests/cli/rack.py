# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A rack full of BMCs in the test's own process, on one port; the user name of a login says which BMC is meant.

Each BMC has a service root, sessions, and one System without accelerators: the tests of a fleet are about the order of requests
and about waits. All requests and connections of the client are counted; nothing here measures time.
"""

import contextlib
import json
import secrets
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.cli.desk import Desk

ROOT = '/redfish/v1'
SESSIONS = f'{ROOT}/SessionService/Sessions'
SYSTEM = f'{ROOT}/Systems/1'
PASSWORD = 'a-Password-of-the-rack'

TREE: dict[str, dict[str, Any]] = {
    ROOT: {
        '@odata.type': '#ServiceRoot.v1_15_0.ServiceRoot',
        'Id': 'RootService',
        'Name': 'Root',
        'RedfishVersion': '1.15.0',
        'Systems': {'@odata.id': f'{ROOT}/Systems'},
        'Chassis': {'@odata.id': f'{ROOT}/Chassis'},
        'Managers': {'@odata.id': f'{ROOT}/Managers'},
        'Links': {'Sessions': {'@odata.id': SESSIONS}},
    },
    f'{ROOT}/Systems': {'Name': 'Systems', 'Members': [{'@odata.id': SYSTEM}], 'Members@odata.count': 1},
    f'{ROOT}/Chassis': {'Name': 'Chassis', 'Members': [], 'Members@odata.count': 0},
    f'{ROOT}/Managers': {'Name': 'Managers', 'Members': [], 'Members@odata.count': 0},
    SYSTEM: {
        '@odata.type': '#ComputerSystem.v1_20_0.ComputerSystem',
        'Id': '1',
        'Name': 'System',
        'SystemType': 'Physical',
        'PowerState': 'On',
        'Actions': {'#ComputerSystem.Reset': {'target': f'{SYSTEM}/Actions/ComputerSystem.Reset'}},
    },
}


class Rack:
    """The BMCs.

    :ivar silent: users whose BMC takes a login and then answers no more, until :attr:`released`.
    :ivar meet: so many users wait for each other at their first reads; a client that comes with fewer fails.
    :ivar logout_seconds: that a BMC takes to close a session.
    :ivar logins: of each user. ``open``: sessions by token. ``peak``: the most that were open at a time.
    """

    def __init__(self) -> None:
        self.silent: frozenset[str] = frozenset()
        self.meet: threading.Barrier | None = None
        self.logout_seconds = 0.0
        self.released = threading.Event()
        self.waited_for = threading.Semaphore(0)
        self.logins: Counter[str] = Counter()
        self.open: dict[str, str] = {}
        self.peak = 0
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(('127.0.0.1', 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def address(self) -> str:
        """Of every BMC."""
        return f'http://127.0.0.1:{self._server.server_address[1]}'

    def target(self, name: str) -> dict[str, Any]:
        """A target as bmcs.yaml has it."""
        return {'bmcs': {'host': {'address': self.address, 'username': name, 'password': PASSWORD}}}

    def list(self, desk: Desk, names: list[str], *conf: str) -> tuple[str, ...]:
        """Write bmcs.yaml and a configuration; these are the arguments for them."""
        desk.bmcs({name: self.target(name) for name in names})
        desk.write('acc.conf', '\n'.join(('[baremetal_acc]', *conf)) + '\n')
        return ('--bmcs', 'bmcs.yaml', '--config-file', 'acc.conf')

    def close(self) -> None:
        """Serve no more."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(rack: Rack) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
            if self.path != SESSIONS or given['Password'] != PASSWORD:
                self._answer(401, {})
                return
            token = secrets.token_hex(8)
            with rack.lock:
                rack.open[token] = given['UserName']
                rack.logins[given['UserName']] += 1
                rack.peak = max(rack.peak, len(rack.open))
            self._answer(201, {}, ('X-Auth-Token', token), ('Location', f'{SESSIONS}/{token}'))

        def do_DELETE(self) -> None:
            time.sleep(rack.logout_seconds)
            with rack.lock:
                rack.open.pop(self.path.rpartition('/')[2], None)
            self._answer(204, None)

        def do_GET(self) -> None:
            path = self.path.partition('?')[0].rstrip('/')
            user = rack.open.get(self.headers.get('X-Auth-Token', ''))
            if path != ROOT and user is None:
                self._answer(401, {})
                return
            if user in rack.silent:
                rack.waited_for.release()
                rack.released.wait()
            elif user is not None and rack.meet is not None and path == f'{ROOT}/Systems':
                rack.meet.wait(60)
            body = TREE.get(path)
            self._answer(*(404, {}) if body is None else (200, {'@odata.id': path, **body}))

        def _answer(self, status: int, body: dict[str, Any] | None, *headers: tuple[str, str]) -> None:
            with contextlib.suppress(ConnectionError):  # who was interrupted does not wait for it
                self._say(status, body, *headers)

        def _say(self, status: int, body: dict[str, Any] | None, *headers: tuple[str, str]) -> None:
            data = b'' if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            if body is not None:
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """The test's output is for the test."""

    return Handler

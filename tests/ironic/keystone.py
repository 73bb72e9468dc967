# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Keystone on loopback, for tests of roles; the real keystonemiddleware validates tokens with it.

The text of a token names its owner: ``system:admin``, ``PROJECT:member``. Implied roles are listed too, as Keystone does
(keystone, default roles: admin implies manager, manager implies member, member implies reader). Any other text is no token.
"""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from keystoneauth1 import loading
from keystonemiddleware.auth_token import _opts  # noqa: F401 - it registers what the middleware reads

IMPLIED = {
    'admin': ('admin', 'manager', 'member', 'reader'),
    'manager': ('manager', 'member', 'reader'),
    'member': ('member', 'reader'),
    'reader': ('reader',),
    'service': ('service',),
}

SERVICE = 'service'
"""Name of the project that Ironic and Nova have their users in."""

_DOMAIN = {'id': 'default', 'name': 'Default'}
_GROUP = 'keystone_authtoken'


class Keystone:
    """The stand-in.

    :ivar asked: names of the tokens that somebody wanted to have vouched for.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[str] = []

    def token(self, name: str) -> dict[str, Any] | None:
        """What Keystone says of a token; None if it knows none of that name."""
        scope, _, role = name.rpartition(':')
        if not scope or role not in IMPLIED:
            return None
        body: dict[str, Any] = {
            'methods': ['password'],
            'user': {'id': uuid.uuid5(uuid.NAMESPACE_URL, name).hex, 'name': f'{role}-of-{scope[:8]}', 'domain': _DOMAIN},
            'audit_ids': ['x'],
            'issued_at': '2026-01-01T00:00:00.000000Z',
            'expires_at': '2126-01-01T00:00:00.000000Z',
            'roles': [{'id': uuid.uuid5(uuid.NAMESPACE_URL, r).hex, 'name': r} for r in IMPLIED[role]],
            'catalog': self._catalogue(),
        }
        if scope == 'system':
            return body | {'system': {'all': True}}
        project = {'id': scope, 'name': scope if scope == SERVICE else f'project-{scope[:8]}', 'domain': _DOMAIN}
        return body | {'project': project}

    def _catalogue(self) -> list[dict[str, Any]]:
        endpoints = [
            {'id': name, 'interface': name, 'region': 'r', 'region_id': 'r', 'url': f'{self.address}/v3'}
            for name in ('public', 'internal', 'admin')
        ]
        return [{'id': 'identity', 'type': 'identity', 'name': 'keystone', 'endpoints': endpoints}]

    def versions(self) -> dict[str, Any]:
        """Of its API."""
        return {
            'id': 'v3.14',
            'status': 'stable',
            'updated': '2020-04-07T00:00:00Z',
            'links': [{'rel': 'self', 'href': f'{self.address}/v3/'}],
            'media-types': [{'base': 'application/json', 'type': 'application/vnd.openstack.identity-v3+json'}],
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    keystone: Keystone

    def do_GET(self) -> None:
        path = self.path.split('?', 1)[0].rstrip('/')
        if path == '':
            self._say(300, {'versions': {'values': [self.keystone.versions()]}})
        elif path == '/v3':
            self._say(200, {'version': self.keystone.versions()})
        elif path == '/v3/auth/tokens':
            name = self.headers.get('X-Subject-Token') or ''
            self.keystone.asked.append(name)
            found = self.keystone.token(name)
            self._say(404, {'error': {'code': 404}}) if found is None else self._say(200, {'token': found}, name)
        else:
            self._say(404, {'error': {'code': 404}})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get('Content-Length') or 0))
        name = f'{SERVICE}:service'
        self._say(201, {'token': self.keystone.token(name)}, name)

    def _say(self, status: int, body: object, token: str | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        if token is not None:
            self.send_header('X-Subject-Token', token)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Nothing: the test says what it wants to know."""


@contextmanager
def keystone() -> Iterator[Keystone]:
    """One that runs."""
    server = ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
    server.daemon_threads = True
    made = Keystone(f'http://127.0.0.1:{server.server_address[1]}')
    server.RequestHandlerClass = type('Handler', (_Handler,), {'keystone': made})
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def configure(case: Any, address: str) -> None:
    """Let Ironic's API of a test case ask it. The options go with the case: some are required, and no other has values."""
    case.cfg_fixture.register_opts(loading.get_auth_plugin_conf_options('password'), group=_GROUP)
    case.config(
        group=_GROUP,
        auth_type='password',
        auth_url=f'{address}/v3',
        www_authenticate_uri=f'{address}/v3',
        username='ironic',
        password='x',
        project_name=SERVICE,
        user_domain_id='default',
        project_domain_id='default',
    )

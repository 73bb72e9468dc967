# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A Keystone and an object store in one, over HTTP: as much of both as certificates need."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN, PASSWORD, ACCOUNT = 'token-of-the-conductor', 'of-the-conductor', '/v1/AUTH_acc'


@dataclass
class Store:
    """What it holds, and how it misbehaves.

    :ivar fails: status by method and path, in place of what would be done; with path ``*`` for every object.
    :ivar forgets: it takes objects, and gives others back.
    """

    url: str = ''
    containers: dict[str, dict[str, bytes]] = field(default_factory=dict)
    meta: dict[str, dict[str, str]] = field(default_factory=dict)
    fails: dict[tuple[str, str], int] = field(default_factory=dict)
    forgets: bool = False
    log: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def swift() -> Iterator[Store]:
    """Serve it on the loopback interface."""
    store = Store()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def log_message(self, *_: object) -> None:
            """Nothing."""

        def _answer(self, status: int, data: bytes = b'', **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace('_', '-'), value)
            self.send_header('Content-Length', str(len(data)))
            self.end_headers()
            if self.command != 'HEAD':
                self.wfile.write(data)

        def _asked(self) -> None:
            data = self.rfile.read(int(self.headers.get('Content-Length') or 0))
            store.log.append((self.command, self.path))
            if (self.command, self.path) in store.fails:
                self._answer(store.fails[self.command, self.path])
            elif self.path.startswith('/identity'):
                self._identity(data)
            elif self.headers.get('X-Auth-Token') != TOKEN:
                self._answer(401)
            else:
                container, _, name = self.path.removeprefix(f'{ACCOUNT}/').partition('/')
                self._object(container, name, data)

        do_GET = do_PUT = do_POST = do_HEAD = _asked  # noqa: N815 - as the library calls them

        def _identity(self, data: bytes) -> None:
            if self.command == 'GET':
                links = [{'rel': 'self', 'href': f'{store.url}/identity/v3/'}]
                version = {'id': 'v3.14', 'status': 'stable', 'links': links, 'updated': '2020-04-07T00:00:00Z'}
                body = {'version': version} if self.path.rstrip('/').endswith('v3') else {'versions': {'values': [version]}}
                self._answer(200, json.dumps(body).encode(), Content_Type='application/json')
                return
            user = json.loads(data)['auth']['identity']['password']['user']
            if user['password'] != PASSWORD:
                self._answer(401, b'{}', Content_Type='application/json')
                return
            endpoints = [{'interface': i, 'region': 'r', 'url': f'{store.url}{ACCOUNT}'} for i in ('public', 'internal')]
            token = {
                'methods': ['password'],
                'expires_at': '2099-01-01T00:00:00.000000Z',
                'issued_at': '2026-01-01T00:00:00.000000Z',
                'user': {'id': 'u', 'name': user['name'], 'domain': {'id': 'default', 'name': 'Default'}},
                'project': {'id': 'p', 'name': 'service', 'domain': {'id': 'default', 'name': 'Default'}},
                'catalog': [{'type': 'object-store', 'name': 'swift', 'endpoints': endpoints}],
            }
            self._answer(201, json.dumps({'token': token}).encode(), X_Subject_Token=TOKEN, Content_Type='application/json')

        def _object(self, container: str, name: str, data: bytes) -> None:
            objects = store.containers.get(container)
            if name and (self.command, '*') in store.fails:
                self._answer(store.fails[self.command, '*'])
                return
            match self.command:
                case 'PUT' if not name:
                    self._answer(201 if objects is None else 202)
                    store.containers.setdefault(container, {})
                case _ if objects is None:
                    self._answer(404)
                case 'PUT':
                    etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
                    if self.headers.get('ETag', etag) != etag:
                        self._answer(422)
                    else:
                        objects[name] = data[:-1] if store.forgets else data
                        self._answer(201, Etag=etag)
                case _ if name not in objects:
                    self._answer(404)
                case 'POST':
                    store.meta[name] = {k: v for k, v in self.headers.items() if k.startswith('X-Object-Meta-')}
                    self._answer(202)
                case _:
                    self._answer(200, objects[name], Content_Type='application/json')

    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    store.url = f'http://127.0.0.1:{server.server_address[1]}'
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.02})
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

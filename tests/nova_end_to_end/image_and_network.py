# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Glance and Neutron: one image, and no network. Tokens are not checked, for nothing of it is secret.

An instance boots with ``networks: none``. Nova still asks Neutron for extensions, and for the ports of an instance.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
TIME = '2026-01-01T00:00:00Z'

_IMAGE: dict[str, Any] = {
    'id': IMAGE,
    'name': 'debian-12',
    'status': 'active',
    'visibility': 'public',
    'protected': False,
    'owner': 'operator',
    'size': 1024,
    'checksum': '0' * 32,
    'container_format': 'bare',
    'disk_format': 'raw',
    'min_ram': 0,
    'min_disk': 0,
    'tags': [],
    'created_at': TIME,
    'updated_at': TIME,
    'file': f'/v2/images/{IMAGE}/file',
    'self': f'/v2/images/{IMAGE}',
    'schema': '/v2/schemas/image',
}

_SCHEMA = {
    'name': 'image',
    'properties': {name: {} for name in _IMAGE},
    'additionalProperties': {'type': 'string'},
    'links': [],
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self) -> None:
        path = self.path.partition('?')[0].rstrip('/')
        address = f'http://127.0.0.1:{self.server.server_address[1]}'
        match path.removeprefix('/image').removeprefix('/network').split('/')[1:]:
            case []:
                part, number = path.strip('/') or 'image', 'v2.9' if path == '/image' else 'v2.0'
                link = {'rel': 'self', 'href': f'{address}/{part}/{"v2" if part == "image" else "v2.0"}/'}
                self._say(200, {'versions': [{'id': number, 'status': 'CURRENT', 'links': [link]}]})
            case ['v2', 'images', name]:
                self._say(200, _IMAGE) if name == IMAGE else self._say(404, {'message': f'no image {name}'})
            case ['v2', 'schemas', 'image']:
                self._say(200, _SCHEMA)
            case ['v2.0', *_, kind]:
                self._say(200, {kind: []})
            case _:
                self._say(404, {'message': path})

    def _say(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Nothing."""


@contextmanager
def image_and_network() -> Iterator[str]:
    """One that runs; its address, below which ``/image`` and ``/network`` are."""
    server = ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.1}, daemon=True)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_address[1]}'
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

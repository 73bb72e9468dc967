# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ironic is reached by the group [ironic] as an operator writes it, with a Keystone and without."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from oslo_config import cfg

from baremetal_acc.errors import DocumentError, IronicUnreachable, UsageError
from baremetal_acc.pools.connect import connect


class Handler(BaseHTTPRequestHandler):
    """A standalone Ironic without nodes."""

    seen: list[tuple[str, dict[str, str]]]

    def do_GET(self) -> None:
        """Versions, and no nodes."""
        self.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        here = f'http://{self.headers["Host"]}'
        version = {
            'id': 'v1',
            'status': 'CURRENT',
            'version': '1.110',
            'min_version': '1.1',
            'links': [{'rel': 'self', 'href': f'{here}/v1/'}],
        }
        body: Any = {'nodes': []} if 'nodes' in self.path else {'versions': [version], 'default_version': version, 'id': 'v1'}
        if self.path.rstrip('/').endswith('v1'):
            body = {'id': 'v1', 'links': version['links'], 'version': version}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    handler = type('Recording', (Handler,), {'seen': []})
    server = ThreadingHTTPServer(('127.0.0.1', 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f'http://127.0.0.1:{server.server_port}', handler.seen
    server.shutdown()
    thread.join()
    server.server_close()


def configured(tmp_path, *lines: str) -> cfg.ConfigOpts:
    path = tmp_path / 'acc.conf'
    path.write_text('\n'.join(['[ironic]', *lines]) + '\n')
    conf = cfg.ConfigOpts()
    conf(args=[], default_config_files=[str(path)])
    return conf


@pytest.mark.parametrize('path', ['', '/v1'])
@pytest.mark.parametrize(
    ('lines', 'authorization'),
    [
        (['auth_type = none'], None),
        (
            ['auth_type = http_basic', 'username = acc', 'password = secret'],
            'Basic ' + base64.b64encode(b'acc:secret').decode(),
        ),
    ],
)
def test_a_standalone_ironic_is_asked(service, tmp_path, path, lines, authorization):
    """With the version that is needed, and the password where there is one; with or without the version in its address."""
    url, seen = service
    assert [] == list(connect(configured(tmp_path, *lines, f'endpoint_override = {url}{path}')).nodes())
    where, headers = seen[-1]
    assert where.startswith('/v1/nodes?')
    assert ('1.70', authorization) == (headers['x-openstack-ironic-api-version'], headers.get('authorization'))


def test_what_is_missing_or_wrong_is_told(tmp_path):
    """Before anything is asked."""
    with pytest.raises(UsageError, match='access to Ironic is not configured'):
        connect(configured(tmp_path))
    with pytest.raises(DocumentError, match=r'acc.conf: \[ironic\]: .*no-such-plugin'):
        connect(configured(tmp_path, 'auth_type = no-such-plugin'))


def test_an_ironic_that_is_away_is_no_fault_of_the_file(tmp_path):
    """Waiting can help: pool watch goes on."""
    away = connect(configured(tmp_path, 'auth_type = none', 'endpoint_override = http://127.0.0.1:9'))
    with pytest.raises(IronicUnreachable):
        list(away.nodes())

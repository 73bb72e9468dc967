# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the adapters: a tree of recorded or written replies, served by requests-mock."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import requests_mock

from baremetal_acc.bmc.driver import BmcAddress, Look
from baremetal_acc.bmc.redfish import concurrency
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.connection import RedfishConnection
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.model.ref import HOST
from tests.replies import recorded

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ADDRESS = 'https://192.0.2.1'

Reply = Callable[[requests.PreparedRequest, Any], str | bytes]


class FakeBmc:
    """A BMC that answers from a table.

    :ivar tree: URI to body; a body that is no object is sent as it is (text).
    :ivar replies: method and URI to a function, or to a list of functions and exceptions that are used up one by one.
    :ivar slept: pauses that the client made.
    :ivar dial: makes connections to it.
    """

    def __init__(self) -> None:
        self.tree: dict[str, Any] = {
            '/redfish/v1': {
                '@odata.id': '/redfish/v1',
                'Id': 'RootService',
                'Name': 'Root',
                'RedfishVersion': '1.15.0',
                'Systems': {'@odata.id': '/redfish/v1/Systems'},
                'Chassis': {'@odata.id': '/redfish/v1/Chassis'},
                'Managers': {'@odata.id': '/redfish/v1/Managers'},
            },
        }
        self.collection('/redfish/v1/Systems', '1')
        self.collection('/redfish/v1/Chassis')
        self.collection('/redfish/v1/Managers')
        self.put('/redfish/v1/Systems/1', SystemType='Physical', PowerState='On')
        self.replies: dict[tuple[str, str], Any] = {}
        self.seen: list[tuple[str, str]] = []
        self.requests: list[requests.PreparedRequest] = []
        self.slept: list[float] = []
        self.etags: dict[str, str] = {}
        adapter = requests_mock.Adapter()
        self.dial = recorded(adapter)
        adapter.register_uri(requests_mock.ANY, requests_mock.ANY, content=self._answer)

    def put(self, uri: str, **body: Any) -> dict[str, Any]:
        """A resource with Id and Name."""
        self.tree[uri] = {'@odata.id': uri, 'Id': uri.rsplit('/', 1)[-1], 'Name': uri.rsplit('/', 1)[-1], **body}
        return self.tree[uri]

    def collection(self, uri: str, *names: str) -> None:
        """A collection of members below it."""
        self.tree[uri] = {'@odata.id': uri, 'Name': 'Collection', 'Members': [{'@odata.id': f'{uri}/{n}'} for n in names]}

    def count(self, method: str, uri: str | None = None) -> int:
        """How often something was asked."""
        return sum(1 for m, u in self.seen if m == method and uri in (None, u))

    def body_of(self, method: str) -> list[Any]:
        """JSON bodies of all requests of a method."""
        return [json.loads(r.body) for r in self.requests if r.method == method and r.body]

    def driver(self, remembered: RememberedBmc | None = None) -> RedfishDriver:
        """A driver that reaches it and nothing else."""
        remembered = RememberedBmc() if remembered is None else remembered
        return RedfishDriver(patience=ReadRetry(sleep=self.slept.append), remembered=remembered, dial=self.dial)

    def connect(self, **address: Any) -> RedfishConnection:
        """A connection, without a login unless a user is given."""
        return self.driver().connect(
            BmcAddress(**{'name': HOST, 'address': ADDRESS, 'timeout': timedelta(seconds=30)} | address)
        )

    def look(self, **address: Any) -> Look:
        """One look."""
        with self.connect(**address) as connection:
            return connection.look(NOW)

    def _answer(self, request: Any, context: Any) -> bytes:
        path, _, query = request.url.split('://', 1)[1].partition('?')
        uri = '/' + path.partition('/')[2].rstrip('/')
        whole = uri + (f'?{query}' if query else '')
        self.seen.append((request.method, whole))
        self.requests.append(request)
        context.headers['Content-Type'] = 'application/json'
        reply = self.replies.get((request.method, whole), self.replies.get((request.method, uri)))
        if isinstance(reply, list) and reply:
            reply = reply.pop(0)
        elif isinstance(reply, list):
            reply = None
        if isinstance(reply, BaseException):
            raise reply
        if callable(reply):
            found = reply(request, context)
            return found if isinstance(found, bytes) else found.encode()
        if request.method != 'GET':
            context.status_code = 204
            return b''
        if whole not in self.tree and uri not in self.tree:
            context.status_code = 404
            return b'{"error": {"code": "Base.1.0.ResourceMissingAtURI", "message": "not there"}}'
        if uri in self.etags:
            context.headers['ETag'] = self.etags[uri]
        body = self.tree.get(whole, self.tree.get(uri))
        return body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else json.dumps(body).encode()


def status(code: int, body: Any = None, **headers: str) -> Reply:
    """A reply with that status."""

    def reply(request: Any, context: Any) -> str | bytes:
        context.status_code = code
        context.headers.update({name.replace('_', '-'): value for name, value in headers.items()})
        return body if isinstance(body, str | bytes) else '' if body is None else json.dumps(body)

    return reply


@pytest.fixture
def bmc() -> FakeBmc:
    """An empty BMC with one System."""
    return FakeBmc()


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long an answer takes says nothing of $expand: on a busy machine it may lose, and requests would not be the same."""
    monkeypatch.setattr(concurrency, 'CHANCE', 3600.0)


@pytest.fixture
def reply() -> Callable[..., Reply]:
    """Makes replies."""
    return status


@pytest.fixture
def recording(bmc: FakeBmc, shared: Path) -> Callable[[str], FakeBmc]:
    """Serves a recorded tree."""

    def serve(name: str) -> FakeBmc:
        top = shared / 'recordings' / name
        bmc.tree = {
            '/' + str(path.parent.relative_to(top)): path.read_bytes().decode('utf-8-sig')
            for path in top.glob('redfish/**/index.json')
        }
        return bmc

    return serve


@pytest.fixture(scope='module')
def url(placement: str) -> str:
    """Of a real placement."""
    return placement

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy in front of an emulated BMC: a rule answers a request itself, or changes the BMC's answer.

It imitates behaviour of real BMCs for which the emulator has no habit. Forwarded requests change the emulated machine, whose
control API tells its true state.
"""

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OF_THE_CONNECTION = frozenset({'connection', 'content-length', 'date', 'host', 'server', 'transfer-encoding'})
"""Headers that are not forwarded."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the client asks. ``path`` is without query and without a slash at its end."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the client gets."""

    status: int
    body: bytes = b''
    headers: dict[str, str] = field(default_factory=dict)

    def edited(self, edit: Callable[[Any], object]) -> 'Answer':
        """With the document that ``edit`` has changed in place, and without its ETag; an answer without a document as it is."""
        try:
            document = json.loads(self.body)
        except ValueError:
            return self
        edit(document)
        if isinstance(document, dict):
            document.pop('@odata.etag', None)
        headers = {name: value for name, value in self.headers.items() if name != 'ETag'}
        return replace(self, body=json.dumps(document).encode(), headers=headers)


def refusal(status: int, message_id: str, message: str) -> Answer:
    """A Redfish error with one message."""
    told = {'code': 'Base.1.13.GeneralError', 'message': 'A general error has occurred.'}
    told['@Message.ExtendedInfo'] = [{'MessageId': message_id, 'Message': message}]
    return Answer(status=status, body=json.dumps({'error': told}).encode())


Rule = Callable[[Request, Callable[[], Answer]], Answer]
"""Takes a request, and the way to the answer of the BMC; gives the answer that is sent."""


class Front:
    """The server.

    :param bmc: of an emulated machine that serves plain HTTP.
    :param protocol: HTTP/1.0 closes the connection after each answer.
    :param tls: what HTTPS is served with; None: plain HTTP.
    """

    def __init__(self, bmc: Any, rule: Rule, *, protocol: str = 'HTTP/1.1', tls: ssl.SSLContext | None = None) -> None:
        self.rule = rule
        self._behind = bmc.address.removeprefix('http://')
        self._server = ThreadingHTTPServer(('127.0.0.1', 0), _handler(self, protocol))
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.address = f'http{"s" if tls else ""}://127.0.0.1:{self._server.server_address[1]}'
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Ask the BMC."""
        connection = http.client.HTTPConnection(self._behind, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(status=answer.status, body=answer.read(), headers=_kept(answer.headers.items()))
        finally:
            connection.close()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _kept(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in OF_THE_CONNECTION}


def _handler(front: Front, protocol: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol
        disable_nagle_algorithm = True

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
            headers = _kept(self.headers.items())
            request = Request(method=self.command, path=self.path.partition('?')[0].rstrip('/'), headers=headers, body=body)
            given = front.rule(request, lambda: front.forward(self.command, self.path, headers, body))
            self.send_response(given.status)
            for name, value in {**given.headers, 'Content-Length': str(len(given.body))}.items():
                self.send_header(name, value)
            with contextlib.suppress(ConnectionError):  # nobody waits for it any more
                self.end_headers()
                self.wfile.write(given.body)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: object) -> None:
            """The test's output is for the test."""

    return Handler

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""BMCs within this process: connections whose answers a function gives, without a socket and without a server thread.

The product's transport reads them as it reads any others: with its parser and its bounds. Such a BMC closes each connection
after one answer.
"""

import functools
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import requests
import requests_mock

from baremetal_acc.http.transport import Dial

_LENGTH = re.compile(rb'\r\ncontent-length: (\d+)', re.IGNORECASE)

_FRAMES = frozenset({'connection', 'content-length', 'transfer-encoding'})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request, as it came over the connection."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Given:
    """The answer to it; ``content`` as it goes over the connection, packed or not."""

    status: int
    headers: Mapping[str, str]
    content: bytes


Answer = Callable[[Asked], Given]
"""Raises ``OSError`` where there is none."""


def dial(answer: Answer) -> Dial:
    """Connections to a BMC that answers so."""
    return functools.partial(_Wire, answer)


def recorded(adapter: requests_mock.Adapter) -> Dial:
    """Connections to a BMC that gives the replies of requests-mock."""

    def answer(asked: Asked) -> Given:
        request = requests.Request(asked.method, asked.url, headers=dict(asked.headers), data=asked.body or None).prepare()
        try:
            response = adapter.send(request)
        except requests.Timeout as exc:
            raise TimeoutError(str(exc)) from exc
        except requests.ConnectionError as exc:
            raise ConnectionResetError(str(exc)) from exc
        content = response.raw.read(decode_content=False)
        return Given(status=response.status_code, headers=response.headers, content=content)

    return dial(answer)


class _Wire:
    """One connection."""

    def __init__(self, answer: Answer, host: str, port: int, context: ssl.SSLContext | None, timeout: float) -> None:
        self._answer = answer
        self._scheme = 'http' if context is None else 'https'
        self._came = b''
        self._gives: bytes | None = None

    def send(self, data: bytes, timeout: float, deadline: float) -> None:
        self._came += data

    def offer(self, data: memoryview, deadline: float) -> tuple[int, bytes | None]:
        self._came += data
        return len(data), None

    def receive(self, left: float, deadline: float, *, first: bool) -> bytes:
        """The whole answer to the whole request, then the end."""
        if self._gives is None:
            self._gives = self._answered()
        piece, self._gives = self._gives, b''
        return piece

    def is_quiet(self) -> bool:
        return True

    def break_off(self) -> None:
        """Nobody waits long for an answer."""

    def close(self) -> None:
        """There is nothing to close."""

    def _answered(self) -> bytes:
        head, _, body = self._came.partition(b'\r\n\r\n')
        announced = _LENGTH.search(head)
        assert len(body) == (int(announced[1]) if announced is not None else 0), 'the body is as long as it was said to be'
        first, *lines = head.decode('latin-1').split('\r\n')
        method, target, _ = first.split(' ')
        headers = {name: value for name, _, value in (line.partition(': ') for line in lines)}
        url = f'{self._scheme}://{headers.pop("Host")}{target}'
        given = self._answer(Asked(method=method, url=url, headers=headers, body=body))
        told = {name: value for name, value in given.headers.items() if name.lower() not in _FRAMES}
        told |= {'Connection': 'close', 'Content-Length': str(len(given.content))}
        text = ''.join(f'{name}: {value}\r\n' for name, value in told.items())
        return f'HTTP/1.1 {given.status} Said\r\n{text}\r\n'.encode('latin-1') + given.content

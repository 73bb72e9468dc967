# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A web server that keeps to no rule: each path has a function that yields the bytes of an answer, whatever they are."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable

Answer = Callable[[int], Iterable[bytes]]
"""Given how often the path was asked for before, the bytes that are sent, piece by piece; then the connection is closed."""


class Web:
    """The server, on loopback.

    :ivar answers: by path.
    :ivar asked: the paths that were asked for.
    :ivar closing: set when no more is served; what drips waits for it.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.closing = threading.Event()
        self._context = context
        self._listening = socket.create_server(('127.0.0.1', 0))
        self.port = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f'{"https" if self._context else "http"}://127.0.0.1:{self.port}'

    def stop(self) -> None:
        """Serve no more."""
        self.closing.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connected,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connected: socket.socket) -> None:
        with contextlib.suppress(OSError), connected:
            connected.settimeout(30)
            if self._context is not None:
                connected = self._context.wrap_socket(connected, server_side=True)
            with connected:
                self._answer(connected)

    def _answer(self, connected: socket.socket) -> None:
        head = b''
        while b'\r\n\r\n' not in head:
            piece = connected.recv(65536)
            if not piece:
                return
            head += piece
        path = head.split(b' ', 2)[1].decode()
        before = self.asked.count(path)
        self.asked.append(path)
        for piece in self.answers.get(path, missing)(before):
            if self.closing.is_set():
                return
            connected.sendall(piece)


def missing(_: int) -> Iterable[bytes]:
    """There is no such thing."""
    yield b'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'


def reply(data: bytes, *headers: str, status: str = '200 OK') -> bytes:
    """An honest answer."""
    lines = [f'HTTP/1.1 {status}', f'Content-Length: {len(data)}', 'Connection: close', *headers]
    return '\r\n'.join(lines).encode('latin-1') + b'\r\n\r\n' + data


def always(data: bytes) -> Answer:
    """The same each time."""
    return lambda _: (data,)


def leading(to: str) -> Answer:
    """A redirect."""
    return always(reply(b'', f'Location: {to}', status='302 Found'))


def raw(*lines: str, body: bytes = b'') -> Answer:
    """An answer with just these lines."""
    return always('\r\n'.join(lines).encode('latin-1') + b'\r\n\r\n' + body)

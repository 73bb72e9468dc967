# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A web server that answers as a test says, well or badly, on loopback."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

Answer = Callable[[socket.socket], None]


class Server:
    """One answer for each path; every request is remembered as it came.

    :ivar over: set at the end, for answers that go on for ever.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[str] = []
        self.over = threading.Event()
        self.raw: Answer | None = None
        self._context = context
        self._listening = socket.create_server(('127.0.0.1', 0))
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    @property
    def origin(self) -> str:
        """Where it is."""
        return f'{"http" if self._context is None else "https"}://127.0.0.1:{self._listening.getsockname()[1]}'

    def stop(self) -> None:
        """No thread is left."""
        self.over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        while self._threads:
            self._threads.pop().join(10)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                thread = threading.Thread(target=self._one, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _one(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self.raw is not None:
                self.raw(connection)
                return
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                head = b''
                while b'\r\n\r\n' not in head:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    head += piece
                self.requests.append(head.decode('latin-1'))
                self.answers.get(head.split()[1].decode('latin-1'), _ABSENT)(connection)


def body(data: bytes, *headers: str, status: str = '200 OK', length: int | None = None) -> Answer:
    """An answer with a body."""

    def answer(connection: socket.socket) -> None:
        announced = len(data) if length is None else length
        lines = (f'HTTP/1.1 {status}', f'Content-Length: {announced}', 'Connection: close', *headers)
        connection.sendall('\r\n'.join((*lines, '', '')).encode() + data)

    return answer


def unannounced(data: bytes) -> Answer:
    """A body that ends where the connection ends."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n' + data)

    return answer


def chunked(data: bytes) -> Answer:
    """A body in chunks of its own."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
        for at in range(0, len(data), 1000):
            piece = data[at : at + 1000]
            connection.sendall(f'{len(piece):x}\r\n'.encode() + piece + b'\r\n')
        connection.sendall(b'0\r\n\r\n')

    return answer


def redirect(where: str, status: str = '302 Found') -> Answer:
    """To somewhere else."""
    return body(b'', f'Location: {where}', status=status)


def dripping(first: bytes, drop: bytes, over: threading.Event) -> Answer:
    """Something at once, and then a drop now and then, for ever: no single wait is long."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(first)
        while not over.wait(0.05):
            connection.sendall(drop)

    return answer


_ABSENT = body(b'', status='404 Not Found')

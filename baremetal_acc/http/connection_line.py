# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""TCP and TLS connections, which wait in their thread or as a greenlet of a hub."""

import contextlib
import errno
import os
import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import TypeVar

from baremetal_acc import wait

PIECE = 64 * 1024

T = TypeVar('T')


class ConnectionLine:
    """A connection over TCP, with TLS where there is a context for it. Waits in its thread, or as a greenlet of a hub."""

    __slots__ = ('_hub', '_poll', '_socket', '_timeout')

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        self._hub = wait.hub()
        if self._hub is None:
            plain = socket.create_connection((host, port), timeout)
        else:
            plain = _connected(self._hub, host, port, deadline)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None and self._hub is None:
                plain.settimeout(max(0.1, deadline - time.monotonic()))
                self._socket: socket.socket = context.wrap_socket(plain, server_hostname=host)
            elif context is not None and self._hub is not None:
                secured = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
                self._socket = plain = secured
                _patiently(self._hub, secured, secured.do_handshake, deadline)
            else:
                self._socket = plain
        except BaseException:
            plain.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._timeout = -1.0

    def send(self, data: bytes, timeout: float, deadline: float) -> None:
        """Send all of the data."""
        hub = self._hub = wait.hub()
        if hub is None:
            self._within(timeout)
            self._socket.sendall(data)
            return
        self._within(0.0)
        rest = data
        while rest:
            sent = _patiently(hub, self._socket, lambda: self._socket.send(rest), deadline, wait.WRITE)  # noqa: B023
            rest = rest[sent:]

    def offer(self, data: memoryview, deadline: float) -> tuple[int, bytes | None]:
        """Send data until something comes back: a peer that refuses the request may not read any more."""
        self._hub = wait.hub()
        self._within(0.0)
        sent = 0
        while True:
            came = self._come()
            if came is not None:
                return sent, came
            event = wait.READ
            try:
                while sent < len(data):
                    sent += self._socket.send(data[sent:])
                return sent, None
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLWantWriteError, BlockingIOError):
                event |= wait.WRITE
            self._until_ready(event, deadline)

    def receive(self, left: float, deadline: float, *, first: bool) -> bytes:
        """Return what comes next."""
        if self._hub is None:
            if not first:
                self._within(left)
            return self._socket.recv(PIECE)
        # An answer takes some time: to read at once would only cost a system call.
        if first and not self._hub.for_socket(self._socket.fileno(), wait.READ, left):
            raise TimeoutError('timed out')
        return _patiently(self._hub, self._socket, lambda: self._socket.recv(PIECE), deadline)

    def is_quiet(self) -> bool:
        """As :meth:`TransportWire.is_quiet`."""
        return not self._poll.poll(0)

    def close(self) -> None:
        """Close the connection at once."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def break_off(self) -> None:
        """As :meth:`TransportWire.break_off`. No TLS close_notify is sent: the thread that waits is using the TLS
        connection.
        """
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _within(self, seconds: float) -> None:
        """Set the timeout of the next wait, if it has changed: each change is a system call."""
        if seconds != self._timeout:
            self._timeout = seconds
            self._socket.settimeout(seconds)

    def _come(self) -> bytes | None:
        """Return what has come already; None for nothing, also where only TLS itself has exchanged data."""
        if self.is_quiet():
            return None
        try:
            return self._socket.recv(PIECE)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return None

    def _until_ready(self, event: int, deadline: float) -> None:
        """Wait until the socket is ready.

        :raises TimeoutError: it was not ready in time.
        """
        left = max(0.0, deadline - time.monotonic())
        if self._hub is not None:
            ready = self._hub.for_socket(self._socket.fileno(), event, left)
        else:
            poll = select.poll()
            poll.register(self._socket, event)
            ready = bool(poll.poll(left * 1000))
        if not ready:
            raise TimeoutError('timed out')


def _connected(hub: wait.Hub, host: str, port: int, deadline: float) -> socket.socket:
    """Make a connection without blocking the hub."""
    failed: OSError = OSError('no address')
    try:
        found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except socket.gaierror:
        asked = time.monotonic()
        found = hub.in_thread(lambda: socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        deadline += time.monotonic() - asked  # name lookups may queue: that time does not count for the BMC
    for number, (family, kind, protocol, _, address) in enumerate(found):
        plain = socket.socket(family, kind, protocol)
        plain.setblocking(False)
        try:
            code = plain.connect_ex(address)
            if code == errno.EINPROGRESS:
                if not hub.for_socket(plain.fileno(), wait.WRITE, (deadline - time.monotonic()) / (len(found) - number)):
                    raise TimeoutError('timed out')
                code = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
        except OSError as exc:
            plain.close()
            failed = exc
        else:
            return plain
    raise failed


def _patiently(hub: wait.Hub, sock: socket.socket, act: Callable[[], T], deadline: float, event: int = wait.READ) -> T:
    """Call a function on a non-blocking socket, as soon as the socket is ready for it."""
    while True:
        try:
            return act()
        except ssl.SSLWantReadError:
            event = wait.READ
        except ssl.SSLWantWriteError:
            event = wait.WRITE
        except BlockingIOError:
            pass
        if not hub.for_socket(sock.fileno(), event, deadline - time.monotonic()):
            raise TimeoutError('timed out')

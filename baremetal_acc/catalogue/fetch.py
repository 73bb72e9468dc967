# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How do bytes come from a web server? Piece by piece, within a time, and only from servers that the operator allows.

Redirects are followed by hand, each to an allowed server or not at all. A server that sends a byte now and then is cut off when
the time is over, wherever it is: in the handshake of TLS, the headers or the body.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urljoin

from baremetal_acc.catalogue import address
from baremetal_acc.catalogue.address import Address, Origin

_PIECE = 256 * 1024

_MOST_REDIRECTS = 5

_REDIRECTS = (301, 302, 303, 307, 308)

_SILENCE = (10.0, 30.0)
"""Seconds to wait for a connection, and for a server that says nothing at all."""


class NotFetched(Exception):
    """Why nothing came; the hint says what to do."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """The web servers that may be asked.

    :ivar hosts: all of them; none by default.
    :ivar authorities: file of CA certificates that they verify with; None: those of the system's Python.
    :ivar timeout: for one file as a whole, redirects included.
    """

    hosts: frozenset[Origin] = frozenset()
    authorities: str | None = None
    timeout: timedelta = timedelta(minutes=10)

    @contextmanager
    def open(self, url: str, size: int | None = None) -> Iterator[Iterator[bytes]]:
        """The bytes behind a URL, piece by piece.

        :param size: how many there should be, in bytes; a server that announces another number is told so at once.
        :raises NotFetched: they do not come, also while they are read.
        """
        import requests

        watch = _Watch(self.timeout)
        if self.authorities is not None and not os.access(self.authorities, os.R_OK):
            hint = 'option [baremetal_acc] image_ca names it'
            raise NotFetched(f'the file of CA certificates {self.authorities} cannot be read', hint)
        try:
            with requests.Session() as session, watch:
                # Neither proxies nor passwords from somebody's environment or ~/.netrc.
                session.trust_env = False
                session.verify = self.authorities or True
                for scheme in ('https://', 'http://'):
                    session.mount(scheme, _adapter(watch))
                with self._answer(session, url, watch) as answer:
                    announced = answer.headers.get('Content-Length')
                    if size is not None and announced is not None and announced != str(size):
                        raise NotFetched(f'the server announces {announced[:20]} bytes, the catalogue says {size}')
                    if answer.headers.get('Content-Encoding', 'identity').lower() != 'identity':
                        raise NotFetched('the server sends it encoded, though it was asked not to')
                    yield _pieces(answer, watch)
        except requests.exceptions.SSLError as exc:
            watch.check()
            hint = 'option [baremetal_acc] image_ca names the CA certificates that are trusted'
            raise NotFetched(f'the certificate of the server does not verify: {_reason(exc)}', hint) from None
        except (requests.exceptions.RequestException, OSError) as exc:
            watch.check()
            raise NotFetched(f'the server does not answer as it should: {_reason(exc)}') from None

    def _answer(self, session: Any, url: str, watch: '_Watch') -> Any:
        """The answer of the server that has it."""
        asked = self._allowed(url)
        for _ in range(_MOST_REDIRECTS + 1):
            answer = session.get(
                asked.url,
                headers={'Accept-Encoding': 'identity', 'User-Agent': 'baremetal-acc'},
                stream=True,
                allow_redirects=False,
                timeout=_SILENCE,
            )
            watch.check()
            if answer.status_code == 200:
                return answer
            answer.close()
            if answer.status_code not in _REDIRECTS:
                raise NotFetched(f'{asked} answers with HTTP status {answer.status_code}')
            there = self._allowed(urljoin(asked.url, answer.headers.get('Location', '')), f'{asked} redirects to what ')
            if asked.origin.scheme == 'https' and there.origin.scheme != 'https':
                raise NotFetched(f'{asked} redirects to {there}, which is not encrypted')
            asked = there
        raise NotFetched(f'more than {_MOST_REDIRECTS} redirects, the last to {asked}')

    def _allowed(self, url: str, how: str = '') -> Address:
        try:
            found = address.parse(url)
        except ValueError as exc:
            raise NotFetched(f'{how}{exc}') from None
        if found.origin not in self.hosts:
            hint = f'option [baremetal_acc] image_hosts lists the servers that are: add {_entry(found.origin)} if you trust it'
            raise NotFetched(f'{how}is on {found.origin}, which is no server that may be asked', hint)
        return found


class _Watch:
    """Cuts every connection of a fetch when its time is over, whatever it waits for."""

    def __init__(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._over = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(timeout.total_seconds(), self._cut)
        self._timer.daemon = True

    def __enter__(self) -> '_Watch':
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for one in self._sockets:
                one.close()
            self._sockets.clear()

    def add(self, connected: socket.socket) -> None:
        """A connection of this fetch. A descriptor of our own reaches it even after TLS has taken the socket over."""
        with self._lock:
            self._sockets.append(socket.socket(fileno=os.dup(connected.fileno())))
            if self._over:
                self._shut()

    def check(self) -> None:
        """:raises NotFetched: the time is over."""
        if self._over:
            hint = 'option [baremetal_acc] image_timeout'
            raise NotFetched(f'it did not come within {self._timeout.total_seconds():g} seconds', hint)

    def _cut(self) -> None:
        with self._lock:
            self._over = True
            self._shut()

    def _shut(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _adapter(watch: _Watch) -> Any:
    """A transport of requests that tells the watch of every connection."""
    from requests.adapters import HTTPAdapter
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.connection import HTTPConnection, HTTPSConnection

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            made = super()._new_conn()
            watch.add(made)
            return made

    class Encrypted(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            made = super()._new_conn()
            watch.add(made)
            return made

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class EncryptedPool(HTTPSConnectionPool):
        ConnectionCls = Encrypted

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **how: Any) -> None:
            super().init_poolmanager(*args, **how)
            self.poolmanager.pool_classes_by_scheme = {'http': PlainPool, 'https': EncryptedPool}

    return Adapter(max_retries=0)


def _pieces(answer: Any, watch: _Watch) -> Iterator[bytes]:
    """The body as it comes: never waiting for a whole piece, so that the time is looked at."""
    from urllib3.exceptions import HTTPError

    try:
        while piece := answer.raw.read1(_PIECE, decode_content=False):
            watch.check()
            yield piece
    except HTTPError as exc:
        watch.check()
        raise NotFetched(f'it breaks off: {_reason(exc)}') from None
    watch.check()


def _entry(origin: Origin) -> str:
    """As the option has it."""
    text = str(origin) if origin.scheme == 'http' else origin.host
    return text if origin.scheme == 'http' or origin.port == address.PORTS['https'] else f'{text}:{origin.port}'


def _reason(exc: BaseException) -> str:
    """What went wrong at the bottom, on one line, without the URL and its query."""
    seen: BaseException = exc
    for _ in range(10):
        inner = getattr(seen, 'reason', None)
        inner = (
            inner if isinstance(inner, BaseException) else next((a for a in seen.args if isinstance(a, BaseException)), None)
        )
        if inner is None:
            break
        seen = inner
    text = getattr(seen, 'verify_message', None) or getattr(seen, 'strerror', None) or type(seen).__name__
    return ''.join(c if c.isprintable() else ' ' for c in str(text))[:200]

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fetch a file over HTTP or HTTPS from the servers that the operator allows, piece by piece and within a time limit.

Redirects are followed by hand, each to an allowed server or not at all. A server that sends a byte now and then is cut off when
the time is over, wherever it is: in the TLS handshake, the headers or the body. Nothing of the environment is used: no proxy
and no password of ~/.netrc. There are no cookies.
"""

import os
import ssl
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urljoin

from baremetal_acc.http.transport import Stream, Transport
from baremetal_acc.http.transport_errors import TooSlow
from baremetal_acc.images import address
from baremetal_acc.images.address import ImageUrl, UrlOrigin

_MOST_REDIRECTS = 5

_REDIRECTS = (301, 302, 303, 307, 308)

_CONNECT, _SILENCE = 10.0, 30.0
"""Seconds to wait for a connection, and for a server that sends nothing."""


class NotFetched(Exception):
    """A file could not be fetched; the hint names a remedy."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """The web servers that may be contacted.

    :ivar hosts: all allowed servers; none by default.
    :ivar authorities: file of CA certificates for their verification; None: those of the system.
    :ivar timeout: time limit for one file as a whole, redirects included.
    """

    hosts: frozenset[UrlOrigin] = frozenset()
    authorities: str | None = None
    timeout: timedelta = timedelta(minutes=10)

    @contextmanager
    def open(self, url: str, size: int | None = None) -> Iterator[Iterator[bytes]]:
        """Open a URL, and yield its bytes piece by piece.

        :param size: expected size in bytes; another Content-Length is an error at once.
        :raises NotFetched: the file cannot be fetched; also raised while it is read.
        """
        if self.authorities is not None and not os.access(self.authorities, os.R_OK):
            hint = 'set by option [baremetal_acc] image_ca'
            raise NotFetched(f'the file of CA certificates {self.authorities} cannot be read', hint)
        until = time.monotonic() + self.timeout.total_seconds()
        with self._answer(url, until) as answer:
            announced = answer.headers.get('Content-Length')
            if size is not None and announced is not None and announced != str(size):
                raise NotFetched(f'the server reports a Content-Length of {announced[:20]} bytes, the catalogue says {size}')
            if answer.headers.get('Content-Encoding', 'identity').lower() != 'identity':
                raise NotFetched('the server sent a Content-Encoding, although the request accepts none')
            yield self._pieces(answer, until)

    @contextmanager
    def _answer(self, url: str, until: float) -> Iterator[Stream]:
        """Yield the answer of the server that has the file, after redirects."""
        asked = self._allowed(url)
        for _ in range(_MOST_REDIRECTS + 1):
            with ExitStack() as stack:
                try:
                    answer = stack.enter_context(self._asked(asked, until))
                except ssl.SSLError as exc:
                    hint = 'the trusted CA certificates are set by option [baremetal_acc] image_ca'
                    raise self._failed(exc, until, 'the TLS certificate of the server cannot be verified', hint) from None
                except OSError as exc:
                    raise self._failed(exc, until, 'the request failed') from None
                if answer.status == 200:
                    yield answer
                    return
            if answer.status not in _REDIRECTS:
                raise NotFetched(f'{asked} returned HTTP status {answer.status}')
            there = self._allowed(
                urljoin(asked.url, answer.headers.get('Location', '')), f'{asked} redirects to an address that '
            )
            if asked.origin.scheme == 'https' and there.origin.scheme != 'https':
                raise NotFetched(f'{asked} redirects to {there}, which is not encrypted')
            asked = there
        raise NotFetched(f'more than {_MOST_REDIRECTS} redirects, the last to {asked}')

    def _asked(self, asked: ImageUrl, until: float) -> AbstractContextManager[Stream]:
        """Send the request to a server.

        :raises OSError: as of :meth:`.Transport.stream`, or the CA certificates cannot be used.
        """
        origin, left = asked.origin, until - time.monotonic()
        if left <= 0:
            raise TooSlow('no time is left')
        context = ssl.create_default_context(cafile=self.authorities) if origin.scheme == 'https' else None
        head = (
            f'GET {asked.url.removeprefix(str(origin))} HTTP/1.1\r\nHost: {_host(origin)}\r\nUser-Agent: baremetal-acc\r\n'
            'Accept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n'
        )
        server = Transport(origin.host.strip('[]'), origin.port, context, limit=lambda: 0)  # for answers that are not streamed
        return server.stream(head.encode(), connect=min(_CONNECT, left), silence=_SILENCE, until=until)

    def _pieces(self, answer: Stream, until: float) -> Iterator[bytes]:
        try:
            yield from answer.pieces
        except OSError as exc:
            raise self._failed(exc, until, 'the transfer broke off') from None

    def _failed(self, exc: OSError, until: float, what: str, hint: str | None = None) -> NotFetched:
        """Return the error for a file that could not be fetched, or not completely, on one line."""
        if time.monotonic() >= until:
            late = f'it was not fetched completely within {self.timeout.total_seconds():g} s'
            return NotFetched(late, 'the limit is set by option [baremetal_acc] image_timeout')
        text = getattr(exc, 'verify_message', None) or exc.strerror or str(exc) or type(exc).__name__
        return NotFetched(f'{what}: {"".join(c if c.isprintable() else " " for c in text)[:200]}', hint)

    def _allowed(self, url: str, how: str = 'the URL ') -> ImageUrl:
        try:
            found = address.parse(url)
        except ValueError as exc:
            raise NotFetched(f'{how}{exc}') from None
        if found.origin not in self.hosts:
            hint = f'if you trust that server, add {_entry(found.origin)} to option [baremetal_acc] image_hosts'
            raise NotFetched(f'{how}is on {found.origin}, which is not an allowed server', hint)
        return found


def _host(origin: UrlOrigin) -> str:
    """Return the host, with its port unless that is the scheme's default."""
    return origin.host if origin.port == address.PORTS[origin.scheme] else f'{origin.host}:{origin.port}'


def _entry(origin: UrlOrigin) -> str:
    """Return a server as the option ``image_hosts`` names it."""
    return str(origin) if origin.scheme == 'http' else _host(origin)

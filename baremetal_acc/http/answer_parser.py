# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse HTTP/1.1 answers with llhttp, within limits of headers and body, and uncompress bodies."""

import zlib
from typing import Any

import httptools

from baremetal_acc.http.transport_errors import TooLong, TransportError

MAX_HEAD = 64 * 1024
"""Limit of status line and headers, in bytes. The largest that was seen has 1 KiB."""

_DONE = 300
"""Statuses below it say that something was done. Source: RFC 9110, section 15."""


class Headers(dict[str, str]):
    """Headers by their names in lower case; several of one name are joined with a comma."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return a header, by its name in any case."""
        return super().get(name.lower(), default)


class AnswerParser:
    """The answers of one connection, one after the other, while they are parsed.

    llhttp calls the methods named ``on_``.

    :ivar in_head: status and headers are not complete.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        self.begin(0)

    def begin(self, limit: int, *, as_sent: bool = False) -> None:
        """Begin the next answer of a connection; the one before was complete, and nothing came after it.

        :param limit: of the body in bytes, uncompressed; ``as_sent``: it is not uncompressed.
        """
        self._limit = limit
        self._as_sent = as_sent
        self._beside = 0
        self._packed = 0
        self.in_head = True
        self._parts: list[bytes] = []
        self._size = 0
        self._unpack: _Unpack | None = None
        self._more = False
        self.headers = Headers()
        self.status = 0
        self.complete = False
        self.keep = False

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body has no length of its own, so that it ends with the connection."""
        framed = 'content-length' in self.headers or 'transfer-encoding' in self.headers
        return not self.in_head and not framed

    @property
    def refuses(self) -> bool:
        """Whether the answer says that the request is not carried out, so that the rest of it need not be sent."""
        return not self.in_head and self.status >= _DONE

    def feed(self, piece: bytes) -> None:
        """Parse what came."""
        self._beside += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            raise TransportError('the answer requests a switch of protocols (Upgrade)') from None
        except httptools.HttpParserError as exc:
            own = exc.__context__
            if isinstance(own, TransportError):
                raise own from None
            if not self.complete:
                raise TransportError(f'the answer is not HTTP: {str(exc)[:100]}') from None
        # Counts headers, and what chunks and trailers add to a body: the smallest chunks add six bytes to each byte.
        if self._beside > MAX_HEAD + 6 * self._packed:
            raise TransportError(f'the answer has more than {MAX_HEAD} bytes of headers')
        self.keep = self.keep and not self._more

    def content(self) -> bytes:
        """Return what has come of the body since the last call, uncompressed."""
        if self._unpack is not None and self._packed:
            self._unpack.finish()
        parts, self._parts = self._parts, []
        return b''.join(parts)

    def end(self) -> None:
        """Parse no more answers.

        Parser and message refer to each other, a cycle that the garbage collector might leave for long.
        """
        self.__dict__.pop('_parser', None)

    def on_message_begin(self) -> None:
        if self.complete:
            self._more = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._more or not self.in_head:
            return  # another answer's, or a trailer
        key = name.decode('latin-1').lower()
        text = value.decode('latin-1')
        self.headers[key] = f'{self.headers[key]}, {text}' if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self._more:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers.clear()  # an interim answer; the real one follows
            return
        self.in_head = False
        coding = self.headers.get('content-encoding', '').strip().lower()
        if coding not in ('', 'identity') and not self._as_sent:
            self._unpack = _Unpack(coding)

    def on_body(self, body: bytes) -> None:
        if self._more:
            return
        self._beside -= len(body)
        self._packed += len(body)
        if self._unpack is not None:
            body = self._unpack.more(body, self._limit - self._size)
        self._size += len(body)
        if self._size > self._limit:
            raise TooLong(f'the answer is longer than {self._limit} bytes')
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if self.status >= 200 and not self.complete:
            self.complete = True
            self.keep = self._parser.should_keep_alive()


class _Unpack:
    """Uncompresses a body, never more than allowed. We ask for no compression; some peers compress all the same."""

    def __init__(self, coding: str) -> None:
        if coding not in ('gzip', 'x-gzip', 'deflate'):
            raise TransportError('the answer has a Content-Encoding that was not requested')
        self._engine = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def more(self, packed: bytes, most: int) -> bytes:
        """Return the next piece, at most one byte more than allowed."""
        try:
            return self._engine.decompress(packed, max(1, most + 1))
        except zlib.error as exc:
            raise TransportError('the answer cannot be decompressed') from exc

    def finish(self) -> None:
        """Raise an error if the end of the compressed body is missing."""
        if not self._engine.eof:
            raise TransportError('the compressed answer is truncated')

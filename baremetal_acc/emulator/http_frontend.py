# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The HTTP frontend of each emulated site: request slots, delays, counters and cut connections."""

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from baremetal_acc.emulator.journal import Counters
from baremetal_acc.emulator.service import ServiceReply, ServiceRequest, clean_path

# The limit of bodies that are read whole; images are streamed.
MAX_BODY = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """How fast a BMC answers and how many requests it serves at a time.

    :param delay: seconds that every answer takes.
    :param slots: requests in progress at a time, while others wait; None: any number.
    :param expand_member_delay: seconds for each resource that is expanded into an answer.
    """

    delay: float = 0.0
    slots: int | None = None
    expand_member_delay: float = 0.0


PAUSE_SECONDS = 0.05


class Cut(Exception):
    """The connection is cut without an answer."""


class BodyTooLarge(Exception):
    """The body of a request is larger than the limit."""


class Site(Protocol):
    """A site that answers requests."""

    async def respond(self, http: web.BaseRequest, request: ServiceRequest) -> ServiceReply:
        """Answer a request.

        :raises Cut: the connection is cut without an answer.
        """
        ...


class HttpFrontend:
    """The HTTP frontend of one site.

    :ivar site: the site.
    """

    def __init__(self, site: Site, knobs: Knobs | None = None) -> None:
        self.site = site
        self._knobs = knobs or Knobs()
        self._slots = asyncio.Semaphore(self._knobs.slots) if self._knobs.slots else None
        self.counters = Counters()

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Serve one request when it gets a slot."""
        self.counters.arrived(http.method, http.path_qs)
        try:
            if self._slots is None:
                return await self._answer(http)
            async with self._slots:
                return await self._answer(http)
        finally:
            self.counters.in_flight -= 1

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        self.counters.begun()
        try:
            if self._knobs.delay:
                await asyncio.sleep(self._knobs.delay)
            request = ServiceRequest(
                method=http.method,
                path=clean_path(http.rel_url.raw_path),
                query=dict(http.rel_url.query),
                headers={name.lower(): value for name, value in http.headers.items()},
            )
            try:
                reply = await self.site.respond(http, request)
            except Cut:
                if http.transport is not None:
                    http.transport.abort()
                return web.Response(status=500)
            if reply.expanded and self._knobs.expand_member_delay:
                await asyncio.sleep(reply.expanded * self._knobs.expand_member_delay)
            response = as_response(reply, is_head=http.method == 'HEAD')
            if reply.bytes_per_second is not None:
                return await _drip(http, response, reply.bytes_per_second)
            self.counters.sent_bytes += len(response.body) if isinstance(response.body, bytes) else 0
            return response
        finally:
            self.counters.in_progress -= 1


async def hold(http: web.BaseRequest) -> None:
    """Answer nothing for as long as the client stays connected."""
    while http.transport is not None and not http.transport.is_closing():
        await asyncio.sleep(PAUSE_SECONDS)


async def _drip(http: web.BaseRequest, whole: web.Response, bytes_per_second: float) -> web.StreamResponse:
    """Send the answer byte by byte until the client disconnects."""
    body = whole.body if isinstance(whole.body, bytes) else b''
    slow = web.StreamResponse(status=whole.status, headers=whole.headers)
    slow.content_length = len(body)
    with contextlib.suppress(OSError):
        await slow.prepare(http)
        for byte in body:
            if http.transport is None or http.transport.is_closing():
                break
            await slow.write(bytes((byte,)))
            await asyncio.sleep(1 / max(bytes_per_second, 0.001))
    if http.transport is not None:
        http.transport.abort()
    return slow


class CountingServer(web.Server):
    """The aiohttp server, which also counts the connections."""

    def __init__(self, front: HttpFrontend) -> None:
        # Without access log: the journal and the counters say more, and the control API returns them.
        super().__init__(front.handle, access_log=None)
        self._front = front

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Count a connection of a client."""
        self._front.counters.connections += 1
        super().connection_made(handler, transport)


async def read_body(http: web.BaseRequest, limit: int = MAX_BODY) -> bytes:
    """Read the body of a request.

    :raises BodyTooLarge: the body is larger than the limit.
    """
    parts = []
    size = 0
    async for chunk in http.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge
        parts.append(chunk)
    return b''.join(parts)


def as_response(reply: ServiceReply, *, is_head: bool = False) -> web.Response:
    """Convert the reply to an aiohttp response."""
    headers = dict(reply.headers)
    if isinstance(reply.body, bytes):
        data = reply.body
    elif isinstance(reply.body, str):
        data = reply.body.encode()
    elif reply.body is None:
        data = b''
    else:
        data = json.dumps(reply.body, indent=2).encode()
    if data:
        headers.setdefault('Content-Type', 'application/json')
    if is_head:
        headers['Content-Length'] = str(len(data))
        data = b''
    return web.Response(status=reply.status, headers=headers, body=data)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The proxy between a client and placement, which causes faults chosen by a seed and records the answers of placement.

An answer is replaced before or after placement did what it was asked for, the connection is cut, a request waits, arrives
twice, or arrives when its sender has long given up. Each client (header ``X-Race``) has a sequence of its own: the n-th request
of a client meets the same fault in every run with that seed.
"""

import http.client
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

READ_FAULTS = ('500', '503', 'cut', 'delay', 'twice')
WRITE_FAULTS = ('409', '500', '503', 'cut', 'delay', 'twice')
LATE_SECONDS = 1.5
"""How long a request can be on its way when its sender has given it up."""
DELAY_SECONDS = 0.3

CONFLICTS = ('placement.concurrent_update', 'placement.undefined_code')
IN_USE = 'placement.inventory.inuse'


@dataclass(slots=True)
class Delivery:
    """A write that reached placement, and what it answered.

    :ivar who: the client.
    :ivar sent: and ``answered``: on the monotonic clock; None while it is there.
    :ivar how: what happened to it on its way.
    :ivar had: what the consumer of a claim had when it arrived; None: nobody knows, or it is no claim.
    """

    who: str
    method: str
    path: str
    body: Any
    sent: float
    how: str
    answered: float | None = None
    status: int = 0
    code: str | None = None
    had: dict[tuple[str, str], int] | None = None

    def told(self) -> str:
        """One line for people."""
        body = json.dumps(self.body, sort_keys=True)[:600] if self.body else ''
        took = '' if self.answered is None else f'+{1000 * (self.answered - self.sent):.0f} ms'
        code = self.code or ''
        return f'{self.sent:.3f}{took} {self.who} {self.method} {self.path} -> {self.status} {code} [{self.how}] {body}'


@dataclass(slots=True)
class Holding:
    """What a consumer has by placement's own answers.

    :ivar claims: amounts by provider and class.
    :ivar unknown: placement stumbled over a change of it; nobody knows what it has.
    :ivar version: goes up with every delivery; ``busy``: deliveries that are there now.
    """

    claims: dict[tuple[str, str], int] = field(default_factory=dict)
    unknown: bool = False
    version: int = 0
    busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Proxy:
    """In front of the processes of placement, on a port of its own.

    :param share: of the requests that meet a fault.
    """

    def __init__(self, upstreams: list[int], seed: int, share: float) -> None:
        self.upstreams = upstreams
        self.seed = seed
        self.share = share
        self.deliveries: list[Delivery] = []
        self.ledger: dict[str, Holding] = {}
        self.faults: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.late = 0
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._server = ThreadingHTTPServer(('127.0.0.1', 0), _Handler, bind_and_activate=True)
        self._server.daemon_threads = True
        self._server.proxy = self  # type: ignore[attr-defined]
        self.port = self._server.server_address[1]
        self._local = threading.local()

    def start(self) -> None:
        """Serve in threads."""
        threading.Thread(target=self._server.serve_forever, kwargs={'poll_interval': 0.2}, daemon=True).start()

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    # --------------------------------------------------------------------------------------------------------- requests

    def fault(self, who: str, method: str) -> tuple[str, random.Random]:
        """What happens to the next request of a client."""
        with self._guard:
            number = self._counts[who]
            self._counts[who] += 1
            self.requests[method] += 1
        rng = random.Random(f'{self.seed}:{who}:{number}')
        if rng.random() >= self.share:
            return '', rng
        kind = rng.choice(READ_FAULTS if method == 'GET' else WRITE_FAULTS)
        if kind in ('409', '500', '503') and method != 'GET':
            kind = f'{kind} {rng.choice(("before", "after"))}'
        elif kind == 'cut':
            kind = rng.choice(('cut before', 'cut after') if method == 'GET' else ('cut before', 'cut after', 'cut and late'))
        elif kind == 'twice' and method != 'GET':
            kind = rng.choice(('twice', 'twice, once late'))
        with self._guard:
            self.faults[kind] += 1
        return kind, rng

    def answer(
        self, who: str, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes] | None:
        """What the client gets; None: its connection is cut."""
        how, rng = self.fault(who, method) if self.share else ('', random.Random(0))
        request = (who, method, path, headers, body)
        kind, _, when = how.partition(' ')
        match kind:
            case '':
                return self.deliver(*request, how)
            case 'delay':
                time.sleep(rng.random() * DELAY_SECONDS)
                return self.deliver(*request, how)
            case 'cut':
                if when == 'and late':
                    self._later(rng.random() * LATE_SECONDS, *request, how)
                elif when == 'after':
                    self.deliver(*request, how)
                return None
            case 'twice' | 'twice,':
                found = self.deliver(*request, how)
                if when == 'once late':
                    self._later(rng.random() * LATE_SECONDS, *request, how)
                    return found
                second = self.deliver(*request, how)
                return second if rng.random() < 0.5 else found
            case _:
                if when == 'after':
                    self.deliver(*request, how)
                code = 'placement.undefined_code'
                if kind == '409':
                    code = rng.choice((*CONFLICTS, IN_USE) if path.endswith(('/inventories', '/reshaper')) else CONFLICTS)
                error = {'errors': [{'status': int(kind), 'code': code, 'title': 'A fault', 'detail': how}]}
                return int(kind), {'Content-Type': 'application/json'}, json.dumps(error).encode()

    def _later(self, seconds: float, *request: Any) -> None:
        with self._guard:
            self.late += 1

        def arrive() -> None:
            try:
                time.sleep(seconds)
                self.deliver(*request)
            finally:
                with self._guard:
                    self.late -= 1

        threading.Thread(target=arrive, daemon=True).start()

    def deliver(
        self, who: str, method: str, path: str, headers: dict[str, str], body: bytes, how: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Hand it to placement; a change of what somebody holds one after the other, so that the order is known."""
        if method == 'GET':
            return self._forward(method, path, headers, body)
        consumer = path.removeprefix('/allocations/') if path.startswith('/allocations/') else None
        note = Delivery(who, method, path, json.loads(body) if body else None, time.monotonic(), how)
        if consumer is None:
            self.deliveries.append(note)
            return self._noted(note, headers, body)
        with self._guard:
            holding = self.ledger.setdefault(consumer, Holding())
        with holding.lock:
            holding.busy += 1
            note.sent = time.monotonic()
            note.had = None if holding.unknown else holding.claims
            self.deliveries.append(note)
            found = self._noted(note, headers, body)
            if note.status >= 500:
                holding.unknown = True
            elif note.status < 300:
                claims = note.body['allocations'] if note.body else {}
                holding.claims = {(p, c): n for p, own in claims.items() for c, n in own['resources'].items()}
                holding.unknown = False
            elif note.status == 404 and method == 'DELETE':
                holding.claims, holding.unknown = {}, False
            holding.version += 1
            holding.busy -= 1
        return found

    def _noted(self, note: Delivery, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        found = self._forward(note.method, note.path, headers, body)
        note.status = found[0]
        if found[0] >= 400:
            try:
                note.code = json.loads(found[2])['errors'][0].get('code')
            except (ValueError, KeyError, IndexError):
                note.code = found[2][:80].decode(errors='replace')
        note.answered = time.monotonic()
        return found

    def _forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """To one of the processes of placement; connections stay open."""
        known = getattr(self._local, 'connections', None)
        if known is None:
            known = self._local.connections = {}
        port = random.choice(self.upstreams)
        for fresh in (False, True):
            connection = known.get(port)
            if connection is None or fresh:
                connection = known[port] = http.client.HTTPConnection('127.0.0.1', port, timeout=120)
                fresh = True
            try:
                connection.request(method, path, body or None, headers)
                answer = connection.getresponse()
                found = answer.read()
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                # An old connection that placement has closed meanwhile: it was not read.
                connection.close()
                if fresh:
                    raise
                continue
            kept = {k: v for k, v in answer.getheaders() if k.lower() in ('content-type', 'openstack-api-version', 'location')}
            return answer.status, kept, found
        raise AssertionError('unreachable')

    def drain(self, seconds: float = 60.0) -> None:
        """Wait until nothing is on its way any more."""
        end = time.monotonic() + seconds
        while self.late and time.monotonic() < end:
            time.sleep(0.02)
        assert not self.late


class _Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        length = int(self.headers.get('Content-Length') or 0)
        body = self.rfile.read(length) if length else b''
        kept = ('accept', 'content-type', 'openstack-api-version', 'x-auth-token', 'x-roles')
        headers = {k: v for k, v in self.headers.items() if k.lower() in kept}
        try:
            found = proxy.answer(self.headers.get('X-Race', '?'), self.command, self.path, headers, body)
        except (OSError, http.client.HTTPException):  # placement is gone: so is the connection
            found = None
        if found is None:
            self.close_connection = True
            return
        status, more, content = found
        lines = [f'HTTP/1.1 {status} .', *(f'{k}: {v}' for k, v in more.items()), f'Content-Length: {len(content)}']
        if status == 204:
            lines.pop()
        try:
            self.connection.sendall('\r\n'.join([*lines, '', '']).encode() + content)
        except OSError:
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names that http.server looks for

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP client for one Redfish service: sends a request with its login, and turns the answer's status into a result or an error.

sushy's own connector opens a connection for each request, sends writes again after a timeout, and drops If-Match after a 412
(sushy 5.14.0, connector.py; doc/source/reference/redfish_notes.rst, "sushy's connector and task monitor"). This client keeps
connections and one TLS context, sends a write exactly once, retries reads within bounds, follows no link or redirect off the
BMC's origin, limits the size of answers, and raises only errors of :mod:`baremetal_acc.errors`. sushy's resources can use it as
their connector. All requests, image uploads included, use one :mod:`baremetal_acc.http.transport`.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import sushy.auth

from baremetal_acc.bmc import pending, stopping
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish import tls
from baremetal_acc.bmc.redfish.answer_errors import READ_METHODS, AnswerErrors, unknown_outcome
from baremetal_acc.bmc.redfish.credential_redactor import CredentialRedactor
from baremetal_acc.bmc.redfish.extended_info import said
from baremetal_acc.bmc.redfish.login import Login
from baremetal_acc.bmc.redfish.login_requests import basic_authorization
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer, RedfishResponse, parsed_json, sushy_response
from baremetal_acc.bmc.redfish.request_head import COMMON_HEADERS, header_block
from baremetal_acc.bmc.redfish.request_target import (
    MAX_URI,
    host_and_port,
    is_plain,
    normal_target,
    origin_of,
    requoted,
    resolve,
)
from baremetal_acc.bmc.retry import Later, ReadRetry
from baremetal_acc.errors import BmcAnswerInvalid, BmcNotAuthorised, BmcUnreachable, BmcUntrusted
from baremetal_acc.http.transport import Dial, Transport
from baremetal_acc.http.transport_errors import TooLong, TooSlow

LOG = logging.getLogger(__name__)

MAX_ANSWER = 8 * 1024 * 1024
"""Bytes of one decoded answer. The largest seen, an expanded collection of 106 items, has 0.1 MiB."""

CONNECT_TIMEOUT = 10.0
"""Seconds to connect. Answers are slow (23 s seen), connections are not."""

PIECE_TIMEOUT = 60.0
"""Seconds for the BMC to take one piece of an image."""

PUSH_TIMEOUT = 600.0
"""Seconds to wait for the answer to a pushed image: a BMC may check all of it before it answers."""

LATE = 30.0
"""Seconds for an answer after the caller's deadline has passed: real BMCs take up to 23 s.

Source: doc/source/reference/redfish_notes.rst, "Answer times and $expand".
"""

SILENT = 5.0
"""Seconds for an answer once the deadline has passed, if the last request for the same path timed out."""

REDIRECTS = 3

_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_NOT_MODIFIED = 304

_REDIRECTS = frozenset({301, 302, 307, 308})


class StreamedAnswer(Protocol):
    """A request body that is sent piece by piece, and can be rewound."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...

    def rewind(self) -> None: ...


class Connector:
    """HTTP client for one BMC.

    :ivar label: the BMC's name in messages.
    :ivar requests: number of requests sent.
    :ivar pushed_back: called for every read that the BMC could not take.
    :ivar stopped: reads fail at once and no write is sent; logging out is still possible.
    :ivar silent: paths whose last request timed out.
    """

    def __init__(self, address: BmcAddress, patience: ReadRetry | None = None, dial: Dial | None = None) -> None:
        """Create the client; nothing is sent.

        :param dial: opens connections; over the network when None.
        :raises UsageError: the address is not ``https://HOST[:PORT]``.
        :raises BmcUntrusted: verify_ca names a file without certificates.
        """
        self.label = address.label
        self.requests = 0
        self.pushed_back: Callable[[], None] = lambda: None
        self.stopped = False
        self.silent: set[str] = set()
        self._address = address
        self._until = float('inf') if address.until is None else address.until
        self._patience = patience or ReadRetry()
        parts = origin_of(address)
        self._origin = parts
        self.host = host_and_port(address)[0]
        self._auth: sushy.auth.AuthBase | None = None
        self._headers: dict[str, str] = COMMON_HEADERS
        context = tls.context(address) if parts[0] == 'https' else None
        self._transport = Transport(*host_and_port(address), context, lambda: MAX_ANSWER, dial)
        self._block: str | None = None
        self._block_lock = threading.Lock()
        self._logins = 0
        self._redactor = CredentialRedactor(address)
        self._errors = AnswerErrors(address, self._redactor)
        self._timeout = max(1.0, address.timeout.total_seconds())
        self._closing_until = float('inf')
        stopping.watch(self)

    # ---- API of this package ----

    def read(
        self, uri: str, *, left: Callable[[], float] = lambda: float('inf'), headers: Mapping[str, str] | None = None
    ) -> RedfishAnswer:
        """GET a resource. Retried within bounds where that may help; after one new login if the session has ended.

        :param left: seconds that the caller still has.
        :param headers: with If-None-Match, the answer may have status 304.
        :raises BmcError: with the reason.
        """

        def once() -> RedfishAnswer:
            try:
                return self._read_once(uri, left, headers or {})
            except Later:
                self.pushed_back()
                raise

        return self._patience.read(once, left=lambda: 0.0 if self.stopped else min(left(), self._until - time.monotonic()))

    def send(
        self,
        method: str,
        uri: str,
        *,
        body: object = None,
        stream: StreamedAnswer | None = None,
        headers: Mapping[str, str] | None = None,
        anonymous: bool = False,
        closing: bool = False,
    ) -> RedfishAnswer:
        """Send a write exactly once; a second time, over a new session, only if it was refused because the session had ended.

        A redirect to another spelling of the same resource means that nothing was done: the write is sent there, with its
        method and body.

        :param body: a JSON value. ``stream``: bytes instead, with their Content-Type in headers.
        :param anonymous: without this connector's session: a login, or a request with a token of its own in ``headers``.
        :param closing: restores what this run has changed temporarily, and is sent even after :meth:`stop`.
        :raises BmcUnreachable: the connection broke, or a web server in front of the service answered in its place: whether the
            request arrived is unknown.
        :raises BmcError: the BMC did not accept it.
        """
        data: bytes | StreamedAnswer | None = stream
        wanted = dict(headers or {})
        if stream is None and body is not None:
            data = json.dumps(body).encode()
            wanted['Content-Type'] = 'application/json'
        timeout = PUSH_TIMEOUT if stream is not None else self._timeout
        path = self.path(uri)
        if self.stopped and not closing and (method == 'POST' or not anonymous):
            raise BmcUnreachable(bmc=self.label, uri=path, what='not sent: the run was stopped', sent=False)

        def once(place: str) -> RedfishAnswer:
            try:
                return self._exchange(method, place, data, wanted, timeout, anonymous=anonymous)
            except Later as later:
                raise later.error from later.__cause__

        def again(place: str) -> RedfishAnswer:
            if stream is not None:
                stream.rewind()
            return once(place)

        answer = once(path)
        if answer.status in _REDIRECTS:
            path = self._same_resource(path, answer)
            answer = again(path)
        if not anonymous and self._renewed_after(answer):
            answer = self._judged_again(again(path))
        self._errors.raise_for(method, answer, login=anonymous and method == 'POST')
        return answer

    def _same_resource(self, path: str, answer: RedfishAnswer) -> str:
        """The path to which a write is redirected, if it is the same resource on this BMC but for slashes or letter case.

        Source: RFC 9110, sections 15.4.2 to 15.4.9. Real BMCs redirect to the URI with a slash at its end, or without.

        :raises BmcRefused: the redirect leads to another resource or host, and nothing was done. ``BmcAnswerInvalid``:
            likewise, with a status that some services send after they have carried out the request.
        """
        location = answer.headers.get('Location', '')
        try:
            self._refuse_secrets(location, path)
            place = self.path(location, base=path)
        except BmcAnswerInvalid as exc:
            raise self._errors.redirected(path, answer.status, exc.what) from exc
        if normal_target(place) != normal_target(path) or place == path:
            what = f'a write was answered with a redirect to another resource (HTTP {answer.status})'
            raise self._errors.redirected(path, answer.status, what)
        return place

    def _renewed_after(self, answer: RedfishAnswer) -> bool:
        """Whether a request was refused, and not carried out, because its session had ended, and the session was renewed.

        :raises BmcError: the session could not be renewed.
        """
        auth = self._auth
        if answer.status not in _REFUSED or not isinstance(auth, Login):
            return False
        if not auth.may_have_ended(answer.generation, answer.status, said(parsed_json(answer.content)).ids):
            return False
        auth.again(answer.generation)
        return True

    def _judged_again(self, answer: RedfishAnswer) -> RedfishAnswer:
        """Note a 403 over a renewed session: it is a matter of the user's role.

        :returns: the answer.
        """
        if answer.status == HTTPStatus.FORBIDDEN and isinstance(self._auth, Login):
            self._auth.forbids()
        return answer

    def within(self, seconds: float, path: str | None = None, *, late: float | None = None) -> float:
        """These seconds, limited to what is left until the caller's deadline.

        :param path: path of the request.
        :param late: seconds if the deadline has passed, as locks are engaged even then; None: the time for one answer.
        """
        left = self._until - time.monotonic()
        if left <= 0:
            return min(seconds, SILENT if path in self.silent else LATE if late is None else late)
        return min(seconds, max(1.0, left))

    def path(self, uri: str, base: str = '/') -> str:
        """Resolve a URI to a path on this BMC.

        :param base: path that a relative URI is resolved against.
        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        if len(uri) <= MAX_URI and is_plain(uri):
            return uri
        return resolve(uri, base, self._origin, self.label)

    def _refuse_secrets(self, location: str, path: str) -> None:
        """Raise if a redirect contains our credentials, which would then get into logs and messages."""
        if self._redactor.redact(location) != location:
            raise BmcAnswerInvalid(bmc=self.label, uri=path, what='redirected to a URI that contains our credentials')

    def not_authorised(self, uri: str | None, what: str) -> BmcNotAuthorised:
        """The error for refused credentials."""
        return self._errors.not_authorised(uri, what)

    def redact(self, text: str) -> str:
        """A BMC's text without our password and tokens: some BMCs repeat in an error what they were sent."""
        return self._redactor.redact(text)

    # ---- connector API of sushy ----

    def get(self, path: str = '', data: Any = None, headers: Any = None, **kwargs: Any) -> RedfishResponse:
        """GET for sushy. sushy's options for retries and for waiting on tasks are ignored, here and in the methods below."""
        return sushy_response(self.read(path))

    def post(self, path: str = '', data: Any = None, headers: Any = None, **kwargs: Any) -> RedfishResponse:
        """As :meth:`get`."""
        return sushy_response(self.send('POST', path, body=data, headers=headers))

    def patch(self, path: str = '', data: Any = None, headers: Any = None, etag: Any = None, **kwargs: Any) -> RedfishResponse:
        """PATCH for sushy. If-Match is kept after a 412, where sushy's own connector weakens and then drops it."""
        return sushy_response(self.send('PATCH', path, body=data, headers=_with_match(headers, etag)))

    def put(self, path: str = '', data: Any = None, headers: Any = None, etag: Any = None, **kwargs: Any) -> RedfishResponse:
        """As :meth:`patch`."""
        return sushy_response(self.send('PUT', path, body=data, headers=_with_match(headers, etag)))

    def delete(self, path: str = '', data: Any = None, headers: Any = None, **kwargs: Any) -> RedfishResponse:
        """As :meth:`get`."""
        return sushy_response(self.send('DELETE', path, body=data, headers=headers))

    def stop(self) -> None:
        """Make all reads fail from now on, also those under way, and send no more writes; sessions can be closed for seconds.

        May be called from any thread.
        """
        self._closing_until = time.monotonic() + stopping.CLOSING
        self.stopped = True
        self._transport.break_reads()

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    # ---- one request ----

    def _read_once(self, uri: str, left: Callable[[], float], headers: Mapping[str, str]) -> RedfishAnswer:
        path = self.path(uri)
        renewed = False
        for _ in range(REDIRECTS + 2):
            if self.stopped:
                raise BmcUnreachable(bmc=self.label, uri=path, what='not requested: the run was stopped')
            if left() <= 0:
                raise BmcUnreachable(bmc=self.label, uri=path, what='not requested: the time for the inspection is used up')
            answer = self._exchange('GET', path, None, headers, min(self._timeout, max(1.0, left())))
            if renewed:
                self._judged_again(answer)
            elif self._renewed_after(answer):
                renewed = True
                continue
            if answer.status in _REDIRECTS:
                self._refuse_secrets(answer.headers.get('Location', ''), path)
                path = self.path(answer.headers.get('Location', ''), base=path)
                continue
            if answer.status != _NOT_MODIFIED or 'If-None-Match' not in headers:
                self._errors.raise_for('GET', answer)
            return answer
        raise BmcAnswerInvalid(bmc=self.label, uri=uri, what='redirect loop')

    def _exchange(
        self,
        method: str,
        path: str,
        data: bytes | StreamedAnswer | None,
        headers: Mapping[str, str],
        timeout: float,
        *,
        anonymous: bool = False,
    ) -> RedfishAnswer:
        """Send one request and read its answer, whatever its status.

        :raises Later: there was no answer; a read may be retried.
        :raises BmcError: a session that was given up could not be opened again.
        """
        auth = self._auth
        if anonymous or not isinstance(auth, Login):
            return self._exchange_once(method, path, data, headers, timeout, anonymous=anonymous)
        generation = auth.use()
        accepted = False
        try:
            answer = self._exchange_once(method, path, data, headers, timeout)
            answer.generation = generation
            accepted = answer.status < 400
            return answer
        finally:
            auth.used(generation, accepted=accepted)

    def _exchange_once(
        self,
        method: str,
        path: str,
        data: bytes | StreamedAnswer | None,
        headers: Mapping[str, str],
        timeout: float,
        *,
        anonymous: bool = False,
    ) -> RedfishAnswer:
        self.requests += 1
        started = time.monotonic()
        timeout = self.within(min(timeout, max(0.1, self._closing_until - started)), path)
        status: object = 'no answer'
        try:
            with pending.waiting(self.label, f'{method} {self._redactor.redact(path)}', timeout):
                answer = self._answered(method, path, data, headers, timeout, anonymous=anonymous)
        except TooSlow as exc:
            raise BmcUnreachable(bmc=self.label, uri=path, what=unknown_outcome(method, str(exc))) from exc
        except TooLong as exc:
            raise BmcAnswerInvalid(bmc=self.label, uri=path, what=str(exc)) from exc
        except OSError as exc:
            error = self._errors.broken(exc, path, method)
            if isinstance(error, BmcUntrusted):
                raise error from exc
            raise Later(error) from exc
        else:
            status = answer.status
            self.silent.discard(path)
            return answer
        finally:
            if status == 'no answer' and time.monotonic() - started > SILENT:
                self.silent.add(path)
            if LOG.isEnabledFor(logging.DEBUG):
                # Neither bodies nor headers are logged: they contain passwords and tokens.
                taken = time.monotonic() - started
                LOG.debug('%s: %s %s: %s, %.3f s', self.label, method, self._redactor.redact(path), status, taken)

    def _answered(
        self,
        method: str,
        path: str,
        data: bytes | StreamedAnswer | None,
        headers: Mapping[str, str],
        timeout: float,
        *,
        anonymous: bool,
    ) -> RedfishAnswer:
        """Build the request, send it and return its answer."""
        block = self._block if not headers and not anonymous else None
        if block is None:
            logins = self._logins
            block = header_block(self._standing(headers, anonymous=anonymous))
            with self._block_lock:
                if not headers and not anonymous and logins == self._logins:
                    self._block = block
        target = path if is_plain(path) else requoted(path)
        length = f'Content-Length: {len(data)}\r\n' if data is not None else ''
        head = f'{method} {target} HTTP/1.1\r\nHost: {self._origin[1]}\r\n{block}{length}\r\n'.encode('latin-1')
        if data is None or isinstance(data, bytes):
            connect = min(CONNECT_TIMEOUT, timeout)
            reply = self._transport.exchange(head, data, connect=connect, timeout=timeout, again=method in READ_METHODS)
        else:
            # A BMC may pause while it writes the bytes received so far.
            piece = min(PIECE_TIMEOUT, timeout)
            until = max(self._until, time.monotonic() + LATE)
            reply = self._transport.push(head, data, connect=piece, piece=piece, timeout=timeout, until=until)
        return RedfishAnswer(status=reply.status, headers=reply.headers, content=reply.content, url=path, seconds=reply.seconds)

    def _standing(self, headers: Mapping[str, str], *, anonymous: bool) -> dict[str, str]:
        """All headers of a request: the session's, then its own."""
        # A login must not carry an old token.
        return (COMMON_HEADERS if anonymous else self._headers) | dict(headers)

    def set_auth(self, auth: sushy.auth.AuthBase) -> None:
        """Set the object that renews an ended session. Called by the login."""
        self._auth = auth

    def set_http_basic_auth(self, username: str | None, password: str | None) -> None:
        """Use Basic authentication from now on. Called by the login."""
        # Other threads read the headers meanwhile: the dict is replaced, not changed.
        self._headers = COMMON_HEADERS | {'Authorization': basic_authorization(username or '', password or '')}
        self._logged_in()

    def set_http_session_auth(self, session_auth_token: str) -> None:
        """Use this session from now on. Called by the login."""
        self._redactor.add(session_auth_token)
        self._headers = COMMON_HEADERS | {'X-Auth-Token': session_auth_token}
        self._logged_in()

    def _logged_in(self) -> None:
        """Discard the cached header block, which has the credentials of an earlier login."""
        with self._block_lock:
            self._logins += 1
            self._block = None


def _with_match(headers: Mapping[str, str] | None, etag: object) -> dict[str, str]:
    return {**(headers or {}), **({'If-Match': etag} if isinstance(etag, str) else {})}

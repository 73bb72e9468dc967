# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP client for one Redfish service: sends a request with its login, and turns the answer's status into a result or an error.

sushy's own connector opens a connection for each request, sends writes again after a timeout, and drops If-Match after a 412
(sushy 5.14.0, connector.py; doc/source/reference/redfish_notes.rst, "sushy's connector and task monitor"). This client keeps
connections and one TLS context, sends a write exactly once, retries reads within bounds, follows no link or redirect off the
BMC's origin, limits the size of answers, and raises only errors of :mod:`baremetal_acc.errors`. sushy's resources can use it as
their connector. All requests, image uploads included, use one :mod:`baremetal_acc.http.transport`.
"""

import base64
import functools
import json
import logging
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote, urljoin, urlsplit

import sushy.auth

from baremetal_acc.bmc import pending, stopping
from baremetal_acc.bmc.driver import BmcAddress, Setting
from baremetal_acc.bmc.redfish import connection_errors, tls
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.bmc.redfish.extended_info import NO_SESSION_FREE, NO_SESSION_WORDS, said, said_to_login
from baremetal_acc.bmc.redfish.login import MAX_LOGINS, Login, basic_authorization
from baremetal_acc.bmc.retry import Later, ReadRetry, retry_after
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcConflict,
    BmcError,
    BmcNoSessionFree,
    BmcNotAuthorised,
    BmcUnreachable,
    BmcUntrusted,
    UsageError,
)
from baremetal_acc.http.transport import Dial, TooLong, TooSlow, Transport, TransportError

LOG = logging.getLogger(__name__)

MAX_ANSWER = 8 * 1024 * 1024
"""Bytes of one decoded answer. The largest seen, an expanded collection of 106 items, has 0.1 MiB."""

MAX_URI = 2048
"""Characters. Real URIs are shorter than 200; a longer one is an attack on the code that prints or stores it."""

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


_DAY = 86_400.0

_HEADERS = {
    'Accept': 'application/json',
    'Accept-Encoding': 'identity',
    'OData-Version': '4.0',
    'User-Agent': 'baremetal-acc',
}

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\r\n\x00\u0100-\U0010ffff]*\r\n")
"""One header line with its line end. Source: RFC 9110, section 5."""

_SEGMENTS = r"(?:/[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,;=:@-]*)+"

PLACE = re.compile(_SEGMENTS)
"""A path in normal form: without empty or dot segments, percent-encoding, query or trailing slash. Most paths are."""

_PLAIN = re.compile(_SEGMENTS + r"/?(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?")
"""The same, with an optional query or trailing slash."""

_RESERVED = "!#$&'()*+,/:;=?@[]~"
"""Characters that are not quoted. Source: RFC 3986, section 2.2; the tilde is unreserved."""

_STRAY = re.compile('%(?![0-9A-Fa-f]{2})')
"""A per cent sign that does not begin a percent-encoded byte."""

_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_NOT_MODIFIED = 304

_INSUFFICIENT_STORAGE = 507
"""An answer to a login that stands for "no free session", as a login stores only a session. Source: RFC 4918, section 11.5."""

_REDIRECTS = frozenset({301, 302, 307, 308})

_NOT_DONE = frozenset({301, 307, 308})
"""Redirects of a request that was not done; 302 also follows a form that was accepted. Source: RFC 9110, section 15.4."""

_FOR_ANOTHER_NAME = (62, 64)
"""Verification errors for a certificate of another host name.

X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH. Source: OpenSSL 3, x509_vfy.h.
"""

_READS = frozenset({'GET', 'HEAD'})
_MAY_PASS = frozenset({429, 500, 502, 503, 504})
_PRECONDITIONS = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED})
_PRECONDITION_IDS = frozenset({'HeaderInvalid', 'PreconditionFailed', 'PreconditionRequired'})
"""MessageIds of a refused If-Match: of our headers only a condition has a value of the BMC's own that it may fail to parse.

Source: RFC 9110, section 15.5.13; RFC 6585, section 3; DSP8011, Base registry.
"""

_BUSY_IDS = frozenset({'ServiceTemporarilyUnavailable', 'UpdateInProgress', 'SessionLimitExceeded', 'ResourceInUse'})

_NOT_TAKEN = re.compile(r'Busy|InProgress|Unavailable|InUse|NotReady|LimitExceeded|ShuttingDown|ServiceDisabled')
"""MessageIds by which a service says with HTTP 503 that it has not accepted a request; vendors have MessageIds of their own.

Source: DSP8011, registries Base (ServiceTemporarilyUnavailable, ServiceShuttingDown, ResourceInUse, SessionLimitExceeded) and
Update (UpdateInProgress).
"""

_BY_GATEWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
"""Statuses that a BMC's web server sends if the service behind it does not answer. Source: RFC 9110, section 15.6."""


class StreamedAnswer(Protocol):
    """A request body that is sent piece by piece, and can be rewound."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...

    def rewind(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class RedfishAnswer:
    """An HTTP answer.

    :ivar url: path on the BMC that the answer came from, after redirects.
    :ivar seconds: time that the BMC took, without the time to connect.
    :ivar generation: number of the login (:attr:`.Login.generation`) that the request was sent with.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str
    seconds: float = 0.0
    generation: int = 0


@dataclass(slots=True, kw_only=True)
class RedfishResponse:
    """An answer with the attributes that sushy's resources read."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    url: str

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.content)


class CredentialRedactor:
    """Removes our credentials for one BMC from texts: some BMCs repeat in an error what they were sent."""

    def __init__(self, address: BmcAddress) -> None:
        self._secrets = _secrets(address)
        self._tokens: tuple[str, ...] = ()

    def add(self, token: str) -> None:
        """Remove this token, too, and those of the last logins."""
        self._tokens = (*self._tokens[1 - MAX_LOGINS :], token)

    def redact(self, text: str) -> str:
        """A BMC's text without our password and tokens."""
        for secret in (*self._secrets, *self._tokens):
            text = text.replace(secret, '***')
        return text


class AnswerErrors:
    """Makes the errors of answers that are no success, and of requests without an answer."""

    def __init__(self, address: BmcAddress, redactor: CredentialRedactor) -> None:
        self._address = address
        self._label = address.label
        self._redact = redactor.redact

    def raise_for(self, method: str, answer: RedfishAnswer, *, login: bool = False) -> None:
        """Raise the error of an answer; do nothing if it has a status of success.

        :param login: it is the answer to a login.
        :raises Later: a read may be retried. ``BmcError``: all others.
        """
        status = answer.status
        if status < 300:
            return
        if status < 400:
            what = f'{method} was answered with a redirect (HTTP {status})'
            if method in _READS:
                raise BmcAnswerInvalid(bmc=self._label, uri=answer.url, what=what)
            raise self.redirected(answer.url, status, what)
        if login:
            raise self._refused_login(answer)
        words = said(_json(answer.content), self._redact)
        text = f': {words.text}' if words.text else ''
        error: BmcError
        if method not in _READS and status in _BY_GATEWAY and not any(map(_NOT_TAKEN.search, words.ids)):
            # The gateway may have passed the request on to the service, and lost only the answer.
            what = f'{_status(status)}{text}, and no word of the service itself; whether the request arrived is unknown'
            raise BmcUnreachable(bmc=self._label, uri=answer.url, what=what)
        if status == HTTPStatus.UNAUTHORIZED:
            error = self.not_authorised(answer.url, f'not logged in (HTTP 401){text}')
        elif status == HTTPStatus.FORBIDDEN:
            error = self.not_authorised(answer.url, f'not allowed (HTTP 403){text}')
        elif status in _PRECONDITIONS or words.ids & _PRECONDITION_IDS:
            error = BmcConflict(
                bmc=self._label, uri=answer.url, what=f'the condition of the write was refused (HTTP {status}){text}'
            )
        elif status in (429, 503) or (status in (400, 409, 423, 500) and words.ids & _BUSY_IDS):
            error = BmcBusy(bmc=self._label, uri=answer.url, what=f'busy, {_soon(answer)} (HTTP {status}){text}')
        else:
            error = HttpRefused(
                bmc=self._label,
                uri=answer.url,
                status=status,
                about=words.ids | words.about,
                what=f'{method} refused with {_status(status)}{text}',
            )
        if method in _READS and status in _MAY_PASS:
            raise Later(error, retry_after(answer.headers.get('Retry-After')))
        raise error

    def _refused_login(self, answer: RedfishAnswer) -> BmcError:
        """The error for a login that was answered with a status of 400 or more, with the BMC's own reason."""
        status = answer.status
        words = said_to_login(_json(answer.content), self._address.username, self._address.password)
        text = f': {words.text}' if words.text else ''
        in_words = status != HTTPStatus.UNAUTHORIZED and NO_SESSION_WORDS.match(words.text)
        if words.ids & NO_SESSION_FREE or status == _INSUFFICIENT_STORAGE or in_words:
            return BmcNoSessionFree(
                bmc=self._label,
                uri=answer.url,
                what=f'no session is free (HTTP {status}){text}',
                hint='end sessions on the BMC that nobody needs'
                + ('' if self._address.basic_auth else ', or set option [baremetal_acc] bmc_basic_auth'),
            )
        if status in (429, 503):
            return BmcBusy(bmc=self._label, uri=answer.url, what=f'busy, {_soon(answer)} (HTTP {status}){text}')
        if status == HTTPStatus.UNAUTHORIZED:
            return self.not_authorised(answer.url, 'login refused')
        if status == HTTPStatus.FORBIDDEN:
            return self.not_authorised(answer.url, f'login refused{text}')
        what = f'login refused ({_status(status)}){text}'
        return HttpRefused(bmc=self._label, uri=answer.url, status=status, what=what)

    def broken(self, exc: OSError, path: str, method: str) -> BmcError:
        """The error for a connection that brought no answer."""
        if isinstance(exc, ssl.SSLCertVerificationError):
            hint = f'set {self._address.set_by[Setting.VERIFY_CA]} to the file of the CA that signed it'
            if exc.verify_code in _FOR_ANOTHER_NAME:
                hint = 'use a name in its address that its certificate has as a subjectAltName, or give it one for this name'
            return BmcUntrusted(bmc=self._label, what=f'its certificate is not trusted: {exc.verify_message}', hint=hint)
        what = _unknown(method, connection_errors.reason(exc))
        return BmcUnreachable(bmc=self._label, uri=path, what=what, hint='check address, network and power of the BMC')

    def redirected(self, path: str, status: int, what: str) -> BmcError:
        """The error for a write whose redirect is not followed."""
        if status in _NOT_DONE:
            return HttpRefused(bmc=self._label, uri=path, what=what, status=status)
        return BmcAnswerInvalid(bmc=self._label, uri=path, what=what)

    def not_authorised(self, uri: str | None, what: str) -> BmcNotAuthorised:
        """The error for refused credentials."""
        return BmcNotAuthorised(
            bmc=self._label, uri=uri, what=what, hint='check username and password, and the role of that user on the BMC'
        )


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
        parts = _origin(address)
        self._origin = parts
        self.host = _host(address)[0]
        self._auth: sushy.auth.AuthBase | None = None
        self._headers: dict[str, str] = _HEADERS
        context = tls.context(address) if parts[0] == 'https' else None
        self._transport = Transport(*_host(address), context, lambda: MAX_ANSWER, dial)
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
        if _resource(place) != _resource(path) or place == path:
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
        if not auth.may_have_ended(answer.generation, answer.status, said(_json(answer.content)).ids):
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
        if len(uri) <= MAX_URI and _is_plain(uri):
            return uri
        return resolve(uri, base, self._origin, self.label)

    def _refuse_secrets(self, location: str, path: str) -> None:
        """Raise if a redirect contains our credentials, which would then get into logs and messages."""
        if self._redactor.redact(location) != location:
            raise BmcAnswerInvalid(bmc=self.label, uri=path, what='redirected to a place that repeats our credentials')

    def not_authorised(self, uri: str | None, what: str) -> BmcNotAuthorised:
        """The error for refused credentials."""
        return self._errors.not_authorised(uri, what)

    def redact(self, text: str) -> str:
        """A BMC's text without our password and tokens: some BMCs repeat in an error what they were sent."""
        return self._redactor.redact(text)

    # ---- connector API of sushy ----

    def get(self, path: str = '', data: Any = None, headers: Any = None, **kwargs: Any) -> RedfishResponse:
        """GET for sushy. sushy's options for retries and for waiting on tasks are ignored, here and in the methods below."""
        return _response(self.read(path))

    def post(self, path: str = '', data: Any = None, headers: Any = None, **kwargs: Any) -> RedfishResponse:
        """As :meth:`get`."""
        return _response(self.send('POST', path, body=data, headers=headers))

    def patch(self, path: str = '', data: Any = None, headers: Any = None, etag: Any = None, **kwargs: Any) -> RedfishResponse:
        """PATCH for sushy. If-Match is kept after a 412, where sushy's own connector weakens and then drops it."""
        return _response(self.send('PATCH', path, body=data, headers=_with_match(headers, etag)))

    def put(self, path: str = '', data: Any = None, headers: Any = None, etag: Any = None, **kwargs: Any) -> RedfishResponse:
        """As :meth:`patch`."""
        return _response(self.send('PUT', path, body=data, headers=_with_match(headers, etag)))

    def delete(self, path: str = '', data: Any = None, headers: Any = None, **kwargs: Any) -> RedfishResponse:
        """As :meth:`get`."""
        return _response(self.send('DELETE', path, body=data, headers=headers))

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
                raise BmcUnreachable(bmc=self.label, uri=path, what='not asked any more: the run was stopped')
            if left() <= 0:
                raise BmcUnreachable(bmc=self.label, uri=path, what='not asked any more: the time for one look is used up')
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
        raise BmcAnswerInvalid(bmc=self.label, uri=uri, what='redirected in a circle')

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
            raise BmcUnreachable(bmc=self.label, uri=path, what=_unknown(method, str(exc))) from exc
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
            block = _block(self._standing(headers, anonymous=anonymous))
            with self._block_lock:
                if not headers and not anonymous and logins == self._logins:
                    self._block = block
        target = path if _is_plain(path) else _requoted(path)
        length = f'Content-Length: {len(data)}\r\n' if data is not None else ''
        head = f'{method} {target} HTTP/1.1\r\nHost: {self._origin[1]}\r\n{block}{length}\r\n'.encode('latin-1')
        if data is None or isinstance(data, bytes):
            connect = min(CONNECT_TIMEOUT, timeout)
            reply = self._transport.exchange(head, data, connect=connect, timeout=timeout, again=method in _READS)
        else:
            # A BMC may pause while it writes the bytes received so far.
            piece = min(PIECE_TIMEOUT, timeout)
            until = max(self._until, time.monotonic() + LATE)
            reply = self._transport.push(head, data, connect=piece, piece=piece, timeout=timeout, until=until)
        return RedfishAnswer(status=reply.status, headers=reply.headers, content=reply.content, url=path, seconds=reply.seconds)

    def _standing(self, headers: Mapping[str, str], *, anonymous: bool) -> dict[str, str]:
        """All headers of a request: the session's, then its own."""
        # A login must not carry an old token.
        return (_HEADERS if anonymous else self._headers) | dict(headers)

    def set_auth(self, auth: sushy.auth.AuthBase) -> None:
        """Set the object that renews an ended session. Called by the login."""
        self._auth = auth

    def set_http_basic_auth(self, username: str | None, password: str | None) -> None:
        """Use Basic authentication from now on. Called by the login."""
        # Other threads read the headers meanwhile: the dict is replaced, not changed.
        self._headers = _HEADERS | {'Authorization': basic_authorization(username or '', password or '')}
        self._logged_in()

    def set_http_session_auth(self, session_auth_token: str) -> None:
        """Use this session from now on. Called by the login."""
        self._redactor.add(session_auth_token)
        self._headers = _HEADERS | {'X-Auth-Token': session_auth_token}
        self._logged_in()

    def _logged_in(self) -> None:
        """Discard the cached header block, which has the credentials of an earlier login."""
        with self._block_lock:
            self._logins += 1
            self._block = None


@functools.lru_cache(maxsize=8192)
def _is_plain(uri: str) -> bool:
    """Whether a URI can be used as a path as it is. Cached, as machines of one product have the same URIs."""
    return _PLAIN.fullmatch(uri) is not None


def _secrets(address: BmcAddress) -> tuple[str, ...]:
    """Our credentials in the forms that must not be repeated: the password, and the value of Basic authentication."""
    if not address.password:
        return ()
    basic = base64.b64encode(f'{address.username or ""}:{address.password}'.encode()).decode()
    return (basic, address.password)


def _unknown(method: str, what: str) -> str:
    """Why there is no answer; for a write, with the note that it may have arrived."""
    return what if method in _READS else f'{what}; whether the request arrived is unknown'


def _requoted(path: str) -> str:
    """A path as it is sent: characters that may not occur are percent-encoded, what is encoded already stays so.

    Source: RFC 3986, section 2.
    """
    return quote(path, safe=_RESERVED if _STRAY.search(path) is not None else f'%{_RESERVED}')


def _block(headers: Mapping[str, str]) -> str:
    """Headers as they are sent.

    :raises TransportError: a value may not occur in a header. Tokens and ETags come from the BMC.
    """
    lines = [f'{name}: {value}\r\n' for name, value in headers.items()]
    if not all(map(_HEADER.fullmatch, lines)):
        raise TransportError('a value that cannot stand in a header was to be sent')
    return ''.join(lines)


def _response(answer: RedfishAnswer) -> RedfishResponse:
    return RedfishResponse(status_code=answer.status, headers=answer.headers, content=answer.content, url=answer.url)


def _with_match(headers: Mapping[str, str] | None, etag: object) -> dict[str, str]:
    return {**(headers or {}), **({'If-Match': etag} if isinstance(etag, str) else {})}


def _origin(address: BmcAddress) -> tuple[str, str]:
    """Scheme and authority of an address.

    :raises UsageError: it is no address of a Redfish service.
    """
    try:
        parts = urlsplit(address.address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit('')
    if (
        parts.scheme not in ('https', 'http')
        or not host
        or parts.username
        or parts.path.strip('/')
        or parts.query
        or parts.fragment
    ):
        raise UsageError(
            argument=f'address of BMC {address.name}',
            what='is no address of a Redfish service',
            hint='write it as https://HOST[:PORT]',
        )
    return parts.scheme, _authority(parts.scheme, host, port)


def _authority(scheme: str, host: str | None, port: int | None) -> str:
    name = (host or '').lower()
    name = f'[{name}]' if ':' in name else name
    return name if port in (None, {'https': 443, 'http': 80}.get(scheme)) else f'{name}:{port}'


def _host(address: BmcAddress) -> tuple[str, int]:
    """Host and port to connect to."""
    parts = urlsplit(address.address)
    return parts.hostname or '', parts.port or {'https': 443, 'http': 80}[parts.scheme]


def resolve(uri: str, base: str, origin: tuple[str, str], label: str) -> str:
    """Resolve a URI to a path on a BMC.

    :param base: path that a relative URI is resolved against.
    :param origin: scheme and authority of the BMC. ``label``: its name in messages.
    :raises BmcAnswerInvalid: it leads off the BMC.
    """
    try:
        whole = urljoin(f'{origin[0]}://{origin[1]}{base}', uri.strip()[: MAX_URI + 1])
        parts = urlsplit(whole)
        same = (parts.scheme, _authority(parts.scheme, parts.hostname, parts.port)) == origin
        clean = len(whole) <= MAX_URI and whole.isprintable() and ' ' not in whole
        whole.encode()  # a lone surrogate can neither be sent nor stored
    except ValueError:
        same = False
    if not same or not clean or parts.username is not None:
        raise BmcAnswerInvalid(bmc=label, what=f'a link leads off the BMC and is not followed: {uri[:200]!r}')
    return parts.path + (f'?{parts.query}' if parts.query else '')


def _resource(place: str) -> tuple[str, str]:
    """A path and its query in normal form, for comparison: without superfluous slashes, and case-folded."""
    path, _, query = place.partition('?')
    return re.sub('/+', '/', path).rstrip('/').casefold(), query


def _soon(answer: RedfishAnswer) -> str:
    after = retry_after(answer.headers.get('Retry-After'))
    return f'come back in {after:.0f} s' if after is not None and after <= _DAY else 'come back later'


def _status(status: int) -> str:
    try:
        return f'HTTP {status} {HTTPStatus(status).phrase}'
    except ValueError:
        return f'HTTP {status}'


def _json(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None

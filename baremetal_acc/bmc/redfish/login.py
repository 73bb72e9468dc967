# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does one log in to a BMC, once for all threads, and out again?"""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol

import sushy.auth

from baremetal_acc.bmc.api import BmcAddress
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcNotAuthorised, BmcRefused, BmcUnreachable

LOG = logging.getLogger(__name__)

MAX_LOGINS = 32
"""Over one connection. Sessions that end sooner than a look lasts are an endless loop."""

_NO_SESSIONS = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
"""What a BMC without sessions, or with sessions elsewhere, answers to a login."""

SESSIONS = '/redfish/v1/SessionService/Sessions'
"""Source: DSP2043 2025.4, SessionCollection, URIs."""


class Answered(Protocol):
    """An answer to a login."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> bytes: ...


class Sender(Protocol):
    """What a login needs of a connector."""

    label: str

    def send(self, method: str, uri: str, *, body: object = None, anonymous: bool = False) -> Answered: ...

    def path(self, uri: str) -> str: ...

    def not_authorised(self, uri: str | None, what: str) -> BmcNotAuthorised: ...

    def set_auth(self, auth: sushy.auth.AuthBase) -> None: ...

    def set_http_basic_auth(self, username: str | None, password: str | None) -> None: ...

    def set_http_session_auth(self, session_auth_token: str) -> None: ...


class Login(sushy.auth.AuthBase):
    """A Redfish session, or Basic authentication where the BMC has none. Logs in once, whoever asks.

    Source: DSP0266, section "Session login".
    """

    def __init__(self, address: BmcAddress) -> None:
        super().__init__(address.username, address.password)
        self.session_uri: str | None = None
        self.generation = 0
        self._sessions: str | None = None
        self._failed: BmcError | None = None
        self._lock = threading.Lock()

    def ahead(self, connector: Sender) -> Callable[[], None]:
        """Log in where sessions lie on nearly all BMCs, while the caller reads what this one says.

        :returns: to be called before anything else; waits until it has come to an end, and raises nothing.
        """
        self._connector = connector
        self._sessions = SESSIONS
        if self._username is None:
            return lambda: None

        def attempt() -> None:
            try:
                self._do_authenticate(basic=False)
            except BmcError as exc:
                self._failed = exc

        thread = threading.Thread(target=attempt, name='login', daemon=True)
        thread.start()
        return thread.join

    def begin(self, connector: Sender, sessions: str | None) -> None:
        """Log in for the first time, unless :meth:`ahead` has done it.

        :param sessions: URI of the session collection, None when the BMC has none.
        :raises BmcError: it was refused, or did not come.
        """
        self._connector = connector
        connector.set_auth(self)
        failed, self._failed = self._failed, None
        elsewhere = sessions != SESSIONS or (isinstance(failed, BmcRefused) and failed.status in _NO_SESSIONS)
        final = isinstance(failed, BmcUnreachable) or (isinstance(failed, BmcNotAuthorised) and sessions is None)
        if failed is not None and (final or not elsewhere):
            raise failed
        if self._username is None or self.generation:
            return
        self._sessions = None if failed is not None and sessions == SESSIONS else sessions
        with self._lock:
            self._do_authenticate()

    def again(self, generation: int) -> None:
        """Log in anew, unless another thread did since that generation.

        :raises BmcError: it was refused, or was done too often.
        """
        with self._lock:
            if self.generation == generation:
                if generation >= MAX_LOGINS:
                    raise self._connector.not_authorised(None, f'the session ended {MAX_LOGINS} times')
                before = self.session_uri
                self._do_authenticate()
                # It may live on: some services answer 401 for single resources. BMCs take few sessions.
                if before is not None and before != self.session_uri:
                    self._end(before)

    def can_refresh_session(self) -> bool:
        return self._username is not None and self._sessions is not None

    def _do_authenticate(self, *, basic: bool = True) -> None:
        connector = self._connector
        if self._sessions is not None:
            uri = self._sessions
            try:
                answer = connector.send(
                    'POST', uri, body={'UserName': self._username, 'Password': self._password}, anonymous=True
                )
            except BmcRefused as exc:
                if exc.status not in _NO_SESSIONS or not basic:
                    if exc.status == HTTPStatus.BAD_REQUEST:
                        raise connector.not_authorised(uri, 'login refused (HTTP 400)') from exc
                    raise
            else:
                token = answer.headers.get('X-Auth-Token')
                if not token:
                    raise BmcAnswerInvalid(bmc=connector.label, uri=uri, what='the login was answered without X-Auth-Token')
                connector.set_http_session_auth(token)
                self.session_uri = self._place(answer)
                self.generation += 1
                return
        connector.set_http_basic_auth(self._username, self._password)
        self.generation += 1

    def _place(self, answer: Answered) -> str | None:
        """Where the session lies, to log out; None when the BMC does not say, or says something else's place."""
        location: object = answer.headers.get('Location')
        if location is None:
            with contextlib.suppress(ValueError, RecursionError):
                body = json.loads(answer.content or b'null')
                location = body.get('@odata.id') if isinstance(body, dict) else None
        try:
            return self._connector.path(location) if isinstance(location, str) else None
        except BmcAnswerInvalid:
            return None

    def close(self) -> None:
        """Log out. That the BMC cannot be told any more is no error: sessions end by themselves."""
        uri, self.session_uri = self.session_uri, None
        if uri is not None:
            self._end(uri)

    def _end(self, uri: str) -> None:
        try:
            self._connector.send('DELETE', uri)
        except BmcError as exc:
            LOG.info('%s: a session was not closed: %s', self._connector.label, exc.what)

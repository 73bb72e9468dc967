# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does one log in to a BMC, once for all threads, and out again?"""

import contextlib
import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

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


MAX_PLACE = 2048
"""Characters of a session's URI. Real ones have fewer than 100."""

_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+/?")

_UNCLEAR = re.compile(r'/\.{1,2}(?:/|\Z)|%2[ef]|%5c', re.IGNORECASE)
"""Segments that a service resolves, and what unquotes to them: such a path may be that of another resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A session that is open.

    :ivar places: URIs at which it may be closed, the likeliest first.
    """

    token: str = field(repr=False)
    places: tuple[str, ...]


class Answered(Protocol):
    """An answer to a login."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> bytes: ...


class Sender(Protocol):
    """What a login needs of a connector."""

    label: str

    def send(
        self,
        method: str,
        uri: str,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        anonymous: bool = False,
    ) -> Answered: ...

    def path(self, uri: str, base: str = '/') -> str: ...

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
        self._held: Held | None = None
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
                # It may live on: some services answer 401 for single resources. BMCs take few sessions.
                self.close()
                self._do_authenticate()

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
                self._held = Held(token=token, places=self._places(answer))
                self.generation += 1
                return
        connector.set_http_basic_auth(self._username, self._password)
        self.generation += 1

    def _places(self, answer: Answered) -> tuple[str, ...]:
        """Where the session may be closed, the likeliest place first; empty when the BMC does not say.

        Location comes first, then the body's ``@odata.id``, then its ``Id`` below the collection.
        """
        collection = (self._sessions or SESSIONS).rstrip('/')
        named: list[object] = [answer.headers.get('Location')]
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(answer.content or b'null')
            if isinstance(body, dict):
                named += [body.get('@odata.id'), f'{collection}/{body["Id"]}' if isinstance(body.get('Id'), str) else None]
        for uri in named:
            place = self._place(uri, collection) if isinstance(uri, str) and uri.strip() else None
            if place is not None:
                return tuple(dict.fromkeys((place.rstrip('/'), place)))
        return ()

    def _place(self, uri: str, collection: str) -> str | None:
        """A session's URI as a path on this BMC, None when it is none of a session.

        A URI of another authority (a BMC behind NAT writes its own address) counts by its path, if that lies below the collection.
        """
        for base in (collection, f'{collection}/'):  # RFC 3986 resolves "7" next to the collection: BMCs mean below it
            try:
                path = self._connector.path(uri, base=base)
            except BmcAnswerInvalid:
                break
            if _is_session(path, collection) or _is_session(path, path.rstrip('/').rpartition('/')[0], named='sessions'):
                return path
        try:
            path = urlsplit(uri.strip()[:MAX_PLACE]).path
        except ValueError:
            return None
        return path if _is_session(path, collection) else None

    def close(self) -> None:
        """Log out. That the BMC cannot be told any more is no error: sessions end by themselves."""
        held, self._held = self._held, None
        if held is not None:
            self._end(held)

    def _end(self, held: Held) -> None:
        """Close a session, with its own token: whatever else lies at its place now is not ended."""
        what = 'the BMC does not say where it is'
        try:
            for place in held.places or self._only_one(held):
                try:
                    self._connector.send('DELETE', place, headers={'X-Auth-Token': held.token}, anonymous=True)
                except (BmcRefused, BmcAnswerInvalid) as exc:
                    what = exc.what
                else:
                    return
        except BmcError as exc:
            what = exc.what
        LOG.info('%s: a session was not closed: %s', self._connector.label, what)

    def _only_one(self, held: Held) -> tuple[str, ...]:
        """The place of the only session that the BMC shows to this session: it is this session itself.

        :raises BmcError: the sessions could not be read.
        """
        collection = (self._sessions or SESSIONS).rstrip('/')
        answer = self._connector.send('GET', collection, headers={'X-Auth-Token': held.token}, anonymous=True)
        body: object = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(answer.content or b'null')
        members = body.get('Members') if isinstance(body, dict) else None
        if not isinstance(members, list) or len(members) != 1:
            return ()
        uri = members[0].get('@odata.id') if isinstance(members[0], dict) else None
        place = self._place(uri, collection) if isinstance(uri, str) else None
        return () if place is None else (place,)


def _is_session(path: str, collection: str, named: str | None = None) -> bool:
    """A path is that of one session of a collection.

    :param named: the last segment of the collection has to be this, in whatever case.
    """
    if named is not None and collection.rpartition('/')[2].casefold() != named:
        return False
    below = path.removeprefix(f'{collection}/')
    return below != path and _SEGMENT.fullmatch(below) is not None and not _UNCLEAR.search(path)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Redfish session of one connection, shared by its threads: log in, renew the session once it has ended, log out.

Basic authentication is used where the BMC has no sessions, or has none free and the operator allows it.

Source: DSP0266, section "Session login".
"""

import base64
import contextlib
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

import sushy.auth

from baremetal_acc import wait
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.account import HeldSession, SessionPool
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcRefused, BmcUnreachable

LOG = logging.getLogger(__name__)

MAX_LOGINS = 32
"""Logins over one connection. Sessions that end sooner than one inventory takes would be an endless loop."""

_NO_SESSIONS = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
"""Answers to a login from a BMC that has no sessions, or has its session collection elsewhere."""

SESSIONS = '/redfish/v1/SessionService/Sessions'
"""URI of the session collection on nearly all BMCs. Source: DSP2043 2025.4, SessionCollection, URIs."""


_TRIES = 3
"""Attempts to log in while no session is free: each after a session of our own was closed."""

_BEAT = 0.01

_LINGER_BEAT = 0.25
"""Seconds between two logins to a BMC that still counts a session which we have closed."""

_AT_ONCE = 1.0
"""Seconds within which it shows that the BMC had closed a kept connection."""

_PRIVILEGE = frozenset({'InsufficientPrivilege', 'InsufficientPrivilegeForProperty', 'InsufficientPrivilegeForOperation'})
"""MessageIds of an HTTP 403 that is about the user's role."""

_ENDED = frozenset({'NoValidSession', 'SessionTerminated'})
"""MessageIds of an HTTP 403 that is about the session. Source: DSP8011 (Base registry)."""

MAX_PLACE = 2048
"""Characters of a session's URI. Real URIs have fewer than 100."""

_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+/?")

_UNCLEAR = re.compile(r'/\.{1,2}(?:/|\Z)|%2[ef]|%5c', re.IGNORECASE)
"""Dot segments, and what decodes to one or to a slash: such a path may be that of another resource."""


class LogoutResult(Enum):
    """Result of closing a session.

    ``CLOSED``: the BMC has closed it, or has no such session. ``LEFT``: it is or may be open, and its token may be good.
    ``UNKNOWN``: the BMC no longer accepts its token; whether the session has ended is unknown.
    """

    CLOSED = auto()
    LEFT = auto()
    UNKNOWN = auto()


class Answered(Protocol):
    """The answer to a login."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> bytes: ...


class Sender(Protocol):
    """The methods of a :class:`.Connector` that a login uses."""

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


Resolve = Callable[[str, str], str]
"""Makes a link a path on the BMC, relative to a base path. Raises BmcAnswerInvalid if it leads off the BMC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logout:
    """Closes sessions of one login, and finds out whether they are closed.

    :ivar account: the sessions of these credentials.
    :ivar collection: URI of the session collection, without a slash at its end.
    :ivar basic: value of the Authorization header; None if the operator does not allow Basic authentication.
    """

    connector: Sender
    account: SessionPool
    collection: str
    basic: str | None = field(repr=False)

    def end(self, held: HeldSession) -> LogoutResult:
        """Delete a session, authorised by its own token, so that no other session at the same URI is closed.

        That a BMC refuses the token (HTTP 401) does not mean that the session has ended: it may only refuse the DELETE.
        """
        what = 'the BMC does not say where it is'
        became = LogoutResult.LEFT
        self.account.ending()
        try:
            places = held.places or self._only_one(held)
            gone = 0
            for place in places:
                try:
                    self._delete(place, held.token)
                except (BmcRefused, BmcAnswerInvalid) as exc:
                    what = exc.what
                    gone += isinstance(exc, BmcRefused) and exc.gone
                except BmcNotAuthorised as exc:
                    what, became = exc.what, self._refused_to_end(place, held.token)
                    break
                else:
                    became = LogoutResult.CLOSED
                    break
            if places and gone == len(places):
                became = LogoutResult.CLOSED
        except BmcNotAuthorised as exc:
            what, became = exc.what, LogoutResult.UNKNOWN
        except BmcError as exc:
            what = exc.what
        finally:
            self.account.has_ended(held if became is LogoutResult.LEFT else None, closed=became is LogoutResult.CLOSED)
        if became is not LogoutResult.CLOSED:
            unless = ', unless it has ended by itself' if became is LogoutResult.UNKNOWN else ''
            LOG.info('%s: a session was not closed, and may be left%s: %s', self.connector.label, unless, what)
        return became

    def _refused_to_end(self, place: str, token: str) -> LogoutResult:
        """What is known of a session whose DELETE was refused for its token.

        A GET of its URI with the same token decides, then one with Basic authentication where that is allowed.
        """
        is_good = self._stands(place, {'X-Auth-Token': token})
        if is_good is False:
            return LogoutResult.CLOSED
        became = LogoutResult.LEFT if is_good else LogoutResult.UNKNOWN
        if self.basic is None or self.account.basic_refused:
            return became
        basic = {'Authorization': self.basic}
        if not is_good:  # another session may have this URI by now: read it, but do not close it
            return LogoutResult.CLOSED if self._stands(place, basic) is False else became
        try:
            self.connector.send('DELETE', place, headers=basic, anonymous=True)
        except BmcNotAuthorised:
            self.account.basic_refused = True
        except BmcError as exc:
            LOG.info('%s', exc)
        else:
            return LogoutResult.CLOSED
        return became

    def _stands(self, place: str, headers: Mapping[str, str]) -> bool | None:
        """Whether a session exists at a URI; None: the BMC does not say."""
        try:
            self.connector.send('GET', place, headers=headers, anonymous=True)
        except BmcRefused as exc:
            return False if exc.gone else None
        except BmcNotAuthorised:
            if 'Authorization' in headers:
                self.account.basic_refused = True
            return None
        except BmcError:
            return None
        return True

    def _delete(self, place: str, token: str) -> None:
        """Delete a session. Repeated once if the connection breaks at once or the BMC is busy, as DELETE is idempotent.

        :raises BmcError: the session was not closed, or that is unknown.
        """
        began = time.monotonic()
        try:
            self.connector.send('DELETE', place, headers={'X-Auth-Token': token}, anonymous=True)
        except (BmcUnreachable, BmcBusy) as exc:
            if time.monotonic() - began > _AT_ONCE:
                raise
            if isinstance(exc, BmcBusy):
                wait.sleep(_LINGER_BEAT)
            self.connector.send('DELETE', place, headers={'X-Auth-Token': token}, anonymous=True)

    def _only_one(self, held: HeldSession) -> tuple[str, ...]:
        """The URI of the only session that the BMC lists for this token: then it is this session.

        :raises BmcError: the session collection could not be read.
        """
        answer = self.connector.send('GET', self.collection, headers={'X-Auth-Token': held.token}, anonymous=True)
        body: object = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(answer.content or b'null')
        members = body.get('Members') if isinstance(body, dict) else None
        if not isinstance(members, list) or len(members) != 1:
            return ()
        uri = members[0].get('@odata.id') if isinstance(members[0], dict) else None
        place = session_place(uri, self.collection, self.connector.path) if isinstance(uri, str) else None
        return () if place is None else (place,)


class Login(sushy.auth.AuthBase):
    """A Redfish session of one connection, or Basic authentication where the BMC has none. One login serves all threads.

    Source: DSP0266, section "Session login".

    :ivar generation: number of logins so far. A request notes it, so that of several threads which find the session ended only
        one renews it.
    """

    def __init__(self, address: BmcAddress, account: SessionPool | None = None) -> None:
        """Create the login; nothing is sent.

        :param account: the sessions of these credentials; a new one if nothing else in the process has sessions with the BMC.
        """
        super().__init__(address.username, address.password)
        self.generation = 0
        self._account = SessionPool() if account is None else account
        self._basic_allowed = address.basic_auth
        self._sessions: str | None = None
        self._failed: BmcError | None = None
        self._lock = threading.Lock()
        self._renewals = 0
        self._guard = threading.Lock()  # protects the attributes below; never held during a wait
        self._held: HeldSession | None = None
        self._in_use = 0
        self._given_up = False
        self._stuck: HeldSession | None = None
        self._accepted = 0
        self._forbids = False

    def ahead(self, connector: Sender) -> Callable[[], None]:
        """Log in at the usual session collection in a thread, while the caller reads the service root.

        :returns: a function to call before anything else; it waits for the end of the attempt, and raises nothing.
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
        """Log in for the first time, unless :meth:`ahead` has succeeded.

        :param sessions: URI of the session collection, None when the BMC has none.
        :raises BmcError: the login was refused, or was not answered.
        """
        self._connector = connector
        connector.set_auth(self)
        failed, self._failed = self._failed, None
        elsewhere = sessions != SESSIONS or (isinstance(failed, HttpRefused) and failed.status in _NO_SESSIONS)
        final = isinstance(failed, BmcUnreachable) or (isinstance(failed, BmcNotAuthorised) and sessions is None)
        if failed is not None and (final or not elsewhere):
            raise failed
        if self._username is None or self.generation:
            return
        self._sessions = None if failed is not None and sessions == SESSIONS else sessions
        with self._alone():
            self._do_authenticate()

    def again(self, generation: int) -> None:
        """Close the session and open another, unless another thread has done so since that generation.

        :raises BmcError: the login was refused, or the session has ended too often.
        """
        with self._alone():
            if self.generation != generation:
                return
            if not self._given_up:
                if self._renewals >= MAX_LOGINS - 1:
                    raise self._connector.not_authorised(None, f'the session ended {MAX_LOGINS} times')
                self._renewals += 1
            # Close it, as it may still be open: some services answer 401 for single resources, and BMCs allow few sessions.
            self.close()
            self._do_authenticate()

    # ---- around each request ----

    def use(self) -> int:
        """Begin a request that uses the session, so that no thread closes it meanwhile; open a session if it was given up.

        :returns: the generation of the session.
        :raises BmcError: no session could be opened.
        """
        while True:
            with self._guard:
                if not self._given_up:
                    self._in_use += 1
                    return self.generation
                generation = self.generation
            self.again(generation)

    def used(self, generation: int, *, accepted: bool) -> None:
        """End that request.

        :param accepted: the BMC accepted the request with this session.
        """
        with self._guard:
            self._in_use -= 1
            if accepted:
                self._accepted = max(self._accepted, generation)

    def may_have_ended(self, generation: int, status: int, ids: frozenset[str]) -> bool:
        """Whether a refused request may be sent once more over another session.

        HTTP 403 is mostly about the user's role. It counts as an ended session if the BMC says so, or if the session was
        accepted before and the BMC does not mention privileges; but not once a new session did not help.
        """
        if not self.can_refresh_session():
            return False
        if status == HTTPStatus.UNAUTHORIZED:
            return True
        if status != HTTPStatus.FORBIDDEN or self._forbids or ids & _PRIVILEGE:
            return False
        return bool(ids & _ENDED) or self._accepted == generation > 0

    def forbids(self) -> None:
        """Note that a new session did not help against HTTP 403: it is about the user's role."""
        self._forbids = True

    def can_refresh_session(self) -> bool:
        return self._username is not None and self._sessions is not None

    # ---- sharing the BMC's sessions with other connections ----

    @property
    def token(self) -> str | None:
        """The token of the session that this connection has opened; None without one."""
        held = self._held
        return None if held is None else held.token

    @property
    def in_use(self) -> bool:
        """Whether a request uses the session now."""
        return self._in_use > 0

    def give_up(self) -> bool:
        """Close the session for another connection that needs one, unless it is in use. The next request opens a session again.

        :returns: whether it was closed.
        """
        with self._guard:
            held = self._held
            if held is None or self._in_use or held is self._stuck:
                return False
            self._held, self._given_up = None, True
        became = self._logout().end(held)
        if became is LogoutResult.LEFT:
            with self._guard:
                if self._given_up:  # no thread has opened another meanwhile: the session is still good, and can be shared
                    self._held, self._given_up, self._stuck = held, False, held
        return became is LogoutResult.CLOSED

    # ---- logging in ----

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Serialise logins. In a hub (:mod:`baremetal_acc.wait`) a caller must not block the thread that runs another login."""
        while not self._lock.acquire(blocking=wait.hub() is None):
            wait.sleep(_BEAT)
        try:
            yield
        finally:
            self._lock.release()

    def _do_authenticate(self, *, basic: bool = True) -> None:
        if self._sessions is not None:
            try:
                held = self._opened(self._sessions)
            except HttpRefused as exc:
                if exc.status == HTTPStatus.BAD_REQUEST:
                    raise self._connector.not_authorised(self._sessions, exc.what) from exc
                if exc.status not in _NO_SESSIONS or not basic:
                    raise
            except BmcBusy as exc:
                if not self._share() and not self._basic_instead(exc):
                    raise
                return
            else:
                self._take(held.token, held)
                return
        self._connector.set_http_basic_auth(self._username, self._password)
        self._take(None, None)

    def _opened(self, uri: str) -> HeldSession:
        """Open a session. If none is free, idle sessions of our own are closed first.

        :raises BmcBusy: none is free. ``BmcRefused``, ``BmcError``: the login was refused.
        """
        account = self._account
        if account.scarce:
            account.make_room(self)
        tries = 0
        while True:
            tries += 1
            ended = account.ended
            try:
                return self._asked_for(uri)
            except BmcBusy as exc:
                refused: BmcError = exc
            except HttpRefused as exc:
                # While another session of ours is open, the credentials are good, whatever the refusal says.
                if exc.status in _NO_SESSIONS or not account.holds_another(self):
                    raise
                refused = exc
            account.ran_short()
            if tries < _TRIES and (account.make_room(self) or account.ended != ended):
                continue
            if not account.lingers or account.holds_another(self):
                raise refused
            wait.sleep(_LINGER_BEAT)

    def _asked_for(self, uri: str) -> HeldSession:
        connector = self._connector
        answer = connector.send('POST', uri, body={'UserName': self._username, 'Password': self._password}, anonymous=True)
        token = answer.headers.get('X-Auth-Token')
        if not token:
            raise BmcAnswerInvalid(bmc=connector.label, uri=uri, what='the login was answered without X-Auth-Token')
        return HeldSession(token=token, places=session_places(answer, self._collection, connector.path))

    def _share(self) -> bool:
        """Use the session of another connection of ours, or one that could not be closed.

        When that session ends, the BMC answers HTTP 401, and this connection asks for a session again.

        :returns: whether there was one.
        """
        token = self._account.token_of_another(self)
        if token is not None:
            self._take(token, None)  # the other connection closes it
            return True
        left = self._account.take_left()
        if left is not None:
            self._take(left.token, left)
        return left is not None

    def _basic_instead(self, why: BmcBusy) -> bool:
        """Use Basic authentication, if the operator allows it and the BMC accepts it for a GET of the session collection."""
        if not self._basic_allowed or self._account.basic_refused or self._sessions is None:
            return False
        connector = self._connector
        headers = {'Authorization': basic_authorization(self._username or '', self._password or '')}
        try:
            connector.send('GET', self._sessions, headers=headers, anonymous=True)
        except BmcNotAuthorised:
            self._account.basic_refused = True
            return False
        except BmcError:
            return False
        LOG.warning('%s: %s: Basic authentication is used', connector.label, why.what)
        connector.set_http_basic_auth(self._username, self._password)
        self._take(None, None)
        return True

    def _take(self, token: str | None, held: HeldSession | None) -> None:
        """Use a session (or Basic authentication: None) from now on.

        :param token: of the session. ``held``: the session, if it is ours to close.
        """
        if token is not None:
            self._connector.set_http_session_auth(token)
        with self._guard:
            self._held, self._given_up = held, False
            self.generation += 1
        if held is not None:
            self._account.enter(self)

    # ---- logging out ----

    @property
    def _collection(self) -> str:
        """The URI of the session collection, without a slash at its end."""
        return (self._sessions or SESSIONS).rstrip('/')

    def _logout(self) -> Logout:
        basic = basic_authorization(self._username or '', self._password or '') if self._basic_allowed else None
        return Logout(connector=self._connector, account=self._account, collection=self._collection, basic=basic)

    def close(self) -> None:
        """Log out. If the BMC cannot be reached, no error is raised: sessions time out."""
        with self._guard:
            held, self._held = self._held, None
        if held is not None:
            self._logout().end(held)


def session_places(answer: Answered, collection: str, resolve: Resolve) -> tuple[str, ...]:
    """URIs at which the session may be deleted, the likeliest first; empty when the BMC does not name one.

    Location comes first, then the body's ``@odata.id``, then its ``Id`` below the collection.

    :param collection: URI of the session collection. ``resolve``: makes a link a path on this BMC.
    """
    named: list[object] = [answer.headers.get('Location')]
    with contextlib.suppress(ValueError, RecursionError):
        body = json.loads(answer.content or b'null')
        if isinstance(body, dict):
            named += [body.get('@odata.id'), f'{collection}/{body["Id"]}' if isinstance(body.get('Id'), str) else None]
    for uri in named:
        place = session_place(uri, collection, resolve) if isinstance(uri, str) and uri.strip() else None
        if place is not None:
            return tuple(dict.fromkeys((place.rstrip('/'), place)))
    return ()


def session_place(uri: str, collection: str, resolve: Resolve) -> str | None:
    """A session's URI as a path on this BMC, None when it is not the URI of a session.

    A URI of another authority (BMCs behind NAT write their own) counts by its path, if that is below the collection.
    One that begins with ``redfish/v1/`` lacks its first slash (DMTF/python-redfish-library#57).
    """
    for base in ('/', collection, f'{collection}/'):  # RFC 3986 resolves "7" beside the collection; BMCs mean below it
        try:
            path = resolve(uri, base)
        except BmcAnswerInvalid:
            break
        named = base != '/' and _is_session(path, path.rstrip('/').rpartition('/')[0], named='sessions')
        if named or _is_session(path, collection):
            return path
    try:
        path = urlsplit(uri.strip()[:MAX_PLACE]).path
    except ValueError:
        return None
    return path if _is_session(path, collection) else None


def _is_session(path: str, collection: str, named: str | None = None) -> bool:
    """Whether a path is that of one session of a collection.

    :param named: required last segment of the collection, in any letter case.
    """
    if named is not None and collection.rpartition('/')[2].casefold() != named:
        return False
    below = path.removeprefix(f'{collection}/')
    return below != path and _SEGMENT.fullmatch(below) is not None and not _UNCLEAR.search(path)


def basic_authorization(username: str, password: str) -> str:
    """The value of the Authorization header. Source: RFC 7617, section 2; UTF-8 as in section 2.1."""
    return 'Basic ' + base64.b64encode(f'{username}:{password}'.encode()).decode()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One login to a BMC for all threads of a connection: a Redfish session is opened, renewed once it has ended, and closed.

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
from enum import Enum, auto
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

import sushy.auth

from baremetal_acc import wait
from baremetal_acc.bmc.api import BmcAddress
from baremetal_acc.bmc.redfish.account import Account, Held
from baremetal_acc.bmc.redfish.trouble import HttpRefused
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcRefused, BmcUnreachable

LOG = logging.getLogger(__name__)

MAX_LOGINS = 32
"""Over one connection. Sessions that end sooner than a look lasts are an endless loop."""

_NO_SESSIONS = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
"""What a BMC without sessions, or with sessions elsewhere, answers to a login."""

SESSIONS = '/redfish/v1/SessionService/Sessions'
"""Source: DSP2043 2025.4, SessionCollection, URIs."""


_TRIES = 3
"""To log in where no session is free: each after a session of our own was closed."""

_BEAT = 0.01

_LINGER_BEAT = 0.25
"""Seconds between two logins to a BMC that still counts a session which we have closed."""

_AT_ONCE = 1.0
"""Seconds within which a connection that was kept turns out to be closed."""

_PRIVILEGE = frozenset({'InsufficientPrivilege', 'InsufficientPrivilegeForProperty', 'InsufficientPrivilegeForOperation'})
"""HTTP 403 is a matter of the role."""

_ENDED = frozenset({'NoValidSession', 'SessionTerminated'})
"""HTTP 403 is a matter of the session. Source: DSP8011 (Base registry)."""

MAX_PLACE = 2048
"""Characters of a session's URI. Real ones have fewer than 100."""

_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+/?")

_UNCLEAR = re.compile(r'/\.{1,2}(?:/|\Z)|%2[ef]|%5c', re.IGNORECASE)
"""Segments that a service resolves, and what unquotes to them: such a path may be that of another resource."""


class _End(Enum):
    """What became of a session that was to be closed.

    ``CLOSED``: the BMC has closed it, or has no such session. ``LEFT``: it is open, or may be, and its token may be good.
    ``UNKNOWN``: the BMC takes its token no more, and whether the session has ended by that nobody knows.
    """

    CLOSED = auto()
    LEFT = auto()
    UNKNOWN = auto()


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

    def __init__(self, address: BmcAddress, account: Account | None = None) -> None:
        """Nothing is sent yet.

        :param account: of these credentials; one of its own where nobody else in the process has sessions with the BMC.
        """
        super().__init__(address.username, address.password)
        self.generation = 0
        self._account = Account() if account is None else account
        self._basic_allowed = address.basic_auth
        self._sessions: str | None = None
        self._failed: BmcError | None = None
        self._lock = threading.Lock()
        self._renewals = 0
        self._guard = threading.Lock()  # of what follows; never held while anything is waited for
        self._held: Held | None = None
        self._in_use = 0
        self._given_up = False
        self._stuck: Held | None = None
        self._accepted = 0
        self._forbids = False

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
        """Close the session and open another one, unless another thread did since that generation.

        :raises BmcError: it was refused, or was done too often.
        """
        with self._alone():
            if self.generation != generation:
                return
            if not self._given_up:
                if self._renewals >= MAX_LOGINS - 1:
                    raise self._connector.not_authorised(None, f'the session ended {MAX_LOGINS} times')
                self._renewals += 1
            # It may live on: some services answer 401 for single resources. BMCs take few sessions.
            self.close()
            self._do_authenticate()

    # ---- around each request ----

    def use(self) -> int:
        """Begin a request that goes with the session: nobody closes it meanwhile. One that was given up is opened again.

        :returns: the generation of the session.
        :raises BmcError: it could not be opened.
        """
        while True:
            with self._guard:
                if not self._given_up:
                    self._in_use += 1
                    return self.generation
                generation = self.generation
            self.again(generation)

    def used(self, generation: int, *, accepted: bool) -> None:
        """That request has ended.

        :param accepted: the BMC has done what it was asked for.
        """
        with self._guard:
            self._in_use -= 1
            if accepted:
                self._accepted = max(self._accepted, generation)

    def may_have_ended(self, generation: int, status: int, ids: frozenset[str]) -> bool:
        """Whether a refused request may be sent once more over another session.

        HTTP 403 is most often a matter of the role of the user. It counts for an ended session where the BMC says that, or
        where the session was good before and the BMC does not speak of privileges; unless a new session did not help before.
        """
        if not self.can_refresh_session():
            return False
        if status == HTTPStatus.UNAUTHORIZED:
            return True
        if status != HTTPStatus.FORBIDDEN or self._forbids or ids & _PRIVILEGE:
            return False
        return bool(ids & _ENDED) or self._accepted == generation > 0

    def forbids(self) -> None:
        """A new session did not help against HTTP 403: it is a matter of the role."""
        self._forbids = True

    def can_refresh_session(self) -> bool:
        return self._username is not None and self._sessions is not None

    # ---- taking turns with others ----

    @property
    def token(self) -> str | None:
        """Of the session that this connection holds."""
        held = self._held
        return None if held is None else held.token

    @property
    def in_use(self) -> bool:
        """A request goes with it at the moment."""
        return self._in_use > 0

    def give_up(self) -> bool:
        """Close the session for another connection that needs one, unless it is in use. The next request opens one again."""
        with self._guard:
            held = self._held
            if held is None or self._in_use or held is self._stuck:
                return False
            self._held, self._given_up = None, True
        became = self._end(held)
        if became is _End.LEFT:
            with self._guard:
                if self._given_up:  # nobody has opened another one meanwhile: it is still good, and can be shared
                    self._held, self._given_up, self._stuck = held, False, held
        return became is _End.CLOSED

    # ---- logging in ----

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One login at a time. In a hub nobody may hold up the thread that has to go on with the other one."""
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

    def _opened(self, uri: str) -> Held:
        """A new session. Where none is free, those of our own that nobody uses are closed first.

        :raises BmcBusy: none is free. ``BmcRefused``, ``BmcError``: it was refused.
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
                # While another session of ours is open, it is no matter of the credentials, in whatever words.
                if exc.status in _NO_SESSIONS or not account.holds_another(self):
                    raise
                refused = exc
            account.ran_short()
            if tries < _TRIES and (account.make_room(self) or account.ended != ended):
                continue
            if not account.lingers or account.holds_another(self):
                raise refused
            wait.sleep(_LINGER_BEAT)

    def _asked_for(self, uri: str) -> Held:
        connector = self._connector
        answer = connector.send('POST', uri, body={'UserName': self._username, 'Password': self._password}, anonymous=True)
        token = answer.headers.get('X-Auth-Token')
        if not token:
            raise BmcAnswerInvalid(bmc=connector.label, uri=uri, what='the login was answered without X-Auth-Token')
        return Held(token=token, places=self._places(answer))

    def _share(self) -> bool:
        """Use a session that another connection of ours has, or could not close. When it ends, HTTP 401 comes, and a session is
        asked for again.
        """
        token = self._account.token_of_another(self)
        if token is not None:
            self._take(token, None)  # it is not ours to close
            return True
        left = self._account.take_left()
        if left is not None:
            self._take(left.token, left)
        return left is not None

    def _basic_instead(self, why: BmcBusy) -> bool:
        """Use Basic authentication, if it is allowed and the BMC takes it: the sessions are shown to who is logged in only."""
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

    def _take(self, token: str | None, held: Held | None) -> None:
        """Use these credentials from now on."""
        if token is not None:
            self._connector.set_http_session_auth(token)
        with self._guard:
            self._held, self._given_up = held, False
            self.generation += 1
        if held is not None:
            self._account.enter(self)

    # ---- logging out ----

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

        A URI of another authority (BMCs behind NAT write their own) counts by its path, if that is below the collection.
        One that begins with ``redfish/v1/`` lacks its first slash (DMTF/python-redfish-library#57).
        """
        for base in ('/', collection, f'{collection}/'):  # RFC 3986 resolves "7" next to the collection: BMCs mean below it
            try:
                path = self._connector.path(uri, base=base)
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

    def close(self) -> None:
        """Log out. That the BMC cannot be told any more is no error: sessions end by themselves."""
        with self._guard:
            held, self._held = self._held, None
        if held is not None:
            self._end(held)

    def _end(self, held: Held) -> _End:
        """Close a session, with its own token: whatever else lies at its place now is not ended.

        That a BMC refuses the token (HTTP 401) is no end of the session: it may refuse to delete it, too.
        """
        what = 'the BMC does not say where it is'
        became = _End.LEFT
        self._account.ending()
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
                    became = _End.CLOSED
                    break
            if places and gone == len(places):
                became = _End.CLOSED
        except BmcNotAuthorised as exc:
            what, became = exc.what, _End.UNKNOWN
        except BmcError as exc:
            what = exc.what
        finally:
            self._account.has_ended(held if became is _End.LEFT else None, closed=became is _End.CLOSED)
        if became is not _End.CLOSED:
            unless = ', unless it has ended by itself' if became is _End.UNKNOWN else ''
            LOG.info('%s: a session was not closed, and may be left%s: %s', self._connector.label, unless, what)
        return became

    def _refused_to_end(self, place: str, token: str) -> _End:
        """What is known of a session whose end was refused for its token: what stands at its place for that same token, and for
        Basic authentication where that is allowed.
        """
        is_good = self._stands(place, {'X-Auth-Token': token})
        if is_good is False:
            return _End.CLOSED
        became = _End.LEFT if is_good else _End.UNKNOWN
        if not self._basic_allowed or self._account.basic_refused:
            return became
        basic = {'Authorization': basic_authorization(self._username or '', self._password or '')}
        if not is_good:  # another session may stand there by now: it is looked at, and not closed
            return _End.CLOSED if self._stands(place, basic) is False else became
        try:
            self._connector.send('DELETE', place, headers=basic, anonymous=True)
        except BmcNotAuthorised:
            self._account.basic_refused = True
        except BmcError as exc:
            LOG.info('%s', exc)
        else:
            return _End.CLOSED
        return became

    def _stands(self, place: str, headers: Mapping[str, str]) -> bool | None:
        """Whether a session is there; None: the BMC does not say."""
        try:
            self._connector.send('GET', place, headers=headers, anonymous=True)
        except BmcRefused as exc:
            return False if exc.gone else None
        except BmcNotAuthorised:
            if 'Authorization' in headers:
                self._account.basic_refused = True
            return None
        except BmcError:
            return None
        return True

    def _delete(self, place: str, token: str) -> None:
        """Close a session. Once more where the connection breaks at once or the BMC is busy: to close it twice changes nothing.

        :raises BmcError: it was not closed, or nobody knows.
        """
        began = time.monotonic()
        try:
            self._connector.send('DELETE', place, headers={'X-Auth-Token': token}, anonymous=True)
        except (BmcUnreachable, BmcBusy) as exc:
            if time.monotonic() - began > _AT_ONCE:
                raise
            if isinstance(exc, BmcBusy):
                wait.sleep(_LINGER_BEAT)
            self._connector.send('DELETE', place, headers={'X-Auth-Token': token}, anonymous=True)

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


def basic_authorization(username: str, password: str) -> str:
    """The value of the header Authorization. Source: RFC 7617, section 2; UTF-8 as in section 2.1."""
    return 'Basic ' + base64.b64encode(f'{username}:{password}'.encode()).decode()

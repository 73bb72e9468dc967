# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Redfish session of one connection, shared by its threads: log in, renew the session once it has ended, log out.

Basic authentication is used where the BMC has no sessions, or has none free and the operator allows it.

Source: DSP0266, section "Session login".
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus

import sushy.auth

from baremetal_acc import wait
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.account import HeldSession, SessionPool
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.bmc.redfish.login_requests import Sender, basic_authorization
from baremetal_acc.bmc.redfish.logout import LINGER_BEAT, Logout, LogoutResult
from baremetal_acc.bmc.redfish.session_location import session_places
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcUnreachable

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

_PRIVILEGE = frozenset({'InsufficientPrivilege', 'InsufficientPrivilegeForProperty', 'InsufficientPrivilegeForOperation'})
"""MessageIds of an HTTP 403 that is about the user's role."""

_ENDED = frozenset({'NoValidSession', 'SessionTerminated'})
"""MessageIds of an HTTP 403 that is about the session. Source: DSP8011 (Base registry)."""


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
                    raise self._connector.not_authorised(None, f'the BMC ended the session {MAX_LOGINS} times')
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
            wait.sleep(LINGER_BEAT)

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

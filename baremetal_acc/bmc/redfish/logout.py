# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Log out of a Redfish service: close a session, and find out whether it is closed."""

import contextlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from baremetal_acc import wait
from baremetal_acc.bmc.redfish.account import HeldSession, SessionPool
from baremetal_acc.bmc.redfish.login_requests import Sender
from baremetal_acc.bmc.redfish.session_location import session_place
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcRefused, BmcUnreachable

LOG = logging.getLogger(__name__)

LINGER_BEAT = 0.25
"""Seconds between two logins to a BMC that still counts a session which we have closed."""

_AT_ONCE = 1.0
"""Seconds within which it shows that the BMC had closed a kept connection."""


class LogoutResult(Enum):
    """Result of closing a session.

    ``CLOSED``: the BMC has closed it, or has no such session. ``LEFT``: it is or may be open, and its token may be good.
    ``UNKNOWN``: the BMC no longer accepts its token; whether the session has ended is unknown.
    """

    CLOSED = auto()
    LEFT = auto()
    UNKNOWN = auto()


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
        what = 'the BMC does not report its URI'
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
            LOG.info('%s: a session could not be closed, and may still be open%s: %s', self.connector.label, unless, what)
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
                wait.sleep(LINGER_BEAT)
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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Accounts with roles, privileges, and sessions of one emulated BMC. This module knows no HTTP.

Source: DSP0266, privilege model; DSP8010 PrivilegeRegistry for the privileges of the three standard roles.
"""

import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ROLES: Mapping[str, frozenset[str]] = {
    'Administrator': frozenset({'Login', 'ConfigureManager', 'ConfigureUsers', 'ConfigureComponents', 'ConfigureSelf'}),
    'Operator': frozenset({'Login', 'ConfigureComponents', 'ConfigureSelf'}),
    'ReadOnly': frozenset({'Login', 'ConfigureSelf'}),
}
# A BMC keeps few sessions and drops the one that was unused for the longest time: 64 is the limit of bmcweb.
MAX_SESSIONS = 64
MIN_PASSWORD, MAX_PASSWORD = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentUser:
    """An account as a test or an operator requests it."""

    name: str
    password: str = field(repr=False)
    role: str = 'Administrator'


@dataclass(slots=True, kw_only=True)
class EmulatedAccount:
    """An account of the BMC. Its secret is compared, never shown."""

    name: str
    secret: str = field(repr=False)
    role: str
    enabled: bool = True


@dataclass(slots=True, kw_only=True)
class RedfishSession:
    """A session. ``used`` is the second at which it was last used."""

    id: str
    user: str
    token: str = field(repr=False)
    created: float
    used: float


class AccessControl:
    """The accounts and sessions of one BMC."""

    def __init__(self, users: Iterable[CurrentUser], *, session_timeout: float = 1800.0) -> None:
        self.accounts: dict[str, EmulatedAccount] = {}
        self.sessions: dict[str, RedfishSession] = {}
        self.session_timeout = session_timeout
        self._next = 1
        for user in users:
            self.add(user)

    def add(self, user: CurrentUser) -> EmulatedAccount:
        """Create an account.

        :raises ValueError: the role is unknown, the name is empty or taken, or the password has a wrong length.
        """
        if user.role not in ROLES:
            raise ValueError(f'unknown role {user.role!r}; the roles are {", ".join(ROLES)}')
        if user.name in self.accounts or not user.name:
            raise ValueError(f'the account name {user.name!r} is empty or already in use')
        check_password(user.password)
        account = EmulatedAccount(name=user.name, secret=user.password, role=user.role)
        self.accounts[user.name] = account
        return account

    def check(self, name: str, password: str) -> EmulatedAccount | None:
        """Return the account if name and password are right and it is enabled, else None."""
        account = self.accounts.get(name)
        expected = account.secret if account is not None else secrets.token_hex(8)
        is_right = hmac.compare_digest(expected.encode(), password.encode())
        return account if account is not None and is_right and account.enabled else None

    def log_in(self, name: str, password: str, now: float) -> RedfishSession | None:
        """Create a session if name and password are right, else return None."""
        return self.open(name, now) if self.check(name, password) is not None else None

    def open(self, name: str, now: float) -> RedfishSession:
        """Create a session for a user without a password check. At the limit, the least recently used sessions are dropped."""
        self.expire(now)
        while len(self.sessions) >= MAX_SESSIONS:
            del self.sessions[min(self.sessions.values(), key=lambda one: one.used).id]
        session = RedfishSession(id=str(self._next), user=name, token=secrets.token_urlsafe(24), created=now, used=now)
        self._next += 1
        self.sessions[session.id] = session
        return session

    def by_token(self, token: str, now: float) -> tuple[RedfishSession, EmulatedAccount] | None:
        """Return the session with this token and its account, or None. Using a session keeps it alive."""
        self.expire(now)
        for session in self.sessions.values():
            if hmac.compare_digest(session.token.encode(), token.encode()):
                account = self.accounts.get(session.user)
                if account is None or not account.enabled:
                    return None
                session.used = now
                return session, account
        return None

    def expire(self, now: float) -> None:
        """Drop the sessions that were unused for longer than the timeout."""
        for session in [one for one in self.sessions.values() if now - one.used > self.session_timeout]:
            del self.sessions[session.id]

    def forget_sessions(self) -> None:
        """Drop all sessions, as a restart of the BMC does."""
        self.sessions.clear()


def check_password(password: str) -> None:
    """Check that the BMC accepts a password.

    :raises ValueError: the password is too short or too long.
    """
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise ValueError(f'a password must have {MIN_PASSWORD} to {MAX_PASSWORD} characters')

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Track which BMCs refuse our credentials, and keep a job from logging in so often that an account is locked out.

All requests of a tick pass through :class:`Credentials`. A BMC that has refused is not asked again before its time
(:mod:`baremetal_acc.planning.login_backoff`); until then the remembered refusal is raised. Refusals are counted for each right
(read, write, power): an account may have one and lack another, and a host whose locks could not be engaged still has to be
powered off.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar, cast

from baremetal_acc.bmc.driver import BmcAddress, Connection
from baremetal_acc.errors import BmcLockedOut, BmcNotAuthorised
from baremetal_acc.model.login_refusal import LoginRefusal, Right
from baremetal_acc.planning import login_backoff
from baremetal_acc.planning.login_backoff import Kind

T = TypeVar('T')

_RIGHTS = dict.fromkeys(('may_write', 'push', 'go_on', 'cancel', 'fresh', 'patch', 'post'), Right.WRITE) | dict.fromkeys(
    ('set_power', 'reset'), Right.POWER
)

_NEITHER = frozenset({'address', 'session', 'name', 'lasts', 'close', 'stop'})
"""Attributes that need no right. Other methods read, unless :data:`_RIGHTS` names them; ``writer`` sends no request."""


class Credentials:
    """The credentials of one turn, for all BMCs of a target."""

    def __init__(
        self, before: Iterable[LoginRefusal], connect: Callable[[BmcAddress], Connection], now: datetime, *, most: int | None
    ) -> None:
        """No request is sent yet.

        :param before: the refusals that are remembered.
        :param most: after how many refusals a BMC is not asked any more; None: it is always asked again.
        """
        self._before = {(one.bmc, one.right): one for one in before}
        self._connect = connect
        self._now = now
        self._most = most
        self._refused: dict[Kind, BmcNotAuthorised] = {}
        self._passed: set[Kind] = set()

    def connect(self, address: BmcAddress) -> Connection:
        """Open a session, if the BMC may be asked now.

        :raises BmcLockedOut: it is not asked any more. ``BmcNotAuthorised``: it has refused, now or before.
        :raises BmcError: as the driver.
        """
        # An open session proves nothing yet: with Basic authentication the BMC has not seen the password.
        connection = self._asked(address, Right.READ, lambda: self._connect(address))
        return cast(Connection, _Guarded(connection, lambda right, ask: self.passed(address, right, ask)))

    def passed(self, address: BmcAddress, right: Right, ask: Callable[[], T]) -> T:
        """Return the answer to a request that needs good credentials.

        :raises BmcError: as :meth:`connect`.
        """
        answer = self._asked(address, right, ask)
        self._passed.add((address.name, right))
        return answer

    def noted(self) -> tuple[LoginRefusal, ...]:
        """Return the refusals to remember now."""
        return login_backoff.noted(self._before.values(), self._refused, self._passed, self._now)

    def _asked(self, address: BmcAddress, right: Right, ask: Callable[[], T]) -> T:
        kind = (address.name, right)
        if kind in self._refused:
            raise self._refused[kind]
        known = self._before.get(kind)
        if known is not None and self._most is not None and known.times >= self._most:
            raise shut_out(known, address.label)
        if known is not None and self._now < login_backoff.next_time(known):
            what = (
                f'not requested before {login_backoff.next_time(known):%H:%M:%S} UTC, since the BMC has refused: {known.what}'
            )
            raise BmcNotAuthorised(bmc=address.label, what=what, hint=known.hint)
        try:
            return ask()
        except BmcNotAuthorised as exc:
            self._refused[kind] = exc
            raise


def shut_out(refused: LoginRefusal, label: str) -> BmcLockedOut:
    """Return the error for a BMC that is not asked any more.

    :param label: of the BMC, with its address.
    """
    what = f'it refused us {refused.times} times, and gets no more requests: {refused.what}'
    then = 'set valid credentials, check that the account is not locked out, and start again'
    return BmcLockedOut(bmc=label, what=what, hint=f'{refused.hint}; {then}' if refused.hint else then)


class _Guarded:
    """A connection, or its writer, whose refusals are counted."""

    def __init__(self, inner: object, through: Callable[[Right, Callable[[], Any]], Any]) -> None:
        self._inner: Any = inner
        self._through = through

    def __enter__(self) -> '_Guarded':
        self._inner.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._inner.__exit__(*exc)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in _NEITHER or not callable(found):
            return found
        if name == 'writer':
            return lambda: _Guarded(found(), self._through)
        return lambda *arguments, **named: self._through(_RIGHTS.get(name, Right.READ), lambda: found(*arguments, **named))

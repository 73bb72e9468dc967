# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP client of placement's API: one microversion, answers judged by status and error code, and no write sent twice by us.

Errors never quote placement's own text: it differs between its databases, and could hold what somebody else sent.
"""

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urlencode

from keystoneauth1 import exceptions as ksa

from baremetal_acc.errors import PlacementError, PlacementRefused, PlacementUnreachable

MICROVERSION = (1, 37)
"""The first that can give a provider another parent, and the last at which consumers can be written as they are read."""

INVENTORY_IN_USE = 'placement.inventory.inuse'
DUPLICATE_NAME = 'placement.duplicate_name'
CANNOT_DELETE_PARENT = 'placement.resource_provider.cannot_delete_parent'

RESHAPER = '/reshaper'

READS = 4
"""How often a GET is sent while its answer is lost or 5xx. A reshape needs twenty GETs, and starts over with each lost one."""

READ_SECONDS = 5.0
"""A GET that took longer is not sent again: the caller holds the lock of a node."""

_VERSION_CHARACTERS = 20

_HINTS = {
    HTTPStatus.UNAUTHORIZED: 'check the credentials in [placement]',
    HTTPStatus.FORBIDDEN: 'the user in [placement] needs the role service or admin',
}

_SILENCE_HINT = (
    'check that the service runs and can be reached from this host; see auth_url and endpoint_override in [placement]'
)

_LONGEST_ERROR = 4096

_ORIGIN = re.compile(
    r'(?P<scheme>https?://)(?:[^\s/?#]{0,1024}@)?(?P<place>(?:\[[0-9a-fA-F:.]{2,45}\]|[\w.-]{1,253})(?::[0-9]{1,5})?)'
    r'(?=(?:[/?#:,;)"\'][^\s@]*)?(?:\s|$))',
    re.ASCII,
)
"""Scheme, host and port of a URL. User information before an ``@`` is skipped; a URL with a further ``@`` does not match."""

_RESHAPER_HINT = 'the role service is needed, admin is not enough: openstack role add --user USER --project service service'


class PlacementAdapter(Protocol):
    """The part of ``keystoneauth1.adapter.Adapter`` that is used. Ironic and the command line each make their own."""

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        """Send one request and return a ``requests.Response``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAnswer:
    """An HTTP answer of placement.

    :ivar code: placement's error code, such as ``placement.inventory.inuse``; None where there is none.
    :ivar body: the JSON object, empty where there is none.
    """

    status: int
    code: str | None
    body: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        """Whether the request was carried out. A redirect is no success."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class PlacementClient:
    """A client of placement's HTTP API.

    :param adapter: an adapter with authentication and endpoint. It may repeat a request that was not answered
        (``connect_retries``), although the request may have arrived, and one that was answered with 503, and no other: a body
        carries a generation that is stale the second time, and callers handle the result of that.
    :param timeout: seconds that the operator allows for an answer: a GET that was not answered within them is not sent again.
        None: no limit.
    :param sleep: pauses before a GET is sent again; ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        adapter: PlacementAdapter,
        *,
        timeout: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeout = float('inf') if timeout is None else timeout
        self._adapter = adapter
        self._sleep = sleep
        self._clock = clock
        self._checked = False

    def check(self) -> None:
        """Check once whether placement is new enough. Every other request does so before it is sent.

        :raises PlacementUnreachable: no answer.
        :raises PlacementRefused: it is older than microversion 1.37 (Xena), or is no placement.
        """
        if self._checked:
            return
        answer = self._send('GET', '/', None)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise refusal('GET', '/', answer)  # placement may be starting
        highest = _highest(answer)
        if highest is None:
            raise PlacementRefused(
                f'placement: GET /: status {answer.status} without a list of versions',
                hint='check the endpoint of placement in [placement] and in the service catalogue',
            )
        if highest < MICROVERSION:
            raise PlacementRefused(
                f'placement: highest microversion is {_text(highest)}, but {_text(MICROVERSION)} is needed',
                hint='upgrade placement to Xena or later',
            )
        self._checked = True

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        may_be_forbidden: bool = False,
    ) -> PlacementAnswer:
        """Send one request.

        :param may_be_forbidden: return an answer of 403 instead of raising an error: the caller has another way.
        :raises PlacementUnreachable: no answer; it is unknown whether a write arrived.
        :raises PlacementRefused: placement cannot be used, or our credentials are refused.
        """
        self.check()
        answer = self._send(method, path if not query else f'{path}?{urlencode(query)}', body)
        if answer.status in _HINTS and not (may_be_forbidden and answer.status == HTTPStatus.FORBIDDEN):
            raise refusal(method, path, answer)
        return answer

    def get(self, path: str, **query: str) -> PlacementAnswer:
        """Send a GET, again where the answer was lost.

        :returns: an answer of 200, 204 or 404.
        :raises PlacementError: any other answer.
        """
        first = self._clock()
        for attempt in range(1, READS + 1):
            began = self._clock()
            try:
                answer = self.request('GET', path, query=query)
                if answer.ok or answer.status == HTTPStatus.NOT_FOUND:
                    return answer
                raise refusal('GET', path, answer)
            except PlacementUnreachable:
                now = self._clock()
                if attempt == READS or now - began >= READ_SECONDS or now - first >= self.timeout:
                    raise
            self._sleep(0.05 * 2**attempt * (0.5 + random.random() / 2))  # noqa: S311 - no secret
        raise AssertionError('unreachable')

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> PlacementAnswer:
        where = f'{method} {path.partition("?")[0]}'
        try:
            response = self._adapter.request(
                path,
                method,
                json=body,
                headers={'Accept': 'application/json'},
                microversion=_text(MICROVERSION) if path != '/' else None,
                microversion_service_type='placement',
                raise_exc=False,
            )
        except ksa.SSLError as exc:
            raise PlacementRefused(
                f'placement: {where}: the certificate of the server is not trusted', hint='set cafile in [placement]'
            ) from exc
        except (ksa.ConnectionError, ksa.HttpServerError, ksa.DiscoveryFailure) as exc:
            raise PlacementUnreachable(f'placement: {where}: {silence(exc)}', hint=_SILENCE_HINT) from exc
        except ksa.ClientException as exc:
            raise PlacementRefused(
                f'placement: {where}: request could not be sent ({type(exc).__name__})', hint='check the options in [placement]'
            ) from exc
        try:
            parsed = response.json() if response.content else {}
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            if response.status_code < HTTPStatus.BAD_REQUEST:
                raise PlacementRefused(
                    f'placement: {where}: status {response.status_code}, and the answer is not a JSON object',
                    hint='another service seems to answer at the endpoint of placement',
                )
            parsed = {}
        return PlacementAnswer(status=response.status_code, code=_code(parsed), body=parsed)


def silence(error: Exception) -> str:
    """Describe a request without an answer: how it failed, and at which server, which may have been Keystone.

    Of the library's message only scheme, host and port are used: the rest may contain what was sent, and a password.
    """
    found = _ORIGIN.search(str(error)[:_LONGEST_ERROR])
    where = '' if found is None else f', {found["scheme"]}{found["place"]}'
    return f'no answer ({type(error).__name__}{where})'


def refusal(method: str, path: str, answer: PlacementAnswer) -> PlacementError:
    """Return the error for an answer that is no success."""
    code = '' if answer.code is None else f' ({answer.code})'
    what = f'placement: {method} {path}: status {answer.status}{code}'
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return PlacementUnreachable(what)
    if path == RESHAPER and answer.status == HTTPStatus.FORBIDDEN:
        return PlacementRefused(what, hint=_RESHAPER_HINT)
    return PlacementRefused(what, hint=_HINTS.get(HTTPStatus(answer.status)) if answer.status in _HINTS else None)


def _code(body: Mapping[str, Any]) -> str | None:
    match body:
        case {'errors': [{'code': str(code)}, *_]}:
            return code[:100]
    return None


def _highest(answer: PlacementAnswer) -> tuple[int, int] | None:
    match answer.body:
        case {'versions': [{'max_version': str(text)}, *_]}:
            major, dot, minor = text[:_VERSION_CHARACTERS].partition('.')
            if dot and major.isdecimal() and minor.isdecimal():
                return int(major), int(minor)
    return None


def _text(version: tuple[int, int]) -> str:
    return f'{version[0]}.{version[1]}'

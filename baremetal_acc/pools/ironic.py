# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP client of Ironic's API: list nodes page by page, and ask for changes of their provision state; nothing else.

An error quotes at most one bounded line of Ironic's own text. No answer is read beyond a bound.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from keystoneauth1 import exceptions as ksa

from baremetal_acc.errors import IronicError, IronicRefused, IronicUnreachable
from baremetal_acc.placement.client import silence

MICROVERSION = '1.70'
"""The microversion of Ironic 17.0 (Wallaby), the first that can clean without a ramdisk."""

FIELDS = (
    'uuid', 'name', 'provision_state', 'target_provision_state', 'maintenance', 'instance_uuid',
    'resource_class', 'owner', 'reservation', 'last_error', 'protected', 'retired', 'driver_internal_info',
)  # fmt: skip

PAGE = 100
"""Nodes per page: driver_internal_info alone may have 64 KiB."""

MOST_NODES = 20_000

MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of one answer."""

TRIES = 40
PAUSE_SECONDS = 0.5
"""Pause before a request is repeated: a node that is locked for a moment answers 409. Ironic's own client waits as long."""

_HINTS = {
    HTTPStatus.UNAUTHORIZED: 'check the credentials in [ironic]',
    HTTPStatus.FORBIDDEN: (
        'the user in [ironic] needs the role member or service with system scope, or admin, manager or service in the project '
        'that owns the nodes'
    ),
    HTTPStatus.NOT_ACCEPTABLE: f'microversion {MICROVERSION} is needed: upgrade Ironic',
}

_SILENCE_HINT = 'check that the service runs and can be reached from this host; see auth_url and endpoint_override in [ironic]'

Json = Mapping[str, Any]


class IronicAdapter(Protocol):
    """The part of ``openstack.connection.Connection.baremetal`` that is used."""

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        """Send one request and return a ``requests.Response``."""


class IronicApi:
    """A client of Ironic's HTTP API. Threads may share it.

    :param sleep: pauses while a node is locked by somebody else.
    """

    def __init__(self, adapter: IronicAdapter, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._adapter = adapter
        self._sleep = sleep

    def nodes(self) -> Iterator[Json]:
        """Yield all nodes, with the fields in :data:`FIELDS`. Each page begins after the last UUID, not at a ``next`` link.

        :raises IronicError: Ironic cannot be read.
        """
        seen: set[str] = set()
        marker = ''
        while True:
            query = f'/nodes?limit={PAGE}&fields={",".join(FIELDS)}{marker}'
            found = self._take('GET', query).get('nodes')
            if not isinstance(found, list):
                raise _invalid('GET', '/nodes', 'the answer has no list of nodes')
            new = [n for n in found if isinstance(n, dict) and isinstance(n.get('uuid'), str) and n['uuid'] not in seen]
            if len(seen) + len(new) > MOST_NODES:
                raise IronicRefused(f'ironic: GET /nodes: more than {MOST_NODES} nodes, which pools do not support')
            seen.update(n['uuid'] for n in new)
            yield from new
            # A page may be shorter than the limit that was asked for: Ironic's [api] max_limit bounds it.
            if not new:
                return
            marker = f'&marker={new[-1]["uuid"]}'

    def node(self, uuid: str) -> Json | None:
        """Return one node; None where there is no such node.

        :raises IronicError: Ironic cannot be read.
        """
        try:
            return self._take('GET', f'/nodes/{uuid}?fields={",".join(FIELDS)}')
        except _NotFound:
            return None

    def provision(self, uuid: str, target: str, *, clean_steps: Sequence[Json] = ()) -> None:
        """Request a change of the provision state. A cleaning boots no ramdisk, since none of our steps needs one.

        :raises IronicRefused: the change is not possible now, not allowed for us, or impossible at all. Nothing was changed.
        :raises IronicUnreachable: no answer; the caller has to read whether it was done.
        """
        body: dict[str, Any] = {'target': target}
        if clean_steps:
            body |= {'clean_steps': list(clean_steps), 'disable_ramdisk': True}
        self._take('PUT', f'/nodes/{uuid}/states/provision', body)

    def _take(self, method: str, path: str, body: Json | None = None) -> Json:
        """Return the JSON object of an answer that is no error."""
        for attempt in range(TRIES):
            status, raw = self._send(method, path, body)
            if status not in (HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE) or attempt == TRIES - 1:
                break
            self._sleep(PAUSE_SECONDS)
        where = f'{method} {path.partition("?")[0]}'
        if status >= HTTPStatus.BAD_REQUEST:
            what = f'ironic: {where}: status {status}{_said(raw)}'
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise IronicUnreachable(what)
            if status == HTTPStatus.NOT_FOUND:
                raise _NotFound(what)
            raise IronicRefused(what, hint=_HINTS.get(HTTPStatus(status)) if status in _HINTS else None)
        try:
            found = json.loads(raw) if raw.strip() else {}
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _invalid(method, path, 'the answer is not a JSON object')
        return found

    def _send(self, method: str, path: str, body: Json | None) -> tuple[int, bytes]:
        where = f'{method} {path.partition("?")[0]}'
        try:
            response = self._adapter.request(
                path,
                method,
                json=body,
                headers={'Accept': 'application/json'},
                microversion=MICROVERSION,
                raise_exc=False,
                stream=True,
            )
            with response:
                found = bytearray()
                for chunk in response.iter_content(65536):
                    found += chunk
                    if len(found) > MOST_BYTES:
                        raise IronicRefused(f'ironic: {where}: the answer has more than {MOST_BYTES} bytes')
                return int(response.status_code), bytes(found)
        except ksa.SSLError as exc:
            raise IronicRefused(
                f'ironic: {where}: the certificate of the server is not trusted', hint='set cafile in [ironic]'
            ) from exc
        except (ksa.Unauthorized, ksa.MissingAuthPlugin) as exc:
            raise IronicRefused(f'ironic: {where}: authentication failed', hint=_HINTS[HTTPStatus.UNAUTHORIZED]) from exc
        except (ksa.ConnectionError, ksa.HttpServerError, ksa.DiscoveryFailure, OSError) as exc:
            raise IronicUnreachable(f'ironic: {where}: {silence(exc)}', hint=_SILENCE_HINT) from exc
        except IronicError:
            raise
        except Exception as exc:
            # The SDK has an exception tree of its own next to keystoneauth's; its texts may contain the whole answer.
            raise IronicUnreachable(
                f'ironic: {where}: request could not be sent ({type(exc).__name__})', hint='check the options in [ironic]'
            ) from exc


class _NotFound(IronicRefused):
    """Ironic has no such node."""


def _invalid(method: str, path: str, what: str) -> IronicRefused:
    where = f'{method} {path.partition("?")[0]}'
    return IronicRefused(f'ironic: {where}: {what}', hint='another service seems to answer at the endpoint of Ironic')


def _said(raw: bytes) -> str:
    """Return Ironic's error message on one line. Ironic wraps it in JSON, and older versions in JSON within JSON."""
    try:
        found = json.loads(raw)
        inner = found.get('error_message') if isinstance(found, dict) else None
        inner = json.loads(inner) if isinstance(inner, str) and inner.startswith('{') else inner
        text = inner.get('faultstring') if isinstance(inner, dict) else inner
    except (ValueError, RecursionError):
        return ''
    return '' if not isinstance(text, str) else f': {one_line(text)}'


def one_line(text: str, most: int = 500) -> str:
    """Return a text of a service on one line of bounded length."""
    flat = ' '.join(''.join(c if c.isprintable() else ' ' for c in text[: most * 2]).split())
    return flat if len(flat) <= most else f'{flat[: most - 3]}...'

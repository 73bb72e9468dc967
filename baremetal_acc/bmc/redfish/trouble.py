# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Why did an answer not come? The layers below wrap the reason into one another; people want it in words."""

import socket
import ssl
from collections.abc import Iterator
from typing import Any

import requests
import urllib3

from baremetal_acc.bmc.redfish.transport import TransportError


def causes(exc: BaseException) -> Iterator[BaseException]:
    """The exception and everything below it: requests and urllib3 put the real one into args and reason."""
    waiting: list[Any] = [exc]
    seen: set[int] = set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, BaseException) and id(item) not in seen:
            seen.add(id(item))
            yield item
            waiting += [item.__cause__, item.__context__, getattr(item, 'reason', None), *item.args]


def reason(exc: BaseException) -> str:
    """Why there is no answer, in words."""
    if isinstance(exc, TransportError):
        return str(exc)
    found = list(causes(exc))

    def among(*kinds: type[BaseException]) -> bool:
        return any(isinstance(c, kinds) for c in found)

    if among(urllib3.exceptions.NameResolutionError, socket.gaierror):
        return 'its name is not known (DNS)'
    if among(ConnectionRefusedError):
        return 'connection refused'
    if among(requests.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError):
        return 'no connection in time'
    if among(requests.ReadTimeout, urllib3.exceptions.ReadTimeoutError, TimeoutError):
        return 'no answer in time'
    if among(ssl.SSLError, requests.exceptions.SSLError):
        tls = next((c for c in found if isinstance(c, ssl.SSLError)), None)
        return f'no TLS there: {tls.reason or "handshake failed"}' if tls is not None else 'no TLS there'
    if among(ConnectionError, urllib3.exceptions.ProtocolError, requests.ConnectionError):
        return 'the connection broke'
    return f'no answer ({type(exc).__name__})'

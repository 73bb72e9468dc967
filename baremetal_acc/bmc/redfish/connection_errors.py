# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of a Redfish request: :class:`HttpRefused` for an HTTP error status, and the cause of a connection error in words."""

import socket
import ssl
from http import HTTPStatus

from baremetal_acc.errors import BmcRefusalReason, BmcRefused
from baremetal_acc.http.transport_errors import TransportError

_REASONS: dict[int, BmcRefusalReason] = {
    HTTPStatus.NOT_FOUND: BmcRefusalReason.NOT_FOUND,
    HTTPStatus.GONE: BmcRefusalReason.GONE,
    HTTPStatus.CONFLICT: BmcRefusalReason.CONFLICT,
}


class HttpRefused(BmcRefused):
    """A request was answered with an HTTP error status, or with a redirect that is not followed.

    :ivar status: the HTTP status.
    :ivar about: MessageIds of the answer, and what its messages refer to.
    """

    def __init__(self, *, bmc: str, what: str, uri: str, status: int, about: frozenset[str] = frozenset()) -> None:
        self.status = status
        self.about = about
        super().__init__(bmc=bmc, what=what, uri=uri, reason=_reason(status))


def _reason(status: int) -> BmcRefusalReason:
    """The reason for an HTTP status. Source: RFC 9110, section 15."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return BmcRefusalReason.INTERNAL_ERROR
    if status < HTTPStatus.BAD_REQUEST:
        return BmcRefusalReason.OTHER
    return _REASONS.get(status, BmcRefusalReason.INVALID_REQUEST)


def reason(exc: OSError) -> str:
    """Why there was no answer, in words."""
    match exc:
        case TransportError():
            return str(exc)
        case socket.gaierror():
            return 'the host name cannot be resolved (DNS)'
        case ConnectionRefusedError():
            return 'connection refused'
        case TimeoutError():
            return 'no answer in time'
        case ssl.SSLError():
            return f'no TLS connection: {exc.reason or "handshake failed"}'
        case ConnectionError():
            return 'the connection broke'
    return f'no answer ({type(exc).__name__})'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Errors for a Redfish service's answers that are no success: whose fault it is, and whether to retry."""

import re
import ssl
from http import HTTPStatus

from baremetal_acc.bmc.driver import BmcAddress, Setting
from baremetal_acc.bmc.redfish import connection_errors
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.bmc.redfish.credential_redactor import CredentialRedactor
from baremetal_acc.bmc.redfish.extended_info import NO_SESSION_FREE, NO_SESSION_WORDS, said, said_to_login
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer, parsed_json
from baremetal_acc.bmc.retry import Later, retry_after
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcConflict,
    BmcError,
    BmcNoSessionFree,
    BmcNotAuthorised,
    BmcUnreachable,
    BmcUntrusted,
)

_DAY = 86_400.0

_INSUFFICIENT_STORAGE = 507
"""An answer to a login that stands for "no free session", as a login stores only a session. Source: RFC 4918, section 11.5."""

_NOT_DONE = frozenset({301, 307, 308})
"""Redirects of a request that was not done; 302 also follows a form that was accepted. Source: RFC 9110, section 15.4."""

_FOR_ANOTHER_NAME = (62, 64)
"""Verification errors for a certificate of another host name.

X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH. Source: OpenSSL 3, x509_vfy.h.
"""

READ_METHODS = frozenset({'GET', 'HEAD'})
_MAY_PASS = frozenset({429, 500, 502, 503, 504})
_PRECONDITIONS = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED})
_PRECONDITION_IDS = frozenset({'HeaderInvalid', 'PreconditionFailed', 'PreconditionRequired'})
"""MessageIds of a refused If-Match: of our headers only a condition has a value of the BMC's own that it may fail to parse.

Source: RFC 9110, section 15.5.13; RFC 6585, section 3; DSP8011, Base registry.
"""

_BUSY_IDS = frozenset({'ServiceTemporarilyUnavailable', 'UpdateInProgress', 'SessionLimitExceeded', 'ResourceInUse'})

_NOT_TAKEN = re.compile(r'Busy|InProgress|Unavailable|InUse|NotReady|LimitExceeded|ShuttingDown|ServiceDisabled')
"""MessageIds by which a service says with HTTP 503 that it has not accepted a request; vendors have MessageIds of their own.

Source: DSP8011, registries Base (ServiceTemporarilyUnavailable, ServiceShuttingDown, ResourceInUse, SessionLimitExceeded) and
Update (UpdateInProgress).
"""

_BY_GATEWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
"""Statuses that a BMC's web server sends if the service behind it does not answer. Source: RFC 9110, section 15.6."""


class AnswerErrors:
    """Makes the errors of answers that are no success, and of requests without an answer."""

    def __init__(self, address: BmcAddress, redactor: CredentialRedactor) -> None:
        self._address = address
        self._label = address.label
        self._redact = redactor.redact

    def raise_for(self, method: str, answer: RedfishAnswer, *, login: bool = False) -> None:
        """Raise the error of an answer; do nothing if it has a status of success.

        :param login: it is the answer to a login.
        :raises Later: a read may be retried. ``BmcError``: all others.
        """
        status = answer.status
        if status < 300:
            return
        if status < 400:
            what = f'{method} was answered with a redirect (HTTP {status})'
            if method in READ_METHODS:
                raise BmcAnswerInvalid(bmc=self._label, uri=answer.url, what=what)
            raise self.redirected(answer.url, status, what)
        if login:
            raise self._refused_login(answer)
        words = said(parsed_json(answer.content), self._redact)
        text = f': {words.text}' if words.text else ''
        error: BmcError
        if method not in READ_METHODS and status in _BY_GATEWAY and not any(map(_NOT_TAKEN.search, words.ids)):
            # The gateway may have passed the request on to the service, and lost only the answer.
            what = f'{_status(status)}{text}, not sent by the Redfish service; whether the request arrived is unknown'
            raise BmcUnreachable(bmc=self._label, uri=answer.url, what=what)
        if status == HTTPStatus.UNAUTHORIZED:
            error = self.not_authorised(answer.url, f'not logged in (HTTP 401){text}')
        elif status == HTTPStatus.FORBIDDEN:
            error = self.not_authorised(answer.url, f'not allowed (HTTP 403){text}')
        elif status in _PRECONDITIONS or words.ids & _PRECONDITION_IDS:
            error = BmcConflict(
                bmc=self._label, uri=answer.url, what=f'the condition of the write was refused (HTTP {status}){text}'
            )
        elif status in (429, 503) or (status in (400, 409, 423, 500) and words.ids & _BUSY_IDS):
            error = BmcBusy(bmc=self._label, uri=answer.url, what=f'busy, {_soon(answer)} (HTTP {status}){text}')
        else:
            error = HttpRefused(
                bmc=self._label,
                uri=answer.url,
                status=status,
                about=words.ids | words.about,
                what=f'{method} refused with {_status(status)}{text}',
            )
        if method in READ_METHODS and status in _MAY_PASS:
            raise Later(error, retry_after(answer.headers.get('Retry-After')))
        raise error

    def _refused_login(self, answer: RedfishAnswer) -> BmcError:
        """The error for a login that was answered with a status of 400 or more, with the BMC's own reason."""
        status = answer.status
        words = said_to_login(parsed_json(answer.content), self._address.username, self._address.password)
        text = f': {words.text}' if words.text else ''
        in_words = status != HTTPStatus.UNAUTHORIZED and NO_SESSION_WORDS.match(words.text)
        if words.ids & NO_SESSION_FREE or status == _INSUFFICIENT_STORAGE or in_words:
            return BmcNoSessionFree(
                bmc=self._label,
                uri=answer.url,
                what=f'no session is free (HTTP {status}){text}',
                hint='end unused sessions on the BMC'
                + ('' if self._address.basic_auth else ', or set option [baremetal_acc] bmc_basic_auth'),
            )
        if status in (429, 503):
            return BmcBusy(bmc=self._label, uri=answer.url, what=f'busy, {_soon(answer)} (HTTP {status}){text}')
        if status == HTTPStatus.UNAUTHORIZED:
            return self.not_authorised(answer.url, 'login refused')
        if status == HTTPStatus.FORBIDDEN:
            return self.not_authorised(answer.url, f'login refused{text}')
        what = f'login refused ({_status(status)}){text}'
        return HttpRefused(bmc=self._label, uri=answer.url, status=status, what=what)

    def broken(self, exc: OSError, path: str, method: str) -> BmcError:
        """The error for a connection that brought no answer."""
        if isinstance(exc, ssl.SSLCertVerificationError):
            hint = f'set {self._address.set_by[Setting.VERIFY_CA]} to the file of the CA that signed the certificate'
            if exc.verify_code in _FOR_ANOTHER_NAME:
                hint = (
                    'use a host name that is a subjectAltName of the certificate, or install a certificate for this host name'
                )
            return BmcUntrusted(bmc=self._label, what=f'the certificate is not trusted: {exc.verify_message}', hint=hint)
        what = unknown_outcome(method, connection_errors.reason(exc))
        return BmcUnreachable(bmc=self._label, uri=path, what=what, hint='check address, network and power of the BMC')

    def redirected(self, path: str, status: int, what: str) -> BmcError:
        """The error for a write whose redirect is not followed."""
        if status in _NOT_DONE:
            return HttpRefused(bmc=self._label, uri=path, what=what, status=status)
        return BmcAnswerInvalid(bmc=self._label, uri=path, what=what)

    def not_authorised(self, uri: str | None, what: str) -> BmcNotAuthorised:
        """The error for refused credentials."""
        return BmcNotAuthorised(
            bmc=self._label, uri=uri, what=what, hint='check username and password, and the role of that user on the BMC'
        )


def unknown_outcome(method: str, what: str) -> str:
    """Why there is no answer; for a write, with the note that it may have arrived."""
    return what if method in READ_METHODS else f'{what}; whether the request arrived is unknown'


def _soon(answer: RedfishAnswer) -> str:
    after = retry_after(answer.headers.get('Retry-After'))
    return f'retry in {after:.0f} s' if after is not None and after <= _DAY else 'retry later'


def _status(status: int) -> str:
    try:
        return f'HTTP {status} {HTTPStatus(status).phrase}'
    except ValueError:
        return f'HTTP {status}'

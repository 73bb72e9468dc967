# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that a login and a logout send: the protocol of the client, and the value of Basic authentication."""

import base64
from collections.abc import Mapping
from typing import Protocol

import sushy.auth

from baremetal_acc.errors import BmcNotAuthorised


class Answered(Protocol):
    """The answer to a login."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> bytes: ...


class Sender(Protocol):
    """The methods of a :class:`.Connector` that a login uses."""

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


def basic_authorization(username: str, password: str) -> str:
    """The value of the Authorization header. Source: RFC 7617, section 2; UTF-8 as in section 2.1."""
    return 'Basic ' + base64.b64encode(f'{username}:{password}'.encode()).decode()

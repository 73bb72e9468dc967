# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our own credentials for the recorded BMC, which must not appear in a recording."""

import base64
import re
from collections.abc import Callable

SECRET = 'scrubbed'  # noqa: S105 - the replacement of a secret
"""Replaces passwords, keys and certificates, whatever they were: not even their length is kept."""


class Own:
    """Our own credentials for the BMC, which must not appear in a recording.

    :param redact: removes the password and the session token from a text; the connector knows the token.
    """

    def __init__(self, username: str | None, password: str | None, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._password = password
        self._username = username if username is not None and len(username) >= 3 else None
        self.pattern = rf'(?-i:(?<![A-Za-z0-9]){re.escape(self._username)}(?![A-Za-z0-9]))' if self._username else None
        self.username = self._username
        pairs = [f'{username}:{password}', password] if username and password else []
        self._encoded = tuple(f(p.encode()).decode().rstrip('=') for p in pairs for f in (base64.b64encode,) if len(p) > 3)

    def without_secrets(self, text: str) -> str:
        """A text without password and token."""
        for secret in (self._password, *self._encoded):
            text = text.replace(secret, SECRET) if secret else text
        return self._redact(text)

    def stands_in(self, text: str) -> str | None:
        """Which of the credentials a text contains, in words; None: none."""
        rest = text.replace('/redfish/v1', '')
        if self.without_secrets(rest) != rest:
            return 'the password or the session token'
        if self.pattern is not None and re.search(self.pattern, rest):
            return 'the user name'
        return None

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Remove our password and session tokens from texts of a BMC."""

import base64

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.login import MAX_LOGINS


class CredentialRedactor:
    """Removes our credentials for one BMC from texts: some BMCs repeat in an error what they were sent."""

    def __init__(self, address: BmcAddress) -> None:
        self._secrets = _secrets(address)
        self._tokens: tuple[str, ...] = ()

    def add(self, token: str) -> None:
        """Remove this token, too, and those of the last logins."""
        self._tokens = (*self._tokens[1 - MAX_LOGINS :], token)

    def redact(self, text: str) -> str:
        """A BMC's text without our password and tokens."""
        for secret in (*self._secrets, *self._tokens):
            text = text.replace(secret, '***')
        return text


def _secrets(address: BmcAddress) -> tuple[str, ...]:
    """Our credentials in the forms that must not be repeated: the password, and the value of Basic authentication."""
    if not address.password:
        return ()
    basic = base64.b64encode(f'{address.username or ""}:{address.password}'.encode()).decode()
    return (basic, address.password)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build and check BMC addresses (``https://``, ``http://``, ``ipmi://``), and parse the IPMI BMC key K_G."""

import re
from urllib.parse import urlsplit

IPMI_SCHEME = 'ipmi://'

PORT_EXPECTED = 'a number from 1 to 65535 expected'

KEY_EXPECTED = 'an even number of hexadecimal digits expected, at most 40'

IPMI_FIXED = (
    ('ipmi_protocol_version', '2.0', 'IPMI 1.5 encrypts nothing'),
    ('ipmi_bridging', 'no', 'a BMC behind another BMC is not supported; controllers of cards are found automatically'),
    (
        'ipmi_priv_level',
        'ADMINISTRATOR',
        'it is needed to write firmware and locks; sessions that only read use a lower privilege',
    ),
)
"""``ipmi_*`` keys of Ironic's driver_info that allow one value only: the key, that value, and the reason."""


def speaks_ipmi(address: str) -> bool:
    """Whether an address is an IPMI one; all others are Redfish."""
    return address.casefold().startswith(IPMI_SCHEME)


def example(address: str) -> str:
    """An example address of the same protocol."""
    return f'{IPMI_SCHEME if speaks_ipmi(address) else "https://"}192.0.2.1'


def ipmi_address(host: str, port: int | None) -> str:
    """The ``ipmi://`` address of a BMC, from Ironic's host and port."""
    bare = f'[{host}]' if host.count(':') > 1 and not host.startswith('[') else host
    return f'{IPMI_SCHEME}{bare}' + (f':{port}' if port is not None else '')


def check_address(text: str) -> str | None:
    """Why a text is not a valid BMC address, or None when it is. The text is not repeated: it may hold a password."""
    both = '' if '://' in text else f' or {IPMI_SCHEME}192.0.2.1'
    none = f'is not a URL such as {example(text)}{both}'
    if '@' in text:
        return 'contains credentials; give them as username and password'
    try:
        parts = urlsplit(text)
    except ValueError:
        return none
    if not parts.scheme or not parts.hostname or any(c.isspace() for c in text):
        return none
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        return f'has an invalid port: {PORT_EXPECTED}'
    if parts.query or parts.fragment:
        return 'contains more than scheme, host, port and path'
    if speaks_ipmi(text) and parts.path.strip('/'):
        return none
    return None


def ipmi_key(digits: str) -> bytes | None:
    """Parse K_G from hexadecimal digits, as Ironic stores it; a key of zeros only means no key.

    :raises ValueError: the digits are not a key (:data:`KEY_EXPECTED`). The text is not repeated.
    """
    if not re.fullmatch(r'([0-9A-Fa-f]{2}){1,20}', digits):
        raise ValueError(KEY_EXPECTED)
    found = bytes.fromhex(digits)
    return found if any(found) else None

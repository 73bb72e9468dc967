# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What may an operator write as the address of a BMC, and as the key of one that speaks IPMI?"""

import re
from urllib.parse import urlsplit

IPMI_SCHEME = 'ipmi://'

PORT_EXPECTED = 'a number from 1 to 65535 expected'

KEY_EXPECTED = 'up to 40 hexadecimal digits expected, an even number of them'

IPMI_FIXED = (
    ('ipmi_protocol_version', '2.0', 'IPMI 1.5 encrypts nothing'),
    ('ipmi_bridging', 'no', 'a BMC behind another one is not spoken to; controllers of cards are found by themselves'),
    ('ipmi_priv_level', 'ADMINISTRATOR', 'firmware and locks are written with it; what only reads asks for less by itself'),
)
"""Keys of Ironic with the one value that is taken, and why."""


def speaks_ipmi(address: str) -> bool:
    """Whether an address is one of IPMI; all others are of Redfish."""
    return address.casefold().startswith(IPMI_SCHEME)


def example(address: str) -> str:
    """How an address of this kind is written."""
    return f'{IPMI_SCHEME if speaks_ipmi(address) else "https://"}192.0.2.1'


def ipmi_address(host: str, port: int | None) -> str:
    """The address of a BMC that Ironic names by its host and its port."""
    bare = f'[{host}]' if host.count(':') > 1 and not host.startswith('[') else host
    return f'{IPMI_SCHEME}{bare}' + (f':{port}' if port is not None else '')


def check_address(text: str) -> str | None:
    """Why a text is no address of a BMC, or None when it is one. The text is not repeated: it may hold a password."""
    both = '' if '://' in text else f' or {IPMI_SCHEME}192.0.2.1'
    none = f'is no URL like {example(text)}{both}'
    if '@' in text:
        return 'holds credentials; give them as username and password'
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
        return f'has no port that there is: {PORT_EXPECTED}'
    if parts.query or parts.fragment:
        return 'holds more than scheme, host, port and path'
    if speaks_ipmi(text) and parts.path.strip('/'):
        return none
    return None


def ipmi_key(digits: str) -> bytes | None:
    """K_G in hexadecimal digits, as Ironic has it; zeros are none.

    :raises ValueError: it is none (:data:`KEY_EXPECTED`). The text is not repeated.
    """
    if not re.fullmatch(r'([0-9A-Fa-f]{2}){1,20}', digits):
        raise ValueError(KEY_EXPECTED)
    found = bytes.fromhex(digits)
    return found if any(found) else None

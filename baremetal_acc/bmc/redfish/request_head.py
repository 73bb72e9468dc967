# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write the request line and the headers of an HTTP request to a BMC as bytes."""

import re
from collections.abc import Mapping

from baremetal_acc.http.transport_errors import TransportError

COMMON_HEADERS = {
    'Accept': 'application/json',
    'Accept-Encoding': 'identity',
    'OData-Version': '4.0',
    'User-Agent': 'baremetal-acc',
}

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\r\n\x00\u0100-\U0010ffff]*\r\n")
"""One header line with its line end. Source: RFC 9110, section 5."""


def header_block(headers: Mapping[str, str]) -> str:
    """Headers as they are sent.

    :raises TransportError: a value may not occur in a header. Tokens and ETags come from the BMC.
    """
    lines = [f'{name}: {value}\r\n' for name, value in headers.items()]
    if not all(map(_HEADER.fullmatch, lines)):
        raise TransportError('a header was not sent, because its value is invalid')
    return ''.join(lines)

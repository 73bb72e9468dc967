# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Why did an answer not come? People want it in words."""

import socket
import ssl

from baremetal_acc.bmc.redfish.transport import TransportError


def reason(exc: OSError) -> str:
    """Why there is no answer, in words."""
    match exc:
        case TransportError():
            return str(exc)
        case socket.gaierror():
            return 'its name is not known (DNS)'
        case ConnectionRefusedError():
            return 'connection refused'
        case TimeoutError():
            return 'no answer in time'
        case ssl.SSLError():
            return f'no TLS there: {exc.reason or "handshake failed"}'
        case ConnectionError():
            return 'the connection broke'
    return f'no answer ({type(exc).__name__})'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Normalise BMC addresses to endpoints, to tell whether two addresses are those of one BMC.

An endpoint is an IP address with a port, or a host name with a port. Two addresses that share an endpoint are one BMC's.
"""

import ipaddress
import re
import socket
from urllib.parse import urlsplit

_PORTS = {'http': 80, 'https': 443, 'ipmi': 623}

_NUMERIC = re.compile(r'[0-9a-fx.]+|[0-9a-f.]*:[0-9a-z.:%_-]*')
"""What may be an IP address: 127.1 and 0x7f.1 are also accepted as addresses when a program connects to them."""

_LOOPBACK = frozenset({'127.0.0.1', '::1'})


def written(address: str) -> frozenset[str]:
    """The endpoints that follow from the text of an address: no name is resolved, except ``localhost``."""
    parts = urlsplit(address)
    host = (parts.hostname or '').rstrip('.')
    if host == 'localhost' or host.endswith('.localhost'):  # RFC 6761, section 6.3
        return _at(_LOOPBACK, address)
    return _at(_asked(host, socket.AI_NUMERICHOST) if _NUMERIC.fullmatch(host) else frozenset({host}), address)


def resolved(address: str) -> frozenset[str]:
    """All endpoints of an address: those of its text, and those that its name resolves to now.

    A name that does not resolve is an endpoint itself.
    """
    host = (urlsplit(address).hostname or '').rstrip('.')
    return written(address) | _at(_asked(host), address)


def _at(hosts: frozenset[str], address: str) -> frozenset[str]:
    parts = urlsplit(address)
    port = parts.port or _PORTS.get(parts.scheme, 443)
    return frozenset(f'[{host}]:{port}' if ':' in host else f'{host}:{port}' for host in hosts)


def _asked(host: str, flags: int = 0) -> frozenset[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, ValueError):  # ValueError: the text cannot be a host name
        return frozenset({host})
    return frozenset(_plain(str(address[0])) for *_, address in found)


def _plain(text: str) -> str:
    """The address in normal form; an IPv4-mapped IPv6 address becomes the IPv4 address."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    return str(getattr(found, 'ipv4_mapped', None) or found)

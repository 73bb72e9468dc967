# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Path and query of a request: resolve a BMC's links to them, and refuse those that lead off the BMC."""

import functools
import re
from urllib.parse import quote, urljoin, urlsplit

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.errors import BmcAnswerInvalid, UsageError

MAX_URI = 2048
"""Characters. Real URIs are shorter than 200; a longer one is an attack on the code that prints or stores it."""

_SEGMENTS = r"(?:/[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9._~!$&'()*+,;=:@-]*)+"

PLACE = re.compile(_SEGMENTS)
"""A path in normal form: without empty or dot segments, percent-encoding, query or trailing slash. Most paths are."""

_PLAIN = re.compile(_SEGMENTS + r"/?(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?")
"""The same, with an optional query or trailing slash."""

_RESERVED = "!#$&'()*+,/:;=?@[]~"
"""Characters that are not quoted. Source: RFC 3986, section 2.2; the tilde is unreserved."""

_STRAY = re.compile('%(?![0-9A-Fa-f]{2})')
"""A per cent sign that does not begin a percent-encoded byte."""


@functools.lru_cache(maxsize=8192)
def is_plain(uri: str) -> bool:
    """Whether a URI can be used as a path as it is. Cached, as machines of one product have the same URIs."""
    return _PLAIN.fullmatch(uri) is not None


def requoted(path: str) -> str:
    """A path as it is sent: characters that may not occur are percent-encoded, what is encoded already stays so.

    Source: RFC 3986, section 2.
    """
    return quote(path, safe=_RESERVED if _STRAY.search(path) is not None else f'%{_RESERVED}')


def origin_of(address: BmcAddress) -> tuple[str, str]:
    """Scheme and authority of an address.

    :raises UsageError: it is no address of a Redfish service.
    """
    try:
        parts = urlsplit(address.address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit('')
    if (
        parts.scheme not in ('https', 'http')
        or not host
        or parts.username
        or parts.path.strip('/')
        or parts.query
        or parts.fragment
    ):
        raise UsageError(
            argument=f'address of BMC {address.name}',
            what='not an address of a Redfish service',
            hint='write it as https://HOST[:PORT]',
        )
    return parts.scheme, _authority(parts.scheme, host, port)


def _authority(scheme: str, host: str | None, port: int | None) -> str:
    name = (host or '').lower()
    name = f'[{name}]' if ':' in name else name
    return name if port in (None, {'https': 443, 'http': 80}.get(scheme)) else f'{name}:{port}'


def host_and_port(address: BmcAddress) -> tuple[str, int]:
    """Host and port to connect to."""
    parts = urlsplit(address.address)
    return parts.hostname or '', parts.port or {'https': 443, 'http': 80}[parts.scheme]


def resolve(uri: str, base: str, origin: tuple[str, str], label: str) -> str:
    """Resolve a URI to a path on a BMC.

    :param base: path that a relative URI is resolved against.
    :param origin: scheme and authority of the BMC. ``label``: its name in messages.
    :raises BmcAnswerInvalid: it leads off the BMC.
    """
    try:
        whole = urljoin(f'{origin[0]}://{origin[1]}{base}', uri.strip()[: MAX_URI + 1])
        parts = urlsplit(whole)
        same = (parts.scheme, _authority(parts.scheme, parts.hostname, parts.port)) == origin
        clean = len(whole) <= MAX_URI and whole.isprintable() and ' ' not in whole
        whole.encode()  # a lone surrogate can neither be sent nor stored
    except ValueError:
        same = False
    if not same or not clean or parts.username is not None:
        raise BmcAnswerInvalid(bmc=label, what=f'a link does not point to this BMC and is not followed: {uri[:200]!r}')
    return parts.path + (f'?{parts.query}' if parts.query else '')


def normal_target(place: str) -> tuple[str, str]:
    """A path and its query in normal form, for comparison: without superfluous slashes, and case-folded."""
    path, _, query = place.partition('?')
    return re.sub('/+', '/', path).rstrip('/').casefold(), query

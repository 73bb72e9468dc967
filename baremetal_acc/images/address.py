# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse http and https URLs of images, so strictly that no two parsers can disagree about the server."""

import re
from dataclasses import dataclass

PORTS = {'https': 443, 'http': 80}

_HOST = r'\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?'

_URL = re.compile(
    rf'(?P<scheme>https?)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?(?P<path>/[a-z0-9._~!$&\'()*+,;=:@/%-]*)?'
    r'(?P<query>\?[a-z0-9._~!$&\'()*+,;=:@/?%-]*)?',
    re.ASCII | re.IGNORECASE,
)
"""RFC 3986 without user information and fragment, and only with characters that need no escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlOrigin:
    """Scheme, host and port of a server that may be contacted."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f'{self.scheme}://{self.host}:{self.port}'


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUrl:
    """A parsed URL.

    :ivar file: the last segment of its path, empty if it ends with a slash.
    """

    url: str
    origin: UrlOrigin
    path: str

    @property
    def file(self) -> str:
        """The last segment of the path, empty if the path ends with a slash."""
        return self.path.rpartition('/')[2]

    def __str__(self) -> str:
        """The URL without its query, which may contain a token."""
        return f'{self.origin}{self.path}'


def parse(text: str) -> ImageUrl:
    """Parse a URL.

    :raises ValueError: the text is no plain http(s) URL; the message says why, and repeats none of the text.
    """
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError('is not a plain URL like https://HOST[:PORT]/PATH (without user name, password and fragment)')
    scheme, host = found['scheme'].lower(), found['host'].lower()
    port = int(found['port']) if found['port'] else PORTS[scheme]
    if not 0 < port < 65536 or '..' in host:
        raise ValueError('has an invalid host or port')
    path = found['path'] or '/'
    return ImageUrl(
        url=f'{scheme}://{host}:{port}{path}{found["query"] or ""}',
        origin=UrlOrigin(scheme=scheme, host=host, port=port),
        path=path,
    )


def origin(text: str) -> UrlOrigin:
    """Return the server that an entry of the allowed hosts names: ``HOST[:PORT]`` for TLS, or ``http://HOST[:PORT]`` without.

    :raises ValueError: the entry is neither.
    """
    found = parse(text if '://' in text else f'https://{text}')
    if found.path != '/' or '?' in found.url:
        raise ValueError('has more than a host and a port')
    return found.origin

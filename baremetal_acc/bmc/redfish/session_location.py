# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the URI of a session in the answer to a login, for the DELETE that logs out."""

import contextlib
import json
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from baremetal_acc.bmc.redfish.login_requests import Answered
from baremetal_acc.errors import BmcAnswerInvalid

MAX_PLACE = 2048
"""Characters of a session's URI. Real URIs have fewer than 100."""

_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+/?")

_UNCLEAR = re.compile(r'/\.{1,2}(?:/|\Z)|%2[ef]|%5c', re.IGNORECASE)
"""Dot segments, and what decodes to one or to a slash: such a path may be that of another resource."""


Resolve = Callable[[str, str], str]
"""Makes a link a path on the BMC, relative to a base path. Raises BmcAnswerInvalid if it leads off the BMC."""


def session_places(answer: Answered, collection: str, resolve: Resolve) -> tuple[str, ...]:
    """URIs at which the session may be deleted, the likeliest first; empty when the BMC does not name one.

    Location comes first, then the body's ``@odata.id``, then its ``Id`` below the collection.

    :param collection: URI of the session collection. ``resolve``: makes a link a path on this BMC.
    """
    named: list[object] = [answer.headers.get('Location')]
    with contextlib.suppress(ValueError, RecursionError):
        body = json.loads(answer.content or b'null')
        if isinstance(body, dict):
            named += [body.get('@odata.id'), f'{collection}/{body["Id"]}' if isinstance(body.get('Id'), str) else None]
    for uri in named:
        place = session_place(uri, collection, resolve) if isinstance(uri, str) and uri.strip() else None
        if place is not None:
            return tuple(dict.fromkeys((place.rstrip('/'), place)))
    return ()


def session_place(uri: str, collection: str, resolve: Resolve) -> str | None:
    """A session's URI as a path on this BMC, None when it is not the URI of a session.

    A URI of another authority (BMCs behind NAT write their own) counts by its path, if that is below the collection.
    One that begins with ``redfish/v1/`` lacks its first slash (DMTF/python-redfish-library#57).
    """
    for base in ('/', collection, f'{collection}/'):  # RFC 3986 resolves "7" beside the collection; BMCs mean below it
        try:
            path = resolve(uri, base)
        except BmcAnswerInvalid:
            break
        named = base != '/' and _is_session(path, path.rstrip('/').rpartition('/')[0], named='sessions')
        if named or _is_session(path, collection):
            return path
    try:
        path = urlsplit(uri.strip()[:MAX_PLACE]).path
    except ValueError:
        return None
    return path if _is_session(path, collection) else None


def _is_session(path: str, collection: str, named: str | None = None) -> bool:
    """Whether a path is that of one session of a collection.

    :param named: required last segment of the collection, in any letter case.
    """
    if named is not None and collection.rpartition('/')[2].casefold() != named:
        return False
    below = path.removeprefix(f'{collection}/')
    return below != path and _SEGMENT.fullmatch(below) is not None and not _UNCLEAR.search(path)

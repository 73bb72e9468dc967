# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Normalise Redfish URIs for comparison, and find the resource that a link written in another case means.

Sources: RFC 3986, section 6.2.2 (needless percent-encoding, and case of the digits); DSP0266, "URI naming and resource paths":
URIs are case-sensitive. BMCs whose URIs are not, and that write their links in another case, were seen.
"""

import re
from collections.abc import Iterable, Mapping

_ENCODED = re.compile(r'%([0-9A-Fa-f]{2})')

_NEEDS_NONE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@")
"""Characters that need no percent-encoding in a segment of a path. Source: RFC 3986, section 3.3."""


def normal(path: str) -> str:
    """Return a path in normal form.

    Without query, fragment, trailing or doubled slashes, and percent-encoded only where necessary.
    """
    bare = path.partition('#')[0].partition('?')[0]
    while '//' in bare:
        bare = bare.replace('//', '/')
    if '%' in bare:
        bare = _ENCODED.sub(_decoded, bare)
    return bare.rstrip('/') or '/'


def _decoded(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _NEEDS_NONE else match[0].upper()


DEVICE = re.compile(
    r'(.*/(?:Systems|Chassis|Processors|SubProcessors|PCIeDevices|PCIeFunctions|NetworkAdapters|GraphicsControllers)/[^/]+)'
    r'(?:/.*)?',
    re.DOTALL,
)
"""Matches the URIs of a device or its container, and of everything below it; the first group is the device.

Source: DSP8010 2025.4, the URIs of these schemas.
"""


def differ_in_case_only(one: str, other: str) -> bool:
    """Tell whether two paths in normal form differ in case, and in nothing else."""
    return one != other and one.casefold() == other.casefold()


class Spellings:
    """The spelling of a BMC's URIs, for links that are written in another case.

    Where two URIs differ in case alone, a link leads to the one that has exactly its spelling.
    """

    def __init__(self, uris: Iterable[str]) -> None:
        self._exact = frozenset(uris)
        folded: dict[str, list[str]] = {}
        for uri in self._exact:
            folded.setdefault(uri.casefold(), []).append(uri)
        self._only = {place: same[0] for place, same in folded.items() if len(same) == 1}

    def of(self, place: str) -> str:
        """Return the URI of the resource that a link leads to; the link itself where none or several might be meant."""
        return place if place in self._exact else self._only.get(place.casefold(), place)


def systems_meant(named: str, ids: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the URIs of the Systems that an operator may mean by a URI, with or without slashes around it, or by a bare Id.

    A URI means itself, whether the System exists or not. An Id means the Systems that have this Id, or whose URI ends in it:
    none, one or several.

    :param ids: Ids of the existing Systems by URI; None where the System could not be read.
    """
    if '/' in named:
        return (normal(f'/{named.strip("/")}'),)
    return tuple(sorted(uri for uri, own in ids.items() if named in (own, _last(uri))))


def may_be_one_system(one: str, other: str) -> bool:
    """Tell whether two names of a System, each a URI or a bare Id, may mean the same System, as far as the names tell."""
    if '/' in one and '/' in other:
        return systems_meant(one, {}) == systems_meant(other, {})
    return system_id(one) == system_id(other)


def system_id(named: str) -> str:
    """Return the last segment of a System's URI, or its bare Id: the same for both names of one System."""
    return _last(normal(named))


def _last(uri: str) -> str:
    return uri.rpartition('/')[2]

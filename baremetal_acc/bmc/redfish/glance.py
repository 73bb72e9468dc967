# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How are a few resources read again with as few requests as possible? A collection at a time where the BMC expands them.

Everything is read anew: no ETag is sent, for on real BMCs many resources share one (facts/redfish.md, section 7).
"""

from collections.abc import Iterable, Mapping

from baremetal_acc.bmc.redfish.reader import Found, Reader

WORTH = 2
"""Members of one collection from which on expanding it saves requests."""


def glance(reader: Reader, uris: Iterable[str]) -> Mapping[str, Found]:
    """What each resource says now, or why it could not be read.

    :param reader: a new one, which has read nothing but the service root.
    :param uris: as references write them.
    """
    wanted = tuple(dict.fromkeys(uris))
    if reader.expands:
        for collection in _collections(wanted):
            reader.want(collection, _ignored, whole=True)
        reader.run()
    found: dict[str, Found] = {}
    for uri in wanted:
        reader.want(uri, lambda answer, uri=uri: found.__setitem__(uri, answer))  # type: ignore[misc]
    reader.run()
    return found


def _collections(uris: Iterable[str]) -> list[str]:
    """The collections of which several members are wanted. A path that is none costs a request, and its answer is no harm."""
    members: dict[str, int] = {}
    for uri in uris:
        parent = uri.rpartition('/')[0]
        members[parent] = members.get(parent, 0) + 1
    return [parent for parent, number in members.items() if number >= WORTH and parent.count('/') > 2]


def _ignored(found: Found) -> None:
    """A collection that cannot be expanded is read member by member."""

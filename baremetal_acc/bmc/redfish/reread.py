# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a few Redfish resources again with as few requests as possible, by ``$expand`` where the BMC supports it.

No ETag is sent: on real BMCs many resources share one ETag, so that 304 would prove nothing
(doc/source/reference/redfish_notes.rst, "Answer times and $expand").
"""

from collections.abc import Iterable, Mapping

from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.resource_table import Found

WORTH = 2
"""Number of members of one collection from which one ``$expand`` saves requests."""


def glance(reader: RedfishReader, uris: Iterable[str]) -> Mapping[str, Found]:
    """Read resources again, each with the document or the error.

    :param reader: a new one, which has read nothing but the service root.
    :param uris: URIs as the references to the resources spell them.
    :returns: the document or error of each URI.
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
    """The parent URIs of several wanted members. A parent that is no collection costs one request and does no harm."""
    members: dict[str, int] = {}
    for uri in uris:
        parent = uri.rpartition('/')[0]
        members[parent] = members.get(parent, 0) + 1
    return [parent for parent, number in members.items() if number >= WORTH and parent.count('/') > 2]


def _ignored(found: Found) -> None:
    """Ignore the collection's own answer: if it could not be expanded, its members are read one by one."""

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find out whether a root of trust copies a firmware image in the background."""

from collections.abc import Iterable, Mapping

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.quirks import BACKGROUND_COPY
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.errors import BmcRefused
from baremetal_acc.model.ref import BmcName


def find_copying(connector: Connector, name: BmcName, roots: Iterable[str]) -> str | None:
    """URI of a root of trust that copies an image in the background now; None if none does.

    :param roots: URIs of roots of trust that say whether they do.
    :raises BmcError: one of them could not be read.
    """
    for uri in roots:
        try:
            view = ResourceView.of(fresh(connector, name, uri), [])
        except BmcRefused as exc:
            if not exc.gone:
                raise
            continue  # a card that is no longer there copies nothing
        if view.literal(*BACKGROUND_COPY) == 'InProgress':
            return uri
    return None


def list_copying_roots(documents: Mapping[str, Document]) -> tuple[str, ...]:
    """URIs of the roots of trust that say whether they copy an image in the background, sorted."""
    extended = {uri: ResourceView.of(one, []) for uri, one in documents.items() if BACKGROUND_COPY[0] in one.body}
    return tuple(sorted(uri for uri, view in extended.items() if view.literal(*BACKGROUND_COPY) is not None))

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the providers below many nodes: one GET for each of the first nodes, then one GET for all providers of placement.

Placement needs as long for the tree of one node as for some hundred providers of a list.
"""

import logging
import threading

from baremetal_acc.errors import PlacementError, PlacementUnreachable
from baremetal_acc.model.provider import Provider
from baremetal_acc.placement import provider_reader, schemas
from baremetal_acc.placement.client import PlacementClient

LOG = logging.getLogger(__name__)

ONE_BY_ONE = 100
"""Nodes that are read one by one, before all providers are listed."""


class ProviderList:
    """The providers below nodes, as they were when they were read. Threads may share it.

    :param one_by_one: how many nodes are read by a request for each.
    """

    def __init__(self, one_by_one: int = ONE_BY_ONE) -> None:
        self._left = one_by_one
        self._children: dict[str, list[Provider]] | None = None
        self._lock = threading.Lock()

    def below(self, client: PlacementClient, root: str) -> dict[str, Provider]:
        """Return the providers below a root by UUID, without their inventories; none if the root does not exist.

        A root that was not in the list is read by itself: it may be new.

        :raises PlacementError: placement cannot be read.
        """
        children = self._listed(client)
        if children is None or root not in children:
            return provider_reader.below(client, root) or {}
        return schemas.lower(root, children)

    def _listed(self, client: PlacementClient) -> dict[str, list[Provider]] | None:
        """Return all providers by their parent, roots included; None while nodes are read one by one.

        :raises PlacementUnreachable: placement does not answer.
        """
        with self._lock:
            self._left -= 1
            if self._left == -1:
                try:
                    self._children = schemas.children(schemas.summaries(client.get('/resource_providers')))
                except PlacementUnreachable:
                    self._left = 0  # the next node tries again
                    raise
                except PlacementError as exc:
                    LOG.info('The providers of all nodes are read one by one, as placement does not list them: %s', exc)
            return self._children

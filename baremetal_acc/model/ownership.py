# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which machines a BMC serves, and which of them each of its resources belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from baremetal_acc.model.uri import systems_meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What a BMC says of whose its resources are.

    :ivar machines: URIs of the Systems that are machines of their own. A BMC with one of them has nothing of anybody else.
    :ivar owners: the machines to which a resource and what lies below it belong, by its URI. A resource may be in several.
    :ivar ids: Ids of the Systems that there are, machines or not, by URI; None: the System could not be read.
    """

    machines: frozenset[str]
    owners: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ids: Mapping[str, str | None] = field(default_factory=dict)

    def named(self, system: str) -> str:
        """The URI of the System that an operator names; of what means none or several it is one that no System has."""
        meant = systems_meant(system, self.ids)
        return meant[0] if len(meant) == 1 else f'/{system}'

    def of(self, uri: str) -> frozenset[str]:
        """The machines that a resource belongs to; empty where the BMC does not say.

        What is said of the resource itself counts, else what is said of the nearest one above it.
        """
        if len(self.machines) < 2:
            return self.machines
        place = uri.partition('#')[0].partition('?')[0].rstrip('/')
        while place:
            found = self.owners.get(place)
            if found is not None:
                return found
            place = place.rpartition('/')[0]
        return frozenset()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which machines (ComputerSystems) a BMC serves, and to which of them each Redfish resource belongs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from baremetal_acc.model.uri import systems_meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The machines of a BMC, and the owners of its resources.

    :ivar machines: URIs of the Systems that are machines of their own. A BMC with a single one has no resources of other
        machines.
    :ivar owners: the machines to which a resource and everything below it belong, by the URI of the resource. A resource may
        belong to several machines.
    :ivar ids: Ids of the Systems of the BMC, machines or not, by URI; None where the System could not be read.
    """

    machines: frozenset[str]
    owners: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ids: Mapping[str, str | None] = field(default_factory=dict)

    def named(self, system: str) -> str:
        """Return the URI of the System that an operator names; where none or several are meant, a URI that no System has."""
        meant = systems_meant(system, self.ids)
        return meant[0] if len(meant) == 1 else f'/{system}'

    def of(self, uri: str) -> frozenset[str]:
        """Return the machines that a resource belongs to; empty where the BMC does not say.

        The owners of the resource itself count, or else those of the nearest resource above it.
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

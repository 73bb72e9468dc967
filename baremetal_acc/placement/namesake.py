# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the provider in placement that has a name which another provider should have, and say whose it is.

Names of providers are unique in placement: while such a provider exists, placement answers 409 to whoever creates another one
of its name. Nova names the root provider of a node by the node's UUID.
"""

from dataclasses import dataclass

from baremetal_acc.placement import schemas
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.scheduling.provider_names import OWNER

NOVA = 'OWNER_NOVA'
"""Trait of the root providers that Nova makes. Source: nova, compute/resource_tracker.py; earlier releases do not set it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namesake:
    """A provider that has the name of another one.

    :ivar parent_uuid: empty for a root provider.
    :ivar consumers: the consumers that have allocations of it, sorted.
    """

    uuid: str
    name: str
    parent_uuid: str
    traits: frozenset[str]
    consumers: tuple[str, ...]

    def __str__(self) -> str:
        if OWNER in self.traits:
            whose = f'which baremetal-acc made with parent {self.parent_uuid}, such as for a node that was deleted'
        elif NOVA in self.traits:
            whose = 'which Nova made for a compute node, such as a node that was deleted'
        elif not self.parent_uuid:
            whose = 'a root provider, which Nova made for a compute node, or another program or a person made'
        else:
            whose = f'which another program or a person made with parent {self.parent_uuid}'
        count = len(self.consumers)
        claims = 'nothing is allocated of it' if not count else f'allocated to {", ".join(self.consumers[:3])}'
        more = f' and {count - 3} more' if count > 3 else ''
        return f'{self.uuid}, {whose}; {claims}{more}'

    @property
    def hint(self) -> str:
        """The commands that show it and remove it."""
        free = '' if not self.consumers else 'openstack resource provider allocation delete CONSUMER for each consumer that is '
        free += 'gone, then ' if self.consumers else ''
        return (
            f'inspect it with openstack resource provider show --allocations {self.uuid}; if it is not needed, run {free}'
            f'openstack resource provider delete {self.uuid}'
        )


def find(client: PlacementClient, name: str, other_than: str) -> Namesake | None:
    """Return the provider that has a name, if it has another UUID than the given one; None if there is none.

    :raises PlacementError: placement cannot be read.
    """
    found = schemas.summaries(client.get('/resource_providers', name=name))
    provider = next((p for p in found if p.uuid != other_than), None)
    if provider is None:
        return None
    path = f'/resource_providers/{provider.uuid}'
    claims = client.get(f'{path}/allocations').body.get('allocations', {})
    traits = client.get(f'{path}/traits').body.get('traits', [])
    return Namesake(
        uuid=provider.uuid,
        name=provider.name,
        parent_uuid=provider.parent_uuid,
        traits=frozenset(map(str, traits)) if isinstance(traits, list) else frozenset(),
        consumers=tuple(sorted(schemas.mapping(claims))),
    )

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the providers below a node's root provider in placement, and the allocations of them.

Every function asks placement; nothing is cached.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from baremetal_acc.errors import PlacementRefused, RootMissing
from baremetal_acc.model.provider import Provider
from baremetal_acc.model.reshape import MovedClaim
from baremetal_acc.placement import namesake, schemas
from baremetal_acc.placement.client import PlacementClient


def below(client: PlacementClient, root: str) -> dict[str, Provider] | None:
    """Return the providers below a root by UUID, parents first, without their inventories; None if the root does not exist.

    :raises PlacementError: placement cannot be read.
    """
    return schemas.below(root, schemas.summaries(client.get('/resource_providers', in_tree=root)))


def having(client: PlacementClient, root: str, trait: str) -> frozenset[str]:
    """Return the UUIDs of the providers in placement's tree of a root that have a trait.

    :raises PlacementError: placement cannot be read.
    """
    # Placement refuses a query for a trait that it does not know; then no provider has the trait.
    if client.get(f'/traits/{trait}').status == HTTPStatus.NOT_FOUND:
        return frozenset()
    return frozenset(p.uuid for p in schemas.summaries(client.get('/resource_providers', in_tree=root, required=trait)))


def claims(client: PlacementClient, provider: str) -> dict[str, tuple[MovedClaim, ...]]:
    """Return the claims on a provider, by consumer; none for a provider that does not exist any more.

    :raises PlacementError: placement cannot be read.
    """
    answer = client.get(f'/resource_providers/{provider}/allocations')
    return {} if answer.status == HTTPStatus.NOT_FOUND else schemas.claims(provider, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnattributedUsage:
    """Usage of a provider that placement counts although no allocation shows a consumer for it.

    Placement deletes an allocation and its consumer in two transactions. A claim that is made for that consumer in between is
    left without a consumer: no answer of placement shows it, nobody can delete it, and placement counts it. Source: seen of
    placement 16.0.0 with PostgreSQL (objects/allocation.py, delete_all).
    """

    provider: str
    amounts: Mapping[str, int]

    @property
    def text(self) -> str:
        what = ' and '.join(f'{amount} {name}' for name, amount in sorted(self.amounts.items()))
        return f'placement counts {what} of provider {self.provider} as used, but has no consumer for it'

    @property
    def hint(self) -> str:
        return (
            'placement-manage db online_data_migrations restores the consumer; then openstack resource provider show '
            f'--allocations {self.provider} names it, and openstack resource provider allocation delete frees it'
        )

    def error(self) -> PlacementRefused:
        """Return the error for a caller that cannot continue because of this usage."""
        return PlacementRefused(self.text, hint=self.hint)


def nobodys(client: PlacementClient, providers: Iterable[str]) -> UnattributedUsage | None:
    """Return the first of some providers with more usage than allocations; None where there is none.

    :raises PlacementError: placement cannot be read.
    """
    for uuid in providers:
        path = f'/resource_providers/{uuid}'
        # In this order: a claim that is freed in between does not change the generation.
        allocations, usages = client.get(f'{path}/allocations'), client.get(f'{path}/usages')
        if HTTPStatus.NOT_FOUND in (usages.status, allocations.status):
            continue
        if schemas.generation(usages) != schemas.generation(allocations):
            continue  # somebody has claimed something in between
        known: dict[str, int] = {}
        for claim in (c for own in schemas.claims(uuid, allocations).values() for c in own):
            known[claim.resource_class] = known.get(claim.resource_class, 0) + claim.amount
        more = {name: used - known.get(name, 0) for name, used in schemas.usages(usages).items() if used > known.get(name, 0)}
        if more:
            return UnattributedUsage(provider=uuid, amounts=more)
    return None


def missing(client: PlacementClient, root: str) -> RootMissing:
    """Return the error for a root that does not exist; it names the provider because of which Nova cannot create the root.

    :raises PlacementError: placement cannot be read.
    """
    other = namesake.find(client, root, root)
    if other is not None:
        what = f'placement has no root provider {root}, and Nova cannot create it, because its name is that of {other}'
        return RootMissing(what, hint=other.hint)
    return RootMissing(
        f'placement has no root provider {root}',
        hint='nova-compute creates it some time after the node is enrolled, with the UUID of the node',
    )

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does placement have below the root provider of a node, and who claims it? Each answer is read anew."""

from http import HTTPStatus

from baremetal_acc.errors import RootMissing
from baremetal_acc.model.provider import Provider
from baremetal_acc.model.reshape import Claim
from baremetal_acc.placement import wire
from baremetal_acc.placement.client import PlacementClient


def below(client: PlacementClient, root: str) -> dict[str, Provider] | None:
    """The providers below a root by UUID, parents first, without what they offer; None if the root is not there.

    :raises PlacementError: placement cannot be asked.
    """
    return wire.below(root, wire.summaries(client.get('/resource_providers', in_tree=root)))


def having(client: PlacementClient, root: str, trait: str) -> frozenset[str]:
    """UUIDs of the providers in placement's tree of a root that have a trait.

    :raises PlacementError: placement cannot be asked.
    """
    # Placement refuses a query for a trait that it does not know; then nobody has it.
    if client.get(f'/traits/{trait}').status == HTTPStatus.NOT_FOUND:
        return frozenset()
    return frozenset(p.uuid for p in wire.summaries(client.get('/resource_providers', in_tree=root, required=trait)))


def claims(client: PlacementClient, provider: str) -> dict[str, tuple[Claim, ...]]:
    """Who claims what of a provider, by consumer; nobody claims anything of one that is gone.

    :raises PlacementError: placement cannot be asked.
    """
    answer = client.get(f'/resource_providers/{provider}/allocations')
    return {} if answer.status == HTTPStatus.NOT_FOUND else wire.claims(provider, answer)


def missing(root: str) -> RootMissing:
    """The error for a root that is not there."""
    return RootMissing(
        f'placement has no root provider {root}',
        hint='nova-compute makes it some time after the node is enrolled, with the UUID of the node',
    )

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The placement side of one node's jobs: publish, withdraw and read claims, authenticated by Ironic's group ``[placement]``."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping

from ironic.common import exception, keystone
from keystoneauth1 import exceptions as ks_exceptions

from baremetal_acc.config.options import GROUP
from baremetal_acc.errors import PlacementRefused, PlacementUnreachable, RootMissing
from baremetal_acc.execution import PlacementShell
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.provider_sweep import ProviderSweep, SweepReadings, Swept
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.render import reservations
from baremetal_acc.scheduling import provider_names, providers
from baremetal_acc.scheduling.schedulable import Supply
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.opts import PLACEMENT
from baremetal_acc_ironic.state.quarantine import withheld

_SWITCH_OFF = f'set up group [{PLACEMENT}], or set [{GROUP}] publish = false where there is no placement'


def is_wanted() -> bool:
    """Whether the operator wants accelerators to be published."""
    return settings.core().publish


def shell(
    node_uuid: str,
    instance_uuid: str | None,
    untrusted: Callable[[Inventory], frozenset[AcceleratorId]],
    held: Callable[[], None],
    *,
    taken: bool,
    told: Callable[[str], None],
) -> PlacementShell | None:
    """Return the placement side of a node's jobs; None if nothing is to be published.

    :param untrusted: returns the devices of an inventory that are not published, whatever they report.
    :param held: raises when this conductor does not hold the node any more; called right before each write, which then is not
        sent.
    :param taken: the node has an instance, or is about to get one. Nothing else of it is available then, since a region can be
        claimed without its machine; what its own instance has claimed stays, wholly reserved.
    :param told: called with each reservation of an operator that a publication has kept, as a sentence.
    """
    if not is_wanted():
        return None
    return _NodeInPlacement(node_uuid, instance_uuid, untrusted, held, taken=taken, told=told)


def claims(consumer: str) -> dict[str, frozenset[str]]:
    """Return the resource classes that an instance holds, by the UUID of the provider.

    :raises PlacementError: placement cannot be asked.
    """
    return _publisher().claims(consumer)


def check() -> None:
    """Check that placement answers and is new enough.

    :raises PlacementUnreachable: it does not answer.
    :raises PlacementRefused: it is too old, is no placement, or ``[placement]`` is not set up.
    """
    _publisher().check()


def declare(classes: Iterable[str], traits: Iterable[str]) -> tuple[str, ...]:
    """Create resource classes and traits, so that flavors may name them before any node publishes them.

    :returns: those that placement did not have.
    :raises PlacementError: placement cannot be asked, or refuses.
    """
    return _publisher().declare(classes, traits, anew=True)


def withdraw(node_uuid: str, consumer: str | None, still: Callable[[], None]) -> bool:
    """Withdraw a node from placement: nothing more of it can be claimed.

    What its own instance has claimed stays, wholly reserved.

    :returns: something was available before.
    :raises InventoryInUse: another consumer holds some of it. That stays, wholly reserved, and all else is withdrawn.
    :raises PlacementError: placement cannot be asked, or refuses.
    """
    return _publisher().withdraw(node_uuid, consumer=consumer, still=still).changed


def withdraw_devices(node_uuid: str, devices: Iterable[AcceleratorId], consumer: str | None, still: Callable[[], None]) -> bool:
    """Withdraw devices of a node from placement, and what represents several devices: nothing more of that can be claimed.

    Parameters, result and errors are those of :func:`withdraw`.
    """
    providers_of = frozenset(provider_names.card_uuid(node_uuid, device) for device in devices)
    return _publisher().withdraw(node_uuid, providers_of, consumer=consumer, still=still).changed


def sweep(wanted: Mapping[str, frozenset[str]], known: SweepReadings) -> tuple[Swept, ...]:
    """Empty providers of many nodes in few requests; what a consumer holds stays as it is.

    This may be done without the locks of the nodes: a provider that was emptied wrongly is published again.

    :param wanted: UUIDs of providers by node.
    :param known: shared by the sweeps of one scan: what is learned by one, no other asks.
    :raises PlacementError: placement cannot be used at all.
    """
    return tuple(ProviderSweep(_client(), known).empty(wanted))


def ready(node_uuid: str) -> None:
    """Check that a node can be published.

    :raises RootMissing: Nova has not created its root provider.
    :raises PlacementError: placement cannot be asked.
    """
    _publisher().read(node_uuid)


def delete(node_uuid: str) -> None:
    """Delete all providers that we have created below a deleted node.

    :raises InventoryInUse: a consumer holds some of it. That stays, wholly reserved.
    :raises PlacementError: placement cannot be asked, or refuses.
    """
    with contextlib.suppress(RootMissing):
        _publisher().publish(ProviderTree(root_uuid=node_uuid, providers=()), delete_gone=True)


class _NodeInPlacement:
    """The placement side of one node's jobs.

    :param consumer: the node's own instance: what it holds stays, and nobody else can claim it.
    """

    def __init__(
        self,
        node_uuid: str,
        consumer: str | None,
        untrusted: Callable[[Inventory], frozenset[AcceleratorId]],
        held: Callable[[], None],
        *,
        taken: bool,
        told: Callable[[str], None],
    ) -> None:
        self._node_uuid = node_uuid
        self._consumer = consumer
        self._untrusted = untrusted
        self._held = held
        self._taken = taken
        self._told = told

    def withdraw(self, accelerators: Iterable[AcceleratorId] | None, *, alone: bool = False) -> None:
        """See :class:`baremetal_acc.execution.PlacementShell`."""
        meant = None if accelerators is None else frozenset(provider_names.card_uuid(self._node_uuid, a) for a in accelerators)
        _publisher().withdraw(self._node_uuid, meant, consumer=self._consumer, alone=alone, still=self._held)

    def publish(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> None:
        """See :class:`baremetal_acc.execution.PlacementShell`."""
        shown = withheld(verdict, self._untrusted(inventory))
        tree = providers.tree(inventory, shown, self._node_uuid, supply.functions, supply.offers)
        if not self._taken:
            result = _publisher().publish(tree, consumer=self._consumer, still=self._held)
            for kept in result.reserved:
                self._told(f'placement: {reservations.sentence(kept)}')
            return
        # Without a root nothing of the node is available, as it has to be for a node in use.
        with contextlib.suppress(RootMissing):
            _publisher().publish(providers.withdrawn(tree), consumer=self._consumer, still=self._held)


@functools.cache
def _publisher() -> Publisher:
    """Return the one publisher of the process: it caches what it has read, and asks once when nothing has changed.

    :raises PlacementError: as :func:`_client`.
    """
    return Publisher(_client())


def _client() -> PlacementClient:
    """Return a client with the authentication of the group ``[placement]``.

    :raises PlacementRefused: the group is not set up.
    :raises PlacementUnreachable: its authentication does not answer.
    """
    try:
        auth = keystone.get_auth(PLACEMENT)
        timeout = settings.ironic().placement_timeout or 60
        session = keystone.get_session(PLACEMENT, auth=auth, timeout=timeout)
        adapter = keystone.get_adapter(PLACEMENT, session=session, auth=auth)
    except exception.ConfigInvalid as exc:
        raise PlacementRefused(f'placement: {exc}', hint=_SWITCH_OFF) from exc
    except (exception.KeystoneFailure, exception.KeystoneUnauthorized, ks_exceptions.ClientException) as exc:
        raise PlacementUnreachable(f'placement: {exc}', hint=_SWITCH_OFF) from exc
    return PlacementClient(adapter, timeout=timeout)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the command line reach placement? Through keystoneauth, by the group ``[placement]`` of the configuration."""

from collections.abc import Iterable
from dataclasses import dataclass

from oslo_config import cfg

from baremetal_acc.decide import providers
from baremetal_acc.decide.offer import Supply
from baremetal_acc.errors import DocumentError, PlacementError, UsageError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Verdict
from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher

GROUP = 'placement'


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlacement:
    """What a job tells placement, bound to one node.

    :ivar root: UUID of the node's root provider.
    """

    publisher: Publisher
    root: str

    def withdraw(self, accelerators: Iterable[AcceleratorId] | None) -> None:
        """Take what is unclaimed of these devices out of service; None: of everything that the node ever offered.

        :raises PlacementError: somebody holds it, or placement did not do it.
        """
        meant = None if accelerators is None else frozenset(providers.card_uuid(self.root, a) for a in accelerators)
        self.publisher.withdraw(self.root, meant)

    def publish(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> None:
        """Make placement agree.

        :raises PlacementError: it did not.
        """
        self.publisher.publish(self.tree(inventory, verdict, supply))

    def tree(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> ProviderTree:
        """What placement ought to know."""
        return providers.tree(inventory, verdict, self.root, supply.functions, supply.offers)


def configured(conf: cfg.ConfigOpts) -> bool:
    """The configuration says how to reach placement."""
    _register(conf)
    return bool(conf[GROUP].auth_type or conf[GROUP].auth_section)


def connect(conf: cfg.ConfigOpts) -> Publisher:
    """A publisher for any number of nodes.

    :raises UsageError: the configuration does not say how to reach placement. ``DocumentError``: it says it wrongly.
    """
    return Publisher(client(conf))


def client(conf: cfg.ConfigOpts) -> PlacementClient:
    """Placement's API.

    :raises UsageError: the configuration does not say how to reach placement. ``DocumentError``: it says it wrongly.
    """
    # Only commands that publish need keystoneauth, and it takes its time to import.
    from keystoneauth1 import exceptions, loading

    if not configured(conf):
        raise UsageError(
            argument=f'[{GROUP}] auth_type',
            what='the configuration does not say how to reach placement',
            hint='add auth_type, auth_url, username, password and project to [placement] of the file that --config-file names',
        )
    path = ', '.join(conf.default_config_files)
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
        adapter = loading.load_adapter_from_conf_options(conf, GROUP, session=session, auth=auth)
    except (exceptions.ClientException, cfg.Error) as exc:
        raise DocumentError(path=path, what=f'[{GROUP}]: {" ".join(str(exc).split())}') from exc
    return PlacementClient(adapter)


def _register(conf: cfg.ConfigOpts) -> None:
    from keystoneauth1 import loading

    loading.register_auth_conf_options(conf, GROUP)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(conf, GROUP)
    conf.set_default('service_type', GROUP, group=GROUP)


__all__ = ['NodePlacement', 'PlacementError', 'client', 'configured', 'connect']

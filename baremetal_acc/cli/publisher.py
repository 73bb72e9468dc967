# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Connect the command line to placement by keystoneauth, and publish or withdraw the providers of a node.

The group ``[placement]`` of the configuration says how placement is reached.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from oslo_config import cfg

from baremetal_acc.cli.output import text
from baremetal_acc.config.settings import ServiceSettings
from baremetal_acc.errors import DocumentError, PlacementError, PlacementUnreachable, UsageError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher, PublishResult
from baremetal_acc.placement.slow_answers import SlowAnswers
from baremetal_acc.scheduling import provider_names, providers
from baremetal_acc.scheduling.schedulable import Supply

GROUP = 'placement'

MOST_HOLDERS = 3
"""The most consumers that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlacement:
    """Placement as a job uses it, bound to one node.

    :ivar root: UUID of the node's root provider.
    """

    publisher: Publisher
    root: str

    def withdraw(self, accelerators: Iterable[AcceleratorId] | None, *, alone: bool = False) -> None:
        """Withdraw the unclaimed inventory of these devices; None: of everything that the node ever published.

        :param alone: check that nothing of the node is claimed afterwards, the machine itself included.
        :raises PlacementError: a consumer holds an allocation, or placement refused.
        """
        meant = None if accelerators is None else frozenset(provider_names.card_uuid(self.root, a) for a in accelerators)
        self.publisher.withdraw(self.root, meant, alone=alone)

    def publish(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> None:
        """Publish what the verdict lets the node offer.

        :raises PlacementError: placement refused a call, or cannot be reached.
        """
        publish(self.publisher, self.tree(inventory, verdict, supply))

    def tree(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> ProviderTree:
        """The provider tree that placement should have."""
        return providers.tree(inventory, verdict, self.root, supply.functions, supply.offers)


def publish(to: Publisher, tree: ProviderTree) -> PublishResult:
    """Publish the part of a provider tree that may be available in placement now.

    :raises PlacementError: placement refused a call, or the machine was claimed or freed meanwhile.
    """
    holders = to.holders(tree.root_uuid)

    def still() -> None:
        if to.holders(tree.root_uuid) != holders:
            what = f'placement, node {tree.root_uuid}: its allocations have changed while it was published'
            raise PlacementUnreachable(what, hint='run the same command again: it reads the allocations again')

    result = to.publish(_on_offer(tree, holders), consumer=_one(holders), still=still)
    _warn_of_flat(to, tree)
    return result


def plan(to: Publisher, tree: ProviderTree) -> PublishResult:
    """What :func:`publish` would send and keep. Writes nothing.

    :raises PlacementError: placement cannot be read.
    """
    holders = to.holders(tree.root_uuid)
    result = to.plan(_on_offer(tree, holders), consumer=_one(holders))
    _warn_of_flat(to, tree)
    return result


def _warn_of_flat(to: Publisher, tree: ProviderTree) -> None:
    flat = ', '.join(sorted(to.flat(tree)))
    if flat:
        what = f'its root provider has inventory of {flat}, so the providers of its devices do not get any'
        text.note(f'node {tree.root_uuid}: {what}; baremetal-acc reshape moves it to them')


def _on_offer(tree: ProviderTree, holders: tuple[str, ...]) -> ProviderTree:
    """The part of a provider tree that may be available in placement: nothing as soon as the machine is claimed.

    A device could otherwise be claimed without its machine. Ironic's node shows a claim earlier; here only placement is read.
    """
    if not holders:
        return tree
    who = ', '.join(holders[:MOST_HOLDERS])
    text.note(f'node {tree.root_uuid} is claimed by {who}: its devices are withdrawn; what is allocated of them is reserved')
    return providers.withdrawn(tree)


def _one(holders: tuple[str, ...]) -> str | None:
    return holders[0] if len(holders) == 1 else None


def configured(conf: cfg.ConfigOpts) -> bool:
    """Whether the configuration says how to reach placement."""
    return _settings(conf).is_set_up


def connect(conf: cfg.ConfigOpts) -> Publisher:
    """A publisher for any number of nodes.

    :raises UsageError: the configuration does not say how to reach placement. ``DocumentError``: these options are wrong.
    """
    return Publisher(client(conf))


def client(conf: cfg.ConfigOpts) -> PlacementClient:
    """A client of placement's API.

    :raises UsageError: the configuration does not say how to reach placement. ``DocumentError``: these options are wrong.
    """
    # Imported here: only commands that publish need keystoneauth, and its import is slow.
    from keystoneauth1 import exceptions, loading

    settings = _settings(conf)
    if not settings.is_set_up:
        raise UsageError(
            argument=f'[{GROUP}] auth_type',
            what='is not set, so placement cannot be reached',
            hint='set auth_type, auth_url, username, password, user_domain_name, project_name and project_domain_name '
            'there; --config-file names the file',
        )
    path = ', '.join(conf.default_config_files)
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        session = loading.load_session_from_conf_options(conf, GROUP, auth=auth, session=SlowAnswers(text.note))
        adapter = loading.load_adapter_from_conf_options(conf, GROUP, session=session, auth=auth)
    except (exceptions.ClientException, cfg.Error) as exc:
        raise DocumentError(path=path, what=f'[{GROUP}]: {" ".join(str(exc).split())}') from exc
    return PlacementClient(adapter, timeout=settings.timeout_seconds)


def _settings(conf: cfg.ConfigOpts) -> ServiceSettings:
    return ServiceSettings.from_conf(conf, GROUP, service_type=GROUP)


__all__ = ['NodePlacement', 'PlacementError', 'client', 'configured', 'connect', 'plan', 'publish']

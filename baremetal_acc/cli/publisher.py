# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the command line reach placement? Through keystoneauth, by the group ``[placement]`` of the configuration."""

from collections.abc import Iterable
from dataclasses import dataclass

from oslo_config import cfg

from baremetal_acc.cli import text
from baremetal_acc.config.settings import ServiceSettings
from baremetal_acc.decide import providers
from baremetal_acc.decide.offer import Supply
from baremetal_acc.errors import DocumentError, PlacementError, PlacementUnreachable, UsageError
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Verdict
from baremetal_acc.model.provider import Call, ProviderTree
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.placement.slow_answers import SlowAnswers

GROUP = 'placement'

MOST_HOLDERS = 3
"""Consumers that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlacement:
    """What a job tells placement, bound to one node.

    :ivar root: UUID of the node's root provider.
    """

    publisher: Publisher
    root: str

    def withdraw(self, accelerators: Iterable[AcceleratorId] | None, *, alone: bool = False) -> None:
        """Take what is unclaimed of these devices out of service; None: of everything that the node ever offered.

        :param alone: see that nothing of the node is claimed afterwards, the machine itself included.
        :raises PlacementError: somebody holds it, or placement did not do it.
        """
        meant = None if accelerators is None else frozenset(providers.card_uuid(self.root, a) for a in accelerators)
        self.publisher.withdraw(self.root, meant, alone=alone)

    def publish(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> None:
        """Make placement agree.

        :raises PlacementError: it did not.
        """
        publish(self.publisher, self.tree(inventory, verdict, supply))

    def tree(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> ProviderTree:
        """What placement ought to know."""
        return providers.tree(inventory, verdict, self.root, supply.functions, supply.offers)


def publish(to: Publisher, tree: ProviderTree) -> tuple[Call, ...]:
    """Make placement agree with what of a tree may be on offer now.

    :returns: the calls that placement took.
    :raises PlacementError: it did not agree, or the machine was claimed or freed meanwhile.
    """
    holders = to.holders(tree.root_uuid)

    def still() -> None:
        if to.holders(tree.root_uuid) != holders:
            what = f'placement, node {tree.root_uuid}: the machine was claimed or freed while it was published'
            raise PlacementUnreachable(what, hint='the same command looks who has it now, and goes on')

    calls = to.publish(_on_offer(tree, holders), consumer=_one(holders), still=still).calls
    _warn_of_flat(to, tree)
    return calls


def plan(to: Publisher, tree: ProviderTree) -> tuple[Call, ...]:
    """The calls that :func:`publish` would send. Writes nothing.

    :raises PlacementError: placement cannot be asked.
    """
    holders = to.holders(tree.root_uuid)
    calls = to.plan(_on_offer(tree, holders), consumer=_one(holders))
    _warn_of_flat(to, tree)
    return calls


def _warn_of_flat(to: Publisher, tree: ProviderTree) -> None:
    flat = ', '.join(sorted(to.flat(tree)))
    if flat:
        what = f'its root provider offers {flat} itself, and devices do not begin to offer that beside it'
        text.note(f'node {tree.root_uuid}: {what}: baremetal-acc reshape moves it to them')


def _on_offer(tree: ProviderTree, holders: tuple[str, ...]) -> ProviderTree:
    """What of a tree may be on offer: nothing, from the moment when somebody has claimed the machine.

    For a device can be claimed without its machine. Ironic's node says earlier who has it; here only placement is asked.
    """
    if not holders:
        return tree
    who = ', '.join(holders[:MOST_HOLDERS])
    text.note(f'node {tree.root_uuid} is claimed by {who}: nothing of it is offered but what that holds, which is reserved')
    return providers.withdrawn(tree)


def _one(holders: tuple[str, ...]) -> str | None:
    return holders[0] if len(holders) == 1 else None


def configured(conf: cfg.ConfigOpts) -> bool:
    """The configuration says how to reach placement."""
    return _settings(conf).is_set_up


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

    settings = _settings(conf)
    if not settings.is_set_up:
        raise UsageError(
            argument=f'[{GROUP}] auth_type',
            what='the configuration does not say how to reach placement',
            hint='add auth_type, auth_url, username, password and project to [placement] of the file that --config-file names',
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

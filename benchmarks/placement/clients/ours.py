# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our publisher, as a conductor of Ironic has it: one for the process, which remembers what it read."""

from keystoneauth1 import adapter, session, token_endpoint

from baremetal_acc.model.provider import Provider, ProviderInventory, ProviderTree
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher
from benchmarks.placement.clients.turns import Device, serve


class Ours:
    """:class:`baremetal_acc.placement.publish.Publisher`."""

    def __init__(self, url: str) -> None:
        auth = token_endpoint.Token(url, 'admin')
        to = adapter.Adapter(session=session.Session(auth=auth, timeout=120), service_type='placement')
        self._publisher = Publisher(PlacementClient(to))

    def tell(self, root: str, devices: list[Device]) -> None:
        """``publish`` of the whole tree."""
        self._publisher.publish(tree(root, devices))

    def withdraw(self, root: str, devices: list[Device], number: int) -> None:
        """``withdraw`` of one."""
        self._publisher.withdraw(root, frozenset({devices[number]['uuid']}))


def tree(root: str, devices: list[Device]) -> ProviderTree:
    """What placement ought to know."""
    made = tuple(
        Provider(
            uuid=d['uuid'],
            name=d['name'],
            parent_uuid=root,
            inventories=(ProviderInventory(resource_class=d['resource_class']),),
            traits=frozenset(d['traits']),
        )
        for d in devices
    )
    return ProviderTree(root_uuid=root, providers=made)


if __name__ == '__main__':
    serve(Ours)

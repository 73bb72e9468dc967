# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's SchedulerReportClient, as its resource tracker uses it: a copy of the tree is edited, and what is different is sent.

``get_provider_tree_and_ensure_root``, ``ProviderTree.new_child``, ``update_inventory``, ``update_traits``,
``update_from_provider_tree`` (nova 34.0.0). All of it is Nova's. One node after the other, since its resource tracker holds
a lock around each (``COMPUTE_RESOURCE_SEMAPHORE``).
"""

import threading

from keystoneauth1 import adapter, session, token_endpoint
from turns import Device, serve


class Nova:
    """``nova.scheduler.client.report.SchedulerReportClient``."""

    def __init__(self, url: str) -> None:
        from nova import context
        from nova.scheduler.client import report

        self._lock = threading.Lock()
        self._context = context.get_admin_context()
        auth = token_endpoint.Token(url, 'admin')
        to = adapter.Adapter(session=session.Session(auth=auth, timeout=120), service_type='placement', raise_exc=False)
        self._client = report.SchedulerReportClient(adapter=to)

    def tell(self, root: str, devices: list[Device]) -> None:
        """Every device as it is; the client finds out what is different."""
        with self._lock:
            tree = self._client.get_provider_tree_and_ensure_root(self._context, root, name=root)
            for device in devices:
                if not tree.exists(device['uuid']):
                    tree.new_child(device['name'], root, uuid=device['uuid'])
                tree.update_inventory(device['uuid'], inventory(device))
                tree.update_traits(device['uuid'], device['traits'])
            self._client.update_from_provider_tree(self._context, tree)

    def withdraw(self, root: str, devices: list[Device], number: int) -> None:
        """No inventory any more."""
        with self._lock:
            tree = self._client.get_provider_tree_and_ensure_root(self._context, root, name=root)
            tree.update_inventory(devices[number]['uuid'], {})
            self._client.update_from_provider_tree(self._context, tree)


def inventory(device: Device) -> dict[str, dict[str, float]]:
    """One of its class."""
    unit = {'total': 1, 'reserved': 0, 'min_unit': 1, 'max_unit': 1, 'step_size': 1, 'allocation_ratio': 1.0}
    return {device['resource_class']: unit}


if __name__ == '__main__':
    serve(Nova)

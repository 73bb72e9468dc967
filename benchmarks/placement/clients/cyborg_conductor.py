# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What Cyborg's conductor does when an agent reports the devices of a host (openstack-cyborg 17.0.0).

``ConductorManager.drv_device_make_diff`` with all that it calls: ``_get_root_provider``, ``drv_deployable_make_diff``,
``drv_attr_make_diff``, ``get_placement_needed_info_and_report``, ``provider_report``, and the functions of ``PlacementClient``.
A device is disabled as its API does it, by ``PlacementClient.update_rp_inventory_reserved``. The code is Cyborg's. Replaced is
what needs its database, which costs it no time here; its remote calls are left out too. It compares with its own database, and
not with placement.
"""

import tempfile
import threading
import uuid
from types import SimpleNamespace
from typing import Any

from turns import Device, serve

CONF = """\
[placement]
auth_type = admin_token
endpoint = {url}
endpoint_override = {url}
token = admin
"""


TOLD: dict[str, list[Any]] = {}
"""What was reported last. It stands for Cyborg's database, which is there for the next process too."""


class Record:
    """Whatever Cyborg asks of its database, there and unchanged."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update({'id': 1, 'num_accelerators': 1, **values})

    def __getattr__(self, name: str) -> Any:
        if name.startswith('get_list'):
            return lambda *arguments, **more: [self]
        if name.startswith('get_'):
            return lambda *arguments, **more: self
        return lambda *arguments, **more: None

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value


class Names(Record):
    """A deployable is told by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.now = threading.local()

    def get_by_id(self, context: Any, number: int) -> Any:
        return SimpleNamespace(name=self.now.name, num_accelerators=1)

    def get_by_name(self, context: Any, name: str) -> Any:
        return Record(name=name)

    def get_by_name_deviceid(self, context: Any, name: str, device: int) -> Any:
        self.now.name = name
        return Record(name=name)


class Cyborg:
    """``cyborg.conductor.manager.ConductorManager``."""

    def __init__(self, url: str) -> None:
        from cyborg.conductor import manager
        from oslo_config import cfg

        with tempfile.NamedTemporaryFile('w', suffix='.conf', encoding='utf-8') as conf:
            conf.write(CONF.format(url=url))
            conf.flush()
            cfg.CONF(['--config-file', conf.name], project='cyborg')
        names = Names()
        for name in ('Device', 'ControlpathID', 'Attribute', 'AttachHandle'):
            setattr(manager, name, Record())
        manager.Deployable = manager.DriverDeployable = names
        self._context = SimpleNamespace(global_id=None)
        self._manager = manager.ConductorManager('bench', 'bench')
        self._told = TOLD

    def tell(self, root: str, devices: list[Device]) -> None:
        """A report of an agent. What was reported last is remembered, as Cyborg's database would."""
        new = [reported(device) for device in devices]
        self._manager.drv_device_make_diff(self._context, root, self._told.get(root, []), new)
        self._told[root] = new

    def withdraw(self, root: str, devices: list[Device], number: int) -> None:
        """A device is disabled."""
        device = devices[number]
        self._manager.placement_client.update_rp_inventory_reserved(own(device), device['resource_class'], 1, 1)


def own(device: Device) -> str:
    """The UUID of a provider, which Cyborg derives from its name."""
    return str(uuid.uuid3(uuid.NAMESPACE_DNS, device['name']))


def reported(device: Device) -> Any:
    """A device as an agent's driver reports it."""
    keys = [('rc', device['resource_class']), *((f'trait{n}', trait) for n, trait in enumerate(device['traits']))]
    attributes = [Record(key=key, value=value) for key, value in keys]
    deployable = Record(name=device['name'], attribute_list=attributes, attach_handle_list=[])
    address = SimpleNamespace(cpid_info=device['name'])
    facts = dict.fromkeys(('std_board_info', 'vendor', 'vendor_board_info', 'model', 'type'), '')
    return Record(controlpath_id=address, stub=False, deployable_list=[deployable], **facts)


if __name__ == '__main__':
    serve(Cyborg)

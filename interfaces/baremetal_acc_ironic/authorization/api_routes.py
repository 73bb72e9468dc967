# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the routes of Ironic's API in its pecan controllers, and map each route to the check that it needs.

A route is a method of a controller, such as ``v1.node.NodesController.patch``. When pecan has found the method, it has already
resolved names, UUIDs, suffixes, encodings and ``_method``. If no table here names a writing route, it is checked as if its body
were a node document.
"""

import enum
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from ironic.api import controllers
from pecan.util import iscontroller

_PACKAGE = f'{controllers.__name__}.'

_INTERNAL = ('_lookup', '_route')
"""Methods by which pecan finds other controllers; they are no routes themselves."""


class RouteCheck(enum.Enum):
    """What the guard checks before Ironic's controller is called."""

    NODE_DOCUMENT = 'the body may write instance_info'
    START = 'the host may start'
    ADOPT = 'nothing is left of an earlier deployment'
    ATTACH_MEDIA = 'virtual media is attached'
    DETACH_MEDIA = 'virtual media is detached'
    VENDOR_PASSTHRU = 'a method of the vendor interface is called'
    NOTHING = 'nothing that is ours to check'


CHECKED: Mapping[str, RouteCheck] = {
    'v1.node.NodesController.patch': RouteCheck.NODE_DOCUMENT,
    'v1.node.NodesController.post': RouteCheck.NODE_DOCUMENT,
    'v1.node.NodeStatesController.power': RouteCheck.START,
    # The conductor checks the host starts of a flow. From the body Ironic writes to instance_info only the keys configdrive,
    # rescue_password and hashed_rescue_password, and it drops parameters that it does not know.
    'v1.node.NodeStatesController.provision': RouteCheck.ADOPT,
    'v1.node.NodeVmediaController.post': RouteCheck.ATTACH_MEDIA,
    'v1.node.NodeVmediaController.delete': RouteCheck.DETACH_MEDIA,
    'v1.node.NodeVendorPassthruController._default': RouteCheck.VENDOR_PASSTHRU,
}

HARMLESS: Mapping[str, str] = {
    'v1.allocation.AllocationsController.patch': 'name and extra of an allocation',
    'v1.allocation.AllocationsController.post': 'an allocation; Ironic writes instance_uuid and instance_info/traits of a node',
    'v1.allocation.AllocationsController.delete': 'no body',
    'v1.allocation.NodeAllocationController.delete': 'no body',
    'v1.chassis.ChassisController.delete': 'no body',
    'v1.chassis.ChassisController.patch': 'a chassis',
    'v1.chassis.ChassisController.post': 'a chassis',
    'v1.deploy_template.DeployTemplatesController.delete': 'no body',
    'v1.deploy_template.DeployTemplatesController.patch': 'steps, by system administrators',
    'v1.deploy_template.DeployTemplatesController.post': 'steps, by system administrators',
    # baremetal:driver:vendor_passthru is for system administrators, and of scope system only, by Ironic's own default.
    'v1.driver.DriverPassthruController._default': 'a method of a driver, by system administrators',
    'v1.event.EventsController.post': 'events of ports',
    'v1.inspection_rule.InspectionRuleController.delete': 'no body',
    'v1.inspection_rule.InspectionRuleController.patch': 'actions that may set any attribute, by system administrators',
    'v1.inspection_rule.InspectionRuleController.post': 'actions that may set any attribute, by system administrators',
    'v1.node.BootDeviceController.put': 'a boot device; each flow of ours sets its own',
    'v1.node.IndicatorController.put': 'the state of a light',
    'v1.node.InjectNmiController.put': 'no body; the host is interrupted, and not started',
    'v1.node.NodeConsoleController.put': 'on or off',
    'v1.node.NodeMaintenanceController.delete': 'no body',
    'v1.node.NodeMaintenanceController.put': 'a reason',
    'v1.node.NodeStatesController.boot_mode': 'a boot mode',
    'v1.node.NodeStatesController.raid': 'logical disks',
    'v1.node.NodeStatesController.secure_boot': 'on or off',
    'v1.node.NodeTraitsController.delete': 'no body',
    'v1.node.NodeTraitsController.put': 'names of traits',
    'v1.node.NodeVIFController.delete': 'no body',
    'v1.node.NodeVIFController.post': 'a network interface',
    'v1.node.NodesController.delete': 'no body',
    'v1.port.PortsController.delete': 'no body',
    'v1.port.PortsController.patch': 'a port',
    'v1.port.PortsController.post': 'a port',
    'v1.portgroup.PortgroupsController.delete': 'no body',
    'v1.portgroup.PortgroupsController.patch': 'a port group',
    'v1.portgroup.PortgroupsController.post': 'a port group',
    'v1.ramdisk.ContinueInspectionController.post': 'an inventory, by a ramdisk; hooks of the operator read it',
    'v1.ramdisk.HeartbeatController.post': 'address, version and token of a ramdisk',
    'v1.runbook.RunbookTraitsController.delete': 'no body',
    'v1.runbook.RunbookTraitsController.put': 'names of traits',
    'v1.runbook.RunbooksController.delete': 'no body',
    'v1.runbook.RunbooksController.patch': 'steps, under policy rules of their own',
    'v1.runbook.RunbooksController.post': 'steps, under policy rules of their own',
    'v1.volume_connector.VolumeConnectorsController.delete': 'no body',
    'v1.volume_connector.VolumeConnectorsController.patch': 'a volume connector',
    'v1.volume_connector.VolumeConnectorsController.post': 'a volume connector',
    'v1.volume_target.VolumeTargetsController.delete': 'no body',
    'v1.volume_target.VolumeTargetsController.patch': 'a volume target',
    'v1.volume_target.VolumeTargetsController.post': 'a volume target',
}
"""Writing routes that take no node, and what they take instead."""

READS = frozenset({
    'get', 'get_all', 'get_one', 'detail', 'index', 'logical_disk_properties', 'methods', 'properties', 'supported', 'validate',
})  # fmt: skip
"""Names of methods that write nothing."""


def find_routes() -> dict[str, RouteCheck]:
    """Return every route of Ironic's API by name, with its check.

    All controllers of the package are searched: some are reached only by the code of a ``_lookup``, which no walk of attributes
    sees.
    """
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(controllers.__path__, _PACKAGE)]
    classes = [c for m in modules for _, c in inspect.getmembers(m, inspect.isclass) if c.__module__ == m.__name__]
    return {name: _check_of(name) for controller in classes for name in _exposed(controller)}


def name_of(controller: Any) -> str:
    """Return the name of the route that pecan has found, a bound method of a controller; empty for anything else."""
    return _name(type(controller.__self__), controller.__name__) if inspect.ismethod(controller) else ''


def unclassified(routes: Mapping[str, RouteCheck]) -> tuple[str, ...]:
    """Return the writing routes that no table here names: those of an Ironic release that is newer than the tables."""
    named = CHECKED.keys() | HARMLESS.keys()
    return tuple(sorted(name for name in routes if name not in named and name.rpartition('.')[2] not in READS))


def _check_of(name: str) -> RouteCheck:
    if name in CHECKED:
        return CHECKED[name]
    return RouteCheck.NOTHING if name in HARMLESS or name.rpartition('.')[2] in READS else RouteCheck.NODE_DOCUMENT


def _exposed(controller: type) -> Iterator[str]:
    for name, _ in inspect.getmembers(controller, iscontroller):
        if name not in _INTERNAL:
            yield _name(controller, name)


def _name(controller: type, method: str) -> str:
    return f'{controller.__module__.removeprefix(_PACKAGE)}.{controller.__qualname__}.{method}'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build the tree of an invented machine, resource by resource, as the standard nests them."""

from typing import Any

ROOT = '/redfish/v1'
SERVICE = f'{ROOT}/UpdateService'


def link(uri: str) -> dict[str, str]:
    """A link to a resource."""
    return {'@odata.id': uri}


def links(*uris: str) -> list[dict[str, str]]:
    """Links to resources."""
    return [link(uri) for uri in uris]


def ids(vendor: str, device: str, code: str | None = None, bus: int | None = None, **more: Any) -> dict[str, Any]:
    """A PCIeFunction."""
    body: dict[str, Any] = {'VendorId': vendor, 'DeviceId': device, **more}
    if code is not None:
        body['ClassCode'] = code
    if bus is not None:
        body |= {'BusNumber': f'0x{bus:02x}', 'DeviceNumber': '0x00', 'FunctionNumber': '0x0'}
    return body


H100 = ids('0x10de', '0x2330', '0x030200')


class Machine:
    """A machine that a FakeBmc serves. It begins with System 1 and nothing else."""

    def __init__(self, bmc: Any) -> None:
        self.bmc = bmc
        self.host = f'{ROOT}/Systems/1'
        reset = {'target': f'{self.host}/Actions/ComputerSystem.Reset', 'ResetType@Redfish.AllowableValues': ['On', 'ForceOff']}
        self.tree[self.host]['Actions'] = {'#ComputerSystem.Reset': reset}

    @property
    def tree(self) -> dict[str, Any]:
        """What is served, by URI."""
        return self.bmc.tree

    def put(self, uri: str, **body: Any) -> str:
        """A resource with Id and Name."""
        self.bmc.put(uri, **body)
        return uri

    def below(self, owner: str, collection: str, name: str, **body: Any) -> str:
        """A member of a collection that belongs to a resource."""
        uri = f'{owner}/{collection}'
        self.tree[owner].setdefault(collection, link(uri))
        if uri not in self.tree:
            self.bmc.collection(uri)
        self.tree[uri]['Members'].append(link(f'{uri}/{name}'))
        return self.put(f'{uri}/{name}', **body)

    def system(self, name: str, **body: Any) -> str:
        """A ComputerSystem."""
        return self.below(ROOT, 'Systems', name, **{'SystemType': 'Physical', **body})

    def chassis(self, name: str, kind: str = 'RackMount', **body: Any) -> str:
        """A Chassis."""
        return self.below(ROOT, 'Chassis', name, ChassisType=kind, **body)

    def manager(self, name: str, **body: Any) -> str:
        """A Manager."""
        return self.below(ROOT, 'Managers', name, **body)

    def processor(self, owner: str, name: str, kind: str | None = 'GPU', **body: Any) -> str:
        """A Processor of a System, a Chassis or a NetworkAdapter."""
        return self.below(owner, 'Processors', name, ProcessorType=kind, **body)

    def card(self, owner: str, name: str, *functions: dict[str, Any], **body: Any) -> str:
        """A PCIeDevice of a Chassis, or of a System that has a collection of them, with its functions."""
        uri = self.below(owner, 'PCIeDevices', name, **body)
        for n, function in enumerate(functions):
            self.below(uri, 'PCIeFunctions', str(n), **function)
        return uri

    def item(self, name: str, *related: str, **body: Any) -> str:
        """A SoftwareInventory of FirmwareInventory."""
        if SERVICE not in self.tree:
            self.tree[ROOT]['UpdateService'] = link(SERVICE)
            self.put(SERVICE)
        if related:
            body['RelatedItem'] = links(*related)
        return self.below(SERVICE, 'FirmwareInventory', name, **{'Version': '1.0', **body})

    def look(self, **address: Any) -> Any:
        """One look."""
        return self.bmc.look(**address)

    def kinds(self) -> list[str]:
        """The kinds that a look finds, sorted."""
        return sorted(a.kind.value for a in self.look().accelerators)

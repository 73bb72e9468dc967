# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Manager resources: the BMC itself, its network protocols and interfaces, host interface, virtual media, log and reset."""

from collections.abc import Mapping, Sequence
from typing import Any

from baremetal_acc.emulator.redfish.bmc_services import add_network_protocol
from baremetal_acc.emulator.redfish.errors import RedfishError
from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Caller,
    Outcome,
    Parameter,
    Resource,
    ResourceAction,
    collection,
    ref,
    refs,
    status,
)
from baremetal_acc.emulator.redfish.system import add_ethernet, add_log
from baremetal_acc.emulator.redfish.view import View

MANAGERS = f'{ROOT}/Managers'
RESETS = ('GracefulRestart', 'ForceRestart')


def add_managers_collection(view: View) -> None:
    """Add the collection; each Manager joins it."""
    view.tree.add(collection(MANAGERS, 'Manager', view.tree.joined(MANAGERS)))


def add_manager(
    view: View,
    name: str,
    *,
    model: str,
    manufacturer: str,
    uuid: str,
    component: str | None,
    systems: Sequence[str],
    chassis: Sequence[str],
    in_chassis: str,
    mac: str,
    host_interface: bool = False,
    virtual_media: bool = False,
    properties: Mapping[str, Any] | None = None,
    is_self: bool = True,
) -> str:
    """Add a Manager; return its URI.

    :param component: the component that holds its firmware.
    :param is_self: whether it is the answering BMC: only that one can be reset.
    """
    machine = view.machine
    uri = f'{MANAGERS}/{name}'
    console = f'{uri}/SerialConsole'
    machine.add_setting(console, True, bmc=view.name, uri=uri)

    def render() -> Body:
        bmc = machine.bmcs[view.name]
        body: Body = {
            'Id': name,
            'Name': f'{name} Manager',
            'ManagerType': 'BMC',
            'Manufacturer': manufacturer,
            'Model': model,
            'UUID': uuid,
            'ServiceEntryPointUUID': uuid,
            'PowerState': 'On',
            'DateTime': machine.clock.wall(),
            'DateTimeLocalOffset': '+00:00',
            **({'LastResetTime': machine.clock.wall(bmc.last_reset)} if view.options.host_history else {}),
            'SerialConsole': {
                'ServiceEnabled': machine.shown(console),
                'MaxConcurrentSessions': 15,
                'ConnectTypesSupported': ['SSH'],
            },
            'NetworkProtocol': ref(f'{uri}/NetworkProtocol'),
            'EthernetInterfaces': ref(f'{uri}/EthernetInterfaces'),
            'LogServices': ref(f'{uri}/LogServices'),
            'Status': status(),
            'Links': {
                'ManagerForServers': refs(systems),
                'ManagerForServers@odata.count': len(systems),
                'ManagerForChassis': refs(chassis),
                'ManagerForChassis@odata.count': len(chassis),
                'ManagerInChassis': ref(in_chassis),
            },
            **(properties or {}),
        }
        if component is not None:
            held = machine.components[component]
            body['FirmwareVersion'] = machine.shown_version(component)
            if view.options.update_service:
                body['Links']['ActiveSoftwareImage'] = ref(held.uri)
                body['Links']['SoftwareImages'] = refs([held.uri])
        if host_interface:
            body['HostInterfaces'] = ref(f'{uri}/HostInterfaces')
        if virtual_media:
            body['VirtualMedia'] = ref(f'{uri}/VirtualMedia')
        return body

    def restart(caller: Caller, body: Body) -> Outcome:
        machine.reset_bmc(view.name)
        return Outcome()

    actions: tuple[ResourceAction, ...] = ()
    if is_self:
        actions = (
            ResourceAction(
                name='#Manager.Reset',
                target=f'{uri}/Actions/Manager.Reset',
                parameters=(Parameter(name='ResetType', allowed=RESETS),),
                invoke=restart,
                privilege='ConfigureManager',
            ),
        )
    view.tree.add(
        Resource(
            uri=uri,
            type='#Manager.v1_19_2.Manager',
            render=render,
            actions=actions,
            writable=lambda: {'SerialConsole': {'ServiceEnabled': view.setting(console, (bool,))}},
            volatile=frozenset({'DateTime'}),
            privilege='ConfigureManager',
        ),
    )
    add_network_protocol(view, uri)
    view.tree.join(MANAGERS, uri)
    add_ethernet(view, uri, {'eth0': mac}, address='192.0.2.10')
    add_log(view, uri, 'Journal', kind='Event', entries=('The management controller has started.',))
    if host_interface:
        _add_host_interface(view, uri)
    if virtual_media:
        _add_virtual_media(view, uri)
    return uri


def _add_host_interface(view: View, manager: str) -> None:
    uri = f'{manager}/HostInterfaces/hostusb0'
    lock = view.machine.add_lock(f'{uri}/InterfaceEnabled', True, locked=False, open=True, bmc=view.name, uri=uri)
    view.machine.bmcs[view.name].host_paths.setdefault('redfish', []).append(lock.key)
    view.machine.add_setting(f'{uri}/CredentialBootstrapping', False, bmc=view.name, uri=uri)
    view.tree.add(
        collection(f'{manager}/HostInterfaces', 'HostInterface', [uri]),
        Resource(
            uri=uri,
            type='#HostInterface.v1_3_2.HostInterface',
            render=lambda: {
                'Id': 'hostusb0',
                'Name': 'Host Interface',
                'HostInterfaceType': 'NetworkHostInterface',
                'InterfaceEnabled': view.machine.shown(f'{uri}/InterfaceEnabled'),
                'CredentialBootstrapping': {
                    'Enabled': view.machine.shown(f'{uri}/CredentialBootstrapping'),
                    'EnableAfterReset': False,
                    'RoleId': 'Administrator',
                },
                'ExternallyAccessible': False,
                'Status': status(),
            },
            writable=lambda: {
                'InterfaceEnabled': view.setting(f'{uri}/InterfaceEnabled', (bool,)),
                'CredentialBootstrapping': {'Enabled': view.setting(f'{uri}/CredentialBootstrapping', (bool,))},
            },
            privilege='ConfigureManager',
        ),
    )


def _add_virtual_media(view: View, manager: str) -> None:
    machine = view.machine
    uri = f'{manager}/VirtualMedia/Cd'
    machine.add_setting(f'{uri}/Image', None, bmc=view.name, uri=uri)

    def render() -> Body:
        image = machine.shown(f'{uri}/Image')
        return {
            'Id': 'Cd',
            'Name': 'Virtual CD',
            'MediaTypes': ['CD', 'DVD'],
            'Image': image,
            'ImageName': str(image).rsplit('/', 1)[-1] if image else None,
            'Inserted': image is not None,
            'ConnectedVia': 'URI' if image else 'NotConnected',
            'WriteProtected': True,
            'TransferProtocolType': None,
            'Status': status(),
        }

    def insert(caller: Caller, body: Body) -> Outcome:
        if machine.shown(f'{uri}/Image') is not None:
            raise RedfishError(400, 'ResourceInUse', text='There is a medium in the drive.')
        machine.configure(f'{uri}/Image', str(body['Image']))
        return Outcome()

    def eject(caller: Caller, body: Body) -> Outcome:
        machine.configure(f'{uri}/Image', None)
        return Outcome()

    view.tree.add(
        collection(f'{manager}/VirtualMedia', 'VirtualMedia', [uri]),
        Resource(
            uri=uri,
            type='#VirtualMedia.v1_6_3.VirtualMedia',
            render=render,
            actions=(
                ResourceAction(
                    name='#VirtualMedia.InsertMedia',
                    target=f'{uri}/Actions/VirtualMedia.InsertMedia',
                    parameters=(
                        Parameter(name='Image', required=True),
                        Parameter(name='Inserted', types=(bool,)),
                        Parameter(name='WriteProtected', types=(bool,)),
                        Parameter(name='MediaType'),
                        Parameter(name='TransferMethod'),
                        Parameter(name='TransferProtocolType'),
                        Parameter(name='UserName'),
                        Parameter(name='Password'),
                    ),
                    invoke=insert,
                    privilege='ConfigureManager',
                ),
                ResourceAction(
                    name='#VirtualMedia.EjectMedia',
                    target=f'{uri}/Actions/VirtualMedia.EjectMedia',
                    parameters=(),
                    invoke=eject,
                    privilege='ConfigureManager',
                ),
            ),
            privilege='ConfigureManager',
        ),
    )

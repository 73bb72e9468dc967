# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Services next to the Manager of an emulated BMC: event subscriptions, the protocols of its network, and its certificate."""

from urllib.parse import urlsplit

from baremetal_acc.emulator.redfish.errors import RedfishError
from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Caller,
    Outcome,
    Resource,
    Writables,
    body_of,
    collection,
    ref,
    status,
)
from baremetal_acc.emulator.redfish.view import View

EVENTS = f'{ROOT}/EventService'
SUBSCRIPTIONS = f'{EVENTS}/Subscriptions'

MAX_SUBSCRIPTIONS = 20
"""Limit of the subscriptions of one BMC, as on OpenBMC."""


def add_events(view: View) -> None:
    """Add an EventService, which keeps subscriptions and sends no events."""
    held: dict[str, Body] = {}

    def subscription(identity: str) -> Resource:
        def delete(caller: Caller) -> Outcome:
            del held[identity]
            return Outcome()

        return Resource(
            uri=f'{SUBSCRIPTIONS}/{identity}',
            type='#EventDestination.v1_14_1.EventDestination',
            render=lambda: {
                'Id': identity,
                'Name': f'Event Subscription {identity}',
                'Protocol': 'Redfish',
                'SubscriptionType': 'RedfishEvent',
                'Context': None,
                'Status': status(),
                **held[identity],
            },
            delete=delete,
            privilege='ConfigureManager',
        )

    def create(caller: Caller, body: Body) -> Outcome:
        place = body.get('Destination')
        if not isinstance(place, str):
            raise RedfishError(400, 'PropertyMissing', 'Destination')
        if not urlsplit(place).hostname:
            raise RedfishError(400, 'PropertyValueFormatError', place, 'Destination')
        if len(held) >= MAX_SUBSCRIPTIONS:
            raise RedfishError(400, 'ResourceInUse', text='There are no more subscriptions.')
        identity = str(max((int(one) for one in held), default=0) + 1)
        held[identity] = {'Destination': place}
        made = subscription(identity)
        return Outcome(status=201, body=body_of(made), headers={'Location': made.uri})

    view.tree.add(
        Resource(
            uri=EVENTS,
            type='#EventService.v1_10_3.EventService',
            render=lambda: {
                'Id': 'EventService',
                'Name': 'Event Service',
                'Status': status(),
                'ServiceEnabled': True,
                'DeliveryRetryAttempts': 3,
                'DeliveryRetryIntervalSeconds': 60,
                'Subscriptions': ref(SUBSCRIPTIONS),
            },
            privilege='ConfigureManager',
        ),
        collection(
            SUBSCRIPTIONS,
            'EventDestination',
            lambda: [f'{SUBSCRIPTIONS}/{one}' for one in held],
            create=create,
            privilege='ConfigureManager',
        ),
    )
    view.tree.add_source(lambda: [subscription(one) for one in list(held)])


def add_network_protocol(view: View, manager: str) -> None:
    """Add the NetworkProtocol of a Manager, whose IPMI can be switched, and the certificate of its HTTPS service."""
    uri = f'{manager}/NetworkProtocol'
    ipmi = f'{uri}/IPMI'
    certificates = f'{uri}/HTTPS/Certificates'
    view.machine.add_setting(ipmi, False, bmc=view.name, uri=uri)

    def issuer() -> str:
        is_changed = view.machine.faults.find('certificate-changed', bmc=view.name, use=False) is not None
        return 'Another Issuing CA' if is_changed else 'Example Issuing CA 1'

    def writable() -> Writables:
        return {'IPMI': {'ProtocolEnabled': view.setting(ipmi, (bool,))}}

    view.tree.add(
        Resource(
            uri=uri,
            type='#ManagerNetworkProtocol.v1_10_1.ManagerNetworkProtocol',
            render=lambda: {
                'Id': 'NetworkProtocol',
                'Name': 'Manager Network Protocol',
                'HostName': 'bmc',
                'FQDN': 'bmc.example.org',
                'HTTP': {'ProtocolEnabled': False, 'Port': 80},
                'HTTPS': {'ProtocolEnabled': True, 'Port': 443, 'Certificates': ref(certificates)},
                'SSH': {'ProtocolEnabled': True, 'Port': 22},
                'IPMI': {'ProtocolEnabled': view.machine.shown(ipmi), 'Port': 623},
                'NTP': {'ProtocolEnabled': False, 'NTPServers': []},
                'Status': status(),
            },
            writable=writable,
            privilege='ConfigureManager',
        ),
        collection(certificates, 'Certificate', [f'{certificates}/1'], privilege='ConfigureManager'),
        Resource(
            uri=f'{certificates}/1',
            type='#Certificate.v1_8_2.Certificate',
            render=lambda: {
                'Id': '1',
                'Name': 'HTTPS Certificate',
                'CertificateType': 'PEM',
                'Issuer': {'CommonName': issuer(), 'Organization': 'Example'},
                'Subject': {'CommonName': 'bmc.example.org', 'Organization': 'Example'},
                'ValidNotBefore': '2026-01-01T00:00:00Z',
                'ValidNotAfter': '2046-01-01T00:00:00Z',
                'KeyUsage': ['ServerAuthentication'],
            },
            privilege='ConfigureManager',
        ),
    )


def add_console(view: View, system: str) -> None:
    """Add the settings of the serial console of a System."""
    for protocol in ('IPMI', 'SSH'):
        view.machine.add_setting(f'{system}/SerialConsole/{protocol}', False, bmc=view.name, uri=system)


def console(view: View, system: str) -> Body:
    """The SerialConsole of a System, as it is shown."""
    shown = {name: view.machine.shown(f'{system}/SerialConsole/{name}') for name in ('IPMI', 'SSH')}
    return {
        'MaxConcurrentSessions': 1,
        'IPMI': {'ServiceEnabled': shown['IPMI'], 'Port': 623},
        'SSH': {'ServiceEnabled': shown['SSH'], 'Port': 2200, 'SharedWithManagerCLI': False},
    }


def console_writable(view: View, system: str) -> Writables:
    """The properties of the SerialConsole of a System that can be written."""
    return {name: {'ServiceEnabled': view.setting(f'{system}/SerialConsole/{name}', (bool,))} for name in ('IPMI', 'SSH')}

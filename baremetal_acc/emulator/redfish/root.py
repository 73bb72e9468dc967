# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Redfish service root of an emulated BMC, its message registries, $metadata and the OData service document."""

import uuid
from xml.sax.saxutils import quoteattr

from baremetal_acc.emulator.redfish.errors import REGISTRIES
from baremetal_acc.emulator.redfish.query import MAX_LEVELS
from baremetal_acc.emulator.redfish.resource import ROOT, Body, Resource, ResourceTree, collection, ref
from baremetal_acc.emulator.redfish.view import View

REDFISH_VERSION = '1.21.0'


def add_root(view: View, *, product: str, vendor: str, manager: str, seed: str) -> None:
    """Add the service root with links to the services of this BMC, and its message registries."""
    options = view.options

    def render() -> Body:
        body: Body = {
            'Id': 'RootService',
            'Name': 'Root Service',
            'RedfishVersion': REDFISH_VERSION,
            'UUID': str(uuid.uuid5(uuid.NAMESPACE_URL, f'{seed}/{view.name}/root')),
            'Product': product,
            'Vendor': vendor,
            'Systems': ref(f'{ROOT}/Systems'),
            'Chassis': ref(f'{ROOT}/Chassis'),
            'Managers': ref(f'{ROOT}/Managers'),
            'Tasks': ref(f'{ROOT}/TaskService'),
            'AccountService': ref(f'{ROOT}/AccountService'),
            'SessionService': ref(f'{ROOT}/SessionService'),
            'EventService': ref(f'{ROOT}/EventService'),
            'Registries': ref(f'{ROOT}/Registries'),
            'Links': {
                'Sessions': ref(f'{ROOT}/SessionService/Sessions'),
                'ManagerProvidingService': ref(manager),
            },
            'ProtocolFeaturesSupported': {
                'ExcerptQuery': False,
                'FilterQuery': False,
                'SelectQuery': True,
                'OnlyMemberQuery': True,
                'TopSkipQuery': True,
                'MultipleHTTPRequests': True,
                'DeepOperations': {'DeepPATCH': False, 'DeepPOST': False},
                'ExpandQuery': {
                    'ExpandAll': options.expand,
                    'Levels': options.expand,
                    'Links': options.expand,
                    'NoLinks': options.expand,
                    **({'MaxLevels': MAX_LEVELS} if options.expand else {}),
                },
            },
        }
        if options.update_service:
            body['UpdateService'] = ref(f'{ROOT}/UpdateService')
        if view.tree.has(f'{ROOT}/ComponentIntegrity'):
            body['ComponentIntegrity'] = ref(f'{ROOT}/ComponentIntegrity')
        return body

    names = list(REGISTRIES)
    view.tree.add(
        Resource(uri=ROOT, type='#ServiceRoot.v1_17_0.ServiceRoot', render=render, privilege='ConfigureManager'),
        collection(
            f'{ROOT}/Registries',
            'MessageRegistryFile',
            [f'{ROOT}/Registries/{name}' for name in names],
            name='Registry File Collection',
        ),
    )
    for name in names:
        view.tree.add(*_registry(name))


def _registry(name: str) -> tuple[Resource, Resource]:
    version, messages = REGISTRIES[name]
    number = version.split('.', 1)[1]
    uri = f'{ROOT}/Registries/{name}'
    file = Resource(
        uri=uri,
        type='#MessageRegistryFile.v1_1_5.MessageRegistryFile',
        render=lambda: {
            'Id': name,
            'Name': f'{name} Message Registry File',
            'Registry': version.rsplit('.', 1)[0],
            'Languages': ['en'],
            'Location': [{'Language': 'en', 'Uri': f'{uri}/{name}'}],
        },
        privilege='ConfigureManager',
    )
    registry = Resource(
        uri=f'{uri}/{name}',
        type='#MessageRegistry.v1_6_3.MessageRegistry',
        render=lambda: {
            'Id': version,
            'Name': f'{name} Message Registry',
            'Description': 'The messages of this registry that this service sends',
            'Language': 'en',
            'RegistryPrefix': name,
            'RegistryVersion': number,
            'OwningEntity': 'DMTF',
            'Messages': {
                key: {
                    'Description': text,
                    'Message': text,
                    'MessageSeverity': severity,
                    'NumberOfArgs': count,
                    **({'ParamTypes': ['string'] * count} if count else {}),
                    'Resolution': resolution,
                }
                for key, (text, count, severity, resolution) in messages.items()
            },
        },
        privilege='ConfigureManager',
    )
    return file, registry


def metadata(tree: ResourceTree) -> str:
    """The document ``$metadata``: a reference for each schema that the resources use. Source: DSP0266, OData metadata."""
    namespaces: dict[str, set[str]] = {'ServiceRoot': set(), 'RedfishExtensions': {'RedfishExtensions.v1_0_0'}}
    for resource in tree.snapshot().values():
        parts = resource.type.lstrip('#').split('.')
        namespaces.setdefault(parts[0], set()).add('.'.join(parts[:-1]))
    for inner in ('Resource', 'Message', 'Settings', 'SoftwareInventory', 'PhysicalContext', 'Redundancy'):
        namespaces.setdefault(inner, set())
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">',
    ]
    for name, versions in sorted(namespaces.items()):
        uri = f'http://redfish.dmtf.org/schemas/v1/{name}_v1.xml'
        lines.append(f'  <edmx:Reference Uri={quoteattr(uri)}>')
        for namespace in sorted({name} | versions):
            alias = ' Alias="Redfish"' if namespace == 'RedfishExtensions.v1_0_0' else ''
            lines.append(f'    <edmx:Include Namespace={quoteattr(namespace)}{alias}/>')
        lines.append('  </edmx:Reference>')
    lines += [
        '  <edmx:DataServices>',
        '    <Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">',
        '      <EntityContainer Name="Service" Extends="ServiceRoot.v1_17_0.ServiceContainer"/>',
        '    </Schema>',
        '  </edmx:DataServices>',
        '</edmx:Edmx>',
    ]
    return '\n'.join(lines) + '\n'


def odata(tree: ResourceTree) -> Body:
    """The OData service document. Source: DSP0266, OData service document."""
    root = tree.snapshot()[ROOT].render()
    links = [name for name, value in root.items() if isinstance(value, dict) and '@odata.id' in value]
    return {
        '@odata.context': f'{ROOT}/$metadata',
        'value': [
            {'name': 'Service', 'kind': 'Singleton', 'url': f'{ROOT}/'},
            *({'name': name, 'kind': 'Singleton', 'url': root[name]['@odata.id']} for name in links),
        ],
    }

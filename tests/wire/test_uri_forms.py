# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A link means the same resource in whatever form a BMC writes it: case, slashes, percent-encoding, authority, fragment."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.execution.observation import observe
from tests.wire.recorded import ADDRESS, NOW, inventory_of, target_of, tools_of

FORMS: dict[str, Callable[[str], str]] = {
    'slash': lambda uri: f'{uri}/',
    'double-slash': lambda uri: uri.replace('/redfish/v1/', '/redfish//v1/'),
    'percent': lambda uri: uri[:-1] + f'%{ord(uri[-1]):02x}',
    'absolute': lambda uri: f'{ADDRESS}{uri}',
    'port': lambda uri: f'{ADDRESS}:443{uri}',
    'fragment': lambda uri: f'{uri}#/Status',
    'lower-case': str.lower,
    'upper-case': lambda uri: f'/redfish/v1{uri.removeprefix("/redfish/v1").upper()}',
}

PLACES = (
    'nvidia/gh200',
    'supermicro/hgx-h100-8gpu',
    'dell/r750-h100-bluefield2',
    'hpe/dl380a-gen11-2xh100nvl',
    'dmtf/smartnic',
)


class Caseless(dict[str, Any]):
    """A BMC to which the case of a URI says nothing."""

    def __init__(self, tree: dict[str, Any]) -> None:
        super().__init__(tree)
        self._only = {uri.casefold(): uri for uri in tree}

    def __contains__(self, uri: object) -> bool:
        return isinstance(uri, str) and uri.casefold() in self._only

    def get(self, uri: str, default: Any = None) -> Any:
        found = self._only.get(uri.casefold())
        return default if found is None else self[found]


def links_in(body: object, above: str = '') -> Iterator[tuple[dict[str, Any], str]]:
    """Every link that is no member of a collection, with the object that holds it and the name of the property."""
    if isinstance(body, dict):
        for name, value in body.items():
            if name == 'Members':
                continue
            if name == '@odata.id' and above:
                yield body, above
            yield from links_in(value, name)
    elif isinstance(body, list):
        for one in body:
            yield from links_in(one, above)


def rewritten(tree: dict[str, Any], form: Callable[[str], str]) -> dict[str, Any]:
    """A tree whose links are all written in another form; members, and what a resource calls itself, stay."""
    found = {}
    for uri, text in tree.items():
        body = json.loads(text.removeprefix('\ufeff')) if isinstance(text, str) else text
        for holder, _ in links_in(body):
            link = holder['@odata.id']
            if isinstance(link, str) and re.match(r'/redfish/v1/[^#]+$', link) and not link.endswith('/'):
                holder['@odata.id'] = form(link)
        found[uri] = body
    return found


def said(bmc: Any) -> tuple[object, ...]:
    """What may not differ: devices, their firmware, and their locks. Nobody tells the case of a resource that is not read."""
    seen = inventory_of(bmc)
    return tuple(
        (
            a.id, a.kind, a.model, {ref.uri.casefold() for ref in a.refs}, a.pci, a.location,
            [(c.id, c.version, c.certain) for c in a.firmware],
            [(r.mechanism, r.ref, r.field, r.value, r.state, r.scope, r.part) for r in a.locks],
        )
        for a in seen.accelerators
    )  # fmt: skip


@pytest.mark.parametrize('form', sorted(FORMS))
@pytest.mark.parametrize('name', PLACES)
def test_links_in_another_form_lead_to_the_same(name: str, form: str, bmc: Any, recording: Callable[[str], Any]) -> None:
    """The inventory is the same to the last lock, and says of nothing that it is not there."""
    bmc = recording(name)
    plain = dict(bmc.tree)
    expected = said(bmc)
    bmc.tree = rewritten(plain, FORMS[form])
    if form.endswith('case'):
        bmc.tree = Caseless(bmc.tree)
    assert expected == said(bmc)


RELATED = (
    'RelatedItem',
    'ComponentsProtected',
    'ActiveSoftwareImage',
    'SoftwareImages',
    'PCIeDevice',
    'PCIeFunctions',
    'Chassis',
)


@pytest.mark.parametrize('name', PLACES)
def test_a_bmc_that_knows_its_uris_in_one_case_only_means_the_one_that_there_is(
    name: str, bmc: Any, recording: Callable[[str], Any]
) -> None:
    """Links to what its collections list are written in another case, and are 404: one resource only may be meant."""
    bmc = recording(name)
    expected = said(bmc)
    tree = {uri: json.loads(t.removeprefix('\ufeff')) if isinstance(t, str) else t for uri, t in bmc.tree.items()}
    members = {m['@odata.id'] for body in tree.values() for m in body.get('Members') or () if isinstance(m, dict)}
    for body in tree.values():
        for holder, above in links_in(body):
            if above in RELATED and holder['@odata.id'] in members:
                holder['@odata.id'] = holder['@odata.id'].lower()
    bmc.tree = tree
    assert expected == said(bmc)


def test_a_link_to_a_device_that_is_not_there_hides(bmc: Any, recording: Callable[[str], Any]) -> None:
    """Firmware, and a root of trust, of a card that nobody sees."""
    bmc = recording('nvidia/gh200')
    tree = {uri: json.loads(t) if isinstance(t, str) else t for uri, t in bmc.tree.items()}
    bmc.tree = tree
    lost = '/redfish/v1/Systems/HGX_Baseboard_0/Processors/GPU_7'
    item = next(b for u, b in tree.items() if '/FirmwareInventory/' in u and b.get('RelatedItem'))
    item['RelatedItem'] = [{'@odata.id': lost}]
    root = next(b for b in tree.values() if 'ComponentsProtected' in json.dumps(b.get('Links', {})))
    root['Links']['Oem']['Nvidia']['ComponentsProtected'] = [{'@odata.id': lost}]
    fields = {(g.ref.uri, g.field) for g in inventory_of(bmc).gaps if g.hides}
    assert {(item['@odata.id'], 'RelatedItem'), (root['@odata.id'], 'Links/Oem/ComponentsProtected')} <= fields


def test_links_without_end_are_looked_at_in_part(bmc: Any, recording: Callable[[str], Any]) -> None:
    """A URI of a thousand segments, and an item of thousands of parts: a gap, and no more than that."""
    bmc = recording('nvidia/gh200')
    tree = {uri: json.loads(t) if isinstance(t, str) else t for uri, t in bmc.tree.items()}
    bmc.tree = tree
    item = next(b for u, b in tree.items() if '/FirmwareInventory/' in u and b.get('RelatedItem'))
    deep = '/redfish/v1/Chassis/X' + '/a' * 900
    item['RelatedItem'] = [{'@odata.id': deep}, *({'@odata.id': f'{deep[:200]}/{n}'} for n in range(1500))]
    seen = inventory_of(bmc)
    assert 2 == len(seen.accelerators)
    assert item['@odata.id'] in {gap.ref.uri for gap in seen.gaps if gap.hides}


def test_what_was_there_before_and_is_linked_no_more_is_gone_and_hides_nothing(
    bmc: Any, recording: Callable[[str], Any]
) -> None:
    """The next look reads ahead what the last one has needed."""
    bmc = recording('nvidia/gh200')
    tree = {uri: json.loads(t) if isinstance(t, str) else t for uri, t in bmc.tree.items()}
    bmc.tree = tree
    remembered = RememberedBmc()

    def look() -> tuple[Any, ...]:
        driver = bmc.driver(remembered)
        tools = replace(tools_of(bmc), connect=driver.connect)
        return tuple(g for g in observe(target_of(), tools, NOW).gaps if g.hides)

    assert () == look()
    gone = '/redfish/v1/Managers/BMC_0'
    listed = tree['/redfish/v1/Managers']
    listed['Members'] = [m for m in listed['Members'] if m['@odata.id'] != gone]
    listed['Members@odata.count'] = len(listed['Members'])
    bmc.tree = {uri: body for uri, body in tree.items() if not uri.startswith(f'{gone}/HostInterfaces')}
    assert () == look()

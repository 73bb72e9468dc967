# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A tenant's server from its boot by flavor to its deletion: Nova, placement, Ironic and the machine agree all the time."""

from pathlib import Path
from typing import Any

import pytest

from tests.journey.api import Node
from tests.journey.conftest import Enrol
from tests.nova_end_to_end.clients import Server, Site, classes, until

GZIP, AES = 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES'


def available(site: Site, enrol: Enrol, product: str, resource_class: str, **fields: Any) -> Node:
    """A machine that Nova may schedule to."""
    node = enrol(product, resource_class, **fields)
    node.to('provide', 'available')
    site.until_schedulable(node)
    return node


def power(node: Node) -> str:
    """Of the host, truly."""
    return str(node.machine.truth()['systems']['host']['power'])


def functions(node: Node) -> list[str | None]:
    """What the slots truly hold."""
    parts = node.machine.truth()['components']
    active = [parts[f'host/FPGA1_Slot{n}']['active'] for n in (0, 1)]
    return [None if a is None else a['function'] for a in active]


def refused(node: Node, documents: Path) -> None:
    """Root on the host can write none of the cards."""
    slot = (documents / 'tenant-slot.img').read_bytes()
    card = (documents / 'tenant-fpga.img').read_bytes()
    before = node.machine.truth()['components']
    answers = [node.machine.tenant_program('FPGA1', n, slot) for n in (0, 1)] + [node.machine.tenant_write('FPGA1', card)]
    assert [(False, 'locked')] * 3 == [(a['written'], a['code']) for a in answers]
    assert before == node.machine.truth()['components']


def handed_over(site: Site, server: Server, node: Node, documents: Path, *wanted: str) -> None:
    """All of them say that the tenant has the machine, and the machine is closed."""
    shown = server.show()
    assert ('ACTIVE', node.uuid) == (shown['status'], shown['OS-EXT-SRV-ATTR:hypervisor_hostname'])
    found = node.show()
    assert ('active', server.id) == (found['provision_state'], found['instance_uuid'])
    claims = server.claims()
    assert sorted([f'CUSTOM_{found["resource_class"].upper()}', *wanted]) == classes(claims.values())
    tree = site.services.placement.take('GET', f'/resource_providers?in_tree={node.uuid}')['resource_providers']
    assert claims.keys() <= {provider['uuid'] for provider in tree}
    assert ('On', []) == (power(node), node.open_ways())
    refused(node, documents)


@pytest.mark.parametrize('wanted', [GZIP, AES])
def test_one_function(site: Site, enrol: Enrol, documents: Path, wanted: str) -> None:
    """The claim is on the slot that truly holds the function."""
    node = available(site, enrol, 'fpga-server', 'functions')
    assert ['gzip', 'aes'] == functions(node)
    server = site.boot(site.flavor('functions', ACC=wanted))
    server.settle('ACTIVE')
    handed_over(site, server, node, documents, wanted)
    [claimed] = server.claims().keys() - {node.uuid}
    assert {wanted} == site.services.placement.take('GET', f'/resource_providers/{claimed}/inventories')['inventories'].keys()
    server.delete()


def test_a_whole_life(site: Site, enrol: Enrol, documents: Path) -> None:
    """Two functions and a GPU: boot, stop, start, both reboots, and after the deletion the same is offered as before it."""
    node = available(site, enrol, 'acc-server', 'life', parameters={'gpus': 2})
    offered, versions = node.offers(), node.versions()
    server = site.boot(site.flavor('life', A=GZIP, B=AES, C='PGPU'))
    server.settle('ACTIVE')
    handed_over(site, server, node, documents, GZIP, AES, 'PGPU')

    server.does('os-stop')
    server.settle('SHUTOFF')
    until(lambda: power(node) == 'Off', 60, 'that the host is off')
    assert [] == node.open_ways()
    server.does('os-start')
    server.settle('ACTIVE')
    handed_over(site, server, node, documents, GZIP, AES, 'PGPU')
    for kind in ('HARD', 'SOFT'):
        node.machine.reset_log()
        server.does('reboot', {'type': kind})
        server.settle('ACTIVE')
        assert [] != [entry for entry in node.writes() if entry['path'].endswith('ComputerSystem.Reset')], kind
        until(lambda: power(node) == 'On', 60, 'that the host is on')
        handed_over(site, server, node, documents, GZIP, AES, 'PGPU')
    assert versions == node.versions()

    server.delete()
    node.until_offers(*offered)
    assert 'cleaning' in node.seen or node.settle()['provision_state'] == 'available'
    site.until_schedulable(node)
    assert (versions, []) == (node.versions(), node.open_ways())
    assert {'instance_uuid': None, 'lessee': None} == {key: node.show()[key] for key in ('instance_uuid', 'lessee')}
    again = site.boot(site.flavor('life', A=GZIP, B=AES, C='PGPU'))
    again.settle('ACTIVE')
    # The deploy interface noop changes no power, and nothing had to be written: the host is as the cleaning has left it.
    again.does('reboot', {'type': 'HARD'})
    again.settle('ACTIVE')
    until(lambda: power(node) == 'On', 60, 'that the host is on')
    handed_over(site, again, node, documents, GZIP, AES, 'PGPU')
    again.delete()


@pytest.mark.parametrize('unknown', ['CUSTOM_ACC_FN_NEVER_SEEN', 'CUSTOM_ACC_FN_ZSTD'])
def test_a_function_that_no_machine_has(site: Site, enrol: Enrol, unknown: str) -> None:
    """One that nobody knows, and one of the catalogue that no card holds: no valid host, and nothing happens to the machine."""
    node = available(site, enrol, 'fpga-server', 'functions')
    node.machine.reset_log()
    server = site.boot(site.flavor('functions', ACC=unknown))
    fault = server.settle('ERROR')['fault']
    assert (500, 'No valid host was found. ') == (fault['code'], fault['message'])
    assert ({}, 'available', None) == (server.claims(), node.show()['provision_state'], node.show()['instance_uuid'])
    assert ([], ['gzip', 'aes']) == (node.writes(), functions(node))
    server.delete()


def test_a_region_that_is_programmed_for_the_tenant(site: Site, enrol: Enrol, documents: Path) -> None:
    """The deploy template of the flavor's trait runs: the claimed region holds the function at the hand-over."""
    steps = [{'interface': 'firmware', 'step': 'program_accelerators', 'args': {'claimed': True}, 'priority': 150}]
    site.services.ironic.take('POST', '/v1/deploy_templates', {'name': 'CUSTOM_ACC_PROGRAM', 'steps': steps})
    node = available(site, enrol, 'fpga-server', 'regions')
    assert [None, None] == functions(node)
    server = site.boot(site.flavor('regions', ACC='FPGA CUSTOM_ACC_CAN_GZIP'))
    server.settle('ACTIVE')
    handed_over(site, server, node, documents, 'FPGA')
    assert ['gzip', None] == sorted(functions(node), key=lambda name: name is None)
    server.delete()
    node.until_offers('FPGA', 'FPGA')

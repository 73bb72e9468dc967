# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What can be claimed in placement of a card with regions, and which claims protect a card from a flash.

The cases of the issue about placement, with real Ironic, real placement and an emulated machine:

================================================================  ===========================================================
case                                                              shown by
================================================================  ===========================================================
two functions on two regions of one card                          test_two_functions_of_one_card_are_claimed_each_as_its_own
in-use inventory cannot be removed, and the flash is refused      test_what_somebody_has_claimed_is_not_written
fully dynamic with trait                                          test_a_region_takes_another_function_for_its_next_tenant,
                                                                  test_regions.py
single program: an empty region yields no candidates,             test_an_empty_region_is_a_candidate_once_it_was_programmed
programming makes it a candidate
flat to nested with live allocations, 8 claimers                  ../wire/test_reshape.py, ../race/hammer.py
names that Cyborg uses                                            test_a_flavor_by_the_names_that_cyborg_uses_is_deployed
names are known before they are needed                            test_vocabulary.py
race: 16 publishers and 16 claimers, injected faults              ../race/
calls of a publication                                            ../wire/test_placement.py, ../../benchmarks/placement
Nova's report client and resource tracker beside the tree         ../nova/, test_nova.py
pools and demand, a flood of demands                              test_pools.py, test_demand.py
attach lifecycle, rollback                                        test_attach.py
operator page: every message provoked, every flavor asked for     ../wire/test_stuck.py, ../nova/test_flavors.py
================================================================  ===========================================================
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journey.api import Json, Node, Services
from tests.journey.conftest import FPGA_NEW, Enrol
from tests.journey.test_regions import functions, template

pytestmark = pytest.mark.journey

GZIP, AES = 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES'
CAN, PROGRAM = 'CUSTOM_ACC_CAN_', 'CUSTOM_ACC_PROGRAM'


def candidates(node: Node, groups: str) -> list[dict[str, Any]]:
    """What placement answers Nova for a flavor: the machine, and these groups; of this node alone."""
    query = f'resources=CUSTOM_BAREMETAL:1{groups}&in_tree={node.uuid}'
    found = node.services.placement.take('GET', f'/allocation_candidates?{query}')['allocation_requests']
    return [{p: a['resources'] for p, a in one['allocations'].items()} for one in found]


def regions(node: Node, resource_class: str) -> list[str]:
    """Who offers a class below a node."""
    placement = node.services.placement
    tree = [p['uuid'] for p in placement.take('GET', f'/resource_providers?in_tree={node.uuid}')['resource_providers']]
    return [p for p in tree if resource_class in placement.take('GET', f'/resource_providers/{p}/inventories')['inventories']]


def hold(services: Services, resources: dict[str, dict[str, int]]) -> str:
    """A claim of some consumer."""
    consumer = str(uuid.uuid4())
    body = {'project_id': 'p', 'user_id': 'u', 'consumer_generation': None, 'consumer_type': 'INSTANCE'}
    allocations = {p: {'resources': r} for p, r in resources.items()}
    services.placement.take('PUT', f'/allocations/{consumer}', body | {'allocations': allocations})
    return consumer


def contents(node: Node) -> dict[str, Json]:
    """Everything that placement has below a node's root."""
    placement = node.services.placement
    tree = placement.take('GET', f'/resource_providers?in_tree={node.uuid}')['resource_providers']
    below = [p['uuid'] for p in tree if p['uuid'] != node.uuid]
    return {p: placement.take('GET', f'/resource_providers/{p}/inventories')['inventories'] for p in below}


def test_two_functions_of_one_card_are_claimed_each_as_its_own(enrol: Enrol, services: Services) -> None:
    """Three flavors: for the one, for the other, for both; the machine that one of them got offers nothing to the others."""
    node = enrol('acc-server', 'functions')
    node.to('provide', 'available')
    assert ['gzip', 'aes'] == functions(node)
    [first], [second] = regions(node, GZIP), regions(node, AES)
    machine = {'CUSTOM_BAREMETAL': 1}
    assert [{node.uuid: machine, first: {GZIP: 1}}] == candidates(node, f'&resources_ACC={GZIP}:1')
    assert [{node.uuid: machine, second: {AES: 1}}] == candidates(node, f'&resources_ACC={AES}:1')
    assert [] == candidates(node, f'&resources_A={GZIP}:1&resources_B={GZIP}:1&group_policy=isolate')
    both = f'&resources_A={GZIP}:1&resources_B={AES}:1&group_policy=isolate'
    [wanted] = candidates(node, both)
    assert {node.uuid: machine, first: {GZIP: 1}, second: {AES: 1}} == wanted

    node.patch(instance_uuid=hold(services, wanted), instance_info__traits=[])
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    assert ['gzip', 'aes'] == functions(node)
    assert [] == candidates(node, both) + candidates(node, f'&resources_ACC={GZIP}:1')
    assert [False, False] == [node.may_be_claimed(name) for name in (GZIP, AES)]
    assert [] == node.open_ways()


@pytest.fixture
def rule(services: Services) -> Iterator[Callable[[str], None]]:
    """Adds a rule to the baseline that the conductor reads, for as long as the test takes."""
    path = services.folder / 'baseline.toml'
    before = path.read_text()
    yield lambda text: replace_text(path, before + text)
    replace_text(path, before)


def replace_text(path: Path, text: str) -> None:
    """At once, as editors and configuration management do."""
    new = path.with_name('new.toml')
    new.write_text(text)
    new.rename(path)


def test_what_somebody_has_claimed_is_not_written(enrol: Enrol, services: Services, rule: Callable[[str], None]) -> None:
    """Not its region, nor another one of its card, nor its card: each step fails and names the consumer; nothing was sent."""
    node = enrol('acc-server', 'functions')
    node.to('provide', 'available')
    [first] = regions(node, GZIP)
    other = hold(services, {first: {GZIP: 1}})
    node.to('manage', 'manageable')
    only = '{ resource_class = "functions", kind = "FPGA" }'
    rule(f'[[rule]]\nname = "newer"\nmatch = {only}\nfirmware = {{ FPGA1_FW = "{FPGA_NEW}" }}\n')
    before, versions = contents(node), node.versions()
    assert FPGA_NEW not in versions.values()
    node.machine.reset_log()
    for step, arguments in (
        ('program_accelerators', {'functions': {'Slot0': 'aes'}}),
        ('program_accelerators', {'functions': {'Slot1': 'gzip'}}),
        ('update_accelerator_firmware', {}),
    ):
        found = node.clean(step, **arguments)
        assert 'clean failed' == found['provision_state'], step
        for words in (f'consumer {other}', GZIP, f'{node.uuid}_ACC_', 'openstack resource provider allocation show'):
            assert words in found['last_error'], found['last_error']
        assert [] == node.uploads()
        assert versions == node.versions()
        holders = services.placement.take('GET', f'/resource_providers/{first}/allocations')['allocations']
        assert (1, [other]) == (contents(node)[first][GZIP]['total'], [*holders])
        node.recover()
    assert before.keys() == contents(node).keys()

    # When it is gone, the same steps do it.
    services.placement.take('DELETE', f'/allocations/{other}')
    for step, arguments in (('program_accelerators', {'functions': {'Slot0': 'aes'}}), ('update_accelerator_firmware', {})):
        found = node.clean(step, **arguments)
        assert 'manageable' == found['provision_state'], found['last_error']
    assert 'aes' == functions(node)[0]
    assert FPGA_NEW in node.versions().values()


def test_a_region_takes_another_function_for_its_next_tenant(enrol: Enrol, services: Services) -> None:
    """The very same region: as gzip for one tenant, as aes for the next, who asks by a trait in a flavor."""
    template(services)
    node = enrol('acc-server', 'regions')
    node.to('provide', 'available')
    region = min(regions(node, 'FPGA'))
    for name in ('GZIP', 'AES', 'GZIP'):
        choices = candidates(node, f'&resources_ACC=FPGA:1&required_ACC={CAN}{name}')
        assert 2 == len(choices)
        [wanted] = [choice for choice in choices if region in choice]
        instance = hold(services, wanted)
        node.patch(instance_uuid=instance, instance_info__traits=[PROGRAM, f'{CAN}{name}'])
        found = node.deploy()
        assert 'active' == found['provision_state'], found['last_error']
        assert name.lower() in functions(node)
        traits = services.placement.take('GET', f'/resource_providers/{region}/traits')['traits']
        assert [f'CUSTOM_ACC_FN_{name}'] == [t for t in traits if t.startswith('CUSTOM_ACC_FN_')]
        assert 'CUSTOM_PROGRAMMABLE' in traits
        node.provision('deleted')
        services.placement.take('DELETE', f'/allocations/{instance}')
        found = node.settle()
        assert 'available' == found['provision_state'], found['last_error']


def test_an_empty_region_is_a_candidate_once_it_was_programmed(enrol: Enrol, services: Services) -> None:
    """Of its function's own class. While anybody holds the region it keeps its function."""
    node = enrol('acc-server', 'locks')
    node.to('provide', 'available')
    assert [None, None] == functions(node)
    asked = f'&resources_ACC={AES}:1'
    assert [] == candidates(node, asked)
    providers = contents(node).keys()

    node.to('manage', 'manageable')
    found = node.clean('program_accelerators', functions={'Slot1': 'aes'})
    assert 'manageable' == found['provision_state'], found['last_error']
    node.to('provide', 'available')
    assert 'aes' == functions(node)[1]
    [wanted] = candidates(node, asked)
    [region] = regions(node, AES)
    assert {node.uuid: {'CUSTOM_BAREMETAL': 1}, region: {AES: 1}} == wanted
    assert providers == contents(node).keys()

    # A tenant has it, machine and all: neither Ironic nor an operator gives the region another function under it.
    instance = hold(services, wanted)
    node.patch(instance_uuid=instance, instance_info__traits=[])
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    node.machine.reset_log()
    node.serve('program_accelerators', functions={'Slot1': 'gzip'})
    found = node.settle()
    assert 'service failed' == found['provision_state']
    assert f'the instance has claimed {AES}, and the plan would program gzip' in found['last_error']
    assert 'aes' == functions(node)[1]
    assert [] == node.uploads()
    assert {region: {AES: 1}} == {p: r for p, r in wanted.items() if p != node.uuid}
    assert [instance] == [*services.placement.take('GET', f'/resource_providers/{region}/allocations')['allocations']]

    # When it has left, another function is another class.
    node.provision('deleted')
    services.placement.take('DELETE', f'/allocations/{instance}')
    found = node.settle()
    assert 'available' == found['provision_state'], found['last_error']
    node.to('manage', 'manageable')
    services.ironic.ask('DELETE', f'{node.path}/maintenance')
    found = node.clean('program_accelerators', functions={'Slot1': 'gzip'})
    assert 'manageable' == found['provision_state'], found['last_error']
    node.to('provide', 'available')
    assert [] == candidates(node, asked)
    assert [region] == regions(node, GZIP)
    assert providers == contents(node).keys()


def test_a_flavor_by_the_names_that_cyborg_uses_is_deployed(enrol: Enrol, services: Services) -> None:
    """Placement finds the device by it, and the node has it, without which Ironic refuses what Nova hands on."""
    node = enrol('gpu-server', 'locks', parameters={'gpus': 1})
    node.to('provide', 'available')
    name = 'CUSTOM_NVIDIA_2330'
    assert name in services.ironic.take('GET', f'{node.path}/traits')['traits']
    [wanted] = candidates(node, f'&resources_ACC=PGPU:1&required_ACC={name}')
    node.patch(instance_uuid=hold(services, wanted), instance_info__traits=[name])
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    assert name in services.ironic.take('GET', f'{node.path}/traits')['traits']

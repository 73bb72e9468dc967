# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An instance gets all of its accelerators or none: those prepared for it are restored when one of them fails."""

import uuid
from typing import Any

import pytest

from tests.journey.api import Node, Services
from tests.journey.conftest import Enrol
from tests.journey.test_regions import CAN, PROGRAM, functions, template

pytestmark = pytest.mark.journey

BEFORE = ['zstd', 'ipsec']
"""What the slots hold before the instance comes."""


def claim(services: Services, node: Node, *groups: tuple[str, str | None]) -> str:
    """Claim the machine, and for each group one provider of a class that has a trait, as Nova does it for a flavor."""
    instance = str(uuid.uuid4())
    asked = ''.join(f'&resources_{n}={name}:1' + (f'&required_{n}={t}' if t else '') for n, (name, t) in enumerate(groups))
    query = f'resources=CUSTOM_BAREMETAL:1{asked}&group_policy=isolate&in_tree={node.uuid}'
    found = services.placement.take('GET', f'/allocation_candidates?{query}')['allocation_requests']
    body = {'project_id': 'p', 'user_id': 'u', 'consumer_generation': None, 'consumer_type': 'INSTANCE'}
    services.placement.take('PUT', f'/allocations/{instance}', found[0] | body)
    node.patch(instance_uuid=instance, instance_info__traits=sorted({PROGRAM, *(t for _, t in groups if t)}))
    return instance


def attached(node: Node) -> dict[str, dict[str, Any]]:
    """What an operator is shown of what the instance has got, by slot or by the label of the device."""
    found = node.show()['driver_internal_info']['baremetal_acc'].get('attached')
    return {} if found is None else {a['slot'] or a['label']: a for a in found['items']}


def leave(services: Services, node: Node, instance: str) -> dict[str, Any]:
    """The instance goes: Nova tears it down, then frees what it has claimed."""
    node.provision('deleted')
    services.placement.take('DELETE', f'/allocations/{instance}')
    return node.settle()


@pytest.fixture
def node(enrol: Enrol, services: Services) -> Node:
    """A machine with a card of two regions, each of which holds a function that nobody asks for."""
    template(services)
    made = enrol('acc-server', 'regions')
    made.clean('program_accelerators', functions={'Slot0': BEFORE[0], 'Slot1': BEFORE[1]})
    made.to('provide', 'available')
    assert BEFORE == functions(made)
    made.machine.reset_log()
    return made


def slots_written(node: Node) -> list[str]:
    """The slots to which images were sent, in order."""
    return [u['body']['Targets'][0].rsplit('_', 1)[-1] for u in node.uploads()]


def test_an_instance_gets_a_device_and_a_region(node: Node, services: Services) -> None:
    """All in one deploy; the operator sees by which handle the instance finds each, and cleaning lets go of all of it."""
    instance = claim(services, node, ('PGPU', None), ('FPGA', f'{CAN}GZIP'))
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    got = attached(node)
    [slot] = [a for a in got.values() if a['slot']]
    [card] = [a for a in got.values() if not a['slot']]
    assert ('plugged', 'gzip', 'slot', '0000:e3:00.0') == (
        slot['state'],
        slot['function'],
        slot['handle']['handle'],
        slot['handle']['address'],
    )
    assert ('plugged', 'pci') == (card['state'], card['handle']['handle'])
    assert instance == node.show()['driver_internal_info']['baremetal_acc']['attached']['instance']
    [said] = [e for e in node.history() if e.startswith(f'attached to instance {instance}')]
    assert f'{slot["slot"]} at 0000:e3:00.0, with gzip' in said
    found = leave(services, node, instance)
    assert ('available', {}) == (found['provision_state'], attached(node))
    assert 'gzip' in functions(node), 'the rules keep what an instance leaves'


def test_when_the_second_region_fails_the_first_is_put_back(node: Node, services: Services) -> None:
    """Both facts are told; no function of the instance is left; a second attempt is as good as a first one."""
    instance = claim(services, node, ('FPGA', f'{CAN}GZIP'), ('FPGA', f'{CAN}AES'))
    node.machine.fault('task-fails', uri='*_Slot1', count=1)
    found = node.deploy()
    assert 'deploy failed' == found['provision_state']
    assert ['Slot0', 'Slot1', 'Slot1', 'Slot0'] == slots_written(node), 'the last one is brought back first'
    assert BEFORE == functions(node)
    words = ['The device refused the image', 'Slot1 of', f'holds {BEFORE[1]} again', 'Slot0 of', f'holds {BEFORE[0]} again']
    assert [] == [w for w in words if w not in found['last_error']], found['last_error']
    assert (False, 'quarantined' in found['last_error']) == (found['maintenance'], False), found['last_error']
    assert {'gone'} == {a['state'] for a in attached(node).values()}
    assert ([], []) == (node.open_ways(), [n for n in node.offers() if node.may_be_claimed(n)])

    # The same instance once more, now that nothing fails.
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    assert {'gzip', 'aes'} == set(functions(node))
    assert set(BEFORE) == {a['previous'] for a in attached(node).values()}
    found = leave(services, node, instance)
    assert ('available', {}) == (found['provision_state'], attached(node)), found['last_error']
    assert 2 == node.offers().count('FPGA')


def test_after_a_failed_deployment_the_node_is_cleaned(node: Node, services: Services) -> None:
    """What the instance has asked for decides nothing any more, and nothing is in the way of the next one."""
    instance = claim(services, node, ('FPGA', f'{CAN}GZIP'), ('FPGA', f'{CAN}AES'))
    node.machine.fault('task-fails', uri='*_Slot1', count=1)
    assert 'deploy failed' == node.deploy()['provision_state']
    node.machine.reset_log()
    found = leave(services, node, instance)
    assert ('available', False) == (found['provision_state'], found['maintenance']), found['last_error']
    assert (BEFORE, []) == (functions(node), slots_written(node))
    assert (2, True) == (node.offers().count('FPGA'), node.may_be_claimed('FPGA'))


def test_what_cannot_be_put_back_is_named_and_not_offered(node: Node, services: Services) -> None:
    """The other one is put back all the same. Once the card takes images again, cleaning brings this one back, too."""
    instance = claim(services, node, ('FPGA', f'{CAN}GZIP'), ('FPGA', f'{CAN}AES'))
    node.machine.fault('task-fails', uri='*_Slot1')
    found = node.deploy()
    assert ('deploy failed', True) == (found['provision_state'], found['maintenance']), found
    assert ['Slot0', 'Slot1', 'Slot1', 'Slot0'] == slots_written(node)
    assert BEFORE[0] == functions(node)[0]
    [first] = [e for e in node.history() if 'Slot1' in e and 'was not rolled back' in e]
    words = ['Slot1 of', 'was not rolled back', 'it is not available in placement', f'holds {BEFORE[0]} again']
    assert [] == [w for w in words if w not in found['last_error']], found['last_error']
    assert [] == [w for w in words if w not in first]
    assert {'Slot0': 'gone', 'Slot1': 'not-rolled-back'} == {name: a['state'] for name, a in attached(node).items()}
    assert 'is quarantined' in found['maintenance_reason']

    # Nobody gets it while it is so, the card's other region neither.
    services.ironic.ask('DELETE', f'{node.path}/maintenance')
    found = leave(services, node, instance)
    assert ('clean failed', False) == (found['provision_state'], node.may_be_claimed('FPGA')), found
    node.machine.clear_faults()
    node.recover()
    node.to('provide', 'available')
    assert (BEFORE, {}) == (functions(node), attached(node))
    assert (2, []) == (node.offers().count('FPGA'), node.open_ways())

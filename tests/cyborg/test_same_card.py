# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Cyborg's conductor and baremetal-acc report the same card below the same root provider.

Cyborg's agent is told to report to the root provider of an Ironic node, which :doc:`/howto/flavors` advises against. With the
rule of that page the card is offered once, and neither of the two changes anything of the other.
"""

import pytest

from tests.cyborg.page import RESOURCE_CLASS
from tests.cyborg.reports import CYBORGS, H100, OURS, AgentFailed, Cyborg, below, number_of_candidates, units
from tests.journey.api import Node
from tests.journey.conftest import Enrol
from tests.journey.test_claims import candidates, hold

ONE_GPU = {'parameters': {'gpus': 1}}
CARD = H100.format(bus=0x17)
NVIDIA = 'CUSTOM_NVIDIA_2330'


NO_DEVICE = 'which is no device of the node'
"""What the verification of a deployment says of a claim on a provider that is not ours."""


def host_of(node: Node) -> str:
    """The name of the node's host for Cyborg, of which it makes the names and UUIDs of its providers."""
    return f'host-{node.uuid[:8]}'


def deploy(node: Node, claims: dict[str, dict[str, int]]) -> str | None:
    """Deploy the node to an instance that has claimed these; what Ironic says went wrong."""
    node.patch(instance_uuid=hold(node.services, claims), instance_info__traits=[NVIDIA])
    found = node.deploy()
    assert ('deploy failed' if found['last_error'] else 'active') == found['provision_state']
    return found['last_error']


def publish_again(node: Node) -> None:
    """Withdraw all that baremetal-acc has published of a node, and publish it again."""
    node.to('manage', 'manageable')
    assert {} == units(below(node, OURS))
    node.to('provide', 'available')


def test_with_the_rule_each_card_is_offered_once(enrol: Enrol, cyborg: Cyborg) -> None:
    """Cyborg's providers are as its conductor made them, whatever baremetal-acc does, and the other way round."""
    node = enrol('gpu-server', RESOURCE_CLASS, parameters={'gpus': 2})
    host = host_of(node)
    cards = [H100.format(bus=bus) for bus in (0x17, 0x18)]
    cyborg.report(host, node.uuid, *cards)
    theirs = below(node, CYBORGS)
    assert [f'{host}_0000:17:00.0', f'{host}_0000:18:00.0'] == sorted(theirs)
    for provider in theirs.values():
        assert [NVIDIA, CYBORGS] == provider['traits']
        assert (node.uuid, {'PGPU': 1}) == (provider['parent_provider_uuid'], units({'': provider}))

    node.to('provide', 'available')
    ours = below(node, OURS)
    assert (2, {}) == (len(ours), units(ours)), 'a provider for each card, which offers nothing'
    assert {'PGPU': 2} == units(below(node, CYBORGS) | ours)
    assert theirs == below(node, CYBORGS)
    assert [0, 0] == [len(set(ours) & set(theirs)), number_of_candidates(node, 3)]
    assert number_of_candidates(node, 2) > 0
    # The rule concerns placement only.
    assert (2, []) == (len([a for a in node.accelerators() if a['kind'] == 'GPU']), node.open_ways())

    publish_again(node)
    assert theirs == below(node, CYBORGS)
    before = below(node, OURS)
    cyborg.report(host, node.uuid, *cards)
    assert (theirs, before) == (below(node, CYBORGS), below(node, OURS))

    cyborg.report(host, node.uuid, cards[0])
    assert ([f'{host}_0000:17:00.0'], before) == (sorted(below(node, CYBORGS)), below(node, OURS))
    cyborg.report(host, node.uuid)
    assert ({}, before) == (below(node, CYBORGS), below(node, OURS))
    publish_again(node)
    assert {name: p['traits'] for name, p in before.items()} == {name: p['traits'] for name, p in below(node, OURS).items()}


def test_without_the_rule_the_card_is_offered_twice(enrol: Enrol, cyborg: Cyborg) -> None:
    """A flavor for two GPUs finds a machine with one, and nobody says so before a deployment, which fails. The rule ends it."""
    node = enrol('gpu-server', 'locks', **ONE_GPU)
    cyborg.report(host_of(node), node.uuid, CARD)
    theirs = below(node, CYBORGS)
    node.to('provide', 'available')
    assert [{'PGPU': 1}, {'PGPU': 1}] == [units(below(node, owner)) for owner in (CYBORGS, OURS)]
    assert 1 == len([a for a in node.accelerators() if a['kind'] == 'GPU'])
    assert theirs == below(node, CYBORGS)
    found = node.show()
    assert (None, False) == (found['last_error'], found['maintenance'])
    assert [] == [line for line in node.history() if 'yborg' in line]
    before = below(node, OURS)
    cyborg.report(host_of(node), node.uuid, CARD)
    assert (theirs, before) == (below(node, CYBORGS), below(node, OURS))
    assert number_of_candidates(node, 2) > 0

    node.to('manage', 'manageable')
    node.patch(resource_class=RESOURCE_CLASS)
    accepted = node.clean('reconcile_accelerators')
    assert 'manageable' == accepted['provision_state'], accepted['last_error']
    node.to('provide', 'available')
    assert ({'PGPU': 1}, {}) == (units(below(node, CYBORGS)), units(below(node, OURS)))
    assert [1, 0] == [number_of_candidates(node, gpus) for gpus in (1, 2)]
    assert theirs == below(node, CYBORGS)


def test_a_machine_is_not_handed_over_with_a_claim_on_cyborgs_provider(enrol: Enrol, cyborg: Cyborg) -> None:
    """baremetal-acc has verified no device behind it. The provider and its claim stay as they are."""
    node = enrol('gpu-server', RESOURCE_CLASS, **ONE_GPU)
    cyborg.report(host_of(node), node.uuid, CARD)
    node.to('provide', 'available')
    [wanted] = candidates(node, f'&resources_ACC=PGPU:1&required_ACC={NVIDIA}')
    [card] = wanted.keys() - {node.uuid}
    assert [card] == [provider['uuid'] for provider in below(node, CYBORGS).values()]
    said = deploy(node, wanted)
    assert said is not None
    assert f'the instance has claimed PGPU of provider {card}, {NO_DEVICE}' in said
    assert [] == node.open_ways()
    assert [card] == [provider['uuid'] for provider in below(node, CYBORGS).values()]


def test_an_agent_whose_provider_does_not_exist_reports_nothing(enrol: Enrol, cyborg: Cyborg) -> None:
    """The name of the root provider is the node's UUID, and not its name in Ironic: Cyborg does not find the latter."""
    node = enrol('gpu-server', RESOURCE_CLASS, **ONE_GPU)
    node.to('provide', 'available')
    before = below(node, OURS)
    with pytest.raises(AgentFailed, match='Could not find resource provider in Placement'):
        cyborg.report(host_of(node), node.name, CARD)
    assert ({}, before) == (below(node, CYBORGS), below(node, OURS))

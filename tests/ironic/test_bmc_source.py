# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that a member of the owner's project names proves nothing until an operator has accepted it."""

from typing import Any

import pytest
from ironic.common import states

from baremetal_acc_ironic.authorization import bmc_source
from baremetal_acc_ironic.state.node_state import NodeState
from tests.ironic.test_api import LESSEE_ADMIN, OWNER_MEMBER, ApiCase

RECONCILE = 'reconcile_accelerators'


class Node:
    """What of a node counts."""

    owner = None

    def __init__(self, **driver_info: Any) -> None:
        self.driver_info = driver_info


@pytest.mark.parametrize('key', [*bmc_source.KEYS, *(f'acc_bmcs.{key}' for key in bmc_source.FURTHER)])
def test_each_key_makes_it_another_bmc(key: str) -> None:
    """A login does not."""
    before = Node(
        redfish_address='https://192.0.2.1', redfish_password='x', acc_bmcs={'dpu': {'address': 'a', 'password': 'x'}}
    )
    state = NodeState(bmcs=bmc_source.digest(before), owned=True)
    login = Node(redfish_address='https://192.0.2.1', redfish_password='y', acc_bmcs={'dpu': {'address': 'a', 'password': 'y'}})
    assert () == bmc_source.contested(login, state)
    name, _, inner = key.partition('.')
    login.driver_info[name] = {'dpu': {'address': 'a', inner: 'other'}} if inner else 'other'
    [why] = bmc_source.contested(login, state)
    assert RECONCILE in why
    assert () == bmc_source.contested(login, NodeState(bmcs=state.bmcs))


class TestAnothersBmc(ApiCase):
    """Two machines alike: the operator's, and one that the owner's members run."""

    parameters = {'gpus': 1}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.other = self._start_machine(self.product, **({'flash_seconds': 0.1, 'reset_seconds': 0.05} | self.parameters))

    def point_to(self, machine: Any) -> None:
        """A member of the owner's project writes another address into driver_info."""
        info = self.driver_info(machine)
        change = [{'op': 'add', 'path': f'/driver_info/{key}', 'value': value} for key, value in info.items()]
        self.app.patch_json(f'/v1/nodes/{self.node.uuid}', change, headers=OWNER_MEMBER, status=200)
        self.node.refresh()

    def cleaned_as(self, owner: str | None, *steps: str) -> str:
        """The state after cleaning, as a node of this project."""
        self.node.refresh()
        self.node.owner = owner
        self.node.save()
        return self.cleaned(*steps)

    def test_it_does_not_verify_until_an_operator_has_taken_it(self) -> None:
        """Neither a deploy nor automated cleaning, though everything that it shows is as it should be."""
        owner = self.node.owner
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.point_to(self.other)
        assert states.CLEANFAIL == self.cleaned()
        assert 'other BMCs' in self.node.last_error
        self.node.provision_state, self.node.maintenance = states.AVAILABLE, False
        self.node.save()
        url = f'/v1/nodes/{self.node.uuid}/states/provision'
        self.app.put_json(url, {'target': 'active'}, headers=LESSEE_ADMIN, status=202)
        assert (states.DEPLOYFAIL, None) == (self.settle(), self.node_state.certificate)
        assert states.CLEANFAIL == self.cleaned_as(None), 'an owner that has gone has left it'
        assert states.MANAGEABLE == self.cleaned_as(owner, RECONCILE), self.node.last_error
        assert states.AVAILABLE == self.cleaned(), self.node.last_error

    def test_on_a_node_that_never_had_an_owner_it_is_the_operators(self) -> None:
        """Nobody else writes driver_info there, and a BMC may get another address."""
        self.cleaned_first()
        self.node.lessee = None
        self.node.driver_info = self.driver_info(self.other)
        before = self.node_state
        self.node.owner, self.node.provision_state = None, states.MANAGEABLE
        self.node.driver_info = self.driver_info(self.other)
        self.node.save()
        self.cleaned(RECONCILE)
        assert (False, False) == (before.owned, before.bmcs == self.node_state.bmcs)
        assert () == bmc_source.contested(self.node, self.node_state)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node whose BMC hides a host interface that it has shown before is refused until an operator has it inspected."""

from dataclasses import replace

from ironic.common import states

from baremetal_acc.model.lock import Way, WritePath
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_store import KEY
from tests.ironic.test_api import ApiCase

SECOND = Way(
    mechanism='host_interface',
    ref=Ref(bmc=HOST, uri='/redfish/v1/Managers/BMC_1/HostInterfaces/second'),
    field='InterfaceEnabled',
    blocks=(WritePath.HOST_BMC_REDFISH,),
)


class TestHiddenWay(ApiCase):
    """The baseline demands that the host interface is closed."""

    parameters = {'gpus': 1}  # noqa: RUF012
    baseline = 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-bmc-redfish"]\n'

    def setUp(self) -> None:
        super().setUp()
        self.node.provision_state, self.node.lessee = states.AVAILABLE, None
        self.node.save()

    def test_a_way_that_is_hidden_beside_one_that_is_shown_is_missed(self) -> None:
        """Before the step that locks, too: what was shown is remembered from a good look on. An inspection forgets it."""
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        (first,) = self.node_state.ways
        assert ('host_interface', (WritePath.HOST_BMC_REDFISH,)) == (first.mechanism, first.blocks)
        node_store.store(self.node, replace(self.node_state, ways=self.node_state.ways | {SECOND}))
        assert states.CLEANFAIL == self.cleaned()
        for said in (str(SECOND.ref), 'no longer is', 'inspect the node'):
            assert said in self.node.last_error
        self.clear()
        self.service.inspect_hardware(self.context, self.node.uuid)
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert {first} == self.node_state.ways
        assert states.AVAILABLE == self.cleaned(), self.node.last_error

    def test_what_an_earlier_version_has_stored_is_read_and_the_other_way_round(self) -> None:
        """It knows no ways: it reads what stands beside them as ever."""
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        node = self.node
        stored = node.driver_internal_info[KEY]
        assert 'ways' in stored
        assert 'ways' not in stored.get('state', {})
        node.set_driver_internal_info(KEY, {key: value for key, value in stored.items() if key != 'ways'})
        node.save()
        assert frozenset() == self.node_state.ways
        assert self.node_state.known

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A job whose node's ``driver_info`` points to another machine writes nothing to that machine."""

from typing import Any

from ironic.common import states

from tests.ironic.case import GPU_NEW
from tests.ironic.test_jobs import GPU_0, UPDATE, JobCase


class TestAnotherMachine(JobCase):
    """Two machines alike, and one node. Its address changes while the first one is written."""

    def setUp(self) -> None:
        super().setUp()
        self.first = dict(self.node.driver_info)
        self.other = self._start_machine(self.product, **({'flash_seconds': 0.1, 'reset_seconds': 0.05} | self.parameters))

    def point_to(self, driver_info: dict[str, Any]) -> None:
        """Edit the node."""
        self.node.refresh()
        self.node.driver_info = driver_info
        self.node.save()

    def cut_off(self) -> None:
        """In the middle of automated cleaning the node gets the address of the other machine."""
        self.clean()
        self.until_writing()
        self.point_to(self.driver_info(self.other))
        self.poll()
        assert states.CLEANFAIL == self.node.provision_state
        for _ in range(5):
            self.poll()

    def test_nothing_is_done_to_it(self) -> None:
        """The flow fails and names both addresses; no lock of the other one is touched, and nobody switches its host."""
        self.cut_off()
        addresses = self.first['redfish_address'], self.other.bmcs['host'].address
        for told in (self.node.last_error, self.node.maintenance_reason, ' '.join(self.history())):
            assert [] == [address for address in addresses if address not in told], told
        assert ([], 'On') == (self.other.log(), self.other.truth()['systems']['host']['power'])

    def test_it_is_told_once(self) -> None:
        """Who clears maintenance has cleared it: the way back goes through steps that Ironic refuses in maintenance."""
        self.cut_off()
        told = len(self.history())
        self.clear()
        self.poll()
        assert (False, told) == (self.node.maintenance, len(self.history()))

    def test_with_the_old_address_back_its_locks_are_engaged_again(self) -> None:
        """As after any interruption."""
        self.cut_off()
        self.point_to(self.first)
        assert states.CLEANFAIL == self.settle()
        assert (True, True) == self.closed()
        assert 'was interrupted' in self.node.maintenance_reason

    def test_cleaning_begins_anew_on_the_machine_that_is_there_now(self) -> None:
        """That the machine was exchanged for good is for the operator to say."""
        self.cut_off()
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert GPU_NEW == self.other.truth()['components'][GPU_0]['active']['version']

    def test_an_active_node_whose_host_is_another_one_is_not_powered_off(self) -> None:
        """Neither by the job nor by what looks after it."""
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.serve(UPDATE)
        self.until_writing()
        self.point_to(self.driver_info(self.other))
        for _ in range(5):
            self.poll()
        assert states.SERVICEFAIL == self.node.provision_state
        assert ([], 'On') == (self.other.log(), self.other.truth()['systems']['host']['power'])

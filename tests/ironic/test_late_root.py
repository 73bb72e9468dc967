# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A publication is tried again in later turns: nova-compute makes the root provider some time after a node is enrolled.

What the final inspection has found is stored all the same, though it was made in an earlier turn.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ironic.common import states
from ironic.objects.trait import TraitList

from baremetal_acc.errors import BmcUnreachable
from baremetal_acc.execution import observation
from baremetal_acc_ironic.steps import wall_clock
from tests.ironic.placement_case import PlacementCase

CARD = 'uuid:4f72eea5-e729-401c-896c-82f935c3af73'


class TestLateRoot(PlacementCase):
    """A node with an FPGA whose slots are offered as regions."""

    product = 'fpga-server'
    parameters: Mapping[str, Any] = {}
    baseline = 'format = 1\n[[rule]]\nmatch = { kind = "FPGA" }\noffer = "region"\nblock = ["host-device"]\n'
    late = True

    @pytest.fixture(autouse=True)
    def _monkeypatch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def make_root(self) -> None:
        """Later."""
        if not self.late:
            super().make_root()

    def waiting(self) -> None:
        """Cleaned, but for the publication."""
        self.clean()
        for _ in range(20):
            self.poll()
            job = self.node_state.job
            if job is not None and job.verdict is not None:
                break
        self.poll()
        assert states.CLEANWAIT == self.node.provision_state
        assert [] == self.providers()
        self.late = False
        self.make_root()

    def test_all_that_was_read_is_stored(self) -> None:
        """The cards that must be there from now on, the regions that pools count, and the traits that flavors ask for."""
        self.waiting()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert ['FPGA', 'FPGA'] == self.offers()
        found = self.node_state
        assert {CARD} == found.known
        assert found.regions is not None
        assert [True, True] == [bool(slot.takes) for slot in found.regions.slots]
        traits = {one.trait for one in TraitList.get_by_node_id(self.context, self.node.id)}
        assert {'CUSTOM_ACC_PROGRAM', 'CUSTOM_ACC_CAN_GZIP'} <= traits

    def test_a_machine_that_cannot_be_read_again_for_a_moment(self) -> None:
        """The job waits: nothing is decided without what was found."""
        self.waiting()
        self.monkeypatch.setattr('baremetal_acc.execution.finish.check', _away(observation.check, 3))
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert {CARD} == self.node_state.known

    def test_a_machine_that_cannot_be_read_again_at_all(self) -> None:
        """It fails once its time is over: the node might hold a card that must not be handed over."""
        self.waiting()
        self.monkeypatch.setattr('baremetal_acc.execution.finish.check', _away(observation.check, 1000))
        for _ in range(5):
            self.poll()
        assert states.CLEANWAIT == self.node.provision_state
        over = timedelta(days=1)
        self.monkeypatch.setattr(wall_clock, 'now', lambda: datetime.now(UTC) + over)
        assert states.CLEANFAIL == self.settle()
        assert 'could not be read again after its accelerators had been published' in self.node.last_error


def _away(check: Any, times: int) -> Any:
    """The real inspection once, for the publication; then a BMC that does not answer so many times."""
    calls: list[int] = []

    def checked(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if 1 < len(calls) <= 1 + times:
            raise BmcUnreachable(bmc='host', what='does not answer')
        return check(*args, **kwargs)

    return checked

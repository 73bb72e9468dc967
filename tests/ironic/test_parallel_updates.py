# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC gets one firmware update at a time, unless the operator sets ``acc_parallel_updates`` in the node's ``driver_info``."""

import pytest
from ironic.common import exception
from ironic.conductor import task_manager

from baremetal_acc_ironic.state.target import target
from tests.ironic.case import IronicCase


class TestParallelUpdates(IronicCase):
    """The host's BMC and a DPU's own."""

    product = 'acc-server'

    def said(self, **info: object) -> dict[str, int | None]:
        """What the target says, after driver_info was changed."""
        self.node.driver_info = self.node.driver_info | info
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            return {bmc.name: bmc.parallel_updates for bmc in target(task).bmcs}

    def test_the_operator_says_how_many_a_bmc_takes(self) -> None:
        """A number, or the text of one; a BMC of which nothing is said takes what is known of it."""
        assert {'host': None, 'dpu': None} == self.said()
        dpu = self.node.driver_info['acc_bmcs']['dpu']
        assert {'host': 4, 'dpu': 2} == self.said(acc_parallel_updates='4', acc_bmcs={'dpu': dpu | {'parallel_updates': 2}})

    def test_what_is_no_number_is_refused_by_name(self) -> None:
        """Nothing is guessed."""
        for wrong in (0, 'many', True, -1, 1.5):
            with pytest.raises(exception.InvalidParameterValue, match=r'acc_parallel_updates.*at least 1'):
                self.said(acc_parallel_updates=wrong)

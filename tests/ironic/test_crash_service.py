# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The conductor dies at any point of a flash in a service of an active node, whose host runs a tenant's code."""

from datetime import UTC, datetime

from ironic.common import states

from baremetal_acc_ironic.state import node_state, node_store
from tests.ironic.crashing import CrashCase, every_point
from tests.ironic.points import SERVICE, step_of


@every_point(SERVICE, step=step_of(SERVICE))
class TestService(CrashCase):
    """The host is on before it, and after it; and never while locks are open."""

    before = states.ACTIVE
    done = states.ACTIVE
    failed = states.SERVICEFAIL

    def prepare(self) -> None:
        """The node was handed over."""
        node_store.store(self.node, node_state.NodeState().given_away(datetime.now(UTC)))

    def begin(self) -> None:
        """Its firmware is brought to the baseline."""
        self.serve('update_accelerator_firmware')

    def test_these_are_all_points(self) -> None:
        """A save that is new is a point that is new; the image is sent once."""
        self.undisturbed()
        assert 1 == len(self.pushes)
        self.right()

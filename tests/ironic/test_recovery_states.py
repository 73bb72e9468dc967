# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Recovery looks after an interrupted job in every provision state in which Ironic lets a node stay."""

from ironic.common import states

from baremetal_acc_ironic.periodics import recovery
from tests.ironic import releases

HELD = {states.CLEANHOLD, states.DEPLOYHOLD, states.SERVICEHOLD}
"""Between two steps of one flow, which goes on."""

BEFORE = {states.ENROLL}
"""Nothing of ours has ever run, and no node comes back there."""


def test_a_node_stays_nowhere_with_an_interrupted_job_that_nobody_looks_after() -> None:
    """Every state of Ironic's own state machine that it does not leave by itself: the stable ones, and those of a failure."""
    stays = set(states.STABLE_STATES) | {s for s in releases.MACHINE.states if s.endswith('failed')}
    assert stays - HELD - BEFORE == set(recovery.STATES)

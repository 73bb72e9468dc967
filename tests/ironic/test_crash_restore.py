# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The conductor dies at any point of a cleaning whose flash fails, so that the restore image is written."""

from tests.ironic.case import GPU_OLD
from tests.ironic.crashing import GPU_0, CrashCase, every_point
from tests.ironic.points import RESTORE, step_of


@every_point(RESTORE, step=step_of(RESTORE))
class TestRestore(CrashCase):
    """The first image fails."""

    def prepare(self) -> None:
        """The card refuses it once."""
        self.machine.fault('task-fails', device='GPU_0', count=1)

    def goes_on(self) -> bool:
        """To its end, which is that the node has failed."""
        return False

    def test_these_are_all_points(self) -> None:
        """A save that is new is a point that is new; two images are sent, and the node has failed."""
        self.undisturbed()
        assert 2 == len(self.pushes)
        assert (self.failed, GPU_OLD) == (self.provision_state(), self.version(GPU_0))

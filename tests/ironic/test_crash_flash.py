# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The conductor dies at any point of a cleaning that flashes a card and otherwise succeeds."""

from baremetal_acc.model.action import Stage
from tests.ironic.crashing import CrashCase, every_point
from tests.ironic.points import FLASH, step_of


@every_point(FLASH, step=step_of(FLASH))
class TestFlash(CrashCase):
    """A card is flashed."""

    def test_these_are_all_points(self) -> None:
        """A save that is new is a point that is new; every stage has some, and the image is sent once."""
        saves = self.undisturbed().saves
        # A flash restarts no BMC and restores no settings of it (tests/faults/test_setting_restores.py crashes that).
        others = {Stage.RESTART_BMC.name, Stage.REENGAGE.name, Stage.SETTINGS.name}
        assert {stage.name for stage in Stage} - others <= set(saves)
        assert 1 == len(self.pushes)
        self.right()

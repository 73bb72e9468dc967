# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The conductor dies while it closes the locks that an interrupted step left open, or again as soon as it has restarted.

Only ``BAREMETAL_ACC_SOAK=1`` tries a death at each point, and the second one, too; otherwise a death at every second point is
tried, and one second death.
"""

import os

from baremetal_acc.model.action import Stage
from baremetal_acc_ironic.periodics import recovery
from tests.ironic.crashing import CrashCase, Mortal, every_point
from tests.ironic.points import FLASH, RECOVERY, step_of

SOAK = bool(os.environ.get('BAREMETAL_ACC_SOAK'))


@every_point(RECOVERY, step=step_of(RECOVERY))
class TestRecovery(CrashCase):
    """The card is written, Ironic fails the cleaning meanwhile, and the locks are being closed when it dies."""

    def prepare(self) -> None:
        """Locks are open, and nobody turns the job any more."""
        self.begin()
        while not self.pushes:
            self.poll()
        self.node.provision_state = self.failed
        self.node.save()

    def enter(self) -> None:
        """Recovery begins by itself."""

    def goes_on(self) -> bool:
        """What was interrupted stays so."""
        return False

    def test_these_are_all_points(self) -> None:
        """A save that is new is a point that is new; no image is sent, and the node stays failed."""
        saves = self.undisturbed().saves
        assert {Stage.ENGAGE.name, Stage.VERIFY.name} <= set(saves)
        assert (1, self.failed, True) == (len(self.pushes), self.provision_state(), self.node.maintenance)
        assert any(recovery.NAME in event or 'interrupted' in event for event in self.history())


@every_point(FLASH, all_of_them=SOAK)
class TestTwice(CrashCase):
    """It dies, and the next one dies as soon as it has stored something, on the same side of it."""

    def survives(self, number: int, *, after: bool) -> None:
        """The third one goes on."""
        self.die(number, after=after)
        must = self.goes_on()
        self.restart()
        self.live(Mortal(1, after=after), anew=False)
        self.settled(must=must and self.goes_on())

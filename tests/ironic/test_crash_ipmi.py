# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A conductor dies while it closes an IPMI firmware firewall, or flashes a card by HPM.1: nothing is left half done.

The record of what was closed survives, so that a later unlock opens all of it, and no more; in the end the card runs the
firmware of the baseline.
"""

import os

from ironic.common import states

from baremetal_acc_ironic.steps import runner
from tests.ironic.case import POLLS
from tests.ironic.crashing import Mortal, Reborn
from tests.ironic.ipmi_case import BASELINE, WRITES, IpmiCase
from tests.ironic.test_ipmi_flash import FPGA, NEW, OLD, RULE, SHOWN, FlashCase

SOAK = 'BAREMETAL_ACC_SOAK' in os.environ
STEP = 1 if SOAK else 4
"""Every fourth save, but all of them in the soak."""


class Dying(Reborn, IpmiCase):
    """One that speaks IPMI."""

    def until_dead(self, mortal: Mortal) -> None:
        """Or until nothing of the node waits any more."""
        for _ in range(POLLS):
            self.node.refresh()
            if mortal.dead or self.rests():
                return
            self.poll()
        raise AssertionError(f'still {self.node.provision_state}: {self.node_state}')


class TestLocked(Dying):
    """An active node whose locks were opened, and are closed again by a service step."""

    def setUp(self) -> None:
        super().setUp()
        self.vendor_closes(0x47)
        self.before = self.closed()
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.addCleanup(setattr, runner, 'TURNS', runner.TURNS)

    def lock(self, mortal: Mortal) -> None:
        """Until the process dies, or the step is over. One tick in each turn."""
        runner.TURNS = 1
        with mortal.alive():
            self.serve('lock_accelerators')
            self.until_dead(mortal)

    def opened_in_the_end(self) -> None:
        """An operator puts the node right, and unlocks it."""
        self.clear()
        self.node.provision_state = states.ACTIVE
        self.node.save()
        if self.closed() != self.before:  # where we have closed nothing, there is nothing to be opened
            self.serve('unlock_accelerators')
            assert states.ACTIVE == self.settle(), self.node.last_error
        assert (self.before, ()) == (self.closed(), self.undone())

    def test_whenever_it_dies_what_is_closed_is_known(self) -> None:
        """Before and after saves of the node; from the first one that knows what will be closed on, it is closed in the end."""
        nobody = Mortal()
        self.lock(nobody)
        assert set(self.closed()) >= WRITES
        self.opened_in_the_end()
        locked = 0
        for number in range(1, len(nobody.saves) + 1, STEP):
            for after in (False, True):
                self.lock(Mortal(number, after=after))
                told = set(self.undone())
                runner.TURNS = 20
                self.restart()
                self.settle()
                assert self.node_state.job is None or self.node_state.job.ended
                assert set(self.closed()) >= WRITES or self.closed() == self.before, (number, after)
                if told:
                    assert set(self.closed()) >= WRITES, (number, after)
                locked += bool(told)
                self.opened_in_the_end()
        assert locked


class TestWritten(Dying, FlashCase):
    """Automated cleaning that writes the card, to and fro."""

    def write(self, mortal: Mortal, version: str) -> None:
        """Until the process dies, or the cleaning is over."""
        (self._folder / 'baseline.toml').write_text(BASELINE + RULE % SHOWN[version])
        self.node.refresh()
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        with mortal.alive():
            self.service.do_provisioning_action(self.context, self.node.uuid, 'provide')
            self.until_dead(mortal)

    def right(self, version: str) -> None:
        """The card is, and so is its lock, and nobody has to look after anything."""
        assert (states.AVAILABLE, version) == (self.node.provision_state, self.version(FPGA)), self.node.last_error
        assert set(self.closed()) >= WRITES
        assert (False, None, ()) == (self.node.maintenance, self.node_state.opened, self.node_state.quarantined)

    def test_whenever_it_dies_the_card_runs_what_it_has_to_in_the_end(self) -> None:
        """By itself, or the node fails with its locks closed and one retry finishes it."""
        nobody = Mortal()
        self.write(nobody, NEW)
        self.right(NEW)
        first, wanted = nobody.saves.index('WRITE'), OLD
        points = range(first + 1, len(nobody.saves) + 1) if SOAK else range(first + 1, first + 14, 6)
        for number in points:
            for after in (False, True):
                self.write(Mortal(number, after=after), wanted)
                self.restart()
                if self.settle() != states.AVAILABLE:
                    assert set(self.closed()) >= WRITES, (number, after)
                    self.clear()
                    self.clean()
                    self.settle()
                self.right(wanted)
                wanted = NEW if wanted == OLD else OLD

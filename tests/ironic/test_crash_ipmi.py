# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A conductor dies while it closes a firewall: whoever goes on closes it, and a later unlock opens all of it, and no more."""

import os

from ironic.common import rpc, states
from ironic.conductor import manager as conductor_manager

from baremetal_acc_ironic import work
from tests.ironic.case import POLLS
from tests.ironic.crashing import WAITS, Mortal
from tests.ironic.ipmi_case import WRITES, IpmiCase

STEP = 1 if 'BAREMETAL_ACC_SOAK' in os.environ else 4
"""Every fourth save, but all of them in the soak."""


class TestCrash(IpmiCase):
    """An active node whose locks were opened, and are closed again by a service step."""

    def setUp(self) -> None:
        super().setUp()
        self.vendor_closes(0x47)
        self.before = self.closed()
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.addCleanup(setattr, work, 'TURNS', work.TURNS)

    def lock(self, mortal: Mortal) -> None:
        """Until the process dies, or the step is over. One tick in each turn."""
        work.TURNS = 1
        with mortal.alive():
            self.serve('lock_accelerators')
            for _ in range(POLLS):
                self.node.refresh()
                if mortal.dead or (self.node.provision_state not in WAITS and self.mind.job is None):
                    return
                self.poll()

    def another_one(self) -> None:
        """A new conductor of the same name, as Ironic starts one."""
        work.TURNS = 20
        known = self.service.conductor
        self.service = conductor_manager.ConductorManager(self.hostname, 'test-topic')
        self.service.conductor = known
        self._start_service()
        self.service._correct_stuck_states()
        rpc.set_global_manager(None)
        rpc.set_global_manager(self.service)

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
                self.another_one()
                self.settle()
                assert self.mind.job is None or self.mind.job.ended
                assert set(self.closed()) >= WRITES or self.closed() == self.before, (number, after)
                if told:
                    assert set(self.closed()) >= WRITES, (number, after)
                locked += bool(told)
                self.opened_in_the_end()
        assert locked

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ironic refuses power requests while a node's cards are flashed, or while their locks are open to somebody else's code."""

import pytest
from ironic.common import states
from ironic.conductor import manager as conductor_manager
from ironic.conductor import task_manager

from baremetal_acc_ironic.power import PowerRefused
from baremetal_acc_ironic.steps import open_locks
from tests.ironic.case import IronicCase

UPDATE = {'step': 'update_accelerator_firmware'}


class TestPower(IronicCase):
    """An active node whose firmware is behind the baseline."""

    parameters = {'gpus': 2, 'flash_seconds': 3.0}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.node.provision_state = states.ACTIVE
        self.node.save()

    def switch(self, wanted: str) -> None:
        """A power request, as the conductor carries it out."""
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.driver.power.set_power_state(task, wanted)

    def reading(self) -> str:
        """What the power interface says."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            return str(task.driver.power.get_power_state(task))

    def writing(self) -> None:
        """A service step that has begun to write."""
        self.serve(UPDATE)
        while not any(e['method'] == 'POST' and 'update' in e['path'].lower() for e in self.machine.log()):
            self.poll()

    def test_power_requests_are_refused_while_a_card_is_written(self) -> None:
        """On and reboot say what runs, since when and until when; off is what the job did already."""
        self.writing()
        assert (states.POWER_OFF, 'Off') == (self.node.power_state, self.machine.truth()['systems']['host']['power'])
        for wanted in (states.POWER_ON, states.REBOOT, states.SOFT_REBOOT):
            with pytest.raises(
                PowerRefused, match=r'refused: update_accelerator_firmware works .*stage write, since 20.*until 20'
            ):
                self.switch(wanted)
        with (
            task_manager.acquire(self.context, self.node.uuid, shared=False) as task,
            pytest.raises(PowerRefused, match='refused'),
        ):
            task.driver.power.reboot(task)
        self.switch(states.POWER_OFF)
        assert 'Off' == self.machine.truth()['systems']['host']['power']

    def test_the_power_sync_does_not_fight_the_job(self) -> None:
        """The recorded state is what the job did, so that there is nothing to correct."""
        self.writing()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            assert 0 == conductor_manager.do_sync_power_state(task, 0)
        assert (states.POWER_OFF, states.POWER_OFF) == (self.reading(), self.node.power_state)
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (states.POWER_ON, states.POWER_ON) == (self.reading(), self.node.power_state)
        self.switch(states.POWER_OFF)
        self.switch(states.POWER_ON)

    def test_an_unlocked_host_stays_off_until_it_is_locked(self) -> None:
        """Unlock powers an active node off; only after locking may it be powered on."""
        self.to_locked()
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (states.POWER_OFF, False) == (self.node.power_state, self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'])
        with pytest.raises(PowerRefused, match=r'locks of its accelerators are open since .*unlock_accelerators by'):
            self.switch(states.POWER_ON)
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.switch(states.POWER_ON)
        assert 'On' == self.machine.truth()['systems']['host']['power']

    def to_locked(self) -> None:
        """All locks engaged, as in a deploy."""
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error

    def test_a_job_is_known_to_write_from_its_first_write_on(self) -> None:
        """Before that a power request harms nobody."""
        self.serve(UPDATE)
        self.node.refresh()
        job = self.node_state.job
        assert job is not None
        assert (False, False) == (job.writing, open_locks.touched(job))

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A job survives a restart of Ironic, an aborted step, an undeploy, and a BMC that does not answer for a while."""

import copy
import time
from dataclasses import replace
from typing import Any

from ironic.common import rpc, states
from ironic.conductor import manager as conductor_manager

from baremetal_acc_ironic.periodics import recovery
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.steps import runner
from tests.ironic.case import CURRENT, GPU_NEW, GPU_OLD, IronicCase

UPDATE = {'step': 'update_accelerator_firmware'}
GPU_0 = 'host/HGX_FW_GPU_0'
ROTS = ('HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled', 'HGX_ERoT_GPU_1/InbandUpdatePolicyEnabled')


class JobCase(IronicCase):
    """Flashes take a second, so that something can happen meanwhile."""

    parameters = {'gpus': 2, 'flash_seconds': 1.0}  # noqa: RUF012

    def uploads(self) -> list[dict[str, Any]]:
        """The images that reached the BMC."""
        return [e for e in self.machine.log() if e['method'] == 'POST' and 'update' in e['path'].lower()]

    def until_writing(self) -> None:
        """Poll until an image is on its way."""
        self.machine.reset_log()
        for _ in range(200):
            if self.uploads():
                return
            self.poll()
        raise AssertionError(f'nothing was written: {self.node_state}, {self.node.last_error}')

    def wait_for_power(self, wanted: str) -> None:
        """The machine takes its time."""
        while self.machine.truth()['systems']['host']['power'] != wanted:
            time.sleep(0.02)

    def closed(self) -> tuple[bool, ...]:
        """The machine's truth about the locks."""
        locks = self.locks()
        return tuple(locks[name] for name in ROTS)


class TestRestart(JobCase):
    """The job lies in the database, and only there."""

    def test_another_conductor_finishes_what_one_began(self) -> None:
        """It looks first: every image reaches the BMC once."""
        self.clean()
        self.until_writing()
        known = self.service.conductor
        self.service = conductor_manager.ConductorManager(self.hostname, 'test-topic')
        self.service.conductor = known
        self._start_service()
        rpc.set_global_manager(None)
        rpc.set_global_manager(self.service)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert 2 == len(self.uploads())
        assert (GPU_NEW, (True, True)) == (self.version(GPU_0), self.closed())

    def test_a_step_that_ended_is_told_again(self) -> None:
        """The conductor died after the job had ended and before the flow went on."""
        kept = provision_state.resume
        self.addCleanup(setattr, provision_state, 'resume', kept)
        provision_state.resume = lambda *_: None
        self.clean()
        for _ in range(300):
            self.poll()
            if self.node_state.job is not None and self.node_state.job.ended:
                break
        assert states.CLEANWAIT == self.node.provision_state, self.node.last_error
        provision_state.resume = kept
        self.machine.reset_log()
        self.poll()
        assert states.AVAILABLE == self.node.provision_state
        assert [] == self.machine.log()


class TestAbort(JobCase):
    """Steps that write cannot be cut off; what Ironic does around them is lived through."""

    parameters = JobCase.parameters | {'versions': CURRENT}

    def setUp(self) -> None:
        super().setUp()
        self.to_active()
        path = self._folder / 'baseline.toml'
        path.write_text(path.read_text().replace(GPU_NEW, GPU_OLD))

    def serve_until_open(self) -> None:
        """Unlocking has opened the locks, and its job has not ended."""
        self.addCleanup(setattr, runner, 'TURNS', runner.TURNS)
        runner.TURNS = 1
        self.serve('unlock_accelerators')
        while self.closed() != (False, False):
            self.poll()
        job = self.node_state.job
        assert job is not None
        assert job.writing

    def lose_the_step(self) -> None:
        """The node is active again, whatever its job is at."""
        self.node.provision_state, self.node.service_step = states.ACTIVE, {}
        self.node.save()

    def test_abort_in_service_wait_waits_for_the_end(self) -> None:
        """The step locks by itself, so that aborting the rest leaves nothing open."""
        self.serve(UPDATE, 'verify_accelerators')
        self.until_writing()
        self.service.do_provisioning_action(self.context, self.node.uuid, 'abort')
        assert states.SERVICEFAIL == self.settle()
        assert (GPU_OLD, (True, True)) == (self.version(GPU_0), self.closed())

    def test_undeploy_in_service_wait_is_taken_over_by_cleaning(self) -> None:
        """Cleaning waits for the flash that is under way, then brings everything to the baseline."""
        self.serve(UPDATE)
        self.until_writing()
        life = self.node_state.lifecycle
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (GPU_OLD, (True, True)) == (self.version(GPU_0), self.closed())
        assert (life + 1, None) == (self.node_state.lifecycle, self.node_state.opened)
        assert any('takes over from update_accelerator_firmware' in e for e in self.history())
        assert any('reconcile_accelerators waits for tasks of the BMC' in e for e in self.history())

    def test_a_job_without_its_step_is_never_resumed_and_its_locks_come_back(self) -> None:
        """The node is active again, and somebody has powered it on: host off first, locks engaged, maintenance.

        The host stays off: nobody has seen how the write ended.
        """
        self.serve(UPDATE)
        self.until_writing()
        self.node.refresh()
        self.lose_the_step()
        self.machine.power('On')
        self.wait_for_power('On')
        self.machine.reset_log()
        assert states.ACTIVE == self.settle()
        assert (None, None) == (self.node_state.job, self.node_state.opened)
        assert ((True, True), 'Off') == (self.closed(), self.machine.truth()['systems']['host']['power'])
        assert [] == self.uploads()
        asked = [str(e) for e in self.machine.log()]
        assert 'ForceOff' in asked[0]
        assert 'InbandUpdatePolicyEnabled' in asked[1]
        assert not any("'On'" in entry for entry in asked)
        assert self.node.maintenance is True
        for words in ('was interrupted; all locks are engaged again', 'is quarantined', 'The host is powered off'):
            assert words in self.node.maintenance_reason

    def test_a_host_that_stayed_off_is_not_started_after_a_write_that_was_cut_off(self) -> None:
        """Nobody has seen how the write ended, so the card is quarantined, though the job owes the host its power."""
        self.serve(UPDATE)
        self.until_writing()
        self.lose_the_step()
        self.machine.reset_log()
        assert states.ACTIVE == self.settle()
        assert len(self.node_state.quarantined) == 1
        assert ((True, True), 'Off') == (self.closed(), self.machine.truth()['systems']['host']['power'])
        assert not any("'On'" in str(entry) for entry in self.machine.log())

    def test_a_job_that_was_cut_off_before_it_wrote_leaves_no_card_in_doubt(self) -> None:
        """Locks were open, and the host was off all the time: locks are engaged, and the host is as unlocking leaves it."""
        self.serve_until_open()
        self.lose_the_step()
        self.machine.reset_log()
        assert states.ACTIVE == self.settle()
        assert ((True, True), 'Off') == (self.closed(), self.machine.truth()['systems']['host']['power'])
        assert 'The host is powered off' in self.node.maintenance_reason
        assert frozenset() == self.node_state.exposed

    def test_a_host_that_ran_meanwhile_is_not_given_back(self) -> None:
        """Somebody powered it on while locks were open: host off first, locks engaged, and the cards are to be written."""
        self.serve_until_open()
        self.lose_the_step()
        self.machine.power('On')
        self.wait_for_power('On')
        self.machine.reset_log()
        assert states.ACTIVE == self.settle()
        assert ((True, True), 'Off') == (self.closed(), self.machine.truth()['systems']['host']['power'])
        assert 'ForceOff' in str(self.machine.log()[0])
        assert frozenset() != self.node_state.exposed

    def test_locks_that_do_not_come_back_keep_the_host_off(self) -> None:
        """The mark stays, and maintenance says why."""
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ((False, False), True) == (self.closed(), self.node_state.opened is not None)
        self.machine.fault('lock-ignored')
        self.serve('lock_accelerators')
        assert states.SERVICEFAIL == self.settle()
        assert 'nvidia_inband_update_policy' in self.node.last_error
        assert (states.POWER_OFF, 'Off') == (self.node.power_state, self.machine.truth()['systems']['host']['power'])
        assert self.node_state.opened is not None

    def test_recovery_that_fails_says_so(self) -> None:
        """A lock that the BMC does not take."""
        self.serve_until_open()
        self.machine.fault('lock-ignored')
        self.lose_the_step()
        assert states.ACTIVE == self.settle()
        assert 'locks could not be engaged again' in self.node.maintenance_reason
        assert 'Off' == self.machine.truth()['systems']['host']['power']
        assert self.node_state.opened is not None


class TestTimeout(JobCase):
    """The flow fails around a running job."""

    def test_locks_are_engaged_again_in_clean_failed(self) -> None:
        """Ironic's own timeout put the node there, and into maintenance: it is looked after all the same."""
        self.clean()
        self.until_writing()
        self.node.refresh()
        self.node.provision_state, self.node.maintenance, self.node.fault = states.CLEANFAIL, True, 'clean failure'
        self.node.save()
        assert states.CLEANFAIL == self.settle()
        assert ((True, True), None) == (self.closed(), self.node_state.job)
        assert any(recovery.NAME not in e and 'all locks are engaged again' in e for e in self.history())

    def test_a_job_that_has_touched_nothing_is_dropped(self) -> None:
        """There is nothing to bring back."""
        self.clean()
        self.node.refresh()
        self.node.provision_state = states.CLEANFAIL
        self.node.save()
        self.machine.reset_log()
        self.poll()
        assert (None, []) == (self.node_state.job, self.machine.log())
        assert self.node.maintenance is False


class TestHalfFailed(JobCase):
    """Ironic fails a step in two saves: the step and its error first, the state later."""

    def waits(self, last_error: str | None) -> str:
        """What becomes of a node that waits without a step while the end of a failed job is still kept."""
        self.clean()
        self.until_writing()
        job = self.node_state.job
        assert job is not None
        failed = replace(job, items=(), ended=True, reasons=('node node-1: reconcile_accelerators: it burns',))
        node_store.store(self.node, replace(self.node_state, job=failed))
        self.node.clean_step, self.node.last_error = {}, last_error
        self.node.save()
        self.poll()
        return str(self.node.provision_state)

    def test_what_was_being_failed_is_failed(self) -> None:
        """The conductor died in between."""
        assert states.CLEANFAIL == self.waits('node node-1: reconcile_accelerators: it burns')

    def test_a_cleaning_that_has_begun_anew_is_not(self) -> None:
        """It waits for its ramdisk; the error of the one before is gone."""
        assert states.CLEANWAIT == self.waits(None)


class TestStale(JobCase):
    """A job goes on in the very step, flow and life of the node that began it, and nowhere else."""

    def still(self) -> None:
        """Poll: nothing happens, and the job is kept for whoever takes over."""
        self.node.save()
        self.machine.reset_log()
        self.poll()
        assert [] == self.machine.log()
        assert (states.CLEANWAIT, True) == (self.node.provision_state, self.node_state.job is not None)

    def test_it_is_not_resumed_in_another_life_step_or_place(self) -> None:
        """The same step with other arguments, at another place, in another life of the node, or another step."""
        self.clean()
        self.node.refresh()
        step, info, state = self.node.clean_step, copy.deepcopy(self.node.driver_internal_info), self.node_state
        node_store.store(self.node, replace(state, lifecycle=state.lifecycle + 1))
        self.still()
        self.node.driver_internal_info = copy.deepcopy(info) | {'clean_step_index': 3}
        self.still()
        self.node.driver_internal_info, self.node.clean_step = copy.deepcopy(info), step | {'args': {'devices': ['x']}}
        self.still()
        self.node.clean_step = step | {'step': 'lock_accelerators'}
        self.still()
        self.node.clean_step = step
        self.node.save()
        assert states.AVAILABLE == self.settle(), self.node.last_error


class TestSilence(JobCase):
    """A BMC that does not answer for a while."""

    def test_the_job_waits_for_the_bmc(self) -> None:
        """And goes on where it was."""
        self.clean()
        self.until_writing()
        self.machine.fault('refuse', count=6)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (2, GPU_NEW) == (len(self.uploads()), self.version(GPU_0))

    def test_past_its_deadline_it_fails_and_says_so(self) -> None:
        """Locks that cannot be reached are marked as open."""
        self.config(group='baremetal_acc', job_timeout=3.0, reset_timeout=1.0, settle_timeout=0.5)
        self.clean()
        self.until_writing()
        self.machine.fault('refuse')
        assert states.CLEANFAIL == self.settle()
        assert 'node node-1: reconcile_accelerators: ' in self.node.last_error
        assert self.node_state.opened is not None


class TestForeignKey(JobCase):
    """What cannot be read is not guessed."""

    def test_another_format_is_refused(self) -> None:
        """A newer version wrote it; nothing is overwritten."""
        self.node.driver_internal_info = {node_store.KEY: {'format': 99}}
        self.node.save()
        self.clean()
        self.node.refresh()
        assert states.CLEANFAIL == self.node.provision_state
        assert "driver_internal_info['baremetal_acc'] has another format than 1" in self.node.last_error
        assert {'format': 99} == self.node.driver_internal_info[node_store.KEY]

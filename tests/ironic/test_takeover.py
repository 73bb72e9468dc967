# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Another conductor takes a node over during a flash, Ironic's own timeouts expire, or somebody aborts the step."""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ironic.common import exception, hash_ring, rpc, states
from ironic.conductor import manager as conductor_manager
from ironic.conductor import task_manager
from oslo_utils import timeutils

from baremetal_acc.model.action import Stage
from baremetal_acc.planning.job_transitions import current
from baremetal_acc_ironic.state import node_state, node_store
from baremetal_acc_ironic.steps import open_locks, runner
from tests.ironic.case import GPU_NEW, GPU_OLD
from tests.ironic.test_jobs import GPU_0, UPDATE, JobCase


class TestTakeover(JobCase):
    """A conductor that never comes back, and another one with another name."""

    def test_another_host_finishes_what_a_dead_one_held_locked(self) -> None:
        """It died in a turn, so the node is reserved by it; Ironic takes that away, and the job goes on, having looked."""
        self.clean()
        self.until_writing()
        self.node.refresh()
        task_manager.acquire(self.context, self.node.uuid).__enter__()
        assert 'test-host' == self.dbapi.get_node_by_uuid(self.node.uuid).reservation
        self.dbapi.unregister_conductor('test-host')
        self.set_defaults(host='other-host')
        self.hostname = 'other-host'
        self.service = conductor_manager.ConductorManager(self.hostname, 'test-topic')
        self._start_service()
        rpc.set_global_manager(None)
        rpc.set_global_manager(self.service)
        hash_ring.HashRingManager.reset()
        sent = len(self.uploads())
        self.poll()
        assert sent == len(self.uploads()), 'a node that somebody holds is let alone'
        self.service._check_orphan_nodes(self.context)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (2, GPU_NEW, (True, True)) == (len(self.uploads()), self.version(GPU_0), self.closed())


class TestOnlyThoughtDead(JobCase):
    """A conductor stands still between storing an intent and acting on it; Ironic gives the node away; then it goes on."""

    def goes_on(self, stage: Stage, taken: Callable[[], None]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Poll until this stage was stored as under way, let the node be taken, go on.

        :returns: what the other conductor relies on: as it left it, and after we went on.
        """
        kept = node_store.store
        self.addCleanup(setattr, node_state, 'store', kept)
        left: list[tuple[Any, ...]] = []

        def store(node: Any, state: node_state.NodeState) -> None:
            kept(node, state)
            job = state.job
            if job is not None and current(job) is stage and any(i.state.begun and not i.state.ended for i in job.items):
                node_store.store = kept
                taken()
                self.machine.reset_log()
                left.append(self.row())

        node_store.store = store
        for _ in range(200):
            # At the end of the turn Ironic gives back a lock that it has not any more, and says so.
            with contextlib.suppress(exception.NodeLocked):
                self.poll()
            if left:
                return left[0], self.row()
        raise AssertionError(f'the stage never came: {self.node_state}')

    def taken_over(self) -> None:
        """The other conductor is at work on it."""
        self.dbapi.release_node('test-host', self.node.id)
        self.dbapi.reserve_node('other-host', self.node.id)

    def finished_elsewhere(self) -> None:
        """The other conductor has done its turn, and another worker of ours has the lock now."""
        self.taken_over()
        info = dict(self.dbapi.get_node_by_id(self.node.id).driver_internal_info)
        info[node_store.KEY] = info[node_store.KEY] | {'lifecycle': 7}
        self.dbapi.update_node(self.node.id, {'driver_internal_info': info})
        self.dbapi.release_node('other-host', self.node.id)
        self.dbapi.reserve_node('test-host', self.node.id)

    def row(self) -> tuple[Any, ...]:
        """What the other conductor relies on."""
        node = self.dbapi.get_node_by_id(self.node.id)
        return node.provision_state, node.driver_internal_info[node_store.KEY], node.maintenance, node.power_state

    def test_no_host_is_powered_off_that_another_one_has(self) -> None:
        """Nothing reaches the BMC, and the node stays as the other one left it."""
        self.clean()
        left, after = self.goes_on(Stage.HOLD, self.taken_over)
        assert ([], left) == (self.machine.log(), after)

    def test_no_image_is_sent_to_a_node_that_another_one_has(self) -> None:
        """The other one goes on: what was stored as sent and never was is not sent by itself, and the node fails locked."""
        self.config(group='baremetal_acc', stall_timeout=2)
        self.clean()
        left, after = self.goes_on(Stage.WRITE, self.taken_over)
        assert ([], left) == (self.machine.log(), after)
        self.dbapi.release_node('other-host', self.node.id)
        assert (states.CLEANFAIL, (True, True)) == (self.settle(), self.closed())

    def test_no_lock_is_touched_of_a_node_that_another_one_has(self) -> None:
        """Not even to close it: that is for whoever has the node, and may have it open for a write."""
        self.clean()
        left, after = self.goes_on(Stage.ENGAGE, self.taken_over)
        assert ([], left) == (self.machine.log(), after)

    def test_it_writes_nothing_to_a_node_that_another_one_had(self) -> None:
        """That the lock has our name says nothing: what is stored is not what we stored."""
        self.clean()
        left, after = self.goes_on(Stage.WRITE, self.finished_elsewhere)
        assert ([], left) == (self.machine.log(), after)

    def test_a_node_that_nobody_took_is_gone_on_with(self) -> None:
        """Standing still alone changes nothing."""
        self.clean()
        self.goes_on(Stage.WRITE, lambda: None)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (GPU_NEW, (True, True)) == (self.version(GPU_0), self.closed())


class TestIronicsTimeouts(JobCase):
    """The conductors were away for longer than Ironic waits: its own periodic fails the node before ours can go on."""

    def long_ago(self) -> None:
        """The node was last heard of before every limit."""
        self.node.refresh()
        self.node.provision_updated_at = timeutils.utcnow() - timedelta(days=1)
        self.node.save()

    def test_in_a_clean_wait(self) -> None:
        """Clean failed; the locks come back, and the next cleaning finishes it."""
        self.clean()
        self.until_writing()
        self.long_ago()
        self.service._check_cleanwait_timeouts(self.context)
        assert states.CLEANFAIL == self.settle()
        assert (True, (True, True), None) == (self.node.maintenance, self.closed(), self.node_state.job)
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (GPU_NEW, (True, True), ()) == (self.version(GPU_0), self.closed(), self.node_state.quarantined)

    def test_in_a_service_wait(self) -> None:
        """Service failed; the host gets its power back at closed locks only."""
        self.to_active()
        path = self._folder / 'baseline.toml'
        path.write_text(path.read_text().replace(GPU_NEW, GPU_OLD))
        self.serve(UPDATE)
        self.until_writing()
        self.long_ago()
        self.service._check_servicewait_timeouts(self.context)
        assert states.SERVICEFAIL == self.settle()
        assert (True, (True, True), None) == (self.node.maintenance, self.closed(), self.node_state.job)

    def test_in_a_deploy_wait(self) -> None:
        """Deploy failed: nothing was handed over, and what was engaged counts for no later deploy."""
        self.addCleanup(setattr, runner, 'TURNS', runner.TURNS)
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        runner.TURNS = 1
        self.deploy()
        self.node.refresh()
        assert states.DEPLOYWAIT == self.node.provision_state
        while self.node_state.job is not None and not open_locks.touched(self.node_state.job):
            self.poll()
        self.long_ago()
        self.service._check_deploy_timeouts(self.context)
        assert states.DEPLOYFAIL == self.settle()
        assert ((True, True), None, False) == (self.closed(), self.node_state.job, self.node_state.handed_over)
        assert all(e.lifecycle == self.node_state.lifecycle for e in self.node_state.evidence)


class TestAbort(JobCase):
    """In a clean wait."""

    def test_abort_waits_for_the_end_of_the_step(self) -> None:
        """The card is written to its end and locked; then the cleaning has failed, as was asked for."""
        self.clean(UPDATE, 'verify_accelerators')
        self.until_writing()
        self.service.do_provisioning_action(self.context, self.node.uuid, 'abort')
        assert states.CLEANFAIL == self.settle()
        assert (GPU_NEW, (True, True)) == (self.version(GPU_0), self.closed())
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert 2 == len(self.uploads())

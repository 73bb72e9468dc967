# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What if another conductor takes a node over in mid flash, Ironic's own timeouts strike, or somebody aborts?"""

from datetime import timedelta

from ironic.common import hash_ring, rpc, states
from ironic.conductor import manager as conductor_manager
from ironic.conductor import task_manager
from oslo_utils import timeutils

from baremetal_acc_ironic import work
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
        assert (True, (True, True), None) == (self.node.maintenance, self.closed(), self.mind.job)
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (GPU_NEW, (True, True), ()) == (self.version(GPU_0), self.closed(), self.mind.quarantined)

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
        assert (True, (True, True), None) == (self.node.maintenance, self.closed(), self.mind.job)

    def test_in_a_deploy_wait(self) -> None:
        """Deploy failed: nothing was handed over, and what was engaged counts for no later deploy."""
        self.addCleanup(setattr, work, 'TURNS', work.TURNS)
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        work.TURNS = 1
        self.deploy()
        self.node.refresh()
        assert states.DEPLOYWAIT == self.node.provision_state
        while self.mind.job is not None and not work.touched(self.mind.job):
            self.poll()
        self.long_ago()
        self.service._check_deploy_timeouts(self.context)
        assert states.DEPLOYFAIL == self.settle()
        assert ((True, True), None, False) == (self.closed(), self.mind.job, self.mind.handed_over)
        assert all(e.lifecycle == self.mind.lifecycle for e in self.mind.evidence)


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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What if the conductor dies right before, or right after, it has stored how far a flash is? At every such point.

The process "dies" by an exception that nobody catches, and from then on nothing of it reaches the database; reservations stay
as they were. Then a new conductor starts on the same database, as Ironic starts one, and goes on. ``BAREMETAL_ACC_SOAK=1``
tries every point; else it is every third of a flash, and every fifth of one that is put back.
"""

import itertools
import os
from collections.abc import Callable
from typing import Any
from unittest import mock

from ironic import objects
from ironic.common import rpc, states
from ironic.conductor import manager as conductor_manager

from baremetal_acc.bmc.redfish.driver import RedfishConnection
from baremetal_acc.decide.advance import current
from baremetal_acc.model.job import Stage
from baremetal_acc_ironic import node as memory
from tests.ironic.case import GPU_NEW, IronicCase

SOAK = bool(os.environ.get('BAREMETAL_ACC_SOAK'))

GPU_0 = 'host/HGX_FW_GPU_0'
LOCKS = ('HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled', 'HGX_FW_GPU_0/WriteProtected')


class Died(BaseException):
    """The process is gone."""


class Mortal:
    """A process that dies when it stores for the n-th time.

    :ivar at: where it died: stage and what of it is under way.
    """

    def __init__(self, number: int, *, after: bool) -> None:
        self._number = number
        self._after = after
        self._stored = 0
        self._store = memory.store
        self._save = objects.Node.save
        self._release = objects.Node.release
        self.dead = False
        self.at = ''

    def store(self, node: Any, mind: memory.Memory) -> None:
        """In place of :func:`baremetal_acc_ironic.node.store`."""
        self._stored += 1
        if self._stored == self._number and not self._after:
            self._die(mind)
        self._store(node, mind)
        if self._stored == self._number:
            self._die(mind)

    def _die(self, mind: memory.Memory) -> None:
        job = mind.job
        stage = None if job is None else current(job)
        self.at = 'end' if stage is None else stage.name
        self.dead = True
        raise Died

    def save(self, node: Any, context: Any = None) -> None:
        """In place of Ironic's: the dead save nothing."""
        if not self.dead:
            self._save(node, context)

    def release(self, *arguments: Any) -> None:
        """In place of Ironic's: whoever dies holds on to the node."""
        if not self.dead:
            self._release(*arguments)

    def patches(self) -> list[Any]:
        """For the time of its life."""
        return [
            mock.patch.object(memory, 'store', self.store),
            mock.patch.object(objects.Node, 'save', lambda node, context=None: self.save(node, context)),
            mock.patch.object(objects.Node, 'release', self.release),
        ]


class CrashCase(IronicCase):
    """A cleaning that flashes one card, whose locks are closed, and dies."""

    parameters = {  # noqa: RUF012
        'gpus': 1,
        'flash_seconds': 0.2,
        'settings': {'HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled': False, 'HGX_FW_GPU_0/WriteProtected': True},
    }

    def setUp(self) -> None:
        super().setUp()
        self.pushes: list[str] = []
        push = RedfishConnection.push

        def watched(connection: Any, target: Any, upload: Any) -> Any:
            self.look_before_a_write(connection, target)
            return push(connection, target, upload)

        patch = mock.patch.object(RedfishConnection, 'push', watched)
        patch.start()
        self.addCleanup(patch.stop)

    def look_before_a_write(self, connection: Any, target: Any) -> None:
        """What the machine knows and shows when an image is about to be sent: the rule that nothing may break."""
        component = str(target.uri).rsplit('/', 1)[-1]
        tasks = [t for bmc in self.machine.truth()['bmcs'].values() for t in bmc['tasks'].values() if t['state'] == 'Running']
        staged = connection.component(target).staged
        self.pushes.append(component)
        if tasks or staged is not None:
            self.broken.append(f'{component} is written while {tasks or staged} is there')

    def begin_anew(self) -> None:
        """Another machine, and another node."""
        self.machine.stop()
        self.node.destroy()
        self.machine = self._start_machine(self.product, **({'flash_seconds': 0.1, 'reset_seconds': 0.05} | self.parameters))
        self.node = self.make_node()
        self.pushes, self.broken = [], []

    def live_until(self, mortal: Mortal) -> None:
        """Automated cleaning until the process dies, or the cleaning ends."""
        with mortal.patches()[0], mortal.patches()[1], mortal.patches()[2]:
            self.clean()
            self.node.refresh()
            while not mortal.dead and self.node.provision_state == states.CLEANWAIT:
                self.poll()

    def restart(self) -> None:
        """A new conductor of the same name, as :meth:`ironic.conductor.base_manager.BaseConductorManager.init_host` does it."""
        known = self.service.conductor
        self.service = conductor_manager.ConductorManager(self.hostname, 'test-topic')
        self.service.conductor = known
        self._start_service()
        self.service._correct_stuck_states()
        rpc.set_global_manager(None)
        rpc.set_global_manager(self.service)

    def open_locks(self) -> list[str]:
        """The machine's truth."""
        closed = self.locks()
        return [name for name in LOCKS if not closed[name]]

    def judge(self, where: str) -> str:
        """What must hold when everything has settled; and one retry finishes what failed."""
        state = self.settle()
        assert [] == self.broken, where
        assert [] == self.open_locks(), f'{where}: {state}'
        assert None is self.mind.job or self.mind.job.ended, where
        if state == states.AVAILABLE:
            assert GPU_NEW == self.version(GPU_0), f'{where}: it passes with a wrong card'
            return 'went on'
        assert states.CLEANFAIL == state, where
        assert None is self.node.reservation, where
        self.machine.clear_faults()
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), f'{where}: one retry: {self.node.last_error}'
        assert ([], GPU_NEW, []) == (self.broken, self.version(GPU_0), self.open_locks()), where
        assert (None, (), False) == (self.mind.opened, self.mind.quarantined, self.node.maintenance), where
        return 'one retry'

    def every_point(self, step: int, prepare: Callable[[], object] = lambda: None) -> dict[str, list[str]]:
        """Die at every point, or at those that a step leads to; by stage, what became of it."""
        ends: dict[str, list[str]] = {}
        for point in itertools.count(step=1 if SOAK else step):
            number, after = point // 2 + 1, point % 2 == 1
            self.begin_anew()
            prepare()
            mortal = Mortal(number, after=after)
            self.live_until(mortal)
            if not mortal.dead:
                return ends
            self.restart()
            where = f'{"after" if after else "before"} store {number}, {mortal.at}'
            ends.setdefault(mortal.at, []).append(self.judge(where))
        raise AssertionError('unreachable')


class TestFlash(CrashCase):
    """A card is flashed, and everything goes well but for the conductor."""

    def test_a_crash_at_every_point_repeats_no_write_and_leaves_nothing_open(self) -> None:
        """One goes on where it was, or fails locked and is finished by one retry; never with a wrong card."""
        ends = self.every_point(3)
        assert {stage.name for stage in Stage} <= set(ends)
        assert {'went on', 'one retry'} == {end for found in ends.values() for end in found}


class TestRestore(CrashCase):
    """The first image fails, and the one before is put back."""

    def test_a_crash_at_every_point_of_it_leaves_nothing_open_either(self) -> None:
        """The same holds while it is put back; then the node has failed, and one retry finishes it."""
        ends = self.every_point(5, lambda: self.machine.fault('task-fails', device='GPU_0', count=1))
        assert {'one retry'} == {end for found in ends.values() for end in found}
        assert {'WRITE', 'ENGAGE', 'VERIFY'} <= set(ends) or not SOAK

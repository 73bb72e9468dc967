# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Base of the crash tests: a conductor that dies right before or right after it saves the node, and what must hold afterwards.

The process "dies" by an exception that nobody catches, and from then on it writes nothing to the database; reservations stay
as they were. Then a new conductor starts on the same database, as Ironic starts one, and resumes. Every save of the node is
such a point: those of a job's transitions, and Ironic's own around them. The machine's clock advances only by one step with
each round of the periodics, so that the points are the same in every run.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar
from unittest import mock

from ironic import objects
from ironic.common import rpc, states
from ironic.conductor import manager as conductor_manager

from baremetal_acc.bmc.redfish.connection import RedfishConnection
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Power
from baremetal_acc.model.action import Stage, stage
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.planning.job_transitions import current
from baremetal_acc_ironic.state import node_store
from tests.ironic.case import GPU_NEW, POLLS, IronicCase

GPU_0 = 'host/HGX_FW_GPU_0'
LOCKS = ('HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled', 'HGX_FW_GPU_0/WriteProtected')
WAITS = (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT)

STEP_SECONDS = 0.05
"""Of the machine's clock, for each round of the periodics."""


class Died(BaseException):
    """The process is gone."""


class Mortal:
    """A process that dies when it saves the node for the n-th time; without a number it lives on.

    :ivar saves: by the stage that the node was saved in.
    """

    def __init__(self, number: int = 0, *, after: bool = False) -> None:
        self._number = number
        self._after = after
        self._save = objects.Node.save
        self._release = objects.Node.release
        self.saves: list[str] = []
        self.dead = False

    def save(self, node: Any, context: Any = None) -> None:
        """In place of Ironic's: the dead save nothing."""
        if self.dead:
            return
        self.saves.append(_stage(node))
        if len(self.saves) != self._number:
            self._save(node, context)
            return
        if self._after:
            self._save(node, context)
        self.dead = True
        raise Died

    def release(self, *arguments: Any) -> None:
        """In place of Ironic's: whoever dies holds on to the node."""
        if not self.dead:
            self._release(*arguments)

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """For the time of its life."""
        with (
            mock.patch.object(objects.Node, 'save', lambda node, context=None: self.save(node, context)),
            mock.patch.object(objects.Node, 'release', self.release),
        ):
            try:
                yield
            except (Died, Exception):
                # Ironic stumbles over nodes that a dead process could not let go of.
                if not self.dead:
                    raise


def _stage(node: Any) -> str:
    job = node_store.load(node).job
    if job is None:
        return 'no job'
    stage = current(job)
    return 'end' if stage is None else stage.name


class Reborn(IronicCase):
    """A node whose conductor dies, and is followed by another one."""

    def rests(self) -> bool:
        """Nothing of the node waits any more."""
        job = self.node_state.job
        return self.node.provision_state not in WAITS and (job is None or job.ended)

    def restart(self) -> None:
        """A new conductor of the same name, as :meth:`ironic.conductor.base_manager.BaseConductorManager.init_host` does it."""
        known = self.service.conductor
        self.service = conductor_manager.ConductorManager(self.hostname, 'test-topic')
        self.service.conductor = known
        self._start_service()
        self.service._correct_stuck_states()
        rpc.set_global_manager(None)
        rpc.set_global_manager(self.service)


class CrashCase(Reborn):
    """A flow that flashes one card, whose locks are closed, and dies.

    :cvar points: how often the node is saved in it.
    :cvar before: the state in which it begins.
    :cvar done: the state after it.
    :cvar failed: the state after it if it has failed.
    """

    points: ClassVar[int]
    before = states.MANAGEABLE
    done = states.AVAILABLE
    failed = states.CLEANFAIL
    parameters = {  # noqa: RUF012
        'gpus': 1,
        'virtual_clock': True,
        'tls': False,
        'settings': {'HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled': False, 'HGX_FW_GPU_0/WriteProtected': True},
    }

    def setUp(self) -> None:
        """Watch the machine, and be right before it begins."""
        self.broken: list[str] = []
        self.pushes: list[str] = []
        self.opened = False
        self._patch(Machine, 'revision', property(lambda machine: machine.__dict__['revision'], self._changed))
        super().setUp()
        push = RedfishConnection.push

        def watched(connection: Any, target: Any, upload: Any) -> Any:
            self.look_before_a_write(connection, target, upload)
            return push(connection, target, upload)

        self._patch(RedfishConnection, 'push', watched)
        self.node.provision_state = self.before
        self.node.save()
        # Whoever dies before it has seen an answer knows nothing of the image: that is waited for up to stall_timeout.
        self.config(group='baremetal_acc', settle_timeout=1, stall_timeout=2)
        self.prepare()

    def _patch(self, target: Any, name: str, new: Any) -> None:
        patch = mock.patch.object(target, name, new, create=True)
        patch.start()
        self.addCleanup(patch.stop)

    def _changed(self, machine: Machine, revision: int) -> None:
        """The machine has changed: while locks are open, the host is off."""
        machine.__dict__['revision'] = revision
        opened = [key for key in LOCKS if key in machine.settings and not machine.is_closed(key)]
        host = machine.systems.get('host')
        self.opened |= bool(opened)
        if opened and host is not None and (host.power is not Power.OFF or host.booting):
            self.broken.append(f'the host is {host.power} while {opened} are open')

    def look_before_a_write(self, connection: Any, target: Any, upload: Any) -> None:
        """What the machine knows and shows when an image is about to be sent: the rule that nothing may break."""
        component = str(target.uri).rsplit('/', 1)[-1]
        tasks = [t for bmc in self.machine.truth()['bmcs'].values() for t in bmc['tasks'].values() if t['state'] == 'Running']
        staged = connection.component(target).staged
        self.pushes.append(upload.file)
        if tasks or staged is not None:
            self.broken.append(f'{component} is written while {tasks or staged} is there')

    # ------------------------------------------------------------------------------------------------------- the flow

    def prepare(self) -> None:
        """What is so before it begins."""

    def begin(self) -> None:
        """It begins: automated cleaning."""
        self.service.do_provisioning_action(self.context, self.node.uuid, 'provide')

    def enter(self) -> None:
        """What a conductor that may die begins with."""
        self.begin()

    def poll(self) -> None:
        """One round of both periodics, and the machine's clock moves."""
        super().poll()
        self.machine.advance(STEP_SECONDS)

    def live(self, mortal: Mortal, *, anew: bool = True) -> None:
        """Until the process dies, or nothing waits any more."""
        with mortal.alive():
            if anew:
                self.enter()
            for _ in range(POLLS):
                if mortal.dead or self.rests():
                    return
                self.poll()
            raise AssertionError(f'still {self.node.provision_state}: {self.node_state}')

    # ------------------------------------------------------------------------------------------------------ the truth

    def goes_on(self) -> bool:
        """Whether it must, from what is stored now; else it may fail, and one retry has to finish it.

        Ironic fails what it was in the middle of itself. An image that was about to be sent is not sent again by itself.
        """
        job = self.node_state.job
        sent = job is not None and any(stage(i.action) is Stage.WRITE and i.state is ItemState.SENT for i in job.items)
        return self.provision_state() in WAITS and not sent

    def provision_state(self) -> str:
        """As it is stored."""
        self.node.refresh()
        return str(self.node.provision_state)

    def safe(self) -> None:
        """What holds at any end, of a flow that went well and of one that did not."""
        closed = self.locks()
        truth = self.machine.truth()
        assert [] == self.broken, self.broken
        assert [] == [name for name in LOCKS if not closed[name]], closed
        assert [] == truth['cut_writes'], 'its power was changed while the card was written'
        assert (True, None) == (self.rests(), self.node.reservation)

    def right(self) -> None:
        """The card is, and the node is as if nothing had happened."""
        assert GPU_NEW == self.version(GPU_0), 'it passes with a wrong card'
        found = (self.node_state.opened, self.node.maintenance, self.node.fault)
        assert (None, False, None) == found, found
        assert () == self.node_state.quarantined
        assert 'On' == self.machine.truth()['systems']['host']['power']

    def settled(self, *, must: bool) -> None:
        """Everything has come to rest: all is safe, and no image was sent twice; one retry finishes what has failed.

        :param must: it has to go on.
        """
        begun = self.provision_state() != self.before or bool(self.pushes)
        self.restart()
        state = self.settle()
        self.safe()
        assert len(set(self.pushes)) == len(self.pushes), 'an image was sent twice'
        if begun and state == self.done:
            self.right()
            return
        assert (self.failed if begun else self.before) == state, self.node.last_error
        assert not must, f'it did not go on: {self.node.last_error}'
        self.machine.clear_faults()
        self.clear()
        self.begin()
        assert self.done == self.settle(), f'one retry: {self.node.last_error}'
        self.safe()
        self.right()

    def clear(self) -> None:
        """An operator clears maintenance and goes back to where the flow begins."""
        super().clear()
        self.node.provision_state = self.before
        self.node.save()

    def die(self, number: int, *, after: bool) -> Mortal:
        """At one point."""
        mortal = Mortal(number, after=after)
        self.live(mortal)
        assert mortal.dead, f'the node is saved {len(mortal.saves)} times only'
        return mortal

    def survives(self, number: int, *, after: bool) -> None:
        """It dies at one point, and another one goes on."""
        self.die(number, after=after)
        self.settled(must=self.goes_on())

    def undisturbed(self) -> Mortal:
        """Nobody dies: the node is saved as often as there are points, and locks have been open."""
        mortal = Mortal()
        self.live(mortal)
        assert self.points == len(mortal.saves), mortal.saves
        assert self.opened
        self.safe()
        return mortal


Case = TypeVar('Case', bound=type[CrashCase])


def every_point(points: int, *, all_of_them: bool = True, step: int = 1) -> Callable[[Case], Case]:
    """Give a case a test for each point: one before and one after each of so many saves; or only for one in the middle.

    :param step: leave out those between: 3 takes every third save.
    """

    def give(case: Case) -> Case:
        case.points = points
        for number in range(1, points + 1, step) if all_of_them else [points // 2]:
            for word in ('before', 'after'):
                test = _test(number, after=word == 'after')
                test.__name__ = f'test_a_crash_{word}_save_{number:02}'
                setattr(case, test.__name__, test)
        return case

    return give


def _test(number: int, *, after: bool) -> Callable[[CrashCase], None]:
    def test(self: CrashCase) -> None:
        self.survives(number, after=after)

    test.__doc__ = 'The next one goes on, or the node fails locked and one retry finishes it; never with a wrong card.'
    return test

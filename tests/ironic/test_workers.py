# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""No node waits for the BMC of another; Ironic's conductor runs with a pool of real threads and one database for them all."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import futurist
import pytest
from futurist import rejection
from ironic import objects
from ironic.common import states
from ironic.conductor import task_manager
from ironic.db.sqlalchemy import models
from oslo_db.sqlalchemy import enginefacade, engines

from baremetal_acc.bmc.driver import BmcAddress, Connection, ReadsAhead
from baremetal_acc.errors import BmcUnreachable
from baremetal_acc_ironic.periodics import workers as turns
from baremetal_acc_ironic.periodics.workers import TurnClock, Workers, workers
from baremetal_acc_ironic.state import node_state, node_store
from tests.ironic.case import IronicCase

SECONDS = 120.0


class ThreadCase(IronicCase):
    """A conductor whose workers are threads."""

    parameters = {'gpus': 1}  # noqa: RUF012
    pool = 20

    def _configure(self) -> None:
        # In memory all threads share one connection, and so each other's transactions.
        engine = engines.create_engine(f'sqlite:///{self._folder / "ironic.sqlite"}', sqlite_fk=True)
        models.Base.metadata.create_all(engine)
        self.addCleanup(enginefacade._context_manager.patch_engine(engine))
        self.config(group='database', sqlite_retries=True)
        super()._configure()

    def setUp(self) -> None:
        super().setUp()
        self.service._executor = self.service._reserved_executor = None
        pool = futurist.ThreadPoolExecutor(max_workers=self.pool, check_and_reject=rejection.reject_when_reached(self.pool))
        self.service._executor = pool
        self.addCleanup(pool.shutdown, wait=True)
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            self.interface = task.driver.firmware

    def waiting_node(self, number: int, **values: Any) -> Any:
        """A node that waits with a job in its key; what the job is does not matter."""
        info = {node_store.KEY: {'format': node_state.FORMAT, 'busy': True}}
        uuid = f'{number:08d}-0000-4000-8000-000000000000'
        defaults = {
            'name': f'waiting-{number}',
            'uuid': uuid,
            'provision_state': states.CLEANWAIT,
            'driver_internal_info': info,
        }
        return self.make_node(**(defaults | values))

    def until(self, condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        """Until something is so."""
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, f'it did not happen in time: {self.told()}'
            meanwhile()
            time.sleep(0.05)

    def told(self) -> list[tuple[str, str, str | None, str | None]]:
        """What stands in the database, for failures."""
        nodes = self.dbapi.get_node_list()
        return [(n.name, n.provision_state, n.reservation, n.last_error) for n in nodes]


class TestOneSilentBmc(ThreadCase):
    """Eleven machines are locked; the BMC of one says nothing any more."""

    def others(self, count: int) -> list[Any]:
        """Nodes with machines of their own."""
        found = []
        for number in range(count):
            machine = self._start_machine(self.product, flash_seconds=0.1, reset_seconds=0.05, gpus=1)
            uuid = f'{number:08d}-0000-4000-8000-000000000000'
            found.append(self.make_node(name=f'other-{number}', uuid=uuid, driver_info=self.driver_info(machine)))
        return found

    def begin(self, nodes: list[Any]) -> None:
        """Manual cleaning by one step."""
        for node in nodes:
            node.provision_state = states.MANAGEABLE
            node.save()
            self.service.do_node_clean(self.context, node.uuid, [{'interface': 'firmware', 'step': 'lock_accelerators'}])

    def test_it_delays_its_own_node_only(self) -> None:
        """The ten others are through while the first turn of the silent one still waits; it gets no second turn meanwhile."""
        self.config(group='baremetal_acc', bmc_timeout=SECONDS, worker_share=0.5)
        self.config(group='conductor', workers_pool_size=100)
        others = self.others(10)
        turns: list[str] = []
        self.begin([self.node])
        self.until(lambda: self.state(self.node) == (states.CLEANWAIT, None))
        self.machine.fault('hang')
        self.interface.turn_jobs(self.service, self.context)
        assert (states.CLEANWAIT, 'test-host') == self.state(self.node), 'its turn has begun'
        self.begin(others)

        def poll() -> None:
            self.interface.turn_jobs(self.service, self.context)
            turns.append(self.state(self.node)[1])

        self.until(lambda: all(self.state(node) == (states.MANAGEABLE, None) for node in others), poll)
        assert {'test-host'} == set(turns), 'one turn, from before the others began until after they ended'
        assert {None} == {node.last_error for node in others}
        self.machine.clear_faults()
        self.machine.stop()
        self.until(lambda: self.state(self.node) == (states.CLEANWAIT, None))

    def state(self, node: Any) -> tuple[str, str | None]:
        """Provision state, and who holds the node."""
        node.refresh()
        return node.provision_state, node.reservation


class TestShare(ThreadCase):
    """Two workers of the pool are ours."""

    def setUp(self) -> None:
        super().setUp()
        self.config(group='conductor', workers_pool_size=20)
        self.config(group='baremetal_acc', worker_share=0.1)
        self.began: list[str] = []
        self.gate = threading.Semaphore(0)
        self.addCleanup(self.gate.release, 100)

    def turn(self, task: Any) -> None:
        """One that ends when the test lets it."""
        self.began.append(task.node.name)
        self.gate.acquire(timeout=SECONDS)

    def round(self, nodes: list[Any]) -> None:
        """What a periodic does."""
        workers(self.service).hand_out(self.service, self.context, [n.uuid for n in nodes], self.turn, 'the test')

    def held(self, nodes: list[Any]) -> set[str]:
        """Those whose turn runs: a round has their lock before it ends, a turn keeps it to its end."""
        for node in nodes:
            node.refresh()
        return {node.name for node in nodes if node.reservation is not None}

    def free(self, nodes: list[Any]) -> bool:
        """Nobody holds any of them."""
        return not self.held(nodes)

    def test_no_more_turns_at_a_time_than_the_share_and_the_longest_waiting_first(self) -> None:
        """Every node comes to its turn before any has a second one, though the first are free again long before the last."""
        nodes = [self.waiting_node(n) for n in range(5)]
        for expected in (['waiting-0', 'waiting-1'], ['waiting-2', 'waiting-3'], ['waiting-4', 'waiting-0']):
            self.began.clear()
            self.round(nodes)
            self.round(nodes)
            assert set(expected) == self.held(nodes)
            self.until(lambda: len(self.began) == 2)
            assert set(expected) == set(self.began)
            self.gate.release(2)
            self.until(lambda: self.free(nodes))

    def test_a_full_pool_means_the_next_round(self) -> None:
        """Others of Ironic use all workers: nothing is raised, no node stays locked, and the next round begins the turn."""
        node = self.waiting_node(0)
        with futurist.ThreadPoolExecutor(max_workers=1, check_and_reject=rejection.reject_when_reached(0)) as full:
            kept, self.service._executor = self.service._executor, full
            self.round([node])
            self.service._executor = kept
        assert ([], True) == (self.began, self.free([node]))
        self.round([node])
        assert {'waiting-0'} == self.held([node])
        self.until(lambda: self.began == ['waiting-0'])

    def test_a_node_that_cannot_be_turned_does_not_end_the_round(self) -> None:
        """One has a hardware type that is not there, one is locked, one is gone; the last one gets its turn."""
        broken = self.waiting_node(0, driver='fake-hardware')
        held, gone, good = (self.waiting_node(n) for n in (1, 2, 3))
        gone.destroy()
        with task_manager.acquire(self.context, held.uuid):
            self.round([broken, held, gone, good])
        self.until(lambda: self.began == ['waiting-3'])

    def test_a_node_that_is_locked_is_asked_for_once(self) -> None:
        """The others do not wait until somebody gives it back: it comes with the next round."""
        held, good = self.waiting_node(0), self.waiting_node(1)
        asked: list[str] = []
        reserve = objects.Node.reserve

        def counted(context: Any, tag: str, node: Any) -> Any:
            asked.append(node)
            return reserve(context, tag, node)

        with task_manager.acquire(self.context, held.uuid):
            self.config(group='conductor', node_locked_retry_interval=0)
            with mock.patch.object(objects.Node, 'reserve', counted):
                self.round([held, good])
        assert [held.uuid, good.uuid] == asked
        assert {'waiting-1'} == self.held([held, good])

    def test_a_turn_that_fails_gives_its_place_back(self) -> None:
        """Whatever it raises."""

        def fails(task: Any) -> None:
            raise RuntimeError(task.node.name)

        nodes = [self.waiting_node(n) for n in range(3)]
        for _ in range(3):
            workers(self.service).hand_out(self.service, self.context, [n.uuid for n in nodes], fails, 'the test')
            self.until(lambda: self.free(nodes))
        self.round(nodes)
        assert 2 == len(self.held(nodes))
        self.until(lambda: len(self.began) == 2)


def test_each_conductor_counts_its_own() -> None:
    """Two in one process, as in tests, do not take each other's workers."""

    class Conductor:
        pass

    one, other = Conductor(), Conductor()
    assert isinstance(workers(one), Workers)
    assert workers(one) is workers(one)
    assert workers(one) is not workers(other)


def test_rounds_of_the_watch_leave_workers_to_jobs_and_never_take_more_than_all_of_ours(monkeypatch: Any) -> None:
    """Two of eight for the watch, four for all turns together, whoever comes first."""
    monkeypatch.setattr('baremetal_acc_ironic.periodics.workers.share', lambda: 4)
    monkeypatch.setattr('baremetal_acc_ironic.periodics.workers.share_of_watch', lambda: 2)
    ours = Workers()

    def begin(_manager: Any, _context: Any, uuid: str, *_: Any, watching: bool) -> None:
        ours._busy[uuid] = watching

    monkeypatch.setattr(ours, '_begin', begin)

    def hand_out(nodes: str, *, watching: bool) -> None:
        ours.hand_out(None, None, list(nodes), lambda _task: None, 'a test', watching=watching)

    hand_out('abcde', watching=True)
    assert [True, True] == list(ours._busy.values())
    hand_out('fghij', watching=False)
    assert 4 == len(ours._busy)
    ours._busy = dict.fromkeys('fghi', False)
    hand_out('abcde', watching=True)
    assert set('fghi') == set(ours._busy), 'jobs may have all of them'
    hand_out('fghi', watching=True)
    assert [False] * 4 == list(ours._busy.values()), 'a node has one turn at a time'


class Silent:
    """A connection to a BMC that answers nothing."""

    def __init__(self, address: BmcAddress) -> None:
        self.address = address
        self.asked: list[str] = []

    def task(self, _: object) -> None:
        """Silence."""
        self.asked.append('task')
        raise BmcUnreachable(bmc=self.address.label, what='no answer')

    def power(self, _: object) -> str:
        """It would answer this."""
        self.asked.append('power')
        return 'On'

    def set_power(self, *_: object) -> None:
        """A write."""
        self.asked.append('set_power')


def test_within_a_turn_a_silent_bmc_is_waited_for_once() -> None:
    """Further reads fail at once with the same reason; a write is sent all the same, and another BMC is asked."""
    made: list[Silent] = []

    def connect(address: BmcAddress) -> Any:
        made.append(Silent(address))
        return made[-1]

    bounded = TurnClock(timedelta(seconds=60)).connecting(connect)
    host, dpu = (BmcAddress(name=name, address='https://192.0.2.1') for name in ('host', 'dpu'))  # type: ignore[arg-type]
    connection = bounded(host)
    for ask in (connection.task, connection.power, lambda _: bounded(host)):
        with pytest.raises(BmcUnreachable, match='no answer'):
            ask(None)  # type: ignore[arg-type]
    connection.set_power(None, None)  # type: ignore[arg-type]
    assert 'On' == bounded(dpu).power(None)  # type: ignore[arg-type]
    assert [['task', 'set_power'], ['power']] == [c.asked for c in made]


def test_a_look_gets_what_is_left_of_the_turn_and_never_less_than_one_answer() -> None:
    """Budget of a look; the time for one answer is the operator's."""
    seen: list[BmcAddress] = []

    def connect(address: BmcAddress) -> Any:
        seen.append(address)
        return Silent(address)

    address = BmcAddress(
        name='host',  # type: ignore[arg-type]
        address='https://192.0.2.1',
        timeout=timedelta(seconds=45),
        budget=timedelta(seconds=300),
    )
    TurnClock(timedelta(seconds=100)).connecting(connect)(address)
    past = TurnClock(timedelta(0))
    past.connecting(connect)(address)
    assert past.over
    assert timedelta(seconds=90) < seen[0].budget <= timedelta(seconds=100)
    assert [timedelta(seconds=45)] * 2 == [seen[1].budget, seen[1].timeout]


WRITES = {'writer', 'may_write', 'judge', 'push', 'go_on', 'cancel', 'set_power', 'reset', 'measure'}
"""What asks first whether the node is still ours: ``measure`` has a device sign something, and two only come before a write."""


def test_whatever_a_connection_does_is_a_read_or_a_write() -> None:
    """A read that were taken for a write would ask the database each time, from the threads of all BMCs at once."""
    does = {name for kind in (Connection, ReadsAhead) for name in vars(kind) if not name.startswith('_')}
    assert WRITES == does - turns._READS - turns._NEITHER


def test_a_node_is_asked_for_by_one_thread_at_a_time() -> None:
    """Its database session is not for several, and each BMC of a node has a thread of its own."""
    asking, most = [0], [0]

    def held() -> None:
        asking[0] += 1
        most[0] = max(most[0], asking[0])
        time.sleep(0.02)
        asking[0] -= 1

    clock = TurnClock(timedelta(seconds=60), held=held)
    threads = [threading.Thread(target=clock.held) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [1] == most

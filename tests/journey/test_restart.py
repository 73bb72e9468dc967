# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The conductor dies during a flash: the next one reads the BMC before it acts, and sends no image again.

``make test`` kills the conductor during a write, and in every third stage of a flash. ``BAREMETAL_ACC_SOAK=1`` kills it in
each stage, and right before and right after each store of the job.
"""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.journey.api import Node
from tests.journey.conftest import GPU_NEW, enrol_node, run_services
from tests.journey.sudden_death import SOAK, STAGES, Death
from tests.journey.survival import CLOSED, finished, right

pytestmark = pytest.mark.journey

Cleaning = Callable[..., Node]


class Lives:
    """The services of these tests, started again whenever they have died.

    :ivar death: what ends them.
    """

    def __init__(self, state: Path, documents: Path, death: Death) -> None:
        self._state = state
        self._documents = documents
        self._stack = contextlib.ExitStack()
        self.death = death
        self.begin()

    def begin(self) -> None:
        """Another life, on what the last one has left."""
        self.end()
        self.death.forget()
        run = run_services(self._state, self._documents, f'PYTHONPATH={self.death.folder}')
        self.services, self.process = self._stack.enter_context(run)

    def end(self) -> None:
        """All of it ends."""
        self._stack.close()

    def dies(self, node: Node) -> bool:
        """The conductor dies while the node is cleaned, and starts again; False: it was not struck."""
        with contextlib.suppress(requests.RequestException):
            node.settle()
            while node.show()['driver_internal_info']['baremetal_acc']['busy']:
                time.sleep(0.1)
        if not self.death.came:
            self.death.forget()
            return False
        assert 1 == self.process.wait(timeout=120), 'the services end when one of them dies'
        self.begin()
        node.services = self.services
        return True


@pytest.fixture(scope='module')
def lives(tmp_path_factory: pytest.TempPathFactory, documents: Path) -> Iterator[Lives]:
    """Services that die."""
    folder = tmp_path_factory.mktemp('lives')
    running = Lives(folder / 'services', documents, Death(folder / 'death'))
    yield running
    running.end()


@pytest.fixture
def cleaning(lives: Lives, emulated_machine: Any) -> Iterator[Cleaning]:
    """A node to clean, whose one card has to be flashed; it is gone afterwards."""
    nodes: list[Node] = []

    def begin(**parameters: Any) -> Node:
        if lives.process.poll() is not None:
            lives.begin()
        values = {'gpus': 1, 'flash_seconds': 1.0, 'reset_seconds': 0.1, 'settings': CLOSED}
        machine = emulated_machine('gpu-server', **(values | parameters))
        node = enrol_node(lives.services, machine, 'flash')
        nodes.append(node)
        node.to('manage', 'manageable')
        machine.reset_log()
        return node

    yield begin
    for node in nodes:
        forget(node, lives)


def forget(node: Node, lives: Lives) -> None:
    """Nobody shall look at its machine any more."""
    if lives.process.poll() is None:
        lives.services.ironic.ask('PUT', f'{node.path}/maintenance', {'reason': 'the journey is over'})
        lives.services.ironic.ask('DELETE', node.path)


def test_a_conductor_that_was_killed_in_mid_flash_goes_on(lives: Lives, cleaning: Cleaning) -> None:
    """SIGKILL of master and worker while the task runs; the restarted one finishes: one upload for each card, all closed."""
    node = cleaning(gpus=2, flash_seconds=3.0, settings={})
    node.provision('provide')
    end = time.monotonic() + 60
    while not any(task['percent'] >= 20 for task in node.machine.truth()['bmcs']['host']['tasks'].values()):
        assert time.monotonic() < end, node.show()['last_error']
        time.sleep(0.05)
    os.killpg(lives.services.pids['ironic'], signal.SIGKILL)
    assert 1 == lives.process.wait(timeout=60), 'the services end when one of them dies'
    assert 'Off' == node.machine.truth()['systems']['host']['power'], 'the host stays off while its cards are open'
    lives.begin()
    node.services = lives.services
    found = node.settle()
    assert 'available' == found['provision_state'], found['last_error']
    versions = node.versions()
    assert {GPU_NEW} == {versions['host/HGX_FW_GPU_0'], versions['host/HGX_FW_GPU_1']}
    targets = [e['body']['Targets'][0].rsplit('/', 1)[-1] for e in node.uploads()]
    assert ['HGX_FW_GPU_0', 'HGX_FW_GPU_1'] == sorted(targets)
    assert ([], ['PGPU', 'PGPU']) == (node.open_ways(), node.offers())


@pytest.mark.parametrize('stage', STAGES if SOAK else STAGES[::3])
def test_a_conductor_that_was_killed_in_any_stage_goes_on(stage: str, lives: Lives, cleaning: Cleaning) -> None:
    """By SIGKILL, once the stage was stored as under way: no image is sent twice, all is closed and offered in the end.

    A write that was stored as sent and never was is not sent again by itself: what was there before is put back, the node
    fails, locked, and one retry finishes it.
    """
    node = cleaning()
    lives.death.at(stage)
    node.provision('provide')
    assert lives.dies(node)
    finished(node, stage)


if SOAK:

    @pytest.mark.parametrize('when', ['before', 'after'])
    def test_a_conductor_that_was_killed_at_any_store_goes_on(when: str, lives: Lives, cleaning: Cleaning) -> None:
        """By SIGKILL, right before and right after each store of a flash, until there are no more."""
        struck = []
        for store in itertools.count(1):
            node = cleaning()
            lives.death.at_store(store, when)
            node.provision('provide')
            if not lives.dies(node):
                right(node)
                break
            stage, state = lives.death.where
            struck.append(stage)
            finished(node, stage if state == 'clean wait' else 'cleaning')
            forget(node, lives)
            node.machine.stop()
        assert set(STAGES) <= set(struck)

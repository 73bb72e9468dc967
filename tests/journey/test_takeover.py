# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A conductor is gone during a flash, and another one takes the node over: it reads the BMC before it acts.

Two real conductors share a MariaDB (:mod:`tests.journey.cluster`). The conductor that has reserved the node is killed, or
stopped for so long that Ironic counts it as offline, once each stage of a flash was stored as under way; the other conductor
has to finish the flash. Only ``make soak-takeover`` runs this: it takes minutes and needs MariaDB's server.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journey.api import Node, Services
from tests.journey.conftest import enrol_node
from tests.journey.mariadb import NotInstalled, look_for
from tests.journey.sudden_death import SOAK, STAGES, Death
from tests.journey.survival import CLOSED, finished, right

pytestmark = pytest.mark.journey

OPEN: dict[str, bool] = {}
"""The BMC takes an image at any time until locks are engaged; nothing has to be released."""

SECONDS = 90.0


class Cluster:
    """Two conductors, ``a`` and ``b``.

    :ivar death: what ends one of them.
    :ivar pids: of their process groups, by name.
    """

    def __init__(self, process: 'subprocess.Popen[str]', line: Any, death: Death, documents: Path) -> None:
        self._process = process
        self.services = Services.of(line, documents)
        self.death = death
        self.pids = {name: line['pids'][name] for name in ('a', 'b')}
        self.hosts = line['hosts']

    def start(self, name: str) -> None:
        """Start a conductor that was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f'start {name}\n')
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, 'the conductor did not come back'
        self.pids |= json.loads(line)

    def whole(self) -> None:
        """Both run, and Ironic counts on both."""
        for name, pid in self.pids.items():
            if _state(pid) in ('Z', ''):
                self.start(name)
            os.killpg(self.pids[name], signal.SIGCONT)
        wait(lambda: all(self.alive(name) for name in self.pids), 'both conductors are alive')

    def alive(self, name: str) -> bool:
        """Ironic counts on it."""
        found = self.services.ironic.take('GET', '/v1/conductors')['conductors']
        return {c['hostname']: c['alive'] for c in found}[self.hosts[name]] is True

    def struck(self) -> str:
        """Wait until a conductor was killed or stopped; its name."""
        wait(lambda: self.death.came, 'a conductor dies')
        name = next(name for name, pid in self.pids.items() if pid == self.death.who)
        wait(lambda: _state(self.pids[name]) in 'TZ', 'it is stopped, or dead')
        return name


def _state(pid: int) -> str:
    """The letter that the kernel gives a process; empty if there is none."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ''


def wait(holds: Callable[[], bool], what: str) -> None:
    """Until something holds."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f'{what}: not within {SECONDS:.0f} s'
        time.sleep(0.05)


@pytest.fixture(scope='module')
def running(tmp_path_factory: pytest.TempPathFactory, documents: Path) -> Iterator[Cluster]:
    """MariaDB, placement, Ironic's API and two conductors, for all tests of this file."""
    try:
        look_for()
    except NotInstalled as exc:
        pytest.fail(str(exc))
    folder = tmp_path_factory.mktemp('takeover')
    death = Death(folder / 'death')
    command = [sys.executable, '-m', 'tests.journey.cluster', '--state', str(folder / 'state')]
    path = os.pathsep.join([str(death.folder), *filter(None, [os.environ.get('PYTHONPATH')])])
    command += ['--conf', str(documents / 'ironic.conf'), '--env', f'PYTHONPATH={path}']
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,  # whoever kills the whole group of a test run leaves it alive, to end the others
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            pytest.fail(process.communicate(timeout=120)[1])
        yield Cluster(process, json.loads(line), death, documents)
    finally:
        process.communicate(timeout=120)


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """With both conductors alive."""
    running.whole()
    return running


def cleaning(
    cluster: Cluster,
    emulated_machine: Any,
    stage: str,
    number: signal.Signals,
    settings: dict[str, bool],
    flash_seconds: float = 1.0,
) -> Node:
    """A node whose cleaning flashes its one card, and meets a conductor's end at this stage."""
    machine = emulated_machine('gpu-server', gpus=1, flash_seconds=flash_seconds, reset_seconds=0.1, settings=settings)
    node = enrol_node(cluster.services, machine, 'flash')
    node.to('manage', 'manageable')
    machine.reset_log()
    cluster.death.at(stage, number)
    node.provision('provide')
    return node


def conductor_of(node: Node) -> str:
    """The host name of the conductor that Ironic gives a node to."""
    found: str = node.services.ironic.take('GET', f'{node.path}?fields=conductor')['conductor']
    return found


def percent(node: Node) -> int:
    """How far the BMC has come with what was sent to it; -1 before."""
    return max((task['percent'] for task in node.machine.truth()['bmcs']['host']['tasks'].values()), default=-1)


def powered_off(node: Node) -> int:
    """How often the host was."""
    return len([e for e in node.writes() if isinstance(e['body'], dict) and e['body'].get('ResetType') == 'ForceOff'])


WAYS_TO_STAND_STILL = [*((stage, CLOSED) for stage in STAGES), ('write', OPEN)]

if SOAK:

    @pytest.mark.parametrize('stage', STAGES)
    def test_another_conductor_finishes_what_a_killed_one_began(stage: str, cluster: Cluster, emulated_machine: Any) -> None:
        """SIGKILL in any stage, and it never comes back."""
        node = cleaning(cluster, emulated_machine, stage, signal.SIGKILL, CLOSED)
        killed = cluster.struck()
        finished(node, stage)
        assert not cluster.alive(killed)

    def test_a_killed_conductor_that_comes_back_leaves_the_node_in_peace(cluster: Cluster, emulated_machine: Any) -> None:
        """It is back, and counts again, while the card is still being written for the other one: one image is sent."""
        node = cleaning(cluster, emulated_machine, 'none', signal.SIGKILL, CLOSED, flash_seconds=60.0)
        wait(lambda: percent(node) >= 2, 'the card is written')
        host = conductor_of(node)
        name = next(name for name, its in cluster.hosts.items() if its == host)
        os.killpg(cluster.pids[name], signal.SIGKILL)
        wait(lambda: conductor_of(node) != host, 'the other one has the node')
        cluster.start(name)
        wait(lambda: conductor_of(node) == host, 'it has the node again')
        assert 0 <= percent(node) < 100, 'the card is not written any more'
        assert 'available' == node.settle()['provision_state']
        right(node)
        assert (1, 1) == (len(node.uploads()), powered_off(node))

    @pytest.mark.parametrize(('stage', 'settings'), WAYS_TO_STAND_STILL, ids=[*STAGES, 'write-at-open-locks'])
    def test_a_conductor_that_was_only_thought_dead_writes_nothing_when_it_goes_on(
        stage: str, settings: dict[str, bool], cluster: Cluster, emulated_machine: Any
    ) -> None:
        """SIGSTOP between storing an intent and acting on it; the other one finishes; SIGCONT: the node is not its own now."""
        node = cleaning(cluster, emulated_machine, stage, signal.SIGSTOP, settings)
        stopped = cluster.struck()
        finished(node, stage)
        assert not cluster.alive(stopped)
        before = node.machine.log()
        os.killpg(cluster.pids[stopped], signal.SIGCONT)
        wait(lambda: cluster.death.over, 'the turn in which it was stopped is over')
        wait(lambda: cluster.alive(stopped), 'it is back')
        node.settle()
        right(node)
        assert before == node.machine.log(), 'it wrote to a BMC'
        assert not node.show()['maintenance']

    def test_a_conductor_that_goes_on_while_the_other_one_writes_does_not_disturb_it(
        cluster: Cluster, emulated_machine: Any
    ) -> None:
        """It was about to power the host off, and the other one has done that and sent the image since."""
        node = cleaning(cluster, emulated_machine, 'hold', signal.SIGSTOP, CLOSED, flash_seconds=15.0)
        stopped = cluster.struck()
        wait(lambda: percent(node) >= 2, 'the other one writes')
        os.killpg(cluster.pids[stopped], signal.SIGCONT)
        wait(lambda: cluster.death.over, 'the turn in which it was stopped is over')
        assert 0 <= percent(node) < 100, 'the card is not written any more'
        assert 'available' == node.settle()['provision_state']
        right(node)
        assert (1, 1) == (len(node.uploads()), powered_off(node))

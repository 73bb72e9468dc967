# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A flavor whose function no region has gets a candidate a little later, without a person; a flood of failed boots is harmless.

Real Ironic, real placement, emulated machines, and ``pool watch`` as a process.
"""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest

from tests.cli.imported_once import Command
from tests.journey.api import Node, Services
from tests.journey.conftest import Enrol
from tests.journey.test_pools import AES, GZIP, Operator, claim, held

pytestmark = pytest.mark.journey

CLASS = 'CUSTOM_DEMAND'
"""Of the machines, as Nova calls Ironic's resource class demand."""

QUERY = f'resources={CLASS}:1&resources_ACC={AES}:1'

FLASH = 2
"""Seconds that a region takes to be programmed."""

MACHINES = 10 if os.environ.get('BAREMETAL_ACC_SOAK') else 3
"""With two regions each. ``make soak-flood`` has a thousand demands for twenty regions."""

PROGRAM = ('-m', 'baremetal_acc.cli.main')
ON_BUS = ('on_files.py', 'baremetal_acc.cli.main')

ON_FILES = """\
import collections, runpy, sys
from kombu.transport import filesystem
# What kombu's transport in memory has, and what oslo.messaging asks for.
filesystem.Channel.events = collections.defaultdict(set)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
"""
"""Runs a module with a message bus that is a folder: no RabbitMQ is needed to send through oslo.messaging."""

NOTIFY = """\
import json, sys
import oslo_messaging
from oslo_config import cfg
oslo_messaging.set_transport_defaults('nova')
conf = cfg.ConfigOpts()
conf([], project='nova', default_config_files=[])
transport = oslo_messaging.get_notification_transport(conf, url='kombu+filesystem://')
for heard in json.load(sys.stdin):
    topic = 'notifications' if heard['event_type'] == 'compute_task.build_instances' else 'versioned_notifications'
    notifier = oslo_messaging.Notifier(transport, heard['publisher_id'], driver='messagingv2', topics=[topic])
    notifier.error(heard['ctxt'], heard['event_type'], heard['payload'])
"""


@dataclass(kw_only=True)
class Watched(Operator):
    """An operator whose pool watch hears demands, and Nova's bus, which is a folder."""

    documents: Path

    def listen(self, **options: str) -> None:
        """Configure where demands come from, besides the folder."""
        conf = self.folder / 'acc.conf'
        text = conf.read_text().replace('[ironic]', f'catalogue = {self.documents}/catalogue.toml\n[ironic]', 1)
        conf.write_text(text + '[baremetal_acc_demand]\n' + ''.join(f'{k} = {v}\n' for k, v in options.items()))

    def listen_to_nova(self) -> None:
        """Let demands come from Nova, too."""
        self.listen(nova_transport_url='kombu+filesystem://')
        for name in ('data_in', 'data_out', 'control'):
            (self.folder / name).mkdir()
        (self.folder / 'on_files.py').write_text(ON_FILES)
        (self.folder / 'notify.py').write_text(NOTIFY)

    def notify(self, messages: Sequence[Any]) -> None:
        """Send these as Nova does, once somebody listens."""
        # They are in the folder until somebody listens, as they are in RabbitMQ once there is a queue.
        until(lambda: list((self.folder / 'control').iterdir()), 60, 'a queue')
        time.sleep(1)
        subprocess.run(
            [sys.executable, 'on_files.py', 'notify'],
            cwd=self.folder,
            input=json.dumps(messages),
            env=os.environ | {'PYTHONPATH': '.'},
            text=True,
            check=True,
            timeout=300,
            capture_output=True,
        )
        # A reader of this bus takes a file that is still being written, and loses its message: each arrives as a whole.
        for path in sorted((self.folder / 'data_out').iterdir()):
            path.replace(self.folder / 'data_in' / path.name)

    def watch(self, seconds: float, program: Sequence[str], said: TextIO) -> subprocess.Popen[str]:
        """Start ``pool watch``. What it says goes to a file: nobody reads it meanwhile, and a full pipe would stop it."""
        command = [sys.executable, *program, 'pool', 'watch', '--execute', '--interval', str(seconds)]
        return subprocess.Popen(
            [*command, '--config-file', 'acc.conf', '--pools', 'pools.toml'],
            cwd=self.folder,
            env={'PATH': os.environ['PATH'], 'HOME': str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            text=True,
        )

    def demands(self) -> list[Any]:
        """All demands, as ``pool demand list`` shows them."""
        return list(self.run('list')['demands'])

    def served(self, demand: str) -> Any:
        """A demand, once it is schedulable."""
        return next((d for d in self.demands() if (demand, 'schedulable') == (d['id'], d['state'])), None)

    def run(self, *arguments: str) -> Any:
        """Run ``pool demand ...`` and give its document."""
        command = ['pool', 'demand', *arguments, '--config-file', 'acc.conf', '-f', 'json']
        environ = {'PATH': os.environ['PATH'], 'HOME': str(self.folder)}
        pipes: dict[str, Any] = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE}
        with Command(command, cwd=self.folder, env=environ, **pipes) as process:
            out, err = process.communicate(timeout=60)
        assert 0 == process.returncode, err
        return json.loads(out)


@pytest.fixture
def watched(tmp_path: Path, services: Services, documents: Path) -> Watched:
    """With a folder of his own."""
    return Watched(folder=tmp_path, services=services, documents=documents)


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """What the condition is once it holds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f'{what}: not within {seconds} s'
        time.sleep(0.2)
    return found


def shelve(*nodes: Node, services: Services, of: str = CLASS) -> None:
    """Put machines on the shelf, and let their roots offer their own class as Nova does."""
    for node in nodes:
        node.provision('provide')
    services.placement.take('PUT', f'/resource_classes/{of}')
    for node in nodes:
        assert 'available' == node.settle()['provision_state']
        node.machine.reset_log()
        path = f'/resource_providers/{node.uuid}/inventories'
        body = services.placement.take('GET', path)
        body['inventories'] = {of: {'total': 1, 'reserved': 0, 'min_unit': 1, 'max_unit': 1, 'step_size': 1}}
        services.placement.take('PUT', path, body)


def candidates(services: Services, query: str = QUERY) -> list[Any]:
    """What a scheduler finds."""
    return services.placement.take('GET', f'/allocation_candidates?{query}')['allocation_requests']


@contextmanager
def watching(watched: Watched, *, seconds: float, program: Sequence[str] = PROGRAM) -> Iterator[Path]:
    """A pool watch that listens, and what it says, in a file."""
    said = watched.folder / 'said'
    with said.open('w') as stream:
        process = watched.watch(seconds, program, stream)
        try:
            until(lambda: 'watching the pools' in said.read_text(), 60, 'that it watches')
            yield said
        finally:
            process.terminate()
            process.wait(60)
    assert 0 == process.returncode, said.read_text()


def test_a_query_that_found_nothing_finds_a_candidate_later(enrol: Enrol, services: Services, watched: Watched) -> None:
    """The command tells it, a region is programmed, and the same query finds it; once claimed, no other one is programmed."""
    node = enrol('fpga-server', 'demand', parameters={'flash_seconds': FLASH})
    shelve(node, services=services)
    assert [] == candidates(services)
    watched.pools()
    watched.listen()
    with watching(watched, seconds=5) as told:
        begun = time.monotonic()
        [added] = watched.run('add', 'aes', '--resource-class', CLASS, '--id', 'req-7')['demands']
        assert ('req-7', 'aes', CLASS, 'waiting') == (added['id'], added['function'], added['resource_class'], added['state'])
        shown = until(lambda: watched.served('req-7'), FLASH + 60, 'that it is told as schedulable')
        # Who hears that asks in this moment.
        [found, *_] = candidates(services)
        assert time.monotonic() - begun < FLASH + 60
        assert 0 < shown['took_seconds'] < FLASH + 60
        assert shown['provider'] in found['allocations']
        assert 1 == len(node.uploads())

        # The scheduler takes it. His demand is over, and nothing more is done for it.
        claim(services, (node.uuid, CLASS), (shown['provider'], AES))
        until(lambda: ['taken'] == [d['state'] for d in watched.demands()], 30, 'that it is taken')
        time.sleep(6)
        assert 1 == len(node.uploads())
    assert 'demand req-7 for aes on nodes of class CUSTOM_DEMAND: schedulable after' in told.read_text()


BOOTS = (Path(__file__).parents[1] / 'nova' / 'notifications.json').read_text()


def test_a_boot_that_found_no_host_is_served(enrol: Enrol, services: Services, watched: Watched) -> None:
    """Nova's own notification, in both formats, through oslo.messaging: one region is programmed for the one instance."""
    node = enrol('fpga-server', 'demand', parameters={'flash_seconds': FLASH})
    shelve(node, services=services)
    query = f'resources={CLASS}:1&resources_ACC={AES}:1&in_tree={node.uuid}'
    assert [] == candidates(services, query)
    watched.pools()
    watched.listen_to_nova()
    boot = json.loads(BOOTS.replace('CUSTOM_BAREMETAL_GOLD', CLASS))['boots']['class']
    instance = boot[0]['payload']['instance_id']
    with watching(watched, seconds=5, program=ON_BUS):
        watched.notify(boot)
        shown = until(lambda: watched.served(instance), FLASH + 60, 'that it is told as schedulable')
        assert candidates(services, query)
        assert 0 < shown['took_seconds'] < FLASH + 60
        assert ('nova', boot[0]['payload']['instance_properties']['project_id']) == (shown['source'], shown['project'])
        assert 1 == len(watched.demands())
        assert 1 == len(node.uploads())


def failed_boots(number: int) -> list[Any]:
    """Boots for either function in turn, ten of each project: more of one project would be refused."""
    boot = json.loads(BOOTS)['boots']['class'][0]
    instance, project = boot['payload']['instance_id'], boot['payload']['instance_properties']['project_id']
    text = json.dumps(boot).replace('CUSTOM_BAREMETAL_GOLD', 'CUSTOM_FLOOD')
    return [
        json.loads(
            text.replace(instance, str(uuid.uuid4())).replace(project, f'{n // 10:032x}').replace(AES, (AES, GZIP)[n % 2])
        )
        for n in range(number)
    ]


def test_a_flood_programs_each_region_once(enrol: Enrol, services: Services, watched: Watched) -> None:
    """Boots for two functions, fifty times as many as there are regions: one upload for each region, and then quiet."""
    regions, flood = 2 * MACHINES, 100 * MACHINES
    nodes = [enrol('fpga-server', 'flood', parameters={'flash_seconds': 0.2}) for _ in range(MACHINES)]
    shelve(*nodes, services=services, of='CUSTOM_FLOOD')
    assert [[None, None]] * MACHINES == [held(n) for n in nodes]
    watched.pools('machines_at_a_time = 10')
    watched.listen_to_nova()
    with watching(watched, seconds=2, program=ON_BUS):
        watched.notify(failed_boots(flood))
        until(lambda: flood == len(watched.demands()), 300, 'that all are told')
        until(lambda: regions == sum(len(n.uploads()) for n in nodes), 300, 'an upload for each region')
        until(lambda: regions == sum(d['state'] == 'schedulable' for d in watched.demands()), 300, 'each on offer')
        # Whoever has it may claim it: the others are not served by taking it away from them.
        time.sleep(5)
        assert regions == sum(len(n.uploads()) for n in nodes)
        states = [d['state'] for d in watched.demands()]
        assert (flood, regions, flood - regions) == (len(states), states.count('schedulable'), states.count('waiting'))
        assert {'aes', 'gzip'} == {f for n in nodes for f in held(n)}

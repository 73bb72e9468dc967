# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A query that found nothing finds a candidate a little later, without a person; and a flood of such queries does not hurt.

Real Ironic, real placement, emulated machines, and ``pool watch`` as a process.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest

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
    """An operator whose pool watch listens."""

    documents: Path
    token: str = '0123456789abcdef0123456789abcdef'
    port: int = 0

    def listen(self, **options: str) -> None:
        """Configure where demands come from."""
        with socket.create_server(('127.0.0.1', 0)) as free:
            self.port = free.getsockname()[1]
        path = self.folder / 'demand.token'
        path.write_text(self.token)
        path.chmod(0o600)
        lines = {'http_listen': f'127.0.0.1:{self.port}', 'http_token_file': str(path)} | options
        conf = self.folder / 'acc.conf'
        text = conf.read_text().replace('[ironic]', f'catalogue = {self.documents}/catalogue.toml\n[ironic]', 1)
        conf.write_text(text + '[baremetal_acc_demand]\n' + ''.join(f'{k} = {v}\n' for k, v in lines.items()))

    def watch(self, seconds: float, program: Sequence[str], said: TextIO) -> subprocess.Popen[str]:
        """Start ``pool watch``. What it says goes to a file: nobody reads it meanwhile, and a full pipe would stop it."""
        command = [sys.executable, *program, 'pool', 'watch', '--interval', str(seconds)]
        return subprocess.Popen(
            [*command, '--config-file', 'acc.conf', '--pools', 'pools.toml'],
            cwd=self.folder,
            env={'PATH': os.environ['PATH'], 'HOME': str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            text=True,
        )

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Ask the hook."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f'http://127.0.0.1:{self.port}{path}', data, method=method)
        request.add_header('Authorization', f'Bearer {self.token}')
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as exc:
            return exc.code, json.load(exc)

    def state(self, demand: str) -> Any:
        """A demand, as the hook shows it."""
        [found] = self.ask('GET', f'/v1/demands?id={demand}')[1]['demands']
        return found

    def run(self, *arguments: str) -> Any:
        """Run ``pool demand ...`` and give its document."""
        command = [sys.executable, '-m', 'baremetal_acc.cli.main', 'pool', 'demand', *arguments]
        done = subprocess.run(
            [*command, '--config-file', 'acc.conf', '-f', 'json'],
            cwd=self.folder,
            env={'PATH': os.environ['PATH'], 'HOME': str(self.folder)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout)


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
            until(lambda: answers(watched), 60, 'the hook')
            yield said
        finally:
            process.terminate()
            process.wait(60)
    assert 0 == process.returncode, said.read_text()


def test_a_query_that_found_nothing_finds_a_candidate_later(enrol: Enrol, services: Services, watched: Watched) -> None:
    """It is told to the hook, a region is programmed, and the same query finds it; once claimed, no other one is programmed."""
    node = enrol('fpga-server', 'demand', parameters={'flash_seconds': FLASH})
    shelve(node, services=services)
    assert [] == candidates(services)
    watched.pools()
    watched.listen()
    with watching(watched, seconds=5) as told:
        begun = time.monotonic()
        status, answer = watched.ask('POST', '/v1/demands', {'id': 'req-7', 'query': f'/allocation_candidates?{QUERY}'})
        assert (202, [{'id': 'req-7', 'function': 'aes', 'resource_class': CLASS}]) == (status, answer['demands'])
        shown = until(lambda: served(watched, 'req-7'), FLASH + 60, 'that it is told as schedulable')
        # Who hears that asks in this moment.
        [found, *_] = candidates(services)
        assert time.monotonic() - begun < FLASH + 60
        assert 0 < shown['took_seconds'] < FLASH + 60
        assert shown['provider'] in found['allocations']
        [listed] = watched.run('list')['demands']
        assert ('req-7', 'schedulable', shown['took_seconds']) == (listed['id'], listed['state'], listed['took_seconds'])
        assert 1 == len(node.uploads())

        # The scheduler takes it. His demand is over, and nothing more is done for it.
        claim(services, (node.uuid, CLASS), (shown['provider'], AES))
        until(lambda: 'taken' == watched.state('req-7')['state'], 30, 'that it is taken')
        time.sleep(6)
        assert 1 == len(node.uploads())
    said = told.read_text()
    assert 'demand req-7 for aes on machines of class CUSTOM_DEMAND: told by http' in said
    assert 'demand req-7 for aes on machines of class CUSTOM_DEMAND: schedulable after' in said


def answers(watched: Watched) -> bool:
    """Somebody is at home."""
    try:
        return watched.ask('GET', '/v1/health') == (200, {'status': 'ok'})
    except OSError:
        return False


def served(watched: Watched, demand: str) -> Any:
    """A demand, once it is schedulable; of one that was heard by nobody yet there is nothing."""
    found = watched.ask('GET', f'/v1/demands?id={demand}')[1]['demands']
    return found[0] if found and found[0]['state'] == 'schedulable' else None


def test_a_boot_that_found_no_host_is_served(enrol: Enrol, services: Services, watched: Watched) -> None:
    """Nova's own notification, in both formats, through oslo.messaging: one region is programmed for the one instance."""
    node = enrol('fpga-server', 'demand', parameters={'flash_seconds': FLASH})
    shelve(node, services=services)
    query = f'resources={CLASS}:1&resources_ACC={AES}:1&in_tree={node.uuid}'
    assert [] == candidates(services, query)
    watched.pools()
    watched.listen(nova_transport_url='kombu+filesystem://')
    for name in ('data', 'control'):
        (watched.folder / name).mkdir()
    for name in ('data_in', 'data_out'):
        (watched.folder / name).symlink_to('data')
    (watched.folder / 'on_files.py').write_text(ON_FILES)
    (watched.folder / 'notify.py').write_text(NOTIFY)
    recorded = (Path(__file__).parents[1] / 'nova' / 'notifications.json').read_text()
    boot = json.loads(recorded.replace('CUSTOM_BAREMETAL_GOLD', CLASS))['boots']['class']
    instance = boot[0]['payload']['instance_id']
    with watching(watched, seconds=5, program=('on_files.py', 'baremetal_acc.cli.main')):
        # It is in the folder until somebody listens, as it is in RabbitMQ once there is a queue.
        until(lambda: list((watched.folder / 'control').iterdir()), 60, 'a queue')
        time.sleep(1)
        begun = time.monotonic()
        subprocess.run(
            [sys.executable, 'on_files.py', 'notify'],
            cwd=watched.folder,
            input=json.dumps(boot),
            env=os.environ | {'PYTHONPATH': '.'},
            text=True,
            check=True,
            timeout=60,
            capture_output=True,
        )
        shown = until(lambda: served(watched, instance), FLASH + 60, 'that it is told as schedulable')
        assert candidates(services, query)
        assert time.monotonic() - begun < FLASH + 60
        assert 0 < shown['took_seconds'] < FLASH + 60
        assert ('nova', boot[0]['payload']['instance_properties']['project_id']) == (shown['source'], shown['project'])
        assert 1 == len(watched.ask('GET', '/v1/demands')[1]['demands'])
        assert 1 == len(node.uploads())


def test_a_flood_programs_each_region_once(enrol: Enrol, services: Services, watched: Watched) -> None:
    """Demands for two functions, fifty times as many as there are regions: one upload for each region, and then quiet."""
    regions, flood = 2 * MACHINES, 100 * MACHINES
    nodes = [enrol('fpga-server', 'flood', parameters={'flash_seconds': 0.2}) for _ in range(MACHINES)]
    shelve(*nodes, services=services, of='CUSTOM_FLOOD')
    query = QUERY.replace(CLASS, 'CUSTOM_FLOOD')
    assert [[None, None]] * MACHINES == [held(n) for n in nodes]
    watched.pools('machines_at_a_time = 10')
    watched.listen()
    with watching(watched, seconds=2):
        for n in range(flood):
            body = {'id': f'req-{n}', 'query': query if n % 2 else query.replace(AES, GZIP)}
            while (status := watched.ask('POST', '/v1/demands', body)[0]) == 429:
                time.sleep(0.2)
            assert 202 == status
        until(lambda: regions == sum(len(n.uploads()) for n in nodes), 300, 'an upload for each region')
        until(lambda: regions == sum(d['state'] == 'schedulable' for d in demands(watched)), 300, 'each on offer')
        # Whoever has it may claim it: the others are not served by taking it away from them.
        time.sleep(5)
        assert regions == sum(len(n.uploads()) for n in nodes)
        states = [d['state'] for d in demands(watched)]
        assert (flood, regions, flood - regions) == (len(states), states.count('schedulable'), states.count('waiting'))
        assert {'aes', 'gzip'} == {f for n in nodes for f in held(n)}


def demands(watched: Watched) -> list[Any]:
    """All of them."""
    return list(watched.ask('GET', '/v1/demands')[1]['demands'])

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A pool is filled by the command, with the real Ironic and placement; no claim is touched, and nothing stays withdrawn."""

import json
import os
import sqlite3
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.imported_once import Command
from tests.cli.test_schemas import closed
from tests.journey.api import Node, Services
from tests.journey.conftest import Enrol

pytestmark = pytest.mark.journey

AES, GZIP = 'CUSTOM_ACC_FN_AES', 'CUSTOM_ACC_FN_GZIP'

CONF = """\
[baremetal_acc]
poll_interval = 0.2
settle_timeout = 5
[ironic]
auth_type = none
endpoint_override = {ironic}
[placement]
auth_type = admin_token
endpoint = {placement}
endpoint_override = {placement}
token = admin
"""


SCHEMA = closed(json.loads((Path(__file__).parents[2] / 'doc/source/schemas/pool.json').read_text()))


@dataclass(kw_only=True)
class Operator:
    """Who has a pool file, and the command."""

    folder: Path
    services: Services
    kept: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        conf = CONF.format(ironic=self.services.ironic.base, placement=self.services.placement.base)
        (self.folder / 'acc.conf').write_text(conf)

    def pools(self, *lines: str) -> None:
        """The pool file."""
        (self.folder / 'pools.toml').write_text('\n'.join(['format = 1', *lines]) + '\n')

    def start(self, *arguments: str, program: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start ``pool ...``.

        :param program: a program of Python in place of the command, and its arguments.
        """
        environ = {k: v for k, v in os.environ.items() if k in ('PATH', 'LANG')} | {'HOME': str(self.folder)}
        command = ['pool', *arguments, '--config-file', 'acc.conf', '--pools', 'pools.toml']
        pipes: dict[str, Any] = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE}
        return Command([*program[1:], *command], cwd=self.folder, env=environ, program=(*program, None)[0], **pipes)

    def pool(self, *arguments: str, **more: Any) -> tuple[int, Any, str]:
        """Run ``pool ... -f json``: exit code, document, what it said."""
        process = self.start(*arguments, '-f', 'json', **more)
        out, err = process.communicate(timeout=120)
        document = json.loads(out) if out else None
        if document is not None:
            jsonschema.validate(document, SCHEMA)
        return process.returncode, document, err


@pytest.fixture
def operator(tmp_path: Path, services: Services) -> Operator:
    """With a folder of his own."""
    return Operator(folder=tmp_path, services=services)


def held(node: Node) -> list[str | None]:
    """What the slots really hold."""
    parts = node.machine.truth()['components']
    active = [parts[f'host/FPGA1_Slot{n}']['active'] for n in (0, 1)]
    return [None if a is None else a['function'] for a in active]


MEDDLING = str(Path(__file__).with_name('meddling.py'))


def claim(services: Services, *held: tuple[str, str]) -> str:
    """Claim one of each of these classes of these providers."""
    consumer = str(uuid.uuid4())
    services.placement.take('PUT', f'/allocations/{consumer}', claiming(*held))
    return consumer


def claiming(*held: tuple[str, str]) -> dict[str, Any]:
    """The body of such a claim."""
    allocations = {provider: {'resources': {name: 1}} for provider, name in held}
    owner = {'project_id': 'p', 'user_id': 'u', 'consumer_type': 'INSTANCE'}
    return {'allocations': allocations, 'consumer_generation': None} | owner


def free(services: Services, name: str, node: Node) -> bool:
    """A scheduler that looks for that class on the machine finds it."""
    query = f'resources=CUSTOM_BAREMETAL:1&resources_A={name}:1&in_tree={node.uuid}'
    return bool(services.placement.take('GET', f'/allocation_candidates?{query}')['allocation_requests'])


def inventories(services: Services, node: Node) -> dict[str, Any]:
    """Everything that the providers below a node offer, word for word."""
    tree = services.placement.take('GET', f'/resource_providers?in_tree={node.uuid}')['resource_providers']
    places = {p['uuid']: f'/resource_providers/{p["uuid"]}/inventories' for p in tree if p['uuid'] != node.uuid}
    return {place: services.placement.take('GET', path)['inventories'] for place, path in places.items()}


def offering(services: Services, node: Node, name: str) -> str:
    """The provider of a node that offers a class."""
    return next(place for place, found in inventories(services, node).items() if name in found)


def outcomes(document: Any) -> list[str]:
    """How the moves of a plan ended."""
    return [m['outcome'] for m in document['moves']]


def nothing_under_way(operator: Operator) -> bool:
    """No move is stored."""
    [path] = operator.folder.glob('.local/state/baremetal-acc/pool/moves.sqlite')
    with closing(sqlite3.connect(path)) as db:
        return not db.execute('SELECT 1 FROM move').fetchall()


@pytest.fixture
def stocked(enrol: Enrol) -> Node:
    """A machine on the shelf with gzip in one region and aes in the other."""
    node = enrol('fpga-server', 'functions', parameters={'flash_seconds': 0.2})
    node.to('provide', 'available')
    assert ['gzip', 'aes'] == held(node)
    node.machine.reset_log()
    return node


def test_a_pool_is_filled_and_what_is_claimed_is_left_alone(enrol: Enrol, services: Services, operator: Operator) -> None:
    """Machine after machine, no more at a time than the file says; the machine that somebody has claimed sees no upload."""
    nodes = [enrol('fpga-server', 'pools', parameters={'flash_seconds': 0.2}) for _ in range(3)]
    for node in nodes:
        node.provision('provide')
    for node in nodes:
        assert 'available' == node.settle()['provision_state']
        node.machine.reset_log()
    tenants, *others = nodes
    claim(services, (tenants.uuid, 'CUSTOM_BAREMETAL'))
    limit, goal = 'machines_at_a_time = 1', ('[[pool]]', 'function = "aes"', 'resource_class = "pools"')
    operator.pools(limit, *goal, 'free = 2')

    code, document, said = operator.pool('plan')
    assert (3, 1) == (code, len(document['moves'])), said
    [busy] = [m['busy'] for m in document['machines'] if m['name'] == tenants.name]
    assert 'CUSTOM_BAREMETAL' in busy
    code, applied, said = operator.pool('apply')
    assert (3, document) == (code, applied), said
    assert 'dry run: nothing was written; --execute does it' in said
    assert [[None, None]] * 3 == [held(n) for n in nodes], 'neither a plan nor a dry run does anything'

    code, document, said = operator.pool('apply', '--execute')
    assert (0, ['done']) == (code, outcomes(document)), said
    done = next(n for n in others if held(n) == ['aes', 'aes'])
    assert [AES, AES] == done.offers()
    assert free(services, AES, done)
    code, document, _ = operator.pool('apply', '--execute')
    assert (0, []) == (code, document['moves']), 'it has its goal'

    # The watch goes on by itself, whatever the file becomes.
    process = operator.start('watch', '--execute', '--interval', '0.3')
    operator.pools(limit, *goal, 'free = 6')
    last = next(n for n in others if n is not done)
    done_then = f'{last.name}: done: '
    said = ''
    try:
        last.until_offers(AES, AES)
        for line in process.stderr or ():
            said += line
            if line.startswith(f'baremetal-acc: {last.name}: done') or 'failed' in line or 'left alone' in line:
                break
    finally:
        process.terminate()
        said += process.communicate(timeout=60)[1]
    assert 0 == process.returncode, said
    assert 'pool pool-1: 2 aes missing: every suitable node is claimed or busy' in said
    assert done_then in said
    assert ([], [None, None]) == (tenants.uploads(), held(tenants))
    assert [2, 2] == [len(n.uploads()) for n in others]
    assert nothing_under_way(operator)


def test_a_claim_that_comes_in_between_cancels_the_move(stocked: Node, services: Services, operator: Operator) -> None:
    """All or nothing: what was offered is offered exactly as it was, no card was touched, and the claim holds."""
    before = inventories(services, stocked)
    operator.pools('[[pool]]', 'function = "aes"', 'free = 2', 'resource_class = "functions"')
    region, machine = (offering(services, stocked, GZIP), GZIP), (stocked.uuid, 'CUSTOM_BAREMETAL')
    for moment, what, told in (
        ('before:withdraw', region, 'was just claimed'),
        ('before:withdraw', machine, 'the node was claimed during the move'),
        ('after:withdraw', machine, 'the node was claimed during the move'),
        ('after:manage', machine, 'requested provision state available: the node was claimed during the move'),
    ):
        consumer = f'/allocations/{uuid.uuid4()}'
        deed = json.dumps({f'{services.placement.base}{consumer}': claiming(what)})
        code, document, said = operator.pool('apply', '--execute', program=(MEDDLING, moment, deed))
        assert 'meddled: 204' in said
        assert (3, ['cancelled']) == (code, outcomes(document)), said
        assert told in said
        assert before == inventories(services, stocked)
        assert ('available', [], ['gzip', 'aes']) == (stocked.show()['provision_state'], stocked.uploads(), held(stocked))
        assert [what[0]] == list(services.placement.take('GET', consumer)['allocations'])
        assert nothing_under_way(operator)
        services.placement.take('DELETE', consumer)


def test_whenever_it_is_killed_the_next_call_brings_the_machine_back(
    stocked: Node, services: Services, operator: Operator
) -> None:
    """Before and after everything that it does: nothing stays withdrawn, and no image is sent twice."""
    operator.pools('[[pool]]', 'function = "aes"', 'free = 2', 'resource_class = "functions"')
    for act in ('withdraw', 'put_back', 'manage', 'clean', 'provide'):
        for moment in ('before', 'after'):
            if (moment, act) == ('before', 'put_back'):
                before = operator.pool('apply', '--execute', program=(MEDDLING, 'after:withdraw', 'kill'))
                assert -9 == before[0], before
            code, _, said = operator.pool('apply', '--execute', program=(MEDDLING, f'{moment}:{act}', 'kill'))
            assert -9 == code, (act, moment, said)
            assert not nothing_under_way(operator)
    code, document, said = operator.pool('apply', '--execute')
    assert (0, ['done']) == (code, [m['outcome'] for m in document['resumed']]), said
    assert ([AES, AES], ['aes', 'aes']) == (stocked.offers(), held(stocked))
    assert 1 == len(stocked.uploads())
    assert nothing_under_way(operator)


def test_a_machine_whose_cleaning_fails_is_left_to_a_person(stocked: Node, services: Services, operator: Operator) -> None:
    """What Ironic says of it is told; it is not touched again, and nothing of it is on offer until somebody has looked."""
    stocked.machine.fault('task-fails', device='FPGA1')
    operator.pools('[[pool]]', 'function = "aes"', 'free = 2', 'resource_class = "functions"')
    code, document, said = operator.pool('apply', '--execute')
    assert (6, ['failed']) == (code, outcomes(document)), said
    [move] = document['moves']
    assert 'The device refused the image' in move['reason']
    assert 'the pools leave the node alone until an operator has repaired it' in move['reason']
    assert [] == stocked.offers()
    sent = len(stocked.uploads())
    code, document, said = operator.pool('apply', '--execute')
    assert (3, []) == (code, document['moves']), said
    [busy] = [m['busy'] for m in document['machines'] if m['name'] == stocked.name]
    assert 'clean failed' in busy
    assert sent == len(stocked.uploads())
    assert nothing_under_way(operator)

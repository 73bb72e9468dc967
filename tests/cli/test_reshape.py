# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The command moves flat inventory to nested providers and back, in a real placement, with a tenant on the node."""

import json
import uuid
from typing import Any

import jsonschema
import pytest
import requests

from tests.cli.desk import CONF, target_of
from tests.cli.test_schemas import closed

SECONDS = 30
GOLD = 'CUSTOM_GOLD'
BASELINE = 'format = 1\n[[rule]]\nblock = ["host-device"]\n'


def call(placement: str, method: str, path: str, body: object = None) -> Any:
    headers = {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.37'}
    answer = requests.request(method, f'{placement}{path}', json=body, headers=headers, timeout=SECONDS)
    assert answer.status_code < 400, answer.text
    return answer.json() if answer.content else None


def flat_node(placement: str, classes: dict[str, int]) -> str:
    """A node as Nova makes it, with what provider.yaml adds to its root."""
    node = str(uuid.uuid4())
    call(placement, 'POST', '/resource_providers', {'uuid': node, 'name': node})
    for name in classes:
        if name.startswith('CUSTOM_'):
            call(placement, 'PUT', f'/resource_classes/{name}')
    offers = {name: {'total': n, 'max_unit': n} for name, n in classes.items()}
    call(
        placement, 'PUT', f'/resource_providers/{node}/inventories', {'resource_provider_generation': 0, 'inventories': offers}
    )
    return node


def tenant(placement: str, node: str, resources: dict[str, int]) -> str:
    """An instance on the node."""
    consumer = str(uuid.uuid4())
    body = {'allocations': {node: {'resources': resources}}, 'project_id': 'p', 'user_id': 'u', 'consumer_generation': None}
    call(placement, 'PUT', f'/allocations/{consumer}', body)
    return consumer


def offers(placement: str, node: str) -> tuple[dict[str, int], list[dict[str, int]]]:
    """What the root offers, and what the providers below it do."""
    tree = call(placement, 'GET', f'/resource_providers?in_tree={node}')['resource_providers']
    found = {
        p['uuid']: {
            name: i['total']
            for name, i in call(placement, 'GET', f'/resource_providers/{p["uuid"]}/inventories')['inventories'].items()
        }
        for p in tree
    }
    return found.pop(node), sorted(found.values(), key=str)


def holds(placement: str, consumer: str, node: str) -> tuple[dict[str, int], list[dict[str, int]]]:
    """What an instance holds of the root, and of other providers."""
    found = {p: a['resources'] for p, a in call(placement, 'GET', f'/allocations/{consumer}')['allocations'].items()}
    return found.pop(node, {}), list(found.values())


@pytest.fixture
def validate(tree):
    """Check a document against its schema, with no key too many."""
    schema = closed(json.loads((tree / 'doc/source/schemas/reshape.json').read_text()))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).validate


@pytest.fixture
def prepared(desk, emulated_machine, placement):
    """A locked machine with two GPUs and an FPGA, and a desk that knows its node."""
    machine = emulated_machine('acc-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', BASELINE)
    desk.write('acc.conf', CONF + f'\n[placement]\nauth_type = admin_token\nendpoint = {placement}\ntoken = admin\n')
    locked = desk.run('lock', '--execute', *desk.options)
    assert 0 == locked.code, locked.err

    def node(classes: dict[str, int]) -> str:
        found = flat_node(placement, {GOLD: 1} | classes)
        desk.bmcs({'node-1': target_of(machine) | {'node': found}})
        return found

    return node


def test_there_and_back_with_a_tenant(desk, prepared, placement, validate):
    """plan says what apply does; apply does it once; and --back undoes it without asking a BMC."""
    node = prepared({'PGPU': 2})
    instance = tenant(placement, node, {GOLD: 1, 'PGPU': 2})

    planned = desk.run('reshape', 'plan', '-f', 'json', *desk.options)
    assert 3 == planned.code, planned.err
    validate(planned.document)
    assert 'dry run: nothing was written; reshape apply --execute does it' in planned.err
    body = planned.document['targets'][0]
    assert [('PGPU', 'PGPU', 2, 2, 2)] == [
        (m['resource_class'], m['becomes'], m['before'], m['after'], m['claimed']) for m in body['moves']
    ]
    assert (False, [GOLD], 2) == (body['executed'], body['stays'], len(body['claims']))
    assert ({GOLD: 1, 'PGPU': 2}, []) == offers(placement, node)

    dry = desk.run('reshape', 'apply', '-f', 'json', *desk.options)
    assert (3, planned.document) == (dry.code, dry.document), dry.err
    assert 'dry run: nothing was written; --execute does it' in dry.err
    assert ({GOLD: 1, 'PGPU': 2}, []) == offers(placement, node)

    applied = desk.run('reshape', 'apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == applied.code, applied.err
    validate(applied.document)
    done = applied.document['targets'][0]
    assert (True, body['moves'], body['claims'], body['calls']) == (
        done['executed'],
        done['moves'],
        done['claims'],
        done['calls'],
    )
    assert 'remove PGPU from provider.yaml' in applied.err
    root, below = offers(placement, node)
    assert ({GOLD: 1}, 2) == (root, below.count({'PGPU': 1}))
    assert ({GOLD: 1}, 2 * [{'PGPU': 1}]) == holds(placement, instance, node)

    again = desk.run('reshape', 'apply', '--execute', '-f', 'json', *desk.options)
    assert (0, []) == (again.code, again.document['targets'][0]['moves'])

    desk.bmcs({'node-1': {'resource_class': 'gold', 'node': node, 'bmcs': {'host': {'address': 'https://127.0.0.1:9'}}}})
    back = desk.run('reshape', 'apply', '--execute', '--back', '--class', 'PGPU', '-f', 'json', *desk.options)
    assert 0 == back.code, back.err
    validate(back.document)
    assert 'publish = false' in back.err
    root, below = offers(placement, node)
    assert {GOLD: 1, 'PGPU': 2} == root
    assert all('PGPU' not in offered for offered in below)
    assert ({GOLD: 1, 'PGPU': 2}, []) == holds(placement, instance, node)


def test_what_is_refused_is_told_and_not_done(desk, prepared, placement, validate):
    """More was claimed than there are GPUs, and the node's own class is no class of devices."""
    node = prepared({'PGPU': 3})
    instance = tenant(placement, node, {'PGPU': 3})
    before = offers(placement, node)

    planned = desk.run('reshape', 'plan', '-f', 'json', *desk.options)
    assert 4 == planned.code, planned.err
    validate(planned.document)
    assert '3 PGPU of the root are claimed' in planned.errors[0]
    assert instance in planned.errors[0]

    applied = desk.run('reshape', 'apply', '--execute', '-f', 'json', *desk.options)
    assert 4 == applied.code, applied.err
    validate(applied.document)
    assert planned.document['targets'][0]['refusals'] == applied.document['targets'][0]['refusals']
    assert 1 == len(applied.errors)
    assert before == offers(placement, node)

    own = desk.run('reshape', 'plan', '--class', f'{GOLD}=PGPU', *desk.options)
    assert 4 == own.code
    assert 'is the resource class of the node itself' in own.errors[0]


def test_an_operators_class_by_its_word(desk, prepared, placement):
    """A table for people; a class that the root has not is told."""
    node = prepared({'CUSTOM_BIG_GPU': 2, 'PGPU': 1})
    instance = tenant(placement, node, {'CUSTOM_BIG_GPU': 1})
    options = ('--class', 'CUSTOM_BIG_GPU=PGPU:CUSTOM_ACC_GPU', *desk.options)
    planned = desk.run('reshape', 'plan', '--class', 'CUSTOM_OTHER', *options)
    assert 3 == planned.code, planned.err
    assert 'its root provider has no CUSTOM_OTHER' in planned.err
    assert 'CUSTOM_BIG_GPU 2 -> PGPU 2 (root -> devices), 1 claimed' in planned.out
    assert 0 == desk.run('reshape', 'apply', '--execute', *options).code
    assert ({}, [{'PGPU': 1}]) == holds(placement, instance, node)
    assert {GOLD: 1, 'PGPU': 1} == offers(placement, node)[0]


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (('--class', 'gpu'), ('--class', 'FLAT=NESTED:TRAIT')),
        (('--class', 'PGPU', '--class', 'PGPU=FPGA'), ('--class PGPU', 'twice')),
    ],
)
def test_a_class_that_is_none_is_told(desk, arguments, words):
    """Before anything is asked."""
    done = desk.run('reshape', 'plan', *arguments)
    assert 2 == done.code
    assert all(word in done.errors[0] for word in words)


def test_a_target_without_a_node_is_told(desk, prepared, served):
    """There is nothing to look for in placement."""
    prepared({})
    desk.bmcs({'node-1': target_of(served)})
    for arguments in (('plan',), ('apply', '--back')):
        done = desk.run('reshape', *arguments, *desk.options)
        assert 2 == done.code
        assert 'has no node' in done.errors[0]

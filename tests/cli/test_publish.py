# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Publishing from the command line, to a real placement over HTTP."""

import shutil
import uuid

import requests

from tests.cli.desk import CONF, target_of

NODE = '0d7f3c55-9f7b-4d7f-8a43-4c2f7f3b9a01'

INSTANCE = '5e0d3c0a-6f2e-4b7a-9c7d-1a2b3c4d5e6f'

SECONDS = 30


def call(placement: str, method: str, path: str, body: object = None) -> requests.Response:
    headers = {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.37'}
    return requests.request(method, f'{placement}{path}', json=body, headers=headers, timeout=SECONDS)


def make_root(placement: str) -> None:
    """As Nova does it: uuid, name and node are the same."""
    assert call(placement, 'POST', '/resource_providers', {'uuid': NODE, 'name': NODE}).status_code == 200


def offered(placement: str) -> set[str]:
    """Resource classes that the tree below the node offers."""
    providers = call(placement, 'GET', f'/resource_providers?in_tree={NODE}').json()['resource_providers']
    found: set[str] = set()
    for provider in providers:
        found |= set(call(placement, 'GET', f'/resource_providers/{provider["uuid"]}/inventories').json()['inventories'])
    return found


def reserved(placement: str, provider: str) -> dict[str, int]:
    """What of each class of a provider nobody may claim."""
    found = call(placement, 'GET', f'/resource_providers/{provider}/inventories').json()['inventories']
    return {name: i['reserved'] for name, i in found.items()}


def having(placement: str, node: str, resource_class: str) -> list[str]:
    """The providers of a node that offer a class."""
    found = call(placement, 'GET', f'/resource_providers?in_tree={node}').json()['resource_providers']
    return [p['uuid'] for p in found if resource_class in reserved(placement, p['uuid'])]


def test_publish_withdraw_and_publish_again(desk, emulated_machine, placement):
    """A dry run sends nothing; apply publishes what holds; an unlock withdraws it, and a lock brings it back."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nblock = ["host-device"]\nfunctions = { Slot0 = "gzip" }\n')
    desk.write('acc.conf', CONF + f'\n[placement]\nauth_type = admin_token\nendpoint = {placement}\ntoken = admin\n')
    target = target_of(machine) | {'node': NODE}
    desk.bmcs({'node-1': target})

    without_root = desk.run('publish', '--execute', *desk.options)
    assert 4 == without_root.code
    assert NODE in without_root.errors[0]

    make_root(placement)
    dry = desk.run('publish', '-f', 'json', *desk.options)
    assert 3 == dry.code, dry.err
    assert dry.document['targets'][0]['calls']
    assert set() == offered(placement)

    why = desk.run('publish', '--why', '-f', 'json', *desk.options)
    assert 3 == why.code, why.err
    devices = why.document['targets'][0]['devices']
    found = [(d['device'].partition(' of ')[0], [o['resource_class'] for o in d['offers']], d['why']) for d in devices]
    assert ['Slot0', 'Slot1'] == [label for label, _, _ in found[1:]]
    assert [[], [], []] == [offers for _, offers, _ in found]
    assert 'function Slot0: expected gzip' in found[0][2]
    assert 'its card does not meet the rules' == found[1][2]
    table = desk.run('publish', '--why', *desk.options)
    assert 3 == table.code
    assert 'function Slot0: expected gzip' in table.out
    assert 2 == desk.run('publish', '--why', '--execute', *desk.options).code
    assert set() == offered(placement)

    applied = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == applied.code, applied.err
    actions = [a['action'] for a in applied.document['targets'][0]['actions']]
    assert ('withdraw', 'publish') == (actions[0], actions[-1])
    assert {'CUSTOM_ACC_FN_GZIP'} == offered(placement)
    again = desk.run('publish', '-f', 'json', *desk.options)
    assert (0, []) == (again.code, again.document['targets'][0]['calls'])
    slot = again.document['targets'][0]['devices'][1]
    assert [{'resource_class': 'CUSTOM_ACC_FN_GZIP', 'total': 1}] == slot['offers']
    assert 'it holds gzip: offer = "function" of rule default' == slot['why']

    assert 0 == desk.run('unlock', '--execute', *desk.options).code
    assert set() == offered(placement)
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    assert 0 == desk.run('publish', '--execute', *desk.options).code
    assert {'CUSTOM_ACC_FN_GZIP'} == offered(placement)
    # The deny list of the catalogue withdraws it, and keeps it withdrawn until the entry is gone.
    catalogue = (desk.folder / 'catalogue.toml').read_text()
    denial = '\n[[deny]]\nreason = "CVE-2026-0001"\ncomponent = "Slot*"\nversion = "3.1"\n'
    desk.write('catalogue.toml', catalogue + denial)
    for _ in range(2):
        assert 0 == desk.run('publish', '--execute', *desk.options).code
        assert set() == offered(placement)
    why = desk.run('publish', '--why', '-f', 'json', *desk.options)
    assert 'denied: CVE-2026-0001' in why.document['targets'][0]['devices'][0]['why']
    desk.write('catalogue.toml', catalogue)
    assert 0 == desk.run('publish', '--execute', *desk.options).code
    assert {'CUSTOM_ACC_FN_GZIP'} == offered(placement)
    # A flavor may name any function of the catalogue from now on.
    assert 204 == call(placement, 'GET', '/traits/CUSTOM_ACC_CAN_AES').status_code
    assert 200 == call(placement, 'GET', '/resource_classes/CUSTOM_ACC_FN_AES').status_code

    # As beside Ironic: who has engaged the locks was not this command, and what they prove it does not know.
    [slot_provider] = having(placement, NODE, 'CUSTOM_ACC_FN_GZIP')
    path = f'/resource_providers/{slot_provider}/inventories/CUSTOM_ACC_FN_GZIP'
    by_hand = call(placement, 'GET', path).json() | {'reserved': 1}
    assert 200 == call(placement, 'PUT', path, by_hand).status_code
    told = desk.run('publish', *desk.options)
    assert (3, False) == (told.code, 'conductors' in told.err), told.err
    assert f'1 of 1 CUSTOM_ACC_FN_GZIP of provider {NODE}_ACC_' in told.err
    assert 'stays reserved, as an operator has set it' in told.err
    done = desk.run('publish', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    [kept] = done.document['targets'][0]['reserved']
    assert (slot_provider, 'CUSTOM_ACC_FN_GZIP', 1, 1) == tuple(
        kept[k] for k in ('provider', 'resource_class', 'total', 'reserved')
    )
    assert {'CUSTOM_ACC_FN_GZIP': 1} == reserved(placement, slot_provider)
    shutil.rmtree(desk.folder / 'state')
    beside = desk.run('publish', *desk.options)
    assert 3 == beside.code, beside.err
    assert 'node-1: --execute would withdraw devices whose locks are locked-reported' in beside.err
    assert {'CUSTOM_ACC_FN_GZIP'} == offered(placement)


def test_of_a_machine_that_somebody_has_nothing_is_offered(desk, emulated_machine, placement):
    """Ironic has withdrawn what its tenant has not claimed, and reserved the rest: neither comes back by this command."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    functions = '{ Slot0 = "gzip", Slot1 = "aes" }'
    desk.write('baseline.toml', f'format = 1\n[[rule]]\nblock = ["host-device"]\nfunctions = {functions}\n')
    conf = f'{CONF}claims_timeout = 1\n[placement]\nauth_type = admin_token\nendpoint = {placement}\ntoken = admin\n'
    desk.write('acc.conf', conf)
    node = str(uuid.uuid4())
    desk.bmcs({'node-1': target_of(machine) | {'node': node}})
    call(placement, 'POST', '/resource_providers', {'uuid': node, 'name': node})
    call(placement, 'PUT', '/resource_classes/CUSTOM_GOLD')
    machines = {'CUSTOM_GOLD': {'total': 1}}
    call(
        placement,
        'PUT',
        f'/resource_providers/{node}/inventories',
        {'resource_provider_generation': 0, 'inventories': machines},
    )
    assert 0 == desk.run('apply', '--execute', *desk.options).code
    [region] = having(placement, node, 'CUSTOM_ACC_FN_GZIP')
    [other] = having(placement, node, 'CUSTOM_ACC_FN_AES')
    claims = {node: {'resources': {'CUSTOM_GOLD': 1}}, region: {'resources': {'CUSTOM_ACC_FN_GZIP': 1}}}
    body = {'allocations': claims, 'project_id': 'p', 'user_id': 'u', 'consumer_generation': None}
    assert 204 == call(placement, 'PUT', f'/allocations/{INSTANCE}', body).status_code

    dry = desk.run('publish', '-f', 'json', *desk.options)
    texts = [c['text'] for c in dry.document['targets'][0]['calls']]
    assert (3, 3) == (dry.code, len(texts)), 'the third one: we reserve something'
    assert any(t.endswith('remove all inventory') for t in texts)
    assert any(t.endswith('set inventory CUSTOM_ACC_FN_GZIP 1 (1 reserved)') for t in texts)
    done = desk.run('publish', '--execute', *desk.options)
    assert 0 == done.code, done.err
    assert f'node {node} is claimed by {INSTANCE}: its devices are withdrawn; what is allocated' in done.err
    assert {'CUSTOM_ACC_FN_GZIP': 1} == reserved(placement, region)
    assert {} == reserved(placement, other)
    assert 0 == desk.run('publish', *desk.options).code

    assert 204 == call(placement, 'DELETE', f'/allocations/{INSTANCE}').status_code
    ended = desk.run('publish', '--execute', *desk.options)
    assert 0 == ended.code, ended.err
    assert f'this ended the reservation of CUSTOM_ACC_FN_GZIP of provider {node}_ACC_' in ended.err
    assert {'CUSTOM_ACC_FN_GZIP': 0} == reserved(placement, region)
    assert {'CUSTOM_ACC_FN_AES': 0} == reserved(placement, other)

    # Somebody has the machine, and none of its slots: they are offered as what they hold, and keep it.
    body['allocations'] = {node: claims[node]}
    assert 204 == call(placement, 'PUT', f'/allocations/{INSTANCE}', body).status_code
    planned = desk.run('program', '--slot', 'Slot1=gzip', *desk.options)
    assert 3 == planned.code, planned.err
    assert 'a function other than the one that it is claimed as' in ' '.join(planned.out.split())
    machine.reset_log()
    refused = desk.run('program', '--slot', 'Slot1=gzip', '--execute', *desk.options)
    assert 4 == refused.code, refused.err
    assert (
        f'only while nothing of the node is claimed: provider {node} is held: CUSTOM_GOLD by consumer {INSTANCE}' in refused.err
    )
    assert [] == [e for e in machine.log() if isinstance(e['body'], dict) and 'Targets' in e['body']]
    assert ({}, {}) == (reserved(placement, region), reserved(placement, other))
    assert 204 == call(placement, 'DELETE', f'/allocations/{INSTANCE}').status_code
    done = desk.run('program', '--slot', 'Slot1=gzip', '--execute', *desk.options)
    assert 0 == done.code, done.err
    assert {'CUSTOM_ACC_FN_GZIP': 0} == reserved(placement, region) == reserved(placement, other)


def test_a_placement_that_is_not_there_is_code_five(desk, emulated_machine):
    """Nothing answers at the endpoint: unreachable, in one line without the token."""
    machine = emulated_machine('fpga-server')
    desk.prepare(machine)
    desk.write('acc.conf', CONF + '\n[placement]\nauth_type = admin_token\nendpoint = http://127.0.0.1:9\ntoken = s3cret\n')
    desk.bmcs({'node-1': target_of(machine) | {'node': NODE}})
    done = desk.run('publish', *desk.options)
    assert 5 == done.code, done.err
    assert 1 == len(done.errors)
    assert 's3cret' not in done.err


def test_an_unknown_way_to_log_in_is_told(desk, emulated_machine):
    """A misspelt auth_type is an error of the configuration."""
    machine = emulated_machine('fpga-server')
    desk.prepare(machine)
    desk.write('acc.conf', CONF + '\n[placement]\nauth_type = pasword\n')
    done = desk.run('publish', *desk.options)
    assert 2 == done.code, done.err
    assert '[placement]' in done.errors[0]
    assert 'pasword' in done.errors[0]

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The documents that tools read: the keys that are promised, and what device_lock says."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from baremetal_acc.cli.output import documents
from baremetal_acc.errors import BmcUnreachable
from baremetal_acc.model.accelerator import MergeBasis, MergeEvidence
from baremetal_acc.model.action import Publish, Release, Reset, ResetPurpose, Withdraw
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.plan import Plan
from tests.unit.planning import values as v

LOCKED, REPORTED = LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED


@pytest.mark.parametrize(
    ('states', 'expected'),
    [
        ([], 'none'),
        ([LOCKED], 'locked'),
        ([REPORTED], 'locked'),
        ([LockState.UNLOCKED], 'unlocked'),
        ([LockState.PARTIAL], 'unlocked'),
        ([LockState.PENDING_RESET], 'unlocked'),
        ([LockState.UNKNOWN], 'unknown'),
        ([LockState.UNKNOWN, LOCKED], 'locked'),
        ([LockState.UNLOCKED, LOCKED], 'locked'),
    ],
)
def test_device_lock_of_a_device_with_locks_for_all_of_it(states, expected):
    """The best reading for the same part counts: one shut door on the only way is enough."""
    locks = tuple(v.reading(s, mechanism=f'm{n}') for n, s in enumerate(states))
    assert expected == documents.device_lock(v.gpu(locks=locks))


def test_device_lock_of_a_lock_for_another_way_is_none():
    """A lock of the host-to-BMC way is no lock of the device."""
    locks = (v.reading(REPORTED, blocks=frozenset({WritePath.HOST_BMC_IPMI})),)
    assert 'none' == documents.device_lock(v.gpu(locks=locks))


@pytest.mark.parametrize(
    ('firmware', 'slot0', 'slot1', 'expected'),
    [
        (REPORTED, REPORTED, REPORTED, 'locked'),
        (REPORTED, REPORTED, LockState.UNLOCKED, 'unlocked'),
        (REPORTED, REPORTED, LockState.UNKNOWN, 'unknown'),
        (LockState.UNLOCKED, REPORTED, LockState.UNKNOWN, 'unlocked'),
        (REPORTED, REPORTED, None, 'unlocked'),
        (REPORTED, None, LockState.UNKNOWN, 'unknown'),
    ],
)
def test_device_lock_asks_every_part(firmware, slot0, slot1, expected):
    """One open slot makes the whole card open; a slot without a mechanism is open too."""

    def part(state, **scope):
        return [] if state is None else [v.reading(state, mechanism='fpga', accelerator=v.FPGA, **scope)]

    locks = (
        *part(firmware, scope=Scope.FIRMWARE),
        *part(slot0, scope=Scope.SLOT, part='Slot0'),
        *part(slot1, scope=Scope.SLOT, part='Slot1'),
    )
    assert expected == documents.device_lock(v.fpga(locks=locks))


def test_an_inventory_has_the_promised_keys():
    """Those of doc/source/schemas/inventory.json, present also when there is nothing to say."""
    body = documents.inventory('node-1', v.inventory(v.gpu(), v.fpga()))
    assert {'target', 'accelerators', 'platform_devices', 'platform_locks', 'gaps', 'error'} == set(body)
    promised = {
        'kind', 'vendor', 'model', 'part_number', 'serial', 'uuid', 'identity', 'location', 'pci', 'uris', 'primary_uri',
        'firmware', 'functions', 'locks', 'device_lock', 'slots',
    }  # fmt: skip
    for accelerator in body['accelerators']:
        assert promised <= set(accelerator)
        assert {'mechanism', 'uri', 'value', 'state'} <= set(accelerator['locks'][0])
        assert {'id', 'version', 'updateable'} <= set(accelerator['firmware'][0])
    assert body == json.loads(json.dumps(body))


SCHEMA = json.loads((Path(__file__).parents[3] / 'doc/source/schemas/inventory.json').read_text())


@pytest.mark.parametrize('basis', MergeBasis)
def test_what_made_one_device_of_several_resources_is_in_the_document(basis):
    """Each reason with its resources, as the schema knows them; a device of one resource has none."""
    refs = (v.ref('Chassis/1/PCIeDevices/1'), v.ref('Systems/1/Processors/GPU_0'))
    body = documents.inventory('n', v.inventory(v.gpu(merged_by=(MergeEvidence(basis=basis, refs=refs),)), v.fpga()))
    jsonschema.Draft202012Validator(SCHEMA).validate(documents.document([body]))
    (by,) = body['accelerators'][0]['merged_by']
    assert (basis.value, [ref.uri for ref in refs]) == (by['basis'], [at['uri'] for at in by['uris']])
    assert {'host'} == {at['bmc'] for at in by['uris']}
    assert 'merged_by' not in body['accelerators'][1]


def test_a_lock_of_the_machine_is_shown_once_and_as_no_card_s():
    """A platform lock never makes a device locked."""
    whole = v.reading(blocks=frozenset({WritePath.HOST_BMC_REDFISH}), mechanism='host_interface', scope=Scope.BMC)
    seen = v.inventory(v.gpu(locks=(whole,)), platform_locks=(whole,))
    body = documents.inventory('node-1', seen)
    assert ['host_interface'] == [lock['mechanism'] for lock in body['platform_locks']]
    assert [([], 'none')] == [(a['locks'], a['device_lock']) for a in body['accelerators']]


@pytest.mark.parametrize(
    ('blocks', 'slot', 'expected'),
    [
        (None, None, ['host-device', 'host-bmc-ipmi', 'host-bmc-redfish', 'bmc-network']),
        (WritePath.HOST_DEVICE, True, ['host-bmc-ipmi', 'host-bmc-redfish', 'bmc-network']),
        (WritePath.HOST_DEVICE, False, ['host-device', 'host-bmc-ipmi', 'host-bmc-redfish', 'bmc-network']),
    ],
)
def test_paths_that_no_mechanism_covers_are_named(blocks, slot, expected):
    """Whatever it reads: an open door has a lock, these have none. A slot without a mechanism leaves the path uncovered."""
    readings = []
    if blocks is not None:
        closed = {'accelerator': v.FPGA, 'blocks': frozenset({blocks})}
        scopes = [{'scope': Scope.FIRMWARE}, *({'scope': Scope.SLOT, 'part': s.slot_id} for s in v.fpga().slots if slot)]
        readings = [v.reading(LockState.UNLOCKED, **closed, **scope) for scope in scopes]
    assert expected == documents.uncovered_paths(v.fpga(locks=tuple(readings)))


def test_a_device_shows_its_state_and_its_health_as_given():
    """Three properties of the standard, none of them made from another."""
    body = documents.accelerator(v.gpu(state='StandbyOffline', health='OK', health_rollup='Critical'))
    assert ('StandbyOffline', 'OK', 'Critical') == (body['state'], body['health'], body['health_rollup'])


def test_a_version_that_only_the_device_shows_has_no_id():
    """The id is null when there is no inventory item."""
    device = v.gpu(firmware=(Component(id=None, ref=v.ref('Systems/1/Processors/GPU_0'), version='1'),))
    assert (None, '1') == tuple(documents.accelerator(device)['firmware'][0][k] for k in ('id', 'version'))


@pytest.mark.parametrize(
    ('text', 'literal'), [('true', True), ('"x"', 'x'), ('{"a": 1}', {'a': 1}), ('oops', 'oops'), (None, None)]
)
def test_a_lock_shows_the_literal_value(text, literal):
    """As the BMC gave it: a boolean is a boolean."""
    reading = v.reading(LockState.UNLOCKED)
    assert (
        literal
        == documents.lock(type(reading)(**{f: getattr(reading, f) for f in reading.__dataclass_fields__} | {'value': text}))[
            'value'
        ]
    )


def test_a_target_that_failed_says_why():
    """With the class and the message, and empty lists."""
    body = documents.inventory('node-1', None, BmcUnreachable(bmc='host (https://192.0.2.1)', what='no answer in 5 s'))
    assert {'type': 'BmcUnreachable', 'message': 'BMC host (https://192.0.2.1): no answer in 5 s'} == body['error']
    assert [] == body['accelerators']


def test_every_action_has_the_same_keys():
    """A tool need not ask which key an action has."""
    actions = (
        Withdraw(accelerators=(v.GPU,)),
        Release(accelerator=v.GPU, mechanism='rot', ref=v.ref('C/1'), field='Closed', expects='true'),
        Reset(system=v.SYSTEM, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=('x',)),
        Publish(),
    )
    body = documents.plan(Plan(target='node-1', actions=actions), {v.GPU: 'H100 GPU_0'})
    assert 1 == len({tuple(a) for a in body['actions']})
    assert ['H100 GPU_0', 'rot', 'hold', None] == [a['subject'] for a in body['actions']]
    assert [None, 'Closed', None, None] == [a['field'] for a in body['actions']]


def test_a_lock_of_a_whole_machine_is_shown_as_that_of_its_bmc():
    """It is engaged in the name of one of the cards, and of none of them."""
    one = Release(accelerator=v.GPU, mechanism='kcs', ref=v.ref('M/1'), field='Closed', expects='true', scope=Scope.BMC)
    body = documents.action(one, {v.GPU: 'H100 GPU_0'})
    assert (None, 'BMC host', 'host', '/redfish/v1/M/1') == tuple(body[k] for k in ('accelerator', 'device', 'bmc', 'uri'))
    body = documents.action(replace(one, scope=Scope.DEVICE), {v.GPU: 'H100 GPU_0'})
    assert (v.GPU, 'H100 GPU_0') == (body['accelerator'], body['device'])

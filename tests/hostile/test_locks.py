# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The lock mechanisms claim nothing without proof, and stay fast, whatever the documents say."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from baremetal_acc.bmc.driver import Document
from baremetal_acc.errors import BmcRefusalReason, BmcRefused, BmcUnreachable
from baremetal_acc.locks.fpga_programmable_from_host import ProgrammableFromHost
from baremetal_acc.locks.nvidia.inband_update_policy import InbandUpdatePolicy
from baremetal_acc.locks.property_reading import literal
from baremetal_acc.locks.write_protected import WriteProtected
from baremetal_acc.model.accelerator import Accelerator, IdentitySource, Kind, ReconfigurationSlot
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from baremetal_acc.planning import lock_evidence
from baremetal_acc.planning.merge import merge

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ITEMS = '/redfish/v1/UpdateService/FirmwareInventory'
CHASSIS = '/redfish/v1/Chassis'
GPU = '/redfish/v1/Systems/1/Processors/GPU_0'


class Told:
    """A reader that knows documents by heart and counts how often it is asked."""

    def __init__(self, tree):
        self.session, self.name, self.asked = 's', HOST, 0
        self.tree = {
            '/redfish/v1': {'UpdateService': {'@odata.id': '/redfish/v1/UpdateService'}, 'Chassis': {'@odata.id': CHASSIS}},
            '/redfish/v1/UpdateService': {'FirmwareInventory': {'@odata.id': ITEMS}},
            **tree,
        }

    def get(self, uri):
        self.asked += 1
        found = self.tree.get(uri)
        if isinstance(found, Exception):
            raise found
        if found is None:
            raise BmcRefused(bmc=HOST, uri=uri, what='not there', reason=BmcRefusalReason.NOT_FOUND)
        return Document(ref=ref(uri), body=found)

    def peek(self, uri):
        return None


def ref(uri):
    return Ref(bmc=HOST, uri=uri)


def items(*members):
    """FirmwareInventory: URIs as links, all else as it is."""
    return {ITEMS: {'Members': [{'@odata.id': m} if isinstance(m, str) else m for m in members]}}


def device(number=0, firmware=(), slots=(), uris=()):
    uri = GPU.replace('_0', f'_{number}')
    return Accelerator(
        id=AcceleratorId(f'serial:{number}'),
        kind=Kind.GPU,
        identity=IdentitySource.SERIAL,
        serial=f's{number}',
        primary=ref(uri),
        refs=tuple(ref(u) for u in (uri, *uris)),
        firmware=firmware,
        slots=slots,
    )


def only_item(reader):
    """The state that WriteProtected reads at the first item."""
    card = device(firmware=(Component(id='A', ref=ref(f'{ITEMS}/A'), write_protected=True),))
    (reading,) = WriteProtected().read(card, [reader], NOW)
    return reading.state


TRUE = {'WriteProtected': True}
UPDATEABLE = {'WriteProtected': True, 'Updateable': True}


@pytest.mark.parametrize('junk', [7, None, {}, {'@odata.id': None}, {'@odata.id': 7}, [], 'x'])
def test_a_member_that_is_no_link_makes_no_bmc_believed_that_says_true_of_all(junk):
    """Every item that can be read says true, and one of them is Updateable: junk beside them is no item that says otherwise."""
    tree = {
        f'{ITEMS}/A': TRUE,
        f'{ITEMS}/B': UPDATEABLE,
        f'{ITEMS}/C': TRUE,
        **items(junk, f'{ITEMS}/A', f'{ITEMS}/B', f'{ITEMS}/C'),
    }
    assert LockState.UNKNOWN == only_item(Told(tree))


def test_an_item_that_cannot_be_read_may_be_one_that_says_true_and_is_updateable():
    """All that could be read say true, one could not: nobody knows whether this BMC says true of everything."""
    broken = BmcUnreachable(bmc=HOST, what='no answer')
    tree = {f'{ITEMS}/A': TRUE, f'{ITEMS}/B': broken, f'{ITEMS}/C': TRUE, **items(f'{ITEMS}/A', f'{ITEMS}/B', f'{ITEMS}/C')}
    assert LockState.UNKNOWN == only_item(Told(tree))


def test_an_item_that_is_not_there_says_nothing_of_the_others():
    """A dangling link (404) is no item."""
    tree = {f'{ITEMS}/A': TRUE, f'{ITEMS}/C': TRUE, **items(f'{ITEMS}/A', f'{ITEMS}/B', f'{ITEMS}/C')}
    assert LockState.LOCKED_REPORTED == only_item(Told(tree))


def test_one_item_that_is_open_makes_true_mean_something():
    """The BMC tells items apart."""
    tree = {f'{ITEMS}/A': TRUE, f'{ITEMS}/B': {'WriteProtected': False, 'Updateable': True}, f'{ITEMS}/C': UPDATEABLE}
    assert LockState.LOCKED_REPORTED == only_item(Told({**tree, **items(*tree)}))


def test_items_are_gone_through_once_however_many_belong_to_devices():
    """1,500 items of one card cost 31 s when each of them went through all."""
    number = 1000
    uris = [f'{ITEMS}/{n}' for n in range(number)]
    reader = Told({**dict.fromkeys(uris, TRUE), **items(*uris)})
    card = device(firmware=tuple(Component(id=str(n), ref=ref(u), write_protected=True) for n, u in enumerate(uris)))
    readings = WriteProtected().read(card, [reader], NOW)
    assert {LockState.LOCKED_REPORTED} == {r.state for r in readings}
    assert number == len(readings)
    assert reader.asked < 3 * number


def root(*protects):
    return {
        'Oem': {
            'Nvidia': {
                'InbandUpdatePolicyEnabled': False, 'AutomaticBackgroundCopyEnabled': True, 'BackgroundCopyStatus': 'Completed',
            }
        },
        'Status': {'State': 'Enabled', 'Health': 'OK'},
        'Links': {'Oem': {'Nvidia': {'ComponentsProtected': [{'@odata.id': uri} for uri in protects]}}},
    }  # fmt: skip


def test_roots_of_trust_are_gone_through_once_however_many_devices_there_are():
    """1,500 cards with 1,500 roots of trust cost 97 s when each card went through all of them."""
    number = 300
    tree = {f'{CHASSIS}/{n}': root(GPU.replace('_0', f'_{n}')) for n in range(number)}
    reader = Told({**tree, CHASSIS: {'Members': [{'@odata.id': uri} for uri in tree]}})
    mechanism = InbandUpdatePolicy()
    readings = [mechanism.read(device(n), [reader], NOW) for n in range(number)]
    assert [(LockState.LOCKED_REPORTED, f'{CHASSIS}/{n}') for n in range(number)] == [(r.state, r.ref.uri) for (r,) in readings]
    assert reader.asked < 3 * number


@pytest.mark.parametrize('spelling', [GPU + '/', GPU.replace('/v1/', '/v1//'), GPU + '#/x', GPU + '?x'])
def test_a_second_root_of_trust_counts_in_whatever_way_it_spells_its_link(spelling):
    """Two ways to one device, one of them open: the closed one alone would be a lock that does not hold."""
    opened = json.loads(
        json.dumps(root(spelling)).replace('"InbandUpdatePolicyEnabled": false', '"InbandUpdatePolicyEnabled": true')
    )
    tree = {f'{CHASSIS}/1': root(GPU), f'{CHASSIS}/2': opened}
    reader = Told({**tree, CHASSIS: {'Members': [{'@odata.id': uri} for uri in tree]}})
    assert [LockState.PARTIAL, LockState.UNLOCKED] == [r.state for r in InbandUpdatePolicy().read(device(), [reader], NOW)]


def test_a_slot_of_one_processor_does_not_speak_for_the_slot_of_another():
    """A card shown as two Processors has two slots at position 0: what closes one of them leaves the other one open."""
    one, two = '/redfish/v1/Systems/1/Processors/F', '/redfish/v1/Chassis/1/NetworkAdapters/1/Processors/F'
    reader = Told(
        {
            GPU: {},
            one: {'FPGA': {'ReconfigurationSlots': [{'SlotId': 'first', 'ProgrammableFromHost': False}]}},
            two: {'FPGA': {'ReconfigurationSlots': [{'SlotId': 'second'}]}},
        }
    )
    slots = tuple(ReconfigurationSlot(slot_id=name, index=0) for name in ('first', 'second'))
    card = device(slots=slots, uris=(one, two))
    readings = ProgrammableFromHost().read(card, [reader], NOW)
    assert [('first', LockState.LOCKED_REPORTED)] == [(r.part, r.state) for r in readings]
    covered = {c.subject.part: c.state for c in lock_evidence.coverage(card, WritePath.HOST_DEVICE, readings)}
    assert {None: LockState.UNSUPPORTED, 'first': LockState.LOCKED_REPORTED, 'second': LockState.UNSUPPORTED} == covered


@pytest.mark.parametrize('text', ['NaN', 'Infinity', '-1e999', '[1, {"a": NaN}]'])
def test_the_literal_of_a_number_that_json_does_not_have_is_json(text):
    """Python reads NaN in JSON, and would write it into our documents, where no other reader takes it."""

    def refuse(word):
        raise AssertionError(word)

    assert 'a number that JSON does not have' == json.loads(literal(json.loads(text)) or '', parse_constant=refuse)


def test_devices_of_two_bmcs_meet_by_what_they_share_and_by_nothing_else():
    """Of two thousand network cards, each meets its own."""
    hosts = [replace(device(n), kind=Kind.NIC) for n in range(1000)]
    cards = [
        Accelerator(
            id=AcceleratorId(f'serial:c{n}'), kind=Kind.NIC, identity=IdentitySource.SERIAL, serial=f'S{n}',
            primary=Ref(bmc='card', uri=f'/{n}'), refs=(Ref(bmc='card', uri=f'/{n}'),),
        )
        for n in range(1000)
    ]  # fmt: skip
    merged = merge([*hosts, *cards])
    assert 1000 == len(merged)
    assert {(f'/{n}', GPU.replace('_0', f'_{n}')) for n in range(1000)} == {tuple(r.uri for r in a.refs) for a in merged}

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What several BMCs report of one card is one accelerator; what they report of two stays two."""

from dataclasses import replace

import pytest

from baremetal_acc.model.accelerator import IdentitySource, Kind, MergeBasis, MergeEvidence, PciIds
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.planning.merge import merge, unmerged
from tests.unit.planning import values as v

DPU = BmcName('dpu')


def card(bmc: BmcName, name: str, **changes):
    primary = Ref(bmc=bmc, uri=f'/redfish/v1/Chassis/{name}')
    values = {
        'id': AcceleratorId(f'uri:{bmc}:{primary.uri}'),
        'kind': Kind.DPU,
        'identity': IdentitySource.SERIAL,
        'primary': primary,
        'refs': (primary,),
        'serial': 'MT1',
        'uuid': None,
        'firmware': (),
        'locks': (),
    }
    return v.gpu(**(values | changes))


def test_one_card_seen_by_two_bmcs_is_one():
    """The card's own BMC gives the identity, the host's the PCI ids; both give their resources."""
    own = card(DPU, 'Card1', pci=PciIds(), firmware=(v.component('NIC'),))
    seen_by_host = card(v.HOST, 'Slot3', firmware=(v.component('Slot3'),), locks=(v.reading(),))
    (one,) = merge([seen_by_host, own])
    assert f'{own.id}@dpu' == one.id
    assert ('0x10de', '0x2330') == (one.pci.vendor_id, one.pci.device_id)
    assert {'NIC', 'Slot3'} == {c.id for c in one.firmware}
    assert {own.primary, seen_by_host.primary} == set(one.refs)
    assert {one.id} == {r.accelerator for r in one.locks}


def test_two_cards_of_one_serial_number_stay_two():
    """Serial numbers repeat on real machines: one that a BMC gives twice says nothing."""
    twins = [card(v.HOST, 'Slot3'), card(v.HOST, 'Slot4')]
    assert 3 == len(merge([*twins, card(DPU, 'Card1')]))


def test_another_uuid_is_another_card():
    """Whatever the serial numbers say; and the same UUID is the same card."""
    host, own = card(v.HOST, 'Slot3', uuid='A-1'), card(DPU, 'Card1', uuid='b-2')
    assert 2 == len(merge([host, own]))
    assert 1 == len(merge([host, replace(own, uuid='a-1', serial='other')]))


def test_what_two_bmcs_gave_that_made_them_one_is_kept():
    """With what each of them knew already."""
    inner = MergeEvidence(basis=MergeBasis.LINK, refs=(v.ref('Chassis/Slot3'), v.ref('Systems/1/Processors/1')))
    host, own = card(v.HOST, 'Slot3', merged_by=(inner,)), card(DPU, 'Card1')
    refs = tuple(sorted((host.primary, own.primary)))
    (one,) = merge([host, own])
    assert (inner, MergeEvidence(basis=MergeBasis.SERIAL, refs=refs)) == one.merged_by
    (one,) = merge([replace(host, uuid='a'), replace(own, uuid='A')])
    assert (inner, MergeEvidence(basis=MergeBasis.UUID, refs=refs)) == one.merged_by
    assert () == unmerged([one])


def test_cards_that_contradict_each_other_stay_two_with_a_gap():
    """One serial number, and two UUIDs of cards that do not say that they are of one part number."""
    host, own = card(v.HOST, 'Slot3', uuid='a'), card(DPU, 'Card1', uuid='b')
    found = merge([host, own])
    (gap,) = unmerged(found)
    assert (own.primary, f'{own.id}@dpu', False) == (gap.ref, gap.accelerator, gap.hides)
    assert str(host.primary) in gap.reason
    assert [()] * 2 == [a.merged_by for a in found]
    twins = merge([card(v.HOST, 'Slot3'), card(v.HOST, 'Slot4'), card(DPU, 'Card1')])
    assert [own.primary] == [gap.ref for gap in unmerged(twins)]
    assert () == unmerged(merge([card(v.HOST, 'Slot3'), card(v.HOST, 'Slot4')]))
    assert () == unmerged(merge([card(v.HOST, 'Slot3'), card(DPU, 'Card1', kind=Kind.GPU)]))


def test_devices_of_one_bmc_are_never_merged_here():
    """That is the driver's business, which sees the links."""
    assert 2 == len(merge([card(v.HOST, 'A', uuid='x'), card(v.HOST, 'B', uuid='x')]))


def test_the_result_does_not_depend_on_the_order():
    """Whichever BMC answers first."""
    cards = [card(v.HOST, 'Slot3'), card(DPU, 'Card1'), v.gpu(), v.fpga()]
    assert merge(cards) == merge(reversed(cards))


def test_another_kind_is_another_card():
    """A GPU and a DPU with one serial number are two."""
    assert 2 == len(merge([card(v.HOST, 'Slot3', kind=Kind.GPU), card(DPU, 'Card1')]))


def test_a_dpu_whose_bmcs_give_two_uuids_is_one_by_its_serial_and_part_number():
    """Its own BMC gives the UUID of its System, the host's that of its network function; a GPU has but one."""
    views = {'serial': 'MT1', 'part_number': '900-9D3B6'}
    host, own = card(v.HOST, 'Slot3', uuid='a', **views), card(DPU, 'Card1', uuid='b', **views)
    assert 1 == len(merge([host, own]))
    assert 1 == len(merge([replace(host, kind=Kind.NIC), own]))
    assert 2 == len(merge([replace(host, part_number='other'), own]))
    assert 2 == len(merge([replace(host, part_number=None), own]))
    assert 3 == len(merge([host, own, card(v.HOST, 'Slot4', **views)]))
    assert 2 == len(merge([replace(host, kind=Kind.GPU), replace(own, kind=Kind.GPU)]))


def test_the_worse_health_of_two_views_is_that_of_the_card():
    """One BMC that says OK does not make the other's Critical go away."""
    host, own = (
        card(v.HOST, 'Slot3', health='Critical', state='Enabled'),
        card(DPU, 'Card1', health='OK', health_rollup='Warning'),
    )
    (one,) = merge([host, own])
    assert ('Critical', 'Warning', 'Enabled') == (one.health, one.health_rollup, one.state)


def test_what_the_host_tells_of_its_bus_counts():
    """PCI ids choose rules and images: a card's own BMC does not change them."""
    host, own = card(v.HOST, 'Slot3'), card(DPU, 'Card1', pci=PciIds(vendor_id='0x1234', device_id='0x0001', class_code='0x02'))
    (one,) = merge([host, own])
    assert ('0x10de', '0x2330', '0x02') == (one.pci.vendor_id, one.pci.device_id, one.pci.class_code)


WHOLE = {
    'vendor': 'V',
    'model': 'M',
    'part_number': 'P',
    'location': 'Slot 3',
    'system': v.SYSTEM,
    'slots': (v.slot(0),),
    'functions': (v.slot(0).function,),
    'traits': frozenset({'CUSTOM_A'}),
    'health': 'OK',
    'health_rollup': 'OK',
    'state': 'Enabled',
}

BARE = dict.fromkeys(('vendor', 'model', 'part_number', 'location', 'system', 'health', 'health_rollup', 'state')) | {
    'slots': (),
    'functions': (),
    'traits': frozenset(),
}


@pytest.mark.parametrize('whole', [v.HOST, DPU])
def test_what_one_bmc_alone_says_of_a_card_is_said_of_it(whole):
    """Whichever of the two it is; where both say something, the card's own BMC counts, but for its PCI ids."""
    host = card(v.HOST, 'Slot3', **(WHOLE if whole == v.HOST else BARE))
    own = card(DPU, 'Card1', **(WHOLE if whole == DPU else BARE))
    (one,) = merge([host, own])
    assert WHOLE == {name: getattr(one, name) for name in WHOLE}
    (one,) = merge([replace(host, uuid='A-1'), own])
    assert ('A-1', 'MT1') == (one.uuid, one.serial)
    (one,) = merge([replace(host, uuid='a-1', serial=None), replace(own, uuid='A-1')])
    assert ('A-1', 'MT1') == (one.uuid, one.serial)
    (one,) = merge([replace(host, uuid='a-1'), replace(own, uuid='A-1', serial=None)])
    assert ('A-1', 'MT1') == (one.uuid, one.serial)


def test_where_two_bmcs_say_something_the_cards_own_counts_and_what_are_many_are_joined():
    """Traits, slots and functions of both; the worse health of either kind, whoever tells it."""
    own = {name: f'own {name}' for name in ('vendor', 'model', 'part_number', 'location', 'state')}
    other = {name: f'other {name}' for name in own}
    slots = (v.slot(0),), (v.slot(1),)
    (one,) = merge(
        [
            card(
                v.HOST, 'Slot3', **other, slots=slots[0], traits=frozenset({'CUSTOM_A'}), health_rollup='Critical', health='OK'
            ),
            card(DPU, 'Card1', **own, slots=slots[1], traits=frozenset({'CUSTOM_B'}), health_rollup='OK', health='Critical'),
        ]
    )
    assert own == {name: getattr(one, name) for name in own}
    assert {'Slot0', 'Slot1'} == {s.slot_id for s in one.slots}
    assert {'CUSTOM_A', 'CUSTOM_B'} == one.traits
    assert ('Critical', 'Critical') == (one.health, one.health_rollup)


def test_a_word_for_health_that_nobody_knows_says_less_than_any_that_is_known():
    """Also less than OK, in whichever order they are told."""
    for health in (('OK', 'Splendid'), ('Splendid', 'OK')):
        (one,) = merge([card(v.HOST, 'Slot3', health=health[0]), card(DPU, 'Card1', health=health[1])])
        assert 'OK' == one.health


def test_what_a_further_bmc_says_of_locks_is_said_of_the_device_under_its_name_here():
    """A reading is of the very device: under another name it would be of none."""
    own = card(DPU, 'Card1', locks=(v.reading(accelerator=AcceleratorId('uri:dpu:/redfish/v1/Chassis/Card1')),))
    (one,) = merge([own])
    assert [one.id] == [r.accelerator for r in one.locks]
    assert f'{own.id}@dpu' == one.id


def test_one_uuid_and_none_are_told_apart_by_the_serial_number():
    """A BMC that gives no UUID may mean the same card; two cards without any part number are not of one product for that."""
    host, own = card(v.HOST, 'Slot3', uuid='a'), card(DPU, 'Card1')
    assert 1 == len(merge([host, own]))
    for one, other in (('  ', ''), ('', '  '), ('  ', ' '), (None, None), (None, 'P')):
        assert 2 == len(merge([replace(host, part_number=one), replace(own, uuid='b', part_number=other)]))
    assert 1 == len(merge([replace(host, part_number=' p-1'), replace(own, uuid='b', part_number='P-1 ')]))

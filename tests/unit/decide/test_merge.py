# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What several BMCs report of one card is one accelerator; what they report of two stays two."""

from dataclasses import replace

from baremetal_acc.decide.merge import merge
from baremetal_acc.model.accelerator import IdentitySource, Kind, PciIds
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from tests.unit.decide import values as v

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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a conductor writes down of a node's regions is small, comes back as it was, and is not taken on trust."""

import base64
import json
import zlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.scheduling.pools import PoolRegion
from baremetal_acc.scheduling.provider_names import slot_uuid
from baremetal_acc.scheduling.regions import MOST_BYTES, Regions, Slot, changed, document, of_node, read, seen
from tests.unit.planning import values as v

NODE = '1be26c0b-03f2-4d2e-ae87-c02d7f33c123'
GZIP, AES = frozenset({'gzip'}), frozenset({'gzip', 'aes'})


def slot(number: int, card: str = 'uuid:a', **values) -> Slot:
    return Slot(accelerator=card, slot_id=f'Slot{number}', **({'takes': AES} | values))


SAMPLE = Regions(
    at=v.NOW, slots=(slot(0, function='gzip', changed=v.EARLIER), slot(1, takes=frozenset()), slot(0, 'uuid:b', takes=GZIP))
)


# -------------------------------------------------------------------------------------------------------------------- look


def look(**card):
    """A card with two slots."""
    return v.inventory(v.fpga(slots=(v.slot(0), v.slot(1)), **card))


def verdict(*unmet) -> Verdict:
    found = (
        Finding(
            accelerator=a,
            label='x',
            subject=Subject.from_text('s'),
            fact=FindingText(expected='2', found='1'),
            met=Met.NO,
            rule='r',
        )
        for a in unmet
    )
    return Verdict(target='node-1', findings=tuple(found))


CAN = {(v.FPGA, 'Slot0'): AES, (v.FPGA, 'Slot1'): GZIP}


def test_a_look_tells_what_each_region_holds_and_takes():
    """By device and slot."""
    found = seen(look(), verdict(), {(v.FPGA, 'Slot1'): 'gzip'}, CAN)
    assert (
        Regions(
            at=look().at,
            slots=(
                Slot(accelerator=v.FPGA, slot_id='Slot0', takes=AES),
                Slot(accelerator=v.FPGA, slot_id='Slot1', function='gzip', takes=GZIP),
            ),
        )
        == found
    )


def test_a_card_that_is_not_as_it_has_to_be_takes_nothing():
    """No pool counts on its regions; those of other cards stay."""
    found = seen(look(), verdict(v.FPGA), {}, CAN)
    assert [frozenset(), frozenset()] == [s.takes for s in found.slots]
    found = seen(look(), verdict(v.GPU), {}, CAN)
    assert [AES, GZIP] == [s.takes for s in found.slots]


def test_a_slot_that_cannot_be_told_from_another_is_left_out():
    """Two of one id on one card."""
    twice = v.inventory(v.fpga(slots=(v.slot(0), v.slot(0), v.slot(1))))
    assert ['Slot1'] == [s.slot_id for s in seen(twice, verdict(), {}, CAN).slots]


def test_when_a_region_was_changed_is_remembered_from_look_to_look():
    """By device and slot; for a node that had regions it is said that it has none any more."""
    before = changed(seen(look(), verdict(), {}, CAN), {(v.FPGA, 'Slot1')}, v.NOW)
    assert [None, v.NOW] == [s.changed for s in before.slots]
    assert [None, v.NOW] == [s.changed for s in seen(look(), verdict(), {}, CAN, before).slots]
    later = v.NOW + timedelta(hours=1)
    both = changed(before, {(v.FPGA, 'Slot0'), ('uuid:other', 'Slot1')}, later)
    assert [later, v.NOW] == [s.changed for s in both.slots]
    assert Regions(at=look().at) == seen(look(), verdict(), {}, {}, before)
    assert None is seen(look(), verdict(), {}, {})


def test_the_planner_knows_regions_by_their_provider():
    """The same UUID as is published."""
    provider = slot_uuid(NODE, 'uuid:a', 'Slot0')
    wanted = PoolRegion(
        provider=provider, accelerator='uuid:a', slot_id='Slot0', function='gzip', takes=AES, changed=v.EARLIER
    )  # fmt: skip
    assert wanted == of_node(NODE, SAMPLE)[0]
    assert 3 == len(of_node(NODE, SAMPLE))


# ---------------------------------------------------------------------------------------------------------------- document


def test_the_document_is_for_people_too():
    """What several take is said once."""
    assert {
        'at': v.NOW.isoformat(),
        'takes': [[], ['aes', 'gzip'], ['gzip']],
        'cards': [
            {
                'id': 'uuid:a',
                'slots': [
                    {'id': 'Slot0', 'function': 'gzip', 'takes': 1, 'changed': v.EARLIER.isoformat()},
                    {'id': 'Slot1', 'function': None, 'takes': 0},
                ],
            },
            {'id': 'uuid:b', 'slots': [{'id': 'Slot0', 'function': None, 'takes': 2}]},
        ],
    } == document(SAMPLE)


def many(cards: int, functions: int) -> Regions:
    takes = frozenset(f'function-{n}' for n in range(functions))
    return Regions(
        at=v.NOW,
        slots=tuple(
            slot(n, f'uuid:5f0c{c:04}-aaaa-bbbb-cccc-dddddddddddd', function=f'function-{(c + n) % functions}', takes=takes)
            for c in range(cards)
            for n in range(4)
        ),
    )


def test_large_ones_are_packed_and_bounded():
    """Sixteen regions stay readable, hundreds are packed, and what does not fit is not written down."""
    assert 'cards' in document(many(4, 5))
    packed = document(many(128, 20))
    assert ['packed'] == list(packed)
    assert len(packed['packed']) <= MOST_BYTES
    assert many(128, 20) == read(packed)
    assert None is document(many(4000, 20))


names = st.text(min_size=1, max_size=12)
slots = st.builds(
    Slot,
    accelerator=names,
    slot_id=names,
    function=st.none() | names,
    takes=st.frozensets(names, max_size=4),
    changed=st.sampled_from([None, v.NOW, v.EARLIER]),
)


@given(st.lists(slots, max_size=40, unique_by=lambda s: s.place))
def test_what_is_written_comes_back(found):
    """Whatever a BMC calls its slots; cards come together."""
    regions_ = Regions(at=v.NOW, slots=tuple(found))
    back = read(json.loads(json.dumps(document(regions_))))
    assert (regions_.at, sorted(regions_.slots, key=lambda s: s.place)) == (back.at, sorted(back.slots, key=lambda s: s.place))


def altered(**values):
    return document(SAMPLE) | values


def card(**values):
    return {'cards': [{'id': 'a', 'slots': [{'id': 'S', 'function': None, 'takes': 0} | values]}]}


@pytest.mark.parametrize(
    'found',
    [
        None,
        [],
        'x',
        {},
        {'packed': '***'},
        {'packed': 'AAAA'},
        {'packed': base64.b64encode(zlib.compress(b'{')).decode()},
        {'packed': base64.b64encode(zlib.compress(b'[' * 10_000)).decode()},
        {'packed': base64.b64encode(zlib.compress(b' ' * 50_000_000 + b'1')).decode()},
        {'packed': base64.b64encode(zlib.compress(json.dumps({'packed': 'AAAA'}).encode())).decode()},
        altered(at='yesterday'),
        altered(at='2026-11-22T12:00:00'),
        altered(takes=['aes']),
        altered(takes=[[1], [], []]),
        altered(takes=[['x' * 256], [], []]),
        altered(cards=['a']),
        altered(cards=[{'id': '', 'slots': [{}]}]),
        altered(**card(takes=3)),
        altered(**card(takes=-1)),
        altered(**card(id='')),
        altered(**card(function='')),
        altered(**card(function=1)),
        altered(**card(changed='2026-11-22T12:00:00')),
        altered(**card(changed=5)),
        altered(cards=card()['cards'] * 2),
        altered(cards=[{'id': 'a', 'slots': [{'id': str(n), 'function': None, 'takes': 0} for n in range(4097)]}]),
    ],
)
def test_what_no_conductor_wrote_is_refused(found):
    """Nothing is guessed, and nothing that unpacks without end is unpacked."""
    with pytest.raises(StaleJob, match='stored regions cannot be read'):
        read(found)


@pytest.mark.parametrize(
    ('found', 'why'),
    [
        ({}, 'unknown format'),
        (altered(cards=['a']), 'unknown format of a card'),
        (altered(**card(takes=3)), 'unknown format of a slot'),
        (altered(**card(id='')), 'not a valid name'),
        (altered(**card(changed=5)), 'not a time'),
        (altered(at='2026-11-22T12:00:00'), '2026-11-22T12:00:00 has no time zone'),
        (altered(cards=card()['cards'] * 2), 'a slot is listed twice, or there are too many slots'),
        ({'packed': base64.b64encode(zlib.compress(b' ' * 600_000 + b'1')).decode()}, 'compressed data too long or truncated'),
        ({'packed': '!AAAA'}, 'Only base64 data is allowed'),
    ],
)
def test_what_is_wrong_is_said(found, why):
    """It ends as why a machine cannot be taken."""
    with pytest.raises(StaleJob) as failed:
        read(found)
    assert f'stored regions cannot be read: {why}' == str(failed.value)


def test_bounds_are_met_exactly():
    """The longest name and the most slots are read."""
    name = 'x' * 255
    assert frozenset({name}) == read(altered(takes=[[name]], cards=card()['cards'])).slots[0].takes
    slots_ = [{'id': str(n), 'function': None, 'takes': 0} for n in range(4096)]
    assert 4096 == len(read(altered(cards=[{'id': 'a', 'slots': slots_}])).slots)

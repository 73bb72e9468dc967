# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an FRU says is read whatever its controller allows, and believed where its checksums hold.

``WHOLE`` was shown to ipmitool 1.8.19, in a file (``ekanalyzer frushow``, which knows the records of PICMG) and behind ipmi_sim
2.0.33 (``fru print``): it reads the same there.
"""

import struct
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.bmc.ipmi import fru_reader
from baremetal_acc.bmc.ipmi.fru import needed, parse
from baremetal_acc.bmc.ipmi.fru_contents import (
    BoardArea,
    ChassisArea,
    Contents,
    Link,
    ModuleCurrent,
    OemRecord,
    OtherMultiRecord,
    PicmgRecord,
    PointToPoint,
    ProductArea,
)
from baremetal_acc.bmc.ipmi.fru_reader import contents, read
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcRefused, BmcUnsupported
from tests.unit.bmc.ipmi.cards import Fake, area, board, memory, product, record, text, zero

PICMG = b'\x5a\x31\x00'
CURRENT = PICMG + b'\x16\x00\x3c'
CONNECTIVITY = PICMG + bytes.fromhex('19 00  00  80  01  20 88 f1  00 2f 00 00 fc')
"""No GUID; the AMC itself; one channel on the ports 0, 1, 2 and 3; one link: channel 0, all lanes, PCI Express, match 0."""

WHOLE = memory(
    chassis=area(b'\x17' + text('CP-1') + text('CS-2') + text('rack')),
    board=board(),
    product=area(b'\x00' + text('Maker') + text('Thing') + text('PN') + text('1.2') + text('SN-3') + text('tag') + b'\xc0'),
    records=record(0xC0, CURRENT) + record(0xC0, CONNECTIVITY, last=True),
)


def changed(data: bytes, offset: int) -> bytes:
    """One byte is another one."""
    return data[:offset] + bytes([data[offset] ^ 0x01]) + data[offset + 1 :]


def test_all_areas_and_records_are_given_as_they_stand_there():
    """The areas of an AMC, with what PICMG adds."""
    assert Contents(
        chassis=ChassisArea(kind=0x17, part_number='CP-1', serial='CS-2', more=('rack',)),
        board=BoardArea(
            language=25,
            made=datetime(1996, 1, 1, 16, 40, tzinfo=UTC),
            manufacturer='Maker',
            product='Card',
            serial='S1',
            part_number='P/N 7',
        ),
        product=ProductArea(
            language=0, manufacturer='Maker', name='Thing', part_number='PN', version='1.2', serial='SN-3', asset_tag='tag'
        ),
        records=(
            ModuleCurrent(amperes=6.0),
            PointToPoint(
                module=True,
                device=0,
                guids=(),
                channels=((0, 1, 2, 3),),
                links=(Link(channel=0, lanes=(0, 1, 2, 3), kind=2, extension=0, group=0, match=0),),
            ),
        ),
    ) == parse(WHOLE)


@pytest.mark.parametrize(
    ('field', 'said'),
    [
        (bytes.fromhex('83 29 dc a6'), 'IPMI'),
        (bytes.fromhex('43 12 ab c4'), '12 -.4'),
        (bytes.fromhex('42 1f 20'), '1\ufffd20'),
        (bytes.fromhex('03 00 7f ff'), '007fff'),
        (b'\xc4\xe9\x1b[m', 'é\ufffd[m'),
        (b'\xc6ab \0\0\0', 'ab'),
        (b'\xc3\0\0\0', None),
        (b'\xc0', None),
        (b'\x00', None),
    ],
)
def test_each_coding_is_text_for_people(field, said):
    """The first is the specification's own example; what a terminal would obey is made harmless."""
    found = parse(memory(board=area(b'\x00\0\0\0' + text('MM') + field)))
    assert (said, None, ()) == (found.board.product, found.board.made, found.faults)


def test_a_text_of_one_character_is_the_end_mark():
    """C1h: nobody can write such a field, and nothing after it is read."""
    found = parse(memory(board=area(b'\x00\0\0\0' + text('M') + text('Card'))))
    assert (BoardArea(language=0), ()) == (found.board, found.faults)


def test_a_text_in_another_language_has_two_bytes_a_character():
    """Japanese, in the board area."""
    field = '計算機'.encode('utf-16-le')
    found = parse(memory(board=area(b'\x0e\0\0\0' + bytes([0xC0 | len(field)]) + field)))
    assert ('計算機', 0x0E) == (found.board.manufacturer, found.board.language)


def test_a_serial_number_in_another_language_is_still_read():
    """It was written in ASCII, by somebody whose tool ignores the language; an odd number of bytes is no wide text either."""
    found = parse(memory(board=area(b'\x0e\0\0\0' + text('Ma\xeb') + text('Card') + text('SN1234'))))
    assert ('Maë', 'Card', 'SN1234') == (found.board.manufacturer, found.board.product, found.board.serial)


@pytest.mark.parametrize(
    ('offset', 'lost', 'told'),
    [
        (8 + 3, 'chassis', 'chassis area: checksum is wrong'),
        (40, 'board', 'board area: checksum is wrong'),
        (100, 'product', 'product area: checksum is wrong'),
    ],
)
def test_a_wrong_checksum_is_told_and_what_it_covers_not_believed(offset, lost, told):
    """All else is."""
    found, right = parse(changed(WHOLE, offset)), parse(WHOLE)
    assert (told,) == found.faults
    for name in ('chassis', 'board', 'product', 'records'):
        assert (None if name == lost else getattr(right, name)) == getattr(found, name)


def test_a_record_that_does_not_sum_up_is_left_out_and_one_whose_header_does_not_ends_the_list():
    """The length of the next one would stand in it."""
    start = WHOLE.index(CURRENT)
    one = parse(changed(WHOLE, start + 5))
    assert (('record 0: checksum is wrong',), 1) == (one.faults, len(one.records))
    none = parse(changed(WHOLE, start - 5))
    assert ('record 0: header checksum is wrong, so further records cannot be found',) == none.faults
    assert () == none.records
    assert parse(WHOLE).board == none.board


@pytest.mark.parametrize(
    ('data', 'told'),
    [
        (b'\xff' * 64, 'common header: was never written'),
        (bytes(64), 'common header: was never written'),
        (b'', 'common header: truncated (length 0 of 8 bytes)'),
        (b'\1\0\0\1\0\0\0\xfe', 'board area: begins at byte 8, but only 8 bytes could be read'),
        (b'\1\0\0\1\0\0\0\xff', 'common header: checksum is wrong'),
        (b'\2\0\0\1\0\0\0\xfd', 'common header: format version 2 is not supported, only 1'),
        (b'\1\0\0\1\0\0\0\xfe\1\0', 'board area: has length 0'),
        (b'\1\0\0\1\0\0\0\xfe\1\2', 'board area: has length 16, but only 2 bytes could be read'),
        (b'\1\0\0\1\0\0\0\xfe\2\1\0\0\0\0\0\xfd', 'board area: format version 2 is not supported, only 1'),
        (b'\1\0\0\1\0\0\0\xfe\1\1\0\0\0\0\xff\xff', 'board area: a field of length 63 does not fit'),
        (b'\1\0\0\0\0\1\0\xfe\xc0', 'record 0: begins at byte 8, but only 9 bytes could be read'),
    ],
)
def test_what_is_wrong_is_told(data, told):
    """In one clause that names the area."""
    assert (told,) == parse(data).faults


@pytest.mark.parametrize(
    ('kind', 'body', 'found', 'faults'),
    [
        (0x02, b'\1\2', OtherMultiRecord(kind=2, data=b'\1\2'), ()),
        (0xD0, b'\x39\x30\x00abc', OemRecord(kind=0xD0, manufacturer=12345, data=b'abc'), ()),
        (0xC0, PICMG + b'\x2d\x01xyz', PicmgRecord(number=0x2D, version=1, data=b'xyz'), ()),
        (
            0xC0,
            b'\x5a',
            OtherMultiRecord(kind=0xC0, data=b'\x5a'),
            ('record 0: OEM record without a manufacturer id',),
        ),
        (0xC0, PICMG, OtherMultiRecord(kind=0xC0, data=PICMG), ('record 0: PICMG record without a record id',)),
        (
            0xC0,
            CURRENT[:5],
            OtherMultiRecord(kind=0xC0, data=CURRENT[:5]),
            ('record 0: module current record without a value',),
        ),
        (
            0xC0,
            CONNECTIVITY[:-1],
            OtherMultiRecord(kind=0xC0, data=CONNECTIVITY[:-1]),
            ('record 0: the list of connections is truncated',),
        ),
    ],
)
def test_a_record_is_kept_by_its_kind(kind, body, found, faults):
    """And as it is where it has not the layout of its kind."""
    assert Contents(records=(found,), faults=faults) == parse(memory(records=record(kind, body, last=True)))


def test_connections_of_a_device_on_the_carrier_with_a_guid_and_unused_lanes():
    """Links of 40 bits, from the lowest: channel 1, lane 0, OEM GUID 0, extension 3, group 5, match 1; and one of Ethernet."""
    guid = bytes(range(16))
    body = PICMG + b'\x19\x00\x01' + guid + b'\x03\x01' + b'\xe4\xff\xff' + bytes.fromhex('01 01 3f 05 fd  02 5d 00 00 fc')
    found = parse(memory(records=record(0xC0, body, last=True)))
    assert (
        PointToPoint(
            module=False,
            device=3,
            guids=(guid,),
            channels=((4, None, None, None),),
            links=(
                Link(channel=1, lanes=(0,), kind=0xF0, extension=3, group=5, match=1),
                Link(channel=2, lanes=(0, 2, 3), kind=0x05, extension=0, group=0, match=0),
            ),
        ),
    ) == found.records


def test_records_without_an_end_are_no_more_than_128():
    """Each of five bytes."""
    found = parse(memory(records=record(0x02, b'') * 300, size=2048))
    assert (128, ('there are more than 128 records',)) == (len(found.records), found.faults)


# --------------------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize('words', [False, True])
@pytest.mark.parametrize('too_long', [0xC6, 0xC7, 0xC8, 0xC9, 0xCA])
@pytest.mark.parametrize('most', [255, 33, 17, 4])
def test_a_memory_is_read_in_pieces_as_long_as_the_controller_gives(words, too_long, most):
    """By bytes or by words, and no further than it is used."""
    fake = Fake(frus={3: WHOLE}, most=most)
    fake.words, fake.too_long = words, too_long
    data = read(fake, 3, lun=1)
    assert WHOLE[: len(data)] == data
    assert needed(WHOLE) <= len(data) < needed(WHOLE) + 240
    assert parse(WHOLE) == parse(data)
    assert {1} == {lun for *_, lun, _ in fake.asked}


def test_a_controller_behind_a_bus_is_asked_for_what_the_bus_can_carry():
    """23 bytes and their count, where a request may have 25."""
    fake = Fake(frus={0: WHOLE}, longest=25, most=24)
    assert parse(WHOLE) == parse(read(fake))
    assert 23 == fake.asked[1][2][3]
    assert 2 + -(-needed(WHOLE) // 23) - 1 == len(fake.asked)


@pytest.mark.parametrize(
    ('codes', 'error', 'told'),
    [
        ({(0x0A, 0x10): 0xCB}, BmcRefused, 'Get FRU Inventory Area Info of FRU 0: refused with completion code CBh'),
        ({(0x0A, 0x10): 0xC1, (0x0A, 0x11): 0xC1}, BmcUnsupported, 'Info of FRU 0: the command is not supported'),
        ({(0x0A, 0x10): 0x00, (0x0A, 0x11): 0xFF}, BmcAnswerInvalid, r'the answer is too short \(length 0, minimum 3 bytes\)'),
        ({(0x0A, 0x11): 0x81}, BmcBusy, 'the FRU device is busy'),
        ({(0x0A, 0x11): 0xC8}, BmcRefused, 'refused with completion code C8h'),
        ({(0x0A, 0x11): 0x00}, BmcAnswerInvalid, 'length 238 was requested, but the answer says 0 and contains 0'),
    ],
)
def test_a_refusal_is_an_error_that_names_the_fru(codes, error, told):
    """A controller that refuses even one byte has refused."""
    fake = Fake(frus={0: WHOLE})
    fake.codes = codes
    with pytest.raises(error, match=told):
        read(fake)


def test_a_memory_that_says_64_kib_is_read_up_to_16():
    """Records without an end, all of the longest kind."""
    fake = Fake(frus={0: memory(records=record(0x02, bytes(255)) * 200, size=65535)})
    assert fru_reader.MOST == len(read(fake))


class Odd(Fake):
    """A controller whose answers to FRU commands are made by ``odd``, where that does not return None.

    :ivar odd: offset and count, in bytes, to completion code and data.
    :ivar told: the size that is told; None: the right one.
    """

    odd = staticmethod(lambda offset, count: None)
    told = None

    def answer(self, netfn, command, data):
        if command == 0x10 and self.told is not None:
            return b'\0' + struct.pack('<HB', self.told, self.words)
        if command == 0x11:
            unit = 1 + self.words
            answer = self.odd(int.from_bytes(data[1:3], 'little') * unit, data[3] * unit)
            if answer is not None:
                return answer
        return super().answer(netfn, command, data)


@pytest.mark.parametrize('words', [False, True])
@pytest.mark.parametrize('code', [0x82, 0xC3, 0xC4, 0xC6, 0xC9, 0xCA, 0xCC, 0xCE, 0xFF, 0x00])
@pytest.mark.parametrize('longest', [64, 16, 8, 2])
def test_smaller_parts_are_asked_for_whatever_the_refusal(words, code, longest):
    """An answer without a byte is one, too."""
    fake = Odd(frus={0: WHOLE})
    fake.words = words
    fake.odd = lambda offset, count: bytes([code]) if count > longest else None
    assert parse(WHOLE) == parse(read(fake))


@pytest.mark.parametrize('size', [0, 1, 7, 8, 40, 100, 65535])
def test_the_size_that_is_told_is_not_believed(size):
    """One controller says 0 of a memory that holds all; others too little, or too much."""
    fake = Odd(frus={0: WHOLE})
    fake.told = size
    assert parse(WHOLE) == parse(read(fake))


@pytest.mark.parametrize('code', [0xC9, 0xCB, 0xFF])
def test_a_memory_of_no_size_is_none_where_nothing_can_be_read(code):
    """It is asked for eight bytes, in ever smaller parts, and is empty."""
    fake = Odd(frus={0: b''})
    fake.odd = lambda offset, count: bytes([code])
    assert b'' == read(fake)
    assert len(fake.asked) < 8


@pytest.mark.parametrize('code', [0xC3, 0xC9, 0xFF])
def test_what_stands_before_a_place_that_cannot_be_read_is_kept(code):
    """The board area is; the product area is told, since it has a name; unless the whole is wanted."""
    start = WHOLE[4] * 8
    fake = Odd(frus={0: WHOLE})
    fake.odd = lambda offset, count: bytes([code]) if offset + count > start else None
    found = parse(read(fake))
    assert (parse(WHOLE).board, None, True) == (found.board, found.product, found.unsure)
    with pytest.raises(BmcRefused, match=f'{code:02X}h'):
        read(fake, whole=True)


def test_bytes_may_be_counted_where_words_were_asked_for():
    """The count of the answer is twice what was asked for, and so many bytes come."""
    fake = Odd(frus={0: WHOLE})
    fake.words = True
    fake.odd = lambda offset, count: bytes([0, count]) + WHOLE[offset : offset + count]
    assert parse(WHOLE) == parse(read(fake))


def test_words_may_be_told_where_bytes_are_meant():
    """As many bytes come as words were asked for: then bytes are asked for."""
    fake = Odd(frus={0: WHOLE})
    fake.words = True
    fake.odd = lambda offset, count: bytes([0, count // 2]) + WHOLE[offset // 2 :][: count // 2]
    assert parse(WHOLE) == parse(read(fake))


@pytest.mark.parametrize('answer', [b'\xc1', b'\xc2', b'\0', b'\0\0\2'])
def test_a_memory_whose_size_is_not_told_is_read_all_the_same(answer):
    """By bytes; where that is not answered either it is the first refusal that counts."""

    class Sizeless(Odd):
        def answer(self, netfn, command, data):
            return answer if command == 0x10 else super().answer(netfn, command, data)

    fake = Sizeless(frus={0: WHOLE})
    assert parse(WHOLE) == parse(read(fake))
    fake.odd = lambda offset, count: b'\xc1'
    with pytest.raises(BmcError, match='Get FRU Inventory Area Info of FRU 0'):
        read(fake)


def test_an_answer_that_has_fewer_bytes_than_it_says_is_asked_for_again_in_parts():
    """None of its bytes are taken."""
    fake = Odd(frus={0: WHOLE})
    fake.odd = lambda offset, count: bytes([0, count]) + WHOLE[offset : offset + 20] if count > 20 else None
    assert parse(WHOLE) == parse(read(fake))


@pytest.mark.parametrize('times', [1, 2, 3])
def test_a_name_that_cannot_be_believed_is_read_again(times):
    """Twice at most: a bus may have lost a bit."""
    fake, left = Odd(frus={0: WHOLE}), [times]
    damaged = changed(WHOLE, WHOLE[4] * 8 + 10)

    def odd(offset, count):
        if offset or not left[0]:
            return None
        left[0] -= 1
        return bytes([0, count]) + damaged[offset : offset + count]

    fake.odd = odd
    found = contents(fake)
    assert (times > 2) == found.unsure
    assert (parse(damaged) if times > 2 else parse(WHOLE)) == found


def test_what_names_nothing_is_not_read_again():
    """A record, and the chassis area: they cost themselves."""
    damaged = changed(changed(WHOLE, 8 + 3), WHOLE.index(CURRENT) + 5)
    fake = Fake(frus={0: damaged})
    found = contents(fake)
    assert (False, 2) == (found.unsure, len(found.faults))
    assert parse(WHOLE).product == found.product
    assert 1 == sum(asked[1] == 0x10 for asked in fake.asked)


@pytest.mark.parametrize(
    ('fields', 'board', 'faults', 'unsure'),
    [
        (text('MM') + text('Card') + text('S1') + b'\xff', ('MM', 'Card', 'S1', None), 1, False),
        (text('MM') + text('Card') + b'\xff', ('MM', 'Card', None, None), 1, False),
        (text('MM') + b'\xff', ('MM', None, None, None), 1, True),
        (b'\xff', (None, None, None, None), 1, True),
        (text('MM') + text('Card') + text('S1') + text('P1') + b'\xc0' + b'\xff', ('MM', 'Card', 'S1', 'P1'), 1, False),
        (b'\xc0' * 5, (None, None, None, None), 0, False),
    ],
)
def test_a_field_that_does_not_fit_costs_itself_and_what_follows(fields, board, faults, unsure):
    """Behind a right checksum: what was read before it is kept; a name that was not is told."""
    whole = bytes([1, 8]) + b'\x00\0\0\0' + fields
    whole = (whole + b'\xff' * 64 if faults else whole + b'\xc1')[:63].ljust(63, b'\0')
    found = parse(memory(board=whole + zero(whole)))
    assert board == (found.board.manufacturer, found.board.product, found.board.serial, found.board.part_number)
    assert (faults, unsure) == (len(found.faults), found.unsure)


@pytest.mark.parametrize(
    'nothing', ['N/A', 'n/a ', 'None', 'Unknown', 'To Be Filled By O.E.M.', 'Default string', '........', '--', '(null)']
)
def test_what_stands_for_nothing_is_none(nothing):
    """It would be a name that no table knows, and a serial number of many; the board's own name is there."""
    said = parse(memory(board=board(), product=product(nothing, nothing)))
    assert (None, None, 'Card') == (said.product.name, said.product.serial, said.board.product)
    assert (said.faults, said.unsure) == ((), False)


@pytest.mark.parametrize(
    ('data', 'unsure'),
    [
        (WHOLE, False),
        (b'\xff' * 64, True),
        (bytes(64), True),
        (b'', True),
        (memory(board=board()), False),
        (memory(), False),
        (changed(WHOLE, 8 + 3), False),
        (changed(WHOLE, 40), True),
        (changed(WHOLE, 100), True),
        (changed(WHOLE, WHOLE.index(CURRENT) + 5), False),
        (bytes.fromhex('23120c010421000800600003080b8000') + bytes(496), True),  # DDR4 SPD
        (bytes.fromhex('300810010420000800600003080b8000') + bytes(1008), True),  # DDR5 SPD
    ],
)
def test_a_name_may_stand_in_what_cannot_be_believed(data, unsure):
    """In the header, in the board area and in the product area."""
    assert unsure == parse(data).unsure


@given(st.binary(max_size=600))
def test_any_bytes_are_parsed(data):
    """Without an error, and into text that can be shown."""
    found = parse(data)
    assert found.faults or data[0] & 0x0F == 1
    assert 8 <= needed(data)


@given(st.data())
def test_any_bytes_behind_right_checksums_are_parsed(data):
    """So that hostile ones come as far as the fields."""
    bodies = [data.draw(st.binary(min_size=5, max_size=200)) for _ in range(3)]
    records = b''.join(record(data.draw(st.integers(0, 255)), data.draw(st.binary(max_size=60))) for _ in range(3))
    picmg = record(0xC0, PICMG + data.draw(st.sampled_from([b'\x16', b'\x19'])) + data.draw(st.binary(max_size=60)), last=True)
    found = parse(memory(chassis=area(bodies[0]), board=area(bodies[1]), product=area(bodies[2]), records=records + picmg))
    for part in (found.chassis, found.board, found.product):
        if part is not None:
            for value in (getattr(part, name) for name in part.__slots__):
                assert not isinstance(value, str) or value.isprintable()
    assert 4 == len(found.records)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([16, 25, 240]))
def test_any_answers_give_a_memory_or_an_error_of_ours(data, longest):
    """And the questions have an end."""

    class Chance(Fake):
        def answer(self, netfn, command, sent):
            assert len(self.asked) < 2000
            if command == 0x10:
                return b'\0' + data.draw(st.binary(min_size=2, max_size=4))
            if len(self.asked) > 60:
                return b'\xcb'
            count = sent[3]
            given = data.draw(st.sampled_from([count, count, count, 1, 0, 255]))
            body = data.draw(st.sampled_from([WHOLE[:given], WHOLE[:given] * 2, bytes(given), b'']))
            return bytes([data.draw(st.sampled_from([0, 0, 0, 0, 0, 0xC8, 0xCA, 0x81])), given]) + body

    try:
        assert fru_reader.MOST >= len(read(Chance(longest=longest)))
    except BmcError:
        return


def test_checksums_of_the_tests_are_those_of_the_specification():
    """A header from its own table: sums to zero."""
    assert b'\xfe' == zero(b'\1\0\0\1\0\0\0')
    assert 0 == sum(WHOLE[:8]) % 256

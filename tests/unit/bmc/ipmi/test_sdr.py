# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Records are read to their end whatever is reserved, refused or changed meanwhile, and locators say what they say."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.bmc.ipmi import sdr
from baremetal_acc.bmc.ipmi.sdr import (
    DEVICE,
    LOCATORS,
    REPOSITORY,
    CachedRecords,
    ControllerLocator,
    FruLocator,
    OtherSdr,
    parse,
    read,
)
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcError,
    BmcNotAuthorised,
    BmcUnreachable,
    BmcUnsupported,
)
from tests.unit.bmc.ipmi.cards import Fake, fru_locator, mc_locator, sensor


@pytest.fixture(autouse=True, scope='module')
def no_pauses():
    """Between reservations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sdr.wait, 'sleep', lambda seconds: None)
        yield


RECORDS = (sensor(1), fru_locator(2, address=0x72, fru=3, name='Card'), sensor(7), mc_locator(9, address=0x72), sensor(4))


def test_a_locator_of_an_fru_is_read_by_its_table():
    """By hand: at 72h on channel 7, FRU 3 by LUN 2, bus 1; entity C1h, instance 61h; name in six-bit ASCII."""
    record = bytes.fromhex('34 12 51 11 0e  72 03 91 70 00 10 02 c1 61 00 83 29 dc a6')
    assert FruLocator(
        number=0x1234,
        address=0x72,
        channel=7,
        logical=True,
        fru=3,
        lun=2,
        bus=1,
        device_type=0x10,
        modifier=2,
        entity=0xC1,
        instance=0x61,
        name='IPMI',
    ) == parse(record)


def test_a_locator_of_a_controller_is_read_by_its_table():
    """By hand: at 74h, with an FRU of its own (bit 3); its name as eight-bit text, and as what is called Unicode."""
    record = bytes.fromhex('01 00 51 12 0e  74 00 00 08 00 00 00 c1 62 00 c3 6d 6d 63')
    wanted = ControllerLocator(number=1, address=0x74, channel=0, fru_inventory=True, entity=0xC1, instance=0x62, name='mmc')
    assert wanted == parse(record)
    assert wanted == parse(record[:15] + b'\x03' + record[16:])


def test_a_controller_on_another_channel_may_have_no_fru():
    """By hand: at 82h on channel 7, every capability but bit 3, and reserved bits that are set."""
    found = parse(bytes.fromhex('02 00 51 12 0b  83 f7 ff f7 ff ff ff 0a 01 ff c0'))
    wanted = ControllerLocator(number=2, address=0x82, channel=7, fru_inventory=False, entity=0x0A, instance=1, name=None)
    assert wanted == found


def test_any_other_record_is_kept_by_its_kind_and_a_locator_that_is_cut_short_is_known_as_one():
    """A sensor is of no interest; that something is located there is."""
    other = parse(sensor(5))
    assert OtherSdr(number=5, kind=2, data=bytes(43)) == other
    assert not other.locates
    assert parse(RECORDS[1][:13]).locates
    assert parse(RECORDS[3][:13]).locates


@pytest.mark.parametrize('record', [RECORDS[1], RECORDS[3]])
@pytest.mark.parametrize('length', [14, 15, 16])
def test_a_locator_without_its_name_still_locates(record, length):
    """Its name could not be read, or only a part of it."""
    whole, part = parse(record), parse(record[:length])
    assert whole == replace(part, name=whole.name)
    assert part.name is None


@pytest.mark.parametrize('place', [REPOSITORY, DEVICE])
@pytest.mark.parametrize(('longest', 'most'), [(240, 255), (240, 60), (240, 34), (240, 20), (240, 5), (25, 24), (17, 16)])
def test_records_are_read_in_their_order_in_pieces_as_long_as_the_controller_gives(place, longest, most):
    """Whole where it can: then one command is enough for each."""
    fake = Fake(repository=RECORDS, device_sdrs=RECORDS, longest=longest, most=most)
    assert CachedRecords(records=RECORDS) == read(fake, place)
    if most == 255:
        gets = [asked for asked in fake.asked if asked[:2] == (place.netfn, place.get)]
        assert len(RECORDS) == len(gets)


def test_of_records_that_locate_nothing_the_header_is_enough():
    """One command each behind a slow bus; and a controller that gives whole ones is asked for whole ones."""
    slow = Fake(device_sdrs=RECORDS, longest=25, most=24)
    found = [parse(record) for record in read(slow, DEVICE, LOCATORS).records]
    assert [2, 0x11, 2, 0x12, 2] == [getattr(r, 'kind', 0x11 if isinstance(r, FruLocator) else 0x12) for r in found]
    assert parse(RECORDS[1]) == found[1]
    assert parse(RECORDS[3]) == found[3]
    assert 5 + 2 == sum(asked[:2] == (4, 0x21) for asked in slow.asked)
    quick = Fake(device_sdrs=RECORDS)
    assert len(found) == len(read(quick, DEVICE, LOCATORS).records)
    assert 5 == sum(asked[:2] == (4, 0x21) for asked in quick.asked)


@pytest.mark.parametrize('after', range(12))
def test_a_cancelled_reservation_is_made_anew_and_the_record_begun_anew(after):
    """Somebody else reserves at any moment."""
    fake = Fake(repository=RECORDS, most=20)
    fake.cancel_after = after
    assert CachedRecords(records=RECORDS) == read(fake, REPOSITORY)


def test_reservations_that_are_always_cancelled_are_given_up(monkeypatch):
    """Waiting helps: who cancels them may stop. Pauses grow, each by chance, so that two readers come apart."""
    pauses = []
    monkeypatch.setattr(sdr.wait, 'sleep', pauses.append)
    fake = Fake(repository=RECORDS)
    fake.codes = {(0x0A, 0x23): 0xC5}
    with pytest.raises(BmcBusy, match='64 reservations were cancelled'):
        read(fake, REPOSITORY)
    assert (True, True) == (max(pauses) <= sdr.LONGEST_PAUSE, len(set(pauses)) > 30)
    assert max(pauses[:3]) < sum(pauses[-20:])


class Changing(Fake):
    """A record is added after each reading, up to a number."""

    left = 1

    def answer(self, netfn, command, data):
        if (netfn, command) == (0x0A, 0x22) and self.left:
            self.left -= 1
            self.repository = (*self.repository, sensor(100 + self.left))
        return super().answer(netfn, command, data)


@pytest.mark.parametrize(('times', 'taken'), [(1, True), (2, True), (3, False)])
def test_a_repository_that_changes_meanwhile_is_read_again_three_times_at_most(times, taken):
    """What was read may have been half of the one and half of the other."""
    fake = Changing(repository=RECORDS)
    fake.left = times
    kept = read(fake, REPOSITORY)
    assert len(RECORDS) + times == len(kept.records)
    assert (() if taken else ('changed while it was read, 3 times',)) == kept.missed


def test_records_that_go_round_in_a_circle_have_an_end():
    """Two of the same number: the second is followed by what followed the first. What lies behind them is guessed, and read."""
    kept = read(Fake(device_sdrs=(sensor(1), sensor(2), sensor(1), sensor(3))), DEVICE)
    assert (sensor(1), sensor(2), sensor(3)) == kept.records
    assert ('record 0002h names 0001h as the next one, which was read before',) == kept.missed


def test_a_controller_may_have_no_records_and_no_reservations():
    """Nothing at 0000h; and a controller that reserves nothing gives whole records."""
    assert CachedRecords() == read(Fake(repository=()), REPOSITORY)
    fake = Fake(device_sdrs=RECORDS)
    fake.codes = {(0x04, 0x22): 0xC1}
    assert CachedRecords(records=RECORDS) == read(fake, DEVICE)


@pytest.mark.parametrize(
    ('codes', 'error', 'told'),
    [
        ({(0x0A, 0x23): 0xD4}, BmcNotAuthorised, 'reading the SDR repository: record 0000h'),
        ({(0x0A, 0x23): 0xC1}, BmcUnsupported, 'record 0000h'),
        ({(0x0A, 0x23): 0x00}, BmcAnswerInvalid, 'record 0000h: length 255 was requested, but 0 received'),
    ],
)
def test_a_refusal_names_the_place_and_the_record(codes, error, told):
    """So does an answer that is none."""
    fake = Fake(repository=RECORDS)
    fake.codes = codes
    with pytest.raises(error, match=told):
        read(fake, REPOSITORY)


@pytest.mark.parametrize('code', [0xD4, 0x00, 0xFF])
def test_where_no_reservation_is_given_whole_records_are_read(code):
    """They need none."""
    fake = Fake(repository=RECORDS)
    fake.codes = {(0x0A, 0x22): code}
    assert CachedRecords(records=RECORDS) == read(fake, REPOSITORY)


def test_a_record_longer_than_can_be_asked_for_is_read_as_far_as_it_can_be():
    """Its offset has one byte."""
    long = b'\1\0\x51\x02\xfb' + bytes(251)
    assert CachedRecords(records=(long[:255],)) == read(Fake(device_sdrs=(long,), most=60), DEVICE)


def test_records_without_end_are_no_more_than_some_thousand(monkeypatch):
    """Each names another one."""
    monkeypatch.setattr(sdr, 'MOST_RECORDS', 20)
    fake = Fake(device_sdrs=tuple(sensor(n) for n in range(1, 40)))
    kept = read(fake, DEVICE)
    assert (20, ('more than 20 records',)) == (len(kept.records), kept.missed)


# ------------------------------------------------------------------------------------- records that are not as they should be


def shown(records):
    """What of records matters that are read for their locators: of any other the header."""
    return tuple(record if record[3] in LOCATORS else record[:5] for record in records)


class Odd(Fake):
    """A controller whose answers to Get SDR are made by ``odd``, where that does not return None.

    :ivar odd: record id that is asked for, offset and count to completion code and data.
    :ivar said: number of records by Get SDR Repository Info; None: as many as there are.
    """

    odd = staticmethod(lambda number, offset, count: None)
    said = None

    def answer(self, netfn, command, data):
        if (netfn, command) == (0x0A, 0x20) and self.said is not None:
            return b'\0\x51' + struct.pack('<HHIIB', self.said, 100, 7, 8, 2)
        if (netfn, command) in ((0x0A, 0x23), (4, 0x21)):
            answer = self.odd(*struct.unpack('<HBB', data[2:]))
            if answer is not None:
                return answer
        return super().answer(netfn, command, data)


def refusing(number, code, *, but=0, longest=0):
    """Refuses a record; or all of it but its first bytes; or parts of it that are longer than that."""

    def odd(asked, offset, count):
        refused = asked == number and offset + count > but and not (longest and count <= longest)
        return bytes([code]) if refused else None

    return odd


@pytest.mark.parametrize('place', [REPOSITORY, DEVICE])
@pytest.mark.parametrize('code', [0xC3, 0xC8, 0xC9, 0xCA, 0xCE, 0xFF, 0x80])
@pytest.mark.parametrize('longest', [32, 8, 5, 1])
def test_smaller_parts_are_asked_for_whatever_the_refusal(place, code, longest):
    """Of that record; all that need no such thing are read as before."""
    fake = Odd(repository=RECORDS, device_sdrs=RECORDS)
    fake.odd = refusing(2, code, longest=longest)
    assert CachedRecords(records=RECORDS) == read(fake, place)
    kept = read(fake, place, LOCATORS)
    assert (shown(RECORDS), ()) == (shown(kept.records), kept.missed)


@pytest.mark.parametrize('place', [REPOSITORY, DEVICE])
@pytest.mark.parametrize('code', [0xC3, 0xCA, 0xFF])
@pytest.mark.parametrize(('number', 'but', 'lost'), [(4, 5, False), (7, 5, False), (2, 5, True), (2, 13, True), (2, 14, False)])
def test_a_record_that_can_be_read_in_part_costs_what_its_part_does_not_tell(place, code, number, but, lost):
    """Of a sensor the header is enough, of a locator all but its name: 4 is the last one, and 7 is followed by a locator."""
    fake = Odd(repository=RECORDS, device_sdrs=RECORDS)
    fake.odd = refusing(number, code, but=but)
    kept = read(fake, place, LOCATORS)
    assert lost == bool(kept.missed)
    assert [n for n in (1, 2, 7, 9, 4) if n != 2 or not lost] == [record[0] for record in kept.records]
    assert RECORDS[3] in kept.records
    assert not lost or 'record 0002h' in kept.missed[0]


@pytest.mark.parametrize('place', [REPOSITORY, DEVICE])
@pytest.mark.parametrize('code', [0xC3, 0xCB, 0xFF, 0xC0, 0xD4])
def test_a_record_of_which_nothing_can_be_read_costs_itself_alone(place, code):
    """Which one is next is not known: the ids behind it are tried."""
    records = (sensor(1), fru_locator(2, fru=3), sensor(3), fru_locator(6, fru=4), sensor(7))
    fake = Odd(repository=records, device_sdrs=records)
    fake.odd = refusing(3, code)
    kept = read(fake, place, LOCATORS)
    assert shown(records[n] for n in (0, 1, 3, 4)) == shown(kept.records)
    assert 1 == len(kept.missed)
    assert 'record 0003h' in kept.missed[0]


@pytest.mark.parametrize('code', [0xC3, 0xCB, 0xFF])
def test_the_first_record_costs_itself_alone_too(code):
    """It is asked for as 0000h; where it is not read the ids behind it are tried. Of device SDRs nobody says how many."""
    fake = Odd(repository=RECORDS, device_sdrs=RECORDS)
    fake.odd = lambda number, offset, count: bytes([code]) if number < 2 else None
    kept = read(fake, REPOSITORY, LOCATORS)
    assert (shown(RECORDS[1:]), True) == (shown(kept.records), bool(kept.missed))
    if code == 0xCB:
        assert CachedRecords() == read(fake, DEVICE, LOCATORS)
    else:
        assert shown(RECORDS[1:]) == shown(read(fake, DEVICE, LOCATORS).records)


def test_the_first_record_may_have_to_be_asked_for_by_its_own_id():
    """0000h is refused: where all that are said to be there are read under their ids nothing is missed."""
    fake = Odd(repository=(sensor(1), fru_locator(2), sensor(3)))
    fake.odd = lambda number, offset, count: b'\xc9' if not number else None
    assert () == read(fake, REPOSITORY, LOCATORS).missed
    fake.said = 4
    assert read(fake, REPOSITORY, LOCATORS).missed


def test_a_record_that_refuses_all_does_not_make_others_be_read_byte_by_byte():
    """What was learnt of it alone is forgotten."""
    fake = Odd(repository=(sensor(1), fru_locator(2), fru_locator(3), fru_locator(4)))
    fake.odd = refusing(2, 0xC9, but=5)
    kept = read(fake, REPOSITORY, LOCATORS)
    assert ([1, 3, 4], 1) == ([record[0] for record in kept.records], len(kept.missed))
    assert len(fake.asked) < 30


def test_a_junk_record_that_comes_now_and_then_is_asked_for_again():
    """Another id than was asked for, kind 00h, 100 bytes, and the first one is next; once only."""
    junk = b'\0\0\0' + struct.pack('<HBBB', 10, 0, 0, 100)
    fake, times = Odd(repository=RECORDS), [1]
    fake.odd = lambda number, offset, count: junk if number == 2 and times and times.pop() else None
    kept = read(fake, REPOSITORY, LOCATORS)
    assert (shown(RECORDS), ()) == (shown(kept.records), kept.missed)


@pytest.mark.parametrize('following', [0, 1, 0xFFFF])
def test_a_junk_record_that_stays_costs_itself_alone(following):
    """What it names as the next one is not believed; what was read before it is kept."""
    junk = struct.pack('<BHHBBB', 0, following, 10, 0, 0, 100)
    fake = Odd(repository=(sensor(1), sensor(2), fru_locator(3), mc_locator(4, address=0x72)))
    fake.odd = lambda number, offset, count: (junk if not offset and count in (5, 255) else b'\xca') if number == 2 else None
    kept = read(fake, REPOSITORY, LOCATORS)
    assert shown((sensor(1), fru_locator(3), mc_locator(4, address=0x72))) == shown(kept.records)
    assert ('record 0002h is of kind 00h, which is unknown',) == kept.missed


@pytest.mark.parametrize(('said', 'missed'), [(5, 0), (6, 1), (4, 1), (0, 1)])
def test_a_last_record_that_names_the_first_one_is_the_last_where_the_number_fits(said, missed):
    """Get SDR Repository Info says how many there are; where it says another number there may be more."""
    fake = Odd(repository=RECORDS)
    fake.said = said
    fake.odd = lambda number, offset, count: b'\0\0\0' + RECORDS[4] if number == 4 else None
    kept = read(fake, REPOSITORY, LOCATORS)
    assert (shown(RECORDS), missed) == (shown(kept.records), len(kept.missed))


def test_records_behind_one_that_calls_itself_the_last_are_found():
    """There are five, and the second one says that none follows. Where nobody counts them nobody can know."""
    records = (sensor(1), sensor(2), fru_locator(3), sensor(4), sensor(5))
    fake = Odd(repository=records, device_sdrs=records)
    fake.odd = lambda number, offset, count: b'\0\xff\xff' + records[1] if number == 2 else None
    assert CachedRecords(records=records) == read(fake, REPOSITORY)
    assert CachedRecords(records=records[:2]) == read(fake, DEVICE)


def test_fewer_records_than_are_said_to_be_there_may_hide_some():
    """A contradiction."""
    fake = Odd(repository=RECORDS)
    fake.said = 9
    assert ('the controller reports 9 records, but 5 were read',) == read(fake, REPOSITORY).missed
    fake.said = 3
    assert () == read(fake, REPOSITORY).missed, 'more than there are said to be hide nothing'


def test_records_that_all_have_another_id_are_all_there():
    """As many as there are said to be, each of them once."""
    records = tuple(struct.pack('<H', n + 100) + record[2:] for n, record in enumerate(RECORDS))

    class Other(Odd):
        def read_sdr(self, _, data):
            answer = super().read_sdr(RECORDS, data)
            if answer[0]:
                return answer
            number, offset = struct.unpack('<HB', data[2:5])
            place = [r[:2] for r in RECORDS].index(struct.pack('<H', number or 1))
            return answer[:3] + (records[place][offset:][: len(answer) - 3])

    fake = Other(repository=RECORDS)
    kept = read(fake, REPOSITORY, LOCATORS)
    assert (shown(records), ()) == (shown(kept.records), kept.missed)
    fake.said = 6
    assert 'the answer is record 0065h' in read(fake, REPOSITORY, LOCATORS).missed[0]


@pytest.mark.parametrize('refused', [0xCA, 0xFF])
def test_a_controller_may_give_whole_records_to_those_who_ask_for_parts_alone(refused):
    """A count of FFh is refused, and of any other count all is given, from the beginning."""
    fake = Odd(repository=RECORDS)

    def odd(number, offset, count):
        if count == 0xFF:
            return bytes([refused])
        return Fake.answer(fake, 0x0A, 0x23, struct.pack('<HHBB', 0, number, 0, 0xFF))

    fake.odd = odd
    assert CachedRecords(records=RECORDS) == read(fake, REPOSITORY)


def test_an_old_answer_in_place_of_a_record_hides_it():
    """Record 9 comes as record 7, whole and sound: a locator is not seen."""
    fake = Odd(repository=RECORDS)
    fake.odd = lambda number, offset, count: b'\0\x04\0' + RECORDS[2] if number == 9 else None
    kept = read(fake, REPOSITORY, LOCATORS)
    assert (shown(RECORDS[n] for n in (0, 1, 2, 4)), 1) == (shown(kept.records), len(kept.missed))


def test_what_tells_of_changes_may_go_on_while_nothing_changes():
    """The clock of some: records that are read alike twice are taken."""

    class Ticking(Odd):
        def answer(self, netfn, command, data):
            answer = super().answer(netfn, command, data)
            return answer[:6] + struct.pack('<I', len(self.asked)) + answer[10:] if command == 0x20 else answer

    assert CachedRecords(records=RECORDS) == read(Ticking(repository=RECORDS), REPOSITORY)


def test_silence_in_the_middle_keeps_what_was_read():
    """And is told, with all that may be behind it."""

    class Silent(Odd):
        def answer(self, netfn, command, data):
            if command == 0x23 and data[2:4] == b'\x07\0':
                raise BmcUnreachable(bmc=self.label, what='no answer')
            return super().answer(netfn, command, data)

    kept = read(Silent(repository=RECORDS), REPOSITORY)
    assert (RECORDS[:2], ('no answer',), True) == (kept.records, kept.missed, isinstance(kept.error, BmcUnreachable))


def test_a_controller_that_refuses_every_record_is_not_asked_for_thousands():
    """But for the first one: some ids behind it are tried."""
    fake = Odd(repository=tuple(sensor(n) for n in range(1, 200)))
    fake.odd = lambda number, offset, count: b'\xff' if number > 1 else None
    kept = read(fake, REPOSITORY, LOCATORS)
    assert 1 == len(kept.records)
    assert len(fake.asked) < 100


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_locator_is_read_or_may_be_missed(data):
    """Whatever one record answers: all other records are there, and it is, or something tells that it may be missed."""
    records = (sensor(1), fru_locator(2, fru=3), sensor(3), mc_locator(4, address=0x72), sensor(5))
    number = data.draw(st.sampled_from([2, 3, 4]))
    code = data.draw(st.sampled_from([0xC0, 0xC3, 0xC9, 0xCA, 0xCB, 0xCE, 0xD4, 0xFF, None]))
    junk = b'\0' + data.draw(st.binary(max_size=12)) if code is None else bytes([code])
    but, times = data.draw(st.integers(0, 16)), [data.draw(st.integers(1, 40))]

    def odd(asked, offset, count):
        if asked != number or offset + count <= but or not times[0]:
            return None
        times[0] -= 1
        return junk

    fake = Odd(repository=records)
    fake.odd = odd
    kept = read(fake, REPOSITORY, LOCATORS)
    assert not isinstance(kept.error, BmcUnreachable)
    assert (
        kept.missed
        or {records[1], records[3]} <= set(kept.records)
        or any(
            not record.startswith(known[:5]) or record[5:14] == known[5:14]
            for known in (records[1], records[3])
            for record in kept.records
        )
    )


@given(st.binary(max_size=80))
def test_any_bytes_are_parsed(data):
    """Without an error, and the name can be shown."""
    found = parse(data)
    name = getattr(found, 'name', None)
    assert name is None or name.isprintable()


@given(st.sampled_from([0x11, 0x12]), st.binary(min_size=9, max_size=60))
def test_any_locator_is_parsed(kind, body):
    """Its entity is there: it is one."""
    found = parse(bytes([1, 0, 0x51, kind, len(body)]) + body)
    assert 1 == found.number
    assert not isinstance(found, OtherSdr)
    assert found.name is None or found.name.isprintable()


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([16, 25, 240]))
def test_any_answers_give_records_or_an_error_of_ours(data, longest):
    """And the questions have an end, though the answers have none."""

    class Chance(Fake):
        def answer(self, netfn, command, sent):
            assert len(self.asked) < 2000
            code = data.draw(st.sampled_from([0, 0, 0, 0, 0, 0xC5, 0xC8, 0xCB]))
            following = data.draw(st.sampled_from([b'\0\0', b'\1\0', b'\2\0', b'\xff\xff']))
            header = following + b'\x51' + data.draw(st.sampled_from([b'\x02', b'\x11'])) + data.draw(st.binary(max_size=1))
            return bytes([code]) + following + data.draw(st.sampled_from([b'', header, header + bytes(20), bytes(5)]))

    try:
        for record in read(Chance(longest=longest), DEVICE, LOCATORS).records:
            parse(record)
    except BmcError:
        return

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Records are read to their end whatever is reserved, refused or changed meanwhile, and locators say what they say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.bmc.ipmi import sdr
from baremetal_acc.bmc.ipmi.sdr import DEVICE, REPOSITORY, ControllerLocator, FruLocator, OtherRecord, parse, read
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcNotAuthorised, BmcUnsupported
from tests.unit.bmc.ipmi.cards import Fake, fru_locator, mc_locator, sensor

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
    assert OtherRecord(number=5, kind=2, data=bytes(43)) == other
    assert not other.locates
    assert parse(RECORDS[1][:15]).locates
    assert parse(RECORDS[3][:15]).locates


@pytest.mark.parametrize('place', [REPOSITORY, DEVICE])
@pytest.mark.parametrize(('longest', 'most'), [(240, 255), (240, 60), (240, 34), (240, 20), (240, 5), (25, 24), (17, 16)])
def test_records_are_read_in_their_order_in_pieces_as_long_as_the_controller_gives(place, longest, most):
    """Whole where it can: then one command is enough for each."""
    fake = Fake(repository=RECORDS, device_sdrs=RECORDS, longest=longest, most=most)
    assert RECORDS == read(fake, place)
    if most == 255:
        gets = [asked for asked in fake.asked if asked[:2] == (place.netfn, place.get)]
        assert len(RECORDS) == len(gets)


def test_of_records_that_locate_nothing_the_header_is_enough():
    """One command each behind a slow bus; and a controller that gives whole ones is asked for whole ones."""
    slow = Fake(device_sdrs=RECORDS, longest=25, most=24)
    found = sdr.records(slow, DEVICE)
    assert [2, 0x11, 2, 0x12, 2] == [getattr(r, 'kind', 0x11 if isinstance(r, FruLocator) else 0x12) for r in found]
    assert parse(RECORDS[1]) == found[1]
    assert parse(RECORDS[3]) == found[3]
    assert 5 + 2 == sum(asked[:2] == (4, 0x21) for asked in slow.asked)
    quick = Fake(device_sdrs=RECORDS)
    assert len(found) == len(sdr.records(quick, DEVICE))
    assert 5 == sum(asked[:2] == (4, 0x21) for asked in quick.asked)


@pytest.mark.parametrize('after', range(12))
def test_a_cancelled_reservation_is_made_anew_and_the_record_begun_anew(after):
    """Somebody else reserves at any moment."""
    fake = Fake(repository=RECORDS, most=20)
    fake.cancel_after = after
    assert RECORDS == read(fake, REPOSITORY)


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
    if taken:
        assert len(RECORDS) + times == len(read(fake, REPOSITORY))
    else:
        with pytest.raises(BmcBusy, match='changed while it was read, 3 times'):
            read(fake, REPOSITORY)


def test_records_that_go_round_in_a_circle_are_no_records():
    """Two of the same number: the second is followed by what followed the first."""
    fake = Fake(device_sdrs=(sensor(1), sensor(2), sensor(1), sensor(3)))
    with pytest.raises(BmcAnswerInvalid, match='go round in a circle'):
        read(fake, DEVICE)


def test_a_controller_may_have_no_records_and_no_reservations():
    """Nothing at 0000h; and a controller that reserves nothing gives whole records."""
    assert () == read(Fake(repository=()), REPOSITORY)
    fake = Fake(device_sdrs=RECORDS)
    fake.codes = {(0x04, 0x22): 0xC1}
    assert RECORDS == read(fake, DEVICE)


@pytest.mark.parametrize(
    ('codes', 'error', 'told'),
    [
        ({(0x0A, 0x22): 0xD4}, BmcNotAuthorised, 'reading its SDR repository: Reserve'),
        ({(0x0A, 0x22): 0x00}, BmcAnswerInvalid, 'its reservation is cut short'),
        ({(0x0A, 0x23): 0xC1}, BmcUnsupported, 'record 0000h'),
        ({(0x0A, 0x23): 0x00}, BmcAnswerInvalid, 'record 0000h: 255 bytes were asked for, and 0 came'),
    ],
)
def test_a_refusal_names_the_place_and_the_record(codes, error, told):
    """So does an answer that is none."""
    fake = Fake(repository=RECORDS)
    fake.codes = codes
    with pytest.raises(error, match=told):
        read(fake, REPOSITORY)


def test_a_record_longer_than_can_be_asked_for_is_refused():
    """Its offset has one byte."""
    long = b'\1\0\x51\x02\xfb' + bytes(251)
    with pytest.raises(BmcAnswerInvalid, match='record 0000h would have 256 bytes'):
        read(Fake(device_sdrs=(long,), most=60), DEVICE)


def test_records_without_end_are_no_more_than_some_thousand(monkeypatch):
    """Each names another one."""
    monkeypatch.setattr(sdr, 'MOST_RECORDS', 20)
    fake = Fake(device_sdrs=tuple(sensor(n) for n in range(1, 40)))
    with pytest.raises(BmcAnswerInvalid, match='are more than 20'):
        read(fake, DEVICE)


@given(st.binary(max_size=80))
def test_any_bytes_are_parsed(data):
    """Without an error, and the name can be shown."""
    found = parse(data)
    name = getattr(found, 'name', None)
    assert name is None or name.isprintable()


@given(st.sampled_from([0x11, 0x12]), st.binary(min_size=11, max_size=60))
def test_any_locator_is_parsed(kind, body):
    """Its type/length byte is there: it is one."""
    found = parse(bytes([1, 0, 0x51, kind, len(body)]) + body)
    assert 1 == found.number
    assert not isinstance(found, OtherRecord)
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
        for record in read(Chance(longest=longest), DEVICE, sdr.LOCATORS):
            parse(record)
    except BmcError:
        return

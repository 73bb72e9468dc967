# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A machine is looked at through its locators, each FRU where its locator says that it is."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.bmc.ipmi import discovery, sdr
from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.bmc.ipmi.controller_inventory import Unread
from baremetal_acc.bmc.ipmi.controller_path import Hop, way
from baremetal_acc.bmc.ipmi.device import DeviceId, identify, parse
from baremetal_acc.bmc.ipmi.discovery import look
from baremetal_acc.bmc.ipmi.node_busy_retry import NodeBusyRetry
from baremetal_acc.errors import BmcAnswerInvalid, BmcNotAuthorised, BmcUnreachable
from tests.unit.bmc.ipmi.cards import Fake, board, fru_locator, mc_locator, memory, sensor


@pytest.fixture(autouse=True, scope='module')
def no_pauses():
    """Between reservations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sdr.wait, 'sleep', lambda seconds: None)
        yield


AMC = (Hop(channel=0, address=0x72),)
SERVER, CARD, SECOND = (memory(board=board(product=name, serial=name[:1] * 4)) for name in ('Server', 'Card', 'Second'))


def machine(**kwargs):
    """A server with a card behind 72h that has its own FRU 0 and FRU 1."""
    amc = Fake(address=0x72, frus={0: CARD, 1: SECOND}, longest=25, most=24)
    records = (
        sensor(1),
        fru_locator(2, name='Server'),
        fru_locator(3, address=0x72, name='Card'),
        fru_locator(4, address=0x72, fru=1, name='Mezzanine'),
    )
    return Fake(**{'frus': {0: SERVER}, 'repository': records, 'behind': {(0, 0x72): amc}, **kwargs})


def seen(found):
    """Of each FRU its way, number, name, and the serial number in its board area."""
    return [(f.path, f.number, f.name, f.contents.board.serial if f.contents else None) for f in found.frus]


def test_what_a_controller_says_of_itself_is_read_by_its_table():
    """By hand: device 20h revision 1 with device SDRs, being updated, 5.12 by IPMI 2.0, 12634, product 1234h."""
    data = bytes.fromhex('20 81 85 12 02 4b 5a 31 f0 34 12 01 02 03 04')
    assert DeviceId(
        device=0x20,
        revision=1,
        firmware='5.12',
        ipmi='2.0',
        updating=True,
        device_sdrs=True,
        sdr_repository=True,
        fru_inventory=True,
        bridge=True,
        manufacturer=12634,
        product=0x1234,
        auxiliary=b'\1\2\3\4',
    ) == parse(data)
    plain = parse(bytes.fromhex('20 01 05 02 51 00 5a 31 00 34 12'))
    assert ('5.02', '1.5', b'') == (plain.firmware, plain.ipmi, plain.auxiliary)
    flags = (plain.updating, plain.device_sdrs, plain.sdr_repository, plain.fru_inventory, plain.bridge)
    assert (False,) * 5 == flags


def test_an_answer_that_is_cut_short_names_the_controller():
    """And the command."""
    fake = Fake()
    fake.codes = {(6, 1): 0}
    with pytest.raises(
        BmcAnswerInvalid, match=r'BMC fake 20h: Get Device ID: the answer is too short \(length 0, minimum 11 bytes\)'
    ):
        identify(fake)


def test_each_fru_is_read_from_the_controller_that_its_locator_names():
    """FRU 0 at 72h is the card, not the server: what a client that ignores the address takes for it."""
    found = look(machine())
    assert [
        ((), 0, 'Server', 'SSSS'),
        (AMC, 0, 'Card', 'CCCC'),
        (AMC, 1, 'Mezzanine', 'SSSS'),
    ] == seen(found)
    assert () == found.unread
    assert (0xC1, 0x61) == (found.frus[1].entity, found.frus[1].instance)
    assert [(), AMC] == [controller.path for controller in found.controllers]


def test_a_controller_locator_is_enough_to_find_a_card():
    """Its capabilities say that it has an FRU."""
    bmc = machine(repository=(mc_locator(1, address=0x72, name='AMC 1'),))
    found = look(bmc)
    assert [((), 0, None, 'SSSS'), (AMC, 0, 'AMC 1', 'CCCC')] == seen(found)
    assert ('AMC 1', 0xC1) == (found.controllers[1].name, found.controllers[1].entity)


def test_a_card_may_tell_of_more_in_its_own_records():
    """Its FRU 1 stands in no record of the server."""
    bmc = machine(repository=(mc_locator(1, address=0x72),))
    own = (mc_locator(1, address=0x72), fru_locator(2, address=0x72, fru=1, name='Rear'), sensor(3))
    bmc.behind[0, 0x72].device_sdrs = own
    assert (AMC, 1, 'Rear', 'SSSS') in seen(look(bmc))


def test_a_controller_two_bridges_away_is_reached():
    """A carrier at 82h, the bus of its cards on its channel 7."""
    amc = Fake(address=0x72, frus={0: CARD}, longest=17, most=16)
    carrier = Fake(address=0x82, frus={}, device_sdrs=(mc_locator(1, address=0x72, channel=7),), behind={(7, 0x72): amc})
    carrier.most = 24
    bmc = Fake(frus={0: SERVER}, repository=(mc_locator(1, address=0x82, capabilities=0x21),), behind={(0, 0x82): carrier})
    found = look(bmc)
    path = (Hop(channel=0, address=0x82), Hop(channel=7, address=0x72))
    assert [((), 0, None, 'SSSS'), (path, 0, 'mmc', 'CCCC')] == seen(found)
    assert () == found.unread
    assert (0x0A, 0x11, b'\0\0\0\x0f', 0, False) in amc.asked, 'as much as fits through both'


def test_whatever_is_further_away_is_told():
    """It may have cards."""
    deep = Fake(address=0x74, device_sdrs=(mc_locator(1, address=0x76, channel=7),))
    middle = Fake(address=0x72, device_sdrs=(mc_locator(1, address=0x74, channel=7),), behind={(7, 0x74): deep}, most=24)
    deep.most = 15
    bmc = machine(repository=(mc_locator(1, address=0x72),), behind={(0, 0x72): middle})
    found = look(bmc)
    path = (Hop(channel=0, address=0x72), Hop(channel=7, address=0x74), Hop(channel=7, address=0x76))
    assert Unread(path=path, what='device id', reason='the controller is behind more than 2 others', hides=True) in found.unread


@pytest.mark.parametrize(
    ('path', 'channel', 'address', 'leads'),
    [
        ((), 0, 0x20, ()),
        ((), 7, 0x20, ()),
        ((), 0, 0x00, ()),
        ((), 7, 0x72, (Hop(channel=7, address=0x72),)),
        (AMC, 0, 0x72, AMC),
        (AMC, 0, 0x74, (Hop(channel=0, address=0x74),)),
        (AMC, 0, 0x20, ()),
        (AMC, 7, 0x20, AMC),
        (AMC, 7, 0x74, (*AMC, Hop(channel=7, address=0x74))),
    ],
)
def test_channel_0_of_a_card_is_the_bus_that_it_is_on(path, channel, address, leads):
    """So that two cards that know each other are not found twice."""
    assert leads == way(path, channel, address)


def test_an_empty_slot_is_absent_and_costs_one_command():
    """Its locator stays when the card is drawn."""
    bmc = machine()
    bmc.behind = {}
    found = look(bmc)
    assert [False, True] == [controller.absent for controller in found.controllers]
    assert [(False, 'SSSS'), (True, None), (True, None)] == [
        (f.absent, f.contents.board.serial if f.contents else None) for f in found.frus
    ]
    assert () == found.unread
    assert 1 == sum(asked[:2] == (6, 0x34) for asked in bmc.asked)


def test_an_fru_that_its_controller_does_not_have_is_absent():
    """Get FRU Inventory Area Info: CBh."""
    bmc = machine()
    del bmc.behind[0, 0x72].frus[1]
    assert [False, False, True] == [f.absent for f in look(bmc).frus]


def test_what_cannot_be_read_is_told_and_the_rest_is_read():
    """A card whose FRU is refused; an EEPROM that only a bus command reaches; a record that is cut short."""
    bmc = machine()
    bmc.behind[0, 0x72].codes = {(0x0A, 0x10): 0xD4}
    cut = b'\x09\x00\x51\x11\x02\x72\x00'
    bmc.repository = (*bmc.repository, fru_locator(8, fru=0xA2, access=0x01, name='Card 8'), cut)
    found = look(bmc)
    assert [((), 0, 'Server', 'SSSS'), (AMC, 0, 'Card', None), (AMC, 1, 'Mezzanine', None)] == seen(found)
    assert not any(f.absent for f in found.frus)
    assert [
        ((), 'EEPROM A2h on bus 1', True),
        ((), 'SDR repository', True),
        (AMC, 'FRU 0', True),
        (AMC, 'FRU 1', True),
    ] == [(u.path, u.what, u.hides) for u in found.unread]
    assert 'record 0009h is truncated' == found.unread[1].reason
    assert 'refused (D4h)' in found.unread[2].reason


def test_a_bmc_that_bridges_nothing_tells_that_cards_may_be_hidden():
    """An ordinary answer."""
    bmc = machine()
    bmc.codes = {(6, 0x34): 0xC1}
    found = look(bmc)
    assert [((), 0, 'Server', 'SSSS'), (AMC, 0, 'Card', None), (AMC, 1, 'Mezzanine', None)] == seen(found)
    assert [(AMC, 'device id', True)] == [(u.path, u.what, u.hides) for u in found.unread]
    assert not found.controllers[1].absent


def test_records_that_cannot_be_read_may_hide_cards():
    """The server itself is still read."""
    bmc = machine()
    bmc.codes = {(0x0A, 0x23): 0xD4}
    found = look(bmc)
    assert [((), 0, None, 'SSSS')] == seen(found)
    assert [((), 'SDR repository', True)] == [(u.path, u.what, u.hides) for u in found.unread]


class Silent(Fake):
    """Answers no more after some commands; or only never over its bridge."""

    left = 1000
    bridges = True

    def __call__(self, netfn, command, data=b'', **kwargs):
        self.left -= 1
        if self.left < 0 or (command == 0x34 and not self.bridges):
            raise BmcUnreachable(bmc=self.label, what='no answer')
        return super().__call__(netfn, command, data, **kwargs)


def test_a_bmc_that_falls_silent_is_not_asked_for_all_the_rest():
    """Two more waits at most: what was asked, and whether it is still there."""
    bmc = Silent(frus=dict.fromkeys(range(20), SERVER), repository=tuple(fru_locator(n, fru=n) for n in range(1, 20)))
    bmc.left = 30
    with pytest.raises(BmcUnreachable):
        look(bmc)
    assert -2 == bmc.left


def test_a_card_that_does_not_answer_is_not_absent():
    """It may be restarting: the server is there."""
    bmc = Silent(frus={0: SERVER}, repository=(mc_locator(1, address=0x72),))
    bmc.bridges = False
    found = look(bmc)
    assert [(AMC, 'device id', True)] == [(u.path, u.what, u.hides) for u in found.unread]
    assert [False, False] == [controller.absent for controller in found.controllers]


def test_a_bmc_that_does_not_say_what_it_is_is_no_machine():
    """There is nothing to tell."""
    bmc = machine()
    bmc.codes = {(6, 1): 0xD4}
    with pytest.raises(BmcNotAuthorised):
        look(bmc)


@pytest.mark.parametrize(('name', 'told'), [('MOST_CONTROLLERS', 'controllers'), ('MOST_FRUS', 'FRUs')])
def test_there_are_no_more_than_can_be(monkeypatch, name, told):
    """A hostile BMC tells of thousands."""
    monkeypatch.setattr(discovery, name, 3)
    found = look(Fake(frus={0: SERVER}, repository=tuple(mc_locator(n, address=2 * n) for n in range(20, 60))))
    assert 3 == len(found.controllers if name == 'MOST_CONTROLLERS' else found.frus)
    assert any(u.hides and f'more than 3 {told}' in u.reason for u in found.unread)


def test_commands_have_an_end(monkeypatch):
    """What is not read then is told: first the controller, then the FRUs."""
    monkeypatch.setattr(discovery, 'MOST_COMMANDS', 8)
    bmc = machine()
    found = look(bmc)
    assert 8 == len(bmc.asked)
    assert [(AMC, 'device id', True), ((), 'FRU 0', True)] == [(u.path, u.what, u.hides) for u in found.unread]
    assert {'the limit of 8 commands was reached before everything was read'} == {u.reason for u in found.unread}


def test_two_machines_of_one_model_have_their_own_cards():
    """Nothing is remembered."""
    two, one = machine(), machine(repository=(fru_locator(2, name='Server'),))
    assert [3, 1, 3] == [len(look(bmc).frus) for bmc in (two, one, two)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_answers_give_a_look_or_an_error_of_ours(data):
    """A BMC that answers by chance, to a bounded number of questions."""

    class Chance:
        label = 'chance'
        longest = 60
        asked = 0

        def __call__(self, netfn, command, sent=b'', *, lun=0, once=False, within=None):
            self.asked += 1
            assert self.asked < 1000
            if (netfn, command) == (6, 1):
                return CommandReply(0, b'\x20\x81\x01\x02\x02\xff' + bytes(9))
            if self.asked > 40:
                return CommandReply(0xC1)
            return CommandReply(data.draw(st.sampled_from([0, 0, 0, 0, 0xC5, 0xC8, 0xCB])), data.draw(st.binary(max_size=30)))

    try:
        found = look(Chance())
    except (BmcAnswerInvalid, BmcUnreachable):
        return
    assert () == found.controllers[0].path


class Luns(Fake):
    """A server that has another FRU 3 on LUN 1, and reads it there."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.there = {0: dict(self.frus), 1: {3: SECOND}}

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        self.frus = self.there[lun]
        return super().__call__(netfn, command, data, lun=lun)


def test_a_number_stands_for_another_fru_on_another_lun():
    """What a second locator of that number spoke of was lost, without a gap."""
    records = (fru_locator(1, fru=3, name='Card'), fru_locator(2, fru=3, access=0x88, name='Other'))
    found = look(Luns(frus={0: SERVER, 3: CARD}, repository=records))
    assert [(0, 0, 'SSSS'), (3, 0, 'CCCC'), (3, 1, 'SSSS')] == [(f.number, f.lun, f.contents.board.serial) for f in found.frus]
    assert () == found.unread


def test_an_fru_on_another_lun_that_cannot_be_read_may_be_a_card():
    """It is told with its LUN."""
    machine = Luns(frus={0: SERVER, 3: CARD}, repository=(fru_locator(2, fru=3, access=0x88, name='Other'),))
    machine.there[1] = {}
    found = look(machine)
    assert [True] == [f.absent for f in found.frus if f.lun]
    machine.codes[0x0A, 0x11] = 0xFF
    machine.there[1] = {3: SECOND}
    found = look(machine)
    assert {('FRU 0', False), ('FRU 3 on LUN 1', True)} == {(gap.what, gap.hides) for gap in found.unread}


def test_of_two_locators_of_one_fru_the_one_of_a_card_counts():
    """One says that it is memory, the other one that it is an add-in card: it may be a card, whichever comes first."""
    memory_module = fru_locator(1, fru=3, name='DIMM', entity=0x20)
    card = fru_locator(2, fru=3, name='Slot 3', entity=0x0B)
    for records in ((memory_module, card), (card, memory_module)):
        bmc = Fake(frus={0: SERVER, 3: bytes(64)}, repository=records)
        assert ['Slot 3'] == [f.name for f in look(bmc).frus if f.number == 3]


@pytest.mark.parametrize(('entity', 'hides'), [(0x0A, False), (0x0F, False), (0x07, True), (0x2E, True), (0xC1, True)])
def test_a_controller_of_a_power_supply_knows_no_cards(entity, hides):
    """It does not answer; an FRU of a card that is said to be behind it is told by itself."""
    locators = (mc_locator(1, address=0x72, entity=entity), fru_locator(2, address=0x72, fru=1, entity=0x0B, name='Slot 3'))
    bmc = Fake(frus={0: SERVER}, repository=locators)
    bmc.codes = {(6, 0x34): 0xFF}
    found = look(bmc)
    assert ('device id', hides) in [(u.what, u.hides) for u in found.unread]
    assert hides or ('FRU 1', True) in [(u.what, u.hides) for u in found.unread]


class Momentary(Fake):
    """FRU commands about some FRUs are refused: by number the code, and how often; what lies on LUN 0."""

    refused = ()

    def answer(self, netfn, command, data):
        if netfn == 0x0A and command in (0x10, 0x11) and data[0] in self.refused:
            code, left = self.refused[data[0]]
            if left:
                self.refused[data[0]] = code, left - 1
                return bytes([code])
        return super().answer(netfn, command, data)


class Time:
    """Passes by sleeping."""

    now = 0.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize('code', [0x81, 0xC0, 0xC3, 0xD2])
def test_an_empty_bay_that_is_busy_for_ever_does_not_use_up_the_patience_with_a_card(code):
    """The bay comes first, the card is busy three times: it is read, and the bay is no matter."""
    records = (fru_locator(1, fru=1, entity=0x0F, name='BP'), fru_locator(2, fru=2, entity=0x0B, name='Slot'))
    bmc = Momentary(frus={0: SERVER, 1: SECOND, 2: CARD}, repository=records)
    bmc.refused = {1: (code, 10**6), 2: (code, 3)}
    time = Time()
    found = look(bmc, NodeBusyRetry(timedelta(seconds=5), clock=time.clock, sleep=time.sleep))
    assert [(0, True), (1, False), (2, True)] == [(f.number, f.contents is not None) for f in found.frus]
    assert [('FRU 1', False)] == [(u.what, u.hides) for u in found.unread]
    assert time.now < 2

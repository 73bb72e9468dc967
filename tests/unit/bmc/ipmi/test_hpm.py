# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HPM.1 against a controller of these tests, with the habits that one meets.

The controller is written from doc/source/reference/ipmi_notes.rst, "Commands of HPM.1" and "Upload by HPM.1".
"""

import hashlib
import struct
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.bmc.ipmi.hpm import activation, commands, upgrade_target
from baremetal_acc.bmc.ipmi.hpm.activation import UpgradeStatus
from baremetal_acc.bmc.ipmi.hpm.commands import HpmCommand, Rollback, SelfTest, Status
from baremetal_acc.bmc.ipmi.hpm.image import ActionKind, Version, parse
from baremetal_acc.bmc.ipmi.hpm.upload import step, turn
from baremetal_acc.bmc.ipmi.hpm.upload_block import FirmwareBlock, block_size
from baremetal_acc.bmc.ipmi.hpm.upload_state import UploadStage, begin, paused, resumed
from baremetal_acc.errors import (
    AccError,
    BmcAnswerInvalid,
    BmcBusy,
    BmcError,
    BmcNotAuthorised,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
    WriteFailed,
)
from baremetal_acc.model.inventory import TaskState

FIRMWARE = bytes(n * 7 & 0xFF for n in range(20_000))
OLD, NEW = bytes([1, 0x04, 0, 0, 0, 0]), bytes([1, 0x05, 0, 0, 0, 42])
WANTED = Version(major=1, minor=5, aux=b'\0\0\0\x2a')
NONE = b'\xff' * 6


def image(firmware=FIRMWARE, *, records=(0, 1), component=2):
    """An image of one component, with the actions before the upload."""
    raw = b'PICMGFWU\0\x35' + b'\xb7\xa2\0\x34\x12' + bytes(4) + bytes([0, 1 << component, 2, 3, 12, 1, 0]) + NEW + b'\0\0'
    raw += bytes([-sum(raw) & 0xFF])
    for kind in (*records, 2):
        head = bytes([kind, 1 << component])
        raw += head + bytes([-sum(head) & 0xFF])
    raw += NEW + b'PYLD FPGA'.ljust(21, b'\0') + struct.pack('<I', len(firmware)) + firmware
    return parse(raw + hashlib.md5(raw).digest(), 'fpga')


@dataclass
class Clock:
    """Time that passes only by sleeping."""

    now: float = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@dataclass
class Controller:
    """A target with one component, 2, behind a session. Long commands end when the clock says so.

    :ivar lost: numbers of requests whose answer is lost, though they are done; ``dropped``: that never arrive.
    :ivar codes: numbers of requests that are answered with a code and not done.
    :ivar most: bytes of a block at most; longer ones are refused, or lost where ``swallows``.
    :ivar sections: what the answers to blocks ask for next, by the block's place in the upload.
    """

    clock: Clock = field(default_factory=Clock)
    longest: int = 900
    most: int = 10_000
    too_long: int = 0xC7
    swallows: bool = False
    hpm2: int = 0
    general: int = 0x2D
    takes: float = 0.0
    blocks_take: float = 0.0
    lost: frozenset = frozenset()
    dropped: frozenset = frozenset()
    codes: dict = field(default_factory=dict)
    sections: dict = field(default_factory=dict)
    finish: int = 0
    label: str = 'host (192.0.2.1)'
    log: list = field(default_factory=list)
    opened: bool = False
    last: int | None = None
    got: bytearray = field(default_factory=bytearray)
    blocks: int = 0
    running: tuple = (0, 0.0, 0)
    versions: list = field(default_factory=lambda: [OLD, NONE, NONE])
    repeated: int = 0
    onces: list = field(default_factory=list)

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        assert len(data) <= self.longest
        number = len(self.log)
        self.log.append((netfn, command, bytes(data)))
        self.onces.append(once)
        if number in self.dropped:
            raise BmcUnreachable(bmc=self.label, what='no answer')
        if number in self.codes:
            return CommandReply(self.codes[number])
        if self.swallows and command == 0x32 and len(data) - 2 > self.most:
            raise BmcUnreachable(bmc=self.label, what='no answer')
        reply = self.answer(netfn, command, bytes(data))
        if number in self.lost:
            raise BmcUnreachable(bmc=self.label, what='no answer')
        return reply

    def answer(self, netfn, command, data):
        if netfn == 0x0C:
            assert (0x02, bytes([0x0E, 0xC4, 0, 0])) == (command, data)
            return CommandReply(0, bytes([0x11, 0, 1, 1]) + struct.pack('<HH', self.hpm2, self.hpm2))
        assert (0x2C, 0) == (netfn, data[0])
        if command == 0x3E:
            if not self.hpm2:
                return CommandReply(0xC1)
            assert b'\0\2' == data
            return CommandReply(0, bytes([0, 2, 1, 2, 0, 0, 0xC4, 1, 0xD0, 1]))
        what, until, code = self.running
        busy = self.clock.now < until
        if command == 0x34:
            return CommandReply(0, bytes([0, what, 0x80 if busy else code]))
        if command == 0x2E:
            return CommandReply(0, bytes([0, 0, 0x6F, 12, 2, 3, 4, 0x04]))
        if command == 0x2F:
            return self.properties(data)
        if busy:
            return CommandReply(0xC0)
        return self.write(command, data)

    def properties(self, data):
        if data[1] != 2:
            return CommandReply(0x82)
        if data[2] == 0:
            return CommandReply(0, bytes([0, self.general]))
        if data[2] == 2:
            return CommandReply(0, b'\0PYLD FPGA\0\0\0')
        return CommandReply(0, b'\0' + self.versions[{1: 0, 3: 1, 4: 2}[data[2]]])

    def long(self, command, seconds, code=0):
        self.running = (command, self.clock.now + seconds, code)
        return CommandReply(0x80 if seconds else code, b'\0')

    def write(self, command, data):
        if command == 0x30:
            self.opened = False
            return CommandReply(0, b'\0')
        if command == 0x31:
            if data[1] != 4:
                return CommandReply(0x81)
            if data[2] == 2:
                self.opened, self.last, self.got, self.blocks = True, None, bytearray(), 0
            return self.long(command, self.takes if data[2] < 2 else 0)
        if command == 0x32:
            return self.block(data[1], data[2:])
        if command == 0x33:
            assert 2 == data[1]
            if not self.opened:
                return CommandReply(0xD5)
            if int.from_bytes(data[2:6], 'little') != len(self.got):
                return CommandReply(0x81)
            self.opened = False
            if not self.finish:
                self.versions[2] = NEW
            return self.long(command, self.takes, self.finish)
        raise AssertionError(command)

    def block(self, number, block):
        if not self.opened:
            return CommandReply(0xD5)
        if len(block) > self.most:
            return CommandReply(self.too_long)
        if number == self.last:
            self.repeated += 1
        elif number != (0 if self.last is None else self.last + 1 & 0xFF):
            return CommandReply(0xCC)
        else:
            self.last = number
            self.got += block
            self.blocks += 1
        if self.blocks_take:
            return self.long(0x32, self.blocks_take)
        section = self.sections.get(self.blocks - 1)
        return CommandReply(0, b'\0' + (struct.pack('<II', *section) if section else b''))

    def count(self, command):
        return sum(1 for _, sent, _ in self.log if sent == command)


def started(controller, made=None, size=None):
    """The upload of the image's component."""
    made = made or image()
    target = upgrade_target.read_capabilities(controller)
    (part,) = upgrade_target.read_components(controller, target)
    transfer = begin(made, made.uploads[0], target, part.properties, FirmwareBlock(size) if size else block_size(controller))
    controller.log.clear()
    controller.onces.clear()
    return transfer


def uploaded(controller, made=None, size=None, within=3600):
    """An upload to its end."""
    return turn(
        controller,
        started(controller, made, size),
        clock=controller.clock,
        sleep=controller.clock.sleep,
        within=timedelta(seconds=within),
    )


def standing(**kwargs):
    """A component that runs the old version."""
    part = commands.HpmComponent(number=2, properties=None, name=None, current=None, rollback=None, deferred=None)
    old = Version(major=1, minor=4)
    return UpgradeStatus(**{'status': Status(command=0x35, code=0), 'component': replace(part, current=old), **kwargs})


# ------------------------------------------------------------------------------------------------------------- layouts


def test_requests_have_the_bytes_of_the_standard():
    """Facts, section 3: the body code first, numbers little-endian."""
    assert '00' == commands.encode_plain().hex()
    assert '000203' == commands.encode_properties(2, commands.Selector.ROLLBACK).hex()
    assert '000401' == commands.encode_initiate(frozenset({2}), ActionKind.PREPARE).hex()
    assert '00ff0102' == commands.encode_block(0xFF, b'\1\2').hex()
    assert '0000' == commands.encode_block(0x100, b'').hex()
    assert '000204030201' == commands.encode_finish(2, 0x01020304).hex()
    assert ('00', '0001') == (commands.encode_activate().hex(), commands.encode_activate(override_auto_rollback=True).hex())
    assert ('0002', '0ec00000') == (commands.encode_hpm2_capabilities().hex(), commands.encode_lan_parameter(0xC0).hex())


def test_answers_are_read_as_the_standard_has_them():
    """Facts, section 3."""
    found = commands.parse_capabilities(bytes.fromhex('00 00 47 0c 02 03 04 85'), 'b')
    assert frozenset({0, 2, 7}) == found.components
    assert [60, 10, 15, 20] == [t.total_seconds() for t in (found.upgrade, found.self_test, found.rollback, found.inaccessible)]
    features = (
        commands.ComponentFeature.SELF_TEST
        | commands.ComponentFeature.AUTO_ROLLBACK
        | commands.ComponentFeature.MANUAL_ROLLBACK
    )
    assert features | commands.ComponentFeature.AUTO_ROLLBACK_OVERRIDE == found.features
    general = commands.parse_general(b'\0\x26', 'b')
    assert (True, True, False, False, True) == (
        general.rollback,
        general.prepare,
        general.compare,
        general.deferred,
        general.cold_reset,
    )
    assert WANTED == commands.parse_version(b'\0' + NEW, 'b')
    assert commands.parse_version(b'\0' + NONE, 'b') is None
    assert 'PYLD FPGA' == commands.parse_name(b'\0PYLD FPGA\0\0\0', 'b')
    assert (0x100, 0x20) == commands.parse_section(bytes.fromhex('00 00010000 20000000'), 'b')
    assert commands.parse_section(b'\0', 'b') is None
    assert commands.parse_section(bytes(9), 'b') is None
    assert Status(command=0x31, code=0x80, percent=40) == commands.parse_status(b'\0\x31\x80\x28', 'b')
    assert Status(command=0x31, code=0x80) == commands.parse_status(b'\0\x31\x80\x7f', 'b')
    assert (0x0102, 0xC4) == commands.parse_hpm2_capabilities(bytes([0, 2, 1, 2, 1, 0, 0xC4, 1, 0xD0, 1]), 'b')
    assert 1024 == commands.parse_lan_parameter(bytes([0x11, 0, 1, 1, 0, 4, 0, 4]), 'b')


def test_self_tests_and_rollbacks_are_read_with_their_completion_codes():
    """80h goes on; D5h: there was none; results 55h, 57h and 60h."""
    results = {(0x80, ''): 'running', (0xD5, ''): 'none', (0xC1, ''): 'none', (0x81, ''): 'failed'}
    results |= {(0, '005500'): 'passed', (0, '005704'): 'failed', (0, '006004'): 'failed'}
    for (code, data), wanted in results.items():
        assert wanted == commands.parse_self_test(CommandReply(code, bytes.fromhex(data)), 'b')[0].value
    assert 'the self-test failed for component 2' == commands.parse_self_test(CommandReply(0, b'\0\x60\4'), 'b')[1]
    backs = {0x80: 'running', 0x81: 'failed', 0x82: 'overridden', 0x83: 'denied', 0xD5: 'none'}
    for code, wanted in backs.items():
        assert wanted == commands.parse_rollback(CommandReply(code), 'b')[0].value
    assert (Rollback.DONE, frozenset({2})) == commands.parse_rollback(CommandReply(0, b'\0\4'), 'b')
    assert (Rollback.NONE, frozenset()) == commands.parse_rollback(CommandReply(0, b'\0\0'), 'b')


PARSERS = (
    commands.parse_capabilities,
    commands.parse_general,
    commands.parse_version,
    commands.parse_name,
    commands.parse_section,
    commands.parse_status,
    commands.parse_hpm2_capabilities,
    commands.parse_lan_parameter,
    lambda data, bmc: commands.parse_self_test(CommandReply(0, data), bmc),
    lambda data, bmc: commands.parse_rollback(CommandReply(0, data), bmc),
)


@given(st.binary(max_size=40), st.booleans())
def test_any_answer_is_read_or_refused_with_a_name(data, body):
    """No other exception leaves a parser."""
    for parser in PARSERS:
        with suppress(BmcAnswerInvalid, BmcUnsupported):
            parser(b'\0' + data if body else data, 'b')


def test_another_body_code_is_no_answer():
    """It was somebody else's command."""
    with pytest.raises(BmcAnswerInvalid, match='Get Upgrade Status: the answer does not have the body code of PICMG'):
        commands.parse_status(b'\xdc\x31\x00', 'b')


# ------------------------------------------------------------------------------------------------------------- reading


def test_components_are_listed_with_what_runs_and_what_waits():
    """The inventory's part."""
    controller = Controller(general=0x3D, versions=[OLD, NEW, NONE])
    (found,) = upgrade_target.read_components(controller, upgrade_target.read_capabilities(controller))
    assert (2, 'PYLD FPGA', '1.04', WANTED, None) == (
        found.number,
        found.name,
        found.current.text,
        found.rollback,
        found.deferred,
    )
    assert (True, ()) == (found.properties.cold_reset, found.unread)


def test_a_version_that_the_component_cannot_have_is_not_asked_for():
    """No rollback, nothing deferred."""
    controller = Controller(general=0)
    upgrade_target.read_component(controller, 2)
    assert [0, 1, 2] == [data[2] for _, _, data in controller.log]


def test_what_a_component_refuses_to_say_is_told():
    """81h: not over this interface. 83h: there is no such property, which is no fault."""
    controller = Controller(general=0x11, codes={0: 0x81, 2: 0x83, 3: 0xCC})
    found = upgrade_target.read_component(controller, 2)
    assert (None, None, None) == (found.properties, found.name, found.rollback)
    assert (
        'Get Component Properties of component 2, general: refused with completion code 81h',
        'Get Component Properties of component 2, rollback: refused with completion code CCh',
    ) == found.unread


@pytest.mark.parametrize('code', [0xC1, 0xC2, 0x81])
def test_a_controller_without_hpm_1_is_an_ordinary_answer(code):
    """OpenBMC, ipmi_sim, most others."""
    assert upgrade_target.read_capabilities(Controller(codes={0: code})) is None


def test_a_controller_that_may_not_be_asked_is_an_error():
    """That is not the same as having none."""
    with pytest.raises(BmcNotAuthorised):
        upgrade_target.read_capabilities(Controller(codes={0: 0xD4}))
    with pytest.raises(BmcUnreachable):
        upgrade_target.read_capabilities(Controller(dropped=frozenset({0})))


@pytest.mark.parametrize(
    ('longest', 'hpm2', 'size'), [(900, 0, 898), (900, 512, 503), (900, 4096, 898), (900, 5, 898), (25, 512, 23), (2, 0, 1)]
)
def test_the_first_block_is_as_long_as_hpm_2_or_the_session_says(longest, hpm2, size):
    """HPM.2 counts seven bytes of the message around the data; nonsense of it is not believed."""
    assert size == block_size(Controller(longest=longest, hpm2=hpm2)).size


# ------------------------------------------------------------------------------------------------------------- uploads


def test_an_upload_is_look_backup_prepare_open_blocks_finish():
    """In this order, each once, nothing activated; only a look and blocks may be sent again by the session."""
    controller = Controller()
    assert uploaded(controller).staged
    orders = [(command, data.hex()) for _, command, data in controller.log if command != 0x32]
    assert [(0x34, '00'), (0x31, '000400'), (0x31, '000401'), (0x31, '000402'), (0x33, '0002204e0000')] == orders
    assert FIRMWARE == controller.got
    assert 23 == controller.count(0x32)
    assert [command not in (0x32, 0x34) for _, command, _ in controller.log] == controller.onces


def test_actions_that_the_component_does_not_have_are_left_out():
    """And those that the image does not ask for."""
    controller = Controller(general=0)
    uploaded(controller)
    assert [2] == [data[2] for _, command, data in controller.log if command == 0x31]
    controller = Controller()
    uploaded(controller, image(records=()))
    assert [2] == [data[2] for _, command, data in controller.log if command == 0x31]


def test_a_further_component_of_an_image_is_uploaded_without_abort():
    """Abort would throw away what is staged and waits for the same activation."""
    controller = Controller()
    made = image(records=())
    target = upgrade_target.read_capabilities(controller)
    part = upgrade_target.read_component(controller, 2)
    transfer = begin(made, made.uploads[0], target, part.properties, FirmwareBlock(898), further=True)
    controller.log.clear()
    done = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert done.staged
    assert (0x31, '000402') == (controller.log[0][1], controller.log[0][2].hex())
    assert 0 == controller.count(0x30)


def test_block_numbers_wrap():
    """After 255 comes 0."""
    controller = Controller()
    uploaded(controller, size=23)
    assert FIRMWARE == controller.got
    assert 870 == controller.blocks


def test_long_commands_are_watched_once_a_second_after_a_quick_beginning():
    """80h: Get Upgrade Status until it ends, and nothing else: at once, after 20 ms, then twice that, up to a second."""
    controller = Controller(takes=20)
    assert uploaded(controller).staged
    assert FIRMWARE == controller.got
    assert 1 + 3 * 27 == controller.count(0x34)
    assert 1060 <= controller.clock.now < 1063


def test_a_command_that_has_ended_when_it_is_looked_at_costs_no_time():
    """A controller says of each block that it goes on, and has done it when it is asked: nobody sleeps a second for each."""
    controller = Controller(blocks_take=1e-6)
    assert uploaded(controller, size=256).staged
    assert (FIRMWARE, 79) == (controller.got, controller.blocks)
    assert controller.clock.now < 1002


def test_blocks_may_take_long_too():
    """Each is watched to its end, and written once."""
    controller = Controller(blocks_take=1.5)
    assert uploaded(controller).staged
    assert (FIRMWARE, 0) == (controller.got, controller.repeated)


@pytest.mark.parametrize('most', [1, 7, 23, 36, 64, 200, 255, 512, 897, 898])
@pytest.mark.parametrize('code', [0xC7, 0xC8])
def test_blocks_get_as_long_as_the_controller_takes_them(most, code):
    """Backing off loses nothing, and the blocks grow again to nearly what is taken."""
    controller = Controller(most=most, too_long=code)
    made = image(FIRMWARE[:5000])
    transfer = uploaded(controller, made)
    assert FIRMWARE[:5000] == controller.got
    assert transfer.taken >= most - max(8, most // 8)


def test_blocks_that_are_swallowed_are_sent_shorter():
    """A controller that drops what is too long says nothing: the upload is opened again with blocks that any bridge carries."""
    controller = Controller(most=64, swallows=True)
    assert uploaded(controller).staged
    assert FIRMWARE == controller.got


@given(st.sets(st.integers(0, 60), max_size=12), st.sets(st.integers(0, 60), max_size=12))
def test_lost_requests_and_answers_change_nothing(lost, dropped):
    """A block is sent again with its number and written once; of all else the status is looked at."""
    controller = Controller(lost=frozenset(lost), dropped=frozenset(dropped))
    # What is asked before the upload is not part of it.
    quiet = Controller()
    transfer = started(quiet, size=500)
    done = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert done.staged
    assert FIRMWARE == controller.got


def test_a_finish_whose_answer_was_lost_is_looked_at_and_not_repeated():
    """A second one would be refused: there is no upload any more."""
    controller = Controller(takes=3)
    transfer = started(controller, size=10_000)
    controller.longest = 20_000
    whole = Controller(takes=3, longest=20_000)
    uploaded(whole, size=10_000)
    controller.lost = frozenset({next(n for n, sent in enumerate(whole.log) if sent[1] == 0x33)})
    done = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert done.staged
    assert (1, FIRMWARE) == (controller.count(0x33), controller.got)


def test_a_block_that_is_lost_in_the_middle_does_not_begin_it_again():
    """It is sent again with its number, however long it takes."""
    controller = Controller()
    transfer = started(controller)
    controller.lost = frozenset({10, 12})
    controller.dropped = frozenset({15})
    done = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert done.staged
    assert (3, 2) == (controller.count(0x31), controller.repeated)
    assert FIRMWARE == controller.got


@pytest.mark.parametrize('code', [0xC0, 0xC3, 0xD3, 0xFF])
def test_a_controller_that_is_busy_or_away_is_asked_again(code):
    """For each command once."""
    controller = Controller(codes=dict.fromkeys(range(0, 60, 3), code))
    quiet = Controller()
    transfer = started(quiet)
    done = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert done.staged
    assert FIRMWARE == controller.got


def test_patience_with_a_controller_that_stays_away_has_an_end():
    """As long as the target says that an upgrade command takes, 60 s here."""
    controller = Controller()
    transfer = started(controller)
    controller.dropped = frozenset(range(10_000))
    with pytest.raises(WriteFailed, match='no answer, for longer than the timeout of 60 s') as caught:
        turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert 'upload (abort)' in str(caught.value)
    assert 'nothing was activated' in str(caught.value)
    assert 1070 > controller.clock.now


def test_patience_with_a_command_that_goes_on_has_an_end():
    """80h for ever."""
    controller = Controller(takes=10_000)
    with pytest.raises(WriteFailed, match='Initiate Upgrade Action is in progress, for longer than the timeout of 60 s'):
        uploaded(controller)


def test_an_upload_can_be_carried_on_in_pieces():
    """A job's loop gives each turn a few seconds; steps need no sleep of ours."""
    controller = Controller(takes=20)
    transfer = started(controller)
    turns = 0
    while not transfer.staged:
        turns += 1
        transfer = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(seconds=5))
        assert transfer.percent < 100 or transfer.staged
    assert (13, 100) == (turns, transfer.percent)
    before = len(controller.log)
    assert transfer == step(controller, transfer, controller.clock())
    assert before == len(controller.log)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            'most': st.sampled_from([7, 23, 36, 200, 897]),
            'lost': st.frozensets(st.integers(0, 60), max_size=6),
            'dropped': st.frozensets(st.integers(0, 60), max_size=6),
            'codes': st.dictionaries(
                st.integers(0, 50), st.sampled_from([0x80, 0x82, 0xC0, 0xC3, 0xC7, 0xD3, 0xFF]), max_size=3
            ),
            'sections': st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 3000), st.integers(0, 200)), max_size=2),
            'blocks_take': st.sampled_from([0.5, 1.5]),
        },
    ),
    st.sampled_from([36, 98, 898]),
)
def test_a_turn_sends_what_its_steps_would_send(habits, size):
    """It sends blocks in rows, and nobody can tell: the same commands, the same end, the same time."""
    made = image(FIRMWARE[:3000])

    def end(controller, go):
        transfer = started(Controller(), made, size)
        try:
            transfer, error = go(controller, transfer), None
        except AccError as exc:
            transfer, error = None, str(exc)
        return transfer, error, controller.log, controller.clock.now

    def by_steps(controller, transfer):
        while not transfer.staged:
            transfer = step(controller, transfer, controller.clock())
            controller.clock.sleep(transfer.pause.total_seconds())
        return transfer

    def by_turn(controller, transfer):
        return turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=9))

    assert end(Controller(**habits), by_steps) == end(Controller(**habits), by_turn)


def test_a_turn_ends_in_time_though_each_block_is_taken():
    """A block takes 0.1 s, so that a turn of 5 s has fifty."""
    controller = Controller()
    transfer = started(controller, size=23)
    answer = controller.answer
    controller.answer = lambda *sent: controller.clock.sleep(0.1) or answer(*sent)
    for sent in (46, 96, 146):  # the first turn has four commands before its blocks
        transfer = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(seconds=5))
        assert sent == controller.count(0x32)
        assert (23 * sent, sent, 23 * sent) == (transfer.sent, transfer.number, transfer.offset)


def test_an_upload_that_was_broken_off_begins_again_with_abort():
    """Nothing of it survives a restart, and nothing has to."""
    controller = Controller()
    transfer = started(controller, size=100)
    for _ in range(20):
        transfer = step(controller, transfer, controller.clock())
    assert UploadStage.SEND is transfer.stage
    assert uploaded(controller).staged
    assert [0x34, 0x30] == [command for _, command, _ in controller.log[:2]]
    assert FIRMWARE == controller.got


@pytest.mark.parametrize(('code', 'aborts'), [(0xC1, 1), (0xD5, 1), (0x00, 0)])
def test_abort_is_sent_where_something_was_begun_or_nobody_knows(code, aborts):
    """Some controllers restart after it: without need it is not sent."""
    controller = Controller()
    transfer = started(controller)
    controller.codes = {0: code} if code else {}
    done = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert (True, aborts) == (done.staged, controller.count(0x30))


@pytest.mark.parametrize(('told', 'ends'), [(0, True), (907, False)])
@pytest.mark.parametrize('takes', [0, 3])
def test_blocks_that_are_cut_in_silence_are_found_by_finish(told, ends, takes):
    """A controller counts the bytes of a block by one byte, and says that it has got it: once more, with blocks of 36.

    Not where it has said itself how long a block may be.
    """

    class Cutting(Controller):
        def block(self, number, block):
            return super().block(number, block[: len(block) % 256])

        def write(self, command, data):
            if command == 0x33 and self.takes and int.from_bytes(data[2:6], 'little') != len(self.got):
                return self.long(command, self.takes, 0x81)
            return super().write(command, data)

    controller = Cutting(hpm2=told, takes=takes)
    if not ends:
        with pytest.raises(WriteFailed, match='the controller has received another number of bytes'):
            uploaded(controller)
        assert 1 == controller.count(0x33)
        return
    assert uploaded(controller).staged
    again = max(n for n, (_, command, _) in enumerate(controller.log) if command == 0x31)
    sizes = {len(data) - 2 for _, command, data in controller.log[again:] if command == 0x32}
    assert (FIRMWARE, 2, {36, 20_000 % 36}) == (controller.got, controller.count(0x33), sizes)


@pytest.mark.parametrize('code', [0xCC, 0x82])
@pytest.mark.parametrize('by', ['transport', 'silence', 'away'])
def test_a_repeated_block_that_is_refused_was_taken_before(code, by):
    """Some controllers take each number once; whether all arrived is said by Finish. What was sent once is refused for good."""

    class Strict(Controller):
        def block(self, number, block):
            if number == self.last:
                return CommandReply(code)
            taken = super().block(number, block)
            if self.blocks != 5:
                return taken
            if by == 'silence':
                raise BmcUnreachable(bmc=self.label, what='no answer')
            return CommandReply(code, again=True) if by == 'transport' else CommandReply(0xC3)

    controller = Strict()
    assert uploaded(controller, size=500).staged
    assert (FIRMWARE, 40) == (controller.got, controller.blocks)


def test_what_a_long_block_wants_next_is_kept_until_it_has_ended():
    """The section stands in the answer with 80h, and Get Upgrade Status says nothing of it."""

    class Slow(Controller):
        def block(self, number, block):
            taken = super().block(number, block)
            self.long(0x32, 2)
            return CommandReply(0x80, taken.data)

    controller = Slow(sections={0: (1000, 150), 2: (5000, 50)})
    assert uploaded(controller, size=100).staged
    assert FIRMWARE[:100] + FIRMWARE[1000:1150] + FIRMWARE[5000:5050] == controller.got


def test_a_backup_is_asked_for_only_where_it_has_to_be():
    """General properties: 1 wants it, 2 goes back without."""
    for general, actions in ((0x2D, [0, 1, 2]), (0x2E, [1, 2])):
        controller = Controller(general=general)
        assert uploaded(controller).staged
        assert actions == [data[2] for _, command, data in controller.log if command == 0x31]
        assert upgrade_target.read_component(controller, 2).properties.rollback


def test_an_upload_that_is_taken_up_by_a_controller_that_has_restarted_begins_anew():
    """What was answered counts as taken; where it is lost, the next block is refused, and all of it is sent once more."""
    controller = Controller()
    transfer = started(controller, size=100)
    while transfer.sent < 1000:
        transfer = step(controller, transfer, controller.clock())
    kept = resumed(transfer.upload, paused(transfer, 5.0), 7.0)
    controller.opened, controller.running = False, (0, 0.0, 0)
    done = turn(controller, kept, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert (True, 1) == (done.staged, done.anew)
    assert FIRMWARE == controller.got
    assert 0 == controller.count(0x30)
    transfer = started(Controller(), size=100)
    while transfer.sent < 1000:
        transfer = step(controller, transfer, controller.clock())
    controller.opened = False
    with pytest.raises(WriteFailed, match='Upload Firmware Block ended with completion code D5h'):
        step(controller, transfer, controller.clock())


def test_a_login_that_fails_leaves_everything_as_it_is():
    """Nothing was sent: the very same command goes out when the BMC is back."""

    class Apart(Controller):
        gone = frozenset()

        def __call__(self, *args, **more):
            if len(self.log) in self.gone:
                self.gone -= {len(self.log)}
                raise BmcUnreachable(bmc=self.label, what='no answer to the login', sent=False)
            return super().__call__(*args, **more)

    controller = Apart(takes=3)
    transfer = started(controller)
    controller.gone = frozenset(range(40))
    done = turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))
    assert (True, FIRMWARE, 0) == (done.staged, controller.got, controller.repeated)
    assert [3, 1, 23] == [controller.count(command) for command in (0x31, 0x33, 0x32)]
    controller.gone = frozenset({len(controller.log)})
    with pytest.raises(BmcUnreachable) as caught:
        activation.activate(controller)
    assert not caught.value.sent


def test_sections_are_honoured():
    """The controller skips parts, and Finish says how many bytes it got."""
    controller = Controller(sections={0: (1000, 150), 2: (5000, 50)})
    assert uploaded(controller, size=100).staged
    assert FIRMWARE[:100] + FIRMWARE[1000:1150] + FIRMWARE[5000:5050] == controller.got


@pytest.mark.parametrize('section', [(19_990, 11), (100, 0), (0, 20_000), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_a_controller_cannot_ask_for_what_is_not_there_or_for_ever(section):
    """Outside of the firmware, nothing, or more in all than there is."""
    controller = Controller(sections={0: section})
    with pytest.raises(
        WriteFailed,
        match=rf'the controller requests length {section[1]} from offset {section[0]} after 100 of 20000 bytes were sent',
    ):
        uploaded(controller, size=100)


@pytest.mark.parametrize(
    ('code', 'says'),
    [
        (0x81, 'Finish Firmware Upload ended with completion code 81h: the controller has received another number of bytes'),
        (0x82, 'code 82h: the controller reports that the firmware is damaged or incomplete'),
        (0x83, 'code 83h: the firmware differs'),
    ],
)
@pytest.mark.parametrize('takes', [0, 3])
def test_firmware_that_the_controller_does_not_take_is_not_staged(code, says, takes):
    """At once, or as the status says when it has looked."""
    with pytest.raises(WriteFailed, match=says):
        uploaded(Controller(finish=code, takes=takes))


def test_a_block_that_is_refused_ends_the_upload():
    """82h: a sum within it does not fit."""
    controller = Controller()
    transfer = started(controller)
    controller.codes = {5: 0x82}
    with pytest.raises(WriteFailed, match='Upload Firmware Block ended with completion code 82h: a checksum within the block'):
        turn(controller, transfer, clock=controller.clock, sleep=controller.clock.sleep, within=timedelta(hours=1))


def test_a_user_who_may_not_write_is_told_so():
    """D4h."""
    controller = Controller()
    transfer = started(controller)
    controller.codes = {1: 0xD4}
    transfer = step(controller, transfer, 0.0)
    with pytest.raises(BmcNotAuthorised, match='Initiate Upgrade Action: refused'):
        step(controller, transfer, 0.0)


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=10)), min_size=1, max_size=8))
def test_a_hostile_controller_ends_an_upload_or_is_led_through_it(answers):
    """Whatever it answers: an error of ours, or the end, within a bounded time of the clock."""
    clock = Clock()
    made = image(FIRMWARE[:300])

    class Hostile:
        label, longest, asked = 'b', 100, 0

        def __call__(self, netfn, command, data=b'', **kwargs):
            self.asked += 1
            clock.now += 0.01
            code, rest = answers[self.asked % len(answers)]
            return CommandReply(code, b'\0' + rest)

    transfer = started(Controller(), made, size=98)
    try:
        done = turn(Hostile(), transfer, clock=clock, sleep=clock.sleep, within=timedelta(hours=10))
        assert done.staged
    except AccError:
        pass
    assert clock.now < 1000 + 36_000
    try:
        assert isinstance(activation.became(activation.look(Hostile()), 2, HpmCommand.ACTIVATE)[0], TaskState)
        upgrade_target.read_components(Hostile(), commands.parse_capabilities(b'\0\0\0\0\0\0\0\xff', 'b'))
        assert block_size(Hostile()).size in range(1, 99)
    except BmcError:
        pass


# ------------------------------------------------------------------------------------------ activation and rollback


@pytest.mark.parametrize('send', [activation.activate, activation.roll_back])
def test_activate_and_rollback_are_sent_once_whatever_comes(send):
    """No answer, a restart, 80h: not known to be done; a refusal is an error."""
    for controller, done in (
        (Controller(codes={0: 0x00}), True),
        (Controller(codes={0: 0x80}), False),
        (Controller(codes={0: 0xC3}), False),
        (Controller(codes={0: 0xFF}), False),
        (Controller(dropped=frozenset({0})), False),
    ):
        assert done is send(controller)
        assert [True] == controller.onces
    for code, error in ((0xCC, BmcRefused), (0xD4, BmcNotAuthorised), (0xC0, BmcBusy), (0xC1, BmcUnsupported)):
        with pytest.raises(error):
            send(Controller(codes={0: code}))


def test_nothing_to_activate_is_no_refusal_and_nothing_to_go_back_to_is_one():
    """Some controllers have activated it at the end of Finish; the version that runs decides."""
    assert not activation.activate(Controller(codes={0: 0xD5}))
    with pytest.raises(BmcRefused):
        activation.roll_back(Controller(codes={0: 0xD5}))


def test_looking_reads_status_self_test_and_rollback():
    """And can be done at any time."""

    class After(Controller):
        def write(self, command, data):
            return {0x36: CommandReply(0, b'\0\x55\0'), 0x37: CommandReply(0, b'\0\4')}[command]

    seen = activation.look(After(running=(0x35, 0, 0)))
    assert (None, Status(command=0x35, code=0), SelfTest.PASSED) == (seen.away, seen.status, seen.test)
    assert (Rollback.DONE, frozenset({2})) == (seen.back, seen.rolled_back)


@pytest.mark.parametrize(('features', 'answer', 'test'), [(0x6F, 0x57, SelfTest.FAILED), (0x6E, 0x57, SelfTest.NONE)])
def test_a_self_test_counts_of_a_controller_that_has_one_for_upgrades(features, answer, test):
    """Others answer with how they are, which an upgrade may have nothing to do with."""

    class After(Controller):
        def write(self, command, data):
            return {0x36: CommandReply(0, bytes([0, answer, 0])), 0x37: CommandReply(0, b'\0\0')}[command]

        def answer(self, netfn, command, data):
            if command == 0x2E:
                return CommandReply(0, bytes([0, 0, features, 12, 2, 3, 4, 0x04]))
            return super().answer(netfn, command, data)

    assert test is activation.look(After(running=(0x35, 0, 0))).test
    assert 'no answer' == activation.look(After(running=(0x35, 0, 0), dropped=frozenset({3}))).away
    assert SelfTest.FAILED is activation.look(After(running=(0x35, 0, 0), codes={3: 0xCC})).test


@pytest.mark.parametrize('code', [0xC0, 0xC3, 0xD3, 0xFF])
def test_a_controller_that_restarts_is_away(code):
    """That is a reading, not an error."""
    assert f'the controller answers {code:02X}h' == activation.look(Controller(codes={0: code, 1: 0, 2: 0})).away
    assert 'no answer' == activation.look(Controller(dropped=frozenset({0}))).away


GOES_ON, BAD, LEFT = (Status(command=0x35, code=code) for code in (0x80, 0xCC, 0xD5))
ACTIVATED, ROLLED_BACK = Status(command=0x35, code=0), Status(command=0x38, code=0)

JUDGED = {
    'at it': (UpgradeStatus(status=GOES_ON), 'active', 'Activate Firmware is in progress'),
    'at something unknown': (UpgradeStatus(status=Status(command=0x77, code=0x80)), 'active', 'command 77h is in progress'),
    'self-test': (UpgradeStatus(status=ACTIVATED, test=SelfTest.RUNNING, test_says='tests'), 'active', 'tests'),
    'rollback': (UpgradeStatus(status=ACTIVATED, back=Rollback.RUNNING), 'active', 'a rollback is in progress'),
    'refused later': (UpgradeStatus(status=BAD), 'failed', 'Activate Firmware ended with completion code CCh'),
    'nothing left': (UpgradeStatus(status=LEFT), 'gone', 'the controller had no firmware to activate'),
    'self-test failed': (UpgradeStatus(status=ACTIVATED, test=SelfTest.FAILED, test_says='bad'), 'failed', 'bad'),
    "another one's self-test failed": (
        UpgradeStatus(status=ACTIVATED, test=SelfTest.FAILED, failed=frozenset({1})),
        'succeeded',
        'Activate Firmware succeeded',
    ),
    'its self-test failed': (
        UpgradeStatus(status=ACTIVATED, test=SelfTest.FAILED, test_says='bad', failed=frozenset({1, 2})), 'failed', 'bad',
    ),
    'rolled back': (UpgradeStatus(status=ACTIVATED, rolled_back=frozenset({2})), 'failed', 'the component was rolled back'),
    'another one rolled back': (
        UpgradeStatus(status=ACTIVATED, back=Rollback.DONE, rolled_back=frozenset({1})),
        'succeeded',
        'Activate Firmware succeeded',
    ),
    'done': (UpgradeStatus(status=ACTIVATED, test=SelfTest.PASSED), 'succeeded', 'Activate Firmware succeeded'),
    'another command since': (
        UpgradeStatus(status=ROLLED_BACK), 'gone', 'the controller does not report the result of an activation',
    ),
    'nothing told': (UpgradeStatus(), 'gone', 'the controller does not report the result of an activation'),
}  # fmt: skip


@pytest.mark.parametrize(('seen', 'state', 'says'), JUDGED.values(), ids=JUDGED)
def test_what_became_of_an_activation_is_what_the_controller_says(seen, state, says):
    """What goes on counts first, then what failed; and what it does not say is not guessed at."""
    assert (TaskState(state), says) == activation.became(seen, 2, HpmCommand.ACTIVATE)


ROLLBACKS = {
    'done': (UpgradeStatus(status=ROLLED_BACK, back=Rollback.DONE, rolled_back=frozenset({2})), 'succeeded'),
    'goes on': (UpgradeStatus(status=Status(command=0x38, code=0x80)), 'active'),
    'denied': (UpgradeStatus(status=ROLLED_BACK, back=Rollback.DENIED), 'failed'),
    'failed': (UpgradeStatus(status=ROLLED_BACK, back=Rollback.FAILED), 'failed'),
    'refused later': (UpgradeStatus(status=Status(command=0x38, code=0xD5)), 'failed'),
    'activated since': (UpgradeStatus(status=ACTIVATED, rolled_back=frozenset({2})), 'gone'),
    'the self-test before it failed': (UpgradeStatus(status=ROLLED_BACK, test=SelfTest.FAILED), 'succeeded'),
}


@pytest.mark.parametrize(('seen', 'state'), ROLLBACKS.values(), ids=ROLLBACKS)
def test_a_rollback_is_told_from_an_activation(seen, state):
    """Its mask is set after a rollback, so that it speaks for it here; a denied one has failed."""
    assert TaskState(state) is activation.became(seen, 2, HpmCommand.ROLLBACK)[0]


def test_what_may_not_be_looked_at_is_an_error_and_silence_is_not_guessed_at():
    """D4h ends a look; while components and block sizes are read, no answer is no reading."""
    with pytest.raises(BmcNotAuthorised, match='Get Upgrade Status: refused'):
        activation.look(Controller(codes={0: 0xD4, 1: 0, 2: 0}))
    with pytest.raises(BmcUnreachable):
        upgrade_target.read_component(Controller(dropped=frozenset({1})), 2)
    with pytest.raises(BmcUnreachable):
        block_size(Controller(dropped=frozenset({0})))

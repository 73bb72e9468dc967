# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The firmware firewall of the system interface, against a controller of these tests that is strict, or has one odd habit.

The controller is written from doc/source/reference/ipmi_notes.rst, "Commands of the firmware firewall" and "Controllers with a
firmware firewall", and asked for what the host would get.
"""

from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.ipmi.command import CommandReply
from baremetal_acc.bmc.ipmi.documents import IpmiWriter
from baremetal_acc.bmc.ipmi.firmware_firewall import apply, masks
from baremetal_acc.bmc.ipmi.firmware_firewall.apply import FirewallTable, FirmwareFirewallState, MaskWrite, Subset
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcError,
    BmcNotAuthorised,
    BmcRefused,
    BmcUnreachable,
    Refused,
    StateError,
)
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import Ref

LAN, HOST = 1, 0xF

PICMG = Subset(netfn=0x2C, qualifier=b'\0')
APP = Subset(netfn=0x06)
STORAGE = Subset(netfn=0x0A)
TRANSPORT = Subset(netfn=0x0C)
OEM = Subset(netfn=0x30)
VENDOR = Subset(netfn=0x2E, qualifier=b'\xb7\xa2\x00')

TO_CLOSE = {
    PICMG: {0x30, 0x31, 0x32, 0x33, 0x35, 0x36, 0x38},
    APP: {0x02, 0x03, 0x05, 0x34, 0x40, 0x43, 0x45, 0x47, 0x52, 0x56, 0x60, 0x62},
    STORAGE: {0x12, 0x24, 0x25, 0x26, 0x27},
    TRANSPORT: {0x01},
    OEM: {0x10, 0x90},
    VENDOR: {0x41},
}
"""Table 2.1 of the facts with Query Self-test Results, and the OEM commands of this controller that can be closed."""

STAYS = {
    PICMG: {0x2E, 0x2F, 0x34, 0x37},
    APP: {0x01, 0x04, 0x33, 0x35, 0x44, 0x46, 0x61},
    STORAGE: {0x10, 0x11, 0x20, 0x22, 0x23},
    TRANSPORT: {0x02},
    OEM: {0x11},
    VENDOR: {0x42},
}
"""What else it has. Get Device ID and Get SEL Time cannot be closed, some others could be."""

FIXED = {APP: {0x01}, OEM: {0x11}, VENDOR: {0x42}}


@dataclass
class Controller:
    """A controller with a firewall, asked over LAN.

    :ivar absent: has none. ``qualifier``: of 2Ch, demanded (strict), taken or left (lenient), of any body or none (ignored), or
        refused (none).
    :ivar partial: applies bits as it goes before it refuses. ``deaf``: accepts, and changes nothing.
    :ivar one_for_all: does not keep channels apart. ``silent``: numbers of requests that it does not answer.
    :ivar fails: numbers of Set Command Enables that end with this code though they are done in part.
    :ivar codes: of requests of (command, NetFn) that are refused.
    :ivar more: further commands, of any LUN, that can be closed. ``arrays``: of all that it has not it has empty masks.
    :ivar bodies: what is listed of NetFn 2Ch; None: nothing is.
    """

    longest: int = 900
    label: str = 'host (192.0.2.1)'
    absent: bool = False
    qualifier: str = 'strict'
    partial: bool = False
    deaf: bool = False
    one_for_all: bool = False
    silent: frozenset = frozenset()
    silent_after_writes: int = 1000
    fails: dict = field(default_factory=dict)
    codes: dict = field(default_factory=dict)
    fixed: dict = field(default_factory=lambda: {k: set(v) for k, v in FIXED.items()})
    lacks: frozenset = frozenset()
    more: dict = field(default_factory=dict)
    arrays: bool = False
    bodies: tuple | None = None
    enables: dict = field(default_factory=dict)
    log: list = field(default_factory=list)
    written: list = field(default_factory=list)
    onces: list = field(default_factory=list)

    def __post_init__(self):
        self.reset()

    def reset(self):
        """Power comes back, and nothing was kept."""
        self.enables = {(c, s): self.supported(s) for c in (LAN, HOST) for s in self.subsets}

    @property
    def subsets(self):
        return [s for s in TO_CLOSE if s not in self.lacks] + [s for s in self.more if s not in TO_CLOSE]

    def supported(self, subset):
        return TO_CLOSE.get(subset, set()) | STAYS.get(subset, set()) | self.more.get(subset, set())

    def configurable(self, subset):
        return self.supported(subset) - self.fixed.get(subset, set())

    def host(self, netfn, command):
        """What the host gets for a command of the system interface, by the first byte of its completion code."""
        for subset in self.subsets:
            if subset.netfn == netfn:
                return 0xC1 if command not in self.supported(subset) else 0 if self.is_open(HOST, subset, command) else 0xD4
        return 0xC1

    def is_open(self, channel, subset, command):
        return command in self.enables[channel, subset]

    def __call__(self, netfn, command, data=b'', *, lun=0, once=False, within=None):
        self.log.append((netfn, command, bytes(data)))
        self.onces.append(once)
        if len(self.log) - 1 in self.silent or len(self.written) >= self.silent_after_writes:
            raise BmcUnreachable(bmc=self.label, what='no answer')
        if (netfn, command) == (0x2C, 0x2E):
            return CommandReply(0xC1) if PICMG in self.lacks else CommandReply(0, bytes(8))
        assert 0x06 == netfn
        if self.absent:
            return CommandReply(0xC1)
        if command == 0x09:
            return self.netfns(data)
        if (command, data[1] & 0x3F) in self.codes:
            return CommandReply(self.codes[command, data[1] & 0x3F])
        if command == 0x64:
            return self.listed(data[1], data[2])
        return self.masks(command, data)

    def listed(self, netfn, index):
        whose = {0x2E: (VENDOR.qualifier,), 0x2C: self.bodies}.get(netfn)
        if whose is None or index >= len(whose):
            return CommandReply(0xCC if whose is None else 0xC9)
        return CommandReply(0, bytes([0x80 * (index == len(whose) - 1), 1]) + whose[index])

    def netfns(self, data):
        assert bytes([HOST]) == data
        used = [{s.netfn // 2 for s in self.subsets if s.lun == lun} for lun in range(4)]
        used[0] |= {0, 2}  # Chassis and Sensor, too
        luns = sum(1 << 2 * lun for lun in range(4) if used[lun])
        return CommandReply(0, bytes([luns]) + b''.join(sum(1 << n for n in one).to_bytes(4, 'little') for one in used))

    def masks(self, command, data):
        channel, operation, netfn, lun = data[0], data[1] >> 6, data[1] & 0x3F, data[2]
        channel = LAN if channel == 0xE else channel
        rest = data[3:]
        mask, rest = (rest[:16], rest[16:]) if command == 0x60 else (b'', rest)
        if channel not in (LAN, HOST):
            return CommandReply(0xCC)
        half = set(range(operation * 128, operation * 128 + 128))
        there = [s for s in self.subsets if (s.netfn, s.lun) == (netfn, lun)]
        if not there:
            return (
                CommandReply(0, b'\xff' * 16 if command == 0x0A else bytes(16))
                if self.arrays
                else CommandReply(0xCC if lun else 0xCB)
            )
        habit = self.qualifier if netfn == 0x2C else 'strict'
        sizes = {'strict': {len(there[0].qualifier)}, 'lenient': {0, 1}, 'ignored': {1}, 'none': {0}}[habit]
        if len(rest) not in sizes:
            return CommandReply(0xC7)
        meant = [s for s in there if s.qualifier == rest or habit in ('ignored', 'none') or not rest]
        if habit in ('ignored', 'none'):
            meant = [s for s in there if s in TO_CLOSE] or meant
        if not meant:
            return CommandReply(0xCB)
        subset = meant[0]
        if command == 0x60:
            return self.write(channel, subset, half, mask, operation)
        answer = {
            0x0A: half - self.supported(subset),
            0x0C: self.configurable(subset) & half,
            0x61: self.enables[channel, subset] & half,
        }[command]
        return CommandReply(0, bytes(sum(1 << b for b in range(8) if operation * 128 + 8 * i + b in answer) for i in range(16)))

    def write(self, channel, subset, half, mask, operation):
        assert HOST == channel, 'the LAN channel is never written'
        self.written.append((subset, operation))
        wanted = {operation * 128 + n for n in range(128) if mask[n // 8] >> n % 8 & 1}
        if self.deaf:
            return CommandReply(0)
        code = self.fails.get(len(self.written) - 1)
        now = self.enables[channel, subset]
        for command in sorted(half):
            if (command in wanted) == (command in now):
                continue
            if command not in self.configurable(subset):
                return CommandReply(0x80)
            if code and command in (0x35, 0x52) and self.partial:
                return CommandReply(code)
            if not code or self.partial:
                now = now | {command} if command in wanted else now - {command}
                self.enables[channel, subset] = now
                if self.one_for_all:
                    self.enables[LAN, subset] = now
        return CommandReply(code or 0)


def read(controller):
    """What the firewall of a controller means now."""
    return masks.read(lambda: masks.observe(controller))


def locked(controller):
    """Locked as a job does it; what stopped it, and the record."""
    writes = apply.plan(masks.observe(controller))
    undo = apply.undo_of(writes)
    return masks.perform(controller, writes), undo


# ------------------------------------------------------------------------------------------------------------- layouts


def test_requests_have_the_bytes_of_the_standard():
    """Facts, section 2.2: the qualifier comes last with 60h."""
    assert '0f' == masks.encode_netfn_support(0xF).hex()
    assert '0f2c0000' == masks.encode_query(0xF, PICMG, 0).hex()
    assert '0e4601' == masks.encode_query(0xE, Subset(netfn=0x06, lun=1), 1).hex()
    mask = '010000000000000000000000000000' + '80'
    assert f'0f2c00{mask}00' == masks.encode_enables(0xF, PICMG, 0, frozenset({0x00, 0x7F})).hex()
    assert f'0f6e00{mask}b7a200' == masks.encode_enables(0xF, VENDOR, 1, frozenset({0x80, 0xFF})).hex()
    assert '0f2e03' == masks.encode_oem_netfn(0xF, 0x2E, 3).hex()


@pytest.mark.parametrize('channel', [0, 1, 7, 0xB, 0xE])
def test_no_request_is_ever_made_for_the_lan_channel(channel):
    """Nor for "this channel", which is the LAN when we ask: nobody could open it again."""
    with pytest.raises(Refused, match=f'the firmware firewall of channel {channel:X}h is not written, only that of channel Fh'):
        masks.encode_enables(channel, APP, 0, frozenset())


def test_answers_are_read_as_the_standard_has_them():
    """The halves of a mask are numbered on."""
    mask = bytes([0x05]) + bytes(14) + bytes([0x80])
    assert frozenset({0, 2, 127}) == masks.parse_mask(mask, 0, 'b', 'x')
    assert frozenset({128, 130, 255}) == masks.parse_mask(mask, 1, 'b', 'x')
    used = bytes([0b1001]) + b'\x08\0\x40\0' + b'\xff' * 4 + b'\x01\0\0\x80'
    told = {0: frozenset({0x06, 0x2C}), 1: frozenset(range(0, 64, 2)), 2: frozenset({0x00, 0x3E})}
    assert told == masks.parse_netfn_support(used + bytes(4), 'b')
    assert {**told, 3: frozenset()} == masks.parse_netfn_support(bytes([0b1001001]) + used[1:] + bytes(4), 'b')
    assert (True, b'\xb7\xa2\0') == masks.parse_oem_netfn(b'\x80\1\xb7\xa2\0', 'b')


@given(st.frozensets(st.integers(0, 255)), st.sampled_from([0, 1]))
def test_masks_are_read_as_they_are_written(commands, operation):
    """One half each."""
    half = masks.parse_mask(masks.encode_mask(commands, operation), operation, 'b', 'x')
    assert {c for c in commands if c // 128 == operation} == half


@given(st.binary(max_size=20))
def test_any_answer_is_read_or_refused(data):
    """No other exception leaves a parser."""
    for parse in (
        masks.parse_netfn_support,
        masks.parse_oem_netfn,
        lambda raw, bmc: masks.parse_mask(raw, 1, bmc, 'x'),
    ):
        with suppress(BmcAnswerInvalid):
            parse(data, 'b')


# ------------------------------------------------------------------------------------------------------- the whole way


@pytest.mark.parametrize('qualifier', ['strict', 'lenient', 'ignored', 'none'])
def test_a_lock_closes_all_that_writes_firmware_to_the_host_and_nothing_else(qualifier):
    """Table 2.1; the LAN stays as it was; released, all is as before."""
    controller = Controller(qualifier=qualifier)
    before = dict(controller.enables)
    assert LockState.UNLOCKED == read(controller).state
    trouble, undo = locked(controller)
    assert trouble is None
    for subset in TO_CLOSE:
        assert STAYS[subset] == controller.enables[HOST, subset]
        assert before[LAN, subset] == controller.enables[LAN, subset]
        assert {0xD4} == {controller.host(subset.netfn, command) for command in TO_CLOSE[subset]}
    verdict = read(controller)
    assert (LockState.LOCKED_REPORTED, (), '') == (verdict.state, verdict.open, verdict.closes)
    writes = apply.plan_release(masks.observe(controller), apply.parse_undo(apply.encode_undo(undo)))
    assert masks.perform(controller, writes) is None
    assert before == controller.enables
    assert LockState.UNLOCKED == read(controller).state


def test_set_command_enables_is_closed_by_the_very_last_write():
    """Upper half first, App last; each write is sent once."""
    controller = Controller()
    locked(controller)
    assert [(APP, 0)] * 3 == controller.written[-3:]
    assert controller.written.index((OEM, 1)) < controller.written.index((OEM, 0))
    assert [command == 0x60 for _, command, _ in controller.log] == controller.onces
    assert len(controller.written) - 2 == len(set(controller.written)) == 7
    closed = [w.before - w.after for w in apply.plan(masks.observe(Controller()))]
    assert [TO_CLOSE[APP] - {0x60, 0x62}, {0x62}, {0x60}] == closed[-3:]
    opened = [(w.subset, w.after - w.before) for w in apply.plan_release(masks.observe(controller), TO_CLOSE)]
    assert [(APP, {0x60}), (APP, {0x62}), (APP, TO_CLOSE[APP] - {0x60, 0x62})] == opened[:3]


def test_the_order_of_writes_leaves_app_on_lun_0_to_the_end():
    """The upper half before, other LUNs before, other NetFns before."""
    enabled = frozenset({0x52, 0x60})
    both = enabled | {0xF0}
    tables = [
        FirewallTable(subset=Subset(netfn=netfn, lun=lun), supported=both, configurable=both, enabled=both)
        for netfn in (0x06, 0x30)
        for lun in (0, 1)
    ]
    planned = [(w.subset.netfn, w.subset.lun, w.operation) for w in apply.plan(FirmwareFirewallState(tables=tuple(tables)))]
    others = [(0x30, 1, 1), (0x30, 1, 0), (0x30, 0, 1), (0x30, 0, 0)]
    assert [*others, (6, 1, 0), (6, 0, 0), (6, 1, 0), (6, 0, 0)] == planned


def test_only_what_was_open_is_recorded_and_opened_again():
    """What the operator had closed himself stays closed."""
    controller = Controller()
    controller.enables[HOST, APP] = controller.enables[HOST, APP] - {0x52, 0x46}
    before = dict(controller.enables)
    _, undo = locked(controller)
    assert TO_CLOSE[APP] - {0x52} == undo[APP]
    masks.perform(controller, apply.plan_release(masks.observe(controller), undo))
    assert before == controller.enables


def test_a_lock_that_holds_needs_no_write():
    """And its record is not lost by engaging again."""
    controller = Controller()
    _, undo = locked(controller)
    again = apply.plan(masks.observe(controller))
    assert () == again
    assert undo == apply.both(undo, apply.undo_of(again))


def test_a_record_is_short_text():
    """For a job, or a file."""
    undo = {APP: frozenset({0x52, 0x34}), PICMG: frozenset({0x31}), Subset(netfn=0x0A, lun=2): frozenset({0x12})}
    assert '06/0:3452 0A/2:12 2C.00/0:31' == apply.encode_undo(undo)
    assert undo == apply.parse_undo('06/0:3452 0A/2:12 2C.00/0:31')
    assert {} == apply.parse_undo('')


@pytest.mark.parametrize(
    'record', ['06', '06/0', '/0:12', '06/4:12', '40/0:12', '06.0102/0:12', '06/0:1', '06/0:12 06/0:13', 'x' * 9000]
)
def test_a_record_that_is_none_is_refused(record):
    """Opening by guessing would be worse."""
    with pytest.raises(StateError, match='cannot be parsed'):
        apply.parse_undo(record)


def test_all_that_a_controller_lets_be_closed_can_be_opened_again():
    """Each command of every NetFn of vendors, on each LUN: a record of it was refused when it was to be opened again."""
    everything = frozenset(range(256))
    subsets = [Subset(netfn=n, lun=lun) for n in (0x02, 0x06, 0x0A, 0x0C, 0x08) for lun in range(4)]
    subsets += [Subset(netfn=n, qualifier=b'\xb7\xa2\0', lun=lun) for n in range(0x30, 0x40, 2) for lun in range(4)]
    subsets += [Subset(netfn=0x2C, qualifier=q, lun=lun) for q in (b'\0', b'\x52') for lun in range(4)]
    subsets += [Subset(netfn=0x2E, qualifier=bytes([n, 1, 0]), lun=lun) for n in range(16) for lun in range(4)]
    tables = [FirewallTable(subset=s, supported=everything, configurable=everything, enabled=everything) for s in subsets]
    undo = apply.undo_of(apply.plan(FirmwareFirewallState(tables=tuple(tables))))
    assert undo == apply.parse_undo(apply.encode_undo(undo))


@given(st.text(max_size=40))
def test_any_text_is_a_record_or_refused(record):
    """No other exception."""
    with suppress(StateError):
        assert apply.parse_undo(apply.encode_undo(apply.parse_undo(record))) == apply.parse_undo(record)


QUALIFIERS = {
    'one byte': ([b'\x07'], True),
    'three bytes': ([b'\x07\x01\0'], True),
    'none is told': ([], False),
    'two are told': ([b'\x07', b'\x08'], False),
    'two bytes': ([b'\x07\x01'], False),
    'another one': ([b'\x09'], False),
}


@pytest.mark.parametrize(('told', 'holds'), QUALIFIERS.values(), ids=QUALIFIERS)
def test_a_qualifier_that_the_maker_wants_is_asked_for(told, holds):
    """With NetFns 30h to 3Eh the standard has none: one firmware refuses the length without, and was partial for ever."""

    class Wanting(Controller):
        def listed(self, netfn, index):
            if netfn != OEM.netfn:
                return super().listed(netfn, index)
            last = 0x80 * (index == len(told) - 1)
            return CommandReply(0, bytes([last, 1]) + told[index]) if index < len(told) else CommandReply(0xC9)

        def masks(self, command, data):
            if data[1] & 0x3F != OEM.netfn:
                return super().masks(command, data)
            size = 19 if command == 0x60 else 3
            wanted = told[0] if holds else b'\x07'
            if len(data) != size + len(wanted):
                return CommandReply(0xC7)
            return super().masks(command, data[:size]) if data[size:] == wanted else CommandReply(0xCB)

    controller = Wanting()
    trouble, undo = locked(controller)
    assert trouble is None
    verdict = read(controller)
    assert (LockState.LOCKED_REPORTED if holds else LockState.PARTIAL) == verdict.state
    assert (STAYS[OEM] if holds else STAYS[OEM] | TO_CLOSE[OEM]) == controller.enables[HOST, OEM]
    if holds:
        record = apply.parse_undo(apply.encode_undo(undo))
        assert masks.perform(controller, apply.plan_release(masks.observe(controller), record)) is None
        assert controller.supported(OEM) == controller.enables[HOST, OEM]
    else:
        assert verdict.open[0].startswith('NetFn 30h on LUN 0: Get Command Enables of 30')


# -------------------------------------------------------------------------------------------- what was closed, and is open


class Sessions(Controller):
    """As the driver has it."""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


def written(controller, body):
    writer = IpmiWriter(BmcAddress(name='host', address='ipmi://192.0.2.1'), controller)
    writer.patch(Document(ref=Ref(bmc='host', uri='/ipmi/firewall/f'), body={}), body)


def refitted(controller, subset=OEM, command=0x10):
    """The BMC lets a command of its maker no longer be closed, and it is open again."""
    controller.fixed = {**controller.fixed, subset: {*controller.fixed.get(subset, ()), command}}
    controller.enables[HOST, subset] = controller.enables[HOST, subset] | {command}


@pytest.mark.parametrize(('subset', 'command'), [(OEM, 0x10), (OEM, 0x90), (VENDOR, 0x41), (PICMG, 0x36)])
def test_what_is_left_open_is_another_word_when_a_command_cannot_be_closed_any_more(subset, command):
    """The firewall alone cannot know that it was closed once: whoever has the evidence compares the words."""
    controller = Controller()
    before = read(controller).leaves
    locked(controller)
    assert before == read(controller).leaves
    refitted(controller, subset, command)
    after = read(controller)
    assert (LockState.LOCKED_REPORTED, True) == (after.state, before != after.leaves)
    assert '' == read(Controller(fixed={})).leaves


def test_what_we_have_closed_and_is_open_fails_the_next_lock_by_name():
    """It is in our record; the rest is closed all the same. What never was ours, and cannot be closed, is no news."""
    controller = Sessions()
    record = read(controller).closes
    written(controller, {'Closed': True, 'Before': [record]})
    controller.enables[HOST, APP] = controller.enables[HOST, APP] | {0x52}
    refitted(controller)
    refitted(controller, VENDOR, 0x43)
    with pytest.raises(
        BmcRefused, match='that we disabled are enabled again and can no longer be disabled: 10h of 30/0'
    ) as caught:
        written(controller, {'Closed': True, 'Before': ['06/0:52', record]})
    assert '43h' not in str(caught.value)
    assert not controller.is_open(HOST, APP, 0x52)
    written(controller, {'Open': [record]})
    written(controller, {'Closed': True})


def test_a_record_that_cannot_be_read_does_not_keep_a_lock_open():
    """It is closed first, and then complained about."""
    controller = Sessions()
    with pytest.raises(StateError):
        written(controller, {'Closed': True, 'Before': ['06']})
    assert LockState.LOCKED_REPORTED == read(controller).state


# ----------------------------------------------------------------------------------------------------------- odd habits


def test_a_controller_without_a_firewall_is_an_ordinary_answer():
    """C1h, of one request."""
    controller = Controller(absent=True)
    assert masks.observe(controller) is None
    assert LockState.UNSUPPORTED == read(controller).state
    assert {0x61} == {command for _, command, _ in controller.log}


def test_a_controller_that_does_not_answer_is_not_known():
    """Silence is no state, whenever it begins."""
    whole = Controller()
    read(whole)
    for at in range(len(whole.log)):
        verdict = read(Controller(silent=frozenset({at})))
        assert (LockState.UNKNOWN, 'no answer') == (verdict.state, verdict.reason)


def test_a_refusal_of_the_first_question_is_not_known():
    """D4h is no proof of a lock."""
    verdict = read(Controller(codes={(0x61, 6): 0xD4}))
    assert LockState.UNKNOWN == verdict.state
    assert 'Get Command Enables of 06/0: refused (D4h)' == verdict.reason
    with pytest.raises(BmcNotAuthorised):
        masks.observe(Controller(codes={(0x61, 6): 0xD4}))


def test_a_command_that_cannot_be_closed_makes_the_lock_partial_and_is_named():
    """It is there, and open, whatever else is closed."""
    controller = Controller(fixed={**FIXED, APP: {0x01, 0x52}})
    trouble, _ = locked(controller)
    assert trouble is None
    named = ('52h of 06/0 (Master Write-Read)',)
    verdict = read(controller)
    assert (LockState.PARTIAL, named, named, '') == (verdict.state, verdict.open, verdict.fixed, verdict.closes)
    assert 0 == controller.host(0x06, 0x52)


REDFISH = Subset(netfn=0x2C, qualifier=b'\x52')
ROUND = {
    Subset(netfn=0x02): {0x20: 'Bridge Request', 0x21: 'Bridge Message'},
    TRANSPORT: {0x31: 'Set Forwarded Commands', 0x33: 'Enable Forwarded Commands'},
    REDFISH: {0x02: 'Get Bootstrap Account Credentials'},
}


@pytest.mark.parametrize('subset', ROUND, ids=lambda subset: subset.text)
def test_what_goes_round_the_bmc_or_makes_an_administrator_is_closed(subset):
    """It was left open. Where it is there and cannot be closed, the lock is partial; where it is not, that is ordinary."""
    names = ROUND[subset]
    controller = Controller(more={subset: set(names)})
    assert LockState.UNLOCKED == read(controller).state
    assert locked(controller)[0] is None
    assert not names.keys() & controller.enables[HOST, subset]
    assert LockState.LOCKED_REPORTED == read(controller).state
    fixed = Controller(more={subset: set(names)}, fixed={**FIXED, subset: set(names)})
    assert locked(fixed)[0] is None
    verdict = read(fixed)
    assert LockState.PARTIAL == verdict.state
    assert tuple(f'{command:02X}h of {subset.text} ({name})' for command, name in names.items()) == verdict.fixed


@pytest.mark.parametrize(('subset', 'command'), [(PICMG, 0x36), (TRANSPORT, 0x10)])
def test_what_is_closed_where_possible_leaves_the_lock_whole_where_it_is_not(subset, command):
    """Query Self-test Results rolls back one firmware; Set Serial/Modem Configuration is no way to write any."""
    controller = Controller(more={subset: {command}})
    assert locked(controller)[0] is None
    assert command not in controller.enables[HOST, subset]
    fixed = Controller(more={subset: {command}}, fixed={**FIXED, subset: {command}})
    assert locked(fixed)[0] is None
    assert command in fixed.enables[HOST, subset]
    assert LockState.LOCKED_REPORTED == read(fixed).state


@pytest.mark.parametrize('qualifier', ['ignored', 'none'])
def test_a_controller_that_does_not_tell_body_codes_apart_has_one_table(qualifier):
    """Its 02h may be DCMI's Get Power Reading: it is closed where it can be. One write of a half does not undo another one."""
    controller = Controller(qualifier=qualifier, more={PICMG: {0x02}})
    _, undo = locked(controller)
    assert LockState.LOCKED_REPORTED == read(controller).state
    assert STAYS[PICMG] == controller.enables[HOST, PICMG]
    assert [TO_CLOSE[PICMG] | {0x02}] == [commands for subset, commands in undo.items() if subset.netfn == 0x2C]
    fixed = Controller(qualifier=qualifier, more={PICMG: {0x02}}, fixed={**FIXED, PICMG: {0x02}})
    assert locked(fixed)[0] is None
    assert LockState.LOCKED_REPORTED == read(fixed).state
    assert STAYS[PICMG] | {0x02} == fixed.enables[HOST, PICMG]


def test_nobody_asks_for_an_account_to_know_whether_he_would_get_one():
    """Get Bootstrap Account Credentials makes an account: its masks are asked for, it is not."""
    controller = Controller(lacks=frozenset({PICMG}), more={Subset(netfn=0x2C, qualifier=b'\xdc'): {0x01}})
    read(controller)
    assert {(0x2E, b'\0')} == {(command, data) for netfn, command, data in controller.log if netfn == 0x2C}


def test_masks_that_cannot_be_read_may_be_open():
    """A NetFn that is used, and refused: the lock is partial, and says which."""
    controller = Controller(codes={(0x0C, 0x0A): 0xCB})
    locked(controller)
    verdict = read(controller)
    assert LockState.PARTIAL == verdict.state
    (says,) = verdict.open
    assert says.startswith('NetFn 0Ah on LUN 0: Get Configurable Commands of 0A/0: refused with completion code CBh')


@pytest.mark.parametrize('lacks', [PICMG, OEM, VENDOR])
def test_a_netfn_that_is_not_there_needs_no_lock(lacks):
    """The controller says that it does not use it."""
    controller = Controller(lacks=frozenset({lacks}))
    assert locked(controller)[0] is None
    assert LockState.LOCKED_REPORTED == read(controller).state


BODIES = {
    'listed without it': ({}, (b'\xdc', b'\x03'), 0xC1, True),
    'listed with it': ({}, (b'\xdc', b'\0'), 0xC1, False),
    'a list that does not end': ({}, (b'\xdc', b'\xdc'), 0xC1, False),
    'a list that names nobody': ({}, (b'',), 0xC1, False),
    'masks of another body code': ({Subset(netfn=0x2C, qualifier=b'\xdc'): {0x01, 0x02}}, None, 0xC1, True),
    'masks of none': ({}, None, 0xC1, False),
    'on the LAN it is there': ({}, (b'\xdc',), 0, False),
}


@pytest.mark.parametrize(('more', 'bodies', 'answers', 'holds'), BODIES.values(), ids=BODIES)
def test_netfn_2c_without_picmg_needs_no_lock(more, bodies, answers, holds):
    """It is used, but for another body: that is the controller's own word of channel F, and not what the LAN is answered."""

    class Another(Controller):
        def __call__(self, netfn, command, data=b'', **kwargs):
            reply = super().__call__(netfn, command, data, **kwargs)
            return CommandReply(answers, bytes(8)) if netfn == 0x2C else reply

        def netfns(self, data):
            used = sum(1 << n // 2 for n in (6, 0xA, 0xC, 0x2C, 0x2E, 0x30))
            return CommandReply(0, bytes([1]) + used.to_bytes(4, 'little') + bytes(12))

        def masks(self, command, data):
            known = more or data[1] & 0x3F != 0x2C
            return super().masks(command, data) if known else CommandReply(0xCC)

    controller = Another(lacks=frozenset({PICMG}), more=more, bodies=bodies)
    assert locked(controller)[0] is None
    verdict = read(controller)
    if holds:
        assert LockState.LOCKED_REPORTED == verdict.state
    else:
        assert LockState.PARTIAL == verdict.state
        says, *_ = verdict.open
        assert says.startswith('NetFn 2Ch on LUN 0: Get Command Enables of 2C.00/0: refused with completion code CCh, and ')
        assert 'ask the vendor of the BMC' in says


def test_a_controller_without_list_and_without_bodies_is_told_that_it_shows_nothing_supported():
    """Get Command Support of 2C.00 says so in both halves, and the other masks are refused: its own word."""

    class Supports(Controller):
        def masks(self, command, data):
            if data[1] & 0x3F != 0x2C:
                return super().masks(command, data)
            return CommandReply(0, b'\xff' * 16) if command == 0x0A and data[1] >> 6 in self.halves else CommandReply(0xCB)

        def netfns(self, data):
            return CommandReply(0, bytes([1]) + (0x68 | 1 << 22 | 1 << 23 | 1 << 24).to_bytes(4, 'little') + bytes(12))

    for halves, state in (((0, 1), LockState.LOCKED_REPORTED), ((0,), LockState.PARTIAL), ((1,), LockState.PARTIAL)):
        controller = Supports(lacks=frozenset({PICMG}))
        controller.halves = halves
        assert locked(controller)[0] is None
        assert state == read(controller).state, halves


@pytest.mark.parametrize('told', [True, False])
@pytest.mark.parametrize('refused', [(0x0A, 0), (0x0A, 1), (0x0C, 0), (0x0C, 1), (0x61, 0), (0x61, 1)])
def test_what_shows_commands_is_there_though_the_rest_is_refused(refused, told):
    """Get Command Enables has told that 31h is open, and its upper half was refused as none: all of NetFn 2Ch was left out."""

    class Half(Controller):
        def masks(self, command, data):
            asked = (command, data[1] >> 6)
            return CommandReply(0xCC) if data[1] & 0x3F == 0x2C and asked == refused else super().masks(command, data)

        def netfns(self, data):
            used = sum(1 << s.netfn // 2 for s in self.subsets if told or s is not PICMG)
            return CommandReply(0, bytes([1]) + used.to_bytes(4, 'little') + bytes(12))

    controller = Half()
    assert locked(controller)[0] is None
    verdict = read(controller)
    assert LockState.PARTIAL == verdict.state
    says, *_ = verdict.open
    assert says.startswith('NetFn 2Ch on LUN 0: Get C')
    assert says.endswith('refused with completion code CCh, but other masks of the same NetFn show commands')


LUNS = {
    'all are told': lambda reply: reply,
    'none is told': lambda _: CommandReply(0xC1),
    'it is refused': lambda _: CommandReply(0xCC),
    'LUN 1 has none, and NetFns': lambda reply: CommandReply(0, bytes([reply.data[0] & ~0b1100]) + reply.data[1:]),
    'LUN 1 has some, and no NetFn': lambda reply: CommandReply(0, reply.data[:5] + bytes(4) + reply.data[9:]),
    'App is not used': lambda reply: CommandReply(0, bytes([reply.data[0], 0]) + reply.data[2:]),
}


@pytest.mark.parametrize('says', LUNS.values(), ids=LUNS)
@pytest.mark.parametrize('lun', [1, 2, 3])
def test_commands_of_another_lun_are_closed_whatever_is_told_of_luns(lun, says):
    """LUNs 1 to 3 were left out where Get NetFn Support was not told, or its first byte did not name them."""

    class Odd(Controller):
        def netfns(self, data):
            reply = super().netfns(data)
            return says(reply) if lun == 1 else reply if says is LUNS['all are told'] else CommandReply(0xC1)

    more = {Subset(netfn=0x06, lun=lun): {0x52}, Subset(netfn=0x30, lun=lun): {0x71, 0xF1}}
    controller = Odd(more=more, arrays=True)
    assert LockState.UNLOCKED == read(controller).state
    assert locked(controller)[0] is None
    for subset in more:
        assert set() == controller.enables[HOST, subset]
    assert LockState.LOCKED_REPORTED == read(controller).state


def test_a_lun_that_is_not_told_and_refused_is_not_there():
    """Most controllers have LUN 0 alone, and refuse the others. Another refusal than that is none of those."""
    refused = frozenset()

    class Mute(Controller):
        def netfns(self, data):
            return CommandReply(0xC1)

        def masks(self, command, data):
            netfn, lun = data[1] & 0x3F, data[2]
            if lun == 0 and netfn in (0x02, 0x08, *range(0x32, 0x40, 2)):
                return CommandReply(0, b'\xff' * 16 if command == 0x0A else bytes(16))
            return CommandReply(0xD4) if (lun, netfn) in refused else super().masks(command, data)

    controller = Mute()
    assert locked(controller)[0] is None
    assert LockState.LOCKED_REPORTED == read(controller).state
    refused = frozenset({(2, 0x0A), (3, 0x3E)})
    verdict = read(controller)
    assert LockState.PARTIAL == verdict.state
    assert ['NetFn 0Ah on LUN 2', 'NetFn 3Eh on LUN 3'] == [says[:18] for says in verdict.open]


def test_vendors_that_cannot_be_listed_on_a_lun_that_is_not_told_are_none():
    """As on LUN 0 they are not: 2Eh is unread there."""

    class Mute(Controller):
        def netfns(self, data):
            return CommandReply(0xC1)

        def listed(self, netfn, index):
            return CommandReply(code)

    for code, luns in ((0xC1, 1), (0xC9, 1), (0xCC, 1), (0xD4, 4)):
        found = masks.observe(Mute(arrays=True))
        assert luns == sum(says.startswith('NetFn 2Eh') for says in found.unread), hex(code)


def test_a_command_that_can_be_closed_is_there_whatever_is_said_of_it():
    """Some controllers tell that what is closed is not supported, and some that nothing is."""
    table = FirewallTable(subset=APP, supported=frozenset(), configurable=frozenset({0x52}), enabled=frozenset({0x52}))
    assert frozenset({0x52}) == table.open
    assert LockState.UNLOCKED == apply.judge(FirmwareFirewallState(tables=(table,))).state


def test_a_command_that_is_open_is_there_whatever_is_said_of_it():
    """Neither supported nor configurable, and open: it read as locked, since nothing was looked for there."""
    table = FirewallTable(subset=APP, supported=frozenset({0x34}), configurable=frozenset({0x34}), enabled=frozenset({0x52}))
    verdict = apply.judge(FirmwareFirewallState(tables=(table,)))
    assert LockState.PARTIAL == verdict.state
    assert ('52h of 06/0 (Master Write-Read)',) == verdict.open == verdict.fixed
    assert () == apply.plan(FirmwareFirewallState(tables=(table,)))


def test_a_release_opens_only_what_can_be_opened():
    """A bit that cannot be changed would have the whole mask refused."""
    table = FirewallTable(subset=APP, supported=frozenset({1, 0x52}), configurable=frozenset({0x52}), enabled=frozenset())
    (write,) = apply.plan_release(FirmwareFirewallState(tables=(table,)), {APP: frozenset({1, 0x52})})
    assert frozenset({0x52}) == write.after


def test_a_lock_that_was_not_kept_over_a_reset_is_seen():
    """Volatile: read again after each reset."""
    controller = Controller()
    locked(controller)
    controller.reset()
    assert LockState.UNLOCKED == read(controller).state


def test_a_controller_that_accepts_and_does_nothing_is_found_out():
    """Success is what is read back."""
    trouble, _ = locked(Controller(deaf=True))
    assert trouble is not None
    assert 'was accepted, but another mask is read back' in trouble.says
    assert trouble.repaired


def test_bits_that_were_changed_before_a_refusal_are_put_back():
    """Some controllers apply as they go; the record still names all that may have been closed."""
    controller = Controller(partial=True)
    before = dict(controller.enables)
    writes = apply.plan(masks.observe(controller))
    spoilt = next(n for n, w in enumerate(writes) if w.subset == PICMG)
    controller.fails = {spoilt: 0x80}
    trouble = masks.perform(controller, writes)
    assert trouble is not None
    assert (PICMG, True) == (trouble.write.subset, trouble.repaired)
    assert 'refused (80h): a command in the mask is not supported, or not configurable' in trouble.says
    assert before[HOST, PICMG] == controller.enables[HOST, PICMG]
    assert (APP, 0) not in controller.written
    assert LockState.PARTIAL == read(controller).state
    masks.perform(controller, apply.plan_release(masks.observe(controller), apply.undo_of(writes)))
    assert before == controller.enables


def test_a_repair_that_fails_is_told():
    """Then the mask is neither what it was nor what it should be."""

    class Stuck(Controller):
        def write(self, channel, subset, half, mask, operation):
            return CommandReply(0xD4) if self.written else super().write(channel, subset, half, mask, operation)

    controller = Stuck(partial=True, fails={0: 0xFF})
    writes = [w for w in apply.plan(masks.observe(controller)) if w.subset == PICMG]
    trouble = masks.perform(controller, writes)
    assert trouble is not None
    assert (False, 'Set Command Enables of 2C.00/0: refused with completion code FFh') == (trouble.repaired, trouble.says)
    assert {0x35, 0x38} <= controller.enables[HOST, PICMG]
    assert 0x31 not in controller.enables[HOST, PICMG]


def test_a_write_that_was_done_though_refused_is_done():
    """What counts is what is read."""

    class Late(Controller):
        def write(self, channel, subset, half, mask, operation):
            super().write(channel, subset, half, mask, operation)
            raise BmcUnreachable(bmc=self.label, what='no answer')

    controller = Late()
    assert locked(controller)[0] is None
    assert LockState.LOCKED_REPORTED == read(controller).state


def test_a_controller_that_falls_silent_after_a_write_leaves_something_unknown():
    """Nothing is claimed to be repaired."""
    trouble, _ = locked(Controller(silent_after_writes=3))
    assert trouble is not None
    assert (False, True) == (trouble.repaired, trouble.silent)
    assert 'its effect could not be read: no answer' in trouble.says


def test_a_write_that_gets_lost_is_silence_and_no_refusal():
    """Whoever waits for a BMC that restarts may try again later."""

    class Deaf(Controller):
        def write(self, channel, subset, half, mask, operation):
            raise BmcUnreachable(bmc=self.label, what='no answer')

    trouble, _ = locked(Deaf())
    assert trouble is not None
    assert (True, True, True) == (trouble.repaired, trouble.silent, 'no answer' in trouble.says)
    refused, _ = locked(Controller(fails={0: 0x80}))
    assert refused is not None
    assert not refused.silent


def test_a_controller_that_does_not_keep_channels_apart_is_left_as_it_was():
    """The first write shows it, long before Set Command Enables is closed on the LAN, too."""
    controller = Controller(one_for_all=True)
    before = dict(controller.enables)
    trouble, _ = locked(controller)
    assert trouble is not None
    assert 'also changed the mask of our own channel' in trouble.says
    assert trouble.repaired
    assert before == controller.enables


class Aliasing(Controller):
    """Has one mask for all channels, and obeys it on the LAN, too."""

    def __call__(self, netfn, command, data=b'', **kwargs):
        if (netfn, command) == (0x06, 0x60) and not self.is_open(LAN, APP, 0x60):
            return CommandReply(0xD4)
        return super().__call__(netfn, command, data, **kwargs)


APP_ALONE = frozenset({PICMG, STORAGE, TRANSPORT, OEM, VENDOR})


@pytest.mark.parametrize('lacks', [frozenset(), APP_ALONE], ids=['all', 'App alone'])
@pytest.mark.parametrize('left', [TO_CLOSE[APP], {0x60, 0x62}], ids=['all of App', 'both'])
def test_who_does_not_keep_channels_apart_does_not_lock_the_operator_out(lacks, left):
    """One write closed Set Command Enables with the rest of NetFn App, and what it did could not be taken back any more."""
    controller = Aliasing(one_for_all=True, lacks=lacks)
    for channel in (LAN, HOST):
        controller.enables[channel, APP] = STAYS[APP] | left
    before = dict(controller.enables)
    trouble, _ = locked(controller)
    assert trouble is not None
    assert ('also changed the mask of our own channel' in trouble.says, trouble.repaired) == (True, True)
    assert before == controller.enables


@pytest.mark.parametrize('one_for_all', [True, False])
def test_set_command_enables_is_left_open_where_nothing_shows_that_channels_are_kept_apart(one_for_all):
    """It alone is left to be closed, and all the rest is closed on both channels: one mask, or two of the same."""
    controller = Aliasing(one_for_all=one_for_all, lacks=APP_ALONE)
    for channel in (LAN, HOST):
        controller.enables[channel, APP] = STAYS[APP] - {0x33} | {0x60}
    controller.fixed = {APP: {0x01, *STAYS[APP]}}
    trouble, _ = locked(controller)
    assert trouble is not None
    assert trouble.repaired
    assert trouble.says.startswith('Set Command Enables was left enabled')
    assert [] == controller.written
    if not one_for_all:
        controller.enables[LAN, APP] = controller.enables[LAN, APP] | {0x52}
        assert locked(controller)[0] is None
        assert LockState.LOCKED_REPORTED == read(controller).state


def test_another_netfn_shows_that_channels_are_kept_apart():
    """Where of App nothing but Set Command Enables can be closed."""
    controller = Aliasing(fixed={**FIXED, APP: (TO_CLOSE[APP] | STAYS[APP]) - {0x60}}, lacks=APP_ALONE - {OEM})
    trouble, _ = locked(controller)
    assert trouble is None
    assert [(OEM, 1), (OEM, 0), (APP, 0)] == controller.written
    controller.enables[HOST, APP] = controller.enables[HOST, APP] | {0x60}
    assert locked(controller)[0] is None
    assert [(APP, 0)] * 2 == controller.written[-2:]


def test_nothing_is_written_where_our_own_channel_cannot_be_seen():
    """Locking oneself out of the LAN cannot be undone over it."""

    class Blind(Controller):
        def masks(self, command, data):
            return CommandReply(0xCC) if data[0] == 0xE else super().masks(command, data)

    controller = Blind()
    trouble, _ = locked(controller)
    assert trouble is not None
    assert 'nothing was written' in trouble.says
    assert [] == controller.written


LISTS = {
    'the last one says so': ([b'\x00\1\1\0\0', b'\x80\1\xb7\xa2\0', b'\x00\1\3\0\0'], None),
    'the one behind is not there': ([b'\x00\1\1\0\0', b'\x01\1\xb7\xa2\0'], None),
    'the same again': ([b'\x01\1\xb7\xa2\0', b'\x01\1\xb7\xa2\0'], None),
    'none': ([], 'refused with completion code C9h'),
    'no IANA number': ([b'\x80\1\xb7'], 'an IANA number has 3 bytes, length 1 found'),
    'cut short': ([b'\x80'], 'the answer is too short (length 1, minimum 3 bytes)'),
    'without end': ([bytes([0, 1, n, 0, 0]) for n in range(99)], 'more than 16 vendors'),
}


@pytest.mark.parametrize(('listed', 'says'), LISTS.values(), ids=LISTS)
def test_the_vendors_of_oem_commands_are_asked_for(listed, says):
    """Up to the last one, or the first that is not there; a list that cannot be read leaves NetFn 2Eh unread."""

    class Listing(Controller):
        def __call__(self, netfn, command, data=b'', **kwargs):
            if command == 0x64:
                return CommandReply(0, listed[data[2]]) if data[2] < len(listed) else CommandReply(0xC9)
            if command in (0x0A, 0x0C, 0x61) and data[1] & 0x3F == 0x2E and data[3:] == b'\1\0\0':
                return CommandReply(0, bytes(16))
            return super().__call__(netfn, command, data, **kwargs)

    found = masks.observe(Listing())
    assert (says is None) is (VENDOR in {table.subset for table in found.tables})
    if says is not None:
        (unread,) = found.unread
        assert unread.startswith('NetFn 2Eh on LUN 0: Get OEM NetFn IANA Support: ')
        assert unread.endswith(says)


def test_a_controller_that_falls_silent_while_it_is_repaired_leaves_something_unknown():
    """Both of its channel and of ours."""
    for habits in ({'partial': True, 'fails': {0: 0x80}}, {'one_for_all': True}):
        whole = Controller(**habits)
        writes = [w for w in apply.plan(masks.observe(whole)) if w.subset == PICMG]
        before = len(whole.log)
        masks.perform(whole, writes)
        for at in range(5, len(whole.log) - before):
            controller = Controller(**habits)
            masks.observe(controller)
            controller.silent = frozenset({before + at})
            trouble = masks.perform(controller, writes)
            assert trouble is not None
            assert not trouble.repaired


def test_a_controller_that_does_not_tell_its_netfns_is_asked_for_all():
    """What is refused may then be open: it is not said that nothing is there."""

    class Mute(Controller):
        def netfns(self, data):
            return CommandReply(0xC1)

    controller = Mute()
    assert locked(controller)[0] is None
    verdict = read(controller)
    assert LockState.PARTIAL == verdict.state
    assert {'NetFn 08h', 'NetFn 32h', 'NetFn 3Eh'} <= {says[:9] for says in verdict.open}


def test_what_is_named_is_asked_for_though_it_is_said_to_be_unused():
    """A list that forgets NetFn 2Ch does not hide HPM.1."""

    class Forgetful(Controller):
        def netfns(self, data):
            return CommandReply(0, bytes([1, 0x08]) + bytes(15))

    verdict = read(Forgetful())
    assert '31h of 2C.00/0 (Initiate Upgrade Action)' in verdict.open


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 0x80, 0xC1, 0xC7, 0xCB, 0xD4]), st.binary(max_size=20)), min_size=1, max_size=9
    )
)
def test_a_hostile_controller_gets_a_verdict_in_bounded_time(answers):
    """Whatever it answers, nothing is claimed that was not read."""

    class Hostile:
        label, longest, asked = 'b', 900, 0

        def __call__(self, netfn, command, data=b'', **kwargs):
            self.asked += 1
            assert self.asked < 3000
            return CommandReply(*answers[self.asked % len(answers)])

    hostile = Hostile()
    assert isinstance(read(hostile).state, LockState)
    hostile.asked = 0
    with suppress(BmcError):
        found = masks.observe(hostile)
        if found is not None:
            masks.perform(hostile, apply.plan(found))


@given(
    st.frozensets(st.integers(0, 255)),
    st.frozensets(st.integers(0, 255)),
    st.frozensets(st.integers(0, 255)),
    st.sampled_from([APP, PICMG, STORAGE, OEM, VENDOR]),
)
def test_a_plan_closes_configurable_commands_only_and_opens_none(supported, configurable, enabled, subset):
    """The rest is written back unchanged; what the record opens again is what the plan has closed."""
    table = FirewallTable(subset=subset, supported=supported, configurable=configurable, enabled=enabled)
    writes = apply.plan(FirmwareFirewallState(tables=(table,)))
    closed = frozenset().union(*(w.before - w.after for w in writes))
    assert closed <= configurable & enabled
    assert all(w.after <= w.before for w in writes)
    after = FirewallTable(subset=subset, supported=supported, configurable=configurable, enabled=enabled - closed)
    assert not after.open & configurable
    undo = apply.undo_of(writes)
    assert closed == undo.get(subset, frozenset())
    opened = apply.plan_release(FirmwareFirewallState(tables=(after,)), undo)
    back = [MaskWrite(subset=w.subset, operation=w.operation, before=w.after, after=w.before) for w in reversed(writes)]
    assert back == list(opened)

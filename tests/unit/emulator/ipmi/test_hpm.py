# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware over HPM.1, byte by byte; no second of it is waited for.

The layouts are those of doc/source/reference/ipmi_notes.rst, "Commands of HPM.1".
"""

import dataclasses
import hashlib

import pytest

from baremetal_acc.emulator.image import read_image
from baremetal_acc.emulator.ipmi.channel import LanChannel
from baremetal_acc.emulator.ipmi.controller import (
    APP,
    IPMB,
    LAN,
    SYSTEM,
    TRANSPORT,
    CommandRequest,
    EmulatedCode,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.hpm import Upgrades
from baremetal_acc.emulator.ipmi.hpm2_lan import ExtendedLan
from baremetal_acc.emulator.ipmi.hpm_ability import HABITS, Ability, Backup, HpmPart, Times
from baremetal_acc.emulator.ipmi.presence import Presence
from baremetal_acc.emulator.ipmi.upgrade_image import NO_VERSION, UploadAction, build_upgrade_image, version_bytes
from baremetal_acc.emulator.parts import Bank, Restart
from tests.unit.emulator.ipmi.console import message
from tests.unit.emulator.ipmi.machines import (
    BMC_KEY,
    BMC_PART,
    FPGA_KEY,
    FPGA_PART,
    LATER_KEY,
    LATER_PART,
    Rig,
    ask,
    hpm,
    image,
    upload,
)

OLD, NEW = '1.2.0.7', '2.15.0.9'
IMAGE = image(NEW)
ERASE = b'\x01\x01'
OPEN = b'\x01\x02'


def block(controller, number, data, channel=IPMB):
    return hpm(controller, 0x32, bytes((number,)) + data, channel=channel)


def prepared(rig, mask=1):
    assert b'\0' == hpm(rig.amc, 0x31, bytes((mask, 1)), channel=IPMB)


def uploaded(rig, data=IMAGE, **more):
    prepared(rig, 1 << more.get('number', 0))
    return upload(rig.amc, data, **more)


def test_capabilities_have_bits_times_and_components():
    """Version 0, the bits of HPM.1, four times in units of 5 s, the mask."""
    rig = Rig(times=Times(erase=12, activate=31, self_test=5, roll_back=6))
    assert bytes((0, 0, 0b00010101, 7, 1, 2, 7, 0b11)) == hpm(rig.amc, 0x2E)
    assert bytes((0, 0, 0b00000101, 7, 1, 2, 7, 0b1)) == hpm(rig.bmc, 0x2E)
    bits = ('automatic_rollback', 'services_affected', 'degraded', 'override', 'undesirable')
    every = Ability(**dict.fromkeys(bits, True))
    assert 0b11101111 == hpm(Rig(ability=every).bmc, 0x2E)[2]
    assert 0 == hpm(Rig(ability=Ability(self_test=False, manual_rollback=False)).bmc, 0x2E)[2]


def test_properties_of_a_component():
    """General, version, name of 12 bytes, version before, deferred version; each absent one by its own code."""
    parts = {
        0: FPGA_PART,
        1: LATER_PART,
        5: HpmPart(key=BMC_KEY, name='elevenchars', backup=Backup.NONE, prepares=False, compares=False, oem={0xC1: b'oem'}),
    }
    rig = Rig(amc_parts=parts)
    asked = {(n, s): hpm(rig.amc, 0x2F, bytes((n, s))) for n in (0, 1, 5) for s in range(5)}
    assert [0b001110, 0b111110, 0] == [asked[n, 0][1] for n in (0, 1, 5)]
    assert bytes((0, 1, 0x02, 0, 7, 0, 0)) == asked[0, 1]
    assert bytes((0, 1, 0x04, 0, 0, 0, 0)) == asked[5, 1]
    assert (b'\0FPGA\0\0\0\0\0\0\0\0', b'\0elevenchars\0') == (asked[0, 2], asked[5, 2])
    assert (b'\0' + NO_VERSION, b'\x83') == (asked[0, 3], asked[5, 3])
    assert (b'\x83', b'\0' + NO_VERSION) == (asked[0, 4], asked[1, 4])
    assert (b'\0oem', b'\x83') == (hpm(rig.amc, 0x2F, b'\5\xc1'), hpm(rig.amc, 0x2F, b'\5\xc0'))
    assert (b'\x82', b'\x83') == (hpm(rig.amc, 0x2F, b'\2\0'), hpm(rig.amc, 0x2F, b'\0\5'))


def test_an_image_is_held_until_it_is_activated_and_lands_in_the_machine():
    """Version and digest are those of the image; what was active before is the way back; the writer is the BMC."""
    rig = Rig()
    assert b'\0' == uploaded(rig)
    assert (OLD, None, None, NEW) == rig.versions()
    assert b'\0' == hpm(rig.amc, 0x35)
    assert (NEW, OLD, None, None) == rig.versions()
    active = rig.machine.truth()['components'][FPGA_KEY]['active']
    assert (f'sha256:{hashlib.sha256(IMAGE).hexdigest()}', 'bmc') == (active['digest'], active['writer'])
    assert bytes((0, 2, 0x15, 0, 9, 0, 0)) == hpm(rig.amc, 0x2F, b'\0\1')
    assert bytes((0, 1, 0x02, 0, 7, 0, 0)) == hpm(rig.amc, 0x2F, b'\0\3')
    assert b'\xd5' == hpm(rig.amc, 0x35)
    assert 1 == rig.amc_upgrades.activations


def test_what_the_host_wrote_is_said_to_be_the_hosts():
    """Over the system interface, and from there over a bridge."""
    rig = Rig()
    system = {'channel': SYSTEM}
    assert b'\0' == hpm(rig.bmc, 0x31, ERASE, **system)
    data = image('1.5', model='es2000', component='bmc')
    assert b'\0' == upload(rig.bmc, data, channel=SYSTEM, block_bytes=64)
    assert 'host' == rig.machine.components[BMC_KEY].held.writer
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    for start in range(0, len(IMAGE), 23):
        block(rig.amc, start // 23 & 0xFF, IMAGE[start : start + 23])
    inner = message(0x2C, 0x33, b'\0\0' + len(IMAGE).to_bytes(4, 'little'), to=0x72, sender=0x20)
    answer = rig.bmc.answer(CommandRequest(channel=SYSTEM, netfn=APP, command=0x34, data=b'\x40' + inner))
    assert b'\0\0' == answer.then.data
    assert 'host' == rig.machine.components[FPGA_KEY].held.writer


def test_block_numbers_go_round_and_a_repeated_one_is_taken_once():
    """From 255 to 0; the last number with the same bytes is a retransmission, with others it is none."""
    rig = Rig()
    data = image(NEW, size_bytes=6000)
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    for count, start in enumerate(range(0, len(data), 20)):
        piece = data[start : start + 20]
        assert b'\0' == block(rig.amc, count & 0xFF, piece)
        if count in (0, 7, 255, 256):
            assert b'\0' == block(rig.amc, count & 0xFF, piece)
    assert b'\xcc' == block(rig.amc, count & 0xFF, b'other')
    assert count > 256
    assert 4 == rig.amc_upgrades.repeated
    assert b'\0' == hpm(rig.amc, 0x33, b'\0' + len(data).to_bytes(4, 'little'), channel=IPMB)


def test_a_wrong_number_is_refused_and_changes_nothing():
    """One too far, one before the last, not 0 at first."""
    rig = Rig()
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    assert [b'\xcc', b'\0', b'\0', b'\xcc', b'\xcc'] == [
        block(rig.amc, number, IMAGE[:10] if number == 0 else IMAGE[10:20]) for number in (1, 0, 1, 0, 3)
    ]
    for count, start in enumerate(range(20, len(IMAGE), 20), 2):
        assert b'\0' == block(rig.amc, count, IMAGE[start : start + 20])
    assert b'\0' == hpm(rig.amc, 0x33, b'\0' + len(IMAGE).to_bytes(4, 'little'), channel=IPMB)


@pytest.mark.parametrize('code', [0xC7, 0xC8])
def test_how_long_a_block_may_be_depends_on_the_channel(code):
    """23 bytes on the IPMB, 200 on the LAN; one more is refused, and not taken."""
    rig = Rig(ability=Ability(too_long=code))
    refused = bytes((code,))
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    assert [refused, b'\0'] == [block(rig.amc, 0, IMAGE[:size]) for size in (24, 23)]
    assert [refused, b'\0'] == [block(rig.amc, 1, IMAGE[23 : 23 + size], LAN) for size in (201, 200)]
    rest = IMAGE[223:]
    for count, start in enumerate(range(0, len(rest), 23), 2):
        assert b'\0' == block(rig.amc, count, rest[start : start + 23])
    assert b'\0' == hpm(rig.amc, 0x33, b'\0' + len(IMAGE).to_bytes(4, 'little'))


def test_finish_wants_the_number_of_bytes_that_came():
    """81h for another, and the upload goes on; CCh for another component."""
    rig = Rig()
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    for count, start in enumerate(range(0, len(IMAGE), 23)):
        block(rig.amc, count, IMAGE[start : start + 23])
    size = len(IMAGE)
    asked = [(0, size - 1), (0, size + 1), (1, size), (0, size), (0, size)]
    answers = [hpm(rig.amc, 0x33, bytes((number,)) + length.to_bytes(4, 'little')) for number, length in asked]
    assert [b'\x81', b'\x81', b'\xcc', b'\0', b'\xd5'] == answers


@pytest.mark.parametrize(
    'data',
    [
        IMAGE[:-1] + bytes((IMAGE[-1] ^ 1,)),
        b'no image at all',
        image(NEW, model='other'),
        image(NEW, component='shell'),
        image('2.0-rc1'),
        image('200.1'),
    ],
)
def test_content_that_is_not_for_the_component_is_refused(data):
    """82h: damaged, none of ours, for another model or component, of a version that HPM.1 cannot tell."""
    rig = Rig()
    assert b'\x82' == uploaded(rig, data)
    assert ((OLD, None, None, None), b'\xd5') == (rig.versions(), hpm(rig.amc, 0x35))


def test_a_bit_that_turns_on_the_way_is_found_at_the_end():
    """The fault image-damaged, for blocks."""
    rig = Rig()
    rig.machine.add_fault({'name': 'image-damaged', 'device': 'AMC_1', 'method': '2C/32', 'after_bytes': 500})
    assert b'\x82' == uploaded(rig)


def test_actions_come_in_their_turn():
    """D5h: upload without erase, block, Finish and Activate without what they need. 81h: no such component, or several."""
    rig = Rig()
    asked = (
        (0x31, OPEN, 0xD5),
        (0x32, b'\0data', 0xD5),
        (0x33, bytes(5), 0xD5),
        (0x35, b'', 0xD5),
        (0x38, b'', 0xD5),
        (0x36, b'', 0xD5),
        (0x31, b'\0\1', 0x81),
        (0x31, b'\4\1', 0x81),
        (0x31, b'\3\2', 0x81),
        (0x31, b'\1\4', 0xCC),
        (0x31, b'\1', 0xC7),
        (0x32, b'\0', 0xC7),
        (0x35, b'\2', 0xCC),
        (0x35, b'\1', 0xCC),
        (0x30, b'x', 0xC7),
    )
    assert [bytes((code,)) for *_, code in asked] == [hpm(rig.amc, command, data) for command, data, _ in asked]
    none = HpmPart(key=FPGA_KEY, name='x', backup=Backup.NONE, prepares=False, compares=False)
    rig = Rig(amc_parts={0: none})
    assert [b'\xd5', b'\xd5', b'\xd5', b'\0'] == [hpm(rig.amc, 0x31, bytes((1, action))) for action in (0, 1, 3, 2)]


def test_an_upload_that_is_open_stands_in_the_way_of_another():
    """80h, until Abort; or a new one begins, where the controller is of that kind."""
    rig = Rig()
    prepared(rig)
    assert [b'\0', b'\x80', b'\x80'] == [hpm(rig.amc, 0x31, what) for what in (OPEN, OPEN, ERASE)]
    assert b'\0' == hpm(rig.amc, 0x30)
    assert b'\xd5' == hpm(rig.amc, 0x31, OPEN)
    assert b'\0' == uploaded(rig)
    other = Rig(ability=Ability(while_uploading=None))
    prepared(other)
    assert [b'\0', b'\0', b'\0'] == [
        hpm(other.amc, 0x31, OPEN),
        block(other.amc, 0, b'x'),
        hpm(other.amc, 0x31, OPEN),
    ]
    assert b'\xcc' == block(other.amc, 1, b'x')


def test_what_takes_time_is_asked_about():
    """80h, then Get Upgrade Status with a percentage; all else is busy, and the code of the end is told."""
    rig = Rig(times=Times(erase=10, finish=4))
    assert b'\0\0\0' == hpm(rig.amc, 0x34)
    assert b'\x80' == hpm(rig.amc, 0x31, ERASE)
    rig.clock.advance(2.5)
    assert bytes((0, 0x31, 0x80, 25)) == hpm(rig.amc, 0x34)
    busy = [(0x31, ERASE), (0x32, b'\0x'), (0x33, bytes(5)), (0x35, b''), (0x38, b'')]
    assert {b'\xc0'} == {hpm(rig.amc, command, data) for command, data in busy}
    assert {0} == {hpm(rig.amc, command, data)[0] for command, data in ((0x2E, b''), (0x2F, b'\0\1'), (0x37, b''))}
    rig.clock.advance(7.5)
    assert bytes((0, 0x31, 0)) == hpm(rig.amc, 0x34)
    assert b'\x80' == upload(rig.amc, IMAGE[:-1])
    assert bytes((0, 0x33, 0x80, 0)) == hpm(rig.amc, 0x34)
    rig.clock.advance(4)
    assert bytes((0, 0x33, 0x82)) == hpm(rig.amc, 0x34)


def test_abort_ends_an_erase_but_no_activation():
    """80h for that; what was begun does not end later."""
    rig = Rig(times=Times(erase=10, activate=10))
    hpm(rig.amc, 0x31, ERASE)
    assert b'\0' == hpm(rig.amc, 0x30)
    assert bytes((0, 0x30, 0)) == hpm(rig.amc, 0x34)
    rig.clock.advance(11)
    assert b'\xd5' == hpm(rig.amc, 0x31, OPEN)
    hpm(rig.amc, 0x31, ERASE)
    rig.clock.advance(10)
    assert b'\0' == upload(rig.amc, IMAGE)
    assert [b'\x80', b'\x80'] == [hpm(rig.amc, 0x35), hpm(rig.amc, 0x30)]
    assert (OLD, None, None, NEW) == rig.versions()
    rig.clock.advance(10)
    rig.machine.settle()
    assert (NEW, OLD, None, None) == rig.versions()


def test_a_block_can_take_time():
    """80h for each, and it is written all the same."""
    rig = Rig(times=Times(block=1))
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    for count, start in enumerate(range(0, len(IMAGE), 23)):
        assert b'\x80' == block(rig.amc, count, IMAGE[start : start + 23])
        assert bytes((0, 0x32, 0x80, 0)) == hpm(rig.amc, 0x34)
        rig.clock.advance(1)
    assert b'\0' == hpm(rig.amc, 0x33, b'\0' + len(IMAGE).to_bytes(4, 'little'))


def test_a_controller_that_restarts_to_activate_is_away():
    """The BMC, and with it the whole machine's BMC: nobody is answered, the version changes at the end of it."""
    rig = Rig(times=Times(activate=30))
    hpm(rig.bmc, 0x31, ERASE)
    assert b'\0' == upload(rig.bmc, image('1.5', model='es2000', component='bmc'), channel=LAN)
    assert b'\x80' == hpm(rig.bmc, 0x35)
    rig.clock.advance(29)
    assert (True, True) == (rig.bmc.is_away, rig.machine.is_bmc_down('host'))
    assert '1.4' == rig.versions(BMC_KEY)[0]
    rig.clock.advance(1)
    assert (False, '1.5', '1.4') == (rig.bmc.is_away, *rig.versions(BMC_KEY)[:2])
    assert bytes((0, 0x35, 0)) == hpm(rig.bmc, 0x34)
    assert b'\0\x55\0' == hpm(rig.bmc, 0x36)


def test_a_card_that_restarts_to_activate_is_not_acknowledged_meanwhile():
    """83h from the BMC, which itself is there; then the version is the new one."""
    rig = Rig(amc_parts={0: dataclasses.replace(FPGA_PART, restarts=True)}, times=Times(activate=8))
    uploaded(rig)
    assert b'\x80' == hpm(rig.amc, 0x35)
    bridged = CommandRequest(channel=LAN, netfn=APP, command=0x34, data=b'\x40' + message(APP, 1, to=0x72, sender=0x20))
    assert 0x83 == rig.bmc.answer(bridged).code
    assert not rig.bmc.is_away
    rig.clock.advance(8)
    assert 0 == rig.bmc.answer(bridged).code
    assert (NEW, OLD, None, None) == rig.versions()


def test_a_restart_loses_what_is_held_unless_it_is_deferred():
    """Cold Reset of the controller: the upload is gone, the deferred one stays, with its version; so it does over a dump."""
    rig = Rig(amc_parts={0: FPGA_PART, 1: dataclasses.replace(LATER_PART)})
    uploaded(rig)
    uploaded(rig, number=1)
    assert bytes((0, 2, 0x15, 0, 9, 0, 0)) == hpm(rig.amc, 0x2F, b'\1\4')
    assert b'\0' == ask(rig.amc, APP, 0x02, channel=IPMB)
    assert (None, NEW) == (rig.versions()[3], rig.versions(LATER_KEY)[3])
    rig.clock.advance(1)
    again = Rig()
    again.machine.load(rig.machine.dump())
    assert bytes((0, 2, 0x15, 0, 9, 0, 0)) == hpm(again.amc, 0x2F, b'\1\4')


def test_a_component_that_needs_the_payload_restarted_is_staged_until_then():
    """Activate arms it; a warm restart of the host is not enough, taking its power away is."""
    rig = Rig()
    uploaded(rig, number=1)
    assert b'\0' == hpm(rig.amc, 0x35)
    assert (OLD, None, NEW, None) == rig.versions(LATER_KEY)
    for kind, expected in (('ForceRestart', OLD), ('PowerCycle', NEW)):
        rig.machine.reset_system('host', kind)
        for _ in range(3):
            rig.clock.advance(1)
            rig.machine.settle()
        assert expected == rig.versions(LATER_KEY)[0]
    assert rig.machine.components[LATER_KEY].activates is Restart.COLD


def cold(rig):
    """The power of the host is taken away and given back."""
    rig.machine.reset_system('host', 'PowerCycle')
    for _ in range(3):
        rig.clock.advance(1)
        rig.machine.settle()


def test_a_component_that_needs_the_payload_restarted_goes_back_with_the_next_restart():
    """Manual rollback arms what ran before; a second one takes that back; the banks swap when the host is restarted."""
    rig = Rig()
    uploaded(rig, number=1)
    hpm(rig.amc, 0x35)
    cold(rig)
    assert (NEW, OLD, None, None) == rig.versions(LATER_KEY)
    for staged in (OLD, None, OLD):
        assert b'\0' == hpm(rig.amc, 0x38)
        assert b'\0\x02\x64' == hpm(rig.amc, 0x37)
        assert (NEW, OLD, staged, None) == rig.versions(LATER_KEY)
    cold(rig)
    assert (OLD, NEW, None, None) == rig.versions(LATER_KEY)


def test_what_waits_for_the_payload_is_taken_back_by_a_rollback():
    """An activation that no restart has completed; what runs stays, and nothing is left to go back to."""
    rig = Rig()
    uploaded(rig, number=1)
    hpm(rig.amc, 0x35)
    assert (OLD, None, NEW, None) == rig.versions(LATER_KEY)
    assert b'\0' == hpm(rig.amc, 0x38)
    assert (OLD, None, None, None) == rig.versions(LATER_KEY)
    assert b'\xd5' == hpm(rig.amc, 0x38)
    cold(rig)
    assert (OLD, None, None, None) == rig.versions(LATER_KEY)


def test_compare_writes_nothing():
    """00h for the same image, 83h for another or none."""
    rig = Rig()
    assert [b'\0', b'\x83', b'\x83'] == [upload(rig.amc, data, action=3) for data in (image(OLD), IMAGE, b'junk')]
    assert (OLD, None, None, None) == rig.versions()


def test_manual_rollback_swaps_the_banks():
    """It takes its time, then the mask of what was rolled back is told; twice is back again."""
    rig = Rig(times=Times(roll_back=3))
    assert b'\0\0' == hpm(rig.amc, 0x37)
    uploaded(rig)
    hpm(rig.amc, 0x35)
    assert [b'\x80', b'\x80'] == [hpm(rig.amc, 0x38), hpm(rig.amc, 0x37)]
    rig.clock.advance(3)
    assert b'\0\x01\x64' == hpm(rig.amc, 0x37)
    assert (OLD, NEW, None, None) == rig.versions()
    hpm(rig.amc, 0x38)
    rig.clock.advance(3)
    rig.machine.settle()
    assert (NEW, OLD, None, None) == rig.versions()
    assert 2 == rig.amc_upgrades.rollbacks
    assert b'\xd5' == hpm(Rig(ability=Ability(manual_rollback=False)).amc, 0x38)


def test_a_backup_by_command_is_the_way_back():
    """What was copied stays; without the command there is no way back."""
    rig = Rig(amc_parts={0: dataclasses.replace(FPGA_PART, backup=Backup.BY_COMMAND)})
    assert 0b001101 == hpm(rig.amc, 0x2F, b'\0\0')[1]
    uploaded(rig)
    hpm(rig.amc, 0x35)
    assert ((NEW, None, None, None), b'\xd5') == (rig.versions(), hpm(rig.amc, 0x38))
    assert b'\0' == hpm(rig.amc, 0x31, b'\1\0')
    uploaded(rig, image('3.0'))
    hpm(rig.amc, 0x35)
    assert ('3.0', NEW, None, None) == rig.versions()


def test_a_self_test_that_fails_rolls_back_by_itself_or_not():
    """57h with the bits; 37h counts what went back, or says 82h where that was overridden."""
    ability = Ability(automatic_rollback=True, override=True)
    for override, code, versions in ((b'', b'\0\x01\x64', (OLD, NEW)), (b'\1', b'\x82\0', (NEW, OLD))):
        rig = Rig(ability=ability, times=Times(self_test=2, roll_back=3))
        rig.machine.add_fault({'name': 'self-test-fails', 'device': 'AMC_1', 'bits': 4})
        uploaded(rig)
        assert b'\0' == hpm(rig.amc, 0x35, override)
        assert b'\x80' == hpm(rig.amc, 0x36)
        rig.clock.advance(2)
        assert b'\0\x57\x04' == hpm(rig.amc, 0x36)
        assert (b'\x82\0' if override else b'\x80') == hpm(rig.amc, 0x37)
        rig.clock.advance(3)
        assert (code, versions) == (hpm(rig.amc, 0x37), rig.versions()[:2])


def test_a_lock_of_the_machine_stands_in_the_way():
    """WriteProtected, which Redfish shows: D5h for erase and upload; closed while blocks travel: 82h."""
    rig = Rig()
    rig.machine.configure('FPGA_0/WriteProtected', True)
    assert [b'\xd5', b'\xd5'] == [hpm(rig.amc, 0x31, ERASE), hpm(rig.amc, 0x31, OPEN)]
    rig.machine.configure('FPGA_0/WriteProtected', False)
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    for count, start in enumerate(range(0, len(IMAGE), 23)):
        block(rig.amc, count, IMAGE[start : start + 23])
    rig.machine.configure('FPGA_0/WriteProtected', True)
    assert b'\x82' == hpm(rig.amc, 0x33, b'\0' + len(IMAGE).to_bytes(4, 'little'))


def test_a_flash_that_is_full_takes_no_more():
    """81h."""
    rig = Rig(amc_parts={0: dataclasses.replace(FPGA_PART, flash_bytes=50)})
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    assert [b'\0', b'\0', b'\x81', b'\0'] == [
        block(rig.amc, number, bytes(size)) for number, size in ((0, 23), (1, 23), (2, 5), (2, 4))
    ]


def test_a_section_can_be_asked_for_again():
    """Offset and length with the answer to a block; Finish has all bytes that were sent."""
    data = image(NEW, size_bytes=500)
    again = (20, len(data) - 20)
    rig = Rig(amc_parts={0: dataclasses.replace(FPGA_PART, sections={60: again})})
    prepared(rig)
    hpm(rig.amc, 0x31, OPEN, channel=IPMB)
    assert b'\0' == block(rig.amc, 0, data[:20])
    assert b'\0' == block(rig.amc, 1, data[20:40])
    wanted = b'\0' + (20).to_bytes(4, 'little') + again[1].to_bytes(4, 'little')
    assert [wanted, wanted] == [block(rig.amc, 2, data[40:60]), block(rig.amc, 2, data[40:60])]
    for count, start in enumerate(range(20, len(data), 20), 3):
        assert b'\0' == block(rig.amc, count, data[start : start + 20])
    assert b'\0' == hpm(rig.amc, 0x33, b'\0' + (len(data) + 40).to_bytes(4, 'little'))
    assert read_image(data).digest == rig.machine.components[FPGA_KEY].held.digest


@pytest.mark.parametrize(
    ('fault', 'versions'),
    [
        ({'name': 'activation-lost'}, (OLD, None, None, NEW)),
        ({'name': 'activation-refused'}, (OLD, None, None, None)),
        ({'name': 'activation-refused', 'leaves': '1.9'}, ('1.9', OLD, None, None)),
        ({'name': 'bmc-restart', 'method': '2C/35', 'seconds': 5}, (OLD, None, None, None)),
        ({'name': 'bmc-restart', 'method': '2C/35', 'seconds': 5, 'completes': True}, (NEW, OLD, None, None)),
    ],
)
def test_an_activation_can_go_wrong(fault, versions):
    """It is answered as ever; the banks say what became of it, and a restart in the middle takes the controller away."""
    rig = Rig(times=Times(activate=2))
    rig.machine.add_fault({'device': 'AMC_1', **fault})
    uploaded(rig)
    assert b'\x80' == hpm(rig.amc, 0x35)
    assert ('seconds' in fault) is rig.amc.is_away
    rig.clock.advance(5)
    assert not rig.amc.is_away
    assert versions == rig.versions()


def test_commands_are_refused_by_their_number_and_data():
    """Busy twice, then not; block 3 is refused, the others are not; with after it is done all the same."""
    rig = Rig()
    add = rig.machine.add_fault
    add({'name': 'ipmi-code', 'device': 'AMC_1', 'method': '2C/31', 'count': 2})
    assert [b'\xc0', b'\xc0', b'\0'] == [hpm(rig.amc, 0x31, ERASE) for _ in range(3)]
    add({'name': 'ipmi-code', 'device': 'AMC_1', 'method': '2C/32', 'uri': '00 03 *', 'code': 0x82})
    hpm(rig.amc, 0x31, OPEN)
    assert [b'\0', b'\0', b'\0', b'\x82'] == [block(rig.amc, number, b'x%d' % number) for number in range(4)]
    rig.machine.faults.remove()
    add({'name': 'ipmi-code', 'device': 'AMC_1', 'method': '2C/30', 'code': 0xD3, 'after': True, 'count': 1})
    assert [b'\xd3', b'\xd5'] == [hpm(rig.amc, 0x30), block(rig.amc, 3, b'x')]


@pytest.mark.parametrize('after', [False, True])
def test_an_answer_can_be_lost_before_or_after_all_is_done(after):
    """Over a bridge the BMC acknowledges, and nothing comes from behind it; once."""
    rig = Rig()
    rig.machine.add_fault({'name': 'hang', 'device': 'AMC_1', 'method': '2C/35', 'count': 1, 'after': after})
    uploaded(rig)
    bridged = CommandRequest(
        channel=LAN, netfn=APP, command=0x34, data=b'\x40' + message(0x2C, 0x35, b'\0', to=0x72, sender=0x20)
    )
    first = rig.bmc.answer(bridged)
    assert (0, None, int(after)) == (first.code, first.then, rig.amc_upgrades.activations)
    assert (b'\xd5\0' if after else b'\0\0') == rig.bmc.answer(bridged).then.data


def test_a_card_that_is_gone_is_not_there():
    """The fault device-absent takes its controller away as well, not the BMC."""
    rig = Rig()
    rig.machine.add_fault({'name': 'device-absent', 'device': 'AMC_1'})
    assert (True, False) == (rig.amc.is_away, rig.bmc.is_away)


def test_a_restart_instead_of_an_answer():
    """bmc-restart-on-request, by the number of a command."""
    rig = Rig()
    rig.machine.add_fault({'name': 'bmc-restart-on-request', 'method': '06/01', 'count': 1, 'seconds': 3})
    rig.bmc.answer(CommandRequest(channel=LAN, netfn=APP, command=0x01))
    assert (True, True) == (rig.bmc.is_away, rig.machine.is_bmc_down('host'))
    rig.clock.advance(3)
    assert not rig.bmc.is_away


# --------------------------------------------------------------------------------------------- habits of real controllers


def habit(name, **more):
    """A machine whose controllers have it."""
    return Rig(ability=Ability(**HABITS[name]), **more)


def begun(rig, controller=None, channel=IPMB):
    """An upload of component 0 is open."""
    controller = controller or rig.amc
    assert [b'\0', b'\0'] == [hpm(controller, 0x31, what, channel=channel) for what in (ERASE, OPEN)]


def finish(controller, size):
    return hpm(controller, 0x33, b'\0' + size.to_bytes(4, 'little'))


def test_a_length_in_one_byte_loses_what_is_longer_without_a_word():
    """Of 300 bytes 44 are taken, of 256 none; 00h to all, 81h to Finish. Shorter blocks arrive whole."""
    rig = habit('length-modulo-256')
    data = image('1.5', model='es2000', component='bmc', size_bytes=3000)
    for size, expected in ((300, b'\x81'), (256, b'\x81'), (255, b'\0'), (36, b'\0')):
        begun(rig, rig.bmc, LAN)
        starts = range(0, len(data), size)
        answers = {block(rig.bmc, n & 0xFF, data[start : start + size], LAN) for n, start in enumerate(starts)}
        assert ({b'\0'}, expected) == (answers, finish(rig.bmc, len(data))), size
        if expected == b'\x81':
            kept = sum(len(data[start : start + size]) & 0xFF for start in starts)
            assert b'\x82' == finish(rig.bmc, kept)
    assert '1.5' == rig.versions(BMC_KEY)[3]


@pytest.mark.parametrize('code', [0xCC, 0x82])
def test_a_block_that_comes_again_can_be_refused(code):
    """It was taken the first time, is not counted, and the next one goes on from there."""
    rig = Rig(ability=Ability(repeated=code))
    begun(rig)
    for count, start in enumerate(range(0, len(IMAGE), 23)):
        piece = IMAGE[start : start + 23]
        assert [b'\0', bytes((code,))] == [block(rig.amc, count, piece) for _ in range(2)]
    assert (b'\0', 0) == (finish(rig.amc, len(IMAGE)), rig.amc_upgrades.repeated)
    assert EmulatedCode.INVALID_FIELD == habit('refuses-repeats').amc_upgrades.ability.repeated


def test_a_block_that_fills_a_page_is_answered_by_80_and_done():
    """Get Upgrade Status says 00h at once; the same block again is 00h; a page may be filled by the middle of a block."""
    rig = habit('pages-in-progress')
    begun(rig)
    answers = []
    for count, start in enumerate(range(0, len(IMAGE), 20)):
        answers.append(block(rig.amc, count, IMAGE[start : start + 20])[0])
        assert bytes((0, 0x32, 0)) == hpm(rig.amc, 0x34)
        assert b'\0' == block(rig.amc, count, IMAGE[start : start + 20])
    pages = {page // 20 for page in range(255, len(IMAGE), 256)}
    assert {0x80: pages, 0: set(range(len(answers))) - pages} == {
        code: {n for n, got in enumerate(answers) if got == code} for code in (0x80, 0)
    }
    assert b'\0' == finish(rig.amc, len(IMAGE))


@pytest.mark.parametrize('seconds', [0, 4])
def test_a_controller_can_activate_as_it_finishes(seconds):
    """Finish is answered, then it is away; then it runs the new version, has nothing to activate, and remembers nothing."""
    rig = habit('activates-at-finish', times=Times(finish=seconds, activate=8, self_test=2))
    assert bytes((0, 0b00000101)) == hpm(rig.amc, 0x2E)[1:3]
    assert [0b001110, 0b101110] == [hpm(rig.amc, 0x2F, bytes((n, 0)))[1] for n in (0, 1)]
    assert (b'\x80' if seconds else b'\0') == uploaded(rig)
    rig.clock.advance(seconds)
    assert rig.amc.is_away
    assert not rig.bmc.is_away
    rig.clock.advance(7.9)
    assert rig.amc.is_away
    rig.clock.advance(0.1)
    assert not rig.amc.is_away
    assert (NEW, OLD, None, None) == rig.versions()
    asked = [hpm(rig.amc, command) for command in (0x34, 0x35, 0x36)]
    assert [b'\0\0\0', b'\xd5', b'\xd5'] == asked
    assert (0, b'\0') == (rig.amc_upgrades.activations, hpm(rig.amc, 0x31, ERASE))


def test_where_it_activates_as_it_finishes_nothing_happens_to_what_it_refuses():
    """Damaged, or compared only: it does not restart."""
    rig = habit('activates-at-finish')
    assert b'\x82' == uploaded(rig, IMAGE[:-1])
    assert b'\x83' == upload(rig.amc, IMAGE, action=3)
    rig.clock.advance(1)
    assert (False, OLD) == (rig.amc.is_away, rig.versions()[0])


def test_an_upgrade_can_be_undesirable_until_it_is_not():
    """Bit 7, and D5h to each Initiate; then neither."""
    rig = habit('undesirable')
    assert 0x80 == hpm(rig.amc, 0x2E)[2] & 0x80
    assert {b'\xd5'} == {hpm(rig.amc, 0x31, bytes((1, action))) for action in range(4)}
    assert b'\x81' == hpm(rig.amc, 0x31, b'\4\1')
    rig.amc_upgrades.ability = dataclasses.replace(rig.amc_upgrades.ability, undesirable=False)
    assert (0, b'\0') == (hpm(rig.amc, 0x2E)[2] & 0x80, uploaded(rig))


def test_a_self_test_that_there_is_not_can_read_as_failed():
    """57h 02h, before and after an activation, and bit 0 is not set."""
    rig = habit('untested')
    assert (0, b'\0\x57\2') == (hpm(rig.amc, 0x2E)[2] & 1, hpm(rig.amc, 0x36))
    assert [b'\0', b'\0', b'\0\x57\2'] == [uploaded(rig), hpm(rig.amc, 0x35), hpm(rig.amc, 0x36)]
    assert NEW == rig.versions()[0]


@pytest.mark.parametrize('seconds', [0, 4])
def test_a_command_that_its_bmc_repeats_is_done_and_answered_busy(seconds):
    """C0h to what was executed, once; to what there is nothing for, D5h as ever."""
    rig = habit('busy-when-done', times=Times(activate=seconds, roll_back=seconds))
    assert [b'\xd5', b'\xd5'] == [hpm(rig.amc, command) for command in (0x35, 0x38)]
    uploaded(rig)
    for command, version in ((0x35, NEW), (0x38, OLD)):
        assert b'\xc0' == hpm(rig.amc, command)
        assert bytes((0, command, 0x80 if seconds else 0)) == hpm(rig.amc, 0x34)[:3]
        rig.clock.advance(seconds)
        assert bytes((0, command, 0)) == hpm(rig.amc, 0x34)
        assert version == rig.versions()[0]
    assert (1, 1, b'\xd5') == (rig.amc_upgrades.activations, rig.amc_upgrades.rollbacks, hpm(rig.amc, 0x35))


def test_what_is_backed_up_by_itself_may_refuse_to_be_told_to():
    """CCh, also for several of which one is so; what is backed up by command is, and the upload goes on without."""
    by_command = dataclasses.replace(LATER_PART, backup=Backup.BY_COMMAND)
    rig = habit('refuses-backup', amc_parts={0: FPGA_PART, 1: by_command})
    assert 2 == hpm(rig.amc, 0x2F, b'\0\0')[1] & 3
    assert [b'\xcc', b'\0', b'\xcc'] == [hpm(rig.amc, 0x31, bytes((mask, 0))) for mask in (1, 2, 3)]
    assert [b'\0', b'\0'] == [uploaded(rig), hpm(rig.amc, 0x35)]
    assert OLD == rig.versions()[1]


def test_versions_that_lie_lie_here_too():
    """The fault version-lies is about the component, whoever asks; what HPM.1 cannot tell is told as none."""
    rig = Rig()
    rule = rig.machine.add_fault({'name': 'version-lies', 'version': '9.9', 'device': 'AMC_1'})
    assert bytes((0, 9, 0x09, 0, 0, 0, 0)) == hpm(rig.amc, 0x2F, b'\0\1')
    rig.machine.faults.remove(rule.id)
    rig.machine.components[FPGA_KEY].active = Bank(version='written by Redfish')
    assert b'\0' + NO_VERSION == hpm(rig.amc, 0x2F, b'\0\1')


def test_only_administrators_write():
    """D4h with the body code; reading is for users."""
    rig = Rig()
    for command, data in ((0x30, b''), (0x31, ERASE), (0x32, b'\0x'), (0x33, bytes(5)), (0x35, b''), (0x38, b'')):
        assert b'\xd4' == hpm(rig.amc, command, data, privilege=EmulatedPrivilege.OPERATOR)
    for command, data in ((0x2E, b''), (0x2F, b'\0\0'), (0x34, b''), (0x37, b'')):
        assert b'\0' == hpm(rig.amc, command, data, privilege=EmulatedPrivilege.USER)[:1]


def test_the_lan_says_how_long_messages_can_be():
    """2C/3E, then the LAN parameter that it names: capabilities, attach type, bandwidth, inbound, outbound."""
    channel, controller = LanChannel(), EmulatedController()
    channel.join(controller)
    extended = ExtendedLan(channel, inbound_bytes=1040, outbound_bytes=512, start=0xC8)
    extended.join(controller)
    assert 1031 == extended.block_bytes
    assert bytes.fromhex('00 02 01 0200 00 c8 01 00 00') == hpm(controller, 0x3E, b'\2')
    assert bytes.fromhex('00 11 00 00 00 1004 0002') == ask(controller, TRANSPORT, 0x02, b'\x0e\xc8\0\0')
    assert (b'\xcc', b'\x82') == (hpm(controller, 0x3E, b'\3'), ask(controller, TRANSPORT, 0x01, b'\x0e\xc8' + bytes(7)))
    for wrong in ({'start': 0xBF}, {'inbound_bytes': 7}, {'inbound_bytes': 65536}, {'outbound_bytes': 0}):
        with pytest.raises(ValueError, match=r'HPM\.2'):
            ExtendedLan(channel, **wrong)


@pytest.mark.parametrize(
    ('parts', 'reason'),
    [
        ({8: FPGA_PART}, 'component 8'),
        ({0: dataclasses.replace(FPGA_PART, key='none')}, "'none'"),
        ({0: dataclasses.replace(FPGA_PART, name='twelve chars')}, '11 ASCII'),
        ({0: dataclasses.replace(BMC_PART, name='x')}, "'1.4-rc'"),
    ],
)
def test_what_hpm_cannot_tell_is_said_at_once(parts, reason):
    """A mistake of whoever sets the emulator up."""
    rig = Rig()
    rig.machine.components[BMC_KEY].active = Bank(version='1.4-rc')
    with pytest.raises(ValueError, match=reason):
        Upgrades(rig.machine, parts, Presence(rig.bmc, rig.machine, 'host'))


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('2.15', '02 15 00000000'),
        ('0.7.1', '00 07 01000000'),
        ('96.00.61.00.01', '60 00 3d000100'),
        ('126.99.255.1.2.3', '7e 99 ff010203'),
    ],
)
def test_versions_have_six_bytes(text, expected):
    """The minor one in decimal digits."""
    assert bytes.fromhex(expected) == version_bytes(text)


@pytest.mark.parametrize('text', ['2', '2.x', '127.1', '1.100', '1.2.256', '1.2.3.4.5.6.7', '', '1..2', '٢.1'])
def test_other_versions_have_no_place(text):
    """ValueError names it."""
    with pytest.raises(ValueError, match='is not an HPM'):
        version_bytes(text)


def test_an_upgrade_image_has_the_layout_of_the_facts():
    """Every field of it at its offset; each sum is 0; the end is the MD5 of all before."""
    made = build_upgrade_image(
        [UploadAction(component=2, version='3.21.1', data=b'firmware', description='Payload')],
        device_id=0x34,
        manufacturer=0x00315A,
        product=0x1234,
        back_up=0b100,
        earliest=(1, 2),
        capabilities=0x80,
        timeouts=(1, 2, 3),
        built=0x01020304,
        oem=b'oem',
    )
    head = bytes.fromhex(
        '504943 4d47465755 00 34 5a3100 3412 04030201 80 04 01 02 03 01 02 03 21 01000000 0300'.replace(' ', '')
    )
    assert head + b'oem' == made[:37]
    assert 0 == sum(made[:38]) % 256
    records = made[38:-16]
    assert bytes((0, 4)) == records[0:2]
    assert bytes((1, 4)) == records[3:5]
    assert bytes((2, 4)) == records[6:8]
    assert [0, 0, 0] == [sum(records[start : start + 3]) % 256 for start in (0, 3, 6)]
    assert bytes.fromhex('03 21 01000000') + b'Payload'.ljust(21, b'\0') + b'\x08\0\0\0firmware' == records[9:]
    assert hashlib.md5(made[:-16]).digest() == made[-16:]
    other = build_upgrade_image(
        [UploadAction(component=0, version='1.0', data=b'x')],
        device_id=0,
        manufacturer=0,
        product=0,
        prepare=0,
        long_checksum=True,
    )
    assert 0 == sum(other[35 : 35 + 34]) % 256


@pytest.mark.parametrize(
    'uploads',
    [
        [],
        [UploadAction(component=8, version='1.0', data=b'')],
        [UploadAction(component=0, version='1.0', data=b'', description='x' * 21)],
    ],
)
def test_no_upgrade_image_is_made_that_nobody_could_read(uploads):
    """Nothing to upload, no such component, too long a text."""
    with pytest.raises(ValueError, match=r'upload|component|description'):
        build_upgrade_image(uploads, device_id=0, manufacturer=0, product=0)


def test_an_update_by_redfish_and_an_upload_do_not_meet():
    """C0h while a task of Redfish holds the component; and Redfish finds it held while an upload is open."""
    rig = Rig()
    prepared(rig)
    task = rig.machine.begin_update('host', [FPGA_KEY])
    assert b'\xc0' == hpm(rig.amc, 0x31, OPEN)
    rig.machine.update_failed(task, 'cut', 'the upload was cut')
    assert b'\0' == hpm(rig.amc, 0x31, OPEN)
    assert 'is being updated' in rig.machine.busy('host', [FPGA_KEY])
    hpm(rig.amc, 0x30)
    assert rig.machine.busy('host', [FPGA_KEY]) is None
    assert b'\0' == uploaded(rig)
    assert rig.machine.busy('host', [FPGA_KEY]) is None

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each channel takes the commands that are enabled on it, and no others.

The layouts are those of doc/source/reference/ipmi_notes.rst, "Commands of the firmware firewall".
"""

import pytest

from baremetal_acc.emulator.ipmi.chassis import EmulatedChassis
from baremetal_acc.emulator.ipmi.controller import APP, CHASSIS, IPMB, LAN, SYSTEM, CommandRequest, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.firewall import EmulatedFirewall
from baremetal_acc.emulator.ipmi.users import Users
from tests.unit.emulator.ipmi.console import message
from tests.unit.emulator.ipmi.machines import Rig, ask, hpm

GROUP = 0x2C
HPM = {0x2E, 0x2F, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38}


def bits(mask):
    """The numbers of the bits that are set."""
    return {number for number in range(len(mask) * 8) if mask[number // 8] >> number % 8 & 1}


def mask(numbers):
    """And back."""
    return sum(1 << number for number in numbers).to_bytes(16, 'little')


class Walled(Rig):
    """The rig with a firewall on the BMC and one on the AMC, users and a chassis."""

    def __init__(self, **more):
        super().__init__()
        self.users = Users()
        self.users.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
        self.users.join(self.bmc)
        self.controls = []
        EmulatedChassis(lambda: True, self.controls.append).join(self.bmc)
        self.bmc.add(0x30, 0x90, lambda _: b'high', privilege=EmulatedPrivilege.USER, lun=1)
        self.wall = EmulatedFirewall(self.bmc, self.machine, 'host', **more)
        self.amc_wall = EmulatedFirewall(self.amc, self.machine, 'host', 'AMC_1', **more)
        self.wall.join()
        self.amc_wall.join()

    def get(self, command, netfn, qualifier=b'', *, upper=0, lun=0, channel=SYSTEM):
        """One of the masks, as numbers of bits."""
        answer = ask(self.bmc, APP, command, bytes((channel, upper << 6 | netfn, lun)) + qualifier)
        assert b'\0' == answer[:1], answer
        return bits(answer[1:])

    def put(self, numbers, netfn, qualifier=b'', *, upper=0, lun=0, channel=SYSTEM):
        """Set Command Enables; gives its code."""
        return ask(self.bmc, APP, 0x60, bytes((channel, upper << 6 | netfn, lun)) + mask(numbers) + qualifier)


def test_what_there_is_what_can_change_and_what_is_on():
    """0 means supported in Get Command Support, 1 in the others; the qualifier of NetFn 2Ch is its body code."""
    rig = Walled()
    assert set(range(128)) - HPM == rig.get(0x0A, GROUP, b'\0')
    assert [HPM, HPM] == [rig.get(command, GROUP, b'\0') for command in (0x0C, 0x61)]
    app = {0x01, 0x02, 0x34, 0x43, 0x47, 0x60, 0x61}
    assert (set(), app) == (app & rig.get(0x0A, APP), app & rig.get(0x61, APP))
    assert {0x02, 0x34, 0x43, 0x47, 0x60} == app & rig.get(0x0C, APP)
    assert [set(range(128)) - {0x10}, {0x10}, {0x10}] == [rig.get(c, 0x30, upper=1, lun=1) for c in (0x0A, 0x0C, 0x61)]


def test_what_is_disabled_is_refused_on_that_channel_only():
    """D4h over the system interface, with the body code; over the LAN all goes on."""
    rig = Walled()
    assert b'\0' == rig.put(HPM - {0x31, 0x38}, GROUP, b'\0')
    assert HPM - {0x31, 0x38} == rig.get(0x61, GROUP, b'\0')
    assert (HPM, HPM) == (rig.get(0x61, GROUP, b'\0', channel=LAN), rig.get(0x61, GROUP, b'\0', channel=0x0E))
    assert [b'\xd4', b'\xd4', b'\0'] == [
        hpm(rig.bmc, c, d, channel=SYSTEM)[:1] for c, d in ((0x31, b'\1\1'), (0x38, b''), (0x2E, b''))
    ]
    assert b'\0' == hpm(rig.bmc, 0x31, b'\1\1')
    assert b'\0' == rig.put(HPM, GROUP, b'\0')
    assert b'\0' == hpm(rig.bmc, 0x31, b'\1\1', channel=SYSTEM)


def test_the_present_channel_is_the_one_that_is_asked_through():
    """Eh, over each."""
    rig = Walled()
    present = bytes((0x0E, GROUP, 0)) + mask(HPM - {0x35}) + b'\0'
    assert b'\0' == ask(rig.bmc, APP, 0x60, present, channel=SYSTEM)
    assert (HPM - {0x35}, HPM) == (rig.get(0x61, GROUP, b'\0'), rig.get(0x61, GROUP, b'\0', channel=LAN))
    assert b'\xd4' == hpm(rig.bmc, 0x35, channel=SYSTEM)


def test_a_write_that_wants_too_much_changes_nothing():
    """80h: on what is not there, off what cannot be; all ones, all zeros. The rest of the mask is not applied either."""
    rig = Walled()
    on = rig.get(0x61, APP)
    for wanted in (set(range(128)), set(), on | {0x7F}, on - {0x01}, on - {0x47, 0x61}):
        assert b'\x80' == rig.put(wanted, APP)
    assert on == rig.get(0x61, APP)
    assert b'\0' == rig.put(on - {0x47}, APP)
    assert on - {0x47} == rig.get(0x61, APP)


def test_a_controller_may_apply_a_part_of_what_it_refuses():
    """What stands before the bit that it stumbles over has changed."""
    rig = Walled(applies_in_part=True)
    on = rig.get(0x61, APP)
    assert b'\x80' == rig.put(on - {0x02, 0x08, 0x47}, APP)
    assert on - {0x02} == rig.get(0x61, APP)
    assert b'\xd4' == ask(rig.bmc, APP, 0x02, channel=SYSTEM)


@pytest.mark.parametrize(
    ('command', 'data', 'code'),
    [
        (0x61, bytes((0x0F, GROUP, 0)), 0xC7),
        (0x61, bytes((0x0F, APP, 0, 0)), 0xC7),
        (0x61, bytes((0x0F, 0x2E, 0, 1, 2, 3)), 0xCB),
        (0x61, bytes((0x0F, GROUP, 0, 3)), 0xCB),
        (0x61, bytes((0x0F, 0x0A, 0)), 0xCB),
        (0x61, bytes((0x0F, APP, 1)), 0xCB),
        (0x61, bytes((0x07, APP, 0)), 0xCC),
        (0x61, bytes((0x1F, APP, 0)), 0xCC),
        (0x61, bytes((0x0F, APP | 1, 0)), 0xCC),
        (0x61, bytes((0x0F, APP | 0x80, 0)), 0xCC),
        (0x61, bytes((0x0F, APP, 4)), 0xCC),
        (0x61, bytes((0x0F, APP)), 0xC7),
        (0x60, bytes((0x0F, APP, 0)) + bytes(15), 0xC7),
        (0x60, bytes((0x0F, GROUP, 0)) + bytes(16), 0xC7),
        (0x0B, bytes((0x0F, APP, 0, 0x99)), 0xCB),
        (0x0B, bytes((0x0F, GROUP, 0, 0x31)), 0xC7),
        (0x62, bytes((0x0F, APP, 0, 0x47)) + bytes(3), 0xC7),
        (0x64, bytes((0x0F, APP, 0)), 0xCC),
        (0x64, bytes((0x0F, GROUP, 1)), 0xC9),
    ],
)
def test_requests_are_checked(command, data, code):
    """Length with the qualifier, channel, NetFn, LUN and reserved bits."""
    assert bytes((code,)) == ask(Walled().bmc, APP, command, data)


def test_writing_is_for_administrators():
    """Reading is for users."""
    rig = Walled()
    for command, data in ((0x60, bytes((1, APP, 0)) + bytes(16)), (0x62, bytes((1, APP, 0, 0x47)) + bytes(4))):
        assert b'\xd4' == ask(rig.bmc, APP, command, data, privilege=EmulatedPrivilege.OPERATOR)
    for command in (0x0A, 0x0C, 0x61):
        assert 17 == len(ask(rig.bmc, APP, command, bytes((1, APP, 0)), privilege=EmulatedPrivilege.USER))


def test_sub_functions_are_disabled_one_by_one():
    """D6h for setting a password; testing one goes on. Support 0, configurable 1, enables 1."""
    rig = Walled()
    which = bytes((0x0F, APP, 0, 0x47))
    assert (b'\0', set(range(4, 32))) == ((a := ask(rig.bmc, APP, 0x0B, which))[:1], bits(a[4:]))
    assert [{0, 1, 2, 3}] * 2 == [bits(ask(rig.bmc, APP, command, which)[1:]) for command in (0x0D, 0x63)]
    for wanted, code in ((0b11011, 0x80), (0b1011, 0)):
        assert bytes((code,)) == ask(rig.bmc, APP, 0x62, which + wanted.to_bytes(4, 'little'))
    assert {0, 1, 3} == bits(ask(rig.bmc, APP, 0x63, which)[1:])
    password = b'secret'.ljust(16, b'\0')
    asked = [(SYSTEM, 2, 0xD6), (SYSTEM, 3, 0x00), (LAN, 2, 0x00)]
    assert [bytes((code,)) for *_, code in asked] == [
        ask(rig.bmc, APP, 0x47, bytes((2, operation)) + password, channel=channel) for channel, operation, _ in asked
    ]
    assert b'\0' == ask(rig.bmc, APP, 0x62, bytes((0x0F, CHASSIS, 0, 0x02)) + (0b111110).to_bytes(4, 'little'))
    assert [b'\xd6', b'\0'] == [ask(rig.bmc, CHASSIS, 0x02, bytes((what,)), channel=SYSTEM) for what in (0, 3)]
    assert 1 == len(rig.controls)
    assert (b'\0', bytes(4)) == ((a := ask(rig.bmc, APP, 0x63, bytes((0x0F, GROUP, 0, 0x31, 0))))[:1], a[1:])


def test_the_firewall_of_a_card_is_its_own():
    """It sees the IPMB only; what the BMC forbids its host does not bind it. Bridging is a command of the BMC."""
    rig = Walled()
    off = bytes((0x0E, GROUP, 0)) + mask(HPM - {0x31}) + b'\0'
    inner = b'\x40' + message(APP, 0x60, off, to=0x72, sender=0x20)
    assert b'\0' == rig.bmc.answer(CommandRequest(channel=LAN, netfn=APP, command=0x34, data=inner)).then.data
    assert b'\xd4' == hpm(rig.amc, 0x31, b'\1\1', channel=IPMB)
    assert b'\0' == hpm(rig.bmc, 0x31, b'\1\1', channel=SYSTEM)
    assert b'\xcc' == ask(rig.amc, APP, 0x61, bytes((0x0F, APP, 0)), channel=IPMB)
    rig.put(rig.get(0x61, APP) - {0x34}, APP)
    bridged = CommandRequest(channel=SYSTEM, netfn=APP, command=0x34, data=b'\x40' + message(APP, 1, to=0x72, sender=0x20))
    assert 0xD4 == rig.bmc.answer(bridged).code


@pytest.mark.parametrize(
    ('more', 'fault', 'survives'),
    [({}, None, True), ({'survives_reset': False}, None, False), ({}, 'lock-lost-on-bmc-reset', False)],
)
def test_a_restart_of_the_controller_keeps_or_loses_it(more, fault, survives):
    """As the controller is made, or by a fault; sub-functions the same."""
    rig = Walled(**more)
    rig.put(HPM - {0x31}, GROUP, b'\0')
    ask(rig.bmc, APP, 0x62, bytes((0x0F, APP, 0, 0x47)) + bytes((0b1011, 0, 0, 0)))
    if fault:
        rig.machine.add_fault({'name': fault})
    rig.machine.reset_bmc('host')
    rig.clock.advance(1)
    assert survives is (0x31 not in rig.get(0x61, GROUP, b'\0'))
    assert survives is (2 not in bits(ask(rig.bmc, APP, 0x63, bytes((0x0F, APP, 0, 0x47)))[1:]))


def test_a_bit_may_be_ignored_in_silence():
    """00h, and that one command stays on; the others are off."""
    rig = Walled()
    rig.machine.add_fault({'name': 'lock-ignored', 'method': '06/60', 'uri': '2C/32'})
    assert b'\0' == rig.put(HPM - {0x31, 0x32}, GROUP, b'\0')
    assert HPM - {0x31} == rig.get(0x61, GROUP, b'\0')


def test_a_controller_may_say_off_and_take_it_all_the_same():
    """The mask lies."""
    rig = Walled()
    rig.machine.add_fault({'name': 'lock-reports-locked', 'method': '06/61', 'uri': '2C/3?'})
    assert {0x2E, 0x2F} == rig.get(0x61, GROUP, b'\0')
    rig.put(HPM - {0x31}, GROUP, b'\0')
    assert b'\0' == hpm(rig.bmc, 0x31, b'\1\1', channel=SYSTEM)


def test_a_controller_may_ask_for_no_qualifier_or_not_look_at_it():
    """Without one the first body code is meant; or all body codes share one table."""
    rig = Walled(needs_qualifier=False)
    assert HPM == rig.get(0x61, GROUP)
    rig = Walled(reads_qualifier=False)
    rig.bmc.add(GROUP, 0x31, lambda _: b'', privilege=EmulatedPrivilege.USER, qualifier=b'\3')
    rig.put(HPM - {0x31}, GROUP, b'\3')
    assert HPM - {0x31} == rig.get(0x61, GROUP, b'\0')
    assert [b'\xd4', b'\xd4'] == [ask(rig.bmc, GROUP, 0x31, body, channel=SYSTEM)[:1] for body in (b'\0\1\1', b'\3')]


def test_a_controller_may_want_a_qualifier_of_its_maker():
    """For what is about NetFns 30h to 3Eh: it is told by 06/64, comes last, and is in no command itself."""
    rig = Walled(makers_qualifier=b'\x07')
    assert b'\0\x80\x08\x07' == ask(rig.bmc, APP, 0x64, bytes((0x0E, 0x30, 0)))
    assert [b'\xc9', b'\xc9'] == [ask(rig.bmc, APP, 0x64, bytes((0x0E, *what))) for what in ((0x30, 1), (0x32, 0))]
    assert b'\xc7' == ask(rig.bmc, APP, 0x61, bytes((0x0F, 0x70, 1)))
    assert b'\xcb' == ask(rig.bmc, APP, 0x61, bytes((0x0F, 0x70, 1, 8)))
    for command in (0x0C, 0x61):
        assert {0x10} == rig.get(command, 0x30, b'\x07', upper=1, lun=1)
    assert [0xC7, 0] == [rig.put(set(), 0x30, qualifier, upper=1, lun=1)[0] for qualifier in (b'', b'\x07')]
    refused = CommandRequest(channel=SYSTEM, netfn=0x30, command=0x90, lun=1)
    assert 0xD4 == rig.bmc.answer(refused).code
    assert HPM == rig.get(0x61, GROUP, b'\0')
    assert b'\xcc' == ask(Walled().bmc, APP, 0x64, bytes((0x0E, 0x30, 0)))


def test_what_is_fixed_is_up_to_the_model():
    """A controller that lets nothing of HPM.1 be forbidden."""
    rig = Walled(fixed={(GROUP, command) for command in HPM})
    assert (set(), HPM) == (rig.get(0x0C, GROUP, b'\0'), rig.get(0x61, GROUP, b'\0'))
    assert b'\x80' == rig.put(HPM - {0x31}, GROUP, b'\0')
    assert 0x01 in rig.get(0x0C, APP)


def test_luns_with_commands_may_be_restricted_and_bodies_are_listed():
    """10b for LUNs 0 and 1 of Get NetFn Support; body code 0 is the last of 2Ch."""
    rig = Walled()
    assert bytes((0, 0b1010)) == ask(rig.bmc, APP, 0x09, b'\x0e')[:2]
    assert bytes((0, 0x80, 0b10, 0)) == ask(rig.bmc, APP, 0x64, bytes((0x0E, GROUP, 0)))


def test_who_disables_set_command_enables_needs_another_channel():
    """Over the system interface it is gone; over the LAN it is the way back."""
    rig = Walled()
    on = rig.get(0x61, APP)
    assert b'\0' == ask(rig.bmc, APP, 0x60, bytes((0x0E, APP, 0)) + mask(on - {0x60, 0x62}), channel=SYSTEM)
    assert b'\xd4' == ask(rig.bmc, APP, 0x60, bytes((0x0E, APP, 0)) + mask(on), channel=SYSTEM)
    assert b'\0' == rig.put(on, APP)
    assert b'\0' == ask(rig.bmc, APP, 0x60, bytes((0x0E, APP, 0)) + mask(on), channel=SYSTEM)

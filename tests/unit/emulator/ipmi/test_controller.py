# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One controller answers all channels by one table; the layouts are written by hand (doc/source/reference/ipmi_notes.rst)."""

import pytest

from baremetal_acc.emulator.ipmi.chassis import Control, EmulatedChassis
from baremetal_acc.emulator.ipmi.controller import (
    APP,
    CHASSIS,
    GROUP,
    IPMB,
    LAN,
    SYSTEM,
    CommandAnswer,
    CommandRefusal,
    CommandRequest,
    ControllerIdentity,
    EmulatedController,
    EmulatedPrivilege,
)
from baremetal_acc.emulator.ipmi.users import Users
from tests.unit.emulator.ipmi.console import message


def ask(controller, netfn, command, data=b'', **more):
    """Completion code and data, as one."""
    return controller.answer(
        CommandRequest(channel=more.pop('channel', LAN), netfn=netfn, command=command, data=data, **more)
    ).wire


def test_device_id_has_three_bytes_of_manufacturer_and_two_of_product():
    """Little-endian, the minor version in decimal digits."""
    identity = ControllerIdentity(
        device_id=0x34,
        device_revision=2,
        firmware=(3, 27),
        manufacturer=0x012345,
        product=0x6789,
        auxiliary=b'\xca\xfe\xba\xbe',
    )
    expected = bytes.fromhex('00 34 02 03 27 02 8a 452301 8967 cafebabe')
    assert expected == ask(EmulatedController(identity=identity), APP, 0x01)


def test_what_is_not_in_the_table_is_not_there():
    """C1h; C2h where another LUN has it."""
    controller = EmulatedController()
    controller.add(0x30, 0x01, lambda _: b'', privilege=EmulatedPrivilege.USER, lun=1)
    assert b'\xc1' == ask(controller, 0x2E, 0x01, b'\1\2\3')[:1]
    assert b'\xc1' == ask(controller, 0x30, 0x02)
    assert b'\xc2' == ask(controller, 0x30, 0x01)
    assert b'\0' == ask(controller, 0x30, 0x01, lun=1)


def test_the_body_code_comes_back_even_with_a_refusal():
    """2Ch names it in its first byte, 2Eh in three; without it the request is too short."""
    controller = EmulatedController()
    controller.add(
        GROUP, 0x2E, lambda request: b'data:' + request.data, privilege=EmulatedPrivilege.USER, least=1, qualifier=b'\0'
    )
    assert b'\0\0data:x' == ask(controller, GROUP, 0x2E, b'\0x')
    assert b'\xc1\3' == ask(controller, GROUP, 0x2E, b'\3x')
    assert b'\xc7\0' == ask(controller, GROUP, 0x2E, b'\0xx')
    assert b'\xd4\0' == ask(controller, GROUP, 0x2E, b'\0x', privilege=EmulatedPrivilege.CALLBACK)
    assert b'\xc7' == ask(controller, GROUP, 0x2E)
    assert b'\xc1\1\2\3' == ask(controller, 0x2E, 0x2E, b'\1\2\3\4')


def test_a_guard_is_asked_about_what_exists_and_before_all_else():
    """It sees the channel; a command that is not there stays C1h."""
    controller = EmulatedController()
    controller.guards.append(lambda request: 0xD4 if request.channel == SYSTEM and request.command == 0x02 else None)
    assert (b'\xd4', b'\0') == (ask(controller, APP, 0x02, b'too long', channel=SYSTEM), ask(controller, APP, 0x02))
    controller.guards.append(lambda _: 0xD6)
    assert (b'\xd6', b'\xc1') == (ask(controller, APP, 0x01), ask(controller, APP, 0x99))


def test_netfn_support_counts_from_the_table():
    """LUN 0: chassis (0), application (3) and group (16h); LUN 2: one of OEM (18h)."""
    controller = EmulatedController()
    EmulatedChassis(lambda: True, print).join(controller)
    controller.add(GROUP, 1, lambda _: b'', privilege=EmulatedPrivilege.USER)
    controller.add(0x30, 1, lambda _: b'', privilege=EmulatedPrivilege.USER, lun=2)
    masks = [1 << 0 | 1 << 3 | 1 << 22, 0, 1 << 24, 0]
    expected = bytes((0, 0b010001)) + b''.join(mask.to_bytes(4, 'little') for mask in masks)
    assert expected == ask(controller, APP, 0x09, b'\x0e')
    assert b'\xcc' == ask(controller, APP, 0x09, b'\x05')


def test_a_further_controller_sees_the_ipmb_and_may_itself_lead_further():
    """Two levels deep the second answer travels inside the first one's."""
    seen = []

    def tell(request):
        seen.append((request.channel, request.data))
        return b'me'

    near, far = EmulatedController(address=0x82), EmulatedController(address=0x72)
    far.add(0x30, 0x01, tell, privilege=EmulatedPrivilege.ADMINISTRATOR, most=9)
    near.behind[IPMB, 0x72] = far
    bmc = EmulatedController()
    bmc.behind[IPMB, 0x82] = near
    inner = b'\x40' + message(0x30, 1, b'hello', 5, to=0x72, sender=0x20)
    outer = CommandRequest(
        channel=SYSTEM, netfn=APP, command=0x34, data=b'\x40' + message(APP, 0x34, inner, 6, to=0x82, sender=0x20)
    )
    answer = bmc.answer(outer)
    assert (0, b'', 0x82, 6) == (answer.code, answer.data, answer.then.sender, answer.then.sequence)
    assert b'\0' + message(0x31, 1, b'\0me', 5, to=0x20, sender=0x72) == answer.then.data
    assert [(IPMB, b'hello')] == seen


@pytest.mark.parametrize(
    ('data', 'code'),
    [
        (b'\x40' + message(APP, 1, to=0x74), 0x83),
        (b'\x41' + message(APP, 1, to=0x72), 0x83),
        (b'\x00' + message(APP, 1, to=0x72), 0xCC),
        (b'\x40' + message(APP, 1, to=0x72)[:-1], 0xCC),
        (b'\x40', 0xCC),
        (b'\x40' + message(APP + 1, 1, to=0x72), 0xCC),
        (b'', 0xC7),
    ],
)
def test_what_cannot_be_bridged_is_refused(data, code):
    """83h: nobody there; CCh: not tracked, or no request."""
    bmc = EmulatedController()
    bmc.behind[IPMB, 0x72] = EmulatedController(address=0x72)
    assert CommandAnswer(code) == bmc.answer(CommandRequest(channel=LAN, netfn=APP, command=0x34, data=data))


def test_the_chassis_tells_and_changes_the_truth():
    """Power on or off, restore policy unknown; controls reach whoever holds the truth."""
    done = []
    power = [True]
    controller = EmulatedController()
    EmulatedChassis(lambda: power[0], done.append).join(controller)
    assert bytes.fromhex('00 61 00 40') == ask(controller, CHASSIS, 0x01)
    assert b'\0' == ask(controller, CHASSIS, 0x02, b'\3')
    power[0] = False
    assert bytes.fromhex('00 60 00 40') == ask(controller, CHASSIS, 0x01)
    assert b'\xd5' == ask(controller, CHASSIS, 0x02, b'\2')
    assert b'\xcc' == ask(controller, CHASSIS, 0x02, b'\6')
    assert b'\xd4' == ask(controller, CHASSIS, 0x02, b'\1', privilege=EmulatedPrivilege.USER)
    assert [Control.RESET] == done


def test_a_refusal_is_a_completion_code():
    """A part of the controller raises it."""
    controller = EmulatedController()

    def refuse(_):
        raise CommandRefusal(0xC5)

    controller.add(0x30, 1, refuse, privilege=EmulatedPrivilege.USER)
    assert b'\xc5' == ask(controller, 0x30, 1)


@pytest.fixture
def bmc():
    users = Users()
    users.put(2, 'admin', b'secret', EmulatedPrivilege.ADMINISTRATOR)
    controller = EmulatedController()
    users.join(controller)
    controller.users = users
    return controller


def test_a_user_is_made_step_by_step(bmc):
    """Name, password, access, enabled: only with all of them can it log in."""
    name = b'tenant'.ljust(16, b'\0')
    for command, data in ((0x45, b'\3' + name), (0x47, b'\x03\2' + bytes(16)), (0x43, b'\x91\3\4')):
        assert bmc.users.find(b'tenant') is None
        assert b'\0' == ask(bmc, APP, command, data, channel=SYSTEM)
    assert b'\0' == ask(bmc, APP, 0x47, b'\3\1', channel=SYSTEM)
    assert 4 == bmc.users.find(b'tenant').limit
    assert bytes((0, 10, 0x42, 1, 0x14)) == ask(bmc, APP, 0x44, b'\1\3')
    assert b'\0' + name == ask(bmc, APP, 0x46, b'\3')
    assert b'\0' == ask(bmc, APP, 0x43, b'\1\3\x0f')
    assert bytes((0, 10, 0x42, 1, 0x1F)) == ask(bmc, APP, 0x44, b'\1\3')
    assert bmc.users.find(b'tenant') is None


def test_a_password_can_be_tried(bmc):
    """80h: it is another; 81h: it is of the other length."""
    for password, code in ((b'secret', 0), (b'Secret', 0x80)):
        assert bytes((code,)) == ask(bmc, APP, 0x47, b'\2\3' + password.ljust(16, b'\0'))
    assert b'\x81' == ask(bmc, APP, 0x47, b'\x82\3' + b'secret'.ljust(20, b'\0'))
    assert b'\xc7' == ask(bmc, APP, 0x47, b'\x82\2' + bytes(16))


@pytest.mark.parametrize(
    ('command', 'data', 'code'),
    [
        (0x44, b'\1\0', 0xCC),
        (0x44, b'\1\x0b', 0xCC),
        (0x44, b'\0\2', 0xCC),
        (0x44, b'\7\2', 0xCC),
        (0x45, b'\1' + b'x' * 16, 0xCC),
        (0x45, b'\2' + b'x' * 15, 0xC7),
        (0x43, b'\x91\2\6', 0xCC),
        (0x46, b'\x3f', 0xCC),
        (0x47, b'\0\2' + bytes(16), 0xCC),
    ],
)
def test_what_no_user_table_takes_is_refused(bmc, command, data, code):
    """No such user, no such channel, no users there, a name for the one who has none, no such limit."""
    assert bytes((code,)) == ask(bmc, APP, command, data)


@pytest.mark.parametrize('user', [(1, 'a', b'b'), (11, 'a', b'b'), (2, 'a' * 17, b'b'), (2, 'a', b'b' * 21), (2, 'a', b'\0')])
def test_no_user_is_made_whom_no_bmc_could_hold(user):
    """A mistake of whoever sets the emulator up is said at once."""
    with pytest.raises(ValueError, match='user'):
        Users().put(*user, EmulatedPrivilege.USER)

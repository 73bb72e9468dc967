# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes come, in whatever order: each command is answered, and none of them breaks the controller."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.ipmi.controller import APP, GROUP, IPMB, LAN, SYSTEM, CommandRequest, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.hpm_ability import Times
from baremetal_acc.emulator.ipmi.site import IpmiOptions, IpmiSite

DATA = st.binary(max_size=40) | st.binary(min_size=0, max_size=300)
HPM = st.tuples(st.sampled_from(range(0x2E, 0x3F)), st.binary(max_size=6), st.floats(0, 20))


PRODUCT = build('fpga-server', Parameters(virtual_clock=True))
SITE = IpmiSite(PRODUCT.machine, 'host', users=[], boards=PRODUCT.boards['host'])


@given(
    netfn=st.integers(0, 63),
    command=st.integers(0, 255),
    data=DATA,
    lun=st.integers(0, 3),
    channel=st.sampled_from((LAN, SYSTEM)),
)
@settings(max_examples=300, deadline=None)
def test_any_command_is_answered(netfn, command, data, lun, channel):
    """By one completion code."""
    answer = SITE.controller.answer(
        CommandRequest(
            channel=channel, netfn=netfn, command=command, data=data, lun=lun, privilege=EmulatedPrivilege.ADMINISTRATOR
        )
    )
    assert 0 <= answer.code <= 0xFF
    assert 1 <= len(answer.wire) <= 300


@pytest.mark.parametrize('command', [0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x60, 0x61, 0x62, 0x63, 0x64])
@given(data=st.builds(lambda a, b: a + b, st.binary(min_size=1, max_size=5), st.binary(max_size=24)))
@settings(max_examples=50, deadline=None)
def test_any_request_to_the_firewall_is_answered(command, data):
    """With one of its codes; a refused write changed nothing."""
    before = {channel: set(places) for channel, places in SITE.firewalls[''].disabled.items()}
    answer = SITE.controller.answer(CommandRequest(channel=SYSTEM, netfn=APP, command=command, data=data))
    assert answer.code in {0, 0x80, 0xC7, 0xC9, 0xCB, 0xCC}
    if answer.code:
        assert before == SITE.firewalls[''].disabled


@given(st.lists(HPM, max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_order_of_an_upgrade_is_survived(steps):
    """Random commands with random times between: answered, in force is what was, and in the end an abort makes it idle."""
    product = build('fpga-server', Parameters(virtual_clock=True))
    times = Times(erase=3, finish=2, activate=5, roll_back=4, back_up=1)
    options = IpmiOptions(times=times)
    card = IpmiSite(product.machine, 'host', users=[], boards=product.boards['host'], options=options).cards['FPGA1']
    for command, data, seconds in steps:
        if not card.is_away:
            answer = card.answer(CommandRequest(channel=IPMB, netfn=GROUP, command=command, data=b'\0' + data))
            assert answer.code in {0, 0x80, 0x81, 0x82, 0x83, 0xC0, 0xC1, 0xC7, 0xCC, 0xD5}
        product.machine.clock.advance(seconds)
    product.machine.clock.advance(20)
    assert 0 == card.answer(CommandRequest(channel=IPMB, netfn=GROUP, command=0x30, data=b'\0')).code
    assert b'\0\x30\0' == card.answer(CommandRequest(channel=IPMB, netfn=GROUP, command=0x34, data=b'\0')).data
    assert '2.0.0' == product.machine.components['host/FPGA1_FW'].active.version

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A card two bridges away: its board, its records and its firmware are those of a card next to the BMC, and so is an upload.

A carrier at 82h has a repository of its own, which names the controller of the card, at 74h on the carrier's channel 7. Every
command to that one is a Send Message in a Send Message, and its answer comes in the answer to the inner one.
"""

import dataclasses
import hashlib

import pytest

from baremetal_acc.emulator.image import ImageFormat
from baremetal_acc.emulator.ipmi.controller import APP, IPMB, ControllerIdentity, EmulatedController
from baremetal_acc.emulator.ipmi.fru import FruDevices
from baremetal_acc.emulator.ipmi.hpm import Upgrades
from baremetal_acc.emulator.ipmi.hpm_ability import HpmPart, Times
from baremetal_acc.emulator.ipmi.lan import LanThread
from baremetal_acc.emulator.ipmi.presence import Presence
from baremetal_acc.emulator.ipmi.sdr import EmulatedControllerLocator, EmulatedFruLocator, Repository
from baremetal_acc.emulator.parts import Bank, EmulatedComponent
from baremetal_acc.model.inventory import TaskState
from tests.unit.emulator.ipmi.machines import image, upgrade
from tests.wire.test_ipmi_driver import ADD_IN, NOW, Site, board, ref
from tests.wire.test_ipmi_update import ended, uploading, written

CARRIER, FAR, CHANNEL = 0x82, 0x74, 7
KEY, OLD, NEW, SHOWN_OLD, SHOWN_NEW = 'host/FPGA_9', '1.2.0.7', '2.15.0.9', '1.02.00070000', '2.15.00090000'
IDENTITY = ControllerIdentity(device_id=0x19, support=0x08, manufacturer=0x00315A, product=0x0099)
FIRMWARE = '/ipmi/0-82/7-74/hpm/0'


class Deep(Site):
    """A server with such a carrier."""

    def __init__(self, lan, *, far_times=None, **more):
        super().__init__(lan, **more)
        self.machine.add_component(
            EmulatedComponent(
                key=KEY,
                bmc='host',
                uri=f'/{KEY}',
                device='CARD_9',
                kind=ImageFormat.FIRMWARE,
                model='fx1',
                component='fpga',
                active=Bank(version=OLD),
            )
        )
        self.carrier = EmulatedController(
            identity=ControllerIdentity(device_id=0x12, support=0x4A), address=CARRIER, channels=(IPMB, CHANNEL)
        )
        self.far = EmulatedController(identity=IDENTITY, address=FAR, channels=(IPMB,))
        self.bmc.behind[IPMB, CARRIER] = self.carrier
        self.carrier.behind[CHANNEL, FAR] = self.far
        self.far_presence = Presence(self.far, self.machine, 'host', 'CARD_9')
        self.far_upgrades = Upgrades(self.machine, {0: HpmPart(key=KEY, name='FPGA')}, self.far_presence, times=far_times)
        self.far_upgrades.join(self.far)
        FruDevices({0: board('Carrier 5', 'C-1')}, longest=20).join(self.carrier)
        self.far_frus = FruDevices({0: board('Alveo U55', 'A-9'), 2: board('Alveo U280', 'A-10')}, longest=16)
        self.far_frus.join(self.far)
        Repository(
            (
                EmulatedControllerLocator(name='Far card', address=FAR, channel=CHANNEL, instance=0x63),
                EmulatedFruLocator(name='Mezzanine', fru_id=2, address=FAR, channel=CHANNEL, entity=ADD_IN, instance=9),
            ),
            longest=16,
        ).join(self.carrier)
        self.repository.raw[9] = _record(EmulatedControllerLocator(name='Carrier', address=CARRIER, instance=0x62))
        self.asked = []
        self.far.guards.append(lambda request: self.asked.append((request.netfn, request.command, len(request.data))))


def _record(locator):
    return bytes((0x51, locator.kind, len(locator.body))) + locator.body


@pytest.fixture
def lan():
    """What serves the BMCs."""
    with LanThread() as thread:
        yield thread


@pytest.fixture
def site(lan):
    """A server."""
    return Deep(lan)


def test_a_look_shows_the_boards_and_the_firmware_that_are_two_bridges_away(site):
    """By the carrier's own records: two boards of one controller, where they are, with the firmware of the one it is on."""
    look = site.look()
    far = {a.serial: a for a in look.accelerators if 'A-9' == a.serial or 'A-10' == a.serial}
    assert {'A-9': ('Alveo U55', 'PN-1', 'Far card'), 'A-10': ('Alveo U280', 'PN-1', 'Mezzanine')} == {
        serial: (a.model, a.part_number, a.location) for serial, a in far.items()
    }
    assert [ref('/ipmi/0-82/7-74/fru/0'), ref('/ipmi/0-82/7-74/fru/2')] == [far[serial].primary for serial in ('A-9', 'A-10')]
    assert [('FPGA', SHOWN_OLD, True, ref(FIRMWARE))] == [
        (c.id, c.version, c.certain, c.ref) for a in far.values() for c in a.firmware
    ]
    assert ['A-1', 'A-10', 'A-2', 'A-9'] == sorted(a.serial for a in look.accelerators)
    assert not [gap for gap in look.gaps if '7-74' in gap.ref.uri], look.gaps


def test_what_was_seen_two_bridges_away_is_read_again(site):
    """One resource at a time, as who waits for a card does."""
    with site.connect() as connection:
        connection.look(NOW)
        site.far_frus.contents[0] = bytearray(board('Alveo U55', 'A-99'))
        uris = ['/ipmi/0-82/7-74', '/ipmi/0-82/7-74/fru/0', FIRMWARE]
        found = connection.glance(uris, connection.address.budget)
        assert uris == [found[uri].ref.uri for uri in uris]
        assert 'A-99' in str(found[uris[1]].body)
        assert SHOWN_OLD in str(found[FIRMWARE].body)
        assert SHOWN_OLD == connection.component(ref(FIRMWARE)).version


def test_a_card_two_bridges_away_that_is_absent_is_no_gap(site):
    """The carrier says that nobody is there."""
    site.machine.add_fault({'name': 'device-absent', 'device': 'CARD_9'})
    look = site.look()
    assert ['A-1', 'A-2'] == sorted(a.serial for a in look.accelerators)
    assert not [gap for gap in look.gaps if '7-74' in gap.ref.uri], look.gaps


def test_what_is_three_bridges_away_is_told_of_and_not_asked(site):
    """It may be a card, and nobody looks there."""
    site.far.identity = dataclasses.replace(IDENTITY, support=0x4A)
    site.far.behind[3, 0x76] = EmulatedController(address=0x76)
    Repository((EmulatedControllerLocator(name='Further', address=0x76, channel=3, instance=0x64),), longest=16).join(site.far)
    (gap,) = [gap for gap in site.look().gaps if '3-76' in gap.ref.uri]
    assert (True, 'the controller is behind more than 2 others') == (gap.hides, gap.reason)
    assert (APP, 0x34) not in {(netfn, command) for netfn, command, _ in site.asked}


@pytest.mark.parametrize('loss', [0.0, 0.03])
def test_a_card_two_bridges_away_is_written_and_taken_back(lan, loss):
    """In blocks of the 15 bytes that two messages around them leave; activated once; then it goes back, once."""
    site = Deep(lan, far_times=Times(erase=0.2, finish=0.2))
    content = image(NEW)
    with site.connect(username='admin') as connection:
        connection.look(NOW)
        site.line.loss = loss
        # Not Activate itself, which is sent once.
        site.far.guards.append(lambda request: setattr(site.line, 'loss', 0.0) if request.command == 0x33 else None)
        task = written(connection, ref(FIRMWARE), uploading(upgrade(NEW, identity=IDENTITY, data=content)))
        assert (ref(FIRMWARE), TaskState.ACTIVE) == (task.ref, task.state)
        assert TaskState.SUCCEEDED is ended(connection, ref(FIRMWARE)).state
        assert SHOWN_NEW == connection.component(ref(FIRMWARE)).version
        assert f'sha256:{hashlib.sha256(content).hexdigest()}' == site.machine.components[KEY].active.digest
        back = dataclasses.replace(uploading(upgrade(OLD, identity=IDENTITY)), goes_back=True)
        assert TaskState.SUCCEEDED is ended(connection, written(connection, ref(FIRMWARE), back).ref).state
        assert SHOWN_OLD == connection.component(ref(FIRMWARE)).version
    # With the number of a block before it; the body code is taken off.
    assert 16 == max(size for netfn, command, size in site.asked if (netfn, command) == (0x2C, 0x32))
    assert ((OLD, NEW, None, None), 1, 1) == (site.versions(KEY), site.far_upgrades.activations, site.far_upgrades.rollbacks)
    assert 0 == site.amc_upgrades.activations

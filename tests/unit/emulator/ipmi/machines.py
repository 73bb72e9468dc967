# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A machine with a BMC and an FPGA card on an AMC behind it, for tests of what IPMI does to firmware."""

from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.image import ImageFormat, build_image, read_image
from baremetal_acc.emulator.ipmi.controller import IPMB, LAN, CommandRequest, ControllerIdentity, EmulatedController
from baremetal_acc.emulator.ipmi.hpm import Upgrades
from baremetal_acc.emulator.ipmi.hpm_ability import HpmPart
from baremetal_acc.emulator.ipmi.hpm_commands import PICMG_BODY
from baremetal_acc.emulator.ipmi.presence import Presence
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction, build_upgrade_image
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Bank, EmulatedBmc, EmulatedComponent, Restart, System

IDENTITY = ControllerIdentity(device_id=0x21, firmware=(1, 4), manufacturer=7154, product=0x0BAD)
AMC_IDENTITY = ControllerIdentity(device_id=0x11, support=0x08, manufacturer=0x00315A, product=0x0042)
AMC_ADDRESS = 0x72
BMC_KEY, FPGA_KEY, LATER_KEY = 'host/FW_BMC_0', 'host/FPGA_0', 'host/FPGA_1'
BMC_PART = HpmPart(key=BMC_KEY, name='BMC', restarts=True)
FPGA_PART = HpmPart(key=FPGA_KEY, name='FPGA')
LATER_PART = HpmPart(key=LATER_KEY, name='FPGA 1', deferred=True)


def image(version, *, model='fx1', component='fpga', size_bytes=1000, **more):
    """An image of the emulator, for the card."""
    return build_image(model=model, component=component, version=version, size_bytes=size_bytes, **more)


def upgrade(version, *, number=0, data=None, **more):
    """An upgrade image of HPM.1 with it, for the AMC."""
    identity = more.pop('identity', AMC_IDENTITY)
    return build_upgrade_image(
        [UploadAction(component=number, version=version, data=image(version) if data is None else data, description='FPGA')],
        device_id=identity.device_id,
        manufacturer=identity.manufacturer,
        product=identity.product,
        **more,
    )


class Rig:
    """The machine, its BMC, and the AMC; ``upgrades`` is the BMC's, ``amc_upgrades`` that of the AMC."""

    def __init__(self, *, virtual=True, bmc_parts=None, amc_parts=None, amc_more=None, **more):
        self.clock = EmulatedClock(virtual=virtual)
        self.machine = Machine(product='rig', clock=self.clock)
        self.machine.systems['host'] = System(name='host', bmc='host', uri='/host')
        self.machine.bmcs['host'] = EmulatedBmc(name='host', manager_uri='/bmc')
        factory = read_image(image('1.2.0.7'))
        lock = self.machine.add_lock('FPGA_0/WriteProtected', False, locked=True, open=False, bmc='host', uri='/fpga')
        for key, device, model, component, version, activates in (
            (BMC_KEY, '', 'es2000', 'bmc', '1.4', None),
            (FPGA_KEY, 'AMC_1', 'fx1', 'fpga', '1.2.0.7', None),
            (LATER_KEY, 'AMC_1', 'fx1', 'fpga', '1.2.0.7', Restart.COLD),
        ):
            self.machine.add_component(
                EmulatedComponent(
                    key=key,
                    bmc='host',
                    uri=f'/{key}',
                    device=device,
                    kind=ImageFormat.FIRMWARE,
                    model=model,
                    component=component,
                    active=Bank(version=version, digest=factory.digest),
                    activates=activates,
                    write_protect=lock.key if key == FPGA_KEY else None,
                )
            )
        self.bmc = EmulatedController(identity=IDENTITY)
        self.amc = EmulatedController(identity=AMC_IDENTITY, address=AMC_ADDRESS, channels=(IPMB,))
        self.bmc.behind[IPMB, AMC_ADDRESS] = self.amc
        self.upgrades = Upgrades(self.machine, bmc_parts or {0: BMC_PART}, Presence(self.bmc, self.machine, 'host'), **more)
        self.amc_upgrades = Upgrades(
            self.machine,
            amc_parts or {0: FPGA_PART, 1: LATER_PART},
            Presence(self.amc, self.machine, 'host', 'AMC_1'),
            **(amc_more if amc_more is not None else more),
        )
        self.upgrades.join(self.bmc)
        self.amc_upgrades.join(self.amc)

    def versions(self, key=FPGA_KEY):
        """Of the banks active, previous, staged and held."""
        component = self.machine.components[key]
        banks = (component.active, component.previous, component.staged, component.held)
        return tuple(bank.version if bank is not None else None for bank in banks)


def ask(controller, netfn, command, data=b'', *, channel=LAN, **more):
    """Completion code and data, as one."""
    return controller.answer(CommandRequest(channel=channel, netfn=netfn, command=command, data=data, **more)).wire


def hpm(controller, command, data=b'', *, channel=LAN, **more):
    """A command of HPM.1: completion code, and the data after the body code."""
    answer = controller.answer(CommandRequest(channel=channel, netfn=0x2C, command=command, data=PICMG_BODY + data, **more))
    assert PICMG_BODY == answer.data[:1]
    return bytes((answer.code,)) + answer.data[1:]


def upload(controller, data, *, number=0, block_bytes=23, channel=IPMB, action=2):
    """Initiate, all blocks, Finish; gives the code of Finish."""
    assert b'\0' == hpm(controller, 0x31, bytes((1 << number, action)), channel=channel)
    for count, start in enumerate(range(0, len(data), block_bytes)):
        piece = bytes((count & 0xFF,)) + data[start : start + block_bytes]
        assert b'\0' == hpm(controller, 0x32, piece, channel=channel), count
    return hpm(controller, 0x33, bytes((number,)) + len(data).to_bytes(4, 'little'), channel=channel)

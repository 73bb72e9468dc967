# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""URIs and JSON bodies of the parts of a machine that is managed over IPMI: controllers, FRUs, HPM.1 components, firewall.

IPMI identifies these parts by numbers. Plans, locks, gaps and messages refer to a resource by its URI, so each part has one:

=======================  =====================================================
``/ipmi``                the BMC
``/ipmi/chassis``        the machine, whose power is read and set
``/ipmi/firewall/f``     the firmware firewall of the BMC for the system interface, channel Fh
``/ipmi/0-72``           the controller at 72h on channel 0 of the BMC
``/ipmi/0-72/7-74``      the controller at 74h on channel 7 of that controller
``/ipmi/0-72/fru/3``     FRU 3 of a controller (``fru/3-1``: on LUN 1)
``/ipmi/0-72/hpm``       HPM.1 firmware of a controller, and the command in progress there
``/ipmi/0-72/hpm/2``     HPM.1 component 2 of it (``hpm/2/rollback``: its rollback to the version that it has kept)
=======================  =====================================================
"""

import re
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.bmc.driver import JsonObject
from baremetal_acc.bmc.ipmi import fru_contents
from baremetal_acc.bmc.ipmi.controller_path import DEEPEST, Hop, Path
from baremetal_acc.bmc.ipmi.device import DeviceId
from baremetal_acc.bmc.ipmi.firmware_firewall import apply
from baremetal_acc.bmc.ipmi.hpm import commands

ROOT = '/ipmi'


class MachinePart(StrEnum):
    """Part of a controller that has a URI of its own."""

    CHASSIS = 'chassis'
    FIREWALL = 'firewall/f'
    FRU = 'fru'
    HPM = 'hpm'


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerAddress:
    """A part of a machine that a URI names.

    :ivar path: to its controller.
    :ivar part: None: the controller itself.
    :ivar number: of an FRU or an HPM.1 component.
    :ivar lun: of an FRU.
    :ivar back: the task of a component's rollback to the version that it has kept.
    """

    path: Path = ()
    part: MachinePart | None = None
    number: int | None = None
    lun: int = 0
    back: bool = False

    @property
    def uri(self) -> str:
        """The URI of this part."""
        text = ROOT + ''.join(f'/{hop.channel:x}-{hop.address:02x}' for hop in self.path)
        if self.part is not None:
            text += f'/{self.part}'
        if self.number is not None:
            text += f'/{self.number}' + (f'-{self.lun}' if self.lun else '')
        return text + ('/rollback' if self.back else '')


CHASSIS = ControllerAddress(part=MachinePart.CHASSIS)
FIREWALL = ControllerAddress(part=MachinePart.FIREWALL)

_URI = re.compile(
    rf'/ipmi((?:/[0-9a-f]-[0-9a-f]{{2}}){{0,{DEEPEST}}})(?:/(chassis|firewall/f)|/(fru)/(\d{{1,3}})(?:-([1-3]))?|/(hpm)(?:/([0-7])(/rollback)?)?)?',
    re.ASCII,
)


def place(uri: str) -> ControllerAddress | None:
    """The part that a URI names; None: the URI cannot be valid."""
    found = _URI.fullmatch(uri)
    if found is None or (found[2] and found[1]) or int(found[4] or 0) > 0xFF:
        return None
    hops = (hop.split('-') for hop in found[1].split('/')[1:])
    part = found[2] or found[3] or found[6]
    number = found[4] or found[7]
    return ControllerAddress(
        path=tuple(Hop(channel=int(channel, 16), address=int(address, 16)) for channel, address in hops),
        part=MachinePart(part) if part else None,
        number=int(number) if number else None,
        lun=int(found[5] or 0),
        back=found[8] is not None,
    )


def of_controller(device: DeviceId) -> JsonObject:
    """JSON body of a controller, from its device id."""
    return {
        'Device': device.device,
        'Revision': device.revision,
        'Firmware': device.firmware,
        'Auxiliary': device.auxiliary.hex(),
        'Ipmi': device.ipmi,
        'Manufacturer': device.manufacturer,
        'Product': device.product,
        'Updating': device.updating,
    }


def of_fru(contents: fru_contents.Contents) -> JsonObject:
    """JSON body of an FRU, without its multi-record area."""
    return {
        'Chassis': _plain(contents.chassis),
        'Board': _plain(contents.board),
        'Product': _plain(contents.product),
        'Faults': list(contents.faults),
    }


def _plain(area: fru_contents.ChassisArea | fru_contents.BoardArea | fru_contents.ProductArea | None) -> JsonObject | None:
    if area is None:
        return None
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(area).items()}


def of_component(component: commands.HpmComponent) -> JsonObject:
    """JSON body of an HPM.1 component."""
    versions = {'Version': component.current, 'Rollback': component.rollback, 'Staged': component.deferred}
    return {
        'Name': component.name,
        **{name: None if version is None else version.text for name, version in versions.items()},
        'Unread': list(component.unread),
    }


def of_firewall(verdict: apply.FirewallVerdict) -> JsonObject:
    """JSON body of the firmware firewall, from its verdict."""
    return {
        'State': verdict.state.value,
        'Open': list(verdict.open),
        'Reason': verdict.reason,
        'Closes': verdict.closes,
        'Fixed': list(verdict.fixed),
        'Leaves': verdict.leaves,
    }

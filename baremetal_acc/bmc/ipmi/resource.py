# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What are the parts of a machine called that is spoken to by IPMI, and what do they say?

IPMI has numbers for them. Plans, locks, gaps and messages name a resource by a URI, so each part gets one:

=======================  =====================================================
``/ipmi``                the BMC
``/ipmi/chassis``        the machine, which has the power
``/ipmi/firewall/f``     the firmware firewall of the BMC for the system interface, which is channel Fh
``/ipmi/0-72``           the controller at 72h on channel 0 of the BMC
``/ipmi/0-72/7-74``      the one at 74h on channel 7 of that controller
``/ipmi/0-72/fru/3``     FRU 3 of a controller (``fru/3-1``: on LUN 1)
``/ipmi/0-72/hpm``       firmware of a controller, and what is done to it
``/ipmi/0-72/hpm/2``     component 2 of it, by HPM.1 (``hpm/2/rollback``: its going back to what it has kept)
=======================  =====================================================
"""

import re
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.bmc.api import JsonObject
from baremetal_acc.bmc.ipmi import firewall, fru, hpm
from baremetal_acc.bmc.ipmi.device import DEEPEST, DeviceId, Hop, Path

ROOT = '/ipmi'


class Part(StrEnum):
    """What of a controller is meant."""

    CHASSIS = 'chassis'
    FIREWALL = 'firewall/f'
    FRU = 'fru'
    HPM = 'hpm'


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A part of a machine.

    :ivar part: None: the controller as a whole.
    :ivar number: of an FRU or a component.
    :ivar back: its going back to what it has kept, of a component.
    """

    path: Path = ()
    part: Part | None = None
    number: int | None = None
    lun: int = 0
    back: bool = False

    @property
    def uri(self) -> str:
        """How it is called."""
        text = ROOT + ''.join(f'/{hop.channel:x}-{hop.address:02x}' for hop in self.path)
        if self.part is not None:
            text += f'/{self.part}'
        if self.number is not None:
            text += f'/{self.number}' + (f'-{self.lun}' if self.lun else '')
        return text + ('/rollback' if self.back else '')


CHASSIS = Place(part=Part.CHASSIS)
FIREWALL = Place(part=Part.FIREWALL)

_URI = re.compile(
    rf'/ipmi((?:/[0-9a-f]-[0-9a-f]{{2}}){{0,{DEEPEST}}})(?:/(chassis|firewall/f)|/(fru)/(\d{{1,3}})(?:-([1-3]))?|/(hpm)(?:/([0-7])(/rollback)?)?)?',
    re.ASCII,
)


def place(uri: str) -> Place | None:
    """What a URI names; None: nothing that there could be."""
    found = _URI.fullmatch(uri)
    if found is None or (found[2] and found[1]) or int(found[4] or 0) > 0xFF:
        return None
    hops = (hop.split('-') for hop in found[1].split('/')[1:])
    part = found[2] or found[3] or found[6]
    number = found[4] or found[7]
    return Place(
        path=tuple(Hop(channel=int(channel, 16), address=int(address, 16)) for channel, address in hops),
        part=Part(part) if part else None,
        number=int(number) if number else None,
        lun=int(found[5] or 0),
        back=found[8] is not None,
    )


def of_controller(device: DeviceId) -> JsonObject:
    """What a controller says of itself."""
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


def of_fru(contents: fru.Contents) -> JsonObject:
    """What an FRU says, but for its records."""
    return {
        'Chassis': _plain(contents.chassis),
        'Board': _plain(contents.board),
        'Product': _plain(contents.product),
        'Faults': list(contents.faults),
    }


def _plain(area: fru.Chassis | fru.Board | fru.Product | None) -> JsonObject | None:
    if area is None:
        return None
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(area).items()}


def of_component(component: hpm.Component) -> JsonObject:
    """What a component of HPM.1 says."""
    versions = {'Version': component.current, 'Rollback': component.rollback, 'Staged': component.deferred}
    return {
        'Name': component.name,
        **{name: None if version is None else version.text for name, version in versions.items()},
        'Unread': list(component.unread),
    }


def of_firewall(verdict: firewall.Verdict) -> JsonObject:
    """What the firewall says of the host's way over the system interface."""
    return {
        'State': verdict.state.value,
        'Open': list(verdict.open),
        'Reason': verdict.reason,
        'Closes': verdict.closes,
        'Fixed': list(verdict.fixed),
        'Leaves': verdict.leaves,
    }

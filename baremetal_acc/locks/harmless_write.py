# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Writes from the host to its BMC that change nothing of importance, by which a lock of that path can be tried.

A mechanism declares one for a path (:attr:`~baremetal_acc.locks.mechanism.MechanismInfo.harmless`) where a source says that the
lock blocks such a write. It is done while the lock is open and refused while it is closed. Nothing of baremetal-acc sends it:
a host is not to be trusted. The tests send it from the host of an emulated machine; on real hardware it is for an operator,
from a ramdisk of their own, and never from the host of a tenant.
"""

from dataclasses import dataclass

from baremetal_acc.model.lock import WritePath

JsonValue = str | int | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IpmiRequest:
    """A request over the system interface: network function, command, and the data bytes after it."""

    netfn: int
    command: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class IpmiState:
    """Bits of an answer over the LAN that show the effect of a write: of data byte ``position``, after the completion code."""

    request: IpmiRequest
    position: int
    mask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemProperty:
    """A PATCH of one property of the ComputerSystem of the host.

    :ivar value: what is written, and what the operator then reads; None: the value that the property has, so nothing changes.
    """

    name: str
    value: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmlessWrite:
    """One write over one path of the host.

    :ivar shown: how an operator sees over the LAN that an IPMI request was executed; None: by its completion code only.
    :ivar restores: the request by which the operator undoes it; None: nothing is left, or it ends by itself.
    :ivar effect: why it is harmless.
    :ivar source: of the write, and of what the lock does to it.
    """

    path: WritePath
    request: IpmiRequest | SystemProperty
    effect: str
    source: str
    shown: IpmiState | None = None
    restores: IpmiRequest | SystemProperty | None = None


IDENTIFY_CHASSIS = HarmlessWrite(
    path=WritePath.HOST_BMC_IPMI,
    request=IpmiRequest(netfn=0x00, command=0x04, data=bytes((15,))),
    shown=IpmiState(request=IpmiRequest(netfn=0x00, command=0x01, data=b''), position=2, mask=0x30),
    restores=IpmiRequest(netfn=0x00, command=0x04, data=bytes((0,))),
    effect='Chassis Identify: a lamp of the chassis is on for 15 seconds',
    source='IPMI 2.0 revision 1.1, sections 28.5 (Chassis Identify) and 28.2 (Get Chassis Status); privilege Operator',
)
"""For locks that switch the system interface off, or leave the host less than the privilege Operator."""

KEEP_CHANNEL_ACCESS = HarmlessWrite(
    path=WritePath.HOST_BMC_IPMI,
    request=IpmiRequest(netfn=0x06, command=0x40, data=bytes((0x01, 0x00, 0x00))),
    effect='Set Channel Access of channel 1, the LAN, with the value for "do not change" in both fields: nothing changes',
    source='IPMI 2.0 revision 1.1, section 22.22 (Set Channel Access): bits 7:6 of bytes 2 and 3 are 00b',
)
"""For locks that disable this command: without an effect, so only the completion code distinguishes the two states."""

LOCATE_SYSTEM = HarmlessWrite(
    path=WritePath.HOST_BMC_REDFISH,
    request=SystemProperty(name='LocationIndicatorActive', value=True),
    restores=SystemProperty(name='LocationIndicatorActive', value=False),
    effect='LocationIndicatorActive of the ComputerSystem: a lamp is on until it is set to false again',
    source='DSP8010 2025.4, ComputerSystem v1_13_0 and later, LocationIndicatorActive',
)
"""For locks that switch a network of the host off."""

KEEP_ASSET_TAG = HarmlessWrite(
    path=WritePath.HOST_BMC_REDFISH,
    request=SystemProperty(name='AssetTag', value=None),
    effect='AssetTag of the ComputerSystem, with the value that it has: nothing changes',
    source='DSP8010 2025.4, ComputerSystem, AssetTag',
)
"""For lockdowns, which refuse changes of settings and still let the system be identified."""

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Identify a controller by Get Device ID.

Source: IPMI 2.0 revision 1.1, section 20.1.
"""

from dataclasses import dataclass

from baremetal_acc.bmc.ipmi.command import NetFn, Raw, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnreachable

_GET_DEVICE_ID = 0x01
_LEAST = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceId:
    """A controller's answer to Get Device ID.

    :ivar firmware: major and minor revision, as ``2.05``.
    :ivar ipmi: IPMI version, as ``2.0``.
    :ivar updating: its firmware is being updated: it may not answer all commands.
    :ivar manufacturer: IANA private enterprise number.
    :ivar auxiliary: auxiliary firmware revision, four bytes; empty where it is not reported.
    """

    device: int
    revision: int
    firmware: str
    ipmi: str
    updating: bool
    device_sdrs: bool
    sdr_repository: bool
    fru_inventory: bool
    bridge: bool
    manufacturer: int
    product: int
    auxiliary: bytes


def identify(raw: Raw) -> DeviceId:
    """Send Get Device ID.

    :raises BmcError: it was refused, or not answered.
    """
    reply = raw(NetFn.APP, _GET_DEVICE_ID)
    if not reply.ok:
        raise refusal(raw, 'Get Device ID', reply)
    try:
        return parse(reply.data)
    except ValueError as exc:
        raise BmcAnswerInvalid(bmc=raw.label, what=f'Get Device ID: {exc}') from exc


def check(raw: Raw, exc: BmcError) -> None:
    """After a timeout or an invalid answer, check that the BMC itself still answers, lest each of many commands time out.

    :param raw: to the BMC.
    :param exc: the error of a command to the BMC, or to a controller behind it.
    :raises BmcError: the BMC does not answer.
    """
    if isinstance(exc, BmcUnreachable | BmcAnswerInvalid):
        identify(raw)


def parse(data: bytes) -> DeviceId:
    """Parse an answer to Get Device ID.

    :raises ValueError: it is too short.
    """
    if len(data) < _LEAST:
        raise ValueError(f'the answer is too short (length {len(data)}, minimum {_LEAST} bytes)')
    support = data[5]
    return DeviceId(
        device=data[0],
        revision=data[1] & 0x0F,
        firmware=f'{data[2] & 0x7F}.{data[3]:02x}',
        ipmi=f'{data[4] & 0x0F}.{data[4] >> 4}',
        updating=bool(data[2] & 0x80),
        device_sdrs=bool(data[1] & 0x80),
        sdr_repository=bool(support & 0x02),
        fru_inventory=bool(support & 0x08),
        bridge=bool(support & 0x40),
        manufacturer=int.from_bytes(data[6:9], 'little') & 0x0FFFFF,
        product=int.from_bytes(data[9:11], 'little'),
        auxiliary=data[11:15] if len(data) >= 15 else b'',
    )

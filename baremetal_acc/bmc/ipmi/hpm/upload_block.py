# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The block size with which an upload begins: as HPM.2 reports it, else as large as the session carries.

Source: PICMG HPM.2 R1.0, section 3; doc/source/reference/ipmi_notes.rst, "Upload by HPM.1".
"""

from typing import NamedTuple

from baremetal_acc.bmc.ipmi.command import NetFn, Raw, ask
from baremetal_acc.bmc.ipmi.hpm.commands import (
    NAMES,
    HpmCommand,
    encode_hpm2_capabilities,
    encode_lan_parameter,
    parse_hpm2_capabilities,
    parse_lan_parameter,
)
from baremetal_acc.errors import BmcError, BmcUnreachable

SAFE_BLOCK = 23
"""Bytes per block that pass every known bridge (ipmitool's block size behind one)."""

_LAN_PARAMETERS = 0x02
"""Get LAN Configuration Parameters, of NetFn Transport; sent for channel Eh, the channel by which it arrives."""

_PAYLOAD_OVERHEAD = 7
"""Bytes of an IPMI message over LAN besides its data: two addresses, NetFn, sequence number, command, two checksums."""

_BLOCK_OVERHEAD = 2
"""Body code and block number."""


class FirmwareBlock(NamedTuple):
    """Block size with which an upload begins; it backs off from there.

    :ivar told: it is the maximum that the controller has reported.
    """

    size: int
    told: bool = False


def block_size(raw: Raw) -> FirmwareBlock:
    """The block size that HPM.2 reports, else the largest that the session can carry.

    :raises BmcUnreachable: the controller does not answer.
    """
    longest, told = raw.longest, False
    try:
        data = ask(
            raw,
            NetFn.GROUP,
            HpmCommand.HPM2_CAPABILITIES,
            encode_hpm2_capabilities(),
            what=NAMES[HpmCommand.HPM2_CAPABILITIES],
        )
        channels, first = parse_hpm2_capabilities(data, raw.label)
        if channels:
            what = "Get LAN Configuration Parameters, HPM.2's"
            data = ask(raw, NetFn.TRANSPORT, _LAN_PARAMETERS, encode_lan_parameter(first), what=what)
            inbound = parse_lan_parameter(data, raw.label) - _PAYLOAD_OVERHEAD
            if inbound > SAFE_BLOCK:
                longest, told = min(longest, inbound), True
    except BmcUnreachable:
        raise
    except BmcError:
        pass  # without HPM.2 the maximum block size is not reported
    return FirmwareBlock(max(1, longest - _BLOCK_OVERHEAD), told)

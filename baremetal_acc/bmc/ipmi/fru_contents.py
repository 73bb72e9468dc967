# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Types for the decoded areas and records of a field replaceable unit (FRU).

:mod:`baremetal_acc.bmc.ipmi.fru_records` decodes them.

Source: Platform Management FRU Information Storage Definition 1.0 revision 1.3 (sections 10 to 12, 16); AMC.0 R2.0, tables
3-10 and 3-16 to 3-19 as ipmitool reads them (lib/ipmi_ekanalyzer.c).
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChassisArea:
    """Chassis info area.

    :ivar kind: SMBIOS chassis type.
    :ivar more: custom fields.
    """

    kind: int
    part_number: str | None = None
    serial: str | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardArea:
    """Board info area.

    :ivar made: manufacturing time, to the minute; None where it is not given.
    """

    language: int
    made: datetime | None = None
    manufacturer: str | None = None
    product: str | None = None
    serial: str | None = None
    part_number: str | None = None
    file_id: str | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductArea:
    """Product info area."""

    language: int
    manufacturer: str | None = None
    name: str | None = None
    part_number: str | None = None
    version: str | None = None
    serial: str | None = None
    asset_tag: str | None = None
    file_id: str | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherMultiRecord:
    """A multi-record area record that is not decoded.

    :ivar kind: record type id.
    """

    kind: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OemRecord:
    """An OEM record.

    :ivar manufacturer: IANA private enterprise number.
    :ivar data: the bytes after it.
    """

    kind: int
    manufacturer: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PicmgRecord:
    """A PICMG record that is not decoded.

    :ivar number: PICMG record id.
    """

    number: int
    version: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleCurrent:
    """Maximum current draw of an AMC (PICMG record 16h)."""

    amperes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link by which an AMC can use a channel (AMC link descriptor).

    :ivar lanes: which of the channel's four lanes.
    :ivar kind: link type: 02h PCI Express, 05h Ethernet, 06h Serial RapidIO, 07h storage; F0h to FEh: the OEM GUID of that
        index.
    :ivar extension: link type extension, such as the generation.
    :ivar group: link grouping id; links of one group other than 0 belong together.
    :ivar match: asymmetric match: 0 for an equal link, else which other link it matches.
    """

    channel: int
    lanes: tuple[int, ...]
    kind: int
    extension: int
    group: int
    match: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointToPoint:
    """Point-to-point connectivity of an AMC, or of a device on its carrier (PICMG record 19h).

    :ivar module: it describes the AMC itself; False: a device on the carrier.
    :ivar device: number of that device.
    :ivar channels: for each channel, the ports of its four lanes; None where it has no such lane.
    """

    module: bool
    device: int
    guids: tuple[bytes, ...]
    channels: tuple[tuple[int | None, ...], ...]
    links: tuple[Link, ...]


Record = OtherMultiRecord | OemRecord | PicmgRecord | ModuleCurrent | PointToPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Decoded contents of an FRU.

    :ivar faults: areas and records that are invalid, one clause each, naming the area.
    :ivar unsure: an invalid area may hold the name of a board or of a product.
    """

    chassis: ChassisArea | None = None
    board: BoardArea | None = None
    product: ProductArea | None = None
    records: tuple[Record, ...] = ()
    faults: tuple[str, ...] = ()
    unsure: bool = False

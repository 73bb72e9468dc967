# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Device correlation: decide which Redfish resources (Processor, PCIeDevice, NetworkAdapter, ...) are one physical device.

Resources are joined by their links first, then by the values that they show (UUID, serial number, PCI address, location,
number), the strongest first; two members of one collection are never joined. The reason of each join is kept as evidence. See
doc/source/reference/inventory.rst. All work is near linear in the number of resources, as a hostile BMC may list thousands.
"""

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.redfish.device import TABLES, Device, link_of, links_of
from baremetal_acc.bmc.redfish.discovery import Discovery
from baremetal_acc.bmc.redfish.link_correlation import join_by_links
from baremetal_acc.bmc.redfish.parse import parent
from baremetal_acc.bmc.redfish.value_correlation import join_by_values
from baremetal_acc.model.inventory import Gap


def physical_devices(walk: Discovery, devices: Devices) -> list[Device]:
    """Every physical device of a tree that may be an accelerator, with its kind if it is one."""
    linked, refused = join_by_links(walk, devices)
    found = join_by_values(linked, walk, devices)
    _note_refused(found, refused, walk)
    return found


def _note_refused(found: list[Device], refused: list[tuple[str, str]], walk: Discovery) -> None:
    """A gap for each refused link that would have made one accelerator of two. A board with several processors is none."""
    if not refused:
        return
    tables = (*TABLES, 'chassis', 'managers')
    owner = {uri: device for device in found for name in tables for uri in getattr(device, name)}
    for uri, link in refused:
        one, other = owner.get(uri), owner.get(link)
        if (
            one is None
            or other is None
            or one is other
            or (one.kind or other.kind) is None
            or _is_board(uri, link, one, other, walk)
        ):
            continue
        walk.gaps.append(Gap(ref=one.primary.ref, reason=_LINKED.format(uri=uri, link=link)))


def _is_board(uri: str, link: str, one: Device, other: Device, walk: Discovery) -> bool:
    """Whether the two are processors of one board, and the board links to no other processor instead."""
    both = one.collections() & other.collections()
    if not both or not both <= {parent(u) for u in one.processors}:
        return False
    card = walk.tree.pcie_devices.get(link)
    if card is None or uri not in walk.tree.processors:
        return True
    named = {*links_of(walk, card, 'Links', 'Processors')}
    named |= {p for f in walk.tree.functions.get(link, ()) if (p := link_of(walk, f, 'Links', 'Processor')) is not None}
    return not named or uri in named


_LINKED = 'the BMC contradicts itself: a link joins {uri} and {link}, which are two devices: treated as two'

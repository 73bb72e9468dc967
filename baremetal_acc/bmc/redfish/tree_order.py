# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Put a discovered tree in order: sort its tables, move absent devices out of them, and note dangling links."""

import json

from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import ResourceView, absent
from baremetal_acc.bmc.redfish.tree_reader import NOTHING, TreeReader
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import Ref

_LISTED_TWICE = 'listed twice, with URIs that differ only in case: this may be one resource or two'


def put_in_order(reads: TreeReader) -> None:
    """Sort the tables, so that the order of answers does not matter; move absent devices; note dangling links."""
    tree = reads.tree
    for uri, into, hides in reads.dangling:
        if reads.settled(uri) not in into and uri not in reads.usual:
            ref = Ref(bmc=reads.table.name, uri=reads.place(uri) or short(uri))
            reads.gaps.append(Gap(ref=ref, reason=NOTHING, hides=hides and uri not in reads.guessed))
    for table in (tree.processors, tree.pcie_devices, tree.adapters):
        for uri in [uri for uri, view in table.items() if absent(view)]:
            tree.absent[uri] = table.pop(uri)
    for table in (
        tree.systems, tree.chassis, tree.managers, tree.processors, tree.pcie_devices, tree.adapters, tree.interfaces,
        tree.graphics, tree.items, tree.extensions, tree.instances,
    ):  # fmt: skip
        _sort(table)
        _join_cases(reads, table)
    tree.functions = {uri: _sorted(tree.function_tables.get(uri, {})) for uri in tree.pcie_devices}
    tree.acceleration = {uri: _sorted(tree.acceleration_tables.get(uri, {})) for uri in tree.processors}
    reads.gaps.sort(key=lambda g: (g.ref, g.field or '', g.reason))


def _join_cases(reads: TreeReader, table: dict[str, ResourceView]) -> None:
    """Remove one of two resources that are alike but for the case of their URIs: a BMC may repeat a URI as requested.

    If both are listed, both are kept, and a gap says that they may be one.
    """
    folded: dict[str, list[str]] = {}
    for uri in table:
        folded.setdefault(uri.casefold(), []).append(uri)
    for same in folded.values():
        if len(same) < 2:
            continue
        listed = [uri for uri in same if uri in reads.listed]
        kept = (listed or same)[0]
        if len({json.dumps(table[uri].body, sort_keys=True).casefold() for uri in same}) > 1:
            continue
        if len(listed) > 1:
            reads.gaps.append(Gap(ref=table[kept].ref, reason=_LISTED_TWICE, hides=True))
            continue
        for uri in same:
            if uri != kept:
                del table[uri]
                reads.table.means(uri, kept)


def _sort(table: dict[str, ResourceView]) -> None:
    ordered = sorted(table)
    if ordered != list(table):
        views = [table[uri] for uri in ordered]
        table.clear()
        table.update(zip(ordered, views, strict=True))


def _sorted(table: dict[str, ResourceView]) -> tuple[ResourceView, ...]:
    _sort(table)
    return tuple(table.values())

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the System of the machine that a target means, among all Systems of a BMC."""

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish import ownership
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree, handed_out
from baremetal_acc.bmc.redfish.discovery import ROOT, Discovery
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import parent
from baremetal_acc.errors import BmcAnswerInvalid
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.uri import systems_meant


def find_named_system(walk: Discovery, address: BmcAddress) -> str | None:
    """The URI of the System that the target names by its URI or Id; None if it names none, or no System could be read.

    A wrong name is an error: the connection does not fall back to another System or to none.

    :raises BmcAnswerInvalid: no listed System has the name, or several have.
    """
    tree, given = walk.tree, address.system
    if given is None:
        return None
    place = ownership.systems_place(walk)
    unread: dict[str, str | None] = {g.ref.uri: None for g in tree.gaps if parent(g.ref.uri) == place}
    meant = systems_meant(given, unread | {uri: view.id for uri, view in tree.systems.items()})
    listed = any(uri == gap.ref.uri for gap in tree.gaps for uri in meant)
    if len(meant) == 1 and (meant[0] in tree.systems or listed or not tree.systems):
        return meant[0]
    if not meant and not tree.systems:
        return None
    many = len(meant) > 1
    there = short(', '.join(f'{uri} (Id {view.id})' for uri, view in sorted(tree.systems.items())))
    raise BmcAnswerInvalid(
        bmc=address.label,
        uri=meant[0] if len(meant) == 1 else place,
        what=f'{"several Systems match" if many else "no System matches"} {short(given)}; found: {there}',
        hint='set system (Ironic: redfish_system_id) to the URI of one of them',
    )


def find_machine_system(tree: DiscoveredTree, address: BmcAddress, named: str | None, owners: Ownership) -> Ref | None:
    """The System of the machine: the named one, else the only one that can be reset and is no card's own.

    A gap is noted if there is none.
    """
    name = address.name
    if named is not None:
        wanted = Ref(bmc=name, uri=named)
        if wanted.uri not in tree.systems:
            tree.gaps.append(Gap(ref=wanted, reason='the configured System could not be read', hides=True))
        return wanted
    if address.system is not None:
        place = Ref(bmc=name, uri=f'{ROOT}/Systems')
        tree.gaps.append(Gap(ref=place, reason='the configured System could not be read', hides=True))
        return None
    candidates = handed_out(tree)
    if len(candidates) == 1:
        return candidates[0].ref
    number = f'{len(candidates)} of {len(tree.systems)}'
    reason = f'Systems that may be the host: {number}; set system (Ironic: redfish_system_id) to the URI of one'
    tree.gaps.append(Gap(ref=Ref(bmc=name, uri=f'{ROOT}/Systems'), reason=reason, hides=len(owners.machines) > 1))
    return None

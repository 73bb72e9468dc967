# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the facts of a BMC and of its machine's System: power, resets, the Manager, and what it says of updates."""

import logging

from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.quirks import Quirks
from baremetal_acc.bmc.redfish import standby, system, update
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree, handed_out, own_manager
from baremetal_acc.bmc.redfish.discovery import ROOT
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.errors import BmcError
from baremetal_acc.model.inventory import BmcFacts, HostReading, PowerState, UpdateFacts
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)


def read_facts(
    address: BmcAddress, tree: DiscoveredTree, home: Ref | None, quirks: Quirks, reader: RedfishReader, infos: set[str]
) -> BmcFacts:
    """Properties of the BMC and of the machine's System.

    :param infos: the URIs of ActionInfos that are read are added to it.
    """

    def info(uri: str) -> Document:
        infos.add(reader.place(uri))
        return reader.get(uri)

    parallel = address.parallel_updates or quirks.updates_at_once()
    provider = tree.root.link('Links', 'ManagerProvidingService')
    manager = tree.managers.get(provider or '') or (next(iter(tree.managers.values())) if len(tree.managers) == 1 else None)
    view = tree.systems.get(home.uri) if home is not None else None
    host = system.host(view) if view is not None else HostReading(power=PowerState.UNKNOWN)
    own = _own_manager(tree, view, reader)
    alone = len(handed_out(tree)) < 2
    return BmcFacts(
        name=address.name,
        address=address.address,
        session=reader.session,
        product=tree.root.text('Product'),
        firmware_version=manager.literal('FirmwareVersion') if manager is not None else None,
        update=_update_facts(tree, address, max(1, parallel)),
        system=home,
        power=host.power,
        last_reset=host.last_reset,
        boot_progress=host.boot_progress,
        bmc_reset=own.literal('LastResetTime') if own is not None else None,
        resets=system.resets(view, info) if view is not None else None,
        standby_reset=standby.place(view, tree.chassis, info) if view is not None and alone else None,
        manager=own.ref if own is not None and alone and system.restartable(own) else None,
        power_restore=view.literal('PowerRestorePolicy') if view is not None else None,
    )


def _own_manager(tree: DiscoveredTree, home: ResourceView | None, reader: RedfishReader) -> ResourceView | None:
    """The Manager that we talk to: ManagerProvidingService, else the only Manager that manages the System.

    It is read in the way that locks read Managers, so that reading locks after this inventory repeats no request. If it
    cannot be read, no device is hidden.
    """
    own = own_manager(tree.root, home)
    if own is None:
        return None
    try:
        root = ResourceView(tree.root.ref, tree.root.body, [])
        reader.collection(root.link('Managers') or f'{ROOT}/Managers')
        return ResourceView.of(reader.get(own), [])
    except BmcError as exc:
        LOG.info('%s', exc)
        return None


def _update_facts(tree: DiscoveredTree, address: BmcAddress, parallel: int) -> UpdateFacts | None:
    if tree.update is None:
        return None
    return update.facts(tree.update, parallel, address.images)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Redfish connection: a session with one BMC, and the operations of the driver contract over it."""

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import BmcAddress, CardLead, Document, Lead, Look, Upload
from baremetal_acc.bmc.quirks import Quirks
from baremetal_acc.bmc.redfish import (
    bmc_settings,
    firmware,
    identify,
    integrity,
    invariants,
    ownership,
    reread,
    setting_restore,
    standby,
    start_update,
    system,
    task,
    update,
)
from baremetal_acc.bmc.redfish.accelerators import accelerator_of
from baremetal_acc.bmc.redfish.background_copy import find_copying, list_copying_roots
from baremetal_acc.bmc.redfish.bmc_facts import read_facts
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.collection_members import members
from baremetal_acc.bmc.redfish.concurrency import BmcHabits
from baremetal_acc.bmc.redfish.device import Device, own_version
from baremetal_acc.bmc.redfish.discovered_tree import handed_out, own_manager
from baremetal_acc.bmc.redfish.discovery import Discovery
from baremetal_acc.bmc.redfish.login import Login
from baremetal_acc.bmc.redfish.machine_system import find_machine_system, find_named_system
from baremetal_acc.bmc.redfish.parse import ResourceView, component, power_state
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.bmc.redfish.task_list import read_tasks
from baremetal_acc.bmc.redfish.tree_reader import NOTHING
from baremetal_acc.bmc.redfish.writer import RedfishWriter
from baremetal_acc.bmc.settings_reader import SettingSight
from baremetal_acc.errors import BmcBusy, BmcError, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import BmcSetting, BmcState
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, UploadProgress
from baremetal_acc.model.inventory import (
    BmcFacts,
    Gap,
    HostReading,
    ManagerReading,
    Objection,
    PowerState,
    TaskReading,
    TaskState,
    UpdateActivity,
)
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.measurement import MeasurementReading, SignedMeasurements
from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)

MAX_MANAGERS = 16
"""Managers of one BMC whose last reset is read; no real BMC shows more than four."""


class RedfishConnection:
    """A session with one BMC, and the operations of the driver contract over it.

    :ivar address: the BMC.
    :ivar session: name of the session, which lock readings carry as evidence.
    """

    lasts = True

    def __init__(
        self, address: BmcAddress, connector: Connector, login: Login, root: Document, habits: BmcHabits, devices: Devices
    ) -> None:
        self.address = address
        self.session = f'{address.name}-{secrets.token_hex(6)}'
        self._connector = connector
        self._login = login
        self._root = root
        self._habits = habits
        self._devices = devices
        self._before: dict[str, Document] = {}
        self._leads: tuple[Lead | CardLead, ...] = ()
        self._last: RedfishReader | None = None
        self._ownership: Ownership | None = None

    def __enter__(self) -> 'RedfishConnection':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Log out and close the connections."""
        self._learn()
        self._login.close()
        self._connector.close()

    def stop(self) -> None:
        """Make all reads fail at once from now on, so that an operation under way ends and logs out.

        May be called from any thread.
        """
        self._connector.stop()

    def read_ahead(self, leads: Iterable[Lead | CardLead]) -> None:
        """Name, before an inventory, what is read after it if there is an accelerator."""
        self._leads = tuple(leads)

    def look(self, now: datetime) -> Look:
        """Take the inventory of the BMC's accelerators; locks are read afterwards, over the result's reader.

        :raises BmcError: no answer, or neither Systems nor Chassis could be read.
        """
        self._learn()
        reader = self._last = self._reader()
        quirks = _quirks(ResourceView.of(self._root, []))
        walk = Discovery(reader, self._root, quirks, self._devices, self._leads)
        reader.expect(self._habits.targets)
        tree = walk.run()
        found, platform = identify.identify(walk, self._devices)
        items = firmware.assign(walk, found, quirks)
        seen = invariants.StatedExistence(
            tree=tree,
            documents=reader.documents,
            devices=self._devices,
            found=found,
            items=items,
            platform=frozenset(p.ref.uri for p in platform),
            slot=quirks.item_slot(),
        )
        for gap in invariants.contradictions(seen):
            tree.gaps.append(gap)
        named = find_named_system(walk, self.address)
        owners = ownership.ownership(walk, reader, self._devices, found, items, named)
        self._ownership = owners
        self._habits.alone = owners if len(owners.machines) < 2 else None
        home = find_machine_system(tree, self.address, named, owners)
        accelerators = [
            accelerator_of(walk, device, owned, home, source, self._devices)
            for device, owned, source in zip(found, items, identify.identities(found, self.address.name), strict=True)
        ]
        LOG.info('%s: accelerators found: %d, requests so far: %d', self.address.label, len(found), self._connector.requests)
        infos: set[str] = set()
        return Look(
            facts=read_facts(self.address, tree, home, quirks, reader, infos),
            accelerators=tuple(sorted(accelerators, key=lambda a: a.id)),
            platform_devices=tuple(sorted(platform, key=lambda p: p.ref)),
            gaps=identify.attributed(self._without_secrets(tree.gaps), accelerators),
            reader=reader,
            measures=integrity.offered(tree.root) is not None,
            machines=len(handed_out(tree)),
            ownership=owners,
            later=partial(self._later, walk, reader, frozenset(reader.documents), frozenset(infos)),
            others=partial(firmware.of_none, walk, items),
        )

    def _later(self, walk: Discovery, reader: RedfishReader, before: frozenset[str], infos: frozenset[str]) -> tuple[Gap, ...]:
        """Gaps in what was read since the inventory, which is the resources of locks: a lock whose link dangles may be open.

        A missing Settings resource is no gap, as locks guess its URI if the BMC does not show it. A missing ActionInfo hides
        neither device nor lock.
        """
        known = {gap.ref.uri for gap in walk.gaps}
        gone = (uri for uri in reader.gone if uri not in known | walk.guessed and not uri.endswith('/Settings'))
        read = [document for uri, document in reader.documents.items() if uri not in before]
        name = self.address.name
        lost = [Gap(ref=Ref(bmc=name, uri=uri), reason=NOTHING, hides=uri not in infos) for uri in gone]
        odd = (*invariants.miscounted(read), *invariants.unlisted(read, walk.tree.items))
        return tuple(self._without_secrets([*lost, *odd]))

    def ownership(self) -> Ownership:
        """To which machine each of the BMC's resources belongs. If the BMC serves only one, this process remembers it.

        :raises BmcError: the resources could not be read.
        """
        known, system = self._habits.alone, self.address.system
        if self._ownership is None and known is not None and (system is None or known.named(system) in known.machines):
            self._ownership = known
        if self._ownership is None:
            self.look(datetime.now(UTC))
        if self._ownership is None:
            raise AssertionError('an inspection determines the ownership of the resources')
        return self._ownership

    def measure(
        self, accelerators: Iterable[Accelerator], now: datetime, why_not: str | None = None
    ) -> Sequence[SignedMeasurements | MeasurementReading]:
        """Have the roots of trust of these devices sign their measurements (SPDM)."""
        place = integrity.offered(ResourceView.of(self._root, []))
        if place is None:
            return ()
        # A separate reader, as the next inventory does not need what it reads.
        return integrity.measure(self._connector, self._reader(), place, accelerators, now, why_not)

    def settings(self, asked: frozenset[BmcSetting], facts: BmcFacts) -> BmcState:
        """Read settings of the BMC, with a reader of its own, as the next inventory does not need them."""
        reader, root = self._reader(), ResourceView.of(self._root, [])
        found = bmc_settings.read(
            reader, root, asked, system=facts.system, manager=own_manager(root, None), username=self.address.username
        )
        clean = {replace(one, reason=self._connector.redact(one.reason)) for one in found.unread}
        return replace(found, unread=tuple(sorted(clean, key=lambda one: (one.setting, one.ref, one.reason))))

    def restore(self, action: RestoreSetting, *, send: bool) -> SettingSight:
        """Restore a setting of the BMC, and read it back.

        :raises BmcError: it could not be read, or the BMC did not accept the write.
        """
        return setting_restore.restore(self._connector, self.writer(), action, self.address, send=send)

    def glance(self, uris: Iterable[str], within: timedelta) -> Mapping[str, Document | BmcError]:
        """Read some resources again, with as few requests as possible."""
        address = replace(self.address, budget=within)
        reader = RedfishReader(self._connector, address, self.session, self._habits, root=self._root, frugal=True)
        return reread.glance(reader, uris)

    def writer(self) -> RedfishWriter:
        """A writer for locks and settings."""
        return RedfishWriter(self._connector, self.address.name, self.session)

    def component(self, ref: Ref) -> Component:
        """Read one SoftwareInventory item now; of a resource of another type, its FirmwareVersion.

        :raises BmcError: it could not be read.
        """
        view = ResourceView.of(fresh(self._connector, ref.bmc, ref.uri), [])
        kind = view.body.get('@odata.type')
        if isinstance(kind, str) and not kind.startswith('#SoftwareInventory.') and not view.has('Version'):
            device = Device(pcie_devices={ref.uri: view})
            return own_version(device) or Component(id=None, ref=view.ref)
        return component(view)

    def may_write(self) -> None:
        """Check nothing: the BMC tells which roles may write only when a write is sent."""

    def judge(self, targets: Sequence[Ref], image: Image, upload: Upload) -> None:
        """Check nothing: Redfish does not tell which images a device accepts; the BMC's answer to the upload does."""

    def push(self, target: Ref, upload: Upload) -> TaskReading | Objection | UploadProgress | None:
        """Send an image to one Target, once. If StartUpdate has to follow, :meth:`go_on` sends it.

        :raises BmcError: see the contract in :mod:`baremetal_acc.bmc.driver`.
        """
        copying = self._copies()
        if copying is not None:
            what = 'the root of trust is copying an image in the background'
            raise BmcBusy(bmc=self.address.label, uri=copying, what=what)
        return update.push(self._connector, self._update_service(), target, upload, self.address.images)

    def _update_service(self) -> ResourceView | None:
        """The UpdateService as it is now; None if there is none.

        :raises BmcError: it could not be read.
        """
        link = ResourceView.of(self._root, []).link('UpdateService')
        return ResourceView.of(fresh(self._connector, self.address.name, link), []) if link is not None else None

    def go_on(self, target: Ref, upload: Upload, progress: UploadProgress) -> TaskReading | Objection | None:
        """Send StartUpdate for an uploaded image that waits for it.

        :raises BmcError: see the contract in :mod:`baremetal_acc.bmc.driver`.
        """
        try:
            view = self._update_service()
        except BmcUnreachable as exc:
            raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=exc.what, hint=exc.hint, sent=False) from exc
        if view is None:
            raise BmcUnsupported(bmc=self.address.label, uri=target.uri, what='the BMC no longer has an UpdateService')
        return start_update.go_on(self._connector, view, progress, self.active_tasks)

    def deferred(self, task: Ref) -> UploadProgress | None:
        """The next step of an update whose task waits for StartUpdate; None if the BMC has no such action.

        :raises BmcError: the UpdateService could not be read.
        """
        view = self._update_service()
        return None if view is None else start_update.later(view, task)

    def task(self, ref: Ref) -> TaskReading:
        """Read one task.

        :raises BmcError: it could not be read.
        """
        return task.read(self._connector, ref)

    def cancel(self, ref: Ref) -> None:
        """Request that a task be cancelled.

        :raises BmcUnsupported: the BMC does not cancel tasks. ``BmcError``: it did not accept the request.
        """
        task.cancel(self._connector, ref)

    def active_tasks(self) -> Sequence[TaskReading]:
        """Active tasks; a task that vanishes while it is read is not active.

        :raises BmcError: they could not be read.
        """
        return tuple(t for t in self.tasks() if t.state is TaskState.ACTIVE)

    def tasks(self) -> Sequence[TaskReading]:
        """The BMC's last tasks (at most MAX_TASKS), without those that vanish while they are read.

        :raises BmcError: they could not be read.
        """
        return read_tasks(self._connector, ResourceView.of(self._root, []), self._reader())

    def update_activity(self) -> UpdateActivity:
        """Whether the update service is busy, by its standard state or a vendor's extension.

        A root of trust that copies its image in the background counts as busy, too.

        :raises BmcError: it could not be read.
        """
        if self._copies():
            return UpdateActivity.BUSY
        root = ResourceView.of(self._root, [])
        link = root.link('UpdateService')
        said = None
        if link is not None:
            said = update.activity(ResourceView.of(fresh(self._connector, self.address.name, link), []))
        if said is not None:
            return said
        tasks = root.link('Tasks') or root.link('TaskService')
        return UpdateActivity.UNKNOWN if tasks is None else UpdateActivity.TOLD_BY_TASKS

    def _copies(self) -> str | None:
        """URI of a root of trust that copies an image in the background now; None if none does, or none that may was seen."""
        self._note_copies()
        return find_copying(self._connector, self.address.name, self._habits.copies)

    def _note_copies(self) -> None:
        found = list_copying_roots({} if self._last is None else self._last.documents)
        if found:
            self._habits.copies = found

    def power(self, system_ref: Ref) -> PowerState:
        """PowerState of a System, read now.

        :raises BmcError: it could not be read.
        """
        return power_state(system.read(self._connector, system_ref))

    def set_power(self, system_ref: Ref, wanted: PowerState) -> Objection | None:
        """Request On or Off of a System.

        :returns: a failure or warning in the BMC's answer of success.
        :raises BmcError: the BMC did not accept it.
        """
        return system.set_power(self._connector, system_ref, wanted)

    def reset(self, system_ref: Ref, kind: ResetKind) -> Objection | None:
        """Request a reset of a System; of standby power, of the resource that the facts name (``standby_reset``).

        :returns: a failure or warning in the BMC's answer of success.
        :raises BmcUnsupported: the resource offers none of that kind. ``BmcError``: the BMC did not accept it.
        """
        if kind is ResetKind.AUX_POWER_CYCLE:
            return standby.cycle(self._connector, system_ref)
        return system.reset(self._connector, system_ref, kind)

    def offers_reset(self, system_ref: Ref, kind: ResetKind) -> bool:
        """Whether a System offers a reset of that kind in one request, or does not advertise its ResetTypes.

        :raises BmcError: it could not be read.
        """
        return system.offers_reset(self._connector, system_ref, kind)

    def host(self, system_ref: Ref) -> HostReading:
        """PowerState, LastResetTime and BootProgress of a System, in one read. For the Manager's last reset see :meth:`look`.

        :raises BmcError: it could not be read.
        """
        return system.host(system.read(self._connector, system_ref))

    def last_reset(self, system_ref: Ref) -> str | None:
        """LastResetTime of a System as text.

        :raises BmcError: it could not be read.
        """
        return system.read(self._connector, system_ref).literal('LastResetTime')

    def managers(self) -> Sequence[ManagerReading]:
        """LastResetTime and DateTime of every Manager; empty if there are more than MAX_MANAGERS, or several pages of them.

        :raises BmcError: one of them could not be read.
        """
        name = self.address.name
        link = ResourceView.of(self._root, []).link('Managers')
        if link is None:
            return ()
        body = fresh(self._connector, name, link).body
        links = [m.get('@odata.id') for m in members(body)]
        if not 0 < len(links) <= MAX_MANAGERS or 'Members@odata.nextLink' in body:
            return ()
        views = [ResourceView.of(fresh(self._connector, name, one), []) for one in links if isinstance(one, str)]
        return tuple(
            ManagerReading(ref=one.ref, last_reset=one.literal('LastResetTime'), time=one.literal('DateTime')) for one in views
        )

    def _learn(self) -> None:
        """Remember which resources the last inventory needed, including those of its locks."""
        if self._last is not None:
            self._note_copies()
            self._habits.targets = self._last.asked
            self._before = self._last.documents
            self._last = None

    def _without_secrets(self, gaps: Iterable[Gap]) -> list[Gap]:
        """Gaps in order, with our tokens removed, also a token that we got only after the BMC's text was noted."""
        clean = {replace(g, reason=self._connector.redact(g.reason)) for g in gaps}
        return sorted(clean, key=lambda g: (g.ref, g.field or '', g.reason))

    def _reader(self) -> RedfishReader:
        return RedfishReader(self._connector, self.address, self.session, self._habits, root=self._root, before=self._before)


def _quirks(root: ResourceView) -> Quirks:
    oem = root.part('Oem')
    return Quirks(
        vendor=root.text('Vendor'), product=root.text('Product'), oem=frozenset(oem.body) if oem is not None else frozenset()
    )

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Redfish driver and connection: the entry point ``redfish``, login, inventory, firmware updates, tasks, power and resets.

What hardware: any service of DSP0266 1.6 and later; each vendor's oddities are in :mod:`baremetal_acc.bmc.quirks`.
How it is found: by the scheme of the BMC's address, ``https`` (or ``http``, if the operator writes that).
What it can do: take an inventory, read and write settings, push images or let the BMC pull them, follow tasks, power and reset.
Which write paths it blocks: none; the lock mechanisms do that.
How an update behaves: one POST with one Target, then StartUpdate where the BMC requires it; the Task resource is polled; the
caller reads the version back.
What it was tried on: the eight recordings (see doc/source/reference/inventory.rst) and the emulator; no hardware.
"""

import contextlib
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from baremetal_acc.bmc import device_ids as table
from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import BmcAddress, CardLead, Document, Lead, Look, Upload
from baremetal_acc.bmc.quirks import BACKGROUND_COPY, Quirks
from baremetal_acc.bmc.redfish import (
    firmware,
    identify,
    integrity,
    invariants,
    ownership,
    reread,
    standby,
    start_update,
    system,
    task,
    update,
)
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.concurrency import BmcHabits, Pace, RememberedBmc
from baremetal_acc.bmc.redfish.device import Device, functions_of, own_version
from baremetal_acc.bmc.redfish.discovery import NOTHING, ROOT, DiscoveredTree, Discovery, handed_out, own_manager
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.login import Login
from baremetal_acc.bmc.redfish.parse import ResourceView, component, parent, power_state
from baremetal_acc.bmc.redfish.reader import RedfishReader, fresh, members
from baremetal_acc.bmc.redfish.writer import RedfishWriter
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.http.transport import Dial
from baremetal_acc.model.accelerator import Accelerator, IdentitySource, MergeEvidence
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
    UpdateFacts,
)
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.measurement import MeasurementReading, SignedMeasurements
from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.uri import systems_meant

LOG = logging.getLogger(__name__)

MAX_TASKS = 100

MAX_MANAGERS = 16
"""Managers of one BMC whose last reset is read; no real BMC shows more than four."""

_REMEMBERED = RememberedBmc()


class RedfishDriver:
    """The Redfish driver: entry point ``redfish`` of the group ``baremetal_acc.bmc``."""

    protocol = 'redfish'

    def __init__(
        self,
        devices: Devices | None = None,
        patience: ReadRetry | None = None,
        remembered: RememberedBmc | None = None,
        dial: Dial | None = None,
    ) -> None:
        """Create the driver.

        :param devices: the table of devices that are accelerators; the shipped table when None.
        :param patience: retry policy of reads.
        :param remembered: what is known of how BMCs behave; that of the whole process when None.
        :param dial: opens connections to BMCs; over the network when None.
        """
        self._devices = devices
        self._patience = patience
        self._dial = dial
        self._remembered = _REMEMBERED if remembered is None else remembered

    def connect(self, address: BmcAddress) -> 'RedfishConnection':
        """Log in to a BMC.

        :raises BmcUnreachable: no answer. ``BmcUntrusted``: the certificate does not verify. ``BmcNotAuthorised``: wrong
            credentials. ``BmcAnswerInvalid``: no Redfish service there. ``UsageError``: the address is malformed.
        """
        connector = Connector(address, self._patience, self._dial)
        habits = self._remembered.of(address.address, lambda: BmcHabits(pace=Pace(ceiling=max(1, address.concurrency))))
        habits.pace.bound(max(1, address.concurrency))
        connector.pushed_back = habits.pace.pushed_back
        connector.silent = habits.silent
        login = Login(address, habits.accounts.of(address.username, address.password))
        # With a concurrency of one, the login is not sent in parallel: the limit holds for all requests.
        arrived = login.ahead(connector) if address.concurrency > 1 else lambda: None
        try:
            try:
                root = _root(connector, address)
            finally:
                arrived()
            login.begin(connector, _sessions(root))
        except BaseException:
            login.close()
            connector.close()
            raise
        return RedfishConnection(address, connector, login, root, habits, self._devices or table.shipped())


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
        LOG.info('%s: %d accelerators, %d requests so far', self.address.label, len(found), self._connector.requests)
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
            raise AssertionError('a look says whose the resources are')
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
            what = 'its root of trust copies an image in the background'
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
            raise BmcUnsupported(bmc=self.address.label, uri=target.uri, what='it has no UpdateService any more')
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


def _root(connector: Connector, address: BmcAddress) -> Document:
    """The service root, which needs no login.

    :raises BmcAnswerInvalid: there is no Redfish service.
    """
    try:
        root = fresh(connector, address.name, f'{ROOT}/')
    except (BmcRefused, BmcAnswerInvalid) as exc:
        raise BmcAnswerInvalid(
            bmc=connector.label, uri=f'{ROOT}/', what=f'no Redfish service answers there: {exc.what}', hint='check the address'
        ) from exc
    if 'RedfishVersion' not in root.body and 'Systems' not in root.body and 'Chassis' not in root.body:
        raise BmcAnswerInvalid(
            bmc=connector.label, uri=f'{ROOT}/', what='no Redfish service answers there', hint='check the address'
        )
    return replace(root, ref=Ref(bmc=address.name, uri=ROOT))


def _sessions(root: Document) -> str | None:
    """The URI of the session collection; None if the BMC has no sessions."""
    view = ResourceView.of(root, [])
    service = view.link('SessionService')
    return view.link('Links', 'Sessions') or (f'{service.rstrip("/")}/Sessions' if service else None)


def _quirks(root: ResourceView) -> Quirks:
    oem = root.part('Oem')
    return Quirks(
        vendor=root.text('Vendor'), product=root.text('Product'), oem=frozenset(oem.body) if oem is not None else frozenset()
    )


def accelerator_of(
    walk: Discovery,
    device: Device,
    items: firmware.Items,
    home: Ref | None,
    identity: tuple[AcceleratorId, IdentitySource],
    devices: Devices,
) -> Accelerator:
    """The accelerator that a device of a kind is.

    :param home: the System of the machine.
    """
    kind = device.kind
    if kind is None:
        raise AssertionError('a device without a kind is no accelerator')
    primary = device.primary
    return Accelerator(
        id=identity[0],
        kind=kind,
        identity=identity[1],
        primary=primary.ref,
        refs=tuple(sorted(Ref(bmc=primary.ref.bmc, uri=uri) for uri in device.uris())),
        vendor=device.vendor(devices),
        model=device.model(devices),
        part_number=device.part_number,
        serial=device.serial,
        uuid=device.uuid,
        location=device.location,
        pci=device.pci,
        firmware=tuple(sorted(items.components, key=lambda c: (c.id or '', c.ref))),
        slots=firmware.slots(device, items, walk),
        functions=tuple(sorted(functions_of(device, walk.tree), key=lambda f: f.ref)),
        traits=device.traits(devices),
        system=home,
        health=device.health,
        health_rollup=device.health_rollup,
        state=device.state,
        merged_by=tuple(
            sorted(
                MergeEvidence(basis=by.basis, refs=tuple(Ref(bmc=primary.ref.bmc, uri=uri) for uri in sorted(by.uris)))
                for by in device.joints
            )
        ),
    )


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
        what=f'{"several Systems may be meant" if many else "no System is there"} by {short(given)}; there are: {there}',
        hint='name one of them by its URI (system)' if many else 'name one of them (system), by its URI or its Id',
    )


def find_machine_system(tree: DiscoveredTree, address: BmcAddress, named: str | None, owners: Ownership) -> Ref | None:
    """The System of the machine: the named one, else the only one that can be reset and is no card's own.

    A gap is noted if there is none.
    """
    name = address.name
    if named is not None:
        wanted = Ref(bmc=name, uri=named)
        if wanted.uri not in tree.systems:
            tree.gaps.append(Gap(ref=wanted, reason='the System that was named could not be read', hides=True))
        return wanted
    if address.system is not None:
        place = Ref(bmc=name, uri=f'{ROOT}/Systems')
        tree.gaps.append(Gap(ref=place, reason='the System that was named could not be read', hides=True))
        return None
    candidates = handed_out(tree)
    if len(candidates) == 1:
        return candidates[0].ref
    reason = f'{len(candidates)} of {len(tree.systems)} Systems may be the one that is handed out: name it (key system)'
    tree.gaps.append(Gap(ref=Ref(bmc=name, uri=f'{ROOT}/Systems'), reason=reason, hides=len(owners.machines) > 1))
    return None


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


def read_tasks(connector: Connector, root: ResourceView, reader: RedfishReader) -> Sequence[TaskReading]:
    """The BMC's last tasks (at most MAX_TASKS), without those that vanish while they are read.

    :param reader: a new one.
    :raises BmcError: they could not be read.
    """
    service = root.link('Tasks') or root.link('TaskService')
    if service is None:
        return ()
    tasks = ResourceView.of(fresh(connector, reader.name, service), []).link('Tasks')
    if tasks is None:
        return ()
    links = [m['@odata.id'] for m in members(reader.collection(tasks).body) if isinstance(m.get('@odata.id'), str)]
    places = []
    for link in links[-MAX_TASKS:]:
        with contextlib.suppress(BmcAnswerInvalid):
            places.append(reader.ref(link))  # a link off the BMC is not a task of this BMC
    found = [_task_of(connector, reader, place) for place in places]
    return tuple(t for t in found if t.state is not TaskState.GONE)


def _task_of(connector: Connector, reader: RedfishReader, ref: Ref) -> TaskReading:
    """A task as its collection has just returned it expanded, as BMCs keep a hundred old ones; otherwise it is read."""
    document = reader.peek(ref.uri)
    view = ResourceView.of(document, []) if document is not None else None
    return task.reading(view) if view is not None and view.has('TaskState') else task.read(connector, ref)


def find_copying(connector: Connector, name: BmcName, roots: Iterable[str]) -> str | None:
    """URI of a root of trust that copies an image in the background now; None if none does.

    :param roots: URIs of roots of trust that say whether they do.
    :raises BmcError: one of them could not be read.
    """
    for uri in roots:
        try:
            view = ResourceView.of(fresh(connector, name, uri), [])
        except BmcRefused as exc:
            if not exc.gone:
                raise
            continue  # a card that is no longer there copies nothing
        if view.literal(*BACKGROUND_COPY) == 'InProgress':
            return uri
    return None


def list_copying_roots(documents: Mapping[str, Document]) -> tuple[str, ...]:
    """URIs of the roots of trust that say whether they copy an image in the background, sorted."""
    extended = {uri: ResourceView.of(one, []) for uri, one in documents.items() if BACKGROUND_COPY[0] in one.body}
    return tuple(sorted(uri for uri, view in extended.items() if view.literal(*BACKGROUND_COPY) is not None))

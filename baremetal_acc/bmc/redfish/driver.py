# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does a BMC speak Redfish? The driver, its connection, and one look.

What hardware: any service of DSP0266 1.6 and later; each vendor's oddities are in :mod:`baremetal_acc.bmc.quirks`.
How it is found: by the scheme of the BMC's address, ``https`` (or ``http``, if the operator writes that).
What it can do: look, read and write settings, push images or let the BMC fetch them, follow tasks, power and reset.
Which write paths it blocks: none; locks do that.
How an update behaves: one POST with one Target, and StartUpdate where it waits for that; the task is polled by its resource;
success is read back by the caller.
What it was tried on: the eight recordings (see doc/source/inventory.rst) and the emulator; no hardware.
"""

import contextlib
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from baremetal_acc.bmc import devices as table
from baremetal_acc.bmc.api import BmcAddress, CardLead, Document, Lead, Look, Upload
from baremetal_acc.bmc.devices import Devices
from baremetal_acc.bmc.quirks import BACKGROUND_COPY, Quirks
from baremetal_acc.bmc.redfish import (
    firmware,
    glance,
    identify,
    integrity,
    invariants,
    ownership,
    standby,
    start_update,
    system,
    task,
    update,
)
from baremetal_acc.bmc.redfish.connector import Connector
from baremetal_acc.bmc.redfish.device import Device, functions_of, own_version
from baremetal_acc.bmc.redfish.habits import Habits, Pace, Remembered
from baremetal_acc.bmc.redfish.login import Login
from baremetal_acc.bmc.redfish.message import short
from baremetal_acc.bmc.redfish.parse import View, component, parent, power_state
from baremetal_acc.bmc.redfish.reader import Reader, fresh, members
from baremetal_acc.bmc.redfish.walk import MAX_TASKS, NOTHING, ROOT, Tree, Walk, handed_out, own_manager
from baremetal_acc.bmc.redfish.writer import Writer
from baremetal_acc.bmc.retry import Patience
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.http.transport import Dial
from baremetal_acc.model.accelerator import Accelerator, IdentitySource, MergeEvidence
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, Progress
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
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.uri import systems_meant

LOG = logging.getLogger(__name__)

MAX_MANAGERS = 16
"""Of one BMC that are asked when they were last restarted; no real one shows more than four."""

_REMEMBERED = Remembered()


class RedfishDriver:
    """Entry point ``redfish`` of the group ``baremetal_acc.bmc``."""

    protocol = 'redfish'

    def __init__(
        self,
        devices: Devices | None = None,
        patience: Patience | None = None,
        remembered: Remembered | None = None,
        dial: Dial | None = None,
    ) -> None:
        """The driver.

        :param devices: which devices are accelerators; the shipped table when None.
        :param patience: how reads are repeated.
        :param remembered: what is known of how BMCs behave; that of the whole process when None.
        :param dial: what makes a connection to a BMC; one over the network when None.
        """
        self._devices = devices
        self._patience = patience
        self._dial = dial
        self._remembered = _REMEMBERED if remembered is None else remembered

    def connect(self, address: BmcAddress) -> 'RedfishConnection':
        """Log in.

        :raises BmcUnreachable: no answer. ``BmcUntrusted``: the certificate does not verify. ``BmcNotAuthorised``: wrong
            credentials. ``BmcAnswerInvalid``: no Redfish service there. ``UsageError``: the address is none.
        """
        connector = Connector(address, self._patience, self._dial)
        habits = self._remembered.of(address.address, lambda: Habits(pace=Pace(ceiling=max(1, address.concurrency))))
        habits.pace.bound(max(1, address.concurrency))
        connector.pushed_back = habits.pace.pushed_back
        connector.silent = habits.silent
        login = Login(address, habits.accounts.of(address.username, address.password))
        # One request at a time means one at a time: a fleet keeps to one connection for each BMC.
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
    """A session with one BMC."""

    lasts = True

    def __init__(
        self, address: BmcAddress, connector: Connector, login: Login, root: Document, habits: Habits, devices: Devices
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
        self._last: Reader | None = None
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
        """Let every read from now on fail at once, so that whoever looks comes to an end and logs out. From any thread."""
        self._connector.stop()

    def read_ahead(self, leads: Iterable[Lead | CardLead]) -> None:
        """Say, before a look, what is going to be read after it where an accelerator is found."""
        self._leads = tuple(leads)

    def look(self, now: datetime) -> Look:
        """Read everything about the BMC's accelerators.

        :raises BmcError: no answer, or neither Systems nor Chassis could be read.
        """
        self._learn()
        reader = self._last = self._reader()
        quirks = _quirks(View.of(self._root, []))
        walk = Walk(reader, self._root, quirks, self._devices, self._leads)
        reader.expect(self._habits.targets)
        tree = walk.run()
        found, platform = identify.identify(walk, self._devices)
        items = firmware.assign(walk, found, quirks)
        seen = invariants.Seen(
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
        named = self._named(walk)
        owners = ownership.ownership(walk, reader, self._devices, found, items, named)
        self._ownership = owners
        self._habits.alone = owners if len(owners.machines) < 2 else None
        home = self._system(tree, named, owners)
        accelerators = [
            self._accelerator(walk, device, owned, home, source)
            for device, owned, source in zip(found, items, identify.identities(found, self.address.name), strict=True)
        ]
        LOG.info('%s: %d accelerators, %d requests so far', self.address.label, len(found), self._connector.requests)
        infos: set[str] = set()
        return Look(
            facts=self._facts(tree, home, quirks, reader, infos),
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

    def _later(self, walk: Walk, reader: Reader, before: frozenset[str], infos: frozenset[str]) -> tuple[Gap, ...]:
        """Gaps of what was read since the look, which is locks: one that is linked and not there may be open.

        Where changes of settings are written is a place that locks guess where the BMC does not say it. An ActionInfo that is
        not there takes ResetTypes with it, and neither a device nor a lock.
        """
        known = {gap.ref.uri for gap in walk.gaps}
        gone = (uri for uri in reader.gone if uri not in known | walk.guessed and not uri.endswith('/Settings'))
        read = [document for uri, document in reader.documents.items() if uri not in before]
        name = self.address.name
        lost = [Gap(ref=Ref(bmc=name, uri=uri), reason=NOTHING, hides=uri not in infos) for uri in gone]
        odd = (*invariants.miscounted(read), *invariants.unlisted(read, walk.tree.items))
        return tuple(self._without_secrets([*lost, *odd]))

    def ownership(self) -> Ownership:
        """Whose the BMC's resources are. That it serves one machine only is remembered in this process.

        :raises BmcError: it could not be read.
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
        """Let the roots of trust of these devices sign what they run."""
        place = integrity.offered(View.of(self._root, []))
        if place is None:
            return ()
        # A reader of its own: what it reads is not what the next look needs.
        return integrity.measure(self._connector, self._reader(), place, accelerators, now, why_not)

    def glance(self, uris: Iterable[str], within: timedelta) -> Mapping[str, Document | BmcError]:
        """Read some resources again, with as few requests as possible."""
        address = replace(self.address, budget=within)
        reader = Reader(self._connector, address, self.session, self._habits, root=self._root, frugal=True)
        return glance.glance(reader, uris)

    def writer(self) -> Writer:
        """For locks and settings."""
        return Writer(self._connector, self.address.name, self.session)

    def component(self, ref: Ref) -> Component:
        """Read one SoftwareInventory now; of any other resource, the FirmwareVersion that it shows.

        :raises BmcError: it could not be read.
        """
        view = View.of(fresh(self._connector, ref.bmc, ref.uri), [])
        kind = view.body.get('@odata.type')
        if isinstance(kind, str) and not kind.startswith('#SoftwareInventory.') and not view.has('Version'):
            device = Device(pcie_devices={ref.uri: view})
            return own_version(device) or Component(id=None, ref=view.ref)
        return component(view)

    def may_write(self) -> None:
        """Which roles may do what is told by what a BMC lets us do: nothing is asked beforehand."""

    def judge(self, targets: Sequence[Ref], image: Image, upload: Upload) -> None:
        """Redfish does not tell what an image has to be: that shows when it is sent."""

    def push(self, target: Ref, upload: Upload) -> TaskReading | Objection | Progress | None:
        """Send an image to one Target, once. Where it has to be started after that, :meth:`go_on` does it.

        :raises BmcError: as the contract says.
        """
        copying = self._copies()
        if copying is not None:
            what = 'its root of trust copies an image in the background'
            raise BmcBusy(bmc=self.address.label, uri=copying, what=what)
        return update.push(self._connector, self._update_service(), target, upload, self.address.images)

    def _update_service(self) -> View | None:
        """The UpdateService as it is now; None where there is none.

        :raises BmcError: it could not be read.
        """
        link = View.of(self._root, []).link('UpdateService')
        return View.of(fresh(self._connector, self.address.name, link), []) if link is not None else None

    def go_on(self, target: Ref, upload: Upload, progress: Progress) -> TaskReading | Objection | None:
        """Start an update that was uploaded, and waits for that.

        :raises BmcError: as the contract says.
        """
        try:
            view = self._update_service()
        except BmcUnreachable as exc:
            raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=exc.what, hint=exc.hint, sent=False) from exc
        if view is None:
            raise BmcUnsupported(bmc=self.address.label, uri=target.uri, what='it has no UpdateService any more')
        return start_update.go_on(self._connector, view, progress, self.active_tasks)

    def deferred(self, task: Ref) -> Progress | None:
        """The turn that starts an update, where there is StartUpdate.

        :raises BmcError: it could not be asked.
        """
        view = self._update_service()
        return None if view is None else start_update.later(view, task)

    def task(self, ref: Ref) -> TaskReading:
        """Read one task.

        :raises BmcError: it could not be asked.
        """
        return task.read(self._connector, ref)

    def cancel(self, ref: Ref) -> None:
        """Ask for a task to be cancelled.

        :raises BmcUnsupported: the BMC does not. ``BmcError``: it was not accepted.
        """
        task.cancel(self._connector, ref)

    def active_tasks(self) -> Sequence[TaskReading]:
        """Tasks that still run; those that vanish while they are asked for do not.

        :raises BmcError: they could not be asked.
        """
        return tuple(t for t in self.tasks() if t.state is TaskState.ACTIVE)

    def tasks(self) -> Sequence[TaskReading]:
        """Tasks that the BMC shows, without those that vanish while they are asked for.

        :raises BmcError: they could not be asked.
        """
        root = View.of(self._root, [])
        service = root.link('Tasks') or root.link('TaskService')
        if service is None:
            return ()
        tasks = View.of(fresh(self._connector, self.address.name, service), []).link('Tasks')
        if tasks is None:
            return ()
        reader = self._reader()
        links = [m['@odata.id'] for m in members(reader.collection(tasks).body) if isinstance(m.get('@odata.id'), str)]
        places = []
        for link in links[-MAX_TASKS:]:
            with contextlib.suppress(BmcAnswerInvalid):
                places.append(reader.ref(link))  # a link off the BMC is no task of it
        found = [self._task_of(reader, place) for place in places]
        return tuple(t for t in found if t.state is not TaskState.GONE)

    def update_activity(self) -> UpdateActivity:
        """What the update service says of itself, in the standard's words or in an extension of its maker.

        A root of trust that copies its image in the background is busy, too.

        :raises BmcError: it could not be asked.
        """
        if self._copies():
            return UpdateActivity.BUSY
        root = View.of(self._root, [])
        link = root.link('UpdateService')
        said = None
        if link is not None:
            said = update.activity(View.of(fresh(self._connector, self.address.name, link), []))
        if said is not None:
            return said
        tasks = root.link('Tasks') or root.link('TaskService')
        return UpdateActivity.UNKNOWN if tasks is None else UpdateActivity.TOLD_BY_TASKS

    def _copies(self) -> str | None:
        """What copies an image in the background, read now: its path; None where nothing does, or none was seen that may."""
        self._note_copies()
        for uri in self._habits.copies:
            try:
                view = View.of(fresh(self._connector, self.address.name, uri), [])
            except BmcRefused as exc:
                if not exc.gone:
                    raise
                continue  # a card that is not there any more copies nothing
            if view.literal(*BACKGROUND_COPY) == 'InProgress':
                return uri
        return None

    def _note_copies(self) -> None:
        documents = {} if self._last is None else self._last.documents
        extended = {uri: View.of(one, []) for uri, one in documents.items() if BACKGROUND_COPY[0] in one.body}
        found = sorted(uri for uri, view in extended.items() if view.literal(*BACKGROUND_COPY) is not None)
        if found:
            self._habits.copies = tuple(found)

    def _task_of(self, reader: Reader, ref: Ref) -> TaskReading:
        """A task as its collection has just brought it; BMCs keep a hundred old ones. Else it is read."""
        document = reader.peek(ref.uri)
        view = View.of(document, []) if document is not None else None
        return task.reading(view) if view is not None and view.has('TaskState') else task.read(self._connector, ref)

    def power(self, system_ref: Ref) -> PowerState:
        """Power state of a System, read now.

        :raises BmcError: it could not be read.
        """
        return power_state(system.read(self._connector, system_ref))

    def set_power(self, system_ref: Ref, wanted: PowerState) -> Objection | None:
        """Ask for On or Off.

        :raises BmcError: it was not accepted.
        """
        return system.set_power(self._connector, system_ref, wanted)

    def reset(self, system_ref: Ref, kind: ResetKind) -> Objection | None:
        """Ask for a restart or a power cycle; for that of standby power, of whom the facts name for it.

        :raises BmcUnsupported: it offers none. ``BmcError``: it was not accepted.
        """
        if kind is ResetKind.AUX_POWER_CYCLE:
            return standby.cycle(self._connector, system_ref)
        return system.reset(self._connector, system_ref, kind)

    def offers_reset(self, system_ref: Ref, kind: ResetKind) -> bool:
        """A System takes a reset of that kind in one request.

        :raises BmcError: it could not be read.
        """
        return system.offers_reset(self._connector, system_ref, kind)

    def host(self, system_ref: Ref) -> HostReading:
        """Power state, LastResetTime and BootProgress of a System, of one read. The Manager is not asked: see :meth:`look`.

        :raises BmcError: it could not be read.
        """
        return system.host(system.read(self._connector, system_ref))

    def last_reset(self, system_ref: Ref) -> str | None:
        """LastResetTime as text.

        :raises BmcError: it could not be read.
        """
        return system.read(self._connector, system_ref).literal('LastResetTime')

    def managers(self) -> Sequence[ManagerReading]:
        """LastResetTime and DateTime of every Manager; none where there are so many that not all of them are read.

        :raises BmcError: one of them could not be read.
        """
        name = self.address.name
        link = View.of(self._root, []).link('Managers')
        if link is None:
            return ()
        body = fresh(self._connector, name, link).body
        links = [m.get('@odata.id') for m in members(body)]
        if not 0 < len(links) <= MAX_MANAGERS or 'Members@odata.nextLink' in body:
            return ()
        views = [View.of(fresh(self._connector, name, one), []) for one in links if isinstance(one, str)]
        return tuple(
            ManagerReading(ref=one.ref, last_reset=one.literal('LastResetTime'), time=one.literal('DateTime')) for one in views
        )

    def _learn(self) -> None:
        """Remember what the last look needed, the reading of its locks included."""
        if self._last is not None:
            self._note_copies()
            self._habits.targets = self._last.asked
            self._before = self._last.documents
            self._last = None

    def _without_secrets(self, gaps: Iterable[Gap]) -> list[Gap]:
        """Gaps in order, with no token in them that had not come yet when a BMC repeated it."""
        clean = {replace(g, reason=self._connector.redact(g.reason)) for g in gaps}
        return sorted(clean, key=lambda g: (g.ref, g.field or '', g.reason))

    def _reader(self) -> Reader:
        return Reader(self._connector, self.address, self.session, self._habits, root=self._root, before=self._before)

    def _accelerator(
        self,
        walk: Walk,
        device: Device,
        items: firmware.Items,
        home: Ref | None,
        identity: tuple[AcceleratorId, IdentitySource],
    ) -> Accelerator:
        kind = device.kind
        if kind is None:
            raise AssertionError('a device without a kind is no accelerator')
        primary = device.primary
        return Accelerator(
            id=identity[0],
            kind=kind,
            identity=identity[1],
            primary=primary.ref,
            refs=tuple(sorted(Ref(bmc=self.address.name, uri=uri) for uri in device.uris())),
            vendor=device.vendor(self._devices),
            model=device.model(self._devices),
            part_number=device.part_number,
            serial=device.serial,
            uuid=device.uuid,
            location=device.location,
            pci=device.pci,
            firmware=tuple(sorted(items.components, key=lambda c: (c.id or '', c.ref))),
            slots=firmware.slots(device, items, walk),
            functions=tuple(sorted(functions_of(device, walk.tree), key=lambda f: f.ref)),
            traits=device.traits(self._devices),
            system=home,
            health=device.health,
            health_rollup=device.health_rollup,
            state=device.state,
            merged_by=tuple(
                sorted(
                    MergeEvidence(basis=by.basis, refs=tuple(Ref(bmc=self.address.name, uri=uri) for uri in sorted(by.uris)))
                    for by in device.joints
                )
            ),
        )

    def _named(self, walk: Walk) -> str | None:
        """The URI of the System that the target names, by its URI or its Id; None where it names none, or none could be read.

        A System of another name is no reason to look at the wrong one, or to find nothing.

        :raises BmcAnswerInvalid: there are Systems, and none that is listed has the name, or several have.
        """
        tree, given = walk.tree, self.address.system
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
            bmc=self.address.label,
            uri=meant[0] if len(meant) == 1 else place,
            what=f'{"several Systems may be meant" if many else "no System is there"} by {short(given)}; there are: {there}',
            hint='name one of them by its URI (system)' if many else 'name one of them (system), by its URI or its Id',
        )

    def _system(self, tree: Tree, named: str | None, owners: Ownership) -> Ref | None:
        """The System that is handed out: the one that was named, else the only one that can be reset and is no card's own."""
        name = self.address.name
        if named is not None:
            wanted = Ref(bmc=name, uri=named)
            if wanted.uri not in tree.systems:
                tree.gaps.append(Gap(ref=wanted, reason='the System that was named could not be read', hides=True))
            return wanted
        if self.address.system is not None:
            place = Ref(bmc=name, uri=f'{ROOT}/Systems')
            tree.gaps.append(Gap(ref=place, reason='the System that was named could not be read', hides=True))
            return None
        candidates = handed_out(tree)
        if len(candidates) == 1:
            return candidates[0].ref
        reason = f'{len(candidates)} of {len(tree.systems)} Systems may be the one that is handed out: name it (key system)'
        tree.gaps.append(Gap(ref=Ref(bmc=name, uri=f'{ROOT}/Systems'), reason=reason, hides=len(owners.machines) > 1))
        return None

    def _facts(self, tree: Tree, home: Ref | None, quirks: Quirks, reader: Reader, infos: set[str]) -> BmcFacts:
        """:param infos: gets the places of the ActionInfos that were asked for."""

        def info(uri: str) -> Document:
            infos.add(reader.place(uri))
            return reader.get(uri)

        parallel = self.address.parallel_updates or quirks.updates_at_once()
        provider = tree.root.link('Links', 'ManagerProvidingService')
        manager = tree.managers.get(provider or '') or (next(iter(tree.managers.values())) if len(tree.managers) == 1 else None)
        view = tree.systems.get(home.uri) if home is not None else None
        host = system.host(view) if view is not None else HostReading(power=PowerState.UNKNOWN)
        own = self._own_manager(tree, view, reader)
        alone = len(handed_out(tree)) < 2
        return BmcFacts(
            name=self.address.name,
            address=self.address.address,
            session=self.session,
            product=tree.root.text('Product'),
            firmware_version=manager.literal('FirmwareVersion') if manager is not None else None,
            update=self._update_facts(tree, max(1, parallel)),
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

    def _own_manager(self, tree: Tree, home: View | None, reader: Reader) -> View | None:
        """The Manager that answers us: that of the service, else the only one that manages the System.

        It is read as locks read Managers, so that whoever reads locks after this look asks for nothing twice. That it cannot be
        read hides no device.
        """
        own = own_manager(tree.root, home)
        if own is None:
            return None
        try:
            root = View(tree.root.ref, tree.root.body, [])
            reader.collection(root.link('Managers') or f'{ROOT}/Managers')
            return View.of(reader.get(own), [])
        except BmcError as exc:
            LOG.info('%s', exc)
            return None

    def _update_facts(self, tree: Tree, parallel: int) -> UpdateFacts | None:
        if tree.update is None:
            return None
        return update.facts(tree.update, parallel, self.address.images)


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
    """The session collection; None when the BMC has no sessions."""
    view = View.of(root, [])
    service = view.link('SessionService')
    return view.link('Links', 'Sessions') or (f'{service.rstrip("/")}/Sessions' if service else None)


def _quirks(root: View) -> Quirks:
    oem = root.part('Oem')
    return Quirks(
        vendor=root.text('Vendor'), product=root.text('Product'), oem=frozenset(oem.body) if oem is not None else frozenset()
    )

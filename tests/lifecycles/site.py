# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Let our own code read an emulated machine without HTTP: the same resources, rendered in the test's process.

The emulator's machine holds the true state; its views render what each BMC shows of it, false reports of faults included. The
mechanisms of :mod:`baremetal_acc.locks` read and write here the same as over HTTP. Only the result of the Redfish driver's
parsers for Processor, Chassis and SoftwareInventory is made here by hand, in a few lines.
"""

import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from baremetal_acc.bmc.driver import Accepted, BmcAddress, Document, Look
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters, ProductParameters
from baremetal_acc.emulator.image import EmulatedImage as Brought
from baremetal_acc.emulator.image import ImageFormat as Holds
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import EmulatedTaskState as Emulated
from baremetal_acc.emulator.parts import Power, WriteRefused
from baremetal_acc.emulator.redfish.errors import registry_message
from baremetal_acc.emulator.redfish.resource import Resource
from baremetal_acc.emulator.response_faults import other_unit
from baremetal_acc.emulator.service import Service, ServiceRequest
from baremetal_acc.errors import BmcBusy, BmcRefused, BmcUnreachable
from baremetal_acc.model.accelerator import Accelerator, Function, IdentitySource, Kind, PciIds, ReconfigurationSlot
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Upload
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
from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.ref import HOST, AcceleratorId, BmcName, Ref

START = datetime(2026, 11, 22, tzinfo=UTC)

_POWER = {
    Power.ON: PowerState.ON,
    Power.OFF: PowerState.OFF,
    Power.POWERING_ON: PowerState.POWERING_ON,
    Power.POWERING_OFF: PowerState.POWERING_OFF,
}

_RESETS = {ResetKind.SYSTEM_RESET: 'ForceRestart', ResetKind.POWER_CYCLE: 'PowerCycle'}

_TASKS = {
    Emulated.NEW: TaskState.ACTIVE,
    Emulated.PENDING: TaskState.ACTIVE,
    Emulated.SCHEDULED: TaskState.ACTIVE,
    Emulated.RUNNING: TaskState.ACTIVE,
    Emulated.COMPLETED: TaskState.SUCCEEDED,
    Emulated.EXCEPTION: TaskState.FAILED,
    Emulated.CANCELLED: TaskState.FAILED,
}


_MOMENT = 1e-6
"""Seconds: more than a sum of such numbers is off by."""

_PARTS = ('PCIeDevice', 'NetworkAdapter', 'Drive')
"""Resources that are the card, too."""


@dataclass(frozen=True)
class Card:
    """What never changes of one card: where it is shown.

    :ivar device: the machine's own name for it.
    """

    device: str
    bmc: BmcName
    kind: Kind
    primary: str
    identity: str
    refs: tuple[str, ...]
    firmware: tuple[str, ...]
    slots: tuple[str, ...]
    pci: PciIds


@dataclass
class Site:
    """One machine, which can begin anew again and again: building it takes longer than a life.

    :ivar away: BMCs that do not answer, until when.
    :ivar jumped: by how much the conductor's clock is wrong.
    :ivar cut: writes to come that arrive, and whose answer does not. ``deaf``: changes of power to come that are ignored.
    :ivar writes: when each lock was written, by the key of its setting, in the order of time.
    :ivar wrong: what our own code did and must not do, whatever happens around it.
    :ivar held: our own code has promised to keep the host off while anything is open.
    :ivar skips: the BMC does not write an image of the version that is there, and says at once that it is done.
    :ivar tells_bmc_reset: the BMC keeps Manager.LastResetTime; ``tells_last_reset``: ComputerSystem.LastResetTime.
    :ivar accepts: how long after a change of a setting the BMC, which has accepted it, carries it out; 0: before it answers.
    :ivar promised: the changes that were accepted and are to be carried out, with the time of each and its BMC.
    :ivar sent: when an image was last sent to each component, by its key.
    :ivar meanwhile: called after whatever has happened in the machine, and after each write of ours.
    """

    product: ProductParameters
    away: dict[str, float] = field(default_factory=dict)
    jumped: timedelta = timedelta(0)
    cut: int = 0
    deaf: int = 0
    held: bool = False
    skips: bool = False
    tells_bmc_reset: bool = True
    tells_last_reset: bool = True
    accepts: float = 0.0
    promised: list[tuple[float, str, Callable[[], None]]] = field(default_factory=list)
    sent: dict[str, float] = field(default_factory=dict)
    meanwhile: Callable[[], None] = lambda: None
    writes: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    sessions: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def of(cls, name: str, **parameters: Any) -> 'Site':
        """A new one of that product."""
        times = {'flash_seconds': 60.0, 'reset_seconds': 20.0, 'bmc_reset_seconds': 40.0}
        return cls(build(name, Parameters(virtual_clock=True, **times, **parameters)))

    def __post_init__(self) -> None:
        machine = self.machine
        self._first = machine.dump()
        self.services = {name: Service(view, no_auth=True) for name, view in self.product.views.items()}
        self._resources = {name: view.tree.snapshot() for name, view in self.product.views.items()}
        self.cards = tuple(self._cards())
        self.by_uri = {(c.bmc, c.uri): c for c in machine.components.values()}

    @property
    def machine(self) -> Machine:
        return self.product.machine

    def begin(self) -> None:
        """The machine as it was when it was new."""
        machine = self.machine
        machine.clock = EmulatedClock(virtual=True, start=START)
        machine.faults.remove()
        machine.load(self._first)
        machine.cut_writes.clear()
        for bmc in machine.bmcs.values():
            bmc.reserved.clear()
            bmc.down_until = None
        self.away, self.jumped, self.cut, self.deaf, self.held = {}, timedelta(0), 0, 0, False
        self.writes, self.wrong, self.sessions = [], [], itertools.count()
        self.skips, self.tells_bmc_reset, self.tells_last_reset = False, True, True
        self.accepts, self.promised = 0.0, []
        self.sent, self.meanwhile = {}, lambda: None

    # -------------------------------------------------------------------------------------------------------------- time

    @property
    def now(self) -> datetime:
        """What the conductor's clock says."""
        return START + timedelta(seconds=self.machine.clock.now()) + self.jumped

    def go_on(self, time: timedelta) -> None:
        """Let time pass, from one thing that happens in the machine to the next."""
        machine, clock = self.machine, self.machine.clock
        end = clock.now() + time.total_seconds()
        self.meanwhile()
        while (due := self._next_due()) is not None and clock.now() + due <= end:
            clock.advance(due + _MOMENT)
            machine.settle()
            self._carry_out()
            self.meanwhile()
        clock.advance(max(0.0, end - clock.now()))
        machine.settle()
        self.meanwhile()

    def _next_due(self) -> float | None:
        """Seconds until something happens, in the machine or to a setting."""
        changes = [max(0.0, at - self.machine.clock.now()) for at, _, _ in self.promised]
        return min([due for due in (self.machine.next_due(), *changes) if due is not None], default=None)

    def _carry_out(self) -> None:
        """What was accepted, and is due."""
        now = self.machine.clock.now()
        due = [do for at, _, do in self.promised if at <= now]
        self.promised = [one for one in self.promised if one[0] > now]
        for do in due:
            do()

    # ------------------------------------------------------------------------------------------------------------- cards

    def _cards(self) -> Iterator[Card]:
        machine = self.machine
        for device in dict.fromkeys(c.device for c in machine.components.values() if c.device):
            own = [c for c in machine.components.values() if c.device == device]
            bmc = own[0].bmc
            shown = [r for r in self._resources[bmc].values() if r.device == device]
            bodies = {r.uri: self.body(bmc, r) for r in shown}
            by_type = {
                kind: [uri for uri, body in bodies.items() if str(body['@odata.type']).startswith(f'#{kind}.')]
                for kind in ('Processor', 'PCIeDevice', 'Chassis', 'PCIeFunction', 'NetworkAdapter', 'Drive')
            }
            main = by_type['Processor']
            kind = Kind(bodies[main[0]]['ProcessorType']) if main else Kind.DPU
            system = self.product.systems[bmc]
            primary = main[0] if main else system
            named = [link['@odata.id'] for uri in main for link in _chassis(bodies[uri])]
            boards = [uri for uri in by_type['Chassis'] if uri in named or (not main and bodies[uri]['ChassisType'] == 'Card')]
            ids = bodies[by_type['PCIeFunction'][0]] if by_type['PCIeFunction'] else {}
            yield Card(
                device=device,
                bmc=BmcName(bmc),
                kind=kind,
                primary=primary,
                identity=main[0] if main else boards[0],
                refs=tuple(sorted({primary, *main, *boards, *(u for kind in _PARTS for u in by_type[kind])})),
                firmware=tuple(c.uri for c in own if c.kind is Holds.FIRMWARE),
                slots=tuple(c.uri for c in own if c.kind is Holds.FUNCTION),
                pci=PciIds(vendor_id=ids.get('VendorId'), device_id=ids.get('DeviceId')),
            )

    def resource(self, bmc: str, uri: str) -> Resource | None:
        """What is there now."""
        found = self._resources[bmc].get(uri)
        if found is None or (found.device is not None and self.gone(bmc, found.device)):
            return None
        return found

    def gone(self, bmc: str, device: str) -> bool:
        """A fault has taken the device away."""
        return self.machine.faults.any('device-absent') and self.product.views[bmc].is_absent(device)

    def body(self, bmc: str, resource: Resource) -> dict[str, Any]:
        """What a BMC shows of a resource. Without the ETag, which takes longer than all the rest."""
        body: dict[str, Any] = {'@odata.id': resource.uri, '@odata.type': resource.type, **resource.render()}
        if resource.members is not None:
            body['Members'] = [{'@odata.id': uri} for uri in resource.members() if self.resource(bmc, uri) is not None]
        if resource.actions:
            body['Actions'] = dict(body.get('Actions', {})) | {a.name: a.describe() for a in resource.actions}
        faults = self.machine.faults
        if faults.any('lock-unread'):
            places = (resource.uri, resource.uri.removesuffix('/Settings'))
            for setting in self.machine.settings.values():
                if setting.is_lock and setting.bmc == bmc and setting.uri in places:
                    where = {'bmc': bmc, 'device': setting.device, 'uri': setting.uri, 'use': False}
                    if faults.find('lock-unread', **where) is not None:
                        body['@Message.ExtendedInfo'] = [registry_message('Base', 'InternalError')]
        if resource.device is not None and faults.any('card-exchanged'):
            where = {'bmc': bmc, 'device': resource.device, 'uri': resource.uri, 'method': 'GET'}
            if faults.find('card-exchanged', **where) is not None:
                body = other_unit(body)
        return body

    def reach(self, bmc: str) -> None:
        """Let what is due happen, then speak to a BMC.

        :raises BmcUnreachable: it does not answer.
        """
        self.machine.settle()
        if self.machine.is_bmc_down(bmc) or self.away.get(bmc, -1.0) > self.machine.clock.now():
            raise BmcUnreachable(bmc=BmcName(bmc), what='connection refused')

    def owner(self, bmc: str, uri: str) -> Resource | None:
        """The resource that is written at a URI: itself, or that of the action."""
        found = self.resource(bmc, uri)
        return found or next((r for r in self._resources[bmc].values() if any(a.target == uri for a in r.actions)), None)

    def locks(self, bmc: str, resource: Resource | None) -> dict[str, object]:
        """The locks that a write to a resource may be meant for, and their values."""
        if resource is None:
            return {}
        near = {resource.uri, resource.uri.removesuffix('/Settings'), resource.uri.removesuffix('/Bios/Settings')}
        return {
            s.key: s.value
            for s in self.machine.settings.values()
            if s.is_lock and s.bmc == bmc and (s.uri in near or (s.device is not None and s.device == resource.device))
        }

    def written(self, before: Mapping[str, object]) -> None:
        """Our own code has written to settings, or has been promised that: note which locks, and whether that was allowed."""
        self.writes += [(self.machine.clock.now(), key) for key in before]
        self.opened(before, asked_off=self.is_off)

    @property
    def is_off(self) -> bool:
        """The host is."""
        return self.machine.systems['host'].power is Power.OFF

    def opened(self, before: Mapping[str, object], *, asked_off: bool) -> None:
        """What our own code has asked for was carried out.

        :param asked_off: the host was off when it was asked for. A host that wakes before a slow BMC has carried it out nobody
            can hold back: that the job meets it, and trusts the card no more, is what counts.
        """
        for key, value in before.items():
            setting = self.machine.settings[key]
            if self.held and not asked_off and value == setting.locked != setting.value:
                self.wrong.append(f'{key} was opened while the host was not off')

    def connect(self, address: BmcAddress) -> 'Connection':
        """For :class:`baremetal_acc.execution.Tools`."""
        return Connection(self, address)


def _chassis(body: Mapping[str, Any]) -> list[Any]:
    link = body.get('Links', {}).get('Chassis', [])
    return link if isinstance(link, list) else [link]


class Reader:
    """Reads and writes resources of one BMC; as a reader it remembers what it has read."""

    def __init__(self, site: Site, name: BmcName, session: str) -> None:
        self.site, self.name, self.session = site, name, session
        self.accepted: list[Accepted] = []
        self.unconditional: list[Ref] = []
        self.objections: list[Objection] = []
        self._read: dict[str, Document] = {}

    def get(self, uri: str) -> Document:
        bare = uri.partition('#')[0].rstrip('/')
        if bare not in self._read:
            self._read[bare] = self.fresh(bare)
        return self._read[bare]

    def collection(self, uri: str) -> Document:
        """It has one page."""
        return self.get(uri)

    def peek(self, uri: str) -> Document | None:
        return self._read.get(uri.partition('#')[0].rstrip('/'))

    def fresh(self, uri: str) -> Document:
        self.site.reach(self.name)
        found = self.site.resource(self.name, uri)
        if found is None:
            raise HttpRefused(bmc=self.name, uri=uri, what='no such resource (HTTP 404)', status=404)
        self._fault(found, 'GET')
        return Document(ref=Ref(bmc=self.name, uri=uri), body=self.site.body(self.name, found), etag=None)

    def _fault(self, resource: Resource, method: str) -> None:
        faults = self.site.machine.faults
        if not faults.any('http-status'):
            return
        where = {'bmc': self.name, 'device': resource.device, 'uri': resource.uri, 'method': method}
        rule = faults.find('http-status', **where)
        if rule is not None:
            status = int(rule.parameters['status'])
            raise HttpRefused(bmc=self.name, uri=resource.uri, what=f'refused (HTTP {status})', status=status)

    def patch(self, document: Document, body: Mapping[str, Any]) -> None:
        site, uri = self.site, document.ref.uri
        if not site.accepts:
            self._write('PATCH', uri, body)
            return
        site.reach(self.name)
        resource = site.owner(self.name, uri)
        if resource is not None:
            self._fault(resource, 'PATCH')
        if any(bmc == self.name for _, bmc, _ in site.promised):
            raise HttpRefused(bmc=self.name, uri=uri, what='another change is carried out (HTTP 400)', status=400)
        site.written(site.locks(self.name, resource))
        asked_off = site.is_off
        change = lambda: self._promised(uri, body, asked_off=asked_off)  # noqa: E731
        site.promised.append((site.machine.clock.now() + site.accepts, self.name, change))
        self.accepted.append(Accepted(ref=Ref(bmc=self.name, uri=uri)))
        self._answer(uri)

    def _promised(self, uri: str, body: Mapping[str, Any], *, asked_off: bool) -> None:
        """Carry out a change; nobody is told whether that has worked."""
        before = self.site.locks(self.name, self.site.owner(self.name, uri))
        self.site.services[self.name].reply(ServiceRequest(method='PATCH', path=uri, body=json.dumps(body).encode()))
        self.site.opened(before, asked_off=asked_off)

    def post(self, uri: str, body: Mapping[str, Any]) -> None:
        self._write('POST', uri, body)

    def _write(self, method: str, uri: str, body: Mapping[str, Any]) -> None:
        """As the emulator's own service takes it: licences, lockdowns and all."""
        self.site.reach(self.name)
        resource = self.site.owner(self.name, uri)
        if resource is not None:
            self._fault(resource, method)
        before = self.site.locks(self.name, resource)
        reply = self.site.services[self.name].reply(ServiceRequest(method=method, path=uri, body=json.dumps(body).encode()))
        if reply.status >= HTTPStatus.BAD_REQUEST:
            raise HttpRefused(bmc=self.name, uri=uri, what=f'refused (HTTP {reply.status})', status=reply.status)
        self.site.written(before)
        self.site.meanwhile()
        self._answer(uri)

    def _answer(self, uri: str) -> None:
        """The answer to a write, which may be lost."""
        if self.site.cut:
            self.site.cut -= 1
            raise BmcUnreachable(bmc=self.name, uri=uri, what='cut')


class Connection:
    """A session with one BMC of a site."""

    def __init__(self, site: Site, address: BmcAddress) -> None:
        self.site, self.address, self.bmc = site, address, address.name
        site.reach(self.bmc)
        self.session = f's{next(site.sessions)}'

    def __enter__(self) -> 'Connection':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""

    def look(self, now: datetime) -> Look:
        reader = Reader(self.site, self.bmc, self.session)
        machine = self.site.machine
        self.site.reach(self.bmc)
        system = Ref(bmc=self.bmc, uri=self.site.product.systems[self.bmc])
        facts = BmcFacts(
            name=self.bmc,
            address=self.address.address,
            session=self.session,
            update=UpdateFacts(push=True, pull=False, parallel=machine.bmcs[self.bmc].parallel_updates),
            system=system,
            power=self.power(system),
            last_reset=self.last_reset(system),
            bmc_reset=machine.clock.wall(machine.bmcs[self.bmc].last_reset) if self.site.tells_bmc_reset else None,
        )
        gaps: list[Gap] = []
        cards = []
        for card in self.site.cards:
            if card.bmc == self.bmc and not self.site.gone(self.bmc, card.device):
                try:
                    cards.append(self._accelerator(card, reader, gaps))
                except BmcRefused as exc:
                    gaps.append(Gap(ref=Ref(bmc=self.bmc, uri=card.primary), reason=exc.what, hides=True))
        return Look(
            facts=facts,
            accelerators=tuple(cards),
            platform_devices=(),
            gaps=tuple(gaps),
            reader=reader,
            ownership=self.ownership(),
        )

    def ownership(self) -> Ownership:
        """Each BMC serves one machine."""
        return Ownership(machines=frozenset({self.site.product.systems[self.bmc]}))

    def _accelerator(self, card: Card, reader: Reader, gaps: list[Gap]) -> Accelerator:
        def here(uri: str) -> Ref:
            return Ref(bmc=self.bmc, uri=uri)

        def item(uri: str) -> Component:
            try:
                return self._component(uri, reader)
            except BmcRefused as exc:
                gaps.append(Gap(ref=here(uri), field='Version', reason=exc.what))
                return Component(id=uri.rsplit('/', 1)[1], ref=here(uri), version=None)

        body = reader.get(card.primary).body
        own = reader.get(card.identity).body
        uuid, serial = own.get('UUID'), own.get('SerialNumber')
        return Accelerator(
            id=AcceleratorId(f'uuid:{uuid}' if uuid else f'serial:{serial}'),
            kind=card.kind,
            identity=IdentitySource.UUID if uuid else IdentitySource.SERIAL,
            primary=here(card.primary),
            refs=tuple(here(uri) for uri in card.refs),
            vendor=body.get('Manufacturer'),
            model=body.get('Model'),
            part_number=body.get('PartNumber'),
            serial=serial,
            uuid=uuid,
            pci=card.pci,
            firmware=tuple(item(uri) for uri in card.firmware),
            slots=tuple(self._slots(card, body, item)),
            system=here(self.site.product.systems[self.bmc]),
        )

    def _component(self, uri: str, reader: Reader) -> Component:
        body = reader.get(uri).body
        staged = body.get('Oem', {}).get('Nvidia', {}).get('InactiveFirmwareSlot', {})
        # Only some items show what is staged; the others show it by what a restart makes of them.
        is_staged = staged.get('FirmwareState') == 'Staged'
        return Component(
            id=body['Id'],
            ref=Ref(bmc=self.bmc, uri=uri),
            version=body['Version'].strip() or None,
            staged=staged['Version'] if is_staged else None,
            updateable=body['Updateable'],
            software_id=body.get('SoftwareId'),
            write_protected=body.get('WriteProtected'),
        )

    def _slots(self, card: Card, body: Mapping[str, Any], item_at: Callable[[str], Component]) -> Iterator[ReconfigurationSlot]:
        for n, slot in enumerate(body.get('FPGA', {}).get('ReconfigurationSlots', ())):
            link = (slot.get('AccelerationFunction') or {}).get('@odata.id')
            item = item_at(card.slots[n])
            function = None
            if link is not None:
                function = Function(ref=Ref(bmc=self.bmc, uri=link), id=link.rsplit('/', 1)[-1], version=item.version)
            yield ReconfigurationSlot(
                slot_id=slot['SlotId'],
                index=n,
                uuid=slot.get('UUID'),
                programmable_from_host=slot.get('ProgrammableFromHost'),
                function=function,
                item=item,
            )

    def writer(self) -> Reader:
        return Reader(self.site, self.bmc, self.session)

    def component(self, ref: Ref) -> Component:
        return self._component(ref.uri, self.writer())

    def push(self, target: Ref, upload: Upload) -> TaskReading | None:
        self.site.reach(self.bmc)
        machine, component = self.site.machine, self.site.by_uri[self.bmc, target.uri]
        if self.site.held and machine.systems['host'].power is not Power.OFF:
            self.site.wrong.append(f'{component.key} was sent {upload.file} while the host was not off')
        if machine.lockdown(self.bmc) is not None:
            raise HttpRefused(bmc=self.bmc, uri=target.uri, what='in lockdown (HTTP 403)', status=403)
        if machine.faults.find('update-503', bmc=self.bmc, device=component.device, uri=target.uri) is not None:
            raise BmcBusy(bmc=self.bmc, what='come back later (HTTP 503)')
        if self.site.gone(self.bmc, component.device):
            raise HttpRefused(bmc=self.bmc, uri=target.uri, what='no such item (HTTP 400)', status=400)
        try:
            task = machine.begin_update(self.bmc, [component.key])
        except WriteRefused as exc:
            raise BmcBusy(bmc=self.bmc, what=str(exc)) from exc
        with upload.open() as stream:
            kind, device, name, version, security = stream.read().decode().split('\n')
        brought = Brought(
            kind=Holds(kind),
            device=device,
            component=name,
            version=version,
            security_version=int(security),
            payload_bytes=3,
            digest=digest_of(device, name, version),
            function=version if kind == Holds.FUNCTION else None,
        )
        self.site.sent[component.key] = machine.clock.now()
        if self.site.skips and component.active is not None and component.active.version == version:
            task.state, task.ended = Emulated.COMPLETED, machine.clock.now()
        else:
            machine.image_arrived(task, brought)
        self.site.meanwhile()
        if self.site.cut:
            self.site.cut -= 1
            raise BmcUnreachable(bmc=self.bmc, what='cut')
        return self.task(Ref(bmc=self.bmc, uri=f'/redfish/v1/TaskService/Tasks/{task.id}'))

    def cancel(self, ref: Ref) -> None:
        self.site.reach(self.bmc)
        task = self.site.machine.bmcs[self.bmc].tasks.get(int(ref.uri.rsplit('/', 1)[1]))
        if task is not None and task.is_open:
            self.site.machine.cancel(task)

    def task(self, ref: Ref) -> TaskReading:
        self.site.reach(self.bmc)
        task = self.site.machine.bmcs[self.bmc].tasks.get(int(ref.uri.rsplit('/', 1)[1]))
        if task is None or task.gone:
            return TaskReading(ref=ref, state=TaskState.GONE, raw='')
        state = _TASKS[task.state]
        if task.status == 'Critical':
            state = TaskState.FAILED
        return TaskReading(ref=ref, state=state, raw=task.state.value, percent=self.site.machine.percent(task))

    def active_tasks(self) -> list[TaskReading]:
        return [r for r in self.tasks() if r.state is TaskState.ACTIVE]

    def tasks(self) -> list[TaskReading]:
        self.site.reach(self.bmc)
        machine = self.site.machine
        found = []
        for number, task in machine.bmcs[self.bmc].tasks.items():
            if not task.gone:
                reading = self.task(Ref(bmc=self.bmc, uri=f'/redfish/v1/TaskService/Tasks/{number}'))
                found.append(replace(reading, is_update=True, started=machine.clock.wall(task.created)))
        return found

    def update_activity(self) -> UpdateActivity:
        self.site.reach(self.bmc)
        return UpdateActivity.TOLD_BY_TASKS

    def _system(self, ref: Ref) -> Any:
        self.site.reach(self.bmc)
        return next(s for s in self.site.machine.systems.values() if (s.bmc, s.uri) == (ref.bmc, ref.uri))

    def offers_reset(self, _system: Ref, _kind: ResetKind) -> bool:
        return True

    def power(self, system: Ref) -> PowerState:
        return _POWER[self._system(system).power]

    def _reset(self, system: Ref, word: str) -> None:
        name, cut = self._system(system).name, len(self.site.machine.cut_writes)
        if self.site.deaf:
            self.site.deaf -= 1
            return
        try:
            self.site.machine.reset_system(name, word)
        except WriteRefused as exc:
            raise BmcBusy(bmc=self.bmc, what=str(exc)) from exc
        self.site.meanwhile()
        if len(self.site.machine.cut_writes) > cut:
            self.site.wrong.append(f'{name}: {word} under a write: {self.site.machine.cut_writes[-1]}')
        if self.site.cut:
            self.site.cut -= 1
            raise BmcUnreachable(bmc=self.bmc, what='cut')

    def set_power(self, system: Ref, wanted: PowerState) -> None:
        self._reset(system, 'On' if wanted is PowerState.ON else 'ForceOff')

    def reset(self, system: Ref, kind: ResetKind) -> None:
        if kind in _RESETS:
            self._reset(system, _RESETS[kind])
        else:
            self.site.reach(self.bmc)
            self.site.machine.reset_bmc(self.bmc)

    def may_write(self) -> None:
        self.site.reach(self.bmc)

    def host(self, system: Ref) -> HostReading:
        return HostReading(power=self.power(system), last_reset=self.last_reset(system))

    def managers(self) -> tuple[ManagerReading, ...]:
        self.site.reach(self.bmc)
        if not self.site.tells_bmc_reset:
            return ()
        clock, ref = self.site.machine.clock, Ref(bmc=self.bmc, uri='/redfish/v1/Managers/BMC')
        reset = self.site.machine.bmcs[self.bmc].last_reset
        return (ManagerReading(ref=ref, last_reset=clock.wall(reset), time=clock.wall()),)

    def last_reset(self, system: Ref) -> str | None:
        self.site.reach(self.bmc)
        if not self.site.tells_last_reset:
            return None
        found = [s for s in self.site.machine.systems.values() if (s.bmc, s.uri) == (system.bmc, system.uri)]
        at = found[0].last_reset if found else self.site.machine.bmcs[self.bmc].last_reset
        return self.site.machine.clock.wall(at)


def bytes_of(kind: Holds, device: str, component: str, version: str, security: int) -> bytes:
    """What stands for an image here: the machine judges what an image says of itself."""
    return f'{kind}\n{device}\n{component}\n{version}\n{security}'.encode()


def digest_of(device: str, component: str, version: str) -> str:
    """The digest that the machine has of what an image of ours leaves in a component."""
    return f'{device}/{component}/{version}'


def upload(name: str, data: bytes) -> Upload:
    """An image to send."""
    return Upload(file=name, size_bytes=len(data), open=lambda: io.BytesIO(data))


__all__ = ['HOST', 'START', 'Card', 'Connection', 'Reader', 'Site', 'bytes_of', 'digest_of', 'upload']

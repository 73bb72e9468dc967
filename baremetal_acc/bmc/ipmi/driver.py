# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""IPMI driver: connect to a BMC, inspect its cards, update HPM.1 components, control power, and restart machine and BMC.

What hardware: any BMC with IPMI 2.0 over LAN whose SDR locators list the boards; boards behind other controllers over one or
two bridges.

How it is found: by the scheme of the BMC's address, ``ipmi``.

What it can do: inspect a machine, read and write HPM.1 components, read and set the power state, restart machine and BMC.

Which write paths it blocks: none; it lets the lock ``ipmi_firmware_firewall`` read and write the firmware firewall.

How an update behaves: the image is uploaded in turns and activated while the caller waits; then the outcome is read
(:mod:`baremetal_acc.bmc.ipmi.update`).

What it was tried on: our emulator, and OpenIPMI's ipmi_sim; no hardware.

The driver reads, and sends Chassis Control, with operator privilege. It writes firmware and the firmware firewall, and restarts
a BMC, with administrator privilege in a separate session. Reads that are refused to an operator are repeated as administrator,
if the account may have that privilege.
"""

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from baremetal_acc.bmc import device_ids as table
from baremetal_acc.bmc import stopping
from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import BmcAddress, Document, JsonObject, Look, Upload
from baremetal_acc.bmc.ipmi import chassis, device, endpoint, fru, inventory, resource, update, users
from baremetal_acc.bmc.ipmi.command import CommandRefused, CompletionCode, NetFn, Raw, ask
from baremetal_acc.bmc.ipmi.device import Path, bridged
from baremetal_acc.bmc.ipmi.documents import IpmiReader, IpmiWriter, no_such, observed_firewall
from baremetal_acc.bmc.ipmi.endpoint import LoginPrivilege
from baremetal_acc.bmc.ipmi.firmware_firewall import apply, masks
from baremetal_acc.bmc.ipmi.hpm import commands, compatibility
from baremetal_acc.bmc.ipmi.node_busy_retry import NodeBusyRetry
from baremetal_acc.bmc.ipmi.privileged import Privileged
from baremetal_acc.bmc.ipmi.resource import ControllerAddress, MachinePart
from baremetal_acc.bmc.ipmi.session import RmcpSessions
from baremetal_acc.errors import BmcBusy, BmcError, BmcRefusalReason, BmcRefused, BmcUnreachable, BmcUnsupported, UsageError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, UploadProgress
from baremetal_acc.model.inventory import (
    BmcFacts,
    Gap,
    HostReading,
    ManagerReading,
    PowerState,
    TaskReading,
    TaskState,
    UpdateActivity,
)
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.model.measurement import MeasurementReading, SignedMeasurements
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

_CHASSIS_CONTROL, _COLD_RESET = 0x02, 0x02
_CONTROL = {PowerState.OFF: 0x00, PowerState.ON: 0x01, ResetKind.POWER_CYCLE: 0x02, ResetKind.SYSTEM_RESET: 0x03}
"""Data byte of Chassis Control. Source: IPMI 2.0 revision 1.1, section 28.3."""


class IpmiDriver:
    """Driver of the entry point ``ipmi``: connects to BMCs over IPMI 2.0 LAN."""

    protocol = 'ipmi'

    def __init__(self, devices: Devices | None = None) -> None:
        """Create the driver.

        :param devices: the device table; the shipped one when None.
        """
        self._devices = devices

    def connect(self, address: BmcAddress) -> 'IpmiConnection':
        """Log in.

        :raises BmcUnreachable: no answer.
        :raises BmcNotAuthorised: wrong credentials.
        :raises BmcUnsupported: the BMC does not offer the cipher suite, or no IPMI 2.0.
        :raises BmcBusy: the BMC has no free session.
        :raises UsageError: the address is invalid, or no session could be opened with these credentials.
        """
        where = place_of(address)
        raw = RmcpSessions(where, LoginPrivilege.OPERATOR)
        raw.ready()
        return IpmiConnection(address, where, raw, self._devices)


def place_of(address: BmcAddress) -> endpoint.Endpoint:
    """The IPMI endpoint of a BMC, from its address.

    :raises UsageError: no session could be opened with that address or these credentials.
    """
    try:
        parts = urlsplit(address.address)
        host, port = parts.hostname, parts.port or endpoint.PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.path.strip('/'):
        raise UsageError(
            argument=f'address of BMC {address.name}', what='it is no address of IPMI', hint='write it as ipmi://HOST[:PORT]'
        )
    found = endpoint.place(
        address.label,
        host,
        port=port,
        username=address.username or '',
        password=address.password or '',
        suite=address.cipher_suite,
        key=address.key,
        answer=min(address.timeout, endpoint.ANSWER),
        login=min(address.timeout, endpoint.LOGIN),
    )
    return replace(found, set_by=address.set_by)


class IpmiConnection:
    """Connection to one BMC. It logs in again after the session has idled, or after the BMC has restarted."""

    lasts = False  # BMCs end an IPMI session after a minute without a command

    def __init__(self, address: BmcAddress, where: endpoint.Endpoint, raw: RmcpSessions, devices: Devices | None) -> None:
        self.address = address
        self.session = f'{address.name}-{secrets.token_hex(6)}'
        self._where = where
        self._raw = raw
        self._devices = devices
        self._targets: tuple[Path, ...] = ((),)
        self._others: list[RmcpSessions] = []
        self._uploading: RmcpSessions | None = None
        self._asking = self._administrator()
        self._patience: NodeBusyRetry | None = None
        stopping.watch(self)

    def __enter__(self) -> 'IpmiConnection':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Log out."""
        for raw in filter(None, (self._uploading, self._raw)):
            raw.close()

    def stop(self) -> None:
        """Let every command from now on fail at once, so that a running read ends and logs out. May be
        called from any thread.
        """
        for raw in (self._raw, *self._others):
            raw.stopped = True

    # -- reading ------------------------------------------------------------------------------------------------------

    def look(self, now: datetime) -> Look:
        """Inspect the machine: read everything about its accelerators.

        :raises BmcError: no answer, or the BMC does not answer Get Device ID.
        """
        with self._reading() as patience:
            seen = device.look(self._raw, patience, self._asking)
            gaps: list[Gap] = []
            targets = [t for c in seen.controllers if c.device is not None if (t := self._target(c.path, gaps)) is not None]
            host = self._host(gaps)
            closed = masks.read(lambda: self._as_may((), masks.observe))
            accounts = users.read(self._may(()), self.address.username or '')
        self._targets = tuple(target.path for target in targets)
        system = None if host is None else self._ref(resource.CHASSIS)
        found = inventory.found(seen, targets, self.address.name, self._devices or table.shipped(), system, gaps)
        LOG.info('%s: %d accelerators among %d boards', self.address.label, len(found.accelerators), len(seen.frus))
        return Look(
            facts=replace(self._facts(seen, targets, system, host), accounts=accounts),
            accelerators=found.accelerators,
            platform_devices=found.platform,
            gaps=found.gaps,
            reader=IpmiReader(self.address, self.session, self._documents(seen, targets, closed)),
        )

    def ownership(self) -> None:
        """None: over IPMI a BMC has one machine."""

    def _target(self, path: Path, gaps: list[Gap]) -> inventory.InventoryTarget | None:
        """Read the HPM.1 components of a controller; None without HPM.1 (an ordinary answer), or if they could not be read (a
        gap).
        """

        def read(raw: Raw) -> inventory.InventoryTarget | None:
            capabilities = commands.capabilities(raw)
            if capabilities is None:
                return None
            return inventory.InventoryTarget(path=path, components=commands.components(raw, capabilities))

        try:
            return self._as_may(path, read)
        except BmcError as exc:
            if isinstance(exc, BmcUnreachable):
                device.identify(self._raw)  # raises if the BMC itself does not answer
            gaps.append(Gap(ref=self._ref(ControllerAddress(path=path, part=MachinePart.HPM)), reason=exc.what))
            return None

    def _as_may(self, path: Path, ask: Callable[[Raw], _T]) -> _T:
        """Call ``ask`` with a controller that is read as operator, and as administrator where a command is refused.

        Some controllers refuse to an operator every command that they do not know, so that only an administrator learns that
        the command does not exist.

        :raises BmcNotAuthorised: a command is refused to both, or is refused and the account may not be administrator.
        """
        return ask(self._may(path))

    @contextmanager
    def _reading(self) -> Iterator[NodeBusyRetry]:
        """Context for reads: busy controllers are retried for a short time in all, within the time budget of an inspection."""
        self._patience = NodeBusyRetry()
        try:
            with self._budgeted():
                yield self._patience
        finally:
            self._patience = None

    @contextmanager
    def _budgeted(self) -> Iterator[None]:
        """Context with the time budget of an inspection; at its end the administrator's session for reads is closed."""
        with ExitStack() as stack:
            stack.enter_context(self._asking)
            for raw in filter(None, (self._raw, self._asking, self._uploading)):
                stack.enter_context(raw.limited(self.address.budget))
            yield

    def _host(self, gaps: list[Gap]) -> HostReading | None:
        """Power state and data of the last start; None: the BMC has no Get Chassis Status.

        :raises BmcError: the BMC no longer answers.
        """
        raw = self._may(())
        try:
            found = chassis.status(raw)
        except BmcUnsupported:
            return None
        except BmcError as exc:
            gaps.append(Gap(ref=self._ref(resource.CHASSIS), reason=exc.what))
            found = HostReading(power=PowerState.UNKNOWN)
        return replace(
            found,
            restart_cause=chassis.restart_cause(raw),
            power_on_hours=chassis.power_on_hours(raw),
            log_mark=chassis.log_mark(raw),
        )

    def _facts(
        self,
        seen: device.ControllerInventory,
        targets: Sequence[inventory.InventoryTarget],
        system: Ref | None,
        host: HostReading | None,
    ) -> BmcFacts:
        itself = seen.controllers[0].device
        board = next((one.contents for one in seen.frus if not one.path and one.number == one.lun == 0), None)
        product = board.product.name if board is not None and board.product is not None else None
        host = host or HostReading(power=PowerState.UNKNOWN)
        return BmcFacts(
            name=self.address.name,
            address=self.address.address,
            session=self.session,
            product=product,
            firmware_version=None if itself is None else itself.firmware,
            update=update.facts(inventory.unseen(targets, self.address.name)) if targets else None,
            system=system,
            power=host.power,
            power_on_hours=host.power_on_hours,
            restart_cause=host.restart_cause,
            power_event=host.power_event,
            log_mark=host.log_mark,
        )

    def _documents(
        self, seen: device.ControllerInventory, targets: Iterable[inventory.InventoryTarget], closed: apply.FirewallVerdict
    ) -> dict[str, JsonObject]:
        said = {
            ControllerAddress(path=c.path): resource.of_controller(c.device) for c in seen.controllers if c.device is not None
        }
        for one in seen.frus:
            if one.contents is not None:
                said[ControllerAddress(path=one.path, part=MachinePart.FRU, number=one.number, lun=one.lun)] = resource.of_fru(
                    one.contents
                )
        for target in targets:
            for component in target.components:
                said[ControllerAddress(path=target.path, part=MachinePart.HPM, number=component.number)] = (
                    resource.of_component(component)
                )
        if closed.state is not LockState.UNSUPPORTED:
            said[resource.FIREWALL] = resource.of_firewall(closed)
        return {place.uri: body for place, body in said.items()}

    def glance(self, uris: Iterable[str], within: timedelta) -> Mapping[str, Document | BmcError]:
        """Read some resources again, without caches."""
        found: dict[str, Document | BmcError] = {}
        with self._raw.limited(within), self._reading():
            for uri in uris:
                try:
                    found[uri] = self._read(uri)
                except BmcError as exc:
                    found[uri] = exc
        return found

    def _read(self, uri: str) -> Document:
        place = resource.place(uri)
        match place:
            case ControllerAddress(part=None):
                body = resource.of_controller(device.identify(self._may(place.path)))
            case ControllerAddress(part=MachinePart.FRU, number=int(number)):
                body = resource.of_fru(fru.contents(self._may(place.path), number, lun=place.lun))
            case ControllerAddress(part=MachinePart.HPM, number=int(number), back=False):
                body = resource.of_component(self._as_may(place.path, lambda raw: commands.component(raw, number)))
            case ControllerAddress(part=MachinePart.CHASSIS):
                body = {'PowerState': chassis.status(self._may(())).power.value}
            case ControllerAddress(part=MachinePart.FIREWALL):
                body = self._as_may((), lambda raw: observed_firewall(raw, uri))
            case _:
                raise no_such(self.address.label, uri)
        return Document(ref=Ref(bmc=self.address.name, uri=uri), body=body)

    def measure(
        self, accelerators: Iterable[Accelerator], now: datetime, why_not: str | None = None
    ) -> Sequence[SignedMeasurements | MeasurementReading]:
        """Nothing: IPMI has no signed measurements."""
        return ()

    def component(self, ref: Ref) -> Component:
        """Read one HPM.1 component now.

        :raises BmcError: it could not be read, or does not exist.
        """
        with self._reading():
            return self._component_now(ref)

    def _component_now(self, ref: Ref) -> Component:
        match resource.place(ref.uri):
            case ControllerAddress(part=MachinePart.HPM, number=int(number), back=False) as endpoint:
                found = self._as_may(endpoint.path, _components)
                components = () if found is None else found
                if number not in {one.number for one in components}:
                    what = 'it has no such component any more'
                    raise BmcRefused(bmc=self.address.label, uri=ref.uri, what=what, reason=BmcRefusalReason.GONE)
                one = next(one for one in components if one.number == number)
                if one.current is None and one.unread:
                    raise BmcRefused(bmc=self.address.label, uri=ref.uri, what=one.unread[0])
                alone = sum(other.name == one.name for other in components) == 1
                return inventory.component(one, ref, alone=alone)
            case _:
                raise no_such(self.address.label, ref.uri)

    def deferred(self, task: Ref) -> None:
        """None: IPMI has no action that starts an update later."""

    def task(self, ref: Ref) -> TaskReading:
        """The command in progress in a controller that supports HPM.1, or the outcome of its last activation or rollback.

        :raises BmcError: it could not be read.
        """
        with self._budgeted():
            return self._task(ref)

    def _task(self, ref: Ref) -> TaskReading:
        match resource.place(ref.uri):
            case ControllerAddress(part=MachinePart.HPM, number=None) as endpoint:
                found = self._running(endpoint.path)
                return found or TaskReading(ref=ref, state=TaskState.GONE, raw='no command is in progress')
            case ControllerAddress(part=MachinePart.HPM, number=int(number)) as endpoint:
                return self._as_may(endpoint.path, lambda raw: update.reading(raw, ref, number, back=endpoint.back))
            case _:
                raise no_such(self.address.label, ref.uri)

    def active_tasks(self) -> Sequence[TaskReading]:
        """Commands in progress in the HPM.1 controllers that the last inspection has found.

        :raises BmcError: they could not be read; the error names the controller.
        """
        found = []
        with self._budgeted():
            for path in self._targets:
                try:
                    found.append(self._running(path))
                except BmcError as exc:
                    exc.uri = exc.uri or ControllerAddress(path=path, part=MachinePart.HPM).uri
                    raise
        return tuple(task for task in found if task is not None)

    def tasks(self) -> Sequence[TaskReading]:
        """The same as :meth:`active_tasks`: IPMI keeps no ended tasks.

        :raises BmcError: they could not be read; the error names the controller.
        """
        return self.active_tasks()

    def update_activity(self) -> UpdateActivity:
        """Always idle: a controller that is writing reports a command in progress, which is a task (:meth:`active_tasks`)."""
        return UpdateActivity.IDLE

    def _running(self, path: Path) -> TaskReading | None:
        status = self._as_may(path, commands.status)
        if status is None or status.code != commands.IN_PROGRESS:
            return None
        return TaskReading(
            ref=self._ref(ControllerAddress(path=path, part=MachinePart.HPM)),
            state=TaskState.ACTIVE,
            raw=f'command {status.command:02X}h/{status.code:02X}h',
            percent=status.percent,
        )

    def power(self, system: Ref) -> PowerState:
        """The power state of the machine, read now.

        :raises BmcError: it could not be read.
        """
        self._check(system, resource.CHASSIS)
        return chassis.status(self._to(())).power

    def host(self, system: Ref) -> HostReading:
        """Power state, last power event and cause of the last start, read now by two commands.

        Of all values that :meth:`look` reads, the restart cause detects a short start best: it changes at once, while power-on
        hours count in units that a short start does not fill, and an entry in the event log need not be of a start.

        :raises BmcError: it could not be read.
        """
        self._check(system, resource.CHASSIS)
        raw = self._to(())
        return replace(chassis.status(raw), restart_cause=chassis.restart_cause(raw))

    def last_reset(self, system: Ref) -> str | None:
        """None: IPMI does not report when a machine was last reset."""
        return None

    def managers(self) -> Sequence[ManagerReading]:
        """Empty: IPMI does not report when a BMC was last restarted."""
        return ()

    # -- writing ------------------------------------------------------------------------------------------------------

    def writer(self) -> IpmiWriter:
        """A writer for the lock: only the firmware firewall can be set."""
        return IpmiWriter(self.address, self._administrator())

    def may_write(self) -> None:
        """Log in once as administrator, since reads use the operator privilege.

        :raises BmcNotAuthorised: the user may not be administrator.
        :raises BmcError: no session could be opened.
        """
        with self._administrator() as raw:
            raw.ready()

    def judge(self, targets: Sequence[Ref], image: Image, upload: Upload) -> None:
        """Check that an image could be written to HPM.1 components. Operator privilege is enough, and nothing is changed.

        :raises AccError: as in the contract; see :mod:`baremetal_acc.bmc.ipmi.hpm.compatibility`.
        """
        content = compatibility.opened(image, upload)
        with self._reading():
            for target in targets:
                path, number = self._place(target)
                self._as_may(path, partial(compatibility.judge, ref=target, number=number, image=image, content=content))

    def push(self, target: Ref, upload: Upload) -> UploadProgress:
        """Check that an image can be written to an HPM.1 component; :meth:`go_on` writes it.

        :raises BmcError: as in the contract, and as :func:`baremetal_acc.bmc.ipmi.update.push`.
        """
        controller, number = self._component(target)
        try:
            with self._budgeted():
                found = update.push(controller, target, number, upload)
        except BmcUnreachable as exc:
            exc.sent = False  # only reads were sent
            raise
        return replace(found, task=self._controller(target))

    def go_on(self, target: Ref, upload: Upload, progress: UploadProgress) -> TaskReading | UploadProgress:
        """Write one turn of an image to an HPM.1 component; the last turn activates it, or rolls the component back.

        :raises BmcError: as in the contract, and as :func:`baremetal_acc.bmc.ipmi.update.go_on`.
        """
        controller, number = self._component(target)
        return update.go_on(controller, target, number, upload, progress)

    def _component(self, target: Ref) -> tuple[Raw, int]:
        """The controller of a component, in one administrator's session for all turns, and the component's number.

        :raises BmcUnsupported: the target is no HPM.1 component.
        """
        path, number = self._place(target)
        self._uploading = self._uploading or self._administrator()
        return bridged(self._uploading, path), number

    def _place(self, target: Ref) -> tuple[Path, int]:
        """The path to the controller of a component, and the component's number.

        :raises BmcUnsupported: the target is no HPM.1 component.
        """
        match resource.place(target.uri):
            case ControllerAddress(part=MachinePart.HPM, number=int(number), back=False) as endpoint:
                return endpoint.path, number
            case _:
                told = 'it is no component that takes an image over IPMI'
                raise BmcUnsupported(bmc=self.address.label, uri=target.uri, what=told)

    def _controller(self, target: Ref) -> Ref:
        """The ref by which :meth:`active_tasks` reports a command in progress in the controller of a component."""
        place = resource.place(target.uri)
        return target if place is None else self._ref(ControllerAddress(path=place.path, part=MachinePart.HPM))

    def cancel(self, ref: Ref) -> None:
        """Commands of a controller are not cancelled: HPM.1 can abort an upgrade, but what is left then is no firmware.

        :raises BmcUnsupported: always.
        """
        raise BmcUnsupported(bmc=self.address.label, uri=ref.uri, what='nothing is cancelled over IPMI')

    def set_power(self, system: Ref, wanted: PowerState) -> None:
        """Request On or Off, once.

        :raises BmcError: the request was not accepted.
        """
        self._check(system, resource.CHASSIS)
        self._control(wanted)

    def offers_reset(self, system: Ref, kind: ResetKind) -> bool:
        """Always True: Chassis Control has a reset and a power cycle (IPMI 2.0 revision 1.1, section 28.3)."""
        return True

    def reset(self, system: Ref, kind: ResetKind) -> None:
        """Request a restart or a power cycle of the machine, or a restart of the BMC (Cold Reset), once.

        :raises BmcUnsupported: IPMI has no reset of that kind.
        :raises BmcError: the request was not accepted.
        """
        if kind is ResetKind.BMC_RESET:
            self._check(system, ControllerAddress())
            with self._administrator() as raw:
                ask(raw, NetFn.APP, _COLD_RESET, what='Cold Reset', once=True)
            return
        self._check(system, resource.CHASSIS)
        self._control(kind)

    def _control(self, wanted: PowerState | ResetKind) -> None:
        word = _CONTROL.get(wanted)
        if word is None:
            raise BmcUnsupported(bmc=self.address.label, what=f'{wanted} cannot be asked for over IPMI')
        try:
            ask(self._raw, NetFn.CHASSIS, _CHASSIS_CONTROL, bytes([word]), what='Chassis Control', once=True)
        except CommandRefused as exc:
            if exc.code != CompletionCode.NOT_IN_STATE:
                raise
            # BMCs answer so while the power state is changing. The caller reads whether the wanted state was reached.
            what = f'{exc.what}: its power does not allow {wanted} now'
            raise BmcBusy(bmc=exc.bmc, uri=exc.uri, what=what) from exc
        except BmcUnreachable as exc:
            if not exc.sent:
                raise
            what = f'{exc.what}; Chassis Control ({wanted}) may have arrived'
            raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=what, hint=exc.hint) from exc

    def _administrator(self) -> RmcpSessions:
        """A separate administrator's session for what is written; :meth:`stop` stops it too."""
        raw = RmcpSessions(self._where, LoginPrivilege.ADMINISTRATOR)
        self._others.append(raw)
        return raw

    # -- places -------------------------------------------------------------------------------------------------------

    def _to(self, path: Path) -> Raw:
        return bridged(self._raw, path, self._patience)

    def _may(self, path: Path) -> Raw:
        """To a controller, within :meth:`_budgeted`: as operator, and as administrator for commands that are refused."""
        return Privileged(self._to(path), bridged(self._asking, path, self._patience))

    def _ref(self, place: ControllerAddress) -> Ref:
        return Ref(bmc=self.address.name, uri=place.uri)

    def _check(self, ref: Ref, place: ControllerAddress) -> None:
        """:raises BmcRefused: the ref is not of that part."""
        if resource.place(ref.uri) != place:
            raise no_such(self.address.label, ref.uri)


def _components(raw: Raw) -> tuple[commands.HpmComponent, ...] | None:
    """The HPM.1 components of a controller; None where it does not support HPM.1."""
    target = commands.capabilities(raw)
    return None if target is None else commands.components(raw, target)

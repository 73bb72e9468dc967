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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
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
    Accounts,
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
from baremetal_acc.model.ref import BmcName, Ref

LOG = logging.getLogger(__name__)

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
        return IpmiConnection(address, ControllerAccess(where, raw, address.budget), self._devices)


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


class ControllerAccess:
    """Sessions to one BMC, and the controllers that are reached over them.

    Reads use the operator's session. Writes, and reads that are refused to an operator, use sessions of an administrator.

    :ivar operator: the operator's session.
    """

    def __init__(self, where: endpoint.Endpoint, operator: RmcpSessions, budget: timedelta) -> None:
        """Keep the sessions. None is opened here.

        :param budget: time budget of an inspection.
        """
        self.operator = operator
        self._where = where
        self._budget = budget
        self._others: list[RmcpSessions] = []
        self._uploading: RmcpSessions | None = None
        self._reading_administrator = self.administrator()
        self._patience: NodeBusyRetry | None = None

    def close(self) -> None:
        """Log out."""
        for raw in filter(None, (self._uploading, self.operator)):
            raw.close()

    def stop(self) -> None:
        """Let every command from now on fail at once. May be called from any thread."""
        for raw in (self.operator, *self._others):
            raw.stopped = True

    def administrator(self) -> RmcpSessions:
        """A separate administrator's session for what is written; :meth:`stop` stops it too."""
        raw = RmcpSessions(self._where, LoginPrivilege.ADMINISTRATOR)
        self._others.append(raw)
        return raw

    def uploading(self, path: Path) -> Raw:
        """To a controller, in one administrator's session for all turns of an upload."""
        self._uploading = self._uploading or self.administrator()
        return bridged(self._uploading, path)

    @contextmanager
    def reading(self) -> Iterator[NodeBusyRetry]:
        """Context for reads: busy controllers are retried for a short time in all, within the time budget of an inspection."""
        self._patience = NodeBusyRetry()
        try:
            with self.budgeted():
                yield self._patience
        finally:
            self._patience = None

    @contextmanager
    def budgeted(self) -> Iterator[None]:
        """Context with the time budget of an inspection; at its end the administrator's session for reads is closed."""
        with ExitStack() as stack:
            stack.enter_context(self._reading_administrator)
            for raw in filter(None, (self.operator, self._reading_administrator, self._uploading)):
                stack.enter_context(raw.limited(self._budget))
            yield

    def discover(self, patience: NodeBusyRetry) -> device.ControllerInventory:
        """Discover the controllers and FRUs of the machine, within :meth:`reading`.

        :raises BmcError: no answer, or the BMC does not answer Get Device ID.
        """
        return device.look(self.operator, patience, self._reading_administrator)

    def as_operator(self, path: Path) -> Raw:
        """To a controller, as operator."""
        return bridged(self.operator, path, self._patience)

    def as_may(self, path: Path) -> Raw:
        """To a controller, within :meth:`budgeted`: as operator, and as administrator for commands that are refused.

        Some controllers refuse to an operator every command that they do not know, so that only an administrator learns that
        the command does not exist.
        """
        return Privileged(self.as_operator(path), bridged(self._reading_administrator, path, self._patience))


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInspection:
    """What one inspection has read of a machine.

    :ivar targets: the controllers that support HPM.1.
    :ivar host: None: the BMC has no Get Chassis Status.
    :ivar firewall: state of the firmware firewall of the BMC.
    :ivar gaps: of targets and host; those of the controllers are in ``controllers``.
    """

    controllers: device.ControllerInventory
    targets: tuple[inventory.InventoryTarget, ...]
    host: HostReading | None
    firewall: apply.FirewallVerdict
    accounts: Accounts
    gaps: tuple[Gap, ...]

    def facts(self, address: BmcAddress, session: str) -> BmcFacts:
        """What is reported of the BMC itself."""
        itself = self.controllers.controllers[0].device
        board = next((one.contents for one in self.controllers.frus if not one.path and one.number == one.lun == 0), None)
        product = board.product.name if board is not None and board.product is not None else None
        host = self.host or HostReading(power=PowerState.UNKNOWN)
        return BmcFacts(
            name=address.name,
            address=address.address,
            session=session,
            product=product,
            firmware_version=None if itself is None else itself.firmware,
            update=update.facts(inventory.unseen(self.targets, address.name)) if self.targets else None,
            system=self.system(address.name),
            power=host.power,
            power_on_hours=host.power_on_hours,
            restart_cause=host.restart_cause,
            power_event=host.power_event,
            log_mark=host.log_mark,
            accounts=self.accounts,
        )

    def system(self, bmc: BmcName) -> Ref | None:
        """The System through which the cards are reset; None: the BMC has no Get Chassis Status."""
        return None if self.host is None else Ref(bmc=bmc, uri=resource.CHASSIS.uri)

    def documents(self) -> dict[str, JsonObject]:
        """The bodies of all resources that were read, by URI."""
        said = {
            ControllerAddress(path=c.path): resource.of_controller(c.device)
            for c in self.controllers.controllers
            if c.device is not None
        }
        for one in self.controllers.frus:
            if one.contents is not None:
                said[ControllerAddress(path=one.path, part=MachinePart.FRU, number=one.number, lun=one.lun)] = resource.of_fru(
                    one.contents
                )
        for target in self.targets:
            for component in target.components:
                said[ControllerAddress(path=target.path, part=MachinePart.HPM, number=component.number)] = (
                    resource.of_component(component)
                )
        if self.firewall.state is not LockState.UNSUPPORTED:
            said[resource.FIREWALL] = resource.of_firewall(self.firewall)
        return {place.uri: body for place, body in said.items()}


def inspect_machine(access: ControllerAccess, address: BmcAddress) -> MachineInspection:
    """Read everything about a machine: its controllers, components, power, firmware firewall and accounts.

    :raises BmcError: no answer, or the BMC does not answer Get Device ID.
    """
    with access.reading() as patience:
        seen = access.discover(patience)
        gaps: list[Gap] = []
        paths = [controller.path for controller in seen.controllers if controller.device is not None]
        targets = [target for path in paths if (target := _read_target(access, address.name, path, gaps)) is not None]
        return MachineInspection(
            controllers=seen,
            targets=tuple(targets),
            host=_read_host(access, address.name, gaps),
            firewall=masks.read(lambda: masks.observe(access.as_may(()))),
            accounts=users.read(access.as_may(()), address.username or ''),
            gaps=tuple(gaps),
        )


def _read_target(access: ControllerAccess, bmc: BmcName, path: Path, gaps: list[Gap]) -> inventory.InventoryTarget | None:
    """Read the HPM.1 components of a controller; None without HPM.1 (an ordinary answer), or if they could not be read (a
    gap).
    """
    try:
        raw = access.as_may(path)
        capabilities = commands.read_capabilities(raw)
        if capabilities is None:
            return None
        return inventory.InventoryTarget(path=path, components=commands.read_components(raw, capabilities))
    except BmcError as exc:
        if isinstance(exc, BmcUnreachable):
            device.identify(access.operator)  # raises if the BMC itself does not answer
        gaps.append(Gap(ref=Ref(bmc=bmc, uri=ControllerAddress(path=path, part=MachinePart.HPM).uri), reason=exc.what))
        return None


def _read_host(access: ControllerAccess, bmc: BmcName, gaps: list[Gap]) -> HostReading | None:
    """Power state and data of the last start; None: the BMC has no Get Chassis Status.

    :raises BmcError: the BMC no longer answers.
    """
    raw = access.as_may(())
    try:
        found = chassis.status(raw)
    except BmcUnsupported:
        return None
    except BmcError as exc:
        gaps.append(Gap(ref=Ref(bmc=bmc, uri=resource.CHASSIS.uri), reason=exc.what))
        found = HostReading(power=PowerState.UNKNOWN)
    return replace(
        found,
        restart_cause=chassis.restart_cause(raw),
        power_on_hours=chassis.power_on_hours(raw),
        log_mark=chassis.log_mark(raw),
    )


def request_chassis_control(raw: Raw, wanted: PowerState | ResetKind) -> None:
    """Request a power state, a restart or a power cycle of the machine by Chassis Control, once.

    :param raw: to the BMC, as operator.
    :raises BmcUnsupported: Chassis Control has no such request.
    :raises BmcBusy: the power state does not allow it now.
    :raises BmcError: the request was not accepted.
    """
    word = _CONTROL.get(wanted)
    if word is None:
        raise BmcUnsupported(bmc=raw.label, what=f'{wanted} cannot be asked for over IPMI')
    try:
        ask(raw, NetFn.CHASSIS, _CHASSIS_CONTROL, bytes([word]), what='Chassis Control', once=True)
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


def request_cold_reset(raw: Raw) -> None:
    """Request a restart of the BMC by Cold Reset, once.

    :param raw: to the BMC, as administrator.
    :raises BmcError: the request was not accepted.
    """
    ask(raw, NetFn.APP, _COLD_RESET, what='Cold Reset', once=True)


class IpmiConnection:
    """Connection to one BMC. It logs in again after the session has idled, or after the BMC has restarted."""

    lasts = False  # BMCs end an IPMI session after a minute without a command

    def __init__(self, address: BmcAddress, access: ControllerAccess, devices: Devices | None) -> None:
        self.address = address
        self.session = f'{address.name}-{secrets.token_hex(6)}'
        self._access = access
        self._devices = devices
        self._targets: tuple[Path, ...] = ((),)
        stopping.watch(self)

    def __enter__(self) -> 'IpmiConnection':
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Log out."""
        self._access.close()

    def stop(self) -> None:
        """Let every command from now on fail at once, so that a running read ends and logs out. May be
        called from any thread.
        """
        self._access.stop()

    # -- reading ------------------------------------------------------------------------------------------------------

    def look(self, now: datetime) -> Look:
        """Inspect the machine: read everything about its accelerators.

        :raises BmcError: no answer, or the BMC does not answer Get Device ID.
        """
        seen = inspect_machine(self._access, self.address)
        self._targets = tuple(target.path for target in seen.targets)
        found = inventory.found(
            seen.controllers,
            seen.targets,
            self.address.name,
            self._devices or table.shipped(),
            seen.system(self.address.name),
            seen.gaps,
        )
        boards = len(seen.controllers.frus)
        LOG.info('%s: %d accelerators among %d boards', self.address.label, len(found.accelerators), boards)
        return Look(
            facts=seen.facts(self.address, self.session),
            accelerators=found.accelerators,
            platform_devices=found.platform,
            gaps=found.gaps,
            reader=IpmiReader(self.address, self.session, seen.documents()),
        )

    def ownership(self) -> None:
        """None: over IPMI a BMC has one machine."""

    def glance(self, uris: Iterable[str], within: timedelta) -> Mapping[str, Document | BmcError]:
        """Read some resources again, without caches."""
        found: dict[str, Document | BmcError] = {}
        with self._access.operator.limited(within), self._access.reading():
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
                body = resource.of_controller(device.identify(self._access.as_may(place.path)))
            case ControllerAddress(part=MachinePart.FRU, number=int(number)):
                body = resource.of_fru(fru.contents(self._access.as_may(place.path), number, lun=place.lun))
            case ControllerAddress(part=MachinePart.HPM, number=int(number), back=False):
                body = resource.of_component(commands.read_component(self._access.as_may(place.path), number))
            case ControllerAddress(part=MachinePart.CHASSIS):
                body = {'PowerState': chassis.status(self._access.as_may(())).power.value}
            case ControllerAddress(part=MachinePart.FIREWALL):
                body = observed_firewall(self._access.as_may(()), uri)
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
        with self._access.reading():
            return self._component_now(ref)

    def _component_now(self, ref: Ref) -> Component:
        match resource.place(ref.uri):
            case ControllerAddress(part=MachinePart.HPM, number=int(number), back=False) as endpoint:
                found = _components(self._access.as_may(endpoint.path))
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
        with self._access.budgeted():
            return self._task(ref)

    def _task(self, ref: Ref) -> TaskReading:
        match resource.place(ref.uri):
            case ControllerAddress(part=MachinePart.HPM, number=None) as endpoint:
                found = self._running(endpoint.path)
                return found or TaskReading(ref=ref, state=TaskState.GONE, raw='no command is in progress')
            case ControllerAddress(part=MachinePart.HPM, number=int(number)) as endpoint:
                return update.reading(self._access.as_may(endpoint.path), ref, number, back=endpoint.back)
            case _:
                raise no_such(self.address.label, ref.uri)

    def active_tasks(self) -> Sequence[TaskReading]:
        """Commands in progress in the HPM.1 controllers that the last inspection has found.

        :raises BmcError: they could not be read; the error names the controller.
        """
        found = []
        with self._access.budgeted():
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
        status = commands.read_status(self._access.as_may(path))
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
        return chassis.status(self._access.as_operator(())).power

    def host(self, system: Ref) -> HostReading:
        """Power state, last power event and cause of the last start, read now by two commands.

        Of all values that :meth:`look` reads, the restart cause detects a short start best: it changes at once, while power-on
        hours count in units that a short start does not fill, and an entry in the event log need not be of a start.

        :raises BmcError: it could not be read.
        """
        self._check(system, resource.CHASSIS)
        raw = self._access.as_operator(())
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
        return IpmiWriter(self.address, self._access.administrator())

    def may_write(self) -> None:
        """Log in once as administrator, since reads use the operator privilege.

        :raises BmcNotAuthorised: the user may not be administrator.
        :raises BmcError: no session could be opened.
        """
        with self._access.administrator() as raw:
            raw.ready()

    def judge(self, targets: Sequence[Ref], image: Image, upload: Upload) -> None:
        """Check that an image could be written to HPM.1 components. Operator privilege is enough, and nothing is changed.

        :raises AccError: as in the contract; see :mod:`baremetal_acc.bmc.ipmi.hpm.compatibility`.
        """
        content = compatibility.opened(image, upload)
        with self._access.reading():
            for target in targets:
                path, number = self._place(target)
                compatibility.judge(self._access.as_may(path), ref=target, number=number, image=image, content=content)

    def push(self, target: Ref, upload: Upload) -> UploadProgress:
        """Check that an image can be written to an HPM.1 component; :meth:`go_on` writes it.

        :raises BmcError: as in the contract, and as :func:`baremetal_acc.bmc.ipmi.update.push`.
        """
        controller, number = self._component(target)
        try:
            with self._access.budgeted():
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
        return self._access.uploading(path), number

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
        request_chassis_control(self._access.operator, wanted)

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
            with self._access.administrator() as raw:
                request_cold_reset(raw)
            return
        self._check(system, resource.CHASSIS)
        request_chassis_control(self._access.operator, kind)

    # -- places -------------------------------------------------------------------------------------------------------

    def _ref(self, place: ControllerAddress) -> Ref:
        return Ref(bmc=self.address.name, uri=place.uri)

    def _check(self, ref: Ref, place: ControllerAddress) -> None:
        """:raises BmcRefused: the ref is not of that part."""
        if resource.place(ref.uri) != place:
            raise no_such(self.address.label, ref.uri)


def _components(raw: Raw) -> tuple[commands.HpmComponent, ...] | None:
    """The HPM.1 components of a controller; None where it does not support HPM.1."""
    target = commands.read_capabilities(raw)
    return None if target is None else commands.read_components(raw, target)

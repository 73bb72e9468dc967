# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Connection to one BMC over IPMI: what a driver is asked to read, to write and to restart."""

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from baremetal_acc.bmc import device_ids as table
from baremetal_acc.bmc import stopping
from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import BmcAddress, Document, Look, Upload
from baremetal_acc.bmc.ipmi import chassis, device, fru_reader, inventory, resource, update
from baremetal_acc.bmc.ipmi.command import Raw
from baremetal_acc.bmc.ipmi.controller_access import ControllerAccess
from baremetal_acc.bmc.ipmi.controller_path import Path
from baremetal_acc.bmc.ipmi.documents import IpmiReader, IpmiWriter, no_such, observed_firewall
from baremetal_acc.bmc.ipmi.hpm import commands, compatibility, upgrade_target
from baremetal_acc.bmc.ipmi.inspection import inspect_machine
from baremetal_acc.bmc.ipmi.power_control import request_chassis_control, request_cold_reset
from baremetal_acc.bmc.ipmi.resource import ControllerAddress, MachinePart
from baremetal_acc.errors import BmcError, BmcRefusalReason, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.bmc_state import ENABLED, BmcSetting, BmcState, ShownValue
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, UploadProgress
from baremetal_acc.model.inventory import (
    BmcFacts,
    HostReading,
    ManagerReading,
    PowerState,
    TaskReading,
    TaskState,
    UpdateActivity,
)
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.measurement import MeasurementReading, SignedMeasurements
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)


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
        LOG.info('%s: boards found: %d, accelerators among them: %d', self.address.label, boards, len(found.accelerators))
        return Look(
            facts=seen.facts(self.address, self.session),
            accelerators=found.accelerators,
            platform_devices=found.platform,
            gaps=found.gaps,
            reader=IpmiReader(self.address, self.session, seen.documents()),
        )

    def settings(self, asked: frozenset[BmcSetting], facts: BmcFacts) -> BmcState:
        """What this session shows of settings of the BMC: its firmware version, and that IPMI over LAN is enabled."""
        known = {
            BmcSetting.FIRMWARE_VERSION: ('Get Device ID', facts.firmware_version),
            BmcSetting.IPMI_OVER_LAN: ('the session of this inspection', ENABLED),
        }
        there = {s: (field, value) for s, (field, value) in known.items() if s in asked and value is not None}
        ref = Ref(bmc=self.address.name, uri='/')
        return BmcState(
            asked=asked,
            present=frozenset(there),
            values=tuple(ShownValue(setting=s, ref=ref, field=field, value=value) for s, (field, value) in there.items()),
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
                body = resource.of_fru(fru_reader.contents(self._access.as_may(place.path), number, lun=place.lun))
            case ControllerAddress(part=MachinePart.HPM, number=int(number), back=False):
                body = resource.of_component(upgrade_target.read_component(self._access.as_may(place.path), number))
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
                    what = 'the component no longer exists'
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
        status = upgrade_target.read_status(self._access.as_may(path))
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
                told = 'not a component that takes an image over IPMI'
                raise BmcUnsupported(bmc=self.address.label, uri=target.uri, what=told)

    def _controller(self, target: Ref) -> Ref:
        """The ref by which :meth:`active_tasks` reports a command in progress in the controller of a component."""
        place = resource.place(target.uri)
        return target if place is None else self._ref(ControllerAddress(path=place.path, part=MachinePart.HPM))

    def cancel(self, ref: Ref) -> None:
        """Commands of a controller are not cancelled: HPM.1 can abort an upgrade, but what is left then is no firmware.

        :raises BmcUnsupported: always.
        """
        raise BmcUnsupported(bmc=self.address.label, uri=ref.uri, what='an update over IPMI cannot be cancelled')

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
    target = upgrade_target.read_capabilities(raw)
    return None if target is None else upgrade_target.read_components(raw, target)

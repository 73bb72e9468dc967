# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An emulated machine, put together from its parts: settings, firmware banks, update tasks, power. It knows no HTTP.

One machine is one chassis with one or more hosts and BMCs, which all show this one state. Everything that takes time is an
event on a queue; :meth:`Machine.settle` executes the events that are due, in order. So a test can advance a virtual clock, and
nothing here sleeps. The parts of a machine are defined in :mod:`~baremetal_acc.emulator.parts`.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.component_writes import ComponentWrites
from baremetal_acc.emulator.fault import BadFault, Fault
from baremetal_acc.emulator.firmware_banks import FirmwareBanks
from baremetal_acc.emulator.host_writes import HostWrites, tenant_hosts
from baremetal_acc.emulator.image import BadImage, EmulatedImage
from baremetal_acc.emulator.machine_state import MachineState
from baremetal_acc.emulator.parts import Cause, EmulatedComponent, EmulatedSetting, Restart, Task, Value
from baremetal_acc.emulator.pldm import PackageMaker
from baremetal_acc.emulator.power_control import PowerControl
from baremetal_acc.emulator.setting_values import SettingValues
from baremetal_acc.emulator.state_document import dump_machine, load_machine
from baremetal_acc.emulator.true_state import describe_truth
from baremetal_acc.emulator.update_endings import UpdateEndings
from baremetal_acc.emulator.update_tasks import UpdateTasks, percent_at
from baremetal_acc.emulator.update_uploads import UpdateUploads


class Machine(MachineState):
    """One emulated machine: its state, and what clients, hosts and time do to it.

    Parameters and attributes are those of :class:`MachineState`. Each subject has a part of its own, which does the work.
    """

    def __init__(self, *, product: str, clock: EmulatedClock | None = None, **seconds: float) -> None:
        super().__init__(product=product, clock=clock, **seconds)
        self.values = SettingValues(self)
        self.banks = FirmwareBanks(self, self.values)
        self.host_writes = HostWrites(self, self.values, self.banks)
        self.tasks = UpdateTasks(self)
        self.writes = ComponentWrites(self, self.values, self.banks, self.tasks)
        self.uploads = UpdateUploads(self, self.banks, self.tasks, self.writes)
        self.power = PowerControl(self, self.values, self.banks, self.uploads.install)
        self.endings = UpdateEndings(self, self.values, self.banks, self.tasks, self.writes, self.power)

    def add_fault(self, document: Mapping[str, Any], *, lasting: bool = False) -> Fault:
        """Add a fault rule; see :meth:`~baremetal_acc.emulator.fault.Faults.add`.

        :raises BadFault: the rule is not valid, or selects a device or BMC that the machine does not have.
        """
        devices = {c.device for c in self.components.values()} | {s.device for s in self.settings.values() if s.device}
        known = {'device': devices - {''}, 'bmc': set(self.bmcs)}
        for selector, names in known.items():
            wanted = document.get(selector, '*')
            if isinstance(wanted, str) and wanted != '*' and not any(fnmatchcase(name, wanted) for name in names):
                raise BadFault(f'unknown {selector} {wanted!r}; the machine has {", ".join(sorted(names))}')
        return self.faults.add(document, lasting=lasting)

    def add_component(self, component: EmulatedComponent) -> EmulatedComponent:
        """Add a component."""
        self.components[component.key] = component
        return component

    def add_setting(
        self,
        key: str,
        value: Value,
        *,
        bmc: str,
        uri: str,
        device: str | None = None,
        locked: Value = None,
        is_lock: bool = False,
        open: Value = None,  # noqa: A002
        takes_force: Restart | None = None,
        system: str = 'host',
        once: tuple[Value, Value] | None = None,
        with_bmc: bool = False,
    ) -> EmulatedSetting:
        """Add a setting, configured and in force with the same value."""
        setting = EmulatedSetting(
            key=key,
            bmc=bmc,
            uri=uri,
            device=device,
            value=value,
            in_force=value,
            locked=locked,
            is_lock=is_lock,
            open=open,
            takes_force=takes_force,
            system=system,
            once=once,
            with_bmc=with_bmc,
        )
        self.settings[key] = setting
        return setting

    def add_lock(self, key: str, value: Value, *, locked: Value, open: Value, **place: Any) -> EmulatedSetting:  # noqa: A002
        """Add a lock: a setting with a locked and an open value."""
        return self.add_setting(key, value, locked=locked, open=open, is_lock=True, **place)

    def configure(self, key: str, value: Value) -> None:
        """Write a setting, as the BMC does for a client."""
        self.values.configure(key, value)

    def lockdown(self, bmc: str) -> EmulatedSetting | None:
        """The lockdown in force on a BMC; None: the BMC changes settings and takes updates."""
        return self.values.lockdown(bmc)

    def shown(self, key: str) -> Value:
        """The configured value as the BMC shows it."""
        return self.values.shown(key)

    def shown_in_force(self, key: str) -> Value:
        """The value in force as the BMC shows it."""
        return self.values.shown_in_force(key)

    def is_pending(self, key: str) -> bool:
        """Whether a configured value still waits for a restart."""
        return self.values.is_pending(key)

    def is_closed(self, key: str) -> bool:
        """Whether a lock really holds: the value in force is the locked one, and no fault makes the BMC invent it."""
        return self.values.is_closed(key)

    def shown_version(self, key: str, *, by_item: bool = False) -> str:
        """The version that the BMC shows; empty when the component holds nothing."""
        return self.banks.shown_version(key, by_item=by_item)

    def lateness(self, component: EmulatedComponent) -> Fault | None:
        """The fault rule by which the inventory item does not yet show the last write; None: the item shows it."""
        return self.banks.lateness(component)

    def copy_seconds(self, device: str) -> float:
        """For how many more seconds the root of trust of a card copies the written image in the background; 0: none."""
        return self.banks.copy_seconds(device)

    def reset_system(
        self, name: str, reset_type: str, *, cause: Cause = Cause.POWER_BUTTON, channel: int | None = None
    ) -> None:
        """Carry out ComputerSystem.Reset. A reset to the present state is no error and changes nothing, as on OpenBMC."""
        self.power.reset_system(name, reset_type, cause=cause, channel=channel)

    def cycle_mains(self) -> None:
        """Cycle the standby power of the whole machine. Systems that were off stay off, since BMCs restore the last state."""
        self.power.cycle_mains()

    def reset_bmc(self, name: str, seconds: float | None = None) -> None:
        """Carry out Manager.Reset: the BMC is silent, and returns without its sessions and tasks, which were in memory."""
        self.power.reset_bmc(name, seconds)

    def is_bmc_down(self, name: str) -> bool:
        """Whether the BMC is silent at the moment."""
        return self.power.is_bmc_down(name)

    def busy(self, bmc_name: str, targets: Iterable[str]) -> str | None:
        """Why no update of these components can begin now; None when it can."""
        return self.tasks.busy(bmc_name, targets)

    def written_beside(self, bmc_name: str, targets: Iterable[str]) -> tuple[str, ...]:
        """The components on the same cards as these that are being written, or reserved for a write."""
        return self.tasks.written_beside(bmc_name, targets)

    def begin_update(self, bmc_name: str, targets: Iterable[str], *, on_reset: bool = False, forced: bool = False) -> Task:
        """Create the task of an update of these components. The task waits for its image or package: :meth:`image_arrived`."""
        return self.tasks.begin(bmc_name, targets, on_reset=on_reset, forced=forced)

    def aim(self, task: Task, targets: Iterable[str]) -> None:
        """Set the targets of a task that was begun without targets, after its image showed which components it is for."""
        self.tasks.aim(task, targets)

    def image_arrived(self, task: Task, image: EmulatedImage | BadImage) -> None:
        """Check an image that has arrived completely, and begin to write it."""
        self.uploads.image_arrived(task, image)

    def package_arrived(self, task: Task, package: PackageMaker) -> None:
        """Let each device check its component of a package that has arrived, and begin to write the accepted components."""
        self.uploads.package_arrived(task, package)

    def refuse_package(self, task: Task, reason: str, text: str) -> None:
        """End the task without writing any part of the upload; the task reports why."""
        self.uploads.refuse_package(task, reason, text)

    def start_updates(self, bmc_name: str) -> list[Task]:
        """Carry out StartUpdate: write every image that waits for it. A completed task gets a new task for the write."""
        return self.uploads.start_updates(bmc_name)

    def update_failed(self, task: Task, reason: str, text: str) -> None:
        """Fail a task whose image never arrived: the URI could not be fetched, or the upload was cut."""
        self.uploads.update_failed(task, reason, text)

    def judge(self, key: str, image: EmulatedImage | None = None) -> None:
        """Check that the component can be written now, and with this image if one is given."""
        self.banks.judge(key, image)

    def hold(self, key: str, image: EmulatedImage, writer: str) -> None:
        """Keep a written image until :meth:`activate_held`."""
        self.banks.hold(key, image, writer)

    def drop_held(self, key: str) -> None:
        """Drop a written image that was not activated."""
        self.banks.drop_held(key)

    def activate_held(self, key: str, *, keeps_previous: bool = False) -> None:
        """Bring the held image in force, or stage it where a restart of the system activates it."""
        self.banks.activate_held(key, keeps_previous=keeps_previous)

    def back_up(self, key: str) -> None:
        """Copy the active bank to the backup for a rollback."""
        self.banks.back_up(key)

    def roll_back(self, key: str) -> None:
        """Swap the active bank and the backup."""
        self.banks.roll_back(key)

    def cancel(self, task: Task) -> None:
        """Cancel a running task, as a DELETE of the task or of its monitor does. What is not yet written stays unwritten."""
        self.tasks.cancel(task)

    def host_is_up(self, name: str = 'host') -> bool:
        """Whether code of a tenant can run on the host: it is on and not restarting."""
        return self.host_writes.host_is_up(name)

    def is_powered(self, device: str) -> bool:
        """Whether the system of a card is on."""
        return self.host_writes.is_powered(device)

    def write_from_host(
        self,
        device: str,
        image: EmulatedImage | BadImage,
        *,
        path: str,
        component: str | None = None,
        slot: int | None = None,
        host: str | None = None,
    ) -> EmulatedComponent:
        """Write an image in band, as a tenant who is root on the host. It is in force at once: root may also reset the card."""
        return self.host_writes.write_from_host(device, image, path=path, component=component, slot=slot, host=host)

    def percent(self, task: Task) -> int:
        """PercentComplete of a task now."""
        return percent_at(task, self.clock.now())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The systems on which a tenant may be root: those that have an in-band path to a card."""
        return tenant_hosts(self)

    def truth(self) -> dict[str, Any]:
        """The true state for test assertions, whatever the BMCs report."""
        return describe_truth(self, self.values)

    def dump(self) -> dict[str, Any]:
        """The state as JSON; see :func:`dump_machine`."""
        return dump_machine(self)

    def load(self, document: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`dump` returned; see :func:`load_machine`."""
        load_machine(self, self.tasks, document)

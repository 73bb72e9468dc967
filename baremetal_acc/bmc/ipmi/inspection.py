# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read everything about a machine over IPMI: controllers, HPM.1 components, power, firmware firewall and accounts."""

from dataclasses import dataclass, replace

from baremetal_acc.bmc.driver import BmcAddress, JsonObject
from baremetal_acc.bmc.ipmi import chassis, controller_inventory, device, inventory, resource, update, users
from baremetal_acc.bmc.ipmi.controller_access import ControllerAccess
from baremetal_acc.bmc.ipmi.controller_path import Path
from baremetal_acc.bmc.ipmi.firmware_firewall import apply, masks
from baremetal_acc.bmc.ipmi.hpm import upgrade_target
from baremetal_acc.bmc.ipmi.resource import ControllerAddress, MachinePart
from baremetal_acc.errors import BmcError, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import Accounts, BmcFacts, Gap, HostReading, PowerState
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import BmcName, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInspection:
    """What one inspection has read of a machine.

    :ivar targets: the controllers that support HPM.1.
    :ivar host: None: the BMC has no Get Chassis Status.
    :ivar firewall: state of the firmware firewall of the BMC.
    :ivar gaps: of targets and host; those of the controllers are in ``controllers``.
    """

    controllers: controller_inventory.ControllerInventory
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
        capabilities = upgrade_target.read_capabilities(raw)
        if capabilities is None:
            return None
        return inventory.InventoryTarget(path=path, components=upgrade_target.read_components(raw, capabilities))
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

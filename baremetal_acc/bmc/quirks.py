# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""BMC quirks: where BMCs deviate from the Redfish standard, each with its evidence.

A quirk is a method or a constant with a name, and is decided by what the BMC reports of itself. Nothing else in the package
branches on the vendor of a machine.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

BACKGROUND_COPY = ('Oem', 'Nvidia', 'BackgroundCopyStatus')
"""Property of a root of trust that copies its image to its second flash: ``InProgress``, for minutes after an update.

Seen: recordings nvidia/gh200, chassis HGX_ERoT_GPU_0; sonic-net/sonic-mgmt#26697 (an interrupted copy is lost).
"""

INSTALLED_AT = (('Oem', 'Dell', 'DellSoftwareInventory', 'InstallationDate'),)
"""Properties of a firmware item that hold the time of its last update.

Seen: recordings dell/r750-h100-bluefield2; ``NA`` for firmware that came with the machine.
"""

RESTART_MESSAGES = frozenset({
    # DSP8011, message registries Base and Update.
    'ResetRequired', 'AwaitToActivate', 'AwaitToUpdate',
    # Dell, registry IDRAC: "Task successfully scheduled." (dell/iDRAC-Redfish-Scripting#166, #266).
    'JCP001',
})  # fmt: skip
"""MessageIds, without registry and version, of a task that continues only after its host is restarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyReset:
    """An action that cuts the standby power of a machine and restores it, which also restarts the BMC.

    :ivar name: of the action, below ``Actions/Oem`` or in a part of it.
    :ivar reset_type: the ResetType to send, for a host that is off: none of them starts a host.
    :ivar more: further parameters.
    """

    name: str
    reset_type: str
    more: tuple[tuple[str, str], ...] = ()


STANDBY_RESETS = (
    # Without Force the BMC refuses it while the host is on. Seen: recordings nvidia/gh200, chassis BMC_0; DGX GB200 user guide,
    # Redfish commands for the compute tray, virtual A/C cycle; NVIDIA/open-nvfwupd, RF_AUX_PWR_CYCLE.
    StandbyReset(name='#NvidiaChassis.AuxPowerReset', reset_type='AuxPowerCycle'),
    # Source: dell/dellemc-openmanage-ansible-modules, redfish_powerstate, oem_reset_type. No recording shows it.
    StandbyReset(name='#DellOemChassis.ExtendedReset', reset_type='PowerCycle', more=(('FinalPowerState', 'Off'),)),
    # Seen: recording hpe/dl380a-gen11-2xh100nvl, Systems/1.
    StandbyReset(name='#HpeComputerSystemExt.SystemReset', reset_type='AuxCycle'),
    # Seen: recording lenovo/sr670v2-8xl40-bluefield2, Systems/1.
    StandbyReset(name='#LenovoComputerSystem.SystemReset', reset_type='ACPowerCycle'),
)  # fmt: skip
"""OEM actions of a Chassis or of the System. None was tried on hardware."""

_RESTART = '(?:restart|reboot|reset|power[- ]?cycle)'

RESTART_NAMES = re.compile(
    rf'^(?!.*not?(?:required|{_RESTART})).*(?:{_RESTART}(?:required|pending|needed)|(?:pending|await|wait(?:ing)?for).*{_RESTART})',
    re.IGNORECASE,
)
"""Pattern for OEM MessageIds with the same meaning as :data:`RESTART_MESSAGES`; compare dell/iDRAC-Redfish-Scripting#266,
server reboot pending.
"""

RESTART_WORDS = re.compile(
    r'^(?!.*\b(?:not|never|without)\b).*(?:'
    rf'\b(?:wait|pending|await|requir|need|next|after|upon|until).*(?:{_RESTART}|\bboot)'
    rf'|{_RESTART}.*\b(?:pending|requir|need)'
    r'|\bschedul)',
    re.IGNORECASE,
)
"""Pattern for message texts of a task that has not begun and waits for a restart; a BMC need not use
MessageIds of a registry.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """The quirks of one BMC.

    :ivar vendor: ServiceRoot.Vendor, or None.
    :ivar product: ServiceRoot.Product, or None.
    :ivar oem: the keys of ServiceRoot.Oem: the vendors that extended the service.
    """

    vendor: str | None = None
    product: str | None = None
    oem: frozenset[str] = frozenset()

    def updates_at_once(self) -> int:
        """How many updates the BMC takes at the same time.

        No BMC reports this, and no real one was tried: the table is empty until somebody measures one.
        """
        return next((row.number for row in _UPDATES_AT_ONCE if row.matches(self)), 1)

    def item_id_ends_with_device_id(self) -> bool:
        """Whether the Id of a firmware item ends with two underscores and the Id of the device's resource, without RelatedItem.

        Seen: Dell PowerEdge R750, iDRAC9 6.00.30.00 (recording dell/r750-h100-bluefield2): all 29 items, for example
        ``Installed-0-24.40.10.00__NIC.Slot.5-1``.
        """
        return self._made_by('dell')

    def inventory_keeps_old_versions(self) -> bool:
        """Whether firmware items with an Id Current-... or Previous-... repeat a component; Installed-... is the running
        version.

        Seen: Dell PowerEdge R750, iDRAC9 6.00.30.00 (recording dell/r750-h100-bluefield2).
        """
        return self._made_by('dell')

    def device_extensions(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Collections of OEM extension resources of devices: ``systems`` or ``chassis``, and the path of the link there.

        A member belongs to the device with the same serial number. Seen: Dell PowerEdge R750, iDRAC9 6.00.30.00 (the only place
        that shows the GPU's firmware version); HPE DL380a Gen11, iLO 6 1.66 (the only place that says which slot a GPU is in).
        """
        if self._made_by('dell'):
            return (('systems', ('Links', 'Oem', 'Dell', 'DellVideoCollection')),)
        if self._made_by('hpe'):
            return (('chassis', ('Oem', 'Hpe', 'Links', 'Devices')),)
        return ()

    def item_names_accelerator(self) -> re.Pattern[str]:
        """Pattern for Ids of firmware items that name the System and the number of its accelerator, without RelatedItem.

        Seen: HPE Cray EX235n, two nodes behind one BMC (Cray-HPE/csm-redfish-interface-emulator, mockups/EX235n):
        ``Node0.Acc0.VBIOS`` of Systems/Node0/Processors/GPU0. The root of that BMC has neither Vendor nor Oem, so the pattern
        is used for all BMCs; an Id counts only if the accelerator that it names exists.
        """
        return _NODE_ACCELERATOR

    def item_slot(self) -> tuple[str, ...] | None:
        """Path of the property of a firmware item that names the slot of its device, as Location of the device's extension
        does.

        Seen: HPE DL380a Gen11, iLO 6 1.66 (recording hpe/dl380a-gen11-2xh100nvl): ``PCI-E Slot 14``; there is no RelatedItem.
        """
        return ('Oem', 'Hpe', 'DeviceContext') if self._made_by('hpe') else None

    def _made_by(self, name: str) -> bool:
        return (self.vendor or '').casefold() == name or name in {key.casefold() for key in self.oem}


_NODE_ACCELERATOR = re.compile(r'(?P<system>[A-Za-z0-9_-]+)\.Acc(?P<number>[0-9]{1,3})\.[A-Za-z0-9_]+')


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtOnce:
    """One measured row: which BMCs take more than one update, how many, and who saw it."""

    vendor: str
    product: str
    number: int
    evidence: str

    def matches(self, quirks: Quirks) -> bool:
        return fnmatchcase(quirks.vendor or '', self.vendor) and fnmatchcase(quirks.product or '', self.product)


_UPDATES_AT_ONCE: tuple[_AtOnce, ...] = ()

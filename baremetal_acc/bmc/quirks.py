# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The ways in which BMCs behave otherwise than the standard says, each with its evidence.

A quirk is a named question, asked of what a BMC says about itself. Each row carries its evidence; nothing else in the
package branches on who made a machine.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

BACKGROUND_COPY = ('Oem', 'Nvidia', 'BackgroundCopyStatus')
"""Where a root of trust says that it copies its image to its second flash: ``InProgress``, for minutes after an update.

Seen: recordings nvidia/gh200, chassis HGX_ERoT_GPU_0; sonic-net/sonic-mgmt#26697 (what is cut off then is lost)."""

INSTALLED_AT = (('Oem', 'Dell', 'DellSoftwareInventory', 'InstallationDate'),)
"""Where a firmware item says when it was written last.

Seen: recordings dell/r750-h100-bluefield2; ``NA`` of what came with the machine."""

RESTART_MESSAGES = frozenset({
    # DSP8011, message registries Base and Update.
    'ResetRequired', 'AwaitToActivate', 'AwaitToUpdate',
    # Dell, registry IDRAC: "Task successfully scheduled." (dell/iDRAC-Redfish-Scripting#166, #266).
    'JCP001',
})  # fmt: skip
"""MessageIds, without registry and version, of a task that goes on only once its host is restarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyReset:
    """An action that takes the standby power of a machine away and gives it back, with its BMC.

    :ivar name: of the action, below ``Actions/Oem`` or in a part of it.
    :ivar reset_type: the ResetType that does it, of a host that is off: none of them starts a host.
    :ivar more: what else is sent with it.
    """

    name: str
    reset_type: str
    more: tuple[tuple[str, str], ...] = ()


STANDBY_RESETS = (
    # Without Force it is refused while the host is on. Seen: recordings nvidia/gh200, chassis BMC_0; DGX GB200 user guide,
    # Redfish commands for the compute tray, virtual A/C cycle; NVIDIA/open-nvfwupd, RF_AUX_PWR_CYCLE.
    StandbyReset(name='#NvidiaChassis.AuxPowerReset', reset_type='AuxPowerCycle'),
    # Source: dell/dellemc-openmanage-ansible-modules, redfish_powerstate, oem_reset_type. No recording shows it.
    StandbyReset(name='#DellOemChassis.ExtendedReset', reset_type='PowerCycle', more=(('FinalPowerState', 'Off'),)),
    # Seen: recording hpe/dl380a-gen11-2xh100nvl, Systems/1.
    StandbyReset(name='#HpeComputerSystemExt.SystemReset', reset_type='AuxCycle'),
    # Seen: recording lenovo/sr670v2-8xl40-bluefield2, Systems/1.
    StandbyReset(name='#LenovoComputerSystem.SystemReset', reset_type='ACPowerCycle'),
)  # fmt: skip
"""Actions of makers, of a Chassis or of the System. None was tried on hardware."""

_RESTART = '(?:restart|reboot|reset|power[- ]?cycle)'

RESTART_NAMES = re.compile(
    rf'^(?!.*not?(?:required|{_RESTART})).*(?:{_RESTART}(?:required|pending|needed)|(?:pending|await|wait(?:ing)?for).*{_RESTART})',
    re.IGNORECASE,
)
"""What a MessageId of a maker is called that says the same; compare dell/iDRAC-Redfish-Scripting#266, server reboot pending."""

RESTART_WORDS = re.compile(
    r'^(?!.*\b(?:not|never|without)\b).*(?:'
    rf'\b(?:wait|pending|await|requir|need|next|after|upon|until).*(?:{_RESTART}|\bboot)'
    rf'|{_RESTART}.*\b(?:pending|requir|need)'
    r'|\bschedul)',
    re.IGNORECASE,
)
"""Words by which a task that has not begun says what it waits for; no BMC need use a MessageId of a registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """The quirks of one BMC.

    :ivar vendor: ServiceRoot.Vendor, or None.
    :ivar product: ServiceRoot.Product, or None.
    :ivar oem: the keys of ServiceRoot.Oem: who extended the service.
    """

    vendor: str | None = None
    product: str | None = None
    oem: frozenset[str] = frozenset()

    def updates_at_once(self) -> int:
        """How many updates the BMC takes at the same time.

        No BMC says so itself, and no real one was tried: the table is empty until somebody measures one.
        """
        return next((row.number for row in _UPDATES_AT_ONCE if row.matches(self)), 1)

    def item_id_ends_with_device_id(self) -> bool:
        """Ids of firmware items end with two underscores and the Id of the device's resource; there is no RelatedItem.

        Seen: Dell PowerEdge R750, iDRAC9 6.00.30.00 (recordings/dell/r750-h100-bluefield2): all 29 items, for example
        ``Installed-0-24.40.10.00__NIC.Slot.5-1``.
        """
        return self._made_by('dell')

    def inventory_keeps_old_versions(self) -> bool:
        """Items whose Id begins with Current- or Previous- repeat a component; Installed- is what runs.

        Seen: Dell PowerEdge R750, iDRAC9 6.00.30.00 (recordings/dell/r750-h100-bluefield2).
        """
        return self._made_by('dell')

    def device_extensions(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Collections of extension resources that are devices too: ``systems`` or ``chassis``, and where it links them.

        A member is the device whose serial number it has. Seen: Dell PowerEdge R750, iDRAC9 6.00.30.00 (the only place that
        shows the GPU's firmware version); HPE DL380a Gen11, iLO 6 1.66 (the only place that says which slot a GPU is in).
        """
        if self._made_by('dell'):
            return (('systems', ('Links', 'Oem', 'Dell', 'DellVideoCollection')),)
        if self._made_by('hpe'):
            return (('chassis', ('Oem', 'Hpe', 'Links', 'Devices')),)
        return ()

    def item_names_accelerator(self) -> re.Pattern[str]:
        """Ids of firmware items that name the System and the number of its accelerator; there is no RelatedItem.

        Seen: HPE Cray EX235n, two nodes behind one BMC (Cray-HPE/csm-redfish-interface-emulator, mockups/EX235n):
        ``Node0.Acc0.VBIOS`` of Systems/Node0/Processors/GPU0. Its root has neither Vendor nor Oem: what such an Id names is
        there, or it is not.
        """
        return _NODE_ACCELERATOR

    def item_slot(self) -> tuple[str, ...] | None:
        """Where a firmware item names the slot of its device, as the device's extension resource does in Location.

        Seen: HPE DL380a Gen11, iLO 6 1.66 (recordings/hpe/dl380a-gen11-2xh100nvl): ``PCI-E Slot 14``; there is no RelatedItem.
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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of a baseline, and the devices and nodes that each of them applies to."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from baremetal_acc.model.accelerator import Accelerator, Kind
from baremetal_acc.model.bmc_state import BmcSetting
from baremetal_acc.model.card_setting import CardSetting
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.ref import AcceleratorId, BmcName
from baremetal_acc.model.waiver import Waiver

DEFAULT_RULE = 'default'
"""Name of the default that holds where no rule decides."""


STANDARD_CLASSES = ('FPGA', 'PGPU')
"""The standard resource classes that a device may be claimed as. The other classes of os-resource-classes are counted by other
services: processors, memory, disks, addresses, and devices of virtual machines.
"""

FUNCTION_PREFIX = 'CUSTOM_ACC_FN_'
"""Prefix of the resource class and the trait of every function."""


class Exposure(StrEnum):
    """Whose code runs on the node: a tenant's, the operator's own, or nobody's."""

    TENANT = 'tenant'
    SERVICE = 'service'
    NONE = 'none'


class OnMissing(StrEnum):
    """What to do if no mechanism blocks a path that must be blocked: refuse, or apply the waiver of the same rule."""

    REFUSE = 'refuse'
    WAIVE = 'waive'


class Downgrade(StrEnum):
    """What to do if the demanded firmware has a lower security_version than the running firmware."""

    REFUSE = 'refuse'
    ALLOW = 'allow'


class DriftAction(StrEnum):
    """What to do if an active node differs from what was handed over. Every difference is logged and kept in the history, too.

    ``notify``: send a notification. ``reengage``: engage open locks again, where that needs no reset of the host.
    ``maintenance``: put the node into maintenance; its host keeps running.
    """

    NOTIFY = 'notify'
    REENGAGE = 'reengage'
    MAINTENANCE = 'maintenance'


class Measure(StrEnum):
    """Whether devices have to sign measurements of what they run.

    ``where-present``: every root of trust that offers measurements has to prove them. ``required``: every device has a root of
    trust, and the catalogue holds reference measurements for it.
    """

    REQUIRED = 'required'
    WHERE_PRESENT = 'where-present'
    OFF = 'off'


class Offering(StrEnum):
    """How a device can be claimed in placement.

    ``device``: as a whole. ``together``: all devices of one make in a node are one inventory with their number as the total.
    ``function``: a slot is claimed as the function that it verifiably holds, and not at all without one. ``region``: a slot is
    claimed whatever it holds, and can be given another function for each tenant. ``nothing``: not at all.
    """

    DEVICE = 'device'
    TOGETHER = 'together'
    FUNCTION = 'function'
    REGION = 'region'
    NOTHING = 'nothing'


class OnLeave(StrEnum):
    """Whether the function of a slot stays available in placement after a tenant has left the machine.

    ``keep``: the verified function stays available. ``remove``: the slot offers nothing until it is programmed again. Applies
    to slots that are offered as their function.
    """

    KEEP = 'keep'
    REMOVE = 'remove'


class Hideable(StrEnum):
    """Properties of a device that a rule can match and that a BMC may not report, named as in messages."""

    VENDOR = 'vendor'
    MODEL = 'model'
    PCI = 'PCI ids'
    LOCATION = 'location'
    SERIAL = 'serial number'
    PCI_ADDRESS = 'PCI address'


class _Text(NamedTuple):
    what: Hideable
    shown: str | None
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The properties of a node that rules can match.

    :ivar name: for messages.
    :ivar owner: the project that owns the node, as Ironic knows it.
    :ivar over_ipmi: whoever manages the node uses a BMC of it over IPMI. No rule matches it; what rests on it is kept.
    """

    name: str
    resource_class: str | None = None
    owner: str | None = None
    traits: frozenset[str] = frozenset()
    exposure: Exposure = Exposure.TENANT
    over_ipmi: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The devices and nodes that a rule applies to. Fields that are None or empty match all.

    Texts are shell patterns; case is ignored.

    :ivar location: location of the slot, as the inventory shows it.
    :ivar pci_address: pattern over PCI addresses in normal form, as :func:`baremetal_acc.model.pci_address.pattern` makes it.
    :ivar ids: only these devices; for rules that a job adds, a baseline file cannot name them.
    """

    kind: Kind | None = None
    vendor: str | None = None
    model: str | None = None
    pci: str | None = None
    location: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    traits: frozenset[str] = frozenset()
    resource_class: str | None = None
    owner: str | None = None
    exposure: Exposure | None = None
    ids: frozenset[AcceleratorId] = frozenset()

    def node(self, node: NodeFacts) -> bool:
        """Whether the node part of the match holds."""
        return (
            (self.resource_class is None or _like(node.resource_class, self.resource_class))
            and (self.owner is None or _like(node.owner, self.owner))
            and (self.exposure is None or node.exposure is self.exposure)
        )  # fmt: skip

    def device(self, accelerator: Accelerator, node: NodeFacts) -> bool:
        """Whether the node part and the device part hold."""
        return self._definite(accelerator, node) and all(_like(t.shown, t.pattern) for t in self._texts(accelerator))

    def undecided(self, accelerator: Accelerator, node: NodeFacts) -> bool:
        """Whether the rule may apply to the device.

        The BMC does not report all properties that the rule matches, and those that it reports match.
        """
        return (
            self._definite(accelerator, node)
            and bool(self.hidden(accelerator))
            and all(t.shown is None or _like(t.shown, t.pattern) for t in self._texts(accelerator))
        )

    def hidden(self, accelerator: Accelerator) -> tuple[Hideable, ...]:
        """Return the properties that the rule matches and the BMC does not report of a device."""
        return tuple(t.what for t in self._texts(accelerator) if t.shown is None)

    def of_one_card(self) -> tuple[Hideable, ...]:
        """Return the matched properties that tell one card from another of its model."""
        keys = ((Hideable.LOCATION, self.location), (Hideable.SERIAL, self.serial), (Hideable.PCI_ADDRESS, self.pci_address))
        return tuple(what for what, pattern in keys if pattern is not None)

    def _definite(self, accelerator: Accelerator, node: NodeFacts) -> bool:
        """Whether every condition holds whose value is always known."""
        return (
            self.node(node)
            and (not self.ids or accelerator.id in self.ids)
            and (self.kind is None or accelerator.kind is self.kind)
            and self.traits <= (accelerator.traits | node.traits)
        )

    def _texts(self, accelerator: Accelerator) -> Iterator[_Text]:
        """Yield each text property that the rule matches, with the reported value (None if there is none) and the pattern."""
        pci = accelerator.pci
        ids = None if pci.vendor_id is None or pci.device_id is None else f'{pci.vendor_id}:{pci.device_id}'
        for what, shown, pattern in (
            (Hideable.VENDOR, accelerator.vendor, self.vendor),
            (Hideable.MODEL, accelerator.model, self.model),
            (Hideable.PCI, ids, self.pci),
            (Hideable.LOCATION, accelerator.location, self.location),
            (Hideable.SERIAL, accelerator.serial, self.serial),
            (Hideable.PCI_ADDRESS, pci.address, self.pci_address),
        ):
            if pattern is not None:
                yield _Text(what, shown, pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSettingDemand:
    """What a rule demands of one setting of a card.

    :ivar expected: the value that every property of the setting has to show.
    :ivar restores: a plan sets another value back to it, where a mechanism can.
    """

    setting: CardSetting
    expected: str
    restores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One ``[[rule]]`` of the baseline. A key that is None decides nothing and leaves the decision to later rules.

    :ivar firmware: pairs of a pattern over SoftwareInventory Ids and the version that must run.
    :ivar functions: pairs of a pattern over SlotIds and the name of the function that must be in the slot.
    :ivar block: write paths that must be blocked.
    :ivar count: how many devices of the node must match.
    :ivar security_floor: no image with a lower security_version is written.
    :ivar downgrade: whether the versions of this very rule may lower the security_version; None refuses.
    :ivar revocations: names of revocation images that must be in force.
    :ivar waiver: the paths that ``waive`` of this very rule leaves open.
    :ivar tenants_program: whether a tenant may have functions programmed into slots of the device; None: no.
    :ivar on_drift: what to do if the device differs from what was handed over, while a tenant has the node.
    :ivar measure: whether the device has to sign measurements of what it runs.
    :ivar custody: what is demanded of the custody chain of the device.
    :ivar offer: how the device can be claimed; ``offer_class`` as which resource class, None: the class of its kind.
    :ivar takes: names of the functions that its slots may be given for a tenant; None: every function that fits.
    :ivar on_leave: whether the functions of its slots stay offered after a tenant has left the machine; None: they do.
    :ivar bmc_users: the accounts that may log in to the BMCs that report the device, where the accounts of these BMCs are read
        (by IPMI), as :func:`~baremetal_acc.policy.accounts.limits` takes them; None: any account.
    :ivar sriov: whether the device may have virtual functions; ``dpu_mode``: the mode of a DPU. None: any.
    """

    name: str
    match: Match
    firmware: tuple[tuple[str, str], ...] | None = None
    downgrade: Downgrade | None = None
    revocations: tuple[str, ...] | None = None
    functions: tuple[tuple[str, str], ...] | None = None
    block: frozenset[WritePath] | None = None
    accept: frozenset[LockState] | None = None
    on_missing: OnMissing | None = None
    waiver: Waiver | None = None
    count: int | None = None
    security_floor: int | None = None
    tenants_program: bool | None = None
    on_drift: frozenset[DriftAction] | None = None
    measure: Measure | None = None
    custody: CustodyDemand | None = None
    offer: Offering | None = None
    offer_class: str | None = None
    takes: tuple[str, ...] | None = None
    on_leave: OnLeave | None = None
    bmc_users: tuple[str, ...] | None = None
    sriov: CardSettingDemand | None = None
    dpu_mode: CardSettingDemand | None = None


class BmcProtocol(StrEnum):
    """The protocol by which a BMC of a target is read."""

    REDFISH = 'redfish'
    IPMI = 'ipmi'


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcMatch:
    """The BMCs that a rule of ``[bmc]`` applies to. Fields that are None match all; texts are shell patterns, case is ignored.

    :ivar bmc: name of the BMC in its target.
    """

    bmc: str | None = None
    protocol: BmcProtocol | None = None
    resource_class: str | None = None
    owner: str | None = None
    exposure: Exposure | None = None

    def node(self, node: NodeFacts) -> bool:
        """Whether the node part of the match holds."""
        return Match(resource_class=self.resource_class, owner=self.owner, exposure=self.exposure).node(node)

    def matches(self, bmc: BmcName, protocol: BmcProtocol, node: NodeFacts) -> bool:
        """Whether the rule applies to a BMC."""
        named = self.bmc is None or _like(bmc, self.bmc)
        return named and self.protocol in (None, protocol) and self.node(node)


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcDemand:
    """What a rule demands of one setting of a BMC.

    :ivar expected: the values of which one has to be shown; of accounts and event subscriptions, all that are allowed; of the
        TLS certificate, patterns over the common name of the issuer.
    :ivar accepts_absent: a BMC that does not show the setting meets the demand.
    :ivar days_left: of the TLS certificate: how many days it has to be valid for.
    :ivar restore: a job restores the setting where it differs.
    """

    setting: BmcSetting
    expected: tuple[str, ...]
    accepts_absent: bool = False
    days_left: int | None = None
    restore: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcRule:
    """One rule of ``[bmc]``: what must hold of each BMC that it matches.

    :ivar demands: at most one for each setting.
    """

    name: str
    match: BmcMatch
    demands: tuple[BmcDemand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All rules, in order.

    :ivar granted: rules that hold the waivers granted for the node in addition to the baseline: these waivers come before those
        of rules, and take none away.
    :ivar bmc: the rules for the settings of BMCs.
    :ivar serial: a number that rises with every change; None where the operator does not count.
    :ivar expires: time after which no image is written any more; None: never.
    """

    rules: tuple[Rule, ...]
    granted: tuple[Rule, ...] = ()
    bmc: tuple[BmcRule, ...] = ()
    serial: int | None = None
    expires: datetime | None = None


def _like(text: str | None, pattern: str) -> bool:
    """Match a text against a pattern. A text with brackets also matches itself literally: slot labels contain brackets."""
    if text is None:
        return False
    shown, wanted = text.casefold(), pattern.casefold()
    return shown == wanted or fnmatchcase(shown, wanted)

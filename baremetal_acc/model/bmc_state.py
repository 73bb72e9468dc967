# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of a BMC that rules of ``[bmc]`` can demand, and what a BMC shows of them.

Only the settings that a rule names are read. Passwords are never read, and of the URI of an event destination only its scheme,
host, port and path are kept: the rest may hold credentials.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.ref import Ref


class BmcSetting(StrEnum):
    """Settings of a BMC, named as the keys of ``[bmc]``.

    The properties are those of DSP8010 2025.4, each named with the first version of the schema that has it.

    ``firmware_version``: Manager v1_0_0, FirmwareVersion. ``accounts``: ManagerAccount v1_0_0, UserName, Enabled, RoleId.
    ``bootstrap_accounts``: HostInterface v1_3_0, CredentialBootstrapping.Enabled. ``ipmi_over_lan``: ManagerNetworkProtocol
    v1_0_0, IPMI.ProtocolEnabled. ``host_interfaces``: HostInterface v1_0_0, InterfaceEnabled. ``virtual_media``: VirtualMedia
    v1_0_0, Inserted. ``event_subscriptions``: EventDestination v1_0_0, Destination. ``boot_override``: ComputerSystem v1_0_0,
    Boot.BootSourceOverrideEnabled and BootSourceOverrideTarget. ``serial_over_lan``: ComputerSystem v1_13_0, SerialConsole;
    Manager v1_0_0, SerialConsole. ``tls_certificate``: ManagerNetworkProtocol v1_4_0, HTTPS.Certificates; Certificate v1_0_0,
    Issuer and ValidNotAfter.
    """

    FIRMWARE_VERSION = 'firmware_version'
    ACCOUNTS = 'accounts'
    BOOTSTRAP_ACCOUNTS = 'bootstrap_accounts'
    IPMI_OVER_LAN = 'ipmi_over_lan'
    HOST_INTERFACES = 'host_interfaces'
    VIRTUAL_MEDIA = 'virtual_media'
    EVENT_SUBSCRIPTIONS = 'event_subscriptions'
    BOOT_OVERRIDE = 'boot_override'
    SERIAL_OVER_LAN = 'serial_over_lan'
    TLS_CERTIFICATE = 'tls_certificate'


ENABLED, DISABLED = 'enabled', 'disabled'
"""The values of a setting that is a switch."""

INSERTED, EJECTED = 'inserted', 'ejected'
"""The values of a drive for virtual media."""

NO_OVERRIDE = 'None'
"""The boot override of a System that boots as its BIOS says. Source: DSP8010 2025.4, ComputerSystem, BootSource."""

DELETED = 'deleted'
"""What a resource is that was deleted."""

RESTORED_TO: Mapping[BmcSetting, str] = MappingProxyType(
    {
        BmcSetting.ACCOUNTS: DISABLED,
        BmcSetting.BOOTSTRAP_ACCOUNTS: DISABLED,
        BmcSetting.IPMI_OVER_LAN: DISABLED,
        BmcSetting.HOST_INTERFACES: DISABLED,
        BmcSetting.VIRTUAL_MEDIA: EJECTED,
        BmcSetting.EVENT_SUBSCRIPTIONS: DELETED,
        BmcSetting.BOOT_OVERRIDE: NO_OVERRIDE,
        BmcSetting.SERIAL_OVER_LAN: DISABLED,
    }
)
"""The settings that can be restored, each with the only value that it is restored to. No standard property or action of Redfish
restores the others."""


class KeptReason(StrEnum):
    """Why a setting, or a part of it, is not restored although its rule says so.

    The first three are what the target itself rests on: a plan that would have to write it is refused.

    ``own_account``: the account with which the BMC is read. ``own_ipmi``: a BMC of the target is used over IPMI.
    ``own_interface``: the BMC is used through the host interface. ``uncertain_account``: the account cannot be told apart from
    those with which BMCs of the target are used. ``listed_account``: the rule lists an account of that name.
    ``several_machines``: the BMC serves several machines. ``too_many``: more than one job restores.
    """

    OWN_ACCOUNT = 'own_account'
    OWN_IPMI = 'own_ipmi'
    OWN_INTERFACE = 'own_interface'
    UNCERTAIN_ACCOUNT = 'uncertain_account'
    LISTED_ACCOUNT = 'listed_account'
    SEVERAL_MACHINES = 'several_machines'
    TOO_MANY = 'too_many'


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownValue:
    """One property of a BMC that a setting rests on.

    :ivar field: path of the property in the resource, with ``/``.
    :ivar value: in the words of the rules (``enabled``), or as the BMC shows it; None where the resource lacks the property.
    """

    setting: BmcSetting
    ref: Ref
    field: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAccount:
    """An account that may log in over Redfish.

    :ivar name: UserName as the BMC shows it; empty where it shows none.
    :ivar role: RoleId, or None.
    :ivar is_own: the account that read this.
    :ivar is_bootstrap: HostBootstrapAccount: software on the host created it through the host interface.
    :ivar may_be_own: its name is that of an account with which some BMC of the target is used, in any case of letters.
    """

    ref: Ref
    name: str
    role: str | None
    is_own: bool = False
    is_bootstrap: bool = False
    may_be_own: bool = field(default=False, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCertificate:
    """A certificate that the BMC's HTTPS service uses.

    :ivar issuer: common name of the issuer, or None.
    :ivar not_after: when the certificate ends, or None.
    """

    ref: Ref
    issuer: str | None
    not_after: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadSetting:
    """A setting that could not be read completely.

    :ivar ref: the resource that could not be read, or is malformed.
    """

    setting: BmcSetting
    ref: Ref
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcState:
    """What one BMC shows of the settings that rules name.

    :ivar asked: the settings that were read.
    :ivar present: those of them that the BMC shows; a list that is shown and empty counts.
    """

    asked: frozenset[BmcSetting]
    present: frozenset[BmcSetting] = frozenset()
    values: tuple[ShownValue, ...] = ()
    accounts: tuple[ShownAccount, ...] = ()
    certificates: tuple[ShownCertificate, ...] = ()
    unread: tuple[UnreadSetting, ...] = ()

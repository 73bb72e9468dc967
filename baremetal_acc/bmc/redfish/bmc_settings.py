# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the settings of a BMC that rules name: accounts, protocols, host interfaces, virtual media, subscriptions, certificates.

Only standard properties are read (:class:`~baremetal_acc.model.bmc_state.BmcSetting` names them with their versions), and only
those of the settings that are asked for. All Managers of the BMC count, since each may have network services of its own; the
boot override and the serial console are those of the machine's System. A link that leads to nothing (HTTP 404) is a resource
that the BMC does not show; a listed member that cannot be read, or lacks what names it, leaves its setting unread.

Seen on real BMCs: CredentialBootstrapping is absent on half of them; a second Manager (of a GPU baseboard) without IPMI and
without host interfaces; a System that links to the VirtualMedia of its Manager; a SerialConsole of the System only on recent
BMCs, and a Manager's SerialConsole that is enabled whatever the System says.

Source: DSP8010 2025.4; doc/source/reference/redfish_notes.rst, "Settings of the BMC".
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.redfish.collection_members import link_of
from baremetal_acc.bmc.redfish.parse import LONGEST, ResourceView
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.resource_table import Found
from baremetal_acc.errors import BmcError, is_not_found
from baremetal_acc.model.bmc_state import (
    DISABLED,
    EJECTED,
    ENABLED,
    INSERTED,
    NO_OVERRIDE,
    BmcSetting,
    BmcState,
    ShownAccount,
    ShownCertificate,
    ShownValue,
    UnreadSetting,
)
from baremetal_acc.model.ref import Ref

MOST = 256
"""Members of one collection that are read. Real BMCs have up to some forty accounts; a longer list is not read completely."""

_OF_MANAGERS = frozenset(BmcSetting) - {BmcSetting.ACCOUNTS, BmcSetting.EVENT_SUBSCRIPTIONS, BmcSetting.BOOT_OVERRIDE}
_OF_SYSTEM = frozenset({BmcSetting.VIRTUAL_MEDIA, BmcSetting.BOOT_OVERRIDE, BmcSetting.SERIAL_OVER_LAN})
_OF_INTERFACES = frozenset({BmcSetting.HOST_INTERFACES, BmcSetting.BOOTSTRAP_ACCOUNTS})
_OF_PROTOCOLS = frozenset({BmcSetting.IPMI_OVER_LAN, BmcSetting.TLS_CERTIFICATE})

_CONSOLES = ('IPMI', 'SSH', 'Telnet', 'WebSocket')
"""The protocols of ComputerSystem.SerialConsole. Source: DSP8010 2025.4, ComputerSystem v1_27_0, HostSerialConsole."""

_NO_SYSTEM = 'which System is that of the machine is unknown'

BOOT_FIELD = 'Boot/BootSourceOverrideTarget'
"""Field of the boot override of a System."""

Settings = frozenset[BmcSetting]


def read(
    reader: RedfishReader, root: ResourceView, asked: Settings, *, system: Ref | None, manager: str | None, username: str | None
) -> BmcState:
    """Read settings of a BMC. What fails is reported as unread; the call never raises for an answer of the BMC.

    :param system: the System of the machine.
    :param manager: URI of the Manager that runs the BMC's firmware, None where that is unknown.
    :param username: of our own account.
    """
    walk = _Walk(reader, asked, manager, username)
    walk.begin(ResourceView(root.ref, root.body, []), system)
    reader.run()
    return walk.state()


class _Walk:
    """One read: each answer decides what is read next."""

    def __init__(self, reader: RedfishReader, asked: Settings, manager: str | None, username: str | None) -> None:
        self._reader = reader
        self._asked = asked
        self._manager = manager
        self._username = username
        self._present: set[BmcSetting] = set()
        self._values: set[ShownValue] = set()
        self._accounts: set[ShownAccount] = set()
        self._certificates: set[ShownCertificate] = set()
        self._unread: set[UnreadSetting] = set()
        self._consoles_of_managers: list[ResourceView] = []

    def begin(self, root: ResourceView, system: Ref | None) -> None:
        asked = self._asked
        if _OF_MANAGERS & asked:
            self._members(root.link('Managers'), _OF_MANAGERS & asked, self._manager_read, empty_counts=False)
        if BmcSetting.ACCOUNTS in asked:
            self._service(root, 'AccountService', 'Accounts', BmcSetting.ACCOUNTS, self._account)
        if BmcSetting.EVENT_SUBSCRIPTIONS in asked:
            self._service(root, 'EventService', 'Subscriptions', BmcSetting.EVENT_SUBSCRIPTIONS, self._subscription)
        if _OF_SYSTEM & asked and system is not None:
            self._one(system.uri, _OF_SYSTEM & asked, self._system, is_listed=True)
        elif BmcSetting.BOOT_OVERRIDE in asked:
            self._miss({BmcSetting.BOOT_OVERRIDE}, root.ref, _NO_SYSTEM)

    def state(self) -> BmcState:
        """Everything that was read, in an order that does not depend on that of the answers."""
        if not any(v.setting is BmcSetting.SERIAL_OVER_LAN for v in self._values):
            for view in self._consoles_of_managers:
                self._switch(BmcSetting.SERIAL_OVER_LAN, view, 'SerialConsole', 'ServiceEnabled')
        return BmcState(
            asked=self._asked,
            present=frozenset(self._present),
            values=tuple(sorted(self._values, key=lambda v: (v.setting, v.ref, v.field, v.value or ''))),
            accounts=tuple(sorted(self._accounts, key=lambda a: (a.ref, a.name))),
            certificates=tuple(sorted(self._certificates, key=lambda c: c.ref)),
            unread=tuple(sorted(self._unread, key=lambda u: (u.setting, u.ref, u.reason))),
        )

    # ---- resources ----

    def _manager_read(self, view: ResourceView) -> None:
        asked = self._asked
        is_own = self._manager in (None, view.ref.uri)
        if BmcSetting.FIRMWARE_VERSION in asked and is_own:
            self._literal(BmcSetting.FIRMWARE_VERSION, view, 'FirmwareVersion')
        if BmcSetting.SERIAL_OVER_LAN in asked and view.has('SerialConsole'):
            self._consoles_of_managers.append(view)
        if BmcSetting.VIRTUAL_MEDIA in asked:
            self._members(view.link('VirtualMedia'), {BmcSetting.VIRTUAL_MEDIA}, self._medium)
        if _OF_INTERFACES & asked:
            self._members(view.link('HostInterfaces'), _OF_INTERFACES & asked, self._interface)
        if _OF_PROTOCOLS & asked:
            self._one(view.link('NetworkProtocol'), _OF_PROTOCOLS & asked, self._protocols)
        self._odd(view, _OF_MANAGERS & asked)

    def _protocols(self, view: ResourceView) -> None:
        if BmcSetting.IPMI_OVER_LAN in self._asked:
            self._switch(BmcSetting.IPMI_OVER_LAN, view, 'IPMI', 'ProtocolEnabled')
        if BmcSetting.TLS_CERTIFICATE in self._asked:
            self._members(
                view.link('HTTPS', 'Certificates'), {BmcSetting.TLS_CERTIFICATE}, self._certificate, empty_counts=False
            )
        self._odd(view, _OF_PROTOCOLS & self._asked)

    def _interface(self, view: ResourceView) -> None:
        if BmcSetting.HOST_INTERFACES in self._asked:
            self._switch(BmcSetting.HOST_INTERFACES, view, 'InterfaceEnabled', is_member=True)
        if BmcSetting.BOOTSTRAP_ACCOUNTS in self._asked:
            self._switch(BmcSetting.BOOTSTRAP_ACCOUNTS, view, 'CredentialBootstrapping', 'Enabled', is_member=True)
        self._odd(view, _OF_INTERFACES & self._asked)

    def _medium(self, view: ResourceView) -> None:
        self._value(BmcSetting.VIRTUAL_MEDIA, view, 'Inserted', medium_of(view))
        self._odd(view, {BmcSetting.VIRTUAL_MEDIA})

    def _system(self, view: ResourceView) -> None:
        asked = self._asked
        if BmcSetting.VIRTUAL_MEDIA in asked:
            self._members(view.link('VirtualMedia'), {BmcSetting.VIRTUAL_MEDIA}, self._medium)
        if BmcSetting.SERIAL_OVER_LAN in asked:
            for protocol in _CONSOLES:
                self._switch(BmcSetting.SERIAL_OVER_LAN, view, 'SerialConsole', protocol, 'ServiceEnabled')
        if BmcSetting.BOOT_OVERRIDE in asked:
            self._boot(view)
        self._odd(view, _OF_SYSTEM & asked)

    def _boot(self, view: ResourceView) -> None:
        boot = view.part('Boot')
        if boot is None:
            return
        if boot.body.get('BootSourceOverrideEnabled') is None:
            return
        self._present.add(BmcSetting.BOOT_OVERRIDE)
        found = boot_source(boot)
        if found is None:
            self._miss({BmcSetting.BOOT_OVERRIDE}, view.ref, 'Boot: no boot override that DSP8010 knows')
            return
        self._value(BmcSetting.BOOT_OVERRIDE, view, BOOT_FIELD, found)

    def _account(self, view: ResourceView) -> None:
        name, enabled = view.body.get('UserName'), view.boolean('Enabled')
        if enabled is False:
            return
        if name is not None and (not isinstance(name, str) or len(name) > LONGEST):
            self._miss({BmcSetting.ACCOUNTS}, view.ref, 'UserName is no text, or is too long')
            return
        self._accounts.add(
            ShownAccount(
                ref=view.ref,
                name=name or '',
                role=view.literal('RoleId'),
                is_own=name is not None and name == self._username,
                is_bootstrap=view.boolean('HostBootstrapAccount') is True,
            )
        )
        self._odd(view, {BmcSetting.ACCOUNTS})

    def _subscription(self, view: ResourceView) -> None:
        origin = destination_of(view)
        if origin is None:
            self._miss({BmcSetting.EVENT_SUBSCRIPTIONS}, view.ref, 'Destination is missing, or no URI')
            return
        self._value(BmcSetting.EVENT_SUBSCRIPTIONS, view, 'Destination', origin)

    def _certificate(self, view: ResourceView) -> None:
        text = view.literal('ValidNotAfter')
        self._certificates.add(
            ShownCertificate(
                ref=view.ref, issuer=view.literal('Issuer', 'CommonName'), not_after=None if text is None else _time(text)
            )
        )
        self._present.add(BmcSetting.TLS_CERTIFICATE)
        self._odd(view, {BmcSetting.TLS_CERTIFICATE})

    # ---- properties ----

    def _switch(self, setting: BmcSetting, view: ResourceView, *path: str, is_member: bool = False) -> None:
        """Note a property that is true or false. Of a listed member it is noted also where it is absent."""
        value = switch_of(view, *path)
        if value is not None or is_member:
            self._value(setting, view, '/'.join(path), value)

    def _literal(self, setting: BmcSetting, view: ResourceView, name: str) -> None:
        value = view.literal(name)
        if value is not None:
            self._value(setting, view, name, value)

    def _value(self, setting: BmcSetting, view: ResourceView, field: str, value: str | None) -> None:
        self._present.add(setting)
        self._values.add(ShownValue(setting=setting, ref=view.ref, field=field, value=value))

    def _odd(self, view: ResourceView, settings: Iterable[BmcSetting]) -> None:
        """Report malformed properties of a resource: they may hide what its settings are."""
        for gap in view.gaps:
            self._miss(settings, view.ref, f'{gap.field}: {gap.reason}')

    def _miss(self, settings: Iterable[BmcSetting], ref: Ref, reason: str) -> None:
        self._unread.update(UnreadSetting(setting=setting, ref=ref, reason=reason) for setting in settings)

    # ---- requests ----

    def _service(
        self, root: ResourceView, name: str, collection: str, setting: BmcSetting, then: Callable[[ResourceView], None]
    ) -> None:
        def service(view: ResourceView) -> None:
            self._members(view.link(collection), {setting}, then)
            self._odd(view, {setting})

        self._one(root.link(name), {setting}, service)

    def _one(
        self, link: str | None, settings: Iterable[BmcSetting], then: Callable[[ResourceView], None], *, is_listed: bool = False
    ) -> None:
        """Read a resource; without a link there is none. A listed one has to be there."""
        named = frozenset(settings)

        def here(found: Found) -> None:
            if isinstance(found, Document):
                then(ResourceView.of(found, []))
            elif is_listed or not is_not_found(found):
                self._miss(named, self._ref(link or ''), _why(found))

        if link is not None:
            self._reader.want(link, here)

    def _members(
        self,
        link: str | None,
        settings: Iterable[BmcSetting],
        then: Callable[[ResourceView], None],
        *,
        empty_counts: bool = True,
    ) -> None:
        """Read the members of a collection.

        :param empty_counts: a collection without members shows its settings.
        """
        named = frozenset(settings)

        def here(found: Found) -> None:
            if not isinstance(found, Document):
                if not is_not_found(found):
                    self._miss(named, self._ref(link or ''), _why(found))
                return
            listed = found.body.get('Members')
            links = [link_of(member) for member in listed] if isinstance(listed, list) else []
            if empty_counts:
                self._present.update(named)
            if None in links:
                self._miss(named, found.ref, 'a member is no link')
            unique = list(dict.fromkeys(filter(None, links)))
            if len(unique) > MOST:
                self._miss(named, found.ref, f'{len(unique)} members, of which {MOST} were read')
            for member in unique[:MOST]:
                self._one(member, named, then, is_listed=True)

        if link is not None:
            self._reader.want(link, here, whole=True)

    def _ref(self, link: str) -> Ref:
        try:
            return self._reader.ref(link)
        except BmcError:
            return Ref(bmc=self._reader.name, uri='/')


def _why(found: Found) -> str:
    return found.what if isinstance(found, BmcError) else 'could not be read'


def switch_of(view: ResourceView, *path: str) -> str | None:
    """A property that is true or false, in the words of the rules; None where there is none."""
    value = view.boolean(*path)
    return None if value is None else ENABLED if value else DISABLED


def medium_of(view: ResourceView) -> str | None:
    """Whether a VirtualMedia has a medium, in the words of the rules; None where it does not say so."""
    inserted = view.boolean('Inserted')
    return None if inserted is None else INSERTED if inserted else EJECTED


def boot_source(boot: ResourceView) -> str | None:
    """The boot override of the Boot of a System; None where it is none that DSP8010 knows."""
    # The word None is a value here, not a placeholder for one.
    enabled, target = boot.body.get('BootSourceOverrideEnabled'), boot.body.get('BootSourceOverrideTarget')
    if enabled not in ('Disabled', 'Once', 'Continuous'):
        return None
    return NO_OVERRIDE if enabled == 'Disabled' or target == NO_OVERRIDE else boot.literal('BootSourceOverrideTarget')


def destination_of(view: ResourceView) -> str | None:
    """Scheme, host and port of the Destination of an EventDestination; None where it is missing, or no URI."""
    place = view.body.get('Destination')
    return _origin(place) if isinstance(place, str) else None


def _origin(destination: str) -> str | None:
    """Scheme, host and port of a URI, which hold no credentials; None if it is none."""
    try:
        parts = urlsplit(destination.strip()[: 4 * LONGEST])
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not parts.scheme or not host or not host.isprintable() or len(host) > LONGEST:
        return None
    shown = f'[{host}]' if ':' in host else host
    return f'{parts.scheme}://{shown}' if port is None else f'{parts.scheme}://{shown}:{port}'


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None

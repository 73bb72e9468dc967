# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the host privileges of a BlueField DPU from its BMC: shared by its three lock mechanisms, and no mechanism itself.

A BMC shows up to three settings, by its firmware: the level (a BIOS attribute), explicit privileges (ExternalHostPrivileges, up
to 25.07) and a preset (HostPrivilegeConfig, since 25.10). Each is written by itself, and any of them closes the card's own
interface to the host. Which of two is in effect when one says open and another closed is not documented, so such a card proves
nothing. HostRshim is no fourth setting but a way in of its own, a console port by which the host writes whole images: whatever
closes the rest, HostRshim has to be closed too.

Source: NVIDIA BlueField BMC Software 25.01 and 26.01, NIC Subsystem Management; CSDL NvidiaHostPrivilegeConfig v1_0_0;
recording nvidia/bluefield3; doc/source/reference/redfish_notes.rst, "Locks of NVIDIA".
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from baremetal_acc.bmc.driver import CardLead, Document, JsonObject, Reader, Writer
from baremetal_acc.errors import BmcError, BmcUnsupported
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import MISSING, Readers, literal, meant, reading, value_at, where
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning.lock_evidence import trouble

LEVELS = ('HostPrivilegeLevel', 'Host Privilege Level')
"""Names of the BIOS attribute, by firmware."""

RSHIM = 'HostRshim'
SET_RSHIM = '#HostRshim.Set'

RESTRICTED, PRIVILEGED = 'Restricted', 'Privileged'
DISABLED, ENABLED, DEFAULT = 'Disabled', 'Enabled', 'Default'

WRITES = ('HostPrivFwUpdate', 'HostPrivFlashAccess')
"""The host writes firmware by these two privileges: a card that does not show both cannot be judged."""

HARMLESS = frozenset({'HostPrivNicReset', 'NicReset'})
"""Privileges that write nothing, since they reset the card only: they may stay as they are."""

SETTINGS_WRITE = ('FirmwareUpdate', 'FlashAccess')
"""The same two privileges in a HostPrivilegeConfig."""


@dataclass(slots=True, kw_only=True)
class Card:
    """What the System of a card and its network adapters show. ``MISSING`` stands for what they do not show.

    :ivar system: the System.
    :ivar level: in effect, and ``pending``: what is set to take effect.
    :ivar privileges: the explicit ones; ``privileges_at``: the resource that shows them.
    :ivar presets: of each adapter: the resource, what is in effect, what is set.
    :ivar unreadable: why each of the settings could not be read, by its name.
    """

    system: Ref
    level: object = MISSING
    pending: object = MISSING
    rshim: object = MISSING
    privileges: object = MISSING
    privileges_at: Ref | None = None
    presets: list[tuple[Ref, JsonObject, JsonObject | None]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)

    def why_not(self, *places: str) -> str | None:
        """Return why one of these settings could not be read."""
        return '; '.join(self.unreadable[place] for place in places if place in self.unreadable) or None

    def contradicts(self, mechanism: str) -> str | None:
        """Return which other setting says that the card is open, or could not be read: then it is unknown what is in effect."""
        is_open = {'level': self.level_is_open, 'privileges': self.privileges_are_open, 'preset': self.preset_is_open}
        for place, says in is_open.items():
            if place != mechanism and says:
                return (
                    f'the {place} of this card shows that its host is not restricted, and it is unknown which of them '
                    'is in effect'
                )
            if place != mechanism and place in self.unreadable:
                return f'the other restrictions of its host by this card could not be read: {self.unreadable[place]}'
        return None

    @property
    def level_is_open(self) -> bool:
        """Whether the level is open, and not about to change."""
        return self.level == PRIVILEGED and self.pending in (MISSING, PRIVILEGED)

    @property
    def privileges_are_open(self) -> bool:
        """Whether a privilege by which firmware is written is enabled; Default leaves it to the level."""
        return isinstance(self.privileges, Mapping) and any(self.privileges.get(name) == ENABLED for name in WRITES)

    @property
    def preset_is_open(self) -> bool:
        """Whether the preset of an adapter is open, and not about to change."""
        return any(_is_open(now) and (set_ is None or _is_open(set_)) for _, now, set_ in self.presets)

    def with_rshim(self, closed: bool) -> tuple[LockState, str | None]:
        """Return the state that a closed interface, or an open one, has together with the console port."""
        if self.rshim is not MISSING and self.rshim not in (DISABLED, ENABLED):
            return LockState.UNKNOWN, f'unknown value: {literal({RSHIM: self.rshim})}'
        if closed and self.rshim == DISABLED:
            return LockState.LOCKED_REPORTED, None
        if closed:
            return LockState.PARTIAL, f'{RSHIM} is open or not shown'
        if self.rshim == DISABLED:
            return LockState.PARTIAL, f'only {RSHIM} is closed'
        return LockState.UNLOCKED, None


def _is_open(body: JsonObject) -> bool:
    """Whether the host may write firmware by a HostPrivilegeConfig: by its mode, or by a single setting."""
    settings = [value_at(body, 'PrivilegeSettings', name) for name in SETTINGS_WRITE]
    return body.get('PrivilegeMode') == PRIVILEGED or ENABLED in settings


def cards(accelerator: Accelerator, readers: Iterable[Reader]) -> Iterator[tuple[Card, Reader]]:
    """List each System of a device, with what it and the adapters on the same BMC show."""
    by_bmc = Readers(readers)
    for ref in accelerator.refs:
        reader = by_bmc.of(ref.bmc)
        if reader is None or ref.uri.rsplit('/', 1)[0] != '/redfish/v1/Systems':
            continue
        card = Card(system=ref)
        system, why = by_bmc.document(ref)
        if system is None:
            card.unreadable['system'] = str(why)
        else:
            _read_level(card, reader, system)
            _read_extension(card, reader, system)
        _read_presets(card, reader, accelerator)
        yield card, reader


def _read_level(card: Card, reader: Reader, system: Document) -> None:
    fields = [f'Attributes/{name}' for name in LEVELS]
    bios = _linked(card, 'level', reader, value_at(system.body, 'Bios', '@odata.id'), *fields)
    if bios is None:
        return
    name, card.level = level(bios.body)
    if name is not None:
        settings = _linked(card, 'level', reader, settings_of(bios), *fields)
        if settings is not None:
            card.pending = value_at(settings.body, 'Attributes', name)


def _read_extension(card: Card, reader: Reader, system: Document) -> None:
    """Read HostRshim and the link to the privileges, in the System itself or in a resource that it links."""
    extension = value_at(system.body, 'Oem', 'Nvidia')
    if not isinstance(extension, Mapping):
        if card.level is MISSING:
            card.unreadable.pop('level', None)  # without the extension, an unreadable Bios does not concern this mechanism
        return
    link = value_at(extension, '@odata.id')
    if RSHIM not in extension:
        whole = _linked(card, 'rshim', reader, link, RSHIM)
        extension = whole.body if whole is not None else extension
    else:
        _note_trouble(card, 'rshim', system.ref.uri, system.body, f'Oem/Nvidia/{RSHIM}')
    card.rshim = value_at(extension, RSHIM)
    link = value_at(extension, 'Connectx', 'ExternalHostPrivilege', '@odata.id')
    shown = _linked(card, 'privileges', reader, link, *(f'ExternalHostPrivilege/{name}' for name in WRITES))
    if isinstance(link, str):
        card.privileges_at = Ref(bmc=reader.name, uri=meant(reader, link) or link)
    if shown is not None:
        card.privileges = value_at(shown.body, 'ExternalHostPrivilege')


LEADS = (
    CardLead(read=lambda reader, system: _read_level(Card(system=system.ref), reader, system)),
    CardLead(read=lambda reader, system: _read_extension(Card(system=system.ref), reader, system)),
)
"""What all three mechanisms read below the System of a card. The two are read at the same time."""


def _read_presets(card: Card, reader: Reader, accelerator: Accelerator) -> None:
    fields = ['PrivilegeMode', *(f'PrivilegeSettings/{name}' for name in SETTINGS_WRITE)]
    seen: set[str] = set()
    for ref in accelerator.refs:
        if ref.bmc != reader.name or ref.uri.split('/')[-2:-1] != ['NetworkAdapters']:
            continue
        adapter = _linked(card, 'preset', reader, ref.uri, 'Oem/Nvidia/HostPrivilegeConfig')
        link = value_at(adapter.body, 'Oem', 'Nvidia', 'HostPrivilegeConfig', '@odata.id') if adapter is not None else MISSING
        place = where(link)
        if place is None or place in seen:
            continue
        seen.add(place)
        config = _linked(card, 'preset', reader, place, *fields)
        if config is None:
            card.presets.append((Ref(bmc=reader.name, uri=place), {}, None))
            continue
        settings = _linked(card, 'preset', reader, settings_of(config), *fields)
        card.presets.append((config.ref, config.body, settings.body if settings is not None else None))


def shown(
    mechanism: str,
    about: MechanismInfo,
    accelerator: Accelerator,
    card: Card,
    reader: Reader,
    now: datetime,
    *,
    ref: Ref,
    field: str,
    value: Mapping[str, object],
    judged: tuple[LockState, str | None],
) -> LockReading:
    """Return the reading of one of the three settings of a card. Each takes effect with a power cycle of the card's System.

    :param value: what the setting shows, by name; parts that are ``MISSING`` are left out.
    :param judged: the state, and the reason why it is not better.
    """
    state, reason = judged
    return reading(
        mechanism=mechanism,
        accelerator=accelerator,
        blocks=about.blocks,
        ref=ref,
        field=field,
        value={name: part for name, part in value.items() if part is not MISSING},
        state=state,
        now=now,
        session=reader.session,
        needs=about.needs,
        reset=card.system,
        reason=reason,
    )


def _linked(card: Card, place: str, reader: Reader, link: object, *fields: str) -> Document | None:
    """Read the resource behind a link; None where there is no link, or it cannot be read.

    :param fields: what is read of it: the resource may report an error about each of them.
    """
    if not isinstance(link, str):
        return None
    try:
        document = reader.get(link)
    except BmcError as exc:
        card.unreadable[place] = f'{link}: {exc.what}'
        return None
    _note_trouble(card, place, link, document.body, *fields)
    return document


def _note_trouble(card: Card, place: str, uri: str, body: JsonObject, *fields: str) -> None:
    for field_ in fields:
        why = trouble(body, field_)
        if why is not None:
            card.unreadable[place] = f'{uri}: {why}'


def level(body: JsonObject) -> tuple[str | None, object]:
    """Return the attribute and its value, under the name that this firmware has for it."""
    for name in LEVELS:
        value = value_at(body, 'Attributes', name)
        if value is not MISSING:
            return name, value
    return None, MISSING


def settings_of(document: Document) -> str:
    """Return the URI that changes are written to. Source: DSP8010 2025.4, Settings v1_4_0, SettingsObject."""
    link = value_at(document.body, '@Redfish.Settings', 'SettingsObject', '@odata.id')
    return link if isinstance(link, str) else f'{document.ref.uri}/Settings'


def rshim_target(writer: Writer, system: Ref) -> str | None:
    """Return the URI of the action that sets HostRshim; None when the card shows no HostRshim at all.

    :raises BmcUnsupported: HostRshim is shown and cannot be set.
    :raises BmcError: the System could not be read.
    """
    extension = value_at(writer.fresh(system.uri).body, 'Oem', 'Nvidia')
    link = value_at(extension, '@odata.id')
    body = writer.fresh(link).body if isinstance(link, str) else extension
    if not isinstance(body, Mapping) or RSHIM not in body:
        return None
    target = value_at(body, 'Actions', SET_RSHIM, 'target')
    if not isinstance(target, str):
        raise BmcUnsupported(bmc=writer.name, uri=system.uri, what=f'it offers no action {SET_RSHIM}')
    return target

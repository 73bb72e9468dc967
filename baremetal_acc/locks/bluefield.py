# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does the BMC of a BlueField card say of what the card lets its host do? No mechanism: what three of them share.

A BMC shows up to three places, by its firmware: the level (a BIOS attribute), explicit privileges (ExternalHostPrivileges, up
to 25.07) and a preset (HostPrivilegeConfig, since 25.10). Each is written for itself, and any of them closes the card's own
interface to the host. Which of two holds when one says open and another closed is said nowhere, so that proves nothing.
HostRshim is no fourth place but a way in of its own, a console port by which the host writes whole images: whatever closes the
rest, it has to be closed too.

Source: facts/redfish.md, section 6.1; NVIDIA BlueField BMC Software 25.01 and 26.01, NIC Subsystem Management; CSDL
NvidiaHostPrivilegeConfig v1_0_0; recording nvidia/bluefield3.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from baremetal_acc.bmc.api import CardLead, Document, JsonObject, Reader, Writer
from baremetal_acc.decide.evidence import trouble
from baremetal_acc.errors import BmcError, BmcUnsupported
from baremetal_acc.locks.api import About
from baremetal_acc.locks.place import MISSING, Readers, literal, meant, reading, value_at, where
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState
from baremetal_acc.model.ref import Ref

LEVELS = ('HostPrivilegeLevel', 'Host Privilege Level')
"""Names of the attribute, by firmware."""

RSHIM = 'HostRshim'
SET_RSHIM = '#HostRshim.Set'

RESTRICTED, PRIVILEGED = 'Restricted', 'Privileged'
DISABLED, ENABLED, DEFAULT = 'Disabled', 'Enabled', 'Default'

WRITES = ('HostPrivFwUpdate', 'HostPrivFlashAccess')
"""By these two the host writes firmware: a card that does not show both says too little."""

HARMLESS = frozenset({'HostPrivNicReset', 'NicReset'})
"""A reset writes nothing: it may stay as it is."""

SETTINGS_WRITE = ('FirmwareUpdate', 'FlashAccess')
"""The same two in a HostPrivilegeConfig."""


@dataclass(slots=True, kw_only=True)
class Card:
    """What the System of a card and its adapters say. ``MISSING`` where they say nothing.

    :ivar system: the System.
    :ivar level: in force, and ``pending``: what is set to come into force.
    :ivar privileges: the explicit ones with the resource that shows them, ``privileges_at``.
    :ivar presets: of each adapter: the resource, what is in force, what is set.
    :ivar unreadable: why each place could not be read, by its name.
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
        """Why one of the places could not be read."""
        return '; '.join(self.unreadable[place] for place in places if place in self.unreadable) or None

    def contradicts(self, mechanism: str) -> str | None:
        """Which of the other places says that the card is open, or could not be read: then nobody knows what holds."""
        is_open = {'level': self.level_is_open, 'privileges': self.privileges_are_open, 'preset': self.preset_is_open}
        for place, says in is_open.items():
            if place != mechanism and says:
                return f'the {place} of this card says that its host is not restricted, and nothing tells which of them holds'
            if place != mechanism and place in self.unreadable:
                return f'what else this card says of its host could not be read: {self.unreadable[place]}'
        return None

    @property
    def level_is_open(self) -> bool:
        """It says so, and is not about to change."""
        return self.level == PRIVILEGED and self.pending in (MISSING, PRIVILEGED)

    @property
    def privileges_are_open(self) -> bool:
        """One by which firmware is written is given; Default leaves it to the level."""
        return isinstance(self.privileges, Mapping) and any(self.privileges.get(name) == ENABLED for name in WRITES)

    @property
    def preset_is_open(self) -> bool:
        """That of an adapter is, and is not about to change."""
        return any(_is_open(now) and (set_ is None or _is_open(set_)) for _, now, set_ in self.presets)

    def with_rshim(self, closed: bool) -> tuple[LockState, str | None]:
        """What a closed interface, or an open one, amounts to beside the console port."""
        if self.rshim is not MISSING and self.rshim not in (DISABLED, ENABLED):
            return LockState.UNKNOWN, f'a value that is not known: {literal({RSHIM: self.rshim})}'
        if closed and self.rshim == DISABLED:
            return LockState.LOCKED_REPORTED, None
        if closed:
            return LockState.PARTIAL, f'{RSHIM} is open or not shown'
        if self.rshim == DISABLED:
            return LockState.PARTIAL, f'{RSHIM} alone is closed'
        return LockState.UNLOCKED, None


def _is_open(body: JsonObject) -> bool:
    """A HostPrivilegeConfig by which the host may write firmware, by its mode or by a single setting."""
    settings = [value_at(body, 'PrivilegeSettings', name) for name in SETTINGS_WRITE]
    return body.get('PrivilegeMode') == PRIVILEGED or ENABLED in settings


def cards(accelerator: Accelerator, readers: Iterable[Reader]) -> Iterator[tuple[Card, Reader]]:
    """Each System of a device, with what it and the adapters of the same BMC say."""
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
    """HostRshim and the link to the privileges, in the System itself or in a resource that it links."""
    extension = value_at(system.body, 'Oem', 'Nvidia')
    if not isinstance(extension, Mapping):
        if card.level is MISSING:
            card.unreadable.pop('level', None)  # an unreadable Bios of a System without the extension says nothing of this
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
"""What all three mechanisms read below the System of a card. Neither waits for the other."""


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
    about: About,
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
    """The reading of one of the three places of a card. Each comes in force with a power cycle of the card's System.

    :param value: what it shows, by name; parts that are ``MISSING`` are left out.
    :param judged: the state, and why it is none better.
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
    """:param fields: what is read of it: a message that something went wrong may stand beside each."""
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
    """The attribute under the name that this firmware has for it."""
    for name in LEVELS:
        value = value_at(body, 'Attributes', name)
        if value is not MISSING:
            return name, value
    return None, MISSING


def settings_of(document: Document) -> str:
    """Where changes are written. Source: DSP8010 2025.4, Settings v1_4_0, SettingsObject."""
    link = value_at(document.body, '@Redfish.Settings', 'SettingsObject', '@odata.id')
    return link if isinstance(link, str) else f'{document.ref.uri}/Settings'


def rshim_target(writer: Writer, system: Ref) -> str | None:
    """Where HostRshim is set; None when the card shows no HostRshim at all.

    :raises BmcUnsupported: it is shown and cannot be set.
    :raises BmcError: it could not be asked.
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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is a BlueField DPU closed against its host? BIOS attribute HostPrivilegeLevel and HostRshim, one reading of both.

What hardware: BlueField-2 and -3 with a BMC of their own.
How it is found: a System of the device has a Bios with HostPrivilegeLevel (older firmware: "Host Privilege Level"), or an
extension resource with HostRshim.
What it can do: read, engage (PATCH Bios/Settings, POST HostRshim.Set), release (the reverse).
Which write paths it blocks: ``host-device`` of the card: firmware over PCIe (privilege) and the rshim console port. One alone
is ``partial``: the other is a way in.
How an update behaves: ours goes through the card's own BMC and is not blocked.
What it cannot prove: HostRshim shows what is set, not what is in force: it takes a power cycle of the card's System. So a
reading is ``locked-reported`` when both are set and nothing is pending, and needs a power cycle seen after it was engaged.
What it was tried on: the recording nvidia/bluefield3 (a locked card), the emulator; no hardware.

Source: NVIDIA/libredfish nvidia_dpu.rs (facts/redfish.md, section 6.1, BlueField (a)).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.bmc.api import Document, JsonObject, Reader, Writer
from baremetal_acc.errors import BmcError, BmcUnsupported
from baremetal_acc.locks.api import About
from baremetal_acc.locks.place import MISSING, Readers, literal, reading, value_at
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import Ref

LEVELS = ('HostPrivilegeLevel', 'Host Privilege Level')
"""Names of the attribute, by firmware."""

RSHIM = 'HostRshim'
ACTION = '#HostRshim.Set'

CLOSED = {'level': 'Restricted', 'rshim': 'Disabled'}
OPEN = {'level': 'Privileged', 'rshim': 'Enabled'}


class HostPrivilege:
    """Entry point ``bluefield_host_privilege``."""

    name = 'bluefield_host_privilege'
    about = About(
        hardware='BlueField-2 and BlueField-3 with a BMC of their own',
        blocks=frozenset({WritePath.HOST_DEVICE}),
        protects=frozenset({Scope.DEVICE}),
        needs=ResetKind.POWER_CYCLE,
        read_back='Bios.Attributes.HostPrivilegeLevel, its pending value, and HostRshim of the extension of the System',
        cannot_prove='that HostRshim is in force: it shows what is set, so a power cycle has to be seen after it was set',
        source='NVIDIA/libredfish nvidia_dpu.rs; recording nvidia/bluefield3',
    )

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """One reading for each System of the device that shows either of the two; on real cards there is one."""
        by_bmc = Readers(readers)
        found = []
        for ref in accelerator.refs:
            reader = by_bmc.of(ref.bmc)
            if reader is None or ref.uri.rsplit('/', 1)[0] != '/redfish/v1/Systems':
                continue
            system, why = by_bmc.document(ref)
            card = _card(reader, system) if system is not None else _Card(unreadable=why)
            if not card.shows_any:
                continue
            state, reason = card.state()
            found.append(
                reading(
                    mechanism=self.name,
                    accelerator=accelerator,
                    blocks=self.about.blocks,
                    ref=ref,
                    field=f'Bios/{LEVELS[0]}+{RSHIM}',
                    value=card.value(),
                    state=state,
                    now=now,
                    session=reader.session,
                    needs=ResetKind.POWER_CYCLE,
                    reset=ref,
                    reason=reason,
                )
            )
        return tuple(found)

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """Set Restricted and Disabled. In force after a power cycle of the card's System.

        :raises BmcError: one of them was not accepted.
        """
        _write(writer, reading.ref, CLOSED)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """Set Privileged and Enabled. In force after a power cycle of the card's System.

        :raises BmcError: one of them was not accepted.
        """
        _write(writer, reading.ref, OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """What a card says. ``MISSING`` where it says nothing.

    :ivar unreadable: why a part could not be read, or None.
    """

    level: object = MISSING
    pending: object = MISSING
    rshim: object = MISSING
    unreadable: str | None = None

    @property
    def shows_any(self) -> bool:
        """The card has the mechanism."""
        return self.level is not MISSING or self.rshim is not MISSING or self.unreadable is not None

    def value(self) -> dict[str, object]:
        """All of it, for the reading."""
        parts = {LEVELS[0]: self.level, f'{LEVELS[0]} pending': self.pending, RSHIM: self.rshim}
        return {name: value for name, value in parts.items() if value is not MISSING}

    def state(self) -> tuple[LockState, str | None]:
        """What it amounts to."""
        if self.unreadable is not None:
            return LockState.UNKNOWN, self.unreadable
        words = {**dict.fromkeys(('Restricted', 'Disabled'), True), **dict.fromkeys(('Privileged', 'Enabled'), False)}
        level = words.get(self.level) if isinstance(self.level, str) else None
        rshim = words.get(self.rshim) if isinstance(self.rshim, str) else None
        pending = self.pending if self.pending is not MISSING and self.pending != self.level else None
        if (self.level is not MISSING and level is None) or (self.rshim is not MISSING and rshim is None):
            return LockState.UNKNOWN, f'a value that is not known: {literal(self.value())}'
        if pending is not None and level is False and pending == CLOSED['level'] and rshim:
            return LockState.PENDING_RESET, 'Restricted is set and not in force before the next reset of the card'
        if pending is not None and level and rshim:
            return LockState.PENDING_RESET, f'closed now, but {pending} is set and in force after the next reset of the card'
        if level and rshim:
            return LockState.LOCKED_REPORTED, None
        if level or rshim or pending == CLOSED['level']:
            open_ = RSHIM if not rshim else LEVELS[0]
            return LockState.PARTIAL, f'{open_} is open or not shown'
        return LockState.UNLOCKED, None


def _card(reader: Reader, system: Document) -> _Card:
    """Read the three places. A System without the two links has no such mechanism."""
    level = pending = rshim = MISSING
    problems: list[str] = []
    bios = _linked(reader, value_at(system.body, 'Bios', '@odata.id'), problems)
    if bios is not None:
        name, level = _level(bios.body)
        if name is not None:
            settings = _linked(reader, _settings(bios), problems)
            if settings is not None:
                pending = value_at(settings.body, 'Attributes', name)
    extension = value_at(system.body, 'Oem', 'Nvidia')
    if isinstance(extension, Mapping):
        link = value_at(extension, '@odata.id')
        whole = _linked(reader, link, problems) if link is not MISSING and RSHIM not in extension else None
        rshim = value_at(whole.body if whole is not None else extension, RSHIM)
    if problems and level is MISSING and rshim is MISSING and not isinstance(extension, Mapping):
        return _Card()  # an unreadable Bios of a System without the extension says nothing of this mechanism
    return _Card(level=level, pending=pending, rshim=rshim, unreadable='; '.join(problems) or None)


def _linked(reader: Reader, link: object, problems: list[str]) -> Document | None:
    if not isinstance(link, str):
        return None
    try:
        return reader.get(link)
    except BmcError as exc:
        problems.append(f'{link}: {exc.what}')
        return None


def _level(body: JsonObject) -> tuple[str | None, object]:
    for name in LEVELS:
        value = value_at(body, 'Attributes', name)
        if value is not MISSING:
            return name, value
    return None, MISSING


def _settings(bios: Document) -> str:
    """Where changes are written. Source: DSP8010 2025.4, Settings v1_4_0, SettingsObject."""
    link = value_at(bios.body, '@Redfish.Settings', 'SettingsObject', '@odata.id')
    return link if isinstance(link, str) else f'{bios.ref.uri}/Settings'


def _write(writer: Writer, ref: Ref, words: Mapping[str, str]) -> None:
    """Both settings. Everything is read before anything is written, so that a card that lacks one is refused untouched."""
    system = writer.fresh(ref.uri)
    link = value_at(system.body, 'Bios', '@odata.id')
    if not isinstance(link, str):
        raise BmcUnsupported(bmc=writer.name, uri=ref.uri, what='this System has no Bios')
    bios = writer.fresh(link)
    name, _ = _level(bios.body)
    if name is None:
        raise BmcUnsupported(bmc=writer.name, uri=bios.ref.uri, what=f'has no attribute {LEVELS[0]}')
    extension = value_at(system.body, 'Oem', 'Nvidia')
    link = value_at(extension, '@odata.id') if isinstance(extension, Mapping) else MISSING
    body = writer.fresh(link).body if isinstance(link, str) else extension
    target = value_at(body, 'Actions', ACTION, 'target') if isinstance(body, Mapping) else MISSING
    if not isinstance(target, str):
        raise BmcUnsupported(bmc=writer.name, uri=ref.uri, what=f'it offers no action {ACTION}')
    settings = writer.fresh(_settings(bios))
    writer.patch(settings, {'Attributes': {name: words['level']}})
    writer.post(target, {RSHIM: words['rshim']})

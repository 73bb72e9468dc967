# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock a BlueField DPU against its host by the BIOS attribute HostPrivilegeLevel and by HostRshim, in one reading.

What hardware: BlueField-2 and -3 with a BMC of their own.
How it is found: a System of the device has a Bios with HostPrivilegeLevel (older firmware: "Host Privilege Level"), or an
extension resource with HostRshim.
What it can do: read, engage (PATCH Bios/Settings, POST HostRshim.Set), release (the reverse).
Which write paths it blocks: ``host-device`` of the card: firmware over PCIe (privilege) and the rshim console port. One alone
is ``partial``: the other is a way in.
How an update behaves: ours goes through the card's own BMC and is not blocked.
What else the card shows: explicit privileges or a preset next to the level are independent sources. A Restricted that one of
them contradicts is ``unknown``.
What it cannot prove: that HostRshim is in effect: it shows what is set, and takes effect with a power cycle of the card's
System. So a reading is ``locked-reported`` when both are set and nothing is pending, and a power cycle has to be seen after it
was engaged.
What it was tried on: the recording nvidia/bluefield3 (a locked card), the emulator; no hardware.

Source: NVIDIA/libredfish nvidia_dpu.rs, set_host_privilege_level and set_host_rshim.
"""

from collections.abc import Iterable
from datetime import datetime

from baremetal_acc.bmc.driver import Reader, Writer
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.nvidia.bluefield import (
    DISABLED,
    ENABLED,
    LEADS,
    LEVELS,
    PRIVILEGED,
    RESTRICTED,
    RSHIM,
    SET_RSHIM,
    Card,
    cards,
    level,
    rshim_target,
    settings_of,
    shown,
)
from baremetal_acc.locks.property_reading import MISSING, literal, value_at
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import Ref


class HostPrivilege:
    """Entry point ``bluefield_host_privilege``."""

    name = 'bluefield_host_privilege'
    about = MechanismInfo(
        hardware='BlueField-2 and BlueField-3 with a BMC of their own',
        blocks=frozenset({WritePath.HOST_DEVICE}),
        protects=frozenset({Scope.DEVICE}),
        needs=ResetKind.POWER_CYCLE,
        read_back='Bios.Attributes.HostPrivilegeLevel, its pending value, and HostRshim of the extension of the System',
        cannot_prove='that HostRshim is in effect: it shows what is set, so a power cycle has to be seen after it was set',
        source='NVIDIA/libredfish nvidia_dpu.rs; recording nvidia/bluefield3',
    )
    leads = LEADS

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for each System of the device that shows either of the two; on real cards there is one."""
        return tuple(
            shown(
                self.name,
                self.about,
                accelerator,
                card,
                reader,
                now,
                ref=card.system,
                field=f'Bios/{LEVELS[0]}+{RSHIM}',
                value=_value(card),
                judged=_state(card),
            )
            for card, reader in cards(accelerator, readers)
            if _shows_any(card)
        )

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """Set Restricted and Disabled. Takes effect after a power cycle of the card's System.

        :raises BmcError: one of them was not accepted.
        """
        _write(writer, reading.ref, RESTRICTED, DISABLED)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """Set Privileged and Enabled. Takes effect after a power cycle of the card's System.

        :raises BmcError: one of them was not accepted.
        """
        _write(writer, reading.ref, PRIVILEGED, ENABLED)


def _shows_any(card: Card) -> bool:
    """Whether a card shows this lock. Without a level, HostRshim belongs to the other mechanisms where the card has them."""
    if card.level is not MISSING or card.why_not('system', 'level', 'rshim') is not None:
        return True
    return card.rshim is not MISSING and card.privileges_at is None and not card.presets


def _value(card: Card) -> dict[str, object]:
    parts = {LEVELS[0]: card.level, f'{LEVELS[0]} pending': card.pending, RSHIM: card.rshim}
    return {name: value for name, value in parts.items() if value is not MISSING}


def _state(card: Card) -> tuple[LockState, str | None]:
    unreadable = card.why_not('system', 'level', 'rshim')
    if unreadable is not None:
        return LockState.UNKNOWN, unreadable
    words = {RESTRICTED: True, DISABLED: True, PRIVILEGED: False, ENABLED: False}
    level = words.get(card.level) if isinstance(card.level, str) else None
    rshim = words.get(card.rshim) if isinstance(card.rshim, str) else None
    pending = card.pending if card.pending is not MISSING and card.pending != card.level else None
    if (card.level is not MISSING and level is None) or (card.rshim is not MISSING and rshim is None):
        return LockState.UNKNOWN, f'unknown value: {literal(_value(card))}'
    if pending is not None and level is False and pending == RESTRICTED and rshim:
        return LockState.PENDING_RESET, 'Restricted is set, but takes effect only after the next reset of the card'
    if pending is not None and level and rshim:
        return LockState.PENDING_RESET, f'locked now, but {pending} is set and takes effect after the next reset of the card'
    if level and rshim:
        contradicted = card.contradicts('level')
        return (LockState.LOCKED_REPORTED, None) if contradicted is None else (LockState.UNKNOWN, contradicted)
    if level or rshim or pending == RESTRICTED:
        open_ = RSHIM if not rshim else LEVELS[0]
        return LockState.PARTIAL, f'{open_} is open or not shown'
    return LockState.UNLOCKED, None


def _write(writer: Writer, ref: Ref, wanted: str, rshim: str) -> None:
    """Write both settings. Everything is read first, so that a card that lacks one is refused unchanged."""
    link = value_at(writer.fresh(ref.uri).body, 'Bios', '@odata.id')
    if not isinstance(link, str):
        raise BmcUnsupported(bmc=writer.name, uri=ref.uri, what='this System has no Bios')
    bios = writer.fresh(link)
    name, _ = level(bios.body)
    if name is None:
        raise BmcUnsupported(bmc=writer.name, uri=bios.ref.uri, what=f'has no attribute {LEVELS[0]}')
    target = rshim_target(writer, ref)
    if target is None:
        raise BmcUnsupported(bmc=writer.name, uri=ref.uri, what=f'it offers no action {SET_RSHIM}')
    settings = writer.fresh(settings_of(bios))
    writer.patch(settings, {'Attributes': {name: wanted}})
    writer.post(target, {RSHIM: rshim})

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock a BlueField DPU against its host by a preset: HostPrivilegeConfig.PrivilegeMode and HostRshim, in one reading.

What hardware: BlueField-3 and -4 with a BMC of their own, firmware since 25.10.
How it is found: a NetworkAdapter of the device links Oem.Nvidia.HostPrivilegeConfig.
What it can do: read, engage (PATCH PrivilegeMode Restricted into its Settings, POST HostRshim.Set), release (the reverse).
Which write paths it blocks: ``host-device`` of the card: Restricted disables firmware update, flash access and every setting
that stays in the card's flash. HostRshim is a way in of its own: where it is open, or not shown, the reading is ``partial``.
How an update behaves: ours goes through the card's own BMC and is not blocked.
What else the card shows: the level of ``bluefield_host_privilege`` and explicit privileges are independent sources, and so are
the single PrivilegeSettings next to the mode. Where the mode is Restricted and one of them says that the host is not, the
reading is ``unknown``. Custom is a set of privileges that somebody has chosen by hand: never closed, and ``partial`` at best.
What it cannot prove: that HostRshim is in effect: it shows what is set, so a power cycle of the card's System has to be seen
after it was engaged. On a card that shows no HostRshim (BlueField-4) no property says that there is no console port to the
host.
What it was tried on: the emulator; no recording and no hardware.

Source: CSDL NvidiaHostPrivilegeConfig v1_0_0, NvidiaNetworkAdapter v1_2_0; NVIDIA BlueField BMC Software 26.01, NIC Subsystem
Management.
"""

from collections.abc import Iterable
from datetime import datetime

from baremetal_acc.bmc.driver import JsonObject, Reader, Writer
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.nvidia.bluefield import (
    DISABLED,
    ENABLED,
    LEADS,
    PRIVILEGED,
    RESTRICTED,
    RSHIM,
    SETTINGS_WRITE,
    Card,
    cards,
    rshim_target,
    settings_of,
    shown,
)
from baremetal_acc.locks.property_reading import MISSING, literal, value_at
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath

MODE = 'PrivilegeMode'
MODES = (RESTRICTED, PRIVILEGED, 'Custom')

OPEN = {'HostPrivilegeLevel': PRIVILEGED, **dict.fromkeys(SETTINGS_WRITE, ENABLED)}
"""Single settings that contradict Restricted."""


class HostPrivilegeConfig:
    """Entry point ``bluefield_host_privilege_config``."""

    name = 'bluefield_host_privilege_config'
    about = MechanismInfo(
        hardware='BlueField-3 and BlueField-4 with a BMC of their own, firmware since 25.10',
        blocks=frozenset({WritePath.HOST_DEVICE}),
        protects=frozenset({Scope.DEVICE}),
        needs=ResetKind.POWER_CYCLE,
        read_back='PrivilegeMode and PrivilegeSettings of HostPrivilegeConfig, its Settings, and HostRshim of the System',
        cannot_prove='that HostRshim is in effect; that a card that shows no HostRshim has no console port to its host',
        source='CSDL NvidiaHostPrivilegeConfig v1_0_0; NVIDIA BlueField BMC Software 26.01, NIC Subsystem Management',
    )
    leads = LEADS

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for each HostPrivilegeConfig that an adapter of the device links."""
        return tuple(
            shown(
                self.name,
                self.about,
                accelerator,
                card,
                reader,
                now,
                ref=ref,
                field=f'{MODE}+{RSHIM}',
                value=_value(card, body, settings),
                judged=_state(card, body, settings),
            )
            for card, reader in cards(accelerator, readers)
            for ref, body, settings in card.presets
        )

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """Set Restricted and, where it is shown, HostRshim Disabled. Takes effect after a power cycle of the card's System.

        :raises BmcError: one of them was not accepted.
        """
        _write(writer, reading, RESTRICTED, DISABLED)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """Set Privileged and, where it is shown, HostRshim Enabled. Takes effect after a power cycle of the card's System.

        :raises BmcError: one of them was not accepted.
        """
        _write(writer, reading, PRIVILEGED, ENABLED)


def _value(card: Card, body: JsonObject, settings: JsonObject | None) -> dict[str, object]:
    parts = {MODE: value_at(body, MODE), f'{MODE} pending': value_at(settings or {}, MODE), RSHIM: card.rshim}
    return {name: value for name, value in parts.items() if value is not MISSING}


def _state(card: Card, body: JsonObject, settings: JsonObject | None) -> tuple[LockState, str | None]:
    unreadable = card.why_not('system', 'preset', 'rshim')
    if unreadable is not None or settings is None:
        return LockState.UNKNOWN, unreadable
    mode, pending = value_at(body, MODE), value_at(settings, MODE)
    if mode not in MODES or (pending is not MISSING and pending not in MODES):
        return LockState.UNKNOWN, f'unknown value: {literal(_value(card, body, settings))}'
    if pending is not MISSING and pending != mode and RESTRICTED in (mode, pending):
        if card.rshim != DISABLED:
            return LockState.PARTIAL, f'{RSHIM} is open or not shown'
        return LockState.PENDING_RESET, f'{mode} now, {pending} after the next reset of the card'
    if mode == RESTRICTED:
        state, reason = card.with_rshim(closed=True)
        against = _against(body) or _against(settings) or card.contradicts('preset')
        if state is LockState.LOCKED_REPORTED and against is not None:
            return LockState.UNKNOWN, against
        return state, reason
    state, reason = card.with_rshim(closed=False)
    if mode == 'Custom' and state is LockState.UNLOCKED and not _against(body):
        return LockState.PARTIAL, 'Custom: put together by hand'
    return state, reason


def _against(body: JsonObject) -> str | None:
    """Return a single setting by which the host is not restricted."""
    for name, word in OPEN.items():
        if value_at(body, 'PrivilegeSettings', name) == word:
            return f'{name} is {word} under a {MODE} of {literal(body.get(MODE))}'
    return None


def _write(writer: Writer, reading: LockReading, mode: str, rshim: str) -> None:
    """Write mode and HostRshim. Everything is read first, so that a card that lacks a part is refused unchanged."""
    config = writer.fresh(reading.ref.uri)
    if value_at(config.body, MODE) is MISSING:
        raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it no longer shows {MODE}')
    console = rshim_target(writer, reading.reset) if reading.reset is not None else None
    settings = writer.fresh(settings_of(config))
    writer.patch(settings, {MODE: mode})
    if console is not None:
        writer.post(console, {RSHIM: rshim})

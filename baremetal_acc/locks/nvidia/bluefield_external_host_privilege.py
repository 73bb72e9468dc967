# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock a BlueField DPU against its host by explicit privileges: ExternalHostPrivileges and HostRshim, in one reading.

What hardware: BlueField-3 with a BMC of its own, firmware up to 25.07.
How it is found: the extension of the System links a resource ExternalHostPrivileges.
What it can do: read, engage (POST ExternalHostPrivilege.Set with Disabled for every write privilege that the resource has, and
HostRshim.Set with Disabled), release (Default, which leaves a privilege to the level, and HostRshim Enabled).
Which write paths it blocks: ``host-device`` of the card. HostPrivFwUpdate and HostPrivFlashAccess are for firmware over PCIe;
the others are for settings that stay in the card's flash, and for the image of its congestion control. If one of these others,
or HostRshim, is not Disabled, the host can still write: ``partial``. HostPrivNicReset writes nothing and is not changed.
How an update behaves: ours goes through the card's own BMC and is not blocked.
What else the card shows: the level of ``bluefield_host_privilege`` and the preset of ``bluefield_host_privilege_config`` are
independent sources. If this lock is closed and one of them says that the host is not restricted, the reading is ``unknown``.
Default leaves a privilege to the level. If the level is Restricted, the reading is ``unknown``: no source says what Default
then means.
What it cannot prove: that it is in effect, because all properties show what is set. It takes effect with a power cycle of the
card's System. So such a power cycle has to be seen after the lock was engaged.
What it was tried on: the recording nvidia/bluefield3 (all Default), the emulator; no hardware.

Source: NVIDIA BlueField BMC Software 25.01, NIC Subsystem Management; recording nvidia/bluefield3.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from baremetal_acc.bmc.driver import Reader, Writer
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.nvidia.bluefield import (
    DEFAULT,
    DISABLED,
    ENABLED,
    HARMLESS,
    LEADS,
    RSHIM,
    WRITES,
    Card,
    cards,
    rshim_target,
    shown,
)
from baremetal_acc.locks.property_reading import literal, value_at
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath

PROPERTY = 'ExternalHostPrivilege'
ACTIONS = ('#ExternalHostPrivilege.Set', '#ExternalHostPrivileges.Set')
"""The name in the recording, and the name by which the action's target is called."""


class ExternalHostPrivilege:
    """Entry point ``bluefield_external_host_privilege``."""

    name = 'bluefield_external_host_privilege'
    about = MechanismInfo(
        hardware='BlueField-3 with a BMC of its own, firmware up to 25.07',
        blocks=frozenset({WritePath.HOST_DEVICE}),
        protects=frozenset({Scope.DEVICE}),
        needs=ResetKind.POWER_CYCLE,
        read_back='every privilege of ExternalHostPrivileges, and HostRshim of the extension of the System',
        cannot_prove='that any of it is in effect: it shows what is set, so a power cycle has to be seen after it was set',
        source='NVIDIA BlueField BMC Software 25.01, NIC Subsystem Management; recording nvidia/bluefield3',
    )
    leads = LEADS

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for each System of the device whose extension links the privileges."""
        return tuple(
            shown(
                self.name,
                self.about,
                accelerator,
                card,
                reader,
                now,
                ref=card.privileges_at,
                field=f'{PROPERTY}+{RSHIM}',
                value={PROPERTY: card.privileges, RSHIM: card.rshim},
                judged=_state(card),
            )
            for card, reader in cards(accelerator, readers)
            if card.privileges_at is not None
        )

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """Disable every privilege to write, and HostRshim. Takes effect after a power cycle of the card's System.

        :raises BmcError: one of them was not accepted.
        """
        _write(writer, reading, DISABLED, DISABLED)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """Leave the privileges to the level again, and enable HostRshim. Takes effect after a power cycle of the card's System.

        :raises BmcError: one of them was not accepted.
        """
        _write(writer, reading, DEFAULT, ENABLED)


def _state(card: Card) -> tuple[LockState, str | None]:
    unreadable = card.why_not('privileges', 'rshim')
    if unreadable is not None:
        return LockState.UNKNOWN, unreadable
    privileges = card.privileges
    if not isinstance(privileges, Mapping):
        return LockState.UNKNOWN, f'it shows no {PROPERTY}'
    missing = [name for name in WRITES if name not in privileges]
    if missing:
        return LockState.UNKNOWN, f'it does not show {", ".join(missing)}'
    if any(value not in (DISABLED, ENABLED, DEFAULT) for value in privileges.values()):
        return LockState.UNKNOWN, f'unknown value: {literal(privileges)}'
    left = sorted(name for name, value in privileges.items() if value != DISABLED and name not in HARMLESS)
    if not left:
        state, reason = card.with_rshim(closed=True)
        contradicted = card.contradicts('privileges') if state is LockState.LOCKED_REPORTED else None
        return (state, reason) if contradicted is None else (LockState.UNKNOWN, contradicted)
    if all(privileges[name] == DISABLED for name in WRITES):
        return LockState.PARTIAL, f'{", ".join(left)} not Disabled'
    if not any(privileges[name] == ENABLED for name in WRITES) and not card.level_is_open:
        return LockState.UNKNOWN, f'{", ".join(n for n in WRITES if n in left)} Default: what that means is unknown'
    return card.with_rshim(closed=False)


def _write(writer: Writer, reading: LockReading, word: str, rshim: str) -> None:
    """Write privileges and HostRshim. Everything is read first, so that a card that lacks a part is refused unchanged."""
    body = writer.fresh(reading.ref.uri).body
    targets = [value_at(body, 'Actions', name, 'target') for name in ACTIONS]
    target = next((t for t in targets if isinstance(t, str)), None)
    if target is None:
        raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it offers no action {ACTIONS[0]}')
    privileges = value_at(body, PROPERTY)
    names = [name for name in privileges if name not in HARMLESS] if isinstance(privileges, Mapping) else []
    if not set(WRITES) <= set(names):
        raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it does not show {" and ".join(WRITES)}')
    console = rshim_target(writer, reading.reset) if reading.reset is not None else None
    writer.post(target, dict.fromkeys(names, word))
    if console is not None:
        writer.post(console, {RSHIM: rshim})

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the firmware commands of an NVMe device against its host: Drive or Storage ConfigurationLock, ConfigurationLockState.

What hardware: computational storage, and other accelerators whose functions link a Drive or a StorageController: NVMe devices
behind a BMC that implements the standard property.
How it is found: a Drive among the device's resources shows ConfigurationLock, or else the Storage that it is in does.
What it can do: read, engage (PATCH Enabled), release (PATCH Disabled). Partial is a state that cannot be written.
Which write paths it blocks: ``host-device`` of the items whose RelatedItem is the drive, its controller or its Storage: the
NVMe commands by which its host downloads and commits firmware. It does not block what the host reaches by another function of
the card, such as that of the FPGA.
How an update behaves: ours goes through the BMC and is not blocked: only in-band requests are locked.
What else it shows: NVMe.ConfigurationLockState has the state of each command, read from the drive. It has to agree: Enabled
over a command that is open, or Disabled over locked ones, is ``unknown``. A command that the drive has and cannot lock is a way
in, and so is Lockdown itself: the host may unlock the others by it. Both are ``partial``. A drive that does not show the states
is ``unknown``, as Enabled does not say which of its commands are locked.
What it cannot prove: that a command really fails; that no other command of the vendor writes firmware.
What it was tried on: the emulator; no recording shows the property, and no hardware.

Source: DSP8010 2025.4, Drive v1_19_0 and v1_20_0, Storage v1_16_0 and v1_17_0.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from baremetal_acc.bmc.driver import Document, Reader, Writer
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import MISSING, Readers, literal, reading, related, value_at
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritePath
from baremetal_acc.model.ref import Ref

PROPERTY = 'ConfigurationLock'
LEVEL = 'TargetConfigurationLockLevel'
STATES = (('NVMe', 'ConfigurationLockState'), ('NVMeSubsystemProperties', 'ConfigurationLockState'))
"""Where a Drive and a Storage show the states of the NVMe commands."""

FIRMWARE = ('FirmwareCommit', 'FirmwareImageDownload')
"""The NVMe commands by which firmware is written."""

LOCKDOWN = 'Lockdown'
"""The NVMe command by which commands are locked, and unlocked."""

LOCKED, UNLOCKED, UNLOCKABLE, NO_COMMAND = 'Locked', 'Unlocked', 'LockdownUnsupported', 'CommandUnsupported'

IN_STORAGE = re.compile(r'^(?P<storage>.*/Storage/[^/]+)/(?:Drives|Controllers|StorageControllers)/[^/]+$')


class ConfigurationLock:
    """Entry point ``drive_configuration_lock``."""

    name = 'drive_configuration_lock'
    about = MechanismInfo(
        hardware='NVMe devices that are accelerators, such as computational storage; none was seen on real hardware',
        blocks=frozenset({WritePath.HOST_DEVICE}),
        protects=frozenset({Scope.COMPONENT}),
        read_back='ConfigurationLock of the Drive or its Storage, and the state of each NVMe command in ConfigurationLockState',
        cannot_prove='that a command really fails; anything about what the host reaches by other functions of the card',
        source='DSP8010 2025.4, Drive v1_19_0 and v1_20_0, Storage v1_16_0 and v1_17_0',
    )

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for each item that belongs to a Drive, or to a Storage, that shows the property."""
        by_bmc = Readers(readers)
        theirs: dict[Ref, list[Component]] | None = None
        found = []
        for ref, places, document, why in _drives(accelerator, by_bmc):
            if theirs is None:
                theirs = related(accelerator, by_bmc)
            items = tuple({item.ref: item for place in places for item in theirs.get(place, ())}.values())
            for item in items:
                state, reason = _state(document) if document is not None else (LockState.UNKNOWN, why)
                beyond = _beyond_it(document) if document is not None else ()
                if beyond and state is LockState.UNLOCKED:
                    reason = f'the drive shows that it cannot lock {", ".join(beyond)} ({UNLOCKABLE})'
                found.append(
                    reading(
                        mechanism=self.name,
                        accelerator=accelerator,
                        blocks=self.about.blocks,
                        ref=ref,
                        field=PROPERTY if len(items) == 1 else f'{PROPERTY}/{item.id}',
                        value=_value(document) if document is not None else MISSING,
                        state=state,
                        now=now,
                        session=by_bmc.session(ref.bmc),
                        scope=Scope.COMPONENT,
                        part=item.id,
                        closable=not beyond,
                        reason=reason,
                    )
                )
        return tuple(found)

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """PATCH Enabled.

        :raises BmcError: it was not accepted.
        """
        _write(writer, reading, 'Enabled')

    def release(self, writer: Writer, reading: LockReading) -> None:
        """PATCH Disabled.

        :raises BmcError: it was not accepted.
        """
        _write(writer, reading, 'Disabled')


def _drives(accelerator: Accelerator, by_bmc: Readers) -> Iterator[tuple[Ref, tuple[Ref, ...], Document | None, str | None]]:
    """List each resource that shows the property, or could not be read, with all resources that an item may name instead."""
    asked: dict[Ref, dict[Ref, None]] = {}
    for ref in accelerator.refs:
        in_storage = IN_STORAGE.match(ref.uri)
        whole = (ref, Ref(bmc=ref.bmc, uri=in_storage['storage'])) if in_storage is not None else (ref,)
        # For a controller only the Storage shows the property.
        for place in whole if '/Drives/' in ref.uri else whole[1:]:
            document, _ = by_bmc.document(place)
            if document is None or value_at(document.body, PROPERTY) is not MISSING:
                asked.setdefault(place, {}).update(dict.fromkeys(whole))
                break
    for place, names in asked.items():
        document, why = by_bmc.document(place)
        yield place, tuple(names), document, why


def _states(document: Document) -> Mapping[str, object]:
    found = next((v for path in STATES if isinstance(v := value_at(document.body, *path), Mapping)), {})
    return {name: found[name] for name in (*FIRMWARE, LOCKDOWN) if name in found}


def _beyond_it(document: Document) -> tuple[str, ...]:
    """Return the commands that the drive has and cannot lock, whatever is set."""
    return tuple(name for name, state in _states(document).items() if state == UNLOCKABLE)


def _value(document: Document) -> dict[str, object]:
    shown = {name: document.body[name] for name in (PROPERTY, LEVEL) if name in document.body}
    return shown | dict(_states(document))


def _state(document: Document) -> tuple[LockState, str | None]:
    lock, states = document.body.get(PROPERTY), _states(document)
    if lock not in ('Enabled', 'Disabled', 'Partial'):
        return LockState.UNKNOWN, f'unknown value: {literal(lock)}'
    if document.body.get(LEVEL) not in ('Baseline', None):
        return LockState.UNKNOWN, f'unknown level of the lock: {literal(document.body[LEVEL])}'
    missing = [name for name in (*FIRMWARE, LOCKDOWN) if name not in states]
    if lock == 'Partial':
        return LockState.PARTIAL, 'some of its commands are not locked'
    if lock == 'Disabled':
        locked = bool(states) and all(states.get(name) == LOCKED for name in FIRMWARE)
        return (LockState.UNKNOWN, f'Disabled, and {FIRMWARE[0]} is Locked') if locked else (LockState.UNLOCKED, None)
    if missing:
        return LockState.UNKNOWN, f'it does not show whether {", ".join(missing)} is locked'
    if any(states[name] not in (LOCKED, UNLOCKED, UNLOCKABLE, NO_COMMAND) for name in states):
        return LockState.UNKNOWN, f'unknown state: {literal(dict(states))}'
    contrary = [name for name in FIRMWARE if states[name] == UNLOCKED]
    if contrary:
        return LockState.UNKNOWN, f'Enabled, and {", ".join(contrary)} is {UNLOCKED}'
    ways = [name for name in states if states[name] in (UNLOCKED, UNLOCKABLE)]
    if ways:
        return LockState.PARTIAL, f'the host may still send {", ".join(ways)}: {literal({n: states[n] for n in ways})}'
    return LockState.LOCKED_REPORTED, None


def _write(writer: Writer, reading: LockReading, word: str) -> None:
    document = writer.fresh(reading.ref.uri)
    if PROPERTY not in document.body:
        raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it no longer shows {PROPERTY}')
    writer.patch(document, {PROPERTY: word})

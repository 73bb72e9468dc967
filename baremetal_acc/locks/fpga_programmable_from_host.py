# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock an FPGA, or each of its slots, against programming by the host: Processor.FPGA.ProgrammableFromHost.

What hardware: FPGAs behind a BMC that implements the standard property. No real BMC was seen with it: DMTF's invented rack
server has it, and the emulator.
How it is found: the device's Processor has an FPGA object that shows it.
What it can do: read, engage, release, by PATCH of the Processor; a slot by its position in the array.
Which write paths it blocks: ``host-device``. A management controller may still program the FPGA. Of a device that is also a
drive it protects the items that belong to the Processor, and not those that the host writes as it writes a drive.
How an update behaves: ours goes through the BMC and is not blocked.
What it cannot prove: that a write by the host really fails.

Source: DSP8010 2025.4, Processor v1_4_0; DSP0266, section "PATCH on array properties": ``{}`` stands for an element that stays.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from baremetal_acc.bmc.driver import Document, JsonObject, Reader, Writer
from baremetal_acc.errors import BmcConflict
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import MISSING, Readers, reading, related, value_at
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritePath
from baremetal_acc.model.ref import Ref

PROPERTY = 'ProgrammableFromHost'
WHOLE = f'FPGA/{PROPERTY}'


class ProgrammableFromHost:
    """Entry point ``fpga_programmable_from_host``."""

    name = 'fpga_programmable_from_host'
    about = MechanismInfo(
        hardware='FPGAs behind a BMC with the standard property; none was seen on real hardware',
        blocks=frozenset({WritePath.HOST_DEVICE}),
        protects=frozenset({Scope.FIRMWARE, Scope.COMPONENT, Scope.SLOT}),
        read_back='Processor.FPGA.ProgrammableFromHost, and that of each of its ReconfigurationSlots',
        cannot_prove='that a write by the host really fails',
        source='DSP8010 2025.4, Processor v1_4_0',
    )

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for the FPGA's firmware, and one for each slot, where the property is shown."""
        by_bmc = Readers(readers)
        found: list[LockReading] = []
        for ref in accelerator.refs:
            reader = by_bmc.of(ref.bmc)
            if reader is None or '/Processors/' not in ref.uri:
                continue
            document, why = by_bmc.document(ref)
            for field, value, scope, part in _places(accelerator, ref, document, by_bmc):
                state, reason = _state(value)
                found.append(
                    reading(
                        mechanism=self.name,
                        accelerator=accelerator,
                        blocks=self.about.blocks,
                        ref=ref,
                        field=field,
                        value=value,
                        state=state,
                        now=now,
                        session=reader.session,
                        scope=scope,
                        part=part,
                        reason=why or reason,
                    )
                )
        return tuple(found)

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """PATCH false.

        :raises BmcConflict: the slots are not those that were read. ``BmcError``: it was not accepted.
        """
        _write(writer, reading, programmable=False)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """PATCH true.

        :raises BmcConflict: the slots are not those that were read. ``BmcError``: it was not accepted.
        """
        _write(writer, reading, programmable=True)


def _places(
    accelerator: Accelerator, ref: Ref, document: Document | None, by_bmc: Readers
) -> Iterator[tuple[str, object, Scope, str | None]]:
    """List field, value, scope and slot where the property is shown; for a Processor that could not be read, its slots."""
    if document is None:
        for slot in accelerator.slots:
            if slot.programmable_from_host is not None:
                yield _field(slot.index), MISSING, Scope.SLOT, slot.slot_id
        return
    whole = value_at(document.body, 'FPGA', PROPERTY)
    if whole is not MISSING and not _is_drive(accelerator):
        yield WHOLE, whole, Scope.FIRMWARE, None
    elif whole is not MISSING:
        items = related(accelerator, by_bmc).get(ref, [])
        for item in items:
            yield WHOLE if len(items) == 1 else f'{WHOLE}/{item.id}', whole, Scope.COMPONENT, item.id
    slots = value_at(document.body, 'FPGA', 'ReconfigurationSlots')
    names: dict[int, list[str]] = {}
    for slot in accelerator.slots:
        names.setdefault(slot.index, []).append(slot.slot_id)
    for index, body in enumerate(slots if isinstance(slots, list) else ()):
        if index not in names or not isinstance(body, dict) or PROPERTY not in body:
            continue
        # A device with two Processors has two slots at one position: the SlotId tells which of them this is.
        part = names[index][0] if len(names[index]) == 1 else _slot_id(body, index)
        if part in names[index]:
            yield _field(index), body[PROPERTY], Scope.SLOT, part


def _is_drive(accelerator: Accelerator) -> bool:
    """Whether the device has firmware that its host reaches by a drive or its Storage, not by the FPGA."""
    return any('/Drives/' in ref.uri or '/Storage/' in ref.uri for ref in accelerator.refs)


def _state(value: object) -> tuple[LockState, str | None]:
    match value:
        case False:
            return LockState.LOCKED_REPORTED, None
        case True:
            return LockState.UNLOCKED, None
        case None:
            return LockState.UNKNOWN, 'the BMC shows null'
        case _:
            return LockState.UNKNOWN, 'neither true nor false'


def _field(index: int) -> str:
    return f'FPGA/ReconfigurationSlots/{index}/{PROPERTY}'


def _write(writer: Writer, reading: LockReading, *, programmable: bool) -> None:
    document = writer.fresh(reading.ref.uri)
    body: JsonObject = {'FPGA': {PROPERTY: programmable}}
    if reading.scope is Scope.SLOT:
        index = int(reading.field.split('/')[2])
        slots = value_at(document.body, 'FPGA', 'ReconfigurationSlots')
        if not isinstance(slots, list) or index >= len(slots) or _slot_id(slots[index], index) != reading.part:
            raise BmcConflict(
                bmc=writer.name,
                uri=reading.ref.uri,
                what=f'slot {index} is no longer {reading.part}',
                hint='inspect again, then plan again',
            )
        changed: list[JsonObject] = [{} for _ in slots]
        changed[index] = {PROPERTY: programmable}
        body = {'FPGA': {'ReconfigurationSlots': changed}}
    writer.patch(document, body)


def _slot_id(slot: object, index: int) -> str:
    """Return the name of a slot as the inventory has it: the SlotId, else the position."""
    found = slot.get('SlotId') if isinstance(slot, dict) else None
    return ' '.join(found.split()) if isinstance(found, str) and found.strip() else str(index)

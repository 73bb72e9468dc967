# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the firmware images of a device against every write: SoftwareInventory.WriteProtected.

What hardware: BMCs that implement the standard property; seen on GH200 (GPUs), BlueField-3 (its BMC), Supermicro, Lenovo.
How it is found: an item of the device shows the property. Where the item follows a domain of ``nvidia_write_protect_domain``,
it is evidence for that domain and no lock of its own: a PATCH of it is refused.
What it can do: read, engage, release, by PATCH of the item.
Which write paths it blocks: all four: nobody can alter or overwrite the image. It is released for our own flash.
How an update behaves: refused while it is set.
What it cannot prove: a BMC that says true on every item, also on its own and on those that it calls Updateable, proves nothing
(seen: Lenovo SR670 V2, 43 of 43 items); such a reading is ``unknown``. The standard does not say when it takes effect.
What it was tried on: recordings and the emulator; no hardware.

Source: DSP8010 2025.4, SoftwareInventory v1_3_0, WriteProtected.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from baremetal_acc.bmc.driver import Reader, Writer
from baremetal_acc.errors import BmcError, is_not_found
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.nvidia.write_protect_domain import WriteProtectDomain
from baremetal_acc.locks.property_reading import MISSING, Once, Readers, reading, value_at, where
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritePath
from baremetal_acc.model.ref import Ref

PROPERTY = 'WriteProtected'

CONSTANT = 'true on every item of this BMC, even on those that it shows as Updateable: such a value proves nothing'

FEWEST = 3
"""Fewer items than this may well all be locked, without the value being constant."""


class WriteProtected:
    """Entry point ``write_protected``."""

    name = 'write_protected'
    about = MechanismInfo(
        hardware='BMCs with the standard property: seen on GH200, BlueField-3, Supermicro and Lenovo',
        blocks=frozenset(WritePath),
        protects=frozenset({Scope.COMPONENT, Scope.SLOT}),
        read_back='SoftwareInventory.WriteProtected of each item',
        cannot_prove='anything, on a BMC that says true on every item; when it takes effect',
        source='DSP8010 2025.4, SoftwareInventory v1_3_0; recordings',
    )

    def __init__(self) -> None:
        self._constant = Once(_always_true)
        self._domains = WriteProtectDomain()

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for each item, of firmware or of a slot, that shows the property."""
        readers = tuple(readers)
        by_bmc = Readers(readers)
        followers: frozenset[Ref] | None = None
        found = []
        for component, scope, part in _places(accelerator):
            reader = by_bmc.of(component.ref.bmc)
            document, why = by_bmc.document(component.ref)
            value = value_at(document.body, PROPERTY) if document is not None else None
            if value is MISSING or (document is None and component.write_protected is None):
                continue
            if followers is None:
                followers = self._domains.followers(accelerator, readers)
            if component.ref in followers:
                continue
            state, reason = LockState.UNKNOWN, why
            if value is False:
                state = LockState.UNLOCKED
            elif value is True and reader is not None:
                constant = self._constant.of(reader, component.ref.uri.rsplit('/', 1)[0])
                state = LockState.UNKNOWN if constant else LockState.LOCKED_REPORTED
                reason = CONSTANT if constant else None
            elif reason is None:
                reason = 'neither true nor false'
            found.append(
                reading(
                    mechanism=self.name,
                    accelerator=accelerator,
                    blocks=self.about.blocks,
                    ref=component.ref,
                    field=PROPERTY,
                    value=MISSING if document is None else value,
                    state=state,
                    now=now,
                    session=by_bmc.session(component.ref.bmc),
                    scope=scope,
                    part=part,
                    reason=reason,
                )
            )
        return tuple(found)

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """PATCH true.

        :raises BmcError: it was not accepted.
        """
        writer.patch(writer.fresh(reading.ref.uri), {PROPERTY: True})

    def release(self, writer: Writer, reading: LockReading) -> None:
        """PATCH false.

        :raises BmcError: it was not accepted.
        """
        writer.patch(writer.fresh(reading.ref.uri), {PROPERTY: False})


def _places(accelerator: Accelerator) -> Iterator[tuple[Component, Scope, str]]:
    for component in accelerator.firmware:
        if component.id is not None:
            yield component, Scope.COMPONENT, component.id
    for slot in accelerator.slots:
        if slot.item is not None:
            yield slot.item, Scope.SLOT, slot.slot_id


def _always_true(reader: Reader, collection: str) -> bool:
    """Whether every item of a collection and of FirmwareInventory says true, although at least one of them is Updateable.

    FirmwareInventory has the BMC's own images: that we have locked all slots of all cards does not make the value constant.
    Where the items cannot be read, also where a single item that is there cannot, true is taken to prove nothing.
    """
    members: list[object] = []
    try:
        for place in dict.fromkeys((collection, *_firmware_inventory(reader))):
            found = reader.get(place).body.get('Members')
            members += found if isinstance(found, list) else ()
    except BmcError:
        return True
    if len(members) < FEWEST:
        return False
    suspect = False
    for member in members:
        link = value_at(member, '@odata.id')
        if not isinstance(link, str):
            suspect = True
            continue
        try:
            document = reader.get(link)
        except BmcError as exc:
            suspect = suspect or not is_not_found(exc)
            continue
        if value_at(document.body, PROPERTY) is not True:
            return False
        suspect = suspect or value_at(document.body, 'Updateable') is True
    return suspect


def _firmware_inventory(reader: Reader) -> tuple[str, ...]:
    """Return the URI of FirmwareInventory; nothing when the BMC links no such collection.

    :raises BmcError: it could not be read.
    """
    service = where(value_at(reader.get('/redfish/v1').body, 'UpdateService', '@odata.id'))
    if service is None:
        return ()
    place = where(value_at(reader.get(service).body, 'FirmwareInventory', '@odata.id'))
    return (place,) if place is not None else ()

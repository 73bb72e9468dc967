# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Base classes for locks of a whole machine, such as a property of its Manager: find the resources, read them, write them.

A reading of such a lock has the scope ``bmc``: every device that the BMC shows has the same reading, and the lock is engaged
once for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from baremetal_acc.bmc.driver import Document, JsonObject, Lead, Reader, Writer
from baremetal_acc.errors import BmcError, BmcUnsupported, is_not_found
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import MISSING, Once, Readers, last_of, linked, reading, value_at, where
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope
from baremetal_acc.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSetting:
    """A resource that is there, whether or not it could be read.

    :ivar document: of the resource, None when it could not be read.
    :ivar why: the reason why it could not be read.
    """

    ref: Ref
    document: Document | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingPlace:
    """What one resource shows of such a lock; the fields have the names of those of a reading."""

    ref: Ref
    field: str
    value: object
    state: LockState
    reason: str | None = None
    needs: ResetKind = ResetKind.NONE
    reset: Ref | None = None
    with_start: Ref | None = None
    in_force: bool = False
    closable: bool = True
    closes: str | None = None
    leaves: str | None = None


class BmcWideMechanism(ABC):
    """A mechanism whose locks belong to a BMC, not to a card. Each is read once in an inspection, however many devices ask."""

    name: ClassVar[str]
    about: ClassVar[MechanismInfo]

    def __init__(self) -> None:
        self._places = Once(lambda reader, top: tuple(self.places(reader, top)))

    @abstractmethod
    def places(self, reader: Reader, top: str) -> Iterator[SettingPlace]:
        """List every lock of the mechanism on a BMC. Never raises for what cannot be read."""

    @abstractmethod
    def engage(self, writer: Writer, reading: LockReading) -> None:
        """Engage the lock.

        :raises BmcError: it was not accepted.
        """

    @abstractmethod
    def release(self, writer: Writer, reading: LockReading) -> None:
        """Release the lock.

        :raises BmcError: it was not accepted.
        """

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for each lock, on every BMC that shows the device."""
        return tuple(
            reading(
                mechanism=self.name,
                accelerator=accelerator,
                blocks=self.about.blocks,
                ref=place.ref,
                field=place.field,
                value=place.value,
                state=place.state,
                now=now,
                session=reader.session,
                scope=Scope.BMC,
                needs=place.needs,
                reset=place.reset,
                wraps=self.about.wraps,
                with_start=place.with_start,
                in_force=place.in_force,
                closable=place.closable,
                closes=place.closes,
                leaves=place.leaves,
                reason=place.reason,
                volatile=self.about.volatile,
            )
            for reader in Readers(readers).bmcs(accelerator)
            for place in self._places.of(reader, '/redfish/v1')
        )


class BooleanPropertyMechanism(BmcWideMechanism):
    """A mechanism that is one property of some resources, with values that are closed and values that are open.

    :cvar path: of the property in the resource.
    :cvar closed: its closed values; the first one is written, unless the property has another type now.
    :cvar open: its open values, likewise.
    """

    path: ClassVar[tuple[str, ...]]
    closed: ClassVar[tuple[object, ...]]
    open: ClassVar[tuple[object, ...]]

    leads: ClassVar[tuple[Lead, ...]] = ()
    """Where the property is: in the Managers, or in resources that they link to.

    A resource that is linked for it is expected to show the property.
    """

    def resources(self, reader: Reader, top: str) -> Iterator[FoundSetting]:
        """List the resources that may show the property, including those that are there and cannot be read."""
        for manager in managers(reader, top):
            for lead in self.leads:
                yield from _led_to(reader, manager, lead)

    def places(self, reader: Reader, top: str) -> Iterator[SettingPlace]:
        """List each resource that shows the property, and those that could not be read.

        A resource that could not be read is left out where nothing shows the property, and where no lead names a link to it.
        """
        found = list(self.resources(reader, top))
        field = '/'.join(self.path)
        shown = [(f, value_at(f.document.body, *self.path)) for f in found if f.document is not None]
        for one, value in shown:
            if value is not MISSING and one.document is not None:
                yield self.place(one.document, field, value)
        if any(lead.path for lead in self.leads) or any(value is not MISSING for _, value in shown):
            for one in found:
                if one.document is None:
                    yield SettingPlace(ref=one.ref, field=field, value=MISSING, state=LockState.UNKNOWN, reason=one.why)

    def place(self, document: Document, field: str, value: object) -> SettingPlace:
        """Return what the property of one resource says."""
        state, reason = self.judged(value)
        return SettingPlace(ref=document.ref, field=field, value=value, state=state, reason=reason)

    def judged(self, value: object) -> tuple[LockState, str | None]:
        """Return the state that a value stands for."""
        if _is_one_of(value, self.closed):
            return LockState.LOCKED_REPORTED, None
        if _is_one_of(value, self.open):
            return LockState.UNLOCKED, None
        known = ', '.join(str(v) for v in (*self.closed, *self.open))
        return LockState.UNKNOWN, f'none of the known values: {known}'

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """PATCH the closed value.

        :raises BmcError: it was not accepted.
        """
        self.write(writer, reading, self.closed)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """PATCH the open value.

        :raises BmcError: it was not accepted.
        """
        self.write(writer, reading, self.open)

    def write(self, writer: Writer, reading: LockReading, words: tuple[object, ...]) -> None:
        """PATCH the property, if it is still there, with a value of the type that it has now."""
        document = writer.fresh(reading.ref.uri)
        now = value_at(document.body, *self.path)
        if now is MISSING:
            raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it no longer shows {"/".join(self.path)}')
        word = next((w for w in words if type(w) is type(now)), words[0])
        writer.patch(document, _nested(self.path, word))


def _is_one_of(value: object, words: tuple[object, ...]) -> bool:
    """Whether a value is one of these, by its type, too: JSON's true is not 1."""
    return any(type(value) is type(word) and value == word for word in words)


def _nested(path: tuple[str, ...], value: object) -> JsonObject:
    body: JsonObject = {path[-1]: value}
    for name in reversed(path[:-1]):
        body = {name: body}
    return body


# --------------------------------------------------------------------------------------------------------------- finding


def read(reader: Reader, link: object) -> FoundSetting | None:
    """Read the resource behind a link. None when there is no link, or no such resource."""
    place = where(link)
    if place is None:
        return None
    try:
        document = reader.get(place)
    except BmcError as exc:
        gone = is_not_found(exc)
        return None if gone else FoundSetting(ref=Ref(bmc=reader.name, uri=place), why=exc.what)
    return FoundSetting(ref=document.ref, document=document)


def below(reader: Reader, found: FoundSetting, *path: str) -> FoundSetting | None:
    """Read the resource that a property of another one links to. None when there is none."""
    return None if found.document is None else read(reader, value_at(found.document.body, *path, '@odata.id'))


def _led_to(reader: Reader, manager: FoundSetting, lead: Lead) -> Iterator[FoundSetting]:
    """List the resources that a lead leads to.

    A Manager that cannot be read is listed itself where it may have members or show the property; its vendor is not known.
    """
    if manager.document is None or not lead.path:
        if lead.is_collection or not lead.path:
            yield manager
        return
    body = manager.document.body
    if lead.beside and not isinstance(value_at(body, *lead.beside), dict):
        return
    value = value_at(body, *lead.path)
    for link in linked(value if isinstance(value, list) else [value]):
        if lead.is_collection:
            yield from members(reader, link)
        elif not lead.of_its_name or last_of(link).casefold() == last_of(manager.ref.uri).casefold():
            found = read(reader, link)
            if found is not None:
                yield found


def members(reader: Reader, link: object) -> Iterator[FoundSetting]:
    """List the members of a collection; a collection that is there and cannot be read is listed itself."""
    place = where(link)
    if place is None:
        return
    try:
        listed = reader.collection(place).body.get('Members')
    except BmcError as exc:
        if not is_not_found(exc):
            yield FoundSetting(ref=Ref(bmc=reader.name, uri=place), why=exc.what)
        return
    for uri in linked(listed):
        found = read(reader, uri)
        if found is not None:
            yield found


def managers(reader: Reader, top: str) -> Iterator[FoundSetting]:
    """List the Managers of a BMC."""
    yield from _listed(reader, top, 'Managers')


def systems(reader: Reader, top: str) -> Iterator[FoundSetting]:
    """List the Systems of a BMC."""
    yield from _listed(reader, top, 'Systems')


def _listed(reader: Reader, top: str, name: str) -> Iterator[FoundSetting]:
    root = read(reader, top)
    link = MISSING if root is None or root.document is None else value_at(root.document.body, name, '@odata.id')
    # Some BMCs show a root without links until they are reset (NVIDIA/nv-redfish bmc_quirks.rs).
    yield from members(reader, link if link is not MISSING else f'{top}/{name}')

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a setting at its place: the value in effect from a resource, the value that takes effect later from its Settings.

Source: DSP8010 2025.4, Settings v1_4_0, SettingsObject; DSP0266, section "Settings resource".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from baremetal_acc.bmc.driver import Document, JsonObject, Reader, Writer
from baremetal_acc.errors import BmcError, BmcUnsupported, is_not_found
from baremetal_acc.locks.property_reading import LONGEST, MISSING, literal, where
from baremetal_acc.model.card_setting import CardSetting, CardSettingReading
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning.lock_evidence import trouble

Words = Callable[[object], str | None]
"""Puts a value of a BMC into the words of the rules; None: it is no value of this property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyPlace:
    """One property that shows a setting.

    :ivar path: names, and the positions in arrays.
    :ivar words: puts its value into words.
    """

    setting: CardSetting
    mechanism: str
    path: tuple[str | int, ...]
    words: Words
    sets: tuple[str, ...] = ()
    needs: ResetKind = ResetKind.NONE
    reset: Ref | None = None

    @property
    def field(self) -> str:
        """The path as readings have it."""
        return '/'.join(map(str, self.path))

    def read(self, reader: Reader, document: Document) -> CardSettingReading:
        """Read the property of a resource, and what its Settings say of it."""
        value, reason = self._said(document)
        pending, settings, why = self._pending(reader, document, value)
        return CardSettingReading(
            setting=self.setting,
            mechanism=self.mechanism,
            ref=document.ref,
            field=self.field,
            value=value,
            pending=pending,
            settings=settings,
            reason=reason or why,
            sets=self.sets,
            needs=self.needs,
            reset=self.reset,
        )

    def unread(self, ref: Ref, reason: str) -> CardSettingReading:
        """Return the reading of a property whose resource could not be read."""
        return CardSettingReading(
            setting=self.setting, mechanism=self.mechanism, ref=ref, field=self.field, reason=reason[:LONGEST]
        )

    def is_shown(self, document: Document) -> bool:
        """Whether the resource has the property."""
        return at(document.body, *self.path) is not MISSING

    def _said(self, document: Document) -> tuple[str | None, str | None]:
        """Return the value in words, and why there is none although the property is shown."""
        shown = at(document.body, *self.path)
        why = trouble(document.body, self.field)
        if shown is MISSING or shown is None:
            return None, why
        value = self.words(shown)
        return value, (f'unknown value: {literal(shown)}' if value is None else None) if why is None else why

    def _pending(self, reader: Reader, document: Document, value: str | None) -> tuple[str | None, Ref | None, str | None]:
        """Return the value that takes effect later, the resource that shows it, and why that could not be read."""
        found = settings_of(reader, document)
        if found is None:
            return None, None, None
        if isinstance(found, UnreadResource):
            return None, found.ref, f'{found.ref.uri}: {found.reason}'
        pending, why = self._said(found)
        return pending if pending != value else None, found.ref, None if why is None else f'{found.ref.uri}: {why}'


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadResource:
    """A resource that is there and could not be read."""

    ref: Ref
    reason: str


def settings_of(reader: Reader, document: Document) -> Document | UnreadResource | None:
    """Return the Settings of a resource, to which changes of it are written; None where there are none."""
    return linked(reader, at(document.body, '@Redfish.Settings', 'SettingsObject', '@odata.id'))


def linked(reader: Reader, link: object) -> Document | UnreadResource | None:
    """Read the resource behind a link; None where there is no link, or no such resource."""
    place = where(link)
    if place is None:
        return None
    try:
        return reader.get(place)
    except BmcError as exc:
        return None if is_not_found(exc) else UnreadResource(ref=Ref(bmc=reader.name, uri=place), reason=exc.what[:LONGEST])


def at(body: object, *path: str | int) -> object:
    """Return the value at a path of names and positions; :data:`MISSING` when there is none."""
    value = body
    for part in path:
        if isinstance(part, int):
            if not isinstance(value, list) or part >= len(value):
                return MISSING
            value = value[part]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return MISSING
    return value


def write(writer: Writer, reading: CardSettingReading, value: object) -> None:
    """PATCH the property of a reading, in the Settings of its resource where there are any.

    Source: DSP0266, section "PATCH on array properties": ``{}`` stands for an element that stays.

    :raises BmcUnsupported: the resource does not show the property any more. ``BmcError``: it was not accepted.
    """
    path = tuple(int(part) if part.isdigit() else part for part in reading.field.split('/'))
    shown = writer.fresh(reading.ref.uri)
    if at(shown.body, *path) is MISSING:
        raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it no longer shows {reading.field}')
    target = shown if reading.settings is None else writer.fresh(reading.settings.uri)
    body = _nested(target.body, path, value)
    if isinstance(body, dict):
        writer.patch(target, body)


def _nested(shown: object, path: tuple[str | int, ...], value: object) -> object:
    """Return the body of a PATCH: the value at its path, and an empty object for each other element of an array."""
    if not path:
        return value
    name = path[0]
    inner = _nested(at(shown, name), path[1:], value)
    if isinstance(name, str):
        found: JsonObject = {name: inner}
        return found
    length = max(len(shown) if isinstance(shown, list) else 0, name + 1)
    return [inner if position == name else {} for position in range(length)]


def elements(body: object, name: str) -> Iterator[int]:
    """Yield the positions of the elements of an array."""
    found = at(body, name)
    yield from range(len(found) if isinstance(found, list) else 0)

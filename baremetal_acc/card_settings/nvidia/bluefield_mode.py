# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the mode of a BlueField DPU from its own BMC: DPU mode, or NIC mode.

What hardware: BlueField-2 and -3 with a BMC of their own. The BMC of the host does not show the mode.
How it is found: the extension of the card's System has ``Mode``, or the System's Bios has the attribute ``NicMode``. Both count
where both are shown.
What the two mean: ``Mode`` is the setting of the network part, as it is set; it takes effect with a power cycle. ``NicMode`` of
Bios is what the card's last start has reported; its Settings hold what the next start takes.
What it can set: the mode, by the action Mode.Set where the extension offers it (BlueField-3), else by NicMode in the Settings
of Bios (BlueField-2). It takes effect with a power cycle of the card's System. NVIDIA also names two restarts of the card's
processors before that; a mode that does not take effect fails the job, and is set again by the next.
What it cannot prove: on a card that shows ``Mode`` alone, that it is in effect.
What it was tried on: the recording nvidia/bluefield3 (DPU mode); the emulator; no hardware.

Source: NVIDIA BlueField BMC Software 26.01, BlueField Modes of Operation Configuration; NVIDIA/bmcweb, which reads and sets
``Mode`` as one property; recording nvidia/bluefield3.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from baremetal_acc.bmc.driver import Document, JsonObject, Reader, Writer
from baremetal_acc.card_settings.property_place import PropertyPlace, UnreadResource, at, linked, write
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.property_reading import MISSING, Readers
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.card_setting import CardSetting, CardSettingReading, DpuMode
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref

MODES = {'DpuMode': DpuMode.DPU.value, 'NicMode': DpuMode.NIC.value}
"""The words of the BMC, for ``Mode`` and ``NicMode`` alike."""

SET_MODE = '#Mode.Set'

_LONGEST = 80


def _mode(value: object) -> str | None:
    """Put a mode into words. A text that is no known mode is shown as it is: it differs from each mode."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        return None
    return MODES.get(value, value[:_LONGEST])


class BluefieldMode:
    """See the module."""

    name = 'bluefield_mode'
    setting = CardSetting.DPU_MODE

    def read(self, accelerator: Accelerator, readers: Iterable[Reader]) -> tuple[CardSettingReading, ...]:
        """Return one reading for each of the two properties that a System of the device shows."""
        by_bmc = Readers(readers)
        found: list[CardSettingReading] = []
        for ref in accelerator.refs:
            reader = by_bmc.of(ref.bmc)
            if reader is None or ref.uri.rsplit('/', 1)[0] != '/redfish/v1/Systems':
                continue
            system, why = by_bmc.document(ref)
            if system is None:
                found.append(_place('Oem', 'Nvidia', 'Mode').unread(ref, why or 'could not be read'))
            else:
                found += _settable(reader, system, _system(reader, system))
        return tuple(found)

    def set(self, writer: Writer, reading: CardSettingReading, value: str) -> None:
        """POST Mode.Set, or PATCH the Settings of Bios.

        :raises BmcUnsupported: the card does not offer it any more. ``BmcError``: it was not accepted.
        """
        word = next(word for word, mode in MODES.items() if mode == value)
        if reading.field == _ATTRIBUTE.field:
            write(writer, reading, word)
            return
        target = _target(writer.fresh(reading.ref.uri).body)
        if target is None:
            raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it offers no action {SET_MODE}')
        writer.post(target, {'Mode': word})


def _settable(reader: Reader, system: Document, found: Iterable[CardSettingReading]) -> Iterator[CardSettingReading]:
    """Yield readings, with the modes that can be set at the one by which the mode of this card is set."""
    readings = tuple(found)
    by_action = {r.ref for r in readings if r.field != _ATTRIBUTE.field and _offers_action(reader, r.ref)}
    for one in readings:
        if one.ref in by_action or (not by_action and one.field == _ATTRIBUTE.field and one.settings is not None):
            yield replace(one, sets=tuple(MODES.values()), needs=ResetKind.POWER_CYCLE, reset=system.ref)
        else:
            yield one


def _offers_action(reader: Reader, ref: Ref) -> bool:
    document = reader.peek(ref.uri)
    return document is not None and _target(document.body) is not None


def _target(body: JsonObject) -> str | None:
    """Return the URI of the action that sets the mode, of an extension or of a System that contains it."""
    found = (at(body, *path, 'Actions', SET_MODE, 'target') for path in ((), ('Oem', 'Nvidia')))
    return next((target for target in found if isinstance(target, str)), None)


def _place(*path: str) -> PropertyPlace:
    return PropertyPlace(setting=CardSetting.DPU_MODE, mechanism=BluefieldMode.name, path=path, words=_mode)


_ATTRIBUTE = _place('Attributes', 'NicMode')


def _system(reader: Reader, system: Document) -> Iterator[CardSettingReading]:
    extension = at(system.body, 'Oem', 'Nvidia')
    if not isinstance(extension, Mapping):
        return
    inner = _place('Oem', 'Nvidia', 'Mode')
    if inner.is_shown(system):
        yield inner.read(reader, system)
    else:
        yield from _linked(reader, extension.get('@odata.id', MISSING), _place('Mode'))
    yield from _linked(reader, at(system.body, 'Bios', '@odata.id'), _ATTRIBUTE)


def _linked(reader: Reader, link: object, place: PropertyPlace) -> Iterator[CardSettingReading]:
    found = linked(reader, link)
    if isinstance(found, UnreadResource):
        yield place.unread(found.ref, found.reason)
    elif found is not None and place.is_shown(found):
        yield place.read(reader, found)

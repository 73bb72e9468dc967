# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read whether a card has virtual functions (SR-IOV), from the properties of DMTF's schemas.

What hardware: network adapters and FPGAs behind a BMC that shows one of the properties.
How it is found: ``SRIOVEnabled`` of each controller of a NetworkAdapter, ``VirtualFunctionsEnabled`` of each
NetworkDeviceFunction of it, ``FPGA.PCIeVirtualFunctions`` of a Processor: 0 is ``disabled``, a larger number ``enabled``. All
that are shown count. Where one NetworkDeviceFunction of an adapter shows its property, each of them has to.
What it can set: ``SRIOVEnabled``, and ``PCIeVirtualFunctions`` to 0: how many there should be, no rule says.
``VirtualFunctionsEnabled`` is read-only. Where the resource has Settings, they are written, and the value takes effect with a
reset of the card's System; a card without a System cannot be reset, and is not set.
What it cannot prove: that no software on the host has enabled virtual functions since the BMC has read the card. What a card
could do (``SRIOVVEPACapable``, ``MaxVirtualFunctions``), and the settings of the host's BIOS, say nothing about the card.
What it was tried on: the recordings dmtf/smartnic, hpe/dl380a-gen11-2xh100nvl (adapters that are no accelerators) and
dell/r750-h100-bluefield2 (shows none of them); the emulator.

Source: DSP8010 2025.4, NetworkAdapter v1_12_0, SRIOV; NetworkDeviceFunction v1_0_0; Processor v1_4_0, FPGA.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from baremetal_acc.bmc.driver import Document, Reader, Writer
from baremetal_acc.card_settings.property_place import PropertyPlace, UnreadResource, at, elements, linked, write
from baremetal_acc.errors import BmcError, is_not_found
from baremetal_acc.locks.property_reading import Readers, where
from baremetal_acc.locks.property_reading import linked as links_of
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.card_setting import CardSetting, CardSettingReading, Sriov
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref

MOST = 256
"""NetworkDeviceFunctions, and Controllers, of one adapter that are read. Real adapters have up to some sixteen."""

_ENABLED = ('ControllerCapabilities', 'VirtualizationOffload', 'SRIOV', 'SRIOVEnabled')


def _boolean(value: object) -> str | None:
    return {True: Sriov.ENABLED.value, False: Sriov.DISABLED.value}[value] if isinstance(value, bool) else None


def _number(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return Sriov.ENABLED.value if value else Sriov.DISABLED.value


class StandardSriov:
    """The standard properties; see the module."""

    name = 'sriov'
    setting = CardSetting.SRIOV

    def read(self, accelerator: Accelerator, readers: Iterable[Reader]) -> tuple[CardSettingReading, ...]:
        """Return one reading for each property that is shown."""
        by_bmc = Readers(readers)
        found: list[CardSettingReading] = []
        for ref in accelerator.refs:
            reader, above = by_bmc.of(ref.bmc), ref.uri.split('/')[-2:-1]
            if reader is None or above not in (['NetworkAdapters'], ['Processors']):
                continue
            of_adapter = above == ['NetworkAdapters']
            document, why = by_bmc.document(ref)
            if document is None:
                found.append((_controller(0) if of_adapter else _FPGA).unread(ref, why or 'could not be read'))
            else:
                found += _adapter(reader, document) if of_adapter else _shown(reader, document, _FPGA)
        return tuple(_resettable(one, accelerator.system) for one in found)

    def set(self, writer: Writer, reading: CardSettingReading, value: str) -> None:
        """PATCH the property.

        :raises BmcError: it was not accepted.
        """
        enabled = value == Sriov.ENABLED
        write(writer, reading, int(enabled) if reading.field == _FPGA.field else enabled)


def _resettable(reading: CardSettingReading, system: Ref | None) -> CardSettingReading:
    """Return a reading with the reset that a written value needs: one in a Settings resource is not in effect before."""
    if not reading.sets or reading.settings is None:
        return reading
    if system is None:
        return replace(reading, sets=())
    return replace(reading, needs=ResetKind.SYSTEM_RESET, reset=system)


def _controller(position: int) -> PropertyPlace:
    return PropertyPlace(
        setting=CardSetting.SRIOV,
        mechanism=StandardSriov.name,
        path=('Controllers', position, *_ENABLED),
        words=_boolean,
        sets=(Sriov.ENABLED.value, Sriov.DISABLED.value),
    )


_FUNCTION = PropertyPlace(
    setting=CardSetting.SRIOV, mechanism=StandardSriov.name, path=('VirtualFunctionsEnabled',), words=_boolean
)
"""Read-only in DMTF's schema."""

_FPGA = PropertyPlace(
    setting=CardSetting.SRIOV,
    mechanism=StandardSriov.name,
    path=('FPGA', 'PCIeVirtualFunctions'),
    words=_number,
    sets=(Sriov.DISABLED.value,),
)


def _shown(reader: Reader, document: Document, place: PropertyPlace) -> Iterator[CardSettingReading]:
    if place.is_shown(document):
        yield place.read(reader, document)


def _adapter(reader: Reader, adapter: Document) -> Iterator[CardSettingReading]:
    controllers = tuple(elements(adapter.body, 'Controllers'))
    for position in controllers[:MOST]:
        yield from _shown(reader, adapter, _controller(position))
    if len(controllers) > MOST:
        yield _controller(MOST).unread(adapter.ref, f'{len(controllers)} controllers, of which {MOST} were read')
    functions = list(_functions(reader, at(adapter.body, 'NetworkDeviceFunctions', '@odata.id')))
    shows = any(isinstance(one, Document) and _FUNCTION.is_shown(one) for one in functions)
    for one in functions:
        if isinstance(one, UnreadResource):
            yield _FUNCTION.unread(one.ref, one.reason)
        elif shows:
            yield _FUNCTION.read(reader, one)


def _functions(reader: Reader, link: object) -> Iterator[Document | UnreadResource]:
    """Read the members of a collection; what is there and cannot be read is named."""
    place = where(link)
    if place is None:
        return
    ref = Ref(bmc=reader.name, uri=place)
    try:
        listed = reader.collection(place).body.get('Members')
    except BmcError as exc:
        if not is_not_found(exc):
            yield UnreadResource(ref=ref, reason=exc.what)
        return
    uris = tuple(dict.fromkeys(links_of(listed, reader)))
    if len(uris) > MOST:
        yield UnreadResource(ref=ref, reason=f'{len(uris)} members, of which {MOST} were read')
    for uri in uris[:MOST]:
        found = linked(reader, uri)
        if found is not None:
            yield found

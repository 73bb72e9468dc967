# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the flash of several devices at once by an NVIDIA write-protect domain: NvidiaWriteProtectDomain.WriteProtected.

What hardware: HGX and MGX boards with the newer firmware of the board's BMC, on which one signal protects the flash of several
devices.
How it is found: a chassis links Oem.Nvidia.WriteProtectDomains, and AffectedComponents of a domain name the device or an item.
What it can do: read, engage, release, by PATCH of the domain. One domain may protect several devices: whoever opens it opens it
for all of them. A domain that follows a jumper alone refuses the PATCH.
Which write paths it blocks: all four, of the items whose own WriteProtected follows the domain, and of no other. A device has
more images than those: the root of trust keeps its own elsewhere. An item of a domain is evidence for the domain and no lock of
its own, so ``write_protected`` leaves it alone.
How an update behaves: refused while it is set. It is released for our own flash.
What it cannot prove: a domain whose source the BMC cannot read shows false, which is open, but one that joins its sources with
AND may show true then. So true counts only together with the item's own WriteProtected; where they differ the reading is
``unknown``.
What it was tried on: the emulator; no recording has a domain, and no hardware.

Source: CSDL NvidiaWriteProtectDomain v1_0_0; NVIDIA/bmcweb nvidia_write_protect_domains.hpp; the design of NVIDIA's
nvidia-fw-write-protect.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from baremetal_acc.bmc.driver import Document, Reader, Writer
from baremetal_acc.errors import BmcError, BmcUnsupported
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import MISSING, Once, Readers, linked, meant, reading, value_at, where
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritePath
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.planning.lock_evidence import trouble

PROPERTY = 'WriteProtected'

MOST = 256
"""Limit of the domains that are read of one chassis. Boards have a few; the number of a domain has 16 bits."""


class WriteProtectDomain:
    """Entry point ``nvidia_write_protect_domain``."""

    name = 'nvidia_write_protect_domain'
    about = MechanismInfo(
        hardware='HGX and MGX boards whose BMC shows write-protect domains; none was seen on real hardware',
        blocks=frozenset(WritePath),
        protects=frozenset({Scope.COMPONENT}),
        read_back='WriteProtected of the domain, and SoftwareInventory.WriteProtected of each item that follows it',
        cannot_prove=(
            'anything about images that show no WriteProtected, as that of the root of trust; that the signal is wired'
        ),
        source='CSDL NvidiaWriteProtectDomain v1_0_0; NVIDIA/bmcweb nvidia_write_protect_domains.hpp',
    )

    def __init__(self) -> None:
        self._domains = Once(_Domains)

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for each item of the device that a domain protects."""
        by_bmc = Readers(readers)
        found = []
        for reader in by_bmc.bmcs(accelerator):
            for domain in self._domains.of(reader, '/redfish/v1').of(accelerator, reader.name):
                items = tuple(_items(accelerator, domain))
                for item in items:
                    state, reason = _state(domain, by_bmc.document(item.ref))
                    found.append(
                        reading(
                            mechanism=self.name,
                            accelerator=accelerator,
                            blocks=self.about.blocks,
                            ref=domain.ref,
                            field=PROPERTY if len(items) == 1 else f'{PROPERTY}/{item.id}',
                            value=domain.value,
                            state=state,
                            now=now,
                            session=reader.session,
                            scope=Scope.COMPONENT,
                            part=item.id,
                            reason=reason,
                        )
                    )
        return tuple(found)

    def followers(self, accelerator: Accelerator, readers: Iterable[Reader]) -> frozenset[Ref]:
        """Return the items of a device whose own WriteProtected follows a domain: they are no locks of their own."""
        return frozenset(
            item.ref
            for reader in Readers(readers).bmcs(accelerator)
            for domain in self._domains.of(reader, '/redfish/v1').of(accelerator, reader.name)
            for item in _items(accelerator, domain)
        )

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """PATCH true.

        :raises BmcError: it was not accepted.
        """
        _write(writer, reading, wanted=True)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """PATCH false, which releases the lock for every device of the domain.

        :raises BmcError: it was not accepted.
        """
        _write(writer, reading, wanted=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Domain:
    """A write-protect domain: its value, and the resources that it says it affects."""

    ref: Ref
    value: object
    affected: frozenset[str]


class _Domains:
    """The write-protect domains of a BMC."""

    def __init__(self, reader: Reader, top: str) -> None:
        self._all = tuple(_read(reader, top))

    def of(self, accelerator: Accelerator, bmc: BmcName) -> Iterator[_Domain]:
        """List the domains that name the device or one of its items."""
        mine = {ref.uri for ref in accelerator.refs if ref.bmc == bmc}
        mine |= {item.ref.uri for item in accelerator.firmware if item.ref.bmc == bmc}
        for domain in self._all:
            if domain.affected & mine:
                yield domain


def _read(reader: Reader, top: str) -> Iterator[_Domain]:
    for chassis in _members(reader, value_at(_body(reader, top), 'Chassis', '@odata.id')):
        link = value_at(_body(reader, chassis), 'Oem', 'Nvidia', 'WriteProtectDomains', '@odata.id')
        for uri in tuple(_members(reader, link))[:MOST]:
            try:
                document = reader.get(uri)
            except BmcError:
                continue  # it is not known what the domain protects, so it counts for nothing
            value = value_at(document.body, PROPERTY)
            place = meant(reader, uri) or uri
            yield _Domain(
                ref=Ref(bmc=reader.name, uri=where(place) or place), value=value, affected=_affected(document, reader)
            )


def _body(reader: Reader, link: object) -> Mapping[str, object]:
    try:
        return reader.get(link).body if isinstance(link, str) else {}
    except BmcError:
        return {}


def _members(reader: Reader, link: object) -> Iterator[str]:
    members = _body(reader, link).get('Members')
    for member in members if isinstance(members, list) else ():
        uri = value_at(member, '@odata.id')
        if isinstance(uri, str):
            yield uri


def _affected(document: Document, reader: Reader) -> frozenset[str]:
    return frozenset(linked(document.body.get('AffectedComponents'), reader))


def _items(accelerator: Accelerator, domain: _Domain) -> Iterator[Component]:
    """List the items that follow a domain: those that it names, else those of the named device that show WriteProtected."""
    shown = [c for c in accelerator.firmware if c.id is not None and c.ref.bmc == domain.ref.bmc]
    named = [c for c in shown if c.ref.uri in domain.affected]
    yield from named or [c for c in shown if c.write_protected is not None]


def _state(domain: _Domain, item: tuple[Document | None, str | None]) -> tuple[LockState, str | None]:
    document, why = item
    if domain.value is False:
        return LockState.UNLOCKED, None
    if domain.value is not True:
        return LockState.UNKNOWN, 'neither true nor false'
    if document is None:
        return LockState.UNKNOWN, f'the item that should follow it could not be read: {why}'
    why = trouble(document.body, PROPERTY)
    if why is not None:
        return LockState.UNKNOWN, f'{document.ref.uri}: {why}'
    if value_at(document.body, PROPERTY) is not True:
        return LockState.UNKNOWN, f'the domain is protected, but {document.ref.uri} does not show that for itself'
    return LockState.LOCKED_REPORTED, None


def _write(writer: Writer, reading: LockReading, *, wanted: bool) -> None:
    document = writer.fresh(reading.ref.uri)
    if value_at(document.body, PROPERTY) is MISSING:
        raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it no longer shows {PROPERTY}')
    writer.patch(document, {PROPERTY: wanted})

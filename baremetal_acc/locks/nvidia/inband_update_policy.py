# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock in-band firmware updates of devices behind an NVIDIA root of trust: Chassis.Oem.Nvidia.InbandUpdatePolicyEnabled.

What hardware: HGX and MGX boards with ERoT (Hopper) or IRoT (Blackwell) chassis; BlueField-3 shows one for its BMC.
How it is found: a chassis shows the property, and its Links.Oem.Nvidia.ComponentsProtected leads to the device. Where that link
is missing, a chassis named after the device (``HGX_ERoT_GPU_0``) is taken to be its own, but never proves that it is closed.
What it can do: read, engage, release, by PATCH of the chassis.
Which write paths it blocks: ``host-device``: false means that the host updates neither the device's firmware nor the root's.
How an update behaves: ours goes through the BMC and is not blocked.
What else a BMC shows: newer ones have RoTProtectedComponents, of the root itself and of what it protects, each with a policy
that was read another way and with ImageSlots whose WriteProtected comes from the registers of the flash. Where they are shown,
every one of them has to say closed too, else the reading is ``unknown``.
What it cannot prove: that a write by the host fails. And NVIDIA's bmcweb says false also when it could not ask the root of
trust (in_band.hpp): false counts as closed only when a second source agrees, or else when the same answer shows that the root
of trust was asked for other values and gave them. That is a sign and no proof: one question may fail where another is answered.
What it was tried on: the recordings nvidia/gh200 and nvidia/bluefield3, the emulator; no hardware.

Source: CSDL NvidiaChassis; NVIDIA/bmcweb erot_chassis.hpp and in_band.hpp.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from baremetal_acc.bmc.driver import Document, JsonObject, Reader, Writer
from baremetal_acc.errors import BmcError, BmcUnsupported
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import (
    MISSING,
    Once,
    Readers,
    last_of,
    linked,
    literal,
    meant,
    reading,
    value_at,
    where,
)
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritePath
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.planning.lock_evidence import trouble

PROPERTY = 'InbandUpdatePolicyEnabled'
FIELD = f'Oem/Nvidia/{PROPERTY}'

SIGNS = ('AutomaticBackgroundCopyEnabled', 'BackgroundCopyStatus')
"""Properties that the same answer shows when the BMC could ask the root of trust."""

NAMED = re.compile(r'^(?:HGX_)?[EI]RoT_(?P<device>.+)$')

COMPONENTS = 'RoTProtectedComponents'

MOST = 16
"""Limit of the components of one root of trust, and of the slots of one component.

A root of trust has itself and a few parts, each with two images.
"""

UNSURE = 'this BMC also reports false when it could not read the root of trust, and nothing in the answer shows that it could: '


class InbandUpdatePolicy:
    """Entry point ``nvidia_inband_update_policy``."""

    name = 'nvidia_inband_update_policy'
    about = MechanismInfo(
        hardware='HGX and MGX boards with an ERoT (Hopper) or IRoT (Blackwell) chassis; the BMC of a BlueField-3',
        blocks=frozenset({WritePath.HOST_DEVICE}),
        protects=frozenset({Scope.DEVICE, Scope.COMPONENT}),
        read_back='InbandUpdatePolicyEnabled of the root of trust, and what its RoTProtectedComponents and ImageSlots say',
        cannot_prove='that a write by the host fails; that a false came from the root of trust, where it shows nothing else',
        source='CSDL NvidiaChassis, NvidiaRoTProtectedComponent v1_0_0; NVIDIA/bmcweb in_band.hpp; recording nvidia/gh200',
    )

    def __init__(self) -> None:
        self._roots = Once(_Roots)

    def read(self, accelerator: Accelerator, readers: Iterable[Reader], now: datetime) -> tuple[LockReading, ...]:
        """Return one reading for each root of trust that protects the device, or one component of it."""
        by_bmc = Readers(readers)
        found = []
        for reader in by_bmc.bmcs(accelerator):
            for root in self._roots.of(reader, '/redfish/v1').of(accelerator, reader.name):
                link = _protects(accelerator, root, reader)
                if link is None:
                    continue
                scope, part, inferred = link
                state, reason = LockState.UNKNOWN, root.why
                if root.document is not None:
                    state, reason = _state(root.value, root.document.body, inferred, reader)
                found.append(
                    reading(
                        mechanism=self.name,
                        accelerator=accelerator,
                        blocks=self.about.blocks,
                        ref=root.ref,
                        field=FIELD,
                        value=root.value,
                        state=state,
                        now=now,
                        session=reader.session,
                        scope=scope,
                        part=part,
                        reason=reason,
                    )
                )
        return tuple(_together(found))

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """PATCH false.

        :raises BmcError: it was not accepted.
        """
        _write(writer, reading, enabled=False)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """PATCH true.

        :raises BmcError: it was not accepted.
        """
        _write(writer, reading, enabled=True)


def _together(found: list[LockReading]) -> Iterator[LockReading]:
    """Return the readings of one device: two roots of trust are two ways to it, so an open one makes the other one partial."""
    for r in found:
        others = [o for o in found if (o.scope, o.part) == (r.scope, r.part) and o.state is not LockState.LOCKED_REPORTED]
        if r.state is LockState.LOCKED_REPORTED and others:
            reason = f'{others[0].ref.uri} also protects it, and is {others[0].state}'
            yield replace(r, state=LockState.PARTIAL, reason=reason)
        else:
            yield r


def _write(writer: Writer, reading: LockReading, *, enabled: bool) -> None:
    document = writer.fresh(reading.ref.uri)
    if value_at(document.body, 'Oem', 'Nvidia', PROPERTY) is MISSING:
        raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it no longer shows {PROPERTY}')
    writer.patch(document, {'Oem': {'Nvidia': {PROPERTY: enabled}}})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Root:
    """A chassis that shows the property, or that could not be read.

    :ivar value: of the property, ``MISSING`` when the chassis could not be read.
    :ivar why: the reason why it could not be read.
    """

    ref: Ref
    document: Document | None
    value: object
    why: str | None = None


class _Roots:
    """The roots of trust of a BMC, by the devices that they protect, as they say or as their names suggest."""

    def __init__(self, reader: Reader, top: str) -> None:
        self._all = list(_chassis(reader, top))
        self._by_place: dict[str, list[int]] = {}
        for number, root in enumerate(self._all):
            named = NAMED.match(last_of(root.ref.uri))
            for place in (*_protected(root.document, reader), *([named.group('device')] if named is not None else [])):
                self._by_place.setdefault(place, []).append(number)

    def of(self, accelerator: Accelerator, bmc: BmcName) -> Iterator[_Root]:
        """List the roots of trust that may protect a device."""
        mine = [ref.uri for ref in accelerator.refs if ref.bmc == bmc]
        places = [*mine, *(last_of(uri).removeprefix('HGX_') for uri in mine)]
        yield from (self._all[n] for n in sorted({n for place in places for n in self._by_place.get(place, ())}))


def _chassis(reader: Reader, top: str) -> Iterator[_Root]:
    """List every chassis of a BMC that shows the property, or why it could not be read."""
    try:
        root = value_at(reader.get(top).body, 'Chassis', '@odata.id')
        members = reader.get(root if isinstance(root, str) else f'{top}/Chassis').body.get('Members')
    except BmcError:
        return  # the inspection has a gap for it, which hides devices
    for member in members if isinstance(members, list) else ():
        uri = value_at(member, '@odata.id')
        if isinstance(uri, str):
            try:
                document = reader.get(uri)
            except BmcError as exc:
                yield _Root(ref=Ref(bmc=reader.name, uri=where(uri) or uri), document=None, value=MISSING, why=exc.what)
                continue
            value = value_at(document.body, 'Oem', 'Nvidia', PROPERTY)
            if value is not MISSING:
                yield _Root(ref=document.ref, document=document, value=value)


def _protected(document: Document | None, reader: Reader) -> tuple[str, ...]:
    """Return the resources that a root of trust says it protects."""
    if document is None:
        return ()
    return linked(value_at(document.body, 'Links', 'Oem', 'Nvidia', 'ComponentsProtected'), reader)


def _protects(accelerator: Accelerator, root: _Root, reader: Reader) -> tuple[Scope, str | None, bool] | None:
    """Return what of the device a root of trust protects: scope, part, and whether that is inferred. None when nothing.

    :param root: one that may be for the device: where it links nothing, it was found by its name.
    """
    body = root.document.body if root.document is not None else {}
    shown = value_at(body, 'Links', 'Oem', 'Nvidia', 'ComponentsProtected')
    if not (isinstance(shown, list) and shown):
        return Scope.DEVICE, None, True
    mine = {ref.uri for ref in accelerator.refs if ref.bmc == root.ref.bmc}
    protected = [place for place in linked(shown, reader) if place in mine]
    managers = [place for place in protected if '/Managers/' in place]
    if len(managers) < len(protected):
        return Scope.DEVICE, None, False
    for place in managers:
        part = _image_of(accelerator, place, reader)
        if part is not None:
            return Scope.COMPONENT, part, False
    return None


def _image_of(accelerator: Accelerator, manager: str, reader: Reader) -> str | None:
    """Return the Id of the item that is a Manager's active image, if it is one of the device."""
    try:
        link = value_at(reader.get(manager).body, 'Links', 'ActiveSoftwareImage', '@odata.id')
    except BmcError:
        return None
    return next((c.id for c in accelerator.firmware if c.ref.uri == meant(reader, link)), None)


def _state(value: object, body: JsonObject, inferred: bool, reader: Reader) -> tuple[LockState, str | None]:
    if value is True:
        return LockState.UNLOCKED, None
    if value is not False:
        return LockState.UNKNOWN, 'neither true nor false'
    if inferred:
        return LockState.UNKNOWN, 'the BMC does not say which device this root of trust protects'
    try:
        agrees = _other_sources(reader, body)
    except _Against as exc:
        return LockState.UNKNOWN, str(exc)
    missing = [sign for sign in SIGNS if not agrees and value_at(body, 'Oem', 'Nvidia', sign) in (MISSING, None, '')]
    if value_at(body, 'Status', 'State') != 'Enabled':
        missing.append('Status.State Enabled')
    if value_at(body, 'Status', 'Health') != 'OK':
        missing.append('Status.Health OK')
    if missing:
        return LockState.UNKNOWN, UNSURE + ', '.join(missing)
    return LockState.LOCKED_REPORTED, None


def _other_sources(reader: Reader, body: JsonObject) -> bool:
    """Whether a component of a root of trust, or an image slot of one, also says that its policy is closed.

    They are read only where the root itself says closed: nothing makes an open one more open.

    :raises _Against: one of them says anything else, or could not be read.
    """
    links = (
        value_at(body, 'Oem', 'Nvidia', COMPONENTS, '@odata.id'),
        value_at(body, 'Oem', 'NvidiaRoT', COMPONENTS, '@odata.id'),
    )
    link = next((one for one in links if isinstance(one, str)), None)
    agrees = False
    try:
        for component in _parts(reader, link):
            agrees |= _agrees(component, PROPERTY, closed=False)
            for slot in _parts(reader, value_at(component.body, 'ImageSlots', '@odata.id')):
                agrees |= _agrees(slot, 'WriteProtected', closed=True)
    except BmcError as exc:
        raise _Against(f'a second source for it could not be read: {exc.what}') from exc
    return agrees


class _Against(Exception):
    """A second source contradicts the property, or it is not known what it says."""


def _agrees(document: Document, name: str, *, closed: bool) -> bool:
    """Whether a second source says closed, too; false where it does not say.

    :raises _Against: it says anything else.
    """
    why = trouble(document.body, name)
    if why is not None:
        raise _Against(f'{document.ref.uri}: {why}')
    value = value_at(document.body, name)
    if value is not MISSING and value is not closed:
        raise _Against(f'{document.ref.uri} says otherwise: {name} is {literal(value)}')
    return value is closed


def _parts(reader: Reader, link: object) -> Iterator[Document]:
    """List the members of a collection.

    :raises BmcError: one of them could not be read.
    :raises _Against: there are more than there can be, so not all of them are read.
    """
    if not isinstance(link, str):
        return
    members = reader.get(link).body.get('Members')
    if not isinstance(members, list) or len(members) > MOST:
        raise _Against(f'{link} is no list of up to {MOST} members')
    for member in members:
        uri = value_at(member, '@odata.id')
        if not isinstance(uri, str):
            raise _Against(f'{link} has a member without a link')
        yield reader.get(uri)

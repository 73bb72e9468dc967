# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does a resource say, once everything odd in it is taken out?

A BMC's JSON is hostile: nulls, wrong types, a string for a list, sentinels for "none". Here it is read once; what is odd
becomes a Gap, and the rest comes. After this module there are only types.
"""

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from baremetal_acc.bmc.api import Document, JsonObject
from baremetal_acc.model.accelerator import PciIds
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Gap, PowerState
from baremetal_acc.model.ref import Ref

LONGEST = 256
"""Characters of one text. Longer ones are no names, versions or numbers."""

SENTINELS = frozenset({
    '', '-', '-*', 'n/a', 'na', 'nil', 'none', 'null', '(null)', 'unknown', 'not available', 'version not available',
    'not applicable',    'to be filled by o.e.m.', 'default string', 'cpldserialnumber',
})  # fmt: skip
"""What BMCs write for "there is none", without case. Seen in the recordings."""


@dataclass(frozen=True, slots=True)
class View:
    """One resource, or an object within it, read field by field.

    :ivar gaps: what was odd is added here; one list is shared by a whole look.
    :ivar at: the place of this object in its resource: ``FPGA/ReconfigurationSlots/0``.
    """

    ref: Ref
    body: JsonObject
    gaps: list[Gap] = field(repr=False)
    at: str = ''

    @classmethod
    def of(cls, document: Document, gaps: list[Gap]) -> 'View':
        """The view of a whole resource."""
        return cls(document.ref, document.body, gaps)

    @property
    def id(self) -> str:
        """Id; where it is missing, the last segment of the URI."""
        return self.text('Id') or last(self.ref.uri)

    def has(self, name: str) -> bool:
        """The property is there and not null."""
        return self.body.get(name) is not None

    def text(self, *path: str) -> str | None:
        """A text without blanks around it; None for null, absent and sentinels."""
        value = self._value(path)
        if isinstance(value, bool) or not isinstance(value, str | int):
            if value is not None:
                self._odd(path, f'text expected, {_kind(value)} found')
            return None
        text = ' '.join(''.join(c if c.isprintable() else ' ' for c in str(value)[: 4 * LONGEST]).split())
        if len(text) > LONGEST:
            self._odd(path, f'longer than {LONGEST} characters')
            text = text[:LONGEST]
        return None if text.casefold() in SENTINELS or not text.strip('0-:. ') else text

    def literal(self, *path: str) -> str | None:
        """A text as it is, stripped: for versions and words of an enumeration, where ``0`` is a value."""
        value = self._value(path)
        if not isinstance(value, str):
            if value is not None:
                self._odd(path, f'text expected, {_kind(value)} found')
            return None
        text = ''.join(c for c in value.strip()[:LONGEST] if c.isprintable())
        return None if text.casefold() in SENTINELS else text

    def boolean(self, *path: str) -> bool | None:
        """True or false; None for null, absent and anything else."""
        value = self._value(path)
        if value is None or isinstance(value, bool):
            return value
        self._odd(path, f'true or false expected, {_kind(value)} found')
        return None

    def integer(self, *path: str) -> int | None:
        """A whole number."""
        value = self._value(path)
        if isinstance(value, bool) or not isinstance(value, int):
            if value is not None:
                self._odd(path, f'number expected, {_kind(value)} found')
            return None
        return value

    def part(self, *path: str) -> 'View | None':
        """An object within this one; None when it is null or absent."""
        value = self._value(path)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._odd(path, f'object expected, {_kind(value)} found')
            return None
        return View(self.ref, value, self.gaps, self._place(path))

    def parts(self, *path: str) -> tuple['View | None', ...]:
        """The objects of an array, None where an element is none, so that positions stay."""
        value = self._value(path)
        if value is None:
            return ()
        if not isinstance(value, list):
            self._odd(path, f'array expected, {_kind(value)} found')
            return ()
        return tuple(
            View(self.ref, item, self.gaps, f'{self._place(path)}/{n}') if isinstance(item, Mapping) else None
            for n, item in enumerate(value)
        )

    def link(self, *path: str) -> str | None:
        """The URI of a link, its fragment kept."""
        value = self._value(path)
        if value is None:
            return None
        uri = value.get('@odata.id') if isinstance(value, Mapping) else None
        if isinstance(uri, str) and uri:
            return uri
        self._odd(path, 'link expected')
        return None

    def links(self, *path: str) -> tuple[str, ...]:
        """The URIs of an array of links; a single link counts as an array of one."""
        value = self._value(path)
        if isinstance(value, Mapping):
            one = self.link(*path)
            return (one,) if one else ()
        if value is None:
            return ()
        if not isinstance(value, list):
            self._odd(path, f'array of links expected, {_kind(value)} found')
            return ()
        found = []
        for n, item in enumerate(value):
            uri = item.get('@odata.id') if isinstance(item, Mapping) else None
            if isinstance(uri, str) and uri:
                found.append(uri)
            else:
                self._odd((*path, str(n)), 'link expected')
        return tuple(dict.fromkeys(found))

    def oem_links(self, name: str) -> tuple[str, ...]:
        """The links of that name in the ``Oem`` object of ``Links``, whoever's extension it is."""
        return tuple(uri for oem in self._oems('Links', 'Oem') for uri in oem.links(name))

    def below(self, *path: str) -> Iterator[str]:
        """Every @odata.id anywhere below a place: resources that an extension nests."""
        waiting = [self._value(path)]
        for _ in range(1000):
            if not waiting:
                return
            value = waiting.pop()
            if isinstance(value, Mapping):
                if isinstance(uri := value.get('@odata.id'), str):
                    yield uri
                waiting += list(value.values())
            elif isinstance(value, list):
                waiting += value

    def _oems(self, *path: str) -> Iterator['View']:
        oem = self.part(*path)
        for name in oem.body if oem is not None else ():
            if oem is not None and isinstance(oem.body[name], Mapping):
                yield View(self.ref, oem.body[name], self.gaps, f'{oem.at}/{name}')

    def _value(self, path: tuple[str, ...]) -> object:
        value: object = self.body
        for n, name in enumerate(path):
            if not isinstance(value, Mapping):
                if value is not None:
                    self._odd(path[:n], f'object expected, {_kind(value)} found')
                return None
            value = value.get(name)
        return value

    def _place(self, path: tuple[str, ...]) -> str:
        return '/'.join((self.at, *path) if self.at else path)

    def _odd(self, path: tuple[str, ...], reason: str) -> None:
        gap = Gap(ref=self.ref, field=self._place(path), reason=reason)
        if gap not in self.gaps:
            self.gaps.append(gap)


def last(uri: str) -> str:
    """The last segment of a URI."""
    return uri.rstrip('/').rsplit('/', 1)[-1]


def parent(uri: str) -> str:
    """The URI without its last segment."""
    return uri.rstrip('/').rsplit('/', 1)[0]


def uuid_of(view: View, *path: str) -> str | None:
    """A UUID in lower case; None for all zero or all one, and for what is no UUID."""
    text = view.text(*path)
    if text is None:
        return None
    try:
        value = uuid.UUID(text)
    except ValueError:
        return None
    return None if value.int in (0, 2**128 - 1) else str(value)


def serial_of(view: View) -> str | None:
    """SerialNumber, stripped."""
    return view.text('SerialNumber')


def version_of(view: View, *path: str) -> str | None:
    """A version, stripped; None for sentinels."""
    return view.literal(*path)


def pci_id(view: View, name: str) -> str | None:
    """A PCI id as ``0x10de``; None for sentinels.

    BMCs write ``0x10de``, ``0X10DE``, ``10DE`` and decimal numbers, also as text. Digits alone without a prefix are decimal,
    as seen (``"4139"`` is 0x102b).
    """
    value = view.body.get(name)
    if isinstance(value, str):
        text = value.strip().lower()
        try:
            number = int(text, 16) if text.startswith('0x') or re.search('[a-f]', text) else int(text, 10)
        except ValueError:
            return None
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        return None
    return f'0x{number:04x}' if 0 < number < 0xFFFF else None


def class_code(view: View) -> str | None:
    """ClassCode as ``0x030200``; None where a BMC has its bytes in the wrong order (``0x000003``, seen on two)."""
    text = view.text('ClassCode')
    if text is None:
        return None
    try:
        number = int(text, 16)
    except ValueError:
        return None
    return f'0x{number:06x}' if 0xFF < number < 0xFFFFFF else None


def pci_ids(view: View) -> PciIds:
    """The ids of a PCIeFunction."""
    numbers = [view.body.get(name) for name in ('SegmentNumber', 'BusNumber', 'DeviceNumber', 'FunctionNumber')]
    parts = [_number(value) for value in numbers]
    segment, bus, device, function = parts
    address = None
    if bus is not None and device is not None and function is not None:
        address = f'{segment or 0:04x}:{bus:02x}:{device:02x}.{function:x}'
    return PciIds(
        vendor_id=pci_id(view, 'VendorId'),
        device_id=pci_id(view, 'DeviceId'),
        subsystem_vendor_id=pci_id(view, 'SubsystemVendorId'),
        subsystem_id=pci_id(view, 'SubsystemId'),
        class_code=class_code(view),
        address=address,
    )


def component(view: View, *, certain: bool = True) -> Component:
    """A SoftwareInventory.

    An item that says it is staged and not active holds a version that will run; :mod:`.firmware` puts it to its twin.
    """
    software_id = view.text('SoftwareId')
    return Component(
        id=view.id,
        ref=view.ref,
        name=view.text('Name'),
        version=version_of(view, 'Version'),
        lowest_supported=version_of(view, 'LowestSupportedVersion'),
        updateable=view.boolean('Updateable'),
        software_id=software_id,
        write_protected=view.boolean('WriteProtected'),
        certain=certain,
    )


def power_state(view: View) -> PowerState:
    """PowerState; an unknown word is Unknown."""
    word = view.literal('PowerState')
    try:
        return PowerState(word) if word is not None else PowerState.UNKNOWN
    except ValueError:
        return PowerState.UNKNOWN


def absent(view: View) -> bool:
    """Status.State says that nothing is there (an empty slot or socket)."""
    return view.literal('Status', 'State') == 'Absent'


def _number(value: object) -> int | None:
    """A bus, device, function or segment number: a number, or text with ``0x``."""
    if isinstance(value, str):
        try:
            value = int(value.strip(), 16) if value.strip().lower().startswith('0x') else int(value.strip())
        except ValueError:
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 65536 else None


def _kind(value: object) -> str:
    match value:
        case bool():
            return 'true or false'
        case str():
            return 'text'
        case int() | float():
            return 'a number'
        case list():
            return 'an array'
        case Mapping():
            return 'an object'
        case _:
            return type(value).__name__

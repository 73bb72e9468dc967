# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse properties of Redfish resources (texts, links, UUIDs, versions, PCI ids) into types, and note malformed ones as gaps.

A BMC's JSON is hostile: nulls, wrong types, a string for a list, sentinels for "none". It is parsed here once: a malformed
property becomes a Gap, and the rest of the resource is still read. After this module there are only types.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from baremetal_acc.bmc.driver import Document, JsonObject
from baremetal_acc.bmc.placeholders import SENTINELS
from baremetal_acc.bmc.quirks import INSTALLED_AT
from baremetal_acc.model.accelerator import PciIds
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Gap, PowerState
from baremetal_acc.model.ref import Ref

LONGEST = 256
"""Characters of one text. Longer texts are no names, versions or numbers."""

MOST = 2000
"""Elements of one array. Real arrays have up to a few hundred; for further elements one gap is noted."""

_NO_TEXT = '\ufffd'
"""The character by which :func:`.resource_document.text_of` replaces undecodable bytes."""

_NAMES = frozenset({'Name', 'Model', 'Manufacturer', 'Description'})

_LONGEST_SENTINEL = max(map(len, SENTINELS))

_PADDING = ' \t\r\n\v\f\0'

HEX32 = re.compile('[0-9a-f]{32}', re.ASCII)


class Gaps(list[Gap]):
    """A list of gaps in the order in which they were noted, without duplicates. A hostile BMC causes tens of thousands."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[Gap] = set()

    def append(self, gap: Gap) -> None:
        """Add a gap unless it is there already."""
        if gap not in self._known:
            self._known.add(gap)
            super().append(gap)


@dataclass(slots=True, eq=False)
class ResourceView:
    """Typed access to the properties of one resource, or of an object within it.

    :ivar ref: the resource.
    :ivar body: its JSON object, or the nested one.
    :ivar gaps: malformed properties are noted here; one list is shared by a whole inventory.
    :ivar at: path of a nested object in its resource: ``FPGA/ReconfigurationSlots/0``.
    :ivar ids: of a PCIeFunction, once :func:`pci_ids` has parsed them.
    """

    ref: Ref
    body: JsonObject
    gaps: list[Gap] = field(repr=False)
    at: str = ''
    ids: PciIds | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, document: Document, gaps: list[Gap]) -> 'ResourceView':
        """The view of a whole resource."""
        return cls(document.ref, document.body, gaps)

    @property
    def id(self) -> str:
        """Id; the last segment of the URI if there is none."""
        return self.text('Id') or last(self.ref.uri)

    def has(self, name: str) -> bool:
        """Whether a property is present and not null."""
        return self.body.get(name) is not None

    def text(self, *path: str) -> str | None:
        """A text, with whitespace stripped and collapsed; None for null, absent, sentinels and texts of zeros only."""
        value = self._value(path)
        if value is None:
            return None
        if isinstance(value, str):
            if _NO_TEXT in value and self._is_lost(path):
                return None
            if len(value) <= LONGEST:
                return _plain_text(value)
            text = value.strip()
        elif isinstance(value, int) and not isinstance(value, bool):
            self._odd(path, 'text expected, a number found: used as text')
            text = _digits(value)
        else:
            self._odd(path, f'text expected, {json_type(value)} found')
            return None
        if len(text) > LONGEST:
            text = _squeezed(text[: 4 * LONGEST])
            if len(text) > LONGEST:
                self._odd(path, f'longer than {LONGEST} characters')
                text = text[:LONGEST]
        return _plain_text(text)

    def literal(self, *path: str) -> str | None:
        """A text as it is, stripped; None for null, absent and sentinels. For versions and enumerations: ``0`` is a value.

        An unprintable character becomes U+FFFD; it is not removed, so that a changed text does not look unchanged.
        """
        value = self._value(path)
        if value is None:
            return None
        if not isinstance(value, str):
            self._odd(path, f'text expected, {json_type(value)} found')
            return None
        if _NO_TEXT in value and self._is_lost(path):
            return None
        text = value.strip(_PADDING)
        if len(text) > LONGEST:
            self._odd(path, f'longer than {LONGEST} characters')
            text = text[: LONGEST - 1] + '\u2026'
        if not text.isprintable():
            self._odd(path, 'contains characters that cannot be printed')
            text = ''.join(c if c.isprintable() else '\ufffd' for c in text)
        return None if is_sentinel(text) else text

    def _is_lost(self, path: tuple[str, ...]) -> bool:
        """Note undecodable bytes in a text.

        :returns: whether the text is unusable: the rest of a name still tells a product, the rest of a number is another
            number.
        """
        self._odd(path, 'contains bytes that are not text')
        return path[-1] not in _NAMES

    def boolean(self, *path: str) -> bool | None:
        """True or false; None for null, absent and any other type."""
        value = self._value(path)
        if value is None or isinstance(value, bool):
            return value
        self._odd(path, f'true or false expected, {json_type(value)} found')
        return None

    def integer(self, *path: str) -> int | None:
        """A whole number; None for null, absent and any other type."""
        value = self._value(path)
        if isinstance(value, bool) or not isinstance(value, int):
            if value is not None:
                self._odd(path, f'number expected, {json_type(value)} found')
            return None
        return value

    def part(self, *path: str) -> 'ResourceView | None':
        """A nested object; None if it is null, absent or of another type."""
        value = self._value(path)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._odd(path, f'object expected, {json_type(value)} found')
            return None
        return ResourceView(self.ref, value, self.gaps, self._place(path))

    def parts(self, *path: str) -> tuple['ResourceView | None', ...]:
        """The objects of an array; None for an element of another type, so that indexes are kept."""
        value = self._value(path)
        if value is None:
            return ()
        if not isinstance(value, list):
            self._odd(path, f'array expected, {json_type(value)} found')
            return ()
        return tuple(
            ResourceView(self.ref, item, self.gaps, f'{self._place(path)}/{n}') if isinstance(item, dict) else None
            for n, item in enumerate(self._bounded(path, value))
        )

    def link(self, *path: str) -> str | None:
        """The URI of a link, with its fragment.

        An array of one link, and a path in place of a link object, are accepted, and noted as malformed.
        """
        value = self._value(path)
        if value is None:
            return None
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            self._odd(path, 'link expected, an array with one link found: that link is used')
            value = value[0]
        uri = value.get('@odata.id') if isinstance(value, dict) else None
        if isinstance(uri, str) and uri:
            return uri
        if _is_path(value):
            return self._written(path, value)
        self._odd(path, f'link expected, {json_type(value)} found')
        return None

    def links(self, *path: str) -> tuple[str, ...]:
        """The URIs of an array of links; a single link counts as an array of one."""
        value = self._value(path)
        if value is None:
            return ()
        if isinstance(value, dict):
            one = self.link(*path)
            return (one,) if one else ()
        if _is_path(value):
            return (self._written(path, value),)
        if not isinstance(value, list):
            self._odd(path, f'link expected, {json_type(value)} found')
            return ()
        found = []
        for n, item in enumerate(self._bounded(path, value)):
            uri = item.get('@odata.id') if isinstance(item, dict) else None
            if isinstance(uri, str) and uri:
                found.append(uri)
            elif _is_path(item):
                found.append(self._written((*path, str(n)), item))
            else:
                self._odd((*path, str(n)), 'link expected')
        return tuple(dict.fromkeys(found))

    def _written(self, path: tuple[str, ...], text: str) -> str:
        """Accept a path in place of a link object, and note it as malformed."""
        self._odd(path, 'link expected, a path found: used as a link')
        return text

    def oem_links(self, name: str) -> tuple[str, ...]:
        """The links of a name in ``Links.Oem``, of any vendor."""
        return tuple(uri for oem in self._oems('Links', 'Oem') for uri in oem.links(name))

    def below(self, *path: str) -> Iterator[str]:
        """Every @odata.id at any depth below a property: resources that an extension nests."""
        waiting = [self._value(path)]
        for _ in range(1000):
            if not waiting:
                return
            value = waiting.pop()
            if isinstance(value, dict):
                if isinstance(uri := value.get('@odata.id'), str):
                    yield uri
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value

    def _oems(self, *path: str) -> Iterator['ResourceView']:
        oem = self.part(*path)
        for name in oem.body if oem is not None else ():
            if oem is not None and isinstance(oem.body[name], dict):
                yield ResourceView(self.ref, oem.body[name], self.gaps, f'{oem.at}/{name}')

    def _value(self, path: tuple[str, ...]) -> object:
        value: object = self.body.get(path[0]) if path else self.body
        if value is None or len(path) < 2:
            return value
        for n in range(1, len(path)):
            if value is None:
                return None
            if not isinstance(value, dict):
                self._odd(path[:n], f'object expected, {json_type(value)} found')
                return None
            value = value.get(path[n])
        return value

    def _bounded(self, path: tuple[str, ...], array: list[object]) -> list[object]:
        if len(array) > MOST:
            self._odd(path, f'more than {MOST} elements: the rest was not read')
        return array[:MOST]

    def _place(self, path: tuple[str, ...]) -> str:
        return '/'.join((self.at, *path) if self.at else path)

    def _odd(self, path: tuple[str, ...], reason: str) -> None:
        gap = Gap(ref=self.ref, field=self._place(path), reason=reason)
        if isinstance(self.gaps, Gaps) or gap not in self.gaps:
            self.gaps.append(gap)

    def odd(self, name: str, reason: str) -> None:
        """Note a property of the right type whose value makes no sense."""
        self._odd((name,), reason)


def last(uri: str) -> str:
    """The last segment of a URI."""
    return uri.rstrip('/').rsplit('/', 1)[-1]


def parent(uri: str) -> str:
    """A URI without its last segment."""
    return uri.rstrip('/').rsplit('/', 1)[0]


def uuid_of(view: ResourceView, *path: str) -> str | None:
    """A UUID in lower case; None for all zeros or all ones, and for a text that is no UUID."""
    text = view.text(*path)
    if text is None:
        return None
    digits = text.lower().removeprefix('urn:uuid:').strip('{}').replace('-', '')
    if len(digits) != 32 or HEX32.fullmatch(digits) is None:
        view.odd('/'.join(path), 'not a UUID')
        return None
    if not digits.strip('f') or not digits.strip('0'):
        return None
    return f'{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}'


_NO_VERSION_YET = re.compile(
    r'(?:updat|upgrad|flash|initiali[sz]|load|refresh)ing[.…]*|(?:(?:update|upgrade) )?in progress|0+(?:[.:_-]0+){2,}',
    re.IGNORECASE,
)
"""Words and zeros in place of a version during an update; no recording has such a version."""


def serial_of(view: ResourceView) -> str | None:
    """SerialNumber, stripped."""
    return view.text('SerialNumber')


def version_of(view: ResourceView, *path: str) -> str | None:
    """A version, stripped; None for sentinels, and for the placeholder while a component is being updated."""
    found = view.literal(*path)
    return None if found is None or _NO_VERSION_YET.fullmatch(found) else found


def component(view: ResourceView, *, certain: bool = True) -> Component:
    """Parse a SoftwareInventory item.

    An item that is staged and not active has the version to come; :mod:`.firmware` merges it into its active counterpart.
    """
    software_id = view.text('SoftwareId')
    return Component(
        id=view.id,
        ref=view.ref,
        name=view.text('Name'),
        version=version_of(view, 'Version'),
        lowest_supported=view.literal('LowestSupportedVersion'),
        updateable=view.boolean('Updateable'),
        software_id=software_id,
        write_protected=view.boolean('WriteProtected'),
        certain=certain,
        is_updating=view.literal('Status', 'State') == 'Updating',
        installed=next((at for path in INSTALLED_AT if (at := view.text(*path)) is not None), None),
    )


def state_of(view: ResourceView) -> str | None:
    """Status.State as the BMC writes it: Enabled, Disabled, StandbyOffline, ..."""
    return view.literal('Status', 'State')


def power_state(view: ResourceView) -> PowerState:
    """PowerState; an unknown or missing word is UNKNOWN."""
    word = view.literal('PowerState')
    try:
        return PowerState(word) if word is not None else PowerState.UNKNOWN
    except ValueError:
        return PowerState.UNKNOWN


def absent(view: ResourceView) -> bool:
    """Whether Status.State is Absent (an empty slot or socket)."""
    return (state_of(view) or '').casefold() == 'absent'


@functools.lru_cache(maxsize=8192)
def _plain_text(value: str) -> str | None:
    """A text with whitespace stripped and collapsed; None for sentinels and zeros. Cached, as machines repeat texts."""
    text = value.strip()
    if not text.isprintable() or '  ' in text:
        text = _squeezed(text)
    return None if is_sentinel(text) or not text.strip('0-:. ') else text


def _squeezed(text: str) -> str:
    """A text with one blank in place of unprintable characters and of several blanks."""
    return ' '.join(''.join(c if c.isprintable() else ' ' for c in text).split())


def is_sentinel(text: str) -> bool:
    return len(text) <= _LONGEST_SENTINEL and text.casefold() in SENTINELS


def _digits(number: int) -> str:
    """A number as text. Python refuses to convert numbers of more than 4300 digits."""
    return str(number) if -(10**LONGEST) < number < 10**LONGEST else '9' * (LONGEST + 1)


def _is_path(value: object) -> TypeGuard[str]:
    """Whether a value is a path that can only be meant as a link."""
    return isinstance(value, str) and value.startswith('/redfish/')


def json_type(value: object) -> str:
    match value:
        case bool():
            return 'true or false'
        case str():
            return 'text'
        case int() | float():
            return 'a number'
        case list():
            return 'an array'
        case dict():
            return 'an object'
        case _:
            return type(value).__name__

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a property of a Redfish resource and make it a lock reading: functions that all lock mechanisms share.

They find the reader that has a resource, follow links, and find a value and write it as JSON text.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from baremetal_acc.bmc.driver import Document, Reader
from baremetal_acc.errors import BmcError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.uri import normal

MISSING = object()
"""Stands for a property that is not there; null is a value."""

LONGEST = 400
"""Limit of the characters of a value that are kept. Values that mechanisms read have a few dozen."""

_JSON = json.JSONEncoder(sort_keys=True, allow_nan=False)

T = TypeVar('T')


class Once(Generic[T]):
    """A cache of what is computed once for each reader, however many devices ask for it.

    A reader answers the same throughout its inspection. A BMC may show thousands of devices and of items. Going through all
    items for each device took two minutes.
    """

    def __init__(self, make: Callable[[Reader, str], T]) -> None:
        """Nothing is computed yet.

        :param make: computes the value for a reader and a URI.
        """
        self._make = make
        self._known: WeakKeyDictionary[Reader, dict[str, T]] = WeakKeyDictionary()

    def of(self, reader: Reader, uri: str) -> T:
        """Return the value for that reader and URI."""
        known = self._known.setdefault(reader, {})
        if uri not in known:
            known[uri] = self._make(reader, uri)
        return known[uri]


def where(link: object) -> str | None:
    """Return the URI that a link leads to, for a request; None when it is no link. To compare URIs, see :func:`meant`."""
    if not isinstance(link, str):
        return None
    bare = link.partition('#')[0]
    return bare if not bare or '://' in bare else normal(bare)


def last_of(uri: str) -> str:
    """Return the last segment of a URI, which names a resource among its siblings."""
    return uri.rpartition('/')[2]


def meant(reader: Reader | None, link: object) -> str | None:
    """Return the URI of the resource that a link leads to, as references write it; None when it is no link."""
    place = where(link)
    known = reader.peek(place) if reader is not None and place is not None else None
    return place if known is None else known.ref.uri


def linked(found: object, reader: Reader | None = None) -> tuple[str, ...]:
    """Return the URIs that a list of links leads to, in its order; what is no link, or no list, is left out.

    :param reader: that knows how the BMC writes their URIs; without it the URIs are for requests, and not for comparing.
    """
    links = [value_at(one, '@odata.id') for one in found] if isinstance(found, list) else []
    return tuple(place for link in links if (place := meant(reader, link)) is not None)


def related(accelerator: Accelerator, by_bmc: 'Readers') -> dict[Ref, list[Component]]:
    """Return the items of a device by each resource that the BMC says they are the firmware of (RelatedItem)."""
    found: dict[Ref, list[Component]] = {}
    for item in accelerator.firmware:
        document = by_bmc.document(item.ref)[0] if item.id is not None else None
        reader = by_bmc.of(item.ref.bmc)
        for place in dict.fromkeys(linked(document.body.get('RelatedItem'), reader)) if document is not None else ():
            found.setdefault(Ref(bmc=item.ref.bmc, uri=place), []).append(item)
    return found


class Readers:
    """The readers of one inspection, by BMC."""

    def __init__(self, readers: Iterable[Reader]) -> None:
        self._readers: dict[BmcName, Reader] = {reader.name: reader for reader in readers}

    def of(self, bmc: BmcName) -> Reader | None:
        """Return the reader of a BMC, None when it takes no part in this inspection."""
        return self._readers.get(bmc)

    def session(self, bmc: BmcName) -> str:
        """Return the name of the session by which a BMC is read; empty when it takes no part in this inspection."""
        reader = self._readers.get(bmc)
        return reader.session if reader is not None else ''

    def document(self, ref: Ref) -> tuple[Document | None, str | None]:
        """Return a resource, or why it could not be read."""
        reader = self._readers.get(ref.bmc)
        if reader is None:
            return None, 'its BMC was not read'
        try:
            return reader.get(ref.uri), None
        except BmcError as exc:
            return None, exc.what

    def bmcs(self, accelerator: Accelerator) -> Iterator[Reader]:
        """List the readers of all BMCs on which a device has resources, sorted by name."""
        for name in sorted({ref.bmc for ref in accelerator.refs}):
            if name in self._readers:
                yield self._readers[name]


def value_at(body: object, *path: str) -> Any:
    """Return the value at a path of names; :data:`MISSING` when there is none, or something on the path is no object."""
    value: Any = body
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return MISSING
        value = value[name]
    return value


def literal(value: object) -> str | None:
    """Return a value as JSON text; None when there is none. What is no JSON (NaN, infinity) becomes a text that says so.

    A text that is cut says how long it was.
    """
    if value is MISSING:
        return None
    try:
        text = _JSON.encode(value)
        return text if len(text) <= LONGEST else f'{text[:LONGEST]}... (cut, of {len(text)} characters)'
    except ValueError:
        return '"a number that JSON does not have"'
    except RecursionError:
        # The value could be parsed, as the stack was not as deep there as here.
        return '"nested too deeply"'


def reading(
    *,
    mechanism: str,
    accelerator: Accelerator,
    blocks: frozenset[WritePath],
    ref: Ref,
    field: str,
    value: object,
    state: LockState,
    now: datetime,
    session: str,
    scope: Scope = Scope.DEVICE,
    part: str | None = None,
    needs: ResetKind = ResetKind.NONE,
    reset: Ref | None = None,
    wraps: bool = False,
    with_start: Ref | None = None,
    in_force: bool = False,
    closable: bool = True,
    closes: str | None = None,
    leaves: str | None = None,
    reason: str | None = None,
    volatile: bool = False,
) -> LockReading:
    """Return a lock reading with that value."""
    return LockReading(
        mechanism=mechanism,
        accelerator=accelerator.id,
        blocks=blocks,
        ref=ref,
        field=field,
        value=literal(value),
        state=state,
        at=now,
        session=session,
        scope=scope,
        part=part,
        needs=needs,
        reset=reset,
        wraps=wraps,
        with_start=with_start,
        in_force=in_force,
        closable=closable,
        closes=closes,
        leaves=leaves,
        reason=reason,
        volatile=volatile,
    )

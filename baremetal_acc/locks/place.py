# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What do the documents of a device say at a place, and how is that made a reading?

What all mechanisms share: which reader has a resource, how a value is found and written down.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from baremetal_acc.bmc.api import Document, Reader
from baremetal_acc.errors import BmcError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.uri import normal

MISSING = object()
"""There is no such property; null is a value."""

LONGEST = 400
"""Characters of a value that are kept. Those that mechanisms read have a few dozen."""

_JSON = json.JSONEncoder(sort_keys=True, allow_nan=False)

T = TypeVar('T')


class Once(Generic[T]):
    """What is worked out once for each reader, however many devices ask: a reader answers the same all through its look.

    A BMC may show thousands of devices and of items. Going through all items for each device took two minutes.
    """

    def __init__(self, make: Callable[[Reader, str], T]) -> None:
        """Nothing is known yet.

        :param make: of a reader and a URI.
        """
        self._make = make
        self._known: WeakKeyDictionary[Reader, dict[str, T]] = WeakKeyDictionary()

    def of(self, reader: Reader, uri: str) -> T:
        """What it is for that reader and URI."""
        known = self._known.setdefault(reader, {})
        if uri not in known:
            known[uri] = self._make(reader, uri)
        return known[uri]


def where(link: object) -> str | None:
    """Where a link leads to, as it is asked for; None when it is no link. To compare it, see :func:`meant`."""
    if not isinstance(link, str):
        return None
    bare = link.partition('#')[0]
    return bare if not bare or '://' in bare else normal(bare)


def last_of(uri: str) -> str:
    """What a resource is called among its like: the last part of its URI."""
    return uri.rpartition('/')[2]


def meant(reader: Reader | None, link: object) -> str | None:
    """The resource that a link leads to, as references write it, in whatever form the link does; None when it is no link."""
    place = where(link)
    known = reader.peek(place) if reader is not None and place is not None else None
    return place if known is None else known.ref.uri


def linked(found: object, reader: Reader | None = None) -> tuple[str, ...]:
    """The resources that a list of links leads to, in its order; what is no link, or no list, leads to none.

    :param reader: that knows how the BMC writes their URIs; without it they are for asking, and not for comparing.
    """
    links = [value_at(one, '@odata.id') for one in found] if isinstance(found, list) else []
    return tuple(place for link in links if (place := meant(reader, link)) is not None)


def related(accelerator: Accelerator, by_bmc: 'Readers') -> dict[Ref, list[Component]]:
    """The items of a device by each resource that the BMC says they are the firmware of."""
    found: dict[Ref, list[Component]] = {}
    for item in accelerator.firmware:
        document = by_bmc.document(item.ref)[0] if item.id is not None else None
        reader = by_bmc.of(item.ref.bmc)
        for place in dict.fromkeys(linked(document.body.get('RelatedItem'), reader)) if document is not None else ():
            found.setdefault(Ref(bmc=item.ref.bmc, uri=place), []).append(item)
    return found


class Readers:
    """The readers of one look, by BMC."""

    def __init__(self, readers: Iterable[Reader]) -> None:
        self._readers: dict[BmcName, Reader] = {reader.name: reader for reader in readers}

    def of(self, bmc: BmcName) -> Reader | None:
        """The reader of a BMC, None when it takes no part in this look."""
        return self._readers.get(bmc)

    def session(self, bmc: BmcName) -> str:
        """Names the session by which a BMC is read; empty when it takes no part in this look."""
        reader = self._readers.get(bmc)
        return reader.session if reader is not None else ''

    def document(self, ref: Ref) -> tuple[Document | None, str | None]:
        """A resource, or why it could not be read."""
        reader = self._readers.get(ref.bmc)
        if reader is None:
            return None, 'its BMC was not looked at'
        try:
            return reader.get(ref.uri), None
        except BmcError as exc:
            return None, exc.what

    def bmcs(self, accelerator: Accelerator) -> Iterator[Reader]:
        """The readers of all BMCs on which a device has resources, sorted by name."""
        for name in sorted({ref.bmc for ref in accelerator.refs}):
            if name in self._readers:
                yield self._readers[name]


def value_at(body: object, *path: str) -> Any:
    """The value at a place, :data:`MISSING` when there is none, as in what is no object at all."""
    value: Any = body
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return MISSING
        value = value[name]
    return value


def literal(value: object) -> str | None:
    """A value as JSON text; None when there is none. What is no JSON (NaN, infinity) is given as text that says so.

    What is cut says how long it was.
    """
    if value is MISSING:
        return None
    try:
        text = _JSON.encode(value)
        return text if len(text) <= LONGEST else f'{text[:LONGEST]}... (cut, of {len(text)} characters)'
    except ValueError:
        return '"a number that JSON does not have"'
    except RecursionError:
        # It was read from where the stack is not as deep as here.
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
    """A reading of that value."""
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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Table of the resources of one inventory: what was read of each URI, and which other spellings of a URI mean it."""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.request_target import MAX_URI, PLACE
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, is_not_found
from baremetal_acc.model.ref import BmcName
from baremetal_acc.model.uri import Spellings, normal

DEEPEST = 24
"""Segments that are removed from a URI to find a resource above it. Real URIs have up to sixteen."""

MAX_SPELLINGS = 20_000
"""Spellings of URIs whose normal form is kept; more are resolved each time."""

Found = Document | BmcError
Then = Callable[[Found], None]


@dataclass(slots=True)
class ReadState:
    """The state of one URI in this inventory.

    :ivar found: the document or error, None while it was not read.
    :ivar running: it is queued or being read.
    :ivar whole: a collection that is read with all its pages.
    :ivar wanted: it was requested, not only read ahead.
    :ivar waiting: callbacks for the result, each with whether it needs all pages of a collection.
    """

    found: Found | None = None
    running: bool = False
    whole: bool = False
    wanted: bool = False
    waiting: list[tuple[Then, bool]] = field(default_factory=list)


class ResourceTable:
    """The resources of one inventory by URI: what was read of each, and which other spellings of a URI mean it.

    :ivar name: the BMC.
    :ivar lock: held while an entry changes.
    :ivar entries: what is known of each URI, by its normal form.
    :ivar sent: successful requests, in order: paths, some with a query.
    """

    def __init__(self, name: BmcName, connector: Connector) -> None:
        self.name = name
        self.lock = threading.RLock()
        self.entries: dict[str, ReadState] = {}
        self.sent: list[str] = []
        self._connector = connector
        self._keys: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._spellings: tuple[int, Spellings] | None = None

    def place(self, uri: str) -> str:
        """The URI of a resource in normal form.

        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        if len(uri) <= MAX_URI and _is_place(uri):
            return uri
        known = self._keys.get(uri)
        if known is None:
            known = normal(self._connector.path(uri))
            if len(self._keys) < MAX_SPELLINGS:
                self._keys[uri] = known
        return known

    def settled(self, place: str) -> str:
        """The URI of the resource that a URI means, once everything was read; for URIs that differ in letter case.

        A URI in another case means a resource if the BMC answered so when asked there; or if nothing is at the URI as spelled
        and only one resource differs from it in case alone.
        """
        above = place
        for _ in range(DEEPEST):
            known = self._known_as(above)
            if known is not None:
                # The rest of a URI that was not read keeps its spelling, below the resource's own.
                return f'{known}{place[len(above) :]}'
            above = above.rpartition('/')[0]
            if not above:
                break
        return place

    def _known_as(self, place: str) -> str | None:
        """The URI of the read resource that a URI means; None if there is none."""
        if place in self._aliases:
            return self._aliases[place]
        known = self.entries.get(place)
        if known is not None and isinstance(known.found, Document):
            return place
        meant = self.of_another_case(place)
        return meant if meant != place else None

    def means(self, place: str, other: str) -> None:
        """Note that a URI means the resource of another URI."""
        with self.lock:
            self._aliases[place] = other

    def of_another_case(self, place: str) -> str:
        """The URI of the only read resource that differs from a URI in letter case alone; the URI itself if there is none."""
        if self._spellings is None or self._spellings[0] != len(self.sent) + len(self.entries):
            read = [
                uri for uri, one in tuple(self.entries.items()) if isinstance(one.found, Document) and uri not in self._aliases
            ]
            self._spellings = (len(self.sent) + len(self.entries), Spellings(read))
        return self._spellings[1].of(place)

    def peek(self, uri: str) -> Document | None:
        """The document that was read at a URI, else None. Sends no request."""
        try:
            place = self.place(uri)
        except BmcAnswerInvalid:
            return None
        both = (self.entries.get(one) for one in (self.settled(place), place))
        return next((one.found for one in both if one is not None and isinstance(one.found, Document)), None)

    def at(self, place: str) -> Found | None:
        """The result for a normal-form URI (see :meth:`place`), None if there is none yet. Marks it as wanted."""
        known = self.entries.get(place)
        if known is None or known.running:
            return None
        known.wanted = True
        return known.found

    def so_far(self, uri: str) -> Found | None:
        """The document or error of a URI, None if there is none yet. Does not mark it as wanted.

        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        known = self.entries.get(self.place(uri))
        return None if known is None or known.running else known.found

    def keep(self, found: Document) -> None:
        """Keep a document as read, unless its URI was read or is being read."""
        place = found.ref.uri
        known = self.entries.get(place)
        if known is not None and (known.found is not None or known.running):
            return
        with self.lock:
            known = self.entries.get(place)
            if known is None:
                self.entries[place] = ReadState(found)
            elif known.found is None and not known.running:
                known.found = found

    @property
    def asked(self) -> tuple[str, ...]:
        """Successful requests for wanted resources, in order: paths, some with the ``$expand`` or ``only`` query."""
        return tuple(target for target in self.sent if self._is_wanted(target))

    def _is_wanted(self, target: str) -> bool:
        known = self.entries.get(normal(target))
        return known is not None and known.wanted

    @property
    def documents(self) -> dict[str, Document]:
        """All documents that were read, by URI."""
        return {place: known.found for place, known in self.entries.items() if isinstance(known.found, Document)}

    @property
    def gone(self) -> tuple[str, ...]:
        """Wanted URIs that do not exist (HTTP 404), sorted; without other spellings of existing ones."""
        wanted = [(p, one.found) for p, one in tuple(self.entries.items()) if one.wanted]
        found = [p for p, answer in wanted if is_not_found(answer)]
        return tuple(sorted(place for place in found if self.peek(place) is None))


@functools.lru_cache(maxsize=8192)
def _is_place(uri: str) -> bool:
    """Whether a URI is in normal form. Cached, as machines of one product have the same URIs."""
    return PLACE.fullmatch(uri) is not None

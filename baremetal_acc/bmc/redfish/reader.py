# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reader of Redfish resources for one inventory: each URI at most once, several at a time, by ``$expand`` where faster.

Requests go through a work queue (:mod:`.work_queue`); each document or error is kept, and given to whoever wants it. Limits:
8 MiB and 400,000 values for an answer, four times that for an inventory, 2,000 members of a collection, 5,000 resources, and
the time budget of the BMC's address.
"""

import contextlib
import functools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from baremetal_acc.bmc.driver import BmcAddress, Document, JsonObject, NotReadYet
from baremetal_acc.bmc.redfish.client import MAX_URI, PLACE, Connector, RedfishAnswer
from baremetal_acc.bmc.redfish.concurrency import BmcHabits
from baremetal_acc.bmc.redfish.extended_info import said
from baremetal_acc.bmc.redfish.parse import parent
from baremetal_acc.bmc.redfish.work_queue import WorkQueue
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcRefusalReason, BmcRefused, BmcUnreachable, is_not_found
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.uri import Spellings, differ_in_case_only, normal

GONE = frozenset({'ResourceNotFound', 'ResourceMissingAtURI'})
"""MessageIds of a body that means 404 but comes with status 200, as seen on a real BMC. Source: DMTF Base registry."""


DEEPEST = 24
"""Segments that are removed from a URI to find a resource above it. Real URIs have up to sixteen."""

MAX_MEMBERS = 2000
MAX_RESOURCES = 5000

MAX_SPELLINGS = 20_000
"""Spellings of URIs whose normal form is kept; more are resolved each time."""

MAX_PAGES = 200

MAX_VALUES = 400_000
"""Values in one answer, counted by their separators: parsed JSON takes up to twenty times its bytes."""

MAX_BYTES = 32 * 1024 * 1024
MAX_ALL_VALUES = 1_600_000
"""Values of a whole inventory. The largest recorded tree, with all that an inventory needs, has 2.7 MiB."""

UNCHANGED = frozenset({'PCIeFunction', 'NetworkInterface'})
"""Types without locks, versions or states, for which the ETag of the last inventory over this connection is sent.

All other types are read in full each time, whatever their ETags: many share one
(doc/source/reference/redfish_notes.rst, "Answer times and $expand").
"""

KEPT = frozenset({'NetworkInterface', 'NetworkInterfaceCollection'})
"""Types that say only which System uses which adapter.

Over one connection they are not read again while Systems and adapters are those of the last inventory.
"""

BELOW = {'PCIeDevices': 'PCIeFunctions'}
"""Collections, by last segment, whose members each link to another collection that is nearly always needed too.

If the BMC expands three levels (members, their collections, the members of those), one request reads all of it.
"""

_LEVELS = 3

ONLY = '?only'
"""Query that returns a collection's only member in its place. Source: DSP0266, section "Query parameters", only."""

_OF_ONE = 'PCIeFunctions'
"""Collections, by last segment, that mostly have one member."""

_OF_SEVERAL = 'Processors'
"""Collections that mostly have several members: their answer shows whether a BMC that advertises ``only`` does it right."""

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


class InventoryRequests:
    """The requests of one inventory, within its limits of time, bytes, values and resources."""

    def __init__(
        self, connector: Connector, habits: BmcHabits, table: ResourceTable, before: Mapping[str, Document], seconds: float
    ) -> None:
        """Begin; nothing is sent.

        :param before: documents of the last inventory over this connection.
        :param seconds: for the whole inventory.
        """
        self.label = connector.label
        self._connector = connector
        self._habits = habits
        self._table = table
        self._before = before
        self._deadline = time.monotonic() + seconds
        self._bytes = self._values = 0

    def left(self) -> float:
        """Seconds left for this inventory."""
        return self._deadline - time.monotonic()

    def fetch(self, place: str) -> Document:
        """Read one resource; only whether it has changed, where that is enough.

        :raises BmcError: with the reason.
        """
        before = self._before.get(place)
        if before is not None and before.etag is not None and _may_be_unchanged(before):
            answer = self.ask(place, {'If-None-Match': before.etag})
            if answer.status == 304:
                return before
        else:
            answer = self.ask(place)
        self._habits.expansion.read(answer.seconds)
        return self.document(answer)

    def ask(self, target: str, headers: Mapping[str, str] | None = None) -> RedfishAnswer:
        """GET a path with its query.

        :raises BmcError: with the reason; also that a limit of the inventory was reached.
        """
        place = target.partition('?')[0]
        label = self.label
        if len(self._table.entries) > MAX_RESOURCES:
            raise BmcAnswerInvalid(bmc=label, uri=place, what=f'not read: more than {MAX_RESOURCES} resources')
        if self._bytes > MAX_BYTES or self._values > MAX_ALL_VALUES:
            raise BmcAnswerInvalid(bmc=label, uri=place, what=f'not read: more than {MAX_BYTES} bytes in one look')
        if self.left() <= 0:
            raise BmcUnreachable(bmc=label, uri=place, what='not asked any more: the time for one look is used up')
        answer = self._connector.read(target, left=self.left, headers=headers)
        self._table.sent.append(target)
        return answer

    def document(self, answer: RedfishAnswer) -> Document:
        """The resource in an answer, which counts against the limits.

        :raises BmcError: see :func:`document`.
        """
        self._bytes += len(answer.content)
        self._values += _values(answer.content)
        return document(answer, self._table.name, self._connector, place=self._table.place(answer.url))


class CollectionPages:
    """Reads collections with all their pages: expanded, or by their only member, where that is faster and the BMC can do it.

    Complete expanded members are kept as read. What a BMC does wrong is not tried again in this inventory.
    """

    def __init__(
        self,
        requests: InventoryRequests,
        path: Callable[[str], str],
        table: ResourceTable,
        habits: BmcHabits,
        root: Document | None,
        *,
        frugal: bool,
    ) -> None:
        """Begin; nothing is read.

        :param path: resolves a link to a path on the BMC (:meth:`.Connector.path`).
        :param root: the service root; its ProtocolFeaturesSupported tells which queries the BMC advertises.
        :param frugal: prefer few requests to quick answers: expand collections wherever the BMC can.
        """
        self._label = requests.label
        self._requests = requests
        self._path = path
        self._table = table
        self._name = table.name
        self._place = table.place
        self._entries = table.entries
        self._habits = habits
        self._frugal = frugal
        features = root.body.get('ProtocolFeaturesSupported') if root is not None else None
        self._query = expand_query(features if isinstance(features, Mapping) else None)
        deep = expand_query(features if isinstance(features, Mapping) else None, levels=_LEVELS)
        self._deep = None if habits.expansion.is_flat else deep
        self._offers_only = isinstance(features, Mapping) and features.get('OnlyMemberQuery') is True

    @property
    def queries(self) -> tuple[str | None, str | None]:
        """The queries that expand one level and several; None: not advertised, or known not to work."""
        return self._query, self._deep

    @property
    def expands(self) -> bool:
        """Whether collections are expanded, as far as is known."""
        expansion = self._habits.expansion
        wins = not expansion.hopeless if self._frugal else expansion.wins(self._habits.pace.limit)
        return self._query is not None and wins

    @property
    def should_try(self) -> bool:
        """Whether it is still unknown if expanding is faster."""
        return self._query is not None and not self._habits.expansion.known

    def _only_of(self, place: str) -> str:
        """The query ``only`` for a collection if that saves requests, else an empty string."""
        if not self._offers_only or self.expands or self._habits.only is False:
            return ''
        name = place.rpartition('/')[2]
        if name == _OF_ONE:
            return ONLY if self._habits.only else ''
        return ONLY if name == _OF_SEVERAL and self._habits.only is None else ''

    def _only_page(self, place: str) -> Document:
        """Read a collection with ``only``: the answer is its only member, or the collection as without the query.

        A BMC that wrongly returns one of several members is found out at a collection of several: that answer is discarded.
        """
        try:
            answer = self._requests.ask(place + ONLY)
            found = self._requests.document(answer)
        except BmcRefused as exc:
            if is_not_found(exc):
                raise
            self._habits.only = False
            return self.read(place)
        except BmcAnswerInvalid:
            self._habits.only = False
            return self.read(place)
        self._habits.expansion.read(answer.seconds)
        if 'Members' in found.body:
            listed = _member_list(found.body, self._label, place)
            self._habits.only = self._habits.only or (True if len(listed) > 1 else None)
            first = Document(ref=Ref(bmc=self._name, uri=place), body=found.body, etag=found.etag)
            return self._all_pages(place, first) if 'Members@odata.nextLink' in found.body else first
        if self._habits.only is None or self._place_in(place, found.body) is None:
            # The answer may be one of several members, or a member of another collection.
            self._habits.only = False
            return self.read(place)
        self._remember(found.body, place)
        return Document(ref=Ref(bmc=self._name, uri=place), body={'Members': [{'@odata.id': found.body['@odata.id']}]})

    def read(self, place: str) -> Document:
        """Read a collection with all its pages.

        :returns: the collection with all members in Members.
        :raises BmcError: it could not be read.
        """
        if self._only_of(place):
            return self._only_page(place)
        name = BELOW.get(place.rpartition('/')[2])
        deep = self._deep_page(place, name) if name is not None and self.expands else None
        first = deep if deep is not None else self._first_page(place)
        if 'Members@odata.nextLink' in first.body:
            first = self._all_pages(place, first)
        if deep is not None and name is not None:
            first = replace(first, body={**first.body, 'Members': self._taken_apart(first, name, place)})
        for member in members(first.body):
            if len(member) > 1:
                self._remember(member, place)
        return first

    def _all_pages(self, place: str, first: Document) -> Document:
        found = list(_member_list(first.body, self._label, place))
        seen, page = {place}, first
        while isinstance(link := page.body.get('Members@odata.nextLink'), str):
            try:
                there = self._path(link)
            except BmcAnswerInvalid:
                raise BmcAnswerInvalid(bmc=self._label, uri=place, what='nextLink leads off the BMC') from None
            if there in seen:
                break
            if len(seen) >= MAX_PAGES or len(found) > MAX_MEMBERS:
                raise BmcAnswerInvalid(bmc=self._label, uri=place, what=f'more than {MAX_MEMBERS} members or {MAX_PAGES} pages')
            seen.add(there)
            page = self._requests.document(self._requests.ask(there))
            found += _member_list(page.body, self._label, there)
        body = {k: v for k, v in first.body.items() if k != 'Members@odata.nextLink'}
        body['Members'] = self._distinct(found, place)
        check_number(self._label, place, body['Members'])
        return Document(ref=first.ref, body=body)  # the ETag of one page does not cover the others

    def _distinct(self, found: Iterable[object], collection: str) -> list[object]:
        """Each member once, as nextLink may lead to members read before. Elements that are no links are kept, to be noted."""
        by_place: dict[str, JsonObject] = {}
        odd: list[object] = []
        for member in found:
            link = link_of(member)
            if link is None or not isinstance(member, dict):
                odd.append(member)
                continue
            try:
                place = self._place(link)
            except BmcAnswerInvalid:
                place = link
            mine = place.rpartition('/')[0] == collection
            if place not in by_place or (mine and len(by_place[place]) < len(member)):
                by_place[place] = member
        return [*by_place.values(), *odd]

    def _deep_page(self, place: str, name: str) -> Document | None:
        """The first page of a collection, with the collections below its members expanded too.

        :returns: None if the BMC does not do that correctly; one level may still work.
        """
        if self._deep is None:
            return None
        found = self._deep_answer(place, self._deep)
        if found is None:
            self._note_flat()
            return None
        page, seconds = found
        got = members(page.body)
        below = [m[name] for m in got if link_of(m.get(name)) is not None]
        inside = [m for one in below for m in members(one) if len(m) > 1]
        if below and not inside:
            self._note_flat()
        self._habits.expansion.expanded(seconds, len(got) + len(inside))
        check_number(self._label, place, list(got))
        return Document(ref=Ref(bmc=self._name, uri=place), body=page.body, etag=page.etag)

    def _deep_answer(self, place: str, query: str) -> tuple[Document, float] | None:
        """The answer to a deep ``$expand`` and its seconds; None if it is refused or incomplete.

        404 means that the collection does not exist; any other error may be due to the query.
        """
        try:
            answer = self._requests.ask(place + query)
            page = self._requests.document(answer)
            got = _member_list(page.body, self._label, place)
        except BmcRefused as exc:
            if is_not_found(exc):
                raise
            return None
        except BmcAnswerInvalid:
            return None
        except (BmcBusy, BmcUnreachable):
            if self._requests.left() <= 0:
                raise
            return None
        count = page.body.get('Members@odata.count')
        is_short = 'Members@odata.nextLink' not in page.body and isinstance(count, int) and count != len(got)
        is_links = bool(got) and all(isinstance(m, dict) and len(m) == 1 for m in got)
        return None if is_short or is_links or not all(map(link_of, got)) else (page, answer.seconds)

    def _note_flat(self) -> None:
        self._deep = None
        self._habits.expansion.failed_deep()

    def _taken_apart(self, page: Document, name: str, collection: str) -> list[object]:
        """The members of a deeply expanded collection as if read singly; the collections below them are kept as read."""
        found: list[object] = []
        for member in page.body['Members']:
            place = self._place_in(collection, member) if isinstance(member, dict) else None
            if place is None:
                found.append(member)
                continue
            below = member.get(name)
            if isinstance(below, dict) and self._is_whole(below, place):
                self._keep_below(below)
            found.append({key: _link_to(value, place) for key, value in member.items()})
        return found

    def _is_whole(self, below: JsonObject, owner: str) -> bool:
        """Whether an expanded collection below a member is complete.

        One without members, or with links only, may show that the BMC expanded no further: it is read singly.
        """
        listed, count, link = below.get('Members'), below.get('Members@odata.count'), link_of(below)
        if link is None or not isinstance(listed, list) or not listed or 'Members@odata.nextLink' in below:
            return False
        if (isinstance(count, int) and count != len(listed)) or not all(map(link_of, listed)):
            return False
        if len(listed) > MAX_MEMBERS or len(self._entries) > MAX_RESOURCES or not any(len(m) > 1 for m in listed):
            return False
        try:
            return parent(self._place(link)) == owner
        except BmcAnswerInvalid:
            return False

    def _keep_below(self, below: JsonObject) -> None:
        place = self._place(below['@odata.id'])
        self._table.keep(Document(ref=Ref(bmc=self._name, uri=place), body=below))
        for member in members(below):
            self._remember(member, place)

    def _first_page(self, place: str) -> Document:
        page: Document | None = None
        if self.expands:
            query = self._query or ''
            try:
                answer = self._requests.ask(place + query)
                page = self._requests.document(answer)
            except BmcRefused as exc:
                # 404 means that the collection does not exist; any other error may be due to the query.
                if is_not_found(exc):
                    raise
                self._query = None
            except BmcAnswerInvalid:
                self._query = None
            except (BmcBusy, BmcUnreachable):
                # Expanding hundreds of members may take longer than the timeout, while each single read is quick.
                if self._requests.left() <= 0:
                    raise
                self._query = None
                page = self._requests.fetch(place)
                self._habits.expansion.failed()
            else:
                got = _member_list(page.body, self._label, place)
                if not all(map(link_of, got)):
                    self._query = None  # the expanded members lack @odata.id
                    page = self._requests.fetch(place)
                elif got and all(isinstance(member, dict) and set(member) == {'@odata.id'} for member in got):
                    self._query = None  # the BMC accepts the query and ignores it
                else:
                    self._habits.expansion.expanded(answer.seconds, len(got))
                page = Document(ref=Ref(bmc=self._name, uri=place), body=page.body, etag=page.etag)
        if page is None:
            page = self._requests.fetch(place)
        check_number(self._label, place, _member_list(page.body, self._label, place))
        return page

    def _remember(self, member: JsonObject, collection: str) -> None:
        """Keep an expanded member as read, if it has the required properties; otherwise it is read singly later.

        A member whose URI is outside the collection is not kept either, so that one collection cannot speak for another.

        Source: DSP0266, sections "Common resource properties" and "Use of the $expand query parameter"; seen broken on real
        BMCs (NVIDIA/nv-redfish bmc_quirks.rs, expand_is_not_working_properly).
        """
        place = self._place_in(collection, member)
        if place is not None:
            etag = member.get('@odata.etag')
            self._table.keep(
                Document(ref=Ref(bmc=self._name, uri=place), body=member, etag=etag if isinstance(etag, str) else None)
            )

    def _place_in(self, collection: str, member: JsonObject) -> str | None:
        """The URI of an expanded member, if it is complete and belongs to that collection; else None."""
        uri, identifier, name = member.get('@odata.id'), member.get('Id'), member.get('Name')
        if not (uri and identifier and name and isinstance(uri, str) and isinstance(identifier, str) and isinstance(name, str)):
            return None
        try:
            place = self._place(uri)
        except BmcAnswerInvalid:
            return None
        return place if parent(place) == collection else None


LATE_LOOK = 120.0
"""Seconds for a whole inventory once the caller's deadline has passed."""


class RedfishReader:
    """Reads resources for one inventory, each at most once. Safe to use from several threads.

    A walk says what it needs and what to do with it (:meth:`want`), and has it read (:meth:`run`); a callback may want more.
    Only one callback runs at a time.

    :ivar session: name of the session.
    :ivar name: name of the BMC.
    :ivar table: the resources that were read, and the URIs that mean them.
    :ivar pages: reads collections.
    """

    def __init__(
        self,
        connector: Connector,
        address: BmcAddress,
        session: str,
        habits: BmcHabits,
        *,
        root: Document | None = None,
        before: Mapping[str, Document] | None = None,
        frugal: bool = False,
    ) -> None:
        """Create the reader; nothing is read.

        :param root: the service root, which counts as read; its ProtocolFeaturesSupported tells whether $expand works.
        :param before: documents of the last inventory over this connection.
        :param frugal: prefer few requests to quick answers: expand collections wherever the BMC can.
        """
        self.session = session
        self.name: BmcName = address.name
        self.table = table = ResourceTable(address.name, connector)
        self._label = connector.label
        self._habits = habits
        self._before = before or {}
        seconds = connector.within(address.budget.total_seconds(), late=LATE_LOOK)
        self._requests = InventoryRequests(connector, habits, table, self._before, seconds)
        self.pages = CollectionPages(self._requests, connector.path, table, habits, root, frugal=frugal)
        self._place = table.place
        self._entries = table.entries
        if root is not None:
            table.entries[root.ref.uri] = ReadState(found=root)
        self._lock = table.lock
        self._agenda = WorkQueue(habits.pace)
        self._turn = threading.Lock()

    # ---- direct reads ----

    def ref(self, uri: str) -> Ref:
        """The reference to a resource, however its URI is spelled.

        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        return Ref(bmc=self.name, uri=self._place(uri))

    def place(self, uri: str) -> str:
        """The URI of a resource in normal form.

        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        return self._place(uri)

    def get(self, uri: str) -> Document:
        """Read a resource; the result, also an error, is kept for this inventory.

        :raises BmcError: with the reason.
        """
        return self._now(self._place(uri), whole=False)

    def collection(self, uri: str) -> Document:
        """Read a collection with all its pages; complete expanded members are kept as read.

        :returns: the collection with all members in Members.
        :raises BmcError: the collection itself could not be read.
        """
        return self._now(self._place(uri), whole=True)

    def peek(self, uri: str) -> Document | None:
        """The document that was read at a URI, else None. Sends no request."""
        return self.table.peek(uri)

    def at(self, place: str) -> Found | None:
        """The result for a normal-form URI (see :meth:`place`), None if there is none yet. Marks it as wanted."""
        return self.table.at(place)

    @property
    def at_once(self) -> int:
        """The BMC's concurrency limit now."""
        return self._habits.pace.limit

    def left(self) -> float:
        """Seconds left for this inventory."""
        return self._requests.left()

    @property
    def asked(self) -> tuple[str, ...]:
        """Successful requests for wanted resources, in order: paths, some with the ``$expand`` or ``only`` query."""
        return self.table.asked

    @property
    def documents(self) -> dict[str, Document]:
        """All documents that were read, by URI."""
        return self.table.documents

    @property
    def gone(self) -> tuple[str, ...]:
        """Wanted URIs that do not exist (HTTP 404), sorted; without other spellings of existing ones."""
        return self.table.gone

    @property
    def expands(self) -> bool:
        """Whether collections are expanded, as far as is known."""
        return self.pages.expands

    # ---- queued reads ----

    def want(self, uri: str, then: Then, *, whole: bool = False, rank: int = 0, ahead: bool = False) -> None:
        """Queue a read, and call ``then`` with the result.

        :param whole: it is a collection: read all pages, expanded if that is faster.
        :param rank: lower ranks are read first.
        :param ahead: a read in advance: the result matters only if the URI is wanted later.
        """
        try:
            place = self._place(uri)
        except BmcAnswerInvalid as exc:
            then(exc)
            return
        with self._lock:
            known = self._entries.get(place)
            if known is None:
                known = self._entries[place] = ReadState()
            known.wanted = known.wanted or not (ahead or then is _nothing)
            if known.running:
                known.waiting.append((then, whole))
                return
            if known.found is None or (whole and _has_more(known.found)):
                known.running = True
                known.whole = whole
                known.waiting.append((then, whole))
                self._agenda.add(rank, lambda: self._bring(place, known, rank))
                return
            found = self._taken(place, known.found, whole=whole)
        then(found)

    def expect(self, targets: Iterable[str], rank: int = 0) -> None:
        """Queue what the last inventory needed, all at once, as the walk will want it."""
        pages = self.pages
        for target in targets:
            path, mark, query = target.partition('?')
            if self.may_keep(path):
                continue
            expands = pages.expands and f'?{query}' in pages.queries
            if not mark or expands or (target.endswith(ONLY) and not pages.expands):
                self.want(path, _nothing, whole=bool(mark), rank=rank)

    def may_keep(self, uri: str) -> bool:
        """Whether the last inventory over this connection has read a URI that :meth:`keep` may take over."""
        before = self._before.get(normal(uri))
        return before is not None and resource_type(before.body) in KEPT

    def keep(self, systems: Mapping[str, Document], adapters: Mapping[str, Document]) -> None:
        """Take over documents of KEPT types from the last inventory, if Systems and adapters are exactly the same as then."""
        before = {
            place: found
            for place, found in self._before.items()
            if resource_type(found.body) in ('ComputerSystem', 'NetworkAdapter')
        }
        now = {**systems, **adapters}
        if set(before) != set(now) or any(identity_of(before[place].body) != identity_of(now[place].body) for place in now):
            return
        kept = {place: found for place, found in self._before.items() if resource_type(found.body) in KEPT}
        with self._lock:
            for place, found in kept.items():
                self._entries.setdefault(place, ReadState(found=found))
            self.table.sent += [target for target in self._habits.targets if normal(target) in kept]

    @property
    def wanting(self) -> bool:
        """Whether a queued read was not begun."""
        return self._agenda.waiting

    def run(self) -> None:
        """Read everything that is queued, and what the callbacks want in turn.

        :raises BaseException: an exception of a callback.
        """
        self._agenda.run()

    def _bring(self, place: str, known: ReadState, rank: int) -> None:
        found = self._read(place, whole=known.whole)
        with self._lock:
            known.found = found
            known.running = False
            waiting, known.waiting = known.waiting, []
            if _has_more(found) and any(whole for _, whole in waiting):
                # One callback wanted the first page only, another one all pages.
                known.running = known.whole = True
                known.waiting = [w for w in waiting if w[1]]
                waiting = [w for w in waiting if not w[1]]
                self._agenda.add(rank, lambda: self._bring(place, known, rank))
        for then, whole in waiting:
            with self._turn:
                then(self._taken(place, found, whole=whole))

    # ---- requests ----

    def _now(self, place: str, *, whole: bool) -> Document:
        with self._lock:
            known = self._entries.setdefault(place, ReadState())
            known.wanted = True
            found = known.found
        if found is None or (whole and _has_more(found)):
            found = self._read(place, whole=whole)
            with self._lock:
                known.found = found
        found = self._taken(place, found, whole=whole)
        if is_not_found(found) and not whole:
            meant = self.table.peek(self.table.of_another_case(place))
            if meant is not None:
                return meant
        if isinstance(found, BmcError):
            raise found
        return found

    def _taken(self, place: str, found: Found, *, whole: bool) -> Found:
        """The result, or an error if a collection is needed and the result is none, or is too large.

        A read in advance does not check that.
        """
        if whole and isinstance(found, Document):
            try:
                check_number(self._label, place, _member_list(found.body, self._label, place))
            except BmcAnswerInvalid as exc:
                return exc
        return found

    def _read(self, place: str, *, whole: bool) -> Found:
        try:
            found = self.pages.read(place) if whole else self._requests.fetch(place)
        except BmcError as exc:
            return exc
        self._habits.pace.answered()
        return self._as_it_says(place, found)

    def _as_it_says(self, place: str, found: Document) -> Document:
        """The document under its own ``@odata.id``, if that differs from the requested URI in letter case alone."""
        uri = found.body.get('@odata.id')
        if not isinstance(uri, str) or not uri or uri == place:
            return found
        try:
            own = self._place(uri)
        except BmcAnswerInvalid:
            return found
        if not differ_in_case_only(place, own):
            return found
        self.table.means(place, own)
        return replace(found, ref=Ref(bmc=self.name, uri=own))


class SoFar:
    """A reader that returns only what was read so far in this inventory, and sends no request.

    Code that reads with it shows by :class:`.NotReadYet` which URI to read next.
    """

    def __init__(self, reader: RedfishReader) -> None:
        self._table = reader.table
        self.session = reader.session
        self.name = reader.name

    def get(self, uri: str) -> Document:
        """The document at a URI.

        :raises NotReadYet: it was not read yet. ``BmcError``: it could not be read.
        """
        found = self._table.so_far(uri)
        if found is None:
            raise NotReadYet(uri)
        if isinstance(found, BmcError):
            raise found
        return found

    def collection(self, uri: str) -> Document:
        """As :meth:`get`; a collection of which only some pages were read counts as not read.

        :raises NotReadYet: it was not read yet. ``BmcError``: it could not be read.
        """
        found = self.get(uri)
        if _has_more(found):
            raise NotReadYet(uri)
        return found

    def peek(self, uri: str) -> Document | None:
        """The document that was read at a URI, else None."""
        return self._table.peek(uri)


def _nothing(found: Found) -> None:
    """Do nothing: what is read in advance is wanted again by the walk."""


def _has_more(found: Found) -> bool:
    return isinstance(found, Document) and 'Members@odata.nextLink' in found.body


def resource_type(body: JsonObject) -> str:
    """The type of a resource without its version: ``PCIeFunction``; empty if it has none."""
    name = body.get('@odata.type')
    return name.lstrip('#').partition('.')[0] if isinstance(name, str) else ''


def identity_of(body: JsonObject) -> tuple[object, ...]:
    """Properties that tell whether a URI still has the same resource."""
    return tuple(body.get(name) for name in ('Id', 'UUID', 'SerialNumber', 'Model', 'PartNumber'))


def _may_be_unchanged(document: Document) -> bool:
    kind = resource_type(document.body)
    return kind in UNCHANGED or (kind.endswith('Collection') and all(len(m) == 1 for m in members(document.body)))


def fresh(connector: Connector, name: BmcName, uri: str) -> Document:
    """Read a resource now, without any cache.

    :raises BmcError: the read failed.
    """
    return document(connector.read(uri.partition('#')[0]), name, connector)


def document(answer: RedfishAnswer, name: BmcName, connector: Connector, place: str | None = None) -> Document:
    """Parse the resource in an answer.

    :param place: its URI in normal form, if known.
    :raises BmcAnswerInvalid: the body is no JSON object, has too many values, or is an error message.
    :raises BmcRefused: the body says that the resource does not exist.
    """
    if _values(answer.content) > MAX_VALUES:
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what=f'the answer has more than {MAX_VALUES} values')
    try:
        body = _decoded(answer.content)
    except _Ambiguous as exc:
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what=str(exc)) from None
    except (ValueError, RecursionError):
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what='the answer is no JSON') from None
    if not isinstance(body, dict):
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what='the answer is no JSON object')
    if 'error' in body and '@odata.id' not in body:
        if said(body).ids & GONE:
            told = 'the answer says that it is not there'
            raise BmcRefused(bmc=connector.label, uri=answer.url, reason=BmcRefusalReason.NOT_FOUND, what=told)
        raise BmcAnswerInvalid(
            bmc=connector.label, uri=answer.url, what='the answer is an error message with a status of success'
        )
    header = answer.headers.get('ETag')
    inner = body.get('@odata.etag')
    etag = header if header else inner if isinstance(inner, str) and inner else None
    return Document(ref=Ref(bmc=name, uri=place if place is not None else normal(answer.url)), body=body, etag=etag)


class _Ambiguous(ValueError):
    """A JSON object has one name twice, with different values."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose names are unique. Source: RFC 8259, section 4: otherwise its meaning is unpredictable."""
    found = dict(pairs)
    if len(found) != len(pairs):
        for name, value in pairs:
            if found[name] != value:
                raise _Ambiguous(f'the answer gives {name[:40]!r} twice, with different values')
    return found


_SMALL = 32 * 1024

_JSON = json.JSONDecoder(object_pairs_hook=_object, strict=False)
"""Accepts control characters in texts, which BMCs send although RFC 8259, section 7, does not allow them."""

_ESCAPED_QUOTE = b'\\u0022'

_QUICK, _BACK = msgspec.json.Decoder(), msgspec.json.Encoder()


def _decoded(content: bytes) -> object:
    """Parse JSON in which no name has two different values.

    Nearly all answers are well-formed, so a fast decoder that keeps the last of two values comes first. A lost value takes the
    quotes of its name with it, so that the result, encoded again, has fewer quotes. Quotes that are escaped as numbers could
    hide that. If the counts differ, the slow decoder runs and reports the cause.

    :raises ValueError: it is no JSON, or ambiguous. ``RecursionError``: it is nested too deep.
    """
    with contextlib.suppress(ValueError, TypeError, OverflowError, RecursionError):
        body: object = _QUICK.decode(content)
        if _ESCAPED_QUOTE not in content and _BACK.encode(body).count(b'"') == content.count(b'"'):
            return body
    return _JSON.decode(text_of(content))


def text_of(content: bytes) -> str:
    """The text of an answer. Undecodable bytes, which BMCs copy from a device's own strings, are replaced by U+FFFD.

    Source: RFC 8259, section 8.1; Unicode 16, section 5.22.
    """
    encoding = json.detect_encoding(content)
    try:
        return content.decode(encoding, 'surrogatepass')
    except UnicodeDecodeError:
        return content.decode(encoding, 'replace')


def _values(content: bytes) -> int:
    """An upper bound of the values in JSON, as each begins with, or follows, a separator; an estimate for small answers."""
    if len(content) < _SMALL:
        return len(content) // 4
    return content.count(b',') + content.count(b'[') + content.count(b'{')


@functools.lru_cache(maxsize=8192)
def _is_place(uri: str) -> bool:
    """Whether a URI is in normal form. Cached, as machines of one product have the same URIs."""
    return PLACE.fullmatch(uri) is not None


def members(body: JsonObject) -> tuple[JsonObject, ...]:
    """The members of a collection's body that are objects."""
    found = body.get('Members')
    return tuple(m for m in found if isinstance(m, dict)) if isinstance(found, list) else ()


def expand_query(features: JsonObject | None, levels: int = 1) -> str | None:
    """The $expand query that a BMC advertises, None if it advertises none.

    :param levels: more than one only if the BMC advertises MaxLevels, and expansion without Links.
    Source: DSP8010 2025.4, ServiceRoot v1_20_0, ProtocolFeaturesSupported.ExpandQuery.
    """
    expand = features.get('ExpandQuery') if isinstance(features, Mapping) else None
    if not isinstance(expand, Mapping):
        return None
    counted = f'($levels={levels})' if expand.get('Levels') is True else ''
    most = expand.get('MaxLevels')
    if levels > 1 and not (counted and isinstance(most, int) and most >= levels and expand.get('NoLinks') is True):
        return None
    if expand.get('NoLinks') is True:
        return f'?$expand=.{counted}'
    return f'?$expand=*{counted}' if expand.get('ExpandAll') is True else None


def _link_to(value: object, owner: str) -> object:
    """A link in place of an expanded resource below its owner; any other value unchanged."""
    if not isinstance(value, dict) or '@odata.type' not in value or not ('Id' in value or 'Members' in value):
        return value
    link = link_of(value)
    return {'@odata.id': link} if link is not None and link.startswith(f'{owner}/') and '#' not in link else value


def link_of(member: object) -> str | None:
    """The URI of a member; None if it is no link."""
    link = member.get('@odata.id') if isinstance(member, dict) else None
    return link if isinstance(link, str) and link else None


def check_number(label: str, place: str, found: list[object]) -> None:
    """Refuse a collection that is too large.

    :raises BmcAnswerInvalid: it has more than MAX_MEMBERS members.
    """
    if len(found) > MAX_MEMBERS:
        raise BmcAnswerInvalid(bmc=label, uri=place, what=f'more than {MAX_MEMBERS} members')


def _member_list(body: JsonObject, label: str, place: str) -> list[object]:
    """The members of one page, of any type. Null is an empty list: seen on real BMCs.

    :raises BmcAnswerInvalid: it is no collection.
    """
    found = body.get('Members', ...)
    if found is None:
        return []
    if not isinstance(found, list):
        raise BmcAnswerInvalid(bmc=label, uri=place, what='is no collection: Members is missing or no array')
    return found

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reader of Redfish resources for one inventory: each URI at most once, several at a time, by ``$expand`` where faster.

Requests go through a work queue (:mod:`.work_queue`); each document or error is kept, and given to whoever wants it. Limits:
8 MiB and 400,000 values for an answer, four times that for an inventory, 2,000 members of a collection, 5,000 resources, and
the time budget of the BMC's address.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace

from baremetal_acc.bmc.driver import BmcAddress, Document, NotReadYet
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.collection_members import check_number, member_list
from baremetal_acc.bmc.redfish.collection_pages import ONLY, CollectionPages
from baremetal_acc.bmc.redfish.concurrency import BmcHabits
from baremetal_acc.bmc.redfish.inventory_requests import InventoryRequests
from baremetal_acc.bmc.redfish.resource_document import identity_of, resource_type
from baremetal_acc.bmc.redfish.resource_table import Found, ReadState, ResourceTable, Then
from baremetal_acc.bmc.redfish.work_queue import WorkQueue
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, is_not_found
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.uri import differ_in_case_only, normal

KEPT = frozenset({'NetworkInterface', 'NetworkInterfaceCollection'})
"""Types that say only which System uses which adapter.

Over one connection they are not read again while Systems and adapters are those of the last inventory.
"""


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
                check_number(self._label, place, member_list(found.body, self._label, place))
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

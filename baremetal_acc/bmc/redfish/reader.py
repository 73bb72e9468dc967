# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does a BMC have at a URI? Each is asked for once in a look, several at a time, collections with $expand where that wins.

Bounds: 8 MiB and 400,000 values for an answer, four times that for a look, 2,000 members of a collection, 5,000 resources, and
the address's budget for a look.
"""

import contextlib
import functools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from baremetal_acc.bmc.api import BmcAddress, Document, JsonObject, NotReadYet
from baremetal_acc.bmc.redfish.agenda import Agenda
from baremetal_acc.bmc.redfish.connector import MAX_URI, PLACE, Answer, Connector
from baremetal_acc.bmc.redfish.habits import Habits
from baremetal_acc.bmc.redfish.message import said
from baremetal_acc.bmc.redfish.parse import parent
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcRefusalReason, BmcRefused, BmcUnreachable, is_not_found
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.uri import Spellings, differ_in_case_only, normal

GONE = frozenset({'ResourceNotFound', 'ResourceMissingAtURI'})
"""MessageIds of a body that stands for a 404 but comes with 200, as seen on a real BMC. Source: DMTF Base registry."""


DEEPEST = 24
"""Segments of a URI that are taken off to find a resource above it. Real ones have up to sixteen."""

MAX_MEMBERS = 2000
MAX_RESOURCES = 5000
MAX_PAGES = 200

MAX_VALUES = 400_000
"""Values in one answer, counted by their separators: unpacked JSON takes up to twenty times its bytes."""

MAX_BYTES = 32 * 1024 * 1024
MAX_ALL_VALUES = 1_600_000
"""Of a whole look. The largest recorded tree, with all that an inventory needs, has 2.7 MiB."""

UNCHANGED = frozenset({'PCIeFunction', 'NetworkInterface'})
"""Types that hold no lock, version or state. What has not changed since the last look over this connection need not be sent
again; all else is read anew each time, whatever a BMC says of its ETags: many share one (facts/redfish.md, section 7)."""

KEPT = frozenset({'NetworkInterface', 'NetworkInterfaceCollection'})
"""Types that say nothing but which System uses which adapter. Over one connection they are not asked for again, while the
Systems and adapters are those of the last look."""

BELOW = {'PCIeDevices': 'PCIeFunctions'}
"""Collections, by the end of their URI, each of whose members has a collection in a property that is nearly always wanted too:
where the BMC expands three levels (members, their collections, the members of those) all of it is one request."""

_LEVELS = 3

_ONLY = '?only'
"""Brings the one member of a collection in place of it. Source: DSP0266, section "Query parameters", only."""

_OF_ONE = 'PCIeFunctions'
"""Collections, by the end of their URI, that mostly have one member."""

_OF_SEVERAL = 'Processors'
"""Collections that mostly have several members: their answer shows whether a BMC that offers ``only`` does it right."""

Found = Document | BmcError
Then = Callable[[Found], None]


@dataclass(slots=True)
class _Place:
    """What is known of one URI in this look.

    :ivar wanted: somebody asked for it, and it was not only read ahead.
    :ivar waiting: whom to tell when it is there; ``whole`` those that want a collection with all its pages.
    """

    found: Found | None = None
    running: bool = False
    whole: bool = False
    wanted: bool = False
    waiting: list[tuple[Then, bool]] = field(default_factory=list)


LATE_LOOK = 120.0
"""Seconds for a whole look past the deadline of whoever looks."""


class Reader:
    """Reads for one look. Safe to use from several threads.

    A walk says what it wants and what to do then (:meth:`want`), and lets it all happen (:meth:`run`); what is done then may
    want more. Only one ``then`` runs at a time.

    :ivar session: names the session.
    :ivar name: of the BMC.
    """

    def __init__(
        self,
        connector: Connector,
        address: BmcAddress,
        session: str,
        habits: Habits,
        *,
        root: Document | None = None,
        before: Mapping[str, Document] | None = None,
        frugal: bool = False,
    ) -> None:
        """Nothing is read yet.

        :param root: the service root, which counts as read; it says whether $expand works.
        :param before: what the last look over this connection has read.
        :param frugal: few requests are worth more than quick answers: collections are expanded wherever the BMC can.
        """
        self.session = session
        self.name: BmcName = address.name
        self._connector = connector
        self._habits = habits
        self._frugal = frugal
        self._before = before or {}
        self._deadline = time.monotonic() + connector.within(address.budget.total_seconds(), late=LATE_LOOK)
        features = root.body.get('ProtocolFeaturesSupported') if root is not None else None
        self._query = expand_query(features if isinstance(features, Mapping) else None)
        deep = expand_query(features if isinstance(features, Mapping) else None, levels=_LEVELS)
        self._deep = None if habits.expansion.is_flat else deep
        self._offers_only = isinstance(features, Mapping) and features.get('OnlyMemberQuery') is True
        self._places: dict[str, _Place] = {}
        if root is not None:
            self._places[root.ref.uri] = _Place(found=root)
        self._keys: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._spellings: tuple[int, Spellings] | None = None
        self._asked: list[str] = []
        self._bytes = self._values = 0
        self._lock = threading.RLock()
        self._agenda = Agenda(habits.pace)
        self._turn = threading.Lock()

    # ---- for whoever asks now ----

    def ref(self, uri: str) -> Ref:
        """The resource of a URI, whatever way the URI was written.

        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        return Ref(bmc=self.name, uri=self.place(uri))

    def place(self, uri: str) -> str:
        """The URI of a resource, whatever way it was written.

        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        if len(uri) <= MAX_URI and _is_place(uri):
            return uri
        known = self._keys.get(uri)
        if known is None:
            known = normal(self._connector.path(uri))
            if len(self._keys) < 4 * MAX_RESOURCES:
                self._keys[uri] = known
        return known

    def settled(self, place: str) -> str:
        """The URI of the resource that a place means, once everything was read.

        A place in another case means a resource where the BMC said so itself, when it was asked there; and where it has nothing
        at the place as it is written, and one resource only that differs in its case alone.
        """
        above = place
        for _ in range(DEEPEST):
            known = self._known_as(above)
            if known is not None:
                # What was never read is written as what it lies below is.
                return f'{known}{place[len(above) :]}'
            above = above.rpartition('/')[0]
            if not above:
                break
        return place

    def _known_as(self, place: str) -> str | None:
        """The URI of a resource that was read; None where a place means none."""
        if place in self._aliases:
            return self._aliases[place]
        known = self._places.get(place)
        if known is not None and isinstance(known.found, Document):
            return place
        meant = self._of_another_case(place)
        return meant if meant != place else None

    def means(self, place: str, other: str) -> None:
        """Note that a place is another one's, written in another case."""
        with self._lock:
            self._aliases[place] = other

    def _of_another_case(self, place: str) -> str:
        if self._spellings is None or self._spellings[0] != len(self._asked) + len(self._places):
            read = [
                uri for uri, one in tuple(self._places.items()) if isinstance(one.found, Document) and uri not in self._aliases
            ]
            self._spellings = (len(self._asked) + len(self._places), Spellings(read))
        return self._spellings[1].of(place)

    def get(self, uri: str) -> Document:
        """Read a resource; what this look has read (or failed to read) is not asked for again.

        :raises BmcError: with the reason.
        """
        return self._now(self.place(uri), whole=False)

    def collection(self, uri: str) -> Document:
        """Read a collection with all its pages; expanded members that are complete are remembered as read.

        The body that is remembered has all members in Members.

        :raises BmcError: the collection itself could not be read.
        """
        return self._now(self.place(uri), whole=True)

    def peek(self, uri: str) -> Document | None:
        """What this look has read there, else None. Never asks the BMC."""
        try:
            place = self.place(uri)
        except BmcAnswerInvalid:
            return None
        both = (self._places.get(one) for one in (self.settled(place), place))
        return next((one.found for one in both if one is not None and isinstance(one.found, Document)), None)

    def at(self, place: str) -> Found | None:
        """What this look knows of a place, as :meth:`place` gives it: what was read, or why it could not be."""
        known = self._places.get(place)
        if known is None or known.running:
            return None
        known.wanted = True
        return known.found

    def so_far(self, uri: str) -> Found | None:
        """What this look has read there, or why it could not; None while nobody knows. Says nothing of who needs it.

        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        known = self._places.get(self.place(uri))
        return None if known is None or known.running else known.found

    @property
    def at_once(self) -> int:
        """Requests that the BMC gets at a time."""
        return self._habits.pace.limit

    def left(self) -> float:
        """Seconds that are left for this look."""
        return self._deadline - time.monotonic()

    @property
    def asked(self) -> tuple[str, ...]:
        """What was asked for and came, in order: paths, some with the query that expands."""
        return tuple(target for target in self._asked if self._is_wanted(target))

    def _is_wanted(self, target: str) -> bool:
        known = self._places.get(normal(target))
        return known is not None and known.wanted

    @property
    def documents(self) -> dict[str, Document]:
        """All that was read."""
        return {place: known.found for place, known in self._places.items() if isinstance(known.found, Document)}

    @property
    def gone(self) -> tuple[str, ...]:
        """Places that were asked for and have nothing (HTTP 404), sorted; without those that mean another one."""
        wanted = [(p, one.found) for p, one in tuple(self._places.items()) if one.wanted]
        found = [p for p, answer in wanted if is_not_found(answer)]
        return tuple(sorted(place for place in found if self.peek(place) is None))

    @property
    def expands(self) -> bool:
        """Collections are expanded, as far as is known."""
        expansion = self._habits.expansion
        wins = not expansion.hopeless if self._frugal else expansion.wins(self._habits.pace.limit)
        return self._query is not None and wins

    @property
    def should_try(self) -> bool:
        """Nobody knows yet whether expanding wins, and it may."""
        return self._query is not None and not self._habits.expansion.known

    # ---- for a walk ----

    def want(self, uri: str, then: Then, *, whole: bool = False, rank: int = 0, ahead: bool = False) -> None:
        """Read a resource when its turn comes, and do something then.

        :param whole: it is a collection: all its pages, expanded where that wins.
        :param rank: lower ones come first.
        :param ahead: somebody else is going to ask for it, or nobody: what becomes of it is no matter until then.
        """
        try:
            place = self.place(uri)
        except BmcAnswerInvalid as exc:
            then(exc)
            return
        with self._lock:
            known = self._places.get(place)
            if known is None:
                known = self._places[place] = _Place()
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
        """Read what was needed last time, all at once: the walk will ask for it."""
        for target in targets:
            path, mark, query = target.partition('?')
            if self.may_keep(path):
                continue
            expands = self.expands and f'?{query}' in (self._query, self._deep)
            if not mark or expands or (target.endswith(_ONLY) and not self.expands):
                self.want(path, _nothing, whole=bool(mark), rank=rank)

    def may_keep(self, uri: str) -> bool:
        """The last look over this connection has read it, and :meth:`keep` may take it over."""
        before = self._before.get(normal(uri))
        return before is not None and _kind(before) in KEPT

    def keep(self, systems: Mapping[str, Document], adapters: Mapping[str, Document]) -> None:
        """Take over what the last look has read of KEPT, if these are its Systems and adapters, all of them and no others."""
        before = {place: found for place, found in self._before.items() if _kind(found) in ('ComputerSystem', 'NetworkAdapter')}
        now = {**systems, **adapters}
        if set(before) != set(now) or any(identity_of(before[place].body) != identity_of(now[place].body) for place in now):
            return
        kept = {place: found for place, found in self._before.items() if _kind(found) in KEPT}
        with self._lock:
            for place, found in kept.items():
                self._places.setdefault(place, _Place(found=found))
            self._asked += [target for target in self._habits.targets if normal(target) in kept]

    @property
    def wanting(self) -> bool:
        """Something is wanted that nobody has begun to read."""
        return self._agenda.waiting

    def run(self) -> None:
        """Let all that is wanted happen, and all that is wanted then.

        :raises BaseException: what a ``then`` raised.
        """
        self._agenda.run()

    def _bring(self, place: str, known: _Place, rank: int) -> None:
        found = self._read(place, whole=known.whole)
        with self._lock:
            known.found = found
            known.running = False
            waiting, known.waiting = known.waiting, []
            if _has_more(found) and any(whole for _, whole in waiting):
                # Somebody wanted the resource, somebody else all of its pages.
                known.running = known.whole = True
                known.waiting = [w for w in waiting if w[1]]
                waiting = [w for w in waiting if not w[1]]
                self._agenda.add(rank, lambda: self._bring(place, known, rank))
        for then, whole in waiting:
            with self._turn:
                then(self._taken(place, found, whole=whole))

    # ---- reading ----

    def _now(self, place: str, *, whole: bool) -> Document:
        with self._lock:
            known = self._places.setdefault(place, _Place())
            known.wanted = True
            found = known.found
        if found is None or (whole and _has_more(found)):
            found = self._read(place, whole=whole)
            with self._lock:
                known.found = found
        found = self._taken(place, found, whole=whole)
        if is_not_found(found) and not whole:
            meant = self.peek(self._of_another_case(place))
            if meant is not None:
                return meant
        if isinstance(found, BmcError):
            raise found
        return found

    def _taken(self, place: str, found: Found, *, whole: bool) -> Found:
        """What was read, for whoever wants a collection: that it is one was not asked when it was read ahead."""
        if whole and isinstance(found, Document):
            try:
                self._check_number(place, _member_list(found.body, self._connector.label, place))
            except BmcAnswerInvalid as exc:
                return exc
        return found

    def _read(self, place: str, *, whole: bool) -> Found:
        try:
            found = self._pages(place) if whole else self._fetch(place)
        except BmcError as exc:
            return exc
        self._habits.pace.answered()
        return self._as_it_says(place, found)

    def _as_it_says(self, place: str, found: Document) -> Document:
        """A resource under the URI that it gives itself, where that differs from the place in its case alone."""
        uri = found.body.get('@odata.id')
        if not isinstance(uri, str) or not uri or uri == place:
            return found
        try:
            own = self.place(uri)
        except BmcAnswerInvalid:
            return found
        if not differ_in_case_only(place, own):
            return found
        with self._lock:
            self._aliases[place] = own
        return replace(found, ref=Ref(bmc=self.name, uri=own))

    def _only_of(self, place: str) -> str:
        """The query that asks a collection for its only member where that wins; empty where it does not."""
        if not self._offers_only or self.expands or self._habits.only is False:
            return ''
        name = place.rpartition('/')[2]
        if name == _OF_ONE:
            return _ONLY if self._habits.only else ''
        return _ONLY if name == _OF_SEVERAL and self._habits.only is None else ''

    def _only_page(self, place: str) -> Document:
        """A collection that was asked for its only member; what comes is that, or the collection as if nobody had asked.

        That a BMC brings one of several members shows where there are several: what it brings there is not taken.
        """
        try:
            answer = self._ask(place + _ONLY)
            found = self._document(answer)
        except BmcRefused as exc:
            if is_not_found(exc):
                raise
            self._habits.only = False
            return self._pages(place)
        except BmcAnswerInvalid:
            self._habits.only = False
            return self._pages(place)
        self._habits.expansion.read(answer.seconds)
        if 'Members' in found.body:
            listed = _member_list(found.body, self._connector.label, place)
            self._habits.only = self._habits.only or (True if len(listed) > 1 else None)
            first = Document(ref=Ref(bmc=self.name, uri=place), body=found.body, etag=found.etag)
            return self._all_pages(place, first) if 'Members@odata.nextLink' in found.body else first
        if self._habits.only is None or self._place_in(place, found.body) is None:
            # It may be one of several, or of another collection.
            self._habits.only = False
            return self._pages(place)
        self._remember(found.body, place)
        return Document(ref=Ref(bmc=self.name, uri=place), body={'Members': [{'@odata.id': found.body['@odata.id']}]})

    def _pages(self, place: str) -> Document:
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
        found = list(_member_list(first.body, self._connector.label, place))
        seen, page = {place}, first
        while isinstance(link := page.body.get('Members@odata.nextLink'), str):
            try:
                there = self._connector.path(link)
            except BmcAnswerInvalid:
                raise BmcAnswerInvalid(bmc=self._connector.label, uri=place, what='nextLink leads off the BMC') from None
            if there in seen:
                break
            if len(seen) >= MAX_PAGES or len(found) > MAX_MEMBERS:
                raise BmcAnswerInvalid(
                    bmc=self._connector.label, uri=place, what=f'more than {MAX_MEMBERS} members or {MAX_PAGES} pages'
                )
            seen.add(there)
            page = self._document(self._ask(there))
            found += _member_list(page.body, self._connector.label, there)
        body = {k: v for k, v in first.body.items() if k != 'Members@odata.nextLink'}
        body['Members'] = self._distinct(found, place)
        self._check_number(place, body['Members'])
        return Document(ref=first.ref, body=body)  # the ETag of one page says nothing of the others

    def _distinct(self, found: Iterable[object], collection: str) -> list[object]:
        """Each member once: nextLink may lead to members that are there already. What is no link stays, to be told."""
        by_place: dict[str, JsonObject] = {}
        odd: list[object] = []
        for member in found:
            link = link_of(member)
            if link is None or not isinstance(member, dict):
                odd.append(member)
                continue
            try:
                place = self.place(link)
            except BmcAnswerInvalid:
                place = link
            mine = place.rpartition('/')[0] == collection
            if place not in by_place or (mine and len(by_place[place]) < len(member)):
                by_place[place] = member
        return [*by_place.values(), *odd]

    def _deep_page(self, place: str, name: str) -> Document | None:
        """The first page of a collection with what is below its members, expanded too.

        :returns: None where the BMC does not do that, or not right; then one level may still work.
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
        self._check_number(place, list(got))
        return Document(ref=Ref(bmc=self.name, uri=place), body=page.body, etag=page.etag)

    def _deep_answer(self, place: str, query: str) -> tuple[Document, float] | None:
        """What comes, and how many seconds it took; None where it is not as it should be.

        404 says that the collection is not there; anything else may be about the query.
        """
        try:
            answer = self._ask(place + query)
            page = self._document(answer)
            got = _member_list(page.body, self._connector.label, place)
        except BmcRefused as exc:
            if is_not_found(exc):
                raise
            return None
        except BmcAnswerInvalid:
            return None
        except (BmcBusy, BmcUnreachable):
            if self.left() <= 0:
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
        """The members of a collection as they are when they are read singly; what is below them is kept as read."""
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
        """A collection below a member has come with all that is in it.

        One without any members, or with mere links, may be as far as the BMC went: it is read singly.
        """
        listed, count, link = below.get('Members'), below.get('Members@odata.count'), link_of(below)
        if link is None or not isinstance(listed, list) or not listed or 'Members@odata.nextLink' in below:
            return False
        if (isinstance(count, int) and count != len(listed)) or not all(map(link_of, listed)):
            return False
        if len(listed) > MAX_MEMBERS or len(self._places) > MAX_RESOURCES or not any(len(m) > 1 for m in listed):
            return False
        try:
            return parent(self.place(link)) == owner
        except BmcAnswerInvalid:
            return False

    def _keep_below(self, below: JsonObject) -> None:
        place = self.place(below['@odata.id'])
        self._keep(Document(ref=Ref(bmc=self.name, uri=place), body=below))
        for member in members(below):
            self._remember(member, place)

    def _first_page(self, place: str) -> Document:
        page: Document | None = None
        if self.expands:
            query = self._query or ''
            try:
                answer = self._ask(place + query)
                page = self._document(answer)
            except BmcRefused as exc:
                # 404 says that the collection is not there; anything else may be about the query.
                if is_not_found(exc):
                    raise
                self._query = None
            except BmcAnswerInvalid:
                self._query = None
            except (BmcBusy, BmcUnreachable):
                # Putting in hundreds of members may take longer than anybody waits, where each of them comes at once.
                if self.left() <= 0:
                    raise
                self._query = None
                page = self._fetch(place)
                self._habits.expansion.failed()
            else:
                got = _member_list(page.body, self._connector.label, place)
                if not all(map(link_of, got)):
                    self._query = None  # it expands and loses whose members they are
                    page = self._fetch(place)
                elif got and all(isinstance(member, dict) and set(member) == {'@odata.id'} for member in got):
                    self._query = None  # it takes the query and ignores it
                else:
                    self._habits.expansion.expanded(answer.seconds, len(got))
                page = Document(ref=Ref(bmc=self.name, uri=place), body=page.body, etag=page.etag)
        if page is None:
            page = self._fetch(place)
        self._check_number(place, _member_list(page.body, self._connector.label, place))
        return page

    def _check_number(self, place: str, found: list[object]) -> None:
        if len(found) > MAX_MEMBERS:
            raise BmcAnswerInvalid(bmc=self._connector.label, uri=place, what=f'more than {MAX_MEMBERS} members')

    def _remember(self, member: JsonObject, collection: str) -> None:
        """Keep an expanded member as read, if it has what every resource must have; else it is read singly later.

        So is one that claims to be a resource elsewhere: what stands in one collection must not speak for another.

        Source: DSP0266, sections "Common resource properties" and "Use of the $expand query parameter"; seen broken on real
        BMCs (facts/redfish.md, section 5).
        """
        place = self._place_in(collection, member)
        if place is not None:
            etag = member.get('@odata.etag')
            self._keep(Document(ref=Ref(bmc=self.name, uri=place), body=member, etag=etag if isinstance(etag, str) else None))

    def _place_in(self, collection: str, member: JsonObject) -> str | None:
        """The place of a member that is complete, and is one of that collection."""
        uri, identifier, name = member.get('@odata.id'), member.get('Id'), member.get('Name')
        if not (uri and identifier and name and isinstance(uri, str) and isinstance(identifier, str) and isinstance(name, str)):
            return None
        try:
            place = self.place(uri)
        except BmcAnswerInvalid:
            return None
        return place if parent(place) == collection else None

    def _keep(self, found: Document) -> None:
        """Take something for read, unless it was, or is about to be."""
        place = found.ref.uri
        known = self._places.get(place)
        if known is not None and (known.found is not None or known.running):
            return
        with self._lock:
            known = self._places.get(place)
            if known is None:
                self._places[place] = _Place(found)
            elif known.found is None and not known.running:
                known.found = found

    def _fetch(self, place: str) -> Document:
        before = self._before.get(place)
        if before is not None and before.etag is not None and _may_be_unchanged(before):
            answer = self._ask(place, {'If-None-Match': before.etag})
            if answer.status == 304:
                return before
        else:
            answer = self._ask(place)
        self._habits.expansion.read(answer.seconds)
        return self._document(answer)

    def _ask(self, target: str, headers: Mapping[str, str] | None = None) -> Answer:
        place = target.partition('?')[0]
        label = self._connector.label
        if len(self._places) > MAX_RESOURCES:
            raise BmcAnswerInvalid(bmc=label, uri=place, what=f'not read: more than {MAX_RESOURCES} resources')
        if self._bytes > MAX_BYTES or self._values > MAX_ALL_VALUES:
            raise BmcAnswerInvalid(bmc=label, uri=place, what=f'not read: more than {MAX_BYTES} bytes in one look')
        if self.left() <= 0:
            raise BmcUnreachable(bmc=label, uri=place, what='not asked any more: the time for one look is used up')
        answer = self._connector.read(target, left=self.left, headers=headers)
        self._asked.append(target)
        return answer

    def _document(self, answer: Answer) -> Document:
        self._bytes += len(answer.content)
        self._values += _values(answer.content)
        return document(answer, self.name, self._connector, place=self.place(answer.url))


class SoFar:
    """What a look has read so far, for whoever says by reading what is to be read next. It asks for nothing."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.session = reader.session
        self.name = reader.name

    def get(self, uri: str) -> Document:
        """What was read there.

        :raises NotReadYet: nobody has. ``BmcError``: it could not be read.
        """
        found = self._reader.so_far(uri)
        if found is None:
            raise NotReadYet(uri)
        if isinstance(found, BmcError):
            raise found
        return found

    def collection(self, uri: str) -> Document:
        """As :meth:`get`: one whose pages are not all there was not read yet.

        :raises NotReadYet: nobody has. ``BmcError``: it could not be read.
        """
        found = self.get(uri)
        if _has_more(found):
            raise NotReadYet(uri)
        return found

    def peek(self, uri: str) -> Document | None:
        """What was read there, else None."""
        return self._reader.peek(uri)


def _nothing(found: Found) -> None:
    """What is read ahead is asked for again by the walk."""


def _has_more(found: Found) -> bool:
    return isinstance(found, Document) and 'Members@odata.nextLink' in found.body


def _kind(document: Document) -> str:
    """The type of a resource without its version: PCIeFunction."""
    name = document.body.get('@odata.type')
    return name.lstrip('#').partition('.')[0] if isinstance(name, str) else ''


def identity_of(body: JsonObject) -> tuple[object, ...]:
    """What tells whether it is the same thing that stands at its URI."""
    return tuple(body.get(name) for name in ('Id', 'UUID', 'SerialNumber', 'Model', 'PartNumber'))


def _may_be_unchanged(document: Document) -> bool:
    kind = _kind(document)
    return kind in UNCHANGED or (kind.endswith('Collection') and all(len(m) == 1 for m in members(document.body)))


def fresh(connector: Connector, name: BmcName, uri: str) -> Document:
    """Read a resource now, past everything remembered.

    :raises BmcError: the read failed.
    """
    return document(connector.read(uri.partition('#')[0]), name, connector)


def document(answer: Answer, name: BmcName, connector: Connector, place: str | None = None) -> Document:
    """The resource in an answer.

    :param place: its URI as it is compared, when that is known already.
    :raises BmcAnswerInvalid: it is no JSON object, or has more values than any resource.
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
    """One name, two values."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose names mean one thing each. Source: RFC 8259, section 4: otherwise its meaning is unpredictable."""
    found = dict(pairs)
    if len(found) != len(pairs):
        for name, value in pairs:
            if found[name] != value:
                raise _Ambiguous(f'the answer gives {name[:40]!r} twice, with different values')
    return found


_SMALL = 32 * 1024

_JSON = json.JSONDecoder(object_pairs_hook=_object, strict=False)
"""BMCs put control characters into texts as they are, which RFC 8259, section 7, does not allow: a text is a text."""

_ESCAPED_QUOTE = b'\\u0022'

_QUICK, _BACK = msgspec.json.Decoder(), msgspec.json.Encoder()


def _decoded(content: bytes) -> object:
    """The value of JSON in which no name has two meanings.

    Nearly all answers are clean, and a quick decoder that takes the last of two values will do for them: a value that is lost
    takes the quotes of its name with it, so that what was decoded has fewer of them when it is written again. Quotes that are
    written as numbers could make up for that. Whatever does not come out even is decoded by the slow one, which tells why.

    :raises ValueError: it is no JSON, or ambiguous. ``RecursionError``: it is nested too deep.
    """
    with contextlib.suppress(ValueError, TypeError, OverflowError, RecursionError):
        body: object = _QUICK.decode(content)
        if _ESCAPED_QUOTE not in content and _BACK.encode(body).count(b'"') == content.count(b'"'):
            return body
    return _JSON.decode(text_of(content))


def text_of(content: bytes) -> str:
    """The text of an answer. Bytes that are no text, which BMCs copy from what a device calls itself, are replaced by U+FFFD.

    Source: RFC 8259, section 8.1; Unicode 16, section 5.22.
    """
    encoding = json.detect_encoding(content)
    try:
        return content.decode(encoding, 'surrogatepass')
    except UnicodeDecodeError:
        return content.decode(encoding, 'replace')


def _values(content: bytes) -> int:
    """At least as many as there are values in JSON: each begins, or follows, one of these; a guess for small answers."""
    if len(content) < _SMALL:
        return len(content) // 4
    return content.count(b',') + content.count(b'[') + content.count(b'{')


@functools.lru_cache(maxsize=8192)
def _is_place(uri: str) -> bool:
    """The URI is written as it is compared. Machines of one product have the same ones."""
    return PLACE.fullmatch(uri) is not None


def members(body: JsonObject) -> tuple[JsonObject, ...]:
    """The members of a collection's body that are objects."""
    found = body.get('Members')
    return tuple(m for m in found if isinstance(m, dict)) if isinstance(found, list) else ()


def expand_query(features: JsonObject | None, levels: int = 1) -> str | None:
    """The $expand query that a BMC says it takes, None when it says none.

    :param levels: more than one only where it says how many it takes at most, and not together with what Links lead to.
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
    """A link in place of a resource that was put in below its owner; anything else as it is."""
    if not isinstance(value, dict) or '@odata.type' not in value or not ('Id' in value or 'Members' in value):
        return value
    link = link_of(value)
    return {'@odata.id': link} if link is not None and link.startswith(f'{owner}/') and '#' not in link else value


def link_of(member: object) -> str | None:
    """The URI of a member; None when it is no link."""
    link = member.get('@odata.id') if isinstance(member, dict) else None
    return link if isinstance(link, str) and link else None


def _member_list(body: JsonObject, label: str, place: str) -> list[object]:
    """The members of one page, whatever they are. Null is an empty list: seen on real BMCs.

    :raises BmcAnswerInvalid: it is no collection.
    """
    found = body.get('Members', ...)
    if found is None:
        return []
    if not isinstance(found, list):
        raise BmcAnswerInvalid(bmc=label, uri=place, what='is no collection: Members is missing or no array')
    return found

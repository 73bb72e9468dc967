# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read collections with all their pages, by ``$expand`` or ``only`` where that is faster and the BMC does it right."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from baremetal_acc.bmc.driver import Document, JsonObject
from baremetal_acc.bmc.redfish.collection_members import MAX_MEMBERS, check_number, link_of, link_to, member_list, members
from baremetal_acc.bmc.redfish.concurrency import BmcHabits
from baremetal_acc.bmc.redfish.inventory_requests import MAX_RESOURCES, InventoryRequests
from baremetal_acc.bmc.redfish.parse import parent
from baremetal_acc.bmc.redfish.resource_table import ResourceTable
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcRefused, BmcUnreachable, is_not_found
from baremetal_acc.model.ref import Ref

MAX_PAGES = 200

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
            listed = member_list(found.body, self._label, place)
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
        found = list(member_list(first.body, self._label, place))
        seen, page = {place}, first
        while isinstance(link := page.body.get('Members@odata.nextLink'), str):
            try:
                there = self._path(link)
            except BmcAnswerInvalid:
                raise BmcAnswerInvalid(
                    bmc=self._label, uri=place, what='Members@odata.nextLink does not point to this BMC'
                ) from None
            if there in seen:
                break
            if len(seen) >= MAX_PAGES or len(found) > MAX_MEMBERS:
                raise BmcAnswerInvalid(bmc=self._label, uri=place, what=f'more than {MAX_MEMBERS} members or {MAX_PAGES} pages')
            seen.add(there)
            page = self._requests.document(self._requests.ask(there))
            found += member_list(page.body, self._label, there)
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
            got = member_list(page.body, self._label, place)
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
            found.append({key: link_to(value, place) for key, value in member.items()})
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
                got = member_list(page.body, self._label, place)
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
        check_number(self._label, place, member_list(page.body, self._label, place))
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

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does a BMC have at a URI? Each is asked for once in a look, collections with $expand where that works.

Bounds: 32 MiB for an answer, 2,000 members of a collection, 5,000 resources and the address's budget for a look.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from baremetal_acc.bmc.api import BmcAddress, Document, JsonObject
from baremetal_acc.bmc.redfish.connector import Answer, Connector
from baremetal_acc.bmc.redfish.message import said
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcRefused, BmcUnreachable
from baremetal_acc.model.ref import BmcName, Ref

GONE = frozenset({'ResourceNotFound', 'ResourceMissingAtURI'})
"""MessageIds of a body that stands for a 404 but comes with 200, as seen on a real BMC. Source: DMTF Base registry."""

MAX_MEMBERS = 2000
MAX_RESOURCES = 5000
MAX_PAGES = 200

T = TypeVar('T')
S = TypeVar('S')


class Reader:
    """Reads for one look. Safe to use from several threads.

    :ivar session: names the session.
    :ivar name: of the BMC.
    """

    def __init__(self, connector: Connector, address: BmcAddress, session: str, root: Document | None = None) -> None:
        """Nothing is read yet.

        :param root: the service root, which counts as read; it says whether $expand works.
        """
        self.session = session
        self.name: BmcName = address.name
        self._connector = connector
        self._concurrency = max(1, address.concurrency)
        self._deadline = time.monotonic() + address.budget.total_seconds()
        features = root.body.get('ProtocolFeaturesSupported') if root is not None else None
        self._query = expand_query(features if isinstance(features, Mapping) else None)
        self._read: dict[str, Document | BmcError] = {root.ref.uri: root} if root is not None else {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def ref(self, uri: str) -> Ref:
        """The resource of a URI, whatever way the URI was written.

        :raises BmcAnswerInvalid: it leads off the BMC.
        """
        return Ref(bmc=self.name, uri=key(self._connector.path(uri)))

    def get(self, uri: str) -> Document:
        """Read a resource; what this look has read (or failed to read) is not asked for again.

        :raises BmcError: with the reason.
        """
        place = self.ref(uri).uri
        with self._turn(place):
            known = self._known(place)
            if known is None:
                known = self._fetch(place)
                self._keep(place, known)
        if isinstance(known, BmcError):
            raise known
        return known

    def peek(self, uri: str) -> Document | None:
        """What this look has read there, else None. Never asks the BMC."""
        try:
            known = self._known(self.ref(uri).uri)
        except BmcAnswerInvalid:
            return None
        return known if isinstance(known, Document) else None

    def collection(self, uri: str) -> Document:
        """Read a collection with all its pages; expanded members that are complete are remembered as read.

        The body that is remembered has all members in Members.

        :raises BmcError: the collection itself could not be read.
        """
        place = self.ref(uri).uri
        with self._turn(place):
            known = self._known(place)
            if isinstance(known, Document) and 'Members@odata.nextLink' not in known.body:
                return known
            if isinstance(known, BmcError):
                raise known
            try:
                found = self._pages(place)
            except BmcError as exc:
                self._keep(place, exc)
                raise
            self._keep(place, found)
        for member in members(found.body):
            self._remember(member)
        return found

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """The function's results, in order, several at a time."""
        todo = list(items)
        if len(todo) < 2 or self._concurrency == 1:
            return [function(item) for item in todo]
        with ThreadPoolExecutor(min(self._concurrency, len(todo)), 'redfish') as pool:
            return list(pool.map(function, todo))

    def left(self) -> float:
        """Seconds that are left for this look."""
        return self._deadline - time.monotonic()

    def _pages(self, place: str) -> Document:
        first = self._first_page(place)
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
            page = document(self._connector.read(there, left=self.left), self.name, self._connector)
            found += _member_list(page.body, self._connector.label, there)
        if len(found) > MAX_MEMBERS:
            raise BmcAnswerInvalid(bmc=self._connector.label, uri=place, what=f'more than {MAX_MEMBERS} members')
        body = {k: v for k, v in first.body.items() if k != 'Members@odata.nextLink'}
        body['Members'] = self._distinct(found)
        return Document(ref=first.ref, body=body, etag=first.etag)

    def _distinct(self, found: Iterable[JsonObject]) -> list[JsonObject]:
        """Each member once: nextLink may lead to members that are there already."""
        by_place: dict[str, JsonObject] = {}
        for member in found:
            link = member.get('@odata.id')
            if not isinstance(link, str):
                continue
            try:
                place = self.ref(link).uri
            except BmcAnswerInvalid:
                place = link
            if place not in by_place or len(by_place[place]) < len(member):
                by_place[place] = member
        return list(by_place.values())

    def _first_page(self, place: str) -> Document:
        if self._query is not None:
            try:
                page = document(self._connector.read(place + self._query, left=self.left), self.name, self._connector)
            except BmcRefused as exc:
                # 404 says that the collection is not there; anything else may be about the query.
                if exc.status == 404:
                    raise
                self._query = None
            except BmcAnswerInvalid:
                self._query = None
            else:
                got = _member_list(page.body, self._connector.label, place)
                if got and all(set(member) == {'@odata.id'} for member in got):
                    self._query = None  # it takes the query and ignores it
                return Document(ref=Ref(bmc=self.name, uri=place), body=page.body, etag=page.etag)
        return self._fetch_or_raise(place)

    def _remember(self, member: JsonObject) -> None:
        """Keep an expanded member as read, if it has what every resource must have; else it is read singly later.

        Source: DSP0266, section "Use of the $expand query parameter"; seen broken on real BMCs (facts/redfish.md, section 5).
        """
        if not all(isinstance(member.get(name), str) and member[name] for name in ('@odata.id', 'Id', 'Name')):
            return
        try:
            place = self.ref(member['@odata.id']).uri
        except BmcAnswerInvalid:
            return
        etag = member.get('@odata.etag')
        if self._known(place) is None:
            self._keep(
                place, Document(ref=Ref(bmc=self.name, uri=place), body=member, etag=etag if isinstance(etag, str) else None)
            )

    def _fetch(self, place: str) -> Document | BmcError:
        try:
            return self._fetch_or_raise(place)
        except BmcError as exc:
            return exc

    def _fetch_or_raise(self, place: str) -> Document:
        if len(self._read) >= MAX_RESOURCES:
            raise BmcAnswerInvalid(bmc=self._connector.label, uri=place, what=f'not read: more than {MAX_RESOURCES} resources')
        if self.left() <= 0:
            raise BmcUnreachable(
                bmc=self._connector.label, uri=place, what='not asked any more: the time for one look is used up'
            )
        return document(self._connector.read(place, left=self.left), self.name, self._connector)

    def _turn(self, place: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(place, threading.Lock())

    def _known(self, place: str) -> Document | BmcError | None:
        with self._lock:
            return self._read.get(place)

    def _keep(self, place: str, found: Document | BmcError) -> None:
        with self._lock:
            self._read[place] = found


class Writer:
    """Writes to one BMC, each once."""

    def __init__(self, connector: Connector, name: BmcName, session: str) -> None:
        self.session = session
        self.name = name
        self._connector = connector

    def fresh(self, uri: str) -> Document:
        """Read a resource now.

        :raises BmcError: the read failed.
        """
        return fresh(self._connector, self.name, uri)

    def patch(self, document: Document, body: JsonObject) -> None:
        """PATCH the resource of a document that was judged, with its ETag as If-Match. 200, 202 and 204 are all just answers.

        :raises BmcConflict: it changed since.
        :raises BmcError: anything else.
        """
        headers = {'If-Match': document.etag} if document.etag is not None else {}
        self._connector.send('PATCH', document.ref.uri, body=dict(body), headers=headers)

    def post(self, uri: str, body: JsonObject) -> None:
        """POST an action that has no task.

        :raises BmcError: it was not accepted.
        """
        self._connector.send('POST', uri, body=dict(body))


def fresh(connector: Connector, name: BmcName, uri: str) -> Document:
    """Read a resource now, past everything remembered.

    :raises BmcError: the read failed.
    """
    return document(connector.read(uri.partition('#')[0]), name, connector)


def document(answer: Answer, name: BmcName, connector: Connector) -> Document:
    """The resource in an answer.

    :raises BmcAnswerInvalid: it is no JSON object.
    """
    try:
        body = json.loads(answer.content)
    except (ValueError, RecursionError):
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what='the answer is no JSON') from None
    if not isinstance(body, dict):
        raise BmcAnswerInvalid(bmc=connector.label, uri=answer.url, what='the answer is no JSON object')
    if 'error' in body and '@odata.id' not in body:
        if said(body).ids & GONE:
            raise BmcRefused(bmc=connector.label, uri=answer.url, status=404, what='the answer says that it is not there')
        raise BmcAnswerInvalid(
            bmc=connector.label, uri=answer.url, what='the answer is an error message with a status of success'
        )
    header = answer.headers.get('ETag')
    inner = body.get('@odata.etag')
    etag = header if header else inner if isinstance(inner, str) and inner else None
    return Document(ref=Ref(bmc=name, uri=key(answer.url)), body=body, etag=etag)


def key(path: str) -> str:
    """A path as it is compared: without query, fragment, trailing or doubled slashes."""
    bare = path.partition('#')[0].partition('?')[0]
    while '//' in bare:
        bare = bare.replace('//', '/')
    return bare.rstrip('/') or '/'


def members(body: JsonObject) -> tuple[JsonObject, ...]:
    """The members of a collection's body that are objects."""
    found = body.get('Members')
    return tuple(m for m in found if isinstance(m, Mapping)) if isinstance(found, list) else ()


def expand_query(features: JsonObject | None) -> str | None:
    """The $expand query that a BMC says it takes, None when it says none.

    Source: DSP8010 2025.4, ServiceRoot v1_20_0, ProtocolFeaturesSupported.ExpandQuery.
    """
    expand = features.get('ExpandQuery') if isinstance(features, Mapping) else None
    if not isinstance(expand, Mapping):
        return None
    levels = '($levels=1)' if expand.get('Levels') is True else ''
    if expand.get('NoLinks') is True:
        return f'?$expand=.{levels}'
    return f'?$expand=*{levels}' if expand.get('ExpandAll') is True else None


def _member_list(body: JsonObject, label: str, place: str) -> list[JsonObject]:
    """The members of one page. Null is an empty list: seen on real BMCs.

    :raises BmcAnswerInvalid: it is no collection.
    """
    found = body.get('Members', ...)
    if found is None:
        return []
    if not isinstance(found, list):
        raise BmcAnswerInvalid(bmc=label, uri=place, what='is no collection: Members is missing or no array')
    return [m for m in found if isinstance(m, Mapping)]

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read resources and collections into the tables of a discovered tree, each once; what cannot be read becomes a gap."""

import functools
from collections.abc import Callable, Iterable

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.redfish.collection_members import link_of
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import ResourceView, last
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.resource_document import identity_of, resource_type
from baremetal_acc.bmc.redfish.resource_table import Found
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, is_not_found
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import Ref

RANK_FIRST, RANK_EARLY, RANK_DEEP, RANK_CHAIN, RANK_LATE, RANK_LAST = -1, 1, 2, 7, 8, 9
"""Ranks: resources from which much follows are read first; those from which nothing follows fill the gaps.

Resources of locks that lead to others have a rank in between: one after the other at the end, each would take a round trip.
"""


NOTHING = 'a link points to a resource that does not exist (HTTP 404)'

_ONE_URI = 'this is the @odata.id of two different resources, whose links differ only in case'

OTHER_TYPE = 'a link points to a resource of another type than {kind}'

_KINDS = {
    'systems': 'ComputerSystem',
    'chassis': 'Chassis',
    'managers': 'Manager',
    'processors': 'Processor',
    'pcie_devices': 'PCIeDevice',
    'adapters': 'NetworkAdapter',
    'interfaces': 'NetworkInterface',
    'graphics': 'GraphicsController',
    'items': 'SoftwareInventory',
}
"""The resource type of each table. Source: DSP8010 2025.4."""

KNOWN_TYPES = frozenset(kind + tail for kind in _KINDS.values() for tail in ('', 'Collection'))


class ReadStage:
    """Counts pending reads, and runs callbacks when none is left."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._waiting = [then]
        self._open = 1

    def begin(self) -> None:
        """Count one more pending read."""
        self._open += 1

    def end(self) -> None:
        """Count one read as done."""
        self._open -= 1
        if not self._open:
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def after(self, then: Callable[[], None]) -> None:
        """Run a callback when all reads are done; at once if they are."""
        if self._open:
            self._waiting.append(then)
        else:
            then()


class TreeReader:
    """Reads resources and collections into the tables of a discovered tree, each once; what cannot be read becomes a gap.

    :ivar tree: the resources read so far.
    :ivar gaps: what could not be read, or is malformed.
    :ivar expansion: tells whether collections are expanded.
    :ivar seen: which URI was read into which table.
    :ivar listed: URIs that are members of a collection.
    :ivar offered: URIs of the collections of resources.
    :ivar dangling: links to nothing, each with its table and whether a device may be hidden.
    :ivar guessed: URIs that were tried although no resource links to them.
    :ivar usual: guesses for which a 404 is not noted as a gap.
    """

    def __init__(self, reader: RedfishReader, tree: DiscoveredTree) -> None:
        self.tree = tree
        self.gaps = tree.gaps
        self.expansion = reader.pages
        self.seen: set[tuple[int, str]] = set()
        self.listed: set[str] = set()
        self.offered: set[str] = set()
        self.dangling: list[tuple[str, dict[str, ResourceView], bool]] = []
        self.guessed: set[str | None] = set()
        self.usual: set[str | None] = set()
        self.table = reader.table
        self._name = reader.name
        self._want = reader.want
        self._kinds = {id(getattr(tree, name)): kind for name, kind in _KINDS.items()}

    def collection(
        self,
        view: ResourceView,
        name: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        stages: tuple[ReadStage, ...] = (),
        inner: tuple[ReadStage, ...] = (),
        rank: int = 0,
    ) -> None:
        """Read the members of a collection below a resource, or of an array of links in its place.

        :param stages: see :meth:`members`; likewise ``inner``.
        """
        if isinstance(view.body.get(name), list):
            self.each(view.links(name), into, then, hides=True, stages=inner, rank=rank)
            return
        link = view.link(name)
        if link is not None:
            self.offered.add(self.place(link) or link)
            hides = into is not self.tree.interfaces
            self.members(link, into, then, hides=hides, stages=stages, inner=inner, rank=rank)

    def members(
        self,
        uri: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        hides: bool,
        error: Callable[[BmcError], None] | None = None,
        stages: tuple[ReadStage, ...] = (),
        inner: tuple[ReadStage, ...] = (),
        rank: int = 0,
        inner_rank: int | None = None,
    ) -> None:
        """Read the members of a collection into a table.

        :param into: the table. ``then``: called with each member.
        :param hides: devices may be hidden if the read fails.
        :param error: called with the error if the collection cannot be read.
        :param stages: stages that wait for the collection itself; ``inner`` those that wait for its members too.
        """

        def here(found: Found) -> None:
            if isinstance(found, BmcError):
                if error is not None:
                    error(found)
                self.gap(uri, found, hides=hides)
            else:
                links = self._links_of(uri, found, hides=hides)
                if into is self.tree.processors:
                    links.sort(key=_may_be_cpu)  # CPUs last, as more reads follow from an accelerator
                self.is_other_kind(into, found, 'Collection')
                below = inner_rank if inner_rank is not None else rank + 1
                self.each(links, into, then, hides=hides, stages=inner, rank=below)
            for stage in (*stages, *inner):
                stage.end()

        for stage in (*stages, *inner):
            stage.begin()
        self._want(uri, here, whole=True, rank=rank)

    def _links_of(self, uri: str, collection: Document, *, hides: bool) -> list[str]:
        """The URIs of a collection's members. A member that is no link may be a device that cannot be read."""
        listed = collection.body.get('Members')
        links = []
        for number, member in enumerate(listed if isinstance(listed, list) else ()):
            link = link_of(member)
            if link is not None:
                links.append(link)
                self.listed.add(self.place(link) or link)
            else:
                ref = Ref(bmc=self._name, uri=self.place(uri) or short(uri))
                self.gaps.append(Gap(ref=ref, field=f'Members/{number}', reason='link expected', hides=hides))
        return links

    def each(
        self,
        uris: Iterable[str],
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None = None,
        *,
        hides: bool,
        stages: tuple[ReadStage, ...] = (),
        rank: int = 0,
    ) -> None:
        """Read resources into a table, each once.

        :param stages: stages that wait for them.
        """
        for uri in uris:
            place = self.place(uri)
            mark = (id(into), place or uri)
            if mark in self.seen or (into is self.tree.pcie_devices and place in self.tree.listed_again):
                continue
            self.seen.add(mark)
            found = self.table.at(place) if place is not None else None
            if found is not None:
                self._here(uri, into, then, hides, (), found)
                continue
            for stage in stages:
                stage.begin()
            self._want(uri, functools.partial(self._here, uri, into, then, hides, stages), rank=rank)

    def _here(
        self,
        uri: str,
        into: dict[str, ResourceView],
        then: Callable[[ResourceView], None] | None,
        hides: bool,
        stages: tuple[ReadStage, ...],
        found: Found,
    ) -> None:
        if is_not_found(found):
            self.dangling.append((uri, into, hides))
        elif isinstance(found, BmcError):
            self.gap(uri, found, hides=hides)
        else:
            if self.is_other_kind(into, found):
                for stage in stages:
                    stage.end()
                return
            view = ResourceView.of(found, self.gaps)
            known = into.setdefault(view.ref.uri, view)
            if known is not view and identity_of(known.body) != identity_of(view.body):
                self.gaps.append(Gap(ref=view.ref, reason=_ONE_URI, hides=True))
            elif known is view and then is not None:
                then(view)
        for stage in stages:
            stage.end()

    def is_other_kind(self, into: dict[str, ResourceView], found: Document, tail: str = '') -> bool:
        """Whether a resource is of another type than its table holds: then the expected one is not seen, and a gap is noted.

        Only types that are read elsewhere count, as BMCs have type names of their own.
        """
        wanted, said = self._kinds.get(id(into)), resource_type(found.body)
        if wanted is None or said == f'{wanted}{tail}' or said not in KNOWN_TYPES:
            return False
        gap = Gap(ref=found.ref, field='@odata.type', reason=OTHER_TYPE.format(kind=f'{wanted}{tail}'), hides=True)
        if gap not in self.gaps:
            self.gaps.append(gap)
        return True

    def place(self, uri: str) -> str | None:
        """A URI in normal form, as in the tree's tables; None if it leads off the BMC."""
        try:
            return self.table.place(uri)
        except BmcAnswerInvalid:
            return None

    def settled(self, uri: str) -> str | None:
        """The URI of the resource that a link means, once everything was read; None if it leads off the BMC."""
        place = self.place(uri)
        return None if place is None else self.table.settled(place)

    def gap(self, uri: str, exc: BmcError, *, hides: bool) -> None:
        """Note that a resource could not be read, or does not exist (HTTP 404) although something links to it."""
        gone = is_not_found(exc)
        if gone and uri in self.usual:
            return
        place = self.place(uri)
        ref = Ref(bmc=self._name, uri=place if place is not None else short(uri))
        found = Gap(ref=ref, reason=NOTHING if gone else exc.what, hides=hides and not (gone and uri in self.guessed))
        if found not in self.gaps:
            self.gaps.append(found)


def _may_be_cpu(uri: str) -> bool:
    """Whether a URI looks like a CPU's. Used only for the order of reads."""
    return 'cpu' in last(uri).casefold()

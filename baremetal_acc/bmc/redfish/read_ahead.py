# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read in advance what locks and the end of an inventory need, while the tree is being discovered."""

import functools
from collections.abc import Callable, Iterable

from baremetal_acc.bmc.driver import CardLead, Document, JsonObject, Lead, NotReadYet
from baremetal_acc.bmc.redfish import standby
from baremetal_acc.bmc.redfish.collection_members import link_of, members
from baremetal_acc.bmc.redfish.discovered_tree import DiscoveredTree, handed_out, own_manager
from baremetal_acc.bmc.redfish.parse import ResourceView, last
from baremetal_acc.bmc.redfish.reader import RedfishReader, SoFar
from baremetal_acc.bmc.redfish.resource_table import Found
from baremetal_acc.bmc.redfish.tree_reader import RANK_CHAIN, RANK_LAST, ReadStage


class ReadAhead:
    """Reads in advance what is read after the inventory if there is an accelerator: the resources of locks, and the Managers.

    :ivar leads: what locks read below lists of the service root; empty once it is being read.
    """

    def __init__(self, reader: RedfishReader, tree: DiscoveredTree, leads: Iterable[Lead | CardLead]) -> None:
        self._reader = reader
        self._so_far = SoFar(reader)
        self._tree = tree
        given = tuple(leads)
        self.leads = tuple(lead for lead in given if isinstance(lead, Lead))
        self._card_leads = tuple(lead for lead in given if isinstance(lead, CardLead))

    def read_managers(self, systems_here: ReadStage) -> None:
        """Read the Managers and the BMC's own Manager in advance, as the inventory's end and the locks need them.

        In parallel with Systems and Chassis this costs no time. Whether there is an accelerator is known only later, and the
        Managers would then have to be waited for.

        :param systems_here: ends when all Systems were read.
        """
        root = ResourceView(self._tree.root.ref, self._tree.root.body, [])
        link = root.link('Managers')
        if link is None or not self.leads or self._reader.at_once == 1:
            return

        def listed(_: Document) -> None:
            if root.links('Links', 'ManagerProvidingService'):
                own_is_known()
            else:
                systems_here.after(own_is_known)

        def own_is_known() -> None:
            systems = tuple(self._tree.systems.values())
            own = own_manager(root, systems[0] if len(systems) == 1 else None)
            if own is not None:
                self._reader.want(own, _nothing, rank=RANK_CHAIN, ahead=True)

        self._ahead(link, listed, whole=True)

    def read_standby(self) -> None:
        """Read in advance the ActionInfos that tell which resets of standby power the machine has."""
        found = handed_out(self._tree)
        if len(found) != 1:
            return
        try:
            standby.place(found[0], self._tree.chassis, self._so_far.get)
        except NotReadYet as exc:
            self._ahead(exc.uri, lambda _: self.read_standby())

    def read_below_card(self, system: Document) -> None:
        """Read in advance what locks read below the System of a card."""
        for lead in self._card_leads:
            self._card_ahead(lead, system)

    def _card_ahead(self, lead: CardLead, system: Document) -> None:
        """Read in advance what locks read below the System of a card, one resource after the other."""
        try:
            lead.read(self._so_far, system)
        except NotReadYet as exc:
            self._ahead(exc.uri, lambda _: self._card_ahead(lead, system))

    def follow_leads(self) -> None:
        """Read in advance what locks will read, as an accelerator was found."""
        leads, self.leads = self.leads, ()
        by_list: dict[str, list[Lead]] = {}
        for lead in leads:
            by_list.setdefault(lead.above, []).append(lead)
        for name, mine in by_list.items():
            link = self._tree.root.link(name)
            if link is not None:
                self._ahead(link, functools.partial(self._listed_ahead, mine), whole=True)

    def _listed_ahead(self, leads: list[Lead], listed: Document) -> None:
        for link in filter(None, map(link_of, members(listed.body))):
            self._ahead(link, functools.partial(self._lead_on, leads))

    def _lead_on(self, leads: list[Lead], found: Document) -> None:
        for lead in leads:
            if lead.beside and not isinstance(_at(found.body, lead.beside), dict):
                continue
            value = _at(found.body, lead.path) if lead.path else None
            links = [link for one in (value if isinstance(value, list) else [value]) if (link := link_of(one)) is not None]
            for link in links:
                if lead.of_its_name and last(link).casefold() != last(found.ref.uri).casefold():
                    continue
                self._ahead(link, self._members_ahead if lead.is_collection else _no_more, whole=lead.is_collection)

    def _members_ahead(self, found: Document) -> None:
        for link in filter(None, map(link_of, members(found.body))):
            self._ahead(link, _no_more)

    def _ahead(self, link: str, then: Callable[[Document], None], *, whole: bool = False) -> None:
        def here(found: Found) -> None:
            if isinstance(found, Document):
                then(found)

        # With one request at a time nothing is gained by an early read: devices come first, in case the time runs out.
        leads_on = then is not _no_more and self._reader.at_once > 1
        self._reader.want(link, here, whole=whole, rank=RANK_CHAIN if leads_on else RANK_LAST, ahead=True)


def _nothing(found: Found) -> None:
    """Do nothing: the result is used when the URI is wanted later."""


def _no_more(found: Document) -> None:
    """Do nothing: the document is used when the URI is wanted later."""


def _at(body: JsonObject, path: tuple[str, ...]) -> object:
    value: object = body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is a whole machine taken off the shelf, all or nothing, and put back exactly as it was?

One call to placement's reshaper empties all providers of ours below a node. Placement refuses it whole when anything of them is
claimed, or has changed since it was read; a claim that is made at the same time wins or loses, and never both.
"""

import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

from baremetal_acc.decide.providers import OWNER
from baremetal_acc.errors import InventoryInUse, PlacementUnreachable
from baremetal_acc.model.reshape import Stock
from baremetal_acc.placement import roots, wire
from baremetal_acc.placement.client import INVENTORY_IN_USE, RESHAPER, PlacementClient, refusal

_TOLD = 3

ATTEMPTS = 12
"""How often all is read and sent anew when others write to the same providers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What one provider offers.

    :ivar stocks: everything, as placement has it.
    """

    uuid: str
    name: str
    stocks: tuple[Stock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnShelf:
    """What placement has of one machine.

    :ivar root: the node's root provider is there.
    :ivar ours: our providers below it.
    :ivar claims: what is claimed of the machine, its root and what is not ours included; a sentence each.
    """

    root: bool
    ours: tuple[Offered, ...] = ()
    claims: tuple[str, ...] = ()
    generations: tuple[tuple[str, int], ...] = ()

    def offers(self, uuid: str) -> frozenset[str]:
        """The classes that a provider offers."""
        return frozenset(s.resource_class for o in self.ours if o.uuid == uuid for s in o.stocks)

    @property
    def offered(self) -> tuple[Offered, ...]:
        """Those that offer anything."""
        return tuple(o for o in self.ours if o.stocks)


class Shelf:
    """Takes machines off the shelf, and puts them back. Threads may share it.

    :param sleep: how to pause after somebody else's write; ``jitter`` is a random number from 0 to 1.
    """

    def __init__(
        self,
        client: PlacementClient,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._jitter = jitter
        self._attempts = attempts

    def busy(self, root_uuid: str) -> str | None:
        """Why a machine cannot be taken, for people: what of it is claimed; None: nothing is.

        :raises PlacementError: placement cannot be asked.
        """
        lower = roots.below(self._client, root_uuid)
        if lower is None:
            return 'placement has no root provider of it'
        found = list(itertools.islice(self._claims((root_uuid, *lower)), _TOLD))
        return f'claimed: {"; ".join(found)}' if found else None

    def on_offer(self, root_uuid: str, provider_uuid: str) -> bool:
        """Whether a provider offers anything, and the machine above it can be claimed with it.

        Nova reserves the root of a machine as soon as it sees that Ironic does not have it available, and frees it in its next
        update cycle (nova 34.0.0, virt/ironic/driver.py, update_provider_tree). A root that offers nothing is nobody's to
        claim: there is no Nova.

        :raises PlacementError: placement cannot be asked.
        """
        own, above = self._stocks(provider_uuid), self._stocks(root_uuid)
        return bool(own and _left_of(own) and above is not None and (not above or _left_of(above)))

    def _stocks(self, provider_uuid: str) -> tuple[Stock, ...] | None:
        """What a provider has; None: it is not there."""
        answer = self._client.get(f'/resource_providers/{provider_uuid}/inventories')
        return None if answer.status == HTTPStatus.NOT_FOUND else wire.stocks(answer)

    def look(self, root_uuid: str) -> OnShelf:
        """What a machine offers, and what of it is claimed.

        What is claimed is read last: who claims after that changes a generation, so that what was read is refused.

        :raises PlacementError: placement cannot be asked.
        """
        lower = roots.below(self._client, root_uuid)
        if lower is None:
            return OnShelf(root=False)
        marked = roots.having(self._client, root_uuid, OWNER)
        found, generations = [], []
        for provider in sorted((p for p in lower.values() if p.uuid in marked), key=lambda p: p.uuid):
            answer = self._client.get(f'/resource_providers/{provider.uuid}/inventories')
            if answer.status == HTTPStatus.NOT_FOUND:
                continue
            found.append(Offered(uuid=provider.uuid, name=provider.name, stocks=wire.stocks(answer)))
            generations.append((provider.uuid, wire.generation(answer)))
        return OnShelf(
            root=True, ours=tuple(found), claims=tuple(self._claims((root_uuid, *lower))), generations=tuple(generations)
        )

    def withdraw(self, root_uuid: str, seen: OnShelf) -> None:
        """Take everything of ours out of service, or nothing.

        :param seen: what is to be withdrawn: what else was offered meanwhile refuses it.
        :raises InventoryInUse: something is claimed; nothing was changed.
        :raises PlacementRefused: it may not be done, or is claimed by nobody whom placement knows; nothing was changed.
        :raises PlacementUnreachable: no answer, or somebody has done it: whether it was this request has to be looked at.
        """
        if not seen.offered:
            return
        generations = dict(seen.generations)
        body = {
            'inventories': {
                o.uuid: {'resource_provider_generation': generations[o.uuid], 'inventories': {}} for o in seen.offered
            },
            'allocations': {},
        }
        answer = self._client.request('POST', RESHAPER, body=body)
        if answer.ok:
            return
        if answer.code == INVENTORY_IN_USE:
            nobodys = roots.nobodys(self._client, (o.uuid for o in seen.offered))
            if nobodys is not None:
                raise nobodys.error()
            raise InventoryInUse(f'placement, node {root_uuid}: something of it was claimed right now')
        if answer.status == HTTPStatus.CONFLICT:
            there = {o.uuid for o in self.look(root_uuid).offered}
            if there.issuperset(o.uuid for o in seen.offered):
                raise InventoryInUse(f'placement, node {root_uuid}: what it offers was changed or claimed right now')
            # By somebody else, or by this very request: an adapter may have sent it twice, since an answer was lost.
            raise PlacementUnreachable(f'placement, node {root_uuid}: what it offers was withdrawn right now')
        raise refusal('POST', RESHAPER, answer)

    def put_back(
        self, root_uuid: str, offered: Iterable[Offered], *, still: Callable[[], None] = lambda: None
    ) -> tuple[str, ...]:
        """Offer again what was withdrawn, exactly as it was, unless somebody has published the machine since.

        Whoever did has looked at it: what he does not offer is not to be had any more, whatever it was when it was withdrawn.
        A withdrawal whose answer was lost may still be on its way while the machine is on offer. Placement does not take it
        when anything of the machine has been written since, so that is done then, and changes nothing.

        :param still: raises when the machine must not be on offer any more. It is asked right before each write: of one that
            somebody has got meanwhile placement would take it, for nothing of ours below it has changed by that.
        :returns: names of the providers that offer it again.
        :raises PlacementError: it could not be done.
        """
        wanted = {o.uuid: o for o in offered if o.stocks}
        last: PlacementUnreachable | None = None
        settled = False  # no withdrawal can come after this
        for attempt in range(self._attempts):
            now = self.look(root_uuid)
            mine = [o for o in now.ours if o.uuid in wanted]
            taken = [wanted[o.uuid] for o in mine if not o.stocks]
            there = [o for o in mine if o.stocks]
            if taken and not now.offered:
                settled = True
                still()
                last = self._offer(taken, now) or last
            elif there and not settled:
                trouble = self._offer(there[:1], now)  # as it is
                settled, last = trouble is None, trouble or last
            else:
                return tuple(wanted[o.uuid].name for o in there if o.stocks == wanted[o.uuid].stocks)
            self._sleep(min(2.0, 0.02 * 2**attempt) * self._jitter() if last is not None else 0)
        raise PlacementUnreachable(
            f'placement, node {root_uuid}: what it offered could not be put back: '
            f'{"its providers kept changing" if last is None else last.message}; gave up after {self._attempts} attempts'
        ) from last

    def _offer(self, offered: Iterable[Offered], seen: OnShelf) -> PlacementUnreachable | None:
        """Offer something as one call, if nobody has written to it since it was seen.

        :returns: why that is not certain to have been done, if it is not.
        :raises PlacementRefused: it may not be done.
        """
        generations = dict(seen.generations)
        body = {
            'inventories': {
                o.uuid: {
                    'resource_provider_generation': generations[o.uuid],
                    'inventories': {s.resource_class: wire.encode_stock(s) for s in o.stocks},
                }
                for o in offered
            },
            'allocations': {},
        }
        try:
            answer = self._client.request('POST', RESHAPER, body=body)
        except PlacementUnreachable as exc:
            return exc
        if answer.ok:
            return None
        error = refusal('POST', RESHAPER, answer)
        if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR and answer.status != HTTPStatus.CONFLICT:
            raise error
        return PlacementUnreachable(error.message)

    def _claims(self, uuids: Iterable[str]) -> Iterator[str]:
        for uuid in uuids:
            for consumer, claims in roots.claims(self._client, uuid).items():
                what = ' and '.join(c.resource_class for c in claims)
                yield f'{what} of provider {uuid} by consumer {consumer}'


def _left_of(stocks: Iterable[Stock]) -> bool:
    """Not all of it is reserved."""
    return any(s.total > s.reserved for s in stocks)

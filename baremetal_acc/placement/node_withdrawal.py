# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Withdraw a whole node from placement, all or nothing, and restore exactly the inventory that it had.

One call to placement's reshaper removes the inventory of all our providers below a node. Placement refuses the whole call if
any of that inventory is claimed, or has changed since it was read. If a claim is made at the same time, either the claim or the
withdrawal succeeds, never both. Pools withdraw a node before they reprogram a region; a job of Ironic withdraws through
:mod:`baremetal_acc.placement.publish`.
"""

import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

from baremetal_acc.errors import InventoryInUse, PlacementUnreachable
from baremetal_acc.model.provider import Provider, ProviderInventory
from baremetal_acc.model.reshape import Stock
from baremetal_acc.placement import operator_reservations, provider_reader, schemas
from baremetal_acc.placement.answers import PlacementChanged
from baremetal_acc.placement.client import INVENTORY_IN_USE, RESHAPER, PlacementClient, refusal
from baremetal_acc.scheduling.provider_names import OWNER

_TOLD = 3

ATTEMPTS = 12
"""How often everything is read and sent again when others write to the same providers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """The inventories of one provider.

    :ivar stocks: all inventories, as placement has them.
    """

    uuid: str
    name: str
    stocks: tuple[Stock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawnNode:
    """The state of one machine in placement.

    :ivar root: the node's root provider exists.
    :ivar ours: our providers below it.
    :ivar claims: the claims on the machine, including those on its root and on providers that are not ours; a sentence each.
    """

    root: bool
    ours: tuple[Offered, ...] = ()
    claims: tuple[str, ...] = ()
    generations: tuple[tuple[str, int], ...] = ()

    def offers(self, uuid: str) -> frozenset[str]:
        """Return the resource classes that a provider offers."""
        return frozenset(s.resource_class for o in self.ours if o.uuid == uuid for s in o.stocks)

    @property
    def offered(self) -> tuple[Offered, ...]:
        """Those of our providers that offer anything."""
        return tuple(o for o in self.ours if o.stocks)


class NodeWithdrawal:
    """Withdraws nodes from placement, and restores their inventories. Threads may share it.

    :param sleep: pauses after somebody else's write; ``jitter`` returns a random number from 0 to 1.
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
        """Return why a machine cannot be withdrawn, for people: its claims, or a missing root provider; None where it can.

        :raises PlacementError: placement cannot be read.
        """
        lower = provider_reader.below(self._client, root_uuid)
        if lower is None:
            return 'placement has no root provider for the node'
        found = list(itertools.islice(self._claims((root_uuid, *lower)), _TOLD))
        return f'claimed: {"; ".join(found)}' if found else None

    def on_offer(self, root_uuid: str, provider_uuid: str) -> bool:
        """Tell whether a provider offers anything, and the machine above it can be claimed together with it.

        Nova reserves the root of a machine as soon as it sees that Ironic does not have the node available, and frees the root
        in its next update cycle (nova 34.0.0, virt/ironic/driver.py, update_provider_tree). A root without inventory does not
        matter: there is no Nova.

        :raises PlacementError: placement cannot be read.
        """
        own, above = self._stocks(provider_uuid), self._stocks(root_uuid)
        return bool(own and _left_of(own) and above is not None and (not above or _left_of(above)))

    def _stocks(self, provider_uuid: str) -> tuple[Stock, ...] | None:
        """Return the inventories of a provider; None where it does not exist."""
        answer = self._client.get(f'/resource_providers/{provider_uuid}/inventories')
        return None if answer.status == HTTPStatus.NOT_FOUND else schemas.stocks(answer)

    def look(self, root_uuid: str) -> WithdrawnNode:
        """Read the inventories of a machine, and the claims on it.

        Claims are read last: a claim that is made after that changes a generation, so that a later write is refused.

        :raises PlacementError: placement cannot be read.
        """
        lower = provider_reader.below(self._client, root_uuid)
        if lower is None:
            return WithdrawnNode(root=False)
        marked = provider_reader.having(self._client, root_uuid, OWNER)
        found, generations = [], []
        for provider in sorted((p for p in lower.values() if p.uuid in marked), key=lambda p: p.uuid):
            answer = self._client.get(f'/resource_providers/{provider.uuid}/inventories')
            if answer.status == HTTPStatus.NOT_FOUND:
                continue
            found.append(Offered(uuid=provider.uuid, name=provider.name, stocks=schemas.stocks(answer)))
            generations.append((provider.uuid, schemas.generation(answer)))
        return WithdrawnNode(
            root=True, ours=tuple(found), claims=tuple(self._claims((root_uuid, *lower))), generations=tuple(generations)
        )

    def withdraw(self, root_uuid: str, seen: WithdrawnNode) -> None:
        """Withdraw all our inventory of a node from placement, or nothing of it.

        :param seen: the inventories to withdraw, as they were read: a change of any of them since refuses the withdrawal.
        :raises InventoryInUse: something is claimed, or was changed meanwhile; nothing was withdrawn.
        :raises PlacementRefused: the withdrawal is not allowed, or usage without a consumer prevents it; nothing was changed.
        :raises PlacementUnreachable: no answer, or the inventory is withdrawn already: the caller has to read whether it was
            this request.
        """
        if not seen.offered:
            return
        generations = dict(seen.generations)
        for one in seen.offered:
            if any(s.reserved for s in one.stocks):
                generations[one.uuid] = self._note_reserved(root_uuid, one, generations[one.uuid])
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
            nobodys = provider_reader.nobodys(self._client, (o.uuid for o in seen.offered))
            if nobodys is not None:
                raise nobodys.error()
            raise InventoryInUse(f'placement, node {root_uuid}: part of its inventory was just claimed')
        if answer.status == HTTPStatus.CONFLICT:
            there = {o.uuid for o in self.look(root_uuid).offered}
            if there.issuperset(o.uuid for o in seen.offered):
                raise InventoryInUse(f'placement, node {root_uuid}: its inventory was just claimed or changed')
            # By somebody else, or by this very request: the adapter may have sent it twice, since an answer was lost.
            raise PlacementUnreachable(f'placement, node {root_uuid}: its inventory was just withdrawn')
        raise refusal('POST', RESHAPER, answer)

    def _note_reserved(self, root_uuid: str, offered: Offered, generation: int) -> int:
        """Note what an operator has reserved of a provider, which is withdrawn next: somebody else may publish it again.

        :returns: the generation of the provider afterwards.
        :raises InventoryInUse: the provider was changed meanwhile; nothing was withdrawn.
        """
        stocks = tuple(
            ProviderInventory(resource_class=s.resource_class, total=s.total, reserved=s.reserved) for s in offered.stocks
        )
        seen = Provider(uuid=offered.uuid, name=offered.name, parent_uuid='', inventories=stocks)
        try:
            return operator_reservations.note_reserved(self._client, seen, generation)
        except PlacementChanged as exc:
            raise exc.error or InventoryInUse(
                f'placement, node {root_uuid}: its inventory was just claimed or changed'
            ) from exc

    def put_back(
        self, root_uuid: str, offered: Iterable[Offered], *, still: Callable[[], None] = lambda: None
    ) -> tuple[str, ...]:
        """Restore withdrawn inventories exactly as they were, unless somebody has published the machine since.

        Such a publication is more recent: an inventory that it left out is not restored. A withdrawal whose answer was lost may
        still arrive after the inventories were restored. Placement refuses it when anything of the machine has been written
        since, so a write that changes nothing is sent where nothing else was written.

        :param still: raises when the machine must not be offered any more. It is called right before each write: placement
            would accept a write for a machine that somebody got meanwhile, since that changes nothing of our providers below
            it.
        :returns: names of the providers whose inventories are as they were.
        :raises PlacementError: the inventories could not be restored.
        """
        wanted = {o.uuid: o for o in offered if o.stocks}
        last: PlacementUnreachable | None = None
        settled = False  # whether no earlier withdrawal can be accepted any more
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
                trouble = self._offer(there[:1], now)  # unchanged
                settled, last = trouble is None, trouble or last
            else:
                return tuple(wanted[o.uuid].name for o in there if o.stocks == wanted[o.uuid].stocks)
            self._sleep(min(2.0, 0.02 * 2**attempt) * self._jitter() if last is not None else 0)
        raise PlacementUnreachable(
            f'placement, node {root_uuid}: the withdrawn inventory could not be restored: '
            f'{"its providers kept changing" if last is None else last.message}; stopped after {self._attempts} attempts'
        ) from last

    def _offer(self, offered: Iterable[Offered], seen: WithdrawnNode) -> PlacementUnreachable | None:
        """Write inventories in one call, if nobody has written to these providers since they were read.

        :returns: why it is uncertain whether that was done; None where it was done.
        :raises PlacementRefused: the write is not allowed.
        """
        generations = dict(seen.generations)
        body = {
            'inventories': {
                o.uuid: {
                    'resource_provider_generation': generations[o.uuid],
                    'inventories': {s.resource_class: schemas.encode_stock(s) for s in o.stocks},
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
            for consumer, claims in provider_reader.claims(self._client, uuid).items():
                what = ' and '.join(c.resource_class for c in claims)
                yield f'{what} of provider {uuid} by consumer {consumer}'


def _left_of(stocks: Iterable[Stock]) -> bool:
    """Tell whether not everything is reserved."""
    return any(s.total > s.reserved for s in stocks)

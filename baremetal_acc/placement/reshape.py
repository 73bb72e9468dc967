# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Move flat inventory and its allocations from a node's root provider to one provider for each device, with the reshaper.

The providers are made first, empty: nobody can claim anything of them. Then one call to the reshaper moves inventory and
allocations, all of it or nothing. The call carries the generation of every provider that it changes and of every consumer that
it moves, so that placement refuses it when one of them was written meanwhile; then everything is read and decided again.
Success, and the fate of a call whose answer was lost, is what a later read shows.

Where others claim so often that no call fits in between, the inventory that is to move is closed first: a ``min_unit`` that is
larger than any claim keeps new claims away, and takes nothing from anybody. Whatever the result of the reshape, the inventory
is opened again; if the process dies, the same command opens it, and so does Nova, which writes the root as its provider.yaml
says.

Placement (16.0.0) does not notice one change: a consumer that is deleted and made again has the generation that it had before.
A claim on the root would raise the generation of the root. A claim on another node, made in the milliseconds between our read
and our call, would be replaced by the claim that we read; an instance makes such a claim only when its build is tried again
there.
"""

import functools
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from baremetal_acc.errors import AccError, PlacementError, PlacementUnreachable
from baremetal_acc.model.provider import Call, Provider, ProviderTree
from baremetal_acc.model.reshape import Consumer, InventoryMove, MovedClaim, Placed, Reshape, Stock, Stocked
from baremetal_acc.placement import provider_reader, schemas
from baremetal_acc.placement.client import INVENTORY_IN_USE, RESHAPER, PlacementAnswer, PlacementClient, refusal
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.scheduling import reshape
from baremetal_acc.scheduling.provider_names import OWNER

LOG = logging.getLogger(__name__)

ATTEMPTS = 60
"""How often everything is read again. A read and a call have to fit between two claims of other consumers."""

CALM = 3
"""Attempts that others may disturb before the inventory that moves is closed to new claims."""

READS = 10
"""How often a provider is read until its inventory and its allocations are of one generation."""

CLOSED = 2**31 - 1
"""A ``min_unit`` that no claim reaches. Source: placement 16.0.0, db/constants.py, MAX_INT."""

PAUSE_SECONDS = 0.25
"""The longest pause. A longer one finds no better moment when others claim all the time."""

_GO_ON = 'run the same command again: it reads placement again and continues'


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A requested reshape.

    :ivar wanted: the tree that the devices offer by the present inventory; None for the way back to flat inventory.
    :ivar moves: the classes to move; empty for all that publications use.
    :ivar own: the resource class of the node itself, if it is known.
    """

    root_uuid: str
    wanted: ProviderTree | None = None
    moves: tuple[InventoryMove, ...] = ()
    own: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshaping:
    """A planned or executed reshape.

    :ivar calls: the calls that create the devices' providers, empty.
    :ivar reshape: the changes of the one call to the reshaper.
    """

    calls: tuple[Call, ...]
    reshape: Reshape


_Held = dict[str, dict[str, tuple[MovedClaim, ...]]]
"""Claims, by provider and consumer."""


class _Again(Exception):
    """Somebody else wrote, or an answer was lost: read, decide and send again."""

    def __init__(self, error: PlacementError | None = None, *, once: bool = False) -> None:
        self.error = error
        self.once = once
        super().__init__()


@dataclass(slots=True)
class _Turns:
    """State that is kept from one attempt to the next.

    :ivar stocks: inventories of the devices' providers with their generation: they change together.
    :ivar sent: the last call, whether it was answered or not.
    :ivar lost: the answer to a call was lost.
    :ivar placed: the result of the last read.
    :ivar disturbed: attempts that were disturbed.
    :ivar closed: the inventories that were closed, as they were before, by provider and class.
    """

    stocks: dict[str, tuple[int, tuple[Stock, ...]]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    sent: Reshape | None = None
    lost: bool = False
    placed: Placed | None = None
    disturbed: int = 0
    closed: dict[str, dict[str, Stock]] = field(default_factory=dict)


class ReshapeRefused(PlacementError):
    """A reshape is not safe to execute. Nothing was moved.

    :ivar reshape: the reshape with its refusals.
    """

    def __init__(self, made: Reshape) -> None:
        self.reshape = made
        super().__init__('placement: reshape refused')


def _raise_if_unsafe(made: Reshape) -> None:
    if made.refusals:
        raise ReshapeRefused(made)


class Reshaper:
    """Moves the inventory of any number of nodes.

    :param publisher: creates the providers.
    :param sleep: pauses after somebody else's write; ``jitter`` returns a random number from 0 to 1.
    """

    def __init__(
        self,
        client: PlacementClient,
        publisher: Publisher,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._client = client
        self._publisher = publisher
        self._sleep = sleep
        self._jitter = jitter
        self._attempts = attempts

    def plan(self, wish: Wish) -> Reshaping:
        """Return what :meth:`apply` would do, with its refusals. Writes nothing.

        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be read.
        """
        turns = _Turns()
        made = self._persist(turns, lambda: self._decide(wish, turns))
        needed = made.moves and wish.wanted is not None
        calls = self._publisher.plan_prepared(wish.wanted) if needed and wish.wanted is not None else ()
        return Reshaping(calls=calls, reshape=made)

    def apply(self, wish: Wish) -> Reshaping:
        """Execute a reshape, all of it or nothing.

        :returns: what was moved; no moves when there was nothing to move.
        :raises ReshapeRefused: the reshape is not safe; nothing was written.
        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be read, refuses, or others kept writing.
        """
        turns = _Turns()
        try:
            first = self._persist(turns, lambda: self._decide(wish, turns))
            _raise_if_unsafe(first)
            if first.moves:
                self._prepare(wish, first, turns)
            made = self._persist(turns, lambda: self._turn(wish, turns))
        except BaseException as exc:
            try:
                self._open(turns)
            except PlacementError:
                what = exc.message if isinstance(exc, AccError) else type(exc).__name__
                what = f'{what}; it is unknown whether its inventory can be claimed again'
                raise PlacementUnreachable(what, hint=_GO_ON) from exc
            raise
        self._open(turns)
        return Reshaping(calls=tuple(turns.calls), reshape=made)

    # ------------------------------------------------------------------------------------------------------------- turns

    def _persist(self, turns: _Turns, turn: Callable[[], Reshape | None]) -> Reshape:
        """Take turns until one returns a result. A turn that somebody else disturbed starts over after a random pause."""
        last: PlacementError | None = None
        refused = False
        for attempt in range(self._attempts):
            try:
                found = turn()
            except _Again as again:
                last = again.error
                if again.once:
                    if refused and last is not None:
                        raise last from None
                    refused = True
            except PlacementUnreachable as exc:
                if not turns.lost:
                    raise
                last = exc
            else:
                if found is not None:
                    return found
                continue
            turns.disturbed += 1
            self._pause(attempt)
        why = 'placement: the inventory to be moved kept changing' if last is None else last.message
        raise PlacementUnreachable(f'{why}; stopped after {self._attempts} attempts', hint=_GO_ON) from last

    def _pause(self, attempt: int) -> None:
        self._sleep(min(PAUSE_SECONDS, 0.02 * 2**attempt) * self._jitter())

    def _turn(self, wish: Wish, turns: _Turns) -> Reshape | None:
        """Read, decide and send. Returns what was sent, once there is nothing left to move."""
        if turns.disturbed >= CALM:
            self._close(wish, turns)
        made = self._decide(wish, turns)
        _raise_if_unsafe(made)
        if not made.moves:
            return made if turns.sent is None else turns.sent
        if any(p.generation is None for p in made.providers):
            self._prepare(wish, made, turns)
            return None
        self._send(wish, made, turns)
        return None

    def _decide(self, wish: Wish, turns: _Turns) -> Reshape:
        turns.placed = placed = self._look(wish, turns)
        if wish.wanted is None:
            return reshape.back(placed, wish.moves, own=wish.own)
        return reshape.forth(placed, wish.wanted, wish.moves, own=wish.own)

    def _prepare(self, wish: Wish, made: Reshape, turns: _Turns) -> None:
        self._publisher.declare(classes={m.target_class for m in made.moves})
        if wish.wanted is not None:
            turns.calls += self._publisher.prepare(wish.wanted).calls

    def _send(self, wish: Wish, made: Reshape, turns: _Turns) -> None:
        body = {
            'inventories': {
                p.uuid: {
                    'resource_provider_generation': p.generation,
                    'inventories': {s.resource_class: schemas.encode_stock(s) for s in p.stocks},
                }
                for p in made.providers
            },
            'allocations': {c.uuid: schemas.encode_consumer(c) for c in made.consumers},
        }
        before, turns.sent = turns.sent, made
        try:
            answer = self._client.request('POST', RESHAPER, body=body)
        except PlacementUnreachable as exc:
            turns.lost = True
            raise _Again(exc) from exc
        if answer.ok:
            LOG.info('node %s: moved %s', wish.root_uuid, ', '.join(f'{m.source_class} {m.before}' for m in made.moves))
            return
        if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            turns.sent = before
        else:
            turns.lost = True  # a proxy may have lost the answer
        error = refusal('POST', RESHAPER, answer)
        if answer.code == INVENTORY_IN_USE and (
            nobodys := provider_reader.nobodys(self._client, (p.uuid for p in made.providers))
        ):
            raise _Again(nobodys.error(), once=True)
        if answer.status == HTTPStatus.BAD_REQUEST:
            raise _Again(error, once=True)  # a provider was deleted meanwhile
        if answer.status == HTTPStatus.CONFLICT or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _Again(error)
        raise error

    # ------------------------------------------------------------------------------------------------------------- closing

    def _close(self, wish: Wish, turns: _Turns) -> None:
        """Close the inventories that the moves take from or add to, so that nobody can make new claims on them."""
        placed = turns.placed
        if placed is None:
            return
        by_provider: dict[str, set[str]] = {}
        for uuid, name in reshape.touched(placed, wish.wanted, reshape.chosen(placed, wish.wanted, wish.moves)):
            by_provider.setdefault(uuid, set()).add(name)
        for provider in _providers(placed):
            names = frozenset(by_provider.get(provider.uuid, ()))
            if names:
                before = {s.resource_class: s for s in provider.stocks if s.resource_class in names}
                turns.closed[provider.uuid] = before | turns.closed.get(provider.uuid, {})
                self._rewrite(provider.uuid, functools.partial(_closed, names))

    def _open(self, turns: _Turns) -> None:
        """Open again the inventories that are still closed: by us now, or by a process that died."""
        found = {p.uuid for p in _providers(turns.placed) if any(s.min_unit == CLOSED for s in p.stocks)}
        for uuid in sorted(found | set(turns.closed)):
            self._rewrite(uuid, functools.partial(_opened, turns.closed.get(uuid, {})))

    def _rewrite(self, uuid: str, change: Callable[[Stock], Stock]) -> None:
        """Change the inventories of a provider, if the change has an effect."""
        path = f'/resource_providers/{uuid}/inventories'
        for attempt in range(self._attempts):
            answer = self._client.get(path)
            if answer.status == HTTPStatus.NOT_FOUND:
                return
            now = schemas.stocks(answer)
            stocks = tuple(change(s) for s in now)
            if stocks == now:
                return
            body = {
                'resource_provider_generation': schemas.generation(answer),
                'inventories': {s.resource_class: schemas.encode_stock(s) for s in stocks},
            }
            answer = self._client.request('PUT', path, body=body)
            if answer.ok:
                return
            if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR and answer.status != HTTPStatus.CONFLICT:
                raise refusal('PUT', path, answer)
            self._pause(attempt)
        raise PlacementUnreachable(
            f'placement: provider {uuid} kept changing; stopped after {self._attempts} attempts', hint=_GO_ON
        )

    # -------------------------------------------------------------------------------------------------------------- read

    def _look(self, wish: Wish, turns: _Turns) -> Placed:
        """Read everything that a plan needs. Placement itself sees by the generations whether a provider changed since.

        The providers that others write most are read last: the root on the way there, the devices' providers on the way back.
        """
        below = provider_reader.below(self._client, wish.root_uuid)
        if below is None:
            raise provider_reader.missing(self._client, wish.root_uuid)
        held: _Held = {}
        if wish.wanted is None:
            root = self._stocked(Provider(uuid=wish.root_uuid, name=wish.root_uuid, parent_uuid=''), turns, held)
            children = tuple(self._stocked(p, turns, held) for p in self._ours(wish, below))
        else:
            ours = (replace(below[p.uuid], traits=p.traits) for p in wish.wanted.providers if p.uuid in below)
            children = (*(self._stocked(p, turns, held) for p in ours), *self._others(wish.wanted, below, turns, held))
            root = self._stocked(Provider(uuid=wish.root_uuid, name=wish.root_uuid, parent_uuid=''), turns, held)
        return self._with_consumers(wish, Placed(root=root, children=children), held)

    def _ours(self, wish: Wish, below: Mapping[str, Provider]) -> tuple[Provider, ...]:
        """Return our providers below the root, with those of their traits that the moves name."""
        named = sorted({m.trait for m in wish.moves if m.trait is not None})
        having = {trait: provider_reader.having(self._client, wish.root_uuid, trait) for trait in named}
        owned = provider_reader.having(self._client, wish.root_uuid, OWNER)
        traits = {uuid: frozenset(t for t in named if uuid in having[t]) for uuid in below}
        return tuple(replace(p, traits=traits[uuid]) for uuid, p in below.items() if uuid in owned)

    def _others(self, wanted: ProviderTree, below: Mapping[str, Provider], turns: _Turns, held: _Held) -> Iterator[Stocked]:
        """Yield our unwanted providers that have inventory: it may be of a device that is wanted under another class."""
        unwanted = [p for u, p in below.items() if wanted.provider(u) is None]
        owned = provider_reader.having(self._client, wanted.root_uuid, OWNER) if unwanted else frozenset()
        for provider in unwanted:
            if provider.uuid in owned and (found := self._stocked(provider, turns, held)).stocks:
                yield replace(found, traits=schemas.traits(self._existing(f'/resource_providers/{found.uuid}/traits')))

    def _stocked(self, seen: Provider, turns: _Turns, held: _Held) -> Stocked:
        """Return a provider with its inventories, after reading its allocations at the same generation."""
        path = f'/resource_providers/{seen.uuid}'
        for _ in range(READS):
            generation, stocks = turns.stocks.get(seen.uuid, (None, ()))
            if generation is None or generation != seen.generation:
                inventories = self._existing(f'{path}/inventories')
                generation, stocks = schemas.generation(inventories), schemas.stocks(inventories)
                turns.stocks[seen.uuid] = (generation, stocks)
            found = Stocked(
                uuid=seen.uuid,
                name=seen.name,
                parent_uuid=seen.parent_uuid,
                stocks=stocks,
                traits=seen.traits,
                generation=generation,
            )
            if not stocks:
                held[seen.uuid] = {}  # nobody can claim anything of this provider
                return found
            allocations = self._existing(f'{path}/allocations')
            if schemas.generation(allocations) == generation:
                held[seen.uuid] = schemas.claims(seen.uuid, allocations)
                return found
            turns.stocks.pop(seen.uuid)
        raise _Again

    def _with_consumers(self, wish: Wish, placed: Placed, held: _Held) -> Placed:
        """Add the consumers of the inventory that leaves, with all of their claims, and drop consumers that have gone."""
        leaving = reshape.leaving(placed, reshape.chosen(placed, wish.wanted, wish.moves), back=wish.wanted is None)
        found: list[Consumer] = []
        for uuid in sorted({c for claims in held.values() for c, own in claims.items() if _any(own, leaving)}):
            whole = schemas.consumer(uuid, self._client.get(f'/allocations/{uuid}'))
            if whole is None:
                for claims in held.values():
                    claims.pop(uuid, None)
                continue
            for provider, claims in held.items():
                if claims.get(uuid, ()) != tuple(c for c in whole.claims if c.provider == provider):
                    raise _Again
            found.append(whole)
        return replace(
            placed,
            root=_counted(placed.root, held),
            children=tuple(_counted(c, held) for c in placed.children),
            consumers=tuple(found),
            holders=_holders(held),
        )

    def _existing(self, path: str) -> PlacementAnswer:
        answer = self._client.get(path)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise _Again
        return answer


def _providers(placed: Placed | None) -> tuple[Stocked, ...]:
    return () if placed is None else (placed.root, *placed.children)


def _closed(classes: frozenset[str], stock: Stock) -> Stock:
    return replace(stock, min_unit=CLOSED) if stock.resource_class in classes else stock


def _opened(before: Mapping[str, Stock], stock: Stock) -> Stock:
    """Return an inventory as it was before it was closed; with the usual ``min_unit`` of 1 where another process closed it."""
    if stock.min_unit != CLOSED:
        return stock
    known = before.get(stock.resource_class)
    return replace(stock, min_unit=1 if known is None or known.min_unit == CLOSED else known.min_unit)


def _any(claims: Iterable[MovedClaim], places: frozenset[tuple[str, str]]) -> bool:
    return any((c.provider, c.resource_class) in places for c in claims)


def _holders(held: _Held) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the consumers of each provider and class."""
    found: dict[tuple[str, str], set[str]] = {}
    for provider, claims in held.items():
        for consumer, own in claims.items():
            for claim in own:
                found.setdefault((provider, claim.resource_class), set()).add(consumer)
    return {place: tuple(sorted(consumers)) for place, consumers in found.items()}


def _counted(provider: Stocked, held: _Held) -> Stocked:
    """Return the provider with its usages, which are the sums of all claims on it."""
    used: dict[str, int] = {}
    for claims in held[provider.uuid].values():
        for claim in claims:
            used[claim.resource_class] = used.get(claim.resource_class, 0) + claim.amount
    return replace(provider, used=used)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Publish and withdraw a node's accelerators in placement, next to other writers and without taking anything from a consumer.

The publisher reads the node's providers, compares, sends, and repeats that until there is nothing left to send: success is what
was read back. Every write carries the generation that was read, so that placement refuses it after a change by somebody else;
then everything is read and compared again. Inventory that a consumer holds is never deleted: placement refuses that itself,
atomically with allocations. Such inventory is reserved instead, so that nobody can claim it once the consumer has gone.

A request whose answer never came may still be taken later, after we have read that nothing was changed. Placement takes no
write with an old generation, so a write that changes nothing but the generation keeps the late request out for good. Of our own
requests we know which those are; the requests of a conductor that has died are unknown. Therefore a withdrawal writes once even
to a provider that offers nothing already.

A publisher that was stopped for long may write for a node that belongs to another conductor by now, and placement would take
that write: it does not distinguish writers. So the caller is asked right before each write whether the node is still its own
(``still``).
"""

import itertools
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar, assert_never

from baremetal_acc.errors import (
    ClaimedAlone,
    InventoryInUse,
    PlacementError,
    PlacementRefused,
    PlacementUnreachable,
    RootMissing,
)
from baremetal_acc.model.provider import (
    Call,
    CreateProvider,
    DeleteProvider,
    MoveProvider,
    Provider,
    ProviderTree,
    SetInventories,
    SetTraits,
)
from baremetal_acc.placement import provider_reader, schemas
from baremetal_acc.placement.client import (
    CANNOT_DELETE_PARENT,
    DUPLICATE_NAME,
    INVENTORY_IN_USE,
    RESHAPER,
    PlacementAnswer,
    PlacementClient,
    refusal,
)
from baremetal_acc.scheduling import provider_diff, providers
from baremetal_acc.scheduling.provider_names import OWNER
from baremetal_acc.scheduling.providers import overlapping

LOG = logging.getLogger(__name__)

NAMES_AT_ONCE = 4000
"""Most characters of trait names in one GET: web servers accept request lines of 8190 (Apache's LimitRequestLine)."""

ATTEMPTS = 12
"""How often everything is read and compared again. Sixteen publishers at once needed at most four on PostgreSQL and MariaDB."""

LOST = 3
"""How many answers of placement may be lost before a call fails: one restart of one of its servers behind a load balancer."""

LOST_SECONDS = 10.0
"""A call that has taken longer fails at the next lost answer: after a timeout the caller has waited long enough."""

MOST_NAMED = 4
"""Most consumers that a hint names."""

REMEMBER_SECONDS = 300.0
"""How long an unchanged generation counts as unchanged content.

A provider that was deleted and made again starts with low generations again, and could reach the remembered one. Nova refreshes
its cache as often ([compute] resource_provider_association_refresh).
"""

T = TypeVar('T')


def _always() -> None:
    """The default of ``still``: nobody else can have taken the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """The result of a publication.

    :ivar calls: the calls that placement accepted, in order; none when placement agreed already.
    """

    calls: tuple[Call, ...]

    @property
    def changed(self) -> bool:
        """Whether placement was changed."""
        return bool(self.calls)


class PlacementChanged(Exception):
    """Somebody else wrote, or placement failed on concurrent writers: read, compare and send again.

    :ivar once: try again only once: a second refusal of that kind is final.
    """

    def __init__(self, error: PlacementError | None = None, *, once: bool = False) -> None:
        self.error = error
        self.once = once
        super().__init__()


class InventoryHeld(Exception):
    """Placement refused a call that removes inventory which a consumer holds."""


class ProviderNeeded(Exception):
    """A provider cannot be deleted yet, because a provider below it is held."""


def accepted(answer: PlacementAnswer, method: str, path: str) -> PlacementAnswer:
    """Return an answer that accepts a call.

    :raises InventoryHeld: a consumer holds inventory that the call removes.
    :raises PlacementChanged: placement has changed since it was read.
    :raises PlacementError: placement refuses the call.
    """
    if answer.code == INVENTORY_IN_USE:
        raise InventoryHeld
    if not answer.ok:
        raise changed_or_refused(method, path, answer)
    return answer


def changed_or_refused(method: str, path: str, answer: PlacementAnswer) -> Exception:
    """Return :class:`PlacementChanged` or a refusal.

    409 and 5xx mean that somebody else wrote, 404 that somebody deleted; 400 may mean that a name was deleted.
    """
    error = refusal(method, path, answer)
    passing = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
    if answer.code == CANNOT_DELETE_PARENT:
        # Or a provider of ours that another publisher has just created there.
        why = f'{error.message}: providers that are not ours lie below it'
        return PlacementChanged(PlacementRefused(why, hint='delete those first'), once=True)
    if answer.status in passing or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return PlacementChanged(error, once=answer.status == HTTPStatus.BAD_REQUEST)
    return error


class PlacementRetries:
    """Repeats turns that somebody else's writes or a lost answer have disturbed.

    :param timeout: seconds after which the client gives up a request.
    :param sleep: pauses after somebody else's write; ``jitter`` returns a random number from 0 to 1, ``clock`` monotonic
        seconds.
    """

    def __init__(
        self,
        timeout: Callable[[], float],
        *,
        sleep: Callable[[float], None],
        jitter: Callable[[], float],
        clock: Callable[[], float],
        attempts: int,
    ) -> None:
        self._timeout = timeout
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock
        self._attempts = attempts

    def take(self, turn: Callable[[], T | None], *, on_refused: Callable[[], None]) -> T:
        """Take turns until one returns a result. A turn that somebody else disturbs starts over after a random pause.

        So does a turn that lost an answer: the next read shows what became of the request.

        :param on_refused: called before the one further attempt after a refusal that may pass.
        """
        last: PlacementError | None = None
        refused = False
        lost, began = 0, self._clock()
        for attempt in range(self._attempts):
            try:
                result = turn()
            except PlacementUnreachable as exc:
                lost += 1
                if lost > LOST or self._clock() - began >= min(LOST_SECONDS, self._timeout()):
                    raise
                last = exc
                self._pause(attempt)
                continue
            except PlacementChanged as again:
                last = again.error
                if again.once:
                    if refused and last is not None:
                        raise last from None
                    refused = True
                    on_refused()
                self._pause(attempt)
                continue
            if result is not None:
                return result
        why = 'its providers kept changing' if last is None else last.message
        raise PlacementUnreachable(f'{why}; gave up after {self._attempts} attempts') from last

    def _pause(self, attempt: int) -> None:
        self._sleep(min(2.0, 0.02 * 2**attempt) * self._jitter())


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedProviders:
    """The cached providers below one root.

    :ivar at: when they were first read, by the publisher's clock.
    :ivar foreign: UUIDs of providers that are not ours.
    """

    at: float
    ours: Mapping[str, Provider]
    foreign: frozenset[str]


class ProviderCache:
    """Reads our providers below roots, and keeps what it read: an unchanged provider is not read again.

    :param clock: returns monotonic seconds.
    """

    def __init__(self, client: PlacementClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._memories: dict[str, _CachedProviders] = {}
        self._roots: dict[str, int | None] = {}
        self._flat: dict[str, tuple[int | None, frozenset[str]]] = {}

    def cached(self, root: str) -> ProviderTree | None:
        """Return our cached providers below a root; None where the cache is too old."""
        memory = self._memories.get(root)
        if memory is None or self._clock() - memory.at >= REMEMBER_SECONDS:
            return None
        return ProviderTree(root_uuid=root, providers=tuple(memory.ours.values()))

    def read(self, root: str, known: frozenset[str]) -> ProviderTree:
        """Read our providers below a root, and those of the given UUIDs, which may not have the owner trait yet.

        :raises RootMissing: there is no such root.
        :raises PlacementChanged: placement was written while it was read.
        :raises PlacementError: placement cannot be read.
        """
        answer = self._client.get('/resource_providers', in_tree=root)
        summaries = tuple(schemas.summaries(answer))
        self._roots[root] = next((p.generation for p in summaries if p.uuid == root), None)
        below = schemas.below(root, summaries)
        if below is None:
            self._memories.pop(root, None)
            raise provider_reader.missing(root)
        memory = self._memories.get(root)
        if memory is None or self._clock() - memory.at >= REMEMBER_SECONDS:
            memory = _CachedProviders(at=self._clock(), ours={}, foreign=frozenset())
        ours = {uuid for uuid in below if uuid in memory.ours or uuid in known}
        if not set(below) <= ours | memory.foreign:
            ours |= provider_reader.having(self._client, root, OWNER) & set(below)
        found: dict[str, Provider] = {}
        for uuid in ours:
            remembered = memory.ours.get(uuid)
            seen = below[uuid]
            if remembered is None or remembered.generation != seen.generation:
                seen = self._contents(seen)
            else:
                seen = replace(seen, inventories=remembered.inventories, traits=remembered.traits)
            if OWNER in seen.traits or uuid in known:
                found[uuid] = seen
        self._memories[root] = _CachedProviders(at=memory.at, ours=found, foreign=frozenset(below) - frozenset(found))
        return ProviderTree(root_uuid=root, providers=tuple(found[uuid] for uuid in below if uuid in found))

    def _contents(self, provider: Provider) -> Provider:
        inventories = self._client.get(f'/resource_providers/{provider.uuid}/inventories')
        traits = self._client.get(f'/resource_providers/{provider.uuid}/traits')
        if HTTPStatus.NOT_FOUND in (inventories.status, traits.status):
            raise PlacementChanged
        seen = replace(provider, inventories=schemas.inventories(inventories), traits=schemas.traits(traits))
        if not schemas.generation(inventories) == schemas.generation(traits) == provider.generation:
            raise PlacementChanged
        return seen

    def root_classes(self, tree: ProviderTree) -> frozenset[str]:
        """Return the classes of a tree that its root offers itself, as of the last read: they would be offered twice.

        :raises PlacementError: placement cannot be read.
        """
        wanted = frozenset(i.resource_class for p in tree.providers for i in p.inventories)
        known = self._flat.get(tree.root_uuid)
        if known is None or known[0] is None or known[0] != self._roots.get(tree.root_uuid):
            answer = self._client.get(f'/resource_providers/{tree.root_uuid}/inventories')
            if answer.status == HTTPStatus.NOT_FOUND:
                return frozenset()
            known = (schemas.generation(answer), frozenset(i.resource_class for i in schemas.inventories(answer)))
            self._flat[tree.root_uuid] = known
        return wanted & known[1]

    def forget(self, root: str) -> None:
        """Forget the providers below a root: they are read again."""
        self._memories.pop(root, None)

    def keep(self, root: str, provider: Provider) -> None:
        """Keep a provider as our own write has left it."""
        memory = self._memories.get(root)
        if memory is not None:
            self._memories[root] = replace(memory, ours={**memory.ours, provider.uuid: provider})

    def keep_last(self, root: str, uuid: str, provider: Provider | None) -> None:
        """Keep a provider as our own write has left it, after all others; None where the write has deleted it."""
        memory = self._memories.get(root)
        if memory is not None:
            ours = {known: p for known, p in memory.ours.items() if known != uuid}
            ours |= {} if provider is None else {uuid: provider}
            self._memories[root] = replace(memory, ours=ours)


class CustomNames:
    """Creates custom resource classes and traits, and remembers which names placement knows."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client
        self._declared: set[str] = set()

    def forget(self, classes: Iterable[str] | None = None, traits: Iterable[str] | None = None) -> None:
        """Forget that placement knows these names; all names, where none are given."""
        if classes is None and traits is None:
            self._declared.clear()
            return
        named = (('resource_classes', classes or ()), ('traits', traits or ()))
        self._declared -= {f'/{kind}/{name}' for kind, of in named for name in of}

    def look_up(self, classes: Iterable[str]) -> None:
        """Ask placement for all of its classes at once, where more than one of these is not known yet."""
        if len([name for name in classes if f'/resource_classes/{name}' not in self._declared]) > 1:
            known = schemas.classes(self._client.get('/resource_classes'))
            self._declared.update(f'/resource_classes/{name}' for name in known)

    def declare_for(self, calls: Iterable[Call]) -> None:
        """Create what calls name: placement refuses a call with a name that it does not know."""
        calls = tuple(calls)
        classes = {i.resource_class for c in calls if isinstance(c, SetInventories) for i in c.inventories}
        self.declare(classes, {t for c in calls if isinstance(c, SetTraits) for t in c.traits})

    def declare(self, classes: Iterable[str], traits: Iterable[str]) -> Iterable[str]:
        """Create custom classes and traits, and check that the standard ones exist.

        :returns: the custom names that were created, as far as known.
        """
        made = []
        traits = sorted(traits)
        self._known_traits([t for t in traits if f'/traits/{t}' not in self._declared])
        for kind, names in (('resource_classes', classes), ('traits', traits)):
            for name in sorted(names):
                path = f'/{kind}/{name}'
                if path in self._declared:
                    continue
                if not name.startswith('CUSTOM_'):
                    if self._client.get(path).status == HTTPStatus.NOT_FOUND:
                        raise PlacementRefused(
                            f'placement does not know {name}',
                            hint=f'{kind} that are not of a standard begin with CUSTOM_; a newer placement may know it',
                        )
                else:
                    answer = self._client.request('PUT', path)
                    if not answer.ok:
                        raise changed_or_refused('PUT', path, answer)
                    made.append(name)
                self._declared.add(path)
        return made

    def _known_traits(self, names: Sequence[str]) -> None:
        """Ask in bulk which traits placement has: one GET for each would be most of a first publication."""
        asked: list[str] = []
        for name, following in itertools.pairwise([*names, '']):
            asked.append(name)
            if not following or sum(map(len, asked)) + len(following) > NAMES_AT_ONCE:
                answer = self._client.get('/traits', name=f'in:{",".join(asked)}')
                self._declared.update(f'/traits/{name}' for name in schemas.traits(answer))
                asked = []


class CallSender:
    """Sends calls to placement, and remembers which of its writes may still be accepted late."""

    def __init__(self, client: PlacementClient, cache: ProviderCache) -> None:
        self._client = client
        self._cache = cache
        self._unanswered: dict[str, int | None] = {}  # by provider, the generations of writes that may still be accepted
        self._settled: dict[str, int | None] = {}  # generations that our own writes made: earlier requests are refused
        self._may_reshape = True

    def send(self, root: str, call: Call, seen: dict[str, Provider], *, busy: bool) -> None:
        """Send one call with the generation that was read, and store the result that placement answers.

        :param seen: the providers as they were read; updated in place.
        :raises InventoryHeld: a consumer holds inventory that the call removes.
        :raises ProviderNeeded: it deletes a provider, and one below that is held.
        :raises PlacementChanged: placement has changed since it was read.
        """
        path = f'/resource_providers/{call.uuid}'
        body: dict[str, Any]
        match call:
            case CreateProvider():
                body = {'uuid': call.uuid, 'name': call.name, 'parent_provider_uuid': call.parent_uuid}
                answer = self._client.request('POST', '/resource_providers', body=body)
                if answer.code == DUPLICATE_NAME:
                    raise self._duplicate(root, call)
                seen[call.uuid] = schemas.provider(accepted(answer, 'POST', '/resource_providers').body)
            case MoveProvider():
                body = {'name': call.name, 'parent_provider_uuid': call.parent_uuid}
                accepted(self._client.request('PUT', path, body=body), 'PUT', path)
            case SetInventories():
                path += '/inventories'
                own = seen[call.uuid]
                sent = {i.resource_class: schemas.encode(i) for i in call.inventories}
                body = {'resource_provider_generation': own.generation, 'inventories': sent}
                answer = self._answered({call.uuid: own.generation}, 'PUT', path, body=body)
                accepted(answer, 'PUT', path)
                seen[call.uuid] = replace(own, inventories=schemas.inventories(answer), generation=schemas.generation(answer))
                self._settled[call.uuid] = seen[call.uuid].generation
            case SetTraits():
                path += '/traits'
                own = seen[call.uuid]
                body = {'resource_provider_generation': own.generation, 'traits': sorted(call.traits)}
                answer = accepted(self._client.request('PUT', path, body=body), 'PUT', path)
                seen[call.uuid] = replace(own, traits=schemas.traits(answer), generation=schemas.generation(answer))
            case DeleteProvider():
                answer = self._client.request('DELETE', path)
                if answer.code == CANNOT_DELETE_PARENT and busy:
                    raise ProviderNeeded
                if answer.status != HTTPStatus.NOT_FOUND:
                    accepted(answer, 'DELETE', path)
                del seen[call.uuid]
            case _:
                assert_never(call)
        self._cache.keep_last(root, call.uuid, seen.get(call.uuid))

    def send_offers(self, root: str, offers: Sequence[SetInventories], seen: dict[str, Provider]) -> bool:
        """Send several offers as one call. False where nothing was sent, since one call would save nothing, or is forbidden.

        Only offers that remove and reserve nothing may be sent so: POST /reshaper does not check ``reserved`` against what is
        there (placement 16.0.0).

        :raises PlacementChanged: placement has changed since it was read.
        """
        if len(offers) < 2 or not self._may_reshape:
            return False
        body = {
            'inventories': {
                offer.uuid: {
                    'resource_provider_generation': seen[offer.uuid].generation,
                    'inventories': {i.resource_class: schemas.encode(i) for i in offer.inventories},
                }
                for offer in offers
            },
            'allocations': {},
        }
        sent = {offer.uuid: seen[offer.uuid].generation for offer in offers}
        answer = self._answered(sent, 'POST', RESHAPER, body=body, may_be_forbidden=True)
        if answer.status == HTTPStatus.FORBIDDEN:
            LOG.info('placement: POST /reshaper needs the role service; each offer is sent by itself')
            self._may_reshape = False
            return False
        try:
            accepted(answer, 'POST', RESHAPER)
        except InventoryHeld:
            raise PlacementChanged from None  # the offers remove nothing, so a provider has changed since it was read
        for offer in offers:
            own = seen[offer.uuid]
            # Each generation rises by two, or by more where the provider has consumers: then it is read again.
            after = None if own.generation is None else own.generation + 2
            seen[offer.uuid] = replace(
                own, inventories=tuple(sorted(offer.inventories, key=lambda i: i.resource_class)), generation=after
            )
            self._cache.keep(root, seen[offer.uuid])
        return True

    def barriers(self, actual: ProviderTree, calls: Sequence[Call], closed: frozenset[str]) -> list[SetInventories]:
        """Return writes that change nothing, but keep out earlier requests that were never answered."""
        written = {call.uuid for call in calls}
        found = []
        for provider in actual.providers:
            known = provider.generation
            unanswered = self._unanswered.get(provider.uuid, -1) == known
            unsettled = provider.uuid in closed and not provider.inventories and self._settled.get(provider.uuid, -1) != known
            if provider.uuid not in written and (unanswered or unsettled):
                same = tuple(replace(i, altered=False) for i in provider.inventories)
                found.append(SetInventories(uuid=provider.uuid, name=provider.name, inventories=same))
        return found

    def _answered(self, generations: Mapping[str, int | None], method: str, path: str, **other: Any) -> PlacementAnswer:
        """Send a write of inventory, and remember it until it is answered. A 5xx of a proxy leaves its fate unknown, too.

        :param generations: the generations in the write, by provider.
        """
        try:
            answer = self._client.request(method, path, **other)
        except PlacementUnreachable:
            self._unanswered.update(generations)
            raise
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._unanswered.update(generations)
        return answer

    def _duplicate(self, root: str, call: CreateProvider) -> Exception:
        """Return the error for a duplicate provider name.

        Another publisher may just have created it; a provider below another root is not ours to move.
        """
        answer = self._client.get(f'/resource_providers/{call.uuid}')
        if answer.status == HTTPStatus.NOT_FOUND:
            return PlacementRefused(
                f'placement has a provider {call.name} that is not ours',
                hint='rename or delete it: openstack resource provider list --name',
            )
        if str(answer.body.get('root_provider_uuid')) == root:
            return PlacementChanged()
        return PlacementRefused(
            f'placement has provider {call.uuid} ({call.name}) below another root than node {root}',
            hint='delete it: openstack resource provider delete',
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldProvider:
    """The reason why a provider is left as it is.

    :ivar consumers: its consumers, without the node's own instance.
    :ivar hint: the remedy, where it is not up to a consumer.
    """

    text: str
    consumers: frozenset[str] = frozenset()
    hint: str | None = None


def claims_of(client: PlacementClient, consumer: str) -> dict[str, frozenset[str]]:
    """Return the classes that a consumer holds, by the UUID of the provider, on any node.

    :raises PlacementError: placement cannot be read.
    """
    answer = client.get(f'/allocations/{consumer}')
    return {
        str(uuid): frozenset(schemas.mapping(schemas.mapping(allocation).get('resources')))
        for uuid, allocation in schemas.mapping(answer.body.get('allocations', {})).items()
    }


def holders_of(client: PlacementClient, provider: str) -> dict[str, frozenset[str]]:
    """Return the claimed classes of a provider, by consumer."""
    claimed = provider_reader.claims(client, provider)
    return {name: frozenset(c.resource_class for c in claims) for name, claims in claimed.items() if claims}


def claims_of_others(client: PlacementClient, root: str, consumer: str | None) -> dict[str, HeldProvider]:
    """Return the providers of a node, its root among them, that anybody but the node's own instance has claimed."""
    lower = provider_reader.below(client, root)
    names = {} if lower is None else {root: root} | {uuid: p.name for uuid, p in lower.items()}
    holders = {uuid: holders_of(client, uuid) for uuid in names}
    others = {uuid: _but(consumer, of) for uuid, of in holders.items()}
    return {uuid: _held_by(names[uuid], of) for uuid, of in others.items() if of}


def note_holders(
    client: PlacementClient, call: Call, consumer: str | None, held: dict[str, frozenset[str]], busy: dict[str, HeldProvider]
) -> None:
    """Find the consumers of a provider. They keep what they hold; any of them but the node's own instance makes it busy.

    :raises PlacementChanged: it has no consumer any more.
    """
    holders = holders_of(client, call.uuid)
    others = _but(consumer, holders)
    if not holders:
        nobodys = provider_reader.nobodys(client, (call.uuid,))
        if nobodys is None:
            raise PlacementChanged
        busy[call.uuid] = HeldProvider(text=nobodys.text, hint=nobodys.hint)
        held[call.uuid] = frozenset(nobodys.amounts)
        return
    if others:
        busy[call.uuid] = _held_by(call.name, others)
    held[call.uuid] = frozenset().union(*holders.values())


def refuse_held(
    client: PlacementClient, root: str, consumer: str | None, busy: Mapping[str, HeldProvider], *, why: str = ''
) -> InventoryInUse:
    """Return the error that names the consumers in the way, with a hint.

    An instance that leaves the machine frees its devices together with it; the claim of a consumer that has no machine
    stays.
    """
    text = f'placement, node {root}: {why}{"; ".join(b.text for _, b in sorted(busy.items()))}'
    names = sorted(frozenset().union(*(b.consumers for b in busy.values())) - {consumer})
    alone = [name for name in names if (claimed := claims_of(client, name)) and root not in claimed]
    show = '; '.join(f'openstack resource provider allocation show {name}' for name in (alone or names)[:MOST_NAMED])
    hints = [b.hint for _, b in sorted(busy.items()) if b.hint is not None]
    if hints:
        return ClaimedAlone(text, hint=hints[0])
    if alone:
        hint = (
            f'claimed without the machine, so nobody waits for it: end that instance or delete the allocation ({show}), '
            "and name the machine's resource class in every flavor"
        )
        return ClaimedAlone(text, hint=hint)
    hint = f'an instance that has just left frees it soon; if there is none any more, delete its allocation: {show}'
    return InventoryInUse(text, hint=hint)


def with_held(wanted: ProviderTree, actual: ProviderTree, held: Mapping[str, frozenset[str]]) -> ProviderTree:
    """Return the wanted tree with the inventory that consumers hold and the tree lacks, reserved."""
    for provider in actual.providers:
        if provider.uuid in held:
            wanted = providers.held(wanted, provider, held[provider.uuid])
    return wanted


def _but(consumer: str | None, holders: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: classes for name, classes in holders.items() if name != consumer}


def _held_by(name: str, others: Mapping[str, frozenset[str]]) -> HeldProvider:
    text = ', '.join(f'{" and ".join(sorted(classes))} by consumer {consumer}' for consumer, classes in sorted(others.items()))
    return HeldProvider(text=f'provider {name} is held: {text}', consumers=frozenset(others))


class Publisher:
    """Reads and writes our providers of any number of nodes.

    Use one publisher for a process: it caches what it read, and needs one GET when nothing changed. Threads may share it.

    :param sleep: pauses after somebody else's write; ``jitter`` returns a random number from 0 to 1, ``clock`` monotonic
        seconds.
    """

    def __init__(
        self,
        client: PlacementClient,
        *,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._client = client
        self._retries = PlacementRetries(lambda: client.timeout, sleep=sleep, jitter=jitter, clock=clock, attempts=attempts)
        self._names = CustomNames(client)
        self._cache = ProviderCache(client, clock)
        self._sender = CallSender(client, self._cache)

    def read(self, root_uuid: str) -> ProviderTree:
        """Read our providers below a root: those with our owner trait. Writes nothing.

        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be read.
        """
        return self._persist(root_uuid, lambda: self._cache.read(root_uuid, frozenset()))

    def plan(self, tree: ProviderTree, *, consumer: str | None = None, delete_gone: bool = False) -> tuple[Call, ...]:
        """Return the calls that :meth:`publish` would send. Writes nothing.

        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be read.
        """
        known = frozenset(p.uuid for p in tree.providers)
        held = {} if consumer is None else claims_of(self._client, consumer)
        actual = self._persist(tree.root_uuid, lambda: self._cache.read(tree.root_uuid, known))
        wanted = providers.beside(with_held(tree, actual, held), actual, self.flat(tree))
        return provider_diff.diff(wanted, actual, delete_gone=delete_gone)

    def holders(self, root_uuid: str) -> tuple[str, ...]:
        """Return the consumers of the root itself, which is the machine; none if there is no root.

        :raises PlacementError: placement cannot be read.
        """
        answer = self._client.get(f'/resource_providers/{root_uuid}/allocations')
        return tuple(sorted(schemas.mapping(answer.body.get('allocations', {}))))

    def plan_prepared(self, tree: ProviderTree) -> tuple[Call, ...]:
        """Return the calls that :meth:`prepare` would send. Writes nothing.

        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be read.
        """
        known = frozenset(p.uuid for p in tree.providers)
        actual = self._persist(tree.root_uuid, lambda: self._cache.read(tree.root_uuid, known))
        return provider_diff.diff(providers.prepared(tree, actual), actual)

    def prepare(self, tree: ProviderTree) -> PublishResult:
        """Create the providers of a tree with their traits, and leave all inventories as they are: new providers offer nothing.

        :raises RootMissing: there is no root: Nova has not made it yet.
        :raises PlacementError: placement cannot be read, or refuses.
        """
        known = frozenset(p.uuid for p in tree.providers)
        return self._converge(tree.root_uuid, lambda actual: providers.prepared(tree, actual), known, consumer=None)

    def check(self) -> None:
        """Check once whether placement is new enough, before anything depends on it.

        :raises PlacementUnreachable: no answer.
        :raises PlacementRefused: it is older than microversion 1.37 (Xena), or is no placement.
        """
        self._client.check()

    def declare(self, classes: Iterable[str] = (), traits: Iterable[str] = (), *, anew: bool = False) -> tuple[str, ...]:
        """Create custom resource classes and traits, so that a flavor may name them before any node offers them.

        :param anew: also check the names that placement was seen to know: anybody may delete an unused one.
        :returns: the names that placement did not know.
        :raises PlacementError: placement cannot be read, or refuses.
        """
        names = (tuple(classes), tuple(traits))
        made: set[str] = set()

        def turn() -> bool:
            if anew:
                self._names.forget(*names)
            self._names.look_up(names[0])
            made.update(self._names.declare(*names))
            return True

        self._persist(None, turn)
        return tuple(sorted(made))

    def withdraw(
        self,
        root_uuid: str,
        provider_uuids: frozenset[str] | None = None,
        consumer: str | None = None,
        *,
        alone: bool = False,
        still: Callable[[], None] = _always,
    ) -> PublishResult:
        """Withdraw providers of ours, and all below them, from placement: nobody can claim them afterwards.

        A missing root offers nothing, and neither does anything below it.

        :param provider_uuids: the providers to withdraw; None for all of the node.
        :param consumer: the node's own instance. Inventory that it holds stays, fully reserved.
        :param alone: check that nobody has claimed anything of the node afterwards: neither its root, which is the machine, nor
            anything below the root, whether ours or not.
        :param still: raises when the node is not ours any more.
        :raises InventoryInUse: another consumer holds some of the inventory, which stays, fully reserved. All else was
            withdrawn.
        :raises PlacementError: placement cannot be read, or refuses.
        """
        known = provider_uuids or frozenset()
        try:
            result = self._converge(
                root_uuid,
                lambda actual: providers.withdrawn(actual, provider_uuids),
                known,
                consumer=consumer,
                closed=lambda actual: providers.emptied(actual, provider_uuids),
                still=still,
            )
        except RootMissing:
            return PublishResult(calls=())
        except InventoryInUse:
            if alone:
                self._see_unclaimed(root_uuid, consumer)  # its error also says why the claim matters
            raise
        if alone:
            self._see_unclaimed(root_uuid, consumer)
        return result

    def _see_unclaimed(self, root_uuid: str, consumer: str | None) -> None:
        """Check that nobody but the node's own instance has claimed anything of the node.

        :raises InventoryInUse: somebody else has a claim.
        """
        busy = self._persist(None, lambda: claims_of_others(self._client, root_uuid, consumer))
        if busy:
            why = 'what a slot holds is offered, so it gets something else only while nothing of the node is claimed: '
            raise refuse_held(self._client, root_uuid, consumer, busy, why=why)

    def publish(
        self,
        tree: ProviderTree,
        *,
        consumer: str | None = None,
        delete_gone: bool = False,
        still: Callable[[], None] = _always,
    ) -> PublishResult:
        """Publish a tree: change placement until it agrees with the tree.

        :param consumer: the node's own instance. Inventory that it holds and the tree lacks stays, fully reserved.
        :param delete_gone: delete providers that the tree lacks; see :func:`baremetal_acc.scheduling.provider_diff.diff`.
        :param still: raises when the node is not ours any more.
        :raises RootMissing: there is no root: Nova has not made it yet.
        :raises InventoryInUse: another consumer holds inventory that the tree lacks, which stays, fully reserved. All else was
            published, except what is for the same device.
        :raises PlacementError: placement cannot be read, or refuses.
        """
        known = frozenset(p.uuid for p in tree.providers)
        return self._converge(
            tree.root_uuid, lambda _: tree, known, consumer=consumer, delete_gone=delete_gone, beside_root=True, still=still
        )

    def flat(self, tree: ProviderTree) -> frozenset[str]:
        """Return the classes of a tree that its root offers itself, as of the last read: they would be offered twice.

        :raises PlacementError: placement cannot be read.
        """
        return self._cache.root_classes(tree)

    def claims(self, consumer: str) -> dict[str, frozenset[str]]:
        """Return the classes that a consumer holds, by the UUID of the provider, on any node.

        :raises PlacementError: placement cannot be read.
        """
        return claims_of(self._client, consumer)

    def _persist(self, root: str | None, turn: Callable[[], T | None]) -> T:
        """Take turns until one returns a result; a turn that others disturb forgets what was read below the root."""

        def attempt() -> T | None:
            try:
                return turn()
            except PlacementChanged:
                if root is not None:
                    self._cache.forget(root)
                raise

        # Somebody may have deleted a class or a trait that nobody used.
        return self._retries.take(attempt, on_refused=self._names.forget)

    def _converge(
        self,
        root: str,
        wanted_of: Callable[[ProviderTree], ProviderTree],
        known: frozenset[str],
        *,
        consumer: str | None,
        delete_gone: bool = False,
        beside_root: bool = False,
        closed: Callable[[ProviderTree], frozenset[str]] = lambda _: frozenset(),
        still: Callable[[], None] = _always,
    ) -> PublishResult:
        """Read, compare and send until there is nothing left to send.

        :param beside_root: do not offer classes that the root offers itself.
        :param closed: UUIDs of the providers that no earlier request, of any sender, may offer again afterwards.
        """
        done: list[Call] = []
        held = {} if consumer is None else claims_of(self._client, consumer)
        busy: dict[str, HeldProvider] = {}
        remembered = self._cache.cached(root)
        flat: frozenset[str] | None = None
        warned: set[str] = set()

        def missing(actual: ProviderTree) -> list[Call]:
            wanted = with_held(wanted_of(actual), actual, held)
            if flat:
                wanted = providers.beside(wanted, actual, flat)
            same = overlapping(busy, actual, wanted)
            return [
                c
                for c in provider_diff.diff(wanted, actual, delete_gone=delete_gone)
                if not (isinstance(c, DeleteProvider) and c.uuid in busy)
                and not (isinstance(c, SetInventories) and c.inventories and c.uuid in same)
            ]

        def turn() -> bool | None:
            """Read, compare and send. True when there was nothing left to send."""
            nonlocal remembered, flat
            # The first turn may use the cache: placement takes no write with an old generation, and where the cache gives
            # nothing to send, placement is read.
            actual, remembered = remembered, None
            from_memory = actual is not None
            calls = [] if actual is None else missing(actual)
            if actual is None or not calls:
                actual = self._cache.read(root, known)
                from_memory, flat = False, None  # the root was read again
                calls = missing(actual)
            if beside_root and flat is None and provider_diff.offers(calls, actual):
                flat = self.flat(wanted_of(actual))
                if flat and from_memory:
                    return None  # the inventory may have been moved from the root since
                if flat - warned:
                    warned.update(flat)
                    LOG.warning(
                        'node %s: its root provider offers %s itself, so its devices do not offer that: '
                        'baremetal-acc reshape moves it to them',
                        root,
                        ', '.join(sorted(flat)),
                    )
                calls = missing(actual)
            old = self._sender.barriers(actual, calls, closed(actual))
            if not calls and not old:
                return True
            self._names.declare_for(calls)
            taken = list[Call]()
            for call in self._send_all(root, calls, actual, consumer, held, busy, still):
                LOG.info('node %s: %s', root, provider_diff.describe(call))
                taken.append(call)
                done.append(call)
            if not from_memory and not actual.providers and len(taken) == len(calls):
                # Nothing of ours was there, and the answer to each write has shown its result: that counts as read back.
                return True
            seen = {p.uuid: p for p in actual.providers}
            for again in old:
                still()
                try:
                    self._sender.send(root, again, seen, busy=False)
                except InventoryHeld:
                    raise PlacementChanged from None  # the write removes nothing, so the provider has changed since it was read
            return None

        self._persist(root, turn)
        if busy:
            raise refuse_held(self._client, root, consumer, busy)
        return PublishResult(calls=tuple(done))

    def _send_all(
        self,
        root: str,
        calls: Sequence[Call],
        actual: ProviderTree,
        consumer: str | None,
        held: dict[str, frozenset[str]],
        busy: dict[str, HeldProvider],
        still: Callable[[], None],
    ) -> Iterator[Call]:
        """Send calls one after the other, the new offers together, and yield the calls that placement accepted.

        :param held: the classes that consumers keep, and ``busy`` these consumers, if not the node's own instance; both by the
            provider's UUID, and both are added to. A consumer that is found prevents new offers in this turn: the next turn
            knows which are allowed.
        :raises PlacementChanged: placement has changed since it was read.
        """
        seen = {p.uuid: p for p in actual.providers}
        offers = provider_diff.offers(calls, actual)
        offering = frozenset(offers)
        left_out: set[str] = set()  # their other calls do not apply any more, or were sent already
        known = set(busy)
        for call in calls:
            if busy.keys() - known and isinstance(call, SetInventories) and call.inventories:
                continue
            still()
            if call in offering and not left_out and self._sender.send_offers(root, offers, seen):
                left_out.update(offer.uuid for offer in offers)
                yield from offers
            if call.uuid in left_out:
                continue
            try:
                self._sender.send(root, call, seen, busy=bool(busy))
            except InventoryHeld:
                left_out.add(call.uuid)
                note_holders(self._client, call, consumer, held, busy)
            except ProviderNeeded:
                left_out.add(call.uuid)
                busy[call.uuid] = HeldProvider(text=f'provider {call.name} has one below it that is held')
            else:
                yield call

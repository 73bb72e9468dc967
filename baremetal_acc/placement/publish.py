# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does placement come to agree with what was verified, with other writers about, and without taking anything from anyone?

Read the node's providers, compare, send, and again until there is nothing left to send: success is what was read back. Every
write carries the generation that was read, so that a change by somebody else makes placement refuse it; then all is read and
compared anew. Inventory that a consumer holds is never deleted: placement itself refuses that, in one step with claims. It is
reserved then, so that nobody gets what is not wanted any more when the consumer has gone.

A request whose answer never came may be taken later, when we have read that nothing was changed, and have gone on. Placement
takes nothing that carries an old generation, so a write that changes nothing but the generation keeps it away for good. Of our
own requests we know which those are; those of a conductor that is gone nobody knows: a withdrawal therefore writes once to what
offers nothing already.

Who stood still for long may write for a node that is somebody else's by now, and placement would take that: to it one writer is
like another. So whoever publishes is asked right before each write whether the node is theirs (``still``).
"""

import itertools
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar, assert_never

from baremetal_acc.decide import providers
from baremetal_acc.decide.overlap import overlapping
from baremetal_acc.decide.providers import OWNER
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
from baremetal_acc.placement import roots, wire
from baremetal_acc.placement.client import (
    CANNOT_DELETE_PARENT,
    DUPLICATE_NAME,
    INVENTORY_IN_USE,
    RESHAPER,
    Answer,
    PlacementClient,
    refusal,
)

LOG = logging.getLogger(__name__)

NAMES_AT_ONCE = 4000
"""How many characters of names of traits one question holds: web servers take lines of 8190 (Apache's LimitRequestLine)."""
ATTEMPTS = 12
"""How often all is read and compared anew. Sixteen publishers at once needed at most four on PostgreSQL and MariaDB."""

LOST = 3
"""How many answers of placement may be lost before a call fails: one restart of one of its servers behind a balancer."""

LOST_SECONDS = 10.0
"""A call that has taken longer fails at the next answer that is lost: whoever waits for a timeout has waited."""

MOST_NAMED = 4
"""Consumers that a hint names."""

REMEMBER_SECONDS = 300.0
"""How long an unchanged generation counts as unchanged content. A provider that was deleted and made again begins with low
generations again, and could meet the one that is remembered. Nova refreshes what it remembers as often ([compute]
resource_provider_association_refresh).
"""

T = TypeVar('T')


def _always() -> None:
    """Nobody else can have taken the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """What was done.

    :ivar calls: the calls that placement accepted, in order; none when it agreed already.
    """

    calls: tuple[Call, ...]

    @property
    def changed(self) -> bool:
        """Placement was changed."""
        return bool(self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """What was seen below one root.

    :ivar at: when it was first read, by the publisher's clock.
    :ivar foreign: providers that are not ours.
    """

    at: float
    ours: Mapping[str, Provider]
    foreign: frozenset[str]


class _Again(Exception):
    """Somebody else wrote, or placement stumbled over two writers: read, compare and send anew.

    :ivar once: no more than once: who is refused the same way again is refused.
    """

    def __init__(self, error: PlacementError | None = None, *, once: bool = False) -> None:
        self.error = error
        self.once = once
        super().__init__()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Busy:
    """Why a provider is left as it is.

    :ivar consumers: who holds it, but for the node's own instance.
    :ivar hint: what to do, where no consumer has to do it.
    """

    text: str
    consumers: frozenset[str] = frozenset()
    hint: str | None = None


class _InUse(Exception):
    """A consumer holds what a call takes away, so placement refused it."""


class _StillNeeded(Exception):
    """A provider cannot be deleted yet, because one below it is held."""


class Publisher:
    """Reads and writes our providers of any number of nodes.

    One for a process: it remembers what it read, and asks once when nothing changed. Threads may share it.

    :param sleep: how to pause after somebody else's write; ``jitter`` is a random number from 0 to 1, ``clock`` seconds that
        only go up.
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
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock
        self._attempts = attempts
        self._declared: set[str] = set()
        self._memories: dict[str, _Memory] = {}
        self._roots: dict[str, int | None] = {}
        self._flat: dict[str, tuple[int | None, frozenset[str]]] = {}
        self._unanswered: dict[str, int | None] = {}  # the generations of writes that may be taken still, by provider
        self._settled: dict[str, int | None] = {}  # the generations that our own writes made: nothing sent before is taken
        self._may_reshape = True

    def read(self, root_uuid: str) -> ProviderTree:
        """Our providers below a root: those with our owner trait. Writes nothing.

        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be asked.
        """
        return self._persist(root_uuid, lambda: self._read(root_uuid, frozenset()))

    def plan(self, tree: ProviderTree, *, consumer: str | None = None, delete_gone: bool = False) -> tuple[Call, ...]:
        """The calls that :meth:`publish` would send. Writes nothing.

        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be asked.
        """
        known = frozenset(p.uuid for p in tree.providers)
        held = {} if consumer is None else self.claims(consumer)
        actual = self._persist(tree.root_uuid, lambda: self._read(tree.root_uuid, known))
        wanted = providers.beside(_with_held(tree, actual, held), actual, self.flat(tree))
        return providers.diff(wanted, actual, delete_gone=delete_gone)

    def holders(self, root_uuid: str) -> tuple[str, ...]:
        """The consumers that hold something of the root itself, which is the machine: whoever has it; none if there is no root.

        :raises PlacementError: placement cannot be asked.
        """
        answer = self._client.get(f'/resource_providers/{root_uuid}/allocations')
        return tuple(sorted(wire.mapping(answer.body.get('allocations', {}))))

    def plan_prepared(self, tree: ProviderTree) -> tuple[Call, ...]:
        """The calls that :meth:`prepare` would send. Writes nothing.

        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be asked.
        """
        known = frozenset(p.uuid for p in tree.providers)
        actual = self._persist(tree.root_uuid, lambda: self._read(tree.root_uuid, known))
        return providers.diff(providers.prepared(tree, actual), actual)

    def prepare(self, tree: ProviderTree) -> PublishResult:
        """Make the providers of a tree, with their traits, and leave all offers as they are: new ones offer nothing.

        :raises RootMissing: there is no root: Nova has not made it yet.
        :raises PlacementError: placement cannot be asked, or refuses.
        """
        known = frozenset(p.uuid for p in tree.providers)
        return self._converge(tree.root_uuid, lambda actual: providers.prepared(tree, actual), known, consumer=None)

    def check(self) -> None:
        """Ask once whether placement is new enough, before anything depends on it.

        :raises PlacementUnreachable: no answer.
        :raises PlacementRefused: it is older than microversion 1.37 (Xena), or is no placement.
        """
        self._client.check()

    def declare(self, classes: Iterable[str] = (), traits: Iterable[str] = (), *, anew: bool = False) -> tuple[str, ...]:
        """Make classes and traits known, so that a flavor may name them before any node offers them.

        :param anew: ask for what placement was seen to know, too: anybody may delete what nobody uses.
        :returns: those that it did not know.
        :raises PlacementError: placement cannot be asked, or refuses.
        """
        names = (tuple(classes), tuple(traits))
        paths = {f'/{kind}/{name}' for kind, of in zip(('resource_classes', 'traits'), names, strict=True) for name in of}
        made: set[str] = set()

        def turn() -> bool:
            if anew:
                self._declared -= paths
            if len([name for name in names[0] if f'/resource_classes/{name}' not in self._declared]) > 1:
                known = wire.classes(self._client.get('/resource_classes'))
                self._declared.update(f'/resource_classes/{name}' for name in known)
            made.update(self._declare(*names))
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
        """Take providers of ours, and all below them, out of service: nobody can claim them afterwards.

        A root that is not there offers nothing, and neither does anything below it.

        :param provider_uuids: which ones; None for all of the node.
        :param consumer: the node's own instance. What it holds stays, wholly reserved.
        :param alone: see that nobody has claimed anything of the node afterwards: neither its root, which is the machine, nor
            anything below it, whosever that is.
        :param still: raises when the node is not ours any more.
        :raises InventoryInUse: another consumer holds some of it, which stays, wholly reserved. All else was withdrawn.
        :raises PlacementError: placement cannot be asked, or refuses.
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
                self._see_unclaimed(root_uuid, consumer)  # which says why that is in our way, too
            raise
        if alone:
            self._see_unclaimed(root_uuid, consumer)
        return result

    def _see_unclaimed(self, root_uuid: str, consumer: str | None) -> None:
        """See that nobody has claimed anything of a node but its own instance.

        :raises InventoryInUse: somebody else has.
        """

        def turn() -> dict[str, _Busy]:
            lower = roots.below(self._client, root_uuid)
            names = {} if lower is None else {root_uuid: root_uuid} | {uuid: p.name for uuid, p in lower.items()}
            holders = {uuid: self._holders(uuid) for uuid in names}
            others = {uuid: _but(consumer, of) for uuid, of in holders.items()}
            return {uuid: _held_by(names[uuid], of) for uuid, of in others.items() if of}

        busy = self._persist(None, turn)
        if busy:
            why = 'what a slot holds is offered, so it gets something else only while nothing of the node is claimed: '
            raise self._refusal(root_uuid, consumer, busy, why=why)

    def publish(
        self,
        tree: ProviderTree,
        *,
        consumer: str | None = None,
        delete_gone: bool = False,
        still: Callable[[], None] = _always,
    ) -> PublishResult:
        """Make placement agree with a tree.

        :param consumer: the node's own instance. What it holds and the tree lacks stays, wholly reserved.
        :param delete_gone: delete providers that the tree lacks; see :func:`baremetal_acc.decide.providers.diff`.
        :param still: raises when the node is not ours any more.
        :raises RootMissing: there is no root: Nova has not made it yet.
        :raises InventoryInUse: another consumer holds what the tree lacks, which stays, wholly reserved. All else was published
            that does not stand for the same device.
        :raises PlacementError: placement cannot be asked, or refuses.
        """
        known = frozenset(p.uuid for p in tree.providers)
        return self._converge(
            tree.root_uuid, lambda _: tree, known, consumer=consumer, delete_gone=delete_gone, beside_root=True, still=still
        )

    def flat(self, tree: ProviderTree) -> frozenset[str]:
        """The classes of a tree that its root offers itself, so that they would be offered twice. As of the last look at it.

        :raises PlacementError: placement cannot be asked.
        """
        wanted = frozenset(i.resource_class for p in tree.providers for i in p.inventories)
        known = self._flat.get(tree.root_uuid)
        if known is None or known[0] is None or known[0] != self._roots.get(tree.root_uuid):
            answer = self._client.get(f'/resource_providers/{tree.root_uuid}/inventories')
            if answer.status == HTTPStatus.NOT_FOUND:
                return frozenset()
            known = (wire.generation(answer), frozenset(i.resource_class for i in wire.inventories(answer)))
            self._flat[tree.root_uuid] = known
        return wanted & known[1]

    # ---------------------------------------------------------------------------------------------------------- converging

    def _persist(self, root: str | None, turn: Callable[[], T | None]) -> T:
        """Take turns until one gives something. A turn that somebody else disturbs starts over after a random pause.

        So does one of which an answer was lost: what is read next says what became of it.
        """
        last: PlacementError | None = None
        refused = False
        lost, began = 0, self._clock()
        for attempt in range(self._attempts):
            try:
                result = turn()
            except PlacementUnreachable as exc:
                lost += 1
                if lost > LOST or self._clock() - began >= min(LOST_SECONDS, self._client.timeout):
                    raise
                last = exc
                self._pause(attempt)
                continue
            except _Again as again:
                if root is not None:
                    self._memories.pop(root, None)
                last = again.error
                if again.once:
                    if refused and last is not None:
                        raise last from None
                    refused = True
                    self._declared.clear()  # somebody may have deleted a class or a trait that nobody used
                self._pause(attempt)
                continue
            if result is not None:
                return result
        why = 'its providers kept changing' if last is None else last.message
        raise PlacementUnreachable(f'{why}; gave up after {self._attempts} attempts') from last

    def _pause(self, attempt: int) -> None:
        self._sleep(min(2.0, 0.02 * 2**attempt) * self._jitter())

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

        :param beside_root: what the root offers itself is not offered anew.
        :param closed: UUIDs of the providers that nothing that was sent before may offer afterwards, whoever sent it.
        """
        done: list[Call] = []
        held = {} if consumer is None else self.claims(consumer)
        busy: dict[str, _Busy] = {}
        remembered = self._remembered(root)
        flat: frozenset[str] | None = None
        warned: set[str] = set()

        def missing(actual: ProviderTree) -> list[Call]:
            wanted = _with_held(wanted_of(actual), actual, held)
            if flat:
                wanted = providers.beside(wanted, actual, flat)
            same = overlapping(busy, actual, wanted)
            return [
                c
                for c in providers.diff(wanted, actual, delete_gone=delete_gone)
                if not (isinstance(c, DeleteProvider) and c.uuid in busy)
                and not (isinstance(c, SetInventories) and c.inventories and c.uuid in same)
            ]

        def turn() -> bool | None:
            """Read, compare, send. True when there was nothing left to send."""
            nonlocal remembered, flat
            # What is remembered will do to begin with: placement takes no write that carries an old generation, and what
            # nothing was sent for is read at the end.
            actual, remembered = remembered, None
            from_memory = actual is not None
            calls = [] if actual is None else missing(actual)
            if actual is None or not calls:
                actual = self._read(root, known)
                from_memory, flat = False, None  # the root was looked at anew
                calls = missing(actual)
            if beside_root and flat is None and providers.offers(calls, actual):
                flat = self.flat(wanted_of(actual))
                if flat and from_memory:
                    return None  # it may have been moved since
                if flat - warned:
                    warned.update(flat)
                    LOG.warning(
                        'node %s: its root provider offers %s itself, so its devices do not offer that: '
                        'baremetal-acc reshape moves it to them',
                        root,
                        ', '.join(sorted(flat)),
                    )
                calls = missing(actual)
            old = self._late(actual, calls, closed(actual))
            if not calls and not old:
                return True
            self._declare_for(calls)
            taken = list[Call]()
            for call in self._send_all(root, calls, actual, consumer, held, busy, still):
                LOG.info('node %s: %s', root, providers.describe(call))
                taken.append(call)
                done.append(call)
            if not from_memory and not actual.providers and len(taken) == len(calls):
                # Nothing of ours was there, and placement has answered each write: what it says it made of it was read back.
                return True
            seen = {p.uuid: p for p in actual.providers}
            for again in old:
                still()
                try:
                    self._send(root, again, seen, busy=False)
                except _InUse:
                    raise _Again from None  # it takes nothing away: whoever was in the way had what is there no more
            return None

        self._persist(root, turn)
        if busy:
            raise self._refusal(root, consumer, busy)
        return PublishResult(calls=tuple(done))

    def _late(self, actual: ProviderTree, calls: Sequence[Call], closed: frozenset[str]) -> list[SetInventories]:
        """Writes that change nothing, but keep away what was sent before and never answered."""
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

    def _send_all(
        self,
        root: str,
        calls: Sequence[Call],
        actual: ProviderTree,
        consumer: str | None,
        held: dict[str, frozenset[str]],
        busy: dict[str, _Busy],
        still: Callable[[], None],
    ) -> Iterator[Call]:
        """Send calls one after the other, the offers together: those that placement took.

        :param held: what consumers keep, and ``busy`` who they are, if not the node's own instance; both by the provider's
            UUID, and both are added to. Who is found then lets nothing be offered in this turn: the next one knows what may be.
        :raises _Again: placement is not as it was read.
        """
        seen = {p.uuid: p for p in actual.providers}
        offers = providers.offers(calls, actual)
        offering = frozenset(offers)
        left_out: set[str] = set()  # the other calls for these were meant for what they cannot become, or are sent already
        known = set(busy)
        for call in calls:
            if busy.keys() - known and isinstance(call, SetInventories) and call.inventories:
                continue
            still()
            if call in offering and not left_out and self._offered(root, offers, seen):
                left_out.update(offer.uuid for offer in offers)
                yield from offers
            if call.uuid in left_out:
                continue
            try:
                self._send(root, call, seen, busy=bool(busy))
            except _InUse:
                left_out.add(call.uuid)
                self._in_use(call, consumer, held, busy)
            except _StillNeeded:
                left_out.add(call.uuid)
                busy[call.uuid] = _Busy(text=f'provider {call.name} has one below it that is held')
            else:
                yield call

    def _in_use(self, call: Call, consumer: str | None, held: dict[str, frozenset[str]], busy: dict[str, _Busy]) -> None:
        """Find out who holds a provider. Whoever it is keeps what it has; anybody but the node's own instance is in our way."""
        holders = self._holders(call.uuid)
        others = _but(consumer, holders)
        if not holders:
            nobodys = roots.nobodys(self._client, (call.uuid,))
            if nobodys is None:
                raise _Again
            busy[call.uuid] = _Busy(text=nobodys.text, hint=nobodys.hint)
            held[call.uuid] = frozenset(nobodys.amounts)
            return
        if others:
            busy[call.uuid] = _held_by(call.name, others)
        held[call.uuid] = frozenset().union(*holders.values())

    def _holders(self, provider: str) -> dict[str, frozenset[str]]:
        """Who claims which classes of a provider, by consumer."""
        claimed = roots.claims(self._client, provider)
        return {name: frozenset(c.resource_class for c in claims) for name, claims in claimed.items() if claims}

    def _refusal(self, root: str, consumer: str | None, busy: Mapping[str, _Busy], *, why: str = '') -> InventoryInUse:
        """Who is in our way. An instance that leaves the machine frees it together with its devices; who has none stays."""
        text = f'placement, node {root}: {why}{"; ".join(b.text for _, b in sorted(busy.items()))}'
        names = sorted(frozenset().union(*(b.consumers for b in busy.values())) - {consumer})
        alone = [name for name in names if (claimed := self.claims(name)) and root not in claimed]
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

    def claims(self, consumer: str) -> dict[str, frozenset[str]]:
        """The classes that a consumer holds, by the UUID of the provider, of whatever node it is.

        :raises PlacementError: placement cannot be asked.
        """
        answer = self._client.get(f'/allocations/{consumer}')
        return {
            str(uuid): frozenset(wire.mapping(wire.mapping(allocation).get('resources')))
            for uuid, allocation in wire.mapping(answer.body.get('allocations', {})).items()
        }

    # ------------------------------------------------------------------------------------------------------------- reading

    def _remembered(self, root: str) -> ProviderTree | None:
        """Our providers below a root as they were when they were last read or written; None: that is too long ago."""
        memory = self._memories.get(root)
        if memory is None or self._clock() - memory.at >= REMEMBER_SECONDS:
            return None
        return ProviderTree(root_uuid=root, providers=tuple(memory.ours.values()))

    def _read(self, root: str, known: frozenset[str]) -> ProviderTree:
        """Our providers below a root, and those of the given UUIDs, which may lack the owner trait yet."""
        answer = self._client.get('/resource_providers', in_tree=root)
        summaries = tuple(wire.summaries(answer))
        self._roots[root] = next((p.generation for p in summaries if p.uuid == root), None)
        below = wire.below(root, summaries)
        if below is None:
            self._memories.pop(root, None)
            raise roots.missing(root)
        memory = self._memories.get(root)
        if memory is None or self._clock() - memory.at >= REMEMBER_SECONDS:
            memory = _Memory(at=self._clock(), ours={}, foreign=frozenset())
        ours = {uuid for uuid in below if uuid in memory.ours or uuid in known}
        if not set(below) <= ours | memory.foreign:
            ours |= roots.having(self._client, root, OWNER) & set(below)
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
        self._memories[root] = _Memory(at=memory.at, ours=found, foreign=frozenset(below) - frozenset(found))
        return ProviderTree(root_uuid=root, providers=tuple(found[uuid] for uuid in below if uuid in found))

    def _contents(self, provider: Provider) -> Provider:
        inventories = self._client.get(f'/resource_providers/{provider.uuid}/inventories')
        traits = self._client.get(f'/resource_providers/{provider.uuid}/traits')
        if HTTPStatus.NOT_FOUND in (inventories.status, traits.status):
            raise _Again
        seen = replace(provider, inventories=wire.inventories(inventories), traits=wire.traits(traits))
        if not wire.generation(inventories) == wire.generation(traits) == provider.generation:
            raise _Again
        return seen

    # ------------------------------------------------------------------------------------------------------------- writing

    def _declare_for(self, calls: Iterable[Call]) -> None:
        calls = tuple(calls)
        classes = {i.resource_class for c in calls if isinstance(c, SetInventories) for i in c.inventories}
        self._declare(classes, {t for c in calls if isinstance(c, SetTraits) for t in c.traits})

    def _declare(self, classes: Iterable[str], traits: Iterable[str]) -> Iterable[str]:
        """Make custom names known, and see that the others are.

        :returns: the custom names that were not, as far as anybody knew.
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
                        raise _again_or_refused('PUT', path, answer)
                    made.append(name)
                self._declared.add(path)
        return made

    def _known_traits(self, names: Sequence[str]) -> None:
        """Ask for many at once which of them placement has: one question for each would be most of a first publication."""
        asked: list[str] = []
        for name, following in itertools.pairwise([*names, '']):
            asked.append(name)
            if not following or sum(map(len, asked)) + len(following) > NAMES_AT_ONCE:
                answer = self._client.get('/traits', name=f'in:{",".join(asked)}')
                self._declared.update(f'/traits/{name}' for name in wire.traits(answer))
                asked = []

    def _offered(self, root: str, offers: Sequence[SetInventories], seen: dict[str, Provider]) -> bool:
        """Send several offers as one call. False: nothing was sent, since it would save nothing, or we may not.

        Only what takes nothing away and reserves nothing may go this way: POST /reshaper does not compare what is reserved with
        what is there (placement 16.0.0).

        :raises _Again: placement is not as it was read.
        """
        if len(offers) < 2 or not self._may_reshape:
            return False
        body = {
            'inventories': {
                offer.uuid: {
                    'resource_provider_generation': seen[offer.uuid].generation,
                    'inventories': {i.resource_class: wire.encode(i) for i in offer.inventories},
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
            _accepted(answer, 'POST', RESHAPER)
        except _InUse:
            raise _Again from None  # of what is there no more: nothing of this takes anything away
        for offer in offers:
            own = seen[offer.uuid]
            # Each generation goes up by two, or by more where somebody holds some of it: then it is read again.
            after = None if own.generation is None else own.generation + 2
            seen[offer.uuid] = replace(
                own, inventories=tuple(sorted(offer.inventories, key=lambda i: i.resource_class)), generation=after
            )
            self._remember(root, seen[offer.uuid])
        return True

    def _remember(self, root: str, provider: Provider) -> None:
        memory = self._memories.get(root)
        if memory is not None:
            self._memories[root] = replace(memory, ours={**memory.ours, provider.uuid: provider})

    def _send(self, root: str, call: Call, seen: dict[str, Provider], *, busy: bool) -> None:
        """Send one call with the generation that was read, and note what placement says it made of it.

        :param seen: the providers as they were read; changed in place.
        :raises _InUse: a consumer holds what the call takes away.
        :raises _Again: placement is not as it was read.
        """
        path = f'/resource_providers/{call.uuid}'
        body: dict[str, Any]
        match call:
            case CreateProvider():
                body = {'uuid': call.uuid, 'name': call.name, 'parent_provider_uuid': call.parent_uuid}
                answer = self._client.request('POST', '/resource_providers', body=body)
                if answer.code == DUPLICATE_NAME:
                    raise self._duplicate(root, call)
                seen[call.uuid] = wire.provider(_accepted(answer, 'POST', '/resource_providers').body)
            case MoveProvider():
                body = {'name': call.name, 'parent_provider_uuid': call.parent_uuid}
                _accepted(self._client.request('PUT', path, body=body), 'PUT', path)
            case SetInventories():
                path += '/inventories'
                own = seen[call.uuid]
                sent = {i.resource_class: wire.encode(i) for i in call.inventories}
                body = {'resource_provider_generation': own.generation, 'inventories': sent}
                answer = self._answered({call.uuid: own.generation}, 'PUT', path, body=body)
                _accepted(answer, 'PUT', path)
                seen[call.uuid] = replace(own, inventories=wire.inventories(answer), generation=wire.generation(answer))
                self._settled[call.uuid] = seen[call.uuid].generation
            case SetTraits():
                path += '/traits'
                own = seen[call.uuid]
                body = {'resource_provider_generation': own.generation, 'traits': sorted(call.traits)}
                answer = _accepted(self._client.request('PUT', path, body=body), 'PUT', path)
                seen[call.uuid] = replace(own, traits=wire.traits(answer), generation=wire.generation(answer))
            case DeleteProvider():
                answer = self._client.request('DELETE', path)
                if answer.code == CANNOT_DELETE_PARENT and busy:
                    raise _StillNeeded
                if answer.status != HTTPStatus.NOT_FOUND:
                    _accepted(answer, 'DELETE', path)
                del seen[call.uuid]
            case _:
                assert_never(call)
        memory = self._memories.get(root)
        if memory is not None:
            ours = {uuid: p for uuid, p in memory.ours.items() if uuid != call.uuid}
            ours |= {call.uuid: seen[call.uuid]} if call.uuid in seen else {}
            self._memories[root] = replace(memory, ours=ours)

    def _answered(self, generations: Mapping[str, int | None], method: str, path: str, **other: Any) -> Answer:
        """Send a write of inventory, and remember it until its answer comes. A server in between may not know it either: 5xx.

        :param generations: those that it carries, by provider.
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
        """Another publisher may just have made it; what lies elsewhere is not ours to move."""
        answer = self._client.get(f'/resource_providers/{call.uuid}')
        if answer.status == HTTPStatus.NOT_FOUND:
            return PlacementRefused(
                f'placement has a provider {call.name} that is not ours',
                hint='rename or delete it: openstack resource provider list --name',
            )
        if str(answer.body.get('root_provider_uuid')) == root:
            return _Again()
        return PlacementRefused(
            f'placement has provider {call.uuid} ({call.name}) below another root than node {root}',
            hint='delete it: openstack resource provider delete',
        )


# ------------------------------------------------------------------------------------------------------------- answers


def _but(consumer: str | None, holders: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: classes for name, classes in holders.items() if name != consumer}


def _held_by(name: str, others: Mapping[str, frozenset[str]]) -> _Busy:
    text = ', '.join(f'{" and ".join(sorted(classes))} by consumer {consumer}' for consumer, classes in sorted(others.items()))
    return _Busy(text=f'provider {name} is held: {text}', consumers=frozenset(others))


def _with_held(wanted: ProviderTree, actual: ProviderTree, held: Mapping[str, frozenset[str]]) -> ProviderTree:
    """The wanted tree with what consumers hold and it lacks, reserved."""
    for provider in actual.providers:
        if provider.uuid in held:
            wanted = providers.held(wanted, provider, held[provider.uuid])
    return wanted


def _accepted(answer: Answer, method: str, path: str) -> Answer:
    if answer.code == INVENTORY_IN_USE:
        raise _InUse
    if not answer.ok:
        raise _again_or_refused(method, path, answer)
    return answer


def _again_or_refused(method: str, path: str, answer: Answer) -> Exception:
    """409 and 5xx mean that somebody else wrote, 404 that somebody deleted; 400 may mean that a name is not known any more."""
    error = refusal(method, path, answer)
    passing = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
    if answer.code == CANNOT_DELETE_PARENT:
        # Or one of ours that another publisher has just made there.
        why = f'{error.message}: providers that are not ours lie below it'
        return _Again(PlacementRefused(why, hint='delete those first'), once=True)
    if answer.status in passing or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _Again(error, once=answer.status == HTTPStatus.BAD_REQUEST)
    return error

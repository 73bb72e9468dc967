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

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from baremetal_acc.errors import InventoryInUse, RootMissing
from baremetal_acc.model.provider import Call, DeleteProvider, KeptReservation, ProviderTree, SetInventories
from baremetal_acc.placement import schemas
from baremetal_acc.placement.answers import InventoryHeld, PlacementChanged, ProviderNeeded
from baremetal_acc.placement.call_sender import CallSender
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.consumers import HeldProvider, claims_of, claims_of_others, note_holders, refuse_held, with_held
from baremetal_acc.placement.custom_names import CustomNames
from baremetal_acc.placement.provider_cache import ProviderCache
from baremetal_acc.placement.retries import ATTEMPTS, PlacementRetries, T
from baremetal_acc.scheduling import provider_diff, providers, reservations
from baremetal_acc.scheduling.providers import overlapping

LOG = logging.getLogger(__name__)


def _always() -> None:
    """The default of ``still``: nobody else can have taken the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """The result of a publication.

    :ivar calls: the calls that placement accepted, in order; none when placement agreed already.
    :ivar reserved: what an operator has reserved, and what stays reserved.
    """

    calls: tuple[Call, ...]
    reserved: tuple[KeptReservation, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether placement was changed."""
        return bool(self.calls)


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

    def plan(self, tree: ProviderTree, *, consumer: str | None = None, delete_gone: bool = False) -> PublishResult:
        """Return what :meth:`publish` would send and keep. Writes nothing.

        :raises RootMissing: there is no such root.
        :raises PlacementError: placement cannot be read.
        """
        known = frozenset(p.uuid for p in tree.providers)
        held = {} if consumer is None else claims_of(self._client, consumer)
        actual = self._persist(tree.root_uuid, lambda: self._cache.read(tree.root_uuid, known))
        wanted = providers.beside(with_held(tree, actual, held), actual, self.flat(tree))
        wanted = reservations.keep(wanted, actual, delete_gone=delete_gone)
        return PublishResult(
            calls=provider_diff.diff(wanted, actual, delete_gone=delete_gone), reserved=reservations.kept(wanted)
        )

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
        return provider_diff.diff(reservations.keep(providers.prepared(tree, actual), actual), actual)

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
            why = 'a slot that is published as its function is reprogrammed only while nothing of the node is claimed: '
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
        reserved: list[KeptReservation] = []

        def missing(actual: ProviderTree) -> list[Call]:
            wanted = with_held(wanted_of(actual), actual, held)
            if flat:
                wanted = providers.beside(wanted, actual, flat)
            wanted = reservations.keep(wanted, actual, delete_gone=delete_gone)
            reserved[:] = reservations.kept(wanted)
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
                        'node %s: root provider has inventory of %s itself, so that is not published for its devices; '
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
        return PublishResult(calls=tuple(done), reserved=tuple(reserved))

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
                busy[call.uuid] = HeldProvider(text=f'provider {call.name} has a child provider that is held')
            else:
                yield call

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The publishers of the race: the product's own publisher, client and reshaper, in processes of their own, as conductors.

Most publishers hold a node's lock while they work on it, as Ironic's conductors do; some work on it all the same, as one does
that was thought dead. What is true of a machine changes only as it may in life: a card is changed when it was withdrawn.
"""

import contextlib
import logging
import multiprocessing
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from keystoneauth1 import adapter, session, token_endpoint

from baremetal_acc.errors import AccError, InventoryInUse, PlacementRefused, PlacementUnreachable
from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.placement.reshape import Reshaper, Wish
from baremetal_acc.scheduling import providers
from tests.race import broken
from tests.race.site import end_with_parent
from tests.race.world import FIELDS, Machine, Place, Truth

LOCKED_OUT = 0.05
"""Seconds after which a publisher goes to another node."""
OLD_SHARE = 0.12
"""Of the acts those of a conductor that does not have the node any more."""
RETRIES = 4
PAUSE = 0.04
LOST_FOR = 3.0
AHEAD = 0.03

_CONTEXT = multiprocessing.get_context('fork')


@dataclass(slots=True)
class Op:
    """One call of a publisher.

    :ivar start: and ``end``: on the monotonic clock.
    :ivar outcome: ok, busy (somebody holds some of it), lost (no answer, or it gave up), refused, wrong (a defect).
    :ivar offers: what may be claimed after it; None: it says nothing about that.
    :ivar scope: what it takes away; None: nothing.
    :ivar left: providers that were left as they were, since somebody holds them.
    :ivar writer: which memory it worked with: a new one after a restart.
    """

    machine: int
    who: str
    kind: str
    start: float
    end: float = 0.0
    outcome: str = 'ok'
    offers: dict[Place, int] | None = None
    scope: list[str] | None = None
    left: tuple[str, ...] = ()
    writer: str = ''
    text: str = ''
    truth: str = ''


class Shared:
    """What publishers, claimers and the runner share: memory and locks of several processes."""

    def __init__(self, machines: list[Machine]) -> None:
        self.machines = machines
        self._truths = _CONTEXT.Array('i', len(machines) * len(FIELDS), lock=False)
        self._instances = _CONTEXT.Array('c', len(machines) * 36, lock=False)
        self.mine = [_CONTEXT.Lock() for _ in machines]
        self.old = [_CONTEXT.Lock() for _ in machines]
        self.left = {side: _CONTEXT.Value('i', 0) for side in 'pc'}
        self._quota = {'p': 1, 'c': 1}
        self.lost = _CONTEXT.Array('d', len(machines), lock=False)
        for number in range(len(machines)):
            self.store(number, Truth())

    def truth(self, machine: int) -> Truth:
        """What is true of a machine now. Of a flat one ``together`` says: 0 flat, 1 nested, 2 nobody knows."""
        first = machine * len(FIELDS)
        return Truth(*self._truths[first : first + len(FIELDS)])

    def store(self, machine: int, truth: Truth) -> None:
        first = machine * len(FIELDS)
        for n, name in enumerate(FIELDS):
            self._truths[first + n] = getattr(truth, name)

    def instance(self, machine: int) -> str | None:
        """The instance that has the machine, as Ironic knows it."""
        return self._instances[machine * 36 : machine * 36 + 36].rstrip(b'\0').decode() or None

    def deploy(self, machine: int, consumer: str | None) -> None:
        self._instances[machine * 36 : machine * 36 + 36] = (consumer or '').encode().ljust(36, b'\0')

    def begin(self, publishers: int, claimers: int) -> None:
        """A round with so many operations of each."""
        self._quota = {'p': max(publishers, 1), 'c': max(claimers, 1)}
        self.left['p'].value, self.left['c'].value = publishers, claimers

    def ahead(self) -> bool:
        """The claimers have done more of theirs than the publishers: none would be left when there is something to claim."""
        claimers, publishers = (self.left[side].value / self._quota[side] for side in 'cp')
        return bool(publishers > 0 and claimers < publishers - AHEAD)

    def take(self, who: str) -> bool:
        """One operation more, if there are any left for publishers, or for claimers."""
        left = self.left[who[0]]
        with left.get_lock():
            left.value -= 1
            return bool(left.value >= 0)


def connect(url: str, who: str, *, roles: str, again: bool = False) -> adapter.Adapter:
    """A real adapter.

    :param again: it repeats what never arrived and what was answered with 503, as the documentation has it.
    """
    options: dict[str, Any] = {}
    if again:
        options = {
            'connect_retries': 3,
            'status_code_retries': 2,
            'connect_retry_delay': 0.05,
            'status_code_retry_delay': 0.05,
        }
    made = adapter.Adapter(
        session=session.Session(auth=token_endpoint.Token(url, 'admin'), timeout=60), service_type='placement', **options
    )
    made.additional_headers.update({'X-Roles': roles, 'X-Race': who})
    return made


class Player:
    """One conductor's worth of calls, one after the other."""

    def __init__(self, number: int, shared: Shared, url: str, seed: int, tell: Callable[[Op], None]) -> None:
        self.who = f'p{number:02}'
        self.shared = shared
        self._url = url
        self._tell = tell
        self.rng = random.Random(f'{seed}:{self.who}')
        self._again = number % 2 == 1
        self._restarts = 0
        self._restart()

    def _restart(self) -> None:
        self._restarts += 1
        # Role service, and no other: it has to do for all.
        client = PlacementClient(connect(self._url, self.who, roles='service', again=self._again))
        self.publisher = Publisher(client)
        self.reshaper = Reshaper(client, self.publisher)
        self.shelf = NodeWithdrawal(client)

    # ----------------------------------------------------------------------------------------------------------- one round

    def play(self) -> None:
        """Act until no operations are left."""
        while self.shared.take(self.who):
            if self.rng.random() < 0.03:
                self._restart()
            with self._lock() as (machine, mine):
                self._act(machine, mine)
            time.sleep(self.rng.random() * PAUSE)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[tuple[Machine, bool]]:
        """The lock of some node; False: somebody else has it, and we work on the node all the same.

        One who is locked out goes to another node, as Ironic has it: else all would wait for those that are being reshaped.
        """
        while True:
            machine = self.rng.choice(self.shared.machines)
            mine = machine.flat or self.rng.random() >= OLD_SHARE
            lock = (self.shared.mine if mine else self.shared.old)[machine.number]
            if lock.acquire(timeout=LOCKED_OUT):
                break
        try:
            yield machine, mine
        finally:
            lock.release()

    def _act(self, machine: Machine, mine: bool) -> None:
        if machine.flat:
            self._flat(machine)
            return
        shared, rng = self.shared, self.rng
        truth = shared.truth(machine.number)
        instance = shared.instance(machine.number)
        card = self._card(machine)
        if instance is not None:
            if rng.random() < 0.3:
                self._withdraw(machine, card, instance)
            self._publish(machine, truth, consumer=instance)
            return
        chance = rng.random()
        if not mine:
            if chance < 0.3:
                self._withdraw(machine, card)
            else:
                self._publish(machine, truth)
        elif chance < 0.30:
            self._publish(machine, truth)
        elif chance < 0.55:
            if self._withdraw(machine, card) == 'ok':
                if card == frozenset({machine.card}) and rng.random() < 0.8:
                    truth.slot0, truth.slot1 = rng.randrange(3), rng.randrange(3)
                    shared.store(machine.number, truth)
                time.sleep(rng.random() * 0.1)
            if rng.random() < 0.8:
                self._publish(machine, truth)
        elif chance < 0.65:
            self._withdraw(machine, None)
            time.sleep(rng.random() * 0.1)
            if rng.random() < 0.8:
                self._publish(machine, truth)
        elif chance < 0.73:
            self._move(machine, truth)
        elif chance < 0.80:
            name = rng.choice(('gpu0', 'gpu1', 'sound'))
            setattr(truth, name, 1 - getattr(truth, name))
            shared.store(machine.number, truth)
            self._publish(machine, truth)
        elif chance < 0.85:
            truth.present = 1 - truth.present
            shared.store(machine.number, truth)
            self._publish(machine, truth, delete_gone=rng.random() < 0.5)
        elif chance < 0.90:
            self._call(machine, 'prepare', lambda: self.publisher.prepare(machine.tree(truth)), truth=truth)
        else:
            self._other_rules(machine, truth)

    def _move(self, machine: Machine, truth: Truth) -> None:
        """As a pool does it: all of the machine or nothing, then other functions and published anew, or put back as it was."""
        try:
            seen = self.shelf.look(machine.root)
        except PlacementUnreachable:
            return
        if seen.claims or not seen.offered:
            return
        offers = {
            (o.uuid, s.resource_class): s.total - s.reserved for o in seen.offered for s in o.stocks if s.total > s.reserved
        }
        outcome = self._call(
            machine, 'shelve', lambda: self.shelf.withdraw(machine.root, seen), scope=machine.ours, all_or_nothing=True
        )
        time.sleep(self.rng.random() * 0.1)
        if outcome == 'ok' and self.rng.random() < 0.5:
            truth.slot0, truth.slot1 = self.rng.randrange(3), self.rng.randrange(3)
            self.shared.store(machine.number, truth)
            self._publish(machine, truth)
        elif outcome in ('ok', 'lost'):

            def still() -> None:
                if self.shared.instance(machine.number) is not None:
                    raise PlacementRefused('somebody has the machine')

            # A pool goes on with that for an hour: a withdrawal may be on its way until it has been done.
            self._call(
                machine,
                'put back',
                lambda: self.shelf.put_back(machine.root, seen.offered, still=still),
                offers=offers,
                retries=3 * RETRIES,
            )

    def _other_rules(self, machine: Machine, truth: Truth) -> None:
        """The rules change. Two conductors with two sets of rules are nobody's wish."""
        with self.shared.old[machine.number]:
            late = time.monotonic() - self.shared.lost[machine.number] < LOST_FOR
            # Of a request that is still on its way only who has sent it can know: all is withdrawn first.
            if late and self._withdraw(machine, None) != 'ok':
                return
            if self.rng.random() < 0.5:
                truth.together = 1 - truth.together
            else:
                truth.how = self.rng.randrange(3)
            self.shared.store(machine.number, truth)
            self._publish(machine, truth)

    def _flat(self, machine: Machine) -> None:
        truth = self.shared.truth(machine.number)
        chance = self.rng.random()
        if truth.together == 1 and chance < 0.4:
            self._publish(machine, truth)
            return
        forth = truth.together == 0 or (truth.together == 2 and chance < 0.5)
        wish = Wish(root_uuid=machine.root, wanted=machine.tree(truth) if forth else None)
        outcome = self._call(machine, 'forth' if forth else 'back', lambda: self.reshaper.apply(wish))
        truth.together = (1 if forth else 0) if outcome == 'ok' else 2
        self.shared.store(machine.number, truth)

    def finish(self, number: int, count: int) -> None:
        """Say the truth of every ``count``-th machine, until it was taken."""
        for machine in self.shared.machines[number::count]:
            truth = self.shared.truth(machine.number)
            end = time.monotonic() + 20
            while time.monotonic() < end:
                if machine.flat:
                    wish = Wish(root_uuid=machine.root, wanted=machine.tree(truth))
                    if self._call(machine, 'forth', lambda wish=wish: self.reshaper.apply(wish)) != 'ok':
                        continue
                    truth.together = 1
                    self.shared.store(machine.number, truth)
                if self._publish(machine, truth) == 'ok':
                    break

    # --------------------------------------------------------------------------------------------------------------- calls

    def _card(self, machine: Machine) -> frozenset[str]:
        return frozenset({self.rng.choice((*machine.gpus, machine.card, machine.card))})

    def _withdraw(self, machine: Machine, card: frozenset[str] | None, consumer: str | None = None) -> str:
        scope = machine.ours if card is None else machine.below(card)
        kind = 'withdraw all' if card is None else f'withdraw {machine.told(min(card))}'
        return self._call(
            machine, kind, lambda: self.publisher.withdraw(machine.root, card, consumer=consumer), scope=scope, retries=RETRIES
        )

    def _publish(self, machine: Machine, truth: Truth, consumer: str | None = None, *, delete_gone: bool = False) -> str:
        tree: ProviderTree = machine.tree(truth)
        offers = machine.offers(truth)
        kind = 'publish'
        if consumer is not None:  # somebody has the machine: nothing of it is on offer
            tree, offers, kind = providers.withdrawn(tree), {}, f'publish nothing but what {consumer} has'
        return self._call(
            machine,
            kind + (', delete what is gone' if delete_gone else ''),
            lambda: self.publisher.publish(tree, consumer=consumer, delete_gone=delete_gone),
            offers=offers,
            truth=truth,
            retries=RETRIES,
        )

    def _call(
        self,
        machine: Machine,
        kind: str,
        call: Callable[[], object],
        *,
        offers: dict[Place, int] | None = None,
        scope: list[str] | None = None,
        truth: Truth | None = None,
        retries: int = 1,
        all_or_nothing: bool = False,
    ) -> str:
        """Do it, again where waiting helps; each time is an operation of its own."""
        op = Op(machine.number, self.who, kind, 0.0)
        for _ in range(retries):
            writer = f'{os.getpid()}:{self.who}:{self._restarts}'
            told = '' if truth is None else str(truth)
            op = Op(machine.number, self.who, kind, time.monotonic(), offers=offers, scope=scope, writer=writer, truth=told)
            try:
                call()
            except InventoryInUse as exc:
                op.outcome, op.text = 'busy', str(exc)
                names = re.findall(r'provider (\S+) (?:is held|has one below|is left)', op.text)
                op.left = tuple(p for p in map(machine.named, names) if p)
                op.scope = None if all_or_nothing else scope
            except PlacementUnreachable as exc:
                op.outcome, op.text = 'lost', str(exc)
                self.shared.lost[machine.number] = time.monotonic()
            except AccError as exc:
                op.outcome, op.text = 'refused', f'{type(exc).__name__}: {exc}'
                self.shared.lost[machine.number] = time.monotonic()
            except Exception as exc:  # noqa: BLE001 - told by the judge
                op.outcome, op.text = 'wrong', repr(exc)
                self.shared.lost[machine.number] = time.monotonic()
            op.end = time.monotonic()
            self._tell(op)
            if op.outcome != 'lost':
                break
            time.sleep(self.rng.random() * 0.1)
            self.shared.take(self.who)
        return op.outcome


def run(numbers: list[int], count: int, shared: Shared, url: str, seed: int, pipe: Connection, defect: str | None) -> None:
    """The process of some publishers: obeys ``play`` and ``finish``, and sends what was done."""
    logging.getLogger('keystoneauth').setLevel(logging.CRITICAL)
    logging.getLogger('urllib3').setLevel(logging.CRITICAL)
    end_with_parent()
    broken.install(defect)
    told: list[Op] = []
    players = [Player(n, shared, url, seed, told.append) for n in numbers]
    try:
        while True:
            word = pipe.recv()
            if word == 'end':
                return
            failed: list[str] = []

            def guarded(act: Callable[[], None], failed: list[str] = failed) -> None:
                try:
                    act()
                except Exception as exc:  # noqa: BLE001 - told by the runner
                    failed.append(repr(exc))

            threads = []
            for player, number in zip(players, numbers, strict=True):
                act = player.play if word == 'play' else lambda p=player, n=number: p.finish(n, count)
                threads.append(threading.Thread(target=guarded, args=(act,)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            pipe.send((list(told), failed))
            told.clear()
    except EOFError:
        return


def start(shared: Shared, processes: int, count: int, url: str, seed: int, defect: str | None) -> list[tuple[Any, Connection]]:
    """So many publishers in some processes. To be called before any thread is started."""
    made = []
    for n in range(processes):
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(
            target=run, args=(list(range(n, count, processes)), count, shared, url, seed, theirs, defect), daemon=True
        )
        process.start()
        theirs.close()
        made.append((process, ours))
    return made

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reprogram one machine: withdraw it from placement, program its regions by an Ironic cleaning, and make it available again.

The mover reads Ironic and placement, decides (:mod:`baremetal_acc.pools.state_machine`), stores, acts, and repeats that. The
result of an act is what the next read shows.
"""

import glob
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Never

from baremetal_acc.errors import (
    AccError,
    InventoryInUse,
    IronicRefused,
    IronicUnreachable,
    PlacementError,
    PlacementUnreachable,
)
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal, WithdrawnNode
from baremetal_acc.policy.baseline_rules import FUNCTION_PREFIX
from baremetal_acc.pools.ironic import IronicApi
from baremetal_acc.pools.journal import Entry, MoveJournal
from baremetal_acc.pools.nodes import NodeRead, parse
from baremetal_acc.pools.state_machine import Act, Holds, MoveStage, MoveState, NodeSighting, following, resumed
from baremetal_acc.scheduling.pools import RegionChange, RegionMove
from baremetal_acc.scheduling.provider_names import function_class

STEP = 'program_accelerators'

POLL = timedelta(seconds=2)

SETTLES = timedelta(minutes=2)
"""How long an available machine may take until placement offers what was asked for."""

_REFUSALS = 3
"""How often an act may be refused, each time after another read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of a move.

    :ivar act: how the move ended; None where it has not ended, and the next call resumes it.
    :ivar why: the reason, for people; empty for a move that is done.
    """

    move: RegionMove
    act: Act | None
    why: str = ''

    @property
    def outcome(self) -> str:
        """The result in a word or two."""
        return 'under way' if self.act is None else self.act.value

    def __str__(self) -> str:
        name = self.move.name
        match self.act:
            case Act.DONE:
                return f'{name}: done: {", ".join(f"{c.slot_id} holds {c.function}" for c in self.move.changes)}'
            case Act.CANCELLED:
                return f'{name}: cancelled: {self.why}'
            case Act.LEFT:
                return f'{name}: left alone: {self.why}'
            case Act.FAILED:
                return f'{name}: failed: {self.why}'
            case _:
                return f'{name}: still under way, the next pool apply --execute or pool watch resumes it: {self.why}'


class _Over(Exception):
    """A move ends here, with its result."""

    def __init__(self, act: Act | None, why: str) -> None:
        self.act = act
        self.why = why
        super().__init__()


class Mover:
    """Moves machines, one at a time for each thread.

    :param say: is called with a line for each event.
    :param lasts: how long one call waits for a move.
    :param stop: is set when the process is to end: moves stop where they are, and stay stored.
    """

    def __init__(
        self,
        ironic: IronicApi,
        shelf: NodeWithdrawal,
        journal: MoveJournal,
        *,
        say: Callable[[str], None],
        lasts: timedelta,
        stop: threading.Event,
        poll: timedelta = POLL,
        settles: timedelta = SETTLES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._ironic = ironic
        self._shelf = shelf
        self._journal = journal
        self._say = say
        self._lasts = lasts
        self._stop = stop
        self._poll = poll
        self._settles = settles
        self._now = now

    def begin(self, move: RegionMove) -> Ended:
        """Execute a move from its beginning to its end."""
        return self._run(Entry(move=move, stage=MoveStage.WITHDRAW, begun=self._now()), fresh=True)

    def resume(self, entry: Entry) -> Ended:
        """Resume a move that another process has left."""
        self._say(f'{entry.move.name}: resuming the move of an earlier process at stage {entry.stage}')
        return self._run(replace(entry, begun=self._now()), fresh=False)

    def _run(self, entry: Entry, *, fresh: bool) -> Ended:
        try:
            self._turn(entry, fresh=fresh)
        except _Over as over:
            return Ended(move=entry.move, act=over.act, why=over.why)
        except AccError as exc:
            return Ended(move=entry.move, act=None, why=str(exc))

    def _turn(self, entry: Entry, *, fresh: bool) -> Never:
        """Read, decide, store and act, until the move ends.

        :raises _Over: the move has ended.
        :raises AccError: the move cannot continue now; it is stored.
        """
        done, refusals, verifying = False, 0, None
        while True:
            if self._stop.is_set():
                raise _Over(None, 'this process is stopping')
            try:
                node, seen = self._look(entry)
            except AccError as exc:
                if not exc.waiting_helps:
                    raise
                self._wait(entry, str(exc))
                continue
            if not fresh:
                entry, fresh = _resumed(entry, seen), True
            stage, act = following(entry.stage, seen, done=done)
            if stage is not entry.stage:
                entry, done, refusals = replace(entry, stage=stage, why=_why(entry, stage, node, seen)), False, 0
            if act.ends:
                self._journal.drop(entry)
                raise _Over(act, _text(entry, act, node, seen))
            if act is Act.WAIT and stage is MoveStage.RESTORE:
                if not entry.offered:
                    self._journal.drop(entry)
                    raise _Over(Act.CANCELLED, 'the node is in maintenance')
                self._journal.write(entry)
                raise _Over(None, 'the node is in maintenance; its inventory is restored in placement after that')
            if act is Act.WAIT:
                verifying = None if stage is not MoveStage.VERIFY else verifying or self._now()
                if verifying is not None and self._now() - verifying > self._settles:
                    self._journal.drop(entry)
                    raise _Over(Act.FAILED, _unverified(entry, node, seen))
                self._wait(entry, f'{entry.stage}: {"?" if node is None else node.state}')
                continue
            try:
                made = self._perform(entry, act)
                entry, done = made, made.stage is entry.stage
            except IronicRefused as exc:
                refusals += 1
                if refusals < _REFUSALS:
                    self._wait(entry, str(exc))
                    continue
                if act is Act.PROVIDE:
                    raise
                # It cannot be done: restore the inventories in placement.
                stage = MoveStage.RESTORE if act is Act.MANAGE else MoveStage.RETURN
                entry, done, refusals = replace(entry, stage=stage, why=str(exc)), False, 0
            except AccError as exc:
                if not exc.waiting_helps:
                    raise
                self._wait(entry, str(exc))

    def _wait(self, entry: Entry, why: str) -> None:
        if self._now() - entry.begun > self._lasts:
            raise _Over(None, f'not finished after {int(self._lasts.total_seconds())} s: {why}')
        self._stop.wait(self._poll.total_seconds())

    def _look(self, entry: Entry) -> tuple[NodeRead | None, NodeSighting]:
        raw = self._ironic.node(entry.move.machine)
        node = None if raw is None else parse(raw)
        if node is None:
            return None, NodeSighting(standing=MoveState.GONE, holds=Holds.OTHER)
        on = WithdrawnNode(root=False)
        if node.standing in (MoveState.AVAILABLE, MoveState.MANAGEABLE):
            on = self._shelf.look(entry.move.machine)
        return node, NodeSighting(
            standing=node.standing,
            holds=node.holds(entry.move),
            claimed=node.instance is not None or bool(on.claims),
            offered=all(_offers(on, change) for change in entry.move.changes),
            maintenance=node.maintenance,
            kept=node.kept is not None,
        )

    def _perform(self, entry: Entry, act: Act) -> Entry:
        """Store the next act, and do it.

        :raises _Over: the move ends here, and nothing of the act was done.
        :raises AccError: the act was not done, or it is unknown whether it was.
        """
        uuid, name = entry.move.machine, entry.move.name
        match act:
            case Act.WITHDRAW:
                return self._withdraw(entry)
            case Act.MANAGE:
                self._journal.write(entry)
                self._ironic.provision(uuid, 'manage')
                self._say(f'{name}: requested provision state manageable')
            case Act.CLEAN:
                self._journal.write(entry)
                self._ironic.provision(uuid, 'clean', clean_steps=clean_steps(entry.move.changes))
                self._say(f'{name}: programming {", ".join(f"{c.slot_id} with {c.function}" for c in entry.move.changes)}')
            case Act.PROVIDE:
                self._journal.write(entry)
                self._ironic.provision(uuid, 'provide')
                self._say(f'{name}: requested provision state available' + (f': {entry.why}' if entry.why else ''))
            case Act.PUT_BACK:
                self._journal.write(entry)
                self._shelf.put_back(uuid, entry.offered, still=lambda: self._check_free(uuid, name))
            case _:
                raise AssertionError(act)
        return entry

    def _check_free(self, uuid: str, name: str) -> None:
        """Check that the node is still available in Ironic, and that its conductor does not keep it withdrawn.

        :raises IronicUnreachable: it is not so: read again.
        """
        raw = self._ironic.node(uuid)
        node = None if raw is None else parse(raw)
        if node is None or node.standing is not MoveState.AVAILABLE or node.maintenance or node.kept is not None:
            raise IronicUnreachable(f'node {name} is no longer available')

    def _withdraw(self, entry: Entry) -> Entry:
        uuid = entry.move.machine
        on = self._shelf.look(uuid)
        if not on.root:
            raise _Over(Act.CANCELLED, f'placement has no root provider {uuid}, so claims of the node are unknown')
        if on.claims:
            raise _Over(Act.CANCELLED, f'the node is claimed: {on.claims[0]}')
        entry = replace(entry, offered=on.offered)
        self._journal.write(entry)
        try:
            self._shelf.withdraw(uuid, on)
        except InventoryInUse as exc:
            self._journal.drop(entry)
            raise _Over(Act.CANCELLED, exc.message) from None
        except PlacementUnreachable as exc:
            # It is unknown whether it was done.
            return replace(entry, stage=MoveStage.RESTORE, why=str(exc))
        except PlacementError as exc:
            self._journal.drop(entry)
            raise _Over(Act.FAILED, str(exc)) from None
        self._say(f'{entry.move.name}: withdrawn from placement')
        return entry


def clean_steps(changes: Iterable[RegionChange]) -> list[dict[str, Any]]:
    """Return one clean step for each card. SlotIds are escaped, since the argument takes shell patterns."""
    cards: dict[str, dict[str, str]] = {}
    for change in changes:
        cards.setdefault(change.accelerator, {})[glob.escape(change.slot_id)] = change.function
    return [
        {'interface': 'firmware', 'step': STEP, 'args': {'devices': [card], 'functions': functions}}
        for card, functions in cards.items()
    ]


def _offers(on: WithdrawnNode, change: RegionChange) -> bool:
    classes = on.offers(change.provider)
    own = function_class(change.function)
    return bool(classes) and all(c == own or not c.startswith(FUNCTION_PREFIX) for c in classes)


def _resumed(entry: Entry, seen: NodeSighting) -> Entry:
    """Return a move that another process has left, as it is resumed; with the reason where it is undone."""
    stage = resumed(entry.stage, seen)
    if entry.why is None and stage in (MoveStage.RESTORE, MoveStage.RETURN):
        return replace(entry, stage=stage, why='an earlier process was interrupted, so the move is undone')
    return replace(entry, stage=stage)


def _why(entry: Entry, stage: MoveStage, node: NodeRead | None, seen: NodeSighting) -> str | None:
    """Return why a move is being undone."""
    if entry.why is not None or stage not in (MoveStage.RESTORE, MoveStage.RETURN):
        return entry.why
    if seen.claimed:
        return 'the node was claimed during the move'
    if seen.maintenance:
        return 'the node was set to maintenance'
    return f'the node was in state {"?" if node is None else node.state} before it could be programmed'


def _text(entry: Entry, act: Act, node: NodeRead | None, seen: NodeSighting) -> str:
    """Return why a move ended in this way."""
    if act is Act.DONE:
        return ''
    if node is None:
        return 'Ironic no longer has the node'
    if act is Act.FAILED:
        what = node.last_error or f'the node is in state {node.state}'
        return f'{what}; the pools leave the node alone until an operator has repaired it and made it available'
    if act is Act.LEFT:
        return f'the node was changed outside the pools: it is in state {node.state}' + (
            ', in maintenance' if node.maintenance else ''
        )
    if seen.holds is not Holds.BEFORE:
        return f'{entry.why}; its regions no longer hold the old functions, so it stays withdrawn until it is cleaned'
    if node.kept is not None and not seen.offered:
        return f'{entry.why}; its conductor has withdrawn it from placement ({node.kept}) and publishes it again itself'
    return entry.why or f'the node is in state {node.state}'


def _unverified(entry: Entry, node: NodeRead | None, seen: NodeSighting) -> str:
    what = (
        'its functions are not available in placement' if seen.holds is Holds.AFTER else 'its new functions were not verified'
    )
    return f'{what}; see baremetal node history list {entry.move.name if node is None else node.name}'

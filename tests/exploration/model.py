# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A small pure model of a node with accelerators: what each verb may do to it, once all has come to rest.

It knows the promise, not the product: a foul card is never handed over, and nothing starts the host of a tenant beside a path
that we have opened. :func:`step` gives all that may come of a verb; None: the model does not say, and is compared with nothing.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

ENROLL, MANAGEABLE, AVAILABLE, ACTIVE, RESCUE = 'enroll', 'manageable', 'available', 'active', 'rescue'
CLEANFAIL, DEPLOYFAIL, SERVICEFAIL, ADOPTFAIL = 'clean failed', 'deploy failed', 'service failed', 'adopt failed'
INSPECTFAIL, ERROR = 'inspect failed', 'error'
RESTS = frozenset(
    {ENROLL, MANAGEABLE, AVAILABLE, ACTIVE, RESCUE, CLEANFAIL, DEPLOYFAIL, SERVICEFAIL, ADOPTFAIL, INSPECTFAIL, ERROR}
)
"""Provision states that the model knows, in Ironic's words. The model stands on its own: it loads nothing of Ironic."""


class Chain(StrEnum):
    """What the cards run: bytes of the catalogue with an unbroken chain; bytes that nobody can vouch for; somebody else's."""

    HOLDS = 'holds'
    DOUBTFUL = 'doubtful'
    FOUL = 'foul'


class Locks(StrEnum):
    """Closed; open behind our back; opened by a step of ours."""

    CLOSED = 'closed'
    LOST = 'lost'
    OPENED = 'opened'


class Tenant(StrEnum):
    """Whose the node is: nobody's; somebody's from us, by a deploy that was verified; somebody's without that."""

    NOBODY = 'nobody'
    GIVEN = 'given'
    ADOPTED = 'adopted'


class Job(StrEnum):
    """Whether a job of ours is under way."""

    NONE = 'none'
    WORKS = 'works'


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How a node stands."""

    provision: str
    on: bool
    chain: Chain
    locks: Locks
    job: Job = Job.NONE
    tenant: Tenant = Tenant.NOBODY

    @property
    def foul_if_on(self) -> 'State':
        """What runs on the host writes what it can."""
        return replace(self, chain=Chain.FOUL) if self.on and self.locks is not Locks.CLOSED else self


FIRST = State(provision=MANAGEABLE, on=False, chain=Chain.DOUBTFUL, locks=Locks.LOST)

STARTS = frozenset({'power on', 'rebooting', 'soft rebooting'})

_FROM: dict[str, frozenset[str]] = {
    'manage': frozenset({AVAILABLE, CLEANFAIL, ADOPTFAIL, INSPECTFAIL}),
    'provide': frozenset({MANAGEABLE}),
    'deploy': frozenset({AVAILABLE, DEPLOYFAIL}),
    'deploy without verification': frozenset({AVAILABLE, DEPLOYFAIL}),
    'deploy and unlock': frozenset({AVAILABLE, DEPLOYFAIL}),
    'rebuild': frozenset({ACTIVE, DEPLOYFAIL, ERROR}),
    'adopt': frozenset({MANAGEABLE, ADOPTFAIL}),
    'delete': frozenset({ACTIVE, DEPLOYFAIL, ERROR, RESCUE, SERVICEFAIL}),
    'clean: unlock': frozenset({MANAGEABLE}),
    'clean: lock': frozenset({MANAGEABLE}),
    'clean: reconcile': frozenset({MANAGEABLE}),
    'service: unlock': frozenset({ACTIVE, SERVICEFAIL}),
    'service: lock': frozenset({ACTIVE, SERVICEFAIL}),
}
"""In which states Ironic takes a provision verb. Of other verbs the model says nothing."""


def step(state: State, verb: str) -> frozenset[State] | None:
    """All that may come of a verb of whoever may ask for it; None: the model does not say."""
    if state.job is not Job.NONE:
        return None
    if verb in STARTS:
        return None if may_start(state) is None else frozenset({state})
    known = _FROM.get(verb)
    if known is None:
        found = _HAPPENS.get(verb)
        return None if found is None else frozenset(found(state))
    if state.provision not in known:
        return frozenset({state})
    return frozenset(s.foul_if_on for s in _comes(state, verb))


def may_start(state: State) -> bool | None:
    """Whether a request that starts the host may be carried out; None: that depends on what the model does not know."""
    match state.provision:
        case 'active' | 'rescue' | 'service failed' | 'deploy failed':
            if state.tenant is not Tenant.GIVEN or state.locks is Locks.OPENED:
                return False
        case 'error' | 'adopt failed':
            return False
    return None


def _comes(state: State, verb: str) -> Iterator[State]:
    free = replace(state, tenant=Tenant.NOBODY)
    match verb:
        case 'manage':
            yield replace(free, provision=MANAGEABLE)
        case 'provide' | 'delete':
            for on in (False, True):
                yield replace(free, provision=AVAILABLE, on=on, chain=Chain.HOLDS, locks=Locks.CLOSED)
            yield from _any_of(free, CLEANFAIL)
            if verb == 'delete':
                yield from _any_of(free, ERROR)
        case 'deploy' | 'rebuild' | 'deploy and unlock':  # Ironic leaves out a step that is none of a deploy
            if state.chain is Chain.HOLDS:
                for on in (False, True):
                    yield replace(state, provision=ACTIVE, on=on, locks=Locks.CLOSED, tenant=Tenant.GIVEN)
            yield from _any_of(free, DEPLOYFAIL)
        case 'deploy without verification':
            yield state
            yield from _any_of(free, DEPLOYFAIL)
        case 'adopt':
            yield replace(state, provision=ACTIVE, tenant=Tenant.ADOPTED)
            yield replace(state, provision=ADOPTFAIL)
        case 'clean: unlock':
            yield replace(state, on=False, locks=Locks.OPENED)
            yield from _any_of(free, CLEANFAIL)
        case 'clean: lock':
            for on in (False, True):
                yield replace(state, on=on, locks=Locks.CLOSED)
            yield from _any_of(free, CLEANFAIL)
        case 'clean: reconcile':
            for on in (False, True):
                yield replace(state, on=on, chain=Chain.HOLDS, locks=Locks.CLOSED)
            yield from _any_of(free, CLEANFAIL)
        case 'service: unlock':
            yield replace(state, provision=ACTIVE, on=False, locks=Locks.OPENED)
            yield from _any_of(state, SERVICEFAIL)
        case 'service: lock':
            for on in (False, True):
                yield replace(state, provision=ACTIVE, on=on, locks=Locks.CLOSED)
            yield from _any_of(state, SERVICEFAIL)


def _any_of(state: State, provision: str) -> Iterator[State]:
    """A flow has failed: what it has left open is open to nobody, but nobody knows more."""
    for on in (False, True):
        for locks in Locks:
            for chain in {state.chain, Chain.DOUBTFUL, Chain.FOUL}:
                yield replace(state, provision=provision, on=on, locks=locks, chain=chain)


def _lost(state: State) -> Iterator[State]:
    yield (state if state.locks is Locks.OPENED else replace(state, locks=Locks.LOST)).foul_if_on


def _woken(state: State) -> Iterator[State]:
    yield replace(state, on=True).foul_if_on


def _off(state: State) -> Iterator[State]:
    yield replace(state, on=False)


def _ran(state: State) -> Iterator[State]:
    yield replace(replace(state, on=True).foul_if_on, on=state.on)


_HAPPENS = {
    'the host wakes': _woken,
    'the host wakes and goes off': _ran,
    'the host goes off': _off,
    'the BMC loses the locks quickly': _lost,
    'power off': _off,
}


_DEPLOYS = frozenset({'deploy', 'rebuild', 'deploy and unlock'})


def objections(before: State, verb: str, after: State) -> list[str]:
    """What the promise has against a step."""
    found = []
    given = after != before and after.provision == ACTIVE and after.tenant is Tenant.GIVEN
    sound = after.chain is Chain.HOLDS and after.locks is Locks.CLOSED
    if given and verb in _DEPLOYS and not sound:
        found.append(f'{verb} hands over {after.chain} cards whose paths are {after.locks}')
    if verb in STARTS and may_start(before) is False and after.on and not before.on:
        found.append(f'{verb} starts the host')
    return found


VERBS = (*_FROM, *_HAPPENS, *sorted(STARTS))


def soak(sequences: int, seed: int, length: int = 20) -> int:
    """Play random sequences on the model; how many of its states these came to.

    :raises AssertionError: a step is against the promise.
    """
    chosen = random.Random(seed)
    known: dict[tuple[State, str], tuple[State, ...]] = {}
    seen = {FIRST}
    for _ in range(sequences):
        state = FIRST
        for _ in range(length):
            verb = chosen.choice(VERBS)
            if (state, verb) not in known:
                known[state, verb] = tuple(sorted(step(state, verb) or {state}, key=repr))
                wrong = [w for after in known[state, verb] for w in objections(state, verb, after)]
                assert not wrong, (state, verb, wrong)
                seen.update(known[state, verb])
            state = chosen.choice(known[state, verb])
    return len(seen)


def reachable() -> frozenset[tuple[State, str]]:
    """All edges of the model, breadth first: a state, and a verb of which it says something there."""
    edges, waiting, seen = set(), [FIRST], {FIRST}
    while waiting:
        state = waiting.pop(0)
        for verb in VERBS:
            after = step(state, verb)
            if after is None:
                continue
            edges.add((state, verb))
            new = after - seen
            seen |= new
            waiting += sorted(new, key=repr)
    return frozenset(edges)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Random sequences of what anybody can do, each by a seed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from ironic.common import states

from baremetal_acc.emulator.parts import Power
from baremetal_acc.planning import custody
from baremetal_acc_ironic.state import node_store
from tests.exploration import model
from tests.exploration.model import Chain, Locks, Tenant
from tests.exploration.verbs import BY_NAME, HAPPENINGS, REQUESTS, Verb
from tests.exploration.world import ROLES, Violation, World

_NOBODYS = frozenset(
    {
        states.ENROLL,
        states.MANAGEABLE,
        states.AVAILABLE,
        states.CLEANFAIL,
        states.CLEANING,
        states.CLEANWAIT,
        states.CLEANHOLD,
        states.INSPECTFAIL,
    }
)

VERBS = 16
"""Of a sequence."""

SENSIBLE: dict[str, tuple[tuple[str, str], ...]] = {
    states.ENROLL: (('system admin', 'manage'),),
    states.MANAGEABLE: (
        ('system admin', 'provide'),
        ('system admin', 'provide'),
        ('system admin', 'provide'),
        ('system admin', 'clean: unlock'),
        ('system admin', 'clean: lock'),
        ('system admin', 'clean: accept'),
        ('system admin', 'clean: allow a start'),
        ('system admin', 'power on'),
        ('system admin', 'provide'),
        ('system admin', 'adopt'),
    ),
    states.AVAILABLE: (('nova', 'deploy'), ('nova', 'deploy'), ('nova', 'deploy'), ('system admin', 'manage')),
    states.ACTIVE: (
        ('lessee member', 'power on'),
        ('lessee member', 'rebooting'),
        ('nova', 'delete'),
        ('nova', 'delete'),
        ('lessee admin', 'delete'),
        ('lessee admin', 'rebuild'),
        ('lessee admin', 'rescue'),
        ('system admin', 'service: unlock'),
        ('system admin', 'service: unlock and lock'),
        ('system admin', 'service: lock'),
        ('system admin', 'service: update'),
        ('system admin', 'service: reconcile'),
    ),
    states.RESCUE: (('lessee admin', 'unrescue'), ('nova', 'delete'), ('lessee member', 'rebooting')),
    states.CLEANFAIL: (('system admin', 'no maintenance'), ('system admin', 'manage')),
    states.INSPECTFAIL: (('system admin', 'manage'),),
    states.ADOPTFAIL: (('system admin', 'manage'),),
    states.DEPLOYFAIL: (('nova', 'delete'), ('nova', 'deploy'), ('lessee admin', 'rebuild')),
    states.SERVICEFAIL: (
        ('system admin', 'no maintenance'),
        ('system admin', 'service: lock'),
        ('system admin', 'service: reconcile'),
        ('system admin', 'abort'),
        ('nova', 'delete'),
    ),
    states.RESCUEFAIL: (('lessee admin', 'unrescue'), ('nova', 'delete')),
    states.UNRESCUEFAIL: (('lessee admin', 'unrescue'), ('nova', 'delete')),
    states.ERROR: (('nova', 'delete'), ('lessee admin', 'rebuild')),
    states.CLEANHOLD: (('system admin', 'unhold'),),
    states.CLEANWAIT: (('system admin', 'abort'),),
    states.SERVICEWAIT: (('system admin', 'abort'),),
}
"""What leads on, by provision state."""

PAUSES: tuple[tuple[float, float], ...] = ((0.0, 0.2), (10.0, 0.15), (40.0, 0.15), (-1.0, 0.38), (400.0, 0.08), (1000.0, 0.04))
"""Seconds that pass after a verb, and how often; -1: until no step waits and no job works."""


class Player(World):
    """Plays sequences."""

    def choose(self) -> tuple[str, Verb]:
        """A role and a request."""
        state = self.node.provision_state
        dice = self.random.random()
        if dice < 0.6 and state in SENSIBLE:
            if self.node.maintenance and self.random.random() < 0.6:
                return 'system admin', BY_NAME['no maintenance']
            role, name = self.random.choice(SENSIBLE[state])
            return role, BY_NAME[name]
        role = self.random.choice(list(ROLES))
        if dice < 0.85:
            fitting = [v for v in REQUESTS if state in v.states or not v.states]
            return role, self.random.choice(fitting)
        return role, self.random.choice(REQUESTS)

    def pause(self) -> None:
        """Time passes."""
        seconds = self.random.choices([p for p, _ in PAUSES], [w for _, w in PAUSES])[0]
        if seconds < 0:
            self.settle_down(1800)
        else:
            self.pass_time(seconds)

    def one(self) -> None:
        """One verb, and what passes after it."""
        if self.random.random() < 0.27:
            name = self.random.choice(list(HAPPENINGS))
            self.tell(f'-- {name}')
            self.figures[name] += 1
            HAPPENINGS[name](self)
            self.site.look_around()
            self.node.refresh()
            self.tell(f'   {self.stands()}')
            self.maybe_crashing(self.pause)
        else:
            role, verb = self.choose()
            self.tell(f'-- {role}: {verb.name}')

            before, starts, dead = self.as_modelled(), self.starts, self.figures['crashes']
            codes: list[int] = []

            def ask() -> None:
                codes.append(verb.do(self, role))
                self.figures[f'{verb.name}: {"done" if codes[0] < 300 else "refused"}'] += 1

            self.maybe_crashing(ask)
            self.maybe_crashing(self.pause)
            if codes and dead == self.figures['crashes'] and not self.violations:
                self.compare(before, verb, role, codes[0], starts)

    def as_modelled(self) -> model.State | None:
        """How the node stands, in the words of the model; None: something is under way, or is not in it."""
        node, place = self.node, self.site
        if node.provision_state not in model.RESTS or self.job is not None or node.maintenance or node.reservation:
            return None
        if place.machine.next_due() is not None or place.machine.is_bmc_down('host'):
            return None
        return self.in_words()

    def in_words(self) -> model.State:
        """How the node stands, in the words of the model, whatever is under way."""
        node, place = self.node, self.site
        state = node_store.load(node)
        whole = bool(state.custody.cards) and all(custody.holds(card, place.now) for card in state.custody.cards)
        free = node.provision_state in _NOBODYS
        return model.State(
            provision=node.provision_state,
            on=place.host.power in (Power.ON, Power.POWERING_ON),
            chain=Chain.FOUL if place.foul else Chain.HOLDS if whole else Chain.DOUBTFUL,
            locks=Locks.OPENED if state.opened is not None else Locks.LOST if place.open_since else Locks.CLOSED,
            job=model.Job.NONE if self.job is None else model.Job.WORKS,
            tenant=Tenant.NOBODY if free else Tenant.GIVEN if state.proven is not None else Tenant.ADOPTED,
        )

    def compare(self, before: model.State | None, verb: Verb, role: str, code: int, starts: int) -> None:
        """Model and reality have to say the same of a request, where both say something and nothing came between."""
        if before is None:
            return
        if verb.name in model.STARTS:
            if model.may_start(before) is False:
                self.figures['compared with the model'] += 1
                if self.starts > starts:
                    self.wrong(f'{verb.name} of {role} starts the host, and the model says no: {before}')
            return
        if code >= 300:
            return  # by policy, or for a reason that the model does not know: what does not run hands nothing over
        after = model.step(before, verb.name)
        if after is None or self.node.provision_state not in model.RESTS:
            return
        self.figures['compared with the model'] += 1
        if self.node.provision_state not in {s.provision for s in after}:
            said = sorted({s.provision for s in after})
            self.wrong(f'{verb.name} of {role} leads to {self.node.provision_state}, and the model says {said}: {before}')

    def maybe_crashing(self, do: Callable[[], Any]) -> None:
        """Sometimes the conductor dies in it."""
        if self.random.random() < 0.04:
            number, after = self.random.randint(1, 12), self.random.random() < 0.5
            self.figures['crashes'] += self.crashing(number, do, after=after)
        else:
            do()

    def play(self, seed: int, verbs: int = VERBS) -> Counter[str]:  # type: ignore[override]
        """One sequence.

        :raises Violation: something was that must never be; tells the story.
        """
        self.begin(seed)
        self.site.keeps_time = self.random.random() < 0.75
        if self.random.random() < 0.3:
            self.edit('system admin', ('add', '/owner', 'a' * 32))
        try:
            if self.random.random() < 0.7:
                self.provision('system admin', 'provide')
                self.settle_down(1800)
            for _ in range(verbs):
                self.one()
                self.check()
            self.settle_down(1800)
            self.check()
        except Violation:
            raise
        except Exception as exc:
            raise Violation('\n'.join([f'the world fails: {type(exc).__name__}: {exc}', *self.story])) from exc
        self.figures['sequences'] += 1
        self.figures['verbs'] += verbs
        return self.figures

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every request of everybody in every state in which a node can rest.

What Ironic's own policy and state machine refuse is foretold from these two (:func:`foretold`) and has to be refused, with the
node and its host as they were. All else runs, and the oracle of the world judges what comes of it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from ironic.common import policy, state_machine, states

from tests.exploration.play import Player
from tests.exploration.seeded import active, ask, available, happens, spoil
from tests.exploration.snapshot import Snapshot, bring_back, take
from tests.exploration.verbs import BY_NAME, Verb
from tests.exploration.world import ROLES, World
from tests.ironic.api import OWNER


class Foretold(StrEnum):
    """What Ironic by itself says to a request."""

    POLICY = 'refused by policy'
    STATE = 'refused by the state machine'
    RUNS = 'runs'


# ------------------------------------------------------------------------------------------------------------- the states


def _in_the_middle(world: World, begin: Callable[[], Any], wanted: str) -> None:
    begin()
    for _ in range(100):
        if world.node.provision_state == wanted and world.job is not None and world.site.open_since:
            return
        world.pass_time(1.0)
    raise AssertionError('\n'.join(world.story))


def _cleaning(world: World) -> None:
    _in_the_middle(world, lambda: world.provision('system admin', 'provide'), states.CLEANWAIT)


def _cleaning_failed(world: World) -> None:
    _cleaning(world)
    happens(world, 'the host wakes and goes off')
    world.settle_down()


def _spoilt(world: World) -> None:
    available(world)
    spoil(world)


def _deploying(world: World) -> None:
    available(world)
    happens(world, 'the BMC loses the locks quickly')
    ask_only(world, 'nova', 'deploy')


def _deploy_failed(world: World) -> None:
    _spoilt(world)
    ask(world, 'nova', 'deploy', 202)


def _active_off(world: World) -> None:
    active(world)
    ask(world, 'lessee member', 'power off', 202)


def _active_open(world: World) -> None:
    active(world)
    ask(world, 'system admin', 'service: unlock', 202)


def _active_spoilt(world: World) -> None:
    active(world)
    happens(world, 'the BMC loses the locks quickly')


def _servicing(world: World) -> None:
    active(world)
    ask_only(world, 'system admin', 'service: unlock and lock')


def _service_failed(world: World) -> None:
    active(world)
    rule = world.site.machine.add_fault({'name': 'lock-ignored'})
    happens(world, 'the BMC loses the locks quickly')
    ask(world, 'system admin', 'service: lock')
    world.site.machine.faults.remove(rule.id)


def _rescuing(world: World) -> None:
    active(world)
    ask(world, 'lessee admin', 'rescue', 202)


def _rescued(world: World) -> None:
    _rescuing(world)
    world.heartbeat()


def _unlocked(world: World) -> None:
    available(world)
    ask(world, 'system admin', 'manage', 202)
    ask(world, 'system admin', 'clean: unlock', 202)


def _allowed(world: World) -> None:
    ask(world, 'system admin', 'clean: allow a start', 202)


def _adopted(world: World) -> None:
    ask(world, 'system admin', 'adopt', 202)


def _adoption_failed(world: World) -> None:
    world.node.provision_state = states.ADOPTFAIL
    world.node.save()


def _in_error(world: World) -> None:
    active(world)
    world.node.provision_state = states.ERROR
    world.node.save()


def _enrolled(world: World) -> None:
    world.node.provision_state = states.ENROLL
    world.node.save()


def ask_only(world: World, role: str, verb: str) -> None:
    """A request, and no time after it."""
    assert BY_NAME[verb].do(world, role) == 202, '\n'.join(world.story)


STATES: Mapping[str, Callable[[World], None]] = {
    'enroll': _enrolled,
    'manageable': lambda _: None,
    'manageable, unlocked': _unlocked,
    'manageable, a start allowed': _allowed,
    'available': available,
    'available, spoilt': _spoilt,
    'cleaning': _cleaning,
    'clean failed': _cleaning_failed,
    'deploying': _deploying,
    'deploy failed': _deploy_failed,
    'active': active,
    'active, off': _active_off,
    'active, unlocked': _active_open,
    'active, spoilt': _active_spoilt,
    'adopted': _adopted,
    'adoption failed': _adoption_failed,
    'servicing': _servicing,
    'service failed': _service_failed,
    'rescuing': _rescuing,
    'rescue': _rescued,
    'error': _in_error,
}
"""How to come to each state. What a conductor is in the middle of is locked to everybody, and is no state of its own here."""

# ------------------------------------------------------------------------------------------------------------- foretelling

_RULES = {'clean': 'set_provision_state:clean_steps', 'service': 'set_provision_state:service_steps'}


def allowed(world: World, role: str, rule: str) -> bool:
    """Ironic's own policy has nothing against it."""
    headers = ROLES[role]
    credentials = {
        'roles': headers['X-Roles'].split(','),
        'system_scope': headers.get('OpenStack-System-Scope'),
        'project_id': headers.get('X-Project-ID'),
        'user_id': headers['X-User-Id'],
    }
    target = {'node.owner': world.node.owner, 'node.lessee': world.node.lessee}
    return bool(policy.get_enforcer().enforce(f'baremetal:node:{rule}', target | credentials, credentials, do_raise=False))


def foretold(world: World, verb: Verb, role: str) -> Foretold:
    """What Ironic by itself says to a request, by its policy and its state machine; patches are left to it."""
    if verb.power is not None:
        return Foretold.RUNS if allowed(world, role, 'set_power_state') else Foretold.POLICY
    if verb.target is None:
        return Foretold.RUNS
    if not allowed(world, role, 'set_provision_state'):
        return Foretold.POLICY
    machine = state_machine.machine.copy()
    machine.initialize(start_state=world.node.provision_state)
    event = states.VERBS.get(verb.target, verb.target)
    return Foretold.RUNS if machine.is_actionable_event(event) else Foretold.STATE


# ------------------------------------------------------------------------------------------------------------- playing


class PairPlayer(Player):
    """Plays pairs."""

    _reached: tuple[str, Snapshot] | None = None

    def reach(self, name: str) -> Snapshot:
        """Come to a state."""
        self.begin(900_000 + list(STATES).index(name))
        self.edit('system admin', ('add', '/owner', OWNER))
        STATES[name](self)
        self.check()
        return take(self)

    def pair(self, name: str, snapshot: Snapshot, role: str, verb: Verb, *, whole: bool) -> Foretold:
        """One request of one role in a state; whole: until all has come to rest, and a start of the host is asked for."""
        bring_back(self, snapshot)
        self.tell(f'-- in {name}: {role}: {verb.name}')
        said = foretold(self, verb, role)
        before = self._as_it_is()
        code = verb.do(self, role)
        if said is not Foretold.RUNS and not (code >= 400 and self._unchanged(before, verb)):
            self.wrong(f'in {name} {role} asks for {verb.name}, which is {said}, and is answered {code}')
        if code < 300 and whole:
            self.settle_down(1800)
            self.pass_time(30)
            self.power('lessee admin', states.POWER_ON)
            self.site.go_on(timedelta(seconds=30))
        self.check()
        return said

    def _as_it_is(self) -> tuple[Any, ...]:
        node, place = self.node, self.site
        versions = tuple((key, c.active and c.active.digest) for key, c in place.cards_of.items())
        return node.provision_state, node.power_state, place.host.power, place.host.resets, versions, sorted(place.open_since)

    def _unchanged(self, before: tuple[Any, ...], verb: Verb) -> bool:
        # Preparing a deploy lets no time pass, but what the product has asked of the BMC before may have come.
        return before == self._as_it_is()

    def pairs(self, name: str, verb: str) -> None:
        """A request of each role in a state. Of roles that Ironic lets do the same one of each kind is played to the end."""
        if self._reached is None or self._reached[0] != name:
            self._reached = name, self.reach(name)
        self.figures = Counter()
        played: set[str] = set()
        for role in ROLES:
            kind = 'operator' if role.startswith(('system', 'nova')) else role.split()[0]
            said = self.pair(name, self._reached[1], role, BY_NAME[verb], whole=kind not in played)
            self.figures[f'pairs: {said}'] += 1
            if said is Foretold.RUNS:
                played.add(kind)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every request and every happening in every state that they lead to, breadth first, on Ironic's real API and conductor.

States are told apart by :class:`tests.exploration.model.State`, and each is reached by the first path that leads there. Of what
Ironic's policy and state machine refuse nothing is asked here: :mod:`tests.exploration.pairs` does that for each role.
"""

from collections import Counter
from collections.abc import Mapping

from tests.exploration.pairs import Foretold, PairPlayer, foretold
from tests.exploration.paths import parted, state_name
from tests.exploration.snapshot import bring_back, take
from tests.exploration.verbs import BY_NAME, HAPPENINGS, Verb
from tests.exploration.world import SYNC, WAITS, WATCH, Violation
from tests.ironic.api import OWNER

ASKERS = ('lessee member', 'lessee admin', 'owner admin', 'nova', 'system admin')
"""Who asks, the one who may least first: whoever Ironic and the product let."""

AT_REST, DIES_BEFORE, DIES_AFTER = 'time passes', 'the conductor dies before it saves', 'the conductor dies after it has saved'

LONG = 2 * WATCH + 2 * SYNC
"""Seconds in which two rounds of the watch and of Ironic's power synchronisation come."""

VERBS = (*BY_NAME, *HAPPENINGS, AT_REST, DIES_BEFORE, DIES_AFTER)

SEED = 700_000


class EdgePlayer(PairPlayer):
    """Plays what leads from a state."""

    def expand(self, path: str) -> tuple[str, Mapping[str, str]]:
        """Do everything that can be done at the end of a path.

        :param path: of :mod:`tests.exploration.paths`.
        :return: the state there, and by verb the state that it leads to; verbs that Ironic by itself refuses are left out.
        :raises Violation: something was that must never be; tells all that was, and how it came.
        """
        self.begin(SEED)
        self.edit('system admin', ('add', '/owner', OWNER))
        for verb in parted(path):
            self.act(verb)
        self.check()
        here = self.in_words()
        snapshot = take(self)
        self.figures = Counter()
        found: dict[str, str] = {}
        wrong: list[str] = []
        for verb in VERBS:
            bring_back(self, snapshot)
            self.tell(f'-- after {path or "nothing"}: {verb}')
            try:
                played = self.act(verb)
                self.check()
            except Violation as exc:
                wrong.append(str(exc))
                continue
            if played:
                self.figures['edges'] += 1
                found[verb] = state_name(self.in_words())
        if wrong:
            raise Violation('\n\n'.join(wrong))
        return state_name(here), found

    def act(self, verb: str) -> bool:
        """Do one thing; whether anything was done."""
        if verb in BY_NAME:
            return self._ask(BY_NAME[verb])
        if verb in HAPPENINGS:
            HAPPENINGS[verb](self)
            self.site.look_around()
        elif verb == AT_REST:
            self.settle_down(1800)
            self.pass_time(LONG)
        else:
            if self.job is None:
                return False
            self.figures['crashes'] += self.crashing(1, lambda: self.settle_down(600), after=verb == DIES_AFTER)
        self.node.refresh()
        return True

    def _ask(self, verb: Verb) -> bool:
        for role in ASKERS:
            if foretold(self, verb, role) is not Foretold.RUNS:
                continue
            before, starts = self.as_modelled(), self.starts
            code = verb.do(self, role)
            if code == 403:
                continue
            self.figures['requests done' if code < 300 else 'requests refused'] += 1
            if code < 300:
                self._go_on_until_open()
            self.compare(before, verb, role, code, starts)
            return True
        return False

    def _go_on_until_open(self) -> None:
        """What a job does to the locks is a state of its own; what does not open any is watched for a while."""
        for _ in range(20):
            if (self.node.provision_state not in WAITS and self.job is None) or self.site.open_since:
                return
            self.pass_time(1.0)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Nobody gets a node with bytes that nobody knows, or with an open path; and that is noticed if a guard is gone."""

import os
from collections.abc import Callable

import pytest

from tests.exploration import model
from tests.exploration.edges import EdgePlayer
from tests.exploration.paths import Search, parted
from tests.exploration.play import Player
from tests.exploration.seeded import KINDS, Seeded, certificate_of_the_tenant_before
from tests.exploration.world import World

FIRST, COUNT = 1000, 4

ALL = 'BAREMETAL_ACC_SOAK' in os.environ
"""Also the stories of the guards with all guards in place, which ``make soak-exploration`` asks for."""


class SeededCase(World):
    """Guards, with and without."""

    @pytest.fixture(autouse=True)
    def _taking(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def tell_story(self, kind: Seeded, *, without: bool) -> None:
        """What leads to a guard."""
        path = self._folder / 'baseline.toml'
        path.write_text(self.baseline.replace('custody = "required"', f'custody = "{kind.custody}"'))
        self.begin(7)
        if without:
            kind.take_away(self._patch)
        kind.story(self)

    def found(self, name: str) -> None:
        """The oracle finds a violation without the guard."""
        kind = KINDS[name]
        self.tell_story(kind, without=True)
        assert any(kind.says in violation for violation in self.violations), '\n'.join(self.story)

    def not_found(self, name: str) -> None:
        """And none with it."""
        self.tell_story(KINDS[name], without=False)
        self.check()


class TestSeeded(SeededCase):
    """Each guard that is taken away shows."""


class TestGuarded(SeededCase):
    """The same stories with all guards."""


def _found(name: str) -> Callable[[SeededCase], None]:
    def test(self: SeededCase) -> None:
        self.found(name)

    test.__doc__ = f'{KINDS[name].what}: that is found.'
    return test


def _not_found(name: str) -> Callable[[SeededCase], None]:
    def test(self: SeededCase) -> None:
        self.not_found(name)

    test.__doc__ = f'Not with all guards, where without one {KINDS[name].what}.'
    return test


for _name in KINDS:
    _word = _name.replace(' ', '_').replace('-', '_')
    setattr(TestSeeded, f'test_without_{_word}', _found(_name))
    if ALL:
        setattr(TestGuarded, f'test_with_{_word}', _not_found(_name))


def test_no_sequence_of_the_model_breaks_the_promise() -> None:
    """Each step is asked once; the model is a small one, all of whose states are reached."""
    seen = model.soak(5_000, 1)
    assert 100 < seen <= len({state for state, _ in model.reachable()})


def test_the_search_goes_on_from_each_state_once() -> None:
    """By the first path that leads there; what leads to another state when it is gone again is counted."""
    search = Search()
    search.expanded({'': ('a', {'left': 'b', 'right': 'c', 'stay': 'a'})})
    assert ['left', 'right'] == search.level
    search.expanded({'left': ('b', {'right': 'c', 'on': 'd'}), 'right': ('x', {'left': 'a'})})
    assert ['left > on'] == search.level
    assert ['left', 'on'] == parted(search.level[0])
    assert {'a': '', 'b': 'left', 'c': 'right', 'd': 'left > on', 'x': 'right'} == search.reached
    assert ('b', 'right', 'c') in search.edges
    assert 6 == len(search.edges)
    assert 1 == search.strayed


class TestEdges(EdgePlayer):
    """Everything that can be done in one state."""

    def test_what_leads_from_a_clean_machine(self) -> None:
        """Requests are done and refused, a deploy hands it over, and a host that wakes shows."""
        here, found = self.expand('provide > time passes')
        assert 'available, on, holds, closed, none, nobody' == here
        assert 'active, on, holds, closed, none, given' == found['deploy']
        assert 'available, off, holds, closed, none, nobody' == found['the host goes off']
        assert 'available, on, foul, lost, none, nobody' == found['the BMC loses the locks quickly']
        assert 'rescue' not in found  # Ironic by itself refuses that
        assert self.figures['requests done']
        assert self.figures['requests refused']


class TestKnown(SeededCase):
    """Violations that the exploration has found, and that were mended."""

    def test_an_adopted_node_has_no_certificate_of_the_tenant_before(self) -> None:
        """Its cards are open, and nobody has verified it."""
        self.begin(7)
        certificate_of_the_tenant_before(self)
        self.check()


class TestSequences(Player):
    """Some random sequences, always the same ones."""

    def test_no_sequence_hands_over_what_is_wrong(self) -> None:
        """And they are worth playing: nodes are handed over, and starts are refused."""
        for seed in range(FIRST, FIRST + COUNT):
            self.play(seed)

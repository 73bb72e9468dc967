# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Paths of verbs from the first state, and the breadth-first search over what they lead to. Loads nothing of Ironic."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field

from tests.exploration.model import State

_THEN = ' > '


def parted(path: str) -> list[str]:
    """The verbs of a path."""
    return path.split(_THEN) if path else []


def longer(path: str, verb: str) -> str:
    """A path with one more verb."""
    return f'{path}{_THEN}{verb}' if path else verb


def state_name(state: State) -> str:
    """A state in a line."""
    provision, on, *others = astuple(state)
    return ', '.join((provision, 'on' if on else 'off', *(str(other) for other in others)))


@dataclass
class Search:
    """What was found so far.

    :ivar reached: by state the first path that leads there.
    :ivar edges: state, verb, and the state that it leads to.
    :ivar level: the paths whose ends are to be expanded now.
    :ivar strayed: paths that, when they were gone again, led to another state.
    """

    reached: dict[str, str] = field(default_factory=dict)
    edges: set[tuple[str, str, str]] = field(default_factory=set)
    level: list[str] = field(default_factory=lambda: [''])
    strayed: int = 0

    def expanded(self, found: Mapping[str, tuple[str, Mapping[str, str]]]) -> None:
        """Go on to the next level.

        :param found: by path of this level the state at its end, and by verb the state that it leads to.
        """
        new: list[str] = []
        expected = {path: state for state, path in self.reached.items()}
        for path in (p for p in self.level if p in found):
            here, after = found[path]
            self.strayed += expected.get(path, here) != here
            self.reached.setdefault(here, path)
            for verb, there in after.items():
                self.edges.add((here, verb, there))
                if there not in self.reached:
                    self.reached[there] = longer(path, verb)
                    new.append(self.reached[there])
        self.level = new

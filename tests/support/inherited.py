# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a class of ours needs of the private parts of a library's class that it extends, and whether it is there."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Members:
    """What a class defines, and what its methods do to ``self``: by method, the names that they set and that they use."""

    defined: set[str] = field(default_factory=set)
    sets: dict[str, set[str]] = field(default_factory=dict)
    uses: dict[str, set[str]] = field(default_factory=dict)

    @property
    def has(self) -> set[str]:
        """Every name that it defines, or sets in any method."""
        return self.defined.union(*self.sets.values())


def members(source: str, name: str) -> Members:
    """The members of a class of that source.

    :raises LookupError: it has no such class.
    """
    tree = ast.parse(source)
    found = next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name), None)
    if found is None:
        raise LookupError(f'class {name}')
    all_of_it = Members()
    for one in found.body:
        if isinstance(one, ast.FunctionDef):
            all_of_it.defined.add(one.name)
            all_of_it.sets[one.name], all_of_it.uses[one.name] = set(), set()
            for node in ast.walk(one):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == 'self':
                    kind = all_of_it.uses if isinstance(node.ctx, ast.Load) else all_of_it.sets
                    kind[one.name].add(node.attr)
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            all_of_it.defined |= {t.id for t in targets if isinstance(t, ast.Name)}
    return all_of_it


def missing(ours: Members, theirs: Members) -> set[str]:
    """What our class takes from theirs, and what is not there."""
    return set().union(*ours.uses.values()) - ours.has - theirs.has


def reached(ours: Members, theirs: Members) -> set[str]:
    """The methods of theirs that run: those that ours calls, and what they call in turn, unless ours has its own."""
    wanted = set().union(*ours.uses.values())
    found: set[str] = set()
    while new := (wanted & theirs.uses.keys()) - ours.defined - found:
        found |= new
        wanted |= set().union(*(theirs.uses[name] for name in new))
    return found


def unset(ours: Members, theirs: Members) -> Iterator[tuple[str, str]]:
    """What a method of theirs that runs uses of ``self``, and what nobody has set: the method, and the name."""
    runs = reached(ours, theirs)
    has = ours.has | theirs.defined | set().union(*(theirs.sets[name] for name in runs))
    for method in sorted(runs):
        for name in sorted(theirs.uses[method] - has):
            yield method, name

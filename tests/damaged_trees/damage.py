# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with one link or member of a tree: each kind says which resources are others then, if it applies."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.damaged_trees.tree import Body, Place, Tree, links_of, plain

Changed = dict[str, Body | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One change of a tree.

    :ivar folds: the BMC takes URIs in any case.
    """

    kind: str
    what: str
    changed: Changed
    folds: bool = False


class _Spot:
    """A link in a copy of the resource that has it, ready to be changed."""

    def __init__(self, tree: Tree, place: Place) -> None:
        self.tree, self.place = tree, place
        self.body = json.loads(tree.answers[place.uri])
        self.holder, self.name = list(links_of(self.body))[place.number]

    @property
    def link(self) -> str:
        return str(self.holder[self.name]['@odata.id'])

    def done(self) -> Changed:
        return {self.place.uri: self.body}

    def siblings(self) -> list[str]:
        """Others that are in the same collection as what it leads to, and are there."""
        above = self.place.target.rpartition('/')[0]
        return [uri for uri in sorted(self.tree.bodies) if uri.rpartition('/')[0] == above and uri != self.place.target]


def delete(spot: _Spot) -> Changed | None:
    """It is gone; what counts it still does."""
    del spot.holder[spot.name]
    return spot.done()


def delete_counted(spot: _Spot) -> Changed | None:
    """It is gone, and the count next to it agrees."""
    if not spot.place.listed:
        return None
    for parent in _dicts(spot.body):
        for name, value in list(parent.items()):
            count = f'{name}@odata.count'
            if value is spot.holder and isinstance(parent.get(count), int):
                del spot.holder[spot.name]
                parent[count] -= 1
                return spot.done()
    return None


def duplicate(spot: _Spot) -> Changed | None:
    """It stands twice in its array."""
    if not spot.place.listed:
        return None
    spot.holder.append(spot.holder[spot.name])
    return spot.done()


def rename(spot: _Spot) -> Changed | None:
    """It leads to nothing."""
    spot.holder[spot.name] = {'@odata.id': spot.link + 'X'}
    return spot.done()


def recase(spot: _Spot) -> Changed | None:
    """It is written in another case."""
    spot.holder[spot.name] = {'@odata.id': spot.link.swapcase().replace('/REDFISH/V1', '/redfish/v1')}
    return spot.done()


def sibling(spot: _Spot) -> Changed | None:
    """It leads to another one of the same collection."""
    others = spot.siblings()
    if not others:
        return None
    spot.holder[spot.name] = {'@odata.id': others[0]}
    return spot.done()


def impostor(spot: _Spot) -> Changed | None:
    """What it leads to answers as another one of the same collection does."""
    others = spot.siblings()
    return {spot.place.target: spot.tree.bodies[others[0]]} if others and spot.place.target in spot.tree.bodies else None


def claim(spot: _Spot) -> Changed | None:
    """What it leads to says that its URI is that of another one of the same collection."""
    others, body = spot.siblings(), spot.tree.bodies.get(spot.place.target)
    return {spot.place.target: body | {'@odata.id': others[0]}} if others and isinstance(body, dict) else None


def absent(spot: _Spot) -> Changed | None:
    """What it leads to says that it is not there."""
    body = spot.tree.bodies.get(spot.place.target)
    if not isinstance(body, dict) or 'Members' in body:
        return None
    status = body.get('Status')
    return {spot.place.target: body | {'Status': (status if isinstance(status, dict) else {}) | {'State': 'Absent'}}}


KINDS: dict[str, Callable[[_Spot], Changed | None]] = {
    'deleted': delete,
    'deleted and not counted': delete_counted,
    'duplicated': duplicate,
    'renamed': rename,
    're-cased': recase,
    're-cased, in any case': recase,
    'contradicted: another member': sibling,
    'contradicted: answers as another': impostor,
    'contradicted: the URI of another': claim,
    'contradicted: absent': absent,
}

_OF_TARGETS = frozenset({'contradicted: answers as another', 'contradicted: the URI of another', 'contradicted: absent'})
"""What changes the resource at the other end: once for all links that lead there."""


def damages(tree: Tree, asked: set[str]) -> Iterator[Callable[[], Damage | None]]:
    """Every damage to what a look asks for, in one order for all time. Nothing is copied before it is called for.

    :param asked: what a look at the whole tree asked for: nothing else can change what it finds.
    """
    done: set[tuple[str, str]] = set()
    for place in tree.places:
        for kind in KINDS:
            key = (kind, place.target)
            if kind in _OF_TARGETS and (key in done or place.target not in asked):
                continue
            if kind not in _OF_TARGETS and place.uri not in asked:
                continue
            done.add(key)
            yield _later(tree, place, kind)


def _later(tree: Tree, place: Place, kind: str) -> Callable[[], Damage | None]:
    def make() -> Damage | None:
        spot = _Spot(tree, place)
        what = f'{kind}: {place.uri} {spot.name} -> {spot.link}'
        changed = KINDS[kind](spot)
        if changed is None or all(tree.bodies.get(uri) == body for uri, body in changed.items()):
            return None
        return Damage(kind=kind, what=what, changed=changed, folds=kind == 're-cased, in any case')

    return make


def _dicts(body: Any) -> Iterator[dict[str, Any]]:
    if isinstance(body, dict):
        yield body
    for value in body.values() if isinstance(body, dict) else body if isinstance(body, list) else ():
        yield from _dicts(value)


def shown(service_body: Callable[[str], Body | None], root: str) -> set[str]:
    """URIs of all resources to which links lead from the root, but what says that it is absent, and what lies below that."""
    found: set[str] = set()
    waiting = [root]
    while waiting:
        uri = waiting.pop()
        body = service_body(uri)
        if uri in found or not isinstance(body, dict):
            continue
        found.add(uri)
        waiting += [plain(holder[name]['@odata.id']) for holder, name in links_of(body)]
    gone = tuple(uri for uri in found if _state(service_body(uri)) == 'Absent')
    return {uri for uri in found if not any(uri == one or uri.startswith(f'{one}/') for one in gone)}


def _state(body: Body) -> object:
    status = body.get('Status') if isinstance(body, dict) else None
    return status.get('State') if isinstance(status, dict) else None

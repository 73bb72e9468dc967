# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which functions does a request ask for?

Somebody asked placement for a function and found none: Nova tells it in a notification, others tell the query itself. What is
read here is a flavor or a query of allocation candidates, as Nova and placement read them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import parse_qsl

from baremetal_acc.decide.baseline import FUNCTION_PREFIX
from baremetal_acc.decide.pool import Demand
from baremetal_acc.decide.providers import CAN_PREFIX, PREFIX, function_class
from baremetal_acc.errors import UsageError

MOST_OF_A_REQUEST = 64
"""Functions that one request counts for, at most. A flavor for one machine asks for a few."""

MOST_FIELDS = 256
"""Fields of a query, or of a flavor, that are read."""

_EXTRA_SPEC = re.compile(r'(resources|trait)([A-Za-z0-9_-]{1,64})?:(.*)', re.DOTALL)
"""Source: nova 34.0.0, scheduler/utils.py, ResourceRequest.XS_KEYPAT."""

_QUERY = re.compile(r'(resources|required)([A-Za-z0-9_-]{1,64})?')
"""Source: placement 16.0.0, schemas/allocation_candidate.py, of microversion 1.33 and later."""

_SUCH_AS = 'such as resources=CUSTOM_GOLD:1&resources_ACC=CUSTOM_ACC_FN_AES:1'

_AMOUNT = re.compile(r'[0-9]{1,9}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What of functions a request asks for.

    :ivar functions: names in the catalogue, one for each region that it needs.
    :ivar resource_class: what the machine is asked for as; None: it names none.
    :ivar notes: what of it is no demand, and why, for people.
    """

    functions: tuple[str, ...] = ()
    resource_class: str | None = None
    notes: tuple[str, ...] = ()

    def demands(self, request: str, at: datetime) -> tuple[Demand, ...]:
        """A demand for each function; a request for one has its own id, else they are counted.

        :param request: what it is called: the same one told twice is one.
        """
        names = [request] if len(self.functions) == 1 else [f'{request}/{n + 1}' for n in range(len(self.functions))]
        return tuple(
            Demand(id=name, function=function, at=at, resource_class=self.resource_class, of=len(names))
            for name, function in zip(names, self.functions, strict=True)
        )


@dataclass(slots=True)
class _Group:
    """One group of a request: what one provider has to have."""

    suffix: str
    resources: dict[str, int] = field(default_factory=dict)
    traits: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def asks_for_function(self) -> bool:
        return any(n.startswith(PREFIX) for n in [*self.resources, *(t for several in self.traits for t in several)])


def _group(groups: dict[str, _Group], suffix: str | None) -> _Group:
    """The group of that suffix; that of the machine has none."""
    return groups.setdefault(suffix or '', _Group(suffix or ''))


def of_name(name: str, functions: Iterable[str]) -> str | None:
    """The function that is meant by its name, or by its class in placement; None: none of these.

    What placement has one name for is one function: case and punctuation do not count.
    """
    meant = (name, _class(name))
    return next((f for f in sorted(functions) if name.casefold() == f.casefold() or (_class(f) or f) in meant), None)


def _class(function: str) -> str | None:
    """Its class in placement; None: placement can have no name for it."""
    try:
        return function_class(function)
    except UsageError:
        return None


def of_flavor(extra_specs: Mapping[str, str], functions: Iterable[str], image_traits: Iterable[str] = ()) -> Asked:
    """What the extra specs of a flavor ask for, as Nova reads them.

    :param functions: those that the catalogue knows.
    :param image_traits: what the image requires: Nova adds it to what the machine itself has to have.
    """
    groups: dict[str, _Group] = {}
    notes = _too_many(len(extra_specs))
    for key, value in list(extra_specs.items())[:MOST_FIELDS]:
        match = _EXTRA_SPEC.fullmatch(key)
        if match is None:
            continue
        what, suffix, name = match[1], match[2], match[3]
        group = _group(groups, suffix)
        if what == 'trait':
            if value == 'required':
                group.traits.append((name,))
        elif _AMOUNT.fullmatch(value):
            group.resources[name] = int(value)
        else:
            notes.append(f'{_shown(key)}: {_shown(value)} is no number')
    for name in image_traits:
        _group(groups, '').traits.append((name,))
    return _asked(groups.values(), functions, notes)


def of_query(query: str, functions: Iterable[str]) -> Asked:
    """What a query of allocation candidates asks for: ``resources_ACC=CUSTOM_ACC_FN_AES:1&...``, alone or in its URL.

    :param functions: those that the catalogue knows.
    :raises UsageError: it is no such query.
    """
    try:
        fields = parse_qsl(query.rpartition('?')[2], strict_parsing=True, max_num_fields=MOST_FIELDS)
    except ValueError as exc:
        raise UsageError(argument='query', what=f'is none of allocation candidates: {exc}', hint=_SUCH_AS) from None
    groups: dict[str, _Group] = {}
    notes: list[str] = []
    for key, value in fields:
        match = _QUERY.fullmatch(key)
        if key == 'root_required':
            _group(groups, '').traits.extend(_required(value))
        elif match is not None and match[1] == 'required':
            _group(groups, match[2]).traits.extend(_required(value))
        elif match is not None:
            group = _group(groups, match[2])
            for part in value.split(','):
                name, _, amount = part.partition(':')
                if _AMOUNT.fullmatch(amount):
                    group.resources[name] = int(amount)
                else:
                    notes.append(f'{_shown(key)}: {_shown(part)} is no class with its number')
    if not any(group.resources for group in groups.values()):
        raise UsageError(argument='query', what='asks for no resources', hint=_SUCH_AS)
    return _asked(groups.values(), functions, notes)


def _required(value: str) -> Iterator[tuple[str, ...]]:
    """The traits that have to be there; of those of one tuple any will do. One that must not be there begins with ``!``."""
    if value.startswith('in:'):
        yield tuple(value.removeprefix('in:').split(','))
    else:
        yield from ((name,) for name in value.split(','))


def _asked(groups: Iterable[_Group], functions: Iterable[str], notes: list[str]) -> Asked:
    groups = sorted(groups, key=lambda g: g.suffix)
    known = {function_class(f): f for f in sorted(functions, reverse=True)}
    found: list[str] = []
    loose: list[str] = []
    for group in groups:
        classes = [name for name, amount in group.resources.items() if name.startswith(FUNCTION_PREFIX) and amount]
        for name in classes:
            if group.resources[name] > 1:
                notes.append(
                    f'{group.resources[name]} {_shown(name)} in one group: no region has more than one, so that none can ever '
                    f'answer it; use one group for each'
                )
            else:
                found.extend(_known(name, known, notes))
        for several in group.traits:
            found_here = _of_traits(several, classes, known, notes)
            (found if _of_region(group) else loose).extend(found_here)
    found.extend(f for f in dict.fromkeys(loose) if f not in found)
    if len(found) > MOST_OF_A_REQUEST:
        notes.append(f'it asks for {len(found)} functions, of which {MOST_OF_A_REQUEST} count')
    resource_class = _machine_class(groups, notes) if found else None
    return Asked(functions=tuple(found[:MOST_OF_A_REQUEST]), resource_class=resource_class, notes=tuple(notes))


def _of_traits(several: Sequence[str], classes: Iterable[str], known: Mapping[str, str], notes: list[str]) -> Iterator[str]:
    """The function that a region has to hold because of one required trait, or of several of which one will do."""
    named = [t for t in several if t.startswith(FUNCTION_PREFIX)]
    notes.extend(
        f'{_shown(t)}: a region that can be given a function need not hold it, and is programmed for its tenant'
        for t in several
        if t.startswith(CAN_PREFIX)
    )
    if len(named) < len(several) or any(t in classes for t in named):
        return
    good = [t for t in named if t in known]
    if len(several) > 1 and good:
        notes.append(f'any of {", ".join(map(_shown, several))} would do: {good[0]} counts')
    for trait in good[:1] or named:
        yield from _known(trait, known, notes)


def _of_region(group: _Group) -> bool:
    """One provider has to have what the group asks for: what is required of it, it has to hold itself."""
    return bool(group.suffix) and any(group.resources.values())


def _known(name: str, known: Mapping[str, str], notes: list[str]) -> Iterator[str]:
    if name in known:
        yield known[name]
    else:
        notes.append(f'{_shown(name)}: the catalogue knows no such function')


def _machine_class(groups: Sequence[_Group], notes: list[str]) -> str | None:
    """The class of the node itself: one of the operator's own, asked for once, in the group of the machine if it has one."""
    loose = [g for g in groups if not g.suffix]
    others = [g for g in groups if g.suffix and not g.asks_for_function]
    for several in (loose, others):
        names = {
            name
            for group in several
            for name, amount in group.resources.items()
            if name.startswith('CUSTOM_') and not name.startswith(PREFIX) and amount == 1
        }
        if len(names) == 1:
            return names.pop()
        if names:
            notes.append(f'any of {", ".join(map(_shown, sorted(names)))} may be the class of the machine: all machines count')
            return None
    return None


def _too_many(number: int) -> list[str]:
    return [f'it has {number} extra specs, of which {MOST_FIELDS} are read'] if number > MOST_FIELDS else []


def _shown(text: str) -> str:
    """For a message: a name may be anything."""
    return text if len(text) <= 80 and text.isascii() and text.isprintable() else ascii(text[:80])

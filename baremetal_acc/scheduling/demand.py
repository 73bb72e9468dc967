# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the FPGA functions that a flavor asks for from its extra specs, as Nova reads them.

If no host has the functions, Nova sends a notification that contains the flavor.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from baremetal_acc.errors import UsageError
from baremetal_acc.policy.baseline_rules import FUNCTION_PREFIX
from baremetal_acc.scheduling.pools import Demand
from baremetal_acc.scheduling.provider_names import CAN_PREFIX, PREFIX, function_class

MOST_OF_A_REQUEST = 64
"""Maximum number of functions that one request counts for. A flavor for one machine asks for a few."""

MOST_FIELDS = 256
"""Maximum number of extra specs of a flavor that are read."""

_EXTRA_SPEC = re.compile(r'(resources|trait)([A-Za-z0-9_-]{1,64})?:(.*)', re.DOTALL)
"""Source: nova 34.0.0, scheduler/utils.py, ResourceRequest.XS_KEYPAT."""

_AMOUNT = re.compile(r'[0-9]{1,9}')


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFunctions:
    """The functions that a request asks for.

    :ivar functions: names in the catalogue, one for each region that the request needs.
    :ivar resource_class: resource class of the machine that is asked for; None if the request names none.
    :ivar notes: which parts of the request are no demand, and why, for people.
    """

    functions: tuple[str, ...] = ()
    resource_class: str | None = None
    notes: tuple[str, ...] = ()

    def demands(self, request: str, at: datetime) -> tuple[Demand, ...]:
        """Return a demand for each function. The demand of a single function has the id of the request; several are numbered.

        :param request: id of the request: a request that is reported twice is one demand.
        """
        names = [request] if len(self.functions) == 1 else [f'{request}/{n + 1}' for n in range(len(self.functions))]
        return tuple(
            Demand(id=name, function=function, at=at, resource_class=self.resource_class, of=len(names))
            for name, function in zip(names, self.functions, strict=True)
        )


@dataclass(slots=True)
class _Group:
    """One request group of a flavor: what one provider has to have."""

    suffix: str
    resources: dict[str, int] = field(default_factory=dict)
    traits: list[str] = field(default_factory=list)

    @property
    def asks_for_function(self) -> bool:
        return any(name.startswith(PREFIX) for name in (*self.resources, *self.traits))


def _group(groups: dict[str, _Group], suffix: str | None) -> _Group:
    """Return the group of a suffix, new if there is none yet; the group of the machine has no suffix."""
    return groups.setdefault(suffix or '', _Group(suffix or ''))


def of_name(name: str, functions: Iterable[str]) -> str | None:
    """Return the function that a name, or a resource class, means; None if it is none of these functions.

    Functions that have one name in placement are one function: case and punctuation are ignored.
    """
    meant = (name, _class(name))
    return next((f for f in sorted(functions) if name.casefold() == f.casefold() or (_class(f) or f) in meant), None)


def _class(function: str) -> str | None:
    """Return the resource class of a function; None if placement can have no name for it."""
    try:
        return function_class(function)
    except UsageError:
        return None


def of_flavor(extra_specs: Mapping[str, str], functions: Iterable[str], image_traits: Iterable[str] = ()) -> AskedFunctions:
    """Return what the extra specs of a flavor ask for, as Nova reads them.

    :param functions: the functions in the catalogue.
    :param image_traits: traits that the image requires: Nova adds them to those that the machine itself has to have.
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
                group.traits.append(name)
        elif _AMOUNT.fullmatch(value):
            group.resources[name] = int(value)
        else:
            notes.append(f'{_shown(key)}: {_shown(value)} is not a number')
    for name in image_traits:
        _group(groups, '').traits.append(name)
    return _asked(groups.values(), functions, notes)


def _asked(groups: Iterable[_Group], functions: Iterable[str], notes: list[str]) -> AskedFunctions:
    groups = sorted(groups, key=lambda g: g.suffix)
    known = {function_class(f): f for f in sorted(functions, reverse=True)}
    found: list[str] = []
    loose: list[str] = []
    for group in groups:
        classes = [name for name, amount in group.resources.items() if name.startswith(FUNCTION_PREFIX) and amount]
        for name in classes:
            if group.resources[name] > 1:
                notes.append(
                    f'{group.resources[name]} {_shown(name)} in one group can never be met, since a region has at most one; '
                    f'use one group for each'
                )
            else:
                found.extend(_known(name, known, notes))
        for trait in group.traits:
            (found if _of_region(group) else loose).extend(_of_trait(trait, classes, known, notes))
    found.extend(f for f in dict.fromkeys(loose) if f not in found)
    if len(found) > MOST_OF_A_REQUEST:
        notes.append(f'the flavor requests {len(found)} functions, of which {MOST_OF_A_REQUEST} count')
    resource_class = _machine_class(groups, notes) if found else None
    return AskedFunctions(functions=tuple(found[:MOST_OF_A_REQUEST]), resource_class=resource_class, notes=tuple(notes))


def _of_trait(trait: str, classes: Iterable[str], known: Mapping[str, str], notes: list[str]) -> Iterator[str]:
    """Yield the function that a region has to hold because of a required trait."""
    if trait.startswith(CAN_PREFIX):
        notes.append(f'{_shown(trait)}: no demand, since the region is programmed when the instance is deployed')
    elif trait.startswith(FUNCTION_PREFIX) and trait not in classes:
        yield from _known(trait, known, notes)


def _of_region(group: _Group) -> bool:
    """Whether one provider has to have all that the group asks for: then it has to have the required traits itself."""
    return bool(group.suffix) and any(group.resources.values())


def _known(name: str, known: Mapping[str, str], notes: list[str]) -> Iterator[str]:
    if name in known:
        yield known[name]
    else:
        notes.append(f'{_shown(name)}: no such function in the catalogue')


def _machine_class(groups: Sequence[_Group], notes: list[str]) -> str | None:
    """Return the operator's resource class of the node that is requested once; None if there is none, or more than one.

    The unnumbered group is preferred.
    """
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
            notes.append(
                f'unclear which of {", ".join(map(_shown, sorted(names)))} is the class of the node: nodes of all classes count'
            )
            return None
    return None


def _too_many(number: int) -> list[str]:
    return [f'the flavor has {number} extra specs, of which {MOST_FIELDS} are read'] if number > MOST_FIELDS else []


def _shown(text: str) -> str:
    """Limit and escape a name for a message."""
    return text if len(text) <= 80 and text.isascii() and text.isprintable() else ascii(text[:80])

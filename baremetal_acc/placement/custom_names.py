# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Create custom resource classes and traits in placement, and check that the standard ones exist."""

import itertools
from collections.abc import Iterable, Sequence
from http import HTTPStatus

from baremetal_acc.errors import PlacementRefused
from baremetal_acc.model.provider import Call, SetInventories, SetTraits
from baremetal_acc.placement import schemas
from baremetal_acc.placement.answers import changed_or_refused
from baremetal_acc.placement.client import PlacementClient

NAMES_AT_ONCE = 4000
"""Most characters of trait names in one GET: web servers accept request lines of 8190 (Apache's LimitRequestLine)."""


class CustomNames:
    """Creates custom resource classes and traits, and remembers which names placement knows."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client
        self._declared: set[str] = set()

    def forget(self, classes: Iterable[str] | None = None, traits: Iterable[str] | None = None) -> None:
        """Forget that placement knows these names; all names, where none are given."""
        if classes is None and traits is None:
            self._declared.clear()
            return
        named = (('resource_classes', classes or ()), ('traits', traits or ()))
        self._declared -= {f'/{kind}/{name}' for kind, of in named for name in of}

    def look_up(self, classes: Iterable[str]) -> None:
        """Ask placement for all of its classes at once, where more than one of these is not known yet."""
        if len([name for name in classes if f'/resource_classes/{name}' not in self._declared]) > 1:
            known = schemas.classes(self._client.get('/resource_classes'))
            self._declared.update(f'/resource_classes/{name}' for name in known)

    def declare_for(self, calls: Iterable[Call]) -> None:
        """Create what calls name: placement refuses a call with a name that it does not know."""
        calls = tuple(calls)
        classes = {i.resource_class for c in calls if isinstance(c, SetInventories) for i in c.inventories}
        self.declare(classes, {t for c in calls if isinstance(c, SetTraits) for t in c.traits})

    def declare(self, classes: Iterable[str], traits: Iterable[str]) -> Iterable[str]:
        """Create custom classes and traits, and check that the standard ones exist.

        :returns: the custom names that were created, as far as known.
        """
        made = []
        traits = sorted(traits)
        self._known_traits([t for t in traits if f'/traits/{t}' not in self._declared])
        for kind, names in (('resource_classes', classes), ('traits', traits)):
            for name in sorted(names):
                path = f'/{kind}/{name}'
                if path in self._declared:
                    continue
                if not name.startswith('CUSTOM_'):
                    if self._client.get(path).status == HTTPStatus.NOT_FOUND:
                        raise PlacementRefused(
                            f'placement does not know {name}',
                            hint=f'{kind.replace("_", " ")} of your own begin with CUSTOM_; a newer placement may have it',
                        )
                else:
                    answer = self._client.request('PUT', path)
                    if not answer.ok:
                        raise changed_or_refused('PUT', path, answer)
                    made.append(name)
                self._declared.add(path)
        return made

    def _known_traits(self, names: Sequence[str]) -> None:
        """Ask in bulk which traits placement has: one GET for each would be most of a first publication."""
        asked: list[str] = []
        for name, following in itertools.pairwise([*names, '']):
            asked.append(name)
            if not following or sum(map(len, asked)) + len(following) > NAMES_AT_ONCE:
                answer = self._client.get('/traits', name=f'in:{",".join(asked)}')
                self._declared.update(f'/traits/{name}' for name in schemas.traits(answer))
                asked = []

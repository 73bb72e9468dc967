# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Defects to put into the publishers' processes, each of which the judge has to notice."""

import threading
from typing import Any

from baremetal_acc.errors import PlacementError
from baremetal_acc.placement import provider_cache, publish, schemas
from baremetal_acc.placement.client import PlacementAnswer, PlacementClient
from baremetal_acc.scheduling import providers


def _slots_are_forgotten() -> None:
    """A card is withdrawn without its slots."""
    providers.with_descendants = lambda published, roots: frozenset(roots)


def _withdrawn_in_a_moment() -> None:
    """It is said to be withdrawn before it is."""
    withdraw = publish.Publisher.withdraw

    def later(self: publish.Publisher, *arguments: Any, **other: Any) -> publish.PublishResult:
        def act() -> None:
            try:
                withdraw(self, *arguments, **other)
            except PlacementError:
                return

        timer = threading.Timer(0.5, act)
        timer.daemon = True
        timer.start()
        return publish.PublishResult(calls=())

    publish.Publisher.withdraw = later  # type: ignore[method-assign]


def _status_is_ignored() -> None:
    """What was sent is taken for done, whatever placement said, and nothing is looked at afterwards."""
    request = PlacementClient.request

    def blind(self: PlacementClient, method: str, path: str, **other: Any) -> PlacementAnswer:
        answer = request(self, method, path, **other)
        if method == 'PUT' and path.endswith('/inventories') and not answer.ok:
            body = {'resource_provider_generation': 0, 'inventories': other['body']['inventories']}
            return PlacementAnswer(status=200, code=None, body=body)
        return answer

    PlacementClient.request = blind  # type: ignore[method-assign]
    read = provider_cache.ProviderCache.read

    def believed(self: provider_cache.ProviderCache, root: str, known: frozenset[str]) -> Any:
        return self.cached(root) or read(self, root, known)

    provider_cache.ProviderCache.read = believed  # type: ignore[method-assign]


def _other_claims_are_dropped() -> None:
    """A reshape names what it moves, and forgets what else its consumer has."""
    encode = schemas.encode_consumer

    def bare(consumer: Any) -> dict[str, Any]:
        body = encode(consumer)
        for own in body['allocations'].values():
            if len(own['resources']) > 1 or len(body['allocations']) > 1:
                own['resources'] = {c: n for c, n in own['resources'].items() if c == 'PGPU'}
        body['allocations'] = {p: own for p, own in body['allocations'].items() if own['resources']}
        return body

    schemas.encode_consumer = bare


def _roots_are_written() -> None:
    """Whoever publishes writes the root, too, though it changes nothing."""
    converge = publish.Publisher.publish

    def more(self: publish.Publisher, tree: Any, **other: Any) -> Any:
        path = f'/resource_providers/{tree.root_uuid}/inventories'
        answer = self._client.get(path)
        self._client.request('PUT', path, body=dict(answer.body))
        return converge(self, tree, **other)

    publish.Publisher.publish = more  # type: ignore[method-assign]


DEFECTS = {
    'slots are forgotten': _slots_are_forgotten,
    'withdrawn in a moment': _withdrawn_in_a_moment,
    'status is ignored': _status_is_ignored,
    'other claims are dropped': _other_claims_are_dropped,
    'roots are written': _roots_are_written,
}


def install(name: str | None) -> None:
    """Put a defect into this process."""
    if name is not None:
        DEFECTS[name]()

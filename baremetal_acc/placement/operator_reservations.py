# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Note what an operator has reserved of a provider before its inventory is withdrawn, and find the providers that need no note.

The notes are traits of the provider (:mod:`baremetal_acc.scheduling.reservations`). Placement has no request that returns the
inventories of many providers, but one that lists all providers with a free unit of a class.
"""

import logging
import threading
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus

from baremetal_acc.errors import PlacementError
from baremetal_acc.model.provider import Provider
from baremetal_acc.placement import schemas
from baremetal_acc.placement.answers import PlacementChanged, changed_or_refused
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.custom_names import CustomNames
from baremetal_acc.scheduling import reservations
from baremetal_acc.scheduling.provider_names import TOGETHER

LOG = logging.getLogger(__name__)


class UnreservedProviders:
    """Providers of one device each that have a free unit, as placement lists them: nothing of them is reserved.

    Placement is asked once for each class, for the whole cloud: it would compare all providers for each node, too. Threads may
    share it.
    """

    def __init__(self) -> None:
        self._generations: dict[str, int | None] = {}
        self._classes: set[str] = set()
        self._lock = threading.Lock()

    def includes(self, provider: Provider) -> bool:
        """Whether nothing of a provider is reserved. False also where that is not known.

        :param provider: as it was read, with its generation. Any change of ``reserved`` since the list gives another one.
        """
        return provider.generation is not None and self._generations.get(provider.uuid) == provider.generation

    def lists(self, uuid: str) -> bool:
        """Whether a provider had a free unit when placement was asked."""
        return uuid in self._generations

    def ask(self, client: PlacementClient, classes: Iterable[str]) -> None:
        """List the providers of classes that were not asked for yet. Where placement cannot list them, none is known."""
        with self._lock:
            for name in sorted(frozenset(classes) - self._classes):
                self._classes.add(name)
                try:
                    self._generations |= {p.uuid: p.generation for p in _with_a_free_unit(client, name)}
                except PlacementError as exc:
                    LOG.info('The providers with a free unit of %s are read one by one: %s', name, exc)


def _with_a_free_unit(client: PlacementClient, resource_class: str) -> tuple[Provider, ...]:
    """Return the providers with a free unit, without those of ours that count several devices.

    :raises PlacementError: placement cannot be read.
    """
    query = {'resources': f'{resource_class}:1'}
    # Placement refuses a query for a trait that it does not know; then no provider has the trait.
    if client.get(f'/traits/{TOGETHER}').status != HTTPStatus.NOT_FOUND:
        query['required'] = f'!{TOGETHER}'
    return schemas.summaries(client.get('/resource_providers', **query))


def note_reserved(client: PlacementClient, provider: Provider, generation: int) -> int:
    """Note what an operator has reserved of a provider, if anything is.

    :param provider: with its inventories; its traits are read.
    :param generation: of the inventories.
    :returns: the generation of the provider afterwards.
    :raises PlacementChanged: the provider was changed meanwhile, or deleted. It has an error where placement failed.
    :raises PlacementError: placement cannot be read, or refuses.
    """
    if not any(i.reserved for i in provider.inventories):
        return generation
    path = f'/resource_providers/{provider.uuid}/traits'
    answer = client.get(path)
    if answer.status == HTTPStatus.NOT_FOUND or schemas.generation(answer) != generation:
        raise PlacementChanged
    traits = schemas.traits(answer)
    noted = frozenset(t for t in traits if not reservations.is_note(t)) | reservations.noted(replace(provider, traits=traits))
    if noted == traits:
        return generation
    CustomNames(client).declare((), noted - traits)
    answer = client.request('PUT', path, body={'resource_provider_generation': generation, 'traits': sorted(noted)})
    if answer.ok:
        return schemas.generation(answer)
    if answer.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
        raise PlacementChanged
    raise changed_or_refused('PUT', path, answer)

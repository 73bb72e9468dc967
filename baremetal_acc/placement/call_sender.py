# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send calls to placement with the generation that was read, and make it refuse earlier calls that were never answered."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, assert_never

from baremetal_acc.errors import PlacementRefused, PlacementUnreachable
from baremetal_acc.model.provider import (
    Call,
    CreateProvider,
    DeleteProvider,
    MoveProvider,
    Provider,
    ProviderTree,
    SetInventories,
    SetTraits,
)
from baremetal_acc.placement import namesake, schemas
from baremetal_acc.placement.answers import InventoryHeld, PlacementChanged, ProviderNeeded, accepted
from baremetal_acc.placement.client import CANNOT_DELETE_PARENT, DUPLICATE_NAME, RESHAPER, PlacementAnswer, PlacementClient
from baremetal_acc.placement.provider_cache import ProviderCache

LOG = logging.getLogger(__name__)


class CallSender:
    """Sends calls to placement, and remembers which of its writes may still be accepted late."""

    def __init__(self, client: PlacementClient, cache: ProviderCache) -> None:
        self._client = client
        self._cache = cache
        self._unanswered: dict[str, int | None] = {}  # by provider, the generations of writes that may still be accepted
        self._settled: dict[str, int | None] = {}  # generations that our own writes made: earlier requests are refused
        self._may_reshape = True

    def send(self, root: str, call: Call, seen: dict[str, Provider], *, busy: bool) -> None:
        """Send one call with the generation that was read, and store the result that placement answers.

        :param seen: the providers as they were read; updated in place.
        :raises InventoryHeld: a consumer holds inventory that the call removes.
        :raises ProviderNeeded: it deletes a provider, and one below that is held.
        :raises PlacementChanged: placement has changed since it was read.
        """
        path = f'/resource_providers/{call.uuid}'
        body: dict[str, Any]
        match call:
            case CreateProvider():
                body = {'uuid': call.uuid, 'name': call.name, 'parent_provider_uuid': call.parent_uuid}
                answer = self._client.request('POST', '/resource_providers', body=body)
                if answer.code == DUPLICATE_NAME:
                    raise self._duplicate(root, call)
                seen[call.uuid] = schemas.provider(accepted(answer, 'POST', '/resource_providers').body)
            case MoveProvider():
                body = {'name': call.name, 'parent_provider_uuid': call.parent_uuid}
                accepted(self._client.request('PUT', path, body=body), 'PUT', path)
            case SetInventories():
                path += '/inventories'
                own = seen[call.uuid]
                sent = {i.resource_class: schemas.encode(i) for i in call.inventories}
                body = {'resource_provider_generation': own.generation, 'inventories': sent}
                answer = self._answered({call.uuid: own.generation}, 'PUT', path, body=body)
                accepted(answer, 'PUT', path)
                seen[call.uuid] = replace(own, inventories=schemas.inventories(answer), generation=schemas.generation(answer))
                self._settled[call.uuid] = seen[call.uuid].generation
            case SetTraits():
                path += '/traits'
                own = seen[call.uuid]
                body = {'resource_provider_generation': own.generation, 'traits': sorted(call.traits)}
                answer = accepted(self._client.request('PUT', path, body=body), 'PUT', path)
                seen[call.uuid] = replace(own, traits=schemas.traits(answer), generation=schemas.generation(answer))
            case DeleteProvider():
                answer = self._client.request('DELETE', path)
                if answer.code == CANNOT_DELETE_PARENT and busy:
                    raise ProviderNeeded
                if answer.status != HTTPStatus.NOT_FOUND:
                    accepted(answer, 'DELETE', path)
                del seen[call.uuid]
            case _:
                assert_never(call)
        self._cache.keep_last(root, call.uuid, seen.get(call.uuid))

    def send_offers(self, root: str, offers: Sequence[SetInventories], seen: dict[str, Provider]) -> bool:
        """Send several offers as one call. False where nothing was sent, since one call would save nothing, or is forbidden.

        Only offers that remove and reserve nothing may be sent so: POST /reshaper does not check ``reserved`` against what is
        there (placement 16.0.0).

        :raises PlacementChanged: placement has changed since it was read.
        """
        if len(offers) < 2 or not self._may_reshape:
            return False
        body = {
            'inventories': {
                offer.uuid: {
                    'resource_provider_generation': seen[offer.uuid].generation,
                    'inventories': {i.resource_class: schemas.encode(i) for i in offer.inventories},
                }
                for offer in offers
            },
            'allocations': {},
        }
        sent = {offer.uuid: seen[offer.uuid].generation for offer in offers}
        answer = self._answered(sent, 'POST', RESHAPER, body=body, may_be_forbidden=True)
        if answer.status == HTTPStatus.FORBIDDEN:
            LOG.info('placement: POST /reshaper needs the role service; inventories are written one by one')
            self._may_reshape = False
            return False
        try:
            accepted(answer, 'POST', RESHAPER)
        except InventoryHeld:
            raise PlacementChanged from None  # the offers remove nothing, so a provider has changed since it was read
        for offer in offers:
            own = seen[offer.uuid]
            # Each generation rises by two, or by more where the provider has consumers: then it is read again.
            after = None if own.generation is None else own.generation + 2
            seen[offer.uuid] = replace(
                own, inventories=tuple(sorted(offer.inventories, key=lambda i: i.resource_class)), generation=after
            )
            self._cache.keep(root, seen[offer.uuid])
        return True

    def barriers(self, actual: ProviderTree, calls: Sequence[Call], closed: frozenset[str]) -> list[SetInventories]:
        """Return writes that change nothing, but keep out earlier requests that were never answered."""
        written = {call.uuid for call in calls}
        found = []
        for provider in actual.providers:
            known = provider.generation
            unanswered = self._unanswered.get(provider.uuid, -1) == known
            unsettled = provider.uuid in closed and not provider.inventories and self._settled.get(provider.uuid, -1) != known
            if provider.uuid not in written and (unanswered or unsettled):
                same = tuple(replace(i, altered=False) for i in provider.inventories)
                found.append(SetInventories(uuid=provider.uuid, name=provider.name, inventories=same))
        return found

    def _answered(self, generations: Mapping[str, int | None], method: str, path: str, **other: Any) -> PlacementAnswer:
        """Send a write of inventory, and remember it until it is answered. A 5xx of a proxy leaves its fate unknown, too.

        :param generations: the generations in the write, by provider.
        """
        try:
            answer = self._client.request(method, path, **other)
        except PlacementUnreachable:
            self._unanswered.update(generations)
            raise
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._unanswered.update(generations)
        return answer

    def _duplicate(self, root: str, call: CreateProvider) -> Exception:
        """Return the error for a duplicate provider name.

        Another publisher may just have created it; a provider below another root is not ours to move.
        """
        answer = self._client.get(f'/resource_providers/{call.uuid}')
        if answer.status == HTTPStatus.NOT_FOUND:
            other = namesake.find(self._client, call.name, call.uuid)
            if other is None:
                return PlacementChanged()  # it was deleted meanwhile
            return PlacementRefused(f'placement has another provider with the name {call.name}: {other}', hint=other.hint)
        if str(answer.body.get('root_provider_uuid')) == root:
            return PlacementChanged()
        return PlacementRefused(
            f'placement has provider {call.uuid} ({call.name}) below another root provider than {root}',
            hint=f'delete it: openstack resource provider delete {call.uuid}',
        )

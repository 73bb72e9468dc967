# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Withdraw providers of many nodes from placement in few requests: one POST for many providers, and few GETs
(:mod:`baremetal_acc.placement.provider_list`).

A fleet whose firmware was denied has to be withdrawn within a minute, which :mod:`baremetal_acc.placement.publish` cannot do:
it reads every inventory before it writes, and again afterwards. Here placement's reshaper removes all inventory of up to
:data:`AT_A_TIME` providers in one transaction. Each is written with the generation that was read, so that a claim that is made
at the same time is refused, or refuses the write. What a consumer holds is not touched, and is returned: the publisher reserves
it.

What an operator has reserved is noted before it is withdrawn, so that a later publication reserves it again. Only the
inventories of those providers are read of which placement does not list a free unit
(:class:`baremetal_acc.placement.operator_reservations.UnreservedProviders`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from baremetal_acc.errors import PlacementError, PlacementRefused, PlacementUnreachable
from baremetal_acc.model.provider import Provider
from baremetal_acc.placement import operator_reservations, provider_reader, schemas
from baremetal_acc.placement.answers import PlacementChanged
from baremetal_acc.placement.client import RESHAPER, PlacementClient, refusal
from baremetal_acc.placement.operator_reservations import UnreservedProviders
from baremetal_acc.placement.provider_list import ProviderList

AT_A_TIME = 100
"""Providers in one POST. Placement takes 2 ms for each, and holds all of them in one transaction until it answers."""

ATTEMPTS = 3
"""How often a provider is read and written again where somebody else writes to it, too."""

_PASSING = (HTTPStatus.CONFLICT, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
"""Answers that are about the state of some provider: it is claimed, was changed, or was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep has achieved for one node.

    :ivar kept: UUIDs of the providers that may still offer something: a consumer holds part of them, or others keep writing.
    :ivar error: why the node could not be swept; None where it was.
    """

    root: str
    kept: frozenset[str] = frozenset()
    error: PlacementError | None = None

    @property
    def is_done(self) -> bool:
        """Whether none of the providers offers anything."""
        return not self.kept and self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReadings:
    """What all parts of a sweep have read of placement. Threads may share it.

    :ivar listed: the providers of the nodes.
    :ivar unreserved: the providers of which nothing is reserved.
    """

    listed: ProviderList = field(default_factory=ProviderList)
    unreserved: UnreservedProviders = field(default_factory=UnreservedProviders)


class ProviderSweep:
    """Empties providers of many nodes. Threads may share it.

    :param known: what was learned by an earlier part of the same sweep.
    """

    def __init__(self, client: PlacementClient, known: SweepReadings | None = None) -> None:
        self._client = client
        self._known = SweepReadings() if known is None else known

    def empty(self, wanted: Mapping[str, frozenset[str]]) -> Iterator[Swept]:
        """Remove the inventory of providers.

        The nodes after one for which placement did not answer are not asked about: each would wait for as long.

        :param wanted: UUIDs of providers by the UUID of their root. Providers that do not exist offer nothing.
        """
        found: dict[str, dict[str, int | None]] = {}
        errors: dict[str, PlacementError] = {}
        silent: PlacementUnreachable | None = None
        for root, uuids in wanted.items():
            try:
                if silent is not None:
                    raise silent
                found[root] = self._generations(uuids, self._known.listed.below(self._client, root))
            except PlacementUnreachable as exc:
                silent = errors[root] = exc
            except PlacementError as exc:
                errors[root] = exc
        roots = {uuid: root for root, own in found.items() for uuid in own}
        kept: dict[str, set[str]] = {}
        everything = [(uuid, generation) for own in found.values() for uuid, generation in own.items()]
        for part in self._parts(everything):
            try:
                left = self._send(part, roots)
            except PlacementError as exc:
                errors |= {roots[uuid]: exc for uuid in part}
                continue
            for uuid in left:
                kept.setdefault(roots[uuid], set()).add(uuid)
        for root in wanted:
            yield Swept(root=root, kept=frozenset(kept.get(root, ())), error=errors.get(root))

    def _parts(self, everything: Sequence[tuple[str, int | None]]) -> Iterator[dict[str, int | None]]:
        """Yield what one POST takes. What a consumer may hold goes by itself: it refuses the POST with all others in it."""
        is_free = self._known.unreserved.lists
        for some in ([e for e in everything if is_free(e[0])], [e for e in everything if not is_free(e[0])]):
            for start in range(0, len(some), AT_A_TIME):
                yield dict(some[start : start + AT_A_TIME])

    def _generations(self, uuids: frozenset[str], below: Mapping[str, Provider]) -> dict[str, int | None]:
        """Note what operators have reserved of providers, and return the generations of those providers that exist.

        :param below: the providers of their node.
        :raises PlacementError: placement cannot be read, or refuses a note.
        """
        found = {uuid: self._noted(below[uuid]) for uuid in sorted(uuids & below.keys())}
        return {uuid: generation for uuid, generation in found.items() if generation is not None}

    def _noted(self, provider: Provider) -> int | None:
        """Note what an operator has reserved of a provider; return its generation, or None if it was deleted."""
        if self._known.unreserved.includes(provider):
            return provider.generation
        for _ in range(ATTEMPTS):
            answer = self._client.get(f'/resource_providers/{provider.uuid}/inventories')
            if answer.status == HTTPStatus.NOT_FOUND:
                return None
            seen = replace(provider, inventories=schemas.inventories(answer))
            self._known.unreserved.ask(self._client, (i.resource_class for i in seen.inventories))
            try:
                return operator_reservations.note_reserved(self._client, seen, schemas.generation(answer))
            except PlacementChanged as exc:
                error = exc.error
        raise error or PlacementRefused(f'placement: provider {provider.uuid} is changed again and again')

    def _send(self, part: Mapping[str, int | None], roots: Mapping[str, str], attempt: int = 1) -> frozenset[str]:
        """Remove inventories in one transaction; where that is refused, in several.

        :returns: the providers whose inventory is still there.
        :raises PlacementError: placement does not answer, or refuses the request whatever its providers are.
        """
        if not part:
            return frozenset()
        body: dict[str, Any] = {
            'inventories': {uuid: {'resource_provider_generation': g, 'inventories': {}} for uuid, g in part.items()},
            'allocations': {},
        }
        answer = self._client.request('POST', RESHAPER, body=body, may_be_forbidden=True)
        if answer.ok:
            return frozenset()
        if answer.status == HTTPStatus.FORBIDDEN:
            return self._one_by_one(part)
        if answer.status not in _PASSING:
            raise refusal('POST', RESHAPER, answer)
        if len(part) > 1:  # a claim, a change or a deletion of one of them has refused all
            both, half = list(part.items()), len(part) // 2
            return self._send(dict(both[:half]), roots, attempt) | self._send(dict(both[half:]), roots, attempt)
        [(uuid, generation)] = part.items()
        again = self._generations(frozenset(part), provider_reader.below(self._client, roots[uuid]) or {})
        if attempt < ATTEMPTS and again and again[uuid] != generation:
            return self._send(again, roots, attempt + 1)
        return frozenset(again)  # none if it was deleted

    def _one_by_one(self, part: Mapping[str, int | None]) -> frozenset[str]:
        """Remove inventories with one request for each provider: POST /reshaper needs the role service."""
        return frozenset(uuid for uuid, generation in part.items() if not self._is_emptied(uuid, generation))

    def _is_emptied(self, uuid: str, generation: int | None) -> bool:
        path = f'/resource_providers/{uuid}/inventories'
        body: dict[str, Any] = {'resource_provider_generation': generation, 'inventories': {}}
        answer = self._client.request('PUT', path, body=body)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise refusal('PUT', path, answer)
        return answer.ok or answer.status == HTTPStatus.NOT_FOUND

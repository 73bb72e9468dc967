# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""JSON document of a node's FPGA regions and their last verified functions: the conductor stores it, ``pool`` commands read it.

The document is small, because it shares a field of 64 KiB with Ironic, and people read it. Each set of functions that regions
take is written once, however many regions take the same. A large document is compressed::

    {"at": "2026-11-22T12:00:00+00:00", "takes": [["aes", "gzip"]],
     "cards": [{"id": "uuid:...", "slots": [{"id": "Slot0", "function": "gzip", "takes": 0, "changed": "2026-..."}]}]}

    {"packed": "..."}

The reader gets the document from a service's answer, so :func:`read` validates all of it and trusts only that a conductor wrote
it.
"""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.scheduling.pools import PoolRegion
from baremetal_acc.scheduling.provider_names import slot_uuid
from baremetal_acc.scheduling.schedulable import Functions

Place = tuple[AcceleratorId, str]
"""A device, and a SlotId of it."""

PLAIN_BYTES = 4 * 1024
"""Up to this size the document stays readable. Sixteen regions of four cards that take five functions need 2 KiB."""

MOST_BYTES = 8 * 1024
"""Maximum size of the document; a larger one is not stored. Measured: 512 regions that take twenty functions need 6 KiB,
packed.
"""

_UNPACKED_BYTES = 512 * 1024
_MOST_SLOTS = 4096
_LONGEST = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One region.

    :ivar function: the function that it verifiably held; None: none, or unknown.
    :ivar takes: the functions that it can be given; none while any demand on its card is not met.
    :ivar changed: when it was last given another function while the node was free; tenants and automated cleaning do not count.
    """

    accelerator: AcceleratorId
    slot_id: str
    function: str | None = None
    takes: frozenset[str] = frozenset()
    changed: datetime | None = None

    @property
    def place(self) -> Place:
        """Device and slot."""
        return self.accelerator, self.slot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """All regions of a node.

    :ivar at: when they were read.
    """

    at: datetime
    slots: tuple[Slot, ...] = ()


def seen(
    inventory: Inventory,
    verdict: Verdict,
    functions: Functions,
    able: Mapping[Place, frozenset[str]],
    before: Regions | None = None,
) -> Regions | None:
    """Return the regions that an inventory shows; None for a node that has no region, and never had one.

    :param verdict: on the same inventory: a card with an unmet demand takes nothing.
    :param able: from the same inventory, the functions that each region could be given.
    :param before: what is stored of the node.
    """
    unmet = {f.accelerator for f in verdict.unmet}
    changed = {} if before is None else {s.place: s.changed for s in before.slots}
    times = Counter((a.id, s.slot_id) for a in inventory.accelerators for s in a.slots)
    slots = tuple(
        Slot(
            accelerator=place[0],
            slot_id=place[1],
            function=functions.get(place),
            takes=frozenset() if place[0] in unmet else able[place],
            changed=changed.get(place),
        )
        for place in sorted(able)
        if times[place] == 1
    )
    return Regions(at=inventory.at, slots=slots) if slots or before is not None else None


def changed(regions: Regions, places: Collection[Place], when: datetime) -> Regions:
    """Record that these regions were given another function."""
    return replace(regions, slots=tuple(replace(s, changed=when) if s.place in places else s for s in regions.slots))


def of_node(node_uuid: str, regions: Regions) -> tuple[PoolRegion, ...]:
    """Return the regions as the planner of pools takes them.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    return tuple(
        PoolRegion(
            provider=slot_uuid(node_uuid, s.accelerator, s.slot_id),
            accelerator=s.accelerator,
            slot_id=s.slot_id,
            function=s.function,
            takes=s.takes,
            changed=s.changed,
        )
        for s in regions.slots
    )


# ---------------------------------------------------------------------------------------------------------------- document


def document(regions: Regions) -> dict[str, Any] | None:
    """Return the document to store; None if it would be too large."""
    sets = sorted({tuple(sorted(s.takes)) for s in regions.slots})
    cards: dict[AcceleratorId, list[dict[str, Any]]] = {}
    for slot in regions.slots:
        said: dict[str, Any] = {'id': slot.slot_id, 'function': slot.function, 'takes': sets.index(tuple(sorted(slot.takes)))}
        if slot.changed is not None:
            said['changed'] = slot.changed.isoformat()
        cards.setdefault(slot.accelerator, []).append(said)
    plain = {
        'at': regions.at.isoformat(),
        'takes': [list(names) for names in sets],
        'cards': [{'id': card, 'slots': slots} for card, slots in cards.items()],
    }
    text = json.dumps(plain)
    if len(text) <= PLAIN_BYTES:
        return plain
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return {'packed': packed} if len(packed) <= MOST_BYTES else None


def read(found: object) -> Regions:
    """Parse a stored document.

    :raises StaleJob: this version cannot read it.
    """
    try:
        match found:
            case {'packed': str(packed)}:
                found = _unpack(packed)
        match found:
            case {'at': str(at), 'takes': list(sets), 'cards': list(cards)}:
                takes = tuple(frozenset(_name(name) for name in names) for names in sets)
                slots = tuple(_slots(cards, takes))
                if len({s.place for s in slots}) < len(slots) or len(slots) > _MOST_SLOTS:
                    raise ValueError('a slot is listed twice, or there are too many slots')
                return Regions(at=_time(at), slots=slots)
        raise ValueError('unknown format')
    except (ValueError, TypeError, IndexError, RecursionError, zlib.error) as exc:
        raise StaleJob(f'stored regions cannot be read: {exc}') from exc


def _slots(cards: Iterable[object], takes: tuple[frozenset[str], ...]) -> Iterable[Slot]:
    for card in cards:
        match card:
            case {'id': str(accelerator), 'slots': list(slots)}:
                yield from (_slot(_name(accelerator), slot, takes) for slot in slots)
            case _:
                raise ValueError('unknown format of a card')


def _slot(accelerator: str, found: object, takes: tuple[frozenset[str], ...]) -> Slot:
    match found:
        case {'id': str(slot_id), 'function': str() | None as function, 'takes': int(number), **more} if (
            0 <= number < len(takes)
        ):
            when = more.get('changed')
            return Slot(
                accelerator=AcceleratorId(accelerator),
                slot_id=_name(slot_id),
                function=None if function is None else _name(function),
                takes=takes[number],
                changed=None if when is None else _time(when),
            )
    raise ValueError('unknown format of a slot')


def _name(text: object) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST:
        raise ValueError('not a valid name')
    return text


def _time(text: object) -> datetime:
    if not isinstance(text, str):
        raise TypeError('not a time')
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f'{text} has no time zone')
    return when


def _unpack(packed: str) -> object:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(packed, validate=True), _UNPACKED_BYTES)
    if not unpacker.eof:
        raise ValueError('compressed data too long or truncated')
    return json.loads(data)

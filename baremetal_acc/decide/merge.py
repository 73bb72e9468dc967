# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices that several BMCs of a target report are one and the same."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from baremetal_acc.model.accelerator import Accelerator, Kind, PciIds
from baremetal_acc.model.ref import HOST

_Key = tuple[str, Kind, str]


def merge(accelerators: Iterable[Accelerator]) -> tuple[Accelerator, ...]:
    """One accelerator for each physical device, sorted by id.

    Two BMCs mean the same device when they give the same UUID, or the same serial number, and kinds that can be one thing.
    Both repeat on real machines: what one BMC gives to several devices says nothing.
    """
    merged: list[Accelerator] = []
    found = list(accelerators)
    times = Counter((a.primary.bmc, key) for a in found for key in _keys(a))
    repeated = {key for (_, key), number in times.items() if number > 1}
    # A BMC may show thousands of devices: each is compared with those alone that share something with it.
    places: dict[_Key, list[int]] = {}
    # A device's own BMC knows more of it than the host's BMC does: it comes first and keeps its identity.
    for accelerator in sorted(found, key=lambda a: (a.primary.bmc == HOST, a.id)):
        near = sorted({n for key in _keys(accelerator) if key not in repeated for n in places.get(key, ())})
        for position in near:
            known = merged[position]
            if accelerator.primary.bmc not in {ref.bmc for ref in known.refs} and _same(known, accelerator, repeated):
                merged[position] = _join(known, accelerator)
                break
        else:
            position = len(merged)
            merged.append(accelerator)
        for key in _keys(merged[position]):
            at = places.setdefault(key, [])
            if key not in repeated and position not in at:
                at.append(position)
    return tuple(sorted(merged, key=lambda a: a.id))


def _keys(a: Accelerator) -> Iterator[_Key]:
    """What identifies a device across BMCs, the best first.

    The host's BMC may see a DPU as the NIC that it also is. Other kinds are not mixed: no card hides another one by its UUID.
    """
    kind = Kind.NIC if a.kind is Kind.DPU else a.kind
    if a.uuid:
        yield ('uuid', kind, a.uuid.casefold())
    if a.serial:
        yield ('serial', kind, a.serial.casefold())


def _same(a: Accelerator, b: Accelerator, repeated: set[_Key]) -> bool:
    wanted = 'uuid' if a.uuid and b.uuid else 'serial'
    keys = {key for key in _keys(a) if key[0] == wanted and key not in repeated}
    return any(key in keys for key in _keys(b))


def _join(first: Accelerator, second: Accelerator) -> Accelerator:
    """Everything of both; where both say something, the first."""
    ids = {name: getattr(first.pci, name) or getattr(second.pci, name) for name in PciIds.__dataclass_fields__}
    locks = first.locks + tuple(replace(r, accelerator=first.id) for r in second.locks)
    return replace(
        first,
        refs=tuple(sorted({*first.refs, *second.refs})),
        vendor=first.vendor or second.vendor,
        model=first.model or second.model,
        part_number=first.part_number or second.part_number,
        serial=first.serial or second.serial,
        uuid=first.uuid or second.uuid,
        location=first.location or second.location,
        pci=PciIds(**ids),
        firmware=first.firmware + second.firmware,
        slots=first.slots + second.slots,
        functions=first.functions + second.functions,
        locks=locks,
        traits=first.traits | second.traits,
        system=first.system or second.system,
        health=first.health or second.health,
    )

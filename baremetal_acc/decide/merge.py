# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which devices that several BMCs of a target report are one and the same."""

from collections.abc import Iterable
from dataclasses import replace

from baremetal_acc.model.accelerator import Accelerator, PciIds
from baremetal_acc.model.ref import HOST


def merge(accelerators: Iterable[Accelerator]) -> tuple[Accelerator, ...]:
    """One accelerator for each physical device, sorted by id.

    Two BMCs mean the same device when they give the same UUID, or the same serial number and kind. Serial numbers repeat
    on real machines, so those that one BMC gives to several devices say nothing.
    """
    merged: list[Accelerator] = []
    found = list(accelerators)
    repeated = {key for a in found if (key := _serial(a)) and sum(_twin(a, b) for b in found) > 1}
    # A device's own BMC knows more of it than the host's BMC does: it comes first and keeps its identity.
    for accelerator in sorted(found, key=lambda a: (a.primary.bmc == HOST, a.id)):
        for position, known in enumerate(merged):
            if known.primary.bmc != accelerator.primary.bmc and _same(known, accelerator, repeated):
                merged[position] = _join(known, accelerator)
                break
        else:
            merged.append(accelerator)
    return tuple(sorted(merged, key=lambda a: a.id))


def _twin(a: Accelerator, b: Accelerator) -> bool:
    return _serial(a) == _serial(b) and a.primary.bmc == b.primary.bmc


def _serial(a: Accelerator) -> tuple[str, str] | None:
    return (a.kind, a.serial.casefold()) if a.serial else None


def _same(a: Accelerator, b: Accelerator, repeated: set[tuple[str, str]]) -> bool:
    if a.uuid and b.uuid:
        return a.uuid.casefold() == b.uuid.casefold()
    key = _serial(a)
    return key is not None and key == _serial(b) and key not in repeated


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

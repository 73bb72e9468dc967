# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Merge the devices that several BMCs of a target report, where they are one physical network card.

The operator controls the host's BMC. A further BMC is on a card, such as a DPU, and whoever has taken over the card may control
that BMC, too. So a further BMC is believed only about network cards, above all its own. Every other device that it reports
stays a separate device and never replaces one of the host's, whatever its identity: otherwise it could change the model of a
host's GPU, or report a GPU that is gone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from baremetal_acc.model.accelerator import Accelerator, Kind, MergeBasis, MergeEvidence, PciIds
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import HOST, AcceleratorId

_NETWORK = frozenset({Kind.DPU, Kind.NIC})
"""The host's BMC may report a DPU as the NIC that it also is."""

_Key = tuple[str, str]


def merge(accelerators: Iterable[Accelerator]) -> tuple[Accelerator, ...]:
    """Return one accelerator for each physical device, sorted by id.

    Two BMCs report the same network card if they give the same UUID or the same serial number. Both repeat on real machines: a
    value that one BMC gives to several devices proves nothing. The evidence for each merge is kept.

    The id of a device that a further BMC reports contains the name of that BMC, ``uuid:...@dpu``, so no device of the host's
    BMC can have it.
    """
    merged: list[Accelerator] = []
    found = [a if a.primary.bmc == HOST else _apart(a) for a in accelerators]
    times = Counter((a.primary.bmc, key) for a in found for key in _keys(a))
    repeated = {key for (_, key), number in times.items() if number > 1}
    # A BMC may report thousands of devices: each is compared only with those that share an identifier with it.
    places: dict[_Key, set[int]] = {}
    # A card's own BMC knows more about the card than the host's BMC does: its device comes first and keeps its identity.
    for accelerator in sorted(found, key=lambda a: (a.primary.bmc == HOST, a.id)):
        near = sorted({n for key in _keys(accelerator) if key not in repeated for n in places.get(key, ())})
        for position in near:
            known = merged[position]
            if accelerator.primary.bmc in {ref.bmc for ref in known.refs}:
                continue
            if (basis := _same(known, accelerator, repeated)) is not None:
                merged[position] = _join(known, accelerator, basis)
                break
        else:
            position = len(merged)
            merged.append(accelerator)
        for key in _keys(merged[position]):
            places.setdefault(key, set()).add(position)
    return tuple(sorted(merged, key=lambda a: a.id))


def unmerged(accelerators: Iterable[Accelerator]) -> tuple[Gap, ...]:
    """Return a gap for each network card that shares an identifier with one of another BMC, but was not merged with it.

    Other evidence contradicts that the two are one card.

    :param accelerators: as :func:`merge` returns them.
    """
    places: dict[_Key, list[Accelerator]] = {}
    for accelerator in accelerators:
        for key in _keys(accelerator):
            places.setdefault(key, []).append(accelerator)
    found: dict[AcceleratorId, Gap] = {}
    for same in places.values():
        # The host's BMC enumerates its bus: the device of a further BMC is the one that may be counted twice.
        first, *others = sorted(same, key=lambda a: (a.primary.bmc != HOST, a.id))
        for other in others:
            if {ref.bmc for ref in other.refs}.isdisjoint(ref.bmc for ref in first.refs):
                reason = _UNMERGED.format(other=first.primary)
                found.setdefault(other.id, Gap(ref=other.primary, reason=reason, accelerator=other.id))
    return tuple(found.values())


_UNMERGED = (
    'UUID or serial number is also that of {other}, but the rest contradicts that: they are treated as different devices'
)


def _apart(a: Accelerator) -> Accelerator:
    """Give a device of a further BMC an id that no device of the host can have."""
    identity = AcceleratorId(f'{a.id}@{a.primary.bmc}')
    return replace(a, id=identity, locks=tuple(replace(r, accelerator=identity) for r in a.locks))


def _keys(a: Accelerator) -> Iterator[_Key]:
    """Yield what identifies a network card across BMCs, the best first. Devices of other kinds are never merged."""
    if a.kind not in _NETWORK:
        return
    if a.uuid:
        yield ('uuid', a.uuid.casefold())
    if a.serial:
        yield ('serial', a.serial.casefold())


def _same(a: Accelerator, b: Accelerator, repeated: set[_Key]) -> MergeBasis | None:
    """Return why two devices are one; None if they are not."""
    shared = {key[0] for key in {*_keys(a)} & {*_keys(b)} if key not in repeated}
    if 'uuid' in shared:
        return MergeBasis.UUID
    if 'serial' in shared and (not (a.uuid and b.uuid) or _one_product(a, b)):
        return MergeBasis.SERIAL
    return None


def _one_product(a: Accelerator, b: Accelerator) -> bool:
    """Whether both have the same part number: then their UUIDs may be those of two resources of one card.

    A DPU's own BMC gives the UUID of its System, the host's BMC that of its network function (a UUID that holds a MAC was seen:
    recording lenovo/sr670v2-8xl40-bluefield2). Serial number and part number are those of the card.
    """
    return _fold(a.part_number) == _fold(b.part_number) != ''


def _fold(text: str | None) -> str:
    return (text or '').strip().casefold()


def _join(first: Accelerator, second: Accelerator, basis: MergeBasis) -> Accelerator:
    """Merge two devices; where both have a value, the first counts. PCI ids come from the host's BMC, which enumerates its bus.

    :param second: the device of the host's BMC, if one of the two is.
    """
    ids = {name: getattr(second.pci, name) or getattr(first.pci, name) for name in PciIds.__dataclass_fields__}
    locks = first.locks + tuple(replace(r, accelerator=first.id) for r in second.locks)
    evidence = MergeEvidence(basis=basis, refs=tuple(sorted((first.primary, second.primary))))
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
        health=_worse(first.health, second.health),
        health_rollup=_worse(first.health_rollup, second.health_rollup),
        state=first.state or second.state,
        merged_by=tuple(sorted({*first.merged_by, *second.merged_by, evidence})),
    )


def _worse(first: str | None, second: str | None) -> str | None:
    """Return the worse health of two views of one card; an unknown word counts less than a known one."""
    said = [health for health in (first, second) if health is not None]
    return max(said, key=lambda health: _HEALTH.get(health, 0), default=None)


_HEALTH = {'OK': 1, 'Warning': 2, 'Critical': 3}
"""Source: DSP8010 2025.4, Resource.Health."""

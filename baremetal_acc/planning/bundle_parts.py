# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read back the parts of a firmware bundle that belong to no accelerator: CPLDs, FPGAs, switches, retimers of a baseboard.

No rule of the baseline asks for their versions, so they do not change how a job ends. What their items show is reported.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from baremetal_acc.model.action import Flash
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState, PartReading
from baremetal_acc.model.ref import BmcName
from baremetal_acc.planning import bundles
from baremetal_acc.planning.image_selection import identified, same_version

Others = Mapping[BmcName, tuple[Component, ...]]
"""Firmware items that belong to no card, by their BMC."""


def read_back(job: Job, catalogue: Iterable[Image], inventory: Inventory, others: Others) -> Job:
    """Return the job with what the other parts show of the last bundle that each BMC was sent, and that it did not refuse.

    A BMC is left out if the items that belong to no card were not read from it.
    """
    catalogue = tuple(catalogue)
    last: dict[BmcName, tuple[str, BmcName]] = {}
    for item in job.items:
        if (upload := _upload(item)) is not None:
            last[upload[1]] = upload
    for upload in last.values():
        position = next(n for n, item in enumerate(job.items) if _upload(item) == upload)
        name, bmc = upload
        if bmc in others:
            shown = tuple(_readings(bundles.of(catalogue, name), _reached(catalogue, name, bmc, inventory), others[bmc]))
            item = replace(job.items[position], others=shown)
            job = replace(job, items=(*job.items[:position], item, *job.items[position + 1 :]))
    return job


def is_awaited(job: Job) -> bool:
    """Whether an item shows no version at all, as it may right after a restart of its BMC."""
    return any(one.ref is not None and one.shown is None for item in job.items for one in item.others)


def told(readings: Iterable[PartReading]) -> tuple[str, ...]:
    """Say what the other parts of a bundle show.

    The parts that show the bundle's version share one sentence; each other part has one of its own.
    """
    readings = tuple(readings)
    good = [one for one in readings if is_as_sent(one)]
    lines = []
    if good:
        names = ', '.join(f'{one.component} {one.shown}' for one in good)
        lines.append(f'the parts that belong to no card show the versions of the bundle: {names}')
    return (*lines, *(_wrong(one) for one in readings if not is_as_sent(one)))


def is_as_sent(reading: PartReading) -> bool:
    """Whether the item shows the version that the bundle brings."""
    return same_version(reading.shown, reading.expected)


def _wrong(one: PartReading) -> str:
    if one.ref is None:
        unseen = f'the BMC shows no firmware item {one.component}, so it is unknown whether {one.expected} was written'
        return f'{unseen}: see the log of the BMC'
    shows = 'shows no version' if one.shown is None else f'shows {one.shown}'
    return (
        f'{one.component} {shows}, but the bundle has {one.expected}: it was not written, or is not in effect yet. Do '
        f'the reset that the vendor prescribes, read {one.ref} again, and send the bundle again if the version is '
        'still the same'
    )


def _upload(item: Item) -> tuple[str, BmcName] | None:
    """Return the bundle that was sent for a write, if it has written something."""
    action = item.action
    if not isinstance(action, Flash) or item.untouched or item.state not in (ItemState.DONE, ItemState.STAGED):
        return None
    return action.upload


def _reached(catalogue: tuple[Image, ...], name: str, bmc: BmcName, inventory: Inventory) -> frozenset[str]:
    """Return the names of those images of a bundle that are for a card."""
    found = bundles.reached(catalogue, name, bmc, inventory)
    return frozenset(image.name for one in found for image in one.images)


def _readings(members: tuple[Image, ...], reached: frozenset[str], items: tuple[Component, ...]) -> Iterable[PartReading]:
    for image in members:
        meant = [i for i in items if i.id is not None and _is_for(image, i)]
        for item in sorted(meant, key=lambda one: one.ref):
            yield PartReading(component=item.id or '', expected=image.version, ref=item.ref, shown=item.version)
        if not meant and image.name not in reached:
            yield PartReading(component=image.component, expected=image.version)


def _is_for(image: Image, item: Component) -> bool:
    """Whether an image is for an item, by the name of the component, and by its SoftwareId where both show one."""
    return (
        item.id is not None
        and fnmatchcase(item.id.casefold(), image.component.casefold())
        and identified(image, item) is not False
    )


__all__ = ['Others', 'is_as_sent', 'is_awaited', 'read_back', 'told']

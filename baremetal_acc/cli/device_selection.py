# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the devices that the operator named."""

import argparse

from baremetal_acc.cli.plan_request import PlanRequest
from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import AcceleratorId


def add_device_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--device``."""
    parser.add_argument(
        '--device',
        action='append',
        default=[],
        metavar='ID',
        help='only this device: id, UUID, serial number, URI, or name as printed by plan; can be repeated',
    )


def requested_devices(inventory: Inventory, request: PlanRequest) -> frozenset[AcceleratorId] | None:
    return devices_named(inventory, request.devices) if request.devices else None


def devices_named(inventory: Inventory, names: tuple[str, ...]) -> frozenset[AcceleratorId]:
    """The devices that ``--device`` names; all devices where it is not given.

    :raises UsageError: a name fits no device, or several.
    """
    if not names:
        return frozenset(a.id for a in inventory.accelerators)
    found = set()
    for wanted in names:
        matching = [a.id for a in inventory.accelerators if wanted.casefold() in _names(a)]
        if len(matching) != 1:
            what = f'{inventory.target} has no device {wanted!r}' if not matching else f'{wanted!r} fits several devices'
            hint = f'the devices are {", ".join(a.label for a in inventory.accelerators)}; inventory -f json prints their ids'
            raise UsageError(argument='--device', what=what, hint=hint)
        found.update(matching)
    return frozenset(found)


def _names(accelerator: Accelerator) -> set[str]:
    texts = (accelerator.id, accelerator.uuid, accelerator.serial, accelerator.label, accelerator.primary.uri)
    return {text.casefold() for text in texts if text}

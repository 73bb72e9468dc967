# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render why a reshape may not move placement inventory between a root provider and the providers of its devices."""

from typing import assert_never

from baremetal_acc.model import reshape as r


def sentences(made: r.Reshape) -> tuple[str, ...]:
    """Render all refusals of a reshape."""
    return tuple(dict.fromkeys(map(_sentence, made.refusals)))


def _sentence(why: r.ReshapeRefusal) -> str:
    match why:
        case r.NodeClass():
            return f'{why.flat} is the resource class of the node itself, not of devices'
        case r.SameDevices():
            flat, nested = why.move.flat, why.move.nested
            return (
                f'{why.first} and {flat} both mean devices with {nested}: distinguish them by a trait '
                f'(--class {flat}={nested}:TRAIT)'
            )
        case r.NotOffered():
            instead = f'available: {", ".join(why.offered)} (--class {why.move.flat}=...)'
            instead = instead if why.offered else 'baremetal-acc verify lists the findings that are not met'
            return f'no device that passes verification offers {_devices(why.move)}: {instead}'
        case r.AllHeld():
            return f'no device can take over {why.flat}{_held(why.held)}'
        case r.NoRoom():
            return (
                f'{why.claimed} {why.move.flat} of the root are claimed, and the devices that pass verification have '
                f'room for {why.room} '
                f'{_devices(why.move)} (claimed by {", ".join(why.consumers)}): fix the devices that fail '
                f'verification, or wait until an instance is deleted{_held(why.held)}'
            )
        case r.NoRoomInRoot():
            return (
                f'{why.of_root} {why.move.flat} of the root and {why.of_devices} {_devices(why.move)} of devices are claimed, '
                f'but there are only {why.total}: wait until an instance is deleted'
            )
        case _:
            assert_never(why)


def _devices(move: r.InventoryMove) -> str:
    return move.nested if move.trait is None else f'{move.nested} with the trait {move.trait}'


def _held(devices: tuple[tuple[str, r.HeldInventory], ...]) -> str:
    return ''.join(
        f'; {name} can take over nothing while {one.amount} {one.resource_class} of {one.provider} is claimed '
        f'(by {", ".join(one.consumers)})'
        for name, one in devices
    )

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
            return f'{why.flat} is what the node itself is claimed as, and no class of devices'
        case r.SameDevices():
            flat, nested = why.move.flat, why.move.nested
            return (
                f'{why.first} and {flat} both mean devices that offer {nested}: say by a trait which are meant '
                f'(--class {flat}={nested}:TRAIT)'
            )
        case r.NotOffered():
            instead = f'they offer {", ".join(why.offered)} (--class {why.move.flat}=...)'
            instead = instead if why.offered else 'verify says what does not hold'
            return f'no device that holds up offers {_devices(why.move)}: {instead}'
        case r.AllHeld():
            return f'no device can take over {why.flat}{_held(why.held)}'
        case r.NoRoom():
            return (
                f'{why.claimed} {why.move.flat} of the root are claimed, and the devices that hold up have room for {why.room} '
                f'{_devices(why.move)} (claimed by {", ".join(why.consumers)}): mend the devices that do not hold up, or wait '
                f'until an instance is gone{_held(why.held)}'
            )
        case r.NoRoomInRoot():
            return (
                f'{why.of_root} {why.move.flat} of the root and {why.of_devices} {_devices(why.move)} of devices are claimed, '
                f'and there are {why.total}: wait until an instance is gone'
            )
        case _:
            assert_never(why)


def _devices(move: r.InventoryMove) -> str:
    return move.nested if move.trait is None else f'{move.nested} with the trait {move.trait}'


def _held(devices: tuple[tuple[str, r.HeldInventory], ...]) -> str:
    return ''.join(
        f'; {name} takes nothing while {one.amount} {one.resource_class} of {one.provider} is claimed '
        f'(by {", ".join(one.consumers)})'
        for name, one in devices
    )

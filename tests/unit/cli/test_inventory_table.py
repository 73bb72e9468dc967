# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The table of an inventory says which card is meant, and has the cards in the order of their places."""

from dataclasses import replace

from baremetal_acc.cli.commands import inventory
from baremetal_acc.cli.output import documents
from baremetal_acc.model.accelerator import Accelerator, PciIds
from baremetal_acc.model.ref import AcceleratorId
from tests.unit.planning import values as v


def card(number: int, location: str | None, address: str | None) -> Accelerator:
    """A GPU at a place."""
    return replace(
        v.gpu(), id=AcceleratorId(f'serial:{number}'), serial=str(number), location=location, pci=PciIds(address=address)
    )


def test_cards_stand_in_the_order_of_their_places() -> None:
    """Slot 2 before Slot 10; with the PCI address where that is told; without any place last."""
    cards = (
        card(1, None, None),
        card(2, 'Slot 10', None),
        card(3, 'Slot 2', '0000:41:00.0'),
        card(4, None, '0000:01:00.0'),
    )
    body = documents.inventory('node-1', v.inventory(*cards))
    at = inventory.COLUMNS.index('Place')
    rows = [(row[at - 1], row[at]) for row in inventory._rows(body)]
    assert [('4', '0000:01:00.0'), ('3', 'Slot 2, 0000:41:00.0'), ('2', 'Slot 10'), ('1', '')] == rows

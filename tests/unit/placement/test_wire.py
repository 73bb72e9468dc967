# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever answers in placement's name, its words become types or a clear refusal: it keeps nobody busy for ever."""

from typing import Any

import pytest

from baremetal_acc.errors import PlacementRefused
from baremetal_acc.model.provider import Provider
from baremetal_acc.placement import schemas
from baremetal_acc.placement.client import PlacementAnswer

ROOT, CARD, SLOT = 'root', 'card', 'slot'


def provider(name: str, parent: str) -> Provider:
    return Provider(uuid=name, name=name, parent_uuid=parent, generation=1)


def answer(**body: Any) -> PlacementAnswer:
    return PlacementAnswer(status=200, code=None, body=body)


def test_what_lies_below_a_root_comes_parents_first() -> None:
    """In whatever order placement names them; what lies elsewhere does not count."""
    found = [
        provider(SLOT, CARD),
        provider('elsewhere', 'other'),
        provider(CARD, ROOT),
        provider(ROOT, 'rack'),
        provider('b', ROOT),
    ]
    below = schemas.below(ROOT, found)
    assert below is not None
    assert ['b', CARD, SLOT] == list(below)


def test_without_the_root_there_is_nothing_to_lie_below() -> None:
    """None is not the same as no children."""
    assert schemas.below(ROOT, [provider(CARD, ROOT)]) is None
    assert {} == schemas.below(ROOT, [provider(ROOT, '')])


@pytest.mark.parametrize(
    'found',
    [
        [provider(ROOT, ROOT)],
        [provider(ROOT, CARD), provider(CARD, ROOT)],
        [provider(ROOT, SLOT), provider(CARD, ROOT), provider(SLOT, CARD)],
    ],
)
def test_a_circle_of_providers_is_refused(found: list[Provider]) -> None:
    """Nobody goes round it for ever."""
    with pytest.raises(PlacementRefused, match='no valid tree of providers'):
        schemas.below(ROOT, found)


@pytest.mark.parametrize('amount', [0, -5, 1.5, '1', None])
def test_an_allocation_is_of_one_or_more(amount: object) -> None:
    """One of less than nothing would let a reshape look for room without end."""
    with pytest.raises(PlacementRefused, match='no valid allocation'):
        schemas.claims(CARD, answer(allocations={'consumer': {'resources': {'PGPU': amount}}}))

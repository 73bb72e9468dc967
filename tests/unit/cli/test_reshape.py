# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The argument ``--class`` of ``baremetal-acc reshape``."""

import pytest

from baremetal_acc.cli.commands import reshape
from baremetal_acc.errors import PlacementUnreachable, UsageError
from baremetal_acc.model.reshape import InventoryMove, NodeClass, Reshape
from baremetal_acc.placement.reshape import ReshapeRefused


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('PGPU', InventoryMove(flat='PGPU', nested='PGPU')),
        ('CUSTOM_X=PGPU', InventoryMove(flat='CUSTOM_X', nested='PGPU')),
        ('CUSTOM_X=PGPU:CUSTOM_ACC_GPU', InventoryMove(flat='CUSTOM_X', nested='PGPU', trait='CUSTOM_ACC_GPU')),
    ],
)
def test_a_move_as_it_is_written(text, expected):
    """A class, the class it becomes, and a trait that says of which devices."""
    assert expected == reshape.parse(text)


@pytest.mark.parametrize('text', ['', 'pgpu', 'PGPU=', '=PGPU', 'PGPU:X', 'A=B:', 'A=B=C', 'A B', f'{"A" * 79}BC' * 4, 'A=B:c'])
def test_what_is_no_move_is_told(text):
    """With the forms that are."""
    with pytest.raises(UsageError) as caught:
        reshape.parse(text)
    expected = (
        f'--class {text[:80]!r}: is not a resource class (write FLAT, FLAT=NESTED or FLAT=NESTED:TRAIT, such as '
        f'CUSTOM_BIG_GPU=PGPU:CUSTOM_ACC_GPU_ACME_X1)'
    )
    assert expected == str(caught.value)


def test_a_class_goes_one_way():
    """Named twice, it could not."""
    reshape.check((InventoryMove(flat='A', nested='C'), InventoryMove(flat='B', nested='C')))
    with pytest.raises(UsageError, match=r'^--class A: is given twice \(a class of the root is moved to one class\)$'):
        reshape.check((InventoryMove(flat='A', nested='B'), InventoryMove(flat='A', nested='C')))


def test_why_it_is_refused_is_told_where_nobody_could_open_the_classes_again_either():
    """Another failure of placement is told as it is."""
    error = PlacementUnreachable('not open', hint='go on')
    assert error is reshape.with_reasons(error)
    error.__cause__ = ReshapeRefused(Reshape(root_uuid='1', refusals=(NodeClass(flat='CUSTOM_GOLD'),)))
    told = reshape.with_reasons(error)
    assert ('go on', True) == (told.hint, 'not open (CUSTOM_GOLD is the resource class of the node itself' in told.message)

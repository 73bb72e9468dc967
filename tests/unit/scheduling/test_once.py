# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A device is restored at most once after a failed flash, however that ends."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Flash
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning import rollback
from baremetal_acc.planning.job_transitions import begin
from tests.unit.planning import values as v
from tests.unit.planning.values import NOW


def flash(image: str, restore_image: str | None) -> Flash:
    return Flash(
        accelerator=v.GPU,
        component='GPU_0',
        ref=v.ref('GPU_0'),
        image=image,
        version='1.0',
        expects='1.0',
        reset=ResetKind.NONE,
        order=0,
        restore=restore_image,
    )


def job(*items: Item) -> Job:
    made = begin(
        Plan(target='node-1', actions=()),
        identity='j1',
        node='node-1',
        flow=Flow.CLEAN,
        step='reconcile_accelerators',
        lifecycle=1,
        now=NOW,
        timeout=timedelta(hours=1),
    )
    return replace(made, items=items)


FAILED = Item(action=flash('gpu-new', 'gpu-old'), since=NOW, state=ItemState.FAILED)


def test_a_flash_that_failed_is_to_be_put_back():
    """Else the next test could not fail."""
    assert (0,) == rollback.due(job(FAILED), NOW)


@pytest.mark.parametrize('state', ItemState)
def test_what_was_to_be_put_back_once_is_not_put_back_again(state):
    """Whether that has not begun, goes on, has failed, or has ended well and did not last."""
    back = Item(action=flash('gpu-old', None), since=NOW, state=state, restoring=True)
    assert () == rollback.due(job(FAILED, back), NOW)

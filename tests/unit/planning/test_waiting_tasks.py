# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When a restart of the host cannot help a write that waits for one, and when such a write has written nothing."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Engage, Flash, Program
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind, Scope, WritePath
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning import waiting_tasks
from baremetal_acc.planning.job_transitions import begin
from tests.unit.planning import values as v

REF = v.ref('UpdateService/FirmwareInventory/GPU_0')
OTHER = v.ref('UpdateService/FirmwareInventory/GPU_1')
FLASH = Flash(
    accelerator=v.GPU, component='GPU_0', ref=REF, image='new', version=v.NEW, expects=v.OLD, reset=ResetKind.POWER_CYCLE
)
LOCK = Engage(
    accelerator=v.GPU,
    mechanism='write_protected',
    ref=REF,
    field='WriteProtected',
    blocks=frozenset({WritePath.BMC_NETWORK}),
    scope=Scope.COMPONENT,
)
CANCELLED = TaskReading(ref=v.ref('Tasks/1'), state=TaskState.FAILED, raw='Cancelled/OK', was_cancelled=True)


def job(lock: Engage = LOCK, state: ItemState = ItemState.PLANNED) -> Job:
    """A job that has a lock to close, and is as far with it."""
    made = Plan(target='n', actions=(lock,))
    begun = begin(made, identity='j', node='n', flow=Flow.CLEAN, step='s', lifecycle=1, now=v.NOW, timeout=timedelta(hours=1))
    return replace(begun, items=tuple(replace(item, state=state) for item in begun.items))


@pytest.mark.parametrize(
    ('lock', 'is_shut_out'),
    [
        (LOCK, True),
        (replace(LOCK, ref=OTHER), False),
        (replace(LOCK, blocks=v.HOST_DEVICE), False),
        (replace(LOCK, scope=Scope.DEVICE, ref=OTHER), True),
        (replace(LOCK, scope=Scope.DEVICE, accelerator=AcceleratorId('another')), False),
        (replace(LOCK, scope=Scope.BMC, ref=v.ref('Managers/BMC'), accelerator=AcceleratorId('another')), True),
        (replace(LOCK, scope=Scope.BMC, ref=replace(REF, bmc='dpu')), False),
    ],
)
def test_a_lock_that_blocks_the_bmc_shuts_a_write_out(lock, is_shut_out):
    """One of the component, of its card or of its whole BMC; the reason names it."""
    why = waiting_tasks.shut_out(job(lock), FLASH)
    assert is_shut_out is (why is not None)
    assert why is None or f'write_protected at {lock.ref} is engaged' in why


def test_only_a_lock_that_is_still_to_be_closed_shuts_out_a_write_that_is_restarted():
    """A write for which no restart is planned waits for none, and a function never does."""
    assert waiting_tasks.shut_out(job(state=ItemState.DONE), FLASH) is None
    assert waiting_tasks.shut_out(job(), replace(FLASH, reset=ResetKind.NONE)) is None
    function = Program(accelerator=v.GPU, slot='0', ref=REF, image='f', function='f', version='1', expects=None)
    assert waiting_tasks.shut_out(job(), function) is None


def test_a_task_that_waited_until_it_was_cancelled_has_written_nothing():
    """Each of it is asked for."""
    item = Item(action=FLASH, since=v.NOW, waits=True, cancelled=v.NOW)
    assert waiting_tasks.wrote_nothing(item, CANCELLED, v.OLD, None)
    for other in (replace(item, waits=False), replace(item, cancelled=None), replace(item, action=LOCK)):
        assert not waiting_tasks.wrote_nothing(other, CANCELLED, v.OLD, None)
    assert not waiting_tasks.wrote_nothing(item, replace(CANCELLED, was_cancelled=False), v.OLD, None)
    for version, staged in ((v.NEW, None), (None, None), (v.OLD, v.NEW)):
        assert not waiting_tasks.wrote_nothing(item, CANCELLED, version, staged)

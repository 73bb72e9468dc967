# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A bundle goes out once for all of its parts, when nothing speaks against any of them; whatever comes of it comes to all."""

import io
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from baremetal_acc.errors import BmcBusy, BmcRefusalReason, BmcRefused, BmcUnreachable, ImageMismatch
from baremetal_acc.execution import write_polling
from baremetal_acc.execution.dispatch import one_for_each_upload, perform
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import Flash
from baremetal_acc.model.image import Upload, UploadProgress
from baremetal_acc.model.inventory import Gap, TaskReading, TaskState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning.job_transitions import sent
from baremetal_acc.planning.retry_limits import RetryLimits
from tests.unit.planning import values as v
from tests.unit.planning.test_bundles import NEW, begun, tray, writes

TASK = v.ref('TaskService/Tasks/1')


class Bmc:
    """Takes uploads, and answers as it is told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.uploads: list[Upload] = []

    def managers(self) -> tuple[Any, ...]:
        return ()

    def go_on(self, target: Any, upload: Upload, progress: Any) -> Any:
        return self.push(target, upload)

    def push(self, target: Any, upload: Upload) -> Any:
        self.uploads.append(upload)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


ACCEPTED = TaskReading(ref=TASK, state=TaskState.ACTIVE, raw='Running/OK')


def performed(job: Job, bmc: Bmc, now: Any, *, catalogue: Any = NEW, error: Exception | None = None) -> Job:
    """The job after all that is due was performed.

    :param now: what is there then.
    """

    def open_image(image: Any) -> Upload:
        if error is not None:
            raise error
        return Upload(file='tray.fwpkg', size_bytes=3, open=lambda: io.BytesIO(b'abc'))

    tools = SimpleNamespace(
        catalogue=catalogue,
        images=SimpleNamespace(open=open_image),
        baseline=v.baseline(block=frozenset()),
        patience=RetryLimits(settle=timedelta(seconds=60)),
        save=lambda job: None,
    )
    for position in one_for_each_upload(job, writes(job)):
        at = StepContext(
            job=job,
            position=position,
            target=SimpleNamespace(node=v.NODE),  # type: ignore[arg-type]
            tools=tools,
            bmcs={HOST: bmc},  # type: ignore[arg-type]
            inventory=now,
            now=v.NOW,
        )
        job = perform(at)
    return job


def written(now: Any, answer: Any = ACCEPTED, *, catalogue: Any = NEW, error: Exception | None = None):
    """A job whose bundle was due, and its BMC."""
    job = begun(tray(v.OLD, v.OLD, v.OLD), catalogue)
    bmc = Bmc(answer)
    return performed(sent(job, writes(job), v.NOW), bmc, now, catalogue=catalogue, error=error), bmc


def states(job: Job) -> list[ItemState]:
    return [job.items[n].state for n in writes(job)]


def test_it_is_sent_once_with_the_targets_of_its_bundle_and_all_parts_have_its_task():
    """A bundle that names none is sent without."""
    job, bmc = written(tray(v.OLD, v.OLD, v.OLD))
    assert [ItemState.RUNNING] * 3 == states(job)
    assert {TASK} == {job.items[n].task for n in writes(job)}
    (upload,) = bmc.uploads
    assert (('/redfish/v1/Chassis/Tray',), False, False) == (upload.targets, upload.untargeted, upload.forced)
    none = tuple(replace(i, bundle=replace(i.bundle, targets=None)) for i in NEW if i.bundle is not None)
    _, bmc = written(tray(v.OLD, v.OLD, v.OLD), catalogue=none)
    assert [(None, True)] == [(u.targets, u.untargeted) for u in bmc.uploads]


def test_a_part_that_must_not_be_written_stops_all_of_them():
    """The BMC would write it, too: one card shows another version than the plan saw."""
    job, bmc = written(tray(v.OLD, '1.5', v.OLD))
    assert [] == bmc.uploads
    assert [ItemState.FAILED] * 3 == states(job)
    assert all(job.items[n].untouched for n in writes(job))
    first = job.items[writes(job)[0]].message
    assert 'part of the same bundle: the plan was made with version 1.0, but the card now shows 1.5' == first


def test_a_card_that_is_gone_does_not_stop_the_others():
    """Nobody can write it. It alone has failed."""
    job, bmc = written(tray(v.OLD, v.OLD))
    assert 1 == len(bmc.uploads)
    assert [ItemState.RUNNING, ItemState.RUNNING, ItemState.FAILED] == states(job)
    assert job.items[writes(job)[2]].untouched


def test_all_parts_wait_while_one_cannot_be_seen():
    """Behind a gap that hides."""
    gap = Gap(ref=v.ref('Chassis'), field=None, reason='HTTP 500', hides=True)
    job, bmc = written(tray(v.OLD, v.OLD, v.OLD, gaps=(gap,)))
    assert [] == bmc.uploads
    assert [ItemState.PLANNED] * 3 == states(job)


@pytest.mark.parametrize(
    ('answer', 'state', 'untouched'),
    [
        (BmcBusy(bmc='host', what='busy'), ItemState.PLANNED, False),
        (BmcUnreachable(bmc='host', what='gone', sent=False), ItemState.PLANNED, False),
        (BmcUnreachable(bmc='host', what='cut', sent=True), ItemState.SENT, False),
        (BmcRefused(bmc='host', what='no such target', reason=BmcRefusalReason.INVALID_REQUEST), ItemState.FAILED, True),
    ],
)
def test_what_the_bmc_answers_is_of_all_parts(answer: Exception, state: ItemState, untouched: bool):
    """And it is asked once, whatever it says: what may have arrived is not sent again for the next part."""
    job, bmc = written(tray(v.OLD, v.OLD, v.OLD), answer)
    assert 1 == len(bmc.uploads)
    assert [state] * 3 == states(job)
    assert [untouched] * 3 == [job.items[n].untouched for n in writes(job)]
    if state is ItemState.PLANNED:
        # That the other parts of the bundle were sent with it does not begin the time anew.
        assert {v.NOW} == {job.items[n].busy for n in writes(job)}


def test_a_file_that_is_another_one_now_fails_all_of_them_before_anything_is_sent():
    """None of them is touched."""
    job, bmc = written(tray(v.OLD, v.OLD, v.OLD), error=ImageMismatch(image='new', what='other bytes'))
    assert [] == bmc.uploads
    assert [(ItemState.FAILED, True)] * 3 == [(job.items[n].state, job.items[n].untouched) for n in writes(job)]


@pytest.mark.parametrize(
    ('answer', 'state'),
    [
        (ACCEPTED, ItemState.RUNNING),
        (BmcRefused(bmc='host', what='no', reason=BmcRefusalReason.INVALID_REQUEST), ItemState.FAILED),
    ],
)
def test_a_bundle_that_has_to_be_started_is_started_once(answer: Any, state: ItemState):
    """Its turn is that of all parts: a second StartUpdate would start something else."""
    job, bmc = written(tray(v.OLD, v.OLD, v.OLD), UploadProgress(task=TASK, so_far='not started', percent=100))
    assert [ItemState.SENT] * 3 == states(job)
    bmc.answer = answer
    bmc.uploads.clear()
    job = performed(sent(job, writes(job), v.NOW), bmc, tray(v.OLD, v.OLD, v.OLD))
    assert (1, [state] * 3) == (len(bmc.uploads), states(job))
    assert {None} == {job.items[n].progress for n in writes(job)}


def test_a_part_alone_goes_to_its_own_item():
    """As any other image; forced."""
    job = begun(tray(v.OLD, v.OLD))
    alone = [
        replace(i, action=replace(i.action, alone=True, forced=True)) if isinstance(i.action, Flash) else i for i in job.items
    ]
    bmc = Bmc(ACCEPTED)
    performed(sent(replace(job, items=tuple(alone)), writes(job), v.NOW), bmc, tray(v.OLD, v.OLD))
    assert [(None, False, True)] * 2 == [(u.targets, u.untargeted, u.forced) for u in bmc.uploads]


@pytest.mark.parametrize(
    ('says', 'waits'), [({'is_running': True}, False), ({}, True), ({'is_running': True, 'percent': 100}, True)]
)
def test_the_task_of_a_bundle_that_runs_waits_for_no_restart(says, waits):
    """It says so of a part that it has written, and goes on with the others; at its end it does wait."""
    task = replace(ACCEPTED, awaits_restart=True, **{'percent': 40, **says})
    job = begun(tray(v.OLD, v.OLD, v.OLD), NEW)
    assert waits is write_polling._while_others_are_written(task, job.items[writes(job)[0]].action).awaits_restart

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send UpdateService.StartUpdate for an uploaded image that waits for it, then return the task to follow.

An uploaded image waits where the BMC offers only OnStartUpdateRequest, or where its task says that it waits for the action. The
step is stored as begun before the request is sent. The request is sent once: when its answer is lost, the next step only reads
the task. The action starts every update that waits, so it is not sent while another client's task waits too.

Two behaviours are known: the task of the upload continues, or it ends once the image was checked and the answer names another.

Source: DSP8010 2025.4, UpdateService v1_7, StartUpdate, and Settings v1_3_4, OperationApplyTime OnStartUpdateRequest; DSP8011,
message registry Update, AwaitToUpdate; bmc-toolbox/bmclib, internal/redfishwrapper/firmware.go, for the second behaviour.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from baremetal_acc import wait
from baremetal_acc.bmc.redfish import task
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.update_parameters import ON_START, start_target
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcError,
    BmcNotAuthorised,
    BmcRefusalReason,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
)
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import Objection, TaskReading, TaskState
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)

UNSENT = 'StartUpdate was not sent'
"""Progress.so_far of an upload whose StartUpdate was not sent yet. With any other value it may have been sent."""

BEGINS = 15.0
"""Seconds for a started task to begin, before it counts as waiting for something else."""

BEAT = 1.0
"""Seconds between two reads of the task."""


def deferred(
    connector: Connector, view: ResourceView, answer: TaskReading | Objection | None, asked: str | None
) -> TaskReading | Objection | UploadProgress | None:
    """The result of an accepted upload; a Progress if the update has to be started by StartUpdate.

    :param view: the UpdateService.
    :param asked: the OperationApplyTime that was requested.
    """
    if start_target(view) is None or isinstance(answer, Objection):
        return answer
    if isinstance(answer, TaskReading) and answer.state is TaskState.FAILED:
        return answer
    if asked != ON_START and not _says_so(connector, answer):
        return answer
    if answer is not None and answer.objection is not None:
        LOG.warning('%s: the image was accepted, but the BMC reports: %s', connector.label, answer.objection.text)
    return UploadProgress(task=view.ref if answer is None else answer.ref, so_far=UNSENT, percent=100)


def later(view: ResourceView, ref: Ref) -> UploadProgress | None:
    """The Progress of an update whose task says only later that it waits for StartUpdate; None if there is no such action.

    :param view: the UpdateService.
    """
    return None if start_target(view) is None else UploadProgress(task=ref, so_far=UNSENT, percent=100)


def _says_so(connector: Connector, answer: TaskReading | None) -> bool:
    """Whether the task of an upload waits for StartUpdate, although another OperationApplyTime was requested."""
    if answer is None:
        return False
    with contextlib.suppress(BmcError):
        return (task.read(connector, answer.ref) if answer.opaque else answer).awaits_start
    return False


def go_on(
    connector: Connector, view: ResourceView, progress: UploadProgress, active: Callable[[], Sequence[TaskReading]]
) -> TaskReading | Objection | None:
    """Send StartUpdate for an uploaded image; if it may have been sent before, only read the task.

    :param view: the UpdateService as it is now.
    :param active: returns the BMC's active tasks.
    :returns: the task to follow; without one, the failure or warning in the answer, or None.
    :raises BmcBusy: the image is still being checked, or another update waits to be started; nothing was sent.
    :raises BmcUnreachable: its ``sent`` tells whether the action may have arrived.
    :raises BmcRefused: the BMC did not accept the image, or does not start it. ``BmcNotAuthorised``: our role may not.
    """
    uploaded = _uploaded(connector, view, progress)
    if progress.so_far != UNSENT:
        LOG.warning(
            '%s: whether %s was started is unknown: its task and its device will be read', connector.label, progress.task
        )
        return uploaded
    _refuse_too_early(connector, view, uploaded, active)
    place = start_target(view)
    if place is None:
        raise BmcUnsupported(
            bmc=connector.label, uri=view.ref.uri, what='the UpdateService no longer has the action StartUpdate'
        )
    try:
        answer = connector.send('POST', connector.path(place), body={})
    except (BmcAnswerInvalid, BmcNotAuthorised, BmcRefused) as exc:
        return _not_started(connector, uploaded, exc)
    found = task.answered(connector, answer, view.ref.bmc)
    if isinstance(found, TaskReading):
        return _begun(connector, found)
    if uploaded is None or uploaded.state is not TaskState.ACTIVE:
        return found
    return replace(_begun(connector, uploaded), objection=found)


def _uploaded(connector: Connector, view: ResourceView, progress: UploadProgress) -> TaskReading | None:
    """The task of the upload; None if it has none.

    :raises BmcBusy: it cannot be read now. ``BmcUnreachable``: likewise; nothing was sent.
    """
    if progress.task == view.ref:
        return None
    try:
        return task.read(connector, progress.task)
    except BmcUnreachable as exc:
        raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=exc.what, hint=exc.hint, sent=False) from exc
    except BmcError as exc:
        raise BmcBusy(
            bmc=connector.label, uri=progress.task.uri, what=f'the task of the update cannot be read: {exc.what}'
        ) from exc


def _refuse_too_early(
    connector: Connector, view: ResourceView, uploaded: TaskReading | None, active: Callable[[], Sequence[TaskReading]]
) -> None:
    """Check that the image was accepted, and that StartUpdate would start only our update.

    A task monitor says only that its operation has not ended: one waiting Task next to it is taken for the same update.

    :raises BmcRefused: the image was not accepted. ``BmcBusy``: it is still being checked, or another client's update waits
        too.
    """
    if uploaded is not None and uploaded.state is TaskState.FAILED:
        what = f'the upload was accepted, but the image was not: {uploaded.message or uploaded.raw}'
        raise BmcRefused(bmc=connector.label, uri=uploaded.ref.uri, what=what)
    is_active = uploaded is not None and uploaded.state is TaskState.ACTIVE
    if uploaded is not None and is_active and not (uploaded.opaque or uploaded.is_waiting or uploaded.awaits_start):
        raise BmcBusy(bmc=connector.label, uri=uploaded.ref.uri, what=f'the BMC is still checking the image ({uploaded.raw})')
    try:
        others = [t for t in active() if t.is_waiting and (uploaded is None or t.ref != uploaded.ref)]
    except BmcUnreachable as exc:
        raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=exc.what, hint=exc.hint, sent=False) from exc
    except BmcError as exc:
        raise BmcBusy(bmc=connector.label, uri=view.ref.uri, what=f'the tasks of the BMC cannot be read: {exc.what}') from exc
    if len(others) > (1 if is_active and uploaded is not None and uploaded.opaque else 0):
        what = f'StartUpdate would also start the update of another client: {others[0].ref.uri} ({others[0].raw})'
        raise BmcBusy(bmc=connector.label, uri=view.ref.uri, what=what)


def _not_started(
    connector: Connector, uploaded: TaskReading | None, exc: BmcAnswerInvalid | BmcNotAuthorised | BmcRefused
) -> TaskReading | Objection | None:
    """The result of a StartUpdate that was not answered with success.

    If the answer leaves open whether the action was carried out, the task or device is read. If the BMC refused it and the
    upload's task has ended well, the BMC may have needed no start: the device tells. Otherwise the waiting task is cancelled,
    as nothing would start it.

    :raises BmcError: the action was refused, and the uploaded image waits.
    """
    LOG.warning('%s: StartUpdate: %s', connector.label, exc.what)
    unknown = isinstance(exc, BmcAnswerInvalid) or (
        isinstance(exc, BmcRefused) and exc.reason is BmcRefusalReason.INTERNAL_ERROR
    )
    against = Objection(text=exc.what, fails=not unknown)
    if uploaded is not None and uploaded.state is TaskState.ACTIVE and not unknown:
        if uploaded.unbegun and isinstance(exc, BmcRefused):
            raise BmcBusy(
                bmc=connector.label, uri=uploaded.ref.uri, what=f'StartUpdate is not accepted yet: {exc.what}'
            ) from exc
        with contextlib.suppress(BmcError):
            task.cancel(connector, uploaded.ref)
        raise exc
    if uploaded is None or uploaded.state is TaskState.GONE:
        return against
    return replace(uploaded, objection=against)


def _begun(connector: Connector, found: TaskReading) -> TaskReading:
    """A started task, once it has begun. One that still waits after BEGINS seconds waits for something else."""
    until = time.monotonic() + BEGINS
    while found.state is TaskState.ACTIVE and found.is_waiting and time.monotonic() < until:
        wait.sleep(BEAT)
        try:
            found = replace(task.read(connector, found.ref), objection=found.objection)
        except BmcError as exc:
            LOG.info('%s', exc)
            break
    return found

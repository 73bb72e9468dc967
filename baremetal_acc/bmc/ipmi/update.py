# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Update one HPM.1 component: upload an image, activate it or roll back, and read the outcome as a task.

The upload is done in turns while the caller waits: HPM.1 has no service that takes an image and writes it later. It ends with
Activate Firmware, sent once and in a turn of its own. Where a component is to get back the version that it ran before, and has
kept it, Initiate Manual Rollback replaces the upload; if the rollback is refused, the version is uploaded. After that the
outcome is only read: the status of the controller's last command, its self-test and its rollbacks are reported as a task
reading; that the expected version runs is checked by the caller.

All checks of the image come before the first command that changes anything. An upload that failed has activated nothing, but
may have erased the stored image; such a component is never reported as untouched.

Source: PICMG HPM.1 R1.0, section 3; HPM.2 R1.0, section 3; doc/source/reference/ipmi_notes.rst, "Upload by HPM.1".
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from baremetal_acc import wait
from baremetal_acc.bmc.ipmi.command import Raw
from baremetal_acc.bmc.ipmi.hpm import activation, commands, compatibility, image, upgrade_target, upload_block, upload_state
from baremetal_acc.bmc.ipmi.hpm import upload as hpm_upload
from baremetal_acc.bmc.ipmi.hpm.compatibility import Fitting
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcNotAuthorised,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
    ImageError,
    WriteFailed,
)
from baremetal_acc.model.image import Upload, UploadProgress
from baremetal_acc.model.inventory import Sending, TaskReading, TaskState, UpdateFacts, UploadWay
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)

TURN = timedelta(seconds=15)
"""Length of one turn of an upload. An upload takes up to an hour over a slow bus; between turns the caller attends to other
jobs.
"""

ROLLBACK = '/rollback'
"""Suffix of a component's URI for the task of a rollback to the version that it has kept."""

_BACK = 'roll back'
"""Marker in :attr:`UploadProgress.so_far` for a rollback, in place of the state of an upload."""


def facts(unseen: Iterable[Ref]) -> UpdateFacts:
    """Update capabilities of a BMC with HPM.1: images are pushed, one at a time.

    :param unseen: components that run activated firmware only after a payload reset, and do not report what waits for it.
    """
    how = Sending(way=UploadWay.HPM_1, apply_time=None)
    return UpdateFacts(
        push=True,
        pull=False,
        parallel=1,
        max_size=image.MOST_BYTES,
        sending=how,
        judges=True,
        unseen=tuple(sorted(unseen)),
    )


def push(raw: Raw, ref: Ref, number: int, upload: Upload) -> UploadProgress:
    """Check that an image can be written to one component. Nothing is changed.

    :param raw: to its controller, as administrator.
    :returns: the progress from which :func:`go_on` begins.
    :raises BmcUnsupported: the image is not for this component, or the controller does not support HPM.1.
    :raises BmcBusy: the controller is doing something else.
    :raises BmcError: a command was refused, or not answered.
    """
    found = _fitting(raw, ref, number, upload)
    if upload.goes_back and _goes_back(raw, found):
        return UploadProgress(task=ref, so_far=_BACK, whole=True, percent=100)
    return UploadProgress(task=ref, so_far=upload_state.paused(_begun(raw, found), 0.0))


def go_on(
    raw: Raw,
    ref: Ref,
    number: int,
    upload: Upload,
    progress: UploadProgress,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = wait.sleep,
) -> UploadProgress | TaskReading:
    """Continue an upload for one turn; if it is complete, activate it, once.

    :param ref: of the component.
    :raises BmcUnsupported: as by :func:`push`, in the first turn.
    :raises BmcBusy: as by :func:`push`, in the first turn; or the controller is busy or away when the image is to be activated.
    :raises BmcAnswerInvalid: the upload failed; nothing of it is activated.
    :raises BmcError: a command was refused, or not answered.
    """
    if progress.whole:
        back = progress.so_far == _BACK
        wanted = _image(raw, ref, upload).uploads[0].version if back else None
        try:
            return _brought_in_force(raw, ref, number, wanted, back=back)
        except (BmcNotAuthorised, BmcRefused, BmcUnsupported) as exc:
            if not back:
                raise
            LOG.warning('%s: the rollback failed, so the previous firmware is uploaded: %s', ref, exc)
            return replace(progress, so_far=None, percent=0, whole=False, turning=False)
    going = None
    if progress.so_far is not None:
        going = upload_state.resumed(_image(raw, ref, upload).uploads[0], progress.so_far, clock())
    if going is None:
        going = _begun(raw, _fitting(raw, ref, number, upload))
    try:
        going = hpm_upload.turn(raw, going, clock=clock, sleep=sleep, within=TURN)
    except WriteFailed as exc:
        raise BmcAnswerInvalid(bmc=raw.label, uri=ref.uri, what='; '.join(exc.reasons), hint=exc.hint) from exc
    return replace(
        progress, so_far=upload_state.paused(going, clock()), percent=going.percent, whole=going.staged, turning=False
    )


def _begun(raw: Raw, found: Fitting) -> upload_state.Transfer:
    """The state of the upload before its first command."""
    return upload_state.begin(found.image, found.part, found.target, found.can, upload_block.block_size(raw))


def _brought_in_force(raw: Raw, ref: Ref, number: int, wanted: image.Version | None, *, back: bool) -> TaskReading:
    """Activate the uploaded firmware, or roll back to the kept version: the command is sent once.

    A controller that answers "busy" may have executed the command all the same: a bus may repeat commands. Its state is read
    before anything is sent, and after that answer; a command that is seen to be done, or in progress, is not sent again. A
    second rollback would undo the first.

    :raises BmcBusy: the controller is doing something else, or is away; before the next attempt its state is read again.
    :raises BmcError: as by :func:`baremetal_acc.bmc.ipmi.hpm.activation.activate`.
    """
    command = commands.HpmCommand.ROLLBACK if back else commands.HpmCommand.ACTIVATE
    done, said = _is_done(raw, ref, number, wanted, command), 'rolled back' if back else 'activated'
    if not done:
        try:
            done = activation.roll_back(raw) if back else activation.activate(raw)
        except BmcBusy as exc:
            standing = activation.look(raw)
            if standing.away is None and back and standing.status is None:  # and the outcome can never be read
                raise BmcRefused(bmc=raw.label, uri=ref.uri, what=exc.what) from exc
            if standing.status is None or standing.status.command != command:
                raise
    return TaskReading(
        ref=replace(ref, uri=f'{ref.uri}{ROLLBACK}') if back else ref,
        state=TaskState.ACTIVE,
        raw=commands.NAMES[command],
        message=said if done else f'{commands.NAMES[command]} is in progress, or it is unknown whether it began',
    )


def _is_done(raw: Raw, ref: Ref, number: int, wanted: image.Version | None, command: commands.HpmCommand) -> bool:
    """Whether an activation is in progress, or a rollback is done or in progress.

    A rollback is detected by the controller's last command, or by the version that runs: :func:`_goes_back` has checked before
    that neither indicated one.

    :raises BmcBusy: the state cannot be read now, or another command is in progress.
    """
    standing = activation.look(raw)
    if standing.away is not None:
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=standing.away)
    last = standing.status
    if last is not None and last.code == commands.IN_PROGRESS and last.command != command:
        raise BmcBusy(
            bmc=raw.label, uri=ref.uri, what=f'the controller is executing another command: {commands.named(last.command)}'
        )
    if command is commands.HpmCommand.ACTIVATE:
        return last is not None and last.code == commands.IN_PROGRESS
    try:
        return (last is not None and last.command == command) or upgrade_target.read_component(raw, number).current == wanted
    except BmcUnreachable as exc:
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=exc.what) from exc


def _fitting(raw: Raw, ref: Ref, number: int, upload: Upload) -> Fitting:
    """Check that an image is for a component, and that its controller takes an update now.

    :raises BmcUnsupported: the image is not compatible.
    :raises BmcBusy: the controller is doing something else.
    """
    found = compatibility.fitting(raw, ref, number, _image(raw, ref, upload))
    running = reading(raw, ref, number)
    if running.state is TaskState.ACTIVE:
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=f'the controller is busy: {running.raw}')
    if commands.ComponentFeature.UNDESIRABLE in found.target.features:
        what = 'the controller reports that an upgrade is undesirable now (Get Target Upgrade Capabilities, bit 7)'
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=what, hint="the vendor's tools or logs may tell why")
    return found


def _goes_back(raw: Raw, found: Fitting) -> bool:
    """Whether Initiate Manual Rollback restores the version of the image, and changes nothing else.

    It rolls back all components that were activated last, and no controller reports which these are: so no other component may
    have another version to roll back to. If a controller does not report its last command, or that was a rollback, the image is
    uploaded instead: nobody could tell later whether it has already rolled back.
    """
    this, wanted = found.component, found.part.version
    if commands.ComponentFeature.MANUAL_ROLLBACK not in found.target.features or wanted is None or this.rollback != wanted:
        return False
    last = activation.look(raw).status
    if this.current == wanted or last is None or last.command == commands.HpmCommand.ROLLBACK:
        return False
    others = [one for one in upgrade_target.read_components(raw, found.target) if one.number != this.number]
    return all(not one.unread and one.rollback in (None, one.current) for one in others)


def _image(raw: Raw, ref: Ref, upload: Upload) -> image.HpmImage:
    """Parse the image that was checked. An error in it has not changed the component."""
    try:
        return compatibility.read(upload, upload.file)
    except ImageError as exc:
        raise BmcUnsupported(bmc=raw.label, uri=ref.uri, what=exc.message, hint=exc.hint) from exc


def reading(raw: Raw, ref: Ref, number: int, *, back: bool = False) -> TaskReading:
    """Outcome of a controller's last command as a task, as far as the controller still reports it.

    :param back: the task is a rollback; else an activation.
    :raises BmcUnreachable: the state cannot be read now: the controller may be restarting.
    :raises BmcError: an answer is invalid, or the user lacks the privilege.
    """
    standing = activation.look(raw)
    if standing.away is not None:
        raise BmcUnreachable(bmc=raw.label, uri=ref.uri, what=standing.away)
    state, said = activation.became(standing, number, commands.HpmCommand.ROLLBACK if back else commands.HpmCommand.ACTIVATE)
    percent = None if standing.status is None or state is not TaskState.ACTIVE else standing.status.percent
    return TaskReading(ref=ref, state=state, raw=said, percent=percent, message=said if state is TaskState.FAILED else None)

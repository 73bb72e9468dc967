# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is an image written to one component of HPM.1, and what has become of it?

An upload is done in turns while the caller waits: HPM.1 has nobody who would take an image and write it later. It ends with
Activate Firmware, which is sent once and in a turn of its own. Where a component is to get back what it ran before, and has
kept it, Manual Rollback takes the place of all that, and an upload its place where it is refused. From then on whoever wants
to know looks: what the controller says of its last command, of its self-test and of rollbacks is a reading of a task, and that
the version runs is read by the caller.

Whatever speaks against an image is found before the first command that changes anything. An upload that has failed on its way
has activated nothing, but may have erased what was there: then nobody says that the component is untouched.

Source: facts/ipmi.md, section 3.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from baremetal_acc import wait
from baremetal_acc.bmc.ipmi import fitting, hpm, hpm_image, transfer
from baremetal_acc.bmc.ipmi.fitting import Fitting
from baremetal_acc.bmc.ipmi.wire import Raw
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
from baremetal_acc.model.image import Progress, Upload
from baremetal_acc.model.inventory import Sending, TaskReading, TaskState, UpdateFacts, Way
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)

TURN = timedelta(seconds=15)
"""Of an upload, which takes up to an hour over a slow bus: whoever turns it looks after others in between."""

ROLLBACK = '/rollback'
"""What the URI of a component ends with, as the place of a task: going back to what it has kept."""

_BACK = 'roll back'
"""In place of how far an upload is."""


def facts(unseen: Iterable[Ref]) -> UpdateFacts:
    """How a BMC takes images by HPM.1: one at a time, from us.

    :param unseen: components that run what was activated after a reset of the payload only, and do not tell what waits for it.
    """
    how = Sending(way=Way.HPM_1, apply_time=None)
    return UpdateFacts(
        push=True,
        pull=False,
        parallel=1,
        max_size=hpm_image.MOST_BYTES,
        sending=how,
        judges=True,
        unseen=tuple(sorted(unseen)),
    )


def push(raw: Raw, ref: Ref, number: int, upload: Upload) -> Progress:
    """See whether an image can be written to one component. Nothing is changed.

    :param raw: to its controller, as an administrator.
    :returns: where :func:`go_on` begins.
    :raises BmcUnsupported: the image is not for this component, or the controller has none of HPM.1.
    :raises BmcBusy: it is at something else.
    :raises BmcError: a command was refused, or not answered.
    """
    found = _fitting(raw, ref, number, upload)
    if upload.goes_back and _goes_back(raw, found):
        return Progress(task=ref, so_far=_BACK, whole=True, percent=100)
    return Progress(task=ref, so_far=transfer.paused(_begun(raw, found), 0.0))


def go_on(
    raw: Raw,
    ref: Ref,
    number: int,
    upload: Upload,
    progress: Progress,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = wait.sleep,
) -> Progress | TaskReading:
    """Go on with an upload for a turn; once it is whole, activate it, once.

    :param ref: of the component.
    :raises BmcUnsupported: as of :func:`push`, in the first turn. ``BmcBusy``: so, too.
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
            LOG.warning('%s: %s: what it ran before is uploaded', ref, exc)
            return replace(progress, so_far=None, percent=0, whole=False, turning=False)
    going = None
    if progress.so_far is not None:
        going = transfer.resumed(_image(raw, ref, upload).uploads[0], progress.so_far, clock())
    if going is None:
        going = _begun(raw, _fitting(raw, ref, number, upload))
    try:
        going = transfer.turn(raw, going, clock=clock, sleep=sleep, within=TURN)
    except WriteFailed as exc:
        raise BmcAnswerInvalid(bmc=raw.label, uri=ref.uri, what='; '.join(exc.reasons), hint=exc.hint) from exc
    return replace(progress, so_far=transfer.paused(going, clock()), percent=going.percent, whole=going.staged, turning=False)


def _begun(raw: Raw, found: Fitting) -> transfer.Transfer:
    """The upload before its first command."""
    return transfer.begin(found.image, found.part, found.target, found.can, transfer.block_size(raw))


def _brought_in_force(raw: Raw, ref: Ref, number: int, wanted: hpm_image.Version | None, *, back: bool) -> TaskReading:
    """Activate what was uploaded, or go back to what was kept: sent once.

    That a controller says that it is busy does not say that it has not done it: a bus repeats commands. It is looked at before
    anything is sent, and after that answer, and what is seen to be done, or under way, is not sent again. A second rollback
    would undo the first.

    :raises BmcBusy: the controller is at something else, or away; it is looked at again before anything is sent.
    :raises BmcError: as of :func:`hpm.activate`.
    """
    command = hpm.Command.ROLLBACK if back else hpm.Command.ACTIVATE
    done, said = _is_done(raw, ref, number, wanted, command), 'rolled back' if back else 'activated'
    if not done:
        try:
            done = hpm.roll_back(raw) if back else hpm.activate(raw)
        except BmcBusy as exc:
            standing = hpm.look(raw)
            if standing.away is None and back and standing.status is None:  # and nobody will ever know
                raise BmcRefused(bmc=raw.label, uri=ref.uri, what=exc.what) from exc
            if standing.status is None or standing.status.command != command:
                raise
    return TaskReading(
        ref=replace(ref, uri=f'{ref.uri}{ROLLBACK}') if back else ref,
        state=TaskState.ACTIVE,
        raw=hpm.NAMES[command],
        message=said if done else f'{hpm.NAMES[command]} goes on, or nobody knows whether it began',
    )


def _is_done(raw: Raw, ref: Ref, number: int, wanted: hpm_image.Version | None, command: hpm.Command) -> bool:
    """Whether a component is just being activated, or was or is being rolled back.

    Of a rollback the last command says it, and what runs: :func:`_goes_back` has seen that they did not before.

    :raises BmcBusy: nobody can tell now.
    """
    standing = hpm.look(raw)
    if standing.away is not None:
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=standing.away)
    last = standing.status
    if last is not None and last.code == hpm.IN_PROGRESS and last.command != command:
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=f'it is at something else: {hpm.named(last.command)}')
    if command is hpm.Command.ACTIVATE:
        return last is not None and last.code == hpm.IN_PROGRESS
    try:
        return (last is not None and last.command == command) or hpm.component(raw, number).current == wanted
    except BmcUnreachable as exc:
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=exc.what) from exc


def _fitting(raw: Raw, ref: Ref, number: int, upload: Upload) -> Fitting:
    """See that an image is for a component, and that its controller takes it now.

    :raises BmcUnsupported: it does not fit. ``BmcBusy``: the controller is at something else.
    """
    found = fitting.fitting(raw, ref, number, _image(raw, ref, upload))
    running = reading(raw, ref, number)
    if running.state is TaskState.ACTIVE:
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=f'it is at something else: {running.raw}')
    if hpm.Feature.UNDESIRABLE in found.target.features:
        what = 'it says that an upgrade is undesirable now (Get Target Upgrade Capabilities, bit 7)'
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=what, hint='its own tools or logs may say why')
    return found


def _goes_back(raw: Raw, found: Fitting) -> bool:
    """Whether Manual Rollback brings the version of the image back, and changes nothing else.

    It goes back with all components that were activated last, and nobody tells which these are: so no other one may have
    something else to go back to. A controller that does not tell its last command, or whose last one was a rollback, is
    written: of such a one nobody could tell whether it has gone back already.
    """
    this, wanted = found.component, found.part.version
    if hpm.Feature.MANUAL_ROLLBACK not in found.target.features or wanted is None or this.rollback != wanted:
        return False
    last = hpm.look(raw).status
    if this.current == wanted or last is None or last.command == hpm.Command.ROLLBACK:
        return False
    others = [one for one in hpm.components(raw, found.target) if one.number != this.number]
    return all(not one.unread and one.rollback in (None, one.current) for one in others)


def _image(raw: Raw, ref: Ref, upload: Upload) -> hpm_image.Image:
    """The bytes that were checked. What is wrong with them has not touched the component."""
    try:
        return fitting.read(upload, upload.file)
    except ImageError as exc:
        raise BmcUnsupported(bmc=raw.label, uri=ref.uri, what=exc.message, hint=exc.hint) from exc


def reading(raw: Raw, ref: Ref, number: int, *, back: bool = False) -> TaskReading:
    """What has become of the last command of a controller, as far as it still says.

    :param back: of a rollback; else of an activation.
    :raises BmcUnreachable: it cannot be asked now: it may be restarting.
    :raises BmcError: its answers are none, or the user may not.
    """
    standing = hpm.look(raw)
    if standing.away is not None:
        raise BmcUnreachable(bmc=raw.label, uri=ref.uri, what=standing.away)
    state, said = hpm.became(standing, number, hpm.Command.ROLLBACK if back else hpm.Command.ACTIVATE)
    percent = None if standing.status is None or state is not TaskState.ACTIVE else standing.status.percent
    return TaskReading(ref=ref, state=state, raw=said, percent=percent, message=said if state is TaskState.FAILED else None)

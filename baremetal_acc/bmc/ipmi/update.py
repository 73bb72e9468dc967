# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is an image written to one component of HPM.1, and what has become of it?

An upload is done while the caller waits: HPM.1 has nobody who would take an image and write it later. It ends with Activate
Firmware, which is sent once. From then on whoever wants to know looks: what the controller says of its last command, of its
self-test and of rollbacks is a reading of a task, and that the version runs is read by the caller.

Whatever speaks against an image is found before the first command that changes anything. An upload that has failed on its way
has activated nothing, but may have erased what was there: then nobody says that the component is untouched.

Source: facts/ipmi.md, section 3.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from baremetal_acc.bmc import wait
from baremetal_acc.bmc.ipmi import device, hpm, hpm_image, transfer
from baremetal_acc.bmc.ipmi.wire import Raw
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcUnreachable, BmcUnsupported, ImageError, WriteFailed
from baremetal_acc.model.image import Upload
from baremetal_acc.model.inventory import TaskReading, TaskState, UpdateFacts
from baremetal_acc.model.ref import Ref

LONGEST = timedelta(hours=1)
"""For an upload. Over a slow bus (3 to 4 KB/s behind a bridge, an estimate) it is enough for 12 MB."""


def facts() -> UpdateFacts:
    """How a BMC takes images by HPM.1: one at a time, from us."""
    return UpdateFacts(push=True, pull=False, parallel=1, max_size=hpm_image.MOST_BYTES)


def push(
    raw: Raw,
    ref: Ref,
    number: int,
    upload: Upload,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = wait.sleep,
) -> TaskReading:
    """Upload an image to one component, and activate it, once.

    :param raw: to its controller, as an administrator.
    :raises BmcUnsupported: the image is not for this component, or the controller has none of HPM.1; nothing was changed.
    :raises BmcBusy: it is at something else; nothing was changed.
    :raises BmcAnswerInvalid: the upload failed; nothing of it is activated.
    :raises BmcError: a command was refused, or not answered.
    """
    image, part = _image(raw, ref, number, upload)
    target = hpm.capabilities(raw)
    if target is None:
        raise BmcUnsupported(bmc=raw.label, uri=ref.uri, what='it does not speak HPM.1 any more')
    differs = hpm_image.fits(image, hpm_image.device(device.identify(raw), target.components))
    seen = hpm.component(raw, number) if number in target.components else None
    if differs or seen is None:
        raise BmcUnsupported(bmc=raw.label, uri=ref.uri, what='; '.join(differs) or f'it has no component {number}')
    if seen.properties is None:
        told = f'what component {number} can could not be read: {"; ".join(seen.unread)}'
        raise BmcUnsupported(bmc=raw.label, uri=ref.uri, what=told)
    running = reading(raw, ref, number)
    if running.state is TaskState.ACTIVE:
        raise BmcBusy(bmc=raw.label, uri=ref.uri, what=f'it is at something else: {running.raw}')
    going = transfer.begin(image, part, target, seen.properties, transfer.block_size(raw))
    until = clock() + LONGEST.total_seconds()
    try:
        while not going.staged:
            if clock() >= until:
                raise WriteFailed([f'BMC {raw.label}, component {number}: the upload took longer than {LONGEST}'])
            going = transfer.turn(raw, going, clock=clock, sleep=sleep, within=timedelta(seconds=10))
    except WriteFailed as exc:
        raise BmcAnswerInvalid(bmc=raw.label, uri=ref.uri, what='; '.join(exc.reasons), hint=exc.hint) from exc
    done = hpm.activate(raw)
    return TaskReading(
        ref=ref,
        state=TaskState.ACTIVE,
        raw=hpm.NAMES[hpm.Command.ACTIVATE],
        message='activated' if done else 'the activation goes on, or nobody knows whether it began',
    )


def _image(raw: Raw, ref: Ref, number: int, upload: Upload) -> tuple[hpm_image.Image, hpm_image.Upload]:
    """The bytes that were checked, as an image for this component and no other."""

    def unfit(what: str) -> BmcUnsupported:
        return BmcUnsupported(bmc=raw.label, uri=ref.uri, what=what)

    if upload.size_bytes > hpm_image.MOST_BYTES:
        raise unfit(f'image {upload.file} has {upload.size_bytes} bytes, and at most {hpm_image.MOST_BYTES} are taken')
    with upload.open() as stream:
        content = stream.read(upload.size_bytes + 1)
    if len(content) != upload.size_bytes:
        raise unfit(f'image {upload.file} has another size than the {upload.size_bytes} bytes that were checked')
    try:
        image = hpm_image.parse(content, upload.file)
    except ImageError as exc:
        raise unfit(exc.message) from exc
    brings = frozenset(one.component for one in image.uploads)
    if brings != {number}:
        listed = hpm_image.listed(brings)
        raise unfit(f'image {upload.file} brings firmware for component {listed}, and it is to be written to {number} alone')
    return image, image.uploads[0]


def reading(raw: Raw, ref: Ref, number: int) -> TaskReading:
    """What has become of the last command of a controller, as far as it still says.

    :raises BmcUnreachable: it cannot be asked now: it may be restarting.
    :raises BmcError: its answers are none, or the user may not.
    """
    standing = hpm.look(raw, number)
    if standing.away is not None:
        raise BmcUnreachable(bmc=raw.label, uri=ref.uri, what=standing.away)
    status = standing.status
    if status is not None and status.code == hpm.IN_PROGRESS:
        said = f'{_named(status.command)} goes on'
        return TaskReading(ref=ref, state=TaskState.ACTIVE, raw=said, percent=status.percent)
    if standing.test is hpm.SelfTest.RUNNING or standing.back is hpm.Rollback.RUNNING:
        said = standing.test_says if standing.test is hpm.SelfTest.RUNNING else 'a rollback goes on'
        return TaskReading(ref=ref, state=TaskState.ACTIVE, raw=said)
    if status is None or status.command != hpm.Command.ACTIVATE:
        return TaskReading(ref=ref, state=TaskState.GONE, raw='it does not say what became of an activation')
    if status.code:
        said = f'{_named(status.command)} ended with completion code {status.code:02X}h'
        return TaskReading(ref=ref, state=TaskState.FAILED, raw=said)
    if standing.test is hpm.SelfTest.FAILED:
        return TaskReading(ref=ref, state=TaskState.FAILED, raw=standing.test_says)
    if number in standing.rolled_back:
        return TaskReading(ref=ref, state=TaskState.FAILED, raw='it was rolled back')
    return TaskReading(ref=ref, state=TaskState.SUCCEEDED, raw=f'{_named(status.command)} ended well')


def _named(command: int) -> str:
    """A command, for people."""
    return hpm.NAMES[hpm.Command(command)] if command in tuple(hpm.Command) else f'command {command:02X}h'

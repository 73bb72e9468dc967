# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send a firmware image to a BMC's UpdateService: one request, with its Targets and its OperationApplyTime.

The image is sent by a multipart push; where the BMC has no MultipartHttpPushUri, by HttpPushUri if its targets can be named
(:mod:`.http_push`). Otherwise, where the operator allows it, the BMC pulls our checked copy (:mod:`.image_server`) by
SimpleUpdate, which can name targets too.

Source: DSP8010 2025.4, UpdateService v1_17_0, MultipartHttpPushUri; DSP0266, section "Software update types". A request without
Targets updates everything that the image fits, so only bundles are sent so; bmcweb refuses a request with two Targets
(openbmc/bmcweb update_service.hpp; doc/source/reference/redfish_notes.rst, "Firmware updates").
"""

import logging
import re
import time
from collections.abc import Callable, Iterator

from baremetal_acc.bmc.driver import ImageServer, Upload
from baremetal_acc.bmc.redfish import http_push, start_update, task
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.image_server import Fetched
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.bmc.redfish.update_parameters import FORCE, ON_START, apply_time, named, refuses_force, targets
from baremetal_acc.bmc.redfish.upload_body import Multipart
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import Objection, Sending, TaskReading, TaskState, UpdateActivity, UpdateFacts, UploadWay
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)

MULTIPART = 'MultipartHttpPushUri'

NAMES_NO_TARGET = (
    'images can be pushed by HttpPushUri only, without HttpPushUriTargets: an image would be written to all that it fits'
)
"""Why an image for one component is not pushed to a service with HttpPushUri and without HttpPushUriTargets."""

SIMPLE_UPDATE = '#UpdateService.SimpleUpdate'

_SCHEMA = re.compile(r'#UpdateService\.v(\d{1,3})_(\d{1,3})_\d{1,3}\.UpdateService')
_FORCES_SINCE = (1, 11)

FETCH_TIMEOUT = 600.0
"""Seconds for a BMC to pull an image, as many as for a pushed one."""

TASK_BEAT = 5.0
"""Seconds between two reads of the task of a BMC that pulls an image: once the task has failed, waiting is useless."""


def sending(view: ResourceView, images: ImageServer | None) -> Sending | None:
    """How :func:`push` would send an image; None if it would not. Sends no request.

    :param view: the UpdateService.
    :param images: where BMCs reach our image server; None: no image is served.
    """
    if unavailable(view) is not None:
        return None
    way = way_of(view, images)
    if way is None:
        # If the service has SimpleUpdate, the operator only has to let us serve images: no obstacle is reported.
        untold = view.text(http_push.PUSH_URI) is not None and pull_target(view) is None
        return Sending(way=UploadWay.HTTP_PUSH, apply_time=None, obstacle=NAMES_NO_TARGET) if untold else None
    try:
        when = asked_time(view, way)
    except BmcUnsupported as exc:
        return Sending(way=way, apply_time=None, obstacle=exc.what)
    obstacle = None if way is not UploadWay.PULL or images is None else _other_protocol(view, images)
    return Sending(way=way, apply_time=when, obstacle=obstacle)


def way_of(view: ResourceView, images: ImageServer | None, *, targeted: bool = True) -> UploadWay | None:
    """How a service takes an image, the best way first; None if it takes none.

    An image pushed to HttpPushUri whose targets cannot be named would go to everything that it fits: then SimpleUpdate is
    better, as it can name targets.

    :param images: where BMCs reach our image server; None: no image is served.
    :param targeted: the image is for named targets; else for all that the BMC applies it to.
    """
    if view.text(MULTIPART) is not None:
        return UploadWay.MULTIPART_PUSH
    if view.text(http_push.PUSH_URI) is not None and (http_push.names_targets(view) or not targeted):
        return UploadWay.HTTP_PUSH
    return UploadWay.PULL if images is not None and pull_target(view) is not None else None


def asked_time(view: ResourceView, way: UploadWay) -> str | None:
    """The OperationApplyTime that is requested; None if none is.

    :raises BmcUnsupported: only maintenance windows are offered.
    """
    match way:
        case UploadWay.MULTIPART_PUSH:
            return _supported_time(view, view.part(f'{MULTIPART}@Redfish.OperationApplyTimeSupport'))
        case UploadWay.HTTP_PUSH:
            return http_push.asked_time(view)
        case UploadWay.PULL:
            support = view.part('Actions', SIMPLE_UPDATE, '@Redfish.OperationApplyTimeSupport')
            return None if support is None else _supported_time(view, support)
        case UploadWay.HPM_1:
            return None


def _supported_time(view: ResourceView, support: ResourceView | None) -> str:
    return apply_time(view, None if support is None else support.body.get('SupportedValues'))


def facts(view: ResourceView, parallel: int, images: ImageServer | None = None) -> UpdateFacts:
    """The properties of an UpdateService that planning needs.

    :param parallel: updates at a time that the BMC is allowed.
    :param images: where BMCs reach our image server; None: no image is served.
    """
    how = sending(view, images)
    limit = view.integer('MaxImageSizeBytes')
    return UpdateFacts(
        push=how is not None,
        pull=unavailable(view) is None and pull_target(view) is not None,
        # StartUpdate starts every update that waits.
        parallel=1 if how is not None and how.apply_time == ON_START else parallel,
        max_size=limit if limit is not None and limit > 0 else None,
        sending=how,
        forces=how is not None and (http_push.forces(view) if how.way is UploadWay.HTTP_PUSH else forces(view)),
        untargeted=how is not None and how.obstacle == NAMES_NO_TARGET,
    )


def forces(view: ResourceView) -> bool:
    """Whether the service takes ForceUpdate: its schema version has it, or HttpPushUriOptions shows it.

    Source: DSP8010 2025.4, UpdateService v1_11, SimpleUpdate and UpdateParameters, ForceUpdate. BMCs that show
    HttpPushUriOptions.ForceUpdate with an earlier schema take it, too
    (doc/source/reference/redfish_notes.rst, "Firmware updates").
    """
    kind = view.body.get('@odata.type')
    version = _SCHEMA.fullmatch(kind) if isinstance(kind, str) else None
    if version is not None and (int(version[1]), int(version[2])) >= _FORCES_SINCE:
        return True
    options = view.part('HttpPushUriOptions')
    return options is not None and options.has(FORCE)


def pull_target(view: ResourceView) -> str | None:
    """The target of the action SimpleUpdate; None if the service has no such action."""
    action = view.part('Actions', SIMPLE_UPDATE)
    return action.text('target') if action is not None else None


def unavailable(view: ResourceView) -> str | None:
    """Why the service takes no image at all; None if it is available."""
    if view.boolean('ServiceEnabled') is False:
        return 'the UpdateService is disabled (ServiceEnabled is false)'
    state = view.literal('Status', 'State')
    if state in ('Disabled', 'UnavailableOffline', 'Absent'):
        return f'the UpdateService is not available (Status.State is {state})'
    return None


_BUSY_WORDS = frozenset({
    'activating', 'applying', 'busy', 'downloading', 'flashing', 'inprogress', 'preparing', 'running', 'staging', 'starting',
    'updateinprogress', 'updating', 'uploading', 'verifying', 'writing',
})  # fmt: skip
"""State words of an update service that is writing.

Sources: DSP8010 2025.4, Resource v1, Status.State (Updating); HPE iLO 5 and 6, HpeiLOUpdateServiceExt, State (Uploading,
Verifying, Writing, Updating); canonical/testflinger#255.
"""

_IDLE_WORDS = frozenset({'complete', 'completed', 'error', 'failed', 'idle'})
"""State words of one that writes nothing. The same sources; Enabled only says that it takes requests."""

_STATE_NAMES = frozenset({'state', 'updatestate', 'updatestatus', 'flashstate', 'flashstatus'})
"""Names of a vendor's property for the state of its update service, in lower case."""


def activity(view: ResourceView) -> UpdateActivity | None:
    """Whether the update service says that it is busy or idle, by Status.State, Oem or HttpPushUriTargetsBusy; None: neither.

    :param view: the UpdateService.
    """
    words = {_plain(word) for word in _state_words(view.body.get('Oem'))}
    status = view.literal('Status', 'State')
    if status is not None and _plain(status) == 'updating':
        return UpdateActivity.BUSY
    if words & _BUSY_WORDS or view.boolean('HttpPushUriTargetsBusy') is True:
        return UpdateActivity.BUSY
    return UpdateActivity.IDLE if words & _IDLE_WORDS else None


def _state_words(body: object, depth: int = 0) -> Iterator[str]:
    if not isinstance(body, dict) or depth > 3:
        return
    for name, value in body.items():
        if isinstance(value, str) and isinstance(name, str) and _plain(name) in _STATE_NAMES:
            yield value
        elif isinstance(value, dict):
            yield from _state_words(value, depth + 1)


def _plain(word: str) -> str:
    return ''.join(c for c in word[:64] if c.isalnum()).casefold()


def push(
    connector: Connector, view: ResourceView | None, target: Ref, upload: Upload, images: ImageServer | None = None
) -> TaskReading | Objection | UploadProgress | None:
    """Send an image to one target, once; or let the BMC pull it, if it takes no push.

    :param view: the UpdateService as it is now, None if there is none.
    :param images: where BMCs reach our image server; None: no image is served.
    :returns: the task; without one, the failure or warning in the answer, or None; a Progress for :func:`.start_update.go_on`
        if the update waits for StartUpdate.
    :raises BmcUnsupported: the BMC takes no image in a way that is allowed. ``BmcBusy``: it has taken nothing.
        ``BmcUnreachable``: whether the image arrived is unknown. ``BmcRefused``: it refused. ``ImageMismatch``: the file
        changed while it was sent. ``UsageError``: the image cannot be served as the operator configured.
    """
    if view is None:
        raise BmcUnsupported(bmc=connector.label, what='the BMC has no UpdateService: it takes no firmware')
    reason = unavailable(view)
    if reason is not None:
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=reason, hint='enable the UpdateService on the BMC')
    if view.boolean('HttpPushUriTargetsBusy') is True:
        raise BmcBusy(bmc=connector.label, uri=view.ref.uri, what=http_push.reserved('HttpPushUriTargetsBusy'))
    if activity(view) is UpdateActivity.BUSY:
        raise BmcBusy(bmc=connector.label, uri=view.ref.uri, what='the UpdateService reports that it is writing')
    limit = view.integer('MaxImageSizeBytes')
    if limit is not None and 0 < limit < upload.size_bytes:
        what = f'the image has {upload.size_bytes} bytes, but at most {limit} are accepted (MaxImageSizeBytes)'
        raise BmcRefused(bmc=connector.label, uri=view.ref.uri, what=what)
    match way_of(view, images, targeted=bool(targets(target, upload))):
        case UploadWay.MULTIPART_PUSH:
            answer = _push_multipart(connector, view, target, upload)
            asked = asked_time(view, UploadWay.MULTIPART_PUSH)
        case UploadWay.HTTP_PUSH:
            uri = _on_this_bmc(connector, view.text(http_push.PUSH_URI))
            asked = asked_time(view, UploadWay.HTTP_PUSH)
            answer = task.answered(connector, http_push.push(connector, view, uri, target, upload), target.bmc)
        case _:
            answer = _let_fetch(connector, view, target, upload, images)
            asked = asked_time(view, UploadWay.PULL)
    return start_update.deferred(connector, view, answer, asked)


def _push_multipart(connector: Connector, view: ResourceView, target: Ref, upload: Upload) -> TaskReading | Objection | None:
    """Send an image and its UpdateParameters in one request."""
    uri = _on_this_bmc(connector, view.text(MULTIPART))
    parameters = named(target, upload) | {'@Redfish.OperationApplyTime': asked_time(view, UploadWay.MULTIPART_PUSH)}

    def send(more: dict[str, object]) -> RedfishAnswer:
        with upload.open() as file:
            body = Multipart(parameters | more, upload, file)
            try:
                return connector.send('POST', uri, stream=body, headers={'Content-Type': body.content_type})
            except BmcUnreachable as exc:
                exc.cut = not body.is_sent
                raise

    return task.answered(connector, _forced(connector, upload, send), target.bmc)


def _forced(connector: Connector, upload: Upload, send: Callable[[dict[str, object]], RedfishAnswer]) -> RedfishAnswer:
    """Send an image with ForceUpdate if it is to be forced; again without, if the BMC refused just that."""
    if not upload.forced:
        return send({})
    try:
        return send({FORCE: True})
    except BmcRefused as exc:
        if not refuses_force(exc):
            raise
        LOG.warning('%s: ForceUpdate is not accepted, so the image is sent without it: %s', connector.label, exc.what)
        return send({})


def _on_this_bmc(connector: Connector, uri: str | None) -> str:
    """The path to which an image is sent.

    :raises BmcUnsupported: the URI leads to another machine; nothing is sent there.
    """
    try:
        return connector.path(uri or '')
    except BmcAnswerInvalid as exc:
        raise BmcUnsupported(bmc=connector.label, what=f'the URI for images is invalid: {exc.what}') from exc


def _let_fetch(
    connector: Connector, view: ResourceView, target: Ref, upload: Upload, images: ImageServer | None
) -> TaskReading | Objection | None:
    """Send SimpleUpdate with the URL of our image server, and serve the image until the BMC has it.

    Source: DSP8010 2025.4, UpdateService, SimpleUpdate.
    """
    if pull_target(view) is None:
        plain = view.text(http_push.PUSH_URI) is not None
        neither = 'the UpdateService has neither MultipartHttpPushUri nor HttpPushUri nor SimpleUpdate'
        what = NAMES_NO_TARGET if plain else neither
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=what)
    uri = _on_this_bmc(connector, pull_target(view))
    if images is None:
        what = (
            'the BMC can only pull images (SimpleUpdate); pushing them (MultipartHttpPushUri, or HttpPushUri with '
            'HttpPushUriTargets) is not supported'
        )
        hint = 'set option [baremetal_acc] image_server_host to the address at which BMCs reach this machine'
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=what, hint=hint)
    other = _other_protocol(view, images)
    if other is not None:
        hint = 'see option [baremetal_acc] image_server_certificate'
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=other, hint=hint)
    with Fetched(upload, images, connector.label, host=connector.host) as served:
        body: dict[str, object] = {'ImageURI': served.url, 'TransferProtocol': _protocol(images), **named(target, upload)}
        time_asked = asked_time(view, UploadWay.PULL)
        if time_asked is not None:
            body['@Redfish.OperationApplyTime'] = time_asked
        told = _forced(connector, upload, lambda more: connector.send('POST', uri, body=body | more))
        answer = task.answered(connector, told, target.bmc)
        _until_fetched(connector, served, answer)
    return answer


def _protocol(images: ImageServer) -> str:
    return 'HTTP' if images.certificate is None else 'HTTPS'


def _other_protocol(view: ResourceView, images: ImageServer) -> str | None:
    """Why the BMC cannot pull by the protocol that we serve; None if it can."""
    action = view.part('Actions', SIMPLE_UPDATE)
    allowed = None if action is None else action.body.get('TransferProtocol@Redfish.AllowableValues')
    if not isinstance(allowed, list) or not allowed or _protocol(images) in allowed:
        return None
    offered = ', '.join(short(str(v)[:40]) for v in allowed[:5])
    return f'the BMC fetches images over {offered}, but they are served over {_protocol(images)}'


def _until_fetched(connector: Connector, served: Fetched, answer: TaskReading | Objection | None) -> None:
    """Wait until the BMC has the whole image, its task has ended, or FETCH_TIMEOUT is over. The caller checks the result.

    A BMC whose answer reports a failure and no task is given TASK_BEAT seconds.
    """
    until = time.monotonic() + FETCH_TIMEOUT
    while not served.wait(min(TASK_BEAT, max(0.0, until - time.monotonic()))):
        if time.monotonic() >= until:
            LOG.warning('%s: the BMC has not fetched the image within %d s', connector.label, FETCH_TIMEOUT)
            return
        if isinstance(answer, Objection) and answer.fails:
            return
        try:
            ended = isinstance(answer, TaskReading) and task.read(connector, answer.ref).state is not TaskState.ACTIVE
        except BmcError as exc:
            LOG.info('%s', exc)  # the BMC may be busy pulling the image
            continue
        if ended:
            LOG.warning('%s: the task has ended, but the BMC has not fetched the image', connector.label)
            return

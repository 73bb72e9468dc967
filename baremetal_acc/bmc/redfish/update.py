# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send an image to a BMC: one POST, streamed, with one Target and the time to apply it.

That is a multipart push; where the BMC takes none, a push by HttpPushUri (:mod:`.http_push`) whose targets can be named. Else,
where the operator allows it, the BMC fetches our checked copy from us (:mod:`.serve`): SimpleUpdate can name targets, too.

Source: DSP8010 2025.4, UpdateService v1_17_0, MultipartHttpPushUri; DSP0266, section "Software update types". A request
without Targets goes to everything that the image fits, as only bundles are sent; with two of them bmcweb refuses
(facts/redfish.md, sections 3.1, 8).
"""

import logging
import re
import time
from collections.abc import Callable, Iterator

from baremetal_acc.bmc.api import ImageServer, Upload
from baremetal_acc.bmc.redfish import http_push, start_update, task
from baremetal_acc.bmc.redfish.connector import Answer, Connector
from baremetal_acc.bmc.redfish.message import short
from baremetal_acc.bmc.redfish.parse import View
from baremetal_acc.bmc.redfish.serve import Fetched
from baremetal_acc.bmc.redfish.update_parameters import FORCE, ON_START, apply_time, named, refuses_force, targets
from baremetal_acc.bmc.redfish.upload_body import Multipart
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.image import Progress
from baremetal_acc.model.inventory import Objection, Sending, TaskReading, TaskState, UpdateActivity, UpdateFacts, Way
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)

MULTIPART = 'MultipartHttpPushUri'

NAMES_NO_TARGET = (
    'it takes images by HttpPushUri alone, and has no HttpPushUriTargets: an image would go to everything that it fits'
)
"""Why an image for one component is not pushed to such a service."""

SIMPLE_UPDATE = '#UpdateService.SimpleUpdate'

_SCHEMA = re.compile(r'#UpdateService\.v(\d{1,3})_(\d{1,3})_\d{1,3}\.UpdateService')
_FORCES_SINCE = (1, 11)

FETCH_TIMEOUT = 600.0
"""Seconds that a BMC has to fetch an image, as many as it has to take one that is pushed."""

TASK_BEAT = 5.0
"""Seconds between two looks at the task of a BMC that fetches: one that has failed fetches no more."""


def sending(view: View, images: ImageServer | None) -> Sending | None:
    """How :func:`push` would send an image; None when it would not. The BMC is not asked.

    :param view: the UpdateService.
    :param images: where BMCs find us; None: nothing is served.
    """
    if unavailable(view) is not None:
        return None
    way = way_of(view, images)
    if way is None:
        # What can be fetched needs an operator who lets us serve it, and no other hint.
        untold = view.text(http_push.PUSH_URI) is not None and pull_target(view) is None
        return Sending(way=Way.HTTP_PUSH, apply_time=None, obstacle=NAMES_NO_TARGET) if untold else None
    try:
        when = asked_time(view, way)
    except BmcUnsupported as exc:
        return Sending(way=way, apply_time=None, obstacle=exc.what)
    obstacle = None if way is not Way.PULL or images is None else _other_protocol(view, images)
    return Sending(way=way, apply_time=when, obstacle=obstacle)


def way_of(view: View, images: ImageServer | None, *, targeted: bool = True) -> Way | None:
    """How a service takes an image, the best way first; None where it takes none.

    A push by HttpPushUri whose targets cannot be named would go to everything that the image fits: then SimpleUpdate is better,
    which can name them.

    :param images: where BMCs find us; None: nothing is served.
    :param targeted: the image is for some targets; else it is for all that the BMC takes it for.
    """
    if view.text(MULTIPART) is not None:
        return Way.MULTIPART_PUSH
    if view.text(http_push.PUSH_URI) is not None and (http_push.names_targets(view) or not targeted):
        return Way.HTTP_PUSH
    return Way.PULL if images is not None and pull_target(view) is not None else None


def asked_time(view: View, way: Way) -> str | None:
    """The OperationApplyTime that is asked for; None when the BMC is asked for none.

    :raises BmcUnsupported: only maintenance windows are offered.
    """
    match way:
        case Way.MULTIPART_PUSH:
            return _supported_time(view, view.part(f'{MULTIPART}@Redfish.OperationApplyTimeSupport'))
        case Way.HTTP_PUSH:
            return http_push.asked_time(view)
        case Way.PULL:
            support = view.part('Actions', SIMPLE_UPDATE, '@Redfish.OperationApplyTimeSupport')
            return None if support is None else _supported_time(view, support)
        case Way.HPM_1:
            return None


def _supported_time(view: View, support: View | None) -> str:
    return apply_time(view, None if support is None else support.body.get('SupportedValues'))


def facts(view: View, parallel: int, images: ImageServer | None = None) -> UpdateFacts:
    """How an UpdateService takes images.

    :param images: where it may fetch them from us.
    """
    how = sending(view, images)
    limit = view.integer('MaxImageSizeBytes')
    return UpdateFacts(
        push=how is not None,
        pull=unavailable(view) is None and pull_target(view) is not None,
        # StartUpdate starts all that waits.
        parallel=1 if how is not None and how.apply_time == ON_START else parallel,
        max_size=limit if limit is not None and limit > 0 else None,
        sending=how,
        forces=how is not None and (http_push.forces(view) if how.way is Way.HTTP_PUSH else forces(view)),
        untargeted=how is not None and how.obstacle == NAMES_NO_TARGET,
    )


def forces(view: View) -> bool:
    """Whether the service may be told to write an image whatever version is there: its schema has that, or it shows it.

    Source: DSP8010 2025.4, UpdateService v1_11, SimpleUpdate and UpdateParameters, ForceUpdate. BMCs that show
    HttpPushUriOptions.ForceUpdate with a schema before that take it, too (facts/redfish.md, point 11).
    """
    kind = view.body.get('@odata.type')
    version = _SCHEMA.fullmatch(kind) if isinstance(kind, str) else None
    if version is not None and (int(version[1]), int(version[2])) >= _FORCES_SINCE:
        return True
    options = view.part('HttpPushUriOptions')
    return options is not None and options.has(FORCE)


def pull_target(view: View) -> str | None:
    """Where SimpleUpdate is posted to, None when the service has none."""
    action = view.part('Actions', SIMPLE_UPDATE)
    return action.text('target') if action is not None else None


def unavailable(view: View) -> str | None:
    """Why the service takes nothing at all, None when it does."""
    if view.boolean('ServiceEnabled') is False:
        return 'its UpdateService is disabled (ServiceEnabled is false)'
    state = view.literal('Status', 'State')
    if state in ('Disabled', 'UnavailableOffline', 'Absent'):
        return f'its UpdateService is not available (Status.State is {state})'
    return None


_BUSY_WORDS = frozenset({
    'activating', 'applying', 'busy', 'downloading', 'flashing', 'inprogress', 'preparing', 'running', 'staging', 'starting',
    'updateinprogress', 'updating', 'uploading', 'verifying', 'writing',
})  # fmt: skip
"""What an update service that writes calls its state.

Sources: DSP8010 2025.4, Resource v1, Status.State (Updating); HPE iLO 5 and 6, HpeiLOUpdateServiceExt, State (Uploading,
Verifying, Writing, Updating); canonical/testflinger#255.
"""

_IDLE_WORDS = frozenset({'complete', 'completed', 'error', 'failed', 'idle'})
"""What one that writes nothing calls it. The same sources; Enabled says that it takes requests, and nothing of what it does."""

_STATE_NAMES = frozenset({'state', 'updatestate', 'updatestatus', 'flashstate', 'flashstatus'})
"""What a maker may call the state of its update service."""


def activity(view: View) -> UpdateActivity | None:
    """What the update service says of itself; None: nothing.

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
    connector: Connector, view: View | None, target: Ref, upload: Upload, images: ImageServer | None = None
) -> TaskReading | Objection | Progress | None:
    """Send an image to one target, once; or let the BMC fetch it, if it takes none.

    :param view: the UpdateService as it is now, None when there is none.
    :param images: where BMCs find us; None: nothing is served.
    :returns: the task; where the BMC accepted without one what it says against that, None for nothing; where it has to be
        started, where :func:`.start_update.go_on` begins.
    :raises BmcUnsupported: it takes no image in a way that is allowed. ``BmcBusy``: it has taken nothing. ``BmcUnreachable``:
        whether it arrived is unknown. ``BmcRefused``: it refused. ``ImageMismatch``: the file changed while it was sent.
        ``UsageError``: nothing can be served as the operator wants it.
    """
    if view is None:
        raise BmcUnsupported(bmc=connector.label, what='it has no UpdateService: it takes no firmware')
    reason = unavailable(view)
    if reason is not None:
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=reason, hint='enable it on the BMC')
    if view.boolean('HttpPushUriTargetsBusy') is True:
        raise BmcBusy(bmc=connector.label, uri=view.ref.uri, what=http_push.reserved('HttpPushUriTargetsBusy'))
    if activity(view) is UpdateActivity.BUSY:
        raise BmcBusy(bmc=connector.label, uri=view.ref.uri, what='its update service says that it is writing')
    limit = view.integer('MaxImageSizeBytes')
    if limit is not None and 0 < limit < upload.size_bytes:
        what = f'the image has {upload.size_bytes} bytes, it takes at most {limit} (MaxImageSizeBytes)'
        raise BmcRefused(bmc=connector.label, uri=view.ref.uri, what=what)
    match way_of(view, images, targeted=bool(targets(target, upload))):
        case Way.MULTIPART_PUSH:
            answer = _push_multipart(connector, view, target, upload)
            asked = asked_time(view, Way.MULTIPART_PUSH)
        case Way.HTTP_PUSH:
            uri = _on_this_bmc(connector, view.text(http_push.PUSH_URI))
            asked = asked_time(view, Way.HTTP_PUSH)
            answer = task.answered(connector, http_push.push(connector, view, uri, target, upload), target.bmc)
        case _:
            answer = _let_fetch(connector, view, target, upload, images)
            asked = asked_time(view, Way.PULL)
    return start_update.deferred(connector, view, answer, asked)


def _push_multipart(connector: Connector, view: View, target: Ref, upload: Upload) -> TaskReading | Objection | None:
    """Send an image with its parameters in one request."""
    uri = _on_this_bmc(connector, view.text(MULTIPART))
    parameters = named(target, upload) | {'@Redfish.OperationApplyTime': asked_time(view, Way.MULTIPART_PUSH)}

    def send(more: dict[str, object]) -> Answer:
        with upload.open() as file:
            body = Multipart(parameters | more, upload, file)
            try:
                return connector.send('POST', uri, stream=body, headers={'Content-Type': body.content_type})
            except BmcUnreachable as exc:
                exc.cut = not body.is_sent
                raise

    return task.answered(connector, _forced(connector, upload, send), target.bmc)


def _forced(connector: Connector, upload: Upload, send: Callable[[dict[str, object]], Answer]) -> Answer:
    """Send an image with ForceUpdate where it is to be forced. A BMC that refuses just that, and so has taken nothing, is sent
    it without.
    """
    if not upload.forced:
        return send({})
    try:
        return send({FORCE: True})
    except BmcRefused as exc:
        if not refuses_force(exc):
            raise
        LOG.warning('%s: it does not take ForceUpdate, and is sent the image without: %s', connector.label, exc.what)
        return send({})


def _on_this_bmc(connector: Connector, uri: str | None) -> str:
    """Where an image is sent to.

    :raises BmcUnsupported: it leads to another machine, and nothing is sent there.
    """
    try:
        return connector.path(uri or '')
    except BmcAnswerInvalid as exc:
        raise BmcUnsupported(bmc=connector.label, what=f'where it takes images: {exc.what}') from exc


def _let_fetch(
    connector: Connector, view: View, target: Ref, upload: Upload, images: ImageServer | None
) -> TaskReading | Objection | None:
    """Tell the BMC where the image is, and serve it until it has it. Source: DSP8010 2025.4, UpdateService, SimpleUpdate."""
    if pull_target(view) is None:
        plain = view.text(http_push.PUSH_URI) is not None
        what = NAMES_NO_TARGET if plain else 'it offers neither MultipartHttpPushUri nor HttpPushUri nor SimpleUpdate'
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=what)
    uri = _on_this_bmc(connector, pull_target(view))
    if images is None:
        what = (
            'it can only pull an image (SimpleUpdate); pushing one (MultipartHttpPushUri, or HttpPushUri with '
            'HttpPushUriTargets) is not offered'
        )
        hint = 'set option [baremetal_acc] image_server_host to the address at which BMCs reach this machine'
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=what, hint=hint)
    other = _other_protocol(view, images)
    if other is not None:
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=other, hint='see image_server_certificate')
    with Fetched(upload, images, connector.label, host=connector.host) as served:
        body: dict[str, object] = {'ImageURI': served.url, 'TransferProtocol': _protocol(images), **named(target, upload)}
        time_asked = asked_time(view, Way.PULL)
        if time_asked is not None:
            body['@Redfish.OperationApplyTime'] = time_asked
        told = _forced(connector, upload, lambda more: connector.send('POST', uri, body=body | more))
        answer = task.answered(connector, told, target.bmc)
        _until_fetched(connector, served, answer)
    return answer


def _protocol(images: ImageServer) -> str:
    return 'HTTP' if images.certificate is None else 'HTTPS'


def _other_protocol(view: View, images: ImageServer) -> str | None:
    """Why the BMC cannot fetch what we serve, None when it can."""
    action = view.part('Actions', SIMPLE_UPDATE)
    allowed = None if action is None else action.body.get('TransferProtocol@Redfish.AllowableValues')
    if not isinstance(allowed, list) or not allowed or _protocol(images) in allowed:
        return None
    offered = ', '.join(short(str(v)[:40]) for v in allowed[:5])
    return f'it fetches images by {offered}, and they are served by {_protocol(images)}'


def _until_fetched(connector: Connector, served: Fetched, answer: TaskReading | Objection | None) -> None:
    """Wait until the BMC has the image, has ended its task, or has had enough time. What became of it, the caller looks at.

    One that has said without a task that it failed is given a moment.
    """
    until = time.monotonic() + FETCH_TIMEOUT
    while not served.wait(min(TASK_BEAT, max(0.0, until - time.monotonic()))):
        if time.monotonic() >= until:
            LOG.warning('%s: has not fetched its image within %d s', connector.label, FETCH_TIMEOUT)
            return
        if isinstance(answer, Objection) and answer.fails:
            return
        try:
            ended = isinstance(answer, TaskReading) and task.read(connector, answer.ref).state is not TaskState.ACTIVE
        except BmcError as exc:
            LOG.info('%s', exc)  # it may be busy with fetching
            continue
        if ended:
            LOG.warning('%s: has ended its task without fetching its image', connector.label)
            return

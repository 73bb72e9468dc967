# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a Redfish Task, Job or task monitor: whether the operation is running, how it ended, or that the BMC no longer has it.

Each is recognised by the content of the answer, never by the spelling of its URI. sushy's task monitor is not used, as it takes
the answer 200 to a GET of a Task for the end of the task (sushy 5.14.0, taskmonitor.py, from_response).

Source: DSP8010 2025.4, Task v1_7_4 and Job v1_2_4; DSP0266, section "Asynchronous operations".
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from urllib.parse import urlsplit

from baremetal_acc.bmc.quirks import RESTART_MESSAGES, RESTART_NAMES, RESTART_WORDS
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.bmc.redfish.extended_info import objection, said, short
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnsupported
from baremetal_acc.model.inventory import Complaint, Objection, TaskReading, TaskState
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.uri import normal

_MOST_MESSAGES = 2000
"""Messages of one task that are read: a package for a whole tray leaves some for each of its components."""

_GOOD = frozenset({'OK', 'Warning'})

MAX_PLACE = 512
"""Characters of a task's URI: a stored job has one for each write, and Ironic gives a job 48 KiB."""

STATES: dict[str, TaskState | None] = {
    'New': TaskState.ACTIVE,
    'Starting': TaskState.ACTIVE,
    'Running': TaskState.ACTIVE,
    'Suspended': TaskState.ACTIVE,
    'Interrupted': TaskState.ACTIVE,
    'Pending': TaskState.ACTIVE,
    'Stopping': TaskState.ACTIVE,
    'Service': TaskState.ACTIVE,
    'Cancelling': TaskState.ACTIVE,
    'Completed': None,
    'Killed': TaskState.FAILED,
    'Exception': TaskState.FAILED,
    'Cancelled': TaskState.FAILED,
}
"""Meaning of every TaskState of the standard; None: TaskStatus decides.

Interrupted counts as active, as the standard says that such a task may continue. The caller's own timeout ends one that never
does.
"""


JOB_STATES: dict[str, TaskState | None] = {
    **STATES,
    'UserIntervention': TaskState.ACTIVE,
    'Continue': TaskState.ACTIVE,
    'Invalid': TaskState.FAILED,
    'Validating': TaskState.ACTIVE,
    # Vendors' words. Source: Dell, registry of DellJob v1, JobState.
    'Failed': TaskState.FAILED,
    'CompletedWithErrors': TaskState.FAILED,
    'RebootFailed': TaskState.FAILED,
}
"""Meaning of every JobState of the standard, and of vendors' words for ends; None: JobStatus decides. Others are active."""

_AWAITS_RESTART = frozenset({'Pending', 'Scheduled', 'RebootPending', 'PendingActivation'})
"""States in which a task or job waits for what can only be a restart of the host, where a restart is planned.

Source: DSP8010 2025.4, Task v1_7_4, TaskState: Pending "has not started, and is waiting for a condition" by its meaning; the
others are words of vendors' Jobs.
"""

_RUNNING = 'Running'

_UNBEGUN = frozenset({'New', 'Starting'})
"""States before the first step. Source: DSP8010 2025.4, Task v1_7_4, TaskState."""

_WAITS = frozenset({'New', 'Pending', 'Suspended', 'Interrupted'}) | _AWAITS_RESTART
"""States in which a task or job makes no progress."""

_MAY_WAIT = _UNBEGUN | {'Suspended', 'Interrupted', 'Service', 'UserIntervention', 'Waiting', 'Queued'}
"""States in which the words of the last message are read too. A running task is left out, as it may mention a later restart."""

_START = re.compile(r'\bStart ?Update\b|StartUpdate(?:Required|Pending|Request)')
"""How a message names the action StartUpdate."""

_NO_DELETE = frozenset({400, 404, 405, 409, 501})
"""Statuses by which BMCs say that a task cannot be deleted. Source: RFC 9110, section 15.5 and 15.6."""

_MOST_ARGUMENTS, _LONGEST_ARGUMENT, _MOST_COMPLAINTS = 4, 200, 256
"""Limits of the messages that are kept: arguments of each, characters of an argument, messages."""

MOST_LINKS = 3
"""Links of an answer that are tried as its task: no real answer has more than two."""


def state(
    task_state: str | None, task_status: str | None, states: Mapping[str, TaskState | None] = MappingProxyType(STATES)
) -> TaskState:
    """The meaning of TaskState and TaskStatus together, or of JobState and JobStatus.

    Completed with OK or Warning is success, with Critical failure (seen on a real BMC at 100 %), and without a status success,
    as older services send none. An unknown word is active: to call it success or failure would be a guess, and an active task
    is only read again until the caller's timeout.
    """
    if task_state is None:
        return TaskState.ACTIVE
    found = states.get(task_state, TaskState.ACTIVE)
    if found is not None:
        return found
    return TaskState.SUCCEEDED if task_status is None or task_status in _GOOD else TaskState.FAILED


_NO_UPDATES = frozenset({
    'AccountService', 'CertificateService', 'EventService', 'LicenseService', 'LogServices', 'SessionService',
    'TelemetryService',
})  # fmt: skip
"""Services that write no firmware, as a segment of their URIs. Source: DSP8010 2025.4, ServiceRoot and LogServiceCollection."""


def _may_write(payload: ResourceView | None) -> bool:
    """Whether a task may write firmware: True unless its request was sent to a service that cannot.

    Source: DSP8010 2025.4, Task v1_7_4, Payload.TargetUri. Many BMCs leave it out.
    """
    place = None if payload is None else payload.literal('TargetUri')
    return place is None or not _NO_UPDATES & set(place.split('/'))


def _is_update(view: ResourceView) -> bool:
    """Whether a task says that it is a firmware update: by the URI of its request, or by a message of registry Update.

    Source: DSP8010 2025.4, Task v1_7_4, Payload.TargetUri; DSP8011, message registry Update.
    """
    payload = view.part('Payload')
    place = None if payload is None else payload.literal('TargetUri')
    if place is not None and 'UpdateService' in place.split('/'):
        return True
    found = view.body.get('Messages')
    said_by = (m.get('MessageId') for m in (found if isinstance(found, list) else ()) if isinstance(m, dict))
    return any(isinstance(one, str) and one.partition('.')[0] == 'Update' for one in said_by)


def reading(view: ResourceView) -> TaskReading:
    """Parse a Task or a Job."""
    word = view.literal('TaskState')
    status = view.literal('TaskStatus')
    means = state(word, status)
    if word is None and view.has('JobState'):
        word, status = view.literal('JobState'), view.literal('JobStatus')
        means = state(word, status, JOB_STATES)
    percent = view.integer('PercentComplete')
    return TaskReading(
        ref=view.ref,
        state=means,
        raw='/'.join(one for one in (word or '?', status) if one),
        percent=percent if percent is not None and 0 <= percent <= 100 else None,
        message=_last_message(view),
        may_write=_may_write(view.part('Payload')),
        is_update=_is_update(view),
        started=view.literal('StartTime'),
        awaits_restart=means is TaskState.ACTIVE and _awaits_restart(view, word),
        is_running=word == _RUNNING,
        is_waiting=word in _WAITS,
        awaits_start=word in _WAITS and _awaits_start(view),
        unbegun=word in _UNBEGUN and not percent,
        was_cancelled=word == 'Cancelled',
        written=_written(view),
        complaints=_complaints(view),
    )


def _written(view: ResourceView) -> tuple[str, ...]:
    """Devices that UpdateSuccessful messages name, without those that ComponentUpdateSkipped messages name.

    In both, the first argument is the device. Sources: DSP8011, registry Update, UpdateSuccessful; openbmc/pldm as NVIDIA ships
    it, ComponentUpdateSkipped.
    """
    named: dict[str, set[str]] = {'UpdateSuccessful': set(), 'ComponentUpdateSkipped': set()}
    messages = view.body.get('Messages')
    for entry in messages[:_MOST_MESSAGES] if isinstance(messages, list) else ():
        name = entry.get('MessageId') if isinstance(entry, dict) else None
        known = named.get(name.rsplit('.', 1)[-1]) if isinstance(name, str) else None
        arguments = entry.get('MessageArgs') if known is not None else None
        if known is not None and isinstance(arguments, list) and arguments and isinstance(arguments[0], str):
            known.add(arguments[0].rstrip('/'))
    return tuple(sorted(named['UpdateSuccessful'] - named['ComponentUpdateSkipped']))


def _complaints(view: ResourceView) -> tuple[Complaint, ...]:
    """Messages of severity Warning or Critical with their arguments, in their order. Source: DSP8010 2025.4, Message v1_3_0."""
    found = []
    messages = view.body.get('Messages')
    for entry in messages[:_MOST_MESSAGES] if isinstance(messages, list) else ():
        if not isinstance(entry, dict) or not {entry.get('Severity'), entry.get('MessageSeverity')} & {'Warning', 'Critical'}:
            continue
        arguments = entry.get('MessageArgs')
        text = short(entry.get('Message')) or short(entry.get('MessageId'))
        named = arguments[:_MOST_ARGUMENTS] if isinstance(arguments, list) and text else ()
        names = tuple(one.rstrip('/')[:_LONGEST_ARGUMENT] for one in named if isinstance(one, str))
        if names and text:
            found.append(Complaint(names=names, text=text))
    return tuple(found[-_MOST_COMPLAINTS:])


def read(connector: Connector, ref: Ref) -> TaskReading:
    """Read a Task, a Job or a task monitor.

    A monitor that answers 202 is active. Once its operation has ended, it answers with the operation's own result: a body, no
    body, or a client error.

    :raises BmcError: it could not be read, or is another resource. A task that is gone (404) is a reading of state GONE.
    """
    try:
        answer = connector.read(ref.uri)
    except HttpRefused as exc:
        if exc.gone:
            what = 'the BMC no longer has the task'
            return TaskReading(ref=ref, state=TaskState.GONE, raw=f'HTTP {exc.status}', message=what, opaque=True)
        if 400 <= exc.status < 500:
            return TaskReading(ref=ref, state=TaskState.FAILED, raw=f'HTTP {exc.status}', message=short(exc.what), opaque=True)
        raise
    view = view_of(answer, ref.bmc)
    if view is not None and _is_task(view):
        return reading(view)
    raw = f'HTTP {answer.status}'
    if answer.status == 202:
        return TaskReading(ref=ref, state=TaskState.ACTIVE, raw=raw, opaque=True)
    if (view is None and answer.content.strip()) or (view is not None and _is_resource(view)):
        raise BmcAnswerInvalid(bmc=connector.label, uri=ref.uri, what='neither a Task nor a Job nor the result of an operation')
    if view is None:
        return TaskReading(ref=ref, state=TaskState.SUCCEEDED, raw=raw, opaque=True)
    against = objection(view.body)
    ended = TaskState.FAILED if against is not None and against.fails else TaskState.SUCCEEDED
    text = said(view.body).text or (None if against is None else against.text)
    return TaskReading(ref=ref, state=ended, raw=raw, message=text, opaque=True)


def cancel(connector: Connector, ref: Ref) -> None:
    """Request that a task be cancelled: DELETE of its task monitor, if it names one, else of the task itself.

    Source: DSP0266, section "Asynchronous operations"; DSP8010 2025.4, Task v1_7_4, TaskMonitor.

    :raises BmcUnsupported: the BMC allows DELETE of neither. ``BmcError``: it did not accept the request.
    """
    view = view_of(connector.read(ref.uri), ref.bmc)
    monitor = None if view is None else view.literal('TaskMonitor')
    places = dict.fromkeys(place for place in (None if monitor is None else _place(connector, monitor), ref.uri) if place)
    for place in places:
        try:
            connector.send('DELETE', place)
        except HttpRefused as exc:
            if exc.status not in _NO_DELETE:
                raise
        else:
            return
    raise BmcUnsupported(bmc=connector.label, uri=ref.uri, what='the BMC does not allow this task to be cancelled')


def answered(connector: Connector, answer: RedfishAnswer, name: BmcName) -> TaskReading | Objection | None:
    """The task that an accepted request started, with the answer's failure or warning; only the latter without a task."""
    against = said_against(connector, answer, name)
    found = accepted(connector, answer, name)
    return against if found is None else replace(found, objection=against)


def said_against(connector: Connector, answer: RedfishAnswer, name: BmcName) -> Objection | None:
    """The failure or warning that an answer of success reports about the request.

    The messages of a Task in the answer count only if that Task has failed.
    """
    view = view_of(answer, name)
    if view is None:
        return None
    if not _is_task(view):
        return objection(view.body, connector.redact)
    told = reading(view)
    if told.state is TaskState.FAILED:
        return Objection(text=told.message or told.raw, fails=True)
    return objection({name: value for name, value in view.body.items() if name != 'Messages'}, connector.redact)


def accepted(connector: Connector, answer: RedfishAnswer, name: BmcName) -> TaskReading | None:
    """The task that an accepted request started; None if it started none.

    A Task in the body comes first, as bmcweb's Location is the task monitor, whose URI ends with the task. Next comes a link in
    the body that leads to a Task or Job, and last Location. Location may be absolute, with any authority that the BMC believes
    to have: only its path counts, and only this BMC is asked. URIs longer than MAX_PLACE are ignored.
    """
    view = view_of(answer, name)
    if view is not None and isinstance(uri := view.body.get('@odata.id'), str) and _is_task(view):
        place = _place(connector, uri)
        if place is not None:
            return reading(ResourceView(Ref(bmc=name, uri=place), view.body, []))
    header = answer.headers.get('Location') or answer.headers.get('Content-Location')
    location = _place(connector, header) if header else None
    links = () if view is None else dict.fromkeys(_place(connector, link) for link in _links(view.body))
    for place in [link for link in links if link is not None and link != location][:MOST_LINKS]:
        found = _task_at(connector, Ref(bmc=name, uri=place))
        if found is not None:
            return found
    if location is None:
        return None
    return TaskReading(ref=Ref(bmc=name, uri=location), state=TaskState.ACTIVE, raw=f'HTTP {answer.status}', opaque=True)


def _task_at(connector: Connector, ref: Ref) -> TaskReading | None:
    """The Task or Job at a URI; None if it is another resource or could not be read."""
    try:
        view = view_of(connector.read(ref.uri), ref.bmc)
    except BmcError:
        return None
    return reading(ResourceView(ref, view.body, [])) if view is not None and _is_task(view) else None


def _links(body: object, depth: int = 0) -> Iterator[str]:
    """Every text in a body that contains ``/redfish/``, those nearest to the top first."""
    if depth > 6:
        return
    values = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    inner = []
    for value in values:
        if isinstance(value, str) and '/redfish/' in value and len(value) <= 2 * MAX_PLACE:
            yield value
        elif isinstance(value, dict | list):
            inner.append(value)
    for value in inner[:20]:
        yield from _links(value, depth + 1)


def _place(connector: Connector, uri: str) -> str | None:
    """A URI as a path on this BMC that a job can store; None if it is not one, or too long."""
    try:
        parts = urlsplit(uri.strip())
        if parts.scheme not in ('', 'http', 'https'):
            return None
        place = normal(connector.path(f'{parts.path}?{parts.query}' if parts.query else parts.path))
    except (BmcAnswerInvalid, ValueError):
        return None
    return place if len(place) <= MAX_PLACE and place.startswith('/') and place != '/' else None


def view_of(answer: RedfishAnswer, name: BmcName) -> ResourceView | None:
    """The JSON object of an answer, None if there is none."""
    try:
        body = json.loads(answer.content) if answer.content else None
    except (ValueError, RecursionError):
        return None
    return ResourceView(Ref(bmc=name, uri=normal(answer.url)), body, []) if isinstance(body, dict) else None


def _is_task(view: ResourceView) -> bool:
    kind = view.body.get('@odata.type')
    named = isinstance(kind, str) and kind.startswith(('#Task.', '#Job.'))
    return view.has('TaskState') or view.has('JobState') or named


def _is_resource(view: ResourceView) -> bool:
    """Whether the body is a resource of its own, which does not show that an operation has ended, even one that created it."""
    return isinstance(view.body.get('@odata.id'), str)


def _awaits_restart(view: ResourceView, word: str | None) -> bool:
    """Whether an active task waits for a restart of the host: by its state, or its last message's MessageId or words."""
    if _names_start(view):
        return False
    if word in _AWAITS_RESTART:
        return True
    if word == _RUNNING and _has_more_to_write(view):
        return False
    name = _last_id(view)
    if name is not None and (name in RESTART_MESSAGES or RESTART_NAMES.search(name)):
        return True
    return word in _MAY_WAIT and RESTART_WORDS.search(_last_message(view) or '') is not None


_PART_ENDS = frozenset({
    'ActivateFailed', 'ApplyFailed', 'AwaitToActivate', 'AwaitToUpdate', 'ComponentUpdateSkipped', 'TransferFailed',
    'UpdateSuccessful', 'VerificationFailed',
})  # fmt: skip
"""MessageIds after which nothing more is written to a component. Source: DSP8011, message registry Update."""


def _has_more_to_write(view: ResourceView) -> bool:
    """Whether a running task has components left to write, so that its last message is only about one of several.

    Source: DSP8011, message registry Update: TargetDetermined names each component before it is written, as its first argument,
    by its name or its URI.
    """
    messages = view.body.get('Messages')
    determined: set[str] = set()
    ended: set[str] = set()
    for entry in messages[:_MOST_MESSAGES] if isinstance(messages, list) else ():
        name = entry.get('MessageId') if isinstance(entry, dict) else None
        arguments = entry.get('MessageArgs') if isinstance(name, str) else None
        texts = [a.rstrip('/').rsplit('/', 1)[-1] for a in arguments or () if isinstance(a, str)]
        word = name.rsplit('.', 1)[-1] if isinstance(name, str) else None
        if word == 'TargetDetermined':
            determined |= set(texts[:1])
        elif word in _PART_ENDS:
            ended |= set(texts)
    return not determined <= ended


def _awaits_start(view: ResourceView) -> bool:
    """Whether a waiting task says that StartUpdate starts it: by naming the action, or by AwaitToUpdate.

    AwaitToUpdate does not say which action it waits for: if its text mentions a restart, it is not StartUpdate. Source:
    DSP8011, message registry Update.
    """
    if _names_start(view):
        return True
    return _last_id(view) == 'AwaitToUpdate' and RESTART_WORDS.search(_last_message(view) or '') is None


def _names_start(view: ResourceView) -> bool:
    """Whether the last message of a task names the action StartUpdate."""
    found = view.body.get('Messages')
    last = next((m for m in reversed(found if isinstance(found, list) else []) if isinstance(m, dict)), view.body)
    told = (last.get(name) for name in ('MessageId', 'Message', 'Resolution'))
    return any(isinstance(text, str) and _START.search(text[:1000]) is not None for text in told)


def _last_id(view: ResourceView) -> str | None:
    """The last MessageId of Messages, without its registry; of a vendor's Job, its own MessageID."""
    found = view.body.get('Messages')
    last = next((m for m in reversed(found if isinstance(found, list) else []) if isinstance(m, dict)), view.body)
    name = last.get('MessageId') or last.get('MessageID')
    return name.rsplit('.', 1)[-1] if isinstance(name, str) else None


def _last_message(view: ResourceView) -> str | None:
    """The text of the last of Messages; of a Job without Messages, its own Message."""
    found = view.body.get('Messages')
    for entry in reversed(found if isinstance(found, list) else []):
        if isinstance(entry, dict):
            text = short(entry.get('Message')) or short(entry.get('MessageId'))
            if text:
                return text
    return short(view.body.get('Message')) or None

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a Task of a BMC: whether it is running, how it ended, or that it is gone.

Source: DSP8010 2025.4, Task v1_7_4. sushy's task monitor is not used: it takes a Task's answer 200 for its end
(facts/redfish.md, section 4.2).
"""

import json

from baremetal_acc.bmc.redfish.connector import Answer, Connector
from baremetal_acc.bmc.redfish.message import said, short
from baremetal_acc.bmc.redfish.parse import View
from baremetal_acc.bmc.redfish.reader import key
from baremetal_acc.errors import BmcAnswerInvalid, BmcRefused
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.ref import BmcName, Ref

_GOOD = frozenset({'OK', 'Warning'})

MAX_PLACE = 512
"""Characters of a task's URI: jobs are stored with one for each write, and Ironic gives them 48 KiB."""

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
"""Every TaskState of the standard; None: TaskStatus decides.

Interrupted counts as active: the standard says that it may go on. A caller's own limit of time ends what never does.
"""


def state(task_state: str | None, task_status: str | None) -> TaskState:
    """What TaskState and TaskStatus mean together.

    Completed with OK or Warning is success, with Critical failure (seen on a real BMC at 100 %), and without a status success
    too, as older services send none. An unknown word is active: calling it an end, either end, would be a guess, and an active
    task is only looked at again until the caller's time is up.
    """
    if task_state is None:
        return TaskState.ACTIVE
    found = STATES.get(task_state, TaskState.ACTIVE)
    if found is not None:
        return found
    return TaskState.SUCCEEDED if task_status is None or task_status in _GOOD else TaskState.FAILED


_NO_UPDATES = frozenset({
    'AccountService', 'CertificateService', 'EventService', 'LicenseService', 'LogServices', 'SessionService',
    'TelemetryService',
})  # fmt: skip
"""Services that write no firmware, by a segment of their URIs. Source: DSP8010 2025.4, ServiceRoot and LogServiceCollection."""


def _may_write(payload: View | None) -> bool:
    """Whether a task may write firmware: unless what it was asked for is at a service that cannot.

    Source: DSP8010 2025.4, Task v1_7_4, Payload.TargetUri. Many BMCs leave it out.
    """
    place = None if payload is None else payload.literal('TargetUri')
    return place is None or not _NO_UPDATES & set(place.split('/'))


def _is_update(view: View) -> bool:
    """Whether a task says that it is an update of firmware: by what it was asked for, or by a message of its own.

    Source: DSP8010 2025.4, Task v1_7_4, Payload.TargetUri; DSP8011, message registry Update.
    """
    payload = view.part('Payload')
    place = None if payload is None else payload.literal('TargetUri')
    if place is not None and 'UpdateService' in place.split('/'):
        return True
    found = view.body.get('Messages')
    said_by = (m.get('MessageId') for m in (found if isinstance(found, list) else ()) if isinstance(m, dict))
    return any(isinstance(one, str) and one.partition('.')[0] == 'Update' for one in said_by)


def reading(view: View) -> TaskReading:
    """The reading of a Task resource."""
    task_state, task_status = view.literal('TaskState'), view.literal('TaskStatus')
    percent = view.integer('PercentComplete')
    return TaskReading(
        ref=view.ref,
        state=state(task_state, task_status),
        raw='/'.join(word for word in (task_state or '?', task_status) if word),
        percent=percent if percent is not None and 0 <= percent <= 100 else None,
        message=_last_message(view),
        may_write=_may_write(view.part('Payload')),
        is_update=_is_update(view),
        started=view.literal('StartTime'),
    )


def read(connector: Connector, ref: Ref) -> TaskReading:
    """Read a Task, or a task monitor.

    A monitor that still answers 202 is active; when its operation has ended it answers with that operation's own result.
    Source: DSP0266, section "Asynchronous operations".

    :raises BmcError: it could not be asked. That it is gone is a reading.
    """
    try:
        answer = connector.read(ref.uri)
    except BmcRefused as exc:
        if exc.status in (404, 410):
            return TaskReading(
                ref=ref, state=TaskState.GONE, raw=f'HTTP {exc.status}', message='the BMC no longer has the task'
            )
        if _is_monitor(ref.uri) and exc.status is not None and exc.status < 500:
            return TaskReading(ref=ref, state=TaskState.FAILED, raw=f'HTTP {exc.status}', message=short(exc.what))
        raise
    view = view_of(answer, ref.bmc)
    if view is not None and view.has('TaskState'):
        return reading(view)
    if answer.status == 202:
        return TaskReading(ref=ref, state=TaskState.ACTIVE, raw='HTTP 202')
    if _is_monitor(ref.uri):
        message = said(view.body).text if view is not None else ''
        return TaskReading(ref=ref, state=TaskState.SUCCEEDED, raw=f'HTTP {answer.status}', message=message or None)
    raise BmcAnswerInvalid(bmc=connector.label, uri=ref.uri, what='is no Task: TaskState is missing')


def accepted(connector: Connector, answer: Answer, name: BmcName) -> TaskReading | None:
    """The task that an accepted request started; None when it started none.

    The Task in the body comes first, then Location: bmcweb's Location is the monitor, whose URI dies when the task has ended.
    A link off the BMC is not followed, and none that is longer than MAX_PLACE; the request was accepted all the same, so that
    counts as no task.
    """
    view = view_of(answer, name)
    if view is not None and isinstance(uri := view.body.get('@odata.id'), str) and _is_task(view):
        place = _place(connector, uri)
        return None if place is None else reading(View(Ref(bmc=name, uri=place), view.body, []))
    location = answer.headers.get('Location') or answer.headers.get('Content-Location')
    place = _place(connector, location) if location else None
    return (
        None
        if place is None
        else TaskReading(ref=Ref(bmc=name, uri=place), state=TaskState.ACTIVE, raw=f'HTTP {answer.status}')
    )


def _place(connector: Connector, uri: str) -> str | None:
    """A place that a job can remember; None where it is none of this BMC, or too long."""
    try:
        place = key(connector.path(uri))
    except BmcAnswerInvalid:
        return None
    return place if len(place) <= MAX_PLACE else None


def view_of(answer: Answer, name: BmcName) -> View | None:
    """The JSON object of an answer, None when there is none."""
    try:
        body = json.loads(answer.content) if answer.content else None
    except (ValueError, RecursionError):
        return None
    return View(Ref(bmc=name, uri=key(answer.url)), body, []) if isinstance(body, dict) else None


def _is_task(view: View) -> bool:
    kind = view.body.get('@odata.type')
    return view.has('TaskState') or (isinstance(kind, str) and kind.startswith('#Task.'))


def _is_monitor(uri: str) -> bool:
    return 'monitor' in uri.casefold()


def _last_message(view: View) -> str | None:
    """The last of Messages, as text."""
    found = view.body.get('Messages')
    for entry in reversed(found if isinstance(found, list) else []):
        if isinstance(entry, dict):
            text = short(entry.get('Message')) or short(entry.get('MessageId'))
            if text:
                return text
    return None

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""List the tasks of a BMC's TaskService, with as few requests as possible."""

import contextlib
from collections.abc import Sequence

from baremetal_acc.bmc.redfish import task
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.collection_members import members
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.errors import BmcAnswerInvalid
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.ref import Ref

MAX_TASKS = 100


def read_tasks(connector: Connector, root: ResourceView, reader: RedfishReader) -> Sequence[TaskReading]:
    """The BMC's last tasks (at most MAX_TASKS), without those that vanish while they are read.

    :param reader: a new one.
    :raises BmcError: they could not be read.
    """
    service = root.link('Tasks') or root.link('TaskService')
    if service is None:
        return ()
    tasks = ResourceView.of(fresh(connector, reader.name, service), []).link('Tasks')
    if tasks is None:
        return ()
    links = [m['@odata.id'] for m in members(reader.collection(tasks).body) if isinstance(m.get('@odata.id'), str)]
    places = []
    for link in links[-MAX_TASKS:]:
        with contextlib.suppress(BmcAnswerInvalid):
            places.append(reader.ref(link))  # a link off the BMC is not a task of this BMC
    found = [_task_of(connector, reader, place) for place in places]
    return tuple(t for t in found if t.state is not TaskState.GONE)


def _task_of(connector: Connector, reader: RedfishReader, ref: Ref) -> TaskReading:
    """A task as its collection has just returned it expanded, as BMCs keep a hundred old ones; otherwise it is read."""
    document = reader.peek(ref.uri)
    view = ResourceView.of(document, []) if document is not None else None
    return task.reading(view) if view is not None and view.has('TaskState') else task.read(connector, ref)

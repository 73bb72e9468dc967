# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Requests of one inventory, within its limits of time, bytes, values and resources."""

import time
from collections.abc import Mapping

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.collection_members import members
from baremetal_acc.bmc.redfish.concurrency import BmcHabits
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.bmc.redfish.resource_document import count_values, document, resource_type
from baremetal_acc.bmc.redfish.resource_table import ResourceTable
from baremetal_acc.errors import BmcAnswerInvalid, BmcUnreachable

MAX_RESOURCES = 5000

MAX_BYTES = 32 * 1024 * 1024
MAX_ALL_VALUES = 1_600_000
"""Values of a whole inventory. The largest recorded tree, with all that an inventory needs, has 2.7 MiB."""

UNCHANGED = frozenset({'PCIeFunction', 'NetworkInterface'})
"""Types without locks, versions or states, for which the ETag of the last inventory over this connection is sent.

All other types are read in full each time, whatever their ETags: many share one
(doc/source/reference/redfish_notes.rst, "Answer times and $expand").
"""


class InventoryRequests:
    """The requests of one inventory, within its limits of time, bytes, values and resources."""

    def __init__(
        self, connector: Connector, habits: BmcHabits, table: ResourceTable, before: Mapping[str, Document], seconds: float
    ) -> None:
        """Begin; nothing is sent.

        :param before: documents of the last inventory over this connection.
        :param seconds: for the whole inventory.
        """
        self.label = connector.label
        self._connector = connector
        self._habits = habits
        self._table = table
        self._before = before
        self._deadline = time.monotonic() + seconds
        self._bytes = self._values = 0

    def left(self) -> float:
        """Seconds left for this inventory."""
        return self._deadline - time.monotonic()

    def fetch(self, place: str) -> Document:
        """Read one resource; only whether it has changed, where that is enough.

        :raises BmcError: with the reason.
        """
        before = self._before.get(place)
        if before is not None and before.etag is not None and _may_be_unchanged(before):
            answer = self.ask(place, {'If-None-Match': before.etag})
            if answer.status == 304:
                return before
        else:
            answer = self.ask(place)
        self._habits.expansion.read(answer.seconds)
        return self.document(answer)

    def ask(self, target: str, headers: Mapping[str, str] | None = None) -> RedfishAnswer:
        """GET a path with its query.

        :raises BmcError: with the reason; also that a limit of the inventory was reached.
        """
        place = target.partition('?')[0]
        label = self.label
        if len(self._table.entries) > MAX_RESOURCES:
            raise BmcAnswerInvalid(bmc=label, uri=place, what=f'not read: more than {MAX_RESOURCES} resources')
        if self._bytes > MAX_BYTES or self._values > MAX_ALL_VALUES:
            raise BmcAnswerInvalid(bmc=label, uri=place, what=f'not read: more than {MAX_BYTES} bytes in one inspection')
        if self.left() <= 0:
            raise BmcUnreachable(bmc=label, uri=place, what='not requested: the time for the inspection is used up')
        answer = self._connector.read(target, left=self.left, headers=headers)
        self._table.sent.append(target)
        return answer

    def document(self, answer: RedfishAnswer) -> Document:
        """The resource in an answer, which counts against the limits.

        :raises BmcError: see :func:`document`.
        """
        self._bytes += len(answer.content)
        self._values += count_values(answer.content)
        return document(answer, self._table.name, self._connector, place=self._table.place(answer.url))


def _may_be_unchanged(document: Document) -> bool:
    kind = resource_type(document.body)
    return kind in UNCHANGED or (kind.endswith('Collection') and all(len(m) == 1 for m in members(document.body)))

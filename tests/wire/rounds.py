# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Count the rounds of an inspection in which each request takes one round and only so many run at a time. Nothing is timed.

A request that is sent when another one was answered in round N is answered in round N + 1. None is answered before every thread
of the look waits for an answer or has nothing to do, so that neither the machine nor the order of threads matters.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from baremetal_acc.bmc.redfish.inventory_requests import InventoryRequests
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.work_queue import WorkQueue


@dataclass(slots=True, eq=False)
class _Request:
    number: int
    target: str
    answered: bool = False


@dataclass(slots=True)
class Rounds:
    """Requests of a look by the round in which each is answered.

    :ivar asked: round and target, in the order in which they were answered. The service root, which comes first, is round 1.
    """

    asked: list[tuple[int, str]] = field(default_factory=list)
    _waiting: list[_Request] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def of(cls, monkeypatch: pytest.MonkeyPatch) -> 'Rounds':
        """Count the looks of this test."""
        rounds, create, ask = cls(), RedfishReader.__init__, InventoryRequests.ask
        agendas: dict[InventoryRequests, WorkQueue] = {}

        def created(reader: RedfishReader, *arguments: Any, **named: Any) -> None:
            create(reader, *arguments, **named)
            agendas[reader._requests] = reader._agenda

        def counted(requests: InventoryRequests, target: str, headers: Mapping[str, str] | None = None) -> Any:
            rounds._wait(target, agendas[requests])
            return ask(requests, target, headers)

        monkeypatch.setattr(RedfishReader, '__init__', created)
        monkeypatch.setattr(InventoryRequests, 'ask', counted)
        return rounds

    @property
    def total(self) -> int:
        """From the service root to the logout, which waits for all others."""
        return self._now + 1

    @property
    def _now(self) -> int:
        return self.asked[-1][0] if self.asked else 1

    def _wait(self, target: str, agenda: WorkQueue) -> None:
        with self._changed:
            mine = _Request(self._now + 1, target)
            self._waiting.append(mine)
            while not mine.answered:
                if self._is_still(agenda):
                    # At the same time, whichever comes first: always the same one.
                    first = min(self._waiting, key=lambda one: (one.number, one.target))
                    self._waiting.remove(first)
                    self.asked.append((first.number, first.target))
                    first.answered = True
                    self._changed.notify_all()
                else:
                    self._changed.wait(0.001)

    def _is_still(self, agenda: WorkQueue) -> bool:
        """Nothing happens any more before an answer comes."""
        with agenda._changed:
            is_full = not agenda._jobs or agenda._active >= agenda._pace.limit
            return is_full and len(self._waiting) == max(1, agenda._active)  # with no job it is who looks that reads itself

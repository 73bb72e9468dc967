# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The state that all parts of an emulated machine share, its history, and its queue of events."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.fault import Fault, Faults
from baremetal_acc.emulator.parts import EmulatedBmc, EmulatedComponent, EmulatedSetting, System, WriteRoute

ELSEWHERE = 'elsewhere'
"""The kind of an event that another part of the emulator executes."""

# Enough for the longest test; a test that needs more clears the history in between.
MAX_EVENTS = 10000


@dataclass(frozen=True, slots=True)
class Keeper:
    """State of another part that is stored together with the state of the machine, as JSON.

    ``load`` raises ValueError, KeyError, TypeError or AttributeError where the stored state is not valid.
    """

    dump: Callable[[], Any]
    load: Callable[[Any], None]


@dataclass(frozen=True, slots=True, order=True)
class MachineEvent:
    """An event on the queue of a machine: at the second ``due``, ``handlers[kind]`` is called with it."""

    due: float
    order: int
    kind: str
    subject: str
    detail: str = ''


class MachineState:
    """What an emulated machine consists of, its history, and its queue of events.

    :param flash_seconds: how long writing an image takes.
    :param reset_seconds: how long a system takes to change its power or to restart.
    :param bmc_reset_seconds: how long a BMC is silent after Manager.Reset.
    :ivar cut_writes: changes of power while a component was being written.
    :ivar on_bmc_down: called with the name of a BMC when it restarts.
    :ivar on_system_reset: called with the name of a system and the ResetType of a reset.
    :ivar elsewhere: functions for :meth:`later`, by name.
    :ivar also: further entries of the true state, by key and name.
    :ivar keepers: state of other parts that is stored with the machine, by name.
    :ivar events: the queue, as a heap. ``handlers`` executes each kind of event.
    :ivar unclaimed: the loaded state of keepers that do not exist in this run.
    """

    def __init__(
        self,
        *,
        product: str,
        clock: EmulatedClock | None = None,
        flash_seconds: float = 2.0,
        reset_seconds: float = 0.2,
        bmc_reset_seconds: float = 0.5,
    ) -> None:
        self.product = product
        self.clock = clock or EmulatedClock()
        self.flash_seconds = flash_seconds
        self.reset_seconds = reset_seconds
        self.bmc_reset_seconds = bmc_reset_seconds
        self.faults = Faults()
        self.systems: dict[str, System] = {}
        self.bmcs: dict[str, EmulatedBmc] = {}
        self.components: dict[str, EmulatedComponent] = {}
        self.settings: dict[str, EmulatedSetting] = {}
        self.ways: list[WriteRoute] = []
        self.fetches: list[dict[str, Any]] = []
        self.cut_writes: list[dict[str, str]] = []
        self.history: deque[dict[str, Any]] = deque(maxlen=MAX_EVENTS)
        self.revision = 0
        self.on_bmc_down: list[Callable[[str], None]] = []
        self.on_system_reset: list[Callable[[str, str], None]] = []
        self.elsewhere: dict[str, Callable[[str], None]] = {}
        self.also: dict[str, dict[str, Callable[[], Any]]] = {}
        self.keepers: dict[str, Keeper] = {}
        self.unclaimed: dict[str, Any] = {}
        self.events: list[MachineEvent] = []
        self.handlers: dict[str, Callable[[MachineEvent], None]] = {ELSEWHERE: self._call_elsewhere}
        self._happening: float | None = None
        self._order = itertools.count()

    def schedule(self, seconds: float, kind: str, subject: str, detail: str = '') -> None:
        """Add an event to the queue, for ``handlers[kind]``."""
        heapq.heappush(self.events, MachineEvent(self.now() + seconds, next(self._order), kind, subject, detail))

    def _call_elsewhere(self, event: MachineEvent) -> None:
        happen = self.elsewhere.get(event.subject)
        if happen is not None:
            happen(event.detail)

    def later(self, seconds: float, who: str, detail: str = '') -> None:
        """Call ``elsewhere[who]`` with ``detail`` after that many seconds, if the name is still registered then."""
        self.schedule(seconds, ELSEWHERE, who, detail)

    def now(self) -> float:
        """The present second: that of the event while an event is executed, else that of the clock."""
        return self.clock.now() if self._happening is None else self._happening

    def settle(self) -> None:
        """Execute all events that are due, in the order of time."""
        while self.faults.any('clock-jumps') and (rule := self.faults.find('clock-jumps', bmc='*')) is not None:
            rule.count = 0
            self.clock.jump(float(rule.parameters['seconds']))
        while self.events and self.events[0].due <= self.clock.now():
            event = heapq.heappop(self.events)
            self._happening = event.due
            try:
                self.handlers[event.kind](event)
            finally:
                self._happening = None
            self.revision += 1

    def next_due(self) -> float | None:
        """Seconds until the next event; None: no event is queued."""
        return max(0.0, self.events[0].due - self.clock.now()) if self.events else None

    def note(self, what: str, **facts: Any) -> None:
        """Add an event to the history of the machine, which is true whatever a BMC reports."""
        self.history.append({'what': what, 'time': self.now(), **facts})

    def note_part(self, what: str, key: str, **facts: Any) -> None:
        """Add an event of one component to the history."""
        component = self.components[key]
        self.note(what, component=key, device=component.device, bmc=component.bmc, **facts)

    def setting_fault(self, name: str, setting: EmulatedSetting, *, use: bool) -> Fault | None:
        """The fault rule of that name that applies to a setting; None: there is none."""
        return self.faults.find(name, bmc=setting.bmc, device=setting.device, uri=setting.uri, use=use)

    def component_fault(self, name: str, component: EmulatedComponent, *, use: bool) -> Fault | None:
        """The fault rule of that name that applies to a component; None: there is none."""
        return self.faults.find(name, bmc=component.bmc, device=component.device, uri=component.uri, use=use)

    def is_gone(self, device: str) -> bool:
        """Whether a fault has removed the card, on any BMC that shows it."""
        places = {(one.bmc, one.device) for one in self.components.values() if one.device == device}
        return any(self.faults.find('device-absent', bmc=bmc, device=name, use=False) for bmc, name in places)

    def kept(self) -> dict[str, Any]:
        """The stored state of all keepers by name, and the loaded state of keepers that do not exist in this run."""
        return self.unclaimed | {name: keeper.dump() for name, keeper in self.keepers.items()}

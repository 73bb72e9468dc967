# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An emulated machine that knows the truth: which bytes run on each card, who could write them, and what hostile code does.

It is the machine of :mod:`tests.lifecycles.site`, which answers without a network on a clock of its own. Here it has a tenant:
whenever the host runs and what runs there is not vouched for by the operator, every card whose path is open is written at once,
with other bytes under the very version that the baseline wants. A BMC that is silent sees no start of its host.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from baremetal_acc.bmc.driver import BmcAddress, Document, Look
from baremetal_acc.emulator.image import EmulatedImage, ImageFormat
from baremetal_acc.emulator.parts import Power, Restart, WriteRefused
from baremetal_acc.errors import BmcError
from baremetal_acc.model.inventory import HostReading
from baremetal_acc.model.ref import Ref
from tests.lifecycles.site import Connection, Site, bytes_of

GPU, EROT = 'gpu', 'erot'
WANTED = {GPU: '96.00.74.00.01', EROT: '01.02.0061.0000_n00'}
"""What the baseline wants, by component."""

MODEL = 'h100'

FLASH, RESET = 20.0, 10.0
"""Seconds that the machine takes to write an image, and to start its host."""


class SiteTime(datetime):
    """Stands for ``datetime`` in modules of the product that ask for the time: it is that of a machine."""

    source: Callable[[], datetime]

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return cls.source()

    @classmethod
    def fromtimestamp(cls, timestamp: float, tz: Any = None) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(timestamp, tz)


@dataclass
class TrueSite(Site):
    """The machine, its tenant, and what is true of both.

    :ivar hostile: what runs on the host, while it runs, is somebody else's.
    :ivar keeps_time: its BMC tells when the host was last reset, and when it was itself.
    :ivar accepted: bytes that an operator answers for, by component.
    :ivar open_since: since when each way from the host to a card stands open, in seconds of the clock, and whether by us.
    :ivar foul: since when each component runs bytes that nobody knows.
    :ivar told: what hostile code, and the machine by itself, did.
    """

    hostile: bool = True
    keeps_time: bool = True
    accepted: set[tuple[str, str | None]] = field(default_factory=set)
    open_since: dict[str, tuple[float, bool]] = field(default_factory=dict)
    foul: dict[str, float] = field(default_factory=dict)
    told: Callable[[str], None] = lambda _: None
    evil: int = 0
    ours: bool = False
    cut_by_us: list[str] = field(default_factory=list)
    _acting: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        machine = self.machine
        machine.flash_seconds, machine.reset_seconds = FLASH, RESET
        self._settle, self._restarted = machine.settle, machine.power.finish_restart
        machine.settle = self._settled  # type: ignore[method-assign]
        machine.power.finish_restart = self._restart_unseen  # type: ignore[method-assign]
        self.cards_of = {c.key: c for c in machine.components.values() if c.device}
        self.ways = [w for w in machine.ways if w.target in self.cards_of]
        self.catalogue = {f'{MODEL}/{name}/{version}' for name, version in WANTED.items()}
        self.first = {c.component: c.active.version for c in self.cards_of.values() if c.active is not None}
        self.catalogue |= {f'{MODEL}/{component}/{version}' for component, version in self.first.items()}

    def begin(self) -> None:
        """As new, its host off."""
        self._acting = True
        super().begin()
        self._acting = False
        self.machine.events.clear()
        self.machine.on_system_reset.clear()
        self.host.power, self.host.on_since = Power.OFF, None
        self.hostile, self.keeps_time = True, True
        self.accepted, self.open_since, self.foul, self.evil = set(), {}, {}, 0
        self.ours, self.cut_by_us = False, []
        self.look_around()

    # -------------------------------------------------------------------------------------------------------------- time

    def go_on(self, time: timedelta) -> None:
        """Let time pass in small steps, so that hostile code misses no moment."""
        left = time.total_seconds()
        while left > 0:
            due = self.machine.next_due()
            step = left if due is None else min(left, max(due, 0.001), 60.0)
            self.machine.clock.advance(step)
            left -= step
            self.machine.settle()

    def read_clock(self) -> datetime:
        """What time the product reads: no two readings are of one moment."""
        self.machine.clock.advance(0.001)
        return self.now

    def _settled(self) -> None:
        self._settle()
        self.look_around()

    def _restart_unseen(self, system: Any, depth: Any, at: float) -> None:
        before = system.last_reset
        self._restarted(system, depth, at)
        if self.machine.is_bmc_down(system.bmc):
            system.last_reset = before

    # ------------------------------------------------------------------------------------------------------------- truth

    def look_around(self) -> None:
        """Hostile code acts; what is open and what is foul is noted."""
        if self._acting:
            return
        self._acting = True
        try:
            now = self.machine.clock.now()
            if self.hostile and self.machine.host_is_up():
                self._write_evil(now)
            open_now = self.open_ways()
            self.open_since = {w: self.open_since.get(w, (now, self.ours)) for w in open_now}
            unknown = [k for k, c in self.cards_of.items() if not self._known(k, c)]
            self.foul = {k: self.foul.get(k, now) for k in unknown}
        finally:
            self._acting = False

    def open_ways(self) -> list[str]:
        """Ways from the host to cards that stand open, by what they lead to."""
        closed = self.machine.is_closed
        return [way.target for way in self.ways if not any(closed(key) for key in way.locks)]

    def _known(self, key: str, component: Any) -> bool:
        bank = component.active
        digest = None if bank is None else bank.digest
        return digest in self.catalogue or (key, digest) in self.accepted

    def accept(self) -> None:
        """An operator answers for what runs now."""
        self.accepted |= {(k, None if c.active is None else c.active.digest) for k, c in self.cards_of.items()}
        self.look_around()

    def objections(self) -> list[str]:
        """Why nobody may get this machine now."""
        foul = [f'{key} runs bytes that nobody knows since {at:.0f}' for key, at in self.foul.items()]
        return foul + [f'the way to {way} stands open since {at:.0f}' for way, (at, _) in self.open_since.items()]

    def _write_evil(self, now: float) -> None:
        for way in self.ways:
            target = self.cards_of[way.target]
            if target.active is not None and str(target.active.digest).startswith('evil'):
                continue
            if any(self.machine.is_closed(key) for key in way.locks):
                continue
            version = WANTED.get(way.component, '0')
            image = EmulatedImage(
                kind=ImageFormat.FIRMWARE,
                device=target.model,
                component=target.component,
                version=version,
                security_version=1,
                payload_bytes=3,
                digest=f'evil-{self.evil}',
            )
            try:
                self.machine.write_from_host(way.device, image, path=way.path, component=way.component)
            except WriteRefused:
                continue
            self.evil += 1
            self.told(f'code on the host writes {way.target} (evil-{self.evil - 1})')

    @property
    def host(self) -> Any:
        """The host."""
        return self.machine.systems['host']

    # --------------------------------------------------------------------------------------------------- what happens to it

    def wake(self, *, hostile: bool = True) -> None:
        """The host starts by itself: a button, a packet, a clock."""
        if self.host.power is Power.OFF:
            self.hostile = hostile
            self.machine.reset_system('host', 'On')

    def press_off(self) -> None:
        """Somebody holds the button, or the host shuts down by itself."""
        if self.host.power is Power.ON and not self.host.booting:
            self.machine.reset_system('host', 'ForceOff')

    def restart_bmc(self, *, loses: bool, seconds: float | None = None) -> None:
        """The BMC restarts; it may lose the locks."""
        if self.machine.is_bmc_down('host'):
            return
        self._losing(loses, lambda: self.machine.reset_bmc('host', seconds))

    def lose_power(self, *, loses: bool, returns_on: bool) -> None:
        """The mains fail and come back: the host goes off, the BMC restarts, and the host may come up before it."""
        machine, host = self.machine, self.host
        machine.events = [e for e in machine.events if not (e.subject == 'host' and e.kind in ('up', 'off', 'cycle'))]
        heapq.heapify(machine.events)
        if host.power is not Power.OFF:
            host.power, host.booting = Power.OFF, False
        machine.settle()
        self.restart_bmc(loses=loses)
        if returns_on:
            self.hostile = True
            machine.power.power_on(host, Restart.COLD)
        machine.settle()

    def _losing(self, loses: bool, happens: Callable[[], None]) -> None:
        rule = self.machine.add_fault({'name': 'lock-lost-on-bmc-reset'}) if loses else None
        try:
            happens()
        finally:
            if rule is not None:
                self.machine.faults.remove()
        self.machine.settle()

    # ------------------------------------------------------------------------------------------------------------ the BMC

    def written(self, before: Any) -> None:
        """Our own code has written to settings: what is open from now on is open by us."""
        super().written(before)
        self.ours = True
        try:
            self.look_around()
        finally:
            self.ours = False

    def connect(self, address: BmcAddress) -> 'TrueConnection':
        """For :class:`baremetal_acc.execution.Tools`."""
        return TrueConnection(self, address)


class TrueConnection(Connection):
    """A session that also tells when the BMC itself was restarted, if it does at all."""

    site: TrueSite
    lasts = False

    def glance(self, uris: Iterable[str], _within: timedelta) -> dict[str, Document | BmcError]:
        """What a few resources say now."""
        reader, found = self.writer(), dict[str, Document | BmcError]()
        for uri in uris:
            try:
                found[uri] = reader.fresh(uri)
            except BmcError as exc:
                found[uri] = exc
        return found

    def look(self, now: datetime) -> Look:
        found = super().look(now)
        bmc = self.site.machine.bmcs[self.bmc]
        told = self.site.machine.clock.wall(bmc.last_reset) if self.site.keeps_time else None
        return replace(found, facts=replace(found.facts, bmc_reset=told))

    def last_reset(self, system: Ref) -> str | None:
        found = super().last_reset(system)
        return found if self.site.keeps_time else None

    def host(self, system: Ref) -> HostReading:
        return HostReading(power=self.power(system), last_reset=self.last_reset(system))


def file_of(component: str, version: str) -> bytes:
    """The bytes of an image of the catalogue."""
    return bytes_of(ImageFormat.FIRMWARE, MODEL, component, version, 1)

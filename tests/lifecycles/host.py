# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The host of an emulated machine: whose code runs on it, what that code writes, and its power.

The code is the tenant's, who is root, or the operator's ramdisk until the next start of the host. The tenant's code writes
other bytes into every card that it reaches, under exactly the version that the baseline names, so that no reading of a version
shows it. The host may start by itself, and the mains may fail. A BMC that is unavailable when its host is started may never
report that start.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from baremetal_acc.emulator.image import EmulatedImage, ImageFormat
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Cause, Power, WriteRefused

OTHER_BYTES = 'other bytes'
"""The digest of what the tenant's code writes."""

_POWER_EVENTS = ('up', 'off', 'cycle')
"""What is under way in a machine when its power is changed: all of it ends when the mains fail."""


@dataclass
class Host:
    """The host of one life.

    :param wanted: by component the version that the baseline names.
    :ivar writes: the tenant's code writes what it reaches.
    :ivar forgets: a BMC that is away when a System is started shows the old time of its last reset.
    :ivar volatile: keys of the locks that open when the mains fail.
    :ivar lied_to: a BMC shows locks that are not there now, so that nobody can tell that the way was open.
    :ivar wrote_at: by component when the tenant's code wrote it last, in seconds of the machine.
    :ivar wrote_unseen: those that it wrote while a BMC lied so. ``wrote_unread``: while a lock could not be read, if nobody
        looked at custody meanwhile: a lock that has opened and closed by itself between two readings is seen by neither.
    :ivar in_band: a job works beside the operator's ramdisk. ``wrote_in_band``: what a host that was restarted wrote then.
    :ivar starts: how often the host was started by itself, or by somebody else.
    """

    machine: Machine
    wanted: Mapping[str, str]
    writes: bool = False
    forgets: bool = False
    volatile: frozenset[str] = frozenset()
    lied_to: Callable[[], bool] = lambda: False
    wrote_at: dict[str, float] = field(default_factory=dict)
    wrote_unseen: set[str] = field(default_factory=set)
    wrote_unread: set[str] = field(default_factory=set)
    wrote_in_band: set[str] = field(default_factory=set)
    in_band: bool = False
    starts: int = 0
    _ramdisk: int | None = None
    _plans: int = 0
    _last_reset: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine.elsewhere['host'] = self._happen
        self._last_reset = {name: system.last_reset for name, system in self.machine.systems.items()}

    # ------------------------------------------------------------------------------------------------------- whose code runs

    def boot_ramdisk(self) -> bool:
        """Start the host into the operator's ramdisk; False: its power is changing, and nothing was done."""
        system = self.machine.systems['host']
        try:
            self.machine.reset_system('host', 'ForceRestart' if system.power is Power.ON else 'On', cause=Cause.COMMAND)
        except WriteRefused:
            return False
        self._ramdisk = system.resets + 1
        return True

    def boot_disk(self) -> None:
        """From here on the host runs what is on its disk: the tenant's code."""
        self._ramdisk = None

    def runs_tenant(self) -> bool:
        """The tenant's code runs now. What a host starts into after its ramdisk nobody knows, so that is the tenant's, too."""
        return self.machine.host_is_up() and self.machine.systems['host'].resets != self._ramdisk

    def look(self) -> None:
        """Let the BMCs forget, and the tenant's code write. Called after whatever has happened in the machine."""
        for name, system in self.machine.systems.items():
            if system.last_reset != self._last_reset[name] and self.forgets and self.machine.is_bmc_down(system.bmc):
                system.last_reset = self._last_reset[name]
            self._last_reset[name] = system.last_reset
        if self.writes and self.runs_tenant():
            self.write()

    def write(self) -> None:
        """The tenant's code writes every card that it reaches and that runs something else."""
        for way in self.machine.ways:
            target = self.machine.components[way.target]
            if way.target not in self.wanted or (target.active is not None and target.active.digest == OTHER_BYTES):
                continue
            image = EmulatedImage(
                kind=target.kind,
                device=target.model,
                component=target.component,
                version=self.wanted[way.target],
                security_version=1,
                payload_bytes=3,
                digest=OTHER_BYTES,
                function=OTHER_BYTES if target.kind is ImageFormat.FUNCTION else None,
            )
            try:
                self.machine.write_from_host(way.device, image, path=way.path, component=way.component, slot=way.slot)
            except WriteRefused:
                continue
            self.wrote(way.target)

    def wrote(self, component: str) -> None:
        """The tenant's code has written a component."""
        self.wrote_at[component] = self.machine.clock.now()
        self.wrote_unseen.discard(component)
        self.wrote_unread.discard(component)
        self.wrote_in_band.discard(component)
        if self.in_band:
            self.wrote_in_band.add(component)
        if self.lied_to():
            self.wrote_unseen.add(component)
        elif self.machine.faults.any('lock-unread'):
            self.wrote_unread.add(component)

    # ------------------------------------------------------------------------------------------------------ what happens to it

    def plan(self, seconds: float, what: str) -> None:
        """Let something happen in so many seconds: ``wakes``, ``wakes-briefly``, ``off``, ``mains-fail``."""
        self.machine.later(seconds, 'host', f'{self._plans} {what}')

    def forget_plans(self) -> None:
        """Nothing happens any more that was to happen."""
        self._plans += 1

    def _happen(self, detail: str) -> None:
        number, what = detail.split()
        if int(number) != self._plans:
            return
        try:
            match what:
                case 'wakes':
                    self._wake()
                case 'wakes-briefly':
                    self._wake()
                    self.plan(self.machine.reset_seconds + 15, 'off')
                case 'off':
                    self.machine.reset_system('host', 'ForceOff')
                case 'mains-fail':
                    self._mains_fail()
                case _:
                    raise ValueError(what)
        except WriteRefused:
            pass  # its power is changing already

    def _wake(self) -> None:
        if self.machine.systems['host'].power is Power.OFF:
            self.starts += 1
            self.machine.reset_system('host', 'On', cause=Cause.CLOCK)

    def _mains_fail(self) -> None:
        """Hosts and BMCs are without power at once, and come back; whether hosts or BMCs first, nobody knows.

        A host comes back on if it was on.
        """
        machine = self.machine
        was_on = machine.systems['host'].power is not Power.OFF
        machine.events = [event for event in machine.events if event.kind not in _POWER_EVENTS]
        heapq.heapify(machine.events)
        for system in machine.systems.values():
            system.power, system.booting, system.on_since = Power.OFF, False, None
        for key in self.volatile:
            setting = machine.settings[key]
            setting.value = setting.in_force = setting.open
        for bmc in machine.bmcs:
            machine.reset_bmc(bmc)
        for name in machine.systems:
            if name != 'host':
                machine.reset_system(name, 'On', cause=Cause.MAINS)
        if was_on:
            self.starts += 1
            machine.reset_system('host', 'On', cause=Cause.MAINS)


__all__ = ['OTHER_BYTES', 'Host']

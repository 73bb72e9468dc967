# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Watch the flashes of a running step, and whether a write path was ever open while the host was on."""

from baremetal_acc.demo.api import DemoMachine
from baremetal_acc.demo.screen import Screen


class FlashWatch:
    """Watches the machine while a step runs: the progress of flashes, and whether a card was ever open.

    :ivar most: the most flashes that ran at the same time.
    :ivar open_while_on: the write paths that were open while the host was on.
    """

    def __init__(self, screen: Screen, machine: DemoMachine) -> None:
        self._screen = screen
        self._machine = machine
        self._told: set[tuple[str, int]] = set()
        self._power = ''
        self.most = 0
        self.open_while_on: list[str] = []

    def look(self) -> None:
        """Read the machine's state once; called between two polls of the node."""
        truth = self._machine.truth()
        host = truth['systems']['host']
        if host['power'] != self._power:
            self._screen.milestone(f'host: {host["power"]}')
            self._power = host['power']
        if host['power'] == 'On' and not host['booting']:
            self.open_while_on += [f'{way["device"]} over {way["path"]}' for way in truth['ways'] if way['open']]
        running = [
            (target.split('/', 1)[1], task['percent'], key)
            for bmc in truth['bmcs'].values()
            for key, task in bmc['tasks'].items()
            if task['state'] == 'Running'
            for target in task['targets']
        ]
        self.most = max(self.most, len(running))
        self._screen.progress([(name, percent) for name, percent, _ in running])
        new = [(name, percent) for name, percent, _ in running if not self._has_told(name, percent)]
        if new:
            self._screen.milestone('writing ' + ', '.join(f'{name} {percent} %' for name, percent, _ in running))

    def _has_told(self, name: str, percent: int) -> bool:
        """Whether this stage of a flash was printed already: each flash is printed when it begins and when it is half done."""
        mark = (name, percent // 50)
        known = mark in self._told
        self._told.add(mark)
        return known

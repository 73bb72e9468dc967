# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The memory that a process and all below it take, measured while they run."""

import os
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 2.0
"""Between two measurements."""


def descendants(pid: int) -> set[int]:
    """All processes below a process, and itself."""
    children = defaultdict(list)
    for entry in Path('/proc').iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int((entry / 'stat').read_text().rpartition(')')[2].split()[1])
                children[parent].append(int(entry.name))
    found, rest = set(), [pid]
    while rest:
        found.add(one := rest.pop())
        rest += children[one]
    return found


def proportional(pid: int) -> int:
    """Proportional set size of a process, bytes: pages that several processes share are divided among them. 0 if it is gone."""
    with suppress(OSError):
        for line in Path(f'/proc/{pid}/smaps_rollup').read_text().splitlines():
            if line.startswith('Pss:'):
                return int(line.split()[1]) * 1024
    return 0


class Memory:
    """Measures this process and all below it; a context manager.

    :ivar peak: the most that was measured, bytes.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def _measure(self) -> None:
        while not self._over.wait(SECONDS):
            self.peak = max(self.peak, sum(proportional(pid) for pid in descendants(os.getpid())))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Show the progress of jobs and of a fleet's inventory on standard error.

On a terminal these are progress bars and a count that are redrawn. Elsewhere each change of a job is one line, and a fleet is
not counted.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TextIO

from baremetal_acc.bmc import pending
from baremetal_acc.cli.output.terminal import Line, Moving
from baremetal_acc.cli.output.text import PROGRAM, printable
from baremetal_acc.model.action import Flash, Program
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning.action_descriptions import complained, describe, objected
from baremetal_acc.planning.activation import waits_for_person

_PAUSE = 0.2
"""Seconds between two redraws of a count."""

_BUSY = (ItemState.SENT, ItemState.RUNNING)


_LONG = 10.0
"""Seconds after which a wait is reported."""

_LOOK = 1.0
"""Seconds between two checks for requests that wait for long."""


@dataclass(slots=True, kw_only=True)
class _Wait:
    """What a job waits for.

    :ivar same: the text of the wait, with each number replaced by 0.
    :ivar since: when the wait was first seen, in seconds of the clock.
    """

    same: str
    since: float
    said: bool = False


class JobProgress:
    """Shows the progress of running jobs.

    :param quiet: show nothing.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._wall = wall
        self._moving = Moving(stream, quiet=quiet)
        self._quiet = quiet
        self._said: dict[tuple[str, int], tuple[ItemState, str | None]] = {}
        self._labels: dict[AcceleratorId, str] = {}
        self._bars: dict[str, list[Line]] = {}
        self._waits: dict[str, _Wait] = {}
        self._asked: set[tuple[str, str]] = set()
        self._lock = threading.RLock()

    def labels(self, labels: Mapping[AcceleratorId, str]) -> None:
        """Add labels by which devices are shown in place of their ids."""
        self._labels.update(labels)

    def show(self, job: Job, doing: str | None = None) -> None:
        """Show what has changed in a job.

        :param doing: what the job waits for, None when it has ended.
        """
        if self._quiet:
            return
        with self._lock:
            self._show(job, doing)

    def _show(self, job: Job, doing: str | None) -> None:
        for position, item in enumerate(job.items):
            # An item that is performed within one tick is shown only once it is done; a postponed item is shown once.
            saying = (item.state, _reason(item))
            if item.state is ItemState.SENT or self._said.get((job.target, position), (ItemState.PLANNED, None)) == saying:
                continue
            self._said[job.target, position] = saying
            self._line(f'{PROGRAM}: {job.target}: {self._what(item)}: {item.state}{_message(item)}')
        self._say_wait(job, doing)
        if self._moving.is_shown:
            self._bars[job.target] = [] if doing is None else [*self._running(job), f'{job.target}: {self._named(doing)}']
            self._draw()

    def _say_wait(self, job: Job, doing: str | None) -> None:
        """Report once what a job has waited for for long, and its deadline."""
        if doing is None:
            self._waits.pop(job.target, None)
            return
        # For an item that waits for a person, ``doing`` says so already.
        told = [i.message for i in job.items if i.state in _BUSY and i.message and not waits_for_person(i)]
        what = self._named('; '.join([doing, *dict.fromkeys(told)]))
        same = re.sub('[0-9]+', '0', what)  # a text that differs only in numbers is the same wait
        known = self._waits.get(job.target)
        if known is None or known.same != same:
            self._waits[job.target] = _Wait(same=same, since=self._clock())
        elif not known.said and self._clock() - known.since >= _LONG:
            known.said = True
            at = f'{job.deadline:%H:%M:%S}Z'
            over = self._wall() >= job.deadline
            until = f'past its deadline, {at}: actions that have begun are completed' if over else f'until {at} at the latest'
            self._line(f'{PROGRAM}: {job.target}: waiting: {what} ({until})')

    def clear(self) -> None:
        """Remove the bars, so that something else can be printed."""
        with self._lock:
            self._moving.clear()
            self._bars.clear()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this context, report each request that a BMC does not answer for long; jobs are shown between requests."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_LOOK):
                self.say_requests()

        if not self._quiet:
            threading.Thread(target=watch, name='waits', daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def say_requests(self) -> None:
        """Report once each request that has waited for long, and its deadline."""
        now = self._clock()
        for one in pending.requests():
            with self._lock:
                if now - one.since < _LONG or (one.bmc, one.what) in self._asked:
                    continue
                self._asked.add((one.bmc, one.what))
                until = self._wall() + timedelta(seconds=max(0.0, one.until - now))
                self._line(f'{PROGRAM}: waiting for {one.bmc} to answer {one.what} (until {until:%H:%M:%S}Z at the latest)')
                self._draw()

    def _running(self, job: Job) -> list[Line]:
        busy = [i for i in job.items if i.state in _BUSY and isinstance(i.action, Flash | Program)]
        return [(i.percent, self._what(i)) for i in busy]

    def _what(self, item: Item) -> str:
        return self._named(describe(item.action))

    def _named(self, sentence: str) -> str:
        for identity, label in self._labels.items():
            sentence = sentence.replace(identity, label)
        return sentence

    def _line(self, line: str) -> None:
        self._moving.clear()
        self._stream.write(printable(line) + '\n')
        self._stream.flush()

    def _draw(self) -> None:
        lines = [line for lines in self._bars.values() for line in lines]
        if lines:
            self._moving.draw(lines)
        else:
            self._moving.clear()


class Count:
    """Counts the finished targets of a fleet on one line that is redrawn on a terminal; elsewhere shows nothing.

    :param quiet: show nothing.
    """

    def __init__(self, stream: TextIO, total: int, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._moving = Moving(stream, quiet=quiet)
        self._clock = clock
        self._begun = clock()
        self._drawn: float | None = None
        self._done = 0
        self._failed = 0

    def ended(self, *, failed: bool) -> None:
        """Count one more finished target."""
        self._done += 1
        self._failed += failed
        if self._moving.is_shown and (self._drawn is None or self._clock() - self._drawn >= _PAUSE):
            self.draw()

    def draw(self) -> None:
        """Draw the count."""
        if self._moving.is_shown:
            self._drawn = self._clock()
            self._moving.draw([(100 * self._done // max(1, self._total), self._line())])

    def clear(self) -> None:
        """Remove the line, so that something else can be printed."""
        self._drawn = None
        self._moving.clear()

    def _line(self) -> str:
        passed = self._clock() - self._begun
        parts = [f'{self._done} of {self._total} done', f'{self._failed} failed']
        if self._done and passed > 0:
            rate = self._done / passed
            parts += [
                f'{rate:.1f} per second' if rate >= 1 else f'{60 * rate:.1f} per minute',
                f'{_duration((self._total - self._done) / rate)} left',
            ]
        return ', '.join(parts)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f'{whole} s'
    return f'{whole // 60} min {whole % 60} s' if whole < 3600 else f'{whole // 3600} h {whole % 3600 // 60} min'


_TOLD = (ItemState.FAILED, ItemState.PLANNED)
"""States whose message is shown: why an item failed, or why it is postponed."""


def _message(item: Item) -> str:
    if item.unconditional and item.state is ItemState.DONE:
        return ' (written without If-Match: the BMC refuses its own ETag, or requires an ETag and has none)'
    if item.objection is not None and item.state is ItemState.DONE:
        return objected(item)
    if item.complaints and item.state is ItemState.DONE:
        said = '; '.join(map(complained, item.complaints))
        return f' (the BMC reports problems with other parts of its bundle: {said})'
    is_told = item.state in _TOLD or waits_for_person(item)
    return f' ({item.message})' if item.message and is_told else ''


def _reason(item: Item) -> str | None:
    """The reason of a postponed item, numbers replaced: a new line is printed only where more than a number has changed."""
    return re.sub('[0-9]+', '0', item.message) if item.message and item.state is ItemState.PLANNED else None

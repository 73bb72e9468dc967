# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Progress: bars on a terminal, plain lines elsewhere, and nothing that a BMC could write to a terminal."""

import io
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from baremetal_acc.bmc import pending
from baremetal_acc.bmc.pending import Pending
from baremetal_acc.cli.output import progress as module
from baremetal_acc.cli.output.progress import Count, JobProgress
from baremetal_acc.model.action import Flash
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from tests.unit.planning import values as v

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """What a terminal of 100 columns says of itself."""
    monkeypatch.setenv('TERM', 'xterm')
    monkeypatch.setenv('COLUMNS', '100')


def words(text: str) -> str:
    """Without colours, and without what moves the cursor."""
    return re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', text)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def job(state: ItemState, percent: int | None = None, message: str | None = None) -> Job:
    """A job with one flash in that state."""
    made = plan(v.inventory(), v.baseline(block=frozenset()), v.NODE, [v.image()])
    begun = begin(made, identity='1', node='n', flow=Flow.CLI, step='apply', lifecycle=1, now=NOW, timeout=timedelta(1))
    items = tuple(replace(i, state=state, percent=percent, message=message) for i in begun.items if isinstance(i.action, Flash))
    return replace(begun, items=items)


def test_elsewhere_each_change_is_one_line():
    """No control characters, no line twice, and devices by the names that people know."""
    stream = io.StringIO()
    progress = JobProgress(stream)
    progress.labels({v.GPU: 'H100 GPU_0'})
    for percent in (0, 50, 100):
        progress.show(job(ItemState.RUNNING, percent), 'write')
    progress.show(job(ItemState.STAGED))
    flash = 'baremetal-acc: node-1: flash GPU_0 of H100 GPU_0 with gpu-new'
    assert f'{flash}: running\n{flash}: staged\n' == stream.getvalue()


def test_a_wait_of_more_than_ten_seconds_is_said_once_with_its_end():
    """A number that counts is the same wait; another reason is another one, and so is a BMC that answers no more."""
    stream, now = io.StringIO(), [0.0]
    wall = [NOW]
    progress = JobProgress(stream, clock=lambda: now[0], wall=lambda: wall[0])
    for now[0] in (0.0, 5.0, 9.9):
        progress.show(job(ItemState.RUNNING, message='writing'), f'write: flash {now[0]:.0f} %')
    assert 'waiting' not in stream.getvalue()
    for now[0] in (10.0, 15.0, 60.0):
        progress.show(job(ItemState.RUNNING, message='writing'), f'write: flash {now[0]:.0f} %')
    said = 'baremetal-acc: node-1: waiting: write: flash 10 %; writing (until 12:00:00Z at the latest)'
    assert [said] == [line for line in stream.getvalue().splitlines() if 'waiting' in line]
    for now[0] in (61.0, 72.0, 90.0):
        progress.show(job(ItemState.RUNNING, message='no answer in time'), 'write: flash')
    assert 2 == stream.getvalue().count('waiting')
    assert stream.getvalue().endswith('waiting: write: flash; no answer in time (until 12:00:00Z at the latest)\n')
    progress.show(job(ItemState.DONE))
    assert 2 == stream.getvalue().count('waiting')
    wall[0] = NOW + timedelta(1)
    for now[0] in (100.0, 120.0):
        progress.show(job(ItemState.RUNNING), 'engage: lock')
    over = 'waiting: engage: lock (past its deadline, 12:00:00Z: actions that have begun are completed)\n'
    assert over in stream.getvalue()


def test_what_is_put_off_is_told_once_with_the_reason():
    """Tried and put off at each poll, it has not changed; a number that counts down is no other reason."""
    stream = io.StringIO()
    progress = JobProgress(stream)
    for left in (30, 20, 10):
        progress.show(job(ItemState.PLANNED, message=f'busy, retry in {left} s'), 'write')
        progress.show(job(ItemState.SENT, message=f'busy, retry in {left} s'), 'write')
    progress.show(job(ItemState.PLANNED, message='its card is not shown'), 'write')
    flash = f'baremetal-acc: node-1: flash GPU_0 of {v.GPU} with gpu-new'
    assert f'{flash}: planned (busy, retry in 30 s)\n{flash}: planned (its card is not shown)\n' == stream.getvalue()


@pytest.mark.parametrize(('percent', 'done', 'says'), [(0, 0, '0 %'), (50, 12, '50 %'), (999, 24, '100 %'), (None, 0, '? %')])
def test_on_a_terminal_bars_move(percent, done, says):
    """The bar is drawn again in place; a percentage that cannot be is cut. The cursor is there all the time."""
    stream = Terminal()
    progress = JobProgress(stream)
    progress.show(job(ItemState.RUNNING, percent), 'write')
    shown = words(stream.getvalue())
    assert re.search(rf'^[━╺╸]{{24}} +{re.escape(says)} flash GPU_0 ', shown, re.MULTILINE), shown
    bar = re.search(r'\x1b\[[0-9;]*m(━+)', stream.getvalue())
    assert bar is not None
    assert (done or 24) == len(bar[1])
    assert stream.getvalue().rfind('\x1b[?25h') > stream.getvalue().rfind('\x1b[?25l')
    progress.show(job(ItemState.RUNNING, percent), 'write')
    assert '\x1b[1A\x1b[2K' in stream.getvalue()
    progress.clear()
    assert stream.getvalue().endswith('\x1b[2K')


def test_no_line_that_moves_is_wider_than_the_terminal():
    """A long one ends in dots: one that wrapped would not be removed."""
    stream = Terminal()
    progress = JobProgress(stream)
    progress.show(job(ItemState.RUNNING, 5), 'write ' * 60)
    assert 100 >= max(map(len, words(stream.getvalue()).splitlines()))
    assert '…' in stream.getvalue()


def test_what_a_bmc_says_is_no_markup_on_a_terminal():
    """rich would take brackets for colours and links."""
    stream = Terminal()
    JobProgress(stream).show(job(ItemState.RUNNING, 5), '[red]x[/] :smile: \x1b[2J')
    assert 'node-1: [red]x[/] :smile: ?[2J' in words(stream.getvalue())
    assert '\x1b[2J' not in stream.getvalue()


def test_quiet_is_quiet():
    """-q shows nothing."""
    stream = Terminal()
    JobProgress(stream, quiet=True).show(job(ItemState.FAILED), 'write')
    assert '' == stream.getvalue()


def test_what_a_bmc_says_cannot_command_the_terminal():
    """Escape sequences in a message come out as question marks, line ends as blanks."""
    stream = io.StringIO()
    JobProgress(stream).show(job(ItemState.FAILED, message='bad\x1b[2Jimage\r\nbaremetal-acc: done\u202e'))
    assert 'failed (bad?[2Jimage  baremetal-acc: done?)\n' in stream.getvalue()


def counted(stream: io.StringIO, now: list[float], **options: bool) -> Count:
    """A count of 200 targets; the test sets its clock."""
    return Count(stream, 200, clock=lambda: now[0], **options)


def test_a_fleet_is_counted_on_a_terminal():
    """Done, failed, how fast, and how long it will take; each drawing over the one before, and none is left."""
    stream, now = Terminal(), [100.0]
    count = counted(stream, now)
    count.ended(failed=False)
    assert words(stream.getvalue()).rstrip().endswith('0 % 1 of 200 done, 0 failed')
    stream.truncate(0)
    now[0] = 104.0
    count.ended(failed=True)
    assert words(stream.getvalue()).rstrip().endswith('1 % 2 of 200 done, 1 failed, 30.0 per minute, 6 min 36 s left')
    count.clear()
    assert stream.getvalue().endswith('\x1b[2K')


def test_a_count_is_not_drawn_more_often_than_it_can_be_read():
    """A hundred that end within a moment are one drawing; a sign of life draws in any case."""
    stream, now = Terminal(), [100.0]
    count = counted(stream, now)
    for _ in range(100):
        count.ended(failed=False)
    assert 1 == stream.getvalue().count('done')
    count.draw()
    assert '100 of 200' in stream.getvalue()


@pytest.mark.parametrize(('stream', 'quiet'), [(io.StringIO(), False), (Terminal(), True)])
def test_a_count_shows_nothing_elsewhere(stream, quiet):
    """Neither in a file nor where nobody wants it."""
    count = counted(stream, [100.0], quiet=quiet)
    count.ended(failed=True)
    count.draw()
    count.clear()
    assert '' == stream.getvalue()


def test_a_count_that_has_nothing_to_go_by_promises_nothing():
    """Before the first is done there is no rate; a long time is told in hours."""
    stream, now = Terminal(), [100.0]
    count = counted(stream, now)
    now[0] = 130.0
    count.draw()
    assert words(stream.getvalue()).rstrip().endswith('0 % 0 of 200 done, 0 failed')
    now[0] = 190.0
    count.ended(failed=False)
    assert ', 0.7 per minute, 4 h 58 min left' in stream.getvalue()


def test_a_request_that_is_not_answered_for_ten_seconds_is_said_once_with_its_end(monkeypatch):
    """A job is shown between requests: what hangs inside one would be silence. Another request is another wait."""
    stream, now = io.StringIO(), [100.0]
    progress = JobProgress(stream, clock=lambda: now[0])
    host = Pending(bmc='host (https://bmc)', what='GET /redfish/v1/Systems/1', since=100.0, until=145.0)
    monkeypatch.setattr(pending, 'requests', lambda: (host,))
    for now[0] in (100.0, 109.9):
        progress.say_requests()
    assert '' == stream.getvalue()
    for now[0] in (110.0, 111.0, 144.0):
        progress.say_requests()
    what = r'GET /redfish/v1/Systems/1'
    said = rf'baremetal-acc: waiting for host \(https://bmc\) to answer {what} \(until ..:..:..Z at the latest\)\n'
    assert re.fullmatch(said, stream.getvalue())
    monkeypatch.setattr(pending, 'requests', lambda: (host, replace(host, what='GET /redfish/v1')))
    progress.say_requests()
    assert 2 == stream.getvalue().count('waiting')


def test_requests_are_watched_while_a_command_executes_and_not_when_it_is_quiet(monkeypatch):
    """By a thread, as the one that executes is inside the request."""
    monkeypatch.setattr(module, '_LOOK', 0.01)
    hangs = Pending(bmc='host', what='GET /x', since=-100.0, until=1e9)
    monkeypatch.setattr(pending, 'requests', lambda: (hangs,))
    stream, quiet = io.StringIO(), io.StringIO()
    with JobProgress(stream).watching(), JobProgress(quiet, quiet=True).watching():
        for _ in range(500):
            if stream.getvalue():
                break
            time.sleep(0.01)
    assert (1, '') == (stream.getvalue().count('to answer GET /x'), quiet.getvalue())

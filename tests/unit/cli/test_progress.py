# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Progress: bars on a terminal, plain lines elsewhere, and nothing that a BMC could write to a terminal."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from baremetal_acc.cli.progress import Progress
from baremetal_acc.decide.advance import begin
from baremetal_acc.decide.plan import plan
from baremetal_acc.model.job import Flash, Flow, ItemState, Job
from tests.unit.decide import values as v

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


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
    progress = Progress(stream)
    progress.labels({v.GPU: 'H100 GPU_0'})
    for percent in (0, 50, 100):
        progress.show(job(ItemState.RUNNING, percent), 'write')
    progress.show(job(ItemState.STAGED))
    flash = 'baremetal-acc: node-1: flash GPU_0 of H100 GPU_0 with gpu-new'
    assert f'{flash}: running\n{flash}: staged\n' == stream.getvalue()


@pytest.mark.parametrize(
    ('percent', 'bar'), [(0, '.' * 24), (50, '#' * 12 + '.' * 12), (100, '#' * 24), (999, '#' * 24), (None, '.' * 24)]
)
def test_on_a_terminal_bars_move(percent, bar):
    """The bar is drawn again in place; a percentage that cannot be is cut."""
    stream = Terminal()
    progress = Progress(stream)
    progress.show(job(ItemState.RUNNING, percent), 'write')
    assert f'[{bar}' in stream.getvalue()
    assert '\x1b[' not in stream.getvalue()
    progress.show(job(ItemState.RUNNING, percent), 'write')
    assert '\x1b[2A\x1b[J' in stream.getvalue()


def test_quiet_is_quiet():
    """-q shows nothing."""
    stream = Terminal()
    Progress(stream, quiet=True).show(job(ItemState.FAILED), 'write')
    assert '' == stream.getvalue()


def test_what_a_bmc_says_cannot_command_the_terminal():
    """Escape sequences in a message come out as question marks, line ends as blanks."""
    stream = io.StringIO()
    Progress(stream).show(job(ItemState.FAILED, message='bad\x1b[2Jimage\r\nbaremetal-acc: done\u202e'))
    assert 'failed (bad?[2Jimage  baremetal-acc: done?)\n' in stream.getvalue()

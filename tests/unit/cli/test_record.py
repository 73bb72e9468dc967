# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a recording says of itself while it is made."""

import io

from baremetal_acc.cli.output.record_progress import RecordProgress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_moves_on_a_terminal_and_leaves_nothing(monkeypatch):
    """One line, drawn anew, and removed at the end."""
    monkeypatch.setenv('TERM', 'xterm')
    stream = Terminal()
    shown = RecordProgress(stream, 'node-1')
    shown.told(7, 3)
    assert 'baremetal-acc: node-1: 7 resources read, at least 3 left' in stream.getvalue()
    shown.end()
    assert stream.getvalue().endswith('\x1b[2K')


def test_progress_is_rare_elsewhere_and_never_when_quiet():
    """A log is no terminal: a short recording says nothing there."""
    for stream, quiet in ((io.StringIO(), False), (Terminal(), True)):
        shown = RecordProgress(stream, 'node-1', quiet=quiet)
        shown.told(7, 3)
        shown.end()
        assert '' == stream.getvalue()

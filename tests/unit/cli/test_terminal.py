# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tables on a terminal have its width, lose nothing, and hold no more than text; elsewhere they are cliff's, to the byte."""

import argparse
import io
import re
import subprocess
import sys

import pytest

from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output.report import Report, ReportCommand
from baremetal_acc.cli.output.terminal import Formatter

HOSTILE = '[red]x[/] [link=http://bad]y[/link] :smile: \x1b[2J\x1b]0;t\x07\u202e'

COLUMNS = ('Target', 'Device', 'Locks', 'Finding')

ROWS = (
    ('node-1', 'NVIDIA H100 80GB HBM3 GPU_0', ('locked-verified', 'unlocked'), 'word ' * 40),
    ('node-2', HOSTILE, 'unlocked', '/redfish/v1/' + 'x' * 200),
)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Show(ReportCommand):
    """Print a table."""

    def add_arguments(self, parser):
        """None of its own."""

    def work(self, arguments):
        """Has it already."""
        return Report(document={'rows': []}, columns=COLUMNS, rows=ROWS, code=Exit.HOLDS)


class App:
    """What a command needs of cliff."""

    done = None

    def __init__(self, stdout):
        self.stdout = stdout


def shown(stream, *arguments: str) -> str:
    """What the command prints there."""
    command = Show(App(stream), None)
    assert Exit.HOLDS == command.run(command.get_parser('show').parse_args(arguments))
    return stream.getvalue()


def words(text: str) -> str:
    """Without colours."""
    return re.sub(r'\x1b\[[0-9;]*m', '', text)


@pytest.mark.parametrize('width', [80, 120, 160])
def test_a_table_is_as_wide_as_the_terminal(monkeypatch, width):
    """Every word of it is there, and an id without blanks goes on below."""
    monkeypatch.setenv('COLUMNS', str(width))
    lines = words(shown(Terminal())).splitlines()
    assert {width} == {len(line) for line in lines}
    last = ' '.join(line.split('│')[4].strip() for line in lines if '│' in line)
    assert 40 == last.count('word')
    assert 200 == last.count('x')


def test_a_table_is_no_wider_than_asked_for(monkeypatch):
    """--max-width, as elsewhere."""
    monkeypatch.setenv('COLUMNS', '160')
    assert 100 == max(map(len, words(shown(Terminal(), '--max-width', '100')).splitlines()))


def test_a_cell_is_text_and_no_more(monkeypatch):
    """Neither markup of rich nor what a terminal would obey: cells come from BMCs."""
    monkeypatch.setenv('COLUMNS', '400')
    text = shown(Terminal())
    assert '[red]x[/] [link=http://bad]y[/link] :smile: ?[2J?]0;t??' in words(text)
    for command in ('\x1b[2J', '\x1b]', '\x07', '\u202e'):
        assert command not in text


def test_an_empty_table_is_printed_only_where_it_is_wanted():
    """As elsewhere."""
    for print_empty, empty in ((False, True), (True, False)):
        stream = Terminal()
        Formatter().emit_list(COLUMNS, [], stream, argparse.Namespace(print_empty=print_empty, max_width=0))
        assert empty is (stream.getvalue() == '')


@pytest.mark.parametrize('formatter', ['table', 'csv', 'value', 'json', 'yaml'])
def test_elsewhere_nothing_is_drawn(formatter):
    """No colour, and no line of a terminal; JSON and YAML are the same on one, too."""
    text = shown(io.StringIO(), '-f', formatter)
    assert text.startswith('+---') is (formatter == 'table')
    assert not re.search('[\x1b━│╭]', text)
    if formatter != 'table':
        assert text == shown(Terminal(), '-f', formatter)


def test_the_library_is_not_loaded_where_there_is_no_terminal():
    """A command whose output goes to a file does not wait for it."""
    code = (
        'import sys, io; from baremetal_acc.cli.commands import inventory, record\n'
        'from baremetal_acc.cli.output.progress import Count\n'
        'c = Count(io.StringIO(), 3); c.ended(failed=False); c.draw(); c.clear(); sys.exit("rich.console" in sys.modules)'
    )
    assert 0 == subprocess.run([sys.executable, '-c', code], check=False).returncode

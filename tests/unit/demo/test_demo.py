# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The demo reports what does not hold, and stops what it started. (That its story holds is shown by ``make demo``.)"""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from baremetal_acc.demo import documents
from baremetal_acc.demo.screen import ClaimFailed, Screen


def demo(*arguments: str) -> subprocess.Popen[str]:
    """The demo as a process in a session of its own, as a terminal would run it."""
    return subprocess.Popen(
        [sys.executable, '-m', 'baremetal_acc.demo', *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def is_left(pid: int) -> bool:
    """Whether anything is left of the group that a service leads."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C in the middle of the story: the services are gone, and the folder is named at the end."""
    state = tmp_path / 'state'
    process = demo('--state', str(state))
    assert process.stdout is not None
    pids = []
    try:
        for line in process.stdout:
            if found := re.match(r'(emulator|placement|ironic) +pid (\d+)', line):
                pids.append(int(found.group(2)))
            if '== Enrol' in line:
                break
        time.sleep(1)
        assert (3, True) == (len(pids), all(is_left(pid) for pid in pids))
    finally:
        process.send_signal(number)
        rest = process.communicate(timeout=90)[0]
    assert 130 == process.returncode, rest
    assert [] == [pid for pid in pids if is_left(pid)]
    assert rest.rstrip().endswith(f'State and logs: {state}')


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    """The story begins with a new node; nobody's files are overwritten."""
    (tmp_path / 'mine').write_text('precious')
    process = demo('--state', str(tmp_path))
    output = process.communicate(timeout=30)[0]
    assert (2, True) == (process.returncode, 'is not empty' in output)
    assert ['mine'] == [path.name for path in tmp_path.iterdir()]


def test_a_fact_that_does_not_hold_ends_the_story(tmp_path: Path) -> None:
    """What was expected and what was found are both told; a fact that holds is counted."""
    with Screen(tmp_path / 'story.txt') as screen:
        screen.expect('one is one', 1, 1)
        with pytest.raises(ClaimFailed, match='one is two: expected 1, found 2'):
            screen.expect('one is two', 1, 2)
        with pytest.raises(ClaimFailed, match='expected a text with path'):
            screen.expect_words('it names both', ['card', 'path'], 'The Card')
    assert 1 == screen.facts


def test_a_story_without_a_terminal_has_no_colours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither escape sequences nor half-written lines; the file holds the same."""
    with Screen(tmp_path / 'story.txt') as screen:
        screen.section('title')
        screen.progress([('card', 50)])
        screen.table(('a', 'b'), [('1', 'x' * 500)])
    shown = capsys.readouterr().out
    assert '\x1b' not in shown
    assert '\r' not in shown
    assert shown == (tmp_path / 'story.txt').read_text()
    assert max(len(line) for line in shown.splitlines()) < 130


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize('width', [80, 120, 160])
def test_the_story_is_as_wide_as_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Nothing is lost of a table, and no line is longer: a narrow one has a line for each cell. The copy keeps its width."""
    stream = Terminal()
    monkeypatch.setattr(sys, 'stdout', stream)
    for name, value in (('COLUMNS', str(width)), ('TERM', 'xterm-256color')):
        monkeypatch.setenv(name, value)
    cells = ('FPGA', 'FPGA PAC D5005 with a long name', 'IN15494610198', 'Slot0: empty, Slot1: empty', 'locked words ' * 12)
    with Screen(tmp_path / 'story.txt') as screen:
        screen.section(
            'Deploy: Ironic engages the locks again, reads them back, and hands the node over (baremetal node deploy)'
        )
        screen.say('A sentence of many words. ' * 9)
        screen.table(('kind', 'model', 'serial', 'slots', 'locks'), [cells])
        screen.expect('a fact that is told in more words than fit on a line of a small terminal, and in colour, too', 1, 1)
    shown = re.sub(r'\x1b\[[0-9;]*m', '', stream.getvalue())
    assert '\x1b[' in stream.getvalue()
    assert width == max(len(line) for line in shown.splitlines())
    for cell in cells[:-1]:
        assert cell in shown
    assert 12 == shown.count('locked')
    assert (width == 80) is bool(re.search(r'^    kind +FPGA$', shown, re.MULTILINE))
    assert 116 == max(len(line) for line in (tmp_path / 'story.txt').read_text().splitlines())


def test_progress_leaves_nothing_on_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars are drawn in place and removed before the next word; the cursor is there all the time, and the copy has no bar."""
    stream = Terminal()
    monkeypatch.setattr(sys, 'stdout', stream)
    monkeypatch.setenv('TERM', 'xterm-256color')
    with Screen(tmp_path / 'story.txt') as screen:
        screen.progress([('GPU_0', 20), ('GPU_1', 40)])
        assert stream.getvalue().rfind('\x1b[?25h') > stream.getvalue().rfind('\x1b[?25l')
        screen.progress([('GPU_0', 60), ('GPU_1', 80)])
        screen.say('done')
    assert '60 %  GPU_0' in re.sub(r'\x1b\[[0-9;]*m', '', stream.getvalue())
    assert stream.getvalue().endswith('\x1b[2Kdone\n')
    assert 'done\n' == (tmp_path / 'story.txt').read_text()


def test_what_a_service_says_is_text_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the markup of the library that colours the story, nor what a terminal would obey."""
    stream = Terminal()
    monkeypatch.setattr(sys, 'stdout', stream)
    monkeypatch.setenv('TERM', 'xterm-256color')
    hostile = '[red]x[/] [link=http://bad]y[/link] :smile: \x1b[2J\x1b]0;t\x07\u202e'
    with Screen(tmp_path / 'story.txt') as screen:
        screen.detail(hostile)
        screen.table(('a', hostile), [(hostile, hostile)])
        screen.progress([(hostile, 10)])
        screen.failure(hostile)
        screen.expect(hostile, 1, 1)
    text = '[red]x[/] [link=http://bad]y[/link] :smile: ?[2J?]0;t??'
    shown = re.sub(r'\x1b\[[0-9;]*m', '', stream.getvalue())
    assert text in shown.partition('\n')[0]
    assert shown.endswith(f'{text}\n  + {text}\n')
    for command in ('\x1b[2J', '\x1b]', '\x07', '\u202e'):
        assert command not in stream.getvalue()
    assert text in (tmp_path / 'story.txt').read_text()


def test_the_catalogue_names_the_digest_of_each_file(tmp_path: Path) -> None:
    """The images are the emulator's own, and each entry of the catalogue is of one."""
    models = {'gpu': 'a', 'fpga': 'b', 'nic': 'c', 'slot': 'b'}
    paths = documents.write_images(tmp_path, documents.CATALOGUE, models)
    text = documents.write_catalogue(tmp_path, documents.CATALOGUE, paths).read_text()
    assert len(documents.CATALOGUE) == text.count('digest = "sha256:') == text.count('[[image]]')
    assert all(path.read_bytes().startswith(b'BMC-EMU-IMAGE') for path in paths.values())

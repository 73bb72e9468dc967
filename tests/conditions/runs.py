# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run cases, and judge how they end: no traceback, no internal error, no hang, and an error that says what to do."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conditions import cases, desk
from tests.conditions.cases import Case, Condition


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a case ended.

    :ivar codes: exit codes, negative for a signal; several where the command ran several times at once.
    :ivar shown: on the terminal.
    """

    codes: list[int]
    out: str
    err: str
    shown: str
    hung: bool
    seconds: float


class Runs:
    """The server, and the folders of its cases. Use it as a context manager."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def __enter__(self) -> 'Runs':
        self._folder = Path(tempfile.mkdtemp(prefix='baremetal-acc-conditions-'))
        self._folder.chmod(0o755)
        (self._folder / 'prepared').mkdir()
        desk.prepare(self._folder / 'prepared', self._machine)
        command = [sys.executable, '-m', 'tests.conditions.serve']
        environ = os.environ | {'PYTHONDONTWRITEBYTECODE': '1'}
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(command, cwd=desk.TREE, env=environ, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(100)
        if self._server.stdout is not None:
            self._server.stdout.close()
        shutil.rmtree(self._folder)

    def run(self, verb: str, condition: Condition) -> tuple[Case, Ended]:
        """Run one case in a folder of its own."""
        folder = self._folder / 'case'
        folder.mkdir(mode=0o755)
        try:
            desk.copy(self._folder / 'prepared', folder / 'work')
            case = cases.made(verb, condition, folder)
            for path in (folder, *folder.glob('state/**/*'), *folder.glob('[ls]*')):
                desk.own(path)
            return case, self.ended(case)
        finally:
            shutil.rmtree(folder, onerror=_again)

    def ended(self, case: Case) -> Ended:
        """Run one case."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(case.as_json()) + '\n')
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return Ended(out=_text(case.out), err=_text(case.err), **answer)


def _again(function: Any, path: str, _: object) -> None:
    """Remove what is in a folder that may not be written."""
    os.chmod(os.path.dirname(path), 0o700)
    function(path)


def _text(path: str) -> str:
    try:
        return Path(path).read_text('utf-8', 'replace')
    except FileNotFoundError:
        return ''


# -------------------------------------------------------------------------------------------------------------------- judge

WRONG = (
    'Traceback (most recent call last)',
    'internal error',
    'Exception ignored',
    'Fatal Python error',
    '--- Logging error ---',
    'RuntimeWarning',
    'DeprecationWarning',
    'ResourceWarning',
    'lost sys.std',
    'During handling of',
)
"""What nobody may read."""

USAGE = {2, 3, 4, 5}

OWN_FAULT = 1

_ERROR = re.compile(r'^(baremetal-acc|emulate)(-status|-ironic-conf)?: (error: )?(?P<said>.+)$')
_HINT = re.compile(r'\(.+\)$|, line \d+: |expected|: \d+ causes$')
_CONTROL = re.compile(r'[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]')


def judge(verb: str, case: Case, ended: Ended) -> list[str]:
    """What is wrong with how a case ended; nothing if all is well."""
    found = []
    said = ended.err + ended.shown
    if ended.hung:
        found.append(f'it hangs: killed after {case.seconds:.0f} s')
    debug = '--debug' in case.arguments
    sent = {number for _, number in case.signals}
    if case.executed and signal.SIGINT in sent and '/baremetal_acc/cli/' not in said:
        return found  # Python itself may have been interrupted while it started
    ours = debug and _is_ours(ended)
    found += [f'it says {text!r}' for text in WRONG if text in said + ended.out and not ours]
    found += [f'exit code {code}' for code in ended.codes if not _may_end(verb, code, sent, debug=debug)]
    if case.descriptors[2] == 'captured' and 'FSIZE' not in case.limits and not debug:
        found += _judge_errors(ended, verb)
    if case.descriptors[1] == 'captured' and (control := _CONTROL.search(ended.out)):
        found.append(f'it prints {control[0]!r}')
    return found


def _is_ours(ended: Ended) -> bool:
    """Whether the traceback that ``--debug`` asks for ends in an error with words of its own."""
    last = (ended.err or ended.shown).strip().splitlines()[-1:]
    return bool(last) and last[0].startswith(('baremetal_acc.', 'BrokenPipeError', 'OSError'))


def _may_end(verb: str, code: int, sent: set[int], *, debug: bool) -> bool:
    if verb == cases.STATUS and code in (1, 2, 255):
        return True
    if code == OWN_FAULT:
        return debug or verb in ('emulate', 'demo')  # these cannot serve, as their pages say
    if code == 130:
        return signal.SIGINT in sent
    if code < 0:
        return -code in sent - {signal.SIGINT, signal.SIGPIPE, signal.SIGWINCH} or (
            code == -signal.SIGINT and signal.SIGINT in sent
        )
    return code == 0 or code in USAGE


def _judge_errors(ended: Ended, verb: str) -> list[str]:
    found = []
    lines = ended.err.splitlines()
    # oslo.upgradecheck: its code is the worst result of the table that it prints; above a wrong argument it prints the usage.
    if verb == cases.STATUS and (lines[0].startswith('usage: ') if lines else ended.out):
        return found
    if control := _CONTROL.search(ended.err):
        found.append(f'it writes {control[0]!r}')
    errors = [line for line in lines if ': error: ' in line or line.startswith('emulate: ')]
    for line in errors:
        if not _ERROR.match(line):
            found.append(f'an error has another form: {line[:200]}')
        elif not _HINT.search(line) and not {*ended.codes} <= {0, 3} and not line.endswith(': interrupted'):
            found.append(f'an error says not what to do: {line[:300]}')
    if any(code in (1, 2, 4, 5) for code in ended.codes) and not lines:
        found.append('it fails without a word')
    if any(code in (1, 2, 4, 5) for code in ended.codes) and lines and not errors and not lines[0].startswith('usage: '):
        found.append(f'it fails without an error: {lines[-1][:200]}')
    return found

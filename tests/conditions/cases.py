# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The cases: every verb of the command line in every condition. A new verb and a new option are found by themselves.

The verbs come from the registry of the command itself, their options from their parsers.
"""

import argparse
import functools
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from baremetal_acc.cli.application import App
from baremetal_acc.cli.examples import EXAMPLES
from tests.conditions import desk

STATUS = 'baremetal-acc-status'

PROGRAMS = {STATUS: ['upgrade', 'check'], 'baremetal-acc-ironic-conf': []}
"""The programs beside ``baremetal-acc``, and their ordinary arguments."""


@dataclass(kw_only=True)
class Case:
    """One run: what the operator types, and where.

    :ivar absent: packages that are not installed.
    :ivar clock: seconds since 1970, None for the true time.
    :ivar executed: start Python, too, instead of forking a process that has imported everything.
    :ivar lost: the working directory is removed before the run.
    :ivar user: the user who runs it, if root runs the test.
    :ivar modes: root runs it, but the modes of files apply.
    :ivar signals: seconds after the start, and the number of a signal.
    :ivar keys: what the user types at the terminal, one second after the start.
    """

    arguments: list[str]
    folder: str
    environ: dict[str, str]
    program: str = 'baremetal-acc'
    descriptors: list[str] = field(default_factory=lambda: ['null', 'captured', 'captured'])
    size: tuple[int, int] = (80, 24)
    encoding: str | None = None
    limits: dict[str, int] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    clock: float | None = None
    user: int = desk.USER
    modes: bool = False
    lost: bool = False
    executed: bool = False
    copies: int = 1
    signals: list[tuple[float, int]] = field(default_factory=list)
    keys: str = ''
    seconds: float = 60.0
    out: str = ''
    err: str = ''

    def as_json(self) -> dict[str, Any]:
        """For the server."""
        return asdict(self)

    @property
    def state(self) -> Path:
        """The state folder of the command."""
        return Path(self.environ['XDG_STATE_HOME']) / 'baremetal-acc'

    def option(self, *words: str) -> None:
        """Add arguments behind the verb and its ordinary ones."""
        self.arguments += words

    def before(self, *words: str) -> None:
        """Add arguments in front of the verb."""
        self.arguments[:0] = words


# -------------------------------------------------------------------------------------------------------------------- verbs

APP = App()

VERBS = (*sorted(name for name, _ in APP.command_manager), *PROGRAMS)

SERVING = frozenset({'emulate', 'pool watch'})
"""Verbs that run until they are stopped."""


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb."""
    if verb in PROGRAMS:
        return argparse.ArgumentParser(verb, add_help=False)  # these import Ironic
    factory, name, _ = APP.command_manager.find_command(verb.split())
    return factory(APP, argparse.Namespace(debug=False, verbose_level=1), cmd_name=name).get_parser(f'baremetal-acc {name}')


@functools.cache
def options_of(verb: str) -> dict[str, argparse.Action]:
    """The options and positional arguments of a verb that take a value, by their longest spelling."""
    actions = parser_of(verb)._actions
    return {max(a.option_strings, key=len) if a.option_strings else a.dest: a for a in actions if a.nargs != 0}


_SOON = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()

_OWN: dict[str, tuple[str, ...]] = {
    'program': ('--slot', 'Slot0=gzip'),
    'baseline sign': ('baseline.toml', '--key', 'key.pem'),
    'catalogue add': ('tray.fwpkg',),
    'catalogue check': ('catalogue.toml',),
    'catalogue show': ('catalogue.toml',),
    'catalogue sign': ('catalogue.toml', '--key', 'key.pem'),
    'certificate extract': ('node.json', '--out', 'new.json'),
    'certificate issue': ('--key', 'key.pem', '--out', 'new.json'),
    'certificate show': ('c.json',),
    'certificate verify': ('c.json', '--trust', 'key.pub'),
    'custody accept': ('--until', _SOON, '--reason', 'first day'),
    'reference import': ('gpu.swidtag', '--root', 'root.pem'),
    'pool demand add': ('gzip',),
    'pool demand drop': ('req-1',),
    'emulate': ('fpga-server', '--http'),
    'record': ('--output', 'new'),
    'demo': ('--state', 'used'),
    'help': ('verify',),
}
"""What a verb needs besides the common documents. That of another verb is guessed from its parser."""

_COMMON = {
    '--config-file': 'acc.conf',
    '--baseline': 'baseline.toml',
    '--catalogue': 'catalogue.toml',
    '--pools': 'pools.toml',
}


def ordinary(verb: str) -> list[str]:
    """Arguments with which a verb does its work."""
    options = options_of(verb)
    given = list(_OWN[verb]) if verb in _OWN else [w for name, a in options.items() if _required(a) for w in _guess(name, a)]
    return given + [w for name, value in _COMMON.items() if name in options and value not in given for w in (name, value)]


def _required(action: argparse.Action) -> bool:
    return action.required if action.option_strings else action.nargs not in ('?', '*')


def _guess(name: str, action: argparse.Action) -> tuple[str, ...]:
    value = str(next(iter(action.choices))) if action.choices else 'baseline.toml' if names_file(action) else '1'
    return (name, value) if action.option_strings else (value,)


def names_file(action: argparse.Action) -> bool:
    """Whether the value of an option is a path."""
    named = str(action.metavar or action.dest).upper()
    return action.type is Path or any(word in named for word in ('FILE', 'DIR', 'PATH', 'CATALOGUE', 'PACKAGE'))


# --------------------------------------------------------------------------------------------------------------- conditions

Condition = Callable[[Case], None]

EXTRAS = [
    'aiohttp',
    'openstack',
    'openstacksdk',
    'oslo_messaging',
    'ironic',
    'placement',
    'waitress',
    'nova',
    'pecan',
    'oslo_policy',
]


def _streams(*kinds: str) -> Condition:
    def change(case: Case) -> None:
        case.descriptors = list(kinds)

    return change


def _environ(**values: str | None) -> Condition:
    def change(case: Case) -> None:
        for name, value in values.items():
            if value is None:
                case.environ.pop(name, None)
            else:
                case.environ[name] = value

    return change


def _behind(*words: str) -> Condition:
    # oslo.upgradecheck takes options in front of its commands only.
    return lambda case: case.before(*words) if case.program == STATUS else case.option(*words)


def _in_front(*words: str) -> Condition:
    return lambda case: case.before(*words)


def _is(**fields: Any) -> Condition:
    def change(case: Case) -> None:
        for name, value in fields.items():
            setattr(case, name, value)

    return change


def _all(*changes: Condition) -> Condition:
    def change(case: Case) -> None:
        for one in changes:
            one(case)

    return change


def _at_terminal(columns: int, **environ: str) -> Condition:
    at = _is(descriptors=['terminal'] * 3, size=(columns, 24))
    return _all(at, _environ(**{'COLUMNS': None, 'TERM': 'xterm-256color', **environ}))


def _signal(number: int, *seconds: float) -> Condition:
    return _is(signals=[(at, int(number)) for at in seconds])


def _stored(put: Callable[[Path], object]) -> Condition:
    def change(case: Case) -> None:
        case.state.mkdir(parents=True, mode=0o700)
        put(case.state / 'state.sqlite')

    return change


def _corrupt(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute('CREATE TABLE target (name TEXT PRIMARY KEY, state BLOB NOT NULL)')
        db.execute('PRAGMA user_version = 1')
        db.executemany('INSERT INTO target VALUES (?, ?)', [(f'node-{n}', b'x' * 500) for n in range(100)])
    db.close()
    data = bytearray(path.read_bytes())
    data[100:] = bytes(reversed(data[100:]))
    path.write_bytes(data)
    path.chmod(0o600)


def _with(state: bytes) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        with sqlite3.connect(path) as db:
            db.execute('CREATE TABLE target (name TEXT PRIMARY KEY, state BLOB NOT NULL)')
            db.execute('PRAGMA user_version = 1')
            db.execute('INSERT INTO target VALUES (?, ?)', ('node-1', state))
        db.close()
        path.chmod(0o600)

    return put


def _file(data: bytes) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        path.write_bytes(data)
        path.chmod(0o600)

    return put


def _unwritable_home(case: Case) -> None:
    home = Path(case.folder) / 'odd' / 'locked'
    case.environ |= {'HOME': str(home)}
    del case.environ['XDG_STATE_HOME']


def _example(words: str) -> Condition:
    """The arguments of an example, as a shell makes them."""

    def change(case: Case) -> None:
        split = subprocess.run(['bash', '-c', f"printf '%s\\0' {words}"], capture_output=True, text=True, check=True).stdout
        case.arguments = split.removesuffix('\0').split('\0')

    return change


def _nameless(case: Case) -> None:
    case.arguments[:] = []


def _no_arguments(case: Case) -> None:
    case.arguments = case.arguments[: len(case.environ['VERB'].split())]


CONDITIONS: dict[str, Condition] = {
    'ordinary': _is(),
    'stdin closed': _streams('closed', 'captured', 'captured'),
    'stdout closed': _streams('null', 'closed', 'captured'),
    'stderr closed': _streams('null', 'captured', 'closed'),
    'all closed': _streams('closed', 'closed', 'closed'),
    'stdin not readable': _streams('wrong', 'captured', 'captured'),
    'stdout full': _streams('null', 'full', 'captured'),
    'stderr full': _streams('null', 'captured', 'full'),
    'both full': _streams('null', 'full', 'full'),
    'stdout without reader': _streams('null', 'gone', 'captured'),
    'stderr without reader': _streams('null', 'captured', 'gone'),
    'both without reader': _streams('null', 'gone', 'gone'),
    'stdout not writable': _streams('null', 'wrong', 'captured'),
    'stdout to a full disk': _is(limits={'FSIZE': 0}),
    'terminal 80': _at_terminal(80),
    'terminal 200': _at_terminal(200),
    'terminal 1': _at_terminal(1),
    'terminal 0': _at_terminal(0),
    'terminal dumb': _at_terminal(80, TERM='dumb'),
    'terminal unknown': _at_terminal(80, TERM='no-such-terminal', LC_ALL='C'),
    'terminal, COLUMNS 1': _all(_at_terminal(80), _environ(COLUMNS='1')),
    'COLUMNS 1': _environ(COLUMNS='1'),
    'COLUMNS 80': _environ(COLUMNS='80'),
    'COLUMNS wrong': _environ(COLUMNS='-7', LINES='x', CLIFF_MAX_TERM_WIDTH='x', CLIFF_FIT_WIDTH='x'),
    'ascii': _all(_is(encoding='ascii'), _behind('odd/ü\U0001f4a5')),
    'latin-1': _is(encoding='latin-1'),
    'terminal ascii': _all(_at_terminal(80), _is(encoding='ascii')),
    'LANG C': _all(_is(executed=True), _environ(LC_ALL='C', PYTHONCOERCECLOCALE='0', PYTHONUTF8='0', PYTHONIOENCODING='ascii')),
    'executed': _is(executed=True),
    'column wrong': _behind('--column', 'nonsense'),
    'sort column wrong': _behind('--sort-column', 'nonsense'),
    'column twice': _behind('-c', 'Target', '-c', 'target', '--sort-column', 'TARGET', '--sort-descending'),
    'format wrong': _behind('-f', 'nonsense'),
    'format json': _behind('-f', 'json'),
    'format json, column': _behind('-f', 'json', '-c', 'Target'),
    'format yaml, stdout full': _all(_behind('-f', 'yaml'), _streams('null', 'full', 'captured')),
    'format csv, no quotes': _behind('-f', 'csv', '--quote', 'none'),
    'format value': _behind('-f', 'value', '--noindent', '--max-width', '-1'),
    'width wrong': _behind('--max-width', 'x'),
    'width 1': _all(_at_terminal(80), _behind('--max-width', '1', '--fit-width', '--print-empty')),
    'debug': _in_front('--debug'),
    'debug, stdout closed': _all(_in_front('--debug'), _streams('null', 'closed', 'captured')),
    'quiet': _in_front('-q'),
    'verbose': _in_front('-vvv'),
    'version': _in_front('--version'),
    'version, stdout full': _all(_in_front('--version'), _streams('null', 'full', 'captured')),
    'version, without reader': _all(_in_front('--version'), _streams('null', 'gone', 'captured')),
    'help': _behind('--help'),
    'help, stdout full': _all(_behind('--help'), _streams('null', 'full', 'captured')),
    'help, stdout closed': _all(_behind('--help'), _streams('null', 'closed', 'captured')),
    'help, without reader': _all(_behind('--help'), _streams('null', 'gone', 'captured')),
    'help at a terminal': _all(_behind('--help'), _at_terminal(20), _is(size=(20, 10_000))),
    'help, ascii': _all(_behind('--help'), _is(encoding='ascii')),
    'log file missing folder': _in_front('--log-file', 'odd/missing/log'),
    'log file is a folder': _in_front('--log-file', 'odd/folder'),
    'log file locked': _in_front('--log-file', 'odd/locked/log'),
    'log file full': _in_front('--log-file', '/dev/full'),
    'log file fifo': _in_front('--log-file', 'odd/fifo'),
    'log file socket': _in_front('--log-file', 'odd/socket'),
    'log file empty': _in_front('--log-file', ''),
    'log file newline': _in_front('--log-file', 'odd/missing/a\nb\udcff'),
    'HOME unset': _environ(HOME=None, XDG_STATE_HOME=None, XDG_CONFIG_HOME=None),
    'HOME locked': _unwritable_home,
    'HOME wrong': _environ(HOME='odd/missing', XDG_STATE_HOME=None),
    'no environment': _environ(HOME=None, XDG_STATE_HOME=None, PATH=None, COLUMNS=None, LANG=None),
    'user without a name': _environ(LOGNAME=None),
    'TMPDIR locked': _environ(TMPDIR='/proc', TEMP='/proc', TMP='/proc'),
    'TZ wrong': _environ(TZ='No/Such_Zone\udcff'),
    'folder lost': _is(lost=True),
    'extras absent': _is(absent=EXTRAS),
    'SDK absent': _is(absent=['openstack', 'oslo_messaging']),
    'extras absent, terminal': _all(_at_terminal(80), _is(absent=EXTRAS)),
    'no arguments': _no_arguments,
    'no verb': _nameless,
    'too many arguments': _behind('one', 'two', 'three'),
    'an unknown option': _behind('--no-such-option=secret'),
    'an abbreviated option': _behind('--config', 'acc.conf'),
    'an option without its value': _behind('--config-file'),
    'two dashes': _behind('--', '--', '-'),
    'names with newlines': _behind('a\nb', '\x1b[31m', '\udcff\udc80'),
    'an empty name': _behind(''),
    'a long name': _behind('x' * 100_000),
    'an unknown verb': lambda case: case.arguments.__setitem__(0, 'vérify\n\udcff'),
    'no config file': _behind('--config-file', 'odd/missing'),
    'state folder missing': _environ(XDG_STATE_HOME='/proc/new'),
    'state folder is a device': _environ(XDG_STATE_HOME='/dev/null'),
    'state folder locked': lambda case: case.environ.update(XDG_STATE_HOME=f'{case.folder}/odd/locked'),
    'state corrupt': _stored(_corrupt),
    'state garbage': _stored(_file(b'\xff' * 5000)),
    'state empty': _stored(_file(b'')),
    'state truncated': _stored(_file(b'SQLite format 3\0' + b'\0' * 50)),
    'state is a folder': _stored(lambda path: path.mkdir()),
    'state is a fifo': _stored(lambda path: os.mkfifo(path, 0o600)),
    'state is a link': _stored(lambda path: path.symlink_to('/dev/full')),
    'state of a target is no JSON': _stored(_with(b'\xff{')),
    'state of a target is a list': _stored(_with(b'[1]')),
    'state of a target is deep': _stored(_with(b'[' * 100_000)),
    'state of a target lacks fields': _stored(_with(b'{"format": 1, "target": "node-1", "job": {"format": 1}}')),
    'clock at 1970': _is(clock=5.0),
    'clock in 2100': _is(clock=4102444800.0),
    'few descriptors': _is(limits={'NOFILE': 9}),
    'no descriptors': _is(limits={'NOFILE': 3}),
    'no threads': _is(limits={'NPROC': 1}),
    'SIGINT at once': _signal(signal.SIGINT, 0.0),
    'SIGINT at start': _signal(signal.SIGINT, 0.03),
    'SIGINT in the middle': _signal(signal.SIGINT, 0.12),
    'SIGINT later': _signal(signal.SIGINT, 0.3),
    'SIGINT twice': _signal(signal.SIGINT, 0.1, 0.12),
    'SIGINT, executed': _all(_is(executed=True), _signal(signal.SIGINT, 0.12)),
    'SIGINT, executed later': _all(_is(executed=True), _signal(signal.SIGINT, 0.25)),
    'SIGTERM': _signal(signal.SIGTERM, 0.1),
    'SIGPIPE': _signal(signal.SIGPIPE, 0.05, 0.1, 0.2),
    'SIGHUP': _signal(signal.SIGHUP, 0.1),
    'SIGINT, stderr gone': _all(_streams('null', 'captured', 'gone'), _signal(signal.SIGINT, 0.1)),
    'terminal resized': _all(_at_terminal(80), _signal(signal.SIGWINCH, 0.05, 0.1)),
    'several at once': _is(copies=3),
}
"""Each changes the ordinary case of a verb."""


def with_option(name: str, action: argparse.Action, value: str) -> Condition:
    """The condition that an option, or a positional argument, has a value."""

    def change(case: Case) -> None:
        case.modes = value.startswith('odd/unreadable')
        if action.option_strings:
            case.option(f'{name}={value}' if name.startswith('--') else f'{name}{value}')
            return
        given = getattr(parser_of(case.environ['VERB']).parse_args(case.arguments[len(case.environ['VERB'].split()) :]), name)
        for old in given if isinstance(given, list) else [given]:
            if old in case.arguments:
                case.arguments[case.arguments.index(old)] = value
                return
        case.option(value)

    return change


def of_verb(verb: str) -> Iterator[tuple[str, Condition]]:
    """All conditions of a verb, by their names."""
    yield from CONDITIONS.items()
    for number, (_, words) in enumerate(EXAMPLES.get(verb, ())):
        if verb != 'demo':  # it takes a minute; make demo and its tests run it
            yield f'example {number + 1}', _example(words)
    for name, action in options_of(verb).items():
        for value in desk.FILES if names_file(action) else desk.VALUES:
            yield f'{name} {value[:40]!r}', with_option(name, action, value)


def made(verb: str, condition: Condition, folder: Path) -> Case:
    """The case of a verb in a condition.

    :param folder: a folder for this case alone, with a copy of the prepared files in ``work``.
    """
    environ = {
        'HOME': str(folder / 'home'),
        'LOGNAME': 'operator',
        'XDG_STATE_HOME': str(folder / 'state'),
        'COLUMNS': '200',
        'PATH': os.environ['PATH'],
        'PYTHONPATH': os.environ.get('PYTHONPATH', ''),
        'VERB': verb,
    }
    case = Case(
        program=verb if verb in PROGRAMS else 'baremetal-acc',
        arguments=[*PROGRAMS[verb]] if verb in PROGRAMS else [*verb.split(), *ordinary(verb)],
        folder=str(folder / 'work'),
        environ=environ,
        out=str(folder / 'out'),
        err=str(folder / 'err'),
    )
    if verb in SERVING:
        case.signals = [(1.0, int(signal.SIGINT)), (3.0, int(signal.SIGTERM))]
    condition(case)
    if verb == 'help':
        case.keys = 'q'  # leaves the pager
    if verb == 'demo' and not case.signals:
        case.signals = [(10.0, int(signal.SIGINT))]  # with no folder, or a new one, it runs the demo
    if verb in SERVING and not any(number in (signal.SIGINT, signal.SIGTERM) for _, number in case.signals):
        case.signals.append((1.0, int(signal.SIGINT)))
    if case.lost:
        lost = folder / 'lost'
        lost.mkdir()
        case.folder = str(lost)
        case.arguments = [str(folder / 'work' / w) if (folder / 'work' / w).is_file() else w for w in case.arguments]
    return case

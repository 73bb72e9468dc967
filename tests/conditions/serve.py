# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run the command in an unusual environment: one process imports it, and forks for each run.

Each run is a process of its own, with its own descriptors, limits, signals, clock, user and missing packages. Lines of JSON on
standard input describe the runs (:class:`tests.conditions.cases.Case`), and lines of JSON on standard output have the results.
The server has no threads.
"""

import contextlib
import ctypes
import datetime
import fcntl
import functools
import gc
import io
import json
import os
import pty
import resource
import select
import signal
import struct
import sys
import termios
import time
from importlib import import_module, metadata
from typing import Any

from stevedore import ExtensionManager

from baremetal_acc.bmc import device_ids
from baremetal_acc.cli import application  # noqa: F401 - imported once, for every run
from baremetal_acc.cli import main as command

PROGRAMS = {
    'baremetal-acc': 'baremetal_acc.cli.main',
    'baremetal-acc-status': 'baremetal_acc_ironic.status_command',
    'baremetal-acc-ironic-conf': 'baremetal_acc_ironic.ironic_conf_command',
}

MAX_FILE = 64 * 1024 * 1024

_CAPABILITY_VERSION = 0x20080522
_DAC_READ_SEARCH = 1 << 2
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_RAISE = 2
"""Source: linux/capability.h and linux/prctl.h."""


def import_plugins() -> None:
    """Import what the commands import when they run, except what needs an extra."""
    for group in ('baremetal_acc.cli', 'baremetal_acc.bmc', 'baremetal_acc.locks', 'cliff.formatter.list'):
        for entry in metadata.entry_points(group=group):
            entry.load()
        ExtensionManager(group)  # stevedore keeps what it has read
    device_ids.shipped()
    import_module('baremetal_acc.emulator.main')
    # Some hundred packages of the test environment are searched for entry points once, and not in each run.
    metadata.entry_points = functools.cache(metadata.entry_points)
    metadata.version = functools.cache(metadata.version)
    metadata.entry_points(group='baremetal_acc.cli')
    metadata.version('baremetal-acc')
    gc.freeze()  # the children need not look through what was imported


# ----------------------------------------------------------------------------------------------------------- in the child


def _descriptors(asked: dict[str, Any], terminal: int | None) -> None:
    for number, kind in enumerate(asked['descriptors']):
        if kind == 'closed':
            os.close(number)
            continue
        match kind:
            case 'captured':
                opened = os.open((asked['out'], asked['err'])[number - 1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            case 'null':
                opened = os.open(os.devnull, os.O_RDWR)
            case 'full':
                opened = os.open('/dev/full', os.O_RDWR)
            case 'wrong':  # open for the other direction
                opened = os.open(os.devnull, os.O_RDONLY if number else os.O_WRONLY)
            case 'gone':
                reads, opened = os.pipe()
                os.close(reads)
            case 'terminal':
                assert terminal is not None
                opened = os.dup(terminal)
            case _:
                raise AssertionError(kind)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)


def open_streams(encoding: str | None, errors: str = 'strict') -> None:
    """Open the three streams on the descriptors as Python does when it starts.

    :param errors: what happens to characters that the encoding does not have; standard error shows those escaped.
    """
    for number, name in enumerate(('stdin', 'stdout', 'stderr')):
        try:
            os.fstat(number)
            raw = io.FileIO(number, 'wb' if number else 'rb', closefd=False)
        except OSError:
            setattr(sys, name, None)
            continue
        buffered = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        line = number == 2 or raw.isatty()
        how = 'backslashreplace' if number == 2 else errors
        setattr(sys, name, io.TextIOWrapper(buffered, encoding or 'utf-8', how, line_buffering=line))
        setattr(sys, f'__{name}__', getattr(sys, name))


def _without(names: list[str]) -> None:
    """Make packages as absent as if they were not installed."""

    class Without:
        def __init__(self, finder: Any) -> None:
            self._finder = finder

        def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
            return None if fullname.partition('.')[0] in names else self._finder.find_spec(fullname, path, target)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._finder, name)

    for name in [n for n in sys.modules if n.partition('.')[0] in names or n.startswith('baremetal_acc.emulator')]:
        del sys.modules[name]
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]


def _clock(at: float) -> None:
    """Let the clock of our own modules stand at another time, and go on from there."""
    offset = datetime.timedelta(seconds=at - time.time())
    real = datetime.datetime

    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class Shifted(real, metaclass=Meta):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real.now(tz) + offset

    for name, module in list(sys.modules.items()):
        if name.partition('.')[0] == 'baremetal_acc' and getattr(module, 'datetime', None) is real:
            module.datetime = Shifted  # type: ignore[attr-defined]
    now = time.time
    time.time = lambda: now() + offset.total_seconds()


def _capabilities(kept: int) -> None:
    """Keep only these capabilities of root, also in a program that is executed later."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)(kept, kept, kept, 0, 0, 0)
    assert libc.capset(header, data) == 0
    if kept:
        assert libc.prctl(_PR_CAP_AMBIENT, _RAISE, kept.bit_length() - 1, 0, 0) == 0


def _other_user(user: int) -> None:
    """Become another user, who may read everything, as the Python of the test may be in root's home, and write only its own."""
    os.setgroups([])
    os.setresgid(user, user, user)
    ctypes.CDLL(None).prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(user, user, user)
    _capabilities(_DAC_READ_SEARCH)


def _become(asked: dict[str, Any], terminal: int | None) -> int:
    """Set up what the case asks for, run the command, and return its exit code."""
    os.setsid()
    if terminal is not None:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.alarm(0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    os.chdir(asked['folder'])
    if asked['lost']:
        os.rmdir(asked['folder'])
    os.environ.clear()
    os.environ.update(asked['environ'])
    program = asked['program']
    _descriptors(asked, terminal)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
    for name, limit in asked['limits'].items():
        resource.setrlimit(getattr(resource, f'RLIMIT_{name}'), (limit, limit))
    if os.geteuid() == 0:
        _capabilities(0) if asked['modes'] else _other_user(asked['user'])
    if asked['executed']:
        words = [os.fsencode(word) for word in asked['arguments']]
        os.execve(sys.executable, [os.fsencode(sys.executable), b'-m', PROGRAMS[program].encode(), *words], os.environ)
    open_streams(asked['encoding'])
    if asked['absent']:
        _without(asked['absent'])
    if asked['clock'] is not None:
        _clock(asked['clock'])
    sys.argv = [program, *asked['arguments']]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return int((command if program == 'baremetal-acc' else import_module(PROGRAMS[program])).main())


# ---------------------------------------------------------------------------------------------------------- in the server


def _terminal(size: tuple[int, int]) -> tuple[int, int]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', size[1], size[0], 0, 0))
    return ours, theirs


def _watch(asked: dict[str, Any], children: list[int], terminal: int | None) -> dict[str, Any]:
    """Send the signals in time, read what the terminal shows, and wait for the end."""
    begin = time.monotonic()
    due = sorted(map(tuple, asked['signals']))
    codes: dict[int, int] = {}
    shown, hung, keys = b'', False, asked['keys'].encode()
    while len(codes) < len(children):
        now = time.monotonic() - begin
        while due and due[0][0] <= now:
            for child in children:
                if child not in codes:
                    os.kill(child, due[0][1])
            due.pop(0)
        if now > asked['seconds'] and not hung:
            hung = True
            for child in children:
                if child not in codes:
                    os.kill(child, signal.SIGKILL)
        for child in children:
            if child not in codes:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    codes[child] = os.waitstatus_to_exitcode(status)
        if terminal is not None and keys and now > 1:
            os.write(terminal, keys)
            keys = b''
        if terminal is not None:
            shown += _shown(terminal, 0.003)
        else:
            time.sleep(0.003)
    if terminal is not None:
        while more := _shown(terminal, 0):
            shown += more
    for child in children:
        with contextlib.suppress(ProcessLookupError):  # what it has left behind, in its session
            os.killpg(child, signal.SIGKILL)
    seconds = time.monotonic() - begin
    return {'codes': [codes[c] for c in children], 'shown': shown.decode('utf-8', 'replace'), 'hung': hung, 'seconds': seconds}


def _shown(terminal: int, seconds: float) -> bytes:
    if not select.select([terminal], [], [], seconds)[0]:
        return b''
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody has the terminal open any more
        time.sleep(0.003)
        return b''


def serve() -> int:
    """Fork for each line; the children return their exit code, too, so that Python ends in them as it always does."""
    import_plugins()
    for line in iter(sys.stdin.readline, ''):
        asked = json.loads(line)
        ours, theirs = _terminal(asked['size']) if 'terminal' in asked['descriptors'] else (None, None)
        children = []
        # A signal that comes at once waits until the child can receive it: a shell lets its jobs ignore SIGINT.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        for _ in range(asked['copies']):
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                if ours is not None:
                    os.close(ours)
                return _become(asked, theirs)
            children.append(child)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if theirs is not None:
            os.close(theirs)
        answer = _watch(asked, children, ours)
        if ours is not None:
            os.close(ours)
        sys.stdout.write(json.dumps(answer) + '\n')
        sys.stdout.flush()
    return 0


if __name__ == '__main__':
    sys.exit(serve())

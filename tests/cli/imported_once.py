# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Start the command a thousand times, but import it once: a server imports it, and forks for each start.

Interpreter, imports and the search for plugins take a second of a core, which is more than most commands of the tests take for
their work. What is started is a process of its own nevertheless: it has its arguments, folder, environment, descriptors and
signals, and is a child of the process that asked for it: :class:`subprocess.Popen` waits for it, and reads its exit code.

This file is also the program of the server, which has no threads. It gets lines of JSON with three descriptors on a socket,
forks a process that forks the command, waits for the first one, and answers with the number of the second one. Meanwhile the
process that asked gets the orphans of its descendants (``PR_SET_CHILD_SUBREAPER``): so the command becomes its child.
"""

import atexit
import ctypes
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

TREE = Path(__file__).parents[2]

_PR_SET_CHILD_SUBREAPER = 36
"""Source: linux/prctl.h."""

_LINE = 1 << 20
"""Most bytes of a request."""


class _Server:
    """The server of one environment of Python."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            for end in (self._socket, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LINE)
            command = [sys.executable, '-m', 'tests.cli.imported_once', str(theirs.fileno())]
            null = subprocess.DEVNULL
            self._process = subprocess.Popen(
                command, cwd=TREE, env=environ, stdin=null, stdout=null, pass_fds=[theirs.fileno()]
            )
        atexit.register(self._stop)

    def _stop(self) -> None:
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)

    def start(self, asked: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Start the command; returns its process ID."""
        with self._lock:
            assert 0 == self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._socket, [json.dumps(asked).encode()], list(descriptors))
                answer = self._socket.recv(20)
                assert answer, 'the server of the command has ended'
                return int(answer)
            finally:
                self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_servers: dict[tuple[int, tuple[tuple[str, str], ...]], _Server] = {}
_making = threading.Lock()


def _server(environ: dict[str, str]) -> _Server:
    kept = {k: v for k, v in environ.items() if k in ('PATH', 'LANG') or k.startswith(('LC_', 'PYTHON'))}
    # .ci/run looks for what outlives it by this.
    kept |= {k: v for k, v in os.environ.items() if k == 'BAREMETAL_ACC_CI_RUN'}
    key = (os.getpid(), tuple(sorted(kept.items())))  # a process that was forked has a server of its own
    with _making:
        if key not in _servers:
            _servers[key] = _Server(kept)
        return _servers[key]


class Command(subprocess.Popen[str]):
    """``python -m baremetal_acc.cli.main``, started by the server.

    :param arguments: those of the command.
    :param program: the path of another program of Python in its place, which uses what the command imports.
    """

    def __init__(
        self, arguments: Sequence[str], *, cwd: Path, env: dict[str, str], program: str | None = None, **more: Any
    ) -> None:
        self._asked = {'arguments': list(arguments), 'folder': str(cwd), 'environ': env, 'program': program}
        command = [program] if program else ['-m', 'baremetal_acc.cli.main']
        super().__init__([sys.executable, *command, *arguments], cwd=cwd, env=env, text=True, **more)

    def _execute_child(self, *given: Any) -> None:
        by_name = inspect.signature(super()._execute_child).bind(*given).arguments  # type: ignore[misc]
        ends = [by_name[name] for name in ('p2cread', 'p2cwrite', 'c2pread', 'c2pwrite', 'errread', 'errwrite')]
        try:
            theirs = [number if end == -1 else end for number, end in enumerate(ends[0:1] + ends[3:4] + ends[5:6])]
            self.pid = _server(self._asked['environ']).start(self._asked, theirs)
            self._child_created = True
        finally:
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------- in the server


def _become(asked: dict[str, Any], descriptors: Sequence[int]) -> int:
    """Be the command, and return its exit code, so that Python ends as it always does."""
    from baremetal_acc.cli import main
    from tests.conditions import serve

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, 256)
    os.chdir(asked['folder'])
    os.environ.clear()
    os.environ.update(asked['environ'])
    serve.open_streams(sys.stdout.encoding, sys.stdout.errors or 'strict')
    sys.path[0] = asked['folder']
    sys.argv = [asked['program'] or str(main.__file__), *asked['arguments']]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked['program']:
        runpy.run_path(asked['program'], run_name='__main__')
        return 0
    return main.main()


def _serve(number: int) -> int:
    from tests.conditions import serve

    serve.import_plugins()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C reaches all processes of the terminal
    asking = socket.socket(fileno=number)
    while True:
        line, descriptors, _, _ = socket.recv_fds(asking, _LINE, 3)
        if not line:
            return 0
        reads, writes = os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                os.close(reads)
                os.close(writes)
                return _become(json.loads(line), descriptors)
            os.write(writes, str(child).encode())
            os._exit(0)
        os.waitpid(between, 0)
        asking.send(os.read(reads, 20))
        for descriptor in (reads, writes, *descriptors):
            os.close(descriptor)


if __name__ == '__main__':
    sys.exit(_serve(int(sys.argv[1])))

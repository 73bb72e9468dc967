# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One process of the demo services: wait until it answers or ends, stop it, and hold signals back meanwhile."""

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from baremetal_acc.errors import AccError

START_SECONDS = 180.0
"""The longest time until a service answers after its start. Measured 3 s on an idle machine; a busy CI machine took 40 s."""

STOP_SECONDS = 60.0
"""The longest time for a service to stop before it is killed. Ironic waits for running steps: 32 s and 63 s were measured."""

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ServiceFailed(AccError):
    """A service did not start, or ended by itself.

    :ivar service: its name.
    :ivar tail: the last lines of its log.
    """

    def __init__(self, *, service: str, what: str, log: Path) -> None:
        self.service = service
        self.tail = _tail(log)
        super().__init__(f'{service}: {what}', hint=f'see the log {log}')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProcess:
    """One service process: the leader of its own session, so that all its children are found by the process group.

    :ivar log_start: size of the log when the process was started.
    """

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    log_start: int


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Within this context, delay the signals that end this program, so that no started process is left running."""
    if threading.current_thread() is not threading.main_thread():  # signals never arrive elsewhere
        yield
        return
    held: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _frame: held.append(number)) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for caught in held:
        signal.raise_signal(caught)


def _ticks(seconds: float) -> Iterator[None]:
    """Yield every tenth of a second until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.1)


def wait_for_answer(process: ServiceProcess, answers: Callable[[], bool], otherwise: str) -> None:
    for _ in _ticks(START_SECONDS):
        code = process.popen.poll()
        if code is not None:
            raise ServiceFailed(service=process.name, what=f'ended during its start with exit code {code}', log=process.log)
        if answers():
            return
        if _worker_died(process):
            raise ServiceFailed(service=process.name, what='its worker process died during the start', log=process.log)
    raise ServiceFailed(service=process.name, what=f'{otherwise} after {START_SECONDS:.0f} s', log=process.log)


def _worker_died(process: ServiceProcess) -> bool:
    """Whether the log says that Ironic's worker died. Its master forks workers again for ever, so waiting would not help."""
    with process.log.open('rb') as file:
        file.seek(process.log_start)
        return re.search(rb'Child \d+ exited with status [1-9]', file.read()) is not None


def wait_for_end(process: ServiceProcess) -> None:
    for _ in _ticks(START_SECONDS):
        code = process.popen.poll()
        if code == 0:
            return
        if code is not None:
            raise ServiceFailed(service=process.name, what=f'ended with exit code {code}', log=process.log)
    raise ServiceFailed(service=process.name, what=f'still runs after {START_SECONDS:.0f} s', log=process.log)


def stop_process(process: ServiceProcess) -> None:
    """Terminate the process, then kill what is left of its process group, such as children that outlived it."""
    if process.popen.poll() is None:
        process.popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.popen.wait(timeout=STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.popen.pid, signal.SIGKILL)
    process.popen.wait()


def _tail(log: Path, lines: int = 40) -> str:
    """The last lines of a log, at most 16 KiB."""
    try:
        with log.open('rb') as file:
            file.seek(max(0, log.stat().st_size - 16384))
            text = file.read().decode(errors='replace')
    except OSError as exc:
        return f'(the log cannot be read: {exc.strerror})'
    return '\n'.join(text.splitlines()[-lines:])


def interrupt_on_signals() -> None:
    """Let SIGTERM and SIGHUP end this program as Ctrl-C does: by one KeyboardInterrupt, on which all services are stopped.

    Later signals are ignored: stopping takes seconds, and a second Ctrl-C must not leave it half done.
    """

    def interrupt(_number: int, _frame: object) -> None:
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ENDING_SIGNALS:
        signal.signal(number, interrupt)

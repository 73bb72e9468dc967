# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The first Ctrl-C of a command, within one process; tests/cli/test_interruption.py has whole commands."""

import _thread
import os
import select
import signal
import threading
import time

import pytest

from baremetal_acc.bmc import stopping
from baremetal_acc.cli import interruption
from baremetal_acc.cli.exits import Exit


class Asking:
    """Something that asks a BMC."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


@pytest.fixture(autouse=True)
def python_s_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    stopping.begin()


def test_what_is_left_is_said_once_and_everything_is_stopped(capsys):
    """Also what is opened afterwards."""
    ends: list[int] = []
    asking, late = Asking(), Asking()
    stopping.watch(asking)
    with (
        pytest.raises(KeyboardInterrupt),
        interruption.bounded(0.5, ends.append),
        interruption.saying(lambda: ['node-1: the write may go on']),
    ):
        signal.raise_signal(signal.SIGINT)
    assert 'baremetal-acc: error: node-1: the write may go on\n' == capsys.readouterr().err
    stopping.watch(late)
    assert asking.stopped.wait(5)
    assert late.stopped.is_set()
    time.sleep(0.6)
    assert [] == ends


def test_a_thread_that_hangs_does_not_keep_the_process(capsys):
    """It is ended as by a SIGKILL."""
    ended = threading.Event()
    ends: list[int] = []
    go_on = threading.Event()
    hanging = threading.Thread(target=go_on.wait)

    def command():
        with interruption.bounded(0.3, lambda code: (ends.append(code), ended.set())):
            hanging.start()
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        command()
    assert ended.wait(5)
    assert [Exit.INTERRUPTED] == ends
    go_on.set()
    hanging.join()
    assert 'interrupted' in capsys.readouterr().err


def test_a_command_that_is_not_interrupted_leaves_everything_as_it_was():
    """The handler, and what may be asked of BMCs."""
    asking = Asking()
    with interruption.bounded():
        stopping.watch(asking)
        assert interruption.interrupts(signal.getsignal(signal.SIGINT))
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)
    assert not asking.stopped.is_set()


@pytest.mark.parametrize('handler', [signal.SIG_IGN, lambda number, frame: None])
def test_who_has_a_handler_of_his_own_keeps_it(handler):
    """Watches of pools end in their own way; a command in the background has it ignored."""
    signal.signal(signal.SIGINT, handler)
    with interruption.bounded():
        assert handler is signal.getsignal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_the_second_ctrl_c_interrupts_once_more():
    """For those who cannot wait."""

    def command():
        with interruption.bounded(5, lambda code: None):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        command()


def test_a_ctrl_c_that_comes_just_before_a_wait_does_not_wait_for_its_end():
    """Python has noted it, and the system does not break the wait off: as when it was noted by another thread."""
    began = time.monotonic()
    other = threading.Timer(0.2, _thread.interrupt_main)
    other.start()
    with pytest.raises(KeyboardInterrupt), interruption.bounded(end=lambda code: None):
        threading.Event().wait(20)
    other.join()
    assert time.monotonic() - began < 10
    assert -1 == signal.set_wakeup_fd(-1)


def test_a_process_that_was_forked_does_not_keep_the_command():
    """It has everything open that the command has."""
    reads, writes = os.pipe()
    with interruption.bounded(end=lambda code: None):
        pid = os.fork()
        if pid == 0:
            os.close(writes)
            select.select([reads], [], [], 8)  # until the other one has ended, but not for ever
            os._exit(0)
        began = time.monotonic()
    passed = time.monotonic() - began
    os.close(writes)
    os.close(reads)
    os.waitpid(pid, 0)
    assert passed < 5

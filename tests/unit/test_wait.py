# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One thread waits for many things, each of which is written as if it waited alone."""

import socket
import threading
import time
from collections.abc import Callable

import pytest

from baremetal_acc import wait
from baremetal_acc.wait import READ, Hub


def run(*functions: Callable[[Hub], None]) -> list[object]:
    """Run functions in a hub; what became of each."""
    hub = Hub()
    ended: list[object] = []

    def guarded(function: Callable[[Hub], None]) -> None:
        try:
            ended.append(function(hub))
        except Exception as exc:  # noqa: BLE001 - it is looked at
            ended.append(exc)

    for function in functions:
        hub.spawn(lambda function=function: guarded(function))  # type: ignore[misc]
    try:
        hub.run(lambda: len(ended) == len(functions))
    finally:
        hub.close()
    return ended


def test_who_sleeps_less_ends_first() -> None:
    """In one thread, whatever the order in which they began."""
    order: list[float] = []
    threads: set[int] = set()

    def sleeper(seconds: float) -> Callable[[Hub], None]:
        def sleep(hub: Hub) -> None:
            wait.sleep(seconds)
            order.append(seconds)
            threads.add(threading.get_ident())

        return sleep

    run(sleeper(0.09), sleeper(0.01), sleeper(0.05))
    assert [0.01, 0.05, 0.09] == order
    assert 1 == len(threads)


@pytest.mark.parametrize(('pause', 'idle'), [(wait.sleep, 0.3), (time.sleep, 0.0)])
def test_a_hub_is_idle_where_all_wait_and_not_where_others_have_the_cpu(pause: Callable[[float], None], idle: float) -> None:
    """A function that holds up its thread and uses no CPU stands for a machine on which others work."""
    told: list[float] = []

    def held_up(hub: Hub) -> None:
        pause(0.3)
        told.append(hub.idle)

    run(held_up)
    assert told == pytest.approx([idle], abs=0.15)


def test_a_socket_that_is_ready_wakes_who_waits_for_it() -> None:
    """And nobody else."""
    one, other = socket.socketpair()
    quiet, _keep = socket.socketpair()
    seen: list[tuple[str, bool]] = []

    def reader(name: str, sock: socket.socket, seconds: float) -> Callable[[Hub], None]:
        def read(hub: Hub) -> None:
            seen.append((name, hub.for_socket(sock.fileno(), READ, seconds)))

        return read

    def writer(hub: Hub) -> None:
        wait.sleep(0.02)
        other.send(b'x')

    with one, other, quiet, _keep:
        run(reader('one', one, 5.0), reader('quiet', quiet, 0.1), writer)
    assert [('one', True), ('quiet', False)] == seen


def test_a_socket_can_be_waited_for_again_and_again() -> None:
    """The timers of waits that are over wake nobody."""
    one, other = socket.socketpair()
    rounds: list[bool] = []

    def reader(hub: Hub) -> None:
        for _ in range(50):
            rounds.append(hub.for_socket(one.fileno(), READ, 0.05))
            one.recv(1)
        wait.sleep(0.1)

    def writer(hub: Hub) -> None:
        for _ in range(50):
            other.send(b'x')
            wait.sleep(0.001)

    with one, other:
        run(reader, writer)
    assert [True] * 50 == rounds


def test_what_would_hold_everybody_up_is_done_elsewhere() -> None:
    """Asking for a name takes seconds where the name server is gone."""
    started = threading.Event()
    go_on = threading.Event()
    order: list[str] = []

    def slow() -> int:
        started.set()
        assert go_on.wait(10)
        return threading.get_ident()

    def asker(hub: Hub) -> None:
        assert hub.in_thread(slow) != threading.get_ident()
        order.append('slow')

    def other(hub: Hub) -> None:
        while not started.is_set():
            wait.sleep(0.001)
        order.append('other')
        go_on.set()

    assert [None, None] == run(asker, other)
    assert ['other', 'slow'] == order


def test_the_error_of_what_is_done_elsewhere_comes_back() -> None:
    """To who asked."""

    def broken() -> None:
        raise OSError('no name')

    (ended,) = run(lambda hub: hub.in_thread(broken))
    assert isinstance(ended, OSError)


@pytest.mark.parametrize('in_hub', [True, False])
def test_several_things_are_done_together_and_all_of_them(in_hub: bool) -> None:
    """Two BMCs of one target; one that fails leaves no other half done."""
    done: list[int] = []

    def work(item: int) -> int:
        wait.sleep(0.05 * item)
        done.append(item)
        if item == 1:
            raise ValueError('one failed')
        return -item

    def both(hub: Hub | None) -> None:
        assert [-3, -2] == wait.together(work, [3, 2])
        with pytest.raises(ValueError, match='one failed'):
            wait.together(work, [1, 4])
        assert [-2] == wait.together(work, [2])

    if in_hub:
        assert [None] == run(both)
    else:
        both(None)
    assert [2, 3, 1, 4, 2] == done


def test_outside_of_a_hub_there_is_none() -> None:
    """A thread waits as threads do, also after a hub ran in it."""
    assert wait.hub() is None
    run(lambda hub: None)
    assert wait.hub() is None

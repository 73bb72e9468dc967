# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A line loses and garbles as it is told, the same way each time; BMCs share a loop and nothing else."""

import socket
import threading
import time

from baremetal_acc.emulator.ipmi.controller import EmulatedController
from baremetal_acc.emulator.ipmi.lan import LanLine, LanThread
from baremetal_acc.emulator.ipmi.message import late
from baremetal_acc.emulator.ipmi.session import SessionEndpoint
from baremetal_acc.emulator.ipmi.users import Users

PING = bytes.fromhex('0600ff06 000011be 80 2a 00 00')


def test_a_line_loses_its_share_and_the_same_again_with_the_same_seed():
    """Ten per cent of ten thousand."""
    lost = [LanLine(loss=0.1, seed=5).loses() for _ in range(3)]
    assert 1 == len(set(lost))
    line, again = LanLine(loss=0.1, seed=5), LanLine(loss=0.1, seed=5)
    first = [line.loses() for _ in range(10000)]
    assert first == [again.loses() for _ in range(10000)]
    assert 900 < sum(first) < 1100
    assert not any(LanLine().loses() for _ in range(100))
    assert LanLine(silent=True).loses()


def test_a_garbled_answer_differs_in_one_bit():
    """All others arrive as they were."""
    line = LanLine(garbled=1.0)
    for _ in range(200):
        brought = line.brings(bytes(20))
        assert (20, 1) == (len(brought), sum(byte.bit_count() for byte in brought))
    assert bytes(20) == LanLine().brings(bytes(20))


def test_each_bmc_has_its_port_on_loopback_and_its_line():
    """A silent one does not silence the others; what is no RMCP is not answered; in the end the ports are free."""
    line = LanLine(silent=True)
    with LanThread() as lan, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        silent = lan.add(SessionEndpoint(EmulatedController(), Users()), line=line)
        ports = [lan.add(SessionEndpoint(EmulatedController(), Users())) for _ in range(5)]
        client.sendto(PING, ('127.0.0.1', silent))
        for port in ports:
            client.sendto(b'what is this', ('127.0.0.1', port))
            client.sendto(PING, ('127.0.0.1', port))
        answered = [client.recvfrom(2048) for _ in ports]
        assert {('127.0.0.1', port) for port in ports} == {where for _, where in answered}
        assert {b'\x06\x00\xff\x06'} == {data[:4] for data, _ in answered}
        line.silent = False
        client.sendto(PING, ('127.0.0.1', silent))
        assert silent == client.recvfrom(2048)[1][1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(('127.0.0.1', silent))


class _Slow:
    """A BMC whose answers wait."""

    def __init__(self, seconds):
        self.seconds = seconds

    def receive(self, datagram):
        return [late(datagram, self.seconds)]


def test_a_hundred_bmcs_that_are_late_hold_up_nobody_and_need_no_threads():
    """Ten answers of each wait at the same time, by their line and by themselves; one that never comes stops nothing."""
    with LanThread() as lan, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        line = LanLine(delay_seconds=0.5)
        ports = [lan.add(_Slow(0.5), line=line) for _ in range(100)]
        prompt, never = lan.add(_Slow(0)), lan.add(_Slow(3600))
        before, began = threading.active_count(), time.monotonic()
        client.sendto(b'never', ('127.0.0.1', never))
        for number in range(10):
            for port in ports:
                client.sendto(bytes((number,)), ('127.0.0.1', port))
        client.sendto(b'prompt', ('127.0.0.1', prompt))
        assert b'prompt' == client.recv(100)
        assert time.monotonic() - began < 1
        answered = [(where[1], data) for data, where in (client.recvfrom(100) for _ in range(1000))]
        took = time.monotonic() - began
        assert before == threading.active_count()
    assert {(port, bytes((number,))) for port in ports for number in range(10)} == set(answered)
    assert 1 <= took < 10

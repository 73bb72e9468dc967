# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""QEMU's own devices, ipmi-bmc-extern and isa-ipmi-kcs, reach the emulated BMC; no guest is needed: qtest writes the ports.

    python -m tests.emulator_ipmi.qemu [--commands 200]

Exit code 1, and what was expected, where the host's way differs from what QEMU makes of it; 2 where there is no QEMU.
"""
# ruff: noqa: T201

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from baremetal_acc.emulator.ipmi.controller import APP
from baremetal_acc.emulator.ipmi.lan import LanThread
from baremetal_acc.emulator.ipmi.messaging import Messages
from baremetal_acc.emulator.ipmi.system import SystemDoor, SystemInterface
from tests.unit.emulator.ipmi.console import message
from tests.unit.emulator.ipmi.test_firewall import GROUP, HPM, Walled

PROGRAM = 'qemu-system-x86_64'
DATA, STATUS = 0xCA2, 0xCA3
OUTPUT_FULL, INPUT_FULL, ATTENTION = 1, 2, 4
WRITE_START, WRITE_END, READ = 0x61, 0x62, 0x68
IDLE, READING, WRITING = 0, 1, 2
TRIES = 2000
SECONDS = 20


class Kcs:
    """The port of the host, as a kernel would use it; IPMI 2.0, section 9."""

    def __init__(self, lines):
        self._lines = lines
        self._answers = lines.makefile('r')

    def _command(self, text):
        self._lines.sendall(f'{text}\n'.encode())
        while True:
            answer = self._answers.readline()
            if not answer:
                raise ConnectionError('QEMU is gone')
            if answer.startswith('OK'):
                return answer[3:]
            if not answer.startswith('IRQ'):
                raise ConnectionError(answer)

    def _put(self, port, value):
        self._command(f'outb {port:#x} {value:#x}')

    def get(self, port):
        return int(self._command(f'inb {port:#x}'), 16)

    def _ready(self, *, full=False):
        """The state of the interface, once it has taken what was written, and has something to read if it is to be full."""
        for _ in range(TRIES):
            status = self.get(STATUS)
            if not status & INPUT_FULL and (status & OUTPUT_FULL or not full):
                return status >> 6
            time.sleep(0.001)
        raise TimeoutError(f'the status stays {status:02X}h')

    def _clear(self):
        if self.get(STATUS) & OUTPUT_FULL:
            self.get(DATA)

    def ask(self, netfn, command, data=b''):
        """Completion code and data."""
        raw = bytes((netfn << 2, command)) + data
        self._ready()
        self._put(STATUS, WRITE_START)
        self._ready()
        self._clear()
        for byte in raw[:-1]:
            self._put(DATA, byte)
            assert WRITING == self._ready()
            self._clear()
        self._put(STATUS, WRITE_END)
        self._ready()
        self._clear()
        self._put(DATA, raw[-1])
        answer = b''
        while (state := self._ready(full=True)) == READING:
            answer += bytes((self.get(DATA),))
            self._put(DATA, READ)
        self.get(DATA)
        assert (IDLE, bytes((netfn << 2 | 4, command))) == (state, answer[:2]), (state, answer)
        return answer[2:]


def check(kcs, rig, commands):
    """All that the host's way has to do."""
    every = bytes(range(200))
    rig.bmc.add(0x30, 0xAA, lambda request: request.data[::-1], privilege=4, most=256)
    assert bytes.fromhex('00 21 01 01 04 02 8a f21b00 ad0b 00000000') == kcs.ask(APP, 0x01)
    assert b'\0' + every[::-1] == kcs.ask(0x30, 0xAA, every)
    assert b'\0\0' == kcs.ask(GROUP, 0x31, b'\0\1\1')
    assert b'\0' == rig.put(HPM - {0x31}, GROUP, b'\0')
    assert b'\xd4\0' == kcs.ask(GROUP, 0x31, b'\0\1\1')
    assert b'\0\0' == kcs.ask(GROUP, 0x2E, b'\0')[:2]
    assert b'\0' == kcs.ask(APP, 0x34, b'\0' + message(APP, 1, to=0x72, sender=0x20))
    wait(lambda: kcs.get(STATUS) & ATTENTION)
    assert b'\0\1' == kcs.ask(APP, 0x31)
    assert bytes.fromhex('0000 1c c4 72 04 01 00 11') == kcs.ask(APP, 0x33)[:9]
    wait(lambda: not kcs.get(STATUS) & ATTENTION)
    for _ in range(commands):
        assert b'\0' == kcs.ask(APP, 0x01)[:1]


def wait(told):
    """Until it is so."""
    end = time.monotonic() + SECONDS
    while not told():
        assert time.monotonic() < end
        time.sleep(0.01)


def main() -> int:
    """The whole run."""
    parser = argparse.ArgumentParser(prog='python -m tests.emulator_ipmi.qemu', description=__doc__)
    parser.add_argument('--commands', type=int, default=200, help='so many in a row at the end')
    arguments = parser.parse_args()
    if shutil.which(PROGRAM) is None:
        print(f'{PROGRAM} is not here: apt-get install qemu-system-x86')
        return 2
    rig, messages = Walled(), Messages()
    messages.join(rig.bmc)
    door = SystemDoor(SystemInterface(rig.bmc, messages), messages)
    with tempfile.TemporaryDirectory() as folder, LanThread() as lan, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder) / 'qtest'
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(SECONDS)
        chardev = f'socket,id=bmc,host=127.0.0.1,port={lan.add_door(door)},reconnect=1'
        devices = ['-chardev', chardev, '-device', 'ipmi-bmc-extern,id=bmc0,chardev=bmc', '-device', 'isa-ipmi-kcs,bmc=bmc0']
        machine = ['-machine', 'pc', '-accel', 'tcg', '-S', '-nodefaults', '-display', 'none']
        with subprocess.Popen([PROGRAM, *machine, *devices, '-qtest', f'unix:{path}', '-qtest-log', 'none']) as qemu:
            try:
                lines, _ = listening.accept()
                with lines:
                    lines.settimeout(SECONDS)
                    wait(lambda: door.is_connected)
                    began = time.monotonic()
                    check(Kcs(lines), rig, arguments.commands)
                    print(f'QEMU and the emulated BMC agree; {time.monotonic() - began:.1f} s')
            finally:
                qemu.terminate()
    return 0


if __name__ == '__main__':
    sys.exit(main())

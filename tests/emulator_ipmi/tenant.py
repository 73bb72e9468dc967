# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The tenant's host: a Linux under QEMU whose KCS interface is connected to the emulated BMC, and which runs given commands."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tests.emulator_ipmi.programs import Said

PROGRAM = 'qemu-system-x86_64'
ENDS_WITH_US = ('setpriv', '--pdeathsig', 'KILL')
"""What is started so is killed by the kernel when we are gone, however we went. Of util-linux."""

BOOT_SECONDS = 300
"""Without KVM, on a busy machine; with it two."""

SECONDS = 120
_GONE_SECONDS = 30
_RESET_SECONDS = 20
_TAIL = 2000
_UP = '=== up'
_END = re.compile(r'=== (\d+)')
_KVM = Path('/dev/kvm')
_FLAGS = re.compile(r'^flags\s*:.*\b(?:vmx|svm)\b', re.MULTILINE)


class TenantGone(Exception):
    """The guest does not answer any more, or never did; ends with its last words."""


def accelerator(cpus: Path = Path('/proc/cpuinfo')) -> str:
    """What QEMU is to run a guest by. Where the processor has no such thing, a guest never gets beyond its first page by KVM.

    Seen: a virtual machine with /dev/kvm, and neither vmx nor svm, Linux 6.18.
    """
    return 'kvm' if os.access(_KVM, os.R_OK | os.W_OK) and _FLAGS.search(cpus.read_text()) else 'tcg'


def answer(lines: Iterable[str]) -> Said | None:
    """What a command printed, up to the line with its exit code; None where that does not come."""
    printed = []
    for line in lines:
        text = line.rstrip('\r\n')
        if (end := _END.fullmatch(text)) is not None:
            return Said(int(end[1]), '\n'.join(printed), '')
        printed.append(text)
    return None


class Tenant:
    """The guest, from start to end; a context manager. QEMU runs as long as the host has power.

    :param folder: for its console and its socket, and nothing that it would keep.
    :param port: of the system interface of the BMC, on loopback.
    :param accel: see :func:`accelerator`.
    """

    def __init__(self, folder: Path, port: int, kernel: Path, initramfs: Path, accel: str) -> None:
        self._console, self._errors = folder / 'console', folder / 'qemu'
        self._connected = socket.socket(socket.AF_UNIX)
        self._listening = socket.socket(socket.AF_UNIX)
        path = folder / 'tenant'
        self._listening.bind(str(path))
        self._listening.listen()
        self._command = [
            *(*ENDS_WITH_US, PROGRAM, '-accel', accel, '-m', '512'),
            *('-nodefaults', '-display', 'none', '-serial', f'file:{self._console}', '-serial', f'unix:{path}'),
            *('-chardev', f'socket,id=bmc,host=127.0.0.1,port={port},reconnect=1'),
            *('-device', 'ipmi-bmc-extern,id=bmc0,chardev=bmc', '-device', 'isa-ipmi-kcs,bmc=bmc0'),
            *('-kernel', str(kernel), '-initrd', str(initramfs), '-append', 'console=ttyS0 panic=1'),
        ]

    def __enter__(self) -> 'Tenant':
        try:
            self.start()
        except BaseException:
            self._listening.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._end()
        self._listening.close()

    def start(self) -> None:
        """What a host does that gets power.

        :raises TenantGone: it does not come up.
        """
        with self._errors.open('wb') as errors:
            self._qemu = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=errors)
        try:
            self._connected = self._accepted()
            self._lines = self._connected.makefile('r', encoding='utf-8', errors='replace')
            self._booted()
        except BaseException:
            self._end()
            raise

    def wait_off(self) -> None:
        """Until its power is gone, which somebody else has taken.

        :raises TenantGone: it runs on.
        """
        try:
            self._qemu.wait(_GONE_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise self._gone('its BMC says that it is off, and it runs') from error
        self._connected.close()

    def _end(self) -> None:
        self._connected.close()
        self._qemu.terminate()
        try:
            self._qemu.wait(_GONE_SECONDS)
        except subprocess.TimeoutExpired:
            self._qemu.kill()
            self._qemu.wait()

    def _accepted(self) -> socket.socket:
        """Its serial port: QEMU connects when it starts."""
        end = time.monotonic() + SECONDS
        self._listening.settimeout(1)
        while True:
            try:
                return self._listening.accept()[0]
            except TimeoutError as error:
                if self._qemu.poll() is not None or time.monotonic() > end:
                    raise self._gone('QEMU did not start') from error

    def _booted(self) -> None:
        self._connected.settimeout(BOOT_SECONDS)
        said = []
        try:
            for line in self._lines:
                if (text := line.strip()) == _UP:
                    return
                said.append(text)
                if _END.fullmatch(text):
                    raise self._gone(f'it goes on without a restart: {" ".join(said)}')
        except OSError as error:
            raise self._gone(f'it is not up after {BOOT_SECONDS} s') from error
        raise self._gone('QEMU has ended')

    def _say(self, line: str) -> None:
        try:
            self._connected.sendall(f'{line}\n'.encode())
        except OSError as error:
            raise self._gone('QEMU has ended') from error

    def _answer(self, seconds: float) -> Said:
        self._connected.settimeout(seconds)
        try:
            said = answer(self._lines)
        except OSError as error:
            raise self._gone(f'no answer within {seconds} s') from error
        if said is None:
            raise self._gone('QEMU has ended')
        return said

    def _gone(self, why: str) -> TenantGone:
        last = [path.read_text(encoding='utf-8', errors='replace') for path in (self._console, self._errors) if path.exists()]
        return TenantGone(f'{why}. Last words: {"; ".join(one[-_TAIL:] for one in last)}')

    def __call__(self, command: str, seconds: float = SECONDS) -> Said:
        """Let root execute a line of shell.

        :raises TenantGone: there is no answer.
        """
        self._say(command)
        return self._answer(seconds)

    def ipmitool(self, words: str, seconds: float = SECONDS) -> Said:
        """Let root run ipmitool on the device of the host's own BMC."""
        return self(f'ipmitool -I open {words}', seconds)

    def restart(self) -> None:
        """Have the BMC restart the host, and wait until it is up.

        Not by ``reboot``: QEMU 7.2 resets the machine then, and tells the BMC nothing of it.

        :raises TenantGone: it did not restart.
        """
        self._say(f'ipmitool -I open chassis power reset && sleep {_RESET_SECONDS}')
        self._booted()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of malicious images and catalogues: one machine that nothing may ever reach, and one command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.pytest_plugin import EmulatedMachine
from baremetal_acc.emulator.redfish.view import Options
from baremetal_acc.emulator.remote import Remote
from baremetal_acc.emulator.server import Emulator, EmulatorThread, Serving
from tests.malicious.workshop import MAX_IMAGE, Command, Workshop, reached


@pytest.fixture(scope='session')
def command() -> Iterator[Command]:
    """The command, imported once."""
    started = Command.start()
    yield started
    started.stop()


class Untouched:
    """One machine for all that must be refused. Once something was let through it is another one, so that one test fails."""

    def __init__(self) -> None:
        self._thread = self._started()

    @property
    def machine(self) -> EmulatedMachine:
        """The machine, nothing ever written to it."""
        found = self._described()
        if reached(found):
            self.stop()
            self._thread = self._started()
            found = self._described()
        found.reset_log()
        return found

    def stop(self) -> None:
        """End it."""
        self._thread.stop()

    def _described(self) -> EmulatedMachine:
        return EmulatedMachine(self._thread, Remote(self._thread.emulator.door, self._thread.emulator.control))

    def _started(self) -> EmulatorThread:
        parameters = Parameters(options={'*': Options(max_image_bytes=MAX_IMAGE)})
        thread = EmulatorThread(Emulator(Serving(tls=False), product=build('acc-server', parameters)))
        thread.start()
        return thread


@pytest.fixture(scope='session')
def untouched() -> Iterator[Untouched]:
    """The machine for all that must be refused."""
    kept = Untouched()
    yield kept
    kept.stop()


def _made(tmp_path: Path, machine: EmulatedMachine, command: Command) -> Workshop:
    folder = tmp_path / 'operator'
    folder.mkdir()
    return Workshop(folder=folder, machine=machine, command=command)


@pytest.fixture
def shop(tmp_path: Path, untouched: Untouched, command: Command) -> Workshop:
    """An honest folder, to be changed."""
    return _made(tmp_path, untouched.machine, command)


@pytest.fixture
def honest(tmp_path: Path, emulated_machine, command: Command) -> Workshop:
    """The same folder with a machine of its own, which may be written."""
    return _made(tmp_path, emulated_machine('acc-server', tls=False, flash_seconds=0.05), command)


@pytest.fixture
def clocked(tmp_path: Path, emulated_machine, command: Command) -> Workshop:
    """The same with a clock that the test moves."""
    return _made(tmp_path, emulated_machine('acc-server', tls=False, virtual_clock=True), command)

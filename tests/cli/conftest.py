# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the command line's tests: an operator's desk for each test, and an emulated machine that nobody writes to."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An operator's desk with nothing on it."""
    return Desk(folder=tmp_path)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A machine that ``baremetal-acc emulate`` serves."""

    bmcs: dict[str, Any]
    remote: Any

    def log(self) -> list[dict[str, Any]]:
        """What was written to it."""
        return list(self.remote.log())


@pytest.fixture(scope='session')
def served(tmp_path_factory) -> Iterator[Served]:
    """One acc-server for all tests that write nothing, served by the command itself."""
    from baremetal_acc.emulator.remote import Remote

    ready: Path = tmp_path_factory.mktemp('served') / 'ready.json'
    command = [sys.executable, '-m', 'baremetal_acc.cli.main', 'emulate', 'acc-server', '--ready-file', str(ready)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not ready.exists():
            assert process.poll() is None, 'emulate has ended'
            assert time.monotonic() < deadline, 'emulate is not ready after 30 s'
            time.sleep(0.05)
        told = json.loads(ready.read_text())
        yield Served(
            bmcs={name: SimpleNamespace(**bmc) for name, bmc in told['bmcs'].items()},
            remote=Remote(told['door'], told['control']),
        )
    finally:
        process.terminate()
        assert process.wait(10) == 0

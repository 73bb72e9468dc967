# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of faults: a rig, and the report of the rows that the run omitted."""

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.bmc.redfish import client
from tests.faults.rig import BASIC, MACHINE, NIC, PASSWORD, SLOT, Rig
from tests.faults.slots import fpga_rig


class Told(logging.Handler):
    """Everything that we log, down to each request, is looked through for secrets."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines = 0
        self.secret: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one line."""
        line = self.format(record)
        self.lines += 1
        self.secret += [record.msg for secret in (PASSWORD, BASIC) if secret in line]


@pytest.fixture
def rig(emulated_machine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Rig]]:
    """Makes rigs. When the test is over, nothing that was logged may hold a secret."""
    from baremetal_acc.emulator.access import CurrentUser

    # Ten minutes for an answer to an image, and one for each piece of it, are for real BMCs.
    monkeypatch.setattr(client, 'PUSH_TIMEOUT', 1.0)
    monkeypatch.setattr(client, 'PIECE_TIMEOUT', 1.0)
    told = Told()
    ours = logging.getLogger('baremetal_acc')
    level = ours.level
    ours.addHandler(told)
    ours.setLevel(logging.DEBUG)

    def make(*, machine: dict[str, Any] | None = None, address: dict[str, Any] | None = None, **how: Any) -> Rig:
        machine = {'users': {'*': (CurrentUser(name='admin', password=PASSWORD),)}} | (machine or {})
        address = {'timeout': timedelta(seconds=1)} | (address or {})
        if how.get('what') == SLOT:
            del how['what']
            return fpga_rig(emulated_machine, tmp_path, machine=machine, address=address, **how)
        product = 'acc-server' if how.get('what') == NIC else 'gpu-server'
        return Rig(machine=emulated_machine(product, **(MACHINE | machine)), folder=tmp_path, address=address, **how)

    yield make
    ours.removeHandler(told)
    ours.setLevel(level)
    assert told.lines
    assert [] == told.secret

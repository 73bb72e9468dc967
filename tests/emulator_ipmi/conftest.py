# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the IPMI tests: an emulated BMC on a port of loopback, and a way to make more."""

from collections.abc import Iterator

import pytest

from baremetal_acc.emulator.ipmi.lan import LanThread


@pytest.fixture
def lan() -> Iterator[LanThread]:
    """An event loop that serves what it is given."""
    with LanThread() as thread:
        yield thread

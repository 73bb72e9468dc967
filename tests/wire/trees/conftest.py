# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of invented machines."""

from typing import Any

import pytest

from tests.wire.trees.build import Machine


@pytest.fixture
def machine(bmc: Any) -> Machine:
    """A machine with one System and nothing in it."""
    return Machine(bmc)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the hostile tests: one server that keeps to no rule."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.bmc import HostileBmc


@pytest.fixture(scope='session')
def bmc(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[HostileBmc]:
    """The server. Its trees are recordings: without the shared folder these tests are skipped."""
    with HostileBmc(tmp_path_factory.mktemp('hostile')) as server:
        yield server

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder cannot show with an older Ironic, with the reason. With Ironic 39 nothing is left out."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from ironic.common import states

SERIES = {32: '2025.2', 35: '2026.1', 39: '2026.2'}
"""OpenStack's series by the major version of Ironic."""

INSTALLED = int(metadata.version('ironic').partition('.')[0])


RUNBOOKS_BEGIN = ('service', 'clean') if INSTALLED >= 35 else ('clean',)
"""The flows that Ironic lets a runbook begin. Source: ironic 32.1.0, api/controllers/v1/utils.py,
check_allow_clean_disable_ramdisk."""

LATER_ROUTES = frozenset(
    f'v1.runbook.RunbookTraitsController.{method}' for method in ('delete', 'put') if max(SERIES) > INSTALLED
)
"""Routes of the API that the installed Ironic does not have yet."""

LATER_DEPLOY_INTERFACES = frozenset({'autodetect', 'noop'} if INSTALLED < 35 else ())
"""Deploy interfaces that the installed Ironic does not have yet."""

RUNBOOKS_HAVE_TRAITS = not LATER_ROUTES
"""A runbook fits the nodes with one of its traits; before Ironic 39 those with the trait that is its name."""

try:
    from ironic.common.state_machine import machine as MACHINE  # noqa: N812
except ImportError:
    MACHINE = states.machine  # Ironic 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Tests that are skipped.

    :ivar tests: part of their node ids.
    :ivar before: major version of the first Ironic with which they run.
    """

    tests: str
    before: int
    reason: str


_NO_MIDDLEWARE = 'its API takes no middleware'

LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut(tests='test_api_guard.py', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests='test_steps.py::TestDiscovery::test_a_configuration_that_undoes', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests='test_steps.py::TestDiscovery::test_a_conductor_does_not_start_with_a_s', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests='test_step_rules.py::TestCapability::test_a_missing_middleware', before=35, reason=_NO_MIDDLEWARE),
)


def skip(items: Iterable[Any]) -> None:
    """Skip the tests that the installed Ironic cannot pass, each with its reason."""
    for item in items:
        for found in LEFT_OUT:
            if found.before > INSTALLED and found.tests in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f'Ironic {INSTALLED}: {found.reason}'))


def file_of(path: Path, text: str) -> Path:
    """Return the file of results for the installed Ironic: one of its own only if they differ from those of the newest."""
    if max(SERIES) <= INSTALLED or path.read_text() == text:
        return path
    return path.with_stem(f'{path.stem}-{SERIES[INSTALLED]}')

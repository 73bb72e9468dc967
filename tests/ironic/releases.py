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

RAMDISK_IN_EACH_FLOW = INSTALLED < 35
"""Each service, and each cleaning without ``disable_ramdisk``, boots the operator's ramdisk, whatever its steps need. So a
service ends with a start of the host. Source: ironic 32.1.0, conductor/servicing.py and conductor/cleaning.py."""

READS_VERSIONS_AFTER_INSPECTION = INSTALLED >= 35
"""After an inspection in band, the conductor reads firmware versions. Source: ironic 35.1.0, conductor/inspection.py."""

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
_NO_AUTODETECT = 'it has no deploy interface autodetect'
_ALWAYS_RAMDISK = 'its API takes disable_ramdisk for cleaning only'
_NO_INSTANCE_NAME = 'its nodes have no field instance_name, which the page has'
_WAYS = 'test_ways_to_deploy.py::'

LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut(tests='test_api_guard.py', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests='test_steps.py::TestDiscovery::test_a_configuration_that_undoes', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests='test_steps.py::TestDiscovery::test_a_conductor_does_not_start_with_a_s', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests='test_step_rules.py::TestCapability::test_a_missing_middleware', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests=f'{_WAYS}TestTenantsFlows::test_automated_clean_off_adopt', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests=f'{_WAYS}TestDeployInterfaces::test_autodetect', before=35, reason=_NO_AUTODETECT),
    LeftOut(
        tests=f'{_WAYS}TestDeployInterfaces::test_fake', before=35, reason='fake images nothing; test_noop deploys with it'
    ),
    LeftOut(tests=f'{_WAYS}TestSteps::test_service_hold', before=35, reason=_ALWAYS_RAMDISK),
    LeftOut(tests=f'{_WAYS}TestTenantsFlows::test_service_unknown_step', before=35, reason=_ALWAYS_RAMDISK),
    LeftOut(
        tests='test_status.py::TestStatus::test_a_node_that_goes_with_it_is_not_named',
        before=35,
        reason=f'{_NO_MIDDLEWARE}, of which the upgrade check warns',
    ),
    LeftOut(
        tests='test_tenant_fields.py::TestFields::test_every_line_has_a_reader_and_every_reader_a_line',
        before=35,
        reason=_NO_INSTANCE_NAME,
    ),
    LeftOut(tests='test_tenant_fields.py::TestFields::test_the_page_says_what_was_found', before=35, reason=_NO_INSTANCE_NAME),
    LeftOut(tests='test_ironic_conf.py::test_the_sample_is_current', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(tests='test_ironic_conf.py::test_the_example_for_kolla_ansible_has', before=35, reason=_NO_MIDDLEWARE),
    LeftOut(
        tests='test_samples.py::test_the_sample_of_the_configuration_is_current',
        before=39,
        reason='the sample has the options of the libraries of the newest release',
    ),
    LeftOut(
        tests='test_crash_service.py::TestService::test_these_are_all_points',
        before=35,
        reason='it saves the node once less in a service',
    ),
    LeftOut(
        tests='test_kept.py::TestKept::test_an_inspection_in_band_takes_nothing_away',
        before=35,
        reason='it does not read firmware versions after an inspection in band: only the hook keeps the inventory',
    ),
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

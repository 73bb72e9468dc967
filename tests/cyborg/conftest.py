# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Cyborg's conductor next to Ironic and placement for all tests of this folder, which only ``make soak-cyborg`` runs."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cyborg.left_out import SOAK
from tests.cyborg.page import RULE
from tests.cyborg.reports import Cyborg
from tests.journey import mariadb
from tests.journey.api import Json, Services
from tests.journey.conftest import documents, enrol
from tests.nova_end_to_end import rabbitmq
from tests.nova_end_to_end.memory import Memory
from tests.nova_end_to_end.running import running

__all__ = ['documents', 'enrol']

collect_ignore_glob = [] if SOAK else ['test_*.py']

MEASURED = Memory()
STARTED: list[Json] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the run was made with, and what it took."""
    for line in STARTED:
        versions = ', '.join(f'{name} {version}' for name, version in line['versions'].items())
        terminalreporter.write_line(f'{versions}; started in {line["took"]:.0f} s; {MEASURED.peak / 2**20:.0f} MiB at most')


def what_is_missing() -> str | None:
    """Why the services cannot run here; None if they can."""
    if importlib.util.find_spec('cyborg') is None:
        return "openstack-cyborg is not installed: pip install 'baremetal-acc[cloud]'"
    try:
        mariadb.look_for()
        rabbitmq.look_for()
    except (mariadb.NotInstalled, rabbitmq.BrokerNotInstalled) as exc:
        return str(exc)
    return None


@pytest.fixture(scope='session')
def running_services(tmp_path_factory: pytest.TempPathFactory, documents: Path) -> Iterator[Json]:
    """All of them, with the rule of the page in the baseline; they end with the run, also if that is killed."""
    if (missing := what_is_missing()) is not None:
        pytest.skip(missing)
    baseline = documents / 'baseline.toml'
    baseline.write_text(f'{baseline.read_text()}\n{RULE}')
    with running('tests.cyborg.cloud', tmp_path_factory.mktemp('cyborg') / 'state', documents) as line:
        STARTED.append(line)
        with MEASURED:
            yield line


@pytest.fixture
def services(running_services: Json, documents: Path) -> Services:
    """Ironic and placement."""
    return Services.of(running_services, documents)


@pytest.fixture
def cyborg(running_services: Json, tmp_path: Path) -> Cyborg:
    """Cyborg's conductor."""
    return Cyborg(conf=Path(running_services['cyborg_conf']), log=Path(running_services['cyborg_log']), folder=tmp_path)

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A whole cloud for all tests of this folder, which only ``make soak-nova`` runs: they need MariaDB, RabbitMQ and Keystone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.journey.api import Node
from tests.journey.conftest import Enrol, documents, enrol_node
from tests.nova_end_to_end.clients import Site
from tests.nova_end_to_end.left_out import SOAK
from tests.nova_end_to_end.memory import Memory
from tests.nova_end_to_end.running import running

__all__ = ['documents']

collect_ignore_glob = [] if SOAK else ['test_*.py']

MEASURED = Memory()
CLOUDS: list[Site] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the run was made with, and what it took."""
    for site in CLOUDS:
        versions = ', '.join(f'{name} {version}' for name, version in site.where['versions'].items())
        terminalreporter.write_line(
            f'{versions}; started in {site.where["took"]:.0f} s; {MEASURED.peak / 2**20:.0f} MiB at most'
        )


@pytest.fixture(scope='session')
def site(tmp_path_factory: pytest.TempPathFactory, documents: Path) -> Iterator[Site]:
    """A cloud that runs; it ends with the run, also if that is killed."""
    with running('tests.nova_end_to_end.cloud', tmp_path_factory.mktemp('cloud') / 'state', documents) as line:
        CLOUDS.append(Site.of(line, documents))
        with MEASURED:
            yield CLOUDS[-1]


@pytest.fixture
def enrol(site: Site, emulated_machine: Any) -> Iterator[Enrol]:
    """Enrol a node of a new machine and bring it to manageable. Nova makes its root provider. It is gone after the test."""
    nodes: list[Node] = []

    def make(product: str, resource_class: str, **fields: Any) -> Node:
        parameters = {'flash_seconds': 0.5, 'reset_seconds': 0.1} | fields.pop('parameters', {})
        machine = emulated_machine(product, **parameters)
        node = enrol_node(site.services, machine, resource_class, root=False, **fields)
        nodes.append(node)
        node.to('manage', 'manageable')
        machine.reset_log()
        return node

    yield make
    # The machines still answer here.
    for server in list(site.servers):
        server.delete()
    for node in nodes:
        site.remove(node)

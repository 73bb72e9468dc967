# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with a real Nova: one Nova and one placement for each file, and machines that Nova knows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.desk import Desk
from tests.journey.api import Http
from tests.nova import machines
from tests.nova.machines import Emulated, Machine
from tests.nova.service import Nova


@pytest.fixture(scope='module')
def nova(placement: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nova]:
    """A nova-compute without an Ironic: tests say what Ironic would say."""
    with Nova(tmp_path_factory.mktemp('nova'), placement) as running:
        yield running


@pytest.fixture
def asked(placement: str) -> Http:
    """Placement, asked by a test."""
    return Http(placement, {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.37'})


Make = Callable[..., Machine]


@pytest.fixture(scope='module')
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Makes a machine of a product, with rules, and with a list of devices of its own; nothing of it is published."""
    running: list[Emulated] = []

    def made(product: str, baseline: str, devices: str = '', **parameters: Any) -> Machine:
        folder = tmp_path_factory.mktemp('desk')
        if devices:
            (folder / 'devices.d').mkdir()
            (folder / 'devices.d' / '10-own.toml').write_text(devices)
        running.append(Emulated(product, **parameters))
        return machines.machine(running[-1], Desk(folder=folder), baseline)

    yield made
    for one in running:
        one.stop()

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A flavor may name every function of the catalogue, whether or not a node offers it, as soon as a conductor runs."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from baremetal_acc.demo.service_files import IRONIC_PLACEMENT_CONF
from baremetal_acc.demo.services import Services as Started
from tests.journey.api import Http
from tests.journey.conftest import build, entry, run_services

pytestmark = pytest.mark.journey

WITHIN = 60.0


def until(holds: Callable[[], bool]) -> None:
    """Wait for something."""
    end = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < end, 'it never came'
        time.sleep(0.2)


def test_names_are_known_before_any_node_offers_them(documents: Path, tmp_path: Path) -> None:
    """The conductor starts without placement, tells it when it is there, and tells it of a function that is new."""
    folder = tmp_path / 'operator'
    shutil.copytree(documents, folder)
    shelf = tmp_path / 'placement'
    with Started(state=shelf, placement=True, ironic=False) as once:
        assert once.addresses is not None
        address = once.addresses.placement
    assert address is not None
    placement = Http(address, {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.39'})
    text = (folder / 'ironic.conf').read_text().replace(str(documents), str(folder))
    (folder / 'ironic.conf').write_text(text + IRONIC_PLACEMENT_CONF.format(placement=address))

    def known(name: str) -> bool:
        return placement.ask('GET', f'/resource_classes/CUSTOM_ACC_FN_{name}').status_code == 200

    with run_services(tmp_path / 'ironic', folder, with_placement=False) as (services, _):
        log = Path(services.logs['ironic'])
        until(lambda: 'Placement may refuse flavors' in log.read_text())
        assert 200 == services.ironic.ask('GET', '/v1/drivers/redfish-acc').status_code
        with Started(state=shelf, placement=True, ironic=False):
            assert not known('GZIP')
            until(lambda: known('GZIP'))
            until(lambda: 'Created in placement:' in log.read_text())
            # What Nova asks for a flavor is answered, with nothing, instead of being refused.
            asked = 'resources_ACC=FPGA:1&required_ACC=CUSTOM_ACC_CAN_AES&resources=CUSTOM_ACC_FN_GZIP:1'
            assert [] == placement.take('GET', f'/allocation_candidates?{asked}')['allocation_requests']
            assert not known('BROTLI')
            path = build(folder, 'brotli', kind='function', model='d5005', component='slot', version='1.0', function='brotli')
            keys = {'fits': 'pci = "0x8086:0x0b2b"', 'component': 'Slot*', 'kind': 'function'}
            catalogue = folder / 'catalogue.toml'
            catalogue.write_text(catalogue.read_text() + entry(path, version='1.0', function='brotli', **keys))
            until(lambda: known('BROTLI'))
            # The line comes when all of them are known.
            until(lambda: 2 == log.read_text().count('Created in placement:'))
            assert 1 == log.read_text().count('Placement may refuse flavors')

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What if the conductor dies in the middle of a flash? The next one looks before it acts, and sends no image again.

``make test`` kills it once, in mid write. ``BAREMETAL_ACC_SOAK=1`` also kills it once in every stage of a flash, half a minute
each.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.journey.conftest import GPU_NEW, enrol_node, run_services
from tests.journey.sudden_death import SOAK, STAGES, Death
from tests.journey.survival import CLOSED, finished

pytestmark = pytest.mark.journey


def test_a_conductor_that_was_killed_in_mid_flash_goes_on(emulated_machine: Any, tmp_path: Path, documents: Path) -> None:
    """SIGKILL of master and worker while the task runs; the restarted one finishes: one upload for each card, all closed."""
    machine = emulated_machine('gpu-server', gpus=2, flash_seconds=5.0, reset_seconds=0.1)
    state = tmp_path / 'services'
    with run_services(state, documents) as (services, process):
        node = enrol_node(services, machine, 'flash')
        node.to('manage', 'manageable')
        machine.reset_log()
        node.provision('provide')
        end = time.monotonic() + 60
        while not any(task['percent'] >= 20 for task in machine.truth()['bmcs']['host']['tasks'].values()):
            assert time.monotonic() < end, node.show()['last_error']
            time.sleep(0.1)
        os.killpg(services.pids['ironic'], signal.SIGKILL)
        assert 1 == process.wait(timeout=60), 'the services end when one of them dies'
        assert 'Off' == machine.truth()['systems']['host']['power'], 'the host stays off while its cards are open'
    with run_services(state, documents) as (services, _):
        node.services = services
        found = node.settle()
        assert 'available' == found['provision_state'], found['last_error']
        versions = node.versions()
        assert {GPU_NEW} == {versions['host/HGX_FW_GPU_0'], versions['host/HGX_FW_GPU_1']}
        targets = [e['body']['Targets'][0].rsplit('/', 1)[-1] for e in node.uploads()]
        assert ['HGX_FW_GPU_0', 'HGX_FW_GPU_1'] == sorted(targets)
        assert ([], ['PGPU', 'PGPU']) == (node.open_ways(), node.offers())


if SOAK:

    @pytest.mark.parametrize('stage', STAGES)
    def test_a_conductor_that_was_killed_in_any_stage_goes_on(
        stage: str, emulated_machine: Any, tmp_path: Path, documents: Path
    ) -> None:
        """By SIGKILL, once the stage was stored as under way: no image is sent twice, all is closed and offered in the end.

        A write that was stored as sent and never was is not sent again by itself: what was there before is put back, the node
        fails, locked, and one retry finishes it.
        """
        machine = emulated_machine('gpu-server', gpus=1, flash_seconds=1.0, reset_seconds=0.1, settings=CLOSED)
        state, death = tmp_path / 'services', Death(tmp_path / 'death')
        with run_services(state, documents, f'PYTHONPATH={death.folder}') as (services, process):
            node = enrol_node(services, machine, 'flash')
            node.to('manage', 'manageable')
            machine.reset_log()
            death.at(stage)
            node.provision('provide')
            assert 1 == process.wait(timeout=120), 'the services end when one of them dies'
            assert death.came
        with run_services(state, documents, f'PYTHONPATH={death.folder}') as (services, _):
            node.services = services
            finished(node, stage)

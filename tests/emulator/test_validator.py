# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Does the DMTF's service validator find fault with any BMC of any product?"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from baremetal_acc.emulator.hw import PRODUCTS

ROOT = '/redfish/v1'


def counts(text: str) -> tuple[int, int]:
    """Passes and failures, over all resources."""
    found = re.findall(r'Pass: (\d+), Warn: \d+, Fail: (\d+)', text)
    return sum(int(passed) for passed, _ in found), sum(int(failed) for _, failed in found)


def prepare(machine, client, gpu_image, function_image):
    """Use the machine a little, so that tasks, sessions, functions and pending settings are validated too."""
    if 'host' in machine.bmcs:
        bmc = client(machine.bmcs['host'])
        for item in bmc.get(f'{ROOT}/UpdateService/FirmwareInventory')['Members'][:1]:
            bmc.finished(bmc.push(item['@odata.id'], gpu_image()))
        for item in bmc.get(f'{ROOT}/UpdateService/SoftwareInventory')['Members']:
            bmc.finished(bmc.push(item['@odata.id'], function_image()))
    if 'dpu' in machine.bmcs:
        settings = f'{ROOT}/Systems/Bluefield/Bios/Settings'
        client(machine.bmcs['dpu']).patch(settings, {'Attributes': {'HostPrivilegeLevel': 'Restricted'}})


@pytest.mark.slow
@pytest.mark.parametrize('product', sorted(PRODUCTS))
def test_the_service_validator_has_no_failures(product, fast, client, shared, tmp_path, gpu_image, function_image):
    """0 failures and at least 500 passes on every BMC, with the schemas of the standard."""
    schemas = shared / 'redfish-csdl'
    if not schemas.is_dir():
        pytest.skip(f'{schemas} is not there: the validator needs the schemas')
    machine = fast(product, tls=False)
    prepare(machine, client, gpu_image, function_image)
    tool = Path(sys.executable).with_name('rf_service_validator')
    for name, bmc in machine.bmcs.items():
        config = tmp_path / f'{name}.ini'
        config.write_text(
            f'[Authentication]\nuser = {bmc.username}\npassword = {bmc.password.replace("%", "%%")}\n'
            f'[Connection]\nrhost = {bmc.address}\n'
            f'[Paths]\nschema_directory = {schemas}\nlogdir = {tmp_path / name}\n'
        )
        run = subprocess.run(
            [str(tool), '--config', str(config), '--skipschema'],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=200,
            check=False,
        )
        passed, failed = counts(run.stdout)
        log = '\n'.join(path.read_text() for path in (tmp_path / name).rglob('*.log'))
        failures = '\n'.join(line for line in log.splitlines() if ' FAIL ' in line)
        assert failed == 0, failures
        assert passed >= 500, run.stdout[-2000:]

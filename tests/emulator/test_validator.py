# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The DMTF service validator finds no failure in any BMC of any emulated product."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.emulator.hw import PRODUCTS

ROOT = '/redfish/v1'

FEATURES = {'gpu-server': frozenset({'spdm'})}
"""What a product is validated with that it has only when it is asked for."""


def summary(process: 'subprocess.Popen[str]') -> tuple[int, int, str]:
    """Passes and failures of the validator's own summary, and what it said.

    It is ended there: the Excel report that it would write now takes four fifths of its time, and nobody reads it.
    """
    said = []
    for line in process.stdout or ():
        said.append(line)
        cells = re.sub(r'\x1b\[\d*m', '', line).strip().strip('|').split('|')
        if len(cells) == 4 and all(cell.strip().isdigit() for cell in cells):
            process.terminate()
            process.communicate()
            passed, _, failed, _ = (int(cell) for cell in cells)
            return passed, failed, ''.join(said)
    raise AssertionError(''.join(said))


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
    machine = fast(product, tls=False, features=FEATURES.get(product, frozenset()))
    prepare(machine, client, gpu_image, function_image)
    running = {name: _validate(bmc, schemas, tmp_path / name) for name, bmc in machine.bmcs.items()}
    for name, process in running.items():
        passed, failed, out = summary(process)
        log = '\n'.join(path.read_text() for path in (tmp_path / name).rglob('*.log'))
        failures = '\n'.join(line for line in log.splitlines() if ' FAIL ' in line)
        assert failed == 0, failures
        assert passed >= 500, out[-2000:]


def _validate(bmc: Any, schemas: Path, folder: Path) -> 'subprocess.Popen[str]':
    """Start the validator; the password goes by its configuration file, not by argv."""
    folder.mkdir()
    config = folder / 'config.ini'
    config.write_text(
        f'[Authentication]\nuser = {bmc.username}\npassword = {bmc.password.replace("%", "%%")}\n'
        f'[Connection]\nrhost = {bmc.address}\n'
        f'[Paths]\nschema_directory = {schemas}\nlogdir = {folder}\n'
    )
    tool = Path(sys.executable).with_name('rf_service_validator')
    command = [sys.executable, '-u', str(tool), '--config', str(config), '--skipschema']
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)

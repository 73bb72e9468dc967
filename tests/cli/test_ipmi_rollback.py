# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Over IPMI a card that activates firmware at the host's restart is flashed, and restored, by the command line alone."""

import hashlib

import pytest

from baremetal_acc.emulator.image import main
from baremetal_acc.emulator.ipmi.site import IpmiOptions
from tests.cli.desk import CONF

SHOWN = {'2.0.0': '2.00', '2.1.0': '2.01'}
"""Versions of images, as HPM.1 tells them."""

BASELINE = """
format = 1
[[rule]]
name = "fpga"
match = { kind = "FPGA", model = "FPGA PAC D5005" }
firmware = { "FPGA1_FW" = "2.01" }
block = ["host-bmc-ipmi"]
custody = "reported"
"""

IMAGE = """
[[image]]
name = "fpga-{version}"
kind = "firmware"
fits = [{{ part_number = "BD-ACD-D5005" }}]
component = "FPGA1_FW"
version = "{shown}"
security_version = 1
source = "fpga-{version}.hpm"
size = {size}
digest = "sha256:{digest}"
apply = {{ reset = "system-reset" }}
restore = "{restore}"
"""


@pytest.fixture
def machine(desk, emulated_machine):
    """A server with an FPGA card, and files for it as its operator writes them."""
    machine = emulated_machine('fpga-server', ipmi=IpmiOptions(), flash_seconds=0.2)
    bmc = machine.bmcs['host']
    keys = {'address': f'ipmi://127.0.0.1:{bmc.ipmi_port}', 'username': bmc.username, 'password': bmc.password}
    desk.bmcs({'node-1': {'bmcs': {'host': keys}}})
    catalogue = 'format = 1\n'
    for version, restore in (('2.0.0', 'none'), ('2.1.0', 'fpga-2.0.0')):
        path = desk.folder / f'fpga-{version}.hpm'
        words = ['--model', 'd5005', '--component', 'fpga', '--version', version, '--size', '2KiB', '--hpm']
        assert 0 == main(['build', *words, '--out', str(path)])
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        catalogue += IMAGE.format(version=version, shown=SHOWN[version], size=len(content), digest=digest, restore=restore)
    desk.write('catalogue.toml', catalogue)
    desk.write('baseline.toml', BASELINE)
    desk.write('acc.conf', CONF)
    return machine


def state(machine):
    """What runs, and how often firmware was activated and rolled back."""
    truth = machine.truth()
    told = truth['ipmi']['host']['upgrades']['FPGA1']
    return truth['components']['host/FPGA1_FW']['active']['version'], told['activations'], told['rollbacks']


def test_a_card_is_written_with_an_image_from_the_command_line(desk, machine):
    """Activated once, in force after the restart of the host; the lock is closed, and all is verified."""
    done = desk.run('apply', '--execute', 'node-1', *desk.options)
    assert (0, ('2.1.0', 1, 0)) == (done.code, state(machine)), done
    told = 'firmware FPGA1_FW: this BMC does not show firmware that is activated'
    verified = desk.run('verify', *desk.options)
    assert (0, True) == (verified.code, told in verified.out), verified
    again = desk.run('plan', '-f', 'json', *desk.options)
    (target,) = again.document['targets']
    assert (0, 'holds', 1) == (again.code, target['outcome'], sum(told in n['text'] for n in target['notes']))


def test_a_card_that_comes_up_with_another_version_gets_back_what_it_ran(desk, machine):
    """By Manual Rollback, which is in force after another restart; nothing is uploaded a second time."""
    machine.fault('activation-refused', device='FPGA1', leaves='1.9', count=1)
    done = desk.run('apply', '--execute', 'node-1', *desk.options)
    assert (6, ('2.0.0', 1, 1)) == (done.code, state(machine)), done
    assert 'FPGA1_FW is restored to 2.00 (image fpga-2.0.0)' in done.err

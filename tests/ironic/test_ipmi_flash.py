# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The main job over IPMI, in Ironic: inventory, flash, lock, a tenant that is refused, unlock, restore of the earlier state."""

import hashlib
from pathlib import Path

import pytest
from ironic import objects
from ironic.common import states
from ironic.conductor import task_manager

from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.ipmi.site import IpmiOptions
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction, build_upgrade_image
from baremetal_acc.model.action import Stage
from baremetal_acc.planning.job_transitions import current
from baremetal_acc_ironic.power import PowerRefused
from baremetal_acc_ironic.steps import runner
from tests.ironic.ipmi_case import BASELINE, WRITES, IpmiCase

OLD, NEW = '2.0.0', '2.1.4'
SHOWN = {OLD: '2.00', NEW: '2.01.04000000'}
"""As HPM.1 tells them."""

FPGA = 'host/FPGA1_FW'
CARD = 0x31
"""Device ID of the card's controller."""

GROUP = 0x2C
REFUSED = b'\xd4'

RULE = '[[rule]]\nname = "fpgas"\nmatch = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "%s" }\n'


def write_catalogue(folder: Path) -> str:
    """Upgrade images for the card, each the way back of the other, and the catalogue that lists them."""
    text = ['format = 1']
    for version, other in ((OLD, NEW), (NEW, OLD)):
        data = build_image(model='d5005', component='fpga', version=version, size_bytes=2000)
        uploaded = UploadAction(component=0, version=version, data=data, description='FPGA')
        content = build_upgrade_image([uploaded], device_id=CARD, manufacturer=0, product=0)
        (folder / f'fpga-{version}').write_bytes(content)
        text.append(
            f'[[image]]\nname = "fpga-{version}"\nkind = "firmware"\ncomponent = "FPGA1_FW"\nversion = "{SHOWN[version]}"\n'
            f'security_version = 1\nfits = [{{ part_number = "BD-ACD-D5005" }}]\nsource = "fpga-{version}"\n'
            f'size = {len(content)}\ndigest = "sha256:{hashlib.sha256(content).hexdigest()}"\n'
            f'apply = {{ reset = "power-cycle" }}\nrestore = "fpga-{other}"\n'
        )
    return '\n'.join(text)


class FlashCase(IpmiCase):
    """A card whose firmware is behind the baseline."""

    baseline = BASELINE + RULE % SHOWN[NEW]
    # A host that takes its time to go off is on until then: no job may go on beside it.
    parameters = {'ipmi': IpmiOptions(), 'flash_seconds': 0.4, 'reset_seconds': 0.4}  # noqa: RUF012

    def _configure(self) -> None:
        super()._configure()
        (self._folder / 'catalogue.toml').write_text(write_catalogue(self._folder))

    def activations(self) -> int:
        """How often firmware of the card was activated."""
        return int(self.machine.truth()['ipmi']['host']['upgrades']['FPGA1']['activations'])


class TestMainJob(FlashCase):
    """As an operator does it."""

    @pytest.mark.shows(
        'inventory',
        'flash',
        'lock BMC path',
        'verify',
        hardware=('fpga',),
        how='ironic',
        mechanisms=('ipmi_firmware_firewall',),
    )
    def test_a_card_is_written_locked_given_to_a_tenant_unlocked_and_put_back(self) -> None:
        """Each image is activated once; the firmware list says what runs."""
        before = self.closed()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (NEW, 1) == (self.version(FPGA), self.activations())
        rows = objects.FirmwareComponentList.get_by_node_id(self.context, self.node.id)
        assert [('fpga:FPGA1_FW', SHOWN[NEW])] == [(r.component, r.current_version) for r in rows]
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ('On', True) == (self.power(), set(self.closed()) >= WRITES)
        with self.host() as host:
            assert REFUSED == host.ask(GROUP, 0x31, b'\0\1\1')[:1]
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (before, 'Off') == (self.closed(), self.power())
        (self._folder / 'baseline.toml').write_text(BASELINE + RULE % SHOWN[OLD])
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (OLD, 2) == (self.version(FPGA), self.activations())
        assert set(self.closed()) >= WRITES

    def test_nobody_switches_the_host_while_the_card_is_written(self) -> None:
        """On is refused, off is what the job has done already, and what the power sync reads is what the job did."""
        self.addCleanup(setattr, runner, 'TURNS', runner.TURNS)
        runner.TURNS = 1
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.serve('update_accelerator_firmware')
        for _ in range(200):
            job = self.node_state.job
            if job is not None and current(job) is Stage.WRITE and job.writing:
                break
            self.poll()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            power = task.driver.power
            with pytest.raises(PowerRefused, match=r'update_accelerator_firmware works .*stage write, since 20'):
                power.set_power_state(task, states.POWER_ON)
            with pytest.raises(PowerRefused, match='rebooting is refused'):
                power.reboot(task)
            power.set_power_state(task, states.POWER_OFF)
            assert (states.POWER_OFF, 'Off') == (power.get_power_state(task), self.power())
        runner.TURNS = 20
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (NEW, 'On') == (self.version(FPGA), self.power())

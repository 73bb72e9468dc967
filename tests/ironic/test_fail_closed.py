# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""No deploy without proof: anything open, absent, unreadable or unproven fails the deploy, and ``last_error`` names it."""

from typing import ClassVar

from ironic.common import states

from baremetal_acc.emulator.redfish.view import Options
from tests.ironic.case import GPU_OLD, IronicCase

ROT = 'HGX_ERoT_GPU_1/InbandUpdatePolicyEnabled'


class TestDeployFailsClosed(IronicCase):
    """A cleaned machine with two GPUs."""

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error

    def refused(self) -> str:
        """Deploy; the node must not become active."""
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert self.node_state.handed_over is False
        return str(self.node.last_error)

    def test_a_lock_that_is_answered_and_ignored(self) -> None:
        """The BMC says 200 and leaves the lock open: the error names card, path, value and state."""
        self.clean({'step': 'unlock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.machine.fault('lock-ignored', device='GPU_1')
        text = self.refused()
        assert 'lock_accelerators: NVIDIA H100 80GB HBM3 GPU_1, lock host-device' in text
        assert 'nvidia_inband_update_policy at host:/redfish/v1/Chassis/HGX_ERoT_GPU_1' in text
        assert 'unlocked' in text
        assert 'GPU_0' not in text

    def test_a_bmc_that_does_not_answer(self) -> None:
        """It names the BMC; nothing is taken for granted."""
        self.machine.fault('refuse')
        text = self.refused()
        assert 'node node-1: lock_accelerators: BMC host (https://127.0.0.1' in text

    def test_a_card_that_has_vanished(self) -> None:
        """What cleaning saw has to be there."""
        self.machine.fault('device-absent', device='GPU_0')
        text = self.refused()
        assert 'present: expected the card seen before, found absent' in text
        assert 2 == len(self.node_state.known)

    def test_evidence_of_cleaning_proves_nothing_in_a_deploy(self) -> None:
        """Without the lock step of the deploy itself, every lock reads as merely reported."""
        self.config(disallow_deploy_steps=['firmware.lock_accelerators'], group='api')
        text = self.refused()
        assert 'verify_accelerators: ' in text
        assert 'not engaged in this deploy' in text

    def test_evidence_of_an_earlier_deploy_proves_nothing_in_the_next(self) -> None:
        """Cleaning skipped, lock step left out: what was proven for the last tenant does not count for this one."""
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.config(automated_clean=False, group='conductor')
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.config(disallow_deploy_steps=['firmware.lock_accelerators'], group='api')
        assert 'verify_accelerators: ' in self.refused()

    def test_a_second_deploy_without_cleaning_collects_its_own_evidence(self) -> None:
        """With the lock step it goes through, in a lifecycle of its own."""
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        first = self.node_state.lifecycle
        self.config(automated_clean=False, group='conductor')
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert first + 2 == self.node_state.lifecycle

    def test_firmware_that_is_not_the_baselines(self) -> None:
        """What the tenant before could have written, the next one does not get."""
        path = self._folder / 'baseline.toml'
        path.write_text(path.read_text().replace('96.00.74.00.01', '97.00'))
        text = self.refused()
        assert 'firmware HGX_FW_GPU_0: expected 97.00, found 96.00.74.00.01 (rule gpus)' in text

    def test_no_baseline_no_deploy(self) -> None:
        """Missing or wrong, it is named with its path and what to do."""
        path = self._folder / 'baseline.toml'
        path.unlink()
        assert f'{path}: cannot be read: No such file or directory' in self.refused()

    def test_an_unlock_leaves_a_mark_until_everything_is_locked_again(self) -> None:
        """Even if every lock reads closed, somebody who was let in may have been busy."""
        self.clean({'step': 'unlock_accelerators', 'args': {'devices': [self.gpu(0)]}})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert self.node_state.opened is not None
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        assert 'locks were opened at' in self.node.last_error
        self.clear()
        self.clean('lock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert self.node_state.opened is None
        self.clean('verify_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error


class TestCleaningFails(IronicCase):
    """What goes wrong in cleaning stands in the node's last error, and nothing was written."""

    def failed(self) -> str:
        """Clean; it must fail without a write."""
        self.machine.reset_log()
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert GPU_OLD == self.version('host/HGX_FW_GPU_0')
        return str(self.node.last_error)

    def test_a_wrong_digest(self) -> None:
        """Not one byte goes to the BMC, and the locks are closed nevertheless."""
        image = self._folder / 'gpu-96.00.74.00.01'
        data = bytearray(image.read_bytes())
        data[100] ^= 1
        image.write_bytes(data)
        text = self.failed()
        assert 'image gpu-96.00.74.00.01' in text
        assert 'sha256' in text
        assert [] == self.machine.log()

    def test_a_catalogue_with_a_typo(self) -> None:
        """File, line and what was meant."""
        path = self._folder / 'catalogue.toml'
        path.write_text(path.read_text().replace('digest =', 'diggest =', 1))
        text = self.failed()
        assert f'{path}, line ' in text
        assert 'digest' in text
        assert [] == self.machine.log()

    def test_a_wrong_password(self) -> None:
        """It names the BMC; the password is nowhere."""
        self.node.driver_info = self.node.driver_info | {'redfish_password': 'hunter2-wrong'}
        self.node.save()
        text = self.failed()
        assert 'BMC host (https://127.0.0.1' in text
        assert 'hunter2' not in text + str(self.history())
        assert [] == self.machine.log()

    def test_a_certificate_that_is_not_trusted(self) -> None:
        """It is not accepted because nobody said anything."""
        info = dict(self.node.driver_info)
        del info['redfish_verify_ca']
        self.node.driver_info = info
        self.node.save()
        text = self.failed()
        assert 'certificate' in text
        assert [] == self.machine.log()

    def test_a_task_that_fails(self) -> None:
        """The BMC's own words, the way back, and the locks are closed."""
        self.machine.fault('task-fails', device='GPU_0', message='The device refused the image.')
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert 'flash HGX_FW_GPU_0 of uuid:' in self.node.last_error
        assert 'The device refused the image.' in self.node.last_error
        assert 'manage and provide' in self.node.last_error
        assert self.locks()[ROT] is True
        assert self.node.maintenance is True

    def test_a_task_that_lies(self) -> None:
        """Completed is not done: the version has to be the one that was written."""
        self.machine.fault('task-completed-version-unchanged', device='GPU_0')
        self.config(settle_timeout=0.3, group='baremetal_acc')
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert 'HGX_FW_GPU_0' in self.node.last_error
        assert self.locks()[ROT] is True


class TestNoUpdateService(IronicCase):
    """A BMC that takes no images."""

    parameters: ClassVar = {'options': {'host': Options(update_service=False)}}

    def test_it_is_refused_by_name(self) -> None:
        """Nothing is written."""
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert 'BMC host accepts no firmware: it has no UpdateService (Redfish)' in self.node.last_error
        assert [] == self.machine.log()


class TestGapsFailClosed(IronicCase):
    """A cleaned machine whose BMC then keeps one fact to itself that the baseline asks for: the error names that fact."""

    product = 'acc-server'

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error

    def refused(self) -> str:
        """Verify, and deploy; neither may pass. What verification says."""
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert self.node_state.handed_over is False
        self.clear()
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        return str(self.node.last_error)

    def test_which_cards_there_are(self) -> None:
        """A collection of devices: behind it there may be a card that nobody has ever locked."""
        self.machine.fault('http-status', bmc='host', uri='*/HGX_Baseboard_0/Processors*', status=400)
        text = self.refused()
        assert 'host:/redfish/v1/Systems/HGX_Baseboard_0/Processors' in text
        assert ', present: expected readable, found ' in text

    def test_the_version_of_a_component(self) -> None:
        """It is listed, and says no version."""
        self.machine.fault('version-lies', device='GPU_0', version='')
        assert 'firmware HGX_FW_GPU_0: expected 96.00.74.00.01, found unknown (rule gpus)' in self.refused()

    def test_the_function_of_a_slot(self) -> None:
        """What the tenant before left in it cannot be told."""
        self.machine.fault('http-status', bmc='host', uri='*/AccelerationFunctions*', status=400)
        self.machine.fault('version-lies', device='FPGA1', version='')
        assert 'FPGA1, function Slot0: expected gzip, found ' in self.refused()

    def test_a_lock(self) -> None:
        """The root of trust does not answer: nobody knows whether it lets the host write, and no card has changed for it."""
        self.machine.fault('http-status', bmc='host', uri='*/HGX_ERoT_GPU_1*', status=400)
        text = self.refused()
        assert 'host:/redfish/v1/Chassis/HGX_ERoT_GPU_1, present: expected readable, found GET refused with HTTP 400' in text
        assert 'HGX_ERoT_GPU_0' not in text
        (told,) = (event for event in self.history() if 'could not all be read again' in event)
        changes = told.split(': ', 1)[1].split('; ')
        assert 2 == len(changes)
        assert all('could not be read now' in change for change in changes)

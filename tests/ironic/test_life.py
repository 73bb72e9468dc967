# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node's life in Ironic: inspected, cleaned, deployed, serviced, cleaned again; each step waits and is resumed."""

from typing import Any

from ironic import objects
from ironic.common import states
from ironic.conductor import task_manager
from ironic.drivers.modules import inspect_utils

from baremetal_acc.model.job import Flow
from tests.ironic.case import GPU_NEW, GPU_OLD, IronicCase

GPU_0 = 'host/HGX_FW_GPU_0'
ROT = 'HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'


class TestWholeMachine(IronicCase):
    """GPUs behind roots of trust, an FPGA with two slots, and a DPU with a BMC of its own."""

    product = 'acc-server'

    def test_a_node_lives_from_cleaning_to_cleaning(self) -> None:
        """Each flow ends where it should; the machine's truth, the node and its history agree."""
        assert GPU_OLD == self.version(GPU_0)
        self.clean()
        self.node.refresh()
        assert (states.CLEANWAIT, True) == (self.node.provision_state, self.node_state.job is not None)
        assert GPU_OLD == self.version(GPU_0), 'nothing is written inside the step'
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (GPU_NEW, '1.0.0') == (self.version(GPU_0), self.version('host/FPGA1_Slot1'))
        assert (True, True) == (self.locks()[ROT], self.locks()['FPGA1/Slot0/ProgrammableFromHost'])
        assert states.POWER_ON == self.node.power_state

        first = self.node_state.lifecycle
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (first + 1, True) == (self.node_state.lifecycle, self.node_state.handed_over)
        assert {Flow.DEPLOY} == {e.flow for e in self.node_state.evidence}

        self.serve({'step': 'verify_accelerators'})
        assert states.ACTIVE == self.settle(), self.node.last_error

        self.machine.reset_log()
        self.serve({'step': 'program_accelerators', 'args': {'functions': {'Slot1': 'gzip'}}})
        self.node.refresh()
        assert states.SERVICEWAIT == self.node.provision_state, self.node.last_error
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ['ForceOff', 'push', 'On'] == _order(self.machine.log())
        assert states.POWER_ON == self.node.power_state
        assert (True, True) == (self.locks()[ROT], self.locks()['FPGA1/Slot1/ProgrammableFromHost'])
        assert ('Slot1', 'gzip') == self.node_state.overrides[0].functions[0]

        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert (first + 2, False) == (self.node_state.lifecycle, self.node_state.handed_over)
        assert 'aes' == self.machine.truth()['components']['host/FPGA1_Slot1']['active']['function']

    def test_inspection_keeps_what_ironic_found_and_adds_the_accelerators(self) -> None:
        """Inventory in plugin data, capabilities on the node, versions in the firmware list, no password anywhere."""
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            assert states.MANAGEABLE == task.driver.inspect.inspect_hardware(task)
            data = inspect_utils.get_inspection_data(task.node, task.context)
        assert 'cpu' in data['inventory']
        kept = data['plugin_data']['baremetal_acc']
        assert 1 == kept['format']
        assert ['DPU', 'GPU', 'GPU', 'FPGA'] == [a['kind'] for a in kept['inventory']['accelerators']]
        assert self.machine.bmcs['dpu'].password not in str(data)
        self.node.refresh()
        found = dict(c.split(':') for c in self.node.properties['capabilities'].split(','))
        assert ('4', '2', '1') == (found['accelerators'], found['accelerators_gpu'], found['accelerators_fpga'])
        names = {c.component: c for c in objects.FirmwareComponentList.get_by_node_id(self.context, self.node.id)}
        assert {'gpu:HGX_FW_GPU_0', 'gpu:HGX_FW_ERoT_GPU_1', 'fpga:FPGA1_FW', 'dpu:DPU_NIC'} <= names.keys()
        assert GPU_OLD == names['gpu:HGX_FW_GPU_0'].current_version


def _order(log: list[dict[str, Any]]) -> list[str]:
    """What was asked of the machine, with repetitions drawn together: power, and images."""
    said: list[str] = []
    for entry in log:
        text = str(entry)
        what = next((w for w in ('ForceOff', 'GracefulShutdown') if w in text), None)
        if what is None and 'ComputerSystem.Reset' in text:
            what = 'On'
        if 'update-multipart' in text.lower() or 'multipart' in text.lower():
            what = 'push'
        if what is not None and said[-1:] != [what]:
            said.append(what)
    return said

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of attaching accelerators to an instance: a card with two regions whose functions nobody has asked for."""

from typing import Any

from ironic.common import states

from tests.ironic.case import write_function
from tests.ironic.placement_case import ROOT_CLASS, PlacementCase

BEFORE = ['zstd', 'ipsec']
"""What the slots hold before an instance comes."""

BASELINE = """\
format = 1

[[rule]]
name = "regions"
match = { kind = "FPGA" }
block = ["host-device"]
offer = "region"
"""

STEP = {'interface': 'firmware', 'step': 'program_accelerators', 'args': {'claimed': True}, 'priority': 150}


class AttachCase(PlacementCase):
    """A machine with such a card, cleaned and on offer."""

    product = 'fpga-server'
    parameters = {}  # noqa: RUF012
    baseline = BASELINE

    def _configure(self) -> None:
        super()._configure()
        path = self._folder / 'catalogue.toml'
        path.write_text('\n\n'.join([path.read_text(), *(write_function(self._folder, name) for name in BEFORE)]))

    def ready(self) -> None:
        """Its slots hold something, and it is available."""
        self.clean({'step': 'program_accelerators', 'args': {'functions': {'Slot0': BEFORE[0], 'Slot1': BEFORE[1]}}})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert BEFORE == self.holds()

    def rent(self, *functions: str) -> str:
        """An instance claims the machine and both regions, and asks for functions; it is not deployed yet."""
        slots = [(self.slot_provider('FPGA1', f'Slot{n}'), 'FPGA') for n in (0, 1)]
        instance = self.claim((self.node.uuid, ROOT_CLASS), *slots)
        self.node.refresh()
        self.node.instance_uuid = instance
        self.node.instance_info = {'traits': [f'CUSTOM_ACC_CAN_{f.upper()}' for f in functions]}
        self.node.save()
        return instance

    def deploy(self) -> None:
        """With the step that a flavor's template brings."""
        self.service.do_node_deploy(self.context, self.node.uuid, deploy_steps=[STEP])

    def undeploy(self, instance: str) -> str:
        """The instance goes; its claims a little later, as with Nova."""
        self.node.refresh()
        self.node.maintenance, self.node.fault = False, None
        self.node.save()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        self.free(instance)
        return self.settle()

    def holds(self) -> list[str | None]:
        """The machine's truth: what each slot holds."""
        parts = self.machine.truth()['components']
        active = [parts[f'host/FPGA1_Slot{n}']['active'] for n in (0, 1)]
        return [None if a is None else a['function'] for a in active]

    def attached(self) -> dict[str, Any]:
        """Slot to state, as it is remembered."""
        found = self.node_state.attached
        return {} if found is None else {a.slot or a.label: str(a.state) for a in found.items}

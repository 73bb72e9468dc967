# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An instance gets what its flavor was promised, and nobody else can claim anything of its machine in placement."""

from collections.abc import Mapping
from typing import Any

from ironic.common import states

from tests.ironic.placement_case import ROOT_CLASS, PlacementCase

GZIP, AES = 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES'
CAN_GZIP, PROGRAM = 'CUSTOM_ACC_CAN_GZIP', 'CUSTOM_ACC_PROGRAM'


class TakenCase(PlacementCase):
    """A card with two slots, cleaned and on the shelf."""

    product = 'fpga-server'
    parameters: Mapping[str, Any] = {}

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error

    def rent(self, resource_class: str, *traits: str, deploy_steps: list[dict[str, Any]] | None = None) -> str:
        """Nova claims the machine and its first slot, and has it deployed."""
        slot = self.slot_provider('FPGA1', 'Slot0')
        instance = self.claim_all({self.node.uuid: ROOT_CLASS, slot: resource_class})
        self.node.refresh()
        self.node.instance_uuid = instance
        self.node.instance_info = {'traits': list(traits)} if traits else {}
        self.node.save()
        self.service.do_node_deploy(self.context, self.node.uuid, deploy_steps=deploy_steps)
        return self.settle()

    def claim_all(self, claims: Mapping[str, str]) -> str:
        """One consumer of all of it."""
        return self.claim(*claims.items())


class TestWithoutLocks(TakenCase):
    """A machine of whose cards no path has to be blocked: the step that engages locks can be left out."""

    baseline = 'format = 1\n[[rule]]\nblock = []\nfunctions = { "Slot0" = "gzip", "Slot1" = "aes" }\n'

    def test_nothing_can_be_claimed_of_a_machine_that_is_handed_over(self) -> None:
        """What its instance has not claimed is withdrawn, and what it has is reserved, when nothing else has seen to it."""
        assert [AES, GZIP] == self.offers()
        left_out = {'interface': 'firmware', 'step': 'lock_accelerators', 'args': {}, 'priority': 0}
        assert states.ACTIVE == self.rent(GZIP, deploy_steps=[left_out]), self.node.last_error
        assert [f'({GZIP})'] == self.offers()


class TestRegions(TakenCase):
    """Slots that are claimed whatever they hold."""

    baseline = 'format = 1\n[[rule]]\nmatch = { kind = "FPGA" }\noffer = "region"\n[[rule]]\nblock = ["host-device"]\n'

    def test_who_asked_for_a_function_is_not_handed_an_empty_region(self) -> None:
        """Ironic runs the template that the trait names, and none if nobody has made it."""
        assert states.DEPLOYFAIL == self.rent('FPGA', CAN_GZIP, PROGRAM)
        expected = f'requires {CAN_GZIP}, but the claimed regions hold no known function'
        assert expected in self.node.last_error

    def test_a_tenant_who_programs_regions_may_have_an_empty_one(self) -> None:
        """The flavor does not ask for anything to be programmed."""
        assert states.ACTIVE == self.rent('FPGA', CAN_GZIP), self.node.last_error
        assert ['(FPGA)'] == self.offers()

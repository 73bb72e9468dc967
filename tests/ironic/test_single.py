# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A slot that is claimed as the function in it gets no other function while its node is in use, whoever requests it."""

import time
from collections.abc import Mapping
from typing import Any

from ironic.common import states

from baremetal_acc.scheduling.provider_names import slot_uuid
from tests.ironic.placement_case import ROOT_CLASS, PlacementCase

BASELINE = """\
format = 1
[[rule]]
name = "functions"
match = { kind = "FPGA" }
functions = { "Slot0" = "gzip", "Slot1" = "aes" }
[[rule]]
name = "all"
block = ["host-device"]
"""

OTHER = {'step': 'program_accelerators', 'args': {'functions': {'Slot1': 'gzip'}}}


class TestSingleProgram(PlacementCase):
    """A card with two slots, and an instance that has claimed the machine, and neither of them."""

    product = 'fpga-server'
    parameters: Mapping[str, Any] = {}
    baseline = BASELINE

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.instance = self.claim((self.node.uuid, ROOT_CLASS))
        self.node.instance_uuid = self.instance
        self.node.save()

    def functions(self) -> list[str]:
        """What the slots hold."""
        return [self.machine.truth()['components'][f'host/FPGA1_Slot{n}']['active']['function'] for n in (0, 1)]

    def uploads(self) -> int:
        """Images that were sent to the machine."""
        return sum(1 for e in self.machine.log() if isinstance(e['body'], dict) and 'Targets' in e['body'])

    def offer(self, how: str) -> None:
        """Another way to claim it."""
        (self._folder / 'baseline.toml').write_text(BASELINE.replace('functions =', f'offer = "{how}"\nfunctions ='))

    def to_active(self) -> None:
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.machine.reset_log()

    def test_a_service_step_gives_it_no_other_function(self) -> None:
        """Nothing is written, and the error says what would change and when it can."""
        self.to_active()
        self.serve(OTHER)
        assert states.SERVICEFAIL == self.settle()
        assert 'it is published as its function aes, and the plan would program gzip while an instance' in self.node.last_error
        assert (0, ['gzip', 'aes']) == (self.uploads(), self.functions())

    def test_neither_does_a_deployment(self) -> None:
        """The machine was claimed as it is: nothing is on offer that is not there when it was claimed."""
        self.machine.reset_log()
        steps = [OTHER | {'interface': 'firmware', 'priority': 150}]
        self.service.do_node_deploy(self.context, self.node.uuid, False, None, steps)
        assert states.DEPLOYFAIL == self.settle()
        assert 'it is published as its function aes, and the plan would program gzip while an instance' in self.node.last_error
        assert (0, ['gzip', 'aes']) == (self.uploads(), self.functions())

    def test_neither_does_cleaning_while_an_instance_is_put_down_for_it(self) -> None:
        """Its deployment has failed, and it was left there: who cleans the machine by hand has not freed it."""
        self.clean(OTHER)
        assert states.CLEANFAIL == self.settle()
        assert 'it is published as its function aes, and the plan would program gzip while an instance' in self.node.last_error
        assert ['gzip', 'aes'] == self.functions()

    def test_nothing_of_a_machine_is_offered_while_an_instance_is_put_down_for_it(self) -> None:
        """Whatever step says what is on offer: a region could be claimed without the machine."""
        self.clean({'step': 'publish_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert [] == self.offers()

    def test_a_slot_that_its_tenant_has_claimed_is_given_back_what_it_was_claimed_as(self) -> None:
        """It has drifted: the repair is no other function."""
        slot = slot_uuid(self.node.uuid, self.card('FPGA1'), 'Slot0')
        self.free(self.instance)
        self.node.instance_uuid = self.claim((self.node.uuid, ROOT_CLASS), (slot, 'CUSTOM_ACC_FN_GZIP'))
        self.node.save()
        self.to_active()
        self.config(publish=False, group='baremetal_acc')
        self.serve({'step': 'program_accelerators', 'args': {'functions': {'Slot0': 'aes'}}})
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ['aes', 'aes'] == self.functions()
        self.config(publish=True, group='baremetal_acc')
        self.serve({'step': 'program_accelerators', 'args': {'functions': {'Slot0': 'gzip'}}})
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ['gzip', 'aes'] == self.functions()

    def test_a_region_can_be_given_any(self) -> None:
        """It was not promised for what it holds."""
        self.offer('region')
        self.to_active()
        self.serve(OTHER)
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ['gzip', 'gzip'] == self.functions()

    def test_a_node_of_whose_instance_placement_knows_nothing_is_the_operators_alone(self) -> None:
        """Ironic without Nova: nobody has claimed anything of the node."""
        self.to_active()
        self.free(self.instance)
        self.serve(OTHER)
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ['gzip', 'gzip'] == self.functions()

    def test_neither_does_cleaning_while_a_stranger_has_claimed_the_other_slot(self) -> None:
        """Without the machine, so nobody waits for it. Nothing is written; nothing but what the stranger has is there."""
        self.free(self.instance)
        self.node.instance_uuid = None
        self.node.save()
        slot = slot_uuid(self.node.uuid, self.card('FPGA1'), 'Slot0')
        self.machine.reset_log()
        stranger = self.claim((slot, 'CUSTOM_ACC_FN_GZIP'))
        self.clean(OTHER)
        assert states.CLEANFAIL == self.settle()
        assert 'a slot that is published as its function is reprogrammed only while nothing of the node is claimed' in (
            self.node.last_error
        )
        assert f'is held: CUSTOM_ACC_FN_GZIP by consumer {stranger}' in self.node.last_error
        assert 'the consumer has not claimed the node, so its claim is not waited for' in self.node.last_error
        assert (0, ['gzip', 'aes']) == (self.uploads(), self.functions())
        assert ['(CUSTOM_ACC_FN_GZIP)'] == self.offers()

    def test_cleaning_waits_until_the_machine_itself_is_free(self) -> None:
        """Nova frees it when cleaning has begun; until then the slots keep what they hold, and nobody can claim one."""
        self.machine.reset_log()
        self.node.instance_uuid = None
        self.node.save()
        self.clean(OTHER)
        for _ in range(20):
            self.poll()
            assert (states.CLEANWAIT, 0, []) == (self.node.provision_state, self.uploads(), self.offers())
            time.sleep(0.05)
        self.free(self.instance)
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert ['gzip', 'gzip'] == self.functions()
        assert ['CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_GZIP'] == self.offers()

    def test_when_the_instance_is_gone_it_is_given_the_other_function(self) -> None:
        """By the next cleaning, and it is offered as that then."""
        self.to_active()
        (self._folder / 'baseline.toml').write_text(BASELINE.replace('"aes"', '"gzip"'))
        self.free(self.instance)
        self.node.instance_uuid = None
        self.node.save()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert ['gzip', 'gzip'] == self.functions()
        assert ['CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_GZIP'] == self.offers()

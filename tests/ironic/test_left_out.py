# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""No deploy step, template or option of somebody who may deploy leaves the verification out of a deploy."""

from dataclasses import replace
from typing import Any

from ironic import objects
from ironic.common import states

from baremetal_acc.model.job import Flow
from baremetal_acc_ironic.state import node_store
from tests.ironic.case import IronicCase

NAME = 'verify_accelerators'
UUID = 'b5a9f3a0-5f0d-4f6e-9d58-0a9a4b1c2d3e'


def step(priority: int, name: str = NAME) -> dict[str, Any]:
    """The verification, or another step of ours, with another priority."""
    return {'interface': 'firmware', 'step': name, 'args': {}, 'priority': priority}


class TestLeftOut(IronicCase):
    """A machine whose cards are open, and need nothing but locks."""

    baseline = 'format = 1\n\n[[rule]]\nname = "closed"\nblock = ["host-device"]\n'

    def deployed(self, *deploy_steps: dict[str, Any]) -> str:
        """The state after a deploy with these steps."""
        self.service.do_node_deploy(self.context, self.node.uuid, deploy_steps=list(deploy_steps) or None)
        return self.settle()

    def refused(self, *deploy_steps: dict[str, Any]) -> None:
        """The deploy fails before anything is done, and says why."""
        assert states.DEPLOYFAIL == self.deployed(*deploy_steps)
        assert f'node node-1: {NAME} is left out of this deploy' in str(self.node.last_error)
        assert {False} == {closed for name, closed in self.locks().items() if 'ERoT' in name}

    def test_not_by_an_argument(self) -> None:
        """Priority 0 disables a step of Ironic's own; not this one. The next deploy is not held by it."""
        self.refused(step(0))
        assert 'priority 0 in its deploy steps' in str(self.node.last_error)
        assert states.ACTIVE == self.deployed(step(105)), self.node.last_error

    def test_nor_the_locks_after_a_deploy_that_was_cut_off(self) -> None:
        """The step that engages them may be left out; what an earlier attempt has engaged is no proof for this one."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        proven = tuple(replace(e, flow=Flow.DEPLOY) for e in self.node_state.evidence)
        assert {self.node_state.lifecycle} == {e.lifecycle for e in proven}
        node_store.store(self.node, replace(self.node_state, evidence=proven))
        assert states.DEPLOYFAIL == self.deployed(step(0, 'lock_accelerators'))
        assert 'found locked, but not engaged by us' in str(self.node.last_error)
        assert states.ACTIVE == self.deployed(), self.node.last_error

    def test_not_by_a_template(self) -> None:
        """Nor in a deploy template that the instance's traits choose."""
        template = objects.DeployTemplate(self.context, uuid=UUID, name='CUSTOM_QUICK', steps=[step(0)], extra={})
        template.create()
        objects.TraitList.create(self.context, self.node.id, ['CUSTOM_QUICK'])
        self.node.instance_info = {'traits': ['CUSTOM_QUICK']}
        self.node.save()
        self.refused()
        assert 'priority 0 in a deploy template' in str(self.node.last_error)

    def test_not_by_configuration(self) -> None:
        """Ironic takes disallowed steps out without a word."""
        self.config(disallow_deploy_steps=[f'firmware.{NAME}'], group='api')
        self.refused()
        assert 'disallow_deploy_steps' in str(self.node.last_error)

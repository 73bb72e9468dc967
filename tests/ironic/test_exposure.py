# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An exposure in ``driver_info`` that says that no tenant's code runs takes effect only after an operator has accepted it."""

from dataclasses import replace

from ironic.common import states

from baremetal_acc.policy.baseline_rules import Exposure
from baremetal_acc_ironic import compat
from baremetal_acc_ironic.state import node_state, node_store
from tests.ironic.api import OWNER
from tests.ironic.test_api import OWNER_MEMBER, ApiCase

RECONCILE = 'reconcile_accelerators'


class TestExposure(ApiCase):
    """A tenant's node of a project: its members may edit driver_info."""

    parameters = {'gpus': 1}  # noqa: RUF012
    baseline = 'format = 1\n[[rule]]\nname = "tenants"\nmatch = { exposure = "tenant" }\nblock = ["host-device"]\n'

    def setUp(self) -> None:
        super().setUp()
        self.node.provision_state = states.AVAILABLE
        self.node.save()

    def say(self, exposure: str) -> None:
        """A member of the owner's project writes it through the API."""
        change = [{'op': 'add', 'path': '/driver_info/acc_exposure', 'value': exposure}]
        self.app.patch_json(f'/v1/nodes/{self.node.uuid}', change, headers=OWNER_MEMBER, status=200)
        self.node.refresh()

    def test_what_a_member_of_the_owners_project_writes_opens_nothing(self) -> None:
        """A deploy locks as a tenant's, fails, and names both and what to do; automated cleaning fails, too."""
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.say('none')
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        words = (
            "driver_info['acc_exposure'] makes the exposure none",
            'the accepted one, tenant',
            RECONCILE,
            'set acc_exposure to tenant',
        )
        assert [] == [word for word in words if word not in self.node.last_error], self.node.last_error
        assert all(closed for name, closed in self.locks().items() if 'InbandUpdatePolicy' in name)
        assert states.CLEANFAIL == self.cleaned()
        assert 'rules match by the accepted one, tenant' in self.node.last_error
        self.say('tenant')
        assert states.AVAILABLE == self.cleaned(), self.node.last_error

    def test_before_the_first_step_it_is_believed_no_more(self) -> None:
        """Only tenant is, which asks for most; also where the option says less."""
        self.say('service')
        assert states.CLEANFAIL == self.cleaned()
        self.config(group='baremetal_acc', default_exposure='none')
        self.say('tenant')
        node_store.store(self.node, replace(node_state.NodeState()))
        assert states.CLEANFAIL == self.cleaned('verify_accelerators')
        assert 'lock host-device' in self.node.last_error

    def test_an_operators_reconciling_takes_it(self) -> None:
        """By hand. The history says so, the deploy needs no lock, and says that less is asked for."""
        self.say('none')
        assert states.MANAGEABLE == self.cleaned(RECONCILE), self.node.last_error
        assert Exposure.NONE is self.node_state.exposure
        assert any('exposure none is accepted: rules match by it from now on, no longer by tenant' in e for e in self.history())
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert any('verify_accelerators: less than the default: exposure none' in e for e in self.history())
        self.say('tenant')
        assert states.CLEANFAIL == self.cleaned()
        assert 'makes the exposure tenant, but rules match by the accepted one, none' in self.node.last_error

    def test_the_owners_own_reconciling_does_not(self) -> None:
        """A public runbook has the step, and the API asks no rule of it."""
        self.say('none')
        self.context.system_scope, self.context.project_id = None, OWNER
        assert states.CLEANFAIL == self.cleaned(RECONCILE)
        refusal = (
            'rules match by the accepted one, tenant'
            if compat.api_checks_steps()
            else 'firmware.reconcile_accelerators refused: '
        )
        assert (refusal in self.node.last_error, None) == (True, self.node_state.exposure), self.node.last_error

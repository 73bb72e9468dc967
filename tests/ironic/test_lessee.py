# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A project that leases a node changes no rule, hides no card and spoils no card by what Ironic lets it do.

Ironic lets its members edit ``resource_class`` and maintenance, and its admins have the node inspected and cleaned.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from ironic.common import states
from ironic.conductor import task_manager

from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc_ironic.power import PowerRefused
from baremetal_acc_ironic.state import node_store
from tests.ironic.api import LESSEE
from tests.ironic.case import BASELINE, NO_DEPLOY
from tests.ironic.test_api import LESSEE_ADMIN, LESSEE_MEMBER, OWNER_ADMIN, SYSTEM_ADMIN, ApiCase

LAB = '[[rule]]\nname = "lab"\nmatch = { resource_class = "lab" }\nblock = []\nfirmware = {}\n\n'
RECONCILE = 'reconcile_accelerators'


class LesseeCase(ApiCase):
    """A node that was cleaned before it was leased. One rule of the baseline asks for nothing, in a class of its own."""

    parameters = {'gpus': 2}  # noqa: RUF012
    baseline = BASELINE.replace('[[rule]]', f'{LAB}[[rule]]', 1)

    def setUp(self) -> None:
        super().setUp()
        self.cleaned_first()
        self.node.provision_state = states.AVAILABLE
        self.node.save()

    def edit(self, headers: dict[str, str], path: str, value: Any) -> None:
        """Change one field of the node through the API."""
        self.app.patch_json(
            f'/v1/nodes/{self.node.uuid}', [{'op': 'replace', 'path': path, 'value': value}], headers=headers, status=200
        )
        self.node.refresh()

    def ask(self, headers: dict[str, str], target: str) -> str:
        """Another provision state through the API, and the state that comes of it."""
        self.app.put_json(f'/v1/nodes/{self.node.uuid}/states/provision', {'target': target}, headers=headers, status=202)
        return self.settle()


class TestResourceClass(LesseeCase):
    """Rules go by the class that the node was first cleaned as."""

    def test_another_class_chooses_no_other_rule(self) -> None:
        """A deploy locks by the old class, and fails: the reason names both classes, the rule, and what to do."""
        self.edit(LESSEE_MEMBER, '/resource_class', 'lab')
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        words = ("resource_class is 'lab'", "the accepted one, 'gold'", 'rules differ by it: lab', RECONCILE, 'manual cleaning')
        assert [] == [word for word in words if word not in self.node.last_error], self.node.last_error
        assert all(closed for name, closed in self.locks().items() if 'InbandUpdatePolicy' in name)

    def test_no_lock_is_left_out_for_it(self) -> None:
        """What the class would not ask for is asked for."""
        self.clean('unlock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        self.edit(LESSEE_MEMBER, '/resource_class', 'lab')
        self.machine.fault('lock-ignored')
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert 'lock host-device' in self.node.last_error

    def test_the_lessees_own_cleaning_does_not_take_it(self) -> None:
        """Its admins may clean the node; it is brought to the old rules, and is not available."""
        self.edit(LESSEE_MEMBER, '/resource_class', 'lab')
        assert states.MANAGEABLE == self.ask(LESSEE_ADMIN, 'manage')
        assert states.CLEANFAIL == self.ask(LESSEE_ADMIN, 'provide')
        assert "rules match by the accepted one, 'gold', and these rules differ by it: lab" in self.node.last_error
        assert 'gold' == self.node_state.resource_class

    def test_reconciling_that_was_asked_for_takes_it(self) -> None:
        """That is the operator's own right. The history says so, and the node deploys by the new rules."""
        self.edit(LESSEE_MEMBER, '/resource_class', 'lab')
        self.clean(RECONCILE)
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert ('lab', True) == (
            self.node_state.resource_class,
            any("resource_class 'lab' is accepted: rules match by it from now on" in e for e in self.history()),
        )
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error

    def test_other_steps_that_were_asked_for_do_not_take_it(self) -> None:
        """Reading is a right of more people, and locking by the new rules would lock nothing."""
        self.edit(LESSEE_MEMBER, '/resource_class', 'lab')
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        self.clear()
        self.clean('lock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert 'gold' == self.node_state.resource_class

    def test_the_first_step_of_all_may_be_a_verification_that_fails(self) -> None:
        """From then on rules go by the class of that moment."""
        self.node.driver_internal_info = {}
        self.node.owner = self.node.lessee = None
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.clean('verify_accelerators')
        assert (states.CLEANFAIL, 'gold') == (self.settle(), self.node_state.resource_class)

    def test_classes_that_no_rule_tells_apart_do_no_harm(self) -> None:
        """Nobody has to do anything."""
        self.edit(LESSEE_MEMBER, '/resource_class', 'silver')
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error


class TestInspection(LesseeCase):
    """Inspection says which cards must be there."""

    def setUp(self) -> None:
        super().setUp()
        self.before = self.node_state.known
        self.machine.fault('device-absent', device='GPU_1')
        assert states.MANAGEABLE == self.ask(SYSTEM_ADMIN, 'manage')

    def test_of_the_lessee_it_forgets_no_card(self) -> None:
        """A card that its code has hidden is missed all the same, also by the cleaning that it asks for."""
        assert states.MANAGEABLE == self.ask(LESSEE_ADMIN, 'inspect')
        assert (2, self.before) == (len(self.before), self.node_state.known)
        assert states.CLEANFAIL == self.ask(LESSEE_ADMIN, 'provide')
        assert 'GPU_1' not in str(self.node_state.known)
        assert self.before == self.node_state.known

    def test_of_the_operator_or_the_owner_it_does(self) -> None:
        """They have changed the hardware."""
        for headers in (SYSTEM_ADMIN, OWNER_ADMIN):
            node_store.store(self.node, replace(self.node_state, known=self.before))
            assert states.MANAGEABLE == self.ask(headers, 'inspect')
            assert 1 == len(self.node_state.known)

    def test_of_a_lessee_that_owns_the_node_it_does(self) -> None:
        """It is its own hardware."""
        self.node.owner = LESSEE
        self.node.save()
        assert states.MANAGEABLE == self.ask(LESSEE_ADMIN, 'inspect')
        assert 1 == len(self.node_state.known)


class TestPower(LesseeCase):
    """A card is quarantined; members of the project that leases the node have cleared maintenance."""

    def setUp(self) -> None:
        super().setUp()
        one = Quarantine(device=AcceleratorId('uuid:1'), since=datetime(2026, 11, 21, tzinfo=UTC), why='it burns')
        node_store.store(self.node, replace(self.node_state, quarantined=(one,), proven=datetime(2026, 11, 20, tzinfo=UTC)))

    def switch(self, wanted: str, provision_state: str) -> None:
        """A power request in a state, as the conductor carries it out."""
        self.node.provision_state = provision_state
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            if wanted == states.REBOOT:
                task.driver.power.reboot(task)
            else:
                task.driver.power.set_power_state(task, wanted)

    def test_a_host_with_a_quarantined_card_is_not_powered_on_for_a_tenant(self) -> None:
        """Nor restarted. It says which card, why, and what to do. Powering it off is always right."""
        for state, way in (
            (states.ACTIVE, 'service the node with update_accelerator_firmware'),
            (states.SERVICEFAIL, 'service the node with update_accelerator_firmware'),
            (states.DEPLOYFAIL, 'undeploy the node'),
            (states.RESCUE, 'undeploy the node'),
        ):
            said = rf'refused: uuid:1 is quarantined since 2026-11-21 .*it burns \(first clear maintenance,? and {way}'
            for wanted in (states.POWER_ON, states.REBOOT, states.SOFT_REBOOT):
                with pytest.raises(PowerRefused, match=said):
                    self.switch(wanted, state)
            self.switch(states.POWER_OFF, state)
            assert 'Off' == self.machine.truth()['systems']['host']['power']

    def test_cleaning_may_reboot_it_where_that_boots_the_ramdisk(self) -> None:
        """There is no tenant. A deploy interface that boots none would start what the tenant has left on the disk."""
        said = "the node is cleaning, and Ironic does not boot the operator's ramdisk"
        self.switch(states.POWER_OFF, states.CLEANING)
        for name, wanted in ((NO_DEPLOY, states.REBOOT), (NO_DEPLOY, states.POWER_ON), ('direct', states.POWER_ON)):
            self.node.deploy_interface = name
            with pytest.raises(PowerRefused, match=said):
                self.switch(wanted, states.CLEANING)
        self.node.driver_info = self.node.driver_info | {'deploy_ramdisk': 'http://192.0.2.66/other'}
        named = r'no operator has accepted the ramdisk that Ironic boots, which is named by driver_info\[deploy_ramdisk\] '
        with pytest.raises(PowerRefused, match=rf'{named}.unset what .* reconcile_accelerators in manual cleaning') as refused:
            self.switch(states.REBOOT, states.CLEANING)
        assert '192.0.2.66' not in str(refused.value)
        assert 'Off' == self.machine.truth()['systems']['host']['power']
        self.node.driver_info = {k: v for k, v in self.node.driver_info.items() if k != 'deploy_ramdisk'}
        self.switch(states.REBOOT, states.CLEANING)
        assert 'On' == self.machine.truth()['systems']['host']['power']

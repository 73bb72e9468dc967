# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Traits of a node select rules of the baseline only after an operator has accepted them, whatever the owner's admins set."""

from dataclasses import replace

from ironic.common import states
from ironic.conductor import task_manager

from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_store import KEY
from baremetal_acc_ironic.state.target import target
from tests.ironic.api import OWNER
from tests.ironic.test_api import OWNER_ADMIN, ApiCase

LAB, GOLD, SAME = 'CUSTOM_LAB', 'CUSTOM_GOLD', 'CUSTOM_OTHER'
RECONCILE = 'reconcile_accelerators'
BASELINE = f"""format = 1
[[rule]]
name = "lab"
match = {{ traits = ["{LAB}"] }}
block = []
[[rule]]
name = "all"
block = ["host-device"]
"""


class TestTraits(ApiCase):
    """One rule of the baseline asks for nothing, of nodes with a trait."""

    parameters = {'gpus': 1}  # noqa: RUF012
    baseline = BASELINE

    def setUp(self) -> None:
        super().setUp()
        self.cleaned_first()
        self.node.provision_state = states.AVAILABLE
        self.node.save()

    def forget(self) -> None:
        """Nothing of ours has run on the node yet."""
        self.node.refresh()
        self.node.driver_internal_info = {}
        self.node.save()

    def set(self, *traits: str) -> None:
        """An admin of the owner's project sets them by the API's right, beside those that are ours."""
        ours = sorted(self.node_state.traits)
        body = {'traits': [*traits, *ours]}
        self.app.put_json(f'/v1/nodes/{self.node.uuid}/traits', body, headers=OWNER_ADMIN, status=204)
        self.node.refresh()

    def facts(self) -> frozenset[str]:
        """What rules go by."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            return target(task).node.traits

    def by_owner(self) -> None:
        """Whatever begins from now on was asked for by the project that owns the node."""
        self.context.system_scope, self.context.project_id = None, OWNER

    def test_what_an_owners_admin_sets_opens_nothing(self) -> None:
        """A deploy locks by the old rules, fails, and names the rule and what to do; automated cleaning fails, too."""
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.set(LAB)
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        words = (LAB, 'these rules differ by them: lab', RECONCILE, 'restore the accepted ones')
        assert [] == [word for word in words if word not in self.node.last_error], self.node.last_error
        assert all(closed for name, closed in self.locks().items() if 'InbandUpdatePolicy' in name)
        assert states.CLEANFAIL == self.cleaned()
        self.set()
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.set(SAME)
        assert states.AVAILABLE == self.cleaned(), self.node.last_error

    def test_a_trait_that_is_taken_away_is_missed_as_well(self) -> None:
        """A rule for it may ask for more than the others do."""
        self.set(LAB)
        assert states.MANAGEABLE == self.cleaned(RECONCILE), self.node.last_error
        self.set()
        assert states.CLEANFAIL == self.cleaned()
        assert LAB in self.node.last_error

    def test_an_operators_reconciling_takes_them(self) -> None:
        """By hand. The history says so, and the node deploys by the new rules."""
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.set(LAB)
        assert states.MANAGEABLE == self.cleaned(RECONCILE), self.node.last_error
        assert {LAB} == self.node_state.taken
        assert any(f'traits {LAB} are accepted: rules match by them from now on' in e for e in self.history())
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error

    def test_the_owners_own_reconciling_takes_neither_traits_nor_class(self) -> None:
        """A public runbook has the step, and the API asks no rule of it."""
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        self.set(LAB)
        self.node.resource_class = 'lab'
        self.node.save()
        self.by_owner()
        assert states.CLEANFAIL == self.cleaned(RECONCILE)
        assert (frozenset(), 'gold') == (self.node_state.taken, self.node_state.resource_class)

    def test_an_owner_that_has_the_first_step_of_all_has_none_taken(self) -> None:
        """Who enrols a node of its own chooses no rule by that; the operator's first step takes them."""
        self.forget()
        self.set(LAB)
        self.by_owner()
        assert states.CLEANFAIL == self.cleaned()
        assert (None, True) == (
            self.node_state.taken,
            f'the node has traits {LAB}, but no operator has accepted' in self.node.last_error,
        )
        self.context.system_scope, self.context.project_id = 'all', None
        assert states.MANAGEABLE == self.cleaned(RECONCILE), self.node.last_error
        assert {LAB} == self.node_state.taken

    def test_what_an_owners_admin_sets_before_the_operators_first_cleaning_is_not_taken(self) -> None:
        """It runs by itself, and who has asked for it knows nothing of the trait. By hand the operator takes it."""
        self.forget()
        self.set(LAB)
        assert states.CLEANFAIL == self.cleaned()
        assert (None, True) == (self.node_state.taken, 'no operator has accepted them' in self.node.last_error)
        assert states.CLEANFAIL == self.cleaned('verify_accelerators')
        assert None is self.node_state.taken
        assert states.MANAGEABLE == self.cleaned(RECONCILE), self.node.last_error
        assert {LAB} == self.node_state.taken

    def test_before_any_step_none_counts(self) -> None:
        """As for an inspection that comes first."""
        self.forget()
        self.set(LAB)
        assert frozenset() == self.facts()

    def test_a_node_of_an_earlier_version_keeps_the_traits_that_it_has(self) -> None:
        """It has been reconciled by them, and nobody has to do anything."""
        self.set(LAB)
        assert states.MANAGEABLE == self.cleaned(RECONCILE), self.node.last_error
        node = self.node
        stored = {key: value for key, value in node.driver_internal_info[KEY].items() if key != 'taken'}
        node.set_driver_internal_info(KEY, stored)
        node.save()
        assert (None, {LAB}) == (self.node_state.taken, self.facts() - self.node_state.traits)
        self.by_owner()
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        assert {LAB} == self.node_state.taken

    def test_ours_count_as_ever(self) -> None:
        """They say what the cards are, and come and go with these."""
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        ours = {t for t in self.node_state.traits if t.startswith('CUSTOM_ACC_')}
        assert ours
        # What lists of devices say of one card says nothing of the others.
        assert {'CUSTOM_NVIDIA_2330', 'CUSTOM_GPU_NVIDIA_H100'} == self.node_state.traits - ours
        assert ours == self.facts()
        node_store.store(self.node, replace(self.node_state, traits=frozenset()))
        assert frozenset() == self.facts()

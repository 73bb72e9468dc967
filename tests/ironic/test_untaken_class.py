# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A resource class that a tenant may have set before our first step selects no rule; an operator accepts it by hand."""

from dataclasses import fields
from typing import Any

from ironic.common import states
from ironic.conductor import task_manager

from baremetal_acc.policy.baseline_rules import Downgrade, Match, Offering, OnLeave, Rule
from baremetal_acc_ironic.authorization import accepted_values
from tests.ironic.api import LESSEE, OWNER
from tests.ironic.case import BASELINE, IronicCase
from tests.ironic.test_api import LESSEE_ADMIN, LESSEE_MEMBER, OWNER_MEMBER, SYSTEM_ADMIN, ApiCase
from tests.ironic.test_lessee import LAB

RECONCILE = 'reconcile_accelerators'
STRICT = '[[rule]]\nname = "strict"\nmatch = { resource_class = "gold" }\nmeasure = "required"\n\n'


class UntakenCase(ApiCase):
    """A node that an operator has enrolled as gold, with owner and lessee; cleaning is off, nothing of ours has run."""

    parameters = {'gpus': 1}  # noqa: RUF012
    baseline = BASELINE.replace('[[rule]]', f'{LAB}[[rule]]', 1)

    def setUp(self) -> None:
        super().setUp()
        self.config(automated_clean=False, group='conductor')
        self.node.provision_state = states.AVAILABLE
        self.node.save()

    def write(self, headers: dict[str, str], value: str) -> None:
        """Change the class through the API."""
        change = [{'op': 'replace', 'path': '/resource_class', 'value': value}]
        self.app.patch_json(f'/v1/nodes/{self.node.uuid}', change, headers=headers, status=200)
        self.node.refresh()

    def ask(self, headers: dict[str, str], target: str) -> str:
        """Another provision state through the API, and the state that comes of it."""
        self.app.put_json(f'/v1/nodes/{self.node.uuid}/states/provision', {'target': target}, headers=headers, status=202)
        return self.settle()

    def refused(self, state: str = states.DEPLOYFAIL) -> None:
        """No class was taken, the error says so with the way back, and nothing was certified."""
        words = ('no operator has accepted it', 'these rules depend on one: ', RECONCILE, 'manual cleaning')
        assert state == self.node.provision_state
        assert [] == [word for word in words if word not in self.node.last_error], self.node.last_error
        assert (None, None) == (self.node_state.resource_class, self.node_state.certificate)


class TestEndedLease(UntakenCase):
    """A lease that ends before any flow of ours has met the node."""

    def poll_projects(self) -> None:
        """A round of the periodic."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.keep_projects(self.service, self.context)
        self.node.refresh()

    def test_the_class_that_it_has_left_is_not_taken_by_itself(self) -> None:
        """The operator makes the node manageable and available afterwards, which is the first cleaning of all."""
        self.poll_projects()
        before = self.node.updated_at
        self.poll_projects()
        assert before == self.node.updated_at
        self.write(LESSEE_MEMBER, 'lab')
        self.node.owner = self.node.lessee = None
        self.node.save()
        self.config(automated_clean=True, group='conductor')
        assert states.MANAGEABLE == self.ask(SYSTEM_ADMIN, 'manage')
        assert states.CLEANFAIL == self.ask(SYSTEM_ADMIN, 'provide')
        self.refused(states.CLEANFAIL)

    def test_a_node_that_no_project_has_is_left_alone(self) -> None:
        """Nothing is written, and its class is taken as ever."""
        self.node.owner = self.node.lessee = None
        self.node.save()
        self.poll_projects()
        assert {} == self.node.driver_internal_info
        self.config(automated_clean=True, group='conductor')
        assert states.MANAGEABLE == self.ask(SYSTEM_ADMIN, 'manage')
        assert states.AVAILABLE == self.ask(SYSTEM_ADMIN, 'provide'), self.node.last_error
        assert 'gold' == self.node_state.resource_class


class TestUntaken(UntakenCase):
    """The rule for class lab asks for nothing."""

    def test_a_member_of_the_lessee_chooses_no_rule(self) -> None:
        """Its admin's deploy is refused with every lock closed, since rules go by no class."""
        self.write(LESSEE_MEMBER, 'lab')
        self.ask(LESSEE_ADMIN, 'active')
        self.refused()
        assert all(closed for name, closed in self.locks().items() if 'InbandUpdatePolicy' in name)

    def test_nor_does_a_member_of_the_owner(self) -> None:
        """Ironic's rule for the class is the same."""
        self.write(OWNER_MEMBER, 'lab')
        self.ask(LESSEE_ADMIN, 'active')
        self.refused()

    def test_an_operator_who_deploys_knows_nothing_of_it(self) -> None:
        """Such as Nova's user."""
        self.write(LESSEE_MEMBER, 'lab')
        self.ask(SYSTEM_ADMIN, 'active')
        self.refused()

    def test_nor_one_whose_automated_cleaning_runs(self) -> None:
        """Whoever has set it off."""
        self.config(automated_clean=True, group='conductor')
        self.write(LESSEE_MEMBER, 'lab')
        for headers in (SYSTEM_ADMIN, LESSEE_ADMIN):
            self.clear()
            self.ask(headers, 'provide')
            self.refused(states.CLEANFAIL)

    def test_what_was_written_stays_a_tenants_when_the_lease_is_over(self) -> None:
        """A flow has met the lessee; the next one is an operator's, and the node nobody's."""
        self.write(LESSEE_MEMBER, 'lab')
        self.ask(LESSEE_ADMIN, 'active')
        self.node.owner = self.node.lessee = None
        self.node.save()
        self.config(automated_clean=True, group='conductor')
        assert states.CLEANFAIL == self.cleaned()
        self.refused(states.CLEANFAIL)
        assert (True, True) == (self.node_state.owned, self.node_state.leased)

    def test_other_steps_by_hand_take_none(self) -> None:
        """To verify or to lock is no word on the class."""
        self.write(LESSEE_MEMBER, 'lab')
        assert states.CLEANFAIL == self.cleaned('verify_accelerators')
        self.refused(states.CLEANFAIL)
        assert states.MANAGEABLE == self.cleaned('lock_accelerators'), self.node.last_error
        assert None is self.node_state.resource_class

    def test_an_operators_reconciling_by_hand_takes_it(self) -> None:
        """That is the way back; the history says so."""
        assert states.MANAGEABLE == self.cleaned(RECONCILE), self.node.last_error
        assert 'gold' == self.node_state.resource_class
        assert any(
            "resource_class 'gold' is accepted: rules match by it from now on, no longer by None" in e for e in self.history()
        )
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        assert states.ACTIVE == self.ask(LESSEE_ADMIN, 'active'), self.node.last_error

    def test_a_class_that_no_rule_asks_for_hinders_nobody(self) -> None:
        """Rules that lessen are not for it, and none asks for more."""
        self.config(automated_clean=True, group='conductor')
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        assert states.ACTIVE == self.ask(LESSEE_ADMIN, 'active'), self.node.last_error
        assert None is self.node_state.resource_class


class TestEscaped(UntakenCase):
    """The rule for class gold asks for more than the others."""

    baseline = BASELINE.replace('[[rule]]', f'{STRICT}[[rule]]', 1)

    def test_a_class_that_was_written_over_is_missed(self) -> None:
        """What the operator enrolled the node as nobody can tell, so that it may be any class that a rule asks for."""
        self.write(LESSEE_MEMBER, 'plain')
        self.ask(LESSEE_ADMIN, 'active')
        self.refused()
        assert 'strict' in self.node.last_error


class TestNobodys(ApiCase):
    """The ordinary life: an operator enrols and provides a node; then a project leases it."""

    parameters = {'gpus': 1}  # noqa: RUF012
    baseline = BASELINE.replace('[[rule]]', f'{LAB}[[rule]]', 1)

    def set_up_as(self, owner: str | None, lessee: str | None) -> None:
        """Enrolled, with these projects."""
        self.node.owner, self.node.lessee, self.node.provision_state = owner, lessee, states.MANAGEABLE
        self.node.save()

    def test_the_first_automated_cleaning_takes_it(self) -> None:
        """By the API, as an operator provides a node."""
        self.set_up_as(None, None)
        url = f'/v1/nodes/{self.node.uuid}/states/provision'
        self.app.put_json(url, {'target': 'provide'}, headers=SYSTEM_ADMIN, status=202)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert ('gold', frozenset(), False, False) == self.taken()

    def taken(self) -> tuple[Any, ...]:
        """What is remembered of it."""
        state = self.node_state
        return state.resource_class, state.taken, state.owned, state.leased

    def test_whom_nobody_vouches_for_takes_none(self) -> None:
        """A context with a user and without a token's data may be anybody's. The next flow of an operator does."""
        vouched, self.context.auth_token_info = self.context.auth_token_info, None
        self.set_up_as(None, None)
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        assert (None, None, False, False, None, None) == (*self.taken(), self.node_state.ramdisk, self.node_state.bmcs)
        self.context.auth_token_info = vouched
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        assert ('gold', frozenset(), False, False) == self.taken()

    def test_either_project_stands_against_it(self) -> None:
        """Members of both may write the class."""
        for owner, lessee in ((OWNER, None), (None, LESSEE)):
            self.node.driver_internal_info = {}
            self.set_up_as(owner, lessee)
            self.cleaned()
            assert (None, None, owner is not None, lessee is not None) == self.taken()

    def test_that_there_is_none_is_taken_as_well(self) -> None:
        """A class that a lessee's member adds later is none of the operator's."""
        self.node.resource_class = None
        self.set_up_as(None, None)
        assert states.AVAILABLE == self.cleaned(), self.node.last_error
        assert '' == self.node_state.resource_class
        self.node.resource_class, self.node.lessee = 'lab', LESSEE
        self.node.save()
        assert states.CLEANFAIL == self.cleaned()
        assert ('rules match by the accepted one, None, and these rules differ by it: lab' in self.node.last_error, '') == (
            True,
            self.node_state.resource_class,
        )


class TestKept(IronicCase):
    """What is remembered of it survives, and older versions pass over it."""

    parameters = {'gpus': 0}  # noqa: RUF012

    def test_it_stands_beside_the_state(self) -> None:
        """An older version refuses a state with a field that it does not know."""
        self.node.owner, self.node.lessee, self.node.provision_state = OWNER, LESSEE, states.MANAGEABLE
        self.node.save()
        self.clean(RECONCILE)
        self.settle()
        stored = self.node_state and self.node.driver_internal_info['baremetal_acc']
        assert ['owned', 'leased'] == stored['met']
        assert set() == {'owned', 'leased', 'ramdisk'} & set(stored['state'])
        assert 64 == len(stored['ramdisk'])


def test_every_key_of_a_rule_is_known_to_ask_or_to_lessen() -> None:
    """A new key has to be thought about."""
    kinds = (accepted_values.EMPTY_ASKS_FOR_NOTHING, accepted_values.ASKS, accepted_values.LESSENS)
    assert {f.name for f in fields(Rule)} - {'name', 'match'} == frozenset().union(*kinds)
    assert sum(len(kind) for kind in kinds) == len(frozenset().union(*kinds))


def test_a_rule_that_only_lessens_asks_for_nothing() -> None:
    """An empty list of paths, an offer, a right of tenants."""
    empty = Rule(
        name='r',
        match=Match(),
        firmware=(),
        block=frozenset(),
        count=0,
        downgrade=next(iter(Downgrade)),
        tenants_program=True,
        offer=next(iter(Offering)),
        on_leave=next(iter(OnLeave)),
    )
    assert not accepted_values.asks_for_more(empty)
    assert accepted_values.asks_for_more(Rule(name='r', match=Match(), firmware=(('*', '1'),)))
    assert accepted_values.asks_for_more(Rule(name='r', match=Match(), bmc_users=()))

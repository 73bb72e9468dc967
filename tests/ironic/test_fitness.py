# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node that cannot be deployed offers nothing in placement; when it can be again, what is verified is offered again.

A real conductor runs its periodics over an emulated machine, with a real placement.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from ironic.common import states

from baremetal_acc.errors import PlacementUnreachable
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc_ironic.periodics import availability
from baremetal_acc_ironic.state import node_store
from tests.ironic.case import BASELINE, GPU_NEW, GPU_OLD
from tests.ironic.placement_case import ROOT_CLASS, PlacementCase

GPU = 'PGPU'


class FitnessCase(PlacementCase):
    """A machine with two GPUs that was cleaned."""

    baseline = BASELINE.replace(GPU_NEW, GPU_OLD)

    def setUp(self) -> None:
        super().setUp()
        self.at = datetime.now(UTC)
        self.asked: list[str] = []

    def cleaned(self) -> None:
        """And on offer."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert [GPU, GPU] == self.offers()

    def round(self, *, later: timedelta = timedelta(0)) -> None:
        """One round of the periodic; what it asks placement is noted."""
        self.at += later
        self.asked.clear()
        with self.counting():
            availability.hand_out(self.service, self.context, self.at)
        self.refresh()

    def refresh(self) -> None:
        """The node, if there is one."""
        self.node.refresh()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Note what placement is asked."""
        send = PlacementClient._send

        def noted(client: Any, method: str, path: str, body: Any) -> Any:
            self.asked.append(f'{method} {path.partition("?")[0]}')
            return send(client, method, path, body)

        with mock.patch.object(PlacementClient, '_send', noted):
            yield

    def change(self, **values: Any) -> None:
        """What somebody does to the node by Ironic's API."""
        self.node.refresh()
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()

    def requests(self) -> int:
        """That reached the BMC."""
        return sum(sum(bmc['requests'].values()) for bmc in self.machine.counters().values())


class TestNotFit(FitnessCase):
    """It cannot be deployed."""

    def test_what_cannot_be_deployed_offers_nothing_and_is_offered_again_after_a_look(self) -> None:
        """Maintenance, manageable, retired, an instance that is put down for it; and each time it is over."""
        self.cleaned()
        for wrong, right in (
            ({'maintenance': True}, {'maintenance': False}),
            ({'retired': True}, {'retired': False}),
            ({'instance_uuid': '11111111-2222-4333-8444-555555555555'}, {'instance_uuid': None}),
            ({'provision_state': states.MANAGEABLE}, {'provision_state': states.AVAILABLE}),
            (
                {'provision_state': states.CLEANFAIL, 'maintenance': True},
                {'provision_state': states.AVAILABLE, 'maintenance': False},
            ),
        ):
            before = self.requests()
            self.change(**wrong)
            self.round()
            assert ([], before) == (self.offers(), self.requests()), wrong
            self.change(**right)
            self.round()
            assert [GPU, GPU] == self.offers(), (wrong, self.history(), availability.rounds_of(self.service).late)
            assert before < self.requests()
        history = ' '.join(self.history())
        assert 'its accelerators were withdrawn from placement: it is in maintenance' in history
        assert 'its verified accelerators are published again (withdrawn since' in history

    def test_a_node_at_rest_costs_nothing(self) -> None:
        """Neither placement nor a BMC is asked, and nothing is saved, whether the node is fit or not."""
        self.cleaned()
        before = self.requests()
        saved, history = self.node.updated_at, self.history()
        for _ in range(3):
            self.round()
            assert [] == self.asked
        assert (saved, history, before) == (self.node.updated_at, self.history(), self.requests())
        self.change(maintenance=True)
        self.round()
        assert self.asked
        saved, history = self.node.updated_at, self.history()
        for _ in range(3):
            self.round()
            assert [] == self.asked
        assert (saved, history, before) == (self.node.updated_at, self.history(), self.requests())

    def test_a_node_that_offers_nothing_anyway_costs_one_question(self) -> None:
        """As after a deploy that has withdrawn it; and a deploy that ended well has said so itself."""
        self.to_active()
        assert self.node_state.shelf.withdrawn is not None
        self.round()
        assert [] == self.asked
        self.change(
            driver_internal_info={
                node_store.KEY: {k: v for k, v in self.node.driver_internal_info[node_store.KEY].items() if k != 'shelf'}
            }
        )
        history = self.history()
        self.round()
        assert ['GET /resource_providers'] == [a for a in self.asked if not a.startswith('GET /allocations')]
        assert history == self.history()
        self.round()
        assert [] == self.asked

    def test_a_node_of_which_nothing_was_ever_told_is_left_alone(self) -> None:
        """It was only enrolled."""
        self.change(provision_state=states.MANAGEABLE)
        self.round()
        assert [] == self.asked
        assert node_store.KEY not in self.node.driver_internal_info

    def test_a_card_that_was_swapped_in_maintenance_is_not_offered(self) -> None:
        """What is offered again was looked at: what does not hold up stays away, and the rest is offered."""
        self.cleaned()
        self.change(maintenance=True)
        self.round()
        state, card = self.node_state, self.gpu(0)
        # Another card stands in its place: no record of a lock is of that one.
        node_store.store(self.node, replace(state, evidence=tuple(e for e in state.evidence if e.accelerator != card)))
        self.change(maintenance=False)
        self.round()
        assert [GPU] == self.offers()
        assert any('; not published, since not verified: ' in e for e in self.history())

    def test_who_had_the_node_since_it_was_cleaned_keeps_it_off_the_shelf(self) -> None:
        """Automated cleaning is off: a look cannot tell what somebody has left. Cleaning offers it again."""
        self.to_active()
        self.change(provision_state=states.AVAILABLE)
        before = self.requests()
        self.round()
        assert ([], [], before) == (self.offers(), self.asked, self.requests())
        late = availability.rounds_of(self.service).late[self.node.uuid]
        assert 'a tenant has had the node, or a host may have written its cards, and it was not cleaned since' in late.why
        self.cleaned()
        self.round()
        assert ([GPU, GPU], []) == (self.offers(), self.asked)

    def test_a_host_that_ran_beside_an_open_card_takes_it_off_the_shelf_until_it_is_cleaned(self) -> None:
        """Nobody has had the node, and the watch has found it: no deploy would pass, and none is to be sent there."""
        self.cleaned()
        card = min(c.accelerator for c in self.node_state.custody.cards)
        node_store.store(self.node, replace(self.node_state, exposed=frozenset({card})))
        before = self.requests()
        self.round()
        assert ([], before) == (self.offers(), self.requests())
        assert 'its cards may have been written since its last cleaning' in self.history()[-1]
        for _ in range(2):
            self.round()
            assert ([], []) == (self.asked, self.offers())
        self.change(provision_state=states.MANAGEABLE)
        self.cleaned()
        assert frozenset() == self.node_state.exposed

    def test_an_adopted_node_offers_nothing(self) -> None:
        """It was on the shelf when somebody adopted it: no step of ours runs then."""
        self.cleaned()
        self.change(provision_state=states.ACTIVE)
        self.round()
        assert [] == self.offers()

    def test_what_an_instance_has_claimed_stays_its_own_and_nobody_elses(self) -> None:
        """The node goes to maintenance while an instance holds it and one of its cards."""
        self.cleaned()
        held = self.providers()[0]
        instance = self.claim((self.node.uuid, ROOT_CLASS), (held, GPU))
        self.change(provision_state=states.ACTIVE, instance_uuid=instance, maintenance=True)
        self.round()
        assert [f'({GPU})'] == self.offers()
        self.free(instance)
        assert [f'({GPU})'] == self.offers()

    def test_what_somebody_else_has_claimed_is_reserved_and_told_once(self) -> None:
        """A region can be claimed without its machine: it cannot be taken away, but nobody gets it next."""
        self.cleaned()
        other = self.claim((self.providers()[0], GPU))
        self.change(maintenance=True)
        self.round()
        assert [f'({GPU})'] == self.offers()
        assert any(f'by consumer {other}' in e for e in self.history())
        self.round()
        assert [] == self.asked
        self.free(other)
        self.change(maintenance=False)
        self.round()
        assert [GPU, GPU] == self.offers()

    def test_what_an_operator_has_reserved_stays_reserved_when_the_node_returns_and_is_told(self) -> None:
        """It is not offered in between either, and the other card is."""
        self.cleaned()
        path = f'/resource_providers/{self.providers()[0]}/inventories/{GPU}'
        self.ask('PUT', path, self.ask('GET', path) | {'reserved': 1})
        self.change(maintenance=True)
        self.round()
        assert [] == self.offers()
        self.change(maintenance=False)
        self.round()
        assert [f'({GPU})', GPU] == self.offers()
        assert 1 == sum('1 of 1 PGPU' in e and 'stays reserved, as an operator has set it' in e for e in self.history())

    def test_a_node_that_is_cleaned_offers_nothing_until_a_step_of_ours_has_said_so(self) -> None:
        """It was made manageable and cleaned within one round, and a step of somebody else takes long."""
        self.cleaned()
        theirs = {'interface': 'deploy', 'step': 'erase_devices', 'priority': 90}
        ours = {'interface': 'firmware', 'step': 'reconcile_accelerators', 'priority': 80}
        reads = {'interface': 'firmware', 'step': 'verify_accelerators', 'priority': 95}
        info = dict(self.node.driver_internal_info)
        for steps, index, offered in (
            ([ours, theirs], 1, [GPU, GPU]),
            ([ours, theirs], 0, [GPU, GPU]),
            ([reads, theirs, ours], 1, []),
        ):
            said = {'clean_steps': steps, 'clean_step_index': index}
            self.change(provision_state=states.CLEANWAIT, driver_internal_info=info | said)
            self.round()
            assert offered == self.offers(), (steps, index)
        assert any('it is being cleaned and is not verified yet' in e for e in self.history())
        self.change(provision_state=states.AVAILABLE)
        self.round()
        assert [GPU, GPU] == self.offers()

    def test_nothing_is_on_offer_while_a_step_of_ours_works_on_one_card(self) -> None:
        """What it does not touch, neither: the node went from available to cleaning before a round came by."""
        self.cleaned()
        (self._folder / 'baseline.toml').write_text(BASELINE)
        other = self.card('GPU_1')
        self.clean({'step': 'update_accelerator_firmware', 'args': {'devices': [other]}})
        self.poll()
        assert states.CLEANWAIT == self.node.provision_state
        assert [] == self.offers()
        assert states.MANAGEABLE == self.settle(), self.node.last_error

    def test_a_step_that_is_under_way_is_left_alone(self) -> None:
        """Whoever holds the node, or has a job on it, tells placement himself."""
        self.cleaned()
        self.change(maintenance=True, reservation='somebody')
        self.round()
        assert ([GPU, GPU], []) == (self.offers(), self.asked)


class TestTrouble(FitnessCase):
    """Something is in the way."""

    def test_placement_that_is_away_is_asked_less_and_less_and_then_told(self) -> None:
        """For hours: no BMC is asked meanwhile, and no round fails for it."""
        self.cleaned()
        self.change(maintenance=True)
        with mock.patch.object(PlacementClient, '_send', side_effect=PlacementUnreachable('placement: no answer')):
            self.round()
            late = availability.rounds_of(self.service).late[self.node.uuid]
            for _ in range(5):
                self.at = max(self.at, availability.rounds_of(self.service).late[self.node.uuid].at)
                self.round_without_counting()
            assert timedelta(minutes=5) == availability.rounds_of(self.service).late[self.node.uuid].pause
            assert timedelta(seconds=30) == late.pause
        self.round()
        assert [] == self.asked  # its time has not come
        self.at = availability.rounds_of(self.service).late[self.node.uuid].at
        self.round()
        assert ([], {}) == (self.offers(), availability.rounds_of(self.service).late)

    def round_without_counting(self) -> None:
        """Where placement is away."""
        availability.hand_out(self.service, self.context, self.at)
        self.node.refresh()

    def test_a_change_of_the_node_does_not_wait_for_a_pause_to_end(self) -> None:
        """It has failed for a reason that may be over now."""
        self.cleaned()
        self.change(maintenance=True)
        with mock.patch.object(PlacementClient, '_send', side_effect=PlacementUnreachable('placement: no answer')):
            self.round_without_counting()
        self.change(provision_state=states.MANAGEABLE)
        self.round()
        assert [] == self.offers()

    def test_no_bmc_is_asked_while_nova_has_not_made_the_root(self) -> None:
        """Nothing could be published then."""
        self.cleaned()
        self.change(maintenance=True)
        self.round()
        for uuid in [*self.providers(), self.node.uuid]:
            self.ask('DELETE', f'/resource_providers/{uuid}')
        self.change(maintenance=False)
        before = self.requests()
        self.round()
        assert before == self.requests()
        assert 'no root provider' in availability.rounds_of(self.service).late[self.node.uuid].why
        self.make_root()
        self.at = availability.rounds_of(self.service).late[self.node.uuid].at
        self.round()
        assert [GPU, GPU] == self.offers()

    def test_where_nothing_is_published_nobody_is_asked(self) -> None:
        """Nor where the rounds are switched off."""
        self.cleaned()
        self.change(maintenance=True)
        for off in ({'publish': False}, {'availability_interval': 0}):
            self.config(**({'publish': True, 'availability_interval': 30.0} | off), group='baremetal_acc')
            self.round()
            assert ([GPU, GPU], []) == (self.offers(), self.asked)

    def test_a_conductor_that_dies_while_it_offers_leaves_nothing_offered_that_is_not_fit(self) -> None:
        """It had told placement, and not remembered that; then the node goes to maintenance."""
        self.cleaned()
        self.change(maintenance=True)
        self.round()
        self.change(maintenance=False)
        with mock.patch.object(availability, 'seen', side_effect=SystemExit), pytest.raises(SystemExit):
            self.round_without_counting()
        self.change(reservation=None)
        assert [GPU, GPU] == self.offers()
        self.change(maintenance=True)
        self.round()
        assert [] == self.offers()
        self.change(maintenance=False)
        self.round()
        assert [GPU, GPU] == self.offers()

    def test_a_conductor_that_dies_after_a_step_has_published_leaves_nothing_offered_that_is_not_fit(self) -> None:
        """Cleaning has told placement, and nobody remembers that; Ironic lets the node fail."""
        self.to_active()
        self.clean()
        with mock.patch('baremetal_acc_ironic.steps.runner.end_job', side_effect=SystemExit), pytest.raises(SystemExit):
            self.settle()
        assert [GPU, GPU] == self.offers()
        self.node.refresh()
        state = node_store.load(self.node)
        assert state.shelf.withdrawn is None
        self.change(provision_state=states.CLEANFAIL, reservation=None, maintenance=True, clean_step={})
        node_store.store(self.node, replace(state, job=None))
        self.round()
        assert [] == self.offers()


class TestDeleted(FitnessCase):
    """The node goes for good."""

    def refresh(self) -> None:
        """There is none any more."""

    def gone(self) -> None:
        """Somebody deletes it."""
        self.round()
        self.node.destroy()
        self.at += timedelta(seconds=1)

    def test_what_placement_has_of_it_is_deleted(self) -> None:
        """All that is ours; the root is Nova's."""
        self.cleaned()
        self.gone()
        self.round()
        assert [] == self.providers()
        assert {} == availability.rounds_of(self.service).gone
        self.round()
        assert [] == self.asked
        self.ask('GET', f'/resource_providers/{self.node.uuid}')

    def test_nova_was_quicker(self) -> None:
        """Nothing is there: that is what was wanted."""
        self.cleaned()
        self.gone()
        for uuid in [*self.providers(), self.node.uuid]:
            self.ask('DELETE', f'/resource_providers/{uuid}')
        self.round()
        assert {} == availability.rounds_of(self.service).gone

    def test_what_somebody_holds_is_deleted_when_he_is_gone(self) -> None:
        """Until then nobody else gets it."""
        self.cleaned()
        held = self.providers()[0]
        consumer = self.claim((held, GPU))
        self.gone()
        self.round()
        assert ([held], [f'({GPU})']) == (self.providers(), self.offers())
        self.free(consumer)
        self.at = availability.rounds_of(self.service).gone[self.node.uuid].at
        self.round()
        assert [] == self.providers()

    def test_a_node_that_another_conductor_has_now_is_not_taken_for_deleted(self) -> None:
        """Nodes change hands whenever a conductor comes or goes."""
        self.cleaned()
        self.round()
        with mock.patch.object(self.service, '_mapped_to_this_conductor', return_value=False):
            self.round()
        assert ({}, [GPU, GPU]) == (availability.rounds_of(self.service).gone, self.offers())


class TestAnotherInterface(FitnessCase):
    """An operator gives the node another firmware interface: no step of ours runs on it any more."""

    def switched(self) -> None:
        """From ours to none."""
        self.cleaned()
        self.round()
        self.change(firmware_interface='no-firmware')

    def test_nothing_is_on_offer_of_a_node_that_is_deployed_without_us(self) -> None:
        """What its instance has claimed is reserved; it is seen to once, and no other node is taken for it."""
        self.switched()
        held = self.providers()[0]
        consumer = self.claim((self.node.uuid, ROOT_CLASS), (held, GPU))
        self.change(instance_uuid=consumer, provision_state=states.ACTIVE)
        self.round()
        assert [f'({GPU})'] == self.offers()
        self.round()
        assert [] == self.asked

    def test_placement_that_is_away_is_asked_again_later(self) -> None:
        """After a pause."""
        self.switched()
        with mock.patch.object(PlacementClient, '_send', side_effect=PlacementUnreachable('placement: no answer')):
            availability.hand_out(self.service, self.context, self.at)
        self.round()
        assert ([], [GPU, GPU]) == (self.asked, self.offers())
        self.at = availability.rounds_of(self.service).late[self.node.uuid].at
        self.round()
        assert [] == self.offers()
        assert {} == availability.rounds_of(self.service).late

    def test_with_our_interface_again_it_is_offered_when_it_was_cleaned(self) -> None:
        """Nobody knows what was done to it meanwhile."""
        self.switched()
        self.round()
        self.change(firmware_interface='redfish-acc')
        self.round()
        assert [] == self.offers()
        self.cleaned()

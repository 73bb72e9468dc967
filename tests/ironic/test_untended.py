# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The watch over nodes without a user: the host is off or the locks are proven; a deviation is reported and ended.

A real conductor runs its periodics over an emulated machine, at times that the test sets.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from ironic.common import states
from ironic.drivers.modules import ipmitool
from oslo_messaging.notify import _impl_test

from baremetal_acc.model.custody import BreakCause, Origin
from baremetal_acc.planning import custody
from baremetal_acc_ironic import power
from baremetal_acc_ironic.periodics import round_reading, unused_nodes, watch, watch_states
from baremetal_acc_ironic.periodics.watch_states import EXPECTED, ExpectedState
from baremetal_acc_ironic.state import node_state, node_store
from baremetal_acc_ironic.state.node_state import NodeState, StartAllowed
from tests.ironic import ipmi_case, releases
from tests.ironic.api import LESSEE
from tests.ironic.ipmi_case import IpmiCase
from tests.ironic.test_gate import writing
from tests.ironic.test_watch import WatchCase

UNTENDED = {s for s, row in EXPECTED.items() if row.expected is ExpectedState.UNTENDED}
LEFT = {s for s, row in EXPECTED.items() if row.expected is ExpectedState.LEFT}
LOCK = 'HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'
BEGUN, ENDED = [('start', 'host-on')], [('start', 'host-on'), ('end', 'host-on')]


class TestTable:
    """What is expected in each state."""

    def test_it_has_every_state_of_ironic_and_no_other(self) -> None:
        """A state that Ironic gains has to be thought of."""
        assert set(releases.MACHINE.states) == EXPECTED.keys()

    def test_every_state_in_which_a_host_may_be_on_for_long_is_watched(self) -> None:
        """The others are ended by Ironic itself, or hold the lock of the node."""
        worked_on = {s for s, row in EXPECTED.items() if row.expected is ExpectedState.WORKED_ON}
        assert worked_on == {
            'verifying',
            'inspecting',
            'adopting',
            'cleaning',
            'clean wait',
            'deploying',
            'servicing',
            'rescuing',
            'unrescuing',
            'deleting',
        }
        assert set(watch_states.WATCHED) == EXPECTED.keys() - worked_on
        assert UNTENDED == {
            'enroll',
            'manageable',
            'available',
            'inspect wait',
            'inspect failed',
            'clean hold',
            'clean failed',
            'adopt failed',
        }
        assert all(row.why for row in EXPECTED.values())

    def test_a_state_that_is_not_known_is_not_watched(self) -> None:
        """And nothing is done in it."""
        for state in (None, '', 'brand new', states.POWER_ON):
            row = watch_states.expectation(state)
            assert (ExpectedState.WORKED_ON, False) == (row.expected, row.nobodys)


class UntendedCase(WatchCase):
    """A node that was cleaned once, so that its locks are ours; each card has a chain of custody."""

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.press('ForceOff')
        kept, now = self.node_state.custody, datetime.now(UTC)
        for card in kept.cards:
            kept = custody.begun(kept, card.accelerator, Origin.ACCEPTED, now, by=['root'], until=now + timedelta(days=1))
        node_store.store(self.node, replace(self.node_state, custody=kept))
        self.cards = {card.accelerator for card in kept.cards}
        self.begun = self.node_state
        self.round()  # the first time that the conductor sees the node; from the next moment on it is due
        _impl_test.reset()

    def press(self, reset: str) -> None:
        """Somebody presses the button of the machine; until the host has got there."""
        wanted = 'On' if reset == 'On' else 'Off'
        if self.host != wanted:
            self.machine.power(reset)
        deadline = time.monotonic() + 10
        while self.host != wanted:
            assert time.monotonic() < deadline, self.host
            time.sleep(0.02)

    @property
    def host(self) -> str:
        """The machine's truth: the power of its host."""
        return str(self.machine.truth()['systems']['host']['power'])

    def be(self, state: str, *, on: bool = True, **values: Any) -> None:
        """The node in a state, whatever led there, as it was remembered at the beginning."""
        clean = {'instance_uuid': None, 'lessee': None, 'maintenance': False, 'fault': None, 'disable_power_off': False}
        self.dbapi.update_node(self.node.id, {'provision_state': state} | clean | values)
        self.node.refresh()
        node_store.store(self.node, self.begun)
        self.press('On' if on else 'ForceOff')
        _impl_test.reset()

    def open(self, state: str = states.AVAILABLE, **values: Any) -> None:
        """Likewise, with the host on and a card open to it."""
        self.be(state, **values)
        self.open_root()

    @property
    def gpu_0(self) -> str:
        """The card that is open then."""
        return self.gpu(0)

    def causes(self) -> dict[str, BreakCause | None]:
        """What has broken the chain of each card."""
        chains = [c.chain for c in self.node_state.custody.cards if c.chain is not None]
        return {str(c.accelerator): None if c.broken is None else c.broken.cause for c in chains}

    def assert_exposed(self) -> None:
        """The card that stood open, and no other."""
        assert {self.gpu_0} == self.node_state.exposed
        other = dict.fromkeys(self.cards)
        assert other | {self.gpu_0: BreakCause.HOST_RAN} == self.causes()

    def assert_quiet(self) -> None:
        """Nothing was told, kept or done. A stored verdict that has ended in an earlier case stays so."""
        found = replace(self.node_state, verdict=self.begun.verdict)
        assert ([], self.begun, 'On') == (self.told(), found, self.host), self.history()


class TestHostOn(UntendedCase):
    """The host is on, and a card stands open to it."""

    def test_in_every_state_in_which_nobody_uses_the_node_it_is_told_exposed_and_ended(self) -> None:
        """Once when it begins and once when it is over; the host goes off where the state says that nobody has the node."""
        for state in sorted(UNTENDED | LEFT):
            self.open(state)
            self.round()
            assert BEGUN == self.told(), state
            self.assert_exposed()
            nobodys = EXPECTED[state].nobodys
            assert ('Off' if nobodys else 'On') == self.host, state
            assert (state, states.NOSTATE) == (self.node.provision_state, self.node.target_power_state)
            if nobodys:
                assert states.POWER_OFF == self.node.power_state, 'so that the power synchronisation starts nothing'
            self.round()
            assert (ENDED if nobodys else BEGUN) == self.told(), state
            self.round()
            assert (ENDED if nobodys else BEGUN) == self.told(), 'told once'
            self.assert_exposed()
            assert any(self.gpu_0 in e and state in e for e in self.history() if e.startswith('alarm: ')), state
        assert {s for s in UNTENDED | LEFT if not EXPECTED[s].nobodys} == {
            'adopt failed',
            'service hold',
            'service failed',
            'rescue wait',
            'rescue failed',
            'unrescue failed',
        }

    def test_a_flow_that_writes_or_takes_over_has_the_host_to_itself(self) -> None:
        """No state in which one is at work has rounds of this kind."""
        for state in sorted(EXPECTED.keys() - UNTENDED - LEFT - {states.ACTIVE, states.RESCUE}):
            self.open(state)
            self.round()
            self.assert_quiet()

    def test_by_option_it_is_told_and_the_host_runs_on(self) -> None:
        """The cards are exposed all the same."""
        self.config(group='baremetal_acc', power_off_untended_host=False)
        self.open()
        for _ in range(2):
            self.round()
            assert (BEGUN, 'On') == (self.told(), self.host)
            self.assert_exposed()

    def test_the_host_of_whoever_may_be_at_it_runs_on(self) -> None:
        """An instance, a lessee, an operator's maintenance, a node that Ironic is not to power off."""
        uuid = '5d7cd2ca-9b0f-4f9e-a5b4-3c1f8e0d2b6a'
        for values in ({'instance_uuid': uuid}, {'lessee': LESSEE}, {'maintenance': True}, {'disable_power_off': True}):
            self.open(**values)
            with mock.patch.object(unused_nodes.manager_utils, 'node_power_action') as asked:
                self.round()
            assert (BEGUN, 'On', False) == (self.told(), self.host, asked.called), values
            self.assert_exposed()
        self.be(states.AVAILABLE)
        self.open(maintenance=True, fault='clean failure')
        self.round()
        assert 'Off' == self.host, 'Ironic has put it there, and no operator'

    def test_it_is_powered_off_once_nobody_is_at_it_any_more(self) -> None:
        """Though it was told before."""
        self.open(maintenance=True)
        self.round()
        self.dbapi.update_node(self.node.id, {'maintenance': False})
        self.round()
        assert (BEGUN, 'Off') == (self.told(), self.host)

    def test_a_bmc_that_does_not_power_it_off_is_asked_each_round_and_told_once(self) -> None:
        """The alarm stays, and the cards are exposed."""
        self.machine.fault('http-status', uri='*/Systems/*/Actions/ComputerSystem.Reset', status=400)
        self.open()
        for _ in range(2):
            self.round()
            assert (BEGUN, 'On') == (self.told(), self.host)
        self.machine.clear_faults()
        self.round()
        assert 'Off' == self.host
        self.round()
        assert ENDED == self.told()

    def test_a_lock_that_the_machine_has_lost_while_the_host_runs_is_found_by_the_next_round(self) -> None:
        """The locks are read again in each, though they were proven in the one before."""
        self.be(states.AVAILABLE)
        self.round()
        self.assert_quiet()
        self.open_root()
        self.round()
        assert (BEGUN, 'Off') == (self.told(), self.host)
        self.assert_exposed()

    def test_a_lock_that_is_open_while_the_host_is_off_is_no_trouble(self) -> None:
        """The next cleaning or deploy closes it."""
        self.be(states.AVAILABLE, on=False)
        self.open_root()
        self.round()
        assert ([], self.begun) == (self.told(), self.node_state)

    def test_a_card_that_is_not_shown_is_not_proven(self) -> None:
        """Whoever runs on the host may have hidden it."""
        self.be(states.AVAILABLE)
        self.machine.fault('device-absent', device='GPU_0')
        self.round()
        assert BEGUN == self.told()
        self.assert_exposed()

    def test_somebody_who_gets_the_node_ends_the_alarm(self) -> None:
        """What the watch says of it then is another matter."""
        self.config(group='baremetal_acc', power_off_untended_host=False)
        self.open()
        self.round()
        assert BEGUN == self.told()
        self.dbapi.update_node(self.node.id, {'provision_state': states.ACTIVE})
        self.round()
        assert ('end', 'host-on') in self.told()
        assert () == self.node_state.untended

    def test_the_card_is_written_by_the_next_cleaning_and_nobody_gets_it_before(self) -> None:
        """At the version that it shows."""
        self.open()
        self.round()
        self.assert_exposed()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert f'{self.gpu_0} was not written again' in self.node.last_error
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.to_active()
        assert frozenset() == self.node_state.exposed
        (done,) = [e for e in self.history() if 'reconcile_accelerators is done' in e and 'from' in e]
        assert self.gpu_0 in done
        assert self.gpu(1) not in done

    def test_a_lease_that_is_shorter_than_the_interval_leaves_nothing_unseen(self) -> None:
        """The node was somebody's and came back, without cleaning, between two rounds."""
        self.be(states.AVAILABLE)
        self.round()
        self.assert_quiet()
        self.to_active()
        self.dbapi.update_node(self.node.id, {'provision_state': states.AVAILABLE})
        self.press('On')
        self.open_root()
        self.round()
        assert (BEGUN, 'Off') == (self.told(), self.host)
        assert {self.gpu_0} == self.node_state.exposed


class TestQuiet(UntendedCase):
    """Nothing is wrong."""

    def asked(self) -> int:
        """Requests that one round takes."""
        before = self.gets()
        self.round()
        return self.gets() - before

    def test_a_host_that_is_off_costs_one_request_and_no_save(self) -> None:
        """And three where the session with the BMC has to be opened; nothing else is asked, whatever the state."""
        for state in sorted(UNTENDED | LEFT):
            self.be(state, on=False)
            saved = self.node.updated_at
            assert self.asked() <= 3, state
            assert 1 == self.asked(), state
            assert (saved, []) == (self.node.updated_at, self.told())

    def test_a_host_that_is_on_beside_proven_locks_costs_a_glance_more(self) -> None:
        """After one whole look; nothing is kept with the node."""
        self.be(states.AVAILABLE)
        self.round()
        self.assert_quiet()
        locks = sum(w.lock for w in watch.rounds_of(self.service).judged[self.node.uuid].witnesses)
        saved = self.node.updated_at
        assert 0 < self.asked() <= locks + 3 + 1
        self.assert_quiet()
        assert saved == self.node.updated_at

    def test_another_look_comes_when_the_last_one_is_old_or_its_basis_another(self) -> None:
        """Else a record that was lost would count."""
        self.be(states.AVAILABLE)
        for _ in range(2):
            self.round()
        usual = self.asked()
        judged = watch.rounds_of(self.service).judged
        judged[self.node.uuid] = replace(judged[self.node.uuid], at=datetime.now(UTC) - timedelta(hours=2))
        assert self.asked() > usual
        assert usual == self.asked()
        node_store.store(self.node, replace(self.begun, evidence=()))
        self.round()
        assert BEGUN == self.told(), 'nothing says any more that these locks are ours'

    def test_where_the_host_is_found_once_no_look_is_needed_again(self) -> None:
        """Of a node whose driver_info names no System, and that was never looked at."""
        info = dict(self.node.driver_info)
        del info['redfish_system_id']
        self.be(states.AVAILABLE, on=False, driver_info=info)
        node_store.store(self.node, replace(self.begun, seen=None))
        assert self.asked() > 3
        assert self.asked() <= 3
        assert 1 == self.asked()

    def test_what_was_found_at_another_bmc_or_of_another_system_counts_for_nothing(self) -> None:
        """An operator has corrected driver_info."""
        self.be(states.AVAILABLE, on=False)
        assert self.asked() <= 3
        self.be(states.AVAILABLE, on=False, driver_info=self.node.driver_info | {'redfish_system_id': '/redfish/v1/Systems/x'})
        for _ in range(3):
            self.round()
        assert [('start', 'unreadable')] == self.told()

    def test_rounds_come_at_the_nodes_moment_and_only_here(self) -> None:
        """One who has lost the node forgets it, and its session with the BMC."""
        self.be(states.AVAILABLE)
        self.round()
        asked = self.gets()
        self.round(later=timedelta(seconds=1))
        assert asked == self.gets()
        rounds = watch.rounds_of(self.service)
        assert self.node.uuid in rounds.judged
        assert self.node.uuid in rounds.hosts
        mapped = self.service._mapped_to_this_conductor
        self.service._mapped_to_this_conductor = lambda *_: False
        try:
            self.round()
        finally:
            self.service._mapped_to_this_conductor = mapped
        assert asked == self.gets()
        assert ({}, {}, frozenset()) == (rounds.judged, rounds.hosts, rounds.sessions.owners())

    def test_a_node_that_is_locked_or_worked_on_is_left_alone(self) -> None:
        """Whoever has it may be about to start its host."""
        self.open()
        with mock.patch.object(node_store, 'busy', return_value=True):
            self.round()
        self.assert_quiet()


class TestAllowed(UntendedCase):
    """Somebody may have the host on."""

    def allowed(self, *, vouched: bool = True, hours: int = 1) -> StartAllowed:
        """An operator's word."""
        now = datetime.now(UTC)
        return StartAllowed(
            since=now - timedelta(hours=3), until=now + timedelta(hours=hours), by='root', why='to look', vouched=vouched
        )

    def test_an_operators_word_counts_while_it_holds(self) -> None:
        """Not after its end, and not for a node that somebody has."""
        self.open()
        before = self.begun
        self.begun = replace(before, start_allowed=self.allowed())
        node_store.store(self.node, self.begun)
        self.round()
        self.assert_quiet()
        self.begun = replace(before, start_allowed=self.allowed(hours=-1))
        self.be(states.AVAILABLE)
        self.round()
        assert (BEGUN, 'Off') == (self.told(), self.host)
        self.begun = replace(before, start_allowed=self.allowed())
        self.be(states.AVAILABLE, lessee=LESSEE)
        self.round()
        assert (BEGUN, 'On') == (self.told(), self.host)

    def test_who_does_not_vouch_for_what_boots_has_the_cards_exposed(self) -> None:
        """Whoever has pressed the button; and the host runs on."""
        self.open()
        node_store.store(self.node, replace(self.begun, start_allowed=self.allowed(vouched=False)))
        self.round()
        assert ([], 'On') == (self.told(), self.host)
        assert self.cards == self.node_state.exposed
        saved = self.node.updated_at
        self.round()
        assert saved == self.node.updated_at

    def test_the_operators_ramdisk_may_run(self) -> None:
        """Between flows by fast track, in a cleaning that is held, in an inspection that Ironic boots."""
        self.config(group='deploy', fast_track=True)
        beat = datetime.now(UTC).replace(tzinfo=None).isoformat()
        agent = {'agent_url': 'https://192.0.2.1:9999', 'agent_last_heartbeat': beat}
        boots = {power.MANAGED_INSPECTION: True}
        cases = [(s, agent) for s in (states.AVAILABLE, states.MANAGEABLE, states.ENROLL, states.CLEANHOLD)]
        for state, info in [*cases, (states.INSPECTWAIT, boots)]:
            self.open(state)
            for name, value in info.items():
                self.node.set_driver_internal_info(name, value)
            self.node.save()
            self.round()
            self.assert_quiet()
            # Nobody believes in a ramdisk that the owner's members have chosen.
            with mock.patch.object(unused_nodes.ramdisk_source, 'trusted', return_value=False):
                self.round()
            assert (BEGUN, 'Off') == (self.told(), self.host), state
            for name in info:
                self.node.del_driver_internal_info(name)
            self.node.save()

    def test_a_ramdisk_that_is_silent_or_not_to_be_trusted_is_none(self) -> None:
        """By heartbeat, and by the options."""
        for fast_track, trust, minutes in ((True, True, 60), (False, True, 0), (True, False, 0)):
            self.config(group='deploy', fast_track=fast_track)
            self.config(group='baremetal_acc', trust_ramdisk=trust)
            beat = datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=minutes)
            self.open()
            self.node.set_driver_internal_info('agent_url', 'https://192.0.2.1:9999')
            self.node.set_driver_internal_info('agent_last_heartbeat', beat.isoformat())
            self.node.save()
            self.round()
            assert (BEGUN, 'Off') == (self.told(), self.host), (fast_track, trust, minutes)


class TestDayOne(UntendedCase):
    """Nothing of ours has ever worked on the node."""

    def test_a_host_that_is_on_is_told_and_nothing_else_is_done(self) -> None:
        """So every node begins; its cards are written by no cleaning for that."""
        for state in (states.ENROLL, states.MANAGEABLE):
            self.open(state)
            node_store.store(self.node, NodeState())
            self.round()
            assert (BEGUN, 'On', frozenset()) == (self.told(), self.host, self.node_state.exposed), state
            self.round()
            assert BEGUN == self.told()
            self.press('ForceOff')
            self.round()
            assert ENDED == self.told()

    def test_each_thing_that_was_proven_before_counts(self) -> None:
        """A chain, a lock that we have closed, a card that was as it should be, a hand-over."""
        begun = self.begun
        card = next(iter(begun.known))
        for some in (
            {'custody': begun.custody},
            {'evidence': begun.evidence},
            {'known': begun.known},
            {'handed_over': True},
            {'handed': 'x'},
            {'exposed': frozenset({card})},
        ):
            assert unused_nodes.trusted(replace(NodeState(), **some)), some
        assert not unused_nodes.trusted(NodeState())

    def test_a_bmc_that_cannot_be_read_yet_is_no_alarm(self) -> None:
        """Its login may be wrong still; once Ironic has verified it, it is one."""
        self.be(states.ENROLL)
        self.node.driver_internal_info = {}
        self.node.save()
        self.machine.fault('password-rotated')
        self.log_out()
        for _ in range(4):
            self.round()
        assert [] == self.told()
        self.dbapi.update_node(self.node.id, {'provision_state': states.MANAGEABLE})
        for _ in range(3):
            self.round()
        assert [('start', 'unreadable')] == self.told()

    def test_a_node_whose_bmc_is_not_named_yet_is_no_alarm(self) -> None:
        """It is being enrolled."""
        self.be(states.ENROLL, driver_info={})
        self.node.driver_internal_info = {}
        self.node.save()
        for _ in range(4):
            self.round()
        assert [] == self.told()
        self.dbapi.update_node(self.node.id, {'provision_state': states.MANAGEABLE})
        self.round()
        assert [('start', 'unloadable')] == self.told()


class TestUnread(UntendedCase):
    """Nobody can say."""

    def test_a_bmc_that_says_nothing_is_an_alarm_after_three_rounds_and_never_a_power_off(self) -> None:
        """An alarm that was there before stays meanwhile."""
        self.config(group='baremetal_acc', power_off_untended_host=False)
        self.open()
        self.round()
        assert BEGUN == self.told()
        self.config(group='baremetal_acc', power_off_untended_host=True)
        self.machine.fault('password-rotated')
        self.log_out()
        _impl_test.reset()
        for expected in ([], [], [('start', 'unreadable')], [('start', 'unreadable')]):
            self.round()
            assert (expected, 'On') == (self.told(), self.host)
        self.machine.clear_faults()
        self.round()
        assert [('start', 'unreadable'), ('end', 'unreadable')] == self.told()
        assert 'Off' == self.host

    def test_what_is_remembered_and_cannot_be_read_is_an_alarm_of_its_own(self) -> None:
        """Told once and when it is over, in every state that is watched; nothing is written to such a node."""
        for state in (states.AVAILABLE, states.ACTIVE):
            self.open(state)
            kept = self.node.driver_internal_info[node_store.KEY]
            broken = {'format': 99}
            self.node.set_driver_internal_info(node_store.KEY, broken)
            self.node.save()
            for _ in range(2):
                self.round()
                assert [('start', 'unloadable')] == self.told(), state
            assert ('On', broken) == (self.host, self.node.driver_internal_info[node_store.KEY])
            self.node.set_driver_internal_info(node_store.KEY, kept)
            self.node.save()
            self.round()
            assert ('end', 'unloadable') in self.told()
            assert {} == watch.rounds_of(self.service).unloaded

    def test_so_is_a_driver_info_that_is_wrong(self) -> None:
        """At once: no round will read it."""
        self.be(states.AVAILABLE)
        info = dict(self.node.driver_info)
        self.dbapi.update_node(self.node.id, {'driver_info': info | {'acc_bmcs': {'dpu': {'node': 'none'}}}})
        self.round()
        assert [('start', 'unloadable')] == self.told()
        gone = {'dpu': {'node': '5d7cd2ca-9b0f-4f9e-a5b4-3c1f8e0d2b6a'}}
        self.dbapi.update_node(self.node.id, {'driver_info': info | {'acc_bmcs': gone}})
        self.round()
        assert [('start', 'unloadable')] == self.told(), 'a child that is gone is the same alarm'
        self.dbapi.update_node(self.node.id, {'driver_info': info})
        self.round()
        assert [('start', 'unloadable'), ('end', 'unloadable')] == self.told()


class TestRaces(UntendedCase):
    """Something happens to the node while it is read."""

    def meanwhile(self, **values: Any) -> None:
        """One round, during whose look the node is changed."""
        observe = round_reading.execution.observe

        def changed(*arguments: Any, **named: Any) -> Any:
            found = observe(*arguments, **named)
            self.dbapi.update_node(self.node.id, values)
            return found

        watch.rounds_of(self.service).judged.clear()
        with mock.patch.object(round_reading.execution, 'observe', changed):
            self.round()

    def test_a_flow_that_begins_meanwhile_is_not_disturbed(self) -> None:
        """Nor one that has begun and ended: its ramdisk was what ran."""
        for state in (states.CLEANING, states.DEPLOYING, states.CLEANWAIT, states.INSPECTING, states.AVAILABLE):
            self.open()
            self.meanwhile(provision_state=state)
            self.node.provision_state = states.AVAILABLE
            self.assert_quiet()

    def test_what_a_step_has_stored_meanwhile_is_not_undone(self) -> None:
        """The next round reads it again."""
        self.open()
        info = dict(self.node.driver_internal_info)
        other = replace(self.begun, opened=node_state.Opened(since=datetime.now(UTC), why='a step'))
        node_store.store(self.node, other)
        stored, other = self.node.driver_internal_info, self.node_state
        self.dbapi.update_node(self.node.id, {'driver_internal_info': info})
        self.meanwhile(driver_internal_info=stored)
        assert ([], other, 'On') == (self.told(), self.node_state, self.host)
        self.round()
        assert (BEGUN, 'Off') == (self.told(), self.host)

    def test_a_job_that_has_begun_meanwhile_is_left_alone(self) -> None:
        """It holds the host off itself, or knows why it is on."""
        self.open()
        info = dict(self.node.driver_internal_info)
        job = replace(writing(), custody=self.begun.custody, undos=self.begun.undos)
        node_store.store(self.node, replace(self.begun, job=job))
        stored, busy = self.node.driver_internal_info, self.node_state
        self.dbapi.update_node(self.node.id, {'driver_internal_info': info})
        self.meanwhile(driver_internal_info=stored)
        assert ([], busy, 'On') == (self.told(), self.node_state, self.host)

    def test_who_gets_the_node_meanwhile_is_not_powered_off(self) -> None:
        """Asked under the lock of the node."""
        self.open()
        self.meanwhile(instance_uuid='5d7cd2ca-9b0f-4f9e-a5b4-3c1f8e0d2b6a')
        assert (BEGUN, 'On') == (self.told(), self.host)

    def test_whoever_holds_the_node_for_ever_keeps_nobody_from_knowing(self) -> None:
        """The log at once, and everybody with the third round."""
        self.config(group='conductor', node_locked_retry_attempts=1)
        self.open()
        for expected in ([], [], BEGUN, BEGUN):
            with mock.patch.object(round_reading.LOG, 'error') as error:
                self.meanwhile(reservation='somebody')
            self.dbapi.update_node(self.node.id, {'reservation': None})
            assert (expected, 'On') == (self.told(), self.host)
            assert 'another task holds the node' in str(error.call_args)
        self.round(later=timedelta(seconds=1))
        assert 'Off' == self.host, 'rounds come with every tick until one is ended'

    def test_a_conductor_that_takes_over_tells_nothing_twice(self) -> None:
        """What was told is kept with the node."""
        self.config(group='baremetal_acc', power_off_untended_host=False)
        self.open()
        self.round()
        self.log_out()
        watch._CONDUCTORS.pop(self.service)
        watch.hand_out(self.service, self.context, self.at)
        self.round()
        assert BEGUN == self.told()


class TestFurtherBmcs(UntendedCase):
    """A machine with a DPU, which has a BMC and a System of its own."""

    product = 'acc-server'
    parameters = {}  # noqa: RUF012
    baseline = 'format = 1\n\n[[rule]]\nname = "all"\nblock = ["host-device"]\n'

    def test_only_the_host_is_asked_while_it_is_off(self) -> None:
        """What the DPU's own processor runs is never off for good."""
        self.be(states.AVAILABLE, on=False)
        self.round()
        before = {name: sum(bmc['requests'].values()) for name, bmc in self.machine.counters().items()}
        self.round()
        after = {name: sum(bmc['requests'].values()) for name, bmc in self.machine.counters().items()}
        assert len(before) > 1
        assert {name: (1 if name == 'host' else 0) for name in before} == {n: after[n] - before[n] for n in before}
        assert ([], self.begun) == (self.told(), self.node_state)

    def test_with_the_host_on_the_locks_of_all_cards_are_read(self) -> None:
        """Those that the DPU's BMC shows as well."""
        self.be(states.AVAILABLE)
        self.round()
        self.round()
        self.assert_quiet()
        judged = watch.rounds_of(self.service).judged[self.node.uuid]
        assert len({w.ref.bmc for w in judged.witnesses}) > 1


class TestIpmi(UntendedCase, IpmiCase):
    """A machine that is spoken to by IPMI alone. Ironic's own power, which needs ipmitool, presses the button here."""

    baseline = IpmiCase.baseline

    def setUp(self) -> None:
        def switch(_: Any, _task: Any, power_state: str, timeout: int | None = None) -> None:
            self.press('On' if power_state == states.POWER_ON else 'ForceOff')

        def state(_: Any, _task: Any) -> str:
            return str(states.POWER_ON if self.host == 'On' else states.POWER_OFF)

        for name, value in (('set_power_state', switch), ('get_power_state', state)):
            patch = mock.patch.object(ipmitool.IPMIPower, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        for owner, name in ((ipmitool, '_constructor_checks'), (ipmi_case, 'program')):
            patch = mock.patch.object(owner, name)
            patch.start()
            self.addCleanup(patch.stop)
        super().setUp()

    def open_root(self, *, enabled: bool = True) -> None:
        """The firewall is opened behind our back."""
        self.somebody_opens(*self.undone())

    def test_its_host_is_read_and_powered_off_likewise(self) -> None:
        """By one command where it is off, over a session that is not kept."""
        self.be(states.AVAILABLE, on=False)
        self.round()
        assert ([], self.begun) == (self.told(), self.node_state)
        assert frozenset() == watch.rounds_of(self.service).sessions.owners()
        self.be(states.AVAILABLE)
        self.round()
        self.assert_quiet()
        self.round()
        self.assert_quiet()
        self.open_root()
        self.round()
        assert (BEGUN, 'Off') == (self.told(), self.host), self.history()
        assert self.cards == self.node_state.exposed
        self.round()
        assert ENDED == self.told()

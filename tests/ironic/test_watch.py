# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The watch reports once what happens to a node that is with a tenant, and does what the rules say.

A real conductor runs its periodics over an emulated machine, at times that the test sets.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from ironic.common import states
from ironic.conductor import task_manager
from oslo_messaging.notify import _impl_test

from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.bmc.redfish.writer import RedfishWriter
from baremetal_acc.model.lock import LockState
from baremetal_acc_ironic.periodics import round_reading, watch
from baremetal_acc_ironic.reporting import alarm
from baremetal_acc_ironic.state import node_store, provision_state
from tests.ironic.case import BASELINE, GPU_NEW, GPU_OLD, IronicCase
from tests.unit.planning import values as v

ROOT = '/redfish/v1/Chassis/HGX_ERoT_GPU_0'
STEP = timedelta(minutes=6)
"""Longer than the interval: each round of a test is due."""


RULES = BASELINE.replace(GPU_NEW, GPU_OLD)
"""What the machine runs already: these tests are about what comes after."""


class WatchCase(IronicCase):
    """A node that was handed over, and listeners for notifications."""

    baseline = RULES

    def setUp(self) -> None:
        super().setUp()
        self.listen()
        self.addCleanup(self.log_out)
        self.at = datetime.now(UTC)

    def log_out(self) -> None:
        """Of the sessions that are kept, while the machine still answers."""
        sessions = watch.rounds_of(self.service).sessions
        for _, connection in list(sessions._open.values()):
            connection.close()
        sessions._open.clear()

    def round(self, *, later: timedelta = STEP) -> None:
        """One round of the periodic, some time after the one before."""
        self.at += later
        watch.hand_out(self.service, self.context, self.at)
        self.node.refresh()

    def handed_over(self) -> None:
        """To a tenant, and looked at for the first time."""
        self.to_active()
        self.round()
        _impl_test.reset()

    def alarms(self) -> list[str]:
        """Kinds of those that are known."""
        watched = self.node_state.watched
        return [] if watched is None else [str(a.trouble.kind) for a in watched.alarms]

    def told(self) -> list[tuple[str, str]]:
        """How each alarm of a notification began or ended, and its kind."""
        found = []
        for _, message, _, _ in _impl_test.NOTIFICATIONS:
            if message['event_type'].startswith('baremetal.accelerator.alarm.'):
                found.append((message['event_type'].rpartition('.')[2], message['payload']['ironic_object.data']['kind']))
        return found

    def open_root(self, *, enabled: bool = True) -> None:
        """Somebody with the operator's password opens a lock behind our back."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            target = watch.target_of(task)
            connection = round_reading.tools_of(task, node_store.load(task.node), images=False).connect(target.bmcs[0])
        try:
            writer = connection.writer()
            writer.patch(writer.fresh(ROOT), {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': enabled}}})
        finally:
            connection.close()

    def gets(self) -> int:
        """Requests of all BMCs but those that log out."""
        counted = [bmc['requests'] for bmc in self.machine.counters().values()]
        return sum(times for bmc in counted for what, times in bmc.items() if not what.startswith('DELETE '))


class TestQuiet(WatchCase):
    """Nothing happens."""

    def test_the_first_look_comes_at_once_and_quiet_rounds_cost_little_and_leave_no_trace(self) -> None:
        """At the next tick, whatever the node's moment is; then at most lock resources + 3 requests, and no save."""
        self.to_active()
        assert self.node_state.watched is None
        self.round(later=timedelta(seconds=1))
        watched = self.node_state.watched
        assert watched is not None
        assert (self.node_state.lifecycle, ()) == (watched.lifecycle, watched.alarms)
        assert any(
            'first inspection after the hand-over found accelerators and locks as they were verified' in e
            for e in self.history()
        )
        locks = sum(1 for w in watched.witnesses if w.lock)
        assert locks >= 4
        self.round()
        history, saved, asked = self.history(), self.node.updated_at, self.gets()
        self.round()
        assert 0 < self.gets() - asked <= locks + 3
        assert (history, saved, watched) == (self.history(), self.node.updated_at, self.node_state.watched)
        assert states.ACTIVE == self.node.provision_state
        asked = self.gets()
        self.round(later=timedelta(seconds=1))
        assert asked == self.gets(), 'not before its moment comes again'
        self.config(group='baremetal_acc', watch_interval=0)
        self.round()
        assert asked == self.gets(), 'nobody watches then'

    def test_only_the_conductor_that_has_the_node_watches_it_and_sessions_do_not_outlive_that(self) -> None:
        """By Ironic's hash ring; a node that has left is forgotten."""
        self.handed_over()
        self.round()
        rounds = watch.rounds_of(self.service)
        assert {self.node.uuid} == rounds.sessions.owners()
        asked = self.gets()
        mapped = self.service._mapped_to_this_conductor
        self.service._mapped_to_this_conductor = lambda *_: False
        try:
            self.round()
        finally:
            self.service._mapped_to_this_conductor = mapped
        assert asked == self.gets()
        assert frozenset() == rounds.sessions.owners()
        assert self.node.uuid not in rounds.last


class TestLostLock(WatchCase):
    """A lock is open."""

    def test_it_is_closed_again_and_read_back_and_told_once_as_begun_and_over(self) -> None:
        """By default. The card is written anew when the node is ours again."""
        self.handed_over()
        gpu = self.gpu(0)
        self.open_root()
        assert False is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']
        with mock.patch.object(alarm.METRICS, 'send_counter') as counter:
            self.round()
        assert True is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'], self.history()
        assert [('start', 'lock'), ('end', 'lock')] == self.told()
        counted = [call.args[0] for call in counter.call_args_list]
        assert ['baremetal_acc.alarms.lock', 'baremetal_acc.alarms_over.lock'] == [
            name[name.index('baremetal_acc.') :] for name in counted
        ]
        assert [] == self.alarms()
        (text,) = [e for e in self.history() if e.startswith('alarm: ')]
        assert gpu in text
        assert ROOT in text
        assert {gpu} == self.node_state.exposed
        assert not self.node.maintenance
        self.round()
        assert [('start', 'lock'), ('end', 'lock')] == self.told(), 'told once'
        everything = str(_impl_test.NOTIFICATIONS) + str(self.history())
        assert self.machine.bmcs['host'].password not in everything

    def test_a_lock_that_cannot_be_closed_stays_an_alarm_that_is_told_once(self) -> None:
        """A BMC that takes the write and ignores it is not believed."""
        self.handed_over()
        self.open_root()
        self.machine.fault('lock-ignored', device='GPU_0')
        for _ in range(3):
            self.round()
        assert [('start', 'lock')] == self.told()
        assert ['lock'] == self.alarms()
        assert not self.node.maintenance
        self.machine.clear_faults()
        self.round()
        assert [('start', 'lock'), ('end', 'lock')] == self.told()
        assert [] == self.alarms()


class TestErrors(WatchCase):
    """A BMC answers the write to a lock with an error of its own."""

    def closed_by(self, *, carries_out: bool, status: int = 500) -> None:
        """One round in which it does."""
        patch = RedfishWriter.patch
        error = HttpRefused(bmc='host', uri='/redfish/v1', what=f'PATCH refused with HTTP {status}', status=status)

        def errs(writer: RedfishWriter, document: Any, body: Any) -> None:
            if carries_out:
                patch(writer, document, body)
            raise error

        with mock.patch.object(RedfishWriter, 'patch', errs):
            self.round()

    def test_a_lock_that_was_closed_all_the_same_is_read_back_and_proven(self) -> None:
        """The alarm is over with the same round, and what closed it is on record."""
        self.handed_over()
        self.open_root()
        self.closed_by(carries_out=True)
        assert True is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']
        assert [('start', 'lock'), ('end', 'lock')] == self.told(), self.history()
        assert [] == self.alarms()
        assert any('was engaged again, although the request to its BMC failed: ' in e for e in self.history())

    def test_a_lock_that_is_still_open_is_told_with_what_the_bmc_said(self) -> None:
        """It stays an alarm, and the next round closes it."""
        self.handed_over()
        self.open_root()
        self.closed_by(carries_out=False)
        assert ['lock'] == self.alarms()
        assert any('could not be engaged again: ' in e and 'HTTP 500' in e for e in self.history())
        self.round()
        assert [('start', 'lock'), ('end', 'lock')] == self.told()


class TestShared(WatchCase):
    """A root of trust that several cards show."""

    def test_a_place_of_several_cards_is_written_once_and_recorded_for_each(self) -> None:
        """Else the watch would close it for one card after the other, for ever."""
        cards = [v.reading(LockState.UNLOCKED, accelerator=a) for a in (v.GPU, v.FPGA)]
        seen = v.inventory(v.gpu(locks=(cards[0],)), v.fpga(locks=(cards[1],)))
        mechanism = mock.Mock()
        mechanism.name = 'rot'
        bmc = mock.Mock()
        bmc.writer.return_value.session = 'ours'
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            one = watch._Round(task, node_store.load(task.node), watch.WatchRounds(), self.at)
            one._tools = mock.Mock(mechanisms=(mechanism,))
            with mock.patch.object(watch, 'sessions') as opened:
                opened.return_value.__enter__.return_value = {'host': bmc}
                assert one._engage(cards[:1], seen)
        assert 1 == mechanism.engage.call_count
        assert {v.GPU, v.FPGA} == {e.accelerator for e in self.node_state.evidence}


class TestHeld(WatchCase):
    """Somebody who may do no more than ask for power holds the node whenever a round ends."""

    def test_what_is_found_is_told_although_the_node_is_never_free(self) -> None:
        """In the log at once, and with the third round to everybody; rounds come with every tick until one is ended."""
        self.config(group='conductor', node_locked_retry_attempts=1)
        self.handed_over()
        self.open_root()
        observe = round_reading.execution.observe

        def taken(*arguments: Any, **named: Any) -> Any:
            found = observe(*arguments, **named)
            self.dbapi.update_node(self.node.id, {'reservation': 'somebody'})
            return found

        rounds = watch.rounds_of(self.service)
        self.at += STEP
        for expected in ([], [], [('start', 'lock')], [('start', 'lock')]):
            with (
                mock.patch.object(round_reading.execution, 'observe', taken),
                mock.patch.object(round_reading.LOG, 'error') as error,
            ):
                self.round(later=timedelta(seconds=1))
            self.dbapi.update_node(self.node.id, {'reservation': None})
            assert expected == self.told()
            assert ROOT in str(error.call_args)
        assert 4 == rounds.lost[self.node.uuid].rounds
        assert False is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']
        self.round(later=timedelta(seconds=1))
        assert True is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'], self.history()
        assert [('start', 'lock'), ('start', 'lock'), ('end', 'lock')] == self.told()
        assert {} == rounds.lost


class TestStates(WatchCase):
    """A node may leave ``active`` and its host run on."""

    def test_a_node_that_is_held_in_service_or_has_failed_is_watched(self) -> None:
        """A lessee's admin may bring it there, and a lock is closed again there as anywhere."""
        self.handed_over()
        for state in (states.SERVICEHOLD, states.DEPLOYFAIL, states.ERROR):
            self.dbapi.update_node(self.node.id, {'provision_state': state})
            self.open_root()
            _impl_test.reset()
            self.round()
            assert [('start', 'lock'), ('end', 'lock')] == self.told(), state
            assert True is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'], self.history()

    def test_a_deploy_that_is_held_is_watched_and_the_first_look_is_owed_all_the_same(self) -> None:
        """A step of the deploy behind our verification may hold it for as long as its asker likes, with the host on.

        So may one that waits, in maintenance: Ironic ends no deploy there. Otherwise a ramdisk is at work, which is let alone.
        """
        self.to_active()
        self.dbapi.update_node(self.node.id, {'provision_state': states.DEPLOYWAIT})
        self.round()
        assert ([], None) == (self.told(), self.node_state.watched)
        self.dbapi.update_node(self.node.id, {'maintenance': True})
        self.round()
        assert ([], None) == (self.told(), self.node_state.watched.looked)
        self.dbapi.update_node(self.node.id, {'provision_state': states.DEPLOYHOLD, 'maintenance': False})
        self.round()
        assert ([], None) == (self.told(), self.node_state.watched.looked)
        self.open_root()
        self.round()
        assert [('start', 'lock'), ('end', 'lock')] == self.told()
        assert True is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'], self.history()
        assert not [e for e in self.history() if 'the first inspection after the hand-over' in e]
        self.dbapi.update_node(self.node.id, {'provision_state': states.ACTIVE})
        self.round(later=timedelta(minutes=1))
        assert self.node_state.watched.looked is not None
        assert 1 == len([e for e in self.history() if 'the first inspection after the hand-over' in e])

    def test_a_deploy_that_is_held_before_our_verification_is_nobodys(self) -> None:
        """Nothing was handed over yet."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.dbapi.update_node(self.node.id, {'provision_state': states.DEPLOYHOLD})
        self.round()
        assert ([], None) == (self.told(), self.node_state.watched)

    def test_a_failed_node_that_was_never_handed_over_is_nobodys(self) -> None:
        """It is no adopted one."""
        self.dbapi.update_node(self.node.id, {'provision_state': states.ERROR})
        self.round()
        assert ([], None) == (self.told(), self.node_state.watched)

    def test_every_state_with_a_host_that_may_run_somebody_elses_code_is_watched_or_has_a_reason(self) -> None:
        """Whoever adds a state has to say which."""
        worked_on = 'a conductor works on it, and the rounds begin when it has ended'
        first = 'the first look is owed as soon as it is active'
        reasons = {
            states.DEPLOYING: first,
            states.DEPLOYDONE: first,
            states.SERVICING: worked_on,
            states.RESCUING: worked_on,
            states.UNRESCUING: worked_on,
        }
        assert provision_state.TENANT_STATES == set(watch.STATES) | reasons.keys()
        assert not set(watch.STATES) & reasons.keys()


class TestMaintenance(WatchCase):
    """Rules that ask for maintenance, and not for closing locks."""

    baseline = RULES.replace('match = { kind = "GPU" }', 'match = { kind = "GPU" }\non_drift = ["maintenance"]')

    def test_the_node_goes_to_maintenance_and_its_host_runs_on(self) -> None:
        """Nothing is written, and nobody is notified; the log and the history have it."""
        self.handed_over()
        self.open_root()
        power = self.machine.truth()['systems']['host']['power']
        self.round()
        assert (True, power) == (self.node.maintenance, self.machine.truth()['systems']['host']['power'])
        assert 'not as they were handed over' in self.node.maintenance_reason
        assert False is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']
        assert [] == self.told()
        assert ['lock'] == self.alarms()
        self.open_root(enabled=False)
        self.round()
        assert [] == self.alarms(), 'nodes in maintenance are watched, too'
        assert self.node.maintenance, 'and it is for people to take it away'


class TestOtherTroubles(WatchCase):
    """Firmware, cards, silence, and what is not for the watch to judge."""

    def test_firmware_that_was_changed_a_card_that_is_gone_and_one_that_was_swapped_are_alarms(self) -> None:
        """Each by a whole look; and each is over when it is."""
        self.handed_over()
        lie = self.machine.fault('version-lies', device='GPU_0', version='6.6.6', item_only=True)
        self.round()
        assert {('start', 'firmware')} == set(self.told())
        self.machine.clear_faults(lie)
        self.round()
        assert {('start', 'firmware'), ('end', 'firmware')} == set(self.told())
        assert [] == self.alarms()
        _impl_test.reset()
        gone = self.machine.fault('device-absent', device='GPU_1')
        self.round()
        assert [('start', 'card')] == self.told()
        self.machine.clear_faults(gone)
        self.round()
        assert [('start', 'card'), ('end', 'card')] == self.told()
        _impl_test.reset()
        self.machine.fault('card-exchanged', device='GPU_1')
        self.round()
        assert ('start', 'card') in self.told()
        assert any('GPU_1' in e and 'is in the place of' in e for e in self.history())

    def test_a_bmc_that_says_nothing_is_never_ok_and_an_alarm_after_three_rounds(self) -> None:
        """A lost lock found before it fell silent stays an alarm meanwhile."""
        self.handed_over()
        self.machine.fault('password-rotated')
        for expected in ([], [], [('start', 'unreadable')], [('start', 'unreadable')]):
            self.round()
            assert expected == self.told()
            assert ['unreadable'] == self.alarms()
        self.machine.clear_faults()
        self.round()
        assert [('start', 'unreadable'), ('end', 'unreadable')] == self.told()
        assert [] == self.alarms()

    def test_a_change_between_verify_and_hand_over_is_told_as_that_and_a_first_look_that_fails_is_owed(self) -> None:
        """It comes again within a minute, and compares with what the deploy has proven, whatever has happened since."""
        self.to_active()
        self.machine.fault('password-rotated')
        self.round(later=timedelta(seconds=1))
        assert None is self.node_state.watched.looked
        self.machine.clear_faults()
        self.open_root()
        asked = self.gets()
        self.round(later=timedelta(seconds=5))
        assert asked == self.gets()
        self.round(later=timedelta(minutes=1))
        assert any(e.startswith(f'alarm: {alarm.BETWEEN}: ') for e in self.history())
        (message,) = [m for _, m, _, _ in _impl_test.NOTIFICATIONS if m['event_type'] == 'baremetal.accelerator.alarm.start']
        assert True is message['payload']['ironic_object.data']['first_look']

    def test_a_node_that_leaves_or_is_taken_while_it_is_looked_at_is_not_judged(self) -> None:
        """What was seen of another state, or beside a step, counts for nothing."""
        self.handed_over()
        self.open_root()
        was = self.node_state.watched
        observe = round_reading.execution.observe

        def undeployed(*arguments: Any, **named: Any) -> Any:
            found = observe(*arguments, **named)
            self.dbapi.update_node(self.node.id, {'provision_state': states.DELETING})
            return found

        def taken(*arguments: Any, **named: Any) -> Any:
            found = observe(*arguments, **named)
            self.dbapi.update_node(self.node.id, {'reservation': 'somebody'})
            return found

        for meanwhile in (undeployed, taken):
            round_reading.execution.observe = meanwhile
            try:
                self.round()
            finally:
                round_reading.execution.observe = observe
                self.dbapi.update_node(self.node.id, {'provision_state': states.ACTIVE, 'reservation': None})
            self.node.refresh()
            assert (was, []) == (self.node_state.watched, self.told())
            assert False is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']
        self.round()
        assert [('start', 'lock'), ('end', 'lock')] == self.told()

    def test_what_our_own_service_does_is_no_trouble_and_what_it_opens_is(self) -> None:
        """Unlocking on purpose is an alarm that nobody undoes behind the operator's back."""
        self.handed_over()
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.round()
        assert [] == self.told(), self.history()
        (self._folder / 'baseline.toml').write_text(BASELINE)
        self.serve('update_accelerator_firmware')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert GPU_NEW == self.version('host/HGX_FW_GPU_0')
        self.round()
        assert [] == self.told(), self.history()
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.round()
        assert ('start', 'opened') in self.told()
        assert False is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.round()
        assert [] == self.alarms(), self.history()


class TestAdopted(WatchCase):
    """A node that became active without our steps."""

    def test_it_is_an_alarm_and_its_locks_are_closed(self) -> None:
        """Nothing says how it was handed over; the next cleaning takes it for one that comes back."""
        self.node.provision_state = states.ACTIVE
        self.node.save()
        assert False is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']
        self.round(later=timedelta(seconds=1))
        assert ('start', 'unproven') in self.told()
        assert True is self.locks()['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'], self.history()
        assert ['unproven'] == self.alarms()
        assert any('adopted' in e for e in self.history())
        state = self.node_state
        assert state.handed_over
        self.round()
        assert 1 == self.told().count(('start', 'unproven'))
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.to_active()
        self.round()
        assert [] == self.alarms()
        assert self.node_state.lifecycle > state.lifecycle


class TestUncertified(WatchCase):
    """The hand-over is known, and its certificate is not there any more, or not ours."""

    def test_an_active_node_without_a_certificate_that_holds_is_an_alarm(self) -> None:
        """Whoever takes it out of the node has not been handed anything over."""
        self.handed_over()
        assert [] == self.alarms()
        self.node.refresh()
        state = node_store.load(self.node)
        watched = replace(state.watched, looked=state.watched.looked - timedelta(hours=2))
        node_store.store(self.node, replace(state, certificate=None, watched=watched))
        self.round()
        assert [('start', 'unproven')] == self.told()
        assert any('no certificate shows its state at hand-over' in e for e in self.history())


class TestBack(WatchCase):
    """The node is ours again."""

    def undeploy(self) -> None:
        """Ironic's own way back, to the end of automated cleaning."""
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        self.node.refresh()

    def test_the_host_is_off_before_anything_is_read_and_the_difference_is_told_before_it_is_put_right(self) -> None:
        """A card whose lock stood open is written anew at the right version; the other one is left alone."""
        self.handed_over()
        gpu, other = self.gpu(0), self.gpu(1)
        self.machine.power('On')
        self.open_root()
        self.machine.remote.reset_log()
        self.undeploy()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        log = self.machine.remote.log(reads=True)
        first = next(n for n, e in enumerate(log) if 'Reset' in e.get('path', ''))
        before = [e['path'] for e in log[:first] if e.get('method') == 'GET' or 'method' not in e]
        assert not [p for p in before if 'HGX' in p or 'FirmwareInventory' in p], before
        (text,) = [e for e in self.history() if 'differences from how the node was handed over' in e]
        assert gpu in text
        assert other not in text
        assert ('start', 'lock') in self.told()
        (again,) = [e for e in self.history() if e.startswith('to be written again')]
        assert gpu in again
        assert other not in again
        done = [e for e in self.history() if 'reconcile_accelerators is done' in e][-1]
        assert f'of {gpu} from {GPU_OLD} to {GPU_OLD}' in done
        assert other not in done
        assert (frozenset(), frozenset(), None) == (self.node_state.exposed, self.node_state.anew, self.node_state.handed)
        assert all(closed for name, closed in self.locks().items() if 'Inband' in name)

    def test_a_host_that_cannot_be_powered_off_is_not_cleaned(self) -> None:
        """And nothing of it is read meanwhile."""
        self.handed_over()
        self.machine.power('On')
        self.config(group='baremetal_acc', reset_timeout=1)
        self.machine.fault('http-status', uri='*/Systems/*/Actions/ComputerSystem.Reset', status=400)
        self.undeploy()
        assert states.CLEANFAIL == self.settle()
        assert self.node_state.handed is not None, 'it is compared when it can be'

    def test_a_node_that_came_back_as_it_was_is_left_alone(self) -> None:
        """Nothing differs, nothing is written; and the host runs on where its BMC would show nothing without it."""
        self.handed_over()
        self.config(group='baremetal_acc', power_off_tenant_host=False)
        self.machine.power('On')
        self.undeploy()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert any('handed over: none' in e for e in self.history())
        assert not [e for e in self.history() if e.startswith('to be written again')]
        assert ([], 'On') == (self.told(), self.machine.truth()['systems']['host']['power'])


class TestBackWithoutAnImage(WatchCase):
    """No rule says what the cards have to run."""

    baseline = 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\n'

    def test_a_card_whose_lock_stood_open_and_that_cannot_be_written_is_quarantined(self) -> None:
        """Nobody can say what it runs."""
        self.handed_over()
        gpu = self.gpu(0)
        self.open_root()
        self.round()
        assert {gpu} == self.node_state.exposed
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.CLEANFAIL == self.settle(), self.history()
        assert [gpu] == [q.device for q in self.node_state.quarantined]
        assert 'could not be written again' in self.node.last_error
        assert self.node.maintenance

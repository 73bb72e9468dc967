# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node of ``ipmi-acc`` is inspected, locked, deployed, watched and recovered; unlock opens what we closed, and no more."""

import logging
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from ironic.common import exception, states
from ironic.conductor import task_manager
from ironic.drivers import base

from baremetal_acc.emulator.ipmi.site import IpmiOptions
from baremetal_acc.model.lock import WritePath
from baremetal_acc_ironic.firmware import IpmiAccFirmware, RedfishAccFirmware
from baremetal_acc_ironic.periodics import watch
from baremetal_acc_ironic.power import PowerRefused
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.steps import runner
from tests.emulator_ipmi.programs import Ipmitool
from tests.ironic.case import TYPE
from tests.ironic.ipmi_case import APP, LOCK, WRITES, IpmiCase
from tests.ironic.test_watch import STEP, WatchCase

REFUSED = b'\xd4'


class TestNode(IpmiCase):
    """It looks like any other node of Ironic."""

    def test_it_takes_our_interfaces_by_itself(self) -> None:
        """They are preferred, and both types may be enabled in one conductor."""
        node = self.make_node(name='other', uuid='7c7a1b52-2b8e-4f6d-8a5e-0a1b2c3d4e5f')
        for name in ('firmware', 'inspect', 'power'):
            setattr(node, f'{name}_interface', None)
        node.save()
        with task_manager.acquire(self.context, node.uuid, shared=True) as task:
            task.driver.power.validate(task)
            task.driver.inspect.validate(task)
            task.driver.firmware.validate(task)
            assert isinstance(task.driver.firmware, IpmiAccFirmware)
        told = self.service.get_driver_properties(self.context, self.hardware_type)
        assert {'ipmi_address', 'ipmi_cipher_suite', 'acc_bmcs', 'acc_exposure'} <= told.keys()
        assert [] == [key for key in told if key.startswith('redfish_')]

    def test_the_interfaces_of_the_other_type_are_not_for_it(self) -> None:
        """Ironic refuses to load such a node, so nobody turns it by the wrong one."""
        for name in ('firmware', 'inspect', 'power'):
            self.node.refresh()
            setattr(self.node, f'{name}_interface', TYPE)
            self.node.save()
            with (
                pytest.raises(exception.IncompatibleInterface, match='not supported by hardware type IpmiAccHardware'),
                task_manager.acquire(self.context, self.node.uuid, shared=True),
            ):
                pass
            setattr(self.node, f'{name}_interface', self.hardware_type)
            self.node.save()

    def test_it_has_the_steps_of_the_other_type_and_ironics_own_update_is_none_of_them(self) -> None:
        """Same names, arguments and priorities; an update by Ironic itself is not supported, and says so."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            for steps in ('clean_steps', 'deploy_steps', 'service_steps'):
                ours, others = getattr(IpmiAccFirmware(), steps), getattr(RedfishAccFirmware(), steps)
                assert [] != ours
                assert ours == [s for s in others if s['step'] != 'update']
            with pytest.raises(exception.UnsupportedDriverExtension, match=r'does not support firmware\.update'):
                task.driver.firmware.update(task, [])
        assert issubclass(IpmiAccFirmware, base.FirmwareInterface)

    def test_inspection_finds_the_accelerators_and_says_who_they_are(self) -> None:
        """Out of band: inventory, capabilities, firmware, and the cards that must be there from now on."""
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        self.service.inspect_hardware(self.context, self.node.uuid)
        self.node.refresh()
        assert states.MANAGEABLE == self.node.provision_state, self.node.last_error
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found = record.stored(task)
        assert found is not None
        (card,) = found.accelerators
        assert ('FPGA PAC D5005', frozenset({card.id})) == (card.model, self.node_state.known)
        assert 'accelerators:1,accelerators_fpga:1' == self.node.properties['capabilities']

    def test_power_is_ironics_own(self) -> None:
        """By ipmitool."""
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            assert states.POWER_ON == task.driver.power.get_power_state(task)
            task.driver.power.set_power_state(task, states.POWER_OFF)
            assert 'Off' == self.power()


class TestLife(IpmiCase):
    """Cleaning, deploy, service."""

    def test_what_the_baseline_demands_is_closed_for_a_tenant_and_opened_again_by_an_unlock(self) -> None:
        """Cleaning locks, the deploy proves it, the tenant is refused; what the vendor has closed stays closed."""
        self.vendor_closes(0x02, 0x47)
        before = self.closed()
        assert ['06/02', '06/47'] == before
        self.to_active()
        assert set(self.closed()) >= WRITES
        assert ('On', True) == (self.power(), self.node_state.handed_over)
        assert any('every lock was read back' in e for e in self.history())
        assert {LOCK} == {e.mechanism for e in self.node_state.evidence}
        with self.host() as host:
            assert REFUSED == host.ask(APP, 0x60, b'\x0f\6\0' + b'\xff' * 16)[:1]
        assert self.undone()

        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (before, (), 'Off') == (self.closed(), self.undone(), self.power())
        with (
            task_manager.acquire(self.context, self.node.uuid, shared=False) as task,
            pytest.raises(PowerRefused, match=r'locks of its accelerators are open since .*unlock_accelerators by'),
        ):
            task.driver.power.set_power_state(task, states.POWER_ON)
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert set(self.closed()) >= WRITES
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            task.driver.power.set_power_state(task, states.POWER_ON)
        assert 'On' == self.power()

    def test_an_unlock_that_nobody_remembers_anything_for_fails_before_the_host_is_touched(self) -> None:
        """The node was made anew, or what is remembered of it is lost: nothing could be opened in the end."""
        self.to_active()
        before = self.closed()
        node_store.store(self.node, replace(self.node_state, undos=()))
        self.serve('unlock_accelerators')
        assert states.SERVICEFAIL == self.settle()
        assert 'no record of what we engaged' in self.node.last_error
        assert 'the record is kept where the lock was engaged' in self.node.last_error
        assert (before, 'On', None) == (self.closed(), self.power(), self.node_state.opened)

    def test_a_node_that_comes_back_and_goes_again_keeps_the_record(self) -> None:
        """Locking what is closed already adds nothing to it: an unlock of a later lifecycle opens what the first closed."""
        before = self.closed()
        self.to_active()
        record_of_first = self.undone()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert record_of_first == self.undone()
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (before, ()) == (self.closed(), self.undone())

    def test_a_deploy_fails_where_the_firewall_was_opened_and_cannot_be_closed(self) -> None:
        """The lock step of the deploy closes what is open; without it the verification names path and place."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.somebody_opens(*self.undone())
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        assert 'lock host-bmc-ipmi' in self.node.last_error
        assert f'{LOCK} at host:/ipmi/firewall/f' in self.node.last_error


class TestInterrupted(IpmiCase):
    """A step is cut off, and somebody else goes on."""

    def setUp(self) -> None:
        super().setUp()
        self.vendor_closes(0x47)
        self.before = self.closed()
        self.to_active()
        self.addCleanup(setattr, runner, 'TURNS', runner.TURNS)
        runner.TURNS = 1

    def until(self, condition: Any) -> None:
        """Turns of the job, one tick each."""
        for _ in range(200):
            if condition():
                return
            self.poll()
        raise AssertionError(f'it did not come to that: {self.node_state}, {self.node.last_error}')

    def lose_the_step(self) -> None:
        """The node is active, whatever its job is at."""
        self.node.refresh()
        self.node.provision_state, self.node.service_step = states.ACTIVE, {}
        self.node.save()

    def unlocked_in_the_end(self) -> None:
        """Everything of ours is open, and nothing else."""
        runner.TURNS = 20
        self.clear()
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (self.before, ()) == (self.closed(), self.undone())

    def test_an_unlock_that_was_cut_off_is_closed_again_and_its_record_is_kept(self) -> None:
        """The recovery engages anew what was open; what it closes stands in the record before it is closed."""
        self.serve('unlock_accelerators')
        self.until(lambda: self.closed() == self.before)
        job = self.node_state.job
        assert job is not None
        assert job.writing
        with (
            task_manager.acquire(self.context, self.node.uuid, shared=False) as task,
            pytest.raises(PowerRefused, match='unlock_accelerators works on its accelerators'),
        ):
            task.driver.power.set_power_state(task, states.POWER_ON)
        self.lose_the_step()
        runner.TURNS = 20  # what is closed and that all is read back come in one turn
        self.until(lambda: self.node_state.job is None)
        assert (True, None) == (self.node.maintenance, self.node_state.opened)
        assert 'all locks are engaged again' in self.node.maintenance_reason
        assert set(self.closed()) >= WRITES
        assert self.undone()
        self.unlocked_in_the_end()

    def test_a_bmc_that_refuses_the_recovery_is_not_asked_at_every_poll(self) -> None:
        """The password was changed meanwhile. The account is not locked out; with the right one the locks come back."""
        self.serve('unlock_accelerators')
        self.until(lambda: self.closed() == self.before)
        self.lose_the_step()
        good = dict(self.node.driver_info)
        self.node.driver_info = good | {'ipmi_password': 'somebody elses'}
        self.node.save()
        for _ in range(8):
            self.poll()
        job = self.node_state.job
        assert job is not None
        assert [('read', 1)] == [(one.right, one.times) for one in job.turned_away]
        assert 'the password is wrong' in self.node.maintenance_reason
        self.node.driver_info = good
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
            longer_ago = tuple(replace(one, at=one.at - timedelta(seconds=10)) for one in job.turned_away)
            node_store.store(task.node, replace(self.node_state, job=replace(job, turned_away=longer_ago)))
        runner.TURNS = 20
        self.until(lambda: self.node_state.job is None)
        assert 'all locks are engaged again' in self.node.maintenance_reason
        assert set(self.closed()) >= WRITES

    def test_a_lock_that_was_cut_off_right_after_it_was_closed_is_not_taken_for_the_vendors(self) -> None:
        """The record was stored before: a later unlock opens all of it."""
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (self.before, ()) == (self.closed(), self.undone())
        self.serve('lock_accelerators')
        self.until(lambda: set(self.closed()) >= WRITES)
        self.lose_the_step()
        self.until(lambda: self.node_state.job is None)
        self.unlocked_in_the_end()

    def test_what_a_job_has_closed_that_cleaning_takes_over_is_known(self) -> None:
        """The node is undeployed in the middle of it."""
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.serve('lock_accelerators')
        self.until(lambda: set(self.closed()) >= WRITES)
        runner.TURNS = 20
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert any('takes over from lock_accelerators' in e for e in self.history())
        self.unlocked_in_the_end()


class TestWatched(WatchCase, IpmiCase):
    """A node that is with a tenant."""

    baseline = IpmiCase.baseline

    def test_a_firewall_that_somebody_opened_is_told_and_closed_again(self) -> None:
        """By the first round after it; the record of what we have closed is the same, so an unlock opens all of it."""
        before = self.closed()
        self.handed_over()
        closed, known = self.closed(), self.undone()
        self.round()
        assert ([], closed) == (self.alarms(), self.closed())
        self.somebody_opens(*known)
        assert before == self.closed()
        self.round()
        assert closed == self.closed()
        assert any('could not be engaged' not in e and 'was engaged again' in e for e in self.history())
        assert any('ipmi_firmware_firewall' in e for e in self.history())
        self.round()
        assert ([], known) == (self.alarms(), self.undone())
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (before, ()) == (self.closed(), self.undone())

    def test_what_was_open_when_it_was_handed_over_and_is_closed_by_the_watch_is_remembered(self) -> None:
        """A part that was opened after the hand-over by others goes into the record, too: we have closed it."""
        self.handed_over()
        state = self.node_state
        node_store.store(self.node, replace(state, undos=()))
        self.somebody_opens(*[record for undo in state.undos for record in undo.closed])
        self.round()
        assert [u.closed for u in state.undos] == [u.closed for u in self.node_state.undos]

    def test_rounds_come_at_the_nodes_moment(self) -> None:
        """As for the other type; but a session of IPMI does not outlive the interval, and is not kept."""
        self.handed_over()
        watched = self.node_state.watched
        self.round(later=STEP)
        assert watched == self.node_state.watched, 'it was a quiet glance'
        assert frozenset() == watch.rounds_of(self.service).sessions.owners()


class TestAccounts(WatchCase, IpmiCase):
    """Who may log in to the BMC is named by a rule, and somebody makes himself an account over the LAN."""

    baseline = IpmiCase.baseline + 'bmc_users = ["admin=administrator"]\non_drift = ["notify", "maintenance"]\n'

    def make_account(self) -> None:
        """A second administrator, by ipmitool."""
        self.ask('user', 'set', 'name', '5', 'mallory')
        self.ask('user', 'set', 'password', '5', 'of mallory')
        self.ask('channel', 'setaccess', '1', '5', 'ipmi=on', 'privilege=4')
        self.ask('user', 'enable', '5')

    def take_account(self) -> None:
        """The operator disables it."""
        self.ask('user', 'disable', '5')

    def ask(self, *words: str) -> None:
        """Over the LAN, with the operator's account."""
        bmc = self.machine.bmcs['host']
        Ipmitool(bmc.ipmi_port, self._folder, user=bmc.username, password=bmc.password).right(*words)

    def refused(self, flow: str) -> None:
        """The step has failed for the account."""
        assert flow == self.settle()
        assert "expected no accounts but admin=administrator, found 'mallory' (number 5, administrator)" in self.node.last_error

    def test_no_cleaning_and_no_deploy_passes_while_it_is_there(self) -> None:
        """Locked it is all the same; and a machine from which the account is taken goes the whole way."""
        self.make_account()
        self.clean()
        self.refused(states.CLEANFAIL)
        assert set(self.closed()) >= WRITES, 'locked first, then looked who there is'
        self.clear()
        self.clean('verify_accelerators')
        self.refused(states.CLEANFAIL)
        self.take_account()
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.make_account()
        self.deploy()
        self.refused(states.DEPLOYFAIL)
        assert not self.node_state.handed_over

    def test_the_watch_tells_it_and_that_it_is_gone(self) -> None:
        """By whole looks: a glance reads no accounts. The rules of the node's devices say what is done about it."""
        self.handed_over()
        self.make_account()
        self.round()
        assert ([], False) == (self.alarms(), self.node.maintenance), 'a glance does not see it'
        state = self.node_state
        assert state.watched is not None
        assert state.watched.looked is not None
        long_ago = state.watched.looked - timedelta(hours=2)
        node_store.store(self.node, replace(state, watched=replace(state.watched, looked=long_ago)))
        self.round()
        assert (['account'], [('start', 'account')]) == (self.alarms(), self.told())
        text = "account 'mallory' (number 5, administrator) of BMC host: no rule expects it"
        assert text in self.node.maintenance_reason
        assert any(f'alarm: {text}' in e for e in self.history())
        self.round()
        assert [('start', 'account')] == self.told(), 'once'
        self.take_account()
        self.round()
        assert ([], [('start', 'account'), ('end', 'account')]) == (self.alarms(), self.told())

    def test_locking_fails_on_it_though_everything_is_locked(self) -> None:
        """Whoever is that administrator opens it again. The host of a node that is serviced stays off."""
        self.to_active()
        self.make_account()
        self.serve('lock_accelerators')
        self.refused(states.SERVICEFAIL)
        assert set(self.closed()) >= WRITES
        assert None is self.node_state.opened
        self.take_account()
        self.clear()
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error

    def test_a_service_that_reconciles_does_not_give_the_host_back_to_it(self) -> None:
        """The locks were opened with the host off; they are closed, and the host stays off with the account there."""
        self.to_active()
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.make_account()
        self.serve('reconcile_accelerators')
        self.refused(states.SERVICEFAIL)
        assert ('Off', True) == (self.power(), set(self.closed()) >= WRITES)


class TestNoFirewall(IpmiCase):
    """A BMC that has none, nor takes firmware by IPMI, as many."""

    parameters = {'ipmi': IpmiOptions(firewall=False, hpm=False)}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.lines: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = self.lines.append  # type: ignore[method-assign]
        logger = logging.getLogger('baremetal_acc_ironic')
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)

    def test_that_is_an_ordinary_answer(self) -> None:
        """Taking stock succeeds without a trace in the log; a rule that demands the path is refused by name."""
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found = record.stored(task)
        assert found is not None
        (card,) = found.accelerators
        assert [] == [r for r in card.locks if r.blocks == frozenset({WritePath.HOST_BMC_IPMI}) and r.mechanism == LOCK]
        assert [] == [r for r in self.lines if r.exc_info is not None or r.levelno >= logging.ERROR]
        self.clean('lock_accelerators')
        assert states.CLEANFAIL == self.settle()
        assert 'no mechanism' in self.node.last_error
        assert [] == [r for r in self.lines if r.exc_info is not None]

    def test_where_no_rule_demands_it_the_node_is_deployed(self) -> None:
        """Nothing is closed, and nothing is said to be."""
        (self._folder / 'baseline.toml').write_text('format = 1\n[[rule]]\nblock = []\n')
        self.to_active()
        assert ((), ()) == (self.node_state.evidence, self.undone())


class TestNoAnswer(IpmiCase):
    """Somebody else's password, another key, nobody there: the node says which BMC, and why."""

    def failed(self, **info: Any) -> str:
        """Why taking stock failed."""
        before = dict(self.node.driver_info)
        self.clear()
        self.node.driver_info = before | info
        self.node.save()
        self.clean('inventory_accelerators')
        assert states.CLEANFAIL == self.settle()
        self.node.driver_info = before
        self.node.save()
        assert f'BMC host (ipmi://127.0.0.1:{self.machine.bmcs["host"].ipmi_port})' in self.node.last_error
        return str(self.node.last_error)

    def test_the_node_says_so(self) -> None:
        """No secret, and no trace."""
        told = self.failed(ipmi_password='hunter2hunter2')
        assert 'the password is wrong' in told
        assert 'hunter2' not in told
        told = self.failed(ipmi_hex_kg_key='0b' * 20)
        assert 'check the K_G of the BMC: ipmi_hex_kg_key in driver_info' in told
        assert '0b0b' not in told
        self.config(group='baremetal_acc', bmc_timeout=1)
        self.machine.stop()
        assert 'not reachable' in self.failed()


class TestForgetful(IpmiCase):
    """A BMC whose firewall is open after a restart."""

    parameters = {'ipmi': IpmiOptions(firewall_survives_reset=False)}  # noqa: RUF012

    def test_it_is_locked_again_by_the_deploy(self) -> None:
        """What was open before the first lock is opened in the end, though the BMC has forgotten it meanwhile."""
        before = self.closed()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        with self.host() as host:
            assert REFUSED == host.ask(APP, 0x02)[:1]
        self.restart_bmc()
        assert before == self.closed()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert set(self.closed()) >= WRITES
        self.serve('unlock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (before, ()) == (self.closed(), self.undone())

    def restart_bmc(self) -> None:
        """By the operator, over the LAN."""
        bmc = self.machine.bmcs['host']
        tool = Ipmitool(bmc.ipmi_port, self._folder, user=bmc.username, password=bmc.password)
        tool.right('mc', 'reset', 'cold')
        end = time.monotonic() + 20
        while self.closed() or tool('mc', 'info', tries=('1', '1')).code:
            assert time.monotonic() < end

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of [bmc] in Ironic: a deploy fails by them, and the watch reads the settings of a deployed node once an hour."""

import contextlib
from datetime import timedelta
from types import SimpleNamespace
from unittest import mock

import pytest
from ironic.common import states
from ironic.conductor import task_manager

from baremetal_acc.model.job import Flow
from baremetal_acc_ironic.periodics import round_reading, watch
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.steps import host_hold, wall_clock
from tests.ironic.test_watch import RULES, WatchCase

PROTOCOL = '/redfish/v1/Managers/BMC_0/NetworkProtocol'


class TestBmcSettings(WatchCase):
    """A rule demands that IPMI over LAN is disabled, as it is."""

    ahead = timedelta()
    baseline = RULES + '\n[bmc]\nname = "bmcs"\nipmi_over_lan = "disabled"\n'

    def enable_ipmi(self, *, enabled: bool = True) -> None:
        """Somebody enables IPMI over LAN, or disables it again."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            target = watch.target_of(task)
            connection = round_reading.tools_of(task, node_store.load(task.node), images=False).connect(target.bmcs[0])
        try:
            writer = connection.writer()
            writer.patch(writer.fresh(PROTOCOL), {'IPMI': {'ProtocolEnabled': enabled}})
        finally:
            connection.close()

    def full_round(self, after: timedelta) -> None:
        """A round that inspects the node completely, so long after the round before."""
        self.ahead += after
        with mock.patch.object(watch.wall_clock, 'now', return_value=wall_clock.now() + self.ahead):
            self.round()

    def reads(self) -> int:
        """How often the setting was read."""
        return sum(1 for one in self.machine.log(reads=True) if (one['method'], one['path']) == ('GET', PROTOCOL))

    def test_the_watch_reads_them_once_an_hour_and_tells_of_a_change_until_it_is_over(self) -> None:
        """Inspections in between ask nothing of it, and repeat what was found."""
        self.config(group='baremetal_acc', watch_look_interval=60)
        self.handed_over()
        assert [] == self.alarms()
        self.enable_ipmi()
        self.machine.remote.reset_log()
        self.full_round(timedelta(minutes=10))
        assert (0, []) == (self.reads(), self.alarms()), 'read less than an hour ago'
        self.full_round(timedelta(hours=1))
        assert (1, ['setting'], [('start', 'setting')]) == (self.reads(), self.alarms(), self.told())
        told = next(e for e in self.history() if 'BMC setting ipmi_over_lan of host' in e)
        assert 'expected disabled, found enabled' in told
        assert '(rule bmcs)' in told
        self.enable_ipmi(enabled=False)
        self.machine.remote.reset_log()
        self.full_round(timedelta(minutes=10))
        assert (0, ['setting']) == (self.reads(), self.alarms())
        self.full_round(timedelta(hours=1))
        assert (1, [], [('start', 'setting'), ('end', 'setting')]) == (self.reads(), self.alarms(), self.told())
        assert states.ACTIVE == self.node.provision_state

    def test_a_node_is_not_handed_over_with_a_bmc_that_differs(self) -> None:
        """The deploy fails, and names the setting."""
        self.enable_ipmi()
        with contextlib.suppress(AssertionError):
            self.to_active()
        self.node.refresh()
        assert states.ACTIVE != self.node.provision_state
        assert 'BMC setting ipmi_over_lan of host' in str(self.node.last_error), self.node.last_error

    def test_the_step_that_verifies_reads_them_itself(self) -> None:
        """Whatever the step before it has read: without the step that engages the locks nothing else has read them."""
        self.enable_ipmi()
        self.clean('verify_accelerators')
        self.node.refresh()
        assert states.CLEANFAIL == self.node.provision_state
        assert 'BMC setting ipmi_over_lan of host: expected disabled, found enabled' in str(self.node.last_error)
        self.enable_ipmi(enabled=False)
        self.node.maintenance = False
        self.clean('verify_accelerators')
        self.node.refresh()
        assert 'BMC setting' not in str(self.node.last_error)


class TestRestore(WatchCase):
    """A rule also says to restore what it demands."""

    baseline = RULES + (
        '\n[bmc]\nname = "bmcs"\nipmi_over_lan = "disabled"\nboot_override = "None"\n'
        'restore = ["ipmi_over_lan", "boot_override"]\n'
    )

    def test_cleaning_without_a_ramdisk_restores_what_a_tenant_may_have_changed(self) -> None:
        """The step plans each setting, writes it, and reads it back."""
        system = self.machine.bmcs['host'].system
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            target = watch.target_of(task)
            connection = round_reading.tools_of(task, node_store.load(task.node), images=False).connect(target.bmcs[0])
        with connection:
            writer = connection.writer()
            writer.patch(writer.fresh(PROTOCOL), {'IPMI': {'ProtocolEnabled': True}})
            boot = {'BootSourceOverrideEnabled': 'Once', 'BootSourceOverrideTarget': 'Pxe'}
            writer.patch(writer.fresh(system), {'Boot': boot})
        self.machine.remote.reset_log()
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        step = {'interface': 'firmware', 'step': 'reconcile_accelerators'}
        self.service.do_node_clean(self.context, self.node.uuid, [step], disable_ramdisk=True)
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        written = [(one['method'], one['path']) for one in self.machine.log()]
        assert [1, 1] == [written.count(('PATCH', place)) for place in (PROTOCOL, system)], written
        assert any('2 restore setting' in e for e in self.history()), self.history()


@pytest.mark.parametrize(
    ('flow', 'info', 'expected'),
    [
        (Flow.CLEAN, {}, True),
        (Flow.CLEAN, {'cleaning_disable_ramdisk': False}, True),
        (Flow.CLEAN, {'cleaning_disable_ramdisk': True}, False),
        (Flow.SERVICE, {'cleaning_disable_ramdisk': True}, True),
        (Flow.SERVICE, {'service_disable_ramdisk': True}, False),
        (Flow.DEPLOY, {'cleaning_disable_ramdisk': True, 'service_disable_ramdisk': True}, True),
    ],
)
def test_a_ramdisk_may_start_unless_the_flow_is_without_one(flow: Flow, info: dict[str, bool], expected: bool) -> None:
    """Then virtual media and boot overrides are left alone. Ironic itself says which flow is without one."""
    task = SimpleNamespace(node=SimpleNamespace(driver_internal_info=info))
    assert expected is host_hold.may_boot_ramdisk(task, flow)
